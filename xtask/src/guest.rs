//! `cargo xtask guest`: virtual machines under QEMU, whose disk is a volume (tests/machine.rs), that have drives for arrays
//! (tests/zns.rs, tests/zoned.rs), which are yanked (tests/yank.rs), answer too late (tests/slow.rs) or cannot be read (tests/media.rs), are polled (tests/polled.rs) and lose their power (tests/power.rs), or a volume as a disk of
//! their own (tests/ublk.rs), whose drives have formats that cannot be used (tests/formats.rs) or are of all kinds (tests/differential.rs), or a newer md (tests/newer_md.rs).

use crate::phase::{cargo, run as run_program};
use crate::test::programs;
use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::ExitCode;

/// Environment that turns a machine that cannot be booted into a failure.
const REQUIRE_TOOLS: &str = "ZONEWEAVE_REQUIRE_TOOLS";
/// Programs of tests that boot machines.
const PROGRAMS: [&str; 12] = [
    "machine",
    "zns",
    "zoned",
    "yank",
    "slow",
    "media",
    "polled",
    "power",
    "ublk",
    "formats",
    "differential",
    "newer_md",
];
/// Programs of the short form.
const SHORT_PROGRAMS: [&str; 3] = ["machine", "zns", "power"];
/// Programs that CI has the time for: a disk over vhost-user; an array by passthrough, which outlives two power cuts.
const CI_PROGRAMS: [&str; 2] = ["machine", "power"];
/// Programs that need the newer kernel.
const NEWER_PROGRAMS: [&str; 3] = ["polled", "ublk", "newer_md"];
/// Programs that take longest, and so begin first.
const LONGEST: [&str; 4] = ["zoned", "power", "zns", "ublk"];
/// A test at a time: its output is that of its machine.
const ARGUMENTS: [&str; 3] = ["--nocapture", "--test-threads", "1"];
/// Kernels that machines may boot.
const KERNELS: [&str; 2] = ["6.1", NEWER_KERNEL];
const NEWER_KERNEL: &str = "6.12";

/// Options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    is_short: bool,
    /// Kernel of all machines.
    kernel: Option<String>,
    qemu: Option<String>,
    programs: Vec<String>,
}

impl Options {
    /// Options and names of programs from words.
    fn parse(words: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--short" => options.is_short = true,
                "--kernel" => {
                    let kernel = words.next().context("--kernel wants 6.1 or 6.12")?;
                    ensure!(
                        KERNELS.contains(&kernel.as_str()),
                        "--kernel {kernel}: there is {}",
                        KERNELS.join(" and ")
                    );
                    options.kernel = Some(kernel.clone());
                }
                "--qemu" => {
                    options.qemu = Some(words.next().context("--qemu wants the path of a QEMU")?.clone());
                }
                option if option.starts_with("--") => {
                    bail!("`{option}` is not an option; there are --short, --kernel and --qemu")
                }
                name if PROGRAMS.contains(&name) => options.programs.push(name.to_owned()),
                name => bail!("`{name}` is not one of {}", PROGRAMS.join(", ")),
            }
        }
        options.choose()
    }

    /// Chooses programs where none is named.
    fn choose(mut self) -> Result<Options> {
        let is_older = self.kernel.as_ref().is_some_and(|kernel| kernel != NEWER_KERNEL);
        let is_newer = |program: &String| NEWER_PROGRAMS.contains(&program.as_str());
        if let Some(newer) = self.programs.iter().find(|program| is_older && is_newer(program)) {
            bail!("{newer} is about kernel {NEWER_KERNEL}: leave --kernel out");
        }
        if self.programs.is_empty() {
            let all = if self.is_short { &SHORT_PROGRAMS[..] } else { &PROGRAMS[..] };
            self.programs = all.iter().map(ToString::to_string).collect();
            self.programs.retain(|program| !is_older || !is_newer(program));
        }
        Ok(self)
    }

    /// Options of `cargo test` that name the tests.
    fn tests(&self) -> Vec<&str> {
        let programs = self.programs.iter().flat_map(|program| ["--test", program]);
        ["--release", "--package", "zoneweave"].into_iter().chain(programs).collect()
    }

    /// Environment of the tests.
    fn environment(&self) -> Result<Vec<(&'static str, String)>> {
        let mut environment = vec![
            ("ZONEWEAVE_GUEST", "1".to_owned()),
            ("ZONEWEAVE_GUEST_SHORT", u32::from(self.is_short).to_string()),
        ];
        environment.extend(self.kernel.clone().map(|kernel| ("ZONEWEAVE_GUEST_KERNEL", kernel)));
        if let Some(qemu) = &self.qemu {
            // Options may follow the path.
            let program = qemu.split_whitespace().next().context("--qemu wants the path of a QEMU")?;
            ensure!(
                !program.contains('/') || Path::new(program).is_file(),
                "--qemu {qemu}: there is no such program"
            );
            environment.push(("ZONEWEAVE_QEMU", qemu.clone()));
        }
        Ok(environment)
    }
}

/// Boots the machines, one for each processor of this host at a time: with one processor of its own, and without KVM, a machine keeps one
/// busy.
///
/// # Errors
/// When a machine lost something, QEMU is not there, or a name is none of a program of tests.
pub fn run(words: &[String]) -> Result<ExitCode> {
    let options = Options::parse(words)?;
    tools::provide()?;
    let mut environment = options.environment()?;
    environment.push((REQUIRE_TOOLS, "1".to_owned()));
    programs::run(&options.tests(), &LONGEST, &ARGUMENTS, &environment)?;
    Ok(ExitCode::SUCCESS)
}

/// What CI runs, in short, with the tools of its tests. It is run on machines of others: where QEMU or a kernel cannot be had, a line says so.
///
/// # Errors
/// When a machine lost something.
pub fn run_short() -> Result<()> {
    let programs = CI_PROGRAMS.iter().map(ToString::to_string).collect();
    let options = Options { is_short: true, programs, ..Options::default() };
    let mut tests = cargo();
    tests.arg("test").args(options.tests()).arg("--").args(ARGUMENTS);
    run_program(tests.envs(options.environment()?).env_remove(REQUIRE_TOOLS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_names_come_in_any_order() {
        let options = parse("zns --kernel 6.12 power --qemu /opt/qemu --short").unwrap();
        assert_eq!(options.programs, ["zns", "power"]);
        assert_eq!((options.kernel.as_deref(), options.qemu.as_deref()), (Some("6.12"), Some("/opt/qemu")));
        assert_eq!(parse("").unwrap().programs, PROGRAMS);
        assert_eq!(parse("--short").unwrap().programs, SHORT_PROGRAMS);
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let said = |line| parse(line).unwrap_err().to_string();
        assert!(
            said("zns slwo").contains("`slwo` is not one of machine, zns, zoned"),
            "{}",
            said("zns slwo")
        );
        assert!(said("--kernel 5.15").contains("6.1 and 6.12"));
        assert!(said("--kernel").contains("6.1 or 6.12") && said("--qemu").contains("path"));
        assert!(said("--fast").contains("--short, --kernel and --qemu"));
    }

    #[test]
    fn an_older_kernel_has_no_newer_devices() {
        let options = parse("--kernel 6.1").unwrap();
        assert!(!options.programs.is_empty() && options.programs.iter().all(|name| name != "ublk"));
        assert!(parse("ublk --kernel 6.1").unwrap_err().to_string().contains("6.12"));
        assert!(parse("ublk --kernel 6.12").is_ok());
    }
}
