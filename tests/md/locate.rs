//! Members of RAID-6 that are wrong without an error: a scrub names them.

use crate::support::md::{blanks, create, serve_in_sync, write_here_and_there};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status};
use crate::support::text;
use std::os::unix::fs::FileExt;

#[test]
fn a_scrub_names_the_member_that_is_wrong() {
    let scratch = Scratch::new("md-locate");
    let members = blanks(&scratch, 5);
    let dir = create(&scratch, "6", &members, &[]);
    let (server, bytes) = serve_in_sync(&dir);
    write_here_and_there(&server, vec![0; bytes]);
    server.stop();
    // A byte in each of three stripes, in the middle of the member's data.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&members[2]).unwrap();
    let length = file.metadata().unwrap().len();
    for place in [length / 2, length / 2 + 65536, length / 2 + 2 * 65536] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], place).unwrap();
    }
    let server = Server::serve(&dir);
    let found = ask(&["scrub", text(&dir), "--locate", "--json"]);
    assert_eq!(found.code(), Some(1), "{found}");
    let report: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(report["mismatch_cnt"], 24, "{report}");
    assert_eq!(report["located"], serde_json::json!([{ "role": 2, "sectors": 24 }]), "{report}");
    assert_eq!(status(&dir)["scrub"]["located"][0]["role"], 2);
    let told = ask(&["scrub", text(&dir), "--locate"]);
    assert!(told.stdout.contains("in 24 of them member 2 alone is wrong"), "{told}");
    server.stop();
}

#[test]
fn one_parity_cannot_tell() {
    let scratch = Scratch::new("md-locate-5");
    let members = blanks(&scratch, 3);
    let dir = create(&scratch, "5", &members, &[]);
    let server = Server::serve(&dir);
    let refused = ask(&["scrub", text(&dir), "--locate"]);
    assert!(refused.code() == Some(2) && refused.stderr.contains("has one parity"), "{refused}");
    server.stop();
}
