//! Emptied parts of strips that are through, kept so that the next ones take no memory.

use super::row::Row;
use super::table::{Cell, Kind, Round, Wanted};
use base::pieces::PieceSet;

/// Emptied parts. There are never more of them than were in work at once.
#[derive(Debug, Default)]
pub struct Pools {
    #[allow(clippy::vec_box, reason = "rows move in and out as pointers")]
    rows: Vec<Box<Row>>,
    #[allow(clippy::vec_box, reason = "rounds move in and out as pointers")]
    rounds: Vec<Box<Round>>,
    /// Cells of writes.
    pub cells: Vec<Vec<Cell>>,
    /// Blocks of reads.
    pub wanted: Vec<Vec<Wanted>>,
    /// Pieces by row, while commands are made of them.
    pub places: Vec<(u16, PieceSet)>,
}

impl Pools {
    /// A row with so many pieces.
    #[inline]
    #[must_use]
    pub fn row(&mut self, pieces: usize) -> Box<Row> {
        let row = self.rows.pop().unwrap_or_else(|| Box::new(Row::new(pieces)));
        assert!(row.old.room() == pieces, "rows of an array have the same pieces");
        row
    }

    /// Keeps a row that gave its frames back.
    #[inline]
    pub fn keep_row(&mut self, row: Box<Row>) {
        self.rows.push(row);
    }

    /// A round without work yet.
    #[must_use]
    pub fn round(&mut self, kind: Kind) -> Box<Round> {
        let mut round = self.rounds.pop().unwrap_or_else(|| Box::new(Round::new(kind)));
        round.again(kind);
        round
    }

    /// Keeps a round whose rows and requests went elsewhere.
    pub fn keep_round(&mut self, round: Box<Round>) {
        self.rounds.push(round);
    }
}
