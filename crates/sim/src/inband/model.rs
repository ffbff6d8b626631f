//! Model of a zone: what was written, and what must be there.

use crate::conventional::model::is_block;
use base::frame::Frame;
use zone::device::Status;

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
    /// Blocks that the device cannot return.
    pub spoiled: Vec<u32>,
}

/// Number of a block without metadata: torn, and never answered.
pub const TORN: u64 = 0;

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
    /// End of the first write that failed.
    pub failed_end: Option<usize>,
    /// Blocks that the device cannot return.
    pub spoiled: Vec<u32>,
    /// It was full after a power failure, wherever it ends.
    pub is_full: bool,
    /// The zone is read-only, or offline.
    pub has_degraded: bool,
    pub is_offline: bool,
    /// The host knows that: a command failed, or the drive was opened since.
    pub is_told: bool,
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
        assert!(self.failed_end.is_none() || self.has_failed, "zone {zone}: a write failed, and nothing did");
        assert!(!self.is_offline || self.has_degraded, "zone {zone} is offline, and did not turn");
        assert!(!self.is_told || self.has_degraded, "zone {zone} turned by hearsay");
    }

    /// Blocks written, as a zone counts them.
    pub fn end(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("small zones")
    }
}

/// True when a frame is what a block reads as that was never answered: zeros, whatever arrived of it.
pub fn is_torn(frame: &Frame) -> bool {
    frame.is_blank()
}

/// True when a frame is the block of this number.
pub fn is_number(number: u64, frame: &Frame) -> bool {
    if number == TORN { is_torn(frame) } else { is_block(number, frame) }
}

/// Blocks as they were found after a power failure.
#[derive(Debug)]
pub struct FoundBlocks {
    /// Those up to the end; of a full zone up to the last one with metadata.
    pub blocks: Vec<(Status, Vec<Frame>)>,
    /// The zone is full.
    pub is_full: bool,
    /// Nobody knows its pointer: it is read-only.
    pub is_read_only: bool,
}

impl FoundBlocks {
    /// How many blocks are those that were written, if the zone may be what it is.
    ///
    /// # Errors
    /// What is wrong.
    pub fn fits(&self, model: &Before, may_be_finished: bool, capacity: usize) -> Result<usize, String> {
        let is_as_written = |at: usize| {
            let (status, frames) = &self.blocks[at];
            let is_spoiled = || model.spoiled.iter().any(|bad| usize::try_from(*bad) == Ok(at));
            match (status, model.blocks.get(at)) {
                (Status::Success, Some(number)) => is_number(*number, &frames[0]),
                (_, number) => number.is_some() && is_spoiled(),
            }
        };
        let found = self.blocks.len();
        let prefix = (0..found).find(|at| !is_as_written(*at)).unwrap_or(found);
        // A block that the device cannot return may be one without metadata.
        let is_known = |at: &usize| {
            let (status, frames) = &self.blocks[*at];
            let is_spoiled = || model.spoiled.iter().any(|bad| usize::try_from(*bad) == Ok(*at));
            if *status == Status::Success { !is_torn(&frames[0]) } else { !is_spoiled() }
        };
        if let Some(at) = (prefix..found).find(is_known) {
            let status = self.blocks[at].0;
            return Err(format!("block {at} is not the one that was written: {status:?}"));
        }
        // What was torn before tells nothing where a zone is full.
        let durable = model.blocks[..model.durable].iter().rposition(|number| *number != TORN);
        let durable =
            if self.is_full || self.is_read_only { durable.map_or(0, |at| at + 1) } else { model.durable };
        if prefix < durable {
            return Err(format!("{prefix} blocks, {durable} were durable"));
        }
        if self.is_read_only {
            return Ok(prefix);
        }
        let is_finished = model.is_finished || may_be_finished;
        // A finish that was cut may leave the last unit full of blocks without metadata; what was durable is there.
        if self.is_full && model.blocks.len() < capacity && !is_finished {
            return Err(format!("full with {prefix} blocks, finished: {is_finished}"));
        }
        if model.is_finished && !self.is_full {
            return Err("it was finished, and is not full".into());
        }
        // A finish writes blank blocks up to the end of a unit.
        let most = if may_be_finished { capacity } else { model.blocks.len() };
        if !self.is_full && found > most {
            return Err(format!("{found} blocks, {most} were written"));
        }
        if !self.is_full && found == capacity {
            return Err("all blocks are there, and it is not full".into());
        }
        Ok(prefix)
    }
}
