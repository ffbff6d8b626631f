//! Instructions of a cell by the part of a request that takes them, as callgrind counts them.
//!
//! A part is told by files: the line tables of the program name the file of each instruction, also where it was inlined. What all parts use
//! (the standard library, sets, slabs, frames) has no part of its own: it counts where it was inlined, with the lines before it. What of it
//! is called, such as `memcpy`, is told apart as [`Part::Shared`].

use super::Cell;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Client in a closed loop and members that do nothing, of the lab.
    Lab,
    /// Submit, and the cut at strips.
    Cut,
    /// Strips in work, their rounds, and what waits.
    Gather,
    /// Plans of rows, and commands that read.
    Read,
    /// Parities.
    Parity,
    /// Cache of rows.
    Cache,
    /// Dirty mark, bitmap, logs and journal.
    Log,
    /// Commands that write.
    Write,
    /// Commands on their way to members, and answers on theirs back.
    Member,
    /// End of a round, and replies.
    Reply,
    /// Shared code that is called, not inlined.
    Shared,
}

/// All parts, in the order of a request.
pub const PARTS: [Part; 11] = [
    Part::Lab,
    Part::Cut,
    Part::Gather,
    Part::Read,
    Part::Parity,
    Part::Cache,
    Part::Log,
    Part::Write,
    Part::Member,
    Part::Reply,
    Part::Shared,
];

/// Files by parts of their paths; the first that fits counts.
const FILES: &[(&str, Part)] = &[
    ("crates/lab/", Part::Lab),
    ("/inplace/requests/answers.rs", Part::Reply),
    ("/inplace/requests.rs", Part::Cut),
    ("/inplace/map.rs", Part::Cut),
    ("/md/geometry.rs", Part::Cut),
    ("/inplace/rounds.rs", Part::Gather),
    ("/inplace/table.rs", Part::Gather),
    ("/inplace/window.rs", Part::Gather),
    ("/inplace/rounds/reads.rs", Part::Read),
    ("/inplace/plan.rs", Part::Read),
    ("/inplace/rounds/parities.rs", Part::Parity),
    ("/inplace/row.rs", Part::Parity),
    ("base/src/erasure.rs", Part::Parity),
    ("base/src/xor.rs", Part::Parity),
    ("base/src/combine.rs", Part::Parity),
    ("base/src/galois.rs", Part::Parity),
    ("/inplace/cache.rs", Part::Cache),
    ("/inplace/keeping.rs", Part::Cache),
    ("/inplace/scribe", Part::Log),
    ("/inplace/pages.rs", Part::Log),
    ("/inplace/logs.rs", Part::Log),
    ("/inplace/batch.rs", Part::Log),
    ("/inplace/journal.rs", Part::Log),
    ("/inplace/rounds/writes.rs", Part::Write),
    ("/inplace/completions.rs", Part::Member),
    ("/inplace/volume.rs", Part::Member),
    ("block/src/devices.rs", Part::Member),
    ("/inplace/rounds/end.rs", Part::Reply),
];

/// Parts of names of functions that lock, or wait for a lock.
const LOCKS: [&str; 6] = ["mutex", "rwlock", "spinlock", "futex", "lll_lock", "parking_lot"];

impl Part {
    /// Name in figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Lab => "client and members of the lab",
            Part::Cut => "submit, cut at strips",
            Part::Gather => "strips and rounds",
            Part::Read => "plans and reads",
            Part::Parity => "parities",
            Part::Cache => "cache",
            Part::Log => "dirty mark, bits, logs",
            Part::Write => "writes",
            Part::Member => "ways to members and back",
            Part::Reply => "end of rounds, replies",
            Part::Shared => "shared code, called",
        }
    }

    fn of(file: &str) -> Option<Part> {
        FILES.iter().find(|(place, _)| file.contains(place)).map(|(_, part)| *part)
    }
}

/// Instructions by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    parts: BTreeMap<Part, u64>,
    /// All instructions.
    pub sum: u64,
    /// Instructions in functions that lock.
    pub locks: u64,
}

impl Profile {
    /// Instructions of a part.
    #[must_use]
    pub fn of(&self, part: Part) -> u64 {
        self.parts.get(&part).copied().unwrap_or(0)
    }

    /// Excess over another profile. Code that did not run in the other is not told there, and what is shared and lies behind it may count
    /// elsewhere there: some instructions of a part can be missing, none of the sum.
    fn beyond(&self, less: &Profile) -> Result<Profile> {
        let parts = PARTS.map(|part| (part, self.of(part).saturating_sub(less.of(part))));
        let sum = self.sum.checked_sub(less.sum).context("fewer instructions with requests than without")?;
        Ok(Profile { parts: parts.into(), sum, locks: self.locks.saturating_sub(less.locks) })
    }

    /// Profile by the output of callgrind.
    fn parse(text: &str) -> Profile {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.line(line));
        reader.profile
    }
}

/// Reader of what callgrind writes: each name once, with a number that stands for it later; a line of costs belongs to the function and
/// the file that were named last, but for the line after `calls=`, which has the costs of who is called.
#[derive(Debug, Default)]
struct Reader<'a> {
    files: BTreeMap<&'a str, &'a str>,
    functions: BTreeMap<&'a str, &'a str>,
    /// Part of the file that was named last; none where it is shared.
    file: Option<Part>,
    /// Part of the costs before, of the same function.
    before: Option<Part>,
    locks: bool,
    is_called: bool,
    profile: Profile,
}

/// The name in `(7) name`, or what `(7)` stands for.
fn named<'a>(text: &'a str, names: &mut BTreeMap<&'a str, &'a str>) -> &'a str {
    let Some((number, name)) = text.split_once(')') else { return text };
    if !name.is_empty() {
        names.insert(number, name.trim_start());
    }
    names.get(number).copied().unwrap_or(text)
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) {
        match line.split_once('=') {
            Some(("fl" | "fi" | "fe", file)) => self.file = Part::of(named(file, &mut self.files)),
            Some(("fn", function)) => {
                self.before = self.file;
                let function = named(function, &mut self.functions).to_ascii_lowercase();
                self.locks = LOCKS.iter().any(|lock| function.contains(lock));
            }
            Some(("cfi" | "cfl", file)) => _ = named(file, &mut self.files),
            Some(("cfn", function)) => _ = named(function, &mut self.functions),
            Some(("calls", _)) => self.is_called = true,
            Some(_) => {}
            None => self.costs(line),
        }
    }

    /// A line of costs: a line number, or its distance to the one before, and a count.
    fn costs(&mut self, line: &str) {
        if !line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            return;
        }
        if std::mem::take(&mut self.is_called) {
            return;
        }
        let count = line.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
        let part = self.file.or(self.before);
        self.before = part;
        *self.profile.parts.entry(part.unwrap_or(Part::Shared)).or_default() += count;
        self.profile.sum += count;
        self.profile.locks += if self.locks { count } else { 0 };
    }
}

/// Instructions of the requests of a cell by part: what they are without requests is taken off.
///
/// # Errors
/// When valgrind does not run, or the program has no line tables.
pub fn profile(cell: &Cell) -> Result<Profile> {
    let profile = run(cell, cell.requests())?.beyond(&run(cell, 0)?)?;
    ensure!(profile.of(Part::Gather) > 0, "this program has no line tables: build it as it is released");
    Ok(profile)
}

/// Profile of a process that measures so many requests.
fn run(cell: &Cell, requests: u64) -> Result<Profile> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let program = std::env::current_exe().context("this program has no path")?;
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("zoneweave-callgrind-{}-{number}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", &format!("--callgrind-out-file={}", path.display())]);
    command.arg(program).args(["lab", "md-cost", "--exact", &cell.name]);
    command.args(["--requests", &requests.to_string()]);
    let output = command.output().context("valgrind does not start (Debian: apt-get install valgrind)")?;
    let text = std::fs::read_to_string(&path);
    _ = std::fs::remove_file(&path);
    ensure!(output.status.success(), "valgrind: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(Profile::parse(&text.with_context(|| format!("{}", path.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two functions: one with inlined code of a set and of an XOR and a call, one that is shared and one that locks.
    const TEXT: &str = "\
events: Ir
fl=(1) /src/crates/array/src/inplace/rounds/end.rs
fn=(1) finish
566 10
fi=(2) /src/crates/base/src/pieces.rs
+3 4
fi=(3) /src/crates/base/src/xor.rs
-2 7
fi=(2)
* 2
fe=(1)
+1 1
cfi=(4) /usr/memcpy.S
cfn=(2) __memcpy
calls=3 0
+1 300

fl=(4)
fn=(2)
0 300
fl=(5) /rustc/library/std/src/sys/sync/mutex.rs
fn=(3) std::sys::sync::Mutex::lock
12 5
totals: 329
";

    #[test]
    fn costs_belong_to_the_part_that_inlined_them() {
        let profile = Profile::parse(TEXT);
        assert_eq!((profile.of(Part::Reply), profile.of(Part::Parity)), (15, 9));
        assert_eq!((profile.of(Part::Shared), profile.locks, profile.sum), (305, 5, 329));
        assert_eq!(profile.beyond(&profile).unwrap().sum, 0);
        assert!(Profile::default().beyond(&profile).is_err());
    }

    #[test]
    fn the_files_of_parts_are_there() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders = ["crates/array/src", "crates/block/src", "crates", "."];
        for (file, _) in FILES {
            let file = file.trim_start_matches('/');
            let is_there = |folder: &&str| {
                let path = root.join(folder).join(file);
                path.exists() || path.with_extension("rs").exists()
            };
            assert!(folders.iter().any(is_there), "{file}");
        }
    }
}
