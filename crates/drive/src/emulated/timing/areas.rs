//! `[zrwa]` of a profile: random write areas of a drive's zones, what they cost and what they are made of.

use super::curve::Curve;
use super::profile::{ProfileError, demand, demand_curve, demand_time};
use super::sections::{Command, GeometrySection};
use base::units::BLOCK_BYTES_U64;
use serde::{Deserialize, Serialize};
use std::fmt;
use zone::device::Areas;

/// Medium that holds what is written into windows and not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// Memory kept by a battery or capacitors: faster than a zone, and nothing wears.
    Dram,
    /// Flash of one bit per cell: as fast as a zone, and every write into a window is one of that flash.
    Slc,
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backing::Dram => "DRAM",
            Backing::Slc => "SLC flash",
        })
    }
}

/// `[zrwa]`: the random write areas of open zones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Zrwa {
    /// Most zones that have an area at a time.
    pub(super) zones: u32,
    pub(super) window_bytes: u64,
    pub(super) flush_granularity_bytes: u64,
    pub(super) backing: Backing,
    /// Work of the processor for a write into a window.
    pub(super) demand_us: Curve,
    pub(super) latency_us: Curve,
    /// Read of what is in a window and not committed.
    pub(super) read_us: Curve,
    /// An explicit commit, besides its wait for buffer space.
    pub(super) commit_us: f64,
}

impl Zrwa {
    pub(super) fn check(&self, geometry: &GeometrySection) -> Result<(), ProfileError> {
        const BLOCKS: &str = "must be a multiple of 4096 above 0";
        let is_blocks = |bytes: u64| bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES_U64);
        let (window, granularity) = (self.window_bytes, self.flush_granularity_bytes);
        demand(is_blocks(granularity), "zrwa.flush_granularity_bytes", BLOCKS)?;
        let whole = window >= granularity && window.is_multiple_of(granularity);
        demand(whole, "zrwa.window_bytes", "must be a multiple of flush_granularity_bytes")?;
        let fits = window <= geometry.zone_capacity_bytes / 2;
        demand(fits, "zrwa.window_bytes", "must be at most half of geometry.zone_capacity_bytes")?;
        let even = geometry.zone_capacity_bytes.is_multiple_of(granularity);
        demand(even, "zrwa.flush_granularity_bytes", "must divide geometry.zone_capacity_bytes")?;
        let some = (1..=geometry.active_zones_max).contains(&self.zones);
        demand(some, "zrwa.zones", "must be from 1 to geometry.active_zones_max")?;
        demand_curve(&self.demand_us, "zrwa.demand_us")?;
        demand_curve(&self.latency_us, "zrwa.latency_us")?;
        demand_curve(&self.read_us, "zrwa.read_us")?;
        demand_time(self.commit_us, "zrwa.commit_us")
    }

    /// Areas of a drive whose real one has none: windows are written as zones are, in memory.
    pub(super) fn like_zones(command: &Command, read_us: &Curve, commit_us: f64) -> Zrwa {
        Zrwa {
            zones: 0,
            window_bytes: 0,
            flush_granularity_bytes: 0,
            backing: Backing::Dram,
            demand_us: command.write_demand_us.clone(),
            latency_us: command.write_latency_us.clone(),
            read_us: read_us.clone(),
            commit_us,
        }
    }

    /// The areas in blocks, as a drive reports them.
    pub(super) fn areas(&self) -> Areas {
        let blocks = |bytes: u64| u32::try_from(bytes / BLOCK_BYTES_U64).expect("sizes were checked");
        Areas {
            zones_max: self.zones,
            window_blocks: blocks(self.window_bytes),
            granule_blocks: blocks(self.flush_granularity_bytes),
            explicit_commit: true,
        }
    }

    /// Takes the areas that an emulated drive has.
    pub(super) fn take(&mut self, areas: &Areas) {
        self.zones = areas.zones_max;
        self.window_bytes = u64::from(areas.window_blocks) * BLOCK_BYTES_U64;
        self.flush_granularity_bytes = u64::from(areas.granule_blocks) * BLOCK_BYTES_U64;
    }
}
