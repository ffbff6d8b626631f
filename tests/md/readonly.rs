//! Arrays that are served read-only: what they hold can be read, and no byte of a member changes.

use crate::support::md::{
    blanks, create, read_all, rebuild_and_wait, serve_in_sync, unpacked, write_here_and_there,
};
use crate::support::nbd::{EPERM, Failure, READ_ONLY, TRIM, WRITE_ZEROES};
use crate::support::run::{SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, refused, status, zoneweave};
use crate::support::text;
use std::path::PathBuf;

/// State in which an array is left before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Clean,
    /// The server was killed amid writes; nothing of a log is to be applied.
    Dirty,
    /// A member failed, then it was stopped.
    Degraded,
    /// A member is being rebuilt.
    Rebuilding,
}

fn content_of(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| std::fs::read(path).unwrap_or_default()).collect()
}

/// Makes an array, writes, and leaves it so; returns what its volume holds.
fn leave(scratch: &Scratch, level: &str, options: &[&str], left: Left) -> (PathBuf, Vec<PathBuf>, Vec<u8>) {
    let mut members = blanks(scratch, 4);
    let dir = create(scratch, level, &members, options);
    let (server, bytes) = serve_in_sync(&dir);
    if level == "5" {
        rebuild_and_wait(&dir);
    }
    if matches!(left, Left::Degraded | Left::Rebuilding) {
        assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
    }
    let content = write_here_and_there(&server, vec![0; bytes]);
    if left == Left::Rebuilding {
        assert_eq!(ask(&["rebuild", text(&dir), "--rate", "1"]).code(), Some(0));
        let path = scratch.join("added");
        std::fs::File::create(&path).unwrap().set_len(24 << 20).unwrap();
        assert_eq!(ask(&["md", "add", text(&dir), text(&path)]).code(), Some(0));
        members.push(path);
    }
    match left {
        Left::Dirty => server.kill_9(),
        _ => server.stop(),
    }
    (dir, members, content)
}

#[test]
fn no_byte_of_a_member_changes() {
    let bitmap: &[&str] = &["--bitmap-chunk", "1M"];
    let resync: &[&str] = &["--consistency-policy", "resync"];
    for (level, options, left) in [
        ("5", bitmap, Left::Clean),
        ("5", bitmap, Left::Dirty),
        ("6", resync, Left::Dirty),
        ("6", bitmap, Left::Degraded),
        ("5", resync, Left::Rebuilding),
        ("5", &["--consistency-policy", "ppl"], Left::Clean),
    ] {
        let scratch = Scratch::new("md-readonly");
        let (dir, members, content) = leave(&scratch, level, options, left);
        let case = format!("RAID-{level} {options:?} {left:?}");
        let before = content_of(&members);
        let server = Server::serve_with(&dir, &["--readonly", "--degraded", "--cores", "2"]);
        assert!(read_all(&server, content.len()) == content, "{case}");
        let mut client = server.client();
        assert_eq!(client.flags & READ_ONLY, READ_ONLY, "{case}: {:#x}", client.flags);
        let is_refused = |done: Result<(), Failure>| matches!(done, Err(Failure::Answered(EPERM)));
        assert!(
            is_refused(client.write(8192, &[7; 4096])) && is_refused(client.write(100, &[7; 10])),
            "{case}"
        );
        for command in [TRIM, WRITE_ZEROES] {
            assert!(is_refused(client.request(command, 0, 0, 1 << 20)), "{case}: {command}");
        }
        client.flush().unwrap();
        let said = status(&dir);
        assert!(said["read_only"] == true && said["resync"].is_null(), "{case}: {said}");
        refused(&["md", "fail", text(&dir), "2"], 2, "read-only");
        refused(&["scrub", text(&dir)], 2, "read-only");
        server.stop();
        assert!(content_of(&members) == before, "{case}: a member was written");
        // A server that may write goes on where the array was left.
        let server = Server::serve_degraded(&dir);
        assert!(read_all(&server, content.len()) == content, "{case}: served again");
        server.stop();
    }
}

#[test]
fn what_a_log_has_ahead_of_the_members_is_not_left_out() {
    for array in ["r5-journal-wb-crash", "r5-ppl-crash"] {
        let scratch = Scratch::new("md-readonly-log");
        let members = unpacked(&scratch, array);
        let before = content_of(&members);
        let dir = scratch.join("a");
        let made = run_for(SOON, zoneweave().args(["md", "assemble", "--readonly"]).arg(&dir).args(&members));
        assert!(made.code() == Some(0) && made.stdout.contains("--readonly`"), "{array}: {made}");
        refused(&["serve", text(&dir), "--readonly"], 4, "zoneweave md read");
        assert!(content_of(&members) == before, "{array}: a member was written");
        // With the log applied, nothing is ahead.
        Server::serve(&dir).stop();
        let before = content_of(&members);
        Server::serve_with(&dir, &["--readonly"]).stop();
        assert!(content_of(&members) == before, "{array}: a member was written, later");
    }
}
