//! A baseline after RAIZN (Kim et al., ASPLOS 2023): RAID-5 over zoned drives that is a zoned volume itself.
//!
//! ```text
//!   logical zone i = zone i of every drive, stripe s in slot s of each; parity rotates by stripe and zone
//!   a write that leaves its stripe open: parity of the rows it changes ──append──> log of the parity's drive
//! ```
//! An [`Raizn`] owns all state and performs no I/O, like the log-structured engine: methods take requests and
//! completions, and the [`Effects`] they wish for. The reader's path: `config` (where blocks lie), `logical_zone` (what
//! is in memory), `write`, `parity_log`; then `answers`, `route`, `read`, `reset`, `member`, `rebuild`, `mount`, `audit`. docs/adr/0016 has the decisions.
//!
//! A volume is addressed by block; logical zones follow one another without gaps. A write must begin at the write
//! pointer of its logical zone and stay within it, many may be in flight. A trim of exactly one logical zone resets
//! it. Anything else fails. There is no index and nothing is collected: that is left to whoever writes.
//!
//! Promises: an acknowledged write survives a crash and the loss of a drive, both together included. Of a write that is
//! not, each block is there or reads as zeros. A reset has happened or not.
//!
//! Bad at: drives with volatile caches, which it refuses; replacing a drive, for which clients have to wait; zones that
//! fail and blocks that rot, which it reads around and never repairs.

mod answers;
mod audit;
pub mod config;
mod logical_zone;
mod member;
mod mount;
mod parity_log;
mod read;
mod reads;
mod rebuild;
pub mod record;
mod reset;
mod route;
mod token;
pub mod volume;
mod write;
pub mod zoned;
pub mod zraid;

pub use mount::{MountError, format, mount};
pub use rebuild::{RebuildError, replace_member};

use answers::Answers;
use array::engine::{Effects, Engine};
use array::request::{Outcome, Reply, Request, RequestOp};
use base::frame::FramePool;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use config::{Map, RaiznConfig, Tuning};
use logical_zone::LogicalZone;
use member::Members;
use parity_log::Logs;
use reads::Reads;
use std::collections::BTreeSet;
use token::Waiter;
use zone::device::Completion;
use zone::format::superblock::MemberState;
use zone::rules::Zone;

/// Counts of what was done since the mount, in blocks where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks written by clients.
    pub user_blocks: u64,
    /// Blocks of data, written to logical zones.
    pub data_blocks: u64,
    /// Blocks of parity, written to logical zones.
    pub parity_blocks: u64,
    /// Blocks of parity, appended to logs; checkpoints included.
    pub log_rows: u64,
    /// Checkpoints among the blocks of parity in logs.
    pub checkpoint_rows: u64,
    /// Headers before blocks of parity in logs.
    pub log_headers: u64,
    /// Blocks of anything else in logs.
    pub log_others: u64,
    /// Log zones that were full and replaced.
    pub log_zones_replaced: u64,
    /// Decoded for reads.
    pub blocks_decoded: u64,
    /// Written to a drive that replaces another.
    pub blocks_rebuilt: u64,
}

impl Counters {
    /// Everything written to drives.
    #[must_use]
    pub fn drive_blocks(&self) -> u64 {
        self.data_blocks
            + self.parity_blocks
            + self.log_rows
            + self.log_headers
            + self.log_others
            + self.blocks_rebuilt
    }
}

/// The engine: all state of one volume.
pub struct Raizn {
    config: RaiznConfig,
    tuning: Tuning,
    map: Map,
    tag: u64,
    members: Members,
    zones: Vec<LogicalZone>,
    /// Resets of logical zones, counted for their generations.
    generations: u64,
    /// Logical zones with partial parity that found no room in a log.
    zones_waiting: BTreeSet<u32>,
    logs: Logs,
    answers: Answers,
    reads: Reads,
    frames: FramePool,
    counters: Counters,
}

impl Engine for Raizn {
    fn submit(&mut self, _now: Instant, request: Request, fx: &mut Effects) {
        let Request { id, op } = request;
        match op {
            RequestOp::Read { lba, blocks } => self.start_read(id, lba, blocks, fx),
            RequestOp::Write { lba, frames, .. } => self.start_write(id, lba, frames, fx),
            RequestOp::Trim { lba, blocks, .. } => {
                let (zone, position) = self.map.position_of(lba);
                if position == 0 && blocks == u64::from(self.map.zone_blocks()) && !self.is_broken() {
                    self.queue_reset(zone, id);
                    self.advance_zone(zone, fx);
                } else {
                    fx.replies.push(Reply { id, outcome: Outcome::IoError, frames: Vec::new() });
                }
            }
            RequestOp::Flush => self.start_flush(id, fx),
        }
        self.advance(fx);
    }

    fn on_completion(&mut self, drive: DriveIndex, completion: Completion, fx: &mut Effects) {
        let drive = drive.index();
        match Waiter::from_token(completion.token) {
            Waiter::Data(zone) => {
                self.on_data(zone, drive, completion, fx);
                self.advance_zone(zone, fx);
            }
            Waiter::Log(slot) => {
                let zone = self.zone_of_append(slot);
                self.on_log(slot, drive, completion, fx);
                if let Some(zone) = zone {
                    self.advance_zone(zone, fx);
                }
            }
            Waiter::LogReset => self.on_log_reset(drive, &completion, fx),
            Waiter::ZoneReset(zone) => {
                if self.on_zone_reset(zone, drive, &completion, fx) {
                    self.advance_zone(zone, fx);
                }
            }
            Waiter::Read { slot, part } => self.on_read(slot, part, drive, completion, fx),
            Waiter::Source { slot, part } => self.on_source(slot, part, drive, completion, fx),
        }
        self.advance(fx);
    }

    fn blocks(&self) -> u64 {
        u64::from(self.config.logical_zones()) * u64::from(self.map.zone_blocks())
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.frames
    }

    fn client_frames_available(&self) -> usize {
        self.frames.available()
    }

    fn fail_member(&mut self, drive: DriveIndex, fx: &mut Effects) {
        self.lose_member(drive.index(), fx);
        self.advance(fx);
    }

    fn members(&self) -> Vec<MemberState> {
        self.members.states(self.config.members)
    }

    fn is_quiet(&self) -> bool {
        self.answers.is_empty()
            && self.reads.is_empty()
            && self.members.fence == 0
            && !self.logs_are_busy()
            && self.zones.iter().all(|zone| zone.pending.is_empty() && zone.is_quiet(&self.map))
    }

    fn describe(&self) -> String {
        self.work_in_words()
    }

    fn audit_zones(&self, drive: DriveIndex, zones: &[Zone]) -> Option<String> {
        self.mistaken_zone(drive.index(), zones)
    }

    fn check_invariants(&self) {
        let open = self.zones.iter().filter(|zone| zone.is_open(&self.map)).count();
        assert!(open <= self.config.open_logical_zones_max() as usize);
        let mut held = 0;
        for zone in &self.zones {
            assert!(zone.placed <= zone.write_pointer || zone.reset.is_some() || !zone.pending.is_empty());
            for (at, stripe) in zone.stripes.iter().enumerate() {
                assert!(stripe.acked <= stripe.issued || stripe.sealed);
                assert!(stripe.sealed || at + 1 == zone.stripes.len(), "only the last stripe is filling");
                held += stripe.data.len();
            }
        }
        if self.is_quiet() {
            let out = self.frames.frames_out();
            assert!(out == held + self.logs.relocated.len(), "{out} frames are out, {held} are held");
        }
    }
}

impl Raizn {
    /// An engine for an empty array.
    fn new(config: RaiznConfig, tuning: Tuning, epoch: u32) -> Raizn {
        let map = config.map();
        let members = config.members;
        // Data of open stripes, what is on its way to drives, and clients' own.
        let open =
            (config.open_logical_zones_max() * tuning.stripes_in_flight * map.stripe_blocks()) as usize;
        Raizn {
            tag: record::array_tag(&config),
            config,
            tuning,
            map,
            members: Members::new(epoch),
            zones: (0..config.logical_zones()).map(|_| LogicalZone::new(members)).collect(),
            generations: 0,
            zones_waiting: BTreeSet::new(),
            logs: Logs::new(members),
            answers: Answers::default(),
            reads: Reads::default(),
            frames: FramePool::new(4 * open + (1 << 20)),
            counters: Counters::default(),
        }
    }

    /// Goes on with what waits for room in a log.
    fn advance(&mut self, fx: &mut Effects) {
        self.settle_logs(fx);
        for zone in std::mem::take(&mut self.zones_waiting) {
            self.append_partials(zone, fx);
            self.advance_zone(zone, fx);
        }
        // What a member that failed no longer holds up may be what an old log zone waits for.
        self.settle_logs(fx);
        self.answer_writes(fx);
    }

    /// First block of a logical zone.
    #[must_use]
    pub fn zone_start(&self, zone: u32) -> Lba {
        Lba(u64::from(zone) * u64::from(self.map.zone_blocks()))
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

    /// Configuration of the array.
    #[must_use]
    pub fn config(&self) -> &RaiznConfig {
        &self.config
    }

    /// Counts of what was done since the mount.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Rows of parity that live in a log because recovery could not put them in their place.
    #[must_use]
    pub fn relocated_rows(&self) -> usize {
        self.logs.relocated.len()
    }
}
