//! ZRAID (Kim et al., ASPLOS '25), the other baseline: RAID-5 with zones after RAIZN, whose partial parity lies in the
//! random write areas of data zones.
//!
//! ```text
//!   window of a drive's zone   |D D D d . . . . | . . p . . . . . |      d: data of the open stripe
//!                               write pointer    half a window          p: partial parity of a stripe of half a window before
//! ```
//! What is published is here: the places of logical zones and stripes as in [`crate::Raizn`], any number of writes in flight
//! in a zone, partial parity on the drive behind that of the chunk it ends with, half a window above its stripe, where later data overwrites
//! it before it reaches the flash; full parity in place; write pointers that are committed in two steps for each chunk, so that they tell
//! what was written; a block that marks a zone as used; logs of write pointers, in two copies, for flushes that end inside a
//! chunk; near the end of a zone, where windows have no room above, partial parity in the zone of superblocks; and a mount that takes back
//! what write pointers and their logs do not tell of.
//!
//! The reader's path: `config`, `logical_zone`, `blocks`, `log`, `send` (the write path), `reset`, `progress`, `heard` (what drives have done), then
//! `read`, `member`, `mount`, `rebuild`.
//!
//! **In what respect it is better than what it stands for.** Computing and locks cost no time. Parts of a chunk that wait for their drive leave
//! in one command, as in the baseline, and so does their partial parity. It is made for data that leaves, and not when the stripe is full before. Commits that wait for
//! one that is under way become one. Each block of partial parity is written once for each block of data: that of a request which ends one
//! chunk and begins another lies in two places, so no torn write takes an older one along. Parity says in its out-of-band metadata which blocks
//! it covers, and in which mount it was made, where the published one is known by its place; so what a mount has taken back is not
//! taken for parity of what is written there later. A flush logs write pointers also where a single drive's would tell (see `log`).
//!
//! **What it promises.** What was flushed, or forced, survives a crash and the loss of one drive, both together included. Of what was not, a
//! crash leaves in each logical zone as much, from its start, as write pointers tell of. It relies on drives that keep a window over
//! a power failure, block by block, with its zone's write pointer where it was (see `mount`).
//!
//! **What it is bad at.** Drives with volatile caches or without windows, which it refuses; drives that give windows up with the power, which
//! a mount refuses; replacing a drive, for which clients have to wait; zones that fail and blocks that rot.

mod answers;
mod blocks;
pub mod config;
mod heard;
mod log;
mod logical_zone;
mod member;
mod mount;
mod progress;
mod read;
mod rebuild;
mod reset;
mod send;
#[cfg(test)]
mod tests;

pub use mount::{format, mount};
pub use rebuild::replace_member;

use crate::config::{ConfigError, Map, RaiznConfig, count};
use crate::logical_zone::Pending;
use crate::member::Members;
use crate::reads::Reads;
use crate::record::array_tag;
use array::driven::Driven;
use array::engine::{Effects, Engine};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::frame::{Frame, FramePool};
use base::slab::Slab;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use config::{Limits, logical_zones};
use log::Log;
use logical_zone::LogicalZone;
use send::Sent;
use std::collections::{BTreeSet, VecDeque};
use zone::device::{Completion, Status};
use zone::format::superblock::MemberState;

/// A volume of ZRAID.
pub type ZraidVolume = Driven<Zraid>;

/// Counts, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Written by clients.
    pub user: u64,
    /// Data that was written.
    pub data: u64,
    /// Parity of full stripes.
    pub parity: u64,
    /// Partial parity in windows, which later data overwrites there.
    pub partial: u64,
    /// All that was written to zones of superblocks.
    pub logged: u64,
    /// Partial parity in zones of superblocks.
    pub partial_logged: u64,
    /// Commits.
    pub commits: u64,
    /// Log zones that were full and replaced.
    pub log_zones_replaced: u64,
}

impl Counters {
    /// Blocks written to drives.
    #[must_use]
    pub fn drive_blocks(&self) -> u64 {
        self.flash_blocks() + self.partial
    }

    /// Blocks that are or will be programmed.
    #[must_use]
    pub fn flash_blocks(&self) -> u64 {
        self.data + self.parity + self.logged
    }
}

/// A write that is not answered.
#[derive(Debug)]
struct Write {
    id: RequestId,
    number: u64,
    /// Parts in stripes that are not durable, and one while blocks wait for a stripe.
    left: u32,
    forced: bool,
}

/// A write pointer on its way to a place.
#[derive(Clone, Copy, Debug)]
struct CommitDue {
    zone: u32,
    /// Generation of the logical zone: no commit is due of one that was reset.
    generation: u64,
    drive: usize,
    end: u32,
}

/// A flush, or a write that is forced.
#[derive(Debug)]
struct Flush {
    id: RequestId,
    /// Number of the first write that it does not wait for.
    before: u64,
    /// Logs of write pointers that are under way for it, once they were begun.
    logs: Option<u32>,
    /// Write pointers that are on their way then.
    commits: Vec<CommitDue>,
}

/// Writes and resets that clients wait for, in order.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    open: BTreeSet<u64>,
    flushes: VecDeque<Flush>,
}

impl Order {
    /// The number of a request that has arrived.
    fn arrive(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number);
        number
    }

    /// A flush waits for everything before a number.
    fn flush(&mut self, id: RequestId, before: u64) {
        self.flushes.push_back(Flush { id, before, logs: None, commits: Vec::new() });
    }
}

/// The engine: all state of one volume.
pub struct Zraid {
    config: RaiznConfig,
    limits: Limits,
    map: Map,
    tag: u64,
    members: Members,
    zones: Vec<LogicalZone>,
    /// Logical zones that were opened, counted for their generations.
    generations: u64,
    logs: Vec<Log>,
    writes: Slab<Write>,
    order: Order,
    in_flight: Slab<Sent>,
    /// Commands for a drive that is missing, as drive and slot: each is over at once.
    skipped: VecDeque<(usize, u32)>,
    reads: Reads,
    frames: FramePool,
    counters: Counters,
}

impl Zraid {
    /// The engine of an array whose drives are empty: nothing says so on them, so that it can never be mounted.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn new(config: RaiznConfig) -> Result<Zraid, ConfigError> {
        Zraid::of_epoch(config, 1)
    }

    fn of_epoch(config: RaiznConfig, epoch: u32) -> Result<Zraid, ConfigError> {
        let limits = Limits::of(&config)?;
        Ok(Zraid {
            map: config.map(),
            tag: array_tag(&config),
            limits,
            members: Members::new(epoch),
            zones: (0..logical_zones(&config)).map(|_| LogicalZone::new(config.members)).collect(),
            generations: 0,
            logs: (0..config.members).map(|_| Log::default()).collect(),
            writes: Slab::default(),
            order: Order::default(),
            in_flight: Slab::default(),
            skipped: VecDeque::new(),
            reads: Reads::default(),
            frames: FramePool::new(1 << 22),
            counters: Counters::default(),
            config,
        })
    }

    /// Counts since the array was made or mounted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Configuration of the array.
    #[must_use]
    pub fn config(&self) -> &RaiznConfig {
        &self.config
    }

    /// Blocks of a logical zone.
    #[must_use]
    pub fn zone_blocks(&self) -> u32 {
        self.map.zone_blocks()
    }

    /// Position at which the next write to a logical zone must begin.
    #[must_use]
    pub fn write_pointer(&self, zone: u32) -> u32 {
        self.zones[zone as usize].write_pointer
    }

    /// True when a write to a logical zone may arrive: it has room, and may be open beside those that are.
    #[must_use]
    pub fn accepts_writes(&self, zone: u32) -> bool {
        let own = &self.zones[zone as usize];
        own.write_pointer < self.map.zone_blocks() && (own.is_open(&self.map) || self.may_open())
    }

    fn may_open(&self) -> bool {
        self.zones.iter().filter(|zone| zone.is_open(&self.map)).count() < self.limits.open_zones
    }

    fn start_write(
        &mut self,
        id: RequestId,
        lba: Lba,
        frames: Vec<Frame>,
        forced: bool,
    ) -> Result<(), Vec<Frame>> {
        let (number, position) = self.map.position_of(lba);
        let blocks = count(frames.len());
        let fits = position + blocks <= self.map.zone_blocks();
        let zone = &self.zones[number as usize];
        let may_be_open = zone.is_open(&self.map) || self.may_open();
        if self.is_broken() || position != zone.write_pointer || !fits || !may_be_open {
            return Err(frames);
        }
        self.counters.user += u64::from(blocks);
        let order = self.order.arrive();
        let write = self.writes.insert(Write { id, number: order, left: 1, forced });
        let zone = &mut self.zones[number as usize];
        zone.write_pointer += blocks;
        zone.waiting.push_back(Pending::Write { write, frames: frames.into() });
        Ok(())
    }

    /// Answers flushes whose writes are durable, once it is logged how far zones are written. While a failure is being
    /// recorded a drive that missed something could be believed: then nothing is promised.
    fn answer_flushes(&mut self, fx: &mut Effects) {
        let first_open = self.order.open.first().copied().unwrap_or(u64::MAX);
        while let Some(flush) = self.order.flushes.front()
            && flush.before <= first_open
            && self.members.fence == 0
        {
            if flush.logs.is_none() {
                let (logs, commits) = (self.log_write_pointers(fx), self.commits_due());
                let flush = self.order.flushes.front_mut().expect("it was looked at");
                (flush.logs, flush.commits) = (Some(logs), commits);
                continue;
            }
            let is_due = |due: &CommitDue| {
                let zone = &self.zones[due.zone as usize];
                zone.generation == due.generation && zone.writers[due.drive].committed < due.end
            };
            if !self.is_broken() && (flush.logs != Some(0) || flush.commits.iter().any(is_due)) {
                return;
            }
            let flush = self.order.flushes.pop_front().expect("it was looked at");
            self.answer(flush.id, fx);
        }
    }

    /// Write pointers that are not where they are to be.
    fn commits_due(&self) -> Vec<CommitDue> {
        let mut due = Vec::new();
        for (number, zone) in (0..).zip(&self.zones) {
            for (drive, writer) in zone.writers.iter().enumerate() {
                if writer.committed < writer.wanted {
                    let (generation, end) = (zone.generation, writer.wanted);
                    due.push(CommitDue { zone: number, generation, drive, end });
                }
            }
        }
        due
    }

    /// Ends the commands for drives that are missing; then flushes may end.
    fn settle_all(&mut self, fx: &mut Effects) {
        while let Some((drive, slot)) = self.skipped.pop_front() {
            let sent = self.in_flight.remove(slot);
            self.on_sent(sent, drive, fx);
        }
        self.answer_flushes(fx);
        while let Some((drive, slot)) = self.skipped.pop_front() {
            let sent = self.in_flight.remove(slot);
            self.on_sent(sent, drive, fx);
            self.answer_flushes(fx);
        }
    }
}

impl Engine for Zraid {
    fn submit(&mut self, _now: Instant, request: Request, fx: &mut Effects) {
        let Request { id, op } = request;
        let refused = Reply { id, outcome: Outcome::IoError, frames: Vec::new() };
        match op {
            RequestOp::Read { lba, blocks } => self.start_read(id, lba, blocks, fx),
            RequestOp::Write { lba, frames, force_unit_access } => {
                match self.start_write(id, lba, frames, force_unit_access) {
                    Ok(()) => self.advance_zone(self.map.position_of(lba).0, fx),
                    Err(frames) => {
                        self.frames.give_vec(frames);
                        fx.replies.push(refused);
                    }
                }
            }
            RequestOp::Trim { lba, blocks, .. } => {
                let (zone, position) = self.map.position_of(lba);
                if position == 0 && blocks == u64::from(self.map.zone_blocks()) && !self.is_broken() {
                    self.queue_reset(zone, id);
                    self.advance_zone(zone, fx);
                } else {
                    fx.replies.push(refused);
                }
            }
            RequestOp::Flush => self.order.flush(id, self.order.next),
        }
        self.settle_all(fx);
    }

    fn on_completion(&mut self, drive: DriveIndex, completion: Completion, fx: &mut Effects) {
        let slot = u32::try_from(completion.token.0).expect("a slot of commands");
        let sent = self.in_flight.remove(slot);
        match sent {
            Sent::Read { read, at } => self.on_read(read, at, drive.index(), completion, fx),
            Sent::Source { decode, piece } => self.on_source(decode, piece, drive.index(), completion, fx),
            sent => {
                self.frames.give_vec(completion.frames);
                if completion.status != Status::Success {
                    self.lose_member(drive.index(), fx);
                }
                self.on_sent(sent, drive.index(), fx);
            }
        }
        self.settle_all(fx);
    }

    fn blocks(&self) -> u64 {
        u64::from(logical_zones(&self.config)) * u64::from(self.map.zone_blocks())
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.frames
    }

    fn client_frames_available(&self) -> usize {
        self.frames.available()
    }

    fn fail_member(&mut self, drive: DriveIndex, fx: &mut Effects) {
        self.lose_member(drive.index(), fx);
        self.settle_all(fx);
    }

    fn members(&self) -> Vec<MemberState> {
        self.members.states(self.config.members)
    }

    fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
            && self.writes.is_empty()
            && self.reads.is_empty()
            && self.order.open.is_empty()
            && self.order.flushes.is_empty()
            && self.members.fence == 0
            && self.logs.iter().all(Log::is_quiet)
    }

    fn describe(&self) -> String {
        let stripes: usize = self.zones.iter().map(|zone| zone.stripes.len()).sum();
        format!(
            "{} commands, {} writes, {} reads, {} flushes, {stripes} open stripes; failed {:?}, broken {:?}, fence {}",
            self.in_flight.len(),
            self.writes.len(),
            self.reads.len(),
            self.order.flushes.len(),
            self.members.failed,
            self.members.broken,
            self.members.fence,
        )
    }

    fn audit_zones(&self, drive: DriveIndex, zones: &[zone::rules::Zone]) -> Option<String> {
        self.mistaken_zone(drive.index(), zones)
    }

    fn check_invariants(&self) {
        let mut held = 0;
        for zone in &self.zones {
            for writer in &zone.writers {
                assert!(writer.committed <= writer.wanted, "a write pointer is where it is to be, or behind");
                let behind = zone.stripes.back().map(|stripe| self.map.offset(stripe.number + 1, 0));
                assert!(behind.is_none_or(|behind| writer.wanted <= behind), "only what is whole is passed");
            }
            assert!(zone.stripes.iter().all(|stripe| stripe.acked as usize <= stripe.data.len()));
            held += zone.stripes.iter().map(|stripe| stripe.data.len()).sum::<usize>();
        }
        if self.is_quiet() {
            let out = self.frames.frames_out();
            assert!(out == held, "{out} frames are out, {held} are held");
        }
    }
}
