//! How fast a lost drive is rebuilt, in virtual time, beside how fast the new drive alone can be written: full-drive
//! recovery of the ZapRAID paper (experiment 7), as a share of what the drive allows.
//!
//! With a client, drives have volatile caches that take as long to flush as what they hold takes to be written, as files
//! on a disk do; the client writes a block and flushes, in turn. How long its flushes take beside a rebuild is held
//! against how long they take without.

use crate::cached_drive::CachedDrive;
use crate::precise::precise_u64;
use crate::sizing;
use anyhow::{Context, Result, ensure};
use array::engine::Engine;
use array::log::config::{ArrayConfig, OpenSegments, Tuning};
use array::log::status::Health;
use array::log::volume::LogVolume;
use array::log::{format, mount};
use array::pacer::Rates;
use array::request::{Outcome, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES_U64, DriveIndex, Lba, ZoneIndex};
use drive::emulated::{EmulatedDrive, TimedDrive};
use drive::timing::{ModelOptions, Profile};
use serde::Serialize;
use zone::device::{Command, Geometry, Op, Status, Token, ZonedDevice};
use zone::drives::DriveSet;
use zone::stripe::Level;

/// Zones of a run, scaled down: the ends of zones cost more than on the real drive, never less.
const ZONE_CAPACITY_BLOCKS: u32 = 16_384;
/// Blocks of each write that fills the volume, and how many are in flight.
const FILL_BLOCKS: u64 = 64;
const FILL_DEPTH: u64 = 32;
/// Zones written, and blocks of each command, to find the drive's limit.
const LIMIT_ZONES: u32 = 8;
const LIMIT_BLOCKS: usize = 64;
/// Turns at one instant after which the engine is stuck.
const TURNS_MAX: u32 = 1_000_000;
/// Drives in virtual time have been busy until some instant; mounting waits for them from there.
const MOUNTED_AT: Instant = Instant(2_000_000_000);

/// Time for which the client is alone.
const ALONE: Nanos = Nanos::from_micros(1_000_000);
/// Distance from one write of the client to the next: a prime, so that the client gets everywhere.
const CLIENT_STRIDE: u64 = 7_919;

/// The drive that is lost.
const LOST: DriveIndex = DriveIndex(1);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RebuildRun {
    /// The drives.
    pub profile: Profile,
    /// RAID level.
    pub level: Level,
    /// Drives.
    pub drives: usize,
    /// Bytes of each chunk.
    pub chunk_bytes: u64,
    /// Stripes of a group; 1 uses Zone Write.
    pub group_stripes: u32,
    /// Size of the volume, all of it written.
    pub size_bytes: u64,
    /// Limit of the rebuild in bytes per second: zero is none, and without one it takes what clients leave.
    pub rate: Option<u64>,
    /// A client writes and flushes beside it.
    pub client: bool,
    /// Seed of the drives.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RebuildReport {
    /// The drives.
    pub profile: String,
    /// Bytes written to the new drive.
    pub bytes: u64,
    /// Virtual time from the replacement until the array was whole.
    pub seconds: f64,
    /// Throughput of the rebuild.
    pub mib_per_second: f64,
    /// Throughput of one such drive that does nothing but take writes, to eight zones at once.
    pub limit_mib_per_second: f64,
    /// Throughput of the rebuild as a share of that limit.
    pub share: f64,
    /// Flushes of the client, if there was one.
    pub client: Option<ClientReport>,
}

/// Flushes of a client, alone and beside the rebuild.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClientReport {
    /// Flushes before the rebuild.
    pub flushes_alone: u64,
    /// The longest of them.
    pub flush_us_max_alone: f64,
    /// Flushes during the rebuild.
    pub flushes_beside: u64,
    /// The longest of them.
    pub flush_us_max_beside: f64,
}

/// Runs.
///
/// # Errors
/// When the array cannot be made like this, or something fails.
pub fn run(options: &RebuildRun) -> Result<RebuildReport> {
    ensure!(options.profile.has_zones(), "profile {} has no zones", options.profile.name());
    ensure!(options.level != Level::Raid0, "raid0 has nothing to rebuild a drive from: use raid4 or raid5");
    let config = config_of(options)?;
    let mut array = Array::new(options, &config)?;
    // With a client, some of the volume stays empty: the collector is not to begin as the rebuild does.
    let blocks = array.volume.engine.blocks();
    array.fill(if options.client { blocks / 2 } else { blocks })?;
    array.lose_drive()?;
    let mut client = options.client.then(Client::default);
    let alone = array.leave_alone(client.as_mut())?;
    let (bytes, seconds) = array.rebuild(options, &config, client.as_mut())?;
    let limit_mib_per_second = write_limit(options, &config.geometry)?;
    let mib_per_second = precise_u64(bytes) / seconds / f64::from(1 << 20);
    Ok(RebuildReport {
        profile: options.profile.name().to_owned(),
        bytes,
        seconds,
        mib_per_second,
        limit_mib_per_second,
        share: mib_per_second / limit_mib_per_second,
        client: client.map(|beside| ClientReport {
            flushes_alone: alone.count,
            flush_us_max_alone: micros(alone.longest),
            flushes_beside: beside.flushes.count,
            flush_us_max_beside: micros(beside.flushes.longest),
        }),
    })
}

fn micros(span: Nanos) -> f64 {
    precise_u64(span.0) / 1e3
}

fn config_of(options: &RebuildRun) -> Result<ArrayConfig> {
    let geometry = Geometry {
        zones: 0,
        zone_size_blocks: ZONE_CAPACITY_BLOCKS,
        zone_capacity_blocks: ZONE_CAPACITY_BLOCKS,
        volatile_cache: options.client,
        areas: None,
        ..options.profile.geometry()
    };
    let config = ArrayConfig {
        array: *b"virtual array 02",
        level: options.level,
        members: options.drives,
        chunk_blocks: u32::try_from(options.chunk_bytes / BLOCK_BYTES_U64)?,
        group_stripes: options.group_stripes,
        open: OpenSegments::default(),
        volume_blocks: 0,
        geometry,
    };
    Ok(sizing::fit_volume(config, options.size_bytes / BLOCK_BYTES_U64)?)
}

fn drive(options: &RebuildRun, geometry: Geometry, number: u8) -> Result<Box<dyn ZonedDevice>> {
    let drive = EmulatedDrive::on_heap(geometry, [number; 16])?;
    let model = ModelOptions { seed: options.seed + u64::from(number), ..ModelOptions::default() };
    let drive = Box::new(TimedDrive::new(drive, &options.profile, model));
    Ok(if options.client { Box::new(CachedDrive::new(drive)) } else { drive })
}

/// Flushes that were answered.
#[derive(Clone, Copy, Debug, Default)]
struct Flushes {
    count: u64,
    longest: Nanos,
}

/// A client that writes a block and flushes, in turn.
#[derive(Debug, Default)]
struct Client {
    requests: u64,
    /// Since when a flush is under way.
    flushing_since: Option<Instant>,
    is_waiting: bool,
    flushes: Flushes,
}

/// An array in virtual time.
struct Array {
    volume: LogVolume,
    now: Instant,
}

impl Array {
    fn new(options: &RebuildRun, config: &ArrayConfig) -> Result<Array> {
        let numbers: Vec<u8> = (1..=u8::try_from(options.drives)?).collect();
        let devices: Result<Vec<_>> =
            numbers.iter().map(|number| Ok(Some(drive(options, config.geometry, *number)?))).collect();
        let mut drives = DriveSet::new(devices?);
        let uuids: Vec<[u8; 16]> = numbers.iter().map(|number| [*number; 16]).collect();
        format(&mut drives, config, &uuids)?;
        let (shard, drives, _) = mount(drives.into_inner(), Tuning::default(), Instant(MOUNTED_AT.0 / 2))?;
        Ok(Array { volume: LogVolume::new(shard, drives), now: MOUNTED_AT })
    }

    /// Everything that happens at this instant; how many requests were answered.
    fn turn(&mut self) -> Result<u64> {
        let mut replies = Vec::new();
        let mut turns = 0;
        while self.volume.turn(self.now, &mut replies) {
            turns += 1;
            ensure!(turns < TURNS_MAX, "the engine does not come to rest");
        }
        let mut answered = 0;
        for mut reply in replies {
            ensure!(reply.outcome == Outcome::Done, "a request failed");
            self.volume.frames().give_many(&mut reply.frames);
            answered += 1;
        }
        Ok(answered)
    }

    /// Goes to the next event.
    fn wait(&mut self) -> Result<u64> {
        let next = self.volume.next_deadline().context("nothing is under way and nothing answered")?;
        self.now = self.now.max(next);
        self.turn()
    }

    /// Writes so many blocks of the volume once, and waits until everything is at rest.
    fn fill(&mut self, blocks: u64) -> Result<()> {
        let (mut lba, mut in_flight) = (0, 0);
        while lba < blocks || in_flight > 0 {
            while lba < blocks && in_flight < FILL_DEPTH {
                let count = FILL_BLOCKS.min(blocks - lba);
                let mut frames = Vec::new();
                self.volume.frames().take_many(usize::try_from(count)?, &mut frames);
                let op = RequestOp::Write { lba: Lba(lba), frames, force_unit_access: false };
                self.volume.submit(self.now, Request { id: RequestId(lba), op });
                lba += count;
                in_flight += 1;
                in_flight -= self.turn()?;
            }
            in_flight -= self.wait()?;
        }
        while !self.volume.is_at_rest() {
            self.wait()?;
        }
        Ok(())
    }

    fn lose_drive(&mut self) -> Result<()> {
        self.volume.fail_member(LOST);
        self.turn()?;
        while !self.volume.is_at_rest() {
            self.wait()?;
        }
        Ok(())
    }

    /// The client goes on, if there is one.
    fn serve(&mut self, client: Option<&mut Client>, answered: u64) -> Result<()> {
        let Some(client) = client else { return Ok(()) };
        client.is_waiting &= answered == 0;
        while !client.is_waiting {
            let op = match client.flushing_since.take() {
                Some(since) => {
                    client.flushes.count += 1;
                    client.flushes.longest = client.flushes.longest.max(self.now.since(since));
                    let lba = Lba(client.requests * CLIENT_STRIDE % self.volume.engine.blocks());
                    let mut frames = Vec::new();
                    self.volume.frames().take_many(1, &mut frames);
                    RequestOp::Write { lba, frames, force_unit_access: false }
                }
                None => {
                    client.flushing_since = Some(self.now);
                    RequestOp::Flush
                }
            };
            client.requests += 1;
            self.volume.submit(self.now, Request { id: RequestId(client.requests), op });
            client.is_waiting = self.turn()? == 0;
        }
        Ok(())
    }

    /// The client has the array for itself for a while.
    fn leave_alone(&mut self, client: Option<&mut Client>) -> Result<Flushes> {
        let Some(client) = client else { return Ok(Flushes::default()) };
        let until = self.now + ALONE;
        self.serve(Some(client), 0)?;
        while self.now < until {
            let answered = self.wait()?;
            self.serve(Some(client), answered)?;
        }
        Ok(std::mem::take(&mut client.flushes))
    }

    /// Rebuilds the drive that was lost; bytes written to the new one, and how long that took in seconds.
    fn rebuild(
        &mut self,
        options: &RebuildRun,
        config: &ArrayConfig,
        mut client: Option<&mut Client>,
    ) -> Result<(u64, f64)> {
        let number = u8::try_from(options.drives)? + 1;
        self.volume.set_rebuild_rates(Rates::asked_for(options.rate));
        let device = drive(options, config.geometry, number)?;
        self.volume.replace_member(self.now, LOST, device, [number; 16])?;
        // The new drive was asked for its zones, which took its time.
        let since = self.now;
        let status = self.volume.engine.rebuild_status().context("the rebuild does not begin")?;
        let mut answered = self.turn()?;
        while self.volume.engine.status().health != Health::Clean {
            self.serve(client.as_deref_mut(), answered)?;
            answered = self.wait()?;
        }
        Ok((status.bytes_total, precise_u64(self.now.since(since).0) / 1e9))
    }
}

/// Returns the MiB/s of a drive that is written to several zones at once, a large command in flight in each.
fn write_limit(options: &RebuildRun, geometry: &Geometry) -> Result<f64> {
    let geometry = Geometry { zones: LIMIT_ZONES, ..*geometry };
    let mut drive = drive(options, geometry, 1)?;
    let mut written = [0; LIMIT_ZONES as usize];
    let mut now = MOUNTED_AT;
    let mut submit = |drive: &mut dyn ZonedDevice, now, zone: u32, frames: Vec<Frame>| {
        let offset = written[zone as usize];
        let blocks = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        if offset + blocks > geometry.zone_capacity_blocks {
            return false;
        }
        written[zone as usize] += blocks;
        let op = Op::Write { offset, frames };
        drive.submit(now, Command { token: Token(u64::from(zone)), zone: ZoneIndex(zone), op });
        true
    };
    let mut in_flight = 0;
    for zone in 0..LIMIT_ZONES {
        let frames = (0..LIMIT_BLOCKS).map(|_| Frame::zeroed()).collect();
        in_flight += u32::from(submit(drive.as_mut(), now, zone, frames));
    }
    let (mut bytes, mut completions) = (0, Vec::new());
    while in_flight > 0 {
        now = now.max(drive.next_event().context("the drive does not answer")?);
        drive.poll(now, &mut completions);
        for completion in completions.drain(..) {
            ensure!(completion.status == Status::Success, "a write failed: {:?}", completion.status);
            bytes += completion.frames.len() as u64 * BLOCK_BYTES_U64;
            in_flight -= 1;
            in_flight += u32::from(submit(drive.as_mut(), now, completion.zone.0, completion.frames));
        }
    }
    let seconds = precise_u64(now.since(MOUNTED_AT).0) / 1e9;
    Ok(precise_u64(bytes) / seconds / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(group_stripes: u32, rate: u64) -> RebuildRun {
        RebuildRun {
            profile: Profile::named("zn540-4tb").expect("a built-in profile"),
            level: Level::Raid5,
            drives: 3,
            chunk_bytes: 4096,
            group_stripes,
            size_bytes: 512 << 20,
            rate: Some(rate),
            client: false,
            seed: 1,
        }
    }

    fn small(group_stripes: u32, rate: u64) -> RebuildReport {
        run(&options(group_stripes, rate)).expect("an array that works")
    }

    fn beside_client(rate: Option<u64>) -> (RebuildReport, ClientReport) {
        let size_bytes = 128 << 20;
        let report = run(&RebuildRun { rate, client: true, size_bytes, ..options(256, 0) });
        let report = report.expect("an array that works");
        let client = report.client.expect("there is a client");
        assert!(client.flushes_alone > 100 && client.flushes_beside > 100, "{client:?}");
        (report, client)
    }

    /// The paper's own recovery reaches a fifth of what the drive takes.
    #[test]
    fn a_drive_is_rebuilt_at_four_fifths_of_its_limit() {
        for group_stripes in [1, 256] {
            let report = small(group_stripes, 0);
            assert!(report.share >= 0.8, "{report:?}");
        }
    }

    #[test]
    fn a_limit_is_kept_and_used() {
        let report = small(256, 100 << 20);
        assert!((95.0..=101.0).contains(&report.mib_per_second), "{report:?}");
    }

    #[test]
    fn clients_do_not_wait_for_what_a_rebuild_wrote() {
        let (report, client) = beside_client(Some(0));
        assert!(client.flush_us_max_beside <= 3.0 * client.flush_us_max_alone, "{report:?}");
        assert!(report.seconds < 2.0, "half of what the disk takes: {report:?}");
    }

    #[test]
    fn a_client_that_never_rests_leaves_the_floor() {
        let (report, client) = beside_client(None);
        // A zone of 64 MiB takes 6.4 s at the floor, and there are one or two with anything live.
        assert!((6.0..=13.5).contains(&report.seconds), "{report:?}");
        assert!(client.flush_us_max_beside <= 3.0 * client.flush_us_max_alone, "{report:?}");
    }
}
