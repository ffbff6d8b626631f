//! Drives that are made empty again (`drive wipe`), and what `--force` gives up.

use crate::support::run::{Finished, SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, zoneweave};
use crate::support::text;
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
const DEVICE_BYTES: u64 = 256 * MIB;
/// UUID of no array.
const NOBODY: &str = "--force=00000000-0000-0000-0000-000000000007";

fn device(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.join(name);
    std::fs::File::create(&path).unwrap().set_len(DEVICE_BYTES).unwrap();
    path
}

fn raw(path: &Path) -> String {
    format!("raw:{}", path.display())
}

#[track_caller]
fn ask(args: &[&str]) -> Finished {
    run_for(SOON, zoneweave().args(args))
}

#[track_caller]
fn refused(args: &[&str], code: i32, why: &str) {
    let ran = ask(args);
    assert_eq!(ran.code(), Some(code), "{args:?}: {ran}");
    assert!(ran.stderr.contains(why), "{args:?} lacks `{why}`: {ran}");
}

#[track_caller]
fn done(args: &[&str]) -> Finished {
    let ran = ask(args);
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran}");
    ran
}

/// An array on three devices.
fn array(scratch: &Scratch, name: &str) -> (PathBuf, Vec<PathBuf>, String) {
    let devices: Vec<PathBuf> = (0..3).map(|drive| device(scratch, &format!("{name}-{drive}"))).collect();
    let dir = scratch.join(name);
    let list = devices.iter().map(|path| raw(path)).collect::<Vec<_>>().join(",");
    done(&["create", text(&dir), "--drives-path", &list, "--zone-size", "4MiB"]);
    let uuid = uuid_of(&dir);
    (dir, devices, uuid)
}

fn uuid_of(dir: &Path) -> String {
    let told: Value = serde_json::from_str(&done(&["status", text(dir), "--json"]).stdout).unwrap();
    told["array"].as_str().unwrap().to_owned()
}

/// First and last MiB of a device.
fn ends(path: &Path) -> [Vec<u8>; 2] {
    let file = std::fs::File::open(path).unwrap();
    [0, DEVICE_BYTES - MIB].map(|place| {
        let mut bytes = vec![0; 1 << 20];
        file.read_exact_at(&mut bytes, place).unwrap();
        bytes
    })
}

#[test]
fn a_drive_of_an_array_is_wiped_by_the_name_of_the_array_only() {
    let scratch = Scratch::new("wipe-member");
    let (dir, devices, uuid) = array(&scratch, "a");
    let named = format!("--force={uuid}");
    let path = raw(&devices[1]);
    let before = ends(&devices[1]);
    refused(&["drive", "wipe", &path], 4, &uuid);
    refused(&["drive", "wipe", &path, "--force"], 4, &named);
    refused(&["drive", "wipe", &path, NOBODY], 4, &named);
    refused(&["drive", "wipe", text(&devices[1]), &named], 2, "name it raw:");
    refused(&["drive", "wipe", &path, "--force=all"], 2, "--force=UUID");
    // All are looked at before one is written to.
    let text_file = scratch.join("text");
    std::fs::write(&text_file, "mine").unwrap();
    refused(&["drive", "wipe", &path, text(&text_file), &named], 2, "raw:");
    refused(&["drive", "wipe", &path, &path, &named], 2, "are the same drive");
    refused(&["drive", "wipe", &path, &raw(&scratch.join("none")), &named], 6, "is not there");
    refused(&["drive", "wipe", text(scratch.path()), "--force"], 2, "is a directory");
    assert!(before == ends(&devices[1]), "something was written");
    let server = Server::serve(&dir);
    refused(&["drive", "wipe", &path, &named], 5, "in use");
    server.stop();
    done(&["check", text(&dir)]);

    let wiped = done(&["drive", "wipe", &path, &named, "--json"]);
    let told: Value = serde_json::from_str(&wiped.stdout).unwrap();
    assert_eq!(told["wiped"][0]["array"], uuid.as_str(), "{told}");
    assert_eq!(told["wiped"][0]["kind"], "conventional", "{told}");
    assert!(ends(&devices[1]).iter().flatten().all(|byte| *byte == 0));
    // It is nobody's, and its array does without it.
    done(&["drive", "wipe", &path]);
    let server = Server::serve_degraded(&dir);
    done(&["drive", "replace", text(&dir), "1", "--with", &path]);
    assert!(until(SOON, || uuid_and_state(&dir).1 == "clean"), "{}", server.log());
}

fn uuid_and_state(dir: &Path) -> (String, String) {
    let ran = ask(&["status", text(dir), "--json"]);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    (told["array"].to_string(), told["state"].as_str().unwrap().to_owned())
}

#[test]
fn what_a_device_holds_is_wiped_when_that_is_said() {
    let scratch = Scratch::new("wipe-foreign");
    let places: [(u64, &[u8], &str); 4] = [
        (1080, &[0x53, 0xef], "ext2, ext3 or ext4"),
        (4096 - 10, b"SWAPSPACE2", "swap space"),
        (700 << 10, b"a letter", "data in its first MiB"),
        (DEVICE_BYTES - 9000, b"a letter", "data in its last MiB"),
    ];
    let others = [device(&scratch, "b"), device(&scratch, "c")];
    for (place, bytes, what) in places {
        let path = device(&scratch, "a");
        std::fs::File::options().write(true).open(&path).unwrap().write_all_at(bytes, place).unwrap();
        let before = ends(&path);
        let list = [&path, &others[0], &others[1]].map(|path| raw(path)).join(",");
        let dir = scratch.join("array");
        refused(&["create", text(&dir), "--drives-path", &list, "--zone-size", "4MiB"], 4, what);
        refused(&["drive", "wipe", &raw(&path)], 4, what);
        assert!(before == ends(&path), "{what}: something was written");
        let said = done(&["drive", "wipe", &raw(&path), "--force"]);
        assert!(said.stdout.contains("is empty"), "{said}");
        assert!(ends(&path).iter().flatten().all(|byte| *byte == 0), "{what}");
        done(&["drive", "wipe", &raw(&path)]);
    }
}

#[test]
fn an_emulated_drive_is_wiped_and_stays_the_one_that_it_is() {
    let scratch = Scratch::new("wipe-emulated");
    let dir = scratch.join("a");
    done(&["create", text(&dir), "--size", "64MiB"]);
    let server = Server::serve(&dir);
    let mut client = server.client();
    client.write(0, &vec![3; 8 << 20]).unwrap();
    client.flush().unwrap();
    drop(client);
    let drive = dir.join("drive-2.zns");
    let named = format!("--force={}", uuid_of(&dir));
    refused(&["drive", "wipe", text(&drive), &named], 5, "in use");
    server.stop();
    refused(&["drive", "wipe", text(&drive)], 4, "is a drive of Zoneweave, of array");
    refused(&["drive", "wipe", text(&drive), "--force"], 4, &named);
    done(&["check", text(&dir)]);
    let wiped = done(&["drive", "wipe", text(&drive), &named, "--json"]);
    let told: Value = serde_json::from_str(&wiped.stdout).unwrap();
    assert!(told["wiped"][0]["zones_reset"].as_u64().unwrap() > 2, "{told}");
    assert_eq!(told["wiped"][0]["kind"], "emulated");
    // It is blank, and its array goes on without it and takes it in its place again.
    done(&["drive", "wipe", text(&drive)]);
    let server = Server::serve_degraded(&dir);
    done(&["drive", "replace", text(&dir), "2", "--with", text(&drive)]);
    assert!(until(SOON, || uuid_and_state(&dir).1 == "clean"), "{}", server.log());
    server.assert_holds(&vec![3; 8 << 20]);
}

#[test]
fn a_drive_of_a_cache_is_wiped_by_the_name_of_the_cache_only() {
    let scratch = Scratch::new("wipe-cache");
    let dir = scratch.join("cache");
    done(&["cache", "create", text(&dir), "--size", "64MiB"]);
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let drive = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "zns")).unwrap();
    let ran = ask(&["drive", "wipe", text(&drive), "--force"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let named = ran.stderr.split_whitespace().find(|word| word.starts_with("--force=")).unwrap().to_owned();
    assert!(ran.stderr.contains("of cache "), "{ran}");
    done(&["cache", "check", text(&dir)]);
    done(&["drive", "wipe", text(&drive), &named]);
}

#[test]
fn drives_of_other_arrays_are_given_up_by_name_only() {
    let scratch = Scratch::new("force");
    let (_, lost, lost_uuid) = array(&scratch, "lost");
    let named = format!("--force={lost_uuid}");
    let (dir, _, own_uuid) = array(&scratch, "own");
    // A new array.
    let other = scratch.join("other");
    let list = [&lost[0], &device(&scratch, "x"), &device(&scratch, "y")].map(|path| raw(path)).join(",");
    let create = |more: &[&str]| {
        ask(&[&["create", text(&other), "--drives-path", &list, "--zone-size", "4MiB"], more].concat())
    };
    for more in [&[][..], &["--force"], &["--force", NOBODY], &[&format!("--force={own_uuid}")]] {
        let ran = create(more);
        assert_eq!(ran.code(), Some(4), "{more:?}: {ran}");
        assert!(ran.stderr.contains(&named), "{more:?}: {ran}");
        assert!(!other.exists(), "{more:?}");
    }
    assert_eq!(create(&["--force", NOBODY, &named]).code(), Some(0));
    // A spare and a new member, without a server and with one. A member is never given up for another place.
    let (place, spare, member) = (text(&dir), raw(&lost[1]), raw(&lost[2]));
    let own = raw(&scratch.join("own-1"));
    let own_named = format!("--force={own_uuid}");
    refused(&["drive", "add-spare", place, &own, &own_named], 4, "is part of the array already");
    for forced in [&["--force"][..], &[], &[NOBODY]] {
        let asked = ["drive", "add-spare", place, &spare];
        refused(&[&asked[..], forced].concat(), 4, &named);
    }
    let server = Server::serve(&dir);
    refused(&["drive", "add-spare", place, &spare, "--force"], 4, &named);
    done(&["drive", "fail", place, "1"]);
    refused(&["drive", "replace", place, "1", "--with", &member, "--force"], 4, &named);
    refused(
        &["drive", "replace", place, "1", "--with", &raw(&scratch.join("own-0")), &own_named],
        4,
        "already",
    );
    done(&["drive", "replace", place, "1", "--with", &member, &named]);
    assert!(until(SOON, || uuid_and_state(&dir).1 == "clean"), "{}", server.log());
    done(&["drive", "add-spare", place, &spare, &named]);
    // The drive that failed takes its place again, empty.
    done(&["drive", "remove-spare", place, text(&lost[1])]);
    done(&["drive", "fail", place, "1"]);
    done(&["drive", "replace", place, "1", "--with", &own, "--force"]);
    assert!(until(SOON, || uuid_and_state(&dir).1 == "clean"), "{}", server.log());
    server.stop();
    done(&["check", place]);
    // Commands of md give up none at all.
    let (place, blanks) = (scratch.join("md"), ["z1", "z2"].map(|name| device(&scratch, name)));
    let plan = ["md", "create", text(&place), "--level", "5", "--raid-devices", "3", "--force"];
    let members = [&lost[2], &blanks[0], &blanks[1]].map(|path| text(path));
    refused(&[&plan[..], &members].concat(), 4, "`zoneweave drive wipe");
}
