//! What the engine counts, for status and metrics.

/// Counters since the volume was mounted. Blocks are 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks clients wrote.
    pub user_blocks_written: u64,
    /// Blocks clients read.
    pub user_blocks_read: u64,
    /// Tombstone blocks written for trims.
    pub tombstone_blocks_written: u64,
    /// Blocks the collector or a repair moved.
    pub moved_blocks_written: u64,
    /// Moved blocks that nobody wrote for long and that went to a segment of their own.
    pub cold_blocks_written: u64,
    /// Versions of blocks that came to slots of the write area, each in as many copies as it takes, or in none where a newer one took
    /// its place before it was written.
    pub slot_blocks_written: u64,
    /// Those that were overwritten in their slots, so that they never went to a stripe.
    pub slot_blocks_absorbed: u64,
    /// Those that went from their slots to stripes.
    pub slot_blocks_moved: u64,
    /// Padding blocks.
    pub padding_blocks_written: u64,
    /// Parity blocks.
    pub parity_blocks_written: u64,
    /// Header and footer blocks.
    pub metadata_blocks_written: u64,
    /// Blocks of checkpoints.
    pub checkpoint_blocks_written: u64,
    /// Blocks that hold groups of the index.
    pub mapping_blocks_written: u64,
    /// Times that a group of the index was used.
    pub groups_used: u64,
    /// Times that one had to be read first.
    pub groups_loaded: u64,
    /// Blocks of summaries of open segments.
    pub summary_blocks_written: u64,
    /// Checkpoints that a mount can use.
    pub checkpoints_written: u64,
    /// Groups whose stripe table had been dropped and was read from footers.
    pub stripe_tables_read: u64,
    /// Zones that took no more writes and were given up.
    pub zones_retired: u64,
    /// Segments collected.
    pub segments_collected: u64,
    /// Blocks rebuilt and written elsewhere because a drive returned an error or wrong data.
    pub blocks_corrected: u64,
    /// Blocks rebuilt because their drive is missing.
    pub blocks_read_degraded: u64,
    /// Reads refused because too little of the stripe was left.
    pub blocks_unreadable: u64,
    /// Blocks rebuilt and written to a drive that replaces a failed one.
    pub blocks_rebuilt: u64,
    /// Zones of such drives that were rebuilt.
    pub segments_rebuilt: u64,
    /// Blocks written off: what they held is beyond rescue, and reading them fails until they are
    /// overwritten or trimmed.
    pub blocks_lost: u64,
}

impl Counters {
    /// Blocks that were written to zones for good, parity among them. What slots hold is not: it reaches the flash when it leaves them.
    #[must_use]
    pub fn flash_blocks(&self) -> u64 {
        self.user_blocks_written.saturating_sub(self.slot_blocks_written)
            + self.slot_blocks_moved
            + self.tombstone_blocks_written
            + self.moved_blocks_written
            + self.padding_blocks_written
            + self.checkpoint_blocks_written
            + self.mapping_blocks_written
            + self.summary_blocks_written
            + self.metadata_blocks_written
            + self.parity_blocks_written
    }

    /// Bytes written to zones for good for each byte of clients (ADR 81); `None` before the first write.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for display")]
    pub fn flash_bytes_per_user_byte(&self) -> Option<f64> {
        (self.user_blocks_written > 0).then(|| self.flash_blocks() as f64 / self.user_blocks_written as f64)
    }

    /// Blocks written to drives per block written by clients, parity not counted; `None` before
    /// the first write.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for display")]
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.flash_blocks() - self.parity_blocks_written;
        (self.user_blocks_written > 0).then(|| written as f64 / self.user_blocks_written as f64)
    }
}
