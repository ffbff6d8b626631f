//! Starts with another number of shards than the drives are cut into: refused, and nothing is written.

use super::world::{CACHE, World};
use crate::tally::Failure;
use ::cache::see_shards;
use base::units::ZoneIndex;
use zone::device::{ZoneState, ZonedDevice};

impl World {
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
        let rack = self.rack.lock();
        let media = rack.drives.iter().map(|drive| drive.media());
        let zones = media.flat_map(|media| {
            (0..media.geometry().zones).map(|zone| {
                let found = media.zone(ZoneIndex(zone));
                (found.state, found.write_pointer)
            })
        });
        zones.collect()
    }
}
