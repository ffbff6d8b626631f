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
    pub(super) fn write_second(&mut self, block: usize, frame: &Frame) {
        self.map.copy_in(self.map.layout().second_at(block), frame);
    }

    pub(super) fn read_second(&self, block: usize, frame: &mut Frame) {
        self.map.copy_out(self.map.layout().second_at(block), frame);
    }

    pub(super) fn load_window_word(&self, word: usize) -> u64 {
        self.map.load_window_word(word)
    }

    pub(super) fn store_window_word(&mut self, word: usize, value: u64) {
        self.map.store_window_word(word, value);
    }

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
            self.map.copy_in(self.map.layout().block_at(zone, block), frame);
        }
    }

    #[inline]
    pub(super) fn read<'a>(&self, zone: ZoneIndex, offset: u32, frames: impl Iterator<Item = &'a mut Frame>) {
        for (block, frame) in (offset..).zip(frames) {
            self.map.copy_out(self.map.layout().block_at(zone, block), frame);
        }
    }

    pub(super) fn flip(&mut self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        let mut frame = Frame::zeroed();
        let at = self.map.layout().block_at(zone, offset);
        self.map.copy_out(at, &mut frame);
        match byte.checked_sub(BLOCK_BYTES) {
            None => frame.data[byte] ^= mask,
            Some(byte) => frame.oob[byte] ^= mask,
        }
        self.map.copy_in(at, &frame);
    }
}
