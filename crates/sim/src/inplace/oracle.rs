//! Oracle: what each block may hold, by its sectors, from what clients were told.
//!
//! Writes have no order while they overlap in time: a block may hold any of those that no completed write has certainly replaced.
//! After a crash each sector holds one of the values that no durable write has certainly replaced.

use base::frame::Frame;
use base::random::Random;
use base::units::BLOCK_BYTES;
use block::md::SECTOR_BYTES;
use std::collections::BTreeSet;

/// Sectors of a block.
pub const SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;

/// Writes by number; zero are zeros.
pub type Stamps = [u64; SECTORS];

/// Value that a block may have.
#[derive(Clone, Copy, Debug)]
struct Value {
    stamps: Stamps,
    /// Request that wrote it: trims all write zeros.
    id: u64,
    submitted: u64,
    /// Time at which it was no longer in flight.
    completed: Option<u64>,
    /// It was answered as done: what it replaced is gone.
    is_done: bool,
}

/// Block of the volume.
#[derive(Clone, Debug)]
struct Block {
    /// Values that it may have now.
    now: Vec<Value>,
    /// Values that it may have after a crash.
    after: Vec<Value>,
    /// Writes in flight.
    writes: u32,
    /// Number of writes that were begun.
    begun: u64,
    /// Number of writes that were answered as done.
    done: u64,
    /// Nothing was written since the last crash.
    is_fresh: bool,
    /// Time at which it was found to hold anything, until it is written.
    wild: Option<u64>,
    /// The same, until what is written is durable.
    wild_after: Option<u64>,
}

impl Block {
    /// True when a write left it so.
    fn is_one(&self, stamps: &Stamps) -> bool {
        self.now.iter().any(|value| value.stamps == *stamps)
    }

    /// True when it may hold parts of several writes: of what failed since the last power failure, at least.
    fn may_be_torn(&self, is_whole: bool) -> bool {
        !(is_whole && self.is_fresh)
    }
}

/// See the module.
pub struct Oracle {
    blocks: Vec<Block>,
    clock: u64,
    /// A power failure leaves no block in parts.
    is_whole: bool,
}

/// Read in flight: what was allowed when it began, and since.
pub struct Reading {
    lba: u64,
    allowed: Vec<Vec<Value>>,
    /// Writes begun, and writes in flight, as it began.
    begun: Vec<(u64, u32)>,
    /// Writes done as it began.
    done: Vec<u64>,
    /// Blocks that might hold anything as it began.
    wild: Vec<bool>,
}

impl Reading {
    /// First block.
    pub fn first(&self) -> u64 {
        self.lba
    }

    /// Its blocks, with the writes of each that were done as it began.
    pub fn done(&self) -> impl Iterator<Item = (u64, u64)> {
        (self.lba..).zip(self.done.iter().copied())
    }
}

/// Fills a block with a write's content.
pub fn fill(frame: &mut [u8], lba: u64, stamp: u64) {
    assert_eq!(frame.len(), BLOCK_BYTES, "a block is filled as a whole");
    for (index, sector) in frame.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        sector.fill(0);
        if stamp != 0 {
            let mut random = Random::from_seed(lba.rotate_left(40) ^ stamp.rotate_left(8) ^ index as u64);
            random.fill(sector);
            sector[..8].copy_from_slice(&lba.to_le_bytes());
            sector[8..16].copy_from_slice(&stamp.to_le_bytes());
        }
    }
}

/// Writes that the sectors of a block come from; `None` when one comes from none.
fn stamps_of(bytes: &[u8], lba: u64) -> Option<Stamps> {
    let mut stamps = [0; SECTORS];
    for (index, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
        if sector.iter().all(|byte| *byte == 0) {
            continue;
        }
        let stamp = u64::from_le_bytes(*sector[8..].first_chunk()?);
        let mut expected = vec![0; BLOCK_BYTES];
        fill(&mut expected, lba, stamp);
        if stamp == 0 || expected[index * SECTOR_BYTES..][..SECTOR_BYTES] != *sector {
            return None;
        }
        stamps[index] = stamp;
    }
    Some(stamps)
}

fn replaces(newer: &Value, older: &Value) -> bool {
    older.completed.is_some_and(|completed| completed < newer.submitted)
}

fn is_within(stamps: &Stamps, values: &[Value]) -> bool {
    (0..SECTORS).all(|sector| values.iter().any(|value| value.stamps[sector] == stamps[sector]))
}

fn describe(values: &[Value]) -> String {
    let stamps: BTreeSet<&[u64]> = values.iter().map(|value| &value.stamps[..]).collect();
    format!("{stamps:?}")
}

impl Oracle {
    /// A volume whose blocks hold these writes; `is_whole` says that a power failure leaves each of them as one write made it.
    pub fn new(stamps: &[u64], is_whole: bool) -> Oracle {
        let block = |stamp: &u64| {
            let value =
                Value { stamps: [*stamp; SECTORS], id: 0, submitted: 0, completed: Some(0), is_done: true };
            Block {
                now: vec![value],
                after: vec![value],
                writes: 0,
                begun: 0,
                done: 0,
                is_fresh: true,
                wild: None,
                wild_after: None,
            }
        };
        Oracle { blocks: stamps.iter().map(block).collect(), clock: 1, is_whole }
    }

    fn block(&mut self, lba: u64) -> &mut Block {
        &mut self.blocks[usize::try_from(lba).expect("small volumes")]
    }

    /// A write begins.
    pub fn begin_write(&mut self, lba: u64, (id, stamp): (u64, u64), readings: &mut [&mut Reading]) {
        self.clock += 1;
        let value =
            Value { stamps: [stamp; SECTORS], id, submitted: self.clock, completed: None, is_done: false };
        let block = self.block(lba);
        let is_twice = block.now.iter().any(|other| other.id == id && id != 0);
        assert!(!is_twice, "request {id} writes block {lba} twice");
        block.now.push(value);
        block.after.push(value);
        block.writes += 1;
        block.begun += 1;
        block.is_fresh = false;
        for reading in readings {
            let index = lba.checked_sub(reading.lba).and_then(|index| usize::try_from(index).ok());
            if let Some(allowed) = index.and_then(|index| reading.allowed.get_mut(index)) {
                allowed.push(value);
            }
        }
    }

    /// A write ends; one that failed may be there or not.
    pub fn end_write(&mut self, lba: u64, id: u64, is_done: bool, is_durable: bool) {
        self.clock += 1;
        let clock = self.clock;
        let block = self.block(lba);
        assert!(block.writes > 0, "request {id} ends a write of block {lba} that was not begun");
        block.writes -= 1;
        for values in [&mut block.now, &mut block.after] {
            for value in values.iter_mut().filter(|value| value.id == id && value.completed.is_none()) {
                value.completed = Some(clock);
                value.is_done = is_done;
            }
        }
        if is_done {
            block.done += 1;
            assert!(
                block.done <= block.begun,
                "block {lba}: {} writes of {} are done",
                block.done,
                block.begun
            );
            block.wild = None;
            retain(&mut block.now, id);
            if is_durable {
                block.wild_after = None;
                retain(&mut block.after, id);
            }
        }
    }

    /// A flush that began at `since` ended: what was completed then is durable.
    pub fn flushed(&mut self, since: u64) {
        assert!(since <= self.clock, "a flush began at {since}, and it is {}", self.clock);
        for block in &mut self.blocks {
            let is_durable = |value: &&Value| value.is_done && value.completed.is_some_and(|at| at <= since);
            let durable: Vec<Value> = block.after.iter().filter(is_durable).copied().collect();
            if durable.iter().any(|value| block.wild_after.is_some_and(|since| value.submitted > since)) {
                block.wild_after = None;
            }
            for newer in &durable {
                block.after.retain(|older| older.id == newer.id || !replaces(newer, older));
            }
            assert!(!block.after.is_empty(), "a flush leaves nothing that a block may hold");
        }
    }

    /// Time, for [`Oracle::flushed`].
    pub fn now(&self) -> u64 {
        self.clock
    }

    /// A read begins.
    pub fn begin_read(&mut self, lba: u64, blocks: u64) -> Reading {
        assert!(blocks > 0, "a read of no blocks at {lba}");
        let of = (lba..lba + blocks).map(|lba| self.block(lba).clone()).collect::<Vec<Block>>();
        let begun = of.iter().map(|block| (block.begun, block.writes)).collect();
        let done = of.iter().map(|block| block.done).collect();
        let wild = of.iter().map(|block| block.wild.is_some()).collect();
        Reading { lba, done, wild, allowed: of.into_iter().map(|block| block.now).collect(), begun }
    }

    /// A read ends with these blocks, of which some may hold anything.
    pub fn end_read(
        &mut self,
        reading: Reading,
        frames: &[Frame],
        is_volatile: bool,
        may_be_wrong: impl Fn(u64) -> bool,
    ) -> Result<(), String> {
        let is_whole = self.is_whole;
        let expected = reading.allowed.len();
        if frames.len() != expected {
            return Err(format!("{} blocks are the answer to a read of {expected}", frames.len()));
        }
        for (index, frame) in frames.iter().enumerate() {
            let lba = reading.lba + index as u64;
            if may_be_wrong(lba) || reading.wild[index] || self.is_wild(lba) {
                continue;
            }
            let stamps = stamps_of(&frame.data, lba).ok_or_else(|| {
                format!("block {lba} holds what nobody wrote there: {:02x?}", &frame.data[..16])
            })?;
            let allowed = &reading.allowed[index];
            let block = self.block(lba);
            let (begun, _) = reading.begun[index];
            assert!(begun <= block.begun, "block {lba}: {begun} writes had begun, and now {}", block.begun);
            assert!(!allowed.is_empty(), "block {lba} may hold nothing");
            let was_quiet = reading.begun[index] == (block.begun, 0);
            let is_right = if was_quiet {
                block.is_one(&stamps) || (block.may_be_torn(is_whole) && is_torn(&block.now, &stamps))
            } else {
                is_within(&stamps, allowed)
            };
            if !is_right {
                return Err(format!("block {lba} reads as {stamps:?}; it may be {}", describe(allowed)));
            }
            if was_quiet {
                let completed = block.now.iter().filter_map(|value| value.completed).max();
                let submitted = block.now.iter().map(|value| value.submitted).min().unwrap_or(0);
                let value = Value { stamps, id: 0, submitted, completed, is_done: true };
                block.now = vec![value];
                // A write that failed may be in a journal, and come with the next start.
                let may_come = is_whole && block.after.iter().any(|value| !value.is_done);
                if (!is_volatile && !may_come) || block.is_fresh {
                    block.after = vec![value];
                }
            }
        }
        Ok(())
    }

    /// Whether a block at rest may hold this.
    pub fn judge(&self, lba: u64, bytes: &[u8]) -> Result<(), String> {
        if self.is_wild(lba) {
            return Ok(());
        }
        let block = &self.blocks[usize::try_from(lba).expect("small volumes")];
        let stamps =
            stamps_of(bytes, lba).ok_or_else(|| format!("block {lba} holds what nobody wrote there"))?;
        let may_be_torn = block.may_be_torn(self.is_whole);
        let is_right = block.is_one(&stamps) || (may_be_torn && is_torn(&block.now, &stamps));
        if is_right {
            Ok(())
        } else {
            Err(format!("block {lba} holds {stamps:?}; it may be {}", describe(&block.now)))
        }
    }

    /// The server died: what was in flight is there or not, and the rest as it was.
    pub fn kill(&mut self) {
        self.clock += 1;
        let clock = self.clock;
        for block in &mut self.blocks {
            for value in block.now.iter_mut().chain(&mut block.after) {
                value.completed = Some(value.completed.unwrap_or(clock));
            }
            block.writes = 0;
        }
    }

    /// The power failed.
    pub fn crash(&mut self) {
        self.clock += 1;
        let clock = self.clock;
        for block in &mut self.blocks {
            for value in &mut block.after {
                value.completed = Some(value.completed.unwrap_or(clock));
                // Which of them survived nobody knows until they are read.
                value.is_done = false;
            }
            assert!(!block.after.is_empty(), "nothing that a block may hold after the power failed");
            block.wild = block.wild_after;
            block.now.clone_from(&block.after);
            block.writes = 0;
            block.is_fresh = true;
        }
    }

    /// A block may hold anything, until it is written.
    pub fn make_wild(&mut self, lba: u64) {
        self.clock += 1;
        let since = Some(self.clock);
        let block = self.block(lba);
        (block.wild, block.wild_after) = (since, since);
    }

    /// True when a block may hold anything.
    fn is_wild(&self, lba: u64) -> bool {
        self.blocks[usize::try_from(lba).expect("small volumes")].wild.is_some()
    }

    /// True when a power failure leaves open what a block holds.
    pub fn is_unsure(&self, lba: u64) -> bool {
        self.blocks[usize::try_from(lba).expect("small volumes")].after.len() > 1
    }

    /// Writes of a block that were done, and those in flight where several meet: one that fails may take along what others wrote.
    pub fn done_or_met(&self, lba: u64) -> u64 {
        let block = &self.blocks[usize::try_from(lba).expect("small volumes")];
        let met = if block.writes > 1 { block.writes } else { 0 };
        block.done + u64::from(met)
    }

    /// Writes of a block that were done.
    pub fn done(&self, lba: u64) -> u64 {
        self.blocks[usize::try_from(lba).expect("small volumes")].done
    }
}

/// Writes that a crash, or a failed command, left in parts.
fn is_torn(values: &[Value], stamps: &Stamps) -> bool {
    values.len() > 1 && is_within(stamps, values)
}

/// A write is certainly there: what it replaced is not.
fn retain(values: &mut Vec<Value>, id: u64) {
    let Some(newer) = values.iter().find(|value| value.id == id).copied() else { return };
    values.retain(|older| older.id == newer.id || !replaces(&newer, older));
    assert!(values.iter().any(|value| value.id == id), "write {id} is done, and replaced by itself");
}
