//! Tests of the bridge without threads: both sides in one hand.

use super::super::backend::Backend;
use super::super::memory_volume::{MemoryVolume, Options, Shared};
use super::*;
use array::request::{Outcome, Reply, RequestId, Volume};
use base::time::{Instant, Nanos};
use base::units::Lba;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const NOW: Instant = Instant(0);
const ID: RequestId = RequestId(77);

fn volume(frames_max: usize) -> (MemoryVolume, Arc<Shared>) {
    MemoryVolume::new(Options { blocks: 64, frames_max, delay_max: Nanos(0) })
}

/// Turns both sides until the remote has one reply.
fn answer(hub: &mut Hub<'_>, remote: &mut Remote) -> Reply {
    let (mut replies, mut none) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        remote.turn(NOW, &mut replies);
        if let Some(reply) = replies.pop() {
            assert!(replies.is_empty());
            return reply;
        }
        hub.turn(NOW, &mut none);
        assert!(none.is_empty());
    }
    panic!("no reply");
}

fn write(backend: &mut dyn Backend, lba: u64, byte: u8) {
    let mut frames = backend.frames().take_vec(2);
    frames.iter_mut().for_each(|frame| frame.data.fill(byte));
    let op = RequestOp::Write { lba: Lba(lba), frames, force_unit_access: false };
    backend.submit(NOW, Request { id: ID, op });
}

fn read(backend: &mut dyn Backend, lba: u64) {
    backend.submit(NOW, Request { id: ID, op: RequestOp::Read { lba: Lba(lba), blocks: 2 } });
}

#[test]
fn a_reply_brings_back_as_many_frames_as_its_request_brought() {
    let (mut volume, shared) = volume(64);
    let (mut hub, mut remotes) = build(&mut volume, 2).unwrap().unwrap();
    let remote = &mut remotes[1];
    let share = remote.client_frames_available();
    assert_eq!((share, hub.client_frames_available()), (20, 20));
    let merge = |remote: &mut Remote| {
        let mut payload = remote.frames().take();
        payload.data.fill(9);
        let merge = Merge {
            id: ID,
            lba: Lba(8),
            from: 1,
            to: 4096,
            payload: Some(payload),
            force_unit_access: false,
        };
        remote.merge(NOW, merge);
    };
    for bad_block in [u64::MAX, 8] {
        shared.bad_block.store(bad_block, Relaxed);
        let expected = if bad_block == 8 { Outcome::IoError } else { Outcome::Done };
        let questions: [&dyn Fn(&mut Remote); 3] =
            [&|remote| write(remote, 8, 7), &|remote| read(remote, 8), &merge];
        for (question, frames_count) in questions.into_iter().zip([2, 2, 1]) {
            question(remote);
            assert_eq!(remote.client_frames_available(), share - frames_count);
            let mut reply = answer(&mut hub, remote);
            assert_eq!((reply.id, reply.outcome, reply.frames.len()), (ID, expected, frames_count));
            remote.frames().give_many(&mut reply.frames);
            assert_eq!(remote.client_frames_available(), share);
        }
        for op in [RequestOp::Trim { lba: Lba(0), blocks: 4, force_unit_access: true }, RequestOp::Flush] {
            remote.submit(NOW, Request { id: ID, op });
            assert!(answer(&mut hub, remote).frames.is_empty());
        }
    }
    drop(hub);
    assert_eq!(volume.frames().frames_out(), 0);
}

#[test]
fn what_one_core_writes_another_reads() {
    let (mut volume, _shared) = volume(64);
    let (mut hub, mut remotes) = build(&mut volume, 1).unwrap().unwrap();
    let remote = &mut remotes[0];
    write(remote, 3, 5);
    let mut reply = answer(&mut hub, remote);
    remote.frames().give_many(&mut reply.frames);
    read(&mut hub, 4);
    let mut replies = Vec::new();
    hub.turn(NOW, &mut replies);
    assert_eq!(replies[0].id, ID);
    assert!(replies[0].frames[0].data == [5; 4096]);
    assert!(replies[0].frames[1].data == [0; 4096]);
}

#[test]
fn a_thread_may_sleep_only_with_nothing_to_take_and_nothing_to_send() {
    let (mut volume, _shared) = volume(64);
    let (mut hub, mut remotes) = build(&mut volume, 1).unwrap().unwrap();
    let remote = &mut remotes[0];
    assert!(hub.may_sleep() && remote.may_sleep());
    read(remote, 0);
    assert!(!remote.may_sleep());
    remote.turn(NOW, &mut Vec::new());
    assert!(remote.may_sleep());
    assert!(!hub.may_sleep());
    hub.turn(NOW, &mut Vec::new());
    assert!(hub.may_sleep());
    assert!(!remote.may_sleep());
}

#[test]
fn every_core_needs_two_frames() {
    let (mut few, _shared) = volume(8);
    assert!(build(&mut few, 2).unwrap().is_some());
    assert!(build(&mut few, 3).unwrap().is_none());
}
