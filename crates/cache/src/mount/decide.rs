//! What counts of all records that were found: journals decide, then sequences.

use super::found::FoundRecord;
use super::scan::{Contents, DriveScan};
use crate::format::NAMESPACES;
use crate::format::journal::Entry;
use crate::hash::{Ident, KeyHash, Shape};
use crate::index::{Index, PageNumber};
use crate::request::Namespace;
use crate::shard::{Drive, locate};
use crate::status::Recovery;
use base::chains::ChainMap;
use base::random::mix;
use std::cmp::Reverse;

/// Decision of a recovery from all that drives hold.
pub struct Decision {
    /// The index.
    pub index: Index,
    /// Entries that must be on the media before clients come, with their drives.
    pub entries: Vec<(usize, Entry)>,
}

/// A record that no entry hides.
#[derive(Clone, Copy)]
struct Candidate {
    hash: KeyHash,
    sequence: u64,
    page: PageNumber,
    namespace: Namespace,
}

/// Records of which tags are alike.
struct Part<'a> {
    beside: &'a Beside,
    /// Records that only entries in memory hide.
    hidden: &'a [Candidate],
    candidates: &'a mut Vec<Candidate>,
}

/// Clears and entries in memory, which hide records beside journals.
pub struct Hidden<'a> {
    /// Sequences below which namespaces hold nothing.
    pub cleared: &'a [u64; NAMESPACES],
    /// Entries that were found in memory.
    pub shared: Shared,
}

/// Entries that were found in memory, with what the index told apart then.
pub type Shared = Vec<(Shape, Vec<(usize, Entry)>)>;

impl Hidden<'_> {
    fn by_drive(&self, drives: usize) -> Vec<Hides> {
        let mut all: Vec<Hides> = (0..drives).map(|_| Hides::new()).collect();
        for (shape, entries) in &self.shared {
            all.iter_mut().for_each(|hides| hides.push((*shape, ChainMap::default())));
            for (drive, entry) in entries.iter().filter(|(drive, _)| *drive < drives) {
                let ident = shape.ident(entry.hash);
                let (_, idents) = all[*drive].last_mut().expect("pushed above");
                let highest = idents.entry(ident.hash(), ident);
                *highest = (*highest).max(entry.sequence);
            }
        }
        all
    }
}

/// Candidates whose buckets are loaded together.
const GROUP: usize = 32;

/// Entries of the journal of a drive: by what the index told apart then, the highest sequence of each ident.
type Hides = Vec<(Shape, ChainMap<Ident, u64>)>;

/// Idents of hidden records, by the page in which they lie.
#[derive(Default)]
struct Beside(ChainMap<(PageNumber, Ident), ()>);

impl Beside {
    fn hash(page: PageNumber, ident: Ident) -> u64 {
        mix(ident.hash() ^ u64::from(page.0))
    }

    fn note(&mut self, page: PageNumber, ident: Ident) {
        self.0.entry(Beside::hash(page, ident), (page, ident));
    }

    fn has(&self, page: PageNumber, ident: Ident) -> bool {
        self.0.get(Beside::hash(page, ident), &(page, ident)).is_some()
    }
}

fn hides_of(scan: &DriveScan) -> Hides {
    let mut hides: Hides = Vec::new();
    for zone in &scan.zones {
        let Contents::Journal { shape, entries, .. } = &zone.contents else { continue };
        let place = hides.iter().position(|(own, _)| own == shape).unwrap_or_else(|| {
            hides.push((*shape, ChainMap::default()));
            hides.len() - 1
        });
        for entry in entries {
            let ident = shape.ident(entry.hash);
            let highest = hides[place].1.entry(ident.hash(), ident);
            *highest = (*highest).max(entry.sequence);
        }
    }
    hides
}

/// Bits of tags by which records are judged in parts, one after the other, so that candidates take room for one part only. What the index
/// cannot tell apart has one tag.
const PART_BITS: u32 = 3;

/// Decides, for an index of a shape.
pub fn decide(
    shape: Shape,
    drives: &mut [Drive],
    scans: &[Option<DriveScan>],
    hidden: &Hidden<'_>,
    recovery: &mut Recovery,
) -> Decision {
    let hides: Vec<Hides> =
        scans.iter().map(|scan| scan.as_ref().map(hides_of).unwrap_or_default()).collect();
    let mut decision = Decision { index: Index::new(shape), entries: Vec::new() };
    recovery.records_found += scans.iter().flatten().map(DriveScan::records).sum::<u64>();
    let shared = hidden.by_drive(drives.len());
    let (mut candidates, mut hidden_in_memory) = (Vec::new(), Vec::new());
    let parts = 1 << shape.tag_bits().min(PART_BITS);
    for part in 0..parts {
        let mut beside = Beside::default();
        for (place, (scan, drive)) in scans.iter().zip(&*drives).enumerate() {
            for (zone, found) in (0..).zip(scan.iter().flat_map(|scan| &scan.zones)) {
                let Contents::Data(records) = &found.contents else { continue };
                let first = drive.base + zone * drive.capacity;
                for found in records.iter().filter(|found| shape.tag(found.hash) % parts == part) {
                    let FoundRecord { hash, namespace, sequence, page } = found;
                    let page = PageNumber(first + page);
                    let candidate = Candidate { hash, sequence, page, namespace };
                    let is_cleared = sequence < hidden.cleared[usize::from(namespace.0)];
                    if is_cleared || is_hidden(&hides[place], hash, sequence) {
                        recovery.records_hidden += 1;
                        beside.note(page, shape.ident(hash));
                    } else if is_hidden(&shared[place], hash, sequence) {
                        recovery.records_shared += 1;
                        beside.note(page, shape.ident(hash));
                        hidden_in_memory.push(candidate);
                    } else {
                        candidates.push(candidate);
                    }
                }
            }
        }
        candidates.sort_unstable_by_key(|found| (found.hash, Reverse(found.sequence)));
        let found = Part { beside: &beside, hidden: &hidden_in_memory, candidates: &mut candidates };
        place(&mut decision, found, drives, recovery);
        candidates.clear();
        hidden_in_memory.clear();
    }
    decision
}

fn is_hidden(hides: &Hides, hash: KeyHash, sequence: u64) -> bool {
    hides.iter().any(|(shape, idents)| {
        let ident = shape.ident(hash);
        idents.get(ident.hash(), &ident).is_some_and(|entry| *entry > sequence)
    })
}

/// Gives slots to the newest of each key. Older ones and what finds no slot are hidden, with what the index cannot tell
/// from them. So is what lies beside a hidden record that the index cannot tell from it any more: its slot would lead to
/// both. That happens when the index tells other keys apart than it did when the entry was written.
fn place(
    Decision { index, entries }: &mut Decision,
    Part { beside, hidden: hidden_in_memory, candidates: found }: Part<'_>,
    drives: &mut [Drive],
    recovery: &mut Recovery,
) {
    let shape = index.shape();
    let mut hidden: ChainMap<(usize, Ident), u64> = ChainMap::default();
    let mut hide = |found: &Candidate| {
        let (drive, _, _) = locate(drives, found.page);
        // One above the record's: what the index cannot tell from it and is newer stays.
        let entry = Entry { hash: found.hash, sequence: found.sequence + 1 };
        entries.push((drive, entry));
        let ident = shape.ident(found.hash);
        let highest = hidden.entry(ident.hash(), (drive, ident));
        *highest = (*highest).max(entry.sequence);
    };
    // Journals say so before the memory is given up that does.
    hidden_in_memory.iter().for_each(&mut hide);
    let mut last = None;
    found.retain(|found| {
        let is_newest = last.replace(found.hash) != Some(found.hash);
        if !is_newest {
            recovery.records_older += 1;
            hide(found);
        }
        is_newest
    });
    let mut placed = 0;
    for at in 0..found.len() {
        if at % GROUP == 0 {
            found[at..].iter().take(GROUP).for_each(|next| index.load(next.hash));
        }
        let newest = found[at];
        if beside.has(newest.page, shape.ident(newest.hash)) {
            recovery.records_beside += 1;
            hide(&newest);
        } else if index.insert(newest.hash, newest.page).is_ok() {
            found[placed] = newest;
            placed += 1;
        } else {
            recovery.records_without_slot += 1;
            hide(&newest);
        }
    }
    for Candidate { hash, sequence, page, namespace } in &found[..placed] {
        let (ident, (drive, zone, _)) = (shape.ident(*hash), locate(drives, *page));
        if hidden.get(ident.hash(), &(drive, ident)).is_some_and(|entry| entry > sequence) {
            index.remove(ident, |other| other == *page);
        } else {
            drives[drive].zones[zone.index()].live[usize::from(namespace.0)] += 1;
        }
    }
}
