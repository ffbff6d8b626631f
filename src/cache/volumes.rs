//! The shards of a cache together, as an operator acts on them. A shard has a slice of each drive.

use super::memory;
use anyhow::{Context, Result};
use cache::CacheVolume;
use cache::shard::BayRefusal;
use drive::Bell;
use drive::slices::{cut, geometry_of};
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// So many bells, which nobody listens to yet.
///
/// # Errors
/// When the system has no descriptors left.
pub fn bells(count: usize) -> Result<Vec<Bell>> {
    let bells = (0..count).map(|_| Bell::new()).collect::<std::io::Result<_>>();
    bells.context("event descriptors of the shards")
}

/// Drives of each shard, one shard for each bell: each drive is cut into slices, where there are several.
pub fn sets(drives: Vec<Option<Box<dyn ZonedDevice>>>, bells: &[Bell]) -> Vec<DriveSet> {
    let mut sets: Vec<Vec<Option<Box<dyn ZonedDevice>>>> = bells.iter().map(|_| Vec::new()).collect();
    for drive in drives {
        let mut slices = drive.map(|drive| sliced(drive, bells)).into_iter().flatten();
        sets.iter_mut().for_each(|set| set.push(slices.next()));
    }
    sets.into_iter().map(DriveSet::new).collect()
}

/// Slices of a drive; the drive itself where there is one.
fn sliced(drive: Box<dyn ZonedDevice>, bells: &[Bell]) -> Vec<Box<dyn ZonedDevice>> {
    match bells.len() {
        1 => vec![drive],
        _ => cut(drive, bells).into_iter().map(|slice| Box::new(slice) as Box<dyn ZonedDevice>).collect(),
    }
}

/// See the module.
pub struct Volumes<'a> {
    parts: Vec<&'a mut CacheVolume>,
    bells: &'a [Bell],
    /// Drives as they were before they were cut, also those that have failed since.
    wholes: &'a mut Vec<Option<Geometry>>,
}

impl<'a> Volumes<'a> {
    /// All shards of a cache, with the bells of their owners and the geometries of their drives.
    pub fn new(
        parts: Vec<&'a mut CacheVolume>,
        bells: &'a [Bell],
        wholes: &'a mut Vec<Option<Geometry>>,
    ) -> Volumes<'a> {
        assert!(parts.len() == bells.len(), "a bell for each shard");
        Volumes { parts, bells, wholes }
    }

    /// Count of shards.
    pub fn shards(&self) -> usize {
        self.parts.len()
    }

    /// Geometry of a drive like the one in a place, or any other.
    pub fn geometry_like(&self, place: usize) -> Option<Geometry> {
        let own = self.wholes.get(place).copied().flatten();
        own.or_else(|| self.wholes.iter().flatten().next().copied())
    }

    fn slice(&self, geometry: &Geometry) -> Geometry {
        geometry_of(geometry, self.parts.len())
    }

    /// Judges whether a new drive may take a place now.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_join(&self, place: usize, geometry: &Geometry) -> Result<(), BayRefusal> {
        let slice = self.slice(geometry);
        self.parts.iter().try_for_each(|part| part.may_join(place, &slice))
    }

    /// An empty drive takes a place.
    ///
    /// # Panics
    /// When it may not ([`Volumes::may_join`]).
    pub fn join(&mut self, place: usize, drive: Box<dyn ZonedDevice>, uuid: [u8; 16]) {
        self.wholes[place] = Some(*drive.geometry());
        for (part, slice) in self.parts.iter_mut().zip(sliced(drive, self.bells)) {
            part.join(place, slice, uuid);
        }
    }

    /// Judges whether a place may be made for one drive more.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_grow(&self, geometry: &Geometry) -> Result<(), BayRefusal> {
        let slice = self.slice(geometry);
        let of_all = |refusal| match refusal {
            BayRefusal::Memory(short) => BayRefusal::Memory(memory::of_all(short, self.parts.len())),
            other => other,
        };
        self.parts.iter().try_for_each(|part| part.may_grow(&slice)).map_err(of_all)
    }

    /// Makes a place for one drive more, and returns it.
    ///
    /// # Panics
    /// When it may not ([`Volumes::may_grow`]).
    pub fn grow(&mut self, geometry: &Geometry) -> usize {
        let slice = self.slice(geometry);
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
    pub fn has_recorded(&self) -> bool {
        self.parts.iter().all(|part| part.has_recorded())
    }

    /// True when no drive of some shard takes writes.
    pub fn is_frozen(&self) -> bool {
        self.parts.iter().any(|part| part.is_frozen())
    }

    /// Bytes of all places, for which the next mount makes the indexes.
    pub fn flash_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.flash_bytes()).sum()
    }

    /// Slots of the indexes, of those that they would have if they were made for the drives that are there now.
    pub fn index_share(&self) -> f64 {
        self.parts.iter().map(|part| part.index_share()).fold(1.0, f64::min)
    }
}
