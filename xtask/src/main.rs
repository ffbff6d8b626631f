//! The developer's commands, as `cargo xtask COMMAND [ARGUMENT]`.
//!
//! ```text
//! main      which command
//! tidy/     rules the compiler does not know
//! phase     running programs, and how long the parts took
//! tools     the clients that the end-to-end tests drive
//! test, sim, md, siege, kills, guest, conformance/, clients/, bench, fuzz, sanitize, ci
//! same/     whether two commits do the same
//! mutants   deliberate bugs that the simulator must find
//! ```

mod bench;
mod cache_server;
mod ci;
mod clients;
mod conformance;
mod deb;
mod fuzz;
mod guest;
mod kills;
mod md;
mod mutants;
mod phase;
mod pool;
mod same;
mod sanitize;
mod siege;
mod sim;
mod test;
mod tidy;
mod tools;

use anyhow::{Context, Result, bail};
use phase::cargo;
use std::path::Path;
use std::process::ExitCode;

/// A command: its name, one line for the overview, the rest of its help, and what does it.
struct Command {
    name: &'static str,
    line: &'static str,
    help: &'static str,
    run: Run,
}

/// Function that does a command.
enum Run {
    Plain(fn() -> Result<()>),
    /// With an argument of this name, which may be left out.
    With(&'static str, fn(Option<&str>) -> Result<()>),
    /// With arguments that it reads itself, shown as this, and an exit code of its own.
    Words(&'static str, fn(&[String]) -> Result<ExitCode>),
}

const COMMANDS: &[Command] = &[
    Command {
        name: "check",
        line: "formatting, lints and tidy",
        help: "cargo fmt --check; cargo clippy --workspace --all-targets, warnings are errors; the lock file of fuzz/; tidy; the targets of fuzz/ compile.",
        run: Run::Plain(check),
    },
    Command {
        name: "tidy",
        line: "the rules of this repository that the compiler does not know",
        help: "who may depend on whom; no clock, lock, I/O or hash order in base, zone and array; length \
               and prologue of files;\nunsafe only where it is listed and explained; every deliberate bug still applies; \
               subjects and bodies of the last 20 commits;\nevery dependency argued in docs/adr; no path of a \
               developer's machine. Warnings do not fail.",
        run: Run::Plain(tidy::run),
    },
    Command {
        name: "test",
        line: "all tests, the end-to-end tests with real clients included",
        help: "As root on Debian it installs the clients that are missing (fio, nbdinfo, nbdcopy, nbdfuse, \
               nbdsh, qemu-img, ...),\nelsewhere it says what to install and which tests are skipped. Then \
               the tests of all crates,\nthen the end-to-end tests against a release build. \
               ZONEWEAVE_REQUIRE_TOOLS=1 turns skipping into failing;\nZONEWEAVE_CRASH_ROUNDS=N shortens \
               or lengthens the crash tests.",
        run: Run::Plain(test::run),
    },
    Command {
        name: "sim",
        line: "all scenarios and fresh seeds of the simulator: 100000, or as many as said",
        help: "`zoneweave sim --runs RUNS` from a release build, beginning at a seed that is another one each \
               day and is printed,\nand the same event-log hash from a build with debug assertions; then half as many \
               runs of the in-place engine.\n100000 runs take less than half an hour on 2 cores.",
        run: Run::With("RUNS", sim::run),
    },
    Command {
        name: "same",
        line: "whether two commits do the same: what a refactoring shows",
        help: "Builds both in target/same and compares the hash of the event log of each seed and each scenario, every number \
               of\n`lab run all --seeds 1`, and the instructions of `lab null-write` (2 % more are allowed; valgrind \
               counts). BASE is\nwhere the branch left its upstream, or else the commit before; HEAD is the working tree. \
               What was measured of a commit\nis kept. Exit code 0: the same, 1: different, 2: no answer.\n\
               --seeds N: 1500 unless said; --lab-scale S: 1 unless said; --no-lab; --no-instructions; --json;\n\
               --again: measure both anew, whatever is kept.",
        run: Run::Words("[BASE] [HEAD] [OPTIONS]", same::run),
    },
    Command {
        name: "siege",
        line: "a served array through host troubles, with an oracle on every block: 600 seconds, or as many as said",
        help: "kill -9, stops, frozen servers, drives that are lost, unlinked, truncated, failed, rotten, without header or put \
               back as they were,\na full file system, no descriptors, outputs that nobody reads, drawn at random while clients \
               write (tests/siege.rs). ZONEWEAVE_SEED repeats a run. CI does each \
               trouble once, among the end-to-end tests.",
        run: Run::With("SECONDS", siege::run),
    },
    Command {
        name: "kills",
        line: "served caches, killed under load by both protocols, two of them with the power of their drives: 200 times each, or as often as said; arrays under fio",
        help: "Four clients, of both protocols, know what they stored, and read all of it by the other protocol after each kill \
               (tests/cache/kills.rs).\nA cache of one shard and one of two are killed; of two others the drives lose with each kill what was not flushed, which takes root.\n\
               How much is there is told. Arrays are killed a quarter as often, on files and in memory with a write area, while fio overwrites\n\
               single blocks; every other time a drive is lost as well (tests/clients/kill9_fio.rs). ZONEWEAVE_SEED repeats what they ask.\n\
               CI does six kills of each cache and two of each array, among the end-to-end tests.",
        run: Run::With("COUNT", kills::run),
    },
    Command {
        name: "deb",
        line: "the Debian package, target/deb/zoneweave_*.deb, from a static program",
        help: "Builds for x86_64-unknown-linux-musl (rustup adds it, and apt-get its C compiler), writes the manual and completions, and packs with cargo-deb, which is \
               built into target/tools once.\n--verify: the same bytes when built again elsewhere, lintian, systemd-analyze, and a fresh \
               Debian in which it is installed, upgraded and purged\nwhile an array stays as it was. As root on Debian; four minutes on 2 cores after the first build.",
        run: Run::With("--verify", deb::run),
    },
    Command {
        name: "guest",
        line: "virtual machines whose disk is a volume, while its server is killed, and one with NVMe drives with zones",
        help: "Boots a kernel of Debian under QEMU without KVM, with a volume as its disk over vhost-user, for arrays of both \
               engines; kills the server\nthree times under ext4 and compares every file at the end (tests/machine.rs). Another \
               machine has NVMe drives with zones, and an array on them\nwhose server is killed and whose drives are pulled \
               (tests/zns.rs). Others have zoned disks without metadata, whose zones die\n(tests/zoned.rs), drives that are \
               yanked (tests/yank.rs), answer too late (tests/slow.rs) or cannot be read (tests/media.rs), lose their power under load\n(tests/power.rs), or have \
               volumes as disks of their own (tests/ublk.rs). NAME is machine, zns, zoned, yank, slow, media, power, ublk,\nformats, \
               differential or newer_md. --short: machine, zns and power with two cuts, each in short. --kernel: all machines boot it, and \
               what is about 6.12 is left out\nwith 6.1. --qemu: another QEMU, with options behind its path if need be. As root, half an hour for all. The kernel's package is downloaded\n\
               to target/guest and unpacked, never installed; \
               ZONEWEAVE_KERNEL names an unpacked one, ZONEWEAVE_KERNEL_6_12 that of 6.12. Debian: qemu-system-x86 busybox-static cpio kmod.",
        run: Run::Words("[--short] [--kernel 6.1|6.12] [--qemu PATH] [NAME...]", guest::run),
    },
    Command {
        name: "md",
        line: "arrays of md held against Linux itself: 2 rounds of each match, or as many as said",
        help: "The tests of arrays in md's format: arrays that the kernel wrote, mdadm on ours, and Linux md in user mode, \
               which takes turns with\nus to write arrays of all levels, six layouts and each policy (tests/md/ping_pong.rs). Here \
               the server is killed, there the kernel\npanics while a member holds writes back; each side then has to find all that was \
               acknowledged, and right parities.\nAs root on Debian. CI plays two matches once.",
        run: Run::With("ROUNDS", md::run),
    },
    Command {
        name: "conformance",
        line: "the suites of Redis 7.0.15 and memcached 1.6.18 against a served cache: all of it, or files by name",
        help: "Downloads Debian's source packages to target/conformance once, by lists of their own, and runs what of their tests needs no more than\nthe                commands that are promised: the Tcl files of Redis, t/*.t of memcached, memccapable. tests/conformance lists the tests, and \
               those that fail\nwith their reasons. 92 seconds; --short: 25 seconds, as CI does. Debian: tcl, perl, libmemcached-tools, redis-tools.",
        run: Run::Words("[--short] [FILE...]", conformance::run),
    },
    Command {
        name: "clients",
        line: "client libraries and tools of Redis and memcached against a served cache: all, or some by name or language",
        help: "Installs each library in the version that tests/clients pins to target/clients once, and runs a program of ours with it: redis-py, pymemcache, Django,\n\
               Flask-Caching (python); ioredis, node-redis, memcached (node); go-redis, gomemcache (go); redis (rust); hiredis (c); lettuce, jedis,\n\
               spymemcached (java); redis-cli, redis-benchmark, memcaslap (tools). A language whose toolchain is missing is skipped with a line that says so;\n\
               ZONEWEAVE_REQUIRE_TOOLS=1 turns that into failing. --short: less load by redis-benchmark and memcaslap, and nothing fails for want of a language, as CI does.",
        run: Run::Words("[--short] [NAME...]", clients::run),
    },
    Command {
        name: "bench",
        line: "the cost of a write, and NBD beside nbdkit",
        help: "`zoneweave lab null-write --json` and, where fio and nbdkit are, `zoneweave lab nbd-compare \
               --json`,\nfrom a release build. About a minute.",
        run: Run::Plain(bench::run),
    },
    Command {
        name: "fuzz",
        line: "what comes from networks, drives and files, mutated: 60 seconds per target, or as many as said",
        help: "Builds fuzz/ with coverage (stable Rust and a C++ compiler do), runs its targets one after \
               the other and prints\nwhat they executed, covered and found. A finding fails the command, \
               which says how to replay it.\nfuzz/corpus grows from run to run; it begins with what our \
               own encoders write.",
        run: Run::With("SECONDS", fuzz::run),
    },
    Command {
        name: "sanitize",
        line: "the tests of crates with unsafe code under AddressSanitizer",
        help: "The tests that go through XOR kernels, the mapped drive file and io_uring, with leaks. The \
               runtime comes with stable Rust.\nHalf a minute, and some three to build on one core: not part of ci.",
        run: Run::Plain(sanitize::run),
    },
    Command {
        name: "mutants",
        line: "deliberate bugs, each of which the simulator must find",
        help: "Puts the bugs of crates/sim/mutants into a scratch copy, target/mutants/tree, builds the \
               simulator there,\nand lets scenarios and seeds look for each. Some minutes. One that is not \
               found is a hole in the simulator.\nFor a single one: \
               target/mutants/release/mutants --only NAME",
        run: Run::Plain(mutants::run),
    },
    Command {
        name: "drawn-mutants",
        line: "mutants that nobody chose: a sample of what cargo-mutants lists for array, zone and base",
        help: "Draws 200 by a seed, one of a function, puts them into the scratch copy behind switches, and tells which of them neither the simulator finds \
               within 500 seeds nor a test of these crates.\ncargo-mutants is built into target/tools once. Half an hour on 2 cores.",
        run: Run::Words("[--seed N] [--count N] [--runs N]", mutants::run_drawn),
    },
    Command {
        name: "mutants-table",
        line: "the same, and the table in docs/TESTING.md anew",
        help: "What stands between <!-- mutants --> and <!-- /mutants --> is written by this.",
        run: Run::Plain(mutants::write),
    },
    Command {
        name: "ci",
        line: "check, test, short forms of guest, sim, fuzz and bench: exactly what CI runs",
        help: "As those commands one after the other, with nothing skipped for want of a tool, \
               and the time each took.\n.ci/run does this on a fresh machine.",
        run: Run::Plain(ci::run),
    },
];

fn main() -> ExitCode {
    match dispatch(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let wants_help = arguments.iter().any(|argument| ["-h", "--help", "help"].contains(&argument.as_str()));
    if wants_help || arguments.is_empty() {
        print!("{}", help());
        return Ok(ExitCode::SUCCESS);
    }
    let (name, rest) = arguments.split_first().context("a command")?;
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        bail!("there is no command `{name}`; see `cargo xtask --help`")
    };
    match (&command.run, rest) {
        (Run::Words(_, run), words) => return run(words),
        (Run::Plain(run), []) => run()?,
        (Run::With(_, run), []) => run(None)?,
        (Run::With(_, run), [argument]) => run(Some(argument))?,
        (Run::Plain(_), [_]) => bail!("`{name}` takes no argument; see `cargo xtask --help`"),
        (_, _) => bail!("one command at a time, with one argument at most; see `cargo xtask --help`"),
    }
    Ok(ExitCode::SUCCESS)
}

fn help() -> String {
    let mut text = "cargo xtask COMMAND [ARGUMENT]\n".to_owned();
    for command in COMMANDS {
        let details = command.help.replace('\n', "\n            ");
        let name = match command.run {
            Run::Plain(_) => command.name.to_owned(),
            Run::With(argument, _) => format!("{} [{argument}]", command.name),
            Run::Words(words, _) => format!("{} {words}", command.name),
        };
        text += &format!("\n  {name:8}  {}\n            {details}\n", command.line);
    }
    text
}

/// Everything that needs no running.
fn check() -> Result<()> {
    check_workspace()?;
    fuzz::check()
}

/// The same without the targets of `fuzz/`, which CI builds in a phase of their own.
fn check_workspace() -> Result<()> {
    phase::run(cargo().args(["fmt", "--all", "--check"]))?;
    for other in ["fuzz/Cargo.toml", "tests/clients/rust/Cargo.toml", "peers/foyer/Cargo.toml"] {
        phase::run(cargo().args(["fmt", "--manifest-path", other, "--check"]))?;
    }
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    phase::run(cargo().args(lints))?;
    // The targets are built with their own lock file as it is.
    phase::run(cargo().args(["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"]))?;
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
