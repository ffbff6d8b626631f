//! A modelled drive in virtual time: the clock jumps to whatever happens next.

use crate::workload::Target;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use drive::timing::{Access, Done, Model, ZoneCondition};

impl Target for Model {
    fn zone_capacity_bytes(&self) -> u64 {
        u64::from(self.profile().geometry().zone_capacity_blocks) * BLOCK_BYTES_U64
    }

    fn submit(&mut self, now: Instant, tag: u64, access: Access) {
        Model::submit(self, now, tag, access);
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<Instant> {
        [until, self.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        Model::advance(self, now, done);
    }

    fn preset_zone(&mut self, zone: u32, written_bytes: u64, condition: ZoneCondition) {
        Model::preset_zone(self, zone, written_bytes, condition);
    }

    fn preset_area(&mut self, zone: u32, held_bytes: u64) {
        Model::preset_zone(self, zone, 0, ZoneCondition::Open);
        Model::preset_area(
            self,
            zone,
            (0..held_bytes / BLOCK_BYTES_U64).map(|block| block * BLOCK_BYTES_U64),
        );
    }
}
