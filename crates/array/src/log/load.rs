//! Loading stripes: reading several pieces, verifying each, and decoding those that are missing.
//!
//! One machinery for degraded reads, for repairing damaged blocks, for the collector, and for rebuilding
//! a member. At first only those pieces are read that the wanted ones are or can be decoded from; the others
//! follow when one of them turns out to be damaged. What is not whole then is read once more, block by block, if it
//! is needed: a long read fails for one bad block, and a read may lie once (ADR 11).

use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::gc::Collector;
use crate::log::gc::Move;
use crate::log::index::Name;
use crate::log::index::groups::IndexGroup;
use crate::log::off_load::OffLoad;
use crate::log::segment::{Segment, SegmentSlot};
use crate::log::{Effects, LOADS_MAX, Location, Pba, Shard, Waiter, row};
use base::checksum::crc32c;
use base::erasure::{ErasureCode, Piece, PieceSet};
use base::frame::Frame;
use base::units::{DriveIndex, Lba};
use zone::device::{Completion, Op, Status};
use zone::format::oob::{self, Kind, Protected, block_is_whole};
use zone::stripe::StripeNumber;

/// Blocks of one chunk that a read waits for.
#[derive(Clone, Copy, Debug)]
pub struct Rebuild {
    /// The read.
    pub read: u32,
    /// Index of the first of these blocks in the read.
    pub block: u32,
    /// LBA that the first must have.
    pub lba: Lba,
    /// Segment they lie in, pinned.
    pub segment: SegmentSlot,
    /// Place of the first.
    pub location: Location,
    /// Count of the blocks, which follow one another both in the read and in the chunk.
    pub blocks: u32,
    /// Their drive has answered, and not with them: it is not asked again. Otherwise it is not there, or away for a while.
    pub is_damaged: bool,
}

impl Rebuild {
    /// Returns the rebuild of one of the blocks.
    fn one(&self, index: u32) -> Rebuild {
        assert!(index < self.blocks, "block {index} of {}", self.blocks);
        Rebuild {
            block: self.block + index,
            lba: self.lba.plus(u64::from(index)),
            location: Location { offset: self.location.offset + index, ..self.location },
            blocks: 1,
            ..*self
        }
    }
}

/// Purpose of loading the stripe.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// A read wants blocks of one piece.
    Rebuild { rebuild: Rebuild, piece: Piece },
    /// The collector wants all data.
    Move,
    /// Recovery left it weak: all data moves.
    Rescue,
    /// A group of the index lies in one of its blocks.
    Group { group: IndexGroup, piece: Piece, wanted_by: GroupReader },
}

/// Reader of a mapping block.
#[derive(Clone, Copy, Debug)]
pub enum GroupReader {
    /// The index wants the group in memory.
    Index,
    /// The mapping block is copied from here, and the group stays where it is.
    Copy(Pba),
}

/// A piece of a stripe being loaded.
#[derive(Debug, Default)]
struct Loaded {
    /// Set when the piece was asked for, or will not be.
    asked: bool,
    /// Frames, one per row, once its drive has answered; none when the piece is on no active drive.
    frames: Vec<Frame>,
    /// Rows that are what was written, one bit each.
    rows_good: u32,
}

impl Loaded {
    /// The frame of a row that is whole.
    fn row(&self, row: u32) -> Option<&Frame> {
        (self.rows_good >> row & 1 == 1).then(|| &self.frames[row as usize])
    }
}

/// A stripe being loaded.
#[derive(Debug)]
pub struct Load {
    segment: SegmentSlot,
    stripe: StripeNumber,
    row: u32,
    rows: u32,
    purpose: Purpose,
    /// Pieces that must be had, read or decoded.
    wanted: PieceSet<Piece>,
    pieces: Vec<Loaded>,
    pieces_pending: u32,
    /// Set when what was not whole has been read once more.
    read_again: bool,
}

impl Load {
    /// Pieces of which a row is whole.
    fn good(&self, row: u32) -> PieceSet<Piece> {
        (0..)
            .map(Piece)
            .zip(&self.pieces)
            .filter(|(_, piece)| piece.row(row).is_some())
            .map(|(piece, _)| piece)
            .collect()
    }

    /// True when what is wanted is here or can be decoded, in every row.
    fn is_complete(&self, code: &ErasureCode) -> bool {
        (0..self.rows).all(|row| {
            let good = self.good(row);
            self.wanted.iter().all(|piece| good.contains(piece) || code.sources(piece, good).is_some())
        })
    }
}

/// The pieces to read when `there` can be: those wanted, and what the others are decoded from.
fn pieces_to_read(code: &ErasureCode, wanted: PieceSet<Piece>, there: PieceSet<Piece>) -> PieceSet<Piece> {
    let needed = |piece: Piece| match there.contains(piece) {
        true => [piece].into_iter().collect(),
        false => code.sources(piece, there).unwrap_or(there),
    };
    wanted.iter().flat_map(|piece| needed(piece).iter()).collect()
}

impl Shard {
    /// Starts rebuilds that wait, as many as may run at once.
    pub(super) fn start_rebuilds(&mut self, fx: &mut Effects) {
        for _ in 0..self.reader.degraded.len() {
            if self.reader.degraded_loads >= LOADS_MAX {
                return;
            }
            let Some(rebuild) = self.reader.degraded.pop_front() else { return };
            let place = self.core.segments.get(rebuild.segment).layout.slot_at(rebuild.location.offset);
            if let Some((at, _)) = place
                && !self.reader.has_tables(&mut self.core, rebuild.segment, at..at + 1, fx)
            {
                self.reader.degraded.push_back(rebuild);
                continue;
            }
            let segment = self.core.segments.get(rebuild.segment);
            let drive = rebuild.location.drive.index();
            let stripe = place.and_then(|(slot, row)| Some((segment.stripe_in_slot(drive, slot)?, row)));
            self.reader.degraded_loads += 1;
            let Some((stripe, row)) = stripe else {
                (0..rebuild.blocks).for_each(|index| self.block_rebuilt(&rebuild.one(index), None));
                self.end_rebuild(&rebuild, fx);
                continue;
            };
            let piece = segment.layout.piece_of(stripe, drive);
            let mut pieces: Vec<Loaded> = (0..segment.layout.members()).map(|_| Loaded::default()).collect();
            pieces[piece.index()].asked = rebuild.is_damaged;
            let purpose = Purpose::Rebuild { rebuild, piece };
            let wanted: PieceSet<Piece> = [piece].into_iter().collect();
            let damaged = if rebuild.is_damaged { wanted } else { PieceSet::EMPTY };
            let there = pieces_at_hand(&self.core, segment, (stripe, wanted), damaged);
            let segment = rebuild.segment;
            let rows = rebuild.blocks;
            let load = Load {
                segment,
                stripe,
                row,
                rows,
                purpose,
                wanted,
                pieces,
                pieces_pending: 0,
                read_again: false,
            };
            let slot = self.reader.loads.insert(load);
            self.read_pieces(slot, pieces_to_read(&self.core.config.code(), wanted, there), fx);
        }
    }

    /// Reads the data of a stripe for the collector.
    pub(super) fn start_move_load(
        &mut self,
        segment_slot: SegmentSlot,
        stripe: StripeNumber,
        fx: &mut Effects,
    ) {
        let data = PieceSet::first(self.core.config.code().data_count());
        self.load_chunks_of(segment_slot, stripe, Purpose::Move, data, fx);
    }

    /// Reads the data of a stripe that recovery could not complete.
    pub(super) fn start_rescue_load(
        &mut self,
        segment_slot: SegmentSlot,
        stripe: StripeNumber,
        fx: &mut Effects,
    ) {
        let data = PieceSet::first(self.core.config.code().data_count());
        self.load_chunks_of(segment_slot, stripe, Purpose::Rescue, data, fx);
    }

    /// Reads the mapping block of a group. Its segment is not erased meanwhile: should the block be copied, what lies
    /// here stays until it was read.
    pub(super) fn start_group_load(
        &mut self,
        group: IndexGroup,
        pba: Pba,
        wanted_by: GroupReader,
        fx: &mut Effects,
    ) {
        let Location { drive, offset, .. } = self.core.pba.unpack(pba);
        let slot = self.core.segment_at(pba);
        let segment = self.core.segments.get_mut(slot);
        segment.pin();
        let layout = segment.layout;
        let (at, row) = layout.slot_at(offset).expect("an address lies in a slot");
        assert!(row < layout.chunk_blocks, "row {row} of {}", layout.chunk_blocks);
        let stripe = segment.stripe_in_slot(drive.index(), at).expect("an address lies in a stripe");
        let piece = layout.piece_of(stripe, drive.index());
        let wanted = [piece].into_iter().collect();
        let there =
            pieces_at_hand(&self.core, self.core.segments.get(slot), (stripe, wanted), PieceSet::EMPTY);
        let load = Load {
            segment: slot,
            stripe,
            row,
            rows: 1,
            purpose: Purpose::Group { group, piece, wanted_by },
            wanted,
            pieces: (0..layout.members()).map(|_| Loaded::default()).collect(),
            pieces_pending: 0,
            read_again: false,
        };
        let slot = self.reader.loads.insert(load);
        self.read_pieces(slot, pieces_to_read(&layout.code, wanted, there), fx);
    }

    /// Reads the chunks of a stripe that some pieces are, or are decoded from.
    fn load_chunks_of(
        &mut self,
        segment_slot: SegmentSlot,
        stripe: StripeNumber,
        purpose: Purpose,
        wanted: PieceSet<Piece>,
        fx: &mut Effects,
    ) {
        let segment = self.core.segments.get_mut(segment_slot);
        segment.pin();
        let layout = segment.layout;
        let segment = self.core.segments.get(segment_slot);
        let there = pieces_at_hand(&self.core, segment, (stripe, wanted), PieceSet::EMPTY);
        let pieces = (0..layout.members()).map(|_| Loaded::default()).collect();
        let load = Load {
            segment: segment_slot,
            stripe,
            row: 0,
            rows: layout.chunk_blocks,
            purpose,
            wanted,
            pieces,
            pieces_pending: 0,
            read_again: false,
        };
        let slot = self.reader.loads.insert(load);
        self.read_pieces(slot, pieces_to_read(&layout.code, wanted, there), fx);
    }

    /// Reads those of the pieces that were not asked for yet.
    fn read_pieces(&mut self, slot: u32, wanted: PieceSet<Piece>, fx: &mut Effects) {
        // One more than there are, so that the load cannot finish before all are asked for.
        self.reader.loads.get_mut(slot).pieces_pending += 1;
        for piece in wanted.iter() {
            let load = self.reader.loads.get_mut(slot);
            if std::mem::replace(&mut load.pieces[piece.index()].asked, true) {
                continue;
            }
            let segment = self.core.segments.get(load.segment);
            let drive = segment.layout.drive_of(load.stripe, piece);
            let at = segment.slot_of_stripe(drive, load.stripe);
            let Some(at) = at.filter(|_| self.core.membership.has_zone(segment, drive)) else { continue };
            let frames = self.core.frames.take_vec(load.rows as usize);
            load.pieces_pending += 1;
            let op = Op::Read { offset: segment.layout.slot_offset(at) + load.row, frames };
            fx.command(drive, segment.zones[drive], Waiter::Load { slot, piece }, op);
        }
        self.piece_loaded(slot, fx);
    }

    /// Reads once more, one by one, the blocks that are not whole.
    fn read_pieces_again(&mut self, slot: u32, fx: &mut Effects) {
        let load = self.reader.loads.get_mut(slot);
        assert!(!load.read_again, "blocks that are not whole are read twice at most");
        load.read_again = true;
        load.pieces_pending += 1;
        let Load { segment, stripe, row: first, rows, .. } = *load;
        let there = pieces_there(&self.core, self.core.segments.get(segment), stripe);
        for (piece, row) in there.iter().flat_map(|piece| (0..rows).map(move |row| (piece, row))) {
            let load = self.reader.loads.get_mut(slot);
            if load.pieces[piece.index()].frames.is_empty() || load.pieces[piece.index()].row(row).is_some() {
                continue;
            }
            load.pieces_pending += 1;
            let segment = self.core.segments.get(segment);
            let drive = segment.layout.drive_of(stripe, piece);
            let at = segment.slot_of_stripe(drive, stripe).expect("it is there");
            let frames = self.core.frames.take_vec(1);
            let op = Op::Read { offset: segment.layout.slot_offset(at) + first + row, frames };
            fx.command(drive, segment.zones[drive], Waiter::Load { slot, piece }, op);
        }
        self.piece_loaded(slot, fx);
    }

    /// A drive has answered for one piece: for all rows that are wanted, or, the second time, for one of them.
    pub(super) fn on_load(
        &mut self,
        slot: u32,
        piece: Piece,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { token, status, mut frames, zone, offset, .. } = completion;
        if status == Status::DeviceGone {
            self.core.fail_member(drive, Blame::answer(token, status), fx);
        }
        let Load { segment, row: first, rows, .. } = *self.reader.loads.get(slot);
        let layout = self.core.segments.get(segment).layout;
        // What a crash tore is no damage.
        let counts = !matches!(self.reader.loads.get(slot).purpose, Purpose::Rescue);
        let mut loaded = std::mem::take(&mut self.reader.loads.get_mut(slot).pieces[piece.index()]);
        let is_first = loaded.frames.is_empty();
        for (offset, frame) in (offset..).zip(&frames) {
            let (_, row) = layout.slot_at(offset).expect("a chunk was asked for");
            let location = Location { drive: DriveIndex::at(drive), zone, offset };
            let whole =
                self.core.place_at(segment, location).is_some_and(|place| block_is_whole(frame, &place));
            let good = whole && status == Status::Success;
            loaded.rows_good |= u32::from(good) << (row - first);
            if !good && is_first && counts {
                self.core.note_damage(segment, location, frame, status);
            }
        }
        if loaded.frames.is_empty() {
            assert!(frames.len() == rows as usize, "the first answer is for all rows");
            loaded.frames = frames;
        } else {
            assert!(frames.len() == 1, "the second answer is for one row");
            let (_, row) = layout.slot_at(offset).expect("a chunk was asked for");
            std::mem::swap(&mut loaded.frames[(row - first) as usize], &mut frames[0]);
            self.core.frames.give_vec(frames);
        }
        self.reader.loads.get_mut(slot).pieces[piece.index()] = loaded;
        self.piece_loaded(slot, fx);
    }

    /// A drive was away before it answered for a piece: others are asked first, and it once more if that does not suffice.
    pub(super) fn on_load_stalled(
        &mut self,
        (slot, piece): (u32, Piece),
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { frames, zone, offset, .. } = completion;
        let load = self.reader.loads.get_mut(slot);
        if load.read_again {
            return fx.command(drive, zone, Waiter::Load { slot, piece }, Op::Read { offset, frames });
        }
        assert!(load.pieces[piece.index()].frames.is_empty(), "the first answer for a piece");
        load.pieces[piece.index()].asked = false;
        self.core.frames.give_vec(frames);
        self.piece_loaded(slot, fx);
    }

    /// Notes that there is one piece less to wait for. When what was read does not suffice, the others are asked for,
    /// then, once more, whatever is not whole.
    fn piece_loaded(&mut self, slot: u32, fx: &mut Effects) {
        let load = self.reader.loads.get_mut(slot);
        assert!(load.pieces_pending > 0, "a piece of a stripe is loaded once");
        load.pieces_pending -= 1;
        if load.pieces_pending > 0 {
            return;
        }
        let code = self.core.config.code();
        let (segment, stripe) = (self.core.segments.get(load.segment), load.stripe);
        let asked: PieceSet<Piece> = (0..)
            .map(Piece)
            .zip(&load.pieces)
            .filter(|(_, piece)| piece.asked)
            .map(|(piece, _)| piece)
            .collect();
        let left = code.pieces().without(asked);
        let at_hand = left.without(pieces_stalled(&self.core, segment, stripe));
        if load.is_complete(&code) {
            self.finish_load(slot, fx);
        } else if !left.is_empty() {
            self.read_pieces(slot, if at_hand.is_empty() { left } else { at_hand }, fx);
        } else if !load.read_again {
            self.read_pieces_again(slot, fx);
        } else {
            self.finish_load(slot, fx);
        }
    }

    fn finish_load(&mut self, slot: u32, fx: &mut Effects) {
        let mut load = self.reader.loads.remove(slot);
        assert!(load.pieces_pending == 0, "nothing of a stripe is on its way when its load ends");
        match load.purpose {
            Purpose::Rebuild { rebuild, piece } => {
                for row in 0..load.rows {
                    let rebuilt = had_row(&mut self.core, &load, piece, row);
                    self.block_rebuilt(&rebuild.one(row), rebuilt);
                }
                give_pieces(&mut self.core, &mut load);
                self.end_rebuild(&rebuild, fx);
            }
            Purpose::Group { group, piece, wanted_by } => {
                self.off_load.end_group_load(&mut self.core, &mut load, group, piece, wanted_by);
            }
            Purpose::Move | Purpose::Rescue => {
                let is_whole = self.collector.collect_moves(&mut self.core, &mut load);
                // What could be read when recovery decided to keep it went with a member since.
                let is_rescue = matches!(load.purpose, Purpose::Rescue);
                self.rescue.is_void |= is_rescue && !is_whole && self.core.membership.has_lost_since_mount();
                give_pieces(&mut self.core, &mut load);
                self.core.segments.get_mut(load.segment).unpin();
                if matches!(load.purpose, Purpose::Move) {
                    self.collector.gc_loaded();
                }
            }
        }
    }

    /// Hands a block to its read, or nothing when too little was left; it is written elsewhere when its drive is
    /// there but it is damaged.
    fn block_rebuilt(&mut self, rebuild: &Rebuild, rebuilt: Option<Frame>) {
        let protected = rebuilt.as_ref().and_then(|frame| Protected::from_bytes(&frame.oob));
        let wanted = |protected: &Protected| protected.kind == Kind::User && protected.lba == rebuild.lba.0;
        let right = protected.filter(wanted);
        match (&rebuilt, right) {
            (Some(frame), Some(protected)) => {
                let drive = rebuild.location.drive.index();
                let segment = self.core.segments.get(rebuild.segment);
                if rebuild.is_damaged && self.core.membership.has_zone(segment, drive) {
                    self.collector.queue_repair(&mut self.core, rebuild, frame, protected);
                } else {
                    self.core.counters.blocks_read_degraded += 1;
                }
                self.clients.on_rebuilt(rebuild, Some(frame));
            }
            _ => {
                self.core.counters.blocks_unreadable += 1;
                self.clients.on_rebuilt(rebuild, None);
            }
        }
        if let Some(frame) = rebuilt {
            self.core.frames.give(frame);
        }
    }

    /// All blocks of a rebuild are handed over.
    fn end_rebuild(&mut self, rebuild: &Rebuild, fx: &mut Effects) {
        self.core.segments.get_mut(rebuild.segment).unpin();
        assert!(self.reader.degraded_loads > 0, "a degraded read ends once");
        self.reader.degraded_loads -= 1;
        self.read_part_done(rebuild.read, fx);
    }
}

impl OffLoad {
    /// The mapping block of a group was read, or cannot be.
    fn end_group_load(
        &mut self,
        core: &mut Core,
        load: &mut Load,
        group: IndexGroup,
        piece: Piece,
        wanted_by: GroupReader,
    ) {
        let decoded = match load.pieces[piece.index()].row(0) {
            Some(_) => None,
            None => decode_row(core, load, piece, 0),
        };
        let drive = core.segments.get(load.segment).layout.drive_of(load.stripe, piece);
        // A drive that is away for a while was not asked.
        let was_read = !load.pieces[piece.index()].frames.is_empty();
        let has_zone = core.membership.has_zone(core.segments.get(load.segment), drive);
        let is_damaged = decoded.is_some() && was_read && has_zone;
        let is_it = |frame: &&Frame| {
            Protected::from_bytes(&frame.oob)
                .is_some_and(|protected| protected.kind == Kind::Mapping && protected.lba == group.lba())
        };
        let frame = decoded.as_ref().or(load.pieces[piece.index()].row(0)).filter(is_it);
        let block = frame.map(|frame| &frame.data);
        match wanted_by {
            GroupReader::Index => core.group_loaded(group, block, is_damaged),
            GroupReader::Copy(from) => self.group_read_to_copy(core, group, from, block),
        }
        if let Some(frame) = decoded {
            core.frames.give(frame);
        }
        give_pieces(core, load);
        core.segments.get_mut(load.segment).unpin();
    }
}

impl Collector {
    /// A damaged block was rebuilt: its contents move to another segment. Best effort: when the
    /// collector has its hands full, the next read repairs it.
    fn queue_repair(&mut self, core: &mut Core, rebuild: &Rebuild, frame: &Frame, protected: Protected) {
        if self.moves.len() >= core.moves_waiting_max() || self.is_writing_off(core, rebuild.segment) {
            return;
        }
        let mut copy = core.frames.take();
        copy.set_data(&frame.data);
        let data_crc = crc32c(&copy.data);
        let from = core.pba.pack(rebuild.location);
        let name = Name::Block(rebuild.lba);
        self.moves.push_back(Move { frame: copy, protected, name, from, data_crc, repaired: true });
    }

    /// Queues the live data blocks of a loaded stripe for moving; false when some cannot be decoded. Those stay
    /// where they are, and the collector notices by the segment's live blocks.
    fn collect_moves(&mut self, core: &mut Core, load: &mut Load) -> bool {
        let data = core.config.code().data_pieces();
        let mut decoded = Vec::new();
        let mut is_whole = true;
        for (piece, row) in data.clone().flat_map(|piece| (0..load.rows).map(move |row| (piece, row))) {
            if load.pieces[piece.index()].row(row).is_some() {
                continue;
            }
            // A drive that is away for a while was not asked.
            let was_read = !load.pieces[piece.index()].frames.is_empty();
            match decode_row(core, load, piece, row) {
                Some(frame) => decoded.push((piece, row, frame, was_read)),
                None => is_whole = false,
            }
        }
        for piece in data {
            if load.pieces[piece.index()].frames.is_empty() {
                continue;
            }
            let mut frames = std::mem::take(&mut load.pieces[piece.index()].frames);
            for (row, frame) in (0..).zip(frames.drain(..)) {
                match load.pieces[piece.index()].rows_good >> row & 1 {
                    1 => self.move_if_live(core, load, (piece, row), frame, false),
                    _ => core.frames.give(frame),
                }
            }
            core.frames.give_vec(frames);
        }
        for (piece, row, frame, was_read) in decoded {
            self.move_if_live(core, load, (piece, row), frame, was_read);
        }
        is_whole
    }

    /// Queues a block for moving if the index points to it.
    fn move_if_live(
        &mut self,
        core: &mut Core,
        load: &Load,
        (piece, row): (Piece, u32),
        frame: Frame,
        was_damaged: bool,
    ) {
        let segment = core.segments.get(load.segment);
        let drive = segment.layout.drive_of(load.stripe, piece);
        // Nothing can point to a chunk that has no place.
        let Some(at) = segment.slot_of_stripe(drive, load.stripe) else {
            core.frames.give(frame);
            return;
        };
        let offset = segment.layout.slot_offset(at) + load.row + row;
        let location = Location { drive: DriveIndex::at(drive), zone: segment.zones[drive], offset };
        let from = core.pba.pack(location);
        let protected = Protected::from_bytes(&frame.oob);
        let named = protected.and_then(|protected| Some((protected, Name::of(&protected, &core.index)?)));
        match named {
            Some((protected, name)) if core.may_lie_at(name, from) => {
                let data_crc = oob::data_crc(&frame.oob);
                let repaired = was_damaged && core.membership.has_zone(segment, drive);
                self.moves.push_back(Move { frame, protected, name, from, data_crc, repaired });
            }
            _ => core.frames.give(frame),
        }
    }
}

impl Core {
    /// Decodes a block of a piece from those of others; `None` when too few are good.
    pub(super) fn decode(&mut self, lost: Piece, good: &[(Piece, &Frame)]) -> Option<Frame> {
        assert!(lost.index() < self.config.members, "piece {lost} of {}", self.config.members);
        let code = self.config.code();
        let sources = code.sources(lost, good.iter().map(|(piece, _)| *piece).collect())?;
        let sources: Vec<(Piece, &Frame)> =
            good.iter().filter(|(piece, _)| sources.contains(*piece)).copied().collect();
        let mut frame = self.frames.take();
        frame.oob.fill(0);
        row::decode(&code, lost, &sources, &mut frame);
        let data_crc = crc32c(&frame.data);
        oob::record_data_crc(&mut frame.oob, data_crc);
        Some(frame)
    }
}

/// Pieces of a stripe that lie where they can be read.
fn pieces_there(core: &Core, segment: &Segment, stripe: StripeNumber) -> PieceSet<Piece> {
    let is_there = |piece: &Piece| {
        let drive = segment.layout.drive_of(stripe, *piece);
        core.membership.has_zone(segment, drive) && segment.slot_of_stripe(drive, stripe).is_some()
    };
    segment.layout.code.pieces().iter().filter(is_there).collect()
}

/// Pieces of a stripe on drives that are away for a while.
fn pieces_stalled(core: &Core, segment: &Segment, stripe: StripeNumber) -> PieceSet<Piece> {
    let is_stalled = |piece: &Piece| core.membership.is_stalled(segment.layout.drive_of(stripe, *piece));
    segment.layout.code.pieces().iter().filter(is_stalled).collect()
}

/// Pieces of a stripe to read from, but for damaged ones: those that need not wait for a drive, if what is wanted can be had of
/// them.
fn pieces_at_hand(
    core: &Core,
    segment: &Segment,
    (stripe, wanted): (StripeNumber, PieceSet<Piece>),
    damaged: PieceSet<Piece>,
) -> PieceSet<Piece> {
    let there = pieces_there(core, segment, stripe).without(damaged);
    let at_hand = there.without(pieces_stalled(core, segment, stripe));
    let code = core.config.code();
    let can_be_had = |piece: Piece| at_hand.contains(piece) || code.sources(piece, at_hand).is_some();
    if wanted.iter().all(can_be_had) { at_hand } else { there }
}

/// A row of a piece: a copy of what was read, when its drive came back in time, else decoded.
fn had_row(core: &mut Core, load: &Load, piece: Piece, row: u32) -> Option<Frame> {
    let Some(frame) = load.pieces[piece.index()].row(row) else { return decode_row(core, load, piece, row) };
    let mut copy = core.frames.take();
    (copy.data, copy.oob) = (frame.data, frame.oob);
    Some(copy)
}

/// Decodes a row of a piece from those of the others, data and protected metadata; `None` when too few
/// are good.
fn decode_row(core: &mut Core, load: &Load, lost: Piece, row: u32) -> Option<Frame> {
    let good: Vec<(Piece, &Frame)> = load
        .good(row)
        .iter()
        .filter_map(|piece| Some((piece, load.pieces[piece.index()].row(row)?)))
        .collect();
    core.decode(lost, &good)
}

fn give_pieces(core: &mut Core, load: &mut Load) {
    for piece in &mut load.pieces {
        if !piece.frames.is_empty() {
            core.frames.give_vec(std::mem::take(&mut piece.frames));
        }
    }
}
