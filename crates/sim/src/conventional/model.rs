//! Model of a zone: what was written, and what must be there.

use base::frame::Frame;
use base::random::Random;

/// Change of a zone as a whole that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Emptied: what was before may be there after a crash, or nothing.
    Reset,
    /// Made full.
    Finish,
}

/// Zone before a reset.
#[derive(Clone, Debug)]
pub struct Before {
    /// Blocks.
    pub blocks: Vec<u64>,
    /// Of these, those that are durable.
    pub durable: usize,
    /// The host made it full.
    pub is_finished: bool,
    /// Blocks that the disk cannot return.
    pub spoiled: Vec<u32>,
}

/// See the module. Blocks are numbers from which content and metadata follow.
#[derive(Clone, Debug, Default)]
pub struct ZoneModel {
    /// Blocks written since the zone was empty, in their order.
    pub blocks: Vec<u64>,
    /// Of these, those that were answered.
    pub answered: usize,
    /// And those that are durable.
    pub durable: usize,
    /// A change that is not answered.
    pub change: Option<Change>,
    /// What was before a reset that is not answered.
    pub before: Option<Before>,
    /// The host made it full.
    pub is_finished: bool,
    /// A command failed: its writes may be there or not.
    pub has_failed: bool,
    /// Blocks that the disk cannot return.
    pub spoiled: Vec<u32>,
    /// And those that it ever could not.
    pub spoiled_before: Vec<u32>,
    /// Lives so far: reads of an earlier one are not judged.
    pub life: u64,
}

impl ZoneModel {
    /// What the model says of a zone of so many blocks is of one piece.
    pub fn check(&self, zone: usize, capacity: u32) {
        let (end, answered, durable) = (self.end(), self.answered, self.durable);
        assert!(end <= capacity, "zone {zone}: {end} blocks of {capacity}");
        assert!(answered <= self.blocks.len(), "zone {zone}: {answered} blocks of {end} are answered");
        assert!(durable <= self.blocks.len(), "zone {zone}: {durable} blocks of {end} are durable");
        let (is_reset, has_before) = (self.change == Some(Change::Reset), self.before.is_some());
        assert!(
            is_reset == has_before,
            "zone {zone}: {:?} is under way, before it: {has_before}",
            self.change
        );
        assert!(
            self.spoiled.iter().all(|at| *at < end),
            "zone {zone}: blocks {:?} of {end} cannot be returned",
            self.spoiled
        );
        let are_known = self.spoiled.iter().all(|at| self.spoiled_before.contains(at));
        assert!(are_known, "zone {zone}: blocks {:?} were never spoiled", self.spoiled);
    }

    /// Blocks written, as a zone counts them.
    pub fn end(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("small zones")
    }
}

/// Content of a block.
pub fn fill(number: u64, frame: &mut Frame) {
    let mut random = Random::from_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // Some blocks look like others: data alone tells nothing.
    let word = if number.is_multiple_of(7) { 0 } else { random.below(u64::MAX) };
    for (index, chunk) in frame.data.chunks_exact_mut(8).enumerate() {
        let mixed = word.wrapping_mul(u64::try_from(index | 1).expect("small"));
        chunk.copy_from_slice(&mixed.to_le_bytes());
    }
    for chunk in frame.oob.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    frame.oob[..8].copy_from_slice(&number.to_le_bytes());
}

/// True when a frame is the block of this number.
pub fn is_block(number: u64, frame: &Frame) -> bool {
    let mut wanted = Frame::zeroed();
    fill(number, &mut wanted);
    wanted.data == frame.data && wanted.oob == frame.oob
}
