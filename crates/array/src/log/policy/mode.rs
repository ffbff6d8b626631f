//! Write modes: whether segments of clients are written in random write areas (ADR 52).
//!
//! Area mode is used where the array asks for it and all drives have areas that are alike, that commit when told to, that
//! are large enough, and whose contents survive a power failure without a flush. A segment takes an area of each drive until its zones are full; when the drives have none left,
//! the next segment is written with Zone Write.

use crate::log::config::{AppendUse, ArrayConfig};
use crate::log::policy::Space;
use zone::device::{Areas, Geometry};
use zone::format::header::WriteMode;

impl ArrayConfig {
    /// Areas in which segments of clients are written, if they are.
    #[must_use]
    pub fn areas(&self) -> Option<Areas> {
        self.usable_areas().filter(|_| self.open.append == AppendUse::Areas)
    }

    /// Areas that could be written in, for all drives have them and they are alike and as they must be.
    #[must_use]
    pub fn usable_areas(&self) -> Option<Areas> {
        let areas = self.geometry.areas?;
        let Areas { zones_max, window_blocks, granule_blocks, explicit_commit } = areas;
        let is_whole = |blocks: u32| granule_blocks > 0 && blocks.is_multiple_of(granule_blocks);
        let large = if self.open.large > 0 { self.open.large_chunk_blocks } else { 0 };
        // A chunk behind what is durable must not commit all of that.
        let blocks_min = self.chunk_blocks.max(large).saturating_add(granule_blocks);
        let works = explicit_commit
            && !self.geometry.volatile_cache
            && zones_max > 0
            && is_whole(window_blocks)
            && is_whole(self.geometry.zone_capacity_blocks)
            && granule_blocks < self.geometry.transfer_blocks_max
            && blocks_min <= window_blocks;
        Some(areas).filter(|_| works)
    }

    /// Segments that may be in area mode at once: areas are opened explicitly, and no drive closes such a zone to open
    /// another.
    #[must_use]
    pub fn area_segments_max(&self) -> u32 {
        let open_max = self.geometry.open_zones_max.saturating_sub(1);
        self.usable_areas().map_or(0, |areas| areas.zones_max.min(open_max))
    }
}

impl Space<'_> {
    /// Returns the mode of a segment that is opened now in a place of a mode.
    pub(in crate::log) fn mode_of_next(&self, place: WriteMode) -> WriteMode {
        let has_area = self.core.segments.area_count() < self.core.config.area_segments_max();
        match place {
            WriteMode::Area if !has_area => WriteMode::Write,
            mode => mode,
        }
    }
}

/// Returns the areas that two drives have in common: those of unlike drives are not used.
#[must_use]
pub fn common_areas(one: &Geometry, other: &Geometry) -> Option<Areas> {
    let (one, other) = (one.areas?, other.areas?);
    let zones_max = one.zones_max.min(other.zones_max);
    let common = Areas { zones_max, ..one };
    (common == Areas { zones_max, ..other }).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::config::test_array;
    use zone::format::header::Stream;

    const AREAS: Areas =
        Areas { zones_max: 14, window_blocks: 256, granule_blocks: 4, explicit_commit: true };

    fn array(areas: Areas) -> ArrayConfig {
        let mut config = test_array::array(400, 100, 14, 80);
        config.geometry.areas = Some(areas);
        config.open.append = AppendUse::Areas;
        config
    }

    #[test]
    fn areas_are_used_where_they_can_be() {
        let config = array(AREAS);
        assert_eq!((config.areas(), config.area_segments_max()), (Some(AREAS), 13));
        assert_eq!(config.modes(Stream::Small), [WriteMode::Area]);
        assert_eq!(config.modes(Stream::Gc), [WriteMode::Write]);
        let header_blocks = |config: &ArrayConfig| config.layouts(Stream::Small)[0].header_blocks;
        assert_eq!(header_blocks(&config), 5, "a granule and the marker");
        let unfit = [
            Areas { explicit_commit: false, ..AREAS },
            Areas { zones_max: 0, ..AREAS },
            Areas { window_blocks: 254, ..AREAS },
            Areas { window_blocks: 256, granule_blocks: 128, ..AREAS },
            Areas { window_blocks: 3, granule_blocks: 3, ..AREAS },
        ];
        for areas in unfit {
            let config = array(areas);
            assert_eq!((config.areas(), config.area_segments_max()), (None, 0), "{areas:?}");
            assert_eq!((config.modes(Stream::Small), header_blocks(&config)), (vec![WriteMode::Write], 1));
        }
        let small = array(Areas { window_blocks: 4, ..AREAS });
        assert!(
            small.areas().is_none(),
            "a chunk of one block would leave nothing that is durable in the window"
        );
        let mut chunks = array(Areas { window_blocks: 8, ..AREAS });
        chunks.chunk_blocks = 4;
        assert!(chunks.areas().is_some(), "a chunk moves the window by what is durable");
        chunks.chunk_blocks = 5;
        assert!(chunks.areas().is_none(), "one of five would need a granule more");
        let mut forgetful = array(AREAS);
        forgetful.geometry.volatile_cache = true;
        assert_eq!(forgetful.areas(), None, "headers and blocks of a window could be lost each by itself");
        let not_asked = ArrayConfig { open: test_array::array(400, 100, 14, 80).open, ..array(AREAS) };
        assert_eq!(not_asked.areas(), None);
    }

    #[test]
    fn unlike_drives_have_no_areas_in_common() {
        let with = |areas| Geometry { areas, ..array(AREAS).geometry };
        let few = Areas { zones_max: 3, ..AREAS };
        assert_eq!(common_areas(&with(Some(AREAS)), &with(Some(few))), Some(few));
        assert_eq!(common_areas(&with(Some(AREAS)), &with(None)), None);
        let other = Areas { granule_blocks: 8, ..AREAS };
        assert_eq!(common_areas(&with(Some(AREAS)), &with(Some(other))), None);
    }
}
