//! What must hold when everything is at rest.

use crate::baseline;
use crate::bays::Bays;
use crate::engine::{Array, Volume};
use crate::rival::TWO_SERVERS;
use crate::service::Service;
use crate::tally::Failure;
use array::engine::Engine as _;
use array::log::check::{Problem, check};
use array::log::scrub::{ScrubState, ScrubStatus};
use array::log::status::Health;
use array::log::turned::LOOK_EVERY;
use array::log::{Compared, Shard, compare_checkpoint, mount_read_only};
use array::request::Volume as _;
use base::time::Nanos;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::ZoneState;
use zone::drives::DriveSet;
use zone::format::superblock::MemberState;

/// Time in which zones that turned have to be found.
const LOOK_WITHIN: Nanos = Nanos(LOOK_EVERY.0 + 2_000_000_000);

/// Everything comes to rest, and is checked.
pub(crate) fn check_at_rest(service: &mut Service, bays: &mut Bays) -> Result<(), Failure> {
    service.come_to_rest()?;
    if service.plan.watches_zones && service.ledger.has_turned_zones() {
        await_look(service)?;
    }
    if service.is_dark() {
        return Ok(());
    }
    service.tally.checks += 1;
    match service.array {
        Array::Raizn(..) | Array::Zraid(_) => baseline::check(service, bays),
        Array::Log(_) => AtRest { service, bays }.check(),
    }
}

/// Lets so much time pass that every drive which is there is asked for zones that turned.
fn await_look(service: &mut Service) -> Result<(), Failure> {
    let mut until = service.now + LOOK_WITHIN;
    while !service.is_dark() && service.now < until {
        if !service.advance()? {
            break;
        }
        if !service.is_dark() && service.volume().clients_view().awaits_drive() {
            until = service.now + LOOK_WITHIN;
        }
    }
    service.come_to_rest()
}

/// An array at rest, and its drives.
struct AtRest<'a> {
    service: &'a mut Service,
    bays: &'a mut Bays,
}

impl AtRest<'_> {
    fn check(&mut self) -> Result<(), Failure> {
        self.check_rebuilt()?;
        self.forgive_refusals();
        self.service.engine().check_invariants();
        self.check_members()?;
        self.check_corrections()?;
        self.check_losses()?;
        self.check_zones()?;
        self.check_turned()?;
        let is_repaired = self.is_repaired();
        let has_problems = self.check_media(is_repaired)?;
        self.check_checkpoint()?;
        // What is left, such as zones without a header, is nobody's to repair.
        if is_repaired && !has_problems {
            self.service.ledger.heal();
        }
        Ok(())
    }

    /// A scrub has repaired everything, and nothing broke since.
    fn is_repaired(&mut self) -> bool {
        let status = self.service.volume().log().and_then(|volume| volume.engine.scrub_status());
        let is_done = |status: ScrubStatus| {
            let left = status.segments_left + status.findings.descriptions_left;
            status.state == ScrubState::Done && left == 0
        };
        self.service.ledger.is_scrubbed() && self.service.ledger.is_tolerable() && status.is_some_and(is_done)
    }

    /// A rebuild is over when all is at rest, unless it cannot be done; a member that was rebuilt counts again.
    fn check_rebuilt(&mut self) -> Result<(), Failure> {
        let Some(volume) = self.service.volume().log() else { return Ok(()) };
        let status = volume.engine.status();
        if let Health::Rebuilding { .. } = status.health
            && self.service.ledger.is_tolerable()
        {
            return Err(self.service.stuck("everything is at rest, and a member is not rebuilt"));
        }
        for member in std::mem::take(&mut self.bays.replaced) {
            match status.members[member] {
                MemberState::Active => {
                    self.service.ledger.forgive(member);
                    self.service.ledger.count("rebuilds finished", 1);
                }
                MemberState::Rebuilding => _ = self.bays.replaced.insert(member),
                MemberState::Failed => {}
            }
        }
        Ok(())
    }

    /// A member that refused writes is as good as new when the engine gave its zones up and moved what they held; so is one whose windows were
    /// gone, when what they had held was moved.
    fn forgive_refusals(&mut self) {
        let Some(volume) = self.service.volume().log() else { return };
        let status = volume.engine.status();
        let armed: Vec<bool> = {
            let rack = self.service.rack.lock();
            (0..status.members.len()).map(|member| rack.power.is_armed(member)).collect()
        };
        let is_over = |member: usize| {
            status.members[member] == MemberState::Active && status.segments_condemned == 0 && !armed[member]
        };
        self.service.ledger.end_refusals(is_over);
        self.service.ledger.end_windows_gone(is_over);
    }

    /// True once another server took the drives of the first.
    fn had_two_servers(&self) -> bool {
        self.service.ledger.counts().contains_key(TWO_SERVERS)
    }

    /// Nobody is out whom no fault has touched.
    fn check_members(&mut self) -> Result<(), Failure> {
        let members = self.service.engine().members();
        assert!(members.len() == self.service.plan.members, "each member has a state");
        for (member, state) in members.iter().enumerate() {
            if *state == MemberState::Failed && !self.service.ledger.is_blamed(member) {
                return Err(Failure::new(format!("member {member} was failed without cause")));
            }
        }
        Ok(())
    }

    /// Nothing is written elsewhere because it was damaged where nothing was: a drive that was away holds what it held.
    fn check_corrections(&mut self) -> Result<(), Failure> {
        let is_alone = !self.had_two_servers();
        let is_whole = self.service.ledger.is_unblemished() && is_alone && self.service.tally.mounts == 1;
        let Some(volume) = self.service.volume().log() else { return Ok(()) };
        let corrected = volume.engine.counters().blocks_corrected;
        if is_whole && corrected > 0 {
            return Err(Failure::new(format!("{corrected} blocks were corrected where none was damaged")));
        }
        Ok(())
    }

    /// Nobody serves on who was away and lost what it had acknowledged. The engine may not have asked it since.
    fn check_losses(&mut self) -> Result<(), Failure> {
        let now = self.service.now;
        let Some(volume) = self.service.volume.as_mut().and_then(Volume::log) else { return Ok(()) };
        for (member, state) in volume.engine.members().into_iter().enumerate() {
            let has_lost = {
                let rack = self.service.rack.lock();
                rack.drives[self.bays.drive_of[member]].has_lost_acknowledged()
            };
            let is_known = volume.awaits_drive()
                || volume
                    .condition(now, DriveIndex::at(member))
                    .is_none_or(|condition| condition.loss.is_some());
            if has_lost && state == MemberState::Active && !is_known {
                return Err(Failure::new(format!(
                    "member {member} lost what it had acknowledged, and serves on"
                )));
            }
        }
        Ok(())
    }

    /// The engine's account of zones is that of the drives.
    fn check_zones(&mut self) -> Result<(), Failure> {
        let zones = self.service.array.geometry().zones;
        for member in 0..self.service.plan.members {
            let states: Vec<zone::rules::Zone> = {
                let rack = self.service.rack.lock();
                let drive = &rack.drives[self.bays.drive_of[member]];
                (0..zones).map(|zone| drive.media().zone(ZoneIndex(zone))).collect()
            };
            let judged = self.service.ledger.has_all_zones(member);
            if let Some(what) = self.service.engine().audit_zones(DriveIndex::at(member), &states)
                && judged
            {
                return Err(Failure::new(format!("drive {member}: {what}")));
            }
        }
        Ok(())
    }

    /// The engine would use no zone that turned by itself before it was asked for such zones.
    fn check_turned(&mut self) -> Result<(), Failure> {
        if !self.service.plan.watches_zones || self.service.is_taken {
            return Ok(());
        }
        let zones = self.service.array.geometry().zones;
        for member in 0..self.service.plan.members {
            let states: Vec<ZoneState> = {
                let rack = self.service.rack.lock();
                let drive = &rack.drives[self.bays.drive_of[member]];
                (0..zones).map(|zone| drive.media().zone(ZoneIndex(zone)).state).collect()
            };
            let Some(volume) = self.service.volume().log() else { return Ok(()) };
            if let Some(zone) = volume.engine.unnoticed_turn(DriveIndex::at(member), &states) {
                let state = states[zone.index()];
                return Err(Failure::new(format!(
                    "drive {member}: zone {zone} is {state:?}, and nobody noticed"
                )));
            }
        }
        Ok(())
    }

    /// Every checksum, every parity, the index: as `zoneweave check`. True when that finds a problem that may be.
    fn check_media(&mut self, is_repaired: bool) -> Result<bool, Failure> {
        let (shard, mut drives, report) =
            match mount_read_only(self.bays.copies(&self.service.rack.lock()), self.service.now) {
                Ok(mounted) => mounted,
                Err(_) if !self.service.ledger.is_tolerable() => return Ok(true),
                Err(error) => return Err(Failure::new(format!("an array at rest does not mount: {error}"))),
            };
        self.check_index(&shard, &mut drives)?;
        assert!(drives.len() == self.service.plan.members, "a copy of each drive, or none");
        let report = check(&shard, &mut drives, &report, self.service.now, |_| {});
        let served = self.service.engine().members();
        assert!(served.len() == self.service.plan.members, "each member has a state");
        for problem in &report.problems {
            if !self.may_be(problem) || is_repaired && is_damage(problem, &served) {
                return Err(Failure::new(format!("check finds {problem:?}")));
            }
        }
        Ok(report.problems_count > 0)
    }

    /// An index of which only some is in memory says what a fresh mount finds.
    fn check_index(&mut self, fresh: &Shard, drives: &mut DriveSet) -> Result<(), Failure> {
        let blamed = (0..self.service.plan.members).any(|member| self.service.ledger.is_blamed(member));
        let now = self.service.now;
        let Some(volume) = self.service.volume().log() else { return Ok(()) };
        let shard = &volume.engine;
        if blamed || !shard.is_off_loading() {
            return Ok(());
        }
        let differences = shard.audit_index(fresh, drives, now);
        self.service.ledger.count("indexes compared", 1);
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
        if !self.service.ledger.is_tolerable() {
            return Ok(());
        }
        let compared = compare_checkpoint(
            self.bays.copies(&self.service.rack.lock()),
            self.service.plan.tuning(),
            self.service.now,
        );
        let compared =
            compared.map_err(|error| Failure::new(format!("an array at rest does not mount: {error}")))?;
        let blamed = (0..self.service.plan.members).any(|member| self.service.ledger.is_blamed(member));
        let Compared { uses_checkpoint, uses_summaries, differences } = compared;
        if !differences.is_empty() {
            let differences = differences.join("; ");
            return Err(Failure::new(format!(
                "with the checkpoint or summaries, and without: {differences}"
            )));
        }
        // Where two servers wrote, sequences tell which block is newer, and images have none.
        if !uses_checkpoint && !blamed && !self.had_two_servers() && self.has_checkpoint() {
            return Err(Failure::new("a mount cannot use the checkpoint"));
        }
        self.service.ledger.count("checkpoints compared", u64::from(uses_checkpoint));
        self.service.ledger.count("summaries compared", u64::from(uses_summaries));
        Ok(())
    }

    fn has_checkpoint(&mut self) -> bool {
        self.service.volume().log().is_some_and(|volume| volume.engine.has_checkpoint())
    }

    /// True when a problem follows from the faults there were.
    fn may_be(&self, problem: &Problem) -> bool {
        if !self.service.ledger.is_tolerable() {
            return true;
        }
        match problem {
            Problem::ParityMismatch { .. } | Problem::BlockLost { .. } => false,
            // Less than a stripe is left, but everything can be read: nothing points there any more.
            Problem::BlockDamaged { rebuildable: false, .. } => true,
            Problem::MemberMissing { drive }
            | Problem::MemberRebuilding { drive }
            | Problem::BlockDamaged { drive, .. }
            | Problem::IndexMismatch { drive, .. } => self.service.ledger.is_blamed(drive.index()),
            Problem::RecordDamaged { drive, .. } | Problem::ZoneOrphaned { drive, .. } => {
                self.service.ledger.is_blamed(drive.index()) || self.had_two_servers()
            }
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
