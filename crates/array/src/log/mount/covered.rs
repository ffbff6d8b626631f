//! What a checkpoint covers: its image is found among the stripes written since, read, and held against the segments
//! that are there. Whatever does not fit makes it useless, never wrong: then all segments are read.

use crate::log::checkpoint::image;
use crate::log::mount::decide::Decided;
use crate::log::mount::index::{self, Recovered};
use crate::log::mount::scan::FoundSegment;
use crate::log::mount::superblocks::command;
use crate::log::mount::{MountError, Session, repair};
use crate::log::pba::{Location, Pba, PbaFormat};
use crate::log::segment::Segment;
use base::checksum::crc32c;
use base::frame::Frame;
use base::units::BLOCK_BYTES;
use zone::device::{Completion, Op, Status};
use zone::drives::DriveCommand;
use zone::format::checkpoint::Checkpoint;
use zone::format::footer::{Entry, EntryKind};
use zone::format::oob::{self, Bound, Kind, Protected};
use zone::stripe::table::{Packing, StripeTable};

/// Blocks of one read command.
const READ_BLOCKS_MAX: u32 = 64;
/// Read commands at once, over all drives.
const READS_MAX: usize = 512;

/// A block of an image.
#[derive(Clone, Copy)]
struct ImageBlock {
    /// Which of the segments that were read.
    segment: usize,
    location: Location,
    sequence: u64,
}

/// What the checkpoint of the superblocks and the segments that were read say together; `None` when there is no
/// checkpoint, or it cannot be used.
///
/// # Errors
/// When a drive vanishes.
pub fn run(
    session: &mut Session,
    segments: &[Decided],
    covered: &[FoundSegment],
    packing: Packing,
) -> Result<Option<Recovered>, MountError> {
    let checkpoint = session.record.checkpoint.clone().filter(|_| session.uses_checkpoints);
    let Some(checkpoint) = checkpoint else { return Ok(None) };
    let Some(bytes) = read_image(session, &checkpoint, segments) else { return Ok(None) };
    let volume_blocks = session.config.volume_blocks;
    let Some((index, described)) = image::restore(&bytes, &checkpoint, volume_blocks, session.entry_bytes)
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
    let Some(restored) = restored else { return Ok(None) };
    let found = {
        let places = Places::of(session, &restored);
        index::since(session, &checkpoint, index, segments, |location| places.holds(&restored, location))?
    };
    session.report.segments_covered = restored.len() as u64;
    Ok(found.map(|(index, doubtful)| Recovered {
        index,
        doubtful,
        covered: restored,
        checkpoint: Some(checkpoint),
    }))
}

fn segment_of(found: &FoundSegment, table: Option<StripeTable>, void_stripes: Vec<u32>) -> Segment {
    Segment {
        zones_missing: found.zones_missing,
        void_stripes,
        table,
        ..Segment::of_header(&found.header, found.layout)
    }
}

/// The covered segment that owns each zone, by member.
struct Places {
    owners: Vec<Vec<Option<usize>>>,
}

impl Places {
    fn of(session: &Session, covered: &[Segment]) -> Places {
        let zones = session.config.geometry.zones as usize;
        let mut owners = vec![vec![None; zones]; session.config.members];
        for (index, segment) in covered.iter().enumerate() {
            for (member, zone) in segment.zones.iter().enumerate() {
                owners[member][zone.index()] = Some(index);
            }
        }
        Places { owners }
    }

    /// True for a place that holds a block of a stripe.
    fn holds(&self, covered: &[Segment], location: Location) -> bool {
        let drive = location.drive.index();
        let Some(owner) = self.owners[drive][location.zone.index()] else { return false };
        let slot = covered[owner].layout.slot_at(location.offset);
        slot.is_some_and(|(slot, _)| covered[owner].stripe_in_slot(drive, slot).is_some())
    }
}

/// The bytes of an image; `None` when a block of it is not there or cannot be had.
fn read_image(session: &mut Session, checkpoint: &Checkpoint, segments: &[Decided]) -> Option<Vec<u8>> {
    let blocks = find_blocks(checkpoint, segments)?;
    let mut bytes = vec![0; blocks.len() * BLOCK_BYTES];
    let name = |block: usize| checkpoint.name(u32::try_from(block).expect("a u32 of blocks"));
    let is_there = |block: &usize| {
        let ImageBlock { segment, location, .. } = blocks[*block];
        segments[segment].zones[location.drive.index()].is_some()
    };
    let (mut there, mut to_decode): (Vec<usize>, Vec<usize>) = (0..blocks.len()).partition(is_there);
    there.sort_by_key(|block| {
        let Location { drive, zone, offset } = blocks[*block].location;
        (drive.0, zone, offset)
    });
    let runs = runs_of(&there, &blocks, READ_BLOCKS_MAX.min(session.config.geometry.transfer_blocks_max));
    for runs in runs.chunks(READS_MAX) {
        let commands = runs.iter().map(|run| read_of(run, &blocks)).collect();
        let completions = session.drives.execute_all(session.now, commands);
        for (run, Completion { status, frames, .. }) in runs.iter().zip(completions) {
            if status == Status::DeviceGone {
                session.vanished = Some(blocks[run[0]].location.drive.index());
            }
            for (block, frame) in run.iter().zip(frames) {
                if status == Status::Success
                    && is_it(session, segments, &blocks[*block], name(*block), &frame)
                {
                    bytes[block * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&frame.data);
                } else {
                    to_decode.push(*block);
                }
            }
        }
    }
    for block in to_decode {
        let frame = decode_block(session, segments, &blocks[block], name(block))?;
        bytes[block * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&frame.data);
    }
    Some(bytes)
}

/// Where the blocks of an image lie: among what was written since the checkpoint began, for it was, too.
fn find_blocks(checkpoint: &Checkpoint, segments: &[Decided]) -> Option<Vec<ImageBlock>> {
    let mut found: Vec<Option<ImageBlock>> = vec![None; checkpoint.blocks as usize];
    for (at, segment) in segments.iter().enumerate() {
        let stripes = segment.layout.stripes;
        let before =
            checkpoint.stripes_before(segment.header.segment).map_or(stripes, |before| before.min(stripes));
        for weak in [true, false] {
            index::gather(segment, before..stripes, weak, &mut |entry, location| {
                if let Some(block) = block_of(checkpoint, entry)
                    && let Some(place) = found.get_mut(block)
                {
                    *place = Some(ImageBlock { segment: at, location, sequence: entry.sequence });
                }
            });
        }
    }
    found.into_iter().collect()
}

/// Which block of the image an entry is of. Copies of an earlier attempt with this number are older.
fn block_of(checkpoint: &Checkpoint, entry: &Entry) -> Option<usize> {
    let is_of_it = entry.kind == EntryKind::Data(Kind::Mapping)
        && entry.lba >> 32 == u64::from(checkpoint.number)
        && entry.sequence >= checkpoint.sequence;
    is_of_it.then(|| usize::try_from(entry.lba & u64::from(u32::MAX)).expect("32 bits"))
}

/// Blocks in order, cut where the next one does not follow on the same drive.
fn runs_of<'a>(order: &'a [usize], blocks: &[ImageBlock], blocks_max: u32) -> Vec<&'a [usize]> {
    let follows = |a: &usize, b: &usize| {
        let (a, b) = (blocks[*a].location, blocks[*b].location);
        Location { offset: a.offset + 1, ..a } == b
    };
    order.chunk_by(follows).flat_map(|run| run.chunks(blocks_max as usize)).collect()
}

fn read_of(run: &[usize], blocks: &[ImageBlock]) -> DriveCommand {
    let Location { drive, zone, offset } = blocks[run[0]].location;
    let frames = run.iter().map(|_| Frame::zeroed()).collect();
    command(drive.index(), zone, Op::Read { offset, frames })
}

/// True when a frame is the block that was written there, whole.
fn is_it(session: &Session, segments: &[Decided], block: &ImageBlock, name: u64, frame: &Frame) -> bool {
    let segment = &segments[block.segment];
    let Some((slot, _)) = segment.layout.slot_at(block.location.offset) else { return false };
    let group = segment.layout.group_of(slot);
    let bound = Bound { array: session.array_tag(), zone: block.location.zone, group };
    let whole = oob::open(&frame.oob, &bound).is_some_and(|oob| {
        oob.place.segment == segment.header.segment && oob.data_crc == crc32c(&frame.data)
    });
    whole && Protected::from_bytes(&frame.oob) == Some(protected_of(block, name))
}

fn protected_of(block: &ImageBlock, name: u64) -> Protected {
    Protected { lba: name, sequence: block.sequence, kind: Kind::Mapping }
}

/// Reads a block once more, or has it decoded from its stripe.
fn decode_block(session: &mut Session, segments: &[Decided], block: &ImageBlock, name: u64) -> Option<Frame> {
    let frame = repair::read_location(session, &segments[block.segment], block.location)?;
    (Protected::from_bytes(&frame.oob) == Some(protected_of(block, name))).then_some(frame)
}
