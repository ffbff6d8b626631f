//! Channels of zones, guessed by order of opening and corrected by spikes, as published.
//!
//! While the collector writes, a write to a zone that is thought to lie on another channel should not feel it. One that takes five times the
//! mean is a spike; after three of them the zone is thought to lie on the collector's channel.

use base::time::Instant;

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

/// A write that completed and was not judged.
#[derive(Clone, Copy, Debug)]
struct Noted {
    drive: usize,
    zone: usize,
    /// Zone that the collector writes to.
    collects_to: Option<usize>,
    blocks: u32,
    at: Instant,
}

/// What is thought of all zones.
#[derive(Debug)]
pub(crate) struct Channels {
    members: usize,
    /// By zone and drive.
    guesses: Vec<Guess>,
    opened: u32,
    /// Mean latencies in ns, by drive and size; 0 where nothing is known.
    means: Vec<[u64; CLASSES]>,
    noted: Vec<Noted>,
    flips: u64,
}

impl Channels {
    pub(crate) fn new(members: usize, zones: usize) -> Channels {
        Channels {
            members,
            guesses: vec![Guess::default(); members * zones],
            opened: 0,
            means: vec![[0; CLASSES]; members],
            noted: Vec::new(),
            flips: 0,
        }
    }

    /// The zones of one number were opened on all drives.
    pub(crate) fn note_opened(&mut self, zone: usize) {
        let channel = self.opened % CHANNELS;
        self.opened += 1;
        for drive in 0..self.members {
            self.guesses[zone * self.members + drive] = Guess { channel, ..Guess::default() };
        }
    }

    /// True when two zones of a drive are thought to share a channel.
    pub(crate) fn share(&self, drive: usize, first: usize, second: usize) -> bool {
        let channel = |zone: usize| self.guesses[zone * self.members + drive].channel;
        channel(first) == channel(second)
    }

    /// Zones that were given another channel.
    pub(crate) fn flips(&self) -> u64 {
        self.flips
    }

    /// A write completed that was sent at some time.
    pub(crate) fn note_write(
        &mut self,
        (drive, zone, collects_to): (usize, usize, Option<usize>),
        blocks: u32,
        at: Instant,
    ) {
        self.noted.push(Noted { drive, zone, collects_to, blocks, at });
    }

    /// Judges the writes that completed by now.
    pub(crate) fn judge(&mut self, now: Instant) {
        for noted in std::mem::take(&mut self.noted) {
            let latency = now.since(noted.at).0;
            let class = (noted.blocks.max(1).ilog2() as usize).min(CLASSES - 1);
            let mean = &mut self.means[noted.drive][class];
            let is_spike = *mean > 0 && latency > SPIKE_TIMES * *mean;
            *mean = if *mean == 0 { latency } else { *mean - *mean / PART_OF_MEAN + latency / PART_OF_MEAN };
            let apart = |to: &usize| !self.share(noted.drive, noted.zone, *to);
            if let Some(to) = noted.collects_to.filter(apart) {
                self.judge_one(noted, to, is_spike);
            }
        }
    }

    fn judge_one(&mut self, noted: Noted, to: usize, is_spike: bool) {
        let channel = self.guesses[to * self.members + noted.drive].channel;
        let guess = &mut self.guesses[noted.zone * self.members + noted.drive];
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
        let mut channels = Channels::new(1, 4);
        (0..4).for_each(|zone| channels.note_opened(zone));
        assert!(channels.share(0, 0, 2) && !channels.share(0, 0, 1));
        let mut now = Instant(1_000_000);
        let mut write = |channels: &mut Channels, zone: usize, latency: u64| {
            channels.note_write((0, zone, Some(0)), 1, now);
            now = Instant(now.0 + latency);
            channels.judge(now);
        };
        (0..1000).for_each(|_| write(&mut channels, 1, 11_000));
        (0..2).for_each(|_| write(&mut channels, 1, 90_000));
        assert!(!channels.share(0, 0, 1));
        write(&mut channels, 1, 90_000);
        assert!(channels.share(0, 0, 1), "the third spike");
        (0..5000).for_each(|count| write(&mut channels, 3, if count % 600 == 0 { 90_000 } else { 11_000 }));
        assert!(!channels.share(0, 0, 3), "spikes far apart say nothing");
        assert_eq!(channels.flips, 1);
    }
}
