//! Spares of served md arrays: made here or by mdadm, they take the role of a member that fails, by themselves.

use crate::support::md::{
    Guest, blanks, capacity, read_all, read_without_each, unpacked, volume, write_here_and_there,
};
use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status, zoneweave};
use crate::support::text;
use std::path::{Path, PathBuf};

fn spares(dir: &Path) -> Vec<String> {
    let spares = status(dir)["spares"].as_array().unwrap().clone();
    spares.iter().map(|path| path.as_str().unwrap().to_owned()).collect()
}

/// Waits until all members are whole.
fn until_whole(dir: &Path, server: &Server) {
    let is_whole = || {
        let state = status(dir);
        state["members"].as_array().unwrap().iter().all(|member| member["state"] == "active")
    };
    assert!(until(SOON, is_whole), "{}", server.log());
}

#[test]
fn a_spare_that_mdadm_made_takes_the_role_of_a_member_that_fails() {
    let scratch = Scratch::new("md-spare-golden");
    let members = unpacked(&scratch, "r5-spare");
    let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
    let content = volume(&scratch, "before", &paths);
    let dir = scratch.join("a");
    let made = run_for(SOON, zoneweave().args(["md", "assemble"]).arg(&dir).args(&members));
    assert_eq!(made.code(), Some(0), "{made}");
    assert_eq!(spares(&dir), [text(&members[3])]);
    let server = Server::serve(&dir);
    assert_eq!(spares(&dir), [text(&members[3])]);
    let content = write_here_and_there(&server, content);
    assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
    assert!(until(SOON, || spares(&dir).is_empty()), "{}", server.log());
    until_whole(&dir, &server);
    assert_eq!(status(&dir)["members"][1]["path"], text(&members[3]));
    let content = write_here_and_there(&server, content);
    assert!(read_all(&server, content.len()) == content);
    server.stop();
    assert_eq!(ask(&["check", text(&dir)]).code(), Some(0));
    read_without_each(&scratch, &[paths[0], paths[3], paths[2]], &content);
}

#[test]
fn spares_that_are_made_here_are_spares_to_linux_md() {
    let scratch = Scratch::new("md-spare");
    let mut members = blanks(&scratch, 6);
    let extra = members.pop().unwrap();
    let dir = scratch.join("a");
    let fixed = ["--level", "5", "--chunk", "64", "--raid-devices", "4", "--spare-devices", "1"];
    let made = run_for(SOON, zoneweave().args(["md", "create"]).arg(&dir).args(fixed).args(&members));
    assert_eq!(made.code(), Some(0), "{made}");
    let server = Server::serve(&dir);
    assert!(until(SOON, || status(&dir)["resync"].is_null()), "{}", server.log());
    assert_eq!(spares(&dir), [text(&members[4])]);
    // With nobody missing, what is added becomes a spare as well.
    let added = ask(&["md", "add", text(&dir), text(&extra)]);
    assert!(added.code() == Some(0) && added.stdout.contains("is a spare now"), "{added}");
    let again = ask(&["md", "add-spare", text(&dir), text(&extra)]);
    assert_eq!(again.code(), Some(5), "{again}");
    assert_eq!(spares(&dir).len(), 2);
    assert_eq!(ask(&["md", "remove", text(&dir), text(&members[4])]).code(), Some(0));
    assert_eq!(spares(&dir), [text(&extra)]);
    let bytes = capacity(&dir);
    let content = write_here_and_there(&server, vec![0; bytes]);
    server.stop();
    // Nothing was written to it since, and it is a spare all the same.
    let server = Server::serve(&dir);
    assert_eq!(spares(&dir), [text(&extra)]);
    let content = write_here_and_there(&server, content);
    server.stop();
    let now: Vec<PathBuf> = members[..4].iter().chain([&extra]).cloned().collect();
    if let Some(guest) = Guest::here() {
        let said = guest.sum_and_check(&scratch, &now);
        guest.expect(&said, &scratch, &content);
        assert!(said.stdout.contains("4 drives and 1 spare"), "{said}");
    }
    let server = Server::serve(&dir);
    assert_eq!(ask(&["md", "fail", text(&dir), "0"]).code(), Some(0));
    assert!(until(SOON, || spares(&dir).is_empty()), "{}", server.log());
    until_whole(&dir, &server);
    server.stop();
    read_without_each(&scratch, &[&extra, &members[1], &members[2], &members[3]], &content);
}
