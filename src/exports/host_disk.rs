//! The disk of this host (ublk) that is made of an array, as the kernel has it.

use super::node_names;
use super::served::Exported;
use crate::exit::Exit;
use anyhow::Result;
use base::random::mix;
use rustix::mm::MlockAllFlags;
use server::ublk::{self, Attached, Control, ControlError, Spec, State};
use server::vhost::block::BlockSize;

/// Mark by which the kernel's list of devices tells the disks of one array from others.
pub fn mark(array: &str) -> u64 {
    array.bytes().fold(0, |mark, byte| mix(mark ^ u64::from(byte)))
}

/// The way to the kernel's interface.
pub fn open_control() -> Result<Control> {
    Control::open().map_err(|error| Exit::Usage.because(error))
}

/// The disk of an array: that of the server before, or a new one. Nobody sees it before it is served.
pub fn attach(exported: &Exported, block_size: BlockSize) -> Result<Attached> {
    let Exported { dir, array, size_bytes, on_devices, is_read_only } = exported;
    let mut control = open_control()?;
    keep_out_of_reclaim(*on_devices);
    let spec = Spec { mark: mark(array), size_bytes: *size_bytes, block_size, is_read_only: *is_read_only };
    let attached = control.attach(&spec).map_err(|error| match error {
        ControlError::Served(..) => Exit::Busy.because(error),
        error => Exit::Failed.because(error),
    })?;
    node_names::note(attached.device.number, array, dir);
    log::info!("the disk of this host is {}", ublk::node(attached.device.number));
    Ok(attached)
}

/// Removes the disk when the service has stopped it. One that somebody uses waits for the next server.
pub fn remove_stopped(array: &str) {
    let removed = Control::open().and_then(|mut control| {
        for disk in control.marked(mark(array))? {
            if disk.state == State::Dead {
                control.remove(disk.number)?;
                node_names::forget(disk.number);
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
