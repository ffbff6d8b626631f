//! Faults of drives.

use super::act::Act;
use super::stage::{Bays, CacheStage};
use crate::drive::Drive;
use crate::power::Blow;
use crate::rack::Rack;
use base::random::Random;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use std::collections::BTreeSet;
use zone::device::ZoneState;

impl CacheStage {
    pub(super) fn lose(&mut self, drive: usize, of: impl Fn(&mut Bays) -> &mut BTreeSet<usize>) {
        if drive < self.places() {
            of(&mut self.bays).insert(drive);
            self.tally.faults += 1;
        }
    }

    /// A fault of a drive, in service.
    pub(super) fn break_drive(&mut self, act: &Act) {
        if self.files.is_some() && !matches!(act, Act::Die { .. } | Act::WriteFault { .. }) {
            // Those are faults of blocks and answers: the simulation of conventional drives by themselves has the former.
            return;
        }
        self.tally.faults += 1;
        let (Act::Die { drive, .. }
        | Act::WriteFault { drive, .. }
        | Act::Rot { drive, .. }
        | Act::Spoil { drive, .. }
        | Act::Misread { drive, .. }
        | Act::Miswrite { drive, .. }
        | Act::LoseZone { drive, .. }
        | Act::Relapse { drive, .. }
        | Act::SpoilJournal { drive }
        | Act::Stale { drive, .. }) = *act
        else {
            unreachable!("other acts were done")
        };
        if drive >= self.places() {
            return;
        }
        let mut rack = self.rack.lock();
        let Rack { drives, power, trace, .. } = &mut *rack;
        trace.remark(|| format!("{act:?}"));
        match *act {
            Act::Die { at: None, .. } => {
                drives[drive].die();
                self.files.iter().for_each(|files| files.die(drive));
            }
            Act::Die { at: Some(at), .. } => power.arm(at.at(), Some(drive), Blow::Die),
            Act::WriteFault { at, .. } => power.arm(at.at(), Some(drive), Blow::WriteFault),
            Act::Rot { blocks, .. } => {
                for (zone, offset) in any_blocks(&drives[drive], &mut self.random, blocks) {
                    let byte = self.random.index(BLOCK_BYTES + OOB_BYTES);
                    let mask = 1 << self.random.below(8);
                    drives[drive].media_mut().corrupt(ZoneIndex(zone), offset, byte, mask);
                }
            }
            Act::Spoil { blocks, .. } => {
                let hit = any_blocks(&drives[drive], &mut self.random, blocks);
                drives[drive].faults.unreadable.extend(hit);
            }
            Act::Misread { count, .. } => drives[drive].faults.misreads += count,
            Act::Miswrite { at, .. } => power.arm(at.at(), Some(drive), Blow::Miswrite),
            Act::LoseZone { zone, .. } => {
                let zone = drives[drive].data_zone(zone % drives[drive].data_zones());
                drives[drive].media_mut().fail_zone(zone, ZoneState::Offline);
            }
            Act::Stale { count, .. } => drives[drive].faults.stale_reads += count,
            Act::Relapse { reads, .. } => {
                let ends = drives[drive].relapsing_blocks();
                drives[drive].faults.relapses.extend(ends.into_iter().map(|block| (block, reads)));
            }
            Act::SpoilJournal { .. } => {
                let mut ends = drives[drive].journal_ends();
                let hit = (!ends.is_empty()).then(|| ends.swap_remove(self.random.index(ends.len())));
                drives[drive].faults.unreadable.extend(hit);
            }
            _ => unreachable!("other acts were done"),
        }
        match act {
            Act::Die { .. } | Act::WriteFault { .. } => self.bays.blamed.insert(drive),
            _ => self.bays.spoilt.insert(drive),
        };
        self.bays.has_lost |= !self.bays.spoilt.is_empty();
    }
}

/// Blocks of a drive that were written, outside of superblock logs.
fn any_blocks(drive: &Drive, random: &mut Random, count: usize) -> Vec<(u32, u32)> {
    let mut blocks = Vec::new();
    for _ in 0..count {
        let number = random.below(u64::from(drive.data_zones()));
        let zone = drive.data_zone(u32::try_from(number).expect("a u32"));
        let found = drive.media().zone(zone);
        if found.write_pointer > 0 {
            let offset = u32::try_from(random.below(u64::from(found.write_pointer))).expect("a u32");
            blocks.push((zone.0, offset));
        }
    }
    blocks
}
