//! Buffers: objects that are not in the index yet, filling or in flight; and those that are held in memory alone.

use crate::hash::{FullKey, Ident, KeyHash};
use crate::index::PageNumber;
use crate::policy::Stream;
use crate::request::{Namespace, Object};
use crate::value::heap_bytes;
use base::chains::Chains;
use base::frame::Frame;
use base::slab::Slab;
use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
use std::collections::{BTreeMap, VecDeque};

/// Longest time that an object waits for its page to be full.
pub const PAGE_WAIT: Nanos = Nanos::from_micros(10_000);

/// An object on its way to flash.
#[derive(Debug)]
pub struct Record {
    /// Key of the object.
    pub key: FullKey,
    /// Hash of the key.
    pub hash: KeyHash,
    /// Identity of the key in the index.
    pub ident: Ident,
    /// The object.
    pub object: Object,
    /// True while it is the newest version of its key.
    pub alive: bool,
    /// Page it begins in, once it is in flight.
    pub page: Option<PageNumber>,
    /// The stream of its pages.
    pub stream: Stream,
    /// Place on flash of a record that is written anew, because its zone goes.
    pub again: Option<Again>,
    /// Order number of a record that is held in memory alone.
    pub held: Option<u64>,
}

/// Place on flash of an object that is written anew.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// The drive.
    pub drive: usize,
    /// The zone.
    pub zone: ZoneIndex,
    /// Life of the zone.
    pub birth: u64,
    /// Heat that it keeps.
    pub heat: u8,
}

/// Records that wait for a page.
#[derive(Debug, Default)]
struct Filling {
    records: VecDeque<u32>,
    bytes: usize,
    first_at: Option<Instant>,
    /// Records that are not written anew.
    stored: usize,
}

/// Pages in flight to one zone of a drive.
#[derive(Debug)]
pub struct Batch {
    /// The zone.
    pub zone: ZoneIndex,
    /// Records, by number.
    pub records: Vec<u32>,
    /// Frames that were not handed over yet.
    pub frames: VecDeque<Frame>,
    /// Directory blocks: the last so many of these frames.
    pub directory: usize,
    /// Frames that were handed over last.
    pub handed: u32,
    /// The zone takes no more behind them.
    pub closes: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Buffer {
    records: Slab<Record>,
    /// By stream.
    filling: [Filling; Stream::PLACES],
    bytes: u64,
    /// Bytes of those that are written anew.
    again_bytes: u64,
    /// Bytes of those that are held in memory alone.
    held_bytes: u64,
    /// Records that are held in memory alone, by the order in which they came.
    held: BTreeMap<u64, u32>,
    /// Count of what was ever held.
    held_ever: u64,
    /// Newest versions and what is in flight, by ident.
    by_ident: Chains,
    /// Records that are written anew, by the zone they lie in.
    reinserting: BTreeMap<(usize, ZoneIndex), usize>,
    objects: [u64; 16],
}

/// Bytes of a record beside those of its key and its value: itself, its places in the chains, in a queue and in a tree that is half
/// full at the least, and what two allocations waste.
const RECORD_BYTES: usize = size_of::<Option<Record>>()
    + Chains::SLOT_BYTES
    + 2 * size_of::<(u64, u32)>()
    + 2 * size_of::<u32>()
    + 2 * 16;

/// Bytes of memory that a record takes.
pub fn weight(key_bytes: usize, value_bytes: usize) -> usize {
    RECORD_BYTES + key_bytes + heap_bytes(value_bytes)
}

impl Record {
    /// Bytes of memory that it takes.
    pub fn weight(&self) -> u64 {
        weight(self.key.bytes().len(), self.object.value.len()) as u64
    }

    /// Bytes that it fills of a page, about.
    fn page_bytes(&self) -> usize {
        self.key.bytes().len() + self.object.value.len() + 64
    }
}

impl Buffer {
    /// Bytes of all records.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of what clients stored that is on its way to flash.
    pub fn stored_bytes(&self) -> u64 {
        self.bytes - self.again_bytes - self.held_bytes
    }

    /// Bytes of what is held in memory alone.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Objects that are held in memory alone.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// True of a key whose newest version is held in memory alone.
    pub fn is_held(&self, ident: Ident, key: &FullKey) -> bool {
        self.find(ident, key).is_some_and(|number| self.records.get(number).held.is_some())
    }

    /// Bytes of what is written anew.
    pub fn again_bytes(&self) -> u64 {
        self.again_bytes
    }

    /// Bytes that wait for a page of a stream.
    pub fn filling_bytes(&self, stream: Stream) -> usize {
        self.filling[stream.place()].bytes
    }

    /// Objects that clients stored and that wait for a page of a stream, superseded ones included.
    pub fn filling_stored(&self, stream: Stream) -> usize {
        self.filling[stream.place()].stored
    }

    /// Objects of a zone that are written anew and have not landed.
    pub fn reinserting(&self, drive: usize, zone: ZoneIndex) -> usize {
        self.reinserting.get(&(drive, zone)).copied().unwrap_or(0)
    }

    /// Newest versions of a namespace.
    pub fn objects(&self, namespace: Namespace) -> u64 {
        self.objects[usize::from(namespace.0)]
    }

    /// Times at which the oldest record of each stream leaves.
    pub fn deadlines(&self) -> impl Iterator<Item = Instant> {
        self.filling.iter().filter_map(|filling| filling.first_at).map(|first| first + PAGE_WAIT)
    }

    /// Time at which the oldest record of a stream leaves.
    pub fn deadline_of(&self, stream: Stream) -> Option<Instant> {
        self.filling[stream.place()].first_at.map(|first| first + PAGE_WAIT)
    }

    /// Records of an ident: newest versions and what is in flight.
    fn numbers(&self, ident: Ident) -> impl Iterator<Item = u32> + '_ {
        let of_hash = self.by_ident.slots(ident.hash());
        of_hash.filter(move |number| self.records.get(*number).ident == ident)
    }

    fn find(&self, ident: Ident, key: &FullKey) -> Option<u32> {
        let is_newest = |record: &Record| record.alive && record.key == *key;
        self.numbers(ident).find(|number| is_newest(self.records.get(*number)))
    }

    /// Newest version of a key.
    pub fn get(&self, ident: Ident, key: &FullKey) -> Option<&Object> {
        self.find(ident, key).map(|number| &self.records.get(number).object)
    }

    /// Newest versions of all keys that are here.
    pub fn newest(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.alive)
    }

    /// Newest versions on their way to flash.
    pub fn on_their_way(&self) -> impl Iterator<Item = &Record> {
        self.newest().filter(|record| record.held.is_none())
    }

    /// Newest versions of an ident that are held in memory alone.
    pub fn held_of(&self, ident: Ident) -> impl Iterator<Item = &Record> {
        self.numbers(ident).map(|number| self.records.get(number)).filter(|record| record.held.is_some())
    }

    /// Takes a new version of a key, which has none here, for flash.
    pub fn put(&mut self, now: Instant, record: Record) {
        let number = self.take_in(record);
        self.enqueue(now, number);
    }

    /// Takes a new version of a key, which has none here, to hold it in memory alone.
    pub fn hold(&mut self, record: Record) {
        assert!(record.again.is_none(), "what is on flash is not held");
        self.held_ever += 1;
        self.held_bytes += record.weight();
        let number = self.take_in(Record { held: Some(self.held_ever), ..record });
        self.held.insert(self.held_ever, number);
    }

    fn take_in(&mut self, record: Record) -> u32 {
        assert!(record.alive && record.page.is_none());
        self.bytes += record.weight();
        match record.again {
            // It counts where it lies.
            Some(Again { drive, zone, .. }) => {
                self.again_bytes += record.weight();
                *self.reinserting.entry((drive, zone)).or_default() += 1;
            }
            None => self.objects[usize::from(record.key.namespace().0)] += 1,
        }
        assert!(self.find(record.ident, &record.key).is_none(), "the older version was dropped");
        let hash = record.ident.hash();
        let number = self.records.insert(record);
        self.by_ident.insert(hash, number);
        number
    }

    /// A record waits for a page.
    fn enqueue(&mut self, now: Instant, number: u32) {
        let record = self.records.get(number);
        let filling = &mut self.filling[record.stream.place()];
        filling.bytes += record.page_bytes();
        filling.first_at.get_or_insert(now);
        filling.stored += usize::from(record.again.is_none());
        filling.records.push_back(number);
    }

    /// Releases the held record of a key to flash.
    pub fn release(&mut self, now: Instant, ident: Ident, key: &FullKey) {
        let number = self.find(ident, key).expect("it is held");
        let record = self.records.get_mut(number);
        let order = record.held.take().expect("it is held");
        self.held_bytes -= record.weight();
        self.held.remove(&order);
        self.enqueue(now, number);
    }

    /// Forgets the record that was held first, and returns it.
    pub fn forget_oldest(&mut self) -> Option<Record> {
        let (_, number) = self.held.pop_first()?;
        let record = self.take_out(number);
        self.by_ident.remove(record.ident.hash(), number);
        self.objects[usize::from(record.key.namespace().0)] -= 1;
        Some(record)
    }

    /// The newest version of a key is none any more.
    pub fn drop_newest(&mut self, ident: Ident, key: &FullKey) {
        self.find(ident, key).into_iter().for_each(|number| self.kill(number));
    }

    /// All newest versions of namespaces that are chosen are none any more.
    pub fn drop_all(&mut self, chosen: impl Fn(Namespace) -> bool) {
        let goes = |record: &Record| record.alive && chosen(record.key.namespace());
        let chosen = self.records.numbered().filter(|(_, record)| goes(record));
        let numbers: Vec<u32> = chosen.map(|(number, _)| number).collect();
        numbers.into_iter().for_each(|number| self.kill(number));
    }

    /// A newest version is none any more. In flight it goes on: flash may hold it.
    fn kill(&mut self, number: u32) {
        let record = self.records.get_mut(number);
        assert!(record.alive, "only newest versions are superseded");
        record.alive = false;
        let (held, is_flying) = (record.held, record.page.is_some());
        let (ident, namespace) = (record.ident, record.key.namespace());
        self.objects[usize::from(namespace.0)] -= u64::from(record.again.is_none());
        if !is_flying {
            self.by_ident.remove(ident.hash(), number);
        }
        if let Some(order) = held {
            self.held.remove(&order);
            self.take_out(number);
        }
    }

    /// The next record that waits for a page; superseded ones are left out of pages.
    pub fn next_filling(&mut self, stream: Stream) -> Option<&Record> {
        while let Some(number) = self.filling[stream.place()].records.front().copied() {
            if self.records.get(number).alive {
                return Some(self.records.get(number));
            }
            self.filling[stream.place()].records.pop_front();
            let record = self.take_out(number);
            let filling = &mut self.filling[stream.place()];
            filling.bytes -= record.page_bytes();
            filling.stored -= usize::from(record.again.is_none());
        }
        self.filling[stream.place()].first_at = None;
        None
    }

    /// A record is here no more.
    fn take_out(&mut self, number: u32) -> Record {
        let record = self.records.remove(number);
        self.bytes -= record.weight();
        if record.held.is_some() {
            self.held_bytes -= record.weight();
        }
        if let Some(Again { drive, zone, .. }) = record.again {
            self.again_bytes -= record.weight();
            let count = self.reinserting.get_mut(&(drive, zone)).expect("it was counted when it came");
            *count -= 1;
            if *count == 0 {
                self.reinserting.remove(&(drive, zone));
            }
        }
        record
    }

    /// The next record leaves for a page.
    pub fn launch(&mut self, stream: Stream, page: PageNumber) -> u32 {
        let filling = &mut self.filling[stream.place()];
        let number = filling.records.pop_front().expect("the caller looked at it");
        let record = self.records.get_mut(number);
        assert!(record.alive && record.page.is_none());
        record.page = Some(page);
        filling.bytes -= record.page_bytes();
        filling.stored -= usize::from(record.again.is_none());
        number
    }

    /// Joins the records that wait for a page of a stream to those of another, as if they had come to that one.
    pub fn join(&mut self, from: Stream, to: Stream) {
        assert!(from != to);
        let Filling { mut records, bytes, first_at, stored } =
            std::mem::take(&mut self.filling[from.place()]);
        let joined = &mut self.filling[to.place()];
        joined.records.append(&mut records);
        joined.bytes += bytes;
        joined.stored += stored;
        joined.first_at = joined.first_at.into_iter().chain(first_at).min();
    }

    /// Restarts the wait of the records of a stream from now.
    pub fn restart_wait(&mut self, stream: Stream, now: Instant) {
        let filling = &mut self.filling[stream.place()];
        filling.first_at = if filling.records.is_empty() { None } else { Some(now) };
    }

    /// A record in flight.
    pub fn record(&self, number: u32) -> &Record {
        self.records.get(number)
    }

    /// A record in flight has landed, or is lost.
    pub fn land(&mut self, number: u32) -> Record {
        let record = self.take_out(number);
        assert!(record.page.is_some(), "only what is in flight lands");
        self.by_ident.remove(record.ident.hash(), number);
        if record.alive {
            self.objects[usize::from(record.key.namespace().0)] -= u64::from(record.again.is_none());
        }
        record
    }

    /// Pages on their way to which something of an ident is.
    pub fn flying(&self, ident: Ident) -> impl Iterator<Item = PageNumber> + '_ {
        self.numbers(ident).filter_map(|number| self.records.get(number).page)
    }
}
