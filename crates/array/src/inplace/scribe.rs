//! Scribe: writes superblocks and bitmap pages, one step at a time, each on all members at once.
//!
//! ```text
//!   level    superblocks of members whose last record was cut off, as the newest is: before the first record
//!   record   [void bitmap: its pages] ─> head with events + 1 ─> superblocks      dirty mark, failures, clean mark
//!   pages    pages with new bits
//!   clear    flush ─> head with events cleared ─> pages without the bits
//!   clean    flush ─> record
//!   admit    bad-block log and all pages of newcomers ─> record, their superblocks before those of others
//!   recover  flush ─> record: how far newcomers are, or that they are whole
//!   change   of the consistency policy: see [`super::policy`]
//!   tail     flush ─> superblock of the journal: what lies before is on the members
//!   tell     flush ─> record: the journal failed
//!   synced   flush ─> record: beside a journal a resync is through
//!   list     flush ─> bad-block logs that say something ─> record ─> logs that say nothing any more
//! ```
//! All of it is written with FUA. Events of the head come before those of the superblocks, so that a crash between them never
//! leaves a bitmap which counts as old. Members whose events are one apart count as fresh, those two apart as stale: so nobody is one
//! behind when a record begins, or a crash in it would leave members out that missed nothing. Steps come in this order of urgency; a failure that a step meets is recorded by the next.
//!
//! *Replacements* come first in each record, before other newcomers those that are whole. As long as the array is not clean their superblocks are [`block::md::assembly::REPLACEMENT_BEHIND`] updates
//! behind: md would read them, and spoil parities on them, as it resyncs.

mod records;
mod step;
mod writing;

use super::Effects;
use super::core::Core;
use super::journal::Journal;
use super::places::Places;
use base::pieces::PieceSet;
use base::time::{Instant, Nanos};
use block::device::Status;
use block::md::Role;
use block::md::assembly::REPLACEMENT_BEHIND;
use block::md::reader::ROW_SECTORS;
use block::md::superblock::Superblock;
pub use records::Roster;
use step::Step;

/// Time without writes after which the array is marked clean, as md's `safe_mode_delay`.
const CLEAN_AFTER: Nanos = Nanos::from_micros(200_000);
const SECOND: u64 = 1_000_000_000;

/// Dirty mark as the members have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No data may be written.
    Clean,
    /// Data may be written.
    Dirty,
    /// One or the other.
    Unsure,
}

/// Record under way.
#[derive(Clone, Copy, Debug)]
struct Record {
    is_dirty: bool,
    /// Roles without a member.
    absent: PieceSet,
    /// Newcomers that are named for the first time.
    joining: Places,
    /// Newcomers that are whole.
    whole: Places,
    /// Roles whose replacement is named.
    named: PieceSet,
    /// Devices whose superblocks are written before those of all others.
    first: Places,
    /// It is one of those that are owed.
    is_owed: bool,
}

impl Record {
    /// Members that are none any more, for their replacement is whole.
    fn replaced(&self) -> PieceSet {
        self.whole.replacements
    }

    /// Roles whose replacement is named, as that or as the member.
    fn of_replacements(&self) -> PieceSet {
        self.named.or(self.whole.replacements)
    }
}

/// State of the superblocks.
#[derive(Debug)]
pub struct Scribe {
    pub(super) roster: Roster,
    /// Events that were written last.
    events: u64,
    /// Time of the engine's zero in seconds since 1970.
    began: u64,
    mark: Mark,
    /// Superblocks were written since the start: they say which members are missing.
    is_owner: bool,
    /// A member failed since the start.
    has_failure: bool,
    /// Roles without a member, as the superblocks say.
    recorded: PieceSet,
    /// Roles whose replacement superblocks name.
    named: PieceSet,
    /// Records that have to begin from now on, whatever they say: for a member failed whose role is not vacant, or for some device may
    /// hold one that is as new as the next.
    owed: u8,
    step: Step,
    record: Record,
    pending: u32,
    /// Rounds that write.
    writers: usize,
    /// Rounds that wrote since the start, those under way included.
    begun: u64,
    /// The same when the flush before a clean mark began: what came later is not flushed.
    flushed: u64,
    idle_since: Instant,
    next_tick: Instant,
    /// Regions whose bits are about to be cleared.
    clearing: Vec<u64>,
    /// Failures and bad blocks were recorded, or nothing is any more: answers that wait for that may go.
    has_told: bool,
}

impl Scribe {
    /// Superblocks as the members have them; `began` is the time of the engine's zero in seconds since 1970.
    #[must_use]
    pub fn new(superblocks: Vec<Option<Superblock>>, events: u64, is_clean: bool, began: u64) -> Scribe {
        let nobody = PieceSet::EMPTY;
        Scribe {
            roster: Roster::new(superblocks),
            events,
            began,
            mark: if is_clean { Mark::Clean } else { Mark::Dirty },
            is_owner: false,
            has_failure: false,
            recorded: nobody,
            named: nobody,
            owed: 0,
            step: Step::Rest,
            record: Record {
                is_dirty: false,
                absent: nobody,
                joining: Places::EMPTY,
                whole: Places::EMPTY,
                named: nobody,
                first: Places::EMPTY,
                is_owed: false,
            },
            pending: 0,
            writers: 0,
            begun: 0,
            flushed: 0,
            idle_since: Instant(0),
            next_tick: Instant(0),
            clearing: Vec::new(),
            has_told: false,
        }
    }

    /// True when answers that wait for a record may go, since this was asked last.
    pub(super) fn take_told(&mut self) -> bool {
        std::mem::take(&mut self.has_told)
    }

    /// Events that were written last.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Dirty mark.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// True when nothing is being written.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.step == Step::Rest
    }

    /// True when data may be written.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_owner && self.mark == Mark::Dirty
    }

    /// True when these members are missing, or others than these replacements are named, and superblocks have to say so: once this
    /// engine wrote any, or since one failed.
    #[inline]
    #[must_use]
    pub fn lacks(&self, absent: PieceSet, replacements: PieceSet) -> bool {
        let is_wrong =
            !absent.without(self.recorded).is_empty() || !self.named.without(replacements).is_empty();
        (self.is_owner || self.has_failure) && (is_wrong || self.owed > 0)
    }

    /// Superblocks name these replacements at the start.
    pub fn set_named(&mut self, replacements: PieceSet) {
        self.named = replacements;
    }

    /// Superblocks name a replacement as the member.
    pub(super) fn note_completed(&mut self, member: Role) {
        self.named = self.named.without(PieceSet::one(member.index()));
    }

    /// A member failed: the superblocks of the others have to say so, whether or not anything is written.
    pub fn note_failure(&mut self) {
        self.has_failure = true;
    }

    /// A member failed, and its replacement has the role: superblocks have to say that it is another device.
    pub(super) fn note_replaced(&mut self) {
        self.owed = self.owed.saturating_add(1);
    }

    /// The steps of a change of the policy begin.
    pub(super) fn begin_change(&mut self) {
        assert!(self.pending == 0, "a change in the middle of {:?}", self.step);
        self.step.go(Step::Change);
    }

    /// They are through, or given up.
    pub(super) fn end_change(&mut self) {
        assert!(self.step == Step::Change, "a change that ends in the middle of {:?}", self.step);
        self.step.go(Step::Rest);
    }

    /// A member was asked something that belongs to the step under way.
    pub(super) fn await_answer(&mut self) {
        assert!(self.step != Step::Rest, "a member is asked something while no superblock is written");
        self.pending += 1;
    }

    /// Events of the next update, which is about to be written.
    pub(super) fn next_events(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Rounds that write.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.writers
    }

    /// A round is about to write.
    pub fn begin_writing(&mut self) {
        assert!(self.begun >= self.flushed, "{} rounds were flushed of {}", self.flushed, self.begun);
        self.writers += 1;
        self.begun += 1;
    }

    /// A round that wrote is through.
    ///
    /// # Panics
    /// When there is none.
    pub fn end_writing(&mut self, now: Instant) {
        assert!(self.writers > 0, "a round that wrote ends once");
        self.writers -= 1;
        self.idle_since = now;
    }
}

impl Scribe {
    /// A replacement that a record names has failed. It may say all the same what it was to say, that it is the member for one, or what
    /// it said of a clean array, one update behind an array that is not: the next record is as new as that, and the one behind it newer.
    fn abandon_record(&mut self) {
        assert!(
            self.pending == 0 && self.events > 0,
            "a record is given up with {} answers to come",
            self.pending
        );
        self.events -= 1;
        self.owed = self.owed.max(2);
        self.step.go(Step::Rest);
    }
}

impl Core {
    /// True when the array is dirty and nothing speaks for it any more.
    pub(super) fn wants_clean_mark(&self) -> bool {
        if self.ahead.is_replaying() {
            return false;
        }
        let is_stopped = self.is_stopping && self.scribe.mark == Mark::Dirty;
        is_stopped || (self.scribe.mark == Mark::Dirty && self.sync.is_whole())
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.scribe.writers == 0 && !self.table.wants_mark()
    }

    /// Time at which something is due.
    pub(super) fn scribe_deadline(&self) -> Option<Instant> {
        // A step under way ends with an answer.
        if self.members.is_broken() || !self.scribe.is_resting() {
            return None;
        }
        let clean = (self.wants_clean_mark() && self.is_idle()).then(|| self.scribe.idle_since + CLEAN_AFTER);
        let tick = self.pages.as_ref().filter(|pages| self.scribe.is_owner && pages.set_count() > 0);
        let tick = tick.map(|_| self.scribe.next_tick);
        [clean, tick, self.recovery_record_at()].into_iter().flatten().min()
    }

    /// An answer to a step.
    pub(super) fn on_written(&mut self, member: Role, status: Status) {
        if status != Status::Success {
            self.fail_member(member);
        }
        assert!(self.scribe.pending > 0, "an answer that nobody waits for");
        self.scribe.pending -= 1;
    }

    /// Ends steps that are through and begins the next; true when something moved.
    pub(super) fn advance_scribe(&mut self, now: Instant, fx: &mut Effects) -> bool {
        if self.scribe.pending > 0 {
            return false;
        }
        if self.members.is_broken() {
            // Nothing is recorded any more: whoever waits is told that it failed.
            let moves = !self.scribe.is_resting() || !self.table.logging().is_empty();
            self.scribe.step = Step::Rest;
            let moves = moves || self.policy.is_changing();
            self.give_change_up();
            self.table.wake_rounds();
            self.scribe.has_told = true;
            return moves;
        }
        if self.scribe.step == Step::Rest {
            return self.choose_step(now, fx);
        }
        self.end_step(now, fx);
        true
    }

    /// Ends the step under way, which is through, and begins the one that follows it.
    fn end_step(&mut self, now: Instant, fx: &mut Effects) {
        match self.scribe.step {
            Step::Rest => unreachable!("a step was under way"),
            Step::Level => {
                self.scribe.roster.lagging = PieceSet::EMPTY;
                self.scribe.roster.has_lagging_journal = false;
                self.scribe.step.go(Step::Rest);
                self.begin_record(self.scribe.record.is_dirty, fx);
            }
            Step::VoidPages => {
                let pages = self.pages.as_mut().expect("a bitmap that is void");
                pages.end();
                pages.end_void();
                self.write_head(fx);
            }
            Step::Head | Step::Replacing | Step::Newcomers => self.end_step_of_record(now, fx),
            Step::Admit => {
                self.scribe.step.go(Step::Rest);
                self.begin_record(self.scribe.mark != Mark::Clean, fx);
            }
            Step::FlushToRecover => {
                self.scribe.step.go(Step::Rest);
                self.members.end_flush();
                self.begin_record(self.scribe.mark != Mark::Clean, fx);
                self.scribe.record.whole = self.completed();
            }
            Step::Superblocks => {
                self.end_record(now);
                if self.bad_blocks.is_resting() {
                    self.scribe.step.go(Step::Rest);
                } else {
                    self.scribe.step.go(Step::ZeroLogs);
                    self.zero_bad_block_logs(fx);
                }
            }
            Step::FlushToList | Step::BadBlockLogs | Step::ZeroLogs => self.end_step_of_lists(fx),
            Step::FlushToTail | Step::Tail | Step::FlushToTell | Step::FlushToSync => {
                self.end_step_of_journal(fx)
            }
            Step::Change => self.end_step_of_change(fx),
            Step::Pages | Step::ClearPages => {
                self.end_pages();
                self.scribe.step.go(Step::Rest);
                self.table.wake_rounds();
            }
            Step::FlushToClear | Step::ClearHead => {
                self.clear_bits(fx);
            }
            Step::FlushToClean => {
                self.scribe.step.go(Step::Rest);
                self.members.end_flush();
                let is_flushed = self.scribe.flushed == self.scribe.begun;
                if self.is_idle() && is_flushed && !self.has_unrecorded_failure() {
                    self.ahead.journal.iter_mut().for_each(Journal::end_flush);
                    self.scribe.mark = Mark::Unsure;
                    self.begin_record(false, fx);
                }
            }
        }
    }

    /// Ends a step of a record before the last: superblocks go to whole replacements, other newcomers, and all others.
    fn end_step_of_record(&mut self, now: Instant, fx: &mut Effects) {
        let replaced = self.scribe.record.replaced();
        let told = Places::of_replacements(replaced);
        match self.scribe.step {
            Step::Head => {
                self.end_pages();
                self.update_superblocks(now);
                // Nobody says that a member is none any more before its replacement says that it is.
                self.scribe.step.go(Step::Replacing);
                self.write_superblocks(told, fx);
            }
            Step::Replacing if self.members.has_lost_replacement(replaced) => self.scribe.abandon_record(),
            Step::Replacing => {
                self.scribe.step.go(Step::Newcomers);
                self.write_superblocks(self.scribe.record.first.without(told), fx);
            }
            Step::Newcomers if self.members.has_lost_replacement(self.scribe.record.of_replacements()) => {
                self.scribe.abandon_record();
            }
            Step::Newcomers => {
                self.scribe.step.go(Step::Superblocks);
                let others = self.members.recorded().without(self.scribe.record.first);
                self.write_superblocks(others.without(replaced.into()), fx);
                self.write_superblock_of_journal(fx);
            }
            other => unreachable!("{other:?} is no step before superblocks"),
        }
    }

    fn end_step_of_journal(&mut self, fx: &mut Effects) {
        let step = self.scribe.step;
        if step != Step::FlushToTail {
            self.scribe.step.go(Step::Rest);
        }
        match step {
            Step::FlushToTail => {
                self.members.end_flush();
                // Who failed may be believed again after a crash: then it needs what the journal has.
                if self.has_unrecorded_failure() {
                    self.scribe.step.go(Step::Rest);
                } else {
                    let journal = self.ahead.journal.as_mut().expect("an array with a journal");
                    journal.end_flush();
                    let tail = journal.begin_record();
                    self.scribe.roster.set_tail(tail);
                    self.scribe.step.go(Step::Tail);
                    self.write_superblock_of_journal(fx);
                }
            }
            Step::Tail => self.ahead.journal.iter_mut().for_each(Journal::end_record),
            Step::FlushToSync => {
                self.members.end_flush();
                if self.is_sync_untold() && !self.has_unrecorded_failure() {
                    self.ahead.journal.iter_mut().for_each(Journal::end_flush);
                    self.begin_record(true, fx);
                }
            }
            step => {
                assert!(step == Step::FlushToTell, "{step:?} is none of the journal");
                self.members.end_flush();
                if self.wants_telling() {
                    self.ahead.begin_telling();
                    self.begin_record(self.scribe.mark != Mark::Clean, fx);
                }
            }
        }
    }

    fn end_step_of_lists(&mut self, fx: &mut Effects) {
        match self.scribe.step {
            Step::FlushToList => {
                self.members.end_flush();
                self.scribe.step.go(Step::BadBlockLogs);
                self.begin_bad_block_logs(fx);
            }
            Step::BadBlockLogs => {
                self.scribe.step.go(Step::Rest);
                self.begin_record(self.scribe.mark != Mark::Clean, fx);
            }
            step => {
                assert!(step == Step::ZeroLogs, "{step:?} is none of lists");
                self.scribe.step.go(Step::Rest);
                self.bad_blocks.end_bad_block_logs();
                self.scribe.has_told = true;
            }
        }
    }

    fn choose_step(&mut self, now: Instant, fx: &mut Effects) -> bool {
        let may_be_dirty = self.ahead.are_logs_begun() && self.ahead.is_journal_begun();
        let wants_dirty = self.scribe.writers > 0 && !self.scribe.is_ready() && may_be_dirty;
        if wants_dirty || self.scribe.lacks(self.members.absent(), self.members.replacements()) {
            let is_dirty = wants_dirty || self.scribe.mark != Mark::Clean;
            self.begin_record(is_dirty, fx);
            return true;
        }
        if self.begin_steps_of_change(fx) {
            return true;
        }
        if let Some(step) = self.step_of_journal() {
            self.scribe.step.go(step);
            self.ahead.journal.iter_mut().for_each(Journal::begin_flush);
            self.flush_members(fx);
            return true;
        }
        if self.has_unrecorded_bad_blocks() {
            self.scribe.step.go(Step::FlushToList);
            self.bad_blocks.take_bad_block_lists();
            self.flush_members(fx);
            return true;
        }
        if !self.members.waiting().is_empty() && !self.is_stopping {
            // Of an array that is new, nobody can be as far behind as a replacement has to be.
            if !self.members.waiting().replacements.is_empty() && self.scribe.events < REPLACEMENT_BEHIND {
                self.begin_record(self.scribe.mark != Mark::Clean, fx);
                return true;
            }
            self.scribe.step.go(Step::Admit);
            self.admit_newcomers(fx);
            return true;
        }
        if self.recovery_record_at().is_some_and(|at| now >= at) {
            self.scribe.step.go(Step::FlushToRecover);
            self.flush_members(fx);
            return true;
        }
        let has_dirty_pages =
            self.pages.as_ref().is_some_and(|pages| !pages.is_void() && !pages.dirty().is_empty());
        if has_dirty_pages && self.scribe.is_owner {
            self.scribe.step.go(Step::Pages);
            self.write_pages(false, fx);
            return true;
        }
        let is_over =
            self.is_stopping || self.policy.is_draining() || now >= self.scribe.idle_since + CLEAN_AFTER;
        if self.wants_clean_mark() && self.is_idle() && is_over {
            self.scribe.step.go(Step::FlushToClean);
            self.scribe.flushed = self.scribe.begun;
            self.ahead.journal.iter_mut().for_each(Journal::begin_flush);
            self.flush_members(fx);
            return true;
        }
        self.tick_pages(now, fx)
    }

    /// Step that the journal asks for, all of which begin with a flush.
    fn step_of_journal(&self) -> Option<Step> {
        let steps = [
            (self.wants_telling(), Step::FlushToTell),
            (self.is_sync_untold(), Step::FlushToSync),
            (self.wants_tail(), Step::FlushToTail),
        ];
        steps.into_iter().find_map(|(is_wanted, step)| is_wanted.then_some(step))
    }

    /// Ages regions, and begins to clear the bits of those that were left alone.
    fn tick_pages(&mut self, now: Instant, fx: &mut Effects) -> bool {
        let Some(pages) =
            self.pages.as_mut().filter(|_| self.scribe.is_owner && now >= self.scribe.next_tick)
        else {
            return false;
        };
        pages.tick();
        self.scribe.next_tick = now + Nanos(pages.tick_seconds() * SECOND);
        // What a missing member lacks is said by its bits: they stay until it is back.
        if self.members.is_degraded() || pages.is_void() || self.is_stopping {
            return false;
        }
        let is_synced = |region: &u64| {
            let sectors = pages.sectors_of(*region);
            !self.sync.touches(sectors.start / ROW_SECTORS..sectors.end.div_ceil(ROW_SECTORS))
        };
        self.scribe.clearing = pages.quiet().into_iter().filter(is_synced).collect();
        if self.scribe.clearing.is_empty() {
            return false;
        }
        self.scribe.step.go(Step::FlushToClear);
        self.flush_members(fx);
        true
    }

    /// Clears bits once what they stood for is durable: the events before the bits.
    fn clear_bits(&mut self, fx: &mut Effects) {
        let pages = self.pages.as_mut().expect("bits to clear");
        let was_head = self.scribe.step == Step::ClearHead;
        if was_head {
            pages.end();
        }
        if self.members.is_degraded() {
            self.scribe.step.go(Step::Rest);
            return;
        }
        if !was_head && pages.events_cleared() != self.scribe.events {
            pages.set_events(self.scribe.events, self.scribe.events);
            self.scribe.step.go(Step::ClearHead);
            return self.write_page(0, fx);
        }
        pages.clear(&std::mem::take(&mut self.scribe.clearing));
        self.scribe.step.go(Step::ClearPages);
        self.write_pages(false, fx);
    }
}
