//! What a mount takes, in virtual time and in memory: an array whose volume was written from start to end, after a crash
//! while clients write, without a checkpoint and with one.
//!
//! ```text
//!  volume is full ─> mount ─> writes ─> crash ─> mount ─> checkpoint ─> crash ─> mount ─> writes ─> crash ─> mount
//!                    at rest                     without                         image                       with
//! ```
//! Clients write at random for so many bytes before each crash, and have requests in flight when it comes: that much
//! is in segments that are open, or were sealed since. With a write area its slots are filled last, by writes that are flushed one by one. The drives are those of [`FilledDrive`](crate::experiment::filled), so a volume
//! of a TiB takes a few GiB of memory.

use crate::experiment::rig::{Plan, Rig};
use crate::experiment::scheme::Scheme;
use crate::experiment::setting::Setting;
use crate::experiment::{clients, slots};
use crate::precise::precise_u64;
use crate::workload::Measured;
use anyhow::{Result, ensure};
use base::random::Random;
use base::time::Nanos;
use base::units::BLOCK_BYTES_U64;
use drive::timing::Profile;
use serde::Serialize;

const TIB: u64 = 1 << 40;
/// Blocks that are being written when the power goes.
const IN_FLIGHT: u64 = 64;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct MountRun {
    /// The drives.
    pub profile: Profile,
    /// Scheme by which stripes are placed.
    pub scheme: Scheme,
    /// Size of the volume at least, all of it written: whole segments.
    pub size_bytes: u64,
    /// Bytes that clients write before each crash.
    pub since_bytes: u64,
    /// Zones of each drive for the write area.
    pub write_area_zones: u32,
    /// Seed of drives and requests.
    pub seed: u64,
}

/// Measurements of one mount.
#[derive(Clone, Debug, Serialize)]
pub struct Mount {
    /// Events before the mount.
    pub after: &'static str,
    /// Virtual time until clients are served.
    pub seconds: f64,
    /// Most memory at a time, beyond what there was before; zero when nobody counts.
    pub peak_bytes: u64,
    /// Bytes of the peak that the engine keeps.
    pub kept_bytes: u64,
    /// Peak per TiB of the volume.
    pub peak_bytes_per_tib: f64,
    /// A checkpoint told it what sealed segments hold.
    pub uses_checkpoint: bool,
    /// Blocks that slots of the write area held when the power went: all of them are in the log before clients are served.
    pub in_slots: u64,
}

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct MountReport {
    /// The drives.
    pub profile: String,
    /// Scheme by which stripes are placed.
    pub scheme: Scheme,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Bytes that clients wrote before each crash.
    pub since_bytes: u64,
    /// Slots of the write area.
    pub slots: u64,
    /// Virtual time of writing the checkpoint.
    pub checkpoint_seconds: f64,
    /// The mounts, in order.
    pub mounts: Vec<Mount>,
}

/// Runs.
///
/// # Errors
/// When there can be no such array, or it cannot be mounted.
pub fn run(options: &MountRun) -> Result<MountReport> {
    let rig = Rig::new(plan(options)?)?;
    let mut mounts = vec![mount_of("all footers, nothing open", &rig, (rig.mount_time(), 0))];
    let volume_bytes = rig.volume_blocks() * BLOCK_BYTES_U64;
    ensure!(rig.volume().engine.status().used_bytes == volume_bytes, "not all blocks were found");
    let (mut rig, took) = crash_under_load(rig, options)?;
    mounts.push(mount_of("a crash, without a checkpoint", &rig, took));
    let before = rig.now();
    rig.write_checkpoint()?;
    let checkpoint_seconds = seconds(rig.now().since(before));
    let slots = slots_of(&rig).0;
    let (rig, took) = rig.crash()?;
    mounts.push(mount_of("a checkpoint, nothing written since", &rig, (took, 0)));
    let (rig, took) = crash_under_load(rig, options)?;
    mounts.push(mount_of("a crash, with a checkpoint", &rig, took));
    ensure!(mounts[2].uses_checkpoint && mounts[3].uses_checkpoint, "the checkpoint was not used");
    Ok(MountReport {
        profile: options.profile.name().to_owned(),
        scheme: options.scheme,
        volume_bytes,
        since_bytes: options.since_bytes,
        slots,
        checkpoint_seconds,
        mounts,
    })
}

fn plan(options: &MountRun) -> Result<Plan> {
    let mut plan = Plan::new(options.scheme, &Setting::paper(4, 4), options.seed)?;
    plan.zone_capacity_blocks = options.profile.geometry().zone_capacity_blocks;
    plan.profile = options.profile.clone();
    plan.write_area_zones = options.write_area_zones;
    let mut plan = plan.filled(options.size_bytes / BLOCK_BYTES_U64)?;
    plan.afford_write_area()?;
    let zones = plan.write_area_zones;
    let asked = options.write_area_zones;
    ensure!(zones == asked, "--write-area {asked}: there is room for {zones} zones of each drive");
    Ok(plan)
}

/// Clients write until the power goes. Returns the time of the mount, and how many blocks were in slots.
fn crash_under_load(mut rig: Rig, options: &MountRun) -> Result<(Rig, (Nanos, u64))> {
    clients::write_at_random(&mut rig, options.since_bytes / BLOCK_BYTES_U64, options.seed)?;
    fill_slots(&mut rig, options)?;
    let in_slots = slots_of(&rig).1;
    let (rig, took) = rig.crash_in_writes(IN_FLIGHT)?;
    Ok((rig, (took, in_slots)))
}

/// Writes blocks one by one, each flushed, until the slots of the write area are in use but for those that are kept free.
fn fill_slots(rig: &mut Rig, options: &MountRun) -> Result<()> {
    if options.write_area_zones == 0 {
        return Ok(());
    }
    // The zones of the area before the last crash are erased first.
    rig.quiesce()?;
    let slots = slots_of(rig).0;
    ensure!(slots > 0, "no write area was opened");
    let mut random = Random::from_seed(options.seed);
    let (mut most, mut made_room) = (0, false);
    for _ in 0..2 * slots {
        slots::write(rig, random.below(rig.volume_blocks()), &mut Measured::default())?;
        let live = slots_of(rig).1;
        made_room |= live < most;
        most = most.max(live);
        if made_room && live == most {
            break;
        }
    }
    ensure!(4 * most >= 3 * slots, "the write area was not filled: {most} of {slots} slots");
    Ok(())
}

/// Slots of the write area, and those that hold the newest version of a block.
fn slots_of(rig: &Rig) -> (u64, u64) {
    let area = rig.volume().engine.status().write_area.unwrap_or_default();
    (area.slots, area.live)
}

fn mount_of(after: &'static str, rig: &Rig, (took, in_slots): (Nanos, u64)) -> Mount {
    let memory = rig.mount_memory();
    let volume_bytes = precise_u64(rig.volume_blocks() * BLOCK_BYTES_U64);
    Mount {
        after,
        seconds: seconds(took),
        peak_bytes: memory.peak,
        kept_bytes: memory.end,
        peak_bytes_per_tib: precise_u64(memory.peak) * precise_u64(TIB) / volume_bytes,
        uses_checkpoint: rig.volume().engine.has_checkpoint(),
        in_slots,
    }
}

fn seconds(time: Nanos) -> f64 {
    precise_u64(time.0) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every block of a volume whose drives are computed is found, and a checkpoint of it can be used.
    #[test]
    fn a_filled_volume_is_mounted_with_and_without_a_checkpoint() {
        for scheme in [Scheme::ZapRaid, Scheme::Adaptive] {
            let profile = Profile::load("zn540-4tb").unwrap();
            let (size_bytes, since_bytes) = (4 << 30, 8 << 20);
            let options = MountRun { profile, scheme, size_bytes, since_bytes, write_area_zones: 0, seed: 1 };
            let report = run(&options).unwrap();
            assert!(report.volume_bytes >= size_bytes);
            let used: Vec<bool> = report.mounts.iter().map(|mount| mount.uses_checkpoint).collect();
            assert_eq!(used, [false, false, true, true]);
            assert!(report.mounts.iter().all(|mount| mount.seconds > 0.0));
        }
    }

    /// Blocks in slots when the power goes are in the log before clients are served, in 25 ms more (docs/experiments.md).
    #[test]
    fn a_full_write_area_makes_a_mount_little_longer() {
        let of = |write_area_zones| {
            let profile = Profile::load("zn540-4tb").unwrap();
            let (scheme, size_bytes, since_bytes) = (Scheme::ZoneWriteOnly, 4 << 30, 8 << 20);
            let options = MountRun { profile, scheme, size_bytes, since_bytes, write_area_zones, seed: 1 };
            run(&options)
        };
        let (without, with) = (of(0).unwrap(), of(8).unwrap());
        for at in [1, 3] {
            let more = with.mounts[at].seconds - without.mounts[at].seconds;
            assert!(with.mounts[at].in_slots > 3_600, "{:?}", with.mounts[at]);
            assert!(more > 0.0 && more < 0.025, "{more} s more");
        }
        assert!(of(14).unwrap_err().to_string().contains("room for"), "no zone is left for segments");
    }
}
