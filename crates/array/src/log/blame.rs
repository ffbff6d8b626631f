//! Why a member was taken out of the array: what its drive answered, or what is left of it.

use crate::log::token::Waiter;
use std::fmt;
use zone::device::{Status, Token};

/// What a member is blamed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// An operator said so, or the host lost the drive.
    Told,
    /// Its drive answered a command so.
    Answer {
        /// What was asked of it.
        what: &'static str,
        /// The answer.
        status: Status,
    },
    /// More of its zones take no writes any more than may go from one mount to the next.
    ZonesRetired {
        /// Zones that went, the last one included.
        zones: u32,
        /// Zones that may go.
        zones_max: u32,
    },
    /// So many of its zones take no writes any more that those left do not suffice for the volume.
    ReserveGone {
        /// Zones that went since the mount, the last one included.
        zones: u32,
    },
    /// One of its zones took no more writes, and a drive that is gone had the data that was to be written elsewhere instead.
    DataGone,
}

impl Blame {
    /// The drive answered the command of this token so.
    ///
    /// # Panics
    /// When the token is none of ours.
    #[must_use]
    pub fn answer(token: Token, status: Status) -> Blame {
        Blame::Answer { what: Waiter::from_token(token).name(), status }
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blame::Told => write!(formatter, "it was marked failed, or is lost to this host"),
            Blame::Answer { what, status } => {
                write!(formatter, "{what} was answered with {status:?} ({:#05x})", status.nvme_code())
            }
            Blame::ZonesRetired { zones, zones_max } => {
                write!(
                    formatter,
                    "{zones} of its zones refused writes since the mount, where {zones_max} may"
                )
            }
            Blame::ReserveGone { zones } => write!(
                formatter,
                "{zones} of its zones refused writes since the mount, and those left are too few for the volume and its reserve"
            ),
            Blame::DataGone => write!(
                formatter,
                "one of its zones refused a write, and another drive had failed with data that was to be written elsewhere instead"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blame_says_what_and_how_many() {
        let blame = Blame::Answer { what: "a superblock", status: Status::WriteFault };
        assert_eq!(blame.to_string(), "a superblock was answered with WriteFault (0x280)");
        let blame = Blame::ZonesRetired { zones: 9, zones_max: 8 };
        assert_eq!(blame.to_string(), "9 of its zones refused writes since the mount, where 8 may");
    }
}
