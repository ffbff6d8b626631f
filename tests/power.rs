//! Power cuts of a machine with an array on NVMe drives with zones, from outside and at random moments. `cargo xtask guest` runs it.
//!
//! ```text
//!   here:  writers and the ledger of what they were told ── TCP ──> there: zoneweave serve ──> four drives of QEMU
//!     └─── system_reset ──> QEMU, whose one process has the drives and the states of their zones
//! ```
//! What a cut is: the server and the kernel are gone in the middle of whatever they did; commands that drives had taken land or do not,
//! each by itself; zones stay open; the file system with `array.toml` was not unmounted. What it is not: the loss of a drive's
//! cache. QEMU's drives keep all that they were given, flushed or not, so more is asked here than the engine promises of drives with
//! a volatile cache: every acknowledged request is there afterwards. What caches lose is the simulator's.

#![allow(clippy::unwrap_used)]

mod support;

use base::random::Random;
use serde_json::Value;
use std::net::Shutdown;
use std::time::{Duration, Instant};
use support::machine::{Kernel, Machine, Parts, is_asked_for, is_short};
use support::nbd::Client;
use support::outside::{self, Outside};
use support::run::{SOON, run, until};
use support::scratch::Scratch;
use support::server::let_run;
use support::writer::{BLOCKS_OF_MACHINE, Oracle};
use support::{nvme, random, text};

const DRIVES: usize = 4;
/// Small, so that the collector is at work.
const DRIVE_BYTES: u64 = 512 << 20;
const PORT: u16 = 10_809;

/// Longest time from a cut until the volume is served.
const BOOT_MAX: Duration = Duration::from_secs(300);

/// Script of each start of the machine.
fn script() -> String {
    let zoneweave = env!("CARGO_BIN_EXE_zoneweave");
    let nodes = (0..DRIVES).map(|index| format!("/dev/ng{index}n1")).collect::<Vec<_>>().join(",");
    format!(
        "{network}; {wait}
         mount -t ext4 /dev/vda /m; ln -s {zoneweave} /bin/zoneweave
         [ -f /m/array/array.toml ] || zoneweave create /m/array --drives-path {nodes} --size 256MiB; sync
         echo booted. $(cat /proc/uptime)
         zoneweave serve /m/array --listen tcp:0.0.0.0:{PORT} &
         {obey}",
        network = outside::NETWORK,
        wait = nvme::wait_for(DRIVES),
        obey = outside::OBEY,
    )
}

/// A machine under load, and what its clients know.
struct Cut {
    machine: Machine,
    outside: Outside,
    oracle: Oracle,
    random: Random,
    /// Volumes that were served so far.
    served: usize,
    acknowledged: u64,
    /// Blocks that were compared with the write that was acknowledged last before a cut.
    compared: usize,
    cuts: u64,
}

impl Cut {
    fn console(&self) -> String {
        self.machine.console()
    }

    fn client(&self) -> std::io::Result<(Client, std::net::TcpStream)> {
        Client::open_tcp(("127.0.0.1", self.outside.port))
    }

    /// Waits until the volume is served by the machine that started last.
    #[track_caller]
    fn wait_for_service(&mut self) {
        let count = |console: &str| console.matches("MiB at nbd://").count();
        let served = self.served;
        assert!(
            until(BOOT_MAX, || count(&self.machine.console()) > served),
            "it does not serve:\n{}",
            self.console()
        );
        self.served = count(&self.console());
    }

    /// Writes, and cuts the power at a random moment; returns requests that were acknowledged before.
    fn write_and_cut(&mut self) -> u64 {
        let mut handles = Vec::new();
        let address = ("127.0.0.1", self.outside.port);
        let writers = self.oracle.write_with(&mut self.random, &mut || {
            let (client, handle) = Client::open_tcp(address).unwrap();
            handles.push(handle);
            client
        });
        writers.wait_until_acknowledged(|| self.console());
        let_run(Duration::from_millis(self.random.below(1000)));
        self.outside.cut_power();
        // Nobody is there who would close the connections.
        handles.iter().for_each(|handle| drop(handle.shutdown(Shutdown::Both)));
        let acknowledged = self.oracle.join(writers);
        self.acknowledged += acknowledged;
        self.cuts += 1;
        acknowledged
    }

    /// Cuts the power once more, while the array is mounted or the machine starts.
    fn cut_early(&mut self) {
        let booted = self.console().matches("booted.").count();
        assert!(until(BOOT_MAX, || self.console().matches("booted.").count() > booted), "{}", self.console());
        let_run(Duration::from_millis(self.random.below(1500)));
        self.outside.cut_power();
        self.cuts += 1;
        let_run(Duration::from_millis(200));
        self.served = self.console().matches("MiB at nbd://").count();
    }

    /// Every block holds what it may.
    fn verify(&mut self) {
        let (mut client, _) = self.client().unwrap();
        if let Err(wrong) = self.oracle.verify_with(&mut client) {
            panic!("{wrong}\n{}", self.console());
        }
    }

    /// A round: writes, a cut, and a comparison. Every fourth is cut again while it mounts.
    fn round(&mut self, name: &str) {
        let began = Instant::now();
        let acknowledged = self.write_and_cut();
        let compared = self.oracle.blocks_acknowledged_last();
        assert!(
            compared > 0,
            "{acknowledged} requests were acknowledged, and none of them wrote a block that is left"
        );
        let again = self.cuts % 5 == 4;
        if again {
            self.cut_early();
        }
        self.wait_for_service();
        let served = began.elapsed();
        self.verify();
        self.compared += compared;
        println!(
            "- cut {}, {name}{}: {acknowledged} requests acknowledged before, the {compared} blocks that they wrote are there, served after \
             {:.1} s of {:.1} s",
            self.cuts,
            if again { ", and again while it mounts" } else { "" },
            served.as_secs_f64(),
            began.elapsed().as_secs_f64(),
        );
    }

    /// Lets the machine run a command.
    #[track_caller]
    fn run(&self, line: &str) -> String {
        let (said, code) = self.outside.run(SOON * 2, || self.machine.console(), line);
        assert_eq!(code, 0, "`{line}` ended with {code}:\n{said}\n{}", self.console());
        said
    }

    #[track_caller]
    fn status(&self) -> Value {
        let (said, code) =
            self.outside.run(SOON, || self.machine.console(), "zoneweave status /m/array --json");
        assert!(matches!(code, 0 | 3), "status ended with {code}:\n{said}");
        let begin = said.find('{').unwrap_or_else(|| panic!("no status:\n{said}"));
        let end = said.rfind('}').unwrap();
        serde_json::from_str(&said[begin..=end]).unwrap_or_else(|error| panic!("{error}:\n{said}"))
    }
}

fn boot(scratch: &Scratch) -> Cut {
    let state = scratch.join("state.img");
    std::fs::File::create(&state).unwrap().set_len(64 << 20).unwrap();
    run("mkfs.ext4", &["-q", "-F", text(&state)]).expect("mkfs.ext4");
    let format = format!("{},{}", nvme::WITH_METADATA, nvme::ZONED);
    let mut devices: Vec<String> =
        (0..DRIVES).flat_map(|index| nvme::drive(scratch.path(), index, DRIVE_BYTES, &format)).collect();
    let outside = Outside::new(scratch.path());
    devices.extend(outside.options(PORT));
    devices.extend(
        [
            "-drive",
            &format!("file={},id=state,format=raw,if=none", text(&state)),
            "-device",
            "virtio-blk-pci,drive=state",
        ]
        .map(str::to_owned),
    );
    let modules = format!("{} virtio_blk ext4 crc32c_generic nvme", outside::MODULES);
    let machine = Machine::of(
        scratch.path(),
        &Parts {
            kernel: Kernel::Current,
            memory_mib: 1024,
            devices,
            modules: &modules,
            programs: &[],
            files: &[env!("CARGO_BIN_EXE_zoneweave").as_ref()],
            script: &script(),
        },
    );
    let random = random(26);
    Cut {
        machine,
        outside,
        oracle: Oracle::of(BLOCKS_OF_MACHINE),
        random,
        served: 0,
        acknowledged: 0,
        compared: 0,
        cuts: 0,
    }
}

#[test]
fn what_was_acknowledged_outlives_power_cuts() {
    if !is_asked_for(Kernel::Current, &["mkfs.ext4"]) {
        return;
    }
    let (whole, degraded, caught_up) = if is_short() { (1, 1, 0) } else { (12, 5, 3) };
    let began = Instant::now();
    let scratch = Scratch::new("power");
    let mut cut = boot(&scratch);
    cut.wait_for_service();
    for _ in 0..whole {
        cut.round("whole");
    }
    cut.run("zoneweave drive fail /m/array 2");
    for _ in 0..degraded {
        cut.round("degraded");
        assert_eq!(cut.status()["state"], "degraded");
    }
    for _ in 0..caught_up {
        if cut.status()["state"] == "degraded" {
            cut.run("zoneweave drive re-add /m/array 2");
        }
        cut.round("while a drive is caught up");
    }
    if cut.status()["state"] == "degraded" {
        cut.run("zoneweave drive re-add /m/array 2");
    }
    assert!(until(SOON * 2, || cut.status()["state"] == "clean"), "{:#}", cut.status());
    cut.verify();
    cut.run("zoneweave stop /m/array && zoneweave check /m/array");
    println!(
        "- {} cuts in {:.0} s, {} acknowledged requests, {} blocks of them compared, and `check` is clean",
        cut.cuts,
        began.elapsed().as_secs_f64(),
        cut.acknowledged,
        cut.compared
    );
}
