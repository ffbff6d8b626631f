//! What cannot be is refused with the value and the remedy, and with code 2 where the command line asks for it.

use crate::support::loop_device::Loop;
use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{ask, zoneweave};
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

fn raw(files: &[PathBuf]) -> String {
    files.iter().map(|file| format!("raw:{}", file.display())).collect::<Vec<_>>().join(",")
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

#[test]
fn devices_that_do_not_do_are_told_what_would() {
    let scratch = Scratch::new("too-small");
    let dir = scratch.join("array");
    let create = |paths: &str| ask(&["create", text(&dir), "--drives-path", paths]);
    let small: [PathBuf; 3] = files(&scratch, 100 << 20);
    assert_ends(
        &create(&raw(&small)),
        2,
        &["zones per drive", "use larger devices or a smaller --zone-size"],
    );
    std::fs::File::options().write(true).open(&small[1]).unwrap().set_len(1 << 20).unwrap();
    assert_ends(&create(&raw(&small)), 2, &[text(&small[1]), "a device of 1 MiB", "use larger devices"]);
    assert!(!dir.exists());
}

#[test]
fn a_device_that_cannot_be_written_is_refused_before_others_are_written() {
    let scratch = Scratch::new("read-only");
    let files: [PathBuf; 3] = files(&scratch, 256 << 20);
    let Some(disk) = read_only(&files[2]) else {
        println!("skipped: there is no loop device to be had");
        return;
    };
    let dir = scratch.join("array");
    let named = format!("{},{}", raw(&files[..2]), text(&disk.0));
    let refused = ask(&["create", text(&dir), "--drives-path", &named, "--zone-size", "4MiB"]);
    assert_ends(&refused, 2, &["is read-only", "blockdev --setrw", text(&disk.0)]);
    assert!(std::fs::read(&files[0]).unwrap().iter().all(|byte| *byte == 0), "nothing was written");
}

/// Read-only as long as it is attached.
fn read_only(file: &Path) -> Option<Loop> {
    let made = run_for(SOON, Command::new("losetup").args(["--find", "--show", "--read-only", text(file)]));
    made.succeeded().then(|| Loop(PathBuf::from(made.stdout.trim())))
}

/// Qualification takes no `--force`: what gives contents up is another command.
#[test]
fn what_is_to_be_qualified_is_wiped_by_another_command() {
    let scratch = Scratch::new("wipe-first");
    let files: [PathBuf; 3] = files(&scratch, 1 << 30);
    let (dir, first) = (scratch.join("array"), format!("raw:{}", files[0].display()));
    let made = ask(&["create", text(&dir), "--drives-path", &raw(&files), "--zone-size", "4MiB"]);
    assert_eq!(made.code(), Some(0), "{made}");
    let force = format!("--force={}", uuid_of(&dir));
    let refused = ask(&["drive", "qualify", &first, "--destroy"]);
    assert_ends(&refused, 4, &[&force, &format!("an option of `zoneweave drive wipe {first}`")]);
    let wiped = ask(&["drive", "wipe", &first, &force]);
    assert_eq!(wiped.code(), Some(0), "{wiped}");
    let passed = ask(&["drive", "qualify", &first, "--destroy", "--steps", "20"]);
    assert_eq!(passed.code(), Some(0), "{passed}");
}

#[test]
fn files_that_were_made_drives_are_found_by_the_name_they_were_given() {
    let scratch = Scratch::new("raw-names");
    let files: [PathBuf; 3] = files(&scratch, 256 << 20);
    let dir = scratch.join("array");
    let made = ask(&["create", text(&dir), "--drives-path", &raw(&files), "--zone-size", "4MiB"]);
    assert_eq!(made.code(), Some(0), "{made}");
    let names = files.each_ref().map(|file| format!("raw:{}", file.display()));
    let names = names.each_ref().map(String::as_str);
    let other = scratch.join("other");
    for asked in [&["examine"][..], &["scan"], &["assemble", text(&other)]] {
        let ran = ask(&[asked, &names].concat());
        assert_eq!(ran.code(), Some(0), "{asked:?}: {ran}");
    }
    let ran = ask(&["status", text(&other)]);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn empty_devices_are_measured_and_empty_afterwards() {
    let scratch = Scratch::new("probe-raw");
    let [file]: [PathBuf; 1] = files(&scratch, 256 << 20);
    let device = format!("raw:{}", file.display());
    for _ in 0..2 {
        let ran = ask(&["drive", "probe", "--device", &device, "--op", "write", "--seconds", "0.1"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(ran.stdout.contains("requests"), "{ran}");
    }
    std::fs::write(&file, "something").unwrap();
    let refused = ask(&["drive", "probe", "--device", &device, "--op", "write"]);
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), b"something");
}

#[test]
fn what_cannot_be_asked_for_ends_with_two() {
    let scratch = Scratch::new("usage");
    let (place, array) = (scratch.join("drive"), scratch.join("array"));
    let made = ask(&["create", text(&array), "--size", "64MiB"]);
    assert_eq!(made.code(), Some(0), "{made}");
    let window = |more: &[&str]| {
        let fixed = ["drive", "create", text(&place), "--zone-capacity", "1MiB", "--zrwa-window", "64KiB"];
        ask(&[&fixed, more].concat())
    };
    assert_ends(&window(&["--zrwa-granule", "12KiB"]), 2, &["16 blocks", "granule of 3"]);
    assert_ends(&window(&["--zrwa-zones", "100"]), 2, &["100 zones", "14 may be active"]);
    assert_ends(&window(&["--zrwa-zones", "0"]), 2, &["--zrwa-zones"]);
    assert!(!place.exists());
    let record = scratch.join("nowhere/record");
    let served = run_for(SOON, zoneweave().args(["serve", text(&array), "--record", text(&record)]));
    assert_ends(&served, 2, &["nowhere/record", "create the directory first"]);
    assert!(!served.stdout.contains("serving"), "{served}");
    assert_ends(&ask(&["drive", "replace", text(&array), "9"]), 2, &["drive 9", "drives 0 to 3"]);
    let probe = ["drive", "probe", "--op", "zrwa-commit", "--profile"];
    assert_ends(&ask(&[&probe[..], &["nonsense"]].concat()), 2, &["nonsense", "zn540-4tb"]);
    assert_ends(&ask(&[&probe[..], &["zn540-4tb"]].concat()), 2, &["4096 bytes", "use --bytes 16384"]);
    let run = ["lab", "run"];
    assert_ends(&ask(&[&run[..], &["nonsense"]].concat()), 2, &["nonsense", "biza14"]);
    assert_ends(&ask(&[&run[..], &["biza5", "--seeds", "0"]].concat()), 2, &["--seeds 0"]);
    assert_ends(&ask(&[&run[..], &["biza5", "--scale", "0"]].concat()), 2, &["--scale 0"]);
    let trace = scratch.join("trace");
    std::fs::write(&trace, "0,W,0,4096,3\nwrong\n").unwrap();
    let replayed = ask(&[&run[..], &["biza12", "--trace", text(&trace)]].concat());
    assert_ends(&replayed, 2, &[text(&trace), "line 2"]);
    std::fs::write(&trace, "0,W,0,4096,3\n").unwrap();
    assert_ends(&ask(&[&run[..], &["biza5", "--trace", text(&trace)]].concat()), 2, &["--trace", "biza12"]);
    assert_ends(&ask(&[&run[..], &["biza13"]].concat()), 2, &["serve --record", "biza12 --trace"]);
}
