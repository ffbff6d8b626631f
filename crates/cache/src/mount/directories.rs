//! Zones of data by their directories, the last one first: each says where the one before it lies.
//!
//! What is found has to be what [`by_pages`] finds, or more: a record that one mount misses and a later one finds could be older than what
//! was deleted between them. So a zone that takes no more is read in this way only when its last block closes it, and one that takes
//! more page by page from its last directory on. Whatever is not as it should be leads to the pages.

use super::found::{FoundRecord, FoundRecords};
use super::pages::{DataScan, KINDS, PageScan};
use super::reader::Reader;
use super::scan::{Blocks, Latest};
use crate::format::directory::{DirectoryBlock, Listed};
use crate::format::stamp::{Kind, Stamp};
use crate::request::WallMillis;
use base::frame::Frame;
use std::collections::VecDeque;

/// The end of a zone, from its last directory on.
struct Tail {
    /// The directory, and its last block; `None` where there is none, in a zone that takes more.
    last: Option<(u32, DirectoryBlock)>,
    /// Blocks behind it.
    frames: VecDeque<Frame>,
}

/// Reads a zone by its directories; `None` when it has to be read page by page.
pub async fn by_directories(
    reader: &Reader,
    (blocks, secret): (&Blocks, &[u8; 16]),
    latest: &mut Latest,
) -> Option<DataScan> {
    let Tail { last, frames } = find_last(reader, blocks, latest).await?;
    let mut scan = PageScan::new(blocks, secret);
    let mut next = 1;
    if let Some((at, directory)) = last {
        let records = records_before(reader, blocks, at + 1, &directory).await?;
        scan = scan.behind(at, &directory, records);
        next = at + 1;
    }
    for (page, frame) in (next..).zip(&frames) {
        scan.take(page, frame, latest)?;
    }
    Some(scan.end())
}

/// Finds the last directory of a zone, backwards from its end.
async fn find_last(reader: &Reader, blocks: &Blocks, latest: &mut Latest) -> Option<Tail> {
    let mut frames = VecDeque::new();
    // The last block of a zone that takes no more is the one that matters, as a rule.
    let mut count = if blocks.is_full { 1 } else { reader.stride() };
    let mut behind = blocks.end;
    while behind > 1 {
        let first = behind.saturating_sub(count).max(1);
        let kinds = if blocks.is_full { &[Kind::Directory] } else { KINDS };
        let read = reader.read_as(first, behind - first, |page, frame| blocks.has(frame, page, kinds)).await;
        for (page, frame) in (first..behind).zip(read).rev() {
            let frame = frame?;
            if blocks.is_full && frame.is_blank() {
                continue;
            }
            match directory_at(blocks, page, &frame).filter(|(_, directory)| directory.is_last) {
                Some((stamp, directory)) if !blocks.is_full || directory.closes => {
                    latest.knows(WallMillis(0), stamp.sequence);
                    return Some(Tail { last: Some((page, directory)), frames });
                }
                _ if blocks.is_full => return None,
                _ => frames.push_front(frame),
            }
        }
        (behind, count) = (first, reader.stride());
    }
    (!blocks.is_full).then_some(Tail { last: None, frames })
}

fn directory_at(blocks: &Blocks, page: u32, frame: &Frame) -> Option<(Stamp, DirectoryBlock)> {
    // Most blocks are none, which is told without their checksums.
    let directory = DirectoryBlock::decode_at(&frame.data, page)?;
    Some((blocks.stamp(frame, page, &[Kind::Directory])?, directory))
}

/// Records that directories list, up to one that ends before block `end`.
async fn records_before(
    reader: &Reader,
    blocks: &Blocks,
    mut end: u32,
    last: &DirectoryBlock,
) -> Option<FoundRecords> {
    let mut directories = Vec::new();
    let mut first = last.run;
    loop {
        let directory = read_directory(reader, blocks, first..end).await?;
        let DirectoryBlock { covers, before, .. } = directory[0];
        directories.push(directory);
        if before == 0 {
            // Before the first there is the header.
            let all = directories.into_iter().rev().flatten().flat_map(records_of);
            return (covers == 1).then(|| all.collect());
        }
        (first, end) = (covers - before, covers);
    }
}

/// Reads the blocks of a directory; `None` unless they are one.
async fn read_directory(
    reader: &Reader,
    blocks: &Blocks,
    range: std::ops::Range<u32>,
) -> Option<Vec<DirectoryBlock>> {
    let mut directory: Vec<DirectoryBlock> = Vec::new();
    let mut offset = range.start;
    while offset < range.end {
        let count = reader.stride().min(range.end - offset);
        let is_one = |page, frame: &Frame| blocks.has(frame, page, &[Kind::Directory]);
        let read = reader.read_as(offset, count, is_one).await;
        for (page, frame) in (offset..).zip(read) {
            let (_, block) = directory_at(blocks, page, &frame?)?;
            let first = directory.last().map_or(block.covers, DirectoryBlock::end);
            let begun = directory.first().unwrap_or(&block);
            let goes_on = (block.run, block.covers, block.before) == (begun.run, begun.covers, begun.before);
            let is_right = goes_on && block.run == range.start && block.first == first;
            if !is_right || block.is_last != (page + 1 == range.end) {
                return None;
            }
            directory.push(block);
        }
        offset += count;
    }
    Some(directory)
}

fn records_of(block: DirectoryBlock) -> impl Iterator<Item = FoundRecord> {
    (block.first..).zip(block.pages).flat_map(|(page, listed)| {
        let sequence = listed.sequence;
        let found = move |Listed { hash, namespace, .. }| FoundRecord { hash, namespace, sequence, page };
        listed.records.into_iter().map(found)
    })
}
