//! Zones as the table and the media have them: looked up, stored, put back. All other parts of a drive build on this.

use super::EmulatedDrive;
use base::units::ZoneIndex;
use zone::condition::Loss;
use zone::device::Status;
use zone::rules::{Zone, ZoneTable};

impl EmulatedDrive {
    /// Looks whether the drive's file is still there, which may wait for a disk. A drive that is lost stays lost.
    pub fn look(&mut self) -> Option<Loss> {
        if self.loss.is_none() {
            self.loss = self.watch.as_mut().and_then(|watch| watch.look());
        }
        self.loss
    }

    /// True when the last look found the header of the drive's file damaged.
    #[must_use]
    pub fn header_is_damaged(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.header_is_damaged())
    }

    /// Stores what the table says of a zone.
    pub(super) fn store(&mut self, zone: ZoneIndex) {
        self.media.store(zone, self.table.zone(zone));
        if self.windows.is_some() {
            self.release_window(zone);
        }
    }

    /// The zone before a command, if there is such a zone.
    pub(super) fn zone_before(&self, zone: ZoneIndex) -> Result<Zone, Status> {
        if zone.0 < self.geometry.zones { Ok(self.table.zone(zone)) } else { Err(Status::LbaOutOfRange) }
    }

    /// Puts a zone back to where it was before a write that failed. Another zone that was closed in
    /// its favour stays closed, which a drive may do at any time.
    #[cold]
    pub(super) fn undo(&mut self, zone: ZoneIndex, before: Zone) {
        let mut zones: Vec<Zone> =
            (0..self.geometry.zones).map(|index| self.table.zone(ZoneIndex(index))).collect();
        // Blocks that went into the window before the fault are there.
        let written_end =
            self.windows.as_ref().filter(|_| before.area.is_some()).map(|own| own.written_end(zone));
        zones[zone.index()] = Zone { area: before.area.max(written_end), ..before };
        self.table = ZoneTable::from_zones(self.geometry, zones);
    }

    /// A zone is in another state than the rules left it in.
    pub(super) fn become_zone(&mut self, zone: ZoneIndex, state: Zone) {
        let count = self.geometry.zones;
        let mut zones: Vec<Zone> = (0..count).map(|index| self.table.zone(ZoneIndex(index))).collect();
        zones[zone.index()] = state;
        self.table = ZoneTable::from_zones(self.geometry, zones);
        self.store(zone);
    }

    /// The zone's entry is stored: a window that it no longer has is free.
    pub(super) fn release_window(&mut self, zone: ZoneIndex) {
        if let Some(windows) = &mut self.windows
            && self.table.zone(zone).area.is_none()
        {
            windows.give_back(zone, &mut self.media);
        }
    }
}
