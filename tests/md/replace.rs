//! Members of served md arrays that are replaced while they work: beside clients, over a `kill -9`, and half by Linux md.

use crate::support::md::{
    Guest, Visit, blanks, create, read_all, read_without_each, rebuild_and_wait, serve_in_sync, unpacked,
    volume, write_here_and_there,
};
use crate::support::run::{Finished, SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status, zoneweave};
use crate::support::text;
use std::path::{Path, PathBuf};

/// An array of four members with a bitmap that is served, its directory, and an empty device.
fn served(scratch: &Scratch) -> (PathBuf, Vec<PathBuf>, PathBuf, Server, usize) {
    let mut members = blanks(scratch, 5);
    let extra = members.pop().unwrap();
    let dir = create(scratch, "5", &members, &["--bitmap-chunk", "64"]);
    let (server, bytes) = serve_in_sync(&dir);
    (dir, members, extra, server, bytes)
}

fn rate(dir: &Path, mib: &str) -> Finished {
    ask(&["rebuild", text(dir), "--rate", mib])
}

/// Begins to replace member 1, slowly.
fn begin(dir: &Path, extra: &Path) {
    assert_eq!(rate(dir, "2").code(), Some(0));
    let begun = ask(&["md", "replace", text(dir), "1", "--with", text(extra)]);
    assert!(begun.code() == Some(0) && begun.stdout.contains(text(extra)), "{begun}");
    let copied = || status(dir)["members"][1]["replacement"]["bytes_done"].as_u64();
    assert!(until(SOON, || copied().is_some_and(|bytes| bytes > 1 << 20)), "{:?}", status(dir));
}

fn expect_replaced(dir: &Path, extra: &Path) {
    let member = &status(dir)["members"][1];
    assert!(member["path"] == text(extra) && member["replacement"].is_null(), "{member}");
}

#[test]
fn a_member_is_replaced_beside_clients_and_over_a_kill() {
    let scratch = Scratch::new("md-replace");
    let (dir, members, extra, server, bytes) = served(&scratch);
    let content = write_here_and_there(&server, vec![0; bytes]);
    begin(&dir, &extra);
    let content = write_here_and_there(&server, content);
    let shown = ask(&["md", "detail", text(&dir)]);
    assert!(shown.stdout.contains("spare rebuilding") && shown.stdout.contains("recovering"), "{shown}");
    assert!(shown.code() == Some(0) && status(&dir)["state"] == "replacing", "{shown}");
    server.kill_9();
    let server = Server::serve(&dir);
    assert_eq!(status(&dir)["members"][1]["replacement"]["path"], text(&extra));
    let content = write_here_and_there(&server, content);
    let waited = rebuild_and_wait(&dir);
    // On a busy machine it may be through before anybody waits.
    let is_told =
        ["member 1 is replaced by", "no member is being rebuilt"].map(|words| waited.stdout.contains(words));
    assert!(waited.code() == Some(0) && is_told.contains(&true), "{waited}");
    expect_replaced(&dir, &extra);
    let content = write_here_and_there(&server, content);
    assert!(read_all(&server, bytes) == content, "{}", server.log());
    server.stop();
    let checked = ask(&["check", text(&dir)]);
    assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    read_without_each(&scratch, &[&members[0], &extra, &members[2], &members[3]], &content);
    // The member before is none any more, though it is named in the directory and lies about.
    let server = Server::serve(&dir);
    expect_replaced(&dir, &extra);
    let removed = ask(&["md", "remove", text(&dir), text(&members[1])]);
    assert_eq!(removed.code(), Some(0), "{removed}");
    assert!(read_all(&server, bytes) == content);
    server.stop();
}

#[test]
fn a_member_that_fails_meanwhile_is_rebuilt_on_the_device_that_was_to_replace_it() {
    let scratch = Scratch::new("md-replace-fails");
    let (dir, members, extra, server, bytes) = served(&scratch);
    let content = write_here_and_there(&server, vec![0; bytes]);
    begin(&dir, &extra);
    assert_eq!(ask(&["md", "fail", text(&dir), text(&members[1])]).code(), Some(0));
    let content = write_here_and_there(&server, content);
    assert!(until(SOON, || status(&dir)["members"][1]["path"] == text(&extra)), "{}", server.log());
    assert_eq!(rate(&dir, "1000").code(), Some(0));
    let waited = rebuild_and_wait(&dir);
    assert_eq!(waited.code(), Some(0), "{waited}");
    expect_replaced(&dir, &extra);
    server.stop();
    read_without_each(&scratch, &[&members[0], &extra, &members[2], &members[3]], &content);
}

#[test]
fn linux_md_finishes_what_a_kill_cut_off() {
    let Some(guest) = Guest::here() else { return };
    let scratch = Scratch::new("md-replace-kernel");
    let (dir, members, extra, server, bytes) = served(&scratch);
    let content = write_here_and_there(&server, vec![0; bytes]);
    begin(&dir, &extra);
    let mut content = write_here_and_there(&server, content);
    let examined = || ask(&["md", "examine", text(&extra)]);
    assert!(until(SOON, || examined().stdout.contains("State : clean")), "{}", server.log());
    server.kill_9();
    assert!(examined().stdout.contains("Replacement device 1"), "{}", examined());
    let all: Vec<PathBuf> = members.iter().chain([&extra]).cloned().collect();
    let said = guest.take(&scratch, &all, &Visit::default(), &mut content, "of a clean array");
    assert!(said.stdout.contains("action=recover"), "md has nothing to copy\n{said}");
    let server = Server::serve(&dir);
    expect_replaced(&dir, &extra);
    assert!(read_all(&server, bytes) == content, "what md wrote, served");
    let content = write_here_and_there(&server, content);
    server.stop();
    let checked = ask(&["check", text(&dir)]);
    assert!(checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    read_without_each(&scratch, &[&members[0], &extra, &members[2], &members[3]], &content);
}

/// md writes zeros over parities on replacements that it goes on with in an array that is not clean.
#[test]
fn linux_md_leaves_a_replacement_out_while_writes_are_cut_off() {
    let Some(guest) = Guest::here() else { return };
    let scratch = Scratch::new("md-replace-dirty");
    let (dir, members, extra, mut server, bytes) = served(&scratch);
    let mut content = write_here_and_there(&server, vec![0; bytes]);
    begin(&dir, &extra);
    let is_dirty = || ask(&["md", "examine", text(&members[0])]).stdout.contains("State : active");
    for _ in 0..9 {
        content = write_here_and_there(&server, content);
        server.kill_9();
        if is_dirty() {
            break;
        }
        server = Server::serve(&dir);
    }
    assert!(is_dirty(), "the array was marked clean before each kill");
    let all: Vec<PathBuf> = members.iter().chain([&extra]).cloned().collect();
    let said = guest.take(&scratch, &all, &Visit::default(), &mut content, "of a dirty array");
    assert!(said.stdout.contains("action=resync"), "md has something to copy\n{said}");
    let server = Server::serve(&dir);
    assert!(status(&dir)["members"][1]["replacement"].is_null(), "{}", status(&dir));
    assert!(read_all(&server, bytes) == content, "what md wrote, served");
    assert_eq!(rate(&dir, "1000").code(), Some(0));
    let anew = ask(&["md", "replace", text(&dir), "1", "--with", text(&extra), "--force"]);
    assert_eq!(anew.code(), Some(0), "{anew}");
    assert_eq!(rebuild_and_wait(&dir).code(), Some(0));
    expect_replaced(&dir, &extra);
    server.stop();
    read_without_each(&scratch, &[&members[0], &extra, &members[2], &members[3]], &content);
}

#[test]
fn what_linux_md_began_is_finished_here() {
    let scratch = Scratch::new("md-replace-golden");
    let members = unpacked(&scratch, "r5-mid-replace");
    let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
    let content = volume(&scratch, "before", &paths);
    let dir = scratch.join("a");
    let made = run_for(SOON, zoneweave().args(["md", "assemble"]).arg(&dir).args(&members));
    assert_eq!(made.code(), Some(0), "{made}");
    assert_eq!(status(&dir)["members"][1]["replacement"]["path"], text(&members[4]));
    let server = Server::serve(&dir);
    let content = write_here_and_there(&server, content);
    let waited = rebuild_and_wait(&dir);
    assert_eq!(waited.code(), Some(0), "{waited}");
    expect_replaced(&dir, &members[4]);
    assert!(read_all(&server, content.len()) == content, "{}", server.log());
    server.stop();
    assert_eq!(ask(&["check", text(&dir)]).code(), Some(0));
    read_without_each(&scratch, &[paths[0], paths[4], paths[2], paths[3]], &content);
}

#[test]
fn what_cannot_replace_a_member_is_refused_by_name() {
    let scratch = Scratch::new("md-replace-refused");
    let (dir, members, extra, server, _) = served(&scratch);
    let small = scratch.join("small");
    std::fs::File::create(&small).unwrap().set_len(1 << 20).unwrap();
    let full = scratch.join("full");
    std::fs::File::create(&full).unwrap().set_len(24 << 20).unwrap();
    let made = run_for(SOON, std::process::Command::new("mkfs.ext4").arg("-q").arg(&full));
    let refused = |options: &[&str], code: i32, why: &str| {
        let said = ask(&[&["md", "replace", text(&dir)], options].concat());
        assert!(said.code() == Some(code) && said.stderr.contains(why), "{options:?}: {said}");
    };
    refused(&["1"], 2, "no spare waits");
    refused(&["9"], 6, "neither a role nor the path of a member");
    refused(&["1", "--with", text(&small)], 2, "KiB are needed");
    refused(&["1", "--with", text(&members[2])], 5, "");
    if made.code() == Some(0) {
        refused(&["1", "--with", text(&full)], 4, "--force uses it all the same");
    }
    begin(&dir, &extra);
    refused(&["1", "--with", text(&full)], 2, "is being replaced already");
    let grown = ask(&["md", "grow", text(&dir), "--bitmap=none"]);
    assert!(grown.stderr.contains("are being replaced"), "{grown}");
    // What was to replace it fails alone.
    assert_eq!(ask(&["md", "fail", text(&dir), text(&extra)]).code(), Some(0));
    assert!(until(SOON, || status(&dir)["members"][1]["replacement"].is_null()), "{}", server.log());
    assert_eq!(status(&dir)["members"][1]["path"], text(&members[1]));
    assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
    refused(&["1"], 3, "nothing to copy");
    server.stop();
    refused(&["1"], 6, "nobody serves the array");
}
