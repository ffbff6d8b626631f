//! Queues of open segments: how many stripes are in flight in a segment, and how many chunks share a command.
//!
//! What adapts *joins* what waits for a zone, where a stream has one segment or two, or the collector has little to move: chunks that
//! follow one another go in one command. The collector's always do, for it writes whole victims at once and nobody waits for any one stripe:
//! ```text
//!   zone A   in flight [ 7 ]            waiting 8 9 10 11 12        8 to 11 are the next command, of 64 KiB
//! ```

use crate::log::policy::Space;
use zone::format::header::Stream;

/// Stripes in flight from which on a segment under Zone Write takes no more from clients: one is being written,
/// and the other follows it drive by drive.
const STRIPES_IN_FLIGHT_WORTH: u32 = 2;
/// The same in a burst, where a shorter queue before the segment is worth more than which of two is done first.
const STRIPES_IN_FLIGHT_IN_BURST: u32 = 3;
/// And where a stream has no more than [`FEW_SEGMENTS`], for long queues: two joined commands and a half, and so many that wait
/// for each stripe of those.
const FOR_FEW_SEGMENTS: LongQueues = LongQueues { stripes_max: 10, waiting_per_stripe: 4 };
/// And where little is moved, so that drives are the clients' alone.
pub const FOR_LITTLE_MOVED: LongQueues = LongQueues { stripes_max: 16, waiting_per_stripe: 2 };
/// More segments take what a drive has to give with one chunk in flight each.
const FEW_SEGMENTS: usize = 2;
/// Blocks of chunks joined in one command: beyond 64 KiB bytes cost a drive the same however many there are.
const JOINED_BLOCKS_MAX: u32 = 16;

/// Stripes in flight in a segment when many wait.
#[derive(Clone, Copy)]
pub struct LongQueues {
    /// Stripes in flight in a segment at most.
    pub stripes_max: u32,
    /// Waiting stripes for each of them.
    pub waiting_per_stripe: usize,
}

impl LongQueues {
    /// Stripes in flight in each of the open segments, `least` at least.
    fn worth(self, least: u32, waiting: usize, segments: usize) -> u32 {
        u32::try_from(waiting / (self.waiting_per_stripe * segments))
            .map_or(self.stripes_max, |worth| worth.clamp(least, self.stripes_max))
    }
}

impl Space<'_> {
    /// Stripes in flight from which on a segment takes no more of what waits.
    pub(in crate::log) fn stripes_in_flight_worth(&self, stream: Stream) -> u32 {
        let Some(queues) = self.long_queues(stream) else { return STRIPES_IN_FLIGHT_WORTH };
        let in_bursts = self.burst_blocks().is_some();
        let least = if in_bursts { STRIPES_IN_FLIGHT_IN_BURST } else { STRIPES_IN_FLIGHT_WORTH };
        let writer = &self.stripes.streams[stream.index()];
        queues.worth(least, writer.sealed.len(), writer.open.len().max(1))
    }

    /// Chooses long queues where one chunk in flight per zone of a stream leaves drives idle: what waits is joined.
    pub(in crate::log) fn long_queues(&self, stream: Stream) -> Option<LongQueues> {
        // Nearly all of a victim is free.
        let moves_little = 8 * self.collector.victim_gain_blocks() >= 7 * self.stripes.segment_blocks();
        let has_few_segments = self.stripes.streams[stream.index()].open.len() <= FEW_SEGMENTS;
        if moves_little { Some(FOR_LITTLE_MOVED) } else { has_few_segments.then_some(FOR_FEW_SEGMENTS) }
    }

    /// Blocks that one command for a zone of this stream may write.
    pub(in crate::log) fn joined_blocks_max(&self, stream: Stream) -> u32 {
        if self.core.is_adaptive() && (stream.is_collectors() || self.long_queues(stream).is_some()) {
            JOINED_BLOCKS_MAX.min(self.core.config.geometry.transfer_blocks_max)
        } else {
            0
        }
    }
}
