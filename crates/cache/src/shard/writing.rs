//! Writing: records leave the filling buffer for pages of an open zone, one batch in flight for each zone.

use super::buffer::Batch;
use super::core::Core;
use super::drive::Drive;
use super::expiries::Expiries;
use super::objects::Objects;
use super::open::OpenZone;
use super::zones::ZoneUse;
use super::{Effects, Purpose, command};
use crate::config::Acknowledge;
use crate::format::directory::Listing;
use crate::format::header::Role;
use crate::hash::{FullKey, Ident};
use crate::policy::Stream;
use crate::request::Object;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, ZoneIndex};
use std::collections::VecDeque;
use zone::device::Op as DeviceOp;

impl Objects {
    /// Sends batches to zones without one, while there is something to write: to more zones of young objects when all first ones are busy.
    pub(super) fn write_data(&mut self, core: &mut Core, now: Instant, effects: &mut Effects) {
        if !core.membership.has_recorded() || core.membership.is_frozen() {
            return;
        }
        self.join_groups(now);
        let is_full = self.buffer.stored_bytes() >= core.options.stored_bytes_full();
        let count = core.drives.len();
        let first = usize::try_from(core.counters.batches % count as u64).expect("few drives");
        let drives = (first..first + count).map(|number| number % count);
        for drive in drives.clone() {
            for stream in core.streams_in_turn() {
                let is_due = self.buffer.deadline_of(stream).is_some_and(|due| due <= now);
                let is_pressed = is_due || is_full || self.is_awaited(core, stream);
                let wanted = is_pressed || self.buffer.filling_bytes(stream) >= BLOCK_BYTES;
                if wanted
                    && core.takes_batches(drive)
                    && core.drives[drive].has_turn()
                    && self.may_spread(core, drive, stream)
                    && self.buffer.next_filling(stream).is_some()
                    && let Some(zone) = core.open_zone(drive, stream)
                {
                    self.write_batch(core, (drive, zone), stream, is_pressed, (now, effects));
                }
            }
        }
        for drive in drives {
            while self.buffer.filling_bytes(Stream::Young) >= core.options.batch_pages as usize * BLOCK_BYTES
                && core.takes_batches(drive)
                && self.buffer.next_filling(Stream::Young).is_some()
                && let Some(zone) = core.one_more_zone(drive)
            {
                self.write_batch(core, (drive, zone), Stream::Young, false, (now, effects));
            }
        }
    }

    /// True unless a group would begin a zone on one more drive, though others have one for it and less than a batch waits: zones that fill
    /// slowly take room that nobody uses.
    fn may_spread(&self, core: &Core, drive: usize, stream: Stream) -> bool {
        let batch = core.options.batch_pages as usize * BLOCK_BYTES;
        !Stream::GROUPS.contains(&stream)
            || core.drives[drive].open.of(stream).is_some()
            || core.drives.iter().all(|drive| drive.open.of(stream).is_none())
            || self.buffer.filling_bytes(stream) >= batch
    }

    /// Joins the objects of a stream with less than half a page when it is due to those that live longer, main objects to young
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
        core: &mut Core,
        (drive, zone): (usize, ZoneIndex),
        stream: Stream,
        is_pressed: bool,
        (now, effects): (Instant, &mut Effects),
    ) {
        assert!(!core.drives[drive].is_written(zone), "one batch at a time goes to a zone");
        let mut frames = VecDeque::new();
        if core.drives[drive].zones[zone.index()].end == 0 {
            frames.push_back(core.zone_header(drive, zone, Role::Data));
        }
        // A page that is not full waits for more, while it may.
        let whole = if is_pressed { usize::MAX } else { self.buffer.filling_bytes(stream) / BLOCK_BYTES };
        let mut packed = self.pack(core, (drive, zone), stream, whole);
        if packed.records.is_empty() && !is_pressed {
            packed = self.pack(core, (drive, zone), stream, usize::MAX);
        }
        if !packed.records.is_empty() {
            self.buffer.restart_wait(stream, now);
        }
        assert!(frames.is_empty() || !packed.records.is_empty(), "an empty zone takes any record");
        self.fill(core, (drive, zone), &packed, &mut frames);
        core.counters.blocks_data += frames.len() as u64;
        let pages = frames.len();
        let closes = core.list((drive, zone), packed.records.is_empty(), &mut frames);
        if frames.is_empty() {
            return core.close_zone(drive, zone, effects);
        }
        core.counters.batches += 1;
        let records = packed.records.into_iter().map(|(number, _)| number).collect();
        let batch = Batch { zone, records, directory: frames.len() - pages, frames, handed: 0, closes };
        core.drives[drive].batches.push(batch);
        core.hand_over((drive, zone), effects);
    }

    /// The stream of an object that clients store: that of its namespace, if it has zones of its own. One that went with a young zone lately,
    /// and would be young again, has come twice.
    pub(super) fn stream_of(
        &mut self,
        core: &mut Core,
        (key, ident): (&FullKey, Ident),
        object: &Object,
    ) -> Stream {
        if let Some(share) = core.share_of(key) {
            return share;
        }
        let groups = core.drives.iter().filter(|drive| drive.up).map(Drive::groups).max().unwrap_or(0);
        let lives = object.expires.map(|at| at.0.saturating_sub(core.clocks.wall.0));
        let stream = lives.map_or(Stream::Young, |lives| core.options.stream_of(lives, groups));
        if stream != Stream::Young || !self.evicted.recall(ident.hash()) {
            return stream;
        }
        core.counters.recalled += 1;
        Stream::Main
    }

    /// True when somebody waits for what waits for a page of a stream.
    pub(super) fn is_awaited(&self, core: &Core, stream: Stream) -> bool {
        core.options.acknowledge == Acknowledge::Media && self.buffer.filling_stored(stream) > 0
    }
}

impl Core {
    /// True of a drive that is there and named: what another one holds is gone with the next mount.
    pub(super) fn takes_batches(&self, drive: usize) -> bool {
        self.drives[drive].up && self.membership.has_member(drive)
    }

    /// All streams, another one first each time.
    pub(super) fn streams_in_turn(&self) -> impl Iterator<Item = Stream> + use<> {
        let (options, count) = (self.options, self.options.streams());
        let first = usize::try_from(self.counters.batches % count as u64).expect("few streams");
        (first..first + count).map(move |number| options.stream_at(number % count))
    }

    /// Hands the next frames of a batch to the drive. A directory follows when what it lists is on the media: a command that is cut off may
    /// have left any of its blocks.
    pub(super) fn hand_over(&mut self, (drive, zone): (usize, ZoneIndex), effects: &mut Effects) {
        let own = &mut self.drives[drive];
        let batch = own.batches.iter_mut().find(|batch| batch.zone == zone).expect("a batch is under way");
        let pages = batch.frames.len() - batch.directory;
        let count = if pages > 0 { pages } else { batch.frames.len() }.min(own.transfer_max as usize);
        batch.directory -= if pages > 0 { 0 } else { count };
        let frames: Vec<Frame> = batch.frames.drain(..count).collect();
        batch.handed = u32::try_from(count).expect("at most a transfer");
        let offset = own.zones[zone.index()].end;
        assert!(count > 0 && offset + batch.handed <= own.capacity, "batches fit their zones");
        let token = Purpose::Batch.token(0);
        effects.commands.push(command(drive, zone, token, DeviceOp::Write { offset, frames }));
    }

    /// The zone of a drive that takes pages of a stream: where there is none, that of the next longer one.
    pub(super) fn open_zone(&mut self, drive: usize, stream: Stream) -> Option<ZoneIndex> {
        let own = &self.drives[drive];
        if let Some(zone) = own.open.of(stream) {
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
        let (zone, open) = self.begin_zone(drive, stream)?;
        self.drives[drive].open.open(stream, open);
        Some(zone)
    }

    /// A zone of a drive that takes pages of young objects beside the first one, and to which none are on their way.
    pub(super) fn one_more_zone(&mut self, drive: usize) -> Option<ZoneIndex> {
        let own = &self.drives[drive];
        let idle = own.open.more().find(|zone| !own.is_written(*zone));
        if idle.is_some() || own.open.of(Stream::Young).is_none() || !own.may_open_more() {
            return idle;
        }
        let (zone, open) = self.begin_zone(drive, Stream::Young)?;
        self.drives[drive].open.open_more(open);
        Some(zone)
    }

    /// A free zone begins a life with pages of a stream.
    pub(super) fn begin_zone(&mut self, drive: usize, stream: Stream) -> Option<(ZoneIndex, OpenZone)> {
        let zone = self.drives[drive].find_free()?;
        let birth = self.next_sequence();
        let own = &mut self.drives[drive];
        let zone_bytes = u64::from(own.capacity) * BLOCK_BYTES_U64;
        own.zones.begin(zone, ZoneUse::Open, (birth, self.clocks.wall), stream.code());
        own.zones[zone.index()].expiries = Expiries::new(zone_bytes);
        Some((zone, OpenZone { zone, listing: Some(Listing::new(1, 0)) }))
    }

    /// A zone takes no more: the next record is larger than its room.
    pub(super) fn close_zone(&mut self, drive: usize, zone: ZoneIndex, effects: &mut Effects) {
        let own = &mut self.drives[drive];
        let is_open = own.open.contains(zone);
        assert!(is_open && own.zones[zone.index()].end > 0, "an empty zone takes any record");
        own.fill_up(zone);
        own.finishing += 1;
        // No reset overtakes it.
        own.zones[zone.index()].readers += 1;
        effects.commands.push(command(drive, zone, Purpose::Finish.token(0), DeviceOp::Finish));
    }

    /// Frames of a batch are on the media: the next ones go, or it has ended.
    pub(super) fn end_batch(
        &mut self,
        (drive, zone): (usize, ZoneIndex),
        effects: &mut Effects,
    ) -> Option<Batch> {
        let own = &mut self.drives[drive];
        let place = own.batches.iter().position(|batch| batch.zone == zone).expect("a batch is under way");
        own.zones[zone.index()].end += own.batches[place].handed;
        if !own.batches[place].frames.is_empty() {
            self.hand_over((drive, zone), effects);
            return None;
        }
        let batch = own.batches.remove(place);
        // The journal may have made a victim of it.
        if own.open.contains(zone) {
            match own.zones[zone.index()].end == own.capacity {
                true => own.fill_up(zone),
                false if batch.closes => self.close_zone(drive, zone, effects),
                false => {}
            }
        }
        Some(batch)
    }
}
