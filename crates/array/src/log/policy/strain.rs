//! Strain: whether the zones that a stream writes to are at their limit, so that another segment is worth its space.
//!
//! ```text
//!   a zone that keeps up     [==]    [==]    [==]          a write is done when the drive's buffer has it
//!   a zone at its limit      [==================][===..     its buffer is full: each write waits until the flash has taken another
//! ```
//! Where a zone is one die, it takes no more than that die does, and clients that wait for each write never have two of them on
//! their way: no segment is ever found busy, and all they write goes through one zone of each drive. What tells it is time: a stripe
//! that has its segment for itself and still takes several times as long as one can take waits for the flash. Another segment is
//! wanted when the mean of such times is that long, and one less after many stripes without strain.

use crate::log::policy::Space;
use base::time::Nanos;
use zone::format::header::Stream;

/// Times the shortest from which on the mean is that of zones at their limit: what shares a bus or a processor takes two or three.
const STRAINED_TIMES: u64 = 4;
/// Part of the shortest time by which it grows with each stripe: a drive may get slower for good.
const PART_OF_SHORTEST: u64 = 1024;
/// Part that a stripe has in the mean: one that a drive's caprice holds up for a hundred times the shortest strains nothing.
const PART_OF_MEAN: u64 = 64;
/// Stripes without strain after which one segment less may do.
const CALM: u32 = 4096;

/// Times that stripes of a stream took, and the segments that it is to have open.
#[derive(Clone, Copy, Debug)]
pub struct Strain {
    /// The shortest; zero before the first.
    shortest: Nanos,
    mean: Nanos,
    /// Segments that are to be open.
    wanted: usize,
    /// Stripes since that was changed.
    calm: u32,
}

impl Default for Strain {
    fn default() -> Strain {
        Strain { shortest: Nanos(0), mean: Nanos(0), wanted: 1, calm: 0 }
    }
}

impl Strain {
    /// A stripe that had its segment for itself is durable; so many segments may be open at most.
    pub fn note(&mut self, took: Nanos, open_max: usize) {
        if self.shortest.0 == 0 {
            (self.shortest, self.mean) = (took, took);
        }
        let shortest = self.shortest.0 + self.shortest.0 / PART_OF_SHORTEST + 1;
        self.shortest = Nanos(shortest.min(took.0));
        self.mean = Nanos(self.mean.0 - self.mean.0 / PART_OF_MEAN + took.0 / PART_OF_MEAN);
        self.calm += 1;
        if self.mean.0 > STRAINED_TIMES.saturating_mul(self.shortest.0) {
            // What one more does to the times is seen first.
            (self.wanted, self.mean, self.calm) = ((self.wanted + 1).min(open_max), self.shortest, 0);
        } else if self.calm == CALM {
            (self.wanted, self.calm) = ((self.wanted - 1).max(1), 0);
        }
    }

    /// Segments that are to be open.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.wanted
    }
}

impl Space<'_> {
    /// True when a stream gains by another segment though one has nothing to do: zones take no more than they do.
    pub(in crate::log) fn wants_more_zones(&self, stream: Stream) -> bool {
        let writer = &self.stripes.streams[stream.index()];
        stream.is_clients()
            && self.core.is_adaptive()
            && self.stripes.places_with_room(self.core, stream) < writer.strain.wanted()
            && !self.stripes.is_opening(self.core, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(strain: &mut Strain, micros: impl IntoIterator<Item = u64>) {
        micros.into_iter().for_each(|micros| strain.note(Nanos::from_micros(micros), 4));
    }

    #[test]
    fn stripes_that_wait_for_the_flash_want_more_segments() {
        let mut strain = Strain::default();
        note(&mut strain, [12, 14, 11, 13]);
        note(&mut strain, [1_100]);
        note(&mut strain, [12; 100]);
        assert_eq!(strain.wanted(), 1, "one that was held up");
        // The buffer takes ten, and one waits until it has room again.
        (0..100).for_each(|_| note(&mut strain, [12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 2_000]));
        assert_eq!(strain.wanted(), 4, "no more than there may be");
        note(&mut strain, [13; 2 * CALM as usize]);
        assert_eq!(strain.wanted(), 2);
    }

    #[test]
    fn a_drive_that_is_slow_for_good_is_not_strained_for_ever() {
        let mut strain = Strain::default();
        note(&mut strain, [10]);
        note(&mut strain, [60; 5 * CALM as usize]);
        assert_eq!(strain.wanted(), 1);
    }
}
