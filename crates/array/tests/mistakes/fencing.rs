//! Two servers that have the same drives: the first one stops when it meets the second.

use super::rig::{Rig, execute, raid5};
use super::shape::{Shape, boxed};
use array::log::config::Tuning;
use array::log::mount;
use array::log::volume::LogVolume;
use array::request::{Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, Lba, ZoneIndex};
use zone::device::{Op, Status};
use zone::format::superblock::MemberState;

/// Turns in which everything that can happen does.
const TURNS: u32 = 200;

/// An empty array that is served by one who watches.
fn empty(group_stripes: u32) -> Rig {
    let mut rig = Rig::new(&Shape { group_stripes, fill_percent: 50, zones: 24, ..raid5() });
    rig.volume.watch_for_others();
    rig
}

/// An array that is served by one who watches, and has acknowledged everything.
fn watched(group_stripes: u32) -> Rig {
    let mut rig = empty(group_stripes);
    rig.fill();
    rig.rest();
    assert!(
        rig.volume.fenced().is_none() && rig.volume.take_refusals().is_empty(),
        "alone, nothing is noticed"
    );
    rig
}

/// Another server mounts the array.
fn taken_by_another(rig: &Rig) -> LogVolume {
    let (shard, drives, _) =
        mount(boxed(&rig.devices), Tuning { mount_tag: 5, ..Tuning::default() }, rig.now).unwrap();
    LogVolume::new(shard, drives)
}

/// Zones of segments that a member is being written to.
fn open_zones(rig: &Rig, member: usize) -> Vec<ZoneIndex> {
    let zones = (0..).map(ZoneIndex).zip(rig.zones(member)).skip(2);
    zones.filter(|(_, zone)| zone.state.is_active()).map(|(index, _)| index).collect()
}

fn asked(rig: &mut Rig, requests: u64, turns: u32) -> usize {
    let mut replies = Vec::new();
    for lba in 0..requests {
        let (op, _) = rig.write_op(lba, 1, true);
        rig.submit(op);
    }
    (0..turns).for_each(|_| rig.turn(&mut replies));
    replies.len()
}

#[test]
fn the_first_server_answers_and_writes_nothing_more() {
    for group_stripes in [1, 16] {
        let mut rig = watched(group_stripes);
        let mut other = taken_by_another(&rig);
        let frames = vec![other.frames().take()];
        let op = RequestOp::Write { lba: Lba(3), frames, force_unit_access: true };
        other.submit(rig.now, Request { id: RequestId(1), op });
        let mut replies = Vec::new();
        for _ in 0..TURNS {
            rig.now = Instant(rig.now.0 + 7_000);
            other.turn(rig.now, &mut replies);
        }
        assert_eq!(replies.len(), 1, "the second one writes");
        drop(other);
        assert_eq!(asked(&mut rig, 8, TURNS), 0, "the first one acknowledges nothing");
        let fenced = rig.volume.fenced().expect("it has noticed");
        assert!(fenced.theirs.epoch == fenced.ours.epoch + 1, "{fenced}");
        let text = fenced.to_string();
        let numbers =
            [fenced.theirs.generation, fenced.ours.generation].map(|number| format!("generation {number}"));
        assert!(numbers.iter().all(|number| text.contains(number)), "{text}");
        let before: Vec<_> = (0..4).map(|member| rig.zones(member)).collect();
        rig.volume.ask_for_checkpoint();
        rig.volume.fail_member(DriveIndex(1));
        assert_eq!(asked(&mut rig, 8, TURNS), 0);
        let after: Vec<_> = (0..4).map(|member| rig.zones(member)).collect();
        assert_eq!(before, after, "nothing is written any more");
        assert!(rig.volume.next_deadline().is_none() && rig.volume.has_ended());
    }
}

#[test]
fn no_failure_is_recorded_on_drives_of_another_server() {
    let mut rig = watched(16);
    drop(taken_by_another(&rig));
    let before = rig.zones(0)[0];
    rig.volume.fail_member(DriveIndex(2));
    let mut replies = Vec::new();
    (0..TURNS).for_each(|_| rig.turn(&mut replies));
    assert!(rig.volume.fenced().is_some(), "who is about to record looks first");
    assert_eq!(rig.zones(0)[0], before);
    assert!(rig.volume.take_refusals().is_empty(), "no drive had to refuse anything");
}

#[test]
fn an_array_at_rest_is_not_mounted_again_by_who_lost_it() {
    let mut rig = watched(16);
    rig.volume.look_for_others(rig.now);
    assert!(rig.volume.fenced().is_none());
    drop(taken_by_another(&rig));
    rig.volume.look_for_others(rig.now);
    assert!(rig.volume.has_ended());
}

/// Chunks that are appended behind another server's blocks are refused by no drive: where they land tells, within the group of
/// the chunks or behind it.
#[test]
fn an_append_behind_blocks_of_another_server_is_noticed() {
    for strange_blocks in [12, 40] {
        let mut rig = empty(16);
        rig.write_fua(0, 1);
        let open: Vec<Vec<ZoneIndex>> = (0..4).map(|member| open_zones(&rig, member)).collect();
        assert!(open.iter().any(|zones| !zones.is_empty()), "a segment is being filled");
        drop(taken_by_another(&rig));
        for (member, zones) in open.iter().enumerate() {
            for zone in zones {
                execute(rig.device(member), *zone, Op::Reset);
                for _ in 0..strange_blocks {
                    let append = Op::Append { frames: vec![Frame::zeroed()] };
                    assert_eq!(execute(rig.device(member), *zone, append).status, Status::Success);
                }
            }
        }
        assert_eq!(asked(&mut rig, 1, TURNS), 0, "the first one acknowledges nothing");
        assert!(rig.volume.fenced().is_some(), "{strange_blocks} blocks");
        assert!(rig.volume.take_refusals().is_empty(), "no drive had to refuse anything");
    }
}

/// A zone that its drive finished by itself is no other server: the zone retires, and the command is told.
#[test]
fn a_refusal_alone_is_no_other_server() {
    let mut rig = watched(1);
    rig.write(0, 3);
    for zone in open_zones(&rig, 1) {
        execute(rig.device(1), zone, Op::Finish);
    }
    rig.fill();
    rig.rest();
    assert!(rig.volume.fenced().is_none());
    let refusals = rig.volume.take_refusals();
    let told = refusals.first().expect("a write was refused").to_string();
    assert!(told.starts_with("drive 1 answered ZoneIsFull (0x1b9) to the write"), "{told}");
    assert_eq!(rig.volume.engine.status().members, vec![MemberState::Active; 4]);
    rig.verify();
}
