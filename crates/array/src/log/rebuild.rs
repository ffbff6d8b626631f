//! Rebuilding a member onto the empty drive that took its place: segment by segment, oldest first, its
//! zone is written slot by slot, each chunk where the index expects it.
//!
//! ```text
//!  Idle ──> Zones ──> Settling ──> Activating ──> Recording ──> Ending ──> Idle
//!             │       flush        all zones there, superblocks say so, durably
//!             │
//!  each lane: Idle ──> Stripes ──> Footer ──> Flushing ──> Closing ──> Closed ──┐
//!               ^      header,     all but the             last block           │
//!               │      chunks      last block              or finish            │
//!               └───────────────────────────────────────────────────────────────┘
//! ```
//! A zone becomes full as the last thing of all, after what it holds has left the drive's volatile
//! cache. So a mount needs nothing but the zone's state to tell whether it is there: one that is not full
//! is erased and written anew, which makes the rebuild resume by segment.
//!
//! All other drives are flushed as well by then. A stripe table that was read without the member has chunks that nothing
//! points to in any slot that is left (`table_load.rs`). What was written in place of their blocks must survive: without
//! it, the index of a checkpoint would find something else where they were.
//!
//! Several zones are written at once, each in a *lane* of its own, because a zone alone does not reach the limit of
//! a drive: one command at a time in each, at the write pointer, and sweeps of stripes ahead of it. Clients and the
//! collector go on beside it. A block that cannot be decoded is written without metadata and named as
//! damaged in the footer: reading it fails, and no older copy comes back. Its stripe is short of another block than the
//! member's, and not even what they held would be known if a third one were lost: so the segment is collected, which
//! moves the rest and writes off what is lost, before the member counts as whole.

use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::log::rescue::Rescue;
use crate::log::segment::{SegmentSlot, SegmentState};
use crate::log::segment_life::FOOTER_BLOCKS_PER_COMMAND;
use crate::log::sweep::{RestoredRow, Sweep, SweepPurpose, stripes_per_sweep};
use crate::log::{Effects, Location, Shard, Waiter};
use crate::pacer::{ClientLoad, Throttle};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, DriveIndex, ZoneIndex};
use std::collections::VecDeque;
use std::ops::Range;
use zone::device::{Completion, Op, Status};
use zone::format::footer::{self, Entry, FooterId};
use zone::format::header::Stream;
use zone::format::oob::{self, Place};
use zone::stripe::StripeNumber;

/// Zones written at once: two reach the limit of the drives we model, as many again cover the end of a zone, when
/// its drive is busy with the last of it (ADR 13).
pub const REBUILD_ZONES_MAX: usize = 4;
/// Sweeps of a lane whose chunks are being read or wait to be written: one read, one decoded, one written.
pub const REBUILD_SWEEPS_MAX: u32 = 3;
/// Active zones that a rebuild leaves to others before it takes a second one: clients', the collector's, and one
/// being sealed.
const ACTIVE_ZONES_LEFT: u32 = 3;

/// Blocks that a rebuild leaves in the volatile cache of its drive at most: whoever flushes that drive, or shares a disk
/// with it, waits for these. 8 MiB take less than a tenth of a second on a disk.
const UNFLUSHED_BLOCKS_MAX: u32 = 2048;
/// With so many the drive is flushed, while as many again are written.
const UNFLUSHED_BLOCKS_TO_FLUSH: u32 = UNFLUSHED_BLOCKS_MAX / 2;
/// Slot of such a flush, next to those of the lanes.
const FLUSH_SLOT: usize = REBUILD_ZONES_MAX;

/// Stage of the rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No member is being rebuilt.
    #[default]
    Idle,
    /// Zones are being written.
    Zones,
    /// The last zones are to leave the drive's cache.
    Settling,
    /// Every zone is there.
    Activating,
    /// The superblocks are being told.
    Recording,
    /// The records written to the superblocks are to leave the drives' caches.
    Ending,
}

impl Stage {
    /// Another stage follows; a rebuild may be given up in each.
    fn go(&mut self, next: Stage) {
        let may_follow = matches!(
            (*self, next),
            (_, Stage::Idle)
                | (Stage::Idle, Stage::Zones)
                | (Stage::Zones, Stage::Settling)
                | (Stage::Settling, Stage::Activating)
                | (Stage::Activating, Stage::Recording)
                | (Stage::Recording, Stage::Ending)
        );
        assert!(may_follow, "a rebuild goes from {self:?} to {next:?}");
        *self = next;
    }
}

/// Stage of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LaneStage {
    /// No zone is being written; the next segment is looked for, or waited for until it is sealed or erased.
    #[default]
    Idle,
    /// Header and chunks are being written.
    Stripes,
    /// The footer is being written.
    Footer,
    /// All but its end is to leave the drive's cache, and what others hold theirs.
    Flushing,
    /// The zone is to become full.
    Closing,
    /// The zone is full.
    Closed,
}

impl LaneStage {
    /// Another stage follows; a zone may be given up in each.
    fn go(&mut self, next: LaneStage) {
        let may_follow = matches!(
            (*self, next),
            (_, LaneStage::Idle)
                | (LaneStage::Idle, LaneStage::Stripes)
                | (LaneStage::Stripes, LaneStage::Footer)
                | (LaneStage::Footer, LaneStage::Flushing)
                | (LaneStage::Flushing, LaneStage::Closing)
                | (LaneStage::Closing, LaneStage::Closed)
        );
        assert!(may_follow, "a lane of the rebuild goes from {self:?} to {next:?}");
        *self = next;
    }
}

/// A chunk on its way into the zone.
#[derive(Debug)]
struct Chunk {
    frames: Vec<Frame>,
    entries: Vec<Entry>,
}

/// A lane of the rebuild, which writes one zone at a time.
#[derive(Debug, Default)]
struct Lane {
    stage: LaneStage,
    segment: SegmentSlot,
    /// Next slot to be loaded.
    slot_to_load: u32,
    /// Next slot to be written.
    slot_to_write: u32,
    /// Chunks from that slot on; none where the stripe is still being loaded.
    chunks: VecDeque<Option<Chunk>>,
    /// Entries of what was written, for the footer.
    entries: Vec<Entry>,
    footer_next: u32,
    /// Sweeps under way.
    sweeps: u32,
    /// The drive has a command of ours, or all are being flushed for us.
    is_busy: bool,
}

impl Lane {
    /// True when nothing of a zone is left.
    fn is_free(&self) -> bool {
        self.stage == LaneStage::Idle && self.sweeps == 0 && !self.is_busy
    }
}

/// Writes that have not left volatile caches.
#[derive(Debug, Default)]
struct Unflushed {
    /// Blocks that the rebuild has written to its drive.
    blocks: u32,
    /// Generation of the record that the drive is a member: nothing is written before that is durable.
    generation: u64,
    /// While the drive is being flushed: those that were written before.
    flushing: Option<u32>,
}

/// The rebuild of a member.
#[derive(Debug, Default)]
pub struct MemberRebuild {
    stage: Stage,
    member: usize,
    lanes: [Lane; REBUILD_ZONES_MAX],
    unflushed: Unflushed,
    /// Limit on how fast the new drive is written.
    pub throttle: Throttle,
}

impl Shard {
    /// Begins the rebuild, or goes on with it after a mount.
    pub(super) fn start_rebuild(&mut self, fx: &mut Effects) {
        let Some(member) = self.core.membership.rebuilding() else { return };
        assert!(self.member_rebuild.rebuild_is_over());
        self.member_rebuild.stage.go(Stage::Zones);
        self.member_rebuild.member = member;
        self.core.damage.forget(member);
        let generation = self.core.membership.record().generation;
        self.member_rebuild.unflushed = Unflushed { generation, ..Unflushed::default() };
        self.device_flush.note_rebuild(Some((member, generation)));
        let open: Vec<SegmentSlot> = self
            .core
            .segments
            .iter()
            .filter(|(_, segment)| {
                // Those of mapping blocks are not rebuilt but collected, in their own time.
                // Those of the write area are given up, and hold no stripes.
                let is_data = segment.stream != Stream::Mapping && !segment.is_write_area;
                is_data && segment.writer.is_some() && segment.lacks_zone(member)
            })
            .map(|(slot, _)| slot)
            .collect();
        for slot in open {
            self.appender().close_segment(slot, fx);
        }
    }

    /// Goes on as far as possible.
    pub(super) fn advance_rebuild(&mut self, now: Instant, fx: &mut Effects) {
        if self.core.membership.is_broken() {
            self.member_rebuild.abandon_rebuild(&mut self.core);
            self.device_flush.note_rebuild(None);
        }
        let in_flight = self.clients.reads.len() + self.clients.requests.len();
        let begun = self.clients.next_arrival + self.core.counters.user_blocks_read;
        self.member_rebuild.throttle.notice(now, ClientLoad { in_flight, begun });
        for lane in 0..REBUILD_ZONES_MAX {
            self.advance_lane(now, lane, fx);
        }
        self.flush_what_was_rebuilt(fx);
        while self.member_rebuild.lanes_are_free() {
            match self.member_rebuild.stage {
                Stage::Idle => return,
                Stage::Zones
                    if self.rescue.must_wait_to_rebuild(&self.core)
                        || self.member_rebuild.has_zones_to_rebuild(&self.core)
                        || self.space().is_evacuating(u64::MAX) =>
                {
                    return;
                }
                Stage::Zones => {
                    self.member_rebuild.stage.go(Stage::Settling);
                    self.device_flush.note_rebuild(None);
                }
                Stage::Settling => {
                    self.member_rebuild.stage.go(Stage::Activating);
                    self.flush_rebuilt(0, fx);
                }
                Stage::Activating => {
                    self.member_rebuild.stage.go(Stage::Recording);
                    assert!(!self.member_rebuild.has_zones_to_rebuild(&self.core), "every zone is there");
                    self.core.membership.activate(self.member_rebuild.member);
                    self.core.record_change(fx);
                }
                Stage::Recording if self.core.membership.is_changing() => return,
                Stage::Recording => {
                    self.member_rebuild.stage.go(Stage::Ending);
                    self.flush_all(0, fx);
                }
                Stage::Ending => self.member_rebuild.stage.go(Stage::Idle),
            }
        }
    }

    fn advance_lane(&mut self, now: Instant, lane: usize, fx: &mut Effects) {
        loop {
            if self.member_rebuild.lanes[lane].stage == LaneStage::Stripes {
                self.load_chunks(now, lane, fx);
            }
            if self.member_rebuild.lanes[lane].is_busy {
                return;
            }
            match self.member_rebuild.lanes[lane].stage {
                LaneStage::Idle => {
                    let Some(segment) = self.choose_segment(lane) else { return };
                    self.member_rebuild.begin_zone(&mut self.core, lane, segment, fx);
                }
                LaneStage::Stripes => {
                    if !self.write_chunks(lane, fx) {
                        return;
                    }
                }
                LaneStage::Footer => self.member_rebuild.write_rebuilt_footer(&mut self.core, lane, fx),
                LaneStage::Flushing => {
                    self.member_rebuild.lanes[lane].stage.go(LaneStage::Closing);
                    self.flush_rebuilt(lane, fx);
                }
                LaneStage::Closing => {
                    self.member_rebuild.lanes[lane].stage.go(LaneStage::Closed);
                    self.member_rebuild.close_zone(&mut self.core, lane, fx);
                }
                LaneStage::Closed => self.member_rebuild.end_zone(&mut self.core, lane),
            }
        }
    }

    /// The oldest segment that lacks its zone and is at rest; `None` when there is none, or it must wait.
    fn choose_segment(&self, lane: usize) -> Option<SegmentSlot> {
        let MemberRebuild { stage, member, lanes, .. } = &self.member_rebuild;
        if *stage != Stage::Zones
            || !lanes[lane].is_free()
            || self.rescue.must_wait_to_rebuild(&self.core)
            || !self.member_rebuild.has_zones_to_rebuild(&self.core)
        {
            return None;
        }
        // One active zone belongs to the superblock log.
        let others = if lanes.iter().all(Lane::is_free) { 0 } else { ACTIVE_ZONES_LEFT };
        if self.core.segments.active_count() + others + 1 >= self.core.config.geometry.active_zones_max {
            return None;
        }
        let ready = self.core.segments.iter().filter(|(slot, segment)| {
            segment.lacks_zone(*member)
                && segment.state == SegmentState::Sealed
                && !segment.is_being_rebuilt
                // The collector erases what is dead sooner than it could be rebuilt, while it collects anything.
                && (segment.live_blocks > 0 || collects_nothing(&self.core))
                && segment.stream != Stream::Mapping
                && self.collector.victim() != Some(*slot)
        });
        ready.min_by_key(|(_, segment)| segment.id).map(|(slot, _)| slot)
    }

    /// Empties the cache of the drive now and then, and when nothing more will be written, so that nobody else has to
    /// wait for all of it. Before that come the records of all members.
    fn flush_what_was_rebuilt(&mut self, fx: &mut Effects) {
        let Unflushed { blocks, generation, flushing } = self.member_rebuild.unflushed;
        let is_idle = self.member_rebuild.stage != Stage::Zones || flushing.is_some();
        if is_idle || self.core.membership.is_changing() || !self.core.config.geometry.volatile_cache {
            return;
        }
        let is_over =
            self.member_rebuild.lanes_are_free() && !self.member_rebuild.has_zones_to_rebuild(&self.core);
        if !self.device_flush.generation_is_durable(generation) {
            self.member_rebuild.unflushed.flushing = Some(blocks);
            self.flush_for_lane(FLUSH_SLOT, fx);
        } else if blocks >= UNFLUSHED_BLOCKS_TO_FLUSH || is_over && blocks > 0 {
            self.member_rebuild.unflushed.flushing = Some(blocks);
            let member = self.member_rebuild.member;
            let part = u32::try_from(member).expect("at most 32 members");
            let slot = u32::try_from(FLUSH_SLOT).expect("few lanes");
            fx.command(member, ZoneIndex(0), Waiter::Rebuild { slot, part }, Op::Flush);
        }
    }

    /// True while the cache of the drive holds as much of the rebuild as it may.
    fn must_flush_first(&self) -> bool {
        let Unflushed { blocks, generation, .. } = self.member_rebuild.unflushed;
        let is_full = blocks >= UNFLUSHED_BLOCKS_MAX || !self.device_flush.generation_is_durable(generation);
        self.core.config.geometry.volatile_cache && is_full
    }

    fn flush_for_lane(&mut self, lane: usize, fx: &mut Effects) {
        if self.device_flush.ask(&mut self.core, FlushWaiter::Rebuild(lane), fx) == Flushed::Now {
            self.member_rebuild.rebuild_answered(lane);
        }
    }

    fn flush_rebuilt(&mut self, lane: usize, fx: &mut Effects) {
        if !self.core.config.geometry.volatile_cache {
            return;
        }
        self.flush_all(lane, fx);
    }

    fn flush_all(&mut self, lane: usize, fx: &mut Effects) {
        assert!(!self.member_rebuild.lanes[lane].is_busy, "a lane asks for one thing at a time");
        self.member_rebuild.lanes[lane].is_busy = true;
        self.flush_for_lane(lane, fx);
    }

    /// Loads stripes ahead, in the order of their slots, as the throttle allows.
    fn load_chunks(&mut self, now: Instant, lane: usize, fx: &mut Effects) {
        let member = self.member_rebuild.member;
        let segment = self.member_rebuild.lanes[lane].segment;
        let layout = self.core.segments.get(segment).layout;
        let batch = stripes_per_sweep(layout.chunk_blocks);
        loop {
            let state = &self.member_rebuild.lanes[lane];
            let waiting = u32::try_from(state.chunks.len()).expect("few chunks");
            let slots = state.slot_to_load..(state.slot_to_load + batch).min(layout.stripes);
            let has_room = waiting + batch <= REBUILD_SWEEPS_MAX * batch;
            if slots.is_empty() || !has_room || !self.member_rebuild.throttle.may_begin(now) {
                return;
            }
            if !self.reader.has_tables(&mut self.core, segment, slots.clone(), fx) {
                return;
            }
            let blocks = u64::from(slots.end - slots.start) * u64::from(layout.chunk_blocks);
            self.member_rebuild.throttle.begin(now, blocks * BLOCK_BYTES_U64);
            let mut stripes = Vec::with_capacity(slots.len());
            for slot in slots.clone() {
                let stripe = self.core.segments.get(segment).stripe_in_slot(member, slot);
                let filler =
                    stripe.is_none().then(|| self.member_rebuild.filler_chunk(&mut self.core, segment, slot));
                self.member_rebuild.lanes[lane].chunks.push_back(filler);
                stripes.extend(stripe);
            }
            self.member_rebuild.lanes[lane].slot_to_load = slots.end;
            if !stripes.is_empty() {
                stripes.sort_unstable();
                self.member_rebuild.lanes[lane].sweeps += 1;
                self.start_sweep(segment, stripes, SweepPurpose::Rebuild { lane, slots }, fx);
            }
        }
    }

    /// Writes the chunks that are next, as many as one command takes; false when the first of them is
    /// still being loaded.
    fn write_chunks(&mut self, lane: usize, fx: &mut Effects) -> bool {
        let layout = self.core.segments.get(self.member_rebuild.lanes[lane].segment).layout;
        let rebuild = &mut self.member_rebuild.lanes[lane];
        if rebuild.slot_to_write == layout.stripes {
            assert!(rebuild.chunks.is_empty(), "every chunk is written before the footer");
            assert!(rebuild.entries.len() == layout.region_blocks() as usize, "the footer lists every block");
            rebuild.stage.go(LaneStage::Footer);
            return true;
        }
        if self.must_flush_first() {
            return false;
        }
        let rebuild = &mut self.member_rebuild.lanes[lane];
        let offset = layout.slot_offset(rebuild.slot_to_write);
        let chunks_max = (self.core.config.geometry.transfer_blocks_max / layout.chunk_blocks) as usize;
        let ready = rebuild.chunks.iter().take_while(|chunk| chunk.is_some()).count().min(chunks_max);
        let mut frames = self.core.frames.take_vec(0);
        for mut chunk in rebuild.chunks.drain(..ready).flatten() {
            frames.append(&mut chunk.frames);
            rebuild.entries.append(&mut chunk.entries);
            rebuild.slot_to_write += 1;
            self.core.frames.give_vec(chunk.frames);
        }
        if frames.is_empty() {
            self.core.frames.give_vec(frames);
            return false;
        }
        self.member_rebuild.write_rebuilt(&mut self.core, lane, offset, frames, fx);
        true
    }
}

impl MemberRebuild {
    /// The drive has answered a lane.
    pub(super) fn on_rebuild(
        &mut self,
        core: &mut Core,
        lane: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        self.rebuild_answered(lane as usize);
        if !completion.frames.is_empty() {
            core.frames.give_vec(completion.frames);
        }
        if completion.status != Status::Success {
            let blame = Blame::answer(completion.token, completion.status);
            core.fail_member(drive, blame, fx);
        }
    }

    /// True when no member is being rebuilt, and nothing of a rebuild given up is left.
    pub(super) fn rebuild_is_over(&self) -> bool {
        self.stage == Stage::Idle && self.lanes_are_free()
    }

    /// True when no lane has anything to do, nor the drive for them.
    fn lanes_are_free(&self) -> bool {
        let MemberRebuild { lanes, unflushed, .. } = &self;
        lanes.iter().all(Lane::is_free) && unflushed.flushing.is_none()
    }

    /// True until every zone of every member is there and the superblocks say so.
    pub(super) fn is_rebuilding(&self, core: &Core) -> bool {
        core.membership.rebuilding().is_some() || self.stage != Stage::Idle
    }

    /// Blocks written to zones that are not full yet.
    pub(super) fn rebuild_blocks_written(&self, core: &Core) -> u64 {
        let lanes = self.lanes.iter().filter(|lane| lane.stage != LaneStage::Idle);
        let written = lanes.map(|lane| {
            let layout = &core.segments.get(lane.segment).layout;
            u64::from(layout.slot_offset(lane.slot_to_write) + lane.footer_next)
        });
        written.sum()
    }

    /// The drive failed, or too many others did.
    pub(super) fn abandon_rebuild(&mut self, core: &mut Core) {
        self.stage.go(Stage::Idle);
        for lane in &mut self.lanes {
            if lane.stage != LaneStage::Idle {
                core.segments.get_mut(lane.segment).is_being_rebuilt = false;
            }
            lane.stage.go(LaneStage::Idle);
            for chunk in lane.chunks.drain(..).flatten() {
                core.frames.give_vec(chunk.frames);
            }
        }
    }

    fn has_zones_to_rebuild(&self, core: &Core) -> bool {
        let member = self.member;
        core.segments.iter().any(|(_, segment)| segment.lacks_zone(member))
    }

    /// Writes a zone's header.
    fn begin_zone(&mut self, core: &mut Core, lane: usize, slot: SegmentSlot, fx: &mut Effects) {
        let member = self.member;
        let mut header = core.header_of(slot);
        let frames = core.header_frames(&header, member, 0..header.header_blocks);
        let segment = core.segments.get_mut(slot);
        std::mem::swap(&mut segment.zones, &mut header.zones);
        assert!(segment.state == SegmentState::Sealed, "only sealed segments are rebuilt");
        assert!(segment.lacks_zone(member), "segment {} has its zone", segment.id);
        segment.is_being_rebuilt = true;
        let state = &mut self.lanes[lane];
        assert!(state.chunks.is_empty());
        state.stage.go(LaneStage::Stripes);
        state.segment = slot;
        state.slot_to_load = 0;
        state.slot_to_write = 0;
        state.footer_next = 0;
        state.entries.clear();
        core.counters.metadata_blocks_written += frames.len() as u64;
        self.write_rebuilt(core, lane, 0, frames, fx);
    }

    fn rebuilt_zone(&self, core: &Core, lane: usize) -> ZoneIndex {
        let MemberRebuild { member, lanes, .. } = &self;
        core.segments.get(lanes[lane].segment).zones[*member]
    }

    fn rebuild_command(&mut self, lane: usize, zone: ZoneIndex, op: Op, fx: &mut Effects) {
        assert!(!self.lanes[lane].is_busy, "a lane has one command at a time");
        self.lanes[lane].is_busy = true;
        let member = self.member;
        let part = u32::try_from(member).expect("at most 32 members");
        let slot = u32::try_from(lane).expect("few lanes");
        fx.command(member, zone, Waiter::Rebuild { slot, part }, op);
    }

    fn write_rebuilt(
        &mut self,
        core: &mut Core,
        lane: usize,
        offset: u32,
        frames: Vec<Frame>,
        fx: &mut Effects,
    ) {
        self.unflushed.blocks += u32::try_from(frames.len()).expect("one command");
        self.rebuild_command(lane, self.rebuilt_zone(core, lane), Op::Write { offset, frames }, fx);
    }

    /// The drives' caches are empty, or the drive has done what a lane wanted.
    pub(super) fn rebuild_answered(&mut self, lane: usize) {
        match self.lanes.get_mut(lane) {
            Some(lane) => {
                assert!(lane.is_busy, "a lane that asked for nothing is answered");
                lane.is_busy = false;
            }
            None => {
                let Unflushed { blocks, flushing, .. } = &mut self.unflushed;
                let flushed = flushing.take().expect("the drive is being flushed");
                assert!(*blocks >= flushed, "no more blocks were flushed than written");
                *blocks -= flushed;
            }
        }
    }

    /// A slot that holds no stripe.
    fn filler_chunk(&mut self, core: &mut Core, segment: SegmentSlot, slot: u32) -> Chunk {
        let layout = core.segments.get(segment).layout;
        let group = layout.group_of_slot(slot);
        let filler = core.place_of_filler(segment, self.member);
        let place = Place { stripe: StripeNumber::of_static_slot(slot), group, ..filler };
        let mut frames = core.frames.take_vec(layout.chunk_blocks as usize);
        frames.iter_mut().for_each(|frame| oob::make_filler(frame, &place));
        core.counters.padding_blocks_written += frames.len() as u64;
        let entries = vec![Entry::VOID; frames.len()];
        Chunk { frames, entries }
    }

    /// Stripes have been swept: the member's chunks of them are decoded, row by row.
    pub(super) fn chunks_restored(&mut self, core: &mut Core, lane: usize, slots: Range<u32>, sweep: &Sweep) {
        assert!(self.lanes[lane].sweeps > 0, "a sweep of a lane ends once");
        self.lanes[lane].sweeps -= 1;
        let member = self.member;
        for slot in slots {
            if self.lanes[lane].stage != LaneStage::Stripes {
                return;
            }
            if let Some(stripe) = core.segments.get(sweep.segment).stripe_in_slot(member, slot) {
                let rows = core.restore_rows(sweep, stripe, member);
                self.chunk_restored(core, lane, slot, rows);
            }
        }
    }

    fn chunk_restored(&mut self, core: &mut Core, lane: usize, slot: u32, rows: Vec<RestoredRow>) {
        let member = self.member;
        let Lane { segment: segment_slot, slot_to_write, .. } = self.lanes[lane];
        let segment = core.segments.get(segment_slot);
        let offset = segment.layout.slot_offset(slot);
        let location = Location { drive: DriveIndex::at(member), zone: segment.zones[member], offset };
        let place = core.place_at(segment_slot, location).expect("the slot holds a stripe");
        if rows.iter().any(Option::is_none) {
            core.segments.evacuate(segment_slot);
        }
        let mut chunk = Chunk { frames: core.frames.take_vec(0), entries: Vec::with_capacity(rows.len()) };
        for (row, restored) in (0..).zip(rows) {
            let (frame, entry) = match restored {
                Some((mut frame, neighbour)) => {
                    let data_crc = oob::data_crc(&frame.oob);
                    oob::seal(&mut frame.oob, &Place { row, ..place }, data_crc, neighbour);
                    let entry = Entry::from_protected(&frame.oob, place.role, place.stripe);
                    (frame, entry.unwrap_or(Entry::unknown(place.stripe)))
                }
                None => (damaged_frame(core), Entry::unknown(place.stripe)),
            };
            chunk.frames.push(frame);
            chunk.entries.push(entry);
        }
        core.counters.blocks_rebuilt += chunk.entries.iter().filter(|entry| entry.whole).count() as u64;
        assert!(slot >= slot_to_write, "slot {slot} of a lane is written already");
        assert!(chunk.frames.len() == chunk.entries.len(), "each block has an entry");
        self.lanes[lane].chunks[(slot - slot_to_write) as usize] = Some(chunk);
    }

    /// Footer blocks, but for the one that would make the zone full.
    fn write_rebuilt_footer(&mut self, core: &mut Core, lane: usize, fx: &mut Effects) {
        let layout = core.segments.get(self.lanes[lane].segment).layout;
        let end = layout.footer_blocks() - u32::from(self.footer_fills_zone(core, lane));
        let first = self.lanes[lane].footer_next;
        if first == end {
            self.lanes[lane].stage.go(LaneStage::Flushing);
            return;
        }
        let per_command = FOOTER_BLOCKS_PER_COMMAND.min(core.config.geometry.transfer_blocks_max);
        self.write_footer_blocks(core, lane, first..(first + per_command).min(end), fx);
    }

    /// True when the last block of the footer is the last one of the zone.
    fn footer_fills_zone(&self, core: &Core, lane: usize) -> bool {
        let layout = core.segments.get(self.lanes[lane].segment).layout;
        layout.footer_offset() + layout.footer_blocks() == core.config.geometry.zone_capacity_blocks
    }

    fn write_footer_blocks(&mut self, core: &mut Core, lane: usize, blocks: Range<u32>, fx: &mut Effects) {
        let segment = core.segments.get(self.lanes[lane].segment);
        let (layout, id, zone) = (segment.layout, segment.id, self.rebuilt_zone(core, lane));
        self.lanes[lane].footer_next = blocks.end;
        let mut frames = core.frames.take_vec(blocks.len());
        for (index, frame) in blocks.clone().zip(&mut frames) {
            frame.oob.fill(0);
            let id = FooterId { array: core.array_tag, segment: id, zone, index };
            let entries = &self.lanes[lane].entries[layout.footer_entries(index)];
            footer::encode(&id, entries, &mut frame.data);
        }
        core.counters.metadata_blocks_written += frames.len() as u64;
        self.write_rebuilt(core, lane, layout.footer_offset() + blocks.start, frames, fx);
    }

    /// Makes the zone full: by its last block, or by command.
    fn close_zone(&mut self, core: &mut Core, lane: usize, fx: &mut Effects) {
        let last = self.lanes[lane].footer_next;
        if self.footer_fills_zone(core, lane) {
            self.write_footer_blocks(core, lane, last..last + 1, fx);
        } else {
            self.rebuild_command(lane, self.rebuilt_zone(core, lane), Op::Finish, fx);
        }
    }

    /// The zone is there, and is read from now on.
    fn end_zone(&mut self, core: &mut Core, lane: usize) {
        let member = self.member;
        let segment = core.segments.get_mut(self.lanes[lane].segment);
        assert!(segment.is_being_rebuilt && segment.lacks_zone(member), "its zone was written");
        segment.is_being_rebuilt = false;
        segment.zones_missing &= !(1 << member);
        core.counters.segments_rebuilt += 1;
        self.lanes[lane].stage.go(LaneStage::Idle);
    }
}

impl Rescue {
    /// Weak stripes come first: they may lack more than this zone.
    pub(super) fn must_wait_to_rebuild(&self, core: &Core) -> bool {
        core.membership.is_changing() || !self.weak.is_empty() || self.is_recording_doubt()
    }
}

/// A part of the index is lost, and nobody knows what is live.
fn collects_nothing(core: &Core) -> bool {
    core.index.is_incomplete()
}

/// A block without metadata: what it held is beyond rescue, and nobody takes it for anything.
fn damaged_frame(core: &mut Core) -> Frame {
    let mut frame = core.frames.take();
    frame.data.fill(0);
    // Zeros would say that nothing was ever written here.
    frame.oob.fill(u8::MAX);
    frame
}
