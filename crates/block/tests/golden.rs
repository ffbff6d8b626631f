//! Arrays written by Linux 6.1 and mdadm 4.2: every field of every member, mdadm's words, and what can be served.

#![allow(clippy::unwrap_used)]

#[path = "support/golden.rs"]
mod golden;

use block::md::assembly::{Assembly, Part, Policy, REPLACEMENT_BEHIND, judge};
use block::md::bad_blocks::BadBlocks;
use block::md::bitmap;
use block::md::examine;
use block::md::foreign::Foreign;
use block::md::journal::{self, MetaBlock, Payload};
use block::md::member::{Member, NotAMember};
use block::md::ppl;
use block::md::refusal::{Fault, Note, Refusal};
use block::md::superblock::{CLEAN, SUPERBLOCK_BYTES, Superblock, Version};
use block::md::{Media, Role};
use sha2::{Digest, Sha256};

fn read(array: &str) -> Vec<Member> {
    let members = golden::members(array);
    members.iter().map(|(name, bytes)| Member::read(name, &bytes[..]).expect("a member")).collect()
}

fn only<'a>(members: &'a [Member], without: &[usize]) -> Vec<Member> {
    let kept = members.iter().enumerate().filter(|(index, _)| !without.contains(index));
    kept.map(|(_, member): (usize, &'a Member)| member.clone()).collect()
}

fn judged(members: &[Member]) -> Assembly<'_> {
    let mut arrays = judge(members);
    assert_eq!(arrays.len(), 1);
    arrays.remove(0)
}

/// `Mon Nov 23 05:44:24 2026` of seconds since 1970, in UTC.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    let mut year = 1970;
    let mut day = days;
    let length = |year: u64| {
        if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) {
            366
        } else {
            365
        }
    };
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let months = [31, length(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from(days % 7).unwrap()];
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{weekday} {} {:2} {hour:02}:{minute:02}:{second:02} {year}", names[month], day + 1)
}

#[test]
fn members_are_those_that_the_kernel_wrote() {
    let sums = std::fs::read_to_string(golden::folder().join("MEMBERS.sha256")).unwrap();
    for array in golden::names() {
        for (name, bytes) in golden::members(&array) {
            let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(sums.contains(&format!("{sum}  {array}/{name}\n")), "{array}/{name}: {sum}");
        }
    }
}

#[test]
fn every_line_is_mdadm_s() {
    let mut examined = 0;
    for array in golden::names().iter().filter(|array| *array != "r5-v0.90") {
        for (member, (name, expected)) in read(array).iter().zip(golden::examined(array)) {
            assert_eq!(member.name, name);
            let mut text = String::new();
            examine::print(member, &utc, &mut text).unwrap();
            let (first, text) = text.split_once('\n').unwrap();
            assert_eq!(first, format!("{name}:"));
            assert_eq!(text, expected, "{array}/{name}");
            examined += 1;
        }
    }
    assert_eq!(examined, 155);
}

#[test]
fn what_is_read_is_written_as_it_was() {
    for array in golden::names().iter().filter(|array| *array != "r5-v0.90") {
        for ((name, bytes), member) in golden::members(array).iter().zip(read(array)) {
            let superblock = member.superblock();
            let mut block = [0; SUPERBLOCK_BYTES];
            bytes[..].read(superblock.device.super_offset, &mut block).unwrap();
            let mut encoded = [0xee; SUPERBLOCK_BYTES];
            superblock.encode(&mut encoded);
            assert!(block[..512] == encoded[..512], "superblock of {array}/{name}");
            assert_eq!(Superblock::decode(&encoded).unwrap().superblock, *superblock);
            if let Some(bitmap) = &member.bitmap {
                let bitmap = bitmap.as_ref().unwrap();
                let mut sector = [0; 512];
                bytes[..].read(superblock.bitmap_sector().unwrap(), &mut sector).unwrap();
                let mut head = [0xee; bitmap::HEAD_BYTES];
                bitmap.head.encode(&mut head);
                assert!(sector[..256] == head, "bitmap of {array}/{name}");
                assert_eq!(bitmap.head.array, superblock.array.uuid);
            }
            for found in member.ppl.as_ref().unwrap() {
                let mut block = [0; ppl::HEADER_BYTES];
                bytes[..].read(found.sector, &mut block).unwrap();
                let mut encoded = [0xee; ppl::HEADER_BYTES];
                found.header.encode(&mut encoded);
                assert!(block == encoded, "PPL header of {array}/{name} at {}", found.sector);
            }
        }
    }
}

#[test]
fn clean_arrays_can_be_served() {
    for array in golden::names() {
        let is_clean = array.starts_with("r6-") && array != "r6-two-lost"
            || ["r4", "r5-3x4k", "r5-v1.1", "r5-offset", "r5-bitmap", "r5-events-1", "r5-assume-clean"]
                .contains(&array.as_str())
            || ["symmetric", "asymmetric", "first", "last", "clean"].iter().any(|end| array.ends_with(end));
        if !is_clean {
            continue;
        }
        let members = read(&array);
        let assembly = judged(&members);
        let words = assembly.in_words();
        assert!(
            words.starts_with("can be served: RAID-") && words.ends_with("members, clean"),
            "{array}: {words}"
        );
        assert!(!assembly.is_degraded());
        let parities = if array.starts_with("r6") { 2 } else { 1 };
        let fewer = only(&members, &(0..parities).collect::<Vec<_>>());
        assert!(
            judged(&fewer).can_be_served() && judged(&fewer).is_degraded(),
            "{array}: {}",
            judged(&fewer).in_words()
        );
        let too_few = only(&members, &(0..=parities).collect::<Vec<_>>());
        assert!(
            judged(&too_few).in_words().contains("are needed; missing: members 0"),
            "{}",
            judged(&too_few).in_words()
        );
    }
}

#[test]
fn bitmaps_name_their_regions() {
    let bitmap = |member: &Member| member.bitmap.clone().unwrap().unwrap();
    for member in &read("r5-bitmap") {
        assert_eq!((bitmap(member).bits.regions(), bitmap(member).bits.set().count()), (32, 0));
    }
    for member in &read("r5-crash-bitmap") {
        assert_eq!(bitmap(member).bits.set().collect::<Vec<_>>(), [2, 5, 10, 12, 13, 20], "{}", member.name);
    }
    let stale = read("r5-stale-bitmap");
    assert_eq!(bitmap(&stale[0]).bits.set().collect::<Vec<_>>(), [2]);
    assert!(bitmap(&stale[0]).head.events_cleared <= stale[2].events());
}

#[test]
fn dirty_arrays_say_what_is_done() {
    let members = read("r5-crash-bitmap");
    assert!(judged(&members).in_words().ends_with("4 of 4 members, dirty, 6 of 32 regions are resynced"));
    let refused = |members: &[Member]| judged(members).refusals;
    assert_eq!(refused(&only(&members, &[2])), [Refusal::DirtyDegraded(vec![Role(2)])]);
    let members = read("r5-crash-nobitmap");
    assert!(judged(&members).in_words().ends_with("dirty, all of it is resynced"));
    assert_eq!(refused(&only(&members, &[0])), [Refusal::DirtyDegraded(vec![Role(0)])]);
    let members = read("r5-mid-resync");
    assert!(judged(&members).in_words().ends_with("dirty, resynced from sector 1536 on"));
    let members = read("r5-ppl-crash");
    assert!(judged(&members).in_words().ends_with("dirty, its partial parity log is applied"));
    assert_eq!(refused(&only(&members, &[1])), []);
    let members = read("r5-journal-wb-crash");
    assert_eq!(judged(&members).policy(), Policy::Journal);
    assert_eq!(refused(&members), []);
    assert_eq!(refused(&only(&members, &[2])), []);
    assert_eq!(refused(&only(&members, &[4])), [Refusal::NoJournal]);
}

#[test]
fn stale_members_are_named_and_left_out() {
    let stale = |array: &str| {
        let members = read(array);
        let assembly = judged(&members);
        assert!(assembly.can_be_served(), "{array}: {}", assembly.in_words());
        let notes = assembly.notes.iter().filter_map(|note| match note {
            Note::Stale { member, events, newest } => Some((member.clone(), *events, *newest)),
            _ => None,
        });
        (notes.collect::<Vec<_>>(), assembly.missing.clone())
    };
    let named = |name: &str, events, newest| (name.to_owned(), events, newest);
    assert_eq!(stale("r5-stale-bitmap"), (vec![named("d2.img", 17, 22)], vec![Role(2)]));
    let (notes, missing) = stale("r5-stale-nobitmap");
    assert_eq!((notes[0].0.as_str(), missing), ("d1.img", vec![Role(1)]));
    let two = vec![named("d0.img", 17, 23), named("d4.img", 20, 23)];
    assert_eq!(stale("r6-two-lost"), (two, vec![Role(0), Role(4)]));
    assert_eq!(stale("r5-events-2"), (vec![named("d1.img", 18, 20)], vec![Role(1)]));
    assert_eq!(stale("r5-events-1"), (vec![], vec![]));
    assert_eq!(stale("r5-badblocks").0[0].0, "d1.img");
}

#[test]
fn parts_are_told_apart() {
    let parts = |array: &str| {
        let members = read(array);
        judged(&members).devices.iter().map(|(_, part)| *part).collect::<Vec<_>>()
    };
    assert_eq!(parts("r5-spare")[3], Part::Spare);
    assert_eq!(parts("r5-journal-clean")[4], Part::Journal);
    assert_eq!(parts("r5-mid-recovery")[1], Part::Stale);
    assert_eq!(parts("r5-mid-recovery")[4], Part::Recovering(Role(1), 1536));
    let members = read("r5-mid-recovery");
    let arrays = judge(&members);
    assert_eq!((arrays[0].missing.as_slice(), arrays[0].absent().is_empty()), (&[Role(1)][..], true));
    assert_eq!(parts("r5-mid-replace")[1], Part::Active(Role(1)));
    assert_eq!(parts("r5-mid-replace")[4], Part::Replacement(Role(1), 1536));
    let members = read("r5-mid-recovery");
    assert_eq!(judged(&members).missing, [Role(1)]);
    let alone = only(&read("r5-mid-replace"), &[1]);
    assert_eq!(judged(&alone).missing, [Role(1)]);
}

/// Members of a golden array, once their superblocks are changed.
fn changed(array: &str, change: impl Fn(usize, &mut Superblock)) -> Vec<Member> {
    let of = |(index, (name, mut bytes)): (usize, (String, Vec<u8>))| {
        let mut superblock = Member::read(&name, &bytes[..]).unwrap().superblock().clone();
        change(index, &mut superblock);
        let mut block = [0; SUPERBLOCK_BYTES];
        superblock.encode(&mut block);
        let start = usize::try_from(superblock.device.super_offset).unwrap() * 512;
        bytes[start..start + SUPERBLOCK_BYTES].copy_from_slice(&block);
        Member::read(&name, &bytes[..]).unwrap()
    };
    golden::members(array).into_iter().enumerate().map(of).collect()
}

#[test]
fn replacements_of_arrays_that_are_not_clean_are_behind_or_refused() {
    let judged_at = |is_clean: bool, behind: u64, is_named: bool| {
        let members = changed("r5-mid-replace", |index, superblock| {
            superblock.state.resync_offset = if is_clean { CLEAN } else { 0 };
            if index != 4 {
                superblock.state.events += behind;
                superblock.roles[4] = if is_named { superblock.roles[4] } else { 0xfffe };
            }
        });
        let assembly = judged(&members);
        (assembly.devices[4].1, assembly.refusals.clone())
    };
    let copy = Part::Replacement(Role(1), 1536);
    let refused = Refusal::Replaced { member: "d4.img".to_owned(), role: Role(1) };
    for behind in 0..=1 {
        assert_eq!(judged_at(true, behind, true), (copy, vec![]), "md goes on");
        assert_eq!(judged_at(false, behind, true), (copy, vec![refused.clone()]), "md's, {behind} behind");
    }
    for behind in 2..=REPLACEMENT_BEHIND + 1 {
        assert_eq!(judged_at(false, behind, true), (copy, vec![]), "ours, {behind} behind");
        assert_eq!(judged_at(true, behind, true), (copy, vec![]), "a first dirty mark was cut off");
        assert_eq!(judged_at(false, behind, false), (Part::Stale, vec![]), "writes went on without it");
    }
    assert_eq!(judged_at(false, REPLACEMENT_BEHIND + 2, true), (Part::Stale, vec![]));
    assert!(refused.to_string().contains("leave d4.img out, or let md end that"), "{refused}");
}

#[test]
fn bad_blocks_are_absolute_sectors() {
    let members = read("r5-badblocks");
    let expected = [BadBlocks { sector: 2400, sectors: 16 }, BadBlocks { sector: 3360, sectors: 8 }];
    for (index, member) in members.iter().enumerate() {
        let own: &[BadBlocks] = if [2, 4].contains(&index) { &expected } else { &[] };
        assert_eq!(member.bad_blocks.as_deref(), Ok(own), "{}", member.name);
    }
    assert!(judged(&members).notes.contains(&Note::BadBlocks("d4.img".to_owned(), 2)));
}

#[test]
fn what_is_not_served_is_named() {
    for (name, bytes) in golden::members("r5-v0.90") {
        let error = Member::read(&name, &bytes[..]).unwrap_err();
        assert_eq!(error, NotAMember::Foreign(Foreign::Old { minor: 90 }));
    }
    let fault = |array: &str| {
        let members = read(array);
        match judged(&members).refusals.remove(0) {
            Refusal::Member { fault, .. } => fault,
            other => panic!("{other}"),
        }
    };
    assert_eq!((fault("r1"), fault("r0")), (Fault::Level(1), Fault::Level(0)));
    assert_eq!(fault("r5-reshape-grow"), Fault::Reshape { position: 3584, features: 0x44 });
    let members = read("r5-lbs");
    assert!(judged(&members).can_be_served());
    assert_eq!(judged(&members).notes, [Note::LogicalBlock(512)]);
    let mut mixed = read("r5-3x4k");
    mixed.extend(read("r5-v1.1"));
    assert_eq!(judge(&mixed).len(), 2);
    let mut twice = read("r5-3x4k");
    twice.push(twice[1].clone());
    assert!(matches!(judged(&twice).refusals[..], [Refusal::SameDevice(_)]));
}

#[test]
fn logs_of_a_crash_are_found() {
    for array in ["r5-ppl-crash", "r5-ppl-clean"] {
        for member in read(array) {
            let newest = member.newest_ppl(member.superblock()).expect("a header");
            assert!(!newest.header.entries.is_empty(), "{array}/{}", member.name);
        }
    }
    let members = golden::members("r5-journal-wb-crash");
    let member = Member::read("d4.img", &members[4].1[..]).unwrap();
    let device = &member.superblock().device;
    let (mut position, mut rows) = (device.recovery_offset, 0);
    let mut sequence = None;
    loop {
        let mut block = [0; journal::BLOCK_BYTES];
        members[4].1[..].read(device.data_offset + position, &mut block).unwrap();
        let Some(meta) = MetaBlock::decode(member.superblock().array.uuid, &block) else { break };
        if meta.position != position || sequence.is_some_and(|last: u64| last + 1 != meta.sequence) {
            break;
        }
        let mut encoded = [0xee; journal::BLOCK_BYTES];
        meta.encode(member.superblock().array.uuid, &mut encoded);
        let used = u32::from_le_bytes([block[12], block[13], block[14], block[15]]) as usize;
        assert!(block[8..used] == encoded[8..used]);
        let mut at = device.data_offset + position + journal::BLOCK_SECTORS;
        for payload in &meta.payloads {
            if let Payload::Data { checksums, .. } | Payload::Parity { checksums, .. } = payload {
                for sum in checksums {
                    members[4].1[..].read(at, &mut block).unwrap();
                    assert_eq!(journal::checksum(member.superblock().array.uuid, &block), *sum);
                    at += journal::BLOCK_SECTORS;
                    rows += 1;
                }
            }
        }
        sequence = Some(meta.sequence);
        position = (position + meta.sectors()) % device.data_size;
    }
    assert!(rows >= 28, "{rows} blocks in the journal");
}

#[test]
fn no_flipped_bit_of_a_superblock_is_believed() {
    let mut members = golden::members("r5-bitmap");
    let sound: Vec<Member> =
        members.iter().skip(1).map(|(name, bytes)| Member::read(name, &bytes[..]).unwrap()).collect();
    let (name, bytes) = &mut members[0];
    for bit in 0..512 * 8 {
        bytes[4096 + bit / 8] ^= 1 << (bit % 8);
        if let Ok(member) = Member::read(name, &bytes[..]) {
            let mut all = sound.clone();
            all.insert(0, member);
            for assembly in judge(&all) {
                let is_believed = assembly.can_be_served()
                    && assembly.devices.iter().any(|(member, _)| member.name == *name);
                assert!(!is_believed, "bit {bit}: {}", assembly.in_words());
                let mut text = String::new();
                examine::print(&all[0], &utc, &mut text).unwrap();
            }
        }
        bytes[4096 + bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn wrong_fields_with_a_right_checksum_are_refused_by_name() {
    let members = golden::members("r5-bitmap");
    let refused = |change: &dyn Fn(&mut Superblock)| {
        let mut bytes = members[0].1.clone();
        let mut superblock = Member::read("d0.img", &bytes[..]).unwrap().superblock().clone();
        change(&mut superblock);
        let mut block = [0; SUPERBLOCK_BYTES];
        superblock.encode(&mut block);
        bytes[4096..8192].copy_from_slice(&block);
        let member = [Member::read("d0.img", &bytes[..]).unwrap()];
        judged(&member).in_words()
    };
    type Change<'a> = &'a dyn Fn(&mut Superblock);
    let cases: &[(Change<'_>, &str)] = &[
        (&|s| s.features |= 1 << 20, "unknown feature bits 0x100000"),
        (&|s| s.features |= 256, "clustered"),
        (&|s| s.features |= 4, "reshape is in progress"),
        (&|s| s.shape.level = 10, "level 10 (raid10) is not served"),
        (&|s| s.shape.layout = 18, "layout 18 is none of RAID-5"),
        (&|s| s.shape.chunk = 24, "a chunk of 24 sectors"),
        (&|s| s.shape.chunk = 0, "a chunk of 0 sectors"),
        (&|s| s.shape.size = 100, "100 sectors of a member"),
        (&|s| s.shape.size = 1 << 40, "beyond the device"),
        (&|s| s.shape.members = 33, "33 members"),
        (&|s| s.shape.members = u32::MAX, "4294967295 members"),
        (&|s| s.device.number.0 = 500, "device number 500"),
        (&|s| s.device.data_offset = u64::MAX, "the data at sector 18446744073709551615"),
        (&|s| s.device.data_size = u64::MAX, "the room for data"),
        (&|s| s.device.data_offset = 8, "overlap"),
        (&|s| s.log = 4, "bitmap"),
        (&|s| s.log = 0, "external file"),
        (&|s| s.features |= 2048, "exclude one another"),
        (&|s| s.device.bad_blocks.offset = 8, "overlap"),
        (
            &|s| {
                s.features |= 8;
                s.device.bad_blocks.offset = i32::MAX
            },
            "beyond",
        ),
        (&|s| s.logical_block = 8192, "logical blocks of 8192 bytes"),
    ];
    for (change, said) in cases {
        let words = refused(*change);
        assert!(words.starts_with("cannot be served: ") && words.contains(said), "{said}: {words}");
    }
}

#[test]
fn superblocks_at_the_end_are_examined_as_mdadm_does() {
    let (_, sound) = golden::members("r5-bitmap").remove(0);
    let base = Member::read("d0.img", &sound[..]).unwrap().superblock().clone();
    let place = Version::V1_0.sector(sound[..].sectors()).unwrap();
    assert_eq!(place, 12272);
    // What mdadm 4.2 prints of the same bytes: with a bitmap, without, and without a bad-block log too.
    for (log, log_sectors, after) in [(-16_i32, 8, 8160), (0, 8, 8168), (0, 0, 8176)] {
        let mut bytes = sound.clone();
        bytes[4096..8192].fill(0);
        let mut superblock = base.clone();
        superblock.features = u32::from(log != 0);
        superblock.log = u32::from_le_bytes(log.to_le_bytes());
        superblock.device.super_offset = place;
        superblock.device.data_offset = 0;
        superblock.device.data_size = place - 24;
        superblock.device.bad_blocks.offset = -8;
        superblock.device.bad_blocks.sectors = log_sectors;
        let at = usize::try_from(place).unwrap() * 512;
        let mut block = [0; SUPERBLOCK_BYTES];
        superblock.encode(&mut block);
        bytes[at..at + SUPERBLOCK_BYTES].copy_from_slice(&block);
        bytes.copy_within(8192..8704, at - 16 * 512);
        let member = Member::read("d0.img", &bytes[..]).unwrap();
        assert_eq!(member.version, Version::V1_0);
        let mut text = String::new();
        examine::print(&member, &utc, &mut text).unwrap();
        assert!(text.contains("        Version : 1.0\n"), "{text}");
        assert!(
            text.contains(&format!("   Unused Space : before=0 sectors, after={after} sectors\n")),
            "{text}"
        );
        let words = judged(&[member]).in_words();
        assert_eq!(
            words,
            "cannot be served: only 1 of the 3 members that are needed; missing: members 1, 2 and 3"
        );
    }
}
