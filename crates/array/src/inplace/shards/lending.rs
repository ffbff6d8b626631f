//! Partial parity logs with several shards: each log is lent with the strips whose parities it is of, and comes back with them.
//!
//! ```text
//!   control:  In ──Hold──> Asked ──Holds──> Held ──all are, and nothing is in work: Terms, logs──> Out ──> Recalling ──> In
//!                                            └──something is not plain: Release──> In
//! ```
//! A log has one owner, for a batch is written when the rounds of the one before are through. So what was handed over is ended before logs are
//! lent, and requests that come meanwhile are held by the shards; and what a shard hands over later calls all logs in before it is begun.
//!
//! *A failure comes first* here, too: a shard that met one begins no batch, and no round of it writes, until all is recalled. Rows of its
//! strips are in its own logs alone, so what other shards write meanwhile takes no header away that such a row needs.

use super::super::Effects;
use super::super::clients::Clients;
use super::super::core::Core;
use super::super::logs::Logs;
use super::super::table::Logged;
use super::Place;
use super::control::Control;
use super::messages::ToControl;
use super::spread::Spread;
use crate::request::{Request, RequestOp};
use block::md::Role;

/// State of a shard beside that of its strips.
#[derive(Debug, Default)]
pub struct Lent {
    is_holding: bool,
    /// The control shard knows that everything which was not held is through.
    has_told: bool,
    /// Requests that wait for terms, or for the word that there will be none.
    held: Vec<Request>,
    /// A member failed: nothing goes to a log before all is recalled.
    is_frozen: bool,
}

/// Blocks that requests are going to read.
fn blocks_read(requests: &[Request]) -> usize {
    let blocks = |request: &Request| match &request.op {
        RequestOp::Read { blocks, .. } => usize::try_from(*blocks).expect("a request fits memory"),
        RequestOp::Write { .. } | RequestOp::Trim { .. } | RequestOp::Flush => 0,
    };
    requests.iter().map(blocks).sum()
}

impl Core {
    fn lent(&self) -> Option<&Lent> {
        match &self.place {
            Place::Shard(shard) => Some(&shard.lent),
            Place::Alone | Place::Control(_) => None,
        }
    }

    /// Holds requests from now on.
    pub(super) fn begin_holding(&mut self) {
        assert!(
            self.ahead.logs.is_none() && self.table.is_empty(),
            "a shard holds requests before it has strips"
        );
        let shard = self.shard_mut();
        assert!(!shard.lent.is_holding, "requests are held already");
        (shard.lent.is_holding, shard.lent.has_told) = (true, false);
    }

    /// Says that requests are held, once those that came before are through: a trim hands its parts over one after the other. True when it
    /// did.
    pub(super) fn tell_holding(&mut self) -> bool {
        let is_through = self.requests.is_empty();
        let shard = self.shard_mut();
        let tells = shard.lent.is_holding && !shard.lent.has_told && is_through;
        if tells {
            assert!(shard.has_no_parts(), "parts of requests that are through");
            shard.lent.has_told = true;
            shard.say(ToControl::Holds);
        }
        tells
    }

    /// A request, unless it is held.
    #[inline]
    pub(in super::super) fn unless_held(&mut self, request: Request) -> Option<Request> {
        match &mut self.place {
            Place::Shard(shard) if shard.lent.is_holding => {
                shard.lent.held.push(request);
                None
            }
            Place::Shard(_) | Place::Alone | Place::Control(_) => Some(request),
        }
    }

    /// True while requests are held.
    pub(in super::super) fn holds_requests(&self) -> bool {
        self.lent().is_some_and(|lent| !lent.held.is_empty())
    }

    /// Blocks that take frames of the pool as soon as they are no longer held.
    pub(in super::super) fn blocks_held(&self) -> usize {
        self.lent().map_or(0, |lent| blocks_read(&lent.held)) + blocks_read(self.held_for_change())
    }

    /// Terms are accepted: their logs are whole.
    pub(super) fn thaw_logs(&mut self) {
        self.shard_mut().lent.is_frozen = false;
    }

    /// A member did not take a write: no batch begins, and no round that is in a log writes, before all is recalled.
    pub(super) fn freeze_logs(&mut self) {
        if self.ahead.logs.is_some() {
            self.shard_mut().lent.is_frozen = true;
        }
    }

    /// True when no batch may begin.
    pub(in super::super) fn is_log_frozen(&self) -> bool {
        match &self.place {
            Place::Shard(shard) => shard.lent.is_frozen || shard.is_recalled(),
            Place::Alone | Place::Control(_) => false,
        }
    }

    /// True when a log allows a round of a shard to write.
    pub(in super::super) fn is_logged_with_shard(&self, logged: Logged) -> bool {
        self.ahead.logs.is_none() || (logged != Logged::Waits && !self.is_log_frozen())
    }

    /// A member did not take what a log needed.
    pub(in super::super) fn fail_under_log(&mut self, member: Role) {
        if !self.is_shard() {
            return self.fail_member(member);
        }
        let seat = self.seat(member);
        self.freeze_logs();
        self.shard_mut().say(ToControl::Failed(seat));
    }

    /// True when the batch of a round is on its way.
    pub(super) fn is_batch_on_its_way(&self, slot: u32) -> bool {
        self.ahead.logs.as_ref().is_some_and(|logs| logs.has_in_batch(slot))
    }

    /// A round leaves a shard, which is in a log or waits for it.
    pub(super) fn leave_log(&mut self, slot: u32, logged: Logged) {
        let Some(logs) = &mut self.ahead.logs else { return };
        match logged {
            Logged::Durable(role, generation) => logs.end_round(role, generation),
            Logged::Waits => assert!(logs.forget(slot), "a round leaves while its batch is on its way"),
            Logged::Not => {}
            Logged::Journaled(_) | Logged::Refused => unreachable!("{logged:?} with partial parity logs"),
        }
    }

    /// True while logs are with other shards.
    pub(in super::super) fn are_logs_lent(&self) -> bool {
        matches!(&self.place, Place::Control(control) if control.has_lent_logs())
    }

    /// True when nothing is in work that needs a log.
    pub(super) fn may_lend_logs(&self) -> bool {
        self.ahead.logs.as_ref().is_none_or(Logs::may_be_lent)
    }

    /// True when logs do not keep strips from shards.
    pub(super) fn are_logs_plain(&self, control: &Control) -> bool {
        match &self.ahead.logs {
            None => true,
            Some(_) if control.has_lent_logs() => control.holds_no_parts(),
            Some(logs) => {
                let has_doubts = self.log_says_doubt() || self.sync.rows_stuck() > 0;
                control.is_spread_by_parity() && logs.are_begun() && !has_doubts
            }
        }
    }

    /// Logs of a shard, from now on its own.
    pub(super) fn lend_logs(&mut self, shard: usize) -> Option<Logs> {
        let Place::Control(control) = &self.place else { return None };
        let is_at_rest = self.ahead.logs.is_none() || (control.has_no_parts() && self.table.is_empty());
        assert!(is_at_rest, "logs are lent while strips are in work: {}", control.describe());
        let own = Spread::members_of(shard, control.others(), self.members.count());
        self.ahead.logs.as_mut().map(|logs| logs.lend(own))
    }

    /// Logs come back.
    pub(super) fn take_logs_back(&mut self, lent: Logs) {
        self.ahead.logs.as_mut().expect("logs stay logs while they are lent").take_back(lent);
    }
}

impl Clients {
    /// Begins what was held.
    pub(super) fn let_held_go(&mut self, fx: &mut Effects) {
        let lent = &mut self.strips.core.shard_mut().lent;
        lent.is_holding = false;
        std::mem::take(&mut lent.held).into_iter().for_each(|request| self.submit(request, fx));
    }
}
