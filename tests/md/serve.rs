//! Arrays of Linux md, served in place: made here or by mdadm, whole, degraded and after a `kill -9`; what lies on the members is
//! read by `md read` and `md check`, which share no code with the engine.

use crate::support::guest;
use crate::support::md::{
    GUEST_SCRIPT, Guest, Visit, blanks, capacity, read_all, read_without_each, rebuild_and_wait,
    serve_in_sync, sum, unpacked, volume, write_here_and_there,
};
use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status, zoneweave};
use crate::support::text;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn create(scratch: &Scratch, level: &str, members: &[PathBuf]) -> PathBuf {
    crate::support::md::create(scratch, level, members, &[])
}

fn assemble(dir: &Path, options: &[&str], members: &[PathBuf]) -> Finished {
    run_for(SOON, zoneweave().args(["md", "assemble"]).arg(dir).args(options).args(members))
}

#[test]
fn what_is_written_is_there_after_a_kill_and_parities_are_right() {
    for (level, count) in [("4", 3), ("5", 4), ("6", 5)] {
        let scratch = Scratch::new("md-serve");
        let members = blanks(&scratch, count);
        let dir = create(&scratch, level, &members);
        let server = Server::serve(&dir);
        let bytes = capacity(&dir);
        let content = write_here_and_there(&server, vec![0; bytes]);
        server.kill_9();
        let server = Server::serve(&dir);
        assert!(read_all(&server, bytes) == content, "RAID-{level} after a kill");
        let content = write_here_and_there(&server, content);
        assert!(crate::support::run::until(SOON, || status(&dir)["resync"].is_null()), "{}", server.log());
        server.stop();
        let state = status(&dir);
        assert_eq!(
            (&state["state"], &state["served"], &state["dirty"]),
            (&"clean".into(), &false.into(), &false.into())
        );
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
        assert!(volume(&scratch, "copy", &[&dir]) == content, "RAID-{level} on the media");
    }
}

#[test]
fn an_array_goes_on_without_as_many_members_as_it_has_parities() {
    let scratch = Scratch::new("md-degraded");
    let members = blanks(&scratch, 5);
    let dir = create(&scratch, "6", &members);
    let (server, bytes) = serve_in_sync(&dir);
    let content = write_here_and_there(&server, vec![0; bytes]);
    let failed = ask(&["md", "fail", text(&dir), text(&members[1])]);
    assert_eq!(failed.code(), Some(0), "{failed}");
    let again = ask(&["md", "fail", text(&dir), "1"]);
    assert!(again.code() == Some(2) && again.stderr.contains("failed already"), "{again}");
    assert_eq!(ask(&["status", text(&dir)]).code(), Some(3));
    let content = write_here_and_there(&server, content);
    assert_eq!(ask(&["md", "fail", text(&dir), "4"]).code(), Some(0));
    let refused = ask(&["md", "fail", text(&dir), "0"]);
    assert!(refused.code() == Some(2) && refused.stderr.contains("cannot do without"), "{refused}");
    let content = write_here_and_there(&server, content);
    assert!(read_all(&server, bytes) == content, "without two members");
    server.stop();
    // The superblocks say who is missing: nothing has to be allowed.
    let server = Server::serve(&dir);
    assert!(read_all(&server, bytes) == content, "started without two members");
    assert_eq!(status(&dir)["state"], "degraded");
    server.stop();
    assert!(volume(&scratch, "copy", &[&dir]) == content, "on the media");
}

#[test]
fn a_member_that_is_not_there_is_missed() {
    let scratch = Scratch::new("md-missed");
    let members = blanks(&scratch, 4);
    let dir = create(&scratch, "5", &members);
    let (server, bytes) = serve_in_sync(&dir);
    let content = write_here_and_there(&server, vec![0; bytes]);
    let busy = ask(&["serve", text(&dir), "--listen", "tcp:127.0.0.1:0"]);
    assert!(busy.code() == Some(5) && busy.stderr.contains("is in use"), "{busy}");
    server.stop();
    let away = scratch.join("away");
    std::fs::rename(&members[2], &away).unwrap();
    let before: Vec<_> = [0, 1, 3].map(|index: usize| std::fs::read(&members[index]).unwrap()).into();
    let refused = ask(&["serve", text(&dir)]);
    assert!(refused.code() == Some(3) && refused.stderr.contains("counts on member 2"), "{refused}");
    assert!(refused.stderr.contains(text(&members[2])) && refused.stderr.contains("--degraded"), "{refused}");
    let after: Vec<_> = [0, 1, 3].map(|index: usize| std::fs::read(&members[index]).unwrap()).into();
    assert!(before == after, "a refused start writes nothing");
    let server = Server::serve_degraded(&dir);
    assert!(read_all(&server, bytes) == content, "without member 2");
    let content = write_here_and_there(&server, content);
    server.stop();
    // What comes back missed writes: it is left out, and named.
    std::fs::rename(&away, &members[2]).unwrap();
    let server = Server::serve(&dir);
    server.assert_says("left out");
    assert!(read_all(&server, bytes) == content, "with a stale member");
    server.stop();
    let foreign = ask(&["serve", text(&dir), "--profile", "zn540-1tb"]);
    assert!(
        foreign.code() == Some(2) && foreign.stderr.contains("--profile is for arrays of zoned drives"),
        "{foreign}"
    );
}

#[test]
fn arrays_that_md_made_are_served() {
    for (array, is_degraded) in [
        ("r4", false),
        ("r5-left-asymmetric", false),
        ("r5-parity-first", false),
        ("r5-v1.1", false),
        ("r5-offset", false),
        ("r5-crash-bitmap", false),
        ("r5-crash-nobitmap", false),
        ("r5-mid-resync", false),
        ("r5-stale-bitmap", true),
        ("r6-right-symmetric", false),
        ("r6-ddf-N-continue", false),
        ("r6-left-symmetric-6", false),
        ("r6-two-lost", true),
    ] {
        let scratch = Scratch::new("md-golden");
        let members = unpacked(&scratch, array);
        let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
        let content = volume(&scratch, "before", &paths);
        let before: Vec<_> = members.iter().map(|path| std::fs::read(path).unwrap()).collect();
        let dir = scratch.join(array);
        if is_degraded {
            let refused = assemble(&dir, &[], &members);
            assert!(refused.code() == Some(3) && refused.stderr.contains("--run"), "{array}: {refused}");
        }
        let made = assemble(&dir, &["--run"], &members);
        assert_eq!(made.code(), Some(if is_degraded { 3 } else { 0 }), "{array}: {made}");
        let after: Vec<_> = members.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(before == after, "{array}: assembling writes nothing");
        let server = Server::serve_degraded(&dir);
        assert!(read_all(&server, content.len()) == content, "{array}: as md returned it");
        let content = write_here_and_there(&server, content);
        // Dirty and degraded, it would be refused.
        if is_degraded {
            server.stop()
        } else {
            server.kill_9()
        }
        let server = Server::serve(&dir);
        assert!(read_all(&server, content.len()) == content, "{array}: after a restart");
        assert!(
            crate::support::run::until(SOON, || status(&dir)["resync"].is_null()),
            "{array}: {}",
            server.log()
        );
        server.stop();
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.stdout.contains("mismatches: 0 sectors"), "{array}: {checked}");
        assert!(volume(&scratch, "after", &[&dir]) == content, "{array}: on the media");
    }
}

#[test]
fn a_member_is_replaced_beside_clients() {
    for (level, count) in [("4", 3), ("5", 4), ("6", 5)] {
        let scratch = Scratch::new("md-add");
        let members = blanks(&scratch, count);
        let dir = create(&scratch, level, &members);
        let early = ask(&["md", "add", text(&dir), text(&members[0])]);
        assert!(early.code() == Some(6) && early.stderr.contains("serve"), "{early}");
        let (server, bytes) = serve_in_sync(&dir);
        let content = write_here_and_there(&server, vec![0; bytes]);
        let new = scratch.join("new");
        std::fs::File::create(&new).unwrap().set_len(25 << 20).unwrap();
        assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
        let content = write_here_and_there(&server, content);
        // As slow as it goes, so that clients meet it.
        assert_eq!(ask(&["rebuild", text(&dir), "--rate", "1"]).code(), Some(0));
        let added = ask(&["md", "add", text(&dir), text(&new)]);
        assert!(added.code() == Some(0) && added.stdout.contains("member 1"), "{added}");
        let content = write_here_and_there(&server, content);
        let state = status(&dir);
        assert_eq!(
            (&state["state"], &state["members"][1]["state"]),
            (&"rebuilding".into(), &"rebuilding".into())
        );
        assert!(state["members"][1]["rebuild"]["bytes_total"].as_u64() > Some(1 << 20), "{state}");
        assert!(read_all(&server, bytes) == content, "RAID-{level} meanwhile");
        assert_eq!(ask(&["rebuild", text(&dir), "--rate", "0"]).code(), Some(0));
        let rebuilt = rebuild_and_wait(&dir);
        assert!(rebuilt.code() == Some(0) && rebuilt.stdout.contains("member 1 is rebuilt"), "{rebuilt}");
        let content = write_here_and_there(&server, content);
        let removed = ask(&["md", "remove", text(&dir), text(&members[1])]);
        assert_eq!(removed.code(), Some(0), "{removed}");
        server.stop();
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
        let mut now: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
        now[1] = &new;
        read_without_each(&scratch, &now, &content);
    }
}

#[test]
fn a_device_that_cannot_be_a_member_is_refused_by_name() {
    let scratch = Scratch::new("md-add-refused");
    let members = blanks(&scratch, 4);
    let dir = create(&scratch, "5", &members);
    let server = Server::serve(&dir);
    assert!(crate::support::run::until(SOON, || status(&dir)["resync"].is_null()), "{}", server.log());
    assert_eq!(ask(&["md", "fail", text(&dir), "2"]).code(), Some(0));
    let add =
        |path: &Path, options: &[&str]| ask(&[&["md", "add", text(&dir), text(path)], options].concat());
    let small = scratch.join("small");
    std::fs::File::create(&small).unwrap().set_len(20 << 20).unwrap();
    let refused = add(&small, &[]);
    assert!(refused.code() == Some(2) && refused.stderr.contains("KiB are needed"), "{refused}");
    let taken = scratch.join("taken");
    let mut other = vec![0; 24 << 20];
    other[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(&taken, &other).unwrap();
    let refused = add(&taken, &[]);
    assert!(refused.code() == Some(4) && refused.stderr.contains("a file system (ext2"), "{refused}");
    assert!(std::fs::read(&taken).unwrap() == other, "nothing is written");
    let refused = add(&taken, &["--role", "1", "--force"]);
    assert!(refused.code() == Some(2) && refused.stderr.contains("role 1 has a member"), "{refused}");
    let refused = add(&taken, &["--role", "9", "--force"]);
    assert!(refused.code() == Some(2) && refused.stderr.contains("no role 9"), "{refused}");
    // The failed member is closed with `remove`, as with mdadm; then it holds a superblock.
    let busy = add(&members[2], &[]);
    assert!(busy.code() == Some(5) && busy.stderr.contains("md remove"), "{busy}");
    let used = ask(&["md", "remove", text(&dir), text(&members[0])]);
    assert!(used.code() == Some(2) && used.stderr.contains("is in use"), "{used}");
    assert_eq!(ask(&["md", "remove", text(&dir), text(&members[2])]).code(), Some(0));
    let refused = add(&members[2], &[]);
    assert!(refused.code() == Some(4) && refused.stderr.contains("a superblock 1.2"), "{refused}");
    assert_eq!(add(&members[2], &["--force"]).code(), Some(0));
    assert_eq!(rebuild_and_wait(&dir).code(), Some(0));
    server.stop();
    assert_eq!(ask(&["check", text(&dir)]).code(), Some(0));
}

#[test]
fn a_rebuild_goes_on_after_a_kill_and_after_a_stop() {
    let scratch = Scratch::new("md-resume");
    let members = blanks(&scratch, 4);
    let dir = create(&scratch, "5", &members);
    let (server, bytes) = serve_in_sync(&dir);
    let content = write_here_and_there(&server, vec![0; bytes]);
    assert_eq!(ask(&["md", "fail", text(&dir), "3"]).code(), Some(0));
    let content = write_here_and_there(&server, content);
    let new = scratch.join("new");
    std::fs::File::create(&new).unwrap().set_len(24 << 20).unwrap();
    assert_eq!(ask(&["rebuild", text(&dir), "--rate", "2"]).code(), Some(0));
    assert_eq!(ask(&["md", "add", text(&dir), text(&new)]).code(), Some(0));
    let done = || status(&dir)["members"][3]["rebuild"]["bytes_done"].as_u64().unwrap_or(0);
    assert!(crate::support::run::until(SOON, || done() > 1 << 20), "{}", server.log());
    server.stop();
    let stopped_at = done();
    assert!(stopped_at > 1 << 20, "how far it is was recorded at the stop");
    // Dirty and degraded it would be refused: nothing is written until it is killed.
    let server = Server::serve(&dir);
    assert_eq!(ask(&["rebuild", text(&dir), "--rate", "2"]).code(), Some(0));
    assert!(read_all(&server, bytes) == content, "in the middle of a rebuild");
    assert!(done() >= stopped_at, "it goes on where it was");
    server.kill_9();
    assert!(volume(&scratch, "killed", &[&dir]) == content, "after a kill");
    let server = Server::serve(&dir);
    assert!(done() >= stopped_at, "it goes on where it was recorded");
    let content = write_here_and_there(&server, content);
    assert_eq!(rebuild_and_wait(&dir).code(), Some(0));
    server.stop();
    read_without_each(&scratch, &[&members[0], &members[1], &members[2], &new], &content);
}

#[test]
fn a_recovery_of_md_is_taken_on() {
    let scratch = Scratch::new("md-taken-on");
    let members = unpacked(&scratch, "r5-mid-recovery");
    let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
    let content = volume(&scratch, "before", &paths);
    let dir = scratch.join("a");
    let made = assemble(&dir, &[], &members);
    assert_eq!(made.code(), Some(3), "{made}");
    let server = Server::serve(&dir);
    assert!(read_all(&server, content.len()) == content, "as md returned it");
    let content = write_here_and_there(&server, content);
    assert_eq!(rebuild_and_wait(&dir).code(), Some(0), "{}", server.log());
    server.stop();
    read_without_each(&scratch, &[paths[0], paths[2], paths[3], paths[4]], &content);
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    for (array, why) in [("r5-reshape-grow", "reshape"), ("r1", "level")] {
        let scratch = Scratch::new("md-refused");
        let members = unpacked(&scratch, array);
        let before: Vec<_> = members.iter().map(|path| std::fs::read(path).unwrap()).collect();
        let dir = scratch.join(array);
        let refused = assemble(&dir, &["--run"], &members);
        assert!(refused.code() == Some(4) && refused.stderr.contains(why), "{array}: {refused}");
        let after: Vec<_> = members.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(before == after && !dir.exists(), "{array}: nothing is written");
    }
}

#[test]
fn a_scrub_counts_and_mends_parities_as_md_does() {
    let scratch = Scratch::new("md-scrub");
    let members = unpacked(&scratch, "r5-assume-clean");
    let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
    let content = volume(&scratch, "before", &paths);
    let dir = scratch.join("a");
    assert_eq!(assemble(&dir, &[], &members).code(), Some(0));
    let server = Server::serve(&dir);
    let scrub = |options: &[&str]| ask(&[&["scrub", text(&dir), "--json"], options].concat());
    let checked = scrub(&[]);
    assert!(checked.code() == Some(1) && checked.stdout.contains("\"mismatch_cnt\": 3880"), "{checked}");
    let repaired = scrub(&["--repair"]);
    assert!(repaired.code() == Some(0) && repaired.stdout.contains("\"mismatch_cnt\": 3880"), "{repaired}");
    let again = scrub(&["--rate", "100"]);
    assert!(again.code() == Some(0) && again.stdout.contains("\"mismatch_cnt\": 0"), "{again}");
    assert!(read_all(&server, content.len()) == content, "data are believed");
    assert_eq!(ask(&["md", "fail", text(&dir), "0"]).code(), Some(0));
    let refused = scrub(&[]);
    assert!(refused.code() == Some(5) && refused.stderr.contains("1 members are missing"), "{refused}");
    server.stop();
    let none = scrub(&[]);
    assert!(none.code() == Some(6) && none.stderr.contains("nobody serves"), "{none}");
}

#[test]
fn arrays_go_to_linux_md_and_back() {
    let Some(guest) = Guest::here() else { return };
    // Whether Zoneweave is killed, whether a member is taken out, and whether the guest panics.
    for (level, count, is_killed, is_degraded, panics) in [
        ("4", 3, false, false, true),
        ("5", 4, true, false, false),
        ("6", 5, true, true, false),
        ("5", 4, false, true, true),
    ] {
        let scratch = Scratch::new("md-kernel");
        let members = blanks(&scratch, count);
        let dir = create(&scratch, level, &members);
        let (server, bytes) = serve_in_sync(&dir);
        let mut content = write_here_and_there(&server, vec![0; bytes]);
        if is_degraded {
            assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
            content = write_here_and_there(&server, content);
        }
        // Dirty and degraded, md refuses it as we do.
        if is_killed && !is_degraded {
            server.kill_9()
        } else {
            server.stop()
        }
        let visit = Visit { is_degraded, panics, ..Visit::default() };
        guest.take(&scratch, &members, &visit, &mut content, &format!("RAID-{level}"));
        if panics && is_degraded {
            let refused = ask(&["serve", text(&dir)]);
            assert!(refused.code() == Some(4) && refused.stderr.contains("dirty and degraded"), "{refused}");
            continue;
        }
        assert!(volume(&scratch, "copy", &[&dir]) == content, "RAID-{level}: what md wrote, on the media");
        let server = Server::serve(&dir);
        assert!(read_all(&server, bytes) == content, "RAID-{level}: what md wrote, served");
        let content = write_here_and_there(&server, content);
        server.stop();
        assert!(volume(&scratch, "again", &[&dir]) == content, "RAID-{level}: and back once more");
    }
}

/// In the guest: what the last member says of its recovery, then as [`GUEST_SCRIPT`].
const GUEST_RECOVERS: &str = "
for disk in /dev/ubd?; do mdadm --examine $disk | grep 'Recovery Offset'; done
";

#[test]
fn linux_md_takes_members_that_were_rebuilt_or_goes_on_with_them() {
    if !crate::support::have(guest::TOOLS)
        || !(crate::support::is_root() || crate::support::skip("a guest's root is made as root"))
    {
        return;
    }
    // Whether the rebuild is through when it is stopped, and whether it is killed.
    for (level, count, is_through, is_killed) in [
        ("4", 3, true, false),
        ("5", 4, false, false),
        ("5", 4, false, true),
        ("6", 5, true, true),
        ("6", 5, false, false),
    ] {
        let scratch = Scratch::new("md-rebuilt-kernel");
        let mut members = blanks(&scratch, count);
        let dir = create(&scratch, level, &members);
        let (server, bytes) = serve_in_sync(&dir);
        let content = write_here_and_there(&server, vec![0; bytes]);
        assert_eq!(ask(&["md", "fail", text(&dir), "0"]).code(), Some(0));
        let content = write_here_and_there(&server, content);
        let new = scratch.join("new");
        std::fs::File::create(&new).unwrap().set_len(26 << 20).unwrap();
        assert_eq!(ask(&["rebuild", text(&dir), "--rate", "2"]).code(), Some(0));
        assert_eq!(ask(&["md", "add", text(&dir), text(&new)]).code(), Some(0));
        let content = write_here_and_there(&server, content);
        members[0] = new;
        let done = || status(&dir)["members"][0]["rebuild"]["bytes_done"].as_u64().unwrap_or(0);
        if is_through {
            assert_eq!(ask(&["rebuild", text(&dir), "--rate", "0"]).code(), Some(0));
            assert_eq!(rebuild_and_wait(&dir).code(), Some(0), "{}", server.log());
        } else {
            assert!(crate::support::run::until(SOON, || done() > 1 << 20), "{}", server.log());
            // Dirty and degraded, md refuses it as we do.
            assert!(crate::support::run::until(SOON, || status(&dir)["dirty"] == false), "{}", server.log());
        }
        if is_killed {
            server.kill_9()
        } else {
            server.stop()
        }
        let offset = done() / 512;
        assert!(is_through || is_killed || offset > 2048, "{offset} sectors are recorded");
        let script = format!("{GUEST_RECOVERS}{GUEST_SCRIPT}mdadm --stop /dev/md0\n");
        let data = crate::support::random_bytes(&mut crate::support::random(99), 300 * 4096);
        let said = guest::run(scratch.path(), &members, &script, &data);
        let expected = format!("sum={}", sum(&scratch, &content));
        assert!(said.stdout.contains(&expected), "RAID-{level}: md reads something else\n{said}");
        assert!(said.stdout.contains("mismatches=0 degraded=0"), "RAID-{level}: {said}");
        let examined = format!("Recovery Offset : {offset} sectors");
        assert_eq!(said.stdout.contains("Recovery Offset"), !is_through, "RAID-{level}: {said}");
        assert!(is_through || said.stdout.contains(&examined), "RAID-{level}, {examined}: {said}");
        let mut content = content;
        content[100 * 4096..400 * 4096].copy_from_slice(&data);
        let now: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
        read_without_each(&scratch, &now, &content);
        let server = Server::serve(&dir);
        assert_eq!(status(&dir)["members"][0]["state"], "active");
        assert!(read_all(&server, bytes) == content, "RAID-{level}: what md wrote, served");
        server.stop();
    }
}

/// In the guest: what mdadm says of the array, without a change of it.
const GUEST_DETAILS: &str = "
mdadm --assemble --readonly --run /dev/md0 /dev/ubd? 2>/dev/null
mdadm --detail /dev/md0
mdadm --detail --export /dev/md0
mdadm --stop /dev/md0
";

#[test]
fn details_are_those_of_mdadm() {
    if !crate::support::have(guest::TOOLS)
        || !(crate::support::is_root() || crate::support::skip("a guest's root is made as root"))
    {
        return;
    }
    for (level, count, policy, is_degraded) in [("5", 3, "bitmap", false), ("6", 5, "resync", true)] {
        let scratch = Scratch::new("md-detail");
        let members = blanks(&scratch, count);
        let dir = scratch.join("a");
        let counted = count.to_string();
        let fixed = ["--level", level, "--raid-devices", &counted, "--consistency-policy", policy];
        let made = run_for(SOON, zoneweave().args(["md", "create"]).arg(&dir).args(fixed).args(&members));
        assert_eq!(made.code(), Some(0), "{made}");
        let server = Server::serve(&dir);
        assert!(crate::support::run::until(SOON, || status(&dir)["resync"].is_null()), "{}", server.log());
        if is_degraded {
            assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
        }
        let served = ask(&["md", "detail", text(&dir)]);
        assert!(served.stdout.contains(" Raid Level : raid"), "{served}");
        server.stop();
        let ours = |options: &[&str]| {
            let mut command = zoneweave();
            let said = run_for(SOON, command.args(["md", "detail"]).arg(&dir).args(options).env("TZ", "UTC"));
            assert_eq!(said.code(), Some(if is_degraded { 3 } else { 0 }), "{said}");
            said.stdout
        };
        let there: Vec<PathBuf> =
            (0..count).filter(|role| !is_degraded || *role != 1).map(|role| members[role].clone()).collect();
        let said = guest::run(scratch.path(), &there, GUEST_DETAILS, &[]).stdout.replace('\r', "");
        let whole: Vec<&str> = said.lines().skip_while(|line| *line != "/dev/md0:").collect();
        // Devices have other names and numbers there.
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().skip(1).take_while(|line| !line.contains("Number   Major"));
            lines.map(|line| line.trim_end().to_owned()).collect()
        };
        assert_eq!(lines(&ours(&[])), lines(&whole.join("\n")), "{said}");
        let row = |line: &str| -> Option<(String, String, String)> {
            let mut words = line.split_whitespace().filter(|word| !word.starts_with('/'));
            let (number, role) = (words.next()?, words.nth(2)?);
            Some((number.to_owned(), role.to_owned(), words.collect::<Vec<_>>().join(" ")))
        };
        let table = |text: &str| -> Vec<_> {
            let lines = text.lines().skip_while(|line| !line.contains("Number   Major")).skip(1);
            lines.take_while(|line| !line.contains('=')).filter_map(row).collect()
        };
        assert_eq!(table(&ours(&[])), table(&whole.join("\n")), "{said}");
        for line in ours(&["--export"]).lines().filter(|line| !line.starts_with("MD_DEV")) {
            assert!(said.lines().any(|other| other == line), "{line}: {said}");
        }
    }
}

#[test]
fn an_array_to_try_takes_one_command_and_goes_with_another() {
    let scratch = Scratch::new("md-up");
    let dir = scratch.join("a");
    let up = |options: &[&str]| ask(&[&["up", "--engine", "inplace", "--dir", text(&dir)], options].concat());
    for (options, code, said) in [
        (&["--level", "raid0"][..], 2, "raid4, raid5 or raid6"),
        (&["--level", "raid6", "--drives", "3"], 2, "RAID-6 from 4"),
        (&["--size", "1000000TiB"], 4, "are free"),
    ] {
        let refused = up(options);
        assert!(refused.code() == Some(code) && refused.stderr.contains(said), "{refused}");
        assert!(!dir.exists(), "{options:?} left something behind");
    }
    let options = ["--engine", "inplace", "--size", "64MiB", "--level", "raid6", "--drives", "5"];
    let server = Server::up(&dir, &options);
    let bytes = capacity(&dir);
    assert!((64 << 20..65 << 20).contains(&bytes), "{bytes}");
    let content = write_here_and_there(&server, vec![0; bytes]);
    let refused = ask(&["destroy", text(&dir), "--yes"]);
    assert!(refused.code() == Some(5) && refused.stderr.contains("being served"), "{refused}");
    server.stop();
    let server = Server::up(&dir, &["--engine", "inplace"]);
    assert!(read_all(&server, bytes) == content, "after a stop");
    server.stop();
    let checked = ask(&["check", text(&dir)]);
    assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    // A member elsewhere stays, without superblock.
    let elsewhere = scratch.join("elsewhere");
    std::fs::rename(dir.join("member-1.img"), &elsewhere).unwrap();
    let described = std::fs::read_to_string(dir.join("array.toml")).unwrap();
    std::fs::write(dir.join("array.toml"), described.replace("member-1.img", text(&elsewhere))).unwrap();
    assert_eq!(ask(&["destroy", text(&dir), "--yes"]).code(), Some(0));
    assert!(!dir.exists() && elsewhere.exists());
    assert_eq!(ask(&["md", "examine", text(&elsewhere)]).code(), Some(6));
}

#[test]
fn what_members_were_asked_is_told_by_cause_and_rates_are_as_they_were_set() {
    let scratch = Scratch::new("md-causes");
    let dir = create(&scratch, "5", &blanks(&scratch, 4));
    let (server, bytes) = serve_in_sync(&dir);
    let content = write_here_and_there(&server, vec![0; bytes]);
    assert!(read_all(&server, bytes) == content);
    let before = status(&dir);
    assert_eq!(before["sync_speed"], serde_json::json!({ "min": 10 << 20, "max": null }));
    for (options, min, max) in [
        (&["--rate-min", "3"][..], serde_json::json!(3 << 20), Value::Null),
        (&["--rate-min", "3", "--rate", "7"][..], serde_json::json!(3 << 20), serde_json::json!(7 << 20)),
        (&["--rate", "7"][..], Value::Null, serde_json::json!(7 << 20)),
    ] {
        let said = ask(&[&["rebuild", text(&dir)], options].concat());
        assert_eq!(said.code(), Some(0), "{said}");
        assert_eq!(status(&dir)["sync_speed"], serde_json::json!({ "min": min, "max": max }), "{options:?}");
    }
    let (read, written) = (&before["member_io"]["read"], &before["member_io"]["written"]);
    let count = |of: &Value, cause: &str| of[cause].as_u64().unwrap();
    assert!(count(read, "data") >= bytes as u64 / 4096, "{read}");
    assert!(count(read, "sweep") > 0, "the first resync reads: {read}");
    assert!(count(written, "data") > 0 && count(written, "parity") > 0, "{written}");
    assert_eq!((count(written, "ppl"), count(written, "journal"), count(read, "decode")), (0, 0, 0));
    let (counters, of_writes) = (&before["counters"], ["old_data", "old_parity", "reconstruct"]);
    let for_writes: u64 = of_writes.into_iter().map(|cause| count(read, cause)).sum();
    assert_eq!(count(counters, "member_blocks_read"), for_writes, "{read}");
    server.stop();
}
