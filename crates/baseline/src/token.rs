//! Who waits for a command: this engine's meaning of a [`Token`].

use zone::device::Token;

/// The waiting party. Packed as kind (8 bits), slot (32) and part (24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// The write in flight to a drive's zone of a logical zone.
    Data(u32),
    /// A log append, by its slot.
    Log(u32),
    /// The reset of a log zone that was replaced.
    LogReset,
    /// The reset of a drive's zone of a logical zone.
    ZoneReset(u32),
    /// A read request, and which of its blocks come first.
    Read {
        /// Read slot.
        slot: u32,
        /// First block.
        part: u32,
    },
    /// A piece read so that another can be decoded.
    Source {
        /// Decode slot.
        slot: u32,
        /// Piece.
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
            Waiter::Data(zone) => (0, zone, 0),
            Waiter::Log(slot) => (1, slot, 0),
            Waiter::LogReset => (2, 0, 0),
            Waiter::ZoneReset(zone) => (3, zone, 0),
            Waiter::Read { slot, part } => (4, slot, part),
            Waiter::Source { slot, part } => (5, slot, part),
        };
        Token::pack(kind, slot, part)
    }

    /// The waiter of a token.
    ///
    /// # Panics
    /// When the token is none of ours: a drive made it up.
    #[must_use]
    pub fn from_token(token: Token) -> Waiter {
        let (kind, slot, part) = token.unpack();
        match kind {
            0 => Waiter::Data(slot),
            1 => Waiter::Log(slot),
            2 => Waiter::LogReset,
            3 => Waiter::ZoneReset(slot),
            4 => Waiter::Read { slot, part },
            5 => Waiter::Source { slot, part },
            _ => panic!("a drive completed a command with token {:#x}, which was never given", token.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_come_back() {
        let (slot, part) = (u32::MAX, 0xff_ffff);
        for waiter in [
            Waiter::Data(slot),
            Waiter::Log(slot),
            Waiter::LogReset,
            Waiter::ZoneReset(7),
            Waiter::Read { slot, part },
            Waiter::Source { slot: 0, part: 3 },
        ] {
            assert_eq!(Waiter::from_token(waiter.token()), waiter);
        }
    }
}
