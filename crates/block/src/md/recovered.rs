//! What the log of an array says, partial parity or journal: for a server, which writes it to the members before it writes
//! anything else.

use super::assembly::{Assembly, Part, Policy};
use super::reader::{Piece, Reader, Row};
use super::replay::journal::ending;
use super::{Media, ReadFailed, ppl};
use base::xor::Block;

/// See the module.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Pieces that members get, where they differ from what they hold.
    pub pieces: Vec<Piece>,
    /// Rows of which a missing piece cannot be decoded: several of their blocks were in flight, and one of them was on it.
    pub in_doubt: Vec<Row>,
    /// Largest generation of any header, whether or not it counts: the next one has to be larger.
    pub generation: u64,
    /// End of the journal; `None` without one.
    pub journal: Option<JournalEnd>,
}

/// End of a journal: where it goes on.
#[derive(Debug)]
pub struct JournalEnd {
    /// Position of the next block.
    pub position: u64,
    /// Sequence number of the next block: nothing that lies behind may have it.
    pub sequence: u64,
    /// Blocks that the journal gets before members get their pieces: parities of rows of which it has data alone. Nothing may follow
    /// them by chance, so the block at [`JournalEnd::position`] is made void first.
    pub appended: Vec<(u64, Box<Block>)>,
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
    if !matches!(assembly.policy(), Policy::Ppl | Policy::Journal) {
        return Ok(Recovered::default());
    }
    let reader = Reader::new(assembly, media)?;
    let (pieces, in_doubt) = reader.recovered();
    let journal = ending(&reader, assembly)?;
    let mut generation = 0;
    for ((member, part), media) in assembly.devices.iter().zip(media) {
        let superblock = member.superblock();
        let place = superblock.ppl_place();
        if let (Part::Active(_) | Part::Recovering(_, _), Some(place)) = (part, place) {
            generation = generation.max(ppl::highest_generation(*media, place, superblock.array.uuid));
        }
    }
    Ok(Recovered { pieces, in_doubt, generation, journal })
}
