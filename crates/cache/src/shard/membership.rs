//! Members: which drives count, recorded in superblocks before anything is acknowledged that a lost drive misses.
//!
//! A change gets a version; it is settled when every member in use has recorded it. A lost drive may be left out only by
//! at least half of the members of the last settled record: then the others are no majority when they come back alone.

use super::{Effects, Purpose, Shard, command};
use crate::format::stamp::{Kind, Life, Stamp};
use crate::format::superblock::{Member, Superblock};
use base::units::ZoneIndex;
use std::collections::BTreeSet;
use zone::device::Op as DeviceOp;

/// See the module.
#[derive(Debug)]
pub struct Membership {
    generation: u64,
    /// Changes so far.
    version: u64,
    /// Changes that are recorded.
    settled: u64,
    /// Members in use of the last settled record.
    settled_members: usize,
    /// Which of them are known to be there.
    settled_there: Vec<bool>,
    /// Version that is being recorded, and the drives that have not done so.
    job: Option<(u64, BTreeSet<usize>)>,
    /// Superblock that is being recorded.
    superblock: Option<Superblock>,
    /// Operations that wait for versions.
    waiters: Vec<(u64, u32)>,
    frozen: bool,
}

impl Membership {
    /// Members after the record of this generation, which the first change replaces: so many are in use, and these of them
    /// are there. A drive that begins empty is none of them until it is recorded.
    #[must_use]
    pub fn new(generation: u64, there: Vec<bool>, members_in_use: usize) -> Membership {
        Membership {
            generation,
            version: 1,
            settled: 0,
            settled_members: members_in_use,
            settled_there: there,
            job: None,
            superblock: None,
            waiters: Vec::new(),
            frozen: false,
        }
    }

    /// True when all changes are recorded.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled == self.version
    }

    /// True when the record of this mount is on the media.
    #[must_use]
    pub fn has_recorded(&self) -> bool {
        self.settled > 0
    }

    /// True when a version is recorded.
    #[must_use]
    pub fn has_settled(&self, version: u64) -> bool {
        self.settled >= version
    }

    /// True when no drive takes writes.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Something changes that superblocks have to say; returns its version.
    pub fn change(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// An operation waits for what is not recorded; false when there is nothing.
    pub fn wait(&mut self, operation: u32) -> bool {
        if !self.is_settled() {
            self.waiters.push((self.version, operation));
        }
        !self.is_settled()
    }

    /// A drive has recorded the job's version.
    pub fn recorded_by(&mut self, drive: usize) {
        if let Some((_, waiting)) = &mut self.job {
            waiting.remove(&drive);
        }
    }
}

impl Shard {
    /// Ends a record that all have written, and begins the next.
    pub(super) fn settle(&mut self, effects: &mut Effects) {
        if self.membership.frozen {
            return;
        }
        let there = self.drives.iter().zip(&self.membership.settled_there);
        let in_use = there.filter(|(drive, there)| drive.up && **there).count();
        if in_use == 0 || in_use * 2 < self.membership.settled_members {
            self.membership.frozen = true;
            return self.refuse_all(effects);
        }
        if let Some((version, waiting)) = &self.membership.job {
            if !waiting.is_empty() {
                return;
            }
            self.membership.settled = *version;
            let recorded = self.membership.superblock.take().expect("a job has one");
            self.membership.settled_there = recorded.members.iter().map(|member| member.in_use).collect();
            self.membership.settled_members = recorded.members.iter().filter(|member| member.in_use).count();
            self.membership.job = None;
            let settled = self.membership.settled;
            let waiters = std::mem::take(&mut self.membership.waiters);
            for (version, operation) in waiters {
                if version <= settled {
                    self.advance(operation, effects);
                } else {
                    self.membership.waiters.push((version, operation));
                }
            }
        }
        // A drive that begins empty is empty before a record calls it a member.
        let may_record = self.membership.has_recorded() || !self.waits_for_resets();
        if !self.membership.is_settled() && may_record {
            self.record(effects);
        }
    }

    fn record(&mut self, effects: &mut Effects) {
        self.membership.generation += 1;
        let member = |(uuid, drive): (&[u8; 16], &super::Drive)| Member { uuid: *uuid, in_use: drive.up };
        self.membership.superblock = Some(Superblock {
            cache: self.identity.cache,
            secret: self.identity.secret,
            generation: self.membership.generation,
            epoch: self.identity.epoch,
            wall: self.clocks.wall,
            members: self.identity.drives.iter().zip(&self.drives).map(member).collect(),
            cleared: self.cleared,
        });
        let up: BTreeSet<usize> = (0..self.drives.len()).filter(|drive| self.drives[*drive].up).collect();
        self.membership.job = Some((self.membership.version, up.clone()));
        for drive in up {
            if self.drives[drive].log.end < self.drives[drive].capacity {
                self.write_superblock(drive, effects);
                continue;
            }
            let log = &mut self.drives[drive].log;
            (log.zone, log.end) = (ZoneIndex(1 - log.zone.0), 0);
            let token = Purpose::SuperblockReset.token(0);
            effects.commands.push(command(drive, log.zone, token, DeviceOp::Reset));
        }
    }

    /// Writes the superblock to the log of a drive, which has room.
    pub(super) fn write_superblock(&mut self, drive: usize, effects: &mut Effects) {
        let mut frame = self.take_frame();
        let superblock = self.membership.superblock.as_ref().expect("a job is under way");
        superblock.encode(drive, &mut frame.data);
        let log = &mut self.drives[drive].log;
        let (zone, offset) = (log.zone, log.end);
        log.end += 1;
        stamp_superblock(self.identity.cache, drive, zone, offset, superblock.generation).seal(&mut frame);
        self.counters.blocks_superblock += 1;
        let token = Purpose::Superblock.token(0);
        effects.commands.push(command(drive, zone, token, DeviceOp::Write { offset, frames: vec![frame] }));
    }

    /// A superblock was written.
    pub(super) fn on_superblock(&mut self, drive: usize, effects: &mut Effects) {
        if self.drives[drive].volatile {
            let token = Purpose::SuperblockFlush.token(0);
            effects.commands.push(command(drive, ZoneIndex(0), token, DeviceOp::Flush));
        } else {
            self.membership.recorded_by(drive);
        }
    }

    /// A drive failed: it is left out, and what was on its way to it waits until that is recorded.
    pub(super) fn fail_drive(&mut self, drive: usize) {
        if !self.drives[drive].up {
            return;
        }
        self.drives[drive].up = false;
        self.drives[drive].open = None;
        self.counters.drives_failed += 1;
        let version = self.membership.change();
        self.membership.recorded_by(drive);
        let journal = std::mem::take(&mut self.drives[drive].journal);
        for pending in journal.flight.into_iter().chain(journal.pending) {
            let waiters = self.entries.remove(&(pending.ident, pending.number));
            for waiter in waiters.into_iter().flatten() {
                self.membership.waiters.push((version, waiter));
            }
        }
        if let Some(batch) = self.drives[drive].batch.take() {
            batch.records.into_iter().for_each(|number| self.buffer.land(number));
            self.frames.extend(batch.frames);
        }
        self.sweep.drive_failed();
    }
}

/// Stamp of a superblock.
#[must_use]
pub fn stamp_superblock(cache: [u8; 16], drive: usize, zone: ZoneIndex, page: u32, generation: u64) -> Stamp {
    let member = u8::try_from(drive).expect("at most 32 members");
    let life = Life { cache, member, zone, birth: 0, stream: 0 };
    Stamp { life, page, kind: Kind::Superblock, sequence: generation, origin: 0 }
}
