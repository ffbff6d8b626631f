//! The logical-to-physical table (L2P): where the newest durable copy of every block lies.
//!
//! Four kinds of names are mapped: blocks of the volume, the tombstone block of each region (the bitmap of its
//! trimmed blocks), the blocks of checkpoints, and those that hold entries of this very table which are not in memory
//! (`groups.rs`). All live in the same stripes and are moved by the same collector.
//!
//! Invariants: an unmapped block reads as zeros, unless it is lost, then reading it fails; a block that
//! is trimmed or lost is unmapped; a mapped block is live, and counted in its segment's `live_blocks`.

pub mod entries;
pub mod groups;
mod trimmed;

use crate::log::config::REGION_BLOCKS;
use crate::log::pba::Pba;
use base::units::{Lba, index_of};
use base::xor::Block;
use entries::{Entries, EntryBytes};
use groups::{GroupLimit, Groups, IndexGroup, Residence};
use std::collections::BTreeSet;
use std::ops::Range;
use trimmed::TrimmedBits;
use zone::format::checkpoint::name_of;
use zone::format::oob::{Kind, Protected};

/// Name of what a stored block is the newest copy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A block of the volume.
    Block(Lba),
    /// The tombstone block of a region.
    Tombstone(Region),
    /// A block of a checkpoint's image: its number in the upper 32 bits, the index of the block in the lower.
    Mapping(u64),
    /// The mapping block of a group of entries.
    Group(IndexGroup),
}

impl Name {
    /// The name of a stored block; `None` for padding and for names outside the volume.
    #[must_use]
    pub fn of(protected: &Protected, index: &Index) -> Option<Name> {
        match protected.kind {
            Kind::User | Kind::Lost => {
                (protected.lba < index.blocks()).then_some(Name::Block(Lba(protected.lba)))
            }
            Kind::Tombstone => {
                (protected.lba < index.regions()).then_some(Name::Tombstone(Region(protected.lba)))
            }
            Kind::Mapping => match IndexGroup::at(protected.lba) {
                Some(group) => index.groups().filter(|groups| groups.has(group)).map(|_| Name::Group(group)),
                None => index.mapping_slot(protected.lba).map(|_| Name::Mapping(protected.lba)),
            },
            Kind::Padding => None,
        }
    }

    /// Returns the LBA in the metadata of a stored block of this name.
    #[must_use]
    pub fn lba(self) -> u64 {
        match self {
            Name::Block(lba) => lba.0,
            Name::Tombstone(region) => region.0,
            Name::Mapping(name) => name,
            Name::Group(group) => group.lba(),
        }
    }
}

/// The L2P table with the trimmed bits, and where checkpoints of it lie.
pub struct Index {
    entry_bytes: EntryBytes,
    blocks: Blocks,
    tombstones: Entries,
    trimmed: TrimmedBits,
    /// Blocks of which nobody knows what they hold, nor whether they were trimmed. Rarely any.
    lost: BTreeSet<Lba>,
    /// Blocks of the volume that are mapped.
    mapped_blocks: u64,
    /// The checkpoint that counts, and the one that is being written.
    checkpoints: Vec<MappedCheckpoint>,
}

/// The entries of the volume's blocks.
enum Blocks {
    /// All in memory.
    Whole(Entries),
    /// Entries in groups, some of them in memory.
    Grouped(Box<Groups>),
}

/// Places of the blocks of a checkpoint's image.
struct MappedCheckpoint {
    number: u32,
    blocks: Entries,
}

/// Byte of a tombstone at which the bitmap of lost blocks begins; that of trimmed ones comes first.
const LOST_AT: usize = REGION_BYTES;
/// Bytes of a bitmap of a region's blocks.
const REGION_BYTES: usize = 1024;

impl Index {
    /// An index in which nothing was ever written.
    #[must_use]
    pub fn new(volume_blocks: u64, entry_bytes: EntryBytes) -> Index {
        assert!(volume_blocks > 0, "a volume has blocks");
        let entries = index_of(volume_blocks);
        let regions = index_of(volume_blocks.div_ceil(REGION_BLOCKS));
        Index {
            entry_bytes,
            blocks: Blocks::Whole(Entries::new(entry_bytes, entries)),
            tombstones: Entries::new(entry_bytes, regions),
            trimmed: TrimmedBits::new(volume_blocks.div_ceil(REGION_BLOCKS)),
            lost: BTreeSet::new(),
            mapped_blocks: 0,
            checkpoints: Vec::new(),
        }
    }

    /// From now on only so many entries are in memory, once the others are written; all of them without a limit.
    pub fn off_load(&mut self, limit: Option<GroupLimit>) {
        if let (Blocks::Whole(entries), Some(limit)) = (&self.blocks, limit) {
            self.blocks = Blocks::Grouped(Box::new(Groups::of(entries, limit)));
        }
    }

    /// The groups of entries; `None` when all are in memory for good.
    #[must_use]
    pub fn groups(&self) -> Option<&Groups> {
        match &self.blocks {
            Blocks::Whole(_) => None,
            Blocks::Grouped(groups) => Some(groups),
        }
    }

    /// The groups of entries; `None` when all are in memory for good.
    pub fn groups_mut(&mut self) -> Option<&mut Groups> {
        match &mut self.blocks {
            Blocks::Whole(_) => None,
            Blocks::Grouped(groups) => Some(groups),
        }
    }

    /// True when it can be told where a block lies.
    #[must_use]
    pub fn can_tell(&self, name: Name) -> bool {
        match (&self.blocks, name) {
            (Blocks::Grouped(groups), Name::Block(lba)) => {
                let group = groups.group_of(lba);
                groups.residence(group) == Residence::Here || groups.maps_nothing(group)
            }
            _ => true,
        }
    }

    /// True when some of it is lost: nobody can tell any more what is live.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.groups().is_some_and(Groups::is_incomplete)
    }

    fn entry(&self, lba: Lba) -> Option<Pba> {
        match &self.blocks {
            Blocks::Whole(entries) => entries.get(lba.index()),
            Blocks::Grouped(groups) => groups.get(lba),
        }
    }

    fn replace_entry(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        match &mut self.blocks {
            Blocks::Whole(entries) => entries.replace(lba.index(), pba),
            Blocks::Grouped(groups) => groups.replace(lba, pba),
        }
    }

    /// Makes room for the blocks of a checkpoint; none of them lies anywhere yet.
    pub fn begin_checkpoint(&mut self, number: u32, blocks: u32) {
        assert!(self.checkpoints.len() < 2, "one checkpoint counts, and one is written");
        assert!(self.checkpoints.iter().all(|known| known.number != number), "checkpoint {number} is known");
        let blocks = Entries::new(self.entry_bytes, blocks as usize);
        self.checkpoints.push(MappedCheckpoint { number, blocks });
    }

    /// A checkpoint counts no more; returns where its blocks lay.
    pub fn end_checkpoint(&mut self, number: u32) -> Vec<Pba> {
        let Some(at) = self.checkpoints.iter().position(|checkpoint| checkpoint.number == number) else {
            return Vec::new();
        };
        self.checkpoints.remove(at).blocks.iter().flatten().collect()
    }

    /// Blocks of all checkpoints, whether they are written yet or not.
    #[must_use]
    pub fn checkpoint_blocks(&self) -> u64 {
        self.checkpoints.iter().map(|checkpoint| checkpoint.blocks.len() as u64).sum()
    }

    /// True for a name that may be mapped: of checkpoints, only two are known.
    #[must_use]
    pub fn knows(&self, name: Name) -> bool {
        match name {
            Name::Block(lba) => lba.0 < self.blocks(),
            Name::Tombstone(region) => region.0 < self.regions(),
            Name::Mapping(name) => self.mapping_slot(name).is_some(),
            Name::Group(group) => self.groups().is_some_and(|groups| groups.has(group)),
        }
    }

    /// Checkpoint and block within it of a name.
    fn mapping_slot(&self, name: u64) -> Option<(usize, usize)> {
        let at = self.checkpoints.iter().position(|checkpoint| u64::from(checkpoint.number) == name >> 32)?;
        let block = usize::try_from(name & u64::from(u32::MAX)).expect("32 bits");
        (block < self.checkpoints[at].blocks.len()).then_some((at, block))
    }

    /// Blocks of the volume.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        match &self.blocks {
            Blocks::Whole(entries) => entries.len() as u64,
            Blocks::Grouped(groups) => groups.blocks() as u64,
        }
    }

    /// Regions of the volume.
    #[must_use]
    pub fn regions(&self) -> u64 {
        self.tombstones.len() as u64
    }

    /// Returns the place of the newest copy; `None` when there is none.
    #[must_use]
    pub fn get(&self, name: Name) -> Option<Pba> {
        match name {
            Name::Block(lba) => self.entry(lba),
            Name::Tombstone(region) => self.tombstones.get(region.index()),
            Name::Mapping(name) => {
                let (at, block) = self.mapping_slot(name)?;
                self.checkpoints[at].blocks.get(block)
            }
            Name::Group(group) => self.groups()?.place(group),
        }
    }

    /// Maps a name and returns where it was before. A written block is no longer trimmed or lost.
    ///
    /// # Panics
    /// When it is a block of a checkpoint that is neither counting nor being written, or one of a group that is not
    /// resident.
    pub fn set(&mut self, name: Name, pba: Pba) -> Option<Pba> {
        match name {
            Name::Block(lba) => {
                self.trimmed.remove(lba);
                if !self.lost.is_empty() {
                    self.lost.remove(&lba);
                }
                let before = self.replace_entry(lba, Some(pba));
                self.mapped_blocks += u64::from(before.is_none());
                assert!(self.mapped_blocks <= self.blocks(), "more blocks are mapped than there are");
                before
            }
            Name::Tombstone(region) => self.tombstones.replace(region.index(), Some(pba)),
            Name::Mapping(name) => {
                let (at, block) = self.mapping_slot(name).expect("a checkpoint that is there");
                self.checkpoints[at].blocks.replace(block, Some(pba))
            }
            Name::Group(group) => self.groups_mut().expect("there are groups").set_place(group, Some(pba)),
        }
    }

    /// Unmaps a block whose newest version lies in no stripe; returns where it was. It is neither trimmed nor lost.
    pub fn unmap(&mut self, lba: Lba) -> Option<Pba> {
        self.trimmed.remove(lba);
        self.lost.remove(&lba);
        self.take_entry(lba)
    }

    /// Unmaps a block and marks it trimmed; returns where it was.
    pub fn trim(&mut self, lba: Lba) -> Option<Pba> {
        assert!(lba.0 < self.blocks(), "block {} is trimmed of a volume of {}", lba.0, self.blocks());
        self.trimmed.insert(lba);
        self.lost.remove(&lba);
        self.take_entry(lba)
    }

    /// Unmaps a block and marks it lost; returns where it was.
    pub fn lose(&mut self, lba: Lba) -> Option<Pba> {
        assert!(lba.0 < self.blocks(), "block {} is lost of a volume of {}", lba.0, self.blocks());
        self.trimmed.remove(lba);
        self.lost.insert(lba);
        self.take_entry(lba)
    }

    fn take_entry(&mut self, lba: Lba) -> Option<Pba> {
        let before = self.replace_entry(lba, None);
        assert!(self.mapped_blocks >= u64::from(before.is_some()), "mapped blocks are counted");
        self.mapped_blocks -= u64::from(before.is_some());
        before
    }

    /// True when nobody knows what a block holds.
    #[must_use]
    pub fn is_lost(&self, lba: Lba) -> bool {
        !self.lost.is_empty() && self.lost.contains(&lba)
    }

    /// Blocks that are lost, in order.
    pub fn lost(&self) -> impl Iterator<Item = Lba> + '_ {
        self.lost.iter().copied()
    }

    /// True when a block was trimmed and not written since.
    #[must_use]
    pub fn is_trimmed(&self, lba: Lba) -> bool {
        self.trimmed.contains(lba)
    }

    /// True when every block of the range is known to read as zeros.
    #[must_use]
    pub fn is_zeros(&self, range: &Range<u64>) -> bool {
        let none_lost = self.lost.range(Lba(range.start)..Lba(range.end)).next().is_none();
        let is_unmapped = |lba| self.can_tell(Name::Block(lba)) && self.entry(lba).is_none();
        none_lost && range.clone().map(Lba).all(is_unmapped)
    }

    /// Every mapped name with its place, in order; of blocks, those whose entry is in memory.
    pub fn mapped(&self) -> impl Iterator<Item = (Name, Pba)> + '_ {
        let (whole, groups) = match &self.blocks {
            Blocks::Whole(entries) => (Some(entries), None),
            Blocks::Grouped(groups) => (None, Some(groups)),
        };
        let blocks = whole
            .into_iter()
            .flat_map(|entries| (0..).zip(entries.iter()).map(|(lba, entry)| (Name::Block(Lba(lba)), entry)));
        let resident = groups.into_iter().flat_map(|groups| groups.mapped());
        let resident = resident.map(|(lba, pba)| (Name::Block(lba), Some(pba)));
        let places = groups.into_iter().flat_map(|groups| groups.places());
        let places = places.map(|(group, pba)| (Name::Group(group), Some(pba)));
        let tombstones =
            (0..).zip(self.tombstones.iter()).map(|(region, entry)| (Name::Tombstone(Region(region)), entry));
        let checkpoints = self.checkpoints.iter().flat_map(|checkpoint| {
            let names = (0..).map(|block| Name::Mapping(name_of(checkpoint.number, block)));
            names.zip(checkpoint.blocks.iter())
        });
        let names = blocks.chain(resident).chain(tombstones).chain(checkpoints).chain(places);
        names.filter_map(|(name, entry)| Some((name, entry?)))
    }

    /// Blocks of the volume that hold data.
    #[must_use]
    pub fn mapped_blocks(&self) -> u64 {
        self.mapped_blocks
    }

    /// Bytes of an entry.
    #[must_use]
    pub fn entry_bytes(&self) -> EntryBytes {
        self.entry_bytes
    }

    /// The entry of a block as checkpoints have it: all ones for none.
    #[must_use]
    pub fn block_entry(&self, lba: usize) -> u64 {
        self.entry(Lba(lba as u64)).map_or(u64::MAX, |pba| pba.0)
    }

    /// The entry of a region's tombstone as checkpoints have it: all ones for none.
    #[must_use]
    pub fn tombstone_entry(&self, region: usize) -> u64 {
        self.tombstones.get(region).map_or(u64::MAX, |pba| pba.0)
    }

    /// 64 bits of the bitmap of trimmed blocks.
    #[must_use]
    pub fn trimmed_word(&self, word: usize) -> u64 {
        self.trimmed.word(word)
    }

    /// The index as a checkpoint has it; `None` when the parts do not fit together. What was mapped while the
    /// bitmap was written is not trimmed, and what was mapped or trimmed since it began is not lost.
    #[must_use]
    pub fn restore(
        blocks: Entries,
        tombstones: Entries,
        mut trimmed: Vec<u64>,
        lost: &[u64],
    ) -> Option<Index> {
        let volume_blocks = blocks.len() as u64;
        let words = blocks.len().div_ceil(64);
        if index_of(volume_blocks.div_ceil(REGION_BLOCKS)) != tombstones.len() || words != trimmed.len() {
            return None;
        }
        for (lba, entry) in blocks.iter().enumerate() {
            trimmed[lba / 64] &= !(u64::from(entry.is_some()) << (lba % 64));
        }
        let mut index = Index {
            entry_bytes: blocks.entry_bytes(),
            mapped_blocks: blocks.iter().flatten().count() as u64,
            trimmed: TrimmedBits::of(tombstones.len() as u64, &trimmed),
            blocks: Blocks::Whole(blocks),
            tombstones,
            lost: BTreeSet::new(),
            checkpoints: Vec::new(),
        };
        for lba in lost {
            if *lba >= volume_blocks {
                return None;
            }
            let lba = Lba(*lba);
            if index.get(Name::Block(lba)).is_none() && !index.is_trimmed(lba) {
                index.lost.insert(lba);
            }
        }
        Some(index)
    }

    /// Bytes of memory: of the table itself, and of what is known of trimmed and lost blocks.
    #[must_use]
    pub fn memory_bytes(&self) -> (usize, usize) {
        let blocks = match &self.blocks {
            Blocks::Whole(entries) => entries.memory_bytes(),
            Blocks::Grouped(groups) => {
                let (resident, table) = groups.memory_bytes();
                resident + table
            }
        };
        let entries = blocks + self.tombstones.memory_bytes();
        (entries, self.trimmed.memory_bytes() + self.lost.len() * size_of::<Lba>())
    }

    /// The tombstone block of a region in which the blocks of `trim` join those trimmed before; those that
    /// are lost stay so.
    pub fn write_tombstone(&self, region: Region, trim: &Range<u64>, bitmap: &mut Block) {
        bitmap.fill(0);
        let range = region.blocks(self.blocks());
        for lba in self.lost.range(Lba(range.start)..Lba(range.end)).filter(|lba| !trim.contains(&lba.0)) {
            let bit = index_of(lba.0 % REGION_BLOCKS);
            bitmap[LOST_AT + bit / 8] |= 1 << (bit % 8);
        }
        for lba in region.blocks(self.blocks()) {
            if trim.contains(&lba) || self.is_trimmed(Lba(lba)) {
                let bit = index_of(lba % REGION_BLOCKS);
                bitmap[bit / 8] |= 1 << (bit % 8);
            }
        }
    }

    /// True when a tombstone of a region marks every block that is trimmed there, and every one that is lost.
    #[must_use]
    pub fn is_told_by(&self, region: Region, bitmap: &Block) -> bool {
        let first_word = region.index() * REGION_BYTES / 8;
        let words = bitmap[..REGION_BYTES].chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let mut trimmed = (first_word..).zip(words);
        let range = region.blocks(self.blocks());
        let mut lost =
            self.lost.range(Lba(range.start)..Lba(range.end)).map(|lba| index_of(lba.0 % REGION_BLOCKS));
        trimmed.all(|(at, word)| self.trimmed_word(at) & !word == 0)
            && lost.all(|bit| bitmap[LOST_AT + bit / 8] >> (bit % 8) & 1 == 1)
    }
}

/// State of a block in a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buried {
    /// The block was trimmed.
    Trimmed,
    /// Nobody knows.
    Lost,
}

/// Blocks that a tombstone block marks.
pub fn tombstone_blocks(
    region: Region,
    volume_blocks: u64,
    bitmap: &Block,
) -> impl Iterator<Item = (Lba, Buried)> + '_ {
    region.blocks(volume_blocks).map(Lba).filter_map(|lba| {
        let bit = index_of(lba.0 % REGION_BLOCKS);
        let is_set = |at: usize| bitmap[at + bit / 8] >> (bit % 8) & 1 == 1;
        match () {
            () if is_set(0) => Some((lba, Buried::Trimmed)),
            () if is_set(LOST_AT) => Some((lba, Buried::Lost)),
            () => None,
        }
    })
}

/// A part of the volume that one tombstone is about, by its number from the first block on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(pub u64);

impl Region {
    /// The region of a block.
    #[must_use]
    pub fn of(lba: u64) -> Region {
        Region(lba / REGION_BLOCKS)
    }

    /// The region behind this one.
    #[must_use]
    pub fn next(self) -> Region {
        Region(self.0 + 1)
    }

    /// The region as an index into a table with one entry per region.
    #[must_use]
    pub fn index(self) -> usize {
        index_of(self.0)
    }

    /// The blocks of the region.
    #[must_use]
    pub fn blocks(self, volume_blocks: u64) -> Range<u64> {
        self.0 * REGION_BLOCKS..((self.0 + 1) * REGION_BLOCKS).min(volume_blocks)
    }
}

#[cfg(test)]
mod tests;
