//! The decision what each block of the stripes holds that were open when the array stopped.
//!
//! A block on a drive that is there, beyond what its zone holds, was never acknowledged: it holds zeros. A block
//! on the drive that is missing is decoded from any *equation* whose other blocks are known: parity in its place,
//! or a row in the log. If there is none, it was never acknowledged either.
//!
//! ```text
//!   drive 0 (missing)   ?  ?        stripe s: 0 is there by the log's row with coverage 1, though
//!   drive 1             D1 |        that with coverage 3 is of no use: D2 never came
//!   drive 2             |           D2 holds zeros from now on
//!   drive 3             |  log: P(1), P(3)
//! ```
//! Parity that is in its place but not that of what was decided is *relocated*: the right one lives in the log for as
//! long as the zone.

use super::scan::{Equation, Scan, read_blocks};
use super::{DriveSet, MountError};
use crate::config::{Map, count};
use crate::logical_zone::{Part, Stripe};
use crate::record::array_tag;
use base::frame::Frame;
use base::time::Instant;
use base::xor::{Block, xor_blocks};
use zone::format::oob::{Place, block_is_whole};

/// Contents of a place of a stripe.
enum Known {
    /// A block that is there.
    Data(Frame),
    /// Nothing was written there.
    Absent,
    /// Nobody can tell without decoding: the drive is missing, or the block damaged.
    Lost,
}

/// A logical zone as it will be.
#[derive(Default)]
pub struct Decided {
    /// 0 when it is empty.
    pub generation: u64,
    /// Position at which the next write begins.
    pub write_pointer: u32,
    /// Stripes that were open, in order, with what is done of them.
    pub stripes: Vec<Stripe>,
    /// Parity that cannot be put in its place.
    pub relocated: Vec<((u32, u32, u32), Frame)>,
}

/// A logical zone as it is.
struct Zone<'a> {
    scan: &'a Scan,
    map: Map,
    number: u32,
    generation: u64,
}

/// The blocks of a stripe: pieces, parity last, row by row.
type Pieces = Vec<Vec<Known>>;

impl Decided {
    /// Decides a logical zone.
    ///
    /// # Errors
    /// When a drive fails, or a block is damaged beyond decoding.
    pub fn of(drives: &mut DriveSet, scan: &Scan, number: u32, now: Instant) -> Result<Decided, MountError> {
        let map = scan.config.map();
        let Some(generation) = generation_of(drives, scan, number, now)? else {
            return Ok(Decided::default());
        };
        let zone = Zone { scan, map, number, generation };
        let written = || scan.present().map(|member| scan.pointers[member][number as usize]);
        let first = written().min().unwrap_or(0) / map.chunk_blocks();
        let behind = written().max().unwrap_or(0).div_ceil(map.chunk_blocks());
        let logged =
            scan.equations.range((number, 0, 0)..(number + 1, 0, 0)).map(|((_, stripe, _), _)| stripe + 1);
        let behind = behind.max(logged.max().unwrap_or(0));
        let mut stripes: Vec<(u32, Pieces)> = Vec::new();
        for stripe in first..behind.max(first) {
            let mut pieces = zone.read(drives, stripe, now)?;
            zone.recover(stripe, &mut pieces)?;
            stripes.push((stripe, pieces));
        }
        while stripes.last().is_some_and(|(stripe, pieces)| zone.coverage(*stripe, pieces) == 0) {
            stripes.pop();
        }
        let mut decided = Decided { generation, ..Decided::default() };
        decided.write_pointer = first * map.stripe_blocks();
        zone.keep_relocated(drives, first, now, &mut decided)?;
        let last = stripes.len();
        for (at, (stripe, pieces)) in stripes.into_iter().enumerate() {
            let coverage = if at + 1 < last { map.stripe_blocks() } else { zone.coverage(stripe, &pieces) };
            decided.write_pointer += coverage;
            zone.close(stripe, pieces, coverage, &mut decided);
        }
        if decided.write_pointer == 0 {
            return Ok(Decided::default());
        }
        Ok(decided)
    }
}

/// Generation of a logical zone; `None` when it is empty.
fn generation_of(
    drives: &mut DriveSet,
    scan: &Scan,
    number: u32,
    now: Instant,
) -> Result<Option<u64>, MountError> {
    let mut generation = None;
    for member in scan.present() {
        generation = generation.max(scan.generation_on(drives, member, number, now)?);
    }
    let dead = scan.dead(number);
    let logged =
        scan.equations.range((number, 0, 0)..(number + 1, 0, 0)).flat_map(|(_, equations)| equations);
    let logged = logged.map(|equation| equation.generation).filter(|generation| *generation > dead).max();
    Ok(generation.or(logged))
}

impl Zone<'_> {
    fn place(&self, stripe: u32, piece: usize, row: u32) -> Place {
        let array = array_tag(&self.scan.config);
        self.map.place(array, (self.number, self.generation), stripe, piece, row)
    }

    /// Reads a stripe.
    fn read(&self, drives: &mut DriveSet, stripe: u32, now: Instant) -> Result<Pieces, MountError> {
        let mut pieces = Vec::new();
        for piece in 0..self.map.layout.members() {
            pieces.push(self.read_piece(drives, stripe, piece, now)?);
        }
        Ok(pieces)
    }

    fn read_piece(
        &self,
        drives: &mut DriveSet,
        stripe: u32,
        piece: usize,
        now: Instant,
    ) -> Result<Vec<Known>, MountError> {
        let rows = self.map.chunk_blocks();
        let member = self.map.drive_of(self.number, stripe, piece);
        if self.scan.missing == Some(member) {
            return Ok((0..rows).map(|_| Known::Lost).collect());
        }
        let first = self.map.offset(stripe, 0);
        let there = self.scan.pointers[member][self.number as usize].saturating_sub(first).min(rows);
        let frames = read_blocks(drives, member, (self.number, first, there), now)?;
        let mut known: Vec<Known> = Vec::new();
        for (row, frame) in (0..).zip(frames) {
            let is_whole = block_is_whole(&frame, &self.place(stripe, piece, row));
            known.push(if is_whole { Known::Data(frame) } else { Known::Lost });
        }
        known.resize_with(rows as usize, || Known::Absent);
        Ok(known)
    }

    /// Rows of the log for a row of a stripe.
    fn equations(&self, stripe: u32, row: u32) -> impl Iterator<Item = &Equation> {
        let all = self.scan.equations.get(&(self.number, stripe, row)).into_iter().flatten();
        all.filter(|equation| equation.generation == self.generation)
    }

    /// The parity of a whole row as the log has it.
    fn settled(&self, stripe: u32, row: u32) -> Option<&Equation> {
        let whole = self.map.stripe_blocks();
        self.equations(stripe, row).find(|equation| equation.is_settled && equation.coverage == whole)
    }

    /// Decodes what is lost, where that is possible.
    fn recover(&self, stripe: u32, pieces: &mut Pieces) -> Result<(), MountError> {
        for piece in 0..self.map.data_count() {
            for row in 0..self.map.chunk_blocks() {
                if !matches!(pieces[piece][row as usize], Known::Lost) {
                    continue;
                }
                match self.decode(stripe, piece, row, pieces) {
                    Some(frame) => pieces[piece][row as usize] = Known::Data(frame),
                    None => {
                        let member = self.map.drive_of(self.number, stripe, piece);
                        if self.scan.missing != Some(member) {
                            let (zone, offset) = (self.number, self.map.offset(stripe, row));
                            return Err(MountError::Damaged { member, zone, offset });
                        }
                        pieces[piece][row as usize] = Known::Absent;
                    }
                }
            }
        }
        Ok(())
    }

    fn decode(&self, stripe: u32, piece: usize, row: u32, pieces: &Pieces) -> Option<Frame> {
        let whole = self.map.stripe_blocks();
        for equation in self.equations(stripe, row) {
            let known = self.others(piece, row, equation.coverage, equation.is_settled, pieces);
            if self.map.within(piece, row) < equation.coverage
                && let Some(known) = known
            {
                return Some(sum(&equation.parity, &known));
            }
        }
        let Known::Data(parity) = &pieces[self.map.data_count()][row as usize] else { return None };
        if self.settled(stripe, row).is_some() {
            return None;
        }
        let known = self.others(piece, row, whole, false, pieces)?;
        Some(sum(&parity.data, &known))
    }

    /// The other blocks of a row that an equation covers; `None` when one is not known.
    fn others<'a>(
        &self,
        piece: usize,
        row: u32,
        coverage: u32,
        is_settled: bool,
        pieces: &'a Pieces,
    ) -> Option<Vec<&'a Block>> {
        let mut known = Vec::new();
        for other in (0..self.map.data_count()).filter(|other| *other != piece) {
            if self.map.within(other, row) >= coverage {
                continue;
            }
            match &pieces[other][row as usize] {
                Known::Data(frame) => known.push(&frame.data),
                Known::Absent if is_settled => {}
                Known::Absent | Known::Lost => return None,
            }
        }
        Some(known)
    }

    /// Positions of a stripe that hold anything, if it is the last one; all of them once its parity is there.
    fn coverage(&self, stripe: u32, pieces: &Pieces) -> u32 {
        let (map, parity) = (&self.map, &pieces[self.map.data_count()]);
        let has_parity = parity.iter().any(|row| matches!(row, Known::Data(_)))
            || (0..map.chunk_blocks()).any(|row| self.settled(stripe, row).is_some());
        if has_parity {
            return map.stripe_blocks();
        }
        let there = (0..map.stripe_blocks()).filter(|position| {
            let spot = map.spot(*position);
            matches!(pieces[spot.piece][spot.row as usize], Known::Data(_))
        });
        there.max().map_or(0, |position| position + 1)
    }

    /// Makes an open stripe of the engine of what is known.
    fn close(&self, number: u32, pieces: Pieces, coverage: u32, decided: &mut Decided) {
        let map = &self.map;
        let mut stripe = Stripe::new(number, map);
        stripe.issued = coverage;
        stripe.acked = coverage;
        stripe.sealed = coverage == map.stripe_blocks();
        stripe.is_logged = !stripe.sealed;
        for (piece, rows) in pieces.iter().enumerate() {
            let is_missing = self.scan.missing == Some(map.drive_of(self.number, number, piece));
            let there = rows.iter().filter(|row| is_missing || !matches!(row, Known::Absent));
            let all = count(there.count());
            let due = map.rows_below(piece, coverage);
            stripe.done[piece] = if is_missing { due } else { all.min(due) };
        }
        let mut pieces = pieces;
        let parity = pieces.pop().expect("parity is the last piece");
        for rows in pieces {
            for known in rows {
                if count(stripe.data.len()) < coverage {
                    stripe.data.push(match known {
                        Known::Data(frame) => frame,
                        Known::Absent | Known::Lost => Frame::zeroed(),
                    });
                }
            }
        }
        if stripe.sealed {
            self.relocate(&stripe, parity, decided);
        }
        decided.stripes.push(stripe);
    }

    /// Notes the parity of a stripe where another is in its place.
    fn relocate(&self, stripe: &Stripe, parity: Vec<Known>, decided: &mut Decided) {
        let map = &self.map;
        if self.scan.missing == Some(map.parity_drive(self.number, stripe.number)) {
            return;
        }
        for (row, known) in (0..).zip(parity) {
            let mut right = Frame::zeroed();
            let sources: Vec<&Block> =
                stripe.row(map, row, map.stripe_blocks()).map(|frame| &frame.data).collect();
            xor_blocks(&mut right.data, &sources);
            let is_wrong = match known {
                Known::Data(frame) => frame.data != right.data,
                Known::Absent => false,
                Known::Lost => true,
            };
            if is_wrong {
                decided.relocated.push(((self.number, stripe.number, row), right));
            }
        }
    }

    /// Keeps the parity that was relocated before, of stripes that were long complete.
    fn keep_relocated(
        &self,
        drives: &mut DriveSet,
        behind: u32,
        now: Instant,
        decided: &mut Decided,
    ) -> Result<(), MountError> {
        let range = (self.number, 0, 0)..(self.number, behind, 0);
        let keys: Vec<(u32, u32, u32)> = self.scan.equations.range(range).map(|(key, _)| *key).collect();
        for (_, stripe, row) in keys {
            let Some(equation) = self.settled(stripe, row) else { continue };
            let member = self.map.parity_drive(self.number, stripe);
            let first = self.map.offset(stripe, row);
            let frames = read_blocks(drives, member, (self.number, first, 1), now)?;
            let place = self.place(stripe, self.map.data_count(), row);
            if !block_is_whole(&frames[0], &place) || frames[0].data != *equation.parity {
                let mut frame = Frame::zeroed();
                frame.set_data(&equation.parity);
                decided.relocated.push(((self.number, stripe, row), frame));
            }
        }
        Ok(())
    }
}

/// Part of a piece of a decided stripe that is still to be written, if any.
pub fn missing(map: &Map, stripe: &Stripe, piece: usize) -> Option<Part> {
    let (row, due) = (stripe.done[piece], map.rows_below(piece, stripe.issued));
    (row < due).then(|| Part { stripe: stripe.number, piece, row, rows: due - row })
}

/// XOR of blocks.
fn sum(parity: &Block, others: &[&Block]) -> Frame {
    let mut frame = Frame::zeroed();
    let sources: Vec<&Block> = others.iter().copied().chain([parity]).collect();
    xor_blocks(&mut frame.data, &sources);
    frame
}
