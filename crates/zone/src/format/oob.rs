//! Out-of-band metadata: 64 bytes that travel with every block of a data region.
//!
//! The first 24 bytes are *protected*: parity blocks carry the erasure code of those of their data
//! blocks, so that LBA, sequence and kind of a lost block can be rebuilt with its data. The rest is
//! identity, and a copy of the protected fields of a *neighbour* in the stripe: when more metadata of
//! a stripe is lost than parity can rebuild, it is still known which blocks those were, and they are
//! refused instead of older copies being read.
//!
//! ```text
//!   D0 (of D1)   D1 (of D2)   D2 (of D0)   P (of D0)      any two of these may be lost
//! ```
//! The CRC also covers what every reader knows already: array, zone and group. Under Zone Append the
//! exact offset is unknown when the command leaves, its group is not.

use crate::stripe::StripeNumber;
use base::bytes::{put, u32_at, u64_at};
use base::checksum::{crc32c, crc32c_zero_block};
use base::erasure::{ErasureCode, Piece};
use base::frame::Frame;
use base::record_fields;
use base::units::{OOB_BYTES, ZoneIndex};

record_fields! { OOB_BYTES;
    LBA: 0, 8, "logical block address; region number for tombstones, all ones for padding (protected)";
    SEQUENCE: 8, 8, "sequence of the write, unique per block, monotonic across mounts (protected)";
    KIND: 16, 1, "1 user, 2 mapping, 3 tombstone, 4 padding, 5 lost (protected)";
    KIND_PAD: 17, 7, "zero (protected)";
    SEGMENT: 24, 8, "segment id";
    STRIPE: 32, 4, "stripe within the segment";
    ROLE: 36, 1, "1 data, 2 parity, 3 filler (recovery closed the group; carries nothing), 4 copy in a slot of the write area: stripe is the slot of its zones, piece the copy";
    PIECE: 37, 1, "piece of the stripe: 0..k data, k..k+m parity";
    ROW: 38, 1, "block within the chunk";
    NEIGHBOUR_KIND: 39, 1, "kind of the neighbour, 0 when it is not known. The neighbour of data piece p is data piece (p + 1) mod k, that of parity piece k + j is data piece j mod k, that of a copy k + i is data piece (i + 1) mod k, same row";
    DATA_CRC: 40, 4, "CRC32C of the block's data";
    META_CRC: 44, 4, "CRC32C of these 64 bytes with this field zero, followed by the first 8 bytes of the array UUID (8), the zone (4) and the stripe group (4) the block was written to";
    NEIGHBOUR_LBA: 48, 8, "LBA of the neighbour";
    NEIGHBOUR_SEQUENCE: 56, 8, "sequence of the neighbour";
}

/// Bytes at the start that parity protects.
pub const PROTECTED_BYTES: usize = 24;
/// LBA of blocks that have none.
pub const LBA_NONE: u64 = u64::MAX;

/// Kind of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block a client wrote.
    User,
    /// A block of off-loaded index entries.
    Mapping,
    /// A bitmap of trimmed blocks.
    Tombstone,
    /// Fills a stripe that was sealed before it was full.
    Padding,
    /// Stands for a block whose contents are beyond rescue: reading it fails.
    Lost,
}

impl Kind {
    /// The kind's code on the media.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Kind::User => 1,
            Kind::Mapping => 2,
            Kind::Tombstone => 3,
            Kind::Padding => 4,
            Kind::Lost => 5,
        }
    }

    /// The kind of a code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Kind> {
        match code {
            1 => Some(Kind::User),
            2 => Some(Kind::Mapping),
            3 => Some(Kind::Tombstone),
            4 => Some(Kind::Padding),
            5 => Some(Kind::Lost),
            _ => None,
        }
    }
}

/// Role of a block in its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A data block.
    Data,
    /// A parity block: its protected fields are parity too.
    Parity,
    /// Written by recovery to close a group; belongs to no stripe.
    Filler,
    /// A copy of a block in a slot of the write area.
    Slot,
}

impl Role {
    /// The role of the blocks of a piece.
    #[inline]
    #[must_use]
    pub fn of(piece: Piece, code: &ErasureCode) -> Role {
        if code.is_data(piece) { Role::Data } else { Role::Parity }
    }
}

/// Fields of a block's metadata that parity protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Logical block address, region of a tombstone, or [`LBA_NONE`].
    pub lba: u64,
    /// Sequence of the write.
    pub sequence: u64,
    /// Kind of the block.
    pub kind: Kind,
}

impl Protected {
    /// The fields of a padding block.
    pub const PADDING: Protected = Protected { lba: LBA_NONE, sequence: 0, kind: Kind::Padding };

    /// The 24 bytes on the media.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PROTECTED_BYTES] {
        let mut bytes = [0; PROTECTED_BYTES];
        put(&mut bytes, at::LBA, &self.lba.to_le_bytes());
        put(&mut bytes, at::SEQUENCE, &self.sequence.to_le_bytes());
        bytes[at::KIND] = self.kind.code();
        bytes
    }

    /// Reads the fields; `None` when they are not those of a data block.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Protected> {
        let kind = Kind::from_code(bytes[at::KIND])?;
        let padded = bytes[at::KIND_PAD..PROTECTED_BYTES].iter().all(|byte| *byte == 0);
        padded.then_some(Protected {
            lba: u64_at(bytes, at::LBA),
            sequence: u64_at(bytes, at::SEQUENCE),
            kind,
        })
    }
}

/// Place to which a block belongs: everything about the block that does not depend on its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First 8 bytes of the array UUID.
    pub array: u64,
    /// Segment id.
    pub segment: u64,
    /// Zone it was written to.
    pub zone: ZoneIndex,
    /// Stripe within the segment.
    pub stripe: StripeNumber,
    /// Stripe group within the segment.
    pub group: u32,
    /// Piece of the stripe.
    pub piece: Piece,
    /// Block within the chunk.
    pub row: u8,
    /// Role of the block in its stripe.
    pub role: Role,
}

/// Fields that the checksum covers and the block does not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// First 8 bytes of the array UUID.
    pub array: u64,
    /// Zone the block lies in.
    pub zone: ZoneIndex,
    /// Stripe group within the segment.
    pub group: u32,
}

impl Place {
    /// The part that is not stored.
    #[must_use]
    pub fn bound(&self) -> Bound {
        Bound { array: self.array, zone: self.zone, group: self.group }
    }
}

/// Metadata read back and found whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    /// Place to which the block says it belongs.
    pub place: Place,
    /// CRC32C of the block's data.
    pub data_crc: u32,
    /// Protected fields of its neighbour, if it repeats them.
    pub neighbour: Option<Protected>,
}

/// The data piece whose protected fields a piece of a stripe repeats. A copy says enough of its own piece.
#[must_use]
pub fn neighbour_of(piece: Piece, code: &ErasureCode) -> Piece {
    let neighbour = match code.parity_of(piece) {
        None => piece.index() + 1,
        Some(copy) if code.is_mirrored() => copy + 1,
        Some(parity) => parity,
    };
    Piece::at(neighbour % code.data_count())
}

fn meta_crc(oob: &[u8; OOB_BYTES], bound: &Bound) -> u32 {
    let mut bytes = [0; OOB_BYTES + 16];
    put(&mut bytes, 0, oob);
    put(&mut bytes, at::META_CRC, &[0; 4]);
    put(&mut bytes, OOB_BYTES, &bound.array.to_le_bytes());
    put(&mut bytes, OOB_BYTES + 8, &bound.zone.0.to_le_bytes());
    put(&mut bytes, OOB_BYTES + 12, &bound.group.to_le_bytes());
    crc32c(&bytes)
}

/// Bytes of a block's metadata that parity protects.
#[must_use]
pub fn protected(oob: &[u8; OOB_BYTES]) -> &[u8; PROTECTED_BYTES] {
    oob.first_chunk().expect("a part of the metadata")
}

/// Bytes of a block's metadata that parity protects.
pub fn protected_mut(oob: &mut [u8; OOB_BYTES]) -> &mut [u8; PROTECTED_BYTES] {
    oob.first_chunk_mut().expect("a part of the metadata")
}

/// Writes the metadata of a block. The protected bytes must be in place already.
pub fn seal(oob: &mut [u8; OOB_BYTES], place: &Place, data_crc: u32, neighbour: Option<Protected>) {
    put(oob, at::SEGMENT, &place.segment.to_le_bytes());
    put(oob, at::STRIPE, &place.stripe.0.to_le_bytes());
    oob[at::ROLE] = match place.role {
        Role::Data => 1,
        Role::Parity => 2,
        Role::Filler => 3,
        Role::Slot => 4,
    };
    oob[at::PIECE] = place.piece.0;
    oob[at::ROW] = place.row;
    put(oob, at::DATA_CRC, &data_crc.to_le_bytes());
    oob[at::NEIGHBOUR_KIND] = neighbour.map_or(0, |neighbour| neighbour.kind.code());
    put(oob, at::NEIGHBOUR_LBA, &neighbour.map_or(0, |neighbour| neighbour.lba).to_le_bytes());
    put(oob, at::NEIGHBOUR_SEQUENCE, &neighbour.map_or(0, |neighbour| neighbour.sequence).to_le_bytes());
    let crc = meta_crc(oob, &place.bound());
    put(oob, at::META_CRC, &crc.to_le_bytes());
}

/// Makes a frame one that belongs to no stripe, for the slot of a zone that `place.stripe` has where slots are static.
pub fn make_filler(frame: &mut Frame, place: &Place) {
    frame.data.fill(0);
    frame.oob.fill(0);
    *protected_mut(&mut frame.oob) = Protected::PADDING.to_bytes();
    let place = Place { piece: Piece::NONE, row: 0, role: Role::Filler, ..*place };
    seal(&mut frame.oob, &place, crc32c_zero_block(), None);
}

/// Reads the metadata of a block read from `bound`; `None` when the checksum or a code is wrong.
#[must_use]
pub fn open(oob: &[u8; OOB_BYTES], bound: &Bound) -> Option<Oob> {
    if meta_crc(oob, bound) != u32_at(oob, at::META_CRC) {
        return None;
    }
    let role = match oob[at::ROLE] {
        1 => Role::Data,
        2 => Role::Parity,
        3 => Role::Filler,
        4 => Role::Slot,
        _ => return None,
    };
    let neighbour = Kind::from_code(oob[at::NEIGHBOUR_KIND]).map(|kind| Protected {
        lba: u64_at(oob, at::NEIGHBOUR_LBA),
        sequence: u64_at(oob, at::NEIGHBOUR_SEQUENCE),
        kind,
    });
    Some(Oob {
        place: Place {
            array: bound.array,
            segment: u64_at(oob, at::SEGMENT),
            zone: bound.zone,
            stripe: StripeNumber(u32_at(oob, at::STRIPE)),
            group: bound.group,
            piece: Piece(oob[at::PIECE]),
            row: oob[at::ROW],
            role,
        },
        data_crc: u32_at(oob, at::DATA_CRC),
        neighbour,
    })
}

/// Fields that metadata seems to hold although it fails its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Segment id.
    pub segment: u64,
    /// Stripe within the segment.
    pub stripe: StripeNumber,
    /// Piece of the stripe.
    pub piece: Piece,
    /// True when the metadata looks like a filler in all its fields.
    pub is_filler: bool,
}

/// Reads metadata that fails its checksum: a few bits of it are wrong, nobody knows which.
#[must_use]
pub fn guess(oob: &[u8; OOB_BYTES]) -> Hint {
    let (piece, role) = (Piece(oob[at::PIECE]), oob[at::ROLE]);
    Hint {
        segment: u64_at(oob, at::SEGMENT),
        stripe: StripeNumber(u32_at(oob, at::STRIPE)),
        piece,
        is_filler: role == 3 && piece == Piece::NONE && u64_at(oob, at::LBA) == LBA_NONE,
    }
}

/// True when metadata and data of a frame check out and say that they belong to `place`.
#[must_use]
pub fn block_is_whole(frame: &Frame, place: &Place) -> bool {
    let Some(Oob { place: found, data_crc, .. }) = open(&frame.oob, &place.bound()) else { return false };
    found == *place && crc32c(&frame.data) == data_crc
}

/// Records the checksum of data that was decoded, in metadata that is not sealed.
pub fn record_data_crc(oob: &mut [u8; OOB_BYTES], data_crc: u32) {
    put(oob, at::DATA_CRC, &data_crc.to_le_bytes());
}

/// Checksum of the data as recorded, for metadata already known to be whole.
#[must_use]
pub fn data_crc(oob: &[u8; OOB_BYTES]) -> u32 {
    u32_at(oob, at::DATA_CRC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::erasure::PieceSet;

    fn place() -> Place {
        Place {
            array: 0x1122,
            segment: 9,
            zone: ZoneIndex(5),
            stripe: StripeNumber(77),
            group: 2,
            piece: Piece(3),
            row: 1,
            role: Role::Data,
        }
    }

    #[test]
    fn metadata_comes_back_and_every_bit_counts() {
        let protected = Protected { lba: 42, sequence: 1 << 41, kind: Kind::User };
        let neighbour = Some(Protected { lba: 43, sequence: 1 << 42, kind: Kind::Tombstone });
        let mut oob = [0; OOB_BYTES];
        oob[..PROTECTED_BYTES].copy_from_slice(&protected.to_bytes());
        seal(&mut oob, &place(), 0xabcd, neighbour);
        let bound = place().bound();
        assert_eq!(open(&oob, &bound), Some(Oob { place: place(), data_crc: 0xabcd, neighbour }));
        assert_eq!(Protected::from_bytes(&oob), Some(protected));
        for bit in 0..OOB_BYTES * 8 {
            let mut damaged = oob;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&damaged, &bound), None, "bit {bit}");
        }
        for wrong in
            [Bound { array: 9, ..bound }, Bound { zone: ZoneIndex(9), ..bound }, Bound { group: 9, ..bound }]
        {
            assert_eq!(open(&oob, &wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn zeros_are_not_metadata() {
        assert_eq!(open(&[0; OOB_BYTES], &place().bound()), None);
        assert_eq!(Protected::from_bytes(&[0; PROTECTED_BYTES]), None);
    }

    /// Neighbours are worth their bytes: of one lost piece more than a code survives, the fields of every data piece
    /// follow from what is left.
    #[test]
    fn neighbours_tell_of_one_piece_more_than_parity() {
        let parities = (2..8).flat_map(|k| (1..4).filter_map(move |m| ErasureCode::new(k, m)));
        for code in parities.chain((2..6).filter_map(ErasureCode::mirrored)) {
            let pieces = code.piece_count();
            for mask in 0_u32..1 << pieces {
                let left: PieceSet<Piece> = PieceSet::from_bits(mask);
                if left.count() + code.tolerance() + 1 != pieces {
                    continue;
                }
                let told = left.iter().map(|piece| neighbour_of(piece, &code));
                let known = left.or(told.collect());
                let follows = |data| known.contains(data) || code.sources(data, known).is_some();
                assert!(code.data_pieces().all(follows), "{code:?} with {mask:b} left");
            }
        }
    }
}
