//! Assembling the engine from decided segments and the index: live counts, free zones, writers.

use crate::log::checkpoint::Checkpoints;
use crate::log::clients::Clients;
use crate::log::config::Tuning;
use crate::log::core::Core;
use crate::log::flush::DeviceFlush;
use crate::log::gc::Collector;
use crate::log::in_flight::InFlight;
use crate::log::membership::{LogPosition, Membership, active_members};
use crate::log::mount::index::Recovered;
use crate::log::mount::{MountError, Session};
use crate::log::off_load::OffLoad;
use crate::log::pba::{Location, PbaFormat};
use crate::log::policy::adaptive::Demand;
use crate::log::policy::decision::Decisions;
use crate::log::policy::skew::Skew;
use crate::log::reader::Reader;
use crate::log::rebuild::MemberRebuild;
use crate::log::rescue::Rescue;
use crate::log::rot::DamageLog;
use crate::log::scrub::Scrub;
use crate::log::segment::{Segment, SegmentSlot, SegmentTable};
use crate::log::streams::StreamWriter;
use crate::log::stripe::StripeSlots;
use crate::log::stripe::Stripes;
use crate::log::summary::Summaries;
use crate::log::trim::RegionLocks;
use crate::log::{Counters, Shard, internal_frames_max, stripe_slot_count};
use base::frame::FramePool;
use base::slab::Slab;
use base::units::ZoneIndex;
use std::collections::VecDeque;
use zone::format::SUPERBLOCK_ZONES;
use zone::format::checkpoint::Checkpoint;
use zone::format::header::Stream;

/// Sequences and segment ids start anew in each epoch, above all of earlier ones.
const EPOCH_SHIFT_SEQUENCE: u32 = 40;
pub const EPOCH_SHIFT_SEGMENT: u32 = 32;

/// Builds the engine.
///
/// # Errors
/// When a drive vanishes.
pub fn run(
    session: &mut Session,
    recovered: Recovered,
    zones_in_use: &[Vec<bool>],
    tuning: Tuning,
) -> Result<Shard, MountError> {
    let config = session.config.clone();
    let Recovered { index, doubtful, segments, checkpoint, sequence_max } = recovered;
    let mut streams = Stream::ALL.map(|stream| StreamWriter::new(&config, stream, tuning.policy));
    let (zones, segments_max) = (config.geometry.zones, config.segments());
    let mut table = SegmentTable::new(config.members, zones, segments_max, tuning.stripe_table);
    let weak = adopt_all(evacuate_lacking(session, segments), &mut table, &mut streams);
    free_zones(zones_in_use, &mut table);
    let limit = config.index_limit(&tuning);
    let mapping_segments = limit.map_or(0, |limit| limit.mapping_segments);
    let slots = Stream::ALL.map(|stream| stripe_slot_count(&config, stream, mapping_segments));
    let chunks = Stream::ALL.map(|stream| config.chunk_blocks_of(stream) as usize);
    let blocks_of = |(slots, stream): (&usize, &StreamWriter)| slots * stream.stripe_data_blocks as usize;
    let frames_internal_max = internal_frames_max(&config, slots);
    let clients = Clients {
        requests: Slab::default(),
        pending: VecDeque::new(),
        flushes_waiting: Vec::new(),
        reads: Slab::default(),
        regions: RegionLocks::new(index.regions()),
        in_flight: InFlight::new(slots.iter().zip(&streams).map(blocks_of).sum()),
        demand: Demand::default(),
        writes_outstanding: 0,
        writes_failed: false,
        stripe_failed: false,
        next_arrival: 0,
    };
    let stripes = Stripes {
        slots: StripeSlots::new(slots, config.members, chunks),
        streams,
        skew: Skew::new(config.volume_blocks),
        separates_survivors: false,
        sealing_waits: false,
    };
    let core = Core {
        array_tag: session.array_tag(),
        pba: PbaFormat::new(config.members, &config.geometry).expect("validated"),
        segments: table,
        membership: Membership::new(session.record.clone(), config.code(), log_positions(session)),
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
    let mut shard = Shard {
        clients,
        stripes,
        reader: Reader::new(tuning.stripe_tables_bytes_max),
        collector: Collector::default(),
        off_load: OffLoad::new(mapping_segments),
        checkpoints: Checkpoints::new(tuning.checkpoints, &session.record, checkpoint.as_ref(), &core.config),
        summaries: Summaries::default(),
        scrub: Scrub::default(),
        member_rebuild: MemberRebuild::default(),
        device_flush: DeviceFlush::default(),
        rescue: Rescue::new(weak, doubtful),
        core,
    };
    count_live(&mut shard.core);
    shard.core.index.off_load(limit);
    shard.reader.give_up_tables(&mut shard.core);
    shard.set_rebuild_rate(tuning.rebuild_rate);
    Ok(shard)
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
) -> Vec<(SegmentSlot, u32)> {
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
