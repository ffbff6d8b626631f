//! How a drive breaks, and where: blocks drawn from a seed.

use crate::drive::Drive;
use crate::power::{Blow, Power};
use crate::step::{Damage, Part, Scope, Step};
use crate::trace::Trace;
use base::random::Random;
use base::time::Instant;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use zone::device::{ZoneState, ZonedDevice};
use zone::format::{HEADER_BLOCKS, SUPERBLOCK_ZONES};
use zone::stripe::Layout;

/// Bytes in which headers and superblocks say something; the rest is nearly all zeros, and rot there shows nothing.
const RECORD_BYTES: usize = 256;

impl Drive {
    /// Breaks as a step says; the name of the fault.
    pub fn suffer(
        &mut self,
        step: &Step,
        now: Instant,
        layout: &Layout,
        power: &mut Power,
        trace: &mut Trace,
    ) -> &'static str {
        match *step {
            Step::Die { at: None, .. } => {
                self.die();
                "drive dies"
            }
            Step::Die { member, at: Some(at) } => {
                power.arm(at, Some(member), Blow::Die);
                "drive dies at a command"
            }
            Step::Hang { ms, .. } => {
                self.faults.hangs_until = self.faults.hangs_until.max(Instant(now.0 + ms * 1_000_000));
                "drive hangs"
            }
            Step::Rot(damage) => {
                let hit = self.rot(&damage, layout);
                trace.remark(|| format!("{hit} blocks rot"));
                "blocks rot"
            }
            Step::Unreadable(damage) => {
                let hit = self.make_unreadable(&damage, layout);
                trace.remark(|| format!("{hit} blocks become unreadable"));
                "blocks unreadable"
            }
            Step::Misread { count, .. } => {
                self.faults.misreads += count;
                "misdirected reads"
            }
            Step::MisreadAt { member, at } => {
                power.arm(at, Some(member), Blow::Misread);
                "misdirected reads"
            }
            Step::Stale { count, .. } => {
                self.remember_resets();
                self.faults.stale_reads += count;
                "stale reads"
            }
            Step::Miswrite { member, at } => {
                power.arm(at, Some(member), Blow::Miswrite);
                "misdirected write"
            }
            Step::WriteFault { member, at } => {
                power.arm(at, Some(member), Blow::WriteFault);
                "write fault"
            }
            Step::Zone { offline, seed, .. } => {
                let zone = self.fail_zone(offline, seed);
                trace.remark(|| format!("it is zone {zone}"));
                if offline { "zone offline" } else { "zone read-only" }
            }
            Step::AreaTake { seed, .. } => {
                let zone = self.take_area(seed);
                trace.remark(|| format!("it is zone {zone:?}"));
                "zone taken by its drive"
            }
            Step::Shrink { blocks, .. } => {
                self.faults.shrink_next = blocks;
                "zone shrinks"
            }
            _ => "nothing",
        }
    }

    /// Bits flip. Returns how many blocks were hit.
    fn rot(&mut self, damage: &Damage, layout: &Layout) -> u64 {
        let blocks = self.hit(damage, layout);
        let random = &mut Random::from_seed(!damage.seed);
        for (zone, offset) in &blocks {
            let byte = match (damage.scope, damage.part) {
                (Scope::Headers | Scope::Superblocks, _) => random.index(RECORD_BYTES),
                (_, Part::Data) => random.index(BLOCK_BYTES),
                (_, Part::Oob) => BLOCK_BYTES + random.index(OOB_BYTES),
                (_, Part::Any) => random.index(BLOCK_BYTES + OOB_BYTES),
            };
            self.media_mut().corrupt(ZoneIndex(*zone), *offset, byte, 1 << random.below(8));
        }
        debug_assert!(
            blocks.iter().all(|(zone, _)| *zone < self.media().geometry().zones),
            "zones of the drive"
        );
        blocks.len() as u64
    }

    /// Blocks cannot be read any more until their zone is reset. Returns how many were hit.
    fn make_unreadable(&mut self, damage: &Damage, layout: &Layout) -> u64 {
        let blocks = self.hit(damage, layout);
        let count = blocks.len() as u64;
        self.faults.unreadable.extend(blocks);
        count
    }

    /// A zone that holds a segment, or may, fails for good.
    fn fail_zone(&mut self, offline: bool, seed: u64) -> ZoneIndex {
        let zones = self.media().geometry().zones;
        let span = u64::from(zones - SUPERBLOCK_ZONES);
        assert!(span > 0, "a drive has zones for data");
        let at = Random::from_seed(seed).below(span);
        let zone = ZoneIndex(SUPERBLOCK_ZONES + u32::try_from(at).expect("a zone"));
        let state = if offline { ZoneState::Offline } else { ZoneState::ReadOnly };
        self.media_mut().fail_zone(zone, state);
        zone
    }

    /// Finishes a zone with a random write area, if there is one.
    fn take_area(&mut self, seed: u64) -> Option<ZoneIndex> {
        let zones: Vec<ZoneIndex> = self.zones_with_area();
        let zone = *zones.get(Random::from_seed(seed).index(zones.len().max(1)))?;
        self.finish_by_itself(zone);
        Some(zone)
    }

    /// Loses what windows hold; committed blocks stay.
    pub fn drop_windows(&mut self) {
        for zone in self.zones_with_area() {
            let write_pointer = self.media().zone(zone).write_pointer;
            self.media_mut().set_window(zone, write_pointer, &[]).expect("media in memory take everything");
        }
    }

    fn zones_with_area(&self) -> Vec<ZoneIndex> {
        let zones = SUPERBLOCK_ZONES..self.media().geometry().zones;
        zones.map(ZoneIndex).filter(|zone| self.media().has_area(*zone)).collect()
    }

    /// The blocks that damage hits: written ones in its scope. Those in windows are drawn from a stream of their own.
    fn hit(&self, damage: &Damage, layout: &Layout) -> Vec<(u32, u32)> {
        let random = &mut Random::from_seed(damage.seed);
        let of_windows = &mut Random::from_seed(damage.seed ^ 0x7769_6e64);
        let footer = layout.footer_offset();
        let mut hit = Vec::new();
        for zone in 0..self.media().geometry().zones {
            let found = self.media().zone(ZoneIndex(zone));
            let is_superblock = zone < SUPERBLOCK_ZONES;
            let in_scope = match damage.scope {
                Scope::Superblocks => is_superblock,
                Scope::Open => !is_superblock && found.state.is_active(),
                Scope::All | Scope::Headers | Scope::Footers => !is_superblock,
            };
            assert!(
                found.write_pointer <= self.media().geometry().zone_capacity_blocks,
                "a zone holds its capacity"
            );
            if !in_scope || found.state == ZoneState::Offline {
                continue;
            }
            let blocks = match damage.scope {
                Scope::Headers => 0..HEADER_BLOCKS.min(found.write_pointer),
                Scope::Footers => footer.min(found.write_pointer)..found.write_pointer,
                _ => 0..found.write_pointer,
            };
            hit.extend(
                blocks.filter(|_| random.chance(damage.per_mille, 1_000)).map(|offset| (zone, offset)),
            );
            if matches!(damage.scope, Scope::All | Scope::Open) {
                let window = self.media().window_blocks(ZoneIndex(zone)).into_iter();
                let window = window.filter(|_| of_windows.chance(damage.per_mille, 1_000));
                hit.extend(window.map(|offset| (zone, offset)));
            }
        }
        hit
    }
}
