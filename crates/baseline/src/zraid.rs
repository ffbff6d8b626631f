//! ZRAID (Kim et al., ASPLOS '25), the other baseline: RAID-5 with zones after RAIZN, whose partial parity lies in the
//! random write areas of data zones. It writes what the published one writes; nothing reads it back after a crash.
//!
//! ```text
//!   window of a drive's zone   |D D D d . . . . | . . p . . . . . |      d: data of the open stripe
//!                               write pointer    half a window          p: partial parity of a stripe of half a window before
//! ```
//! What is published is here: the places of logical zones and stripes as in [`crate::Raizn`], any number of writes in flight
//! in a zone, partial parity on the drive behind that of the chunk it ends with, half a window above its stripe, where later data overwrites
//! it before it reaches the flash; full parity in place; write pointers that are committed in two steps for each chunk, so that they tell
//! what was written; a block that marks the first chunk of a zone; logs of write pointers, in two copies, for flushes that end inside a
//! chunk; near the end of a zone, where windows have no room above, partial parity in the zone of superblocks.
//!
//! **In what respect it is better than what it stands for.** Computing and locks cost no time. Parts of a chunk that wait for their drive leave
//! in one command, as in the baseline, and so does their partial parity. It is made for data that leaves, and not when the stripe is full before. Commits that wait for
//! one that is under way become one. Each block of partial parity is written once for each block of data: that of a request which ends one
//! chunk and begins another lies in two places, so no torn write takes an older one along.
//!
//! **What it is bad at.** There is no mount, no reset of a zone and no lost drive: it is *not simulated* as the baseline is. A test decodes what
//! was acknowledged from drives that a crash has stopped, one of them lost, and knows more than write pointers tell.

pub mod config;
mod log;
mod logical_zone;
mod read;
mod send;
#[cfg(test)]
mod tests;

use crate::config::Map;
use crate::config::{ConfigError, RaiznConfig};
use array::driven::Driven;
use array::engine::{Effects, Engine};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::frame::{Frame, FramePool};
use base::slab::Slab;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use config::{Limits, logical_zones};
use log::Log;
use logical_zone::{LogicalZone, State, Waiting};
use read::Read;
use send::Sent;
use std::collections::{BTreeSet, VecDeque};
use zone::device::{Completion, Status};
use zone::format::superblock::MemberState;

/// A volume of the peer.
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
    /// Of it, partial parity.
    pub partial_logged: u64,
    /// Commits.
    pub commits: u64,
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

/// A flush, or a write that is forced.
#[derive(Debug)]
struct Flush {
    id: RequestId,
    /// Number of the first write that it does not wait for.
    before: u64,
    /// Logs of write pointers that are under way for it, once they were begun.
    logs: Option<u32>,
    /// Write pointers that are on their way then: logical zone, drive, place.
    commits: Vec<(u32, usize, u32)>,
}

/// Writes that clients wait for, in order.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    open: BTreeSet<u64>,
    flushes: VecDeque<Flush>,
}

/// The engine: all state of one volume.
pub struct Zraid {
    config: RaiznConfig,
    limits: Limits,
    map: Map,
    zones: Vec<LogicalZone>,
    logs: Vec<Log>,
    writes: Slab<Write>,
    order: Order,
    in_flight: Slab<Sent>,
    reads: Slab<Read>,
    frames: FramePool,
    counters: Counters,
}

impl Zraid {
    /// The engine of an array whose drives are empty.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn new(config: RaiznConfig) -> Result<Zraid, ConfigError> {
        let limits = Limits::of(&config)?;
        let zones = (0..logical_zones(&config)).map(|_| LogicalZone::new(config.members)).collect();
        Ok(Zraid {
            map: config.map(),
            limits,
            zones,
            logs: (0..config.members).map(|_| Log::default()).collect(),
            writes: Slab::default(),
            order: Order::default(),
            in_flight: Slab::default(),
            reads: Slab::default(),
            frames: FramePool::new(1 << 22),
            counters: Counters::default(),
            config,
        })
    }

    /// Counts since the array was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Blocks of a logical zone.
    #[must_use]
    pub fn zone_blocks(&self) -> u32 {
        self.map.zone_blocks()
    }

    fn start_write(
        &mut self,
        id: RequestId,
        lba: Lba,
        frames: Vec<Frame>,
        forced: bool,
    ) -> Result<(), Vec<Frame>> {
        let (number, position) = self.map.position_of(lba);
        let blocks = u32::try_from(frames.len()).expect("a request is small");
        let fits = position + blocks <= self.map.zone_blocks();
        let is_open = |zone: &LogicalZone| matches!(zone.state, State::Opening(_) | State::Open);
        let open = self.zones.iter().filter(|zone| is_open(zone)).count();
        let zone = &mut self.zones[number as usize];
        let may_open = zone.state != State::Empty || open < self.limits.open_zones;
        if position != zone.write_pointer || !fits || !may_open {
            return Err(frames);
        }
        zone.write_pointer += blocks;
        self.counters.user += u64::from(blocks);
        let order = self.order.next;
        self.order.next += 1;
        self.order.open.insert(order);
        let write = self.writes.insert(Write { id, number: order, left: 1, forced });
        self.zones[number as usize].waiting.push_back(Waiting { write, frames: frames.into() });
        Ok(())
    }

    /// A part of a write is durable.
    fn end_part(&mut self, slot: u32, fx: &mut Effects) {
        let write = self.writes.get_mut(slot);
        write.left -= 1;
        if write.left > 0 {
            return;
        }
        let Write { id, number, forced, .. } = self.writes.remove(slot);
        self.order.open.remove(&number);
        if forced {
            self.order.flushes.push_back(Flush { id, before: number + 1, logs: None, commits: Vec::new() });
        } else {
            fx.replies.push(Reply { id, outcome: Outcome::Done, frames: Vec::new() });
        }
    }

    /// Answers flushes whose writes are durable, once it is logged how far zones are written.
    fn answer_flushes(&mut self, fx: &mut Effects) {
        let first_open = self.order.open.first().copied().unwrap_or(u64::MAX);
        while let Some(flush) = self.order.flushes.front()
            && flush.before <= first_open
        {
            if flush.logs.is_none() {
                let (logs, commits) = (self.log_write_pointers(fx), self.commits_due());
                let flush = self.order.flushes.front_mut().expect("it was looked at");
                (flush.logs, flush.commits) = (Some(logs), commits);
                continue;
            }
            let is_due = |(zone, drive, end): &(u32, usize, u32)| {
                self.zones[*zone as usize].writers[*drive].committed < *end
            };
            if flush.logs != Some(0) || flush.commits.iter().any(is_due) {
                return;
            }
            let flush = self.order.flushes.pop_front().expect("it was looked at");
            fx.replies.push(Reply { id: flush.id, outcome: Outcome::Done, frames: Vec::new() });
        }
    }

    /// Write pointers that are not where they are to be.
    fn commits_due(&self) -> Vec<(u32, usize, u32)> {
        let mut due = Vec::new();
        for (number, zone) in (0..).zip(&self.zones) {
            for (drive, writer) in zone.writers.iter().enumerate() {
                if writer.committed < writer.wanted {
                    due.push((number, drive, writer.wanted));
                }
            }
        }
        due
    }

    /// Goes on with a logical zone.
    fn advance_zone(&mut self, number: u32, fx: &mut Effects) {
        if self.zones[number as usize].state == State::Empty
            && !self.zones[number as usize].waiting.is_empty()
        {
            self.open_zone(number, fx);
        }
        while self.place(number) {}
        self.pump(number, fx);
        self.move_write_pointers(number, fx);
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
            // Zones are written once.
            RequestOp::Trim { .. } => fx.replies.push(refused),
            RequestOp::Flush => {
                self.order.flushes.push_back(Flush {
                    id,
                    before: self.order.next,
                    logs: None,
                    commits: Vec::new(),
                });
            }
        }
        self.answer_flushes(fx);
    }

    fn on_completion(&mut self, drive: DriveIndex, completion: Completion, fx: &mut Effects) {
        let slot = u32::try_from(completion.token.0).expect("a slot of commands");
        let sent = self.in_flight.remove(slot);
        assert!(
            completion.status == Status::Success,
            "drive {drive} answers {sent:?} with {:?}",
            completion.status
        );
        self.on_sent(sent, drive.index(), completion, fx);
        self.answer_flushes(fx);
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

    fn fail_member(&mut self, drive: DriveIndex, _fx: &mut Effects) {
        panic!("this peer goes on without no drive, and drive {drive} is lost");
    }

    fn members(&self) -> Vec<MemberState> {
        vec![MemberState::Active; self.config.members]
    }

    fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
            && self.writes.is_empty()
            && self.reads.is_empty()
            && self.order.flushes.is_empty()
    }

    fn describe(&self) -> String {
        let stripes: usize = self.zones.iter().map(|zone| zone.stripes.len()).sum();
        format!(
            "{} commands, {} writes, {} reads, {} flushes, {stripes} open stripes",
            self.in_flight.len(),
            self.writes.len(),
            self.reads.len(),
            self.order.flushes.len()
        )
    }

    fn audit_zones(&self, drive: DriveIndex, zones: &[zone::rules::Zone]) -> Option<String> {
        let differs = |(own, zone): (&LogicalZone, &zone::rules::Zone)| {
            own.state == State::Open
                && zone.area.is_none()
                && own.writers[drive.index()].committed < self.limits.capacity
        };
        let found = self.zones.iter().zip(zones).position(differs);
        found.map(|zone| format!("zone {zone} has no area, and is being written"))
    }

    fn check_invariants(&self) {
        for zone in &self.zones {
            let first = zone.stripes.front().map(|stripe| stripe.number * self.map.chunk_blocks());
            for writer in &zone.writers {
                let end = first.unwrap_or(writer.wanted) + self.map.chunk_blocks();
                assert!(
                    writer.committed <= writer.wanted && writer.wanted <= end,
                    "only what is whole is passed"
                );
            }
            assert!(zone.stripes.iter().all(|stripe| stripe.acked as usize <= stripe.data.len()));
        }
    }
}
