//! Where the pieces of a stripe lie: rotation over drives, slots within a zone, groups.
//!
//! ```text
//!   zone | header | slot 0 | slot 1 | ... | slot S-1 | footer |
//!                 '------ group 0 ------' '-- group 1 --' ...       C blocks per slot
//! ```
//! The header of a segment in area mode is a granule of its windows, so that data begin behind it.
//! A stripe has one chunk in one slot of each zone of its segment, always within its group's
//! range. Under Zone Write the slot is the stripe's own number; under Zone Append it is wherever
//! the drive put it, and a [`table::StripeTable`] remembers.
//!
//! Rotation is computed here and nowhere else.

pub mod table;

use crate::format::footer::ENTRIES_PER_BLOCK;
use base::erasure::{ErasureCode, Piece};
use std::fmt;

/// Largest stripe group: a whole segment of the largest zones, as under Zone Append without groups.
pub const GROUP_STRIPES_MAX: u32 = 1 << 23;

/// A stripe of a segment, by its number from the segment's first on. Its chunks lie in slots, which are other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeNumber(pub u32);

impl StripeNumber {
    /// The stripe whose chunks lie in a slot, where slots are static.
    #[inline]
    #[must_use]
    pub fn of_static_slot(slot: u32) -> StripeNumber {
        StripeNumber(slot)
    }

    /// The slot in which the chunks of the stripe lie, where slots are static.
    #[inline]
    #[must_use]
    pub fn static_slot(self) -> u32 {
        self.0
    }

    /// The stripe behind this one.
    #[inline]
    #[must_use]
    pub fn next(self) -> StripeNumber {
        StripeNumber(self.0 + 1)
    }

    /// The stripe as an index into a table with one entry per stripe.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for StripeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// RAID level: what the pieces of a stripe beyond its data are, and whether they rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// No parity.
    Raid0,
    /// Stripes over half of the drives, each with its copy in the other half.
    Raid01,
    /// Parity on the last drive.
    Raid4,
    /// Parity rotates (left-symmetric, as md's default layout).
    Raid5,
    /// Two parities rotate (left-symmetric, as md's default layout).
    Raid6,
    /// Three parities rotate in the same way.
    TripleParity,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 6] =
        [Level::Raid0, Level::Raid01, Level::Raid4, Level::Raid5, Level::Raid6, Level::TripleParity];

    /// Number on the media.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Level::Raid0 => 0,
            Level::Raid01 => 1,
            Level::Raid4 => 4,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
            Level::TripleParity => 7,
        }
    }

    /// Level of a number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.code() == code)
    }

    /// The level whose `parity_count` parities rotate; RAID-0 with none.
    #[must_use]
    pub fn rotating(parity_count: usize) -> Option<Level> {
        [Level::Raid0, Level::Raid5, Level::Raid6, Level::TripleParity].get(parity_count).copied()
    }

    /// The erasure code over so many drives; `None` when the level takes more or fewer.
    #[must_use]
    pub fn erasure_code(self, members: usize) -> Option<ErasureCode> {
        let parities = |count: usize| ErasureCode::new(members.checked_sub(count)?, count);
        match self {
            Level::Raid0 => parities(0),
            Level::Raid01 => ErasureCode::mirrored(members / 2).filter(|_| members.is_multiple_of(2)),
            Level::Raid4 | Level::Raid5 => parities(1),
            Level::Raid6 => parities(2),
            Level::TripleParity => parities(3),
        }
    }

    /// Name of the level over so many drives: `raid5`, or `5+3` where it has no number.
    #[must_use]
    pub fn name(self, members: usize) -> String {
        match self {
            Level::TripleParity => format!("{}+3", members.saturating_sub(3)),
            _ => self.to_string(),
        }
    }

    /// True when the parity of each stripe is on other drives than that of the stripe before it.
    fn rotates(self) -> bool {
        match self {
            Level::Raid0 | Level::Raid01 | Level::Raid4 => false,
            Level::Raid5 | Level::Raid6 | Level::TripleParity => true,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Raid0 => "raid0",
            Level::Raid01 => "raid01",
            Level::Raid4 => "raid4",
            Level::Raid5 => "raid5",
            Level::Raid6 => "raid6",
            Level::TripleParity => "k+3",
        })
    }
}

/// The layout of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The code of its stripes.
    pub code: ErasureCode,
    /// RAID level, which says how parity rotates.
    pub level: Level,
    /// Blocks before the data region: the header, and what completes its granule in area mode.
    pub header_blocks: u32,
    /// C, blocks of a chunk.
    pub chunk_blocks: u32,
    /// G, stripes of a group.
    pub group_stripes: u32,
    /// S, stripes of the data region.
    pub stripes: u32,
}

impl Layout {
    /// The layout that fills zones of `capacity_blocks`; `None` when not even one stripe fits.
    #[must_use]
    pub fn fit(code: ErasureCode, level: Level, sizes: &LayoutSizes) -> Option<Layout> {
        let LayoutSizes { header_blocks, chunk_blocks, group_stripes, capacity_blocks } = *sizes;
        assert!(header_blocks > 0);
        assert!(chunk_blocks > 0);
        assert!(group_stripes > 0);
        let room = capacity_blocks.checked_sub(header_blocks)?;
        // d blocks of data need ceil(d / 204) of footer: start from an upper bound and step down.
        let mut stripes = room / chunk_blocks;
        while stripes > 0
            && stripes * chunk_blocks + (stripes * chunk_blocks).div_ceil(ENTRIES_PER_BLOCK) > room
        {
            stripes -= 1;
        }
        (stripes > 0).then_some(Layout { code, level, header_blocks, chunk_blocks, group_stripes, stripes })
    }

    /// Members of a stripe, k+m.
    #[must_use]
    pub fn members(&self) -> usize {
        self.code.piece_count()
    }

    /// Drive of a piece of a stripe. Pieces `0..k` are data, `k..k+m` parity.
    ///
    /// RAID-5, 3+1 (Pn: parity): stripe 0 is D0 D1 D2 P, stripe 1 is D1 D2 P D0, and so on. Parity starts
    /// one drive earlier in each stripe, and the data follows it around.
    #[must_use]
    pub fn drive_of(&self, stripe: StripeNumber, piece: Piece) -> usize {
        assert!(piece.index() < self.members());
        self.around(self.first_parity(stripe) + self.around(piece.index() + self.code.parity_count()))
    }

    /// Piece of a stripe that a drive holds: the inverse of [`Layout::drive_of`].
    #[must_use]
    pub fn piece_of(&self, stripe: StripeNumber, drive: usize) -> Piece {
        let members = self.members();
        assert!(drive < members);
        let behind_first_parity = self.around(drive + members - self.first_parity(stripe));
        Piece::at(self.around(behind_first_parity + self.code.data_count()))
    }

    /// Drive of piece k of a stripe; behind the last drive when there is none.
    fn first_parity(&self, stripe: StripeNumber) -> usize {
        let members = self.members();
        if self.level.rotates() { members - 1 - stripe.index() % members } else { self.code.data_count() }
    }

    /// A number below twice the members, counted around. (A division would cost more than the rest.)
    fn around(&self, index: usize) -> usize {
        let members = self.members();
        if index >= members { index - members } else { index }
    }

    /// True for a stripe of the data region.
    #[must_use]
    pub fn has_stripe(&self, stripe: StripeNumber) -> bool {
        stripe.0 < self.stripes
    }

    /// Stripes of the data region, in order.
    pub fn all_stripes(&self) -> impl Iterator<Item = StripeNumber> + use<> {
        (0..self.stripes).map(StripeNumber)
    }

    /// Stripes of a group, in order.
    pub fn stripes_of_group(&self, group: u32) -> impl Iterator<Item = StripeNumber> + use<> {
        (self.group_start(group)..self.group_start(group + 1)).map(StripeNumber)
    }

    /// Group of a stripe.
    #[inline]
    #[must_use]
    pub fn group_of(&self, stripe: StripeNumber) -> u32 {
        self.group_of_slot(stripe.0)
    }

    /// Number of a stripe within its group.
    #[must_use]
    pub fn within_group(&self, stripe: StripeNumber) -> u32 {
        stripe.0 - self.group_start(self.group_of(stripe))
    }

    /// Stripe with a number within a group.
    #[must_use]
    pub fn stripe_within(&self, group: u32, within: u32) -> StripeNumber {
        StripeNumber(self.group_start(group) + within)
    }

    /// Group whose stripes lie in a slot and those around it.
    #[inline]
    #[must_use]
    pub fn group_of_slot(&self, slot: u32) -> u32 {
        slot / self.group_stripes
    }

    /// First slot of a group, and number of its first stripe.
    #[must_use]
    pub fn group_start(&self, group: u32) -> u32 {
        (group * self.group_stripes).min(self.stripes)
    }

    /// Stripes of a group; the last one may be short.
    #[must_use]
    pub fn group_len(&self, group: u32) -> u32 {
        self.group_start(group + 1) - self.group_start(group)
    }

    /// Groups of the data region.
    #[must_use]
    pub fn groups(&self) -> u32 {
        self.stripes.div_ceil(self.group_stripes)
    }

    /// First block of a slot within its zone.
    #[must_use]
    pub fn slot_offset(&self, slot: u32) -> u32 {
        self.header_blocks + slot * self.chunk_blocks
    }

    /// Blocks of a slot within its zone.
    #[must_use]
    pub fn slot_range(&self, slot: u32) -> std::ops::Range<u32> {
        self.slot_offset(slot)..self.slot_offset(slot + 1)
    }

    /// Slot that holds the block at `offset` of its zone, and the row within the chunk. `None`
    /// outside the data region.
    #[must_use]
    pub fn slot_at(&self, offset: u32) -> Option<(u32, u32)> {
        let block = offset.checked_sub(self.header_blocks)?;
        let slot = block / self.chunk_blocks;
        (slot < self.stripes).then_some((slot, block % self.chunk_blocks))
    }

    /// Blocks of the data region in one zone.
    #[must_use]
    pub fn region_blocks(&self) -> u32 {
        self.stripes * self.chunk_blocks
    }

    /// First block of the footer.
    #[must_use]
    pub fn footer_offset(&self) -> u32 {
        self.header_blocks + self.region_blocks()
    }

    /// Blocks of the footer.
    #[must_use]
    pub fn footer_blocks(&self) -> u32 {
        self.region_blocks().div_ceil(ENTRIES_PER_BLOCK)
    }

    /// First block behind the footer.
    #[must_use]
    pub fn footer_end(&self) -> u32 {
        self.footer_offset() + self.footer_blocks()
    }

    /// Blocks of the data region that a block of the footer describes.
    #[must_use]
    pub fn footer_entries(&self, index: u32) -> std::ops::Range<usize> {
        let end = ((index + 1) * ENTRIES_PER_BLOCK).min(self.region_blocks());
        (index * ENTRIES_PER_BLOCK) as usize..end as usize
    }

    /// Data blocks (without parity) of one stripe.
    #[must_use]
    pub fn stripe_data_blocks(&self) -> u32 {
        self.chunk_blocks * u32::try_from(self.code.data_count()).expect("at most 32 pieces")
    }

    /// Data blocks (without parity) of the whole segment.
    #[must_use]
    pub fn segment_data_blocks(&self) -> u32 {
        self.stripes * self.stripe_data_blocks()
    }
}

/// The sizes a layout is fitted to.
#[derive(Clone, Copy, Debug)]
pub struct LayoutSizes {
    /// Blocks before the data region.
    pub header_blocks: u32,
    /// C.
    pub chunk_blocks: u32,
    /// G.
    pub group_stripes: u32,
    /// Zone capacity.
    pub capacity_blocks: u32,
}

#[cfg(test)]
mod tests;
