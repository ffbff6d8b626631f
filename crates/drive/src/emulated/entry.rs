//! An entry of the zone table: what is kept of a zone's state, in one 8-byte word.
//!
//! What is in the window of a zone with a random write area is kept elsewhere (`windows.rs`).
//!
//! One word is one store, so that a process killed at any instant leaves the old entry or the new
//! one. The check covers the zone's index, so that an entry in the wrong place, or a page of
//! zeros where the table should be, is as invalid as a flipped bit.
//!
//! An open zone is kept as closed. That is what it becomes when the drive is opened again, and it
//! spares a store when one zone's write closes another (ZNS 1.1 section 2.1.1.4.1).

use base::record_fields;
use base::units::ZoneIndex;
use thiserror::Error;
use zone::device::ZoneState;
use zone::rules::Zone;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: u64 = 8;

record_fields! { 8;
    STATE: 0, 1, "1 empty, 4 closed (or open, which it no longer is when the file is opened), 0xd read-only, 0xe full, 0xf offline";
    AREA: 1, 1, "1 when the zone has a random write area, else 0";
    CHECK: 2, 2, "check bits over the rest and the number of the zone";
    WRITE_POINTER: 4, 4, "next block to write; of full zones, how far they were written; with an area, the start of its window";
}

/// Why an entry of the zone table is not one this program wrote.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    /// The entry is damaged.
    #[error("the entry does not match its check bits")]
    BadCheck,
    /// No state has this code.
    #[error("there is no zone state {code:#x}")]
    UnknownState {
        /// Code found.
        code: u8,
    },
    /// A zone that is not active has a random write area.
    #[error("the zone has a random write area and is not active")]
    AreaOfInactiveZone,
    /// No window belongs to the area of a zone, or one that is damaged.
    #[error("the window of its random write area is missing or damaged")]
    BadWindow,
    /// The write pointer lies outside the zone, or where its state does not allow it.
    #[error("write pointer {write_pointer} is impossible in its state in a zone of {capacity_blocks} blocks")]
    BadWritePointer {
        /// Write pointer found.
        write_pointer: u32,
        /// Blocks that the zone holds.
        capacity_blocks: u32,
    },
}

/// The word that keeps `zone`.
#[inline]
pub(super) fn pack(index: ZoneIndex, zone: Zone) -> u64 {
    let (code, area) = (code_of(zone.state), u8::from(zone.area.is_some()));
    let check = check_of(index, [code, area], zone.write_pointer);
    u64::from(zone.write_pointer) << 32 | u64::from(check) << 16 | u64::from(area) << 8 | u64::from(code)
}

/// The zone that `word` keeps.
pub(super) fn unpack(index: ZoneIndex, word: u64, capacity_blocks: u32) -> Result<Zone, EntryError> {
    let [code, area, check_low, check_high, pointer @ ..] = word.to_le_bytes();
    let write_pointer = u32::from_le_bytes(pointer);
    let check = u16::from_le_bytes([check_low, check_high]);
    if area > 1 || check != check_of(index, [code, area], write_pointer) {
        return Err(EntryError::BadCheck);
    }
    let state = state_of(code).ok_or(EntryError::UnknownState { code })?;
    let possible = match state {
        ZoneState::Empty => write_pointer == 0,
        ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
            write_pointer < capacity_blocks
        }
        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => write_pointer <= capacity_blocks,
    };
    if area == 1 && state != ZoneState::Closed {
        return Err(EntryError::AreaOfInactiveZone);
    }
    if possible {
        Ok(Zone { state, write_pointer, area: (area == 1).then_some(write_pointer) })
    } else {
        Err(EntryError::BadWritePointer { write_pointer, capacity_blocks })
    }
}

/// Zone state codes as in a zone descriptor (ZNS 1.1 figure 37).
fn code_of(state: ZoneState) -> u8 {
    match state {
        ZoneState::Empty => 0x1,
        ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => 0x4,
        ZoneState::ReadOnly => 0xd,
        ZoneState::Full => 0xe,
        ZoneState::Offline => 0xf,
    }
}

fn state_of(code: u8) -> Option<ZoneState> {
    match code {
        0x1 => Some(ZoneState::Empty),
        0x4 => Some(ZoneState::Closed),
        0xd => Some(ZoneState::ReadOnly),
        0xe => Some(ZoneState::Full),
        0xf => Some(ZoneState::Offline),
        _ => None,
    }
}

/// The top bits of a product depend on every bit of its factors: this is paid
/// on every write and only has to tell an entry from an accident.
pub(super) fn check_of(index: ZoneIndex, [code, area]: [u8; 2], write_pointer: u32) -> u16 {
    let identity = u64::from(write_pointer) << 32 | u64::from(index.0);
    let mixed = (identity ^ u64::from(code) << 20 ^ u64::from(area) << 40)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u16::try_from(mixed >> 48).expect("16 bits of 64")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [ZoneState; 7] = [
        ZoneState::Empty,
        ZoneState::ImplicitOpen,
        ZoneState::ExplicitOpen,
        ZoneState::Closed,
        ZoneState::Full,
        ZoneState::ReadOnly,
        ZoneState::Offline,
    ];

    #[test]
    fn a_zone_comes_back_and_an_open_one_comes_back_closed() {
        for state in STATES {
            let write_pointer = if state == ZoneState::Empty { 0 } else { 99 };
            let found = unpack(ZoneIndex(5), pack(ZoneIndex(5), Zone::new(state, write_pointer)), 100);
            let kept = if state.is_open() { ZoneState::Closed } else { state };
            assert_eq!(found, Ok(Zone::new(kept, write_pointer)));
            let with_area = Zone { area: Some(99), ..Zone::new(state, write_pointer) };
            let found = unpack(ZoneIndex(5), pack(ZoneIndex(5), with_area), 100);
            let kept = Zone { state: ZoneState::Closed, ..with_area };
            let expected = if state.is_active() { Ok(kept) } else { Err(EntryError::AreaOfInactiveZone) };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for (index, write_pointer) in [(0, 0), (1, 77), (4_000_000, 275_711), (u32::MAX, u32::MAX)] {
            for state in STATES {
                for area in [None, Some(write_pointer)] {
                    let word = pack(ZoneIndex(index), Zone { state, write_pointer, area });
                    for bit in 0..64 {
                        let flipped = unpack(ZoneIndex(index), word ^ 1 << bit, u32::MAX);
                        assert!(
                            flipped.is_err(),
                            "zone {index} {state:?} {write_pointer} {area:?}, bit {bit}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn entries_that_cannot_be_are_refused() {
        let zone = Zone::new;
        let found = |zone| unpack(ZoneIndex(3), pack(ZoneIndex(3), zone), 100);
        let impossible =
            |write_pointer| Err(EntryError::BadWritePointer { write_pointer, capacity_blocks: 100 });
        assert_eq!(found(zone(ZoneState::Empty, 1)), impossible(1));
        assert_eq!(found(zone(ZoneState::Closed, 100)), impossible(100));
        assert_eq!(found(zone(ZoneState::Full, 101)), impossible(101));
        assert_eq!(unpack(ZoneIndex(3), 0, 100), Err(EntryError::BadCheck), "a page of zeros is no table");
        let elsewhere = pack(ZoneIndex(4), zone(ZoneState::Closed, 5));
        assert_eq!(unpack(ZoneIndex(3), elsewhere, 100), Err(EntryError::BadCheck));
    }
}
