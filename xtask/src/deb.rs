//! `cargo xtask deb [--verify]`: the Debian package, from a static program, and what shows that it installs.
//!
//! ```text
//! static program ──> pages of the manual, completions ──> cargo deb ──> target/deb/zoneweave_VERSION_amd64.deb
//! ```

use crate::phase::{Phases, cargo, output, run as run_program};
use crate::root;
use crate::tools::{self, install};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Target of the program: it asks nothing of the machine's C library.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// Version of the packer; another one may pack other bytes.
const CARGO_DEB: &str = "3.8.0";

/// Packs, and with `--verify` shows what the package does.
///
/// # Errors
/// When something does not build, or the package is not what it should be.
pub fn run(argument: Option<&str>) -> Result<()> {
    let verifies = match argument {
        None => false,
        Some("--verify") => true,
        Some(other) => bail!("`{other}` is not understood; cargo xtask deb [--verify]"),
    };
    let package = build(&root().join("target/deb"), &root().join("target"), "1")?;
    println!("{}", package.display());
    if verifies { verify(&package) } else { Ok(()) }
}

/// Packs into a folder what is built in another; the revision is of the package.
fn build(folder: &Path, target_dir: &Path, revision: &str) -> Result<PathBuf> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !installed.lines().any(|line| line == TARGET) {
        run_program(Command::new("rustup").args(["target", "add", TARGET]))?;
    }
    install(&["musl-tools"], &["musl-gcc"])?;
    let program = build_program(target_dir)?;
    write_words(&program, &root().join("target/deb"))?;
    let packer = tools::built("cargo-deb", CARGO_DEB)?;
    let name = folder.join(format!("zoneweave_{}-{revision}_amd64.deb", env!("CARGO_PKG_VERSION")));
    let mut pack = Command::new(packer);
    pack.current_dir(root()).args(["deb", "--no-build", "--no-strip", "--target", TARGET]);
    pack.args(["--deb-revision", revision, "--output"]).arg(&name);
    pack.env("CARGO_TARGET_DIR", target_dir).env("SOURCE_DATE_EPOCH", commit_time()?);
    run_program(&mut pack)?;
    Ok(name)
}

/// The static program. Names of this machine's folders do not get into it.
fn build_program(target_dir: &Path) -> Result<PathBuf> {
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let flags = format!(
        "--remap-path-prefix={}=/target --remap-path-prefix={}=/zoneweave --remap-path-prefix={home}=/cargo",
        target_dir.display(),
        root().display()
    );
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--package", "zoneweave", "--bin", "zoneweave"]);
    command.args(["--target", TARGET, "--target-dir"]).arg(target_dir).env("RUSTFLAGS", flags);
    // The allocator, which is C, says when it was built: always at the same time, also where it was built before another commit.
    command.env("SOURCE_DATE_EPOCH", "0");
    // A broken invariant still names its file and line.
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    run_program(&mut command)?;
    Ok(target_dir.join(TARGET).join("release/zoneweave"))
}

/// The manual and the completions, as the program itself writes them.
fn write_words(program: &Path, folder: &Path) -> Result<()> {
    let pages = folder.join("man");
    if pages.exists() {
        fs::remove_dir_all(&pages).with_context(|| format!("{}", pages.display()))?;
    }
    run_program(Command::new(program).arg("man").arg(&pages))?;
    for (shell, file) in [("bash", "zoneweave.bash"), ("zsh", "_zoneweave"), ("fish", "zoneweave.fish")] {
        let script = output(Command::new(program).args(["completions", shell]))?;
        let path = folder.join(file);
        fs::write(&path, script).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

/// Seconds at which the last commit was made: times in the package.
fn commit_time() -> Result<String> {
    let time = output(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"]))?;
    Ok(time.trim().to_owned())
}

/// Shows that a package is as it should be, each in its part.
fn verify(package: &Path) -> Result<()> {
    let mut phases = Phases::default();
    install(&["lintian", "systemd", "debootstrap"], &["lintian", "systemd-analyze", "debootstrap"])?;
    let results = [
        phases.time("same bytes", || is_repeated(package)),
        phases.time("lintian", || lint(package)),
        phases.time("unit", verify_unit),
        phases.time("Debian 12", || live_through("bookworm", package)),
        phases.time("Debian 13", || live_through("trixie", package)),
    ];
    for error in results.into_iter().filter_map(Result::err) {
        eprintln!("xtask: {error:#}");
    }
    println!("deb: {}", phases.summary());
    if !phases.all_succeeded() {
        bail!("the package is not as it should be");
    }
    Ok(())
}

/// Built again elsewhere, it has the same bytes.
fn is_repeated(package: &Path) -> Result<()> {
    let elsewhere = root().join("target/deb/again");
    let again = build(&elsewhere, &elsewhere.join("target"), "1")?;
    if fs::read(package)? != fs::read(&again)? {
        bail!("{} and {} differ", package.display(), again.display());
    }
    Ok(())
}

fn lint(package: &Path) -> Result<()> {
    // A static program is what this package is about.
    let suppressed = "statically-linked-binary";
    run_program(
        Command::new("lintian").args(["--fail-on", "error", "--suppress-tags", suppressed]).arg(package),
    )
}

fn verify_unit() -> Result<()> {
    // The program that the unit names need not be installed here.
    let text = fs::read_to_string(root().join("packaging/zoneweave@.service"))?;
    let folder = root().join("target/deb/unit");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("zoneweave@.service"), text.replace("/usr/bin/zoneweave", "/bin/true"))?;
    let unit = folder.join("zoneweave@vm.service");
    run_program(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit))
}

/// In a fresh Debian of a release: installed, an array made, upgraded, purged; the array is as it was.
fn live_through(release: &str, package: &Path) -> Result<()> {
    let system = root().join("target/deb").join(release);
    if !system.join("usr/bin/dpkg").is_file() {
        run_program(Command::new("debootstrap").args(["--variant=minbase", release]).arg(&system))?;
    }
    let newer = build(&root().join("target/deb"), &root().join("target"), "2")?;
    for (name, from) in [("first.deb", package), ("second.deb", &newer)] {
        fs::copy(from, system.join(name))?;
    }
    let script = "set -e
        rm -rf /etc/zoneweave
        dpkg --install /first.deb
        zoneweave create /etc/zoneweave/vm --drives 4 --size 256MiB
        zoneweave check /etc/zoneweave/vm
        find /etc/zoneweave -type f | sort | xargs sha256sum >/before
        dpkg --install /second.deb
        zoneweave check /etc/zoneweave/vm
        zoneweave --version
        test -s /usr/share/man/man1/zoneweave-serve.1.gz
        getent group zoneweave || ! command -v systemd-sysusers
        dpkg --purge zoneweave
        test ! -e /usr/bin/zoneweave
        find /etc/zoneweave -type f | sort | xargs sha256sum | diff /before -
        echo 'the array outlived the package'";
    run_program(Command::new("chroot").arg(&system).args(["sh", "-c", script]))
}
