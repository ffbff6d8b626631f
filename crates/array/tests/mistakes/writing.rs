//! Mistakes of the write path: parity, sequences, order, timers, large requests.

use super::rig::{Rig, raid5};
use super::shape::Shape;
use array::log::config::Tuning;
use array::log::policy::adaptive::Policy;
use array::log::survivors::GcStreams;
use array::request::RequestOp;
use base::random::Random;
use base::time::Instant;
use base::units::Lba;
use std::collections::{BTreeMap, BTreeSet};
use zone::stripe::Level;

/// Parity on the media is that of the data beside it, for full and for padded stripes.
#[test]
fn parity_encoded_while_data_is_still_being_copied() {
    for chunk_blocks in [1, 4] {
        let mut rig = Rig::new(&Shape { chunk_blocks, ..raid5() });
        for lba in 0..40 {
            rig.write(lba * 3, 1 + lba % 7);
        }
        rig.rest();
        let report = rig.check();
        assert_eq!(report.problems, []);
        assert!(report.stripes_checked > 10);
    }
}

/// Every block has a sequence of its own, also within a chunk: of two copies of one block in one
/// chunk the later one wins, online and after a mount.
#[test]
fn one_sequence_for_a_whole_chunk() {
    let mut rig = Rig::new(&Shape { chunk_blocks: 4, ..raid5() });
    let mut last = 0;
    for _ in 0..4 {
        let (op, stamp) = rig.write_op(9, 1, false);
        rig.submit(op);
        last = stamp;
    }
    rig.remember(9, 1, last);
    let mut replies = Vec::new();
    while replies.len() < 4 {
        rig.turn(&mut replies);
    }
    rig.write(20, 30);
    rig.rest();
    let copies = rig.copies();
    let sequences: BTreeSet<u64> = copies.iter().map(super::rig::Stored::sequence).collect();
    assert_eq!(copies.iter().filter(|copy| copy.lba() == 9).count(), 4);
    assert_eq!(sequences.len(), copies.len(), "two blocks share a sequence");
    rig.verify();
    rig.remount();
    rig.verify();
}

/// Collection moves blocks with the sequence they were written with.
#[test]
fn gc_stamps_moved_blocks_as_new() {
    let mut rig = Rig::new(&raid5());
    rig.fill();
    rig.rest();
    let newest = |rig: &Rig| {
        let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
        for copy in rig.copies() {
            let sequence = newest.entry(copy.lba()).or_default();
            *sequence = copy.sequence().max(*sequence);
        }
        newest
    };
    let before = newest(&rig);
    let cold = rig.config.volume_blocks / 2;
    let mut random = Random::from_seed(1);
    while rig.volume.engine.counters().moved_blocks_written < 2 * cold {
        rig.write(cold + random.below(cold), 1);
    }
    rig.rest();
    let after = newest(&rig);
    for lba in 0..cold {
        assert_eq!(before[&lba], after[&lba], "block {lba} was only moved");
    }
    rig.remount();
    rig.verify();
}

/// Blocks that nobody writes are not moved along with those that clients write often, where the collector
/// separates what it moves. After a while each lies among its like; a crash with both segments open changes nothing.
#[test]
fn hot_survivors_among_cold_ones() {
    let shape = Shape { zones: 48, capacity: 100, fill_percent: 90, ..raid5() };
    let moved = |gc_streams: GcStreams| {
        let tuning = Tuning { gc_streams, ..Tuning::default() };
        let mut rig = Rig::with_tuning(shape.config(), tuning);
        rig.fill();
        let hot = rig.config.volume_blocks / 4;
        let mut random = Random::from_seed(1);
        for _ in 0..8 * hot {
            rig.write(4 * random.below(hot), 1);
        }
        rig.rest();
        let counters = *rig.volume.engine.counters();
        assert_eq!(rig.check().problems, []);
        rig.remount();
        rig.verify();
        (counters.moved_blocks_written, counters.cold_blocks_written)
    };
    let (together, none) = moved(GcStreams::One);
    assert_eq!(none, 0);
    let (apart, cold) = moved(GcStreams::Two);
    assert!(cold > 0);
    assert!(apart < together, "{apart} moved, {together} where they lie together");
}

/// Two writes of a block in flight: the later wins, in whatever order the drives complete them.
#[test]
fn index_updated_in_completion_order() {
    for seed in 0..40 {
        let config = Shape { group_stripes: 256, ..raid5() }.config();
        let mut rig = Rig::with_seed(config, Tuning::default(), seed);
        rig.set_lazy();
        for _ in 0..30 {
            // Each FUA write is a stripe of its own.
            rig.write_at_once([5; 3]);
            assert_eq!(rig.read(5, 1), Some(vec![rig.blocks[5]]));
        }
    }
}

/// Sequences go on above all earlier ones after every mount, and do not fit 32 bits for long.
#[test]
fn sequence_of_32_bits_restarts_after_mount() {
    let mut rig = Rig::new(&raid5());
    let mut highest = 0;
    for round in 0..4 {
        for lba in 0..40 {
            rig.write(lba, 1);
        }
        rig.rest();
        let copies = rig.copies();
        let above = copies.iter().filter(|copy| copy.sequence() > highest).count();
        assert_eq!(above, 40, "round {round}: every new block is newer than every old one");
        highest = copies.iter().map(super::rig::Stored::sequence).max().unwrap();
        assert!(highest > u64::from(u32::MAX));
        rig.remount();
        rig.verify();
    }
}

/// Addresses count what can be written: a zone size far above the capacity costs no address bits
/// and no offset.
#[test]
fn address_counts_zone_size_instead_of_capacity() {
    let mut config = raid5().config();
    config.geometry.zone_size_blocks = 1 << 27;
    config.validate().unwrap();
    let mut rig = Rig::with_config(config);
    rig.fill();
    rig.verify();
    rig.remount();
    rig.verify();
    assert_eq!(rig.check().problems, []);
}

/// Requests far larger than what may be in flight, at every level.
#[test]
fn writes_of_256_kib_hang() {
    for (level, chunk_blocks, group_stripes) in
        [(Level::Raid0, 1, 1), (Level::Raid4, 4, 2), (Level::Raid5, 1, 256), (Level::Raid5, 16, 1)]
    {
        let shape = Shape { level, chunk_blocks, group_stripes, zones: 20, capacity: 200, ..raid5() };
        let mut rig = Rig::new(&shape);
        for round in 0..30 {
            rig.write(round * 64 % (rig.config.volume_blocks - 64), 64);
        }
        rig.verify_by(64);
    }
}

/// The largest request: 32 MiB, written, read, trimmed, also without a member.
#[test]
fn requests_of_32_mib() {
    let shape = Shape { members: 3, zones: 14, capacity: 1300, group_stripes: 256, ..raid5() };
    let mut rig = Rig::new(&shape);
    assert!(rig.config.volume_blocks > 8192 + 100);
    for _ in 0..3 {
        rig.write(77, 8192);
        rig.verify_by(8192);
    }
    rig.volume.fail_member(base::units::DriveIndex(1));
    rig.verify_by(8192);
    rig.write_fua(50, 8192);
    rig.verify_by(8192);
    rig.trim(60, 8192);
    rig.verify_by(8192);
    rig.rest();
}

/// A lone write is answered at its own deadline, however busy the collector is.
#[test]
fn user_writes_inherit_a_gc_timer() {
    // Where the engine adapts, the collector goes by what clients write, not by itself.
    let tuning = Tuning { policy: Policy::Fixed, ..Tuning::default() };
    let mut rig = Rig::with_tuning(Shape { zones: 12, capacity: 400, ..raid5() }.config(), tuning);
    rig.fill();
    rig.set_lazy();
    let mut random = Random::from_seed(3);
    let mut beside_gc = 0;
    for _ in 0..4_000 {
        let status = rig.volume.engine.status();
        let short = status.zones_free / 4 <= 2;
        let (op, stamp) = rig.write_op(random.below(rig.config.volume_blocks), 1, false);
        let began = status.counters.moved_blocks_written;
        rig.submit(op);
        // Each turn takes as long as the deadline.
        let mut replies = Vec::new();
        let mut turns = 0;
        while replies.is_empty() {
            rig.now = Instant(rig.now.0 + 93_000);
            rig.turn(&mut replies);
            turns += 1;
        }
        beside_gc += u32::from(rig.volume.engine.counters().moved_blocks_written > began && !short);
        // Where space is short a write waits for the collector, and should. The drives take their time,
        // too: five deadlines at most here, against 58 when the timer is inherited.
        assert!(short || turns <= 15, "write {stamp} took {turns} deadlines");
    }
    assert!(beside_gc > 20, "the collector was busy beside {beside_gc} writes");
}

/// Nobody waits for company who asked for FUA.
#[test]
fn fua_waits_for_the_deadline() {
    let mut rig = Rig::new(&raid5());
    for lba in 0..20 {
        let began = rig.now;
        rig.write_fua(lba, 1);
        assert!(rig.now.0 - began.0 <= 14_000);
    }
    let id = rig.submit(RequestOp::Trim { lba: Lba(0), blocks: 1, force_unit_access: true });
    let mut replies = Vec::new();
    rig.turn(&mut replies);
    assert!(replies.iter().any(|reply| reply.id.0 == id));
}
