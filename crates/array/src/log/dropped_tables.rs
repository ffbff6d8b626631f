//! Stripe tables of sealed segments that need not stay in memory ([`Tuning::stripe_tables_bytes_max`], ADR 18).
//!
//! ```text
//!  sealed ──> dropped, once nobody reads the segment
//!               │  a group of it is asked for            over the limit, least recently asked for first
//!               └──> read from footers (`table_load`) ──> in memory ──> dropped again
//! ```
//! Whoever is about to read asks [`Shard::has_tables`] for the stripes it is interested in, and when they are not all
//! there, asks again in [`Shard::settle`]; only client reads are kept on a list, for nobody else asks for them.
//!
//! Invariants: a table stays while its segment has readers or is being rebuilt, and in the round it was asked for. So
//! whoever waits gets its turn, and what was asked for before a read is there when the read is answered.
//!
//! [`Tuning::stripe_tables_bytes_max`]: crate::log::config::Tuning::stripe_tables_bytes_max

use crate::engine::Effects;
use crate::log::core::Core;
use crate::log::reader::Reader;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::table_load::TableLoad;
use base::slab::Slab;
use std::collections::VecDeque;
use std::ops::Range;
use zone::stripe::table::StripeTable;

/// Groups read at once: as many as drives answer in the time of one.
pub const TABLE_LOADS_MAX: usize = 16;
/// Groups looked at in a round to find some that can be dropped: nearly always the first can.
const DROPS_TRIED_MAX: usize = 64;

/// The stripe table of one group, read from footers.
pub struct GroupTable {
    /// Stripe table of the group, whose slots count from the group's first.
    pub table: StripeTable,
    /// Round in which it was asked for the last time.
    asked_in: u64,
}

impl GroupTable {
    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<GroupTable>() + self.table.memory_bytes()
    }
}

/// A table in memory. Its segment may be gone.
struct Kept {
    segment: SegmentSlot,
    id: u64,
    group: u32,
    bytes: usize,
    /// As of when it was put in its place.
    asked_in: u64,
}

/// State of the stripe tables that were dropped.
pub struct DroppedTables {
    bytes_max: Option<u64>,
    /// Bytes of the tables in memory.
    bytes: u64,
    /// Tables in memory; the first are dropped first.
    kept: VecDeque<Kept>,
    /// Segments whose whole table is to be dropped.
    given_up: VecDeque<(SegmentSlot, u64)>,
    /// Calls of `settle`.
    round: u64,
    /// Tables being read.
    pub loads: Slab<TableLoad>,
    /// Client reads that wait for one.
    reads_waiting: Vec<u32>,
    /// A load has ended since they were last looked at.
    has_news: bool,
}

impl DroppedTables {
    /// Returns the state in which no table was dropped, with `bytes_max` for what is in memory.
    #[must_use]
    pub fn new(bytes_max: Option<u64>) -> DroppedTables {
        DroppedTables {
            bytes_max,
            bytes: 0,
            kept: VecDeque::new(),
            given_up: VecDeque::new(),
            round: 1,
            loads: Slab::default(),
            reads_waiting: Vec::new(),
            has_news: false,
        }
    }

    /// A client read goes on when a table has arrived.
    pub fn await_table(&mut self, read: u32) {
        self.reads_waiting.push(read);
    }

    /// True once after tables have arrived.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// The client reads that waited for tables go on.
    pub fn take_waiting(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.reads_waiting)
    }

    /// A client read goes on, whatever it waited for.
    pub fn await_no_table(&mut self, read: u32) {
        self.reads_waiting.retain(|waiting| *waiting != read);
    }
}

impl Reader {
    /// The round is over: drops whole tables that were given up, then the least recently asked for, down to the limit.
    /// A checkpoint that is being written has said which tables it holds: then none may be dropped whole.
    pub(super) fn drop_tables(&mut self, core: &mut Core, may_drop_whole: bool) {
        let Some(bytes_max) = self.dropped_tables.bytes_max else { return };
        if may_drop_whole {
            for _ in 0..self.dropped_tables.given_up.len() {
                let Some((slot, id)) = self.dropped_tables.given_up.pop_front() else { break };
                match core.segments.find(slot, id) {
                    None => {}
                    Some(segment) if is_pinned(segment) => self.dropped_tables.given_up.push_back((slot, id)),
                    Some(_) => core.segments.drop_table(slot),
                }
            }
        }
        for _ in 0..self.dropped_tables.kept.len().min(DROPS_TRIED_MAX) {
            if self.dropped_tables.bytes <= bytes_max {
                break;
            }
            self.drop_first_table(core);
        }
        self.dropped_tables.round += 1;
    }

    /// True when the stripe tables of these slots of a segment are in memory, and so those of the stripes of the same numbers,
    /// which lie in the same groups. Those that are not are read: ask again in the next [`Shard::settle`].
    pub(super) fn has_tables(
        &mut self,
        core: &mut Core,
        slot: SegmentSlot,
        slots: Range<u32>,
        fx: &mut Effects,
    ) -> bool {
        let segment = core.segments.get_mut(slot);
        if !segment.has_dropped_table() || slots.is_empty() {
            return true;
        }
        let layout = segment.layout;
        let (first, last) = (layout.group_of_slot(slots.start), layout.group_of_slot(slots.end - 1));
        assert!(slots.end <= layout.stripes, "slots {slots:?} of {}", layout.stripes);
        for group in first..=last {
            match core.segments.get_mut(slot).group_tables.get_mut(&group) {
                Some(table) => table.asked_in = self.dropped_tables.round,
                None => self.load_table(core, slot, group, fx),
            }
        }
        let segment = core.segments.get(slot);
        (first..=last).all(|group| segment.group_tables.contains_key(&group))
    }

    /// A table has been read.
    pub(super) fn keep_table(&mut self, core: &mut Core, slot: SegmentSlot, group: u32, table: StripeTable) {
        let asked_in = self.dropped_tables.round;
        let segment = core.segments.get_mut(slot);
        let table = GroupTable { table, asked_in };
        let bytes = table.memory_bytes();
        let id = segment.id;
        let before = segment.group_tables.insert(group, table);
        assert!(before.is_none(), "the table of a group is read once");
        self.dropped_tables.bytes += bytes as u64;
        self.dropped_tables.kept.push_back(Kept { segment: slot, id, group, bytes, asked_in });
        self.dropped_tables.has_news = true;
        core.counters.stripe_tables_read += 1;
    }

    /// A segment is sealed: its stripe table is dropped, if it may be.
    pub(super) fn give_up_table(&mut self, core: &mut Core, slot: SegmentSlot) {
        if self.dropped_tables.bytes_max.is_some() && is_in_footers(core.segments.get(slot)) {
            let id = core.segments.get(slot).id;
            self.dropped_tables.given_up.push_back((slot, id));
        }
    }

    /// After a mount, all stripe tables are dropped that may be.
    pub(super) fn give_up_tables(&mut self, core: &mut Core) {
        let slots: Vec<SegmentSlot> = core.segments.iter().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.give_up_table(core, slot));
    }

    /// Asserts that what is in memory is accounted for. O(segments).
    ///
    /// # Panics
    /// When it is not.
    pub(super) fn check_tables(&self, core: &Core) {
        let of_segments = core.segments.iter().flat_map(|(_, segment)| segment.group_tables.values());
        let bytes: usize = of_segments.map(GroupTable::memory_bytes).sum();
        assert!(bytes as u64 <= self.dropped_tables.bytes, "stripe tables nobody knows of");
        assert!(self.dropped_tables.bytes_max.is_some() || bytes == 0);
    }

    /// Drops the first of those in memory, or puts it behind the others when it is needed.
    fn drop_first_table(&mut self, core: &mut Core) {
        let Some(mut first) = self.dropped_tables.kept.pop_front() else { return };
        if let Some(segment) = core.segments.find_mut(first.segment, first.id) {
            let is_pinned = is_pinned(segment);
            let asked_in = segment.group_tables.get(&first.group).map_or(0, |table| table.asked_in);
            if is_pinned || asked_in == self.dropped_tables.round || asked_in > first.asked_in {
                first.asked_in = asked_in;
                return self.dropped_tables.kept.push_back(first);
            }
            segment.group_tables.remove(&first.group);
        }
        assert!(self.dropped_tables.bytes >= first.bytes as u64, "tables in memory are counted");
        self.dropped_tables.bytes -= first.bytes as u64;
    }
}

/// True for a segment whose footers say what its stripe table says. What a crash tore is in none.
fn is_in_footers(segment: &Segment) -> bool {
    segment.state == SegmentState::Sealed && segment.table.is_some() && segment.torn_stripes.is_empty()
}

fn is_pinned(segment: &Segment) -> bool {
    segment.readers > 0 || segment.is_being_rebuilt
}
