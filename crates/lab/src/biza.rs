//! BIZA as published (Yi et al., SOSP '24), a peer in experiments and nothing else: it persists nothing.
//!
//! ```text
//!   write ─ in a window? ─ yes ─> data and parity updated in place, together
//!                 └─ no ─ selector ─> high profit | high revenue | trivial ─> next stripe of a zone of that group
//!   few free zones ─> greedy victim ─> live blocks to the group of moved ones, on another channel than clients'
//! ```
//! What is published is here: mapping tables in memory, windows that slide over zones with any number of writes in flight, data and parity
//! overwritten in them together, the selector with three caches (`selector.rs`), groups of 2, 4, 6 and 2 zones (`config.rs`), greedy
//! collection from 30 % of free zones on and at full speed below 10 %, the guess of channels by order of opening, spikes of five times
//! the mean that correct it, and zones on other channels for clients while the collector writes (`channels.rs`).
//!
//! **In what respect it is better than what it stands for.** Computing, locks and tables cost no time. The blocks of a stripe lie in zones of
//! one number, so collecting those frees whole stripes: no parity is left over blocks that were erased, as in the published tree. Stripes of
//! a group are filled one after the other, data and parity in zones of the same group, so both stay in windows for as long. Neighbours in a
//! zone leave in one command of up to 64 KiB, and wait for company while their drive has enough to do. The parity of a stripe that is not full waits while as many are on their way as there are
//! drives, so that more of it is there. A window stays in use after its zone's end while its group goes on. Windows are read from
//! memory. Percentages of free zones are those of zones that the volume does not need: else a fuller array would collect for ever. What is
//! moved is read and written many blocks at a time. Requests may be of any size, and flushes are answered.
//!
//! **What it is bad at.** After a crash nothing is known. Were the tables kept, as the paper wants them kept beside the data, an update in place
//! whose data was written and whose parity was not still takes another block of its stripe along when that one's drive is lost (a test
//! shows it). There is no rebuild; two lost drives end it.

pub(crate) mod channels;
mod collect;
pub mod config;
mod life;
mod read;
mod segment;
mod selector;
mod send;
#[cfg(test)]
mod tests;
mod write;

use anyhow::Result;
use array::driven::Driven;
use array::engine::{Effects, Engine};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::frame::FramePool;
use base::slab::Slab;
use base::time::Instant;
use base::units::DriveIndex;
use channels::Channels;
use collect::Collector;
use config::{BizaConfig, GROUPS};
use life::Group;
use read::Read;
use segment::{Segment, Slot};
use selector::Selector;
use send::{Outbox, Sent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use write::{Waiting, Write};
use zone::device::{Areas, Completion, Status};
use zone::format::superblock::MemberState;
use zone::rules::Zone;

/// A volume of the peer.
pub type BizaVolume = Driven<Biza>;

/// Counts, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Written by clients.
    pub user: u64,
    /// Blocks of those that replaced another in a window.
    pub absorbed: u64,
    /// Places of zones that were given to clients' data.
    pub data: u64,
    /// Places that were given to parity.
    pub parity: u64,
    /// Places that were given to data that was moved.
    pub moved: u64,
    /// Segments collected.
    pub segments_collected: u64,
    /// Written to windows: overwrites, too.
    pub interface: u64,
    /// Read with a drive missing.
    pub decoded: u64,
}

impl Counters {
    /// Blocks that are or will be programmed: each place is, once. What is in windows counts.
    #[must_use]
    pub fn flash_blocks(&self) -> u64 {
        self.data + self.parity + self.moved
    }
}

/// Place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    segment: u32,
    drive: u8,
    stripe: u32,
}

/// Writes that clients wait for, in order.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    open: BTreeSet<u64>,
    /// Flushes, and the number of the first write after each.
    flushes: VecDeque<(u64, RequestId)>,
}

impl Order {
    /// Answers flushes whose writes are all done.
    fn answer_flushes(&mut self, fx: &mut Effects) {
        let first_open = self.open.first().copied().unwrap_or(u64::MAX);
        while let Some((before, id)) = self.flushes.front().copied()
            && before <= first_open
        {
            self.flushes.pop_front();
            fx.replies.push(Reply { id, outcome: Outcome::Done, frames: Vec::new() });
        }
    }
}

/// Account of an array: its counters, and the drive that is lost.
#[derive(Debug, Default)]
struct Account {
    counters: Counters,
    lost: Option<usize>,
}

/// Memory that is used again.
#[derive(Debug)]
struct Memory {
    frames: FramePool,
    windows: Vec<Vec<Slot>>,
}

/// The engine: all state of one volume.
pub struct Biza {
    config: BizaConfig,
    areas: Areas,
    segments: Vec<Segment>,
    map: Vec<Option<Place>>,
    selector: Selector,
    groups: [Group; GROUPS],
    /// Blocks that wait for a place.
    waiting: BTreeMap<u32, Waiting>,
    writes: Slab<Write>,
    order: Order,
    outbox: Outbox,
    in_flight: Slab<Sent>,
    reads: Slab<Read>,
    collector: Collector,
    channels: Channels,
    memory: Memory,
    account: Account,
}

impl Biza {
    /// The engine of an array whose drives are empty.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn new(config: BizaConfig) -> Result<Biza> {
        let areas = config.validate()?;
        let zones = config.geometry.zones as usize;
        let segments = (0..zones).map(|_| Segment::new(config.members, areas.window_blocks)).collect();
        let selector = Selector::new(config.volume_blocks, config.caches_blocks(), config.windows_blocks());
        let blocks = usize::try_from(config.volume_blocks)?;
        Ok(Biza {
            areas,
            segments,
            map: vec![None; blocks],
            selector,
            groups: config.zones().map(Group::new),
            waiting: BTreeMap::new(),
            writes: Slab::default(),
            order: Order::default(),
            outbox: Outbox::default(),
            in_flight: Slab::default(),
            reads: Slab::default(),
            collector: Collector::default(),
            channels: Channels::new(config.members, zones),
            memory: Memory { frames: FramePool::new(1 << 22), windows: Vec::new() },
            account: Account::default(),
            config,
        })
    }

    /// Counts since the array was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.account.counters
    }

    /// Goes on with all that may go on.
    fn advance(&mut self, now: Instant, fx: &mut Effects) {
        self.end_segments(fx);
        self.open_segments(fx);
        self.place_waiting(fx);
        self.collect(fx);
        self.send(now, fx);
        self.order.answer_flushes(fx);
    }

    fn lose(&mut self, drive: usize) {
        assert!(self.account.lost.is_none_or(|lost| lost == drive), "two drives are lost");
        self.account.lost = Some(drive);
    }
}

impl Engine for Biza {
    fn resume(&mut self, fx: &mut Effects) {
        self.open_segments(fx);
    }

    fn submit(&mut self, _now: Instant, request: Request, fx: &mut Effects) {
        let Request { id, op } = request;
        match op {
            RequestOp::Read { lba, blocks } => self.start_read(id, lba, blocks, fx),
            RequestOp::Write { lba, frames, .. } => self.start_write(id, lba, frames, fx),
            RequestOp::Trim { lba, blocks, .. } => self.trim(id, lba, blocks, fx),
            RequestOp::Flush => self.order.flushes.push_back((self.order.next, id)),
        }
    }

    fn on_completion(&mut self, drive: DriveIndex, completion: Completion, fx: &mut Effects) {
        let slot = u32::try_from(completion.token.0).expect("a slot of commands");
        let sent = self.in_flight.remove(slot);
        match completion.status {
            Status::Success => {}
            Status::DeviceGone => self.lose(drive.index()),
            status => panic!("drive {drive} answers {sent:?} with {status:?}"),
        }
        match sent {
            Sent::Write(write) => self.on_written(write, drive.index(), completion, fx),
            Sent::Read { read, part, adds } => self.on_read((read, part, adds), completion, fx),
            Sent::Manage { segment } => self.on_managed(segment),
        }
    }

    fn settle(&mut self, now: Instant, fx: &mut Effects) {
        self.channels.judge(now);
        self.advance(now, fx);
    }

    fn tick(&mut self, now: Instant, fx: &mut Effects) {
        self.advance(now, fx);
    }

    fn blocks(&self) -> u64 {
        self.config.volume_blocks
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.memory.frames
    }

    fn client_frames_available(&self) -> usize {
        self.memory.frames.available()
    }

    fn fail_member(&mut self, drive: DriveIndex, _fx: &mut Effects) {
        self.lose(drive.index());
    }

    fn members(&self) -> Vec<MemberState> {
        let state = |member| {
            if self.account.lost == Some(member) { MemberState::Failed } else { MemberState::Active }
        };
        (0..self.config.members).map(state).collect()
    }

    fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
            && self.writes.is_empty()
            && self.reads.is_empty()
            && self.waiting.is_empty()
    }

    fn describe(&self) -> String {
        format!(
            "{} commands, {} writes, {} reads, {} blocks wait, {} free segments, {:?}",
            self.in_flight.len(),
            self.writes.len(),
            self.reads.len(),
            self.waiting.len(),
            self.free_count(),
            self.collector
        )
    }

    fn audit_zones(&self, drive: DriveIndex, zones: &[Zone]) -> Option<String> {
        let lost = self.account.lost == Some(drive.index());
        let differs = |(segment, zone): (&Segment, &Zone)| {
            !segment.owners.is_empty() && segment.is_in_window(segment.base) && zone.area.is_none()
        };
        let found = self.segments.iter().zip(zones).position(differs).filter(|_| !lost);
        found.map(|zone| format!("zone {zone} has no area, and its window is in use"))
    }

    fn check_invariants(&self) {
        let mut live = vec![0; self.segments.len()];
        for (block, place) in self.map.iter().enumerate() {
            let Some(Place { segment, drive, stripe }) = *place else { continue };
            live[segment as usize] += 1;
            let own = &self.segments[segment as usize];
            let owner = own.owners[stripe as usize * self.config.members + usize::from(drive)];
            assert!(owner as usize == block, "block {block} is where {owner} is");
        }
        for (number, segment) in self.segments.iter().enumerate() {
            assert!(segment.live == live[number], "segment {number}");
            assert!(segment.write_pointers.iter().all(|at| *at <= segment.base.max(segment.next)));
        }
    }
}
