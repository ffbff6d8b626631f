//! Assembling the engine from decided segments: index, live counts, free zones, writers.

use crate::log::adaptive::Demand;
use crate::log::config::Tuning;
use crate::log::flush::RecoveryFlush;
use crate::log::gc::Gc;
use crate::log::in_flight::InFlight;
use crate::log::index::{Buried, Index, Name, region_range, tombstone_blocks};
use crate::log::membership::{LogPosition, Membership};
use crate::log::mount::decide::{Decided, Fate};
use crate::log::mount::{MountError, Session, repair};
use crate::log::pba::{Location, Pba, PbaFormat};
use crate::log::rebuild::MemberRebuild;
use crate::log::scrub::Scrub;
use crate::log::segment::{Segment, SegmentSlot, SegmentState, SegmentTable};
use crate::log::streams::StreamWriter;
use crate::log::stripe::StripeSlots;
use crate::log::trim::RegionLocks;
use crate::log::writer::Writer;
use crate::log::{Counters, Shard, internal_frames_max, stripe_slot_count};
use base::frame::FramePool;
use base::mutant::{self, Mutant};
use base::slab::Slab;
use base::units::{DriveIndex, Lba, ZoneIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zone::format::footer::{Entry, EntryKind};
use zone::format::header::{Stream, WriteMode};
use zone::format::oob::{Kind, Protected};
use zone::format::{HEADER_BLOCKS, SUPERBLOCK_ZONES};
use zone::stripe::table::StripeTable;

/// Sequences and segment ids start anew in each epoch, above all of earlier ones.
const EPOCH_SHIFT_SEQUENCE: u32 = 40;
const EPOCH_SHIFT_SEGMENT: u32 = 32;

/// Newest copies while the index is being built.
struct Newest {
    index: Index,
    blocks: Vec<u64>,
    tombstones: Vec<u64>,
    /// Tombstones before the newest that may count too, by region and sequence: those in segments that are not
    /// sealed, and of the others the newest. None without volatile caches.
    tombstones_before: Option<BTreeMap<(u64, u64), Pba>>,
    /// Sequence of the newest tombstone in a sealed segment, by region.
    tombstones_sealed: BTreeMap<u64, u64>,
}

/// Builds the engine.
///
/// # Errors
/// When a drive vanishes.
pub fn run(
    session: &mut Session,
    segments: Vec<Decided>,
    zones_in_use: &[Vec<bool>],
    tuning: Tuning,
) -> Result<Shard, MountError> {
    let config = session.config.clone();
    let pba = PbaFormat::new(config.members, &config.geometry).expect("validated");
    let tables: Vec<Option<StripeTable>> =
        segments.iter().map(|segment| segment.stripe_table(tuning.stripe_table)).collect();
    let (index, doubtful) = index_of(session, &segments, &pba)?;
    let mut streams = Stream::ALL.map(|stream| StreamWriter::new(&config, stream));
    let (zones, segments_max) = (config.geometry.zones, config.segments());
    let mut table = SegmentTable::new(config.members, zones, segments_max, tuning.stripe_table);
    let mut weak = Vec::new();
    for (segment, stripe_table) in segments.iter().zip(tables) {
        let slot = adopt(segment_from(segment, stripe_table), &mut table, &mut streams);
        weak.extend(segment.weak.iter().map(|stripe| (slot, *stripe)));
        // Pinned until the stripe is loaded.
        table.get_mut(slot).readers += u32::try_from(segment.weak.len()).expect("a u32 of stripes");
    }
    free_zones(zones_in_use, &mut table);
    let slots = Stream::ALL.map(|stream| stripe_slot_count(&config, stream));
    let data_blocks =
        (slots.iter().zip(&streams)).map(|(slots, stream)| slots * stream.stripe_data_blocks as usize).sum();
    let frames_internal_max = internal_frames_max(&config);
    let epoch = u64::from(session.record.epoch);
    let mut shard = Shard {
        array_tag: session.array_tag(),
        pba,
        in_flight: InFlight::new(data_blocks),
        demand: Demand::default(),
        segments: table,
        stripes: StripeSlots::new(
            slots,
            config.members,
            Stream::ALL.map(|stream| config.chunk_blocks_of(stream) as usize),
        ),
        streams,
        requests: Slab::default(),
        pending: VecDeque::new(),
        writes_outstanding: 0,
        writes_failed: false,
        flushes_waiting: Vec::new(),
        regions: RegionLocks::new(index.regions()),
        device_flush: Default::default(),
        reads: Slab::default(),
        loads: Slab::default(),
        sweeps: Slab::default(),
        rebuilds: VecDeque::new(),
        rebuild_loads: 0,
        gc: Gc::Idle,
        scrub: Scrub::default(),
        moves: VecDeque::new(),
        write_offs: Vec::new(),
        member_rebuild: MemberRebuild::default(),
        moves_pending: 0,
        weak,
        doubtful,
        recording_doubt: false,
        recovery_flush: RecoveryFlush::Due,
        sealing_waits: false,
        recovery_is_void: false,
        membership: Membership::new(session.record.clone(), config.code(), log_positions(session)),
        frames: FramePool::new(tuning.client_frames_max + frames_internal_max),
        frames_internal_max,
        next_sequence: sequence_first(session, &segments),
        next_segment_id: (epoch << EPOCH_SHIFT_SEGMENT) + 1,
        next_arrival: 0,
        counters: Counters::default(),
        index,
        config,
        tuning,
    };
    shard.count_live();
    shard.set_rebuild_rate(tuning.rebuild_rate);
    Ok(shard)
}

/// The index, and the regions whose tombstone is to be written anew.
fn index_of(
    session: &mut Session,
    segments: &[Decided],
    pba: &PbaFormat,
) -> Result<(Index, Vec<u64>), MountError> {
    let config = &session.config;
    let mut newest = Newest::new(config.volume_blocks, config.geometry.volatile_cache);
    for weak in [true, false] {
        for segment in segments {
            gather(segment, weak, pba, &mut newest);
        }
    }
    let doubtful = bury_all(session, segments, pba, &mut newest)?;
    Ok((newest.index, doubtful))
}

/// Where the next superblock record of each member goes.
fn log_positions(session: &Session) -> Vec<LogPosition> {
    let nowhere = LogPosition { zone: ZoneIndex(0), next: 0 };
    session.log_positions.iter().map(|state| state.map_or(nowhere, |state| state.position())).collect()
}

/// A sequence above all there were.
fn sequence_first(session: &Session, segments: &[Decided]) -> u64 {
    if mutant::is(Mutant::SequencesRestart) {
        return 1;
    }
    let epoch = u64::from(session.record.epoch);
    (epoch << EPOCH_SHIFT_SEQUENCE).max(sequence_max(segments)) + 1
}

/// The highest sequence on the media.
fn sequence_max(segments: &[Decided]) -> u64 {
    let entries =
        segments.iter().flat_map(|segment| segment.zones.iter().flatten()).flat_map(|zone| &zone.entries);
    let data = entries.flatten().filter(|entry| matches!(entry.kind, EntryKind::Data(_)));
    data.map(|entry| entry.sequence).max().unwrap_or(0)
}

fn free_zones(zones_in_use: &[Vec<bool>], table: &mut SegmentTable) {
    for (member, zones) in zones_in_use.iter().enumerate() {
        for (zone, used) in (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize) {
            if !used {
                table.free_zone(member, zone);
            }
        }
    }
}

/// Hides what the newest tombstone of every region hides, and what those before it hide: one says no more of a
/// block that was written after a trim, but a volatile cache may have lost that write and kept the tombstone.
/// Returns the regions whose tombstone is to be written anew.
fn bury_all(
    session: &mut Session,
    segments: &[Decided],
    pba: &PbaFormat,
    newest: &mut Newest,
) -> Result<Vec<u64>, MountError> {
    let mut to_record = Vec::new();
    for region in 0..newest.index.regions() {
        let Some(at) = newest.index.get(Name::Tombstone(region)) else { continue };
        let mut read = |at: Pba| {
            let location = pba.unpack(at);
            let segment = segments
                .iter()
                .find(|segment| segment.header.zones[location.drive.index()] == location.zone)
                .expect("the index points into segments");
            repair::read_location(session, segment, location).map(|frame| frame.data)
        };
        let mut buried = BTreeSet::new();
        for (sequence, before) in newest.tombstones_before(region) {
            match read(before) {
                Some(bitmap) => buried.extend(newest.bury(region, sequence, &bitmap)),
                None => buried.extend(newest.doubt(region, sequence)),
            }
        }
        let sequence = newest.tombstones[Lba(region).index()];
        match read(at) {
            Some(bitmap) => newest.bury(region, sequence, &bitmap).iter().for_each(|lba| {
                buried.remove(lba);
            }),
            None => {
                session.report.regions_doubtful.push(region);
                buried.extend(newest.doubt(region, sequence));
                to_record.push(region);
            }
        }
        if !buried.is_empty() && !to_record.ends_with(&[region]) {
            to_record.push(region);
        }
    }
    session.expect_all_there()?;
    Ok(to_record)
}

/// Offers every data block of the kept stripes to the index; the newest sequence wins. Two copies
/// with one sequence are the same block before and after a move: the one offered last wins, so weak
/// stripes are offered first, then those of older segments.
fn gather(segment: &Decided, weak: bool, pba: &PbaFormat, newest: &mut Newest) {
    let layout = &segment.layout;
    for stripe in 0..layout.stripes {
        let is_weak = segment.weak.binary_search(&stripe).is_ok();
        if segment.fates[stripe as usize] != Fate::Kept || is_weak != weak {
            continue;
        }
        let has_more = layout.code.parity_count() > 1 && mutant::is(Mutant::ParityInIndex);
        for piece in 0..layout.code.data_count() + usize::from(has_more) {
            let member = layout.drive_of(stripe, piece);
            let Some(slot) = segment.slot_of(member, stripe) else { continue };
            for row in 0..layout.chunk_blocks {
                let Some(entry) = segment.entry(stripe, piece, row) else { continue };
                let location = Location {
                    drive: DriveIndex::at(member),
                    zone: segment.header.zones[member],
                    offset: layout.slot_offset(slot) + row,
                };
                newest.offer(&entry, pba.pack(location), segment.sealed);
            }
        }
    }
}

impl Newest {
    fn new(volume_blocks: u64, volatile_cache: bool) -> Newest {
        let index = Index::new(volume_blocks);
        let tombstones = vec![0; Lba(index.regions()).index()];
        let considers_before = volatile_cache && !mutant::is(Mutant::OnlyNewestTombstone);
        Newest {
            index,
            blocks: vec![0; Lba(volume_blocks).index()],
            tombstones,
            tombstones_before: considers_before.then(BTreeMap::new),
            tombstones_sealed: BTreeMap::new(),
        }
    }

    fn offer(&mut self, entry: &Entry, pba: Pba, sealed: bool) {
        let kind = match entry.kind {
            EntryKind::Data(kind) => kind,
            EntryKind::Parity(_) if mutant::is(Mutant::ParityInIndex) => Kind::User,
            EntryKind::Parity(_) | EntryKind::Unknown | EntryKind::Void => return,
        };
        let protected = Protected { lba: entry.lba, sequence: entry.sequence, kind };
        let Some(name) = Name::of(&protected, &self.index) else { return };
        let newest = match name {
            Name::Block(lba) => &mut self.blocks[lba.index()],
            Name::Tombstone(region) => {
                self.keep_tombstone(region, entry.sequence, pba, sealed);
                &mut self.tombstones[Lba(region).index()]
            }
        };
        if entry.sequence >= *newest || mutant::is(Mutant::NewestSegmentWins) {
            *newest = entry.sequence;
            self.index.set(name, pba);
        }
    }

    /// What was written before a tombstone in a sealed segment is durable, for drives are flushed before sealing:
    /// none before it can count.
    fn keep_tombstone(&mut self, region: u64, sequence: u64, pba: Pba, sealed: bool) {
        let Some(before) = &mut self.tombstones_before else { return };
        before.insert((region, sequence), pba);
        if sealed {
            let newest = self.tombstones_sealed.entry(region).or_default();
            *newest = sequence.max(*newest);
        }
        if let Some(newest) = self.tombstones_sealed.get(&region) {
            let gone: Vec<(u64, u64)> =
                before.range((region, 0)..(region, *newest)).map(|(key, _)| *key).collect();
            gone.iter().for_each(|key| {
                before.remove(key);
            });
        }
    }

    /// Tombstones of a region before the newest that may count too, oldest first.
    fn tombstones_before(&self, region: u64) -> Vec<(u64, Pba)> {
        let newest = self.tombstones[Lba(region).index()];
        let before = self.tombstones_before.iter();
        let before = before.flat_map(|before| before.range((region, 0)..(region, newest)));
        before.map(|((_, sequence), pba)| (*sequence, *pba)).collect()
    }

    /// Hides the blocks that a tombstone of this sequence marks, where they are older; returns those it marks.
    fn bury(&mut self, region: u64, sequence: u64, bitmap: &base::xor::Block) -> Vec<Lba> {
        let mut buried = Vec::new();
        for (lba, why) in tombstone_blocks(region, self.index.blocks(), bitmap) {
            if self.blocks[lba.index()] >= sequence && !mutant::is(Mutant::TombstoneHidesNewer) {
                continue;
            }
            buried.push((lba, why));
        }
        for (lba, why) in &buried {
            match why {
                Buried::Trimmed => self.index.trim(*lba),
                Buried::Lost => self.index.lose(*lba),
            };
        }
        buried.into_iter().map(|(lba, _)| lba).collect()
    }

    /// A tombstone of this sequence cannot be read: all blocks that were not written since are lost, those
    /// without a copy too. It may have said that they were trimmed, or lost before. Returns them.
    fn doubt(&mut self, region: u64, sequence: u64) -> Vec<Lba> {
        if mutant::is(Mutant::DoubtIgnored) {
            return Vec::new();
        }
        let range = region_range(region, self.index.blocks()).map(Lba);
        let lost: Vec<Lba> = range.filter(|lba| self.blocks[lba.index()] < sequence).collect();
        for lba in &lost {
            self.index.lose(*lba);
        }
        lost
    }
}

fn segment_from(segment: &Decided, table: Option<StripeTable>) -> Segment {
    let void = |stripe: &u32| segment.fates[*stripe as usize] == Fate::Void || is_hole(segment, *stripe);
    let void_stripes = match segment.header.mode {
        WriteMode::Write => (0..segment.slots_touched).filter(void).collect(),
        WriteMode::Append => Vec::new(),
    };
    let state = match (segment.sealed, segment.condemned) {
        (true, _) => SegmentState::Sealed,
        (false, true) => SegmentState::Condemned,
        (false, false) => SegmentState::Open,
    };
    Segment {
        id: segment.header.segment,
        created_at: segment.header.sequence,
        stream: segment.header.stream,
        mode: segment.header.mode,
        layout: segment.layout,
        zones: segment.header.zones.clone(),
        state,
        live_blocks: 0,
        readers: 0,
        damaged: false,
        evacuate: false,
        torn_stripes: segment.weak.clone(),
        zones_retired: 0,
        zones_missing: segment.zones_missing,
        is_being_rebuilt: false,
        void_stripes,
        table,
        writer: (state == SegmentState::Open).then(|| Box::new(writer_from(segment))),
    }
}

/// A stripe number before the end of an open Zone Write segment of which nothing was found.
fn is_hole(segment: &Decided, stripe: u32) -> bool {
    segment.fates[stripe as usize] == Fate::Absent
}

/// A writer that goes on where recovery left off.
fn writer_from(segment: &Decided) -> Writer {
    let layout = &segment.layout;
    let mut writer = Writer::new(layout, segment.slots_touched);
    for (member, (progress, zone)) in writer.zones.iter_mut().zip(&segment.zones).enumerate() {
        let Some(zone) = zone else { continue };
        for (entry, found) in progress.entries.iter_mut().zip(&zone.entries) {
            let void = |found: &Entry| {
                found.kind != EntryKind::Void && segment.fates[found.stripe as usize] != Fate::Kept
            };
            *entry = found.filter(|found| !void(found)).unwrap_or(Entry::VOID);
        }
        name_damaged(segment, member, &mut progress.entries);
        progress.finished = zone.full;
        progress.footer_next =
            zone.written.saturating_sub(layout.footer_offset()).min(layout.footer_blocks());
        assert!(zone.written >= HEADER_BLOCKS);
    }
    writer
}

/// The footer is to name damaged blocks too, or older copies of them would be read after the next mount if
/// nothing can rebuild them then.
fn name_damaged(segment: &Decided, member: usize, entries: &mut [Entry]) {
    let layout = &segment.layout;
    let kept = |stripe: &u32| segment.fates[*stripe as usize] == Fate::Kept;
    for stripe in (0..layout.stripes).filter(kept) {
        let Some(slot) = segment.slots[member][stripe as usize] else { continue };
        if segment.is_whole_in(member, stripe, slot) {
            continue;
        }
        let piece = layout.piece_of(stripe, member);
        let first = (slot * layout.chunk_blocks) as usize;
        for (row, entry) in (0..layout.chunk_blocks).zip(&mut entries[first..]) {
            let known = segment.entry(stripe, piece, row).unwrap_or(Entry::unknown(stripe));
            *entry = Entry { whole: false, ..known };
        }
    }
}

/// Puts a segment into the table and, when it can be written on, gives it to its stream.
fn adopt(segment: Segment, table: &mut SegmentTable, streams: &mut [StreamWriter; 3]) -> SegmentSlot {
    let (layout, mode) = (segment.layout, segment.mode);
    let writable = segment.writer.as_ref().is_some_and(|writer| !writer.is_exhausted(&layout));
    let stream = &mut streams[segment.stream.index()];
    let fits = stream.open.iter().any(|place| place.mode == mode && place.layout == layout);
    assert!(fits, "the scheme of an array does not change");
    let slot = table.insert(segment);
    if writable {
        stream.unfinished.push(slot);
    }
    slot
}

impl Shard {
    fn count_live(&mut self) {
        let mapped: Vec<Pba> = self.index.mapped().map(|(_, pba)| pba).collect();
        for pba in mapped {
            let segment = self.segment_at(pba);
            self.segments.get_mut(segment).live_blocks += 1;
        }
    }
}
