//! What the partial parity log of a dirty array says: for a server, which writes it to the members before it writes anything else.

use super::assembly::{Assembly, Part, Policy};
use super::reader::{Piece, Reader, Row};
use super::{Media, ReadFailed, ppl};

/// See the module.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Pieces that members get, where they differ from what they hold.
    pub pieces: Vec<Piece>,
    /// Rows of which a missing piece cannot be decoded: several of their blocks were in flight, and one of them was on it.
    pub in_doubt: Vec<Row>,
    /// Largest generation of any header, whether or not it counts: the next one has to be larger.
    pub generation: u64,
}

/// Reads the log of an array that can be served; `media` has the device of each member of the assembly, in the same order. Nothing
/// is written.
///
/// # Errors
/// When it cannot be read.
///
/// # Panics
/// When the array cannot be served.
pub fn recover<M: Media + ?Sized>(assembly: &Assembly<'_>, media: &[&M]) -> Result<Recovered, ReadFailed> {
    if assembly.policy() != Policy::Ppl {
        return Ok(Recovered::default());
    }
    let (pieces, in_doubt) = Reader::new(assembly, media)?.recovered();
    let mut generation = 0;
    for ((member, part), media) in assembly.devices.iter().zip(media) {
        let superblock = member.superblock();
        let place = superblock.ppl_place();
        if let (Part::Active(_) | Part::Recovering(_, _), Some(place)) = (part, place) {
            generation = generation.max(ppl::highest_generation(*media, place, superblock.array.uuid));
        }
    }
    Ok(Recovered { pieces, in_doubt, generation })
}
