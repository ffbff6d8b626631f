//! Starts with another number of shards than the drives are cut into: refused, and nothing is written.

use super::stage::{CACHE, CacheStage};
use crate::tally::Failure;
use ::cache::see_shards;
use zone::device::ZoneState;

impl CacheStage {
    /// Somebody takes the drives for those of a cache of so many shards.
    pub(super) fn recut(&mut self, shards: usize) -> Result<(), Failure> {
        let before = self.zones();
        let found = see_shards(self.drive_sets(shards), CACHE, self.clock.now);
        self.note(&format!("as {shards} shards"));
        self.tally.recuts += 1;
        if let Ok(Some(_)) = found {
            let own = self.plan.shards;
            return Err(Failure::new(format!("drives of {own} shards are taken for those of {shards}")));
        }
        match self.zones() == before {
            true => Ok(()),
            false => {
                Err(Failure::new(format!("drives that were taken for those of {shards} shards changed")))
            }
        }
    }

    /// Zones of all drives, as they are on the media.
    fn zones(&self) -> Vec<(ZoneState, u32)> {
        let zones = (0..self.places()).flat_map(|place| self.zones_of(place));
        zones.map(|found| (found.state, found.write_pointer)).collect()
    }
}
