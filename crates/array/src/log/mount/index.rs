//! Building the index: the newest copy of every name.
//!
//! Without a checkpoint, every copy there is competes by its sequence. With one, the index begins as the image has it,
//! without sequences, and only copies in *later* stripes compete: those given out after the checkpoint began. Each of
//! them is as new as what the image says of its name, or newer (`checkpoint.rs`), so between the two none needs to be
//! known but this: everything in the image is older than the checkpoint's sequence. A client's block in a later stripe that is older, too, is of a
//! server that had lost its drives (ADR 73): then the checkpoint is not used.
//!
//! What the image says is one of three:
//! - a place in a sealed segment that is still there: it is believed;
//! - a place in a segment that was not sealed then, and which is read anyway: what it says of itself counts;
//! - any other place: moved, overwritten or trimmed since, so a later stripe must tell. If none does, the checkpoint is
//!   not that of these drives, and is not used.

use crate::log::index::{Buried, Index, Name, Region, tombstone_blocks};
use crate::log::mount::decide::{Decided, Fate};
use crate::log::mount::{MountError, Session, reader};
use crate::log::pba::{Location, Pba, PbaFormat};
use crate::log::segment::{EPOCH_SHIFT_SEGMENT, Segment};
use base::frame::Frame;
use base::units::{DriveIndex, Lba, index_of};
use std::collections::BTreeMap;
use std::ops::Range;
use zone::format::checkpoint::Checkpoint;
use zone::format::footer::{Entry, EntryKind};
use zone::format::header::Stream;
use zone::format::oob::{Kind, Protected};
use zone::stripe::StripeNumber;

/// Regions whose tombstones are read at once.
const REGIONS_AT_ONCE: usize = 1024;

/// Result of recovery once all segments are decided.
pub struct Recovered {
    /// The newest copy of every name.
    pub index: Index,
    /// Regions whose tombstone is to be written anew.
    pub doubtful: Vec<Region>,
    /// All segments, oldest first.
    pub segments: Vec<Segment>,
    /// The checkpoint that says what some of them hold.
    pub checkpoint: Option<Checkpoint>,
    /// The highest sequence of a block that was read.
    pub sequence_max: u64,
    /// Slots of the write area that hold the newest version of their blocks, among those that were found.
    pub slots: Vec<usize>,
}

/// The index of a checkpoint and what was written since; `None` when the two do not fit together. The segments are
/// those that were read, decided and settled; `is_covered` says whether a sealed one holds a stripe at a place.
///
/// # Errors
/// When a drive vanishes.
pub fn since(
    session: &mut Session,
    checkpoint: &Checkpoint,
    index: Index,
    (decided, segments): (&[Decided], &[Segment]),
    is_covered: impl Fn(Location) -> bool,
) -> Result<Option<NewestOfAll>, MountError> {
    if decided.iter().any(|segment| is_of_two_servers(checkpoint, segment)) {
        return Ok(None);
    }
    let mut newest = Newest::new(session, index, Some(checkpoint.sequence));
    newest.index.begin_checkpoint(checkpoint.number, checkpoint.blocks);
    for segment in decided {
        let lies_in = |at: &Location| segment.header.zones.get(at.drive.index()) == Some(&at.zone);
        let before = 0..stripes_before(checkpoint, segment);
        let pba = newest.pba;
        gather(segment, before, &mut |entry, copy| {
            newest.offer_named(entry, copy, |named| lies_in(&pba.unpack(named)));
        });
    }
    for segment in decided {
        newest.add(segment, stripes_before(checkpoint, segment)..segment.layout.stripes);
    }
    let (doubtful, slots) = newest.settle(session, segments)?;
    // The cheaper question first: it is answered with yes by nearly all.
    let told = |(name, at)| is_covered(newest.pba.unpack(at)) || newest.is_told(name);
    let fits = newest.index.mapped().all(told);
    Ok(fits.then_some(NewestOfAll { index: newest.index, doubtful, slots }))
}

/// True for a segment of clients in which something older than the checkpoint was written since it began: by a server that had lost
/// its drives to the one of the checkpoint (ADR 73). Sequences alone tell which of the two is newer.
fn is_of_two_servers(checkpoint: &Checkpoint, segment: &Decided) -> bool {
    let is_of_earlier_mount =
        segment.header.segment >> EPOCH_SHIFT_SEGMENT < checkpoint.segment >> EPOCH_SHIFT_SEGMENT;
    let mut is_older = false;
    if is_of_earlier_mount && segment.header.stream != Stream::Gc {
        gather(segment, stripes_before(checkpoint, segment)..segment.layout.stripes, &mut |entry, _| {
            let is_clients = matches!(entry.kind, EntryKind::Data(Kind::User | Kind::Tombstone));
            is_older |= is_clients && entry.sequence < checkpoint.sequence;
        });
    }
    is_older
}

/// The newest copy of every name.
pub struct NewestOfAll {
    /// Where it lies, if not in a slot.
    pub index: Index,
    /// Regions whose tombstone is to be written anew.
    pub doubtful: Vec<Region>,
    /// Slots of the write area that hold one, among those that were found.
    pub slots: Vec<usize>,
}

/// Stripes of a segment that were given out when a checkpoint began.
pub fn stripes_before(checkpoint: &Checkpoint, segment: &Decided) -> u32 {
    let stripes = segment.layout.stripes;
    checkpoint.stripes_before(segment.header.segment).map_or(stripes, |before| before.min(stripes))
}

/// A copy of a block.
#[derive(Clone, Copy)]
pub struct Copy {
    /// Place of the copy.
    pub at: Location,
    /// True when its segment is sealed.
    sealed: bool,
    /// True when its stripe is about to be moved: any other copy is as good.
    pub weak: bool,
}

/// A tombstone that may count.
struct Tombstone {
    region: Region,
    sequence: u64,
    at: Location,
    /// Frame of its block, once it was read and if it can be.
    read: Option<Frame>,
}

/// Newest copies while the index is being built.
pub struct Newest {
    pba: PbaFormat,
    index: Index,
    blocks: Sequences,
    tombstones: Vec<u64>,
    /// Nothing that was not offered is newer than this.
    floor: u64,
    /// Tombstones before the newest that may count too, by region and sequence: those in segments that are not
    /// sealed, and of the others the newest. None without volatile caches.
    tombstones_before: Option<BTreeMap<(Region, u64), Pba>>,
    /// Sequence of the newest tombstone in a sealed segment, by region.
    tombstones_sealed: BTreeMap<Region, u64>,
}

/// Sequence of the newest copy of each block that was offered; zero without one.
enum Sequences {
    /// Sequences of all blocks.
    All(Vec<u64>),
    /// Sequences of few blocks.
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

/// Tells of every data block of the kept stripes among some. Two copies with one sequence are the same block before and
/// after a move: that of the newer segment counts, so segments are to be asked oldest first.
pub fn gather(segment: &Decided, stripes: Range<u32>, tell: &mut dyn FnMut(&Entry, Copy)) {
    let layout = &segment.layout;
    let (zones, sealed) = (&segment.header.zones, segment.sealed);
    for stripe in stripes.map(StripeNumber) {
        if segment.fates[stripe.index()] != Fate::Kept {
            continue;
        }
        let weak = segment.weak.binary_search(&stripe).is_ok();
        for piece in layout.code.data_pieces() {
            let member = layout.drive_of(stripe, piece);
            let Some(slot) = segment.slot_of(member, stripe) else { continue };
            assert!(slot < layout.stripes, "slot {slot} of {}", layout.stripes);
            for row in 0..layout.chunk_blocks {
                let Some(entry) = segment.entry(stripe, piece, row) else { continue };
                let offset = layout.slot_offset(slot) + row;
                let at = Location { drive: DriveIndex::at(member), zone: zones[member], offset };
                tell(&entry, Copy { at, sealed, weak });
            }
        }
    }
}

impl Newest {
    /// The index of a volume of which no segment was read yet.
    pub fn of_volume(session: &Session) -> Newest {
        Newest::new(session, Index::new(session.config.volume_blocks, session.entry_bytes), None)
    }

    /// Nothing was offered yet; the index is empty, or that of a checkpoint with this sequence.
    fn new(session: &Session, index: Index, checkpoint: Option<u64>) -> Newest {
        let config = &session.config;
        let tombstones = vec![0; index_of(index.regions())];
        let considers_before = config.geometry.volatile_cache;
        Newest {
            pba: PbaFormat::new(config.members, &config.geometry).expect("validated"),
            blocks: match checkpoint {
                Some(_) => Sequences::Few(BTreeMap::new()),
                None => Sequences::All(vec![0; index_of(index.blocks())]),
            },
            index,
            tombstones,
            floor: checkpoint.map_or(0, |sequence| sequence - 1),
            tombstones_before: considers_before.then(BTreeMap::new),
            tombstones_sealed: BTreeMap::new(),
        }
    }

    /// Offers what some stripes of a segment hold; segments come oldest first.
    pub fn add(&mut self, segment: &Decided, stripes: Range<u32>) {
        assert!(stripes.end <= segment.layout.stripes, "stripes {stripes:?} of {}", segment.layout.stripes);
        gather(segment, stripes, &mut |entry, copy| self.offer(entry, copy));
    }

    /// The index, once all segments were added, and the regions whose tombstone is to be written anew.
    ///
    /// # Errors
    /// When a drive vanishes.
    pub fn finish(mut self, session: &mut Session, segments: &[Segment]) -> Result<NewestOfAll, MountError> {
        let (doubtful, slots) = self.settle(session, segments)?;
        Ok(NewestOfAll { index: self.index, doubtful, slots })
    }

    /// All copies in segments were offered: those in slots of the write area are now, and tombstones hide what they hide. Returns the regions whose
    /// tombstone is to be written anew, and the slots that hold the newest version of their blocks.
    fn settle(
        &mut self,
        session: &mut Session,
        segments: &[Segment],
    ) -> Result<(Vec<Region>, Vec<usize>), MountError> {
        let slots: Vec<(Lba, u64)> = session.slots.iter().map(|slot| (slot.lba, slot.sequence)).collect();
        let newer = slots.iter().enumerate().filter(|(_, (lba, sequence))| self.offer_slot(*lba, *sequence));
        let newer: Vec<usize> = newer.map(|(at, _)| at).collect();
        let doubtful = self.bury_all(session, segments)?;
        let is_hidden = |at: &usize| {
            let (lba, _) = slots[*at];
            self.index.is_trimmed(lba) || self.index.is_lost(lba)
        };
        let newest: Vec<usize> = newer.into_iter().filter(|at| !is_hidden(at)).collect();
        session.report.slots_found = newest.len() as u64;
        Ok((doubtful, newest))
    }

    /// Offers what a slot of the write area holds; true when it is newer than any copy that was offered before, and than anything
    /// the image of a checkpoint knows, for slots are empty when one begins.
    fn offer_slot(&mut self, lba: Lba, sequence: u64) -> bool {
        let counts = sequence > self.sequence_of(lba);
        if counts {
            *self.blocks.newest(lba) = sequence;
            self.index.unmap(lba);
        }
        counts
    }

    fn offer(&mut self, entry: &Entry, copy: Copy) {
        let kind = match entry.kind {
            EntryKind::Data(kind) => kind,
            EntryKind::Parity(_) | EntryKind::Unknown | EntryKind::Void => return,
        };
        let protected = Protected { lba: entry.lba, sequence: entry.sequence, kind };
        let Some(name) = Name::of(&protected, &self.index) else { return };
        let pba = self.pba.pack(copy.at);
        let newest = match name {
            Name::Block(lba) => self.blocks.newest(lba),
            Name::Tombstone(region) => {
                self.keep_tombstone(region, entry.sequence, copy);
                &mut self.tombstones[region.index()]
            }
            Name::Group(_) => return,
            Name::Mapping(_) => {
                // Of an earlier attempt with this number, there are copies with lower sequences.
                let is_of_it = entry.sequence > self.floor;
                if is_of_it && !(copy.weak && self.index.get(name).is_some()) {
                    self.index.set(name, pba);
                }
                return;
            }
        };
        debug_assert!(self.pba.unpack(pba) == copy.at, "an address leads to its place");
        let is_newer = entry.sequence > *newest || entry.sequence == *newest && !copy.weak;
        if is_newer {
            *newest = entry.sequence;
            self.index.set(name, pba);
        }
    }

    /// Offers a copy that is older than the checkpoint: it counts if the index names a place for which `is_here` holds.
    fn offer_named(&mut self, entry: &Entry, copy: Copy, is_here: impl Fn(Pba) -> bool) {
        let EntryKind::Data(kind) = entry.kind else { return };
        let protected = Protected { lba: entry.lba, sequence: entry.sequence, kind };
        let Some(name) = Name::of(&protected, &self.index) else { return };
        if self.index.get(name).is_some_and(is_here) {
            self.offer(entry, Copy { sealed: true, ..copy });
        }
    }

    /// Hides what the newest tombstone of every region hides, and what those before it hide: one says no more of a
    /// block that was written after a trim, but a volatile cache may have lost that write and kept the tombstone.
    /// Returns the regions whose tombstone is to be written anew.
    fn bury_all(&mut self, session: &mut Session, segments: &[Segment]) -> Result<Vec<Region>, MountError> {
        // What others hide was hidden when the checkpoint began.
        let regions: Vec<Region> = (0..self.index.regions())
            .map(Region)
            .filter(|region| self.tombstones[region.index()] > self.floor)
            .collect();
        let mut to_record = Vec::new();
        for regions in regions.chunks(REGIONS_AT_ONCE) {
            let mut tombstones: Vec<Tombstone> =
                regions.iter().flat_map(|region| self.tombstones_of(*region)).collect();
            let places: Vec<Location> = tombstones.iter().map(|tombstone| tombstone.at).collect();
            reader::read(session, segments, &places, |index, frame| tombstones[index].read = frame);
            session.expect_all_there()?;
            for tombstones in tombstones.chunk_by(|a, b| a.region == b.region) {
                self.bury_region(session, tombstones, &mut to_record);
            }
        }
        Ok(to_record)
    }

    /// Applies what the tombstones of one region say, oldest first. The newest must say all of it, also what the image of
    /// a checkpoint knew before: a later mount has that one alone, once a sealed segment holds it.
    fn bury_region(&mut self, session: &mut Session, tombstones: &[Tombstone], to_record: &mut Vec<Region>) {
        for Tombstone { region, sequence, read, .. } in tombstones {
            match read {
                Some(frame) => self.bury(*region, *sequence, &frame.data),
                None => self.doubt(*region, *sequence),
            }
        }
        assert!(tombstones.is_sorted_by_key(|tombstone| tombstone.sequence), "tombstones come oldest first");
        let Some(Tombstone { region, read, .. }) = tombstones.last() else { return };
        if read.is_none() {
            session.report.regions_doubtful.push(region.0);
        }
        if !read.as_ref().is_some_and(|frame| self.index.is_told_by(*region, &frame.data)) {
            to_record.push(*region);
        }
    }

    /// True for a name of which a copy was offered.
    fn is_told(&self, name: Name) -> bool {
        match name {
            Name::Block(lba) => self.blocks.of(lba) > 0,
            Name::Tombstone(region) => self.tombstones[region.index()] > 0,
            Name::Mapping(_) | Name::Group(_) => true,
        }
    }

    /// No copy of a block is newer than this.
    fn sequence_of(&self, lba: Lba) -> u64 {
        self.blocks.of(lba).max(self.floor)
    }

    /// Notes a tombstone that may count. Blocks written before a tombstone in a sealed segment are durable, for drives
    /// are flushed before sealing: none before it can count.
    fn keep_tombstone(&mut self, region: Region, sequence: u64, copy: Copy) {
        let pba = self.pba.pack(copy.at);
        let Some(before) = &mut self.tombstones_before else { return };
        let place = before.entry((region, sequence)).or_insert(pba);
        if !copy.weak {
            *place = pba;
        }
        if copy.sealed {
            let newest = self.tombstones_sealed.entry(region).or_default();
            *newest = sequence.max(*newest);
        }
        if let Some(newest) = self.tombstones_sealed.get(&region) {
            let gone: Vec<(Region, u64)> =
                before.range((region, 0)..(region, *newest)).map(|(key, _)| *key).collect();
            gone.iter().for_each(|key| {
                before.remove(key);
            });
        }
    }

    /// The tombstones of a region that may count, oldest first.
    fn tombstones_of(&self, region: Region) -> Vec<Tombstone> {
        let newest = self.tombstones[region.index()];
        assert!(newest > 0, "{region:?} has a tombstone");
        let newest_at = self.index.get(Name::Tombstone(region)).expect("one was offered");
        let first = (region, self.floor.min(newest));
        let before = self.tombstones_before.iter();
        let before = before.flat_map(|before| before.range(first..(region, newest)));
        let all = before.map(|((_, sequence), pba)| (*sequence, *pba)).chain([(newest, newest_at)]);
        all.map(|(sequence, pba)| Tombstone { region, sequence, at: self.pba.unpack(pba), read: None })
            .collect()
    }

    /// Hides the blocks that a tombstone of this sequence marks, where they are older.
    fn bury(&mut self, region: Region, sequence: u64, bitmap: &base::xor::Block) {
        for (lba, why) in tombstone_blocks(region, self.index.blocks(), bitmap) {
            debug_assert!(region.blocks(self.index.blocks()).contains(&lba.0), "a block of the region");
            if self.sequence_of(lba) >= sequence {
                continue;
            }
            match why {
                Buried::Trimmed => self.index.trim(lba),
                Buried::Lost => self.index.lose(lba),
            };
        }
    }

    /// A tombstone of this sequence cannot be read: all blocks that were not written since are lost, those
    /// without a copy too. It may have said that they were trimmed, or lost before.
    fn doubt(&mut self, region: Region, sequence: u64) {
        for lba in region.blocks(self.index.blocks()).map(Lba) {
            if self.sequence_of(lba) < sequence {
                self.index.lose(lba);
            }
        }
    }
}
