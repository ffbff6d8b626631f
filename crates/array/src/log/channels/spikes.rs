//! Spikes: the published way to tell channels (BIZA, section on channel detection). Zones are guessed to lie on channels in turn, as they
//! are opened, and writes that take long while the collector writes correct the guess.
//!
//! While the collector writes, a write to a zone that is thought to lie on another channel should not feel it. One that takes five times
//! the mean is a spike; after three of them the zone is thought to lie on the collector's channel. Used by [`super::super::policy::biza`]
//! and by the peer of that name in experiments; what other policies believe is the parent module's.

use base::time::Nanos;
use base::units::ZoneIndex;

/// Channels, as published for the ZN540.
const CHANNELS: u32 = 2;
/// Times the mean that make a spike, and spikes that flip a guess.
const SPIKE_TIMES: u64 = 5;
const SPIKES: u8 = 3;
/// Writes without a spike after which one is forgotten.
const FORGET_AFTER: u16 = 256;
/// An interval counts for so much of the mean.
const PART_OF_MEAN: u64 = 64;
/// Classes of sizes: powers of two up to 16 blocks.
const CLASSES: usize = 5;

#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    channel: u32,
    spikes: u8,
    calm: u16,
}

/// What is thought of the zones of a drive.
#[derive(Clone, Debug)]
pub struct Spikes {
    guesses: Vec<Guess>,
    opened: u32,
    /// Mean latencies in ns, by size; 0 where nothing is known.
    means: [u64; CLASSES],
    flips: u64,
}

impl Spikes {
    /// A drive of so many zones, none of which was opened.
    #[must_use]
    pub fn new(zones: u32) -> Spikes {
        Spikes { guesses: vec![Guess::default(); zones as usize], opened: 0, means: [0; CLASSES], flips: 0 }
    }

    /// A zone is opened.
    pub fn open(&mut self, zone: ZoneIndex) {
        self.guesses[zone.index()] = Guess { channel: self.opened % CHANNELS, ..Guess::default() };
        self.opened = self.opened.wrapping_add(1);
    }

    /// True when two zones are thought to share a channel.
    #[must_use]
    pub fn share(&self, first: ZoneIndex, second: ZoneIndex) -> bool {
        self.guesses[first.index()].channel == self.guesses[second.index()].channel
    }

    /// Times that a zone was given another channel.
    #[must_use]
    pub fn flips(&self) -> u64 {
        self.flips
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Spikes>() + self.guesses.capacity() * size_of::<Guess>()
    }

    /// A write of so many blocks to a zone took so long; the collector wrote to another zone meanwhile, or to none.
    pub fn note(&mut self, zone: ZoneIndex, collects_to: Option<ZoneIndex>, blocks: u32, latency: Nanos) {
        let class = (blocks.max(1).ilog2() as usize).min(CLASSES - 1);
        let mean = &mut self.means[class];
        let is_spike = *mean > 0 && latency.0 > SPIKE_TIMES * *mean;
        *mean = if *mean == 0 { latency.0 } else { *mean - *mean / PART_OF_MEAN + latency.0 / PART_OF_MEAN };
        if let Some(to) = collects_to.filter(|to| !self.share(zone, *to)) {
            self.judge(zone, to, is_spike);
        }
    }

    fn judge(&mut self, zone: ZoneIndex, collects_to: ZoneIndex, is_spike: bool) {
        let channel = self.guesses[collects_to.index()].channel;
        let guess = &mut self.guesses[zone.index()];
        if is_spike {
            (guess.spikes, guess.calm) = (guess.spikes + 1, 0);
            if guess.spikes >= SPIKES {
                *guess = Guess { channel, ..Guess::default() };
                self.flips += 1;
            }
        } else {
            guess.calm += 1;
            if guess.calm >= FORGET_AFTER {
                (guess.spikes, guess.calm) = (guess.spikes.saturating_sub(1), 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_spikes_flip_a_wrong_guess_and_calm_writes_do_not() {
        let mut spikes = Spikes::new(4);
        (0..4).for_each(|zone| spikes.open(ZoneIndex(zone)));
        let share = |spikes: &Spikes, zone| spikes.share(ZoneIndex(0), ZoneIndex(zone));
        assert!(share(&spikes, 2) && !share(&spikes, 1));
        let write = |spikes: &mut Spikes, zone: u32, latency: u64| {
            spikes.note(ZoneIndex(zone), Some(ZoneIndex(0)), 1, Nanos(latency));
        };
        (0..1000).for_each(|_| write(&mut spikes, 1, 11_000));
        (0..2).for_each(|_| write(&mut spikes, 1, 90_000));
        assert!(!share(&spikes, 1));
        write(&mut spikes, 1, 90_000);
        assert!(share(&spikes, 1), "the third spike");
        (0..5000).for_each(|count| write(&mut spikes, 3, if count % 600 == 0 { 90_000 } else { 11_000 }));
        assert!(!share(&spikes, 3), "spikes far apart say nothing");
        assert_eq!(spikes.flips, 1);
    }
}
