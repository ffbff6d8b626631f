//! Core of a shard: index, drives, clocks, members and counters, which all of its parts may use. It knows none of them.

use super::drive::Drive;
use super::membership::Membership;
use super::zones::{ZoneUse, Zones};
use super::{Clocks, Identity, locate};
use crate::config::Options;
use crate::format::stamp::Life;
use crate::format::superblock::Clears;
use crate::hash::{FullKey, Ident, KeyHash};
use crate::index::{Index, PageNumber};
use crate::policy::Stream;
use crate::request::Namespace;
use crate::status::Counters;
use base::frame::Frame;
use base::units::ZoneIndex;

/// See the module.
pub(super) struct Core {
    pub(super) identity: Identity,
    pub(super) options: Options,
    pub(super) index: Index,
    pub(super) drives: Vec<Drive>,
    pub(super) clocks: Clocks,
    pub(super) clears: Clears,
    pub(super) membership: Membership,
    /// Frames to be used again.
    pub(super) frames: Vec<Frame>,
    pub(super) counters: Counters,
}

impl Core {
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.clocks.sequence += 1;
        assert!(self.clocks.sequence >> 40 == u64::from(self.identity.epoch), "a mount has 2^40 sequences");
        self.clocks.sequence
    }

    pub(super) fn hash_of(&self, key: &FullKey) -> (KeyHash, Ident) {
        let hash = KeyHash::of(&self.identity.secret, key);
        (hash, self.index.shape().ident(hash))
    }

    /// Place of a page: drive, zone and block.
    pub(super) fn locate(&self, page: PageNumber) -> (usize, ZoneIndex, u32) {
        locate(&self.drives, page)
    }

    pub(super) fn life(&self, drive: usize, zone: ZoneIndex) -> Life {
        let own = &self.drives[drive].zones[zone.index()];
        let member = u8::try_from(drive).expect("at most 32 members");
        Life { cache: self.identity.cache, member, zone, birth: own.birth, stream: own.stream }
    }

    /// An object of a page was hit.
    pub(super) fn note_hit(&mut self, page: PageNumber) {
        let (drive, zone, _) = self.locate(page);
        let found = &mut self.drives[drive].zones[zone.index()];
        (found.hits, found.last_hit) = (found.hits + 1, self.clocks.sequence);
    }

    /// A read of a zone has ended, or what else no reset may overtake.
    pub(super) fn end_read(&mut self, drive: usize, zone: ZoneIndex) {
        let readers = &mut self.drives[drive].zones[zone.index()].readers;
        assert!(*readers > 0, "a read of zone {zone} of drive {drive} ends once");
        *readers -= 1;
    }

    pub(super) fn take_frame(&mut self) -> Frame {
        self.frames.pop().unwrap_or_else(Frame::zeroed)
    }

    /// True while zones wait to be reset.
    pub(super) fn waits_for_resets(&self) -> bool {
        let waits = |zones: &Zones| zones.count(ZoneUse::Draining) + zones.count(ZoneUse::Resetting) > 0;
        self.drives.iter().any(|drive| drive.up && waits(&drive.zones))
    }

    /// Sequence below which a namespace holds nothing.
    pub(super) fn cleared_below(&self, namespace: Namespace) -> u64 {
        self.clears.below[usize::from(namespace.0)]
    }

    /// True when the drive of a page is there, and its zone no victim.
    pub(super) fn is_readable(&self, page: PageNumber) -> bool {
        let (drive, zone, _) = self.locate(page);
        self.drives[drive].up && self.drives[drive].zones[zone.index()].is_readable()
    }

    /// The stream of a key whose namespace has zones of its own.
    pub(super) fn share_of(&self, key: &FullKey) -> Option<Stream> {
        let share = self.options.shares.of(key.namespace()).filter(|share| share.flash_percent > 0);
        share.map(|share| Stream::Share(share.namespace))
    }
}
