//! A drive's timing as data: what a profile file says, checked.
//!
//! A profile is a TOML file; the built-in ones lie in `crates/drive/profiles`. Every number there
//! carries its source. Times are in microseconds, sizes in bytes. `docs/drive-model.md` explains
//! what each section does to a command.

use super::areas::{Backing, Zrwa};
use super::curve::Curve;
use super::sections::{
    Buffer, Command, GeometrySection, Host, Management, NoiseSection, Program, ReadAhead, ReadSection,
    SmallBlocks, Suspend, Translation,
};
use base::units::BLOCK_BYTES_U64;
use serde::Deserialize;
use std::path::Path;
use thiserror::Error;
use zone::device::Geometry;

/// Names and texts of the built-in profiles.
const BUILT_IN: &[(&str, &str)] = &[
    ("zn540-1tb", include_str!("../../../profiles/zn540-1tb.toml")),
    ("zn540-4tb", include_str!("../../../profiles/zn540-4tb.toml")),
    ("j5500z", include_str!("../../../profiles/j5500z.toml")),
    ("ns8600g", include_str!("../../../profiles/ns8600g.toml")),
    ("pm1731a", include_str!("../../../profiles/pm1731a.toml")),
    ("femu-zapraid", include_str!("../../../profiles/femu-zapraid.toml")),
    ("conventional-nvme", include_str!("../../../profiles/conventional-nvme.toml")),
    ("conventional-sata", include_str!("../../../profiles/conventional-sata.toml")),
];

/// Names alone, in the same order.
const NAMES: &[&str] = &[
    "zn540-1tb",
    "zn540-4tb",
    "j5500z",
    "ns8600g",
    "pm1731a",
    "femu-zapraid",
    "conventional-nvme",
    "conventional-sata",
];

/// Times that everything takes in one kind of drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    name: String,
    description: String,
    pub(super) geometry: GeometrySection,
    pub(super) command: Command,
    pub(super) small_blocks: Option<SmallBlocks>,
    pub(super) buffer: Buffer,
    pub(super) program: Program,
    pub(super) suspend: Suspend,
    pub(super) read: ReadSection,
    pub(super) read_ahead: Option<ReadAhead>,
    pub(super) management: Management,
    pub(super) zrwa: Option<Zrwa>,
    pub(super) noise: NoiseSection,
    pub(super) translation: Option<Translation>,
    host: Host,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    /// Neither a built-in name nor a file.
    #[error("`{asked}` is not a built-in profile ({}) and cannot be read as a file: {reason}", NAMES.join(", "))]
    NotFound {
        /// Name or path that was asked for.
        asked: String,
        /// Error of the system.
        reason: String,
    },
    /// The file is not what a profile looks like; the message names line and key.
    #[error("the profile is not understood: {message}; compare it with crates/drive/profiles/zn540-1tb.toml")]
    Syntax {
        /// From the TOML parser.
        message: String,
    },
    /// A number makes no sense.
    #[error("`{key}` {problem}")]
    Value {
        /// Section and key.
        key: &'static str,
        /// Fault of the value, and what the value must be.
        problem: &'static str,
    },
}

/// Software between a program and the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStack {
    /// A driver in user space that polls (SPDK).
    Spdk,
    /// The kernel's block layer without a scheduler, through io_uring.
    Kernel,
    /// The same with mq-deadline, which keeps one write per zone in flight and merges those that
    /// wait.
    MqDeadline,
}

/// Costs of a command outside the drive, in microseconds.
///
/// The life of a command: `submit_us` after the program asks, the command is at the scheduler (or
/// the drive); a command of several memory segments then takes `segments_us` to be mapped, one of
/// several requests `merge_us` to be merged. When the drive is done, `complete_us + request_us *
/// requests` later the program knows, where `requests` is the number of its requests that were
/// merged into the command (1 without merging), and, under a scheduler that keeps one write per zone
/// in flight, the next command of the zone goes on its way. The program itself takes `think_us`
/// before it submits again.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct StackCosts {
    /// From the program to the scheduler or drive.
    pub submit_us: f64,
    /// Mapping of a command with more than `segment_bytes`.
    pub segments_us: f64,
    /// Bytes that are mapped without that cost.
    pub segment_bytes: u64,
    /// Merging, of a command made of several requests.
    #[serde(default)]
    pub merge_us: f64,
    /// Per command, from the drive to the program.
    pub complete_us: f64,
    /// Per request of the program in the command, from the drive to the program.
    pub request_us: f64,
    /// From a completion to the program's next submission.
    pub think_us: f64,
    /// Set when writes to one zone go one at a time, and those that wait and continue each other are merged.
    pub merges: bool,
}

impl Profile {
    /// A built-in profile.
    ///
    /// # Panics
    /// Never: the tests parse all of them.
    #[must_use]
    pub fn named(name: &str) -> Option<Profile> {
        let (_, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
        Some(Profile::from_toml(text).expect("built-in profiles are tested"))
    }

    /// The built-in profiles.
    #[must_use]
    pub fn names() -> &'static [&'static str] {
        NAMES
    }

    /// A profile from its text.
    ///
    /// # Errors
    /// What is wrong with it, by key.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text)
            .map_err(|error| ProfileError::Syntax { message: error.to_string().trim_end().to_owned() })?;
        profile.check()?;
        Ok(profile)
    }

    /// A built-in profile, or else the file of that name.
    ///
    /// # Errors
    /// When there is neither, or the file is not sound.
    pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
        if let Some(profile) = Profile::named(name_or_path) {
            return Ok(profile);
        }
        let text = std::fs::read_to_string(Path::new(name_or_path)).map_err(|error| {
            ProfileError::NotFound { asked: name_or_path.to_owned(), reason: error.to_string() }
        })?;
        Profile::from_toml(&text)
    }

    /// Name of the profile.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Line that says which drive this is and how its numbers were found.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The real geometry of the drive, in 4-KiB blocks, without random write areas. A drive without zones appears as one
    /// zone.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry.geometry()
    }

    /// The same drive with other zones. Costs that depend on how full a zone is use the fraction of
    /// its capacity; padding and everything else that moves data takes its bytes.
    #[must_use]
    pub fn with_geometry(&self, geometry: &Geometry) -> Profile {
        let mut scaled = self.clone();
        scaled.geometry.take(geometry);
        if let Some(areas) = &geometry.areas {
            let read_us = self.read_ahead.as_ref().map_or(&self.read.front_us, |ahead| &ahead.hit_us);
            let like_zones = || Zrwa::like_zones(&self.command, read_us, self.management.close_us);
            scaled.zrwa.get_or_insert_with(like_zones).take(areas);
        }
        scaled
    }

    /// The real geometry with the random write areas that the drive has.
    #[must_use]
    pub fn geometry_with_areas(&self) -> Geometry {
        Geometry { areas: self.zrwa.as_ref().map(Zrwa::areas), ..self.geometry() }
    }

    /// The same drive with smaller zones, for runs that must fill many: what is done to whole zones (reset, finish)
    /// takes less by as much, so that it weighs as much per byte as on the drive. [`Profile::with_geometry`] keeps
    /// those costs.
    ///
    /// # Panics
    /// When the zones would be larger, or hold nothing.
    #[must_use]
    pub fn with_small_zones(&self, capacity_blocks: u32) -> Profile {
        let geometry = self.geometry();
        assert!((1..=geometry.zone_capacity_blocks).contains(&capacity_blocks));
        let share = f64::from(capacity_blocks) / f64::from(geometry.zone_capacity_blocks);
        let mut scaled = self.with_geometry(&Geometry {
            zone_size_blocks: capacity_blocks,
            zone_capacity_blocks: capacity_blocks,
            ..geometry
        });
        scaled.management.scale_zones(share);
        scaled
    }

    /// A drive of so many channel groups like those of this one.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn with_groups(&self, groups: u32) -> Profile {
        assert!(groups > 0, "every zone lies on a group");
        let mut other = self.clone();
        other.program.channels = (other.program.channels / other.geometry.groups).max(1) * groups;
        other.geometry.groups = groups;
        other
    }

    /// The same drive with one of its channel groups, where the one zone that is open at a time lies: writes that fill
    /// one small zone after the other would use more of the drive than they could.
    #[must_use]
    pub fn with_one_group(&self) -> Profile {
        self.with_groups(1)
    }

    /// A conventional drive on the hardware of this one: all its dies and buffers behind one translation layer, which maps pages of 4 KiB,
    /// has so much flash beyond its capacity, and erases blocks of so many bytes. What collecting costs is as in `like`; once begun, it
    /// goes on for as many bytes, but for no more than a 64th of the drive.
    ///
    /// # Errors
    /// When there is no such drive.
    ///
    /// # Panics
    /// When `like` has no translation layer.
    pub fn as_conventional(
        &self,
        like: &Profile,
        capacity_bytes: u64,
        (over_provision, block_bytes): (f64, u64),
    ) -> Result<Profile, ProfileError> {
        let translation = like.translation.clone().expect("a conventional drive");
        let groups = self.geometry.groups;
        let mut flat = Profile { name: format!("{}-conventional", self.name), zrwa: None, ..self.clone() };
        flat.geometry = GeometrySection {
            groups: 1,
            zone_size_bytes: capacity_bytes,
            zone_capacity_bytes: capacity_bytes,
            ..like.geometry.clone()
        };
        flat.program.dies_per_group *= groups;
        flat.buffer.bytes *= u64::from(groups);
        let block_units = (block_bytes / self.program.unit_bytes).max(1);
        let block_bytes = block_units * self.program.unit_bytes;
        let usual_bytes = u64::from(translation.block_units) * like.program.unit_bytes;
        let below = translation.collect_below_blocks;
        let freed_bytes = u64::from(translation.collect_until_blocks - below) * usual_bytes;
        let blocks = freed_bytes.min(capacity_bytes / 64) / block_bytes;
        flat.translation = Some(Translation {
            over_provision,
            page_bytes: BLOCK_BYTES_U64,
            block_units: u32::try_from(block_units).unwrap_or(u32::MAX),
            collect_until_blocks: below + u32::try_from(blocks).unwrap_or(u32::MAX).max(1),
            ..translation
        });
        flat.check()?;
        Ok(flat)
    }

    /// The same conventional drive, which collects as another does, though its blocks are smaller: it empties as many bytes together as a
    /// block of the other has, so that as many dies are at work, but no more than it frees at a time, and it erases as many bytes a
    /// second. It does not wait until the buffer is programmed, which the other does once in all that it frees at a time. Blocks that it
    /// keeps free come on top of its spare flash, since a drive of usual size would not notice them.
    ///
    /// # Panics
    /// When one of both has zones.
    #[must_use]
    pub fn collecting_as(&self, like: &Profile) -> Profile {
        let usual = like.translation.as_ref().expect("a conventional drive");
        let mut scaled = self.clone();
        let own = scaled.translation.as_mut().expect("a conventional drive");
        let bytes = u64::from(own.block_units) * self.program.unit_bytes;
        let usual_bytes = u64::from(usual.block_units) * like.program.unit_bytes;
        #[allow(clippy::cast_precision_loss, reason = "bytes of a block are few")]
        let share = bytes as f64 / usual_bytes as f64;
        own.erase_us = usual.erase_us * share;
        let freed = own.collect_until_blocks - own.collect_below_blocks;
        let batch = u32::try_from(usual_bytes / bytes).unwrap_or(u32::MAX).clamp(1, freed);
        own.batch_blocks = batch;
        own.collects_first = true;
        own.collect_below_blocks = batch + usual.collect_below_blocks - 1;
        own.collect_until_blocks = own.collect_below_blocks + freed;
        let kept = u64::from(own.collect_until_blocks) * bytes;
        #[allow(clippy::cast_precision_loss, reason = "a share of a drive")]
        let kept = kept as f64 / self.geometry.zone_capacity_bytes as f64;
        own.over_provision += kept;
        scaled
    }

    /// The same conventional drive, whose read-ahead follows so many streams, as that of a drive with zones follows one in each of them.
    ///
    /// # Panics
    /// When the drive has zones.
    #[must_use]
    pub fn following(&self, streams: u32) -> Profile {
        assert!(!self.has_zones(), "a drive with zones follows one stream in each");
        let mut other = self.clone();
        if let Some(ahead) = &mut other.read_ahead {
            ahead.streams = streams;
        }
        other
    }

    /// Costs of a stack with this drive, where they are known.
    #[must_use]
    pub fn stack(&self, stack: HostStack) -> Option<StackCosts> {
        match stack {
            HostStack::Spdk => self.host.spdk,
            HostStack::Kernel => self.host.kernel,
            HostStack::MqDeadline => self.host.mq_deadline,
        }
    }

    /// True when the drive has zones; one without translates addresses and collects garbage.
    #[must_use]
    pub fn has_zones(&self) -> bool {
        self.translation.is_none()
    }

    /// True when writes are done before they are in the flash. Without a buffer, each takes as long as its program.
    #[must_use]
    pub fn has_write_buffer(&self) -> bool {
        self.buffer.bytes > 0
    }

    /// Bytes of a zone's random write area; `None` for drives without.
    #[must_use]
    pub fn zrwa_window_bytes(&self) -> Option<u64> {
        self.zrwa.as_ref().map(|zrwa| zrwa.window_bytes)
    }

    /// Unit in which a random write area moves on; `None` for drives without.
    #[must_use]
    pub fn zrwa_flush_granularity_bytes(&self) -> Option<u64> {
        self.zrwa.as_ref().map(|zrwa| zrwa.flush_granularity_bytes)
    }

    /// Medium that holds what is in windows; `None` for drives without.
    #[must_use]
    pub fn zrwa_backing(&self) -> Option<Backing> {
        self.zrwa.as_ref().map(|zrwa| zrwa.backing)
    }

    /// Sets of dies that share nothing but the command processor.
    #[must_use]
    pub fn channel_groups(&self) -> u32 {
        self.geometry.groups
    }

    /// Group of a zone by its number; where a drive puts it when it is opened is up to the map.
    #[must_use]
    pub fn group_of(&self, zone: u32) -> u32 {
        zone % self.geometry.groups
    }

    fn check(&self) -> Result<(), ProfileError> {
        self.geometry.check()?;
        self.command.check()?;
        self.buffer.check()?;
        self.program.check(&self.geometry)?;
        self.suspend.check()?;
        self.read.check()?;
        self.management.check()?;
        self.noise.check()?;
        self.host.check()?;
        self.small_blocks.iter().try_for_each(SmallBlocks::check)?;
        self.read_ahead.iter().try_for_each(ReadAhead::check)?;
        self.zrwa.iter().try_for_each(|zrwa| zrwa.check(&self.geometry))?;
        self.translation.iter().try_for_each(Translation::check)
    }
}

/// Times of commands are below this: a quarter of an hour.
pub(super) const TIME_US_MAX: f64 = 1e9;

/// True for a time that a command may take.
pub(super) fn is_time(micros: f64) -> bool {
    (0.0..TIME_US_MAX).contains(&micros)
}

/// Fails with the key unless the value is as it must be.
pub(super) fn demand(holds: bool, key: &'static str, problem: &'static str) -> Result<(), ProfileError> {
    if holds { Ok(()) } else { Err(ProfileError::Value { key, problem }) }
}

pub(super) fn demand_curve(curve: &Curve, key: &'static str) -> Result<(), ProfileError> {
    let form = "must be [[bytes, microseconds], ..] with rising bytes and costs from 0 to below 1e9";
    demand(curve.is_sound(), key, form)
}

pub(super) fn demand_time(micros: f64, key: &'static str) -> Result<(), ProfileError> {
    demand(is_time(micros), key, "must be microseconds: at least 0 and below 1e9")
}

pub(super) fn demand_probability(value: f64, key: &'static str) -> Result<(), ProfileError> {
    demand((0.0..=1.0).contains(&value), key, "must be a probability: from 0 to 1")
}

#[cfg(test)]
mod tests;
