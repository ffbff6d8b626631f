//! fio's own verification, over the whole device and with mixed sizes and trims.
//!
//! fio 3.33 crashes by itself with `trim_percentage` and verification over NBD ("double free");
//! `randtrimwrite` trims every block before it writes it and works.

use crate::support::have;
use crate::support::run::{SOON, command, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, status};

/// Runs a job over all of a new array of `size` and checks the array afterwards.
fn verify(name: &str, size: &str, jobs: &[&[&str]]) {
    if !have(&["fio"]) {
        return;
    }
    let scratch = Scratch::new(name);
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", size]);
    for job in jobs {
        let mut fio = command("fio");
        // Its state files would land in the current folder.
        fio.current_dir(scratch.path()).args(["--name=job", "--ioengine=nbd"]);
        // The engine comes before its options.
        fio.arg(format!("--uri={}", server.uri()));
        fio.args(["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"]);
        run_for(SOON * 3, fio.args(["--do_verify=1"]).args(*job)).expect("fio");
    }
    let counted = status(&dir);
    assert_eq!(counted["corrected_errors"], 0, "{counted:#}");
    assert_eq!(counted["unreadable_blocks"], 0, "{counted:#}");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn random_4k_writes_over_the_whole_device() {
    // Twice over, so that the second pass makes garbage to be collected.
    let job = ["--rw=randwrite", "--bs=4k", "--iodepth=64", "--size=256m"];
    verify("fio4k", "256MiB", &[&job, &job]);
}

#[test]
fn mixed_sizes_reads_and_trims() {
    let mixed = ["--rw=randrw", "--bssplit=4k/60:64k/30:1m/10", "--iodepth=32", "--size=256m"];
    let trims = ["--rw=randtrimwrite", "--bs=64k", "--iodepth=16", "--size=256m"];
    let small_trims = ["--rw=randtrimwrite", "--bs=4k", "--iodepth=32", "--size=64m"];
    verify("fiomix", "256MiB", &[&mixed, &trims, &small_trims, &mixed]);
}

#[test]
fn sequential_and_unaligned() {
    let sequential = ["--rw=write", "--bs=1m", "--iodepth=8", "--size=128m"];
    // Parts of blocks, next to each other and in flight together.
    let unaligned = ["--rw=randwrite", "--bs=3k", "--iodepth=16", "--size=48m"];
    let large = ["--rw=randwrite", "--bs=516k", "--iodepth=16", "--size=100m"];
    verify("fioseq", "128MiB", &[&sequential, &unaligned, &large]);
}
