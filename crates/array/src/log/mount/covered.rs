//! What a checkpoint covers: its image is found among the stripes written since, read, and held against the segments
//! that are there. Whatever does not fit makes it useless, never wrong: then all segments are read.

use crate::log::checkpoint::image;
use crate::log::config::Tuning;
use crate::log::mount::decide::Decided;
use crate::log::mount::index::{self, NewestOfAll, Recovered};
use crate::log::mount::reader::{self, Owners};
use crate::log::mount::scan::FoundSegment;
use crate::log::mount::{MountError, Session, settled};
use crate::log::pba::{Location, Pba, PbaFormat};
use crate::log::segment::Segment;
use base::units::BLOCK_BYTES;
use zone::format::checkpoint::Checkpoint;
use zone::format::footer::{Entry, EntryKind};
use zone::format::oob::{Kind, Protected};
use zone::stripe::StripeNumber;
use zone::stripe::table::StripeTable;

/// A block of an image.
#[derive(Clone, Copy)]
struct ImageBlock {
    at: Location,
    sequence: u64,
}

/// Joins the checkpoint of the superblocks and the segments that were read; `None` when it cannot be used.
///
/// # Errors
/// When a drive vanishes.
pub fn run(
    session: &mut Session,
    checkpoint: &Checkpoint,
    decided: &[Decided],
    covered: &[FoundSegment],
    tuning: &Tuning,
) -> Result<Option<Recovered>, MountError> {
    let packing = tuning.stripe_table;
    let mut segments: Vec<Segment> =
        decided.iter().map(|segment| settled::segment_of(segment, packing)).collect();
    let Some(bytes) = read_image(session, checkpoint, decided, &segments) else { return Ok(None) };
    let volume_blocks = session.config.volume_blocks;
    let Some((index, described)) = image::restore(&bytes, checkpoint, volume_blocks, session.entry_bytes)
    else {
        return Ok(None);
    };
    let format = PbaFormat::new(session.config.members, &session.config.geometry).expect("validated");
    let is_address = |pba: Pba| format.reaches(pba, session.config.members, &session.config.geometry);
    if !index.mapped().all(|(_, pba)| is_address(pba)) {
        return Ok(None);
    }
    let restored: Option<Vec<Segment>> = covered
        .iter()
        .map(|found| {
            let (table, void_stripes) =
                described.get(&found.header.segment)?.restore(&found.layout, found.header.mode, packing)?;
            Some(segment_of(found, table, void_stripes))
        })
        .collect();
    // Without the tables that it leaves to footers, it is of no use to an engine that keeps all of them.
    let may_lack_tables = tuning.stripe_tables_bytes_max.is_some();
    let has_all = |segments: &Vec<Segment>| !segments.iter().any(Segment::has_dropped_table);
    let Some(restored) = restored.filter(|segments| may_lack_tables || has_all(segments)) else {
        return Ok(None);
    };
    drop(described);
    drop(bytes);
    let found = {
        let owners = Owners::of(session, &restored);
        let is_covered = |location| owners.may_hold(&restored, location);
        index::since(session, checkpoint, index, (decided, &segments), is_covered)?
    };
    let Some(NewestOfAll { index, doubtful, slots }) = found else { return Ok(None) };
    session.report.segments_covered = restored.len() as u64;
    segments.extend(restored);
    segments.sort_by_key(|segment| segment.id);
    let sequence_max = decided.iter().map(settled::sequence_max).max().unwrap_or(0);
    let checkpoint = Some(checkpoint.clone());
    Ok(Some(Recovered { index, doubtful, segments, checkpoint, sequence_max, slots }))
}

fn segment_of(found: &FoundSegment, table: Option<StripeTable>, void_stripes: Vec<StripeNumber>) -> Segment {
    Segment {
        zones_missing: found.zones_missing,
        void_stripes,
        table,
        ..Segment::of_header(&found.header, found.layout)
    }
}

/// The bytes of an image; `None` when a block of it is not there or cannot be had.
fn read_image(
    session: &mut Session,
    checkpoint: &Checkpoint,
    decided: &[Decided],
    segments: &[Segment],
) -> Option<Vec<u8>> {
    let blocks = find_blocks(checkpoint, decided)?;
    let places: Vec<Location> = blocks.iter().map(|block| block.at).collect();
    let mut bytes = vec![0; blocks.len() * BLOCK_BYTES];
    let mut all_there = true;
    reader::read(session, segments, &places, |block, frame| {
        let lba = checkpoint.name(u32::try_from(block).expect("a u32 of blocks"));
        let named = Protected { lba, sequence: blocks[block].sequence, kind: Kind::Mapping };
        let frame = frame.filter(|frame| Protected::from_bytes(&frame.oob) == Some(named));
        match frame {
            Some(frame) => bytes[block * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&frame.data),
            None => all_there = false,
        }
    });
    all_there.then_some(bytes)
}

/// Finds the blocks of an image among what was written since the checkpoint began, for the image was, too.
fn find_blocks(checkpoint: &Checkpoint, segments: &[Decided]) -> Option<Vec<ImageBlock>> {
    let mut found: Vec<Option<ImageBlock>> = vec![None; checkpoint.blocks as usize];
    for segment in segments {
        let since = index::stripes_before(checkpoint, segment)..segment.layout.stripes;
        index::gather(segment, since, &mut |entry, copy| {
            let place = block_of(checkpoint, entry).and_then(|block| found.get_mut(block));
            if let Some(place) = place.filter(|place| place.is_none() || !copy.weak) {
                *place = Some(ImageBlock { at: copy.at, sequence: entry.sequence });
            }
        });
    }
    found.into_iter().collect()
}

/// Returns the block of the image that an entry is of. Copies of an earlier attempt with this number are older.
fn block_of(checkpoint: &Checkpoint, entry: &Entry) -> Option<usize> {
    let is_of_it = entry.kind == EntryKind::Data(Kind::Mapping)
        && entry.lba >> 32 == u64::from(checkpoint.number)
        && entry.sequence >= checkpoint.sequence;
    is_of_it.then(|| usize::try_from(entry.lba & u64::from(u32::MAX)).expect("32 bits"))
}
