//! Arrays of md that are dirty and lack a member: served when an operator says so, with a word about what may be wrong.

use crate::support::md::{read_all, unpacked, write_here_and_there};
use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status, zoneweave};
use crate::support::text;
use std::path::{Path, PathBuf};

fn assemble(dir: &Path, options: &[&str], members: &[PathBuf]) -> Finished {
    run_for(SOON, zoneweave().args(["md", "assemble"]).arg(dir).args(options).args(members))
}

/// The array is served as `md read --force` copies it, names as many blocks, and is clean afterwards without any word.
#[test]
fn a_dirty_and_degraded_array_is_served_with_its_doubts() {
    for array in ["r5-crash-bitmap", "r5-crash-nobitmap"] {
        let scratch = Scratch::new("md-force");
        let (members, dir) = (unpacked(&scratch, array), scratch.join("a"));
        let refused = assemble(&dir, &["--run"], &members[1..]);
        assert!(
            refused.code() == Some(4) && refused.stderr.contains("serve --degraded --force"),
            "{refused}"
        );
        let forced = assemble(&dir, &["--run", "--force"], &members[1..]);
        assert!(forced.code() == Some(3) && forced.stdout.contains("--degraded --force"), "{forced}");
        let refused = ask(&["serve", text(&dir), "--degraded"]);
        assert!(refused.code() == Some(4) && refused.stderr.contains("dirty and degraded"), "{refused}");
        let copy = scratch.join("copy");
        let read = ask(&["md", "read", "--force", "--output", text(&copy), text(&dir)]);
        let checked = ask(&["md", "check", "--force", "--json", text(&dir)]);
        assert_eq!(checked.code(), Some(1), "{checked}");

        let server = Server::serve_with(&dir, &["--degraded", "--force"]);
        let content = std::fs::read(&copy).unwrap();
        assert!(read_all(&server, content.len()) == content, "{array}: as the members say");
        let state = status(&dir);
        let ranges = state["in_doubt"].as_array().unwrap();
        let blocks: u64 = ranges.iter().map(|range| range["blocks"].as_u64().unwrap()).sum();
        for said in [&forced.stderr, &server.log(), &read.stderr] {
            assert!(said.contains(&format!("{blocks} blocks (")), "{array}: {blocks} of {said}");
        }
        let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(checked["in_doubt"], state["in_doubt"]);
        let content = write_here_and_there(&server, content);
        server.stop();

        // What comes back missed that, and is not believed.
        let all: Vec<&str> = members.iter().map(|member| text(member)).collect();
        let examined = ask(&[&["md", "examine"], &all[..]].concat());
        assert!(examined.stdout.contains("left out"), "{examined}");
        let server = Server::serve_with(&dir, &["--force"]);
        assert!(read_all(&server, content.len()) == content, "{array}: as it was written");
        assert_eq!(status(&dir)["in_doubt"], serde_json::json!([]));
        server.stop();
    }
}

/// A partial parity log is applied first; what it leaves in doubt reads as parities say, and as `md read --force` copies it.
#[test]
fn a_log_is_applied_before_parities_are_believed() {
    let scratch = Scratch::new("md-force-log");
    let (members, dir) = (unpacked(&scratch, "r5-ppl-crash"), scratch.join("a"));
    let forced = assemble(&dir, &["--run", "--force"], &members[1..]);
    assert!(forced.code() == Some(3) && forced.stderr.contains("blocks ("), "{forced}");
    let copy = scratch.join("copy");
    ask(&["md", "read", "--force", "--output", text(&copy), text(&dir)]);
    let server = Server::serve_with(&dir, &["--degraded", "--force"]);
    let content = std::fs::read(&copy).unwrap();
    assert!(read_all(&server, content.len()) == content, "as the members and their logs say");
    assert!(!status(&dir)["in_doubt"].as_array().unwrap().is_empty(), "{}", status(&dir));
    server.stop();
}

#[test]
fn members_are_chosen_by_the_name_or_the_uuid_of_their_array() {
    let scratch = Scratch::new("md-choose");
    let mut all = unpacked(&scratch, "r5-left-asymmetric");
    let other = Scratch::new("md-choose-other");
    all.extend(unpacked(&other, "r4"));
    all.push(scratch.join("none"));
    let (first, second) = (scratch.join("first"), scratch.join("second"));
    let none = assemble(&first, &["--name", ""], &all);
    assert!(none.code() == Some(6) && none.stderr.contains("no device that is given"), "{none}");
    let examined = ask(&["md", "examine", "--brief", text(&all[0])]);
    let word = |name: &str| {
        let rest = examined.stdout.split_once(name).unwrap().1;
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let by_uuid = assemble(&first, &["--uuid", &word("UUID=")], &all);
    assert!(by_uuid.code() == Some(0) && by_uuid.stdout.contains("left-asymmetric"), "{by_uuid}");
    let by_name = assemble(&second, &["--name", "r4"], &all);
    assert!(by_name.code() == Some(0) && by_name.stdout.contains("RAID-4"), "{by_name}");
    let several = assemble(&scratch.join("third"), &["--scan"], &all);
    assert!(several.code() == Some(2) && several.stderr.contains("several arrays"), "{several}");
    let nobody = assemble(&scratch.join("third"), &["--scan", "--uuid", "7a776d64:0:0:0"], &[]);
    assert_eq!(nobody.code(), Some(2), "{nobody}");
    let nobody =
        assemble(&scratch.join("third"), &["--scan", "--uuid", "7a776d64:00000000:00000000:00000000"], &[]);
    assert!(nobody.code() == Some(6) && nobody.stderr.contains("no device of this machine"), "{nobody}");
}
