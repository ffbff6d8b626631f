//! The pacer of both engines: keeps something in the background from moving more bytes than an operator allows.
//!
//! Bytes are paid for when they are begun: the next may begin when the time is over that these take at the
//! rate. So the rate holds from the first byte on, and nothing is saved up while there is nothing to do.
//!
//! A *throttle* is a pacer that looks at what clients do. Left alone by the operator it takes what they leave:
//! ```text
//!  clients   ▪▪ ▪ ▪▪▪ ▪          ▪▪ ▪▪          at work until nothing was heard of them for 10 ms
//!  rebuild   floor       ███████ floor  ███     10 MiB/s, else whatever the drives give
//! ```
//! The floor makes the rebuild end whatever clients do: 4 TB in under five days, without the array being degraded for ever
//! because somebody always writes. Under it a client shares its drives with one read and one write of 256 KiB every 25 ms.

use base::time::{Instant, Nanos};

/// A limit on bytes per second, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    bytes_per_second: Option<u64>,
    /// Time at which what was begun is paid for.
    free_at: Instant,
    /// Somebody waits until then.
    wakes_at: Option<Instant>,
}

impl Pacer {
    /// Allows another rate from now on; `None` and zero are no limit.
    pub fn set_rate(&mut self, bytes_per_second: Option<u64>) {
        self.bytes_per_second = bytes_per_second.filter(|rate| *rate > 0);
        self.free_at = Instant(0);
    }

    /// Nobody waits, until [`Pacer::may_begin`] says so.
    pub fn forget_waiting(&mut self) {
        self.wakes_at = None;
    }

    /// True when more bytes may be begun. If not, [`Pacer::wakes_at`] tells when.
    pub fn may_begin(&mut self, now: Instant) -> bool {
        let may_begin = self.free_at <= now || self.bytes_per_second.is_none();
        self.wakes_at = (!may_begin).then_some(self.free_at);
        may_begin
    }

    /// Bytes are begun.
    pub fn begin(&mut self, now: Instant, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        self.free_at = self.free_at.max(now) + Nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// Returns the time at which somebody who had to wait may go on.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        self.wakes_at
    }
}

/// Bytes a second that a rebuild takes while clients are at work, and the operator has not said otherwise.
pub const FLOOR_BYTES_PER_SECOND: u64 = 10 << 20;
/// Clients that were not heard of for so long leave the drives to others: longer than one thinks between two requests,
/// shorter than a rebuild would notice.
pub const CLIENTS_QUIET_AFTER: Nanos = Nanos::from_micros(10_000);

/// Rates of something in the background, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Rate while clients are at work, as md's `sync_speed_min`; without one, or with zero, it gives way to nobody.
    pub min: Option<u64>,
    /// Rate that it never exceeds, as md's `sync_speed_max`; zero is no limit.
    pub max: Option<u64>,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { min: Some(FLOOR_BYTES_PER_SECOND), max: None }
    }
}

impl Rates {
    /// As fast as it can, whatever clients do.
    pub const UNLIMITED: Rates = Rates { min: None, max: None };

    /// Rates of one limit that an operator asked for: none is by load, and zero is no limit.
    #[must_use]
    pub fn asked_for(bytes_per_second: Option<u64>) -> Rates {
        match bytes_per_second {
            None => Rates::default(),
            Some(0) => Rates::UNLIMITED,
            Some(rate) => Rates { min: None, max: Some(rate) },
        }
    }
}

/// Load from clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLoad {
    /// Requests that are not answered.
    pub in_flight: usize,
    /// Grows with every request.
    pub begun: u64,
}

/// Rates that give way to clients. Nothing is held back before [`Throttle::set_rates`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    rates: Rates,
    /// Holds the smaller rate while clients are at work.
    floor: Pacer,
    /// Holds the larger rate always.
    ceiling: Pacer,
    /// Requests there had been when clients were looked at last.
    begun: u64,
    /// Time until which clients count as being at work.
    quiet_at: Instant,
    wakes_at: Option<Instant>,
}

impl Throttle {
    /// Sets other rates from now on.
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
        self.floor.set_rate(rates.min);
        self.ceiling.set_rate(rates.max);
    }

    /// The rates.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// Takes note of what clients do. Nobody waits until [`Throttle::may_begin`] says so.
    pub fn notice(&mut self, now: Instant, clients: ClientLoad) {
        assert!(clients.begun >= self.begun, "requests are counted upwards");
        if clients.in_flight > 0 || clients.begun > self.begun {
            self.quiet_at = now + CLIENTS_QUIET_AFTER;
        }
        self.begun = clients.begun;
        self.wakes_at = None;
    }

    /// True while clients are at work, and it is to give way to them.
    fn gives_way(&self, now: Instant) -> bool {
        self.rates.min.is_some() && now < self.quiet_at
    }

    /// True when more bytes may be begun. If not, [`Throttle::wakes_at`] tells when.
    pub fn may_begin(&mut self, now: Instant) -> bool {
        if !self.ceiling.may_begin(now) {
            self.wakes_at = self.ceiling.wakes_at();
            return false;
        }
        if !self.gives_way(now) || self.floor.may_begin(now) {
            return true;
        }
        self.wakes_at = self.floor.wakes_at().into_iter().chain([self.quiet_at]).min();
        false
    }

    /// Bytes are begun. What clients left is for nothing but the larger rate.
    pub fn begin(&mut self, now: Instant, bytes: u64) {
        self.ceiling.begin(now, bytes);
        if self.gives_way(now) {
            self.floor.begin(now, bytes);
        }
    }

    /// Returns the time at which somebody who had to wait may go on, or is to ask again.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        self.wakes_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 256 << 10;
    const SECOND: u64 = 1_000_000_000;

    fn at_work(begun: u64) -> ClientLoad {
        ClientLoad { in_flight: 1, begun }
    }

    /// Bytes begun in a second by one who asks whenever he is told to, with a client that sends a request now and then.
    fn bytes_in_a_second(rates: Rates, client_every: u64) -> u64 {
        let mut throttle = Throttle::default();
        throttle.set_rates(rates);
        let (mut now, mut bytes, mut begun, mut client_at) = (Instant(SECOND), 0, 0, Instant(SECOND));
        while now < Instant(2 * SECOND) {
            if client_at <= now {
                begun += 1;
                client_at = client_at + Nanos(client_every);
            }
            throttle.notice(now, ClientLoad { in_flight: 0, begun });
            if throttle.may_begin(now) {
                throttle.begin(now, STEP);
                bytes += STEP;
                // As fast as the drive takes it.
                now = now + Nanos(100_000);
            } else {
                let wakes_at = throttle.wakes_at().expect("whoever waits is woken");
                assert!(wakes_at > now);
                now = wakes_at.min(client_at);
            }
        }
        bytes
    }

    #[test]
    fn clients_that_never_rest_leave_the_floor() {
        let bytes = bytes_in_a_second(Rates::default(), 500_000);
        assert!((FLOOR_BYTES_PER_SECOND..=FLOOR_BYTES_PER_SECOND + STEP).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_clients_leave_is_taken() {
        let alone = bytes_in_a_second(Rates::UNLIMITED, SECOND);
        // One request every 100 ms keeps a tenth of the time.
        let beside = bytes_in_a_second(Rates::default(), 100_000_000);
        assert!(beside > alone / 5 * 4, "{beside} of {alone}");
        assert!(beside < alone / 100 * 95, "{beside} of {alone}");
    }

    #[test]
    fn what_an_operator_says_counts_whatever_clients_do() {
        assert_eq!(Rates::asked_for(Some(0)), Rates::UNLIMITED);
        let rate = 50 << 20;
        for client_every in [500_000, SECOND] {
            let bytes = bytes_in_a_second(Rates::asked_for(Some(rate)), client_every);
            assert!((rate..=rate + STEP).contains(&bytes), "{bytes}");
            let bytes = bytes_in_a_second(Rates::UNLIMITED, client_every);
            assert!(bytes >= 9_000 * STEP, "{bytes}");
        }
    }

    #[test]
    fn the_larger_rate_holds_while_clients_rest_and_the_smaller_beside_them() {
        let rates = Rates { min: Some(4 << 20), max: Some(40 << 20) };
        let beside = bytes_in_a_second(rates, 500_000);
        assert!((4 << 20..=(4 << 20) + STEP).contains(&beside), "{beside}");
        let alone = bytes_in_a_second(rates, SECOND);
        assert!((39 << 20..=(40 << 20) + STEP).contains(&alone), "{alone}");
        let capped = bytes_in_a_second(Rates { min: Some(40 << 20), max: Some(4 << 20) }, 500_000);
        assert!((4 << 20..=(4 << 20) + STEP).contains(&capped), "{capped}");
    }

    #[test]
    fn a_request_that_is_never_answered_leaves_the_floor() {
        let mut throttle = Throttle::default();
        throttle.set_rates(Rates::default());
        let (mut now, mut bytes) = (Instant(SECOND), 0);
        while now < Instant(2 * SECOND) {
            throttle.notice(now, at_work(1));
            match throttle.may_begin(now) {
                true => {
                    throttle.begin(now, STEP);
                    bytes += STEP;
                }
                false => now = throttle.wakes_at().expect("whoever waits is woken"),
            }
        }
        assert!((FLOOR_BYTES_PER_SECOND..=FLOOR_BYTES_PER_SECOND + STEP).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_rate_holds_whatever_the_size_of_a_step() {
        for step in [1, 1_000, 70_000] {
            let mut pacer = Pacer::default();
            pacer.set_rate(Some(100_000));
            let (mut now, mut begun) = (Instant(5), 0);
            while now < Instant(5 + 10_000_000_000) {
                assert!(pacer.may_begin(now));
                pacer.begin(now, step);
                begun += step;
                pacer.may_begin(now);
                now = pacer.wakes_at().expect("it has to wait");
            }
            assert!((1_000_000..1_000_000 + step).contains(&begun), "{begun} bytes in ten seconds");
        }
    }

    #[test]
    fn nothing_is_saved_up_and_another_rate_counts_at_once() {
        let mut pacer = Pacer::default();
        assert!(pacer.may_begin(Instant(0)));
        pacer.begin(Instant(0), u64::MAX);
        assert!(pacer.may_begin(Instant(0)), "there is no limit");
        pacer.set_rate(Some(1_000));
        pacer.begin(Instant(1_000_000_000_000), 1_000);
        assert!(!pacer.may_begin(Instant(1_000_999_999_999)));
        assert!(pacer.may_begin(Instant(1_001_000_000_000)));
        pacer.begin(Instant(1_001_000_000_000), 1_000_000);
        assert!(!pacer.may_begin(Instant(1_002_000_000_000)));
        pacer.set_rate(Some(0));
        assert!(pacer.may_begin(Instant(1_002_000_000_000)));
        assert_eq!(pacer.wakes_at(), None);
    }
}
