//! Journal of RAID-4, 5 and 6, a ring on a device of its own: data and parities of a row lie there before they go to the members.
//!
//! ```text
//!   rounds that may write ─> gathered ─> batch: metadata blocks, data, parities ─> rounds write ─> all of them ended
//!                               ^           durable on the journal                                      │
//!                               └─ room <── tail on the journal's superblock <── flush of members <─────┘
//! ```
//! So no crash leaves a row in part, whichever member is lost with it ([`block::md::replay`](block::md::recovered)): this is md's
//! write-through mode. *One batch is on its way at a time*, in one write with FUA; what gathers meanwhile is the next.
//!
//! *Everything that is written is logged*, for a replay writes what it finds over what members have: what is older must never come last.
//! What is written anew without a change, of a member that is rebuilt or a sector that could not be read, is not.
//!
//! *Parities are logged also where they have no member*: rows of data alone wait in md's stripe cache until all of the journal is read, and
//! where there are more of them than it has stripes the kernel may wait for ever. They are left out where other data of the row
//! cannot be read.
//!
//! *The tail* is the place of the oldest batch with rounds that are not through, or else of the newest batch, for at the tail there has to
//! be a block that counts. It moves when members were flushed and failures are recorded. Where there is no room, rounds wait for it.
//!
//! *At the start* an empty block goes behind what was replayed, with a sequence number that nothing behind it has, then the tail.
//!
//! *A journal that fails* leaves the array read-only: rounds that are not logged fail, those that are go on. When they are through, and
//! flushed, the superblocks of the members say that it failed.

use super::core::{Core, WriteAhead};
use super::plan::Method;
use super::replay::{Replay, Target};
use super::row::Row;
use super::row_set::RowSet;
use super::table::{Kind, Logged, Phase, Round, Slot};
use super::{Effects, kind};
use base::erasure::{ErasureCode, PIECES_MAX};
use base::frame::Frame;
use base::pieces::PieceSet;
use base::units::BLOCK_BYTES;
use base::xor::Block;
use block::device::{Completion, Op, Status};
use block::md::journal::{BLOCK_SECTORS, Draft, Ring, checksum, payload_bytes};
use block::md::reader::ROW_SECTORS;
use block::md::recovered::{JournalEnd, Recovered};
use block::md::superblock::Superblock;
use block::md::{Role, Uuid};
use std::collections::VecDeque;

/// Most rows of a strip where there is a journal: a round has to fit into a batch.
const STRIP_ROWS_MAX: u64 = 16;
/// Most blocks of a batch, unless one round alone has more.
const BATCH_BLOCKS_MAX: usize = 256;
/// Metadata blocks of a round, at most.
const ROUND_HEADS_MAX: u64 = 4;
/// Part of the ring that one round may take, and beyond which the tail is moved without need.
const SHARE: u64 = 4;

/// Rows of a strip beside a journal with so many sectors for data; `None` where not even one row of so many members finds room.
#[must_use]
pub fn strip_rows(data_sectors: u64, members: u64) -> Option<u64> {
    let share = Ring::of(data_sectors).sectors() / SHARE;
    let fits = |rows: &u64| (rows * members + ROUND_HEADS_MAX) * BLOCK_SECTORS <= share;
    std::iter::successors(Some(STRIP_ROWS_MAX), |rows| (*rows > 1).then_some(rows / 2)).find(fits)
}

/// Fewest sectors for data of a journal beside so many members.
#[must_use]
pub fn sectors_min(members: u64) -> u64 {
    SHARE * (members + ROUND_HEADS_MAX) * BLOCK_SECTORS
}

/// State of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// What lies there is from before the start.
    Old,
    /// The empty block behind that is on its way.
    Beginning,
    /// No batch is on its way.
    Idle,
    /// A batch is on its way.
    Writing,
    /// It failed.
    Failed,
}

impl State {
    /// Another state follows.
    fn go(&mut self, next: State) {
        let is_next = matches!(
            (*self, next),
            (State::Old, State::Beginning)
                | (State::Beginning | State::Writing, State::Idle)
                | (State::Idle, State::Writing)
                | (State::Old | State::Beginning | State::Idle | State::Writing, State::Failed)
        );
        assert!(is_next, "the journal goes from {self:?} to {next:?}");
        *self = next;
    }
}

/// What superblocks say of a journal that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// It is being written.
    Telling,
    Recorded,
}

/// Batch that a replay would need.
#[derive(Clone, Copy, Debug)]
struct Batch {
    position: u64,
    number: u64,
    /// Rounds that are not through.
    rounds: usize,
    /// Sectors that a replay may need for parities of rows that have none in it.
    reserve: u64,
}

/// Place of a journal's device.
#[derive(Clone, Copy, Debug)]
struct Place {
    role: Role,
    array: Uuid,
    start: u64,
    ring: Ring,
}

/// See the module.
#[derive(Debug)]
pub struct Journal {
    place: Place,
    state: State,
    told: Told,
    /// Position and sequence number of the next block.
    position: u64,
    sequence: u64,
    /// Batches from the tail on, the oldest first.
    batches: VecDeque<Batch>,
    /// Batches that there were, and those of them that are durable.
    begun: u64,
    durable: u64,
    /// Tail, as superblocks of the journal are written from now on.
    tail: u64,
    /// The same as it is on the journal.
    recorded: u64,
    /// The same of a record that is on its way, and whether it is one of this engine's batches.
    recording: (u64, bool),
    /// The tail on the journal is one of this engine's batches.
    is_open: bool,
    /// Oldest batch that would be needed when a flush under way is through.
    flushing: Option<u64>,
    /// Slots whose rounds wait for the next batch.
    gathered: VecDeque<u32>,
    /// Slots of the batch that is on its way.
    batch: Vec<u32>,
    /// Writes of it that are not answered.
    pending: u32,
    /// What of it is written down: blocks, and the metadata block that is not ended.
    frames: Vec<Frame>,
    draft: Option<(usize, Draft)>,
    spare: Vec<Frame>,
}

impl Journal {
    /// A journal that goes on behind what was replayed. Commands for its device go to `role`.
    #[must_use]
    pub fn new(superblock: &Superblock, role: Role, end: &JournalEnd) -> Journal {
        let device = &superblock.device;
        let ring = Ring::of(device.data_size);
        Journal {
            place: Place { role, array: superblock.array.uuid, start: device.data_offset, ring },
            state: State::Old,
            told: Told::Nothing,
            position: end.position,
            sequence: end.sequence,
            batches: VecDeque::new(),
            begun: 0,
            durable: 0,
            tail: device.recovery_offset,
            recorded: device.recovery_offset,
            recording: (device.recovery_offset, false),
            is_open: false,
            flushing: None,
            gathered: VecDeque::new(),
            batch: Vec::new(),
            pending: 0,
            frames: Vec::new(),
            draft: None,
            spare: Vec::new(),
        }
    }

    /// Commands of its device go to this role, which no member has.
    #[must_use]
    pub fn role(&self) -> Role {
        self.place.role
    }

    /// It fails: nothing is written to it any more.
    pub(super) fn fail(&mut self) {
        self.state.go(State::Failed);
    }

    /// Slots whose rounds wait for it, and wait no more.
    pub(super) fn take_waiting(&mut self) -> Vec<u32> {
        self.gathered.drain(..).chain(self.batch.drain(..)).collect()
    }

    /// True when it failed: nothing can be written any more.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// True when it failed and superblocks do not say so yet.
    #[must_use]
    pub fn is_untold(&self) -> bool {
        self.has_failed() && self.told != Told::Recorded
    }

    /// True when superblocks say that it failed, or are about to.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.told != Told::Nothing
    }

    /// Sectors in use, and all.
    #[must_use]
    pub fn used(&self) -> (u64, u64) {
        let used = if self.is_open { self.place.ring.distance(self.recorded, self.position) } else { 0 };
        (used, self.place.ring.sectors())
    }

    /// Tail that its superblock is about to say.
    pub(super) fn begin_record(&mut self) -> u64 {
        self.recording = (self.tail, self.is_begun());
        self.tail
    }

    /// Its superblock is written.
    pub(super) fn end_record(&mut self) {
        (self.recorded, self.is_open) = self.recording;
        if self.told == Told::Telling {
            self.told = Told::Recorded;
        }
    }

    /// True when no block from before the start would be applied after the next record.
    fn is_begun(&self) -> bool {
        !matches!(self.state, State::Old | State::Beginning)
    }

    /// Oldest batch that is needed, of those that are durable.
    fn oldest(&self) -> Option<Batch> {
        let durable = || self.batches.iter().filter(|batch| batch.number <= self.durable);
        durable().find(|batch| batch.rounds > 0).or(durable().next_back()).copied()
    }

    /// Members are about to be flushed: what was written until now may go.
    pub(super) fn begin_flush(&mut self) {
        self.flushing = self.oldest().map(|batch| batch.number);
    }

    /// Members were flushed.
    pub(super) fn end_flush(&mut self) {
        let Some(oldest) = self.flushing.take() else { return };
        while self.batches.front().is_some_and(|batch| batch.number < oldest) {
            self.batches.pop_front();
        }
        self.tail = self.batches.front().expect("a batch that is needed").position;
    }

    /// A round of a batch is through.
    pub(super) fn end_round(&mut self, number: u64) {
        let batch = self.batches.iter_mut().find(|batch| batch.number == number);
        let batch = batch.expect("a batch stays until its rounds are through");
        assert!(batch.rounds > 0, "more rounds than a batch has");
        batch.rounds -= 1;
    }

    fn push_batch(&mut self, position: u64, rounds: usize, reserve: u64) {
        self.begun += 1;
        self.batches.push_back(Batch { position, number: self.begun, rounds, reserve });
    }

    /// True when so many sectors more find room, and what a replay may add too: head and tail never meet.
    fn has_room(&self, sectors: u64) -> bool {
        let (used, all) = self.used();
        let reserve: u64 = self.batches.iter().map(|batch| batch.reserve).sum();
        used + reserve + sectors < all
    }

    /// Ends the metadata block that is being written down, if there is one.
    fn end_head(&mut self) {
        let Some((at, draft)) = self.draft.take() else { return };
        draft.finish(self.place.array, self.sequence, self.position, &mut self.frames[at].data);
        self.sequence += 1;
        self.position = self.place.ring.after(self.position, draft.sectors());
    }

    /// Makes room for a row with payloads of so many bytes, which stay together.
    fn begin_row(&mut self, bytes: usize) {
        if self.draft.is_some_and(|(_, draft)| draft.has_room(bytes)) {
            return;
        }
        self.end_head();
        let mut head = self.take_frame();
        let draft = Draft::begin(&mut head.data);
        assert!(draft.has_room(bytes), "{bytes} bytes of payloads for a row");
        self.draft = Some((self.frames.len(), draft));
        self.frames.push(head);
    }

    /// Metadata block of the row that is being written down.
    fn head(&mut self) -> (&mut Draft, &mut Block) {
        let (at, draft) = self.draft.as_mut().expect("a row was begun");
        (draft, &mut self.frames[*at].data)
    }

    /// A block of a row, and its checksum.
    fn push_block(&mut self, frame: Frame) -> u32 {
        let sum = checksum(self.place.array, &frame.data);
        self.frames.push(frame);
        sum
    }

    fn take_frame(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(Frame::zeroed)
    }

    /// Writes blocks from a position on, in two pieces where the ring ends between them.
    fn write(&mut self, position: u64, mut frames: Vec<Frame>, fx: &mut Effects) {
        let before_end = usize::try_from((self.place.ring.sectors() - position) / BLOCK_SECTORS);
        let rest = frames.split_off(frames.len().min(before_end.unwrap_or(usize::MAX)));
        for (position, frames) in [(position, frames), (0, rest)] {
            if !frames.is_empty() {
                let op = Op::Write { sector: self.place.start + position, frames, durable: true };
                self.pending += 1;
                fx.command(self.place.role, kind::JOURNAL, 0, op);
            }
        }
    }
}

/// What a replay has to write: parities to the journal, behind a block that is void, then pieces to the members. Where
/// something may be in the caches of members they are flushed in any case.
#[must_use]
pub fn replay_of(journal: Option<&Journal>, recovered: &mut Recovered, may_be_cached: bool) -> Replay {
    let mut stages = Vec::new();
    if let (Some(journal), Some(end)) = (journal, &mut recovered.journal)
        && !end.appended.is_empty()
    {
        let Place { role, start, .. } = journal.place;
        let target = |position: u64| Target { member: role, sector: start + position, is_journal: true };
        stages.push(vec![(target(end.position), Box::new([0; BLOCK_BYTES]))]);
        let appended = std::mem::take(&mut end.appended).into_iter();
        stages.push(appended.map(|(position, block)| (target(position), block)).collect());
    }
    let pieces = std::mem::take(&mut recovered.pieces).into_iter();
    let of_member = |(member, row, content): (Role, block::md::reader::Row, Box<Block>)| {
        (Target { member, sector: row.0, is_journal: false }, content)
    };
    stages.push(pieces.map(of_member).collect());
    Replay::new(journal.map(Journal::role), stages, may_be_cached)
}

impl WriteAhead {
    pub(super) fn has_journal_failed(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::has_failed)
    }

    /// True when the array's journal failed and the superblocks do not say so.
    pub(super) fn is_journal_untold(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_untold)
    }

    /// Superblocks are about to say that the journal failed.
    pub(super) fn begin_telling(&mut self) {
        let journal = self.journal.as_mut().expect("an array with a journal");
        assert!(journal.has_failed() && journal.told == Told::Nothing, "{:?}", journal.told);
        journal.told = Told::Telling;
    }

    /// True when nothing that the journal said before the start can be applied after the array is marked dirty.
    pub(super) fn is_journal_begun(&self) -> bool {
        self.journal.as_ref().is_none_or(Journal::is_begun)
    }

    /// True when the journal has nothing on its way.
    pub(super) fn is_journal_resting(&self) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.pending == 0 && journal.gathered.is_empty())
    }

    /// True when several rounds with so many blocks may be one batch: the newest one stays in the ring, and leaves room for
    /// others. There are many blocks to a metadata block.
    fn fits_batch(&self, blocks: usize) -> bool {
        let journal = self.journal.as_ref().expect("an array with a journal");
        let heads = u64::try_from(blocks / 8).expect("at most 1024") + ROUND_HEADS_MAX;
        let sectors = (u64::try_from(blocks).expect("at most 1024") + heads) * BLOCK_SECTORS;
        let (_, all) = journal.used();
        blocks <= BATCH_BLOCKS_MAX && sectors <= all / SHARE && journal.has_room(sectors)
    }
}

impl Core {
    /// True when nothing can be written: too many members are missing, or the journal failed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.members.is_broken() || self.ahead.has_journal_failed()
    }

    /// True when members have to know that the journal failed, and all that it had is on them but for a flush.
    pub(super) fn wants_telling(&self) -> bool {
        let is_untold =
            self.ahead.journal.as_ref().is_some_and(|journal| journal.is_untold() && !journal.is_told());
        is_untold && !self.ahead.is_replaying() && self.scribe.writers() == 0
    }

    /// True when all parities have come to be right, and superblocks do not say so: after a crash they would be taken for wrong,
    /// though the journal keeps them right. Clients that never pause must not put that off as they do the clean mark.
    pub(super) fn is_sync_untold(&self) -> bool {
        let has_journal = self.ahead.journal.as_ref().is_some_and(|journal| !journal.has_failed());
        has_journal && self.scribe.is_ready() && self.sync.is_whole() && !self.scribe.roster.says_clean()
    }

    /// True when the journal's superblock should have another tail.
    pub(super) fn wants_tail(&self) -> bool {
        let Some(journal) = self.ahead.journal.as_ref().filter(|journal| journal.is_begun()) else {
            return false;
        };
        if journal.has_failed() || self.members.is_broken() || self.has_unrecorded_failure() {
            return false;
        }
        let Some(oldest) = journal.oldest() else { return false };
        let (used, sectors) = journal.used();
        let is_late = used > sectors / SHARE || (!journal.gathered.is_empty() && !self.has_room());
        (journal.is_open && is_late && oldest.position != journal.recorded)
            || (!journal.is_open && !journal.gathered.is_empty())
    }

    /// True when rows of a round are in the journal before they are on members.
    fn is_journaled(&self, slot: u32) -> bool {
        let slot = self.table.slot(slot);
        let round = slot.round.as_ref().expect("a round is logged");
        assert!(round.kind != Kind::Zero, "whole stripes are not made zeros beside a journal");
        round.rows.iter().any(|(place, row)| self.is_logged_row(slot, place, row))
    }

    /// True when a row of a round goes to the journal.
    fn is_logged_row(&self, slot: &Slot, place: u16, row: &Row) -> bool {
        if row.is_lost {
            return false;
        }
        let ignored = match slot.round.as_ref().map(|round| round.kind) {
            // What could not be read is written as a replay would write it.
            None | Some(Kind::Read) => return false,
            // The same goes for what members that are rebuilt get. Other parities may have been in doubt.
            Some(Kind::Rebuild) => {
                let rebuilt = self.members.rebuilt_in(self.map.row_of(slot.strip, place));
                self.map.order(slot.strip).pieces_of(rebuilt)
            }
            Some(Kind::Write | Kind::Zero | Kind::Resync | Kind::Scrub) => PieceSet::EMPTY,
        };
        !row.new.pieces().without(ignored).is_empty()
    }

    /// A round is about to write: it waits for the journal, unless nothing of it has to be there.
    pub(super) fn gather_for_journal(&mut self, slot: u32) {
        if self.members.is_broken() || !self.is_journaled(slot) {
            return;
        }
        let journal = self.ahead.journal.as_mut().expect("an array with a journal");
        let logged = if journal.has_failed() {
            Logged::Refused
        } else {
            journal.gathered.push_back(slot);
            Logged::Waits
        };
        self.table.slot_mut(slot).round_mut().logged = logged;
    }

    /// Blocks of a round in the journal, its metadata blocks left out.
    fn blocks_of(&self, slot: u32) -> usize {
        let slot = self.table.slot(slot);
        let round = slot.round.as_ref().expect("a round is logged");
        let parities = usize::from(self.map.geometry().parities());
        let rows = round.rows.iter().filter(|(place, row)| self.is_logged_row(slot, *place, row));
        rows.map(|(_, row)| row.new.pieces().count() + parities).sum()
    }

    /// True when the round that waits first finds room.
    fn has_room(&self) -> bool {
        let journal = self.ahead.journal.as_ref().expect("an array with a journal");
        let blocks = journal.gathered.front().map_or(0, |slot| self.blocks_of(*slot));
        let sectors = (u64::try_from(blocks).expect("at most 512") + ROUND_HEADS_MAX) * BLOCK_SECTORS;
        journal.has_room(sectors)
    }

    /// Begins the journal, or its next batch; true when something moved.
    pub(super) fn advance_journal(&mut self, fx: &mut Effects) -> bool {
        if self.members.is_broken() {
            return self.let_waiting_go();
        }
        let is_wanted = self.scribe.writers() > 0;
        let has_room = self.ahead.journal.is_some() && self.has_room();
        let Some(journal) = &mut self.ahead.journal else { return false };
        match journal.state {
            State::Old if is_wanted || !journal.gathered.is_empty() => {
                journal.state.go(State::Beginning);
                let position = journal.position;
                journal.push_batch(position, 0, 0);
                journal.begin_row(0);
                journal.end_head();
                let frames = std::mem::take(&mut journal.frames);
                journal.write(position, frames, fx);
                true
            }
            State::Idle if journal.is_open && !journal.gathered.is_empty() && has_room => {
                self.begin_batch_of_journal(fx);
                true
            }
            State::Old | State::Beginning | State::Idle | State::Writing | State::Failed => false,
        }
    }

    fn begin_batch_of_journal(&mut self, fx: &mut Effects) {
        let journal = self.ahead.journal.as_mut().expect("a journal that is idle");
        assert!(journal.pending == 0, "a batch while one is on its way");
        assert!(journal.batch.is_empty() && journal.frames.is_empty(), "a batch that is written down");
        journal.state.go(State::Writing);
        journal.frames = self.stock.pool().take_empty();
        let position = journal.position;
        let (mut bare, mut blocks) = (0, 0);
        while let Some(slot) =
            self.ahead.journal.as_ref().and_then(|journal| journal.gathered.front().copied())
        {
            blocks += self.blocks_of(slot);
            let journal = self.ahead.journal.as_ref().expect("asked above");
            if !journal.batch.is_empty() && !self.ahead.fits_batch(blocks) {
                break;
            }
            bare += self.write_rows_down(slot);
            let journal = self.ahead.journal.as_mut().expect("asked above");
            journal.gathered.pop_front();
            journal.batch.push(slot);
        }
        let parities = usize::from(self.map.geometry().parities());
        let reserve = if bare > 0 { bare * parities + 1 } else { 0 };
        let journal = self.ahead.journal.as_mut().expect("asked above");
        journal.end_head();
        let reserve = u64::try_from(reserve).expect("at most 1024") * BLOCK_SECTORS;
        journal.push_batch(position, journal.batch.len(), reserve);
        let frames = std::mem::take(&mut journal.frames);
        self.counters.journaled += u64::try_from(frames.len()).expect("a batch fits memory");
        journal.write(position, frames, fx);
    }

    /// Writes the rows of a round down, as they go to the journal; of so many there are no parities.
    fn write_rows_down(&mut self, number: u32) -> usize {
        let rows: RowSet = {
            let slot = self.table.slot(number);
            let round = slot.round.as_ref().expect("a round is logged");
            let rows = round.rows.iter().filter(|(place, row)| self.is_logged_row(slot, *place, row));
            rows.map(|(place, _)| place).collect()
        };
        rows.iter().filter(|place| !self.write_row_down(number, *place)).count()
    }

    /// Writes a row down; false when it goes without parities.
    fn write_row_down(&mut self, number: u32, place: u16) -> bool {
        let slot = self.table.slot(number);
        let (strip, order) = (slot.strip, self.map.order(slot.strip));
        let row = slot.round.as_ref().and_then(|round| round.rows.get(place)).expect("a row that is logged");
        let has_parities = row.method != Some(Method::Direct);
        let (data, parities) = (order.code.data_count(), order.code.parity_count());
        let written = row.new.pieces().and(PieceSet::first(data)).count();
        let journal = self.ahead.journal.as_mut().expect("an array with a journal");
        let of_parities = if has_parities { payload_bytes(parities) } else { 0 };
        journal.begin_row(written * payload_bytes(1) + of_parities);
        for chunk in 0..self.map.geometry().data_chunks() {
            let Some(content) = row.new.get(order.piece(chunk)) else { continue };
            let mut frame = journal.take_frame();
            frame.set_data(content);
            let sum = journal.push_block(frame);
            let (draft, head) = journal.head();
            draft.push_data(head, self.map.lba(strip, place, chunk).0 * ROW_SECTORS, &[sum]);
        }
        if !has_parities {
            return false;
        }
        let mut sums = [0; 2];
        for (parity, sum) in sums.iter_mut().enumerate().take(parities) {
            let mut frame = journal.take_frame();
            match row.new.get(data + parity) {
                Some(content) => frame.set_data(content),
                None => encode(&order.code, parity, row, &mut frame.data),
            }
            *sum = journal.push_block(frame);
        }
        let (draft, head) = journal.head();
        let sector = self.map.row_of(strip, place) * ROW_SECTORS;
        draft.push_parity(head, sector, &sums[..parities]);
        true
    }

    /// The journal has answered.
    pub(super) fn on_journaled(&mut self, completion: Completion) {
        let journal = self.ahead.journal.as_mut().expect("an array with a journal");
        assert!(journal.pending > 0, "a block of the journal that nobody wrote");
        journal.pending -= 1;
        let mut frames = completion.frames;
        journal.spare.append(&mut frames);
        self.stock.pool().give_empty(frames);
        if completion.status != Status::Success {
            self.fail_journal();
            return;
        }
        if journal.pending > 0 {
            return;
        }
        if journal.state != State::Failed {
            journal.durable = journal.begun;
        }
        match journal.state {
            State::Failed => {}
            State::Beginning => {
                journal.state.go(State::Idle);
                journal.tail = journal.batches.front().expect("the empty block").position;
            }
            State::Writing => {
                journal.state.go(State::Idle);
                let number = journal.begun;
                for slot in journal.batch.drain(..) {
                    let logged = &mut self.table.slot_mut(slot).round_mut().logged;
                    assert!(*logged == Logged::Waits, "a round of a batch is {logged:?}");
                    *logged = Logged::Journaled(number);
                    self.table.run(slot);
                }
            }
            State::Old | State::Idle => unreachable!("an answer while the journal is {:?}", journal.state),
        }
    }

    /// Asserts what must hold between events: rounds write when their rows are in a batch that the tail has not passed.
    pub(super) fn check_journal(&self) {
        let Some(journal) = &self.ahead.journal else { return };
        let is_writing = |round: &Round| round.phase() == Phase::Writing && round.pending > 0;
        for round in
            self.table.iter().filter_map(|slot| slot.round.as_deref()).filter(|round| is_writing(round))
        {
            match round.logged {
                Logged::Journaled(number) => {
                    let is_there = journal.batches.iter().any(|batch| batch.number == number);
                    assert!(is_there && journal.is_open, "the tail has passed batch {number}");
                }
                Logged::Not => assert!(
                    matches!(round.kind, Kind::Read | Kind::Rebuild),
                    "a round writes that is not in the journal: {:?}",
                    round.kind
                ),
                other => panic!("a round writes, and is {other:?}"),
            }
        }
        let (used, all) = journal.used();
        assert!(used < all, "{used} sectors of {all}");
    }
}

/// Parity of a row as it will be.
fn encode(code: &ErasureCode, parity: usize, row: &Row, into: &mut Block) {
    const NONE: Block = [0; BLOCK_BYTES];
    let mut data = [&NONE; PIECES_MAX];
    for (piece, block) in data.iter_mut().enumerate().take(code.data_count()) {
        *block = row.new.get(piece).unwrap_or_else(|| row.old.block(piece));
    }
    code.encode(parity, &data[..code.data_count()], into);
}
