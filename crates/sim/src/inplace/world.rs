//! World of a run: disks, engine, clients, and what is checked when everything is at rest.

mod blemishes;
mod contents;
mod cores;
mod forcing;
mod journal;
mod lies;
mod locating;
mod logs;
mod members;
mod policies;
mod replacing;
mod returning;
mod spares;
mod takeover;

use super::act::Act;
use super::disk::DiskHandle;
use super::oracle::{Oracle, Reading, fill};
use super::plan::{Plan, Policy};
use crate::acted::Counts;
use crate::world::Failure;
use array::inplace::scribe::Mark;
use array::inplace::scrub::{ScrubRefused, ScrubState, ScrubStatus};
use array::inplace::start::{Tuning, members_of, start_recovered};
use array::inplace::volume::{InPlaceVolume, Ways};
use array::pacer::Rates;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::random::Random;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, Lba};
use blemishes::{Blemish, Blemishes};
use block::device::BlockDevice;
use block::devices::DeviceSet;
use block::md::Role;
use block::md::assembly::{Assembly, judge};
use block::md::geometry::{Geometry, Stripe};
use block::md::member::Member;
use block::md::reader::Reader;
use block::md::recovered::{Recovered, recover};
use block::md::superblock::RoleEntry;
use contents::{Contents, contents, sectors_of, shape_of};
use cores::{Cores, ways};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Frames of the engine: few, so that strips wait for them.
const CLIENT_FRAMES: usize = 700;
/// Events after which a run is stuck.
const EVENTS_MAX: u64 = 300_000;

/// Counts of what a run did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Tally {
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed, as they may.
    pub requests_failed: u64,
    /// Blocks held against the oracle.
    pub blocks_verified: u64,
    /// Power failures.
    pub crashes: u64,
    /// Servers that were killed.
    pub kills: u64,
    /// Starts that succeeded.
    pub starts: u64,
    /// Starts of arrays whose parities were taken for right.
    pub forced: u64,
    /// Starts that were refused, as they must be.
    pub refusals: u64,
    /// Checks of all parities at rest.
    pub checks: u64,
    /// Members that failed.
    pub failures: u64,
    /// Starts that applied a log.
    pub replays: u64,
    /// Blocks that could not be read, for what was in flight as the power failed.
    pub torn: u64,
    /// Members that were rebuilt.
    pub rebuilt: u64,
    /// Members that were replaced while they worked.
    pub replaced: u64,
    /// Spares that took the role of a member.
    pub stepped_in: u64,
    /// Rows of members that were listed as bad.
    pub listed: u64,
    /// Members that came back.
    pub returned: u64,
    /// Starts with members that were not yet rebuilt.
    pub resumed: u64,
    /// Consistency policies that were changed.
    pub policies: u64,
    /// Times that md had the array between two starts.
    pub taken_over: u64,
    /// Scrubs that looked at every row.
    pub scrubs: u64,
    /// Rows in which a write was not done where it was to be.
    pub lied: u64,
    /// Rows that do not match for that, and were counted.
    pub exposed: u64,
    /// Members that hung.
    pub hangs: u64,
    /// Commands of members.
    pub commands: u64,
}

impl Counts for Tally {
    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.requests_failed += other.requests_failed;
        self.blocks_verified += other.blocks_verified;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.starts += other.starts;
        self.forced += other.forced;
        self.refusals += other.refusals;
        self.checks += other.checks;
        self.failures += other.failures;
        self.replays += other.replays;
        self.torn += other.torn;
        self.rebuilt += other.rebuilt;
        self.replaced += other.replaced;
        self.stepped_in += other.stepped_in;
        self.listed += other.listed;
        self.returned += other.returned;
        self.resumed += other.resumed;
        self.policies += other.policies;
        self.taken_over += other.taken_over;
        self.scrubs += other.scrubs;
        self.lied += other.lied;
        self.exposed += other.exposed;
        self.hangs += other.hangs;
        self.commands += other.commands;
    }
}

/// Request under way.
enum Open {
    Read {
        reading: Reading,
        blocks: u64,
        /// Some of them might be lost as it began: it may have met them before a write healed their row.
        may_fail: bool,
    },
    Write {
        lba: u64,
        blocks: u64,
        durable: bool,
    },
    Flush(u64),
}

/// What may be lost, kept apart from what the engine believes.
#[derive(Default)]
struct Doubts {
    /// The array was dirty at the start, and its resync has not ended.
    is_resyncing: bool,
    /// A member went while it was so: blocks not written since may be lost.
    all: bool,
    /// Rows of which the same holds, for a piece could not be read.
    rows: BTreeSet<u64>,
    /// Members that could not return a row, by row.
    spoiled: BTreeMap<u64, BTreeSet<usize>>,
    /// Writes of each block that were done before the start.
    done: Vec<u64>,
    /// Newest events that a member had at the start: one that was an event behind is believed, and stays behind until something is
    /// recorded.
    newest: u64,
    /// Members that had failed when the server was killed, and were believed afterwards: what they say of themselves may be in their
    /// caches alone.
    unrecorded: BTreeSet<usize>,
}

/// See the module.
pub struct World {
    plan: Plan,
    /// Disks by role.
    disks: Vec<DiskHandle>,
    /// Disks that others came in the place of: they are there at the next start, unless they died.
    retired: Vec<DiskHandle>,
    /// Disks that are spares, with their names.
    spares: Vec<(String, DiskHandle)>,
    /// Disks that are to replace members.
    replacements: replacing::Replacements,
    /// Disks that were whole members and went since all were there.
    left: Vec<DiskHandle>,
    data_offset: u64,
    volume: Option<Cores>,
    /// Members that the engine was started without, or that died since, until they are rebuilt.
    gone: BTreeSet<usize>,
    oracle: Oracle,
    doubts: Doubts,
    blemishes: Blemishes,
    lies: lies::Lies,
    open: BTreeMap<u64, Open>,
    next_id: u64,
    now: Instant,
    events: u64,
    random: Random,
    torn: logs::Torn,
    forcing: forcing::Forcing,
    journal: journal::JournalDisk,
    /// With logs, or a journal: superblocks may not say that a resync of the new array is through.
    is_new: bool,
    /// A scrub was begun, and its end not judged.
    has_scrub: bool,
    tally: Tally,
    replies: Vec<Reply>,
}

impl World {
    /// Makes the array and starts it.
    pub fn new(plan: &Plan) -> Result<World, Failure> {
        let mut random = Random::from_seed(plan.seed ^ 0x0077_0a1d);
        let Contents { members, journal, stamps } = contents(plan, &mut random)?;
        let mut disk = |content| DiskHandle::new(content, plan.is_volatile, plan.latency, random.bits());
        let disks: Vec<DiskHandle> = members.into_iter().map(&mut disk).collect();
        let journal = journal::JournalDisk::new(journal.map(disk));
        let mut world = World {
            plan: plan.clone(),
            disks,
            retired: Vec::new(),
            spares: Vec::new(),
            replacements: replacing::Replacements::default(),
            left: Vec::new(),
            data_offset: plan.data_offset,
            volume: None,
            gone: BTreeSet::new(),
            oracle: Oracle::new(&stamps, journal.disk().is_some()),
            doubts: Doubts::default(),
            blemishes: Blemishes::default(),
            lies: lies::Lies::new(plan),
            open: BTreeMap::new(),
            next_id: 1,
            now: Instant(0),
            events: 0,
            random,
            torn: logs::Torn::default(),
            forcing: forcing::Forcing::new(plan),
            journal,
            is_new: !plan.is_clean && matches!(plan.policy, Policy::Ppl(_) | Policy::Journal(_)),
            has_scrub: false,
            tally: Tally::default(),
            replies: Vec::new(),
        };
        world.start()?;
        Ok(world)
    }

    /// Counts of what was done.
    pub fn tally(&self) -> Tally {
        let spares = self.spares.iter().map(|(_, disk)| disk).chain(self.replacements.disks());
        let commands = self.disks.iter().chain(&self.retired).chain(spares).map(DiskHandle::commands).sum();
        Tally { commands, ..self.tally }
    }

    fn is_too_much(&self) -> bool {
        self.gone.len() > self.plan.parities()
    }

    /// True of a member that nobody took out, and that need not be believed.
    fn may_be_missing(&self, role: usize) -> bool {
        self.replacements.may_be_lost(role) || self.doubts.unrecorded.contains(&role)
    }

    /// Starts the engine; false when the array is refused, as promised.
    fn start(&mut self) -> Result<bool, Failure> {
        self.look_at_cut()?;
        let (members, alive) = self.members_there()?;
        // Members that missed writes are believed when nobody is there that knows: as with mdadm.
        let is_lost = |role: usize| self.gone.contains(&role) || self.disks[role].is_lost();
        if (0..self.disks.len()).all(is_lost) {
            return Ok(false);
        }
        let mut arrays = judge(&members);
        let Some(mut assembly) = arrays.pop().filter(|_| arrays.is_empty()) else {
            return Ok(false);
        };
        self.force(&mut assembly);
        let missing: BTreeSet<usize> = assembly.missing.iter().map(|role| role.index()).collect();
        if let Some(role) = missing.difference(&self.gone).find(|role| !self.may_be_missing(**role)) {
            let said = assembly.in_words();
            return Err(Failure::new(format!("member {role} was not lost, and is not believed: {said}")));
        }
        self.look_at_superblocks(&assembly)?;
        let is_clean = assembly.superblock().is_clean();
        let is_volatile = self.plan.is_volatile;
        let media: Vec<&DiskHandle> = alive.iter().collect();
        let recovered = match assembly.can_be_served() {
            true => recover(&assembly, &media).map_err(|error| Failure::new(error.to_string()))?,
            false => Recovered::default(),
        };
        self.tally.replays += u64::from(!recovered.pieces.is_empty());
        if self.journal.may_be_lost() && !assembly.can_be_served() {
            self.tally.refusals += 1;
            return Ok(false);
        }
        let engine = match start_recovered(&assembly, recovered, |_| is_volatile, self.tuning()) {
            Ok(engine) => engine,
            Err(error) => {
                let is_in_doubt = !is_clean && (self.is_new || !self.has_logs() || self.has_too_many_torn());
                let must_be = !missing.is_empty() && (is_in_doubt || missing.len() > self.plan.parities());
                self.tally.refusals += 1;
                let refused =
                    if must_be { Ok(false) } else { Err(Failure::new(format!("refused: {error}"))) };
                return refused;
            }
        };
        if !is_clean && !missing.is_empty() && !self.has_logs() && !assembly.is_forced {
            return Err(Failure::new("a dirty array is served without a member"));
        }
        self.journal.begin(engine.status().events);
        let devices = self.seat_members(&assembly, (&members, &alive))?;
        let spares = self.spares_there(&assembly, &members, &alive);
        self.tally.resumed += u64::from(!engine.status().rebuilding.is_empty());
        self.is_new &= engine.core().is_resyncing() || !missing.is_empty() || !self.is_said_by_all(&members);
        self.gone = missing;
        self.left.clear();
        self.has_scrub = false;
        self.begin_doubts(if self.has_logs() { engine.core().is_resyncing() } else { !is_clean });
        self.tear(&self.gone.clone());
        self.begin_forced(&assembly);
        let mut volume = InPlaceVolume::new(engine, devices);
        spares.into_iter().for_each(|spare| volume.spares.push(spare));
        if let Some(rate) = self.plan.rate {
            volume.engine.core_mut().set_rates(Rates::asked_for(Some(rate)));
        }
        let mut cores =
            Cores::alone(volume, Random::from_seed(self.plan.seed ^ self.events), self.plan.latency);
        if self.plan.shards > 0 {
            let seated = self.seats(&cores);
            let tuning = Tuning { strip_frames: 2048, ..self.tuning() };
            cores.divide(&seated, self.plan.shards, &tuning, self.plan.unit_stripes);
        }
        self.volume = Some(cores);
        self.tally.starts += 1;
        Ok(true)
    }

    /// Disks by the roles that the array has them in.
    fn seat_members(
        &mut self,
        assembly: &Assembly<'_>,
        (members, alive): (&[Member], &[DiskHandle]),
    ) -> Result<DeviceSet, Failure> {
        let served = members_of(assembly).map_err(|error| Failure::new(error.to_string()))?;
        let mut devices: Vec<Option<Box<dyn BlockDevice>>> = self.disks.iter().map(|_| None).collect();
        let mut beside = BTreeMap::new();
        for (role, member) in served {
            let index = members.iter().position(|other| std::ptr::eq(other, member)).expect("one of them");
            if role.is_replacement() {
                beside.insert(role.of_member().index(), alive[index].clone());
                continue;
            }
            self.install(role.index(), alive[index].clone());
            devices[role.index()] = Some(Box::new(alive[index].clone()));
        }
        let journal = self.journal.disk().cloned();
        devices.extend(journal.map(|disk| Some(Box::new(disk) as Box<dyn BlockDevice>)));
        let mut devices = DeviceSet::new(devices);
        self.begin_replacements(beside, &mut devices);
        Ok(devices)
    }

    /// Disks of members that are there, by seat.
    fn seats(&self, volume: &InPlaceVolume) -> Vec<(Role, DiskHandle)> {
        let role = array::inplace::members::role;
        let own = self.disks.iter().enumerate().map(|(index, disk)| (role(index), disk.clone()));
        let beside =
            self.replacements.by_role().map(|(index, disk)| (role(index).replacement(), disk.clone()));
        let seated = own.chain(beside).map(|(place, disk)| (volume.engine.core().seat(place), disk));
        seated.filter(|(seat, _)| volume.devices.geometry(*seat).is_some()).collect()
    }

    /// Ways to a disk, for all engines.
    fn ways(&self, disk: &DiskHandle) -> Ways {
        ways(disk, self.plan.shards)
    }

    fn tuning(&self) -> Tuning {
        Tuning {
            client_frames: CLIENT_FRAMES,
            strip_frames: 4096,
            cache_bytes: self.plan.cache_bytes,
            window: self.plan.window,
            began: 1_700_000_000,
            is_read_only: false,
        }
    }

    fn begin_doubts(&mut self, is_dirty: bool) {
        let blocks = self.plan.blocks();
        self.doubts.done = (0..blocks).map(|lba| self.oracle.done(lba)).collect();
        self.doubts.is_resyncing = is_dirty;
        self.doubts.all = false;
        let rows = self.plan.stripes * u64::from(self.plan.chunk) / 8;
        let mut spoiled = BTreeMap::new();
        for row in 0..rows {
            let sector = self.data_offset + row * 8;
            let is_bad = |member: &usize| self.disks[*member].is_blemished(sector..sector + 8);
            let bad: BTreeSet<usize> = (0..self.disks.len()).filter(is_bad).collect();
            if !bad.is_empty() {
                spoiled.insert(row, bad);
            }
        }
        self.doubts.spoiled = spoiled;
        self.look_at_lists();
        if is_dirty {
            // A row that a crash left torn is not decoded for a member that lists it.
            for (row, members) in self.blemishes.listed() {
                self.doubts.spoiled.entry(*row).or_default().extend(members);
            }
            self.doubts.rows.extend(self.doubts.spoiled.keys());
        }
    }

    fn volume(&mut self) -> &mut Cores {
        self.volume.as_mut().expect("a started array")
    }

    /// Does an act; false when nothing can follow.
    pub fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        match *act {
            Act::Write { lba, blocks, durable } => self.write(lba, blocks, durable)?,
            Act::Read { lba, blocks } => self.read(lba, blocks)?,
            Act::Trim { lba, blocks, durable } => self.trim(lba, blocks, durable),
            Act::Flush => {
                let id = self.open(Open::Flush(self.oracle.now()));
                self.submit(id, RequestOp::Flush);
            }
            Act::Wait { nanos, events } => self.wait(nanos, events)?,
            Act::Drain => self.drain()?,
            Act::Resync => self.resync()?,
            Act::ReadAll => self.read_all()?,
            Act::Crash => return self.crash(),
            Act::Kill => return self.kill(),
            Act::TakeOver => return self.take_over(),
            Act::Stop => return self.stop(),
            Act::Die(member) => self.die(member),
            Act::LoseJournal(how) => self.lose_journal(how),
            Act::AddJournal(superblocks) => return self.add_journal(superblocks),
            Act::Fail(member) => {
                if self.is_rebuilding(member) {
                    self.lose_newcomer();
                    self.volume().engine.core_mut().fail_member(array::inplace::members::role(member));
                } else if !self.gone.contains(&member) && self.may_lose() {
                    self.lose(member);
                    self.volume().engine.core_mut().fail_member(array::inplace::members::role(member));
                }
            }
            Act::WriteFault(member) => self.fault(member, DiskHandle::fail_next_write),
            Act::FlushFault(member) => self.fault(member, DiskHandle::fail_next_flush),
            Act::Scrub { repairs } => self.begin_scrub(repairs)?,
            Act::StopScrub => {
                self.volume().engine.core_mut().stop_scrub();
            }
            Act::Rot { rows } => self.rot(rows)?,
            Act::Spoil { member, row } => self.spoil(member, row, Blemish::Unreadable),
            Act::Scar { member, row } => self.spoil(member, row, Blemish::Scarred),
            Act::Stick { member, row } => self.spoil(member, row, Blemish::Stuck),
            Act::Replace { member, by_spare } => self.replace_beside(member, by_spare)?,
            Act::LoseReplacement { member, how } => self.lose_replacement(member, how),
            Act::Add(member) => self.add(member)?,
            Act::Spare => self.add_spare()?,
            Act::Return(member) => self.bring_back(member)?,
            Act::Grow(wish) => self.grow(wish)?,
            Act::Rebuild => self.rebuild()?,
            Act::Revive => self.disks.iter().for_each(DiskHandle::revive),
            Act::Lie { member, astray } => self.lie(member, astray),
            Act::Expose => self.expose()?,
            Act::Hang { member, nanos } => {
                self.disks[member].hang(self.now, nanos);
                self.tally.hangs += 1;
            }
            Act::Cut(member) => self.cut_short(member),
            Act::Exchange(one, other) => self.lies.exchange(one, other),
            Act::Force => self.forcing.begin(),
        }
        self.turn()?;
        Ok(true)
    }

    /// Begins a scrub; it may be refused with a reason that holds.
    fn begin_scrub(&mut self, repairs: bool) -> Result<(), Failure> {
        let (status, is_changing) =
            (self.volume().engine.status(), self.volume().engine.core().is_changing());
        let goes_on = status.scrub.is_some_and(|scrub| scrub.state == ScrubState::Running);
        let lacking = status.missing.len() + status.rebuilding.len();
        let refused = self.volume().engine.core_mut().begin_scrub(repairs).err();
        self.has_scrub |= refused.is_none();
        let is_right = match refused {
            None => !goes_on && lacking == 0 && status.resync_left == 0,
            Some(ScrubRefused::Degraded(missing)) => missing == lacking,
            Some(ScrubRefused::Resyncing) => status.resync_left > 0,
            Some(ScrubRefused::ReadOnly) => repairs && self.journal.may_be_lost(),
            // The last strips of one that was stopped may be in work.
            Some(ScrubRefused::Running) => goes_on || status.strips > 0,
            Some(ScrubRefused::Changing) => is_changing,
            Some(ScrubRefused::Stopping) => false,
        };
        if is_right { Ok(()) } else { Err(Failure::new(format!("a scrub was begun: {refused:?}"))) }
    }

    /// Nothing is wrong with an array but what [`World::rot`] did, and in rows of lies what may be.
    fn look_at_scrub(&mut self, expected: u64) -> Result<(), Failure> {
        self.judge_scrub(expected..=expected + self.lies.sectors_max())
    }

    /// A scrub that has ended counts so many sectors that do not match.
    fn judge_scrub(&mut self, expected: RangeInclusive<u64>) -> Result<(), Failure> {
        let Some(volume) = self.volume.as_ref().filter(|_| self.has_scrub) else { return Ok(()) };
        let scrub = volume.engine.status().scrub.expect("one was begun");
        if scrub.state == ScrubState::Running {
            return Ok(());
        }
        self.has_scrub = false;
        if scrub.state != ScrubState::Done {
            return Ok(());
        }
        self.tally.scrubs += 1;
        let is_all = scrub.sectors_done == scrub.sectors_total;
        let may_lack = !self.doubts.spoiled.is_empty()
            || !self.doubts.rows.is_empty()
            || self.has_torn_blocks()
            || self.lies.are_there()
            || self.blemishes.listed().next().is_some();
        if !is_all || !expected.contains(&scrub.mismatches) || (scrub.sectors_not_compared > 0 && !may_lack) {
            return Err(Failure::new(format!("{expected:?} sectors do not match: {scrub:?}")));
        }
        Ok(())
    }

    /// Waits until nothing is under way; true when nothing is broken or in doubt.
    fn come_to_rest(&mut self) -> Result<bool, Failure> {
        self.drain()?;
        while self.volume().engine.core().is_replaying() || self.volume().engine.core().is_changing() {
            self.step("the replay, or a change of the policy")?;
        }
        self.volume().engine.core_mut().stop_scrub();
        self.resync()?;
        while self.volume().engine.status().strips > 0 {
            self.step("strips of a scrub")?;
        }
        let has_doubts = self.doubts.is_resyncing || self.doubts.all || !self.doubts.rows.is_empty();
        let has_doubts = has_doubts || self.has_torn_blocks();
        let status = self.volume().engine.status();
        let is_sound = self.gone.is_empty() && status.missing.is_empty() && self.doubts.spoiled.is_empty();
        // What rots on a member that is copied lies, or does not lie, on its replacement.
        let is_sound = is_sound && status.replacing.is_empty() && !self.journal.may_be_lost();
        Ok(is_sound && !has_doubts && !status.is_resyncing && status.rows_in_doubt == 0)
    }

    /// Flips bits in parities, which nothing but scrubs meets.
    fn rot(&mut self, rows: u64) -> Result<(), Failure> {
        if !self.come_to_rest()? || self.lies.are_there() {
            return Ok(());
        }
        // A repair that is answered and not done would be found by the next scrub.
        self.disks.iter().for_each(DiskHandle::forget_lie);
        self.locate_rot()?;
        let chunk_rows = u64::from(self.plan.chunk) / 8;
        let geometry = Geometry::of(&shape_of(&self.plan)).expect("a plan of an array");
        let mut chosen = BTreeSet::new();
        for _ in 0..rows {
            let row = self.random.below(self.plan.stripes * chunk_rows);
            let (p, q) = geometry.parity(Stripe(row / chunk_rows));
            let parity = q.filter(|_| self.random.chance(1, 2)).unwrap_or(p);
            if chosen.insert(row) {
                self.disks[parity.index()].rot(self.data_offset + row * 8 + self.random.below(8));
            }
        }
        let rotten = u64::try_from(chosen.len()).expect("few") * 8;
        self.scrub_and_repair(rotten).map(|_| ())
    }

    /// A check finds so many sectors that do not match, a repair too, and another check none. Returns what the first one says.
    fn scrub_and_repair(&mut self, wrong: u64) -> Result<ScrubStatus, Failure> {
        let mut first = None;
        for (repairs, expected) in [(false, wrong), (true, wrong), (false, 0)] {
            self.begin_scrub(repairs)?;
            if !self.has_scrub {
                return Err(Failure::new("no scrub began"));
            }
            self.turn()?;
            while self.volume().engine.status().scrub.is_some_and(|scrub| scrub.state == ScrubState::Running)
            {
                self.step_once("the end of the scrub")?;
            }
            self.judge_scrub(expected..=expected)?;
            first = first.or(self.volume().engine.status().scrub);
        }
        Ok(first.expect("a scrub has ended"))
    }

    fn look_at_resync(&mut self) {
        let has_gone = !self.gone.is_empty();
        let Some(volume) = &self.volume else { return };
        let status = volume.engine.status();
        if status.resync_left == 0 && (!has_gone || self.forcing.is_forced()) {
            self.doubts.is_resyncing = false;
        }
        // What a resync wrote may be in caches until then.
        if status.resync_left == 0 && status.mark == Mark::Clean {
            self.forcing.end_doubts();
        }
    }

    fn open(&mut self, open: Open) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.open.insert(id, open);
        id
    }

    fn submit(&mut self, id: u64, op: RequestOp) {
        let now = self.now;
        self.volume().submit(now, Request { id: RequestId(id), op });
    }

    /// Waits until clients may take frames.
    fn expect_frames(&mut self, count: u64) -> Result<(), Failure> {
        let count = usize::try_from(count).expect("small");
        if self.volume().client_frames_available() < count {
            self.turn()?;
        }
        while self.volume().client_frames_available() < count {
            self.step("frames for clients")?;
        }
        Ok(())
    }

    fn begin_write(&mut self, lba: u64, blocks: u64, stamp: u64) {
        let id = self.next_id;
        let mut readings: Vec<&mut Reading> = Vec::new();
        for open in self.open.values_mut() {
            if let Open::Read { reading, .. } = open {
                readings.push(reading);
            }
        }
        (lba..lba + blocks).for_each(|lba| self.oracle.begin_write(lba, (id, stamp), &mut readings));
    }

    fn write(&mut self, lba: u64, blocks: u64, durable: bool) -> Result<(), Failure> {
        self.expect_frames(blocks)?;
        let stamp = self.next_id;
        self.begin_write(lba, blocks, stamp);
        let mut frames = Vec::new();
        for lba in lba..lba + blocks {
            let mut frame = self.volume().frames().take();
            fill(&mut frame.data, lba, stamp);
            frames.push(frame);
        }
        let id = self.open(Open::Write { lba, blocks, durable });
        self.submit(id, RequestOp::Write { lba: Lba(lba), frames, force_unit_access: durable });
        Ok(())
    }

    /// Zeros have the stamp of zeros: trims of one block overlap like writes do.
    fn trim(&mut self, lba: u64, blocks: u64, durable: bool) {
        self.begin_write(lba, blocks, 0);
        let id = self.open(Open::Write { lba, blocks, durable });
        self.submit(id, RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: durable });
    }

    fn read(&mut self, lba: u64, blocks: u64) -> Result<(), Failure> {
        self.expect_frames(blocks)?;
        let reading = self.oracle.begin_read(lba, blocks);
        let may_fail = self.may_fail(&reading);
        let id = self.open(Open::Read { reading, blocks, may_fail });
        let blocks = u32::try_from(blocks).expect("small");
        self.submit(id, RequestOp::Read { lba: Lba(lba), blocks });
        Ok(())
    }

    fn may_fail(&self, reading: &Reading) -> bool {
        reading.done().any(|(lba, done)| self.may_be_lost(lba, Some(done)))
    }

    /// Lets the engine do what it can at this moment.
    fn turn(&mut self) -> Result<(), Failure> {
        let now = self.now;
        let mut replies = std::mem::take(&mut self.replies);
        let volume = self.volume();
        while volume.turn(now, &mut replies) {}
        volume.check_invariants();
        self.look_at_spares();
        self.look_at_replacements()?;
        self.look_at_blemishes();
        self.look_at_lies();
        for reply in replies.drain(..) {
            self.take(reply)?;
        }
        self.replies = replies;
        self.look_at_members();
        self.look_at_replay();
        self.look_at_first_resync();
        self.look_at_policy();
        Ok(())
    }

    /// Lets time pass until something happens, and judges scrubs that ended.
    fn step(&mut self, awaited: &str) -> Result<(), Failure> {
        self.step_once(awaited)?;
        self.look_at_scrub(0)
    }

    /// Lets time pass until something happens.
    fn step_once(&mut self, awaited: &str) -> Result<(), Failure> {
        self.events += 1;
        if self.events > EVENTS_MAX {
            let state = self.volume().describe();
            return Err(Failure::new(format!("no end of waiting for {awaited}: {state}")));
        }
        let next = self.volume().next_deadline();
        let next = next.ok_or_else(|| {
            Failure::new(format!(
                "nothing happens any more; waiting for {awaited}: {}",
                self.volume().describe()
            ))
        })?;
        self.now = self.now.max(next);
        self.turn()
    }

    fn wait(&mut self, nanos: u64, events: u64) -> Result<(), Failure> {
        let until = self.now + Nanos(nanos);
        for _ in 0..events {
            match self.volume().next_deadline().filter(|next| *next <= until) {
                Some(_) => self.step("time")?,
                None => {
                    self.now = until;
                    break;
                }
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.turn()?;
        while !self.open.is_empty() {
            self.step("answers")?;
        }
        Ok(())
    }

    fn resync(&mut self) -> Result<(), Failure> {
        self.turn()?;
        while self.volume().engine.core().is_resyncing() && (self.gone.is_empty() || self.forcing.is_forced())
        {
            self.step("the resync")?;
        }
        self.look_at_resync();
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), Failure> {
        let blocks = self.plan.blocks();
        let mut lba = 0;
        while lba < blocks {
            let count = (blocks - lba).min(100);
            self.read(lba, count)?;
            lba += count;
        }
        self.drain()
    }

    /// A request is answered.
    fn take(&mut self, reply: Reply) -> Result<(), Failure> {
        let Reply { id, outcome, mut frames } = reply;
        let open = self.open.remove(&id.0).ok_or_else(|| Failure::new("an answer that nobody waits for"))?;
        self.tally.requests += 1;
        let is_done = outcome == Outcome::Done;
        self.tally.requests_failed += u64::from(!is_done);
        match open {
            Open::Read { reading, blocks, may_fail } => {
                let lba = reading.first();
                let may_fail = may_fail || self.may_fail(&reading);
                if is_done {
                    self.tally.blocks_verified += blocks;
                    let is_volatile = self.plan.is_volatile;
                    let lies = &self.lies;
                    let judged =
                        self.oracle.end_read(reading, &frames, is_volatile, |lba| lies.may_be_wrong(lba));
                    judged.map_err(|what| Failure::at(lba, what))?;
                } else if may_fail {
                    self.tally.torn += u64::from(self.has_torn_blocks());
                } else {
                    return Err(Failure::at(lba, format!("{blocks} blocks from {lba} on cannot be read")));
                }
            }
            Open::Write { lba, blocks, durable } => {
                let is_durable = durable || !self.plan.is_volatile || self.journal.disk().is_some();
                (lba..lba + blocks).for_each(|lba| self.oracle.end_write(lba, id.0, is_done, is_durable));
                self.look_at_ruins(lba..lba + blocks);
                if !is_done
                    && !self.journal.may_be_lost()
                    && !(lba..lba + blocks).any(|lba| self.may_be_lost(lba, None))
                {
                    return Err(Failure::at(lba, format!("{blocks} blocks from {lba} on cannot be written")));
                }
            }
            Open::Flush(since) if is_done => self.oracle.flushed(since),
            Open::Flush(_) if self.is_too_much() => {}
            Open::Flush(_) => return Err(Failure::new("a flush failed")),
        }
        self.volume().frames().give_many(&mut frames);
        Ok(())
    }

    /// Row of a block, by the geometry alone.
    fn row_of(&self, lba: u64) -> u64 {
        let chunk = u64::from(self.plan.chunk) / 8;
        let data = self.plan.blocks() / (self.plan.stripes * chunk);
        lba / chunk / data * chunk + lba % chunk
    }

    /// Whether a request may fail because of a block: a read, after so many writes of the block were done, or a write.
    fn may_be_lost(&self, lba: u64, done: Option<u64>) -> bool {
        let row = self.row_of(lba);
        let mut spoiled = self.doubts.spoiled.get(&row).cloned().unwrap_or_default();
        spoiled.extend(self.blemishes.listed_in(row, lba, done));
        let lost = spoiled.union(&self.gone).count();
        let before = self.doubts.done[usize::try_from(lba).expect("small")];
        let has_doubts = self.doubts.all || self.doubts.rows.contains(&row);
        // With another member lost, what was written in a row in doubt cannot be decoded either.
        let is_old = lost > 1 || done.is_none_or(|done| done == before) || self.lists_another(row, &spoiled);
        let in_doubt = lost > 0 && has_doubts && is_old;
        let is_torn = lost > 0 && self.is_torn(lba, done);
        // What logs say of such a row may be what nobody can tell from a cut-off write.
        let is_disputed = self.has_partial_parity() && self.lies.may_be_wrong(lba);
        lost > self.plan.parities() || in_doubt || is_torn || is_disputed
    }

    /// The power fails, and the array is started anew.
    fn crash(&mut self) -> Result<bool, Failure> {
        self.cut();
        let has_started = self.start_anew()?;
        self.doubts.unrecorded.clear();
        Ok(has_started)
    }

    fn kill(&mut self) -> Result<bool, Failure> {
        self.lose_engine(DiskHandle::let_go);
        self.oracle.kill();
        self.tally.kills += 1;
        let failed = self.gone.clone();
        let has_started = self.start_anew()?;
        self.doubts.unrecorded = failed.difference(&self.gone).copied().collect();
        Ok(has_started)
    }

    /// The power fails.
    fn cut(&mut self) {
        self.lose_engine(DiskHandle::crash);
        self.oracle.crash();
        self.tally.crashes += 1;
    }

    /// The engine is gone, and this happens to all disks.
    fn lose_engine(&mut self, how: impl Fn(&DiskHandle)) {
        self.look_at_replay();
        self.volume = None;
        let spares = self.spares.iter().map(|(_, disk)| disk);
        let others = spares.chain(self.journal.disk()).chain(self.replacements.disks());
        self.disks.iter().chain(&self.retired).chain(others).for_each(how);
        self.look_at_lies();
        self.open.clear();
        self.note_unsure();
        self.note_in_flight();
        self.keep_causes();
    }

    fn stop(&mut self) -> Result<bool, Failure> {
        self.shut()?;
        self.start_anew()
    }

    fn start_anew(&mut self) -> Result<bool, Failure> {
        if !self.start()? {
            return Ok(false);
        }
        self.turn()?;
        Ok(true)
    }

    /// Stops the engine and looks at what lies on the media.
    fn shut(&mut self) -> Result<(), Failure> {
        self.drain()?;
        self.look_at_resync();
        self.volume().engine.core_mut().stop();
        self.turn()?;
        while !self.volume().engine.has_stopped() {
            self.step("the stop")?;
        }
        let status = self.volume().engine.status();
        self.volume = None;
        if status.is_broken {
            self.disks.iter().for_each(DiskHandle::forget_flush);
            self.note_unsure();
            self.note_in_flight();
            self.keep_causes();
            self.expect_failed_writes();
        }
        let others = || self.journal.disk().into_iter().chain(self.replacements.disks());
        self.disks.iter().chain(others()).for_each(DiskHandle::forget_fault);
        // The power may fail right after a stop: what was marked clean is.
        if self.random.chance(1, 2) && !self.is_too_much() {
            self.disks.iter().chain(others()).for_each(DiskHandle::crash);
        }
        if self.is_too_much() || status.is_broken {
            return Ok(());
        }
        // Who was missing at the start is named with the first write, who failed in service at once.
        let failed = if status.counters.failures > 0 { status.missing } else { Vec::new() };
        self.look_at_media(&failed)
    }

    /// Parities of all stripes and contents of all blocks, from the media; and who is said to be missing.
    fn look_at_media(&mut self, failed: &[Role]) -> Result<(), Failure> {
        let (members, alive) = self.members_there()?;
        let alive: Vec<&DiskHandle> = alive.iter().collect();
        let arrays = judge(&members);
        let assembly = &arrays[0];
        let roles = &assembly.superblock().roles;
        let is_counted =
            |role: &&Role| roles.iter().any(|entry| RoleEntry::of(*entry) == RoleEntry::Member(**role));
        if let Some(role) = failed.iter().find(is_counted) {
            return Err(Failure::new(format!("member {role} failed, and the superblocks count on it")));
        }
        let has_doubts = self.doubts.is_resyncing || self.doubts.all || !self.doubts.rows.is_empty();
        let has_doubts = has_doubts || self.has_torn_blocks();
        if !assembly.superblock().is_clean() && !has_doubts {
            return Err(Failure::new(format!("stopped, and not clean: {}", assembly.in_words())));
        }
        if !assembly.can_be_served() {
            let said = assembly.in_words();
            let may_be = has_doubts || self.journal.may_be_lost();
            return if may_be { Ok(()) } else { Err(Failure::new(format!("stopped: {said}"))) };
        }
        self.look_at_copies(assembly, &alive)?;
        let reader = Reader::new(assembly, &alive).map_err(|error| Failure::new(error.to_string()))?;
        self.judge_lists(&members, assembly.newest)?;
        self.tally.checks += 1;
        let found = reader.check();
        let is_of_lies = |stripe: &Stripe| self.lies.are_in_stripe(*stripe);
        if assembly.superblock().is_clean() && !found.stripes.iter().all(is_of_lies) {
            return Err(Failure::new(format!(
                "parities of a clean array are wrong in stripes {:?}",
                found.stripes
            )));
        }
        let mut bytes = [0; BLOCK_BYTES];
        for lba in (0..reader.blocks()).filter(|lba| !self.lies.may_be_wrong(*lba)) {
            match reader.read(lba, &mut bytes) {
                Ok(()) => self
                    .oracle
                    .judge(lba, &bytes)
                    .map_err(|what| Failure::at(lba, format!("at rest {what}")))?,
                // Of an array that is not clean only the engine knows which rows are right.
                Err(_) if has_doubts && !assembly.superblock().is_clean() => continue,
                Err(_) if self.may_be_lost(lba, Some(self.oracle.done(lba))) => continue,
                Err(error) => return Err(Failure::at(lba, format!("at rest: {error}"))),
            }
            self.tally.blocks_verified += 1;
        }
        Ok(())
    }

    /// The end: the array is stopped and looked at.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.shut()
    }
}
