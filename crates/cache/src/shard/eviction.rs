//! Eviction: whole zones go. Those go at once in which everything has expired; when room is wanted, those with nothing alive, and then
//! those that a policy chooses.
//!
//! A victim's slots go when its bytes cannot be read any more: after its reset, and where the drive's cache is volatile
//! after the flush behind it. So no crash brings back what the index has forgotten, and the end of a zone's life needs no
//! record but the reset itself (ADR 40).

use super::core::Core;
use super::drive::Drive;
use super::objects::Objects;
use super::zones::{Zone, ZoneUse};
use super::{Effects, Purpose, command, locate};
use crate::ghost::Ghost;
use crate::hash::Ident;
use crate::index::PageNumber;
use crate::policy::{Eviction, Stream};
use base::units::ZoneIndex;
use std::cmp::Ordering;
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

    /// Goes on with the pass over the index, or begins one.
    pub(super) fn go_on(&mut self, core: &mut Core, evicted: &mut Ghost<u8>) {
        if self.next.is_none() {
            self.zones.clear();
            let swept = |own: &Drive| own.zones.count(ZoneUse::Sweeping) > 0;
            for (drive, own) in core.drives.iter().enumerate().filter(|(_, own)| swept(own)) {
                let swept = (0..).zip(own.zones.iter()).filter(|(_, zone)| zone.used() == ZoneUse::Sweeping);
                self.zones.extend(swept.map(|(index, _)| (drive, ZoneIndex(index))));
            }
            if self.zones.is_empty() && !self.lost {
                return;
            }
            self.lost = false;
            self.next = Some(0);
        }
        let from = self.next.expect("a pass is under way");
        let (drives, zones) = (&core.drives, &self.zones);
        let is_gone = |ident: Ident, page: PageNumber| {
            let (drive, zone, _) = locate(drives, page);
            let is_evicted = zones.contains(&(drive, zone));
            if is_evicted && drives[drive].zones[zone.index()].stream == Stream::Young.code() {
                evicted.remember(ident.hash());
            }
            is_evicted || !drives[drive].up
        };
        self.next = core.index.sweep(from, SWEEP_BUCKETS, is_gone);
        if self.next.is_none() {
            for (drive, zone) in std::mem::take(&mut self.zones) {
                core.drives[drive].zones.free(zone);
            }
        }
    }
}

impl Objects {
    /// Picks victims of a drive and resets those that nobody uses.
    pub(super) fn evict(&self, core: &mut Core, drive: usize, effects: &mut Effects) {
        if !core.drives[drive].up {
            return;
        }
        core.close_strays(drive, effects);
        core.pick_expired(drive);
        core.pick_of_shares(drive);
        core.pick_victims(drive);
        for zone in core.draining(drive) {
            if self.is_drained(core, drive, zone) {
                core.drives[drive].zones.turn(zone, ZoneUse::Resetting);
                effects.commands.push(command(drive, zone, Purpose::Reset.token(0), DeviceOp::Reset));
            }
        }
    }

    /// True of a victim that nobody uses any more.
    fn is_drained(&self, core: &Core, drive: usize, zone: ZoneIndex) -> bool {
        let own = &core.drives[drive];
        let found = &own.zones[zone.index()];
        if found.used() != ZoneUse::Draining || found.readers > 0 || own.is_written(zone) {
            return false;
        }
        // What is written anew lands before its first copy goes, unless it waits for the room.
        let lands = own.data_share() > 0 && !core.membership.is_frozen();
        !lands || self.buffer.reinserting(drive, zone) == 0
    }

    /// True when a victim of a drive can be reset: a copy for which it waited was superseded and left the buffers, say, which
    /// no completion tells.
    pub(super) fn may_reset(&self, core: &Core, drive: usize) -> bool {
        core.drives[drive].up && core.draining(drive).any(|zone| self.is_drained(core, drive, zone))
    }
}

impl Core {
    /// Zones of a drive, if some are victims that are used no more than by those who began before.
    fn draining(&self, drive: usize) -> impl Iterator<Item = ZoneIndex> + use<> {
        let zones = &self.drives[drive].zones;
        let count = if zones.count(ZoneUse::Draining) > 0 { zones.len() } else { 0 };
        (0..).map(ZoneIndex).take(count)
    }

    /// Picks a zone in which everything has expired: it goes at once, and nothing of it is read. Its journal has told the time before, and
    /// will be there as long as the zone: no mount finds what was missed here because it had expired, though the clock was set back.
    fn pick_expired(&mut self, drive: usize) {
        let (wall, own) = (self.clocks.wall, &mut self.drives[drive]);
        own.journal.wants_time = false;
        let going = own.zones.count(ZoneUse::Draining) + own.zones.count(ZoneUse::Resetting);
        if own.over_at > wall || going > 0 {
            return;
        }
        let told = own.journal.told;
        let is_over = |zone: &Zone| zone.used() == ZoneUse::Full && zone.expiries.are_over(wall);
        let is_told = |zone: &Zone| zone.expiries.are_over(told.wall) && zone.birth < told.sequence;
        if let Some(zone) = own.oldest(|zone| is_over(zone) && is_told(zone)) {
            own.zones.turn(zone, ZoneUse::Draining);
            self.counters.zones_expired += 1;
        } else if own.oldest(is_over).is_some() {
            // Who waits for the journal needs what is left of it.
            own.journal.wants_time = !own.is_journal_short();
        } else {
            own.over_at = own.next_over();
        }
    }

    /// Closes zones of namespaces that had shares before this mount.
    fn close_strays(&mut self, drive: usize, effects: &mut Effects) {
        let own = &self.drives[drive];
        let is_stray = |zone: &ZoneIndex| match Stream::from_code(own.zones[zone.index()].stream) {
            Some(Stream::Share(namespace)) => own.share(namespace).is_none(),
            _ => false,
        };
        let strays: Vec<ZoneIndex> = own.open.iter().map(|open| open.zone).filter(is_stray).collect();
        strays.into_iter().for_each(|zone| self.close_zone(drive, zone, effects));
    }

    /// Picks a victim for each namespace that has as many zones of its own as it may, among these, when the one that it fills is nearly full. A
    /// mount may find one more, whose victim was not reset yet: then at once.
    fn pick_of_shares(&mut self, drive: usize) {
        for place in 0..self.drives[drive].shares.len() {
            let own = &mut self.drives[drive];
            let share = &own.shares[place];
            let (stream, eviction) = (Stream::Share(share.namespace), share.eviction);
            let open = own.open.of(stream);
            let has_room = open.is_some_and(|zone| own.zones[zone.index()].end < own.capacity / 4 * 3);
            // One victim is collected at a time, and the next waits for that as long as there is room.
            let waits = has_room || own.collection.is_some() && own.has_time() && open.is_some();
            match own.zones_of(stream).cmp(&share.zones_max) {
                Ordering::Less => continue,
                Ordering::Equal if waits => continue,
                Ordering::Equal | Ordering::Greater => {}
            }
            let is_dead = |zone: &Zone| zone.used() == ZoneUse::Full && zone.objects() == 0;
            if let Some(dead) = own.oldest(|zone| zone.stream == stream.code() && is_dead(zone)) {
                self.let_go(drive, dead);
                continue;
            }
            let candidates = own.candidates(|other| other == stream);
            let Some(choice) = eviction.choose(&candidates, own.shares[place].hand) else { continue };
            own.shares[place].hand = own.zones[choice.victim.index()].birth;
            self.spare(drive, &choice.spared);
            self.let_go(drive, choice.victim);
        }
    }

    fn pick_victims(&mut self, drive: usize) {
        let own = &mut self.drives[drive];
        let leaving = own.zones.leaving();
        let (coming, is_going) = (own.free_zones() + leaving, leaving > 0);
        let wants_room = coming < FREE_WANTED + own.journal_share();
        if wants_room || !is_going && self.is_crowded() {
            self.pick_for_room(drive);
        }
        let own = &mut self.drives[drive];
        // The journal is at its bound: the zone that holds its horizon goes first, and the next when more is needed of the journal than can be
        // written again still.
        let is_short = own.is_journal_short();
        let oldest_last = own.journal.zones.front().map_or(0, |zone| zone.last);
        let going = own.zones.count(ZoneUse::Draining) + own.zones.count(ZoneUse::Resetting);
        let is_going = going > 0 || own.collection.is_some() && own.has_time();
        if is_short && own.zones.horizon() <= oldest_last && !is_going && !own.frees_journal() {
            let holds_it = own.oldest(|zone| zone.is_readable() && zone.birth <= oldest_last);
            holds_it.into_iter().for_each(|zone| self.let_go(drive, zone));
        }
    }

    /// Picks a victim to make room: one with nothing alive, or the choice of the policy.
    fn pick_for_room(&mut self, drive: usize) {
        let own = &mut self.drives[drive];
        if let Some(dead) = own.oldest(|zone| zone.used() == ZoneUse::Full && zone.objects() == 0) {
            return self.let_go(drive, dead);
        }
        // One that has expired goes as soon as that is told.
        if own.journal.wants_time && own.has_time() {
            return;
        }
        // One victim is collected at a time, and the next waits for that as long as there is room.
        if own.collection.is_some() && own.has_time() {
            return;
        }
        // Zones of shares go for their own namespaces, unless there is nothing else.
        let common = own.candidates(|stream| !stream.is_share());
        let candidates = if common.is_empty() { own.candidates(|_| true) } else { common };
        let Some(choice) = self.options.eviction.choose(&candidates, own.hand) else { return };
        own.hand = own.zones[choice.victim.index()].birth;
        self.spare(drive, &choice.spared);
        self.let_go(drive, choice.victim);
    }

    /// Zones that were passed over have to be hit again to be passed over again.
    fn spare(&mut self, drive: usize, zones: &[ZoneIndex]) {
        for zone in zones {
            self.drives[drive].zones[zone.index()].hits = 0;
        }
        self.counters.zones_spared += zones.len() as u64;
    }

    /// The policy by which a zone goes.
    fn policy_of(&self, drive: usize, zone: ZoneIndex) -> Eviction {
        let own = &self.drives[drive];
        let share = match Stream::from_code(own.zones[zone.index()].stream) {
            Some(Stream::Share(namespace)) => own.share(namespace),
            _ => None,
        };
        share.map_or(self.options.eviction, |share| share.eviction)
    }

    /// A zone goes: at once, or when what was hit of it is collected.
    fn let_go(&mut self, drive: usize, zone: ZoneIndex) {
        let reinserts = self.policy_of(drive, zone).reinserts() && self.options.reinsert_percent > 0;
        let own = &mut self.drives[drive];
        let found = &mut own.zones[zone.index()];
        assert!(found.is_readable(), "only zones of data are evicted");
        // One that is collected already was counted when that began.
        let is_new = u64::from(found.used() != ZoneUse::Collecting);
        self.counters.zones_evicted += is_new;
        if let Some(Stream::Share(namespace)) = Stream::from_code(found.stream) {
            self.counters.of_mut(namespace).zones_evicted += is_new;
        }
        let has_hits = found.used() != ZoneUse::Collecting && found.hits > 0;
        let collects = reinserts && has_hits && own.collection.is_none() && own.has_time();
        own.zones.turn(zone, if collects { ZoneUse::Collecting } else { ZoneUse::Draining });
        own.close(zone);
        if collects {
            self.begin_collection(drive, zone);
        }
    }

    /// A zone was reset.
    pub(super) fn on_reset(&mut self, drive: usize, zone: ZoneIndex, effects: &mut Effects) {
        assert!(self.drives[drive].zones[zone.index()].used() == ZoneUse::Resetting);
        if self.drives[drive].volatile {
            let token = Purpose::ResetFlush.token(zone.0);
            effects.commands.push(command(drive, zone, token, DeviceOp::Flush));
        } else {
            self.on_reset_durable(drive, zone);
        }
    }

    /// A zone was reset for good: slots that name it go.
    pub(super) fn on_reset_durable(&mut self, drive: usize, zone: ZoneIndex) {
        let zones = &mut self.drives[drive].zones;
        assert!(zones[zone.index()].readers == 0, "no reset overtakes a reader");
        zones.end(zone);
    }
}
