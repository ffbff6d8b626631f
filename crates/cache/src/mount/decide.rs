//! What counts of all records that were found: journals decide, then sequences.

use super::scan::{Contents, DriveScan};
use crate::format::NAMESPACES;
use crate::format::journal::Entry;
use crate::hash::{Ident, KeyHash, Shape};
use crate::index::{Index, PageNumber};
use crate::shard::Drive;
use crate::status::Recovery;
use std::collections::{BTreeMap, BTreeSet};

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
type Hides = Vec<(Shape, BTreeMap<Ident, u64>)>;

fn hides_of(scan: &DriveScan) -> Hides {
    let mut hides: Hides = Vec::new();
    for zone in &scan.zones {
        let Contents::Journal { shape, entries, .. } = &zone.contents else { continue };
        let place = hides.iter().position(|(own, _)| own == shape).unwrap_or_else(|| {
            hides.push((*shape, BTreeMap::new()));
            hides.len() - 1
        });
        for entry in entries {
            let highest = hides[place].1.entry(shape.ident(entry.hash)).or_insert(0);
            *highest = (*highest).max(entry.sequence);
        }
    }
    hides
}

/// Decides, for an index of a shape and hashes under a secret.
pub fn decide(
    (shape, secret): (Shape, &[u8; 16]),
    drives: &mut [Drive],
    scans: Vec<Option<DriveScan>>,
    cleared: &[u64; NAMESPACES],
    recovery: &mut Recovery,
) -> Decision {
    let mut candidates = Vec::new();
    let mut beside = BTreeSet::new();
    for (drive, scan) in scans.iter().enumerate() {
        let Some(scan) = scan else { continue };
        let hides = hides_of(scan);
        for (zone, found) in scan.zones.iter().enumerate() {
            let Contents::Data(records) = &found.contents else { continue };
            for record in records {
                recovery.records_found += 1;
                let hash = KeyHash::of(secret, &record.key);
                let namespace = usize::from(record.key.namespace().0);
                let sequence = record.sequence;
                let is_hidden = hides.iter().any(|(shape, idents)| {
                    idents.get(&shape.ident(hash)).is_some_and(|entry| *entry > sequence)
                });
                let zone_number = u32::try_from(zone).expect("a u32 of zones");
                let page = drives[drive].base + zone_number * drives[drive].capacity + record.page;
                let page = PageNumber(page);
                if is_hidden || sequence < cleared[namespace] {
                    recovery.records_hidden += 1;
                    beside.insert((page, shape.ident(hash)));
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
    (candidates, beside): (Vec<Candidate>, BTreeSet<(PageNumber, Ident)>),
    drives: &mut [Drive],
    recovery: &mut Recovery,
) -> Decision {
    let mut hidden: BTreeMap<(usize, Ident), u64> = BTreeMap::new();
    let mut entries = Vec::new();
    let mut hide = |found: &Candidate| {
        // One above the record's: what the index cannot tell from it and is newer stays.
        let entry = Entry { hash: found.hash, sequence: found.sequence + 1 };
        entries.push((found.drive, entry));
        let highest = hidden.entry((found.drive, shape.ident(found.hash))).or_insert(0);
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
        if beside.contains(&(found.page, shape.ident(found.hash))) {
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
        if hidden.get(&(found.drive, ident)).is_some_and(|entry| *entry > found.sequence) {
            index.remove(ident, |page| page == found.page);
        } else {
            drives[found.drive].zones[found.zone].live[found.namespace] += 1;
        }
    }
    Decision { index, entries }
}
