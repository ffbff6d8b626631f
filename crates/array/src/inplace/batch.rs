//! Batch of a partial parity log: which rows of which rounds its header names, and what lies behind it.
//!
//! ```text
//!   header   entries of rounds: rows of one strip that change the same chunks, one behind the other
//!            entries of rows in doubt │ witness │ mark
//!   behind   partial parities in the order of the entries, the block of the witness
//! ```
//! Partial parity is the sum of the data that a write leaves alone: the new parity without the new data, however it was computed.
//! Of a whole stripe, and where parities do not follow from partial parity, there is none: a replay adds up all data.

use super::core::{Core, WriteAhead};
use super::few::Few;
use super::logs::Log;
use super::map::{Order, Strip};
use super::plan::Method;
use super::row::Row;
use super::table::{Kind, Slot};
use base::checksum::{crc32c, crc32c_of_pieces};
use base::frame::Frame;
use base::pieces::PieceSet;
use base::units::BLOCK_BYTES;
use base::xor::{Block, xor_blocks};
use block::md::Role;
use block::md::ppl::witness::{self, sum_of};
use block::md::ppl::{ENTRIES_MAX, Entry, HEADER_BYTES, Origin};
use block::md::reader::ROW_SECTORS;

/// Most runs of rows in doubt that the headers of one member name.
pub const STANDING_MAX: usize = 40;
/// Most entries for rounds: a witness and a mark have to fit too.
const RUNS_MAX: usize = ENTRIES_MAX - STANDING_MAX - 2;

/// Rows of a round that have one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    first: u16,
    rows: u16,
    shape: Shape,
}

/// What rows of an entry have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// First data chunk that is modified, and how many.
    chunk: u16,
    chunks: u16,
    /// There is no partial parity: a replay adds up all data.
    is_whole: bool,
    /// The witness has sums of it.
    has_sums: bool,
}

impl Run {
    fn pieces(&self) -> usize {
        usize::from(self.shape.chunks) + 1
    }

    fn words(&self) -> usize {
        if self.shape.has_sums { witness::words_of(self.pieces()) } else { 0 }
    }

    fn blocks(&self) -> usize {
        if self.shape.is_whole { 0 } else { usize::from(self.rows) }
    }
}

/// Batch that is about to be written.
pub(super) struct Batch {
    pub generation: u64,
    /// Header, and what lies behind it.
    pub frames: Vec<Frame>,
    /// There is a witness.
    pub has_witness: bool,
}

/// Piece of a data chunk.
fn piece_of(order: &Order, chunk: usize) -> usize {
    order.piece(u16::try_from(chunk).expect("at most 31"))
}

/// What a batch holds so far.
#[derive(Debug, Default)]
pub(super) struct Filling {
    /// Slots whose rounds wait for it.
    pub slots: Vec<u32>,
    /// Their rows.
    runs: Vec<(u32, Run)>,
    /// Entries of the header.
    entries: Vec<Entry>,
    blocks: usize,
    words: usize,
}

impl Filling {
    /// Takes the rows of a round, which are the last of the runs from `from` on; false when they do not fit any more.
    fn take(&mut self, slot: u32, from: usize, blocks_max: usize) -> bool {
        let of_round = || self.runs[from..].iter().map(|(_, run)| run);
        let blocks = self.blocks + of_round().map(Run::blocks).sum::<usize>();
        let words = self.words + of_round().map(Run::words).sum::<usize>();
        let fits = self.runs.len() <= RUNS_MAX
            && witness::has_room(words)
            && blocks + usize::from(words > 0) <= blocks_max;
        assert!(!self.slots.contains(&slot), "round of slot {slot} is in one batch once");
        if fits {
            self.slots.push(slot);
            (self.blocks, self.words) = (blocks, words);
        } else {
            self.runs.truncate(from);
        }
        fits
    }

    /// Ready for the next batch.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.runs.clear();
        self.entries.clear();
        (self.blocks, self.words) = (0, 0);
    }
}

impl WriteAhead {
    fn log_of(&mut self, role: usize) -> &mut Log {
        self.logs.as_mut().expect("an array with logs").log_mut(role)
    }

    /// Spare header of the next generation with these entries, which come back.
    pub(super) fn spare_header(&mut self, entries: Vec<Entry>) -> (Frame, Vec<Entry>) {
        let mut frame = self.log_frame();
        let logs = self.logs.as_mut().expect("an array with logs");
        let header = logs.next_header(entries, logs.origin);
        header.encode(&mut frame.data);
        (frame, header.entries)
    }

    fn log_frame(&mut self) -> Frame {
        self.logs.as_mut().expect("an array with logs").take_frame()
    }
}

impl Core {
    /// Member whose log has the rows of a strip: the one with the parity.
    pub(super) fn logging_member(&self, strip: Strip) -> usize {
        self.map.order(strip).members[self.map.data_count()].index()
    }

    /// True when a round writes parities of rows that its member has.
    pub(super) fn has_logged_rows(&self, number: u32) -> bool {
        let slot = self.table.slot(number);
        let round = slot.round.as_ref().expect("a round is logged");
        let role = self.logging_member(slot.strip);
        let counts = |place: u16| self.members.counting(self.map.row_of(slot.strip, place)).contains(role);
        let data = self.map.data_count();
        let is_logged =
            |(place, row): (u16, &Row)| !row.is_lost && row.new.pieces().contains(data) && counts(place);
        let has_zeros = || (0..self.strip_rows_count()).any(counts);
        (round.kind == Kind::Zero && has_zeros()) || round.rows.iter().any(is_logged)
    }

    fn strip_rows_count(&self) -> u16 {
        u16::try_from(self.map.strip_rows()).expect("at most 128")
    }

    /// Adds the rows of a round whose parities are written.
    fn push_runs(&self, number: u32, runs: &mut Vec<(u32, Run)>) {
        let slot = self.table.slot(number);
        let round = slot.round.as_ref().expect("a round is logged");
        let data = self.map.data_count();
        let role = self.logging_member(slot.strip);
        let counts = |place: &u16| self.members.counting(self.map.row_of(slot.strip, *place)).contains(role);
        let mut push = |place: u16, shape: Shape| match runs.last_mut() {
            Some((of, last)) if *of == number && last.first + last.rows == place && last.shape == shape => {
                last.rows += 1;
            }
            _ => runs.push((number, Run { first: place, rows: 1, shape })),
        };
        if round.kind == Kind::Zero {
            let chunks = u16::try_from(data).expect("at most 31");
            let shape = Shape { chunk: 0, chunks, is_whole: true, has_sums: true };
            (0..self.strip_rows_count()).filter(counts).for_each(|place| push(place, shape));
        }
        for (place, row) in round.rows.iter().filter(|(place, row)| !row.is_lost && counts(place)) {
            if row.new.pieces().contains(data) {
                push(place, self.shape_of(slot, place, row));
            }
        }
    }

    fn shape_of(&self, slot: &Slot, place: u16, row: &Row) -> Shape {
        let data = self.map.data_count();
        let is_write = slot.round.as_ref().is_some_and(|round| round.kind == Kind::Write);
        let is_right = self.sync.is_right(self.map.row_of(slot.strip, place));
        let held = row.new.pieces().or(row.old.pieces());
        if !is_write || !is_right || row.written.count() == data {
            // A parity that was in doubt and changed by differences stays in doubt.
            let has_sums = row.method != Some(Method::Modify) || is_right;
            let has_all = PieceSet::first(data).without(held).is_empty();
            let chunks = u16::try_from(data).expect("at most 31");
            return Shape { chunk: 0, chunks, is_whole: true, has_sums: has_sums && has_all };
        }
        let order = self.map.order(slot.strip);
        let written = |chunk: &usize| row.written.contains(piece_of(order, *chunk));
        let written: PieceSet = (0..data).filter(written).collect();
        let (first, count) = (written.iter().next().expect("a row that is written"), written.count());
        assert!((first..first + count).all(|chunk| written.contains(chunk)), "chunks apart: {written:?}");
        let of = |count: usize| u16::try_from(count).expect("at most 31");
        let (chunk, chunks) = (of(first), of(count));
        Shape { chunk, chunks, is_whole: false, has_sums: chunks > 1 }
    }

    /// The next batch of a member: rounds in order, as many as fit.
    pub(super) fn next_batch(&mut self, role: usize, filling: &mut Filling) -> Batch {
        let blocks_max = self.ahead.log_of(role).blocks_max();
        while let Some(slot) = self.ahead.log_of(role).gathered.front().copied() {
            let from = filling.runs.len();
            self.push_runs(slot, &mut filling.runs);
            if !filling.take(slot, from, blocks_max) {
                break;
            }
            self.ahead.log_of(role).gathered.pop_front();
        }
        let gathers = !self.ahead.log_of(role).gathered.is_empty();
        assert!(!gathers || !filling.slots.is_empty(), "a round that fits no batch");
        self.write_down(role, filling)
    }

    /// Header of a batch and what lies behind it.
    fn write_down(&mut self, role: usize, filling: &mut Filling) -> Batch {
        let parity_member = u32::try_from(role).expect("at most 32");
        let mut frames = self.stock.pool().take_empty();
        frames.push(self.ahead.log_frame());
        let mut witness = (filling.words > 0).then(|| {
            let mut frame = self.ahead.log_frame();
            (witness::Draft::begin(&mut frame.data), frame)
        });
        let entries = &mut filling.entries;
        for (slot, run) in &filling.runs {
            let start = frames.len();
            self.push_partial(*slot, run, &mut frames);
            assert!(
                frames.len() - start == run.blocks(),
                "{} blocks of partial parity for {} rows",
                frames.len() - start,
                run.rows
            );
            let checksum = crc32c_of_pieces(frames[start..].iter().map(|frame| &frame.data));
            if let Some((draft, frame)) = witness.as_mut().filter(|_| run.shape.has_sums) {
                let entry = u32::try_from(entries.len()).expect("at most 148");
                draft.push(&mut frame.data, entry, &self.sums_of(*slot, run));
            }
            entries.push(Entry { checksum, ..self.entry(self.table.slot(*slot).strip, run, parity_member) });
        }
        entries.extend(self.standing(role, &filling.runs));
        let has_witness = witness.is_some();
        if let Some((draft, mut frame)) = witness {
            draft.finish(&mut frame.data);
            entries.push(Entry::witness(parity_member, crc32c(&frame.data)));
            frames.push(frame);
        }
        if self.sync.log_says_doubt() || entries.is_empty() {
            entries.push(Entry::mark(parity_member, self.sync.log_says_doubt()));
        }
        assert!(entries.len() <= ENTRIES_MAX, "{} entries of a header of {ENTRIES_MAX}", entries.len());
        let logs = self.ahead.logs.as_mut().expect("an array with logs");
        let header = logs.next_header(std::mem::take(entries), Origin::default());
        header.encode(&mut frames[0].data);
        *entries = header.entries;
        Batch { generation: header.generation, frames, has_witness }
    }

    /// True when the spare header of a member, with these entries, says all that a header says which has no rounds.
    pub(super) fn is_spare_told(&self, role: usize, spare: &[Entry]) -> bool {
        let Some((last, standing)) = spare.split_last() else { return false };
        *last == self.mark(role) && *standing == self.standing(role, &[])
    }

    fn mark(&self, role: usize) -> Entry {
        Entry::mark(u32::try_from(role).expect("at most 32"), self.sync.log_says_doubt())
    }

    /// Makes these the entries of the spare header of a member: all that a header says which has no rounds.
    pub(super) fn name_spare(&self, role: usize, entries: &mut Vec<Entry>) {
        entries.clear();
        entries.extend(self.standing(role, &[]));
        entries.push(self.mark(role));
    }

    /// Header that says nothing of any row, for a newcomer.
    pub(super) fn first_header(&mut self, role: usize) -> [u8; HEADER_BYTES] {
        let entries = vec![self.mark(role)];
        let logs = self.ahead.logs.as_mut().expect("an array with logs");
        let header = logs.next_header(entries, Origin::default());
        let mut block = [0; HEADER_BYTES];
        header.encode(&mut block);
        block
    }

    fn entry(&self, strip: Strip, run: &Run, parity_member: u32) -> Entry {
        let bytes = u32::from(run.rows) * u32::try_from(BLOCK_BYTES).expect("4096");
        let first = self.map.lba(strip, run.first, run.shape.chunk);
        Entry {
            data_sector: first.0 * ROW_SECTORS,
            pp_bytes: if run.shape.is_whole { 0 } else { bytes },
            data_bytes: bytes * u32::from(run.shape.chunks),
            parity_member,
            checksum: 0,
        }
    }

    /// Partial parity of the rows of a run.
    fn push_partial(&mut self, number: u32, run: &Run, frames: &mut Vec<Frame>) {
        if run.shape.is_whole {
            return;
        }
        for place in run.first..run.first + run.rows {
            let mut frame = self.ahead.log_frame();
            let slot = self.table.slot(number);
            let rows = &slot.round.as_ref().expect("a round is logged").rows;
            let row = rows.get(place).expect("a row that is logged");
            let pieces = std::iter::once(self.map.data_count()).chain(row.written.iter());
            let terms: Few<&Block> = pieces.map(|piece| row.new.block(piece)).collect();
            xor_blocks(&mut frame.data, &terms);
            frames.push(frame);
        }
    }

    /// Sums of the chunks that a run modifies, and of its parity, as they will be.
    fn sums_of(&self, number: u32, run: &Run) -> Few<u32> {
        let slot = self.table.slot(number);
        let rows = &slot.round.as_ref().expect("a round is logged").rows;
        let zeros = [0; BLOCK_BYTES];
        let block = |place: u16, piece: usize| -> &Block {
            let held = rows.get(place).and_then(|row| row.new.get(piece).or(row.old.get(piece)));
            held.unwrap_or(&zeros)
        };
        let chunks = usize::from(run.shape.chunk)..usize::from(run.shape.chunk + run.shape.chunks);
        let order = self.map.order(slot.strip);
        let pieces = chunks.map(|chunk| piece_of(order, chunk)).chain([self.map.data_count()]);
        let places = run.first..run.first + run.rows;
        pieces.map(|piece| sum_of(places.clone().map(|place| block(place, piece)))).collect()
    }

    /// Entries of rows in doubt whose parities a member holds, but for those of a batch.
    fn standing(&self, role: usize, batch: &[(u32, Run)]) -> Vec<Entry> {
        let is_in_batch = |strip: Strip, place: u16| {
            batch.iter().any(|(slot, run)| {
                self.table.slot(*slot).strip == strip && (run.first..run.first + run.rows).contains(&place)
            })
        };
        let chunks = self.map.geometry().data_chunks();
        let shape = Shape { chunk: 0, chunks, is_whole: true, has_sums: false };
        let mut runs: Vec<(Strip, Run)> = Vec::new();
        for row in self.sync.stuck().take(STANDING_MAX) {
            let strip = self.map.strip_of(row);
            let place = u16::try_from(row % self.map.strip_rows()).expect("at most 128");
            let (parity, _) = self.map.geometry().parity(self.map.stripe(strip));
            if parity != Role(u16::try_from(role).expect("at most 32")) || is_in_batch(strip, place) {
                continue;
            }
            match runs.last_mut() {
                Some((last, run)) if *last == strip && run.first + run.rows == place => run.rows += 1,
                _ => runs.push((strip, Run { first: place, rows: 1, shape })),
            }
        }
        let parity_member = u32::try_from(role).expect("at most 32");
        runs.iter().map(|(strip, run)| self.entry(*strip, run, parity_member)).collect()
    }
}
