//! The shards of a cache together, as an operator acts on them. A shard has a slice of each drive.

use crate::shard::BayRefusal;
use crate::volume::CacheVolume;
use zone::device::{Geometry, ZonedDevice};

/// Function that cuts a drive into the slices of all shards.
pub type Cut<'a> = Box<dyn Fn(Box<dyn ZonedDevice>) -> Vec<Box<dyn ZonedDevice>> + 'a>;

/// See the module.
pub struct Volumes<'a> {
    parts: Vec<&'a mut CacheVolume>,
    cut: Cut<'a>,
    /// Drives as they were before they were cut, also those that have failed since.
    wholes: &'a mut Vec<Option<Geometry>>,
}

impl<'a> Volumes<'a> {
    /// All shards of a cache, with what cuts drives for them, and the geometries of their drives.
    #[must_use]
    pub fn new(
        parts: Vec<&'a mut CacheVolume>,
        cut: Cut<'a>,
        wholes: &'a mut Vec<Option<Geometry>>,
    ) -> Volumes<'a> {
        Volumes { parts, cut, wholes }
    }

    /// Count of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.parts.len()
    }

    /// Geometry of a drive like the one in a place, or any other.
    #[must_use]
    pub fn geometry_like(&self, place: usize) -> Option<Geometry> {
        let own = self.wholes.get(place).copied().flatten();
        own.or_else(|| self.wholes.iter().flatten().next().copied())
    }

    /// Judges a drive for all shards, each by its own slice.
    fn judge(
        &self,
        whole: &Geometry,
        judge: impl Fn(&CacheVolume, &Geometry) -> Result<(), BayRefusal>,
    ) -> Result<(), BayRefusal> {
        let (shards, slice) = (self.parts.len(), whole.slice(self.parts.len()));
        let judged = self.parts.iter().try_for_each(|part| judge(part, &slice));
        judged.map_err(|refusal| refusal.of_all(whole, shards))
    }

    /// Judges whether a new drive may take a place now.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_join(&self, place: usize, geometry: &Geometry) -> Result<(), BayRefusal> {
        self.judge(geometry, |part, slice| part.may_join(place, slice))
    }

    /// An empty drive takes a place.
    ///
    /// # Panics
    /// When it may not ([`Volumes::may_join`]).
    pub fn join(&mut self, place: usize, drive: Box<dyn ZonedDevice>, uuid: [u8; 16]) {
        self.wholes[place] = Some(*drive.geometry());
        let slices = (self.cut)(drive);
        assert!(slices.len() == self.parts.len(), "a slice for each shard");
        for (part, slice) in self.parts.iter_mut().zip(slices) {
            part.join(place, slice, uuid);
        }
    }

    /// Judges whether a place may be made for one drive more.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_grow(&self, geometry: &Geometry) -> Result<(), BayRefusal> {
        self.judge(geometry, CacheVolume::may_grow)
    }

    /// Makes a place for one drive more, and returns it.
    ///
    /// # Panics
    /// When it may not ([`Volumes::may_grow`]).
    pub fn grow(&mut self, geometry: &Geometry) -> usize {
        let slice = geometry.slice(self.parts.len());
        self.wholes.push(None);
        let mut places: Vec<usize> = self.parts.iter_mut().map(|part| part.grow(&slice)).collect();
        places.dedup();
        assert!(places.len() == 1, "places are numbered alike");
        places[0]
    }

    /// Takes a drive out of service, in those shards that have not given it up themselves.
    ///
    /// # Errors
    /// When it may not be.
    pub fn take_out(&mut self, place: usize) -> Result<(), BayRefusal> {
        let judge = |part: &&mut CacheVolume| part.shard().may_take_out(place);
        let judged: Vec<Result<(), BayRefusal>> = self.parts.iter().map(judge).collect();
        let has_failed = |judged: &Result<(), BayRefusal>| matches!(judged, Err(BayRefusal::Failed));
        if let Some(refused) = judged.iter().find(|judged| judged.is_err() && !has_failed(judged)) {
            return *refused;
        }
        let mut all = judged.into_iter().zip(&mut self.parts).filter(|(judged, _)| judged.is_ok()).peekable();
        if all.peek().is_none() {
            return Err(BayRefusal::Failed);
        }
        all.try_for_each(|(_, part)| part.take_out(place))
    }

    /// True when superblocks of all shards say who belongs to them.
    #[must_use]
    pub fn has_recorded(&self) -> bool {
        self.parts.iter().all(|part| part.has_recorded())
    }

    /// True when no drive of some shard takes writes.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.parts.iter().any(|part| part.is_frozen())
    }

    /// Bytes of all places, for which the next mount makes the indexes.
    #[must_use]
    pub fn flash_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.flash_bytes()).sum()
    }

    /// Slots of the indexes, of those that they would have if they were made for the drives that are there now.
    #[must_use]
    pub fn index_share(&self) -> f64 {
        self.parts.iter().map(|part| part.index_share()).fold(1.0, f64::min)
    }
}
