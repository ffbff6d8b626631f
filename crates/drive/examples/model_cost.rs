//! What the timing model costs: seconds of one core per second of a modelled drive under full load.
//!
//! `cargo run --release -p zoneweave-drive --example model_cost`

use base::random::Random;
use base::time::Instant;
use drive::timing::{Access, Done, Model, ModelOptions, Profile};

fn main() {
    println!("{:44} {:>9} {:>12}", "ZN540 1 TB", "KIOPS", "core seconds");
    let mut random = Random::from_seed(1);
    measure("random reads of 4 KiB, 128 in flight", 128, |_| Access::Read {
        zone: 50,
        offset_bytes: random.below(200_000) * 4096,
        bytes: 4096,
    });
    let zone = |tag: u64| u32::try_from(tag % 8).unwrap_or(0);
    measure("writes of 4 KiB to 8 zones", 8, |tag| Access::Write {
        zone: zone(tag),
        offset_bytes: 0,
        bytes: 4096,
    });
    measure("appends of 4 KiB to 8 zones, 64 in flight", 64, |tag| Access::Append {
        zone: zone(tag),
        bytes: 4096,
    });
    measure("writes of 128 KiB to 8 zones", 8, |tag| Access::Write {
        zone: zone(tag),
        offset_bytes: 0,
        bytes: 128 << 10,
    });
    let mut random = Random::from_seed(2);
    measure("32 random reads beside 4 writes of 64 KiB", 36, |tag| {
        if tag < 4 {
            Access::Write { zone: zone(tag), offset_bytes: 0, bytes: 64 << 10 }
        } else {
            Access::Read { zone: 50, offset_bytes: random.below(200_000) * 4096, bytes: 4096 }
        }
    });
}

/// Measures a second of a closed loop without a host, after a tenth to warm up.
fn measure(what: &str, depth: u64, mut access: impl FnMut(u64) -> Access) {
    let Some(profile) = Profile::named("zn540-1tb") else { return };
    let mut model = Model::new(&profile, ModelOptions::default());
    let mut done = Vec::new();
    for tag in 0..depth {
        model.submit(Instant(tag), tag, access(tag));
    }
    let mut loop_until = |end: u64| {
        let mut count = 0_u64;
        while let Some(now) = model.next_event().filter(|at| at.0 < end) {
            model.advance(now, &mut done);
            for Done { tag, at } in done.drain(..) {
                count += 1;
                model.submit(at, tag, access(tag));
            }
        }
        count
    };
    loop_until(100_000_000);
    let started = std::time::Instant::now();
    let count = loop_until(1_100_000_000);
    println!("{what:44} {:9.1} {:12.3}", count as f64 / 1000.0, started.elapsed().as_secs_f64());
}
