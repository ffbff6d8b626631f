//! Members of served md arrays that list bad blocks.

use crate::support::md::{Guest, read_all, unpacked, volume};
use crate::support::run::{SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status, zoneweave};
use crate::support::text;
use std::path::{Path, PathBuf};

/// Blocks that two members of the golden array list as bad: one of them had the parity, or another block was never lost.
const LOST: [u64; 3] = [108, 109, 484];

#[test]
fn blocks_that_are_lost_are_errors_until_they_are_written() {
    let scratch = Scratch::new("md-bad-blocks");
    let whole = unpacked(&scratch, "r5-bitmap");
    let paths: Vec<&Path> = whole.iter().map(PathBuf::as_path).collect();
    let mut content = volume(&scratch, "whole", &paths);
    let mut members = unpacked(&scratch, "r5-badblocks");
    let dir = scratch.join("a");
    let made = run_for(SOON, zoneweave().args(["md", "assemble"]).arg(&dir).args(&members));
    assert_eq!(made.code(), Some(0), "{made}");
    let server = Server::serve(&dir);
    let bytes = status(&dir)["capacity_bytes"].as_u64().unwrap();
    content.truncate(bytes.try_into().unwrap());
    let mut client = server.client();
    for block in 0..bytes / 4096 {
        let at = usize::try_from(block * 4096).unwrap();
        match client.read(block * 4096, 4096) {
            Ok(read) => assert!(read == content[at..at + 4096] && !LOST.contains(&block), "block {block}"),
            Err(_) => assert!(LOST.contains(&block), "block {block} cannot be read"),
        }
    }
    let listed = |role: usize| status(&dir)["members"][role]["bad_blocks"].as_array().unwrap().len();
    assert_eq!((0..4).map(listed).sum::<usize>(), 4, "{}", status(&dir));
    drop(client);
    server.stop();
    // What is listed is still so after a restart, and a write heals it.
    let server = Server::serve(&dir);
    let mut client = server.client();
    assert!(client.read(108 * 4096, 4096).is_err());
    drop(client);
    let mut client = server.client();
    for block in LOST {
        let data = crate::support::random_bytes(&mut crate::support::random(block), 4096);
        client.write(block * 4096, &data).unwrap();
        let at = usize::try_from(block * 4096).unwrap();
        content[at..at + 4096].copy_from_slice(&data);
    }
    drop(client);
    assert!(read_all(&server, content.len()) == content, "what was written is there");
    assert_eq!((0..4).map(listed).sum::<usize>(), 0, "{}", status(&dir));
    server.stop();
    let examined = ask(&["md", "examine", text(&members[2])]);
    assert!(!examined.stdout.contains("bad blocks present"), "{examined}");
    let checked = ask(&["check", text(&dir)]);
    assert!(checked.code() == Some(0) && checked.stdout.contains("mismatches: 0 sectors"), "{checked}");
    let Some(guest) = Guest::here() else { return };
    // Without the stale one.
    members.remove(1);
    let said = guest.sum_and_check(&scratch, &members);
    guest.expect(&said, &scratch, &content);
    assert!(said.stdout.contains("mismatches=0 degraded=0"), "{said}");
}
