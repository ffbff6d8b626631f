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
use super::super::core::{Core, WriteAhead};
use super::super::logs::Logs;
use super::super::table::Logged;
use super::Place;
use super::control::Control;
use super::messages::ToControl;
use super::spread::Spread;
use crate::request::Request;
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

impl Place {
    /// Requests that are held until the control shard has its answer.
    pub(in super::super) fn held_requests(&self) -> &[Request] {
        match self {
            Place::Shard(shard) => &shard.lent.held,
            Place::Alone | Place::Control(_) => &[],
        }
    }

    /// A request, unless it is held.
    #[inline]
    pub(in super::super) fn unless_held(&mut self, request: Request) -> Option<Request> {
        match self {
            Place::Shard(shard) if shard.lent.is_holding => {
                shard.lent.held.push(request);
                None
            }
            Place::Shard(_) | Place::Alone | Place::Control(_) => Some(request),
        }
    }

    /// True while requests are held.
    pub(in super::super) fn holds_requests(&self) -> bool {
        !self.held_requests().is_empty()
    }

    /// Terms are accepted: their logs are whole.
    pub(super) fn thaw_logs(&mut self) {
        self.shard_mut().lent.is_frozen = false;
    }

    /// True when no batch may begin.
    pub(in super::super) fn is_log_frozen(&self) -> bool {
        match self {
            Place::Shard(shard) => shard.lent.is_frozen || shard.is_recalled(),
            Place::Alone | Place::Control(_) => false,
        }
    }

    /// True while logs are with other shards.
    pub(in super::super) fn are_logs_lent(&self) -> bool {
        matches!(self, Place::Control(control) if control.has_lent_logs())
    }
}

impl WriteAhead {
    /// True when the batch of a round is on its way.
    pub(super) fn is_batch_on_its_way(&self, slot: u32) -> bool {
        self.logs.as_ref().is_some_and(|logs| logs.has_in_batch(slot))
    }

    /// A round leaves a shard, which is in a log or waits for it.
    pub(super) fn leave_log(&mut self, slot: u32, logged: Logged) {
        let Some(logs) = &mut self.logs else { return };
        match logged {
            Logged::Durable(role, generation) => logs.end_round(role, generation),
            Logged::Waits => assert!(logs.forget(slot), "a round leaves while its batch is on its way"),
            Logged::Not => {}
            Logged::Journaled(_) | Logged::Refused => unreachable!("{logged:?} with partial parity logs"),
        }
    }

    /// True when nothing is in work that needs a log.
    pub(super) fn may_lend_logs(&self) -> bool {
        self.logs.as_ref().is_none_or(Logs::may_be_lent)
    }

    /// Logs come back.
    pub(super) fn take_logs_back(&mut self, lent: Logs) {
        self.logs.as_mut().expect("logs stay logs while they are lent").take_back(lent);
    }
}

impl Core {
    /// Holds requests from now on.
    pub(super) fn begin_holding(&mut self) {
        assert!(
            self.ahead.logs.is_none() && self.table.is_empty(),
            "a shard holds requests before it has strips"
        );
        let shard = self.place.shard_mut();
        assert!(!shard.lent.is_holding, "requests are held already");
        (shard.lent.is_holding, shard.lent.has_told) = (true, false);
    }

    /// Says that requests are held, once those that came before are through: a trim hands its parts over one after the other. True when it
    /// did.
    pub(super) fn tell_holding(&mut self) -> bool {
        let is_through = self.requests.is_empty();
        let shard = self.place.shard_mut();
        let tells = shard.lent.is_holding && !shard.lent.has_told && is_through;
        if tells {
            assert!(shard.has_no_parts(), "parts of requests that are through");
            shard.lent.has_told = true;
            shard.say(ToControl::Holds);
        }
        tells
    }

    /// A member did not take a write: no batch begins, and no round that is in a log writes, before all is recalled.
    pub(super) fn freeze_logs(&mut self) {
        if self.ahead.logs.is_some() {
            self.place.shard_mut().lent.is_frozen = true;
        }
    }

    /// True when a log allows a round of a shard to write.
    pub(in super::super) fn is_logged_with_shard(&self, logged: Logged) -> bool {
        self.ahead.logs.is_none() || (logged != Logged::Waits && !self.place.is_log_frozen())
    }

    /// A member did not take what a log needed.
    pub(in super::super) fn fail_under_log(&mut self, member: Role) {
        if !self.place.is_shard() {
            return self.fail_member(member);
        }
        let seat = self.members.seat(member);
        self.freeze_logs();
        self.place.shard_mut().say(ToControl::Failed(seat));
    }

    /// True when logs do not keep strips from shards.
    pub(super) fn are_logs_plain(&self, control: &Control) -> bool {
        match &self.ahead.logs {
            None => true,
            Some(_) if control.has_lent_logs() => control.holds_no_parts(),
            Some(logs) => {
                let has_doubts = self.sync.log_says_doubt() || self.sync.rows_stuck() > 0;
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
}

impl Clients {
    /// Begins what was held.
    pub(super) fn let_held_go(&mut self, fx: &mut Effects) {
        let lent = &mut self.strips.core.place.shard_mut().lent;
        lent.is_holding = false;
        std::mem::take(&mut lent.held).into_iter().for_each(|request| self.submit(request, fx));
    }
}
