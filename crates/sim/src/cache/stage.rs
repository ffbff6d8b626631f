//! What is there: the rack of drives, the cache that is mounted on it, and the clocks.

use super::Tally;
use super::act::{ADDED_MAX, KEYS, Moment};
use super::files::Files;
use super::ledger::Causes;
use super::oracle::name_of;
use super::plan::Plan;
use super::shards::Shards;
use crate::drive::Drive;
use crate::plan::Latency;
use crate::power::Power;
use crate::rack::{Rack, SharedRack};
use crate::tally::Failure;
use crate::trace::{Keep, Trace};
use ::cache::request::WallMillis;
use ::cache::spread::{Spread, identity_of};
use ::cache::{CacheConfig, MountError, format};
use base::random::Random;
use base::time::Instant;
use drive::Bell;
use drive::slices::sets;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::hash::Hash;
use zone::drives::DriveSet;

/// Identity of the cache.
pub(super) const CACHE: [u8; 16] = [9; 16];
/// Secret of its hashes.
pub(super) const SECRET: [u8; 16] = [3; 16];
/// Wall time at the beginning, in milliseconds.
const WALL: u64 = 1_000_000;
/// Virtual time, and the wall clock, which can be set.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) now: Instant,
    /// Milliseconds by which the wall clock was set.
    pub(super) set: i64,
    /// Latest wall time that the cache was told in this life, or knew when it began.
    pub(super) latest: u64,
    /// Wall time that the record of the last mount holds: no life begins before it.
    pub(super) recorded: u64,
    /// Latest wall time that it was told in any life, and may know from the media.
    pub(super) ever: u64,
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
    pub(super) away: BTreeSet<usize>,
    /// Exchanged for an empty one at the next mount.
    pub(super) blank: BTreeSet<usize>,
    /// Mounts to be tried before the next one: without a drive, and cut short.
    pub(super) tries: Vec<(usize, Moment)>,
    /// Drives that were told to fail, or missed a mount, since all were there: the others may go on without them.
    pub(super) blamed: BTreeSet<usize>,
    /// Drives whose media were damaged.
    pub(super) spoilt: BTreeSet<usize>,
    /// Numbers of shards with which a start is tried before the next mount.
    pub(super) recuts: Vec<usize>,
    /// Removed: their places are free, and what they held is in the rack.
    pub(super) free: BTreeSet<usize>,
    /// They are there again at the next mount.
    pub(super) plugs_in: bool,
    /// A drive was exchanged for an empty one, or damaged: what it knew of the members may be lost.
    pub(super) has_lost: bool,
}

/// See the module. It knows nothing of what clients may find.
pub(super) struct CacheStage {
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
    pub(super) random: Random,
    /// Only the process ends when the fuse blows.
    pub(super) spares_caches: bool,
    /// How shards take turns, and how long requests and replies are on their way.
    pub(super) crossing: Random,
    pub(super) tally: Tally,
}

impl CacheStage {
    /// A new cache on new drives, not mounted.
    pub(super) fn new(plan: &Plan) -> Result<CacheStage, Failure> {
        plan.check();
        let latency = plan.latency();
        let new = |drive| new_drive(plan, &latency, first_uuid(drive), drive);
        let drives = (0..plan.drives).map(new).collect();
        let rack =
            Rack { drives, power: Power::in_recovery(), trace: Trace::new(Keep::Nothing), rival: None };
        let rack = SharedRack::new(rack);
        let spread = Spread::new(plan.shards, SECRET);
        let shard_of = |key: usize| {
            let (namespace, name) = name_of(key);
            spread.shard_of(namespace, &name)
        };
        let bells = (0..plan.shards).map(|_| Bell::new().expect("an event descriptor"));
        let mut stage = CacheStage {
            plan: plan.clone(),
            files: Files::of(plan, &rack),
            rack,
            served: None,
            shard_of: (0..KEYS).map(shard_of).collect(),
            bells: bells.collect(),
            clock: Clock { now: Instant(0), set: 0, latest: 0, recorded: 0, ever: 0 },
            bays: Bays::default(),
            random: Random::from_seed(plan.seed ^ 0x0cac_4e77),
            spares_caches: false,
            crossing: Random::from_seed(plan.seed ^ 0x0cac_4e55),
            tally: Tally::default(),
        };
        for drive in 0..plan.drives {
            stage.files.iter_mut().for_each(|files| files.make(drive, first_uuid(drive)));
        }
        stage.format()?;
        Ok(stage)
    }

    /// Lays down a new cache.
    fn format(&mut self) -> Result<(), Failure> {
        let shards = self.plan.shards;
        let refused = |error: MountError| Failure::new(format!("no new cache: {error}"));
        for (number, set) in self.drive_sets(shards).iter_mut().enumerate() {
            let cache = identity_of(CACHE, number, shards);
            let drives = (0..self.plan.drives).map(first_uuid).collect();
            format(set, Instant(0), &CacheConfig { cache, secret: SECRET, drives }).map_err(refused)?;
        }
        Ok(())
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

    /// What is known of the drives is about places that there are.
    pub(super) fn check(&self) {
        let (places, drives) = (self.places(), self.plan.drives);
        assert!((drives..=drives + ADDED_MAX).contains(&places), "{places} places of {drives} drives");
        let Bays { away, blank, blamed, spoilt, free, .. } = &self.bays;
        for (what, of) in
            [("away", away), ("blank", blank), ("blamed", blamed), ("spoilt", spoilt), ("free", free)]
        {
            assert!(of.iter().all(|drive| *drive < places), "drives {of:?} of {places} are {what}");
        }
        assert_eq!(self.bells.len(), self.plan.shards, "a bell for each shard");
        assert!(self.shard_of.iter().all(|shard| *shard < self.plan.shards), "a key of no shard");
        if let Some(served) = &self.served {
            assert_eq!(served.all().len(), self.plan.shards, "all shards are mounted, or none");
        }
        assert!(self.clock.latest <= self.clock.ever, "the cache was told more than it ever knew");
        assert!(self.clock.recorded <= self.clock.ever, "a mount has recorded what nobody was told");
    }

    /// Places of a shard that is mounted from which a drive was not removed.
    pub(super) fn members(&self, shard: usize) -> usize {
        let places = self.mounted().of(shard).shard().drives().len();
        (0..places).filter(|place| !self.bays.free.contains(place)).count()
    }

    /// A new drive is opened, in which the power may fail, and joins.
    pub(super) fn put_in(&mut self, place: usize, uuid: [u8; 16]) -> Result<(), Failure> {
        if let Some(device) = self.device(place) {
            self.shards().operator().join(place, device, uuid);
        }
        self.judge_openings()
    }

    /// A new drive is in a place of the rack; its identity.
    pub(super) fn put_new(&mut self, drive: usize) -> [u8; 16] {
        self.tally.joins += 1;
        let count = u8::try_from(self.tally.joins).expect("few drives join in a run");
        let uuid = [[200; 8], [count; 8]].concat().try_into().expect("16 bytes");
        let new = new_drive(&self.plan, &self.plan.latency(), uuid, drive);
        self.files.iter_mut().for_each(|files| files.make(drive, uuid));
        let mut rack = self.rack.lock();
        assert!(drive <= rack.drives.len(), "place {drive} behind {} places", rack.drives.len());
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

    /// True when so many drives may have failed that the cache has to freeze, or refuse.
    pub(super) fn may_freeze(&self) -> bool {
        !self.bays.blamed.is_empty() || !self.bays.spoilt.is_empty()
    }

    pub(super) fn go_dark(&mut self, power: bool) {
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

    /// Drives that could not be opened for a mount are missing; only what failed excuses that.
    pub(super) fn judge_openings(&mut self) -> Result<(), Failure> {
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
}

/// Identity of the drive that is in a place at first.
fn first_uuid(drive: usize) -> [u8; 16] {
    [u8::try_from(drive + 1).expect("few drives"); 16]
}

/// A drive in a place, empty. It remembers what zones held before they were reset, for reads that are stale.
pub(super) fn new_drive(plan: &Plan, latency: &Latency, uuid: [u8; 16], place: usize) -> Drive {
    let mut drive = Drive::with_manner(&plan.manner(latency), plan.geometry(), uuid, place);
    drive.remember_zones();
    drive.slow_down(plan.slow);
    drive.share(plan.zones);
    drive
}
