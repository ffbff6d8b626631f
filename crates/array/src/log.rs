//! The log-structured RAID engine (ZapRAID).
//!
//! ```text
//!  Write ─> admit ─> place: CRC, stripe slot ─> seal: parity ─> bind: segment, stripe, group
//!                                                                  │
//!  Reply <─ apply to index <─ every piece durable <─ on_chunk <─ zone append / zone write
//! ```
//! A [`Shard`] owns all state of the engine. Its methods take `&mut self`, the time, and the
//! [`Effects`] they wish for: commands to drives and replies to clients. The reader's path through
//! it is `requests` -> `write` -> `streams` -> `segment_life` -> `chunks`; then `read` and `load`, `gc`, and `mount`.
//!
//! Promises kept here: a write is acknowledged when every piece of its stripe on the active members
//! is durable, and if a member failed on the way, when the superblocks of the others say so.

mod answer;
mod append;
pub mod area;
mod audit;
pub mod blame;
pub mod channels;
pub mod check;
mod checkpoint;
mod chunks;
mod clients;
pub mod config;
mod core;
mod counters;
mod dropped_tables;
mod flush;
mod gc;
mod headers;
mod in_flight;
mod index;
pub mod lifetime;
mod load;
mod lost;
mod mapping_space;
mod membership;
pub mod memory;
mod mount;
mod off_load;
mod pba;
pub mod policy;
mod read;
mod reader;
mod rebuild;
mod replace;
mod requests;
mod rescue;
pub mod retired;
pub mod rot;
mod route;
mod row;
pub mod scrub;
mod segment;
mod segment_life;
mod stalled;
pub mod status;
mod streams;
mod stripe;
mod summary;
pub mod survivors;
mod sweep;
mod table_load;
mod token;
mod trim;
pub mod turned;
pub mod volume;
mod window;
mod write;
mod writer;

pub use counters::Counters;
pub use membership::LogPosition;
pub use mount::{
    Compared, DamagedChunk, DamagedCopy, LostWrites, MountError, MountReport, OlderCopy, ReAdd, ReAddRefusal,
    ReAdded, compare_checkpoint, format, identify, log_holds, may_leave_behind, mount, mount_read_only,
    mount_with_re_add, spokesman,
};
pub use pba::{Location, Pba};
pub use replace::{ReplaceError, expect_blank};

use crate::engine::{Effects, Engine};
use crate::fence::OwnRecord;
use crate::log::blame::Blame;
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::request::{Request, RequestOp};
use area::WriteArea;
use base::erasure::PieceSet;
use base::frame::FramePool;
use base::time::Instant;
use base::units::DriveIndex;
use checkpoint::{CHECKPOINT_BLOCKS_IN_FLIGHT, Checkpoints};
use clients::Clients;
use config::{ArrayConfig, GC_RESERVE_SEGMENTS};
use core::Core;
use dropped_tables::TABLE_LOADS_MAX;
use flush::{DeviceFlush, RecoveryFlush};
use gc::Collector;
use gc::Gc;
use index::Name;
use mapping_space::COPY_LOADS_MAX;
use off_load::{GROUP_LOADS_MAX, OffLoad};
use policy::decision::Decision;
use reader::Reader;
use rebuild::{MemberRebuild, REBUILD_SWEEPS_MAX, REBUILD_ZONES_MAX};
use rescue::Rescue;
use scrub::{SCRUB_RECORD_BLOCKS, SCRUB_SWEEPS_MAX, Scrub};
use segment::SegmentSlot;
use stripe::Stripes;
use summary::Summaries;
use sweep::stripes_per_sweep;
use token::Waiter;
use turned::ZoneWatch;
use zone::device::{Completion, Status, Token};
use zone::format::header::Stream;
use zone::format::superblock::MemberState;
use zone::rules::Zone;

/// Blocks of stripes in flight per stream: enough to keep every zone busy, few enough to stay in
/// the cache of one core.
const STRIPE_BLOCKS_IN_FLIGHT: usize = 1024;
/// Bounds of the stripe slots per stream.
const STRIPE_SLOTS_MIN: usize = 16;
const STRIPE_SLOTS_MAX: usize = 256;
/// Stripes being loaded for the collector at once, and as many again for degraded reads.
const LOADS_MAX: u32 = 32;

/// The engine: the core that all may use, and the processes, each with its own state.
pub struct Shard {
    core: Core,
    clients: Clients,
    stripes: Stripes,
    reader: Reader,
    collector: Collector,
    area: WriteArea,
    off_load: OffLoad,
    checkpoints: Checkpoints,
    summaries: Summaries,
    scrub: Scrub,
    member_rebuild: MemberRebuild,
    device_flush: DeviceFlush,
    rescue: Rescue,
    zone_watch: ZoneWatch,
}

/// A process, as far as it can go on now.
type Process = fn(&mut Shard, Instant, &mut Effects);

/// Processes in their order within a turn: what was read comes before what places it, and whoever frees space or slots before
/// the clients who need them.
const PROCESSES: [Process; 19] = [
    |shard, _, _| {
        let wait = shard.core.decisions.are_wanted() && shard.space().clients_wait_for_victim();
        shard.appender().note(Decision::Clients { wait });
    },
    // Reads that waited for stripe tables or for parts of the index, and stripes to be decoded.
    |shard, _, fx| shard.resume_reads(fx),
    |shard, _, fx| shard.start_rebuilds(fx),
    Shard::advance_zone_watch,
    // What recovery left: its reads fill the collector's queue, and its records come before any collection.
    |shard, _, fx| shard.move_weak_stripes(fx),
    |shard, _, _| shard.record_doubt(),
    |shard, _, fx| shard.go_on_with_reads(fx),
    // It gives zones up that the collector erases, and a checkpoint waits until it is empty.
    |shard, now, fx| {
        shard.advance_area(fx);
        shard.move_slots(now, fx);
    },
    // A checkpoint that waits to begin keeps the others from placing anything.
    Shard::advance_checkpoint,
    Shard::place_moves,
    Shard::advance_summaries,
    // The collector takes what a scrub marks; the scrub waits for what the collector and the rebuild end.
    Shard::advance_scrub,
    Shard::advance_gc,
    Shard::advance_rebuild,
    |shard, now, fx| {
        // A zone that was just rebuilt may be the collector's, and nothing else may be under way.
        if shard.core.segments.has_evacuees() {
            shard.advance_gc(now, fx);
        }
    },
    Shard::advance_scrub,
    // The collector's stripes first, for they free space.
    Shard::pump_streams,
    // Those that stood behind others, which have gone.
    Shard::close_due_stripes,
    Shard::admit_pending,
];

/// The end of a turn: what had to wait until nothing is left to be done before it.
const LAST_PROCESSES: [Process; 4] = [
    Shard::flush_recovery,
    |shard, _, fx| shard.appender().seal_what_waited(fx),
    Shard::advance_groups,
    |shard, _, _| shard.reader.drop_tables(&mut shard.core, shard.checkpoints.is_over()),
];

impl Engine for Shard {
    fn submit(&mut self, now: Instant, request: Request, fx: &mut Effects) {
        self.core.segments.set_time(now);
        let Request { id, op } = request;
        match op {
            RequestOp::Read { lba, blocks } => {
                self.start_read(id, lba, blocks, fx);
                self.start_rebuilds(fx);
            }
            op => {
                self.clients.enqueue(&mut self.core, id, op);
                self.admit(now, fx);
            }
        }
        self.route(fx);
        self.advance_groups(now, fx);
        self.route(fx);
    }

    fn on_completion(&mut self, drive: DriveIndex, completion: Completion, fx: &mut Effects) {
        let waiter = Waiter::from_token(completion.token);
        if completion.status != Status::Success {
            if completion.status == Status::Stalled {
                return self.on_stalled(waiter, drive.index(), completion, fx);
            }
            self.zone_watch.note_trouble(waiter);
        }
        match waiter {
            Waiter::Chunk { slot, piece } => self.on_chunk((slot, piece), drive.index(), completion, fx),
            Waiter::Header { slot, .. } => self.core.on_header(slot, drive.index(), completion, fx),
            Waiter::Footer { slot, .. } => self.appender().on_footer(slot, drive.index(), completion, fx),
            Waiter::Finish { slot, .. } => {
                self.reader.on_finish(&mut self.core, slot, drive.index(), &completion, fx)
            }
            Waiter::Reset { slot, .. } => self.core.on_reset(slot, drive.index(), &completion, fx),
            Waiter::Read { slot, part } => self.on_read(slot, part, drive.index(), completion, fx),
            Waiter::Load { slot, piece } => self.on_load(slot, piece, drive.index(), completion, fx),
            Waiter::Flush { slot, .. } => self.on_device_flush(slot, drive.index(), &completion, fx),
            Waiter::Sweep { slot, part } => self.on_sweep(slot, part, drive.index(), completion, fx),
            Waiter::Scrub { slot, part } => {
                self.scrub.on_scrub(&mut self.core, (slot, part), drive.index(), completion, fx)
            }
            Waiter::Table { slot, .. } => {
                self.reader.on_table(&mut self.core, slot, drive.index(), completion, fx)
            }
            Waiter::Look { .. } => self.scrub.on_look(&mut self.core, drive.index(), completion, fx),
            Waiter::Rebuild { slot, .. } => {
                self.member_rebuild.on_rebuild(&mut self.core, slot, drive.index(), completion, fx)
            }
            Waiter::Slot { slot, .. } => self.on_slot(slot, drive.index(), completion, fx),
            Waiter::Turned { .. } => self.on_turned(drive.index(), &completion, fx),
            Waiter::Superblock { .. } => self.core.on_superblock(drive.index(), completion, fx),
        }
        self.route(fx);
    }

    fn resume(&mut self, fx: &mut Effects) {
        self.start_rebuild(fx);
        let slots: Vec<SegmentSlot> = self.core.segments.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.appender().seal_segment_if_done(slot, fx);
        }
        self.route(fx);
    }

    fn tick(&mut self, now: Instant, fx: &mut Effects) {
        self.core.segments.set_time(now);
        self.close_due_stripes(now, fx);
        self.settle(now, fx);
    }

    fn on_idle(&mut self, now: Instant, fx: &mut Effects) {
        self.clients.demand.expect_reaction(None);
        if self.core.goes_by_deadline() {
            return;
        }
        let is_idle = self.clients.writes_outstanding == 0 && self.clients.pending.is_empty();
        let mut closed = is_idle && self.clients.demand.note_idle();
        for stream in Stream::CLIENTS {
            let closes = self.space().should_close(stream) || self.appender().lone_stripe_spills(stream);
            if closes && !self.awaits_index() {
                self.appender().seal_filling(stream, fx);
                self.route(fx);
                closed = true;
            }
        }
        if self.space().should_close_remainder() {
            self.appender().seal_filling(Stream::Gc, fx);
            self.route(fx);
            closed = true;
        }
        // The collector need not wait for clients any more. And a stripe that could be written nowhere has failed, and
        // others wait for what its requests held.
        if closed {
            self.settle(now, fx);
        }
    }

    fn expect_reaction(&mut self, now: Instant) {
        let reacts = self.space().awaits_reaction();
        self.clients.demand.expect_reaction(reacts.then_some(now));
    }

    fn next_deadline(&self) -> Option<Instant> {
        let stripes = Stream::ALL.map(|stream| self.space().stripe_deadline(stream));
        let paced = [self.member_rebuild.throttle.wakes_at(), self.scrub.scrub_wakes_at()];
        let look = self.zone_watch.wakes_at();
        let reaction = self.clients.demand.reaction_until();
        stripes.into_iter().chain(paced).chain([reaction, look]).flatten().min()
    }

    /// Called once for all completions that came together, as it mostly finds nothing to do: a fifth of the instructions of a
    /// write when it followed each of them.
    fn settle(&mut self, now: Instant, fx: &mut Effects) {
        self.settle_once(now, fx);
        // What could be written nowhere has failed, and what waited for it goes on: nothing else may happen any more.
        while std::mem::take(&mut self.clients.stripe_failed) {
            self.settle_once(now, fx);
        }
    }

    fn blocks(&self) -> u64 {
        self.core.config.volume_blocks
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.core.frames
    }

    fn client_frames_available(&self) -> usize {
        // What slots hold is part of what the engine may need.
        let in_slots = self.area.slots().live_count() + self.area.slots().moving_count();
        (self.core.frames.available() + in_slots).saturating_sub(self.core.frames_internal_max)
    }

    fn fail_member(&mut self, drive: DriveIndex, fx: &mut Effects) {
        self.core.fail_member(drive.index(), Blame::Told, fx);
        self.route(fx);
    }

    fn note_stalled(&mut self, stalled: PieceSet) {
        // What became of zones meanwhile, nobody says.
        if !self.core.membership.note_stalled(stalled).is_empty() {
            self.zone_watch.hasten();
        }
    }

    fn own_record(&self) -> Option<OwnRecord> {
        let record = self.core.membership.record();
        Some(OwnRecord { array: record.array, version: record.version(), mount_tag: record.mount_tag })
    }

    fn take_strangers(&mut self) -> PieceSet {
        std::mem::take(&mut self.core.strangers)
    }

    fn name_of(&self, token: Token) -> &'static str {
        Waiter::from_token(token).name()
    }

    fn members(&self) -> Vec<MemberState> {
        self.core.membership.record().members.iter().map(|member| member.state).collect()
    }

    fn describe(&self) -> String {
        self.work_in_words()
    }

    fn overdue(&self, now: Instant) -> Option<String> {
        self.stripes.overdue_stripe(&self.core, now)
    }

    fn audit_zones(&self, drive: DriveIndex, zones: &[Zone]) -> Option<String> {
        self.core.mistaken_zone(drive, zones).or_else(|| self.slot_left_behind())
    }

    fn is_quiet(&self) -> bool {
        self.clients.requests.is_empty()
            && self.clients.reads.is_empty()
            && self.reader.loads.is_empty()
            && self.reader.sweeps.is_empty()
            && self.reader.dropped_tables.loads.is_empty()
            && self.collector.moves.is_empty()
            && self.clients.in_flight.is_empty()
            && matches!(self.collector.stage, Gc::Idle)
            && self.off_load.space.is_at_rest()
            && self.clients.demand.reaction_until().is_none()
            && self.member_rebuild.rebuild_is_over()
            && self.scrub.scrub_is_over()
            && self.zone_watch.is_at_rest()
            && self.checkpoints.is_over()
            && !self.core.membership.is_changing()
            && !self.core.segments.iter().any(|(_, segment)| segment.is_changing())
            && Stream::ALL.iter().all(|stream| self.stripes.slots.in_use(*stream) == 0)
    }

    fn has_recovery_debt(&self) -> bool {
        self.rescue.slots > 0
            || self.space().has_blocks_to_rescue()
            || self.rescue.flush != RecoveryFlush::Done
    }

    fn must_mount_again(&self) -> bool {
        self.rescue.is_void && !self.core.membership.is_broken()
    }

    fn check_invariants(&self) {
        let mut live = vec![0; self.core.config.segments() as usize];
        for (name, pba) in self.core.index.mapped() {
            live[self.core.segment_at(pba).index()] += 1;
            if let Name::Block(lba) = name {
                assert!(!self.core.index.is_trimmed(lba), "block {lba} is both mapped and trimmed");
                assert!(!self.core.index.is_lost(lba), "block {lba} is both mapped and lost");
            }
        }
        for (slot, segment) in self.core.segments.iter() {
            // What groups that are not in memory map is not counted here.
            let all_there = self.core.index.groups().is_none();
            let (counted, kept) = (live[slot.index()], segment.live_blocks);
            assert!(kept == counted || !all_there && kept > counted, "live blocks of segment {}", segment.id);
        }
        self.check_area();
        self.core.segments.check_channels();
        self.check_groups();
        self.reader.check_tables(&self.core);
        self.stripes.check_open_segments(&self.core);
        assert!(self.core.segments.active_count() < self.core.config.geometry.active_zones_max);
        assert!(
            Stream::ALL
                .iter()
                .all(|stream| self.stripes.slots.in_use(*stream) <= self.stripes.slots.count(*stream))
        );
        if self.is_quiet() {
            let leaked = self.core.frames.frames_out() - self.area.slots().frames_held();
            assert!(leaked == 0, "{leaked} frames leaked");
            assert!(self.clients.regions.is_idle());
            assert!(self.clients.writes_outstanding == 0);
        }
    }
}

impl Shard {
    /// Flushes what recovery wrote, once nothing is left to be moved. Caches that are not volatile need no command, and
    /// nothing else may happen at which a checkpoint could begin that had to wait for this. Members that lost what their
    /// windows held are as good as the others then, which is recorded.
    fn flush_recovery(&mut self, now: Instant, fx: &mut Effects) {
        match self.rescue.flush {
            RecoveryFlush::Due if !self.space().has_blocks_to_rescue() && self.rescue.slots == 0 => {
                self.rescue.flush = RecoveryFlush::Flushing;
                if self.device_flush.ask(&mut self.core, FlushWaiter::Recovery, fx) == Flushed::Now {
                    self.end_recovery(fx);
                }
            }
            RecoveryFlush::Recording if !self.core.membership.is_changing() => {
                self.rescue.flush = RecoveryFlush::Done;
            }
            _ => return,
        }
        if self.rescue.flush == RecoveryFlush::Done {
            self.advance_checkpoint(now, fx);
        }
    }

    /// What recovery wrote and moved is durable.
    pub(in crate::log) fn end_recovery(&mut self, fx: &mut Effects) {
        assert!(self.rescue.flush == RecoveryFlush::Flushing, "recovery ends once");
        // Should it begin anew, the next mount has to know.
        let is_over = !self.rescue.is_void && !self.core.membership.is_broken();
        self.rescue.flush = match is_over && self.core.membership.forget_windows_gone() {
            true => RecoveryFlush::Recording,
            false => RecoveryFlush::Done,
        };
        if self.rescue.flush == RecoveryFlush::Recording {
            self.core.record_change(fx);
        }
    }

    /// Closes stripes whose time has come.
    fn close_due_stripes(&mut self, now: Instant, fx: &mut Effects) {
        for stream in Stream::ALL {
            if self.space().stripe_deadline(stream).is_some_and(|deadline| deadline <= now) {
                self.appender().seal_filling(stream, fx);
                self.route(fx);
            }
        }
    }

    /// Gives sealed stripes to segments, those of the collector first.
    fn pump_streams(&mut self, _: Instant, fx: &mut Effects) {
        for stream in [Stream::Gc, Stream::Cold, Stream::Small, Stream::Large, Stream::Mapping] {
            self.appender().pump_stream(stream, fx);
            self.route(fx);
        }
    }

    fn admit_pending(&mut self, now: Instant, fx: &mut Effects) {
        if !self.clients.pending.is_empty() {
            self.admit(now, fx);
        }
    }

    /// Reads that wait for groups go on: they hold none, and come before those who do.
    fn go_on_with_reads(&mut self, fx: &mut Effects) {
        for read in std::mem::take(&mut self.off_load.reads) {
            self.read_goes_on(read, fx);
        }
    }

    /// Moves what waits for groups, and makes room.
    fn advance_groups(&mut self, now: Instant, fx: &mut Effects) {
        if self.core.index.groups().is_none() {
            return;
        }
        self.advance_mapping_space(now, fx);
        loop {
            self.go_on_with_groups(now, fx);
            // What maps nothing needs no block, and makes room at once; so does what was read and nobody wanted any more.
            if !self.write_groups(now, fx) {
                break;
            }
        }
        let groups = self.core.index.groups_mut().expect("the index is in groups");
        while groups.is_over() && groups.evict() {}
        self.off_load.holds |= !groups.is_over();
        self.off_load.holds &= self.space().may_write_groups();
    }

    /// Trims, reads, moves and writes that wait for groups go on, as far as those came.
    fn go_on_with_groups(&mut self, now: Instant, fx: &mut Effects) {
        for _ in 0..self.off_load.trims.len() {
            let mut trim = self.off_load.trims.pop_front().expect("counted");
            if self.unmap(&mut trim, fx) {
                self.request_block_done(trim.request, trim.failed, fx);
            } else {
                self.off_load.trims.push_back(trim);
            }
        }
        self.go_on_with_reads(fx);
        self.place_moves(now, fx);
        self.advance_gc(now, fx);
        self.start_rebuilds(fx);
        if !self.clients.pending.is_empty() {
            self.admit(now, fx);
        }
    }

    /// Asserts what must hold of groups between events.
    ///
    /// # Panics
    /// When an invariant is broken.
    fn check_groups(&self) {
        let Some(groups) = self.core.index.groups() else { return };
        groups.check_invariants();
        let is_over = groups.is_over();
        assert!(!self.off_load.holds || !is_over, "{} groups are resident", groups.resident());
        if self.is_quiet() {
            assert!(groups.is_idle(), "{} groups are held for nothing", groups.held());
            // Said once more, and not asked of what decides whether they are written.
            let may_write = self.rescue.flush == RecoveryFlush::Done
                && !self.core.membership.is_broken()
                && !self.off_load.writes_failed
                && self.off_load.has_mapping_space(&self.core);
            let must_fit = may_write && !groups.is_incomplete();
            assert!(!is_over || !must_fit, "{} groups are resident at rest", groups.resident());
        }
    }

    /// True while writes wait for groups of the index that are on their way, or for those to go that are being written:
    /// they will be company.
    fn awaits_index(&self) -> bool {
        let Some(groups) = self.core.index.groups() else { return false };
        !self.clients.pending.is_empty()
            && (groups.loading() > 0 || self.stripes.mapping_stripes_in_flight() > 0)
    }

    /// Lets every process go on once, and tells the others what has happened in between.
    fn settle_once(&mut self, now: Instant, fx: &mut Effects) {
        for advance in PROCESSES.iter().chain(&LAST_PROCESSES) {
            advance(self, now, fx);
            self.route(fx);
        }
    }
}

/// Stripe slots of a stream, when so many segments are for mapping blocks and so many for the write area.
fn stripe_slot_count(config: &ArrayConfig, stream: Stream, mapping: u32, area: u32) -> usize {
    let is_used = match stream {
        Stream::Small | Stream::Large => !config.modes(stream).is_empty(),
        Stream::Gc => true,
        Stream::Cold => config.affords(mapping + area + 1, mapping.min(1) + area + 1),
        Stream::Mapping => mapping > 0,
    };
    if !is_used {
        return 0;
    }
    let blocks = config.members * config.chunk_blocks_of(stream) as usize;
    (STRIPE_BLOCKS_IN_FLIGHT / blocks).clamp(STRIPE_SLOTS_MIN, STRIPE_SLOTS_MAX)
}

/// Frames the engine may need beside those of clients: parity and padding of every stripe slot,
/// loads for the collector and for degraded reads, sweeps for a rebuild and a scrub, moved blocks, headers and footers,
/// blocks of a checkpoint or of the index, footers that stripe tables are read from.
fn internal_frames_max(config: &ArrayConfig, slots: [usize; Stream::COUNT]) -> usize {
    let stripe_blocks_of = |stream| config.members * config.chunk_blocks_of(stream) as usize;
    let stripe_blocks = Stream::ALL.into_iter().map(stripe_blocks_of).max().expect("there are streams");
    let stripes: usize =
        Stream::ALL.map(|stream| slots[stream.index()] * stripe_blocks_of(stream)).iter().sum();
    let loads = 4 * LOADS_MAX as usize * stripe_blocks;
    let sweep_blocks = Stream::ALL
        .map(|stream| config.chunk_blocks_of(stream))
        .map(|chunk_blocks| (stripes_per_sweep(chunk_blocks) * chunk_blocks) as usize)
        .into_iter()
        .max()
        .expect("there are streams");
    // Chunks of a sweep are decoded while it is still there, and others are written meanwhile.
    let per_lane = (REBUILD_SWEEPS_MAX as usize) * (config.members + 2) * sweep_blocks;
    let rebuild = REBUILD_ZONES_MAX * per_lane;
    let scrub = SCRUB_SWEEPS_MAX * config.members * sweep_blocks + SCRUB_RECORD_BLOCKS as usize + 1;
    // Of segments that are closed early, every zone may be filled up at once.
    let zones = config.members * config.geometry.active_zones_max as usize;
    let fillers = zones.min(config.members * config.segments() as usize) * config::CHUNK_BLOCKS_MAX as usize;
    let metadata =
        (config.members + 2 + REBUILD_ZONES_MAX) * 8 * segment_life::FOOTER_BLOCKS_PER_COMMAND as usize;
    let checkpoint = CHECKPOINT_BLOCKS_IN_FLIGHT as usize;
    let groups = 2 * (GROUP_LOADS_MAX + COPY_LOADS_MAX) * config.members;
    let tables = TABLE_LOADS_MAX * config.members * segment_life::FOOTER_BLOCKS_PER_COMMAND as usize;
    stripes + loads + rebuild + scrub + fillers + metadata + checkpoint + groups + tables
}
