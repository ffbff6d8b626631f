//! Journal of RAID-4, 5 and 6: the walk from its tail, and the replay of what its blocks name.
//!
//! The input is laid over the ring of a RAID-6, as it is or as blocks whose checksums are right; a member may be missing. A block of
//! the volume is what its member holds, or what the journal has for it, and nothing else.
#![no_main]

use base::units::BLOCK_BYTES;
use block::md::Uuid;
use block::md::assembly::judge;
use block::md::create::{Blank, MemberPlan, plan_journal};
use block::md::journal::{self, BLOCK_SECTORS, MetaBlock, Payload, checksum};
use block::md::member::Member;
use block::md::reader::Reader;
use block::md::recovered::recover;
use block::md::superblock::{Shape, Version};
use fuzz::md_array::{ARRAY, bytes, planned};
use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const MEMBERS: u32 = 5;
const DATA_OFFSET: u64 = 64;
const MEMBER_SECTORS: u64 = 32;
const RING_SECTORS: u64 = 256;
const SHAPE: Shape = Shape { level: 6, layout: 2, size: MEMBER_SECTORS, chunk: 16, members: MEMBERS };

/// Members, and a journal behind them that says nothing.
static DEVICES_AT_FIRST: LazyLock<Vec<(MemberPlan, Vec<u8>)>> = LazyLock::new(|| {
    let sectors = DATA_OFFSET + MEMBER_SECTORS + 64;
    let mut planned = planned(SHAPE, sectors, DATA_OFFSET, None);
    let device = Blank { sectors: DATA_OFFSET + RING_SECTORS, uuid: Uuid([9; 16]) };
    let journal = plan_journal(Version::V1_2, &planned[0].superblock, &device, BLOCK_SECTORS);
    planned.push(journal.expect("a journal that can be"));
    let device = |(number, member): (u32, MemberPlan)| {
        let sectors = if number == MEMBERS { DATA_OFFSET + RING_SECTORS } else { sectors };
        let content = (0_u32..).map(|byte| (byte.wrapping_mul(byte + number) >> 7).to_le_bytes()[0]);
        let mut content: Vec<u8> = content.take(bytes(sectors)).collect();
        content[..bytes(DATA_OFFSET)].fill(0);
        for (sector, written) in &member.before {
            content[bytes(*sector)..][..written.len()].copy_from_slice(written);
        }
        (member, content)
    };
    (0..).zip(planned).map(device).collect()
});

/// Blocks that bytes make, one after the other: payloads with checksums of what follows them, or nearly.
fn built(rest: &[u8], tail: u64, ring: u64) -> Vec<(u64, Vec<u8>)> {
    let mut placed = Vec::new();
    let mut position = tail;
    let mut left = ring;
    for (sequence, chunk) in (40..).zip(rest.chunks(96)) {
        let mut payloads = Vec::new();
        let mut contents = Vec::new();
        for piece in chunk.chunks_exact(8) {
            let sector = u64::from(piece[1] % 16) * 8;
            let count = usize::from(piece[2] % 4);
            let mut blocks = |count: usize| -> Vec<u32> {
                let content = |index: usize| vec![piece[3].wrapping_add(index.to_le_bytes()[0]); BLOCK_BYTES];
                let torn = u32::from(piece[4] == 0xff);
                (0..count)
                    .map(|index| {
                        contents.push(content(index));
                        checksum(ARRAY, &content(index)) ^ torn
                    })
                    .collect()
            };
            payloads.push(match piece[0] % 3 {
                0 => Payload::Data { flags: piece[5].into(), sector, checksums: blocks(count.max(1)) },
                1 => Payload::Parity { flags: 0, sector, checksums: blocks(1 + count % 2) },
                _ => Payload::Flush { flags: 0, stripes: vec![sector; count] },
            });
        }
        let meta = MetaBlock { sequence, position, payloads };
        if meta.sectors() > left {
            break;
        }
        left -= meta.sectors();
        let mut head = [0; journal::BLOCK_BYTES];
        meta.encode(ARRAY, &mut head);
        assert_eq!(MetaBlock::decode(ARRAY, &head), Some(meta), "decoded as encoded");
        for block in std::iter::once(head.to_vec()).chain(contents) {
            placed.push((position, block));
            position = (position + BLOCK_SECTORS) % ring;
        }
    }
    placed
}

fn seeds() {
    let data = [0, 3, 2, 0x41, 0, 0, 0, 0];
    let parity = [1, 0, 1, 0x81, 0, 0, 0, 0];
    let flush = [2, 1, 1, 0, 0, 0, 0, 0];
    let one = [&[1, 9, 0][..], &data, &parity].concat();
    let two = [&[1, 2, 3][..], &data, &parity, &flush, &[0; 72], &data].concat();
    let raw = [&[0, 9, 0][..], &built(&[data, parity].concat(), 0, 64)[0].1[..200]].concat();
    seed("journal_replay", &[one, two, raw]);
}

/// Contents that the journal has for each block of the volume, wherever they lie.
fn contents_of(ring: &[u8]) -> BTreeMap<u64, Vec<&[u8]>> {
    let blocks: Vec<&[u8]> = ring.chunks_exact(BLOCK_BYTES).collect();
    let mut found: BTreeMap<u64, Vec<&[u8]>> = BTreeMap::new();
    for (place, block) in blocks.iter().enumerate() {
        let block = block.first_chunk().expect("4096 bytes");
        let Some(meta) = MetaBlock::decode(ARRAY, block) else { continue };
        let mut behind = (1..).map(|index| blocks[(place + index) % blocks.len()]);
        for payload in &meta.payloads {
            let own: Vec<&[u8]> = behind.by_ref().take(payload.blocks()).collect();
            if let Payload::Data { sector, .. } = payload {
                (sector / 8..)
                    .zip(own)
                    .for_each(|(lba, content)| found.entry(lba).or_default().push(content));
            }
        }
    }
    found
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((&[choice, lost, tail], rest)) = data.split_first_chunk::<3>() else { return };
    let mut devices: Vec<(MemberPlan, Vec<u8>)> = DEVICES_AT_FIRST.clone();
    let (plan, journal) = devices.last_mut().expect("a journal");
    let (start, ring) = (bytes(DATA_OFFSET), plan.superblock.device.data_size / 8 * 8);
    let tail = u64::from(tail) * BLOCK_SECTORS % ring;
    plan.superblock.device.recovery_offset = tail;
    if choice & 1 == 0 {
        let length = rest.len().min(bytes(ring - tail));
        journal[start + bytes(tail)..][..length].copy_from_slice(&rest[..length]);
    } else {
        for (position, block) in built(rest, tail, ring) {
            journal[start + bytes(position)..][..BLOCK_BYTES].copy_from_slice(&block);
        }
    }
    for (plan, content) in &mut devices {
        if choice & 2 != 0 {
            plan.superblock.state.resync_offset = 0;
        }
        let at = bytes(plan.superblock.device.super_offset);
        content[at..at + 4096].copy_from_slice(&plan.record());
    }
    let journal = devices[5].1.clone();
    let named = contents_of(&journal[start..][..bytes(ring)]);
    if usize::from(lost) < 5 {
        devices.remove(lost.into());
    }
    let media: Vec<&[u8]> = devices.iter().map(|(_, content)| content.as_slice()).collect();
    let found: Vec<Member> = media.iter().map(|media| Member::read("m", *media).expect("a member")).collect();
    let arrays = judge(&found);
    let [assembly] = &arrays[..] else { panic!("one array") };
    if !assembly.can_be_served() {
        return;
    }
    let Ok(reader) = Reader::new(assembly, &media) else { return };
    let mut block = [0; BLOCK_BYTES];
    for lba in 0..reader.blocks() {
        let (row, role) = reader.place(lba);
        let uuid = Uuid([u8::try_from(role.0 + 1).expect("few"); 16]);
        let own = found.iter().position(|member| member.superblock().device.uuid == uuid);
        let Some(own) = own else { continue };
        assert!(reader.read(lba, &mut block).is_ok(), "block {lba} is on a member that is there");
        let stored = &media[own][bytes(DATA_OFFSET + row.0)..][..BLOCK_BYTES];
        let is_named = named.get(&lba).is_some_and(|contents| contents.contains(&&block[..]));
        assert!(block == stored || is_named, "block {lba} is what nobody wrote");
    }
    let Ok(recovered) = recover(assembly, &media) else { return };
    let end = recovered.journal.expect("it has a journal");
    assert!(end.position < ring && end.position.is_multiple_of(BLOCK_SECTORS));
    for (position, _) in &end.appended {
        assert!(*position < ring && position.is_multiple_of(BLOCK_SECTORS));
    }
    for (_, row, _) in &recovered.pieces {
        assert!(row.0 < MEMBER_SECTORS && row.0.is_multiple_of(8), "{row:?}");
    }
});
