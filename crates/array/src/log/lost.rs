//! Blocks beyond rescue: a marker takes the place of each, so that the segment they lie in can be erased.
//!
//! A marker is a block of kind `Lost`: it moves, is overwritten and trimmed like any other, and reading
//! it fails. Only the collector writes markers, for what it could not read twice. A lost tombstone is no
//! loss while the engine runs: it is written anew. One that a mount cannot read leaves blocks of which
//! nobody knows whether they were trimmed: a new one is written that names them as lost, before clients
//! come and before anything is collected.
//!
//! What another server has erased cannot be read either, and to that one it is not lost: its own copies would be overruled
//! by markers that are newer. So nothing is marked before drives were looked at for another server, which comes after the last
//! read: who had taken them by then has said so (ADR 73).
//!
//! The sequence of a lost block may be as lost as its contents. Its marker must be newer than all older
//! copies of the block, and older than writes and trims in flight: it takes the sequence before the first
//! of those, or a new one.

use crate::log::clients::Clients;
use crate::log::core::Core;
use crate::log::gc::Collector;
use crate::log::gc::{Gc, Move};
use crate::log::index::{Name, Region};
use crate::log::rescue::Rescue;
use crate::log::segment::SegmentSlot;
use crate::log::{Effects, Pba, Shard};
use base::checksum::crc32c;
use zone::format::oob::{self, Kind, Protected};

impl Shard {
    /// Queues markers for what is still live in a segment that was moved as far as it could be read, some
    /// at a time. False while what is live is not known.
    pub(super) fn write_off(&mut self, victim: SegmentSlot, fx: &mut Effects) -> bool {
        assert!(self.core.segments.get(victim).damaged, "what is written off was read twice");
        if self.collector.write_offs.is_empty() {
            let Some(live) = self.find_live(victim, fx) else { return self.core.index.is_incomplete() };
            if let Some((_, from)) = live.first() {
                self.core.suspect_another_server(*from);
            }
            self.collector.write_offs = live;
        }
        while self.collector.moves.len() < self.core.moves_waiting_max() {
            let Some((name, from)) = self.collector.write_offs.pop() else { break };
            // Without one of its blocks, a checkpoint is worth nothing: the next mount does without.
            if let Name::Mapping(_) = name {
                self.checkpoints.drop_checkpoints(&mut self.core);
                continue;
            }
            if self.core.may_lie_at(name, from) && self.core.segment_at(from) == victim {
                let marker = self.marker(name, from);
                self.collector.moves.push_back(marker);
            }
        }
        true
    }

    /// Writes tombstones that could not be read anew, with what may have been trimmed as lost.
    pub(super) fn record_doubt(&mut self) {
        if !self.rescue.is_recording_doubt() {
            return;
        }
        while self.collector.moves.len() < self.core.moves_waiting_max() {
            let Some(region) = self.rescue.doubtful.pop() else { break };
            self.rescue.recording_doubt = true;
            let name = Name::Tombstone(region);
            if let Some(from) = self.core.index.get(name) {
                self.core.suspect_another_server(from);
                let tombstone = self.marker(name, from);
                self.collector.moves.push_back(tombstone);
            }
        }
        self.rescue.recording_doubt = !self.collector.moves.is_empty() || self.collector.moves_pending > 0;
    }

    fn marker(&mut self, name: Name, from: Pba) -> Move {
        let mut frame = self.core.frames.take();
        frame.data.fill(0);
        let (lba, kind) = match name {
            Name::Block(lba) => {
                self.core.counters.blocks_lost += 1;
                (lba.0, Kind::Lost)
            }
            Name::Tombstone(region) => {
                self.core.index.write_tombstone(
                    region,
                    &self.off_load.being_unmapped(region),
                    &mut frame.data,
                );
                (region.0, Kind::Tombstone)
            }
            Name::Mapping(_) | Name::Group(_) => unreachable!("parts of the index have no markers"),
        };
        let protected =
            Protected { lba, sequence: self.clients.sequence_for_marker(&mut self.core, name), kind };
        assert!(protected.sequence < self.core.next_sequence, "a marker is no newer than all there is");
        *oob::protected_mut(&mut frame.oob) = protected.to_bytes();
        let data_crc = crc32c(&frame.data);
        Move { frame, protected, name, from, data_crc, repaired: false }
    }
}

impl Rescue {
    /// True while tombstones that could not be read wait to be written anew.
    pub(super) fn is_recording_doubt(&self) -> bool {
        !self.doubtful.is_empty() || self.recording_doubt
    }
}

impl Collector {
    /// True while the blocks of a segment are being written off.
    pub(super) fn is_writing_off(&self, core: &Core, segment: SegmentSlot) -> bool {
        matches!(self.stage, Gc::Settling { victim } if victim == segment)
            && core.segments.get(segment).damaged
    }
}

impl Clients {
    fn sequence_for_marker(&mut self, core: &mut Core, name: Name) -> u64 {
        let before = match name {
            Name::Block(lba) => {
                let trim = self.regions.sequence_before_trim(Region::of(lba.0));
                self.in_flight.sequence_before(lba).or(trim)
            }
            Name::Tombstone(region) => self.regions.sequence_before(region),
            Name::Mapping(_) | Name::Group(_) => unreachable!("parts of the index have no markers"),
        };
        before.unwrap_or_else(|| {
            core.next_sequence += 1;
            core.next_sequence - 1
        })
    }
}
