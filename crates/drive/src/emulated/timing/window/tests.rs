//! Windows in the model: the same blocks as the rules of zones have, conservation of bytes, and what things cost.

use super::*;
use crate::emulated::timing::{Access, ModelOptions, Profile, Wear};
use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::Geometry;
use zone::rules::ZoneTable;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn model_of(profile: &Profile) -> Model {
    Model::new(profile, ModelOptions { seed: 3, ..ModelOptions::default() })
}

fn model(name: &str) -> Model {
    model_of(&Profile::named(name).unwrap())
}

/// Small zones with windows of 16 blocks and granules of 4.
fn small() -> Geometry {
    let profile = Profile::named("zn540-1tb").unwrap();
    let areas =
        zone::device::Areas { zones_max: 3, window_blocks: 16, granule_blocks: 4, explicit_commit: true };
    Geometry {
        zones: 8,
        zone_size_blocks: 128,
        zone_capacity_blocks: 100,
        areas: Some(areas),
        ..profile.geometry()
    }
}

/// Runs a command to its end and until the drive has nothing left to do; returns the command's latency in microseconds.
fn settle(model: &mut Model, access: Access) -> f64 {
    let start = model.core.now;
    let mut done = Vec::new();
    model.submit(Instant(start), 0, access);
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
    }
    assert_eq!(done.len(), 1);
    (done[0].at.0 - start) as f64 / 1000.0
}

fn write(zone: u32, offset_bytes: u64, bytes: u64) -> Access {
    Access::Write { zone, offset_bytes, bytes }
}

fn mean(count: u64, mut measure: impl FnMut(u64) -> f64) -> f64 {
    (0..count).map(&mut measure).sum::<f64>() / count as f64
}

/// Rate of `count` writes kept `depth` deep until the last is submitted, in bytes per second.
fn rate(model: &mut Model, depth: u64, count: u64, mut next: impl FnMut(u64) -> Access) -> f64 {
    let start = model.core.now;
    let (mut done, mut submitted) = (Vec::new(), 0);
    let mut bytes = 0;
    let mut now = start;
    while submitted < count {
        while submitted - (done.len() as u64) < depth && submitted < count {
            let access = next(submitted);
            if let Access::Write { bytes: some, .. } = access {
                bytes += some;
            }
            model.submit(Instant(now), submitted, access);
            submitted += 1;
        }
        now = model.next_event().unwrap().0;
        model.advance(Instant(now), &mut done);
    }
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
    }
    bytes as f64 * 1e9 / (now - start) as f64
}

/// Random commands that the rules accept: write pointers are those of the rules, and no byte is lost.
#[test]
fn write_pointers_are_those_of_the_rules_and_bytes_are_conserved() {
    let geometry = small();
    let mut model = model_of(&Profile::named("zn540-1tb").unwrap().with_geometry(&geometry));
    let mut rules = ZoneTable::new(geometry);
    let random = &mut Random::from_seed(17);
    let mut accepted = [0_u32; 5];
    for _ in 0..8_000 {
        let zone = u32::try_from(random.below(4)).unwrap();
        let at = ZoneIndex(zone);
        let near = rules.zone(at).write_pointer;
        let kind = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4][random.index(17)];
        let offset = near + u32::try_from(random.below(40)).unwrap();
        let blocks = 1 + u32::try_from(random.below(12)).unwrap();
        let block = |block: u32| u64::from(block) * BLOCK_BYTES_U64;
        let (outcome, access) = match kind {
            0 => (rules.write(at, offset, blocks), write(zone, block(offset), block(blocks))),
            1 => {
                let end = near + 4 * blocks.min(4);
                (rules.commit(at, end), Access::ZrwaCommit { zone, end_bytes: block(end) })
            }
            2 => (rules.finish(at), Access::Finish { zone }),
            3 => (rules.reset(at), Access::Reset { zone }),
            _ => (rules.open_with_area(at), Access::ZrwaOpen { zone }),
        };
        if outcome.is_err() {
            continue;
        }
        accepted[kind] += 1;
        settle(&mut model, access);
        let (found, clock) = (rules.zone(at), &model.zones[zone as usize]);
        assert_eq!(clock.written_bytes, block(found.write_pointer), "zone {zone} after {access:?}");
        assert_eq!(clock.window.is_some(), found.area.is_some(), "zone {zone} after {access:?}");
        if let Some(end) = found.area {
            assert_eq!(clock.area_end, block(end));
        }
        let held: u64 = model.zones.iter().flat_map(|zone| &zone.window).map(|own| own.held_blocks()).sum();
        assert_eq!(model.wear().held_bytes(), held * BLOCK_BYTES_U64);
    }
    assert!(accepted.iter().all(|count| *count > 100), "{accepted:?}");
    let wear = model.wear();
    assert!(wear.absorbed_bytes > 0 && wear.committed_bytes > 0 && wear.discarded_bytes > 0, "{wear:?}");
}

/// The zone stays open with its last window in it, until a commit brings that to flash.
#[test]
fn the_end_of_a_zone_is_committed_only_when_told() {
    let mut model = model("zn540-1tb");
    let capacity = model.core.profile.geometry.zone_capacity_bytes;
    model.preset_zone(0, capacity - 4 * MIB, ZoneCondition::Open);
    model.preset_area(0, []);
    for offset in (capacity - 4 * MIB..capacity).step_by(64 << 10) {
        settle(&mut model, write(0, offset, 64 * KIB));
    }
    assert_eq!(model.zones[0].written_bytes, capacity - MIB, "a window is left");
    assert_eq!(model.wear().committed_bytes, 3 * MIB);
    assert_eq!(model.zones[0].condition, ZoneCondition::Open);
    settle(&mut model, write(0, capacity - MIB, MIB));
    assert_eq!(model.wear().absorbed_bytes, MIB, "again, in place");
    settle(&mut model, Access::ZrwaCommit { zone: 0, end_bytes: capacity });
    assert_eq!(model.zones[0].condition, ZoneCondition::Written);
    assert_eq!((model.wear().held_bytes(), model.wear().programmed_bytes), (0, 4 * MIB));
}

#[test]
fn a_finish_programs_what_the_window_holds() {
    let finished = |held: u64| {
        let mut model = model("zn540-1tb");
        let capacity = model.core.profile.geometry.zone_capacity_bytes;
        model.preset_zone(0, capacity - 64 * MIB, ZoneCondition::Open);
        model.preset_area(0, []);
        if held > 0 {
            settle(&mut model, write(0, capacity - 64 * MIB, held));
        }
        let time_us = settle(&mut model, Access::Finish { zone: 0 });
        assert!(model.zones[0].window.is_none());
        assert_eq!(model.wear().committed_bytes, held);
        assert_eq!(
            model.flash.groups[0].credit,
            signed(model.core.profile.buffer.bytes),
            "all space is back"
        );
        (model.wear().programmed_bytes, time_us)
    };
    let unit = 192 * KIB;
    let ((without, _), (with, time_us)) = (finished(0), finished(MIB - 4 * KIB));
    assert!((64 * MIB..64 * MIB + unit).contains(&without), "{without}");
    assert!((64 * MIB..64 * MIB + unit).contains(&with), "held and padding: {with}");
    assert!(time_us > 50_000.0, "padding takes its time: {time_us}");
}

#[test]
fn what_is_not_committed_is_read_out_of_the_buffer() {
    let mut model = model("zn540-1tb");
    settle(&mut model, Access::ZrwaOpen { zone: 0 });
    for offset in (0..4 * MIB).step_by(64 << 10) {
        settle(&mut model, write(0, offset, 64 * KIB));
    }
    let mut read = |offset_bytes: u64, bytes: u64| {
        mean(300, |count| {
            // Never where the last read ended.
            let offset_bytes = offset_bytes + count % 7 * 16 * KIB;
            settle(&mut model, Access::Read { zone: 0, offset_bytes, bytes })
        })
    };
    let (window, committed) = (read(3 * MIB, 4 * KIB), read(MIB, 4 * KIB));
    assert!((window / 7.5 - 1.0).abs() < 0.05, "read_us: {window}");
    assert!((committed / 72.6 - 1.0).abs() < 0.05, "from a die: {committed}");
    let mut straddling =
        |_| settle(&mut model, Access::Read { zone: 0, offset_bytes: 3 * MIB - 4 * KIB, bytes: 8 * KIB });
    assert!(mean(100, &mut straddling) > 60.0, "its first half is on a die");
}

#[test]
fn an_explicit_commit_takes_what_was_measured_whatever_it_commits() {
    let mut model = model("zn540-1tb");
    let mut commits = |bytes: u64| {
        mean(500, |count| {
            if count % 100 == 0 {
                settle(&mut model, Access::Reset { zone: 0 });
                settle(&mut model, Access::ZrwaOpen { zone: 0 });
            }
            let at = count % 100 * bytes;
            settle(&mut model, write(0, at, bytes));
            settle(&mut model, Access::ZrwaCommit { zone: 0, end_bytes: at + bytes })
        })
    };
    let (small, large) = (commits(32 * KIB), commits(MIB));
    assert!((small / 6.8 - 1.0).abs() < 0.05, "{small}");
    assert!((large / small - 1.0).abs() < 0.05, "{large}, {small}");
}

/// Of a window in flash overwrites are as fast as a zone and wear the backing; in memory they are faster and wear nothing.
#[test]
fn overwrites_go_at_the_speed_of_what_backs_the_window() {
    let run = |name: &str, window_bytes: u64| -> (f64, f64, Wear) {
        let mut model = model(name);
        settle(&mut model, Access::ZrwaOpen { zone: 0 });
        let steps = window_bytes / (16 * KIB);
        let again = rate(&mut model, 4, 20_000, |count| write(0, count % steps * 16 * KIB, 16 * KIB));
        let wear = model.wear();
        // Most of a zone, or the part of it that makes the full buffer at the start weigh little.
        let steps = (model.core.profile.geometry.zone_capacity_bytes / (64 * KIB)).min(4_000) - 1;
        model.prefill_write_buffer();
        let plain = rate(&mut model, 1, steps, |count| write(1, count * 64 * KIB, 64 * KIB));
        (again, plain, wear)
    };
    let (again, plain, wear) = run("zn540-1tb", MIB);
    assert!((again / plain - 1.0).abs() < 0.07, "{again} and {plain} bytes per second");
    assert_eq!((wear.programmed_bytes, wear.absorbed_bytes), (0, wear.window_bytes - MIB));
    assert_eq!(wear.backing_bytes, wear.window_bytes);
    let (again, plain, wear) = run("pm1731a", 64 * KIB);
    assert!((again / plain / 26.6 - 1.0).abs() < 0.05, "{again} and {plain} bytes per second");
    assert_eq!((wear.programmed_bytes, wear.backing_bytes), (0, 0));
}

/// A drive whose real one has no areas, or no buffer, takes windows all the same.
#[test]
fn any_profile_takes_the_areas_of_an_emulated_drive() {
    for name in Profile::names().iter().filter(|name| !name.starts_with("conventional-")) {
        let profile = Profile::named(name).unwrap().with_geometry(&small());
        assert_eq!(profile.geometry(), small());
        let mut model = model_of(&profile);
        settle(&mut model, Access::ZrwaOpen { zone: 0 });
        for block in (0..96).chain(84..96) {
            settle(&mut model, write(0, block * 4 * KIB, 4 * KIB));
        }
        assert_eq!(model.wear().absorbed_bytes, 12 * 4 * KIB, "{name}");
        settle(&mut model, Access::ZrwaCommit { zone: 0, end_bytes: 96 * 4 * KIB });
        settle(&mut model, Access::Reset { zone: 0 });
        assert_eq!(model.wear().programmed_bytes, 96 * 4 * KIB, "{name}");
    }
}
