//! Media in a file of a tmpfs, mapped: memory that outlives its process.
//!
//! Blocks are copied in and out by the processor; no system call is made after opening. All space
//! is allocated by then ([`super::file_setup`]), so that no copy can find the file system full.

use super::map::SharedMap;
use base::frame::Frame;
use base::units::{BLOCK_BYTES, ZoneIndex};
use std::fs::File;

/// An open file of a drive in memory.
#[derive(Debug)]
pub(super) struct MappedMedia {
    /// Keeps the file locked.
    _file: File,
    map: SharedMap,
}

impl MappedMedia {
    /// The media in `file`, all of which is mapped.
    pub(super) fn new(file: File, map: SharedMap) -> MappedMedia {
        MappedMedia { _file: file, map }
    }

    #[inline]
    pub(super) fn is_torn(&self) -> bool {
        self.map.is_torn()
    }

    pub(super) fn load(&self, zone: ZoneIndex) -> u64 {
        self.map.load(zone)
    }

    #[inline]
    pub(super) fn store(&mut self, zone: ZoneIndex, word: u64) {
        self.map.store(zone, word);
    }

    #[inline]
    pub(super) fn write<'a>(
        &mut self,
        zone: ZoneIndex,
        offset: u32,
        frames: impl Iterator<Item = &'a Frame>,
    ) {
        for (block, frame) in (offset..).zip(frames) {
            self.map.copy_in(zone, block, frame);
        }
    }

    #[inline]
    pub(super) fn read<'a>(&self, zone: ZoneIndex, offset: u32, frames: impl Iterator<Item = &'a mut Frame>) {
        for (block, frame) in (offset..).zip(frames) {
            self.map.copy_out(zone, block, frame);
        }
    }

    pub(super) fn flip(&mut self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        let mut frame = Frame::zeroed();
        self.map.copy_out(zone, offset, &mut frame);
        match byte.checked_sub(BLOCK_BYTES) {
            None => frame.data[byte] ^= mask,
            Some(byte) => frame.oob[byte] ^= mask,
        }
        self.map.copy_in(zone, offset, &frame);
    }
}
