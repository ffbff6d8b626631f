//! Witness of a batch: checksums by which a replay knows that a row was written whole, though a member is missing.
//!
//! Where a write changes several blocks of a row and one of them lies on a member that is lost, partial parity does not say whether
//! the parity belongs to the others: a row that was answered looks like one that was cut off. The block of a witness has, for such
//! an entry, a checksum of the rows of each data chunk that it modifies and of their parity, as they are when all of them are
//! written. When all that can be read match, the entry is through and the parity is right. md passes over the block: to it the
//! entry has no data.

use base::bytes::{put, u32_at};
use base::checksum::{crc32c, crc32c_of_pieces};
use base::record_fields;
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWwitns1`";
    COUNT: 8, 4, "words of 4 bytes that follow";
    CHECKSUM: 12, 4, "CRC32C of the block with this field zero";
    WORDS: 16, 4080, "for each entry that has one: its place among the entries, how many sums follow, the sums of data chunks in order, that of the parity";
}

/// Bytes of the block.
pub const BLOCK_BYTES: usize = 4096;
const MAGIC: [u8; 8] = *b"ZWwitns1";
/// Words that fit.
const WORDS_MAX: usize = 1020;

/// Sums of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Place of the entry in its header.
    pub entry: u32,
    /// Sums of the data chunks that it modifies, in order, and last that of the parity.
    pub sums: Vec<u32>,
}

/// Sum of a chunk's rows: CRC32C of the CRC32Cs of its blocks.
#[must_use]
pub fn sum_of<'a>(rows: impl Iterator<Item = &'a Block>) -> u32 {
    crc32c_of_pieces(rows.map(|block| crc32c(&block[..]).to_le_bytes()))
}

/// Words that the sums of so many pieces take.
#[must_use]
pub fn words_of(pieces: usize) -> usize {
    2 + pieces
}

/// True when so many words fit into a block.
#[must_use]
pub fn has_room(words: usize) -> bool {
    words <= WORDS_MAX
}

/// Witness that is written down entry by entry.
#[derive(Debug)]
pub struct Draft {
    words: usize,
}

impl Draft {
    /// Begins a block.
    pub fn begin(block: &mut Block) -> Draft {
        block.fill(0);
        Draft { words: 0 }
    }

    /// Adds the sums of an entry: those of the data chunks that it modifies, in order, and last that of the parity.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn push(&mut self, block: &mut Block, entry: u32, sums: &[u32]) {
        assert!(has_room(self.words + words_of(sums.len())), "{} words", self.words);
        let count = u32::try_from(sums.len()).expect("at most 32 pieces");
        for word in [entry, count].iter().chain(sums) {
            put(block, at::WORDS + 4 * self.words, &word.to_le_bytes());
            self.words += 1;
        }
    }

    /// Ends the block.
    pub fn finish(self, block: &mut Block) {
        put(block, at::MAGIC, &MAGIC);
        put(block, at::COUNT, &u32::try_from(self.words).expect("at most 1020").to_le_bytes());
        let sum = crc32c(&block[..]);
        put(block, at::CHECKSUM, &sum.to_le_bytes());
    }
}

/// Sums in a block; none when it is no witness, or damaged.
#[must_use]
pub fn decode(block: &Block) -> Vec<Sums> {
    let mut zeroed = *block;
    put(&mut zeroed, at::CHECKSUM, &[0; 4]);
    let count = usize::try_from(u32_at(block, at::COUNT)).unwrap_or(usize::MAX);
    let is_whole = crc32c(&zeroed) == u32_at(block, at::CHECKSUM);
    if !is_whole || !block.starts_with(&MAGIC) || count > WORDS_MAX {
        return Vec::new();
    }
    let mut words = (0..count).map(|index| u32_at(block, at::WORDS + 4 * index));
    let mut all = Vec::new();
    while let (Some(entry), Some(sums)) = (words.next(), words.next()) {
        let sums = usize::try_from(sums).unwrap_or(usize::MAX);
        all.push(Sums { entry, sums: words.by_ref().take(sums).collect() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(all: &[Sums], block: &mut Block) {
        let mut draft = Draft::begin(block);
        all.iter().for_each(|own| draft.push(block, own.entry, &own.sums));
        draft.finish(block);
    }

    #[test]
    fn sums_come_back_and_damage_is_noticed() {
        let all = [Sums { entry: 0, sums: vec![1, 2, 3] }, Sums { entry: 7, sums: vec![9; 32] }];
        let mut block = [0; BLOCK_BYTES];
        encode(&all, &mut block);
        assert_eq!(decode(&block), all);
        block[40] ^= 1;
        assert_eq!(decode(&block), []);
        assert_eq!(decode(&[0; BLOCK_BYTES]), []);
    }

    #[test]
    fn as_many_words_fit_as_it_says() {
        let all = vec![Sums { entry: 3, sums: vec![5; 32] }; WORDS_MAX / words_of(32)];
        let mut block = [0; BLOCK_BYTES];
        encode(&all, &mut block);
        assert_eq!(decode(&block).len(), all.len());
        assert!(has_room(all.len() * words_of(32)) && !has_room((all.len() + 1) * words_of(32)));
    }

    #[test]
    fn a_sum_depends_on_the_order_of_rows() {
        let (one, two) = ([1; BLOCK_BYTES], [2; BLOCK_BYTES]);
        assert_ne!(sum_of([&one, &two].into_iter()), sum_of([&two, &one].into_iter()));
    }
}
