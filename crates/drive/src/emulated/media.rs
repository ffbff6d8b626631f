//! Where a drive keeps its blocks and its zone table: the heap, little of it (sparse), a mapped file of a tmpfs, or
//! a file on a disk.
//!
//! All are asked the same way. Only a disk can refuse.

use super::entry::pack;
use super::file::FileMedia;
use super::heap::HeapMedia;
use super::mapped::MappedMedia;
use super::sparse::SparseMedia;
use base::frame::Frame;
use base::units::ZoneIndex;
use std::ops::Range;
use zone::device::Status;
use zone::rules::Zone;

/// The media of a drive.
#[derive(Debug)]
pub(super) enum Media {
    Heap(HeapMedia),
    Sparse(SparseMedia),
    Mapped(MappedMedia),
    File(FileMedia),
}

impl Media {
    /// Keeps the state of a zone, in one store.
    #[inline]
    pub(super) fn store(&mut self, index: ZoneIndex, zone: Zone) {
        let word = pack(index, zone);
        match self {
            Media::Heap(heap) => heap.store(index, word),
            // It ends with its process.
            Media::Sparse(_) => {}
            Media::Mapped(mapped) => mapped.store(index, word),
            Media::File(file) => file.store(index, word),
        }
    }

    /// A word of the table of windows.
    pub(super) fn load_window_word(&self, word: usize) -> u64 {
        match self {
            Media::Heap(heap) => heap.window_words[word],
            Media::Sparse(_) => 0,
            Media::Mapped(mapped) => mapped.load_window_word(word),
            Media::File(file) => file.map.load_window_word(word),
        }
    }

    /// Replaces a word of the table of windows, in one store.
    pub(super) fn store_window_word(&mut self, word: usize, value: u64) {
        match self {
            Media::Heap(heap) => heap.window_words[word] = value,
            // It ends with its process.
            Media::Sparse(_) => {}
            Media::Mapped(mapped) => mapped.store_window_word(word, value),
            Media::File(file) => file.map.store_window_word(word, value),
        }
    }

    /// Writes the second place of a block of a window.
    pub(super) fn write_second(
        &mut self,
        zone: ZoneIndex,
        block: usize,
        frame: &Frame,
    ) -> Result<(), Status> {
        match self {
            Media::Heap(heap) => heap.write_second(block, frame),
            Media::Sparse(sparse) => sparse.write_second(block, frame),
            Media::Mapped(mapped) => mapped.write_second(block, frame),
            Media::File(file) => file.write_second(zone, block, frame)?,
        }
        Ok(())
    }

    /// Reads the second place of a block of a window.
    pub(super) fn read_second(&self, zone: ZoneIndex, block: usize, frame: &mut Frame) -> Result<(), Status> {
        match self {
            Media::Heap(heap) => heap.read_second(block, frame),
            Media::Sparse(sparse) => sparse.read_second(block, frame),
            Media::Mapped(mapped) => mapped.read_second(block, frame),
            Media::File(file) => file.read_second(zone, block, frame)?,
        }
        Ok(())
    }

    /// Writes a block of a zone that has a window, at any place.
    pub(super) fn write_anywhere(
        &mut self,
        zone: ZoneIndex,
        offset: u32,
        frame: &Frame,
    ) -> Result<(), Status> {
        match self {
            Media::Heap(heap) => {
                heap.write_anywhere(zone, offset, frame);
                Ok(())
            }
            Media::Sparse(sparse) => {
                sparse.write_anywhere(zone, offset, frame);
                Ok(())
            }
            others => others.write(zone, offset, std::iter::once(frame)),
        }
    }

    /// True when the zone table says what it was told of a zone.
    pub(super) fn keeps(&self, index: ZoneIndex, zone: Zone) -> bool {
        let word = pack(index, zone);
        match self {
            Media::Heap(_) | Media::Sparse(_) => true,
            Media::Mapped(mapped) => mapped.load(index) == word,
            Media::File(file) => file.map.load(index) == word,
        }
    }

    /// Writes consecutive blocks from `offset`, all of them or a fault.
    #[inline]
    pub(super) fn write<'a>(
        &mut self,
        zone: ZoneIndex,
        offset: u32,
        frames: impl Iterator<Item = &'a Frame>,
    ) -> Result<(), Status> {
        match self {
            Media::Heap(heap) => heap.write(zone, offset, frames),
            Media::Sparse(sparse) => sparse.write(zone, offset, frames),
            Media::Mapped(mapped) => mapped.write(zone, offset, frames),
            Media::File(file) => file.write(zone, offset, frames)?,
        }
        Ok(())
    }

    /// Reads consecutive blocks, all below the write pointer, all of them or a fault.
    #[inline]
    pub(super) fn read<'a>(
        &self,
        zone: ZoneIndex,
        offset: u32,
        frames: impl Iterator<Item = &'a mut Frame>,
    ) -> Result<(), Status> {
        match self {
            Media::Heap(heap) => heap.read(zone, offset, frames),
            Media::Sparse(sparse) => sparse.read(zone, offset, frames),
            Media::Mapped(mapped) => mapped.read(zone, offset, frames),
            Media::File(file) => file.read(zone, offset, frames)?,
        }
        Ok(())
    }

    /// The bytes of a zone, where a file system can take them back.
    pub(super) fn bytes_to_give_back(&self, zone: ZoneIndex) -> Option<Range<u64>> {
        match self {
            // All of a drive in memory is taken in advance, so that no store can find it full.
            Media::Heap(_) | Media::Sparse(_) | Media::Mapped(_) => None,
            Media::File(file) => Some(file.bytes_of(zone)),
        }
    }

    /// True when the last write failed because its file system is full.
    pub(super) fn lacks_room(&self) -> bool {
        match self {
            Media::Heap(_) | Media::Sparse(_) | Media::Mapped(_) => false,
            Media::File(file) => file.lacks_room,
        }
    }

    /// True when the file was found cut short, or its device gone, by a store to what is mapped of it.
    #[inline]
    pub(super) fn is_torn(&self) -> bool {
        match self {
            Media::Heap(_) | Media::Sparse(_) => false,
            Media::Mapped(mapped) => mapped.is_torn(),
            Media::File(file) => file.map.is_torn(),
        }
    }

    /// Flips bits of a stored byte.
    pub(super) fn flip(&mut self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        match self {
            Media::Heap(heap) => heap.flip(zone, offset, byte, mask),
            Media::Sparse(sparse) => sparse.flip(zone, offset, byte, mask),
            Media::Mapped(mapped) => mapped.flip(zone, offset, byte, mask),
            Media::File(file) => file.flip(zone, offset, byte, mask),
        }
    }
}
