//! What a block answers when it is asked what it is, and when an answer is believed: any one may be that of another block,
//! once (ADR 11).

use base::frame::Frame;
use base::units::ZoneIndex;
use std::collections::BTreeMap;
use zone::format::footer::Entry;
use zone::format::header::WriteMode;
use zone::format::oob::{self, Bound, Role};
use zone::stripe::{Layout, StripeNumber};

/// Times that a block is read again until it says the same thrice.
const READ_AGAIN_MAX: usize = 6;

/// A zone of a segment, whose blocks are asked.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// First 8 bytes of the array UUID.
    pub array: u64,
    /// Segment id.
    pub segment: u64,
    /// Write mode of the segment.
    pub mode: WriteMode,
    /// Layout of its stripes.
    pub layout: &'a Layout,
    /// Member whose zone it is.
    pub member: usize,
    /// The zone.
    pub zone: ZoneIndex,
}

/// Answer of a block about itself.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Entry of the block; `None` when its metadata is not whole, void when it does not belong where it was read, as
    /// behind the end of a torn chunk.
    pub entry: Option<Entry>,
    /// True when the block is certainly the one that was written there.
    pub is_certain: bool,
}

impl Asked<'_> {
    /// Interprets what was read from an offset of the zone.
    #[must_use]
    pub fn answer(&self, offset: u32, frame: &Frame) -> Answer {
        let entry = self.entry(offset, frame);
        let is_certain = entry.is_some_and(|entry| entry.whole || self.is_filler_of(offset, frame));
        Answer { entry, is_certain }
    }

    /// True for the filler of an offset. It names its slot: one of another slot was read from there.
    fn is_filler_of(&self, offset: u32, frame: &Frame) -> bool {
        let hint = oob::guess(&frame.oob);
        let slot = self.layout.slot_at(offset).map(|(slot, _)| slot);
        hint.is_filler && Some(hint.stripe.static_slot()) == slot
    }

    /// True for a block that is whole, and of another group or segment of this zone: another server appended it when those had ended
    /// here (ADR 73). Nothing of what belongs here ever lay in its place, so it is no damage.
    fn is_stray(&self, frame: &Frame) -> bool {
        let hint = oob::guess(&frame.oob);
        let group = self.layout.group_of(hint.stripe);
        let bound = Bound { array: self.array, zone: self.zone, group };
        self.mode == WriteMode::Append && oob::open(&frame.oob, &bound).is_some()
    }

    fn entry(&self, offset: u32, frame: &Frame) -> Option<Entry> {
        // A power failure left the write pointer behind a block that never arrived.
        if frame.is_blank() {
            return Some(Entry::VOID);
        }
        let (slot, row) = self.layout.slot_at(offset)?;
        let group = self.layout.group_of_slot(slot);
        let bound = Bound { array: self.array, zone: self.zone, group };
        let opened = oob::open(&frame.oob, &bound).filter(|oob| oob.place.segment == self.segment);
        let Some(oob::Oob { place, .. }) = opened else {
            return self.is_stray(frame).then_some(Entry::VOID);
        };
        if matches!(place.role, Role::Filler | Role::Slot) {
            return Some(Entry::VOID);
        }
        let static_place = !self.mode.has_static_slots() || place.stripe.static_slot() == slot;
        let belongs = self.layout.has_stripe(place.stripe)
            && static_place
            && self.layout.group_of(place.stripe) == group
            && place.piece == self.layout.piece_of(place.stripe, self.member)
            && u32::from(place.row) == row;
        if !belongs {
            return Some(Entry::VOID);
        }
        Entry::from_protected(&frame.oob, place.role, place.stripe)
    }
}

/// Why a block is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The block is damaged, or belongs elsewhere, or nothing seems to be there.
    NotItself,
    /// A second block says that it is the same one.
    SaidTwice,
}

/// A block whose answer is in doubt: it is read again until it says what is certain, or the same thrice. A hole that is
/// taken for a damaged block once, and for a hole the next time, would change what counts.
#[derive(Debug)]
pub struct Question {
    doubt: Doubt,
    answers: Vec<Option<Entry>>,
}

impl Question {
    /// A block said this, which may not be true.
    #[must_use]
    pub fn of(doubt: Doubt, said: Option<Entry>) -> Question {
        Question { doubt, answers: vec![said] }
    }

    /// Hears the next answer, which now counts; true when it need not be asked again.
    pub fn hear(&mut self, answer: &Answer) -> bool {
        assert!(self.answers.len() <= READ_AGAIN_MAX, "a block answers for good");
        let times = self.answers.iter().filter(|before| **before == answer.entry).count();
        let is_certain = answer.is_certain && self.doubt == Doubt::NotItself;
        self.answers.push(answer.entry);
        is_certain || times == 2 || self.answers.len() > READ_AGAIN_MAX
    }
}

/// Places of blocks that say they are the same: one of them was read from another place.
#[must_use]
pub fn said_twice(entries: &[Option<Entry>], chunk_blocks: u32) -> Vec<u32> {
    let mut first: BTreeMap<(StripeNumber, u32), u32> = BTreeMap::new();
    let mut twice = Vec::new();
    for (place, entry) in (0..).zip(entries) {
        let Some(entry) = entry.filter(|entry| entry.whole) else { continue };
        let before = *first.entry((entry.stripe, place % chunk_blocks)).or_insert(place);
        if before != place {
            twice.extend([before, place]);
        }
    }
    twice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(entry: Option<Entry>, is_certain: bool) -> Answer {
        Answer { entry, is_certain }
    }

    #[test]
    fn what_is_certain_counts_at_once_unless_two_blocks_say_it() {
        let whole = answer(Some(Entry { whole: true, ..Entry::VOID }), true);
        assert!(Question::of(Doubt::NotItself, None).hear(&whole));
        let mut said_twice =
            Question::of(Doubt::SaidTwice, Some(Entry { stripe: StripeNumber(7), ..Entry::VOID }));
        assert!(!said_twice.hear(&whole) && !said_twice.hear(&whole) && said_twice.hear(&whole));
    }

    #[test]
    fn a_second_answer_that_is_not_certain_counts_when_it_was_given_thrice() {
        let (damaged, hole) = (answer(None, false), answer(Some(Entry::VOID), false));
        let mut question = Question::of(Doubt::NotItself, damaged.entry);
        assert!(!question.hear(&hole), "a hole that was taken for damage, or the other way round");
        assert!(!question.hear(&damaged));
        assert!(!question.hear(&hole));
        assert!(question.hear(&damaged), "the first answer, and two like it");
    }

    #[test]
    fn a_block_that_always_says_something_else_is_not_asked_for_ever() {
        let other = |stripe| answer(Some(Entry { stripe: StripeNumber(stripe), ..Entry::VOID }), false);
        let mut question = Question::of(Doubt::NotItself, None);
        let heard: Vec<bool> = (1..=6).map(|stripe| question.hear(&other(stripe))).collect();
        assert_eq!(heard, [false, false, false, false, false, true]);
    }
}
