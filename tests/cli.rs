//! The command line is a contract: what it accepts, refuses, prints and returns.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use signal_hook::consts::SIGPIPE;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::nbd::Failure;
use support::run::Finished;
use support::scratch::Scratch;
use support::server::{Server, ask, assert_clean, check, status, zoneweave};
use support::text;

/// Asserts that a command failed by itself and said all of `words`.
#[track_caller]
fn assert_refused(finished: &Finished, words: &[&str]) {
    let code = finished.code();
    assert!(code.is_some_and(|code| code != 0), "should fail: {finished}");
    assert_ne!(code, Some(101), "should not panic: {finished}");
    for word in words {
        assert!(finished.stderr.contains(word), "should mention `{word}`: {finished}");
    }
}

#[test]
fn wrong_arguments_are_named_with_their_fix() {
    let scratch = Scratch::new("args");
    let dir = scratch.join("array");
    let create = |arguments: &[&str]| ask(&[&["create", text(&dir)], arguments].concat());
    assert_refused(&create(&["--level", "raid10"]), &["--level", "raid10", "raid01"]);
    assert_refused(&create(&["--level", "4+4"]), &["--level", "4+4", "3"]);
    assert_refused(&create(&["--level", "0+2"]), &["--level", "0+2", "1"]);
    assert_refused(&create(&["--level", "4+2", "--drives", "5"]), &["raid6", "6", "5"]);
    assert_refused(&create(&["--level", "raid01", "--drives", "5"]), &["raid01", "5", "even"]);
    assert_refused(&create(&["--level", "raid6", "--drives", "2"]), &["raid6", "2", "3"]);
    assert_refused(&create(&["--level", "mirror"]), &["--level", "mirror", "raid5"]);
    assert_refused(&create(&["--size", "lots"]), &["--size", "lots"]);
    assert_refused(&create(&["--size", "0"]), &["--size", "zero"]);
    assert_refused(&create(&["--size", "5000"]), &["--size", "4096"]);
    assert_refused(&create(&["--size", "64MiB", "--drives", "1"]), &["drive"]);
    assert_refused(&create(&["--size", "64MiB", "--drives", "1000"]), &["drive"]);
    assert_refused(&create(&["--size", "64MiB", "--max-open", "1"]), &["open"]);
    assert_refused(
        &create(&["--zone-size", "1MiB", "--zone-capacity", "2MiB"]),
        &["--zone-capacity", "--zone-size"],
    );
    assert_refused(&create(&["--zones", "8", "--size", "1TiB"]), &["size"]);
    assert_refused(&create(&["--size", "64MiB", "--drives", "4", "--drives-path", "a,b"]), &["--drives"]);
    assert_refused(&create(&["--frobnicate"]), &["--frobnicate"]);
    assert!(!dir.join("array.toml").exists(), "a refused array leaves nothing");
    for listen in ["nonsense", "unix:", "tcp:127.0.0.1:99999", "udp:1"] {
        let up = ask(&["up", "--dir", text(&dir), "--size", "64MiB", "--listen", listen]);
        assert_refused(&up, &["--listen", listen, "such as"]);
    }
    assert_refused(&ask(&["up", "--dir", text(&dir), "--cores", "0"]), &["--cores"]);
    for zones in ["0", "some", "2.5"] {
        let up = ask(&["up", "--dir", text(&dir), "--write-area", zones]);
        assert_refused(&up, &["--write-area", zones, "`off`, `auto` or a number"]);
    }
    assert_refused(&ask(&[]), &["create", "serve", "status"]);
}

#[test]
fn a_write_area_that_an_array_cannot_have_is_refused_with_the_reason() {
    // Files that lie elsewhere have volatile caches.
    let scratch = Scratch::below("/dev/shm", "noarea");
    let size = ["--size", "64MiB"];
    let windows = ["--size", "64MiB", "--zrwa-window", "256KiB"];
    let up = |name: &str, made: &[&str], service: &[&str]| {
        ask(&[&["up", "--dir", text(&scratch.join(name))], made, service].concat())
    };
    let plain = up("plain", &size, &["--write-area", "2"]);
    assert_refused(&plain, &["--write-area 2", "drive 0", "--zrwa-window"]);
    let many = up("many", &windows, &["--write-area", "200"]);
    assert_refused(&many, &["--write-area 200", "at most", "use --write-area"]);
    // The number that is named will do, and one more will not.
    let said = many.stderr.split("use --write-area ").nth(1).unwrap();
    let zones: u32 = said.split(',').next().unwrap().parse().unwrap();
    let one_more = (zones + 1).to_string();
    assert_refused(&up("many", &[], &["--write-area", &one_more]), &["at most", &zones.to_string()]);
    let as_many = ["--write-area", &zones.to_string()];
    Server::serve_with(&scratch.join("many"), &as_many).stop();
    let mirror = [&windows[..], &["--level", "raid01"]].concat();
    assert_refused(&up("mirror", &mirror, &["--write-area", "2"]), &["--write-area 2", "mirrors"]);
    let on_disk = Scratch::new("noareacache");
    let up_on_disk =
        ask(&[&["up", "--dir", text(&on_disk.join("a"))], &windows[..], &["--write-area", "2"]].concat());
    assert_refused(&up_on_disk, &["--write-area 2", "volatile", "/dev/shm"]);
    // The refused arrays are whole, and served without.
    Server::serve(&scratch.join("many")).stop();
    assert_clean(&scratch.join("many"));
}

#[test]
fn every_small_lab_command_runs_and_prints_one_json_object() {
    for (arguments, key) in [
        (&["null-write", "--seconds", "0.05"][..], "ns_per_write"),
        (&["null-write", "--turns", "500", "--path", "absorbed"], "allocations_per_write"),
        (&["memory", "--size", "4GiB", "--level", "2+1"], "bytes_per_tib"),
        (&["mount", "--size", "1GiB", "--since", "16MiB"], "mounts"),
        (&["array", "--seconds", "0.01", "--level", "raid6"], "mib_s"),
        (&["rebuild", "--size", "64MiB", "--level", "4+2"], "mib_per_second"),
    ] {
        let table = ask(&[&["lab"], arguments].concat());
        assert!(table.code() == Some(0) && !table.stdout.is_empty(), "{table}");
        let json = ask(&[&["lab"], arguments, &["--json"]].concat());
        assert_eq!(json.code(), Some(0), "{json}");
        let report: Value = serde_json::from_str(&json.stdout).unwrap();
        assert!(!report[key].is_null(), "`{key}` of {arguments:?}: {report}");
    }
}

#[test]
fn a_missing_array_is_named_with_the_command_that_makes_one() {
    let scratch = Scratch::new("none");
    let dir = scratch.join("nowhere");
    for arguments in [&["serve"][..], &["status"], &["check"], &["status", "--json"]] {
        let finished = ask(&[&arguments[..1], &[text(&dir)], &arguments[1..]].concat());
        assert_refused(&finished, &[text(&dir), "zoneweave create"]);
    }
    assert_refused(&ask(&["drive", "fail", text(&dir), "0"]), &[text(&dir), "zoneweave create"]);
    assert!(!dir.exists(), "asking makes nothing");
}

/// Options that only experiments choose are none of `create`, `up` and `serve`.
#[test]
fn there_is_nothing_to_tune() {
    let scratch = Scratch::new("tune");
    let dir = scratch.join("array");
    for (option, value) in [
        ("--policy", "fixed"),
        ("--chunk", "16KiB"),
        ("--group", "1"),
        ("--small-segments", "2"),
        ("--large-segments", "2"),
        ("--large-chunk", "16KiB"),
        ("--append-all", ""),
        ("--gc", "greedy"),
        ("--gc-streams", "2"),
        ("--stripe-table", "bytes"),
    ] {
        for command in [&["create", text(&dir)][..], &["up", "--dir", text(&dir)], &["serve", text(&dir)]] {
            let words = [command, &[option, value]].concat();
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            assert_refused(&ask(&words), &["unexpected argument", option]);
        }
    }
    assert!(!dir.exists());
}

/// Earlier `create`s had options for these; the file keeps them, and the array is served.
#[test]
fn an_array_file_may_say_what_no_option_says() {
    let scratch = Scratch::new("engine");
    let dir = scratch.join("array");
    ask(&["create", text(&dir), "--size", "64MiB"]).expect("create");
    let path = dir.join("array.toml");
    let file = std::fs::read_to_string(&path).unwrap();
    let made = "[engine]\npolicy = \"adaptive\"\ngc = \"cost-benefit\"\ngc_streams = \"auto\"\n";
    assert!(file.contains(made), "{file}");
    let fixed = "[engine]\npolicy = \"fixed\"\ngc = \"greedy\"\ngc_streams = \"2\"\n";
    std::fs::write(&path, file.replace(made, fixed)).unwrap();
    let server = Server::serve(&dir);
    let mut client = server.client();
    client.write(0, &[7; 8192]).unwrap();
    assert_eq!(client.read(0, 8192).unwrap(), [7; 8192]);
    drop(client);
    server.stop();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), file.replace(made, fixed));
    assert_clean(&dir);
    std::fs::write(&path, file.replace("\"cost-benefit\"", "\"eager\"")).unwrap();
    assert_refused(&ask(&["serve", text(&dir)]), &["array.toml", "eager"]);
}

#[test]
fn create_makes_what_was_asked_and_never_overwrites() {
    let scratch = Scratch::new("create");
    let dir = scratch.join("array");
    let options = ["--drives", "5", "--level", "raid4", "--size", "64MiB"];
    ask(&[&["create", text(&dir)], &options[..]].concat()).expect("create");
    assert!(dir.join("array.toml").exists());
    assert!((0..5).all(|drive| dir.join(format!("drive-{drive}.zns")).exists()));
    let before = std::fs::read(dir.join("array.toml")).unwrap();
    assert_refused(&ask(&["create", text(&dir), "--size", "64MiB"]), &[text(&dir), "already"]);
    assert_eq!(std::fs::read(dir.join("array.toml")).unwrap(), before);
    let report = status(&dir);
    assert_eq!(report["level"], "raid4");
    assert_eq!(report["capacity_bytes"], 64 << 20);
    assert_eq!(report["members"].as_array().unwrap().len(), 5);
    assert_clean(&dir);
}

#[test]
fn drives_may_lie_elsewhere_and_are_not_overwritten() {
    let scratch = Scratch::new("paths");
    let paths: Vec<_> = (0..3).map(|drive| scratch.join(&format!("d{drive}"))).collect();
    let list = paths.iter().map(|path| text(path)).collect::<Vec<_>>().join(",");
    let dir = scratch.join("array");
    let create = |dir: &str| ask(&["create", dir, "--size", "64MiB", "--drives-path", &list]);
    create(text(&dir)).expect("create");
    assert!(paths.iter().all(|path| path.exists()));
    assert_clean(&dir);
    // Another array must not take the drives of this one.
    assert_refused(&create(text(&scratch.join("other"))), &[text(&paths[0])]);
    assert_clean(&dir);
}

/// Keys that scripts rely on.
const KEYS: &[&str] = &[
    "array",
    "served",
    "state",
    "level",
    "members",
    "capacity_bytes",
    "used_bytes",
    "free_zones",
    "total_zones",
    "open_segments",
    "sealed_segments",
    "chunk_bytes",
    "group_stripes",
    "small_segments",
    "large_segments",
    "large_chunk_bytes",
    "write_amplification",
    "flash_bytes_per_user_byte",
    "flash_bytes_per_user_byte_since_start",
    "corrected_errors",
    "retired_zones",
    "degraded_reads",
    "unreadable_blocks",
    "counters",
];

#[track_caller]
fn assert_keys(report: &Value) {
    for key in KEYS {
        assert!(report.get(key).is_some(), "status has no `{key}`: {report:#}");
    }
    for member in report["members"].as_array().expect("a list of members") {
        assert!(["index", "path", "state"].iter().all(|key| member.get(key).is_some()), "{member}");
    }
}

#[test]
fn status_answers_served_or_not_and_counts() {
    let scratch = Scratch::new("status");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    let mut client = server.client();
    client.write(0, &vec![7; 1 << 20]).unwrap();
    client.flush().unwrap();
    let served = status(&dir);
    assert_keys(&served);
    assert_eq!(served["served"], true);
    assert_eq!(served["state"], "clean");
    assert_eq!(served["used_bytes"], 1 << 20);
    assert!(served["write_amplification"].as_f64().is_some_and(|factor| factor >= 1.0), "{served:#}");
    let flash = |report: &Value, since: &str| report[format!("flash_bytes_per_user_byte{since}")].as_f64();
    assert!(
        flash(&served, "").is_some_and(|ratio| ratio > 4.0 / 3.0),
        "parity of 3+1 and headers: {served:#}"
    );
    assert_eq!(flash(&served, ""), flash(&served, "_since_start"), "there was no other server: {served:#}");
    assert_refused(&ask(&["check", text(&dir)]), &["stop the server"]);
    drop(client);
    server.stop();
    let unserved = status(&dir);
    assert_keys(&unserved);
    assert_eq!(unserved["served"], false);
    assert_eq!(unserved["used_bytes"], 1 << 20);
    assert!(flash(&unserved, "") >= flash(&served, ""), "what the last moments wrote counts: {unserved:#}");
    assert_eq!(flash(&unserved, "_since_start"), None, "there is no server: {unserved:#}");
    let counter = |report: &Value, name: &str| report["counters"][name].as_u64().expect("a counter");
    for name in ["user_blocks_written", "user_blocks_read", "moved_blocks_written"] {
        assert_eq!(counter(&unserved, name), counter(&served, name), "{name} survives the server");
    }
    let checkpoint = counter(&unserved, "checkpoint_blocks_written");
    assert!(checkpoint > counter(&served, "checkpoint_blocks_written"), "a server that stops writes one");
    let words = ask(&["status", text(&dir)]).expect("status");
    assert!(words.contains("clean") && words.contains("64 MiB"), "{words}");
    assert!(words.contains(" for each byte of clients"), "{words}");
    assert_clean(&dir);
}

#[test]
fn a_killed_server_leaves_an_array_that_can_be_asked_and_served() {
    let scratch = Scratch::new("killed");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    server.client().write(4096, &[9; 4096]).unwrap();
    server.kill_9();
    assert_eq!(status(&dir)["served"], false);
    let server = Server::serve(&dir);
    assert!(server.client().read(4096, 4096).unwrap() == [9; 4096]);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_killed_server_is_replaced_at_once() {
    let scratch = Scratch::new("replace");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "64MiB"]);
    // The kernel may still close the dead server's sockets when the next one starts.
    for round in 0..8_u8 {
        let mut client = server.client();
        client.write(0, &[round; 4096]).unwrap();
        server.kill_9_at_once();
        server = Server::serve(&dir);
        assert!(server.client().read(0, 4096).unwrap() == [round; 4096]);
    }
    server.stop();
}

#[test]
fn one_server_at_a_time() {
    let scratch = Scratch::new("twice");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "64MiB"]);
    let other = format!("unix:{}", text(&scratch.join("other.sock")));
    assert_refused(&ask(&["serve", text(&dir), "--listen", &other]), &["drive-0.zns"]);
    server.assert_alive();
    assert!(server.client().read(0, 4096).is_ok());
    server.stop();
}

#[test]
fn drives_are_failed_online() {
    let scratch = Scratch::new("fail");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    let mut client = server.client();
    client.write(0, &vec![5; 1 << 20]).unwrap();
    assert_refused(&ask(&["drive", "fail", text(&dir), "4"]), &["4"]);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    assert_eq!(status(&dir)["state"], "degraded");
    assert_eq!(status(&dir)["members"][1]["state"], "failed");
    assert_refused(&ask(&["drive", "fail", text(&dir), "2"]), &["lose data"]);
    assert!(client.read(0, 1 << 20).unwrap() == vec![5; 1 << 20]);
    client.write(1 << 20, &vec![6; 1 << 20]).unwrap();
    drop(client);
    server.stop();
    let server = Server::serve(&dir);
    assert_eq!(status(&dir)["members"][1]["state"], "failed", "it is never believed again");
    assert!(server.client().read(1 << 20, 1 << 20).unwrap() == vec![6; 1 << 20]);
    assert!(status(&dir)["degraded_reads"].as_u64().unwrap() > 0);
    server.stop();
    let (code, report) = check(&dir);
    assert_eq!(code, Some(3), "an array without its redundancy is not clean: {report:#}");
    assert_eq!(report["problems"][0]["kind"], "member_missing");
    assert_eq!(report["problems_count"], 1, "{report:#}");
}

#[test]
fn drives_are_failed_offline() {
    let scratch = Scratch::new("failoff");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    server.client().write(0, &vec![5; 1 << 20]).unwrap();
    server.stop();
    ask(&["drive", "fail", text(&dir), "0"]).expect("drive fail");
    assert_eq!(status(&dir)["members"][0]["state"], "failed");
    assert_refused(&ask(&["drive", "fail", text(&dir), "0"]), &["already"]);
    assert_refused(&ask(&["drive", "fail", text(&dir), "3"]), &["lose data"]);
    assert_refused(&ask(&["drive", "fail", text(&dir), "9"]), &["0 to 3"]);
    let server = Server::serve(&dir);
    assert!(server.client().read(0, 1 << 20).unwrap() == vec![5; 1 << 20]);
    server.stop();
}

#[test]
fn raid0_survives_its_server_but_not_a_drive() {
    let scratch = Scratch::new("raid0");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB", "--level", "raid0", "--drives", "2"]);
    server.client().write(0, &vec![5; 1 << 20]).unwrap();
    assert_refused(&ask(&["drive", "fail", text(&dir), "0"]), &["lose data"]);
    server.kill_9();
    let server = Server::serve(&dir);
    assert!(server.client().read(0, 1 << 20).unwrap() == vec![5; 1 << 20]);
    match server.client().read(64 << 20, 4096) {
        Err(Failure::Answered(_)) => {}
        other => panic!("a read beyond the end: {other:?}"),
    }
    server.stop();
    assert_clean(&dir);
    std::fs::remove_file(dir.join("drive-1.zns")).unwrap();
    assert_refused(&ask(&["serve", text(&dir)]), &["drive"]);
}

/// Two drives are gone, and nothing is lost: by name, and by numbers.
#[test]
fn two_parities_survive_two_drives() {
    let raid6 = ["--size", "64MiB", "--level", "raid6", "--drives", "5"];
    let general = ["--size", "64MiB", "--level", "2+3"];
    for (arguments, name, lost) in [(&raid6[..], "raid6", [1, 3]), (&general, "2+3", [0, 4])] {
        let scratch = Scratch::new(name);
        let dir = scratch.join("array");
        let server = Server::up(&dir, arguments);
        server.client().write(0, &vec![7; 1 << 20]).unwrap();
        server.kill_9();
        for drive in lost {
            std::fs::remove_file(dir.join(format!("drive-{drive}.zns"))).unwrap();
        }
        let server = Server::serve_degraded(&dir);
        let report = status(&dir);
        assert_eq!((report["level"].as_str(), report["state"].as_str()), (Some(name), Some("degraded")));
        assert!(server.client().read(0, 1 << 20).unwrap() == vec![7; 1 << 20]);
        server.client().write(1 << 20, &vec![8; 1 << 20]).unwrap();
        server.stop();
        let server = Server::serve(&dir);
        assert!(server.client().read(1 << 20, 1 << 20).unwrap() == vec![8; 1 << 20]);
        server.stop();
    }
}

/// A mirror of stripes loses a drive of each pair, but not both of one.
#[test]
fn raid01_survives_one_copy_of_each() {
    let scratch = Scratch::new("raid01");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB", "--level", "raid01", "--drives", "6"]);
    server.client().write(0, &vec![9; 1 << 20]).unwrap();
    server.stop();
    for drive in ["0", "4", "2"] {
        ask(&["drive", "fail", text(&dir), drive]).expect("drive fail");
    }
    assert_refused(&ask(&["drive", "fail", text(&dir), "3"]), &["raid01", "lose data"]);
    let server = Server::serve(&dir);
    assert!(server.client().read(0, 1 << 20).unwrap() == vec![9; 1 << 20]);
    server.stop();
}

#[test]
fn output_that_nobody_reads_ends_the_command_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zoneweave"))
        .args(["lab", "run", "design", "--json", "--seeds", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let finished = child.wait_with_output().unwrap();
    assert_eq!(finished.status.signal(), Some(SIGPIPE), "{}", finished.status);
    let said = String::from_utf8_lossy(&finished.stderr);
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_service_manager_is_told_when_clients_are_served_and_when_the_server_ends() {
    let scratch = Scratch::new("notify");
    let (dir, told) = (scratch.join("array"), scratch.join("notify.sock"));
    let manager = UnixDatagram::bind(&told).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut server = zoneweave();
    server.args(["up", "--dir", text(&dir), "--size", "64MiB"]).env("NOTIFY_SOCKET", &told);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let hear = || {
        let mut said = [0; 256];
        let bytes = manager.recv(&mut said).expect("the manager is told");
        String::from_utf8_lossy(&said[..bytes]).trim().to_owned()
    };
    assert_eq!(hear(), "READY=1");
    assert_eq!(status(&dir)["served"], true, "whoever waited for it finds it served");
    ask(&["stop", text(&dir)]).expect("stop");
    assert_eq!(hear(), "STOPPING=1");
    assert!(server.wait().unwrap().success());
}

#[test]
fn every_command_has_a_page_in_the_manual_and_a_completion() {
    let scratch = Scratch::new("manual");
    let pages = scratch.join("man");
    ask(&["man", text(&pages)]).expect("man");
    let help = ask(&["--help"]).expect("--help");
    let lines =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What is said of a command may go on in lines that begin farther right.
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let commands: Vec<&str> = names.collect();
    assert!(commands.contains(&"serve") && commands.contains(&"md"), "{commands:?}");
    let completions = ["bash", "zsh", "fish"].map(|shell| ask(&["completions", shell]).expect(shell));
    for command in commands.iter().filter(|command| **command != "help") {
        let page = std::fs::read_to_string(pages.join(format!("zoneweave-{command}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains(command), "{command}");
        assert!(completions.iter().all(|script| script.contains(command)), "{command}");
    }
    let page = std::fs::read_to_string(pages.join("zoneweave.1")).unwrap();
    assert!(page.contains("3  degraded") || page.contains("degraded: the array lacks"), "exit codes: {page}");
    assert_refused(&ask(&["completions", "dos"]), &["dos", "bash"]);
}
