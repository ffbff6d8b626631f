//! Ping-pong with Linux md: an array is written here and by md in a guest, turn by turn, and each side is cut off in the middle of
//! its writes. Nothing acknowledged is lost, nothing untouched changes, and parities are right on both sides.
//!
//! Here the server is killed; in the guest the kernel panics while one member, drawn at random, holds its writes back.
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
use std::path::PathBuf;
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

/// Those of the short form.
const SHORT: [Cell; 3] = [
    Cell { level: "5", layout: Some("left-symmetric"), policy: "bitmap", members: 4 },
    Cell { level: "6", layout: Some("left-symmetric"), policy: "resync", members: 5 },
    Cell { level: "5", layout: Some("left-symmetric"), policy: "ppl", members: 4 },
];

/// Layouts of RAID-5 and RAID-6 in the long form.
const LAYOUTS_5: [&str; 4] = ["left-symmetric", "right-asymmetric", "parity-first", "left-asymmetric"];
const LAYOUTS_6: [&str; 4] = ["left-symmetric", "ddf-N-continue", "right-symmetric-6", "ddf-zero-restart"];
const POLICIES: [&str; 2] = ["bitmap", "resync"];

fn cells(is_long: bool) -> Vec<Cell> {
    if !is_long {
        return SHORT.to_vec();
    }
    let mut cells = Vec::new();
    for policy in POLICIES {
        cells.push(Cell { level: "4", layout: None, policy, members: 3 });
        let fives = LAYOUTS_5.map(|layout| Cell { level: "5", layout: Some(layout), policy, members: 4 });
        let sixes = LAYOUTS_6.map(|layout| Cell { level: "6", layout: Some(layout), policy, members: 5 });
        cells.extend(fives.into_iter().chain(sixes));
    }
    cells.extend(LAYOUTS_5.map(|layout| Cell {
        level: "5",
        layout: Some(layout),
        policy: "ppl",
        members: 4,
    }));
    cells
}

/// Array and what its volume may hold.
struct Match {
    cell: Cell,
    scratch: Scratch,
    dir: PathBuf,
    members: Vec<PathBuf>,
    oracle: Oracle,
    random: Random,
}

impl Match {
    fn begin(cell: Cell, seed: u64) -> Match {
        let scratch = Scratch::new("md-ping-pong");
        let members: Vec<PathBuf> =
            (0..cell.members).map(|index| scratch.join(&format!("m{index}"))).collect();
        for path in &members {
            std::fs::File::create(path).unwrap().set_len(40 << 20).unwrap();
        }
        let dir = scratch.join("a");
        let count = cell.members.to_string();
        let mut create = zoneweave();
        create.args(["md", "create"]).arg(&dir).args(["--level", cell.level, "--raid-devices", &count]);
        create.args(["--chunk", "16", "--bitmap-chunk", "1M"].iter().take(if cell.policy == "bitmap" {
            4
        } else {
            2
        }));
        create.args(["--consistency-policy", cell.policy]);
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
        Match { cell, scratch, dir, members, oracle: Oracle::new(), random: Random::from_seed(seed) }
    }

    /// Our side: what the other left is right, members can go and come back; writes until the kill.
    fn serve_and_kill(&mut self) {
        let server = Server::serve(&self.dir);
        self.oracle.verify(&server);
        if self.random.chance(1, 2) {
            self.replace_a_member(&server);
        }
        if self.random.chance(1, 2) {
            assert!(until(SOON, || status(&self.dir)["resync"].is_null()), "{}", server.log());
        }
        let writers = self.oracle.write(&server, &mut self.random);
        let_run(Duration::from_millis(300 + self.random.below(500)));
        server.kill_9();
        let count = self.oracle.join(writers);
        println!("{}", self.said(&format!("{count} requests until the kill")));
        assert!(count > 0, "nothing was written");
    }

    /// A member fails while the array is written, and an empty one is rebuilt in its place.
    fn replace_a_member(&mut self, server: &Server) {
        assert!(until(SOON, || status(&self.dir)["resync"].is_null()), "{}", server.log());
        let role = usize::try_from(self.random.below(self.members.len() as u64)).unwrap();
        let old = self.members[role].clone();
        expect(&ask(&["md", "fail", text(&self.dir), text(&old)]));
        expect(&ask(&["md", "remove", text(&self.dir), text(&old)]));
        std::fs::remove_file(&old).unwrap();
        std::fs::File::create(&old).unwrap().set_len(40 << 20).unwrap();
        expect(&ask(&["md", "add", text(&self.dir), text(&old)]));
        expect(&run_for(SOON * 2, zoneweave().args(["rebuild", text(&self.dir), "--wait"])));
    }

    /// The volume as the reader of closed members sees it. What it holds is settled from then on.
    fn volume(&mut self, of_whom: &str) -> Vec<u8> {
        let copy = self.scratch.join("copy");
        let _none_yet = std::fs::remove_file(&copy);
        let done = run_for(SOON, zoneweave().args(["md", "read", "--output"]).arg(&copy).arg(&self.dir));
        expect(&done);
        let content = std::fs::read(&copy).unwrap();
        let blocks = usize::try_from(BLOCKS * BLOCK_BYTES_U64).unwrap();
        if let Err(wrong) = self.oracle.compare(0, &content[..blocks]) {
            panic!("{:?}: after {of_whom}: {wrong}", self.cell);
        }
        assert!(content[blocks..].iter().all(|byte| *byte == 0), "what nobody wrote, after {of_whom}");
        content
    }

    /// The other side: md makes parities right and checks them, and writes until it panics.
    fn let_md_write_and_panic(&mut self, content: &[u8]) {
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
        let slow = self.random.below(self.members.len() as u64);
        let said = guest::run(
            self.scratch.path(),
            &self.members,
            &script(&lists, slow, self.random.below(1500)),
            &data,
        );
        assert!(
            said.stdout.contains(&format!("sum={sum}")),
            "{:?}: md reads something else\n{said}",
            self.cell
        );
        assert!(said.stdout.contains("mismatches=0 degraded=0"), "{:?}: {said}", self.cell);
        let done: Vec<usize> =
            said.stdout.lines().filter_map(|line| line.trim().strip_prefix("done ")?.parse().ok()).collect();
        println!("{}", self.said(&format!("{} of {REQUESTS} requests until the panic", done.len())));
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
const PLAYED_AT_ONCE: usize = 2;
/// Writers in the guest, and their requests.
const WRITERS: usize = 8;
const REQUESTS: u64 = 256;

/// In the guest: assembles the array with one member that holds writes back, checks it, and writes until it panics.
fn script(lists: &[String], slow: u64, milliseconds: u64) -> String {
    let mut script = format!(
        "idle() {{ while [ \"$(cat /sys/block/md0/md/sync_action)\" != idle ]; do sleep 0.1; done; }}
set -- /dev/ubd?
members=; n=0
for disk in $*; do
  if [ $n = {slow} ]; then
    dmsetup create slow --table \"0 $(blockdev --getsz $disk) delay $disk 0 0 $disk 0 50\" || exit
    disk=/dev/mapper/slow
  fi
  members=\"$members $disk\"; n=$((n+1))
done
dmsetup mknodes
mdadm --assemble /dev/md0 $members && idle
echo sum=$(sha256sum /dev/md0)
echo check > /sys/block/md0/md/sync_action; sleep 0.3; idle
echo mismatches=$(cat /sys/block/md0/md/mismatch_cnt) degraded=$(cat /sys/block/md0/md/degraded)
writer() {{
  while read skip seek count id; do
    dd if=/data of=/dev/md0 bs=4k skip=$skip seek=$seek count=$count oflag=direct conv=notrunc 2>/dev/null && echo done $id
  done
}}
"
    );
    for list in lists {
        writeln!(script, "writer <<EOF &\n{list}EOF").unwrap();
    }
    writeln!(
        script,
        "sleep {}.{:03}; echo c > /proc/sysrq-trigger",
        1 + milliseconds / 1000,
        milliseconds % 1000
    )
    .unwrap();
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
    let cells: Vec<(Cell, u64)> = cells(rounds > 0).into_iter().map(|cell| (cell, random.bits())).collect();
    let next = AtomicUsize::new(0);
    let play_all = || {
        while let Some((cell, seed)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            play(*cell, *seed, rounds.max(1));
        }
    };
    // A guest has one processor, and waits for disks most of the time.
    std::thread::scope(|scope| (0..PLAYED_AT_ONCE).for_each(|_| drop(scope.spawn(play_all))));
}

/// Plays one match.
fn play(cell: Cell, seed: u64, rounds: u64) {
    let mut game = Match::begin(cell, seed);
    for _ in 0..rounds {
        game.serve_and_kill();
        let content = game.volume("a kill here");
        game.let_md_write_and_panic(&content);
        game.volume("a panic of Linux");
        // Parities are wrong now where a write was cut off; how many is chance.
        let checked = ask(&["md", "check", text(&game.dir)]);
        let found =
            checked.stdout.lines().find(|line| line.contains("mismatches")).unwrap_or("").trim().to_owned();
        println!("{}", game.said(&format!("after the panic: {found}")));
    }
    game.serve_and_kill();
    game.volume("a kill here");
    let server = Server::serve(&game.dir);
    assert!(until(SOON, || status(&game.dir)["resync"].is_null()), "{}", game.said(&server.log()));
    server.stop();
    let checked = ask(&["check", text(&game.dir)]);
    let is_right = checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors");
    assert!(is_right, "{}", game.said(&checked.to_string()));
}
