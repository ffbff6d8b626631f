//! A record of what clients ask for: lines of a trace as Alibaba Cloud publishes them, which `zoneweave lab run --trace` replays.
//!
//! ```text
//!   loops of all cores ── note ──> queue of bounded length ──> a thread ──> file: 0,W,4096,8192,1250
//! ```
//! No loop waits for the record: when the queue is full, or the file cannot be written, the record ends, and the log says so. What it has
//! until then is whole lines in about the order of time; clients notice nothing. Reads, writes and flushes are noted as they begin. Alibaba's
//! traces have no flushes, and no writes that are durable when they are answered (FUA): `0,F,0,0,1250` and `0,U,4096,8192,1250` are what the lab
//! reads besides. Trims are not noted.

use base::time::Instant;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Requests that may wait to be written: 2 MiB of memory.
const QUEUE_LENGTH: usize = 1 << 16;
/// What is noted is in the file this much later, where little else is noted.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// Longest request of a line: traces know no longer ones.
const LINE_BYTES_MAX: u64 = 32 << 20;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Time at which it began.
    pub at: Instant,
    /// Kind of the request.
    pub kind: NoteKind,
    /// First byte.
    pub from: u64,
    /// Count of bytes; a flush has none.
    pub bytes: u64,
}

/// Kind of a request that is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write that is durable when it is answered.
    ForcedWrite,
    /// A flush.
    Flush,
}

/// Whoever notes requests. Clones write into one record.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: SyncSender<Note>,
    /// Set when nothing is noted any more.
    has_ended: Arc<AtomicBool>,
    path: Arc<PathBuf>,
}

impl Recorder {
    /// Notes a request, unless the record has ended. Never waits.
    pub fn note(&self, note: Note) {
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.queue.try_send(note)
            && !self.has_ended.swap(true, Ordering::Relaxed)
        {
            log::warn!(
                "--record {}: requests come faster than they can be written down, so the record ends here; clients notice nothing",
                self.path.display()
            );
        }
    }
}

/// A record and the thread that writes it.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    is_over: Arc<AtomicBool>,
    writer: JoinHandle<()>,
}

impl Recording {
    /// Begins a record in a new file.
    ///
    /// # Errors
    /// When there is such a file, or it cannot be made, or there is no thread.
    pub fn begin(path: &Path) -> io::Result<Recording> {
        let file = File::options().write(true).create_new(true).open(path)?;
        Recording::into(file, path, QUEUE_LENGTH)
    }

    fn into(to: impl Write + Send + 'static, path: &Path, length: usize) -> io::Result<Recording> {
        let (queue, notes) = sync_channel(length);
        let (has_ended, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let recorder = Recorder { queue, has_ended, path: Arc::new(path.to_owned()) };
        let (of_writer, ends) = (recorder.clone(), Arc::clone(&is_over));
        let write = move || {
            if let Err(error) = write_lines(&mut BufWriter::new(to), &notes, &ends)
                && !of_writer.has_ended.swap(true, Ordering::Relaxed)
            {
                log::warn!("--record {}: {error}: the record ends here", of_writer.path.display());
            }
        };
        let writer = std::thread::Builder::new().name("recorder".to_owned()).spawn(write)?;
        Ok(Recording { recorder, is_over, writer })
    }

    /// Whoever notes requests for it.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Ends the record: what was noted is in the file.
    pub fn finish(self) {
        self.recorder.has_ended.store(true, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Release);
        if self.writer.join().is_err() {
            log::warn!("--record {}: the record may lack its end", self.recorder.path.display());
        }
    }
}

/// Writes lines until the record is over and nothing is left of it.
fn write_lines(to: &mut impl Write, notes: &Receiver<Note>, is_over: &AtomicBool) -> io::Result<()> {
    loop {
        match notes.recv_timeout(FLUSH_EVERY) {
            Ok(note) => write_note(to, &note)?,
            Err(RecvTimeoutError::Timeout) if !is_over.load(Ordering::Acquire) => to.flush()?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return to.flush(),
        }
    }
}

/// Writes a request: one line, or as many as its length takes.
fn write_note(to: &mut impl Write, note: &Note) -> io::Result<()> {
    let Note { at, kind, mut from, mut bytes } = *note;
    let at_us = at.0 / 1_000;
    let what = match kind {
        NoteKind::Read => 'R',
        NoteKind::Write => 'W',
        NoteKind::ForcedWrite => 'U',
        NoteKind::Flush => return writeln!(to, "0,F,0,0,{at_us}"),
    };
    while bytes > 0 {
        let length = bytes.min(LINE_BYTES_MAX);
        writeln!(to, "0,{what},{from},{length},{at_us}")?;
        (from, bytes) = (from + length, bytes - length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A file whose writes wait while it is held.
    #[derive(Clone, Default)]
    struct Held(Arc<Mutex<Vec<u8>>>);

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics with it").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A file on a disk that is full.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn note(number: u64) -> Note {
        Note {
            at: Instant(number * 1_500),
            kind: if number.is_multiple_of(2) { NoteKind::Write } else { NoteKind::Read },
            from: number << 12,
            bytes: 8_192,
        }
    }

    fn lines(held: &Held) -> Vec<String> {
        let text = String::from_utf8(held.0.lock().expect("nobody panics with it").clone()).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn requests_become_lines_and_long_ones_several() {
        let held = Held::default();
        let recording = Recording::into(held.clone(), Path::new("r"), 8).expect("a thread");
        recording.recorder().note(note(1));
        recording.recorder().note(note(2));
        let long = Note { bytes: LINE_BYTES_MAX + 4_096, ..note(4) };
        recording.recorder().note(long);
        recording.recorder().note(Note { kind: NoteKind::Flush, from: 0, bytes: 0, ..note(5) });
        recording.recorder().note(Note { kind: NoteKind::ForcedWrite, ..note(6) });
        recording.finish();
        let said = [
            "0,R,4096,8192,1",
            "0,W,8192,8192,3",
            "0,W,16384,33554432,6",
            "0,W,33570816,4096,6",
            "0,F,0,0,7",
            "0,U,24576,8192,9",
        ];
        assert_eq!(lines(&held), said);
    }

    /// Nobody waits for a file that is slow: the record ends, with whole lines of what came first.
    #[test]
    fn a_record_that_cannot_keep_up_ends() {
        let held = Held::default();
        let recording = Recording::into(held.clone(), Path::new("r"), 4).expect("a thread");
        let recorder = recording.recorder();
        let lock = held.0.lock().expect("nobody panics with it");
        // The writer takes what its buffer holds before it has to write.
        for number in 0..100_000 {
            recorder.note(note(number));
        }
        assert!(recorder.has_ended.load(Ordering::Relaxed), "the queue is full");
        drop(lock);
        recorder.note(note(7));
        recording.finish();
        let all = lines(&held);
        assert!(all.len() < 100_000 && all.iter().all(|line| line.split(',').count() == 5), "{}", all.len());
    }

    #[test]
    fn a_file_that_cannot_be_written_ends_the_record_and_nothing_else() {
        let recording = Recording::into(Full, Path::new("r"), 8).expect("a thread");
        let recorder = recording.recorder();
        recorder.note(note(1));
        recording.finish();
        recorder.note(note(2));
        assert!(recorder.has_ended.load(Ordering::Relaxed));
    }

    #[test]
    fn a_record_begins_in_a_new_file_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.csv");
        Recording::begin(&path).expect("a new file").finish();
        let refused = Recording::begin(&path).expect_err("it exists");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    }
}
