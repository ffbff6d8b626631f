//! The interface of an engine: requests and completions go in, commands for drives and replies to clients come out.
//!
//! ```text
//!   clients ── submit ─────────────>┌────────┐── Effects::commands ──> drives
//!   drives  ── on_completion ──────>│ Engine │── Effects::replies ───> clients
//!   time    ── tick, next_deadline ─└────────┘
//! ```
//! An engine has no clock, thread, file, socket or lock: it is told the time with every call. [`crate::driven::Driven`]
//! couples any engine with its drives; the server, the simulator and the lab drive that.

use crate::fence::OwnRecord;
use crate::request::{Reply, Request};
use base::erasure::PieceSet;
use base::frame::FramePool;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Command, Completion, Op, Token};
use zone::drives::DriveCommand;
use zone::format::superblock::MemberState;
use zone::rules::Zone;

/// Commands and replies that the engine wishes to be carried out.
#[derive(Debug, Default)]
pub struct Effects {
    /// Commands for drives.
    pub commands: Vec<DriveCommand>,
    /// Answers for clients.
    pub replies: Vec<Reply>,
}

impl Effects {
    /// Wishes for a command to a drive. Its token comes back with the completion.
    pub fn command(&mut self, drive: usize, zone: ZoneIndex, token: impl Into<Token>, op: Op) {
        let command = Command { token: token.into(), zone, op };
        self.commands.push(DriveCommand { drive: DriveIndex::at(drive), command });
    }
}

/// An engine: all state of one volume over its drives.
pub trait Engine {
    /// Starts service once, after the mount: continues what recovery left to do.
    fn resume(&mut self, _fx: &mut Effects) {}

    /// Accepts a request. Whatever can start, starts; the answer comes through `fx`, now or later.
    fn submit(&mut self, now: Instant, request: Request, fx: &mut Effects);

    /// Takes the completion of a command. [`Engine::settle`] follows after the last of those that came together.
    fn on_completion(&mut self, drive: DriveIndex, completion: Completion, fx: &mut Effects);

    /// Moves everything that may wait for the completions that just came.
    fn settle(&mut self, _now: Instant, _fx: &mut Effects) {}

    /// Does what is due by now.
    fn tick(&mut self, _now: Instant, _fx: &mut Effects) {}

    /// Starts work that was held back for company, because nothing else happens at this instant.
    fn on_idle(&mut self, _now: Instant, _fx: &mut Effects) {}

    /// Notes that clients are being answered, who may send more in the next turn.
    fn expect_reaction(&mut self, _now: Instant) {}

    /// Returns the time at which [`Engine::tick`] is due at the latest.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Size of the volume in blocks.
    fn blocks(&self) -> u64;

    /// The pool of all frames.
    fn frames(&mut self) -> &mut FramePool;

    /// Frames that clients may take now.
    fn client_frames_available(&self) -> usize;

    /// Takes a member for failed, because an operator says so or its drive is lost to the host.
    fn fail_member(&mut self, drive: DriveIndex, fx: &mut Effects);

    /// Members whose drives are away for a while: what these are asked waits for them, and others are asked where that helps.
    fn note_stalled(&mut self, _stalled: PieceSet) {}

    /// The engine's own superblock records, for those who may be fenced (ADR 73).
    fn own_record(&self) -> Option<OwnRecord> {
        None
    }

    /// Members on whose drives there was something that this engine did not put there, or may be, since this was asked last.
    /// Commands that were given in the meantime wait until drives were looked at.
    fn take_strangers(&mut self) -> PieceSet {
        PieceSet::EMPTY
    }

    /// Says what a command is that a drive refused.
    fn name_of(&self, _token: Token) -> &'static str {
        "a command"
    }

    /// State of every member.
    fn members(&self) -> Vec<MemberState>;

    /// True when nothing is under way and nothing waits.
    fn is_quiet(&self) -> bool;

    /// True while recovery continues after the mount: clients are not served yet.
    fn has_recovery_debt(&self) -> bool {
        false
    }

    /// True when recovery must begin anew before clients are served.
    fn must_mount_again(&self) -> bool {
        false
    }

    /// Describes what is under way and what waits, in one line.
    fn describe(&self) -> String;

    /// Work that should have been done by now, in words, if there is any.
    fn overdue(&self, _now: Instant) -> Option<String> {
        None
    }

    /// First difference between the zones of a member's drive at rest and what the engine believes of them, in words.
    fn audit_zones(&self, drive: DriveIndex, zones: &[Zone]) -> Option<String>;

    /// Asserts what must hold between events. O(volume): for tests and simulation.
    ///
    /// # Panics
    /// When an invariant is broken.
    fn check_invariants(&self);
}
