//! Garbage collection: picks a sealed segment (`policy/victim.rs`), moves what is live to the collector's own segments with its sequence unchanged, and erases it.
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
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::log::index::Name;
use crate::log::index::groups::{Holder, Residence};
use crate::log::policy::decision::Decision;
use crate::log::policy::headroom::Pace;
use crate::log::requests::PASSED_MAX;
use crate::log::segment::SegmentSlot;
use crate::log::stripe::Origin;
use crate::log::write::Placement;
use crate::log::{Effects, GC_RESERVE_SEGMENTS, LOADS_MAX, Pba, Shard};
use base::frame::Frame;
use base::time::Instant;
use std::collections::VecDeque;
use zone::format::header::Stream;
use zone::format::oob::Protected;
use zone::stripe::StripeNumber;

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

impl Gc {
    /// Another stage follows: of the same victim until its zones are free, or it is given up.
    fn go(&mut self, next: Gc) {
        let may_follow = match (*self, next) {
            (Gc::Idle, Gc::Moving { stripe_next: 0, loads: 0, .. })
            | (Gc::Settling { .. } | Gc::Flushing { flushed: true, .. } | Gc::Resetting, Gc::Idle)
            | (Gc::Flushing { flushed: true, .. }, Gc::Resetting) => true,
            (Gc::Moving { victim, stripe_next, .. }, Gc::Moving { victim: same, stripe_next: next, .. }) => {
                victim == same && next == stripe_next + 1
            }
            (Gc::Moving { victim, loads: 0, .. }, Gc::Settling { victim: same })
            | (Gc::Settling { victim }, Gc::Moving { victim: same, stripe_next: 0, loads: 0 })
            | (Gc::Settling { victim }, Gc::Flushing { victim: same, flushed: false }) => victim == same,
            _ => false,
        };
        assert!(may_follow, "the collector goes from {self:?} to {next:?}");
        *self = next;
    }
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
                    let Some(victim) = self.space().pick_victim() else { return };
                    let moving = self.moving_from_start(victim);
                    self.collector.stage.go(moving);
                }
                Gc::Moving { victim, stripe_next, loads } => {
                    if !self.advance_moving(victim, (stripe_next, loads), fx) {
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
                        self.collector.stage.go(Gc::Idle);
                        return;
                    }
                    if self.core.segments.get(victim).live_blocks > 0 {
                        if self.space().gc_is_out_of_space() {
                            self.collector.stage.go(Gc::Idle);
                            return;
                        }
                        if !std::mem::replace(&mut self.core.segments.get_mut(victim).damaged, true) {
                            let moving = self.moving_from_start(victim);
                            self.collector.stage.go(moving);
                        } else if !self.write_off(victim, fx) {
                            return;
                        }
                    } else {
                        self.collector.stage.go(Gc::Flushing { victim, flushed: false });
                        if self.device_flush.ask(&mut self.core, FlushWaiter::Gc, fx) == Flushed::Now {
                            self.collector.gc_flushed();
                        }
                    }
                }
                // The flush lost more drives than the array can lose: what was moved may be gone.
                Gc::Flushing { flushed: true, .. } if self.core.membership.is_broken() => {
                    self.collector.stage.go(Gc::Idle);
                    return;
                }
                Gc::Flushing { victim, flushed: true } => {
                    self.collector.stage.go(Gc::Resetting);
                    self.core.reset_segment(victim, fx);
                }
                Gc::Flushing { flushed: false, .. } | Gc::Resetting => return,
            }
        }
    }

    /// Loads the next stripe of the victim, or ends with the last; false when nothing more can be done now.
    fn advance_moving(
        &mut self,
        victim: SegmentSlot,
        (stripe_next, loads): (u32, u32),
        fx: &mut Effects,
    ) -> bool {
        let segment = self.core.segments.get(victim);
        let (stripes, nothing_live) = (segment.layout.stripes, segment.live_blocks == 0);
        if loads == 0 && (stripe_next == stripes || nothing_live) {
            self.collector.stage.go(Gc::Settling { victim });
            return true;
        }
        let may_load = stripe_next < stripes && !nothing_live && loads < self.space().loads_allowed(victim);
        if !may_load || !self.reader.has_tables(&mut self.core, victim, stripe_next..stripe_next + 1, fx) {
            return false;
        }
        self.collector.stage.go(Gc::Moving { victim, stripe_next: stripe_next + 1, loads: loads + 1 });
        self.start_move_load(victim, StripeNumber(stripe_next), fx);
        true
    }

    /// Places what waits, and closes the last stripe of a victim.
    fn place_last_moves(&mut self, now: Instant, fx: &mut Effects) {
        self.place_moves(now, fx);
        if self.collector.moves.is_empty()
            && self.appender().join_remainders(fx)
            && !self.space().remainder_waits()
        {
            self.appender().seal_filling(Stream::Gc, fx);
        }
    }

    /// A victim of which nothing was read.
    fn moving_from_start(&mut self, victim: SegmentSlot) -> Gc {
        let segment = self.core.segments.get(victim);
        assert!(!segment.has_stripes_in_flight(), "the victim, segment {}, is written", segment.id);
        assert!(!segment.is_opening(), "the victim, segment {}, has no headers yet", segment.id);
        self.stripes.begin_separating(&mut self.core);
        self.collector.pace.victim = self.space().begin_victim(victim);
        let segment = self.core.segments.get(victim);
        let (live_blocks, blocks) = (segment.live_blocks, segment.layout.segment_data_blocks());
        let (segment, age) = (segment.id, self.core.next_sequence.saturating_sub(segment.created_at));
        let in_two = self.stripes.separates_survivors;
        self.appender().note(Decision::Victim { segment, live_blocks, blocks, age, in_two });
        Gc::Moving { victim, stripe_next: 0, loads: 0 }
    }

    /// Loads stripes that recovery could not complete, to move their blocks.
    pub(super) fn move_weak_stripes(&mut self, fx: &mut Effects) {
        let loads_max = self.core.tuning.tuned.loads_min as usize;
        while self.collector.moves.is_empty() && self.reader.loads.len() < loads_max {
            let Some((segment, stripe)) = self.rescue.weak.pop() else { return };
            self.start_rescue_load(segment, stripe, fx);
            self.core.segments.get_mut(segment).unpin();
        }
    }

    /// Puts blocks that wait to be moved into the collector's stripes. Those that wait for a group of the index are passed
    /// by others.
    pub(super) fn place_moves(&mut self, now: Instant, fx: &mut Effects) {
        let mut passed = 0;
        while let Some(waiting) = self.collector.moves.get(passed)
            && !self.checkpoints.is_draining()
        {
            let (name, stream) = (waiting.name, self.space().stream_of_move(waiting));
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
            self.appender().place(
                stream,
                now,
                Placement { frame, protected, name: Some(name), origin, data_crc },
                fx,
            );
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
            assert!(*loads > 0, "a stripe of the victim is loaded once");
            *loads -= 1;
        }
    }

    /// The drives' caches are empty.
    pub(super) fn gc_flushed(&mut self) {
        assert!(!matches!(self.stage, Gc::Flushing { flushed: true, .. }), "caches are emptied once");
        if let Gc::Flushing { flushed, .. } = &mut self.stage {
            *flushed = true;
        }
    }

    /// The victim's zones are free.
    pub(super) fn gc_erased(&mut self) {
        assert!(
            self.stage == Gc::Resetting,
            "zones of a victim are free while the collector is {:?}",
            self.stage
        );
        self.stage.go(Gc::Idle);
    }
}

impl Core {
    /// Blocks that may wait to be placed, so that those who read ahead of the collector stay within its frames.
    pub(super) fn moves_waiting_max(&self) -> usize {
        LOADS_MAX as usize * self.config.members
    }
}
