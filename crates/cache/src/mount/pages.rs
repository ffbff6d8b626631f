//! Zones of data, page by page: where directories are missing, behind the last one, and for a check.

use super::found::{FoundRecord, FoundRecords};
use super::reader::Reader;
use super::scan::{Blocks, Latest};
use crate::format::directory::{DirectoryBlock, Listed, ListedPage, Listing, class_of};
use crate::format::page::PageView;
use crate::format::record::RecordHead;
use crate::format::stamp::{Kind, Stamp};
use crate::hash::KeyHash;
use crate::request::WallMillis;
use crate::shard::Expiries;
use base::frame::Frame;

/// Blocks of a zone of data, behind its header.
pub const KINDS: &[Kind] = &[Kind::Records, Kind::Directory];

/// Scan of a zone of data.
#[derive(Debug, PartialEq, Eq)]
pub struct DataScan {
    /// Records, in order of their pages.
    pub records: FoundRecords,
    /// Expiry times of the records.
    pub expiries: Expiries,
    /// Listing for the next directory, where the zone takes more pages.
    pub listing: Option<Listing>,
    /// True when the last block closes the zone.
    pub is_closed: bool,
}

/// A record that goes on in the next page.
struct Partial {
    record: FoundRecord,
    class: u8,
    missing: usize,
}

/// Pages since the last directory.
struct Uncovered {
    covers: u32,
    before: u32,
    pages: Vec<ListedPage>,
}

/// Pages of a zone, as they come.
pub struct PageScan<'a> {
    blocks: &'a Blocks,
    secret: &'a [u8; 16],
    records: FoundRecords,
    expiries: Expiries,
    partial: Option<Partial>,
    uncovered: Uncovered,
    /// The zone was finished: blocks that were never written follow.
    has_ended: bool,
    is_closed: bool,
}

impl<'a> PageScan<'a> {
    /// From the first page on.
    pub fn new(blocks: &'a Blocks, secret: &'a [u8; 16]) -> PageScan<'a> {
        let uncovered = Uncovered { covers: 1, before: 0, pages: Vec::new() };
        let (records, expiries) = (FoundRecords::default(), Expiries::new(blocks.zone_bytes()));
        let (partial, has_ended, is_closed) = (None, false, false);
        PageScan { blocks, secret, records, expiries, partial, uncovered, has_ended, is_closed }
    }

    /// Behind a directory whose last block is `at`: what it and those before it list is known.
    pub fn behind(self, at: u32, directory: &DirectoryBlock, records: FoundRecords) -> PageScan<'a> {
        let uncovered = Uncovered { covers: at + 1, before: at + 1 - directory.run, pages: Vec::new() };
        let expiries = Expiries::told(self.blocks.zone_bytes(), &directory.expiries);
        PageScan { records, expiries, uncovered, is_closed: directory.closes, ..self }
    }

    /// The next page; `None` when it cannot be judged.
    pub fn take(&mut self, page: u32, frame: &Frame, latest: &mut Latest) -> Option<()> {
        if self.blocks.is_full && frame.is_blank() {
            self.has_ended = true;
            return Some(());
        }
        // Behind a block that was never written there is none that was, and none behind what closes the zone.
        let may_follow = !self.has_ended && !self.is_closed;
        let stamp = self.blocks.stamp(frame, page, KINDS).filter(|_| may_follow)?;
        latest.knows(WallMillis(0), stamp.sequence);
        match stamp.kind {
            Kind::Records => self.take_records(page, &stamp, frame),
            Kind::Directory => self.take_directory(page, &stamp, frame),
            Kind::Header | Kind::Journal | Kind::Superblock => unreachable!("not among the kinds"),
        }
    }

    fn take_records(&mut self, page: u32, stamp: &Stamp, frame: &Frame) -> Option<()> {
        self.uncovered.pages.push(ListedPage { sequence: stamp.sequence, records: Vec::new() });
        let view = PageView::parse(&frame.data)?;
        self.go_on(stamp, view.lead().len());
        for bytes in view.records() {
            let head = RecordHead::parse(bytes)?;
            self.expiries.add(head.expires, head.record_bytes());
            let hash = KeyHash::of_parts(self.secret, head.namespace, head.key(bytes)?);
            let record = FoundRecord { hash, namespace: head.namespace, sequence: stamp.sequence, page };
            let class = class_of(head.record_bytes());
            match head.record_bytes().checked_sub(bytes.len()).filter(|missing| *missing > 0) {
                None => self.found(record, class),
                Some(missing) => self.partial = Some(Partial { record, class, missing }),
            }
        }
        Some(())
    }

    /// The bytes at the start of a page belong to the record before, or that was cut short.
    fn go_on(&mut self, stamp: &Stamp, lead: usize) {
        let Some(Partial { record, class, missing }) = self.partial.take() else { return };
        match missing.checked_sub(lead).filter(|_| stamp.origin == record.sequence) {
            None => {}
            Some(0) => self.found(record, class),
            Some(missing) => self.partial = Some(Partial { record, class, missing }),
        }
    }

    /// A record is there to its end.
    fn found(&mut self, record: FoundRecord, class: u8) {
        let FoundRecord { hash, namespace, page, .. } = record;
        let listed = &mut self.uncovered.pages[(page - self.uncovered.covers) as usize];
        listed.records.push(Listed { hash, namespace, class });
        self.records.push(record);
    }

    /// Blocks of a directory of which not all were written count as pages: the next one covers them.
    fn take_directory(&mut self, page: u32, stamp: &Stamp, frame: &Frame) -> Option<()> {
        let block = DirectoryBlock::decode_at(&frame.data, page)?;
        // A record that was cut short, and never will be whole.
        self.partial = None;
        if block.is_last && block.covers == self.uncovered.covers {
            self.uncovered = Uncovered { covers: page + 1, before: page + 1 - block.run, pages: Vec::new() };
            self.is_closed = block.closes;
        } else {
            self.uncovered.pages.push(ListedPage { sequence: stamp.sequence, records: Vec::new() });
        }
        Some(())
    }

    /// Result of the scan. A record that was not written to its end is none, and never will be: other pages follow.
    pub fn end(self) -> DataScan {
        let PageScan { blocks, records, expiries, uncovered, is_closed, .. } = self;
        let Uncovered { covers, before, pages } = uncovered;
        let takes_more = !blocks.is_full && !is_closed;
        let listing = takes_more.then(|| {
            let mut listing = Listing::new(covers, before);
            pages.into_iter().for_each(|page| listing.add(page.sequence, page.records.into_iter()));
            listing
        });
        DataScan { records, expiries, listing, is_closed }
    }
}

/// Reads all pages of a zone; `None` when one of them cannot be judged.
pub async fn by_pages(
    reader: &Reader,
    (blocks, secret): (&Blocks, &[u8; 16]),
    latest: &mut Latest,
) -> Option<DataScan> {
    let mut scan = PageScan::new(blocks, secret);
    let mut offset = 1;
    while offset < blocks.end {
        for (page, frame) in blocks.read(reader, (offset, scan.has_ended), KINDS).await {
            scan.take(page, &frame?, latest)?;
            offset = page + 1;
        }
    }
    Some(scan.end())
}
