//! ZRAID writes where the published one does, and gives back what it was given. What survives is for the simulator to find out.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::config::LOG_ZONES;
use super::*;
use crate::record::{Kind, Record};
use base::random::Random;
use base::units::{OOB_BYTES, ZoneIndex};
use base::xor::Block;
use std::collections::BTreeMap;
use zone::device::{Areas, Geometry, Op};
use zone::drives::DriveCommand;
use zone::format::oob::{self, Bound};

const MEMBERS: usize = 4;
const CHUNK: u32 = 8;
const WINDOW: u32 = 64;
const CAPACITY: u32 = 256;
const ZONES: u32 = 3;

fn config() -> RaiznConfig {
    let areas = Areas { zones_max: 14, window_blocks: WINDOW, granule_blocks: 4, explicit_commit: true };
    let geometry = Geometry {
        zones: ZONES + LOG_ZONES,
        zone_size_blocks: CAPACITY,
        zone_capacity_blocks: CAPACITY,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 16,
        transfer_blocks_max: 16,
        volatile_cache: false,
        areas: Some(areas),
    };
    RaiznConfig { array: [7; 16], members: MEMBERS, chunk_blocks: CHUNK, geometry }
}

/// A block as it lies on a drive.
#[derive(Clone)]
struct Stored {
    data: Box<Block>,
    oob: [u8; OOB_BYTES],
    /// Kind, zone, stripe, piece and row.
    what: [u32; 5],
}

impl Stored {
    fn of(frame: &Frame, zone: u32, offset: u32) -> Stored {
        let tag = array_tag(&config());
        let data = config().map().data_count();
        let bound = Bound { array: tag, zone: ZoneIndex(zone), group: offset / CHUNK };
        let what = match Record::of_frame(tag, frame) {
            Some(Record { kind: Kind::Settled, zone, stripe, row, .. }) => {
                [1, zone, stripe, count(data), u32::from(row)]
            }
            Some(Record { kind: Kind::Partial, zone, stripe, row, coverage, .. }) => {
                [2, zone, stripe, (coverage - 1) / CHUNK, u32::from(row)]
            }
            Some(_) => [0; 5],
            None => {
                let place = oob::open(&frame.oob, &bound).unwrap().place;
                [1, zone, place.stripe.0, u32::from(place.piece.0), u32::from(place.row)]
            }
        };
        Stored { data: Box::new(frame.data), oob: frame.oob, what }
    }
}

/// Media of a drive.
#[derive(Clone, Default)]
struct Media {
    blocks: BTreeMap<(u32, u32), Stored>,
    /// By zone: write pointer, for zones with a window.
    pointers: BTreeMap<u32, u32>,
}

impl Media {
    fn written(&self, zone: u32) -> u32 {
        self.blocks.range((zone, 0)..(zone + 1, 0)).count().try_into().unwrap()
    }

    /// Carries a command out, of a write the blocks that `keeps` says. Commands that drives would refuse, and commits that pass what is not
    /// there, are mistakes of the engine.
    fn carry_out(&mut self, zone: u32, op: &mut Op, mut keeps: impl FnMut() -> bool) {
        match op {
            Op::OpenWithArea => assert!(self.written(zone) == 0 && self.pointers.insert(zone, 0).is_none()),
            Op::Write { offset, frames } => {
                let (pointer, end) = (self.pointers[&zone], *offset + u32::try_from(frames.len()).unwrap());
                assert!(*offset >= pointer && end <= (pointer + WINDOW).min(CAPACITY), "outside the window");
                for (at, frame) in (*offset..).zip(frames.iter()).filter(|_| keeps()) {
                    self.blocks.insert((zone, at), Stored::of(frame, zone, at));
                }
            }
            Op::Append { frames } => {
                let first = self.written(zone);
                assert!(zone >= ZONES && first + u32::try_from(frames.len()).unwrap() <= CAPACITY);
                for (at, frame) in (first..).zip(frames.iter()).filter(|_| keeps()) {
                    self.blocks.insert((zone, at), Stored::of(frame, zone, at));
                }
            }
            Op::Commit { end } if keeps() => {
                let pointer = self.pointers.get_mut(&zone).unwrap();
                assert!(*end > *pointer && *end <= *pointer + WINDOW && end.is_multiple_of(4));
                let is_in_place =
                    |at: u32| self.blocks.get(&(zone, at)).is_some_and(|block| block.what[0] == 1);
                assert!((*pointer..*end).all(is_in_place), "a commit passes what is not there");
                *pointer = *end;
            }
            Op::Commit { .. } => {}
            Op::Reset => {
                self.blocks.retain(|(own, _), _| *own != zone);
                self.pointers.remove(&zone);
            }
            Op::Read { offset, frames } => {
                for (at, frame) in (*offset..).zip(frames) {
                    let block = self.blocks.get(&(zone, at));
                    frame.data = block.map_or([0; 4096], |block| *block.data);
                    frame.oob = block.map_or([0; OOB_BYTES], |block| block.oob);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The engine, and drives that carry commands out in any order.
struct Bench {
    engine: Zraid,
    fx: Effects,
    media: Vec<Media>,
    pending: Vec<DriveCommand>,
    random: Random,
    next: u64,
    /// Requests that are not answered: zone, and the position behind the last block.
    asked: BTreeMap<u64, (u32, u32)>,
    /// By zone, positions that were written, and those that were acknowledged: in order.
    written: Vec<u32>,
    acked: Vec<u32>,
    reads: Vec<Reply>,
}

fn fill(frame: &mut Frame, zone: u32, position: u32) {
    for (place, word) in frame.data.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(
            &(u64::from(zone + 1) << 48 | u64::from(position) << 16 | place as u64).to_le_bytes(),
        );
    }
    frame.oob.fill(0);
}

impl Bench {
    fn new(seed: u64) -> Bench {
        Bench {
            engine: Zraid::new(config()).unwrap(),
            fx: Effects::default(),
            media: vec![Media::default(); MEMBERS],
            pending: Vec::new(),
            random: Random::from_seed(seed),
            next: 0,
            asked: BTreeMap::new(),
            written: vec![0; ZONES as usize],
            acked: vec![0; ZONES as usize],
            reads: Vec::new(),
        }
    }

    fn submit(&mut self, op: RequestOp) {
        self.next += 1;
        self.engine.submit(Instant(0), Request { id: RequestId(self.next), op }, &mut self.fx);
        self.take_effects();
    }

    fn write(&mut self, zone: u32, blocks: u32) {
        let mut frames = self.engine.frames().take_vec(blocks as usize);
        let first = self.written[zone as usize];
        frames.iter_mut().zip(first..).for_each(|(frame, position)| fill(frame, zone, position));
        self.written[zone as usize] += blocks;
        self.asked.insert(self.next + 1, (zone, first + blocks));
        let lba = Lba(u64::from(zone * self.engine.zone_blocks() + first));
        self.submit(RequestOp::Write { lba, frames, force_unit_access: false });
    }

    fn reset(&mut self, zone: u32) {
        (self.written[zone as usize], self.acked[zone as usize]) = (0, 0);
        self.asked.insert(self.next + 1, (zone, 0));
        let blocks = u64::from(self.engine.zone_blocks());
        let lba = Lba(u64::from(zone) * blocks);
        self.submit(RequestOp::Trim { lba, blocks, force_unit_access: false });
    }

    fn take_effects(&mut self) {
        self.pending.append(&mut self.fx.commands);
        for reply in self.fx.replies.drain(..) {
            assert!(reply.outcome == Outcome::Done);
            match self.asked.remove(&reply.id.0) {
                Some((zone, end)) => {
                    let acked = &mut self.acked[zone as usize];
                    assert!(end > *acked || end == 0, "a later write was answered before");
                    *acked = end;
                }
                None if reply.frames.is_empty() => {}
                None => self.reads.push(reply),
            }
        }
    }

    /// Step of the bench: one command, any, is carried out and answered.
    fn step(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let at = self.random.index(self.pending.len());
        let DriveCommand { drive, mut command } = self.pending.swap_remove(at);
        self.media[drive.index()].carry_out(command.zone.0, &mut command.op, || true);
        let frames = match command.op {
            Op::Read { frames, .. } | Op::Write { frames, .. } | Op::Append { frames } => frames,
            _ => Vec::new(),
        };
        let completion = Completion {
            token: command.token,
            status: Status::Success,
            zone: command.zone,
            offset: 0,
            frames,
            report: Vec::new(),
        };
        self.engine.on_completion(drive, completion, &mut self.fx);
        self.take_effects();
        if self.reads.is_empty() {
            self.engine.check_invariants();
        }
        true
    }

    fn settle(&mut self) {
        while self.step() {}
        assert!(self.engine.is_quiet() && self.asked.is_empty(), "{}", self.engine.describe());
    }

    /// Writes of any size to any zone, and flushes, while commands are carried out now and then.
    fn load(&mut self, requests: u32) {
        for _ in 0..requests {
            let zone = u32::try_from(self.random.index(ZONES as usize)).unwrap();
            let left = self.engine.zone_blocks() - self.written[zone as usize];
            let most = [1, 3, 8, 16, 40][self.random.index(5)];
            let blocks = (1 + u32::try_from(self.random.index(most)).unwrap()).min(left);
            if self.random.chance(1, 12) {
                self.submit(RequestOp::Flush);
            } else if blocks > 0 {
                self.write(zone, blocks);
            }
            for _ in 0..self.random.index(12) {
                self.step();
            }
        }
    }

    /// Reads what was written and compares.
    fn verify(&mut self) {
        for zone in 0..ZONES {
            for position in 0..self.written[zone as usize] {
                let lba = Lba(u64::from(zone * self.engine.zone_blocks() + position));
                self.submit(RequestOp::Read { lba, blocks: 1 });
                while self.reads.is_empty() {
                    assert!(self.step());
                }
                let mut reply = self.reads.remove(0);
                let mut expected = Frame::zeroed();
                fill(&mut expected, zone, position);
                assert!(reply.frames[0].data == expected.data, "block {position} of zone {zone}");
                self.engine.frames().give_many(&mut reply.frames);
            }
        }
    }
}

#[test]
fn reads_return_what_was_written_to_the_ends_of_zones() {
    for seed in 0..20 {
        let mut bench = Bench::new(seed);
        bench.load(60);
        bench.verify();
        for zone in 0..ZONES {
            while bench.written[zone as usize] < bench.engine.zone_blocks() {
                let left = bench.engine.zone_blocks() - bench.written[zone as usize];
                bench.write(zone, left.min(7));
                while bench.random.chance(15, 16) && bench.step() {}
            }
        }
        bench.settle();
        bench.verify();
        for media in &bench.media {
            assert!(
                (0..ZONES).all(|zone| media.pointers[&zone] == CAPACITY && media.written(zone) == CAPACITY)
            );
        }
        let counters = *bench.engine.counters();
        assert!(counters.data == counters.user && counters.parity == counters.user / 3);
        assert!(counters.partial_logged > 0, "windows have no room above the last stripes");
        assert!(bench.engine.frames().frames_out() == 0);
    }
}

/// A flush is answered when write pointers and their logs tell what was written.
#[test]
fn a_flush_waits_for_write_pointers() {
    for blocks in [2, CHUNK, CHUNK + 3, 2 * CHUNK] {
        let mut bench = Bench::new(u64::from(blocks));
        bench.write(0, blocks);
        bench.settle();
        bench.write(0, 2 * CHUNK);
        bench.asked.insert(bench.next + 1, (0, u32::MAX));
        bench.submit(RequestOp::Flush);
        while bench.acked[0] != u32::MAX {
            assert!(bench.step());
        }
        let position = blocks + 2 * CHUNK;
        let whole = bench.engine.map.spot(position / CHUNK * CHUNK - 1);
        let last = bench.engine.map.drive_of(0, whole.stripe, whole.piece);
        // Half of a chunk says that it is whole.
        assert!(bench.media[last].pointers[&0] >= whole.stripe * CHUNK + CHUNK / 2);
        // The first chunk of a stripe has one write pointer that tells, those of the stripe before are all the same.
        let is_told = position.is_multiple_of(CHUNK) && whole.piece > 0;
        let logged = if is_told { 1 } else { 3 };
        assert_eq!(bench.engine.counters().logged, logged);
        bench.settle();
    }
}

/// Partial parity lies on the next drive, half a window above its stripe; write pointers move by half a chunk, and by the rest when the next
/// chunk is whole.
#[test]
fn partial_parity_and_write_pointers_are_where_the_paper_has_them() {
    let mut bench = Bench::new(1);
    let pointers = |bench: &Bench| -> Vec<u32> {
        let drive = |piece: usize| bench.engine.map.drive_of(0, 0, piece);
        (0..MEMBERS).map(|piece| bench.media[drive(piece)].pointers[&0]).collect()
    };
    let next = (bench.engine.map.drive_of(0, 0, 0) + 1) % MEMBERS;
    bench.write(0, 1);
    bench.settle();
    assert!(bench.media[next].blocks[&(0, WINDOW / 2)].what == [2, 0, 0, 0, 0]);
    assert_eq!(pointers(&bench), [0; 4]);
    bench.write(0, CHUNK - 1);
    bench.settle();
    assert_eq!(pointers(&bench), [CHUNK / 2, 0, 0, 0]);
    bench.write(0, CHUNK);
    bench.settle();
    assert_eq!(pointers(&bench), [CHUNK, CHUNK / 2, 0, 0]);
    bench.write(0, CHUNK);
    bench.settle();
    assert_eq!(pointers(&bench), [CHUNK; 4]);
    // A mark, and nothing else: all ended at chunks but the first write, which nobody flushed.
    assert_eq!(bench.engine.counters().logged, 1);
    bench.write(0, 3);
    bench.submit(RequestOp::Flush);
    bench.submit(RequestOp::Flush);
    bench.settle();
    assert_eq!(bench.engine.counters().logged, 3, "two copies of the write pointers, once");
}

/// Zones are reset and written again, and stripes that were open before are gone.
#[test]
fn zones_are_reset() {
    let mut bench = Bench::new(1);
    for blocks in [3, CHUNK, 3 * CHUNK, 40] {
        bench.write(1, blocks);
        bench.submit(RequestOp::Flush);
        bench.reset(1);
        bench.settle();
        assert!(bench.media.iter().all(|media| media.written(1) == 0));
        bench.verify();
    }
}

/// Without a drive, all is read, and what is written survives the loss of no other.
#[test]
fn a_drive_is_lost_in_service() {
    for seed in 0..40 {
        let mut bench = Bench::new(seed);
        bench.load(30);
        let lost = bench.random.index(MEMBERS);
        bench.engine.fail_member(DriveIndex::at(lost), &mut bench.fx);
        bench.take_effects();
        bench.load(30);
        bench.settle();
        bench.verify();
        assert!(bench.engine.failed_member() == Some(lost) && !bench.engine.is_broken());
    }
}

#[test]
fn writes_elsewhere_and_resets_of_half_a_zone_are_refused() {
    let mut bench = Bench::new(1);
    bench.write(0, 2);
    let frames = bench.engine.frames().take_vec(1);
    let ops = [
        RequestOp::Write { lba: Lba(1), frames, force_unit_access: false },
        RequestOp::Trim { lba: Lba(0), blocks: u64::from(CHUNK), force_unit_access: false },
    ];
    for op in ops {
        bench.next += 1;
        bench.engine.submit(Instant(0), Request { id: RequestId(bench.next), op }, &mut bench.fx);
        assert!(bench.fx.replies.pop().unwrap().outcome == Outcome::IoError);
    }
    bench.take_effects();
    bench.settle();
}
