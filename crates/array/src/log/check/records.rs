//! Checking what describes the array: superblock records, segment headers, footers.

use crate::log::check::{Check, Problem, Record};
use crate::log::segment::{SegmentSlot, SegmentState};
use base::units::{DriveIndex, ZoneIndex};
use zone::format::SUPERBLOCK_ZONES;
use zone::format::footer::{self, FooterId};
use zone::format::header::SegmentHeader;
use zone::format::superblock::Superblock;

/// Contents of one zone of a superblock log.
#[derive(Debug, Default)]
struct SuperblockLog {
    /// Generation of its last whole record.
    newest: Option<u64>,
    /// Blocks behind that record that are damaged.
    damaged: Vec<u32>,
}

impl Check<'_> {
    /// The newest record of a member's superblock log must be whole. One that is damaged and has a whole newer one on
    /// the same drive is history: nothing can be written in its place, and every mount writes a newer one.
    pub(super) fn check_superblocks(&mut self, drive: usize) {
        let logs: Vec<SuperblockLog> =
            (0..SUPERBLOCK_ZONES).map(|zone| self.read_superblocks(drive, ZoneIndex(zone))).collect();
        let newest =
            (0..logs.len()).filter(|zone| logs[*zone].newest.is_some()).max_by_key(|zone| logs[*zone].newest);
        // The other zone is begun when one is full: until then, nothing there is newer, whether or not it can be read.
        let capacity = self.shard.core.config.geometry.zone_capacity_blocks;
        let has_room =
            newest.is_some_and(|zone| self.written[drive].get(zone).is_some_and(|next| *next < capacity));
        for (zone, log) in (0..).map(ZoneIndex).zip(&logs) {
            let is_other = newest.is_some_and(|newest| newest != zone.index());
            let is_old = is_other && (log.newest.is_some() || has_room);
            for offset in log.damaged.iter().filter(|_| !is_old) {
                self.expect_record(false, Record::Superblock, (drive, zone, *offset));
            }
        }
    }

    /// Reads one zone of a superblock log.
    fn read_superblocks(&mut self, drive: usize, zone: ZoneIndex) -> SuperblockLog {
        let mut log = SuperblockLog::default();
        let written = self.written[drive].get(zone.index()).copied().unwrap_or(0);
        for offset in 0..written {
            let block = self.read_block(drive, zone, offset);
            let is_blank = block.as_ref().is_some_and(|frame| frame.data.iter().all(|byte| *byte == 0));
            if is_blank {
                // The rest of a zone that was finished.
                break;
            }
            match block.and_then(|frame| Superblock::decode(&frame.data)) {
                Some(record) => log = SuperblockLog { newest: Some(record.generation), damaged: Vec::new() },
                None => log.damaged.push(offset),
            }
        }
        log
    }

    /// The header of every zone of a segment, and the footers once it is sealed.
    pub(super) fn check_segment_records(&mut self, slot: SegmentSlot) {
        let segment = self.shard.core.segments.get(slot);
        for drive in 0..segment.layout.members() {
            let zone = segment.zones[drive];
            let written = self.written[drive].get(zone.index()).copied().unwrap_or(0);
            if !self.shard.core.membership.has_zone(segment, drive) || written == 0 {
                continue;
            }
            let header = self.read_block(drive, zone, 0).and_then(|frame| SegmentHeader::decode(&frame.data));
            let is_own = |header: &SegmentHeader| header.segment == segment.id && header.zones[drive] == zone;
            self.expect_record(
                header.is_some_and(|header| is_own(&header)),
                Record::Header,
                (drive, zone, 0),
            );
            if segment.state == SegmentState::Sealed {
                self.check_footer(slot, drive);
            }
        }
    }

    fn check_footer(&mut self, slot: SegmentSlot, drive: usize) {
        let segment = self.shard.core.segments.get(slot);
        let layout = segment.layout;
        let zone = segment.zones[drive];
        for index in 0..layout.footer_blocks() {
            let id = FooterId { array: self.shard.core.array_tag, segment: segment.id, zone, index };
            let count = layout.footer_entries(index).len();
            let offset = layout.footer_offset() + index;
            let block = self.read_block(drive, zone, offset);
            // A footer that never arrived is not missed: the blocks say the same of themselves.
            let whole = block.is_some_and(|frame| {
                frame.is_blank() || footer::decode(&id, &frame.data, count, &mut Vec::new())
            });
            self.expect_record(whole, Record::Footer, (drive, zone, offset));
        }
    }

    fn expect_record(&mut self, whole: bool, record: Record, (drive, zone, offset): (usize, ZoneIndex, u32)) {
        if !whole {
            self.report.add(Problem::RecordDamaged { record, drive: DriveIndex::at(drive), zone, offset });
        }
    }
}
