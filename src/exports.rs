//! Disks of virtual machines: sockets for front ends of vhost-user, beside the one of NBD.

use crate::cli::{BlockSizeChoice, ServiceOptions};
use crate::exit::Exit;
use anyhow::{Context, Result};
use server::config::DiskConfig;
use server::vhost::block::{BlockSize, SERIAL_BYTES};
use server::{Listen, Listener};

/// Listens on every socket that is asked for.
pub fn listen(options: &ServiceOptions) -> Result<Vec<Listener>> {
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
    let block_size = match options.block_size {
        BlockSizeChoice::Small => BlockSize::Small,
        BlockSizeChoice::Whole => BlockSize::Whole,
    };
    DiskConfig { block_size, serial }
}
