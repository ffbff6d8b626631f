//! Mistakes of recovery: headers, footers, torn chunks, open segments, and crashes in its midst.

use super::mortal::{LastCommand, SharedFuse, fuse, fuse_on, is_burnt, mortals};
use super::rig::{Rig, Stored, execute, power_cycled, raid5, read_block};
use super::shape::Shape;
use array::request::{Outcome, RequestOp};
use base::frame::Frame;
use base::random::Random;
use base::units::{Lba, ZoneIndex};
use std::collections::{BTreeMap, BTreeSet};
use zone::device::{Op, ZoneState};
use zone::format::footer::{self, ENTRIES_PER_BLOCK, FooterId};
use zone::format::header::SegmentHeader;
use zone::format::oob::Role;
use zone::stripe::Level;

/// Headers found on the media: (member, zone, header).
pub fn headers(rig: &Rig) -> Vec<(usize, ZoneIndex, SegmentHeader)> {
    let mut found = Vec::new();
    for member in 0..rig.config.members {
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(rig.zones(member)).skip(2) {
            let block =
                (descriptor.state != ZoneState::Empty).then(|| read_block(rig.device(member), zone, 0));
            let header = block.flatten().and_then(|frame| SegmentHeader::decode(&frame.data));
            found.extend(header.map(|header| (member, zone, header)));
        }
    }
    found
}

/// A volume with segments of both streams, open and sealed.
fn busy(shape: &Shape, seed: u64) -> Rig {
    let mut rig = Rig::new(shape);
    let mut random = Random::from_seed(seed);
    rig.fill();
    for _ in 0..150 {
        rig.write(random.below(rig.config.volume_blocks), 1);
    }
    rig
}

#[test]
fn only_one_open_segment_recovered() {
    for seed in 0..6 {
        let mut rig = busy(&raid5(), seed);
        let open: BTreeSet<u64> = headers(&rig)
            .iter()
            .filter(|(member, zone, _)| rig.zones(*member)[zone.index()].state.is_active())
            .map(|(_, _, header)| header.segment)
            .collect();
        assert!(open.len() >= 2, "{open:?}");
        rig.remount();
        rig.verify();
    }
}

/// The power goes while a segment is made or erased: its header is on some zones only. That segment
/// goes, every other one stays.
#[test]
fn header_on_some_zones_only_resets_good_zones() {
    for holders in [vec![0], vec![2], vec![0, 1], vec![1, 2, 3]] {
        let mut rig = busy(&raid5(), 5);
        rig.rest();
        let before = headers(&rig).len();
        let free: Vec<ZoneIndex> = (0..rig.config.members)
            .map(|member| {
                let zones = rig.zones(member);
                let empty = zones.iter().skip(2).position(|zone| zone.state == ZoneState::Empty);
                ZoneIndex(empty.unwrap() as u32 + 2)
            })
            .collect();
        let mut header = headers(&rig)[0].2.clone();
        header.segment = u64::MAX / 2;
        // On the other members it names a zone that is free, or one that a good segment has.
        for (member, zone) in free.iter().enumerate() {
            if holders.contains(&member) || member % 2 == 1 {
                header.zones[member] = *zone;
            }
        }
        for member in &holders {
            let mut frame = Frame::zeroed();
            header.encode(*member as u8, &mut frame.data);
            execute(rig.device(*member), free[*member], Op::Write { offset: 0, frames: vec![frame] });
        }
        rig.remount();
        assert_eq!(rig.report.segments_discarded, 1);
        assert_eq!(headers(&rig).len(), before, "only the zones of that segment were reset");
        rig.verify();
        rig.fill();
        rig.verify();
    }
}

#[test]
fn one_damaged_header_copy_drops_the_whole_segment() {
    for member in 0..4 {
        let mut rig = busy(&raid5(), member as u64);
        let mine: Vec<ZoneIndex> =
            headers(&rig).iter().filter(|(at, _, _)| *at == member).map(|(_, zone, _)| *zone).collect();
        for zone in &mine {
            rig.device(member).with(|drive| drive.corrupt(*zone, 0, 100, 0x10));
        }
        rig.remount();
        assert_eq!((rig.report.segments_discarded, rig.report.zones_orphaned.len()), (0, 0));
        rig.verify();
        rig.fill();
        rig.verify();
    }
}

/// Stripe 0 of a group is numbered like memory that was never written.
#[test]
fn chunk_of_stripe_0_mistaken_for_an_empty_one() {
    for group_stripes in [1, 16, 256] {
        for lost in [None, Some(0), Some(3)] {
            let mut rig = Rig::new(&Shape { group_stripes, ..raid5() });
            rig.write_fua(7, 3);
            assert_eq!(rig.copies().iter().map(|copy| copy.oob.place.stripe.index()).max(), Some(0));
            if let Some(lost) = lost {
                rig.devices[lost] = None;
            }
            rig.remount();
            rig.verify();
            rig.write_fua(2, 3);
            rig.verify();
        }
    }
}

/// Parity carries the parity of the addresses: 1 ^ 2 ^ 4 = 7 with the kind of a user's block.
#[test]
fn parity_entered_in_the_index() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for rounds in [1, 30] {
            let mut rig = Rig::new(&Shape { level, members, ..raid5() });
            for _ in 0..rounds {
                for lba in [1, 2, 4] {
                    let (op, stamp) = rig.write_op(lba, 1, false);
                    rig.submit(op);
                    rig.remember(lba, 1, stamp);
                }
                let mut replies = Vec::new();
                while replies.len() < 3 {
                    rig.turn(&mut replies);
                }
            }
            let parity = |stored: &Stored| {
                stored.oob.place.role == Role::Parity && stored.protected.is_some_and(|field| field.lba == 7)
            };
            assert!((0..members).flat_map(|member| rig.stored(member)).any(|stored| parity(&stored)));
            rig.remount();
            rig.verify();
            assert_eq!(rig.read(7, 1), Some(vec![0]));
        }
    }
}

/// A write of a script that the power may cut.
pub struct Script {
    pub rig: Rig,
    /// Contents each block may have beside the acknowledged ones.
    pub open: BTreeMap<u64, Vec<u64>>,
}

impl Script {
    /// Runs until the power is cut; returns true when it never was.
    pub fn run(&mut self, fuse: &SharedFuse, rounds: u64) -> bool {
        let mut random = Random::from_seed(11);
        for round in 0..rounds {
            let lba = random.below(self.rig.config.volume_blocks - 6);
            let blocks = 1 + random.below(6);
            let (op, stamp) = if round % 9 == 8 {
                (RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: true }, 0)
            } else {
                self.rig.write_op(lba, blocks, round % 3 == 0)
            };
            self.rig.submit(op);
            let mut replies = Vec::new();
            for _ in 0..400 {
                self.rig.turn(&mut replies);
                if !replies.is_empty() || is_burnt(fuse) {
                    break;
                }
            }
            let dead = is_burnt(fuse);
            match replies.pop() {
                Some(reply) if reply.outcome == Outcome::Done && !dead => {
                    self.rig.remember(lba, blocks, stamp)
                }
                _ => {
                    (lba..lba + blocks).for_each(|lba| self.open.entry(lba).or_default().push(stamp));
                }
            }
            if dead {
                return false;
            }
        }
        true
    }

    /// The media hold what was acknowledged, or one of the writes the cut interrupted.
    pub fn verify(&mut self) {
        for lba in 0..self.rig.config.volume_blocks {
            let found = self.rig.read(lba, 1).unwrap_or_else(|| panic!("block {lba} is lost"))[0];
            let settled = self.rig.blocks[lba as usize];
            let open = self.open.get(&lba).is_some_and(|open| open.contains(&found));
            assert!(found == settled || open, "block {lba} holds {found}, should {settled} or {open:?}");
            self.rig.blocks[lba as usize] = found;
        }
        self.open.clear();
    }
}

/// A power cut at every command of a script that makes, seals and erases segments, the command
/// itself being lost, torn or done: header on some zones, torn chunks, torn footers, no finish.
#[test]
fn torn_multi_block_chunk_accepted() {
    for (level, chunk_blocks, group_stripes) in
        [(Level::Raid5, 4, 1), (Level::Raid5, 2, 4), (Level::Raid0, 4, 4), (Level::Raid5, 1, 256)]
    {
        let shape =
            Shape { level, chunk_blocks, group_stripes, members: 3, zones: 9, capacity: 40, ..raid5() };
        let mut filled = Rig::new(&shape);
        filled.fill();
        filled.rest();
        let total = {
            let counter = fuse(u64::MAX - 1, LastCommand::Done);
            let mut rig = Rig::new(&shape);
            rig.mount_until(mortals(&power_cycled(&filled.devices), &counter), Some(&counter)).unwrap();
            rig.blocks.clone_from(&filled.blocks);
            Script { rig, open: BTreeMap::new() }.run(&counter, 45);
            counter.lock().unwrap().commands
        };
        for (step, dies_at) in (0..total).step_by(7).enumerate() {
            let last = [LastCommand::Lost, LastCommand::Torn, LastCommand::Done][step % 3];
            let fuse = fuse(dies_at, last);
            let devices = power_cycled(&filled.devices);
            let mut rig = Rig::new(&shape);
            rig.blocks.clone_from(&filled.blocks);
            rig.devices.clone_from(&devices);
            let mut script = Script { rig, open: BTreeMap::new() };
            if script.rig.mount_until(mortals(&devices, &fuse), Some(&fuse)).is_ok() {
                script.run(&fuse, 45);
            }
            script.rig.remount();
            script.verify();
            script.rig.remount();
            script.verify();
            script.rig.write(0, 9);
            script.rig.rest();
            script.verify();
            assert_eq!(script.rig.check().problems, [], "{level:?} cut at {dies_at}");
        }
    }
}

/// Recovery completes a segment in place; when it is sealed later, each zone has its own footer.
#[test]
fn footer_written_to_the_wrong_zone_after_repair() {
    for (group_stripes, dies_at) in [(1, 151), (4, 203), (16, 170), (256, 333), (16, 249)] {
        let shape = Shape { group_stripes, ..raid5() };
        let power = fuse(dies_at, LastCommand::Torn);
        let mut rig = Rig::new(&shape);
        rig.mount_until(mortals(&rig.devices.clone(), &power), Some(&power)).unwrap();
        let mut script = Script { rig, open: BTreeMap::new() };
        script.run(&power, 200);
        script.rig.remount();
        script.verify();
        let mut rig = script.rig;
        rig.fill();
        rig.rest();
        let mut footers = 0;
        for (member, zone, header) in headers(&rig) {
            if rig.zones(member)[zone.index()].state == ZoneState::Full {
                footers += 1;
                assert_footer_is_right(&rig, member, zone, &header);
            }
        }
        assert!(footers > 0);
        rig.remount();
        rig.verify();
    }
}

fn assert_footer_is_right(rig: &Rig, member: usize, zone: ZoneIndex, header: &SegmentHeader) {
    let region = header.stripes * header.chunk_blocks;
    let array = u64::from_le_bytes(rig.config.array[..8].try_into().unwrap());
    let mut entries = Vec::new();
    for index in 0..region.div_ceil(ENTRIES_PER_BLOCK) {
        let block = read_block(rig.device(member), zone, 1 + region + index).unwrap();
        let count = (region - index * ENTRIES_PER_BLOCK).min(ENTRIES_PER_BLOCK) as usize;
        let id = FooterId { array, segment: header.segment, zone, index };
        assert!(footer::decode(&id, &block.data, count, &mut entries), "drive {member} zone {zone}");
    }
    for stored in rig.stored(member).iter().filter(|stored| stored.zone == zone) {
        let entry = entries[(stored.offset - 1) as usize];
        let void = entry.kind == footer::EntryKind::Void;
        let same = entry.stripe == stored.oob.place.stripe
            && entry.protected_bytes().is_some_and(|bytes| bytes == stored.bytes[..bytes.len()]);
        assert!(void || same, "drive {member} zone {zone} block {}", stored.offset);
    }
}

/// The power goes between the last footer and the finish, on every zone of the segment.
#[test]
fn crash_between_footer_and_finish() {
    for last in [LastCommand::Lost, LastCommand::Done] {
        let power = fuse_on(|op| matches!(op, Op::Finish), last);
        // One block is left after the footer, so that zones must be finished.
        let mut rig = Rig::new(&Shape { chunk_blocks: 2, capacity: 61, ..raid5() });
        rig.mount_until(mortals(&rig.devices.clone(), &power), Some(&power)).unwrap();
        let mut script = Script { rig, open: BTreeMap::new() };
        assert!(!script.run(&power, 2_000), "no zone was ever finished");
        script.rig.remount();
        script.verify();
        script.rig.rest();
        script.rig.fill();
        script.rig.rest();
        script.rig.remount();
        script.rig.verify();
        assert_eq!(script.rig.check().problems, []);
    }
}

/// The emulated drive reports all ones as the write pointer of a full zone.
#[test]
fn write_pointer_of_a_full_zone_trusted() {
    let mut rig = Rig::new(&Shape { capacity: 61, chunk_blocks: 2, ..raid5() });
    rig.fill();
    rig.rest();
    let full = rig.zones(1).iter().filter(|zone| zone.state == ZoneState::Full).count();
    assert!(full > 3);
    assert!(rig.zones(1).iter().all(|zone| zone.state != ZoneState::Full || zone.write_pointer == u32::MAX));
    // Often enough for the superblock log to fill its zones in turn.
    for _ in 0..80 {
        rig.remount();
    }
    assert!(rig.zones(1)[..2].iter().any(|zone| zone.state == ZoneState::Full));
    rig.verify();
    assert_eq!(rig.check().problems, []);
}

/// The power goes at every command of a mount with much to recover, again and again; in the end
/// nothing is lost. Or one drive goes, and the mount fails or does without it.
#[test]
fn crash_in_recovery_loses_what_recovery_had_not_finished() {
    for (level, chunk_blocks, group_stripes) in [(Level::Raid5, 1, 16), (Level::Raid5, 4, 1)] {
        let shape = Shape { level, chunk_blocks, group_stripes, members: 3, ..raid5() };
        let power = fuse(700, LastCommand::Torn);
        let mut rig = Rig::new(&shape);
        rig.mount_until(mortals(&rig.devices.clone(), &power), Some(&power)).unwrap();
        let mut script = Script { rig, open: BTreeMap::new() };
        assert!(!script.run(&power, 3_000));
        let crashed = power_cycled(&script.rig.devices);
        let (settled, open) = (script.rig.blocks.clone(), script.open.clone());
        for alone in [None, Some(0), Some(1), Some(2)] {
            for dies_at in (0..400).step_by(if alone.is_none() { 3 } else { 11 }) {
                let last = [LastCommand::Lost, LastCommand::Torn, LastCommand::Done][dies_at as usize % 3];
                script.rig.blocks.clone_from(&settled);
                script.open.clone_from(&open);
                script.rig.devices = power_cycled(&crashed);
                for again in 0..2 {
                    let fuse = fuse(dies_at + again * 2, last);
                    let mut drives = mortals(&script.rig.devices, &fuse);
                    if let Some(alone) = alone {
                        let others = super::shape::boxed(&script.rig.devices);
                        let swap = |(place, other)| if place == alone { drives[alone].take() } else { other };
                        drives = others.into_iter().enumerate().map(swap).collect();
                    }
                    let power = alone.is_none().then_some(&fuse);
                    let mounted = script.rig.mount_until(drives, power).is_ok();
                    if mounted && alone.is_some() {
                        script.verify();
                    }
                    script.rig.devices = power_cycled(&script.rig.devices);
                }
                script.rig.remount();
                script.verify();
                script.rig.remount();
                script.verify();
            }
        }
    }
}
