//! Lines for an operator that nobody waits for: a bounded queue and a thread that writes.
//!
//! A reader that has gone away, a full disk or a pipe that nobody empties costs lines, which are counted, and nothing
//! else. What was lost is said with the next line that gets through.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Lines that wait to be written. More would be told long after they were true.
const LINES_MAX: usize = 1024;
/// Longest time that the end of the process waits for the last lines.
const LAST_LINES_MAX: Duration = Duration::from_secs(1);

/// Lines of all outputs that got lost.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Lines that were lost since the process began, because nobody took them.
pub fn lost_count() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Queue of lines to an output; clones share it.
#[derive(Clone)]
pub struct Lines {
    queue: SyncSender<Vec<u8>>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    count: Mutex<usize>,
    none: Condvar,
}

impl Lines {
    /// Starts the thread that writes to `output`.
    pub fn start(output: impl Write + Send + 'static) -> std::io::Result<Lines> {
        let (queue, lines) = sync_channel(LINES_MAX);
        let waiting = Arc::new(Waiting::default());
        let written = Arc::clone(&waiting);
        std::thread::Builder::new()
            .name("lines".into())
            .spawn(move || write_all(output, &lines, &written))?;
        Ok(Lines { queue, waiting })
    }

    /// Says something, or counts that it could not.
    pub fn say(&self, line: Vec<u8>) {
        *self.waiting.count.lock().expect("nobody panics while counting") += 1;
        match self.queue.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                LOST.fetch_add(1, Ordering::Relaxed);
                self.waiting.one_less();
            }
        }
    }

    /// Waits for what was said to be written, but not for long.
    pub fn finish(&self) {
        let count = self.waiting.count.lock().expect("nobody panics while counting");
        let waited = self.waiting.none.wait_timeout_while(count, LAST_LINES_MAX, |count| *count > 0);
        drop(waited);
    }
}

impl Waiting {
    fn one_less(&self) {
        let mut count = self.count.lock().expect("nobody panics while counting");
        *count -= 1;
        if *count == 0 {
            self.none.notify_all();
        }
    }
}

/// Receives the output of `env_logger`, which hands over one line at a time.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.say(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write_all(mut output: impl Write, lines: &Receiver<Vec<u8>>, waiting: &Waiting) {
    let mut told = 0;
    while let Ok(line) = lines.recv() {
        let lost = LOST.load(Ordering::Relaxed);
        let is_told =
            lost == told || writeln!(output, "{} log lines were lost: nobody took them", lost - told).is_ok();
        if is_told {
            told = lost;
        }
        if output.write_all(&line).and_then(|()| output.flush()).is_err() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        waiting.one_less();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_they_are_counted() {
        let (reading, writing) = UnixStream::pair().unwrap();
        let lines = Lines::start(writing).unwrap();
        let before = lost_count();
        // More than socket and queue hold. This ends, or the test does not.
        (0..4 * LINES_MAX).for_each(|_| lines.say(vec![b'a'; 1024].into_iter().chain(*b"\n").collect()));
        let lost = lost_count() - before;
        assert!(lost > 0, "nobody has read anything");
        let mut found = BufReader::new(reading).lines().map(Result::unwrap);
        let notice = found.find(|line| line.contains("were lost")).unwrap();
        assert!(notice.starts_with(|digit: char| digit.is_ascii_digit()), "{notice}");
    }

    #[test]
    fn a_reader_that_has_gone_costs_lines() {
        let (reading, writing) = UnixStream::pair().unwrap();
        drop(reading);
        let lines = Lines::start(writing).unwrap();
        let before = lost_count();
        lines.say(b"hello\n".to_vec());
        lines.finish();
        assert!(lost_count() > before);
    }
}
