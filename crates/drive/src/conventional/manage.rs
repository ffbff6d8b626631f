//! What is done with zones as a whole: reset, finish, sealing full ones; and the self-test of the label.

use super::ConventionalDrive;
use super::core::{ConventionalCore, Waiter, Work};
use super::label::Label;
use super::layout::{sector_of, unit_of};
use super::table::{Change, Entry};
use crate::answer::Asked;
use crate::units::identity::{Owner, Unit};
use crate::units::life::Life;
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use block::device::{self as block_device, BlockDevice};
use zone::device::{Status, ZoneState};

/// What a change of the table is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Changing {
    /// A zone that is empty.
    Reset(u32),
    /// A zone that a host has finished.
    Finish(u32),
    /// A zone that is full.
    Seal(ZoneIndex),
}

/// Step of a finish: identities of the last unit, a flush for all that lies before, the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Identities,
    Flush,
    Table,
}

/// Self-test of the label.
#[derive(Debug)]
pub(super) struct SelfTest {
    repairs: bool,
    /// Copies that are looked at or written.
    at_work: usize,
    is_damaged: bool,
    is_repairing: bool,
    /// The device was away as a copy was read: both are read again, which waits for it.
    is_stalled: bool,
}

impl<D: BlockDevice> ConventionalCore<D> {
    /// Empties a zone: what it held is dead once the table has its next life.
    pub(super) fn begin_reset(&mut self, now: Instant, asked: Asked) {
        let zone = asked.zone;
        if let Err(status) = self.rules.reset(zone) {
            return self.done.push(asked.plain(Err(status)));
        }
        let is_used = self.media.lives.contains_key(&zone) || self.media.table.entry(zone).full.is_some();
        if !is_used {
            return self.done.push(asked.plain(Ok(())));
        }
        self.media.stamp += 1;
        if let Some(life) = self.media.lives.get_mut(&zone) {
            // The table's next word on the zone is that it is empty.
            life.is_over = true;
        }
        let slot = self.begin_task(now, asked, Work::Reset);
        self.gates.close(zone);
        let entry = Entry { birth: self.media.stamp, full: None };
        self.change(now, zone, entry, Changing::Reset(slot));
    }

    /// Makes a zone full where it is.
    pub(super) fn begin_finish(&mut self, now: Instant, asked: Asked) {
        let zone = asked.zone;
        let was_full = self.rules_state(zone) == Some(ZoneState::Full);
        if let Err(status) = self.rules.finish(zone) {
            return self.done.push(asked.plain(Err(status)));
        }
        if was_full {
            return self.done.push(asked.plain(Ok(())));
        }
        let slot = self.begin_task(now, asked, Work::Finish(Finish::Identities));
        self.gates.close(zone);
        let last_unit = self.media.lives.get(&zone).and_then(|life| {
            assert!(life.writes.is_empty(), "a zone is finished behind its writes");
            let number = unit_of(life.end());
            Some((number, Unit::of(&life.unit(number)?, life.stamp)))
        });
        let Some((unit, identities)) = last_unit else { return self.finish_identities(now, slot) };
        let mut frame = self.frame();
        identities.encode(Owner { uuid: self.label.uuid, zone, unit }, &mut frame.data);
        let place = self.label.layout.identity_place(zone, unit);
        self.write_place(now, Waiter::Data(slot), place, vec![frame], false);
    }

    fn rules_state(&self, zone: ZoneIndex) -> Option<ZoneState> {
        (zone.0 < self.geometry.zones).then(|| self.rules.zone(zone).state)
    }

    fn finish_identities(&mut self, now: Instant, slot: u32) {
        if self.geometry.volatile_cache {
            self.set_finish(slot, Finish::Flush);
            return self.ask(now, Waiter::Data(slot), block_device::Op::Flush);
        }
        self.finish_table(now, slot);
    }

    fn set_finish(&mut self, slot: u32, step: Finish) {
        let Work::Finish(now) = &mut self.tasks.get_mut(slot).work else { unreachable!("a finish") };
        *now = match (*now, step) {
            (Finish::Identities, Finish::Flush | Finish::Table) | (Finish::Flush, Finish::Table) => step,
            (before, after) => unreachable!("a finish goes from {before:?} to {after:?}"),
        };
    }

    fn finish_table(&mut self, now: Instant, slot: u32) {
        self.set_finish(slot, Finish::Table);
        let zone = self.tasks.get(slot).asked.zone;
        let pointer = self.media.lives.get(&zone).map_or(0, Life::end);
        let entry = Entry { full: Some(pointer), ..self.media.table.entry(zone) };
        self.change(now, zone, entry, Changing::Finish(slot));
    }

    /// The table is to say that a zone is full and durable.
    pub(super) fn seal(&mut self, now: Instant, zone: ZoneIndex) {
        let entry = Entry { full: Some(self.label.layout.capacity()), ..self.media.table.entry(zone) };
        self.change(now, zone, entry, Changing::Seal(zone));
    }

    fn change(&mut self, now: Instant, zone: ZoneIndex, entry: Entry, what: Changing) {
        let change = self.media.table.set(zone, entry);
        self.media.changes.push((change, what));
        self.write_page(now, change.page);
    }

    fn write_page(&mut self, now: Instant, page: u32) {
        let mut frame = self.frame();
        match self.media.table.begin_write(page, &mut frame.data) {
            Some(copy) => {
                let place = self.label.layout.page_places(page)[copy];
                self.write_place(now, Waiter::Page(page), place, vec![frame], true);
            }
            None => self.spare.push(frame),
        }
    }

    /// Looks at both copies of the label.
    pub(super) fn begin_self_test(&mut self, now: Instant, asked: Asked, repairs: bool) {
        let (is_damaged, is_repairing, is_stalled) = (false, false, false);
        let test = SelfTest { repairs, at_work: 2, is_damaged, is_repairing, is_stalled };
        let slot = self.begin_task(now, asked, Work::SelfTest(test));
        self.read_labels(now, slot);
    }

    fn read_labels(&mut self, now: Instant, slot: u32) {
        for place in self.label.layout.labels() {
            let frame = self.frame();
            self.read_place(now, Waiter::Data(slot), place, vec![frame]);
        }
    }

    /// A copy was read or written.
    pub(super) fn take_self_test(&mut self, now: Instant, slot: u32, status: Status, mut frames: Vec<Frame>) {
        let label = self.label;
        let Work::SelfTest(test) = &mut self.tasks.get_mut(slot).work else { unreachable!("a self-test") };
        let is_good = status == Status::Success
            && (test.is_repairing || frames.iter().all(|frame| Label::decode(&frame.data) == Ok(label)));
        self.spare.append(&mut frames);
        test.at_work -= 1;
        test.is_damaged |= !is_good;
        test.is_stalled |= status == Status::Stalled;
        if test.at_work > 0 {
            return;
        }
        if std::mem::take(&mut test.is_stalled) {
            (test.is_damaged, test.at_work) = (false, 2);
            return self.read_labels(now, slot);
        }
        let wants_repair = test.is_damaged && test.repairs && !test.is_repairing;
        if !wants_repair {
            let outcome = if test.is_damaged { Err(Status::InternalError) } else { Ok(()) };
            return self.answer(slot, outcome);
        }
        (test.is_repairing, test.is_damaged, test.at_work) = (true, false, 2);
        for place in label.layout.labels() {
            let mut frame = self.frame();
            frame.data = label.encode();
            self.write_place(now, Waiter::Data(slot), place, vec![frame], true);
        }
    }
}

impl<D: BlockDevice> ConventionalDrive<D> {
    /// A step of a finish is through.
    pub(super) fn take_finish(&mut self, now: Instant, slot: u32, status: Status, mut frames: Vec<Frame>) {
        self.core.spare.append(&mut frames);
        if status != Status::Success {
            let zone = self.core.tasks.get(slot).asked.zone;
            return self.end_change(now, zone, slot, Err(status));
        }
        let Work::Finish(step) = self.core.tasks.get(slot).work else { unreachable!("a finish") };
        match step {
            Finish::Identities => self.core.finish_identities(now, slot),
            Finish::Flush => self.core.finish_table(now, slot),
            Finish::Table => unreachable!("the table is not data"),
        }
    }

    /// The write of a page is through.
    pub(super) fn after_page(&mut self, now: Instant, page: u32, status: Status) {
        let table = &self.core.media.table;
        let is_through = |(change, _): &mut (Change, Changing)| {
            change.page == page && (status != Status::Success || table.is_durable(*change))
        };
        let through: Vec<(Change, Changing)> = self.core.media.changes.extract_if(.., is_through).collect();
        let outcome = if status == Status::Success { Ok(()) } else { Err(status) };
        for (_, what) in through {
            match what {
                Changing::Reset(slot) => self.after_reset(now, slot, outcome),
                Changing::Finish(slot) => {
                    let zone = self.core.tasks.get(slot).asked.zone;
                    if outcome.is_ok() {
                        self.end_life(now, zone);
                    }
                    self.end_change(now, zone, slot, outcome);
                }
                Changing::Seal(zone) => {
                    self.core.media.has_failed |= outcome.is_err();
                    // A reset may have overtaken it: then the life is another one, or none.
                    let is_over = self.core.media.lives.get(&zone).is_some_and(|life| life.is_over);
                    if outcome.is_ok() && is_over {
                        self.end_life(now, zone);
                    }
                }
            }
        }
        self.core.write_page(now, page);
    }

    fn after_reset(&mut self, now: Instant, slot: u32, outcome: Result<(), Status>) {
        let zone = self.core.tasks.get(slot).asked.zone;
        if outcome.is_err() {
            return self.end_change(now, zone, slot, outcome);
        }
        self.end_life(now, zone);
        self.core.answer(slot, outcome);
        if self.core.discards {
            let sector = sector_of(self.core.label.layout.zone_place(zone));
            let sectors = self.core.label.layout.zone_sectors();
            self.core.ask(now, Waiter::Discard(zone), block_device::Op::Discard { sector, sectors });
        } else {
            self.open_gate(now, zone);
        }
    }

    /// Answers a reset or a finish. After one that failed nobody knows what the table says of the zone.
    fn end_change(&mut self, now: Instant, zone: ZoneIndex, slot: u32, outcome: Result<(), Status>) {
        self.core.media.has_failed |= outcome.is_err();
        if outcome.is_err() && self.core.rules.zone(zone).state != ZoneState::ReadOnly {
            self.core.rules.degrade(zone, ZoneState::ReadOnly);
        }
        self.core.answer(slot, outcome);
        self.open_gate(now, zone);
    }
}
