//! The model against what was measured, and its laws: determinism, precedence, conservation.
//! Tolerances are those of single numbers; `lab characterise --compare` has the whole picture.

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;
/// SPDK's gap between a completion and the next submission.
const THINK: u64 = 380;

fn model(profile: &str, seed: u64) -> Model {
    Model::new(&Profile::named(profile).unwrap(), ModelOptions { seed, ..ModelOptions::default() })
}

/// Measurements of one stream of a closed loop.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stream {
    /// Completions with their latencies, in nanoseconds.
    done: Vec<(u64, u64)>,
}

impl Stream {
    fn mean_us(&self) -> f64 {
        self.done.iter().map(|(_, latency)| *latency as f64).sum::<f64>() / self.done.len() as f64 / 1000.0
    }

    fn percentile_us(&self, percent: usize) -> f64 {
        let mut latencies: Vec<u64> = self.done.iter().map(|(_, latency)| *latency).collect();
        latencies.sort_unstable();
        latencies[latencies.len() * percent / 100] as f64 / 1000.0
    }

    fn per_second(&self, bytes: u64, from: u64, to: u64) -> f64 {
        let count = self.done.iter().filter(|(at, _)| (from..to).contains(at)).count();
        count as f64 * bytes as f64 / ((to - from) as f64 / 1e9)
    }
}

/// Keeps `depths[stream]` commands of each stream in flight from `start` until `end`.
fn run(
    model: &mut Model,
    (start, end): (u64, u64),
    depths: &[u32],
    mut next: impl FnMut(usize, u64) -> Access,
) -> Vec<Stream> {
    let mut streams = vec![Stream::default(); depths.len()];
    let mut begun: Vec<(usize, u64)> = Vec::new();
    let mut counts = vec![0; depths.len()];
    let mut asks: Vec<(u64, usize)> = Vec::new();
    for (stream, depth) in depths.iter().enumerate() {
        asks.extend((0..u64::from(*depth)).map(|place| (start + place * 10, stream)));
    }
    let mut done = Vec::new();
    loop {
        let ask = asks.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
        let event = model.next_event().map_or(u64::MAX, |at| at.0);
        let now = ask.min(event);
        if now > end {
            return streams;
        }
        model.advance(Instant(now), &mut done);
        for Done { tag, at } in done.drain(..) {
            let (stream, asked) = begun[usize::try_from(tag).unwrap()];
            streams[stream].done.push((at.0, at.0 - asked));
            asks.push((at.0 + THINK, stream));
        }
        while let Some(place) = asks.iter().position(|(at, _)| *at <= now) {
            let (_, stream) = asks.remove(place);
            begun.push((stream, now));
            let access = next(stream, counts[stream]);
            counts[stream] += 1;
            model.submit(Instant(now), begun.len() as u64 - 1, access);
        }
    }
}

/// Returns how long one command takes on an idle drive, in microseconds.
fn lone(model: &mut Model, access: Access) -> f64 {
    let now = model.core.now;
    let mut done = Vec::new();
    model.submit(Instant(now), 0, access);
    while done.is_empty() {
        model.advance(model.next_event().unwrap(), &mut done);
    }
    (done[0].at.0 - now) as f64 / 1000.0
}

fn mean(count: u32, mut measure: impl FnMut() -> f64) -> f64 {
    (0..count).map(|_| measure()).sum::<f64>() / f64::from(count)
}

#[track_caller]
fn near(model: f64, measured: f64, tolerance: f64) {
    assert!((model / measured - 1.0).abs() <= tolerance, "{model}, measured {measured}");
}

fn writes(bytes: u64) -> impl FnMut(usize, u64) -> Access {
    move |stream, count| Access::Write {
        zone: u32::try_from(stream).unwrap(),
        offset_bytes: count * bytes,
        bytes,
    }
}

fn appends(bytes: u64) -> impl FnMut(usize, u64) -> Access {
    move |stream, _| Access::Append { zone: u32::try_from(stream).unwrap(), bytes }
}

fn random_reads(bytes: u64) -> impl FnMut(usize, u64) -> Access {
    let mut random = base::random::Random::from_seed(5);
    move |_, _| Access::Read { zone: 50, offset_bytes: random.below(200_000) * 4096, bytes }
}

#[test]
fn lone_commands_take_what_was_measured() {
    let qd1 = |access: &mut dyn FnMut(usize, u64) -> Access| {
        run(&mut model("zn540-1tb", 1), (0, 100 * MS), &[1], access)[0].clone()
    };
    let write = qd1(&mut writes(4 * KIB));
    near(write.mean_us(), 11.36, 0.02);
    near(write.per_second(1, 0, 100 * MS), 85_170.0, 0.02);
    near(qd1(&mut appends(4 * KIB)).mean_us(), 14.83, 0.02);
    near(qd1(&mut appends(8 * KIB)).mean_us(), 14.02, 0.02);
    near(qd1(&mut random_reads(4 * KIB)).mean_us(), 72.6, 0.02);
    near(qd1(&mut random_reads(16 * KIB)).mean_us(), 101.6, 0.02);
    let sequential = qd1(&mut |_, count| Access::Read { zone: 3, offset_bytes: count * 4096, bytes: 4096 });
    near(sequential.mean_us(), 7.56, 0.03);
}

#[test]
fn the_drive_saturates_where_it_was_measured_to() {
    let span = (0, 300 * MS);
    let rate = |depths: &[u32], bytes: u64, access: &mut dyn FnMut(usize, u64) -> Access| {
        let streams = run(&mut model("zn540-1tb", 2), span, depths, access);
        streams.iter().map(|stream| stream.per_second(bytes, 100 * MS, 300 * MS)).sum::<f64>()
    };
    near(rate(&[1; 8], 1, &mut writes(4 * KIB)), 186_050.0, 0.03);
    near(rate(&[1; 2], 1, &mut writes(4 * KIB)), 141_650.0, 0.03);
    near(rate(&[8], 1, &mut appends(4 * KIB)), 132_300.0, 0.03);
    near(rate(&[1; 8], 1, &mut appends(4 * KIB)), 134_290.0, 0.03);
    near(rate(&[128], 1, &mut random_reads(4 * KIB)), 424_560.0, 0.03);
    near(rate(&[1; 8], 128 * KIB, &mut writes(128 * KIB)), 1155.0 * MIB as f64, 0.02);
}

#[test]
fn resets_cost_by_what_the_host_wrote_and_finished_zones_cost_less() {
    let mut drive = model("zn540-1tb", 3);
    let capacity = drive.profile().geometry.zone_capacity_bytes;
    let mut reset = |written: u64, condition: ZoneCondition| {
        mean(2000, || {
            drive.preset_zone(1, written, condition);
            lone(&mut drive, Access::Reset { zone: 1 })
        })
    };
    near(reset(capacity, ZoneCondition::Written), 16_187.0, 0.02);
    near(reset(capacity / 2, ZoneCondition::Open), 11_608.0, 0.02);
    near(reset(capacity / 2, ZoneCondition::Finished), 8_523.0, 0.02);
    near(reset(4096, ZoneCondition::Open), 1_686.0, 0.02);
    near(reset(0, ZoneCondition::Empty), 1_615.0, 0.02);
}

#[test]
fn a_finish_programs_what_is_missing() {
    let mut drive = model("zn540-1tb", 4);
    let capacity = drive.profile().geometry.zone_capacity_bytes;
    for (written, measured_us) in [(4096, 907_507.0), (capacity / 16, 848_266.0), (capacity / 2, 456_759.0)] {
        drive.preset_zone(1, written, ZoneCondition::Open);
        let before = drive.bytes_programmed();
        near(lone(&mut drive, Access::Finish { zone: 1 }), measured_us, 0.01);
        let padded = drive.bytes_programmed() - before;
        assert!((capacity - written..capacity - written + 192 * KIB).contains(&padded));
        lone(&mut drive, Access::Reset { zone: 1 });
    }
    drive.preset_zone(1, 0, ZoneCondition::Open);
    near(lone(&mut drive, Access::Finish { zone: 1 }), 13.5, 0.1);
}

/// The padding of a finish gives way to writes, and is done all the same.
#[test]
fn a_finish_beside_writes_waits_for_them() {
    let mut drive = model("zn540-1tb", 5);
    let capacity = drive.profile().geometry.zone_capacity_bytes;
    drive.preset_zone(20, capacity / 10 * 9, ZoneCondition::Open);
    let streams = run(&mut drive, (0, 800 * MS), &[1, 1, 1, 1, 1], |stream, _| match stream {
        4 => Access::Finish { zone: 20 },
        _ => Access::Append { zone: u32::try_from(stream).unwrap(), bytes: 128 * KIB },
    });
    let rate: f64 = streams[..4].iter().map(|stream| stream.per_second(128 * KIB, 300 * MS, 800 * MS)).sum();
    assert!(rate > 1100.0 * MIB as f64, "writes lose next to nothing: {rate}");
    let alone_us = 90_000.0 + 9_000.0;
    assert!(streams[4].done.first().is_none_or(|(_, latency)| *latency as f64 / 1000.0 > 3.0 * alone_us));
    let mut done = Vec::new();
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut done);
    }
    assert!(!done.is_empty(), "with the writes gone the finish comes to its end");
}

#[test]
fn reads_wait_behind_a_deep_queue_of_writes() {
    let mut drive = model("zn540-1tb", 6);
    drive.prefill_write_buffer();
    let mut reads = random_reads(4 * KIB);
    let streams = run(&mut drive, (0, 2000 * MS), &[32, 32, 32, 32, 1], |stream, count| match stream {
        4 => reads(stream, count),
        _ => Access::Append { zone: u32::try_from(stream).unwrap(), bytes: MIB },
    });
    near(streams[4].percentile_us(50), 94_900.0, 0.05);
}

#[test]
fn a_read_interrupts_programs() {
    let mut reads = random_reads(4 * KIB);
    let mut drive = model("zn540-1tb", 7);
    let beside = run(&mut drive, (0, 1000 * MS), &[2, 1], |stream, count| match stream {
        0 => Access::Append { zone: 0, bytes: 32 * KIB },
        _ => reads(stream, count),
    });
    let p95 = beside[1].percentile_us(95);
    assert!((250.0..400.0).contains(&p95), "a program takes 2500 us, a read 310: {p95}");
}

#[test]
fn a_seed_is_a_run_and_another_seed_differs_in_noise_only() {
    let trace = |seed: u64| {
        let mut reads = random_reads(4 * KIB);
        run(&mut model("zn540-1tb", seed), (0, 50 * MS), &[4, 1, 8], |stream, count| match stream {
            0 => Access::Append { zone: 0, bytes: 16 * KIB },
            1 => Access::Write { zone: 1, offset_bytes: 0, bytes: 4 * KIB },
            _ => reads(stream, count),
        })
    };
    let (first, again, other) = (trace(1), trace(1), trace(2));
    assert_eq!(first, again);
    assert_ne!(first, other);
    near(first[1].percentile_us(50), other[1].percentile_us(50), 0.03);
    near(first[0].done.len() as f64, other[0].done.len() as f64, 0.03);
}

#[test]
fn when_it_is_asked_changes_nothing() {
    let outcome = |steps: u64| {
        let mut drive = model("zn540-1tb", 8);
        let mut done = Vec::new();
        for tag in 0..200 {
            drive.submit(Instant(tag * 3_000), tag, Access::Append { zone: 2, bytes: 64 * KIB });
            drive.submit(
                Instant(tag * 3_000),
                1000 + tag,
                Access::Read { zone: 9, offset_bytes: tag * 77 * 4096, bytes: 4096 },
            );
        }
        for step in 1..=steps {
            drive.advance(Instant(100 * MS * step / steps), &mut done);
        }
        assert_eq!(drive.next_event(), None, "everything has settled");
        done
    };
    let done = outcome(1);
    assert_eq!(done.len(), 400);
    assert!(done.is_sorted_by_key(|done| done.at));
    assert_eq!(done, outcome(1000));
}

#[test]
fn figure_7_is_only_there_on_demand() {
    let reset_beside_writes = |fig7_host_artefact: bool| {
        let options = ModelOptions { fig7_host_artefact, ..ModelOptions::default() };
        let mut drive = Model::new(&Profile::named("zn540-1tb").unwrap(), options);
        let capacity = drive.profile().geometry.zone_capacity_bytes;
        for zone in 100..300 {
            drive.preset_zone(zone, capacity, ZoneCondition::Written);
        }
        let mut streams = run(&mut drive, (0, 2000 * MS), &[1, 1], |stream, count| match stream {
            0 => Access::Write { zone: 0, offset_bytes: 0, bytes: 4 * KIB },
            _ => Access::Reset { zone: 100 + u32::try_from(count).unwrap() },
        });
        (streams[0].mean_us(), streams.remove(1).percentile_us(95))
    };
    let (write, reset) = reset_beside_writes(false);
    near(reset, 17_940.0, 0.04);
    near(write, 11.36, 0.02);
    let (write, reset) = reset_beside_writes(true);
    near(reset, 32_000.0, 0.05);
    near(write, 11.36, 0.02);
}

#[test]
fn small_blocks_are_slow_and_one_at_a_time() {
    let options = ModelOptions { lba_format: LbaFormat::Bytes512, ..ModelOptions::default() };
    let mut drive = Model::new(&Profile::named("zn540-1tb").unwrap(), options);
    let streams = run(&mut drive, (0, 300 * MS), &[1; 8], writes(512));
    near(streams.iter().map(|stream| stream.per_second(1, 0, 300 * MS)).sum(), 39_800.0, 0.06);
    drive.advance(Instant(301 * MS), &mut Vec::new());
    let streams = run(&mut drive, (301 * MS, 400 * MS), &[1], writes(8 * KIB));
    near(streams[0].mean_us(), 11.32, 0.02);
}

#[test]
fn the_random_write_area_absorbs_rewrites_and_commits_what_falls_out() {
    let mut drive = model("zn540-4tb", 9);
    lone(&mut drive, Access::ZrwaOpen { zone: 0 });
    lone(&mut drive, Access::ZrwaOpen { zone: 1 });
    let area = |offset_bytes: u64| Access::Write { zone: 0, offset_bytes, bytes: 16 * KIB };
    for _ in 0..20 {
        for offset in (0..MIB).step_by(16 << 10) {
            lone(&mut drive, area(offset));
        }
    }
    let settle = |drive: &mut Model| drive.advance(Instant(drive.core.now + 20 * MS), &mut Vec::new());
    settle(&mut drive);
    assert_eq!(drive.bytes_programmed(), 0, "20 MiB of rewrites stay in the area");
    for offset in (MIB..3 * MIB).step_by(16 << 10) {
        lone(&mut drive, area(offset));
    }
    settle(&mut drive);
    assert_eq!(drive.bytes_programmed() / (192 * KIB), 2 * MIB / (192 * KIB));
    lone(&mut drive, Access::ZrwaCommit { zone: 0, end_bytes: 3 * MIB });
    settle(&mut drive);
    assert_eq!(drive.bytes_programmed() / (192 * KIB), 16);
    let streams = run(&mut drive, (MS * 1000, MS * 1200), &[8], |_, count| Access::Write {
        zone: 1,
        offset_bytes: count * 4096,
        bytes: 4096,
    });
    near(streams[0].per_second(4096, 1050 * MS, 1200 * MS), 700e6, 0.03);
}

#[test]
fn zones_of_different_channel_groups_do_not_share_bandwidth() {
    let rate = |second_zone: u32| {
        let mut drive = model("zn540-4tb", 10);
        drive.prefill_write_buffer();
        let streams = run(&mut drive, (0, 500 * MS), &[1, 1], |stream, _| Access::Write {
            zone: if stream == 0 { 0 } else { second_zone },
            offset_bytes: 0,
            bytes: 64 * KIB,
        });
        streams.iter().map(|stream| stream.per_second(64 * KIB, 100 * MS, 500 * MS)).sum()
    };
    near(rate(2), 1092e6, 0.03);
    near(rate(1), 2170e6, 0.03);
}

#[test]
fn a_conventional_drive_falters_and_a_zoned_one_does_not() {
    let halves = |name: &str| {
        let mut drive = model(name, 11);
        drive.prefill_write_buffer();
        let mut random = base::random::Random::from_seed(1);
        let streams = run(&mut drive, (0, 6000 * MS), &[32], |_, _| Access::Write {
            zone: 0,
            offset_bytes: random.below(60_000) * MIB,
            bytes: MIB,
        });
        (2..12)
            .map(|half| streams[0].per_second(1, half * 500 * MS, (half + 1) * 500 * MS))
            .collect::<Vec<f64>>()
    };
    let spread = |rates: &[f64]| {
        let highest = rates.iter().copied().fold(0.0, f64::max);
        rates.iter().copied().fold(f64::MAX, f64::min) / highest
    };
    assert!(spread(&halves("zn540-1tb")) > 0.95);
    let conventional = halves("conventional-nvme");
    assert!(spread(&conventional) < 0.3, "{conventional:?}");
    near(conventional.iter().sum::<f64>() / 10.0, 561.0, 0.15);
}

#[test]
fn without_a_buffer_a_write_takes_its_pages() {
    let mut drive = model("femu-zapraid", 12);
    near(lone(&mut drive, Access::Append { zone: 0, bytes: 4096 }), 145.0, 0.02);
    let streams = run(&mut drive, (MS, 300 * MS), &[64], appends(4 * KIB));
    near(streams[0].per_second(4096, 50 * MS, 300 * MS), 446.4 * MIB as f64, 0.02);
}

/// More zones with unfinished units than the buffer has space for.
#[test]
fn unfinished_units_do_not_block_the_drive() {
    let mut drive = model("zn540-1tb", 13);
    for zone in 0..500 {
        lone(&mut drive, Access::Append { zone, bytes: 64 * KIB });
    }
    assert!(drive.bytes_programmed() > 0);
}

#[test]
fn large_reads_use_several_dies() {
    let mut drive = model("zn540-1tb", 14);
    let mut random = base::random::Random::from_seed(3);
    let mut read = |bytes: u64| {
        mean(200, || {
            let offset_bytes = random.below(900) * MIB + 4096;
            lone(&mut drive, Access::Read { zone: 1, offset_bytes, bytes })
        })
    };
    let (small, large) = (read(64 * KIB), read(512 * KIB));
    assert!(large < 4.0 * small, "eight times the data: {small} and {large} us");
}
