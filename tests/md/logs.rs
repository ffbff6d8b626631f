//! Arrays of md with partial parity logs, served in place and taken over by Linux md: whole and degraded, stopped and after a `kill -9`.

use crate::support::md::{Guest, Visit, blanks, capacity, golden, read_all, rebuild_and_wait, volume};
use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status, zoneweave};
use crate::support::text;
use std::path::{Path, PathBuf};

/// Writes of parts of blocks, blocks, chunks and stripes, one after the other. Returns what the volume holds then.
fn write_here_and_there(server: &Server, seed: u64, mut content: Vec<u8>) -> Vec<u8> {
    let mut random = crate::support::random(seed);
    let mut client = server.client();
    for round in 0..40_usize {
        let bytes = [512, 4096, 12_288, 65_536, 300_000][round % 5];
        let sectors = u64::try_from((content.len() - bytes) / 512).unwrap();
        let offset = usize::try_from(random.below(sectors)).unwrap() * 512;
        let data = crate::support::random_bytes(&mut random, bytes);
        client.write(offset.try_into().unwrap(), &data).unwrap();
        content[offset..offset + bytes].copy_from_slice(&data);
    }
    client.flush().unwrap();
    content
}

/// A new array with logs, and its members.
fn create(scratch: &Scratch, count: usize) -> (PathBuf, Vec<PathBuf>) {
    let dir = scratch.join("a");
    let members = blanks(scratch, count);
    let options = ["--level", "5", "--chunk", "64", "--consistency-policy", "ppl"];
    let mut create = zoneweave();
    create.args(["md", "create"]).arg(&dir).args(options).args(["--raid-devices", &count.to_string()]);
    let made = run_for(SOON, create.args(&members));
    assert!(made.code() == Some(0) && made.stdout.contains("partial parity log"), "{made}");
    (dir, members)
}

#[test]
fn logs_are_for_raid_5_alone() {
    for options in [&["--level", "6", "--raid-devices", "4"][..], &["--level", "4", "--raid-devices", "4"]] {
        let scratch = Scratch::new("md-no-log");
        let members = blanks(&scratch, 4);
        let mut create = zoneweave();
        create.args(["md", "create", "--consistency-policy", "ppl"]).arg(scratch.join("a")).args(options);
        let refused = run_for(SOON, create.args(&members));
        assert!(refused.code() == Some(2) && refused.stderr.contains("partial parity log"), "{refused}");
        assert!(members.iter().all(|path| std::fs::read(path).unwrap().iter().all(|byte| *byte == 0)));
    }
}

/// Reads block by block. A block that is in doubt is an error, and is there again once it is written; how many there were.
fn read_and_heal(server: &Server, content: &[u8]) -> usize {
    let mut client = server.client();
    let mut in_doubt = 0;
    for (block, expected) in content.chunks(4096).enumerate() {
        let offset = (block * 4096).try_into().unwrap();
        match client.read(offset, 4096) {
            Ok(read) => assert!(read == expected, "block {block} is as md returned it"),
            Err(_) => {
                in_doubt += 1;
                client.write(offset, expected).unwrap();
                assert!(client.read(offset, 4096).unwrap() == expected, "block {block} was written");
            }
        }
    }
    in_doubt
}

#[test]
fn logs_that_md_wrote_are_applied_and_gone_on_with() {
    for (array, without) in
        [("r5-ppl-clean", None), ("r5-ppl-crash", None), ("r5-ppl-crash", Some(1)), ("r5-ppl-crash", Some(3))]
    {
        let scratch = Scratch::new("md-ppl-golden");
        let mut members: Vec<PathBuf> = Vec::new();
        for (name, bytes) in golden::members(array) {
            members.push(scratch.join(&name));
            std::fs::write(members.last().unwrap(), bytes).unwrap();
        }
        let paths: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
        let content = volume(&scratch, "before", &paths);
        let lost = without.map(|index: usize| members.remove(index));
        let dir = scratch.join("a");
        let made = run_for(SOON, zoneweave().args(["md", "assemble", "--run"]).arg(&dir).args(&members));
        assert_eq!(made.code(), Some(if lost.is_some() { 3 } else { 0 }), "{array}: {made}");
        let server = Server::serve_degraded(&dir);
        // The newest headers of md name 128 rows of which several blocks were in flight, one of them on the member.
        let in_doubt = read_and_heal(&server, &content);
        assert_eq!(in_doubt, if lost.is_some() { 128 } else { 0 }, "{array} without {lost:?}");
        assert!(status(&dir)["resync"].is_null(), "{array}: a resync");
        let content = write_here_and_there(&server, 5, content);
        server.kill_9();
        let server = Server::serve_degraded(&dir);
        assert!(read_all(&server, content.len()) == content, "{array} without {lost:?}: after a kill");
        server.stop();
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.stdout.contains("mismatches: 0 sectors"), "{array}: {checked}");
        assert!(volume(&scratch, "after", &[&dir]) == content, "{array}: on the media");
    }
}

#[test]
fn linux_md_takes_arrays_with_logs_and_gives_them_back() {
    let Some(guest) = Guest::here() else { return };
    // Whether Zoneweave is killed, whether a member is taken out before, and whether the guest panics.
    for (is_killed, is_degraded, panics) in [(false, false, true), (true, false, false), (true, true, true)] {
        let scratch = Scratch::new("md-ppl-kernel");
        let (dir, members) = create(&scratch, 4);
        let server = Server::serve(&dir);
        let bytes = capacity(&dir);
        let rebuilt = rebuild_and_wait(&dir);
        assert_eq!(rebuilt.code(), Some(0), "{rebuilt}");
        let mut content = write_here_and_there(&server, 6, vec![0; bytes]);
        if is_degraded {
            assert_eq!(ask(&["md", "fail", text(&dir), "1"]).code(), Some(0));
            content = write_here_and_there(&server, 7, content);
        }
        if is_killed {
            server.kill_9()
        } else {
            server.stop()
        }
        let visit = Visit { is_direct: true, is_degraded, panics, ..Visit::default() };
        let case = format!("killed {is_killed}, degraded {is_degraded}");
        let said = guest.take(&scratch, &members, &visit, &mut content, &case);
        assert!(said.stdout.contains("action=idle policy=ppl"), "{case}: md resyncs\n{said}");
        assert!(volume(&scratch, "copy", &[&dir]) == content, "{case}: what md wrote, on the media");
        let server = Server::serve(&dir);
        assert!(read_all(&server, bytes) == content, "{case}: what md wrote, served");
        let content = write_here_and_there(&server, 8, content);
        assert!(until(SOON, || status(&dir)["dirty"] == false), "{case}: {}", server.log());
        server.stop();
        assert!(volume(&scratch, "again", &[&dir]) == content, "{case}: and back once more");
        let checked = ask(&["check", text(&dir)]);
        assert!(checked.stdout.contains("mismatches: 0 sectors"), "{case}: {checked}");
    }
}
