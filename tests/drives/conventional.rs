//! Arrays on conventional drives: files that are cut into zones.

use crate::support::run::{Finished, SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, zoneweave};
use std::path::PathBuf;

/// Bytes of a read of a client.
const READ: u32 = 1 << 20;

fn devices(scratch: &Scratch, count: usize) -> Vec<PathBuf> {
    let device = |index: usize| {
        let path = scratch.join(&format!("disk{index}"));
        std::fs::File::create(&path).unwrap().set_len(256 << 20).unwrap();
        path
    };
    (0..count).map(device).collect()
}

fn raw(devices: &[PathBuf]) -> String {
    devices.iter().map(|path| format!("raw:{}", path.display())).collect::<Vec<_>>().join(",")
}

fn create(scratch: &Scratch, devices: &[PathBuf], more: &[&str]) -> (PathBuf, Finished) {
    let dir = scratch.join("array");
    let fixed = ["--drives-path", &raw(devices), "--zone-size", "4MiB"];
    let made = run_for(SOON, zoneweave().arg("create").arg(&dir).args(fixed).args(more));
    (dir, made)
}

fn read_all(client: &mut crate::support::nbd::Client, bytes: usize) -> Vec<u8> {
    let offsets = (0..u64::try_from(bytes).unwrap()).step_by(READ as usize);
    offsets.flat_map(|offset| client.read(offset, READ).unwrap()).collect()
}

#[test]
fn an_array_survives_kills_and_a_lost_device() {
    let scratch = Scratch::new("conventional");
    let mut devices = devices(&scratch, 4);
    let (dir, made) = create(&scratch, &devices, &[]);
    assert_eq!(made.code(), Some(0), "{made}");
    let mut random = crate::support::random(31);
    let mut content = vec![0; 24 << 20];
    let mut options: &[&str] = &[];
    for round in 0..4 {
        let server = Server::serve_with(&dir, options);
        let mut client = server.client();
        assert!(read_all(&mut client, content.len()) == content, "round {round}: other data");
        for write in 0..120_usize {
            let bytes = [4096, 8192, 65_536, 262_144][write % 4];
            let blocks = u64::try_from((content.len() - bytes) / 4096).unwrap();
            let offset = usize::try_from(random.below(blocks)).unwrap() * 4096;
            let data = crate::support::random_bytes(&mut random, bytes);
            client.write(offset.try_into().unwrap(), &data).unwrap();
            content[offset..offset + bytes].copy_from_slice(&data);
        }
        client.flush().unwrap();
        drop(client);
        drop(server);
        let checked = run_for(SOON, zoneweave().arg("check").arg(&dir));
        let degraded = !options.is_empty();
        assert_eq!(checked.code(), Some(if degraded { 3 } else { 0 }), "round {round}: {checked}");
        if round == 2 {
            std::fs::remove_file(devices.remove(1)).unwrap();
            options = &["--degraded"];
        }
    }
    // A new device takes its place, beside clients, and then another one is lost.
    let server = Server::serve(&dir);
    let newcomer = scratch.join("new");
    std::fs::File::create(&newcomer).unwrap().set_len(256 << 20).unwrap();
    let with = format!("raw:{}", newcomer.display());
    let replaced = run_for(
        SOON,
        zoneweave().args(["drive", "replace"]).arg(&dir).args(["1", "--with", &with, "--wait"]),
    );
    assert_eq!(replaced.code(), Some(0), "{replaced}");
    drop(server);
    std::fs::remove_file(&devices[2]).unwrap();
    let server = Server::serve_degraded(&dir);
    assert!(read_all(&mut server.client(), content.len()) == content, "what was rebuilt is other data");
}

#[test]
fn status_tells_of_cached_identities() {
    let scratch = Scratch::new("identity-cache");
    let (dir, made) = create(&scratch, &devices(&scratch, 4), &[]);
    assert_eq!(made.code(), Some(0), "{made}");
    let content = vec![5; 64 << 20];
    let server = Server::serve(&dir);
    let mut client = server.client();
    for (offset, part) in (0..).step_by(READ as usize).zip(content.chunks(READ as usize)) {
        client.write(offset, part).unwrap();
    }
    drop(client);
    let ran = run_for(SOON, zoneweave().arg("status").arg(&dir).arg("--json"));
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let layer = told["members"][0]["identity_cache"]["write_amplification"].as_f64();
    // One block of identities for 59 of data, and the journal.
    assert!(layer.is_some_and(|layer| (1.0 + 1.0 / 59.0..2.0).contains(&layer)), "{told}");
    let words = run_for(SOON, zoneweave().arg("status").arg(&dir)).stdout;
    assert!(words.contains("blocks with identities and journal for each block of the engine"), "{words}");
    server.stop();
    // Nothing is cached when it begins; what was read once is there the second time.
    let server = Server::serve(&dir);
    let told = || -> serde_json::Value {
        let ran = run_for(SOON, zoneweave().arg("status").arg(&dir).arg("--json"));
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let sum = |key: &str| {
        let members = told()["members"].as_array().unwrap().clone();
        members.iter().map(|member| member["identity_cache"][key].as_u64()).sum::<Option<u64>>()
    };
    let mut client = server.client();
    assert!(read_all(&mut client, content.len()) == content);
    assert!(until(SOON, || sum("misses").is_some_and(|misses| misses > 0)), "{}", told());
    let (misses, bytes) = (sum("misses"), sum("bytes"));
    assert!(bytes.is_some_and(|bytes| bytes > 0 && Some(bytes) < sum("bytes_max")), "{}", told());
    let hits = sum("hits");
    assert!(read_all(&mut client, content.len()) == content);
    assert!(until(SOON, || sum("hits") > hits), "{}", told());
    assert_eq!(sum("misses"), misses, "what was read before was read again: {}", told());
    let ratio = told()["members"][0]["identity_cache"]["hit_ratio"].as_f64();
    assert!(ratio.is_some_and(|ratio| ratio > 0.0 && ratio < 1.0), "{}", told());
    let words = run_for(SOON, zoneweave().arg("status").arg(&dir)).stdout;
    assert!(words.contains("cached, ") && words.contains(" % hits)"), "{words}");
}

#[test]
fn what_devices_hold_is_not_overwritten() {
    let scratch = Scratch::new("conventional");
    let devices = devices(&scratch, 3);
    let (dir, made) = create(&scratch, &devices, &["--zones", "40"]);
    assert_eq!(made.code(), Some(2), "{made}");
    // They have journals of their own.
    let (_, made) = create(&scratch, &devices, &["--identity-journal", "raw:a,raw:b,raw:c"]);
    assert_eq!(made.code(), Some(2), "{made}");
    assert!(made.to_string().contains("only zoned block devices without metadata"), "{made}");
    let missing = [devices[0].clone(), devices[1].clone(), scratch.join("none")];
    let (_, made) = create(&scratch, &missing, &[]);
    assert_eq!(made.code(), Some(6), "{made}");
    assert!(made.to_string().contains("truncate --size"), "{made}");
    // One drive under two names, and a directory: refused before anything is written.
    let alias = scratch.join("alias");
    std::os::unix::fs::symlink(&devices[0], &alias).unwrap();
    let refusals = [(alias, "are the same drive"), (scratch.path().to_owned(), "is a directory")];
    for (path, why) in refusals {
        let (_, made) = create(&scratch, &[devices[0].clone(), path, devices[2].clone()], &["--force"]);
        assert_eq!(made.code(), Some(2), "{made}");
        assert!(made.to_string().contains(why), "{made}");
        let first = std::fs::read(&devices[0]).unwrap();
        assert!(first.iter().all(|byte| *byte == 0), "{why}: something was written");
    }
    let (_, made) = create(&scratch, &devices, &[]);
    assert_eq!(made.code(), Some(0), "{made}");
    let other = scratch.join("other");
    let again = || {
        let mut command = zoneweave();
        command.arg("create").arg(&other).args(["--drives-path", &raw(&devices), "--zone-size", "4MiB"]);
        command
    };
    let refused = run_for(SOON, &mut again());
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert!(refused.to_string().contains("is a drive of Zoneweave"), "{refused}");
    let destroyed = run_for(SOON, zoneweave().arg("destroy").arg("--yes").arg(&dir));
    assert_eq!(destroyed.code(), Some(0), "{destroyed}");
    assert!(devices.iter().all(|path| path.exists()), "devices are wiped, not removed");
    let made = run_for(SOON, &mut again());
    assert_eq!(made.code(), Some(0), "{made}");
    let server = Server::serve(&other);
    let busy = run_for(SOON, again().arg("--force"));
    assert_ne!(busy.code(), Some(0), "{busy}");
    drop(server);
}
