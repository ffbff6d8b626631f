//! Records that were found in a zone: 8 bytes for each and 16 for each page, for a mount holds those of all zones at once.

use crate::hash::{HASH_BITS, KeyHash};
use crate::request::Namespace;

/// A record that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRecord {
    /// Hash of its key.
    pub hash: KeyHash,
    /// Namespace of its key.
    pub namespace: Namespace,
    /// Sequence of its page.
    pub sequence: u64,
    /// Page within the zone.
    pub page: u32,
}

/// Records of a zone, in the order of their pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundRecords {
    pages: Vec<Page>,
    /// Namespace above hash.
    records: Vec<u64>,
}

#[derive(Debug, PartialEq, Eq)]
struct Page {
    page: u32,
    /// Number of its first record.
    first: u32,
    sequence: u64,
}

impl FoundRecords {
    /// Adds a record of the last page that was found or of one behind it.
    pub fn push(&mut self, FoundRecord { hash, namespace, sequence, page }: FoundRecord) {
        let first = u32::try_from(self.records.len()).expect("a zone has fewer records");
        self.records.push(u64::from(namespace.0) << HASH_BITS | hash.bits());
        match self.pages.last() {
            Some(last) if last.page == page => assert!(last.sequence == sequence, "a page has one sequence"),
            last => {
                assert!(last.is_none_or(|last| last.page < page), "pages come in order");
                self.pages.push(Page { page, first, sequence });
            }
        }
    }

    /// Count of the records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The highest sequence of a page with records, zero where there is none.
    pub fn last_sequence(&self) -> u64 {
        self.pages.iter().map(|page| page.sequence).max().unwrap_or(0)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = FoundRecord> {
        let ends = self.pages.iter().skip(1).map(|page| page.first as usize).chain([self.records.len()]);
        self.pages.iter().zip(ends).flat_map(|(Page { page, first, sequence }, end)| {
            self.records[*first as usize..end].iter().map(|record| FoundRecord {
                hash: KeyHash::from_bits(record & ((1 << HASH_BITS) - 1)),
                namespace: Namespace(u8::try_from(record >> HASH_BITS).expect("made of a byte")),
                sequence: *sequence,
                page: *page,
            })
        })
    }
}

impl FromIterator<FoundRecord> for FoundRecords {
    fn from_iter<T: IntoIterator<Item = FoundRecord>>(all: T) -> FoundRecords {
        let mut records = FoundRecords::default();
        all.into_iter().for_each(|record| records.push(record));
        records.records.shrink_to_fit();
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_found() {
        let record = |page, bits| FoundRecord {
            hash: KeyHash::from_bits(bits),
            namespace: Namespace(u8::try_from(bits % 16).expect("below 16")),
            sequence: u64::from(page) << 41 | 5,
            page,
        };
        let all = [record(1, 7), record(1, (1 << 48) - 1), record(4, 0), record(9, 3), record(9, 3)];
        let found: FoundRecords = all.into_iter().collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), all);
        assert_eq!((found.len(), found.last_sequence()), (5, 9 << 41 | 5));
        assert_eq!(FoundRecords::default().iter().count(), 0);
    }
}
