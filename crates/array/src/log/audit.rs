//! The engine's account of zones against that of a drive: for tests and simulation.

use crate::log::Shard;
use crate::log::core::Core;
use crate::log::requests::Work;
use crate::log::segment::{Segment, SegmentState};
use crate::log::stripe::Stripes;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::ZoneState;
use zone::format::SUPERBLOCK_ZONES;
use zone::format::header::Stream;
use zone::rules::Zone;

impl Shard {
    /// Describes what is under way and what waits, in one line: for whoever finds that nothing moves.
    pub(super) fn work_in_words(&self) -> String {
        let streams: Vec<String> = (self.stripes.streams.iter())
            .map(|stream| {
                let open = stream.open.iter().flat_map(|place| place.segment);
                let states: Vec<SegmentState> = open.map(|slot| self.core.segments.get(slot).state).collect();
                format!("filling {:?}, {} sealed, {states:?}", stream.filling, stream.sealed.len())
            })
            .collect();
        let states: Vec<SegmentState> = self.core.segments.iter().map(|(_, segment)| segment.state).collect();
        let first = self.clients.pending.front().map(|slot| &self.clients.requests.get(*slot).work);
        let first = first.map(|work| match work {
            Work::Write { range, .. } => format!("write {range:?}"),
            Work::Trim { range, .. } => format!("trim {range:?}"),
            Work::Flush { writes_before } => format!("flush after {writes_before}"),
        });
        format!(
            "{} requests, {} of them pending (first {first:?}), {} reads, {} loads, {} sweeps, {} rebuilds, {} moves and {} pending, {} write-offs, \
             {} weak, {} doubtful; gc {:?}; mapping space at rest: {}; streams {streams:?}; segments {states:?}, {} free; changing members: {}",
            self.clients.requests.len(),
            self.clients.pending.len(),
            self.clients.reads.len(),
            self.reader.loads.len(),
            self.reader.sweeps.len(),
            self.reader.degraded.len(),
            self.collector.moves.len(),
            self.collector.moves_pending,
            self.collector.write_offs.len(),
            self.rescue.weak.len(),
            self.rescue.doubtful.len(),
            self.collector.stage,
            self.off_load.space.is_at_rest(),
            self.core.segments.free_segments(),
            self.core.membership.is_changing(),
        )
    }
}

impl Stripes {
    /// A stripe of clients that should have been closed by now: none waits for company beyond its deadline,
    /// whatever the collector does, but for one that stands behind others.
    pub(super) fn overdue_stripe(&self, core: &Core, now: Instant) -> Option<String> {
        let gathers = |stream: &Stream| !self.stands_behind(core, *stream);
        let clients = Stream::CLIENTS.into_iter().filter(gathers);
        let filling = clients.filter_map(|stream| self.streams[stream.index()].filling);
        let since = filling.map(|slot| self.slots.get(slot).opened_at).min()?;
        let overdue = since + core.tuning.stripe_deadline <= now;
        overdue.then(|| format!("a stripe that was begun at {} ns still waits for company", since.0))
    }
}

impl Segment {
    /// True when a zone of the segment at rest has a random write area if the engine says so, and only then.
    fn has_its_area(&self, drive: usize, zone: &Zone) -> bool {
        let writer = self.writer.as_ref().filter(|_| self.state == SegmentState::Open);
        match writer.map(|writer| &writer.zones[drive]) {
            None if self.is_write_area => true,
            Some(progress) if zone.state.is_active() => progress.window.is_some() == zone.area.is_some(),
            _ => zone.area.is_none(),
        }
    }
}

impl Core {
    /// The first zone of a drive at rest that is not what the engine takes it for, in words. Zones that
    /// belong to no segment and are not free are among them: media that failed leave such.
    pub(super) fn mistaken_zone(&self, drive: DriveIndex, zones: &[Zone]) -> Option<String> {
        if !self.membership.is_present(drive.index()) {
            return None;
        }
        (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize).find_map(|(index, zone)| {
            let state = zone.state;
            match self.segments.owner(drive, index).map(|slot| self.segments.get(slot)) {
                None if self.segments.is_free(drive, index) => (state != ZoneState::Empty)
                    .then(|| format!("zone {index} is called free and is {state:?} on the drive")),
                None => Some(format!("zone {index} ({state:?}) is neither free nor part of a segment")),
                // A rebuild will write it.
                Some(segment) if segment.lacks_zone(drive.index()) => None,
                Some(segment) if !segment.has_its_area(drive.index(), zone) => Some(format!(
                    "zone {index} of segment {}, {:?}, has area {:?}",
                    segment.id, segment.state, zone.area
                )),
                Some(segment) => {
                    let fits = match segment.state {
                        SegmentState::Sealed => state == ZoneState::Full,
                        SegmentState::Open => state.is_active() || state == ZoneState::Full,
                        // It is collected at once, unless nothing can be: members or zones have failed, or with them a part of
                        // the index.
                        SegmentState::Condemned => {
                            self.membership.is_broken()
                                || self.index.is_incomplete()
                                || self.segments.free_segments() == 0
                        }
                        _ => true,
                    };
                    let id = segment.id;
                    (!fits)
                        .then(|| format!("zone {index} of segment {id}, {:?}, is {state:?}", segment.state))
                }
            }
        })
    }
}
