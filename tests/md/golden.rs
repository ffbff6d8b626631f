//! `zoneweave md` on the golden arrays: what the command prints, its exit codes, and that it writes nothing.

use crate::support::md::golden;
use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::zoneweave;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Members of a golden array as files in a directory.
fn unpacked(scratch: &Scratch, array: &str) -> Vec<PathBuf> {
    std::fs::create_dir(scratch.join(array)).unwrap();
    let members = golden::members(array).into_iter().map(|(name, bytes)| {
        let path = scratch.join(array).join(&name);
        std::fs::write(&path, bytes).unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions).unwrap();
        path
    });
    members.collect()
}

fn examine(options: &[&str], members: &[impl AsRef<Path>]) -> Finished {
    let mut command: Command = zoneweave();
    command.args(["md", "examine"]).args(options).env("TZ", "UTC");
    run_for(SOON, command.args(members.iter().map(AsRef::as_ref)))
}

#[test]
fn the_words_are_mdadm_s_and_the_last_line_is_ours() {
    for (array, last) in [
        ("r5-badblocks", "can be served: RAID-5 left-symmetric, 4 of 4 members, clean; "),
        ("r6-ddf-N-continue", "can be served: RAID-6 ddf-N-continue, 5 of 5 members, clean"),
        ("r5-reshape-grow", "cannot be served: "),
        (
            "r5-stale-bitmap",
            "can be served: RAID-5 left-symmetric, 3 of 4 members (degraded: without member 2), clean; ",
        ),
    ] {
        let scratch = Scratch::new("md-examine");
        let members = unpacked(&scratch, array);
        let before: Vec<_> = members.iter().map(|path| std::fs::read(path).unwrap()).collect();
        let finished = examine(&[], &members);
        let mut expected = String::new();
        for (name, text) in golden::examined(array) {
            expected += &format!("{}:\n{text}", scratch.join(array).join(&name).display());
        }
        let (words, verdict) = finished.stdout.rsplit_once("\n      Zoneweave : ").unwrap();
        assert_eq!(words, expected, "{array}");
        assert!(verdict.starts_with(last) && verdict.lines().count() == 1, "{array}: {verdict}");
        let after: Vec<_> = members.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(before == after, "{array}: a member was written to");
    }
}

#[test]
fn exit_codes_say_whether_it_can_be_served() {
    let scratch = Scratch::new("md-exit");
    let members = unpacked(&scratch, "r5-crash-nobitmap");
    assert_eq!(examine(&[], &members).code(), Some(0));
    let refused = examine(&[], &members[1..]);
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert!(
        refused.stdout.contains("dirty and degraded") && refused.stdout.contains("member 0"),
        "{refused}"
    );
    let members = unpacked(&scratch, "r4");
    assert_eq!(examine(&[], &members[..3]).code(), Some(3));
    std::fs::write(scratch.join("empty"), [0; 65536]).unwrap();
    let none = examine(&[], &[scratch.join("empty")]);
    assert!(none.code() == Some(6) && none.stderr.contains("no md superblock detected"), "{none}");
    assert_eq!(examine(&[], &[scratch.join("absent")]).code(), Some(6));
    assert_eq!(examine(&[], &[scratch.path()]).code(), Some(2));
    let old = unpacked(&scratch, "r5-v0.90");
    let old = examine(&[], &old);
    assert!(
        old.code() == Some(4) && old.stderr.contains("old metadata: a superblock of version 0.90"),
        "{old}"
    );
}

#[test]
fn scripts_read_brief_export_and_json() {
    let scratch = Scratch::new("md-scripts");
    let members = unpacked(&scratch, "r5-spare");
    let brief = examine(&["--brief"], &members).expect("brief");
    let uuid = "7a776d64:00000000:00000000:99bc9ec0";
    let expected = format!(
        "ARRAY /dev/md/r5-spare  metadata=1.2 UUID={uuid} name=zw:r5-spare\n   spares=1\n# can be served"
    );
    assert!(brief.starts_with(&expected), "{brief}");
    let export = examine(&["--export"], &members[3..]);
    let expected = format!(
        "MD_LEVEL=raid5\nMD_DEVICES=3\nMD_NAME=zw:r5-spare\nMD_ARRAY_SIZE=\nMD_UUID={uuid}\nMD_UPDATE_TIME=1795412760\n\
         MD_DEV_UUID=709a4ebf:5c915f95:084220ff:177e8347\nMD_EVENTS=20\n"
    );
    assert_eq!(export.stdout, expected);
    let json: Value = serde_json::from_str(&examine(&["--json"], &members).expect("json")).unwrap();
    let array = &json["arrays"][0];
    assert_eq!((&array["can_be_served"], &array["degraded"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(array["devices"][3]["part"], "spare");
}

fn md(what: &str, options: &[&str], members: &[PathBuf]) -> Finished {
    run_for(SOON, zoneweave().args(["md", what]).args(options).args(members))
}

#[test]
fn check_counts_mismatches_as_md_does() {
    let scratch = Scratch::new("md-check");
    let members = unpacked(&scratch, "r5-assume-clean");
    let found = md("check", &[], &members);
    assert_eq!(found.code(), Some(1));
    assert!(found.stdout.contains("mismatches: 3880 sectors in 31 stripes\n"), "{found}");
    let json: Value = serde_json::from_str(&md("check", &["--json"], &members).stdout).unwrap();
    assert_eq!((&json["mismatch_cnt"], json["stripes"].as_array().unwrap().len()), (&Value::from(3880), 31));
    let members = unpacked(&scratch, "r6-two-lost");
    let found = md("check", &[], &members);
    assert!(found.code() == Some(3) && found.stdout.contains("members 0 and 4 missing"), "{found}");
    let refused = md("check", &[], &unpacked(&scratch, "r5-reshape-grow"));
    assert!(refused.code() == Some(4) && refused.stderr.contains("finish it with md"), "{refused}");
}

#[test]
fn the_volume_is_copied_with_members_missing() {
    let scratch = Scratch::new("md-read");
    let members = unpacked(&scratch, "r6-left-symmetric");
    let (whole, degraded) = (scratch.join("whole"), scratch.join("degraded"));
    let copy = |members: &[PathBuf], to: &Path| md("read", &["--output", crate::support::text(to)], members);
    assert_eq!(copy(&members, &whole).code(), Some(0));
    assert_eq!(copy(&members[2..], &degraded).code(), Some(3));
    let content = std::fs::read(&whole).unwrap();
    assert!(content.len() == 2304 << 10 && content == std::fs::read(&degraded).unwrap());
    let again = copy(&members, &members[0]);
    assert!(again.code() == Some(4) && again.stderr.contains("must be a new file"), "{again}");
    let members = unpacked(&scratch, "r5-ppl-crash");
    let doubt = copy(&members[1..], &scratch.join("doubt"));
    assert!(doubt.code() == Some(1) && doubt.stderr.contains("left in doubt"), "{doubt}");
    let forced =
        md("read", &["--force", "--output", crate::support::text(&scratch.join("forced"))], &members[1..]);
    assert!(forced.code() == Some(1) && forced.stderr.contains("64 blocks (256 KiB)"), "{forced}");
}

/// Data of a missing member beside cut-off writes are copied when that is asked for, and told: all of it, or what lies in regions of the
/// bitmap. What others have is as they have it.
#[test]
fn a_dirty_and_degraded_volume_is_copied_with_its_doubts() {
    let scratch = Scratch::new("md-doubt");
    for (array, is_all) in [("r5-crash-bitmap", false), ("r5-crash-nobitmap", true)] {
        let members = unpacked(&scratch, array);
        let (whole, forced) =
            (scratch.join(&format!("{array}-whole")), scratch.join(&format!("{array}-forced")));
        let copy = |options: &[&str], members: &[PathBuf], to: &Path| {
            md("read", &[options, &["--output", crate::support::text(to)]].concat(), members)
        };
        assert_eq!(copy(&[], &members, &whole).code(), Some(0));
        let refused = copy(&[], &members[1..], &scratch.join("refused"));
        let words = ["dirty and degraded", "md read --force"];
        assert!(
            refused.code() == Some(4) && words.iter().all(|word| refused.stderr.contains(word)),
            "{refused}"
        );
        assert!(!scratch.join("refused").exists());
        let said = copy(&["--force"], &members[1..], &forced);
        assert!(said.code() == Some(1) && said.stderr.contains("are in doubt"), "{said}");
        let (whole, forced) = (std::fs::read(&whole).unwrap(), std::fs::read(&forced).unwrap());
        assert_eq!(whole.len(), forced.len());
        // Only what is told may differ.
        let ranges = said.stderr.lines().filter_map(|line| line.split_once("bytes ")?.1.split_once(':'));
        let ranges: Vec<(usize, usize)> = ranges
            .filter_map(|(range, _)| range.split_once(" to "))
            .map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()))
            .collect();
        assert!(
            !ranges.is_empty()
                && (is_all || ranges.iter().map(|(from, to)| to - from).sum::<usize>() < whole.len() / 2)
        );
        for (block, (was, is)) in whole.chunks(4096).zip(forced.chunks(4096)).enumerate() {
            let is_told = ranges.iter().any(|(from, to)| (*from..*to).contains(&(block * 4096)));
            assert!(was == is || is_told, "{array}: block {block} differs, and nothing is said of it");
        }
    }
}

/// Files of 4 MiB to make an array of.
fn blanks(scratch: &Scratch, count: usize) -> Vec<PathBuf> {
    let files = (0..count).map(|number| {
        let path = scratch.join(&format!("m{number}"));
        std::fs::write(&path, vec![0; 4 << 20]).unwrap();
        path
    });
    files.collect()
}

fn create(dir: &Path, options: &[&str], members: &[PathBuf]) -> Finished {
    let count = members.len().to_string();
    let fixed = ["--chunk", "64", "--homehost", "h", "--raid-devices", &count];
    run_for(SOON, zoneweave().args(["md", "create"]).arg(dir).args(fixed).args(options).args(members))
}

#[test]
fn a_new_array_is_found_by_its_directory() {
    let scratch = Scratch::new("md-create");
    let members = blanks(&scratch, 4);
    let dir = scratch.join("a1");
    let made = create(&dir, &["--level", "6", "--layout", "ra", "--assume-clean"], &members);
    assert!(
        made.code() == Some(0) && made.stdout.contains("RAID-6 right-asymmetric over 4 members"),
        "{made}"
    );
    let found = md("examine", &[], std::slice::from_ref(&dir));
    assert!(
        found.stdout.contains("can be served: RAID-6 right-asymmetric, 4 of 4 members, clean"),
        "{found}"
    );
    assert!(found.stdout.contains("Name : h:a1"), "{found}");
    let checked = md("check", &[], std::slice::from_ref(&dir));
    assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    let wrong = run_for(SOON, zoneweave().args(["drive", "replace"]).arg(&dir).arg("0"));
    assert!(wrong.code() == Some(4) && wrong.stderr.contains("array of Linux md"), "{wrong}");
    let again = create(&dir, &["--level", "5"], &members);
    assert!(again.code() == Some(4) && again.stderr.contains("describes an array already"), "{again}");
}

#[test]
fn members_that_hold_something_are_refused_and_stay() {
    let scratch = Scratch::new("md-occupied");
    let members = blanks(&scratch, 3);
    let mut content = vec![0; 4 << 20];
    content[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(&members[2], &content).unwrap();
    let refused = create(&scratch.join("a"), &["--level", "5"], &members);
    assert!(refused.code() == Some(4) && refused.stderr.contains("ext2, ext3 or ext4"), "{refused}");
    assert!(std::fs::read(&members[2]).unwrap() == content);
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0));
    assert!(!scratch.join("a").exists());
    let forced = create(&scratch.join("a"), &["--level", "5", "--force"], &members);
    assert!(forced.code() == Some(0), "{forced}");
    let other = create(&scratch.join("b"), &["--level", "5"], &members);
    assert!(other.code() == Some(4) && other.stderr.contains("of the md array"), "{other}");
    let twice = [members[0].clone(), members[1].clone(), members[0].clone()];
    let twice = create(&scratch.join("b"), &["--level", "5", "--force"], &twice);
    assert!(twice.code() == Some(5) && twice.stderr.contains("in use"), "{twice}");
}

#[test]
fn zeroed_superblocks_are_gone() {
    let scratch = Scratch::new("md-zero");
    let members = blanks(&scratch, 3);
    let missing = [members[0].clone(), members[1].clone(), PathBuf::from("missing")];
    let made = create(&scratch.join("a"), &["--level", "5", "--metadata", "1.0"], &missing);
    assert!(made.code() == Some(3) && made.stdout.contains("(1 missing)"), "{made}");
    let found = examine(&[], &members[..2]);
    assert!(found.code() == Some(3) && found.stdout.contains("2 of 3 members"), "{found}");
    let none = md("zero-superblock", &[], &members);
    assert!(none.code() == Some(6) && examine(&[], &members[..2]).code() == Some(3), "{none}");
    assert_eq!(md("zero-superblock", &[], &members[..2]).code(), Some(0));
    assert_eq!(examine(&[], &members[..2]).code(), Some(6));
}

/// As mdadm 4.2 prints them; it takes a file for a bitmap, so that it got the bitmap of this member as one.
const BITMAP: &str = "           Magic : 6d746962
         Version : 4
            UUID : 7a776d64:00000000:00000000:da38c4fc
          Events : 18
  Events Cleared : 17
           State : OK
       Chunksize : 64 KB
          Daemon : 1s flush period
      Write Mode : Normal
       Sync Size : 2048
          Bitmap : 32 bits (chunks), 6 dirty (18.8%)
";

#[test]
fn bitmaps_and_bad_blocks_are_told_in_mdadm_s_words() {
    let scratch = Scratch::new("md-logs-in-words");
    let crashed = unpacked(&scratch, "r5-crash-bitmap");
    let said = examine(&["-X"], &crashed[2..3]);
    let name = crate::support::text(&crashed[2]);
    assert_eq!((said.code(), said.stdout), (Some(0), format!("        Filename : {name}\n{BITMAP}")));
    let members = unpacked(&scratch, "r5-badblocks");
    let said = examine(&["--badblocks"], &members[1..3]);
    let [one, two] = [1, 2].map(|index: usize| crate::support::text(&members[index]));
    let expected = format!(
        "Bad-blocks list is empty in {one}\nBad-blocks on {two}:\n                2400 for 16 sectors\n                3360 for 8 sectors\n"
    );
    assert_eq!((said.code(), &said.stdout), (Some(0), &expected));
    let mdadm = |member: &PathBuf| Command::new("mdadm").arg("--examine-badblocks").arg(member).output();
    match (mdadm(&members[1]), mdadm(&members[2])) {
        (Ok(one), Ok(two)) => assert_eq!([one.stdout, two.stdout].concat(), expected.into_bytes()),
        _ => println!("mdadm is not here: its words are those of before"),
    }
    let without = examine(&["--bitmap"], &unpacked(&scratch, "r5-ppl-clean")[..1]);
    assert!(without.code() == Some(6) && without.stderr.contains("has no bitmap"), "{without}");
}
