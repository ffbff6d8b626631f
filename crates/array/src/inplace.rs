//! In-place parity RAID over ordinary devices, in the format of Linux md: RAID-4, 5 and 6 by all of md's layouts.
//!
//! ```text
//!   requests ──> requests: cut at strips ──> table: rounds ──> row, plan: parities ──> members
//!                    │                          │    ^
//!                    └── reads straight to      │    └── scribe: dirty mark, bits, failures, clean
//!                        their member           └─────── sync: what a crash left
//! ```
//! [`start`] makes an engine of members that were judged together, [`map`] says what lies where, [`table`] has the strips in work,
//! [`plan`] and [`row`] are the parities, [`cache`] keeps them, [`requests`] the clients, [`rounds`] moves the work on, `scribe` writes superblocks and
//! [`pages`] of the bitmap, [`sync`] knows which parities are right, [`sweep`] has resync, [`recovery`] of new [`members`] and [`scrub`]
//! come by all strips, [`locate`] tells which piece a scrub found wrong, [`returning`] those that come back. [`logs`] keep partial parities in [`batch`]es, and [`replay`] applies them.
//! [`journal`] has data and parities before members do. [`bad_blocks`] are sectors that members do not return, [`spares`] wait for members to fail, [`replacing`] has devices that are to replace a member which works, [`policy`] says which of bitmap and logs there
//! is, and changes that. [`shards`] are several engines of one array, one a core. [`volume`] couples an engine with its devices.
//!
//! The engine is told the time, handed completions, and answers with commands and replies.
//!
//! *Order.* Data of a region are written when the dirty mark, and the region's bit, are durable on all members; with logs, when the
//! partial parity of their rows is durable on the parity's member, or all of it in the journal. A write is
//! answered when its data and parities are on their members, and members that failed meanwhile are recorded on all others.
//! Bits, and the dirty mark, are given up after a flush of all members.

pub mod bad_blocks;
mod batch;
pub mod cache;
mod completions;
mod counters;
pub mod few;
pub mod held;
pub mod index;
pub mod journal;
mod keeping;
pub mod locate;
pub mod logs;
pub mod map;
pub mod members;
pub mod missed;
pub mod newcomer;
pub mod pages;
pub mod places;
pub mod plan;
pub mod policy;
pub mod pools;
pub mod recovery;
pub mod replacing;
pub mod replay;
pub mod requests;
pub mod returning;
pub mod rounds;
pub mod row;
pub mod row_set;
pub mod rows;
pub mod runs;
pub mod scribe;
pub mod scrub;
pub mod shards;
pub mod spares;
pub mod start;
pub mod status;
pub mod stock;
pub mod sweep;
pub mod sync;
pub mod table;
pub mod volume;
pub mod window;

pub use counters::Counters;

use crate::request::Reply;
use bad_blocks::BadBlocks;
use base::frame::FramePool;
use base::slab::Slab;
use base::time::Instant;
use block::device::{Command, Op, Token};
use block::devices::MemberCommand;
use block::md::Role;
use block::md::reader::ROW_SECTORS;
use cache::Cache;
use completions::{DirectRead, PieceCommand};
use journal::Journal;
use logs::Logs;
use map::{Map, Strip};
use members::{Failed, Members};
use pages::Pages;
use policy::PolicyState;
use recovery::Recovery;
use replay::Replay;
use requests::Requests;
use scribe::Scribe;
use scrub::Scrub;
use shards::Place;
use stock::Stock;
use sweep::Sweeps;
use sync::Sync;
use table::Table;
use window::Window;

/// Kinds of waiters in tokens.
mod kind {
    pub(super) const DIRECT: u8 = 1;
    pub(super) const PIECE: u8 = 2;
    pub(super) const SCRIBE: u8 = 3;
    pub(super) const FLUSH: u8 = 4;
    pub(super) const LOG: u8 = 5;
    pub(super) const LOG_FLUSH: u8 = 6;
    pub(super) const REPLAY: u8 = 7;
    pub(super) const JOURNAL: u8 = 8;
}

/// Commands and replies that the engine wishes to be carried out.
#[derive(Debug, Default)]
pub struct Effects {
    /// Commands for members.
    pub commands: Vec<MemberCommand>,
    /// Answers for clients.
    pub replies: Vec<Reply>,
}

impl Effects {
    fn command(&mut self, member: Role, kind: u8, waiter: u32, op: Op) {
        let command = Command { token: Token::pack(kind, waiter.into()), op };
        self.commands.push(MemberCommand { member, command });
    }
}

/// What is written before the members are: partial parities or all of it, as the policy says.
#[derive(Debug)]
struct WriteAhead {
    logs: Option<Logs>,
    journal: Option<Journal>,
    /// What either said at the start, until it is on the members.
    replay: Replay,
}

/// Engine: all state of one array.
#[derive(Debug)]
pub struct InPlace {
    map: Map,
    members: Members,
    stock: Stock,
    cache: Cache,
    window: Window,
    table: Table,
    requests: Requests,
    direct: Slab<DirectRead>,
    commands: Slab<PieceCommand>,
    scribe: Scribe,
    policy: PolicyState,
    pages: Option<Pages>,
    ahead: WriteAhead,
    bad_blocks: BadBlocks,
    sync: Sync,
    sweeps: Sweeps,
    recovery: Recovery,
    scrub: Scrub,
    counters: Counters,
    is_stopping: bool,
    place: Place,
}

impl InPlace {
    /// Size of the volume in blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.map.blocks()
    }

    /// The pool of all frames.
    pub fn frames(&mut self) -> &mut FramePool {
        self.stock.pool()
    }

    /// Frames that clients may take now.
    #[must_use]
    pub fn client_frames_available(&self) -> usize {
        self.stock.available().saturating_sub(self.blocks_held())
    }

    /// Moves everything that can move.
    pub fn settle(&mut self, now: Instant, fx: &mut Effects) {
        let mut moves = true;
        while moves {
            moves = false;
            if self.is_replaying() {
                moves |= self.advance_replay(fx);
                moves |= self.advance_scribe(now, fx);
                continue;
            }
            while let Some(slot) = self.table.next_runnable() {
                self.progress(now, slot, fx);
                moves = true;
            }
            moves |= self.fill_table();
            if self.is_shard() {
                moves |= self.advance_logs(fx) | self.advance_shard(now) | self.advance_window(now);
                continue;
            }
            moves |= self.advance_control(fx);
            moves |= self.advance_logs(fx);
            moves |= self.advance_journal(fx);
            moves |= self.advance_scribe(now, fx);
            moves |= self.begin_sweeps(now);
            moves |= self.advance_window(now);
        }
    }

    /// Takes a member, or the journal, for failed. It is recorded on the others before anything is answered that it has no part
    /// in.
    pub fn fail_member(&mut self, member: Role) {
        if self.ahead.journal.as_ref().is_some_and(|journal| journal.role() == member) {
            return self.fail_journal();
        }
        match self.members.fail(member) {
            Failed::Nobody => return,
            Failed::Replacement => self.forget_replacement(member),
            Failed::Member => {
                self.counters.failures += 1;
                self.bad_blocks.forget(member.index());
            }
            Failed::Replaced => {
                self.counters.failures += 1;
                self.follow_replacement(member);
                self.scribe.note_replaced();
            }
        }
        self.scribe.note_failure();
    }

    /// Ends the service: no more resync, and the array is marked clean when all work is done.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// True when nothing is under way and nothing waits.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.table.is_empty()
            && self.direct.is_empty()
            && self.requests.is_empty()
            && self.scribe.is_resting()
            && self.are_logs_resting()
            && self.is_journal_resting()
            && !self.is_changing()
            && !self.shares_strips()
            && !self.holds_requests()
    }

    /// True when a stop is through: what could be made clean is marked so.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        let is_recorded =
            !self.has_unrecorded_failure() && !self.wants_clean_mark() && !self.has_unrecorded_recovery();
        let is_recorded = is_recorded && !self.has_unrecorded_bad_blocks();
        self.is_stopping && self.is_quiet() && (self.members.is_broken() || is_recorded)
    }

    /// Time at which the engine has something to do even if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if let Place::Shard(shard) = &self.place {
            let window = self.window.deadline();
            return window.into_iter().chain(shard.deadline(&self.report())).min();
        }
        let due = self.scribe_deadline().into_iter().chain(self.sweeps.throttle.wakes_at()).min();
        [due, self.window.deadline()].into_iter().flatten().min()
    }

    /// Seat of a device, by which commands go to it and answers come.
    #[inline]
    #[must_use]
    pub fn seat(&self, place: Role) -> Role {
        self.members.seat(place)
    }

    /// First sector of a row on a member.
    fn sector(&self, member: Role, row: u64) -> u64 {
        self.members.data_offset(member) + row * ROW_SECTORS
    }

    /// Row on the members of a row within a strip.
    fn row_of(&self, strip: Strip, row: u16) -> u64 {
        strip.0 * self.map.strip_rows() + u64::from(row)
    }

    /// True while a failure is not yet on the superblocks of the others.
    #[inline]
    fn has_unrecorded_failure(&self) -> bool {
        !self.members.is_broken()
            && (self.scribe.lacks(self.members.absent(), self.members.replacements())
                || self.is_journal_untold())
    }

    /// Asserts what must hold between events. For tests and simulation.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check_invariants(&self) {
        assert!(self.table.len() <= table::SLOTS_MAX);
        let marked =
            self.table.iter().filter(|slot| slot.round.as_ref().is_some_and(|round| round.is_marked()));
        if matches!(self.place, Place::Alone) {
            assert_eq!(marked.count(), self.scribe.writers(), "rounds that write");
        }
        self.check_shards();
        for slot in self.table.iter().filter(|_| !self.is_shard()) {
            let Some(round) = &slot.round else { continue };
            if round.is_marked() && round.phase() == table::Phase::Writing && round.pending > 0 {
                assert!(self.scribe.is_ready() || self.members.is_broken(), "data without a dirty mark");
                let is_durable =
                    |region: &u64| self.pages.as_ref().is_some_and(|pages| pages.is_durable(*region));
                assert!(round.regions.iter().all(is_durable), "data before their bit");
            }
        }
        self.check_recovery();
        self.check_logs();
        self.check_journal();
        self.check_returning();
        self.bad_blocks.check_invariants();
        self.check_cache();
        if self.table.is_empty() {
            assert_eq!(self.stock.own_out(), 0, "frames of strips that are through");
        }
    }
}
