//! Channel groups of a drive, found by writing to pairs of its zones: `zoneweave drive probe --channels`.
//!
//! A drive hides which of its zones share a channel group, and keeps it while a zone is active (BIZA, SOSP '24, section
//! 3.3). Two zones of one group share what the group takes, 1092 MB/s of a ZN540; two of different groups take as much
//! as both alone, 2170 MB/s. So zones are opened once, in order, and then written alone and in pairs:
//! ```text
//!   share of a pair = rate of both together / sum of their rates alone      1/2: one group      1: two groups
//! ```
//! Zones are joined into groups as long as the mean share between two groups is on the lower side of the [`BORDER`].

mod groups;
mod writers;

use anyhow::{Result, ensure};
use base::units::BLOCK_BYTES_U64;
use drive::timing::{Model, ModelOptions, Profile, ZoneMap};
use serde::Serialize;
use std::fmt;
use writers::Writers;

/// Halfway between the shares of two zones of one group and of two groups.
const BORDER: f64 = 0.75;
/// Zones that are written unless it is said: 120 pairs.
const ZONES: u32 = 16;
/// Most bytes that a zone takes in one measurement: ten times what buffers of drives hold.
const BYTES_MAX: u64 = 128 << 20;

/// Options of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct ChannelProbe {
    /// Zones that are written, the first ones of the drive.
    pub zones: Option<u32>,
    /// Seed of all variation.
    pub seed: u64,
    /// Map of zones to channel groups, if not as the profile says.
    pub zone_map: Option<ZoneMap>,
}

/// Two zones that were written together.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// The zones, the lower number first.
    pub zones: [u32; 2],
    /// Rate of both together, of the sum of their rates alone.
    pub share: f64,
}

/// Map of the zones, and how well it explains what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelReport {
    /// Profile of the drive.
    pub drive: String,
    /// Zones of each group, in order of their first ones.
    pub groups: Vec<Vec<u32>>,
    /// Confidence in the least sure zone, from 0 to 1: how far the shares of its pairs lie on the side of the border that
    /// the map wants, in the mean; 1 where all are exactly a half or a whole.
    pub confidence: f64,
    /// Pairs that lie on the side of the border that the map wants.
    pub pairs_agreeing: usize,
    /// MiB/s of each zone alone.
    pub alone_mib_s: Vec<f64>,
    /// All pairs.
    pub pairs: Vec<Pair>,
}

impl ChannelProbe {
    /// Measures a modelled drive in virtual time.
    ///
    /// # Errors
    /// When the drive has no zones, or not as many as are asked for.
    pub fn on_model(&self, profile: &Profile) -> Result<ChannelReport> {
        let (report, _) = self.measure(profile)?;
        Ok(report)
    }

    /// The same, and the drive as it is afterwards.
    fn measure(&self, profile: &Profile) -> Result<(ChannelReport, Model)> {
        let (name, geometry) = (profile.name(), profile.geometry());
        ensure!(profile.has_zones(), "profile {name} has no zones: its channels cannot be told apart");
        let most = geometry.active_zones_max.min(geometry.zones);
        let zones = self.zones.unwrap_or(ZONES.min(most));
        ensure!(
            (2..=most).contains(&zones),
            "--zones {zones}: from 2 to {most} zones of {name} can be active at a time"
        );
        let options = ModelOptions { seed: self.seed, zone_map: self.zone_map, ..ModelOptions::default() };
        let mut writers = Writers::new(Model::new(profile, options), zones);
        // Each zone is written alone once, and with each other zone once, and must not be full before.
        let capacity = u64::from(geometry.zone_capacity_blocks) * BLOCK_BYTES_U64;
        let bytes = (capacity / u64::from(zones)).min(BYTES_MAX);
        let alone: Vec<f64> = (0..zones).map(|zone| writers.rate(&[zone], bytes)).collect();
        let mut pairs = Vec::new();
        for (first, alone_first) in (0..zones).zip(&alone) {
            for (second, alone_second) in (0..zones).zip(&alone).skip(first as usize + 1) {
                let share = writers.rate(&[first, second], bytes) / (alone_first + alone_second);
                pairs.push(Pair { zones: [first, second], share });
            }
        }
        let groups = groups::join(zones, &pairs, BORDER);
        let report = ChannelReport {
            drive: name.to_owned(),
            confidence: groups::confidence(&groups, &pairs, BORDER),
            pairs_agreeing: pairs.iter().filter(|pair| groups::margin(&groups, pair, BORDER) > 0.0).count(),
            groups,
            alone_mib_s: alone.iter().map(|rate| rate / 1_048_576.0).collect(),
            pairs,
        };
        Ok((report, writers.into_target()))
    }
}

impl fmt::Display for ChannelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "group  zones of {}", self.drive)?;
        for (group, zones) in self.groups.iter().enumerate() {
            let zones: Vec<String> = zones.iter().map(u32::to_string).collect();
            writeln!(f, "{group:>5}  {}", zones.join(" "))?;
        }
        let count = self.groups.len();
        let some_are_shared = self.groups.iter().any(|zones| zones.len() > 1);
        let at_least = if some_are_shared { "" } else { " or more: no two of these zones share one" };
        writeln!(f, "\ngroups      {count}{at_least}")?;
        writeln!(f, "pairs       {} of {} agree with the map", self.pairs_agreeing, self.pairs.len())?;
        for (label, same) in [("in a group ", true), ("apart      ", false)] {
            let shares =
                self.pairs.iter().filter(|pair| groups::are_together(&self.groups, pair.zones) == same);
            let shares: Vec<f64> = shares.map(|pair| pair.share).collect();
            if let Some((least, most)) = extremes(&shares) {
                writeln!(f, "{label} {least:.2} to {most:.2} of the rates alone")?;
            }
        }
        write!(f, "confidence  {:.2}", self.confidence)
    }
}

/// The least and the greatest.
fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that the map found says of each pair of zones what the drive says.
    fn is_right(profile: &str, zones: Option<u32>, map: ZoneMap, seed: u64) -> ChannelReport {
        let profile = Profile::named(profile).unwrap();
        let probe = ChannelProbe { zones, seed, zone_map: Some(map) };
        let (report, model) = probe.measure(&profile).unwrap();
        for pair in &report.pairs {
            let [first, second] = pair.zones;
            let truth = model.group_of(first) == model.group_of(second);
            assert_eq!(groups::are_together(&report.groups, pair.zones), truth, "{pair:?} of seed {seed}");
        }
        report
    }

    #[test]
    fn every_map_of_a_drive_of_two_groups_is_found() {
        for (seed, map) in ["number", "opening", "random", "mostly:300", "random"].into_iter().enumerate() {
            let report = is_right("zn540-4tb", None, map.parse().unwrap(), seed as u64);
            assert_eq!(report.pairs_agreeing, report.pairs.len());
            assert!(report.confidence > 0.8, "{report}");
        }
    }

    #[test]
    fn one_group_and_many_are_told_apart() {
        let one = is_right("zn540-1tb", Some(6), ZoneMap::Number, 1);
        assert_eq!(one.groups, [[0, 1, 2, 3, 4, 5]]);
        let many = is_right("pm1731a", Some(8), ZoneMap::Number, 1);
        assert_eq!(many.groups.len(), 8);
        assert!(many.to_string().contains("8 or more"), "{many}");
        is_right("pm1731a", Some(24), ZoneMap::Random, 3);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused = |name: &str, zones: u32| {
            let probe = ChannelProbe { zones: Some(zones), seed: 1, zone_map: None };
            probe.on_model(&Profile::named(name).unwrap()).unwrap_err().to_string()
        };
        assert!(refused("zn540-4tb", 15).contains("from 2 to 14"));
        assert!(refused("zn540-4tb", 1).contains("from 2 to 14"));
        assert!(refused("conventional-nvme", 2).contains("no zones"));
    }
}
