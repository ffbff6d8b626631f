//! Entries in memory that outlives the process (ADR 57): what `--invalidate process` has acknowledged and drives do not hold yet.
//!
//! ```text
//!   header | header | entry entry entry ...            two headers in turn; a ring of entries behind them
//! ```
//! An entry is there once it is written: the process may end at any instant, and memory keeps what was stored before. The memory ends
//! with the machine, which superblocks tell by the identity of its start. Entries have numbers without gaps, so one that is missing is
//! known to be; the one that was being written when the process ended is torn, and nobody was answered for it.

use crate::format::journal::Entry;
use crate::hash::{KeyHash, Shape};
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use std::collections::BTreeMap;

/// Fields of a header.
pub mod header {
    use base::record_fields;

    record_fields! { 64;
        MAGIC: 0, 8, "`ZWCSHRD1`";
        CACHE: 8, 16, "cache UUID";
        LOG: 24, 4, "the log: the epoch in which it was begun, as superblocks name it";
        VERSION: 28, 4, "counts headers; the higher one of two that are whole counts";
        FIRST: 32, 8, "number of the first entry that counts";
        BUCKETS: 40, 8, "buckets of the index";
        TAG_BITS: 48, 1, "bits of a tag that the index tells apart";
        RESERVED: 49, 11, "zero";
        CRC: 60, 4, "CRC32C of the header with this field zero";
    }

    pub(super) use at::*;
}

/// Fields of an entry.
pub mod entry {
    use base::record_fields;

    record_fields! { 32;
        NUMBER: 0, 8, "its number, from 1; it lies in the place of this number less one, modulo the count of places";
        SEQUENCE: 8, 8, "pages below this sequence are meant";
        HASH: 16, 6, "hash of the key that was written";
        MEMBER: 22, 1, "member whose drive holds what is hidden";
        RESERVED: 23, 1, "zero";
        LOG: 24, 4, "the log";
        CRC: 28, 4, "CRC32C of the entry with this field zero";
    }

    pub(super) use at::*;
}

const MAGIC: &[u8; 8] = b"ZWCSHRD1";
const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32;
const ENTRIES_AT: usize = 2 * HEADER_BYTES;

/// Memory that outlives the process, and not the machine.
pub trait SharedMemory: Send {
    /// Bytes of it.
    fn bytes(&self) -> usize;

    /// Reads from a place on.
    fn read(&self, at: usize, bytes: &mut [u8]);

    /// Stores at a place: after what was stored before, and before what is stored then.
    fn write(&mut self, at: usize, bytes: &[u8]);
}

/// Heap memory, where no process ends.
impl SharedMemory for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self[at..at + bytes.len()]);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Bytes of memory for so many entries.
#[must_use]
pub fn bytes_for(entries: usize) -> usize {
    ENTRIES_AT + entries * ENTRY_BYTES
}

/// The machine that a cache is mounted on.
#[derive(Default)]
pub struct Host {
    /// Identity of its start.
    pub boot: [u8; 16],
    /// Memory that outlives the process since then, if there is some.
    pub memory: Option<Box<dyn SharedMemory>>,
}

/// Mark in superblocks of entries that are not on drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Identity of the start of the machine whose memory holds them.
    pub boot: [u8; 16],
    /// The log.
    pub log: u32,
}

/// A log that was found in memory.
#[derive(Debug)]
pub struct Found {
    /// Shape of the index of that life.
    pub shape: Shape,
    /// Entries with their members.
    pub entries: Vec<(usize, Entry)>,
    /// Number of the next entry.
    next: u64,
    version: u32,
}

fn is_whole(bytes: &[u8], crc_at: usize) -> bool {
    let mut summed = bytes.to_vec();
    summed[crc_at..crc_at + 4].fill(0);
    crc32c(&summed) == u32_at(bytes, crc_at)
}

fn places(memory: &dyn SharedMemory) -> u64 {
    (memory.bytes().saturating_sub(ENTRIES_AT) / ENTRY_BYTES) as u64
}

fn place_of(number: u64, places: u64) -> usize {
    assert!(number > 0 && places > 0, "entry {number} of {places} places");
    let place = usize::try_from((number - 1) % places).expect("a place in memory");
    ENTRIES_AT + place * ENTRY_BYTES
}

/// The headers that are whole, with their places.
fn headers(memory: &dyn SharedMemory) -> impl Iterator<Item = [u8; HEADER_BYTES]> {
    (0..2).filter_map(move |copy| {
        let mut bytes = [0; HEADER_BYTES];
        if memory.bytes() >= ENTRIES_AT {
            memory.read(copy * HEADER_BYTES, &mut bytes);
        }
        (bytes.starts_with(MAGIC) && is_whole(&bytes, header::CRC)).then_some(bytes)
    })
}

/// Finds a log of a cache; `None` when it is not there, or not whole.
#[must_use]
pub fn find(memory: &dyn SharedMemory, cache: [u8; 16], log: u32) -> Option<Found> {
    let header = headers(memory).max_by_key(|header| u32_at(header, header::VERSION))?;
    if array_at::<16>(&header, header::CACHE) != cache || u32_at(&header, header::LOG) != log {
        return None;
    }
    let shape = Shape::new(u64_at(&header, header::BUCKETS), u32::from(header[header::TAG_BITS]))?;
    let (first, places) = (u64_at(&header, header::FIRST).max(1), places(memory));
    let mut found = BTreeMap::new();
    for place in 0..places {
        let mut bytes = [0; ENTRY_BYTES];
        let at = place_of(place + 1, places);
        memory.read(at, &mut bytes);
        let number = u64_at(&bytes, entry::NUMBER);
        let is_here = number >= first && place_of(number, places) == at;
        if is_here && u32_at(&bytes, entry::LOG) == log && is_whole(&bytes, entry::CRC) {
            let hash = KeyHash::from_bytes(array_at(&bytes, entry::HASH));
            let sequence = u64_at(&bytes, entry::SEQUENCE);
            found.insert(number, (usize::from(bytes[entry::MEMBER]), Entry { hash, sequence }));
        }
    }
    let next = found.last_key_value().map_or(first, |(last, _)| last + 1);
    // The place of the next one may be torn: what was there before it was on a drive.
    let oldest = first.max((next + 1).saturating_sub(places));
    let is_complete = (oldest..next).all(|number| found.contains_key(&number));
    let version = u32_at(&header, header::VERSION);
    is_complete.then(|| Found { shape, entries: found.into_values().collect(), next, version })
}

/// Phase of the log of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Entries that were found in the log go to drives.
    Recovering,
    /// New entries are taken.
    Open,
    /// All of it goes to drives, and it takes no more.
    Closing,
    /// Nothing of it is needed.
    Closed,
}

impl Phase {
    /// Moves on. What closes takes no entries any more, and nothing follows the end.
    fn enter(&mut self, next: Phase) {
        let is_next = match self {
            Phase::Recovering => matches!(next, Phase::Open | Phase::Closed),
            Phase::Open => next == Phase::Closing,
            Phase::Closing => next == Phase::Closed,
            Phase::Closed => false,
        };
        assert!(is_next, "{next:?} does not follow {self:?}");
        *self = next;
    }
}

/// The log of a life.
#[derive(Debug)]
pub struct SharedLog {
    cache: [u8; 16],
    log: u32,
    shape: Shape,
    places: u64,
    version: u32,
    next: u64,
    phase: Phase,
    /// True when the log takes entries once those that were found are on drives.
    opens: bool,
    /// Entries that drives do not hold yet.
    in_use: BTreeMap<u64, ()>,
    /// Entries for drives that failed: they are needed until a version of superblocks is recorded.
    lost: Vec<(u64, Vec<u64>)>,
    writes: Vec<(usize, Vec<u8>)>,
}

/// Begin of a log: anew, or upon one that was found.
pub(crate) enum Begin {
    /// Nothing of another one is needed.
    Anew(u32),
    /// Entries of the log that was found are needed.
    Again(u32, Found),
}

impl SharedLog {
    /// The log of a life that begins. With `opens` it takes entries.
    pub(crate) fn new(
        memory: &dyn SharedMemory,
        (cache, shape): ([u8; 16], Shape),
        begin: Begin,
        opens: bool,
    ) -> SharedLog {
        let places = places(memory);
        let version = headers(memory).map(|header| u32_at(&header, header::VERSION)).max().unwrap_or(0);
        let (log, version, next, phase) = match begin {
            Begin::Anew(log) => (log, version, 1, if opens { Phase::Open } else { Phase::Closed }),
            Begin::Again(log, found) => (log, found.version, found.next, Phase::Recovering),
        };
        let (in_use, lost, writes) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut own =
            SharedLog { cache, log, shape, places, version, next, phase, opens, in_use, lost, writes };
        if phase == Phase::Open {
            own.write_header();
        }
        own
    }

    fn write_header(&mut self) {
        self.version += 1;
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, header::MAGIC, MAGIC);
        put(&mut bytes, header::CACHE, &self.cache);
        put(&mut bytes, header::LOG, &self.log.to_le_bytes());
        put(&mut bytes, header::VERSION, &self.version.to_le_bytes());
        put(&mut bytes, header::FIRST, &self.next.to_le_bytes());
        put(&mut bytes, header::BUCKETS, &self.shape.buckets().to_le_bytes());
        bytes[header::TAG_BITS] = u8::try_from(self.shape.tag_bits()).expect("few bits");
        let crc = crc32c(&bytes);
        put(&mut bytes, header::CRC, &crc.to_le_bytes());
        // Over the older one of two.
        let copy = usize::from(self.version.is_multiple_of(2));
        self.writes.push((copy * HEADER_BYTES, bytes.to_vec()));
    }

    /// True while it may take entries.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// True when what was found in it need not go to drives any more.
    pub(crate) fn has_recovered(&self) -> bool {
        self.phase != Phase::Recovering
    }

    /// True when nothing of it is needed.
    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Ends recovery: found entries are on drives. True when superblocks are to say that the log is needed no more.
    pub(crate) fn recovered(&mut self) -> bool {
        assert!(self.phase == Phase::Recovering && self.in_use.is_empty(), "a log recovers once");
        if self.opens {
            self.phase.enter(Phase::Open);
            // One write from what was found to nothing.
            self.write_header();
        } else {
            self.phase.enter(Phase::Closed);
        }
        !self.opens
    }

    /// Closes the log for new entries: those that drives do not hold yet go to them.
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase.enter(Phase::Closing);
        }
    }

    /// Ends closing, when drives hold everything; true when superblocks are to say so.
    pub(crate) fn try_end(&mut self) -> bool {
        let ends = self.phase == Phase::Closing && self.in_use.is_empty() && self.lost.is_empty();
        if ends {
            self.phase.enter(Phase::Closed);
        }
        ends
    }

    /// Writes an entry, if there is room; its number.
    pub(crate) fn add(&mut self, member: usize, Entry { hash, sequence }: Entry) -> Option<u64> {
        let oldest = self.in_use.first_key_value().map_or(self.next, |(oldest, ())| *oldest);
        // One place less than there are: what is torn when the process ends is no entry that is needed.
        if !self.is_open() || self.next - oldest + 1 >= self.places {
            return None;
        }
        let number = self.next;
        assert!(number > 0, "numbers begin with one");
        self.next += 1;
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, entry::NUMBER, &number.to_le_bytes());
        put(&mut bytes, entry::SEQUENCE, &sequence.to_le_bytes());
        put(&mut bytes, entry::HASH, &hash.to_bytes());
        bytes[entry::MEMBER] = u8::try_from(member).expect("at most 32 members");
        put(&mut bytes, entry::LOG, &self.log.to_le_bytes());
        let crc = crc32c(&bytes);
        put(&mut bytes, entry::CRC, &crc.to_le_bytes());
        self.writes.push((place_of(number, self.places), bytes.to_vec()));
        self.in_use.insert(number, ());
        Some(number)
    }

    /// True when drives should take what they do not hold: half of the places are in use.
    pub(crate) fn is_short(&self) -> bool {
        let oldest = self.in_use.first_key_value().map_or(self.next, |(oldest, ())| *oldest);
        (self.next - oldest) * 2 >= self.places
    }

    /// A drive holds an entry.
    pub(crate) fn release(&mut self, number: u64) {
        assert!(number < self.next, "entry {number} is held that was never shared");
        self.in_use.remove(&number);
    }

    /// A drive failed that did not hold these: they are needed until a version of superblocks is recorded, which leaves it out.
    pub(crate) fn lose(&mut self, version: u64, numbers: Vec<u64>) {
        assert!(numbers.iter().all(|number| *number < self.next), "entries are lost that were shared");
        self.lost.push((version, numbers));
    }

    /// Superblocks of so many versions are recorded.
    pub(crate) fn settle(&mut self, has_settled: impl Fn(u64) -> bool) {
        for (_, numbers) in self.lost.extract_if(.., |(version, _)| has_settled(*version)) {
            numbers.iter().for_each(|number| _ = self.in_use.remove(number));
        }
    }

    /// Writes to the memory, as offset and bytes, in the order in which they are to be made.
    pub(crate) fn take_writes(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Heap = Vec<u8>;

    const CACHE: [u8; 16] = [7; 16];
    const PLACES: usize = 8;

    fn shape(buckets: u64) -> Shape {
        Shape::new(buckets, 12).expect("a shape")
    }

    fn begin() -> (Heap, SharedLog) {
        let mut heap = vec![0; bytes_for(PLACES)];
        let mut log = SharedLog::new(&heap, (CACHE, shape(4)), Begin::Anew(3), true);
        store(&mut heap, &mut log);
        (heap, log)
    }

    fn store(heap: &mut Heap, log: &mut SharedLog) {
        log.take_writes().iter().for_each(|(at, bytes)| heap.write(*at, bytes));
    }

    fn entry(number: u64) -> Entry {
        Entry { hash: KeyHash::from_bits(number), sequence: number << 10 }
    }

    fn found(heap: &Heap) -> Option<Vec<u64>> {
        let found = find(heap, CACHE, 3)?;
        assert!(found.entries.iter().all(|(member, own)| *member == 2 && *own == entry(own.hash.bits())));
        Some(found.entries.iter().map(|(_, entry)| entry.hash.bits()).collect())
    }

    #[test]
    fn entries_are_found_until_a_header_says_that_they_are_needed_no_more() {
        let (mut heap, mut log) = begin();
        assert_eq!(found(&heap), Some(Vec::new()));
        for number in 1..PLACES as u64 {
            assert_eq!(log.add(2, entry(number)), Some(number));
            assert_eq!(log.is_short(), number >= PLACES as u64 / 2);
        }
        store(&mut heap, &mut log);
        assert_eq!(log.add(2, entry(8)), None, "there is no place");
        assert_eq!(found(&heap), Some((1..8).collect()));
        log.release(1);
        log.release(3);
        assert_eq!(log.add(2, entry(8)), Some(8));
        assert_eq!(log.add(2, entry(9)), None, "the second is needed");
        log.lose(5, vec![2]);
        log.settle(|version| version < 5);
        assert_eq!(log.add(2, entry(9)), None, "nobody knows that its drive is left out");
        log.settle(|version| version <= 5);
        assert_eq!(log.add(2, entry(9)), Some(9));
        store(&mut heap, &mut log);
        assert_eq!(found(&heap), Some((2..10).collect()), "more than is needed");
        let again = find(&heap, CACHE, 3).expect("it is there");
        let mut log = SharedLog::new(&heap, (CACHE, shape(5)), Begin::Again(3, again), true);
        store(&mut heap, &mut log);
        assert_eq!((log.add(2, entry(10)), found(&heap).map(|all| all.len())), (None, Some(8)));
        assert!(!log.recovered());
        store(&mut heap, &mut log);
        assert_eq!((found(&heap), log.add(2, entry(10))), (Some(Vec::new()), Some(10)));
        store(&mut heap, &mut log);
        assert_eq!(found(&heap), Some(vec![10]));
        assert_eq!(find(&heap, CACHE, 3).map(|found| found.shape), Some(shape(5)));
        assert!(find(&heap, CACHE, 4).is_none() && find(&heap, [8; 16], 3).is_none());
    }

    #[test]
    fn what_is_torn_was_not_answered_and_what_is_missing_is_known() {
        let (mut heap, mut log) = begin();
        for number in 1..=20 {
            log.add(2, entry(number)).expect("there is room");
            let writes = log.take_writes();
            let (at, bytes) = &writes[0];
            for arrive in 0..ENTRY_BYTES {
                let mut torn = heap.clone();
                torn.write(*at, &bytes[..arrive]);
                let all = found(&torn).expect("what is needed is whole");
                assert!(number == 1 || all.last() == Some(&(number - 1)), "entry {number}, {arrive} bytes");
            }
            heap.write(*at, bytes);
            if number > 4 {
                log.release(number - 4);
            }
        }
        for number in 14..20 {
            let mut gone = heap.clone();
            gone[place_of(number, PLACES as u64)] ^= 1;
            assert_eq!(found(&gone), None, "entry {number}");
        }
        // A header that is torn leaves the one before it.
        let before = found(&heap);
        let again = find(&heap, CACHE, 3).expect("it is there");
        let mut log = SharedLog::new(&heap, (CACHE, shape(4)), Begin::Again(3, again), true);
        log.recovered();
        let writes = log.take_writes();
        let (at, bytes) = &writes[0];
        for arrive in 0..HEADER_BYTES {
            let mut torn = heap.clone();
            torn.write(*at, &bytes[..arrive]);
            assert_eq!(found(&torn), before, "{arrive} bytes");
        }
    }
}
