//! The log of a drive: partial parity of the stripes whose parity lies there, and what few other records there are.
//!
//! Records are appended to one of three zones, many at a time. When it is full, the next one takes over: a
//! superblock first, then a *checkpoint* of every stripe that has live partial parity in the old zone, each as soon as
//! nothing of it is in flight. When nothing needs the old zone any more, it is reset.
//!
//! ```text
//!   |  old: S e e e e e e | active: S c c e e e ...  | empty                S: superblock, c: checkpoint
//! ```
//! The last part of a zone, `log_reserve`, is kept for checkpoints and for records that cannot wait.

use crate::Raizn;
use crate::config::{Header, LOG_ZONES, count};
use crate::record::{Kind, Record, Scheme};
use crate::token::Waiter;
use array::engine::Effects;
use base::frame::Frame;
use base::slab::Slab;
use base::units::{OOB_BYTES, ZoneIndex};
use base::xor::xor_blocks;
use std::collections::BTreeMap;
use std::ops::Range;
use zone::device::Op;

/// Appends in flight to one log zone; as in the log-structured engine.
const APPENDS_IN_FLIGHT_MAX: u32 = 32;

/// Purpose of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Partial parity with this coverage.
    Partial {
        /// Logical zone.
        zone: u32,
        /// Stripe.
        stripe: u32,
        /// As in its record.
        coverage: u32,
    },
    /// A stripe's parity moves to the new log zone; all data it covers is durable.
    Checkpoint {
        /// Logical zone.
        zone: u32,
        /// Stripe.
        stripe: u32,
        /// As in its record.
        coverage: u32,
    },
    /// Something that moves to the new log zone and that nobody else waits for.
    Moved,
    /// Notice that a member failed, or was rebuilt.
    Members,
    /// Notice that a logical zone is reset.
    Reset(u32),
}

/// An append under way.
#[derive(Clone, Copy, Debug)]
pub struct Append {
    purpose: Purpose,
    /// Place of the zone in the log.
    place: usize,
}

impl Append {
    /// Purpose of the append.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }
}

/// A log zone that is being replaced.
#[derive(Clone, Copy, Debug, Default)]
struct Old {
    place: usize,
    /// Appends that must be in the new zone first.
    debts: u32,
    is_resetting: bool,
}

/// The log of one drive.
#[derive(Debug, Default)]
pub struct ParityLog {
    /// Place of the zone that is written.
    pub place: usize,
    /// Blocks of it that were handed to the drive.
    pub appended: u32,
    in_flight: [u32; LOG_ZONES as usize],
    old: Option<Old>,
}

/// The logs of all drives.
#[derive(Debug)]
pub struct Logs {
    /// Log of each drive.
    pub drives: Vec<ParityLog>,
    /// Appends under way.
    pub appends: Slab<Append>,
    /// Parity that recovery could not put in its place, by (logical zone, stripe, row).
    pub relocated: BTreeMap<(u32, u32, u32), Frame>,
}

impl Logs {
    /// Returns empty logs.
    #[must_use]
    pub fn new(members: usize) -> Logs {
        let drives = (0..members).map(|_| ParityLog::default()).collect();
        Logs { drives, appends: Slab::default(), relocated: BTreeMap::new() }
    }
}

impl Raizn {
    /// The physical zone of a place in a log.
    pub(super) fn log_zone(&self, place: usize) -> ZoneIndex {
        ZoneIndex(self.config.logical_zones() + count(place))
    }

    /// True when partial parity of a stripe can be handed to a drive's log now.
    pub(super) fn log_has_room(&mut self, drive: usize, fx: &mut Effects) -> bool {
        let limit = self.config.geometry.zone_capacity_blocks - self.config.log_reserve(&self.tuning);
        let log = &self.logs.drives[drive];
        if log.in_flight[log.place] >= APPENDS_IN_FLIGHT_MAX {
            return false;
        }
        if log.appended + 2 * self.map.chunk_blocks() <= limit {
            return true;
        }
        if log.old.is_some() {
            return false;
        }
        self.replace_log_zone(drive, fx);
        true
    }

    /// The next zone takes over; whatever lives in the old one becomes its debt.
    fn replace_log_zone(&mut self, drive: usize, fx: &mut Effects) {
        let log = &mut self.logs.drives[drive];
        log.old = Some(Old { place: log.place, debts: 0, is_resetting: false });
        log.place = (log.place + 1) % LOG_ZONES as usize;
        log.appended = 0;
        self.counters.log_zones_replaced += 1;
        self.append_superblock(drive, Purpose::Moved, fx);
        let mut debts = 1;
        let moved: Vec<(u32, u32, u32)> = self
            .logs
            .relocated
            .keys()
            .copied()
            .filter(|(zone, stripe, _)| self.map.parity_drive(*zone, *stripe) == drive)
            .collect();
        for key in moved {
            debts += self.append_relocated(drive, key, fx);
        }
        for zone in 0..self.config.logical_zones() {
            for stripe in &mut self.zones[zone as usize].stripes {
                let is_here = self.map.parity_drive(zone, stripe.number) == drive;
                if stripe.is_logged && is_here {
                    stripe.is_stale = true;
                    debts += 1;
                }
            }
        }
        self.logs.drives[drive].old.as_mut().expect("set above").debts += debts;
    }

    /// Appends a row of parity that could not be put in its place; returns how many appends it takes.
    pub(super) fn append_relocated(&mut self, drive: usize, key: (u32, u32, u32), fx: &mut Effects) -> u32 {
        let (zone, stripe, row) = key;
        let mut frame = self.frames.take();
        frame.set_data(&self.logs.relocated[&key].data);
        let record = Record {
            zone,
            stripe,
            generation: self.zones[zone as usize].generation,
            row: u16::try_from(row).expect("validated: at most 64 rows"),
            coverage: self.map.stripe_blocks(),
            ..Record::of_array(Kind::Settled, self.members.epoch)
        };
        self.append_rows(drive, Purpose::Moved, vec![frame], record, fx)
    }

    /// Hands on the parity of rows that have changed, where a log has room.
    pub(super) fn append_partials(&mut self, zone: u32, fx: &mut Effects) {
        for index in 0..self.zones[zone as usize].stripes.len() {
            let stripe = &self.zones[zone as usize].stripes[index];
            if stripe.changed.is_empty() {
                continue;
            }
            let (number, coverage) = (stripe.number, stripe.issued);
            let drive = self.map.parity_drive(zone, number);
            if self.members.is_failed(drive) {
                let stripe = &mut self.zones[zone as usize].stripes[index];
                stripe.changed = 0..0;
                stripe.partials.push_back(crate::logical_zone::Partial { coverage, pending: 0 });
                continue;
            }
            if !self.log_has_room(drive, fx) {
                self.zones_waiting.insert(zone);
                continue;
            }
            let stripe = &mut self.zones[zone as usize].stripes[index];
            let rows = std::mem::take(&mut stripe.changed);
            stripe.is_logged = true;
            let purpose = Purpose::Partial { zone, stripe: number, coverage };
            let pending = self.append_parity(zone, number, rows, purpose, fx);
            let stripe = &mut self.zones[zone as usize].stripes[index];
            stripe.partials.push_back(crate::logical_zone::Partial { coverage, pending });
        }
    }

    /// Appends the parity of rows of a stripe, of all blocks handed to drives; returns how many appends it takes.
    pub(super) fn append_parity(
        &mut self,
        zone: u32,
        number: u32,
        rows: Range<u32>,
        purpose: Purpose,
        fx: &mut Effects,
    ) -> u32 {
        let generation = self.zones[zone as usize].generation;
        let kind = match purpose {
            Purpose::Partial { .. } => Kind::Partial,
            _ => Kind::Settled,
        };
        let header = u32::from(self.tuning.header == Header::Block);
        let rows_max = self.config.geometry.append_blocks_max - header;
        let drive = self.map.parity_drive(zone, number);
        let mut appends = 0;
        for first in rows.clone().step_by(rows_max as usize) {
            let some = first..rows.end.min(first + rows_max);
            let mut frames = self.frames.take_vec(some.len());
            let stripe = self.zones[zone as usize].stripe(number).expect("open");
            for (row, frame) in some.zip(&mut frames) {
                let sources: Vec<_> =
                    stripe.row(&self.map, row, stripe.issued).map(|frame| &frame.data).collect();
                xor_blocks(&mut frame.data, &sources);
            }
            let record = Record {
                zone,
                stripe: number,
                generation,
                row: u16::try_from(first).expect("validated: at most 64 rows"),
                coverage: stripe.issued,
                ..Record::of_array(kind, self.members.epoch)
            };
            appends += self.append_rows(drive, purpose, frames, record, fx);
        }
        appends
    }

    /// Appends rows that follow one another from that of the record, in one go; returns 1.
    fn append_rows(
        &mut self,
        drive: usize,
        purpose: Purpose,
        mut frames: Vec<Frame>,
        record: Record,
        fx: &mut Effects,
    ) -> u32 {
        let rows = count(frames.len());
        self.counters.log_rows += u64::from(rows);
        let row_of = |at: usize| Record { row: record.row + u16::try_from(at).expect("few rows"), ..record };
        match self.tuning.header {
            Header::OutOfBand => {
                for (at, frame) in frames.iter_mut().enumerate() {
                    row_of(at).seal(self.tag, frame);
                }
            }
            Header::Block => {
                let mut header = self.frames.take();
                header.data.fill(0);
                for (at, frame) in frames.iter_mut().enumerate() {
                    frame.oob.fill(0);
                    let data_crc = base::checksum::crc32c(&frame.data);
                    let record = Record { data_crc, ..row_of(at) };
                    record.encode(self.tag, &mut header.data[at * OOB_BYTES..]);
                }
                Record { coverage: rows, ..Record::of_array(Kind::Header, self.members.epoch) }
                    .seal(self.tag, &mut header);
                frames.insert(0, header);
                self.counters.log_headers += 1;
            }
        }
        self.append(drive, purpose, frames, fx);
        1
    }

    fn append(&mut self, drive: usize, purpose: Purpose, frames: Vec<Frame>, fx: &mut Effects) {
        let log = &mut self.logs.drives[drive];
        log.appended += count(frames.len());
        log.in_flight[log.place] += 1;
        assert!(log.appended <= self.config.geometry.zone_capacity_blocks, "the log's reserve was too small");
        let place = log.place;
        let slot = self.logs.appends.insert(Append { purpose, place });
        fx.command(drive, self.log_zone(place), Waiter::Log(slot), Op::Append { frames });
    }

    /// Appends who belongs to the array.
    pub(super) fn append_superblock(&mut self, drive: usize, purpose: Purpose, fx: &mut Effects) {
        let mut frame = self.frames.take();
        self.members.superblock(Scheme::Raizn, self.config, drive).seal(&mut frame);
        self.counters.log_others += 1;
        self.append(drive, purpose, vec![frame], fx);
    }

    /// Appends to a drive's log that a logical zone is reset.
    pub(super) fn append_reset(&mut self, drive: usize, zone: u32, fx: &mut Effects) {
        let mut frame = self.frames.take();
        frame.data.fill(0);
        let generation = self.zones[zone as usize].generation;
        Record::of_reset(self.members.epoch, zone, generation).seal(self.tag, &mut frame);
        self.counters.log_others += 1;
        self.append(drive, Purpose::Reset(zone), vec![frame], fx);
    }

    /// True when a drive's log has room for a record of a reset.
    pub(super) fn log_has_room_for_reset(&mut self, drive: usize, fx: &mut Effects) -> bool {
        self.members.is_failed(drive) || self.log_has_room(drive, fx)
    }

    /// An append is over; returns what it was for.
    pub(super) fn end_append(&mut self, slot: u32, drive: usize) -> Purpose {
        let Append { purpose, place } = self.logs.appends.remove(slot);
        let in_flight = &mut self.logs.drives[drive].in_flight[place];
        assert!(*in_flight > 0, "an append is over once");
        *in_flight -= 1;
        purpose
    }

    /// An old log zone was reset.
    pub(super) fn end_log_reset(&mut self, drive: usize) {
        let old = self.logs.drives[drive].old.take();
        assert!(
            old.is_none_or(|old| old.is_resetting && old.debts == 0),
            "a log zone is reset when nothing needs it"
        );
    }

    /// Something that lived in the old log zone does so no longer.
    pub(super) fn pay_debt(&mut self, drive: usize) {
        if let Some(old) = &mut self.logs.drives[drive].old {
            assert!(old.debts > 0);
            old.debts -= 1;
        }
    }

    /// Goes on with replacing log zones.
    pub(super) fn settle_logs(&mut self, fx: &mut Effects) {
        for drive in 0..self.config.members {
            let Some(old) = self.logs.drives[drive].old else { continue };
            if old.is_resetting || self.members.is_failed(drive) {
                continue;
            }
            if old.debts > 0 {
                self.checkpoint_stripes(drive, fx);
            }
            let log = &self.logs.drives[drive];
            // A reset of a logical zone is known by its record until its zones are empty.
            let is_needed = old.debts > 0
                || log.in_flight[old.place] > 0
                || self.members.fence > 0
                || self.zones.iter().any(|zone| zone.reset.is_some());
            if !is_needed {
                self.logs.drives[drive].old = Some(Old { is_resetting: true, ..old });
                fx.command(drive, self.log_zone(old.place), Waiter::LogReset, Op::Reset);
            }
        }
    }

    /// Moves the parity of stripes to the new log zone, of those that nothing is in flight of. Others will be
    /// whole soon.
    fn checkpoint_stripes(&mut self, drive: usize, fx: &mut Effects) {
        for zone in 0..self.config.logical_zones() {
            for index in 0..self.zones[zone as usize].stripes.len() {
                let stripe = &mut self.zones[zone as usize].stripes[index];
                let number = stripe.number;
                let is_due = stripe.is_stale && stripe.is_settled(&self.map);
                if !is_due || self.map.parity_drive(zone, number) != drive {
                    continue;
                }
                // It speaks for rows that found no room in the log, too.
                stripe.changed = 0..0;
                let (coverage, rows) = (stripe.issued, 0..stripe.issued.min(self.map.chunk_blocks()));
                let purpose = Purpose::Checkpoint { zone, stripe: number, coverage };
                let before = self.counters.log_rows;
                let pending = self.append_parity(zone, number, rows, purpose, fx);
                self.counters.checkpoint_rows += self.counters.log_rows - before;
                self.zones[zone as usize].open_stripe(number).checkpoint_pending = pending;
            }
        }
    }

    /// The log of a member that failed is no more, and nothing is to move there.
    pub(super) fn drop_log(&mut self, drive: usize) {
        self.logs.drives[drive].old = None;
        let map = self.map;
        for (zone, logical) in (0..).zip(&mut self.zones) {
            for stripe in logical.stripes.iter_mut().filter(|stripe| stripe.is_stale) {
                stripe.is_stale = map.parity_drive(zone, stripe.number) != drive;
            }
        }
    }

    /// True while a log zone is being replaced or an append is under way.
    pub(super) fn logs_are_busy(&self) -> bool {
        !self.logs.appends.is_empty() || self.logs.drives.iter().any(|log| log.old.is_some())
    }
}
