//! An array of the version before random write areas, and its drive files: served as they are, without areas.
//!
//! `golden/before-areas.tar.xz` was made by the program of commit 28202233, the last whose drives had no random write areas:
//!
//! ```text
//! create --size 16MiB --zone-capacity 512KiB
//! write blocks 0..512 as version 1, 16 at a time; every third one as 2; trim 96..128; flush; write 256..272 as 3, one by one; kill -9
//! ```
//! Each word of a block is its address times 65,536, and its version.

use crate::support::run::{SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, assert_clean, check, refused, status};
use crate::support::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64};
use crate::support::text;
use std::path::{Path, PathBuf};

const ARCHIVE: &[u8] = include_bytes!("golden/before-areas.tar.xz");
/// Blocks of the volume.
const BLOCKS: u64 = 4096;
/// Versions of the format in headers of drive files (docs/FORMAT.md).
const WITHOUT_AREAS: u8 = 1;
const VERSION_AT: usize = 8;

fn unpack(scratch: &Scratch) -> PathBuf {
    let dir = scratch.join("a");
    let mut unpacked = Vec::new();
    lzma_rs::xz_decompress(&mut &ARCHIVE[..], &mut unpacked).expect("an archive");
    tar::Archive::new(&unpacked[..]).unpack(&dir).expect("an archive");
    dir
}

fn block(lba: u64, version: u64) -> Vec<u8> {
    let word = if version == 0 { 0 } else { lba << 16 | version };
    word.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

/// Version of each block that the archive holds.
fn versions() -> Vec<u64> {
    let version = |lba: u64| match lba {
        96..128 | 512.. => 0,
        256..272 => 3,
        _ if lba.is_multiple_of(3) => 2,
        _ => 1,
    };
    (0..BLOCKS).map(version).collect()
}

#[track_caller]
fn verify(server: &Server, versions: &[u64]) {
    let data = server.client().read(0, u32::try_from(BLOCKS * BLOCK_BYTES_U64).unwrap()).expect("the volume");
    let blocks = (0..).zip(versions).zip(data.chunks(BLOCK_BYTES));
    let wrong: Vec<u64> = blocks
        .filter(|((lba, version), data)| block(*lba, **version) != *data)
        .map(|((lba, _), _)| lba)
        .collect();
    assert!(wrong.is_empty(), "blocks {wrong:?}\n{}", server.log());
}

/// Writes blocks anew, in requests of one and of sixteen.
fn write(server: &Server, versions: &mut [u64], version: u64) {
    let mut client = server.client();
    for (first, blocks) in [(0, 1), (64, 16), (300, 1), (600, 16)] {
        let data: Vec<u8> = (first..first + blocks).flat_map(|lba| block(lba, version)).collect();
        client.write(first * BLOCK_BYTES_U64, &data).unwrap();
        (first..first + blocks).for_each(|lba| versions[usize::try_from(lba).unwrap()] = version);
    }
    client.flush().unwrap();
}

#[track_caller]
fn assert_without_areas(dir: &Path) {
    for drive in 0..4 {
        let bytes = std::fs::read(dir.join(format!("drive-{drive}.zns"))).unwrap();
        assert_eq!(bytes[VERSION_AT], WITHOUT_AREAS, "drive {drive}");
    }
}

#[test]
fn an_array_from_before_areas_is_served_as_it_is() {
    let scratch = Scratch::new("beforeareas");
    let dir = unpack(&scratch);
    assert_without_areas(&dir);
    let (code, report) = check(&dir);
    assert_eq!((code, report["problems"].as_array().map(Vec::len)), (Some(0), Some(0)), "{report:#}");
    let mut versions = versions();
    let server = Server::serve(&dir);
    verify(&server, &versions);
    assert!(status(&dir)["write_area"].is_null(), "{}", status(&dir));
    write(&server, &mut versions, 4);
    server.kill_9();
    refused(&["serve", text(&dir), "--write-area", "1"], 2, "no random write areas");
    let server = Server::serve_with(&dir, &["--write-area", "auto"]);
    verify(&server, &versions);
    assert_eq!(status(&dir)["write_area"]["zones_per_drive"], 0, "{}", status(&dir));
    write(&server, &mut versions, 5);
    server.stop();
    assert_clean(&dir);
    assert_without_areas(&dir);
}

#[test]
fn an_array_from_before_areas_loses_a_drive_and_gets_one_of_today() {
    let scratch = Scratch::new("beforeareaslost");
    for lost in 0..4 {
        let _none_the_first_time = std::fs::remove_dir_all(scratch.join("a"));
        let dir = unpack(&scratch);
        std::fs::remove_file(dir.join(format!("drive-{lost}.zns"))).unwrap();
        let mut versions = versions();
        let server = Server::serve_degraded(&dir);
        verify(&server, &versions);
        write(&server, &mut versions, 6);
        ask(&["drive", "replace", text(&dir), &lost.to_string()]).expect("drive replace");
        assert!(until(SOON, || status(&dir)["state"] == "clean"), "{:#}", status(&dir));
        verify(&server, &versions);
        server.stop();
        assert_clean(&dir);
        // Another one is lost.
        std::fs::remove_file(dir.join(format!("drive-{}.zns", (lost + 1) % 4))).unwrap();
        let server = Server::serve_degraded(&dir);
        verify(&server, &versions);
        server.stop();
    }
}
