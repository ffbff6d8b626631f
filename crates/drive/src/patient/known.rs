//! What is known of a zone: how far it is written, by what was answered.

use super::settle::Orphans;
use zone::device::{ZoneDescriptor, ZoneState};

/// Zone as the answers of its drive have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// All blocks before this one were written, by commands that were answered.
    solid: u32,
    /// Blocks beyond that were: from and to, in order. Others before them are on their way.
    islands: Vec<(u32, u32)>,
    /// Full without all of its blocks, read-only or offline.
    sealed: Option<ZoneState>,
    /// It has a window, where blocks are written in any order, and again.
    has_window: bool,
    /// A command was refused by the media: it may have written something.
    is_vague: bool,
    /// A command left blocks behind that belong to none: what is appended now lies where nobody expects it.
    pub(super) is_spoilt: bool,
}

/// State of a zone after a hiccup, by a report and what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Written so far: by what is known, and by commands whose fate is not.
    Written { end: u32 },
    /// Empty, by a reset whose fate is not known; or as before, if there was such a reset or finish.
    Managed,
    /// Written further, or not, by a command that the media had refused; or finished with writes in flight.
    Vague,
}

impl Line {
    /// A zone as a report has it.
    pub(super) fn of(found: &ZoneDescriptor) -> Line {
        let sealed = match found.state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => Some(found.state),
            ZoneState::Empty | ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => None,
        };
        let solid = if sealed.is_some() { 0 } else { found.write_pointer };
        Line { solid, sealed, has_window: found.has_area, ..Line::default() }
    }

    /// Number of blocks from the start of the zone that were all acknowledged.
    pub(super) fn solid(&self) -> u32 {
        self.solid
    }

    /// The zone is as a report has it, whatever was known.
    pub(super) fn learn(&mut self, found: &ZoneDescriptor) {
        let Line { is_vague, is_spoilt, .. } = *self;
        *self = Line { is_vague, is_spoilt, ..Line::of(found) };
    }

    /// Blocks were written.
    pub(super) fn wrote(&mut self, from: u32, count: u32) {
        if self.has_window {
            return;
        }
        let at = self.islands.partition_point(|(other, _)| *other < from);
        self.islands.insert(at, (from, from + count));
        let mut joined = 0;
        while let Some((from, to)) = self.islands.get(joined).copied()
            && from <= self.solid
        {
            self.solid = self.solid.max(to);
            joined += 1;
        }
        self.islands.drain(..joined);
    }

    /// True when nothing that was answered lies there: an append goes nowhere else, unless the drive has lost blocks.
    pub(super) fn is_free(&self, from: u32, count: u32) -> bool {
        let is_apart = |(start, end): &(u32, u32)| from + count <= *start || *end <= from;
        self.sealed.is_none() && from >= self.solid && self.islands.iter().all(is_apart)
    }

    /// The zone was reset.
    pub(super) fn emptied(&mut self) {
        *self = Line::default();
    }

    /// The zone was finished.
    pub(super) fn finished(&mut self) {
        self.sealed = Some(ZoneState::Full);
    }

    /// The zone got a window.
    pub(super) fn got_window(&mut self) {
        self.has_window = true;
    }

    /// A command to the zone was refused.
    pub(super) fn doubt(&mut self) {
        self.is_vague = true;
    }

    /// End of the last block that was written for certain.
    fn end(&self) -> u32 {
        self.islands.last().map_or(self.solid, |(_, to)| *to)
    }

    /// Blocks that were written for certain.
    fn confirmed(&self) -> u32 {
        self.solid + self.islands.iter().map(|(from, to)| to - from).sum::<u32>()
    }

    /// Blocks before `end` that commands have written whose fate is not known: from and to, in order.
    pub(super) fn gaps(&self, end: u32) -> Vec<(u32, u32)> {
        let from = std::iter::once(self.solid).chain(self.islands.iter().map(|(_, to)| *to));
        let to = self.islands.iter().map(|(from, _)| *from).chain([end]);
        from.zip(to).filter(|(from, to)| from < to).collect()
    }

    /// Explains what a report says of the zone by what is known and by the commands whose fate is not; `None` when somebody
    /// else wrote or reset it, or something was lost.
    pub(super) fn explain(&self, found: &ZoneDescriptor, orphans: Orphans, capacity: u32) -> Option<Found> {
        let Orphans { blocks, resets, finishes } = orphans;
        // No engine asks for that.
        if resets > 0 && (blocks > 0 || finishes > 0) {
            return None;
        }
        let pointer = match found.state {
            ZoneState::Full => Some(capacity),
            ZoneState::ReadOnly | ZoneState::Offline => None,
            ZoneState::Empty | ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
                Some(found.write_pointer)
            }
        };
        if resets > 0 && pointer == Some(0) {
            return Some(Found::Managed);
        }
        // Zones turn by themselves, at any time. What such a zone holds, reads tell.
        if found.state.has_turned() && self.sealed != Some(found.state) {
            return Some(Found::Vague);
        }
        if self.is_vague && self.sealed.is_none() {
            return pointer.is_none_or(|pointer| pointer >= self.end()).then_some(Found::Vague);
        }
        if let Some(sealed) = self.sealed {
            return (sealed == found.state).then_some(Found::Managed);
        }
        if finishes > 0 && found.state == ZoneState::Full {
            return Some(if blocks > 0 { Found::Vague } else { Found::Managed });
        }
        let end = pointer?;
        let is_explained = end >= self.end() && end - self.confirmed() <= blocks;
        is_explained.then_some(Found::Written { end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u32 = 100;

    fn zone(state: ZoneState, write_pointer: u32) -> ZoneDescriptor {
        ZoneDescriptor { state, write_pointer, capacity: CAPACITY, has_area: false }
    }

    fn writes(blocks: u32) -> Orphans {
        Orphans { blocks, ..Orphans::default() }
    }

    #[test]
    fn answers_in_any_order_make_one_extent() {
        let mut line = Line::of(&zone(ZoneState::Closed, 10));
        line.wrote(14, 2);
        line.wrote(20, 4);
        assert_eq!(line.gaps(30), [(10, 14), (16, 20), (24, 30)]);
        let free = [(9, 1), (10, 4), (12, 3), (16, 4), (19, 2), (24, 8)]
            .map(|(from, count)| line.is_free(from, count));
        assert_eq!(free, [false, true, false, true, false, true]);
        line.wrote(16, 4);
        assert_eq!(line.gaps(24), [(10, 14)]);
        line.wrote(10, 4);
        assert_eq!((line.gaps(24), line.end(), line.confirmed()), (vec![], 24, 24));
        assert_eq!(line, Line::of(&zone(ZoneState::ImplicitOpen, 24)));
    }

    #[test]
    fn a_pointer_lies_between_what_is_known_and_what_was_in_flight() {
        let mut line = Line::of(&zone(ZoneState::ImplicitOpen, 10));
        line.wrote(14, 2);
        let at = |pointer| line.explain(&zone(ZoneState::Closed, pointer), writes(8), CAPACITY);
        assert_eq!(at(15), None, "a block that was answered is lost");
        assert_eq!(at(16), Some(Found::Written { end: 16 }));
        assert_eq!(at(20), Some(Found::Written { end: 20 }));
        assert_eq!(at(21), None, "more than was in flight");
        let full = zone(ZoneState::Full, u32::MAX);
        assert_eq!(line.explain(&full, writes(8), CAPACITY), None);
        assert_eq!(line.explain(&full, writes(88), CAPACITY), Some(Found::Written { end: CAPACITY }));
    }

    #[test]
    fn a_zone_may_turn_while_its_drive_is_away() {
        let none = Orphans::default();
        let turned = [ZoneState::ReadOnly, ZoneState::Offline].map(|state| zone(state, u32::MAX));
        let open = Line::of(&zone(ZoneState::ImplicitOpen, 10));
        let full = Line::of(&zone(ZoneState::Full, u32::MAX));
        for found in &turned {
            assert_eq!(open.explain(found, writes(8), CAPACITY), Some(Found::Vague));
            assert_eq!(open.explain(found, none, CAPACITY), Some(Found::Vague));
            assert_eq!(full.explain(found, none, CAPACITY), Some(Found::Vague));
        }
        let [read_only, offline] = turned;
        let known = Line::of(&read_only);
        assert_eq!(known.explain(&read_only, none, CAPACITY), Some(Found::Managed));
        assert_eq!(known.explain(&offline, none, CAPACITY), Some(Found::Vague));
        assert_eq!(known.explain(&zone(ZoneState::Full, u32::MAX), none, CAPACITY), None, "that never ends");
        assert_eq!(known.explain(&zone(ZoneState::Empty, 0), none, CAPACITY), None);
    }

    #[test]
    fn a_zone_without_commands_in_flight_is_where_it_was() {
        let line = Line::of(&zone(ZoneState::ExplicitOpen, 0));
        let none = Orphans::default();
        assert_eq!(line.explain(&zone(ZoneState::Empty, 0), none, CAPACITY), Some(Found::Written { end: 0 }));
        assert_eq!(line.explain(&zone(ZoneState::Closed, 1), none, CAPACITY), None, "somebody writes");
        let full = Line::of(&zone(ZoneState::Full, u32::MAX));
        assert_eq!(full.explain(&zone(ZoneState::Full, u32::MAX), none, CAPACITY), Some(Found::Managed));
        assert_eq!(full.explain(&zone(ZoneState::Empty, 0), none, CAPACITY), None, "somebody resets");
        let reset = Orphans { resets: 1, ..none };
        assert_eq!(full.explain(&zone(ZoneState::Empty, 0), reset, CAPACITY), Some(Found::Managed));
        assert_eq!(full.explain(&zone(ZoneState::Full, u32::MAX), reset, CAPACITY), Some(Found::Managed));
        assert_eq!(full.explain(&zone(ZoneState::Closed, 4), reset, CAPACITY), None);
    }

    #[test]
    fn what_a_refused_command_wrote_is_not_known() {
        let mut line = Line::of(&zone(ZoneState::ImplicitOpen, 10));
        line.doubt();
        let none = Orphans::default();
        assert_eq!(line.explain(&zone(ZoneState::Closed, 13), none, CAPACITY), Some(Found::Vague));
        assert_eq!(line.explain(&zone(ZoneState::ReadOnly, u32::MAX), none, CAPACITY), Some(Found::Vague));
        assert_eq!(line.explain(&zone(ZoneState::Closed, 9), none, CAPACITY), None);
        line.finished();
        assert_eq!(line.explain(&zone(ZoneState::Closed, 13), none, CAPACITY), None, "it was full");
        line.emptied();
        assert_eq!(line, Line::of(&zone(ZoneState::Empty, 0)));
    }
}
