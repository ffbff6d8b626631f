//! Replay of what a crash left, in memory: partial parity and journal become an overlay of a reader.
//!
//! *PPL*: of each member the newest header counts. Parity of a row becomes partial parity (the sum of what was not modified) plus
//! what the modified members hold now. Where one of several modified members is missing, its piece is in doubt.
//!
//! *Journal*: blocks of the journal in order, up to the first that is torn. Data wait for their row's parity; then both count as if
//! they lay on the members. What has no parity yet counts for the volume alone: a lost member is decoded without it.

use super::assembly::{Assembly, Part};
use super::geometry::{Chunk, Place};
use super::journal::{self, MetaBlock, Payload};
use super::ppl::{self, Entry};
use super::reader::{ROW_SECTORS, Reader, Row};
use super::superblock::Superblock;
use super::{Media, ReadFailed, Role, SECTOR_BYTES_U64};
use base::checksum::crc32c;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64};
use base::xor::{Block, xor_blocks};
use std::collections::BTreeMap;

/// Applies the newest header of each member.
pub(super) fn apply_ppl<'a, M: Media + ?Sized>(
    reader: &mut Reader<'a, M>,
    assembly: &Assembly<'_>,
    media: &[&'a M],
) -> Result<(), ReadFailed> {
    for ((member, part), media) in assembly.devices.iter().zip(media) {
        let (Part::Active(role) | Part::Recovering(role, _), Some(found)) = (part, member.newest_ppl())
        else {
            continue;
        };
        let mut sector = found.sector + ppl::HEADER_SECTORS;
        for entry in &found.header.entries {
            let sectors = u64::from(entry.pp_bytes).div_ceil(SECTOR_BYTES_U64);
            let area = member.superblock().ppl_place().map_or(0, |(_, sectors)| sectors);
            let Some(bytes) = usize::try_from(sectors * SECTOR_BYTES_U64).ok().filter(|_| sectors <= area)
            else {
                break;
            };
            let mut partial = vec![0; bytes];
            media.read(sector, &mut partial)?;
            sector += sectors;
            // Nothing of a batch is written to members before its log is whole.
            let is_whole = entry.pp_bytes == 0 || crc32c(&partial) == entry.checksum;
            if is_whole && u32::from(role.0) == entry.parity_member {
                apply_entry(reader, entry, &partial);
            }
        }
    }
    Ok(())
}

/// Blocks of a chunk that an entry covers, and the chunks that it modifies.
fn extent<M: Media + ?Sized>(reader: &Reader<'_, M>, entry: &Entry) -> Option<(u64, u64)> {
    let geometry = reader.geometry();
    let (pp, data) = (u64::from(entry.pp_bytes), u64::from(entry.data_bytes));
    let all = u64::from(geometry.data_chunks());
    let (rows, chunks) = match pp {
        0 => (data / all / BLOCK_BYTES_U64, all),
        _ => (pp / BLOCK_BYTES_U64, data.div_ceil(pp)),
    };
    let is_whole = pp.is_multiple_of(BLOCK_BYTES_U64) && data.is_multiple_of(BLOCK_BYTES_U64);
    let fits = rows > 0 && rows <= geometry.chunk_sectors() / ROW_SECTORS && (1..=all).contains(&chunks);
    (is_whole && fits && entry.data_sector.is_multiple_of(ROW_SECTORS)).then_some((rows, chunks))
}

fn apply_entry<M: Media + ?Sized>(reader: &mut Reader<'_, M>, entry: &Entry, partial: &[u8]) {
    let Some((rows, chunks)) = extent(reader, entry) else { return };
    let chunk_blocks = reader.geometry().chunk_sectors() / ROW_SECTORS;
    let first = entry.data_sector / ROW_SECTORS;
    for index in 0..rows {
        let blocks: Vec<u64> = (0..chunks).map(|chunk| first + index + chunk * chunk_blocks).collect();
        if blocks.iter().any(|block| *block >= reader.blocks()) {
            return;
        }
        let places: Vec<(Row, Role)> = blocks.iter().map(|block| reader.place(*block)).collect();
        let row = places[0].0;
        if places.iter().any(|(other, _)| *other != row) {
            return;
        }
        let mut parity = [0; BLOCK_BYTES];
        let start = usize::try_from(index * BLOCK_BYTES_U64).unwrap_or(usize::MAX);
        if let Some(bytes) = partial.get(start..).and_then(|rest| rest.first_chunk::<BLOCK_BYTES>()) {
            parity = *bytes;
        }
        let mut missing = 0;
        for (_, member) in &places {
            let mut piece = [0; BLOCK_BYTES];
            match reader.piece(row, *member, &mut piece) {
                true => add(&mut parity, &piece),
                false => missing += 1,
            }
        }
        let stripe = super::geometry::Stripe(row.0 / reader.geometry().chunk_sectors());
        let (p, _) = reader.geometry().parity(stripe);
        match (missing, places.len()) {
            (0, _) => drop(reader.overlay().pieces.insert((p, row), Box::new(parity))),
            // Its parity is old or new as a whole, and the other pieces are as ever: both give what was or is.
            (_, 1) => {}
            _ => drop(reader.overlay().torn.insert(row)),
        }
    }
}

fn add(sum: &mut Block, piece: &Block) {
    let before = *sum;
    xor_blocks(sum, &[&before, piece]);
}

/// Blocks of rows that wait for their parity.
type Waiting = BTreeMap<Row, BTreeMap<u64, Box<Block>>>;

/// Applies the journal from its tail to the first block that is torn.
pub(super) fn apply_journal<'a, M: Media + ?Sized>(
    reader: &mut Reader<'a, M>,
    assembly: &Assembly<'_>,
    media: &[&'a M],
) -> Result<(), ReadFailed> {
    let journal = assembly.devices.iter().zip(media).find(|((_, part), _)| *part == Part::Journal);
    let Some(((member, _), media)) = journal else { return Ok(()) };
    let superblock = member.superblock();
    let ring = superblock.device.data_size / ROW_SECTORS * ROW_SECTORS;
    let (mut position, mut sequence, mut walked) = (superblock.device.recovery_offset, None, 0);
    let mut waiting = Waiting::new();
    while position < ring && walked < ring {
        let mut block = [0; journal::BLOCK_BYTES];
        media.read(superblock.device.data_offset + position, &mut block)?;
        let Some(meta) = MetaBlock::decode(superblock.array.uuid, &block) else { break };
        let follows = sequence.is_none_or(|last: u64| last.checked_add(1) == Some(meta.sequence));
        if meta.position != position || !follows {
            break;
        }
        let Some(contents) = contents(*media, superblock, &meta, ring)? else { break };
        apply_meta(reader, &meta, contents, &mut waiting);
        sequence = Some(meta.sequence);
        position = (position + meta.sectors()) % ring;
        walked += meta.sectors();
    }
    let blocks = waiting.into_values().flatten();
    reader.overlay().blocks.extend(blocks);
    Ok(())
}

/// Blocks behind a metadata block, in order; `None` when one of them is torn.
fn contents<M: Media + ?Sized>(
    media: &M,
    superblock: &Superblock,
    meta: &MetaBlock,
    ring: u64,
) -> Result<Option<Vec<Box<Block>>>, ReadFailed> {
    let mut found = Vec::new();
    let mut position = meta.position;
    for payload in &meta.payloads {
        let (Payload::Data { checksums, .. } | Payload::Parity { checksums, .. }) = payload else { continue };
        for sum in checksums {
            position = (position + journal::BLOCK_SECTORS) % ring;
            let mut block = Box::new([0; BLOCK_BYTES]);
            media.read(superblock.device.data_offset + position, &mut block[..])?;
            if journal::checksum(superblock.array.uuid, &block[..]) != *sum {
                return Ok(None);
            }
            found.push(block);
        }
    }
    Ok(Some(found))
}

fn apply_meta<M: Media + ?Sized>(
    reader: &mut Reader<'_, M>,
    meta: &MetaBlock,
    contents: Vec<Box<Block>>,
    waiting: &mut Waiting,
) {
    let mut contents = contents.into_iter();
    let volume_blocks = reader.blocks();
    for payload in &meta.payloads {
        let own: Vec<Box<Block>> = contents.by_ref().take(payload.blocks()).collect();
        match payload {
            Payload::Data { sector, .. } => {
                for (block, content) in
                    (sector / ROW_SECTORS..).zip(own).filter(|(block, _)| *block < volume_blocks)
                {
                    let (row, _) = reader.place(block);
                    waiting.entry(row).or_default().insert(block, content);
                }
            }
            Payload::Parity { sector, .. } => apply_parity(reader, Row(*sector), own, waiting),
            Payload::Flush { stripes, .. } => {
                stripes.iter().for_each(|stripe| drop(waiting.remove(&Row(*stripe))));
            }
        }
    }
}

/// Data of a row and its parity: both count as if they lay on the members.
fn apply_parity<M: Media + ?Sized>(
    reader: &mut Reader<'_, M>,
    row: Row,
    parities: Vec<Box<Block>>,
    waiting: &mut Waiting,
) {
    let geometry = *reader.geometry();
    let stripe = row.0 / geometry.chunk_sectors();
    if stripe >= geometry.stripes() {
        return;
    }
    for (block, content) in waiting.remove(&row).unwrap_or_default() {
        let (_, member) = reader.place(block);
        reader.overlay().pieces.insert((member, row), content);
    }
    let (p, q) = geometry.parity(super::geometry::Stripe(stripe));
    for (member, content) in [Some(p), q].into_iter().flatten().zip(parities) {
        debug_assert!(!matches!(reader.kind(row, member), Place::Data(Chunk(_))));
        reader.overlay().pieces.insert((member, row), content);
    }
}
