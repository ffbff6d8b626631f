//! Lookups: buffers first, then the pages of all slots that match, one after the other.
//!
//! A page is believed when its stamp names this cache, drive, zone, life of the zone and place, and a record when key and
//! checksum are right. What is not is hidden by an entry: it leaves the index, and must not come back.
//!
//! ```text
//!   page 7                  page 8     page 9     page 10
//!   | .. | head key value | value    | value    | value ..  |      a part of the value: page 7, then 9 and 10, each held against the
//!                                       <- part ->                 checksum in its stamp, which also names the page of the head
//! ```

use super::memory::Copied;
use super::operation::{Operation, Stage, Task};
use super::{Effects, Purpose, Shard, command};
use crate::format::page::{PageView, ROOM_BYTES};
use crate::format::record::RecordHead;
use crate::format::stamp::{Kind, Stamp};
use crate::index::PageNumber;
use crate::request::Object;
use base::frame::Frame;
use std::ops::Range;
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
    /// Bytes of the value that are asked for.
    wanted: Range<usize>,
    /// Offset in the value of the first byte that was read.
    from: usize,
    /// Bytes of the value that were read.
    value: Vec<u8>,
    /// Sequence of the page it begins in.
    origin: u64,
    /// Pages of it that were read, or passed over.
    pages: u32,
}

impl Partial {
    /// A record that goes on behind the page with its head: what is asked for decides which page is the next one.
    fn begin(head: RecordHead, (front, value): (&[u8], &[u8]), wanted: Range<usize>, origin: u64) -> Partial {
        assert!(
            wanted.end > value.len() && wanted.end <= head.value_bytes,
            "the page with the head is not enough"
        );
        let passed = wanted.start.checked_sub(value.len()).map(|bytes| bytes / ROOM_BYTES);
        let (from, here) = passed.map_or((0, value), |pages| (value.len() + pages * ROOM_BYTES, &[][..]));
        let pages = 1 + u32::try_from(passed.unwrap_or(0)).expect("objects are small");
        Partial { head, front: front.to_vec(), wanted, from, value: here.to_vec(), origin, pages }
    }

    /// Offset in the value behind the last byte that was read.
    fn end(&self) -> usize {
        self.from + self.value.len()
    }

    /// Takes the next page of the record; false when it holds another part of it than it should.
    fn take(&mut self, lead: &[u8]) -> bool {
        let is_right = lead.len() == ROOM_BYTES.min(self.head.value_bytes - self.end());
        self.value.extend_from_slice(lead);
        self.pages += 1;
        is_right
    }

    /// All that is asked for was read.
    fn finish(self) -> Verdict {
        assert!(self.end() >= self.wanted.end, "pages are missing");
        if self.value.len() < self.head.value_bytes {
            let part = &self.value[self.wanted.start - self.from..self.wanted.end - self.from];
            return Verdict::Part(self.head.object_of_part(part.into()));
        }
        self.head.object(&self.front, self.value.into()).map_or(Verdict::Damaged, Verdict::Found)
    }
}

/// Verdict of a page on a key.
enum Verdict {
    Found(Object),
    /// The object with the part of its value that is asked for.
    Part(Object),
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
        if let Some(object) = self.objects.buffer.get(operation.ident, &operation.key) {
            let found = Some(operation.task.wants(object.clone()));
            operation.stage = Stage::Looked { found, certain: true };
            let Operation { ident, key, task, .. } = self.desk.operations.get(number);
            self.objects.note_buffer_hit(&mut self.core, (*ident, key), matches!(task, Task::Get(_)));
            return self.desk.ready.push_back(number);
        }
        let (ident, namespace) = (operation.ident, operation.key.namespace());
        if let Some(object) = self.objects.remember(&mut self.core, (ident, &operation.key)) {
            let operation = self.desk.operations.get_mut(number);
            operation.stage = Stage::Looked { found: Some(operation.task.wants(object)), certain: true };
            self.core.counters.hits_memory += 1;
            self.core.counters.of_mut(namespace).hits += 1;
            return self.desk.ready.push_back(number);
        }
        let mut rest: Vec<PageNumber> = self.core.index.find(ident).collect();
        let all = rest.len();
        rest.retain(|page| self.core.is_readable(*page));
        let certain = certain && rest.len() == all;
        let reading = Reading { rest, page: PageNumber(0), certain, partial: None };
        self.read_next(number, reading, effects);
    }

    fn read_next(&mut self, number: u32, mut reading: Reading, effects: &mut Effects) {
        let Some(page) = reading.rest.pop() else {
            let operation = self.desk.operations.get_mut(number);
            operation.stage = Stage::Looked { found: None, certain: reading.certain };
            return self.desk.ready.push_back(number);
        };
        let ident = self.desk.operations.get(number).ident;
        if !self.core.is_readable(page) || !self.core.index.find(ident).any(|found| found == page) {
            // Its zone has become a victim since; what was written anew of it is elsewhere.
            return self.look_in(number, reading.certain, effects);
        }
        reading.page = page;
        reading.partial = None;
        self.read(number, reading, 1, effects);
    }

    /// Reads pages: the first one, or those that follow.
    fn read(&mut self, number: u32, reading: Reading, pages: u32, effects: &mut Effects) {
        assert!(pages > 0, "a read is of some pages");
        let (drive, zone, page) = self.core.locate(reading.page);
        let offset = page + reading.partial.as_ref().map_or(0, |partial| partial.pages);
        let frames: Vec<Frame> = (0..pages).map(|_| self.core.take_frame()).collect();
        self.core.drives[drive].zones[zone.index()].readers += 1;
        self.core.counters.pages_read += u64::from(pages);
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
        self.core.end_read(drive, zone);
        let operation = self.desk.operations.get_mut(number);
        let Stage::Reading(mut reading) = std::mem::replace(&mut operation.stage, Stage::Queued) else {
            unreachable!("a page comes to who reads")
        };
        let verdict = match status {
            Status::Success => self.judge(number, &mut reading, &frames),
            _ => Verdict::Damaged,
        };
        self.core.frames.extend(frames);
        match verdict {
            Verdict::Found(object) => {
                self.keep_if_warm(number, reading.page, Some(&object));
                let object = self.desk.operations.get(number).task.wants(object);
                self.note_flash_hit(number, object);
            }
            Verdict::Part(object) => {
                self.keep_if_warm(number, reading.page, None);
                self.note_flash_hit(number, object);
            }
            Verdict::NotHere => self.read_next(number, reading, effects),
            Verdict::Damaged => {
                reading.certain = false;
                self.hide_damaged(number, reading.page);
                self.read_next(number, reading, effects);
            }
            Verdict::GoesOn(mut partial) => {
                let missing = partial.wanted.end - partial.end();
                let pages = u32::try_from(missing.div_ceil(ROOM_BYTES)).expect("objects are small");
                let (drive, _, page) = self.core.locate(reading.page);
                let room = self.core.drives[drive].capacity - page - partial.pages;
                if pages > room {
                    reading.certain = false;
                    self.hide_damaged(number, reading.page);
                    return self.read_next(number, reading, effects);
                }
                partial.value.reserve_exact(missing);
                let pages = pages.min(self.core.drives[drive].transfer_max);
                reading.partial = Some(partial);
                self.read(number, reading, pages, effects);
            }
        }
    }

    /// An object was found on flash.
    fn note_flash_hit(&mut self, number: u32, object: Object) {
        let operation = self.desk.operations.get_mut(number);
        let namespace = operation.key.namespace();
        operation.stage = Stage::Looked { found: Some(object), certain: true };
        self.core.counters.hits_flash += 1;
        self.core.counters.of_mut(namespace).hits += 1;
        self.desk.ready.push_back(number);
    }

    /// Keeps a copy in memory of an object that was hit on flash before, if its slot is still there, and all of it was read.
    fn keep_if_warm(&mut self, number: u32, page: PageNumber, object: Option<&Object>) {
        let ident = self.desk.operations.get(number).ident;
        let was_hit = self.core.index.heat(ident, page) > 0;
        self.core.index.warm(ident, page);
        self.core.note_hit(page);
        if let Some(object) = object.filter(|_| was_hit) {
            let (drive, zone, _) = self.core.locate(page);
            let birth = self.core.drives[drive].zones[zone.index()].birth;
            let key = self.desk.operations.get(number).key.clone();
            self.objects.keep(&mut self.core, Copied { key, ident, object: object.clone(), page, birth });
        }
    }

    /// Drops a damaged object from the index, and hides it on its drive.
    fn hide_damaged(&mut self, number: u32, page: PageNumber) {
        let operation = self.desk.operations.get(number);
        let (ident, hash) = (operation.ident, operation.hash);
        let (drive, _, _) = self.core.locate(page);
        self.core.counters.damaged += 1;
        if self.core.drives[drive].up {
            let sequence = self.core.next_sequence();
            self.entries.issue(&mut self.core, drive, hash, sequence, None);
            self.core.index.remove(ident, |found| found == page);
            self.objects.memory.drop_ident(ident);
        }
    }

    fn judge(&self, number: u32, reading: &mut Reading, frames: &[Frame]) -> Verdict {
        let (drive, zone, page) = self.core.locate(reading.page);
        let life = self.core.life(drive, zone);
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
            if !partial.take(view.lead()) {
                return Verdict::Damaged;
            }
        }
        if partial.end() < partial.wanted.end { Verdict::GoesOn(partial) } else { partial.finish() }
    }

    /// Finds a record, or the beginning of it, in the page it begins in.
    fn find_in(&self, number: u32, frame: &Frame, sequence: u64) -> Verdict {
        let Operation { key, task, .. } = self.desk.operations.get(number);
        let Some(view) = PageView::parse(&frame.data) else { return Verdict::Damaged };
        let heads = view.records().filter_map(|bytes| Some((RecordHead::parse(bytes)?, bytes)));
        let Some((head, bytes)) = heads.into_iter().find(|(head, bytes)| head.is_of(bytes, key)) else {
            return Verdict::NotHere;
        };
        if sequence < self.core.cleared_below(key.namespace()) {
            return Verdict::NotHere;
        }
        let (front, value) = head.split(bytes);
        let wanted = task.bytes_of(head.value_bytes);
        if value.len() < wanted.end {
            return Verdict::GoesOn(Partial::begin(head, (front, value), wanted, sequence));
        }
        if value.len() < head.value_bytes {
            return Verdict::Part(head.object_of_part(value[wanted].into()));
        }
        head.object(front, value.into()).map_or(Verdict::Damaged, Verdict::Found)
    }
}
