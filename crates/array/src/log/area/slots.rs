//! Slots: which block each slot of the write area holds, and what is under way with it. Pure: no drives, no index.
//!
//! ```text
//!            begin_write                 end_write                  begin_move
//!   Empty ───────────────> Writing ──────────────────> Live ──────────────────────> Moving
//!     ^                       ^   (fails: as before)    │ ^                           │
//!     │                       └────────────────────────┘ └───── end_move, not durable ┤
//!     └──────────────────── supersede: something newer is durable in the log ─────────┴─ end_move, durable
//! ```
//! A slot keeps its block's newest *durable* version; one newer version may be on its way to the same slot, in whichever state, and one
//! that is newer still may wait for that write to end; it takes the place of one that waited before. A slot
//! is empty, and another block's, only when its version is durable in the log, or a newer one is there or in another slot: nothing else empties it.
//!
//! A version is *refused* when a zone with a place of a copy takes no more writes: it stays on its way until the log has it.
//!
//! A write may also go *aside*: to a free slot on drives that have less to do than those of its block's own. The version before stays where its
//! copies are, and that slot is nobody's until the newer one is durable or the log has something newer.
//!
//! Slots are *barred* while a member is lost that has one of their places: what they hold leaves, and nothing comes to them.
//!
//! Slots at the end of the table hold what a mount found in the write area of before. They have no place of their own on the
//! drives, and are never written.

use crate::log::area::free::FreeSlots;
use crate::log::area::order::Order;
use crate::log::lifetime::{Forecast, Ghost, Lifetimes};
use crate::log::requests::RequestSlot;
use base::frame::Frame;
use base::units::Lba;
use std::collections::BTreeMap;
use zone::format::oob::Kind;

/// Rewrites of a block from which on its distance is believed.
const REWRITES_PROVE: u8 = 2;
/// Versions that were replaced before they were written, for which there is room from the start.
const REPLACED_USUAL: u32 = 1_024;

/// A version of a block.
#[derive(Debug)]
pub struct Version {
    /// Its sequence.
    pub sequence: u64,
    /// Its data, with the metadata that parity protects.
    pub frame: Frame,
    /// Checksum of the data.
    pub data_crc: u32,
    /// Data of a client, or [`Kind::Lost`] where a mount found no copy of them whole.
    pub kind: Kind,
}

/// A version on its way to a slot.
#[derive(Debug)]
struct Pending {
    version: Version,
    /// Request that waits for it.
    request: RequestSlot,
    /// Copies that are with drives.
    copies_pending: u32,
    /// Set when a copy is on no active drive.
    lacks_copy: bool,
    copies_written: u32,
    /// Set when a zone took no copy though its drive is active.
    is_refused: bool,
}

/// A version that waits until the one on its way to its slot is written.
#[derive(Debug)]
struct Waiting {
    version: Version,
    /// Request that waits for it.
    request: RequestSlot,
}

/// A version that waited, and that a newer one took the place of. Its request is answered with that one.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    slot: u32,
    sequence: u64,
    request: RequestSlot,
}

/// Way by which a version of a block comes to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over the older version that its slot holds.
    Over,
    /// To a free slot, if there is one.
    Free,
    /// Over the version that is on its way to its slot, once that is written.
    Behind,
}

/// A slot.
#[derive(Debug)]
struct Slot {
    lba: Lba,
    /// The newest durable version.
    durable: Option<Version>,
    /// Slot with the copies of that one, where it is another: it is not free.
    copies_at: Option<u32>,
    /// Set while that one is in a stripe that is not durable.
    is_moving: bool,
    pending: Option<Pending>,
    /// There is none without one that is on its way.
    waiting: Option<Waiting>,
    /// Set while a place of its copies is on a member that is lost.
    is_barred: bool,
}

impl Slot {
    fn is_empty(&self) -> bool {
        self.durable.is_none() && self.pending.is_none() && self.waiting.is_none()
    }
}

/// A version that is durable now, or failed.
#[derive(Debug)]
pub struct Written {
    /// Its block.
    pub lba: Lba,
    /// Its sequence.
    pub sequence: u64,
    /// Request that waits for it.
    pub request: RequestSlot,
    /// Set when some copy is on no active drive.
    pub lacks_copy: bool,
    /// Copies that are on drives.
    pub copies_written: u32,
    /// Set when it has to be in the log before it counts.
    pub is_refused: bool,
}

/// All slots.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    /// Places of their copies, and zones of each drive that have them.
    area: SlotPlaces,
    zones: u32,
    /// Slots that can be written: those before this one.
    writable: u32,
    free: FreeSlots,
    /// Slot of each block that has one.
    places: BTreeMap<Lba, u32>,
    /// Durable versions that no stripe has, in the order in which they are to leave.
    order: Order,
    /// Small writes of late, in slots and elsewhere.
    ghost: Ghost,
    moving: u32,
    /// Slots that hold what a mount found.
    found: u32,
    /// Versions that were replaced before they were written, until their requests are answered.
    replaced: Vec<Replaced>,
    /// Slots that are barred, and the one before which none of them is to leave.
    barred: u32,
    barred_from: u32,
}

impl Slots {
    /// Slots of so many zones of each drive that can be written, once they are opened, and one for each block that a mount found.
    #[must_use]
    pub fn new(lifetimes: Lifetimes, places: SlotPlaces, zones: u32, found: Vec<(Lba, Version)>) -> Slots {
        let (area, writable) = (places, places.slots() * zones);
        let empty = || Slot {
            lba: Lba(0),
            durable: None,
            copies_at: None,
            is_moving: false,
            pending: None,
            waiting: None,
            is_barred: false,
        };
        let mut slots: Vec<Slot> = (0..writable).map(|_| empty()).collect();
        let ghost = Ghost::new(lifetimes, writable as usize);
        let mut order = Order::new(lifetimes, writable as usize + found.len(), ghost.span());
        let free = FreeSlots::new(places, zones);
        let mut places = BTreeMap::new();
        for (slot, (lba, version)) in (writable..).zip(found) {
            let before = places.insert(lba, slot);
            assert!(before.is_none(), "block {lba} was found once");
            slots.push(Slot { lba, durable: Some(version), ..empty() });
            order.push(slot, &Forecast::UNKNOWN, 0);
        }
        let found = u32::try_from(places.len()).expect("a u32 of slots");
        let replaced = Vec::with_capacity(writable.min(REPLACED_USUAL) as usize);
        let (moving, barred, barred_from) = (0, 0, 0);
        Slots {
            slots,
            area,
            zones,
            writable,
            free,
            places,
            order,
            ghost,
            moving,
            found,
            replaced,
            barred,
            barred_from,
        }
    }

    /// A small write comes. Returns what is expected of its block.
    pub fn note(&mut self, lba: Lba) -> Forecast {
        self.ghost.note(lba)
    }

    /// True when a block without a slot is worth one of those that are free. What was overwritten of late is, while slots stand empty,
    /// for nothing has to leave. By levels, once blocks leave for those that come, one is whose next write is near by two distances at
    /// least, and expected earlier than that of the block which leaves: a single distance is short by chance too often.
    pub fn is_worth_slot(&mut self, forecast: &Forecast, are_empty: bool) -> bool {
        let leaves_later = |slots: &mut Slots| {
            let now = slots.ghost.now();
            let leaving = slots.order.next(now);
            leaving.is_some_and(|slot| slots.order.class(slot, now) > slots.order.class_of(forecast))
        };
        match self.ghost.lifetimes() {
            Lifetimes::Off => false,
            Lifetimes::Queues => forecast.rewrites > 0,
            Lifetimes::Levels if are_empty => forecast.rewrites > 0,
            Lifetimes::Levels => {
                forecast.rewrites >= REWRITES_PROVE && self.ghost.is_near(forecast) && leaves_later(self)
            }
        }
    }

    /// Every slot that can be written is free from now on.
    ///
    /// # Panics
    /// When one is in use.
    pub fn open(&mut self, zones: u32) {
        assert!(zones <= self.zones, "{zones} zones are opened of {}", self.zones);
        assert!(self.free.is_empty() && self.places.is_empty(), "slots are opened when none is in use");
        assert!(self.barred == 0, "slots are opened when all members are active");
        self.free.fill(zones);
    }

    /// No slot can be written from now on.
    ///
    /// # Panics
    /// When one is in use.
    pub fn close(&mut self) {
        assert!(self.places.is_empty(), "{} slots are in use", self.places.len());
        self.free.retain(|_| false);
        self.bar(|_| false);
    }

    /// Bars these slots, and no others. What they hold is to leave.
    pub fn bar(&mut self, is_barred: impl Fn(u32) -> bool) {
        (self.barred, self.barred_from) = (0, 0);
        for (id, slot) in (0..self.writable).zip(&mut self.slots) {
            slot.is_barred = is_barred(id);
            self.barred += u32::from(slot.is_barred);
        }
        let slots = &self.slots;
        self.free.retain(|id| !slots[id as usize].is_barred);
    }

    /// A durable version in a slot that is barred: it is to leave.
    pub fn barred_to_move(&mut self) -> Option<u32> {
        let is_to_leave = |id: &u32| self.slots[*id as usize].is_barred && self.order.contains(*id);
        let from = self.barred_from.min(self.writable);
        let next =
            if self.barred == 0 { None } else { (from..self.writable).chain(0..from).find(is_to_leave) };
        self.barred_from = next.unwrap_or(0);
        next
    }

    /// Slots that are free.
    #[must_use]
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Slots that hold something, or are about to.
    #[must_use]
    pub fn used_count(&self) -> usize {
        self.places.len()
    }

    /// Durable versions that no stripe has.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.order.len()
    }

    /// Durable versions that are in stripes which are not durable.
    #[must_use]
    pub fn moving_count(&self) -> usize {
        self.moving as usize
    }

    /// Blocks whose newest durable version no stripe has.
    #[must_use]
    pub fn durable_count(&self) -> u64 {
        self.order.len() as u64 + u64::from(self.moving)
    }

    /// Frames of all versions.
    #[must_use]
    pub fn frames_held(&self) -> usize {
        let of = |slot: &Slot| {
            let Slot { durable, pending, waiting, .. } = slot;
            usize::from(durable.is_some()) + usize::from(pending.is_some()) + usize::from(waiting.is_some())
        };
        self.slots.iter().map(of).sum()
    }

    /// Blocks that a mount found and that are in no durable stripe yet.
    #[must_use]
    pub fn found_count(&self) -> u32 {
        self.found
    }

    /// The durable version of a block.
    #[must_use]
    pub fn version_of(&self, lba: Lba) -> Option<&Version> {
        self.slots[*self.places.get(&lba)? as usize].durable.as_ref()
    }

    /// Blocks that have slots.
    pub fn blocks(&self) -> impl Iterator<Item = Lba> + '_ {
        self.places.keys().copied()
    }

    /// Blocks that have a durable version.
    pub fn live_blocks(&self) -> impl Iterator<Item = Lba> + '_ {
        self.slots.iter().filter(|slot| slot.durable.is_some()).map(|slot| slot.lba)
    }

    /// Slots that have a durable version.
    pub fn live_slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.writable).filter(|id| self.slots[*id as usize].durable.is_some())
    }

    /// Blocks of which a mount found no copy whole.
    pub fn lost_blocks(&self) -> impl Iterator<Item = Lba> + '_ {
        let is_lost = |slot: &&Slot| slot.durable.as_ref().is_some_and(|version| version.kind == Kind::Lost);
        self.slots.iter().filter(is_lost).map(|slot| slot.lba)
    }

    /// True when some block of a range has a slot.
    #[must_use]
    pub fn has_any(&self, blocks: std::ops::Range<u64>) -> bool {
        self.places.range(Lba(blocks.start)..Lba(blocks.end)).next().is_some()
    }

    /// Way by which a version of a block can come to a slot; none when a newer one is there or on its way, and when its slot takes no more.
    #[must_use]
    pub fn way(&self, lba: Lba, sequence: u64) -> Option<Way> {
        let Some(id) = self.places.get(&lba) else { return Some(Way::Free) };
        let Slot { durable, pending, waiting, is_barred, .. } = &self.slots[*id as usize];
        let is_older = |version: &Version| version.sequence < sequence;
        let is_newest = durable.as_ref().is_none_or(is_older)
            && pending.as_ref().is_none_or(|pending| is_older(&pending.version))
            && waiting.as_ref().is_none_or(|waiting| is_older(&waiting.version));
        let way = if pending.is_none() { Way::Over } else { Way::Behind };
        (*id < self.writable && !is_barred && is_newest).then_some(way)
    }

    /// A version waits until the one on its way to its slot is written. Returns the frame of one that waited before, which it replaces.
    ///
    /// # Panics
    /// When none is on its way, or a newer one is or waits.
    pub fn wait(&mut self, lba: Lba, version: Version, request: RequestSlot) -> Option<Frame> {
        let id = *self.places.get(&lba).expect("the block has a slot");
        let slot = &mut self.slots[id as usize];
        let pending = slot.pending.as_ref().expect("a write is in flight");
        assert!(pending.version.sequence < version.sequence, "what waits is newer than what is in flight");
        let before = slot.waiting.take();
        assert!(
            before.as_ref().is_none_or(|before| before.version.sequence < version.sequence),
            "a version replaces an older one"
        );
        slot.waiting = Some(Waiting { version, request });
        let Waiting { version, request } = before?;
        self.replaced.push(Replaced { slot: id, sequence: version.sequence, request });
        Some(version.frame)
    }

    /// The version that waited for a slot, which nothing is on its way to any more.
    ///
    /// # Panics
    /// When a write of it is in flight.
    pub fn take_waiting(&mut self, id: u32) -> Option<(Version, RequestSlot)> {
        let slot = &mut self.slots[id as usize];
        assert!(slot.pending.is_none(), "one write of a slot is in flight");
        let Waiting { version, request } = slot.waiting.take()?;
        Some((version, request))
    }

    /// A request of a version that one of a slot replaced, which is written now.
    pub fn next_replaced(&mut self, id: u32, sequence: u64) -> Option<RequestSlot> {
        let is_by_it = |replaced: &Replaced| replaced.slot == id && replaced.sequence < sequence;
        let place = self.replaced.iter().position(is_by_it)?;
        Some(self.replaced.swap_remove(place).request)
    }

    /// The slot that the next version of a block goes to: its own; a free one where it has none; and a free one where `may_go_aside`, if drives
    /// of that have fewer copies in flight than those of its own. A version that is in a stripe stays where it is.
    ///
    /// # Panics
    /// When it has none and none is free.
    pub fn place(&mut self, lba: Lba, in_flight: &[u32], may_go_aside: bool) -> u32 {
        let Some(own) = self.places.get(&lba).copied() else {
            let (id, _) = self.free.idlest(in_flight).expect("the caller checked for a free slot");
            self.free.take(id);
            self.slots[id as usize].lba = lba;
            self.places.insert(lba, id);
            return id;
        };
        let Slot { copies_at, is_moving, .. } = self.slots[own as usize];
        if !may_go_aside || own >= self.writable || copies_at.is_some() || is_moving {
            return own;
        }
        let busiest = self.area.busiest(own % self.area.slots(), in_flight);
        let idlest = if busiest == 0 { None } else { self.free.idlest(in_flight) };
        let Some((id, _)) = idlest.filter(|(_, idlest)| *idlest < busiest) else { return own };
        self.free.take(id);
        self.go_aside(own, id);
        id
    }

    /// The block of a slot has another one from now on. The copies of its durable version stay where they are, and that slot is nobody's.
    fn go_aside(&mut self, from: u32, to: u32) {
        let before = &mut self.slots[from as usize];
        assert!(before.pending.is_none() && before.waiting.is_none(), "nothing is on its way to slot {from}");
        let (lba, durable) = (before.lba, before.durable.take());
        assert!(durable.is_some(), "slot {from} holds a version");
        let slot = &mut self.slots[to as usize];
        assert!(slot.is_empty(), "slot {to} is free");
        (slot.lba, slot.durable, slot.copies_at) = (lba, durable, Some(from));
        self.order.hand_over(from, to);
        self.places.insert(lba, to);
    }

    /// The slot that had the copies of a version which is not needed any more is free, if that was another one.
    fn give_copies(&mut self, id: u32) {
        if let Some(at) = self.slots[id as usize].copies_at.take()
            && !self.slots[at as usize].is_barred
        {
            self.free.push(at);
        }
    }

    /// A version goes to the slot of its block (see [`Slots::place`]).
    ///
    /// # Panics
    /// When another write of it is on its way.
    pub fn begin_write(&mut self, id: u32, version: Version, request: RequestSlot, copies: u32) {
        assert!(id < self.writable, "what a mount found is not written");
        let slot = &mut self.slots[id as usize];
        assert!(self.places.get(&slot.lba) == Some(&id), "slot {id} is its block's");
        assert!(slot.pending.is_none(), "one write of a slot is in flight");
        assert!(slot.durable.as_ref().is_none_or(|durable| durable.sequence < version.sequence));
        slot.pending = Some(Pending {
            version,
            request,
            copies_pending: copies,
            lacks_copy: false,
            copies_written: 0,
            is_refused: false,
        });
    }

    /// The version that is on its way to a slot.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn pending(&self, id: u32) -> (Lba, &Version) {
        let slot = &self.slots[id as usize];
        (slot.lba, &slot.pending.as_ref().expect("a write is in flight").version)
    }

    /// A drive has written a copy, or has not. True when that was the last one.
    ///
    /// # Panics
    /// When none is in flight.
    pub fn copy_done(&mut self, id: u32, is_written: bool) -> bool {
        let pending = self.slots[id as usize].pending.as_mut().expect("a copy is in flight");
        assert!(pending.copies_pending > 0, "a copy is written once");
        pending.copies_pending -= 1;
        pending.copies_written += u32::from(is_written);
        pending.lacks_copy |= !is_written;
        pending.copies_pending == 0
    }

    /// A zone takes no more writes, so it has no copy of the version on its way: the log is to have that.
    ///
    /// # Panics
    /// When none is in flight.
    pub fn refuse(&mut self, id: u32) {
        self.slots[id as usize].pending.as_mut().expect("a copy is in flight").is_refused = true;
    }

    /// True when a version is the one that a slot was refused for.
    #[must_use]
    pub fn is_refused(&self, id: u32, (lba, sequence): (Lba, u64)) -> bool {
        let slot = &self.slots[id as usize];
        let is_it = |pending: &Pending| pending.is_refused && pending.version.sequence == sequence;
        slot.lba == lba && slot.pending.as_ref().is_some_and(is_it)
    }

    /// What all drives have answered for: the version that was on its way to a slot.
    ///
    /// # Panics
    /// When they have not.
    #[must_use]
    pub fn written(&self, id: u32) -> Written {
        let slot = &self.slots[id as usize];
        let pending = slot.pending.as_ref().expect("a write is in flight");
        assert!(pending.copies_pending == 0, "all copies are written, or not");
        Written {
            lba: slot.lba,
            sequence: pending.version.sequence,
            request: pending.request,
            lacks_copy: pending.lacks_copy,
            copies_written: pending.copies_written,
            is_refused: pending.is_refused,
        }
    }

    /// The version on its way is the block's newest durable one, or it does not count. Returns the frame that is not needed any
    /// more, if there is one.
    pub fn end_write(&mut self, id: u32, counts: bool) -> Option<Frame> {
        let slot = &mut self.slots[id as usize];
        let Pending { version, copies_pending, .. } = slot.pending.take().expect("a write is in flight");
        assert!(copies_pending == 0, "all copies are written, or not");
        if !counts {
            self.give_if_empty(id);
            return Some(version.frame);
        }
        let before = slot.durable.replace(version);
        self.give_copies(id);
        let slot = &mut self.slots[id as usize];
        let (forecast, now) = (self.ghost.forecast(slot.lba), self.ghost.now());
        if before.is_none() {
            self.order.push(id, &forecast, now);
        } else {
            if std::mem::take(&mut slot.is_moving) {
                // The stripe that has the version before does not count any more.
                self.moving -= 1;
                self.order.push(id, &forecast, now);
            }
            self.order.touch(id, &forecast, now);
        }
        before.map(|before| before.frame)
    }

    /// A newer version of a block is durable in the log. Returns the frame that is not needed any more.
    pub fn supersede(&mut self, lba: Lba, sequence: u64) -> Option<Frame> {
        let id = *self.places.get(&lba)?;
        let slot = &mut self.slots[id as usize];
        let before = slot.durable.take_if(|durable| durable.sequence < sequence)?;
        self.leave(id);
        Some(before.frame)
    }

    /// The version that is to leave next: that of the block which will be overwritten last, as far as that is known.
    pub fn next_to_move(&mut self) -> Option<u32> {
        self.order.next(self.ghost.now())
    }

    /// Any version that is to leave, of a range or of all.
    #[must_use]
    pub fn any_to_move(&self, among: Option<&std::ops::Range<u64>>) -> Option<u32> {
        let Some(among) = among else { return self.order.first() };
        let mut among = self.places.range(Lba(among.start)..Lba(among.end)).map(|(_, slot)| *slot);
        among.find(|slot| self.order.contains(*slot))
    }

    /// A durable version goes to a stripe.
    ///
    /// # Panics
    /// When it is in one already.
    pub fn begin_move(&mut self, id: u32) -> (Lba, &Version) {
        self.order.remove(id);
        let slot = &mut self.slots[id as usize];
        assert!(!slot.is_moving, "a version moves once");
        slot.is_moving = true;
        self.moving += 1;
        (slot.lba, slot.durable.as_ref().expect("only what is durable moves"))
    }

    /// The stripe is durable that a version of a slot went to, or failed. True when the slot still held that version: then it is in the log
    /// now, and the frame is not needed any more.
    pub fn end_move(&mut self, id: u32, (lba, sequence): (Lba, u64), is_durable: bool) -> Option<Frame> {
        let slot = &mut self.slots[id as usize];
        let holds_it = slot.is_moving
            && slot.lba == lba
            && slot.durable.as_ref().is_some_and(|durable| durable.sequence == sequence);
        if !holds_it {
            return None;
        }
        if !is_durable {
            slot.is_moving = false;
            self.moving -= 1;
            self.order.push(id, &self.ghost.forecast(lba), self.ghost.now());
            return None;
        }
        let version = slot.durable.take().expect("just looked at");
        self.leave(id);
        Some(version.frame)
    }

    /// A slot's durable version is gone.
    fn leave(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        if std::mem::take(&mut slot.is_moving) {
            self.moving -= 1;
        } else {
            self.order.remove(id);
        }
        self.order.forget_hits(id);
        self.give_copies(id);
        self.give_if_empty(id);
    }

    fn give_if_empty(&mut self, id: u32) {
        let slot = &self.slots[id as usize];
        if slot.is_empty() {
            let place = self.places.remove(&slot.lba);
            assert!(place == Some(id), "a block has one slot");
            match id < self.writable {
                true if slot.is_barred => {}
                true => self.free.push(id),
                false => self.found -= 1,
            }
        }
    }

    /// Asserts what must hold between events.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check_invariants(&self) {
        let (mut live, mut moving, mut used, mut found) = (0, 0, 0, 0);
        for (id, slot) in (0..).zip(&self.slots) {
            let is_queued = self.order.contains(id);
            assert!(
                is_queued == (slot.durable.is_some() && !slot.is_moving),
                "slot {id} is queued: {is_queued}"
            );
            assert!(!slot.is_moving || slot.durable.is_some(), "slot {id} moves nothing");
            assert!(
                slot.copies_at.is_none() || slot.durable.is_some(),
                "slot {id} has copies of nothing elsewhere"
            );
            assert!(slot.waiting.is_none() || slot.pending.is_some(), "slot {id} is waited for in vain");
            assert!(slot.is_empty() != (self.places.get(&slot.lba) == Some(&id)), "slot {id} and its place");
            live += usize::from(is_queued);
            moving += u32::from(slot.is_moving);
            used += usize::from(!slot.is_empty());
            found += u32::from(!slot.is_empty() && id >= self.writable);
        }
        assert!(
            (live, moving, used, found) == (self.order.len(), self.moving, self.places.len(), self.found),
            "slots are counted"
        );
        let is_free = |slot: &Slot| slot.is_empty() && !slot.is_barred;
        assert!(self.free.iter().all(|id| is_free(&self.slots[id as usize])), "a free slot holds nothing");
        let copies = || self.slots.iter().filter_map(|slot| slot.copies_at);
        assert!(
            copies().all(|at| self.slots[at as usize].is_empty()),
            "a slot with copies of another's holds nothing"
        );
        assert!(
            !self.free.iter().any(|id| copies().any(|at| at == id)),
            "a slot with copies of another's is not free"
        );
        let has_newer = |replaced: &Replaced| {
            let Slot { pending, waiting, .. } = &self.slots[replaced.slot as usize];
            let versions = pending.iter().map(|pending| &pending.version);
            let mut versions = versions.chain(waiting.iter().map(|waiting| &waiting.version));
            versions.any(|version| version.sequence > replaced.sequence)
        };
        assert!(self.replaced.iter().all(has_newer), "what was replaced is answered with what replaced it");
    }
}

/// Places of the copies of slots in the zones of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlaces {
    /// Drives.
    pub members: u32,
    /// m + 1.
    pub copies: u32,
    /// Blocks of each window that hold copies, and the first of them.
    pub blocks: u32,
    /// Offset of the first of them in its zone.
    pub first: u32,
}

impl SlotPlaces {
    /// Slots of a segment.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.members * self.blocks / self.copies
    }

    /// Drive and offset of a copy: linear places go round the drives, so copies are on drives of their own.
    #[must_use]
    pub fn of(&self, slot: u32, copy: u32) -> (usize, u32) {
        debug_assert!(slot < self.slots() && copy < self.copies, "copy {copy} of slot {slot}");
        let place = slot * self.copies + copy;
        ((place % self.members) as usize, self.first + place / self.members)
    }

    /// Sets of drives that have the copies of a slot.
    #[must_use]
    pub fn drive_sets(&self) -> u32 {
        (1..=self.members)
            .find(|sets| (sets * self.copies).is_multiple_of(self.members))
            .expect("as many as drives at most")
    }

    /// The set of drives that has the copies of a slot, by its number.
    #[must_use]
    pub fn drive_set(&self, slot: u32) -> u32 {
        slot % self.drive_sets()
    }

    /// What the busiest drive that has a copy of a slot has to do.
    #[must_use]
    pub fn busiest(&self, slot: u32, in_flight: &[u32]) -> u32 {
        (0..self.copies).map(|copy| in_flight[self.of(slot, copy).0]).max().unwrap_or(0)
    }

    /// Slot and copy that a block of a drive's window is: the inverse of [`SlotPlaces::of`].
    #[must_use]
    pub fn at(&self, member: usize, offset: u32) -> (u32, u32) {
        debug_assert!(offset >= self.first, "block {offset} lies before slots");
        let member = u32::try_from(member).expect("at most 32 members");
        let place = (offset - self.first) * self.members + member;
        (place / self.copies, place % self.copies)
    }
}

#[cfg(test)]
mod tests;
