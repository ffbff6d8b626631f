//! A mounted cache: a shard and its drives.

use crate::config::slots_of;
use crate::format::NAMESPACES;
use crate::policy::Stream;
use crate::request::{Cache, Namespace, Reply, Request, WallMillis};
use crate::shard::{BayRefusal, Drive, Effects, Shard, ZoneUse};
use crate::shared::SharedMemory;
use crate::status::{DriveStatus, NamespaceStatus, Recovery, Status, ZoneCounts};
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, DriveIndex};
use zone::device::{Completion, Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// See the module.
pub struct CacheVolume {
    shard: Shard,
    drives: DriveSet,
    effects: Effects,
    completions: Vec<(DriveIndex, Completion)>,
    recovery: Recovery,
    ready_at: Instant,
    memory: Option<Box<dyn SharedMemory>>,
}

impl CacheVolume {
    pub(crate) fn new(
        shard: Shard,
        drives: DriveSet,
        recovery: Recovery,
        memory: Option<Box<dyn SharedMemory>>,
    ) -> CacheVolume {
        let (effects, completions) = (Effects::default(), Vec::new());
        CacheVolume { shard, drives, effects, completions, recovery, ready_at: Instant(0), memory }
    }

    /// The process is about to end in good order: drives take what memory alone holds.
    pub fn begin_stop(&mut self) {
        self.shard.begin_stop();
    }

    /// True when the process may end, and nothing that should be on drives is lost.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.is_flushed() && self.in_flight() == 0 && self.shard.needs_no_memory()
    }

    /// Stores entries before anybody is told that they are there.
    fn share(&mut self) {
        let writes = self.shard.take_shared();
        if let Some(memory) = &mut self.memory {
            writes.iter().for_each(|(at, bytes)| memory.write(*at, bytes));
        }
    }

    /// Time at which the mount ended, for drives in virtual time.
    #[must_use]
    pub fn ready_at(&self) -> Instant {
        self.ready_at
    }

    /// Turns until what recovery has to write and reset is on the media.
    pub(crate) fn make_ready(&mut self, mut now: Instant, wall: WallMillis) {
        let mut replies = Vec::new();
        while !self.shard.is_ready() {
            if !self.turn(now, wall, &mut replies) {
                match self.drives.next_event() {
                    Some(next) => now = now.max(next),
                    None => std::hint::spin_loop(),
                }
            }
        }
        assert!(replies.is_empty(), "nobody asked yet");
        self.ready_at = now;
    }

    /// Everything is forgotten, durably, before what comes from now on is answered.
    pub fn forget_all(&mut self) {
        self.shard.forget_all();
    }

    /// True when nothing that has to be forgotten could come back with another life.
    #[must_use]
    pub fn has_forgotten(&self) -> bool {
        !self.shard.is_forgetting() && !self.is_frozen()
    }

    /// Judges whether a new drive may take a place now.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_join(&self, place: usize, geometry: &Geometry) -> Result<(), BayRefusal> {
        self.shard.may_join(place, geometry)?;
        match self.drives.in_flight(DriveIndex::at(place)) {
            0 => Ok(()),
            // Its answers would be taken for those of the new one.
            _ => Err(BayRefusal::Busy),
        }
    }

    /// An empty drive takes a place, with an identity that is new.
    ///
    /// # Panics
    /// When it may not ([`CacheVolume::may_join`]).
    pub fn join(&mut self, place: usize, device: Box<dyn ZonedDevice>, uuid: [u8; 16]) {
        let in_flight = self.drives.in_flight(DriveIndex::at(place));
        assert!(in_flight == 0, "answers of the drive before would be taken for those of the new one");
        self.shard.join(place, device.geometry(), uuid);
        self.drives.replace(DriveIndex::at(place), device);
    }

    /// Judges whether a place may be made for one drive more.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_grow(&self, geometry: &Geometry) -> Result<(), BayRefusal> {
        self.shard.may_grow(geometry)
    }

    /// Makes a place for one drive more, and returns it.
    ///
    /// # Panics
    /// When it may not ([`CacheVolume::may_grow`]).
    pub fn grow(&mut self, geometry: &Geometry) -> usize {
        self.shard.grow(geometry);
        self.drives.grow();
        self.drives.len() - 1
    }

    /// Bytes of all places, for which the next mount makes the index.
    #[must_use]
    pub fn flash_bytes(&self) -> u64 {
        self.shard.flash_bytes()
    }

    /// Slots of the index, of those that it would have if it were made for the drives that are there now.
    #[must_use]
    pub fn index_share(&self) -> f64 {
        self.shard.index_share()
    }

    /// True when superblocks say who belongs to the cache.
    #[must_use]
    pub fn has_recorded(&self) -> bool {
        self.shard.membership().is_settled()
    }

    /// True when no drive takes writes.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.shard.membership().is_frozen()
    }

    /// Takes a drive out of service: what it holds is given up.
    ///
    /// # Errors
    /// When it may not be.
    pub fn take_out(&mut self, place: usize) -> Result<(), BayRefusal> {
        self.shard.may_take_out(place)?;
        self.drives.abandon(DriveIndex::at(place));
        self.shard.take_out(place);
        Ok(())
    }

    /// The drives.
    pub fn drives_mut(&mut self) -> &mut DriveSet {
        &mut self.drives
    }

    /// Gives the drives back; what is in buffers is lost.
    #[must_use]
    pub fn into_drives(self) -> DriveSet {
        self.drives
    }

    /// Earliest event of drives in virtual time.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.drives.next_event()
    }

    /// Commands that drives were given and have not answered.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        (0..self.drives.len()).map(|place| self.drives.in_flight(DriveIndex::at(place))).sum()
    }

    /// True when everything that was stored is in pages on the media: nothing is in buffers.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.shard.buffer_bytes() == 0
    }

    /// The shard.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Namespaces, with what is not told by their zones.
    fn namespaces(&self) -> [NamespaceStatus; NAMESPACES] {
        std::array::from_fn(|place| {
            let namespace = Namespace(u8::try_from(place).expect("few namespaces"));
            let drives = self.shard.drives().iter().filter(|drive| drive.up);
            let own = drives.filter_map(|drive| drive.share(namespace));
            NamespaceStatus {
                counters: self.shard.counters().namespaces[place],
                objects: self.shard.objects(namespace),
                zones: 0,
                zones_max: own.map(|own| own.zones_max).sum(),
                copies_bytes: self.shard.memory().share_bytes(namespace),
                share: self.shard.options().shares.of(namespace).copied(),
            }
        })
    }

    /// Drives, by their places.
    #[must_use]
    pub fn drives_status(&self) -> Vec<DriveStatus> {
        let drives = self.shard.drives().iter().enumerate();
        drives.map(|(place, drive)| self.drive_status(place, drive)).collect()
    }

    fn drive_status(&self, place: usize, drive: &Drive) -> DriveStatus {
        let in_flight = self.drives.in_flight(DriveIndex::at(place));
        if !drive.up {
            return DriveStatus { in_flight, ..DriveStatus::default() };
        }
        let mut zones = ZoneCounts {
            free: drive.zones.count(ZoneUse::Free),
            open: drive.zones.count(ZoneUse::Open),
            full: drive.zones.count(ZoneUse::Full),
            journal: drive.zones.count(ZoneUse::Journal),
            leaving: drive.zones.leaving(),
            ..ZoneCounts::default()
        };
        let mut blocks_used = 0;
        for zone in drive.zones.iter().filter(|zone| zone.is_readable()) {
            if let Some(stream) = Stream::from_code(zone.stream) {
                zones.add(stream, self.shard.wall().0.saturating_sub(zone.since.0));
            }
            blocks_used += u64::from(zone.end);
        }
        DriveStatus {
            up: true,
            zones,
            journal_zones_max: drive.journal_max(),
            bytes_used: blocks_used * BLOCK_BYTES_U64,
            bytes: u64::from(drive.span) * BLOCK_BYTES_U64,
            in_flight,
        }
    }

    /// Status of the cache.
    #[must_use]
    pub fn status(&self) -> Status {
        let (mut zones, mut namespaces) = (ZoneCounts::default(), self.namespaces());
        let (mut flash_bytes, mut expired_bytes) = (0, 0);
        for drive in self.drives_status() {
            zones += drive.zones;
            flash_bytes += drive.bytes_used;
        }
        for drive in self.shard.drives().iter().filter(|drive| drive.up) {
            for zone in drive.zones.iter().filter(|zone| zone.is_readable()) {
                if let Some(Stream::Share(namespace)) = Stream::from_code(zone.stream) {
                    namespaces[usize::from(namespace.0)].zones += usize::from(zone.stays());
                }
                expired_bytes += zone.expiries.expired_bytes(self.shard.wall());
            }
        }
        Status {
            namespaces,
            counters: *self.shard.counters(),
            objects: (0..16).map(|namespace| self.shard.objects(Namespace(namespace))).sum(),
            index_bytes: self.shard.index().bytes(),
            index_slots: self.shard.index().used(),
            index_slots_max: slots_of(self.shard.index().bytes()),
            buffer_bytes: self.shard.buffer_bytes(),
            copies_bytes: self.shard.memory().bytes(),
            copies: self.shard.memory().objects() as u64,
            eviction: self.shard.options().eviction,
            admission: self.shard.admission(),
            acknowledge: self.shard.options().acknowledge,
            invalidate: self.shard.options().invalidate,
            ghost_bytes: self.shard.ghost_bytes(),
            listing_bytes: self.shard.listing_bytes(),
            zones,
            flash_bytes,
            expired_bytes,
            drives: self.shard.drives().iter().filter(|drive| drive.up).count(),
            frozen: self.shard.membership().is_frozen(),
            recovery: self.recovery,
        }
    }
}

impl Cache for CacheVolume {
    fn submit(&mut self, _now: Instant, wall: WallMillis, request: Request) {
        self.shard.submit(wall, request);
    }

    fn turn(&mut self, now: Instant, wall: WallMillis, replies: &mut Vec<Reply>) -> bool {
        self.drives.poll(now, &mut self.completions);
        let mut has_moved = !self.completions.is_empty();
        for (drive, completion) in self.completions.drain(..) {
            self.shard.complete(drive, completion, &mut self.effects);
        }
        self.shard.turn(now, wall, &mut self.effects);
        self.share();
        has_moved |= !self.effects.commands.is_empty() || !self.effects.replies.is_empty();
        for command in self.effects.commands.drain(..) {
            self.drives.submit(now, command);
        }
        replies.append(&mut self.effects.replies);
        has_moved || self.shard.is_eager()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.shard.next_deadline()
    }

    fn objects(&self, namespace: Namespace) -> u64 {
        self.shard.objects(namespace)
    }
}
