//! CRC32C (Castagnoli), the checksum of every block and every on-media record.
//!
//! The kernels come from `crc-fast`, which picks SSE4.2 or VPCLMULQDQ at run time and measures
//! 62 ns per 4-KiB block on the machine of docs/adr/0003, against 140 ns for the next library.
//!
//! CRC32C is affine over GF(2): for blocks of equal length,
//! `crc(a ^ b ^ c) = crc(a) ^ crc(b) ^ crc(c)` for an odd number of terms, and the same with
//! `crc(0...0)` added in for an even number. The checksum of an XOR parity block therefore follows
//! from those of its data blocks, before the parity exists: if data changed while its parity was
//! being computed, the parity block fails its checksum.

use crate::units::BLOCK_BYTES;
use std::sync::LazyLock;

/// CRC32C of `bytes`.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "a 32-bit checksum in a 64-bit return value")]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC32C of several pieces, one behind the other.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "a 32-bit checksum in a 64-bit return value")]
pub fn crc32c_of_pieces(pieces: impl IntoIterator<Item: AsRef<[u8]>>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    pieces.into_iter().for_each(|piece| digest.update(piece.as_ref()));
    digest.finalize() as u32
}

/// CRC32C of a block of zeros.
#[must_use]
pub fn crc32c_zero_block() -> u32 {
    static ZERO: LazyLock<u32> = LazyLock::new(|| crc32c(&[0; BLOCK_BYTES]));
    *ZERO
}

/// CRC32C of the XOR of blocks whose checksums are given.
#[must_use]
pub fn crc32c_of_xor(crcs: impl Iterator<Item = u32>) -> u32 {
    let (sum, terms) = crcs.fold((0, 0_usize), |(sum, terms), crc| (sum ^ crc, terms + 1));
    if terms % 2 == 0 { sum ^ crc32c_zero_block() } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The polynomial by definition, one bit at a time.
    fn crc32c_by_definition(bytes: &[u8]) -> u32 {
        let mut crc = !0_u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0x82f6_3b78 & (0_u32.wrapping_sub(crc & 1)));
            }
        }
        !crc
    }

    #[test]
    fn known_answer_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn agrees_with_the_definition_at_every_length() {
        let mut random = Random::from_seed(3);
        for length in (0..300).chain([4095, 4096]) {
            let mut bytes = vec![0; length];
            random.fill(&mut bytes);
            assert_eq!(crc32c(&bytes), crc32c_by_definition(&bytes), "{length} bytes");
        }
    }

    #[test]
    fn pieces_have_the_checksum_of_what_they_make_together() {
        let mut bytes = vec![0; 9000];
        Random::from_seed(5).fill(&mut bytes);
        let pieces = [&bytes[..4096], &bytes[4096..4099], &[], &bytes[4099..]];
        assert_eq!(crc32c_of_pieces(pieces), crc32c(&bytes));
        assert_eq!(crc32c_of_pieces(std::iter::empty::<&[u8]>()), 0);
    }

    #[test]
    fn checksum_of_a_parity_follows_from_its_data() {
        let mut random = Random::from_seed(4);
        for terms in 1..6 {
            let blocks: Vec<[u8; BLOCK_BYTES]> = (0..terms)
                .map(|_| {
                    let mut block = [0; BLOCK_BYTES];
                    random.fill(&mut block);
                    block
                })
                .collect();
            let mut parity = [0; BLOCK_BYTES];
            for block in &blocks {
                parity.iter_mut().zip(block).for_each(|(p, b)| *p ^= b);
            }
            assert_eq!(crc32c_of_xor(blocks.iter().map(|b| crc32c(b))), crc32c(&parity), "{terms} terms");
        }
    }
}
