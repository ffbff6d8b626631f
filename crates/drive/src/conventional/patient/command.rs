//! A command of the owner: what it asks for, and where it is.

use super::ledger::Ledger;
use crate::conventional::layout::place_of;
use base::frame::Frame;
use block::device::{FRAME_SECTORS, Op, Token};

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Read { sector: u64, frames: usize },
    Write { sector: u64, durable: bool },
    Flush,
    Discard { sector: u64, sectors: u64 },
}

/// Where a command is.
#[derive(Debug)]
pub(super) enum Place {
    /// The disk has it.
    Out,
    /// The disk has it, and it is answered already.
    Ghost,
    /// It waits for the disk.
    Held(Vec<Frame>),
    /// It came back, and nobody knows whether it was carried out.
    Adrift(Vec<Frame>),
    /// A read that failed: the disk is asked whether it is there.
    Doubted(Vec<Frame>),
    /// A flush that was carried out: commands that were given before it have not come back.
    Flushed,
}

/// A command that was not answered.
#[derive(Debug)]
pub(super) struct Pending {
    /// Its owner's; none of a flush of the disk's own.
    pub(super) token: Option<Token>,
    pub(super) ask: Ask,
    pub(super) place: Place,
    /// What the ledger held when the disk got it.
    pub(super) mark: u64,
    /// Times that the disk answered that it failed.
    pub(super) failures: u8,
}

impl Pending {
    /// A command that waits for the disk.
    pub(super) fn new(token: Option<Token>, op: Op) -> Pending {
        let ask = match op {
            Op::Read { sector, ref frames } => Ask::Read { sector, frames: frames.len() },
            Op::Write { sector, durable, .. } => Ask::Write { sector, durable },
            Op::Flush => Ask::Flush,
            Op::Discard { sector, sectors } => Ask::Discard { sector, sectors },
            Op::WriteZeroes { .. } => unreachable!("a conventional drive asks for no zeros"),
        };
        Pending { token, ask, place: Place::Held(op.into_frames()), mark: 0, failures: 0 }
    }

    /// The operation for the disk.
    pub(super) fn op(&self, frames: Vec<Frame>) -> Op {
        match self.ask {
            Ask::Read { sector, .. } => Op::Read { sector, frames },
            Ask::Write { sector, durable } => Op::Write { sector, frames, durable },
            Ask::Flush => Op::Flush,
            Ask::Discard { sector, sectors } => Op::Discard { sector, sectors },
        }
    }

    /// True when what it did, or did not, is not told yet.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.place, Place::Out | Place::Ghost | Place::Doubted(_))
    }

    /// True when the disk has it.
    pub(super) fn is_below(&self) -> bool {
        matches!(self.place, Place::Out | Place::Ghost)
    }

    /// True of a write that the disk may lose when it is answered.
    pub(super) fn is_cached(&self) -> bool {
        matches!(self.ask, Ask::Write { durable: false, .. })
    }

    /// The disk has carried it out.
    pub(super) fn note(&self, ledger: &mut Ledger, frames: &[Frame]) {
        match self.ask {
            Ask::Write { sector, durable: false } => ledger.note(place_of(sector), frames),
            Ask::Write { sector, durable: true } => ledger.forget(place_of(sector), frames.len() as u64),
            Ask::Discard { sector, sectors } => ledger.forget(place_of(sector), sectors / FRAME_SECTORS),
            Ask::Read { .. } | Ask::Flush => {}
        }
    }

    /// Its frames, unless the disk has them.
    pub(super) fn take_frames(&mut self) -> Option<Vec<Frame>> {
        match &mut self.place {
            Place::Held(frames) | Place::Adrift(frames) | Place::Doubted(frames) => {
                Some(std::mem::take(frames))
            }
            Place::Flushed => Some(Vec::new()),
            Place::Out | Place::Ghost => None,
        }
    }
}
