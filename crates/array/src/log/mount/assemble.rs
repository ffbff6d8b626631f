//! Assembling the engine from decided segments and the index: live counts, free zones, writers.

use crate::log::adaptive::Demand;
use crate::log::checkpoint::Checkpoints;
use crate::log::config::Tuning;
use crate::log::flush::RecoveryFlush;
use crate::log::gc::Gc;
use crate::log::in_flight::InFlight;
use crate::log::membership::{LogPosition, Membership};
use crate::log::mount::decide::{Decided, Fate};
use crate::log::mount::index::Recovered;
use crate::log::mount::{MountError, Session};
use crate::log::pba::{Pba, PbaFormat};
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
use base::units::ZoneIndex;
use std::collections::VecDeque;
use zone::format::checkpoint::Checkpoint;
use zone::format::footer::{Entry, EntryKind};
use zone::format::header::{Stream, WriteMode};
use zone::format::{HEADER_BLOCKS, SUPERBLOCK_ZONES};
use zone::stripe::table::{Packing, StripeTable};

/// Sequences and segment ids start anew in each epoch, above all of earlier ones.
const EPOCH_SHIFT_SEQUENCE: u32 = 40;
const EPOCH_SHIFT_SEGMENT: u32 = 32;

/// Builds the engine.
///
/// # Errors
/// When a drive vanishes.
pub fn run(
    session: &mut Session,
    segments: Vec<Decided>,
    recovered: Recovered,
    zones_in_use: &[Vec<bool>],
    tuning: Tuning,
) -> Result<Shard, MountError> {
    let config = session.config.clone();
    let pba = PbaFormat::new(config.members, &config.geometry).expect("validated");
    let Recovered { index, doubtful, covered, checkpoint } = recovered;
    let mut streams = Stream::ALL.map(|stream| StreamWriter::new(&config, stream));
    let (zones, segments_max) = (config.geometry.zones, config.segments());
    let mut table = SegmentTable::new(config.members, zones, segments_max, tuning.stripe_table);
    let weak = adopt_all(&segments, covered, tuning.stripe_table, &mut table, &mut streams);
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
        checkpoints: Checkpoints::new(tuning.checkpoints, &session.record, checkpoint.as_ref(), &config),
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
        next_sequence: sequence_first(session, &segments, checkpoint.as_ref()),
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

/// Where the next superblock record of each member goes.
fn log_positions(session: &Session) -> Vec<LogPosition> {
    let nowhere = LogPosition { zone: ZoneIndex(0), next: 0 };
    session.log_positions.iter().map(|state| state.map_or(nowhere, |state| state.position())).collect()
}

/// A sequence above all there were.
fn sequence_first(session: &Session, segments: &[Decided], checkpoint: Option<&Checkpoint>) -> u64 {
    if mutant::is(Mutant::SequencesRestart) {
        return 1;
    }
    let epoch = u64::from(session.record.epoch);
    let covered = checkpoint.map_or(0, |checkpoint| checkpoint.sequence);
    (epoch << EPOCH_SHIFT_SEQUENCE).max(sequence_max(segments)).max(covered) + 1
}

/// The highest sequence in the segments that were read.
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
        state,
        torn_stripes: segment.weak.clone(),
        zones_missing: segment.zones_missing,
        void_stripes,
        table,
        writer: (state == SegmentState::Open).then(|| Box::new(writer_from(segment))),
        ..Segment::of_header(&segment.header, segment.layout)
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

/// Puts all segments into the table, oldest first; returns the stripes that are to be moved.
fn adopt_all(
    segments: &[Decided],
    covered: Vec<Segment>,
    packing: Packing,
    table: &mut SegmentTable,
    streams: &mut [StreamWriter; 3],
) -> Vec<(SegmentSlot, u32)> {
    let decided = segments.iter().map(|segment| segment_from(segment, segment.stripe_table(packing)));
    let mut all: Vec<Segment> = covered.into_iter().chain(decided).collect();
    all.sort_by_key(|segment| segment.id);
    let mut weak = Vec::new();
    for mut segment in all {
        let torn = segment.torn_stripes.clone();
        // Pinned until the stripe is loaded.
        segment.readers = u32::try_from(torn.len()).expect("a u32 of stripes");
        let slot = adopt(segment, table, streams);
        weak.extend(torn.into_iter().map(|stripe| (slot, stripe)));
    }
    weak
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
