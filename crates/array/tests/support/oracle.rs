//! What each block may legally hold.
//!
//! Writes have an order: that of their arrival. Once a write is acknowledged, older ones can never
//! be seen again. One that is not acknowledged may be seen or not; after a crash, what is seen first
//! stays, unless a test says that it need not.

use base::xor::Block;

/// A write's identity and contents; 0 is a block of zeros.
pub type Stamp = u64;

pub struct Oracle {
    blocks: Vec<History>,
    next: Stamp,
}

#[derive(Clone)]
struct History {
    /// The newest acknowledged contents.
    settled: Stamp,
    /// When it arrived.
    settled_at: u64,
    /// Later arrivals that are not acknowledged: (arrival, contents).
    open: Vec<(u64, Stamp)>,
    /// Those of before the last crash that were not seen after it, where they may be seen after another.
    torn: Vec<Stamp>,
}

impl Oracle {
    pub fn new(blocks: u64) -> Oracle {
        let history = History { settled: 0, settled_at: 0, open: Vec::new(), torn: Vec::new() };
        Oracle { blocks: vec![history; blocks as usize], next: 1 }
    }

    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// A new stamp, which is also an arrival time.
    pub fn stamp(&mut self) -> Stamp {
        self.next += 1;
        self.next - 1
    }

    /// A write (or, with contents 0, a trim) of a block has arrived.
    pub fn begin(&mut self, lba: u64, arrival: u64, contents: Stamp) {
        self.blocks[lba as usize].open.push((arrival, contents));
    }

    /// It was acknowledged.
    pub fn settle(&mut self, lba: u64, arrival: u64) {
        let block = &mut self.blocks[lba as usize];
        let index = block.open.iter().position(|(at, _)| *at == arrival);
        // Absent: a later write of the block was acknowledged first.
        let Some(index) = index else { return };
        let (_, contents) = block.open[index];
        block.settled = contents;
        block.settled_at = arrival;
        block.open.retain(|(at, _)| *at > arrival);
        block.torn.clear();
    }

    /// Contents that may be read now.
    pub fn allowed(&self, lba: u64) -> Vec<Stamp> {
        let block = &self.blocks[lba as usize];
        std::iter::once(block.settled).chain(block.open.iter().map(|(_, contents)| *contents)).collect()
    }

    /// Contents that may be read after a crash.
    pub fn allowed_after_crash(&self, lba: u64) -> Vec<Stamp> {
        let torn = self.blocks[lba as usize].torn.iter().copied();
        self.allowed(lba).into_iter().chain(torn).collect()
    }

    /// After a crash: what was read is what the block holds. Writes that were not acknowledged are gone for good,
    /// unless they may return.
    pub fn observe(&mut self, lba: u64, contents: Stamp, may_return: bool) {
        let block = &mut self.blocks[lba as usize];
        block.settled = contents;
        let open = block.open.drain(..).map(|(_, contents)| contents);
        block.torn.extend(open.filter(|_| may_return));
    }
}

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
