//! Reinsertion: what was hit of a victim is written anew before its zone is reset.
//!
//! ```text
//!   victim -> look for slots that were hit -> read their pages -> buffers, as main objects -> land -> reset
//!             a part of the index a turn       a transfer at a time
//! ```
//! A slot that leads to a page says that the object there is the newest of its key at that instant: a write of a key frees all
//! slots of its ident (ADR 40). So a record is stamped as new when its slot is found, and is a version like any other from then
//! on. The slot of its first copy stays until the zone is reset, and a write meanwhile hides both, each on its drive. What does
//! not fit the share of the zone, or the buffers, is not written anew; the hottest comes first.

use super::buffer::{Again, Record};
use super::core::Core;
use super::drive::Drive;
use super::objects::Objects;
use super::zones::ZoneUse;
use super::{Effects, Purpose, command};
use crate::format::page::PageView;
use crate::format::record::RecordHead;
use crate::format::stamp::{Kind, Stamp};
use crate::hash::FullKey;
use crate::index::{HEAT_MAX, PageNumber};
use crate::policy::Stream;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, ZoneIndex};
use std::collections::BTreeMap;
use zone::device::{Completion, Op as DeviceOp, Status};

/// Buckets that a turn looks at.
const LOOK_BUCKETS: u64 = 1 << 14;

/// A victim that is collected.
#[derive(Debug)]
pub struct Collection {
    zone: ZoneIndex,
    /// Next bucket to look at; `None` when all were.
    bucket: Option<u64>,
    /// Pages of the zone in which objects begin that were hit, and that were not read: how hot the hottest are.
    hot: BTreeMap<u32, u8>,
    /// Such pages, read or not.
    hot_pages: usize,
    /// Blocks for which zones had been wanted when it began.
    begun: u64,
    /// Quota of bytes that may be written anew.
    quota: Quota,
    is_reading: bool,
    /// Frames that were read, with the page of the first.
    arrived: Option<(u32, Vec<Frame>)>,
    /// A record that goes on in the page that comes next.
    partial: Option<Partial>,
}

/// The share of a victim that may be written anew, the hottest first: objects above the edge have all of it, and what they will
/// leave, about, is for objects on the edge.
#[derive(Clone, Copy, Debug)]
struct Quota {
    /// Bytes that are left.
    left: usize,
    /// Objects that were hit, by heat.
    objects: [u64; HEAT_MAX as usize + 1],
    /// Heat of which not everything fits.
    edge: u8,
    /// Bytes for objects of this heat.
    edge_left: usize,
}

impl Quota {
    fn new(bytes: usize) -> Quota {
        Quota { left: bytes, objects: [0; HEAT_MAX as usize + 1], edge: 0, edge_left: bytes }
    }

    /// An object was hit.
    fn note(&mut self, heat: u8) {
        self.objects[usize::from(heat)] += 1;
    }

    /// All that was hit is known: objects take so many bytes, on the mean.
    fn settle(&mut self, mean: u64) {
        let above = |heat: u8| self.objects[usize::from(heat) + 1..].iter().sum::<u64>().saturating_mul(mean);
        let left = self.left as u64;
        // Where everything fits, objects on the edge were not hit.
        self.edge = (0..=HEAT_MAX).find(|heat| above(*heat) <= left).expect("above the hottest is nothing");
        self.edge_left = self.left - usize::try_from(above(self.edge)).expect("no more than a usize");
    }

    /// True when an object of this heat may be there.
    fn wants(&self, heat: u8) -> bool {
        heat > self.edge || heat > 0 && heat == self.edge && self.edge_left > 0
    }

    /// True when an object is written anew: its bytes are taken off.
    fn takes(&mut self, heat: u8, bytes: usize) -> bool {
        assert!(heat <= HEAT_MAX, "nothing is as hot as {heat}");
        let fits = self.wants(heat) && bytes <= self.left && (heat > self.edge || bytes <= self.edge_left);
        if fits {
            self.left -= bytes;
            self.edge_left -= if heat == self.edge { bytes } else { 0 };
        }
        fits
    }
}

/// A record of which not all was read.
#[derive(Debug)]
struct Partial {
    head: RecordHead,
    key: FullKey,
    front: Vec<u8>,
    value: Vec<u8>,
    /// Page it begins in, and its sequence.
    page: u32,
    origin: u64,
    /// Page in which it goes on.
    next: u32,
}

impl Drive {
    /// True when neither data nor the journal wants the zone of a victim at once.
    pub(super) fn has_time(&self) -> bool {
        let journal_has_room = self.journal_share() > 0 || self.journal_room() * 4 >= self.capacity;
        self.data_share() > 0 && journal_has_room
    }
}

impl Objects {
    /// Goes on with the victim that a drive collects.
    pub(super) fn collect(&mut self, core: &mut Core, drive: usize, now: Instant, effects: &mut Effects) {
        let Some(mut collection) = core.drives[drive].collection.take() else { return };
        let is_collected = core.drives[drive].zones[collection.zone.index()].used() == ZoneUse::Collecting;
        if let Some((first, frames)) = collection.arrived.take() {
            if is_collected {
                self.take_in(core, drive, &mut collection, (first, &frames), now);
            }
            core.frames.extend(frames);
        }
        if collection.is_reading {
            core.drives[drive].collection = Some(collection);
            return;
        }
        // Who waits for room cannot wait for this; and the journal may have taken the zone out of our hands.
        let may_go_on = core.drives[drive].has_time() && !core.membership.is_frozen();
        if !is_collected || !may_go_on || collection.quota.left == 0 {
            return core.end_collection(drive, collection.zone);
        }
        if let Some(from) = collection.bucket {
            core.look_for_hot(drive, &mut collection, from);
        }
        let reads =
            collection.bucket.is_none() && self.has_room_again(core) && core.keeps_pace(drive, &collection);
        if reads && !core.read_hot(drive, &mut collection, effects) {
            return core.end_collection(drive, collection.zone);
        }
        core.drives[drive].collection = Some(collection);
    }

    /// True when a drive goes on with its victim though nothing arrives.
    pub(super) fn may_collect(&self, core: &Core, drive: usize) -> bool {
        let goes_on = |collection: &Collection| {
            let reads = || self.has_room_again(core) && core.keeps_pace(drive, collection);
            collection.bucket.is_some() || !collection.is_reading && reads()
        };
        core.drives[drive].collection.as_ref().is_some_and(goes_on)
    }

    /// True while records that are written anew take at most half of their part of the buffers.
    fn has_room_again(&self, core: &Core) -> bool {
        self.buffer.again_bytes() * 2 <= core.options.again_bytes_max()
    }

    fn take_in(
        &mut self,
        core: &mut Core,
        drive: usize,
        collection: &mut Collection,
        pages: (u32, &[Frame]),
        now: Instant,
    ) {
        let life = core.life(drive, collection.zone);
        for (page, frame) in (pages.0..).zip(pages.1) {
            let partial = collection.partial.take();
            let stamp = Stamp::read_at(frame, &life, page).filter(|stamp| stamp.kind == Kind::Records);
            let Some((stamp, view)) = stamp.zip(PageView::parse(&frame.data)) else { continue };
            let continued = partial.filter(|partial| partial.next == page && partial.origin == stamp.origin);
            if let Some(mut partial) = continued {
                partial.value.extend_from_slice(view.lead());
                partial.next += 1;
                self.take_record(core, drive, collection, partial, now);
            }
            for bytes in view.records() {
                let Some(head) = RecordHead::parse(bytes) else { continue };
                let Some(key) = head.key(bytes) else { continue };
                let key = FullKey::new(head.namespace, key);
                let (front, value) = head.split(bytes);
                let (front, value) = (front.to_vec(), value.to_vec());
                let (origin, next) = (stamp.sequence, page + 1);
                let partial = Partial { head, key, front, value, page, origin, next };
                self.take_record(core, drive, collection, partial, now);
            }
        }
    }

    /// Writes a record anew, when all of it is there, it was hit, and its slot says that it is the newest of its key.
    fn take_record(
        &mut self,
        core: &mut Core,
        drive: usize,
        collection: &mut Collection,
        partial: Partial,
        now: Instant,
    ) {
        let Partial { head, key, front, value, page, origin, next } = partial;
        let own = &core.drives[drive];
        let (hash, ident) = core.hash_of(&key);
        let first = PageNumber(own.base + collection.zone.0 * own.capacity + page);
        let heat = core.index.heat(ident, first);
        if heat == 0 || origin < core.cleared_below(key.namespace()) {
            return;
        }
        if value.len() < head.value_bytes {
            collection.partial = Some(Partial { head, key, front, value, page, origin, next });
            return;
        }
        let Some(object) = head.object(&front, value.into()) else { return };
        let size = key.plain().len() + object.value.len();
        let is_over = object.expires.is_some_and(|at| at <= core.clocks.wall);
        let birth = own.zones[collection.zone.index()].birth;
        let again = Some(Again { drive, zone: collection.zone, birth, heat: heat - 1 });
        let stream = core.share_of(&key).unwrap_or(Stream::Main);
        let record = Record { key, hash, ident, object, alive: true, page: None, stream, again, held: None };
        let fits = self.buffer.again_bytes() + record.weight() <= core.options.again_bytes_max();
        let is_written = self.buffer.get(ident, &record.key).is_some();
        if is_over || is_written || !fits || !collection.quota.takes(heat, size) {
            return;
        }
        core.counters.reinserted += 1;
        core.counters.bytes_reinserted += size as u64;
        self.buffer.put(now, record);
        let limit = self.memory_limit(core);
        self.memory.shrink(limit);
    }
}

impl Core {
    /// Begins to collect a victim.
    pub(super) fn begin_collection(&mut self, drive: usize, zone: ZoneIndex) {
        let own = &mut self.drives[drive];
        assert!(own.collection.is_none() && own.zones[zone.index()].used() == ZoneUse::Collecting);
        let share = own.capacity as usize * self.options.reinsert_percent.min(100) as usize / 100;
        own.collection = Some(Collection {
            zone,
            bucket: Some(0),
            hot: BTreeMap::new(),
            hot_pages: 0,
            begun: self.counters.blocks_in_zones(),
            quota: Quota::new(share * BLOCK_BYTES),
            is_reading: false,
            arrived: None,
            partial: None,
        });
    }

    /// True unless more of a victim was read than of half a zone was written since: what is written anew would come in bursts, for which
    /// reads wait. Journals take zones as objects do; a victim for which the journal waits is read at once, for there is no time.
    fn keeps_pace(&self, drive: usize, collection: &Collection) -> bool {
        if collection.hot.is_empty() || self.drives[drive].is_journal_short() {
            return true;
        }
        assert!(collection.bucket.is_none(), "pages are read when all that was hit is known");
        assert!(collection.hot.len() <= collection.hot_pages, "what was not read is a part of all");
        let drives = self.drives.iter().filter(|drive| drive.up).count() as u64;
        let written = (self.counters.blocks_in_zones() - collection.begun) / drives.max(1);
        let done = (collection.hot_pages - collection.hot.len()) as u64;
        let half = u64::from(self.drives[drive].capacity / 2);
        done * half <= written * collection.hot_pages as u64
    }

    fn end_collection(&mut self, drive: usize, zone: ZoneIndex) {
        let zones = &mut self.drives[drive].zones;
        if zones[zone.index()].used() == ZoneUse::Collecting {
            zones.turn(zone, ZoneUse::Draining);
        }
    }

    fn look_for_hot(&self, drive: usize, collection: &mut Collection, from: u64) {
        let Collection { zone, hot, quota, .. } = collection;
        collection.bucket = self.index.look(from, LOOK_BUCKETS, |page, heat| {
            let (owner, of, offset) = self.locate(page);
            if (owner, of) == (drive, *zone) {
                let hottest = hot.entry(offset).or_insert(heat);
                *hottest = heat.max(*hottest);
                quota.note(heat);
            }
        });
        if collection.bucket.is_none() {
            let found = &self.drives[drive].zones[zone.index()];
            quota.settle(u64::from(found.end) * BLOCK_BYTES_U64 / found.objects().max(1));
            hot.retain(|_, heat| quota.wants(*heat));
            collection.hot_pages = collection.hot.len();
        }
    }

    /// Reads the next pages; false when there are none.
    fn read_hot(&mut self, drive: usize, collection: &mut Collection, effects: &mut Effects) -> bool {
        let partial = collection.partial.as_ref().map(|partial| partial.next);
        let Some(first) = partial.or(collection.hot.keys().next().copied()) else { return false };
        let own = &mut self.drives[drive];
        // Pages behind the end are on their way to a zone that was open.
        let count = own.transfer_max.min(own.zones[collection.zone.index()].end.saturating_sub(first));
        if count == 0 {
            return false;
        }
        own.zones[collection.zone.index()].readers += 1;
        collection.hot = collection.hot.split_off(&(first + count));
        collection.is_reading = true;
        self.counters.pages_read += u64::from(count);
        let frames = (0..count).map(|_| self.take_frame()).collect();
        let op = DeviceOp::Read { offset: first, frames };
        effects.commands.push(command(drive, collection.zone, Purpose::Collect.token(0), op));
        true
    }

    /// Pages of a victim were read.
    pub(super) fn on_collected(&mut self, drive: usize, completion: Completion) {
        let Completion { status, zone, offset, frames, .. } = completion;
        self.end_read(drive, zone);
        // A drive that fails collects nothing any more.
        let Some(collection) = &mut self.drives[drive].collection else { return self.frames.extend(frames) };
        assert!(collection.is_reading && collection.zone == zone, "pages come to who reads them");
        collection.is_reading = false;
        if status == Status::Success {
            collection.arrived = Some((offset, frames));
        } else {
            // They go with their zone.
            collection.partial = None;
            self.frames.extend(frames);
        }
    }

    /// True while a drive's victim waits for more to be written: for checks.
    pub(super) fn is_collecting_slowly(&self, drive: usize) -> bool {
        let waits =
            |collection: &Collection| collection.bucket.is_none() && !self.keeps_pace(drive, collection);
        self.drives[drive].collection.as_ref().is_some_and(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(bytes: usize, hit: [u64; 3], mean: u64) -> Quota {
        let mut quota = Quota::new(bytes);
        for (heat, count) in (1..).zip(hit) {
            (0..count).for_each(|_| quota.note(heat));
        }
        quota.settle(mean);
        quota
    }

    #[test]
    fn everything_that_was_hit_is_wanted_where_it_fits() {
        let mut quota = settled(1000, [4, 3, 3], 100);
        assert_eq!([0, 1, 2, 3].map(|heat| quota.wants(heat)), [false, true, true, true]);
        let taken = (0..20).filter(|_| quota.takes(1, 100)).count();
        assert_eq!((taken, quota.left), (10, 0), "and no more than fits");
    }

    #[test]
    fn what_is_less_hot_gets_what_is_left() {
        let mut quota = settled(1000, [9, 6, 3], 100);
        assert_eq!([1, 2, 3].map(|heat| quota.wants(heat)), [true, true, true], "one of the coldest fits");
        assert_eq!([1, 1, 2, 3].map(|heat| quota.takes(heat, 100)), [true, false, true, true]);
        let mut full = settled(300, [9, 6, 4], 100);
        assert_eq!([1, 2, 3].map(|heat| full.wants(heat)), [false, false, true], "not even the hottest fit");
        assert_eq!((0..4).filter(|_| full.takes(3, 100)).count(), 3);
    }
}
