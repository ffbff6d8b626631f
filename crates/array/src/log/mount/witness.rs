//! Metadata beyond rescue: which blocks it named is asked of its neighbours in the stripe.
//!
//! When a stripe has lost more metadata than parity can rebuild, the blocks it named cannot be read,
//! and older copies of them may lie elsewhere. A neighbour's copy of LBA and sequence lets the index
//! point to the newest one all the same, so that reading it fails instead of bringing old data back.

use crate::log::mount::Session;
use crate::log::mount::decide::{Decided, Fate};
use crate::log::mount::repair::place_of;
use crate::log::mount::scan::read_blocks;
use base::erasure::Piece;
use zone::format::footer::{Entry, EntryKind};
use zone::format::oob::{self, Place, Protected, neighbour_of};
use zone::stripe::StripeNumber;

/// Asks for every data block of a kept stripe whose metadata can be neither read nor rebuilt.
pub fn run(session: &mut Session, segment: &mut Decided) {
    let layout = segment.layout;
    // Where all can be decoded from whole chunks all names follow, and nobody needs to be asked.
    let stripes: Vec<StripeNumber> = (layout.all_stripes())
        .filter(|stripe| segment.fates[stripe.index()] == Fate::Kept)
        .filter(|stripe| !layout.code.can_decode(segment.whole_pieces(*stripe)))
        .collect();
    for stripe in stripes {
        for (piece, row) in
            layout.code.data_pieces().flat_map(|piece| (0..layout.chunk_blocks).map(move |row| (piece, row)))
        {
            if segment.data_entry(stripe, piece, row).is_some() {
                continue;
            }
            let witnesses = (layout.code.pieces().iter())
                .filter(|other| *other != piece && neighbour_of(*other, &layout.code) == piece);
            let told = witnesses.filter_map(|witness| ask(session, segment, (stripe, witness, row))).next();
            if let Some(Protected { lba, sequence, kind }) = told {
                let entry = Entry { lba, sequence, kind: EntryKind::Data(kind), stripe, whole: false };
                segment.told.insert((stripe, piece, row), entry);
            }
        }
    }
}

/// Returns what the block of a piece says of its neighbour, if its own metadata is whole.
fn ask(
    session: &mut Session,
    segment: &Decided,
    (stripe, witness, row): (StripeNumber, Piece, u32),
) -> Option<Protected> {
    let layout = &segment.layout;
    let member = layout.drive_of(stripe, witness);
    segment.zones[member].as_ref()?;
    let offset = layout.slot_offset(segment.slots[member][stripe.index()]?) + row;
    let frame = read_blocks(session, member, segment.header.zones[member], offset..offset + 1).pop()??;
    let row = u8::try_from(row).expect("at most 16 blocks");
    let place = Place { row, ..place_of(session, segment, member, stripe) };
    let oob = oob::open(&frame.oob, &place.bound())?;
    oob.neighbour.filter(|_| oob.place == place)
}
