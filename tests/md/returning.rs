//! Members of served md arrays that come back after they missed writes: what the bitmap says is written to them, and nothing else.

use crate::support::md::{
    Guest, blanks, capacity, create, read_all, read_without_each, rebuild_and_wait, serve_in_sync, unpacked,
    volume,
};
use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status, zoneweave};
use crate::support::text;
use std::path::{Path, PathBuf};

fn rows_rebuilt(dir: &Path) -> u64 {
    status(dir)["counters"]["rows_rebuilt"].as_u64().unwrap()
}

/// Writes some blocks in the middle; returns what the volume holds then.
fn write_some(server: &Server, mut content: Vec<u8>, block: usize) -> Vec<u8> {
    let data = crate::support::random_bytes(&mut crate::support::random(block as u64), 20 * 4096);
    server.client().write((block * 4096).try_into().unwrap(), &data).unwrap();
    content[block * 4096..][..data.len()].copy_from_slice(&data);
    content
}

#[test]
fn what_md_wrote_without_a_member_is_all_that_it_gets() {
    let scratch = Scratch::new("md-return-golden");
    let members = unpacked(&scratch, "r5-stale-bitmap");
    let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
    let content = volume(&scratch, "before", &paths);
    let dir = scratch.join("a");
    let made = run_for(SOON, zoneweave().args(["md", "assemble", "--run"]).arg(&dir).args(&members));
    assert_eq!(made.code(), Some(3), "{made}");
    let server = Server::serve_degraded(&dir);
    let back = ask(&["md", "re-add", text(&dir), text(&members[2])]);
    assert!(back.code() == Some(0) && back.stdout.contains("member 2 again"), "{back}");
    assert_eq!(rebuild_and_wait(&dir).code(), Some(0), "{}", server.log());
    // Bitmap chunk 2 alone, of 64 KiB.
    assert_eq!(rows_rebuilt(&dir), 16);
    assert!(read_all(&server, content.len()) == content, "as md returned it");
    server.stop();
    let checked = ask(&["check", text(&dir)]);
    assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    read_without_each(&scratch, &paths, &content);
}

#[test]
fn a_member_that_went_gets_what_it_missed() {
    for (level, count) in [("4", 3), ("5", 4), ("6", 5)] {
        let scratch = Scratch::new("md-return");
        let members = blanks(&scratch, count);
        let dir = create(&scratch, level, &members, &["--bitmap-chunk", "64K"]);
        let (server, bytes) = serve_in_sync(&dir);
        let content = write_some(&server, vec![0; bytes], 7);
        assert!(until(SOON, || status(&dir)["bitmap"]["regions_set"] == 0), "{}", server.log());
        assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
        let content = write_some(&server, content, 500);
        let back = ask(&["md", "re-add", text(&dir), text(&members[1])]);
        assert_eq!(back.code(), Some(0), "{back}");
        let content = write_some(&server, content, 900);
        assert_eq!(rebuild_and_wait(&dir).code(), Some(0), "{}", server.log());
        assert!((1..200).contains(&rows_rebuilt(&dir)), "RAID-{level}: {} rows", rows_rebuilt(&dir));
        let again = ask(&["md", "re-add", text(&dir), text(&members[1])]);
        assert!(again.code() == Some(5) && again.stderr.contains("is in use"), "{again}");
        server.stop();
        // One that misses a start comes back as well.
        let away = scratch.join("away");
        std::fs::rename(&members[2], &away).unwrap();
        let server = Server::serve_degraded(&dir);
        let content = write_some(&server, content, 1200);
        std::fs::rename(&away, &members[2]).unwrap();
        let back = ask(&["md", "re-add", text(&dir), text(&members[2])]);
        assert_eq!(back.code(), Some(0), "{back}");
        assert_eq!(rebuild_and_wait(&dir).code(), Some(0), "{}", server.log());
        server.stop();
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.stdout.contains("mismatches: 0 sectors"), "RAID-{level}: {checked}");
        let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
        read_without_each(&scratch, &paths, &content);
    }
}

#[test]
fn what_may_lack_more_than_the_bits_say_is_refused() {
    let scratch = Scratch::new("md-return-refused");
    let members = blanks(&scratch, 4);
    let dir = create(&scratch, "5", &members, &["--bitmap-chunk", "64K"]);
    let unserved = ask(&["md", "re-add", text(&dir), text(&members[0])]);
    assert!(unserved.code() == Some(6) && unserved.stderr.contains("serve"), "{unserved}");
    let server = Server::serve(&dir);
    assert!(until(SOON, || status(&dir)["resync"].is_null()), "{}", server.log());
    let re_add = |path: &Path| ask(&["md", "re-add", text(&dir), text(path)]);
    let new = scratch.join("new");
    std::fs::File::create(&new).unwrap().set_len(24 << 20).unwrap();
    let empty = re_add(&new);
    assert!(empty.code() == Some(4) && empty.stderr.contains("no md superblock"), "{empty}");
    // A successor is whole, and bits go: the member lacks more than they say.
    assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
    assert_eq!(ask(&["md", "remove", text(&dir), text(&members[1])]).code(), Some(0));
    assert_eq!(ask(&["md", "add", text(&dir), text(&new)]).code(), Some(0));
    assert_eq!(rebuild_and_wait(&dir).code(), Some(0));
    let _content = write_some(&server, vec![0; capacity(&dir)], 40);
    let has_place = re_add(&members[1]);
    assert!(has_place.code() == Some(2) && has_place.stderr.contains("role 1 has a member"), "{has_place}");
    assert!(until(SOON, || status(&dir)["bitmap"]["regions_set"] == 0), "{}", server.log());
    assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
    let before = std::fs::read(&members[1]).unwrap();
    let old = re_add(&members[1]);
    assert!(old.code() == Some(4) && old.stderr.contains("since events"), "{old}");
    assert!(old.stderr.contains("md add --force"), "{old}");
    assert!(std::fs::read(&members[1]).unwrap() == before, "nothing is written");
    // The successor is rebuilt by half, and goes.
    assert_eq!(ask(&["md", "remove", text(&dir), text(&new)]).code(), Some(0));
    assert_eq!(ask(&["rebuild", text(&dir), "--rate", "1"]).code(), Some(0));
    assert_eq!(ask(&["md", "add", text(&dir), text(&new), "--force"]).code(), Some(0));
    let done = || status(&dir)["members"][1]["rebuild"]["bytes_done"].as_u64().unwrap_or(0);
    assert!(until(SOON, || done() > 0), "{}", server.log());
    assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
    let half = re_add(&new);
    assert!(half.code() == Some(4) && half.stderr.contains("itself being rebuilt"), "{half}");
    server.stop();
    // A member of another array.
    let foreign = unpacked(&scratch, "r5-bitmap");
    let server = Server::serve_degraded(&dir);
    let refused = re_add(&foreign[1]);
    assert!(refused.code() == Some(4) && refused.stderr.contains("another array"), "{refused}");
    server.stop();
}

#[test]
fn linux_md_goes_on_with_a_member_that_came_back() {
    let Some(guest) = Guest::here() else { return };
    // Whether what it missed is written when the service ends, and whether that is by a kill.
    for (level, count, is_through, is_killed) in
        [("5", 4, true, false), ("5", 4, false, false), ("5", 4, false, true), ("6", 5, false, true)]
    {
        let scratch = Scratch::new("md-return-kernel");
        let members = blanks(&scratch, count);
        let dir = create(&scratch, level, &members, &["--bitmap-chunk", "64K"]);
        let (server, bytes) = serve_in_sync(&dir);
        let content = write_some(&server, vec![0; bytes], 7);
        assert!(until(SOON, || status(&dir)["bitmap"]["regions_set"] == 0), "{}", server.log());
        assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
        let mut content = content;
        for block in (0..bytes / 4096 - 20).step_by(150) {
            content = write_some(&server, content, block);
        }
        if !is_through {
            assert_eq!(ask(&["rebuild", text(&dir), "--rate", "1"]).code(), Some(0));
        }
        assert_eq!(ask(&["md", "re-add", text(&dir), text(&members[1])]).code(), Some(0));
        if is_through {
            assert_eq!(rebuild_and_wait(&dir).code(), Some(0), "{}", server.log());
        }
        assert!(until(SOON, || status(&dir)["dirty"] == false), "{}", server.log());
        if is_killed {
            server.kill_9()
        } else {
            server.stop()
        }
        let said = guest.sum_and_check(&scratch, &members);
        guest.expect(&said, &scratch, &content);
        assert!(said.stdout.contains("mismatches=0 degraded=0"), "RAID-{level}: {said}");
        let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
        read_without_each(&scratch, &paths, &content);
    }
}
