//! Drives that are away, elsewhere, copied or left over, and an `array.toml` that is wrong: what the host did to drives is
//! never taken for what drives did.

use crate::support::run::{Finished, SOON, run_for, until, wait_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, assert_clean, let_run, status, zoneweave};
use crate::support::{have, is_root, text};
use serde_json::Value;
use signal_hook::consts::SIGINT;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// An array with a mebibyte of sevens, not served.
fn array(dir: &Path) {
    let server = Server::up(dir, &["--size", "64MiB"]);
    server.client().write(0, &vec![7; MIB]).unwrap();
    server.stop();
}

#[track_caller]
fn assert_sevens(server: &Server) {
    assert!(server.client().read(0, 1 << 20).unwrap() == vec![7; MIB]);
}

/// Asserts the exit code and that all of `words` were said.
#[track_caller]
fn assert_ends(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), Some(code), "{finished}");
    for word in words {
        assert!(finished.stderr.contains(word), "should mention `{word}`: {finished}");
    }
    assert!(!finished.stderr.contains("panicked"), "{finished}");
}

/// Everything the drives hold.
fn media(dir: &Path) -> Vec<Vec<u8>> {
    let drive = |index| std::fs::read(dir.join(format!("drive-{index}.zns"))).unwrap_or_default();
    (0..4).map(drive).collect()
}

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("no JSON: {error}\n{finished}"))
}

fn drive(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("drive-{index}.zns"))
}

#[test]
fn an_array_that_another_host_has_taken_is_left_alone() {
    let scratch = Scratch::new("fenced");
    let dir = scratch.join("array");
    array(&dir);
    std::fs::write(dir.join("fenced"), "drive 1 was taken by another server\n").unwrap();
    let before = media(&dir);
    let words = ["another host", "drive 1 was taken", "nothing was written", "fenced and start again"];
    for asked in [&["serve"][..], &["check"], &["destroy", "--yes"]] {
        assert_ends(&ask(&[asked, &[text(&dir)]].concat()), 2, &words);
    }
    assert_ends(&ask(&["drive", "fail", text(&dir), "1"]), 2, &words);
    assert_eq!(ask(&["status", text(&dir)]).code(), Some(0), "who only looks may");
    assert!(media(&dir) == before);
    std::fs::remove_file(dir.join("fenced")).unwrap();
    let server = Server::serve(&dir);
    assert_sevens(&server);
    server.stop();
}

#[test]
fn a_start_without_a_drive_is_refused_and_records_nothing() {
    let scratch = Scratch::new("absent");
    let dir = scratch.join("array");
    array(&dir);
    let away = scratch.join("away");
    std::fs::rename(drive(&dir, 2), &away).unwrap();
    let before = media(&dir);
    let words = ["drive 2", "drive-2.zns", "no such file", "--degraded"];
    assert_ends(&ask(&["serve", text(&dir)]), 4, &words);
    assert_ends(&ask(&["up", "--dir", text(&dir)]), 4, &words);
    let said = ask(&["status", text(&dir), "--json"]);
    assert_eq!(said.code(), Some(3), "{said}");
    assert_eq!(json(&said)["members"][2]["state"], "missing", "{said}");
    assert!(json(&said)["members"][2]["problem"].as_str().unwrap().contains("no such file"), "{said}");
    assert!(media(&dir) == before, "nothing was recorded");
    std::fs::rename(&away, drive(&dir, 2)).unwrap();
    let server = Server::serve(&dir);
    assert_eq!(status(&dir)["state"], "clean");
    server.stop();
    // The operator says so; from then on it is recorded.
    std::fs::rename(drive(&dir, 2), &away).unwrap();
    let server = Server::serve_degraded(&dir);
    assert_sevens(&server);
    server.stop();
    let server = Server::serve(&dir);
    assert_eq!(status(&dir)["members"][2]["state"], "failed");
    server.stop();
    // Another one is away, and too few are left.
    std::fs::remove_file(drive(&dir, 0)).unwrap();
    assert_ends(&ask(&["serve", text(&dir)]), 4, &["drive 0", "too few"]);
    let said = ask(&["status", text(&dir), "--json"]);
    assert_eq!(said.code(), Some(4), "{said}");
    assert_eq!(json(&said)["state"], "failed", "{said}");
    assert!(json(&said)["error"].as_str().unwrap().contains("drive 0"), "{said}");
}

#[test]
fn troubles_of_the_host_are_not_those_of_a_drive() {
    let scratch = Scratch::new("host");
    let dir = scratch.join("array");
    array(&dir);
    let before = media(&dir);
    // Descriptors for some of the drives only.
    let mut named = 0;
    for limit in 4..10 {
        let script = format!("ulimit -n {limit}; exec \"$0\" serve \"$1\" --listen unix:$1/nbd.sock");
        let mut command = Command::new("sh");
        let finished = run_for(
            Duration::from_secs(10),
            command.args(["-c", &script, env!("CARGO_BIN_EXE_zoneweave"), text(&dir)]),
        );
        assert!(finished.code() == Some(4), "{limit} descriptors: {finished}");
        named += u32::from(
            [".zns", "Too many open files", "nothing was recorded", "ulimit -n"]
                .iter()
                .all(|words| finished.stderr.contains(words)),
        );
        assert!(media(&dir) == before, "{limit} descriptors: something was recorded: {finished}");
    }
    assert!(named > 0, "no limit met the drives");
    // Who goes on without a drive does not do so for want of descriptors, and who looks does not call it missing.
    for (command, limit) in ["serve --degraded", "status", "check"]
        .into_iter()
        .flat_map(|of| (4..10).map(move |limit| (of, limit)))
    {
        let script = format!("ulimit -n {limit}; exec \"$0\" {command} \"$1\"");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &script, env!("CARGO_BIN_EXE_zoneweave"), text(&dir)]);
        let finished = run_for(SOON, shell);
        let has_all = command != "serve --degraded" && finished.succeeded();
        assert!(has_all || finished.code() == Some(4), "{command}, {limit} descriptors: {finished}");
        assert!(media(&dir) == before, "{command}, {limit} descriptors: something was recorded: {finished}");
    }
    // A file that is something else, and one that is misspelt.
    std::fs::rename(drive(&dir, 1), scratch.join("away")).unwrap();
    std::fs::create_dir(drive(&dir, 1)).unwrap();
    assert_ends(&ask(&["serve", text(&dir)]), 4, &["drive 1", "not a regular file"]);
    std::fs::remove_dir(drive(&dir, 1)).unwrap();
    std::fs::rename(scratch.join("away"), drive(&dir, 1)).unwrap();
    // The sockets cannot be made: the drives do not hear of it.
    let refused = ask(&["serve", text(&dir), "--listen", "unix:/no/such/folder/s"]);
    assert_ends(&refused, 2, &["/no/such/folder"]);
    assert!(media(&dir) == before, "nothing was recorded");
    let server = Server::serve(&dir);
    assert_sevens(&server);
    server.stop();
}

/// A drive that this user may not open, and one whose path leads nowhere: drive, error and remedy.
#[test]
fn a_drive_that_cannot_be_opened_refuses_the_start_and_records_nothing() {
    use std::os::unix::fs::{chown, symlink};
    const NOBODY: u32 = 65534;
    let scratch = Scratch::new("eacces");
    let dir = scratch.join("array");
    array(&dir);
    let before = media(&dir);
    // Root may open everything, so root is somebody else for this.
    let script = match is_root() {
        true if !have(&["setpriv"]) => return,
        true => {
            let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
            files.chain([dir.clone()]).for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
            chown(drive(&dir, 1), Some(0), Some(0)).unwrap();
            "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\" serve \"$1\""
        }
        false => {
            std::fs::set_permissions(drive(&dir, 1), std::fs::Permissions::from_mode(0o0)).unwrap();
            "exec \"$0\" serve \"$1\""
        }
    };
    let program = scratch.join("zoneweave");
    std::fs::copy(env!("CARGO_BIN_EXE_zoneweave"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut shell = Command::new("sh");
    let refused = run_for(SOON, shell.args(["-c", script, text(&program), text(&dir)]));
    assert_ends(&refused, 4, &["drive 1", "Permission denied", "nothing was recorded", "--degraded"]);
    std::fs::set_permissions(drive(&dir, 1), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(media(&dir) == before, "nothing was recorded");
    // Neither absent nor forbidden: any other error of opening.
    std::fs::rename(drive(&dir, 1), scratch.join("away")).unwrap();
    symlink("drive-1.zns", drive(&dir, 1)).unwrap();
    let refused = ask(&["serve", text(&dir)]);
    assert_ends(&refused, 4, &["drive 1", "symbolic links", "nothing was recorded", "--degraded"]);
    std::fs::remove_file(drive(&dir, 1)).unwrap();
    std::fs::rename(scratch.join("away"), drive(&dir, 1)).unwrap();
    assert!(media(&dir) == before, "nothing was recorded");
    let server = Server::serve(&dir);
    assert_sevens(&server);
    server.stop();
}

#[test]
fn array_toml_is_a_cache_of_what_drives_say() {
    let scratch = Scratch::new("cache");
    let dir = scratch.join("array");
    array(&dir);
    let path = dir.join("array.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    let tables: Vec<&str> = good.split("[[drive]]").collect();
    // Another order, a drive that is not listed, one that has another name.
    let turned = format!("{}[[drive]]{}[[drive]]{}", tables[0], tables[3], tables[1]);
    std::fs::write(&path, &turned).unwrap();
    std::fs::rename(drive(&dir, 0), dir.join("renamed")).unwrap();
    assert_clean(&dir);
    let server = Server::serve(&dir);
    assert_sevens(&server);
    let report = status(&dir);
    assert_eq!(report["state"], "clean", "{report:#}");
    assert_eq!(report["members"][0]["path"], "renamed", "{report:#}");
    server.stop();
    assert_eq!(std::fs::read_to_string(&path).unwrap().matches("[[drive]]").count(), 4, "it is written anew");
    std::fs::write(&path, &turned).unwrap();
    ask(&["drive", "fail", text(&dir), "2"]).expect("drive fail");
    assert_eq!(status(&dir)["members"][2]["state"], "failed", "the number is that of the superblocks");
}

#[test]
fn a_lost_or_nonsensical_array_toml_is_assembled_anew() {
    let scratch = Scratch::new("assemble");
    let dir = scratch.join("array");
    array(&dir);
    let path = dir.join("array.toml");
    std::fs::write(&path, "version = \"nonsense\n").unwrap();
    assert_ends(&ask(&["serve", text(&dir)]), 4, &["makes no sense", "zoneweave assemble"]);
    std::fs::write(&path, [0xff, 0xfe, 0]).unwrap();
    assert_ends(&ask(&["status", text(&dir)]), 4, &["makes no sense", "zoneweave assemble"]);
    std::fs::remove_file(&path).unwrap();
    for arguments in [&["serve", text(&dir)][..], &["up", "--dir", text(&dir)], &["create", text(&dir)]] {
        assert_ends(&ask(arguments), 4, &["is lost", "zoneweave assemble"]);
    }
    let scanned = ask(&["scan", text(scratch.path()), "--json"]);
    assert_eq!(scanned.code(), Some(0), "{scanned}");
    let array = json(&scanned)["arrays"][0].clone();
    assert_eq!((&array["state"], &array["members"]), (&"complete".into(), &4.into()), "{scanned}");
    assert_ends(&ask(&["assemble", text(&dir)]), 0, &[]);
    let server = Server::serve(&dir);
    assert_sevens(&server);
    assert_ends(&ask(&["assemble", text(&dir)]), 5, &["served"]);
    server.stop();
    // Drives wherever they are, in any order; a second array among them.
    let elsewhere = scratch.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for (index, name) in [(3, "a"), (1, "b"), (0, "c"), (2, "d")] {
        std::fs::rename(drive(&dir, index), elsewhere.join(name)).unwrap();
    }
    let other = scratch.join("other");
    ask(&["create", text(&other), "--size", "64MiB"]).expect("create");
    let new = scratch.join("new");
    let both = ["assemble", text(&new), text(&elsewhere), text(&other)];
    assert_ends(&ask(&both), 2, &["--array"]);
    let uuid = array["array"].as_str().unwrap();
    assert_ends(&ask(&[&both[..], &["--array", uuid]].concat()), 0, &[]);
    let server = Server::serve(&new);
    assert_sevens(&server);
    server.stop();
    assert_ends(&ask(&["assemble", text(&scratch.join("none"))]), 6, &["no drive"]);
    assert_ends(&ask(&["scan", text(&dir)]), 6, &["no drive"]);
}

/// Drives 1 and 2 failed, 1 came back and was rebuilt, then 0 failed: the newest superblock of 2 still calls 1 failed.
#[test]
fn drives_that_were_left_behind_do_not_hinder_assembling() {
    let scratch = Scratch::new("left-behind");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--drives", "3", "--level", "raid6", "--size", "64MiB"]);
    server.client().write(0, &vec![7; MIB]).unwrap();
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    ask(&["drive", "fail", text(&dir), "2"]).expect("drive fail");
    assert_ends(&ask(&["drive", "re-add", text(&dir), "1", "--wait"]), 3, &[]);
    ask(&["drive", "fail", text(&dir), "0"]).expect("drive fail");
    server.stop();
    let new = scratch.join("new");
    let drives: Vec<PathBuf> = (0..3).map(|index| drive(&dir, index)).collect();
    let assemble = ["assemble", text(&new), text(&drives[0]), text(&drives[1]), text(&drives[2])];
    assert_ends(&ask(&assemble), 3, &[]);
    let state = |index: usize| status(&new)["members"][index]["state"].clone();
    assert_eq!([state(0), state(1), state(2)], ["failed", "active", "failed"]);
    let server = Server::serve(&new);
    assert_sevens(&server);
    server.stop();
}

#[test]
fn examine_tells_what_drives_say_and_whether_they_agree() {
    let scratch = Scratch::new("examine");
    let dir = scratch.join("array");
    array(&dir);
    let examined = ask(&["examine", text(&dir), "--json"]);
    assert_eq!(examined.code(), Some(0), "{examined}");
    let report = json(&examined);
    assert_eq!(report["agree"], true);
    for (index, drive) in report["drives"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&drive["member"], &drive["level"]), (&index.into(), &"raid5".into()), "{drive:#}");
        assert_eq!(
            (&drive["volume_bytes"], &drive["name"]),
            (&(64 << 20).into(), &"zoneweave".into()),
            "{drive:#}"
        );
        for key in ["array", "uuid", "generation", "epoch", "modified", "states"] {
            assert!(!drive[key].is_null(), "`{key}`: {drive:#}");
        }
    }
    // In use, too; and an older copy of a drive is behind.
    let old = scratch.join("old");
    std::fs::copy(drive(&dir, 1), &old).unwrap();
    Server::serve(&dir).stop();
    let server = Server::serve(&dir);
    let others = [drive(&dir, 0), drive(&dir, 2)];
    let examined = ask(&["examine", text(&old), text(&others[0]), text(&others[1])]);
    assert_eq!(examined.code(), Some(1), "{examined}");
    assert!(examined.stdout.contains("is behind"), "{examined}");
    server.stop();
    assert_eq!(ask(&["examine", text(&scratch.join("none"))]).code(), Some(6));
    let file = scratch.join("file");
    std::fs::write(&file, vec![1; 10_000]).unwrap();
    assert_eq!(ask(&["examine", text(&file)]).code(), Some(1));
}

#[test]
fn a_copy_of_a_drive_beside_it_is_refused_by_name() {
    let scratch = Scratch::new("clone");
    let dir = scratch.join("array");
    array(&dir);
    let copy = dir.join("copy.zns");
    std::fs::copy(drive(&dir, 3), &copy).unwrap();
    let before = media(&dir);
    for arguments in [&["serve", text(&dir)][..], &["check", text(&dir)], &["assemble", text(&dir)]] {
        assert_ends(&ask(arguments), 4, &["drive-3.zns", "copy.zns", "same drive"]);
    }
    assert!(media(&dir) == before, "nothing was recorded");
    std::fs::remove_file(copy).unwrap();
    assert_clean(&dir);
}

#[test]
fn a_server_is_stopped_and_an_array_destroyed() {
    let scratch = Scratch::new("destroy");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "64MiB"]);
    assert_ends(&ask(&["destroy", text(&dir)]), 5, &["served"]);
    assert_ends(&ask(&["check", text(&dir)]), 5, &["served"]);
    assert_ends(&ask(&["scrub", text(&dir), "--stop"]), 6, &["no scrub"]);
    ask(&["stop", text(&dir)]).expect("stop");
    assert!(until(SOON, || server.has_ended()), "{}", server.log());
    assert_ends(&ask(&["stop", text(&dir)]), 6, &["nobody serves"]);
    ask(&["drive", "add-spare", text(&dir)]).expect("add-spare");
    assert_eq!(status(&dir)["spares"].as_array().unwrap().len(), 1);
    ask(&["drive", "remove-spare", text(&dir), "spare-1.zns"]).expect("remove-spare");
    assert!(status(&dir)["spares"].as_array().unwrap().is_empty());
    assert_ends(&ask(&["drive", "remove-spare", text(&dir), "spare-1.zns"]), 6, &["spare-1.zns"]);
    assert!(dir.join("spare-1.zns").exists(), "the file is the operator's");
    std::fs::remove_file(dir.join("spare-1.zns")).unwrap();
    ask(&["destroy", text(&dir)]).expect("destroy");
    assert!(!dir.exists(), "nothing is left");
    assert_ends(&ask(&["destroy", text(&dir)]), 6, &["no array"]);
    assert_ends(&ask(&["status", text(&dir), "--json"]), 6, &["no array"]);
}

#[test]
fn create_begins_anew_over_what_an_interrupted_one_left() {
    let scratch = Scratch::new("force");
    let dir = scratch.join("array");
    let create = |more: &[&str]| ask(&[&["create", text(&dir), "--size", "64MiB"], more].concat());
    // Killed before a header was written, and after superblocks were.
    std::fs::create_dir(&dir).unwrap();
    std::fs::File::create(drive(&dir, 0)).unwrap().set_len(1 << 20).unwrap();
    assert_ends(&create(&[]), 4, &["drive-0.zns", "--force"]);
    create(&["--force"]).expect("create --force");
    assert_clean(&dir);
    let mode = std::fs::metadata(drive(&dir, 0)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "what clients write is for the owner alone");
    std::fs::remove_file(dir.join("array.toml")).unwrap();
    assert_ends(&create(&[]), 4, &["--force"]);
    create(&["--force"]).expect("create --force");
    // An array that was used is not.
    array(&scratch.join("used"));
    std::fs::remove_file(scratch.join("used/array.toml")).unwrap();
    let used = ask(&["create", text(&scratch.join("used")), "--size", "64MiB", "--force"]);
    assert_ends(&used, 4, &["drive-0.zns", "holds something"]);
    let file = scratch.join("precious");
    std::fs::write(&file, "precious").unwrap();
    let list = format!("{0},{0}-1,{0}-2", text(&file));
    let other = scratch.join("over");
    let over = ["create", text(&other), "--size", "64MiB", "--drives-path", &list, "--force"];
    assert_ends(&ask(&over), 4, &["precious", "holds something"]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "precious");
}

#[test]
fn create_that_is_interrupted_or_fails_leaves_nothing() {
    let scratch = Scratch::new("interrupt");
    let dir = scratch.join("array");
    let mut child = zoneweave()
        .args(["create", text(&dir), "--size", "64MiB", "--drives", "32", "--zones", "100000", "--force"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(until(SOON, || drive(&dir, 1).exists()));
    run_for(SOON, Command::new("kill").args([format!("-{SIGINT}"), child.id().to_string()])).expect("kill");
    let status = wait_for(SOON, &mut child).expect("it ends");
    assert!(status.code() == Some(4), "{status}");
    assert!(!dir.exists(), "nothing is left");
}

#[test]
fn what_the_host_cannot_hold_is_refused() {
    let scratch = Scratch::new("room");
    let dir = scratch.join("array");
    let create = ["create", text(&dir), "--size", "10TiB"];
    assert_ends(&ask(&create), 4, &["4 drives need", "TiB", "--force"]);
    assert!(!dir.exists());
    let said = ask(&[&create[..], &["--force"]].concat()).expect("create --force");
    assert!(said.contains("on disk") && said.contains("GiB for the index"), "{said}");
    for command in ["serve", "status"] {
        let script = format!("ulimit -v 4000000; exec \"$0\" {command} \"$1\"");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &script, env!("CARGO_BIN_EXE_zoneweave"), text(&dir)]);
        assert_ends(&run_for(SOON, shell), 4, &["index", "GiB", "memory"]);
    }
}

/// Whatever cannot be had, a start ends with words and with 4, and not with a signal, unless the C library lacks memory of its own, or Rust's
/// runtime has none for the stack on which a new thread would handle signals.
#[test]
fn whatever_memory_is_lacking_a_start_ends_with_words() {
    let scratch = Scratch::new("memory");
    let dir = scratch.join("array");
    // Many drives: threads and maps of files take most of the address space, and are what lacks it.
    let size = ["--size", "64MiB", "--zones", "2000", "--drives", "32", "--force"];
    ask(&[&["create", text(&dir)], &size[..]].concat()).expect("create --force");
    for step in 2..=8 {
        starts_within(&dir, step * 50_000);
    }
}

/// Memory of a scan of so many zones is most of the address space that a start asks for, so an allocation is what meets the limit.
#[test]
fn an_allocation_that_fails_is_an_error_message() {
    let scratch = Scratch::new("allocation");
    let dir = scratch.join("array");
    let size = ["--size", "64MiB", "--zones", "400000", "--drives", "3", "--force"];
    ask(&[&["create", text(&dir)], &size[..]].concat()).expect("create --force");
    let said: usize = [70_000, 90_000, 100_000, 110_000].map(|kib| starts_within(&dir, kib)).iter().sum();
    assert!(said > 0, "none of these limits met an allocation");
}

/// Starts within an address space of `kib` KiB, each of which ends with words: how many lacked memory for an allocation.
fn starts_within(dir: &Path, kib: u32) -> usize {
    let start = |command: &str| {
        let script = format!("ulimit -v {kib}; exec \"$0\" {command} \"$1\"");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &script, env!("CARGO_BIN_EXE_zoneweave"), text(dir)]);
        let finished = run_for(SOON, shell);
        let of_runtime = ["Fatal glibc error", "failed to allocate an alternative stack"];
        // Threads that come and go one after the other may find room, and then nothing is wrong.
        let has_all = command == "status" && finished.succeeded();
        if has_all || of_runtime.iter().any(|words| finished.stderr.contains(words)) {
            return false;
        }
        assert_ends(&finished, 4, &["zoneweave: "]);
        finished.stderr.contains("out of memory")
    };
    ["status", "serve"].into_iter().filter(|command| start(command)).count()
}

/// Server without the driver of ublk: it says so before it looks at drives, and there are no disks to remove.
#[test]
fn disks_of_this_host_want_a_driver() {
    if Path::new("/dev/ublk-control").exists() {
        println!("skipped: the driver is there, and `cargo xtask guest` tries it");
        return;
    }
    let scratch = Scratch::new("ublk-driver");
    let dir = scratch.join("array");
    ask(&["create", text(&dir), "--size", "64MiB"]).expect("create");
    assert_ends(&ask(&["serve", text(&dir), "--ublk"]), 2, &["/dev/ublk-control", "modprobe ublk_drv"]);
    assert_eq!(json(&ask(&["export", text(&dir), "--json"]))["exports"], serde_json::json!([]));
    let said = ask(&["export", text(&dir), "--ublk", "--remove"]).expect("export --remove");
    assert!(said.contains("there was none"), "{said}");
    assert_ends(&ask(&["export", text(&dir), "--remove"]), 2, &["--ublk or --nvme-tcp"]);
    assert_ends(&ask(&["export", text(&dir), "--nvme-tcp"]), 2, &["192.0.2.5:4420"]);
    assert_ends(&ask(&["export", text(&scratch.join("none"))]), 6, &["no array here"]);
}

#[test]
fn signals_stop_a_server_in_order() {
    let scratch = Scratch::new("signals");
    let dir = scratch.join("array");
    for signal in ["-HUP", "-QUIT", "-INT"] {
        let mut server = Server::up(&dir, &["--size", "64MiB"]);
        run_for(SOON, Command::new("kill").args([signal, &server.process().to_string()])).expect("kill");
        assert!(until(SOON, || server.has_ended()), "{signal}: {}", server.log());
        server.assert_says("stopped; everything written");
    }
}

#[test]
fn long_directories_are_served_and_port_0_is_told() {
    let scratch = Scratch::new("long");
    let dir = scratch.join(&"d".repeat(120)).join("array");
    std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
    ask(&["create", text(&dir), "--size", "64MiB"]).expect("create");
    let log = scratch.join("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut child = zoneweave()
        .args(["serve", text(&dir), "--listen", "tcp:127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!(until(SOON, || said().contains("serving")), "{}", said());
    assert!(!said().contains("127.0.0.1:0/"), "{}", said());
    assert_eq!(status(&dir)["served"], true);
    ask(&["stop", text(&dir)]).expect("stop");
    assert!(wait_for(SOON, &mut child).is_some_and(|status| status.success()));
    let mut child = zoneweave()
        .args(["serve", text(&dir)])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(until(SOON, || status(&dir)["served"] == true), "unix sockets in a long directory");
    ask(&["stop", text(&dir)]).expect("stop");
    assert!(wait_for(SOON, &mut child).is_some_and(|status| status.success()));
}

#[test]
fn rebuild_wait_tells_a_degraded_array_from_a_whole_one() {
    let scratch = Scratch::new("wait");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    server.client().write(0, &vec![7; 16 * MIB]).unwrap();
    ask(&["rebuild", text(&dir), "--wait"]).expect("nothing to wait for");
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    assert_eq!(ask(&["rebuild", text(&dir), "--wait"]).code(), Some(3), "nobody rebuilds");
    let said = ask(&["drive", "replace", text(&dir), "1", "--wait"]).expect("replace --wait");
    assert!(said.contains("drive 1 is rebuilt"), "{said}");
    ask(&["drive", "add-spare", text(&dir)]).expect("add-spare");
    ask(&["drive", "fail", text(&dir), "2"]).expect("drive fail");
    // The spare may be about to be taken, or be rebuilt already.
    ask(&["rebuild", text(&dir), "--wait"]).expect("rebuild --wait");
    assert_eq!(status(&dir)["state"], "clean");
    server.stop();
}

#[test]
fn absurd_values_of_lab_array_are_named() {
    for (arguments, word) in [
        (&["--iodepth", "4000000000"][..], "--iodepth"),
        (&["--bs", "1GiB"], "--bs"),
        (&["--seconds", "nan"], "--seconds"),
        (&["--seconds=-1"], "--seconds"),
        (&["--seconds", "inf"], "--seconds"),
        (&["--seconds", "1e-9"], "--seconds"),
        (&["--size", "15EiB"], "--size"),
    ] {
        let ran = ask(&[&["lab", "array"], arguments].concat());
        assert!(matches!(ran.code(), Some(2 | 4)), "{arguments:?}: {ran}");
        assert!(ran.stderr.contains(word) && !ran.stdout.contains("NaN"), "{arguments:?}: {ran}");
    }
    let deep = ask(&["lab", "array", "--size", "1MiB", "--iodepth", "1024", "--seconds", "0.001"]);
    assert_eq!(deep.code(), Some(0), "more requests than places: {deep}");
}

#[test]
fn a_server_waits_for_one_that_was_killed() {
    let scratch = Scratch::new("dying");
    let dir = scratch.join("array");
    array(&dir);
    // Whoever holds a drive a little longer than the dead server's sockets.
    let script = "exec 9<>\"$0\"; flock 9; sleep 1";
    let mut holder = Command::new("sh");
    let mut holder = holder.args(["-c", script, text(&drive(&dir, 0))]).spawn().unwrap();
    let_run(Duration::from_millis(300));
    let server = Server::serve(&dir);
    assert_sevens(&server);
    server.stop();
    wait_for(SOON, &mut holder);
}
