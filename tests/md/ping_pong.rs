//! Ping-pong with Linux md: an array is written here and by md in a guest, turn by turn, and each side is cut off in the middle of
//! its writes. Nothing acknowledged is lost, nothing untouched changes, and parities are right on both sides.
//!
//! Here the server is killed; in the guest the kernel panics while one member, drawn at random, holds its writes back. In every second round
//! a member is missing, or another one is being rebuilt in its place, as the array is handed over. Without a log or a journal both sides refuse
//! such an array when it is cut off, so there they stop it instead.
//!
//! `cargo xtask md` plays all levels, layouts and policies; else three arrays are played once. `ZONEWEAVE_MD_ROUNDS` says how many rounds.

use crate::support::guest;
use crate::support::run::{Finished, SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, let_run, status, zoneweave};
use crate::support::stamp::{BLOCK_BYTES_U64, push_block};
use crate::support::text;
use crate::support::writer::{BLOCKS, Oracle};
use base::random::Random;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Array of a match.
#[derive(Clone, Copy, Debug)]
struct Cell {
    level: &'static str,
    layout: Option<&'static str>,
    policy: &'static str,
    members: usize,
}

/// Members of the array as it is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Whole,
    Degraded,
    Rebuilding,
}

/// State of a round of a match: whole in every other one.
fn state(number: usize, round: u64) -> State {
    match (round % 2, (u64::try_from(number).unwrap() + round / 2) % 2) {
        (0, _) => State::Whole,
        (_, 0) => State::Degraded,
        _ => State::Rebuilding,
    }
}

/// Cells of the short form.
const SHORT: [Cell; 4] = [
    Cell { level: "5", layout: Some("left-symmetric"), policy: "bitmap", members: 4 },
    Cell { level: "6", layout: Some("left-symmetric"), policy: "resync", members: 5 },
    Cell { level: "5", layout: Some("left-symmetric"), policy: "ppl", members: 4 },
    Cell { level: "6", layout: Some("left-symmetric"), policy: "journal", members: 4 },
];

/// Layouts of RAID-5 and RAID-6 in the long form.
const LAYOUTS_5: [&str; 4] = ["left-symmetric", "right-asymmetric", "parity-first", "left-asymmetric"];
const LAYOUTS_6: [&str; 4] = ["left-symmetric", "ddf-N-continue", "right-symmetric-6", "ddf-zero-restart"];
const POLICIES: [&str; 4] = ["bitmap", "resync", "ppl", "journal"];

fn cells(is_long: bool) -> Vec<Cell> {
    if !is_long {
        return SHORT.to_vec();
    }
    // Three layouts of each level with each policy, and all four among them.
    let three = |policy, layouts: [&'static str; 4], at: usize, level, members| {
        let layouts = (0..3).map(move |index| layouts[(at + index) % 4]);
        layouts.map(move |layout| Cell { level, layout: Some(layout), policy, members })
    };
    let mut cells = Vec::new();
    for (at, policy) in POLICIES.into_iter().enumerate() {
        // The journal is one device more.
        let less = usize::from(policy == "journal");
        if policy != "ppl" {
            cells.push(Cell { level: "4", layout: None, policy, members: 3 });
            cells.extend(three(policy, LAYOUTS_6, at, "6", 5 - less));
        }
        cells.extend(three(policy, LAYOUTS_5, at, "5", 4 - less));
    }
    cells
}

/// Array and what its volume may hold.
struct Match {
    cell: Cell,
    scratch: Scratch,
    dir: PathBuf,
    /// Members by role.
    members: Vec<PathBuf>,
    journal: Option<PathBuf>,
    /// Role whose member is missing.
    missing: Option<usize>,
    oracle: Oracle,
    random: Random,
}

/// Makes an empty device.
fn blank(path: &Path) {
    std::fs::File::create(path).unwrap().set_len(40 << 20).unwrap();
}

impl Match {
    fn begin(cell: Cell, seed: u64) -> Match {
        let scratch = Scratch::new("md-ping-pong");
        let members: Vec<PathBuf> =
            (0..cell.members).map(|index| scratch.join(&format!("m{index}"))).collect();
        let journal = (cell.policy == "journal").then(|| scratch.join("journal"));
        members.iter().chain(&journal).for_each(|path| blank(path));
        let dir = scratch.join("a");
        let count = cell.members.to_string();
        let mut create = zoneweave();
        create.args(["md", "create"]).arg(&dir).args(["--level", cell.level, "--raid-devices", &count]);
        create.args(["--chunk", "16"]);
        match (&journal, cell.policy) {
            (Some(journal), _) => create.arg("--write-journal").arg(journal),
            (None, "bitmap") => create.args(["--bitmap-chunk", "1M", "--consistency-policy", "bitmap"]),
            (None, policy) => create.args(["--consistency-policy", policy]),
        };
        if let Some(layout) = cell.layout {
            create.args(["--layout", layout]);
        }
        let made = run_for(SOON, create.args(&members));
        assert_eq!(made.code(), Some(0), "{made}");
        if cell.policy == "ppl" {
            // The last member is rebuilt at first.
            let server = Server::serve(&dir);
            expect(&run_for(SOON * 2, zoneweave().args(["rebuild", text(&dir), "--wait"])));
            server.stop();
        }
        let (oracle, random) = (Oracle::new(), Random::from_seed(seed));
        Match { cell, scratch, dir, members, journal, missing: None, oracle, random }
    }

    /// Devices that are there.
    fn devices(&self) -> Vec<PathBuf> {
        let is_there = |(role, _): &(usize, &PathBuf)| self.missing != Some(*role);
        let members = self.members.iter().enumerate().filter(is_there).map(|(_, path)| path);
        members.chain(&self.journal).cloned().collect()
    }

    /// True when the array is cut off in this state, and not stopped.
    fn is_cut_off(&self, state: State) -> bool {
        state == State::Whole || matches!(self.cell.policy, "ppl" | "journal")
    }

    /// Our side: what the other left is right, members go and come; writes until it is cut off or stopped.
    fn serve_and_cut_off(&mut self, state: State) {
        let server = Server::serve_degraded(&self.dir);
        self.oracle.verify(&server);
        match state {
            State::Whole => self.make_whole(&server),
            State::Degraded => self.lose_a_member(&server),
            State::Rebuilding => {
                self.lose_a_member(&server);
                expect(&ask(&["rebuild", text(&self.dir), "--rate", "1"]));
                self.add_what_is_missing();
            }
        }
        let writers = self.oracle.write(&server, &mut self.random);
        let_run(Duration::from_millis(300 + self.random.below(500)));
        let is_cut_off = self.is_cut_off(state);
        let count = if is_cut_off {
            server.kill_9();
            self.oracle.join(writers)
        } else {
            let count = self.oracle.end(writers);
            server.stop();
            count
        };
        let end = if is_cut_off { "kill" } else { "stop" };
        println!("{}", self.said(&format!("{count} requests until the {end}, {state:?}")));
        assert!(count > 0, "nothing was written");
        if is_cut_off && self.cell.policy == "ppl" && state != State::Whole {
            self.heal();
        }
    }

    /// Without a member, a log leaves in doubt what was on its way with others of a row: that is written again.
    fn heal(&mut self) {
        let server = Server::serve_degraded(&self.dir);
        expect(&ask(&["rebuild", text(&self.dir), "--rate", "1"]));
        let lost = self.oracle.verify_and_heal(&server);
        println!("{}", self.said(&format!("{lost} blocks were lost on their way")));
        server.stop();
    }

    /// All members are there; in some rounds one is replaced, in some a resync comes to its end.
    fn make_whole(&mut self, server: &Server) {
        if self.missing.is_some() || self.random.chance(1, 2) {
            self.lose_a_member(server);
            self.add_what_is_missing();
            expect(&run_for(SOON * 2, zoneweave().args(["rebuild", text(&self.dir), "--wait"])));
        }
        if self.random.chance(1, 2) {
            self.resync(server);
        }
    }

    fn resync(&self, server: &Server) {
        assert!(until(SOON, || status(&self.dir)["resync"].is_null()), "{}", server.log());
    }

    /// A member fails while the array is served, unless one is missing.
    fn lose_a_member(&mut self, server: &Server) {
        self.resync(server);
        if self.missing.is_some() {
            return;
        }
        let role = self.random.index(self.members.len());
        let old = &self.members[role];
        expect(&ask(&["md", "fail", text(&self.dir), text(old)]));
        expect(&ask(&["md", "remove", text(&self.dir), text(old)]));
        std::fs::remove_file(old).unwrap();
        self.missing = Some(role);
    }

    /// An empty device comes in the place of the member that is missing.
    fn add_what_is_missing(&mut self) {
        let Some(role) = self.missing.take() else { return };
        blank(&self.members[role]);
        expect(&ask(&["md", "add", text(&self.dir), text(&self.members[role])]));
    }

    /// The volume as the reader of closed members sees it. What it holds is settled from then on.
    fn volume(&mut self, of_whom: &str) -> Vec<u8> {
        let copy = self.scratch.join("copy");
        let _none_yet = std::fs::remove_file(&copy);
        let done = run_for(SOON, zoneweave().args(["md", "read", "--output"]).arg(&copy).arg(&self.dir));
        assert!(matches!(done.code(), Some(0 | 3)), "{}", self.said(&done.to_string()));
        let content = std::fs::read(&copy).unwrap();
        let blocks = usize::try_from(BLOCKS * BLOCK_BYTES_U64).unwrap();
        if let Err(wrong) = self.oracle.compare(0, &content[..blocks]) {
            panic!("{:?}: after {of_whom}: {wrong}", self.cell);
        }
        assert!(content[blocks..].iter().all(|byte| *byte == 0), "what nobody wrote, after {of_whom}");
        content
    }

    /// The other side: md makes parities right and checks them, rebuilds who is being rebuilt, and writes until it panics or stops.
    fn let_md_write(&mut self, content: &[u8]) {
        let sum = crate::support::md::sum(&self.scratch, content);
        let requests = self.requests();
        let mut data = Vec::new();
        let mut lists = vec![String::new(); WRITERS];
        let mut seek = 0;
        for (id, blocks) in requests.iter().enumerate() {
            let stamp = self.oracle.begin(blocks.clone());
            blocks.clone().for_each(|lba| push_block(&mut data, lba, stamp));
            let count = blocks.end - blocks.start;
            writeln!(lists[id % WRITERS], "{seek} {} {count} {id}", blocks.start).unwrap();
            seek += count;
        }
        let devices = self.devices();
        let slow = self.random.index(devices.len());
        // md does not say which rows of a log are through, so without a member what it answered would be in doubt too.
        let panics = self.missing.is_none() || self.cell.policy == "journal";
        let script = script(&lists, slow, self.random.below(1500), panics);
        let said = guest::run(self.scratch.path(), &devices, &script, &data);
        assert!(
            said.stdout.contains(&format!("sum={sum}")),
            "{:?}: md reads something else\n{said}",
            self.cell
        );
        let found = format!("mismatches=0 degraded={}", u8::from(self.missing.is_some()));
        assert!(said.stdout.contains(&found), "{:?}: {said}", self.cell);
        let done: Vec<usize> =
            said.stdout.lines().filter_map(|line| line.trim().strip_prefix("done ")?.parse().ok()).collect();
        let end = if panics { "panic" } else { "stop" };
        println!("{}", self.said(&format!("{} of {REQUESTS} requests until the {end}", done.len())));
        assert!(!done.is_empty(), "{}", self.said(&format!("md wrote nothing\n{said}")));
        done.into_iter().for_each(|id| self.oracle.acknowledge(requests[id].clone()));
    }

    /// Words about this match.
    fn said(&self, what: &str) -> String {
        let Cell { level, layout, policy, .. } = self.cell;
        format!("RAID-{level} {} {policy}: {what}", layout.unwrap_or(""))
    }

    /// Requests of the guest, in the order of their writers; no two touch the same block.
    fn requests(&mut self) -> Vec<Range<u64>> {
        let room = BLOCKS / REQUESTS;
        let mut starts: Vec<u64> = (0..REQUESTS).map(|index| index * room).collect();
        (1..starts.len()).rev().for_each(|index| starts.swap(index, self.random.index(index + 1)));
        let request = |start: u64| {
            let count = 1 + self.random.below(20);
            let first = start + self.random.below(room - count);
            first..first + count
        };
        starts.into_iter().map(request).collect()
    }
}

/// Matches played at the same time.
const PLAYED_AT_ONCE: usize = 3;
/// Writers in the guest, and their requests.
const WRITERS: usize = 8;
const REQUESTS: u64 = 256;

/// In the guest: assembles the array with one member that holds writes back, checks it, and writes until it panics or stops.
fn script(lists: &[String], slow: usize, milliseconds: u64, panics: bool) -> String {
    let mut script = format!(
        "idle() {{ while [ \"$(cat /sys/block/md0/md/sync_action)\" != idle ]; do sleep 0.1; done; }}
set -- /dev/ubd?
members=; n=0
for disk in $*; do
  if [ $n = {slow} ]; then
    slow=\"0 $(blockdev --getsz $disk) delay $disk 0 0 $disk 0\"
    dmsetup create slow --table \"$slow 0\" || exit
    disk=/dev/mapper/slow
  fi
  members=\"$members $disk\"; n=$((n+1))
done
dmsetup mknodes
mdadm --assemble --run /dev/md0 $members && idle
echo sum=$(sha256sum /dev/md0)
if [ \"$(cat /sys/block/md0/md/degraded)\" = 0 ]; then
  echo check > /sys/block/md0/md/sync_action; sleep 0.3; idle
fi
echo mismatches=$(cat /sys/block/md0/md/mismatch_cnt) degraded=$(cat /sys/block/md0/md/degraded)
# A replay writes row by row: the member is slow from now on, or thousands of rows would take minutes.
dmsetup suspend slow && dmsetup reload slow --table \"$slow 50\" && dmsetup resume slow || exit
writer() {{
  while [ ! -e /enough ] && read skip seek count id; do
    dd if=/data of=/dev/md0 bs=4k skip=$skip seek=$seek count=$count oflag=direct conv=notrunc 2>/dev/null && echo done $id
  done
}}
"
    );
    for list in lists {
        writeln!(script, "writer <<EOF &\n{list}EOF").unwrap();
    }
    let end = if panics {
        "echo c > /proc/sysrq-trigger"
    } else {
        "touch /enough; wait; until mdadm --stop /dev/md0; do sleep 0.1; done"
    };
    writeln!(script, "sleep {}.{:03}; {end}", 1 + milliseconds / 1000, milliseconds % 1000).unwrap();
    script
}

#[track_caller]
fn expect(done: &Finished) {
    assert_eq!(done.code(), Some(0), "{done}");
}

#[test]
fn nothing_is_lost_between_linux_md_and_us() {
    if !crate::support::have(guest::TOOLS)
        || !(crate::support::is_root() || crate::support::skip("a guest's root is made as root"))
    {
        return;
    }
    let rounds = crate::support::number_from("ZONEWEAVE_MD_ROUNDS", 0);
    let mut random = crate::support::random(4);
    let is_long = rounds > 0;
    let cells: Vec<(Cell, u64)> = cells(is_long).into_iter().map(|cell| (cell, random.bits())).collect();
    let next = AtomicUsize::new(0);
    let play_all = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((cell, seed)) = cells.get(number) else { break };
            let last = match is_long {
                true => state(number, rounds | 1),
                false if cell.policy == "journal" => State::Rebuilding,
                false => State::Whole,
            };
            let states = (0..rounds.max(1)).map(|round| state(number, round));
            play(*cell, *seed, &states.collect::<Vec<State>>(), last);
        }
    };
    // A guest has one processor, and waits for disks most of the time.
    std::thread::scope(|scope| (0..PLAYED_AT_ONCE).for_each(|_| drop(scope.spawn(play_all))));
}

/// Plays one match.
fn play(cell: Cell, seed: u64, states: &[State], last: State) {
    let mut game = Match::begin(cell, seed);
    for state in states {
        game.serve_and_cut_off(*state);
        let content = game.volume("an end here");
        game.let_md_write(&content);
        game.volume("an end of Linux");
        if game.missing.is_none() {
            // Parities are wrong now where a write was cut off; how many is chance.
            let checked = ask(&["md", "check", text(&game.dir)]);
            let found = checked.stdout.lines().find(|line| line.contains("mismatches"));
            println!("{}", game.said(&format!("after the end: {}", found.unwrap_or("").trim())));
        }
    }
    game.serve_and_cut_off(last);
    game.volume("an end here");
    let server = Server::serve_degraded(&game.dir);
    game.resync(&server);
    game.add_what_is_missing();
    expect(&run_for(SOON * 2, zoneweave().args(["rebuild", text(&game.dir), "--rate", "0", "--wait"])));
    game.oracle.verify(&server);
    server.stop();
    let checked = ask(&["check", text(&game.dir)]);
    let is_right = checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors");
    assert!(is_right, "{}", game.said(&checked.to_string()));
}
