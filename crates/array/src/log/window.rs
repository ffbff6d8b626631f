//! Windows: which writes to a zone with a random write area commit nothing that is not durable (ADR 52).
//!
//! ```text
//!      committed        WP       durable on all members    in flight              WP + W
//!   |-------------------|--------------------------------|--2--_--1--_--_--3----|........
//!                                     settled ^ whole granules of what is durable, but for its last block
//! ```
//! A write that ends beyond WP + W moves WP (`zone/src/rules/areas.rs`). It is handed to the drive only when WP then is at
//! most `settled`. So whatever order commands take effect in, none of them lies before WP, and what a drive has committed
//! was whole on all members. What completed decides WP, whatever the order: the least that keeps the highest end inside.
//!
//! And the last block of what is durable stays behind WP, to begin with the marker behind the header. So until all stripes
//! are committed, a window is never empty, and one that comes back empty has lost what it held (`mount/windows.rs`).

use std::ops::Range;
use zone::device::Areas;
use zone::stripe::StripeNumber;

/// Stripes that may be in flight in a segment in area mode: those of two groups.
const STRIPES_IN_FLIGHT_MAX: u32 = 128;

/// Blocks of chunks in flight in a window, though two chunks at least: with more a ZN540 gains 2 % at most, and the 95th
/// percentile of latencies grows by up to half, for whoever came first waits for who came last (`lab run area`).
const BLOCKS_IN_FLIGHT_MAX: u32 = 4;

/// Returns how many chunks of so many blocks are in flight in a window at most.
#[must_use]
pub fn chunks_in_flight_max(chunk_blocks: u32) -> u32 {
    (BLOCKS_IN_FLIGHT_MAX / chunk_blocks).max(2)
}

/// The window of a zone, as the engine predicts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    areas: Areas,
    /// WP after all that has completed; in flight there may be what moves it on.
    write_pointer: u32,
}

impl Window {
    /// The window of a zone with an area.
    ///
    /// # Panics
    /// When no drive could have such a write pointer.
    #[must_use]
    pub fn new(areas: Areas, write_pointer: u32) -> Window {
        assert!(areas.granule_blocks > 0, "windows move in granules");
        assert!(write_pointer.is_multiple_of(areas.granule_blocks), "block {write_pointer} of a window");
        Window { areas, write_pointer }
    }

    /// Returns the start of the window.
    #[must_use]
    pub fn write_pointer(&self) -> u32 {
        self.write_pointer
    }

    /// True when blocks may be written now: what that commits lies before the last block before `durable_end`, up to which
    /// all is durable.
    #[must_use]
    pub fn may_write(&self, blocks: &Range<u32>, durable_end: u32) -> bool {
        let write_pointer = self.areas.write_pointer_after(self.write_pointer, blocks.end);
        write_pointer == self.write_pointer || write_pointer <= self.settled(durable_end - 1)
    }

    /// Notes that blocks were written.
    ///
    /// # Panics
    /// When the drive would have refused them.
    pub fn write(&mut self, blocks: &Range<u32>) {
        assert!(blocks.start < blocks.end, "something is written");
        assert!(blocks.end - self.write_pointer <= 2 * self.areas.window_blocks, "{blocks:?} of {self:?}");
        self.write_pointer = self.areas.write_pointer_after(self.write_pointer, blocks.end);
    }

    /// Commits what lies before `end`, as far as granules go. Returns where the drive has to commit to; `None` when there is
    /// nothing to do.
    ///
    /// # Panics
    /// When that is beyond the window.
    #[must_use]
    pub fn commit(&mut self, end: u32) -> Option<u32> {
        let end = self.settled(end);
        if end <= self.write_pointer {
            return None;
        }
        assert!(end - self.write_pointer <= self.areas.window_blocks, "{end} of {self:?}");
        self.write_pointer = end;
        Some(end)
    }

    /// Returns the first granule that begins behind `end`.
    #[must_use]
    pub fn whole_granules(&self, end: u32) -> u32 {
        end.next_multiple_of(self.areas.granule_blocks)
    }

    /// Most blocks of a command that follows what is durable and commits nothing else.
    #[must_use]
    pub fn blocks_max(&self) -> u32 {
        self.areas.window_blocks - self.areas.granule_blocks
    }

    fn settled(&self, durable_end: u32) -> u32 {
        durable_end - durable_end % self.areas.granule_blocks
    }
}

/// Stripes of a segment up to the first that is not durable, and which ones behind that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableStripes {
    /// All before this one are durable.
    end: u32,
    /// Of those from `end` on, the lowest bit first. The lowest is never set.
    beyond: u128,
}

impl DurableStripes {
    /// All before a stripe are durable, and no other one is.
    #[must_use]
    pub fn up_to(end: u32) -> DurableStripes {
        DurableStripes { end, beyond: 0 }
    }

    /// The first stripe that is not durable.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.end
    }

    /// A stripe is durable.
    ///
    /// # Panics
    /// When it was before, or is further ahead than stripes may be in flight.
    pub fn add(&mut self, StripeNumber(stripe): StripeNumber) {
        assert!(stripe >= self.end, "stripe {stripe} is durable once, {} are", self.end);
        assert!(stripe - self.end < STRIPES_IN_FLIGHT_MAX, "stripe {stripe} is too far from {}", self.end);
        let bit = 1 << (stripe - self.end);
        assert!(self.beyond & bit == 0, "stripe {stripe} is durable once");
        self.beyond |= bit;
        let whole = self.beyond.trailing_ones();
        self.end += whole;
        self.beyond = self.beyond.checked_shr(whole).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests;
