//! Whether the file of a drive is still there: asked now and then, because a file that was removed or cut short
//! answers as if nothing had happened for as long as it is open.

use super::error::DriveProblem;
use super::header::PAGE_BYTES;
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use zone::condition::Loss;

/// Failures to read the header, one after the other, that mean that the device is gone.
const FAILURES_MAX: u32 = 2;

/// A page that a device may write to directly.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    file: File,
    /// The same file past the page cache, which would go on answering for a device that is gone.
    direct: Option<File>,
    header: Box<Page>,
    found: Box<Page>,
    bytes: u64,
    failures: u32,
    /// The file does not begin with the drive's header any more.
    header_damaged: bool,
}

impl Watch {
    /// Watches a file as it is now. That of a disk is read from the disk, where the file system can.
    pub(super) fn new(file: &File, path: &Path, on_disk: bool) -> Result<Watch, DriveProblem> {
        let problem = DriveProblem::io("watch the file");
        let file = file.try_clone().map_err(problem)?;
        let mut header = Box::new(Page([0; PAGE_BYTES]));
        file.read_exact_at(&mut header.0, 0).map_err(DriveProblem::io("read the header"))?;
        let bytes = file.metadata().map_err(DriveProblem::io("read the length of the file"))?.len();
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let direct = match on_disk {
            true => rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from),
            false => None,
        };
        let found = Box::new(Page([0; PAGE_BYTES]));
        let mut watch = Watch { file, direct, header, found, bytes, failures: 0, header_damaged: false };
        if watch.read().is_err() {
            watch.direct = None;
        }
        Ok(watch)
    }

    /// Looks; takes as long as reading a page from the disk.
    pub(super) fn look(&mut self) -> Option<Loss> {
        let Ok(metadata) = self.file.metadata() else { return self.fail() };
        if metadata.nlink() == 0 {
            return Some(Loss::Unlinked);
        }
        if metadata.len() < self.bytes {
            return Some(Loss::CutShort);
        }
        if self.read().is_err() {
            return self.fail();
        }
        self.failures = 0;
        self.header_damaged = self.found.0 != self.header.0;
        (self.header_damaged && self.header_is_hole()).then_some(Loss::CutShort)
    }

    /// True when the header is a hole, as it is left of a file that was cut short, and is long again because something
    /// was written behind. Overwriting a header leaves bytes.
    fn header_is_hole(&self) -> bool {
        rustix::fs::seek(&self.file, SeekFrom::Hole(0)) == Ok(0)
    }

    /// The last look found another header than the drive's.
    pub(super) fn header_is_damaged(&self) -> bool {
        self.header_damaged
    }

    /// Writes the header as it was when the drive was opened. Durable after [`Watch::sync`].
    pub(super) fn write_header(&self) -> std::io::Result<()> {
        self.file.write_all_at(&self.header.0, 0)
    }

    pub(super) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }

    fn read(&mut self) -> std::io::Result<()> {
        self.direct.as_ref().unwrap_or(&self.file).read_exact_at(&mut self.found.0, 0)
    }

    fn fail(&mut self) -> Option<Loss> {
        self.failures += 1;
        (self.failures >= FAILURES_MAX).then_some(Loss::Unreadable)
    }
}
