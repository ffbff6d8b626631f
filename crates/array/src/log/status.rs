//! What an operator wants to know of a volume.

use crate::log::blame::Blame;
use crate::log::channels::ChannelStatus;
use crate::log::checkpoint::compare;
use crate::log::core::Core;
use crate::log::memory::Memory;
use crate::log::rebuild::MemberRebuild;
use crate::log::rot::{DamagedPlace, DriveDamage};
use crate::log::segment::{Segment, SegmentState};
use crate::log::{Counters, Shard};
use crate::pacer::Rates;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, DriveIndex};
use zone::drives::DriveSet;
use zone::format::header::Stream;
use zone::format::superblock::{MemberState, Uuid};
use zone::stripe::Level;

/// Health of the array, which says whether it can lose another drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Every member is active.
    Clean,
    /// Members are missing, all data is there.
    Degraded,
    /// A member is being rebuilt, all data is there.
    Rebuilding {
        /// Segments that have their zone on it.
        segments_done: u64,
        /// Segments.
        segments_total: u64,
    },
    /// More members failed, or are not yet rebuilt, than the array can lose.
    Failed,
}

/// Progress of the rebuild of a member, in bytes of its drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildStatus {
    /// The member.
    pub member: DriveIndex,
    /// Written, or found to be there.
    pub bytes_done: u64,
    /// Bytes of all segments that are older than the drive. Shrinks when one of them is collected.
    pub bytes_total: u64,
}

/// An index of which only some is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// Bytes of groups that may be in memory: what was asked for, or what the volume leaves no room for elsewhere.
    pub limit_bytes: u64,
    /// Bytes of those that are.
    pub resident_bytes: u64,
    /// Groups.
    pub groups: u64,
    /// Groups that lie in a mapping block.
    pub mapping_blocks: u64,
}

/// The write area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteAreaStatus {
    /// Zones that it has now, over all drives; none while a member is missing.
    pub zones: u64,
    /// Slots of these zones.
    pub slots: u64,
    /// Slots that hold the newest version of a block.
    pub live: u64,
}

/// Segments of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    /// The stream.
    pub stream: Stream,
    /// Segments being written.
    pub segments_open: u64,
    /// Segments only read.
    pub segments_sealed: u64,
}

/// A snapshot of a volume.
#[derive(Clone, Debug)]
pub struct Status {
    /// Identity of the array.
    pub array: Uuid,
    /// Health of the array, which says whether it can lose another drive.
    pub health: Health,
    /// While a member is being rebuilt.
    pub rebuild: Option<RebuildStatus>,
    /// RAID level.
    pub level: Level,
    /// State of each member.
    pub members: Vec<MemberState>,
    /// Size of the volume.
    pub capacity_bytes: u64,
    /// Blocks of the volume that hold data, in bytes.
    pub used_bytes: u64,
    /// Zones no segment uses, over all drives.
    pub zones_free: u64,
    /// Zones that segments can use, over all drives.
    pub zones_total: u64,
    /// Segments being written.
    pub segments_open: u64,
    /// Segments only read.
    pub segments_sealed: u64,
    /// Of both, those of each stream.
    pub streams: Vec<StreamStatus>,
    /// Segments with a zone that takes no more writes: what they hold is being moved.
    pub segments_condemned: u64,
    /// Chunk size.
    pub chunk_bytes: u64,
    /// Stripes of a group.
    pub group_stripes: u32,
    /// Segments of small chunks open at once.
    pub small_segments: u32,
    /// Segments of large chunks open at once.
    pub large_segments: u32,
    /// Chunk size of those; zero without.
    pub large_chunk_bytes: u64,
    /// Memory that the volume's structures take.
    pub memory: Memory,
    /// Status of the index when only some of it is in memory.
    pub index: Option<IndexStatus>,
    /// The write area, if there is one.
    pub write_area: Option<WriteAreaStatus>,
    /// What is believed of the channel groups of each member's drive.
    pub channels: Vec<ChannelStatus>,
    /// Counters since the volume was mounted.
    pub counters: Counters,
    /// Damage found on each drive since then.
    pub damage: Vec<DriveDamage>,
}

impl Shard {
    /// What a member is blamed for that failed since the mount; `None` for the others.
    #[must_use]
    pub fn blamed_for(&self, member: DriveIndex) -> Option<Blame> {
        self.core.membership.blamed_for(member.index())
    }

    /// A snapshot. O(volume): counts the index.
    #[must_use]
    pub fn status(&self) -> Status {
        let count = |wanted: fn(SegmentState) -> bool| {
            self.core.segments.iter().filter(|(_, segment)| wanted(segment.state)).count() as u64
        };
        let members = self.core.config.members as u64;
        Status {
            array: self.core.config.array,
            health: self.member_rebuild.health(&self.core),
            rebuild: self.rebuild_status(),
            level: self.core.config.level,
            members: self.core.membership.record().members.iter().map(|member| member.state).collect(),
            capacity_bytes: self.core.config.volume_blocks * BLOCK_BYTES_U64,
            used_bytes: (self.core.index.mapped_blocks() + self.area.slots().durable_count())
                * BLOCK_BYTES_U64,
            zones_free: u64::from(self.core.segments.free_segments()) * members,
            zones_total: u64::from(self.core.config.segments()) * members,
            segments_open: count(|state| matches!(state, SegmentState::Opening { .. } | SegmentState::Open)),
            segments_sealed: count(|state| matches!(state, SegmentState::Sealed)),
            streams: Stream::ALL.into_iter().map(|stream| self.stream_status(stream)).collect(),
            segments_condemned: count(|state| matches!(state, SegmentState::Condemned)),
            chunk_bytes: u64::from(self.core.config.chunk_blocks) * BLOCK_BYTES_U64,
            group_stripes: self.core.config.group_stripes,
            small_segments: self.core.config.open.small,
            large_segments: self.core.config.open.large,
            large_chunk_bytes: u64::from(self.core.config.open.large_chunk_blocks) * BLOCK_BYTES_U64,
            memory: self.memory(),
            index: index_status(&self.core),
            write_area: self.area.status(self.core.config.members),
            channels: self.core.segments.channels().status(),
            counters: self.core.counters,
            damage: self.drive_damage(),
        }
    }

    fn stream_status(&self, stream: Stream) -> StreamStatus {
        let segments =
            || self.core.segments.iter().map(|(_, segment)| segment).filter(|own| own.stream == stream);
        let is_open =
            |segment: &&Segment| matches!(segment.state, SegmentState::Opening { .. } | SegmentState::Open);
        let is_sealed = |segment: &&Segment| matches!(segment.state, SegmentState::Sealed);
        StreamStatus {
            stream,
            segments_open: segments().filter(|segment| !segment.is_write_area).filter(is_open).count() as u64,
            segments_sealed: segments().filter(is_sealed).count() as u64,
        }
    }

    /// Returns the progress of the rebuild; `None` when no member is being rebuilt. O(segments).
    #[must_use]
    pub fn rebuild_status(&self) -> Option<RebuildStatus> {
        let member = self.core.membership.rebuilding()?;
        let older = || {
            let from = self.core.membership.record().rebuild_from;
            self.core.segments.iter().map(|(_, segment)| segment).filter(move |segment| segment.id < from)
        };
        let bytes = |segment: &Segment| {
            u64::from(segment.layout.footer_offset() + segment.layout.footer_blocks()) * BLOCK_BYTES_U64
        };
        let bytes_total: u64 = older().map(bytes).sum();
        let bytes_left: u64 = older().filter(|segment| segment.lacks_zone(member)).map(bytes).sum();
        let bytes_written = self.member_rebuild.rebuild_blocks_written(&self.core) * BLOCK_BYTES_U64;
        Some(RebuildStatus {
            member: DriveIndex::at(member),
            bytes_done: (bytes_total - bytes_left + bytes_written).min(bytes_total),
            bytes_total,
        })
    }

    /// Rates at which a rebuild writes to its drive from now on.
    pub fn set_rebuild_rates(&mut self, rates: Rates) {
        self.member_rebuild.throttle.set_rates(rates);
    }

    /// Rates at which a rebuild writes to its drive.
    #[must_use]
    pub fn rebuild_rates(&self) -> Rates {
        self.member_rebuild.throttle.rates()
    }

    /// The member that is being rebuilt.
    #[must_use]
    pub fn rebuilding(&self) -> Option<DriveIndex> {
        self.core.membership.rebuilding().map(DriveIndex::at)
    }

    /// The first member that has failed.
    #[must_use]
    pub fn failed_member(&self) -> Option<DriveIndex> {
        (0..self.core.config.members)
            .find(|drive| !self.core.membership.is_present(*drive))
            .map(DriveIndex::at)
    }

    /// State of a member.
    ///
    /// # Panics
    /// When there is no such member.
    #[must_use]
    pub fn member_state(&self, member: DriveIndex) -> MemberState {
        self.core.membership.record().members[member.index()].state
    }

    /// True until every drive that is there knows of the last change of members.
    #[must_use]
    pub fn is_recording_members(&self) -> bool {
        self.core.membership.is_changing()
    }

    /// Returns the counters since the volume was mounted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Returns the memory that the volume's structures take. O(segments).
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory::of(&self.core, &self.clients)
    }

    /// Returns the damage found on each drive since the mount.
    #[must_use]
    pub fn drive_damage(&self) -> Vec<DriveDamage> {
        let members = self.core.membership.record().members.iter().take(self.core.config.members).zip(0..);
        members.map(|(member, drive)| self.core.damage.of(drive, member.uuid)).collect()
    }

    /// Blocks found damaged since the mount, on all drives together: cheap enough to ask all the time.
    #[must_use]
    pub fn damaged_blocks(&self) -> u64 {
        self.core.damage.blocks()
    }

    /// Places that the scrub, or the last one, found damaged: the first of them.
    #[must_use]
    pub fn scrubbed_damage(&self) -> &[DamagedPlace] {
        self.core.damage.scrubbed()
    }

    /// Returns the differences of the index from that of a fresh mount, where it is in memory; and whether as much is
    /// live, where it is not.
    #[must_use]
    pub fn audit_index(&self, fresh: &Shard, drives: &mut DriveSet, now: Instant) -> Vec<String> {
        compare::audit_index(&self.core, &fresh.core, drives, now)
    }

    /// Returns the differences of the index from that of another engine.
    pub(super) fn differences(&self, other: &Shard, drives: &mut DriveSet, now: Instant) -> Vec<String> {
        compare::differences(&self.core, &other.core, drives, now)
    }
}

impl MemberRebuild {
    fn health(&self, core: &Core) -> Health {
        if core.membership.is_broken() {
            return Health::Failed;
        }
        let has_failed = core.membership.lost_count() > usize::from(core.membership.rebuilding().is_some());
        if has_failed || !self.is_rebuilding(core) {
            return if has_failed { Health::Degraded } else { Health::Clean };
        }
        let lacks =
            |segment: &Segment| core.membership.rebuilding().is_some_and(|drive| segment.lacks_zone(drive));
        let segments_total = core.segments.iter().count() as u64;
        let lacking = core.segments.iter().filter(|(_, segment)| lacks(segment)).count() as u64;
        Health::Rebuilding { segments_done: segments_total - lacking, segments_total }
    }
}

fn index_status(core: &Core) -> Option<IndexStatus> {
    core.index.groups().map(|groups| IndexStatus {
        limit_bytes: groups.limit_bytes() as u64,
        resident_bytes: groups.memory_bytes().0 as u64,
        groups: u64::from(groups.count()),
        mapping_blocks: groups.placed(),
    })
}
