//! Media in this process's memory, for tests and simulations.
//!
//! A clone is the media as it is at this instant: what a crash would leave. It goes through the
//! same zone-table words as a file does, so that what is forgotten there is forgotten here.

use super::entry::pack;
use super::header::{FileLayout, Header, STRIDE};
use base::frame::Frame;
use base::units::{BLOCK_BYTES, ZoneIndex};
use std::sync::Arc;
use zone::device::{Geometry, ZoneState};
use zone::rules::Zone;

/// Blocks and zone table of a drive, in memory.
///
/// Bad at: giving memory back. A zone takes what is written to it and keeps it when it is reset.
#[derive(Clone, Debug)]
pub struct HeapMedia {
    pub(super) header: Header,
    pub(super) table: Vec<u64>,
    /// Shared with clones until one of them writes.
    zones: Vec<Arc<Vec<u8>>>,
    /// Words of the table of windows, and second places of their blocks.
    pub(super) window_words: Vec<u64>,
    seconds: Arc<Vec<u8>>,
}

impl HeapMedia {
    /// The UUID of the drive whose media this is.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.header.uuid
    }

    /// Empty media for a geometry that has been checked.
    pub(super) fn new(geometry: Geometry, uuid: [u8; 16]) -> HeapMedia {
        let empty = Zone::new(ZoneState::Empty, 0);
        let words = usize::try_from(FileLayout::new(&geometry).window_words()).expect("64 bits each");
        HeapMedia {
            header: Header { geometry, uuid },
            table: (0..geometry.zones).map(|index| pack(ZoneIndex(index), empty)).collect(),
            zones: vec![Arc::default(); geometry.zones as usize],
            window_words: vec![0; words],
            seconds: Arc::default(),
        }
    }

    /// Writes a block at any place of a zone, and zeros to what lies between it and all that was written before.
    pub(super) fn write_anywhere(&mut self, zone: ZoneIndex, offset: u32, frame: &Frame) {
        let bytes = Arc::make_mut(&mut self.zones[zone.index()]);
        put_block(bytes, offset as usize, frame);
    }

    pub(super) fn write_second(&mut self, block: usize, frame: &Frame) {
        put_block(Arc::make_mut(&mut self.seconds), block, frame);
    }

    pub(super) fn read_second(&self, block: usize, frame: &mut Frame) {
        let (data, oob) = self.seconds[block * STRIDE..][..STRIDE].split_at(BLOCK_BYTES);
        frame.data.copy_from_slice(data);
        frame.oob.copy_from_slice(oob);
    }

    pub(super) fn store(&mut self, zone: ZoneIndex, word: u64) {
        self.table[zone.index()] = word;
    }

    /// Writes at the write pointer. Whatever lies beyond is left from before a reset or from a write
    /// that failed.
    pub(super) fn write<'a>(
        &mut self,
        zone: ZoneIndex,
        offset: u32,
        frames: impl Iterator<Item = &'a Frame>,
    ) {
        let bytes = Arc::make_mut(&mut self.zones[zone.index()]);
        if bytes.capacity() == 0 {
            bytes.reserve_exact(self.header.geometry.zone_capacity_blocks as usize * STRIDE);
        }
        bytes.truncate(offset as usize * STRIDE);
        assert!(bytes.len() == offset as usize * STRIDE, "every block below the write pointer was written");
        for frame in frames {
            bytes.extend_from_slice(&frame.data);
            bytes.extend_from_slice(&frame.oob);
        }
    }

    pub(super) fn read<'a>(&self, zone: ZoneIndex, offset: u32, frames: impl Iterator<Item = &'a mut Frame>) {
        let mut blocks = self.zones[zone.index()][offset as usize * STRIDE..].chunks_exact(STRIDE);
        for frame in frames {
            let block = blocks.next().expect("every block below the write pointer was written");
            let (data, oob) = block.split_at(BLOCK_BYTES);
            frame.data.copy_from_slice(data);
            frame.oob.copy_from_slice(oob);
        }
    }

    pub(super) fn flip(&mut self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        self.block_mut(zone, offset)[byte] ^= mask;
    }

    /// Data and metadata of a block.
    pub(super) fn block_mut(&mut self, zone: ZoneIndex, offset: u32) -> &mut [u8] {
        &mut Arc::make_mut(&mut self.zones[zone.index()])[offset as usize * STRIDE..][..STRIDE]
    }
}

fn put_block(bytes: &mut Vec<u8>, block: usize, frame: &Frame) {
    let end = (block + 1) * STRIDE;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    let (data, oob) = bytes[block * STRIDE..end].split_at_mut(BLOCK_BYTES);
    data.copy_from_slice(&frame.data);
    oob.copy_from_slice(&frame.oob);
}
