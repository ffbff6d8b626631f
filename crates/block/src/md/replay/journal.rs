//! Replay of a journal: blocks in order, from the tail to the first that is torn.
//!
//! Data wait for their row's parity; then both count as if they lay on the members. Rows whose data wait at the end, as a
//! journal in write-back mode leaves them, get parities here: from all of their data, those that are missing decoded from what lies on the
//! members. Before a server writes any piece of such a row it adds these parities to the journal ([`ending`]), so that a
//! crash in the middle of it leaves the row whole, whichever member is lost.

use crate::md::assembly::{Assembly, Part};
use crate::md::geometry::Stripe;
use crate::md::journal::{
    BLOCK_BYTES, BLOCK_SECTORS, HEAD_BYTES, MetaBlock, Payload, Ring, SEQUENCE_JUMP, checksum, payload_bytes,
};
use crate::md::member::Member;
use crate::md::reader::{ROW_SECTORS, Reader, Row};
use crate::md::recovered::JournalEnd;
use crate::md::superblock::{Superblock, seconds};
use crate::md::{Media, ReadFailed, Role};
use base::erasure::PieceSet;
use base::xor::Block;
use std::collections::BTreeMap;

/// Blocks of rows that wait for their parity.
type Waiting = BTreeMap<Row, BTreeMap<u64, Box<Block>>>;

/// Journal as far as it was read.
#[derive(Debug)]
pub(in crate::md) struct Walked {
    /// Position of the first block that does not count.
    position: u64,
    /// Sequence number of the last one that does.
    sequence: Option<u64>,
    /// Sectors from the tail on.
    sectors: u64,
    /// Rows of which it had data alone, and that have parities now.
    completed: Vec<Row>,
}

/// Journal device of an array.
fn device<'a>(assembly: &Assembly<'a>) -> Option<&'a Member> {
    assembly.devices.iter().find(|(_, part)| *part == Part::Journal).map(|(member, _)| *member)
}

/// Applies the journal from its tail to the first block that is torn.
pub(in crate::md) fn apply<M: Media + ?Sized>(
    reader: &mut Reader<'_, M>,
    assembly: &Assembly<'_>,
    media: &[&M],
) -> Result<Option<Walked>, ReadFailed> {
    let journal = assembly.devices.iter().zip(media).find(|((_, part), _)| *part == Part::Journal);
    let Some(((member, _), media)) = journal else { return Ok(None) };
    let superblock = member.superblock();
    let ring = Ring::of(superblock.device.data_size);
    let tail = superblock.device.recovery_offset;
    let damaged = |reason: &str| ReadFailed {
        sector: superblock.device.data_offset.saturating_add(tail),
        reason: format!("the journal {}: {reason}", member.name),
    };
    if tail >= ring.sectors() || !tail.is_multiple_of(BLOCK_SECTORS) {
        return Err(damaged("its tail lies beyond its end"));
    }
    let mut walked = Walked { position: tail, sequence: None, sectors: 0, completed: Vec::new() };
    let mut waiting = Waiting::new();
    while walked.sectors < ring.sectors() {
        let mut block = [0; BLOCK_BYTES];
        media.read(superblock.device.data_offset + walked.position, &mut block)?;
        let Some(meta) = MetaBlock::decode(superblock.array.uuid, &block) else { break };
        let follows = walked.sequence.is_none_or(|last| last.checked_add(1) == Some(meta.sequence));
        if meta.position != walked.position || !follows || walked.sectors + meta.sectors() > ring.sectors() {
            break;
        }
        let Some(contents) = contents(*media, superblock, &meta, ring)? else { break };
        apply_meta(reader, &meta, contents, &mut waiting);
        walked.sequence = Some(meta.sequence);
        walked.position = ring.after(walked.position, meta.sectors());
        walked.sectors += meta.sectors();
    }
    // A tail is recorded when the block there is durable; that of a new journal is zero, and nothing is there.
    if walked.sequence.is_none() && tail > 0 {
        return Err(damaged("the block at its tail is damaged, and what it held is lost"));
    }
    for (row, blocks) in waiting {
        if complete(reader, row, blocks) {
            walked.completed.push(row);
        }
    }
    Ok(Some(walked))
}

/// Blocks behind a metadata block, in order; `None` when one of them is torn.
fn contents<M: Media + ?Sized>(
    media: &M,
    superblock: &Superblock,
    meta: &MetaBlock,
    ring: Ring,
) -> Result<Option<Vec<Box<Block>>>, ReadFailed> {
    let mut found = Vec::new();
    let mut position = meta.position;
    for payload in &meta.payloads {
        let (Payload::Data { checksums, .. } | Payload::Parity { checksums, .. }) = payload else { continue };
        for sum in checksums {
            position = ring.after(position, BLOCK_SECTORS);
            let mut block = Box::new([0; BLOCK_BYTES]);
            media.read(superblock.device.data_offset + position, &mut block[..])?;
            if checksum(superblock.array.uuid, &block[..]) != *sum {
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
    place_data(reader, row, waiting.remove(&row).unwrap_or_default());
    let (p, q) = geometry.parity(Stripe(stripe));
    for (member, content) in [Some(p), q].into_iter().flatten().zip(parities) {
        reader.overlay().pieces.insert((member, row), content);
    }
}

fn place_data<M: Media + ?Sized>(reader: &mut Reader<'_, M>, row: Row, blocks: BTreeMap<u64, Box<Block>>) {
    for (block, content) in blocks {
        let (_, member) = reader.place(block);
        reader.overlay().pieces.insert((member, row), content);
    }
}

/// Data that wait get the parities of their row; false when no parity has a member, or they cannot be had: then what is missing of
/// the row is in doubt.
fn complete<M: Media + ?Sized>(
    reader: &mut Reader<'_, M>,
    row: Row,
    blocks: BTreeMap<u64, Box<Block>>,
) -> bool {
    let stripe = reader.stripe(row);
    let (order, code) = (reader.order(stripe), reader.code(stripe));
    let old: Vec<(usize, Box<Block>)> =
        reader.pieces(row).into_iter().map(|(role, piece)| (place_of(&order, role), piece)).collect();
    let has_parity = order.iter().skip(code.data_count()).any(|role| reader.counts(row, *role));
    let is_in_doubt = reader.is_in_doubt(row);
    let written: Vec<Role> = blocks.keys().map(|block| reader.place(*block).1).collect();
    place_data(reader, row, blocks);
    if !has_parity {
        // What the journal has of its parities is older than the data.
        for role in order.iter().skip(code.data_count()) {
            reader.overlay().pieces.remove(&(*role, row));
        }
        return false;
    }
    let present: PieceSet = old.iter().map(|(piece, _)| *piece).collect();
    let mut data: Vec<Box<Block>> = Vec::new();
    for (piece, role) in order.iter().enumerate().take(code.data_count()) {
        let mut content = Box::new([0; BLOCK_BYTES]);
        let is_had = written.contains(role) || present.contains(piece);
        if is_had && reader.piece(row, *role, &mut content) {
            data.push(content);
            continue;
        }
        if is_in_doubt || code.sources(piece, present).is_none() {
            reader.overlay().torn.insert(row);
            return false;
        }
        let sources: Vec<(usize, &Block)> =
            old.iter().map(|(piece, block)| (*piece, block.as_ref())).collect();
        code.decode(piece, &sources, &mut content);
        data.push(content);
    }
    let data: Vec<&Block> = data.iter().map(AsRef::as_ref).collect();
    for (parity, role) in order.iter().skip(code.data_count()).enumerate() {
        let mut content = Box::new([0; BLOCK_BYTES]);
        code.encode(parity, &data, &mut content);
        reader.overlay().pieces.insert((*role, row), content);
    }
    true
}

fn place_of(order: &[Role], role: Role) -> usize {
    order.iter().position(|other| *other == role).expect("a member of the row")
}

/// End of the journal, at which it goes on; `None` without one.
///
/// # Errors
/// When it has no room for the parities of rows of which it has data alone.
pub(in crate::md) fn ending<M: Media + ?Sized>(
    reader: &Reader<'_, M>,
    assembly: &Assembly<'_>,
) -> Result<Option<JournalEnd>, ReadFailed> {
    let (Some(walked), Some(member)) = (reader.walked(), device(assembly)) else { return Ok(None) };
    let superblock = member.superblock();
    let array = superblock.array.uuid;
    let ring = Ring::of(superblock.device.data_size);
    let Some(last) = walked.sequence else {
        // A new journal. Blocks of an older one may lie there: sequence numbers follow the time, which is beyond all of theirs.
        let sequence = (seconds(assembly.superblock().state.updated) << 20) + SEQUENCE_JUMP;
        return Ok(Some(JournalEnd { position: walked.position, sequence, appended: Vec::new() }));
    };
    let parities = |row: &Row| {
        let row = *row;
        let (p, q) = reader.geometry().parity(reader.stripe(row));
        [Some(p), q].into_iter().flatten().map(move |role| {
            let mut content = Box::new([0; BLOCK_BYTES]);
            assert!(reader.piece(row, role, &mut content), "parities that were computed");
            content
        })
    };
    let payload = |row: &Row| {
        let checksums = parities(row).map(|block| checksum(array, &block[..])).collect();
        Payload::Parity { flags: 0, sector: row.0, checksums }
    };
    let rows_of_block = (BLOCK_BYTES - HEAD_BYTES) / payload_bytes(reader.geometry().parities().into());
    let mut contents = walked.completed.iter().flat_map(parities);
    let (mut position, mut sequence) = (walked.position, last);
    let (mut used, mut appended) = (walked.sectors, Vec::new());
    for rows in walked.completed.chunks(rows_of_block) {
        sequence = sequence.saturating_add(1);
        let meta = MetaBlock { sequence, position, payloads: rows.iter().map(payload).collect() };
        used += meta.sectors();
        // The block behind has to find room too.
        if used + BLOCK_SECTORS > ring.sectors() {
            let reason = "it is full, and rows of which it has data alone need parities: let md replay it";
            let reason = format!("the journal {}: {reason}", member.name);
            return Err(ReadFailed { sector: superblock.device.data_offset + position, reason });
        }
        let mut head = Box::new([0; BLOCK_BYTES]);
        meta.encode(array, &mut head);
        let count = meta.payloads.iter().map(Payload::blocks).sum();
        for block in std::iter::once(head).chain(contents.by_ref().take(count)) {
            appended.push((position, block));
            position = ring.after(position, BLOCK_SECTORS);
        }
    }
    Ok(Some(JournalEnd { position, sequence: sequence.saturating_add(SEQUENCE_JUMP), appended }))
}
