//! Maps of zones to channel groups: which group a drive gives a zone when it is opened.
//!
//! The map of a real drive is hidden, and fixed while a zone is active. Most drives go round their channels in the order
//! in which zones are opened; wear levelling makes exceptions (BIZA, SOSP '24, section 3.3, by a reading note).

use super::Model;
use super::zone_clock::{ZoneClock, ZoneCondition};
use base::random::Random;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// How many exceptions `mostly` makes, of a thousand, unless it is told.
const EXCEPTIONS_PER_MILLE: u32 = 50;

/// Rule by which zones lie on channel groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ZoneMap {
    /// Zone modulo groups, for good.
    #[default]
    Number,
    /// In turn, in the order in which zones are opened.
    Opening,
    /// Any group, drawn when a zone is opened.
    Random,
    /// As by opening, but for exceptions, which lie on any other group.
    Mostly {
        /// Exceptions of a thousand zones that are opened.
        exceptions_per_mille: u32,
    },
}

impl fmt::Display for ZoneMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ZoneMap::Number => f.write_str("number"),
            ZoneMap::Opening => f.write_str("opening"),
            ZoneMap::Random => f.write_str("random"),
            ZoneMap::Mostly { exceptions_per_mille } => write!(f, "mostly:{exceptions_per_mille}"),
        }
    }
}

impl FromStr for ZoneMap {
    type Err = String;

    fn from_str(text: &str) -> Result<ZoneMap, String> {
        let mostly = |exceptions_per_mille: u32| ZoneMap::Mostly { exceptions_per_mille };
        match text.split_once(':') {
            None if text == "number" => Ok(ZoneMap::Number),
            None if text == "opening" => Ok(ZoneMap::Opening),
            None if text == "random" => Ok(ZoneMap::Random),
            None if text == "mostly" => Ok(mostly(EXCEPTIONS_PER_MILLE)),
            Some(("mostly", share)) => {
                let share = share.parse().ok().filter(|share| *share <= 1000);
                share.map(mostly).ok_or_else(|| format!("`{text}`: exceptions are a number from 0 to 1000"))
            }
            _ => Err(format!("`{text}`: use number, opening, random, mostly or mostly:EXCEPTIONS of 1000")),
        }
    }
}

impl Serialize for ZoneMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ZoneMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ZoneMap, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The map of a drive at work.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    map: ZoneMap,
    groups: u32,
    /// Zones placed in turn so far.
    turn: u32,
    /// Apart from the model's noise, so that maps change no other draw.
    random: Random,
}

impl Placement {
    pub(super) fn new(map: ZoneMap, groups: u32, seed: u64) -> Placement {
        assert!(groups > 0, "every zone lies on a group");
        Placement { map, groups, turn: 0, random: Random::from_seed(seed ^ 0x6d61_7073) }
    }

    /// Group of the next zone that is opened; `None` where the zone's number decides.
    fn next(&mut self) -> Option<u32> {
        let groups = u64::from(self.groups);
        let any = |random: &mut Random, limit: u64| {
            u32::try_from(random.below(limit)).expect("groups are counted by a u32")
        };
        let in_turn = self.turn;
        match self.map {
            ZoneMap::Number => return None,
            ZoneMap::Random => return Some(any(&mut self.random, groups)),
            ZoneMap::Opening | ZoneMap::Mostly { .. } => self.turn = (in_turn + 1) % self.groups,
        }
        let ZoneMap::Mostly { exceptions_per_mille } = self.map else { return Some(in_turn) };
        let is_exception = self.random.chance(u64::from(exceptions_per_mille), 1000);
        if !is_exception || self.groups == 1 {
            return Some(in_turn);
        }
        Some((in_turn + 1 + any(&mut self.random, groups - 1)) % self.groups)
    }
}

impl Model {
    /// An empty zone is about to be opened: the drive gives it a group. A zone with data on its way stays where it is,
    /// and so does one that was placed by hand.
    pub(super) fn settle_group(&mut self, zone: u32) {
        let ZoneClock { condition, in_flight, gathered_bytes, is_pinned, .. } = self.zones[zone as usize];
        if condition != ZoneCondition::Empty || is_pinned || in_flight > 0 || gathered_bytes > 0 {
            return;
        }
        if let Some(group) = self.placement.next() {
            self.zones[zone as usize].group = group;
        }
    }

    /// Group on which a zone lies now.
    ///
    /// # Panics
    /// When the zone does not exist.
    #[must_use]
    pub fn group_of(&self, zone: u32) -> u32 {
        self.zones[zone as usize].group
    }

    /// Moves a zone to another channel group for good, whatever the map says.
    ///
    /// # Panics
    /// When zone or group do not exist.
    pub fn place_zone(&mut self, zone: u32, group: u32) {
        assert!(group < self.core.profile.geometry.groups, "the drive has no channel group {group}");
        let clock = &mut self.zones[zone as usize];
        clock.group = group;
        clock.is_pinned = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::timing::{Access, ModelOptions, Profile};
    use base::time::Instant;

    const ZONES: u32 = 2000;

    /// Groups of zones that were opened in this order.
    fn groups(map: ZoneMap, order: impl Iterator<Item = u32>) -> Vec<u32> {
        let profile = Profile::named("zn540-4tb").unwrap();
        let mut model =
            Model::new(&profile, ModelOptions { seed: 4, zone_map: Some(map), ..Default::default() });
        order
            .map(|zone| {
                model.submit(Instant(0), 0, Access::Open { zone });
                model.group_of(zone)
            })
            .collect()
    }

    #[test]
    fn maps_follow_their_rule() {
        let backwards = || (0..ZONES).rev();
        assert!(groups(ZoneMap::Number, backwards()).into_iter().eq(backwards().map(|zone| zone % 2)));
        assert!(groups(ZoneMap::Opening, backwards()).into_iter().eq((0..ZONES).map(|turn| turn % 2)));
        let random = groups(ZoneMap::Random, backwards());
        let ones: u32 = random.iter().sum();
        assert!((ZONES * 45 / 100..ZONES * 55 / 100).contains(&ones), "{ones}");
        let exceptions_per_mille = 100;
        let mostly = groups(ZoneMap::Mostly { exceptions_per_mille }, backwards());
        let exceptions = (0..ZONES).zip(&mostly).filter(|(turn, group)| turn % 2 != **group).count();
        assert!((150..250).contains(&exceptions), "{exceptions} of {ZONES}");
    }

    /// A zone keeps its group while it is active, and is given one anew after a reset.
    #[test]
    fn a_group_lasts_until_the_zone_is_empty() {
        let profile = Profile::named("zn540-4tb").unwrap();
        let options = ModelOptions { zone_map: Some(ZoneMap::Opening), ..Default::default() };
        let mut model = Model::new(&profile, options);
        let mut step = |access: Access| {
            let mut done = Vec::new();
            model.submit(Instant(model.core.now), 0, access);
            while let Some(at) = model.next_event() {
                model.advance(at, &mut done);
            }
            model.group_of(7)
        };
        let write = Access::Append { zone: 7, bytes: 4096 };
        assert_eq!([step(write), step(write), step(Access::Close { zone: 7 }), step(write)], [0; 4]);
        assert_eq!(step(Access::Reset { zone: 7 }), 0, "nothing is opened yet");
        assert_eq!(step(Access::ZrwaOpen { zone: 7 }), 1);
        step(Access::Reset { zone: 7 });
        assert_eq!(step(write), 0);
    }

    #[test]
    fn maps_are_named() {
        for name in ["number", "opening", "random", "mostly:0", "mostly:1000"] {
            assert_eq!(name.parse::<ZoneMap>().unwrap().to_string(), name);
        }
        assert_eq!("mostly".parse(), Ok(ZoneMap::Mostly { exceptions_per_mille: 50 }));
        for wrong in ["", "any", "mostly:1001", "mostly:x", "number:1"] {
            assert!(wrong.parse::<ZoneMap>().unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
