//! Arrays of md with a journal, served in place and taken over by Linux md: whole and degraded, stopped and after a `kill -9`.

use crate::support::md::{
    Guest, Visit, blanks, golden, read_all, serve_in_sync, unpacked, volume, write_here_and_there,
};
use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, refused, status, zoneweave};
use crate::support::text;
use block::md::journal::{MetaBlock, Payload, Ring};
use block::md::superblock::Superblock;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A new array whose last member is its journal.
fn create(scratch: &Scratch, level: &str, count: usize) -> (PathBuf, Vec<PathBuf>) {
    let dir = scratch.join("a");
    let mut devices = blanks(scratch, count + 1);
    let journal = devices.pop().unwrap();
    let options = ["--level", level, "--chunk", "64", "--raid-devices", &count.to_string()];
    let mut create = zoneweave();
    create.args(["md", "create"]).arg(&dir).args(options).arg("--write-journal").arg(&journal);
    let made = run_for(SOON, create.args(&devices));
    assert!(made.code() == Some(0) && made.stdout.contains("with a journal"), "{made}");
    devices.push(journal);
    (dir, devices)
}

#[test]
fn journals_that_md_wrote_are_replayed_and_gone_on_with() {
    for (array, members) in [("r5-journal-clean", 4), ("r5-journal-wb-crash", 4)] {
        for without in std::iter::once(None).chain((0..members).map(Some)) {
            let scratch = Scratch::new("md-journal-golden");
            let mut paths = unpacked(&scratch, array);
            let all: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
            let content = volume(&scratch, "before", &all);
            without.map(|index: usize| paths.remove(index));
            let dir = scratch.join("a");
            let made = run_for(SOON, zoneweave().args(["md", "assemble", "--run"]).arg(&dir).args(&paths));
            assert_eq!(made.code(), Some(if without.is_some() { 3 } else { 0 }), "{array}: {made}");
            let server = Server::serve_degraded(&dir);
            assert!(read_all(&server, content.len()) == content, "{array} without {without:?}");
            let content = write_here_and_there(&server, content);
            server.kill_9();
            let server = Server::serve_degraded(&dir);
            assert!(read_all(&server, content.len()) == content, "{array} without {without:?}: after a kill");
            assert_eq!(status(&dir)["journal"]["state"], "active");
            server.stop();
            let checked = ask(&["check", text(&dir)]);
            assert!(checked.stdout.contains("mismatches: 0 sectors"), "{array}: {checked}");
            assert!(volume(&scratch, "after", &[&dir]) == content, "{array}: on the media");
        }
    }
}

#[test]
fn an_array_is_refused_without_its_journal() {
    let scratch = Scratch::new("md-journal-missing");
    let mut paths = unpacked(&scratch, "r5-journal-wb-crash");
    paths.pop();
    let before: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let dir = scratch.join("a");
    let refused = run_for(SOON, zoneweave().args(["md", "assemble", "--run"]).arg(&dir).args(&paths));
    assert!(refused.code() == Some(4) && refused.stderr.contains("journal device is missing"), "{refused}");
    let after: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(before == after && !dir.exists(), "nothing is written");
    assert!(golden::names().iter().any(|name| name == "r5-journal-clean"));
}

/// Rows of data alone in a journal from its first block on, and rows with parities.
fn rows_of(journal: &Path) -> (usize, usize) {
    let media = std::fs::read(journal).unwrap();
    let superblock = Superblock::decode(media[4096..].first_chunk().unwrap()).unwrap().superblock;
    let sector = |sector: u64| &media[usize::try_from(sector * 512).unwrap()..];
    let (start, mut position) = (superblock.device.data_offset, superblock.device.recovery_offset);
    let (mut data, mut parities) = (BTreeSet::new(), BTreeSet::new());
    while let Some(meta) =
        MetaBlock::decode(superblock.array.uuid, sector(start + position).first_chunk().unwrap())
        && meta.position == position
    {
        for payload in &meta.payloads {
            match payload {
                // Chunks of 64 KiB on two members.
                Payload::Data { sector, .. } => data.insert(sector / 256 * 128 + sector % 128),
                Payload::Parity { sector, .. } => parities.insert(*sector),
                Payload::Flush { .. } => continue,
            };
        }
        position = Ring::of(superblock.device.data_size).after(position, meta.sectors());
    }
    (data.difference(&parities).count(), parities.len())
}

/// The kernel waits for ever for a stripe where a journal has many rows of data alone, also of its own.
#[test]
fn parities_are_in_the_journal_also_where_their_member_is_missing() {
    let scratch = Scratch::new("md-journal-parities");
    let (dir, devices) = create(&scratch, "4", 3);
    let (server, bytes) = serve_in_sync(&dir);
    assert_eq!(ask(&["md", "fail", text(&dir), "2"]).code(), Some(0));
    let content = write_here_and_there(&server, vec![0; bytes]);
    server.kill_9();
    let (bare, whole) = rows_of(devices.last().unwrap());
    assert!(bare == 0 && whole > 10, "{bare} rows of data alone, {whole} with parities");
    assert!(volume(&scratch, "killed", &[&dir]) == content, "what was acknowledged");
}

/// Adds a new journal, serves the array until all parities are right, and writes; the server is killed.
fn go_on_with_another_journal(scratch: &Scratch, dir: &Path, content: Vec<u8>, is_degraded: bool) -> Vec<u8> {
    let journal = scratch.join("another");
    std::fs::File::create(&journal).unwrap().set_len(24 << 20).unwrap();
    if is_degraded {
        refused(&["md", "add-journal", text(dir), text(&journal)], 4, "bring all members back");
        return content;
    }
    let added = ask(&["md", "add-journal", text(dir), text(&journal)]);
    assert!(added.code() == Some(0) && added.stdout.contains("is the journal now"), "{added}");
    refused(&["md", "add-journal", text(dir), text(&journal)], 4, "is the journal of the array");
    let server = Server::serve(dir);
    assert!(read_all(&server, content.len()) == content, "{}", server.log());
    assert_eq!(status(dir)["journal"]["state"], "active");
    assert!(until(SOON, || status(dir)["resync"].is_null()), "{}", server.log());
    let content = write_here_and_there(&server, content);
    server.kill_9();
    content
}

#[test]
fn an_array_that_lost_its_journal_gets_another() {
    let guest = Guest::here();
    // Level, whether the journal dies while the array is served, whether a member is missing.
    for (level, dies, is_degraded) in
        [("5", false, false), ("4", true, false), ("6", true, false), ("5", false, true)]
    {
        let scratch = Scratch::new("md-journal-added");
        let (dir, mut devices) = create(&scratch, level, 4);
        let (server, bytes) = serve_in_sync(&dir);
        let content = write_here_and_there(&server, vec![0; bytes]);
        if is_degraded {
            assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
        }
        let lost = devices.pop().unwrap();
        if dies {
            std::fs::remove_file(&lost).unwrap();
            let is_read_only = || ask(&["status", text(&dir)]).stdout.contains("state     read-only");
            assert!(until(SOON, is_read_only), "{}", server.log());
            refused(&["md", "add-journal", text(&dir), text(&devices[0])], 5, "is served");
            server.stop();
        } else {
            server.stop();
            std::fs::remove_file(&lost).unwrap();
        }
        refused(&["serve", text(&dir), "--degraded"], 4, "md add-journal");
        let mut content = go_on_with_another_journal(&scratch, &dir, content, is_degraded);
        if is_degraded {
            continue;
        }
        devices.push(scratch.join("another"));
        if let Some(guest) = &guest {
            let visit = Visit { is_direct: true, ..Visit::default() };
            let case = format!("RAID-{level} with another journal");
            let said = guest.take(&scratch, &devices, &visit, &mut content, &case);
            assert!(said.stdout.contains("action=idle policy=journal"), "{case}: {said}");
        }
        let server = Server::serve(&dir);
        assert!(read_all(&server, bytes) == content, "{}", server.log());
        server.stop();
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    }
    let scratch = Scratch::new("md-journal-of-another-policy");
    let members = blanks(&scratch, 4);
    let dir = crate::support::md::create(&scratch, "5", &members[..3], &[]);
    refused(&["md", "add-journal", text(&dir), text(&members[3])], 4, "md create --write-journal");
}

/// md makes parities right itself, of an array that nobody served since it got another journal.
#[test]
fn linux_md_resyncs_an_array_with_another_journal() {
    let Some(guest) = Guest::here() else { return };
    let scratch = Scratch::new("md-journal-added-kernel");
    let (dir, mut devices) = create(&scratch, "5", 4);
    let (server, bytes) = serve_in_sync(&dir);
    let mut content = write_here_and_there(&server, vec![0; bytes]);
    server.stop();
    std::fs::remove_file(devices.pop().unwrap()).unwrap();
    let journal = scratch.join("another");
    std::fs::File::create(&journal).unwrap().set_len(24 << 20).unwrap();
    assert_eq!(ask(&["md", "add-journal", text(&dir), text(&journal)]).code(), Some(0));
    devices.push(journal);
    let said = guest.take(&scratch, &devices, &Visit::default(), &mut content, "another journal");
    assert!(said.stdout.contains("action=resync policy=journal"), "{said}");
    assert!(volume(&scratch, "copy", &[&dir]) == content, "what md wrote, on the media");
}

#[test]
fn linux_md_takes_arrays_with_journals_and_gives_them_back() {
    let Some(guest) = Guest::here() else { return };
    // Level, whether Zoneweave is killed, whether a member is taken out before, whether the guest panics, and md's mode.
    for (level, is_killed, is_degraded, panics, mode) in [
        ("5", false, false, true, "write-through"),
        ("6", true, false, true, "write-back"),
        ("4", true, true, false, "write-through"),
        ("5", true, true, true, "write-back"),
    ] {
        let scratch = Scratch::new("md-journal-kernel");
        let (dir, devices) = create(&scratch, level, 4);
        let (server, bytes) = serve_in_sync(&dir);
        let mut content = write_here_and_there(&server, vec![0; bytes]);
        if is_degraded {
            assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
            content = write_here_and_there(&server, content);
        }
        if is_killed {
            server.kill_9()
        } else {
            server.stop()
        }
        let before = if is_degraded {
            String::new()
        } else {
            format!("echo {mode} > /sys/block/md0/md/journal_mode\n")
        };
        let visit = Visit { before: &before, is_direct: true, is_degraded, panics };
        let case = format!("RAID-{level}, killed {is_killed}, degraded {is_degraded}, {mode}");
        let said = guest.take(&scratch, &devices, &visit, &mut content, &case);
        assert!(said.stdout.contains("action=idle policy=journal"), "{case}: md resyncs\n{said}");
        assert!(volume(&scratch, "copy", &[&dir]) == content, "{case}: what md wrote, on the media");
        let server = Server::serve_degraded(&dir);
        assert!(read_all(&server, bytes) == content, "{case}: what md wrote, served");
        let content = write_here_and_there(&server, content);
        server.stop();
        assert!(volume(&scratch, "again", &[&dir]) == content, "{case}: and back once more");
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.stdout.contains("mismatches: 0 sectors"), "{case}: {checked}");
    }
}
