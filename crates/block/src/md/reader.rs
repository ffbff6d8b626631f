//! Reader of a closed array: the volume as md would return it, with members missing and after a crash. It writes nothing: what a
//! log says is applied in memory.
//!
//! Everything happens by *rows* of 4 KiB: one block of each member at the same place. A piece of a row that is missing, bad, or
//! not yet recovered is decoded from the others, unless a crash may have left them torn: such a block is an error, never garbage.

use super::assembly::{Assembly, Part, Policy, journal_unsynced_from};
use super::bad_blocks::BadBlocks;
use super::geometry::{Chunk, Geometry, Place, Stripe};
use super::ppl::verdict::unsynced_from;
use super::replay::journal::Walked;
use super::superblock::CLEAN;
use super::{Media, ReadFailed, Role, replay};
use base::erasure::{ErasureCode, PieceSet};
use base::units::BLOCK_BYTES;
use base::xor::Block;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// Sectors of a row's piece.
pub const ROW_SECTORS: u64 = 8;

/// Row of 4 KiB of each member: its first sector, from the start of the members' data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row(pub u64);

/// Member's piece of a row with its content.
pub type Piece = (Role, Row, Box<Block>);

/// Reason why a block cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// More pieces of the row are missing or bad than its parities make good.
    Lost {
        /// Block of the volume.
        block: u64,
        /// Members whose pieces are not there.
        without: Vec<Role>,
    },
    /// Piece that could be decoded only from others that a crash may have left torn.
    InDoubt {
        /// Block of the volume.
        block: u64,
        /// Member whose piece is not there.
        without: Role,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Lost { block, without } => {
                write!(
                    f,
                    "block {block} cannot be read: {} cannot return it",
                    super::refusal::members(without)
                )
            }
            ReadError::InDoubt { block, without } => write!(
                f,
                "block {block} cannot be read: it was on member {without}, and a crash left in doubt what the others have of it"
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Member as the reader uses it.
struct Slot<'a, M: ?Sized> {
    media: &'a M,
    data_offset: u64,
    /// First sector of the data that was not yet recovered.
    recovered: u64,
    bad: Vec<BadBlocks>,
}

/// Overlay of a crash over the pieces, by row.
#[derive(Default)]
pub(super) struct Overlay {
    /// Pieces as a log has them, data and parity.
    pub pieces: BTreeMap<(Role, Row), Box<Block>>,
    /// Rows whose pieces may not belong together.
    pub torn: BTreeSet<Row>,
}

/// Reader of a closed array.
pub struct Reader<'a, M: ?Sized> {
    geometry: Geometry,
    slots: Vec<Option<Slot<'a, M>>>,
    overlay: Overlay,
    unsynced: Unsynced,
    /// Journal of the array, as far as it was read.
    walked: Option<Walked>,
}

/// Rows whose parity may not be right yet.
pub(super) enum Unsynced {
    None,
    From(u64),
    Regions { sectors: u64, set: BTreeSet<u64> },
}

/// Mismatches that a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// Sectors, as md's `mismatch_cnt` counts them: 8 for each row of 4 KiB.
    pub sectors: u64,
    /// Stripes with a mismatch, in order.
    pub stripes: Vec<Stripe>,
    /// Rows that could not be compared, for a piece of them is not there.
    pub rows_not_compared: u64,
}

impl<'a, M: Media + ?Sized> Reader<'a, M> {
    /// Reader of an array that can be served, or is refused for what is in doubt alone; `media` has the device of each member of the assembly, in the same order.
    ///
    /// # Errors
    /// When a log cannot be read.
    ///
    /// # Panics
    /// When the array is refused for anything else.
    pub fn new(assembly: &Assembly<'_>, media: &[&'a M]) -> Result<Reader<'a, M>, ReadFailed> {
        let can_be_read = assembly.can_be_served() || assembly.is_only_in_doubt();
        assert!(can_be_read, "{}", assembly.in_words());
        assert!(media.len() == assembly.devices.len(), "a device for each member");
        let geometry = Geometry::of(&assembly.superblock().shape).expect("an array that can be served");
        let mut slots: Vec<Option<Slot<'a, M>>> = (0..geometry.members()).map(|_| None).collect();
        for ((member, part), media) in assembly.devices.iter().zip(media) {
            let (role, recovered) = match part {
                Part::Active(role) => (*role, u64::MAX),
                Part::Recovering(role, sectors) => (*role, *sectors),
                Part::Replacement(..) | Part::Journal | Part::Spare | Part::Stale => continue,
            };
            let data_offset = member.superblock().device.data_offset;
            let bad = member.bad_blocks.clone().unwrap_or_default();
            slots[role.index()] = Some(Slot { media: *media, data_offset, recovered, bad });
        }
        let unsynced = unsynced(assembly);
        let mut reader = Reader { geometry, slots, overlay: Overlay::default(), unsynced, walked: None };
        match assembly.policy() {
            Policy::Ppl if !assembly.superblock().is_clean() => {
                replay::partial_parity::apply(&mut reader, assembly, media);
            }
            // The journal of a clean array is applied too: clean means that parities are right once that is done.
            Policy::Journal => reader.walked = replay::journal::apply(&mut reader, assembly, media)?,
            Policy::Ppl | Policy::Resync | Policy::Bitmap => {}
        }
        Ok(reader)
    }

    /// Geometry of the array.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Blocks of 4 KiB of the volume.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.geometry.sectors().map_or(0, |sectors| sectors / ROW_SECTORS)
    }

    /// Blocks of the volume in a stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u64 {
        u64::from(self.geometry.data_chunks()) * self.geometry.chunk_sectors() / ROW_SECTORS
    }

    pub(super) fn overlay(&mut self) -> &mut Overlay {
        &mut self.overlay
    }

    /// Journal as far as it was read; `None` without one.
    pub(super) fn walked(&self) -> Option<&Walked> {
        self.walked.as_ref()
    }

    /// True when the parities of a row may not be those of its data.
    pub(super) fn is_in_doubt(&self, row: Row) -> bool {
        self.overlay.torn.contains(&row) || self.unsynced.has(row)
    }

    /// Row and member of a block of the volume.
    ///
    /// # Panics
    /// When the volume has no such block.
    #[must_use]
    pub fn place(&self, block: u64) -> (Row, Role) {
        let chunk_blocks = self.geometry.chunk_sectors() / ROW_SECTORS;
        let located = self.geometry.locate(Chunk(block / chunk_blocks));
        let within = block % chunk_blocks * ROW_SECTORS;
        (Row(located.stripe.0 * self.geometry.chunk_sectors() + within), located.member)
    }

    /// Pieces of members that a log has otherwise than they have them themselves, and rows that it leaves in doubt.
    #[must_use]
    pub fn recovered(&self) -> (Vec<Piece>, Vec<Row>) {
        let is_otherwise = |(member, row): &(Role, Row), piece: &Block| {
            let mut own = [0; BLOCK_BYTES];
            let slot = self.slots[member.index()].as_ref();
            slot.is_some_and(|slot| {
                slot.media.read(slot.data_offset + row.0, &mut own).is_err() || own != *piece
            })
        };
        let pieces = self.overlay.pieces.iter().filter(|(place, piece)| is_otherwise(place, piece));
        let pieces = pieces.map(|((member, row), piece)| (*member, *row, piece.clone()));
        (pieces.collect(), self.overlay.torn.iter().copied().collect())
    }

    pub(super) fn stripe(&self, row: Row) -> Stripe {
        Stripe(row.0 / self.geometry.chunk_sectors())
    }

    /// Reads a block of the volume.
    ///
    /// # Errors
    /// When it is not there, or may not be what was written.
    ///
    /// # Panics
    /// When the volume has no such block.
    pub fn read(&self, block: u64, into: &mut Block) -> Result<(), ReadError> {
        let (row, member) = self.place(block);
        if self.piece(row, member, into) {
            return Ok(());
        }
        if self.is_in_doubt(row) {
            return Err(ReadError::InDoubt { block, without: member });
        }
        self.decode(block, into)
    }

    /// Decodes a block of the volume from the other pieces of its row, whether or not a crash left them torn: what md returns for
    /// a block that is in doubt.
    ///
    /// # Errors
    /// When too few of them are there.
    ///
    /// # Panics
    /// When the volume has no such block.
    pub fn decode(&self, block: u64, into: &mut Block) -> Result<(), ReadError> {
        let (row, member) = self.place(block);
        let pieces = self.pieces(row);
        let order = self.order(self.stripe(row));
        let code = self.code(self.stripe(row));
        let place = |role: Role| order.iter().position(|other| *other == role).expect("a member of the row");
        let others = pieces.iter().filter(|(role, _)| *role != member);
        let present: Vec<(usize, &Block)> =
            others.map(|(role, piece)| (place(*role), piece.as_ref())).collect();
        let set: PieceSet = present.iter().map(|(piece, _)| *piece).collect();
        if code.sources(place(member), set).is_none() {
            let is_there = |role: &Role| pieces.iter().any(|(other, _)| other == role);
            let without = order.iter().copied().filter(|role| !is_there(role)).collect();
            return Err(ReadError::Lost { block, without });
        }
        code.decode(place(member), &present, into);
        Ok(())
    }

    /// Reads a member's piece of a row; false when it is not there.
    pub(super) fn piece(&self, row: Row, member: Role, into: &mut Block) -> bool {
        if let Some(newer) = self.overlay.pieces.get(&(member, row)) {
            *into = **newer;
            return true;
        }
        let slot = self.slots[member.index()].as_ref().filter(|_| self.counts(row, member));
        slot.is_some_and(|slot| slot.media.read(slot.data_offset + row.0, into).is_ok())
    }

    /// True when a member that is there has the row, and does not list it as bad: it may be unreadable nevertheless.
    pub(super) fn counts(&self, row: Row, member: Role) -> bool {
        let Some(slot) = &self.slots[member.index()] else { return false };
        let start = slot.data_offset + row.0;
        let is_bad = |bad: &BadBlocks| {
            bad.sector < start + ROW_SECTORS && start < bad.sector.saturating_add(bad.sectors)
        };
        row.0 + ROW_SECTORS <= slot.recovered && !slot.bad.iter().any(is_bad)
    }

    /// Pieces of a row that are there.
    pub(super) fn pieces(&self, row: Row) -> Vec<(Role, Box<Block>)> {
        let read = |role: Role| {
            let mut block = Box::new([0; BLOCK_BYTES]);
            self.piece(row, role, &mut block).then_some((role, block))
        };
        (0..self.geometry.members()).map(Role).filter_map(read).collect()
    }

    /// Members of a stripe in the order of the code: data by exponents, P, Q.
    pub(super) fn order(&self, stripe: Stripe) -> Vec<Role> {
        let (p, q) = self.geometry.parity(stripe);
        let mut data: Vec<Role> =
            (0..self.geometry.data_chunks()).map(|i| self.geometry.data_member(stripe, i)).collect();
        data.sort_by_key(|member| self.geometry.exponent(stripe, *member));
        data.into_iter().chain([p]).chain(q).collect()
    }

    pub(super) fn code(&self, stripe: Stripe) -> ErasureCode {
        let parities = usize::from(self.geometry.parities());
        let members = (0..self.geometry.data_chunks()).map(|index| self.geometry.data_member(stripe, index));
        let code = if self.geometry.parities() == 1 {
            ErasureCode::new(usize::from(self.geometry.data_chunks()), parities)
        } else {
            let exponents = members.map(|member| usize::from(self.geometry.exponent(stripe, member)));
            ErasureCode::with_exponents(exponents.collect(), parities)
        };
        code.expect("2 to 32 members")
    }

    /// Compares the parities of all stripes with their data.
    #[must_use]
    pub fn check(&self) -> Mismatches {
        let mut found = Mismatches::default();
        for stripe in (0..self.geometry.stripes()).map(Stripe) {
            let (order, code) = (self.order(stripe), self.code(stripe));
            let start = stripe.0 * self.geometry.chunk_sectors();
            for row in
                (0..self.geometry.chunk_sectors() / ROW_SECTORS).map(|row| Row(start + row * ROW_SECTORS))
            {
                match self.is_right(row, &order, &code) {
                    None => found.rows_not_compared += 1,
                    Some(true) => {}
                    Some(false) => {
                        found.sectors += ROW_SECTORS;
                        if found.stripes.last() != Some(&stripe) {
                            found.stripes.push(stripe);
                        }
                    }
                }
            }
        }
        found
    }

    /// True when the parities of a row are those of its data; `None` when a piece is not there.
    fn is_right(&self, row: Row, order: &[Role], code: &ErasureCode) -> Option<bool> {
        let pieces = self.pieces(row);
        let piece =
            |role: &Role| pieces.iter().find(|(other, _)| other == role).map(|(_, piece)| piece.as_ref());
        let pieces: Option<Vec<&Block>> = order.iter().map(piece).collect();
        let pieces = pieces?;
        let (data, parities) = pieces.split_at(code.data_count());
        let mut computed = [0; BLOCK_BYTES];
        let is_parity = |(parity, stored): (usize, &&Block)| {
            code.encode(parity, data, &mut computed);
            computed == **stored
        };
        Some(parities.iter().enumerate().all(is_parity))
    }

    /// Kind of a member in a row.
    #[must_use]
    pub fn kind(&self, row: Row, member: Role) -> Place {
        self.geometry.place(self.stripe(row), member)
    }
}

impl Unsynced {
    /// Sectors of members of such a size.
    pub(super) fn ranges(&self, size: u64) -> Vec<Range<u64>> {
        match self {
            Unsynced::None => Vec::new(),
            Unsynced::From(sector) => std::iter::once(*sector..size).collect(),
            Unsynced::Regions { sectors, set } => {
                set.iter().map(|region| region * sectors..((region + 1) * sectors).min(size)).collect()
            }
        }
    }

    fn has(&self, row: Row) -> bool {
        match self {
            Unsynced::None => false,
            Unsynced::From(sector) => row.0 + ROW_SECTORS > *sector,
            Unsynced::Regions { sectors, set } => set.contains(&(row.0 / sectors)),
        }
    }
}

/// Rows whose parities a crash left in doubt, by the policy of an array.
pub(super) fn unsynced(assembly: &Assembly<'_>) -> Unsynced {
    let offset = assembly.superblock().state.resync_offset;
    match assembly.policy() {
        _ if offset == CLEAN => return Unsynced::None,
        Policy::Journal => return journal_unsynced_from(assembly).map_or(Unsynced::None, Unsynced::From),
        Policy::Ppl => return unsynced_from(assembly).map_or(Unsynced::None, Unsynced::From),
        Policy::Resync | Policy::Bitmap => {}
    }
    let bitmap = assembly.devices[assembly.newest].0.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok());
    match bitmap {
        Some(bitmap) if assembly.regions_set().is_some() => {
            Unsynced::Regions { sectors: bitmap.head.region_sectors(), set: bitmap.bits.set().collect() }
        }
        _ => Unsynced::From(offset),
    }
}
