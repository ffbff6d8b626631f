//! What a mount takes, in virtual time and in memory: an array whose volume was written from start to end, after a crash
//! while clients write, without a checkpoint and with one.
//!
//! ```text
//!  volume is full ─> mount ─> writes ─> crash ─> mount ─> checkpoint ─> crash ─> mount ─> writes ─> crash ─> mount
//!                    at rest                     without                         image                       with
//! ```
//! Clients write at random for so many bytes before each crash, and have requests in flight when it comes: that much
//! is in segments that are open, or were sealed since. The drives are those of [`FilledDrive`](crate::experiment::filled), so a volume
//! of a TiB takes a few GiB of memory.

use crate::experiment::clients;
use crate::experiment::rig::{Plan, Rig};
use crate::experiment::scheme::Scheme;
use crate::experiment::setting::Setting;
use crate::precise::precise_u64;
use anyhow::{Result, ensure};
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
    let mut mounts = vec![mount_of("all footers, nothing open", &rig, rig.mount_time())];
    let volume_bytes = rig.volume_blocks() * BLOCK_BYTES_U64;
    ensure!(rig.volume().engine.status().used_bytes == volume_bytes, "not all blocks were found");
    let (mut rig, took) = crash_under_load(rig, options)?;
    mounts.push(mount_of("a crash, without a checkpoint", &rig, took));
    let before = rig.now();
    rig.write_checkpoint()?;
    let checkpoint_seconds = seconds(rig.now().since(before));
    let (rig, took) = rig.crash()?;
    mounts.push(mount_of("a checkpoint, nothing written since", &rig, took));
    let (rig, took) = crash_under_load(rig, options)?;
    mounts.push(mount_of("a crash, with a checkpoint", &rig, took));
    ensure!(mounts[2].uses_checkpoint && mounts[3].uses_checkpoint, "the checkpoint was not used");
    Ok(MountReport {
        profile: options.profile.name().to_owned(),
        scheme: options.scheme,
        volume_bytes,
        since_bytes: options.since_bytes,
        checkpoint_seconds,
        mounts,
    })
}

fn plan(options: &MountRun) -> Result<Plan> {
    let mut plan = Plan::new(options.scheme, &Setting::paper(4, 4), options.seed)?;
    plan.zone_capacity_blocks = options.profile.geometry().zone_capacity_blocks;
    plan.profile = options.profile.clone();
    plan.filled(options.size_bytes / BLOCK_BYTES_U64)
}

/// Clients write until the power goes.
fn crash_under_load(mut rig: Rig, options: &MountRun) -> Result<(Rig, Nanos)> {
    clients::write_at_random(&mut rig, options.since_bytes / BLOCK_BYTES_U64, options.seed)?;
    rig.crash_in_writes(IN_FLIGHT)
}

fn mount_of(after: &'static str, rig: &Rig, took: Nanos) -> Mount {
    let memory = rig.mount_memory();
    let volume_bytes = precise_u64(rig.volume_blocks() * BLOCK_BYTES_U64);
    Mount {
        after,
        seconds: seconds(took),
        peak_bytes: memory.peak,
        kept_bytes: memory.end,
        peak_bytes_per_tib: precise_u64(memory.peak) * precise_u64(TIB) / volume_bytes,
        uses_checkpoint: rig.volume().engine.has_checkpoint(),
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
            let report = run(&MountRun { profile, scheme, size_bytes, since_bytes, seed: 1 }).unwrap();
            assert!(report.volume_bytes >= size_bytes);
            let used: Vec<bool> = report.mounts.iter().map(|mount| mount.uses_checkpoint).collect();
            assert_eq!(used, [false, false, true, true]);
            assert!(report.mounts.iter().all(|mount| mount.seconds > 0.0));
        }
    }
}
