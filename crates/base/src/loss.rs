//! Reasons why a drive is lost to its host, whatever kind of drive it is.

use std::fmt;

/// Why a drive is lost to its host. Every command is answered with `DeviceGone` from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No name leads to its file any more: what is written is gone with the process.
    Unlinked,
    /// The drive's file is shorter than it was.
    CutShort,
    /// The drive's file cannot be read any more, not even the header.
    Unreadable,
    /// The device was taken out of its host.
    Removed,
    /// Commands were cut off, or not taken for too long, and nobody knows what became of them.
    Interrupted,
    /// The device was away, and its zones are not what they were when it went.
    Changed,
    /// The drive's owner has given it up.
    Abandoned,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::Unlinked => "its file was removed while in use",
            Loss::CutShort => "its file was cut short while in use",
            Loss::Unreadable => "its file cannot be read any more: the device below it has failed or is gone",
            Loss::Removed => "the device was removed from this host",
            Loss::Interrupted => {
                "its controller was reset or took no commands: nobody knows what became of some"
            }
            Loss::Changed => {
                "it was away, and its zones are not what they were: it lost what it had acknowledged, or somebody else wrote it"
            }
            Loss::Abandoned => "it did not answer and was given up",
        })
    }
}
