//! Write-intent bitmap of a served array: which bits are durable, who uses a region, and which bits may go.
//!
//! ```text
//!   memory   bits as they are wanted        ask: set at once
//!   disk     bits that the members have     set when a page is written on all of them, cleared as a write without the bit begins
//! ```
//! A bit is durable while `disk` has it. Pages are written whole, one round at a time, to all members. The head lies on page 0:
//! its events are those of the superblock or more, so that the bitmap is never taken for an old one.

use block::md::SECTOR_BYTES_U64;
use block::md::bitmap::{Bits, HEAD_BYTES, Head};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// Bytes of a page, which is written at once.
pub const PAGE_BYTES: usize = 4096;
/// Ticks for which a region was left alone before its bit is cleared.
const TICKS_QUIET: u32 = 2;

type Page = [u8; PAGE_BYTES];

/// Use of a region whose bit is set.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    users: u32,
    /// Ticks since somebody used it.
    age: u32,
}

/// Bitmap in memory.
#[derive(Debug)]
pub struct Pages {
    head: Head,
    memory: Vec<Page>,
    disk: Vec<Page>,
    dirty: BTreeSet<usize>,
    /// Pages on their way to the members.
    in_flight: Vec<(usize, Page)>,
    regions: BTreeMap<u64, Region>,
    /// What the members have says nothing: every bit counts as set, and has to be set before the head is believed.
    is_void: bool,
}

/// Byte among all pages, and bit in it, of a region.
fn place(region: u64) -> (usize, usize, u8) {
    let bit = region + 8 * u64::try_from(HEAD_BYTES).expect("256");
    let byte = usize::try_from(bit / 8).expect("bitmaps fit memory");
    (byte / PAGE_BYTES, byte % PAGE_BYTES, 1 << (bit % 8))
}

/// Sectors of the bitmap before a page.
#[must_use]
pub fn sectors_before(page: usize) -> u64 {
    u64::try_from(page * PAGE_BYTES).expect("bitmaps fit memory") / SECTOR_BYTES_U64
}

/// Regions, of so many sectors, of a range of a member's sectors, which is not empty.
#[must_use]
pub fn regions_of(region_sectors: u64, sectors: &Range<u64>) -> RangeInclusive<u64> {
    assert!(sectors.start < sectors.end, "no sectors: {sectors:?}");
    let of = |sector: u64| sector / region_sectors;
    of(sectors.start)..=of(sectors.end - 1)
}

impl Pages {
    /// Bitmap as the members have it. When that is void, all regions are set.
    #[must_use]
    pub fn new(head: &Head, bits: &Bits, is_void: bool) -> Pages {
        let bytes = usize::try_from(head.bytes()).expect("bitmaps fit memory");
        let count = bytes.div_ceil(PAGE_BYTES);
        let mut pages = Pages {
            head: head.clone(),
            memory: vec![[0; PAGE_BYTES]; count],
            disk: vec![[0; PAGE_BYTES]; count],
            dirty: BTreeSet::new(),
            in_flight: Vec::new(),
            regions: BTreeMap::new(),
            is_void,
        };
        for region in (0..head.regions()).filter(|region| is_void || bits.is_set(*region)) {
            pages.set(region);
            pages.regions.insert(region, Region::default());
        }
        pages.head.state = 0;
        pages.write_head();
        if is_void {
            pages.dirty = (0..count).collect();
        } else {
            pages.disk.clone_from(&pages.memory);
        }
        pages
    }

    /// Bits as one of the members has them, for the last pages may have reached some of the members only: what it lacks is not
    /// durable, and where it has others the page is written anew.
    pub fn note_member(&mut self, bits: &Bits) {
        for region in (0..self.head.regions()).filter(|_| !self.is_void) {
            let (page, byte, bit) = place(region);
            let is_wanted = self.memory[page][byte] & bit != 0;
            if bits.is_set(region) != is_wanted {
                self.disk[page][byte] &= !bit;
                self.dirty.insert(page);
            }
        }
    }

    fn write_head(&mut self) {
        let into = self.memory[0].first_chunk_mut::<HEAD_BYTES>().expect("a page holds the head");
        self.head.encode(into);
    }

    fn set(&mut self, region: u64) {
        assert!(region < self.head.regions(), "region {region} of {}", self.head.regions());
        let (page, byte, bit) = place(region);
        self.memory[page][byte] |= bit;
    }

    /// Seconds between two ticks.
    #[must_use]
    pub fn tick_seconds(&self) -> u64 {
        u64::from(self.head.daemon_sleep.clamp(1, 3600))
    }

    /// Events up to which bits were cleared with all members there.
    #[must_use]
    pub fn events_cleared(&self) -> u64 {
        self.head.events_cleared
    }

    /// Sectors of a region, but for the last.
    #[must_use]
    pub fn region_sectors(&self) -> u64 {
        self.head.region_sectors()
    }

    /// Sectors of a region.
    #[must_use]
    pub fn sectors_of(&self, region: u64) -> Range<u64> {
        let start = region * self.head.region_sectors();
        start..(start + self.head.region_sectors()).min(self.head.sync_size)
    }

    /// True while the bits on the members say nothing.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.is_void
    }

    /// Somebody is about to write to a region, and stays its user until [`Pages::release`].
    pub fn ask(&mut self, region: u64) {
        self.set(region);
        let (page, byte, bit) = place(region);
        if self.disk[page][byte] & bit == 0 {
            self.dirty.insert(page);
        }
        let entry = self.regions.entry(region).or_default();
        entry.users += 1;
        entry.age = 0;
    }

    /// True when the bit of a region is durable on all members.
    #[must_use]
    pub fn is_durable(&self, region: u64) -> bool {
        let (page, byte, bit) = place(region);
        !self.is_void && self.disk[page][byte] & bit != 0
    }

    /// A user of a region is through.
    ///
    /// # Panics
    /// When it has none.
    pub fn release(&mut self, region: u64) {
        let entry = self.regions.get_mut(&region).expect("a region that was asked for");
        assert!(entry.users > 0, "region {region} has no user");
        entry.users -= 1;
        entry.age = 0;
    }

    /// A tick has passed: regions without users get older.
    pub fn tick(&mut self) {
        self.regions.values_mut().filter(|region| region.users == 0).for_each(|region| region.age += 1);
    }

    fn may_go(region: &Region) -> bool {
        region.users == 0 && region.age >= TICKS_QUIET
    }

    /// Regions whose bits may be cleared, once what was written to them is durable.
    #[must_use]
    pub fn quiet(&self) -> Vec<u64> {
        self.regions.iter().filter(|(_, region)| Pages::may_go(region)).map(|(number, _)| *number).collect()
    }

    /// Clears those of the regions that nobody has used since.
    pub fn clear(&mut self, regions: &[u64]) {
        assert!(!self.is_void, "bits that say nothing are not cleared");
        for number in regions {
            if self.regions.get(number).is_some_and(Pages::may_go) {
                self.regions.remove(number);
                let (page, byte, bit) = place(*number);
                self.memory[page][byte] &= !bit;
                self.dirty.insert(page);
            }
        }
    }

    /// Sets the events of the head, and those up to which bits are cleared; page 0 is to be written.
    ///
    /// # Panics
    /// When events go back.
    pub fn set_events(&mut self, events: u64, cleared: u64) {
        assert!(events >= self.head.events || self.is_void, "events {events} after {}", self.head.events);
        assert!(cleared >= self.head.events_cleared || self.is_void, "bits cleared at events {cleared}");
        self.head.events = events;
        self.head.events_cleared = cleared;
        self.write_head();
        self.dirty.insert(0);
    }

    /// Pages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.memory.len()
    }

    /// Content of a page as it is wanted.
    #[must_use]
    pub fn wanted(&self, page: usize) -> &[u8; PAGE_BYTES] {
        &self.memory[page]
    }

    /// Pages that the members have otherwise.
    #[must_use]
    pub fn dirty(&self) -> Vec<usize> {
        self.dirty.iter().copied().collect()
    }

    /// A page is about to be written: bits that it lacks are no longer durable.
    ///
    /// # Panics
    /// When it is on its way already.
    pub fn begin(&mut self, page: usize) -> &Page {
        assert!(self.in_flight.iter().all(|(other, _)| *other != page), "page {page} is on its way");
        let wanted = self.memory[page];
        self.disk[page].iter_mut().zip(&wanted).for_each(|(disk, wanted)| *disk &= wanted);
        self.dirty.remove(&page);
        self.in_flight.push((page, wanted));
        &self.memory[page]
    }

    /// All pages that were begun are durable on all members.
    pub fn end(&mut self) {
        for (page, written) in self.in_flight.drain(..) {
            self.disk[page] = written;
            if self.memory[page] == written {
                self.dirty.remove(&page);
            } else {
                self.dirty.insert(page);
            }
        }
    }

    /// The pages but the first are durable: with the next head the bits count.
    pub fn end_void(&mut self) {
        assert!(self.dirty.iter().all(|page| *page == 0), "pages before the head");
        self.is_void = false;
    }

    /// Regions that are set, in order.
    pub fn regions_set(&self) -> impl Iterator<Item = u64> {
        self.regions.keys().copied()
    }

    /// Regions that are set.
    #[must_use]
    pub fn set_count(&self) -> usize {
        self.regions.len()
    }

    /// Regions.
    #[must_use]
    pub fn regions_count(&self) -> u64 {
        self.head.regions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::md::Uuid;

    fn pages(regions: u64, set: &[u64], is_void: bool) -> Pages {
        let head = Head {
            array: Uuid([1; 16]),
            events: 5,
            events_cleared: 4,
            sync_size: regions * 8,
            state: 0,
            chunk: 4096,
            daemon_sleep: 5,
            write_behind: 0,
            sectors_reserved: 0,
            nodes: 0,
            cluster_name: [0; 64],
        };
        let mut bytes = vec![0; usize::try_from(regions.div_ceil(8)).unwrap()];
        for region in set {
            bytes[usize::try_from(region / 8).unwrap()] |= 1 << (region % 8);
        }
        Pages::new(&head, &Bits::of(regions, bytes).unwrap(), is_void)
    }

    #[test]
    fn pages_follow_one_another() {
        assert_eq!([0, 1, 9].map(sectors_before), [0, 8, 72]);
    }

    fn write_all(pages: &mut Pages) {
        for page in pages.dirty() {
            pages.begin(page);
        }
        pages.end();
    }

    #[test]
    fn a_bit_is_durable_when_its_page_was_written_and_not_while_it_goes() {
        let mut pages = pages(40_000, &[7], false);
        assert!(pages.is_durable(7) && !pages.is_durable(35_000));
        pages.ask(35_000);
        assert_eq!((pages.dirty(), pages.is_durable(35_000)), (vec![1], false));
        write_all(&mut pages);
        assert!(pages.is_durable(35_000) && pages.dirty().is_empty());
        pages.tick();
        pages.tick();
        pages.clear(&[35_000]);
        assert!(pages.is_durable(35_000), "somebody uses it");
        pages.release(35_000);
        pages.tick();
        assert_eq!(pages.quiet(), [7]);
        pages.tick();
        assert_eq!(pages.quiet(), [7, 35_000]);
        pages.clear(&[35_000]);
        pages.begin(1);
        assert!(!pages.is_durable(35_000));
        pages.ask(35_000);
        pages.end();
        assert!(!pages.is_durable(35_000) && pages.dirty() == [1], "asked for while it went");
        write_all(&mut pages);
        assert!(pages.is_durable(35_000));
    }

    #[test]
    fn bits_of_a_void_bitmap_are_all_set_before_its_head() {
        let mut pages = pages(40_000, &[], true);
        assert!(pages.is_void() && !pages.is_durable(3) && pages.dirty() == [0, 1]);
        pages.begin(1);
        pages.end();
        pages.end_void();
        pages.set_events(9, 4);
        write_all(&mut pages);
        assert!(pages.is_durable(3) && pages.set_count() == 40_000);
    }

    #[test]
    fn bits_that_one_member_lacks_are_not_durable() {
        let mut pages = pages(40_000, &[7, 35_000], false);
        let bits = |set: &[usize]| {
            let mut bytes = vec![0; 5_000];
            set.iter().for_each(|region| bytes[region / 8] |= 1 << (region % 8));
            Bits::of(40_000, bytes).unwrap()
        };
        pages.note_member(&bits(&[7, 35_000]));
        assert!(pages.is_durable(7) && pages.dirty().is_empty());
        pages.note_member(&bits(&[35_000]));
        assert!(!pages.is_durable(7) && pages.is_durable(35_000) && pages.dirty() == [0]);
        pages.note_member(&bits(&[7, 35_000, 39_999]));
        assert!(!pages.is_durable(39_999) && pages.dirty() == [0, 1]);
        write_all(&mut pages);
        assert!(pages.is_durable(7) && !pages.is_durable(39_999));
    }

    #[test]
    fn the_head_is_that_of_the_events() {
        let mut pages = pages(16, &[], false);
        pages.set_events(6, 5);
        let head = Head::decode(pages.begin(0).first_chunk().unwrap()).unwrap();
        assert_eq!((head.events, head.events_cleared), (6, 5));
        assert_eq!(regions_of(pages.region_sectors(), &(7..17)), 0..=2);
        assert_eq!(pages.sectors_of(2), 16..24);
    }
}
