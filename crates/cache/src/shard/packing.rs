//! Packing: which records go into the pages of a batch, and the directory that follows them when it is due.
//!
//! ```text
//!   zone: | header | pages | directory | pages | pages of this batch | room | directory that would close it now |
//! ```
//! The room for the directory that closes a zone is kept free until it is written. A directory is written as soon as it fills a transfer,
//! covers 16 MiB, or what it lists takes its share of the memory; and where nothing else fits.

use super::buffer::Record;
use super::core::Core;
use super::drive::Drive;
use super::objects::Objects;
use super::open::LISTED_PAGES_MAX;
use crate::format::directory::{Extent, Listed, class_of};
use crate::format::page::{Packer, PageWriter, Place};
use crate::format::record;
use crate::format::stamp::{Kind, Stamp};
use crate::index::PageNumber;
use crate::policy::Stream;
use base::frame::Frame;
use base::units::ZoneIndex;
use std::collections::VecDeque;

/// Records of a batch, with their places in its pages.
#[derive(Debug, Default)]
pub struct Packed {
    /// Numbers of records, and where each begins.
    pub records: Vec<(u32, Place)>,
    /// Pages of the batch.
    pub pages: usize,
}

/// Blocks of the directory that would follow the pages of a batch.
#[derive(Clone, Copy, Debug)]
struct Tally {
    /// Without the last page in which a record begins.
    before: Extent,
    /// Last page in which a record begins, and the count of records that begin in it.
    page: usize,
    records: usize,
}

impl Tally {
    fn new(before: Extent) -> Tally {
        Tally { before, page: 0, records: 0 }
    }

    /// A record begins in a page.
    fn add(&mut self, page: usize) {
        while self.page < page {
            self.before.add(self.records);
            (self.page, self.records) = (self.page + 1, 0);
        }
        self.records += 1;
    }

    /// Blocks of the directory behind so many pages.
    fn blocks(&self, pages: usize) -> usize {
        let mut all = self.before;
        all.add(self.records);
        (self.page + 1..pages).for_each(|_| all.add(0));
        all.blocks() as usize
    }
}

impl Objects {
    /// Takes records that wait for pages of a stream, for at most so many pages of a zone.
    pub(super) fn pack(
        &mut self,
        core: &mut Core,
        (drive, zone): (usize, ZoneIndex),
        stream: Stream,
        pages_max: usize,
    ) -> Packed {
        let own = &mut core.drives[drive];
        let first = own.zones[zone.index()].end.max(1);
        let room = (own.capacity - first) as usize;
        let mut tally = own.open.listing_mut(zone).map(|listing| Tally::new(listing.extent()));
        let mut packer = Packer::new(pages_max.min(room));
        let mut records = Vec::new();
        while let Some(record) = self.buffer.next_filling(stream) {
            let (bytes, head) = record::sizes(&record.key, &record.object);
            let mut next = packer;
            let Some(place) = next.place(bytes, head) else { break };
            tally.iter_mut().for_each(|tally| tally.add(place.page));
            let directory = tally.map_or(0, |tally| tally.blocks(next.pages()));
            if next.pages() + directory > room {
                break;
            }
            packer = next;
            let page = first + u32::try_from(place.page).expect("within a zone");
            let own = &mut core.drives[drive];
            own.zones[zone.index()].expiries.add(record.object.expires, bytes);
            let number = PageNumber(own.base + zone.0 * own.capacity + page);
            records.push((self.buffer.launch(stream, number), place));
            if packer.pages() >= core.options.batch_pages as usize {
                break;
            }
        }
        Packed { records, pages: packer.pages() }
    }

    /// Writes records into pages and seals these.
    pub(super) fn fill(
        &mut self,
        core: &mut Core,
        (drive, zone): (usize, ZoneIndex),
        packed: &Packed,
        frames: &mut VecDeque<Frame>,
    ) {
        let life = core.life(drive, zone);
        let first = core.drives[drive].zones[zone.index()].end.max(1);
        let room = (core.drives[drive].capacity - first) as usize;
        assert!(packed.pages <= room, "{} pages fit a zone with room for {room}", packed.pages);
        let mut pages: Vec<(Frame, u64, u64)> = (0..packed.pages).map(|_| core.empty_page()).collect();
        for (number, place) in &packed.records {
            let record = self.buffer.record(*number);
            let (front, value) = (record::encode_front(&record.key, &record.object), &record.object.value);
            let (mut page, origin) = (place.page, pages[place.page].1);
            let mut done = PageWriter::resume(&mut pages[page].0.data).begin(place.offset, &front, value);
            while done < value.len() {
                page += 1;
                pages[page].2 = origin;
                done += PageWriter::resume(&mut pages[page].0.data).go_on(&value[done..]);
            }
        }
        let (own, buffer) = (&mut core.drives[drive], &self.buffer);
        let listed = |(number, _): &(u32, Place)| {
            let Record { key, hash, object, .. } = buffer.record(*number);
            let (bytes, _) = record::sizes(key, object);
            Listed { hash: *hash, namespace: key.namespace(), class: class_of(bytes) }
        };
        let mut rest = &packed.records[..];
        for (number, (mut frame, sequence, origin)) in pages.into_iter().enumerate() {
            let begun;
            (begun, rest) = rest.split_at(rest.partition_point(|(_, place)| place.page == number));
            assert!(
                sequence > life.birth && origin < sequence,
                "a page is younger than its zone, and what it goes on with"
            );
            own.zones[zone.index()].last = sequence;
            if let Some(listing) = own.open.listing_mut(zone) {
                listing.add(sequence, begun.iter().map(listed));
            }
            let page = first + u32::try_from(number).expect("within a zone");
            Stamp { life, page, kind: Kind::Records, sequence, origin }.seal(&mut frame);
            frames.push_back(frame);
        }
        assert!(rest.is_empty(), "each record begins in a page of the batch");
    }
}

impl Core {
    pub(super) fn empty_page(&mut self) -> (Frame, u64, u64) {
        let sequence = self.next_sequence();
        let mut frame = self.take_frame();
        PageWriter::new(&mut frame.data);
        (frame, sequence, 0)
    }

    /// Bytes that the next directory of a zone may list: half of what there is for all zones that may be open, since drives may join.
    pub(super) fn listing_share(&self) -> u64 {
        let zones: usize = self.drives.iter().map(Drive::open_max).sum();
        self.options.listing_bytes() / 2 / zones.max(1) as u64
    }

    /// Ends the directory of a zone behind its last page, if that is due. True when the zone takes no more behind it.
    pub(super) fn list(
        &mut self,
        (drive, zone): (usize, ZoneIndex),
        is_over: bool,
        frames: &mut VecDeque<Frame>,
    ) -> bool {
        let (share, life) = (self.listing_share(), self.life(drive, zone));
        let own = &mut self.drives[drive];
        let Some(listing) = own.open.listing_mut(zone) else { return is_over };
        let (run, blocks) = (listing.end(), listing.extent().blocks());
        assert!(run + blocks <= own.capacity, "room is kept for the directory");
        let closes = is_over || run + blocks == own.capacity;
        let is_long = listing.pages() >= LISTED_PAGES_MAX || blocks >= own.transfer_max;
        if !closes && !is_long && listing.bytes() as u64 <= share {
            return false;
        }
        let directory = listing.end_directory(own.zones[zone.index()].expiries.tell(), closes);
        self.counters.blocks_directory += directory.len() as u64;
        for (block, page) in directory.into_iter().zip(run..) {
            let (mut frame, sequence) = (self.take_frame(), self.next_sequence());
            frame.set_data(&block);
            Stamp { life, page, kind: Kind::Directory, sequence, origin: 0 }.seal(&mut frame);
            frames.push_back(frame);
        }
        closes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    #[test]
    fn a_tally_knows_the_blocks_of_a_directory() {
        for seed in 0..50 {
            let mut random = Random::from_seed(seed);
            let (mut tally, mut begun) = (Tally::new(Extent::default()), vec![0]);
            for _ in 0..2_000 {
                if begun[begun.len() - 1] == 300 || random.chance(1, 20) {
                    begun.resize(begun.len() + 1 + random.index(3), 0);
                }
                let page = begun.len() - 1;
                begun[page] += 1;
                tally.add(page);
                let more = random.index(1_000);
                let mut extent = Extent::default();
                begun.iter().for_each(|records| extent.add(*records));
                (0..more).for_each(|_| extent.add(0));
                assert_eq!(tally.blocks(page + 1 + more), extent.blocks() as usize, "seed {seed}");
            }
        }
    }
}
