//! Segments of the write area: headers in windows like those of segments in area mode, and slots behind the markers. They are opened
//! when all members are active and nothing is left of an area of before, and given up, once all slots are empty, when a member
//! fails or space runs out. They count as segments without data in the reserve's proof.

use crate::log::area::slots::SlotPlaces;
use crate::log::area::{Stage, WriteArea};
use crate::log::config::{ArrayConfig, GC_RESERVE_SEGMENTS, Tuning};
use crate::log::core::Core;
use crate::log::flush::RecoveryFlush;
use crate::log::index::Name;
use crate::log::membership::active_members;
use crate::log::policy::slots::SlotChoice;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::{Effects, Shard};
use base::erasure::PieceSet;
use zone::format::header::{MARKER_BLOCKS, Stream, WriteMode};

impl ArrayConfig {
    /// Places of slots in the zones of the write area, where drives have windows that can be used. Mirrors have none: an array that can
    /// lose some sets of members and not others would have to place copies by that.
    #[must_use]
    pub fn slot_places(&self) -> Option<SlotPlaces> {
        let areas = self.usable_areas()?;
        let code = self.code();
        if code.is_mirrored() || code.tolerance() == 0 {
            return None;
        }
        let places = SlotPlaces {
            members: u32::try_from(self.members).expect("at most 32 members"),
            copies: u32::try_from(code.tolerance()).expect("at most 32 members") + 1,
            blocks: areas.window_blocks - MARKER_BLOCKS,
            first: areas.granule_blocks + MARKER_BLOCKS,
        };
        (places.slots() > 0).then_some(places)
    }

    /// Zones of each drive that the write area gets when so many are asked for: all of them, as many as cost nobody space where fewer
    /// will do, or none.
    #[must_use]
    pub fn write_area_zones(&self, tuning: &Tuning) -> u32 {
        let worth = tuning.write_area_spare.map_or(u32::MAX, |spare| self.write_area_zones_worth(spare));
        let wanted = tuning.write_area_zones.min(worth);
        match self.no_write_area(wanted, tuning) {
            None => wanted,
            Some(NoWriteArea::TooMany { zones_max }) if tuning.write_area_spare.is_some() => zones_max,
            Some(_) => 0,
        }
    }

    /// Zones of each drive that a write area may have, with so many segments to spare for each.
    ///
    /// # Panics
    /// When a zone is to cost no space.
    #[must_use]
    pub fn write_area_zones_worth(&self, spare_of_zone: u32) -> u32 {
        assert!(spare_of_zone > 0, "a zone of the area costs space");
        self.segments_spare() / spare_of_zone
    }

    /// True when drives allow a write area of one zone of each beside what is open for clients; or when they have no windows for it. Of
    /// many segments of clients, those go that stand in its way.
    pub(in crate::log) fn leaves_zones_for_area(&self) -> bool {
        let open = self.open.small + self.open.large;
        open <= OPEN_BESIDE_AREA
            || self.slot_places().is_none()
            || self.has_active_zones(1 + ACTIVE_ZONES_SPARE)
    }

    /// True when drives and volume leave room for a write area of so many zones of each drive.
    pub(in crate::log) fn affords_area(&self, zones: u32) -> bool {
        let has_room = || self.affords(zones, zones + ACTIVE_ZONES_SPARE);
        zones == 0 || zones <= self.area_segments_max() && has_room()
    }

    /// Why the write area cannot have so many zones of each drive.
    #[must_use]
    pub fn no_write_area(&self, zones: u32, tuning: &Tuning) -> Option<NoWriteArea> {
        let fits = |zones: &u32| self.affords_area(*zones);
        if self.code().is_mirrored() || self.code().tolerance() == 0 {
            Some(NoWriteArea::Level)
        } else if self.slot_places().is_none() {
            Some(NoWriteArea::NoWindows)
        } else if self.index_limit(tuning).is_some() {
            Some(NoWriteArea::IndexOnDrives)
        } else if fits(&zones) {
            None
        } else {
            Some(NoWriteArea::TooMany { zones_max: (1..zones).rev().find(fits).unwrap_or(0) })
        }
    }
}

/// Why there is no write area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWriteArea {
    /// Of mirrors, which sets of members may be lost decides where copies would have to be. RAID-0 would keep one copy, and a header that
    /// rots would take those of its zone along.
    Level,
    /// A drive has no windows that can be used, or other ones than the others.
    NoWindows,
    /// Parts of the index are on the drives.
    IndexOnDrives,
    /// Drives or volume leave room for fewer zones.
    TooMany {
        /// Zones of each drive that there is room for.
        zones_max: u32,
    },
}

/// What the area does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AreaState {
    /// It is opened, or given up.
    #[default]
    Between,
    /// It has zones, and slots are written.
    Open,
    /// It has no zones.
    Closed {
        /// It could have.
        has_room: bool,
    },
}

impl Shard {
    /// Why the write area cannot have so many zones of each drive.
    #[must_use]
    pub fn no_write_area(&self, zones: u32) -> Option<NoWriteArea> {
        self.core.config.no_write_area(zones, &self.core.tuning)
    }

    /// Segments without data beside those that can hold none at the worst moment.
    #[must_use]
    pub fn segments_spare(&self) -> u32 {
        self.core.config.segments_spare()
    }

    /// Zones of each drive that the mount chose for the write area; none when it was given up since.
    #[must_use]
    pub fn write_area_zones(&self) -> u32 {
        self.area.zones_wanted
    }

    /// True when the mount chose zones of each drive for a write area, whatever became of it.
    #[must_use]
    pub fn had_write_area(&self) -> bool {
        self.core.tuning.write_area_zones > 0
    }

    /// Opens the area and gives it up, as far as that can go on.
    pub(in crate::log) fn advance_area(&mut self, fx: &mut Effects) {
        self.rescue.slots = self.area.found_count();
        if self.area.found_count() == 0 && !self.area.found.is_empty() {
            for slot in std::mem::take(&mut self.area.found) {
                give_up(&mut self.core, slot);
            }
        }
        self.area.scrubs &= !self.area.is_drained();
        match self.area.stage {
            Stage::Closed if self.may_open_area() => {
                for _ in 0..self.area_zones_now() {
                    let slot = open(&mut self.core, fx);
                    self.area.segments.push(slot);
                }
                self.area.stage.go(Stage::Opening);
            }
            Stage::Opening if self.area.is_opened(&self.core) => {
                let has_windows = self.area.has_windows(&self.core);
                self.area.stage.go(if has_windows { Stage::Open } else { Stage::Retiring });
                if has_windows {
                    self.area.slots.open(u32::try_from(self.area.segments.len()).expect("few zones"));
                } else if self.core.membership.lost_count() == 0 {
                    // A drive that refuses once would refuse again.
                    self.area.zones_wanted = 0;
                }
            }
            Stage::Open => {
                if self.bar_lost() || self.must_retire() {
                    self.area.stage.go(Stage::Retiring);
                }
            }
            Stage::Retiring if self.area.is_drained() && !self.core.membership.is_broken() => {
                assert!(
                    self.area.writes_in_flight == 0,
                    "zones are given up while {} blocks are on their way to slots",
                    self.area.writes_in_flight
                );
                self.area.slots.close();
                self.area.lost = PieceSet::EMPTY;
                for slot in std::mem::take(&mut self.area.segments) {
                    give_up(&mut self.core, slot);
                }
                self.area.stage.go(Stage::Closed);
            }
            Stage::Closed | Stage::Opening | Stage::Retiring => {}
        }
    }

    /// Zones of each drive that the area gets now: those that were chosen, or as many as space is left for.
    fn area_zones_now(&self) -> u32 {
        let wanted = self.area.zones_wanted;
        let left = self.core.segments.free_segments().saturating_sub(GC_RESERVE_SEGMENTS + 1);
        if self.core.tuning.write_area_spare.is_some() { wanted.min(left) } else { wanted }
    }

    /// True when small writes may go to slots: not while clients keep drives busy, where that is to cost no time.
    fn are_slots_of_use(&self) -> bool {
        self.core.slot_use().takes(SlotChoice::Overwrite, &self.area.places, &self.clients.demand)
    }

    /// True when space is short and slots are of no use: then their zones are spare space.
    fn area_yields(&self) -> bool {
        self.core.is_space_short() && !self.are_slots_of_use()
    }

    /// Where slots are of no use no area is opened, though there is room for it now: it would be given up when space is short again, and each
    /// time its zones would be erased.
    fn may_open_area(&self) -> bool {
        self.has_room_for_area()
            && self.core.counters.user_blocks_written >= self.area.opens_at
            && self.are_slots_of_use()
    }

    /// True when nothing is in the way of an area but clients who need the space.
    fn has_room_for_area(&self) -> bool {
        let zones = self.area_zones_now();
        zones > 0
            && self.is_well()
            && self.rescue.flush == RecoveryFlush::Done
            && !self.rescue.is_void
            && self.core.segments.iter().all(|(_, segment)| !segment.is_write_area)
            && self.core.segments.free_segments() > GC_RESERVE_SEGMENTS + zones
            && self.core.segments.area_count() + zones <= self.core.config.area_segments_max()
            && self.core.segments.active_count() + zones + ACTIVE_ZONES_KEPT
                < self.core.config.geometry.active_zones_max
    }

    /// What the area does, for those who judge it.
    pub(in crate::log) fn area_state(&self) -> AreaState {
        match self.area.stage {
            Stage::Open => AreaState::Open,
            Stage::Closed => AreaState::Closed { has_room: self.has_room_for_area() },
            Stage::Opening | Stage::Retiring => AreaState::Between,
        }
    }

    /// Asserts what must hold of slots between events: the index knows nothing of what slots hold.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub(in crate::log) fn check_area(&self) {
        self.area.slots.check_invariants();
        for lba in self.area.slots.live_blocks() {
            assert!(self.core.index.get(Name::Block(lba)).is_none(), "block {lba} is in a slot, and mapped");
            assert!(!self.core.index.is_trimmed(lba), "block {lba} is in a slot, and trimmed");
            assert!(!self.core.index.is_lost(lba), "block {lba} is in a slot, and lost");
        }
    }

    /// What slots still hold at rest that had to leave them: a drive took a zone, or a member with a copy is lost.
    pub(in crate::log) fn slot_left_behind(&self) -> Option<String> {
        let area = &self.area;
        if area.stage != Stage::Open || area.moves_failed || self.core.membership.is_broken() {
            return None;
        }
        let is_taken = |slot: &&SegmentSlot| self.core.segments.get(**slot).has_retired_zone();
        if let Some(slot) = area.segments.iter().find(is_taken) {
            let id = self.core.segments.get(*slot).id;
            return Some(format!(
                "segment {id} of the write area goes on with a zone that took a write no more"
            ));
        }
        let lost = |slot: u32| {
            let mut drives = (0..area.places.copies).map(|copy| area.places.of(slot, copy).0);
            drives.find(|drive| !self.core.membership.is_active(*drive))
        };
        let of_slot = |id: u32| Some((id, lost(id % area.places.slots())?));
        let (id, drive) = area.slots.live_slots().find_map(of_slot)?;
        Some(format!("slot {id} holds a block, and member {drive}, which has a copy, is lost"))
    }

    /// True when all members hold all they should, with windows.
    fn is_well(&self) -> bool {
        self.core.membership.lost_count() == 0
            && !self.core.membership.is_changing()
            && self.core.config.slot_places() == Some(self.area.places)
    }

    fn must_retire(&mut self) -> bool {
        let no_space =
            self.core.segments.free_segments() <= GC_RESERVE_SEGMENTS && self.space().gc_is_at_a_loss();
        if no_space {
            // Zones failed that were part of the reserve: it would run out again.
            self.area.zones_wanted = 0;
        }
        let yields = self.area_yields();
        if yields {
            // An erasure of its zones for as much as they would hold, at most.
            let blocks = u64::from(self.area.zones_wanted) * self.stripes.segment_blocks();
            self.area.opens_at = self.core.counters.user_blocks_written + blocks;
        }
        let is_taken = |slot: &SegmentSlot| self.core.segments.get(*slot).has_retired_zone();
        no_space
            || yields
            || self.core.membership.rebuilding().is_some()
            || self.area.segments.iter().any(is_taken)
            || self.core.config.slot_places() != Some(self.area.places)
    }

    /// Slots with a copy on a member that is lost are barred: what they hold moves at once, and others go on. When the member's place is
    /// given to another drive, the area is given up, and begins anew when that one is rebuilt. True when a member is back without a rebuild:
    /// it lacks what came to slots since.
    fn bar_lost(&mut self) -> bool {
        let pieces = self.core.config.code().pieces();
        let lost = pieces.without(active_members(self.core.membership.record()));
        if lost == self.area.lost {
            return false;
        }
        if !self.area.lost.without(lost).is_empty() {
            return true;
        }
        self.area.lost = lost;
        let places = self.area.places;
        let is_lost = |slot: u32| (0..places.copies).any(|copy| lost.contains(places.of(slot, copy).0));
        self.area.slots.bar(|id| is_lost(id % places.slots()));
        false
    }
}

/// Active zones that the others need while the area is opened: the superblock log's, the collector's and one that is sealed.
const ACTIVE_ZONES_KEPT: u32 = 3;
/// Active zones beside those that must be there, without which an area might never find a moment to open.
const ACTIVE_ZONES_SPARE: u32 = 2;
/// Segments that are open for clients though a write area has no active zones then: with eight, arrays of ZN540s have 1.00 of the
/// throughput with ten (experiment 8, three seeds); fewer were not measured.
const OPEN_BESIDE_AREA: u32 = 8;

impl WriteArea {
    fn is_opened(&self, core: &Core) -> bool {
        self.segments.iter().all(|slot| core.segments.get(*slot).state == SegmentState::Open)
    }

    /// True when each zone got its window.
    fn has_windows(&self, core: &Core) -> bool {
        self.segments.iter().all(|slot| {
            let writer = core.segments.get(*slot).writer.as_ref().expect("a segment that is open");
            writer.zones.iter().all(|zone| zone.window.is_some())
        })
    }
}

/// Takes a zone of every drive and begins the headers.
fn open(core: &mut Core, fx: &mut Effects) -> SegmentSlot {
    let layout = core.config.layout(Stream::Small, WriteMode::Area);
    let zones = core.segments.take_zones(None);
    let segment = core.new_segment(Stream::Small, WriteMode::Area, &layout, zones);
    core.begin_segment(Segment { is_write_area: true, ..segment }, fx)
}

/// Nothing that slots of a segment hold is needed any more: it is erased like any that cannot be completed.
fn give_up(core: &mut Core, slot: SegmentSlot) {
    if core.segments.get(slot).writer.is_some() {
        core.segments.drop_writer(slot);
    }
    core.segments.get_mut(slot).enter(SegmentState::Condemned);
    core.segments.evacuate(slot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::config::test_array;
    use zone::device::Areas;

    #[test]
    fn an_area_is_as_large_as_asked_for_or_as_there_is_room_for() {
        let areas = Areas { zones_max: 14, window_blocks: 64, granule_blocks: 4, explicit_commit: true };
        let array = |zones, active_zones_max, percent| {
            let mut config = test_array::array(400, zones, active_zones_max, percent);
            config.geometry.areas = Some(areas);
            config
        };
        let zones = |config: &ArrayConfig, write_area_zones, write_area_spare| {
            config.write_area_zones(&Tuning { write_area_zones, write_area_spare, ..Tuning::default() })
        };
        let roomy = array(200, 40, 50);
        let spare = roomy.segments_spare();
        assert_eq!((zones(&roomy, 8, None), zones(&roomy, 8, Some(1))), (8, 8));
        assert_eq!((zones(&roomy, 8, Some(spare / 3)), zones(&roomy, 8, Some(spare + 1))), (3, 0));
        for config in [array(200, 9, 50), array(60, 40, 100)] {
            assert_eq!(zones(&config, 8, None), 0, "all or none");
            let fewer = zones(&config, 8, Some(1));
            assert!((1..8).contains(&fewer), "{fewer}");
            assert_eq!(zones(&config, fewer, None), fewer);
            assert_eq!(zones(&config, fewer + 1, None), 0, "there is room for no more");
        }
        let none = ArrayConfig { geometry: test_array::array(400, 200, 40, 50).geometry, ..roomy };
        assert_eq!(zones(&none, 8, Some(1)), 0, "no windows");
    }
}
