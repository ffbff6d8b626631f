//! The zones of superblocks of a drive: marks of first chunks, write pointers, and the partial parity for which windows have no room.
//!
//! Records are appended to one of two zones. When it is full the other one takes over, and it is emptied once no stripe is open whose partial
//! parity lies there.

use super::Zraid;
use super::config::{LOG_ZONES, logical_zones};
use super::logical_zone::Part;
use super::send::Sent;
use array::engine::Effects;
use base::frame::Frame;
use base::units::ZoneIndex;
use std::collections::{BTreeSet, VecDeque};
use zone::device::{Op, Token};

/// Copies of a log of write pointers.
const COPIES: usize = 2;

/// Purpose of a record.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Partial parity of a logical zone.
    Partial(u32, Part),
    /// The mark of a logical zone's first chunk.
    Mark(u32),
    /// How far zones are written.
    WritePointers,
    /// The superblock of a zone that takes over.
    Superblock,
}

/// The zones of one drive.
#[derive(Debug, Default)]
pub struct Log {
    /// The one that is written.
    place: usize,
    appended: u32,
    waiting: VecDeque<(Purpose, Vec<Frame>)>,
    in_flight: [u32; LOG_ZONES as usize],
    /// Open stripes, by logical zone, whose partial parity lies there.
    live: [BTreeSet<(u32, u32)>; LOG_ZONES as usize],
    /// The other one holds something.
    is_other_used: bool,
    is_resetting: bool,
}

impl Zraid {
    fn log_zone(&self, place: usize) -> ZoneIndex {
        ZoneIndex(logical_zones(&self.config) + u32::try_from(place).expect("few zones"))
    }

    /// Hands a record to a drive, now or when there is room.
    pub(super) fn append(&mut self, drive: usize, purpose: Purpose, frames: Vec<Frame>, fx: &mut Effects) {
        self.logs[drive].waiting.push_back((purpose, frames));
        self.pump_log(drive, fx);
    }

    /// A block of a record: what it says takes no more than one, and nobody reads it.
    fn blank(&mut self) -> Frame {
        let mut frame = self.frames.take();
        frame.data.fill(0);
        frame.oob.fill(0);
        frame
    }

    fn pump_log(&mut self, drive: usize, fx: &mut Effects) {
        while let Some((_, frames)) = self.logs[drive].waiting.front() {
            let blocks = u32::try_from(frames.len()).expect("few blocks");
            let log = &mut self.logs[drive];
            if log.appended + blocks > self.limits.capacity {
                if log.is_other_used {
                    return;
                }
                (log.place, log.appended, log.is_other_used) = (1 - log.place, 0, true);
                let frames = vec![self.blank()];
                self.logs[drive].waiting.push_front((Purpose::Superblock, frames));
                continue;
            }
            let (purpose, frames) = self.logs[drive].waiting.pop_front().expect("it was looked at");
            let log = &mut self.logs[drive];
            let place = log.place;
            log.appended += blocks;
            log.in_flight[place] += 1;
            if let Purpose::Partial(zone, part) = purpose {
                log.live[place].insert((zone, part.stripe));
                self.counters.partial_logged += u64::from(blocks);
            }
            self.counters.logged += u64::from(blocks);
            let token = self.in_flight.insert(Sent::Log { purpose, place });
            fx.command(drive, self.log_zone(place), Token(u64::from(token)), Op::Append { frames });
        }
    }

    /// A record is durable.
    pub(super) fn on_logged(&mut self, drive: usize, purpose: Purpose, place: usize, fx: &mut Effects) {
        self.logs[drive].in_flight[place] -= 1;
        match purpose {
            Purpose::Partial(zone, part) => self.on_part(zone, part, fx),
            Purpose::Mark(zone) => {
                self.zones[zone as usize].is_marked = true;
                self.advance_stripes(zone, fx);
                self.advance_zone(zone, fx);
            }
            Purpose::WritePointers => {
                let flush = self.order.flushes.front_mut().expect("it waits for its logs");
                *flush.logs.as_mut().expect("they were begun") -= 1;
            }
            Purpose::Superblock => {}
        }
        self.settle_log(drive, fx);
    }

    /// A stripe is whole: nobody needs its partial parity.
    pub(super) fn forget_partials(&mut self, zone: u32, stripe: u32, fx: &mut Effects) {
        for drive in 0..self.config.members {
            let mut held = false;
            for live in &mut self.logs[drive].live {
                held |= live.remove(&(zone, stripe));
            }
            if held {
                self.settle_log(drive, fx);
            }
        }
    }

    /// Empties the zone that was replaced, when it may go.
    fn settle_log(&mut self, drive: usize, fx: &mut Effects) {
        let log = &mut self.logs[drive];
        let other = 1 - log.place;
        let is_due = log.is_other_used && log.in_flight[other] == 0 && log.live[other].is_empty();
        if is_due && !log.is_resetting {
            log.is_resetting = true;
            let token = self.in_flight.insert(Sent::LogReset);
            fx.command(drive, self.log_zone(other), Token(u64::from(token)), Op::Reset);
        }
    }

    pub(super) fn on_log_reset(&mut self, drive: usize, fx: &mut Effects) {
        let log = &mut self.logs[drive];
        (log.is_other_used, log.is_resetting) = (false, false);
        self.pump_log(drive, fx);
    }

    /// The block that tells a zone with a first chunk from an empty one.
    pub(super) fn mark(&mut self, zone: u32, fx: &mut Effects) {
        let drive = (self.map.drive_of(zone, 0, 0) + 2) % self.config.members;
        let frames = vec![self.blank()];
        self.append(drive, Purpose::Mark(zone), frames, fx);
    }

    /// Logs how far each zone is written that ends inside a chunk, if no log says so. Returns how many records that takes.
    pub(super) fn log_write_pointers(&mut self, fx: &mut Effects) -> u32 {
        let mut records = 0;
        for number in 0..logical_zones(&self.config) {
            let zone = &self.zones[number as usize];
            let Some(stripe) = zone.stripes.back() else { continue };
            let position = stripe.number * self.map.stripe_blocks() + stripe.acked;
            if position.is_multiple_of(self.map.chunk_blocks()) || zone.logged == position {
                continue;
            }
            self.zones[number as usize].logged = position;
            let spot = self.map.spot(position);
            let first = self.map.drive_of(number, spot.stripe, spot.piece);
            for copy in 1..=COPIES {
                let frames = vec![self.blank()];
                self.append((first + copy) % self.config.members, Purpose::WritePointers, frames, fx);
                records += 1;
            }
        }
        records
    }
}
