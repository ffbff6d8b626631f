//! Partial parity logs of RAID-5, one on each member, for the rows whose parity it holds: no write hole, and no resync after a crash.
//!
//! ```text
//!   rounds that may write ─> gathered ─> batch: header, partial parities ─> rounds write ─> all of them ended
//!                               ^          durable on the parity's member                       │
//!                               └───────────── flush of what they wrote <───────────────────────┘
//! ```
//! *One batch of a member at a time*, for of each member only the newest header counts in a replay ([`block::md::ppl`]). There is no
//! timer: what has gathered goes when the log is idle.
//!
//! *Every parity that is written is logged*, that of a resync, a scrub and a trim too: otherwise the newest header might name a row
//! with partial parity that is no longer right. So it may be applied at any time, and a clean array leaves its logs as they are.
//!
//! *A failure comes first.* While one is not recorded no batch begins and no round writes: the member might be believed again after a
//! crash, and only the header that is newest now puts its rows right.
//!
//! *Rows in doubt* ([`super::sync`]) are named by every header of their parity's member, without partial parity and without a
//! witness, so that they stay in doubt over a crash. Where there are too many, or a resync is not through, a mark says so. A batch that
//! is written over the one before may be cut off, and leave neither: so a *spare header* says all that first
//! ([`block::md::ppl::spare_sector`]). It is older than the batch, and newer than the one before, whose witness may not count any more.

use super::batch::Filling;
pub use super::batch::STANDING_MAX;
use super::core::{Core, WriteAhead};
use super::scribe::Mark;
use super::table::{Logged, Phase};
use super::{Effects, kind, members};
use base::frame::Frame;
use base::pieces::PieceSet;
use block::device::{Completion, Op, Status};
use block::md::Role;
use block::md::ppl::{self, Entry, HEADER_SECTORS, Header, Origin, RING_SECTORS_MIN, spare_sector};
use block::md::reader::ROW_SECTORS;
use block::md::superblock::Superblock;
use std::collections::VecDeque;

/// Most rows of a strip where there are logs: partial parity of a round has to fit into a batch.
pub const STRIP_ROWS_MAX: u64 = 16;
/// Most blocks of a batch behind its header, as md has it.
pub const BATCH_BLOCKS_MAX: usize = 32;
/// Fewest sectors of a log: a header, the rows of one strip, a witness, and a spare header.
pub const SECTORS_MIN: u64 = HEADER_SECTORS + (STRIP_ROWS_MAX + 1) * ROW_SECTORS + HEADER_SECTORS;

/// State of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// What lies there is from before the start: it must not be applied any more, before the array is marked dirty.
    Old,
    /// No batch is under way.
    Idle,
    /// What the last batch wrote is being flushed.
    Flushing,
    /// A spare header is on its way.
    Sparing,
    /// A batch is on its way.
    Writing,
    /// A batch is durable, and so many of its rounds are not through.
    Open(usize),
}

impl State {
    /// True when this state may be followed by another.
    fn leads_to(self, next: State) -> bool {
        match self {
            State::Old => matches!(next, State::Sparing | State::Writing),
            State::Idle => matches!(next, State::Flushing | State::Sparing | State::Writing),
            State::Flushing => next == State::Idle,
            State::Sparing => matches!(next, State::Old | State::Idle),
            State::Writing => matches!(next, State::Open(_) | State::Idle),
            State::Open(1) => next == State::Idle,
            State::Open(rounds) => next == State::Open(rounds - 1),
        }
    }

    /// Another state follows.
    fn go(&mut self, next: State) {
        assert!(self.leads_to(next), "a log goes from {self:?} to {next:?}");
        *self = next;
    }
}

/// Log of a member.
#[derive(Debug)]
pub struct Log {
    state: State,
    /// First sector, and sectors before the spare header.
    start: u64,
    sectors: u64,
    /// Headers follow one another; else each is written over the one before.
    is_ring: bool,
    /// Entries of the spare header; `None` while nobody knows.
    spare: Option<Vec<Entry>>,
    /// A batch since the spare header has a witness.
    has_witness: bool,
    /// Place of the next header.
    position: u64,
    /// Generation of the newest header.
    generation: u64,
    /// Generation of the first one: rounds of older ones wrote for another member.
    since: u64,
    /// Slots whose rounds wait for the next batch.
    pub(super) gathered: VecDeque<u32>,
    /// Slots of the batch that is on its way.
    batch: Vec<u32>,
    /// What rounds of the last batch wrote is not flushed.
    is_unflushed: bool,
    /// The newest header says that rows are in doubt which it does not name.
    says_doubt: bool,
    /// A header of this engine is on the member.
    is_begun: bool,
}

impl Log {
    fn new((start, sectors): (u64, u64)) -> Log {
        Log {
            state: State::Old,
            start,
            sectors: spare_sector((start, sectors)) - start,
            is_ring: sectors >= RING_SECTORS_MIN,
            spare: None,
            has_witness: false,
            position: 0,
            generation: 0,
            since: 0,
            gathered: VecDeque::new(),
            batch: Vec::new(),
            is_unflushed: false,
            says_doubt: false,
            is_begun: false,
        }
    }

    /// Blocks of a batch behind its header.
    #[must_use]
    pub fn blocks_max(&self) -> usize {
        let room = usize::try_from((self.sectors - HEADER_SECTORS) / ROW_SECTORS).expect("at most 8192");
        room.min(BATCH_BLOCKS_MAX)
    }

    /// Place of a batch with so many blocks, and the one behind it.
    fn place(&mut self, blocks: usize) -> u64 {
        let sectors = sectors_of(blocks);
        if self.position + sectors > self.sectors {
            self.position = 0;
        }
        let at = self.position;
        self.position = if self.is_ring { at + sectors } else { 0 };
        self.start + at
    }

    /// True when the next batch may be written over the one before, or over the header that a walk begins with.
    fn may_begin_anew(&self) -> bool {
        self.position == 0 || self.position + sectors_of(self.blocks_max()) > self.sectors
    }
}

/// Sectors of a batch with so many blocks.
fn sectors_of(blocks: usize) -> u64 {
    HEADER_SECTORS + u64::try_from(blocks).expect("at most 32") * ROW_SECTORS
}

/// Flush between two batches, for several logs at once.
#[derive(Clone, Copy, Debug)]
struct Flush {
    logs: PieceSet,
    pending: u32,
}

/// Logs of all members.
#[derive(Debug)]
pub struct Logs {
    logs: Vec<Option<Log>>,
    /// Newest generation of all members together.
    generation: u64,
    /// CRC32C of the array UUID.
    signature: u32,
    /// What spare headers say of their writer, and superblocks of theirs.
    pub(super) origin: Origin,
    flush: Option<Flush>,
    /// Batches that members have not answered, those of members that failed meanwhile too.
    in_flight: u32,
    /// Frames of batches: at most a batch of each member.
    spare: Vec<Frame>,
    /// What the next batch is made of.
    filling: Filling,
}

impl Logs {
    /// Logs by role with their places, of an array with this newest superblock, after a newest generation.
    #[must_use]
    pub fn new(places: &[Option<(u64, u64)>], newest: &Superblock, generation: u64) -> Logs {
        Logs {
            logs: places.iter().map(|place| place.map(Log::new)).collect(),
            generation,
            signature: ppl::signature(newest.array.uuid),
            origin: Origin::at_start(newest),
            flush: None,
            in_flight: 0,
            spare: Vec::new(),
            filling: Filling::default(),
        }
    }

    /// Header of the next generation with these entries; spare ones alone have an origin.
    pub(super) fn next_header(&mut self, entries: Vec<Entry>, origin: Origin) -> Header {
        self.generation += 1;
        Header { signature: self.signature, generation: self.generation, entries, origin }
    }

    /// Log of a member.
    pub(super) fn log_mut(&mut self, role: usize) -> &mut Log {
        self.logs[role].as_mut().expect("a member that is there has a log")
    }

    fn log(&self, role: usize) -> &Log {
        self.logs[role].as_ref().expect("a member that is there has a log")
    }

    /// A frame for a batch, with unspecified contents.
    pub(super) fn take_frame(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(Frame::zeroed)
    }

    /// A newcomer has a log, whose first header, of the newest generation, is about to be written at its start.
    pub(super) fn join(&mut self, role: usize, place: (u64, u64), says_doubt: bool) {
        let (generation, since) = (self.generation, self.generation);
        let mut log =
            Log { state: State::Idle, generation, since, says_doubt, is_begun: true, ..Log::new(place) };
        log.place(0);
        self.logs[role] = Some(log);
    }

    /// True when no member has a header from before the start.
    #[must_use]
    pub fn are_begun(&self) -> bool {
        self.logs.iter().flatten().all(|log| log.is_begun)
    }

    /// True when nothing is on its way.
    #[must_use]
    pub fn are_resting(&self) -> bool {
        let rests = |log: &Log| matches!(log.state, State::Old | State::Idle);
        self.flush.is_none() && self.in_flight == 0 && self.logs.iter().flatten().all(rests)
    }

    /// True when all of them may be lent: they rest, and no header says that something is in doubt.
    #[must_use]
    pub fn may_be_lent(&self) -> bool {
        let is_plain = |log: &Log| log.gathered.is_empty() && !log.says_doubt;
        self.are_begun() && self.are_resting() && self.logs.iter().flatten().all(is_plain)
    }

    /// Gives the logs of some members to another engine, until [`Logs::take_back`].
    pub(super) fn lend(&mut self, roles: PieceSet) -> Logs {
        assert!(self.may_be_lent(), "logs that do not rest");
        let lent = |(role, log): (usize, &mut Option<Log>)| log.take_if(|_| roles.contains(role));
        Logs {
            logs: self.logs.iter_mut().enumerate().map(lent).collect(),
            generation: self.generation,
            signature: self.signature,
            origin: self.origin,
            flush: None,
            in_flight: 0,
            spare: Vec::new(),
            filling: Filling::default(),
        }
    }

    /// Takes logs back that were lent.
    ///
    /// # Panics
    /// When they do not rest, or are here.
    pub(super) fn take_back(&mut self, mut lent: Logs) {
        assert!(lent.are_resting(), "logs that come back do not rest");
        self.generation = self.generation.max(lent.generation);
        for (own, log) in self.logs.iter_mut().zip(&mut lent.logs) {
            let Some(log) = log.take() else { continue };
            assert!(log.gathered.is_empty(), "rounds of another engine wait for a log");
            assert!(own.replace(log).is_none(), "a log that was not lent");
        }
    }

    /// A round does not wait for a batch any more; false when its batch is on its way.
    pub(super) fn forget(&mut self, slot: u32) -> bool {
        self.logs.iter_mut().flatten().for_each(|log| log.gathered.retain(|other| *other != slot));
        !self.has_in_batch(slot)
    }

    /// True when the batch of a round is on its way.
    #[must_use]
    pub fn has_in_batch(&self, slot: u32) -> bool {
        self.logs.iter().flatten().any(|log| log.batch.contains(&slot))
    }

    /// A batch is not on its member: its rounds, in these slots, wait again.
    fn gather_again(&mut self, role: usize) -> Vec<u32> {
        let Some(log) = &mut self.logs[role] else { return Vec::new() };
        log.state.go(State::Idle);
        let slots = std::mem::take(&mut log.batch);
        slots.iter().rev().for_each(|slot| log.gathered.push_front(*slot));
        // Nobody knows what lies there now.
        log.spare = None;
        slots
    }

    fn gather(&mut self, role: usize, slot: u32) {
        self.log_mut(role).gathered.push_back(slot);
    }

    fn has_gathered(&self) -> bool {
        self.logs.iter().flatten().any(|log| !log.gathered.is_empty())
    }

    /// A round of a batch is through.
    pub(super) fn end_round(&mut self, role: usize, generation: u64) {
        let Some(log) = self.logs[role].as_mut().filter(|log| log.generation == generation) else { return };
        let State::Open(rounds) = log.state else {
            unreachable!("a round of a batch that is {:?}", log.state)
        };
        log.is_unflushed = true;
        log.state.go(if rounds > 1 { State::Open(rounds - 1) } else { State::Idle });
    }
}

impl WriteAhead {
    /// True when nothing that a log said before the start can be applied after the array is marked dirty.
    pub(super) fn are_logs_begun(&self) -> bool {
        self.logs.as_ref().is_none_or(Logs::are_begun)
    }

    /// True when logs have nothing on its way.
    pub(super) fn are_logs_resting(&self) -> bool {
        !self.is_replaying() && self.logs.as_ref().is_none_or(Logs::are_resting)
    }

    /// Ends a flush of which all members have answered.
    fn end_log_flush(&mut self) {
        let logs = self.logs.as_mut().expect("an array with logs");
        let Some(flush) = logs.flush.filter(|flush| flush.pending == 0) else { return };
        logs.flush = None;
        for role in flush.logs.iter() {
            if let Some(log) = logs.logs[role].as_mut().filter(|log| log.state == State::Flushing) {
                log.is_unflushed = false;
                log.state.go(State::Idle);
            }
        }
    }
}

impl Core {
    /// A round is about to write: it waits for a log, where its parities are.
    pub(super) fn gather(&mut self, slot: u32) {
        if self.ahead.journal.is_some() {
            return self.gather_for_journal(slot);
        }
        if self.ahead.logs.is_none() || self.members.is_broken() {
            return;
        }
        let role = self.logging_member(self.table.slot(slot).strip);
        if !self.has_logged_rows(slot) || !self.members.recorded().contains(role) {
            return;
        }
        self.table.slot_mut(slot).round_mut().logged = Logged::Waits;
        self.ahead.logs.as_mut().expect("asked above").gather(role, slot);
    }

    /// True when a log allows a round to write.
    pub(super) fn is_logged(&self, logged: Logged) -> bool {
        self.ahead.logs.is_none() || (logged != Logged::Waits && !self.has_unrecorded_failure())
    }

    /// True when what lies in the logs from before the start must not be applied again: something is about to be written, or the
    /// array is dirty and its replay through. In a dirty array an old header counts until there is a newer one, and another crash
    /// would take rows for cut off that the replay settled.
    fn wants_first_headers(&self) -> bool {
        let is_settled = self.scribe.mark() == Mark::Dirty && !self.ahead.is_replaying() && !self.is_stopping;
        is_settled || self.scribe.writers() > 0 || self.ahead.logs.as_ref().is_some_and(Logs::has_gathered)
    }

    /// Begins batches where logs are idle, and flushes before them; true when something moved.
    pub(super) fn advance_logs(&mut self, fx: &mut Effects) -> bool {
        if self.ahead.logs.is_none() {
            return false;
        }
        if self.place.are_logs_lent() {
            return false;
        }
        let mut moved = self.drop_logs();
        if self.members.is_broken() || self.has_unrecorded_failure() {
            return moved;
        }
        if self.place.is_log_frozen() {
            // Logs that wait for a flush come to rest by it.
            return self.begin_log_flush(fx) || moved;
        }
        let is_wanted = self.wants_first_headers();
        let has_cache = !self.members.volatile().is_empty();
        let wants_no_doubt = !self.sync.log_says_doubt() && !self.is_stopping;
        let is_shard = self.place.is_shard();
        for role in self.members.recorded().iter() {
            let log = self.ahead.logs.as_mut().expect("asked above").logs[role].as_mut();
            assert!(log.is_some() || is_shard, "member {role} has no log");
            let Some(log) = log else { continue };
            let has_work = !log.gathered.is_empty() || (log.says_doubt && wants_no_doubt);
            match log.state {
                State::Old if is_wanted => {}
                State::Idle if has_work && log.is_unflushed && has_cache => {
                    log.state.go(State::Flushing);
                    moved = true;
                    continue;
                }
                State::Idle if has_work => {}
                _ => continue,
            }
            if !self.write_spare(role, fx) {
                self.begin_batch(role, fx);
            }
            moved = true;
        }
        self.begin_log_flush(fx) || moved
    }

    /// Writes the spare header of a member, where the next batch needs one that says something else; false otherwise.
    fn write_spare(&mut self, role: usize, fx: &mut Effects) -> bool {
        let log = self.ahead.logs.as_ref().expect("an array with logs").log(role);
        let is_told =
            !log.has_witness && log.spare.as_ref().is_some_and(|spare| self.is_spare_told(role, spare));
        if is_told || !log.may_begin_anew() {
            return false;
        }
        let logs = self.ahead.logs.as_mut().expect("an array with logs");
        let mut entries = logs.log_mut(role).spare.take().unwrap_or_default();
        self.name_spare(role, &mut entries);
        let (frame, entries) = self.ahead.spare_header(entries);
        let log = self.ahead.logs.as_mut().expect("an array with logs").log_mut(role);
        log.state.go(State::Sparing);
        log.spare = Some(entries);
        log.has_witness = false;
        let sector = log.start + log.sectors;
        let mut frames = self.stock.pool().take_empty();
        frames.push(frame);
        self.write_log(role, sector, frames, fx);
        true
    }

    /// Writes to the log of a member.
    fn write_log(&mut self, role: usize, sector: u64, frames: Vec<Frame>, fx: &mut Effects) {
        self.ahead.logs.as_mut().expect("an array with logs").in_flight += 1;
        self.counters.logged += u64::try_from(frames.len()).expect("at most 33");
        let waiter = u32::try_from(role).expect("at most 32");
        fx.command(
            self.members.seat(members::role(role)),
            kind::LOG,
            waiter,
            Op::Write { sector, frames, durable: true },
        );
    }

    /// Writes the next batch of a member.
    fn begin_batch(&mut self, role: usize, fx: &mut Effects) {
        let says_doubt = self.sync.log_says_doubt();
        let mut filling = std::mem::take(&mut self.ahead.logs.as_mut().expect("an array with logs").filling);
        let batch = self.next_batch(role, &mut filling);
        let logs = self.ahead.logs.as_mut().expect("an array with logs");
        let log = logs.log_mut(role);
        assert!(
            log.generation < batch.generation,
            "generation {} after {}",
            batch.generation,
            log.generation
        );
        log.state.go(State::Writing);
        log.generation = batch.generation;
        log.says_doubt = says_doubt;
        assert!(log.batch.is_empty(), "rounds of a batch that was answered");
        log.batch.append(&mut filling.slots);
        log.has_witness |= batch.has_witness;
        let sector = log.place(batch.frames.len() - 1);
        filling.clear();
        logs.filling = filling;
        self.write_log(role, sector, batch.frames, fx);
    }

    /// Flushes for the logs that wait for it, unless a flush is under way; true when one began.
    fn begin_log_flush(&mut self, fx: &mut Effects) -> bool {
        let logs = self.ahead.logs.as_mut().expect("an array with logs");
        let waits = |log: &Option<Log>| log.as_ref().is_some_and(|log| log.state == State::Flushing);
        let waiting: PieceSet =
            logs.logs.iter().enumerate().filter(|(_, log)| waits(log)).map(|(role, _)| role).collect();
        if logs.flush.is_some() || waiting.is_empty() {
            return false;
        }
        let volatile = self.members.volatile();
        logs.flush =
            Some(Flush { logs: waiting, pending: u32::try_from(volatile.count()).expect("at most 32") });
        for role in volatile.iter() {
            fx.command(self.members.seat(members::role(role)), kind::LOG_FLUSH, 0, Op::Flush);
        }
        self.ahead.end_log_flush();
        true
    }

    /// A member has flushed.
    pub(super) fn on_log_flushed(&mut self, member: Role, status: Status) {
        if status != Status::Success {
            self.fail_under_log(member);
        }
        let flush = self.ahead.logs.as_mut().and_then(|logs| logs.flush.as_mut());
        flush.expect("a flush that was asked for").pending -= 1;
        self.ahead.end_log_flush();
    }

    /// A batch is on its member, or will never be.
    pub(super) fn on_logged(&mut self, member: Role, completion: Completion) {
        if completion.status != Status::Success {
            self.fail_under_log(member);
        }
        let is_shard = self.place.is_shard();
        let logs = self.ahead.logs.as_mut().expect("an array with logs");
        assert!(logs.in_flight > 0, "a batch that nobody wrote");
        logs.in_flight -= 1;
        let mut frames = completion.frames;
        logs.spare.append(&mut frames);
        self.stock.pool().give_empty(frames);
        if is_shard && completion.status != Status::Success {
            // They are handed over, if all was recalled meanwhile.
            return logs.gather_again(member.index()).into_iter().for_each(|slot| self.table.run(slot));
        }
        // A member that failed has none any more; its rounds were let go.
        let role = member.index();
        let Some(log) = logs.logs[role].as_mut().filter(|_| completion.status == Status::Success) else {
            return;
        };
        match log.state {
            State::Writing => {}
            State::Sparing => return log.state.go(if log.is_begun { State::Idle } else { State::Old }),
            State::Old | State::Idle | State::Flushing | State::Open(_) => return,
        }
        let generation = log.generation;
        log.is_begun = true;
        log.state.go(if log.batch.is_empty() { State::Idle } else { State::Open(log.batch.len()) });
        for slot in log.batch.drain(..) {
            let logged = &mut self.table.slot_mut(slot).round_mut().logged;
            assert!(*logged == Logged::Waits, "a round of a batch is {logged:?}");
            *logged = Logged::Durable(role, generation);
            self.table.run(slot);
        }
    }

    /// Asserts what must hold between events: rounds write when their rows are in the newest header of a log.
    pub(super) fn check_logs(&self) {
        let Some(logs) = &self.ahead.logs else { return };
        for round in self.table.iter().filter_map(|slot| slot.round.as_ref()) {
            if round.phase() != Phase::Writing || round.pending == 0 {
                continue;
            }
            match round.logged {
                Logged::Not | Logged::Journaled(_) | Logged::Refused => {}
                Logged::Waits => panic!("a round writes that is in no log"),
                Logged::Durable(role, generation) => {
                    let log = logs.logs[role].as_ref().filter(|log| log.since <= generation);
                    let newest = log.map_or(generation, |log| log.generation);
                    assert!(
                        newest == generation,
                        "header {newest} before the rounds of {generation} are through"
                    );
                }
            }
        }
    }

    /// Members that failed have no log: what waited for it has no parity to write. True when there was one.
    fn drop_logs(&mut self) -> bool {
        let recorded =
            if self.members.is_broken() { PieceSet::EMPTY } else { self.members.recorded().members };
        let logs = self.ahead.logs.as_mut().expect("an array with logs");
        let mut dropped = false;
        for role in PieceSet::first(logs.logs.len()).without(recorded).iter() {
            let Some(log) = logs.logs[role].take() else { continue };
            dropped = true;
            for slot in log.gathered.into_iter().chain(log.batch) {
                self.table.slot_mut(slot).round_mut().logged = Logged::Not;
                self.table.run(slot);
            }
        }
        dropped
    }
}
