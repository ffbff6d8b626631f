//! Oracle: versions of each key, and which of them an answer may be.
//!
//! ```text
//!   version   1 ... floor ... begun          older than the floor: stale, for ever
//!                    │ newest acknowledged, or read, or known to be gone
//! ```
//! Operations on a key are answered in their order, so versions are numbered as they are asked for.

use super::act::KEYS;
use crate::tally::Failure;
use ::cache::hash::FullKey;
use ::cache::request::{Namespace, Object, Part, Told};
use std::collections::BTreeMap;

/// Namespace and name of a key.
pub(super) fn name_of(key: usize) -> (Namespace, Vec<u8>) {
    let mut name = format!("key{key}").into_bytes();
    if key % 7 == 5 {
        name.resize(300, b'-');
    }
    (Namespace(u8::try_from(key % 2).expect("0 or 1")), name)
}

/// Key as the cache hashes it.
pub(super) fn full_key(key: usize) -> FullKey {
    let (namespace, name) = name_of(key);
    FullKey::new(namespace, &name)
}

/// A key.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Objects of versions; `None` says that the key was removed. Versions that came to nothing have none.
    versions: BTreeMap<u64, Option<Object>>,
    /// Version that was begun last.
    begun: u64,
    /// Older versions may not be seen any more.
    floor: u64,
    /// Versions below this one have expired before everybody's eyes.
    expired_below: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Oracle {
    keys: Vec<Known>,
}

impl Oracle {
    pub fn new() -> Oracle {
        Oracle { keys: vec![Known::default(); KEYS] }
    }

    /// A new version of a key, not known in content.
    pub fn begin(&mut self, key: usize) -> u64 {
        self.keys[key].begun += 1;
        self.keys[key].begun
    }

    /// Versions lie between those that may be seen and the one that was begun last.
    pub fn check(&self) {
        for (key, Known { versions, begun, floor, expired_below }) in self.keys.iter().enumerate() {
            assert!(floor <= begun, "key {key}: nothing older than {floor} may be seen, of {begun} versions");
            let newest = versions.keys().next_back().copied().unwrap_or(0);
            assert!(newest <= *begun, "key {key}: version {newest} of {begun}");
            assert!(
                *expired_below <= begun + 1,
                "key {key}: versions below {expired_below} of {begun} expired"
            );
            assert!(!versions.contains_key(&0), "key {key}: versions are numbered from one");
        }
    }

    /// What a version is.
    pub fn define(&mut self, key: usize, version: u64, object: Option<Object>) {
        let known = &mut self.keys[key];
        assert!(
            version > 0 && version <= known.begun,
            "key {key}: version {version} of {} is decided",
            known.begun
        );
        let before = known.versions.insert(version, object);
        assert!(before.is_none(), "a version is decided once");
    }

    /// A version was acknowledged: older ones are gone.
    pub fn acknowledge(&mut self, key: usize, version: u64) {
        let known = &mut self.keys[key];
        assert!(version <= known.begun, "key {key}: version {version} of {} is answered", known.begun);
        known.floor = known.floor.max(version);
    }

    /// The last object that was stored under a key.
    pub fn last(&self, key: usize) -> Option<&Object> {
        self.keys[key].versions.values().rev().flatten().next()
    }

    /// Version that was begun last.
    pub fn begun(&self, key: usize) -> u64 {
        self.keys[key].begun
    }

    /// The object that a read returns that comes after version `last` if nothing was forgotten, with its version; `None`
    /// when there is none, or nobody knows which.
    pub fn newest(&self, key: usize, last: u64) -> Option<(u64, &Object)> {
        let known = &self.keys[key];
        let from = known.floor;
        let (version, object) = known.versions.range(from..=last.max(from)).next_back()?;
        let is_sure = *version == known.floor;
        object.as_ref().filter(|_| is_sure).map(|object| (*version, object))
    }

    /// Judges an object that was answered when the clock of the cache stood at `wall`; its version.
    pub fn judge(&self, key: usize, object: &Object, wall: u64) -> Result<u64, Failure> {
        let known = &self.keys[key];
        let is_it = |(_, own): &(&u64, &Option<Object>)| own.as_ref() == Some(object);
        // The newest of equal ones.
        let Some((version, _)) = known.versions.iter().rev().find(is_it) else {
            let start = String::from_utf8_lossy(&object.value[..object.value.len().min(24)]).into_owned();
            return Err(Failure::new(format!("key {key}: `{start}` was never stored under it")));
        };
        if *version < known.floor {
            let floor = known.floor;
            return Err(Failure::new(format!("key {key}: version {version} is stale, {floor} was known")));
        }
        let is_over = object.expires.is_some_and(|at| at.0 <= wall);
        if is_over || *version < known.expired_below {
            return Err(Failure::new(format!("key {key}: version {version} has expired")));
        }
        Ok(*version)
    }

    /// Judges an object with a part of its value, which may be the same part of several versions.
    pub fn judge_part(&self, key: usize, part: Part, object: &Object, wall: u64) -> Result<(), Failure> {
        let known = &self.keys[key];
        let versions = known.versions.iter().filter_map(|(version, own)| Some((*version, own.as_ref()?)));
        let mut equal = versions.filter(|(_, own)| part.cut((*own).clone()) == *object).peekable();
        if equal.peek().is_none() {
            return Err(Failure::new(format!(
                "key {key}: {part:?} of what was stored is never what was answered"
            )));
        }
        let from = known.floor.max(known.expired_below);
        let is_right =
            |(version, own): (u64, &Object)| version >= from && own.expires.is_none_or(|at| at.0 > wall);
        if equal.any(is_right) {
            return Ok(());
        }
        Err(Failure::new(format!("key {key}: {part:?} is stale or has expired")))
    }

    /// A read that comes after version `last` did not find a key at `wall`: what has expired by then is gone for good.
    pub fn missed(&mut self, key: usize, last: u64, wall: u64) {
        let begun = self.keys[key].begun;
        assert!(last <= begun, "key {key}: a read comes after version {last} of {begun}");
        if let Some((version, object)) = self.newest(key, last)
            && object.expires.is_some_and(|at| at.0 <= wall)
        {
            self.keys[key].expired_below = version + 1;
        }
    }

    /// True when something that a request may find which comes after version `last` has expired at `wall`.
    pub fn may_have_expired(&self, key: usize, last: u64, wall: u64) -> bool {
        let known = &self.keys[key];
        let found = known.versions.range(known.floor..=last.max(known.floor));
        let mut objects = found.filter_map(|(_, object)| object.as_ref());
        objects.any(|object| object.expires.is_some_and(|at| at.0 <= wall))
    }

    /// True when some version of a key has the size and the end that a walk tells.
    pub fn was_ever(&self, key: usize, told: &Told) -> bool {
        let is_it =
            |object: &Object| object.value.len() as u64 == told.value_bytes && object.expires == told.expires;
        self.keys[key].versions.values().flatten().any(is_it)
    }

    /// True when an object may be there at `wall`.
    pub fn may_exist(&self, key: usize, wall: u64) -> bool {
        let known = &self.keys[key];
        known.versions.range(known.floor..).any(|(_, object)| {
            object.as_ref().is_some_and(|object| object.expires.is_none_or(|at| at.0 > wall))
        })
    }
}
