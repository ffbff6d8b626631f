//! Kernels of Debian for virtual machines: downloaded and unpacked once, never installed.
//!
//! ```text
//!   target/guest/kernel          an unpacked package linux-image-*
//!   target/guest/kernel.lock     held by who prepares it
//!   target/guest/kernel.new      a download that did not come to its end
//! ```

use super::run::{command, run_for};
use super::text;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that a download or the root of a machine takes.
pub const PREPARATION_MAX: Duration = Duration::from_secs(180);

/// Kernel of all machines that need none of their own: `cargo xtask guest --kernel` sets it.
const ASKED: &str = "ZONEWEAVE_GUEST_KERNEL";

/// A kernel of Debian.
#[derive(Clone, Copy, Debug)]
pub enum Kernel {
    /// The one that apt installs here, or an unpacked package that `ZONEWEAVE_KERNEL` names.
    Current,
    /// 6.12, or an unpacked package that `ZONEWEAVE_KERNEL_6_12` names.
    V6_12,
}

/// A kernel that can be booted.
pub struct Unpacked {
    /// Root of its package, with its modules.
    pub folder: PathBuf,
    pub version: String,
    /// The kernel without its compression: a machine without KVM takes seconds for that at each start.
    pub image: PathBuf,
}

impl Kernel {
    /// Provides the kernel.
    #[track_caller]
    pub fn provide(self) -> Unpacked {
        self.try_provide().unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// Provides the kernel. The newest that apt knows is downloaded when there is none. Tests may do so at once.
    ///
    /// # Errors
    /// When it cannot be had, in one line.
    pub fn try_provide(self) -> Result<Unpacked, String> {
        let asked = std::env::var(ASKED).unwrap_or_default();
        let (variable, name, package) = match self {
            Kernel::Current if asked == "6.12" => return Kernel::V6_12.try_provide(),
            Kernel::Current => ("ZONEWEAVE_KERNEL", "kernel", "linux-image-amd64"),
            Kernel::V6_12 => ("ZONEWEAVE_KERNEL_6_12", "kernel-6.12", "linux-image-6.12-amd64"),
        };
        let named = std::env::var_os(variable).map(PathBuf::from);
        let folder = named
            .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/guest").join(name));
        let unpacked = Unpacked::provide(folder, |new| download(new, package)).map_err(|reason| {
            format!("no kernel for virtual machines: {reason}; {variable} may name an unpacked package")
        })?;
        let is_asked_for = asked.is_empty()
            || matches!(self, Kernel::V6_12)
            || unpacked.version.starts_with(&format!("{asked}."));
        assert!(
            is_asked_for,
            "{} has kernel {}: {variable} has to name an unpacked {asked}",
            unpacked.folder.display(),
            unpacked.version
        );
        Ok(unpacked)
    }
}

impl Unpacked {
    /// Provides what is in a folder, which `make` fills under another name when it is not there. One at a time does so, also of
    /// several programs; whoever comes meanwhile waits and finds it done.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn provide(
        folder: PathBuf,
        make: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<Unpacked, String> {
        std::fs::create_dir_all(folder.parent().expect("a folder below another")).unwrap();
        let lock = File::options().create(true).append(true).open(format!("{}.lock", text(&folder))).unwrap();
        lock.lock().unwrap();
        if !folder.join("boot").is_dir() {
            let new = PathBuf::from(format!("{}.new", text(&folder)));
            let _left_by_one_that_was_ended = std::fs::remove_dir_all(&new);
            std::fs::create_dir_all(&new).unwrap();
            make(&new)?;
            std::fs::rename(&new, &folder).unwrap();
        }
        let versions =
            std::fs::read_dir(folder.join("lib/modules")).expect("an unpacked linux-image package");
        let version = versions.flatten().next().expect("the modules of a kernel").file_name();
        let version = version.into_string().expect("a version is text");
        if !folder.join("lib/modules").join(&version).join("modules.dep.bin").is_file() {
            run_for(PREPARATION_MAX, command("depmod").args(["-b", text(&folder), &version]))
                .expect("the list of the kernel's modules");
        }
        let image = folder.join(format!("vmlinux-{version}"));
        if !image.is_file() {
            decompress(&folder.join("boot").join(format!("vmlinuz-{version}")), &image);
        }
        Ok(Unpacked { folder, version, image })
    }
}

/// Downloads and unpacks the package that another one depends on.
fn download(folder: &Path, package: &str) -> Result<(), String> {
    let script = "set -e; cd \"$1\"
        find() { apt-cache depends \"$1\" | sed -n 's/^ *Depends: \\(linux-image-[0-9][^ ]*\\)$/\\1/p' | head -1; }
        package=$(find \"$2\"); [ -n \"$package\" ] || { apt-get update -q; package=$(find \"$2\"); }
        apt-get download -q \"$package\"; dpkg -x ./*.deb .; rm ./*.deb";
    let ran = run_for(PREPARATION_MAX, command("sh").args(["-c", script, "sh", text(folder), package]));
    if ran.succeeded() {
        return Ok(());
    }
    let last = ran.stderr.lines().last().unwrap_or("it took too long");
    Err(format!("apt does not provide {package} ({last})"))
}

/// Takes a kernel's compression away, or copies the kernel where that is not xz.
#[track_caller]
fn decompress(packed: &Path, image: &Path) {
    let script = "set -e; begin=$(LC_ALL=C grep -aobP '\\xfd7zXZ\\x00' \"$1\" | head -1 | cut -d: -f1)
        tail -c +$((begin + 1)) \"$1\" | xz -dcq --single-stream > \"$2.new\" || true; mv \"$2.new\" \"$2\"
        [ \"$(head -c 4 \"$2\" | tail -c 3)\" = ELF ] || cp \"$1\" \"$2\"";
    run_for(PREPARATION_MAX, command("sh").args(["-c", script, "sh", text(packed), text(image)]))
        .expect("the kernel's image");
}
