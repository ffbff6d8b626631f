//! Zones of a drive, counted by what they are used for: who asks how many are free, or which is the oldest, asks often.
//!
//! ```text
//!   Free -> Open -> Full -> [Collecting] -> Draining -> Resetting -> Sweeping -> Free
//!    \-> Journal ---------------------------------------/    \--- of the journal ---^
//! ```

use super::expiries::Expiries;
use crate::format::NAMESPACES;
use crate::request::WallMillis;
use base::units::ZoneIndex;
use std::ops::{Deref, DerefMut};

/// Use of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneUse {
    /// The superblock log, or a zone that the drive has given up.
    Kept,
    /// Nothing; it is empty.
    Free,
    /// Pages, with room for more.
    Open,
    /// Pages.
    Full,
    /// A victim of which objects are written anew before it is drained.
    Collecting,
    /// A victim whose readers and writers end.
    Draining,
    /// A victim that is being reset.
    Resetting,
    /// Empty; slots may still name it.
    Sweeping,
    /// Journal blocks.
    Journal,
}

const USES: usize = ZoneUse::Journal as usize + 1;

impl ZoneUse {
    /// True of victims, until they are free.
    #[must_use]
    pub fn is_leaving(self) -> bool {
        matches!(self, ZoneUse::Collecting | ZoneUse::Draining | ZoneUse::Resetting | ZoneUse::Sweeping)
    }

    /// True of zones on whose media bytes of objects are, or may be.
    fn holds_data(self) -> bool {
        use ZoneUse::{Collecting, Draining, Full, Open, Resetting};
        let is_readable = matches!(self, Open | Full | Collecting);
        is_readable || matches!(self, Draining | Resetting)
    }

    /// True when a zone that is used for this may be used for that next.
    fn may_become(self, next: ZoneUse) -> bool {
        use ZoneUse::{Collecting, Draining, Free, Full, Journal, Open, Resetting, Sweeping};
        match self {
            ZoneUse::Kept => false,
            Free => matches!(next, Open | Journal),
            Open => matches!(next, Full | Collecting | Draining),
            Full => matches!(next, Collecting | Draining),
            Collecting => next == Draining,
            Draining | Journal => next == Resetting,
            Resetting => matches!(next, Sweeping | Free),
            Sweeping => next == Free,
        }
    }
}

/// A zone.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    used: ZoneUse,
    /// Sequence at which this life of it began.
    pub birth: u64,
    /// Wall time at which it began.
    pub since: WallMillis,
    /// No record of it has a higher sequence.
    pub last: u64,
    /// Stream of its blocks, as it stands on the media.
    pub stream: u8,
    /// Next block to write.
    pub end: u32,
    /// Reads under way.
    pub readers: u32,
    /// Objects that it holds, by namespace.
    pub live: [u32; NAMESPACES],
    /// Hits of its objects since its life began, or eviction spared it.
    pub hits: u64,
    /// Sequence at the last hit.
    pub last_hit: u64,
    /// Expiry times of its records.
    pub expiries: Expiries,
}

impl Zone {
    /// A zone that holds nothing.
    #[must_use]
    pub fn new(used: ZoneUse) -> Zone {
        Zone {
            used,
            birth: 0,
            since: WallMillis(0),
            last: 0,
            stream: 0,
            end: 0,
            readers: 0,
            live: [0; NAMESPACES],
            hits: 0,
            last_hit: 0,
            expiries: Expiries::new(0),
        }
    }

    /// Use of the zone.
    #[must_use]
    pub fn used(&self) -> ZoneUse {
        self.used
    }

    /// True when its pages can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        matches!(self.used, ZoneUse::Open | ZoneUse::Full | ZoneUse::Collecting)
    }

    /// True when it has pages, and does not go yet.
    #[must_use]
    pub fn stays(&self) -> bool {
        matches!(self.used, ZoneUse::Open | ZoneUse::Full)
    }

    /// True of a victim whose pages are read no more, and are there still.
    #[must_use]
    pub fn is_being_reset(&self) -> bool {
        matches!(self.used, ZoneUse::Draining | ZoneUse::Resetting)
    }

    /// Objects that it holds, of all namespaces.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.live.iter().map(|live| u64::from(*live)).sum()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Zones {
    zones: Vec<Zone>,
    counts: [usize; USES],
    /// Birth of the oldest zone that holds data.
    horizon: u64,
}

impl Zones {
    /// Set of these zones, with their counts by use.
    #[must_use]
    pub fn new(zones: Vec<Zone>) -> Zones {
        let mut counts = [0; USES];
        zones.iter().for_each(|zone| counts[zone.used as usize] += 1);
        let horizon = horizon(&zones);
        Zones { zones, counts, horizon }
    }

    /// Zones that are used for this.
    #[must_use]
    pub fn count(&self, used: ZoneUse) -> usize {
        self.counts[used as usize]
    }

    /// Victims, until they are free.
    #[must_use]
    pub fn leaving(&self) -> usize {
        use ZoneUse::{Collecting, Draining, Resetting, Sweeping};
        [Collecting, Draining, Resetting, Sweeping].map(|used| self.count(used)).iter().sum()
    }

    /// Birth of the oldest zone that holds data.
    #[must_use]
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Births of zones that hold data, lowest first.
    #[must_use]
    pub fn births(&self) -> Vec<u64> {
        let with_data = self.zones.iter().filter(|zone| zone.used.holds_data());
        let mut births: Vec<u64> = with_data.map(|zone| zone.birth).collect();
        births.sort_unstable();
        births
    }

    /// A free zone begins a life, with blocks of a stream.
    pub fn begin(&mut self, zone: ZoneIndex, used: ZoneUse, (birth, since): (u64, WallMillis), stream: u8) {
        let found = &mut self.zones[zone.index()];
        (found.birth, found.since, found.end, found.stream) = (birth, since, 0, stream);
        self.turn(zone, used);
    }

    /// A zone of the journal goes: it holds no data, and no horizon.
    pub fn drop_journal(&mut self, zone: ZoneIndex) {
        assert!(self.zones[zone.index()].used == ZoneUse::Journal, "zone {zone} is one of the journal");
        self.zones[zone.index()].birth = u64::MAX;
        self.turn(zone, ZoneUse::Resetting);
    }

    /// A zone is used for something else.
    pub fn turn(&mut self, zone: ZoneIndex, used: ZoneUse) {
        let found = &mut self.zones[zone.index()];
        assert!(
            used != ZoneUse::Resetting || found.readers == 0,
            "no reset of zone {zone} overtakes a reader"
        );
        let before = std::mem::replace(&mut found.used, used);
        assert!(before.may_become(used), "zone {zone}: {before:?} does not become {used:?}");
        let birth = found.birth;
        assert!(self.counts[before as usize] > 0, "zones that are {before:?} were counted");
        self.counts[before as usize] -= 1;
        self.counts[used as usize] += 1;
        if used.holds_data() {
            self.horizon = self.horizon.min(birth);
        } else if before.holds_data() && birth == self.horizon {
            self.horizon = horizon(&self.zones);
        }
    }

    /// A zone was reset. Slots of its objects are swept, if it held some; its stream says whether these are remembered.
    pub fn end(&mut self, zone: ZoneIndex) {
        let was_journal = self.zones[zone.index()].birth == u64::MAX;
        self.turn(zone, if was_journal { ZoneUse::Free } else { ZoneUse::Sweeping });
        let found = &mut self.zones[zone.index()];
        let stream = if was_journal { 0 } else { found.stream };
        *found = Zone { stream, ..Zone::new(found.used) };
    }

    /// Slots of a zone are swept.
    pub fn free(&mut self, zone: ZoneIndex) {
        self.turn(zone, ZoneUse::Free);
        assert!(self.zones[zone.index()].readers == 0, "nobody reads zone {zone}, which holds nothing");
        self.zones[zone.index()] = Zone::new(ZoneUse::Free);
    }

    /// Counts are those of the zones: for checks.
    #[must_use]
    pub fn are_counted(&self) -> bool {
        let Zones { zones, counts, horizon } = Zones::new(self.zones.clone());
        assert!(zones.len() == self.zones.len());
        (counts, horizon) == (self.counts, self.horizon)
    }
}

fn horizon(zones: &[Zone]) -> u64 {
    let births = zones.iter().filter(|zone| zone.used.holds_data()).map(|zone| zone.birth);
    births.min().unwrap_or(u64::MAX)
}

impl Deref for Zones {
    type Target = [Zone];

    fn deref(&self) -> &[Zone] {
        &self.zones
    }
}

impl DerefMut for Zones {
    fn deref_mut(&mut self) -> &mut [Zone] {
        &mut self.zones
    }
}
