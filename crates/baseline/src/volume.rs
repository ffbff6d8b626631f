//! The engine with its drives, driven by whoever owns the thread: a turn hands commands to drives and completions
//! to the engine, until nothing moves.

use crate::Engine;
use array::log::Effects;
use array::request::{Reply, Request};
use base::frame::FramePool;
use base::time::Instant;
use base::units::DriveIndex;
use zone::device::Completion;
use zone::drives::DriveSet;

/// Rounds of one turn, as in the log-structured engine.
const ROUNDS_PER_TURN: u32 = 16;

/// A volume: engine and drives.
pub struct RaiznVolume {
    pub(super) engine: Engine,
    pub(super) drives: DriveSet,
    pub(super) effects: Effects,
    completions: Vec<(DriveIndex, Completion)>,
}

impl RaiznVolume {
    /// Takes over a mounted engine.
    #[must_use]
    pub fn new(engine: Engine, drives: DriveSet) -> RaiznVolume {
        RaiznVolume { engine, drives, effects: Effects::default(), completions: Vec::new() }
    }

    /// Accepts a request; it is answered by a later turn.
    pub fn submit(&mut self, request: Request) {
        self.engine.submit(request, &mut self.effects);
    }

    /// Makes what progress is possible without waiting; true when another turn may make more.
    pub fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        let mut moved = true;
        for _ in 0..ROUNDS_PER_TURN {
            moved = self.round(now);
            if !moved {
                break;
            }
        }
        replies.append(&mut self.effects.replies);
        moved
    }

    fn round(&mut self, now: Instant) -> bool {
        for command in self.effects.commands.drain(..) {
            self.drives.submit(now, command);
        }
        self.drives.poll(now, &mut self.completions);
        let moved = !self.completions.is_empty();
        for (drive, completion) in self.completions.drain(..) {
            self.engine.on_completion(drive, completion, &mut self.effects);
        }
        moved || !self.effects.commands.is_empty()
    }

    /// True when the engine is at rest and no drive has anything to answer.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.engine.is_quiet() && self.effects.commands.is_empty() && self.drives_are_idle()
    }

    /// True when no drive has anything to answer.
    pub(super) fn drives_are_idle(&self) -> bool {
        (0..self.drives.len()).all(|member| self.drives.in_flight(DriveIndex::at(member)) == 0)
    }

    /// Time at which the next turn is due even if nothing happens.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.drives.next_event()
    }

    /// Lets virtual time pass, from `now` on, until a drive answers; returns when that is, for the next turn. `None` where
    /// nothing is under way.
    pub fn pass_time(&mut self, now: Instant) -> Option<Instant> {
        self.drives.pass_time(now, None)
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The pool of frames.
    pub fn frames(&mut self) -> &mut FramePool {
        self.engine.frames()
    }

    /// A member is no longer to be believed, because an operator says so.
    pub fn fail_member(&mut self, drive: DriveIndex) {
        self.engine.fail_member(drive.index(), &mut self.effects);
        self.engine.settle(&mut self.effects);
    }

    /// Takes engine and drives apart, for another mount.
    #[must_use]
    pub fn into_drives(self) -> DriveSet {
        self.drives
    }
}
