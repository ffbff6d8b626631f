//! Eviction: whole zones go, the one with nothing alive or the oldest first.
//!
//! A victim's slots go when its bytes cannot be read any more: after its reset, and where the drive's cache is volatile
//! after the flush behind it. So no crash brings back what the index has forgotten, and the end of a zone's life needs no
//! record but the reset itself (ADR 40).

use super::drive::ZoneUse;
use super::{Effects, Purpose, Shard, command};
use base::units::ZoneIndex;
use zone::device::Op as DeviceOp;

/// Zones that are kept free, or on their way to be, for each drive.
const FREE_WANTED: usize = 2;
/// Buckets that a turn sweeps.
const SWEEP_BUCKETS: u64 = 1 << 14;

/// A pass over the index that frees slots of zones that are gone.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Next bucket, while one is under way.
    next: Option<u64>,
    /// Zones of this pass.
    zones: Vec<(usize, ZoneIndex)>,
    /// Drives that failed: their slots go, too.
    lost: bool,
}

impl Sweep {
    /// True while a pass is under way or due.
    pub fn is_under_way(&self) -> bool {
        self.next.is_some() || self.lost
    }

    /// Slots of a drive that failed go with the next pass.
    pub fn drive_failed(&mut self) {
        self.lost = true;
    }
}

impl Shard {
    /// Picks victims of a drive and resets those that nobody uses.
    pub(super) fn evict(&mut self, drive: usize, effects: &mut Effects) {
        if !self.drives[drive].up {
            return;
        }
        self.pick_victims(drive);
        for index in 0..self.drives[drive].zones.len() {
            let own = &mut self.drives[drive];
            let zone = ZoneIndex(u32::try_from(index).expect("a u32 of zones"));
            let is_written = own.batch.as_ref().is_some_and(|batch| batch.zone == zone);
            if own.zones[index].used != ZoneUse::Draining || own.zones[index].readers > 0 || is_written {
                continue;
            }
            own.zones[index].used = ZoneUse::Resetting;
            effects.commands.push(command(drive, zone, Purpose::Reset.token(0), DeviceOp::Reset));
        }
    }

    fn pick_victims(&mut self, drive: usize) {
        let own = &mut self.drives[drive];
        let leaving = |used| matches!(used, ZoneUse::Draining | ZoneUse::Resetting | ZoneUse::Sweeping);
        let coming = own.free_zones() + own.count(leaving);
        let mut victim = None;
        if coming < FREE_WANTED + own.journal_share() {
            let is_dead =
                |zone: &super::Zone| zone.used == ZoneUse::Full && zone.live.iter().all(|live| *live == 0);
            victim = own.oldest(is_dead).or_else(|| own.oldest(|zone| zone.used == ZoneUse::Full));
        }
        // The journal is at its bound: the zone that holds its horizon goes first.
        let is_short = own.journal_share() == 0 && own.journal_room() * 2 < own.capacity;
        let oldest_last = own.journal.zones.front().map_or(0, |zone| zone.last);
        if is_short && own.horizon() <= oldest_last && own.count(|used| used == ZoneUse::Draining) == 0 {
            victim = own.oldest(|zone| zone.is_readable() && zone.birth <= oldest_last).or(victim);
        }
        if let Some(zone) = victim {
            own.zones[zone.index()].used = ZoneUse::Draining;
            if own.open == Some(zone) {
                own.open = None;
            }
            self.counters.zones_evicted += 1;
        }
    }

    /// A zone was reset.
    pub(super) fn on_reset(&mut self, drive: usize, zone: ZoneIndex, effects: &mut Effects) {
        assert!(self.drives[drive].zones[zone.index()].used == ZoneUse::Resetting);
        if self.drives[drive].volatile {
            let token = Purpose::ResetFlush.token(zone.0);
            effects.commands.push(command(drive, zone, token, DeviceOp::Flush));
        } else {
            self.on_reset_durable(drive, zone);
        }
    }

    /// A zone was reset for good: slots that name it go.
    pub(super) fn on_reset_durable(&mut self, drive: usize, zone: ZoneIndex) {
        let found = &mut self.drives[drive].zones[zone.index()];
        assert!(found.used == ZoneUse::Resetting && found.readers == 0);
        let was_journal = found.birth == u64::MAX;
        *found = super::Zone::new(if was_journal { ZoneUse::Free } else { ZoneUse::Sweeping });
    }

    /// Goes on with the pass over the index, or begins one.
    pub(super) fn sweep(&mut self) {
        if self.sweep.next.is_none() {
            self.sweep.zones.clear();
            for (drive, own) in self.drives.iter().enumerate() {
                let swept = (0..).zip(&own.zones).filter(|(_, zone)| zone.used == ZoneUse::Sweeping);
                self.sweep.zones.extend(swept.map(|(index, _)| (drive, ZoneIndex(index))));
            }
            if self.sweep.zones.is_empty() && !self.sweep.lost {
                return;
            }
            self.sweep.lost = false;
            self.sweep.next = Some(0);
        }
        let from = self.sweep.next.expect("a pass is under way");
        let (drives, zones) = (&self.drives, &self.sweep.zones);
        let is_gone = |page: crate::index::PageNumber| {
            let drive =
                drives.iter().rposition(|drive| drive.base <= page.0).expect("the first begins at zero");
            let zone = ZoneIndex((page.0 - drives[drive].base) / drives[drive].capacity);
            !drives[drive].up || zones.contains(&(drive, zone))
        };
        self.sweep.next = self.index.sweep(from, SWEEP_BUCKETS, is_gone);
        if self.sweep.next.is_none() {
            for (drive, zone) in std::mem::take(&mut self.sweep.zones) {
                self.drives[drive].zones[zone.index()].used = ZoneUse::Free;
            }
        }
    }
}
