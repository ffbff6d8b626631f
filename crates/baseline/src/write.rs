//! The write path: place, seal, pump, acknowledge.
//!
//! 1. A write that arrives begins at its logical zone's write pointer and waits its turn there.
//! 2. **place**: its blocks enter open stripes, as many as may be open; each becomes part of a chunk that waits for
//!    its drive's zone. A stripe that is full is *sealed*: its parity waits, too.
//! 3. **pump**: a zone that has nothing in flight takes what waits for it in one Zone Write. Blocks of a stripe that
//!    is not sealed leave in order, and the parity of the rows they change goes to the log in the same breath, as
//!    one append for all of them. What waits is not logged: its stripe may be sealed before it leaves.
//! 4. **advance**: a write ends when its stripe is whole, or when the blocks up to its end and the partial parity
//!    up to its end are durable.

use crate::Raizn;
use crate::config::count;
use crate::logical_zone::{Part, Pending, Span, Stripe};
use crate::token::Waiter;
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::checksum::crc32c;
use base::frame::Frame;
use base::units::{Lba, ZoneIndex};
use base::xor::xor_blocks;
use std::collections::VecDeque;
use zone::device::{Completion, Op, Status};
use zone::format::oob::{self, Kind, Place, Protected};

impl Raizn {
    /// A write has arrived.
    pub(super) fn start_write(&mut self, id: RequestId, lba: Lba, frames: Vec<Frame>, fx: &mut Effects) {
        let (zone, position) = self.map.position_of(lba);
        let blocks = count(frames.len());
        let logical = &self.zones[zone as usize];
        let fits = position + blocks <= self.map.zone_blocks();
        let opens = !logical.is_open(&self.map);
        if self.is_broken() || position != logical.write_pointer || !fits || opens && !self.may_open() {
            self.frames.give_vec(frames);
            fx.replies.push(Reply { id, outcome: Outcome::IoError, frames: Vec::new() });
            return;
        }
        self.counters.user_blocks += u64::from(blocks);
        let write = self.answers.begin_write(id);
        let logical = &mut self.zones[zone as usize];
        logical.write_pointer += blocks;
        logical.pending.push_back(Pending::Write { write, frames: VecDeque::from(frames) });
        self.advance_zone(zone, fx);
    }

    /// True when one more logical zone may be open.
    pub(super) fn may_open(&self) -> bool {
        let open = self.zones.iter().filter(|zone| zone.is_open(&self.map)).count();
        count(open) < self.config.open_logical_zones_max()
    }

    /// Everything that can go on in a logical zone.
    pub(super) fn advance_zone(&mut self, zone: u32, fx: &mut Effects) {
        // What a missing drive would have to write is over at once, and may have made room for more.
        let mut may_go_on = true;
        while may_go_on {
            self.start_pending(zone, fx);
            may_go_on = self.pump(zone, fx);
        }
    }

    /// Starts what waits in a logical zone.
    fn start_pending(&mut self, zone: u32, fx: &mut Effects) {
        loop {
            let logical = &self.zones[zone as usize];
            let has_started = match logical.pending.front() {
                Some(Pending::Write { .. }) if logical.reset.is_none() => self.place(zone),
                Some(Pending::Reset { .. }) => self.start_reset(zone, fx),
                Some(Pending::Write { .. }) | None => false,
            };
            if !has_started {
                return;
            }
        }
    }

    /// Places blocks of the first write that waits; true when that is wholly placed.
    fn place(&mut self, zone: u32) -> bool {
        let Some(Pending::Write { write, mut frames }) = self.zones[zone as usize].pending.pop_front() else {
            return false;
        };
        while !frames.is_empty() {
            let Some(number) = self.filling_stripe(zone) else {
                self.zones[zone as usize].pending.push_front(Pending::Write { write, frames });
                return false;
            };
            self.place_in_stripe(zone, number, write, &mut frames);
        }
        self.answers.end_part(write, self.members.broken.is_some());
        true
    }

    /// The stripe that takes the next block; `None` when too many are open.
    fn filling_stripe(&mut self, zone: u32) -> Option<u32> {
        let map = self.map;
        let logical = &mut self.zones[zone as usize];
        let number = logical.placed / map.stripe_blocks();
        if logical.stripe(number).is_none() {
            if count(logical.stripes.len()) >= self.tuning.stripes_in_flight {
                return None;
            }
            if logical.generation == 0 {
                self.generations += 1;
                logical.generation = u64::from(self.members.epoch) << 32 | self.generations;
            }
            logical.stripes.push_back(Stripe::new(number, &map));
        }
        Some(number)
    }

    /// Moves blocks into a stripe, up to its end.
    fn place_in_stripe(&mut self, zone: u32, number: u32, write: u32, frames: &mut VecDeque<Frame>) {
        let map = self.map;
        let logical = &mut self.zones[zone as usize];
        let stripe = logical.stripe_mut(number).expect("it is filling");
        let begin = count(stripe.data.len());
        let taken = (map.stripe_blocks() - begin).min(count(frames.len()));
        stripe.data.extend(frames.drain(..taken as usize));
        let end = begin + taken;
        stripe.spans.push_back(Span { write, end });
        stripe.sealed = end == map.stripe_blocks();
        let sealed = stripe.sealed;
        if sealed {
            // What was to be logged is in its parity.
            stripe.changed = 0..0;
        }
        logical.placed += taken;
        self.answers.begin_part(write);
        let mut at = begin;
        while at < end {
            let spot = map.spot(at);
            let rows = (map.chunk_blocks() - spot.row).min(end - at);
            self.queue_part(zone, Part { stripe: number, piece: spot.piece, row: spot.row, rows });
            at += rows;
        }
        if sealed {
            let part = Part { stripe: number, piece: map.data_count(), row: 0, rows: map.chunk_blocks() };
            self.queue_part(zone, part);
        }
    }

    /// A part waits for its drive's zone.
    pub(super) fn queue_part(&mut self, zone: u32, part: Part) {
        let drive = self.map.drive_of(zone, part.stripe, part.piece);
        let queue = &mut self.zones[zone as usize].writers[drive].queue;
        if let Some(last) = queue.back_mut()
            && (last.stripe, last.piece) == (part.stripe, part.piece)
        {
            last.rows += part.rows;
            return;
        }
        queue.push_back(part);
    }

    /// Hands what waits to the drives, and the parity of what changes to the logs. True when something was for a
    /// drive that is missing.
    pub(super) fn pump(&mut self, zone: u32, fx: &mut Effects) -> bool {
        let (mut moved, mut skipped) = (true, false);
        // A chunk that leaves may let that of another drive leave, whose stripe leaves in order.
        while moved {
            moved = false;
            for drive in 0..self.config.members {
                let has_moved = self.pump_drive(zone, drive, fx);
                moved |= has_moved;
                skipped |= has_moved && self.members.is_failed(drive);
            }
        }
        self.append_partials(zone, fx);
        if self.members.failed.is_some() {
            self.advance_all_stripes(zone, fx);
        }
        skipped
    }

    fn pump_drive(&mut self, zone: u32, drive: usize, fx: &mut Effects) -> bool {
        let parts = self.take_parts(zone, drive);
        if parts.is_empty() {
            return false;
        }
        if self.members.is_failed(drive) {
            for part in parts {
                let stripe = self.zones[zone as usize].open_stripe(part.stripe);
                stripe.done[part.piece] += part.rows;
            }
            return true;
        }
        let rows: u32 = parts.iter().map(|part| part.rows).sum();
        let offset = self.map.offset(parts[0].stripe, parts[0].row);
        let mut frames = self.frames.take_vec(rows as usize);
        let mut at = 0;
        for part in &parts {
            for row in part.row..part.row + part.rows {
                self.write_block(zone, Part { row, rows: 1, ..*part }, &mut frames[at]);
                at += 1;
            }
        }
        self.zones[zone as usize].writers[drive].in_flight = parts;
        fx.command(drive, ZoneIndex(zone), Waiter::Data(zone), Op::Write { offset, frames });
        true
    }

    /// Takes the parts that may leave for a drive's zone now, in one command.
    fn take_parts(&mut self, zone: u32, drive: usize) -> Vec<Part> {
        let map = self.map;
        let blocks_max = self.tuning.write_blocks_max.min(self.config.geometry.transfer_blocks_max);
        let logical = &mut self.zones[zone as usize];
        let mut parts = Vec::new();
        let mut blocks = 0;
        if !logical.writers[drive].in_flight.is_empty() {
            return parts;
        }
        while let Some(part) = logical.writers[drive].queue.front().copied() {
            let stripe = logical.open_stripe(part.stripe);
            let begin = map.within(part.piece, part.row);
            if blocks + part.rows > blocks_max || !stripe.sealed && begin > stripe.issued {
                break;
            }
            // What recovery fills in is in the log already.
            if !stripe.sealed && begin == stripe.issued {
                stripe.issued += part.rows;
                stripe.touch(part.row..part.row + part.rows);
            }
            blocks += part.rows;
            logical.writers[drive].queue.pop_front();
            parts.push(part);
        }
        parts
    }

    /// Fills a frame with a block of a stripe: data, or parity of all of it.
    fn write_block(&mut self, zone: u32, part: Part, frame: &mut Frame) {
        let map = self.map;
        let place = self.place_at(zone, part.stripe, part.piece, part.row);
        let stripe = self.zones[zone as usize].stripe(part.stripe).expect("open");
        if part.piece < map.data_count() {
            frame.set_data(&stripe.data[map.within(part.piece, part.row) as usize].data);
            self.counters.data_blocks += 1;
        } else {
            let sources: Vec<_> =
                stripe.row(&map, part.row, map.stripe_blocks()).map(|frame| &frame.data).collect();
            xor_blocks(&mut frame.data, &sources);
            self.counters.parity_blocks += 1;
        }
        seal_block(frame, &place);
    }

    /// Place that the metadata of a block of a logical zone names.
    pub(super) fn place_at(&self, zone: u32, stripe: u32, piece: usize, row: u32) -> Place {
        let generation = self.zones[zone as usize].generation;
        self.map.place(self.tag, (zone, generation), stripe, piece, row)
    }

    /// The write in flight to a drive's zone is over.
    pub(super) fn on_data(&mut self, zone: u32, drive: usize, completion: Completion, fx: &mut Effects) {
        self.frames.give_vec(completion.frames);
        let parts = std::mem::take(&mut self.zones[zone as usize].writers[drive].in_flight);
        assert!(!parts.is_empty());
        if completion.status != Status::Success {
            self.lose_member(drive, fx);
        }
        for part in &parts {
            self.zones[zone as usize].open_stripe(part.stripe).done[part.piece] += part.rows;
        }
        for part in parts {
            self.advance_stripes(zone, part.stripe, fx);
        }
    }

    /// Something of a stripe has become durable.
    pub(super) fn advance_stripes(&mut self, zone: u32, number: u32, fx: &mut Effects) {
        let map = self.map;
        let Some(stripe) = self.zones[zone as usize].stripe_mut(number) else { return };
        stripe.advance(&map);
        let mut ended = Vec::new();
        while let Some(span) = stripe.spans.front()
            && span.end <= stripe.acked
        {
            ended.push(span.write);
            stripe.spans.pop_front();
        }
        for write in ended {
            self.answers.end_part(write, self.members.broken.is_some());
        }
        while let Some(first) = self.zones[zone as usize].stripes.front()
            && first.is_finished(&map)
        {
            let mut stripe = self.zones[zone as usize].stripes.pop_front().expect("it was looked at");
            if stripe.is_stale {
                self.pay_debt(map.parity_drive(zone, stripe.number));
            }
            self.frames.give_many(&mut stripe.data);
        }
        self.answer_writes(fx);
    }

    /// Looks at every open stripe of a zone.
    pub(super) fn advance_all_stripes(&mut self, zone: u32, fx: &mut Effects) {
        let numbers: Vec<u32> =
            self.zones[zone as usize].stripes.iter().map(|stripe| stripe.number).collect();
        for number in numbers {
            self.advance_stripes(zone, number, fx);
        }
    }

    /// Answers what has ended, unless a failure is being recorded.
    pub(super) fn answer_writes(&mut self, fx: &mut Effects) {
        self.answers.settle(&self.members, fx);
    }

    /// Everything that has arrived will be durable before this is answered; drives have no volatile caches.
    pub(super) fn start_flush(&mut self, id: RequestId, fx: &mut Effects) {
        self.answers.flush(id);
        self.answer_writes(fx);
    }
}

/// Seals the metadata of a block whose data is there.
pub fn seal_block(frame: &mut Frame, place: &Place) {
    let lba = u64::from(place.stripe.0) << 16 | u64::from(place.piece.0) << 8 | u64::from(place.row);
    let protected = Protected { lba, sequence: place.segment, kind: Kind::User };
    *oob::protected_mut(&mut frame.oob) = protected.to_bytes();
    let data_crc = crc32c(&frame.data);
    oob::seal(&mut frame.oob, place, data_crc, None);
}
