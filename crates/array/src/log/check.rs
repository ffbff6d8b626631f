//! Checking an array that is not served: every checksum, every stripe's parity, and the index
//! against the media. Reads everything, writes nothing.

mod ahead;
mod records;

use crate::log::check::ahead::Ahead;
use crate::log::index::Name;
use crate::log::segment::SegmentSlot;
use crate::log::{DamagedChunk, DamagedCopy, Location, MountReport, Pba, Shard, row};
use base::checksum::crc32c;
use base::erasure::{Piece, PieceSet};
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Command, Op, Status, Token, ZoneDescriptor};
use zone::drives::{DriveCommand, DriveSet};
use zone::format::oob::{self, Bound, Kind, Protected, block_is_whole};
use zone::stripe::StripeNumber;

/// Problems listed in full; further ones are only counted.
const PROBLEMS_LISTED_MAX: usize = 20;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A member is missing, stale or failed.
    MemberMissing {
        /// The member.
        drive: DriveIndex,
    },
    /// A member is not yet rebuilt: until it is, the array cannot lose another.
    MemberRebuilding {
        /// The member.
        drive: DriveIndex,
    },
    /// A block fails its checksum, cannot be read, or is not the one that was written there.
    BlockDamaged {
        /// Member.
        drive: DriveIndex,
        /// Zone.
        zone: ZoneIndex,
        /// Block within the zone.
        offset: u32,
        /// True when the block can be rebuilt from the rest of its stripe.
        rebuildable: bool,
    },
    /// A stripe's parity is not that of its data, though every block is whole.
    ParityMismatch {
        /// Segment id.
        segment: u64,
        /// Stripe within the segment.
        stripe: StripeNumber,
    },
    /// The index points to a block that does not hold what it should.
    IndexMismatch {
        /// Logical block (or region, for tombstones).
        lba: u64,
        /// Member.
        drive: DriveIndex,
        /// Zone.
        zone: ZoneIndex,
        /// Block within the zone.
        offset: u32,
    },
    /// A superblock record, header or footer is damaged. Copies on other drives, or in the blocks
    /// themselves, stand in for it.
    RecordDamaged {
        /// Kind of the record.
        record: Record,
        /// Member.
        drive: DriveIndex,
        /// Zone.
        zone: ZoneIndex,
        /// Block within the zone.
        offset: u32,
    },
    /// A block was written off: its contents are lost until it is written or trimmed.
    BlockLost {
        /// Logical block.
        lba: u64,
    },
    /// A zone holds data of this array that belongs to no segment with a good header.
    ZoneOrphaned {
        /// Member.
        drive: DriveIndex,
        /// Zone.
        zone: ZoneIndex,
    },
}

/// Kind of record that describes an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A record of the superblock log.
    Superblock,
    /// A segment's header.
    Header,
    /// A block of a segment's footer.
    Footer,
}

/// Findings of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Stripes read.
    pub stripes_checked: u64,
    /// Blocks read and verified.
    pub blocks_checked: u64,
    /// Index entries held against the media.
    pub entries_checked: u64,
    /// Stripes that a crash left incomplete and that the next mount completes: not a problem.
    pub stripes_to_complete: u64,
    /// Blocks in slots of the write area, which the next mount moves to the log: not a problem.
    pub slots_to_move: u64,
    /// Problems found.
    pub problems_count: u64,
    /// The first of them.
    pub problems: Vec<Problem>,
}

impl CheckReport {
    fn add(&mut self, problem: Problem) {
        self.problems_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(problem);
        }
    }
}

/// A check in progress.
struct Check<'a> {
    shard: &'a Shard,
    drives: &'a mut DriveSet,
    now: Instant,
    /// Blocks of each zone that are written, by member; those of windows may be.
    written: Vec<Vec<u32>>,
    /// Blocks of each zone that are committed, by member: those that are written, but in zones with random write areas.
    committed: Vec<Vec<u32>>,
    ahead: Ahead,
    /// Blocks found to be the newest copy of what the index says.
    entries_matched: u64,
    report: CheckReport,
}

/// Checks everything. `progress` is told the share of segments done, in 0..=1 000.
pub fn check(
    shard: &Shard,
    drives: &mut DriveSet,
    mount: &MountReport,
    now: Instant,
    mut progress: impl FnMut(u64),
) -> CheckReport {
    let mut check = Check {
        shard,
        drives,
        now,
        written: Vec::new(),
        committed: Vec::new(),
        ahead: Ahead::default(),
        entries_matched: 0,
        report: CheckReport::default(),
    };
    check.report.stripes_to_complete = mount.stripes_completed;
    check.report.slots_to_move = mount.slots_found;
    check.tell_of_slots(mount);
    for drive in 0..shard.core.config.members {
        check.read_write_pointers(drive);
        if shard.core.membership.is_present(drive) {
            check.check_superblocks(drive);
        } else {
            check.report.add(Problem::MemberMissing { drive: DriveIndex::at(drive) });
        }
        if shard.core.membership.rebuilding() == Some(drive) {
            check.report.add(Problem::MemberRebuilding { drive: DriveIndex::at(drive) });
        }
    }
    for (drive, zone) in &mount.zones_orphaned {
        check.report.add(Problem::ZoneOrphaned { drive: *drive, zone: *zone });
    }
    let segments: Vec<SegmentSlot> = shard.core.segments.iter().map(|(slot, _)| slot).collect();
    for (done, slot) in (0_u64..).zip(&segments) {
        progress(done * 1_000 / segments.len() as u64);
        if shard.core.segments.get(*slot).is_write_area {
            continue;
        }
        check.check_segment_records(*slot);
        for stripe in shard.core.segments.get(*slot).layout.all_stripes() {
            check.check_stripe(*slot, stripe);
        }
    }
    check.check_index();
    progress(1_000);
    check.report
}

/// True for a whole block of the segment that is not the one expected: recovery filled a group up
/// here, or blocks of another chunk landed where a torn one had ended.
fn is_other_block(frame: &Frame, segment: u64, bound: &Bound) -> bool {
    oob::open(&frame.oob, bound)
        .is_some_and(|oob| oob.place.segment == segment && oob.data_crc == crc32c(&frame.data))
}

impl Check<'_> {
    /// The mount has read and compared all copies in slots.
    fn tell_of_slots(&mut self, mount: &MountReport) {
        for DamagedCopy { at: DamagedChunk { drive, zone, offset }, has_other } in &mount.slot_copies_damaged
        {
            let (drive, zone, offset, rebuildable) = (*drive, *zone, *offset, *has_other);
            self.report.add(Problem::BlockDamaged { drive, zone, offset, rebuildable });
        }
        for lba in self.shard.area.slots().lost_blocks() {
            self.report.add(Problem::BlockLost { lba: lba.0 });
        }
    }

    fn read_write_pointers(&mut self, drive: usize) {
        let config = &self.shard.core.config;
        let capacity = config.geometry.zone_capacity_blocks;
        let count = config.geometry.zones;
        let completion = self.execute(drive, ZoneIndex(0), Op::Report { count });
        let window = self.drives.geometry(DriveIndex::at(drive)).and_then(|geometry| geometry.areas);
        let window_blocks = window.map_or(0, |areas| areas.window_blocks);
        let committed = |zone: &ZoneDescriptor| zone.write_pointer.min(capacity);
        let written = |zone: &ZoneDescriptor| {
            let beyond = if zone.has_area { window_blocks } else { 0 };
            committed(zone).saturating_add(beyond).min(capacity)
        };
        self.written.push(completion.report.iter().map(written).collect());
        self.committed.push(completion.report.iter().map(committed).collect());
    }

    fn execute(&mut self, drive: usize, zone: ZoneIndex, op: Op) -> zone::device::Completion {
        let command = Command { token: Token(0), zone, op };
        self.drives.execute(self.now, DriveCommand { drive: DriveIndex::at(drive), command })
    }

    /// A block, unless the drive cannot return it.
    fn read_block(&mut self, drive: usize, zone: ZoneIndex, offset: u32) -> Option<Frame> {
        self.report.blocks_checked += 1;
        let end = self.written[drive].get(zone.index()).copied().unwrap_or(0);
        let location = Location { drive: DriveIndex::at(drive), zone, offset };
        let ahead = self.ahead.take(self.drives, self.now, location, end);
        if ahead.is_some() {
            return ahead;
        }
        // One of several blocks could not be read, perhaps another.
        let completion = self.execute(drive, zone, Op::Read { offset, frames: vec![Frame::zeroed()] });
        completion.frames.into_iter().next().filter(|_| completion.status == Status::Success)
    }

    /// Reads all chunks of a stripe, verifies each block, then the parity.
    fn check_stripe(&mut self, slot: SegmentSlot, stripe: StripeNumber) {
        let segment = self.shard.core.segments.get(slot);
        let layout = segment.layout;
        let mut pieces: Vec<Option<Vec<Frame>>> = Vec::new();
        let mut damaged: Vec<Location> = Vec::new();
        let mut to_complete = false;
        for piece in layout.code.pieces::<Piece>().iter() {
            let drive = layout.drive_of(stripe, piece);
            let zone = segment.zones[drive];
            let Some(at) = segment.slot_of_stripe(drive, stripe) else { return };
            let first = layout.slot_offset(at);
            if !self.shard.core.membership.has_zone(segment, drive) {
                pieces.push(None);
                continue;
            }
            let written = self.written[drive].get(zone.index()).copied().unwrap_or(0);
            if first + layout.chunk_blocks > written {
                to_complete = true;
                pieces.push(None);
                continue;
            }
            if self.is_hole_in_window(drive, zone, first..first + layout.chunk_blocks) {
                to_complete = true;
                pieces.push(None);
                continue;
            }
            let frames = self.read_chunk((slot, stripe), drive, first, &mut damaged);
            pieces.push(frames);
        }
        assert!(
            pieces.len() == layout.members(),
            "stripe {stripe} has {} pieces of {}",
            pieces.len(),
            layout.members()
        );
        let written_at_all = pieces.iter().any(Option::is_some) || !damaged.is_empty();
        if !written_at_all {
            return;
        }
        self.report.stripes_checked += 1;
        let good: PieceSet<Piece> =
            (0..).map(Piece).zip(&pieces).filter(|(_, piece)| piece.is_some()).map(|(at, _)| at).collect();
        let rebuildable = layout.code.can_decode(good);
        for Location { drive, zone, offset } in damaged {
            self.report.add(Problem::BlockDamaged { drive, zone, offset, rebuildable });
        }
        if good == layout.code.pieces() && !to_complete {
            self.check_parity(slot, stripe, &pieces);
        }
    }

    /// True when some of these blocks are in a window and were not written.
    fn is_hole_in_window(&mut self, drive: usize, zone: ZoneIndex, blocks: std::ops::Range<u32>) -> bool {
        let committed = self.committed[drive].get(zone.index()).copied().unwrap_or(u32::MAX);
        (blocks.start.max(committed)..blocks.end).any(|offset| {
            let completion = self.execute(drive, zone, Op::Read { offset, frames: vec![Frame::zeroed()] });
            completion.status == Status::Success && completion.frames.iter().all(Frame::is_blank)
        })
    }

    /// Reads a chunk; `None`, and its bad blocks in `damaged`, when it is not whole. A chunk that a
    /// crash tore and recovery filled up is not whole, and not damaged either. What is damaged in a weak stripe
    /// is in nobody's way once recovery has moved what was live.
    fn read_chunk(
        &mut self,
        (slot, stripe): (SegmentSlot, StripeNumber),
        drive: usize,
        first: u32,
        damaged: &mut Vec<Location>,
    ) -> Option<Vec<Frame>> {
        let segment = self.shard.core.segments.get(slot);
        let (id, zone, rows) = (segment.id, segment.zones[drive], segment.layout.chunk_blocks);
        let group = segment.layout.group_of(stripe);
        let mut frames = Vec::new();
        let mut bad = Vec::new();
        let mut torn = false;
        let weak = self.shard.rescue.weak.contains(&(slot, stripe));
        for offset in first..first + rows {
            let location = Location { drive: DriveIndex::at(drive), zone, offset };
            let frame = self.read_block(drive, zone, offset);
            let place = self.shard.core.place_at(slot, location);
            match frame {
                Some(frame) if place.is_some_and(|place| block_is_whole(&frame, &place)) => {
                    self.match_entry(&frame, location);
                    frames.push(frame);
                }
                Some(frame) => {
                    let bound = Bound { array: self.shard.core.array_tag, zone, group };
                    torn |= frame.is_blank() || is_other_block(&frame, id, &bound);
                    bad.push(location);
                }
                None => bad.push(location),
            }
        }
        assert!(
            frames.len() + bad.len() == rows as usize,
            "{} good and {} bad blocks of {rows}",
            frames.len(),
            bad.len()
        );
        if !(weak && (torn || bad.iter().all(|location| !self.is_mapped(*location)))) {
            damaged.extend(&bad);
        }
        bad.is_empty().then_some(frames)
    }

    /// True when the index points there.
    fn is_mapped(&self, location: Location) -> bool {
        let wanted = self.shard.core.pba.pack(location);
        self.shard.core.index.mapped().any(|(_, pba)| pba == wanted)
    }

    /// Counts a block that the index points to and that is what it should be.
    fn match_entry(&mut self, frame: &Frame, location: Location) {
        let protected = Protected::from_bytes(&frame.oob);
        let name = protected.and_then(|protected| Name::of(&protected, &self.shard.core.index));
        let pba = self.shard.core.pba.pack(location);
        if name.is_some_and(|name| self.shard.core.index.get(name) == Some(pba)) {
            self.entries_matched += 1;
            if let Some(Protected { lba, kind: Kind::Lost, .. }) = protected {
                self.report.add(Problem::BlockLost { lba });
            }
        }
    }

    fn check_parity(&mut self, slot: SegmentSlot, stripe: StripeNumber, pieces: &[Option<Vec<Frame>>]) {
        let segment = self.shard.core.segments.get(slot);
        let code = segment.layout.code;
        let pieces: Vec<&Vec<Frame>> = pieces.iter().flatten().collect();
        assert!(
            pieces.len() == code.piece_count(),
            "parities are held against all pieces, not {}",
            pieces.len()
        );
        let (data, parities) = pieces.split_at(code.data_count());
        let mut expected = Frame::zeroed();
        for (parity, found) in parities.iter().enumerate() {
            for (row, found) in found.iter().enumerate() {
                let data: Vec<&Frame> = data.iter().map(|piece| &piece[row]).collect();
                if !row::is_parity(&code, parity, &data, found, &mut expected) {
                    self.report.add(Problem::ParityMismatch { segment: segment.id, stripe });
                    return;
                }
            }
        }
    }

    /// Every entry must have been met on the media, but for those on missing or not yet rebuilt zones and those whose
    /// block is damaged, which is reported as such. When the counts differ, finds out which.
    fn check_index(&mut self) {
        let shard = self.shard;
        for lba in shard.core.index.lost() {
            self.report.add(Problem::BlockLost { lba: lba.0 });
        }
        let is_there = |pba| {
            let segment = shard.core.segments.get(shard.core.segment_at(pba));
            shard.core.membership.has_zone(segment, shard.core.pba.unpack(pba).drive.index())
        };
        let mut on_members = 0;
        for (_, pba) in shard.core.index.mapped() {
            self.report.entries_checked += 1;
            on_members += u64::from(is_there(pba));
        }
        if on_members == self.entries_matched {
            return;
        }
        for (name, pba) in shard.core.index.mapped() {
            let location = shard.core.pba.unpack(pba);
            if !is_there(pba) || self.is_weak(pba) || self.is_matched(name, location) {
                continue;
            }
            let lba = name.lba();
            let Location { drive, zone, offset } = location;
            self.report.add(Problem::IndexMismatch { lba, drive, zone, offset });
        }
    }

    /// True when recovery has yet to move what is live in the stripe: its chunk here may be a hole that a crash left.
    fn is_weak(&self, pba: Pba) -> bool {
        let slot = self.shard.core.segment_at(pba);
        let stripe =
            self.shard.core.place_at(slot, self.shard.core.pba.unpack(pba)).map(|place| place.stripe);
        let is_weak = |stripe| self.shard.rescue.weak.contains(&(slot, stripe));
        stripe.is_some_and(is_weak)
    }

    /// True when the block holds what it is indexed as, or will once recovery has completed it.
    fn is_matched(&mut self, name: Name, location: Location) -> bool {
        let Location { drive, zone, offset } = location;
        let written = self.written[drive.index()].get(zone.index()).copied().unwrap_or(0);
        if offset >= written || self.is_hole_in_window(drive.index(), zone, offset..offset + 1) {
            return true;
        }
        let completion =
            self.execute(drive.index(), zone, Op::Read { offset, frames: vec![Frame::zeroed()] });
        let Some(frame) = completion.frames.first() else { return false };
        let protected = Protected::from_bytes(&frame.oob);
        protected.is_some_and(|protected| Name::of(&protected, &self.shard.core.index) == Some(name))
    }
}
