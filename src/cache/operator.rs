//! What looks after a served cache: answers of `status`, drives that come and go, errands, attendance.

use super::attendance::Attended;
use super::bays::{self, BayReport, Said};
use super::directory::CacheDirectory;
use super::errands::Wish;
use super::memory;
use super::serve::wall;
use super::shards::{Shared, Tended};
use super::status::{Seen, json};
use super::{dump, flush};
use crate::drive_clocks::DriveClocks;
use crate::exit::{self, Exit};
use crate::hosting::Hosting;
use crate::replace::Attempt;
use anyhow::Result;
use base::time::{Instant, Nanos};
use cache::Status;
use cache::request::{Cache, Namespace, Request};
use cache::status::{DriveStatus, Recovery};
use cache::volumes::Volumes;
use drive::Bell;
use drive::slices::sliced;
use serde_json::Value;
use server::StopHandle;
use server::cache_loop;
use server::resp::front::CacheFacts;
use std::collections::BTreeMap;
use zone::device::Geometry;

/// Message where memory that held entries is gone.
const LOST: &str = "everything that was stored is forgotten: the machine was started since (--invalidate process), or the file \
                    `invalidations` is gone";

/// See the module.
pub struct Operator {
    /// The shards, with the bells of those who own them.
    pub shards: Vec<Shared>,
    pub bells: Vec<Bell>,
    /// Geometries of the drives, as they are before they are cut.
    pub wholes: Vec<Option<Geometry>>,
    pub memory_bytes_max: u64,
    pub cores: usize,
    pub names: BTreeMap<Namespace, String>,
    pub directory: CacheDirectory,
    pub hosting: Hosting,
    pub attended: Option<Attended>,
    pub clocks: DriveClocks,
    /// Time that it took to find what was there.
    pub recovered_in: Nanos,
    pub stop: StopHandle,
}

impl Operator {
    /// The cache was found, and is served from now on: it is forgotten after so much time without a server, if that is asked for.
    ///
    /// # Errors
    /// When nothing tells when it was served last, nor can.
    pub fn begin(&mut self, forget_after: Option<Nanos>, now: Instant) -> Result<()> {
        let found = self.status();
        let Recovery { records_found, zones_dropped, is_emptied, .. } = found.recovery;
        log::info!(
            "recovered {} of {records_found} records; {zones_dropped} zones were dropped",
            found.objects
        );
        if is_emptied {
            log::warn!("{LOST}");
        }
        if let Some(limit) = forget_after {
            let attended = Attended::open(&self.directory, limit, records_found > 0)?;
            self.shards.iter().for_each(|shard| shard.lock().watch = Some(attended.watch()));
            self.attended = Some(attended);
        }
        self.hosting.listen();
        self.clocks.start();
        if let Some(profile) = self.hosting.profile() {
            log::info!("the drives take the time of {} ({})", profile.name(), profile.description());
        }
        cache_loop::Operator::tend(self, now);
        Ok(())
    }

    /// Status of all shards together.
    pub fn status(&self) -> Status {
        let mut all = self.shards.iter().map(|shard| shard.lock().volume.status());
        let first = all.next().expect("a cache has a shard");
        all.fold(first, |mut sum, status| {
            sum += status;
            sum
        })
    }

    fn drives_status(&self) -> Vec<DriveStatus> {
        let mut all = self.shards.iter().map(|shard| shard.lock().volume.drives_status());
        let mut sum = all.next().expect("a cache has a shard");
        for drives in all {
            sum.iter_mut().zip(drives).for_each(|(sum, drive)| *sum += drive);
        }
        sum
    }

    /// The cache is not served from now on.
    pub fn leave(&mut self) {
        if let Some(attended) = &mut self.attended {
            let has_forgotten = self.shards.iter().all(|shard| shard.lock().volume.has_forgotten());
            attended.leave(has_forgotten);
        }
    }

    /// Begins what takes several turns, or tells how it stands; `None` when the line is about something else.
    fn run_errand(&mut self, now: Instant, line: &str) -> Option<Attempt<Value>> {
        let (word, words) = line.split_once(' ')?;
        let wish = match word {
            "flush" => flush::wish(words)?,
            "keys" => dump::wish(words)?,
            _ => return None,
        };
        let meant = match wish.shard {
            None => &self.shards[..],
            Some(shard) => std::slice::from_ref(self.shards.get(shard)?),
        };
        let mut guards = Shared::lock_all(meant);
        if guards.iter().all(|tended| tended.errands.is_done(line)) {
            let said: Vec<Value> =
                guards.iter_mut().filter_map(|tended| tended.errands.take_done(line)).collect();
            return Some(Attempt::Done((wish.sum)(said, self.shards.len())));
        }
        for tended in &mut guards {
            begin(tended, now, line, &wish);
        }
        drop(guards);
        self.bells.iter().for_each(Bell::ring);
        Some(Attempt::Busy)
    }

    /// Answers a question about a drive.
    fn act_on_drive(&mut self, line: &str) -> Result<Attempt<BayReport>> {
        let mut guards = Shared::lock_all(&self.shards);
        let parts = guards.iter_mut().map(|tended| &mut tended.volume).collect();
        let cut = Box::new(|drive| sliced(drive, &self.bells));
        let mut volumes = Volumes::new(parts, cut, &mut self.wholes);
        let acted = act(line, &mut self.directory, &mut volumes, &self.hosting);
        drop(volumes);
        drop(guards);
        self.bells.iter().for_each(Bell::ring);
        acted
    }
}

/// Begins an errand in a shard, unless it is under way there.
fn begin(tended: &mut Tended, now: Instant, line: &str, wish: &Wish) {
    if tended.errands.is_known(line) {
        return;
    }
    if let Some(id) = tended.errands.begin(line, wish.say) {
        let namespace = Namespace(wish.namespace);
        tended.volume.submit(now, wall(), Request { id, namespace, op: (wish.op)() });
    }
}

fn act(
    line: &str,
    directory: &mut CacheDirectory,
    volumes: &mut Volumes<'_>,
    hosting: &Hosting,
) -> Result<Attempt<BayReport>> {
    let (word, words) = line.split_once(' ').unwrap_or((line, ""));
    if word == "add" {
        return bays::add(directory, volumes, &Said::parse(words)?, Some(hosting));
    }
    let (place, words) = words.split_once(' ').unwrap_or((words, ""));
    match place.parse().ok().map(|place| (word, place)) {
        Some(("fail", place)) => bays::take_out(directory, volumes, place),
        Some(("remove", place)) => bays::remove(directory, volumes, place),
        Some(("replace", place)) => bays::put_in(directory, volumes, (place, &Said::parse(words)?), hosting),
        _ => Err(Exit::Usage.error(format!("`{line}` is no question that the server of a cache answers"))),
    }
}

impl cache_loop::Operator for Operator {
    fn control(&mut self, now: Instant, line: &str) -> String {
        if let Some(attempt) = self.run_errand(now, line) {
            return serde_json::json!(attempt).to_string();
        }
        match line {
            "status" => {
                let (status, drives) = (self.status(), self.drives_status());
                let Operator { directory, names, .. } = self;
                let mut report =
                    json(&Seen { status, drives, directory, names, recovered_in: self.recovered_in });
                report["memory"]["max"] = memory::of_engine(self.memory_bytes_max).into();
                report["cores"] = self.cores.into();
                report["shards"] = self.shards.len().into();
                report["forget"] = self.attended.as_ref().map(Attended::report).into();
                report.to_string()
            }
            "stop" => {
                log::info!("stopping, as asked");
                self.stop.request();
                serde_json::json!({ "pid": std::process::id() }).to_string()
            }
            _ => match self.act_on_drive(line) {
                Ok(attempt) => serde_json::json!(attempt).to_string(),
                Err(error) => {
                    serde_json::json!({ "error": exit::in_words(&error), "exit": Exit::of(&error).number() })
                        .to_string()
                }
            },
        }
    }

    fn facts(&self) -> CacheFacts {
        facts(&self.status(), self.memory_bytes_max, &self.names)
    }

    fn objects(&self, namespace: Namespace) -> u64 {
        self.shards.iter().map(|shard| shard.lock().volume.objects(namespace)).sum()
    }

    fn tend(&mut self, now: Instant) {
        self.clocks.check(now);
        if let Some(attended) = self.attended.as_mut().filter(|attended| attended.due() <= now) {
            let mut guards = Shared::lock_all(&self.shards);
            guards.iter_mut().for_each(|tended| tended.attend());
            attended.see(now, guards.iter().all(|tended| tended.volume.has_forgotten()));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.attended.as_ref().map(Attended::due)
    }
}

/// Facts about a cache for INFO.
fn facts(status: &Status, memory_bytes_max: u64, names: &BTreeMap<Namespace, String>) -> CacheFacts {
    let counters = status.counters;
    let ratio = status.write_amplification().map_or_else(|| "none".to_owned(), |ratio| format!("{ratio:.3}"));
    let lines = [
        ("index_bytes", status.index_bytes.to_string()),
        ("buffer_bytes", status.buffer_bytes.to_string()),
        ("copies_bytes", status.copies_bytes.to_string()),
        ("copies", status.copies.to_string()),
        ("hits_buffer", counters.hits_buffer.to_string()),
        ("hits_memory", counters.hits_memory.to_string()),
        ("hits_flash", counters.hits_flash.to_string()),
        ("held", status.admission.held.to_string()),
        ("held_bytes", status.admission.held_bytes.to_string()),
        ("forgotten", counters.forgotten.to_string()),
        ("bytes_admitted", counters.bytes_admitted.to_string()),
        ("bytes_forgotten", counters.bytes_forgotten.to_string()),
        ("zones_free", status.zones.free.to_string()),
        ("entries_carried", counters.entries_carried.to_string()),
        ("zones_expired", counters.zones_expired.to_string()),
        ("expired_share", format!("{:.3}", status.expired_share())),
        ("zones_spared", counters.zones_spared.to_string()),
        ("reinserted", counters.reinserted.to_string()),
        ("bytes_reinserted", counters.bytes_reinserted.to_string()),
        ("recalled", counters.recalled.to_string()),
        ("zones_evicted", counters.zones_evicted.to_string()),
        ("write_amplification", ratio),
        ("drives", status.drives.to_string()),
    ];
    let namespaces = (0..).map(Namespace).zip(&status.namespaces);
    let used = namespaces.filter(|(_, own)| own.share.is_some() || own.counters.stores > 0);
    let namespaces = used.map(|(namespace, own)| {
        let (counters, name) = (own.counters, names.get(&namespace));
        let name = name.map_or_else(String::new, |name| format!("name={name},"));
        let said = format!(
            "{name}hits={},misses={},stores={},zones={},zones_max={},zones_evicted={},copies_bytes={}",
            counters.hits,
            counters.misses,
            counters.stores,
            own.zones,
            own.zones_max,
            counters.zones_evicted,
            own.copies_bytes
        );
        (format!("namespace_{}", namespace.0), said)
    });
    CacheFacts {
        memory_bytes: status.memory_bytes(),
        memory_bytes_max,
        // Evicted are zones; nobody counts the objects in them.
        objects_evicted: 0,
        objects_expired: counters.expired,
        lines: lines.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(namespaces).collect(),
    }
}
