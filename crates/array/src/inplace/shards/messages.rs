//! Messages between the control shard and the others. Those of one direction arrive in the order in which they were sent.

use super::super::counters::Counters;
use super::super::logs::Logs;
use super::super::members::Members;
use crate::request::Outcome;
use base::frame::Frame;
use base::pieces::PieceSet;
use base::units::Lba;
use block::condition::Condition;
use block::device::BlockDevice;
use block::md::Role;
use std::fmt;
use std::ops::Range;

/// Right to write that the control shard lends: what it stands for is durable on all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lease {
    /// Dirty mark of the array.
    Mark,
    /// Bit of a region of the bitmap.
    Region(u64),
}

/// Number of a request for a lease: an answer to an older one is known by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// Block of a row of the array that is written; without a frame it becomes zeros.
#[derive(Debug)]
pub struct RowCell {
    /// Row of the members.
    pub row: u64,
    /// Piece of the row.
    pub piece: usize,
    /// Content.
    pub frame: Option<Frame>,
}

/// Part of a request that a shard hands to the control shard.
#[derive(Debug)]
pub enum Handed {
    /// Reads blocks of one chunk, into frames that come back.
    Read {
        /// First block.
        lba: Lba,
        /// A frame for each block.
        frames: Vec<Frame>,
    },
    /// Writes blocks.
    Write {
        /// The blocks.
        cells: Vec<RowCell>,
        /// Survives a power failure when it is answered.
        durable: bool,
    },
    /// Makes whole rows zeros.
    Zero(Range<u64>),
    /// Is written, but for some pieces that a member did not take: they are listed as bad, or the member fails.
    Unwritten {
        /// The pieces.
        pieces: Vec<Unwritten>,
        /// Data that were written, by row.
        written: Vec<(u64, PieceSet)>,
    },
}

/// Rows that a member did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// Seat of the member's device.
    pub seat: Role,
    /// The rows.
    pub rows: Range<u64>,
    /// The device is gone, and not these rows alone.
    pub is_gone: bool,
}

impl Handed {
    /// Frames that go with it, and come back with the answer: until then they count as out of the shard's pool.
    #[must_use]
    pub fn frames_count(&self) -> usize {
        match self {
            Handed::Read { frames, .. } => frames.len(),
            Handed::Write { cells, .. } => cells.iter().filter(|cell| cell.frame.is_some()).count(),
            Handed::Zero(_) | Handed::Unwritten { .. } => 0,
        }
    }
}

/// What a shard needs to work on strips by itself.
#[derive(Debug)]
pub struct Terms {
    /// The members, all of them in sync.
    pub members: Members,
    /// Sectors of a region of the bitmap; `None` without one.
    pub region_sectors: Option<u64>,
    /// Partial parity logs of the members that hold the parities of the shard's stripes.
    pub logs: Option<Logs>,
}

/// Message of the control shard.
pub enum ToShard {
    /// Strips are the shard's from now on, but those of which parts are with the control shard.
    Terms(Box<Terms>),
    /// All strips are the control shard's: what was begun is ended, everything else is handed over.
    Recall,
    /// Requests are held from now on: terms follow when what was handed over is through, or [`ToShard::Release`].
    Hold,
    /// No terms follow: requests that were held are handed over.
    Release,
    /// What was asked for is lent.
    Granted(Lease, Ticket),
    /// A part that was handed over is through.
    Answer {
        /// Number of the part.
        part: u32,
        /// Outcome of the part.
        outcome: Outcome,
        /// As many frames as were handed over: those of a read that is done have its blocks.
        frames: Vec<Frame>,
    },
    /// A device answers no more: commands in flight are answered in its stead.
    Abandon(Role),
    /// Another device has a seat, or none. The shard has nothing in flight there.
    Seat(Role, Option<Box<dyn BlockDevice>>),
}

impl fmt::Debug for ToShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToShard::Terms(_) => f.write_str("Terms"),
            ToShard::Recall => f.write_str("Recall"),
            ToShard::Hold => f.write_str("Hold"),
            ToShard::Release => f.write_str("Release"),
            ToShard::Granted(lease, ticket) => write!(f, "Granted({lease:?}, {ticket:?})"),
            ToShard::Answer { part, outcome, .. } => write!(f, "Answer({part}, {outcome:?})"),
            ToShard::Abandon(seat) => write!(f, "Abandon({seat})"),
            ToShard::Seat(seat, device) => write!(f, "Seat({seat}, {})", device.is_some()),
        }
    }
}

/// What a shard has done since its start, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counters.
    pub counters: Counters,
    /// Frames in its cache, and at most.
    pub cache_frames: (usize, usize),
    /// Strips in work.
    pub strips: usize,
}

/// Message of another shard.
#[derive(Debug)]
pub enum ToControl {
    /// A part of a request, by a number that its answer brings back.
    Handed(u32, Handed),
    /// After a recall: nothing is in work with the shard, its cache is empty, and all that was lent came back, logs with this.
    Recalled(Option<Box<Logs>>),
    /// Requests are held, and everything that came before is through.
    Holds,
    /// The device of this seat did not take what a log needs: its member fails.
    Failed(Role),
    /// The shard asks for a lease.
    Ask(Lease, Ticket),
    /// The shard gives a lease back, or no longer asks for it.
    GiveBack(Lease, Ticket),
    /// What the shard has done since its start.
    Reported(Box<Report>),
    /// Conditions of devices as the shard sees them, by seat: of those that do not answer, or lack room.
    Conditions(Vec<(Role, Condition)>),
}
