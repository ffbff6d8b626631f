//! Scrubbing: everything is read at a bounded rate, so that damage is found while it can be repaired.
//!
//! ```text
//!  Idle ──> Choosing ──> Records ──> Stripes ──┐      headers and footers, then data and parity
//!               ^ │                            │
//!               └─┼────────────────────────────┘      a damaged segment is marked
//!                 └─ none left ──> Drives ─────┐      superblocks, and what drives need to be opened again
//!                                              └──> Repairing ──> Idle     marked segments are collected
//! ```
//! Oldest segment first. Repairing is the collector's work (`Segment::evacuate`): it moves what is live out of the
//! segment, decoded where it is damaged, and erases it; what nothing can rebuild is written off as ever. A segment as a
//! whole, because a block that is damaged and dead would be found again and again, and parity that is damaged leaves
//! all of its stripe without redundancy (ADR 13).
//!
//! In a segment that is open, stripes in flight are passed over. Damaged, it is closed first. Rebuilds go before
//! scrubs: while a member is being rebuilt, the next segment waits.

mod drives;

use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::gc::Collector;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::sweep::{Sweep, SweepPurpose, stripes_per_sweep};
use crate::log::{Effects, GC_RESERVE_SEGMENTS, Location, Shard, Waiter, row};
use crate::pacer::Pacer;
use base::erasure::{Piece, PieceSet};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, DriveIndex};
use drives::Look;
use std::fmt;
use zone::device::{Completion, Op, Status};
use zone::format::HEADER_BLOCKS;
use zone::format::footer::{self, FooterId};
use zone::format::header::{SegmentHeader, Stream};
use zone::stripe::StripeNumber;

/// Sweeps at once: one is read while the other is verified.
pub const SCRUB_SWEEPS_MAX: usize = 2;
/// Blocks of headers and footers read at once.
pub const SCRUB_RECORD_BLOCKS: u32 = 8;

/// Options of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Write elsewhere what is damaged.
    pub repair: bool,
    /// Most bytes a second that are read, of all drives together; `None` and zero are no limit.
    pub rate: Option<u64>,
}

/// Findings of a scrub so far. Blocks are 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubFindings {
    /// Blocks read and verified.
    pub blocks_read: u64,
    /// Blocks of stripes that cannot be read, fail their checksum, or are not what was written there.
    pub blocks_damaged: u64,
    /// Damaged blocks that nothing can rebuild. They are lost if something still points to them.
    pub blocks_beyond_rescue: u64,
    /// Stripes whose blocks are all whole, and whose parity is not that of their data.
    pub stripes_mismatched: u64,
    /// Damaged headers and blocks of footers.
    pub records_damaged: u64,
    /// Segments with any of these.
    pub segments_damaged: u64,
    /// Superblock records, of which only the newest of each drive counts.
    pub superblocks_damaged: u64,
    /// Drives whose header is damaged: they work, and cannot be opened again.
    pub headers_damaged: u64,
    /// Superblock records and headers that are damaged and were not written anew.
    pub descriptions_left: u64,
    /// Drives that were there when it began, and had failed when it ended.
    pub drives_lost: u64,
}

/// State of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubState {
    /// Reading.
    Running,
    /// Everything is read; damaged segments are being collected.
    Repairing,
    /// Over.
    Done,
    /// Stopped by its operator, or because too many drives have failed.
    Stopped,
}

/// Progress of a scrub, or what became of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// State of the scrub.
    pub state: ScrubState,
    /// Options that the scrub was begun with.
    pub options: ScrubOptions,
    /// Read or found to be gone.
    pub bytes_done: u64,
    /// Bytes of all segments there were when the scrub began.
    pub bytes_total: u64,
    /// Findings so far.
    pub findings: ScrubFindings,
    /// Damaged segments that are not repaired.
    pub segments_left: u64,
    /// Blocks that repairing has written off.
    pub blocks_lost: u64,
}

/// Why a scrub cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubError {
    /// A scrub is running, or what it began is not over.
    Running,
    /// More drives have failed than the array can lose.
    Broken,
}

impl fmt::Display for ScrubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScrubError::Running => write!(f, "a scrub is running: wait for its end, or stop it"),
            ScrubError::Broken => write!(f, "too many drives have failed: bring them back first"),
        }
    }
}

impl std::error::Error for ScrubError {}

/// The segment that is being read. It may be collected between two reads: then its slot holds another, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Current {
    slot: SegmentSlot,
    id: u64,
}

/// Stage of the scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing.
    #[default]
    Idle,
    /// Looking for the next segment, or waiting until it can be read.
    Choosing,
    /// Headers and footers are being read, one command at a time.
    Records {
        current: Current,
        /// The drive.
        drive: usize,
        /// Next of its records: the header, then the blocks of the footer.
        record_next: u32,
    },
    /// Stripes are being read.
    Stripes {
        current: Current,
        /// Next stripe.
        stripe_next: u32,
        /// Stripe at which to end.
        stripes: u32,
    },
    /// The records that describe the drives are being read.
    Drives(Look),
    /// Damaged segments are being collected.
    Repairing,
}

impl Stage {
    /// Another stage follows; a scrub may be stopped in each.
    fn go(&mut self, next: Stage) {
        let may_follow = match (*self, next) {
            (Stage::Choosing, Stage::Records { drive: 0, record_next: 0, .. } | Stage::Drives(_))
            | (Stage::Records { .. } | Stage::Stripes { .. }, Stage::Choosing)
            | (Stage::Drives(_), Stage::Drives(_) | Stage::Repairing) => true,
            (Stage::Records { current, .. }, Stage::Records { current: same, .. })
            | (Stage::Records { current, .. }, Stage::Stripes { current: same, .. }) => current == same,
            (
                Stage::Stripes { current, stripe_next, .. },
                Stage::Stripes { current: same, stripe_next: next, .. },
            ) => current == same && next > stripe_next,
            (before, Stage::Idle) => before != Stage::Idle,
            _ => false,
        };
        assert!(may_follow, "a scrub goes from {self:?} to {next:?}");
        *self = next;
    }
}

/// The scrub that is running, and what became of it.
#[derive(Debug, Default)]
pub struct Scrub {
    stage: Stage,
    options: ScrubOptions,
    pacer: Pacer,
    /// Segments up to this id are done.
    done_to: u64,
    /// Segments from this id on are newer than the scrub.
    end: u64,
    /// The current segment is damaged.
    is_damaged: bool,
    /// Sweeps and reads of records under way.
    reads: usize,
    bytes_total: u64,
    findings: ScrubFindings,
    /// Drives that were there when it began.
    present: PieceSet,
    /// Drives whose newest superblock record is damaged.
    spoiled: PieceSet,
    lost_before: u64,
    /// State in which the last scrub ended.
    ended: Option<ScrubState>,
}

impl Shard {
    /// Begins a scrub.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub fn start_scrub(&mut self, options: ScrubOptions) -> Result<(), ScrubError> {
        if !self.scrub.scrub_is_over() {
            return Err(ScrubError::Running);
        }
        if self.core.membership.is_broken() {
            return Err(ScrubError::Broken);
        }
        self.scrub = Scrub {
            stage: Stage::Choosing,
            options,
            end: self.core.next_segment_id,
            bytes_total: self.core.segments.iter().map(|(_, segment)| bytes_of(segment)).sum(),
            present: (0..self.core.config.members)
                .filter(|drive| self.core.membership.is_present(*drive))
                .collect(),
            lost_before: self.core.counters.blocks_lost,
            ..Scrub::default()
        };
        self.scrub.pacer.set_rate(options.rate);
        self.area.begin_scrub();
        self.core.damage.forget_scrubbed();
        Ok(())
    }

    /// Ends the scrub, if one is running.
    pub fn stop_scrub(&mut self) {
        if self.scrub.stage != Stage::Idle {
            self.scrub.end_scrub(ScrubState::Stopped);
        }
    }

    /// Allows another rate from now on.
    pub fn set_scrub_rate(&mut self, rate: Option<u64>) {
        self.scrub.options.rate = rate;
        self.scrub.pacer.set_rate(rate);
    }

    /// Returns the progress of the scrub, or what became of the last one; `None` when there was none. O(segments).
    #[must_use]
    pub fn scrub_status(&self) -> Option<ScrubStatus> {
        let state = match self.scrub.stage {
            Stage::Idle => self.scrub.ended?,
            Stage::Choosing | Stage::Records { .. } | Stage::Stripes { .. } | Stage::Drives(_) => {
                ScrubState::Running
            }
            Stage::Repairing => ScrubState::Repairing,
        };
        let Scrub { options, done_to, end, bytes_total, findings, lost_before, .. } = self.scrub;
        let to_read =
            self.core.segments.iter().filter(|(_, segment)| (done_to + 1..end).contains(&segment.id));
        let bytes_left: u64 = to_read.map(|(_, segment)| bytes_of(segment)).sum();
        let left = self.core.segments.iter().filter(|(_, segment)| segment.evacuate && segment.id < end);
        let is_over = state == ScrubState::Done || state == ScrubState::Repairing;
        let bytes_done = if is_over { bytes_total } else { bytes_total.saturating_sub(bytes_left) };
        Some(ScrubStatus {
            state,
            options,
            bytes_done: (bytes_done + self.scrub.scrub_bytes_of_current(&self.core)).min(bytes_total),
            bytes_total,
            findings,
            segments_left: if options.repair { left.count() as u64 } else { findings.segments_damaged },
            blocks_lost: self.core.counters.blocks_lost - lost_before,
        })
    }

    /// Returns the findings of the scrub so far, or of the last one.
    #[must_use]
    pub fn scrub_findings(&self) -> ScrubFindings {
        self.scrub.findings
    }

    /// True while a scrub is running.
    #[must_use]
    pub fn is_scrubbing(&self) -> bool {
        self.scrub.stage != Stage::Idle
    }

    /// Goes on as far as possible.
    pub(super) fn advance_scrub(&mut self, now: Instant, fx: &mut Effects) {
        if self.scrub.stage == Stage::Idle {
            return;
        }
        if self.core.membership.is_broken() {
            return self.scrub.end_scrub(ScrubState::Stopped);
        }
        self.scrub.pacer.forget_waiting();
        loop {
            match self.scrub.stage {
                Stage::Idle => return,
                Stage::Choosing => {
                    let Some(next) = self.choose_to_scrub() else { return };
                    self.scrub.is_damaged = false;
                    self.scrub.stage.go(match next {
                        Some(current) => Stage::Records { current, drive: 0, record_next: 0 },
                        None => Stage::Drives(Look::default()),
                    });
                }
                Stage::Records { current, .. } | Stage::Stripes { current, .. }
                    if self.collector.is_being_collected(&self.core, current) =>
                {
                    // What it holds goes to newer segments.
                    self.scrub.done_to = current.id;
                    self.scrub.stage.go(Stage::Choosing);
                }
                Stage::Records { current, drive, .. } if drive == self.core.config.members => {
                    let stripes = stripes_to_scrub(&self.core, current);
                    self.scrub.stage.go(stripes);
                }
                Stage::Records { current, drive, record_next } => {
                    if self.scrub.reads > 0 || !self.scrub.pacer.may_begin(now) {
                        return;
                    }
                    self.scrub.read_records(&mut self.core, now, current, (drive, record_next), fx);
                }
                Stage::Stripes { current, stripe_next, stripes } if stripe_next == stripes => {
                    if self.scrub.reads > 0 {
                        return;
                    }
                    self.end_segment(current, fx);
                }
                Stage::Stripes { current, stripe_next, stripes } => {
                    if self.scrub.reads == SCRUB_SWEEPS_MAX || !self.scrub.pacer.may_begin(now) {
                        return;
                    }
                    let chunk_blocks = self.core.segments.get(current.slot).layout.chunk_blocks;
                    let end = (stripe_next + stripes_per_sweep(chunk_blocks)).min(stripes);
                    if !self.reader.has_tables(&mut self.core, current.slot, stripe_next..end, fx) {
                        return;
                    }
                    self.scrub.stage.go(Stage::Stripes { current, stripe_next: end, stripes });
                    self.sweep_to_scrub(now, current, stripe_next..end, fx);
                }
                Stage::Drives(look) => {
                    if self.scrub.reads > 0 || !self.scrub.advance_look(&mut self.core, look, fx) {
                        return;
                    }
                }
                Stage::Repairing => {
                    if self.space().is_evacuating(self.scrub.end) {
                        return;
                    }
                    self.scrub.end_scrub(ScrubState::Done);
                }
            }
        }
    }

    /// The oldest segment that was not read yet; `None` when it must be waited for, and `Some(None)` when there is
    /// none.
    fn choose_to_scrub(&self) -> Option<Option<Current>> {
        if self.scrub.reads > 0
            || self.area.holds_scrub()
            || self.member_rebuild.is_rebuilding(&self.core)
            || self.rescue.must_wait_to_rebuild(&self.core)
        {
            return None;
        }
        let ids = self.scrub.done_to + 1..self.scrub.end;
        // What is being erased, or must be, is not worth a look.
        let is_kept = |segment: &Segment| match segment.state {
            // Slots are in memory, and their copies are compared by a mount.
            _ if segment.is_write_area => false,
            SegmentState::Condemned | SegmentState::Resetting { .. } => false,
            SegmentState::Opening { .. }
            | SegmentState::Open
            | SegmentState::Sealing { .. }
            | SegmentState::Sealed => true,
        };
        let next = self
            .core
            .segments
            .iter()
            .filter(|(slot, segment)| {
                ids.contains(&segment.id) && is_kept(segment) && self.collector.victim() != Some(*slot)
            })
            .min_by_key(|(_, segment)| segment.id);
        match next {
            None => Some(None),
            Some((slot, segment)) => match segment.state {
                SegmentState::Open | SegmentState::Sealed => Some(Some(Current { slot, id: segment.id })),
                _ => None,
            },
        }
    }

    /// Reads stripes, but for those that hold nothing, those in flight, and those that a crash tore, whose blocks
    /// recovery has moved.
    fn sweep_to_scrub(
        &mut self,
        now: Instant,
        current: Current,
        stripes: std::ops::Range<u32>,
        fx: &mut Effects,
    ) {
        let segment = self.core.segments.get(current.slot);
        let members = segment.layout.members();
        let in_flight = match segment.writer {
            Some(_) => self.stripes.slots.in_flight(current.slot),
            None => Vec::new(),
        };
        let is_there = |stripe: &StripeNumber| {
            !in_flight.contains(stripe)
                && segment.torn_stripes.binary_search(stripe).is_err()
                && (0..members).all(|drive| segment.slot_of_stripe(drive, *stripe).is_some())
        };
        let stripes: Vec<StripeNumber> = stripes.map(StripeNumber).filter(is_there).collect();
        if stripes.is_empty() {
            return;
        }
        let chunks = (stripes.len() * members) as u64;
        let bytes = chunks * u64::from(segment.layout.chunk_blocks) * BLOCK_BYTES_U64;
        self.scrub.pacer.begin(now, bytes);
        self.scrub.reads += 1;
        self.start_sweep(current.slot, stripes, SweepPurpose::Scrub, fx);
    }

    /// All of a segment is read. A damaged one is to be collected, if that was asked for.
    fn end_segment(&mut self, current: Current, fx: &mut Effects) {
        assert!(self.scrub.reads == 0, "segment {} is through while stripes of it are read", current.id);
        assert!(current.id > self.scrub.done_to, "segments are scrubbed in their order");
        assert!(current.id < self.scrub.end, "segments that are newer than the scrub are left alone");
        self.scrub.done_to = current.id;
        self.scrub.stage.go(Stage::Choosing);
        if !std::mem::take(&mut self.scrub.is_damaged) {
            return;
        }
        self.scrub.findings.segments_damaged += 1;
        if !self.scrub.options.repair {
            return;
        }
        self.core.segments.evacuate(current.slot);
        // The rest of it is wasted until it is collected, so not while space is short: then it waits until it is full.
        // The mapping space sees to its own.
        let has_room = self.core.segments.free_segments() > GC_RESERVE_SEGMENTS;
        let segment = self.core.segments.get(current.slot);
        if segment.writer.is_some() && segment.stream != Stream::Mapping && has_room {
            self.appender().close_segment(current.slot, fx);
        }
    }
}

impl Scrub {
    /// A drive has answered with records: the first try, or with `part` 1 the second.
    pub(super) fn on_scrub(
        &mut self,
        core: &mut Core,
        (slot, part): (SegmentSlot, u32),
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { token, status, mut frames, zone, offset, .. } = completion;
        if status == Status::DeviceGone {
            core.fail_member(drive, Blame::answer(token, status), fx);
        }
        let is_there = core.membership.has_zone(core.segments.get(slot), drive);
        for (offset, frame) in (offset..).zip(frames.drain(..)) {
            let whole = status == Status::Success && record_is_whole(core, slot, drive, offset, &frame);
            if !whole && is_there && part == 0 {
                let mut frames = core.frames.take_vec(0);
                frames.push(frame);
                self.reads += 1;
                core.segments.get_mut(slot).pin();
                fx.command(drive, zone, Waiter::Scrub { slot, part: 1 }, Op::Read { offset, frames });
                continue;
            }
            core.frames.give(frame);
            self.findings.blocks_read += u64::from(is_there);
            if !whole && is_there {
                core.note_damaged_record(Location { drive: DriveIndex::at(drive), zone, offset }, status);
                self.findings.records_damaged += 1;
                self.is_damaged = true;
            }
        }
        core.frames.give_vec(frames);
        assert!(self.reads > 0, "a read of records is answered once");
        self.reads -= 1;
        core.segments.get_mut(slot).unpin();
    }

    /// Bytes of the current segment that are read.
    fn scrub_bytes_of_current(&self, core: &Core) -> u64 {
        let Stage::Stripes { current, stripe_next, .. } = self.stage else { return 0 };
        let Some(segment) = core.segments.find(current.slot, current.id) else { return 0 };
        u64::from(stripe_next)
            * segment.layout.members() as u64
            * u64::from(segment.layout.chunk_blocks)
            * BLOCK_BYTES_U64
    }

    /// Returns the time at which a scrub that waits for its rate may go on.
    pub(super) fn scrub_wakes_at(&self) -> Option<Instant> {
        self.pacer.wakes_at()
    }

    /// True when no scrub is running, and nothing of one that was stopped is left.
    pub(super) fn scrub_is_over(&self) -> bool {
        self.stage == Stage::Idle && self.reads == 0
    }

    fn end_scrub(&mut self, state: ScrubState) {
        self.stage.go(Stage::Idle);
        self.ended = Some(state);
        self.pacer.forget_waiting();
    }

    /// Reads the next records of a drive: a header, or some blocks of a footer.
    fn read_records(
        &mut self,
        core: &mut Core,
        now: Instant,
        current: Current,
        (drive, record_next): (usize, u32),
        fx: &mut Effects,
    ) {
        assert!(self.reads == 0, "records are read one command after the other");
        let segment = core.segments.get_mut(current.slot);
        let layout = segment.layout;
        assert!(segment.id == current.id, "segment {} is being scrubbed", current.id);
        assert!(drive < core.config.members, "drive {drive} of {}", core.config.members);
        let footers = if segment.state == SegmentState::Sealed { layout.footer_blocks() } else { 0 };
        let records = HEADER_BLOCKS + footers;
        if !core.membership.has_zone(segment, drive) || record_next >= records {
            self.stage.go(Stage::Records { current, drive: drive + 1, record_next: 0 });
            return;
        }
        let most = SCRUB_RECORD_BLOCKS.min(core.config.geometry.transfer_blocks_max);
        let (offset, blocks) = match record_next.checked_sub(HEADER_BLOCKS) {
            None => (record_next, HEADER_BLOCKS - record_next),
            Some(index) => (layout.footer_offset() + index, most.min(records - record_next)),
        };
        segment.pin();
        self.stage.go(Stage::Records { current, drive, record_next: record_next + blocks });
        self.reads += 1;
        self.pacer.begin(now, u64::from(blocks) * BLOCK_BYTES_U64);
        let frames = core.frames.take_vec(blocks as usize);
        let zone = segment.zones[drive];
        let waiter = Waiter::Scrub { slot: current.slot, part: 0 };
        fx.command(drive, zone, waiter, Op::Read { offset, frames });
    }

    /// Stripes have been read.
    pub(super) fn stripes_swept(&mut self, core: &mut Core, sweep: &Sweep) {
        assert!(self.reads > 0, "a sweep is answered once");
        self.reads -= 1;
        for (index, stripe) in sweep.stripes.iter().enumerate() {
            self.judge_stripe(core, sweep, index, *stripe);
        }
    }

    /// Counts what is damaged in a stripe.
    fn judge_stripe(&mut self, core: &mut Core, sweep: &Sweep, index: usize, stripe: StripeNumber) {
        let segment = core.segments.get(sweep.segment);
        let layout = segment.layout;
        let mut found = ScrubFindings::default();
        let mut missing = 0;
        for row in 0..layout.chunk_blocks {
            let is_whole = |piece: &Piece| sweep.block(index, *piece, row).is_some();
            let good: PieceSet<Piece> = layout.code.pieces().iter().filter(is_whole).collect();
            for piece in layout.code.pieces().without(good).iter() {
                if !core.membership.has_zone(segment, layout.drive_of(stripe, piece)) {
                    missing += 1;
                    continue;
                }
                found.blocks_damaged += 1;
                found.blocks_beyond_rescue += u64::from(layout.code.sources(piece, good).is_none());
            }
            found.blocks_read += good.count() as u64;
        }
        found.blocks_read += found.blocks_damaged;
        if found.blocks_damaged == 0 && missing == 0 && !has_right_parity(core, sweep, index) {
            found.stripes_mismatched = 1;
        }
        let findings = &mut self.findings;
        findings.blocks_read += found.blocks_read;
        findings.blocks_damaged += found.blocks_damaged;
        findings.blocks_beyond_rescue += found.blocks_beyond_rescue;
        findings.stripes_mismatched += found.stripes_mismatched;
        self.is_damaged |= found.blocks_damaged + found.stripes_mismatched > 0;
    }
}

impl Collector {
    /// True when the collector has the segment, or has erased it.
    fn is_being_collected(&self, core: &Core, current: Current) -> bool {
        let Some(segment) = core.segments.find(current.slot, current.id) else { return true };
        let is_erased = matches!(segment.state, SegmentState::Resetting { .. });
        is_erased || self.victim() == Some(current.slot)
    }
}

fn record_is_whole(core: &Core, slot: SegmentSlot, drive: usize, offset: u32, frame: &Frame) -> bool {
    let segment = core.segments.get(slot);
    let (layout, zone) = (segment.layout, segment.zones[drive]);
    match offset.checked_sub(layout.footer_offset()) {
        None => SegmentHeader::decode(&frame.data)
            .is_some_and(|header| header.segment == segment.id && header.zones[drive] == zone),
        Some(index) => {
            let id = FooterId { array: core.array_tag, segment: segment.id, zone, index };
            let count = layout.footer_entries(index).len();
            // A footer that never arrived is not missed: the blocks say the same of themselves.
            frame.is_blank() || footer::decode(&id, &frame.data, count, &mut Vec::new())
        }
    }
}

/// The stripes of a segment that can be read now.
fn stripes_to_scrub(core: &Core, current: Current) -> Stage {
    let segment = core.segments.get(current.slot);
    let given_out = segment.writer.as_ref().map(|writer| writer.next_stripe);
    let stripes = given_out.unwrap_or(segment.layout.stripes);
    Stage::Stripes { current, stripe_next: 0, stripes }
}

/// True when the parity of a whole stripe is that of its data, protected metadata included.
fn has_right_parity(core: &mut Core, sweep: &Sweep, index: usize) -> bool {
    let layout = core.segments.get(sweep.segment).layout;
    let code = layout.code;
    let mut expected = core.frames.take();
    let mut is_right = true;
    for (parity, row) in
        (0..code.parity_count()).flat_map(|parity| (0..layout.chunk_blocks).map(move |row| (parity, row)))
    {
        let block = |piece: Piece| sweep.block(index, piece, row).expect("a whole stripe");
        let data: Vec<&Frame> = code.data_pieces().map(block).collect();
        let found = block(Piece::at(code.data_count() + parity));
        is_right &= row::is_parity(&code, parity, &data, found, &mut expected);
    }
    core.frames.give(expected);
    is_right
}

/// Returns the bytes there are to read of a segment.
fn bytes_of(segment: &Segment) -> u64 {
    let layout = &segment.layout;
    let blocks = u64::from(layout.footer_offset() + layout.footer_blocks());
    blocks * layout.members() as u64 * BLOCK_BYTES_U64
}
