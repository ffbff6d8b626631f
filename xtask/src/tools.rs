//! The clients that the end-to-end tests drive: which are here, and where to get the others.

use crate::phase::{self, run};
use crate::root;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Test by which a tool is found.
enum Probe {
    /// A program of this name on the path.
    Program(&'static str),
    /// A module of the system's Python, which is the one nbdsh uses.
    PythonModule(&'static str),
}

/// A tool, the Debian package that has it and the tests that need it.
struct Tool {
    probe: Probe,
    package: &'static str,
    tests: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { probe: Probe::Program("fio"), package: "fio", tests: "clients, bench" },
    Tool { probe: Probe::Program("nbdinfo"), package: "libnbd-bin", tests: "clients" },
    Tool { probe: Probe::Program("nbdcopy"), package: "libnbd-bin", tests: "clients" },
    // Debian 12 has nbdfuse in libnbd-bin; later releases have a package of its own.
    Tool { probe: Probe::Program("nbdfuse"), package: "libnbd-bin", tests: "clients" },
    Tool { probe: Probe::Program("nbdkit"), package: "nbdkit", tests: "bench" },
    Tool { probe: Probe::Program("qemu-img"), package: "qemu-utils", tests: "clients" },
    Tool { probe: Probe::Program("qemu-io"), package: "qemu-utils", tests: "clients" },
    Tool { probe: Probe::PythonModule("nbd"), package: "python3-libnbd", tests: "clients" },
    Tool { probe: Probe::Program("fusermount3"), package: "fuse3", tests: "clients" },
    Tool { probe: Probe::Program("mkfs.ext4"), package: "e2fsprogs", tests: "clients, host_troubles, siege" },
    Tool { probe: Probe::Program("python3"), package: "python3", tests: "host_troubles, siege" },
    Tool { probe: Probe::Program("losetup"), package: "mount", tests: "clients" },
    Tool { probe: Probe::Program("sysbench"), package: "sysbench", tests: "lab" },
    Tool { probe: Probe::Program("prlimit"), package: "util-linux", tests: "clients, siege" },
    Tool { probe: Probe::Program("redis-cli"), package: "redis-tools", tests: "cache" },
    Tool { probe: Probe::Program("redis-benchmark"), package: "redis-tools", tests: "cache" },
    // The same program is redis-server under its own name, which needs no package.
    Tool { probe: Probe::Program("redis-check-rdb"), package: "redis-tools", tests: "cache" },
    Tool { probe: Probe::Program("nutcracker"), package: "nutcracker", tests: "cache" },
    Tool { probe: Probe::Program("promtool"), package: "prometheus", tests: "cache" },
    Tool { probe: Probe::Program("tclsh"), package: "tcl", tests: "conformance" },
    Tool { probe: Probe::Program("prove"), package: "perl", tests: "conformance" },
    Tool { probe: Probe::Program("memccapable"), package: "libmemcached-tools", tests: "conformance" },
    Tool { probe: Probe::Program("linux.uml"), package: "user-mode-linux", tests: "md" },
    Tool { probe: Probe::Program("mdadm"), package: "mdadm", tests: "md" },
    Tool { probe: Probe::Program("dmsetup"), package: "dmsetup", tests: "md" },
    Tool { probe: Probe::Program("busybox"), package: "busybox-static", tests: "md" },
    Tool { probe: Probe::Program("cpio"), package: "cpio", tests: "md" },
    Tool { probe: Probe::Program("modprobe"), package: "kmod", tests: "md" },
    Tool { probe: Probe::Program("grub-fstest"), package: "grub-common", tests: "md" },
    Tool { probe: Probe::Program("mkfs.xfs"), package: "xfsprogs", tests: "drives" },
    Tool { probe: Probe::Program("mkfs.btrfs"), package: "btrfs-progs", tests: "drives" },
    Tool { probe: Probe::Program("mkfs.f2fs"), package: "f2fs-tools", tests: "drives" },
    Tool { probe: Probe::Program("cryptsetup"), package: "cryptsetup-bin", tests: "drives" },
    Tool { probe: Probe::Program("pvcreate"), package: "lvm2", tests: "drives" },
    Tool { probe: Probe::Program("sfdisk"), package: "fdisk", tests: "drives" },
    Tool { probe: Probe::Program("qemu-storage-daemon"), package: "qemu-system-common", tests: "drives" },
    Tool { probe: Probe::Program("qemu-system-x86_64"), package: "qemu-system-x86", tests: "guest" },
    Tool { probe: Probe::Program("depmod"), package: "kmod", tests: "guest" },
    Tool { probe: Probe::Program("xz"), package: "xz-utils", tests: "guest" },
    Tool { probe: Probe::Program("setpriv"), package: "util-linux", tests: "drives" },
];

impl Tool {
    fn name(&self) -> &'static str {
        match self.probe {
            Probe::Program(name) | Probe::PythonModule(name) => name,
        }
    }

    fn is_here(&self) -> bool {
        match self.probe {
            Probe::Program(name) => program_is_here(name),
            Probe::PythonModule(name) => {
                let mut python = Command::new("/usr/bin/python3");
                python.args(["-c", &format!("import {name}")]).stderr(Stdio::null());
                python.status().is_ok_and(|status| status.success())
            }
        }
    }
}

/// Returns true when `name` is on the path, or where Debian keeps the administrator's programs.
pub fn program_is_here(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let administrators = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path).chain(administrators).any(|folder| folder.join(name).is_file())
}

/// Installs what is missing where that is ours to do, and says what remains missing.
///
/// # Errors
/// When apt fails.
pub fn provide() -> Result<()> {
    let missing = packages(&missing_tools());
    if missing.is_empty() {
        return Ok(());
    }
    if is_root() && Path::new("/etc/debian_version").exists() {
        run(apt().arg("update"))?;
        run(apt().args(["install", "-y", "--no-install-recommends"]).args(&missing))?;
    }
    for tool in missing_tools() {
        println!(
            "missing: {} (Debian: apt-get install -y {}); skipped for want of it: {}",
            tool.name(),
            tool.package,
            tool.tests
        );
    }
    Ok(())
}

/// A program of cargo's, built once into `target/tools`.
///
/// # Errors
/// When it cannot be built.
pub fn built(name: &str, version: &str) -> Result<PathBuf> {
    let folder = root().join("target/tools");
    let program = folder.join("bin").join(name);
    // What cargo notes of all that it installed there: not every program tells its version.
    let noted = std::fs::read_to_string(folder.join(".crates.toml")).unwrap_or_default();
    let has_it = program.is_file() && noted.contains(&format!("\"{name} {version} "));
    if !has_it {
        let mut command = phase::cargo();
        command.args(["install", "--locked", "--force", name, "--version", version, "--root"]);
        phase::run(command.arg(&folder))?;
    }
    Ok(program)
}

/// Installs Debian packages when one of their programs is not here; as root, else says what is missing.
///
/// # Errors
/// When apt fails, or it is not ours to install.
pub fn install(packages: &[&str], programs: &[&str]) -> Result<()> {
    if programs.iter().all(|name| program_is_here(name)) {
        return Ok(());
    }
    if !is_root() {
        bail!("missing: {} (Debian: apt-get install -y {})", programs.join(", "), packages.join(" "));
    }
    run(apt().arg("update"))?;
    run(apt().args(["install", "-y", "--no-install-recommends"]).args(packages))
}

/// Installs a Debian package when a file of it is not here; as root, else says what is missing.
///
/// # Errors
/// As [`install`].
pub fn install_for(package: &str, file: &Path) -> Result<()> {
    if file.exists() {
        return Ok(());
    }
    if !is_root() {
        bail!("missing: {} (Debian: apt-get install -y {package})", file.display());
    }
    run(apt().arg("update"))?;
    run(apt().args(["install", "-y", "--no-install-recommends", package]))
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn missing_tools() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| !tool.is_here()).collect()
}

fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let mut packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Returns true when we may install packages, mount and detach.
fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_or_missed_and_packages_named_once() {
        assert!(program_is_here("sh"));
        assert!(!program_is_here("no-program-of-this-name"));
        let tools: Vec<&Tool> = TOOLS.iter().collect();
        let packages = packages(&tools);
        assert_eq!(packages.iter().filter(|&&name| name == "libnbd-bin").count(), 1);
    }
}
