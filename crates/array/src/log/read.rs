//! The read path: look up, read in runs, verify everything, rebuild what fails.
//!
//! Reads never wait for writes: the index points to durable copies only. A segment that is being
//! read is pinned by its `readers` and not erased.

use crate::log::blame::Blame;
use crate::log::clients::Clients;
use crate::log::core::Core;
use crate::log::index::groups::Residence;
use crate::log::load::Rebuild;
use crate::log::reader::Reader;
use crate::log::segment::SegmentSlot;
use crate::log::{Effects, Location, Name, Pba, Shard, Waiter};
use crate::request::{Outcome, Reply, RequestId};
use base::frame::Frame;
use base::units::Lba;
use zone::device::{Completion, Op, Status};
use zone::format::oob::{Kind, Place, Protected, Role, block_is_whole};

/// Commands of one request in flight at once; a large read must not keep others from the drives.
const PARTS_IN_FLIGHT_MAX: u32 = 64;
/// Blocks of one read command.
const PART_BLOCKS_MAX: u32 = 16;

/// A read on its way.
#[derive(Debug)]
pub struct ReadRequest {
    id: RequestId,
    lba: Lba,
    blocks: u32,
    /// Next block to look up.
    next: u32,
    /// Empty frames, taken when the request began.
    stock: Vec<Frame>,
    /// Blocks that are here.
    frames: Vec<Option<Frame>>,
    /// Commands and rebuilds under way.
    parts_pending: u32,
    /// The next block cannot be looked up yet.
    waits: bool,
    outcome: Outcome,
}

/// A run of blocks in one zone.
struct Run {
    drive: usize,
    location: Location,
    blocks: u32,
}

impl Shard {
    /// Starts a read. The front end has made sure that its frames can be had.
    pub(super) fn start_read(&mut self, id: RequestId, lba: Lba, blocks: u32, fx: &mut Effects) {
        debug_assert!(blocks > 0, "a read is about blocks");
        debug_assert!(
            lba.0 + u64::from(blocks) <= self.core.index.blocks(),
            "block {lba}+{blocks} of the volume"
        );
        let mut stock = Vec::with_capacity(blocks as usize);
        self.core.frames.take_many(blocks as usize, &mut stock);
        self.core.counters.user_blocks_read += u64::from(blocks);
        let frames = (0..blocks).map(|_| None).collect();
        let read = ReadRequest {
            id,
            lba,
            blocks,
            next: 0,
            stock,
            frames,
            parts_pending: 0,
            waits: false,
            outcome: Outcome::Done,
        };
        let slot = self.clients.reads.insert(read);
        self.advance_read(slot, fx);
    }

    /// Issues commands for the blocks not looked up yet; answers when all are here. Waits where the stripe table, which
    /// says what must be found there, was dropped.
    pub(super) fn advance_read(&mut self, slot: u32, fx: &mut Effects) {
        self.reader.dropped_tables.await_no_table(slot);
        // One more than there are, so that the read cannot be answered while it is being issued.
        self.clients.reads.get_mut(slot).parts_pending += 1;
        loop {
            let read = self.clients.reads.get_mut(slot);
            debug_assert!(read.next <= read.blocks, "block {} of {}", read.next, read.blocks);
            if read.next == read.blocks || read.parts_pending >= PARTS_IN_FLIGHT_MAX || read.waits {
                break;
            }
            let first = read.next;
            let lba = read.lba.plus(u64::from(first));
            match self.wish_for_read(slot, lba, fx) {
                Residence::Here => {}
                Residence::Lost => {
                    self.clients.skip_lost_group(&mut self.core, slot, lba);
                    continue;
                }
                Residence::Coming | Residence::Absent => {
                    let read = self.clients.reads.get_mut(slot);
                    read.waits = true;
                    read.parts_pending += 1;
                    break;
                }
            }
            let in_slot = self.area.read(lba);
            let is_lost = in_slot.is_some_and(|version| version.kind == Kind::Lost);
            match self.core.index.get(Name::Block(lba)) {
                None if is_lost || self.core.index.is_lost(lba) => {
                    self.core.counters.blocks_unreadable += 1;
                    let read = self.clients.reads.get_mut(slot);
                    read.outcome = Outcome::IoError;
                    read.next += 1;
                }
                None => {
                    let read = self.clients.reads.get_mut(slot);
                    let mut frame = read.stock.pop().expect("one frame per block");
                    match in_slot {
                        Some(version) => frame.data = version.frame.data,
                        None => frame.data.fill(0),
                    }
                    read.frames[first as usize] = Some(frame);
                    read.next += 1;
                }
                Some(pba) if !self.reader.has_table_of(&mut self.core, pba, fx) => {
                    self.reader.dropped_tables.await_table(slot);
                    break;
                }
                Some(pba) => self.read_run(slot, first, pba, fx),
            }
        }
        let read = self.clients.reads.get_mut(slot);
        assert!(read.parts_pending > 0, "a read that advances is not answered");
        read.parts_pending -= 1;
        self.clients.answer_read_if_done(&mut self.core, slot, fx);
    }

    /// Client reads that waited for a table go on.
    pub(super) fn resume_reads(&mut self, fx: &mut Effects) {
        if self.reader.dropped_tables.take_news() {
            for read in self.reader.dropped_tables.take_waiting() {
                self.advance_read(read, fx);
            }
        }
    }

    /// Continues a read: what its next block waited for has come, or not.
    pub(super) fn read_goes_on(&mut self, slot: u32, fx: &mut Effects) {
        let read = self.clients.reads.get_mut(slot);
        assert!(read.waits, "only a read that waits goes on");
        read.waits = false;
        self.read_part_done(slot, fx);
    }

    /// Reads the run of blocks that starts at `pba`, directly or by rebuilding.
    fn read_run(&mut self, slot: u32, first: u32, pba: Pba, fx: &mut Effects) {
        let run = self.clients.run_from(&self.core, slot, first, pba);
        let segment = self.core.segment_at(pba);
        let is_there = self.core.membership.has_zone(self.core.segments.get(segment), run.drive);
        self.clients.reads.get_mut(slot).next += run.blocks;
        // What is decoded of other drives need not wait.
        if !is_there || self.core.membership.is_stalled(run.drive) {
            self.rebuild_run(slot, first, segment, &run);
            return;
        }
        assert!(run.blocks > 0, "a run has blocks");
        let read = self.clients.reads.get_mut(slot);
        read.parts_pending += 1;
        let keep = read.stock.len() - run.blocks as usize;
        let frames = read.stock.split_off(keep);
        self.core.segments.get_mut(segment).pin();
        let op = Op::Read { offset: run.location.offset, frames };
        fx.command(run.drive, run.location.zone, Waiter::Read { slot, part: first }, op);
    }

    /// A drive has answered for the blocks from `part` on.
    pub(super) fn on_read(
        &mut self,
        slot: u32,
        part: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { token, status, frames, zone, offset, .. } = completion;
        if status == Status::DeviceGone {
            self.core.fail_member(drive, Blame::answer(token, status), fx);
        }
        let drive_index = base::units::DriveIndex::at(drive);
        let segment = self.core.segments.owner(drive_index, zone).expect("pinned while it is read");
        for (index, frame) in (0..).zip(frames) {
            let location = Location { drive: drive_index, zone, offset: offset + index };
            let block = part + index;
            let lba = self.clients.reads.get(slot).lba.plus(u64::from(block));
            if status == Status::Success && is_copy_of(&self.core, &frame, segment, location, lba) {
                self.clients.reads.get_mut(slot).frames[block as usize] = Some(frame);
            } else {
                self.core.note_damage(segment, location, &frame, status);
                self.clients.reads.get_mut(slot).stock.push(frame);
                let is_damaged = true;
                self.queue_rebuild(Rebuild {
                    read: slot,
                    block,
                    lba,
                    segment,
                    location,
                    blocks: 1,
                    is_damaged,
                });
            }
        }
        self.core.segments.get_mut(segment).unpin();
        self.read_part_done(slot, fx);
    }

    /// Notes that a read has one command or rebuild less to wait for.
    pub(super) fn read_part_done(&mut self, slot: u32, fx: &mut Effects) {
        let read = self.clients.reads.get_mut(slot);
        assert!(read.parts_pending > 0, "a part of a read is done once");
        read.parts_pending -= 1;
        self.advance_read(slot, fx);
    }

    /// A drive was away before it answered for the blocks from `part` on: they are decoded from others if that is possible.
    pub(super) fn on_read_stalled(
        &mut self,
        slot: u32,
        part: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { mut frames, zone, offset, .. } = completion;
        let location = Location { drive: base::units::DriveIndex::at(drive), zone, offset };
        let segment = self.core.segments.owner(location.drive, zone).expect("pinned until it is answered");
        let blocks = u32::try_from(frames.len()).expect("a run of blocks");
        self.clients.reads.get_mut(slot).stock.append(&mut frames);
        self.rebuild_run(slot, part, segment, &Run { drive, location, blocks });
        self.core.segments.get_mut(segment).unpin();
        self.read_part_done(slot, fx);
    }

    /// The drive of a run is not there: what each stripe has of it will be decoded.
    fn rebuild_run(&mut self, slot: u32, first: u32, segment: SegmentSlot, run: &Run) {
        let layout = self.core.segments.get(segment).layout;
        let mut done = 0;
        while done < run.blocks {
            let location = Location { offset: run.location.offset + done, ..run.location };
            let (_, row) = layout.slot_at(location.offset).expect("an address lies in a slot");
            let blocks = (layout.chunk_blocks - row).min(run.blocks - done);
            let block = first + done;
            let lba = self.clients.reads.get(slot).lba.plus(u64::from(block));
            let is_damaged = false;
            self.queue_rebuild(Rebuild { read: slot, block, lba, segment, location, blocks, is_damaged });
            done += blocks;
        }
    }

    /// Blocks that cannot be read directly will be decoded from the rest of their stripe.
    pub(super) fn queue_rebuild(&mut self, rebuild: Rebuild) {
        self.core.segments.get_mut(rebuild.segment).pin();
        self.clients.reads.get_mut(rebuild.read).parts_pending += 1;
        self.reader.degraded.push_back(rebuild);
    }
}

impl Clients {
    /// Nobody knows where the blocks of a group lie.
    fn skip_lost_group(&mut self, core: &mut Core, slot: u32, lba: Lba) {
        let end = core.group_end(lba);
        let read = self.reads.get_mut(slot);
        read.outcome = Outcome::IoError;
        let blocks = u32::try_from(end - lba.0).map_or(read.blocks, |blocks| blocks.min(read.blocks));
        read.next = (read.next + blocks).min(read.blocks);
        core.counters.blocks_unreadable += u64::from(blocks);
    }

    /// Returns the run of the request's blocks that follow one another on the media.
    fn run_from(&self, core: &Core, slot: u32, first: u32, pba: Pba) -> Run {
        let read = self.reads.get(slot);
        let location = core.pba.unpack(pba);
        let blocks_max =
            PART_BLOCKS_MAX.min(core.config.geometry.transfer_blocks_max).min(read.blocks - first);
        let end = run_end(core, pba);
        let mut blocks = 1;
        while blocks < blocks_max && location.offset + blocks < end {
            let lba = read.lba.plus(u64::from(first + blocks));
            let name = Name::Block(lba);
            let Some(next) = (core.index.can_tell(name)).then(|| core.index.get(name)).flatten() else {
                break;
            };
            if core.pba.unpack(next) != (Location { offset: location.offset + blocks, ..location }) {
                break;
            }
            blocks += 1;
        }
        Run { drive: location.drive.index(), location, blocks }
    }

    /// A rebuilt block arrives, or none when too little of its stripe was left.
    pub(super) fn on_rebuilt(&mut self, rebuild: &Rebuild, rebuilt: Option<&Frame>) {
        let read = self.reads.get_mut(rebuild.read);
        match rebuilt {
            Some(rebuilt) => {
                let mut frame = read.stock.pop().expect("one frame per block");
                frame.set_data(&rebuilt.data);
                read.frames[rebuild.block as usize] = Some(frame);
            }
            None => read.outcome = Outcome::IoError,
        }
    }

    fn answer_read_if_done(&mut self, core: &mut Core, slot: u32, fx: &mut Effects) {
        let read = self.reads.get(slot);
        if read.parts_pending > 0 || read.next < read.blocks {
            return;
        }
        let ReadRequest { id, blocks, mut stock, frames, outcome, .. } = self.reads.remove(slot);
        core.frames.give_many(&mut stock);
        let mut frames: Vec<Frame> = frames.into_iter().flatten().collect();
        assert!(outcome == Outcome::IoError || frames.len() == blocks as usize, "a read has all its blocks");
        if outcome == Outcome::IoError {
            core.frames.give_many(&mut frames);
        }
        fx.replies.push(Reply { id, outcome, frames });
    }
}

impl Reader {
    /// True when the stripe table of the group that holds an address is there.
    fn has_table_of(&mut self, core: &mut Core, pba: Pba, fx: &mut Effects) -> bool {
        let segment = core.segment_at(pba);
        let offset = core.pba.unpack(pba).offset;
        match core.segments.get(segment).layout.slot_at(offset) {
            Some((slot, _)) => self.has_tables(core, segment, slot..slot + 1, fx),
            None => true,
        }
    }
}

impl Core {
    /// Returns the place that the metadata of the block at a location must name; `None` where no stripe lies.
    pub(super) fn place_at(&self, segment_slot: SegmentSlot, location: Location) -> Option<Place> {
        let segment = self.segments.get(segment_slot);
        let drive = location.drive.index();
        let (slot, row) = segment.layout.slot_at(location.offset)?;
        let stripe = segment.stripe_in_slot(drive, slot)?;
        let piece = segment.layout.piece_of(stripe, drive);
        Some(Place {
            array: self.array_tag,
            segment: segment.id,
            zone: location.zone,
            stripe,
            group: segment.layout.group_of(stripe),
            piece,
            row: u8::try_from(row).expect("at most 16 blocks"),
            role: Role::of(piece, &segment.layout.code),
        })
    }
}

/// Returns where a run must end: with its group, if the stripe table of the next one may not be there.
fn run_end(core: &Core, pba: Pba) -> u32 {
    let segment = core.segments.get(core.segment_at(pba));
    let layout = &segment.layout;
    match layout.slot_at(core.pba.unpack(pba).offset) {
        Some((slot, _)) if segment.has_dropped_table() => {
            layout.slot_offset(layout.group_start(layout.group_of_slot(slot) + 1))
        }
        _ => u32::MAX,
    }
}

/// True when the frame is what was written at this place, whole, and holds this block.
fn is_copy_of(core: &Core, frame: &Frame, segment: SegmentSlot, location: Location, lba: Lba) -> bool {
    let Some(place) = core.place_at(segment, location) else { return false };
    block_is_whole(frame, &place)
        && Protected::from_bytes(&frame.oob)
            .is_some_and(|protected| protected.kind == Kind::User && protected.lba == lba.0)
}
