//! Erasure codes: m parities for k pieces of data, any m of the k+m may be lost.
//!
//! Today m is 0 (RAID-0) or 1 (XOR: RAID-4, RAID-5). The interface is general in k and m and the
//! engine above uses nothing else, so that P+Q and Reed-Solomon arrive here alone.

use crate::checksum::crc32c_of_xor;
use crate::xor::{Block, xor_blocks};

/// A systematic (k+m, k) code. Piece `0..k` is data, `k..k+m` parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasureCode {
    data_count: usize,
    parity_count: usize,
}

/// Most pieces of one stripe; bounds the arrays on the stack of the encoder.
pub const PIECES_MAX: usize = 32;

impl ErasureCode {
    /// The code with `data_count` data and `parity_count` parity pieces; `None` where this version
    /// has no such code (more than one parity, no data, or more than [`PIECES_MAX`] pieces).
    #[must_use]
    pub fn new(data_count: usize, parity_count: usize) -> Option<ErasureCode> {
        let known = (1..=PIECES_MAX).contains(&data_count)
            && parity_count <= 1
            && data_count + parity_count <= PIECES_MAX;
        known.then_some(ErasureCode { data_count, parity_count })
    }

    /// Data pieces, k.
    #[must_use]
    pub fn data_count(&self) -> usize {
        self.data_count
    }

    /// Parity pieces, m.
    #[must_use]
    pub fn parity_count(&self) -> usize {
        self.parity_count
    }

    /// Data and parity pieces, k+m.
    #[must_use]
    pub fn piece_count(&self) -> usize {
        self.data_count + self.parity_count
    }

    /// Computes parity `parity` (0-based) of the k data blocks.
    ///
    /// # Panics
    /// When there are not k data blocks, or no such parity.
    pub fn encode(&self, parity: usize, data: &[&Block], into: &mut Block) {
        assert!(data.len() == self.data_count);
        assert!(parity < self.parity_count);
        xor_blocks(into, data);
    }

    /// Computes parity `parity` of k short fields of equal length (metadata parity).
    pub fn encode_field<'a>(&self, parity: usize, data: impl Iterator<Item = &'a [u8]>, into: &mut [u8]) {
        assert!(parity < self.parity_count);
        into.fill(0);
        for field in data {
            into.iter_mut().zip(field).for_each(|(i, f)| *i ^= f);
        }
    }

    /// Checksum of parity `parity`, from the checksums of the k data blocks: it follows from them
    /// (see [`crate::checksum`]), so it does not vouch for a parity that was computed wrongly.
    #[must_use]
    pub fn parity_checksum(&self, parity: usize, data: impl Iterator<Item = u32>) -> u32 {
        assert!(parity < self.parity_count);
        crc32c_of_xor(data)
    }

    /// Recomputes the block of piece `lost` from at least k others, given as (piece, block).
    ///
    /// # Panics
    /// When fewer than k pieces are given; callers refuse the read instead.
    pub fn decode(&self, lost: usize, present: &[(usize, &Block)], into: &mut Block) {
        assert!(lost < self.piece_count());
        assert!(present.len() >= self.data_count, "decoding needs k pieces");
        assert!(present.iter().all(|(piece, _)| *piece != lost));
        let mut sources: [&Block; PIECES_MAX] = [present[0].1; PIECES_MAX];
        for (slot, (_, block)) in sources.iter_mut().zip(present) {
            *slot = block;
        }
        xor_blocks(into, &sources[..self.data_count]);
    }

    /// [`ErasureCode::decode`] for short fields of equal length.
    ///
    /// # Panics
    /// When fewer than k pieces are given.
    pub fn decode_field(&self, lost: usize, present: &[(usize, &[u8])], into: &mut [u8]) {
        assert!(lost < self.piece_count());
        assert!(present.len() >= self.data_count, "decoding needs k pieces");
        into.fill(0);
        for (_, field) in &present[..self.data_count] {
            into.iter_mut().zip(*field).for_each(|(i, f)| *i ^= f);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::units::BLOCK_BYTES;

    #[test]
    fn any_lost_piece_comes_back() {
        let mut random = Random::from_seed(5);
        for data_count in 1..8 {
            let code = ErasureCode::new(data_count, 1).unwrap();
            let mut pieces: Vec<Block> = (0..=data_count)
                .map(|_| {
                    let mut block = [0; BLOCK_BYTES];
                    random.fill(&mut block);
                    block
                })
                .collect();
            let mut parity = [0; BLOCK_BYTES];
            code.encode(0, &pieces[..data_count].iter().collect::<Vec<_>>(), &mut parity);
            pieces[data_count] = parity;
            for lost in 0..=data_count {
                let present: Vec<(usize, &Block)> =
                    pieces.iter().enumerate().filter(|(piece, _)| *piece != lost).collect();
                let mut rebuilt = [0; BLOCK_BYTES];
                code.decode(lost, &present, &mut rebuilt);
                assert!(rebuilt == pieces[lost], "{data_count}+1, piece {lost}");
            }
        }
    }

    #[test]
    fn unknown_codes_are_refused() {
        assert_eq!(ErasureCode::new(0, 1), None);
        assert_eq!(ErasureCode::new(4, 2), None);
        assert_eq!(ErasureCode::new(32, 1), None);
        assert!(ErasureCode::new(4, 0).is_some());
    }
}
