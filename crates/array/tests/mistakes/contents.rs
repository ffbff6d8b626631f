//! Contents of blocks that tell which write they are of.

use base::xor::Block;

/// A write's identity and contents; 0 is a block of zeros.
pub type Stamp = u64;

/// Fills a block so that every part of it tells its stamp and its address.
pub fn fill(block: &mut Block, lba: u64, stamp: Stamp) {
    for (index, chunk) in block.chunks_exact_mut(16).enumerate() {
        chunk[..8].copy_from_slice(&(stamp ^ (index as u64) << 48).to_le_bytes());
        chunk[8..].copy_from_slice(&lba.to_le_bytes());
    }
}

/// The stamp of a block; panics when its parts disagree or it belongs to another address.
pub fn stamp_of(block: &Block, lba: u64) -> Stamp {
    if block.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let stamp = u64::from_le_bytes(block[..8].try_into().unwrap());
    let mut expected = [0; base::units::BLOCK_BYTES];
    fill(&mut expected, lba, stamp);
    assert!(*block == expected, "block {lba} holds a mixture or another block's data");
    stamp
}
