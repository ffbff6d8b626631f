//! `--forget-after`: a file that says when the cache was served last, and what it makes the cache forget.

use super::directory::CacheDirectory;
use super::host::boot;
use anyhow::{Context, Result};
use base::time::{Instant, Nanos};
use cache::CacheVolume;
use cache::attendance::{Absence, Attendance, Place};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// Time after which a cache that forgets is looked at again.
const FORGETS_FOR: Nanos = Nanos(5_000_000);

/// Attendance as a shard's thread has it: makes the shard forget.
pub struct Watch(Attendance);

impl Watch {
    /// The shard is served now. What has to be forgotten is, before the next client is answered.
    pub fn see(&mut self, volume: &mut CacheVolume) {
        if self.0.see(uptime()).is_some() {
            volume.forget_all();
        }
    }
}

/// See the module.
pub struct Attended {
    attendance: Attendance,
    limit: Nanos,
    file: File,
    /// Time at which the next record is due, by the clock of the server.
    due: Instant,
    /// The cache held something when it was served last.
    has_held: bool,
    /// Why everything was forgotten last.
    absence: Option<Absence>,
    is_writing: bool,
}

impl Attended {
    /// Attendance of a cache that is about to be served, and has held something before or not.
    ///
    /// # Errors
    /// When there can be no file, or the machine does not say since when it runs.
    pub fn open(directory: &CacheDirectory, limit: Nanos, has_held: bool) -> Result<Attended> {
        let path = directory.path.join("attendance");
        let named = || format!("--forget-after: {}", path.display());
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(named)?;
        let mut record = Vec::new();
        (&file).read_to_end(&mut record).with_context(named)?;
        let place = Place { cache: *directory.file.uuid.as_bytes(), boot: boot()? };
        let attendance = Attendance::new(place, limit, &record);
        Ok(Attended { attendance, limit, file, due: Instant(0), has_held, absence: None, is_writing: true })
    }

    /// Watch for a shard, which makes it forget. It has to see the shard before this sees the cache.
    pub fn watch(&self) -> Watch {
        Watch(self.attendance.clone())
    }

    /// The cache is served now, as all shards know; `now` is the time of the server. A record is made when none of them has anything to
    /// forget.
    pub fn see(&mut self, now: Instant, has_forgotten: bool) {
        if let Some(absence) = self.attendance.see(uptime()) {
            // There is nothing to say of a cache that has never held anything.
            if self.has_held {
                let limit = self.limit.0 / 1_000_000;
                log::warn!("everything that was stored is forgotten (--forget-after {limit}ms): {absence}");
                self.absence = Some(absence);
            }
        }
        self.has_held = true;
        if has_forgotten {
            self.keep(false);
        }
        self.due = now + if has_forgotten { self.attendance.interval() } else { FORGETS_FOR };
    }

    /// The cache is not served from now on; it has nothing to forget, or it has.
    pub fn leave(&mut self, has_forgotten: bool) {
        let absence = self.attendance.see(uptime());
        if absence.is_none() && has_forgotten {
            self.keep(true);
        }
    }

    /// Makes a record, if one is due. What it does not say makes the next life begin empty.
    fn keep(&mut self, ends: bool) {
        let Some(record) = self.attendance.record(ends) else { return };
        let kept = self.file.write_all_at(&record, 0);
        match &kept {
            Err(error) if self.is_writing => {
                log::warn!(
                    "the file `attendance` cannot be written, so the next start begins empty: {error}"
                );
            }
            _ => {}
        }
        self.is_writing = kept.is_ok();
    }

    /// Time at which the cache has to be seen again.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Report for `cache status`.
    pub fn report(&self) -> Value {
        json!({
            "after_ms": self.limit.0 / 1_000_000,
            "absence": self.absence.map(|absence| absence.to_string()),
        })
    }
}

/// Time since the start of the machine, suspended or not.
fn uptime() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
