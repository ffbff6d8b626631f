//! Landing: what a batch held is on the media, and gets its slots.

use super::buffer::Record;
use super::memory::Copied;
use super::{Effects, Shard};
use base::units::ZoneIndex;
use std::collections::BTreeSet;

impl Shard {
    /// Frames of a batch are on the media.
    pub(super) fn on_written(&mut self, (drive, zone): (usize, ZoneIndex), effects: &mut Effects) {
        let Some(batch) = self.core.end_batch((drive, zone), effects) else { return };
        assert!(batch.frames.is_empty() && batch.directory == 0, "all of the batch was handed over");
        let place_of = |record: &Record| (record.page, record.ident);
        let landed = batch.records.iter().map(|number| self.objects.buffer.record(*number));
        let superseded: BTreeSet<_> = landed.filter(|record| !record.alive).map(place_of).collect();
        for number in batch.records {
            let has_dead_mate = superseded.contains(&place_of(self.objects.buffer.record(number)));
            if let Some(waiter) = self.land((drive, zone), number, has_dead_mate) {
                self.desk.on_landed(&self.core, drive, waiter, effects);
            }
        }
    }

    /// A record is on the media: it gets a slot, unless it was superseded. What finds no slot is hidden; so is what the
    /// index cannot tell from a superseded record of the same page, for its slot would lead to both. Returns who waits for it.
    fn land(&mut self, (drive, zone): (usize, ZoneIndex), number: u32, has_dead_mate: bool) -> Option<u32> {
        let Record { key, hash, ident, object, alive, page, again, .. } = self.objects.buffer.land(number);
        let page = page.expect("it was in flight");
        debug_assert!(self.core.locate(page).0 == drive, "it is where its batch was");
        if !alive {
            return None;
        }
        let waiter = self.desk.waiter_of(&self.core, hash, &key);
        let heat = again.map_or(0, |again| again.heat);
        if has_dead_mate || self.core.index.insert_warm(hash, page, heat).is_err() {
            let sequence = self.core.next_sequence();
            self.entries.issue(&mut self.core, drive, hash, sequence, None);
            self.core.counters.index_full += 1;
            return waiter;
        }
        let found = &mut self.core.drives[drive].zones[zone.index()];
        let namespace = usize::from(key.namespace().0);
        found.live[namespace] += 1;
        let birth = found.birth;
        if let Some(again) = again {
            // Its first copy counts for nothing now; the slot stays until that is gone.
            let first = &mut self.core.drives[again.drive].zones[again.zone.index()];
            if first.birth == again.birth {
                first.live[namespace] = first.live[namespace].saturating_sub(1);
            }
        }
        self.objects.keep(&mut self.core, Copied { key, ident, object, page, birth });
        waiter
    }
}
