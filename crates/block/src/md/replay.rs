//! Replay of what a crash left, in memory: partial parity and journal become an overlay of a reader.
//!
//! *PPL*: [`partial_parity`].
//!
//! *Journal*: blocks of the journal in order, up to the first that is torn. Data wait for their row's parity; then both count as if
//! they lay on the members. What has no parity yet counts for the volume alone: a lost member is decoded without it.

pub(super) mod partial_parity;

use super::assembly::{Assembly, Part};
use super::geometry::{Chunk, Place};
use super::journal::{self, MetaBlock, Payload};
use super::reader::{ROW_SECTORS, Reader, Row};
use super::superblock::Superblock;
use super::{Media, ReadFailed};
use base::units::BLOCK_BYTES;
use base::xor::Block;
use std::collections::BTreeMap;

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
