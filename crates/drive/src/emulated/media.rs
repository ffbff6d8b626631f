//! Where a drive keeps its blocks and its zone table: the heap or a file.
//!
//! Both are asked the same way. A file of a tmpfs is a file: the process may die, the machine may
//! not.

use super::entry::pack;
use super::file::FileMedia;
use super::heap::HeapMedia;
use base::frame::Frame;
use base::units::ZoneIndex;
use zone::device::Status;
use zone::rules::Zone;

/// The media of a drive.
#[derive(Debug)]
pub(super) enum Media {
    Heap(HeapMedia),
    File(FileMedia),
}

impl Media {
    /// Keeps the state of a zone, in one store.
    pub(super) fn store(&mut self, index: ZoneIndex, zone: Zone) {
        let word = pack(index, zone);
        match self {
            Media::Heap(heap) => heap.store(index, word),
            Media::File(file) => file.store(index, word),
        }
    }

    /// Writes blocks, all of them or a fault.
    pub(super) fn write(&mut self, zone: ZoneIndex, offset: u32, frames: &[Frame]) -> Result<(), Status> {
        match self {
            Media::Heap(heap) => heap.write(zone, offset, frames),
            Media::File(file) => file.write(zone, offset, frames)?,
        }
        Ok(())
    }

    /// Reads blocks below the write pointer, all of them or a fault.
    pub(super) fn read(&self, zone: ZoneIndex, offset: u32, frames: &mut [Frame]) -> Result<(), Status> {
        match self {
            Media::Heap(heap) => heap.read(zone, offset, frames),
            Media::File(file) => file.read(zone, offset, frames)?,
        }
        Ok(())
    }

    /// Gives the space of a zone back; what it held is no longer needed.
    pub(super) fn discard(&mut self, zone: ZoneIndex) {
        match self {
            Media::Heap(heap) => heap.discard(zone),
            Media::File(file) => file.discard(zone),
        }
    }

    /// Flips bits of a stored byte.
    pub(super) fn flip(&mut self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        match self {
            Media::Heap(heap) => heap.flip(zone, offset, byte, mask),
            Media::File(file) => file.flip(zone, offset, byte, mask),
        }
    }
}
