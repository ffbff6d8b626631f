//! One walk with one seed on drives of all kinds: emulated, QEMU's with metadata, in-band on QEMU's and on null_blk, cut out of an NVMe disk and
//! out of a file. Statuses and states have to be the same, step by step. `cargo xtask guest` runs it.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::number_from;
use support::nvme::{self, WITH_METADATA, ZONED};
use support::run::run_for;
use support::scratch::Scratch;
use support::server::{ask, zoneweave};

/// Longest time of all checks of a drive.
const QUALIFICATION_MAX: Duration = Duration::from_secs(200);
const STEPS: usize = 400;
const PLAIN: &str = "logical_block_size=4096,physical_block_size=4096";
/// Without limits: when no more zones may be active, null_blk refuses to finish an empty one, which takes none.
const NULL_DISK: &str = "mount -t configfs none /sys/kernel/config
    cd /sys/kernel/config/nullb; mkdir nullb1; cd nullb1
    echo 1 > memory_backed; echo 4096 > blocksize; echo 1 > zoned; echo 512 > size; echo 16 > zone_size
    echo 12 > zone_capacity; echo 1 > power; cd /";

#[test]
fn drives_of_all_kinds_walk_alike() {
    if is_inside() {
        walk_alike();
    } else if is_asked_for(Kernel::Current, &[]) {
        let scratch = Scratch::new("differential");
        let formats = [format!("{WITH_METADATA},{ZONED}"), format!("{PLAIN},{ZONED}"), PLAIN.to_owned()];
        let device =
            |(index, format): (usize, &String)| nvme::drive(scratch.path(), index, 512 << 20, format);
        let devices = formats.iter().enumerate().flat_map(device).collect();
        let prepare = format!("{}\n{NULL_DISK}", nvme::wait_for(formats.len()));
        let name = "drives_of_all_kinds_walk_alike";
        let modules = "nvme null_blk";
        let inside =
            Inside { name, kernel: Kernel::Current, devices, modules, programs: &[], prepare: &prepare };
        run_inside(&scratch, inside);
    }
}

/// Node of the namespace of a controller with this number, which may have got another one.
fn namespace(index: usize, kind: &str) -> String {
    let is_it = |number: &usize| {
        let serial = std::fs::read_to_string(format!("/sys/class/nvme/nvme{number}/serial"));
        serial.is_ok_and(|serial| serial.trim() == format!("zns{index}"))
    };
    let number = (0..8).find(is_it).unwrap();
    format!("/dev/{kind}{number}n1")
}

/// Steps of a walk on a drive, which has to pass all checks.
fn walk(name: &str, path: &str) -> Vec<String> {
    let (trace, began) = (format!("/tmp/{name}.trace"), Instant::now());
    let (seed, steps) = (number_from("ZONEWEAVE_SEED", 26).to_string(), STEPS.to_string());
    let asked =
        ["drive", "qualify", path, "--destroy", "--seed", &seed, "--steps", &steps, "--trace", &trace];
    let ran = run_for(QUALIFICATION_MAX, zoneweave().args(asked));
    assert_eq!(ran.code(), Some(0), "{name}: {ran}");
    let steps: Vec<String> = std::fs::read_to_string(trace).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(steps.len(), STEPS, "{name}: {ran}");
    println!("- {name}: qualified in {:.1} s", began.elapsed().as_secs_f64());
    steps
}

fn walk_alike() {
    let emulated = ["drive", "create", "/tmp/emulated", "--zones", "32", "--zone-capacity", "12MiB"];
    ask(&emulated).expect("drive create");
    std::fs::File::create("/tmp/file").unwrap().set_len(640 << 20).unwrap();
    let rules = walk("emulated", "/tmp/emulated");
    let others = [
        ("qemu-metadata", namespace(0, "ng")),
        ("qemu-inband", namespace(1, "nvme")),
        ("null_blk-inband", "/dev/nullb1".to_owned()),
        ("nvme-cut", namespace(2, "nvme")),
        ("file-cut", "raw:/tmp/file".to_owned()),
    ];
    let mut unlike = Vec::new();
    for (name, path) in &others {
        let steps = walk(name, path);
        let differ: Vec<_> = rules.iter().zip(&steps).filter(|(rule, step)| rule != step).collect();
        println!("- {name}: {} of {STEPS} steps differ from those of an emulated drive", differ.len());
        for (rule, step) in differ.iter().take(3) {
            println!("- emulated  {rule}");
            println!("- {name}  {step}");
        }
        unlike.extend((!differ.is_empty()).then_some(*name));
    }
    assert!(unlike.is_empty(), "{unlike:?} differ");
    println!("- {} drives have the same statuses and states in {STEPS} steps", others.len() + 1);
}
