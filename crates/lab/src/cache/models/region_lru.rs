//! Objects fill regions one after the other; the region that was asked for longest ago goes, with all that is in it.

use super::{Ask, Model};
use std::collections::{HashMap, VecDeque};

#[derive(Default)]
struct Region {
    number: u64,
    used: u64,
    used_at: u64,
    keys: Vec<u64>,
}

/// See the module.
pub struct RegionLru {
    region_bytes: u64,
    regions_max: usize,
    clock: u64,
    /// Bytes and the number of the region.
    objects: HashMap<u64, (u32, u64)>,
    /// Oldest first; the last one is filled.
    regions: VecDeque<Region>,
}

impl RegionLru {
    /// An empty one of so many bytes, in regions of so many.
    #[must_use]
    pub fn new(capacity: u64, region_bytes: u64) -> RegionLru {
        let regions_max = usize::try_from(capacity / region_bytes).expect("regions in memory").max(1);
        RegionLru {
            region_bytes,
            regions_max,
            clock: 0,
            objects: HashMap::new(),
            regions: VecDeque::from([Region::default()]),
        }
    }

    fn region(&mut self, number: u64) -> &mut Region {
        let place = self.regions.partition_point(|region| region.number < number);
        &mut self.regions[place]
    }

    fn open_another(&mut self) {
        let number = self.regions.back().map_or(0, |region| region.number + 1);
        if self.regions.len() == self.regions_max {
            let oldest = (0..self.regions.len()).min_by_key(|place| self.regions[*place].used_at);
            let gone = self.regions.remove(oldest.expect("there are regions")).expect("it was found");
            for key in gone.keys {
                if self.objects.get(&key).is_some_and(|(_, number)| *number == gone.number) {
                    self.objects.remove(&key);
                }
            }
        }
        self.regions.push_back(Region { number, used_at: self.clock, ..Region::default() });
    }
}

impl Model for RegionLru {
    fn get(&mut self, _at: usize, ask: &Ask) -> bool {
        let Some((bytes, number)) = self.objects.get(&ask.key).copied() else { return false };
        if bytes != ask.bytes {
            return false;
        }
        self.clock += 1;
        self.region(number).used_at = self.clock;
        true
    }

    fn put(&mut self, _at: usize, ask: &Ask) {
        self.clock += 1;
        let bytes = u64::from(ask.bytes);
        if self.regions.back().is_none_or(|region| region.used + bytes > self.region_bytes) {
            self.open_another();
        }
        let clock = self.clock;
        let region = self.regions.back_mut().expect("one is filled");
        region.used += bytes;
        region.used_at = clock;
        region.keys.push(ask.key);
        self.objects.insert(ask.key, (ask.bytes, region.number));
    }

    fn remove(&mut self, key: u64) {
        // Its bytes stay until the region goes.
        self.objects.remove(&key);
    }
}
