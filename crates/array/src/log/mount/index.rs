//! Building the index: the newest copy of every name.
//!
//! Without a checkpoint, every copy there is competes by its sequence. With one, the index begins as the image has it,
//! without sequences, and only copies in *later* stripes compete: those given out after the checkpoint began. Each of
//! them is as new as what the image says of its name, or newer (`checkpoint.rs`), so between the two none needs to be
//! known but this: everything in the image is older than the checkpoint's sequence.
//!
//! What the image says is one of three:
//! - a place in a sealed segment that is still there: it is believed;
//! - a place in a segment that was not sealed then, and which is read anyway: what it says of itself counts;
//! - any other place: moved, overwritten or trimmed since, so a later stripe must tell. If none does, the checkpoint is
//!   not that of these drives, and is not used.

use crate::log::index::{Buried, Index, Name, region_range, tombstone_blocks};
use crate::log::mount::decide::{Decided, Fate};
use crate::log::mount::{MountError, Session, repair};
use crate::log::pba::{Location, Pba, PbaFormat};
use crate::log::segment::Segment;
use base::mutant::{self, Mutant};
use base::units::{DriveIndex, Lba};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use zone::format::checkpoint::Checkpoint;
use zone::format::footer::{Entry, EntryKind};
use zone::format::oob::{Kind, Protected};

/// What is known once all segments are decided.
pub struct Recovered {
    /// The newest copy of every name.
    pub index: Index,
    /// Regions whose tombstone is to be written anew.
    pub doubtful: Vec<u64>,
    /// Segments that a checkpoint describes.
    pub covered: Vec<Segment>,
    /// The checkpoint.
    pub checkpoint: Option<Checkpoint>,
}

/// The index of all copies there are.
///
/// # Errors
/// When a drive vanishes.
pub fn of_all(session: &mut Session, segments: &[Decided]) -> Result<Recovered, MountError> {
    let config = &session.config;
    let pba = PbaFormat::new(config.members, &config.geometry).expect("validated");
    let index = Index::new(config.volume_blocks, session.entry_bytes);
    let mut newest = Newest::new(index, config.geometry.volatile_cache, None);
    for weak in [true, false] {
        for segment in segments {
            gather(segment, 0..segment.layout.stripes, weak, &mut |entry, at| {
                newest.offer(entry, pba.pack(at), segment.sealed);
            });
        }
    }
    let doubtful = bury_all(session, segments, &pba, &mut newest)?;
    Ok(Recovered { index: newest.index, doubtful, covered: Vec::new(), checkpoint: None })
}

/// The index of a checkpoint and what was written since; `None` when the two do not fit together. The segments are
/// those that were read; `is_covered` says whether a sealed one holds a stripe at a place.
///
/// # Errors
/// When a drive vanishes.
pub fn since(
    session: &mut Session,
    checkpoint: &Checkpoint,
    index: Index,
    segments: &[Decided],
    is_covered: impl Fn(Location) -> bool,
) -> Result<Option<(Index, Vec<u64>)>, MountError> {
    let config = &session.config;
    let pba = PbaFormat::new(config.members, &config.geometry).expect("validated");
    let mut newest = Newest::new(index, config.geometry.volatile_cache, Some(checkpoint.sequence));
    newest.index.begin_checkpoint(checkpoint.number, checkpoint.blocks);
    let stripes_before = |segment: &Decided| {
        let stripes = segment.layout.stripes;
        checkpoint.stripes_before(segment.header.segment).map_or(stripes, |before| before.min(stripes))
    };
    for weak in [true, false] {
        for segment in segments {
            let lies_in = |at: &Location| segment.header.zones.get(at.drive.index()) == Some(&at.zone);
            gather(segment, 0..stripes_before(segment), weak, &mut |entry, at| {
                newest.offer_named(entry, pba.pack(at), |named| lies_in(&pba.unpack(named)));
            });
        }
    }
    for weak in [true, false] {
        for segment in segments {
            gather(segment, stripes_before(segment)..segment.layout.stripes, weak, &mut |entry, at| {
                newest.offer(entry, pba.pack(at), segment.sealed);
            });
        }
    }
    let doubtful = match mutant::is(Mutant::TrimsNotRedone) {
        true => Vec::new(),
        false => bury_all(session, segments, &pba, &mut newest)?,
    };
    let told = |(name, at)| newest.is_told(name) || is_covered(pba.unpack(at));
    let fits = newest.index.mapped().all(told);
    Ok(fits.then_some((newest.index, doubtful)))
}

/// Newest copies while the index is being built.
struct Newest {
    index: Index,
    blocks: Sequences,
    tombstones: Vec<u64>,
    /// Nothing that was not offered is newer than this.
    floor: u64,
    /// Tombstones before the newest that may count too, by region and sequence: those in segments that are not
    /// sealed, and of the others the newest. None without volatile caches.
    tombstones_before: Option<BTreeMap<(u64, u64), Pba>>,
    /// Sequence of the newest tombstone in a sealed segment, by region.
    tombstones_sealed: BTreeMap<u64, u64>,
}

/// Sequence of the newest copy of each block that was offered; zero without one.
enum Sequences {
    /// Of all blocks.
    All(Vec<u64>),
    /// Of few.
    Few(BTreeMap<Lba, u64>),
}

impl Sequences {
    fn of(&self, lba: Lba) -> u64 {
        match self {
            Sequences::All(sequences) => sequences[lba.index()],
            Sequences::Few(sequences) => sequences.get(&lba).copied().unwrap_or(0),
        }
    }

    fn newest(&mut self, lba: Lba) -> &mut u64 {
        match self {
            Sequences::All(sequences) => &mut sequences[lba.index()],
            Sequences::Few(sequences) => sequences.entry(lba).or_default(),
        }
    }
}

/// Hides what the newest tombstone of every region hides, and what those before it hide: one says no more of a
/// block that was written after a trim, but a volatile cache may have lost that write and kept the tombstone.
/// Returns the regions whose tombstone is to be written anew.
fn bury_all(
    session: &mut Session,
    segments: &[Decided],
    pba: &PbaFormat,
    newest: &mut Newest,
) -> Result<Vec<u64>, MountError> {
    let mut to_record = Vec::new();
    for region in 0..newest.index.regions() {
        let Some(at) = newest.index.get(Name::Tombstone(region)) else { continue };
        let mut read = |at: Pba| {
            let location = pba.unpack(at);
            let segment = segments
                .iter()
                .find(|segment| segment.header.zones[location.drive.index()] == location.zone)
                .expect("the index points into segments");
            repair::read_location(session, segment, location).map(|frame| frame.data)
        };
        let sequence = newest.tombstones[Lba(region).index()];
        // What it hides was hidden when the checkpoint began.
        if sequence <= newest.floor {
            continue;
        }
        let mut buried = BTreeSet::new();
        for (sequence, before) in newest.tombstones_before(region) {
            match read(before) {
                Some(bitmap) => buried.extend(newest.bury(region, sequence, &bitmap)),
                None => buried.extend(newest.doubt(region, sequence)),
            }
        }
        match read(at) {
            Some(bitmap) => newest.bury(region, sequence, &bitmap).iter().for_each(|lba| {
                buried.remove(lba);
            }),
            None => {
                session.report.regions_doubtful.push(region);
                buried.extend(newest.doubt(region, sequence));
                to_record.push(region);
            }
        }
        if !buried.is_empty() && !to_record.ends_with(&[region]) {
            to_record.push(region);
        }
    }
    session.expect_all_there()?;
    Ok(to_record)
}

/// Offers every data block of the kept stripes among some; the newest sequence wins. Two copies with one
/// sequence are the same block before and after a move: the one offered last wins, so weak stripes are offered
/// first, then those of older segments.
pub fn gather(segment: &Decided, stripes: Range<u32>, weak: bool, offer: &mut dyn FnMut(&Entry, Location)) {
    let layout = &segment.layout;
    for stripe in stripes {
        let is_weak = segment.weak.binary_search(&stripe).is_ok();
        if segment.fates[stripe as usize] != Fate::Kept || is_weak != weak {
            continue;
        }
        let has_more = layout.code.parity_count() > 1 && mutant::is(Mutant::ParityInIndex);
        for piece in 0..layout.code.data_count() + usize::from(has_more) {
            let member = layout.drive_of(stripe, piece);
            let Some(slot) = segment.slot_of(member, stripe) else { continue };
            for row in 0..layout.chunk_blocks {
                let Some(entry) = segment.entry(stripe, piece, row) else { continue };
                let location = Location {
                    drive: DriveIndex::at(member),
                    zone: segment.header.zones[member],
                    offset: layout.slot_offset(slot) + row,
                };
                offer(&entry, location);
            }
        }
    }
}

impl Newest {
    /// Nothing was offered yet; the index is empty, or that of a checkpoint with this sequence.
    fn new(index: Index, volatile_cache: bool, checkpoint: Option<u64>) -> Newest {
        let tombstones = vec![0; Lba(index.regions()).index()];
        let considers_before = volatile_cache && !mutant::is(Mutant::OnlyNewestTombstone);
        Newest {
            blocks: match checkpoint {
                Some(_) => Sequences::Few(BTreeMap::new()),
                None => Sequences::All(vec![0; Lba(index.blocks()).index()]),
            },
            index,
            tombstones,
            floor: checkpoint.map_or(0, |sequence| sequence - 1),
            tombstones_before: considers_before.then(BTreeMap::new),
            tombstones_sealed: BTreeMap::new(),
        }
    }

    fn offer(&mut self, entry: &Entry, pba: Pba, sealed: bool) {
        let kind = match entry.kind {
            EntryKind::Data(kind) => kind,
            EntryKind::Parity(_) if mutant::is(Mutant::ParityInIndex) => Kind::User,
            EntryKind::Parity(_) | EntryKind::Unknown | EntryKind::Void => return,
        };
        let protected = Protected { lba: entry.lba, sequence: entry.sequence, kind };
        let Some(name) = Name::of(&protected, &self.index) else { return };
        let newest = match name {
            Name::Block(lba) => self.blocks.newest(lba),
            Name::Tombstone(region) => {
                self.keep_tombstone(region, entry.sequence, pba, sealed);
                &mut self.tombstones[Lba(region).index()]
            }
            // Of an earlier attempt with this number, there are copies with lower sequences.
            Name::Mapping(_) if entry.sequence <= self.floor => return,
            Name::Mapping(_) => {
                self.index.set(name, pba);
                return;
            }
        };
        if entry.sequence >= *newest || mutant::is(Mutant::NewestSegmentWins) {
            *newest = entry.sequence;
            self.index.set(name, pba);
        }
    }

    /// Offers a copy that is older than the checkpoint: it counts if the index names a place for which `is_here` holds.
    fn offer_named(&mut self, entry: &Entry, pba: Pba, is_here: impl Fn(Pba) -> bool) {
        let EntryKind::Data(kind) = entry.kind else { return };
        let protected = Protected { lba: entry.lba, sequence: entry.sequence, kind };
        let Some(name) = Name::of(&protected, &self.index) else { return };
        if self.index.get(name).is_some_and(is_here) {
            self.offer(entry, pba, true);
        }
    }

    /// True for a name of which a copy was offered.
    fn is_told(&self, name: Name) -> bool {
        match name {
            Name::Block(lba) => self.blocks.of(lba) > 0,
            Name::Tombstone(region) => self.tombstones[Lba(region).index()] > 0,
            Name::Mapping(_) => true,
        }
    }

    /// No copy of a block is newer than this.
    fn sequence_of(&self, lba: Lba) -> u64 {
        self.blocks.of(lba).max(self.floor)
    }

    /// What was written before a tombstone in a sealed segment is durable, for drives are flushed before sealing:
    /// none before it can count.
    fn keep_tombstone(&mut self, region: u64, sequence: u64, pba: Pba, sealed: bool) {
        let Some(before) = &mut self.tombstones_before else { return };
        before.insert((region, sequence), pba);
        if sealed {
            let newest = self.tombstones_sealed.entry(region).or_default();
            *newest = sequence.max(*newest);
        }
        if let Some(newest) = self.tombstones_sealed.get(&region) {
            let gone: Vec<(u64, u64)> =
                before.range((region, 0)..(region, *newest)).map(|(key, _)| *key).collect();
            gone.iter().for_each(|key| {
                before.remove(key);
            });
        }
    }

    /// Tombstones of a region before the newest that may count too, oldest first.
    fn tombstones_before(&self, region: u64) -> Vec<(u64, Pba)> {
        let newest = self.tombstones[Lba(region).index()];
        let before = self.tombstones_before.iter();
        let first = (region, self.floor.min(newest));
        let before = before.flat_map(|before| before.range(first..(region, newest)));
        before.map(|((_, sequence), pba)| (*sequence, *pba)).collect()
    }

    /// Hides the blocks that a tombstone of this sequence marks, where they are older; returns those it marks.
    fn bury(&mut self, region: u64, sequence: u64, bitmap: &base::xor::Block) -> Vec<Lba> {
        let mut buried = Vec::new();
        for (lba, why) in tombstone_blocks(region, self.index.blocks(), bitmap) {
            if self.sequence_of(lba) >= sequence && !mutant::is(Mutant::TombstoneHidesNewer) {
                continue;
            }
            buried.push((lba, why));
        }
        for (lba, why) in &buried {
            match why {
                Buried::Trimmed => self.index.trim(*lba),
                Buried::Lost => self.index.lose(*lba),
            };
        }
        buried.into_iter().map(|(lba, _)| lba).collect()
    }

    /// A tombstone of this sequence cannot be read: all blocks that were not written since are lost, those
    /// without a copy too. It may have said that they were trimmed, or lost before. Returns them.
    fn doubt(&mut self, region: u64, sequence: u64) -> Vec<Lba> {
        if mutant::is(Mutant::DoubtIgnored) {
            return Vec::new();
        }
        let range = region_range(region, self.index.blocks()).map(Lba);
        let lost: Vec<Lba> = range.filter(|lba| self.sequence_of(*lba) < sequence).collect();
        for lba in &lost {
            self.index.lose(*lba);
        }
        lost
    }
}
