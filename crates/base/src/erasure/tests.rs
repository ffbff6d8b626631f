//! Every loss that a code promises to survive is survived, and no other.

use super::*;
use crate::random::Random;
use crate::units::BLOCK_BYTES;

/// Codes of both kinds, all sizes.
fn all_codes() -> Vec<ErasureCode> {
    let parities = (1..=PIECES_MAX).flat_map(|k| (0..=PARITIES_MAX).map(move |m| (k, m)));
    let parities = parities.filter_map(|(k, m)| ErasureCode::new(k, m));
    parities.chain((1..=PIECES_MAX).filter_map(ErasureCode::mirrored)).collect()
}

/// All sets of up to `count` of the pieces from `first` on, each added to `set`.
fn subsets(first: usize, pieces: usize, count: usize, set: PieceSet, all: &mut Vec<PieceSet>) {
    all.push(set);
    if count == 0 {
        return;
    }
    for piece in first..pieces {
        let mut more = set;
        more.insert(piece);
        subsets(piece + 1, pieces, count - 1, more, all);
    }
}

fn losses(code: &ErasureCode, count: usize) -> Vec<PieceSet> {
    let mut all = Vec::new();
    subsets(0, code.piece_count(), count, PieceSet::EMPTY, &mut all);
    all
}

/// Pieces with short fields: data drawn, parities encoded.
fn pieces_of(code: &ErasureCode, random: &mut Random) -> Vec<[u8; 8]> {
    let mut pieces = vec![[0; 8]; code.piece_count()];
    pieces[..code.data_count()].iter_mut().for_each(|piece| random.fill(piece));
    for parity in 0..code.parity_count() {
        let mut field = [0; 8];
        let (data, _) = pieces.split_at(code.data_count());
        code.encode_field(parity, data.iter(), &mut field);
        pieces[code.data_count() + parity] = field;
    }
    pieces
}

/// Every code, every loss of up to m pieces (three parities over 29 drives: 5,489 of them), every piece lost.
/// A matrix that cannot be inverted ends the test, and a wrong one shows in the fields.
#[test]
fn every_loss_is_decoded_by_every_code() {
    let mut random = Random::from_seed(5);
    for code in all_codes() {
        let pieces = pieces_of(&code, &mut random);
        for lost in losses(&code, code.tolerance()) {
            let present = code.pieces().without(lost);
            assert!(code.can_decode(present), "{code:?} without {lost:?}");
            let left: Vec<(usize, &[u8; 8])> = present.iter().map(|piece| (piece, &pieces[piece])).collect();
            for piece in lost.iter() {
                let mut decoded = [0; 8];
                code.decode_field(piece, &left, &mut decoded);
                assert_eq!(decoded, pieces[piece], "{code:?} without {lost:?}: piece {piece}");
                let sources = code.sources(piece, present).unwrap();
                assert!(sources.without(present).is_empty() && sources.count() <= code.data_count());
            }
        }
    }
}

#[test]
fn one_loss_more_is_too_much_for_parities() {
    for (data_count, parity_count) in [(1, 0), (3, 1), (4, 2), (5, 3), (2, 3)] {
        let code = ErasureCode::new(data_count, parity_count).unwrap();
        for lost in losses(&code, parity_count + 1) {
            let present = code.pieces().without(lost);
            let can = lost.count() <= parity_count;
            assert_eq!(code.can_decode(present), can, "{code:?} without {lost:?}");
            for piece in lost.iter() {
                assert_eq!(code.sources(piece, present).is_some(), can, "{code:?} without {lost:?}");
            }
        }
    }
}

#[test]
fn mirrors_lose_all_but_both_copies() {
    let code = ErasureCode::mirrored(3).unwrap();
    assert_eq!((code.piece_count(), code.tolerance()), (6, 1));
    let pieces = pieces_of(&code, &mut Random::from_seed(6));
    for lost in losses(&code, 6) {
        let present = code.pieces().without(lost);
        let both = (0..3).any(|piece| lost.contains(piece) && lost.contains(piece + 3));
        assert_eq!(code.can_decode(present), !both, "without {lost:?}");
        for piece in lost.iter() {
            let copy = (piece + 3) % 6;
            let sources = code.sources(piece, present).map(|sources| sources.iter().collect::<Vec<_>>());
            assert_eq!(sources, present.contains(copy).then_some(vec![copy]));
        }
    }
    assert!((0..3).all(|piece| pieces[piece] == pieces[piece + 3]));
}

#[test]
fn blocks_are_coded_as_fields_are() {
    let mut random = Random::from_seed(7);
    for code in
        [ErasureCode::new(3, 1), ErasureCode::new(4, 2), ErasureCode::new(5, 3), ErasureCode::mirrored(2)]
    {
        let code = code.unwrap();
        let mut pieces = vec![[0; BLOCK_BYTES]; code.piece_count()];
        pieces[..code.data_count()].iter_mut().for_each(|piece| random.fill(piece));
        for parity in 0..code.parity_count() {
            let data: Vec<&Block> = pieces[..code.data_count()].iter().collect();
            let (mut block, mut field) = ([0xaa; BLOCK_BYTES], [0xaa; BLOCK_BYTES]);
            code.encode(parity, &data, &mut block);
            code.encode_field(parity, data.iter().copied(), &mut field);
            assert!(block == field, "{code:?}: parity {parity}");
            let derived =
                code.parity_checksum(parity, data.iter().map(|block| crate::checksum::crc32c(*block)));
            assert!(derived.is_none_or(|derived| derived == crate::checksum::crc32c(&block)));
            assert_eq!(derived.is_some(), parity == 0 || code.is_mirrored());
            pieces[code.data_count() + parity] = block;
        }
        for lost in losses(&code, code.tolerance()) {
            let present = code.pieces().without(lost);
            let left: Vec<(usize, &Block)> = present.iter().map(|piece| (piece, &pieces[piece])).collect();
            for piece in lost.iter() {
                let mut decoded = [0xaa; BLOCK_BYTES];
                code.decode(piece, &left, &mut decoded);
                assert!(decoded == pieces[piece], "{code:?} without {lost:?}: piece {piece}");
            }
        }
    }
}

/// Linux md's worked example (H. P. Anvin, The mathematics of RAID-6): Q is a polynomial in 2.
#[test]
fn q_is_that_of_md() {
    let code = ErasureCode::new(3, 2).unwrap();
    let mut q = [0];
    code.encode_field(1, [&[0x01], &[0x80], &[0x40]].into_iter(), &mut q);
    assert_eq!(q, [0x01 ^ 0x1d ^ 0x1d]);
}

#[test]
fn unknown_codes_are_refused() {
    assert_eq!(ErasureCode::new(0, 1), None);
    assert_eq!(ErasureCode::new(4, 4), None);
    assert_eq!(ErasureCode::new(32, 1), None);
    assert_eq!(ErasureCode::mirrored(17), None);
    assert!(ErasureCode::new(4, 0).is_some() && ErasureCode::new(29, 3).is_some());
}
