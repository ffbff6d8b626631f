//! Row in work: old and new content of its pieces, and how one follows from the other.

use super::locate::locate;
use super::plan::{Method, RowFacts};
use super::stock::Stock;
use base::erasure::{ErasureCode, PIECES_MAX};
use base::frame::Frame;
use base::pieces::PieceSet;
use base::units::BLOCK_BYTES;
use base::xor::{Block, xor_into};

/// Row in work.
#[derive(Debug)]
pub struct Row {
    /// Content as the members have it, by piece.
    pub old: Vec<Option<Frame>>,
    /// Content that they get, by piece.
    pub new: Vec<Option<Frame>>,
    /// Data that are written whole.
    pub written: PieceSet,
    /// Pieces that their member could not return.
    pub unreadable: PieceSet,
    /// Pieces whose content came from the cache.
    pub cached: PieceSet,
    /// Manner in which the parities are going to be computed, when all that it reads is there.
    pub planned: Option<Method>,
    /// Manner in which the parities were computed.
    pub method: Option<Method>,
    /// Parities cannot be computed, or the row cannot be made right.
    pub is_lost: bool,
}

/// Block for places of arrays that nothing is in.
static NONE: Block = [0; BLOCK_BYTES];

#[inline]
fn held(pieces: &[Option<Frame>]) -> PieceSet {
    pieces.iter().enumerate().filter(|(_, frame)| frame.is_some()).map(|(piece, _)| piece).collect()
}

fn block(pieces: &[Option<Frame>], piece: usize) -> &Block {
    &pieces[piece].as_ref().expect("a plan reads what it computes from").data
}

/// Gives all frames of a row back.
fn give_all(pieces: &mut [Option<Frame>], stock: &mut Stock) {
    pieces.iter_mut().filter_map(Option::take).for_each(|frame| stock.give(frame));
}

impl Row {
    /// A row with so many pieces.
    #[must_use]
    pub fn new(pieces: usize) -> Row {
        let none = || (0..pieces).map(|_| None).collect();
        Row {
            old: none(),
            new: none(),
            written: PieceSet::EMPTY,
            unreadable: PieceSet::EMPTY,
            cached: PieceSet::EMPTY,
            planned: None,
            method: None,
            is_lost: false,
        }
    }

    /// Data that a client writes; later ones win.
    pub fn write(&mut self, piece: usize, frame: Frame, stock: &mut Stock) {
        self.written.insert(piece);
        if let Some(older) = self.new[piece].replace(frame) {
            stock.give(older);
        }
    }

    /// Pieces whose present content is held.
    #[must_use]
    pub fn held(&self) -> PieceSet {
        held(&self.old)
    }

    /// Pieces that get new content.
    #[must_use]
    pub fn held_new(&self) -> PieceSet {
        held(&self.new)
    }

    /// Facts for a plan; `live` has the pieces whose member is there.
    #[inline]
    #[must_use]
    pub fn facts<'a>(&self, code: &'a ErasureCode, live: PieceSet, is_right: bool) -> RowFacts<'a> {
        let held = held(&self.old);
        let readable = live.without(self.unreadable).or(held);
        RowFacts { code, written: self.written, live, readable, held, is_right }
    }

    /// Computes what is written besides the data, when all that a plan reads is there.
    pub fn compute(&mut self, facts: &RowFacts<'_>, method: Method, stock: &mut Stock) {
        assert!(self.method.is_none(), "a row is computed once");
        self.method = Some(method);
        match method {
            Method::Direct => {}
            Method::Modify => self.modify(facts, stock),
            Method::Reconstruct => self.reconstruct(facts, stock),
            Method::Decode => {
                let lost = PieceSet::first(facts.code.data_count()).without(facts.readable);
                let lost = lost.without(facts.written);
                for piece in lost.iter() {
                    self.decode(facts, piece, stock);
                }
                self.reconstruct(facts, stock);
            }
        }
    }

    /// Parities change by the differences of what is written. Of P alone they are never made.
    fn modify(&mut self, facts: &RowFacts<'_>, stock: &mut Stock) {
        let p = facts.code.data_count();
        if facts.parities() == PieceSet::one(p) {
            let mut frame = stock.take();
            let changed = facts.written.iter();
            let changed = changed.map(|piece| (piece, [block(&self.old, piece), block(&self.new, piece)]));
            facts.code.change_sum(block(&self.old, p), changed, &mut frame.data);
            self.new[p] = Some(frame);
            return;
        }
        for piece in facts.written.iter() {
            let old = self.old[piece].as_mut().expect("a plan reads what it computes from");
            xor_into(&mut old.data, block(&self.new, piece));
        }
        let mut deltas = [(0, &NONE); PIECES_MAX];
        let mut count = 0;
        for piece in facts.written.iter() {
            deltas[count] = (piece, block(&self.old, piece));
            count += 1;
        }
        for piece in facts.parities().iter() {
            let mut frame = stock.take();
            facts.code.change(piece - p, block(&self.old, piece), &deltas[..count], &mut frame.data);
            self.new[piece] = Some(frame);
        }
        // What the old frames of data hold now are differences: nobody may take them for content.
        for piece in facts.written.iter() {
            self.old[piece].take().into_iter().for_each(|frame| stock.give(frame));
        }
    }

    /// Parities are computed from all data.
    fn reconstruct(&mut self, facts: &RowFacts<'_>, stock: &mut Stock) {
        for piece in facts.parities().iter() {
            let mut frame = stock.take();
            self.encode(facts, piece, &mut frame.data);
            self.new[piece] = Some(frame);
        }
    }

    /// Parity of the data as they will be.
    fn encode(&self, facts: &RowFacts<'_>, piece: usize, into: &mut Block) {
        let count = facts.code.data_count();
        let of = |data: usize| if facts.written.contains(data) { &self.new } else { &self.old };
        let mut data = [&NONE; PIECES_MAX];
        data.iter_mut().take(count).enumerate().for_each(|(data, into)| *into = block(of(data), data));
        facts.code.encode(piece - count, &data[..count], into);
    }

    /// Decodes a piece from what is held; where its member is there, it is written too.
    pub fn decode(&mut self, facts: &RowFacts<'_>, piece: usize, stock: &mut Stock) {
        assert!(self.old[piece].is_none() && facts.is_right, "a piece is decoded once, from what is right");
        let mut decoded = [0; BLOCK_BYTES];
        let mut present = [(0, &NONE); PIECES_MAX];
        let mut count = 0;
        for held in facts.held.iter() {
            present[count] = (held, block(&self.old, held));
            count += 1;
        }
        facts.code.decode(piece, &present[..count], &mut decoded);
        if facts.live.contains(piece) {
            let mut frame = stock.take();
            frame.data = decoded;
            self.new[piece] = Some(frame);
        }
        let mut frame = stock.take();
        frame.data = decoded;
        self.old[piece] = Some(frame);
    }

    /// Parities that are not those of the data get new content; false when data are missing.
    pub fn resync(&mut self, facts: &RowFacts<'_>, stock: &mut Stock) -> bool {
        assert!(facts.written.is_empty() && !facts.is_right);
        if !PieceSet::first(facts.code.data_count()).without(facts.held).is_empty() {
            return false;
        }
        for piece in facts.parities().iter() {
            let mut frame = stock.take();
            self.encode(facts, piece, &mut frame.data);
            if self.old[piece].as_ref().is_some_and(|old| old.data == frame.data) {
                stock.give(frame);
            } else if let Some(superseded) = self.new[piece].replace(frame) {
                stock.give(superseded);
            }
        }
        true
    }

    /// A piece gets the content that is held of it.
    fn write_held(&mut self, piece: usize, stock: &mut Stock) {
        let mut frame = stock.take();
        frame.data = *block(&self.old, piece);
        self.new[piece] = Some(frame);
    }

    /// Pieces of members that are being recovered get their content; false when it cannot be had. In a row in doubt all parities
    /// are made right, where all data are there.
    pub fn rebuild(&mut self, facts: &RowFacts<'_>, pieces: PieceSet, stock: &mut Stock) -> bool {
        assert!(facts.written.is_empty() && pieces.without(facts.live).is_empty());
        // What was read before its member failed is what the one in its place gets.
        let held = pieces.and(facts.held);
        held.iter().for_each(|piece| self.write_held(piece, stock));
        if !facts.is_right {
            return self.resync(facts, stock);
        }
        let Some(unread) = facts.rebuild(pieces) else { return false };
        assert!(unread.is_empty(), "what is decoded from is held: {unread:?}");
        pieces.without(held).iter().for_each(|piece| self.decode(facts, piece, stock));
        true
    }

    /// Compares parities with data; those that are wrong get new content when it repairs. What could not be read is decoded, and
    /// written where its member is there. `None` when something is missing.
    pub fn scrub(&mut self, facts: &RowFacts<'_>, repairs: bool, stock: &mut Stock) -> Option<bool> {
        assert!(facts.written.is_empty() && facts.is_right, "rows in doubt are not compared");
        let missing = facts.code.pieces().without(facts.held);
        if !missing.is_empty() && !facts.code.can_decode(facts.held) {
            return None;
        }
        missing.iter().for_each(|piece| self.decode(facts, piece, stock));
        let mut is_right = true;
        for piece in facts.code.pieces().without(PieceSet::first(facts.code.data_count())).iter() {
            let mut frame = stock.take();
            self.encode(facts, piece, &mut frame.data);
            if *block(&self.old, piece) == frame.data {
                stock.give(frame);
                continue;
            }
            is_right = false;
            let superseded = if repairs { self.new[piece].replace(frame) } else { Some(frame) };
            superseded.into_iter().for_each(|frame| stock.give(frame));
        }
        Some(is_right)
    }

    /// Piece that is wrong, of a row that a scrub found not to match and of which all was read.
    #[must_use]
    pub fn locate(&self, facts: &RowFacts<'_>) -> Option<usize> {
        let is_all = facts.code.pieces().without(facts.held).is_empty();
        let pieces: Vec<&Block> =
            facts.code.pieces().iter().filter(|_| is_all).map(|piece| block(&self.old, piece)).collect();
        is_all.then(|| locate(facts.code, &pieces)).flatten()
    }

    /// Takes what was written for what the members have, and gives back what is of other pieces than these.
    pub fn settle(&mut self, pieces: PieceSet, stock: &mut Stock) {
        for (piece, (old, new)) in self.old.iter_mut().zip(&mut self.new).enumerate() {
            if new.is_some() {
                std::mem::swap(old, new);
                new.take().into_iter().for_each(|frame| stock.give(frame));
            }
            if !pieces.contains(piece) {
                old.take().into_iter().for_each(|frame| stock.give(frame));
            }
        }
    }

    /// The row is through, and as good as new.
    pub fn give_back(&mut self, stock: &mut Stock) {
        give_all(&mut self.old, stock);
        give_all(&mut self.new, stock);
        self.written = PieceSet::EMPTY;
        self.unreadable = PieceSet::EMPTY;
        self.cached = PieceSet::EMPTY;
        self.planned = None;
        self.method = None;
        self.is_lost = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    /// A row on six members, and what its members hold.
    fn row(code: &ErasureCode, random: &mut Random) -> Vec<Block> {
        let count = code.data_count();
        let mut blocks = vec![[0; BLOCK_BYTES]; code.piece_count()];
        blocks[..count].iter_mut().for_each(|block| random.fill(block));
        let (data, parities) = blocks.split_at_mut(count);
        let data: Vec<&Block> = data.iter().collect();
        parities.iter_mut().enumerate().for_each(|(parity, into)| code.encode(parity, &data, into));
        blocks
    }

    #[test]
    fn every_method_leaves_parities_of_the_data() {
        let exponents = [0, 1, 3, 4].into_iter().collect();
        let mut random = Random::from_seed(5);
        for code in [ErasureCode::new(4, 1).unwrap(), ErasureCode::with_exponents(exponents, 2).unwrap()] {
            let pieces = code.piece_count();
            for _ in 0..200 {
                let mut media = row(&code, &mut random);
                let lost: PieceSet =
                    (0..random.index(code.parity_count() + 1)).map(|_| random.index(pieces)).collect();
                let live = code.pieces().without(lost);
                let mut stock = Stock::new(64, 64);
                assert!(stock.reserve(2 * pieces));
                let mut work = Row::new(pieces);
                for piece in 0..4 {
                    if piece != 2 && random.chance(2, 3) {
                        continue;
                    }
                    let mut frame = stock.take();
                    random.fill(&mut frame.data);
                    work.write(piece, frame, &mut stock);
                }
                let plan = work.facts(&code, live, true).write().unwrap();
                for piece in plan.reads.iter() {
                    assert!(live.contains(piece));
                    let mut frame = stock.take();
                    frame.data = media[piece];
                    work.old[piece] = Some(frame);
                }
                let facts = work.facts(&code, live, true);
                assert_eq!(
                    facts.write().unwrap(),
                    super::super::plan::Plan { reads: PieceSet::EMPTY, ..plan }
                );
                work.compute(&facts, plan.method, &mut stock);
                let mut expected = media.clone();
                for (piece, frame) in work.new.iter().enumerate() {
                    if let Some(frame) = frame {
                        media[piece] = frame.data;
                    }
                }
                for piece in work.written.iter() {
                    expected[piece] = media[piece];
                }
                let data: Vec<&Block> = expected[..4].iter().collect();
                let mut parity = [0; BLOCK_BYTES];
                for piece in live.iter().filter(|piece| *piece >= 4) {
                    code.encode(piece - 4, &data, &mut parity);
                    assert!(parity == media[piece], "{plan:?}, {lost:?}");
                }
                work.give_back(&mut stock);
                assert_eq!(stock.own_out(), 0);
            }
        }
    }

    #[test]
    fn a_scrub_counts_rows_repairs_parities_and_rebuilds_what_cannot_be_read() {
        let code = ErasureCode::new(3, 2).unwrap();
        let mut media = row(&code, &mut Random::from_seed(8));
        let right = media.clone();
        media[4][17] ^= 1;
        for (repairs, unreadable, expected) in [
            (false, vec![], Some(false)),
            (true, vec![], Some(false)),
            (true, vec![1], Some(false)),
            (true, vec![0, 1, 3], None),
        ] {
            let mut stock = Stock::new(16, 16);
            assert!(stock.reserve(10));
            let mut work = Row::new(5);
            for (piece, content) in media.iter().enumerate().filter(|(piece, _)| !unreadable.contains(piece))
            {
                let mut frame = stock.take();
                frame.data = *content;
                work.old[piece] = Some(frame);
            }
            work.unreadable = unreadable.iter().copied().collect();
            let facts = work.facts(&code, code.pieces(), true);
            assert_eq!(work.scrub(&facts, repairs, &mut stock), expected);
            let written: Vec<usize> = (0..5).filter(|piece| work.new[*piece].is_some()).collect();
            let of_repair: Vec<usize> = unreadable.iter().copied().chain(repairs.then_some(4)).collect();
            assert_eq!(written, if expected.is_some() { of_repair } else { vec![] });
            let is_right =
                |piece: &usize| work.new[*piece].as_ref().is_some_and(|new| new.data == right[*piece]);
            assert!(written.iter().all(is_right), "{written:?}");
            work.give_back(&mut stock);
        }
    }

    #[test]
    fn a_resync_writes_only_parities_that_are_wrong() {
        let code = ErasureCode::new(3, 2).unwrap();
        let mut media = row(&code, &mut Random::from_seed(6));
        media[4][17] ^= 1;
        let mut stock = Stock::new(16, 16);
        assert!(stock.reserve(10));
        let mut work = Row::new(5);
        for (piece, content) in media.iter().enumerate() {
            let mut frame = stock.take();
            frame.data = *content;
            work.old[piece] = Some(frame);
        }
        let facts = work.facts(&code, code.pieces(), false);
        assert!(work.resync(&facts, &mut stock));
        assert!(work.new[3].is_none() && work.new[4].as_ref().unwrap().data[17] == media[4][17] ^ 1);
    }
}
