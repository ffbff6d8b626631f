//! Runs of rows of one piece, one behind the other: what one command reads or writes.

use base::pieces::PieceSet;

/// Run of rows of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Piece.
    pub piece: usize,
    /// First row.
    pub first: u16,
    /// Rows.
    pub count: u16,
}

/// Tells the runs of pieces that are given row by row, rows in order: by piece, then by row.
pub fn for_each_run(places: &[(u16, PieceSet)], mut tell: impl FnMut(Run)) {
    if let [(first, pieces)] = places {
        return pieces.iter().for_each(|piece| tell(Run { piece, first: *first, count: 1 }));
    }
    let all = places.iter().fold(PieceSet::EMPTY, |all, (_, pieces)| all.or(*pieces));
    for piece in all.iter() {
        let mut run = Run { piece, first: 0, count: 0 };
        for (row, _) in places.iter().filter(|(_, pieces)| pieces.contains(piece)) {
            if run.count > 0 && run.first + run.count == *row {
                run.count += 1;
                continue;
            }
            if run.count > 0 {
                tell(run);
            }
            run = Run { piece, first: *row, count: 1 };
        }
        tell(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_side_by_side_are_one_run() {
        let set = |pieces: &[usize]| pieces.iter().copied().collect();
        let mut runs = Vec::new();
        for_each_run(&[(1, set(&[0, 2])), (2, set(&[2])), (3, set(&[])), (4, set(&[2]))], |run| {
            runs.push(run)
        });
        let run = |piece, first, count| Run { piece, first, count };
        assert_eq!(runs, [run(0, 1, 1), run(2, 1, 2), run(2, 4, 1)]);
    }
}
