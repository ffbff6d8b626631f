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

fn drawn(random: &mut Random) -> Box<Block> {
    let mut block = Box::new([0; BLOCK_BYTES]);
    random.fill(&mut block[..]);
    block
}

/// Codes with ordinary and other exponents, and mirrors.
fn codes_to_change() -> Vec<ErasureCode> {
    let ddf = |members: usize, p: usize, q: usize| {
        let exponents = (0..members).filter(|member| *member != p && *member != q).collect();
        ErasureCode::with_exponents(exponents, 2)
    };
    let ddf = [ddf(5, 3, 4), ddf(5, 0, 4), ddf(32, 7, 8), ddf(4, 1, 0)];
    let ordinary = [ErasureCode::new(1, 1), ErasureCode::new(30, 2), ErasureCode::new(4, 3)];
    ddf.into_iter().chain(ordinary).chain([ErasureCode::mirrored(3)]).map(Option::unwrap).collect()
}

#[test]
fn a_parity_that_is_changed_is_that_of_the_new_data() {
    let mut random = Random::from_seed(23);
    for code in codes_to_change() {
        let old: Vec<_> = (0..code.data_count()).map(|_| drawn(&mut random)).collect();
        for changed in 0..=code.data_count().min(3) {
            let mut new = old.clone();
            let mut deltas = Vec::new();
            for piece in (0..code.data_count()).rev().take(changed) {
                new[piece] = drawn(&mut random);
                let mut delta = Box::new([0; BLOCK_BYTES]);
                xor_blocks(&mut delta, &[&old[piece], &new[piece]]);
                deltas.push((piece, delta));
            }
            let deltas: Vec<(usize, &Block)> =
                deltas.iter().map(|(piece, delta)| (*piece, &**delta)).collect();
            for parity in 0..code.parity_count() {
                let encoded = |data: &[Box<Block>]| {
                    let mut block = [0; BLOCK_BYTES];
                    code.encode(parity, &data.iter().map(|block| &**block).collect::<Vec<_>>(), &mut block);
                    block
                };
                let mut into = [0xee; BLOCK_BYTES];
                code.change(parity, &encoded(&old), &deltas, &mut into);
                assert!(into == encoded(&new), "{code:?} parity {parity}, {changed} changed");
                if parity == 0 && !code.is_mirrored() {
                    let mut into = [0xee; BLOCK_BYTES];
                    let both = |(piece, _): &(usize, &Block)| (*piece, [&*old[*piece], &*new[*piece]]);
                    code.change_sum(&encoded(&old), deltas.iter().map(both), &mut into);
                    assert!(into == encoded(&new), "{code:?}, {changed} changed");
                }
            }
        }
    }
}

#[test]
fn exponents_of_others_change_q_and_nothing_else() {
    let code = ErasureCode::with_exponents([1, 4].into_iter().collect(), 2).unwrap();
    assert_eq!((code.data_count(), code.piece_count()), (2, 4));
    let data = [[1_u8; 1], [1; 1]];
    let mut q = [0];
    code.encode_field(1, data.iter(), &mut q);
    assert_eq!(q, [(1 << 1) ^ (1 << 4)]);
    for lost in [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]] {
        let pieces = pieces_of(&code, &mut Random::from_seed(5));
        let present: Vec<_> =
            (0..4).filter(|piece| !lost.contains(piece)).map(|piece| (piece, &pieces[piece])).collect();
        for piece in lost {
            let mut into = [0; 8];
            code.decode_field(piece, &present, &mut into);
            assert_eq!(into, pieces[piece], "{lost:?}");
        }
    }
    let ordinary = ErasureCode::with_exponents(PieceSet::first(4), 2);
    assert_eq!(ordinary, ErasureCode::new(4, 2));
    assert_eq!(ErasureCode::with_exponents(PieceSet::first(31), 2), None);
}
