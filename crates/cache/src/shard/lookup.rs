//! Lookups: buffers first, then the pages of all slots that match, one after the other.
//!
//! A page is believed when its stamp names this cache, drive, zone, life of the zone and place, and a record when key and
//! checksum are right. What is not is hidden by an entry: it leaves the index, and must not come back.

use super::memory::Copied;
use super::operation::Stage;
use super::{Effects, Purpose, Shard, command};
use crate::format::page::{PageView, ROOM_BYTES};
use crate::format::record::RecordHead;
use crate::format::stamp::{Kind, Stamp};
use crate::index::PageNumber;
use crate::request::Object;
use base::frame::Frame;
use std::cmp::Ordering;
use zone::device::{Completion, Op as DeviceOp, Status};

/// A lookup in pages.
#[derive(Debug)]
pub struct Reading {
    /// Pages that are still to be read.
    rest: Vec<PageNumber>,
    /// Page that is being read.
    page: PageNumber,
    /// All slots so far were judged.
    certain: bool,
    /// A record that goes on in the pages that follow.
    partial: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    head: RecordHead,
    /// Head and key.
    front: Vec<u8>,
    /// What was read of the value.
    value: Vec<u8>,
    /// Sequence of the page it begins in.
    origin: u64,
    /// Pages read of it.
    pages: u32,
}

/// What a page says of a key.
enum Verdict {
    Found(Object),
    NotHere,
    Damaged,
    GoesOn(Partial),
}

impl Shard {
    /// Looks for the object of an operation's key.
    pub(super) fn look_up(&mut self, number: u32, effects: &mut Effects) {
        self.look_in(number, true, effects);
    }

    /// Looks in buffers, copies and pages; `certain` unless a slot could not be judged before.
    fn look_in(&mut self, number: u32, certain: bool, effects: &mut Effects) {
        let operation = self.desk.operations.get_mut(number);
        if let Some(object) = self.buffer.get(operation.ident, &operation.key) {
            operation.stage = Stage::Looked { found: Some(object.clone()), certain: true };
            self.note_buffer_hit(number);
            return self.desk.ready.push_back(number);
        }
        let (ident, namespace) = (operation.ident, operation.key.namespace());
        if let Some(object) = self.remember(number) {
            self.desk.operations.get_mut(number).stage = Stage::Looked { found: Some(object), certain: true };
            self.counters.hits_memory += 1;
            self.counters.of_mut(namespace).hits += 1;
            return self.desk.ready.push_back(number);
        }
        let mut rest: Vec<PageNumber> = self.index.find(ident).collect();
        let all = rest.len();
        rest.retain(|page| self.is_readable(*page));
        let certain = certain && rest.len() == all;
        let reading = Reading { rest, page: PageNumber(0), certain, partial: None };
        self.read_next(number, reading, effects);
    }

    /// True when the drive of a page is there, and its zone no victim.
    pub(super) fn is_readable(&self, page: PageNumber) -> bool {
        let (drive, zone, _) = self.locate(page);
        self.drives[drive].up && self.drives[drive].zones[zone.index()].is_readable()
    }

    fn read_next(&mut self, number: u32, mut reading: Reading, effects: &mut Effects) {
        let Some(page) = reading.rest.pop() else {
            let operation = self.desk.operations.get_mut(number);
            operation.stage = Stage::Looked { found: None, certain: reading.certain };
            return self.desk.ready.push_back(number);
        };
        let ident = self.desk.operations.get(number).ident;
        if !self.is_readable(page) || !self.index.find(ident).any(|found| found == page) {
            // Its zone has become a victim since; what was written anew of it is elsewhere.
            return self.look_in(number, reading.certain, effects);
        }
        reading.page = page;
        reading.partial = None;
        self.read(number, reading, 1, effects);
    }

    /// Reads pages: the first one, or those that follow.
    fn read(&mut self, number: u32, reading: Reading, pages: u32, effects: &mut Effects) {
        let (drive, zone, page) = self.locate(reading.page);
        let offset = page + reading.partial.as_ref().map_or(0, |partial| partial.pages);
        let frames: Vec<Frame> = (0..pages).map(|_| self.take_frame()).collect();
        self.drives[drive].zones[zone.index()].readers += 1;
        self.counters.pages_read += u64::from(pages);
        let token = Purpose::Lookup.token(number);
        effects.commands.push(command(drive, zone, token, DeviceOp::Read { offset, frames }));
        self.desk.operations.get_mut(number).stage = Stage::Reading(reading);
    }

    /// A page was read.
    pub(super) fn on_page(
        &mut self,
        number: u32,
        drive: usize,
        completion: Completion,
        effects: &mut Effects,
    ) {
        let Completion { status, zone, frames, .. } = completion;
        self.drives[drive].zones[zone.index()].readers -= 1;
        let operation = self.desk.operations.get_mut(number);
        let Stage::Reading(mut reading) = std::mem::replace(&mut operation.stage, Stage::Queued) else {
            unreachable!("a page comes to who reads")
        };
        let verdict = match status {
            Status::Success => self.judge(number, &mut reading, &frames),
            _ => Verdict::Damaged,
        };
        self.frames.extend(frames);
        match verdict {
            Verdict::Found(object) => {
                self.counters.hits_flash += 1;
                let namespace = self.desk.operations.get(number).key.namespace();
                self.counters.of_mut(namespace).hits += 1;
                self.keep_if_warm(number, reading.page, &object);
                let operation = self.desk.operations.get_mut(number);
                operation.stage = Stage::Looked { found: Some(object), certain: true };
                self.desk.ready.push_back(number);
            }
            Verdict::NotHere => self.read_next(number, reading, effects),
            Verdict::Damaged => {
                reading.certain = false;
                self.hide_damaged(number, reading.page);
                self.read_next(number, reading, effects);
            }
            Verdict::GoesOn(mut partial) => {
                let missing = partial.head.value_bytes - partial.value.len();
                let pages = u32::try_from(missing.div_ceil(ROOM_BYTES)).expect("objects are small");
                let (drive, _, page) = self.locate(reading.page);
                let room = self.drives[drive].capacity - page - partial.pages;
                if pages > room {
                    reading.certain = false;
                    self.hide_damaged(number, reading.page);
                    return self.read_next(number, reading, effects);
                }
                partial.value.reserve_exact(missing);
                let pages = pages.min(self.drives[drive].transfer_max);
                reading.partial = Some(partial);
                self.read(number, reading, pages, effects);
            }
        }
    }

    /// What was hit on flash before is worth memory, if its slot is still there.
    fn keep_if_warm(&mut self, number: u32, page: PageNumber, object: &Object) {
        let ident = self.desk.operations.get(number).ident;
        let was_hit = self.index.heat(ident, page) > 0;
        self.index.warm(ident, page);
        self.note_hit(page);
        if was_hit {
            let (drive, zone, _) = self.locate(page);
            let birth = self.drives[drive].zones[zone.index()].birth;
            let key = self.desk.operations.get(number).key.clone();
            self.keep(Copied { key, ident, object: object.clone(), page, birth });
        }
    }

    /// What cannot be believed leaves the index, hidden on its drive.
    fn hide_damaged(&mut self, number: u32, page: PageNumber) {
        let operation = self.desk.operations.get(number);
        let (ident, hash) = (operation.ident, operation.hash);
        let (drive, _, _) = self.locate(page);
        self.counters.damaged += 1;
        if self.drives[drive].up {
            let sequence = self.next_sequence();
            self.issue_entry(drive, hash, sequence, None);
            self.index.remove(ident, |found| found == page);
            self.memory.drop_ident(ident);
        }
    }

    fn judge(&self, number: u32, reading: &mut Reading, frames: &[Frame]) -> Verdict {
        let (drive, zone, page) = self.locate(reading.page);
        let life = self.life(drive, zone);
        let stamp_of = |frame: &Frame, page: u32| {
            Stamp::read_at(frame, &life, page).filter(|stamp| stamp.kind == Kind::Records)
        };
        let Some(mut partial) = reading.partial.take() else {
            let Some(stamp) = stamp_of(&frames[0], page) else { return Verdict::Damaged };
            return self.find_in(number, &frames[0], stamp.sequence);
        };
        for frame in frames {
            let stamp = stamp_of(frame, page + partial.pages);
            let follows = stamp.is_some_and(|stamp| stamp.origin == partial.origin);
            let Some(view) = PageView::parse(&frame.data).filter(|_| follows) else {
                return Verdict::Damaged;
            };
            partial.value.extend_from_slice(view.lead());
            partial.pages += 1;
        }
        match partial.value.len().cmp(&partial.head.value_bytes) {
            Ordering::Less => Verdict::GoesOn(partial),
            Ordering::Equal => {
                let object = partial.head.object(&partial.front, partial.value.into());
                object.map_or(Verdict::Damaged, Verdict::Found)
            }
            Ordering::Greater => Verdict::Damaged,
        }
    }

    /// Finds a record, or the beginning of it, in the page it begins in.
    fn find_in(&self, number: u32, frame: &Frame, sequence: u64) -> Verdict {
        let key = &self.desk.operations.get(number).key;
        let Some(view) = PageView::parse(&frame.data) else { return Verdict::Damaged };
        let heads = view.records().filter_map(|bytes| Some((RecordHead::parse(bytes)?, bytes)));
        let Some((head, bytes)) = heads.into_iter().find(|(head, bytes)| head.is_of(bytes, key)) else {
            return Verdict::NotHere;
        };
        if sequence < self.cleared_below(key.namespace()) {
            return Verdict::NotHere;
        }
        let (front, value) = head.split(bytes);
        if value.len() < head.value_bytes {
            let (front, value) = (front.to_vec(), value.to_vec());
            return Verdict::GoesOn(Partial { head, front, value, origin: sequence, pages: 1 });
        }
        head.object(front, value.into()).map_or(Verdict::Damaged, Verdict::Found)
    }
}
