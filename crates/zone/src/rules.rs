//! The zone state machine as pure rules (NVMe ZNS 1.1, section 2.1.1.4 and figure 8).
//!
//! A [`ZoneTable`] holds the state of every zone of one drive and answers each command with the
//! outcome the specification demands. It moves no data. The emulated drive executes against one;
//! tests hold every other drive to it.
//!
//! ```text
//!           write, append, open                 write to the end, finish
//!  Empty ----------------------> open (implicit | explicit) ---------> Full
//!    ^                             |  ^                                 |
//!    |                       close v  | write, append, open             |
//!    |                            Closed                                |
//!    +------------------------------ reset -----------------------------+
//! ```
//! Invariants: open zones <= `open_zones_max`; active (open or closed) <= `active_zones_max`;
//! 0 <= write pointer <= capacity; zones with a random write area are active, and at most as many as the drive has
//! areas. What such areas allow is in `rules/areas.rs`.

mod areas;

use crate::device::{Geometry, Status, ZoneDescriptor, ZoneState};
use base::units::ZoneIndex;

/// State of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// State in the state machine.
    pub state: ZoneState,
    /// Next block to write; for full zones, how far it had been written. Of a zone with a random write area, what is
    /// committed, and the start of the window.
    pub write_pointer: u32,
    /// Random write area of the zone: the end of the last block that was written, or passed by the write pointer.
    pub area: Option<u32>,
}

impl Zone {
    /// A zone without a random write area.
    #[must_use]
    pub fn new(state: ZoneState, write_pointer: u32) -> Zone {
        Zone { state, write_pointer, area: None }
    }
}

/// The states of all zones of a drive.
#[derive(Clone, Debug)]
pub struct ZoneTable {
    geometry: Geometry,
    zones: Vec<Zone>,
    open_count: u32,
    active_count: u32,
    area_count: u32,
}

impl ZoneTable {
    /// All zones empty.
    #[must_use]
    pub fn new(geometry: Geometry) -> ZoneTable {
        let zones = vec![Zone::new(ZoneState::Empty, 0); geometry.zones as usize];
        ZoneTable { geometry, zones, open_count: 0, active_count: 0, area_count: 0 }
    }

    /// The table of a drive whose zones were found in these states.
    ///
    /// # Panics
    /// When the states break the limits of the geometry.
    #[must_use]
    pub fn from_zones(geometry: Geometry, zones: Vec<Zone>) -> ZoneTable {
        assert!(zones.len() == geometry.zones as usize);
        let count = |wanted: fn(&Zone) -> bool| {
            u32::try_from(zones.iter().filter(|zone| wanted(zone)).count()).expect("a u32 of zones")
        };
        let open_count = count(|zone| zone.state.is_open());
        let active_count = count(|zone| zone.state.is_active());
        let area_count = count(|zone| zone.area.is_some());
        let table = ZoneTable { geometry, zones, open_count, active_count, area_count };
        table.check_invariants();
        table
    }

    /// State of a zone.
    ///
    /// # Panics
    /// When there is no such zone.
    #[must_use]
    pub fn zone(&self, zone: ZoneIndex) -> Zone {
        self.zones[zone.index()]
    }

    /// Zones that count against the open limit.
    #[must_use]
    pub fn open_count(&self) -> u32 {
        self.open_count
    }

    /// Zones that count against the active limit.
    #[must_use]
    pub fn active_count(&self) -> u32 {
        self.active_count
    }

    /// A write of `blocks` at `offset`. On success the write pointer has moved.
    ///
    /// # Errors
    /// The NVMe status of the first rule that is broken.
    pub fn write(&mut self, zone: ZoneIndex, offset: u32, blocks: u32) -> Result<(), Status> {
        self.check_transfer(zone, blocks, self.geometry.transfer_blocks_max)?;
        self.check_writable(zone)?;
        let Zone { write_pointer, area, .. } = self.zone(zone);
        if u64::from(offset) + u64::from(blocks) > u64::from(self.geometry.zone_capacity_blocks) {
            return Err(Status::ZoneBoundaryError);
        }
        if area.is_some() {
            return self.write_in_area(zone, offset, blocks);
        }
        if offset != write_pointer {
            return Err(Status::ZoneInvalidWrite);
        }
        self.advance(zone, blocks)
    }

    /// An append of `blocks`; returns where they go. On success the write pointer has moved.
    ///
    /// # Errors
    /// The NVMe status of the first rule that is broken.
    pub fn append(&mut self, zone: ZoneIndex, blocks: u32) -> Result<u32, Status> {
        self.check_exists(zone)?;
        if self.zone(zone).area.is_some() {
            return Err(Status::InvalidZoneOperation);
        }
        self.check_transfer(zone, blocks, self.geometry.append_blocks_max)?;
        self.check_writable(zone)?;
        let offset = self.zone(zone).write_pointer;
        if u64::from(offset) + u64::from(blocks) > u64::from(self.geometry.zone_capacity_blocks) {
            return Err(Status::ZoneBoundaryError);
        }
        self.advance(zone, blocks)?;
        Ok(offset)
    }

    /// A read of `blocks` at `offset`. Reading beyond the write pointer is allowed and gives zeros.
    ///
    /// # Errors
    /// The NVMe status of the first rule that is broken.
    pub fn read(&self, zone: ZoneIndex, offset: u32, blocks: u32) -> Result<(), Status> {
        self.check_transfer(zone, blocks, self.geometry.transfer_blocks_max)?;
        if u64::from(offset) + u64::from(blocks) > u64::from(self.geometry.zone_size_blocks) {
            return Err(Status::ZoneBoundaryError);
        }
        match self.zone(zone).state {
            ZoneState::Offline => Err(Status::ZoneIsOffline),
            _ => Ok(()),
        }
    }

    /// Empties a zone.
    ///
    /// # Errors
    /// [`Status::InvalidZoneStateTransition`] for read-only and offline zones.
    pub fn reset(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        self.check_exists(zone)?;
        match self.zone(zone).state {
            ZoneState::ReadOnly | ZoneState::Offline => Err(Status::InvalidZoneStateTransition),
            _ => {
                self.give_area_back(zone);
                self.enter(zone, ZoneState::Empty);
                self.zones[zone.index()].write_pointer = 0;
                Ok(())
            }
        }
    }

    /// Makes a zone full. What was written in its window counts.
    ///
    /// # Errors
    /// [`Status::InvalidZoneStateTransition`] for read-only and offline zones.
    pub fn finish(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        self.check_exists(zone)?;
        match self.zone(zone).state {
            ZoneState::ReadOnly | ZoneState::Offline => Err(Status::InvalidZoneStateTransition),
            _ => {
                self.give_area_back(zone);
                self.enter(zone, ZoneState::Full);
                Ok(())
            }
        }
    }

    /// Opens a zone explicitly.
    ///
    /// # Errors
    /// When the state does not allow it or a limit is reached.
    pub fn open(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        self.check_exists(zone)?;
        match self.zone(zone).state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => {
                Err(Status::InvalidZoneStateTransition)
            }
            ZoneState::ExplicitOpen => Ok(()),
            ZoneState::ImplicitOpen => {
                self.enter(zone, ZoneState::ExplicitOpen);
                Ok(())
            }
            ZoneState::Empty | ZoneState::Closed => {
                self.take_resources(zone)?;
                self.enter(zone, ZoneState::ExplicitOpen);
                Ok(())
            }
        }
    }

    /// Closes an open zone.
    ///
    /// # Errors
    /// [`Status::InvalidZoneStateTransition`] when it is neither open nor closed.
    pub fn close(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        self.check_exists(zone)?;
        if !self.zone(zone).state.is_active() {
            return Err(Status::InvalidZoneStateTransition);
        }
        self.enter(zone, ZoneState::Closed);
        Ok(())
    }

    /// Descriptors of up to `count` zones from `first`.
    ///
    /// # Errors
    /// [`Status::LbaOutOfRange`] when `first` does not exist.
    pub fn report(&self, first: ZoneIndex, count: u32) -> Result<Vec<ZoneDescriptor>, Status> {
        self.check_exists(first)?;
        let zones = self.zones.iter().skip(first.index()).take(count as usize);
        Ok(zones.map(|zone| self.descriptor(zone)).collect())
    }

    /// The first of up to `count` zones from `first` on that turned read-only or offline, with the number of zones before it.
    ///
    /// # Errors
    /// [`Status::LbaOutOfRange`] when `first` does not exist.
    pub fn find_turned(&self, first: ZoneIndex, count: u32) -> Result<Option<(u32, ZoneDescriptor)>, Status> {
        self.check_exists(first)?;
        let mut zones = (0..count).zip(&self.zones[first.index()..]);
        let turned = zones.find(|(_, zone)| zone.state.has_turned());
        Ok(turned.map(|(before, zone)| (before, self.descriptor(zone))))
    }

    fn descriptor(&self, zone: &Zone) -> ZoneDescriptor {
        ZoneDescriptor {
            state: zone.state,
            write_pointer: match zone.state {
                ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => u32::MAX,
                _ => zone.write_pointer,
            },
            capacity: self.geometry.zone_capacity_blocks,
            has_area: zone.area.is_some(),
        }
    }

    /// The media degraded: a zone turns read-only or offline by itself.
    pub fn degrade(&mut self, zone: ZoneIndex, state: ZoneState) {
        assert!(matches!(state, ZoneState::ReadOnly | ZoneState::Offline));
        self.give_area_back(zone);
        self.enter(zone, state);
    }

    /// Asserts the limits. O(zones).
    pub fn check_invariants(&self) {
        let open = self.zones.iter().filter(|zone| zone.state.is_open()).count();
        let active = self.zones.iter().filter(|zone| zone.state.is_active()).count();
        assert!(open == self.open_count as usize);
        assert!(active == self.active_count as usize);
        assert!(self.open_count <= self.geometry.open_zones_max);
        assert!(self.active_count <= self.geometry.active_zones_max);
        for zone in &self.zones {
            assert!(zone.write_pointer <= self.geometry.zone_capacity_blocks);
            assert!(zone.state != ZoneState::Empty || zone.write_pointer == 0);
        }
        self.check_areas();
    }

    fn check_exists(&self, zone: ZoneIndex) -> Result<(), Status> {
        if zone.0 < self.geometry.zones { Ok(()) } else { Err(Status::LbaOutOfRange) }
    }

    fn check_transfer(&self, zone: ZoneIndex, blocks: u32, blocks_max: u32) -> Result<(), Status> {
        self.check_exists(zone)?;
        if blocks == 0 || blocks > blocks_max { Err(Status::InvalidField) } else { Ok(()) }
    }

    fn check_writable(&self, zone: ZoneIndex) -> Result<(), Status> {
        match self.zone(zone).state {
            ZoneState::Full => Err(Status::ZoneIsFull),
            ZoneState::ReadOnly => Err(Status::ZoneIsReadOnly),
            ZoneState::Offline => Err(Status::ZoneIsOffline),
            ZoneState::Empty | ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
                Ok(())
            }
        }
    }

    /// Opens the zone implicitly if it is not open.
    fn open_implicitly(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        if !self.zone(zone).state.is_open() {
            self.take_resources(zone)?;
            self.enter(zone, ZoneState::ImplicitOpen);
        }
        Ok(())
    }

    /// Opens the zone if it is not open and moves its write pointer.
    fn advance(&mut self, zone: ZoneIndex, blocks: u32) -> Result<(), Status> {
        self.open_implicitly(zone)?;
        let entry = &mut self.zones[zone.index()];
        entry.write_pointer += blocks;
        if entry.write_pointer == self.geometry.zone_capacity_blocks {
            self.enter(zone, ZoneState::Full);
        }
        Ok(())
    }

    /// Makes sure `zone`, empty or closed, may open. At the open limit the drive closes an
    /// implicitly opened zone of its own choice (ZNS 1.1 section 2.1.1.4.1): here the lowest.
    fn take_resources(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        let closed = self.zone(zone).state == ZoneState::Closed;
        if !closed && self.active_count == self.geometry.active_zones_max {
            return Err(Status::TooManyActiveZones);
        }
        if self.open_count == self.geometry.open_zones_max {
            let implicit = self.zones.iter().position(|zone| zone.state == ZoneState::ImplicitOpen);
            let victim = implicit.ok_or(Status::TooManyOpenZones)?;
            self.enter(ZoneIndex(u32::try_from(victim).expect("a u32 of zones")), ZoneState::Closed);
        }
        Ok(())
    }

    fn enter(&mut self, zone: ZoneIndex, state: ZoneState) {
        let entry = &mut self.zones[zone.index()];
        self.open_count -= u32::from(entry.state.is_open());
        self.active_count -= u32::from(entry.state.is_active());
        entry.state = state;
        self.open_count += u32::from(state.is_open());
        self.active_count += u32::from(state.is_active());
    }
}

#[cfg(test)]
mod tests;
