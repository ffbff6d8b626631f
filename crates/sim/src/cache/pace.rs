//! Pace of a life: turns of the shards, events, and waits.

use super::life::CacheLife;
use crate::tally::Failure;
use ::cache::{CacheVolume, Status};
use base::time::Nanos;

/// Events after which a wait is stuck.
pub(super) const EVENTS_MAX: u64 = 200_000;
/// Turns without an event after which the cache runs in a circle.
const TURNS_MAX: u32 = 20_000;
impl CacheLife {
    /// Turns until nothing moves.
    pub(super) fn turn(&mut self) -> Result<(), Failure> {
        for _ in 0..TURNS_MAX {
            if self.judge.stage.rack.lock().power.is_off() {
                return Ok(());
            }
            self.judge.pass_times();
            self.judge.attend()?;
            let (now, wall) = (self.judge.stage.clock.now, self.judge.stage.clock.tell());
            let (mut has_moved, mut answers, latest) = (false, Vec::new(), self.judge.stage.clock.latest);
            for shard in self.judge.stage.shards().order() {
                has_moved |= self.judge.stage.shards().turn(shard, (now, wall), latest);
                if self.judge.has_ended_at_store() {
                    self.judge.stage.spares_caches = true;
                    self.judge.stage.shards().fall_silent();
                }
                if self.judge.stage.rack.lock().power.is_off() {
                    break;
                }
            }
            has_moved |= self.judge.stage.shards().collect((now, wall), &mut answers);
            self.judge.note_decisions()?;
            for answered in answers {
                self.judge.judge(answered)?;
            }
            self.judge.stage.check_bounds()?;
            if !has_moved {
                return Ok(());
            }
        }
        Err(Failure::new("the cache turns and turns"))
    }

    /// Goes to the next event; false when the power is off.
    pub(super) fn step(&mut self, whom: &str) -> Result<bool, Failure> {
        if self.judge.stage.rack.lock().power.is_off() {
            return Ok(false);
        }
        let now = self.judge.stage.clock.now;
        let served = self.judge.stage.mounted();
        let due = served.next_deadline();
        if let Some(due) = due.filter(|due| *due <= now) {
            return Err(Failure::new(format!(
                "{whom} waits, and a server would turn at once for what was due {due:?}"
            )));
        }
        let next = served.next_event().into_iter().chain(due).min();
        let Some(next) = next else {
            let status: Vec<Status> = served.all().iter().map(CacheVolume::status).collect();
            return Err(Failure::new(format!("{whom} waits, and nothing is due: {status:?}")));
        };
        assert!(due.is_none_or(|due| next <= due), "what is due at {due:?} comes after {next:?}");
        self.judge.stage.clock.now = now.max(next);
        self.turn()?;
        Ok(!self.judge.stage.rack.lock().power.is_off())
    }

    pub(super) fn wait(&mut self, nanos: u64, events: u64) -> Result<(), Failure> {
        let until = self.judge.stage.clock.now + Nanos(nanos);
        for _ in 0..events {
            let served = self.judge.stage.mounted();
            let next = served.next_event().into_iter().chain(served.next_deadline()).min();
            match next {
                Some(next) if next <= until => {
                    if !self.step("time")? {
                        return Ok(());
                    }
                }
                _ => {
                    let now = self.judge.stage.clock.now;
                    assert!(now <= until, "it is {now:?}, and a wait ends at {until:?}");
                    self.judge.stage.clock.now = until;
                    return self.turn();
                }
            }
        }
        Ok(())
    }

    /// Steps until all requests are answered, or the power is off.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        for _ in 0..EVENTS_MAX {
            if self.judge.desk.pending.is_empty() || !self.step("a request")? {
                return Ok(());
            }
        }
        Err(Failure::new(format!("{} requests are never answered", self.judge.desk.pending.len())))
    }
}
