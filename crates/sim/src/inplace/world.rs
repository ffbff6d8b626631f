//! World of a run: disks, engine, clients, and what is checked when everything is at rest. It is parted in layers, each of which holds the
//! one below and calls nothing above:
//!
//! ```text
//!   InPlaceWorld  acts of the plan ──────────────┐
//!   Life          starts, stops, requests, time ─┤ each looks down, and is never called from below
//!   Judge         what may be lost, what must be ┤
//!   Stage         disks, engine, clock ──────────┘
//! ```

mod blemishes;
mod clients;
mod contents;
mod cores;
mod forcing;
mod journal;
mod judge;
mod lies;
mod life;
mod locating;
mod logs;
mod media;
mod members;
mod policies;
mod replacing;
mod returning;
mod scrub;
mod spares;
mod stage;
mod start;
mod takeover;

use super::act::Act;
use super::disk::DiskHandle;
use super::plan::Plan;
use super::tally::Tally;
use crate::world::Failure;
use blemishes::Blemish;
use judge::Judge;
use life::Life;
use stage::Stage;

/// See the module.
pub struct InPlaceWorld {
    life: Life,
}

impl InPlaceWorld {
    /// Makes the array and starts it.
    pub fn new(plan: &Plan) -> Result<InPlaceWorld, Failure> {
        let (stage, stamps) = Stage::new(plan)?;
        let mut world = InPlaceWorld { life: Life::new(Judge::new(stage, &stamps)) };
        world.life.judge.start()?;
        Ok(world)
    }

    /// Counts of what was done.
    pub fn tally(&self) -> Tally {
        self.life.judge.tally()
    }

    /// Does an act; false when nothing can follow.
    pub fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        act.check(&self.life.judge.stage.plan);
        match *act {
            Act::Write { lba, blocks, durable } => self.life.write(lba, blocks, durable)?,
            Act::Read { lba, blocks } => self.life.read(lba, blocks)?,
            Act::Trim { lba, blocks, durable } => self.life.trim(lba, blocks, durable),
            Act::Flush => self.life.flush(),
            Act::Wait { nanos, events } => self.life.wait(nanos, events)?,
            Act::Drain => self.life.drain()?,
            Act::Resync => self.life.resync()?,
            Act::ReadAll => self.read_all()?,
            Act::Crash => return self.life.crash(),
            Act::Kill => return self.life.kill(),
            Act::TakeOver => return self.take_over(),
            Act::Stop => return self.life.stop(),
            Act::Die(member) => self.life.judge.die(member),
            Act::LoseJournal(how) => self.life.judge.stage.lose_journal(how),
            Act::AddJournal(superblocks) => return self.add_journal(superblocks),
            Act::Fail(member) => {
                if self.life.judge.stage.is_rebuilding(member) {
                    self.life.judge.lose_newcomer();
                    self.life
                        .judge
                        .stage
                        .volume()
                        .engine
                        .core_mut()
                        .fail_member(array::inplace::members::role(member));
                } else if !self.life.judge.gone.contains(&member) && self.life.judge.may_lose() {
                    self.life.judge.lose(member);
                    self.life
                        .judge
                        .stage
                        .volume()
                        .engine
                        .core_mut()
                        .fail_member(array::inplace::members::role(member));
                }
            }
            Act::WriteFault(member) => self.life.judge.fault(member, DiskHandle::fail_next_write),
            Act::FlushFault(member) => self.life.judge.fault(member, DiskHandle::fail_next_flush),
            Act::Scrub { repairs } => self.life.judge.begin_scrub(repairs)?,
            Act::StopScrub => {
                self.life.judge.stage.volume().engine.core_mut().stop_scrub();
            }
            Act::Rot { rows } => self.rot(rows)?,
            Act::Spoil { member, row } => self.life.judge.spoil(member, row, Blemish::Unreadable),
            Act::Scar { member, row } => self.life.judge.spoil(member, row, Blemish::Scarred),
            Act::Stick { member, row } => self.life.judge.spoil(member, row, Blemish::Stuck),
            Act::Replace { member, by_spare } => self.life.judge.stage.replace_beside(member, by_spare)?,
            Act::LoseReplacement { member, how } => self.life.judge.lose_replacement(member, how),
            Act::Add(member) => self.add(member)?,
            Act::Spare => self.life.judge.stage.add_spare()?,
            Act::Return(member) => self.bring_back(member)?,
            Act::Grow(wish) => self.life.judge.stage.grow(wish)?,
            Act::Rebuild => self.rebuild()?,
            Act::Revive => self.life.judge.stage.disks.iter().for_each(DiskHandle::revive),
            Act::Lie { member, astray } => self.life.judge.stage.lie(member, astray),
            Act::Expose => self.expose()?,
            Act::Hang { member, nanos } => {
                self.life.judge.stage.disks[member].hang(self.life.judge.stage.now, nanos);
                self.life.judge.tally.hangs += 1;
            }
            Act::Cut(member) => self.life.judge.cut_short(member),
            Act::Exchange(one, other) => self.life.judge.stage.lies.exchange(one, other),
            Act::Force => self.life.judge.forcing.begin(),
        }
        self.life.turn()?;
        Ok(true)
    }

    fn read_all(&mut self) -> Result<(), Failure> {
        let blocks = self.life.judge.stage.plan.blocks();
        let mut lba = 0;
        while lba < blocks {
            let count = (blocks - lba).min(100);
            self.life.read(lba, count)?;
            lba += count;
        }
        self.life.drain()
    }

    /// The end: the array is stopped and looked at.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.life.shut()
    }
}
