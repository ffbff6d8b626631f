//! The queue of a device: its requests, their data, and commands that fetch and commit.

use super::abi;
use crate::nbd::transmission::Cut;
use base::frame::Frame;
use base::units::BLOCK_BYTES_U64;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Result of a fetch when the device was stopped.
pub(crate) const ABORTED: i32 = -libc::ENODEV;

/// A command for the ring: its number and what goes with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) number: u32,
    pub(crate) bytes: [u8; 16],
}

/// Descriptors of requests, which the kernel writes before it hands a request over and leaves alone until it is committed.
#[derive(Debug)]
struct Descriptors {
    start: *mut std::ffi::c_void,
    length: usize,
}

// SAFETY: it is memory that is read only, and unmapped by its one owner.
// WHY: a device is opened before the thread of the loop is chosen.
#[allow(unsafe_code)]
unsafe impl Send for Descriptors {}

impl Descriptors {
    #[allow(unsafe_code)]
    fn map(file: &OwnedFd, depth: u16) -> io::Result<Descriptors> {
        let length =
            (usize::from(depth) * abi::DESCRIPTOR_BYTES).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new mapping at an address that the kernel chooses.
        // WHY: the descriptors are to be had in no other way.
        let start = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, file, abi::DESCRIPTORS_AT)?
        };
        Ok(Descriptors { start, length })
    }

    #[allow(unsafe_code)]
    fn at(&self, tag: u16) -> [u8; abi::DESCRIPTOR_BYTES] {
        let offset = usize::from(tag) * abi::DESCRIPTOR_BYTES;
        assert!(offset + abi::DESCRIPTOR_BYTES <= self.length);
        // SAFETY: within the mapping; arrays of bytes have no alignment, and the kernel does not write while the request is ours.
        // WHY: as above.
        unsafe { self.start.cast::<u8>().add(offset).cast::<[u8; abi::DESCRIPTOR_BYTES]>().read_volatile() }
    }
}

impl Drop for Descriptors {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody refers to it any more.
        // WHY: the device cannot be removed while it is mapped.
        if let Err(error) = unsafe { rustix::mm::munmap(self.start, self.length) } {
            log::warn!("descriptors of requests cannot be unmapped: {error}");
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Device {
    /// N of `/dev/ublkcN`.
    pub number: u32,
    /// Requests that it may have.
    pub depth: u16,
    descriptors: Descriptors,
    file: OwnedFd,
}

impl Device {
    /// Opens the character device.
    ///
    /// # Errors
    /// When it cannot be opened or mapped: it is not there yet, or another process has it.
    pub(super) fn open(number: u32, depth: u16) -> io::Result<Device> {
        let path = format!("/dev/ublkc{number}");
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Device { number, depth, descriptors: Descriptors::map(&file, depth)?, file })
    }

    /// Splits it for the loop, whose ring shares the file.
    pub(crate) fn into_queue(self) -> Queue {
        let Device { number, depth, descriptors, file } = self;
        Queue { number, depth, descriptors, file: Rc::new(file) }
    }
}

/// A device in the hands of a loop.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) number: u32,
    pub(crate) depth: u16,
    descriptors: Descriptors,
    pub(crate) file: Rc<OwnedFd>,
}

impl Queue {
    /// The command that waits for the first request of a tag.
    pub(crate) fn fetch(tag: u16) -> Command {
        Command { number: abi::FETCH_REQ, bytes: abi::queue(tag, 0) }
    }

    /// The command that answers a request, with bytes done or an error number below zero, and waits for the next one of its tag.
    pub(crate) fn commit(tag: u16, result: i32) -> Command {
        Command { number: abi::COMMIT_AND_FETCH_REQ, bytes: abi::queue(tag, result) }
    }

    /// A request that was handed over; `None` when it goes beyond the end of the disk.
    pub(crate) fn request(&self, tag: u16, size_bytes: u64) -> Option<abi::Request> {
        abi::Request::decode(&self.descriptors.at(tag), size_bytes)
    }

    /// Copies bytes of a write, from `offset` in it on, into the frames of a part.
    pub(crate) fn fill(&self, tag: u16, frames: &mut [Frame], cut: Cut, offset: u64) -> io::Result<()> {
        let mut slices: Vec<IoSliceMut<'_>> = match cut {
            Cut::Merge { from, to, .. } => vec![IoSliceMut::new(&mut frames[0].data[from..to])],
            Cut::Whole { .. } => frames.iter_mut().map(|frame| IoSliceMut::new(&mut frame.data)).collect(),
        };
        let at = abi::data_at(tag) + offset;
        whole(rustix::io::preadv(&self.file, &mut slices, at)?, cut.bytes())
    }

    /// Copies blocks of a read out of their frames. `within` gives the bytes of the range that lie in a block, counted from
    /// `first_block` on.
    pub(crate) fn pour(
        &self,
        tag: u16,
        frames: &[Frame],
        offset: u64,
        within: impl Fn(usize) -> (usize, usize),
    ) -> io::Result<()> {
        let slice = |(index, frame)| {
            let frame: &Frame = frame;
            let (from, to) = within(index);
            IoSlice::new(&frame.data[from..to])
        };
        let slices: Vec<IoSlice<'_>> = frames.iter().enumerate().map(slice).collect();
        let bytes = slices.iter().map(|slice| u64::try_from(slice.len()).expect("at most a block")).sum();
        assert!(bytes <= u64::try_from(frames.len()).expect("a few") * BLOCK_BYTES_U64);
        whole(rustix::io::pwritev(&self.file, &slices, abi::data_at(tag) + offset)?, bytes)
    }
}

/// The kernel copies all of a request's data or says why not.
fn whole(done: usize, wanted: u64) -> io::Result<()> {
    if u64::try_from(done).is_ok_and(|done| done == wanted) { Ok(()) } else { Err(Errno::IO.into()) }
}
