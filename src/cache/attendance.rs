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

/// See the module.
pub struct Attended {
    attendance: Attendance,
    limit: Nanos,
    file: File,
    /// When the next record is due, by the clock of the server.
    due: Instant,
    /// Why everything was forgotten last.
    absence: Option<Absence>,
    is_writing: bool,
}

impl Attended {
    /// Of a cache that is about to be served.
    ///
    /// # Errors
    /// When there can be no file, or the machine does not say since when it runs.
    pub fn open(directory: &CacheDirectory, limit: Nanos) -> Result<Attended> {
        let path = directory.path.join("attendance");
        let named = || format!("--forget-after: {}", path.display());
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(named)?;
        let mut record = Vec::new();
        (&file).read_to_end(&mut record).with_context(named)?;
        let place = Place { cache: *directory.file.uuid.as_bytes(), boot: boot()? };
        let attendance = Attendance::new(place, limit, &record);
        Ok(Attended { attendance, limit, file, due: Instant(0), absence: None, is_writing: true })
    }

    /// The cache is served now; `now` is the time of the server. What has to be forgotten is, before the next client is answered.
    pub fn see(&mut self, now: Instant, volume: &mut CacheVolume) {
        if let Some(absence) = self.attendance.see(uptime()) {
            // There is nothing to say of a cache that has never held anything.
            if volume.status().recovery.records_found > 0 || self.due > Instant(0) {
                let limit = self.limit.0 / 1_000_000;
                log::warn!("everything that was stored is forgotten (--forget-after {limit}ms): {absence}");
                self.absence = Some(absence);
            }
            volume.forget_all();
        }
        if volume.has_forgotten() {
            self.keep(false);
        }
        self.due = now + self.attendance.interval();
    }

    /// The cache is not served from now on.
    pub fn leave(&mut self, volume: &CacheVolume) {
        let absence = self.attendance.see(uptime());
        if absence.is_none() && volume.has_forgotten() {
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

    /// When somebody has to see the cache again.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// What `cache status` says of it.
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
