//! Random write areas: what a window behind the write pointer allows.
//!
//! ```text
//!       committed        WP   window          WP + W   implicit commit   WP + 2W
//!   |--------------------|---------------------|-----------------------|------
//!     never again          any order, again      moves WP on by granules   never
//! ```
//! A write in the window leaves the write pointer where it is. One that ends beyond the window moves it by the fewest
//! granules that put its end inside. Where at most a window is left of the zone, no write ends beyond it: only a commit
//! or a finish makes the zone full.

use super::ZoneTable;
use crate::device::{Areas, Geometry, Status, ZoneState};
use base::units::ZoneIndex;

impl Areas {
    /// Write pointer after a write that ends at `end`, which the rules allow.
    #[must_use]
    pub fn write_pointer_after(&self, write_pointer: u32, end: u32) -> u32 {
        let beyond = end.saturating_sub(write_pointer.saturating_add(self.window_blocks));
        write_pointer + beyond.next_multiple_of(self.granule_blocks)
    }

    /// End of the window of a zone.
    #[must_use]
    pub fn window_end(&self, geometry: &Geometry, write_pointer: u32) -> u32 {
        write_pointer.saturating_add(self.window_blocks).min(geometry.zone_capacity_blocks)
    }
}

impl ZoneTable {
    /// Zones that have a random write area.
    #[must_use]
    pub fn area_count(&self) -> u32 {
        self.area_count
    }

    /// Opens an empty zone explicitly, with a random write area. A zone that has one stays as it is.
    ///
    /// # Errors
    /// [`Status::InvalidZoneOperation`] when the zone is not empty or the drive has no areas, [`Status::NoAreaLeft`],
    /// or a limit of open or active zones.
    pub fn open_with_area(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        self.check_exists(zone)?;
        let found = self.zone(zone);
        if found.area.is_some() {
            return Ok(());
        }
        let areas = self.geometry.areas.ok_or(Status::InvalidZoneOperation)?;
        if found.state != ZoneState::Empty {
            return Err(Status::InvalidZoneOperation);
        }
        if self.area_count >= areas.zones_max {
            return Err(Status::NoAreaLeft);
        }
        self.take_resources(zone)?;
        self.enter(zone, ZoneState::ExplicitOpen);
        self.zones[zone.index()].area = Some(0);
        self.area_count += 1;
        Ok(())
    }

    /// Commits the area of a zone up to `end`.
    ///
    /// # Errors
    /// [`Status::InvalidField`] when the drive does not commit when told to or `end` is not whole granules after the
    /// write pointer within the window, [`Status::InvalidZoneOperation`] when the zone has no area.
    pub fn commit(&mut self, zone: ZoneIndex, end: u32) -> Result<(), Status> {
        self.check_exists(zone)?;
        let areas = self.geometry.areas.filter(|areas| areas.explicit_commit).ok_or(Status::InvalidField)?;
        let found = self.zone(zone);
        if found.area.is_none() {
            return Err(Status::InvalidZoneOperation);
        }
        let granules = end.checked_sub(found.write_pointer).ok_or(Status::InvalidField)?;
        let is_whole = granules > 0 && granules.is_multiple_of(areas.granule_blocks);
        if !is_whole || end > areas.window_end(&self.geometry, found.write_pointer) {
            return Err(Status::InvalidField);
        }
        self.open_implicitly(zone)?;
        self.zones[zone.index()].write_pointer = end;
        self.note_written(zone, end);
        if end == self.geometry.zone_capacity_blocks {
            self.give_area_back(zone);
            self.enter(zone, ZoneState::Full);
        }
        Ok(())
    }

    /// A write into a zone with an area, within the zone's capacity.
    pub(super) fn write_in_area(&mut self, zone: ZoneIndex, offset: u32, blocks: u32) -> Result<(), Status> {
        let areas = self.geometry.areas.ok_or(Status::InvalidZoneOperation)?;
        let write_pointer = self.zone(zone).write_pointer;
        let (end, reach) = (offset + blocks, areas.window_blocks.saturating_mul(2));
        if offset < write_pointer || end - write_pointer > reach {
            return Err(Status::ZoneInvalidWrite);
        }
        self.open_implicitly(zone)?;
        self.zones[zone.index()].write_pointer = areas.write_pointer_after(write_pointer, end);
        self.note_written(zone, end);
        Ok(())
    }

    /// The zone has no area from now on; what was written in it counts as written.
    pub(super) fn give_area_back(&mut self, zone: ZoneIndex) {
        let entry = &mut self.zones[zone.index()];
        if let Some(written_end) = entry.area.take() {
            entry.write_pointer = written_end;
            self.area_count -= 1;
        }
    }

    fn note_written(&mut self, zone: ZoneIndex, end: u32) {
        if let Some(written_end) = &mut self.zones[zone.index()].area {
            *written_end = end.max(*written_end);
        }
    }

    pub(super) fn check_areas(&self) {
        let (window, granule, most) = match self.geometry.areas {
            Some(areas) => (areas.window_blocks, areas.granule_blocks, areas.zones_max),
            None => (0, 1, 0),
        };
        let with_area = self.zones.iter().filter_map(|zone| Some((zone, zone.area?)));
        assert!(with_area.clone().count() == self.area_count as usize);
        assert!(self.area_count <= most);
        for (zone, written_end) in with_area {
            assert!(zone.state.is_active());
            assert!(zone.write_pointer.is_multiple_of(granule));
            assert!(zone.write_pointer <= written_end && written_end - zone.write_pointer <= window);
            assert!(written_end <= self.geometry.zone_capacity_blocks);
        }
    }
}
