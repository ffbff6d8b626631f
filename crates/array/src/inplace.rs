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
//! *Layers.* What lies below asks nothing of what lies above it; the state of a layer is in the file of its name.
//!
//! ```text
//!   InPlace   turns, completions, state for operators
//!   Clients   requests, their parts and answers; the end of rounds; what shards say to one another
//!   Strips    rounds from their begin to their commands, cache, window, sweeps
//!   Core      map, members, what is known of rows and sectors, and what is written of that: superblocks, bitmap, logs, journal
//! ```
//! An upward call is handed up in its place: the scribe keeps requests that a change of the policy held, and notes that answers may go;
//! `InPlace` asks for both behind each of its steps.
//!
//! *Order.* Data of a region are written when the dirty mark, and the region's bit, are durable on all members; with logs, when the
//! partial parity of their rows is durable on the parity's member, or all of it in the journal. A write is
//! answered when its data and parities are on their members, and members that failed meanwhile are recorded on all others.
//! Bits, and the dirty mark, are given up after a flush of all members.

pub mod bad_blocks;
mod batch;
pub mod cache;
mod clients;
mod completions;
mod core;
mod counters;
mod failures;
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
mod strips;
pub mod sweep;
pub mod sync;
pub mod table;
pub mod volume;
pub mod window;

pub use counters::Counters;

use crate::request::{Reply, Request};
use base::time::Instant;
use block::device::{Command, Op, Token};
use block::devices::MemberCommand;
use block::md::Role;
use clients::Clients;
use core::Core;
use shards::Place;
use shards::messages::{ToControl, ToShard};

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

/// Engine: all state of one array.
#[derive(Debug)]
pub struct InPlace {
    clients: Clients,
}

impl InPlace {
    /// What the array is, and what is known of it.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.clients.strips.core
    }

    /// The same, to change it.
    pub fn core_mut(&mut self) -> &mut Core {
        &mut self.clients.strips.core
    }

    /// Begins a request.
    pub fn submit(&mut self, request: Request, fx: &mut Effects) {
        self.clients.submit(request, fx);
    }

    /// Takes a message of a shard, of which this is the control shard.
    pub fn hear_shard(&mut self, now: Instant, shard: usize, message: ToControl, fx: &mut Effects) {
        self.clients.hear_shard(now, shard, message, fx);
    }

    /// Takes a message of the control shard that is not about a device.
    pub fn hear_control(&mut self, message: ToShard, fx: &mut Effects) {
        self.clients.hear_control(message, fx);
    }

    /// Moves everything that can move.
    pub fn settle(&mut self, now: Instant, fx: &mut Effects) {
        let mut moves = true;
        while moves {
            moves = false;
            if self.core().ahead.is_replaying() {
                moves |= self.core_mut().advance_replay(fx);
                moves |= self.advance_scribe(now, fx);
                continue;
            }
            while let Some(slot) = self.core_mut().table.next_runnable() {
                self.clients.progress(now, slot, fx);
                moves = true;
            }
            moves |= self.clients.strips.fill_table();
            if self.core().place.is_shard() {
                moves |= self.core_mut().advance_logs(fx) | self.clients.advance_shard(now);
                moves |= self.clients.strips.advance_window(now);
                continue;
            }
            moves |= self.clients.advance_control(fx);
            moves |= self.core_mut().advance_logs(fx);
            moves |= self.core_mut().advance_journal(fx);
            moves |= self.advance_scribe(now, fx);
            moves |= self.clients.strips.begin_sweeps(now);
            moves |= self.clients.strips.advance_window(now);
        }
    }

    /// Superblocks go on, and requests and answers that waited for them; true when something moved.
    fn advance_scribe(&mut self, now: Instant, fx: &mut Effects) -> bool {
        let has_moved = self.core_mut().advance_scribe(now, fx);
        for request in self.core_mut().policy.take_freed() {
            self.clients.submit(request, fx);
        }
        if self.core_mut().scribe.take_told() {
            self.clients.release_held(fx);
        }
        has_moved
    }

    /// True when nothing is under way and nothing waits.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let core = self.core();
        core.table.is_empty()
            && self.clients.direct.is_empty()
            && core.requests.is_empty()
            && core.scribe.is_resting()
            && core.ahead.are_logs_resting()
            && core.ahead.is_journal_resting()
            && !core.policy.is_changing()
            && !core.place.shares_strips()
            && !core.place.holds_requests()
    }

    /// True when a stop is through: what could be made clean is marked so.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        let core = self.core();
        let is_recorded =
            !core.has_unrecorded_failure() && !core.wants_clean_mark() && !core.has_unrecorded_recovery();
        let is_recorded = is_recorded && !core.has_unrecorded_bad_blocks();
        core.is_stopping && self.is_quiet() && (core.members.is_broken() || is_recorded)
    }

    /// Time at which the engine has something to do even if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let strips = &self.clients.strips;
        let window = strips.window.deadline();
        if let Place::Shard(shard) = &self.core().place {
            return window.into_iter().chain(shard.deadline(&strips.report())).min();
        }
        let core = self.core();
        let sweep = core.background.sweeps.throttle.wakes_at();
        [core.scribe_deadline(), sweep, window].into_iter().flatten().min()
    }

    /// Asserts what must hold between events. For tests and simulation.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check_invariants(&self) {
        let core = self.core();
        assert!(core.table.len() <= table::SLOTS_MAX);
        assert!(!core.requests.is_empty() || self.clients.direct.is_empty(), "reads that nobody asked for");
        let marked =
            core.table.iter().filter(|slot| slot.round.as_ref().is_some_and(|round| round.is_marked()));
        if matches!(core.place, Place::Alone) {
            assert_eq!(marked.count(), core.scribe.writers(), "rounds that write");
        }
        core.check_shards();
        for slot in core.table.iter().filter(|_| !core.place.is_shard()) {
            let Some(round) = &slot.round else { continue };
            if round.is_marked() && round.phase() == table::Phase::Writing && round.pending > 0 {
                assert!(core.scribe.is_ready() || core.members.is_broken(), "data without a dirty mark");
                let is_durable =
                    |region: &u64| core.pages.as_ref().is_some_and(|pages| pages.is_durable(*region));
                assert!(round.regions.iter().all(is_durable), "data before their bit");
            }
        }
        core.check_recovery();
        core.check_logs();
        core.check_journal();
        core.check_returning();
        core.bad_blocks.check_invariants();
        self.clients.strips.check_cache();
        if core.table.is_empty() {
            assert_eq!(core.stock.own_out(), 0, "frames of strips that are through");
        }
    }
}
