//! The control device: adds, starts, stops, recovers and removes devices, one command at a time.
//!
//! A command that the kernel does not answer in time is given up; its buffer is left to the kernel for good.

use super::abi::{self, CONTROL_BYTES, Info, Params};
use super::device::Device;
use crate::vhost::block::BlockSize;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use thiserror::Error;

const CONTROL: &str = "/dev/ublk-control";

/// Configuration of the kernel's NVMe target.
pub const NVMET: &str = "/sys/kernel/config/nvmet";

/// Longest wait for a command, and for what another process is to finish.
const WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Longest time for which a device may be open that nobody uses: udev looks at one that was just closed.
const GLANCE_MAX: Duration = Duration::from_secs(1);

/// Requests that a device may have, and the longest of them.
const DEPTH: u16 = 128;
const REQUEST_BYTES_MAX: u32 = 1 << 20;
const _: () = assert!(REQUEST_BYTES_MAX <= 1 << abi::TAG_SHIFT);

/// Number that lets the kernel choose one.
const ANY: u32 = u32::MAX;

/// Why a device cannot be had.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The driver is not there.
    #[error("{CONTROL} is not there: `modprobe ublk_drv` (Linux 6.5 or later, with CONFIG_BLK_DEV_UBLK)")]
    NoDriver,
    /// This process may not use it.
    #[error("{CONTROL} cannot be opened: {0}; only root makes disks of this host")]
    Forbidden(#[source] io::Error),
    /// The driver is too old.
    #[error("the ublk driver lacks recovery or copies by the server: Linux 6.5 or later is needed")]
    TooOld,
    /// Somebody else has the device of this array.
    #[error("{0} is served by process {1}: stop it first")]
    Served(String, i32),
    /// The device that is there is not like the array.
    #[error(
        "{node} was left by a server of this array and has {found}, the array has {wanted}: `zoneweave export DIR --ublk --remove` takes it away"
    )]
    Differs {
        /// The block device.
        node: String,
        /// What it is like.
        found: Params,
        /// What is asked for.
        wanted: Params,
    },
    /// A command failed.
    #[error("{what}: {source}; the kernel may say more (dmesg)")]
    Command {
        /// What was tried.
        what: String,
        /// Why.
        source: io::Error,
    },
}

/// A disk to be made.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Mark of the array.
    pub mark: u64,
    /// Size.
    pub size_bytes: u64,
    /// Block size.
    pub block_size: BlockSize,
    /// Nobody may change it.
    pub is_read_only: bool,
}

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started, or stopped.
    Dead,
    /// Served.
    Live,
    /// Its server is gone, and its requests wait for the next one.
    Quiesced,
    /// One that later kernels know.
    Other(u16),
}

/// A device as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// N of `/dev/ublkbN`.
    pub number: u32,
    /// State.
    pub state: State,
    /// Process that serves it, or served it last.
    pub process: i32,
    depth: u16,
    mark: u64,
}

/// A device for the loop, and how it came about.
#[derive(Debug)]
pub struct Attached {
    /// The device. Nothing of it is fetched.
    pub device: Device,
    /// A server before had it.
    pub is_recovered: bool,
}

/// See the module.
pub struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: OwnedFd,
}

/// Path of a block device.
#[must_use]
pub fn node(number: u32) -> String {
    format!("/dev/ublkb{number}")
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// When it is not there, forbidden, or the driver is too old.
    pub fn open() -> Result<Control, ControlError> {
        let file = rustix::fs::open(CONTROL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let file = file.map_err(|error| match error {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => ControlError::NoDriver,
            error => ControlError::Forbidden(error.into()),
        })?;
        let ring = IoUring::builder().build(4).map_err(|source| {
            let what = "io_uring does not work here, see /proc/sys/kernel/io_uring_disabled".to_owned();
            ControlError::Command { what, source }
        })?;
        let mut control = Control { ring, file };
        let mut features = [0; 8];
        // Older drivers do not know the question.
        let is_answered = control.ask(abi::GET_FEATURES, ANY, 0, &mut features).is_ok();
        if !is_answered || u64::from_le_bytes(features) & abi::FEATURES != abi::FEATURES {
            return Err(ControlError::TooOld);
        }
        Ok(control)
    }

    /// Devices with a mark.
    ///
    /// # Errors
    /// When `/dev` cannot be listed.
    pub fn marked(&mut self, mark: u64) -> Result<Vec<Summary>, ControlError> {
        let listed =
            std::fs::read_dir("/dev").map_err(|source| failed("the devices in /dev".to_owned(), source))?;
        let mut numbers: Vec<u32> = listed
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        // A device that is gone again is no device.
        let summaries = numbers.into_iter().filter_map(|number| self.summary(number).ok());
        Ok(summaries.filter(|summary| summary.mark == mark).collect())
    }

    fn summary(&mut self, number: u32) -> io::Result<Summary> {
        let mut bytes = [0; Info::BYTES];
        self.ask(abi::GET_DEV_INFO, number, 0, &mut bytes)?;
        let info = Info::decode(&bytes);
        let state = match info.state {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            other => State::Other(other),
        };
        Ok(Summary { number, state, process: info.process, depth: info.depth, mark: info.mark })
    }

    /// The device of an array, from the server before or a new one. Its requests have to be fetched, then it is started.
    ///
    /// # Errors
    /// When there is another server, the device is not like the array, or the kernel refuses.
    pub fn attach(&mut self, spec: &Spec) -> Result<Attached, ControlError> {
        let began = Instant::now();
        while let Some(summary) = self.marked(spec.mark)?.first().copied() {
            match summary.state {
                State::Dead => self.remove(summary.number)?,
                State::Quiesced => return self.recover(summary, spec, began),
                // The kernel has yet to see that a server died.
                State::Live | State::Other(_)
                    if began.elapsed() < WAIT_MAX && !is_running(summary.process) =>
                {
                    std::thread::sleep(LOOK_EVERY);
                }
                State::Live | State::Other(_) => {
                    return Err(ControlError::Served(node(summary.number), summary.process));
                }
            }
        }
        self.add(spec, began)
    }

    fn add(&mut self, spec: &Spec, began: Instant) -> Result<Attached, ControlError> {
        let info = Info {
            queues: 1,
            depth: DEPTH,
            state: 0,
            bytes_max: REQUEST_BYTES_MAX,
            device: ANY,
            process: own_process(),
            features: abi::FEATURES,
            mark: spec.mark,
        };
        let mut bytes = info.encode();
        let what = || "a disk of this host cannot be added".to_owned();
        self.ask(abi::ADD_DEV, ANY, 0, &mut bytes).map_err(|source| failed(what(), source))?;
        let info = Info::decode(&bytes);
        let mut params = params_of(spec, info.bytes_max).encode();
        let device = self
            .ask(abi::SET_PARAMS, info.device, 0, &mut params)
            .and_then(|()| patiently(began, || Device::open(info.device, info.depth)));
        match device {
            Ok(device) => Ok(Attached { device, is_recovered: false }),
            Err(source) => {
                if let Err(error) = self.remove(info.device) {
                    log::warn!("{error}");
                }
                Err(failed(what(), source))
            }
        }
    }

    fn recover(&mut self, summary: Summary, spec: &Spec, began: Instant) -> Result<Attached, ControlError> {
        let node = node(summary.number);
        let what = || format!("{node}, left by a server of this array, cannot be taken over");
        let mut bytes = [0; Params::BYTES];
        put_length(&mut bytes);
        self.ask(abi::GET_PARAMS, summary.number, 0, &mut bytes).map_err(|source| failed(what(), source))?;
        let found = Params::decode(&bytes).ok_or_else(|| failed(what(), Errno::INVAL.into()))?;
        let wanted = params_of(spec, found.bytes_max);
        if found != wanted {
            return Err(ControlError::Differs { node, found, wanted });
        }
        patiently(began, || self.ask(abi::START_USER_RECOVERY, summary.number, 0, &mut []))
            .and_then(|()| patiently(began, || Device::open(summary.number, summary.depth)))
            .map(|device| Attached { device, is_recovered: true })
            .map_err(|source| failed(what(), source))
    }

    /// Starts a device whose requests are all being fetched, by this process.
    ///
    /// # Errors
    /// When the kernel refuses, or does not answer in time.
    pub(crate) fn start(&mut self, number: u32, is_recovered: bool) -> io::Result<()> {
        let command = if is_recovered { abi::END_USER_RECOVERY } else { abi::START_DEV };
        self.ask(command, number, u64::from(own_process().cast_unsigned()), &mut [])
    }

    /// Stops a device: the kernel waits for requests that are with the server and fails what comes later, and the node goes. Nothing is
    /// lost of a disk that nobody has open, for the last to close it wrote back what there was.
    ///
    /// # Errors
    /// When the kernel refuses, or does not answer in time.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        self.ask(abi::STOP_DEV, number, 0, &mut [])
    }

    /// Removes a device that is dead, and that nobody has open.
    ///
    /// # Errors
    /// When the kernel refuses, or does not answer in time.
    pub fn remove(&mut self, number: u32) -> Result<(), ControlError> {
        self.ask(abi::DEL_DEV, number, 0, &mut [])
            .map_err(|source| failed(format!("{} cannot be removed", node(number)), source))
    }

    /// Gives a command and waits for its answer, which the kernel writes into the buffer.
    fn ask(&mut self, command: u32, device: u32, data: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut own = buffer.to_vec();
        let address =
            if own.is_empty() { 0 } else { u64::try_from(own.as_mut_ptr().addr()).expect("64 bits") };
        let length = u16::try_from(own.len()).expect("structures are short");
        let bytes: [u8; CONTROL_BYTES] = abi::control(device, data, (address, length));
        let file = types::Fd(self.file.as_raw_fd());
        let result = self.carry_out(&opcode::UringCmd80::new(file, command).cmd(bytes).build());
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::TimedOut) {
            std::mem::forget(own);
            return result;
        }
        buffer.copy_from_slice(&own);
        result
    }

    #[allow(unsafe_code)]
    fn carry_out(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: the buffer that the entry points at is `own` of `ask`, which outlives the command or is left alone for good; the
        // file is closed after the ring.
        // WHY: the control device takes commands by io_uring only.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)?;
        let due = Instant::now() + WAIT_MAX;
        loop {
            if let Some(completion) = self.ring.completion().next() {
                return match completion.result() {
                    result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
                    _ => Ok(()),
                };
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel has not answered for 30 s"));
            }
            let timespec = types::Timespec::new().sec(left.as_secs()).nsec(left.subsec_nanos());
            let args = types::SubmitArgs::new().timespec(&timespec);
            match self.ring.submitter().submit_with_args(1, &args) {
                Err(error) if !is_passing(&error) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// Stops a device unless its block device is mounted, claimed, or open in another process, or an NVMe target has it. True when it
/// was stopped.
///
/// # Errors
/// When the kernel refuses, or does not answer in time.
pub fn stop_unless_used(control: &mut Control, number: u32) -> io::Result<bool> {
    let began = Instant::now();
    while is_open(&node(number)) || is_exported(&node(number)) {
        if began.elapsed() > GLANCE_MAX {
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // Nobody can mount it from here on.
    let claim =
        rustix::fs::open(node(number), OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
    match claim {
        Err(Errno::BUSY) => Ok(false),
        // One that was never started has no node.
        Ok(_) | Err(Errno::NOENT | Errno::NXIO) => control.stop(number).map(|()| true),
        Err(error) => Err(error.into()),
    }
}

/// True when a process has the node, or that of a partition, open, as far as this one may see.
fn is_open(node: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut open = processes
        .flat_map(|process| std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten());
    let is_it = |path: &std::path::Path| {
        let rest = path.to_str().and_then(|path| path.strip_prefix(node));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
    };
    open.any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|path| is_it(&path)))
}

/// True when the kernel's NVMe target has the node, which it opens without a claim.
fn is_exported(node: &str) -> bool {
    let folders = |path: &std::path::Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let subsystems = folders(&std::path::Path::new(NVMET).join("subsystems"));
    let mut namespaces = subsystems.iter().flat_map(|subsystem| folders(&subsystem.join("namespaces")));
    namespaces.any(|namespace| {
        let is = |name: &str, value: &str| {
            std::fs::read_to_string(namespace.join(name)).is_ok_and(|found| found.trim() == value)
        };
        is("device_path", node) && is("enable", "1")
    })
}

fn params_of(spec: &Spec, bytes_max: u32) -> Params {
    Params {
        size_bytes: spec.size_bytes,
        block_bytes: spec.block_size.bytes(),
        bytes_max,
        is_read_only: spec.is_read_only,
    }
}

/// The kernel looks for the length of a buffer for parameters at its beginning.
fn put_length(bytes: &mut [u8; Params::BYTES]) {
    let length = u32::try_from(Params::BYTES).expect("60");
    base::bytes::put(bytes, 0, &length.to_le_bytes());
}

/// Tries again what another process, or the one that makes nodes in `/dev`, is about to make possible.
fn patiently<T>(began: Instant, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if is_for_now(&error) && began.elapsed() < WAIT_MAX => std::thread::sleep(LOOK_EVERY),
            result => return result,
        }
    }
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENOENT | libc::ENXIO))
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

fn is_running(process: i32) -> bool {
    process > 0 && std::path::Path::new(&format!("/proc/{process}")).exists()
}

fn own_process() -> i32 {
    i32::try_from(std::process::id()).expect("process numbers are below 2^22")
}

fn failed(what: String, source: io::Error) -> ControlError {
    ControlError::Command { what, source }
}
