//! A file system and a database on a served array: SQLite on ext4, while the server is killed, a member fails and another one is rebuilt.
//! What was committed is there each time. At the end Linux md has the array, and `e2fsck` finds nothing wrong through it.
//!
//! Slow: it is played where rounds of ping-pong are asked for, as by `cargo xtask md`.

use crate::support::guest;
use crate::support::md::{blanks, create, sum, volume};
use crate::support::mount::{BlockDevice, TOOLS};
use crate::support::run::{Finished, SOON, command, kill, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, let_run, zoneweave};
use crate::support::{have, is_root, number_from, skip, text};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Commits five rows at a time, and says outside of the volume which is the last. Without `extra` the end of a commit, which takes a file away, may
/// come undone.
const WRITER: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('pragma synchronous=extra')
database.execute('create table if not exists row(number integer primary key, content blob)')
number = database.execute('select coalesce(max(number), 0) from row').fetchone()[0]
with open(sys.argv[2], 'w') as ledger:
    while True:
        database.execute('begin')
        for _ in range(5):
            number += 1
            database.execute('insert into row values(?, ?)', (number, b'%d,' % number * (number * 7 % 900)))
        database.execute('commit')
        print(number, file=ledger, flush=True)
";

/// Says whether the database is sound, how many rows it has, and which is the last.
const READER: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
sound = database.execute('pragma integrity_check').fetchone()[0]
rows = database.execute('select number, content from row order by number').fetchall()
right = all(content == b'%d,' % number * (number * 7 % 900) for number, content in rows)
print(sound, right, len(rows), rows[-1][0] if rows else 0)
";

/// Trouble of the array before the server is killed.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// A member fails, and another one is rebuilt.
    Rebuilt,
    /// The same, and the rebuild is not through.
    Rebuilding,
}

struct Database {
    scratch: Scratch,
    dir: PathBuf,
    members: Vec<PathBuf>,
    /// Rows that were committed.
    committed: u64,
}

impl Database {
    fn begin(policy: &[&str]) -> Database {
        let scratch = Scratch::new("md-database");
        let mut members = blanks(&scratch, 5);
        let journal = members.pop().unwrap();
        let is_journal = policy.is_empty();
        let options: Vec<&str> =
            if is_journal { vec!["--write-journal", text(&journal)] } else { policy.to_vec() };
        let dir = create(&scratch, "5", &members, &options);
        let server = Server::serve(&dir);
        let block = BlockDevice::attach(&server.socket(), &scratch.join("fuse"));
        block.format();
        block.detach();
        server.stop();
        members.extend(is_journal.then_some(journal));
        Database { scratch, dir, members, committed: 0 }
    }

    fn mountpoint(&self) -> PathBuf {
        self.scratch.join("mnt")
    }

    /// The volume, mounted, with what was committed.
    fn open(&self, server: &Server) -> BlockDevice {
        let mut block = BlockDevice::attach(&server.socket(), &self.scratch.join("fuse"));
        block.check_file_system();
        block.mount(&self.mountpoint());
        let file = self.mountpoint().join("database");
        if self.committed > 0 {
            let said = run_for(SOON, command("/usr/bin/python3").args(["-c", READER, text(&file)]))
                .expect("a reader");
            let words: Vec<&str> = said.split_whitespace().collect();
            let [sound, right, rows, last] = words[..] else { panic!("{said}") };
            let (rows, last): (u64, u64) = (rows.parse().unwrap(), last.parse().unwrap());
            let is_right = (sound, right) == ("ok", "True") && rows == last && last >= self.committed;
            assert!(is_right, "{} rows were committed, and of the database is said: {said}", self.committed);
            println!("{} rows were committed, {rows} are there", self.committed);
        }
        block
    }

    fn writer(&self) -> Child {
        let (file, ledger) = (self.mountpoint().join("database"), self.scratch.join("ledger"));
        let mut writer = command("/usr/bin/python3");
        writer.args(["-c", WRITER, text(&file), text(&ledger)]);
        writer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn last_of_ledger(&self) -> u64 {
        let ledger = std::fs::read_to_string(self.scratch.join("ledger")).unwrap_or_default();
        ledger.lines().next_back().map_or(0, |line| line.parse().unwrap())
    }

    /// Serves, writes, has its trouble, and is killed.
    fn write_and_kill(&mut self, role: usize, trouble: Trouble) {
        let server = Server::serve_degraded(&self.dir);
        let block = self.open(&server);
        let mut writer = self.writer();
        assert!(
            until(SOON, || self.last_of_ledger() > self.committed),
            "nothing is committed; {}",
            server.log()
        );
        if !matches!(trouble, Trouble::None) {
            self.replace(role, trouble);
        }
        let_run(Duration::from_millis(500));
        server.kill_9();
        block.abandon();
        let _ended = until(Duration::from_secs(5), || writer.try_wait().unwrap().is_some());
        kill(&mut writer);
        self.committed = self.last_of_ledger();
    }

    /// A member fails, and an empty device comes in its place.
    fn replace(&self, role: usize, trouble: Trouble) {
        let (dir, member) = (text(&self.dir), &self.members[role]);
        expect(&run_for(SOON, zoneweave().args(["rebuild", dir, "--wait"])));
        expect(&ask(&["md", "fail", dir, text(member)]));
        expect(&ask(&["md", "remove", dir, text(member)]));
        std::fs::remove_file(member).unwrap();
        std::fs::File::create(member).unwrap().set_len(24 << 20).unwrap();
        let_run(Duration::from_millis(200));
        if matches!(trouble, Trouble::Rebuilding) {
            expect(&ask(&["rebuild", dir, "--rate", "1"]));
        }
        expect(&ask(&["md", "add", dir, text(member)]));
        if matches!(trouble, Trouble::Rebuilt) {
            expect(&run_for(SOON, zoneweave().args(["rebuild", dir, "--wait"])));
        }
    }

    /// Linux md has the array: it reads what we do, and the file system in it is sound.
    fn check_in_the_guest(&self) {
        let content = volume(&self.scratch, "copy", &[&self.dir]);
        let script = "
idle() { while [ \"$(cat /sys/block/md0/md/sync_action)\" != idle ]; do sleep 0.1; done; }
mdadm --assemble --run /dev/md0 /dev/ubd? && idle
echo sum=$(sha256sum /dev/md0)
e2fsck -fn /dev/md0; echo e2fsck=$?
echo check > /sys/block/md0/md/sync_action; sleep 0.3; idle
echo mismatches=$(cat /sys/block/md0/md/mismatch_cnt) degraded=$(cat /sys/block/md0/md/degraded)
";
        let said = guest::run_with(&["e2fsck"], self.scratch.path(), &self.members, script, &[]);
        for expected in
            [&format!("sum={}", sum(&self.scratch, &content)), "e2fsck=0", "mismatches=0 degraded=0"]
        {
            assert!(said.stdout.contains(expected), "{expected}: {said}");
        }
    }
}

#[track_caller]
fn expect(done: &Finished) {
    assert_eq!(done.code(), Some(0), "{done}");
}

#[test]
fn what_a_database_committed_is_there_after_kills_and_rebuilds() {
    let is_asked_for = number_from("ZONEWEAVE_MD_ROUNDS", 0) > 0;
    let can = is_asked_for
        && have(TOOLS)
        && have(guest::TOOLS)
        && have(&["python3"])
        && (is_root() || skip("mounting needs root"))
        && (Path::new("/dev/fuse").exists() || skip("there is no /dev/fuse"))
        && (Path::new("/dev/loop-control").exists() || skip("there are no loop devices"));
    if !can {
        return;
    }
    let policies: [(&[&str], &[Trouble]); 2] = [
        (&["--bitmap-chunk", "1M"], &[Trouble::None, Trouble::Rebuilt, Trouble::None]),
        (&[], &[Trouble::None, Trouble::Rebuilding, Trouble::Rebuilt]),
    ];
    for (policy, troubles) in policies {
        let mut database = Database::begin(policy);
        for (role, trouble) in troubles.iter().enumerate() {
            database.write_and_kill(role, *trouble);
        }
        let server = Server::serve_degraded(&database.dir);
        let block = database.open(&server);
        expect(&run_for(SOON, zoneweave().args(["rebuild", text(&database.dir), "--wait"])));
        block.detach();
        server.stop();
        database.check_in_the_guest();
    }
}
