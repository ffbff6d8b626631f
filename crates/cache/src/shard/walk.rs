//! Walks over all keys (KEYS, SCAN, RANDOMKEY): by ident, in an order that no move of an object changes.
//!
//! ```text
//!   codes of idents:  0 ... | batch | ...  window  ... | ... u64::MAX
//!                        at ^            made by one pass over the index
//!   batch: idents -> buffers at once, and pages of their slots -> keys
//! ```
//! *Guarantee*: a walk in steps, each from the code the one before it ended with, tells every key that had an object from its
//! begin to its end. For such a key has an ident, whose code alone says when the walk comes to it; then its object is in a
//! buffer or in a page that a slot of the ident leads to, and both are looked at in one instant, and again when a page is to be read
//! that it has left. A window was made after the walk began
//! (one that begins makes a new one), so the ident is in it.
//!
//! What is told was there in the instant of its batch. A page that is being read is not reset before. No walk holds more
//! than a batch of idents, [`READS_MAX`] pages and its keys; walks take turns.

use super::buffer::Record;
use super::core::Core;
use super::objects::Objects;
use super::{Effects, Purpose, command};
use crate::format::page::PageView;
use crate::format::record::RecordHead;
use crate::format::stamp::{Kind, Stamp};
use crate::hash::{FullKey, Ident};
use crate::index::{PageNumber, Window};
use crate::request::{self, Namespace, Outcome, Reply, RequestId, Told, WallMillis};
use base::frame::Frame;
use std::collections::{BTreeSet, VecDeque};
use zone::device::{Completion, Op as DeviceOp, Status};

/// Most idents of a batch.
const BATCH_IDENTS_MAX: usize = 256;
/// Most pages that are read at a time.
const READS_MAX: usize = 16;
/// Batches in a turn that need no reading.
const BATCHES_MAX: u32 = 16;

/// A walk.
struct Walk {
    id: RequestId,
    namespace: Namespace,
    asked: request::Walk,
    /// Code to go on with; `u64::MAX` at the end.
    at: u64,
    has_wrapped: bool,
    idents_left: u64,
    keys: Vec<Told>,
    /// The first of the batch.
    batch_at: usize,
    keys_bytes: usize,
    /// Slots of the batch: their pages, and codes of their idents.
    slots: BTreeSet<(PageNumber, u64)>,
    /// Pages still to be read.
    pages: Vec<PageNumber>,
    reading: usize,
}

/// Bytes of a value, and when it expires.
type Facts = (usize, Option<WallMillis>);

/// Walks, of which the first is under way.
#[derive(Default)]
pub(super) struct Walks {
    queue: VecDeque<Walk>,
    window: Window,
}

impl Walks {
    /// True when one goes on without waiting for a drive.
    pub(super) fn is_eager(&self) -> bool {
        self.queue.front().is_some_and(|walk| walk.reading == 0)
    }
}

impl Walk {
    fn is_over(&self) -> bool {
        let has_enough = self.keys.len() >= self.asked.keys_max || self.keys_bytes >= self.asked.bytes_max;
        self.at == u64::MAX || self.idents_left == 0 || has_enough
    }

    /// The batch is through. An object that is written anew has two slots for a while, and is told once.
    fn end_batch(&mut self) {
        let mut told = self.keys.split_off(self.batch_at);
        let name = |told: &Told| (told.namespace, told.key.clone());
        told.sort_by_cached_key(name);
        told.dedup_by(|one, other| one.namespace == other.namespace && one.key == other.key);
        self.keys.append(&mut told);
        self.batch_at = self.keys.len();
    }

    /// A key of the batch, unless it is not of those that are asked for.
    fn tell(&mut self, key: &[u8], namespace: Namespace, wall: WallMillis, (size, expires): Facts) {
        let is_live = expires.is_none_or(|at| at > wall);
        let is_meant = self.asked.everywhere || namespace == self.namespace;
        if is_meant && is_live && self.asked.chosen.chooses(key) {
            self.keys_bytes += key.len();
            self.keys.push(Told { namespace, key: key.to_vec(), value_bytes: size as u64, expires });
        }
    }
}

impl Walks {
    /// Queues a walk.
    pub(super) fn accept(&mut self, core: &Core, id: RequestId, namespace: Namespace, asked: request::Walk) {
        let idents_left = asked.idents_max;
        let at = if asked.wraps { core.index.code_at(asked.from) } else { asked.from };
        self.queue.push_back(Walk {
            id,
            namespace,
            asked,
            at,
            has_wrapped: false,
            idents_left,
            keys: Vec::new(),
            batch_at: 0,
            keys_bytes: 0,
            slots: BTreeSet::new(),
            pages: Vec::new(),
            reading: 0,
        });
        if self.queue.len() == 1 {
            self.renew_window();
        }
    }

    /// A walk that begins does not trust what was known before it.
    fn renew_window(&mut self) {
        if self.queue.front().is_some_and(|walk| walk.asked.begins) {
            self.window = Window::default();
        }
    }

    /// Goes on with the first walk.
    pub(super) fn run(&mut self, core: &mut Core, objects: &Objects, effects: &mut Effects) {
        for _ in 0..BATCHES_MAX {
            let Some(mut walk) = self.queue.pop_front() else { return };
            read_pages(core, objects, &mut walk, effects);
            if walk.reading == 0 {
                walk.end_batch();
            }
            if walk.reading == 0 && walk.is_over() {
                let next = (walk.at != u64::MAX).then_some(walk.at);
                effects
                    .replies
                    .push(Reply { id: walk.id, outcome: Outcome::Walked { keys: walk.keys, next } });
                self.renew_window();
                continue;
            }
            let waits = walk.reading > 0;
            if !waits {
                self.begin_batch((core, objects), &mut walk);
            }
            self.queue.push_front(walk);
            if waits {
                return;
            }
        }
    }

    /// Takes the next idents: what is in buffers is told at once, pages are to be read.
    fn begin_batch(&mut self, (core, objects): (&Core, &Objects), walk: &mut Walk) {
        assert!(walk.pages.is_empty() && walk.reading == 0, "a batch ends before the next");
        if !self.window.covers(walk.at) {
            let buffered = objects.buffer.newest().map(|record| record.ident.code());
            self.window = Window::new(&core.index, buffered, walk.at);
        }
        let count = usize::try_from(walk.idents_left).unwrap_or(usize::MAX);
        let count = count.min(walk.asked.stride).clamp(1, BATCH_IDENTS_MAX);
        let (codes, next) = self.window.part(walk.at, count);
        tell_buffered((core, objects), walk, codes);
        assert!(next > walk.at, "a walk gets on");
        walk.at = next;
        assert!(codes.len() as u64 <= walk.idents_left, "a batch is a part of what is asked for");
        walk.idents_left -= codes.len() as u64;
        walk.slots.clear();
        for code in codes {
            let pages = core.index.find(Ident::from_code(*code));
            walk.slots.extend(pages.map(|page| (page, *code)));
        }
        walk.pages.extend(walk.slots.iter().map(|(page, _)| *page));
        walk.pages.dedup();
        if walk.at == u64::MAX && walk.asked.wraps && !walk.has_wrapped {
            (walk.at, walk.has_wrapped) = (0, true);
        }
    }

    /// A page was read for the first walk.
    pub(super) fn on_page(&mut self, core: &mut Core, page: PageNumber, completion: Completion) {
        let (drive, zone, _) = core.locate(page);
        core.end_read(drive, zone);
        let mut walk = self.queue.pop_front().expect("a page comes to the walk that reads");
        assert!(walk.reading > 0, "a page comes to the walk that reads");
        walk.reading -= 1;
        let is_read = completion.status == Status::Success
            && completion
                .frames
                .first()
                .is_some_and(|frame| tell_page(core, &mut walk, page, frame).is_some());
        if !is_read {
            core.counters.damaged += 1;
        }
        core.frames.extend(completion.frames);
        self.queue.push_front(walk);
    }
}

/// Tells what is in buffers of some idents.
fn tell_buffered((core, objects): (&Core, &Objects), walk: &mut Walk, codes: &[u64]) {
    if codes.is_empty() {
        return;
    }
    let is_meant = |record: &&Record| codes.binary_search(&record.ident.code()).is_ok();
    let held = codes.iter().flat_map(|code| objects.buffer.held_of(Ident::from_code(*code)));
    for record in objects.buffer.on_their_way().filter(is_meant).chain(held) {
        let (key, object) = (&record.key, &record.object);
        let facts = (object.value.len(), object.expires);
        walk.tell(key.plain(), key.namespace(), core.clocks.wall, facts);
    }
}

/// A page of the batch is left by what was in it: a later version, or one that was written anew, is in a buffer or has
/// another slot.
fn look_again((core, objects): (&Core, &Objects), walk: &mut Walk, page: PageNumber) {
    let here = walk.slots.range((page, 0)..=(page, u64::MAX));
    let codes: Vec<u64> = here.map(|(_, code)| *code).collect();
    tell_buffered((core, objects), walk, &codes);
    for code in codes {
        for found in core.index.find(Ident::from_code(code)) {
            if walk.slots.insert((found, code)) {
                walk.pages.push(found);
            }
        }
    }
}

/// True while all slots of the batch to a page are there, and the page can be read.
fn is_current(core: &Core, walk: &Walk, page: PageNumber) -> bool {
    let mut here = walk.slots.range((page, 0)..=(page, u64::MAX)).map(|(_, code)| *code);
    core.is_readable(page)
        && here.all(|code| core.index.find(Ident::from_code(code)).any(|found| found == page))
}

/// Reads pages of the batch, as many at a time as may be.
fn read_pages(core: &mut Core, objects: &Objects, walk: &mut Walk, effects: &mut Effects) {
    while walk.reading < READS_MAX {
        let Some(page) = walk.pages.pop() else { return };
        if !is_current(core, walk, page) {
            look_again((core, objects), walk, page);
        }
        let (drive, zone, offset) = core.locate(page);
        if core.is_readable(page) {
            core.drives[drive].zones[zone.index()].readers += 1;
            core.counters.pages_read += 1;
            let (token, frames) = (Purpose::Walk.token(page.0), vec![core.take_frame()]);
            effects.commands.push(command(drive, zone, token, DeviceOp::Read { offset, frames }));
            walk.reading += 1;
        }
    }
}

/// Tells the keys of a page to whose idents the batch has slots; `None` when it cannot be believed.
fn tell_page(core: &Core, walk: &mut Walk, page: PageNumber, frame: &Frame) -> Option<()> {
    let (drive, zone, offset) = core.locate(page);
    let life = core.life(drive, zone);
    let stamp = Stamp::read_at(frame, &life, offset).filter(|stamp| stamp.kind == Kind::Records)?;
    let view = PageView::parse(&frame.data)?;
    for bytes in view.records() {
        let Some(head) = RecordHead::parse(bytes) else { continue };
        if stamp.sequence < core.cleared_below(head.namespace) {
            continue;
        }
        let Some(key) = head.key(bytes) else { continue };
        let (_, ident) = core.hash_of(&FullKey::new(head.namespace, key));
        if walk.slots.contains(&(page, ident.code())) {
            walk.tell(key, head.namespace, core.clocks.wall, (head.value_bytes, head.expires));
        }
    }
    Some(())
}
