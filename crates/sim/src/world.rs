//! The world of a run: the engine, its clients, the rack of drives, and time.
//!
//! `world` takes the steps and lets time go by; `clients` asks and holds the answers against the
//! oracle; `outage` turns the power off and on; `checkers` look at everything when all is at rest.

use crate::drive::Drive;
use crate::engine::{Array, Volume};
use crate::ledger::Ledger;
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::power::{Blow, Power};
use crate::rack::{Rack, SharedRack};
use crate::re_add::spoils_media;
use crate::rollback::Rollbacks;
use crate::step::{Damage, Scope, Step};
use crate::trace::{Keep, Trace};
use array::engine::Engine;
use array::log::scrub::ScrubOptions;
use base::time::Instant;
use base::units::DriveIndex;
use std::collections::{BTreeMap, BTreeSet};
use zone::drives::DriveSet;

use crate::clients::Pending;

/// Turns at one instant before it counts as a live-lock.
const TURNS_AT_ONCE_MAX: u32 = 10_000;
/// Virtual time a request may take, beyond what drives hang.
pub(crate) const PATIENCE_NS: u64 = 120_000_000_000;

/// A failure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub what: String,
    /// The block concerned, if it is one.
    pub lba: Option<u64>,
}

impl Failure {
    /// Something that concerns no single block.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), lba: None }
    }

    /// Something that concerns a block.
    pub fn at(lba: u64, what: impl Into<String>) -> Failure {
        Failure { what: what.into(), lba: Some(lba) }
    }
}

/// Counts of what a run did.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests answered.
    pub requests: u64,
    /// Blocks whose contents were held against the oracle.
    pub blocks_verified: u64,
    /// Requests that failed, as they may when too much is broken.
    pub requests_failed: u64,
    /// Times the power failed.
    pub power_failures: u64,
    /// Mounts that succeeded.
    pub mounts: u64,
    /// Checks of everything at rest.
    pub checks: u64,
    /// Virtual time that went by, in nanoseconds.
    pub virtual_ns: u64,
}

/// The world of a run.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) array: Array,
    pub(crate) rack: SharedRack,
    /// Drive in each place of the list that is mounted; `None` where none is plugged in.
    pub(crate) places: Vec<Option<usize>>,
    /// The drive of each member.
    pub(crate) drive_of: Vec<usize>,
    /// Members whose drive is new and not known to hold everything.
    pub(crate) replaced: BTreeSet<usize>,
    /// A scrub with repair began when all was at rest, and nothing broke since: no damage may be left.
    pub(crate) scrubbed: bool,
    /// Members that are not plugged in and may come back.
    pub(crate) away: BTreeSet<usize>,
    /// Members whose drive was replaced by an empty one.
    pub(crate) blank: BTreeSet<usize>,
    /// Drive that each member of the baseline had before it was replaced.
    pub(crate) shelf: BTreeMap<usize, usize>,
    /// Drives that go back to earlier moments.
    pub(crate) rollbacks: Rollbacks,
    /// Members whose drive is as it was before the last mount: older copies of themselves.
    pub(crate) outdated: BTreeSet<usize>,
    /// Members whose media were damaged since their drive was new.
    pub(crate) spoilt: BTreeSet<usize>,
    /// The member whose drive the mount under way is to take in again.
    pub(crate) re_adding: Option<usize>,
    /// Places with a drive of another array.
    pub(crate) foreign: BTreeMap<usize, Option<usize>>,
    /// The engine, while the power is on.
    pub(crate) volume: Option<Volume>,
    pub(crate) oracle: Oracle,
    pub(crate) ledger: Ledger,
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) next_id: u64,
    pub(crate) now: Instant,
    /// Drives hang at most until then.
    pub(crate) hangs_until: Instant,
    /// The array cannot be mounted any more, and may say so.
    pub(crate) refused: bool,
    pub(crate) tally: Tally,
}

pub(crate) fn uuid(member: usize) -> [u8; 16] {
    [u8::try_from(member + 1).expect("at most 32 members"); 16]
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
        let rack = SharedRack::new(Rack { drives, power, trace: Trace::new(keep) });
        let devices = (0..plan.members).map(|member| Some(rack.device(member))).collect();
        let members: Vec<[u8; 16]> = (0..plan.members).map(uuid).collect();
        array
            .format(&mut DriveSet::new(devices), &members)
            .map_err(|error| Failure::new(format!("a new array cannot be made: {error}")))?;
        let blocks = usize::try_from(array.volume_blocks()).expect("a small volume");
        Ok(World {
            oracle: Oracle::new(blocks, !plan.volatile_cache),
            ledger: Ledger::new(array.code()),
            plan: plan.clone(),
            array,
            rack,
            places: (0..plan.members).map(Some).collect(),
            drive_of: (0..plan.members).collect(),
            replaced: BTreeSet::new(),
            scrubbed: false,
            away: BTreeSet::new(),
            blank: BTreeSet::new(),
            shelf: BTreeMap::new(),
            rollbacks: Rollbacks::default(),
            outdated: BTreeSet::new(),
            spoilt: BTreeSet::new(),
            re_adding: None,
            foreign: BTreeMap::new(),
            volume: None,
            pending: BTreeMap::new(),
            next_id: 0,
            now: Instant(0),
            hangs_until: Instant(0),
            refused: false,
            tally: Tally::default(),
        })
    }

    /// Prepares for the steps of a run: some need to know of earlier moments.
    pub fn expect(&mut self, steps: &[Step]) {
        self.rollbacks = Rollbacks::of(steps);
    }

    /// Takes a step.
    ///
    /// # Errors
    /// What the engine did wrong.
    pub fn step(&mut self, step: &Step) -> Result<(), Failure> {
        self.rack.lock().trace.note(self.now, step);
        self.rollbacks.take(&self.drive_of, &self.rack.lock().drives, self.tally.mounts);
        if self.refused {
            return Ok(());
        }
        match *step {
            Step::Crash { at: None } => self.power_off(),
            Step::Crash { at: Some(at) } => {
                self.ready()?;
                self.rack.lock().power.arm(at, None, Blow::PowerOff);
            }
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
            | Step::Rollback { .. } => {
                self.power_off();
                self.replug(step);
            }
            Step::Die { .. }
            | Step::Hang { .. }
            | Step::Fail { .. }
            | Step::Rot(_)
            | Step::Unreadable(_)
            | Step::Misread { .. }
            | Step::Stale { .. }
            | Step::Miswrite { .. }
            | Step::WriteFault { .. }
            | Step::Zone { .. }
            | Step::Shrink { .. } => self.break_something(step)?,
            // Until the power is back, clients have nobody to talk to.
            _ if self.is_dark() => {}
            Step::Write { lba, blocks, fua } => self.write(lba, blocks, fua)?,
            Step::Read { lba, blocks } => self.read(lba, blocks)?,
            Step::Trim { lba, blocks, fua } => self.trim(lba, blocks, fua)?,
            Step::Flush => self.flush()?,
            Step::Run { events } => self.run_events(events)?,
            Step::Replace { member } => self.replace(member)?,
            Step::Scrub { repair } => self.scrub(repair)?,
            Step::ScrubStop => self.stop_scrub()?,
            Step::Restart => self.restart()?,
            Step::Rates { kib } => self.set_rates(kib)?,
            Step::Stall { us } => self.now = Instant(self.now.0 + us * 1_000),
            Step::Idle => self.idle()?,
            Step::Verify => self.verify()?,
        }
        Ok(())
    }

    /// The end of every run: faults stop, everything comes to rest, is checked and read, and once more
    /// after a last loss of power.
    ///
    /// # Errors
    /// What the engine did wrong.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.rack.lock().power = Power::default();
        for step in [Step::Idle, Step::Verify, Step::Mount { cut: None }, Step::Idle, Step::Verify] {
            if self.is_dark() {
                self.step(&Step::Mount { cut: None })?;
            }
            self.step(&step)?;
        }
        self.tally.virtual_ns = self.now.0;
        Ok(())
    }

    /// The power is off, or about to be noticed to be.
    pub(crate) fn is_dark(&self) -> bool {
        self.volume.is_none() || self.rack.lock().power.is_off()
    }

    /// Mounts if the array has never been.
    fn ready(&mut self) -> Result<(), Failure> {
        if self.volume.is_none() && self.tally.mounts == 0 { self.mount(None) } else { Ok(()) }
    }

    /// The engine; only asked for while the power is on.
    pub(crate) fn volume(&mut self) -> &mut Volume {
        self.volume.as_mut().expect("the power is on")
    }

    /// The engine of the volume; only asked for while the power is on.
    pub(crate) fn engine(&mut self) -> &dyn Engine {
        self.volume().engine()
    }

    /// Nothing moves though it should.
    pub(crate) fn stuck(&self, what: &str) -> Failure {
        let state = self.volume.as_ref().map(|volume| volume.engine().describe()).unwrap_or_default();
        Failure::new(format!("{what}; {state}"))
    }

    fn run_events(&mut self, events: u64) -> Result<(), Failure> {
        for _ in 0..events {
            if !self.advance()? {
                break;
            }
        }
        Ok(())
    }

    /// Goes to the next event. False when there is none, or the power has failed.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        if self.is_dark() {
            return Ok(false);
        }
        let Some(next) = self.volume().clients_view().next_deadline() else { return Ok(false) };
        self.now = self.now.max(next);
        self.turn()?;
        Ok(true)
    }

    /// Everything that happens at this instant.
    pub(crate) fn turn(&mut self) -> Result<(), Failure> {
        let now = self.now;
        for _ in 0..TURNS_AT_ONCE_MAX {
            let mut replies = Vec::new();
            let more = self.volume().clients_view().turn(now, &mut replies);
            for reply in replies {
                self.on_reply(reply)?;
            }
            if self.is_dark() {
                return Ok(());
            }
            if !more {
                let overdue = self.engine().overdue(now);
                return overdue.map_or(Ok(()), |what| Err(Failure::new(what)));
            }
        }
        Err(Failure::new("live-lock: the engine is busy for ever at one instant"))
    }

    /// A drive breaks.
    fn break_something(&mut self, step: &Step) -> Result<(), Failure> {
        let Some(member) = step.member().filter(|member| *member < self.plan.members) else { return Ok(()) };
        // What breaks after it was replaced is to blame again.
        self.replaced.remove(&member);
        self.scrubbed = false;
        if spoils_media(step) {
            self.spoilt.insert(member);
        }
        let layout = self.array.layout();
        let fault = {
            let Rack { drives, power, trace } = &mut *self.rack.lock();
            drives[self.drive_of[member]].suffer(step, self.now, &layout, power, trace)
        };
        match *step {
            Step::Fail { .. } => return self.fail_member(member),
            // A drive that hangs loses nothing, and nobody may lose patience.
            Step::Hang { ms, .. } => {
                self.hangs_until = self.hangs_until.max(Instant(self.now.0 + ms * 1_000_000));
                self.ledger.count(fault, 1);
            }
            // A zone that shrinks is given up, and its drive goes on.
            Step::Shrink { .. } => self.ledger.cost_zone(member, fault),
            Step::Rot(Damage { scope, .. }) | Step::Unreadable(Damage { scope, .. })
                if scope != Scope::Superblocks =>
            {
                self.ledger.blame_damage(member, fault);
            }
            _ => self.ledger.blame(member, fault),
        }
        Ok(())
    }

    /// An operator has everything read; refused while a scrub is running.
    fn scrub(&mut self, repair: bool) -> Result<(), Failure> {
        // All drives are read where a rebuild writes one.
        let rate = Some(self.plan.rebuild_kib_per_second << 13);
        let is_quiet = self.pending.is_empty() && self.engine().is_quiet();
        let Some(volume) = self.volume().log() else { return Ok(()) };
        if volume.start_scrub(ScrubOptions { repair, rate }).is_ok() {
            self.ledger.count("scrubs", 1);
            self.scrubbed = repair && is_quiet && !self.ledger.may_break_later();
        }
        self.turn()
    }

    fn fail_member(&mut self, member: usize) -> Result<(), Failure> {
        if self.is_dark() {
            return Ok(());
        }
        self.ledger.blame(member, "operator fails a drive");
        self.volume().fail_member(DriveIndex::at(member));
        self.turn()
    }

    /// Returns the counts of what the run did.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Faults injected.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The rack.
    #[must_use]
    pub fn rack(&self) -> &SharedRack {
        &self.rack
    }
}
