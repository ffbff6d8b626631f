//! Filled drives: those of an array whose clients have written its volume once from start to end, computed block by block
//! when they are read. So a mount of a TiB can be run in little memory, and without writing a TiB first.
//!
//! ```text
//!  zone | superblocks | segment 1 | segment 2 | ..   | empty ..      of every drive: segment n in zone n + 1
//!  block b of the volume: segment b / (S k C), and in it stripe, piece and row in order; its sequence is b + 1
//! ```
//! Headers and footers are what a mount reads of sealed segments; the blocks between them are zeros.

use array::log::config::ArrayConfig;
use base::erasure::Piece;
use base::frame::Frame;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use drive::emulated::FullZones;
use zone::format::footer::{self, ENTRIES_PER_BLOCK, Entry, FooterId};
use zone::format::header::{Blank, SegmentHeader, Stream};
use zone::format::oob::{Kind, PROTECTED_BYTES, Protected, Role};
use zone::format::{HEADER_BLOCKS, SUPERBLOCK_ZONES};
use zone::stripe::{Layout, StripeNumber};

/// The sealed segments of one drive of an array.
pub struct FilledDrive {
    member: usize,
    segments: u32,
    header: SegmentHeader,
    layout: Layout,
}

impl FilledDrive {
    /// Makes a member's sealed segments; all are of the stream of small chunks, in the first of its layouts and modes.
    ///
    /// # Panics
    /// When the array has no open segment of small chunks, or fewer segments.
    #[must_use]
    pub fn new(config: &ArrayConfig, member: usize, segments: u32) -> FilledDrive {
        assert!(segments <= config.segments());
        let layout = config.layouts(Stream::Small)[0];
        let header = SegmentHeader {
            array: config.array,
            segment: 0,
            sequence: 0,
            blank: Blank::No,
            member: u8::try_from(member).expect("at most 32 members"),
            data_count: u8::try_from(layout.code.data_count()).expect("at most 32 members"),
            parity_count: u8::try_from(layout.code.parity_count()).expect("at most 32 members"),
            level: config.level.code(),
            mode: config.modes(Stream::Small)[0],
            is_write_area: false,
            stream: Stream::Small,
            header_blocks: layout.header_blocks,
            chunk_blocks: layout.chunk_blocks,
            group_stripes: layout.group_stripes,
            stripes: layout.stripes,
            zones: Vec::new(),
        };
        FilledDrive { member, segments, header, layout }
    }

    /// Number of the segment in a zone, from 1.
    fn segment_in(&self, zone: ZoneIndex) -> u32 {
        zone.0 + 1 - SUPERBLOCK_ZONES
    }

    /// Sequence of the first block of a segment.
    fn first_sequence(&self, segment: u32) -> u64 {
        u64::from(segment - 1) * u64::from(self.layout.segment_data_blocks()) + 1
    }

    fn write_header(&self, zone: ZoneIndex, frame: &mut Frame) {
        let segment = self.segment_in(zone);
        let header = SegmentHeader {
            segment: segment.into(),
            sequence: self.first_sequence(segment),
            zones: vec![zone; self.layout.members()],
            ..self.header.clone()
        };
        header.encode(self.header.member, &mut frame.data);
    }

    fn write_footer(&self, zone: ZoneIndex, index: u32, frame: &mut Frame) {
        let segment = self.segment_in(zone);
        let first = index * ENTRIES_PER_BLOCK;
        let end = (first + ENTRIES_PER_BLOCK).min(self.layout.region_blocks());
        let entries: Vec<Entry> = (first..end).map(|block| self.entry(segment, block)).collect();
        let array = base::bytes::u64_at(&self.header.array, 0);
        let id = FooterId { array, segment: segment.into(), zone, index };
        footer::encode(&id, &entries, &mut frame.data);
    }

    /// Returns the entry by which a block of the data region is described.
    fn entry(&self, segment: u32, block: u32) -> Entry {
        let layout = &self.layout;
        let (slot, row) = (block / layout.chunk_blocks, block % layout.chunk_blocks);
        let stripe = self.stripe_in(slot);
        let piece = layout.piece_of(stripe, self.member);
        let code = &layout.code;
        let protected = |piece| self.protected(segment, stripe, piece, row).to_bytes();
        let (bytes, role) = match code.parity_of(piece) {
            None => (protected(piece), Role::Data),
            Some(parity) => {
                let data: Vec<[u8; PROTECTED_BYTES]> = code.data_pieces().map(protected).collect();
                let mut coded = [0; PROTECTED_BYTES];
                code.encode_field(parity, data.iter(), &mut coded);
                (coded, Role::Parity)
            }
        };
        Entry::from_protected(&bytes, role, stripe).expect("fields of such a block")
    }

    /// The stripe that lies in a slot: under Zone Append those of a group begin with another one on each drive.
    fn stripe_in(&self, slot: u32) -> StripeNumber {
        if self.header.mode.has_static_slots() {
            return StripeNumber::of_static_slot(slot);
        }
        let group = self.layout.group_of_slot(slot);
        let (start, len) = (self.layout.group_start(group), self.layout.group_len(group));
        self.layout.stripe_within(group, (slot - start + u32::from(self.header.member)) % len)
    }

    fn protected(&self, segment: u32, stripe: StripeNumber, piece: Piece, row: u32) -> Protected {
        let layout = &self.layout;
        let before = u64::from(stripe.0) * u64::from(layout.stripe_data_blocks());
        let within = u64::from(piece.0) * u64::from(layout.chunk_blocks) + u64::from(row);
        let sequence = self.first_sequence(segment) + before + within;
        Protected { lba: sequence - 1, sequence, kind: Kind::User }
    }
}

impl FullZones for FilledDrive {
    fn has(&self, zone: ZoneIndex) -> bool {
        (SUPERBLOCK_ZONES..SUPERBLOCK_ZONES + self.segments).contains(&zone.0)
    }

    fn read(&self, zone: ZoneIndex, offset: u32, frame: &mut Frame) {
        (frame.data, frame.oob) = ([0; BLOCK_BYTES], [0; OOB_BYTES]);
        let footer = offset.checked_sub(self.layout.footer_offset());
        match footer.filter(|index| *index < self.layout.footer_blocks()) {
            Some(index) => self.write_footer(zone, index, frame),
            None if offset < HEADER_BLOCKS => self.write_header(zone, frame),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients;
    use super::super::rig::{Plan, Rig};
    use super::super::scheme::Scheme;
    use super::super::setting::Setting;

    /// A mount finds as many segments on drives that are computed as on those that clients have written, and all blocks.
    #[test]
    fn filled_drives_are_mounted_like_drives_that_were_written() {
        let mut plan = Plan::new(Scheme::ZapRaid, &Setting::paper(4, 4), 1).unwrap();
        plan.zone_capacity_blocks = 2048;
        plan.profile = plan.profile.with_small_zones(plan.zone_capacity_blocks).with_one_group();
        let plan = plan.filled(30_000).unwrap();
        let filled = Rig::new(plan.clone()).unwrap();
        let mut rig = Rig::new(Plan { filled_segments: None, ..plan }).unwrap();
        clients::fill(&mut rig, 1).unwrap();
        rig.quiesce().unwrap();
        let (written, _) = rig.crash().unwrap();
        let [a, b] = [&filled, &written].map(|rig| rig.volume().engine.status());
        assert_eq!((a.segments_sealed, a.used_bytes), (b.segments_sealed, b.used_bytes));
        assert_eq!(a.segments_sealed, 5);
    }
    /// The first thing that happens to a mounted volume may be that a checkpoint is asked for.
    #[test]
    fn filled_drives_have_a_checkpoint_written_before_anything_else() {
        let plan = Plan::new(Scheme::ZapRaid, &Setting::paper(4, 4), 1).unwrap();
        let mut rig = Rig::new(plan.filled(1 << 18).unwrap()).unwrap();
        rig.write_checkpoint().unwrap();
        let (rig, _) = rig.crash().unwrap();
        assert!(rig.volume().engine.has_checkpoint());
    }
}
