//! What is done with zones as a whole: reset, finish; and the self-test of the journal's header.

use super::InbandDrive;
use super::core::{InbandCore, Waiter, Work};
use crate::answer::Asked;
use crate::units::identity::{Owner, Unit};
use crate::units::record::Entry;
use crate::units::unit_of;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, ZoneIndex};
use zone::device::{Op, Status, ZoneState, ZonedDevice};

/// Zone that is to be reset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    slot: u32,
    /// Stamp of what is written next.
    pub(super) stamp: u64,
    /// Record of the mark with that stamp; from then on what the journal says of the zone is dead.
    pub(super) record: u64,
    is_asked: bool,
}

/// Step of a finish: identities of the last unit, a flush for all that lies before, the zone itself, a flush for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Identities,
    Flush,
    Zone,
    FlushAgain,
}

impl<D: ZonedDevice> InbandCore<D> {
    /// Empties a zone: first a mark says that what the journal has of it is dead, then the device resets it.
    pub(super) fn begin_reset(&mut self, now: Instant, asked: Asked) {
        let zone = asked.zone;
        let is_used = zone.0 < self.geometry.zones && {
            let before = self.rules.zone(zone);
            before.state == ZoneState::Full || before.write_pointer > 0
        };
        if let Err(status) = self.rules.reset(zone) {
            return self.done.push(asked.plain(Err(status)));
        }
        if !is_used {
            return self.done.push(asked.plain(Ok(())));
        }
        if self.media.journal.has_failed() {
            self.degrade(zone, Status::WriteFault);
            return self.done.push(asked.plain(Err(Status::WriteFault)));
        }
        self.media.stamp += 1;
        let stamp = self.media.stamp;
        if let Some(life) = self.media.lives.get_mut(&zone) {
            life.is_over = true;
        }
        let slot = self.begin_task(asked, Work::Reset);
        self.gates.close(zone);
        let record = self.media.journal.push(Entry::Mark { zone, durable: 0, stamp });
        self.media.resets.insert(zone, Reset { slot, stamp, record, is_asked: false });
        self.flush_when_needed(now);
    }

    /// Makes a zone full where it is.
    pub(super) fn begin_finish(&mut self, now: Instant, asked: Asked) {
        let zone = asked.zone;
        let was_full = zone.0 < self.geometry.zones && self.rules.zone(zone).state == ZoneState::Full;
        if let Err(status) = self.rules.finish(zone) {
            return self.done.push(asked.plain(Err(status)));
        }
        if was_full {
            return self.done.push(asked.plain(Ok(())));
        }
        let layout = self.label.layout;
        let slot = self.begin_task(asked, Work::Finish(Finish::Identities));
        self.gates.close(zone);
        let last_unit = self.media.lives.get(&zone).and_then(|life| {
            assert!(life.writes.is_empty(), "a zone is finished behind its writes");
            let number = unit_of(life.end());
            let identities = (!layout.is_unit_end(life.end())).then(|| life.unit(number)).flatten()?;
            Some((number, life.end(), Unit::of(&identities, life.stamp)))
        });
        let Some((unit, end, identities)) = last_unit else { return self.finish_flush(now, slot) };
        // Blank places up to that of the identities: they are found there, however short the unit is.
        let place = layout.place(end);
        let mut frames: Vec<Frame> = (place..=layout.identity_place(unit)).map(|_| self.frame()).collect();
        frames.iter_mut().for_each(|frame| frame.data = [0; BLOCK_BYTES]);
        let block = frames.last_mut().expect("the place of the identities");
        identities.encode(Owner { uuid: self.label.uuid, zone, unit }, &mut block.data);
        let own = layout.device_zone(zone);
        self.ask(now, Waiter::Data(slot), own, Op::Write { offset: place, frames });
    }

    fn set_finish(&mut self, slot: u32, step: Finish) {
        let Work::Finish(now) = &mut self.tasks.get_mut(slot).work else { unreachable!("a finish") };
        *now = match (*now, step) {
            (Finish::Identities, Finish::Flush | Finish::Zone)
            | (Finish::Flush, Finish::Zone)
            | (Finish::Zone, Finish::FlushAgain) => step,
            (before, after) => unreachable!("a finish goes from {before:?} to {after:?}"),
        };
    }

    fn finish_flush(&mut self, now: Instant, slot: u32) {
        if !self.geometry.volatile_cache {
            return self.finish_zone(now, slot);
        }
        self.set_finish(slot, Finish::Flush);
        self.ask(now, Waiter::Data(slot), ZoneIndex(0), Op::Flush);
    }

    fn finish_zone(&mut self, now: Instant, slot: u32) {
        self.set_finish(slot, Finish::Zone);
        let own = self.label.layout.device_zone(self.tasks.get(slot).asked.zone);
        self.ask(now, Waiter::Data(slot), own, Op::Finish);
    }

    /// Looks at the header of the journal zone that is written.
    pub(super) fn begin_self_test(&mut self, now: Instant, asked: Asked) {
        let slot = self.begin_task(asked, Work::SelfTest);
        self.look_at_header(now, slot);
    }

    /// Reads the header of the journal zone that is written, for a self-test.
    pub(super) fn look_at_header(&mut self, now: Instant, slot: u32) {
        let frame = self.frame();
        let (zone, _) = self.media.journal.current();
        let op = Op::Read { offset: 0, frames: vec![frame] };
        self.ask(now, Waiter::Data(slot), ZoneIndex(zone), op);
    }
}

impl<D: ZonedDevice> InbandDrive<D> {
    /// Asks the device what a zone is of which a command failed; the reset or finish that failed is answered then.
    pub(super) fn ask_state(&mut self, now: Instant, zone: ZoneIndex, change: Option<(u32, Status)>) {
        if let Some((slot, Status::DeviceGone)) = change {
            self.core.media.has_failed = true;
            return self.answer_change(now, zone, slot, Err(Status::DeviceGone));
        }
        self.core.media.health.begin_asking();
        let own = self.core.label.layout.device_zone(zone);
        self.core.ask(now, Waiter::State { zone, change }, own, Op::Report { count: 1 });
    }

    /// Resets zones whose marks are durable; those whose marks cannot be written have failed.
    pub(super) fn reset_marked(&mut self, now: Instant) {
        let (durable, has_failed) = (self.core.media.journal.durable(), self.core.media.journal.has_failed());
        let completed = self.core.media.journal.completed();
        let waiting: Vec<(ZoneIndex, Reset)> = self
            .core
            .media
            .resets
            .iter()
            .filter(|(_, reset)| !reset.is_asked)
            .map(|(zone, reset)| (*zone, *reset))
            .collect();
        for (zone, reset) in waiting {
            if reset.record <= durable {
                self.core.media.resets.get_mut(&zone).expect("a reset that waits").is_asked = true;
                let own = self.core.label.layout.device_zone(zone);
                self.core.ask(now, Waiter::Data(reset.slot), own, Op::Reset);
            } else if has_failed && reset.record > completed {
                self.take_reset(now, reset.slot, Err(Status::WriteFault));
            }
        }
    }

    /// Marks cannot be made durable: zones that wait for that are not reset.
    pub(super) fn fail_resets(&mut self, now: Instant) {
        let waiting: Vec<u32> =
            self.core.media.resets.values().filter(|reset| !reset.is_asked).map(|reset| reset.slot).collect();
        for slot in waiting {
            self.take_reset(now, slot, Err(Status::WriteFault));
        }
    }

    /// The device has reset a zone, or has not.
    pub(super) fn take_reset(&mut self, now: Instant, slot: u32, outcome: Result<(), Status>) {
        let zone = self.core.tasks.get(slot).asked.zone;
        let reset = self.core.media.resets.remove(&zone).expect("a reset that is at work");
        if outcome.is_ok() {
            self.core.media.births[zone.index()] = Some(reset.stamp);
            self.end_life(now, zone);
        }
        self.end_change(now, zone, slot, outcome);
    }

    /// A step of a finish is through.
    pub(super) fn take_finish(&mut self, now: Instant, slot: u32, status: Status, mut frames: Vec<Frame>) {
        self.core.spare.append(&mut frames);
        let zone = self.core.tasks.get(slot).asked.zone;
        if status != Status::Success {
            return self.end_change(now, zone, slot, Err(status));
        }
        let Work::Finish(step) = self.core.tasks.get(slot).work else { unreachable!("a finish") };
        match step {
            Finish::Identities => self.core.finish_flush(now, slot),
            Finish::Flush => self.core.finish_zone(now, slot),
            Finish::Zone if self.core.geometry.volatile_cache => {
                // Until the device cannot forget that it is full, the journal has what it would need.
                self.core.set_finish(slot, Finish::FlushAgain);
                self.core.ask(now, Waiter::Data(slot), ZoneIndex(0), Op::Flush);
            }
            Finish::Zone | Finish::FlushAgain => {
                self.end_life(now, zone);
                self.end_change(now, zone, slot, Ok(()));
            }
        }
    }

    /// Answers a reset or a finish. After one that failed nobody knows what the zone is before the device was asked.
    fn end_change(&mut self, now: Instant, zone: ZoneIndex, slot: u32, outcome: Result<(), Status>) {
        match outcome {
            Ok(()) => self.answer_change(now, zone, slot, outcome),
            Err(status) => {
                if let Some(life) = self.core.media.lives.get_mut(&zone) {
                    life.is_over = false;
                    life.has_failed |= status != Status::DeviceGone;
                }
                self.core.degrade(zone, status);
                self.ask_state(now, zone, Some((slot, status)));
            }
        }
    }

    /// Answers a reset or a finish.
    pub(super) fn answer_change(
        &mut self,
        now: Instant,
        zone: ZoneIndex,
        slot: u32,
        outcome: Result<(), Status>,
    ) {
        self.core.answer(slot, outcome);
        self.open_gate(now, zone);
    }
}
