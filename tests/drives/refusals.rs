//! What cannot be is refused with the value and the remedy, and with code 2 where the command line asks for it.

use crate::support::loop_device::Loop;
use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{have, is_root, text};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[track_caller]
fn assert_ends(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), Some(code), "{finished}");
    for word in words {
        assert!(finished.stderr.contains(word), "should mention `{word}`: {finished}");
    }
}

fn files<const COUNT: usize>(scratch: &Scratch, bytes: u64) -> [PathBuf; COUNT] {
    std::array::from_fn(|index| {
        let file = scratch.join(&format!("disk{index}"));
        std::fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        file
    })
}

/// The program as somebody who is nobody.
fn as_nobody(program: &Path, arguments: &[&str]) -> Finished {
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", text(program)];
    run_for(SOON, Command::new("setpriv").args(user).args(arguments))
}

/// Loop devices belong to root.
#[test]
fn whoever_may_not_open_a_device_is_told_who_may() {
    let scratch = Scratch::new("not-permitted");
    let files: [PathBuf; 3] = files(&scratch, 64 << 20);
    let Some(disks) = Loop::over_all(&files).filter(|_| is_root() && have(&["setpriv"])) else {
        println!("skipped: this takes root, loop devices and setpriv");
        return;
    };
    let paths: Vec<PathBuf> = disks.iter().map(|disk| disk.0.clone()).collect();
    let named = paths.iter().map(|path| text(path)).collect::<Vec<_>>().join(",");
    let dir = scratch.join("array");
    let made = ask(&["create", text(&dir), "--drives-path", &named, "--zone-size", "4MiB"]);
    assert_eq!(made.code(), Some(0), "{made}");
    let program = scratch.join("zoneweave");
    std::fs::copy(env!("CARGO_BIN_EXE_zoneweave"), &program).unwrap();
    for (path, mode) in [(&program, 0o755), (&dir, 0o777), (&dir.join("array.toml"), 0o644)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let words = ["Permission denied", "it belongs to user root", "run this as root"];
    let asked = |arguments: &[&str]| as_nobody(&program, arguments);
    let other = dir.join("other");
    assert_ends(&asked(&["create", text(&other), "--drives-path", &named]), 2, &words);
    assert_ends(&asked(&["drive", "wipe", text(&paths[0])]), 2, &words);
    assert_ends(&asked(&["drive", "qualify", text(&paths[0]), "--destroy"]), 2, &words);
    assert_ends(&asked(&["serve", text(&dir)]), 4, &words);
    let status = asked(&["status", text(&dir)]);
    assert_ends(&status, 4, &words);
    assert!(!status.stderr.contains("create an array first"), "there is one: {status}");
    let examined = asked(&["examine", text(&paths[0])]);
    assert!(words.iter().all(|word| examined.stdout.contains(word)), "{examined}");
    let array = uuid_of(&dir);
    let assembled = asked(&["assemble", text(&other), "--array", &array]);
    assert_ends(&assembled, 6, &["may not look at", text(&paths[1]), "run this as root"]);
    assert!(!other.exists());
}

fn uuid_of(dir: &Path) -> String {
    let toml = std::fs::read_to_string(dir.join("array.toml")).unwrap();
    toml.split("uuid = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
}

#[test]
fn a_device_without_a_drive_is_no_wrong_file() {
    let scratch = Scratch::new("no-drive");
    let [file]: [PathBuf; 1] = files(&scratch, 64 << 20);
    let Some(disk) = Loop::over(&file) else {
        println!("skipped: there is no loop device to be had");
        return;
    };
    let examined = ask(&["examine", text(&disk.0)]);
    assert_eq!(examined.code(), Some(4), "{examined}");
    assert!(examined.stdout.contains("no drive of Zoneweave is on this device"), "{examined}");
}
