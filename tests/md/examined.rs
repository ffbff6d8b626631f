//! What mdadm says of members that were written here: label for label what we say of them.

use crate::support::md::{blanks, create, serve_in_sync, unpacked, write_here_and_there};
use crate::support::run::{SOON, command, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, zoneweave};
use crate::support::{have, text};
use block::md::superblock::Superblock;
use std::path::{Path, PathBuf};

/// Fails unless mdadm says of each device what we do, but for our last line.
#[track_caller]
fn expect_the_same(devices: &[PathBuf], case: &str) {
    for device in devices {
        let mdadm = run_for(SOON, command("mdadm").arg("--examine").arg(device).env("TZ", "UTC"));
        let ours = run_for(SOON, zoneweave().args(["md", "examine"]).arg(device).env("TZ", "UTC"));
        let (words, _) = ours.stdout.rsplit_once("\n      Zoneweave : ").expect("our last line");
        assert_eq!(words, mdadm.stdout, "{case}: {}", device.display());
    }
}

/// Fails unless mdadm says of the bitmap of each device what we do. Of a device that is a file mdadm takes the start for the bitmap, so it
/// gets the bitmap as a file of its own.
#[track_caller]
fn expect_the_same_bitmaps(scratch: &Scratch, devices: &[PathBuf], case: &str) {
    for device in devices {
        let media = std::fs::read(device).unwrap();
        let places = [8, 0, (media.len() / 512 - 16) & !7];
        let found = places
            .into_iter()
            .find_map(|sector| Superblock::decode(media[sector * 512..].first_chunk().unwrap()).ok());
        let bitmap = found.expect("a superblock").superblock.bitmap_sector().expect("a bitmap");
        let start = usize::try_from(bitmap * 512).unwrap();
        let file = scratch.join("bitmap");
        std::fs::write(&file, &media[start..(start + (64 << 10)).min(media.len())]).unwrap();
        let mdadm = run_for(SOON, command("mdadm").arg("--examine-bitmap").arg(&file));
        let ours = ask(&["md", "examine", "--bitmap", text(device)]);
        let named = mdadm.stdout.replace(text(&file), text(device));
        assert!(named.contains("Bitmap : ") && ours.stdout == named, "{case}: {ours}\n{mdadm}");
    }
}

/// Bad blocks of a device as mdadm lists them: sector and sectors, in lines.
fn bad_blocks_by_mdadm(device: &Path) -> Vec<(u64, u64)> {
    let said = run_for(SOON, command("mdadm").arg("--examine-badblocks").arg(device));
    let entry = |line: &str| {
        let (sector, rest) = line.trim().split_once(" for ")?;
        Some((sector.parse().ok()?, rest.strip_suffix(" sectors")?.parse().ok()?))
    };
    said.stdout.lines().filter_map(entry).collect()
}

fn bad_blocks_by_us(device: &Path) -> Vec<(u64, u64)> {
    let json = ask(&["md", "examine", "--json", text(device)]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    serde_json::from_value(json["arrays"][0]["devices"][0]["bad_blocks"].clone()).unwrap()
}

#[test]
fn mdadm_says_of_our_members_what_we_say() {
    if !have(&["mdadm"]) {
        return;
    }
    // Level, options, whether a member fails, whether the server is killed.
    let arrays: [(&str, &[&str], bool, bool); 4] = [
        ("5", &["--bitmap-chunk", "64"], true, false),
        (
            "6",
            &["--layout", "ddf-N-continue", "--metadata", "1.0", "--consistency-policy", "resync"],
            true,
            false,
        ),
        ("5", &["--layout", "parity-first", "--consistency-policy", "ppl"], false, true),
        ("4", &["--metadata", "1.1"], false, true),
    ];
    for (level, options, fails, is_killed) in arrays {
        let scratch = Scratch::new("md-examined");
        let mut devices = blanks(&scratch, 5);
        let journal = devices.pop().unwrap();
        let mut options = [options, &["--homehost", "elsewhere"]].concat();
        if level == "4" {
            options.extend(["--write-journal", text(&journal)]);
        }
        let dir = create(&scratch, level, &devices, &options);
        if level == "4" {
            devices.push(journal.clone());
        }
        expect_the_same(&devices, &format!("RAID-{level} {options:?}, new"));
        let (server, bytes) = serve_in_sync(&dir);
        write_here_and_there(&server, vec![0; bytes]);
        if fails {
            assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
        }
        if is_killed {
            server.kill_9();
        } else {
            server.stop();
        }
        expect_the_same(&devices, &format!("RAID-{level} {options:?}"));
    }
}

#[test]
fn mdadm_says_of_our_bitmaps_what_we_say() {
    if !have(&["mdadm"]) {
        return;
    }
    // Version of the superblocks, and whether the server is killed amid writes, which leaves bits set.
    for (level, metadata, is_killed) in [("5", "1.2", false), ("6", "1.0", true), ("4", "1.1", true)] {
        let scratch = Scratch::new("md-examined-bitmaps");
        let devices = blanks(&scratch, 4);
        let dir = create(&scratch, level, &devices, &["--metadata", metadata, "--bitmap-chunk", "64"]);
        let case = format!("RAID-{level}, {metadata}");
        expect_the_same_bitmaps(&scratch, &devices, &format!("{case}, new"));
        let (server, bytes) = serve_in_sync(&dir);
        let content = write_here_and_there(&server, vec![0; bytes]);
        assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
        write_here_and_there(&server, content);
        if is_killed {
            server.kill_9();
        } else {
            server.stop();
        }
        expect_the_same_bitmaps(&scratch, &devices, &case);
    }
}

#[test]
fn mdadm_lists_the_bad_blocks_that_we_list() {
    if !have(&["mdadm"]) {
        return;
    }
    let scratch = Scratch::new("md-examined-bad-blocks");
    let members = unpacked(&scratch, "r5-badblocks");
    let dir = scratch.join("a");
    let made = run_for(SOON, zoneweave().args(["md", "assemble"]).arg(&dir).args(&members));
    assert_eq!(made.code(), Some(0), "{made}");
    let lists = || -> Vec<Vec<(u64, u64)>> {
        members
            .iter()
            .map(|member| {
                let (mdadm, ours) = (bad_blocks_by_mdadm(member), bad_blocks_by_us(member));
                assert_eq!(mdadm, ours, "{}", member.display());
                ours
            })
            .collect()
    };
    let before = lists();
    assert!(before.iter().flatten().count() > 3, "{before:?}");
    let server = Server::serve(&dir);
    // What is written of a list is listed no more, and the rest of it is.
    server.client().write(108 * 4096, &[7; 4096]).unwrap();
    server.stop();
    let after = lists();
    assert!(after != before && after.iter().any(|list| !list.is_empty()), "{before:?} {after:?}");
    expect_the_same(&members, "r5-badblocks");
}
