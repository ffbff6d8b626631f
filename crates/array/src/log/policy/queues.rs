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
use zone::format::header::Stream;

/// Stripes in flight from which on a segment under Zone Write takes no more while few wait: one is being written,
/// and the other follows it drive by drive.
pub const STRIPES_IN_FLIGHT_LEAST: u32 = 2;
/// And while many do: as many chunks of 4 KiB as one command takes, so that a long queue is two commands.
pub const STRIPES_IN_FLIGHT_MOST: u32 = 16;
/// Blocks of chunks joined in one command: beyond 64 KiB bytes cost a drive the same however many there are.
const JOINED_BLOCKS_MAX: u32 = 16;

impl Space<'_> {
    /// Stripes in flight from which on a segment takes no more of what waits.
    pub(in crate::log) fn stripes_in_flight_worth(&self, stream: Stream) -> u32 {
        let writer = &self.stripes.streams[stream.index()];
        stripes_worth(writer.sealed.len(), writer.open.len())
    }

    /// Blocks that one command for a zone may write. Beside a write area chunks are joined by any policy: its writes take turns with them
    /// at the drives.
    pub(in crate::log) fn joined_blocks_max(&self) -> u32 {
        let has_area = self.core.tuning.write_area_zones > 0;
        if !self.core.goes_by_deadline() || has_area { self.core.config.joined_blocks_max() } else { 0 }
    }
}

impl ArrayConfig {
    /// Blocks that one command for a zone may write where chunks are joined.
    #[must_use]
    pub fn joined_blocks_max(&self) -> u32 {
        JOINED_BLOCKS_MAX.min(self.geometry.transfer_blocks_max)
    }
}

/// Stripes in flight in each of so many segments while others wait.
fn stripes_worth(waiting: usize, segments: usize) -> u32 {
    u32::try_from(waiting / segments.max(1))
        .map_or(STRIPES_IN_FLIGHT_MOST, |share| share.clamp(STRIPES_IN_FLIGHT_LEAST, STRIPES_IN_FLIGHT_MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_shared_out_among_segments() {
        assert_eq!([0, 7, 11].map(|waiting| stripes_worth(waiting, 4)), [2; 3]);
        assert_eq!(stripes_worth(12, 4), 3);
        assert_eq!(stripes_worth(1_000, 4), 16);
        assert_eq!((stripes_worth(5, 1), stripes_worth(5, 0)), (5, 5));
    }
}
