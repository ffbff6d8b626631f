//! A logical zone as it will be: up to the position that write pointers and their logs tell of, and nothing behind it.

use super::scan::{Equation, Scan};
use crate::config::Map;
use crate::mount::MountError;
use crate::mount::scan::{read_blocks, written};
use crate::record::{Kind, Record, array_tag};
use crate::zraid::config::Limits;
use crate::zraid::logical_zone::Stripe;
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use base::xor::{Block, xor_blocks};
use std::cmp::Reverse;
use zone::device::ZoneState;
use zone::drives::DriveSet;
use zone::format::oob::{self, Bound, block_is_whole};

/// A logical zone as it will be.
pub struct Recovered {
    /// Tells it from what it was before it was reset.
    pub generation: u64,
    /// Position up to which it is written.
    pub position: u32,
    /// Write pointer of each member's zone.
    pub pointers: Vec<u32>,
    /// Stripes that are not committed everywhere.
    pub stripes: Vec<Stripe>,
}

impl Recovered {
    /// Recovers a logical zone; `None` when it is empty, or was reset.
    ///
    /// # Errors
    /// When a drive fails, has not kept a window that is needed, or a block cannot be decoded.
    pub fn of(
        drives: &mut DriveSet,
        scan: &Scan,
        limits: &Limits,
        number: u32,
        now: Instant,
    ) -> Result<Option<Recovered>, MountError> {
        let map = scan.newest.config.map();
        let generation = generation_of(drives, scan, limits, number, now)?;
        let flushed =
            scan.positions.get(&number).into_iter().flatten().map(|(generation, _)| *generation).max();
        if flushed > generation && flushed > Some(scan.dead(number)) {
            // The drives that are there hold nothing of what was flushed.
            let is_empty = |member: &usize| scan.zones[*member][number as usize].state == ZoneState::Empty;
            let member = scan.present().find(is_empty).or(scan.present().next()).unwrap_or(0);
            return Err(MountError::WindowGone { member, zone: number });
        }
        let Some(generation) = generation.filter(|generation| *generation > scan.dead(number)) else {
            return Ok(None);
        };
        let pointer_of = |member: usize| written(&scan.zones[member][number as usize]);
        let told = scan.present().map(|member| told(&map, number, member, pointer_of(member))).max();
        let logged = scan.positions.get(&number).into_iter().flatten();
        let logged = logged.filter(|(of, _)| *of == generation).map(|(_, position)| *position).max();
        let position = told.max(logged).unwrap_or(0);
        let first = scan.present().map(pointer_of).min().unwrap_or(0) / map.chunk_blocks();
        let pointers = (0..scan.newest.config.members)
            .map(|member| match scan.missing {
                // What it would have to write is over at once.
                Some(missing) if missing == member => map.offset(first, 0),
                _ => pointer_of(member),
            })
            .collect();
        let mut recovered = Recovered { generation, position, pointers, stripes: Vec::new() };
        if position > 0 {
            let zone = Zone { scan, limits, map, number, generation };
            zone.check_windows()?;
            for stripe in first..position.div_ceil(map.stripe_blocks()) {
                recovered.stripes.push(zone.recover(drives, stripe, position, &recovered.pointers, now)?);
            }
        }
        Ok(Some(recovered))
    }
}

/// Generation of what the drives' zones hold; `None` when that is nothing.
fn generation_of(
    drives: &mut DriveSet,
    scan: &Scan,
    limits: &Limits,
    number: u32,
    now: Instant,
) -> Result<Option<u64>, MountError> {
    let tag = array_tag(&scan.newest.config);
    let bound = Bound { array: tag, zone: ZoneIndex(number), group: 0 };
    let mut generation = None;
    for member in scan.present() {
        if scan.zones[member][number as usize].state == ZoneState::Empty {
            continue;
        }
        // Of the first stripe: a block in its place, or partial parity.
        for offset in [0, limits.half] {
            let frame = &read_blocks(drives, member, (number, offset, 1), now)?[0];
            let data = oob::open(&frame.oob, &bound).map(|found| found.place.segment);
            let parity = Record::of_frame(tag, frame).filter(|record| record.zone == number);
            generation = generation.max(data).max(parity.map(|record| record.generation));
        }
    }
    Ok(generation)
}

/// Position up to which a member's write pointer says that all was written: it passes half of a chunk when that is
/// whole, all of it when the next one is, and a chunk of parity when its stripe is.
fn told(map: &Map, number: u32, member: usize, pointer: u32) -> u32 {
    let (chunks, rows) = (pointer / map.chunk_blocks(), pointer % map.chunk_blocks());
    let Some(stripe) = (chunks + u32::from(rows > 0)).checked_sub(1) else { return 0 };
    let piece = map.piece_of(number, stripe, member);
    if piece == map.data_count() {
        return (stripe + 1) * map.stripe_blocks();
    }
    let whole = piece + if rows > 0 { 1 } else { 2 };
    stripe * map.stripe_blocks() + map.within(whole, 0).min(map.stripe_blocks())
}

/// A logical zone as it is.
struct Zone<'a> {
    scan: &'a Scan,
    limits: &'a Limits,
    map: Map,
    number: u32,
    generation: u64,
}

impl Zone<'_> {
    /// Every drive has kept the window of a zone that needs it.
    fn check_windows(&self) -> Result<(), MountError> {
        let state_of = |member: usize| &self.scan.zones[member][self.number as usize];
        let first = self.scan.present().map(|member| written(state_of(member))).min().unwrap_or(0);
        // So far may the write pointers of two drives be apart.
        let may_be_full = first + self.limits.half + self.map.chunk_blocks() >= self.limits.capacity;
        for member in self.scan.present() {
            let zone = state_of(member);
            let is_kept = match zone.state {
                ZoneState::Full => may_be_full,
                _ => zone.has_area,
            };
            if !is_kept {
                return Err(MountError::WindowGone { member, zone: self.number });
            }
        }
        Ok(())
    }

    /// A block is not there, of which a write pointer tells: the only full zone that tells of it was moved there by its drive with the power, or
    /// the block is damaged.
    fn damaged(&self, stripe: u32, piece: usize, row: u32) -> MountError {
        let zone = self.number;
        let block = stripe * self.map.stripe_blocks() + self.map.within(piece, row);
        let state_of = |member: usize| &self.scan.zones[member][zone as usize];
        let is_full_and_tells = |member: &usize| {
            let state = state_of(*member);
            state.state == ZoneState::Full && told(&self.map, zone, *member, written(state)) > block
        };
        let full: Vec<usize> = self.scan.present().filter(is_full_and_tells).collect();
        if let [member] = full[..] {
            return MountError::WindowGone { member, zone };
        }
        let member = self.map.drive_of(zone, stripe, piece);
        MountError::Damaged { member, zone, offset: self.map.offset(stripe, row) }
    }

    /// A stripe that is not committed, up to the position.
    fn recover(
        &self,
        drives: &mut DriveSet,
        number: u32,
        position: u32,
        pointers: &[u32],
        now: Instant,
    ) -> Result<Stripe, MountError> {
        let map = &self.map;
        let blocks = (position - number * map.stripe_blocks()).min(map.stripe_blocks());
        let mut pieces: Vec<Option<Vec<Frame>>> = Vec::new();
        for piece in 0..map.data_count() {
            pieces.push(self.read(drives, number, piece, 0, now)?);
        }
        for (piece, frames) in (0..).zip(&pieces) {
            let rows = map.rows_below(piece, blocks);
            for (row, frame) in (0..rows).zip(frames.iter().flatten()) {
                let tag = array_tag(&self.scan.newest.config);
                let place = map.place(tag, (self.number, self.generation), number, piece, row);
                if !block_is_whole(frame, &place) {
                    return Err(self.damaged(number, piece, row));
                }
            }
        }
        if let Some(lost) = pieces.iter().position(Option::is_none) {
            let rows = map.rows_below(lost, blocks);
            let decoded = self.decode(drives, number, (lost, rows), &pieces, now)?;
            pieces[lost] = Some(decoded);
        }
        let mut stripe = Stripe::new(number, map);
        for (piece, frames) in pieces.into_iter().enumerate() {
            let rows = map.rows_below(piece, blocks) as usize;
            stripe.data.extend(frames.into_iter().flatten().take(rows));
        }
        stripe.done[..blocks as usize].fill(true);
        // A write pointer passes parity when its stripe is whole.
        let parity_drive = map.parity_drive(self.number, number);
        if pointers[parity_drive] > map.offset(number, 0) {
            stripe.parity_done = map.chunk_blocks();
        }
        Ok(stripe)
    }

    /// Reads a chunk's place on the drive of a piece, or so far above; `None` when that drive is missing.
    fn read(
        &self,
        drives: &mut DriveSet,
        stripe: u32,
        piece: usize,
        above: u32,
        now: Instant,
    ) -> Result<Option<Vec<Frame>>, MountError> {
        let member = self.map.drive_of(self.number, stripe, piece);
        let first = self.map.offset(stripe, 0) + above;
        if self.scan.missing == Some(member) || first >= self.limits.capacity {
            return Ok(None);
        }
        let place = (self.number, first, self.map.chunk_blocks());
        read_blocks(drives, member, place, now).map(Some)
    }

    /// Rows of the piece that is lost.
    fn decode(
        &self,
        drives: &mut DriveSet,
        stripe: u32,
        (lost, rows): (usize, u32),
        pieces: &[Option<Vec<Frame>>],
        now: Instant,
    ) -> Result<Vec<Frame>, MountError> {
        let map = &self.map;
        let tag = array_tag(&self.scan.newest.config);
        let mut found: Vec<Vec<Frame>> = Vec::new();
        // Partial parity that ends with a piece lies on the drive of the next one.
        for next in lost + 1..=map.data_count() {
            found.extend(self.read(drives, stripe, next, self.limits.half, now)?);
        }
        found.extend(self.read(drives, stripe, map.data_count(), 0, now)?);
        let mut decoded = Vec::new();
        for row in 0..rows {
            let is_of_row = |record: &Record| {
                matches!(record.kind, Kind::Partial | Kind::Settled)
                    && (record.zone, record.stripe, u32::from(record.row)) == (self.number, stripe, row)
            };
            let in_windows: Vec<Equation> = found
                .iter()
                .map(|frames| &frames[row as usize])
                .filter_map(|frame| Record::of_frame(tag, frame).map(|record| (record, frame)))
                .filter(|(record, _)| is_of_row(record))
                .map(|(record, frame)| Equation::of(&record, frame))
                .collect();
            let in_logs = self.scan.equations.get(&(self.number, stripe, row)).into_iter().flatten();
            let of_today = in_windows.iter().chain(in_logs).filter(|equation| {
                equation.generation == self.generation && equation.coverage > map.within(lost, row)
            });
            let rank = |equation: &&Equation| {
                let least = Reverse(equation.coverage);
                (equation.epoch, least)
            };
            let newest = of_today.max_by_key(rank);
            let Some(newest) = newest else { return Err(self.damaged(stripe, lost, row)) };
            let covered = (0..pieces.len())
                .filter(|piece| *piece != lost && map.within(*piece, row) < newest.coverage)
                .filter_map(|piece| pieces[piece].as_ref());
            let sources: Vec<&Block> =
                covered.map(|frames| &frames[row as usize].data).chain([&*newest.parity]).collect();
            let mut frame = Frame::zeroed();
            xor_blocks(&mut frame.data, &sources);
            decoded.push(frame);
        }
        Ok(decoded)
    }
}
