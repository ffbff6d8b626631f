//! The engines that are simulated, as the world sees them: the log-structured one, and the baselines after RAIZN and ZRAID.

use array::engine::Engine;
use array::log;
use array::log::config::ArrayConfig;
use array::log::volume::LogVolume;
use array::request::{self, Volume as _};
use base::erasure::ErasureCode;
use base::units::DriveIndex;
use baseline::config::{RaiznConfig, Tuning};
use baseline::volume::RaiznVolume;
use baseline::zoned::Zoned;
use baseline::zraid::{self, ZraidVolume};
use zone::device::Geometry;
use zone::drives::DriveSet;
use zone::stripe::Layout;

/// An array that can be made.
#[derive(Clone, Debug)]
pub enum Array {
    /// Array of the log-structured engine.
    Log(ArrayConfig),
    /// Array of the baseline.
    Raizn(RaiznConfig, Tuning),
    /// Array of the baseline after ZRAID.
    Zraid(RaiznConfig),
}

impl Array {
    /// Returns the geometry of the array's drives.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        match self {
            Array::Log(config) => config.geometry,
            Array::Raizn(config, _) | Array::Zraid(config) => config.geometry,
        }
    }

    /// The code of its stripes.
    #[must_use]
    pub fn code(&self) -> ErasureCode {
        match self {
            Array::Log(config) => config.code(),
            Array::Raizn(config, _) | Array::Zraid(config) => config.map().layout.code,
        }
    }

    /// Returns the layout in zones of what clients write.
    #[must_use]
    pub fn layout(&self) -> Layout {
        match self {
            Array::Log(config) => config.user_layout(),
            Array::Raizn(config, _) | Array::Zraid(config) => config.map().layout,
        }
    }

    /// Size of its volume.
    #[must_use]
    pub fn volume_blocks(&self) -> u64 {
        match self {
            Array::Log(config) => config.volume_blocks,
            Array::Raizn(config, _) => {
                u64::from(config.logical_zones()) * u64::from(config.map().zone_blocks())
            }
            Array::Zraid(config) => {
                u64::from(zraid::config::logical_zones(config)) * u64::from(config.map().zone_blocks())
            }
        }
    }

    /// Blocks of a logical zone, where the volume has zones.
    #[must_use]
    pub fn logical_zone_blocks(&self) -> Option<u64> {
        match self {
            Array::Log(_) => None,
            Array::Raizn(config, _) | Array::Zraid(config) => Some(u64::from(config.map().zone_blocks())),
        }
    }

    /// The same with another identity.
    #[must_use]
    pub fn with_identity(&self, array: [u8; 16]) -> Array {
        match self {
            Array::Log(config) => Array::Log(ArrayConfig { array, ..config.clone() }),
            Array::Raizn(config, tuning) => Array::Raizn(RaiznConfig { array, ..*config }, *tuning),
            Array::Zraid(config) => Array::Zraid(RaiznConfig { array, ..*config }),
        }
    }

    /// Makes the array on empty drives.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn format(&self, drives: &mut DriveSet, members: &[[u8; 16]]) -> Result<(), String> {
        assert!(drives.len() == members.len(), "a drive for each member");
        match self {
            Array::Log(config) => {
                log::format(drives, config, members).map(|_| ()).map_err(|error| error.to_string())
            }
            Array::Raizn(config, tuning) => {
                baseline::format(drives, config, tuning).map_err(|error| error.to_string())
            }
            Array::Zraid(config) => zraid::format(drives, config).map_err(|error| error.to_string()),
        }
    }
}

/// A mounted volume.
pub enum Volume {
    /// Volume of the log-structured engine.
    Log(Box<LogVolume>),
    /// Volume of the baseline.
    Raizn(Box<RaiznVolume>),
    /// Volume of the baseline after ZRAID.
    Zraid(Box<ZraidVolume>),
}

impl Volume {
    /// The engine, as every engine is known.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        match self {
            Volume::Log(volume) => &volume.engine,
            Volume::Raizn(volume) => &volume.engine,
            Volume::Zraid(volume) => &volume.engine,
        }
    }

    /// The volume, as clients know it.
    pub fn clients_view(&mut self) -> &mut dyn request::Volume {
        match self {
            Volume::Log(volume) => &mut **volume,
            Volume::Raizn(volume) => &mut **volume,
            Volume::Zraid(volume) => &mut **volume,
        }
    }

    /// The log-structured engine with its drives, if that is the one.
    pub fn log(&mut self) -> Option<&mut LogVolume> {
        match self {
            Volume::Log(volume) => Some(volume),
            Volume::Raizn(_) | Volume::Zraid(_) => None,
        }
    }

    /// The engine, where the volume has zones.
    pub fn zoned(&self) -> Option<&dyn Zoned> {
        match self {
            Volume::Log(_) => None,
            Volume::Raizn(volume) => Some(&volume.engine),
            Volume::Zraid(volume) => Some(&volume.engine),
        }
    }

    /// True when engine and drives may part.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        match self {
            Volume::Log(volume) => volume.is_at_rest(),
            Volume::Raizn(volume) => volume.is_at_rest(),
            Volume::Zraid(volume) => volume.is_at_rest(),
        }
    }

    /// True when another server has taken the drives.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self {
            Volume::Log(volume) => volume.has_ended(),
            Volume::Raizn(_) | Volume::Zraid(_) => false,
        }
    }

    /// Takes a member for failed, because an operator says so.
    pub fn fail_member(&mut self, member: DriveIndex) {
        match self {
            Volume::Log(volume) => volume.fail_member(member),
            Volume::Raizn(volume) => volume.fail_member(member),
            Volume::Zraid(volume) => volume.fail_member(member),
        }
    }
}
