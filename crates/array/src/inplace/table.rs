//! Stripe table: strips in work, a bounded number of them, and what waits for one.
//!
//! ```text
//!   Gathering ──> Frozen ──> Logging ──> Writing ──> answered, next round
//!      reads in      merged,     dirty mark    data and
//!      flight, later missing     and bits      parities in
//!      writes join   reads       durable       flight
//! ```
//! A strip is worked on in *rounds*, one at a time: all writes that came before the freeze, or a degraded read, or a piece of a
//! resync, scrub or recovery. What comes later waits in order for the next round.

use super::index::Index;
use super::map::{Order, OrderIndex, Strip};
use super::pools::Pools;
use super::row_set::RowSet;
use super::rows::Rows;
use base::frame::Frame;
use base::pieces::PieceSet;
use base::time::Instant;
use std::collections::VecDeque;

/// Most strips in work.
pub const SLOTS_MAX: usize = 256;

/// Block that is written; without a frame it becomes zeros.
#[derive(Debug)]
pub struct Cell {
    /// Row within the strip.
    pub row: u16,
    /// Piece of the row.
    pub piece: usize,
    /// Content.
    pub frame: Option<Frame>,
}

/// Block that is read.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Row within the strip.
    pub row: u16,
    /// Piece of the row.
    pub piece: usize,
    /// Place among the blocks of the request.
    pub index: usize,
}

/// Work on one strip.
#[derive(Debug)]
pub enum Work {
    /// Writes blocks.
    Write {
        /// The blocks.
        cells: Vec<Cell>,
        /// Survives a power failure when it is answered.
        durable: bool,
    },
    /// Makes the whole strip zeros.
    Zero,
    /// Reads blocks that their members cannot return.
    Read(Vec<Wanted>),
    /// Makes parities right.
    Resync,
    /// Compares parities.
    Scrub,
    /// Writes the pieces of members that are being recovered.
    Rebuild,
}

/// Work with the request that waits for it; a sweep has none.
#[derive(Debug)]
pub struct Job {
    /// Number of the request.
    pub request: Option<u32>,
    /// Work.
    pub work: Work,
}

/// Kind of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes of clients.
    Write,
    /// Zeros of a whole strip.
    Zero,
    /// Degraded read.
    Read,
    /// Resync.
    Resync,
    /// Scrub.
    Scrub,
    /// Recovery of members.
    Rebuild,
}

impl Kind {
    /// True of what clients write.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(self, Kind::Write | Kind::Zero)
    }

    /// True of what goes over all strips, beside clients.
    #[must_use]
    pub fn is_sweep(self) -> bool {
        matches!(self, Kind::Resync | Kind::Scrub | Kind::Rebuild)
    }

    /// True when it changes what parities vouch for: dirty mark and bits come first. What a scrub writes makes nothing worse at
    /// any moment, and what is rebuilt does not count before it is recorded.
    #[must_use]
    pub fn is_marked(self) -> bool {
        matches!(self, Kind::Write | Kind::Zero | Kind::Resync)
    }
}

impl Work {
    /// Kind of the round that does it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Work::Write { .. } => Kind::Write,
            Work::Zero => Kind::Zero,
            Work::Read(_) => Kind::Read,
            Work::Resync => Kind::Resync,
            Work::Scrub => Kind::Scrub,
            Work::Rebuild => Kind::Rebuild,
        }
    }
}

/// State of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// First reads are in flight; writes join.
    Gathering,
    /// Nothing joins any more; reads that are still missing are in flight.
    Frozen,
    /// Waits for dirty mark, bits and log.
    Logging,
    /// Writes are in flight.
    Writing,
}

/// What a round has in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// Nothing: there is no log, or no parity to write.
    Not,
    /// Nothing yet: it must not write.
    Waits,
    /// Its rows are in the log of a member, in the header of this generation.
    Durable(usize, u64),
    /// Its rows are in this batch of the journal.
    Journaled(u64),
    /// The log is gone: it writes nothing.
    Refused,
}

/// Round of a strip.
#[derive(Debug)]
pub struct Round {
    /// Kind.
    pub kind: Kind,
    phase: Phase,
    /// Requests that are answered by it, each with the rows it touches.
    pub jobs: Vec<(u32, RowSet)>,
    /// Blocks that are read for requests.
    pub wanted: Vec<(u32, Wanted)>,
    /// Rows by their place in the strip.
    pub rows: Rows,
    /// Members in sync when its rows were planned; `None` when something came since that may change plans.
    pub planned_with: Option<PieceSet>,
    /// Commands in flight.
    pub pending: u32,
    /// Regions of the bitmap that it uses.
    pub regions: Vec<u64>,
    /// Partial parity.
    pub logged: Logged,
    /// Frames reserved.
    pub reserved: usize,
    /// Writes survive a power failure.
    pub durable: bool,
    /// Something was not written, or is listed as bad all the same.
    pub has_failed_writes: bool,
    /// A command of it failed with a shard that hands it over then.
    pub is_spoiled: bool,
    /// Epoch of the cache when it began.
    pub epoch: u64,
    /// Roles whose replacement gets what their member does: those that had one when it began. A strip was not yet copied for who came
    /// later.
    pub copied: PieceSet,
}

impl Round {
    /// A round without work yet.
    #[must_use]
    pub fn new(kind: Kind) -> Round {
        Round {
            kind,
            phase: Phase::Gathering,
            jobs: Vec::new(),
            wanted: Vec::new(),
            rows: Rows::default(),
            planned_with: None,
            pending: 0,
            regions: Vec::new(),
            logged: Logged::Not,
            reserved: 0,
            durable: false,
            has_failed_writes: false,
            is_spoiled: false,
            epoch: 0,
            copied: PieceSet::EMPTY,
        }
    }

    /// State.
    #[must_use]
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The next state.
    ///
    /// # Panics
    /// When it is not the next one, or commands are in flight.
    pub fn advance(&mut self, to: Phase) {
        let is_next = matches!(
            (self.phase, to),
            (Phase::Gathering, Phase::Frozen)
                | (Phase::Frozen, Phase::Logging)
                | (Phase::Logging, Phase::Writing)
        );
        assert!(is_next, "{:?} after {:?}", to, self.phase);
        assert!(self.pending == 0, "{} commands in flight before {to:?}", self.pending);
        self.phase = to;
    }

    /// Makes a new round of one that is through, in its memory.
    ///
    /// # Panics
    /// When something is left of that.
    pub fn again(&mut self, kind: Kind) {
        assert!(self.rows.is_empty() && self.pending == 0, "a round is through");
        self.jobs.clear();
        self.wanted.clear();
        self.regions.clear();
        (self.kind, self.phase, self.logged) = (kind, Phase::Gathering, Logged::Not);
        (self.reserved, self.durable, self.has_failed_writes, self.epoch) = (0, false, false, 0);
        (self.copied, self.planned_with, self.is_spoiled) = (PieceSet::EMPTY, None, false);
    }

    /// True when dirty mark and bits come first.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.kind.is_marked()
    }
}

/// Strip in work.
#[derive(Debug)]
pub struct Slot {
    /// Strip.
    pub strip: Strip,
    /// Order of its members.
    pub order: OrderIndex,
    /// Round under way.
    pub round: Option<Box<Round>>,
    /// Work for later rounds.
    pub waiting: VecDeque<Job>,
    /// Most jobs of the next round, when others go on waiting.
    pub limit: usize,
    /// Time since which some of its jobs are held.
    pub held_since: Option<Instant>,
    /// Time until which they are, if no other comes.
    pub quiet_until: Option<Instant>,
    /// Jobs that waited when that was set.
    pub seen: usize,
    /// What was put off goes now.
    pub is_let_go: bool,
    /// It is in the queue of those that can go on.
    is_runnable: bool,
    /// A strip has it.
    is_open: bool,
}

impl Slot {
    /// A slot of a strip.
    fn new(strip: Strip, order: OrderIndex) -> Slot {
        Slot {
            strip,
            order,
            round: None,
            waiting: VecDeque::new(),
            limit: usize::MAX,
            held_since: None,
            quiet_until: None,
            seen: 0,
            is_let_go: false,
            is_runnable: false,
            is_open: true,
        }
    }

    /// A slot that nobody has becomes a strip's, in its memory.
    fn reopen(&mut self, strip: Strip, order: OrderIndex) {
        assert!(!self.is_open && self.round.is_none() && self.waiting.is_empty(), "{:?} is open", self.strip);
        (self.strip, self.order, self.is_open) = (strip, order, true);
        self.release();
    }

    /// Round under way.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn round_mut(&mut self) -> &mut Round {
        self.round.as_mut().expect("a strip whose round is under way")
    }

    /// True when what its round writes, and this work too, are consecutive chunks in each row: an entry of a log names no others.
    ///
    /// # Panics
    /// When no round is under way.
    #[must_use]
    pub fn is_consecutive_with(&self, work: &Work, order: &Order) -> bool {
        let Work::Write { cells, .. } = work else { return true };
        let round = self.round.as_ref().expect("a strip whose round is under way");
        let touched: RowSet = cells.iter().map(|cell| cell.row).collect();
        touched.iter().all(|place| {
            let mut written = round.rows.get(place).map_or(PieceSet::EMPTY, |row| row.written);
            let own = cells.iter().filter(|cell| cell.row == place);
            own.for_each(|cell| written.insert(cell.piece));
            order.first_run(written) == written
        })
    }

    /// True when the work that comes next is a degraded read.
    #[must_use]
    pub fn waits_to_read(&self) -> bool {
        self.waiting.front().is_some_and(|job| job.work.kind() == Kind::Read)
    }

    /// Nothing of it is held any more; false, for whoever asks whether something is.
    pub fn release(&mut self) -> bool {
        (self.limit, self.held_since, self.quiet_until, self.seen) = (usize::MAX, None, None, 0);
        self.is_let_go = false;
        false
    }
}

/// See the module.
#[derive(Debug)]
pub struct Table {
    slots: Vec<Slot>,
    /// Slots that no strip has.
    free: Vec<u32>,
    /// Slots by strip.
    by_strip: Index,
    /// Work for strips that have no slot yet.
    pub backlog: VecDeque<(Strip, Job)>,
    /// Slots that can go on.
    runnable: VecDeque<u32>,
    /// Slots that wait for frames, in order.
    pub starved: VecDeque<u32>,
    /// Memory of strips that are through.
    pub pools: Pools,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            by_strip: Index::new(2 * SLOTS_MAX),
            backlog: VecDeque::new(),
            runnable: VecDeque::new(),
            starved: VecDeque::new(),
            pools: Pools::default(),
        }
    }
}

impl Table {
    /// Slot of a strip.
    #[inline]
    #[must_use]
    pub fn find(&self, strip: Strip) -> Option<u32> {
        self.by_strip.find(strip.0, |slot| self.slots[slot as usize].strip.0)
    }

    /// Slot by its number. One that no strip has is empty, and can neither go on nor be closed.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    #[must_use]
    pub fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Slot by its number.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Slot by its number, and memory for its next round.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn slot_and_pools(&mut self, slot: u32) -> (&mut Slot, &mut Pools) {
        (&mut self.slots[slot as usize], &mut self.pools)
    }

    /// True when another strip can be worked on.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.len() < SLOTS_MAX
    }

    /// A slot for a strip.
    ///
    /// # Panics
    /// When the strip has one, or there is no room.
    pub fn open(&mut self, strip: Strip, order: OrderIndex) -> u32 {
        assert!(self.has_room());
        let number = if let Some(number) = self.free.pop() {
            self.slots[number as usize].reopen(strip, order);
            number
        } else {
            self.slots.push(Slot::new(strip, order));
            u32::try_from(self.slots.len() - 1).expect("a bounded table")
        };
        let Table { slots, by_strip, .. } = self;
        by_strip.insert(strip.0, number, |slot| slots[slot as usize].strip.0);
        number
    }

    /// A strip is no longer in work.
    ///
    /// # Panics
    /// When something is left to do.
    pub fn close(&mut self, number: u32) {
        let slot = self.slot_mut(number);
        let is_through = slot.round.is_none() && slot.waiting.is_empty() && !slot.is_runnable;
        assert!(is_through && slot.is_open, "{:?} is not through", slot.strip);
        let strip = slot.strip;
        slot.is_open = false;
        let Table { slots, by_strip, .. } = self;
        let closed = by_strip.remove(strip.0, |slot| slots[slot as usize].strip.0);
        assert!(closed == Some(number), "{strip:?} has another slot");
        self.free.push(number);
    }

    /// A strip is no longer in work, unless its slot goes on.
    pub fn close_resting(&mut self, slot: u32) {
        if !self.slot(slot).is_runnable {
            self.close(slot);
        }
    }

    /// A command of a slot's round was answered: it can go on after the last.
    #[inline]
    pub fn note_answer(&mut self, number: u32) {
        let slot = self.slot_mut(number);
        let round = slot.round_mut();
        round.pending -= 1;
        if round.pending == 0 {
            self.run(number);
        }
    }

    /// A slot can go on.
    ///
    /// # Panics
    /// When no strip has it.
    pub fn run(&mut self, number: u32) {
        let slot = self.slot_mut(number);
        assert!(slot.is_open, "a slot that no strip has");
        if !std::mem::replace(&mut slot.is_runnable, true) {
            self.runnable.push_back(number);
        }
    }

    /// All slots that strips have can go on.
    pub fn run_all(&mut self) {
        for slot in 0..u32::try_from(self.slots.len()).expect("a bounded table") {
            if self.slot(slot).is_open {
                self.run(slot);
            }
        }
    }

    /// The next slot that can go on.
    pub fn next_runnable(&mut self) -> Option<u32> {
        let slot = self.runnable.pop_front()?;
        self.slot_mut(slot).is_runnable = false;
        Some(slot)
    }

    /// Slots in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True when something is in work, or waits, that takes the dirty mark.
    #[must_use]
    pub fn wants_mark(&self) -> bool {
        let is_marked = |job: &Job| job.work.kind().is_marked();
        let of_slot = |slot: &Slot| {
            slot.round.as_ref().is_some_and(|round| round.is_marked()) || slot.waiting.iter().any(is_marked)
        };
        self.backlog.iter().any(|(_, job)| is_marked(job)) || self.iter().any(of_slot)
    }

    /// True when nothing is in work and nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.backlog.is_empty()
    }

    /// Strips in work.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.is_open)
    }

    /// Slots whose rounds wait for dirty mark, bits or a log, by strip.
    #[must_use]
    pub fn logging(&self) -> Vec<u32> {
        let is_logging =
            |slot: &Slot| slot.round.as_ref().is_some_and(|round| round.phase() == Phase::Logging);
        let numbered = (0..).zip(&self.slots).filter(|(_, slot)| slot.is_open && is_logging(slot));
        let mut slots: Vec<(Strip, u32)> = numbered.map(|(number, slot)| (slot.strip, number)).collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, number)| number).collect()
    }

    /// Lets strips that wait for frames try again, for some came home.
    pub(super) fn feed_starved(&mut self) {
        while let Some(number) = self.starved.pop_front() {
            self.run(number);
        }
    }

    /// Rounds that wait for dirty mark or bits look again.
    pub(super) fn wake_rounds(&mut self) {
        for slot in self.logging() {
            self.run(slot);
        }
    }

    /// True while a strip reads for writes: each such read is answered, so nothing waits for ever.
    pub(super) fn reads_for_writes(&self) -> bool {
        let reads = |round: &Round| round.kind == Kind::Write && round.phase() <= Phase::Frozen;
        self.iter().any(|slot| slot.round.as_deref().is_some_and(reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_one_another() {
        let mut round = Round::new(Kind::Write);
        for phase in [Phase::Frozen, Phase::Logging, Phase::Writing] {
            round.advance(phase);
            assert_eq!(round.phase(), phase);
        }
    }

    #[test]
    #[should_panic(expected = "Writing after Frozen")]
    fn nothing_is_written_before_it_is_logged() {
        let mut round = Round::new(Kind::Write);
        round.advance(Phase::Frozen);
        round.advance(Phase::Writing);
    }

    #[test]
    #[should_panic(expected = "commands in flight")]
    fn nothing_is_frozen_while_reads_are_in_flight() {
        let mut round = Round::new(Kind::Write);
        round.pending = 1;
        round.advance(Phase::Frozen);
    }
}
