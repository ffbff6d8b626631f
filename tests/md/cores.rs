//! Arrays of Linux md that several cores serve, each with a shard: whole, after a `kill -9`, while members go and come, and as the
//! consistency policy changes.

use crate::support::md::{
    blanks, capacity, create, read_all, rebuild_and_wait, volume, write_here_and_there,
};
use crate::support::run::{SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status};
use crate::support::text;
use std::path::Path;

/// Serves an array with so many cores, once its parities are right.
fn serve(dir: &Path, cores: &str) -> Server {
    let server = Server::serve_with(dir, &["--cores", cores]);
    assert!(until(SOON, || status(dir)["resync"].is_null()), "{}", server.log());
    server
}

/// Asks again while what was asked for waits for other cores.
fn ask_soon(question: &[&str]) {
    let is_done = || ask(question).code() == Some(0);
    assert!(until(SOON, is_done), "{}", ask(question));
}

fn assert_right(scratch: &Scratch, dir: &Path, content: &[u8]) {
    let checked = ask(&["check", text(dir)]);
    assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    assert!(volume(scratch, "copy", &[dir]) == content, "on the media");
}

#[test]
fn what_all_cores_write_is_there_whichever_serve_next() {
    for (level, count, options) in [
        ("5", 4, vec!["--bitmap", "internal"]),
        ("5", 4, vec!["--consistency-policy", "ppl"]),
        ("6", 5, vec!["--consistency-policy", "resync"]),
    ] {
        let scratch = Scratch::new("md-cores");
        let members = blanks(&scratch, count);
        let dir = create(&scratch, level, &members, &options);
        let mut content = Vec::new();
        for cores in ["2", "3", "1", "2"] {
            let server = serve(&dir, cores);
            if content.is_empty() {
                content = vec![0; capacity(&dir)];
            }
            assert!(read_all(&server, content.len()) == content, "RAID-{level}, {cores} cores, after a kill");
            content = write_here_and_there(&server, content);
            assert!(read_all(&server, content.len()) == content, "RAID-{level}, {cores} cores");
            let counted = || status(&dir)["counters"]["blocks_written"].as_u64() > Some(0);
            assert!(until(SOON, counted), "{}", status(&dir));
            server.kill_9();
        }
        let server = serve(&dir, "2");
        content = write_here_and_there(&server, content);
        server.stop();
        assert_right(&scratch, &dir, &content);
    }
}

#[test]
fn members_go_and_come_beside_cores() {
    let scratch = Scratch::new("md-cores-members");
    let members = blanks(&scratch, 5);
    let dir = create(&scratch, "5", &members[..4], &["--bitmap", "internal"]);
    let server = serve(&dir, "2");
    let content = write_here_and_there(&server, vec![0; capacity(&dir)]);
    ask_soon(&["md", "fail", text(&dir), text(&members[1])]);
    assert!(read_all(&server, content.len()) == content, "without a member");
    let content = write_here_and_there(&server, content);
    ask_soon(&["md", "re-add", text(&dir), text(&members[1])]);
    let rebuilt = rebuild_and_wait(&dir);
    assert_eq!(rebuilt.code(), Some(0), "{rebuilt}");
    let content = write_here_and_there(&server, content);
    ask_soon(&["md", "replace", text(&dir), text(&members[2]), "--with", text(&members[4])]);
    let content = write_here_and_there(&server, content);
    let is_replaced = || status(&dir)["members"][2]["path"] == text(&members[4]);
    assert!(until(SOON, is_replaced), "{}", status(&dir));
    let content = write_here_and_there(&server, content);
    assert!(read_all(&server, content.len()) == content, "with a member that was replaced");
    server.stop();
    assert_right(&scratch, &dir, &content);
}

#[test]
fn policies_change_beside_cores() {
    let scratch = Scratch::new("md-cores-policies");
    let members = blanks(&scratch, 4);
    let dir = create(&scratch, "5", &members, &["--consistency-policy", "ppl"]);
    // The space of a log is there, and shards are from the next start on.
    let server = serve(&dir, "2");
    let mut content = write_here_and_there(&server, vec![0; capacity(&dir)]);
    ask_soon(&["md", "grow", text(&dir), "--consistency-policy", "resync"]);
    server.stop();
    let server = serve(&dir, "2");
    for policy in ["bitmap", "resync", "ppl", "resync"] {
        content = write_here_and_there(&server, content);
        ask_soon(&["md", "grow", text(&dir), "--consistency-policy", policy]);
        content = write_here_and_there(&server, content);
        assert!(read_all(&server, content.len()) == content, "with {policy}");
    }
    server.stop();
    assert_right(&scratch, &dir, &content);
}
