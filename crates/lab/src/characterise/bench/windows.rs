//! The life of a window, command by command, on a drive that keeps to the rules.

use crate::characterise::numbers::precise_bytes;
use crate::characterise::setting::{Summary, Windows};
use crate::workload::timed::TimedTarget;
use crate::workload::{Measured, Target};
use anyhow::Result;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use drive::timing::{Access, Profile};
use zone::device::{Areas, Geometry, ZoneState};

/// Capacity of zones: what is written to them is kept in memory.
const CAPACITY_BLOCKS: u32 = (64 << 20) / 4096;
/// Zones of the drive at most.
const ZONES_MAX: u32 = 32;
/// Writes, with or without a commit each.
const ROUNDS: u64 = 400;
/// Bytes that a commit brings to flash, where the granule allows.
const COMMIT_BYTES: u64 = 32 << 10;

/// The drive's areas on zones that fit into memory; `None` for drives without.
pub fn geometry(profile: &Profile) -> Option<Geometry> {
    let real = profile.geometry_with_areas();
    let Areas { granule_blocks, .. } = real.areas?;
    let capacity = real.zone_capacity_blocks.min(CAPACITY_BLOCKS) / granule_blocks * granule_blocks;
    Some(Geometry {
        zones: real.zones.min(ZONES_MAX),
        zone_size_blocks: capacity,
        zone_capacity_blocks: capacity,
        ..real
    })
}

/// Runs a setting; the answer is what was before the last command of each kind, and after.
pub fn run(target: TimedTarget, areas: &Areas, windows: &Windows) -> Result<Vec<Summary>> {
    let mut run = Run { target, now: Instant(0) };
    let window_bytes = u64::from(areas.window_blocks) * BLOCK_BYTES_U64;
    let granule_bytes = u64::from(areas.granule_blocks) * BLOCK_BYTES_U64;
    run.one(Access::ZrwaOpen { zone: 0 });
    let summaries = match windows {
        Windows::Commits { explicit } => {
            run.commits(COMMIT_BYTES.max(granule_bytes).min(window_bytes), *explicit)?
        }
        Windows::End { finish } => run.end(granule_bytes.min(window_bytes), *finish)?,
    };
    run.target.check()?;
    Ok(summaries)
}

struct Run {
    target: TimedTarget,
    now: Instant,
}

impl Run {
    /// Latency of a command on an idle drive, in microseconds.
    fn one(&mut self, access: Access) -> f64 {
        let (start, mut done) = (self.now, Vec::new());
        self.target.submit(start, 0, access);
        while done.is_empty() {
            let next = self.target.wait(None).expect("a command is in flight");
            self.target.advance(next, &mut done);
        }
        let end = done[0].at;
        self.now = self.target.settle(end);
        precise_bytes(end.since(start).0) / 1000.0
    }

    fn commits(&mut self, bytes: u64, explicit: bool) -> Result<Vec<Summary>> {
        let (mut writes, mut commits) = (Measured::default(), Measured::default());
        let rounds = ROUNDS.min(self.target.zone_capacity_bytes() / bytes);
        for round in 0..rounds {
            let at = round * bytes;
            writes.latencies_us.push(self.one(Access::Write { zone: 0, offset_bytes: at, bytes }));
            if explicit {
                commits.latencies_us.push(self.one(Access::ZrwaCommit { zone: 0, end_bytes: at + bytes }));
            }
        }
        (writes.span_us, commits.span_us) = (1.0, 1.0);
        Ok(vec![Summary::of(&writes), self.state(Summary::of(&commits))?])
    }

    fn end(&mut self, bytes: u64, finish: bool) -> Result<Vec<Summary>> {
        let capacity = self.target.zone_capacity_bytes();
        let end = if finish { capacity / 2 / bytes * bytes } else { capacity };
        for offset_bytes in (0..end).step_by(usize::try_from(bytes)?) {
            self.one(Access::Write { zone: 0, offset_bytes, bytes });
        }
        let before = self.state(Summary::default())?;
        self.one(match finish {
            true => Access::Finish { zone: 0 },
            false => Access::ZrwaCommit { zone: 0, end_bytes: capacity },
        });
        Ok(vec![before, self.state(Summary::default())?])
    }

    /// A summary with the state of the zone and the wear of the drive.
    fn state(&mut self, summary: Summary) -> Result<Summary> {
        let found = self.target.describe(0)?;
        let is_full = found.state == ZoneState::Full;
        let left = if is_full { 0 } else { found.capacity - found.write_pointer };
        let left_bytes = u64::from(left) * BLOCK_BYTES_U64;
        Ok(Summary { wear: self.target.wear(), left_bytes, is_full, ..summary })
    }
}
