//! Shares: namespaces that have zones, copies in memory and a longest time to live of their own.
//!
//! A share of flash is a number of zones of each drive. A namespace never has more, and evicts its own when it has as many; nothing that others
//! store takes any of them. What has no share has the zones that are left, and those that shares do not fill.

use crate::config::{ACTIVE_ZONES_MIN, active_zones};
use crate::format::SUPERBLOCK_ZONES;
use crate::policy::Eviction;
use crate::request::{Namespace, Object, WallMillis};
use crate::shard::journal_zones;
use std::fmt;
use zone::device::Geometry;

/// Most namespaces with shares.
pub const SHARES_MAX: usize = 8;
/// Fewest zones of a share of a drive: one takes pages while another one goes.
pub const SHARE_ZONES_MIN: u32 = 2;
/// Zones of a drive that are left for what has no share: an open one, a full one, and those that are kept free.
const COMMON_ZONES_MIN: u32 = 4;

/// Share of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The namespace.
    pub namespace: Namespace,
    /// Part of the flash, in hundredths; 0 is no zones of its own.
    pub flash_percent: u32,
    /// Part of the memory for copies, in hundredths; 0 is none of its own.
    pub memory_percent: u32,
    /// Eviction policy of its own zones.
    pub eviction: Eviction,
    /// Longest time to live, in milliseconds.
    pub ttl_max: Option<u64>,
}

/// Shares of a cache, one for a namespace at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares([Option<Share>; SHARES_MAX]);

/// Why there cannot be such shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharesError {
    /// More namespaces than possible.
    TooMany(usize),
    /// A namespace is named twice.
    Twice(Namespace),
    /// Parts add up to more than there is.
    Sum(&'static str, u32),
    /// A drive has too few zones for a share.
    Zones {
        /// The drive.
        place: usize,
        /// The namespace.
        namespace: Namespace,
        /// Zones that it would have.
        zones: u32,
        /// The least part, in hundredths, that is enough.
        enough: u32,
    },
    /// A drive has too few zones for what has no share.
    Common {
        /// The drive.
        place: usize,
    },
    /// A drive allows too few active zones.
    ActiveZones {
        /// The drive.
        place: usize,
        /// Shares of flash that its active zones suffice for.
        shares: u32,
    },
}

impl fmt::Display for SharesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharesError::TooMany(count) => {
                write!(f, "{count} namespaces have shares; {SHARES_MAX} may")
            }
            SharesError::Twice(namespace) => write!(f, "namespace {} is given twice", namespace.0),
            SharesError::Sum(what, percent) => {
                write!(
                    f,
                    "shares of {what} add up to {percent} %; 90 % is the most, for all others need some, too"
                )
            }
            SharesError::Zones { place, namespace, zones, enough } => write!(
                f,
                "the share of namespace {} is {zones} zones of drive {place}, and it needs {SHARE_ZONES_MIN}: use share={enough}%, or \
                 more or smaller zones",
                namespace.0
            ),
            SharesError::Common { place } => write!(
                f,
                "shares leave less than {COMMON_ZONES_MIN} zones of drive {place} to all others: use smaller shares, or more zones"
            ),
            SharesError::ActiveZones { place, shares } => write!(
                f,
                "drive {place} allows active zones for {shares} shares of flash: use so many, or drives that allow more \
                 (each takes one, and a cache {ACTIVE_ZONES_MIN})"
            ),
        }
    }
}

impl std::error::Error for SharesError {}

impl Shares {
    /// Shares of some namespaces.
    ///
    /// # Errors
    /// When there are too many, one is there twice, or parts are more than there is.
    pub fn new(all: &[Share]) -> Result<Shares, SharesError> {
        let mut shares = Shares::default();
        if all.len() > SHARES_MAX {
            return Err(SharesError::TooMany(all.len()));
        }
        for (place, share) in shares.0.iter_mut().zip(all) {
            *place = Some(*share);
        }
        for (index, share) in all.iter().enumerate() {
            if all[..index].iter().any(|other| other.namespace == share.namespace) {
                return Err(SharesError::Twice(share.namespace));
            }
        }
        let flash = all.iter().map(|share| share.flash_percent).sum();
        let memory = all.iter().map(|share| share.memory_percent).sum();
        for (what, sum) in [("flash", flash), ("memory", memory)] {
            if sum > 90 {
                return Err(SharesError::Sum(what, sum));
            }
        }
        Ok(shares)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Share> {
        self.0.iter().flatten()
    }

    /// Share of a namespace.
    #[must_use]
    pub fn of(&self, namespace: Namespace) -> Option<&Share> {
        self.all().find(|share| share.namespace == namespace)
    }

    /// Shares with zones of their own, in order.
    pub fn of_flash(&self) -> impl Iterator<Item = &Share> {
        self.all().filter(|share| share.flash_percent > 0)
    }

    /// Ends the life of an object that is stored at `wall` when its namespace ends it.
    pub fn limit(&self, namespace: Namespace, wall: WallMillis, object: &mut Object) {
        if let Some(most) = self.of(namespace).and_then(|share| share.ttl_max) {
            let end = WallMillis(wall.0.saturating_add(most));
            object.expires = Some(object.expires.map_or(end, |expires| expires.min(end)));
        }
    }

    /// Judges whether drives of these geometries, `None` where one is missing, have room for all shares of flash.
    ///
    /// # Errors
    /// When one has not.
    pub fn check(&self, geometries: &[Option<Geometry>]) -> Result<(), SharesError> {
        for (place, geometry) in geometries.iter().enumerate() {
            let Some(geometry) = geometry else { continue };
            let spare = active_zones(geometry).saturating_sub(ACTIVE_ZONES_MIN);
            if self.of_flash().count() > spare as usize {
                return Err(SharesError::ActiveZones { place, shares: spare });
            }
            let usable = usable_zones(geometry);
            let mut left = usable;
            for share in self.of_flash() {
                let zones = zones_of(share, usable);
                if zones < SHARE_ZONES_MIN {
                    let enough = (SHARE_ZONES_MIN * 100).div_ceil(usable.max(1));
                    return Err(SharesError::Zones { place, namespace: share.namespace, zones, enough });
                }
                left -= zones;
            }
            if left < COMMON_ZONES_MIN {
                return Err(SharesError::Common { place });
            }
        }
        Ok(())
    }

    /// Zones that shares have of a drive, as far as it has room for them.
    #[must_use]
    pub fn on(&self, geometry: &Geometry) -> Vec<OwnShare> {
        let spare = active_zones(geometry).saturating_sub(ACTIVE_ZONES_MIN) as usize;
        let usable = usable_zones(geometry);
        let mut left = usable.saturating_sub(COMMON_ZONES_MIN);
        let mut own = Vec::new();
        for share in self.of_flash().take(spare) {
            let zones = zones_of(share, usable);
            if zones >= SHARE_ZONES_MIN && zones <= left {
                left -= zones;
                let Share { namespace, eviction, .. } = *share;
                own.push(OwnShare { namespace, zones_max: zones as usize, eviction, hand: 0 });
            }
        }
        own
    }
}

/// Zones of a drive that may hold objects.
fn usable_zones(geometry: &Geometry) -> u32 {
    let journal = u32::try_from(journal_zones(geometry.zones as usize)).expect("a part of them");
    geometry.zones.saturating_sub(SUPERBLOCK_ZONES + journal)
}

fn zones_of(share: &Share, usable: u32) -> u32 {
    u32::try_from(u64::from(usable) * u64::from(share.flash_percent) / 100).expect("a part of it")
}

/// Share of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnShare {
    /// The namespace.
    pub namespace: Namespace,
    /// Most zones that it has here.
    pub zones_max: usize,
    /// Eviction policy of these zones.
    pub eviction: Eviction,
    /// Birth of the zone that went last.
    pub hand: u64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn share(namespace: u8, flash_percent: u32) -> Share {
        Share { namespace: Namespace(namespace), flash_percent, ..Share::default() }
    }

    /// Geometry of a drive with so many zones, of which so many may be active.
    pub(crate) fn geometry(zones: u32, active: u32) -> Geometry {
        Geometry {
            zones,
            zone_size_blocks: 64,
            zone_capacity_blocks: 64,
            open_zones_max: active,
            active_zones_max: active,
            append_blocks_max: 8,
            transfer_blocks_max: 8,
            volatile_cache: false,
            areas: None,
        }
    }

    #[test]
    fn shares_are_zones_of_each_drive() {
        let shares = Shares::new(&[share(1, 30), share(3, 20)]).expect("they fit");
        let drive = geometry(54, 14);
        assert_eq!(shares.check(&[Some(drive), None]), Ok(()));
        let zones: Vec<(u8, usize)> =
            shares.on(&drive).iter().map(|own| (own.namespace.0, own.zones_max)).collect();
        assert_eq!(zones, [(1, 15), (3, 10)], "of fifty");
    }

    #[test]
    fn shares_that_cannot_be_are_named() {
        assert_eq!(Shares::new(&[share(1, 30); 2]), Err(SharesError::Twice(Namespace(1))));
        assert_eq!(Shares::new(&[share(1, 50), share(2, 41)]), Err(SharesError::Sum("flash", 91)));
        let nine: Vec<Share> = (0..9).map(|namespace| share(namespace, 1)).collect();
        assert_eq!(Shares::new(&nine), Err(SharesError::TooMany(9)));
        let check = |all: &[Share], zones, active| {
            Shares::new(all).expect("they fit together").check(&[None, Some(geometry(zones, active))])
        };
        let few = SharesError::ActiveZones { place: 1, shares: 1 };
        assert_eq!(check(&[share(1, 30), share(2, 30)], 54, 6), Err(few));
        let short = SharesError::Zones { place: 1, namespace: Namespace(1), zones: 1, enough: 4 };
        assert_eq!(check(&[share(1, 3)], 54, 14), Err(short.clone()));
        assert!(short.to_string().contains("share=4%"), "{short}");
        assert_eq!(check(&[share(1, 4)], 54, 14), Ok(()));
        assert_eq!(check(&[share(1, 75)], 16, 14), Err(SharesError::Common { place: 1 }));
        let crowded = Shares::new(&[share(1, 70), share(2, 20)]).expect("they fit together");
        assert_eq!(crowded.on(&geometry(16, 14)).len(), 1, "what has no room here goes with all others");
    }

    #[test]
    fn lives_end_with_their_namespace() {
        let shares = Shares::new(&[Share { ttl_max: Some(100), ..share(1, 0) }]).expect("one");
        let object = |expires: Option<u64>| Object {
            value: Vec::new().into(),
            flags: 0,
            marks: crate::request::Marks::default(),
            expires: expires.map(WallMillis),
        };
        let limited = |namespace, expires| {
            let mut object = object(expires);
            shares.limit(Namespace(namespace), WallMillis(1000), &mut object);
            object.expires.map(|at| at.0)
        };
        assert_eq!([None, Some(1050), Some(2000)].map(|at| limited(1, at)), [1100, 1050, 1100].map(Some));
        assert_eq!(limited(0, None), None);
    }
}
