//! Partial parity logs of Linux md: the scan of a log's area, and the replay of what its headers name.
//!
//! The input is laid over the log of one member of a dirty RAID-5, as it is or as a header whose checksums are right; another member
//! may be missing. Data that members return are never changed by a replay, whatever a log says.
#![no_main]

use base::checksum::crc32c;
use base::units::BLOCK_BYTES;
use block::md::SECTOR_BYTES;
use block::md::assembly::judge;
use block::md::member::Member;
use block::md::ppl::{self, Entry, HEADER_BYTES, HEADER_SECTORS, Header, Origin, entry::ENTRY_BYTES};
use block::md::reader::Reader;
use block::md::recovered::recover;
use block::md::superblock::{SUPERBLOCK_BYTES, Shape, feature};
use fuzz::md_array::{ARRAY, bytes, planned};
use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const MEMBERS: u32 = 4;
const DATA_OFFSET: u64 = 240;
const MEMBER_SECTORS: u64 = 64;
const LOG_SECTORS: u16 = 160;
const SHAPE: Shape = Shape { level: 5, layout: 2, size: MEMBER_SECTORS, chunk: 16, members: MEMBERS };

/// Members of a dirty array, and the place of their logs.
static MEMBERS_AT_FIRST: LazyLock<(Vec<Vec<u8>>, u64)> = LazyLock::new(|| {
    let sectors = DATA_OFFSET + MEMBER_SECTORS + 64;
    let planned = planned(SHAPE, sectors, DATA_OFFSET, Some(LOG_SECTORS));
    let mut log = 0;
    let members = planned.into_iter().map(|mut member| {
        let mut content: Vec<u8> = (0_u32..)
            .map(|byte| (byte.wrapping_mul(byte) >> 7).to_le_bytes()[0])
            .take(bytes(sectors))
            .collect();
        content[..bytes(DATA_OFFSET)].fill(0);
        member.superblock.features &= !feature::RECOVERY_OFFSET;
        member.superblock.state.resync_offset = 0;
        for (sector, written) in &member.before {
            content[bytes(*sector)..][..written.len()].copy_from_slice(written);
        }
        let at = bytes(member.superblock.device.super_offset);
        content[at..at + SUPERBLOCK_BYTES].copy_from_slice(&member.record());
        log = member.superblock.ppl_place().expect("it has a log").0;
        content
    });
    (members.collect(), log)
});

/// The header that bytes make: entries one after the other, with checksums of what follows them, or nearly.
fn built(rest: &[u8]) -> Vec<u8> {
    let (entries, behind) =
        rest.split_at(rest.len().min(usize::from(rest.first().map_or(0, |first| first % 7)) * ENTRY_BYTES));
    let mut content = Vec::new();
    let word = |chunk: &[u8], at: usize| u32::from_le_bytes(*chunk[at..].first_chunk().expect("24 bytes"));
    let entry = |chunk: &[u8]| {
        // Most numbers are such as may be meant.
        let is_plain = chunk[7] & 1 == 0;
        let (sector, pp, data) = (word(chunk, 0), word(chunk, 8), word(chunk, 12));
        let mut entry = Entry {
            data_sector: if is_plain { u64::from(sector % 24) * 8 } else { sector.into() },
            pp_bytes: if is_plain { pp % 3 * 4096 } else { pp },
            data_bytes: if is_plain { data % 7 * 4096 } else { data },
            parity_member: if is_plain { word(chunk, 16) % MEMBERS } else { word(chunk, 16) },
            checksum: word(chunk, 20),
        };
        if usize::try_from(entry.pp_bytes).is_ok_and(|bytes| bytes <= 8192) && chunk[6] & 7 != 0 {
            let bytes = usize::try_from(entry.pp_bytes).expect("few").next_multiple_of(SECTOR_BYTES);
            let partial: Vec<u8> =
                behind.iter().copied().chain(std::iter::repeat(chunk[5])).take(bytes).collect();
            entry.checksum = crc32c(&partial);
            content.extend(partial);
        }
        entry
    };
    let entries = entries.chunks_exact(ENTRY_BYTES).map(entry).collect();
    let header =
        Header { signature: ppl::signature(ARRAY), generation: 3, entries, origin: Origin::default() };
    let mut block = [0; HEADER_BYTES];
    header.encode(&mut block);
    assert_eq!(Header::decode(&block), Some(header), "decoded as encoded");
    [&block[..], &content].concat()
}

fn seeds() {
    let entry = |row: u8, pp: u8, data: u8, parity: u8| {
        let mut entry = [0; ENTRY_BYTES];
        (entry[0], entry[6], entry[8], entry[12], entry[16]) = (row, 1, pp, data, parity);
        entry
    };
    // Several blocks of a row, one, and a whole stripe.
    let one = [&[1, 1][..], &entry(1, 1, 2, 3)[..]].concat();
    let two = [&[3, 0][..], &entry(7, 1, 1, 2)[..], &entry(2, 0, 3, 3)[..]].concat();
    let raw = [&[0, 0][..], &built(&entry(1, 1, 1, 3))].concat();
    seed("ppl_replay", &[one, two, raw]);
}

/// What a scan finds lies within the area, in order, and is read as it is written.
fn scan(log: &[u8]) {
    let area = (0, u64::from(LOG_SECTORS));
    let found = ppl::walk(log, area, ARRAY).expect("it can be read");
    let highest = ppl::highest_generation(log, area, ARRAY);
    for pair in found.windows(2) {
        assert!(pair[0].sector + HEADER_SECTORS <= pair[1].sector, "{pair:?}");
        assert!(pair[0].header.generation <= pair[1].header.generation, "{pair:?}");
    }
    for ppl::Found { sector, header } in
        found.iter().chain(&ppl::spare(log, area, ARRAY).expect("it can be read"))
    {
        assert!(sector + HEADER_SECTORS <= area.1);
        assert!(!sector.is_multiple_of(HEADER_SECTORS) || header.generation <= highest);
        let mut block = [0; HEADER_BYTES];
        header.encode(&mut block);
        assert_eq!(Header::decode(&block).as_ref(), Some(header));
    }
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((&[choice, lost], rest)) = data.split_first_chunk::<2>() else { return };
    let (members, log) = &*MEMBERS_AT_FIRST;
    let (mut devices, log) = (members.clone(), bytes(*log));
    let laid = if choice & 1 == 0 { rest.to_vec() } else { built(rest) };
    let length = laid.len().min(bytes(LOG_SECTORS.into()));
    let place = usize::from(choice >> 1) % devices.len();
    devices[place][log..log + length].copy_from_slice(&laid[..length]);
    scan(&devices[place][log..][..bytes(LOG_SECTORS.into())]);
    // The missing member is none of four in one of two cases.
    if let Some(missing) = Some(usize::from(lost)).filter(|lost| *lost < devices.len()) {
        devices.remove(missing);
    }
    let media: Vec<&[u8]> = devices.iter().map(Vec::as_slice).collect();
    let found: Vec<Member> = media.iter().map(|media| Member::read("m", *media).expect("a member")).collect();
    let arrays = judge(&found);
    let [assembly] = &arrays[..] else { panic!("one array") };
    if !assembly.can_be_served() {
        return;
    }
    let reader = Reader::new(assembly, &media).expect("it can be read");
    let recovered = recover(assembly, &media).expect("it can be read");
    assert!(devices.len() < 4 || recovered.in_doubt.is_empty(), "all members are there: {:?}", recovered.in_doubt);
    for (role, row, _) in &recovered.pieces {
        assert!(row.0 < MEMBER_SECTORS && row.0.is_multiple_of(8), "{row:?}");
        let is_parity = |block: u64| reader.place(block) == (*row, *role);
        assert!(!(0..reader.blocks()).any(is_parity), "data of member {role} at {row:?} are changed");
    }
    let mut block = [0; BLOCK_BYTES];
    for lba in 0..reader.blocks() {
        let (row, role) = reader.place(lba);
        let read = reader.read(lba, &mut block);
        let own = found.iter().position(|member| member.superblock().device.number.0 == u32::from(role.0));
        let Some(own) = own else { continue };
        let stored = &media[own][bytes(DATA_OFFSET + row.0)..][..BLOCK_BYTES];
        assert!(read.is_ok() && block == stored, "block {lba}: {read:?}");
    }
});
