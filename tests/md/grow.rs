//! Consistency policies of served md arrays, which change beside clients: what is there then, Linux md serves.

use crate::support::md::{
    Guest, blanks, create, read_all, read_without_each, serve_in_sync, write_here_and_there,
};
use crate::support::run::{Finished, SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status};
use crate::support::text;
use std::path::{Path, PathBuf};

fn grow(dir: &Path, options: &[&str]) -> Finished {
    ask(&[&["md", "grow", text(dir)], options].concat())
}

/// An array without bitmap that is served, and has come to rest.
fn served(scratch: &Scratch, level: &str, members: &[PathBuf]) -> (PathBuf, Server, usize) {
    let dir = create(scratch, level, members, &["--bitmap", "none"]);
    let (server, bytes) = serve_in_sync(&dir);
    (dir, server, bytes)
}

#[test]
fn policies_change_beside_clients_and_linux_md_has_them_too() {
    let scratch = Scratch::new("md-grow");
    let members = blanks(&scratch, 4);
    let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
    let (dir, server, bytes) = served(&scratch, "5", &members);
    let mut server = server;
    let mut content = write_here_and_there(&server, vec![0; bytes]);
    for (options, policy, said_by_md) in [
        (&["--bitmap=internal", "--bitmap-chunk=64"][..], "bitmap", "Consistency Policy : bitmap"),
        (&["--bitmap=none"][..], "resync", "Consistency Policy : resync"),
        (&["--consistency-policy=ppl"][..], "ppl", "Consistency Policy : ppl"),
        (&["--consistency-policy=resync"][..], "resync", "Consistency Policy : resync"),
        (&["-k", "bitmap"][..], "bitmap", "Consistency Policy : bitmap"),
    ] {
        let grown = grow(&dir, options);
        assert!(grown.code() == Some(0) && grown.stdout.contains(policy), "{options:?}: {grown}");
        assert_eq!(status(&dir)["policy"], policy);
        let again = grow(&dir, options);
        assert!(again.code() == Some(2) && again.stderr.contains("already"), "{again}");
        content = write_here_and_there(&server, content);
        // What a crash leaves is put right by the policy that is there now.
        server.kill_9();
        server = Server::serve(&dir);
        assert_eq!(status(&dir)["policy"], policy);
        assert!(read_all(&server, bytes) == content, "{policy} after a kill");
        assert!(until(SOON, || status(&dir)["resync"].is_null()), "{}", server.log());
        server.stop();
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
        read_without_each(&Scratch::new("md-grow-copies"), &paths, &content);
        if let Some(guest) = Guest::here() {
            let said = guest.sum_and_check(&scratch, &members);
            guest.expect(&said, &scratch, &content);
            assert!(said.stdout.contains(said_by_md), "{policy}\n{said}");
        }
        server = Server::serve(&dir);
    }
    server.stop();
}

#[test]
fn what_cannot_be_changed_is_refused_by_name() {
    let scratch = Scratch::new("md-grow-refused");
    let members = blanks(&scratch, 5);
    let (dir, server, _) = served(&scratch, "6", &members);
    let refused = |options: &[&str], code: i32, why: &str| {
        let said = grow(&dir, options);
        assert!(said.code() == Some(code) && said.stderr.contains(why), "{options:?}: {said}");
    };
    refused(&[], 2, "nothing to change");
    refused(&["--consistency-policy=ppl"], 2, "it takes RAID-5");
    refused(&["--bitmap=internal", "-k", "resync"], 2, "different things");
    refused(&["--bitmap=internal", "--bitmap-chunk=3"], 2, "a power of two");
    refused(&["--raid-devices=6"], 2, "mdadm --grow /dev/md0 --raid-devices=6");
    refused(&["--size=max", "--chunk=64"], 2, "mdadm --grow /dev/md0 --chunk=64 --size=max");
    assert_eq!(status(&dir)["policy"], "resync");
    assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
    refused(&["--bitmap=internal"], 3, "1 members are missing");
    server.stop();
    refused(&["--bitmap=internal"], 6, "`zoneweave serve");
    let added = ask(&["md", "add", text(&dir), text(&members[1])]);
    assert!(
        added.code() == Some(6) && added.stderr.contains("--degraded when a member is missing"),
        "{added}"
    );
}
