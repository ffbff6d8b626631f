//! `zoneweave cache status --watch`: a line for each interval, as vmstat and `zpool iostat` have it. It ends with the server, or when
//! it is interrupted.

use super::look;
use crate::cache::directory::CacheDirectory;
use crate::exit::Exit;
use anyhow::Result;
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

/// Lines between two headings.
const LINES: usize = 20;

/// Counts of which the changes are shown.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hits_memory: u64,
    hits_flash: u64,
    misses: u64,
    stores: u64,
    removes: u64,
    admitted: u64,
    written: u64,
    evicted: u64,
}

impl Counts {
    fn of(report: &Value) -> Counts {
        let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        Counts {
            hits_memory: number("/hits/memory") + number("/hits/buffers"),
            hits_flash: number("/hits/flash"),
            misses: number("/misses"),
            stores: number("/stores"),
            removes: number("/removes"),
            admitted: number("/admission/bytes_admitted"),
            written: number("/bytes_written"),
            evicted: number("/zones/evicted"),
        }
    }
}

/// Rates over an interval, per second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    gets: f64,
    /// Percent of the reads, none where nobody read.
    hit: Option<f64>,
    hit_memory: Option<f64>,
    sets: f64,
    removes: f64,
    /// MiB.
    admitted: f64,
    written: f64,
    zones_evicted: f64,
}

impl Rates {
    #[allow(clippy::cast_precision_loss, reason = "rates for people")]
    fn between(before: Counts, now: Counts, seconds: f64) -> Rates {
        // A server that began anew counts from zero.
        let since = |before: u64, now: u64| now.checked_sub(before).unwrap_or(now) as f64;
        let memory = since(before.hits_memory, now.hits_memory);
        let flash = since(before.hits_flash, now.hits_flash);
        let reads = memory + flash + since(before.misses, now.misses);
        let share = |part: f64| (reads > 0.0).then(|| part * 100.0 / reads);
        let mib = |bytes: f64| bytes / f64::from(1 << 20) / seconds;
        Rates {
            gets: reads / seconds,
            hit: share(memory + flash),
            hit_memory: share(memory),
            sets: since(before.stores, now.stores) / seconds,
            removes: since(before.removes, now.removes) / seconds,
            admitted: mib(since(before.admitted, now.admitted)),
            written: mib(since(before.written, now.written)),
            zones_evicted: since(before.evicted, now.evicted) / seconds,
        }
    }

    fn json(&self) -> Value {
        json!({
            "gets": self.gets, "hit_percent": self.hit, "hit_memory_percent": self.hit_memory,
            "sets": self.sets, "removes": self.removes,
            "admitted_mib": self.admitted, "written_mib": self.written, "zones_evicted": self.zones_evicted,
        })
    }

    fn line(&self) -> String {
        let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.1}"));
        format!(
            "{:>10.0} {:>6} {:>6} {:>10.0} {:>8.0} {:>11.1} {:>11.1} {:>8.2}",
            self.gets,
            share(self.hit),
            share(self.hit_memory),
            self.sets,
            self.removes,
            self.admitted,
            self.written,
            self.zones_evicted
        )
    }
}

const HEADING: &str =
    "    gets/s   hit%   mem%     sets/s   dels/s admit-MiB/s write-MiB/s  evict/s    objects";

/// Prints lines until the server ends.
pub fn run(directory: &CacheDirectory, every: u64, is_json: bool) -> Result<Exit> {
    let every = Duration::from_secs(every);
    let (mut report, _) = look(directory)?;
    if report["served"] == false {
        let dir = directory.path.display();
        return Err(
            Exit::Absent.error(format!("{dir}: nobody serves the cache; `zoneweave cache serve {dir}` does"))
        );
    }
    let (mut before, mut at) = (Counts::of(&report), Instant::now());
    for line in 0.. {
        std::thread::sleep(every);
        (report, _) = look(directory)?;
        if report["served"] == false {
            break;
        }
        let (counts, now) = (Counts::of(&report), Instant::now());
        let rates = Rates::between(before, counts, now.duration_since(at).as_secs_f64());
        (before, at) = (counts, now);
        let mut text = String::new();
        if is_json {
            let mut told = rates.json();
            told["objects"] = report["objects"].clone();
            text += &format!("{told}\n");
        } else {
            if line % LINES == 0 {
                text += &format!("{HEADING}\n");
            }
            text += &format!("{} {:>10}\n", rates.line(), report["objects"]);
        }
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever read it has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    Ok(Exit::Well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_interval_alone() {
        let before = Counts { hits_memory: 10, hits_flash: 10, misses: 5, stores: 7, ..Counts::default() };
        let now =
            Counts { hits_memory: 40, hits_flash: 20, misses: 15, stores: 17, written: 4 << 20, ..before };
        let rates = Rates::between(before, now, 2.0);
        assert_eq!((rates.gets, rates.sets, rates.written), (25.0, 5.0, 2.0));
        assert_eq!((rates.hit, rates.hit_memory), (Some(80.0), Some(60.0)));
        let anew = Rates::between(now, Counts { stores: 4, ..Counts::default() }, 1.0);
        assert_eq!((anew.gets, anew.hit, anew.sets), (0.0, None, 4.0), "a server that began anew");
    }
}
