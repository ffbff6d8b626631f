//! Segment headers: what is decoded is encoded as it was, and makes a layout that can be used.
#![no_main]

use base::units::ZoneIndex;
use fuzz::{assert_same_fields, block, offset_of, resealed, seed, trimmed};
use libfuzzer_sys::fuzz_target;
use zone::format::HEADER_BLOCKS;
use zone::format::header::{Blank, FIELDS, SegmentHeader, Stream, WriteMode};
use zone::stripe::table::{Packing, StripeTable};
use zone::stripe::{Layout, LayoutSizes, Level};

fn seeds() {
    let header = SegmentHeader {
        array: [7; 16],
        segment: 9,
        sequence: 1 << 40,
        member: 1,
        blank: Blank::No,
        data_count: 2,
        parity_count: 1,
        level: 5,
        mode: WriteMode::Append,
        is_write_area: false,
        stream: Stream::Small,
        header_blocks: 1,
        chunk_blocks: 1,
        group_stripes: 256,
        stripes: 900,
        zones: vec![ZoneIndex(4), ZoneIndex(5), ZoneIndex(9)],
    };
    let mut encoded = block(&[]);
    header.encode(1, &mut encoded);
    seed("segment_header", &[trimmed(&encoded)]);
}

/// Uses the layout of a header whose chunk size is the array's, as a mount does.
fn use_layout(header: &SegmentHeader) -> Option<()> {
    let level = Level::from_code(header.level)?;
    let code = level.erasure_code(header.zones.len())?;
    let chunk_blocks = header.chunk_blocks.clamp(1, 16);
    let sizes = LayoutSizes {
        header_blocks: HEADER_BLOCKS,
        chunk_blocks,
        group_stripes: header.group_stripes,
        capacity_blocks: 500,
    };
    let layout = Layout::fit(code, level, &sizes)?;
    assert!((0..layout.groups()).map(|group| layout.group_len(group)).sum::<u32>() == layout.stripes);
    let mut table = StripeTable::new(&layout, Packing::default());
    let last = layout.stripes - 1;
    let within = last - layout.group_start(layout.group_of_slot(last));
    table.set(layout.members() - 1, last, within);
    assert_eq!(table.stripe_within(layout.members() - 1, last), Some(within));
    Some(())
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let raw = block(data);
    for block in [raw, resealed(raw, offset_of(FIELDS, "CRC"), &[])] {
        let Some(header) = SegmentHeader::decode(&block) else { continue };
        let mut encoded = fuzz::block(&[]);
        header.encode(header.member, &mut encoded);
        assert_eq!(SegmentHeader::decode(&encoded).as_ref(), Some(&header));
        // Zones beyond the last member mean nothing.
        assert_same_fields(FIELDS, &encoded, &block, &["CRC", "RESERVED", "ZONES"]);
        use_layout(&header);
    }
});
