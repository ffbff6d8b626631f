//! What the paper computes of its design (sections 3.1 and 3.2; levels in 5.2): sizes on the media and of structures in
//! memory, for four ZN540 of 4 TB with chunks of a block. Nothing here takes time or chance.

use super::draft::{Cell, Draft};
use super::measurement::{Metric, Value};
use super::rig::blocks_of_kib;
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::memory_run::{self, MemoryRun};
use crate::precise::{precise, precise_u64};
use anyhow::{Context, Result};
use array::log::memory::mapping_table_bytes;
use base::units::BLOCK_BYTES_U64;
use drive::timing::Profile;
use zone::format::HEADER_BLOCKS;
use zone::format::footer::ENTRIES_PER_BLOCK;
use zone::stripe::table::Packing;
use zone::stripe::{GROUP_STRIPES_MAX, Layout, LayoutSizes, Level};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "design",
    title: "Design: sizes of segments, index and stripe tables (sections 3.1 and 3.2)",
    statement: "An index of 16 TiB takes 16 GiB; stripe tables of four drives take 3.77 GiB with groups of 256 stripes \
                and 8.95 GiB without groups.",
    run_ms: 200,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// The paper's drives have so many zones that stripe tables are kept for.
const SEGMENTS: u64 = 3690;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// The volume that the paper takes for its index.
const INDEX_TIB: u64 = 16;
/// Enough to seal a segment.
const WRITTEN_BYTES: u64 = 5 * GIB;
/// RAID-0, 01, 4, 5 and 6 by their numbers in settings.
const LEVELS: [u8; 5] = [0, 1, 4, 5, 6];

const SEGMENT_STRIPES: Metric = Metric { name: "segment_stripes", unit: "stripes" };
const FOOTER_BLOCKS: Metric = Metric { name: "footer_blocks", unit: "blocks" };
const FOOTER_ENTRIES: Metric = Metric { name: "footer_entries_per_block", unit: "entries" };
const INDEX: Metric = Metric { name: "index_16_tib_gib", unit: "GiB" };
const MAPPING_TABLE: Metric = Metric { name: "mapping_table_16_tib_mib", unit: "MiB" };
const STRIPE_TABLES: Metric = Metric { name: "stripe_tables_gib", unit: "GiB" };
const ENTRY_BITS: Metric = Metric { name: "stripe_table_entry_bits", unit: "bits" };
const QUERY_ENTRIES: Metric = Metric { name: "stripe_table_query_entries", unit: "entries" };
const DATA_CHUNKS: Metric = Metric { name: "data_chunks_per_stripe", unit: "chunks" };
/// Metrics of a cell, in this order.
pub const METRICS: [Metric; 9] = [
    SEGMENT_STRIPES,
    FOOTER_BLOCKS,
    FOOTER_ENTRIES,
    INDEX,
    MAPPING_TABLE,
    STRIPE_TABLES,
    ENTRY_BITS,
    QUERY_ENTRIES,
    DATA_CHUNKS,
];

fn cell(scheme: Scheme, level: u8) -> Cell {
    let setting =
        Setting { level, request_kib: None, queue_depth: None, small_segments: 1, ..Setting::paper(4, 4) };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = LEVELS.map(|level| cell(Scheme::ZapRaid, level)).to_vec();
    cells.push(cell(Scheme::ZoneAppendOnly, 5));
    cells
}

fn measure(cell: &Cell, _: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let level = Level::from_code(setting.level).context("a level of this version")?;
    let code = level.erasure_code(setting.drives).context("drives for the level")?;
    if level != Level::Raid5 {
        return Ok(vec![Value { metric: DATA_CHUNKS, value: precise(code.data_count()) }]);
    }
    let layout = layout_of(cell)?;
    let memory = memory_run::run(&MemoryRun {
        level,
        drives: setting.drives,
        chunk_bytes: u64::from(setting.chunk_kib) << 10,
        group_stripes: layout.group_len(0),
        stripe_table: Packing::Bits,
        stripe_tables_bytes_max: None,
        size_bytes: WRITTEN_BYTES,
    })?;
    let per_tib = |name: &str| {
        let row = memory.structures.iter().find(|row| row.structure == name);
        row.and_then(|row| row.bytes_per_tib).with_context(|| format!("{name} grow with the volume"))
    };
    let segments_tib =
        precise_u64(SEGMENTS * u64::from(layout.segment_data_blocks()) * BLOCK_BYTES_U64) / precise_u64(TIB);
    let index_blocks = INDEX_TIB * TIB / BLOCK_BYTES_U64;
    let values = [
        f64::from(layout.stripes),
        f64::from(layout.footer_blocks()),
        f64::from(ENTRIES_PER_BLOCK),
        per_tib("index")? * precise_u64(INDEX_TIB) / precise_u64(GIB),
        precise_u64(mapping_table_bytes(index_blocks)) / precise_u64(MIB),
        per_tib("stripe_tables")? * segments_tib / precise_u64(GIB),
        f64::from(Packing::Bits.entry_bits(&layout)),
        f64::from(layout.group_len(0)) * precise(code.data_count()),
        precise(code.data_count()),
    ];
    Ok(METRICS.into_iter().zip(values).map(|(metric, value)| Value { metric, value }).collect())
}

/// The segments of a setting, in zones of its drive.
pub(super) fn layout_of(cell: &Cell) -> Result<Layout> {
    let Cell { scheme, setting } = cell;
    let level = Level::from_code(setting.level).context("a level of this version")?;
    let code = level.erasure_code(setting.drives).context("drives for the level")?;
    let sizes = LayoutSizes {
        header_blocks: HEADER_BLOCKS,
        chunk_blocks: blocks_of_kib(setting.chunk_kib),
        group_stripes: scheme.group_stripes(setting.group, GROUP_STRIPES_MAX),
        capacity_blocks: Profile::load(setting.profile)?.geometry().zone_capacity_blocks,
    };
    Layout::fit(code, level, &sizes).context("a stripe fits")
}

fn judge(draft: &mut Draft) {
    let grouped = cell(Scheme::ZapRaid, 5);
    for (id, metric) in [
        ("design-segment-stripes", SEGMENT_STRIPES),
        ("design-footer-blocks", FOOTER_BLOCKS),
        ("design-footer-entries", FOOTER_ENTRIES),
        ("design-index", INDEX),
        ("design-mapping-table", MAPPING_TABLE),
        ("design-stripe-tables-g256", STRIPE_TABLES),
        ("design-query-entries", QUERY_ENTRIES),
    ] {
        draft.value(id, &grouped, metric);
    }
    let whole = cell(Scheme::ZoneAppendOnly, 5);
    draft.value("design-stripe-tables-whole", &whole, STRIPE_TABLES);
    draft.value("design-entry-bits-whole", &whole, ENTRY_BITS);
    for (id, level) in ["design-raid0", "design-raid01", "design-raid4", "design-raid5", "design-raid6"]
        .into_iter()
        .zip(LEVELS)
    {
        draft.value(id, &cell(Scheme::ZapRaid, level), DATA_CHUNKS);
    }
}
