//! What clients' bytes cost drives: counts of an array at a moment, and figures of what lies between two (ADR 81).

use super::biza_rig::BizaRig;
use super::measurement::{
    ABSORBED_BYTES, BACKING_BYTES, DATA_BYTES, FINISH_BYTES, FLASH_BYTES, INTERFACE_BYTES, METADATA_BYTES,
    MOVED_BYTES, Metric, P9999, PADDING_BYTES, PARITY_BYTES, Value,
};
use super::rig::Rig;
use super::stacks::StackRig;
use crate::precise::precise_u64;
use crate::workload::Measured;
use base::units::BLOCK_BYTES_U64;
use drive::timing::Wear;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that drives of an array were written with, by the drives' own counts.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<[AtomicU64; 3]>);

impl Meter {
    /// A drive was written with this beside what it was before.
    pub fn note(&self, more: &Wear) {
        let bytes = [more.written_bytes, more.padded_bytes, more.backing_bytes];
        for (total, bytes) in self.0.iter().zip(bytes) {
            total.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes of all drives.
    #[must_use]
    pub fn totals(&self) -> DriveBytes {
        let [interface, finish, backing] = self.0.each_ref().map(|total| total.load(Ordering::Relaxed));
        DriveBytes { interface, finish, backing }
    }
}

/// Bytes by drives' own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveBytes {
    /// Written by the host: to zones, and to windows as often as they were.
    pub interface: u64,
    /// Left unwritten in zones that were finished.
    pub finish: u64,
    /// Written to the flash behind windows.
    pub backing: u64,
}

/// Blocks of flash by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Blocks of clients.
    pub data: u64,
    /// Parity.
    pub parity: u64,
    /// Blocks that were moved for space.
    pub moved: u64,
    /// Padding of stripes.
    pub padding: u64,
    /// Headers, footers, summaries, checkpoints, tombstones and parts of the index.
    pub metadata: u64,
}

/// Counts of an array. Blocks are of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks that clients wrote.
    pub user: u64,
    /// Blocks of flash.
    pub flash: u64,
    /// Blocks of clients that were overwritten before they got there, where the array absorbs any.
    pub absorbed: Option<u64>,
    /// Blocks of flash by what they hold, where they are told apart.
    pub parts: Option<Parts>,
    /// Bytes by the drives' own counts, where they count.
    pub drives: Option<DriveBytes>,
}

impl Counts {
    /// Counts of this array when nobody had written anything, but what its drives were written with until now.
    #[must_use]
    pub fn of_none_written(&self) -> Counts {
        let Counts { absorbed, parts, drives, .. } = *self;
        let (absorbed, parts) = (absorbed.map(|_| 0), parts.map(|_| Parts::default()));
        Counts { user: 0, flash: 0, absorbed, parts, drives }
    }
}

/// An array that counts what it is written with.
pub trait Worn {
    /// Counts now.
    fn counts_now(&self) -> Counts;
}

impl<W: Worn + ?Sized> Worn for Box<W> {
    fn counts_now(&self) -> Counts {
        (**self).counts_now()
    }
}

impl Worn for Rig {
    fn counts_now(&self) -> Counts {
        let counters = self.volume().engine.counters();
        let of_slots = counters.slot_blocks_moved;
        let parts = Parts {
            data: counters.user_blocks_written.saturating_sub(counters.slot_blocks_written) + of_slots,
            parity: counters.parity_blocks_written,
            moved: counters.moved_blocks_written,
            padding: counters.padding_blocks_written,
            metadata: counters.tombstone_blocks_written
                + counters.checkpoint_blocks_written
                + counters.mapping_blocks_written
                + counters.summary_blocks_written
                + counters.metadata_blocks_written,
        };
        Counts {
            user: counters.user_blocks_written,
            flash: counters.flash_blocks(),
            absorbed: Some(counters.slot_blocks_absorbed),
            parts: Some(parts),
            drives: Some(self.meter().totals()),
        }
    }
}

impl Worn for BizaRig {
    fn counts_now(&self) -> Counts {
        let counters = self.counters();
        let (data, parity, moved) = (counters.data, counters.parity, counters.moved);
        Counts {
            user: counters.user,
            flash: counters.flash_blocks(),
            absorbed: Some(counters.absorbed),
            parts: Some(Parts { data, parity, moved, ..Parts::default() }),
            drives: self.meter().map(Meter::totals),
        }
    }
}

impl Worn for StackRig {
    fn counts_now(&self) -> Counts {
        let (user, flash) = self.counts();
        Counts { user, flash, absorbed: None, parts: None, drives: self.meter().map(Meter::totals) }
    }
}

/// Cost of each byte of clients between two counts, and the tail of what they saw.
#[must_use]
pub fn costs(before: &Counts, after: &Counts, figures: &Measured) -> Vec<Value> {
    let user = precise_u64((after.user - before.user).max(1));
    let mut values = vec![Value { metric: P9999, value: figures.percentile_us(99.99) }];
    let mut note = |metric: Metric, count: f64| values.push(Value { metric, value: count / user });
    // What fills a stripe may go to slots after all.
    let more = |after: u64, before: u64| precise_u64(after.saturating_sub(before));
    note(FLASH_BYTES, more(after.flash, before.flash));
    if let (Some(before), Some(after)) = (before.absorbed, after.absorbed) {
        note(ABSORBED_BYTES, more(after, before));
    }
    if let (Some(before), Some(after)) = (before.parts, after.parts) {
        note(DATA_BYTES, more(after.data, before.data));
        note(PARITY_BYTES, more(after.parity, before.parity));
        note(MOVED_BYTES, more(after.moved, before.moved));
        note(PADDING_BYTES, more(after.padding, before.padding));
        note(METADATA_BYTES, more(after.metadata, before.metadata));
    }
    if let (Some(before), Some(after)) = (before.drives, after.drives) {
        let blocks = |after, before| more(after, before) / precise_u64(BLOCK_BYTES_U64);
        note(FINISH_BYTES, blocks(after.finish, before.finish));
        note(INTERFACE_BYTES, blocks(after.interface, before.interface));
        note(BACKING_BYTES, blocks(after.backing, before.backing));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_figures_are_for_each_byte_of_clients() {
        let parts = Parts { data: 8, parity: 4, moved: 2, padding: 1, metadata: 1 };
        let drives = DriveBytes { interface: 20 << 12, finish: 5 << 12, backing: 0 };
        let after =
            Counts { user: 10, flash: 16, absorbed: Some(2), parts: Some(parts), drives: Some(drives) };
        let mut figures = Measured::default();
        figures.latencies_us.push(7.0);
        let values =
            costs(&Counts { drives: Some(DriveBytes::default()), ..Counts::default() }, &after, &figures);
        let of = |metric: Metric| values.iter().find(|value| value.metric == metric).map(|value| value.value);
        assert_eq!((of(P9999), of(FLASH_BYTES), of(INTERFACE_BYTES)), (Some(7.0), Some(1.6), Some(2.0)));
        assert_eq!((of(FINISH_BYTES), of(BACKING_BYTES), of(ABSORBED_BYTES)), (Some(0.5), Some(0.0), None));
        let Parts { data, parity, moved, padding, metadata } = parts;
        assert_eq!(data + parity + moved + padding + metadata, after.flash);
    }
}
