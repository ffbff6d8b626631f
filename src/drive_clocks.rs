//! Clocks of emulated drives that take the time of a profile, and whether the host keeps up with them.

use base::time::{Instant, Nanos};
use drive::emulated::Pace;

/// Time between two checks that the host keeps up, and the lag that is logged.
const CHECK_EVERY: Nanos = Nanos(5_000_000_000);
const LAG_NOTED: Nanos = Nanos(500_000);

/// Waits shorter than this are spent awake when drives take the time of a profile.
pub const SPIN: Nanos = Nanos(200_000);
/// Time between two looks at drives that have no descriptor in the loop.
pub const LOOK_EVERY: Nanos = Nanos(200_000);

/// See the module.
pub struct DriveClocks {
    paces: Vec<Pace>,
    checked_at: Instant,
}

impl DriveClocks {
    /// Clocks of drives that are about to be served.
    pub fn new(paces: Vec<Pace>, now: Instant) -> DriveClocks {
        DriveClocks { paces, checked_at: now }
    }

    /// From now on commands take their time.
    pub fn start(&self) {
        self.paces.iter().for_each(Pace::start);
    }

    /// Takes one more clock, which runs.
    pub fn add(&mut self, pace: Pace) {
        pace.start();
        self.paces.push(pace);
    }

    /// The loop looks at the drives. Says so when their answers come later than their profile has it.
    pub fn check(&mut self, now: Instant) {
        if self.paces.is_empty() || now.since(self.checked_at) < CHECK_EVERY {
            return;
        }
        self.checked_at = now;
        let lag = self.paces.iter().map(Pace::take_lag).max().unwrap_or(Nanos(0));
        if lag > LAG_NOTED {
            log::warn!(
                "this host does not keep up with the profile: in the last {} s an answer of a drive was {} us late; \
                 measured latencies are those of the host",
                CHECK_EVERY.0 / 1_000_000_000,
                lag.0 / 1000
            );
        }
    }
}
