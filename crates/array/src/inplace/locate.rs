//! Which single piece of a row is wrong, where two parities do not fit: what a check of RAID-6 can tell beyond a count.
//!
//! ```text
//!   a data piece is wrong    what P makes of it in its place makes Q fit, and no other piece does that
//!   P or Q is wrong          the other one fits
//! ```
//! When several pieces are wrong none is named, but for chance: another one would have to look like it in every byte.

use base::erasure::ErasureCode;
use base::units::BLOCK_BYTES;
use base::xor::Block;

/// Piece that is wrong, of a row whose parities do not fit; `None` when it cannot be told, or with one parity.
#[must_use]
pub fn locate(code: &ErasureCode, pieces: &[&Block]) -> Option<usize> {
    let data = code.data_count();
    if code.parity_count() != 2 || code.is_mirrored() {
        return None;
    }
    let mut found = (0..code.piece_count()).filter(|piece| {
        let mut computed = [0; BLOCK_BYTES];
        if *piece >= data {
            let other = data + usize::from(*piece == data);
            code.encode(other - data, &pieces[..data], &mut computed);
            return computed == *pieces[other];
        }
        let sources: Vec<(usize, &Block)> =
            (0..=data).filter(|source| source != piece).map(|source| (source, pieces[source])).collect();
        let mut decoded = [0; BLOCK_BYTES];
        code.decode(*piece, &sources, &mut decoded);
        let with = |index: usize| if index == *piece { &decoded } else { pieces[index] };
        let all: Vec<&Block> = (0..data).map(with).collect();
        code.encode(1, &all, &mut computed);
        computed == *pieces[data + 1]
    });
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    fn row(code: &ErasureCode, random: &mut Random) -> Vec<Box<Block>> {
        let mut pieces: Vec<Box<Block>> =
            (0..code.piece_count()).map(|_| Box::new([0; BLOCK_BYTES])).collect();
        let (data, parities) = pieces.split_at_mut(code.data_count());
        data.iter_mut().for_each(|block| random.fill(&mut block[..]));
        let data: Vec<&Block> = data.iter().map(|block| &**block).collect();
        parities.iter_mut().enumerate().for_each(|(parity, into)| code.encode(parity, &data, into));
        pieces
    }

    fn found(code: &ErasureCode, pieces: &[Box<Block>]) -> Option<usize> {
        locate(code, &pieces.iter().map(|block| &**block).collect::<Vec<_>>())
    }

    #[test]
    fn each_piece_is_found_alone_and_two_are_not() {
        let mut random = Random::from_seed(5);
        let codes = [
            ErasureCode::new(2, 2).unwrap(),
            ErasureCode::new(6, 2).unwrap(),
            ErasureCode::with_exponents([0, 1, 3, 4].into_iter().collect(), 2).unwrap(),
        ];
        for code in codes {
            let right = row(&code, &mut random);
            for piece in 0..code.piece_count() {
                let mut pieces = right.clone();
                pieces[piece][700] ^= 0x55;
                pieces[piece][9] ^= 1;
                assert_eq!(found(&code, &pieces), Some(piece), "{code:?}");
                let other = (piece + 1) % code.piece_count();
                pieces[other][701] ^= 3;
                assert_eq!(found(&code, &pieces), None, "{piece} and {other} of {code:?}");
            }
        }
        let single = ErasureCode::new(3, 1).unwrap();
        let pieces = row(&single, &mut random);
        assert_eq!(found(&single, &pieces), None);
    }
}
