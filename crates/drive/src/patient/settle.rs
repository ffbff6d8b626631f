//! What became of the commands of a zone that nobody answered: read, not guessed.
//!
//! ```text
//!   known          reported
//!     │  ■■■■  ■■    │          gaps: blocks before the pointer that no answered command wrote
//!     └gap─┘ └gap┘                    each is what commands in flight wrote: it is compared with their frames
//! ```

use base::frame::Frame;
use std::collections::BTreeMap;

/// Commands to a zone whose fate is not known, by what they may have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orphans {
    /// Blocks of writes and appends.
    pub(super) blocks: u32,
    /// Resets of the zone.
    pub(super) resets: u32,
    /// Finishes of the zone.
    pub(super) finishes: u32,
}

/// A write or an append whose fate is not known.
#[derive(Debug)]
pub(super) struct Orphan<'a> {
    /// First block, of a write.
    pub(super) offset: Option<u32>,
    /// Its contents.
    pub(super) frames: &'a [Frame],
    /// The drive keeps metadata: what it has is compared with them, too.
    pub(super) has_metadata: bool,
}

impl Orphan<'_> {
    /// True when this is one of its blocks.
    fn is_same(&self, own: &Frame, found: &Frame) -> bool {
        own.data == found.data && (!self.has_metadata || own.oob == found.oob)
    }
}

/// What became of a write or an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was carried out, from this block on.
    Landed(u32),
    /// So many of its blocks were written; the others may follow.
    Partly(u32),
    /// It was not carried out.
    Not,
    /// It, or one before it, was carried out in part, and the rest has no place any more.
    Torn,
}

/// Blocks of a zone by their place; none for those that cannot be read.
pub(super) type Blocks = BTreeMap<u32, Option<Frame>>;

/// Says what became of each of a zone's commands, in the order in which they were given, by the blocks in its gaps. `None` when
/// these hold what no command wrote.
pub(super) fn fates(gaps: &[(u32, u32)], blocks: &Blocks, orphans: &[Orphan<'_>]) -> Option<Vec<Fate>> {
    let mut fates = vec![Fate::Not; orphans.len()];
    let is_whole = gaps.iter().all(|gap| {
        let is_last = gaps.last() == Some(gap);
        assign((gap.0, gap.1, is_last), blocks, orphans, &mut fates)
    });
    if !is_whole {
        let is_ours = |frame: &Frame| {
            let is_of = |orphan: &Orphan<'_>| orphan.frames.iter().any(|own| orphan.is_same(own, frame));
            frame.is_blank() || orphans.iter().any(is_of)
        };
        if !blocks.values().flatten().all(is_ours) {
            return None;
        }
        let rest = fates.iter_mut().filter(|fate| !matches!(fate, Fate::Landed(_)));
        rest.for_each(|fate| *fate = Fate::Torn);
    }
    Some(fates)
}

/// Assigns the blocks of a gap to commands; false when some belong to none. The last gap may end within a write.
fn assign(
    (mut at, to, is_last): (u32, u32, bool),
    blocks: &Blocks,
    orphans: &[Orphan<'_>],
    fates: &mut [Fate],
) -> bool {
    while at < to {
        let left = (to - at) as usize;
        let begins = |index: &usize| {
            let orphan = &orphans[*index];
            let holds = |(at, own): (u32, &Frame)| {
                blocks.get(&at).and_then(Option::as_ref).is_some_and(|found| orphan.is_same(own, found))
            };
            fates[*index] == Fate::Not
                && orphan.offset.is_none_or(|offset| offset == at)
                && (at..).zip(orphan.frames.iter().take(left)).all(holds)
        };
        let found = || (0..orphans.len()).filter(begins);
        let whole = found().find(|index| orphans[*index].frames.len() <= left);
        let part = || found().find(|index| is_last && orphans[*index].offset.is_some());
        match (whole, whole.or_else(part)) {
            (Some(index), _) => {
                fates[index] = Fate::Landed(at);
                at += u32::try_from(orphans[index].frames.len()).expect("a transfer");
            }
            (None, Some(index)) => {
                fates[index] = Fate::Partly(to - at);
                at = to;
            }
            (None, None) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(byte: u8) -> Frame {
        let mut frame = Frame::zeroed();
        (frame.data[7], frame.oob[9]) = (byte, byte);
        frame
    }

    fn frames(bytes: &[u8]) -> Vec<Frame> {
        bytes.iter().map(|byte| frame(*byte)).collect()
    }

    /// What becomes of commands when these bytes are found from block 10 on.
    fn fates_of(found: &[u8], writes: &[(Option<u32>, &[u8])]) -> Option<Vec<Fate>> {
        fates_where(true, frames(found), writes)
    }

    fn fates_where(
        has_metadata: bool,
        found: Vec<Frame>,
        writes: &[(Option<u32>, &[u8])],
    ) -> Option<Vec<Fate>> {
        let is_empty = found.is_empty();
        let end = 10 + u32::try_from(found.len()).unwrap();
        let blocks: Blocks = (10..).zip(found.into_iter().map(Some)).collect();
        let contents: Vec<Vec<Frame>> = writes.iter().map(|(_, bytes)| frames(bytes)).collect();
        let orphans: Vec<Orphan<'_>> = writes
            .iter()
            .zip(&contents)
            .map(|((offset, _), frames)| Orphan { offset: *offset, frames, has_metadata })
            .collect();
        let gaps = if is_empty { vec![] } else { vec![(10, end)] };
        fates(&gaps, &blocks, &orphans)
    }

    #[test]
    fn appends_are_found_where_they_landed() {
        let appends: [(Option<u32>, &[u8]); 3] = [(None, &[1, 2]), (None, &[3, 4]), (None, &[5])];
        assert_eq!(fates_of(&[], &appends).unwrap(), [Fate::Not; 3]);
        let landed = fates_of(&[5, 1, 2], &appends).unwrap();
        assert_eq!(landed, [Fate::Landed(11), Fate::Not, Fate::Landed(10)]);
    }

    #[test]
    fn an_append_that_landed_in_part_spoils_the_zone() {
        let appends: [(Option<u32>, &[u8]); 3] = [(None, &[1, 2]), (None, &[3, 4]), (None, &[5])];
        assert_eq!(fates_of(&[5, 1], &appends).unwrap(), [Fate::Torn, Fate::Torn, Fate::Landed(10)]);
        assert_eq!(fates_of(&[1, 0, 5], &appends).unwrap(), [Fate::Torn; 3]);
    }

    #[test]
    fn a_write_goes_on_where_it_ended() {
        let writes: [(Option<u32>, &[u8]); 3] = [(Some(10), &[1, 2]), (Some(12), &[3, 4]), (Some(14), &[5])];
        assert_eq!(fates_of(&[1, 2, 3], &writes).unwrap(), [Fate::Landed(10), Fate::Partly(1), Fate::Not]);
        assert_eq!(fates_of(&[1, 0, 3], &writes).unwrap(), [Fate::Torn; 3]);
    }

    #[test]
    fn blocks_of_nobody_are_somebody_elses() {
        let appends: [(Option<u32>, &[u8]); 1] = [(None, &[1, 2])];
        assert_eq!(fates_of(&[1, 9], &appends), None);
        assert_eq!(fates_of(&[9], &appends), None);
    }

    #[test]
    fn a_drive_without_metadata_is_asked_for_data_alone() {
        let writes: [(Option<u32>, &[u8]); 2] = [(Some(10), &[1, 2]), (Some(12), &[3])];
        let found = || {
            let mut found = frames(&[1, 2]);
            found.iter_mut().for_each(|frame| frame.oob = Frame::zeroed().oob);
            found
        };
        assert_eq!(fates_where(false, found(), &writes).unwrap(), [Fate::Landed(10), Fate::Not]);
        assert_eq!(fates_where(true, found(), &writes), None, "a drive with metadata lost them");
        assert_eq!(fates_where(false, frames(&[9]), &writes), None);
    }
}
