//! Steps of a known number: how many are done, and how that is shown.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two lines of a log.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Lines of a log, now and then.
pub struct LogLines {
    every: Duration,
    next: Mutex<Instant>,
}

impl LogLines {
    /// The first after so long; none on a terminal.
    pub fn unless_terminal(every: Duration) -> Option<LogLines> {
        (!std::io::stderr().is_terminal())
            .then(|| LogLines { every, next: Mutex::new(Instant::now() + every) })
    }

    /// Says it if a line is due. From any thread.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        let mut next = self.next.lock().expect("nobody panics here");
        if Instant::now() >= *next {
            eprintln!("{}", line());
            *next = Instant::now() + self.every;
        }
    }
}

/// A bar on a terminal, a line now and then in a log.
pub struct Steps {
    what: &'static str,
    bar: ProgressBar,
    begun: Instant,
    /// Lines about progress; none on a terminal.
    lines: Option<LogLines>,
}

impl Steps {
    /// Shows nothing yet; `what` is what is counted.
    pub fn new(what: &'static str) -> Steps {
        let style =
            ProgressStyle::with_template("{wide_bar} {msg} (ETA {eta})").expect("a template that works");
        let lines = LogLines::unless_terminal(LINE_EVERY);
        Steps { what, bar: ProgressBar::new(0).with_style(style), begun: Instant::now(), lines }
    }

    /// So many of so many are done, of which this was the last. From any thread.
    pub fn show(&self, done: usize, total: usize, last: &str) {
        self.show_work((done, total), (done as u64, total as u64), last);
    }

    /// The same, where steps take differently long: so much of all work is done.
    pub fn show_work(&self, (done, total): (usize, usize), work: (u64, u64), last: &str) {
        let Some(lines) = &self.lines else {
            self.bar.set_length(work.1);
            self.bar.set_position(work.0);
            return self.bar.set_message(format!("{done}/{total} {} {last}", self.what));
        };
        lines.tell(|| line(&format!("{done} of {total} {}", self.what), work, self.begun.elapsed(), last));
    }

    /// Ends the display.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn line(steps: &str, (done, total): (u64, u64), took: Duration, last: &str) -> String {
    let left = total.saturating_sub(done);
    let seconds = took.as_secs() * left / done.max(1);
    let last = if last.is_empty() { String::new() } else { format!("; last: {last}") };
    format!("{steps}, about {}:{:02} min left{last}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_long_the_rest_takes() {
        let said = line("100 of 120 runs", (100, 400), Duration::from_secs(61), "exp8 adaptive");
        assert_eq!(said, "100 of 120 runs, about 3:03 min left; last: exp8 adaptive");
        assert_eq!(
            line("0 of 4 settings", (0, 4), Duration::ZERO, ""),
            "0 of 4 settings, about 0:00 min left"
        );
    }
}
