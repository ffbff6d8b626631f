//! The block device: an array that is served, as the kernel sees it.

use super::Host;
use super::array::ServedArray;
use super::program::{self, Background, Program, command, undo};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The kernel's NBD devices, where there are any.
const NBD_DEVICES: u32 = 16;

const NBD_CLIENT: Program = Program { name: "nbd-client", package: "nbd-client" };
// Debian 12 has nbdfuse in libnbd-bin; later releases have a package of its own.
const FUSE_PROGRAMS: [Program; 3] = [
    Program { name: "nbdfuse", package: "libnbd-bin" },
    Program { name: "fusermount3", package: "fuse3" },
    Program { name: "losetup", package: "mount" },
];

/// Attachment by which a served volume becomes a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The kernel's NBD client.
    Kernel,
    /// A file of FUSE and a loop device on it, where the kernel has no NBD client.
    FuseAndLoop,
}

impl Attachment {
    /// Returns the attachment of this machine: the kernel's where its devices and nbd-client are there.
    #[must_use]
    pub fn of_this_machine() -> Attachment {
        match Path::new("/dev/nbd0").exists() && NBD_CLIENT.is_here() {
            true => Attachment::Kernel,
            false => Attachment::FuseAndLoop,
        }
    }

    /// Stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Attachment::Kernel => "nbd-client",
            Attachment::FuseAndLoop => "nbdfuse-loop",
        }
    }

    /// Lists the programs that this attachment needs.
    #[must_use]
    pub fn programs(self) -> Vec<Program> {
        match self {
            Attachment::Kernel => vec![NBD_CLIENT],
            Attachment::FuseAndLoop => FUSE_PROGRAMS.to_vec(),
        }
    }
}

/// A block device over a volume; detached when dropped.
#[derive(Debug)]
pub struct BlockDevice<'a> {
    host: &'a Host,
    /// Empty before there is one.
    device: PathBuf,
    /// nbdfuse and its folder, where the kernel has no client.
    fuse: Option<(Background, PathBuf)>,
}

impl<'a> BlockDevice<'a> {
    /// Attaches a volume; `folder` is for a mount of FUSE.
    ///
    /// # Errors
    /// When a program fails or no device is free.
    pub fn attach(host: &'a Host, folder: &Path, array: &ServedArray) -> Result<BlockDevice<'a>> {
        match Attachment::of_this_machine() {
            Attachment::Kernel => attach_kernel(host, array),
            Attachment::FuseAndLoop => attach_fuse(host, folder, array),
        }
    }

    /// Returns the path of the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.device
    }
}

fn attach_kernel<'a>(host: &'a Host, array: &ServedArray) -> Result<BlockDevice<'a>> {
    // A device has a file `pid` while it is in use.
    let is_free = |number: &u32| {
        Path::new(&format!("/sys/block/nbd{number}")).exists()
            && !Path::new(&format!("/sys/block/nbd{number}/pid")).exists()
    };
    let number = (0..NBD_DEVICES).find(is_free).context("no /dev/nbdN is free")?;
    let device = PathBuf::from(format!("/dev/nbd{number}"));
    let mut client = command(NBD_CLIENT.name);
    client.args(["-b", "4096", "-name", "zoneweave", "-unix"]).arg(array.socket()).arg(&device);
    program::run_to_end(host, &mut client)?;
    Ok(BlockDevice { host, device, fuse: None })
}

fn attach_fuse<'a>(host: &'a Host, folder: &Path, array: &ServedArray) -> Result<BlockDevice<'a>> {
    let mount = folder.join("fuse");
    std::fs::create_dir(&mount).with_context(|| format!("{}", mount.display()))?;
    let file = mount.join("volume");
    let mut nbdfuse = command("nbdfuse");
    nbdfuse.arg(&file).arg("--unix").arg(array.socket());
    let nbdfuse = Background::start(&mut nbdfuse, folder.join("nbdfuse.log"))?;
    let mut device = BlockDevice { host, device: PathBuf::new(), fuse: Some((nbdfuse, mount)) };
    if let Some((nbdfuse, _)) = &mut device.fuse {
        nbdfuse.wait_until(host, || file.exists())?;
    }
    // Direct: a buffered loop device has one request in flight.
    let mut losetup = command("losetup");
    losetup.args(["--find", "--show", "--direct-io=on"]).arg(&file);
    let shown = program::run_to_end(host, &mut losetup)?;
    match shown.trim() {
        "" => bail!("losetup shows no device"),
        name => device.device = PathBuf::from(name),
    }
    Ok(device)
}

impl Drop for BlockDevice<'_> {
    fn drop(&mut self) {
        let Some((nbdfuse, mount)) = &mut self.fuse else {
            undo(self.host, command(NBD_CLIENT.name).arg("-d").arg(&self.device));
            return;
        };
        if !self.device.as_os_str().is_empty() {
            undo(self.host, command("losetup").arg("-d").arg(&self.device));
        }
        if nbdfuse.is_running() && undo(self.host, command("fusermount3").arg("-u").arg(mount)) {
            nbdfuse.wait_for_end();
        }
    }
}
