//! Random work, crashes and lost drives on media that rot, against an oracle: bits flip in data, metadata,
//! headers and footers of one drive. What is read may be an error where more is lost than the array can
//! lose; it is never wrong, and with one fault per stripe it is never an error.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

mod support;

use array::log::check::Problem;
use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use std::collections::{BTreeMap, BTreeSet};
use support::world::{Shape, World};
use zone::device::{Command, Op, Token, ZoneDescriptor, ZonedDevice};
use zone::format::oob::{self, Bound, Place, Role};
use zone::stripe::Level;

const BLOCK: u64 = 4096;
const STRIDE: u64 = BLOCK + 64;
/// Zones that hold superblocks: they have tests of their own.
const SUPERBLOCK_ZONES: usize = 2;

/// Seeds of each test; more with ZONEWEAVE_SEEDS, others with ZONEWEAVE_SEED.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let first = number("ZONEWEAVE_SEED").unwrap_or(0);
    first..first + number("ZONEWEAVE_SEEDS").unwrap_or(count)
}

/// Where bits flip.
#[derive(Clone, Copy, Debug)]
struct Rot {
    member: usize,
    /// Blocks that are hit, of 1 000.
    share: u64,
    /// Only data; only metadata; anything.
    kind: u64,
    /// Only in zones that are not full.
    open_only: bool,
}

impl Rot {
    fn draw(random: &mut Random, member: usize) -> Rot {
        let share = [3, 10, 40, 150][random.index(4)];
        Rot { member, share, kind: random.below(3), open_only: random.chance(1, 3) }
    }
}

fn report(world: &World, member: usize) -> Vec<ZoneDescriptor> {
    world.devices[member].as_ref().unwrap().with(|drive| {
        let op = Op::Report { count: u32::MAX };
        drive.submit(Instant(0), Command { token: Token(u64::MAX), zone: ZoneIndex(0), op });
        let mut completions = Vec::new();
        drive.poll(Instant(0), &mut completions);
        completions.pop().expect("an emulated drive answers at once").report
    })
}

/// What the metadata of a block says of its place.
fn place_of(world: &World, member: usize, zone: ZoneIndex, offset: u32) -> Option<Place> {
    let array = u64::from_le_bytes(world.config.array[..8].try_into().unwrap());
    let device = world.devices[member].as_ref()?;
    let frame = device.with(|drive| {
        let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
        drive.submit(Instant(0), Command { token: Token(u64::MAX), zone, op });
        let mut completions = Vec::new();
        drive.poll(Instant(0), &mut completions);
        completions.pop().unwrap().frames.pop()
    })?;
    [world.config.user_layout(), world.config.gc_layout()].iter().find_map(|layout| {
        let (slot, row) = layout.slot_at(offset)?;
        let place = oob::open(&frame.oob, &Bound { array, zone, group: layout.group_of(slot) })?.place;
        (u32::from(place.row) == row).then_some(place)
    })
}

/// Stripes that are whole on all drives that are there but `rotten`: a power failure may have torn the
/// others, and what was torn has its fault already.
fn whole_stripes(world: &World, rotten: usize) -> BTreeSet<(u64, u32)> {
    let mut blocks: BTreeMap<(u64, u32), usize> = BTreeMap::new();
    let others: Vec<usize> = (0..world.config.members)
        .filter(|member| *member != rotten && world.devices[*member].is_some())
        .collect();
    for member in &others {
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(report(world, *member)).skip(SUPERBLOCK_ZONES) {
            for offset in 0..descriptor.write_pointer.min(end_of_zone(world)) {
                let Some(place) = place_of(world, *member, zone, offset) else { continue };
                if place.role != Role::Filler {
                    *blocks.entry((place.segment, place.stripe)).or_default() += 1;
                }
            }
        }
    }
    let whole = others.len() * world.config.chunk_blocks as usize;
    blocks.into_iter().filter(|(_, count)| *count == whole).map(|(stripe, _)| stripe).collect()
}

/// A finished zone ends with its footer.
fn end_of_zone(world: &World) -> u32 {
    let layout = world.config.user_layout();
    layout.footer_offset() + layout.footer_blocks()
}

/// Flips a bit in some blocks of a member.
fn rot(world: &mut World, rot: Rot) {
    let whole = whole_stripes(world, rot.member);
    let end = end_of_zone(world);
    for (zone, descriptor) in (0..).map(ZoneIndex).zip(report(world, rot.member)).skip(SUPERBLOCK_ZONES) {
        if rot.open_only && !descriptor.state.is_active() {
            continue;
        }
        for offset in 0..descriptor.write_pointer.min(end) {
            if !world.random.chance(rot.share, 1000) {
                continue;
            }
            let is_torn =
                |place: Place| place.role != Role::Filler && !whole.contains(&(place.segment, place.stripe));
            if place_of(world, rot.member, zone, offset).is_some_and(is_torn) {
                continue;
            }
            let byte = match rot.kind {
                0 => world.random.below(BLOCK),
                1 => BLOCK + world.random.below(STRIDE - BLOCK),
                _ => world.random.below(STRIDE),
            };
            let mask = 1 << world.random.below(8);
            let device = world.devices[rot.member].as_ref().unwrap();
            device.with(|drive| drive.corrupt(zone, offset, byte as usize, mask));
        }
    }
}

fn redundant(random: &mut Random, members_min: usize) -> Shape {
    let mut shape = Shape::draw(random);
    shape.level = if shape.level == Level::Raid0 { Level::Raid5 } else { shape.level };
    shape.members = shape.members.max(members_min);
    shape
}

/// Steps, with rot in service now and then.
fn work(world: &mut World, rotten: usize, steps: u64) {
    for _ in 0..world.random.below(steps) {
        if world.random.chance(1, 150) {
            let here = Rot::draw(&mut world.random, rotten);
            rot(world, here);
        }
        world.step();
    }
}

/// The power goes; the media rot before it comes back.
fn crash(world: &mut World, rotten: usize, lose: Option<usize>) {
    world.power_off(lose);
    if world.random.chance(2, 3) {
        let here = Rot::draw(&mut world.random, rotten);
        rot(world, here);
    }
    world.remount().unwrap();
}

/// All drives are there and one of them rots: every stripe has one fault at most.
#[test]
fn rot_on_one_drive_costs_nothing() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let shape = redundant(&mut Random::from_seed(seed), 2);
        let mut world = World::new(&shape, seed);
        let rotten = world.random.index(shape.members);
        for _ in 0..6 {
            work(&mut world, rotten, 300);
            crash(&mut world, rotten, None);
        }
        world.quiesce();
        world.verify_all();
        world.quiesce();
        for problem in world.check().problems {
            assert!(
                matches!(
                    problem,
                    Problem::BlockDamaged { rebuildable: true, .. }
                        | Problem::IndexMismatch { .. }
                        | Problem::RecordDamaged { .. }
                        | Problem::ZoneOrphaned { .. }
                ),
                "seed {seed}: {problem:?}"
            );
        }
    }
}

/// One drive is gone and another rots: reads may fail, but are never wrong, and writes go on. Only what was never
/// acknowledged may come and go.
#[test]
fn rot_beside_a_lost_drive_is_an_error_at_worst() {
    let mut errors = 0;
    for seed in seeds(60) {
        println!("seed {seed}");
        // A mirror of two has no neighbour to ask (ADR 9).
        let shape = redundant(&mut Random::from_seed(seed), 3);
        let mut world = World::new(&shape, seed);
        let lost = world.random.index(shape.members);
        let rotten = (lost + 1 + world.random.index(shape.members - 1)) % shape.members;
        if world.random.chance(1, 2) {
            work(&mut world, rotten, 300);
            crash(&mut world, rotten, None);
        }
        world.errors_expected = true;
        world.torn_may_return = true;
        work(&mut world, rotten, 300);
        crash(&mut world, rotten, Some(lost));
        for _ in 0..5 {
            work(&mut world, rotten, 300);
            crash(&mut world, rotten, None);
        }
        world.quiesce();
        world.verify_all();
        world.check();
        errors += world.errors_seen;
    }
    assert!(errors > 0, "nothing was beyond rescue");
}

/// No redundancy at all.
#[test]
fn rot_under_raid0_is_an_error_at_worst() {
    for seed in seeds(40) {
        println!("seed {seed}");
        let mut shape = Shape::draw(&mut Random::from_seed(seed));
        shape.level = Level::Raid0;
        let mut world = World::new(&shape, seed);
        let rotten = world.random.index(shape.members);
        world.errors_expected = true;
        for _ in 0..6 {
            work(&mut world, rotten, 300);
            crash(&mut world, rotten, None);
        }
        world.quiesce();
        world.verify_all();
        world.check();
    }
}
