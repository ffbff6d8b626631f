//! Counters over the life of an array, and the damage of its drives.

use anyhow::Result;
use array::log::Counters;
use array::log::rot::DriveDamage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Blocks of a drive that were found damaged, and rebuilt where that was possible.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct DamageCounts {
    /// The drive could not return them.
    pub unreadable: u64,
    /// Their data failed the checksum.
    pub data: u64,
    /// Their metadata did; headers and footers.
    pub metadata: u64,
}

impl DamageCounts {
    /// All of them.
    pub fn blocks(&self) -> u64 {
        self.unreadable + self.data + self.metadata
    }

    /// The damage in words, if there is any.
    pub fn in_words(&self) -> Option<String> {
        let blocks = self.blocks();
        (blocks > 0).then(|| {
            let DamageCounts { unreadable, data, metadata } = self;
            format!(
                "{blocks} blocks were damaged ({data} data, {metadata} metadata, {unreadable} unreadable)"
            )
        })
    }

    fn plus(self, now: &DriveDamage) -> DamageCounts {
        DamageCounts {
            unreadable: self.unreadable + now.unreadable,
            data: self.data + now.data,
            metadata: self.metadata + now.metadata,
        }
    }
}

/// Counters over the life of an array, in 4-KiB blocks. Saved every ten seconds and at the end of
/// service.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct LifetimeCounters {
    #[serde(flatten)]
    traffic: Traffic,
    #[serde(flatten)]
    work: Work,
    #[serde(flatten)]
    errors: Errors,
    /// Damage of each drive there ever was, by its UUID.
    drives: BTreeMap<String, DamageCounts>,
}

/// Blocks that were written, and read by clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Traffic {
    user_blocks_written: u64,
    user_blocks_read: u64,
    tombstone_blocks_written: u64,
    moved_blocks_written: u64,
    cold_blocks_written: u64,
    slot_blocks_written: u64,
    slot_blocks_absorbed: u64,
    slot_blocks_moved: u64,
    padding_blocks_written: u64,
    parity_blocks_written: u64,
    metadata_blocks_written: u64,
    checkpoint_blocks_written: u64,
    mapping_blocks_written: u64,
}

/// Work for what the engine keeps on drives for want of memory or for faster mounts, and for space.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Work {
    groups_used: u64,
    groups_loaded: u64,
    summary_blocks_written: u64,
    stripe_tables_read: u64,
    segments_collected: u64,
}

/// Blocks that were rebuilt, or could not be.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Errors {
    pub blocks_corrected: u64,
    pub blocks_read_degraded: u64,
    pub blocks_unreadable: u64,
    pub blocks_lost: u64,
    pub zones_retired: u64,
}

impl Traffic {
    fn plus(&self, now: &Counters) -> Traffic {
        Traffic {
            user_blocks_written: self.user_blocks_written + now.user_blocks_written,
            user_blocks_read: self.user_blocks_read + now.user_blocks_read,
            tombstone_blocks_written: self.tombstone_blocks_written + now.tombstone_blocks_written,
            moved_blocks_written: self.moved_blocks_written + now.moved_blocks_written,
            cold_blocks_written: self.cold_blocks_written + now.cold_blocks_written,
            slot_blocks_written: self.slot_blocks_written + now.slot_blocks_written,
            slot_blocks_absorbed: self.slot_blocks_absorbed + now.slot_blocks_absorbed,
            slot_blocks_moved: self.slot_blocks_moved + now.slot_blocks_moved,
            padding_blocks_written: self.padding_blocks_written + now.padding_blocks_written,
            parity_blocks_written: self.parity_blocks_written + now.parity_blocks_written,
            metadata_blocks_written: self.metadata_blocks_written + now.metadata_blocks_written,
            checkpoint_blocks_written: self.checkpoint_blocks_written + now.checkpoint_blocks_written,
            mapping_blocks_written: self.mapping_blocks_written + now.mapping_blocks_written,
        }
    }
}

impl Work {
    fn plus(&self, now: &Counters) -> Work {
        Work {
            groups_used: self.groups_used + now.groups_used,
            groups_loaded: self.groups_loaded + now.groups_loaded,
            summary_blocks_written: self.summary_blocks_written + now.summary_blocks_written,
            stripe_tables_read: self.stripe_tables_read + now.stripe_tables_read,
            segments_collected: self.segments_collected + now.segments_collected,
        }
    }
}

impl Errors {
    fn plus(&self, now: &Counters) -> Errors {
        Errors {
            blocks_corrected: self.blocks_corrected + now.blocks_corrected,
            blocks_read_degraded: self.blocks_read_degraded + now.blocks_read_degraded,
            blocks_unreadable: self.blocks_unreadable + now.blocks_unreadable,
            blocks_lost: self.blocks_lost + now.blocks_lost,
            zones_retired: self.zones_retired + now.zones_retired,
        }
    }
}

impl LifetimeCounters {
    /// The counters saved last; zeros when there are none.
    pub fn load(path: &Path) -> LifetimeCounters {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Saves them, all at once.
    pub fn save(&self, path: &Path) -> Result<()> {
        let temporary = path.with_extension("json.new");
        std::fs::write(&temporary, serde_json::to_string(self)?)?;
        std::fs::rename(&temporary, path)?;
        Ok(())
    }

    /// Returns the sum of these counters and those of the current service.
    #[must_use]
    pub fn plus(&self, now: &Counters, damage: &[DriveDamage]) -> LifetimeCounters {
        let mut drives = self.drives.clone();
        for damage in damage.iter().filter(|damage| damage.blocks() > 0) {
            let counts = drives.entry(uuid_of(damage)).or_default();
            *counts = counts.plus(damage);
        }
        LifetimeCounters {
            traffic: self.traffic.plus(now),
            work: self.work.plus(now),
            errors: self.errors.plus(now),
            drives,
        }
    }

    /// Uses of groups of the index that were in memory, and of those that had to be read.
    pub fn group_uses(&self) -> (u64, u64) {
        let Work { groups_used, groups_loaded, .. } = self.work;
        (groups_used.saturating_sub(groups_loaded), groups_loaded)
    }

    /// Versions of blocks that were written to slots of the write area, overwritten there, and moved.
    pub fn slots(&self) -> (u64, u64, u64) {
        let Traffic { slot_blocks_written, slot_blocks_absorbed, slot_blocks_moved, .. } = self.traffic;
        (slot_blocks_written, slot_blocks_absorbed, slot_blocks_moved)
    }

    /// Part of the blocks that clients wrote that were overwritten in slots; `None` before the first write.
    #[allow(clippy::cast_precision_loss, reason = "a ratio for display")]
    pub fn hit_share(&self) -> Option<f64> {
        let Traffic { user_blocks_written, slot_blocks_absorbed, .. } = self.traffic;
        (user_blocks_written > 0).then(|| slot_blocks_absorbed as f64 / user_blocks_written as f64)
    }

    /// Blocks that were rebuilt, or could not be.
    pub fn errors(&self) -> Errors {
        self.errors
    }

    /// Damage of a drive over its life.
    pub fn damage_of(&self, drive: Option<&DriveDamage>) -> DamageCounts {
        drive.and_then(|drive| self.drives.get(&uuid_of(drive))).copied().unwrap_or_default()
    }

    /// Blocks written to drives per block written by clients, parity not counted; `None` before the first write.
    pub fn write_amplification(&self) -> Option<f64> {
        self.written().write_amplification()
    }

    /// Bytes written to zones for good for each byte of clients; `None` before the first write.
    pub fn flash_bytes_per_user_byte(&self) -> Option<f64> {
        self.written().flash_bytes_per_user_byte()
    }

    /// Blocks written, as counters of the engine.
    fn written(&self) -> Counters {
        Counters {
            user_blocks_written: self.traffic.user_blocks_written,
            tombstone_blocks_written: self.traffic.tombstone_blocks_written,
            moved_blocks_written: self.traffic.moved_blocks_written,
            slot_blocks_written: self.traffic.slot_blocks_written,
            slot_blocks_moved: self.traffic.slot_blocks_moved,
            padding_blocks_written: self.traffic.padding_blocks_written,
            parity_blocks_written: self.traffic.parity_blocks_written,
            metadata_blocks_written: self.traffic.metadata_blocks_written,
            checkpoint_blocks_written: self.traffic.checkpoint_blocks_written,
            mapping_blocks_written: self.traffic.mapping_blocks_written,
            summary_blocks_written: self.work.summary_blocks_written,
            ..Counters::default()
        }
    }
}

fn uuid_of(drive: &DriveDamage) -> String {
    uuid::Uuid::from_bytes(drive.uuid).to_string()
}

#[cfg(test)]
mod tests;
