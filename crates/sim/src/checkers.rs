//! What must hold when everything is at rest.

use crate::drive::Drive;
use crate::engine::Array;
use crate::world::{Failure, World};
use array::log::check::{Problem, check};
use array::log::scrub::{ScrubState, ScrubStatus};
use array::log::status::Health;
use array::log::{Compared, Shard, compare_checkpoint, mount_read_only};
use base::units::{DriveIndex, ZoneIndex};
use drive::emulated::EmulatedDrive;
use zone::device::ZonedDevice;
use zone::drives::DriveSet;
use zone::format::superblock::MemberState;

impl World {
    /// Everything comes to rest, and is checked.
    pub(crate) fn idle(&mut self) -> Result<(), Failure> {
        self.come_to_rest()?;
        if self.is_dark() {
            return Ok(());
        }
        self.tally.checks += 1;
        if let Array::Raizn(..) = self.array {
            return self.check_baseline();
        }
        self.check_rebuilt()?;
        self.engine().check_invariants();
        self.check_members()?;
        self.check_zones()?;
        let is_repaired = self.is_repaired();
        let has_problems = self.check_media(is_repaired)?;
        self.check_checkpoint()?;
        // What is left, such as zones without a header, is nobody's to repair.
        if is_repaired && !has_problems {
            self.ledger.heal();
        }
        Ok(())
    }

    /// Every request is answered, and the engine has nothing left to do.
    pub(crate) fn come_to_rest(&mut self) -> Result<(), Failure> {
        self.drain()?;
        let since = self.now;
        while !self.is_dark() && !self.engine().is_quiet() {
            if !self.advance()? && !self.is_dark() {
                return Err(self.stuck("the engine never comes to rest: nothing is due"));
            }
            if self.is_over(since) {
                return Err(self.stuck("the engine never comes to rest"));
            }
        }
        Ok(())
    }

    /// A scrub has repaired everything, and nothing broke since.
    fn is_repaired(&mut self) -> bool {
        let status = self.volume().log().and_then(|volume| volume.engine.scrub_status());
        let is_done = |status: ScrubStatus| {
            let left = status.segments_left + status.findings.descriptions_left;
            status.state == ScrubState::Done && left == 0
        };
        self.scrubbed && self.ledger.is_tolerable() && status.is_some_and(is_done)
    }

    /// A rebuild is over when all is at rest, unless it cannot be done; a member that was rebuilt counts again.
    fn check_rebuilt(&mut self) -> Result<(), Failure> {
        let Some(volume) = self.volume().log() else { return Ok(()) };
        let status = volume.engine.status();
        if let Health::Rebuilding { .. } = status.health
            && self.ledger.is_tolerable()
        {
            return Err(self.stuck("everything is at rest, and a member is not rebuilt"));
        }
        for member in std::mem::take(&mut self.replaced) {
            match status.members[member] {
                MemberState::Active => {
                    self.ledger.forgive(member);
                    self.ledger.count("rebuilds finished", 1);
                }
                MemberState::Rebuilding => _ = self.replaced.insert(member),
                MemberState::Failed => {}
            }
        }
        Ok(())
    }

    /// Nobody is out whom no fault has touched.
    fn check_members(&mut self) -> Result<(), Failure> {
        let members = self.engine().members();
        for (member, state) in members.iter().enumerate() {
            if *state == MemberState::Failed && !self.ledger.is_blamed(member) {
                return Err(Failure::new(format!("member {member} was failed without cause")));
            }
        }
        Ok(())
    }

    /// The engine's account of zones is that of the drives.
    fn check_zones(&mut self) -> Result<(), Failure> {
        let zones = self.array.geometry().zones;
        for member in 0..self.plan.members {
            let states: Vec<zone::rules::Zone> = {
                let rack = self.rack.lock();
                let drive = &rack.drives[self.drive_of[member]];
                (0..zones).map(|zone| drive.media().zone(ZoneIndex(zone))).collect()
            };
            let judged = self.ledger.has_all_zones(member);
            if let Some(what) = self.engine().audit_zones(DriveIndex::at(member), &states)
                && judged
            {
                return Err(Failure::new(format!("drive {member}: {what}")));
            }
        }
        Ok(())
    }

    /// Every checksum, every parity, the index: as `zoneweave check`. True when that finds a problem that may be.
    fn check_media(&mut self, is_repaired: bool) -> Result<bool, Failure> {
        let (shard, mut drives, report) = match mount_read_only(self.copies(), self.now) {
            Ok(mounted) => mounted,
            Err(_) if !self.ledger.is_tolerable() => return Ok(true),
            Err(error) => return Err(Failure::new(format!("an array at rest does not mount: {error}"))),
        };
        self.check_index(&shard, &mut drives)?;
        let report = check(&shard, &mut drives, &report, self.now, |_| {});
        let served = self.engine().members();
        for problem in &report.problems {
            if !self.may_be(problem) || is_repaired && is_damage(problem, &served) {
                return Err(Failure::new(format!("check finds {problem:?}")));
            }
        }
        Ok(report.problems_count > 0)
    }

    /// An index of which only some is in memory says what a fresh mount finds.
    fn check_index(&mut self, fresh: &Shard, drives: &mut DriveSet) -> Result<(), Failure> {
        let blamed = (0..self.plan.members).any(|member| self.ledger.is_blamed(member));
        let now = self.now;
        let Some(volume) = self.volume().log() else { return Ok(()) };
        let shard = &volume.engine;
        if blamed || !shard.is_off_loading() {
            return Ok(());
        }
        let differences = shard.audit_index(fresh, drives, now);
        self.ledger.count("indexes compared", 1);
        match differences.is_empty() {
            true => Ok(()),
            false => {
                Err(Failure::new(format!("the index, and that of a fresh mount: {}", differences.join("; "))))
            }
        }
    }

    /// A mount that uses the checkpoint and summaries finds what one finds that reads everything; and where the engine has one and no
    /// drive is to blame for anything, it can be used.
    fn check_checkpoint(&mut self) -> Result<(), Failure> {
        if !self.ledger.is_tolerable() {
            return Ok(());
        }
        let compared = compare_checkpoint(self.copies(), self.plan.tuning(), self.now);
        let compared =
            compared.map_err(|error| Failure::new(format!("an array at rest does not mount: {error}")))?;
        let blamed = (0..self.plan.members).any(|member| self.ledger.is_blamed(member));
        let Compared { uses_checkpoint, uses_summaries, differences } = compared;
        if !differences.is_empty() {
            let differences = differences.join("; ");
            return Err(Failure::new(format!(
                "with the checkpoint or summaries, and without: {differences}"
            )));
        }
        if !uses_checkpoint && !blamed && self.has_checkpoint() {
            return Err(Failure::new("a mount cannot use the checkpoint"));
        }
        self.ledger.count("checkpoints compared", u64::from(uses_checkpoint));
        self.ledger.count("summaries compared", u64::from(uses_summaries));
        Ok(())
    }

    fn has_checkpoint(&mut self) -> bool {
        self.volume().log().is_some_and(|volume| volume.engine.has_checkpoint())
    }

    /// Copies of the drives that are plugged in.
    pub(crate) fn copies(&self) -> Vec<Option<Box<dyn ZonedDevice>>> {
        let rack = self.rack.lock();
        self.places.iter().map(|place| place.and_then(|drive| copy_of(&rack.drives[drive]))).collect()
    }

    /// True when a problem follows from the faults there were.
    fn may_be(&self, problem: &Problem) -> bool {
        if !self.ledger.is_tolerable() {
            return true;
        }
        match problem {
            Problem::ParityMismatch { .. } | Problem::BlockLost { .. } => false,
            // Less than a stripe is left, but everything can be read: nothing points there any more.
            Problem::BlockDamaged { rebuildable: false, .. } => true,
            Problem::MemberMissing { drive }
            | Problem::MemberRebuilding { drive }
            | Problem::BlockDamaged { drive, .. }
            | Problem::IndexMismatch { drive, .. }
            | Problem::RecordDamaged { drive, .. }
            | Problem::ZoneOrphaned { drive, .. } => self.ledger.is_blamed(drive.index()),
        }
    }
}

/// True for what a scrub repairs, a member that counts and would be left out by the next mount among it.
fn is_damage(problem: &Problem, served: &[MemberState]) -> bool {
    match problem {
        Problem::MemberMissing { drive } => served[drive.index()] == MemberState::Active,
        Problem::RecordDamaged { .. }
        | Problem::BlockDamaged { .. }
        | Problem::IndexMismatch { .. }
        | Problem::ParityMismatch { .. } => true,
        Problem::MemberRebuilding { .. } | Problem::BlockLost { .. } | Problem::ZoneOrphaned { .. } => false,
    }
}

/// A drive that holds the same and breaks no further: what cannot be read there cannot be read here.
fn copy_of(drive: &Drive) -> Option<Box<dyn ZonedDevice>> {
    let media = drive.media().heap_snapshot().filter(|_| !drive.is_dead())?;
    let mut copy = EmulatedDrive::from_heap(media).expect("media of a drive");
    for (zone, offset) in &drive.faults.unreadable {
        copy.fail_reads(ZoneIndex(*zone), *offset);
    }
    Some(Box::new(copy))
}
