//! Run of a cell: an array, a client in a closed loop, and what is counted.

use super::cells::{Cell, Manner};
use super::member::{Counts, QuietMember};
use crate::allocations;
use crate::instructions::Instructions;
use crate::md_array::{Ahead, NewArray};
use anyhow::{Context, Result, ensure};
use array::inplace::start::Tuning;
use array::inplace::volume::InPlaceVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::Lba;
use block::device::BlockDevice;
use block::devices::DeviceSet;
use block::md::Role;
use std::sync::Arc;

/// Blocks in which requests lie: the first 10^9 bytes.
const SPAN_BLOCKS: u64 = 1_000_000_000 / 4096;
/// Sectors of a member: 10^6 KiB of data behind a MiB.
const MEMBER_SECTORS: u64 = 2_000_000 + 2048;
/// Sectors of a chunk of 64 KiB.
const CHUNK_SECTORS: u32 = 128;
/// Blocks that are written at random before all else, so that a cache of 64 MiB is full.
const FILL_BLOCKS: u64 = 12_288;
/// Blocks of requests before those that are measured.
const WARM_UP_BLOCKS: u64 = 2 * 16_384;
/// Blocks of the volume within a region of 64 MiB of each member, at most.
const REGION_BLOCKS: usize = 16_384;
/// Turns without an answer after which a run is stuck.
const TURNS_MAX: u32 = 1000;

/// Sums of a run.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Requests answered.
    pub requests: u64,
    /// Blocks that members read.
    pub blocks_read: u64,
    /// Blocks that members wrote.
    pub blocks_written: u64,
    /// Allocations.
    pub allocations: u64,
    /// Instructions, where the machine counts them.
    pub instructions: Option<u64>,
}

/// Client in a closed loop.
struct Client<'a> {
    cell: &'a Cell,
    volume: InPlaceVolume,
    random: Random,
    /// Places of the size of a request.
    places: u64,
    next: u64,
    replies: Vec<Reply>,
    /// Vectors of answered requests.
    spare: Vec<Vec<Frame>>,
    answered: u64,
    clock: u64,
}

/// Runs a cell: so many requests, or as many as it has, after a warm-up.
///
/// # Errors
/// When there can be no such array, or a request fails.
pub fn measure(cell: &Cell, requests: Option<u64>) -> Result<Measured> {
    let counts = Arc::new(Counts::default());
    let mut client = Client::new(cell, &counts)?;
    client.touch()?;
    client.fill()?;
    (0..cell.depth).for_each(|_| client.submit());
    client.run(WARM_UP_BLOCKS / cell.blocks())?;
    let before = (client.answered, counts.so_far());
    let allocations = allocations::count();
    let mut instructions = Instructions::start();
    client.run(requests.unwrap_or(cell.requests()))?;
    let instructions = instructions.as_mut().and_then(Instructions::count);
    let allocations = allocations::count() - allocations;
    let (read, written) = counts.so_far();
    Ok(Measured {
        requests: client.answered - before.0,
        blocks_read: read - before.1.0,
        blocks_written: written - before.1.1,
        allocations,
        instructions,
    })
}

impl<'a> Client<'a> {
    fn new(cell: &'a Cell, counts: &Arc<Counts>) -> Result<Client<'a>> {
        let array = NewArray {
            level: cell.level,
            members: cell.members,
            chunk_sectors: CHUNK_SECTORS,
            sectors: MEMBER_SECTORS,
            bitmap: cell.bitmap.then_some(None),
            is_clean: true,
            ahead: cell.ahead,
        };
        let mut engine = array.engine(Tuning::default()).with_context(|| cell.name.clone())?;
        (1..=cell.lost).for_each(|role| engine.core_mut().fail_member(Role(role)));
        let device = |seed| Box::new(QuietMember::new(MEMBER_SECTORS, Arc::clone(counts), seed));
        let count = u64::from(cell.members) + u64::from(cell.ahead == Ahead::Journal);
        let devices = (0..count).map(|seed| Some(device(seed) as Box<dyn BlockDevice>));
        let places = SPAN_BLOCKS.min(engine.core().blocks()) / cell.blocks();
        Ok(Client {
            cell,
            volume: InPlaceVolume::new(engine, DeviceSet::new(devices.collect())),
            random: Random::from_seed(9),
            places,
            next: 0,
            replies: Vec::new(),
            spare: Vec::new(),
            answered: 0,
            clock: 0,
        })
    }

    fn submit(&mut self) {
        let place = match self.cell.op {
            Manner::SequentialWrite => self.next % self.places,
            Manner::RandomWrite | Manner::RandomRead => self.random.below(self.places),
        };
        let (lba, blocks) = (Lba(place * self.cell.blocks()), self.cell.blocks());
        let op = match self.cell.op {
            Manner::RandomRead => RequestOp::Read { lba, blocks: u32::try_from(blocks).unwrap_or(1) },
            Manner::RandomWrite | Manner::SequentialWrite => {
                let mut frames = self.spare.pop().unwrap_or_default();
                self.volume.frames().take_many(usize::try_from(blocks).unwrap_or(1), &mut frames);
                RequestOp::Write { lba, frames, force_unit_access: false }
            }
        };
        self.next += 1;
        self.volume.submit(Instant(self.clock), Request { id: RequestId(self.next), op });
    }

    /// Fills the cache.
    fn fill(&mut self) -> Result<()> {
        let blocks = SPAN_BLOCKS.min(self.volume.blocks());
        for _ in 0..FILL_BLOCKS {
            let place = self.random.below(blocks);
            self.write_alone(place)?;
        }
        Ok(())
    }

    /// Writes a block, and waits until that is through.
    fn write_alone(&mut self, place: u64) -> Result<()> {
        let mut frames = self.spare.pop().unwrap_or_default();
        self.volume.frames().take_many(1, &mut frames);
        let op = RequestOp::Write { lba: Lba(place), frames, force_unit_access: false };
        self.volume.submit(Instant(self.clock), Request { id: RequestId(0), op });
        while self.replies.is_empty() {
            self.clock += 1_000;
            self.volume.turn(Instant(self.clock), &mut self.replies);
        }
        for reply in self.replies.drain(..) {
            ensure!(reply.outcome == Outcome::Done, "a write failed");
            self.spare.push(reply.frames);
        }
        Ok(())
    }

    /// Writes a block of each region of a bitmap, for md's figures are those of bits that are set.
    fn touch(&mut self) -> Result<()> {
        let has_bitmap = self.cell.bitmap;
        let mut places = (0..SPAN_BLOCKS).step_by(REGION_BLOCKS).filter(|_| has_bitmap);
        places.try_for_each(|place| self.write_alone(place))
    }

    /// Goes on until so many more requests are answered.
    fn run(&mut self, requests: u64) -> Result<()> {
        let until = self.answered + requests;
        let mut idle = 0;
        while self.answered < until {
            let answered = self.answered;
            self.turn()?;
            idle = if self.answered > answered { 0 } else { idle + 1 };
            ensure!(
                idle < TURNS_MAX,
                "{}: no answer: {}",
                self.cell.name,
                self.volume.engine.core().describe()
            );
        }
        Ok(())
    }

    /// Turns the volume once; each answered request is followed by another.
    fn turn(&mut self) -> Result<()> {
        self.clock += 1_000;
        let mut replies = std::mem::take(&mut self.replies);
        let moved = self.volume.turn(Instant(self.clock), &mut replies);
        if !moved && replies.is_empty() {
            let next = self.volume.next_deadline();
            self.clock = self.clock.max(next.map_or(0, |next| next.0));
        }
        for reply in replies.drain(..) {
            ensure!(reply.outcome == Outcome::Done, "{}: a request failed", self.cell.name);
            self.answered += 1;
            match self.cell.op {
                Manner::RandomRead => self.volume.frames().give_vec(reply.frames),
                Manner::RandomWrite | Manner::SequentialWrite => self.spare.push(reply.frames),
            }
            self.submit();
        }
        self.replies = replies;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::md_cost::Cells;

    #[test]
    fn a_cell_counts_the_same_twice() {
        let cells = Cells::load().unwrap();
        let cell = cells.all.iter().find(|cell| cell.name == "r5-5+1/random-write-4k-qd32").unwrap();
        let blocks = |measured: Measured| (measured.blocks_read, measured.blocks_written);
        let first = measure(cell, Some(200)).unwrap();
        assert!(first.requests >= 200 && first.blocks_written > 0);
        assert_eq!(blocks(first), blocks(measure(cell, Some(200)).unwrap()));
    }
}
