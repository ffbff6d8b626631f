//! Row in work: old and new content of its pieces, and how one follows from the other.

use super::held::Held;
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
    pub old: Held,
    /// Content that they get, by piece.
    pub new: Held,
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
    /// Pieces that were written.
    pub sent: PieceSet,
    /// Parities cannot be computed, or the row cannot be made right.
    pub is_lost: bool,
    /// Members that lack it get it, and its parities are right then.
    pub is_rebuilt: bool,
}

/// Block for places of arrays that nothing is in.
static NONE: Block = [0; BLOCK_BYTES];

impl Row {
    /// A row with so many pieces.
    #[must_use]
    pub fn new(pieces: usize) -> Row {
        Row {
            old: Held::new(pieces),
            new: Held::new(pieces),
            written: PieceSet::EMPTY,
            unreadable: PieceSet::EMPTY,
            cached: PieceSet::EMPTY,
            planned: None,
            method: None,
            sent: PieceSet::EMPTY,
            is_lost: false,
            is_rebuilt: false,
        }
    }

    /// Data that a client writes; later ones win.
    pub fn write(&mut self, piece: usize, frame: Frame, stock: &mut Stock) {
        self.written.insert(piece);
        if let Some(older) = self.new.replace(piece, frame) {
            stock.give(older);
        }
    }

    /// Facts for a plan; `live` has the pieces whose member is there.
    #[inline]
    #[must_use]
    pub fn facts<'a>(&self, code: &'a ErasureCode, live: PieceSet, is_right: bool) -> RowFacts<'a> {
        let held = self.old.pieces();
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
            let changed = changed.map(|piece| (piece, [self.old.block(piece), self.new.block(piece)]));
            facts.code.change_sum(self.old.block(p), changed, &mut frame.data);
            self.new.put(p, frame);
            return;
        }
        for piece in facts.written.iter() {
            xor_into(self.old.block_mut(piece), self.new.block(piece));
        }
        let mut deltas = [(0, &NONE); PIECES_MAX];
        let mut count = 0;
        for piece in facts.written.iter() {
            deltas[count] = (piece, self.old.block(piece));
            count += 1;
        }
        for piece in facts.parities().iter() {
            let mut frame = stock.take();
            facts.code.change(piece - p, self.old.block(piece), &deltas[..count], &mut frame.data);
            self.new.put(piece, frame);
        }
        // What the old frames of data hold now are differences: nobody may take them for content.
        self.old.give(facts.written, stock);
    }

    /// Parities are computed from all data.
    fn reconstruct(&mut self, facts: &RowFacts<'_>, stock: &mut Stock) {
        let p = facts.code.data_count();
        let parities = facts.parities();
        if parities == PieceSet::one(p).or(PieceSet::one(p + 1)) {
            let (mut first, mut second) = (stock.take(), stock.take());
            let data = self.data(facts);
            facts.code.encode_two(&data[..p], [&mut first.data, &mut second.data]);
            self.new.put(p, first);
            self.new.put(p + 1, second);
            return;
        }
        for piece in parities.iter() {
            let mut frame = stock.take();
            self.encode(facts, piece, &mut frame.data);
            self.new.put(piece, frame);
        }
    }

    /// Data as they will be.
    fn data(&self, facts: &RowFacts<'_>) -> [&Block; PIECES_MAX] {
        let mut data = [&NONE; PIECES_MAX];
        for (piece, into) in data.iter_mut().enumerate().take(facts.code.data_count()) {
            let held = if facts.written.contains(piece) { &self.new } else { &self.old };
            *into = held.block(piece);
        }
        data
    }

    /// Parity of the data as they will be.
    fn encode(&self, facts: &RowFacts<'_>, piece: usize, into: &mut Block) {
        let count = facts.code.data_count();
        facts.code.encode(piece - count, &self.data(facts)[..count], into);
    }

    /// Decodes a piece from what is held; where its member is there, it is written too.
    pub fn decode(&mut self, facts: &RowFacts<'_>, piece: usize, stock: &mut Stock) {
        assert!(
            self.old.get(piece).is_none() && facts.is_right,
            "a piece is decoded once, from what is right"
        );
        let mut decoded = [0; BLOCK_BYTES];
        let mut present = [(0, &NONE); PIECES_MAX];
        let mut count = 0;
        for held in facts.held.iter() {
            present[count] = (held, self.old.block(held));
            count += 1;
        }
        facts.code.decode(piece, &present[..count], &mut decoded);
        if facts.live.contains(piece) {
            let mut frame = stock.take();
            frame.data = decoded;
            self.new.put(piece, frame);
        }
        let mut frame = stock.take();
        frame.data = decoded;
        self.old.put(piece, frame);
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
            if self.old.get(piece).is_some_and(|old| *old == frame.data) {
                stock.give(frame);
            } else if let Some(superseded) = self.new.replace(piece, frame) {
                stock.give(superseded);
            }
        }
        true
    }

    /// A piece gets the content that is held of it.
    fn write_held(&mut self, piece: usize, stock: &mut Stock) {
        let mut frame = stock.take();
        frame.set_data(self.old.block(piece));
        self.new.put(piece, frame);
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

    /// Pieces that are copied to replacements: what their members could not return is decoded, and written to them too. Where it
    /// cannot be had, nothing is held of it afterwards.
    pub fn find(&mut self, facts: &RowFacts<'_>, pieces: PieceSet, stock: &mut Stock) {
        for piece in pieces.without(facts.held).iter() {
            if facts.read(piece).is_some_and(PieceSet::is_empty) {
                self.decode(facts, piece, stock);
            }
        }
    }

    /// Content that a piece has at the end of a round, if it is known.
    #[must_use]
    pub fn content(&self, piece: usize) -> Option<&Block> {
        self.new.get(piece).or_else(|| self.old.get(piece))
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
        let data: PieceSet = PieceSet::first(facts.code.data_count());
        for piece in facts.code.pieces().without(data).iter() {
            let mut frame = stock.take();
            self.encode(facts, piece, &mut frame.data);
            if *self.old.block(piece) == frame.data {
                stock.give(frame);
                continue;
            }
            is_right = false;
            let superseded = if repairs { self.new.replace(piece, frame) } else { Some(frame) };
            superseded.into_iter().for_each(|frame| stock.give(frame));
        }
        Some(is_right)
    }

    /// Piece that is wrong, of a row that a scrub found not to match and of which all was read.
    #[must_use]
    pub fn locate(&self, facts: &RowFacts<'_>) -> Option<usize> {
        let is_all = facts.code.pieces().without(facts.held).is_empty();
        if !is_all {
            return None;
        }
        let pieces: Vec<&Block> = facts.code.pieces().iter().map(|piece| self.old.block(piece)).collect();
        locate(facts.code, &pieces)
    }

    /// Takes what was written for what the members have, and gives back what is of other pieces than these.
    pub fn settle(&mut self, pieces: PieceSet, stock: &mut Stock) {
        for piece in self.new.pieces().iter() {
            let frame = self.new.take(piece).expect("a piece that has a frame");
            self.old.replace(piece, frame).into_iter().for_each(|before| stock.give(before));
        }
        let others = self.old.pieces().without(pieces);
        if !others.is_empty() {
            self.old.give(others, stock);
        }
    }

    /// The row is through, and as good as new.
    #[inline]
    pub fn give_back(&mut self, stock: &mut Stock) {
        for held in [&mut self.old, &mut self.new] {
            if !held.is_empty() {
                held.give(held.pieces(), stock);
            }
        }
        self.written = PieceSet::EMPTY;
        self.unreadable = PieceSet::EMPTY;
        self.cached = PieceSet::EMPTY;
        self.planned = None;
        self.method = None;
        self.sent = PieceSet::EMPTY;
        self.is_lost = false;
        self.is_rebuilt = false;
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
                    work.old.put(piece, frame);
                }
                let facts = work.facts(&code, live, true);
                assert_eq!(
                    facts.write().unwrap(),
                    super::super::plan::Plan { reads: PieceSet::EMPTY, ..plan }
                );
                work.compute(&facts, plan.method, &mut stock);
                let mut expected = media.clone();
                for piece in work.new.pieces().iter() {
                    media[piece] = *work.new.block(piece);
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
                work.old.put(piece, frame);
            }
            work.unreadable = unreadable.iter().copied().collect();
            let facts = work.facts(&code, code.pieces(), true);
            assert_eq!(work.scrub(&facts, repairs, &mut stock), expected);
            let written: Vec<usize> = work.new.pieces().iter().collect();
            let of_repair: Vec<usize> = unreadable.iter().copied().chain(repairs.then_some(4)).collect();
            assert_eq!(written, if expected.is_some() { of_repair } else { vec![] });
            let is_right = |piece: &usize| work.new.get(*piece).is_some_and(|new| *new == right[*piece]);
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
            work.old.put(piece, frame);
        }
        let facts = work.facts(&code, code.pieces(), false);
        assert!(work.resync(&facts, &mut stock));
        assert!(work.new.pieces() == PieceSet::one(4) && work.new.block(4)[17] == media[4][17] ^ 1);
    }
}
