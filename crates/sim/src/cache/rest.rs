//! What holds of the cache after each turn, and when everything is at rest.

use super::act::KEYS;
use super::judge::CacheJudge;
use super::oracle::full_key;
use super::stage::CacheStage;
use super::world::CacheWorld;
use crate::tally::Failure;
use ::cache::CacheVolume;
use ::cache::policy::Stream;
use ::cache::shard::{Drive, ZoneUse};
use base::units::ZoneIndex;
use zone::device::ZoneState;

/// Events after which what is in buffers should have been written.
const EVENTS_MAX: u64 = 100_000;

impl CacheStage {
    /// Bounds that hold at every moment.
    pub(super) fn check_bounds(&self) -> Result<(), Failure> {
        (0..self.plan.shards).try_for_each(|shard| self.check_bounds_of(shard))
    }

    fn check_bounds_of(&self, shard: usize) -> Result<(), Failure> {
        let volume = self.mounted().of(shard);
        let (status, options) = (volume.status(), self.plan.options());
        let (buffers, limit) = (status.buffer_bytes, options.buffer_bytes());
        if buffers > limit {
            return Err(Failure::new(format!("{buffers} bytes are in buffers, which may hold {limit}")));
        }
        let (held, limit) = (status.admission.held_bytes, volume.shard().held_limit());
        if held > limit {
            return Err(Failure::new(format!("{held} bytes are held in memory alone, which may be {limit}")));
        }
        let (again, limit) = (volume.shard().again_bytes(), options.again_bytes_max());
        if again > limit {
            return Err(Failure::new(format!("{again} bytes are written anew, which may be {limit}")));
        }
        let (bytes, limit) = (status.memory_bytes(), options.memory_bytes);
        if bytes > limit || status.copies_bytes > options.copies_bytes_max {
            return Err(Failure::new(format!("{bytes} bytes of memory are in use, of {limit}: {status:?}")));
        }
        for (number, drive) in volume.shard().drives().iter().enumerate().filter(|(_, drive)| drive.up) {
            let (zones, most) = (drive.journal.zones.len(), self.mounted().journal_max(shard, number));
            if zones > most && volume.status().recovery.zones_dropped == 0 {
                return Err(Failure::new(format!(
                    "the journal of drive {number} has {zones} zones of {most}"
                )));
            }
            for own in &drive.shares {
                let (zones, most) = (drive.zones_of(Stream::Share(own.namespace)), own.zones_max);
                if zones > most {
                    let namespace = own.namespace.0;
                    let said = format!(
                        "namespace {namespace} has {zones} zones of drive {number}, of {most} of its own"
                    );
                    return Err(Failure::new(said));
                }
            }
        }
        Ok(())
    }

    /// Writes are refused only when so many drives are lost.
    fn check_membership(&self, shard: usize) -> Result<(), Failure> {
        let status = self.mounted().of(shard).status();
        let lost = self.members(shard).saturating_sub(status.drives);
        if (status.frozen || lost > 0) && !self.may_freeze() {
            return Err(Failure::new(format!("{lost} drives were given up without a cause: {status:?}")));
        }
        Ok(())
    }

    /// The account of zones is that of the drives.
    fn check_zones(&self, shard: usize) -> Result<(), Failure> {
        let first = u32::try_from(shard).expect("few shards") * self.plan.zones;
        let engine = self.mounted().of(shard).shard();
        for (number, drive) in engine.drives().iter().enumerate() {
            if !drive.up {
                // Another drive takes its place when nothing of it is under way.
                match drive.zones.iter().any(|zone| zone.readers > 0) {
                    true => return Err(Failure::new(format!("drive {number} is lost, and read for ever"))),
                    false => continue,
                }
            }
            if !drive.zones.are_counted() {
                return Err(Failure::new(format!("drive {number}: its zones are not as they are counted")));
            }
            let media = self.zones_of(number);
            if media.is_empty() && !self.may_freeze() {
                return Err(Failure::new(format!("drive {number} could not be opened as it is")));
            }
            let zones = media.iter().skip(first as usize);
            for ((zone, own), found) in (0..).map(ZoneIndex).zip(drive.zones.iter()).zip(zones) {
                let used = own.used();
                let is_full = found.state == ZoneState::Full;
                let is_right = match used {
                    // Nobody has asked for it since it was lost.
                    _ if found.state == ZoneState::Offline => true,
                    ZoneUse::Kept => true,
                    ZoneUse::Free => found.write_pointer == 0,
                    ZoneUse::Open | ZoneUse::Journal => is_full || found.write_pointer == own.end,
                    ZoneUse::Full => found.write_pointer == drive.capacity || !found.state.is_active(),
                    // What is hot of it is read as clients write.
                    ZoneUse::Collecting => engine.is_collecting_slowly(number),
                    ZoneUse::Draining | ZoneUse::Resetting | ZoneUse::Sweeping => false,
                };
                if !is_right || own.readers > 0 {
                    let what = format!(
                        "shard {shard}, drive {number}: zone {zone} is {own:?}, and on the drive {found:?}"
                    );
                    return Err(Failure::new(what));
                }
            }
            self.check_journal(shard, (number, drive))?;
        }
        Ok(())
    }

    fn check_journal(&self, shard: usize, (number, drive): (usize, &Drive)) -> Result<(), Failure> {
        // What memory holds goes to drives when there is much of it.
        let is_shared = drive.journal.pending.iter().all(|pending| pending.shared.is_some());
        let is_empty = is_shared && drive.journal.flight.is_empty();
        if is_empty && drive.batches.is_empty() || self.mounted().of(shard).is_frozen() {
            return Ok(());
        }
        Err(Failure::new(format!("drive {number}: entries or pages are on their way for ever")))
    }
}

impl CacheJudge {
    /// Copies of the drives, mounted anew, hold what the cache holds, and nothing stale whichever drive is lost.
    fn check_copies(&mut self, shard: usize) -> Result<(), Failure> {
        if self.attended.owes() {
            // Without drives it cannot be recorded that all is to be forgotten.
            return Ok(());
        }
        let is_whole = !self.stage.may_freeze();
        let drives = self.stage.mounted().of(shard).shard().drives();
        let present: Vec<usize> = (0..drives.len()).filter(|drive| drives[*drive].up).collect();
        let (copy, host) = (self.stage.copy(shard, &present), self.copied_host());
        let Some(first) = self.read_copy(shard, (copy, &host), "a copy")? else {
            return if is_whole { Err(Failure::new("a copy of all drives is refused")) } else { Ok(()) };
        };
        if is_whole {
            self.check_recovered(shard, &first)?;
        }
        let again = self.read_copy(shard, (first.drives, &host), "a copy of it")?;
        let again = again.ok_or_else(|| Failure::new("a copy is refused the second time"))?;
        let has_cause = first.has_removed || again.status.counters.zones_evicted > 0;
        if again.objects != first.objects && is_whole && !has_cause {
            return Err(Failure::new("a recovery that is repeated finds something else"));
        }
        for lost in present.iter().filter(|_| present.len() > 1) {
            let others: Vec<usize> = present.iter().copied().filter(|drive| drive != lost).collect();
            let (copy, host) = (self.stage.copy(shard, &others), self.copied_host());
            self.read_copy(shard, (copy, &host), &format!("a copy without drive {lost}"))?;
        }
        Ok(())
    }

    /// The index of a copy is that of the cache, where nothing had to be hidden.
    fn check_recovered(&self, shard: usize, copy: &super::copies::Read) -> Result<(), Failure> {
        let (own, found) = (self.stage.mounted().of(shard).status(), copy.status);
        if copy.absent != self.stage.places() - own.drives {
            return Err(Failure::new(format!("check: {} drives are not there", copy.absent)));
        }
        if !copy.problems.is_empty() {
            return Err(Failure::new(format!("check: {}", copy.problems.join("; "))));
        }
        let recovery = found.recovery;
        let is_same = recovery.records_older + recovery.records_without_slot + recovery.records_beside == 0;
        if recovery.is_emptied {
            return Err(Failure::new("a copy is empty, and memory was there"));
        }
        if found.counters.zones_evicted > 0 || own.recovery.zones_dropped > 0 || !is_same {
            return Ok(());
        }
        // Fewer may be right: a write hides what is in flight and cannot be told from it, and what was cleared has slots.
        if found.index_slots > own.index_slots {
            let (found, own) = (found.index_slots, own.index_slots);
            return Err(Failure::new(format!("a copy has {found} slots, the cache {own}")));
        }
        let causes = self.stage.causes();
        for (key, object) in
            copy.objects.iter().enumerate().filter(|(key, _)| self.stage.shard_of[*key] == shard)
        {
            let newest = self
                .oracle
                .newest(key, u64::MAX)
                .filter(|(_, newest)| newest.expires.is_none_or(|at| at.0 > self.stage.clock.ever));
            let is_owed = newest.is_some_and(|(version, _)| self.ledger.is_owed(key, version, &causes));
            if is_owed && object.is_none() {
                return Err(Failure::new(format!("key {key} is not found in a copy")));
            }
        }
        Ok(())
    }
}

impl CacheWorld {
    /// Lets everything come to an end, and checks it.
    pub(super) fn rest(&mut self) -> Result<(), Failure> {
        self.life.drain()?;
        for _ in 0..EVENTS_MAX {
            if self.life.judge.stage.rack.lock().power.is_off() {
                return Ok(());
            }
            let served = self.life.judge.stage.mounted();
            let is_quiet = served.in_flight() == 0 && served.next_deadline().is_none();
            let is_done = |volume: &CacheVolume| volume.is_flushed() || volume.is_frozen();
            if is_quiet && served.all().iter().all(is_done) {
                return self.check();
            }
            self.life.step("the end")?;
        }
        Err(Failure::new("what is in buffers is never written"))
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.life.read_all()?;
        if self.life.judge.stage.rack.lock().power.is_off()
            || !self.life.judge.stage.mounted().is_flushed()
            || self.life.judge.stage.mounted().in_flight() > 0
        {
            // Reading removes what has expired, which evicts and resets.
            return Ok(());
        }
        self.life.judge.stage.tally.checks += 1;
        let drives = self.life.judge.stage.mounted().all().iter().flat_map(|volume| volume.shard().drives());
        self.life.judge.stage.tally.more_zones +=
            drives.map(|drive| drive.open.more().len() as u64).sum::<u64>();
        // What memory alone holds is on no drive, and ends with the process.
        let shard =
            |key: usize| self.life.judge.stage.mounted().of(self.life.judge.stage.shard_of[key]).shard();
        let is_held = |key: &usize| shard(*key).is_held(&full_key(*key));
        let held: Vec<usize> = (0..KEYS).filter(is_held).collect();
        held.into_iter().for_each(|key| self.life.judge.ledger.forgive(key));
        for shard in 0..self.life.judge.stage.plan.shards {
            self.life.judge.stage.check_membership(shard)?;
            self.life.judge.stage.check_zones(shard)?;
            if !self.life.judge.stage.mounted().of(shard).shard().has_slots_for_copies() {
                return Err(Failure::new("an object is in memory and not in the index"));
            }
        }
        (0..self.life.judge.stage.plan.shards).try_for_each(|shard| self.life.judge.check_copies(shard))?;
        // What was read from a copy in memory may be lost on media that are damaged, and only the next mount sees that.
        if self.life.judge.stage.plan.copies_kib == 0 || self.life.judge.stage.bays.spoilt.is_empty() {
            self.life.judge.ledger.rest();
        }
        Ok(())
    }
}
