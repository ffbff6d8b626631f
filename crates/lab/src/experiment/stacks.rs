//! Peers that are stacks of layers, on the drives of a plan: as many zones, of the same size, as a log-structured array of that plan has.
//!
//! ```text
//!   mdraid+dmzap          in-place engine (chunks of 64 KiB) ─> dm-zap on each drive
//!   mdraid+dmzap-volatile 56 MiB of memory ─> the same, merging; a power failure takes what is in that memory
//!   mdraid+conventional   in-place engine ─> conventional drives on the same hardware, with as much flash
//!   dmzap+raizn           dm-zap ─> logical zones of the baseline after RAIZN, the merging version
//! ```
//! **In what respect they are better than what they stand for.** The in-place engine is the project's own, not md: it asks drives for less
//! and costs no time. The volume was written before, in order, so that old data and parities are read from flash as on any array that is
//! in use, but no drive has garbage then. Conventional drives cost no time of the host between commands, and have all the flash that
//! zoned ones have beyond the volume as spare, up to four times it. What dm-zap is better in, `crates/lab/src/dmzap.rs` says.

mod buffered;
mod rig;
#[cfg(test)]
mod tests;

use super::clients;
use super::host::Clock;
use super::rig::{Answer, Array, Ask, MOUNTED_AT, Plan, blocks_of_kib, new_drive};
use super::scheme::{Scheme, Stack};
use super::volume_rig::VolumeRig;
use super::wear::Meter;
use crate::dmzap::device::{SharedCounters, ZapDevice};
use crate::dmzap::over_raizn::ZapOverRaizn;
use crate::dmzap::{self, DmZap, VictimPolicy};
use crate::md_array::{Ahead, DATA_OFFSET, NewArray};
use anyhow::{Context, Result, bail};
use array::inplace::start::Tuning;
use array::inplace::volume::InPlaceVolume;
use base::time::{Instant, Nanos};
use base::units::BLOCK_BYTES_U64;
use baseline::config::{Header, LOG_ZONES, RaiznConfig};
use baseline::volume::RaiznVolume;
use block::device::{BlockDevice, FRAME_SECTORS};
use block::devices::DeviceSet;
use buffered::Buffered;
use drive::modelled::ModelledDevice;
use drive::timing::{ModelOptions, Profile};
use rig::{Counting, CountingDevice, Flash, InPlaceStack};
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// Chunks of md.
const CHUNK_KIB: u32 = 64;
/// Whole stripes of 3+1.
const FILL_BLOCKS: u32 = 48;
/// Frames for clients: 64 requests of 2 MiB.
const CLIENT_FRAMES: usize = 64 * 512;
/// Conventional drives erase blocks of this size, or of zones where those are smaller; and have so many of them at least.
const ERASE_BLOCK_BYTES: u64 = 48 << 20;
const ERASE_BLOCKS_MIN: u64 = 64;
/// Spare flash of a conventional drive, in capacities.
const OVER_PROVISION: [f64; 2] = [0.01, 4.0];
const CONVENTIONAL: &str = "conventional-nvme";

/// An array that counts what its flash was written with, whatever it is made of.
trait Counted: Array {
    /// Blocks that clients wrote, and blocks that were programmed.
    fn counts(&self) -> (u64, u64);

    /// Meter of the writes to drives, where they count.
    fn meter(&self) -> Option<&Meter>;

    /// Lets time pass with no requests.
    fn idle(&mut self, span: Nanos) -> Result<()>;
}

/// A stack at work.
pub struct StackRig {
    array: Box<dyn Counted>,
    volume_blocks: u64,
    /// Parities are updated in place.
    updates: bool,
    /// Counts when clients began.
    before: (u64, u64),
}

impl StackRig {
    /// The stack on the drives of a plan; nothing was written.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn new(plan: &Plan, policy: VictimPolicy) -> Result<StackRig> {
        let Scheme::Stack(stack) = plan.scheme else { bail!("another scheme") };
        let array: Box<dyn Counted> = match stack {
            Stack::MdDmZap | Stack::MdDmZapMerged => {
                Box::new(md_over_dmzap(plan, stack != Stack::MdDmZap, policy)?)
            }
            Stack::MdDmZapVolatile => Box::new(Buffered::new(md_over_dmzap(plan, true, policy)?)),
            Stack::MdConventional => Box::new(md_over_conventional(plan)?),
            Stack::DmZapRaizn | Stack::DmZapRaiznMerged => {
                Box::new(dmzap_over_raizn(plan, stack == Stack::DmZapRaiznMerged, policy)?)
            }
        };
        let updates = !matches!(stack, Stack::DmZapRaizn | Stack::DmZapRaiznMerged);
        Ok(StackRig { array, volume_blocks: plan.volume_blocks, updates, before: (0, 0) })
    }

    /// Writes the volume in order, where what is there already counts: in arrays that update in place.
    ///
    /// # Errors
    /// When a request fails.
    pub fn write_volume(&mut self) -> Result<()> {
        if self.updates {
            clients::fill(self, FILL_BLOCKS)?;
        }
        self.before = self.array.counts();
        Ok(())
    }

    /// Blocks that clients wrote since then, and blocks that were programmed.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let (user, flash) = self.array.counts();
        (user - self.before.0, flash - self.before.1)
    }

    /// Meter of the writes to drives, where they count.
    #[must_use]
    pub fn meter(&self) -> Option<&Meter> {
        self.array.meter()
    }

    /// Lets time pass with no requests.
    ///
    /// # Errors
    /// When the engine does not come to rest.
    pub fn idle(&mut self, span: Nanos) -> Result<()> {
        self.array.idle(span)
    }
}

impl Array for StackRig {
    fn now(&self) -> Instant {
        self.array.now()
    }

    fn volume_blocks(&self) -> u64 {
        self.volume_blocks
    }

    fn submit(&mut self, ask: Ask) -> u64 {
        self.array.submit(ask)
    }

    fn submit_forced(&mut self, ask: Ask) -> u64 {
        self.array.submit_forced(ask)
    }

    fn flush(&mut self) -> u64 {
        self.array.flush()
    }

    fn wait(&mut self, until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()> {
        self.array.wait(until, answers)
    }

    fn blocks_decoded(&self) -> u64 {
        0
    }
}

/// The array of a plan in place, and blocks of each of its devices.
fn in_place(plan: &Plan) -> Result<(NewArray, u64)> {
    let chunk_blocks = u64::from(blocks_of_kib(CHUNK_KIB));
    let data = plan.volume_blocks.div_ceil(plan.drives as u64 - 1).next_multiple_of(chunk_blocks);
    let blocks = data + DATA_OFFSET / FRAME_SECTORS;
    let array = NewArray {
        level: 5,
        members: u32::try_from(plan.drives)?,
        chunk_sectors: CHUNK_KIB * 2,
        sectors: blocks * FRAME_SECTORS,
        bitmap: None,
        is_clean: true,
        ahead: Ahead::Nothing,
    };
    Ok((array, blocks))
}

fn volume_of(array: &NewArray, devices: Vec<Option<Box<dyn BlockDevice>>>) -> Result<InPlaceVolume> {
    let engine = array.engine(Tuning { client_frames: CLIENT_FRAMES, ..Tuning::default() })?;
    Ok(InPlaceVolume::new(engine, DeviceSet::new(devices)))
}

fn zap_config(blocks: u64, geometry: &Geometry, merges: bool, policy: VictimPolicy) -> dmzap::Config {
    dmzap::Config {
        blocks,
        zones: geometry.zones,
        zone_blocks: geometry.zone_capacity_blocks,
        command_blocks_max: geometry.transfer_blocks_max,
        merges,
        policy,
    }
}

fn md_over_dmzap(plan: &Plan, merges: bool, policy: VictimPolicy) -> Result<VolumeRig<InPlaceStack>> {
    let (array, blocks) = in_place(plan)?;
    let geometry = plan.config()?.geometry;
    let clock = Clock::default();
    let (mut devices, mut flash): (Vec<Option<Box<dyn BlockDevice>>>, _) = (Vec::new(), Vec::new());
    for number in 1..=plan.drives as u64 {
        let (drive, _) = new_drive(plan, geometry, &clock, number)?;
        let zap = DmZap::new(zap_config(blocks, &geometry, merges, policy))?;
        let counters = SharedCounters::default();
        devices.push(Some(Box::new(ZapDevice::new(zap, drive, counters.clone()))));
        flash.push(Flash::DmZap(counters));
    }
    let stack = InPlaceStack { volume: volume_of(&array, devices)?, flash };
    Ok(VolumeRig::over(stack).metered(clock.meter()))
}

fn md_over_conventional(plan: &Plan) -> Result<VolumeRig<InPlaceStack>> {
    let (array, blocks) = in_place(plan)?;
    let geometry = plan.config()?.geometry;
    let bytes = blocks * BLOCK_BYTES_U64;
    let flash = crate::precise::precise_u64(geometry.capacity_bytes());
    let spare =
        (flash / crate::precise::precise_u64(bytes) - 1.0).clamp(OVER_PROVISION[0], OVER_PROVISION[1]);
    let zone_bytes = u64::from(geometry.zone_capacity_blocks) * BLOCK_BYTES_U64;
    let like = Profile::load(CONVENTIONAL)?;
    let erased_bytes = zone_bytes.min(ERASE_BLOCK_BYTES).min(bytes / ERASE_BLOCKS_MIN);
    let profile = plan.profile.as_conventional(&like, bytes, (spare, erased_bytes))?;
    let (mut devices, mut flash): (Vec<Option<Box<dyn BlockDevice>>>, _) = (Vec::new(), Vec::new());
    for number in 1..=plan.drives as u64 {
        // As those of zoned drives: of two runs they share none.
        let options = ModelOptions { seed: plan.seed << 16 | number, ..ModelOptions::default() };
        let device = ModelledDevice::new(array.sectors, &profile, options);
        let counting = Counting::default();
        let device = CountingDevice::new(device.context("a drive without zones")?, counting.clone());
        devices.push(Some(Box::new(device)));
        flash.push(Flash::Conventional(counting));
    }
    Ok(VolumeRig::over(InPlaceStack { volume: volume_of(&array, devices)?, flash }))
}

fn dmzap_over_raizn(plan: &Plan, merges: bool, policy: VictimPolicy) -> Result<VolumeRig<ZapOverRaizn>> {
    let geometry = Geometry { areas: None, ..plan.config()?.geometry };
    let config = RaiznConfig {
        array: *b"virtual array 02",
        members: plan.drives,
        chunk_blocks: plan.chunk_blocks,
        geometry,
    };
    let mut tuning = baseline::config::Tuning::usual(&config, Header::OutOfBand);
    tuning.write_blocks_max = dmzap::MERGED_BLOCKS_MAX.min(geometry.transfer_blocks_max);
    // Where zones are small, their logs have room for fewer stripes in flight.
    while config.validate(&tuning).is_err() && tuning.stripes_in_flight > 1 {
        tuning.stripes_in_flight -= 1;
    }
    config.validate(&tuning)?;
    let clock = Clock::default();
    let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
    for number in 1..=plan.drives as u64 {
        devices.push(Some(new_drive(plan, geometry, &clock, number)?.0));
    }
    let mut drives = DriveSet::new(devices);
    baseline::format(&mut drives, &config, &tuning)?;
    let (engine, drives) = baseline::mount(drives.into_inner(), tuning, MOUNTED_AT)?;
    let below = RaiznVolume::new(engine, drives);
    let logical = Geometry {
        zones: geometry.zones - LOG_ZONES,
        zone_capacity_blocks: config.map().zone_blocks(),
        ..geometry
    };
    let zap = DmZap::new(zap_config(plan.volume_blocks, &logical, merges, policy))?;
    Ok(VolumeRig::over(ZapOverRaizn::new(zap, below)).metered(clock.meter()))
}
