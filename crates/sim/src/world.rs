//! The world of a run, and the steps it takes.
//!
//! ```text
//!   world      takes steps: who is asked, what breaks
//!   operator, re_add    acts of an operator            checkers    what must hold at rest
//!   outage     power goes and comes, mounts
//!   rival      another server takes the drives
//!   baseline   what is particular to the other engine
//!   bays       which drive is where                    replug      drives unplugged, exchanged, replaced
//!   service    engine, clients, drives and time        requests    what clients ask
//!   clients, oracle, ledger, rack
//! ```
//! A file uses those below it only.

use crate::apart::Aparts;
use crate::bays::{Bays, uuid};
use crate::checkers::check_at_rest;
use crate::drive::Drive;
use crate::engine::Array;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::power::{Blow, Power};
use crate::rack::{Rack, SharedRack};
use crate::rival::goes_on_beside_another;
use crate::rollback::Rollbacks;
use crate::service::Service;
use crate::step::{Damage, Scope, Step};
pub use crate::tally::{Failure, Tally};
use crate::trace::{Keep, Trace};
use array::log::ReAdd;
use base::time::{Instant, Nanos};
use zone::drives::DriveSet;

/// The world of a run.
pub struct World {
    pub(crate) service: Service,
    pub(crate) bays: Bays,
    /// The member whose drive the mount under way is to take in again.
    pub(crate) re_adding: Option<ReAdd>,
    /// The array cannot be mounted any more, and may say so.
    pub(crate) refused: bool,
}

impl World {
    /// A new array on new drives, not mounted yet.
    ///
    /// # Errors
    /// When the plan is impossible or the array cannot be made.
    pub fn new(plan: &Plan, keep: Keep) -> Result<World, Failure> {
        let array = plan.array().ok_or_else(|| Failure::new("the plan is impossible"))?;
        let geometry = array.geometry();
        let drives =
            (0..plan.members).map(|member| Drive::new(plan, geometry, uuid(member), member)).collect();
        let power = Power::in_recovery();
        let rack = SharedRack::new(Rack { drives, power, trace: Trace::new(keep), rival: None });
        let rack = rack.with_patience(Nanos(plan.patience_ms * 1_000_000), Nanos(plan.limit_ms * 1_000_000));
        let devices = (0..plan.members).map(|member| Some(rack.device(member))).collect();
        let members: Vec<[u8; 16]> = (0..plan.members).map(uuid).collect();
        assert!(
            members.iter().collect::<std::collections::BTreeSet<_>>().len() == plan.members,
            "drives differ"
        );
        array
            .format(&mut DriveSet::new(devices), &members)
            .map_err(|error| Failure::new(format!("a new array cannot be made: {error}")))?;
        let keeps_order = !matches!(array, Array::Log(_));
        Ok(World {
            service: Service::new(plan, array, rack),
            bays: Bays::new(plan.members, keeps_order),
            re_adding: None,
            refused: false,
        })
    }

    /// Prepares for the steps of a run: some need to know of earlier moments.
    pub fn expect(&mut self, steps: &[Step]) {
        self.bays.rollbacks = Rollbacks::of(steps);
        self.bays.aparts = Aparts::of(steps);
    }

    /// Takes a step.
    ///
    /// # Errors
    /// What the engine did wrong.
    pub fn step(&mut self, step: &Step) -> Result<(), Failure> {
        self.service.rack.lock().trace.note(self.service.now, step);
        self.bays.rollbacks.take(
            &self.bays.drive_of,
            &self.service.rack.lock().drives,
            self.service.tally.mounts,
        );
        self.bays.aparts.take(&self.bays.drive_of, &self.service.rack.lock().drives);
        if self.refused {
            return Ok(());
        }
        match *step {
            _ if self.service.is_taken && !self.service.is_dark() && !goes_on_beside_another(step) => {}
            Step::Idle if self.service.is_taken => self.service.drain()?,
            Step::Rival { blocks, seed } => self.rival(blocks, seed)?,
            Step::Crash { at: None } => self.power_off(),
            Step::Crash { at: Some(at) } => {
                self.ready()?;
                self.service.rack.lock().power.arm(at, None, Blow::PowerOff);
            }
            Step::Kill => self.kill(),
            Step::Mount { cut } => self.mount(cut)?,
            Step::ReAdd { member, cut } => {
                self.ready()?;
                self.re_add(member, cut)?;
            }
            Step::Lose { .. }
            | Step::Away { .. }
            | Step::Back { .. }
            | Step::Blank { .. }
            | Step::Foreign { .. }
            | Step::Exchange { .. }
            | Step::AreaDrop { .. }
            | Step::Rollback { .. }
            | Step::Apart { .. } => {
                self.power_off();
                self.bays.replug(step, &mut self.service);
            }
            Step::Hiccup { member, ms, manner } => self.hiccup(member, ms, manner),
            // Who hangs while it is away is away for longer.
            Step::Hang { member, .. } if self.service.plan.patience_ms > 0 && self.is_missed(member) => {}
            Step::Die { .. }
            | Step::Hang { .. }
            | Step::Fail { .. }
            | Step::Rot(_)
            | Step::Unreadable(_)
            | Step::Misread { .. }
            | Step::MisreadAt { .. }
            | Step::Stale { .. }
            | Step::Miswrite { .. }
            | Step::WriteFault { .. }
            | Step::Zone { .. }
            | Step::AreaTake { .. }
            | Step::Shrink { .. } => self.break_something(step)?,
            Step::AreaRefuse { member, count } => self.refuse_areas(member, count),
            // Until the power is back, clients have nobody to talk to.
            _ if self.service.is_dark() => {}
            Step::Write { lba, blocks, fua } => self.service.write(lba, blocks, fua)?,
            Step::Read { lba, blocks } => self.service.read(lba, blocks)?,
            Step::Trim { lba, blocks, fua } => self.service.trim(lba, blocks, fua)?,
            Step::Flush => self.service.flush()?,
            Step::Run { events } => self.service.run_events(events)?,
            Step::Replace { member } => self.replace(member)?,
            Step::Scrub { repair } => self.scrub(repair)?,
            Step::ScrubStop => self.stop_scrub()?,
            Step::Restart => self.restart()?,
            Step::Rates { kib } => self.set_rates(kib)?,
            // Time in which nobody looks counts for a drive that is away, up to a second each time.
            Step::Stall { .. } if self.service.volume().clients_view().awaits_drive() => {}
            Step::Stall { us } => self.service.now = Instant(self.service.now.0 + us * 1_000),
            Step::Idle => check_at_rest(&mut self.service, &mut self.bays)?,
            Step::Verify => self.service.verify()?,
        }
        Ok(())
    }

    /// The end of every run: faults stop, everything comes to rest, is checked and read, and once more
    /// after a last loss of power.
    ///
    /// # Errors
    /// What the engine did wrong.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.service.rack.lock().power = Power::default();
        for step in [Step::Idle, Step::Verify, Step::Mount { cut: None }, Step::Idle, Step::Verify] {
            if self.service.is_dark() {
                self.step(&Step::Mount { cut: None })?;
            }
            self.step(&step)?;
        }
        self.service.tally.virtual_ns = self.service.now.0;
        assert!(
            self.service.is_dark() || self.service.clients.waiting() == 0,
            "every request is answered at the end"
        );
        Ok(())
    }

    /// Mounts if the array has never been.
    fn ready(&mut self) -> Result<(), Failure> {
        if self.service.volume.is_none() && self.service.tally.mounts == 0 {
            self.mount(None)
        } else {
            Ok(())
        }
    }

    /// Returns the counts of what the run did.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.service.tally
    }

    /// Faults injected.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.service.ledger
    }

    /// The rack.
    #[must_use]
    pub fn rack(&self) -> &SharedRack {
        &self.service.rack
    }

    /// A drive breaks.
    /// A drive refuses areas, which costs it nothing: zones are written without.
    fn refuse_areas(&mut self, member: usize, count: u32) {
        if member < self.service.plan.members {
            let drive = self.bays.drive_of[member];
            self.service.rack.lock().drives[drive].faults.areas_refused += count;
            self.service.ledger.count("random write areas refused", u64::from(count));
        }
    }

    fn break_something(&mut self, step: &Step) -> Result<(), Failure> {
        let Some(member) = step.member().filter(|member| *member < self.service.plan.members) else {
            return Ok(());
        };
        // What breaks after it was replaced is to blame again.
        self.bays.replaced.remove(&member);
        self.service.ledger.end_scrub();
        if step.spoils_media() {
            self.bays.spoilt.insert(member);
        }
        let layout = self.service.array.layout();
        let fault = {
            let Rack { drives, power, trace, .. } = &mut *self.service.rack.lock();
            drives[self.bays.drive_of[member]].suffer(step, self.service.now, &layout, power, trace)
        };
        assert!(!fault.is_empty(), "a fault has a name");
        match *step {
            Step::Fail { .. } => return self.fail_member(member),
            // A drive that hangs loses nothing, and nobody may lose patience.
            Step::Hang { ms, .. } => {
                self.service.hangs_until =
                    self.service.hangs_until.max(Instant(self.service.now.0 + ms * 1_000_000));
                self.service.ledger.count(fault, 1);
            }
            // A zone that shrinks is given up, and its drive goes on.
            Step::Shrink { .. } => self.service.ledger.cost_zone(member, fault),
            Step::WriteFault { .. } => self.service.ledger.blame_refusal(member, fault),
            Step::Rot(Damage { scope, .. }) | Step::Unreadable(Damage { scope, .. })
                if scope != Scope::Superblocks =>
            {
                self.service.ledger.blame_damage(member, fault);
            }
            _ => self.service.ledger.blame(member, fault),
        }
        Ok(())
    }
}
