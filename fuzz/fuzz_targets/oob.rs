//! Out-of-band metadata: what is opened is sealed to the same, and not with a bit flipped. The input is
//! array, zone and group, a bit to flip, and the metadata.
#![no_main]

use base::bytes::{array_at, put, u64_at};
use base::checksum::crc32c;
use base::erasure::Piece;
use base::frame::Frame;
use base::units::{OOB_BYTES, ZoneIndex};
use fuzz::{assert_same_fields, offset_of, resealed, seed};
use libfuzzer_sys::fuzz_target;
use zone::format::oob::{
    Bound, FIELDS, Kind, Oob, PROTECTED_BYTES, Place, Protected, Role, block_is_whole, data_crc, guess, open,
    record_data_crc, seal,
};
use zone::stripe::StripeNumber;

const HEAD_BYTES: usize = 18;
const INPUT_BYTES: usize = HEAD_BYTES + OOB_BYTES;

fn seeds() {
    let inputs = [Role::Data, Role::Parity, Role::Filler, Role::Slot].map(|role| {
        let piece = if role == Role::Filler { Piece::NONE } else { Piece(2) };
        let place = Place {
            array: 1,
            segment: 9,
            zone: ZoneIndex(5),
            stripe: StripeNumber(77),
            group: 2,
            piece,
            row: 1,
            role,
        };
        let neighbour =
            (role == Role::Data).then_some(Protected { lba: 43, sequence: 44, kind: Kind::Tombstone });
        let protected = Protected { lba: 42, sequence: 1 << 41, kind: Kind::User };
        let mut oob = [0; OOB_BYTES];
        put(&mut oob, 0, &protected.to_bytes());
        seal(&mut oob, &place, 0xabcd, neighbour);
        [&suffix(&place.bound())[..], &[7, 1], &oob].concat()
    });
    seed("oob", &inputs);
}

/// Returns the bytes that the checksum covers besides the metadata.
fn suffix(bound: &Bound) -> [u8; 16] {
    let mut bytes = [0; 16];
    put(&mut bytes, 0, &bound.array.to_le_bytes());
    put(&mut bytes, 8, &bound.zone.0.to_le_bytes());
    put(&mut bytes, 12, &bound.group.to_le_bytes());
    bytes
}

fn check(oob: &[u8; OOB_BYTES], bound: &Bound, bit: usize) {
    let hint = guess(oob);
    if let Some(protected) = Protected::from_bytes(oob) {
        assert_eq!(protected.to_bytes(), oob[..PROTECTED_BYTES]);
    }
    let Some(found) = open(oob, bound) else { return };
    let Oob { place, data_crc: crc, neighbour } = found;
    assert_eq!((hint.segment, hint.stripe, hint.piece), (place.segment, place.stripe, place.piece));
    assert!(!hint.is_filler || place.role == Role::Filler);
    assert!(place.bound() == *bound && data_crc(oob) == crc);
    let mut frame = Frame::zeroed();
    frame.oob = *oob;
    seal(&mut frame.oob, &place, crc, neighbour);
    assert_eq!(open(&frame.oob, bound), Some(found));
    // Of a neighbour whose kind is not known, the rest means nothing.
    let but: &[&str] = if neighbour.is_some() { &[] } else { &["META_CRC", "NEIGHBOUR"] };
    assert_same_fields(FIELDS, &frame.oob, oob, but);
    frame.oob[bit / 8 % OOB_BYTES] ^= 1 << (bit % 8);
    assert_eq!(open(&frame.oob, bound), None, "bit {bit}");
    let crc = crc32c(&frame.data);
    frame.oob = *oob;
    record_data_crc(&mut frame.oob, crc);
    seal(&mut frame.oob, &place, crc, neighbour);
    assert!(block_is_whole(&frame, &place));
    frame.data[bit % 4096] ^= 1;
    assert!(!block_is_whole(&frame, &place));
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some(input) = data.first_chunk::<INPUT_BYTES>() else { return };
    let word = |at| u32::from_le_bytes(array_at(input, at));
    let bound = Bound { array: u64_at(input, 0), zone: ZoneIndex(word(8)), group: word(12) };
    let bit = usize::from(u16::from_le_bytes(array_at(input, 16)));
    let oob: [u8; OOB_BYTES] = array_at(input, HEAD_BYTES);
    check(&oob, &bound, bit);
    check(&resealed(oob, offset_of(FIELDS, "META_CRC"), &suffix(&bound)), &bound, bit);
});
