//! Window: how long writes of a part of a strip wait for the rest of it.
//!
//! ```text
//!   paper      not at all: what comes while the first reads are in flight joins, that is the window
//!   md         while another strip reads for writes, then all that waits goes
//!   adaptive   where a stream of writes is about to fill the strip
//!   alone      not at all, and nothing joins: each write is a round of its own, for comparison
//! ```
//! *One rule* of what adapts: a row waits only for what can still come. That is so while a stream, of requests one behind the other, has its next place
//! in the strip, and clients have as much of it open at once as lies between the first and the last piece of a row; while not everything
//! that they have open waits here, or they had more open at once lately; and as long as a read takes that the wait is to save, since the
//! last request came. Rows that are whole go at once and read nothing. When
//! clients cannot send more, the row that the stream would fill last goes, and makes room for those that fill the others.
//!
//! What waits has no round and no frames of one: it stays in the queue of its slot, jobs of whole rows in front. Jobs that share
//! rows keep their order.
//!
//! *md* puts off what is partial while anything reads for writes (`STRIPE_DELAYED`), and lets all of it go at once when nothing does any more
//! (`IO_THRESHOLD` 1): no clock is asked, and what comes meanwhile is the company. Rows that are whole are not put off. Its stripes are rows; ours
//! are strips, of which all but the whole rows wait.

use super::map::Strip;
use super::row_set::RowSet;
use super::strips::Strips;
use super::table::{Job, Kind, Slot, Work};
use base::pieces::PieceSet;
use base::time::{Instant, Nanos};
use std::collections::VecDeque;

/// Longest time without a request for the strip: what a read of a flash drive takes. A longer wait costs more than it saves.
const QUIET_MAX: Nanos = Nanos::from_micros(100);
/// Longest time that anything is held, however busy its stream is.
const HOLD_MAX: Nanos = Nanos::from_micros(2_000);
/// Streams that are known: as many strips are held.
const STREAMS_MAX: usize = 8;
/// Requests one behind the other that are a stream; by chance there are not three in any load that is random.
const STREAM_REQUESTS_MIN: u32 = 3;
/// Requests after which the most that were open at once count from anew.
const PEAK_REQUESTS: u32 = 256;

/// Manner of waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Nothing waits.
    Paper,
    /// What is partial waits while another strip reads for writes.
    Md,
    /// What a stream is about to fill waits.
    #[default]
    Adaptive,
    /// Nothing waits, and nothing joins what is under way: what the other manners save is told by it.
    Alone,
}

/// Writes one behind the other.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Block that comes next.
    next: u64,
    requests: u32,
    /// Blocks of its last write.
    blocks: u64,
    /// Number of its last write.
    used: u64,
}

impl Stream {
    /// True of more requests than there are by chance.
    fn is_long(&self) -> bool {
        self.requests >= STREAM_REQUESTS_MIN
    }
}

/// Slot whose jobs wait.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: u32,
    /// Time at which they have waited long enough; none in md's manner.
    due: Option<Instant>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Window {
    manner: Manner,
    streams: [Stream; STREAMS_MAX],
    /// Streams of enough requests: there are none while writes are random, and nothing is looked for.
    long_streams: usize,
    writes: u64,
    held: Vec<Held>,
    /// Slot of which one row has to go, for clients cannot send more.
    pushed: Option<u32>,
    /// Most requests that were open at once: of late, and before that.
    peak: (usize, usize),
    /// Requests until what is of late is of before.
    peak_left: u32,
    /// Jobs while they are sorted.
    scratch: VecDeque<Job>,
}

impl Window {
    /// A window of a manner.
    #[must_use]
    pub fn new(manner: Manner) -> Window {
        Window { manner, ..Window::default() }
    }

    /// A write of so many blocks came, and so many requests are open.
    pub fn note_write(&mut self, first: u64, blocks: u64, open: usize) {
        if self.manner != Manner::Adaptive {
            return;
        }
        self.note_open(open);
        self.writes += 1;
        let (mut place, mut used, mut before) = (0, u64::MAX, 0);
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if stream.next == first && stream.requests > 0 {
                // A stream that comes to where a lone write ended is one with it.
                before = before.max(stream.requests);
                self.long_streams -= usize::from(stream.is_long());
                *stream = Stream::default();
            }
            (place, used) = if stream.used < used { (index, stream.used) } else { (place, used) };
        }
        let requests = u32::saturating_add(before, 1);
        let stream = Stream { next: first + blocks, requests, blocks, used: self.writes };
        let replaced = std::mem::replace(&mut self.streams[place], stream);
        self.long_streams += usize::from(stream.is_long());
        self.long_streams -= usize::from(replaced.is_long());
        assert!(self.long_streams <= STREAMS_MAX, "{} streams of {STREAMS_MAX}", self.long_streams);
    }

    /// True when a write may be a part of a round with others.
    #[must_use]
    pub fn lets_join(&self) -> bool {
        self.manner != Manner::Alone
    }

    fn note_open(&mut self, open: usize) {
        if self.peak_left == 0 {
            self.peak = (0, self.peak.0);
            self.peak_left = PEAK_REQUESTS;
        }
        self.peak_left -= 1;
        self.peak.0 = self.peak.0.max(open);
    }

    /// True when a stream goes on within these blocks, and clients have so many blocks of it open at once.
    fn expects(&self, blocks: &std::ops::Range<u64>, open_blocks: u64) -> bool {
        let is_next = |stream: &&Stream| blocks.contains(&stream.next) && self.goes_on(stream);
        self.streams.iter().filter(is_next).any(|stream| {
            let open = self.open_of_each();
            open > 1 && open.saturating_mul(stream.blocks) >= open_blocks
        })
    }

    fn goes_on(&self, stream: &Stream) -> bool {
        stream.is_long() && stream.used + u64::from(PEAK_REQUESTS) > self.writes
    }

    /// Requests of each stream that are open at once, as if all were spread evenly over those that go on.
    fn open_of_each(&self) -> u64 {
        let streams = self.streams.iter().filter(|stream| self.goes_on(stream)).count();
        let open = self.peak.0.max(self.peak.1) / streams.max(1);
        u64::try_from(open).expect("requests fit memory")
    }

    pub(super) fn forget(&mut self, slot: u32) {
        self.held.retain(|held| held.slot != slot);
    }

    /// Time at which something that waits has waited long enough.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.held.iter().filter_map(|held| held.due).min()
    }
}

/// Rows of a write.
fn rows_of(job: &Job) -> RowSet {
    match &job.work {
        Work::Write { cells, .. } => cells.iter().map(|cell| cell.row).collect(),
        Work::Zero | Work::Read(_) | Work::Resync | Work::Scrub | Work::Rebuild => RowSet::EMPTY,
    }
}

/// Rows that the jobs of a queue write whole, without those that a job shares with a row that is not.
fn whole_rows(waiting: &VecDeque<Job>, data: PieceSet) -> RowSet {
    let mut written = [PieceSet::EMPTY; 128];
    for job in waiting {
        let Work::Write { cells, .. } = &job.work else { continue };
        cells.iter().for_each(|cell| written[usize::from(cell.row)].insert(cell.piece));
    }
    let is_whole = |row: &u16| data.without(written[usize::from(*row)]).is_empty();
    let mut whole: RowSet = (0..128).filter(is_whole).collect();
    loop {
        let before = whole;
        for rows in waiting.iter().map(rows_of).filter(|rows| !rows.without(before).is_empty()) {
            whole = whole.without(rows);
        }
        if whole == before {
            return whole;
        }
    }
}

/// The last row of a queue, and all that its jobs share with it.
fn last_rows(waiting: &VecDeque<Job>) -> RowSet {
    let all = waiting.iter().map(rows_of).fold(RowSet::EMPTY, RowSet::or);
    let mut rows: RowSet = all.iter().last().into_iter().collect();
    loop {
        let before = rows;
        for shared in waiting.iter().map(rows_of).filter(|shared| !shared.and(before).is_empty()) {
            rows = rows.or(shared);
        }
        if rows == before {
            return rows;
        }
    }
}

impl Strips {
    /// True when the jobs of a slot without a round go on waiting. Else those that begin are in front, and `limit` is how many.
    pub(super) fn holds(&mut self, now: Instant, number: u32) -> bool {
        match self.window.manner {
            Manner::Paper => false,
            Manner::Alone => {
                self.core.table.slot_mut(number).limit = 1;
                false
            }
            Manner::Md => self.is_put_off(now, number),
            Manner::Adaptive => self.holds_stream(now, number),
        }
    }

    /// True when the jobs of a slot wait until no strip reads for writes.
    fn is_put_off(&mut self, now: Instant, number: u32) -> bool {
        self.window.forget(number);
        let is_stopping = self.core.is_stopping;
        let data = PieceSet::first(self.core.map.data_count());
        let slot = self.core.table.slot_mut(number);
        let is_write = |job: &Job| job.work.kind() == Kind::Write;
        if slot.is_let_go || is_stopping || slot.waiting.is_empty() || !slot.waiting.iter().all(is_write) {
            return slot.release();
        }
        slot.held_since.get_or_insert(now);
        let whole = whole_rows(&slot.waiting, data);
        if whole.is_empty() {
            assert!(self.window.held.iter().all(|held| held.slot != number), "slot {number} is held once");
            self.window.held.push(Held { slot: number, due: None });
            return true;
        }
        self.bring_forward(number, whole);
        false
    }

    /// True when the jobs of a slot wait for a stream that is about to fill their rows.
    fn holds_stream(&mut self, now: Instant, number: u32) -> bool {
        if self.window.long_streams == 0 && self.core.table.slot(number).held_since.is_none() {
            return false;
        }
        let is_pushed = self.window.pushed.take_if(|pushed| *pushed == number).is_some();
        self.window.forget(number);
        let may_wait = !self.core.is_stopping && self.may_be_filled(number);
        let slot = self.core.table.slot_mut(number);
        let since = *slot.held_since.get_or_insert(now);
        if !may_wait || slot.waiting.is_empty() || now >= since + HOLD_MAX {
            return slot.release();
        }
        let whole = whole_rows(&slot.waiting, PieceSet::first(self.core.map.data_count()));
        let rows = if whole.is_empty() && is_pushed { last_rows(&slot.waiting) } else { whole };
        let due = (now + QUIET_MAX).min(since + HOLD_MAX);
        if rows.is_empty() {
            let has_waited =
                slot.quiet_until.is_some_and(|until| now >= until) && slot.seen == slot.waiting.len();
            if has_waited {
                return slot.release();
            }
            if slot.seen != slot.waiting.len() || slot.quiet_until.is_none() {
                slot.seen = slot.waiting.len();
                slot.quiet_until = Some(due);
            }
            let due = slot.quiet_until;
            assert!(self.window.held.iter().all(|held| held.slot != number), "slot {number} is held once");
            self.window.held.push(Held { slot: number, due });
            return true;
        }
        slot.quiet_until = None;
        self.bring_forward(number, rows);
        false
    }

    /// True when more may come for the strip of a slot, whose jobs are all writes.
    fn may_be_filled(&self, number: u32) -> bool {
        let Slot { strip: Strip(strip), waiting, .. } = self.core.table.slot(number);
        let is_stripe = self.core.map.chunk_rows() == self.core.map.strip_rows();
        let blocks = self.core.map.strip_blocks();
        // From the first piece of a row to its last.
        let row_span = blocks - self.core.map.strip_rows();
        let is_expected = is_stripe && self.window.expects(&(strip * blocks..(strip + 1) * blocks), row_span);
        is_expected && waiting.iter().all(|job| job.work.kind() == Kind::Write)
    }

    /// Jobs of these rows come first, in their order.
    fn bring_forward(&mut self, number: u32, rows: RowSet) {
        assert!(self.window.scratch.is_empty(), "jobs of another slot are being sorted");
        let slot = self.core.table.slot_mut(number);
        let scratch = &mut self.window.scratch;
        let (mut limit, count) = (0, slot.waiting.len());
        for _ in 0..count {
            let job = slot.waiting.pop_front().expect("there are so many");
            if rows_of(&job).and(rows).is_empty() {
                scratch.push_back(job);
            } else {
                slot.waiting.push_back(job);
                limit += 1;
            }
        }
        assert!(limit > 0, "nothing of strip {:?} is of the rows that go", slot.strip);
        slot.waiting.append(scratch);
        slot.limit = limit;
    }

    /// Lets go what has waited long enough, or has nothing to wait for; true when there is something.
    pub(super) fn advance_window(&mut self, now: Instant) -> bool {
        if self.window.held.is_empty() {
            return false;
        }
        if self.window.manner == Manner::Md {
            return self.let_put_off_go();
        }
        let mut moves = false;
        let is_due = |held: &&Held| self.core.is_stopping || held.due.is_some_and(|due| now >= due);
        for Held { slot, .. } in self.window.held.iter().filter(is_due) {
            self.core.table.run(*slot);
            moves = true;
        }
        let open = self.core.requests.load().in_flight;
        let waiting = |held: &Held| self.core.table.slot(held.slot).waiting.len();
        let all: usize = self.window.held.iter().map(waiting).sum();
        if !moves && all >= open && open >= self.window.peak.0.max(self.window.peak.1) {
            let Held { slot, .. } = self.window.held[0];
            self.window.pushed = Some(slot);
            self.core.table.run(slot);
            moves = true;
        }
        moves
    }

    /// Lets all go that was put off, when no strip reads for writes any more; true when it did.
    fn let_put_off_go(&mut self) -> bool {
        let may_go = self.core.is_stopping || !self.core.table.reads_for_writes();
        for Held { slot, .. } in self.window.held.iter().filter(|_| may_go) {
            self.core.table.slot_mut(*slot).is_let_go = true;
            self.core.table.run(*slot);
        }
        may_go
    }
}
