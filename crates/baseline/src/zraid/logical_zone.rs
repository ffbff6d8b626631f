//! A logical zone: what waits for it, its open stripes, and the writers of its drives' zones.

use crate::config::Map;
use crate::logical_zone::{Pending, Reset, Span};
use base::frame::Frame;
use std::collections::VecDeque;

/// State of a logical zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was written.
    Empty,
    /// Opening: so many drives have not opened their zones yet.
    Opening(u32),
    /// Stripes are written.
    Open,
    /// All is written and committed.
    Full,
}

/// Kind of a part of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece in its place; that of parity is the last.
    Piece(usize),
    /// Parity of all pieces up to this one.
    Partial(usize),
}

impl Kind {
    /// Positions of its stripe that parity of a row covers.
    #[must_use]
    pub fn coverage(self, map: &Map, row: u32) -> u32 {
        match self {
            Kind::Piece(_) => map.stripe_blocks(),
            Kind::Partial(piece) => map.within(piece, row) + 1,
        }
    }
}

/// Blocks of a chunk on their way to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Stripe.
    pub stripe: u32,
    /// Kind of the blocks.
    pub kind: Kind,
    /// First row.
    pub row: u32,
    /// Count of rows.
    pub rows: u32,
}

/// The zone of one drive.
#[derive(Debug, Default)]
pub struct Writer {
    /// Parts that wait.
    pub queue: VecDeque<Part>,
    /// Writes under way.
    pub in_flight: u32,
    /// Write pointer.
    pub committed: u32,
    /// Write pointer that commits are to reach.
    pub wanted: u32,
    /// A commit is under way.
    pub is_committing: bool,
}

/// Partial parity that ends with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// Not needed.
    No,
    /// Waiting for its drive.
    Waits,
    /// Sent to its drive.
    Sent,
    /// Durable on its drive.
    Done,
}

/// A stripe that is not whole.
#[derive(Debug)]
pub struct Stripe {
    /// Within its zone.
    pub number: u32,
    /// Data as far as it has arrived.
    pub data: Vec<Frame>,
    /// Blocks of data that are durable, by position.
    pub done: Vec<bool>,
    /// Rows of parity that are durable.
    pub parity_done: u32,
    /// Partial parity, by the position it ends with.
    pub partial: Vec<Partial>,
    /// Writes that wait, in order.
    pub spans: VecDeque<Span>,
    /// Blocks that survive the loss of a drive.
    pub acked: u32,
}

impl Stripe {
    /// An empty one.
    #[must_use]
    pub fn new(number: u32, map: &Map) -> Stripe {
        let blocks = map.stripe_blocks() as usize;
        Stripe {
            number,
            data: Vec::with_capacity(blocks),
            done: vec![false; blocks],
            parity_done: 0,
            partial: vec![Partial::No; blocks],
            spans: VecDeque::new(),
            acked: 0,
        }
    }

    /// All data has arrived.
    #[must_use]
    pub fn is_full(&self, map: &Map) -> bool {
        self.data.len() == map.stripe_blocks() as usize
    }

    /// Data and parity are durable, and nothing of it is under way.
    #[must_use]
    pub fn is_finished(&self, map: &Map) -> bool {
        self.is_whole(map) && !self.partial.contains(&Partial::Sent)
    }

    /// Nothing of it waits or is on its way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.spans.is_empty()
            && self.acked as usize == self.data.len()
            && !self.partial.iter().any(|one| matches!(one, Partial::Waits | Partial::Sent))
    }

    fn is_whole(&self, map: &Map) -> bool {
        self.parity_done == map.chunk_blocks() && self.done.iter().all(|done| *done)
    }

    /// Works out again what survives.
    pub fn advance(&mut self, map: &Map) {
        if self.is_whole(map) {
            self.acked = map.stripe_blocks();
        }
        while (self.acked as usize) < self.data.len() && self.is_protected(map, self.acked) {
            self.acked += 1;
        }
    }

    /// True when some partial parity speaks for a block, and for nothing that is not durable.
    fn is_protected(&self, map: &Map, position: u32) -> bool {
        let spot = map.spot(position);
        for piece in spot.piece..map.data_count() {
            let at = map.within(piece, spot.row) as usize;
            if !self.done[at] {
                return false;
            }
            if self.partial[at] == Partial::Done {
                return true;
            }
        }
        false
    }
}

/// A logical zone.
#[derive(Debug)]
pub struct LogicalZone {
    /// State.
    pub state: State,
    /// Tells it from what it was before it was reset; 0 while it is empty.
    pub generation: u64,
    /// Position at which the next write that arrives must begin.
    pub write_pointer: u32,
    /// Blocks that are in stripes, or were.
    pub placed: u32,
    /// Position up to which a log says what was written.
    pub logged: u32,
    /// The block that marks it as used is durable.
    pub is_marked: bool,
    /// Requests in order of arrival.
    pub waiting: VecDeque<Pending>,
    /// Open stripes in order.
    pub stripes: VecDeque<Stripe>,
    /// Writers, one for each drive.
    pub writers: Vec<Writer>,
    /// A reset under way.
    pub reset: Option<Reset>,
    /// Reads of what is on its drives, in flight.
    pub readers: u32,
}

impl LogicalZone {
    /// An empty one.
    #[must_use]
    pub fn new(members: usize) -> LogicalZone {
        LogicalZone {
            state: State::Empty,
            generation: 0,
            write_pointer: 0,
            placed: 0,
            logged: 0,
            is_marked: false,
            waiting: VecDeque::new(),
            stripes: VecDeque::new(),
            writers: (0..members).map(|_| Writer::default()).collect(),
            reset: None,
            readers: 0,
        }
    }

    /// True when it takes a zone of each drive that is active, or soon will.
    #[must_use]
    pub fn is_open(&self, map: &Map) -> bool {
        let is_write = |pending: &Pending| matches!(pending, Pending::Write { .. });
        matches!(self.state, State::Opening(_) | State::Open)
            || 0 < self.write_pointer && self.write_pointer < map.zone_blocks()
            || self.waiting.iter().any(is_write)
    }

    /// Nothing of it is on its way to or from drives, and all that was placed survives.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let is_idle =
            |writer: &Writer| writer.queue.is_empty() && writer.in_flight == 0 && !writer.is_committing;
        self.readers == 0
            && self.reset.is_none()
            && !matches!(self.state, State::Opening(_))
            && self.writers.iter().all(is_idle)
            && self.stripes.iter().all(Stripe::is_quiet)
    }

    /// Position up to which all survives the loss of a drive.
    #[must_use]
    pub fn acked_position(&self, map: &Map) -> u32 {
        let Some(first) = self.stripes.front() else { return self.placed };
        let mut position = first.number * map.stripe_blocks();
        for stripe in &self.stripes {
            position += stripe.acked;
            if stripe.acked < map.stripe_blocks() {
                break;
            }
        }
        position
    }

    /// True when write pointers tell that all up to a position was written, whichever drive is lost, or soon will.
    #[must_use]
    pub fn is_told(&self, map: &Map, position: u32) -> bool {
        let Some(last) = position.checked_sub(1).map(|last| map.spot(last)) else { return true };
        let is_first = self.stripes.front().is_none_or(|first| last.stripe <= first.number);
        position.is_multiple_of(map.chunk_blocks()) && last.piece > 0 && is_first
    }

    /// The open stripe of a number.
    #[must_use]
    pub fn stripe(&self, number: u32) -> Option<&Stripe> {
        let first = self.stripes.front()?.number;
        self.stripes.get(number.checked_sub(first)? as usize)
    }

    /// The open stripe of a number that must be there.
    ///
    /// # Panics
    /// When it is not.
    pub fn stripe_mut(&mut self, number: u32) -> &mut Stripe {
        let first = self.stripes.front().expect("a stripe is open").number;
        &mut self.stripes[(number - first) as usize]
    }

    /// The open stripe of a number, if it is there.
    pub fn stripe_of(&mut self, number: u32) -> Option<&mut Stripe> {
        let first = self.stripes.front()?.number;
        self.stripes.get_mut(number.checked_sub(first)? as usize)
    }

    /// A part waits for its drive; what goes on with the last one that waits leaves with it.
    pub fn queue(&mut self, drive: usize, part: Part) {
        let queue = &mut self.writers[drive].queue;
        if let Some(last) = queue.back_mut()
            && (last.stripe, last.kind, last.row + last.rows) == (part.stripe, part.kind, part.row)
        {
            last.rows += part.rows;
            return;
        }
        queue.push_back(part);
    }
}
