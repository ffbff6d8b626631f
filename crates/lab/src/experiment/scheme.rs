//! Schemes: how stripes are placed in zones.

use array::log::config::AppendUse;
use serde::{Serialize, Serializer};

/// Stripes of a group unless an experiment varies them (ZapRAID section 5.2).
pub const GROUP_STRIPES: u32 = 256;

/// A way to place stripes, as the ZapRAID paper compares them (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Zone Append in groups of stripes.
    ZapRaid,
    /// Zone Write: a group is one stripe.
    ZoneWriteOnly,
    /// Zone Append without groups: a group is a whole segment.
    ZoneAppendOnly,
}

/// All of them.
pub const ALL: [Scheme; 3] = [Scheme::ZapRaid, Scheme::ZoneWriteOnly, Scheme::ZoneAppendOnly];

impl Scheme {
    /// Stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheme::ZapRaid => "zapraid",
            Scheme::ZoneWriteOnly => "zone-write-only",
            Scheme::ZoneAppendOnly => "zone-append-only",
        }
    }

    /// Which of several open segments are written with Zone Append.
    #[must_use]
    pub fn append_use(self) -> AppendUse {
        match self {
            Scheme::ZapRaid | Scheme::ZoneWriteOnly => AppendUse::OneSmall,
            Scheme::ZoneAppendOnly => AppendUse::All,
        }
    }

    /// Stripes of a group in segments of `stripes`; `group` is what an experiment asks for.
    #[must_use]
    pub fn group_stripes(self, group: Option<u32>, stripes: u32) -> u32 {
        match self {
            Scheme::ZapRaid => group.unwrap_or(GROUP_STRIPES),
            Scheme::ZoneWriteOnly => 1,
            Scheme::ZoneAppendOnly => stripes,
        }
    }
}

impl Serialize for Scheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
