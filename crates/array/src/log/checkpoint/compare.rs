//! Two engines that were mounted from the same drives: what their indexes do not agree on.

use crate::log::core::Core;
use crate::log::index::Name;
use crate::log::index::groups::Groups;
use crate::log::{Location, Pba, Shard};
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use zone::device::{Command, Op, Status, Token};
use zone::drives::{DriveCommand, DriveSet};
use zone::format::oob::{Protected, block_is_whole};

/// Differences that are told.
const DIFFERENCES_MAX: usize = 8;

impl Shard {
    /// Returns the differences of the index from that of another engine. Two places are as good as one another when the
    /// same version of a block lies there, as before and after it was moved.
    pub(in crate::log) fn differences(
        &self,
        other: &Shard,
        drives: &mut DriveSet,
        now: Instant,
    ) -> Vec<String> {
        let blocks = (0..self.core.config.volume_blocks).map(|lba| Name::Block(Lba(lba)));
        let names = blocks.chain((0..self.core.index.regions()).map(Name::Tombstone));
        let mut found = Vec::new();
        for name in names {
            let marks = |shard: &Shard| match name {
                Name::Block(lba) => (shard.core.index.is_trimmed(lba), shard.core.index.is_lost(lba)),
                Name::Tombstone(_) | Name::Mapping(_) | Name::Group(_) => (false, false),
            };
            if !self.core.index.can_tell(name) {
                continue;
            }
            let places = (self.core.index.get(name), other.core.index.get(name));
            let same = match places {
                (Some(a), Some(b)) if a != b => {
                    // The other has all stripe tables: it used no checkpoint.
                    let (a, b) =
                        (version_at(&other.core, a, drives, now), version_at(&other.core, b, drives, now));
                    a.is_none() || b.is_none() || a == b
                }
                (a, b) => a == b,
            };
            if !same || marks(self) != marks(other) {
                let (a, b) = (
                    places.0.map(|pba| self.core.pba.unpack(pba)),
                    places.1.map(|pba| self.core.pba.unpack(pba)),
                );
                found.push(format!("{name:?}: {a:?} {:?}, {b:?} {:?}", marks(self), marks(other)));
            }
            if found.len() == DIFFERENCES_MAX {
                break;
            }
        }
        found
    }

    /// Returns the differences of the index from that of a fresh mount, where it is in memory; and whether as much is
    /// live, where it is not.
    #[must_use]
    pub fn audit_index(&self, fresh: &Shard, drives: &mut DriveSet, now: Instant) -> Vec<String> {
        let mut found = self.differences(fresh, drives, now);
        let live = |shard: &Shard| {
            shard.core.segments.iter().map(|(_, segment)| u64::from(segment.live_blocks)).sum::<u64>()
        };
        let groups = self.core.index.groups().map_or(0, Groups::placed);
        let (here, there) = (live(self) - groups, live(fresh));
        if here != there || self.core.index.mapped_blocks() != fresh.core.index.mapped_blocks() {
            found.push(format!("{here} live blocks beside {groups} of groups, {there} found"));
        }
        found
    }
}

/// Returns what the block at a place says it is; `None` when it cannot be read there, or is not whole.
fn version_at(core: &Core, pba: Pba, drives: &mut DriveSet, now: Instant) -> Option<Protected> {
    let location = core.pba.unpack(pba);
    let Location { drive, zone, offset } = location;
    let place = core.place_at(core.segments.owner(drive, zone)?, location)?;
    let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
    let command = Command { token: Token(0), zone, op };
    let completion = drives.execute(now, DriveCommand { drive: DriveIndex(drive.0), command });
    let frame = completion.frames.first().filter(|_| completion.status == Status::Success)?;
    Protected::from_bytes(&frame.oob).filter(|_| block_is_whole(frame, &place))
}
