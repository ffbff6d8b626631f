//! An engine with its drives, driven by whoever owns the thread.
//!
//! ```text
//!   turn:  tick ──> round ──> round ──> ...        until nothing moves, or ROUNDS_PER_TURN
//!   round: commands ──> drives ──> completions ──> engine ──> settle
//! ```

use crate::engine::{Effects, Engine};
use crate::fence::{Fence, Fenced, Refusal};
use crate::request::{Reply, Request, Volume};
use base::erasure::PieceSet;
use base::frame::FramePool;
use base::time::Instant;
use base::units::DriveIndex;
use zone::condition::Condition;
use zone::device::Completion;
use zone::drives::DriveSet;
use zone::format::superblock::MemberState;

/// Rounds of one turn: so many that a request usually finishes within its turn, so few that the
/// front end is asked again soon.
const ROUNDS_PER_TURN: u32 = 16;

/// A volume: an engine and its drives. Its owner has both at hand, for mounts, for replacements and for inspection; whoever
/// serves it uses [`Volume`].
pub struct Driven<E> {
    /// The engine.
    pub engine: E,
    /// Its drives.
    pub drives: DriveSet,
    /// Commands and replies that are not carried out yet.
    pub effects: Effects,
    completions: Vec<(DriveIndex, Completion)>,
    /// Members that are away for a while, as the engine knows them.
    stalled: PieceSet,
    fence: Fence,
}

impl<E: Engine> Driven<E> {
    /// Takes over a mounted engine and lets it finish what recovery left to do.
    #[must_use]
    pub fn new(engine: E, drives: DriveSet) -> Driven<E> {
        let (effects, completions, stalled) = (Effects::default(), Vec::new(), PieceSet::default());
        let fence = Fence::default();
        let mut driven = Driven { engine, drives, effects, completions, stalled, fence };
        driven.engine.resume(&mut driven.effects);
        driven
    }

    /// From now on, another host that takes a drive is noticed (ADR 73).
    pub fn watch_for_others(&mut self) {
        assert!(self.engine.own_record().is_some(), "only records tell hosts apart");
        self.fence.watch();
    }

    /// Another host that has taken a drive: nothing is carried out or answered any more.
    #[must_use]
    pub fn fenced(&self) -> Option<Fenced> {
        self.fence.fenced()
    }

    /// Members that have not failed.
    pub(crate) fn members_present(&self) -> PieceSet {
        let members = self.engine.members().into_iter().enumerate();
        members.filter(|(_, state)| *state != MemberState::Failed).map(|(member, _)| member).collect()
    }

    /// Another host has taken a drive: nothing is carried out or answered any more.
    pub fn end_for_good(&mut self, fenced: Fenced) {
        self.fence.end_for_good(fenced);
    }

    /// True while drives are looked at for another host.
    #[must_use]
    pub fn is_looking(&self) -> bool {
        !self.fence.is_idle()
    }

    /// Commands that drives refused though they follow the rules as far as the engine knows, since this was asked last.
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        self.fence.take_refusals()
    }

    /// Starts work that was held back; true when there are commands for drives. Clients that are answered in this turn may
    /// send more in the next.
    fn on_idle(&mut self, now: Instant) -> bool {
        if self.effects.replies.is_empty() {
            self.engine.on_idle(now, &mut self.effects);
        }
        // Requests of a stripe that could be written nowhere are answered as it is closed.
        if !self.effects.replies.is_empty() {
            self.engine.expect_reaction(now);
        }
        !self.effects.commands.is_empty()
    }

    /// Has drives looked at, and all held meanwhile, if there is a sign of another host.
    fn heed_strangers(&mut self) {
        if !self.fence.is_on() {
            return;
        }
        let suspects = self.fence.take_refusing().or(self.engine.take_strangers());
        if !suspects.is_empty() {
            self.fence.suspect(suspects.or(self.members_present()));
        }
    }

    fn round(&mut self, now: Instant) -> bool {
        // The engine may have had a doubt as it gave commands outside of rounds.
        self.heed_strangers();
        if !self.fence.holds_all() {
            for command in self.effects.commands.drain(..) {
                if let Some(command) = self.fence.pass(command) {
                    self.drives.submit(now, command);
                }
            }
        }
        self.fence.begin(now, &mut self.drives);
        self.drives.poll(now, &mut self.completions);
        let stalled = self.drives.stalled();
        if std::mem::replace(&mut self.stalled, stalled) != stalled {
            self.engine.note_stalled(stalled);
        }
        let moved = !self.completions.is_empty();
        for answer in self.completions.drain(..) {
            let drive = answer.0;
            let (own, name) = (|| self.engine.own_record(), |token| self.engine.name_of(token));
            if let Some(completion) = self.fence.take(now, &mut self.drives, answer, own, name) {
                self.engine.on_completion(drive, completion, &mut self.effects);
            }
        }
        if moved {
            self.engine.settle(now, &mut self.effects);
        }
        self.heed_strangers();
        self.fence.end(now, &mut self.drives);
        moved || !self.fence.holds_all() && !self.effects.commands.is_empty()
    }

    /// True when the engine is at rest and no drive has anything to answer: engine and drives may part. One that must mount
    /// again need not come to rest, for its rebuild may wait for segments that nobody closes or collects any more.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let is_done = self.engine.is_quiet() || self.engine.must_mount_again();
        is_done
            && self.stalled.is_empty()
            && self.fence.is_idle()
            && self.effects.commands.is_empty()
            && self.drives_are_idle()
    }

    /// True when no drive has anything to answer.
    #[must_use]
    pub fn drives_are_idle(&self) -> bool {
        (0..self.drives.len()).all(|member| self.drives.in_flight(DriveIndex::at(member)) == 0)
    }

    /// Lets virtual time pass, from `now` on, until a drive answers, something of the engine is due, or `until`; returns
    /// when that is, for the next turn. `None` where nothing is under way and there is no end.
    pub fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        let until = [self.engine.next_deadline(), until].into_iter().flatten().min();
        self.drives.pass_time(now, until)
    }

    /// Takes a member for failed, because an operator says so.
    pub fn fail_member(&mut self, drive: DriveIndex) {
        // Nobody waits for its way back any more.
        if self.stalled.contains(drive.index()) {
            self.drives.abandon(drive);
        }
        self.engine.fail_member(drive, &mut self.effects);
    }

    /// Returns the condition of a member's drive; `None` when it is missing.
    pub fn condition(&mut self, now: Instant, drive: DriveIndex) -> Option<Condition> {
        self.drives.condition(now, drive)
    }

    /// Handles a member whose drive does not answer, or is lost to the host, as one that died: what it was asked
    /// comes back unanswered with the next turn, and it is no longer believed.
    pub fn give_up_member(&mut self, drive: DriveIndex) {
        self.drives.abandon(drive);
        self.engine.fail_member(drive, &mut self.effects);
    }

    /// Members that are away for a while.
    #[must_use]
    pub fn stalled(&self) -> PieceSet {
        self.stalled
    }

    /// Commands a drive was given and has not answered.
    #[must_use]
    pub fn commands_in_flight(&self, drive: DriveIndex) -> u32 {
        self.drives.in_flight(drive)
    }

    /// Takes the drives from an engine that is at rest, for another mount. Whatever is asked of it from now on fails.
    ///
    /// # Panics
    /// When it is not at rest.
    #[must_use]
    pub fn part(&mut self) -> DriveSet {
        assert!(self.is_at_rest());
        let none = (0..self.drives.len()).map(|_| None).collect();
        std::mem::replace(&mut self.drives, DriveSet::new(none))
    }
}

impl<E: Engine> Volume for Driven<E> {
    fn blocks(&self) -> u64 {
        self.engine.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.engine.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.engine.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.engine.submit(now, request, &mut self.effects);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        if self.has_ended() {
            return false;
        }
        self.engine.tick(now, &mut self.effects);
        let mut moved = true;
        for _ in 0..ROUNDS_PER_TURN {
            moved = self.round(now) || !self.fence.holds_all() && self.on_idle(now);
            if !moved {
                break;
            }
        }
        if !self.fence.holds_all() {
            replies.append(&mut self.effects.replies);
        }
        moved
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.has_ended() {
            return None;
        }
        // What the engine would do by then is not carried out before the look is over.
        let by_engine = self.engine.next_deadline().filter(|_| !self.fence.holds_all());
        [by_engine, self.drives.next_event()].into_iter().flatten().min()
    }

    fn awaits_drive(&self) -> bool {
        !self.stalled.is_empty()
    }

    fn has_ended(&self) -> bool {
        self.fence.fenced().is_some()
    }
}
