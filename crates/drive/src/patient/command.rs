//! A command of the owner: where it is, and how it is given again.

use crate::answer::{Asked, block_count};
use base::frame::Frame;
use zone::device::Op;

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Append,
    Reset,
    Finish,
    Open,
    Close,
    /// Commands of zones with windows.
    Other(Window),
    Report {
        count: u32,
    },
    FindTurned {
        count: u32,
    },
    Flush,
    SelfTest {
        repair: bool,
    },
}

/// Command of a zone with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Open,
    Commit { end: u32 },
}

/// Where a command is.
#[derive(Debug)]
pub(super) enum Place {
    /// The drive below has it.
    Out,
    /// The drive below has it, and it is answered already.
    Ghost,
    /// It waits for the drive.
    Held(Vec<Frame>),
    /// It came back, and nobody knows whether it was carried out.
    Adrift(Vec<Frame>),
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Place {
    /// True when the drive below has the command.
    pub(super) fn is_below(&self) -> bool {
        matches!(self, Place::Out | Place::Ghost)
    }
}

/// A command that was not answered.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) asked: Asked,
    pub(super) kind: Kind,
    /// Blocks of a transfer.
    pub(super) blocks: u32,
    /// First blocks of a write, which landed before a hiccup.
    pub(super) front: Vec<Frame>,
    pub(super) place: Place,
}

impl Kind {
    /// True when the offset of its answer is the drive's to say.
    pub(super) fn is_placed_by_drive(self) -> bool {
        matches!(self, Kind::Append | Kind::FindTurned { .. })
    }

    pub(super) fn of(op: &Op) -> Kind {
        match op {
            Op::Read { .. } => Kind::Read,
            Op::Write { .. } => Kind::Write,
            Op::Append { .. } => Kind::Append,
            Op::Reset => Kind::Reset,
            Op::Finish => Kind::Finish,
            Op::Open => Kind::Open,
            Op::OpenWithArea => Kind::Other(Window::Open),
            Op::Commit { end } => Kind::Other(Window::Commit { end: *end }),
            Op::Close => Kind::Close,
            Op::Report { count } => Kind::Report { count: *count },
            Op::FindTurned { count } => Kind::FindTurned { count: *count },
            Op::Flush => Kind::Flush,
            Op::SelfTest { repair } => Kind::SelfTest { repair: *repair },
        }
    }
}

impl Pending {
    /// A command that is on its way to the drive below.
    pub(super) fn new(asked: Asked, kind: Kind, frames: &[Frame]) -> Pending {
        Pending {
            asked,
            kind,
            blocks: block_count(frames),
            front: Vec::new(),
            place: Place::Held(Vec::new()),
        }
    }

    /// The operation for the drive below; of a write that landed in part, the rest.
    pub(super) fn op(&self, frames: Vec<Frame>) -> Op {
        match self.kind {
            Kind::Read => Op::Read { offset: self.asked.offset, frames },
            Kind::Write => Op::Write { offset: self.next_offset(), frames },
            Kind::Append => Op::Append { frames },
            Kind::Reset => Op::Reset,
            Kind::Finish => Op::Finish,
            Kind::Open => Op::Open,
            Kind::Other(Window::Open) => Op::OpenWithArea,
            Kind::Other(Window::Commit { end }) => Op::Commit { end },
            Kind::Close => Op::Close,
            Kind::Report { count } => Op::Report { count },
            Kind::FindTurned { count } => Op::FindTurned { count },
            Kind::Flush => Op::Flush,
            Kind::SelfTest { repair } => Op::SelfTest { repair },
        }
    }

    /// First block of a write that did not land.
    pub(super) fn next_offset(&self) -> u32 {
        self.asked.offset + block_count(&self.front)
    }

    /// Blocks of a write that did not land.
    pub(super) fn blocks_left(&self) -> u32 {
        self.blocks - block_count(&self.front)
    }

    /// True for writes and appends.
    pub(super) fn is_transfer(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Append)
    }

    /// Frames of a command whose fate nobody knows.
    pub(super) fn adrift(&self) -> Option<&[Frame]> {
        match &self.place {
            Place::Adrift(frames) => Some(frames),
            Place::Out | Place::Ghost | Place::Held(_) => None,
        }
    }

    /// True when nobody knows whether the command was carried out.
    pub(super) fn is_adrift(&self) -> bool {
        self.adrift().is_some()
    }
}
