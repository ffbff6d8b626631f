//! Appends to some zones of one drive in a closed loop, set after set of zones, without a reset in between.

use crate::precise::precise_u64;
use crate::workload::Target;
use base::time::Instant;
use drive::timing::{Access, Done};

/// Bytes of each append; a page of each of a ZN540's channels, and few enough for any drive's limit.
const APPEND_BYTES: u64 = 128 << 10;
/// Appends in flight to each zone: the drive is never waiting for the host.
const DEPTH: u64 = 4;

/// A drive whose zones are open, and how late it is.
pub(super) struct Writers<T: Target> {
    target: T,
    now: Instant,
    done: Vec<Done>,
}

/// Writer of a zone.
#[derive(Clone, Copy)]
struct Writer {
    zone: u32,
    begun: u64,
    done: u64,
}

impl<T: Target> Writers<T> {
    /// Opens the first zones of the drive, in order: that is when it decides where they lie.
    pub(super) fn new(target: T, zones: u32) -> Writers<T> {
        let mut writers = Writers { target, now: Instant(0), done: Vec::new() };
        for zone in 0..zones {
            writers.target.submit(writers.now, u64::from(zone), Access::Open { zone });
            writers.drain();
        }
        writers
    }

    pub(super) fn into_target(self) -> T {
        self.target
    }

    /// Bytes per second of all these zones together, while each is given so many bytes.
    ///
    /// The buffer of the drive is full before anything is counted: counting begins when a quarter of all bytes is
    /// written, and ends with the first zone that has all of its own.
    ///
    /// # Panics
    /// When the bytes are fewer than eight appends.
    pub(super) fn rate(&mut self, zones: &[u32], bytes: u64) -> f64 {
        let each = bytes / APPEND_BYTES * APPEND_BYTES;
        assert!(each >= 2 * DEPTH * APPEND_BYTES, "{bytes} bytes say nothing about a rate");
        let mut writers: Vec<Writer> =
            zones.iter().map(|zone| Writer { zone: *zone, begun: 0, done: 0 }).collect();
        for _ in 0..DEPTH {
            (0..writers.len()).for_each(|at| self.append(&mut writers, at));
        }
        let total = |writers: &[Writer]| writers.iter().map(|writer| writer.done).sum::<u64>();
        let warm = each * writers.len() as u64 / 4;
        let mut counted_from = None;
        let end = loop {
            let Done { tag, at } = self.next();
            let place = usize::try_from(tag).expect("a tag of ours");
            writers[place].done += APPEND_BYTES;
            if counted_from.is_none() && total(&writers) >= warm {
                counted_from = Some((at, total(&writers)));
            }
            if writers[place].done >= each {
                break at;
            }
            if writers[place].begun < each {
                self.append(&mut writers, place);
            }
        };
        let (from, before) = counted_from.expect("one zone's bytes are more than a quarter of two's");
        let counted = total(&writers) - before;
        self.drain();
        precise_u64(counted) / precise_u64(end.0 - from.0) * 1e9
    }

    fn append(&mut self, writers: &mut [Writer], at: usize) {
        let writer = &mut writers[at];
        writer.begun += APPEND_BYTES;
        self.target.submit(self.now, at as u64, Access::Append { zone: writer.zone, bytes: APPEND_BYTES });
    }

    /// The next completion.
    fn next(&mut self) -> Done {
        while self.done.is_empty() {
            self.step();
        }
        self.done.remove(0)
    }

    /// Waits until the drive has nothing to do any more.
    fn drain(&mut self) {
        while self.target.wait(None).is_some() {
            self.step();
        }
        self.done.clear();
    }

    fn step(&mut self) {
        self.now = self.target.wait(None).expect("a drive at work").max(self.now);
        self.target.advance(self.now, &mut self.done);
    }
}
