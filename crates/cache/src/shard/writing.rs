//! Writing: records leave the filling buffer for pages of an open zone, one batch in flight for each drive.

use super::buffer::{Batch, Record};
use super::drive::Drive;
use super::expiries::Expiries;
use super::memory::Copied;
use super::zones::ZoneUse;
use super::{Effects, Purpose, Shard, command};
use crate::format::header::Role;
use crate::format::page::{Packer, PageWriter, Place};
use crate::format::record;
use crate::format::stamp::{Kind, Stamp};
use crate::hash::{FullKey, Ident};
use crate::index::PageNumber;
use crate::policy::Stream;
use crate::request::Object;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, ZoneIndex};
use std::collections::{BTreeSet, VecDeque};
use zone::device::Op as DeviceOp;

impl Shard {
    /// Sends batches to all drives that are idle, while there is something to write.
    pub(super) fn write_data(&mut self, now: Instant, effects: &mut Effects) {
        if !self.membership.has_recorded() || self.membership.is_frozen() {
            return;
        }
        self.join_groups(now);
        let is_full = self.buffer.stored_bytes() >= self.options.stored_bytes_full();
        let first = usize::try_from(self.counters.batches % self.drives.len() as u64).expect("few drives");
        for more in 0..self.drives.len() {
            let drive = (first + more) % self.drives.len();
            for stream in self.streams_in_turn() {
                let is_due = self.buffer.deadline_of(stream).is_some_and(|due| due <= now);
                let is_pressed = is_due || is_full;
                let wanted = is_pressed || self.buffer.filling_bytes(stream) >= BLOCK_BYTES;
                let is_idle = self.drives[drive].up && self.drives[drive].batch.is_none();
                // What a drive holds that no record names is gone with the next mount.
                let is_named = self.membership.has_member(drive);
                if wanted
                    && is_idle
                    && is_named
                    && self.may_spread(drive, stream)
                    && self.buffer.next_filling(stream).is_some()
                {
                    self.write_batch(drive, stream, is_pressed, (now, effects));
                }
            }
        }
    }

    /// All streams, another one first each time: a drive has one batch in flight.
    fn streams_in_turn(&self) -> impl Iterator<Item = Stream> + use<> {
        let (options, count) = (self.options, self.options.streams());
        let first = usize::try_from(self.counters.batches % count as u64).expect("few streams");
        (first..first + count).map(move |number| options.stream_at(number % count))
    }

    /// The stream of an object that clients store: that of its namespace, if it has zones of its own. One that went with a young zone lately,
    /// and would be young again, has come twice.
    pub(super) fn stream_of(&mut self, (key, ident): (&FullKey, Ident), object: &Object) -> Stream {
        if let Some(share) = self.share_of(key) {
            return share;
        }
        let groups = self.drives.iter().filter(|drive| drive.up).map(Drive::groups).max().unwrap_or(0);
        let lives = object.expires.map(|at| at.0.saturating_sub(self.clocks.wall.0));
        let stream = lives.map_or(Stream::Young, |lives| self.options.stream_of(lives, groups));
        if stream != Stream::Young || !self.sweep.recalls(ident) {
            return stream;
        }
        self.counters.recalled += 1;
        Stream::Main
    }

    /// The stream of a key whose namespace has zones of its own.
    pub(super) fn share_of(&self, key: &FullKey) -> Option<Stream> {
        let share = self.options.shares.of(key.namespace()).filter(|share| share.flash_percent > 0);
        share.map(|share| Stream::Share(share.namespace))
    }

    /// True unless a group would begin a zone on one more drive, though others have one for it and less than a batch waits: zones that fill
    /// slowly take room that nobody uses.
    fn may_spread(&self, drive: usize, stream: Stream) -> bool {
        let place = stream.place();
        let batch = self.options.batch_pages as usize * BLOCK_BYTES;
        !Stream::GROUPS.contains(&stream)
            || self.drives[drive].open[place].is_some()
            || self.drives.iter().all(|drive| drive.open[place].is_none())
            || self.buffer.filling_bytes(stream) >= batch
    }

    /// Of a stream that has less than half a page when it is due, the objects go with those that live longer, main objects with young
    /// ones: pages that are mostly empty cost more than what is mixed.
    fn join_groups(&mut self, now: Instant) {
        for stream in Stream::GROUPS.into_iter().chain([Stream::Main]) {
            let is_due = self.buffer.deadline_of(stream).is_some_and(|due| due <= now);
            if is_due && self.buffer.filling_bytes(stream) < BLOCK_BYTES / 2 {
                self.buffer.join(stream, stream.next_longer().expect("all end in the young stream"));
            }
        }
    }

    fn write_batch(
        &mut self,
        drive: usize,
        stream: Stream,
        is_pressed: bool,
        (now, effects): (Instant, &mut Effects),
    ) {
        let Some(zone) = self.open_zone(drive, stream) else { return };
        let (end, capacity) = (self.drives[drive].zones[zone.index()].end, self.drives[drive].capacity);
        let first = end.max(1);
        let room = (capacity - first) as usize;
        // A page that is not full waits for more, while it may.
        let whole = if is_pressed { room } else { room.min(self.buffer.filling_bytes(stream) / BLOCK_BYTES) };
        let (mut records, mut pages) = self.pack((drive, zone), stream, first, whole);
        if records.is_empty() && whole < room {
            (records, pages) = self.pack((drive, zone), stream, first, room);
        }
        if records.is_empty() {
            return self.close_zone(drive, zone, effects);
        }
        let mut frames = VecDeque::new();
        if end == 0 {
            frames.push_back(self.zone_header(drive, zone, Role::Data));
        }
        self.fill((drive, zone), &records, pages, &mut frames);
        self.counters.batches += 1;
        self.counters.blocks_data += frames.len() as u64;
        let records = records.into_iter().map(|(number, _)| number).collect();
        self.drives[drive].batch = Some(Batch { zone, records, frames, handed: 0 });
        self.buffer.restart_wait(stream, now);
        self.hand_over(drive, effects);
    }

    /// Takes records that fit, with their places counted from page `first` of the zone, and counts the pages that they fill.
    fn pack(
        &mut self,
        (drive, zone): (usize, ZoneIndex),
        stream: Stream,
        first: u32,
        room: usize,
    ) -> (Vec<(u32, Place)>, usize) {
        let mut packer = Packer::new(room);
        let mut taken = Vec::new();
        while let Some(record) = self.buffer.next_filling(stream) {
            let (bytes, head) = record::sizes(&record.key, &record.object);
            let Some(place) = packer.place(bytes, head) else { break };
            let page = first + u32::try_from(place.page).expect("within a zone");
            let own = &mut self.drives[drive];
            own.zones[zone.index()].expiries.add(record.object.expires, bytes);
            let number = PageNumber(own.base + zone.0 * own.capacity + page);
            taken.push((self.buffer.launch(stream, number), place));
            if packer.pages() >= self.options.batch_pages as usize {
                break;
            }
        }
        (taken, packer.pages())
    }

    /// Writes records into so many pages and seals these.
    fn fill(
        &mut self,
        (drive, zone): (usize, ZoneIndex),
        records: &[(u32, Place)],
        count: usize,
        frames: &mut VecDeque<Frame>,
    ) {
        let life = self.life(drive, zone);
        let first = self.drives[drive].zones[zone.index()].end.max(1);
        let mut pages: Vec<(Frame, u64, u64)> = (0..count).map(|_| self.empty_page()).collect();
        for (number, place) in records {
            let record = self.buffer.record(*number);
            let (front, value) = (record::encode_front(&record.key, &record.object), &record.object.value);
            let (mut page, origin) = (place.page, pages[place.page].1);
            let mut done = PageWriter::resume(&mut pages[page].0.data).begin(place.offset, &front, value);
            while done < value.len() {
                page += 1;
                pages[page].2 = origin;
                done += PageWriter::resume(&mut pages[page].0.data).go_on(&value[done..]);
            }
        }
        for ((mut frame, sequence, origin), page) in pages.into_iter().zip(first..) {
            self.drives[drive].zones[zone.index()].last = sequence;
            Stamp { life, page, kind: Kind::Records, sequence, origin }.seal(&mut frame);
            frames.push_back(frame);
        }
    }

    fn empty_page(&mut self) -> (Frame, u64, u64) {
        let sequence = self.next_sequence();
        let mut frame = self.take_frame();
        PageWriter::new(&mut frame.data);
        (frame, sequence, 0)
    }

    /// Hands the next frames of a batch to the drive.
    fn hand_over(&mut self, drive: usize, effects: &mut Effects) {
        let own = &mut self.drives[drive];
        let batch = own.batch.as_mut().expect("a batch is under way");
        let count = batch.frames.len().min(own.transfer_max as usize);
        let frames: Vec<Frame> = batch.frames.drain(..count).collect();
        batch.handed = u32::try_from(count).expect("at most a transfer");
        let (zone, offset) = (batch.zone, own.zones[batch.zone.index()].end);
        assert!(count > 0 && offset + batch.handed <= own.capacity, "batches fit their zones");
        let token = Purpose::Batch.token(0);
        effects.commands.push(command(drive, zone, token, DeviceOp::Write { offset, frames }));
    }

    /// Frames of a batch are on the media.
    pub(super) fn on_written(&mut self, drive: usize, effects: &mut Effects) {
        let own = &mut self.drives[drive];
        let batch = own.batch.as_ref().expect("a batch is under way");
        let zone = batch.zone;
        own.zones[zone.index()].end += batch.handed;
        if !batch.frames.is_empty() {
            return self.hand_over(drive, effects);
        }
        let batch = own.batch.take().expect("seen above");
        if own.zones[zone.index()].end == own.capacity && own.open.contains(&Some(zone)) {
            own.fill_up(zone);
        }
        let place_of = |record: &Record| (record.page, record.ident);
        let landed = batch.records.iter().map(|number| self.buffer.record(*number));
        let superseded: BTreeSet<_> = landed.filter(|record| !record.alive).map(place_of).collect();
        for number in batch.records {
            let has_dead_mate = superseded.contains(&place_of(self.buffer.record(number)));
            self.land((drive, zone), number, has_dead_mate);
        }
    }

    /// A record is on the media: it gets a slot, unless it was superseded. What finds no slot is hidden; so is what the
    /// index cannot tell from a superseded record of the same page, for its slot would lead to both.
    fn land(&mut self, (drive, zone): (usize, ZoneIndex), number: u32, has_dead_mate: bool) {
        let Record { key, hash, ident, object, alive, page, again, .. } = self.buffer.land(number);
        let page = page.expect("it was in flight");
        if !alive {
            return;
        }
        let heat = again.map_or(0, |again| again.heat);
        if has_dead_mate || self.index.insert_warm(hash, page, heat).is_err() {
            let sequence = self.next_sequence();
            self.issue_entry(drive, hash, sequence, None);
            self.counters.index_full += 1;
            return;
        }
        let found = &mut self.drives[drive].zones[zone.index()];
        let namespace = usize::from(key.namespace().0);
        found.live[namespace] += 1;
        let birth = found.birth;
        if let Some(again) = again {
            // Its first copy counts for nothing now; the slot stays until that is gone.
            let first = &mut self.drives[again.drive].zones[again.zone.index()];
            if first.birth == again.birth {
                first.live[namespace] = first.live[namespace].saturating_sub(1);
            }
        }
        self.keep(Copied { key, ident, object, page, birth });
    }

    /// The zone of a drive that takes pages of a stream: where there is none, that of the next longer one.
    fn open_zone(&mut self, drive: usize, stream: Stream) -> Option<ZoneIndex> {
        let own = &self.drives[drive];
        if let Some(zone) = own.open[stream.place()] {
            return Some(zone);
        }
        let has_room = match stream {
            Stream::Young => own.data_share() > 0,
            Stream::Share(namespace) => match own.share(namespace) {
                Some(share) => own.may_open_share(share),
                // This drive has no room for shares: its objects go with all others.
                None => return self.open_zone(drive, Stream::Young),
            },
            _ => own.may_open_other(),
        };
        if !has_room {
            return stream.next_longer().and_then(|longer| self.open_zone(drive, longer));
        }
        let zone = own.find_free()?;
        let birth = self.next_sequence();
        let own = &mut self.drives[drive];
        let zone_bytes = u64::from(own.capacity) * BLOCK_BYTES_U64;
        own.zones.begin(zone, ZoneUse::Open, birth, stream.code());
        own.zones[zone.index()].expiries = Expiries::new(zone_bytes);
        own.open[stream.place()] = Some(zone);
        Some(zone)
    }

    /// A zone takes no more: the next record is larger than its room.
    pub(super) fn close_zone(&mut self, drive: usize, zone: ZoneIndex, effects: &mut Effects) {
        let own = &mut self.drives[drive];
        let is_open = own.open.contains(&Some(zone));
        assert!(is_open && own.zones[zone.index()].end > 0, "an empty zone takes any record");
        own.fill_up(zone);
        own.finishing += 1;
        // No reset overtakes it.
        own.zones[zone.index()].readers += 1;
        effects.commands.push(command(drive, zone, Purpose::Finish.token(0), DeviceOp::Finish));
    }
}
