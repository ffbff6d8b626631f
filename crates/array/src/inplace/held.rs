//! Frames of a row by piece, and the set of pieces that have one.

use super::stock::Stock;
use base::frame::Frame;
use base::pieces::PieceSet;
use base::xor::Block;

/// Frames of a row, at most one for each piece.
#[derive(Debug, Default)]
pub struct Held {
    frames: Vec<Option<Frame>>,
    /// Pieces that have a frame: asked several times for each row of a round.
    pieces: PieceSet,
}

impl Held {
    /// Room for so many pieces, without a frame.
    #[must_use]
    pub fn new(pieces: usize) -> Held {
        Held { frames: (0..pieces).map(|_| None).collect(), pieces: PieceSet::EMPTY }
    }

    /// Pieces that there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.frames.len()
    }

    /// Pieces that have a frame.
    #[inline]
    #[must_use]
    pub fn pieces(&self) -> PieceSet {
        self.pieces
    }

    /// True when no piece has a frame.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Content of a piece, if there is any.
    #[inline]
    #[must_use]
    pub fn get(&self, piece: usize) -> Option<&Block> {
        self.frames[piece].as_ref().map(|frame| &frame.data)
    }

    /// Content of a piece that has a frame.
    ///
    /// # Panics
    /// When it has none.
    #[inline]
    #[must_use]
    pub fn block(&self, piece: usize) -> &Block {
        self.get(piece).expect("a plan reads what it computes from")
    }

    /// The same, to change it.
    ///
    /// # Panics
    /// When the piece has no frame.
    #[inline]
    pub fn block_mut(&mut self, piece: usize) -> &mut Block {
        &mut self.frames[piece].as_mut().expect("a plan reads what it computes from").data
    }

    /// Puts the frame of a piece that has none.
    ///
    /// # Panics
    /// When it has one.
    #[inline]
    pub fn put(&mut self, piece: usize, frame: Frame) {
        let before = self.replace(piece, frame);
        assert!(before.is_none(), "piece {piece} has a frame");
    }

    /// Puts the frame of a piece; the one before comes back.
    #[inline]
    pub fn replace(&mut self, piece: usize, frame: Frame) -> Option<Frame> {
        self.pieces.insert(piece);
        self.frames[piece].replace(frame)
    }

    /// Takes the frame of a piece out.
    #[inline]
    pub fn take(&mut self, piece: usize) -> Option<Frame> {
        self.pieces = self.pieces.without(PieceSet::one(piece));
        self.frames[piece].take()
    }

    /// Gives the frames of these pieces back, where there are any.
    pub fn give(&mut self, pieces: PieceSet, stock: &mut Stock) {
        for piece in self.pieces.and(pieces).iter() {
            self.frames[piece].take().into_iter().for_each(|frame| stock.give(frame));
        }
        self.pieces = self.pieces.without(pieces);
    }

    /// Takes all frames out.
    pub fn drain(&mut self) -> impl Iterator<Item = Frame> {
        let pieces = std::mem::take(&mut self.pieces);
        pieces.iter().map(|piece| self.frames[piece].take().expect("a piece that has a frame"))
    }

    /// Asserts that the set is that of the frames.
    pub fn check_invariants(&self) {
        let has_frame = |(piece, frame): (usize, &Option<Frame>)| frame.as_ref().map(|_| piece);
        let pieces: PieceSet = self.frames.iter().enumerate().filter_map(has_frame).collect();
        assert!(pieces == self.pieces, "frames of {pieces:?}, noted of {:?}", self.pieces);
    }
}
