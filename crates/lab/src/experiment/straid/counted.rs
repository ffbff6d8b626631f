//! Cells of md's cost table as settings of experiments, and what their requests cost.

use super::super::draft::Cell;
use super::super::measurement::{DRIVE_READS, DRIVE_WRITES, Metric, Value};
use super::super::setting::Setting;
use super::{BITMAP_WRITE, DEGRADED_READ, DEGRADED_WRITE, RANDOM_READ, RANDOM_WRITE, STREAM_WRITE, cell_of};
use crate::md_array::Ahead;
use crate::md_cost::cells::{Cell as MdCell, Cells, Manner};
use crate::md_cost::profile::{Part, Profile, profile};
use crate::md_cost::{Measured, measure};
use crate::precise::precise_u64;
use anyhow::Result;

/// Instructions of a request from submit to reply, and those in functions that lock.
pub const INSTRUCTIONS: Metric = Metric { name: "instructions_per_request", unit: "" };
pub const LOCKS: Metric = Metric { name: "lock_instructions_per_request", unit: "" };
/// Instructions of md over ours.
pub const MD_OVER: Metric = Metric { name: "md_instructions_over", unit: "x" };
/// Share of instructions.
pub const LOCK_SHARE: Metric = Metric { name: "lock_share", unit: "percent" };

/// Cells of the table by their names.
pub fn cells(names: &[&str]) -> Vec<Cell> {
    let table = Cells::load().expect("the built-in table is tested");
    let cell = |name: &&str| table.all.iter().find(|cell| cell.name == *name).expect("a cell of the table");
    names.iter().map(|name| cell_of(setting(cell(name)))).collect()
}

/// A cell of the table as a setting. Members answer at once.
fn setting(cell: &MdCell) -> Setting {
    let workload = match (cell.op, cell.lost > 0, cell.bitmap) {
        (Manner::RandomRead, false, _) => RANDOM_READ,
        (Manner::RandomRead, true, _) => DEGRADED_READ,
        (Manner::RandomWrite, false, false) => RANDOM_WRITE,
        (Manner::RandomWrite, false, true) => BITMAP_WRITE,
        (Manner::RandomWrite, true, _) => DEGRADED_WRITE,
        (Manner::SequentialWrite, ..) => STREAM_WRITE,
    };
    Setting {
        profile: "null",
        drives: usize::try_from(cell.members).expect("at most 32"),
        level: u8::try_from(cell.level).expect("4, 5 or 6"),
        request_kib: u32::try_from(cell.bytes / 1024).ok(),
        chunk_kib: 64,
        queue_depth: u32::try_from(cell.depth).ok(),
        workload: Some(workload),
        ..Setting::default()
    }
}

/// The cell of the table that a setting was made of. Experiments take none that writes ahead.
pub fn md_cell(of: &Cell) -> MdCell {
    let table = Cells::load().expect("the built-in table is tested");
    let found = table.all.into_iter().find(|cell| writes_in_place(cell) && setting(cell) == of.setting);
    found.expect("a setting of the table")
}

/// No log and no journal is written before the members.
fn writes_in_place(cell: &MdCell) -> bool {
    cell.ahead == Ahead::Nothing
}

/// Instructions by part, in words of this module; blocks of members beside them.
pub fn count(cell: &Cell) -> Result<(MdCell, Profile, Vec<Value>)> {
    let md = md_cell(cell);
    let profile = profile(&md)?;
    let Measured { requests, blocks_read, blocks_written, .. } = measure(&md, None)?;
    let per_request = |count: u64| precise_u64(count) / precise_u64(md.requests());
    let per_block = |count: u64| precise_u64(count) / precise_u64(requests * md.blocks());
    // What the lab's own client takes is a part of it, as md's figures are with their client.
    let values = [
        (INSTRUCTIONS, per_request(profile.sum)),
        (LOCKS, per_request(profile.locks)),
        (DRIVE_READS, per_block(blocks_read)),
        (DRIVE_WRITES, per_block(blocks_written)),
    ];
    Ok((md, profile, values.into_iter().map(|(metric, value)| Value { metric, value }).collect()))
}

/// Instructions of a part for each MiB of requests.
pub fn per_mib(cell: &MdCell, profile: &Profile, part: Part) -> f64 {
    precise_u64(profile.of(part)) / precise_u64(cell.requests() * cell.bytes) * f64::from(1 << 20)
}

/// Array and request, for an axis.
pub fn name(cell: &Cell) -> String {
    let md = md_cell(cell);
    md.name.split_once("-qd").map_or(md.name.clone(), |(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn settings_tell_cells_apart_but_for_how_many_are_lost() {
        let table = Cells::load().unwrap();
        let of_one = table.all.iter().filter(|cell| writes_in_place(cell) && cell.lost == 0);
        let names: BTreeSet<String> =
            of_one.clone().map(|cell| md_cell(&cell_of(setting(cell))).name).collect();
        assert_eq!(names.len(), of_one.count());
    }
}
