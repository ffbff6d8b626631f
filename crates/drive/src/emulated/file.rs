//! Media in a sparse file: block input and output. [`super::file_setup`] creates and opens files.
//!
//! Blocks go through `pwritev` and `preadv`, not through a mapping, so that a full or failing disk
//! is a status and not a SIGBUS; one call moves a block with its metadata.

use super::header::{FileLayout, PAGE_BYTES, STRIDE_BYTES};
use super::table_map::TableMap;
use base::frame::Frame;
use base::units::ZoneIndex;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zone::device::Status;

/// Blocks per system call; bounds the iovecs on the stack (two of 16 bytes per block).
const BATCH_BLOCKS: usize = 32;

/// Bytes of a hole punched at a time; 40 us of locking.
const PUNCH_BYTES: u64 = 256 << 10;

/// An open file of a drive.
#[derive(Debug)]
pub(super) struct FileMedia {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) layout: FileLayout,
    pub(super) table: TableMap,
}

impl FileMedia {
    #[inline]
    pub(super) fn store(&self, zone: ZoneIndex, word: u64) {
        self.table.store(zone, word);
    }

    pub(super) fn write(&self, zone: ZoneIndex, offset: u32, frames: &[Frame]) -> Result<(), Status> {
        let at = self.layout.block_at(zone, offset);
        write_frames(&self.file, at, frames).map_err(|error| {
            log::warn!("drive {}: zone {zone}, block {offset}: write failed: {error}", self.path.display());
            Status::WriteFault
        })
    }

    pub(super) fn read(&self, zone: ZoneIndex, offset: u32, frames: &mut [Frame]) -> Result<(), Status> {
        let at = self.layout.block_at(zone, offset);
        read_frames(&self.file, at, frames).map_err(|error| {
            log::warn!("drive {}: zone {zone}, block {offset}: read failed: {error}", self.path.display());
            Status::UnrecoveredReadError
        })
    }

    pub(super) fn discard(&self, zone: ZoneIndex) {
        punch(&self.file, &self.path, &self.layout, zone);
    }

    pub(super) fn flip(&self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        let at = self.layout.block_at(zone, offset) + byte as u64;
        let mut stored = [0];
        self.file.read_exact_at(&mut stored, at).expect("a fault is injected into a file that works");
        stored[0] ^= mask;
        self.file.write_all_at(&stored, at).expect("a fault is injected into a file that works");
    }
}

/// Punches holes over the whole capacity of a zone: a write that failed, or a process killed before
/// it came here, may have left blocks beyond the write pointer. A file system without holes keeps
/// its space; the blocks are out of sight all the same.
///
/// The kernel locks the file against writes while it punches, 0.6 us per page, so it is done in
/// pieces. They end at page boundaries: a page that is punched in two halves is not given back.
pub(super) fn punch(file: &File, path: &Path, layout: &FileLayout, zone: ZoneIndex) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let mut at = layout.block_at(zone, 0);
    let end = at + layout.zone_bytes();
    while at < end {
        let piece_end = ((at + PUNCH_BYTES) / PAGE_BYTES as u64 * PAGE_BYTES as u64).min(end);
        if let Err(error) = rustix::fs::fallocate(file, flags, at, piece_end - at) {
            log::debug!("drive {}: zone {zone}: space not given back: {error}", path.display());
            return;
        }
        at = piece_end;
    }
}

fn write_frames(file: &File, mut at: u64, frames: &[Frame]) -> Result<(), Errno> {
    for batch in frames.chunks(BATCH_BLOCKS) {
        let mut slices = [IoSlice::new(&[]); 2 * BATCH_BLOCKS];
        for (pair, frame) in slices.chunks_exact_mut(2).zip(batch) {
            pair[0] = IoSlice::new(&frame.data);
            pair[1] = IoSlice::new(&frame.oob);
        }
        write_all(file, at, &mut slices[..2 * batch.len()])?;
        at += STRIDE_BYTES * batch.len() as u64;
    }
    Ok(())
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

fn read_frames(file: &File, mut at: u64, frames: &mut [Frame]) -> Result<(), Errno> {
    for batch in frames.chunks_mut(BATCH_BLOCKS) {
        let blocks = batch.len();
        let mut slices: [IoSliceMut; 2 * BATCH_BLOCKS] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        for (pair, frame) in slices.chunks_exact_mut(2).zip(batch) {
            let body = &mut **frame;
            pair[0] = IoSliceMut::new(&mut body.data);
            pair[1] = IoSliceMut::new(&mut body.oob);
        }
        read_all(file, at, &mut slices[..2 * blocks])?;
        at += STRIDE_BYTES * blocks as u64;
    }
    Ok(())
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
