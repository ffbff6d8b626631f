//! Members: which drives count, recorded in superblocks before anything is acknowledged that a lost drive misses.
//!
//! A change gets a version; it is settled when every member in use has recorded it. A lost drive may be left out only by
//! at least half of the members of the last settled record: then the others are no majority when they come back alone.

use super::core::Core;
use super::{Effects, Purpose, Shard, command};
use crate::format::stamp::{Kind, Life, Stamp};
use crate::format::superblock::{Member, Standing, Superblock};
use crate::shared::Mark;
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
    /// Members of the last settled record that were there: they have a say in the next one.
    voters: Vec<bool>,
    /// So many of them must hold it for it to count.
    quorum: usize,
    /// The record that is being made.
    job: Option<Job>,
    /// Operations that wait for versions.
    waiters: Vec<(u64, u32)>,
    frozen: bool,
}

/// A record that is being made. Drives that join hold it first: a record that others hold names no member that does not
/// know itself to be one.
#[derive(Debug)]
struct Job {
    version: u64,
    superblock: Superblock,
    /// Drives that have not recorded it: those that join, and then the others.
    waiting: BTreeSet<usize>,
    /// The others, while drives that join are waited for.
    others: BTreeSet<usize>,
}

impl Membership {
    /// Members at a mount, before its first record. No record that is known has a higher generation than this one. These
    /// drives have a say in the next one, for which a quorum of them has to hold it.
    #[must_use]
    pub fn new(generation: u64, voters: Vec<bool>, quorum: usize) -> Membership {
        assert!(quorum > 0, "a record that nobody holds counts nothing");
        Membership {
            generation,
            version: 1,
            settled: 0,
            voters,
            quorum,
            job: None,
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

    /// True of a drive that the last settled record names as a member.
    #[must_use]
    pub fn has_member(&self, drive: usize) -> bool {
        self.voters[drive]
    }

    /// Adds a place, without a member.
    pub fn grow(&mut self) {
        self.voters.push(false);
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
        if let Some(job) = &mut self.job {
            job.waiting.remove(&drive);
            job.others.remove(&drive);
        }
    }
}

impl Core {
    /// True when enough members are up for the next record to count, without one of them.
    pub(super) fn can_record_without(&self, without: usize) -> bool {
        let voters = (0..).zip(self.drives.iter().zip(&self.membership.voters));
        let up = voters.filter(|(place, (drive, votes))| *place != without && drive.up && **votes);
        up.count() >= self.membership.quorum
    }

    fn record(&mut self, mark: Option<Mark>, effects: &mut Effects) {
        let places = (self.identity.drives.len(), self.membership.voters.len());
        assert!(
            places == (self.drives.len(), self.drives.len()),
            "each place has a drive, and a say: {places:?}"
        );
        assert!(self.membership.job.is_none(), "one record is made at a time");
        self.membership.generation += 1;
        let standing = |drive: usize| match (self.drives[drive].up, self.membership.voters[drive]) {
            (false, _) => Standing::LeftOut,
            (true, true) => Standing::Member,
            (true, false) => Standing::Joined,
        };
        let uuids = (0..).zip(&self.identity.drives);
        let member = |(drive, uuid): (usize, &[u8; 16])| {
            let zones_lost = self.drives[drive].zones_lost;
            Member { uuid: *uuid, standing: standing(drive), zones_lost }
        };
        let members: Vec<Member> = uuids.map(member).collect();
        let all = |wanted: Standing| -> BTreeSet<usize> {
            (0..members.len()).filter(|drive| members[*drive].standing == wanted).collect()
        };
        let (joining, others) = (all(Standing::Joined), all(Standing::Member));
        assert!(others.len() >= self.membership.quorum, "a record that cannot count is not made");
        let superblock = Superblock {
            cache: self.identity.cache,
            secret: self.identity.secret,
            generation: self.membership.generation,
            epoch: self.identity.epoch,
            wall: self.clocks.wall,
            quorum: u8::try_from(self.membership.quorum).expect("at most 32 members"),
            members,
            clears: self.clears,
            mark,
        };
        let (waiting, others) = if joining.is_empty() { (others, joining) } else { (joining, others) };
        self.membership.job = Some(Job { version: self.membership.version, superblock, waiting, others });
        self.write_record(effects);
    }

    /// Has the record written by those that are waited for.
    fn write_record(&mut self, effects: &mut Effects) {
        let job = self.membership.job.as_ref().expect("one is being made");
        for drive in job.waiting.clone() {
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
        let superblock = &self.membership.job.as_ref().expect("a record is being made").superblock;
        superblock.encode(drive, &mut frame.data);
        let capacity = self.drives[drive].capacity;
        let log = &mut self.drives[drive].log;
        let (zone, offset) = (log.zone, log.end);
        assert!(offset < capacity, "the log of superblocks has room: {offset} of {capacity}");
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

    /// Goes on with the record that is being made, when those have written it that are waited for; the operations that waited for it.
    fn go_on_recording(&mut self, effects: &mut Effects) -> Vec<u32> {
        let Some(mut job) = self.membership.job.take_if(|job| job.waiting.is_empty()) else {
            return Vec::new();
        };
        let joins =
            |(member, drive): (&Member, &super::Drive)| member.standing == Standing::Joined && !drive.up;
        if !job.others.is_empty() {
            // One that joins and has failed does not know itself to be a member: the others hear nothing of it.
            if !job.superblock.members.iter().zip(&self.drives).any(joins) {
                job.waiting = std::mem::take(&mut job.others);
                self.membership.job = Some(job);
                self.write_record(effects);
            }
            return Vec::new();
        }
        let Membership { settled, version, .. } = self.membership;
        assert!(
            settled < job.version && job.version <= version,
            "records settle in the order of their versions"
        );
        self.membership.settled = job.version;
        self.membership.voters = job.superblock.members.iter().map(Member::is_in_use).collect();
        self.membership.quorum = job.superblock.in_use().div_ceil(2);
        let settled = self.membership.settled;
        let waiters = std::mem::take(&mut self.membership.waiters);
        let mut ready = Vec::new();
        for (version, operation) in waiters {
            if version <= settled {
                ready.push(operation);
            } else {
                self.membership.waiters.push((version, operation));
            }
        }
        ready
    }
}

impl Shard {
    /// Ends a record that all have written, and begins the next.
    pub(super) fn settle(&mut self, effects: &mut Effects) {
        if self.core.membership.frozen {
            return;
        }
        // A record that others have written settles who has a say in the next one.
        let can_go_on = self.core.can_record_without(usize::MAX) && {
            for operation in self.core.go_on_recording(effects) {
                self.desk.advance(&self.core, operation, effects);
            }
            self.core.can_record_without(usize::MAX)
        };
        if !can_go_on {
            self.core.membership.frozen = true;
            return self.refuse_all(effects);
        }
        // A drive that begins empty is empty before a record calls it a member.
        let may_record = self.core.membership.has_recorded() || !self.core.waits_for_resets();
        if self.core.membership.job.is_none() && !self.core.membership.is_settled() && may_record {
            self.core.record(self.entries.sharing.mark, effects);
        }
    }

    /// A drive failed: it is left out, and what was on its way to it waits until that is recorded.
    pub(super) fn fail_drive(&mut self, drive: usize) {
        if !self.core.drives[drive].up {
            return;
        }
        self.core.drives[drive].up = false;
        self.core.drives[drive].open = super::OpenZones::default();
        self.core.drives[drive].collection = None;
        self.core.counters.drives_failed += 1;
        let version = self.core.membership.change();
        self.core.membership.recorded_by(drive);
        let journal = std::mem::take(&mut self.core.drives[drive].journal);
        if let Some(log) = &mut self.entries.sharing.log {
            let all = journal.flight.iter().chain(&journal.pending);
            log.lose(version, all.filter_map(|pending| pending.shared).collect());
        }
        for pending in journal.flight.into_iter().chain(journal.pending) {
            let waiters = self.entries.on_their_way.remove(&(pending.ident, pending.number));
            for waiter in waiters.into_iter().flatten() {
                self.core.membership.waiters.push((version, waiter));
            }
        }
        let mut losers = self.desk.give_up_unflushed(drive);
        for batch in std::mem::take(&mut self.core.drives[drive].batches) {
            for number in batch.records {
                let lost = self.objects.buffer.land(number);
                if lost.alive {
                    losers.extend(self.desk.waiter_of(&self.core, lost.hash, &lost.key));
                }
            }
            self.core.frames.extend(batch.frames);
        }
        // What they stored is lost with the drive, like all that it held.
        self.core.membership.waiters.extend(losers.into_iter().map(|waiter| (version, waiter)));
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
