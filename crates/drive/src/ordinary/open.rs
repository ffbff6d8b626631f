//! Opening of files and block devices: for reading, or by nobody else for writing; and what they are.

use super::NotPermitted;
use super::page::Page;
use base::units::BLOCK_BYTES;
use block::md::SECTOR_BYTES_U64;
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Magic numbers of file systems in memory.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
/// Magic number of file systems in user space, and of those that hosts share with guests.
const FUSE: u64 = 0x6573_5546;

/// Fault of a device that cannot be opened.
#[derive(Debug)]
pub struct OpenError {
    /// Path as it was given.
    pub path: PathBuf,
    /// Reason.
    pub problem: OpenProblem,
}

/// Reason why a device cannot be opened.
#[derive(Debug)]
pub enum OpenProblem {
    /// Nothing is there.
    Absent(io::Error),
    /// Somebody else uses it, in words.
    InUse(String),
    /// Neither a file nor a block device.
    WrongKind,
    /// This user may not.
    NotPermitted(NotPermitted),
    /// The system refuses.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            OpenProblem::Absent(error) | OpenProblem::Io(error) => write!(f, "cannot open {path}: {error}"),
            OpenProblem::NotPermitted(why) => write!(f, "cannot open {path}: {why}"),
            OpenProblem::InUse(why) => write!(f, "{path} is in use: {why}"),
            OpenProblem::WrongKind => write!(f, "{path} is neither a file nor a block device"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            OpenProblem::Absent(error) | OpenProblem::Io(error) => Some(error),
            OpenProblem::NotPermitted(why) => Some(why),
            OpenProblem::InUse(_) | OpenProblem::WrongKind => None,
        }
    }
}

/// True when a block device is mounted, a member of md, held by device mapper or opened by somebody for himself alone.
///
/// # Errors
/// When it cannot be opened for another reason.
pub fn is_held(path: &Path) -> io::Result<bool> {
    match File::options().read(true).custom_flags(flags(OFlags::NONBLOCK | OFlags::EXCL)).open(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(true),
        Err(error) => Err(error),
    }
}

/// File or block device that is open.
#[derive(Debug)]
pub struct Opened {
    file: File,
    sectors: u64,
    is_file: bool,
    is_in_memory: bool,
    forgets_durable: bool,
    /// Reads and writes go past the page cache.
    is_direct: bool,
}

impl Opened {
    /// Opens for reading.
    ///
    /// # Errors
    /// When there is no file or block device that can be read.
    pub fn to_read(path: &Path) -> Result<Opened, OpenError> {
        open(path, File::options().read(true).custom_flags(flags(OFlags::NONBLOCK)))
    }

    /// Opens what nobody else uses for writing, and keeps others from it while it is open.
    ///
    /// # Errors
    /// When there is no file or block device that can be written, or somebody uses it.
    pub fn to_write(path: &Path) -> Result<Opened, OpenError> {
        Opened::alone(path, File::options().read(true).write(true))
    }

    /// The same for reading: whatever is asked of it, the kernel lets nothing be written.
    ///
    /// # Errors
    /// When there is no file or block device that can be read, or somebody uses it.
    pub fn to_read_alone(path: &Path) -> Result<Opened, OpenError> {
        Opened::alone(path, File::options().read(true))
    }

    fn alone(path: &Path, options: &mut OpenOptions) -> Result<Opened, OpenError> {
        let is_block = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        // The kernel refuses what is mounted, a member of md or held by device mapper; of files this flag says nothing.
        let exclusive = if is_block { OFlags::EXCL } else { OFlags::empty() };
        let opened = open(path, options.custom_flags(flags(OFlags::NONBLOCK | exclusive)))?;
        let in_use = |why: String| OpenError { path: path.to_owned(), problem: OpenProblem::InUse(why) };
        opened
            .file
            .try_lock()
            .map_err(|_| in_use("another program has locked it, or it is given twice".to_owned()))?;
        if let Some(device) = loop_over(path) {
            return Err(in_use(format!("it is the file behind {device}")));
        }
        Ok(opened)
    }

    /// Makes reads and writes go past the page cache, where the device takes them at any sector. A file in memory has no other
    /// place, and a device with larger sectors is written through the page cache.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub fn make_direct(&mut self) -> io::Result<()> {
        self.make_direct_for(512)
    }

    /// The same, for transfers of multiples of so many bytes, at most a frame.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub fn make_direct_for(&mut self, bytes: usize) -> io::Result<()> {
        let before = rustix::fs::fcntl_getfl(&self.file)?;
        if self.is_in_memory || rustix::fs::fcntl_setfl(&self.file, before | OFlags::DIRECT).is_err() {
            return Ok(());
        }
        let mut page = Box::new(Page([0; BLOCK_BYTES]));
        let mut sector = [IoSliceMut::new(&mut page.0[..bytes])];
        match rustix::io::preadv2(
            &self.file,
            &mut sector,
            u64::try_from(bytes).unwrap_or(0),
            ReadWriteFlags::empty(),
        ) {
            Ok(_) => self.is_direct = true,
            Err(_) => rustix::fs::fcntl_setfl(&self.file, before)?,
        }
        Ok(())
    }

    /// File.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// File, which stays locked.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// Sectors of 512 bytes.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// True of a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.is_file
    }

    /// True of a file whose file system lies in memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// True of a file that is not flushed behind a write that says that it is to be durable: Linux forgets `RWF_DSYNC` of writes
    /// past the page cache by io_uring, where they go to a file system in user space (seen on 6.18).
    #[must_use]
    pub fn forgets_durable(&self) -> bool {
        self.forgets_durable
    }

    /// True when reads and writes go past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Sectors of 512 bytes that the device writes all or none.
    #[must_use]
    pub fn logical_sectors(&self) -> u32 {
        if self.is_file {
            return 1;
        }
        rustix::fs::ioctl_blksszget(&self.file).map_or(1, |bytes| (bytes / 512).max(1))
    }

    /// True when a write that is complete may be lost on power failure until a flush.
    #[must_use]
    pub fn has_volatile_cache(&self) -> bool {
        if self.is_file || !self.is_direct {
            return true;
        }
        queue_attribute(&self.file, "write_cache").is_none_or(|cache| cache != "write through")
    }
}

/// What the kernel says of the queue of a block device; that of a partition is its drive's.
pub(crate) fn queue_attribute(device: &File, name: &str) -> Option<String> {
    let metadata = device.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let read = |queue| std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{queue}/{name}")).ok();
    ["queue", "../queue"].into_iter().find_map(read).map(|said| said.trim().to_owned())
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// Opening must not wait: for the other end of a pipe, or for a medium.
fn open(path: &Path, options: &OpenOptions) -> Result<Opened, OpenError> {
    let because = |problem| OpenError { path: path.to_owned(), problem };
    let mut file = options.open(path).map_err(|error| {
        because(match error.kind() {
            ErrorKind::NotFound => OpenProblem::Absent(error),
            ErrorKind::ResourceBusy => OpenProblem::InUse(error.to_string()),
            ErrorKind::PermissionDenied => OpenProblem::NotPermitted(NotPermitted::new(path, error)),
            _ => OpenProblem::Io(error),
        })
    })?;
    let io = |error| because(OpenProblem::Io(error));
    let kind = file.metadata().map_err(io)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(because(OpenProblem::WrongKind));
    }
    // Of a block device the metadata have no size.
    let bytes = file.seek(SeekFrom::End(0)).map_err(io)?;
    let file_system = rustix::fs::fstatfs(&file).map_or(0, |system| system.f_type);
    let lies_on = |magic: u64| kind.is_file() && u64::try_from(file_system) == Ok(magic);
    Ok(Opened {
        file,
        sectors: bytes / SECTOR_BYTES_U64,
        is_file: kind.is_file(),
        is_in_memory: lies_on(TMPFS) || lies_on(RAMFS),
        forgets_durable: lies_on(FUSE),
        is_direct: false,
    })
}

/// Loop device over a file.
fn loop_over(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mut devices = std::fs::read_dir("/sys/block").ok()?.filter_map(Result::ok);
    let found = devices.find(|device| {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file"));
        backing.is_ok_and(|backing| Path::new(backing.trim_end()) == path)
    })?;
    Some(format!("/dev/{}", found.file_name().display()))
}
