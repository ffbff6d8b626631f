//! A walk that is the same on drives of all kinds: what they have in common, drawn by the seed and told step by step.
//!
//! ```text
//!   step 17: zone 3, a write of 4 at the pointer: Success       0 Empty 0 | 1 Full | 2 Closed 7 | 3 ImplicitOpen 12 | ...
//! ```
//! Commands follow from the seed and from what zones hold, not from sizes and limits: few zones, transfers of few blocks, no appends. Pointers
//! near the end of a zone are told from there. Two drives that keep to the rules tell the same, but for what they may choose.

use super::Difference;
use super::bench::Bench;
use super::walk::Held;
use base::random::Random;
use zone::device::{Geometry, Op, Status, ZoneDescriptor, ZoneState};
use zone::rules::Zone;

/// Zones, of which all can be open on most drives.
const ZONES: u32 = 6;
/// Most blocks of a transfer.
const BLOCKS_MAX: u32 = 8;
/// Blocks at the end of a zone in which pointers are told from there.
const END_BLOCKS: u32 = 64;

/// A step: its words say nothing of the drive's sizes.
struct Step {
    zone: u32,
    words: String,
    op: Op,
    stamp: Option<u64>,
}

/// Commands drawn by the seed, told in the bench's trace.
pub fn walk(bench: &mut Bench) -> Result<Result<u64, String>, Difference> {
    let geometry = bench.geometry;
    let shortest = (END_BLOCKS + BLOCKS_MAX) * 2;
    if geometry.zones < ZONES
        || geometry.zone_capacity_blocks < shortest
        || geometry.open_zones_max < ZONES
        || geometry.transfer_blocks_max < BLOCKS_MAX
    {
        return Ok(Err(format!(
            "it takes {ZONES} open zones of {shortest} blocks, and {BLOCKS_MAX} in a transfer"
        )));
    }
    let mut held = Held::new(bench, ZONES);
    let mut random = Random::from_seed(bench.options.seed);
    for number in 0..bench.options.steps {
        let zone = below(&mut random, ZONES);
        if random.chance(1, 24) {
            fill(bench, &mut held, zone).map_err(|difference| format!("step {number}: {difference}"))?;
        }
        let Step { zone, words, op, stamp } = draw(zone, &mut random, &held, bench);
        let (is_read, is_reset) = (matches!(op, Op::Read { .. }), matches!(op, Op::Reset));
        let at = |difference| format!("step {number}: {difference}");
        let completion = held.step(bench, zone, op).map_err(at)?;
        let states: Vec<String> =
            (0..).zip(&held.found).map(|(zone, found)| state_in_words(zone, found, &geometry)).collect();
        bench.trace.push(format!(
            "step {number}: zone {zone}, {words}: {:?}\t{}",
            completion.status,
            states.join(" | ")
        ));
        held.note(zone, &completion, (is_reset, stamp));
        if is_read && completion.status == Status::Success {
            held.compare_blocks(zone, &completion).map_err(at)?;
        }
    }
    Ok(Ok(held.compared))
}

fn below(random: &mut Random, count: u32) -> u32 {
    u32::try_from(random.below(u64::from(count))).unwrap_or(0)
}

/// Writes a zone until few blocks are left, without a word: how many there are is the drive's own.
fn fill(bench: &mut Bench, held: &mut Held, zone: u32) -> Result<(), Difference> {
    let Zone { state, write_pointer, .. } = held.zone(zone);
    let end = bench.geometry.zone_capacity_blocks - BLOCKS_MAX;
    if !state.is_open() {
        return Ok(());
    }
    let mut at = write_pointer;
    while at < end {
        let (stamp, frames) = bench.fresh((end - at).min(bench.geometry.transfer_blocks_max));
        at += u32::try_from(frames.len()).unwrap_or(0);
        let offset = at - u32::try_from(frames.len()).unwrap_or(0);
        let completion = held.step(bench, zone, Op::Write { offset, frames })?;
        held.note(zone, &completion, (false, Some(stamp)));
    }
    Ok(())
}

fn draw(zone: u32, random: &mut Random, held: &Held, bench: &mut Bench) -> Step {
    let Zone { state, write_pointer, .. } = held.zone(zone);
    // That of a full zone is the drive's own.
    let pointer = if state == ZoneState::Full { 0 } else { write_pointer };
    let plain = |words: &str, op| Step { zone, words: words.to_owned(), op, stamp: None };
    match random.below(100) {
        0..56 => {
            let count = 1 + below(random, BLOCKS_MAX);
            let (offset, place) = match random.below(12) {
                0 => (pointer + 1, "behind the pointer"),
                1 => (pointer.saturating_sub(1), "before the pointer"),
                _ => (pointer, "at the pointer"),
            };
            let (stamp, frames) = bench.fresh(count);
            let words = format!("a write of {count} {place}");
            Step { zone, words, op: Op::Write { offset, frames }, stamp: Some(stamp) }
        }
        56..76 => {
            let count = 1 + below(random, BLOCKS_MAX);
            let back = below(random, 4 * BLOCKS_MAX);
            let words = format!("a read of {count} from {back} before the pointer on");
            let op = Op::Read { offset: pointer.saturating_sub(back), frames: Bench::dirty(count) };
            Step { zone, words, op, stamp: None }
        }
        76..82 => plain("a reset", Op::Reset),
        82..86 => plain("a finish", Op::Finish),
        86..91 => plain("an open", Op::Open),
        91..97 => plain("a close", Op::Close),
        _ => plain("a flush", Op::Flush),
    }
}

/// State and pointer of a zone as any drive would tell them.
fn state_in_words(zone: u32, found: &ZoneDescriptor, geometry: &Geometry) -> String {
    let ZoneDescriptor { state, write_pointer, .. } = *found;
    let left = geometry.zone_capacity_blocks.saturating_sub(write_pointer);
    match state {
        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => format!("{zone} {state:?}"),
        _ if left <= END_BLOCKS => format!("{zone} {state:?} end-{left}"),
        _ => format!("{zone} {state:?} {write_pointer}"),
    }
}
