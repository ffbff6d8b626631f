//! Media in a sparse file on a disk: block input and output. [`super::file_setup`] creates and
//! opens files.
//!
//! Blocks go through `pwritev` and `preadv`, not through a mapping, so that a full or failing disk
//! is a status and not a SIGBUS; one call moves many blocks with their metadata.

use super::header::{FileLayout, STRIDE_BYTES};
use super::map::SharedMap;
use super::run::RUN_BLOCKS_MAX;
use base::frame::Frame;
use base::units::ZoneIndex;
use rustix::io::Errno;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use zone::device::Status;

/// iovecs per system call, on the stack: data and metadata of each block of a run. The kernel takes
/// up to 1024.
const SLICES_MAX: usize = 2 * RUN_BLOCKS_MAX as usize;
const _: () = assert!(SLICES_MAX <= 1024);

/// An open file of a drive on a disk.
#[derive(Debug)]
pub(super) struct FileMedia {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) layout: FileLayout,
    /// The zone table.
    pub(super) map: SharedMap,
    /// The last write found the file system full.
    pub(super) lacks_room: bool,
}

impl FileMedia {
    #[inline]
    pub(super) fn store(&mut self, zone: ZoneIndex, word: u64) {
        self.map.store(zone, word);
    }

    pub(super) fn write<'a>(
        &mut self,
        zone: ZoneIndex,
        offset: u32,
        frames: impl Iterator<Item = &'a Frame>,
    ) -> Result<(), Status> {
        self.write_at(self.layout.block_at(zone, offset), zone, frames)
    }

    /// Writes the second place of a block in a window of `zone`.
    pub(super) fn write_second(
        &mut self,
        zone: ZoneIndex,
        block: usize,
        frame: &Frame,
    ) -> Result<(), Status> {
        self.write_at(self.layout.second_at(block), zone, std::iter::once(frame))
    }

    /// Reads the second place of a block in a window of `zone`.
    pub(super) fn read_second(&self, zone: ZoneIndex, block: usize, frame: &mut Frame) -> Result<(), Status> {
        self.read_at(self.layout.second_at(block), zone, std::iter::once(frame))
    }

    fn write_at<'a>(
        &mut self,
        at: u64,
        zone: ZoneIndex,
        frames: impl Iterator<Item = &'a Frame>,
    ) -> Result<(), Status> {
        let written = write_frames(&self.file, at, frames);
        let lacked_room = self.lacks_room;
        self.lacks_room = matches!(written, Err(Errno::NOSPC | Errno::DQUOT));
        written.map_err(|error| {
            // Who waits for room tries again and again.
            let is_known = lacked_room && self.lacks_room;
            let level = if is_known { log::Level::Debug } else { log::Level::Warn };
            let path = self.path.display();
            log::log!(level, "drive {path}: zone {zone}, byte {at} of the file: write failed: {error}");
            Status::WriteFault
        })
    }

    pub(super) fn read<'a>(
        &self,
        zone: ZoneIndex,
        offset: u32,
        frames: impl Iterator<Item = &'a mut Frame>,
    ) -> Result<(), Status> {
        self.read_at(self.layout.block_at(zone, offset), zone, frames)
    }

    fn read_at<'a>(
        &self,
        at: u64,
        zone: ZoneIndex,
        frames: impl Iterator<Item = &'a mut Frame>,
    ) -> Result<(), Status> {
        read_frames(&self.file, at, frames).map_err(|error| {
            let path = self.path.display();
            log::warn!("drive {path}: zone {zone}, byte {at} of the file: read failed: {error}");
            Status::UnrecoveredReadError
        })
    }

    /// The bytes of a zone in the file.
    pub(super) fn bytes_of(&self, zone: ZoneIndex) -> std::ops::Range<u64> {
        self.layout.block_at(zone, 0)..self.layout.block_at(zone, self.layout.capacity_blocks())
    }

    pub(super) fn flip(&self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        let at = self.layout.block_at(zone, offset) + byte as u64;
        let mut stored = [0];
        self.file.read_exact_at(&mut stored, at).expect("a fault is injected into a file that works");
        stored[0] ^= mask;
        self.file.write_all_at(&stored, at).expect("a fault is injected into a file that works");
    }
}

fn write_frames<'a>(
    file: &File,
    mut at: u64,
    mut frames: impl Iterator<Item = &'a Frame>,
) -> Result<(), Errno> {
    loop {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut blocks = 0;
        for (pair, frame) in slices.chunks_exact_mut(2).zip(&mut frames) {
            pair[0] = IoSlice::new(&frame.data);
            pair[1] = IoSlice::new(&frame.oob);
            blocks += 1;
        }
        if blocks == 0 {
            return Ok(());
        }
        write_all(file, at, &mut slices[..2 * blocks])?;
        at += STRIDE_BYTES * blocks as u64;
    }
}

fn write_all(file: &File, mut at: u64, mut slices: &mut [IoSlice]) -> Result<(), Errno> {
    while !slices.is_empty() {
        match rustix::io::pwritev(file, slices, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(bytes) => {
                at += bytes as u64;
                IoSlice::advance_slices(&mut slices, bytes);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_frames<'a>(
    file: &File,
    mut at: u64,
    mut frames: impl Iterator<Item = &'a mut Frame>,
) -> Result<(), Errno> {
    loop {
        let mut slices: [IoSliceMut; SLICES_MAX] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut blocks = 0;
        for (pair, frame) in slices.chunks_exact_mut(2).zip(&mut frames) {
            let body = &mut **frame;
            pair[0] = IoSliceMut::new(&mut body.data);
            pair[1] = IoSliceMut::new(&mut body.oob);
            blocks += 1;
        }
        if blocks == 0 {
            return Ok(());
        }
        read_all(file, at, &mut slices[..2 * blocks])?;
        at += STRIDE_BYTES * blocks as u64;
    }
}

/// The end of the file within a block is an error: the file was cut short while in use.
fn read_all<'a>(file: &File, mut at: u64, mut slices: &mut [IoSliceMut<'a>]) -> Result<(), Errno> {
    while !slices.is_empty() {
        match rustix::io::preadv(file, slices, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(bytes) => {
                at += bytes as u64;
                IoSliceMut::advance_slices(&mut slices, bytes);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
