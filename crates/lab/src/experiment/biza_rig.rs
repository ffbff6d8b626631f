//! BIZA as published on the drives of a plan: as many zones, of the same size, as a log-structured array of that plan has.

use super::host::Clock;
use super::rig::{Plan, new_drive};
use super::scheme::Scheme;
use super::volume_rig::{Timed, VolumeRig};
use crate::biza::config::BizaConfig;
use crate::biza::{Biza, BizaVolume, Counters};
use anyhow::{Result, ensure};
use array::driven::Driven;
use base::time::Instant;
use zone::drives::DriveSet;

/// The peer at work.
pub type BizaRig = VolumeRig<BizaVolume>;

impl Timed for BizaVolume {
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        Driven::pass_time(self, now, until)
    }

    fn blocks_decoded(&self) -> u64 {
        self.engine.counters().decoded
    }
}

impl BizaRig {
    /// The peer on the drives of a plan. It uses all zones, for it has no superblocks.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn new(plan: &Plan, selects: bool) -> Result<BizaRig> {
        BizaRig::with(plan, selects, true)
    }

    /// The same, with its avoidance of busy channels or without.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn with(plan: &Plan, selects: bool, avoids: bool) -> Result<BizaRig> {
        ensure!(plan.scheme == Scheme::Biza, "another scheme");
        let geometry = plan.config()?.geometry;
        let config =
            BizaConfig { members: plan.drives, volume_blocks: plan.volume_blocks, geometry, selects, avoids };
        let clock = Clock::default();
        let mut devices = Vec::new();
        for number in 1..=plan.drives as u64 {
            let (device, _) = new_drive(plan, geometry, &clock, number)?;
            devices.push(Some(device));
        }
        let volume = BizaVolume::new(Biza::new(config)?, DriveSet::new(devices));
        Ok(BizaRig::over(volume).metered(clock.meter()))
    }

    /// Counts since the array was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.volume().engine.counters()
    }
}
