//! World of a run: the rack of drives, the cache on it, its clients, and the ends and beginnings of its lives.

use super::Tally;
use super::act::{ADDED_MAX, Act, KEYS, Moment};
use super::attended::Attended;
use super::client::Desk;
use super::files::Files;
use super::ledger::{Causes, Ledger};
use super::memory::Memory;
use super::oracle::{Oracle, name_of};
use super::plan::Plan;
use super::planned::Planned;
use super::scan::Scan;
use super::shards::Shards;
use crate::acted::Outcome;
use crate::drive::Drive;
use crate::plan::Latency;
use crate::power::{Blow, Power};
use crate::rack::{Rack, SharedRack};
use crate::tally::Failure;
use crate::trace::{Keep, Trace};
use ::cache::config::Invalidate;
use ::cache::request::WallMillis;
use ::cache::spread::{Spread, identity_of};
use ::cache::{CacheConfig, CacheVolume, MountError, Seen, Status, format, see_shards};
use base::random::Random;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use drive::Bell;
use drive::slices::sets;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::hash::Hash;
use zone::device::ZoneState;
use zone::drives::DriveSet;

/// Identity of the cache.
pub(super) const CACHE: [u8; 16] = [9; 16];
/// Secret of its hashes.
pub(super) const SECRET: [u8; 16] = [3; 16];
/// Wall time at the beginning, in milliseconds.
const WALL: u64 = 1_000_000;
/// Events after which a wait is stuck.
const EVENTS_MAX: u64 = 200_000;
/// Turns without an event after which the cache runs in a circle.
const TURNS_MAX: u32 = 20_000;
/// Mounts that may be tried one after the other.
const MOUNTS_MAX: u32 = 8;

/// Virtual time, and the wall clock, which can be set.
#[derive(Debug)]
pub(super) struct Clock {
    pub now: Instant,
    /// Milliseconds by which the wall clock was set.
    set: i64,
    /// Latest wall time that the cache was told in this life, or knew when it began.
    pub latest: u64,
    /// Wall time that the record of the last mount holds: no life begins before it.
    recorded: u64,
    /// Latest wall time that it was told in any life, and may know from the media.
    pub ever: u64,
}

impl Clock {
    /// The wall clock.
    pub fn wall(&self) -> u64 {
        (WALL + self.now.0 / 1_000_000).saturating_add_signed(self.set)
    }

    /// The wall clock, as the cache is told.
    pub fn tell(&mut self) -> WallMillis {
        self.latest = self.latest.max(self.wall());
        self.ever = self.ever.max(self.latest);
        WallMillis(self.wall())
    }
}

/// What has become of the drives.
#[derive(Debug, Default)]
pub(super) struct Bays {
    /// Not there at the next mount.
    away: BTreeSet<usize>,
    /// Exchanged for an empty one at the next mount.
    blank: BTreeSet<usize>,
    /// Mounts to be tried before the next one: without a drive, and cut short.
    tries: Vec<(usize, Moment)>,
    /// Drives that were told to fail, or missed a mount, since all were there: the others may go on without them.
    pub blamed: BTreeSet<usize>,
    /// Drives whose media were damaged.
    pub spoilt: BTreeSet<usize>,
    /// Numbers of shards with which a start is tried before the next mount.
    recuts: Vec<usize>,
    /// Removed: their places are free, and what they held is in the rack.
    free: BTreeSet<usize>,
    /// They are there again at the next mount.
    plugs_in: bool,
    /// A drive was exchanged for an empty one, or damaged: what it knew of the members may be lost.
    has_lost: bool,
}

/// See the module.
pub struct World {
    pub(super) plan: Plan,
    pub(super) rack: SharedRack,
    /// Of conventional drives.
    pub(super) files: Option<Files>,
    pub(super) served: Option<Shards>,
    /// Shards of keys.
    pub(super) shard_of: Vec<usize>,
    /// Of those that own slices of drives; nobody listens.
    pub(super) bells: Vec<Bell>,
    pub(super) clock: Clock,
    pub(super) bays: Bays,
    pub(super) oracle: Oracle,
    pub(super) ledger: Ledger,
    pub(super) desk: Desk,
    pub(super) scans: [Option<Scan>; 2],
    pub(super) planned: Planned,
    pub(super) random: Random,
    pub(super) attended: Attended,
    pub(super) memory: Memory,
    /// Only the process ends when the fuse blows.
    spares_caches: bool,
    /// How shards take turns, and how long requests and replies are on their way.
    crossing: Random,
    pub(super) tally: Tally,
}

impl World {
    /// A new cache on new drives, mounted.
    pub fn new(plan: &Plan) -> Result<World, Failure> {
        let latency = plan.latency();
        let uuid = |drive: usize| [u8::try_from(drive + 1).expect("few drives"); 16];
        let new = |drive| new_drive(plan, &latency, uuid(drive), drive);
        let drives = (0..plan.drives).map(new).collect();
        let rack =
            Rack { drives, power: Power::in_recovery(), trace: Trace::new(Keep::Nothing), rival: None };
        let rack = SharedRack::new(rack);
        let spread = Spread::new(plan.shards, SECRET);
        let shard_of = |key: usize| {
            let (namespace, name) = name_of(key);
            spread.shard_of(namespace, &name)
        };
        let shard_of: Vec<usize> = (0..KEYS).map(shard_of).collect();
        let bells = (0..plan.shards).map(|_| Bell::new().expect("an event descriptor"));
        let mut world = World {
            plan: plan.clone(),
            memory: Memory::of(plan, &rack),
            files: Files::of(plan, &rack),
            rack,
            served: None,
            bells: bells.collect(),
            clock: Clock { now: Instant(0), set: 0, latest: 0, recorded: 0, ever: 0 },
            bays: Bays::default(),
            oracle: Oracle::new(),
            ledger: Ledger::new(SECRET, shard_of.clone()),
            shard_of,
            desk: Desk::default(),
            scans: [None, None],
            planned: Planned::default(),
            random: Random::from_seed(plan.seed ^ 0x0cac_4e77),
            attended: Attended::of(plan),
            spares_caches: false,
            crossing: Random::from_seed(plan.seed ^ 0x0cac_4e55),
            tally: Tally::default(),
        };
        for drive in 0..plan.drives {
            world.files.iter_mut().for_each(|files| files.make(drive, uuid(drive)));
        }
        let refused = |error: MountError| Failure::new(format!("no new cache: {error}"));
        for (number, set) in world.drive_sets(plan.shards).iter_mut().enumerate() {
            let cache = identity_of(CACHE, number, plan.shards);
            let config = CacheConfig { cache, secret: SECRET, drives: (0..plan.drives).map(uuid).collect() };
            format(set, Instant(0), &config).map_err(refused)?;
        }
        match world.mount(None)? {
            true => Ok(world),
            false => Err(Failure::new("a new cache is refused")),
        }
    }

    /// What became of the run.
    pub fn outcome(mut self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        let (hash, events) = {
            let rack = self.rack.lock();
            (rack.trace.hash(), rack.trace.events())
        };
        self.tally.events = events;
        let tally = self.tally;
        // After a panic, what the engine left behind is not taken apart in good order.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(self)));
        Outcome { failure, hash, tally }
    }

    /// Logs an event.
    pub(super) fn note(&self, event: &(impl Hash + Display)) {
        self.rack.lock().trace.note(self.clock.now, event);
    }

    pub(super) fn shards(&mut self) -> &mut Shards {
        self.served.as_mut().expect("a mounted cache")
    }

    /// The cache that is mounted.
    pub(super) fn mounted(&self) -> &Shards {
        self.served.as_ref().expect("a mounted cache")
    }

    /// What has come in all shards that may cost objects.
    pub(super) fn causes(&self) -> Causes {
        Causes::of(self.mounted().all().iter().map(|volume| volume.shard().counters()))
    }

    /// The drives that are there, cut into so many shares.
    pub(super) fn drive_sets(&mut self, shards: usize) -> Vec<DriveSet> {
        let mut drives = Vec::new();
        for drive in 0..self.places() {
            let is_there = !self.bays.away.contains(&drive) && !self.bays.free.contains(&drive);
            drives.push(if is_there { self.device(drive) } else { None });
        }
        let bells: Vec<Bell> = self.bells.iter().cycle().take(shards).cloned().collect();
        sets(drives, &bells)
    }

    /// Places for drives, free or not.
    pub(super) fn places(&self) -> usize {
        self.rack.lock().drives.len()
    }

    /// Places of a shard that is mounted from which a drive was not removed.
    pub(super) fn members(&self, shard: usize) -> usize {
        let places = self.mounted().of(shard).shard().drives().len();
        (0..places).filter(|place| !self.bays.free.contains(place)).count()
    }

    /// Does an act; false when nothing can follow.
    pub fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        if act.is_of_client() && !self.prepare()? {
            return self.after_act();
        }
        match *act {
            Act::Get(key) => self.get(key)?,
            Act::Set { key, bytes, filler, expiry } => self.set(key, bytes, filler, expiry)?,
            Act::Remove(key) => self.remove(key)?,
            Act::Update { key, change, bytes } => self.update(key, change, bytes)?,
            Act::GetSeveral { first, count } => self.get_several(first, count)?,
            Act::SetSeveral { first, count, bytes, only_new } => {
                self.store_several((first, count), bytes, only_new)?
            }
            Act::GetPart { key, part } => self.get_part(key, part)?,
            Act::Exchange { key, bytes } => self.exchange_seen(key, bytes)?,
            Act::Clear { key } => self.clear(key)?,
            Act::ClearAt { key, after } => self.clear_at(key, after)?,
            Act::Wait { nanos, events } => self.wait(nanos, events)?,
            Act::SetClock(by) => self.clock.set += by,
            Act::Scan { key, count } => self.scan(key, count)?,
            Act::Drain => self.drain()?,
            Act::Rest => self.rest()?,
            Act::ReadAll => self.read_all()?,
            Act::Stop { power, cut } => {
                self.stop(power)?;
                return self.mount(cut);
            }
            Act::StopAt { power, at } => {
                self.spares_caches = !power;
                self.rack.lock().power.arm(at.at(), None, Blow::PowerOff);
            }
            Act::Try { without, cut } => self.bays.tries.push((without, cut)),
            Act::Recut(shards) => {
                self.bays.recuts.extend(Some(shards).filter(|count| *count != self.plan.shards))
            }
            Act::Away(drive) => self.lose(drive, |bays| &mut bays.away),
            Act::Blank(drive) => self.lose(drive, |bays| &mut bays.blank),
            Act::Back => {
                self.bays.away.clear();
                self.bays.blank.clear();
            }
            Act::TakeOut(drive) => self.take_out(drive)?,
            Act::Join(drive) => self.join(drive)?,
            Act::GiveUp(drive) => self.give_up_drive(drive)?,
            Act::AddDrive { joins } => return self.add_drive(joins),
            Act::PlugIn => self.bays.plugs_in = true,
            Act::Resize(object_mean) => self.plan.object_mean = object_mean,
            Act::Absent(nanos) => self.attended.absent += nanos,
            Act::Freeze(nanos) => self.freeze(nanos)?,
            Act::CutMemory { skip, arrive } => self.memory.cut(skip, arrive),
            Act::EndWell { power } => {
                self.end_well()?;
                if !self.rack.lock().power.is_off() {
                    self.stop(power)?;
                    return self.mount(None);
                }
            }
            _ => self.break_drive(act),
        }
        self.after_act()
    }

    /// When the power went, the next life begins.
    fn after_act(&mut self) -> Result<bool, Failure> {
        self.memory.pass();
        if !self.rack.lock().power.is_off() {
            self.turn()?;
        }
        if self.rack.lock().power.is_off() {
            let spares_caches = self.spares_caches;
            self.stop(!spares_caches)?;
            return self.mount(None);
        }
        Ok(true)
    }

    fn lose(&mut self, drive: usize, of: impl Fn(&mut Bays) -> &mut BTreeSet<usize>) {
        if drive < self.places() {
            of(&mut self.bays).insert(drive);
            self.tally.faults += 1;
        }
    }

    /// An operator takes a drive out of service: that alone never costs the cache its writes.
    fn take_out(&mut self, drive: usize) -> Result<(), Failure> {
        if self.shards().operator().take_out(drive).is_err() {
            return Ok(());
        }
        self.bays.blamed.insert(drive);
        if self.mounted().all().iter().any(|volume| volume.shard().drives()[drive].up) {
            return Err(Failure::new(format!("drive {drive} was taken out, and a shard goes on with it")));
        }
        self.turn()?;
        match self.mounted().is_frozen() && self.tally.faults == 0 {
            true => Err(Failure::new(format!("drive {drive} was taken out, and the cache takes no writes"))),
            false => Ok(()),
        }
    }

    /// An operator puts an empty drive in the place of one that is out of service.
    fn join(&mut self, drive: usize) -> Result<(), Failure> {
        let geometry = self.plan.geometry();
        if self.shards().operator().may_join(drive, &geometry).is_err() || self.bays.free.contains(&drive) {
            return Ok(());
        }
        let uuid = self.put_new(drive);
        self.put_in(drive, uuid)
    }

    /// A new drive is opened, in which the power may fail, and joins.
    fn put_in(&mut self, place: usize, uuid: [u8; 16]) -> Result<(), Failure> {
        if let Some(device) = self.device(place) {
            self.shards().operator().join(place, device, uuid);
        }
        self.judge_openings()
    }

    /// A new drive is in a place of the rack; its identity.
    fn put_new(&mut self, drive: usize) -> [u8; 16] {
        self.tally.joins += 1;
        let count = u8::try_from(self.tally.joins).expect("few drives join in a run");
        let uuid = [[200; 8], [count; 8]].concat().try_into().expect("16 bytes");
        let new = new_drive(&self.plan, &self.plan.latency(), uuid, drive);
        self.files.iter_mut().for_each(|files| files.make(drive, uuid));
        let mut rack = self.rack.lock();
        if drive == rack.drives.len() {
            rack.drives.push(new);
        } else {
            rack.drives[drive] = new;
        }
        rack.power.disarm(drive);
        rack.trace.remark(|| format!("drive {drive} is new"));
        self.bays.away.remove(&drive);
        self.bays.free.remove(&drive);
        uuid
    }

    /// An operator removes a drive: its place is free once superblocks say that it is left out.
    fn give_up_drive(&mut self, drive: usize) -> Result<(), Failure> {
        let was_blamed = self.may_freeze();
        if self.shards().operator().take_out(drive).is_err() {
            return Ok(());
        }
        self.bays.blamed.insert(drive);
        self.turn()?;
        let mut events = 0;
        while !self.shards().operator().has_recorded() && !self.mounted().is_frozen() {
            events += 1;
            if events > EVENTS_MAX {
                return Err(Failure::new(format!("the removal of drive {drive} is never recorded")));
            }
            if !self.step("an operator")? {
                return Ok(());
            }
        }
        if self.mounted().is_frozen() {
            return match was_blamed || self.rack.lock().power.is_off() {
                true => Ok(()),
                false => {
                    Err(Failure::new(format!("drive {drive} was removed, and the cache takes no writes")))
                }
            };
        }
        self.tally.removals += 1;
        if !was_blamed {
            // Those that are left are all of them.
            self.bays.blamed.clear();
        }
        self.bays.free.insert(drive);
        Ok(())
    }

    /// An operator adds a drive; false when nothing can follow.
    fn add_drive(&mut self, joins: bool) -> Result<bool, Failure> {
        let places = self.places();
        if self.mounted().all().iter().any(|volume| volume.shard().drives().len() < places) {
            return self.after_act();
        }
        let geometry = self.plan.geometry();
        let free = self.bays.free.first().copied();
        let is_possible = match free {
            Some(place) => self.shards().operator().may_join(place, &geometry).is_ok(),
            None => {
                places < self.plan.drives + ADDED_MAX && self.shards().operator().may_grow(&geometry).is_ok()
            }
        };
        if !is_possible {
            return self.after_act();
        }
        let place = free.unwrap_or(places);
        let uuid = self.put_new(place);
        self.tally.additions += 1;
        if !joins {
            self.stop(false)?;
            return self.mount(None);
        }
        if free.is_none() {
            let made = self.shards().operator().grow(&geometry);
            assert!(made == place, "places are numbered alike");
        }
        self.put_in(place, uuid)?;
        self.after_act()
    }

    /// A fault of a drive, in service.
    fn break_drive(&mut self, act: &Act) {
        if self.files.is_some() && !matches!(act, Act::Die { .. } | Act::WriteFault { .. }) {
            // Those are faults of blocks and answers: the simulation of conventional drives by themselves has the former.
            return;
        }
        self.tally.faults += 1;
        let (Act::Die { drive, .. }
        | Act::WriteFault { drive, .. }
        | Act::Rot { drive, .. }
        | Act::Spoil { drive, .. }
        | Act::Misread { drive, .. }
        | Act::Miswrite { drive, .. }
        | Act::LoseZone { drive, .. }
        | Act::Relapse { drive, .. }
        | Act::SpoilJournal { drive }
        | Act::Stale { drive, .. }) = *act
        else {
            unreachable!("other acts were done")
        };
        if drive >= self.places() {
            return;
        }
        let mut rack = self.rack.lock();
        let Rack { drives, power, trace, .. } = &mut *rack;
        trace.remark(|| format!("{act:?}"));
        match *act {
            Act::Die { at: None, .. } => {
                drives[drive].die();
                self.files.iter().for_each(|files| files.die(drive));
            }
            Act::Die { at: Some(at), .. } => power.arm(at.at(), Some(drive), Blow::Die),
            Act::WriteFault { at, .. } => power.arm(at.at(), Some(drive), Blow::WriteFault),
            Act::Rot { blocks, .. } => {
                for (zone, offset) in any_blocks(&drives[drive], &mut self.random, blocks) {
                    let byte = self.random.index(BLOCK_BYTES + OOB_BYTES);
                    let mask = 1 << self.random.below(8);
                    drives[drive].media_mut().corrupt(ZoneIndex(zone), offset, byte, mask);
                }
            }
            Act::Spoil { blocks, .. } => {
                let hit = any_blocks(&drives[drive], &mut self.random, blocks);
                drives[drive].faults.unreadable.extend(hit);
            }
            Act::Misread { count, .. } => drives[drive].faults.misreads += count,
            Act::Miswrite { at, .. } => power.arm(at.at(), Some(drive), Blow::Miswrite),
            Act::LoseZone { zone, .. } => {
                let zone = drives[drive].data_zone(zone % drives[drive].data_zones());
                drives[drive].media_mut().fail_zone(zone, ZoneState::Offline);
            }
            Act::Stale { count, .. } => drives[drive].faults.stale_reads += count,
            Act::Relapse { reads, .. } => {
                let ends = drives[drive].relapsing_blocks();
                drives[drive].faults.relapses.extend(ends.into_iter().map(|block| (block, reads)));
            }
            Act::SpoilJournal { .. } => {
                let mut ends = drives[drive].journal_ends();
                let hit = (!ends.is_empty()).then(|| ends.swap_remove(self.random.index(ends.len())));
                drives[drive].faults.unreadable.extend(hit);
            }
            _ => unreachable!("other acts were done"),
        }
        match act {
            Act::Die { .. } | Act::WriteFault { .. } => self.bays.blamed.insert(drive),
            _ => self.bays.spoilt.insert(drive),
        };
        self.bays.has_lost |= !self.bays.spoilt.is_empty();
    }

    /// True when so many drives may have failed that the cache has to freeze, or refuse.
    pub(super) fn may_freeze(&self) -> bool {
        !self.bays.blamed.is_empty() || !self.bays.spoilt.is_empty()
    }

    /// Turns until nothing moves.
    pub(super) fn turn(&mut self) -> Result<(), Failure> {
        for _ in 0..TURNS_MAX {
            if self.rack.lock().power.is_off() {
                return Ok(());
            }
            self.pass_times();
            self.attend()?;
            let (now, wall) = (self.clock.now, self.clock.tell());
            let (mut has_moved, mut answers, latest) = (false, Vec::new(), self.clock.latest);
            for shard in self.shards().order() {
                has_moved |= self.shards().turn(shard, (now, wall), latest);
                if self.has_ended_at_store() {
                    self.spares_caches = true;
                    self.shards().fall_silent();
                }
                if self.rack.lock().power.is_off() {
                    break;
                }
            }
            has_moved |= self.shards().collect((now, wall), &mut answers);
            self.note_decisions()?;
            for answered in answers {
                self.judge(answered)?;
            }
            self.check_bounds()?;
            if !has_moved {
                return Ok(());
            }
        }
        Err(Failure::new("the cache turns and turns"))
    }

    /// Goes to the next event; false when the power is off.
    pub(super) fn step(&mut self, whom: &str) -> Result<bool, Failure> {
        if self.rack.lock().power.is_off() {
            return Ok(false);
        }
        let now = self.clock.now;
        let served = self.mounted();
        let due = served.next_deadline();
        if let Some(due) = due.filter(|due| *due <= now) {
            return Err(Failure::new(format!(
                "{whom} waits, and a server would turn at once for what was due {due:?}"
            )));
        }
        let next = served.next_event().into_iter().chain(due).min();
        let Some(next) = next else {
            let status: Vec<Status> = served.all().iter().map(CacheVolume::status).collect();
            return Err(Failure::new(format!("{whom} waits, and nothing is due: {status:?}")));
        };
        self.clock.now = now.max(next);
        self.turn()?;
        Ok(!self.rack.lock().power.is_off())
    }

    fn wait(&mut self, nanos: u64, events: u64) -> Result<(), Failure> {
        let until = self.clock.now + Nanos(nanos);
        for _ in 0..events {
            let served = self.mounted();
            let next = served.next_event().into_iter().chain(served.next_deadline()).min();
            match next {
                Some(next) if next <= until => {
                    if !self.step("time")? {
                        return Ok(());
                    }
                }
                _ => {
                    self.clock.now = until;
                    return self.turn();
                }
            }
        }
        Ok(())
    }

    /// Steps until all requests are answered, or the power is off.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        for _ in 0..EVENTS_MAX {
            if self.desk.pending.is_empty() || !self.step("a request")? {
                return Ok(());
            }
        }
        Err(Failure::new(format!("{} requests are never answered", self.desk.pending.len())))
    }

    /// Reads every key.
    pub(super) fn read_all(&mut self) -> Result<(), Failure> {
        for key in 0..KEYS {
            if self.rack.lock().power.is_off() {
                return Ok(());
            }
            if !self.prepare()? {
                return Ok(());
            }
            self.get(key)?;
        }
        self.drain()
    }

    /// The end of the run: a last life, from the media.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.rest()?;
        if self.rack.lock().power.is_off() {
            self.after_act()?;
        } else {
            self.stop(self.plan.seed.is_multiple_of(2))?;
            if !self.mount(None)? {
                return Ok(());
            }
        }
        if self.served.is_some() {
            self.read_all()?;
        }
        Ok(())
    }

    /// The process ends, and with the power what was not flushed is lost.
    fn stop(&mut self, power: bool) -> Result<(), Failure> {
        let causes = self.causes();
        let served = self.served.take().expect("a mounted cache");
        let needs_none = |volume: &CacheVolume| volume.shard().needs_no_memory() && !volume.is_frozen();
        let needs_none: Vec<bool> = served.all().iter().map(needs_none).collect();
        for volume in served.all() {
            self.tally.end_life(volume.shard().counters());
            self.tally.lives_sharded += u64::from(self.plan.shards > 1);
        }
        self.tally.lives_conventional += u64::from(self.files.is_some());
        self.tally.crashes += 1;
        // What clients are not told is not known.
        self.note_decisions()?;
        let pending: Vec<_> = self.desk.pending.values().map(|open| (open.key, open.asked)).collect();
        pending.into_iter().for_each(|(key, asked)| self.give_up(key, asked));
        self.desk.forget();
        self.doubt_times();
        self.scans = [None, None];
        self.ledger.stop(&causes, power && self.plan.is_volatile);
        drop(served);
        self.go_dark(power);
        self.end_attendance(power);
        self.end_memory(power, &needs_none);
        Ok(())
    }

    fn go_dark(&mut self, power: bool) {
        let mut rack = self.rack.lock();
        let Rack { drives, power: main, trace, .. } = &mut *rack;
        trace.remark(|| format!("the end, power {power}"));
        for drive in drives {
            if power {
                drive.power_fail();
            } else {
                drive.forget_flight();
            }
        }
        main.restore();
        main.disarm_cuts();
        drop(rack);
        self.files.iter().for_each(|files| files.go_dark(power));
    }

    /// Mounts the cache, with the power failing on the way; false when it is refused, as it may be.
    fn mount(&mut self, mut cut: Option<Moment>) -> Result<bool, Failure> {
        self.exchange();
        self.pass_absence();
        for shards in std::mem::take(&mut self.bays.recuts) {
            self.rack.lock().power.recovering = true;
            self.recut(shards)?;
            self.files.iter_mut().for_each(|files| drop(files.take_refused()));
        }
        for (without, cut) in std::mem::take(&mut self.bays.tries) {
            self.try_without(without, cut);
        }
        for _ in 0..MOUNTS_MAX {
            let result = self.try_mount(cut);
            self.judge_openings()?;
            if self.rack.lock().power.is_off() {
                // What it has hidden is not told by the next one.
                self.ledger.forgive_all();
                cut = None;
                drop(result);
                let power = self.plan.invalidate == Invalidate::Media || self.random.chance(1, 2);
                self.go_dark(power);
                self.end_attendance(power);
                self.end_memory(power, &vec![false; self.plan.shards]);
                continue;
            }
            self.rack.lock().power.disarm_cuts();
            match result {
                Ok(served) => {
                    self.begin_memory(&served)?;
                    self.begin(served);
                    self.turn()?;
                    return Ok(true);
                }
                Err(error) => {
                    self.tally.refusals += 1;
                    // The process ends, and what shards that were ready had under way is answered to nobody.
                    self.go_dark(false);
                    if !self.cure(&error)? {
                        return Ok(false);
                    }
                }
            }
        }
        Err(Failure::new("no mount succeeds"))
    }

    /// Drives are exchanged, and those that died are there again.
    fn exchange(&mut self) {
        if std::mem::take(&mut self.bays.plugs_in) {
            self.bays.free.clear();
        }
        let blank = std::mem::take(&mut self.bays.blank);
        let latency = self.plan.latency();
        let mut rack = self.rack.lock();
        for drive in blank {
            let uuid = [u8::try_from(drive + 101).expect("few drives"); 16];
            rack.drives[drive] = new_drive(&self.plan, &latency, uuid, drive);
            self.files.iter_mut().for_each(|files| files.make(drive, uuid));
            rack.power.disarm(drive);
            self.bays.blamed.insert(drive);
            self.bays.has_lost = true;
        }
        self.bays.blamed.extend(&self.bays.away);
        for (number, drive) in rack.drives.iter_mut().enumerate() {
            if !self.bays.away.contains(&number) {
                drive.be_alive();
                self.files.iter().for_each(|files| files.revive(number));
            }
        }
    }

    /// A mount without a drive that no client ever hears of.
    fn try_without(&mut self, without: usize, cut: Moment) {
        if self.places() == 1 || without >= self.places() {
            return;
        }
        let away = std::mem::replace(&mut self.bays.away, BTreeSet::from([without]));
        self.ledger.forgive_all();
        self.bays.blamed.insert(without);
        drop(self.try_mount(Some(cut)));
        self.files.iter_mut().for_each(|files| drop(files.take_refused()));
        self.bays.away = away;
        self.go_dark(self.plan.invalidate == Invalidate::Media);
    }

    fn try_mount(&mut self, cut: Option<Moment>) -> Result<Shards, MountError> {
        {
            let mut rack = self.rack.lock();
            rack.power.recovering = true;
            rack.power.reorders = self.plan.reorders;
            if let Some(cut) = cut {
                rack.power.arm(cut.at(), None, Blow::PowerOff);
            }
        }
        let result = self.mount_shards();
        self.rack.lock().power.recovering = false;
        result
    }

    /// Drives that could not be opened for a mount are missing; only what failed excuses that.
    fn judge_openings(&mut self) -> Result<(), Failure> {
        let refused = self.files.as_mut().map(Files::take_refused).unwrap_or_default();
        if self.rack.lock().power.is_off() {
            return Ok(());
        }
        for (place, error) in refused {
            if !self.bays.blamed.contains(&place) {
                return Err(Failure::new(format!("drive {place} is not opened: {error}")));
            }
            self.bays.away.insert(place);
        }
        Ok(())
    }

    /// Mounts all shards, one after the other, in any order.
    fn mount_shards(&mut self) -> Result<Shards, MountError> {
        let shards = self.plan.shards;
        let how = (WallMillis(self.clock.wall()), self.plan.options());
        let seen = see_shards(self.drive_sets(shards), CACHE, self.clock.now)?;
        let (seen, spread) = seen.expect("the drives are cut as they were");
        let first = if shards > 1 { self.crossing.index(shards) } else { 0 };
        let mut all: Vec<(usize, Seen)> = seen.into_iter().enumerate().collect();
        all.rotate_left(first);
        let (mut mounted, mut ready): (Vec<Result<CacheVolume, MountError>>, Vec<usize>) = Default::default();
        for (shard, seen) in all {
            let result = seen.mount(self.host(shard), how);
            ready.extend(result.is_ok().then_some(shard));
            mounted.push(result);
        }
        if ready.len() < shards {
            // What they have hidden, and evicted, until they were ready is not told by the next mount.
            ready.into_iter().for_each(|shard| self.ledger.forgive_shard(shard));
        }
        mounted.rotate_right(first);
        let volumes = mounted.into_iter().collect::<Result<_, _>>()?;
        let crossing = Random::from_seed(self.crossing.bits());
        Ok(Shards::new(&self.plan, (volumes, spread), &self.bells, crossing))
    }

    fn begin(&mut self, served: Shards) {
        self.clock.latest = self.clock.wall().max(self.clock.recorded);
        self.clock.recorded = self.clock.latest;
        self.clock.ever = self.clock.ever.max(self.clock.latest);
        self.served = Some(served);
        for shard in 0..self.plan.shards {
            let volume = self.mounted().of(shard);
            let (shape, status) = (volume.shard().index().shape(), volume.status());
            self.ledger.learn(shard, shape);
            self.ledger.mounted(shard, &status.recovery, status.drives == self.members(shard));
        }
        self.tally.mounts += 1;
        self.meet_times();
        self.begin_attendance();
    }

    /// Does what an operator does when a mount is refused; false when that is nothing.
    fn cure(&mut self, error: &MountError) -> Result<bool, Failure> {
        let is_all_there = self.bays.away.is_empty();
        match error {
            MountError::Drive { place, .. } if self.rack.lock().drives[*place].is_dead() => {
                self.bays.away.insert(*place);
                self.bays.blamed.insert(*place);
                Ok(true)
            }
            MountError::NoMajority { .. } if !is_all_there => {
                self.bays.away.clear();
                self.rack.lock().drives.iter_mut().for_each(Drive::be_alive);
                let places = 0..self.places();
                self.files.iter().for_each(|files| places.clone().for_each(|place| files.revive(place)));
                Ok(true)
            }
            MountError::NoMajority { .. } if !self.bays.has_lost => {
                Err(Failure::new(format!("all drives are there, and the mount is refused: {error}")))
            }
            _ if self.may_freeze() => Ok(false),
            error => Err(Failure::new(format!("the mount is refused: {error}"))),
        }
    }
}

/// A drive in a place, empty. It remembers what zones held before they were reset, for reads that are stale.
fn new_drive(plan: &Plan, latency: &Latency, uuid: [u8; 16], place: usize) -> Drive {
    let mut drive = Drive::with_manner(&plan.manner(latency), plan.geometry(), uuid, place);
    drive.remember_zones();
    drive.slow_down(plan.slow);
    drive.share(plan.zones);
    drive
}

/// Blocks of a drive that were written, outside of superblock logs.
fn any_blocks(drive: &Drive, random: &mut Random, count: usize) -> Vec<(u32, u32)> {
    let mut blocks = Vec::new();
    for _ in 0..count {
        let number = random.below(u64::from(drive.data_zones()));
        let zone = drive.data_zone(u32::try_from(number).expect("a u32"));
        let found = drive.media().zone(zone);
        if found.write_pointer > 0 {
            let offset = u32::try_from(random.below(u64::from(found.write_pointer))).expect("a u32");
            blocks.push((zone.0, offset));
        }
    }
    blocks
}
