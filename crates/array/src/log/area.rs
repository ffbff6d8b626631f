//! The write area: small writes are copied to slots of one block in the windows of zones that hold nothing else (ADR 53).
//!
//! ```text
//!  partial stripe ─ spill ─┐                     every copy durable      ┌─ answer
//!                          ├─> slot ─ m + 1 writes ────────────────────> ┤
//!  small write ────────────┘    ^                                        └─ unmapped in the index: reads ask the slot
//!                               │ overwritten in place
//!                               └─ slots run out, a member fails, a trim, a checkpoint ─> moved in stripes ─> index
//! ```
//! A small write goes over the slot of its block, or to a free one if it is likely to be overwritten soon (`lifetime.rs`).
//! `slots`: what each slot holds, and where its copies lie. `free`: which of those that are free is next. `order`: which of them leaves next. `writes`: blocks on their way to slots. `moves`: blocks on their way to the
//! log. `zones`: segments of the area, from opening to erasure. What a mount makes of an area of before: `mount/write_area.rs`.

mod free;
mod moves;
mod order;
pub mod slots;
mod writes;
mod zones;

use crate::log::config::ArrayConfig;
use crate::log::lifetime::Lifetimes;
use crate::log::segment::SegmentSlot;
use crate::log::status::WriteAreaStatus;
use base::erasure::PieceSet;
use base::units::Lba;
use slots::{SlotPlaces, Slots, Version};
use std::ops::Range;
pub use zones::{AreaState, NoWriteArea};

/// Writes of slots in flight, at most: more than drives have queues.
pub const SLOT_WRITES_MAX: usize = 256;

/// State of the zones of the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There are none, or only such as a mount found.
    Closed,
    /// Their headers are on their way.
    Opening,
    /// Slots are written.
    Open,
    /// Slots are emptied, and the zones given up.
    Retiring,
}

impl Stage {
    /// Another state follows.
    fn go(&mut self, next: Stage) {
        let may_follow = matches!(
            (*self, next),
            (Stage::Closed, Stage::Opening)
                | (Stage::Opening, Stage::Open | Stage::Retiring)
                | (Stage::Open, Stage::Retiring)
                | (Stage::Retiring, Stage::Closed)
        );
        assert!(may_follow, "the write area goes from {self:?} to {next:?}");
        *self = next;
    }
}

/// The write area.
#[derive(Debug)]
pub struct WriteArea {
    /// Zones of each drive that are to be used; none where the area is off.
    zones_wanted: u32,
    places: SlotPlaces,
    stage: Stage,
    /// Segments of the area, in the order of their slots.
    segments: Vec<SegmentSlot>,
    /// Segments of the area that a mount found, until what they hold is in the log.
    found: Vec<SegmentSlot>,
    slots: Slots,
    /// Writes in flight.
    writes_in_flight: usize,
    /// Their copies that each drive has.
    copies_in_flight: Vec<u32>,
    /// Slots whose copies are written but for a member whose failure is not recorded yet.
    awaits_record: Vec<u32>,
    /// Slots of which a zone took no copy, until a stripe has what was to be written.
    awaits_log: Vec<u32>,
    /// Members that are lost: what has a copy there leaves.
    lost: PieceSet,
    /// A checkpoint waits until no slot is in use.
    drains: bool,
    /// A scrub waits until no slot is in use: copies of what is in slots are on drives that nobody compares.
    scrubs: bool,
    /// A trim waits until no block of this range has a slot.
    trims: Option<Range<u64>>,
    /// Set when a stripe with moved blocks could be written nowhere, until space is freed.
    moves_failed: bool,
    /// Blocks that clients have written when the area may be opened again.
    opens_at: u64,
}

impl WriteArea {
    /// The area of a volume that was mounted: so many zones of each drive will be used; a mount found these blocks in the zones of
    /// these segments.
    #[must_use]
    pub fn new(
        config: &ArrayConfig,
        (zones_wanted, lifetimes): (u32, Lifetimes),
        found: Vec<SegmentSlot>,
        blocks: Vec<(Lba, Version)>,
    ) -> WriteArea {
        let places = config.slot_places();
        assert!(
            zones_wanted == 0 || places.is_some_and(|places| places.slots() > 0),
            "a zone of the area has slots"
        );
        assert!(blocks.is_empty() || !found.is_empty(), "what was found lies somewhere");
        let places = places.unwrap_or(SlotPlaces { members: 1, copies: 1, blocks: 0, first: 0 });
        WriteArea {
            zones_wanted,
            places,
            stage: Stage::Closed,
            segments: Vec::new(),
            found,
            slots: Slots::new(lifetimes, places, zones_wanted, blocks),
            writes_in_flight: 0,
            copies_in_flight: vec![0; config.members],
            awaits_record: Vec::new(),
            awaits_log: Vec::new(),
            lost: PieceSet::EMPTY,
            drains: false,
            scrubs: false,
            trims: None,
            moves_failed: false,
            opens_at: 0,
        }
    }

    /// Frames that an area of so many zones and found blocks may hold, beside those of stripes.
    #[must_use]
    pub fn frames_max(config: &ArrayConfig, zones: u32, found: usize) -> usize {
        let Some(places) = config.slot_places().filter(|_| zones > 0) else { return found };
        let writes = SLOT_WRITES_MAX * (places.copies as usize + 1);
        (places.slots() * zones) as usize + writes + found
    }

    /// The newest version of a block, if a slot holds it.
    #[must_use]
    pub fn read(&self, lba: Lba) -> Option<&Version> {
        self.slots.version_of(lba)
    }

    /// True when no zone is to be used.
    #[inline]
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.zones_wanted == 0
    }

    /// True when no slot is in use.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.slots.used_count() == 0
    }

    /// Blocks that a mount found and that are not in the log yet.
    #[must_use]
    pub fn found_count(&self) -> u32 {
        self.slots.found_count()
    }

    /// Slots are to be emptied for a checkpoint, or may be filled again.
    pub fn drain(&mut self, drains: bool) {
        self.drains = drains;
    }

    /// A scrub begins: what slots hold goes to the log once, where it is whole.
    pub fn begin_scrub(&mut self) {
        self.scrubs = !self.is_drained();
    }

    /// True while a scrub has to wait for that.
    #[must_use]
    pub fn holds_scrub(&self) -> bool {
        self.scrubs && !self.moves_failed
    }

    /// Slots.
    #[must_use]
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// For an operator; `None` where it is off.
    #[must_use]
    pub fn status(&self, members: usize) -> Option<WriteAreaStatus> {
        let zones = self.segments.len();
        (self.zones_wanted > 0 || zones > 0 || self.slots.used_count() > 0).then(|| WriteAreaStatus {
            zones: (zones * members) as u64,
            slots: zones as u64 * u64::from(self.places.slots()),
            live: self.slots.durable_count(),
        })
    }
}
