//! What a simulation does to the media of a drive in memory: what power failures and broken firmware
//! leave behind.

use super::{EmulatedDrive, HeapMedia};
use base::frame::Frame;
use base::units::{BLOCK_BYTES, ZoneIndex};
use zone::device::ZoneState;
use zone::rules::Zone;

impl EmulatedDrive {
    /// State of a zone, without asking the drive.
    ///
    /// # Panics
    /// When there is no such zone.
    #[must_use]
    pub fn zone(&self, zone: ZoneIndex) -> Zone {
        self.table.zone(zone)
    }

    /// True when a zone has a random write area.
    ///
    /// # Panics
    /// When there is no such zone.
    #[must_use]
    pub fn has_area(&self, zone: ZoneIndex) -> bool {
        self.table.zone(zone).area.is_some()
    }

    /// The media of a drive that is switched off; `None` for a drive in a file.
    #[must_use]
    pub fn into_heap(self) -> Option<HeapMedia> {
        match self.media {
            super::Media::Heap(heap) => Some(heap),
            super::Media::Sparse(_) | super::Media::Mapped(_) | super::Media::File(_) => None,
        }
    }

    /// The volatile cache is lost: of what a zone holds, the first `keep` blocks remain. A full zone
    /// stays full, and what is lost reads as zeros.
    ///
    /// # Panics
    /// When there is no such zone, or it holds less.
    pub fn lose_tail(&mut self, zone: ZoneIndex, keep: u32) {
        let before = self.table.zone(zone);
        assert!(keep <= before.write_pointer);
        let state = match before.state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => before.state,
            _ if keep == 0 => ZoneState::Empty,
            _ => ZoneState::Closed,
        };
        self.become_zone(zone, Zone::new(state, keep));
    }

    /// A block holds something else than was written to it. Does nothing to a drive in a file.
    ///
    /// # Panics
    /// When the block was not written.
    pub fn overwrite(&mut self, zone: ZoneIndex, offset: u32, frame: &Frame) {
        let found = self.table.zone(zone);
        if found.area.is_some() && offset >= found.write_pointer {
            assert!(self.replace_in_window(zone, offset, frame), "only written blocks can be overwritten");
            return;
        }
        assert!(offset < found.write_pointer, "only written blocks can be overwritten");
        if let super::Media::Heap(heap) = &mut self.media {
            let (data, oob) = heap.block_mut(zone, offset).split_at_mut(BLOCK_BYTES);
            data.copy_from_slice(&frame.data);
            oob.copy_from_slice(&frame.oob);
        }
    }
}
