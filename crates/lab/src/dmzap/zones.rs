//! Zones and the map: which block lies where, and how much of a zone lives.

use anyhow::{Context, Result};

/// A place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) zone: u32,
    pub(super) offset: u32,
}

/// Mapping of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    place: Option<Place>,
    /// Order of the write or trim that counts.
    sequence: u64,
}

/// Stage of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    Open,
    Full,
}

#[derive(Debug)]
struct Zone {
    stage: Stage,
    /// Block of each place that was given away, in order.
    owners: Vec<u32>,
    live: u32,
    /// Reads in flight.
    reads: u32,
    /// Order of the last write when it became full.
    sealed_at: u64,
}

/// All zones, and the map.
#[derive(Debug)]
pub(super) struct Zones {
    zones: Vec<Zone>,
    zone_blocks: u32,
    known: Vec<Known>,
    free: u32,
}

impl Zones {
    pub(super) fn new(zones: u32, zone_blocks: u32, blocks: u64) -> Result<Zones> {
        let empty = || Zone { stage: Stage::Free, owners: Vec::new(), live: 0, reads: 0, sealed_at: 0 };
        let blocks = u32::try_from(blocks).context("at most 2^32 blocks")?;
        Ok(Zones {
            zones: (0..zones).map(|_| empty()).collect(),
            zone_blocks,
            known: vec![Known::default(); blocks as usize],
            free: zones,
        })
    }

    fn zone(&mut self, zone: u32) -> &mut Zone {
        &mut self.zones[zone as usize]
    }

    fn known(&self, lba: u64) -> Known {
        self.known[usize::try_from(lba).expect("within the map")]
    }

    fn known_mut(&mut self, lba: u64) -> &mut Known {
        &mut self.known[usize::try_from(lba).expect("within the map")]
    }

    pub(super) fn free_count(&self) -> u32 {
        self.free
    }

    /// Opens a free zone.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let found = self.zones.iter().position(|zone| zone.stage == Stage::Free)?;
        let zone = &mut self.zones[found];
        zone.stage = Stage::Open;
        self.free -= 1;
        u32::try_from(found).ok()
    }

    /// Blocks that still fit.
    pub(super) fn room(&self, zone: u32) -> u32 {
        let owners = &self.zones[zone as usize].owners;
        self.zone_blocks - u32::try_from(owners.len()).expect("at most a zone")
    }

    /// Gives away the next places of an open zone; returns the first.
    pub(super) fn place_at_end(&mut self, zone: u32, lbas: impl Iterator<Item = u64>) -> u32 {
        let most = self.zone_blocks as usize;
        let zone = self.zone(zone);
        assert!(zone.stage == Stage::Open, "only open zones are written");
        let first = zone.owners.len();
        zone.owners.extend(lbas.map(|lba| u32::try_from(lba).expect("within the map")));
        assert!(zone.owners.len() <= most, "a zone has an end");
        u32::try_from(first).expect("at most a zone")
    }

    /// A block was written, unless something later counts.
    pub(super) fn map(&mut self, lba: u64, place: Place, sequence: u64) {
        if sequence < self.known(lba).sequence {
            return;
        }
        self.forget(lba, sequence);
        self.known_mut(lba).place = Some(place);
        self.zone(place.zone).live += 1;
    }

    /// A block was moved, unless it was written or trimmed meanwhile.
    pub(super) fn move_to(&mut self, lba: u64, from: Place, to: Place) {
        let Known { place, sequence } = self.known(lba);
        if place == Some(from) {
            self.map(lba, to, sequence);
        }
    }

    /// Unmaps a block: its copy counts no more.
    pub(super) fn forget(&mut self, lba: u64, sequence: u64) {
        let known = self.known_mut(lba);
        assert!(known.sequence <= sequence);
        known.sequence = sequence;
        if let Some(old) = known.place.take() {
            let zone = self.zone(old.zone);
            assert!(zone.live > 0, "what was mapped was live");
            zone.live -= 1;
        }
    }

    /// Place of a block, and how many from there on lie one behind the other, or nowhere.
    pub(super) fn run_of(&self, lba: u64, most: u32) -> (Option<Place>, u32) {
        let first = self.known(lba).place;
        let goes_on = |ahead: u32| {
            let place = self.known(lba + u64::from(ahead)).place;
            place == first.map(|first| Place { offset: first.offset + ahead, ..first })
        };
        (first, (1..most).find(|ahead| !goes_on(*ahead)).unwrap_or(most))
    }

    pub(super) fn begin_read(&mut self, zone: u32) {
        self.zone(zone).reads += 1;
    }

    pub(super) fn end_read(&mut self, zone: u32) {
        let zone = self.zone(zone);
        assert!(zone.reads > 0);
        zone.reads -= 1;
    }

    /// A zone is full, and all its writes are done.
    pub(super) fn seal(&mut self, zone: u32, sequence: u64) {
        let zone = self.zone(zone);
        assert!(zone.stage == Stage::Open);
        (zone.stage, zone.sealed_at) = (Stage::Full, sequence);
    }

    /// Nothing lives or is read in a zone.
    pub(super) fn is_dead(&self, zone: u32) -> bool {
        let zone = &self.zones[zone as usize];
        zone.live == 0 && zone.reads == 0
    }

    /// A zone was reset.
    pub(super) fn release(&mut self, zone: u32) {
        assert!(self.is_dead(zone), "zone {zone} was in use");
        let zone = self.zone(zone);
        assert!(zone.stage == Stage::Full);
        zone.stage = Stage::Free;
        zone.owners.clear();
        self.free += 1;
    }

    /// Full zones that hold something dead: number, share that lives, and when they became full.
    pub(super) fn victims(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let full = (0..).zip(&self.zones).filter(|(_, zone)| zone.stage == Stage::Full);
        let dead = full.filter(|(_, zone)| zone.live < self.zone_blocks);
        dead.map(|(number, zone)| (number, zone.live, zone.sealed_at))
    }

    /// The next live blocks of a full zone from an offset on, one behind the other.
    pub(super) fn live_run(&self, zone: u32, from: u32, most: u32) -> Vec<(u64, Place)> {
        let owners = &self.zones[zone as usize].owners;
        let at = |offset: u32| {
            let (lba, place) = (u64::from(owners[offset as usize]), Place { zone, offset });
            (self.known(lba).place == Some(place)).then_some((lba, place))
        };
        let all = (from..self.zone_blocks).map(at).skip_while(Option::is_none);
        all.map_while(|found| found).take(most as usize).collect()
    }

    /// Sums are right.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut live = vec![0; self.zones.len()];
        for (lba, known) in self.known.iter().enumerate() {
            let Some(Place { zone, offset }) = known.place else { continue };
            live[zone as usize] += 1;
            assert_eq!(self.zones[zone as usize].owners[offset as usize] as usize, lba);
        }
        assert!(self.zones.iter().zip(live).all(|(zone, live)| zone.live == live));
        assert_eq!(self.zones.iter().filter(|zone| zone.stage == Stage::Free).count(), self.free as usize);
    }
}
