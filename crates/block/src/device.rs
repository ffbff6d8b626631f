//! Ordinary block devices: what can be asked of one and how it answers.
//!
//! A device is a [`BlockDevice`]: commands go in through `submit`, completions come out of `poll`, in any order. Buffers travel
//! with the command and come home with its completion. Addresses are sectors of 512 bytes, for data of md need not begin at a
//! multiple of 4 KiB; transfers are whole frames of 4 KiB. The out-of-band bytes of frames do not exist here.
//!
//! Commands have no order among each other but for completion: a write is begun before an earlier one ends only where both may
//! land in either order. A write is atomic by [`Geometry::atomic_sectors`] when the power fails.

use crate::condition::Condition;
use crate::md::SECTOR_BYTES_U64;
use base::frame::Frame;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;

/// Sectors of a frame.
pub const FRAME_SECTORS: u64 = BLOCK_BYTES_U64 / SECTOR_BYTES_U64;

/// Says who waits for a command. Opaque to the device; it comes back with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// A token of a kind of waiter and one of them.
    ///
    /// # Panics
    /// When the waiter's number takes more than 56 bits.
    #[must_use]
    pub fn pack(kind: u8, waiter: u64) -> Token {
        assert!(waiter < 1 << 56, "waiter {waiter} takes more than 56 bits");
        Token(u64::from(kind) << 56 | waiter)
    }

    /// Kind and waiter.
    #[must_use]
    pub fn unpack(self) -> (u8, u64) {
        let [kind, ..] = self.0.to_be_bytes();
        (kind, self.0 & ((1 << 56) - 1))
    }
}

/// Size and limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Sectors of the device.
    pub sectors: u64,
    /// Sectors of which a write lands all or none when the power fails: 1, or 8 of drives with sectors of 4 KiB.
    pub atomic_sectors: u32,
    /// True when completed writes may be lost on power failure until a flush completes.
    pub volatile_cache: bool,
}

/// An operation.
#[derive(Debug)]
pub enum Op {
    /// Reads `frames.len()` frames from `sector` on.
    Read {
        /// First sector.
        sector: u64,
        /// Frames to fill.
        frames: Vec<Frame>,
    },
    /// Writes `frames.len()` frames from `sector` on.
    Write {
        /// First sector.
        sector: u64,
        /// Frames to write.
        frames: Vec<Frame>,
        /// The completion comes when these frames survive a power failure (FUA).
        durable: bool,
    },
    /// Makes every write that completed before this command durable against power failure.
    Flush,
    /// Makes sectors read as zeros.
    WriteZeroes {
        /// First sector.
        sector: u64,
        /// Count of sectors.
        sectors: u64,
        /// The device may give their space up, as long as they read as zeros.
        may_unmap: bool,
    },
    /// Tells that sectors are not needed; what they read as afterwards is not defined.
    Discard {
        /// First sector.
        sector: u64,
        /// Count of sectors.
        sectors: u64,
    },
}

impl Op {
    /// First sector and count of sectors; `None` of a flush.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        let frames_sectors = |frames: &[Frame]| u64::try_from(frames.len()).ok()?.checked_mul(FRAME_SECTORS);
        match self {
            Op::Read { sector, frames } | Op::Write { sector, frames, .. } => {
                Some((*sector, frames_sectors(frames)?))
            }
            Op::WriteZeroes { sector, sectors, .. } | Op::Discard { sector, sectors } => {
                Some((*sector, *sectors))
            }
            Op::Flush => None,
        }
    }

    /// True when the operation lies on a device of so many sectors.
    #[must_use]
    pub fn is_within(&self, sectors: u64) -> bool {
        let Some((first, count)) = self.range() else { return matches!(self, Op::Flush) };
        first.checked_add(count).is_some_and(|end| end <= sectors)
    }

    /// Frames of the operation.
    #[must_use]
    pub fn into_frames(self) -> Vec<Frame> {
        match self {
            Op::Read { frames, .. } | Op::Write { frames, .. } => frames,
            Op::Flush | Op::WriteZeroes { .. } | Op::Discard { .. } => Vec::new(),
        }
    }
}

/// A command on its way to a device.
#[derive(Debug)]
pub struct Command {
    /// Waiter of the command.
    pub token: Token,
    /// Operation to carry out.
    pub op: Op,
}

/// A command's outcome.
#[derive(Debug)]
pub struct Completion {
    /// Waiter of the command.
    pub token: Token,
    /// Result of the command.
    pub status: Status,
    /// The command's frames, home again whatever the status.
    pub frames: Vec<Frame>,
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Success,
    /// The command reaches beyond the end of the device.
    OutOfRange,
    /// The media could not return the data. The rest of the device works.
    ReadError,
    /// The write, zeroing or flush failed: what is on the media is not known.
    WriteError,
    /// The host lost the device; the command may or may not have been executed.
    DeviceGone,
    /// A read was not carried out, for its device is away and may come back: asked again, it waits for that.
    Stalled,
}

/// An ordinary block device.
pub trait BlockDevice: Send {
    /// Size and limits of the device. They do not change.
    fn geometry(&self) -> &Geometry;

    /// Hands over a command. It never blocks for long and never fails: whatever is wrong with the command comes back as the
    /// status of its completion.
    fn submit(&mut self, now: Instant, command: Command);

    /// Moves the completions that are due by `now` into `completions`, in any order.
    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>);

    /// Time at which the next completion is due, for devices that live in virtual time. `None` for devices whose completions
    /// come when they come, and when nothing is in flight.
    fn next_event(&self) -> Option<Instant> {
        None
    }

    /// Condition of the device, for those who watch over it; may look at its file.
    fn condition(&mut self, _now: Instant) -> Condition {
        Condition::default()
    }

    /// Gives the device up: everything is answered with [`Status::DeviceGone`], what is in flight too. What the device does with
    /// that later is heard by nobody.
    fn abandon(&mut self) {}

    /// From now on, or not any more, a hiccup is not the end: a command whose fate nobody knows is answered with
    /// [`Status::DeviceGone`] and its own frames, and others go on. Devices that wait for what is away do that then. Does nothing to
    /// devices that have no hiccups.
    fn outlive_hiccups(&mut self, _outlives: bool) {}

    /// True while the device is away and waited for: what it is asked waits, too.
    fn is_stalled(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_kind_and_waiter() {
        assert_eq!(Token::pack(7, (1 << 56) - 1).unpack(), (7, (1 << 56) - 1));
        assert_eq!(Token::pack(255, 3).unpack(), (255, 3));
    }

    #[test]
    fn ranges_beyond_the_end_are_told() {
        let read = |sector| Op::Read { sector, frames: vec![Frame::zeroed(), Frame::zeroed()] };
        assert!(read(84).is_within(100) && !read(85).is_within(100) && !read(u64::MAX).is_within(100));
        assert!(Op::Flush.is_within(0));
        assert!(!Op::WriteZeroes { sector: 1, sectors: u64::MAX, may_unmap: true }.is_within(100));
    }
}
