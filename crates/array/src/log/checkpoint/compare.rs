//! Two engines that were mounted from the same drives: what their indexes do not agree on.

use crate::log::core::Core;
use crate::log::index::groups::Groups;
use crate::log::index::{Name, Region};
use crate::log::{Location, Pba};
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use zone::device::{Command, Op, Status, Token};
use zone::drives::{DriveCommand, DriveSet};
use zone::format::oob::{Protected, block_is_whole};

/// Differences that are told.
const DIFFERENCES_MAX: usize = 8;

/// Returns the differences of the index from that of another engine. Two places are as good as one another when the
/// same version of a block lies there, as before and after it was moved.
pub(in crate::log) fn differences(
    own: &Core,
    other: &Core,
    drives: &mut DriveSet,
    now: Instant,
) -> Vec<String> {
    let blocks = (0..own.config.volume_blocks).map(|lba| Name::Block(Lba(lba)));
    let names = blocks.chain((0..own.index.regions()).map(Region).map(Name::Tombstone));
    let mut found = Vec::new();
    for name in names {
        let marks = |core: &Core| match name {
            Name::Block(lba) => (core.index.is_trimmed(lba), core.index.is_lost(lba)),
            Name::Tombstone(_) | Name::Mapping(_) | Name::Group(_) => (false, false),
        };
        if !own.index.can_tell(name) {
            continue;
        }
        let places = (own.index.get(name), other.index.get(name));
        let same = match places {
            (Some(a), Some(b)) if a != b => {
                // The other has all stripe tables: it used no checkpoint.
                let (a, b) = (version_at(other, a, drives, now), version_at(other, b, drives, now));
                a.is_none() || b.is_none() || a == b
            }
            (a, b) => a == b,
        };
        if !same || marks(own) != marks(other) {
            let (a, b) = (places.0.map(|pba| own.pba.unpack(pba)), places.1.map(|pba| own.pba.unpack(pba)));
            found.push(format!("{name:?}: {a:?} {:?}, {b:?} {:?}", marks(own), marks(other)));
        }
        if found.len() == DIFFERENCES_MAX {
            break;
        }
    }
    found
}

/// Returns the differences of the index from that of a fresh mount, where it is in memory; and whether as much is
/// live, where it is not.
pub(in crate::log) fn audit_index(
    own: &Core,
    fresh: &Core,
    drives: &mut DriveSet,
    now: Instant,
) -> Vec<String> {
    let mut found = differences(own, fresh, drives, now);
    let live =
        |core: &Core| core.segments.iter().map(|(_, segment)| u64::from(segment.live_blocks)).sum::<u64>();
    let groups = own.index.groups().map_or(0, Groups::placed);
    let (here, there) = (live(own) - groups, live(fresh));
    if here != there || own.index.mapped_blocks() != fresh.index.mapped_blocks() {
        found.push(format!("{here} live blocks beside {groups} of groups, {there} found"));
    }
    found
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
