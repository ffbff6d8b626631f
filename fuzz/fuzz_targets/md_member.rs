//! Members of Linux md: superblock, bitmap, bad blocks and logs of whatever bytes lie on a device.
//!
//! The input is laid over a sound member of 64 KiB, so that what the superblock points at is there.
#![no_main]

use block::md::assembly;
use block::md::examine;
use block::md::journal::{self, MetaBlock};
use block::md::member::Member;
use block::md::superblock::{
    BadBlockPlace, CLEAN, Device, Identity, Reshape, SUPERBLOCK_BYTES, Shape, State, Superblock,
};
use block::md::{DeviceNumber, Uuid, bitmap};
use fuzz::{seed, trimmed};
use libfuzzer_sys::fuzz_target;

const MEMBER_BYTES: usize = 65536;
const SUPERBLOCK_AT: usize = 4096;
const BITMAP_AT: usize = 8192;

fn record() -> Superblock {
    Superblock {
        features: 1,
        array: Identity { uuid: Uuid([7; 16]), name: [b'n'; 32], created: 1 },
        shape: Shape { level: 5, layout: 2, size: 64, chunk: 8, members: 3 },
        log: 8,
        reshape: Reshape::default(),
        device: Device {
            number: DeviceNumber(1),
            uuid: Uuid([1; 16]),
            data_offset: 64,
            data_size: 64,
            super_offset: 8,
            recovery_offset: 0,
            corrected: 0,
            flags: 0,
            bad_blocks: BadBlockPlace { shift: 0, sectors: 8, offset: 16 },
        },
        state: State { updated: 1, events: 4, resync_offset: CLEAN },
        logical_block: 0,
        roles: vec![0, 1, 2, 0xffff],
    }
}

fn member() -> Vec<u8> {
    let mut member = vec![0; MEMBER_BYTES];
    let mut block = [0; SUPERBLOCK_BYTES];
    record().encode(&mut block);
    member[SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_BYTES].copy_from_slice(&block);
    let head = bitmap::Head {
        array: Uuid([7; 16]),
        events: 4,
        events_cleared: 4,
        sync_size: 64,
        state: 0,
        chunk: 4096,
        daemon_sleep: 5,
        write_behind: 0,
        sectors_reserved: 0,
        nodes: 0,
        cluster_name: [0; 64],
    };
    let mut bytes = [0; bitmap::HEAD_BYTES];
    head.encode(&mut bytes);
    member[BITMAP_AT..BITMAP_AT + bitmap::HEAD_BYTES].copy_from_slice(&bytes);
    member
}

fn seeds() {
    let member = member();
    seed("md_member", &[trimmed(&member[SUPERBLOCK_AT..])]);
}

/// The member with its superblock's checksum put right, where it has a superblock.
fn resealed(member: &[u8]) -> Vec<u8> {
    let mut member = member.to_vec();
    let block: &mut [u8; SUPERBLOCK_BYTES] =
        (&mut member[SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_BYTES]).try_into().expect("4096 bytes");
    if let Ok(reading) = Superblock::decode(block) {
        reading.superblock.encode(block);
        let again = Superblock::decode(block).expect("a superblock of ours");
        assert_eq!(again.superblock, reading.superblock);
        assert_eq!(again.stored, again.computed);
    }
    member
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let mut raw = member();
    let bytes = data.len().min(MEMBER_BYTES - SUPERBLOCK_AT);
    raw[SUPERBLOCK_AT..SUPERBLOCK_AT + bytes].copy_from_slice(&data[..bytes]);
    let mut block = [0; journal::BLOCK_BYTES];
    block[..bytes.min(4096)].copy_from_slice(&data[..bytes.min(4096)]);
    let _ = MetaBlock::decode(Uuid([7; 16]), &block);
    for media in [resealed(&raw), raw] {
        let Ok(found) = Member::read("d0", &media[..]) else { continue };
        let mut text = String::new();
        examine::print(&found, &|seconds| seconds.to_string(), &mut text).expect("a string");
        examine::print_export(&found, &mut text).expect("a string");
        examine::print_brief(&[&found], &mut text).expect("a string");
        let members = [found.clone(), found];
        for array in assembly::judge(&members) {
            assert!(!array.in_words().is_empty());
            assert!(!array.can_be_served(), "one device, given twice");
        }
    }
});
