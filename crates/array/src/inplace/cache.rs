//! Cache of rows that clients write a part at a time: parities, and data beside them, as the members have them.
//!
//! ```text
//!   begin of a round   take ──> held by the row, as if it had been read       the strip's owner alone has it
//!   its end            put <── what was read and what was written, when everything of it is on its members
//! ```
//! *Entries of a strip in work are out of the cache*: nobody else can use or change them. They come back only when the round wrote
//! all that it had to, the row's parities are right, and no member changed since it began. When members change all goes; what a
//! trim, a resync, a scrub or a recovery touches goes when that begins. So an entry is what a read of the members would return.
//!
//! Rows that are written whole are not kept: the next write of a stream goes elsewhere, and they would push everything out. Entries go
//! by CLOCK: those that were of use once stay for another turn of the hand.
//!
//! The limit is hard and counts frames, entries and table. Nothing is allocated once the cache is full.

use super::held::Held;
use super::index::Index;
use super::stock::Stock;
use base::frame::{Frame, FrameBody};
use base::pieces::PieceSet;

/// Bytes of the cache unless told otherwise, as in the StRAID paper.
pub const CACHE_BYTES: u64 = 64 << 20;

/// Pieces of a row.
#[derive(Debug, Default)]
struct Entry {
    row: u64,
    /// Content of pieces; none while the entry is not in use.
    pieces: Held,
    /// It was of use since the hand passed.
    is_recent: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Cache {
    entries: Vec<Entry>,
    /// Entries that are not in use.
    free: Vec<u32>,
    /// Entries by row.
    by_row: Index,
    /// Entry that is looked at next when room is needed.
    hand: usize,
    frames: usize,
    frames_max: usize,
    /// Times that everything was dropped.
    epoch: u64,
    /// Members in sync, and members that are written, when an entry was put last.
    seen: (PieceSet, PieceSet),
}

/// Bytes that a frame takes at most: an entry and two places of the table may be there for it alone.
fn bytes_per_frame(pieces: usize) -> usize {
    size_of::<FrameBody>() + size_of::<Entry>() + pieces * size_of::<Option<Frame>>() + 4 * size_of::<u32>()
}

impl Cache {
    /// A cache of at most so many bytes for rows of so many pieces; one that never holds anything when that is too little.
    #[must_use]
    pub fn new(bytes: u64, pieces: usize) -> Cache {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let frames_max = (bytes / bytes_per_frame(pieces)).min(1 << 30);
        let frames_max = if frames_max < pieces { 0 } else { frames_max };
        let places = if frames_max == 0 { 0 } else { frames_max.next_power_of_two() };
        Cache {
            entries: Vec::with_capacity(frames_max / 2),
            free: Vec::new(),
            by_row: Index::new(places),
            hand: 0,
            frames: 0,
            frames_max,
            epoch: 0,
            seen: (PieceSet::EMPTY, PieceSet::EMPTY),
        }
    }

    /// Most frames that it holds.
    #[must_use]
    pub fn frames_max(&self) -> usize {
        self.frames_max
    }

    /// Frames that it holds.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Times that everything was dropped: what was taken before is not put back after.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Drops everything when other members are in sync or written than those that it saw.
    #[inline]
    pub fn follow(&mut self, live: PieceSet, writable: PieceSet, stock: &mut Stock) {
        if self.seen != (live, writable) {
            self.seen = (live, writable);
            self.clear(stock);
        }
    }

    /// Drops everything.
    #[cold]
    pub fn clear(&mut self, stock: &mut Stock) {
        self.epoch += 1;
        self.by_row.clear();
        self.free.clear();
        for (number, entry) in (0..).zip(&mut self.entries) {
            stock.give_kept(entry.pieces.pieces().count(), entry.pieces.drain());
            self.free.push(number);
        }
        self.frames = 0;
    }

    /// Moves the content of a row into `pieces`, which is empty; false when there is none.
    pub fn take(&mut self, row: u64, pieces: &mut Held, stock: &mut Stock) -> bool {
        let Some(number) = self.remove(row) else { return false };
        let entry = &mut self.entries[number as usize];
        std::mem::swap(&mut entry.pieces, pieces);
        assert!(entry.pieces.is_empty(), "content that would be lost");
        let count = pieces.pieces().count();
        self.frames -= count;
        stock.take_kept(count);
        true
    }

    /// Drops a row.
    pub fn discard(&mut self, row: u64, stock: &mut Stock) {
        if let Some(number) = self.remove(row) {
            self.empty(number, stock);
        }
    }

    /// Moves content of a row out of `pieces`, so many of which have some; others make room for it.
    ///
    /// # Panics
    /// When the row is there.
    pub fn put(&mut self, row: u64, pieces: &mut Held, is_recent: bool, stock: &mut Stock) {
        let count = pieces.pieces().count();
        if count == 0 || count > self.frames_max {
            return;
        }
        while self.frames + count > self.frames_max || self.used() >= self.by_row.room() {
            self.evict(stock);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { pieces: Held::new(pieces.room()), ..Entry::default() });
            u32::try_from(self.entries.len() - 1).expect("fewer entries than frames")
        });
        let entry = &mut self.entries[number as usize];
        std::mem::swap(&mut entry.pieces, pieces);
        (entry.row, entry.is_recent) = (row, is_recent);
        let Cache { entries, by_row, .. } = self;
        by_row.insert(row, number, |number| entries[number as usize].row);
        self.frames += count;
        stock.keep(count);
    }

    fn used(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Makes room by one entry.
    fn evict(&mut self, stock: &mut Stock) {
        loop {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[self.hand];
            if !entry.pieces.is_empty() && !std::mem::take(&mut entry.is_recent) {
                let row = entry.row;
                return self.discard(row, stock);
            }
        }
    }

    fn empty(&mut self, number: u32, stock: &mut Stock) {
        let entry = &mut self.entries[number as usize];
        let count = entry.pieces.pieces().count();
        self.frames -= count;
        stock.give_kept(count, entry.pieces.drain());
    }

    /// Takes a row out of the table; its entry is not in use any more, though its content is still there.
    fn remove(&mut self, row: u64) -> Option<u32> {
        if self.frames == 0 {
            return None;
        }
        let Cache { entries, by_row, .. } = self;
        let number = by_row.remove(row, |number| entries[number as usize].row)?;
        self.free.push(number);
        Some(number)
    }

    /// True when a row is there. For tests and invariants.
    #[must_use]
    pub fn has(&self, row: u64) -> bool {
        self.frames > 0 && self.by_row.find(row, |number| self.entries[number as usize].row).is_some()
    }

    /// Asserts what must hold between events.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check_invariants(&self) {
        let held = |entry: &Entry| entry.pieces.pieces().count();
        self.entries.iter().for_each(|entry| entry.pieces.check_invariants());
        assert_eq!(self.entries.iter().map(held).sum::<usize>(), self.frames, "frames of entries");
        assert!(self.frames <= self.frames_max);
        assert_eq!(self.by_row.count(), self.used());
    }
}

#[cfg(test)]
mod tests;
