//! Assembling the engine from decided segments and the index: live counts, free zones, writers.

use crate::log::area::slots::Version;
use crate::log::area::{SLOT_WRITES_MAX, WriteArea};
use crate::log::checkpoint::Checkpoints;
use crate::log::clients::Clients;
use crate::log::config::Tuning;
use crate::log::core::Core;
use crate::log::flush::DeviceFlush;
use crate::log::gc::Collector;
use crate::log::in_flight::InFlight;
use crate::log::index::Index;
use crate::log::membership::{LogPosition, Membership, active_members};
use crate::log::mount::index::Recovered;
use crate::log::mount::scan::{FoundArea, Scan};
use crate::log::mount::write_area::FoundSlot;
use crate::log::mount::{MountError, Session};
use crate::log::off_load::OffLoad;
use crate::log::pba::{Location, PbaFormat};
use crate::log::policy::adaptive::{Demand, Policy};
use crate::log::policy::decision::Decisions;
use crate::log::policy::skew::Skew;
use crate::log::policy::tuned::Tuned;
use crate::log::reader::Reader;
use crate::log::rebuild::MemberRebuild;
use crate::log::rescue::Rescue;
use crate::log::rot::DamageLog;
use crate::log::scrub::Scrub;
use crate::log::segment::{EPOCH_SHIFT_SEGMENT, Segment, SegmentSlot, SegmentState, SegmentTable};
use crate::log::streams::StreamWriter;
use crate::log::stripe::StripeSlots;
use crate::log::stripe::Stripes;
use crate::log::summary::Summaries;
use crate::log::trim::RegionLocks;
use crate::log::turned::ZoneWatch;
use crate::log::{Counters, Shard, internal_frames_max, stripe_slot_count};
use crate::pacer::Rates;
use base::checksum::crc32c;
use base::erasure::PieceSet;
use base::frame::FramePool;
use base::slab::Slab;
use base::units::{BLOCK_BYTES, Lba, ZoneIndex};
use std::collections::VecDeque;
use zone::format::SUPERBLOCK_ZONES;
use zone::format::checkpoint::Checkpoint;
use zone::format::header::Stream;
use zone::format::oob::Kind;
use zone::stripe::StripeNumber;

/// Sequences start anew in each epoch, above all of earlier ones.
pub const EPOCH_SHIFT_SEQUENCE: u32 = 40;

/// Builds the engine.
///
/// # Errors
/// When a drive vanishes.
pub fn run(
    session: &mut Session,
    recovered: Recovered,
    scan: &Scan,
    tuning: Tuning,
) -> Result<Shard, MountError> {
    let config = session.config.clone();
    let Recovered { index, doubtful, segments, checkpoint, sequence_max, slots: that_count } = recovered;
    let mut streams = Stream::ALL.map(|stream| StreamWriter::new(&config, stream, tuning.policy));
    let (zones, segments_max) = (config.geometry.zones, config.segments());
    let mut table = SegmentTable::new(config.members, zones, segments_max, tuning.stripe_table);
    let weak = adopt_all(evacuate_lacking(session, segments), &mut table, &mut streams);
    let area_segments = adopt_areas(session, scan, &mut table);
    free_zones(&scan.zones_in_use, &mut table);
    let area_zones = tuning.write_area_zones;
    let limit = config.index_limit(&tuning);
    let mapping_segments = limit.map_or(0, |limit| limit.mapping_segments);
    let slots = Stream::ALL.map(|stream| stripe_slot_count(&config, stream, mapping_segments, area_zones));
    let chunks = Stream::ALL.map(|stream| config.chunk_blocks_of(stream) as usize);
    let blocks_of = |(slots, stream): (&usize, &StreamWriter)| slots * stream.stripe_data_blocks as usize;
    let frames_internal_max =
        internal_frames_max(&config, slots) + WriteArea::frames_max(&config, area_zones, that_count.len());
    let slot_writes_max = if area_zones > 0 { SLOT_WRITES_MAX } else { 0 };
    let in_flight_max = slots.iter().zip(&streams).map(blocks_of).sum::<usize>() + slot_writes_max;
    let clients = clients_of(&index, in_flight_max, &tuning.tuned);
    let stripe_slots = StripeSlots::new(slots, config.members, chunks);
    let stripes = Stripes::new(stripe_slots, streams, Skew::new(config.volume_blocks, &tuning.tuned));
    let mut core = Core {
        array_tag: session.array_tag(),
        pba: PbaFormat::new(config.members, &config.geometry).expect("validated"),
        segments: table,
        membership: Membership::new(session.record.clone(), config.code(), log_positions(session)),
        strangers: PieceSet::EMPTY,
        frames: FramePool::new(tuning.client_frames_max + frames_internal_max),
        frames_internal_max,
        counters: Counters::default(),
        damage: DamageLog::default(),
        next_sequence: sequence_first(session, sequence_max, checkpoint.as_ref()),
        next_segment_id: (u64::from(session.record.epoch) << EPOCH_SHIFT_SEGMENT) + 1,
        decisions: Decisions::default(),
        events: VecDeque::new(),
        index,
        config,
        tuning,
    };
    assert!(core.next_sequence > sequence_max, "sequences only grow");
    let blocks = take_slots(session, &mut core, &that_count);
    let area = WriteArea::new(&core.config, (area_zones, tuning.lifetimes), area_segments, blocks);
    let mut shard = Shard {
        clients,
        stripes,
        reader: Reader::new(tuning.stripe_tables_bytes_max),
        collector: Collector::default(),
        area,
        off_load: OffLoad::new(mapping_segments),
        checkpoints: Checkpoints::new(tuning.checkpoints, &session.record, checkpoint.as_ref(), &core.config),
        summaries: Summaries::default(),
        scrub: Scrub::default(),
        member_rebuild: MemberRebuild::default(),
        device_flush: DeviceFlush::default(),
        rescue: Rescue::new(weak, doubtful),
        zone_watch: ZoneWatch::default(),
        core,
    };
    shard.rescue.slots = shard.area.found_count();
    count_live(&mut shard.core);
    shard.core.index.off_load(limit);
    shard.reader.give_up_tables(&mut shard.core);
    apply_tuning(&mut shard);
    Ok(shard)
}

/// Rebuilds have the rate that is asked for, and a policy that goes by lifetimes and spikes begins to watch them.
fn apply_tuning(shard: &mut Shard) {
    shard.set_rebuild_rates(Rates::asked_for(shard.core.tuning.rebuild_rate));
    if shard.core.tuning.policy == Policy::Biza {
        shard.clients.demand.watch_lifetimes(shard.core.config.volume_blocks);
        shard.core.segments.watch_spikes();
    }
}

/// Nobody has asked for anything yet, and no more blocks than this will be in flight.
fn clients_of(index: &Index, in_flight_max: usize, tuned: &Tuned) -> Clients {
    Clients {
        requests: Slab::default(),
        pending: VecDeque::new(),
        flushes_waiting: Vec::new(),
        reads: Slab::default(),
        regions: RegionLocks::new(index.regions()),
        in_flight: InFlight::new(in_flight_max),
        demand: Demand::new(tuned),
        writes_outstanding: 0,
        writes_failed: false,
        stripe_failed: false,
        next_arrival: 0,
    }
}

/// Segments of a write area of before join the others until what they hold is in the log.
fn adopt_areas(session: &Session, scan: &Scan, table: &mut SegmentTable) -> Vec<SegmentSlot> {
    assert!(scan.areas.iter().all(|area| area.header.is_write_area), "only they hold slots");
    let adopt = |area: &FoundArea| {
        table.insert(Segment {
            state: SegmentState::Open,
            zones_missing: area.zones_missing,
            ..Segment::of_header(&area.header, area.layout)
        })
    };
    assert!(session.slots.is_empty() || !scan.areas.is_empty(), "slots lie in segments");
    scan.areas.iter().map(adopt).collect()
}

/// The newest versions of blocks that slots held. What counts is decided: they get sequences above all there were, so that a copy which a
/// later mount finds, and this one did not, changes nothing. Where no copy is whole, the block is marked as lost.
fn take_slots(session: &mut Session, core: &mut Core, that_count: &[usize]) -> Vec<(Lba, Version)> {
    let mut slots: Vec<Option<FoundSlot>> =
        std::mem::take(&mut session.slots).into_iter().map(Some).collect();
    let mut take = |at: &usize| {
        let FoundSlot { lba, frame: found, .. } = slots[*at].take().expect("a slot counts once");
        let kind = if found.is_some() { Kind::User } else { Kind::Lost };
        let mut frame = core.frames.take();
        frame.data = found.map_or([0; BLOCK_BYTES], |found| found.data);
        let sequence = core.next_sequence;
        core.next_sequence += 1;
        (lba, Version { sequence, data_crc: crc32c(&frame.data), frame, kind })
    };
    that_count.iter().map(&mut take).collect()
}

/// Returns the position of each member's next superblock record.
fn log_positions(session: &Session) -> Vec<LogPosition> {
    let nowhere = LogPosition { zone: ZoneIndex(0), next: 0 };
    session.log_positions.iter().map(|state| state.map_or(nowhere, |state| state.position())).collect()
}

/// A sequence above all there were.
fn sequence_first(session: &Session, sequence_max: u64, checkpoint: Option<&Checkpoint>) -> u64 {
    let epoch = u64::from(session.record.epoch);
    let covered = checkpoint.map_or(0, |checkpoint| checkpoint.sequence);
    (epoch << EPOCH_SHIFT_SEQUENCE).max(sequence_max).max(covered) + 1
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

/// Segments whose zone an active member lacks have less redundancy than promised until they are collected, for nobody
/// rebuilds the zone.
fn evacuate_lacking(session: &Session, mut segments: Vec<Segment>) -> Vec<Segment> {
    let active = active_members(&session.record);
    for segment in &mut segments {
        segment.evacuate |= active.iter().any(|member| segment.lacks_zone(member));
    }
    segments
}

/// Puts all segments into the table, which are in order of age; returns the stripes that are to be moved.
fn adopt_all(
    segments: Vec<Segment>,
    table: &mut SegmentTable,
    streams: &mut [StreamWriter; Stream::COUNT],
) -> Vec<(SegmentSlot, StripeNumber)> {
    let mut weak = Vec::new();
    for mut segment in segments {
        let torn = segment.torn_stripes.clone();
        assert!(segment.readers == 0, "nobody reads segment {} yet", segment.id);
        assert!(segment.live_blocks == 0, "what is live in segment {} is counted later", segment.id);
        // Pinned until the stripe is loaded.
        segment.readers = u32::try_from(torn.len()).expect("a u32 of stripes");
        let slot = adopt(segment, table, streams);
        weak.extend(torn.into_iter().map(|stripe| (slot, stripe)));
    }
    weak
}

/// Puts a segment into the table and, when it can be written on, gives it to its stream.
fn adopt(
    segment: Segment,
    table: &mut SegmentTable,
    streams: &mut [StreamWriter; Stream::COUNT],
) -> SegmentSlot {
    let writable = segment.takes_stripes();
    let stream = &mut streams[segment.stream.index()];
    let fits = stream.open.iter().any(|place| place.takes(&segment));
    assert!(fits, "the scheme of an array does not change");
    let slot = table.insert(segment);
    if writable {
        stream.unfinished.push(slot);
    }
    slot
}

fn count_live(core: &mut Core) {
    let Core { index, segments, pba: format, .. } = core;
    index.mapped().for_each(|(_, pba)| {
        let Location { drive, zone, .. } = format.unpack(pba);
        let slot = segments.owner(drive, zone).expect("an address lies in a segment");
        segments.get_mut(slot).live_blocks += 1;
    });
}
