//! Lives of the cache: they begin with a mount, and end with a stop, or with the power.

use super::act::Moment;
use super::judge::CacheJudge;
use crate::tally::Failure;
use ::cache::CacheVolume;
use ::cache::config::Invalidate;

/// Mounts that may be tried one after the other.
const MOUNTS_MAX: u32 = 8;

/// See the module. Time is in [`super::pace`], requests are in [`super::client`].
pub(super) struct CacheLife {
    pub(super) judge: CacheJudge,
}

impl CacheLife {
    /// When the power went, the next life begins.
    pub(super) fn after_act(&mut self) -> Result<bool, Failure> {
        self.judge.memory.pass();
        if !self.judge.stage.rack.lock().power.is_off() {
            self.turn()?;
        }
        if self.judge.stage.rack.lock().power.is_off() {
            let spares_caches = self.judge.stage.spares_caches;
            self.stop(!spares_caches)?;
            return self.mount(None);
        }
        Ok(true)
    }

    /// The process ends, and with the power what was not flushed is lost.
    pub(super) fn stop(&mut self, power: bool) -> Result<(), Failure> {
        self.judge.check();
        let causes = self.judge.stage.causes();
        let served = self.judge.stage.served.take().expect("a mounted cache");
        let needs_none = |volume: &CacheVolume| volume.shard().needs_no_memory() && !volume.is_frozen();
        let needs_none: Vec<bool> = served.all().iter().map(needs_none).collect();
        for volume in served.all() {
            self.judge.stage.tally.end_life(volume.shard().counters());
            self.judge.stage.tally.lives_sharded += u64::from(self.judge.stage.plan.shards > 1);
        }
        self.judge.stage.tally.lives_conventional += u64::from(self.judge.stage.files.is_some());
        self.judge.stage.tally.crashes += 1;
        // What clients are not told is not known.
        self.judge.note_decisions()?;
        let pending: Vec<_> = self.judge.desk.pending.values().map(|open| (open.key, open.asked)).collect();
        pending.into_iter().for_each(|(key, asked)| self.judge.give_up(key, asked));
        self.judge.desk.forget();
        self.judge.doubt_times();
        self.judge.scans = [None, None];
        self.judge.ledger.stop(&causes, power && self.judge.stage.plan.is_volatile);
        drop(served);
        self.judge.stage.go_dark(power);
        self.judge.end_attendance(power);
        self.judge.end_memory(power, &needs_none);
        Ok(())
    }

    /// Mounts the cache, with the power failing on the way; false when it is refused, as it may be.
    pub(super) fn mount(&mut self, mut cut: Option<Moment>) -> Result<bool, Failure> {
        assert!(self.judge.stage.served.is_none(), "a cache is mounted beside another");
        assert!(self.judge.desk.pending.is_empty(), "requests outlive their process");
        self.judge.check();
        self.judge.stage.exchange();
        self.judge.pass_absence();
        for shards in std::mem::take(&mut self.judge.stage.bays.recuts) {
            assert!(shards != self.judge.stage.plan.shards, "{shards} shards are what there are");
            self.judge.stage.rack.lock().power.recovering = true;
            self.judge.stage.recut(shards)?;
            self.judge.stage.files.iter_mut().for_each(|files| drop(files.take_refused()));
        }
        for (without, cut) in std::mem::take(&mut self.judge.stage.bays.tries) {
            self.judge.try_without(without, cut);
        }
        for _ in 0..MOUNTS_MAX {
            let result = self.judge.try_mount(cut);
            self.judge.stage.judge_openings()?;
            if self.judge.stage.rack.lock().power.is_off() {
                // What it has hidden is not told by the next one.
                self.judge.ledger.forgive_all();
                cut = None;
                drop(result);
                let power = self.judge.stage.plan.invalidate == Invalidate::Media
                    || self.judge.stage.random.chance(1, 2);
                self.judge.stage.go_dark(power);
                self.judge.end_attendance(power);
                self.judge.end_memory(power, &vec![false; self.judge.stage.plan.shards]);
                continue;
            }
            self.judge.stage.rack.lock().power.disarm_cuts();
            match result {
                Ok(served) => {
                    self.judge.begin_memory(&served)?;
                    self.judge.begin(served);
                    self.turn()?;
                    return Ok(true);
                }
                Err(error) => {
                    self.judge.stage.tally.refusals += 1;
                    // The process ends, and what shards that were ready had under way is answered to nobody.
                    self.judge.stage.go_dark(false);
                    if !self.judge.stage.cure(&error)? {
                        return Ok(false);
                    }
                }
            }
        }
        Err(Failure::new("no mount succeeds"))
    }
}
