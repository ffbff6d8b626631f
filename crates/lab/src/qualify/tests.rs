//! Drives that pass, and drives with faults, each of which some check has to find.

use super::{Options, Outcome, Report, run};
use base::time::Instant;
use drive::emulated::{AppendOrder, EmulatedDrive};
use zone::device::{Command, Completion, Geometry, Op, Status, ZonedDevice};

const OPTIONS: Options = Options { seed: 5, steps: 3000 };

fn geometry() -> Geometry {
    Geometry {
        zones: 12,
        zone_size_blocks: 128,
        zone_capacity_blocks: 96,
        open_zones_max: 3,
        active_zones_max: 5,
        append_blocks_max: 12,
        transfer_blocks_max: 24,
        volatile_cache: false,
        areas: None,
    }
}

fn drive() -> EmulatedDrive {
    EmulatedDrive::on_heap(geometry(), [1; 16]).expect("a geometry that can be")
}

/// Fault of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Fault of QEMU 7.2.
    LosesMetadata,
    /// Blocks that were not written have contents.
    Garbage,
    /// An append says where the next one goes.
    WrongPlace,
    /// A finish does nothing.
    DoesNotFinish,
    /// A write to a full zone is called a write at the wrong place.
    WrongStatus,
    /// A limit of four active zones, where five are promised.
    FewerZones,
    /// A reset keeps the zone as it is.
    DoesNotReset,
}

struct Faulty {
    drive: EmulatedDrive,
    fault: Fault,
    promised: Geometry,
}

impl Faulty {
    fn new(fault: Fault) -> Faulty {
        let active_zones_max = if fault == Fault::FewerZones { 4 } else { 5 };
        let own = Geometry { active_zones_max, ..geometry() };
        let drive = EmulatedDrive::on_heap(own, [1; 16]).expect("a geometry that can be");
        Faulty { drive, fault, promised: geometry() }
    }
}

impl ZonedDevice for Faulty {
    fn geometry(&self) -> &Geometry {
        &self.promised
    }

    fn submit(&mut self, now: Instant, mut command: Command) {
        match (self.fault, &mut command.op) {
            (Fault::LosesMetadata, Op::Write { frames, .. } | Op::Append { frames })
                if frames.len() > 8 && !frames.len().is_multiple_of(8) =>
            {
                let kept = frames.len() % 8;
                frames.iter_mut().skip(kept).for_each(|frame| frame.oob = [0; 64]);
            }
            (Fault::DoesNotFinish, op @ Op::Finish) | (Fault::DoesNotReset, op @ Op::Reset) => {
                *op = Op::Flush
            }
            _ => {}
        }
        self.drive.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.drive.poll(now, completions);
        for completion in completions {
            match self.fault {
                Fault::Garbage => {
                    completion
                        .frames
                        .iter_mut()
                        .filter(|frame| frame.is_blank())
                        .for_each(|frame| frame.data[9] = 1);
                }
                Fault::WrongPlace if completion.offset > 0 => completion.offset += 1,
                Fault::WrongStatus if completion.status == Status::ZoneIsFull => {
                    completion.status = Status::UnrecoveredReadError;
                }
                _ => {}
            }
        }
    }
}

fn differences(report: &Report) -> Vec<&'static str> {
    let differs = report.checks.iter().filter(|row| matches!(row.outcome, Outcome::Differs { .. }));
    differs.map(|row| row.check).collect()
}

#[test]
fn emulated_drives_pass() {
    for order in [AppendOrder::Submission, AppendOrder::Shuffled { seed: 3 }] {
        let mut drive = drive();
        drive.set_append_order(order);
        let report = run(&mut drive, OPTIONS, &|_| {});
        assert!(report.passed, "{report}");
        assert!(
            report
                .checks
                .iter()
                .filter(|row| row.check != "common walk")
                .all(|row| matches!(row.outcome, Outcome::Passed { compared } if compared > 50)),
            "{report}"
        );
    }
}

/// A small device that is cut into zones has no more, and no limit of open ones that counts.
#[test]
fn a_drive_of_three_zones_passes() {
    let few = Geometry { zones: 3, open_zones_max: 14, active_zones_max: 14, ..geometry() };
    let mut drive = EmulatedDrive::on_heap(few, [1; 16]).expect("a geometry that can be");
    let report = run(&mut drive, OPTIONS, &|_| {});
    assert!(report.passed, "{report}");
}

#[test]
fn a_seed_repeats_a_walk() {
    let compared = |seed| {
        let report = run(&mut drive(), Options { seed, ..OPTIONS }, &|_| {});
        report.checks.into_iter().find(|row| row.check == "random walk").map(|row| row.outcome)
    };
    assert_eq!(compared(1), compared(1));
    assert_ne!(compared(1), compared(2));
}

#[test]
fn faults_are_found() {
    let found = |fault| {
        let report = run(&mut Faulty::new(fault), OPTIONS, &|_| {});
        assert!(!report.passed, "{fault:?}: {report}");
        differences(&report)
    };
    assert!(found(Fault::LosesMetadata).contains(&"transfers"));
    assert!(found(Fault::LosesMetadata).contains(&"random walk"));
    assert!(found(Fault::Garbage).contains(&"unwritten blocks"));
    assert!(found(Fault::WrongPlace).contains(&"appends"));
    assert!(found(Fault::DoesNotFinish).contains(&"statuses"));
    assert!(found(Fault::WrongStatus).contains(&"statuses"));
    assert!(found(Fault::FewerZones).contains(&"limits"));
    assert!(found(Fault::DoesNotReset).contains(&"resets"));
}

#[test]
fn a_drive_with_identities_in_band_passes() {
    let carry_out = &mut |device: &mut EmulatedDrive, command: Command| {
        device.submit(Instant(0), command);
        let mut completions = Vec::new();
        device.poll(Instant(0), &mut completions);
        completions.pop()
    };
    let own = Geometry {
        zone_size_blocks: 512,
        zone_capacity_blocks: 400,
        open_zones_max: 8,
        active_zones_max: 9,
        transfer_blocks_max: 128,
        ..geometry()
    };
    // The same walk on a drive that has metadata, with other limits.
    let wide = Geometry { open_zones_max: 7, active_zones_max: 7, zone_capacity_blocks: 160, ..own };
    let mut other = EmulatedDrive::on_heap(wide, [1; 16]).expect("a geometry that can be");
    let traced = run(&mut other, OPTIONS, &|_| {}).trace;
    assert_eq!(traced.len() as u64, OPTIONS.steps);
    for volatile_cache in [false, true] {
        let own = Geometry { volatile_cache, ..own };
        let mut device = EmulatedDrive::on_heap(own, [1; 16]).expect("a geometry that can be");
        drive::inband::format(&mut device, [2; 16], carry_out).expect("a device that can be used");
        let mut drive = drive::inband::open(device, 16, carry_out).expect("a drive that was formatted");
        let report = run(&mut drive, OPTIONS, &|_| {});
        let differ: Vec<_> =
            report.checks.iter().filter(|row| matches!(row.outcome, Outcome::Differs { .. })).collect();
        assert!(report.passed, "{differ:?}");
        let differs = report.trace.iter().zip(&traced).find(|(one, other)| one != other);
        assert!(differs.is_none() && report.trace.len() == traced.len(), "{differs:#?}");
    }
}
