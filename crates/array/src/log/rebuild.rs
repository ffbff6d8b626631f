//! Rebuilding a member onto the empty drive that took its place: segment by segment, oldest first, its
//! zone is written slot by slot, each chunk where the index expects it.
//!
//! ```text
//!  Idle ──> Choosing ──> Stripes ──> Footer ──> Flushing ──> Closing ──> Closed ──┐
//!               ^ │      header,     all but the             last block           │
//!               │ │      chunks      last block              or finish            │
//!               └─┼───────────────────────────────────────────────────────────────┘
//!                 └─ none left ──> Settling ──> Activating ──> Recording ──> Idle
//!                                  flush        all zones there, superblocks say so
//! ```
//! A zone becomes full as the last thing of all, after what it holds has left the drive's volatile
//! cache. So a mount needs nothing but the zone's state to tell whether it is there: one that is not full
//! is erased and written anew, which makes the rebuild resume by segment.
//!
//! One command at a time, at the write pointer; several stripes are loaded ahead of it. Clients and the
//! collector go on beside it. A block that cannot be decoded is written without metadata and named as
//! damaged in the footer: reading it fails, and no older copy comes back.

use crate::log::load::RestoredRow;
use crate::log::segment::{SegmentSlot, SegmentState};
use crate::log::segment_life::FOOTER_BLOCKS_PER_COMMAND;
use crate::log::{Effects, Location, Shard, Waiter};
use base::frame::Frame;
use base::mutant::{self, Mutant};
use base::units::{DriveIndex, ZoneIndex};
use std::collections::VecDeque;
use zone::device::{Completion, Op, Status};
use zone::format::HEADER_BLOCKS;
use zone::format::footer::{self, Entry, FooterId};
use zone::format::oob::{self, Place};

/// Stripes loaded or waiting to be written at once. Chunks are written in order, so one slow read holds up all behind
/// it: with 16, chunks of 8 and 16 KiB reached 25 and 47 % of what a ZN540's zone takes (`lab run exp5`), with 64 they
/// reach 53 and 94 %.
pub const REBUILD_STRIPES_MAX: usize = 64;

/// What the rebuild is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No member is being rebuilt.
    #[default]
    Idle,
    /// Looking for the next segment, or waiting for one to be sealed or erased.
    Choosing,
    /// Header and chunks of a zone are being written.
    Stripes,
    /// Its footer is being written.
    Footer,
    /// All but its end is to leave the drive's cache.
    Flushing,
    /// It is to become full.
    Closing,
    /// It is full.
    Closed,
    /// The last zones are to leave the drive's cache.
    Settling,
    /// Every zone is there.
    Activating,
    /// The superblocks are being told.
    Recording,
}

/// A chunk on its way into the zone.
#[derive(Debug)]
struct Chunk {
    frames: Vec<Frame>,
    entries: Vec<Entry>,
}

/// The rebuild of a member, one zone at a time.
#[derive(Debug, Default)]
pub struct MemberRebuild {
    stage: Stage,
    member: usize,
    segment: SegmentSlot,
    /// Next slot to be loaded.
    slot_to_load: u32,
    /// Next slot to be written.
    slot_to_write: u32,
    /// Chunks from that slot on; none where the stripe is still being loaded.
    chunks: VecDeque<Option<Chunk>>,
    /// What was written, for the footer.
    entries: Vec<Entry>,
    footer_next: u32,
    /// Stripes being loaded.
    loads: u32,
    /// The drive has a command of ours.
    is_busy: bool,
}

impl MemberRebuild {
    /// True while a zone is being written.
    fn is_in_zone(&self) -> bool {
        matches!(
            self.stage,
            Stage::Stripes | Stage::Footer | Stage::Flushing | Stage::Closing | Stage::Closed
        )
    }
}

impl Shard {
    /// Begins the rebuild, or goes on with it after a mount.
    pub(super) fn start_rebuild(&mut self, fx: &mut Effects) {
        let Some(member) = self.membership.rebuilding() else { return };
        assert!(self.rebuild_is_over());
        self.member_rebuild = MemberRebuild { stage: Stage::Choosing, member, ..MemberRebuild::default() };
        let open: Vec<SegmentSlot> = self
            .segments
            .iter()
            .filter(|(_, segment)| segment.writer.is_some() && segment.lacks_zone(member))
            .map(|(slot, _)| slot)
            .collect();
        for slot in open {
            self.close_segment(slot, fx);
        }
    }

    /// True when no member is being rebuilt, and nothing of a rebuild given up is left.
    pub(super) fn rebuild_is_over(&self) -> bool {
        let rebuild = &self.member_rebuild;
        rebuild.stage == Stage::Idle && rebuild.loads == 0 && !rebuild.is_busy
    }

    /// True until every zone of every member is there and the superblocks say so.
    pub(super) fn is_rebuilding(&self) -> bool {
        self.membership.rebuilding().is_some() || self.member_rebuild.stage != Stage::Idle
    }

    /// Stripes being loaded for the rebuild.
    pub(super) fn rebuild_loads_count(&self) -> usize {
        self.member_rebuild.loads as usize
    }

    /// Blocks written to the zone that is being rebuilt.
    pub(super) fn rebuild_blocks_written(&self) -> u64 {
        let rebuild = &self.member_rebuild;
        if !rebuild.is_in_zone() {
            return 0;
        }
        let layout = &self.segments.get(rebuild.segment).layout;
        u64::from(layout.slot_offset(rebuild.slot_to_write) + rebuild.footer_next)
    }

    /// The drive failed, or too many others did.
    pub(super) fn abandon_rebuild(&mut self) {
        let rebuild = &mut self.member_rebuild;
        if rebuild.is_in_zone() {
            self.segments.get_mut(rebuild.segment).is_being_rebuilt = false;
        }
        rebuild.stage = Stage::Idle;
        for chunk in rebuild.chunks.drain(..).flatten() {
            self.frames.give_vec(chunk.frames);
        }
    }

    /// Goes on as far as possible.
    pub(super) fn advance_rebuild(&mut self, fx: &mut Effects) {
        if self.membership.is_broken() {
            self.abandon_rebuild();
        }
        if self.member_rebuild.stage == Stage::Stripes {
            self.load_chunks(fx);
        }
        while !self.member_rebuild.is_busy {
            match self.member_rebuild.stage {
                Stage::Idle => return,
                Stage::Choosing => {
                    let Some(next) = self.choose_segment() else { return };
                    match next {
                        Some(segment) => self.begin_zone(segment, fx),
                        None => self.member_rebuild.stage = Stage::Settling,
                    }
                }
                Stage::Stripes => {
                    if !self.write_chunks(fx) {
                        return;
                    }
                    self.load_chunks(fx);
                }
                Stage::Footer => self.write_rebuilt_footer(fx),
                Stage::Flushing => {
                    self.member_rebuild.stage = Stage::Closing;
                    self.flush_rebuilt(fx);
                }
                Stage::Closing => {
                    self.member_rebuild.stage = Stage::Closed;
                    self.close_zone(fx);
                }
                Stage::Closed => self.end_zone(),
                Stage::Settling => {
                    self.member_rebuild.stage = Stage::Activating;
                    self.flush_rebuilt(fx);
                }
                Stage::Activating => {
                    self.member_rebuild.stage = Stage::Recording;
                    self.membership.activate(self.member_rebuild.member);
                    self.record_change(fx);
                }
                Stage::Recording if self.membership.is_changing() => return,
                Stage::Recording => self.member_rebuild.stage = Stage::Idle,
            }
        }
    }

    /// The oldest segment that lacks its zone and is at rest; `None` when one must be waited for, and
    /// `Some(None)` when none lacks it. Weak stripes come first: they may lack more than this zone.
    fn choose_segment(&self) -> Option<Option<SegmentSlot>> {
        if self.membership.is_changing() || !self.weak.is_empty() || self.is_recording_doubt() {
            return None;
        }
        let member = self.member_rebuild.member;
        if mutant::is(Mutant::RebuildOfDriveZero) && member > 0 {
            return Some(None);
        }
        let lacking = || self.segments.iter().filter(|(_, segment)| segment.lacks_zone(member));
        let is_ready = |slot: SegmentSlot, state: SegmentState, live_blocks: u32| {
            // The collector erases what is dead sooner than it could be rebuilt.
            state == SegmentState::Sealed && live_blocks > 0 && self.victim() != Some(slot)
        };
        let oldest = lacking()
            .filter(|(slot, segment)| is_ready(*slot, segment.state, segment.live_blocks))
            .min_by_key(|(_, segment)| segment.id);
        match oldest {
            // One active zone belongs to the superblock log.
            Some(_) if self.segments.active_count() + 1 >= self.config.geometry.active_zones_max => None,
            Some((slot, _)) => Some(Some(slot)),
            None if lacking().next().is_none() => Some(None),
            None => None,
        }
    }

    /// Writes a zone's header and loads the first stripes.
    fn begin_zone(&mut self, slot: SegmentSlot, fx: &mut Effects) {
        let member = self.member_rebuild.member;
        let mut header = self.header_of(slot);
        let mut frames = self.frames.take_vec(1);
        frames[0].oob.fill(0);
        header.encode(u8::try_from(member).expect("at most 32 members"), &mut frames[0].data);
        let segment = self.segments.get_mut(slot);
        std::mem::swap(&mut segment.zones, &mut header.zones);
        segment.is_being_rebuilt = true;
        let rebuild = &mut self.member_rebuild;
        assert!(rebuild.chunks.is_empty());
        rebuild.stage = Stage::Stripes;
        rebuild.segment = slot;
        rebuild.slot_to_load = 0;
        rebuild.slot_to_write = 0;
        rebuild.footer_next = 0;
        rebuild.entries.clear();
        self.counters.metadata_blocks_written += u64::from(HEADER_BLOCKS);
        self.write_rebuilt(0, frames, fx);
        self.load_chunks(fx);
    }

    fn rebuilt_zone(&self) -> ZoneIndex {
        self.segments.get(self.member_rebuild.segment).zones[self.member_rebuild.member]
    }

    fn rebuild_command(&mut self, zone: ZoneIndex, op: Op, fx: &mut Effects) {
        self.member_rebuild.is_busy = true;
        let member = self.member_rebuild.member;
        let part = u32::try_from(member).expect("at most 32 members");
        fx.command(member, zone, Waiter::Rebuild { slot: 0, part }, op);
    }

    fn write_rebuilt(&mut self, offset: u32, frames: Vec<Frame>, fx: &mut Effects) {
        self.rebuild_command(self.rebuilt_zone(), Op::Write { offset, frames }, fx);
    }

    fn flush_rebuilt(&mut self, fx: &mut Effects) {
        if self.config.geometry.volatile_cache && !mutant::is(Mutant::RebuiltWithoutFlush) {
            self.rebuild_command(ZoneIndex(0), Op::Flush, fx);
        }
    }

    /// The drive has answered.
    pub(super) fn on_rebuild(&mut self, drive: usize, completion: Completion, fx: &mut Effects) {
        self.member_rebuild.is_busy = false;
        if !completion.frames.is_empty() {
            self.frames.give_vec(completion.frames);
        }
        if completion.status != Status::Success {
            self.fail_member(drive, fx);
        }
    }

    /// Loads stripes ahead, in the order of their slots.
    fn load_chunks(&mut self, fx: &mut Effects) {
        let MemberRebuild { member, segment, .. } = self.member_rebuild;
        let stripes = self.segments.get(segment).layout.stripes;
        while self.member_rebuild.chunks.len() < REBUILD_STRIPES_MAX
            && self.member_rebuild.slot_to_load < stripes
        {
            let slot = self.member_rebuild.slot_to_load;
            self.member_rebuild.slot_to_load += 1;
            match self.segments.get(segment).stripe_in_slot(member, slot) {
                Some(stripe) => {
                    self.member_rebuild.chunks.push_back(None);
                    self.member_rebuild.loads += 1;
                    self.start_restore_load(segment, stripe, slot, fx);
                }
                None => {
                    let chunk = self.filler_chunk(slot);
                    self.member_rebuild.chunks.push_back(Some(chunk));
                }
            }
        }
    }

    /// A slot that holds no stripe.
    fn filler_chunk(&mut self, slot: u32) -> Chunk {
        let MemberRebuild { member, segment, .. } = self.member_rebuild;
        let layout = self.segments.get(segment).layout;
        let group = layout.group_of(slot);
        let place = Place { stripe: slot, group, ..self.place_of_filler(segment, member) };
        let mut frames = self.frames.take_vec(layout.chunk_blocks as usize);
        frames.iter_mut().for_each(|frame| oob::make_filler(frame, &place));
        self.counters.padding_blocks_written += frames.len() as u64;
        let entries = vec![Entry::VOID; frames.len()];
        Chunk { frames, entries }
    }

    /// A stripe has been loaded, and the member's chunk of it decoded row by row.
    pub(super) fn chunk_restored(&mut self, segment: SegmentSlot, slot: u32, rows: Vec<RestoredRow>) {
        self.member_rebuild.loads -= 1;
        let MemberRebuild { stage, member, segment: current, slot_to_write, .. } = self.member_rebuild;
        if stage != Stage::Stripes || segment != current {
            rows.into_iter().flatten().for_each(|(frame, _)| self.frames.give(frame));
            return;
        }
        let segment = self.segments.get(segment);
        let offset = segment.layout.slot_offset(slot);
        let location = Location { drive: DriveIndex::at(member), zone: segment.zones[member], offset };
        let place = self.place_at(current, location).expect("the slot holds a stripe");
        let mut chunk = Chunk { frames: self.frames.take_vec(0), entries: Vec::with_capacity(rows.len()) };
        for (row, restored) in (0..).zip(rows) {
            let (frame, entry) = match restored {
                Some((mut frame, neighbour)) => {
                    let data_crc = oob::data_crc(&frame.oob);
                    oob::seal(&mut frame.oob, &Place { row, ..place }, data_crc, neighbour);
                    let entry = Entry::from_protected(&frame.oob, place.role, place.stripe);
                    (frame, entry.unwrap_or(Entry::unknown(place.stripe)))
                }
                None => (self.damaged_frame(), Entry::unknown(place.stripe)),
            };
            chunk.frames.push(frame);
            chunk.entries.push(entry);
        }
        self.counters.blocks_rebuilt += chunk.entries.iter().filter(|entry| entry.whole).count() as u64;
        self.member_rebuild.chunks[(slot - slot_to_write) as usize] = Some(chunk);
    }

    /// A block without metadata: what it held is beyond rescue, and nobody takes it for anything.
    fn damaged_frame(&mut self) -> Frame {
        let mut frame = self.frames.take();
        frame.data.fill(0);
        // Zeros would say that nothing was ever written here.
        frame.oob.fill(u8::MAX);
        frame
    }

    /// Writes the chunks that are next, as many as one command takes; false when the first of them is
    /// still being loaded.
    fn write_chunks(&mut self, fx: &mut Effects) -> bool {
        let layout = self.segments.get(self.member_rebuild.segment).layout;
        let rebuild = &mut self.member_rebuild;
        if rebuild.slot_to_write == layout.stripes {
            rebuild.stage = Stage::Footer;
            return true;
        }
        let offset = layout.slot_offset(rebuild.slot_to_write);
        let chunks_max = (self.config.geometry.transfer_blocks_max / layout.chunk_blocks) as usize;
        let ready = rebuild.chunks.iter().take_while(|chunk| chunk.is_some()).count().min(chunks_max);
        let mut frames = self.frames.take_vec(0);
        for mut chunk in rebuild.chunks.drain(..ready).flatten() {
            frames.append(&mut chunk.frames);
            rebuild.entries.append(&mut chunk.entries);
            rebuild.slot_to_write += 1;
            self.frames.give_vec(chunk.frames);
        }
        if frames.is_empty() {
            self.frames.give_vec(frames);
            return false;
        }
        self.write_rebuilt(offset, frames, fx);
        true
    }

    /// Footer blocks, but for the one that would make the zone full.
    fn write_rebuilt_footer(&mut self, fx: &mut Effects) {
        let layout = self.segments.get(self.member_rebuild.segment).layout;
        let end = layout.footer_blocks() - u32::from(self.footer_fills_zone());
        let first = self.member_rebuild.footer_next;
        if first == end {
            self.member_rebuild.stage = Stage::Flushing;
            return;
        }
        let per_command = FOOTER_BLOCKS_PER_COMMAND.min(self.config.geometry.transfer_blocks_max);
        self.write_footer_blocks(first..(first + per_command).min(end), fx);
    }

    /// True when the last block of the footer is the last one of the zone.
    fn footer_fills_zone(&self) -> bool {
        let layout = self.segments.get(self.member_rebuild.segment).layout;
        layout.footer_offset() + layout.footer_blocks() == self.config.geometry.zone_capacity_blocks
    }

    fn write_footer_blocks(&mut self, blocks: std::ops::Range<u32>, fx: &mut Effects) {
        let segment = self.segments.get(self.member_rebuild.segment);
        let (layout, id, zone) = (segment.layout, segment.id, self.rebuilt_zone());
        self.member_rebuild.footer_next = blocks.end;
        let mut frames = self.frames.take_vec(blocks.len());
        for (index, frame) in blocks.clone().zip(&mut frames) {
            frame.oob.fill(0);
            let id = FooterId { array: self.array_tag, segment: id, zone, index };
            let entries = &self.member_rebuild.entries[layout.footer_entries(index)];
            footer::encode(&id, entries, &mut frame.data);
        }
        self.counters.metadata_blocks_written += frames.len() as u64;
        self.write_rebuilt(layout.footer_offset() + blocks.start, frames, fx);
    }

    /// Makes the zone full: by its last block, or by command.
    fn close_zone(&mut self, fx: &mut Effects) {
        let last = self.member_rebuild.footer_next;
        if self.footer_fills_zone() {
            self.write_footer_blocks(last..last + 1, fx);
        } else {
            self.rebuild_command(self.rebuilt_zone(), Op::Finish, fx);
        }
    }

    /// The zone is there, and is read from now on.
    fn end_zone(&mut self) {
        let MemberRebuild { member, segment, .. } = self.member_rebuild;
        let segment = self.segments.get_mut(segment);
        segment.is_being_rebuilt = false;
        segment.zones_missing &= !(1 << member);
        self.counters.segments_rebuilt += 1;
        self.member_rebuild.stage = Stage::Choosing;
    }
}
