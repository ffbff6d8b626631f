//! GRUB as a reader of another origin: members that were written here, whole and without some of them.
//!
//! It reads the wrong data, without a word, of other layouts, of stale members and of those that are being rebuilt: it is given none of these.

use crate::support::md::{create, serve_in_sync, volume, write_here_and_there};
use crate::support::run::{SOON, command, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{have, number_from, text};
use std::path::{Path, PathBuf};

/// Levels and layouts that GRUB reads, with members; those of CI come first.
const ARRAYS: [(&str, Option<&str>, usize); 8] = [
    ("6", Some("right-symmetric"), 5),
    ("5", Some("left-asymmetric"), 4),
    ("4", None, 4),
    ("5", Some("right-asymmetric"), 4),
    ("5", Some("left-symmetric"), 4),
    ("5", Some("right-symmetric"), 3),
    ("6", Some("right-asymmetric"), 5),
    ("6", Some("left-symmetric"), 4),
];
/// Arrays of these in CI.
const SHORT: usize = 2;

/// The volume as GRUB copies it from these members.
fn read_by_grub(scratch: &Scratch, array: &str, bytes: usize, members: &[&Path]) -> Vec<u8> {
    let out = scratch.join("grub");
    let _none_yet = std::fs::remove_file(&out);
    let source = format!("(mduuid/{array})0+{}", bytes / 512);
    let mut grub = command("grub-fstest");
    grub.args(["-c", &members.len().to_string()]).args(members).args(["cp", &source, text(&out)]);
    run_for(SOON, &mut grub).expect("grub-fstest");
    std::fs::read(out).unwrap()
}

/// Members but for some.
fn without<'a>(members: &'a [PathBuf], missing: &[usize]) -> Vec<&'a Path> {
    let there = members.iter().enumerate().filter(|(role, _)| !missing.contains(role));
    there.map(|(_, path)| path.as_path()).collect()
}

#[test]
fn grub_reads_what_was_written_whichever_members_are_missing() {
    if !have(&["grub-fstest"]) {
        return;
    }
    let is_long = number_from("ZONEWEAVE_MD_ROUNDS", 0) > 0;
    for (level, layout, count) in ARRAYS.into_iter().take(if is_long { ARRAYS.len() } else { SHORT }) {
        let case = format!("RAID-{level} {}", layout.unwrap_or(""));
        let scratch = Scratch::new("md-grub");
        let members: Vec<PathBuf> = (0..count).map(|role| scratch.join(&format!("m{role}"))).collect();
        for path in &members {
            std::fs::File::create(path).unwrap().set_len(5 << 20).unwrap();
        }
        let layout = layout.map_or(Vec::new(), |layout| vec!["--layout", layout]);
        let dir = create(&scratch, level, &members, &layout);
        let (server, bytes) = serve_in_sync(&dir);
        let content = write_here_and_there(&server, vec![0; bytes]);
        server.stop();
        assert!(volume(&scratch, "copy", &[&dir]) == content, "{case}: on the media");
        let json = ask(&["md", "examine", "--json", text(&members[0])]);
        let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        let array = json["arrays"][0]["uuid"].as_str().unwrap().replace(':', "");
        let one = (0..count).map(|role| vec![role]);
        let two = (1..count).map(|role| vec![0, role]).take(if level == "6" { count } else { 0 });
        let missing = std::iter::once(Vec::new()).chain(one).chain(two);
        for missing in missing.take(if is_long { usize::MAX } else { 3 }) {
            let read = read_by_grub(&scratch, &array, bytes, &without(&members, &missing));
            assert!(read == content, "{case}: GRUB reads something else without {missing:?}");
        }
    }
}
