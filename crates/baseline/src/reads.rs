//! Reads of clients under way, and blocks that are computed from the others of their row: what is counted until a read is answered.
//!
//! An engine says which drives are asked for what, and what of it is whole.

use crate::config::{Map, Spot};
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::frame::{Frame, FramePool};
use base::slab::Slab;
use base::units::Lba;

/// A read on its way.
#[derive(Debug)]
struct Read {
    id: RequestId,
    lba: Lba,
    frames: Vec<Frame>,
    /// Commands and decodes under way, and one while it is being issued.
    pending: u32,
    outcome: Outcome,
}

/// A block that is computed from the others of its row.
#[derive(Debug)]
struct Decode {
    read: u32,
    block: u32,
    zone: u32,
    spot: Spot,
    sources: Vec<(usize, Frame)>,
    /// Reads under way, and one while they are being issued.
    pending: u32,
    failed: bool,
}

/// A decode that is over.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    /// The read that it was for.
    pub read: u32,
    /// Logical zone of the block.
    pub zone: u32,
    /// The block was computed.
    pub succeeded: bool,
}

/// Reads that are not answered.
#[derive(Debug, Default)]
pub struct Reads {
    reads: Slab<Read>,
    decodes: Slab<Decode>,
}

impl Reads {
    /// True when none is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Reads under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.reads.len()
    }

    /// A read begins, with a frame for each block; it is not answered before [`Reads::end_command`] says that it was issued.
    pub fn begin(&mut self, id: RequestId, lba: Lba, frames: Vec<Frame>) -> u32 {
        self.reads.insert(Read { id, lba, frames, pending: 1, outcome: Outcome::Done })
    }

    /// A command or a decode of a read begins.
    pub fn begin_command(&mut self, slot: u32) {
        self.reads.get_mut(slot).pending += 1;
    }

    /// Address of a block of a read.
    #[must_use]
    pub fn lba(&self, slot: u32, block: u32) -> Lba {
        self.reads.get(slot).lba.plus(u64::from(block))
    }

    /// Frame of a block of a read.
    pub fn frame(&mut self, slot: u32, block: u32) -> &mut Frame {
        &mut self.reads.get_mut(slot).frames[block as usize]
    }

    /// A command or a decode of a read is over, or it was issued; it is answered with the last of them.
    pub fn end_command(&mut self, slot: u32, pool: &mut FramePool, fx: &mut Effects) {
        let read = self.reads.get_mut(slot);
        read.pending -= 1;
        if read.pending > 0 {
            return;
        }
        let Read { id, mut frames, outcome, .. } = self.reads.remove(slot);
        if outcome == Outcome::IoError {
            pool.give_many(&mut frames);
        }
        fx.replies.push(Reply { id, outcome, frames });
    }

    /// A block of a read is to be computed from what is there already, and from what drives are asked for; `failed` when that cannot be enough.
    pub fn begin_decode(
        &mut self,
        (read, block): (u32, u32),
        (zone, spot): (u32, Spot),
        sources: Vec<(usize, Frame)>,
        failed: bool,
    ) -> u32 {
        self.begin_command(read);
        self.decodes.insert(Decode { read, block, zone, spot, sources, pending: 1, failed })
    }

    /// A drive is asked for a piece.
    pub fn begin_source(&mut self, slot: u32) {
        self.decodes.get_mut(slot).pending += 1;
    }

    /// Logical zone and place of the block that is computed.
    #[must_use]
    pub fn spot(&self, slot: u32) -> (u32, Spot) {
        let Decode { zone, spot, .. } = self.decodes.get(slot);
        (*zone, *spot)
    }

    /// A piece is here, whole or not.
    pub fn add_source(&mut self, slot: u32, piece: usize, frame: Frame, is_whole: bool) {
        let decode = self.decodes.get_mut(slot);
        decode.failed |= !is_whole;
        decode.sources.push((piece, frame));
    }

    /// A piece is here, or all were asked for: the block is computed with the last of them.
    pub fn end_source(&mut self, slot: u32, map: &Map, pool: &mut FramePool) -> Option<Decoded> {
        let decode = self.decodes.get_mut(slot);
        decode.pending -= 1;
        if decode.pending > 0 {
            return None;
        }
        let Decode { read, block, zone, spot, sources, failed, .. } = self.decodes.remove(slot);
        if failed {
            self.reads.get_mut(read).outcome = Outcome::IoError;
        } else {
            let present: Vec<_> = sources.iter().map(|(piece, frame)| (*piece, &frame.data)).collect();
            map.layout.code.decode(spot.piece, &present, &mut self.frame(read, block).data);
        }
        for (_, frame) in sources {
            pool.give(frame);
        }
        Some(Decoded { read, zone, succeeded: !failed })
    }
}
