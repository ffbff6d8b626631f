//! Progress: how fast something long has been of late, how long it will take, and how that is shown.

use base::time::{Instant, Nanos};
use base::units::human_bytes;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::IsTerminal;

/// Time over which speed is measured, as md does.
const WINDOW: Nanos = Nanos(30_000_000_000);
/// Between two marks.
const MARK_EVERY: Nanos = Nanos(500_000_000);

/// Speed in bytes over the last half minute.
#[derive(Debug, Default)]
pub struct Speed {
    marks: VecDeque<(Instant, u64)>,
}

impl Speed {
    /// So many bytes are done now; `None` when nothing is under way.
    pub fn note(&mut self, now: Instant, bytes: Option<u64>) {
        let Some(bytes) = bytes else { return self.marks.clear() };
        let is_due = |(at, _): &(Instant, u64)| now.since(*at) >= MARK_EVERY;
        if self.marks.back().is_none_or(is_due) {
            self.marks.push_back((now, bytes));
        }
        while self.marks.len() > 2 && now.since(self.marks[1].0) >= WINDOW {
            self.marks.pop_front();
        }
    }

    /// Bytes per second since the oldest mark; `None` before there is anything to tell.
    pub fn bytes_per_second(&self, now: Instant, bytes: u64) -> Option<u64> {
        let (at, before) = self.marks.front()?;
        let nanos = u128::from(now.since(*at).0);
        let done = u128::from(bytes.saturating_sub(*before));
        (nanos > 0).then(|| u64::try_from(done * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
    }
}

/// Progress of a task.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Progress {
    /// Done, of a hundred.
    pub percent: f64,
    /// Done.
    pub bytes_done: u64,
    /// To be done in all.
    pub bytes_total: u64,
    /// Over the last half minute; null before there is anything to tell.
    pub bytes_per_second: Option<u64>,
    /// At that speed; null when it stands still.
    pub seconds_left: Option<u64>,
}

impl Progress {
    /// Puts a count and a speed together.
    #[allow(clippy::cast_precision_loss, reason = "a share for display")]
    pub fn new(bytes_done: u64, bytes_total: u64, bytes_per_second: Option<u64>) -> Progress {
        let percent = 100.0 * bytes_done as f64 / bytes_total.max(1) as f64;
        let left = bytes_total.saturating_sub(bytes_done);
        let seconds_left = bytes_per_second.filter(|speed| *speed > 0).map(|speed| left.div_ceil(speed));
        let percent = (percent * 10.0).round() / 10.0;
        Progress { percent, bytes_done, bytes_total, bytes_per_second, seconds_left }
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (done, total) = (human_bytes(self.bytes_done), human_bytes(self.bytes_total));
        write!(f, "{:.1} % ({done} of {total})", self.percent)?;
        if let Some(speed) = self.bytes_per_second {
            write!(f, ", {} MiB/s", speed >> 20)?;
        }
        match self.seconds_left {
            Some(seconds) => write!(f, ", {}:{:02} min left", seconds / 60, seconds % 60),
            None => Ok(()),
        }
    }
}

/// A bar on a terminal, a line now and then in a log.
pub struct Display {
    bar: Option<ProgressBar>,
    what: String,
    told_at: Option<std::time::Instant>,
}

/// Between two lines of a log.
const TELL_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

impl Display {
    /// Shows nothing yet.
    pub fn new(what: &str, is_quiet: bool) -> Display {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a template that works");
            ProgressBar::new(1_000).with_style(style).with_prefix(what.to_owned())
        });
        let told_at = is_quiet.then(std::time::Instant::now);
        Display { bar: bar.filter(|_| !is_quiet), what: what.to_owned(), told_at }
    }

    /// Shows how far it is.
    pub fn show(&mut self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            let permille = u128::from(progress.bytes_done) * 1_000 / u128::from(progress.bytes_total.max(1));
            bar.set_position(u64::try_from(permille).unwrap_or(1_000));
            bar.set_message(progress.to_string());
        } else if self.told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            self.told_at = Some(std::time::Instant::now());
            eprintln!("{}: {progress}", self.what);
        }
    }

    /// Ends the display.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_that_of_the_last_half_minute() {
        let mut speed = Speed::default();
        let second = |count: u64| Instant(count * 1_000_000_000);
        assert_eq!(speed.bytes_per_second(second(0), 0), None);
        for at in 0..100 {
            let bytes = if at < 50 { at * 10 } else { 500 + (at - 50) * 1_000 };
            speed.note(second(at), Some(bytes));
        }
        assert_eq!(speed.bytes_per_second(second(99), 500 + 49 * 1_000), Some(1_000));
        speed.note(second(100), None);
        assert_eq!(speed.bytes_per_second(second(100), 0), None);
    }

    #[test]
    fn progress_tells_how_long_it_takes() {
        let progress = Progress::new(256 << 20, 1 << 30, Some(4 << 20));
        assert_eq!(progress.to_string(), "25.0 % (256 MiB of 1 GiB), 4 MiB/s, 3:12 min left");
        assert_eq!(Progress::new(0, 0, None).to_string(), "0.0 % (0 B of 0 B)");
        assert_eq!(Progress::new(0, 10, Some(0)).seconds_left, None);
    }
}
