//! Media that keep what cannot be told otherwise: metadata, blocks that are not all zeros, and of zones that were full from
//! the start nothing, for their blocks are computed when they are read.
//!
//! So an array of a TiB fits into a few GiB of memory when clients write zeros. A block of zeros takes its 64 bytes
//! of metadata.
//!
//! Bad at: everything else. Blocks that are not zeros take an allocation each.

use base::frame::Frame;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use base::xor::Block;
use std::collections::BTreeMap;
use std::fmt;

/// Contents of zones that were full from the start.
pub trait FullZones: Send {
    /// True for a zone that was.
    fn has(&self, zone: ZoneIndex) -> bool;

    /// Puts a block of such a zone into a frame that holds anything.
    fn read(&self, zone: ZoneIndex, offset: u32, frame: &mut Frame);
}

/// No zone was full from the start.
impl FullZones for () {
    fn has(&self, _zone: ZoneIndex) -> bool {
        false
    }

    fn read(&self, zone: ZoneIndex, _offset: u32, _frame: &mut Frame) {
        unreachable!("zone {zone} was not full from the start")
    }
}

/// The blocks of a drive.
pub(super) struct SparseMedia {
    full: Box<dyn FullZones>,
    zones: Vec<SparseZone>,
    /// Second places of blocks of windows, by their number among all.
    second: BTreeMap<usize, Frame>,
}

#[derive(Default)]
struct SparseZone {
    /// Set while the zone is as it was from the start.
    is_computed: bool,
    oob: Vec<[u8; OOB_BYTES]>,
    /// Blocks that are not all zeros, by offset.
    data: BTreeMap<u32, Box<Block>>,
}

impl SparseMedia {
    pub(super) fn new(zones: u32, full: Box<dyn FullZones>) -> SparseMedia {
        let zones = (0..zones)
            .map(|zone| SparseZone { is_computed: full.has(ZoneIndex(zone)), ..SparseZone::default() });
        SparseMedia { zones: zones.collect(), full, second: BTreeMap::new() }
    }

    /// True for a zone that is as it was from the start.
    pub(super) fn is_computed(&self, zone: ZoneIndex) -> bool {
        self.zones[zone.index()].is_computed
    }

    /// Writes at the write pointer; whatever lies beyond is gone.
    pub(super) fn write<'a>(
        &mut self,
        zone: ZoneIndex,
        offset: u32,
        frames: impl Iterator<Item = &'a Frame>,
    ) {
        let zone = &mut self.zones[zone.index()];
        zone.is_computed = false;
        zone.oob.truncate(offset as usize);
        assert!(zone.oob.len() == offset as usize, "every block below the write pointer was written");
        zone.data.split_off(&offset);
        for (offset, frame) in (offset..).zip(frames) {
            zone.oob.push(frame.oob);
            if frame.data != [0; BLOCK_BYTES] {
                zone.data.insert(offset, Box::new(frame.data));
            }
        }
    }

    /// Writes a block of a zone that has a window, at any place. What was there before a reset is read by nobody.
    pub(super) fn write_anywhere(&mut self, zone: ZoneIndex, offset: u32, frame: &Frame) {
        let zone = &mut self.zones[zone.index()];
        zone.is_computed = false;
        let blocks = zone.oob.len().max(offset as usize + 1);
        zone.oob.resize(blocks, [0; OOB_BYTES]);
        zone.oob[offset as usize] = frame.oob;
        if frame.data == [0; BLOCK_BYTES] {
            zone.data.remove(&offset);
        } else {
            zone.data.insert(offset, Box::new(frame.data));
        }
    }

    /// Writes the second place of a block of a window.
    pub(super) fn write_second(&mut self, block: usize, frame: &Frame) {
        let place = self.second.entry(block).or_insert_with(Frame::zeroed);
        (place.data, place.oob) = (frame.data, frame.oob);
    }

    /// Reads the second place of a block of a window.
    pub(super) fn read_second(&self, block: usize, frame: &mut Frame) {
        let place = self.second.get(&block).expect("a second place that counts was written");
        (frame.data, frame.oob) = (place.data, place.oob);
    }

    pub(super) fn read<'a>(&self, zone: ZoneIndex, offset: u32, frames: impl Iterator<Item = &'a mut Frame>) {
        for (offset, frame) in (offset..).zip(frames) {
            let found = &self.zones[zone.index()];
            if found.is_computed {
                self.full.read(zone, offset, frame);
                continue;
            }
            frame.oob = found.oob[offset as usize];
            match found.data.get(&offset) {
                Some(data) => frame.data.copy_from_slice(&data[..]),
                None => frame.data.fill(0),
            }
        }
    }

    /// Flips bits of a stored byte; does nothing to what is computed.
    pub(super) fn flip(&mut self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        let zone = &mut self.zones[zone.index()];
        if zone.is_computed {
            return;
        }
        match byte.checked_sub(BLOCK_BYTES) {
            Some(byte) => zone.oob[offset as usize][byte] ^= mask,
            None => zone.data.entry(offset).or_insert_with(|| Box::new([0; BLOCK_BYTES]))[byte] ^= mask,
        }
    }
}

impl fmt::Debug for SparseMedia {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SparseMedia({} zones)", self.zones.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zone 1 was full from the start; block b holds bytes b.
    struct One;

    impl FullZones for One {
        fn has(&self, zone: ZoneIndex) -> bool {
            zone.0 == 1
        }

        fn read(&self, _zone: ZoneIndex, offset: u32, frame: &mut Frame) {
            let byte = u8::try_from(offset).unwrap();
            (frame.data, frame.oob) = ([byte; BLOCK_BYTES], [byte; OOB_BYTES]);
        }
    }

    fn frame(byte: u8, oob: u8) -> Frame {
        let mut frame = Frame::zeroed();
        (frame.data, frame.oob) = ([byte; BLOCK_BYTES], [oob; OOB_BYTES]);
        frame
    }

    fn read(media: &SparseMedia, zone: u32, blocks: usize) -> Vec<(u8, u8)> {
        let mut frames: Vec<Frame> = (0..blocks).map(|_| frame(99, 99)).collect();
        media.read(ZoneIndex(zone), 0, frames.iter_mut());
        frames.iter().map(|frame| (frame.data[4095], frame.oob[63])).collect()
    }

    #[test]
    fn blocks_come_back_and_a_zone_that_was_full_can_be_written_anew() {
        let mut media = SparseMedia::new(2, Box::new(One));
        media.write(ZoneIndex(0), 0, [frame(0, 1), frame(2, 3), frame(0, 4)].iter());
        assert_eq!(read(&media, 0, 3), [(0, 1), (2, 3), (0, 4)]);
        assert_eq!(media.zones[0].data.len(), 1);
        media.write(ZoneIndex(0), 1, [frame(0, 5)].iter());
        assert_eq!(read(&media, 0, 2), [(0, 1), (0, 5)]);
        media.flip(ZoneIndex(0), 1, 4095, 6);
        media.flip(ZoneIndex(0), 1, 4159, 1);
        assert_eq!(read(&media, 0, 2), [(0, 1), (6, 4)]);
        assert_eq!(read(&media, 1, 3), [(0, 0), (1, 1), (2, 2)]);
        media.write(ZoneIndex(1), 0, [frame(7, 8)].iter());
        assert_eq!(read(&media, 1, 1), [(7, 8)]);
        assert!(!media.is_computed(ZoneIndex(1)));
    }
}
