//! Queues of open segments: how many stripes are in flight in a segment, and how many chunks share a command.
//!
//! What adapts *joins* what waits for a zone: chunks that follow one another go in one command. So a queue costs a drive
//! fewer commands the longer it is, and chunks may be small:
//! ```text
//!   zone A   in flight [ 7 ]            waiting 8 9 10 11 12        8 to 11 are the next command, of 64 KiB
//! ```
//! A stripe is done with its slowest drive. Were it kept back until a segment is idle, drives that are done would wait for
//! that one, each time for another. So stripes that wait go to segments at once, shared out among them; a stripe that is
//! alone waits for the first of them to have room, which is not known before.

use crate::log::config::ArrayConfig;
use crate::log::policy::Space;
use crate::log::policy::tuned::Tuned;
use zone::format::header::Stream;

impl Space<'_> {
    /// Stripes in flight from which on a segment takes no more of what waits.
    pub(in crate::log) fn stripes_in_flight_worth(&self, stream: Stream) -> u32 {
        let writer = &self.stripes.streams[stream.index()];
        stripes_worth(writer.sealed.len(), writer.open.len(), &self.core.tuning.tuned)
    }

    /// Blocks that one command for a zone may write. Beside a write area chunks are joined by any policy: its writes take turns with them
    /// at the drives.
    pub(in crate::log) fn joined_blocks_max(&self) -> u32 {
        let has_area = self.core.tuning.write_area_zones > 0;
        if !self.core.goes_by_deadline() || has_area {
            self.core.config.joined_blocks_max(&self.core.tuning.tuned)
        } else {
            0
        }
    }
}

impl ArrayConfig {
    /// Blocks that one command for a zone may write where chunks are joined.
    #[must_use]
    pub fn joined_blocks_max(&self, tuned: &Tuned) -> u32 {
        tuned.joined_blocks_max.min(self.geometry.transfer_blocks_max)
    }
}

/// Stripes in flight in each of so many segments while others wait.
fn stripes_worth(waiting: usize, segments: usize, tuned: &Tuned) -> u32 {
    let Tuned { stripes_in_flight_least: least, stripes_in_flight_most: most, .. } = *tuned;
    u32::try_from(waiting / segments.max(1)).map_or(most, |share| share.clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_shared_out_among_segments() {
        let worth = |waiting, segments| stripes_worth(waiting, segments, &Tuned::default());
        assert_eq!([0, 7, 11].map(|waiting| worth(waiting, 4)), [2; 3]);
        assert_eq!(worth(12, 4), 3);
        assert_eq!(worth(1_000, 4), 16);
        assert_eq!((worth(5, 1), worth(5, 0)), (5, 5));
    }
}
