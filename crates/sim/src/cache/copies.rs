//! Copies of the drives, mounted as they are: what would be found if the process ended now.

use super::act::KEYS;
use super::judge::CacheJudge;
use super::memory::Copied;
use super::oracle::name_of;
use super::stage::CacheStage;
use crate::tally::Failure;
use ::cache::request::{Cache, Object, Op, Outcome, Request, RequestId, WallMillis};
use ::cache::shared::Host;
use ::cache::{CacheVolume, Status, check, list, mount_on};
use base::time::{Instant, Nanos};
use drive::slices::sets;
use std::collections::BTreeSet;
use zone::drives::DriveSet;

/// Turns after which a copy should have answered.
const TURNS_MAX: u32 = 10_000;

/// What was read from a copy.
pub(super) struct Read {
    /// Objects by key.
    pub objects: Vec<Option<Object>>,
    /// Status before anything was read.
    pub status: Status,
    /// Reading has removed what had expired, and with it perhaps what the index cannot tell from it.
    pub has_removed: bool,
    /// What a check found wrong.
    pub problems: Vec<String>,
    /// Places in which a check found no drive that counts.
    pub absent: usize,
    /// The drives, after the mount.
    pub drives: DriveSet,
}

impl CacheStage {
    /// Copies of what a shard has of some drives; the others are missing.
    pub(super) fn copy(&self, shard: usize, present: &[usize]) -> DriveSet {
        assert!(shard < self.plan.shards, "shard {shard} of {} is copied", self.plan.shards);
        let device = |drive: usize| if present.contains(&drive) { self.copy_of(drive) } else { None };
        let drives = (0..self.places()).map(device).collect();
        sets(drives, &self.bells).swap_remove(shard)
    }
}

impl CacheJudge {
    /// Mounts copies and reads every key of a shard; `None` when the mount is refused. What is found is held against the oracle.
    pub(super) fn read_copy(
        &mut self,
        shard: usize,
        (mut drives, host): (DriveSet, &Copied),
        what: &str,
    ) -> Result<Option<Read>, Failure> {
        self.pass_times();
        let wall = WallMillis(self.stage.clock.latest);
        let Ok(findings) = check(&mut drives, Instant(0)) else { return Ok(None) };
        let told = self.listed(shard, (&mut drives, &host.host(shard)), wall, what)?;
        let how = (wall, self.stage.plan.options());
        let Ok(mut volume) = mount_on(host.host(shard), drives, Instant(0), how) else { return Ok(None) };
        // Reading removes what has expired.
        let status = volume.status();
        let keys: Vec<usize> = (0..KEYS).filter(|key| self.stage.shard_of[*key] == shard).collect();
        let objects = answers(&mut volume, wall, &keys)?;
        for (key, object) in objects.iter().enumerate() {
            if let Some(object) = object {
                let judged = self.oracle.judge(key, object, wall.0);
                judged.map_err(|failure| Failure::new(format!("{what}: {}", failure.what)))?;
                if !told.contains(&key) {
                    return Err(Failure::new(format!(
                        "{what}: key {key} is found, and a list does not tell it"
                    )));
                }
            }
        }
        self.stage.tally.copies += 1;
        let (problems, absent) = (findings.problems, findings.absent.len());
        let has_removed = volume.status().counters.expired > 0;
        Ok(Some(Read { objects, status, has_removed, problems, absent, drives: volume.into_drives() }))
    }

    /// Keys that a list of media tells, which changes nothing. What is told may be there.
    fn listed(
        &self,
        shard: usize,
        (drives, host): (&mut DriveSet, &Host),
        wall: WallMillis,
        what: &str,
    ) -> Result<BTreeSet<usize>, Failure> {
        let mut all = Vec::new();
        let listed = list(drives, Instant(0), (wall, host), &mut |told| all.push(told));
        let mut keys = BTreeSet::new();
        for told in all.iter().filter(|_| listed.is_ok()) {
            let key = (0..KEYS).find(|key| name_of(*key) == (told.namespace, told.key.clone()));
            let is_right = |key: usize| {
                let is_own = self.stage.shard_of[key] == shard;
                is_own && self.oracle.may_exist(key, wall.0) && self.oracle.was_ever(key, told)
            };
            match key.filter(|key| is_right(*key)) {
                Some(key) => keys.insert(key),
                None => {
                    return Err(Failure::new(format!("{what}: a list tells {told:?}, which is not there")));
                }
            };
        }
        Ok(keys)
    }
}

/// What a shard answers to a read of keys, by key.
fn answers(
    volume: &mut CacheVolume,
    wall: WallMillis,
    keys: &[usize],
) -> Result<Vec<Option<Object>>, Failure> {
    for &key in keys {
        let (namespace, name) = name_of(key);
        let id = RequestId(u64::try_from(key).expect("few keys"));
        volume.submit(Instant(0), wall, Request { id, namespace, op: Op::Get { key: name } });
    }
    let mut objects = vec![None; KEYS];
    let (mut open, mut now) = (keys.len(), Instant(0));
    for _ in 0..TURNS_MAX {
        let mut replies = Vec::new();
        volume.turn(now, wall, &mut replies);
        now = now + Nanos::from_micros(1_000);
        for reply in replies {
            let key = usize::try_from(reply.id.0).expect("a key");
            assert!(open > 0, "a copy answers more than it was asked");
            assert!(keys.contains(&key), "a copy tells of key {key}, and was asked for {keys:?}");
            open -= 1;
            match reply.outcome {
                Outcome::Found(object) => objects[key] = object,
                outcome => return Err(Failure::new(format!("a read of a copy is answered by {outcome:?}"))),
            }
        }
        if open == 0 && volume.in_flight() == 0 {
            return Ok(objects);
        }
    }
    Err(Failure::new("reads of a copy are never answered"))
}
