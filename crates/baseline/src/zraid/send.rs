//! The write path: open, place, pump, commit.
//!
//! 1. **place**: blocks enter stripes that lie within half a window of all write pointers, and become parts that wait for their drives: data,
//!    and parity when the stripe is full.
//! 2. **pump**: parts leave, several at a time to one zone, in any order. Data of a stripe that is not full brings partial parity of its rows
//!    along: what still waits needs none, as in the baseline.
//! 3. **advance**: a write ends when its stripes are whole, or all up to its end is durable and partial parity speaks for it.
//! 4. **move write pointers**: half a chunk where the last whole chunk lies, all of it where the one before does.

use super::Zraid;
use super::log::Purpose;
use super::logical_zone::{Kind, Part, Partial, State, Stripe};
use crate::config::count;
use crate::logical_zone::{Pending, Span};
use array::engine::Effects;
use base::frame::Frame;
use zone::device::Op;

/// Writes that a zone of a drive has at a time: so many of 4 KiB get all that it gives (`lab run biza5`), and parts that wait grow.
const WRITES_PER_ZONE: u32 = 4;

/// A command under way.
#[derive(Debug)]
pub(super) enum Sent {
    Open { zone: u32 },
    Write { zone: u32, part: Part },
    Commit { zone: u32, end: u32 },
    Log { purpose: Purpose, place: usize },
    LogReset,
    ZoneReset { zone: u32 },
    Read { read: u32, at: u32 },
    Source { decode: u32, piece: usize },
}

impl Zraid {
    /// Opens the zones of a logical zone.
    pub(super) fn open_zone(&mut self, number: u32, fx: &mut Effects) {
        let members = self.config.members;
        self.generations += 1;
        let zone = &mut self.zones[number as usize];
        zone.state = State::Opening(count(members));
        zone.generation = u64::from(self.members.epoch) << 32 | self.generations;
        for drive in 0..members {
            self.command(drive, number, Sent::Open { zone: number }, Op::OpenWithArea, fx);
        }
        self.mark(number, fx);
    }

    /// Places blocks of the first write that waits, in one stripe; true when some were.
    pub(super) fn place(&mut self, number: u32) -> bool {
        let map = self.map;
        let zone = &mut self.zones[number as usize];
        let stripe = zone.placed / map.stripe_blocks();
        let end = (stripe + 1) * map.chunk_blocks();
        let may = zone.writers.iter().all(|writer| end <= writer.committed + self.limits.half);
        if zone.state != State::Open || zone.reset.is_some() || !may {
            return false;
        }
        if zone.placed.is_multiple_of(map.stripe_blocks()) {
            zone.stripes.push_back(Stripe::new(stripe, &map));
        }
        let Some(Pending::Write { write, frames }) = zone.waiting.front_mut() else {
            unreachable!("it was looked at")
        };
        let (write, begin) = (*write, zone.placed % map.stripe_blocks());
        let left = count(frames.len());
        let blocks = left.min(map.stripe_blocks() - begin);
        let taken: Vec<Frame> = frames.drain(..blocks as usize).collect();
        if blocks == left {
            zone.waiting.pop_front();
        }
        zone.placed += blocks;
        let open = zone.stripe_mut(stripe);
        open.data.extend(taken);
        open.spans.push_back(Span { write, end: begin + blocks });
        // The part that stood for the blocks that wait stands for the last ones.
        self.writes.get_mut(write).left += u32::from(blocks < left);
        self.queue_parts(number, stripe, begin, begin + blocks);
        true
    }

    /// Data at these positions waits for its drives, and so does the parity of a stripe that is full.
    fn queue_parts(&mut self, number: u32, stripe: u32, begin: u32, end: u32) {
        let map = self.map;
        let mut at = begin;
        while at < end {
            let spot = map.spot(at);
            let rows = (map.chunk_blocks() - spot.row).min(end - at);
            self.queue_part(number, Part { stripe, kind: Kind::Piece(spot.piece), row: spot.row, rows });
            at += rows;
        }
        let open = self.zones[number as usize].stripe_mut(stripe);
        if open.is_full(&map) {
            // What waits is in its parity.
            open.partial.iter_mut().filter(|one| **one == Partial::Waits).for_each(|one| *one = Partial::No);
            let kind = Kind::Piece(map.data_count());
            self.queue_part(number, Part { stripe, kind, row: 0, rows: map.chunk_blocks() });
        }
    }

    /// Data has left for its drive, and its stripe is not full: partial parity that ends with it speaks for what lies before it in its
    /// rows, too.
    fn queue_partials(&mut self, number: u32, part: Part, piece: usize) {
        let map = self.map;
        for row in part.row..part.row + part.rows {
            let stripe = self.zones[number as usize].stripe_mut(part.stripe);
            let at = |piece: usize| map.within(piece, row) as usize;
            if (piece..map.data_count()).any(|later| stripe.partial[at(later)] != Partial::No) {
                continue;
            }
            for before in 0..piece {
                if stripe.partial[at(before)] == Partial::Waits {
                    stripe.partial[at(before)] = Partial::No;
                }
            }
            stripe.partial[at(piece)] = Partial::Waits;
            self.queue_part(number, Part { kind: Kind::Partial(piece), row, rows: 1, ..part });
        }
    }

    pub(super) fn queue_part(&mut self, number: u32, part: Part) {
        let drive = self.drive_of(number, part);
        self.zones[number as usize].queue(drive, part);
    }

    /// Hands what waits to drives. Data that leaves brings partial parity along.
    pub(super) fn pump(&mut self, number: u32, fx: &mut Effects) {
        let mut moved = true;
        while moved {
            moved = false;
            for drive in 0..self.config.members {
                while self.zones[number as usize].writers[drive].in_flight < WRITES_PER_ZONE
                    && let Some(part) = self.next_part(number, drive)
                {
                    self.send_part(number, drive, part, fx);
                    moved = true;
                }
            }
        }
    }

    /// The next part for a drive: of partial parity what is still wanted.
    fn next_part(&mut self, number: u32, drive: usize) -> Option<Part> {
        let map = self.map;
        let zone = &mut self.zones[number as usize];
        while let Some(mut part) = zone.writers[drive].queue.pop_front() {
            let Kind::Partial(piece) = part.kind else { return Some(part) };
            let Some(stripe) = zone.stripe(part.stripe) else { continue };
            let waits = |row: &u32| stripe.partial[map.within(piece, *row) as usize] == Partial::Waits;
            let end = part.row + part.rows;
            let Some(first) = (part.row..end).find(waits) else { continue };
            let last = (first..end).take_while(waits).last().expect("the first one");
            if last + 1 < end {
                let rest = Part { row: last + 1, rows: end - last - 1, ..part };
                zone.writers[drive].queue.push_front(rest);
            }
            (part.row, part.rows) = (first, last + 1 - first);
            return Some(part);
        }
        None
    }

    fn send_part(&mut self, number: u32, drive: usize, part: Part, fx: &mut Effects) {
        let mut frames = self.frames.take_vec(part.rows as usize);
        for (frame, row) in frames.iter_mut().zip(part.row..) {
            self.fill(number, part, row, frame);
        }
        let map = self.map;
        let mut offset = map.offset(part.stripe, part.row);
        let blocks = u64::from(part.rows);
        match part.kind {
            Kind::Piece(piece) if piece < map.data_count() => {
                self.counters.data += blocks;
                if !self.zones[number as usize].stripe_mut(part.stripe).is_full(&map) {
                    self.queue_partials(number, part, piece);
                }
            }
            Kind::Piece(_) => self.counters.parity += blocks,
            Kind::Partial(piece) => {
                let stripe = self.zones[number as usize].stripe_mut(part.stripe);
                for row in part.row..part.row + part.rows {
                    stripe.partial[map.within(piece, row) as usize] = Partial::Sent;
                }
                offset += self.limits.half;
                if offset + part.rows > self.limits.capacity {
                    self.append(drive, Purpose::Partial(number, part), frames, fx);
                    return;
                }
                self.counters.partial += blocks;
            }
        }
        let writer = &mut self.zones[number as usize].writers[drive];
        assert!(offset >= writer.wanted && offset + part.rows <= writer.committed + 2 * self.limits.half);
        writer.in_flight += 1;
        let sent = Sent::Write { zone: number, part };
        self.command(drive, number, sent, Op::Write { offset, frames }, fx);
    }

    /// Ends writes whose blocks survive, in order.
    pub(super) fn advance_stripes(&mut self, number: u32, fx: &mut Effects) {
        let map = self.map;
        let zone = &mut self.zones[number as usize];
        if !zone.is_marked {
            return;
        }
        let mut ended = Vec::new();
        for stripe in &mut zone.stripes {
            stripe.advance(&map);
            while let Some(span) = stripe.spans.front()
                && span.end <= stripe.acked
            {
                ended.push(span.write);
                stripe.spans.pop_front();
            }
            // In order: write pointers tell of nothing behind a gap.
            if !stripe.spans.is_empty() {
                break;
            }
        }
        for write in ended {
            self.end_part(write, fx);
        }
    }

    /// Commits what is whole: stripes that are finished, then chunks of the first one that is not.
    pub(super) fn move_write_pointers(&mut self, number: u32, fx: &mut Effects) {
        let map = self.map;
        if self.zones[number as usize].reset.is_some() {
            return;
        }
        while let Some(first) = self.zones[number as usize].stripes.front()
            && first.is_finished(&map)
            && first.spans.is_empty()
        {
            let mut stripe = self.zones[number as usize].stripes.pop_front().expect("it was looked at");
            self.frames.give_many(&mut stripe.data);
            self.forget_partials(number, stripe.number, fx);
            for writer in &mut self.zones[number as usize].writers {
                writer.wanted = writer.wanted.max(map.offset(stripe.number + 1, 0));
            }
        }
        let zone = &mut self.zones[number as usize];
        if let Some(stripe) = zone.stripes.front() {
            let begin = map.offset(stripe.number, 0);
            let whole = (stripe.acked / map.chunk_blocks()) as usize;
            for piece in 0..whole {
                let is_last = piece + 1 == whole;
                let rows = if is_last { map.chunk_blocks() / 2 } else { map.chunk_blocks() };
                let wanted = &mut zone.writers[map.drive_of(number, stripe.number, piece)].wanted;
                *wanted = (*wanted).max(begin + rows);
            }
        }
        for drive in 0..self.config.members {
            let writer = &mut self.zones[number as usize].writers[drive];
            // Write pointers tell of nothing that a drive may lack which is still believed.
            if writer.is_committing || writer.wanted == writer.committed || self.members.fence > 0 {
                continue;
            }
            writer.is_committing = true;
            let end = writer.wanted;
            self.counters.commits += 1;
            self.command(drive, number, Sent::Commit { zone: number, end }, Op::Commit { end }, fx);
        }
        let zone = &mut self.zones[number as usize];
        if zone.writers.iter().all(|writer| writer.committed == self.limits.capacity) {
            zone.state = State::Full;
        }
    }
}
