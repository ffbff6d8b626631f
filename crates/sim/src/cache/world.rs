//! World of a run: the rack of drives, the cache on it, its clients, and the ends and beginnings of its lives. It is parted in layers, each of
//! which holds the one below and calls nothing above:
//!
//! ```text
//!   CacheWorld  acts of the plan, the operator ────┐
//!   CacheLife   mounts, stops, requests, time ─────┤ each looks down, and is never called from below
//!   CacheJudge  what may be found, what may not be ┤
//!   CacheStage  drives, the cache, clocks ─────────┘
//! ```

use super::Tally;
use super::act::Act;
use super::judge::CacheJudge;
use super::life::CacheLife;
use super::plan::Plan;
use super::stage::CacheStage;
use crate::acted::Outcome;
use crate::power::Blow;
use crate::tally::Failure;

/// See the module.
pub struct CacheWorld {
    pub(super) life: CacheLife,
}

impl CacheWorld {
    /// A new cache on new drives, mounted.
    pub fn new(plan: &Plan) -> Result<CacheWorld, Failure> {
        let judge = CacheJudge::new(CacheStage::new(plan)?);
        let mut world = CacheWorld { life: CacheLife { judge } };
        match world.life.mount(None)? {
            true => Ok(world),
            false => Err(Failure::new("a new cache is refused")),
        }
    }

    /// What became of the run.
    pub fn outcome(mut self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        let (hash, events) = {
            let rack = self.life.judge.stage.rack.lock();
            (rack.trace.hash(), rack.trace.events())
        };
        self.life.judge.stage.tally.events = events;
        let tally = self.life.judge.stage.tally;
        // After a panic, what the engine left behind is not taken apart in good order.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(self)));
        Outcome { failure, hash, tally }
    }

    /// Does an act; false when nothing can follow.
    pub fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        act.check(self.life.judge.stage.plan.drives);
        if act.is_of_client() && !self.life.prepare()? {
            return self.life.after_act();
        }
        match *act {
            Act::Get(key) => self.life.get(key)?,
            Act::Set { key, bytes, filler, expiry } => self.life.set(key, bytes, filler, expiry)?,
            Act::Remove(key) => self.life.remove(key)?,
            Act::Update { key, change, bytes } => self.life.update(key, change, bytes)?,
            Act::GetSeveral { first, count } => self.life.get_several(first, count)?,
            Act::SetSeveral { first, count, bytes, only_new } => {
                self.life.store_several((first, count), bytes, only_new)?
            }
            Act::GetPart { key, part } => self.life.get_part(key, part)?,
            Act::Exchange { key, bytes } => self.life.exchange_seen(key, bytes)?,
            Act::Clear { key } => self.life.clear(key)?,
            Act::ClearAt { key, after } => self.life.clear_at(key, after)?,
            Act::Wait { nanos, events } => self.life.wait(nanos, events)?,
            Act::SetClock(by) => self.life.judge.stage.clock.set += by,
            Act::Scan { key, count } => self.life.scan(key, count)?,
            Act::Drain => self.life.drain()?,
            Act::Rest => self.rest()?,
            Act::ReadAll => self.life.read_all()?,
            Act::Stop { power, cut } => {
                self.life.stop(power)?;
                return self.life.mount(cut);
            }
            Act::StopAt { power, at } => {
                self.life.judge.stage.spares_caches = !power;
                self.life.judge.stage.rack.lock().power.arm(at.at(), None, Blow::PowerOff);
            }
            Act::Try { without, cut } => self.life.judge.stage.bays.tries.push((without, cut)),
            Act::Recut(shards) => self
                .life
                .judge
                .stage
                .bays
                .recuts
                .extend(Some(shards).filter(|count| *count != self.life.judge.stage.plan.shards)),
            Act::Away(drive) => self.life.judge.stage.lose(drive, |bays| &mut bays.away),
            Act::Blank(drive) => self.life.judge.stage.lose(drive, |bays| &mut bays.blank),
            Act::Back => {
                self.life.judge.stage.bays.away.clear();
                self.life.judge.stage.bays.blank.clear();
            }
            Act::TakeOut(drive) => self.take_out(drive)?,
            Act::Join(drive) => self.join(drive)?,
            Act::GiveUp(drive) => self.give_up_drive(drive)?,
            Act::AddDrive { joins } => return self.add_drive(joins),
            Act::PlugIn => self.life.judge.stage.bays.plugs_in = true,
            Act::Resize(object_mean) => self.life.judge.stage.plan.object_mean = object_mean,
            Act::Absent(nanos) => self.life.judge.attended.absent += nanos,
            Act::Freeze(nanos) => self.freeze(nanos)?,
            Act::CutMemory { skip, arrive } => self.life.judge.memory.cut(skip, arrive),
            Act::EndWell { power } => {
                self.end_well()?;
                if !self.life.judge.stage.rack.lock().power.is_off() {
                    self.life.stop(power)?;
                    return self.life.mount(None);
                }
            }
            _ => self.life.judge.stage.break_drive(act),
        }
        self.life.after_act()
    }

    /// The end of the run: a last life, from the media.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.rest()?;
        if self.life.judge.stage.rack.lock().power.is_off() {
            self.life.after_act()?;
        } else {
            self.life.stop(self.life.judge.stage.plan.seed.is_multiple_of(2))?;
            if !self.life.mount(None)? {
                return Ok(());
            }
        }
        if self.life.judge.stage.served.is_some() {
            self.life.read_all()?;
        }
        Ok(())
    }
}
