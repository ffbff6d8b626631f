//! Who waits for a command: the engine's meaning of a [`Token`].

use crate::log::segment::SegmentSlot;
use crate::log::stripe::StripeSlot;
use base::erasure::Piece;
use zone::device::Token;

/// The waiting party. Packed as kind (8 bits), slot (32) and part (24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A piece of the stripe in slot `slot`.
    Chunk {
        /// Stripe slot.
        slot: StripeSlot,
        /// Piece.
        piece: Piece,
    },
    /// Header of segment `slot` on drive `part`.
    Header {
        /// Segment slot.
        slot: SegmentSlot,
        /// Drive.
        part: u32,
    },
    /// Footer of segment `slot` on drive `part`.
    Footer {
        /// Segment slot.
        slot: SegmentSlot,
        /// Drive.
        part: u32,
    },
    /// Finish of segment `slot`'s zone on drive `part`.
    Finish {
        /// Segment slot.
        slot: SegmentSlot,
        /// Drive.
        part: u32,
    },
    /// Reset of segment `slot`'s zone on drive `part`.
    Reset {
        /// Segment slot.
        slot: SegmentSlot,
        /// Drive.
        part: u32,
    },
    /// Read request in slot `slot`; its blocks from `part` on.
    Read {
        /// Read slot.
        slot: u32,
        /// First block of the request that this command reads.
        part: u32,
    },
    /// A piece of the stripe load in slot `slot`.
    Load {
        /// Load slot.
        slot: u32,
        /// Piece.
        piece: Piece,
    },
    /// Flush of drive `part`.
    Flush {
        /// For whom.
        slot: u32,
        /// Drive.
        part: u32,
    },
    /// The sweep in slot `slot`: the first try, or with `part` 1 the second.
    Sweep {
        /// Sweep slot.
        slot: u32,
        /// Number of the try.
        part: u32,
    },
    /// The rebuild of drive `part`.
    Rebuild {
        /// Lane.
        slot: u32,
        /// Drive.
        part: u32,
    },
    /// Records of segment `slot` for the scrub: the first try, or with `part` 1 the second.
    Scrub {
        /// Segment slot.
        slot: SegmentSlot,
        /// Number of the try.
        part: u32,
    },
    /// The stripe table being read in slot `slot`, from the zone of drive `part`.
    Table {
        /// Slot of the load.
        slot: u32,
        /// Drive.
        part: u32,
    },
    /// The look of the scrub at drive `part` beside its segments.
    Look {
        /// Unused.
        slot: u32,
        /// Drive.
        part: u32,
    },
    /// Copy `part` of the write area's slot `slot`.
    Slot {
        /// Slot.
        slot: u32,
        /// Copy.
        part: u32,
    },
    /// The search for zones of drive `part` that turned.
    Turned {
        /// Unused.
        slot: u32,
        /// Drive.
        part: u32,
    },
    /// Superblock record on drive `part`.
    Superblock {
        /// Unused.
        slot: u32,
        /// Drive.
        part: u32,
    },
}

impl From<Waiter> for Token {
    fn from(waiter: Waiter) -> Token {
        waiter.token()
    }
}

impl Waiter {
    fn token(self) -> Token {
        let (kind, slot, part) = match self {
            Waiter::Chunk { slot: StripeSlot(slot), piece } => (0, slot, u32::from(piece.0)),
            Waiter::Header { slot: SegmentSlot(slot), part } => (1, slot, part),
            Waiter::Footer { slot: SegmentSlot(slot), part } => (2, slot, part),
            Waiter::Finish { slot: SegmentSlot(slot), part } => (3, slot, part),
            Waiter::Reset { slot: SegmentSlot(slot), part } => (4, slot, part),
            Waiter::Read { slot, part } => (5, slot, part),
            Waiter::Load { slot, piece } => (6, slot, u32::from(piece.0)),
            Waiter::Flush { slot, part } => (7, slot, part),
            Waiter::Superblock { slot, part } => (8, slot, part),
            Waiter::Rebuild { slot, part } => (9, slot, part),
            Waiter::Sweep { slot, part } => (10, slot, part),
            Waiter::Scrub { slot: SegmentSlot(slot), part } => (11, slot, part),
            Waiter::Table { slot, part } => (12, slot, part),
            Waiter::Look { slot, part } => (13, slot, part),
            Waiter::Slot { slot, part } => (14, slot, part),
            Waiter::Turned { slot, part } => (15, slot, part),
        };
        debug_assert!(kind < 16, "kinds of waiters are numbered");
        Token::pack(kind, slot, part)
    }

    /// Name of what it waits for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Waiter::Chunk { .. } => "the write or append of a chunk",
            Waiter::Header { .. } => "the write of a header",
            Waiter::Footer { .. } => "the write of a footer",
            Waiter::Finish { .. } => "a zone finish",
            Waiter::Reset { .. } => "a zone reset",
            Waiter::Flush { .. } => "a flush",
            Waiter::Rebuild { .. } => "a write of a rebuild",
            Waiter::Slot { .. } => "the write of a slot",
            Waiter::Superblock { .. } => "the write of a superblock",
            Waiter::Look { .. } => "a look at what describes the drive",
            Waiter::Turned { .. } => "a search for zones that turned",
            Waiter::Read { .. }
            | Waiter::Load { .. }
            | Waiter::Sweep { .. }
            | Waiter::Scrub { .. }
            | Waiter::Table { .. } => "a read",
        }
    }

    /// The waiter of a token.
    ///
    /// # Panics
    /// When the token is none of ours: a drive made it up.
    #[must_use]
    pub fn from_token(token: Token) -> Waiter {
        let (kind, slot, part) = token.unpack();
        match kind {
            0 => Waiter::Chunk { slot: StripeSlot(slot), piece: Piece::at(part as usize) },
            1 => Waiter::Header { slot: SegmentSlot(slot), part },
            2 => Waiter::Footer { slot: SegmentSlot(slot), part },
            3 => Waiter::Finish { slot: SegmentSlot(slot), part },
            4 => Waiter::Reset { slot: SegmentSlot(slot), part },
            5 => Waiter::Read { slot, part },
            6 => Waiter::Load { slot, piece: Piece::at(part as usize) },
            7 => Waiter::Flush { slot, part },
            8 => Waiter::Superblock { slot, part },
            9 => Waiter::Rebuild { slot, part },
            10 => Waiter::Sweep { slot, part },
            11 => Waiter::Scrub { slot: SegmentSlot(slot), part },
            12 => Waiter::Table { slot, part },
            13 => Waiter::Look { slot, part },
            14 => Waiter::Slot { slot, part },
            15 => Waiter::Turned { slot, part },
            _ => panic!("a drive completed a command with token {:#x}, which was never given", token.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_come_back() {
        let slot = u32::MAX;
        let part = 0xff_ffff;
        for waiter in [
            Waiter::Chunk { slot: StripeSlot(slot), piece: Piece(31) },
            Waiter::Header { slot: SegmentSlot(0), part },
            Waiter::Footer { slot: SegmentSlot(slot), part: 0 },
            Waiter::Finish { slot: SegmentSlot(slot), part },
            Waiter::Reset { slot: SegmentSlot(1), part: 2 },
            Waiter::Read { slot, part },
            Waiter::Load { slot, piece: Piece(31) },
            Waiter::Flush { slot: 0, part: 3 },
            Waiter::Superblock { slot: 0, part: 31 },
            Waiter::Rebuild { slot, part: 31 },
            Waiter::Sweep { slot, part: 1 },
            Waiter::Scrub { slot: SegmentSlot(slot), part: 0 },
            Waiter::Table { slot, part: 31 },
            Waiter::Look { slot: 0, part: 31 },
            Waiter::Slot { slot, part: 3 },
            Waiter::Turned { slot: 0, part: 31 },
        ] {
            assert_eq!(Waiter::from_token(waiter.token()), waiter);
        }
    }
}
