//! The engines that are simulated, as the world sees them: the log-structured one, and the baseline after RAIZN.

use array::log::config::ArrayConfig;
use array::log::volume::LogVolume;
use array::log::{self, Shard};
use array::request::{Reply, Request};
use base::erasure::ErasureCode;
use base::frame::FramePool;
use base::time::Instant;
use base::units::DriveIndex;
use baseline::config::{RaiznConfig, Tuning};
use baseline::volume::RaiznVolume;
use zone::device::Geometry;
use zone::drives::DriveSet;
use zone::stripe::Layout;

/// An array that can be made.
#[derive(Clone, Debug)]
pub enum Array {
    /// Of the log-structured engine.
    Log(ArrayConfig),
    /// Of the baseline.
    Raizn(RaiznConfig, Tuning),
}

impl Array {
    /// What its drives are made of.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        match self {
            Array::Log(config) => config.geometry,
            Array::Raizn(config, _) => config.geometry,
        }
    }

    /// The code of its stripes.
    #[must_use]
    pub fn code(&self) -> ErasureCode {
        match self {
            Array::Log(config) => config.code(),
            Array::Raizn(config, _) => config.map().layout.code,
        }
    }

    /// How what clients write lies in zones.
    #[must_use]
    pub fn layout(&self) -> Layout {
        match self {
            Array::Log(config) => config.user_layout(),
            Array::Raizn(config, _) => config.map().layout,
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
        }
    }

    /// The same with another identity.
    #[must_use]
    pub fn with_identity(&self, array: [u8; 16]) -> Array {
        match self {
            Array::Log(config) => Array::Log(ArrayConfig { array, ..config.clone() }),
            Array::Raizn(config, tuning) => Array::Raizn(RaiznConfig { array, ..*config }, *tuning),
        }
    }

    /// Makes the array on empty drives.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn format(&self, drives: &mut DriveSet, members: &[[u8; 16]]) -> Result<(), String> {
        match self {
            Array::Log(config) => {
                log::format(drives, config, members).map(|_| ()).map_err(|error| error.to_string())
            }
            Array::Raizn(config, tuning) => {
                baseline::format(drives, config, tuning).map_err(|error| error.to_string())
            }
        }
    }
}

/// A mounted volume.
pub enum Volume {
    /// Of the log-structured engine.
    Log(Box<LogVolume>),
    /// Of the baseline.
    Raizn(Box<RaiznVolume>),
}

impl Volume {
    /// The log-structured engine.
    ///
    /// # Panics
    /// When it is the other one.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        match self {
            Volume::Log(volume) => volume.shard(),
            Volume::Raizn(_) => panic!("only asked of the log-structured engine"),
        }
    }

    /// The log-structured engine with its drives.
    ///
    /// # Panics
    /// When it is the other one.
    pub fn log(&mut self) -> &mut LogVolume {
        match self {
            Volume::Log(volume) => volume,
            Volume::Raizn(_) => panic!("only asked of the log-structured engine"),
        }
    }

    /// The baseline with its drives.
    ///
    /// # Panics
    /// When it is the other one.
    pub fn raizn(&mut self) -> &mut RaiznVolume {
        match self {
            Volume::Raizn(volume) => volume,
            Volume::Log(_) => panic!("only asked of the baseline"),
        }
    }

    /// Accepts a request.
    pub fn submit(&mut self, now: Instant, request: Request) {
        match self {
            Volume::Log(volume) => volume.submit(now, request),
            Volume::Raizn(volume) => volume.submit(request),
        }
    }

    /// Makes what progress is possible; true when another turn may make more.
    pub fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        match self {
            Volume::Log(volume) => volume.turn(now, replies),
            Volume::Raizn(volume) => volume.turn(now, replies),
        }
    }

    /// When the next turn is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match self {
            Volume::Log(volume) => volume.next_deadline(),
            Volume::Raizn(volume) => volume.next_event(),
        }
    }

    /// The pool of frames.
    pub fn frames(&mut self) -> &mut FramePool {
        match self {
            Volume::Log(volume) => volume.frames(),
            Volume::Raizn(volume) => volume.frames(),
        }
    }

    /// True when clients may have so many more frames. The baseline does not bound them.
    #[must_use]
    pub fn has_frames(&self, frames: usize) -> bool {
        match self {
            Volume::Log(volume) => volume.shard().client_frames_available() >= frames,
            Volume::Raizn(_) => true,
        }
    }

    /// True when nothing is under way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        match self {
            Volume::Log(volume) => volume.shard().is_quiet(),
            Volume::Raizn(volume) => volume.is_at_rest(),
        }
    }

    /// True when engine and drives may part.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        match self {
            Volume::Log(volume) => volume.is_at_rest(),
            Volume::Raizn(volume) => volume.is_at_rest(),
        }
    }

    /// An operator says that a member has failed.
    pub fn fail_member(&mut self, member: DriveIndex) {
        match self {
            Volume::Log(volume) => volume.fail_member(member),
            Volume::Raizn(volume) => volume.fail_member(member),
        }
    }

    /// How the engine stands.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Volume::Log(volume) => volume.shard().describe(),
            Volume::Raizn(volume) => volume.engine().describe(),
        }
    }

    /// What should have happened by now and has not.
    #[must_use]
    pub fn overdue(&self, now: Instant) -> Option<String> {
        match self {
            Volume::Log(volume) => volume.shard().audit_deadline(now),
            Volume::Raizn(_) => None,
        }
    }

    /// True while recovery goes on after the mount. That of the baseline is over by then.
    #[must_use]
    pub fn has_recovery_debt(&self) -> bool {
        match self {
            Volume::Log(volume) => volume.shard().has_recovery_debt(),
            Volume::Raizn(_) => false,
        }
    }

    /// True when recovery must begin anew.
    #[must_use]
    pub fn must_mount_again(&self) -> bool {
        match self {
            Volume::Log(volume) => volume.shard().must_mount_again(),
            Volume::Raizn(_) => false,
        }
    }
}
