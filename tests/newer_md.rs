//! Arrays of md and the kernel of Debian 13: what this program wrote and left behind is md's, and the other way round. Tests of `md` do so
//! with the kernel of Debian 12 (user-mode Linux). `cargo xtask guest` runs it: it takes QEMU and that kernel, which is downloaded.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::loop_device::Loop;
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::run::{SOON, run_for, until};
use support::scratch::Scratch;
use support::server::{Server, ask};
use support::{md, random, random_bytes, text};

const PROGRAMS: [&str; 2] = ["mdadm", "losetup"];

const DISK: &str = "/dev/md0";

/// Levels, and what keeps parities right: all that md has.
const ARRAYS: [(&str, &str); 6] =
    [("4", "resync"), ("5", "bitmap"), ("5", "ppl"), ("5", "journal"), ("6", "bitmap"), ("6", "journal")];

/// Small: all of the volume is read four times, and scrubbed here and there.
const MEMBER_BYTES: u64 = 8 << 20;

/// Bytes of a write.
const WRITE: usize = 20 << 10;

#[test]
fn arrays_go_to_md_and_come_back() {
    if is_inside() {
        for (level, policy) in ARRAYS {
            hand_over(level, policy);
            println!("- level {level} with {policy} went to md and came back, twice cut off");
        }
    } else if is_asked_for(Kernel::V6_12, &PROGRAMS) {
        let inside = Inside {
            name: "arrays_go_to_md_and_come_back",
            kernel: Kernel::V6_12,
            devices: Vec::new(),
            modules: "raid456 loop crc32c_generic",
            programs: &PROGRAMS,
            prepare: "mkdir -p /run/mdadm",
        };
        run_inside(&Scratch::new("newer-md"), inside);
    }
}

/// Members of a new array, and the device of its journal behind them.
fn create(scratch: &Scratch, level: &str, policy: &str) -> (PathBuf, Vec<PathBuf>) {
    let mut devices = md::blanks_of(MEMBER_BYTES, scratch, 6);
    let journal = devices.pop().unwrap();
    if policy == "journal" {
        let dir = md::create(scratch, level, &devices, &["--write-journal", text(&journal)]);
        devices.push(journal);
        return (dir, devices);
    }
    (md::create(scratch, level, &devices, &["--consistency-policy", policy]), devices)
}

fn of_md(name: &str) -> String {
    std::fs::read_to_string(Path::new("/sys/block/md0/md").join(name)).unwrap_or_default().trim().to_owned()
}

#[track_caller]
fn mdadm(arguments: &[&str]) {
    let finished = run_for(SOON, Command::new("mdadm").args(arguments));
    assert_eq!(finished.code(), Some(0), "{finished}");
}

/// Writes blocks all over a volume by a function, and keeps them.
fn write_all_over(content: &mut [u8], seed: u64, mut write: impl FnMut(u64, &[u8])) {
    let mut random = random(seed);
    for _ in 0..60 {
        let blocks = u64::try_from((content.len() - WRITE) / 4096).unwrap();
        let offset = usize::try_from(random.below(blocks)).unwrap() * 4096;
        let data = random_bytes(&mut random, WRITE);
        write(u64::try_from(offset).unwrap(), &data);
        content[offset..offset + WRITE].copy_from_slice(&data);
    }
}

/// We write and are killed; md takes the array over, finds it right, writes and stops; we go on.
fn hand_over(level: &str, policy: &str) {
    let scratch = Scratch::new("hand-over");
    let (dir, devices) = create(&scratch, level, policy);
    let server = Server::serve(&dir);
    let bytes = md::capacity(&dir);
    let mut content = vec![0; bytes];
    let mut client = server.client();
    write_all_over(&mut content, 1, |offset, data| client.write(offset, data).unwrap());
    client.flush().unwrap();
    drop(client);
    server.kill_9();

    let loops = Loop::over_all(&devices).expect("loop devices");
    let names: Vec<&str> = loops.iter().map(|device| text(&device.0)).collect();
    mdadm(&[&["--assemble", "--run", DISK], &names[..]].concat());
    assert!(until(SOON * 4, || of_md("sync_action") == "idle"), "{}", of_md("sync_action"));
    assert!(std::fs::read(DISK).unwrap() == content, "md reads something else: level {level}, {policy}");
    std::fs::write("/sys/block/md0/md/sync_action", "check").unwrap();
    assert!(until(SOON * 4, || of_md("sync_action") == "idle"), "{}", of_md("sync_action"));
    assert_eq!(of_md("mismatch_cnt"), "0", "level {level}, {policy}");
    let disk = std::fs::OpenOptions::new().write(true).open(DISK).unwrap();
    write_all_over(&mut content, 2, |offset, data| disk.write_all_at(data, offset).unwrap());
    disk.sync_all().unwrap();
    drop(disk);
    mdadm(&["--stop", DISK]);
    drop(loops);

    let server = Server::serve(&dir);
    assert!(md::read_all(&server, bytes) == content, "we read something else: level {level}, {policy}");
    server.kill_9();
    let server = Server::serve(&dir);
    assert!(md::read_all(&server, bytes) == content, "a kill lost something: level {level}, {policy}");
    let scrubbed = ask(&["scrub", text(&dir)]);
    assert_eq!(scrubbed.code(), Some(0), "{scrubbed}");
    server.stop();
}
