//! What counts of all records that were found: journals decide, then sequences.

use super::scan::{Contents, DriveScan, FoundRecord};
use crate::format::NAMESPACES;
use crate::format::journal::Entry;
use crate::hash::{Ident, KeyHash, Shape};
use crate::index::{Index, PageNumber};
use crate::shard::Drive;
use crate::status::Recovery;
use base::chains::ChainMap;
use base::random::mix;

/// What recovery makes of the drives.
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
    drive: usize,
    page: PageNumber,
    zone: usize,
    namespace: usize,
}

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

/// Decides, for an index of a shape.
pub fn decide(
    shape: Shape,
    drives: &mut [Drive],
    scans: Vec<Option<DriveScan>>,
    cleared: &[u64; NAMESPACES],
    recovery: &mut Recovery,
) -> Decision {
    let mut candidates = Vec::new();
    let mut beside = Beside::default();
    for (drive, scan) in scans.iter().enumerate() {
        let Some(scan) = scan else { continue };
        let hides = hides_of(scan);
        for (zone, found) in scan.zones.iter().enumerate() {
            let Contents::Data(records) = &found.contents else { continue };
            for record in records {
                recovery.records_found += 1;
                let FoundRecord { hash, namespace, sequence, .. } = *record;
                let namespace = usize::from(namespace.0);
                let is_hidden = hides.iter().any(|(shape, idents)| {
                    let ident = shape.ident(hash);
                    idents.get(ident.hash(), &ident).is_some_and(|entry| *entry > sequence)
                });
                let zone_number = u32::try_from(zone).expect("a u32 of zones");
                let page = drives[drive].base + zone_number * drives[drive].capacity + record.page;
                let page = PageNumber(page);
                if is_hidden || sequence < cleared[namespace] {
                    recovery.records_hidden += 1;
                    beside.note(page, shape.ident(hash));
                    continue;
                }
                candidates.push(Candidate { hash, sequence, drive, page, zone, namespace });
            }
        }
    }
    candidates.sort_by_key(|found| (found.hash, std::cmp::Reverse(found.sequence)));
    place(shape, (candidates, beside), drives, recovery)
}

/// Gives slots to the newest of each key. Older ones and what finds no slot are hidden, with what the index cannot tell
/// from them. So is what lies beside a hidden record that the index cannot tell from it any more: its slot would lead to
/// both. That happens when the index tells other keys apart than it did when the entry was written.
fn place(
    shape: Shape,
    (candidates, beside): (Vec<Candidate>, Beside),
    drives: &mut [Drive],
    recovery: &mut Recovery,
) -> Decision {
    let mut hidden: ChainMap<(usize, Ident), u64> = ChainMap::default();
    let mut entries = Vec::new();
    let mut hide = |found: &Candidate| {
        // One above the record's: what the index cannot tell from it and is newer stays.
        let entry = Entry { hash: found.hash, sequence: found.sequence + 1 };
        entries.push((found.drive, entry));
        let ident = shape.ident(found.hash);
        let highest = hidden.entry(ident.hash(), (found.drive, ident));
        *highest = (*highest).max(entry.sequence);
    };
    let mut newest: Vec<Candidate> = Vec::with_capacity(candidates.len());
    for found in candidates {
        if newest.last().is_some_and(|last| last.hash == found.hash) {
            recovery.records_older += 1;
            hide(&found);
        } else {
            newest.push(found);
        }
    }
    let mut index = Index::new(shape);
    let mut placed = Vec::with_capacity(newest.len());
    for found in newest {
        if beside.has(found.page, shape.ident(found.hash)) {
            recovery.records_beside += 1;
            hide(&found);
        } else if index.insert(found.hash, found.page).is_ok() {
            placed.push(found);
        } else {
            recovery.records_without_slot += 1;
            hide(&found);
        }
    }
    for found in placed {
        let ident = shape.ident(found.hash);
        if hidden.get(ident.hash(), &(found.drive, ident)).is_some_and(|entry| *entry > found.sequence) {
            index.remove(ident, |page| page == found.page);
        } else {
            drives[found.drive].zones[found.zone].live[found.namespace] += 1;
        }
    }
    Decision { index, entries }
}
