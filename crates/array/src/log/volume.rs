//! The engine with its drives, driven by whoever owns the thread: one [`LogVolume::turn`] hands the
//! engine's commands to the drives and their completions to the engine, until nothing moves.

use crate::log::replace::expect_blank;
use crate::log::scrub::{ScrubError, ScrubOptions};
use crate::log::{Effects, ReplaceError, Shard};
use crate::request::{Reply, Request};
use base::frame::FramePool;
use base::time::Instant;
use base::units::DriveIndex;
use zone::condition::Condition;
use zone::device::{Completion, ZonedDevice};
use zone::drives::DriveSet;
use zone::format::superblock::Uuid;

/// Rounds of one turn: so many that a request usually finishes within its turn, so few that the
/// front end is asked again soon.
const ROUNDS_PER_TURN: u32 = 16;

/// A volume: engine and drives.
pub struct LogVolume {
    shard: Shard,
    drives: DriveSet,
    effects: Effects,
    completions: Vec<(DriveIndex, Completion)>,
}

impl LogVolume {
    /// Takes over a mounted engine and lets it finish what recovery left to do.
    #[must_use]
    pub fn new(shard: Shard, drives: DriveSet) -> LogVolume {
        let mut volume = LogVolume { shard, drives, effects: Effects::default(), completions: Vec::new() };
        volume.shard.resume(&mut volume.effects);
        volume
    }

    /// Accepts a request; it is answered by a later turn.
    pub fn submit(&mut self, now: Instant, request: Request) {
        self.shard.submit(now, request, &mut self.effects);
    }

    /// Makes what progress is possible without waiting; true when another turn may make more.
    pub fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        self.shard.tick(now, &mut self.effects);
        let mut moved = true;
        for _ in 0..ROUNDS_PER_TURN {
            moved = self.round(now);
            if !moved {
                moved = self.close_idle(now);
            }
            if !moved {
                break;
            }
        }
        replies.append(&mut self.effects.replies);
        moved
    }

    /// Closes stripes that would wait for nothing; true when there are commands for drives. Those who are answered in
    /// this turn may send more in the next.
    fn close_idle(&mut self, now: Instant) -> bool {
        if self.effects.replies.is_empty() {
            self.shard.close_idle(now, &mut self.effects);
        }
        // Requests of a stripe that could be written nowhere are answered as it is closed.
        if !self.effects.replies.is_empty() {
            self.shard.expect_reaction(now);
        }
        !self.effects.commands.is_empty()
    }

    fn round(&mut self, now: Instant) -> bool {
        for command in self.effects.commands.drain(..) {
            self.drives.submit(now, command);
        }
        self.drives.poll(now, &mut self.completions);
        let moved = !self.completions.is_empty();
        for (drive, completion) in self.completions.drain(..) {
            self.shard.on_completion(drive, completion, &mut self.effects);
        }
        if moved {
            self.shard.settle(now, &mut self.effects);
        }
        moved || !self.effects.commands.is_empty()
    }

    /// True when the engine is at rest and no drive has anything to answer: engine and drives may part. One that must mount
    /// again need not come to rest, for its rebuild may wait for segments that nobody closes or collects any more.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let answered = |member| self.drives.in_flight(DriveIndex::at(member)) == 0;
        let is_void = self.shard.must_mount_again();
        let is_done = self.shard.is_quiet() || is_void;
        is_done && self.effects.commands.is_empty() && (0..self.drives.len()).all(answered)
    }

    /// Returns the time at which the next turn is due even if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.shard.next_deadline(), self.drives.next_event()].into_iter().flatten().min()
    }

    /// Lets virtual time pass, from `now` on, until a drive answers, something of the engine is due, or `until`; returns
    /// when that is, for the next turn. `None` where nothing is under way and there is no end.
    pub fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        let until = [self.shard.next_deadline(), until].into_iter().flatten().min();
        self.drives.pass_time(now, until)
    }

    /// The engine.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The pool of frames.
    pub fn frames(&mut self) -> &mut FramePool {
        self.shard.frames()
    }

    /// A member is no longer to be believed, because an operator says so.
    pub fn fail_member(&mut self, drive: DriveIndex) {
        self.shard.fail_member(drive.index(), &mut self.effects);
    }

    /// Returns the condition of a member's drive; `None` when it is missing.
    pub fn condition(&mut self, now: Instant, drive: DriveIndex) -> Option<Condition> {
        self.drives.condition(now, drive)
    }

    /// A member whose drive does not answer, or is lost to the host, is handled as one that died: what it was asked
    /// comes back unanswered with the next turn, and it is no longer believed.
    pub fn give_up_member(&mut self, drive: DriveIndex) {
        self.drives.abandon(drive);
        self.shard.fail_member(drive.index(), &mut self.effects);
    }

    /// An empty drive takes the place of a failed member, and the member is rebuilt onto it while clients
    /// go on. The drive must be blank and made like the others, its UUID that of no member.
    ///
    /// # Errors
    /// Why the drive cannot take its place. Nothing was changed then, and the drive is let go.
    pub fn replace_member(
        &mut self,
        now: Instant,
        member: DriveIndex,
        device: Box<dyn ZonedDevice>,
        uuid: Uuid,
    ) -> Result<(), ReplaceError> {
        self.shard.can_replace(member.index(), uuid)?;
        let has_commands = self.effects.commands.iter().any(|command| command.drive == member);
        if has_commands || self.drives.in_flight(member) > 0 {
            return Err(ReplaceError::Busy);
        }
        let device = expect_blank(device, self.shard.geometry(), now)?;
        let geometry = *device.geometry();
        self.drives.replace(member, device);
        self.shard.replace_member(member.index(), uuid, &geometry, &mut self.effects);
        Ok(())
    }

    /// From now on a rebuild writes at most so many bytes a second to its drive, whatever clients do: zero is no limit,
    /// and `None` what they leave.
    pub fn set_rebuild_rate(&mut self, bytes_per_second: Option<u64>) {
        self.shard.set_rebuild_rate(bytes_per_second);
    }

    /// Begins a scrub: everything is read beside what clients do, and repaired if that is asked for.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub fn start_scrub(&mut self, options: ScrubOptions) -> Result<(), ScrubError> {
        self.shard.start_scrub(options)
    }

    /// Ends the scrub, if one is running.
    pub fn stop_scrub(&mut self) {
        self.shard.stop_scrub();
    }

    /// From now on a scrub reads at most so many bytes a second; `None` and zero are no limit.
    pub fn set_scrub_rate(&mut self, bytes_per_second: Option<u64>) {
        self.shard.set_scrub_rate(bytes_per_second);
    }

    /// A checkpoint is to be written as soon as possible, unless nothing was written since the last.
    pub fn ask_for_checkpoint(&mut self) {
        self.shard.ask_for_checkpoint();
    }

    /// Commands a drive was given and has not answered.
    #[must_use]
    pub fn commands_in_flight(&self, drive: DriveIndex) -> u32 {
        self.drives.in_flight(drive)
    }

    /// The drives.
    pub fn drives_mut(&mut self) -> &mut DriveSet {
        &mut self.drives
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

    /// Takes engine and drives apart, for another mount.
    #[must_use]
    pub fn into_drives(self) -> DriveSet {
        self.drives
    }
}
