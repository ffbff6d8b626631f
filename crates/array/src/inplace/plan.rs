//! Plan of a row: what is read before data and parities of a row can be written, and what the parities are computed from.
//!
//! ```text
//! modify (RMW)       old data of what is written, and old parities: they change by the differences
//! reconstruct (RCW)  all data that are not written: parities are computed anew; md's choice where both read as much
//! decode             what is not written and cannot be read is decoded from all the rest, then as reconstruct
//! direct             no parity can be written: data alone
//! ```
//! A row whose parities are not known to be right is never decoded, and is reconstructed where that is possible. Where one of its
//! data is lost, it is modified: parities that were right stay so, and the row stays in doubt. Where an operator takes parities for right
//! ([`RowFacts::believing`]), it is decoded.

use base::erasure::ErasureCode;
use base::pieces::PieceSet;

/// Manner in which parities of a row are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// There are no parities to write.
    Direct,
    /// By what changed.
    Modify,
    /// From all data.
    Reconstruct,
    /// From all data, of which some is decoded.
    Decode,
}

/// What is known of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowFacts<'a> {
    /// Code of the row.
    pub code: &'a ErasureCode,
    /// Data pieces that are written as a whole.
    pub written: PieceSet,
    /// Pieces whose member is there: they can be written.
    pub live: PieceSet,
    /// Pieces whose present content can be read, or is held.
    pub readable: PieceSet,
    /// Pieces whose present content is held.
    pub held: PieceSet,
    /// Parities are known to be right.
    pub is_right: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Manner.
    pub method: Method,
    /// Pieces to read before.
    pub reads: PieceSet,
}

impl RowFacts<'_> {
    /// Facts of a row in doubt whose parities an operator takes for right, if what it lacks of data are pieces of these: such pieces
    /// are what parities say. As many parities as pieces are lacking say that, the first ones; any other may say something else, and
    /// counts for nothing until it is written.
    #[must_use]
    pub fn believing(self, lost: PieceSet) -> Self {
        let lacking = self.data().without(self.live);
        if self.is_right || lacking.is_empty() || !lacking.without(lost).is_empty() {
            return self;
        }
        let others: PieceSet = self.parities().iter().skip(lacking.count()).collect();
        let (readable, held) = (self.readable.without(others), self.held.without(others));
        RowFacts { is_right: true, readable, held, ..self }
    }

    fn data(&self) -> PieceSet {
        PieceSet::first(self.code.data_count())
    }

    /// Parities that can be written.
    #[must_use]
    pub fn parities(&self) -> PieceSet {
        self.live.and(self.code.pieces()).without(self.data())
    }

    /// Plan of a write; `None` when its parities cannot be computed.
    ///
    /// # Panics
    /// When something is written that is no data.
    #[must_use]
    pub fn write(&self) -> Option<Plan> {
        assert!(self.written.without(self.data()).is_empty() && !self.written.is_empty());
        assert!(self.held.without(self.readable).is_empty(), "what is held counts as readable");
        let plan = |method, needed: PieceSet| Some(Plan { method, reads: needed.without(self.held) });
        let parities = self.parities();
        if parities.is_empty() {
            return plan(Method::Direct, PieceSet::EMPTY);
        }
        let (others, changed) = (self.data().without(self.written), self.written.or(parities));
        let can_reconstruct = others.without(self.readable).is_empty();
        let can_modify = changed.without(self.readable).is_empty();
        let is_less = || changed.without(self.held).count() < others.without(self.held).count();
        if can_reconstruct && !(can_modify && self.is_right && is_less()) {
            plan(Method::Reconstruct, others)
        } else if can_modify {
            plan(Method::Modify, changed)
        } else if self.is_right && self.code.can_decode(self.readable) {
            plan(Method::Decode, self.readable.and(self.code.pieces()))
        } else {
            None
        }
    }

    /// The same beside a journal, which names all parities of a row, those without a member too: where one has none, they are not
    /// changed by differences. A row that no parity has a member of, and some data of which cannot be had, is written without them.
    #[must_use]
    pub fn write_with_all_parities(&self) -> Option<Plan> {
        let plan = self.write()?;
        let is_in_part = self.parities().count() < self.code.parity_count();
        if !is_in_part || !matches!(plan.method, Method::Modify | Method::Direct) {
            return Some(plan);
        }
        // Without old parities as a source of differences all data are read, or decoded.
        let others = self.data().without(self.written);
        let of = |method, needed: PieceSet| Plan { method, reads: needed.without(self.held) };
        if others.without(self.readable).is_empty() {
            return Some(of(Method::Reconstruct, others));
        }
        if self.is_right && self.code.can_decode(self.readable) {
            return Some(of(Method::Decode, self.readable.and(self.code.pieces())));
        }
        (plan.method == Method::Direct).then_some(plan)
    }

    /// Pieces whose present content a method takes.
    #[must_use]
    pub fn used(&self, method: Method) -> PieceSet {
        match method {
            Method::Direct => PieceSet::EMPTY,
            Method::Modify => self.written.or(self.parities()),
            Method::Reconstruct => self.data().without(self.written),
            Method::Decode => self.readable.and(self.code.pieces()),
        }
    }

    /// Pieces to read so that one can be had; `None` when it cannot.
    #[must_use]
    pub fn read(&self, piece: usize) -> Option<PieceSet> {
        let own = PieceSet::one(piece);
        if self.readable.contains(piece) {
            return Some(own.without(self.held));
        }
        let sources = self.code.sources(piece, self.readable.without(own)).filter(|_| self.is_right)?;
        Some(sources.without(self.held))
    }

    /// Pieces to read so that these, which cannot be read, can be written; `None` when they cannot be had. In a row in doubt
    /// they can when all data are there.
    #[must_use]
    pub fn rebuild(&self, pieces: PieceSet) -> Option<PieceSet> {
        assert!(pieces.and(self.readable.without(self.held)).is_empty(), "{pieces:?} of {:?}", self.readable);
        if !self.is_right {
            let has_all = self.data().without(self.readable).is_empty();
            return has_all.then(|| self.data().without(self.held));
        }
        let mut needed = PieceSet::EMPTY;
        for piece in pieces.without(self.held).iter() {
            let sources = self.code.sources(piece, self.readable)?;
            needed = needed.or(sources);
        }
        Some(needed.without(self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pieces: &[usize]) -> PieceSet {
        pieces.iter().copied().collect()
    }

    fn facts<'a>(code: &'a ErasureCode, written: &[usize], lost: &[usize]) -> RowFacts<'a> {
        let live = code.pieces().without(set(lost));
        RowFacts { code, written: set(written), live, readable: live, held: PieceSet::EMPTY, is_right: true }
    }

    #[test]
    fn the_method_with_fewest_reads_is_taken_and_ties_go_to_reconstruction() {
        let code = ErasureCode::new(4, 1).unwrap();
        let plan = |written: &[usize]| facts(&code, written, &[]).write().unwrap();
        assert_eq!(plan(&[2]), Plan { method: Method::Modify, reads: set(&[2, 4]) });
        assert_eq!(plan(&[0, 1]), Plan { method: Method::Reconstruct, reads: set(&[2, 3]) });
        assert_eq!(plan(&[0, 1, 2, 3]).reads, PieceSet::EMPTY);
        let tie = ErasureCode::new(3, 1).unwrap();
        let tie = facts(&tie, &[0], &[]).write().unwrap();
        assert_eq!(tie, Plan { method: Method::Reconstruct, reads: set(&[1, 2]) });
    }

    #[test]
    fn lost_members_leave_what_is_possible() {
        let code = ErasureCode::new(3, 1).unwrap();
        let plan = |written: &[usize], lost: &[usize]| facts(&code, written, lost).write();
        assert_eq!(plan(&[0], &[3]).unwrap().method, Method::Direct);
        assert_eq!(plan(&[0], &[1]).unwrap(), Plan { method: Method::Modify, reads: set(&[0, 3]) });
        assert_eq!(plan(&[0], &[0]).unwrap(), Plan { method: Method::Reconstruct, reads: set(&[1, 2]) });
        let code = ErasureCode::new(4, 2).unwrap();
        let two = facts(&code, &[0], &[0, 1]).write().unwrap();
        assert_eq!(two, Plan { method: Method::Decode, reads: set(&[2, 3, 4, 5]) });
    }

    #[test]
    fn beside_a_journal_all_parities_are_known() {
        let code = ErasureCode::new(4, 2).unwrap();
        let plan = |lost: &[usize]| facts(&code, &[0], lost).write_with_all_parities().unwrap();
        assert_eq!(plan(&[]).method, facts(&code, &[0], &[]).write().unwrap().method);
        assert_eq!(facts(&code, &[0], &[4]).write().unwrap().method, Method::Modify);
        assert_eq!(plan(&[4]), Plan { method: Method::Reconstruct, reads: set(&[1, 2, 3]) });
        assert_eq!(plan(&[1, 4]), Plan { method: Method::Decode, reads: set(&[0, 2, 3, 5]) });
        assert_eq!(plan(&[4, 5]), Plan { method: Method::Reconstruct, reads: set(&[1, 2, 3]) });
        let row = RowFacts { readable: set(&[0, 1, 2]), ..facts(&code, &[0], &[4, 5]) };
        assert_eq!(
            row.write_with_all_parities().unwrap().method,
            Method::Direct,
            "what cannot be read stays so"
        );
        let doubt = RowFacts { is_right: false, ..facts(&code, &[0], &[1, 4]) };
        assert_eq!(doubt.write_with_all_parities(), None);
    }

    #[test]
    fn rows_in_doubt_are_reconstructed_and_never_decoded() {
        let code = ErasureCode::new(4, 1).unwrap();
        let doubt = RowFacts { is_right: false, ..facts(&code, &[2], &[]) };
        assert_eq!(doubt.write().unwrap().method, Method::Reconstruct);
        let lost = RowFacts { is_right: false, ..facts(&code, &[2], &[1]) };
        assert_eq!(lost.write().unwrap().method, Method::Modify);
        assert_eq!(lost.read(1), None);
        assert_eq!(RowFacts { is_right: true, ..lost }.read(1), Some(set(&[0, 2, 3, 4])));
        let code = ErasureCode::new(4, 2).unwrap();
        let two = RowFacts { is_right: false, ..facts(&code, &[0], &[0, 1]) };
        assert_eq!(two.write(), None);
    }

    #[test]
    fn of_a_row_that_is_believed_one_parity_says_what_is_lost() {
        let code = ErasureCode::new(4, 2).unwrap();
        let lost = |pieces: &[usize]| RowFacts { is_right: false, ..facts(&code, &[2], pieces) };
        let row = lost(&[1]).believing(set(&[1]));
        assert_eq!(row.read(1), Some(set(&[0, 2, 3, 4])), "P alone");
        assert_eq!(row.write().unwrap(), Plan { method: Method::Decode, reads: set(&[0, 2, 3, 4]) });
        assert_eq!(row.rebuild(set(&[5])), Some(set(&[0, 2, 3, 4])));
        assert_eq!(lost(&[0, 1]).believing(set(&[0, 1])).read(1), Some(set(&[2, 3, 4, 5])));
        assert_eq!(lost(&[1, 4]).believing(set(&[1])).read(1), Some(set(&[0, 2, 3, 5])), "P is lost later");
        assert_eq!(lost(&[0, 1]).believing(set(&[1])).read(1), None, "another one is lost");
        assert_eq!(lost(&[5]).believing(set(&[5])).rebuild(set(&[5])), Some(set(&[0, 1, 2, 3])));
        let code = ErasureCode::new(3, 1).unwrap();
        let row = RowFacts { is_right: false, ..facts(&code, &[0], &[1]) }.believing(set(&[1]));
        assert_eq!(row.write().unwrap().method, Method::Modify, "what is lost stays as it is");
    }

    #[test]
    fn a_piece_is_rebuilt_from_what_is_right() {
        let code = ErasureCode::new(4, 2).unwrap();
        let row = facts(&code, &[], &[1, 4]);
        assert_eq!(row.rebuild(set(&[1])), Some(set(&[0, 2, 3, 5])));
        assert_eq!(row.rebuild(set(&[1, 4])), Some(set(&[0, 2, 3, 5])));
        assert_eq!(facts(&code, &[], &[0, 1, 4]).rebuild(set(&[1])), None);
        let doubt = |lost: &[usize]| RowFacts { is_right: false, ..facts(&code, &[], lost) };
        assert_eq!(doubt(&[1]).rebuild(set(&[1])), None);
        assert_eq!(doubt(&[5]).rebuild(set(&[5])), Some(set(&[0, 1, 2, 3])));
    }

    #[test]
    fn what_cannot_be_read_is_decoded_where_it_is_not_overwritten() {
        let code = ErasureCode::new(2, 1).unwrap();
        let row = RowFacts { readable: set(&[0]), ..facts(&code, &[0], &[]) };
        assert_eq!(row.write(), None, "of two unreadable pieces nothing can be decoded");
        let row = RowFacts { readable: set(&[0, 2]), ..facts(&code, &[0], &[]) };
        assert_eq!(row.write().unwrap().method, Method::Modify);
        let row = RowFacts { readable: set(&[1]), ..facts(&code, &[0], &[]) };
        assert_eq!(row.write().unwrap(), Plan { method: Method::Reconstruct, reads: set(&[1]) });
    }
}
