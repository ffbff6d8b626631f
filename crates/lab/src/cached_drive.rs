//! A drive with a volatile cache whose flush takes as long as what it holds takes to be written: a file on a disk, where the
//! page cache takes writes at once and `fdatasync` does not.
//!
//! One flush runs at a time. Those that come meanwhile wait for the next, which serves them all.

use base::time::{Instant, Nanos};
use base::units::BLOCK_BYTES_U64;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};

/// Bytes of the cache that reach the media in a second.
pub const FLUSHED_BYTES_PER_SECOND: u64 = 200 << 20;
/// Time of a flush of next to nothing.
const FLUSH: Nanos = Nanos::from_micros(1_000);

/// Such a drive.
pub struct CachedDrive {
    drive: Box<dyn ZonedDevice>,
    geometry: Geometry,
    cached_bytes: u64,
    /// Flushes that wait for the next.
    waiting: Vec<Token>,
    /// Flushes that are served by the one that runs, and when it ends.
    flushing: Vec<Token>,
    flushed_at: Option<Instant>,
}

impl CachedDrive {
    /// Puts a cache in front of a drive.
    #[must_use]
    pub fn new(drive: Box<dyn ZonedDevice>) -> CachedDrive {
        let geometry = Geometry { volatile_cache: true, ..*drive.geometry() };
        CachedDrive {
            drive,
            geometry,
            cached_bytes: 0,
            waiting: Vec::new(),
            flushing: Vec::new(),
            flushed_at: None,
        }
    }

    fn start_flush(&mut self, now: Instant) {
        if self.flushed_at.is_some() || self.waiting.is_empty() {
            return;
        }
        std::mem::swap(&mut self.waiting, &mut self.flushing);
        let nanos = self.cached_bytes * 1_000_000_000 / FLUSHED_BYTES_PER_SECOND;
        self.cached_bytes = 0;
        self.flushed_at = Some(now + FLUSH + Nanos(nanos));
    }
}

impl ZonedDevice for CachedDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        match &command.op {
            Op::Flush => {
                self.waiting.push(command.token);
                return self.start_flush(now);
            }
            Op::Write { frames, .. } | Op::Append { frames } => {
                self.cached_bytes += frames.len() as u64 * BLOCK_BYTES_U64;
            }
            Op::Read { .. }
            | Op::Reset
            | Op::Finish
            | Op::Open
            | Op::OpenWithArea
            | Op::Commit { .. }
            | Op::Close
            | Op::Report { .. }
            | Op::FindTurned { .. }
            | Op::SelfTest { .. } => {}
        }
        self.drive.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.drive.poll(now, completions);
        if self.flushed_at.is_some_and(|at| at <= now) {
            self.flushed_at = None;
            completions.extend(self.flushing.drain(..).map(flushed));
            self.start_flush(now);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        [self.drive.next_event(), self.flushed_at].into_iter().flatten().min()
    }
}

fn flushed(token: Token) -> Completion {
    Completion {
        token,
        status: Status::Success,
        zone: base::units::ZoneIndex(0),
        offset: 0,
        frames: Vec::new(),
        report: Vec::new(),
    }
}
