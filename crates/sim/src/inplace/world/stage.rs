//! What is there: disks by their roles and beside them, the engine that runs on them, and the time.

use super::contents::{Contents, contents};
use super::cores::{Cores, ways};
use super::journal::JournalDisk;
use super::lies::Lies;
use super::replacing::Replacements;
use crate::inplace::disk::DiskHandle;
use crate::inplace::plan::{Plan, Policy};
use crate::world::Failure;
use array::inplace::scrub::ScrubState;
use array::inplace::start::Tuning;
use array::inplace::volume::Ways;
use array::request::{Request, RequestId, RequestOp};
use base::random::Random;
use base::time::Instant;
use block::md::member::{Member, NotAMember};
use std::ops::Range;

/// Frames of the engine: few, so that strips wait for them.
const CLIENT_FRAMES: usize = 700;

/// See the module. It knows nothing of what may be lost.
pub(super) struct Stage {
    pub(super) plan: Plan,
    /// Disks by role.
    pub(super) disks: Vec<DiskHandle>,
    /// Disks that others came in the place of: they are there at the next start, unless they died.
    pub(super) retired: Vec<DiskHandle>,
    /// Disks that are spares, with their names.
    pub(super) spares: Vec<(String, DiskHandle)>,
    /// Disks that are to replace members.
    pub(super) replacements: Replacements,
    pub(super) data_offset: u64,
    pub(super) volume: Option<Cores>,
    pub(super) journal: JournalDisk,
    pub(super) lies: Lies,
    pub(super) random: Random,
    pub(super) now: Instant,
    pub(super) events: u64,
}

impl Stage {
    /// Disks of a new array, on which nothing runs, and the writes that the blocks of the volume come from.
    pub(super) fn new(plan: &Plan) -> Result<(Stage, Vec<u64>), Failure> {
        plan.check();
        let mut random = Random::from_seed(plan.seed ^ 0x0077_0a1d);
        let Contents { members, journal, stamps } = contents(plan, &mut random)?;
        let mut disk = |content| DiskHandle::new(content, plan.is_volatile, plan.latency, random.bits());
        let disks: Vec<DiskHandle> = members.into_iter().map(&mut disk).collect();
        let journal = JournalDisk::new(journal.map(disk));
        assert_eq!(disks.len(), plan.members as usize, "a disk for each member");
        assert_eq!(stamps.len() as u64, plan.blocks(), "a write for each block");
        assert_eq!(
            journal.disk().is_some(),
            matches!(plan.policy, Policy::Journal(_)),
            "a journal is there where the policy is one: {:?}",
            plan.policy
        );
        let stage = Stage {
            plan: plan.clone(),
            disks,
            retired: Vec::new(),
            spares: Vec::new(),
            replacements: Replacements::default(),
            data_offset: plan.data_offset,
            volume: None,
            journal,
            lies: Lies::new(plan),
            random,
            now: Instant(0),
            events: 0,
        };
        Ok((stage, stamps))
    }

    /// No disk has two places, and those that have a role are as many as members.
    pub(super) fn check(&self) {
        assert_eq!(self.disks.len(), self.plan.members as usize, "a disk for each role");
        let others = self.retired.iter().chain(self.journal.disk());
        let all: Vec<&DiskHandle> = self.disks.iter().chain(others).collect();
        for (place, disk) in all.iter().enumerate() {
            let twice = all[..place].iter().position(|other| other.is(disk));
            assert!(twice.is_none(), "a disk is at {twice:?} and at {place} of {} places", all.len());
        }
        for (place, (name, disk)) in self.spares.iter().enumerate() {
            let is_named = |(other, _): &(String, DiskHandle)| other == name;
            assert!(!self.spares[..place].iter().any(is_named), "two spares are named {name}");
            assert!(!self.retired.iter().any(|other| other.is(disk)), "the spare {name} was put away");
        }
    }

    /// Commands of all disks.
    pub(super) fn commands(&self) -> u64 {
        let spares = self.spares.iter().map(|(_, disk)| disk).chain(self.replacements.disks());
        self.disks.iter().chain(&self.retired).chain(spares).map(DiskHandle::commands).sum()
    }

    /// Ways to a disk, for all engines.
    pub(super) fn ways(&self, disk: &DiskHandle) -> Ways {
        ways(disk, self.plan.shards)
    }

    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            client_frames: CLIENT_FRAMES,
            strip_frames: 4096,
            cache_bytes: self.plan.cache_bytes,
            window: self.plan.window,
            began: 1_700_000_000,
            is_read_only: false,
        }
    }

    pub(super) fn volume(&mut self) -> &mut Cores {
        self.volume.as_mut().expect("a started array")
    }

    /// True while a scrub looks at rows.
    pub(super) fn is_scrubbing(&mut self) -> bool {
        self.volume().engine.status().scrub.is_some_and(|scrub| scrub.state == ScrubState::Running)
    }

    pub(super) fn submit(&mut self, id: u64, op: RequestOp) {
        assert!(id > 0, "requests are numbered from one: zero is what the volume began with");
        let now = self.now;
        self.volume().submit(now, Request { id: RequestId(id), op });
    }

    /// Row of a block, by the geometry alone.
    pub(super) fn row_of(&self, lba: u64) -> u64 {
        let chunk = u64::from(self.plan.chunk) / 8;
        let data = self.plan.blocks() / (self.plan.stripes * chunk);
        let row = lba / chunk / data * chunk + lba % chunk;
        assert!(row < self.rows(), "block {lba} lies in row {row} of {}", self.rows());
        row
    }

    pub(super) fn rows(&self) -> u64 {
        self.plan.stripes * u64::from(self.plan.chunk) / 8
    }

    /// Rows of sectors of a disk.
    pub(super) fn rows_of(&self, sector: u64, sectors: u64) -> Range<u64> {
        assert!(sectors > 0, "no sectors at {sector}");
        let start = sector.saturating_sub(self.data_offset) / 8;
        start..(sector + sectors).saturating_sub(self.data_offset).div_ceil(8).min(self.rows())
    }

    /// True with logs or a journal: a dirty array is served without a member.
    pub(super) fn has_logs(&self) -> bool {
        matches!(self.plan.policy, Policy::Ppl(_) | Policy::Journal(_))
    }

    pub(super) fn has_partial_parity(&self) -> bool {
        matches!(self.plan.policy, Policy::Ppl(_))
    }

    /// Members that can be read, and their disks.
    pub(super) fn members_there(&self) -> Result<(Vec<Member>, Vec<DiskHandle>), Failure> {
        let mut found: (Vec<Member>, Vec<DiskHandle>) = (Vec::new(), Vec::new());
        let spares = self.spares.iter().map(|(_, disk)| disk);
        let others = spares.chain(self.journal.disk()).chain(self.replacements.disks());
        let there = |disk: &&DiskHandle| !disk.is_lost();
        for disk in self.lies.in_places(&self.disks).chain(&self.retired).chain(others).filter(there) {
            // One that was to step in as the power failed has a role here, and is a spare by its own account.
            if found.1.iter().any(|other| other.is(disk)) {
                continue;
            }
            match Member::read("disk", disk) {
                Ok(member) => {
                    found.0.push(member);
                    found.1.push(disk.clone());
                }
                // One that came, and was not yet named on the others.
                Err(NotAMember::NoSuperblock) => {}
                Err(error) => return Err(Failure::new(format!("a member cannot be read: {error}"))),
            }
        }
        Ok(found)
    }

    /// A disk has a role now; the one before stays about.
    pub(super) fn install(&mut self, role: usize, disk: DiskHandle) {
        assert!(role < self.disks.len(), "role {role} of {} members", self.disks.len());
        let is_elsewhere = |(other, own): (usize, &DiskHandle)| other != role && own.is(&disk);
        let elsewhere = self.disks.iter().enumerate().find_map(|own| is_elsewhere(own).then_some(own.0));
        assert!(elsewhere.is_none(), "the disk of role {elsewhere:?} gets role {role}");
        if self.disks[role].is(&disk) {
            return;
        }
        self.retired.retain(|other| !other.is(&disk));
        self.spares.retain(|(_, other)| !other.is(&disk));
        let before = std::mem::replace(&mut self.disks[role], disk);
        self.retired.push(before);
    }

    pub(super) fn is_rebuilding(&mut self, member: usize) -> bool {
        let status = self.volume().engine.status();
        status.rebuilding.iter().any(|rebuilding| rebuilding.role.index() == member)
    }
}
