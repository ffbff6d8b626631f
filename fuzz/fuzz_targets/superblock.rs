//! Superblock records: what is decoded is encoded as it was.
#![no_main]

use fuzz::{assert_same_fields, block, offset_of, resealed, seed, trimmed};
use libfuzzer_sys::fuzz_target;
use zone::format::superblock::{FIELDS, Member, MemberState, Superblock, Version};

fn record() -> Superblock {
    let member = |uuid, state| Member { uuid: [uuid; 16], state };
    Superblock {
        array: [7; 16],
        member: 2,
        generation: 12,
        epoch: 3,
        data_count: 2,
        parity_count: 1,
        level: 5,
        chunk_blocks: 1,
        group_stripes: 256,
        zones: 40,
        zone_size_blocks: 16384,
        zone_capacity_blocks: 12288,
        volume_blocks: 1 << 20,
        large_chunk_blocks: 4,
        segments_small: 1,
        segments_large: 3,
        append: 1,
        checkpoint: None,
        settled: Version { epoch: 3, generation: 11 },
        mount_tag: 0x0123_4567_89ab_cdef,
        windows_gone: [1].into_iter().collect(),
        rebuild_from: 0,
        members: vec![
            member(1, MemberState::Active),
            member(2, MemberState::Failed),
            member(3, MemberState::Active),
        ],
    }
}

fn seeds() {
    let mut encoded = block(&[]);
    record().encode(&mut encoded);
    seed("superblock", &[trimmed(&encoded)]);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let raw = block(data);
    for block in [raw, resealed(raw, offset_of(FIELDS, "CRC"), &[])] {
        let Some(record) = Superblock::decode(&block) else { continue };
        assert_eq!(Superblock::other_version(&block), None);
        let mut encoded = fuzz::block(&[]);
        record.encode(&mut encoded);
        assert_eq!(Superblock::decode(&encoded).as_ref(), Some(&record));
        // The drive's own identity is for people; members beyond the last one and a checkpoint without a number mean nothing.
        let but = ["CRC", "DRIVE", "RESERVED", "MEMBER_STATES", "MEMBER_UUIDS", "CHECKPOINT"];
        assert_same_fields(FIELDS, &encoded, &block, &but);
        for (member, own) in (0..).zip(&record.members) {
            record.for_member(member).encode(&mut encoded);
            let found = Superblock::decode(&encoded).expect("a record of ours");
            assert!(found.member == member && found.members[usize::from(member)] == *own);
        }
    }
});
