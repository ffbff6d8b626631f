//! The developer's commands, as `cargo xtask COMMAND`.
//!
//! ```text
//! main      which command
//! tidy/     rules the compiler does not know
//! phase     running programs, and how long the parts took
//! tools     the clients that the end-to-end tests drive
//! test, bench, ci
//! ```

mod bench;
mod ci;
mod phase;
mod test;
mod tidy;
mod tools;

use anyhow::{Result, bail};
use phase::cargo;
use std::path::Path;
use std::process::ExitCode;

/// A command: its name, one line for the overview, the rest of its help, and what does it.
struct Command {
    name: &'static str,
    line: &'static str,
    help: &'static str,
    run: fn() -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "check",
        line: "formatting, lints and tidy",
        help: "cargo fmt --check; cargo clippy --workspace --all-targets, warnings are errors; tidy.",
        run: check,
    },
    Command {
        name: "tidy",
        line: "the rules of this repository that the compiler does not know",
        help: "who may depend on whom; no clock, lock, I/O or hash order in base, zone and array; length \
               and prologue of files;\nunsafe only where it is listed and explained; subjects and bodies \
               of the last 20 commits; every dependency argued in docs/adr;\nno path of a developer's \
               machine. Warnings do not fail.",
        run: tidy::run,
    },
    Command {
        name: "test",
        line: "all tests, the end-to-end tests with real clients included",
        help: "As root on Debian it installs the clients that are missing (fio, nbdinfo, nbdcopy, nbdfuse, \
               nbdsh, qemu-img, ...),\nelsewhere it says what to install and which tests are skipped. Then \
               the tests of all crates,\nthen the end-to-end tests against a release build. \
               ZONEWEAVE_REQUIRE_TOOLS=1 turns skipping into failing;\nZONEWEAVE_CRASH_ROUNDS=N shortens \
               or lengthens the crash tests.",
        run: test::run,
    },
    Command {
        name: "bench",
        line: "the cost of a write, and NBD beside nbdkit",
        help: "`zoneweave lab null-write --json` and, where fio and nbdkit are, `zoneweave lab nbd-compare \
               --json`,\nfrom a release build. About a minute.",
        run: bench::run,
    },
    Command {
        name: "ci",
        line: "check, test and a short bench: exactly what CI runs",
        help: "As check, test and bench one after the other, with nothing skipped for want of a tool, \
               and the time each took.\n.ci/run does this on a fresh machine.",
        run: ci::run,
    },
];

fn main() -> ExitCode {
    match dispatch(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let wants_help = arguments.iter().any(|argument| ["-h", "--help", "help"].contains(&argument.as_str()));
    if wants_help || arguments.is_empty() {
        print!("{}", help());
        return Ok(());
    }
    let [name] = arguments else {
        bail!("one command at a time, without arguments; see `cargo xtask --help`")
    };
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(),
        None => bail!("there is no command `{name}`; see `cargo xtask --help`"),
    }
}

fn help() -> String {
    let mut text = "cargo xtask COMMAND\n".to_owned();
    for command in COMMANDS {
        let details = command.help.replace('\n', "\n            ");
        text += &format!("\n  {:8}  {}\n            {details}\n", command.name, command.line);
    }
    text
}

/// Everything that needs no running.
fn check() -> Result<()> {
    phase::run(cargo().args(["fmt", "--all", "--check"]))?;
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    phase::run(cargo().args(lints))?;
    tidy::run()
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root of the repository")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command() {
        let text = help();
        for command in COMMANDS {
            assert!(text.contains(command.line), "{}", command.name);
        }
    }

    #[test]
    fn a_wrong_command_is_refused() {
        assert!(dispatch(&["frobnicate".to_owned()]).is_err());
        assert!(dispatch(&["check".to_owned(), "now".to_owned()]).is_err());
    }
}
