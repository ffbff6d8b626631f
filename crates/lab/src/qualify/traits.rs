//! Latencies of lone commands, and what follows from them for the adaptive policy.

use super::Difference;
use super::bench::Bench;
use serde::Serialize;
use std::fmt;
use std::time::Instant as Clock;
use zone::device::Op;

/// Commands of each kind.
const SAMPLES: u32 = 200;

/// Traits of a drive: medians of lone commands of 4 KiB, on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Traits {
    /// Write.
    pub write_us: f64,
    /// Append; `None` without Zone Append.
    pub append_us: Option<f64>,
    /// Read.
    pub read_us: f64,
    /// Flush after a write.
    pub flush_us: f64,
    /// Writes are answered sooner than reads: they are in a buffer, not in the flash.
    pub has_write_buffer: bool,
}

impl fmt::Display for Traits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traits { write_us, append_us, read_us, flush_us, has_write_buffer } = self;
        let append = append_us.map_or("none".to_owned(), |us| format!("{us:.0} us"));
        let buffer = if *has_write_buffer { "a write buffer" } else { "no write buffer" };
        write!(
            f,
            "4 KiB alone, median: write {write_us:.0} us, append {append}, read {read_us:.0} us, flush {flush_us:.0} us: {buffer}"
        )
    }
}

/// Measures a drive that is empty.
pub fn measure(bench: &mut Bench) -> Result<Traits, Difference> {
    let count = SAMPLES.min(bench.geometry.zone_capacity_blocks / 2);
    let mut writes = Vec::new();
    for offset in 0..count {
        let (_, frames) = bench.fresh(1);
        writes.push(timed(bench, 0, Op::Write { offset, frames })?);
    }
    let mut flushes = Vec::new();
    for offset in count..count + count.min(20) {
        let (_, frames) = bench.fresh(1);
        timed(bench, 0, Op::Write { offset, frames })?;
        flushes.push(timed(bench, 0, Op::Flush)?);
    }
    let mut reads = Vec::new();
    for offset in 0..count {
        // Not in order, so that nothing is read ahead.
        let offset = offset * 61 % count;
        reads.push(timed(bench, 0, Op::Read { offset, frames: Bench::dirty(1) })?);
    }
    let mut appends = Vec::new();
    for _ in 0..if bench.geometry.append_blocks_max > 0 { count } else { 0 } {
        let (_, frames) = bench.fresh(1);
        appends.push(timed(bench, 1, Op::Append { frames })?);
    }
    let (write_us, read_us) = (median(writes), median(reads));
    Ok(Traits {
        write_us,
        append_us: (!appends.is_empty()).then(|| median(appends)),
        read_us,
        flush_us: median(flushes),
        has_write_buffer: write_us < read_us,
    })
}

fn timed(bench: &mut Bench, zone: u32, op: Op) -> Result<f64, Difference> {
    let begun = Clock::now();
    bench.succeed(zone, op)?;
    Ok(begun.elapsed().as_secs_f64() * 1e6)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
