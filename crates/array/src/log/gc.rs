//! Garbage collection: picks a sealed segment (`victim.rs`), moves what is live to the collector's own segments with its sequence unchanged, and erases it.
//!
//! It always can: clients never take the last [`GC_RESERVE_SEGMENTS`] free segments, and
//! `ArrayConfig::validate` proves that the emptiest segment frees more than moving it takes.
//!
//! Segments in which a scrub found damage come first.
//!
//! A moved block becomes the newest copy only if the index still points to where it was moved from;
//! whatever a client did in between wins. A victim is erased when nothing points into it, nobody
//! reads it, and the moved copies have left the drives' volatile caches.

use crate::log::core::Core;
use crate::log::flush::RecoveryFlush;
use crate::log::headroom::LOADS_MIN;
use crate::log::headroom::Pace;
use crate::log::index::Name;
use crate::log::index::groups::{Holder, Residence};
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::stripe::Origin;
use crate::log::write::{PASSED_MAX, Placement};
use crate::log::{Effects, GC_RESERVE_SEGMENTS, LOADS_MAX, Pba, Shard};
use base::frame::Frame;
use base::time::Instant;
use std::collections::VecDeque;
use zone::format::header::Stream;
use zone::format::oob::Protected;

/// Free segments below which collection runs: the reserve and room for clients to go on meanwhile.
pub const GC_START_SEGMENTS: u32 = GC_RESERVE_SEGMENTS + 3;

/// A block on its way to another segment.
#[derive(Debug)]
pub struct Move {
    /// Frame of the block.
    pub frame: Frame,
    /// Metadata that parity protects; the sequence stays.
    pub protected: Protected,
    /// Name of which the block is a copy.
    pub name: Name,
    /// Place where the block lay.
    pub from: Pba,
    /// Checksum of its data, verified when it was read.
    pub data_crc: u32,
    /// True when the block was damaged and rebuilt.
    pub repaired: bool,
}

/// State of the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gc {
    /// Space is ample, or nothing can be gained.
    #[default]
    Idle,
    /// Stripes of the victim are being read and their live blocks moved.
    Moving {
        /// The segment.
        victim: SegmentSlot,
        /// Next stripe to load.
        stripe_next: u32,
        /// Loads under way.
        loads: u32,
    },
    /// Waiting until the moved blocks are durable and readers have left.
    Settling {
        /// The segment.
        victim: SegmentSlot,
    },
    /// Waiting until the drives' caches are empty.
    Flushing {
        /// The segment.
        victim: SegmentSlot,
        /// True when the caches are empty.
        flushed: bool,
    },
    /// Waiting until the zones are reset.
    Resetting,
}

/// The collector, and the blocks that it moves.
#[derive(Default)]
pub struct Collector {
    /// Stage of the collection.
    pub stage: Gc,
    /// Live blocks of victims, to be placed in stripes.
    pub moves: VecDeque<Move>,
    /// Moved blocks placed in stripes that are not durable.
    pub moves_pending: u32,
    /// Live blocks of the victim that could not be read, to be written off.
    pub write_offs: Vec<(Name, Pba)>,
    /// Pace of clients while space is short.
    pub pace: Pace,
}

impl Shard {
    /// Goes on as far as possible.
    pub(super) fn advance_gc(&mut self, now: Instant, fx: &mut Effects) {
        // Copies that lost blocks had may be erased only once it is recorded that they are lost.
        if self.rescue.is_recording_doubt() {
            return;
        }
        loop {
            match self.collector.stage {
                Gc::Idle => {
                    let Some(victim) = self.pick_victim() else { return };
                    self.collector.stage = self.moving_from_start(victim);
                }
                Gc::Moving { victim, stripe_next, loads } => {
                    let stripes = self.core.segments.get(victim).layout.stripes;
                    let nothing_live = self.core.segments.get(victim).live_blocks == 0;
                    if loads == 0 && (stripe_next == stripes || nothing_live) {
                        self.collector.stage = Gc::Settling { victim };
                    } else if stripe_next < stripes && !nothing_live && loads < self.loads_allowed(victim) {
                        if !self.reader.has_tables(&mut self.core, victim, stripe_next..stripe_next + 1, fx) {
                            return;
                        }
                        self.collector.stage =
                            Gc::Moving { victim, stripe_next: stripe_next + 1, loads: loads + 1 };
                        self.start_move_load(victim, stripe_next, fx);
                    } else {
                        return;
                    }
                }
                Gc::Settling { victim } => {
                    self.place_last_moves(now, fx);
                    if !self.collector.moves.is_empty()
                        || self.collector.moves_pending > 0
                        || self.core.segments.get(victim).readers > 0
                    {
                        return;
                    }
                    if self.core.membership.is_broken() || self.core.index.is_incomplete() {
                        self.collector.stage = Gc::Idle;
                        return;
                    }
                    if self.core.segments.get(victim).live_blocks > 0 {
                        if self.gc_is_out_of_space() {
                            self.collector.stage = Gc::Idle;
                            return;
                        }
                        if !std::mem::replace(&mut self.core.segments.get_mut(victim).damaged, true) {
                            self.collector.stage = self.moving_from_start(victim);
                        } else if !self.write_off(victim, fx) {
                            return;
                        }
                    } else {
                        self.collector.stage = Gc::Flushing { victim, flushed: false };
                        self.flush_devices_for_gc(fx);
                    }
                }
                // The flush lost more drives than the array can lose: what was moved may be gone.
                Gc::Flushing { flushed: true, .. } if self.core.membership.is_broken() => {
                    self.collector.stage = Gc::Idle;
                    return;
                }
                Gc::Flushing { victim, flushed: true } => {
                    self.collector.stage = Gc::Resetting;
                    self.reset_segment(victim, fx);
                }
                Gc::Flushing { flushed: false, .. } | Gc::Resetting => return,
            }
        }
    }

    /// Places what waits, and closes the last stripe of a victim.
    fn place_last_moves(&mut self, now: Instant, fx: &mut Effects) {
        self.place_moves(now, fx);
        if self.collector.moves.is_empty() && self.join_remainders(fx) && !self.remainder_waits() {
            self.seal_filling(Stream::Gc, fx);
        }
    }

    /// The next segment to collect, if any should be: one that a crash left incomplete, else the
    /// sealed one that the policy prefers once space is short.
    fn pick_victim(&self) -> Option<SegmentSlot> {
        let must_collect = self.must_collect();
        if !must_collect && !self.core.segments.has_evacuees() && self.core.membership.rebuilding().is_none()
        {
            return None;
        }
        if self.core.membership.is_broken()
            || self.core.index.is_incomplete()
            || self.must_keep_older_copies()
        {
            return None;
        }
        let of_volume = || self.core.segments.iter().filter(|(_, segment)| segment.stream != Stream::Mapping);
        let in_state = |wanted: SegmentState| of_volume().filter(move |(_, segment)| segment.state == wanted);
        if self.gc_is_out_of_space() {
            let mut dead = in_state(SegmentState::Condemned).chain(in_state(SegmentState::Sealed));
            let dead = dead.find(|(_, segment)| segment.live_blocks == 0 && !segment.is_being_rebuilt);
            return dead.map(|(slot, _)| slot);
        }
        if let Some((slot, _)) = in_state(SegmentState::Condemned).next() {
            return Some(slot);
        }
        let sealed = || in_state(SegmentState::Sealed).filter(|(_, segment)| !segment.is_being_rebuilt);
        // Moving a full one takes what the reserve has, and gives it back but for a padded stripe: not the last.
        let has_room = self.core.segments.free_segments() > GC_RESERVE_SEGMENTS;
        if let Some((slot, _)) = sealed().find(|(_, segment)| segment.evacuate && has_room) {
            return Some(slot);
        }
        // Erasing what nothing points to is cheaper than rebuilding it.
        let is_dead = |segment: &Segment| {
            segment.live_blocks == 0
                && self.core.membership.rebuilding().is_some_and(|drive| segment.lacks_zone(drive))
        };
        if let Some((slot, _)) = sealed().find(|(_, segment)| is_dead(segment)) {
            return Some(slot);
        }
        if must_collect { self.pick_by_policy(sealed) } else { None }
    }

    /// True while recovery may have to begin anew without the stripes that it could not complete, and what is older
    /// than their blocks would count again: nothing is collected until they are moved, unless that needs the room.
    fn must_keep_older_copies(&self) -> bool {
        let has_room =
            self.core.segments.free_segments() > 0 || !self.stripes.collector_has_no_room(&self.core);
        let is_moving = self.rescue.flush == RecoveryFlush::Due && self.has_blocks_to_rescue();
        self.rescue.is_void || is_moving && has_room
    }

    /// True while the collector has damaged segments with ids below `end` to collect, and can.
    pub(super) fn is_evacuating(&self, end: u64) -> bool {
        let mut marked =
            self.core.segments.iter().filter(|(_, segment)| segment.evacuate && segment.id < end);
        // One that is open and could not be closed is collected once it is full.
        marked.any(|(_, segment)| {
            segment.state != SegmentState::Open
                && match segment.stream {
                    Stream::Mapping => self.off_load.may_copy_groups(&self.core),
                    _ => !self.gc_is_at_a_loss(),
                }
        })
    }

    /// True when there is nothing to collect and nothing under way that may change that.
    pub(super) fn gc_is_at_a_loss(&self) -> bool {
        self.collector.stage == Gc::Idle
            && self.collector.moves.is_empty()
            && self.collector.moves_pending == 0
            && self.pick_victim().is_none()
    }

    /// True when the collector has nowhere to move anything to, for good: zones that failed were part of its
    /// reserve.
    pub(super) fn gc_is_out_of_space(&self) -> bool {
        self.core.segments.free_segments() == 0
            && self.stripes.collector_has_no_room(&self.core)
            && !matches!(self.collector.stage, Gc::Flushing { .. } | Gc::Resetting)
            && !self.core.may_free_or_fill_segments()
    }

    /// A victim of which nothing was read.
    fn moving_from_start(&mut self, victim: SegmentSlot) -> Gc {
        self.stripes.begin_separating(&mut self.core);
        self.collector.pace.victim = self.begin_victim(victim);
        Gc::Moving { victim, stripe_next: 0, loads: 0 }
    }

    /// Loads allowed at once: more the shorter space is, none beyond what waits to be placed.
    fn loads_allowed(&self, victim: SegmentSlot) -> u32 {
        let stripe_blocks = self.stripes.streams[Stream::Gc.index()].stripe_data_blocks;
        let waiting =
            u32::try_from(self.collector.moves.len()).expect("bounded by the loads") / stripe_blocks;
        self.loads_of_victim_max(victim).saturating_sub(waiting)
    }

    /// Loads stripes that recovery could not complete, to move their blocks.
    pub(super) fn move_weak_stripes(&mut self, fx: &mut Effects) {
        while self.collector.moves.is_empty() && self.reader.loads.len() < LOADS_MIN as usize {
            let Some((segment, stripe)) = self.rescue.weak.pop() else { return };
            self.start_rescue_load(segment, stripe, fx);
            self.core.segments.get_mut(segment).readers -= 1;
        }
    }

    /// Puts blocks that wait to be moved into the collector's stripes. Those that wait for a group of the index are passed
    /// by others.
    pub(super) fn place_moves(&mut self, now: Instant, fx: &mut Effects) {
        let mut passed = 0;
        while let Some(waiting) = self.collector.moves.get(passed)
            && !self.checkpoints.is_draining()
        {
            let (name, stream) = (waiting.name, self.stream_of_move(waiting));
            let filling = self.stripes.streams[stream.index()].filling.is_some();
            if !filling && self.stripes.slots.in_use(stream) == self.stripes.slots.count(stream) {
                return;
            }
            let residence = self.wish_for_move(name, fx);
            if matches!(residence, Residence::Coming | Residence::Absent) {
                passed += 1;
                if passed > PASSED_MAX {
                    return;
                }
                continue;
            }
            let Some(Move { frame, protected, name, from, data_crc, repaired }) =
                self.collector.moves.remove(passed)
            else {
                return;
            };
            // Overwritten while it waited: not worth a write.
            if residence == Residence::Lost || self.core.index.get(name) != Some(from) {
                self.core.frames.give(frame);
                continue;
            }
            if let Name::Block(lba) = name {
                self.core.hold_group(lba, Holder::Collector);
            }
            self.collector.moves_pending += 1;
            self.core.counters.moved_blocks_written += 1;
            self.core.counters.cold_blocks_written += u64::from(stream == Stream::Cold);
            let origin = if repaired { Origin::Repaired(from) } else { Origin::Moved(from) };
            self.place(stream, now, Placement { frame, protected, name: Some(name), origin, data_crc }, fx);
        }
    }
}

impl Collector {
    /// The segment that is being collected.
    pub(super) fn victim(&self) -> Option<SegmentSlot> {
        match self.stage {
            Gc::Moving { victim, .. } | Gc::Settling { victim } | Gc::Flushing { victim, .. } => Some(victim),
            Gc::Idle | Gc::Resetting => None,
        }
    }

    /// A stripe of the victim has been read; its live blocks wait in `moves`.
    pub(super) fn gc_loaded(&mut self) {
        if let Gc::Moving { loads, .. } = &mut self.stage {
            assert!(*loads > 0);
            *loads -= 1;
        }
    }

    /// The drives' caches are empty.
    pub(super) fn gc_flushed(&mut self) {
        if let Gc::Flushing { flushed, .. } = &mut self.stage {
            *flushed = true;
        }
    }

    /// The victim's zones are free.
    pub(super) fn gc_erased(&mut self) {
        assert!(self.stage == Gc::Resetting);
        self.stage = Gc::Idle;
    }
}

impl Core {
    /// Blocks that may wait to be placed, so that those who read ahead of the collector stay within its frames.
    pub(super) fn moves_waiting_max(&self) -> usize {
        LOADS_MAX as usize * self.config.members
    }
}
