//! Blocks that say where they belong and which write they come from, in every one of their words,
//! so that old, foreign, torn or mixed ones are told apart.

use base::random::Random;

pub const BLOCK_BYTES: usize = 4096;
pub const BLOCK_BYTES_U64: u64 = 4096;

const WORD_BYTES: usize = 8;

/// Appends the block with this address and stamp; stamp 0 is a block of zeros.
pub fn push_block(into: &mut Vec<u8>, lba: u64, stamp: u64) {
    if stamp == 0 {
        into.resize(into.len() + BLOCK_BYTES, 0);
        return;
    }
    into.extend(lba.to_le_bytes());
    into.extend(stamp.to_le_bytes());
    let mut filling = filling_of(lba, stamp);
    for _ in 2..BLOCK_BYTES / WORD_BYTES {
        into.extend(filling.bits().to_le_bytes());
    }
}

/// Stamp of a block read at `lba`; `None` when it is not wholly one that was written there.
pub fn stamp_of(lba: u64, block: &[u8]) -> Option<u64> {
    assert_eq!(block.len(), BLOCK_BYTES);
    if block.iter().all(|&byte| byte == 0) {
        return Some(0);
    }
    let word = |index: usize| {
        let bytes = &block[index * WORD_BYTES..(index + 1) * WORD_BYTES];
        u64::from_le_bytes(bytes.try_into().unwrap())
    };
    let stamp = word(1);
    let mut filling = filling_of(lba, stamp);
    let whole = (2..BLOCK_BYTES / WORD_BYTES).all(|index| word(index) == filling.bits());
    (word(0) == lba && stamp != 0 && whole).then_some(stamp)
}

fn filling_of(lba: u64, stamp: u64) -> Random {
    Random::from_seed(lba.rotate_left(32) ^ stamp)
}
