//! Cells: an array, its drives and its load, drawn by a seed.

use super::traffic::{Pattern, Pauses, Traffic};
use crate::experiment::clients::Sizes;
use base::random::Random;
use base::time::Nanos;
use serde::Serialize;
use std::fmt;

/// Zoned drives with the figures of measured ones.
const PROFILES: [&str; 3] = ["zn540-1tb", "zn540-4tb", "pm1731a"];
/// RAID levels: 0, 5, 6, and three rotating parities.
const LEVELS: [u8; 4] = [0, 5, 6, 7];
const DRIVES_MAX: u64 = 12;
/// Sizes of requests in blocks.
const REQUEST_BLOCKS: [u32; 8] = [1, 1, 2, 3, 4, 8, 16, 32];
/// Depths are powers of two up to 256, each with a bit of random.
const DEPTH_BITS: u64 = 9;

/// A setting in which contestants are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Number of the cell.
    pub index: u64,
    /// Seed of its drives and requests.
    pub seed: u64,
    /// Drives, by the name of their profile.
    pub profile: &'static str,
    /// Profile of the first drive, where that is another.
    pub odd_profile: Option<&'static str>,
    /// Count of drives.
    pub drives: usize,
    /// RAID level.
    pub level: u8,
    /// Physical space beyond the volume, as a share of it.
    pub reserved_percent: u32,
    /// A member is missing.
    pub is_degraded: bool,
    /// Load of clients.
    pub traffic: Traffic,
}

impl Cell {
    /// Draws a cell. One in which there can be no array is drawn again, by the next attempt.
    #[must_use]
    pub fn draw(seed: u64, index: u64, attempt: u64) -> Cell {
        let random = &mut Random::from_seed(seed ^ index.rotate_left(20) ^ attempt.rotate_left(52));
        let level = LEVELS[random.index(LEVELS.len())];
        let drives_min = match level {
            0 | 5 => 3,
            6 => 4,
            _ => 5,
        };
        let drives = drives_min + random.below(DRIVES_MAX - drives_min + 1);
        let profile = PROFILES[random.index(PROFILES.len())];
        let is_odd = random.chance(1, 8) && profile == "zn540-4tb";
        Cell {
            index,
            seed: random.bits() >> 16,
            profile,
            odd_profile: is_odd.then_some("zn540-1tb"),
            drives: usize::try_from(drives).expect("at most twelve"),
            level,
            reserved_percent: u32::try_from(10 + random.below(91)).expect("at most 100"),
            is_degraded: level != 0 && random.chance(1, 8),
            traffic: draw_traffic(random),
        }
    }
}

fn draw_traffic(random: &mut Random) -> Traffic {
    let mut size = || REQUEST_BLOCKS[random.index(REQUEST_BLOCKS.len())];
    let (one, other) = (size(), size());
    let sizes = if random.chance(1, 3) {
        // Places are multiples of the smaller size.
        Sizes::Split([one.min(other), one.max(other)], 10 + random.below(81))
    } else {
        Sizes::Equal(one)
    };
    let bit = 1 << random.below(DEPTH_BITS);
    let depth = u32::try_from(bit + random.below(bit)).expect("few").min(256);
    let pattern = match random.below(5) {
        0 => Pattern::Uniform,
        1 | 2 => Pattern::Zipf { skew_percent: 60 + random.below(71) },
        3 => Pattern::HotSpot { size_percent: 2 + random.below(19), requests_percent: 80 + random.below(16) },
        _ => Pattern::Streams { count: 1 + random.below(32) },
    };
    let reads_percent = if random.chance(1, 2) { 0 } else { random.below(91) };
    let pauses = random.chance(1, 5).then(|| Pauses {
        requests: 100 + random.below(10_000),
        idle: Nanos(1_000_000 * (1 + random.below(200))),
    });
    Traffic { reads_percent, sizes, depth, pattern, pauses }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { index, profile, drives, level, reserved_percent, traffic, .. } = self;
        let level = if *level == 7 { "k+3".to_owned() } else { format!("raid{level}") };
        write!(f, "{index}: {level} on {drives} {profile}")?;
        if let Some(odd) = self.odd_profile {
            write!(f, " (one {odd})")?;
        }
        if self.is_degraded {
            f.write_str(", one missing")?;
        }
        write!(f, ", {reserved_percent} % in reserve; {traffic}")
    }
}
