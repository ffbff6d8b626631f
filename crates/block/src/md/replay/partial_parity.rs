//! Replay of partial parity logs: parities of rows that a crash may have cut off, and rows that stay in doubt.
//!
//! ```text
//!   newest header of a member, entry by entry        chunks modified, of each row:
//!     all there                      parity = partial parity + what they hold now; of a whole stripe the sum of all
//!     one chunk, and that missing    parity as it is: old or new, the rest of the row is as ever; a block that is unreadable on a
//!                                    member that is there becomes what parity says
//!     several, one of them missing   parity as it is when the witness matches; else the row is in doubt
//! ```

use crate::md::assembly::{Assembly, Part};
use crate::md::geometry::Stripe;
use crate::md::ppl::witness::{self, Sums, sum_of};
use crate::md::ppl::{self, Entry, Found};
use crate::md::reader::{ROW_SECTORS, Reader, Row};
use crate::md::{Media, Role, SECTOR_BYTES_U64};
use base::checksum::crc32c;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64};
use base::xor::{Block, xor_blocks};

/// Entry with what lies behind the header for it.
struct Logged {
    entry: Entry,
    /// Partial parity; `None` when it cannot be read.
    partial: Option<Vec<u8>>,
}

/// Rows of an entry: blocks of one stripe at one place of the same chunks.
struct Run {
    /// First block of the volume of the first row.
    first: u64,
    rows: u64,
    chunks: u64,
}

/// Row of a run as it is now.
struct RunRow {
    row: Row,
    /// Blocks of the modified chunks; `None` where one cannot be read.
    data: Vec<Option<Box<Block>>>,
    /// Their members.
    members: Vec<Role>,
}

/// Applies the newest header of each member.
pub(in crate::md) fn apply<'a, M: Media + ?Sized>(
    reader: &mut Reader<'a, M>,
    assembly: &Assembly<'_>,
    media: &[&'a M],
) {
    for ((member, part), media) in assembly.devices.iter().zip(media) {
        let newest = member.newest_ppl(assembly.superblock());
        let (Part::Active(role) | Part::Recovering(role, _), Some(found)) = (part, newest) else {
            continue;
        };
        let end = member.superblock().ppl_place().map_or(0, |(start, sectors)| start.saturating_add(sectors));
        let parts = read(*media, found, end);
        let witness = parts.iter().find(|part| part.entry.is_witness());
        let witness = witness.and_then(|part| part.partial.as_ref()?.first_chunk::<BLOCK_BYTES>());
        let sums = witness.map(witness::decode).unwrap_or_default();
        for (index, part) in (0_u32..).zip(&parts) {
            let sums = sums.iter().find(|sums| sums.entry == index);
            apply_entry(reader, *role, part, sums);
        }
    }
}

/// Reads what lies behind a header, in a log that ends at a sector. Nothing of a batch is written to members before its log is whole,
/// so entries whose checksum is wrong, or that lead beyond the log, are left out: as if they had no rows.
fn read<M: Media + ?Sized>(media: &M, found: &Found, end: u64) -> Vec<Logged> {
    let mut sector = found.sector + ppl::HEADER_SECTORS;
    let mut parts = Vec::new();
    for entry in &found.header.entries {
        let behind = sector.saturating_add(u64::from(entry.pp_bytes).div_ceil(SECTOR_BYTES_U64));
        let bytes = usize::try_from((behind - sector) * SECTOR_BYTES_U64).ok().filter(|_| behind <= end);
        let partial = bytes.and_then(|bytes| {
            let mut partial = vec![0; bytes];
            media.read(sector, &mut partial).ok().map(|()| partial)
        });
        let is_torn =
            bytes.is_none() || partial.as_ref().is_some_and(|partial| crc32c(partial) != entry.checksum);
        let none = Entry { data_bytes: 0, pp_bytes: 0, ..*entry };
        parts.push(if is_torn {
            Logged { entry: none, partial: None }
        } else {
            Logged { entry: *entry, partial }
        });
        sector = behind;
    }
    parts
}

/// Rows that an entry names; `None` when it has none, or those cannot be.
fn run<M: Media + ?Sized>(reader: &Reader<'_, M>, role: Role, part: &Logged) -> Option<Run> {
    let entry = &part.entry;
    let geometry = reader.geometry();
    let (pp, data) = (u64::from(entry.pp_bytes), u64::from(entry.data_bytes));
    let all = u64::from(geometry.data_chunks());
    let (rows, chunks) = match pp {
        0 => (data / all / BLOCK_BYTES_U64, all),
        _ => (pp / BLOCK_BYTES_U64, data.div_ceil(pp)),
    };
    let chunk_blocks = geometry.chunk_sectors() / ROW_SECTORS;
    let first = entry.data_sector / ROW_SECTORS;
    let is_aligned = entry.data_sector.is_multiple_of(ROW_SECTORS);
    let is_whole = pp.is_multiple_of(BLOCK_BYTES_U64) && data.is_multiple_of(BLOCK_BYTES_U64) && is_aligned;
    if !is_whole || rows == 0 || chunks == 0 || first >= reader.blocks() {
        return None;
    }
    let (chunk, within) = (first / chunk_blocks, first % chunk_blocks);
    let fits = within + rows <= chunk_blocks && chunk % all + chunks <= all;
    let (parity, _) = geometry.parity(Stripe(chunk / all));
    if !fits || parity != role || u32::from(role.0) != entry.parity_member {
        return None;
    }
    // Without its partial parity, a row is judged by all of its chunks.
    let is_lost = part.partial.is_none() && pp > 0;
    let start = if is_lost { chunk / all * all * chunk_blocks + within } else { first };
    Some(Run { first: start, rows, chunks: if is_lost { all } else { chunks } })
}

fn apply_entry<M: Media + ?Sized>(
    reader: &mut Reader<'_, M>,
    role: Role,
    part: &Logged,
    sums: Option<&Sums>,
) {
    let Some(run) = run(reader, role, part) else { return };
    let rows: Vec<RunRow> = (0..run.rows).map(|index| run_row(reader, &run, index)).collect();
    let lacks = |row: &RunRow| row.data.iter().any(Option::is_none);
    let is_trusted = run.chunks == 1
        || (rows.iter().any(lacks) && sums.is_some_and(|sums| matches(reader, role, &rows, sums)));
    for (index, row) in rows.iter().enumerate() {
        if !lacks(row) {
            let parity = sum(row, part, index * BLOCK_BYTES);
            reader.overlay().pieces.insert((role, row.row), Box::new(parity));
        } else if is_trusted {
            rewrite(reader, role, row, sum(row, part, index * BLOCK_BYTES));
        } else {
            reader.overlay().torn.insert(row.row);
        }
    }
}

fn run_row<M: Media + ?Sized>(reader: &Reader<'_, M>, run: &Run, index: u64) -> RunRow {
    let chunk_blocks = reader.geometry().chunk_sectors() / ROW_SECTORS;
    let first = run.first + index;
    let member = |chunk: u64| reader.place(first + chunk * chunk_blocks).1;
    let members: Vec<Role> = (0..run.chunks).map(member).collect();
    let row = reader.place(first).0;
    let read = |member: &Role| {
        let mut block = Box::new([0; BLOCK_BYTES]);
        reader.piece(row, *member, &mut block).then_some(block)
    };
    RunRow { row, data: members.iter().map(read).collect(), members }
}

/// A block that cannot be read, though its member is there, is what parity and other pieces say: other sectors of it may be older
/// or newer than they are.
fn rewrite<M: Media + ?Sized>(reader: &mut Reader<'_, M>, role: Role, row: &RunRow, others: Block) {
    let mut lost = row.data.iter().zip(&row.members).filter(|(data, _)| data.is_none());
    let (Some((_, member)), None) = (lost.next(), lost.next()) else { return };
    let mut content = Box::new([0; BLOCK_BYTES]);
    if reader.counts(row.row, *member) && reader.piece(row.row, role, &mut content) {
        let parity = *content;
        xor_blocks(&mut content, &[&parity, &others]);
        reader.overlay().pieces.insert((*member, row.row), content);
    }
}

/// Sum of partial parity and what can be read of the modified chunks: the parity, where that is all of them.
fn sum(row: &RunRow, part: &Logged, at: usize) -> Block {
    let behind = part.partial.as_ref().and_then(|partial| partial.get(at..));
    let mut parity = behind.and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; BLOCK_BYTES]);
    for block in row.data.iter().flatten() {
        let before = parity;
        xor_blocks(&mut parity, &[&before, block]);
    }
    parity
}

/// True when all pieces of the rows that can be read are those of a batch that was written whole, their parities among them.
fn matches<M: Media + ?Sized>(reader: &Reader<'_, M>, role: Role, rows: &[RunRow], sums: &Sums) -> bool {
    let Some((of_parity, of_data)) = sums.sums.split_last() else { return false };
    if rows.iter().any(|row| row.data.len() != of_data.len()) {
        return false;
    }
    let parities = rows.iter().map(|row| {
        let mut block = Box::new([0; BLOCK_BYTES]);
        reader.piece(row.row, role, &mut block).then_some(block)
    });
    let Some(parities) = parities.collect::<Option<Vec<Box<Block>>>>() else { return false };
    let is_right = |(chunk, sum): (usize, &u32)| {
        let blocks: Option<Vec<&Block>> = rows.iter().map(|row| row.data[chunk].as_deref()).collect();
        blocks.is_none_or(|blocks| sum_of(blocks.into_iter()) == *sum)
    };
    sum_of(parities.iter().map(|block| &**block)) == *of_parity && of_data.iter().enumerate().all(is_right)
}
