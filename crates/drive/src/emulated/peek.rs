//! A look into the file of a drive without opening the drive: read-only, without its lock, so that it may be in use.
//!
//! Bad at: a drive in use may change between two looks. Whoever acts on what is found opens the drive first.

use super::entry::{ENTRY_BYTES, unpack};
use super::error::{DriveError, DriveProblem};
use super::file_setup::{open_file, read_header};
use super::header::{FileLayout, Header};
use base::units::ZoneIndex;
use base::xor::Block;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zone::device::{Geometry, ZoneState};

/// The file of a drive that is only looked at.
#[derive(Debug)]
pub struct Peek {
    path: PathBuf,
    file: File,
    header: Header,
    layout: FileLayout,
    /// Device and inode of the file: the same under each of its names.
    pub file_id: (u64, u64),
    /// Time at which the file was last written.
    pub modified: Option<SystemTime>,
}

impl Peek {
    /// Reads the header of the drive in this file.
    ///
    /// # Errors
    /// As for opening the drive, but that it may be in use.
    pub fn open(path: &Path) -> Result<Peek, DriveError> {
        Peek::look(path).map_err(|problem| DriveError::new(path, problem))
    }

    fn look(path: &Path) -> Result<Peek, DriveProblem> {
        let file = open_file(path, File::options().read(true))?;
        let header = read_header(&file)?;
        let metadata = file.metadata().map_err(DriveProblem::io("read the length of the file"))?;
        Ok(Peek {
            path: path.to_owned(),
            layout: FileLayout::new(&header.geometry),
            file,
            header,
            file_id: (metadata.dev(), metadata.ino()),
            modified: metadata.modified().ok(),
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.header.uuid
    }

    /// Zones and limits of the drive.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.header.geometry
    }

    /// Blocks of a zone that may hold something: all, when its entry in the zone table is damaged.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn written_blocks(&self, zone: u32) -> Result<u32, DriveError> {
        let capacity = self.header.geometry.zone_capacity_blocks;
        if zone >= self.header.geometry.zones {
            return Ok(0);
        }
        const _: () = assert!(ENTRY_BYTES == 8);
        let mut word = [0; 8];
        self.read(&mut word, self.layout.entry_at(ZoneIndex(zone)))?;
        Ok(match unpack(ZoneIndex(zone), u64::from_le_bytes(word), capacity) {
            Ok(found) if matches!(found.state, ZoneState::Empty | ZoneState::Offline) => 0,
            Ok(found) => found.write_pointer,
            Err(_) => capacity,
        })
    }

    /// The data of a block, whatever it is.
    ///
    /// # Errors
    /// When the file cannot be read.
    ///
    /// # Panics
    /// When the drive has no such block.
    pub fn block(&self, zone: u32, offset: u32) -> Result<Box<Block>, DriveError> {
        assert!(offset < self.header.geometry.zone_capacity_blocks);
        let mut block = Box::new([0; base::units::BLOCK_BYTES]);
        self.read(&mut block[..], self.layout.block_at(ZoneIndex(zone), offset))?;
        Ok(block)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), DriveError> {
        let failed = |error| DriveError::new(&self.path, DriveProblem::io("read the file")(error));
        self.file.read_exact_at(bytes, at).map_err(failed)
    }
}

/// Bytes of the file of a drive with this geometry.
#[must_use]
pub fn file_bytes(geometry: &Geometry) -> u64 {
    FileLayout::new(geometry).file_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::{CreateOptions, EmulatedDrive};
    use super::*;

    #[test]
    fn a_drive_in_use_can_be_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive");
        let geometry = Geometry {
            zones: 4,
            zone_size_blocks: 8,
            zone_capacity_blocks: 8,
            open_zones_max: 3,
            active_zones_max: 3,
            append_blocks_max: 4,
            transfer_blocks_max: 4,
            volatile_cache: false,
            areas: None,
        };
        let held = EmulatedDrive::create(&path, &CreateOptions::new(geometry, [7; 16])).unwrap();
        let peek = Peek::open(&path).unwrap();
        assert_eq!((peek.uuid(), peek.geometry().zones), ([7; 16], 4));
        assert_eq!((peek.written_blocks(0).unwrap(), peek.written_blocks(99).unwrap()), (0, 0));
        assert_eq!(file_bytes(&geometry), std::fs::metadata(&path).unwrap().len());
        drop(held);
        std::fs::write(&path, "cut").unwrap();
        assert!(matches!(Peek::open(&path).unwrap_err().problem, DriveProblem::TooShort { bytes: 3, .. }));
    }
}
