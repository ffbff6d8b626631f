//! The life of a segment: zones (headers: `headers.rs`), stripes bound to it, footers, erasure.

use crate::log::append::Appender;
use crate::log::blame::Blame;
use crate::log::config::CHUNK_BLOCKS_MAX;
use crate::log::core::Core;
use crate::log::core::Event;
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::log::flush::RecoveryFlush;
use crate::log::headers::write_headers;
use crate::log::off_load::OffLoad;
use crate::log::reader::Reader;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::streams::StreamWriter;
use crate::log::stripe::{StripeSlot, Stripes};
use crate::log::window::Window;
use crate::log::writer::{WaitingChunk, ZoneWriter};
use crate::log::{Effects, GC_RESERVE_SEGMENTS, Waiter};
use base::checksum::crc32c;
use base::erasure::Piece;
use base::units::ZoneIndex;
use zone::device::{Completion, Op, Status};
use zone::format::footer::{self, FooterId};
use zone::format::header::{Stream, WriteMode};
use zone::format::oob::{self, Place, Role};
use zone::stripe::{Layout, StripeNumber};

/// Footer blocks of one command: large enough to be cheap, small enough for every drive.
pub const FOOTER_BLOCKS_PER_COMMAND: u32 = 8;

impl Appender<'_> {
    /// Takes a zone of every drive and writes the headers. Clients leave the collector its reserve.
    pub(super) fn open_segment(
        &mut self,
        stream: Stream,
        layout: &Layout,
        mode: WriteMode,
        fx: &mut Effects,
    ) -> Option<SegmentSlot> {
        let keeps = stream.is_clients();
        let reserve = if keeps { GC_RESERVE_SEGMENTS } else { 0 };
        let free = match stream {
            Stream::Mapping => self.core.segments.kept_for_mapping(),
            _ => self.core.segments.free_segments(),
        };
        if free <= reserve {
            if keeps && self.stripes.has_unfinished() && self.space().gc_is_at_a_loss() {
                self.close_unfinished(fx);
            }
            return None;
        }
        if self.core.segments.active_count() >= self.off_load.active_segments_max(self.core, stream) {
            if stream != Stream::Cold {
                self.close_unfinished(fx);
            }
            return None;
        }
        let zones = self.core.segments.take_zones(self.core.is_adaptive().then_some(stream));
        let segment = self.core.new_segment(stream, mode, layout, zones);
        Some(self.core.begin_segment(segment, fx))
    }

    /// A crash may leave more segments with room than there are places for them. Those whose turn has not come hold
    /// active zones that another stream may need, or space that only collecting them gives back: the fullest one is
    /// closed.
    fn close_unfinished(&mut self, fx: &mut Effects) {
        let is_freeing = |segment: &Segment| matches!(segment.state, SegmentState::Sealing { .. });
        if self.core.segments.iter().any(|(_, segment)| is_freeing(segment)) {
            return;
        }
        let filled = |slot: &SegmentSlot| {
            let writer = self.core.segments.get(*slot).writer.as_ref();
            writer.map_or(0, |writer| writer.next_stripe)
        };
        assert!(
            self.core.segments.active_count() > 0 || !self.stripes.has_unfinished(),
            "what is unfinished is active"
        );
        if let Some(fullest) = self.stripes.unfinished().max_by_key(filled) {
            self.close_segment(fullest, fx);
        }
    }

    /// Gives a sealed stripe its number in a segment; its pieces queue at their zones.
    pub(super) fn bind(&mut self, slot: StripeSlot, segment_slot: SegmentSlot, fx: &mut Effects) {
        let layout = self.core.segments.get(segment_slot).layout;
        let number = self.core.segments.writer_mut(segment_slot).take_stripe(&layout);
        let stripe = self.stripes.slots.get_mut(slot);
        stripe.segment = segment_slot;
        stripe.stripe = number;
        let is_alone = self.core.segments.writer_mut(segment_slot).stripes_pending() == 1;
        stripe.alone_since = is_alone.then(|| self.core.segments.time());
        // One more than there are pieces, so that the stripe cannot finish before all are queued.
        stripe.pieces_pending = 1;
        for piece in layout.code.pieces::<Piece>().iter() {
            let drive = layout.drive_of(number, piece);
            if self.core.membership.has_zone(self.core.segments.get(segment_slot), drive) {
                self.stripes.seal_metadata(self.core, slot, piece, drive);
                self.stripes.slots.get_mut(slot).pieces_pending += 1;
                let chunk = WaitingChunk { slot, piece, stripe: number };
                self.core.segments.writer_mut(segment_slot).zones[drive].waiting.push_back(chunk);
                if self.stripes.batch.is_none() {
                    self.pump_zone(segment_slot, drive, fx);
                }
            } else {
                self.stripes.lose_piece(self.core, slot, piece, drive);
            }
        }
        if let Some(segments) = &mut self.stripes.batch
            && segments.last() != Some(&segment_slot)
        {
            segments.push(segment_slot);
        }
        self.stripes.piece_done(self.core, slot);
    }

    /// Stripes that are closed from now on are handed to drives by [`Appender::end_batch`], so that their chunks share commands.
    pub(super) fn begin_batch(&mut self) {
        assert!(self.stripes.batch.is_none(), "a batch ends before another begins");
        self.stripes.batch = Some(Vec::new());
    }

    /// The stripes of a batch go to the drives.
    pub(super) fn end_batch(&mut self, fx: &mut Effects) {
        let segments = self.stripes.batch.take().expect("a batch began");
        for segment in segments {
            for drive in 0..self.core.config.members {
                self.pump_zone(segment, drive, fx);
            }
        }
    }

    /// A segment that is not sealed takes no more stripes.
    pub(super) fn close_segment(&mut self, slot: SegmentSlot, fx: &mut Effects) {
        let segment = self.core.segments.get_mut(slot);
        segment.close();
        let stream = segment.stream;
        self.stripes.stream(stream).close(slot);
        self.seal_segment_if_done(slot, fx);
    }

    /// Writes the footers of a segment when every stripe of it is durable. Not when too many members failed: then some
    /// stripes were given up, and a drive that comes back must find them in the last groups.
    pub(super) fn seal_segment_if_done(&mut self, slot: SegmentSlot, fx: &mut Effects) {
        if self.core.membership.is_broken() {
            return;
        }
        let segment = self.core.segments.get(slot);
        let layout = segment.layout;
        let Some(writer) = &segment.writer else { return };
        // Zones of the write area hold no stripes, and are given up instead.
        if segment.is_write_area
            || segment.state != SegmentState::Open
            || !writer.is_exhausted(&layout)
            || writer.stripes_pending() > 0
        {
            return;
        }
        if self.must_stay_open(segment) {
            self.stripes.sealing_waits = true;
            return;
        }
        let segment = self.core.segments.get_mut(slot);
        let stream = segment.stream;
        segment.enter(SegmentState::Sealing {
            zones_pending: u32::try_from(layout.members()).expect("at most 32"),
        });
        self.stripes.stream(stream).close(slot);
        let is_volatile = self.core.config.geometry.volatile_cache;
        if !is_volatile || self.device_flush.ask(self.core, FlushWaiter::Seal(slot), fx) == Flushed::Now {
            self.reader.write_footers(self.core, slot, fx);
        }
    }

    /// True for a segment with stripes that recovery could not complete, until it has moved them: should a member fail
    /// meanwhile, recovery begins anew, and a footer would say that they count. Unless recovery needs the zones. When some
    /// could not be moved, it stays open for good: recovery does begin anew.
    fn must_stay_open(&self, segment: &Segment) -> bool {
        let is_recovering = self.rescue.flush != RecoveryFlush::Done;
        let active_max = self.core.config.geometry.active_zones_max - 1;
        let needs_zones =
            self.stripes.collector_has_no_room(self.core) && self.core.segments.active_count() >= active_max;
        let is_void = self.rescue.is_void;
        !segment.torn_stripes.is_empty() && (is_void || is_recovering && !needs_zones)
    }

    /// Seals what had to stay open.
    pub(super) fn seal_what_waited(&mut self, fx: &mut Effects) {
        if std::mem::take(&mut self.stripes.sealing_waits) {
            let slots: Vec<SegmentSlot> = self.core.segments.iter().map(|(slot, _)| slot).collect();
            slots.into_iter().for_each(|slot| self.seal_segment_if_done(slot, fx));
        }
    }

    /// Footer blocks are durable.
    pub(super) fn on_footer(
        &mut self,
        slot: SegmentSlot,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let blocks = completion.frames.len();
        self.core.frames.give_vec(completion.frames);
        if completion.status != Status::Success {
            self.core.write_failed(slot, drive, completion.status, fx);
        }
        if self.device_flush.ask_for_fillers(self.core, (slot, drive), blocks, fx) == Flushed::Now {
            self.reader.seal_zone(self.core, slot, drive, fx);
        }
    }
}

impl OffLoad {
    /// Active segments there may be when a stream opens another.
    fn active_segments_max(&self, core: &Core, stream: Stream) -> u32 {
        // One active zone per drive belongs to the superblock log; the collector can always have one, or
        // recovery could wait for ever for room to move to, and so can mapping blocks, which the collector waits for.
        let lacks = |other: Stream| stream != other && !core.segments.has_active(other);
        let maps = self.space.is_used() && stream != Stream::Gc;
        let kept = u32::from(lacks(Stream::Gc)) + u32::from(maps && lacks(Stream::Mapping));
        core.config.geometry.active_zones_max - 1 - kept
    }
}

impl Stripes {
    /// Segments that a crash left and whose turn has not come: those of clients, and those of the collector, among which is
    /// what mapping blocks left, but for one that it goes on with.
    fn unfinished(&self) -> impl Iterator<Item = SegmentSlot> + '_ {
        let StreamWriter { open, unfinished, .. } = &self.streams[Stream::Gc.index()];
        let has_spare = unfinished.len() + usize::from(open[0].segment.is_some()) > 1;
        let collectors = unfinished.iter().filter(move |_| has_spare);
        let clients = Stream::CLIENTS.into_iter().map(|stream| &self.streams[stream.index()]);
        clients.flat_map(|writer| &writer.unfinished).chain(collectors).copied()
    }

    pub(in crate::log) fn has_unfinished(&self) -> bool {
        self.unfinished().next().is_some()
    }

    /// Completes the out-of-band metadata of a piece, now that its place is known.
    fn seal_metadata(&mut self, core: &mut Core, slot: StripeSlot, piece: Piece, drive: usize) {
        let stripe = self.slots.get_mut(slot);
        let segment = core.segments.get(stripe.segment);
        let layout = &segment.layout;
        let code = layout.code;
        let chunk_blocks = layout.chunk_blocks as usize;
        let parity = code.parity_of(piece);
        let neighbour = oob::neighbour_of(piece, &code);
        let mut place = Place {
            array: core.array_tag,
            segment: segment.id,
            zone: segment.zones[drive],
            stripe: stripe.stripe,
            group: layout.group_of(stripe.stripe),
            piece,
            row: 0,
            role: Role::of(piece, &code),
        };
        for (row, frame) in stripe.pieces[piece.index()].iter_mut().enumerate() {
            let data_crc = match parity {
                None => stripe.blocks[piece.index() * chunk_blocks + row].data_crc,
                Some(parity) => {
                    let crcs = stripe.blocks[row..].iter().step_by(chunk_blocks).map(|block| block.data_crc);
                    code.parity_checksum(parity, crcs).unwrap_or_else(|| crc32c(&frame.data))
                }
            };
            let neighbour = stripe.blocks[neighbour.index() * chunk_blocks + row].protected;
            oob::seal(&mut frame.oob, &place, data_crc, Some(neighbour));
            place.row += 1;
        }
    }
}

impl Reader {
    /// Every stripe of a segment is durable, caches included.
    pub(super) fn write_footers(&mut self, core: &mut Core, slot: SegmentSlot, fx: &mut Effects) {
        for drive in 0..core.config.members {
            self.seal_zone(core, slot, drive, fx);
        }
    }

    /// The next step of sealing one zone: fillers where it was closed early, footer blocks, then finish.
    pub(super) fn seal_zone(&mut self, core: &mut Core, slot: SegmentSlot, drive: usize, fx: &mut Effects) {
        let part = u32::try_from(drive).expect("at most 32 members");
        let segment = core.segments.get(slot);
        let layout = segment.layout;
        let zone = segment.zones[drive];
        let writer = segment.writer.as_ref().expect("a segment being sealed");
        assert!(writer.stripes_pending() == 0, "a segment is sealed when all of it is durable");
        let ZoneWriter { landed, footer_next, finished, .. } = writer.zones[drive];
        if !core.membership.has_zone(segment, drive) || finished {
            self.zone_sealed(core, slot);
        } else if segment.has_retired_zone() {
            // Nothing is to be added any more, and no zone may stay active.
            fx.command(drive, zone, Waiter::Finish { slot, part }, Op::Finish);
        } else if landed < layout.stripes {
            write_fillers(core, slot, drive, fx);
        } else if footer_next == 0 && commit_zone(core, slot, drive, layout.footer_offset(), fx) {
            // Footers follow what is committed.
        } else if footer_next < layout.footer_blocks() {
            write_footer(core, slot, drive, fx);
        } else if commit_zone(core, slot, drive, core.whole_granules(slot, drive, layout.footer_end()), fx) {
            // And before the zone is finished they are, too. At its end that makes it full.
        } else if core.ends_short(slot, drive) {
            fx.command(drive, zone, Waiter::Finish { slot, part }, Op::Finish);
        } else {
            self.zone_sealed(core, slot);
        }
    }

    fn zone_sealed(&mut self, core: &mut Core, slot: SegmentSlot) {
        let segment = core.segments.get_mut(slot);
        let SegmentState::Sealing { zones_pending } = &mut segment.state else {
            panic!("a zone of a segment that is not being sealed");
        };
        assert!(*zones_pending > 0, "a zone is sealed once");
        *zones_pending -= 1;
        if *zones_pending > 0 {
            return;
        }
        if segment.has_retired_zone() {
            segment.enter(SegmentState::Condemned);
            core.segments.drop_writer(slot);
        } else {
            segment.enter(SegmentState::Sealed);
            core.segments.drop_writer(slot);
            self.give_up_table(core, slot);
        }
    }

    /// A zone is full.
    pub(in crate::log) fn on_finish(
        &mut self,
        core: &mut Core,
        slot: SegmentSlot,
        drive: usize,
        completion: &Completion,
        fx: &mut Effects,
    ) {
        // A zone that is read-only or offline cannot be finished, and is not active.
        let status = match completion.status {
            Status::InvalidZoneStateTransition => Status::ZoneIsReadOnly,
            status => status,
        };
        let is_retired = core.segments.get(slot).is_retired(drive);
        let what = Waiter::from_token(completion.token).name();
        match status {
            Status::Success => {}
            Status::ZoneIsReadOnly | Status::ZoneIsOffline if is_retired => {}
            _ if is_retired => core.fail_member(drive, Blame::Answer { what, status }, fx),
            _ => match core.retire_zone(slot, drive, what, status) {
                // It is told once more: the zone may be active still.
                Ok(()) => return self.seal_zone(core, slot, drive, fx),
                Err(blame) => core.fail_member(drive, blame, fx),
            },
        }
        self.zone_sealed(core, slot);
    }
}

impl Core {
    /// A segment in these zones, which nobody else has, to be begun.
    pub(in crate::log) fn new_segment(
        &mut self,
        stream: Stream,
        mode: WriteMode,
        layout: &Layout,
        zones: Vec<ZoneIndex>,
    ) -> Segment {
        let (id, created_at) = (self.next_segment_id, self.next_sequence);
        self.next_segment_id += 1;
        Segment {
            state: SegmentState::Opening { headers_pending: 0 },
            table: (mode == WriteMode::Append).then(|| self.segments.take_table(layout)),
            writer: Some(self.segments.take_writer(layout)),
            ..Segment::sealed(id, created_at, stream, mode, *layout, zones)
        }
    }

    /// The headers of a new segment are written, when those of older ones are durable.
    pub(in crate::log) fn begin_segment(&mut self, segment: Segment, fx: &mut Effects) -> SegmentSlot {
        let slot = self.segments.insert(segment);
        if self.segments.begin_opening(slot) {
            write_headers(self, slot, fx);
        }
        slot
    }

    /// True while something is under way that may make room, or a segment that can be collected.
    pub(super) fn may_free_or_fill_segments(&self) -> bool {
        self.segments.iter().any(|(_, segment)| segment.is_changing() || segment.has_stripes_in_flight())
    }

    /// Returns the place that a filler names; its slot stands where others have their stripe.
    pub(super) fn place_of_filler(&self, slot: SegmentSlot, drive: usize) -> Place {
        let segment = self.segments.get(slot);
        Place {
            array: self.array_tag,
            segment: segment.id,
            zone: segment.zones[drive],
            stripe: StripeNumber(0),
            group: 0,
            piece: Piece::NONE,
            row: 0,
            role: Role::Filler,
        }
    }

    /// Erases a segment that nothing refers to.
    pub(in crate::log) fn reset_segment(&mut self, slot: SegmentSlot, fx: &mut Effects) {
        let segment = self.segments.get_mut(slot);
        assert!(segment.live_blocks == 0);
        assert!(segment.readers == 0);
        assert!(!segment.is_being_rebuilt, "a zone of segment {} is being rebuilt", segment.id);
        let mut zones_pending = 0;
        for (drive, zone) in segment.zones.iter().enumerate() {
            // What a drive lacks that went back holds a header which says so.
            if self.membership.has_zone(segment, drive) || self.membership.is_active(drive) {
                let part = u32::try_from(drive).expect("at most 32 members");
                fx.command(drive, *zone, Waiter::Reset { slot, part }, Op::Reset);
                zones_pending += 1;
            }
        }
        segment.enter(SegmentState::Resetting { zones_pending });
        if zones_pending == 0 {
            self.segment_erased(slot);
        }
    }

    /// A zone is empty again. One that has gone read-only or offline is given up; a drive that
    /// refuses for another reason is no longer believed.
    pub(in crate::log) fn on_reset(
        &mut self,
        slot: SegmentSlot,
        drive: usize,
        completion: &Completion,
        fx: &mut Effects,
    ) {
        match completion.status {
            // A reset may leave a zone with less capacity (ZNS 1.1 section 2.1.1.2.1): ask what it has.
            Status::Success if completion.report.is_empty() => {
                let part = u32::try_from(drive).expect("at most 32 members");
                let op = Op::Report { count: 1 };
                return fx.command(drive, completion.zone, Waiter::Reset { slot, part }, op);
            }
            Status::Success => {
                let capacity = self.config.geometry.zone_capacity_blocks;
                if completion.report.iter().any(|zone| zone.capacity < capacity) {
                    self.segments.get_mut(slot).zones_retired |= 1 << drive;
                }
            }
            Status::InvalidZoneStateTransition | Status::ZoneIsReadOnly | Status::ZoneIsOffline => {
                self.segments.get_mut(slot).zones_retired |= 1 << drive;
            }
            status => self.fail_member(drive, Blame::answer(completion.token, status), fx),
        }
        let SegmentState::Resetting { zones_pending } = &mut self.segments.get_mut(slot).state else {
            panic!("a reset zone of a segment that is not being erased");
        };
        assert!(*zones_pending > 0, "a zone is reset once");
        *zones_pending -= 1;
        if *zones_pending == 0 {
            self.segment_erased(slot);
        }
    }

    /// The first granule of a zone's window behind a block, or the block where there is no window.
    fn whole_granules(&self, slot: SegmentSlot, drive: usize, end: u32) -> u32 {
        let window = self.segments.get(slot).writer.as_ref().and_then(|writer| writer.zones[drive].window);
        window.map_or(end, |window| window.whole_granules(end))
    }

    /// True when a zone whose footer is written is not full yet.
    fn ends_short(&self, slot: SegmentSlot, drive: usize) -> bool {
        let segment = self.segments.get(slot);
        let window = segment.writer.as_ref().and_then(|writer| writer.zones[drive].window);
        let end = window.map_or(segment.layout.footer_end(), |window| window.write_pointer());
        end < self.config.geometry.zone_capacity_blocks
    }

    /// The zones of a segment are empty.
    fn segment_erased(&mut self, slot: SegmentSlot) {
        let stream = self.segments.get(slot).stream;
        self.segments.remove(slot);
        self.events.push_back(Event::SegmentErased(stream));
    }
}

/// Commits a zone with a random write area up to a block, as far as granules go. False when there is nothing to commit.
fn commit_zone(core: &mut Core, slot: SegmentSlot, drive: usize, end: u32, fx: &mut Effects) -> bool {
    let part = u32::try_from(drive).expect("at most 32 members");
    let segment = core.segments.get_mut(slot);
    let zone = segment.zones[drive];
    let progress = &mut segment.writer.as_mut().expect("a segment being sealed").zones[drive];
    let Some(end) = progress.window.as_mut().and_then(|window| window.commit(end)) else { return false };
    fx.command(drive, zone, Waiter::Footer { slot, part }, Op::Commit { end });
    true
}

fn write_fillers(core: &mut Core, slot: SegmentSlot, drive: usize, fx: &mut Effects) {
    let part = u32::try_from(drive).expect("at most 32 members");
    let place = core.place_of_filler(slot, drive);
    let segment = core.segments.get_mut(slot);
    let (layout, zone) = (segment.layout, segment.zones[drive]);
    let progress = &mut segment.writer.as_mut().expect("a segment being sealed").zones[drive];
    let first = progress.landed;
    let window_max = progress.window.as_ref().map_or(u32::MAX, Window::blocks_max);
    let per_command = core.config.geometry.transfer_blocks_max.min(CHUNK_BLOCKS_MAX).min(window_max);
    let last = (first + per_command / layout.chunk_blocks).min(layout.stripes);
    assert!(first < last, "a zone that is closed early lacks slots");
    progress.landed = last;
    progress.write_behind_durable(layout.slot_offset(first)..layout.slot_offset(last));
    let mut frames = core.frames.take_vec(((last - first) * layout.chunk_blocks) as usize);
    let slots = (first..last).flat_map(|slot| (0..layout.chunk_blocks).map(move |_| slot));
    for (slot, frame) in slots.zip(&mut frames) {
        let (stripe, group) = (StripeNumber::of_static_slot(slot), layout.group_of_slot(slot));
        oob::make_filler(frame, &Place { stripe, group, ..place });
    }
    core.counters.padding_blocks_written += frames.len() as u64;
    let op = Op::Write { offset: layout.slot_offset(first), frames };
    fx.command(drive, zone, Waiter::Footer { slot, part }, op);
}

fn write_footer(core: &mut Core, slot: SegmentSlot, drive: usize, fx: &mut Effects) {
    let part = u32::try_from(drive).expect("at most 32 members");
    let segment = core.segments.get_mut(slot);
    let layout = segment.layout;
    let (id, zone) = (segment.id, segment.zones[drive]);
    let progress = &mut segment.writer.as_mut().expect("a segment being sealed").zones[drive];
    let first = progress.footer_next;
    let window_max = progress.window.as_ref().map_or(u32::MAX, Window::blocks_max);
    let per_command = FOOTER_BLOCKS_PER_COMMAND.min(core.config.geometry.transfer_blocks_max).min(window_max);
    let last = (first + per_command).min(layout.footer_blocks());
    assert!(first < last, "a zone that is sealed lacks footer blocks");
    progress.footer_next = last;
    progress.write_behind_durable(layout.footer_offset() + first..layout.footer_offset() + last);
    let mut frames = core.frames.take_vec((last - first) as usize);
    let entries = &segment.writer.as_ref().expect("a segment being sealed").zones[drive].entries;
    for (index, frame) in (first..last).zip(&mut frames) {
        frame.oob.fill(0);
        let id = FooterId { array: core.array_tag, segment: id, zone, index };
        footer::encode(&id, &entries[layout.footer_entries(index)], &mut frame.data);
    }
    core.counters.metadata_blocks_written += frames.len() as u64;
    let op = Op::Write { offset: layout.footer_offset() + first, frames };
    fx.command(drive, zone, Waiter::Footer { slot, part }, op);
}
