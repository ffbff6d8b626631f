//! Headers: what becomes durable before a segment takes stripes.
//!
//! ```text
//!   Zone Append, Zone Write   write
//!   area mode                 open with area ─> write marker ─> write ─> commit all but the marker
//!                             a drive that gives no area: write, marker included
//! ```
//! A zone whose write pointer never moved may be empty after a power failure, whatever its window held. So a header in a
//! window is committed before anything relies on it, with the rest of its granule. Behind that, the window holds a marker
//! before anything else is in it: a window without any block has lost what it held (`window.rs`). Data begin behind the marker.
//! The marker is durable before its header is written: a torn header would leave what a window does that has lost its marker.

use crate::log::Effects;
use crate::log::Waiter;
use crate::log::core::{Core, Event};
use crate::log::segment::{SegmentSlot, SegmentState};
use crate::log::window::Window;
use crate::log::writer::HeaderStage;
use base::frame::Frame;
use base::units::{BLOCK_BYTES, OOB_BYTES};
use std::ops::Range;
use zone::device::{Completion, Op, Status};
use zone::format::header::{Blank, MARKER_BLOCKS, SegmentHeader, WriteMode};

impl Core {
    /// The header that describes a segment; takes the segment's list of zones, to be put back.
    pub(super) fn header_of(&mut self, slot: SegmentSlot) -> SegmentHeader {
        let segment = self.segments.get_mut(slot);
        let code = segment.layout.code;
        SegmentHeader {
            array: self.config.array,
            segment: segment.id,
            sequence: segment.created_at,
            member: 0,
            blank: Blank::No,
            data_count: u8::try_from(code.data_count()).expect("at most 32 members"),
            parity_count: u8::try_from(code.parity_count()).expect("at most 32 members"),
            level: segment.layout.level.code(),
            mode: segment.mode,
            is_write_area: segment.is_write_area,
            stream: segment.stream,
            header_blocks: segment.layout.header_blocks,
            chunk_blocks: segment.layout.chunk_blocks,
            group_stripes: segment.layout.group_stripes,
            stripes: segment.layout.stripes,
            zones: std::mem::take(&mut segment.zones),
        }
    }

    /// A header is durable. Data follows only when all are: a segment with a zone still empty holds
    /// nothing, which is how recovery tells one being made or erased from one that counts.
    pub(in crate::log) fn on_header(
        &mut self,
        slot: SegmentSlot,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let has_window = self.segments.writer_mut(slot).zones[drive].window.is_some();
        if has_window && self.header_goes_on(slot, drive, &completion, fx) {
            self.frames.give_vec(completion.frames);
            return;
        }
        self.frames.give_vec(completion.frames);
        if completion.status != Status::Success {
            self.write_failed(slot, drive, completion.status, fx);
        }
        let segment = self.segments.get_mut(slot);
        let SegmentState::Opening { headers_pending } = &mut segment.state else {
            panic!("a header of a segment that is not opening");
        };
        assert!(*headers_pending > 0, "a header is durable once");
        *headers_pending -= 1;
        if *headers_pending == 0 {
            headers_durable(self, slot, fx);
        }
    }

    /// The next step of a header in area mode: the zone is opened with an area, the marker is written, then the header, and its
    /// granule is committed. False when that was the last one, or failed. A zone that gets no area is written without.
    fn header_goes_on(
        &mut self,
        slot: SegmentSlot,
        drive: usize,
        completion: &Completion,
        fx: &mut Effects,
    ) -> bool {
        let part = u32::try_from(drive).expect("at most 32 members");
        let is_refused = matches!(completion.status, Status::NoAreaLeft | Status::InvalidZoneOperation);
        let segment = self.segments.get_mut(slot);
        let header_blocks = segment.layout.header_blocks;
        let committed_blocks = header_blocks - MARKER_BLOCKS;
        let progress = &mut segment.writer.as_mut().expect("a segment being opened").zones[drive];
        match progress.header {
            HeaderStage::Opening if is_refused => {
                (progress.header, progress.window) = (HeaderStage::Writing, None);
                self.write_part(slot, drive, 0..header_blocks, fx);
                true
            }
            HeaderStage::Opening if completion.status == Status::Success => {
                progress.header = HeaderStage::Marking;
                self.write_part(slot, drive, committed_blocks..header_blocks, fx);
                true
            }
            HeaderStage::Marking if completion.status == Status::Success => {
                progress.header = HeaderStage::Writing;
                self.write_part(slot, drive, 0..committed_blocks, fx);
                true
            }
            HeaderStage::Writing if completion.status == Status::Success => {
                let end = progress.window.as_mut().and_then(|window| window.commit(committed_blocks));
                progress.header = HeaderStage::Committing;
                if let Some(end) = end {
                    fx.command(drive, completion.zone, Waiter::Header { slot, part }, Op::Commit { end });
                }
                end.is_some()
            }
            HeaderStage::Opening | HeaderStage::Marking | HeaderStage::Writing | HeaderStage::Committing => {
                false
            }
        }
    }

    fn write_part(&mut self, slot: SegmentSlot, drive: usize, blocks: Range<u32>, fx: &mut Effects) {
        let mut header = self.header_of(slot);
        write_header(self, &header, (slot, drive), blocks, fx);
        std::mem::swap(&mut self.segments.get_mut(slot).zones, &mut header.zones);
    }

    /// Of the blocks before the data region of a member's zone, these ones: the header, and in area mode what completes its
    /// granule, and the marker.
    pub(super) fn header_frames(
        &mut self,
        header: &SegmentHeader,
        drive: usize,
        blocks: Range<u32>,
    ) -> Vec<Frame> {
        assert!(blocks.end <= header.header_blocks, "{blocks:?} lie before the data region");
        let mut frames = self.frames.take_vec(blocks.len());
        let member = u8::try_from(drive).expect("at most 32 members");
        for (offset, frame) in blocks.zip(&mut frames) {
            (frame.data, frame.oob) = ([0; BLOCK_BYTES], [0; OOB_BYTES]);
            if offset == 0 || header.mode == WriteMode::Area && offset == header.committed_blocks() {
                header.encode(member, &mut frame.data);
            }
        }
        frames
    }
}

/// Begins the headers of a segment on every drive that has its zone.
pub(super) fn write_headers(core: &mut Core, slot: SegmentSlot, fx: &mut Effects) {
    let mut header = core.header_of(slot);
    // Drives that came meanwhile may have none: then all of the segment's zones are written without.
    let areas = core.config.usable_areas().filter(|_| header.mode == WriteMode::Area);
    let mut headers_pending = 0;
    for (drive, zone) in header.zones.iter().enumerate() {
        if !core.membership.has_zone(core.segments.get(slot), drive) {
            continue;
        }
        headers_pending += 1;
        if let Some(areas) = areas {
            let part = u32::try_from(drive).expect("at most 32 members");
            let window = Window::new(areas, 0);
            core.segments.writer_mut(slot).zones[drive].window = Some(window);
            fx.command(drive, *zone, Waiter::Header { slot, part }, Op::OpenWithArea);
        } else {
            write_header(core, &header, (slot, drive), 0..header.header_blocks, fx);
        }
    }
    std::mem::swap(&mut core.segments.get_mut(slot).zones, &mut header.zones);
    core.segments.get_mut(slot).enter(SegmentState::Opening { headers_pending });
    // All members failed while it waited for its turn: who waits for it is told so by its stripes.
    if headers_pending == 0 {
        headers_durable(core, slot, fx);
    }
}

/// A segment is open, and the next one may begin.
fn headers_durable(core: &mut Core, slot: SegmentSlot, fx: &mut Effects) {
    core.segments.get_mut(slot).enter(SegmentState::Open);
    core.events.push_back(Event::SegmentOpened(slot));
    if let Some(next) = core.segments.end_opening(slot) {
        write_headers(core, next, fx);
    }
}

/// Writes these of the blocks before the data region of a zone.
fn write_header(
    core: &mut Core,
    header: &SegmentHeader,
    (slot, drive): (SegmentSlot, usize),
    blocks: Range<u32>,
    fx: &mut Effects,
) {
    let part = u32::try_from(drive).expect("at most 32 members");
    let offset = blocks.start;
    let frames = core.header_frames(header, drive, blocks);
    core.counters.metadata_blocks_written += frames.len() as u64;
    fx.command(drive, header.zones[drive], Waiter::Header { slot, part }, Op::Write { offset, frames });
}
