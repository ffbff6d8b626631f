//! Exports beside the socket of NBD: disks of virtual machines (vhost-user), and the disk of this host (ublk).

use crate::cli::{BlockSizeChoice, ServiceOptions};
use crate::exit::Exit;
use anyhow::{Context, Result};
use base::random::mix;
use rustix::mm::MlockAllFlags;
use server::config::DiskConfig;
use server::ublk::{self, Attached, Control, ControlError, Spec, State};
use server::vhost::block::{BlockSize, SERIAL_BYTES};
use server::{Listen, Listener};

/// Listens on every socket that is asked for, and looks whether there can be a disk of this host.
pub fn listen(options: &ServiceOptions) -> Result<Vec<Listener>> {
    if options.ublk {
        open_control()?;
    }
    let bind = |path: &std::path::PathBuf| {
        let path = std::path::absolute(path).context("the socket of a virtual machine")?;
        Listen::Unix(path).bind().map_err(|error| Exit::Usage.because(error))
    };
    options.vhost_user.iter().map(bind).collect()
}

/// The disk that virtual machines see. Its serial number is the beginning of the array's UUID: a guest finds it by that.
pub fn disk(options: &ServiceOptions, array: &str) -> DiskConfig {
    let mut serial = [0; SERIAL_BYTES];
    let digits = array.bytes().filter(u8::is_ascii_alphanumeric);
    serial.iter_mut().zip(digits).for_each(|(place, digit)| *place = digit);
    DiskConfig { block_size: block_size(options), serial }
}

fn block_size(options: &ServiceOptions) -> BlockSize {
    match options.block_size {
        BlockSizeChoice::Small => BlockSize::Small,
        BlockSizeChoice::Whole => BlockSize::Whole,
    }
}

/// Mark by which the kernel's list of devices tells the disks of one array from others.
pub fn mark(array: &str) -> u64 {
    array.bytes().fold(0, |mark, byte| mix(mark ^ u64::from(byte)))
}

/// The disk of this host, if it is asked for: that of the server before, or a new one. Nobody sees it before it is served. `on_devices`
/// says that all drives are devices.
pub fn attach(
    options: &ServiceOptions,
    array: &str,
    size_bytes: u64,
    on_devices: bool,
) -> Result<Option<Attached>> {
    if !options.ublk {
        return Ok(None);
    }
    keep_out_of_reclaim(on_devices);
    let spec = Spec { mark: mark(array), size_bytes, block_size: block_size(options) };
    let attached = open_control()?.attach(&spec).map_err(|error| match error {
        ControlError::Served(..) => Exit::Busy.because(error),
        error => Exit::Failed.because(error),
    })?;
    log::info!("the disk of this host is {}", ublk::node(attached.device.number));
    Ok(Some(attached))
}

fn open_control() -> Result<Control> {
    Control::open().map_err(|error| Exit::Usage.because(error))
}

/// Removes the disk when the service has stopped it. One that somebody uses waits for the next server.
pub fn remove_stopped(options: &ServiceOptions, array: &str) {
    if !options.ublk {
        return;
    }
    let removed = Control::open().and_then(|mut control| {
        for disk in control.marked(mark(array))? {
            if disk.state == State::Dead {
                control.remove(disk.number)?;
                log::info!("{} is removed", ublk::node(disk.number));
            }
        }
        Ok(())
    });
    if let Err(error) = removed {
        log::warn!("{error}");
    }
}

/// Refuses to end an array whose disk of this host is there: what waits for it would wait for ever.
pub fn expect_no_disk(array: &str) -> Result<()> {
    // Without the driver, or the right to use it, there is none to be seen.
    let disks = Control::open().and_then(|mut control| control.marked(mark(array))).unwrap_or_default();
    match disks.first() {
        Some(disk) => Err(Exit::Busy.error(format!(
            "{} is a disk of this host that was made of it: `zoneweave export DIR --ublk --remove` takes it away",
            ublk::node(disk.number)
        ))),
        None => Ok(()),
    }
}

/// A server under a file system of its own host must not wait for memory that the kernel frees by writing to that file system.
fn keep_out_of_reclaim(on_devices: bool) {
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        log::warn!(
            "memory: this process may wait for its own disk when memory is short (PR_SET_IO_FLUSHER: {error})"
        );
    }
    // Drives that are mapped files would stay in memory as a whole.
    if !on_devices {
        return;
    }
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = rustix::mm::mlockall(all) {
        log::warn!(
            "memory: this process may be swapped to its own disk (mlockall: {error}; see LimitMEMLOCK)"
        );
    }
}
