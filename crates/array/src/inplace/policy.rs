//! Change of the consistency policy of an array that is served, as `mdadm --grow` does it.
//!
//! ```text
//!   drain    requests that come are held, those under way end, the array is marked clean
//!   record   superblocks of all members, as of one update
//!   erase    what becomes a partial parity log: zeros, a flush
//!   areas    pages of the bitmap without bits, or first headers of logs
//!   ahead    the first member's superblock with the old policy, one update ahead: it is the newest
//!   others   those of the others with the new policy, as of the update before
//!   turn     that of the first member with the new policy: this one write changes the policy of the array
//!   follow   those of the others, as of the same update; then requests go on
//! ```
//! *The newest superblock has the policy of the array.* md does not run an array with partial parity logs when a member lacks one, so the
//! one that turns is the last. Where a policy goes there is nothing that members could lack, and the turn comes at once.
//!
//! *The array is clean* from the drain to the end: whichever policy a crash leaves, nothing is to be applied or resynced by it. A start
//! gives members which the change did not reach the policy of the newest ([`block::md::policy::levelled`]).
//!
//! *A member that fails* before the turn begins ends the change; later it goes on, and the failure is recorded behind it.

use super::bad_blocks::BadBlocks;
use super::core::Core;
use super::logs::{Logs, SECTORS_MIN};
use super::pages::{Pages, sectors_before};
use super::scrub::ScrubState;
use super::start::map_of;
use super::{Effects, kind, members};
use crate::request::Request;
use base::pieces::PieceSet;
use block::device::Op;
use block::md::Role;
use block::md::assembly::Policy;
use block::md::bitmap::Bits;
use block::md::policy::{CannotChange, Turn, Wish, turn};
use block::md::superblock::Superblock;
use std::fmt;

/// Stage of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Drain,
    Record,
    Erase,
    Flush,
    Areas,
    Ahead,
    Others,
    Turn,
    Follow,
}

impl Stage {
    /// The next one; `None` behind the last.
    fn next(self, has_areas: bool, has_logs: bool) -> Option<Stage> {
        Some(match self {
            Stage::Drain => Stage::Record,
            Stage::Record if has_logs => Stage::Erase,
            Stage::Erase => Stage::Flush,
            Stage::Record | Stage::Flush if has_areas => Stage::Areas,
            Stage::Areas => Stage::Ahead,
            Stage::Ahead => Stage::Others,
            Stage::Record | Stage::Flush | Stage::Others => Stage::Turn,
            Stage::Turn => Stage::Follow,
            Stage::Follow => return None,
        })
    }
}

/// Change under way.
#[derive(Debug)]
struct Change {
    stage: Stage,
    turn: Turn,
    /// Member whose superblock turns.
    first: usize,
    /// Bitmap that the array gets.
    pages: Option<Pages>,
    /// Requests that came meanwhile.
    held: Vec<Request>,
}

/// Consistency policy of an array, and its change.
#[derive(Debug)]
pub struct PolicyState {
    policy: Policy,
    change: Option<Change>,
    /// Requests that were held for a change which is over.
    freed: Vec<Request>,
}

impl PolicyState {
    /// An array with this policy.
    #[must_use]
    pub fn new(policy: Policy) -> PolicyState {
        PolicyState { policy, change: None, freed: Vec::new() }
    }

    /// Requests that were held for a change, once that is over.
    pub(super) fn take_freed(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.freed)
    }
}

/// Reason why the policy is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    /// The array cannot have it.
    Cannot(CannotChange),
    /// Members are missing, or not yet rebuilt: how many.
    Degraded(usize),
    /// Members are being replaced: how many.
    Replacing(usize),
    /// A resync goes on, or rows are in doubt.
    Unsynced,
    /// A scrub goes on.
    Scrubbing,
    /// A change goes on.
    Changing,
    /// Members list bad blocks, beside which there are no partial parity logs.
    BadBlocks,
    /// Member with logical blocks of more than 512 bytes, in which md counts places of partial parity logs.
    Sectors(Role),
    /// The array is being stopped.
    Stopping,
}

impl fmt::Display for ChangeRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeRefused::Cannot(why) => write!(f, "{why}"),
            ChangeRefused::Degraded(count) => write!(
                f,
                "{count} members are missing or not yet rebuilt: the consistency policy can be changed when they are whole"
            ),
            ChangeRefused::Replacing(count) => write!(
                f,
                "{count} members are being replaced: the consistency policy can be changed when that is through"
            ),
            ChangeRefused::Unsynced => {
                f.write_str("parities are not yet right everywhere: wait for the end of the resync")
            }
            ChangeRefused::Scrubbing => {
                f.write_str("a scrub goes on: wait for its end, or stop it with `zoneweave scrub --stop`")
            }
            ChangeRefused::Changing => f.write_str("the consistency policy is being changed: try again in a moment"),
            ChangeRefused::BadBlocks => f.write_str(
                "members list bad blocks, which are not served beside a partial parity log: write them, or replace the member",
            ),
            ChangeRefused::Sectors(member) => write!(
                f,
                "member {member} has logical blocks of more than 512 bytes, beside which partial parity logs are not served here yet"
            ),
            ChangeRefused::Stopping => f.write_str("the array is being stopped"),
        }
    }
}

impl std::error::Error for ChangeRefused {}

impl PolicyState {
    /// Consistency policy of the array.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// True while the policy is being changed.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Keeps a request until the change that is under way is through.
    pub(super) fn hold(&mut self, request: Request) {
        self.change.as_mut().expect("a change is under way").held.push(request);
    }

    /// Requests that wait until a change is through.
    pub(super) fn held_for_change(&self) -> &[Request] {
        self.change.as_ref().map_or(&[], |change| &change.held)
    }

    /// True when a change waits for the clean mark.
    pub(super) fn is_draining(&self) -> bool {
        self.change.as_ref().is_some_and(|change| change.stage == Stage::Drain)
    }

    fn change_mut(&mut self) -> &mut Change {
        self.change.as_mut().expect("a change that goes on")
    }

    /// The next stage; false behind the last.
    fn advance_change(&mut self) -> bool {
        let change = self.change_mut();
        let has_logs = change.turn.policy == Policy::Ppl;
        let has_areas = has_logs || change.turn.policy == Policy::Bitmap;
        let next = change.stage.next(has_areas, has_logs);
        change.stage = next.unwrap_or(change.stage);
        next.is_some()
    }
}

impl Core {
    /// Begins to change the policy. Requests are held until that is through.
    ///
    /// # Errors
    /// When it cannot be changed now, or not to this one.
    pub fn begin_change(&mut self, wish: Wish) -> Result<(), ChangeRefused> {
        let lacking = self.members.lacking().count();
        let is_scrubbing = self.scrub_status().is_some_and(|scrub| scrub.state == ScrubState::Running);
        if self.is_stopping {
            return Err(ChangeRefused::Stopping);
        } else if self.policy.is_changing() {
            return Err(ChangeRefused::Changing);
        } else if lacking > 0 {
            return Err(ChangeRefused::Degraded(lacking));
        } else if !self.replacing().is_empty() {
            return Err(ChangeRefused::Replacing(self.replacing().len()));
        } else if !self.sync.is_whole() || self.ahead.is_replaying() {
            return Err(ChangeRefused::Unsynced);
        } else if is_scrubbing {
            return Err(ChangeRefused::Scrubbing);
        } else if wish == Wish::Ppl && !self.bad_blocks.is_empty() {
            return Err(ChangeRefused::BadBlocks);
        }
        let live = self.members.live();
        let superblocks: Vec<&Superblock> =
            live.iter().filter_map(|role| self.scribe.roster.superblock(role)).collect();
        let turn = turn(&superblocks, wish, SECTORS_MIN).map_err(ChangeRefused::Cannot)?;
        let first = live.iter().next().expect("an array without missing members");
        self.policy.change = Some(Change { stage: Stage::Drain, turn, first, pages: None, held: Vec::new() });
        Ok(())
    }

    /// Gives a change up, whose superblocks nobody has seen: requests go on.
    pub(super) fn give_change_up(&mut self) {
        let Some(change) = self.policy.change.take() else { return };
        if self.policy.policy != Policy::Ppl {
            self.ahead.logs = None;
        }
        self.policy.freed = change.held;
    }

    /// Begins the steps of a change when all is at rest, with a record of all members; true when it did.
    pub(super) fn begin_steps_of_change(&mut self, fx: &mut Effects) -> bool {
        let Some(change) = &self.policy.change else { return false };
        // What was under way may have met sectors that cannot be read or written.
        let is_listed = change.turn.policy == Policy::Ppl && !self.bad_blocks.is_empty();
        if self.members.is_degraded() || self.is_stopping || is_listed || !self.sync.is_whole() {
            self.give_change_up();
            return true;
        }
        let is_clean = self.scribe.mark() == super::scribe::Mark::Clean;
        if change.stage == Stage::Drain {
            if !self.is_at_rest() || !is_clean || self.has_unrecorded_bad_blocks() {
                return false;
            }
            self.policy.advance_change();
            self.record_clean(fx);
            return true;
        }
        assert!(change.stage == Stage::Record && is_clean, "{:?} while nothing is written", change.stage);
        if let Some(head) = &change.turn.head {
            let events = self.scribe.events() + 1;
            let head = block::md::bitmap::Head { events, events_cleared: events, ..head.clone() };
            self.policy.change_mut().pages = Some(Pages::new(&head, &Bits::none(head.regions()), false));
        }
        self.scribe.begin_change();
        self.end_step_of_change(fx);
        true
    }

    /// A step of a change is through: the next one begins.
    pub(super) fn end_step_of_change(&mut self, fx: &mut Effects) {
        let is_early = matches!(self.policy.change_mut().stage, Stage::Erase | Stage::Flush | Stage::Areas);
        if is_early && self.members.is_degraded() {
            self.scribe.end_change();
            return self.give_change_up();
        }
        if self.policy.change_mut().stage == Stage::Flush {
            self.members.end_flush();
        }
        if !self.policy.advance_change() {
            self.scribe.end_change();
            return self.adopt_policy();
        }
        let first: PieceSet = [self.policy.change_mut().first].into_iter().collect();
        let all = self.members.live();
        match self.policy.change_mut().stage {
            Stage::Drain | Stage::Record => unreachable!("steps begin behind the record"),
            Stage::Erase => self.erase_logs(fx),
            Stage::Flush => self.flush_members(fx),
            Stage::Areas => self.write_areas(fx),
            Stage::Ahead => {
                let events = self.scribe.next_events();
                self.write_policy(first, events, false, fx);
            }
            Stage::Others => self.write_policy(all.without(first), self.scribe.events() - 1, true, fx),
            Stage::Turn => {
                // Where nothing was written ahead of it, the turn is the update.
                let is_ahead = self.policy.change_mut().turn.policy != Policy::Resync;
                let events = if is_ahead { self.scribe.events() } else { self.scribe.next_events() };
                self.write_policy(first, events, true, fx);
            }
            Stage::Follow => self.write_policy(all.without(first), self.scribe.events(), true, fx),
        }
    }

    /// Writes superblocks as of an update.
    fn write_policy(&mut self, roles: PieceSet, events: u64, is_new: bool, fx: &mut Effects) {
        let turn = self.policy.change_mut().turn.clone();
        for role in roles.iter() {
            let Some(superblock) = self.scribe.roster.superblock_mut(role) else { continue };
            superblock.state.events = events;
            if is_new {
                turn.mark(superblock);
            }
        }
        self.write_superblocks(roles.into(), fx);
    }

    /// Superblock of a member as it is going to be.
    fn turned(&self, role: usize) -> Superblock {
        let mut superblock = self.scribe.roster.superblock(role).expect("a member that is there").clone();
        let change = self.policy.change.as_ref().expect("a change that goes on");
        change.turn.mark(&mut superblock);
        superblock
    }

    /// What becomes a log is zeros: headers of older logs lie there, if the array had some before.
    fn erase_logs(&mut self, fx: &mut Effects) {
        for role in self.members.live().iter() {
            let (sector, sectors) = self.turned(role).ppl_place().expect("a superblock with a log");
            self.scribe.await_answer();
            let op = Op::WriteZeroes { sector, sectors, may_unmap: true };
            fx.command(self.members.seat(members::role(role)), kind::SCRIBE, 0, op);
        }
    }

    /// Bitmap without bits, or first headers of logs.
    fn write_areas(&mut self, fx: &mut Effects) {
        if self.policy.change_mut().turn.policy == Policy::Ppl {
            return self.write_first_headers(fx);
        }
        let count = self.policy.change_mut().pages.as_ref().map_or(0, Pages::count);
        for page in 0..count {
            let pages = self.policy.change_mut().pages.as_ref().expect("counted above");
            let content = *pages.wanted(page);
            let distance = sectors_before(page);
            for role in self.members.live().iter() {
                let sector = self.turned(role).bitmap_sector().expect("a superblock with a bitmap");
                let roles = [role].into_iter().collect();
                self.broadcast(roles, |_| Some(sector + distance), |_| content, fx);
            }
        }
    }

    fn write_first_headers(&mut self, fx: &mut Effects) {
        let turned: Vec<Option<Superblock>> = (0..self.members.count())
            .map(|role| self.members.live().contains(role).then(|| self.turned(role)))
            .collect();
        let newest = turned.iter().flatten().next().expect("an array without missing members").clone();
        assert!(self.ahead.logs.is_none(), "the array has logs already");
        self.ahead.logs = Some(Logs::new(&vec![None; turned.len()], &newest, 0));
        for (role, superblock) in turned.iter().enumerate() {
            let Some(place) = superblock.as_ref().and_then(Superblock::ppl_place) else { continue };
            self.begin_log(role, place, fx);
        }
    }

    /// The superblocks have the policy: the engine has it too, and requests go on.
    fn adopt_policy(&mut self) {
        let Some(Change { turn, pages, held, .. }) = self.policy.change.take() else { return };
        assert!(self.is_at_rest(), "strips in work while the policy changes");
        let had_logs = self.policy.policy == Policy::Ppl;
        let has_logs = turn.policy == Policy::Ppl;
        self.policy.policy = turn.policy;
        self.pages = pages;
        if !has_logs {
            self.ahead.logs = None;
        }
        let live = self.members.live();
        let superblock = live.iter().find_map(|role| self.scribe.roster.superblock(role));
        if let Some(shape) = superblock.map(|superblock| superblock.shape) {
            let map = map_of(&shape, has_logs).expect("a shape that is served");
            self.background.scrub.rescale(self.map.strip_rows(), map.strip_rows());
            self.map = map;
        }
        if has_logs != had_logs {
            assert!(self.bad_blocks.is_empty(), "bad blocks beside a partial parity log");
            self.bad_blocks = if has_logs { BadBlocks::unused() } else { BadBlocks::default() };
            for role in live.iter() {
                let superblock = self.scribe.roster.superblock(role).expect("a member that is there");
                self.bad_blocks.set_member(role, Vec::new(), superblock);
            }
        }
        self.policy.freed = held;
    }

    /// True when nothing is under way but what the scribe does.
    fn is_at_rest(&self) -> bool {
        let is_nothing_asked = self.table.is_empty() && self.requests.is_empty();
        is_nothing_asked && self.ahead.are_logs_resting() && !self.place.shares_strips()
    }
}
