//! What lies on a conventional drive beside its data: label, pages of the zone table, records of the journal. What is read is written as
//! it was.
#![no_main]

use base::units::ZoneIndex;
use base::xor::Block;
use drive::conventional::label::{self, Label};
use drive::conventional::layout::Layout;
use drive::conventional::table::{Entry, Table};
use drive::units::record::{self, Record};
use fuzz::{assert_same_fields, block, offset_of, resealed, seed, trimmed};
use libfuzzer_sys::fuzz_target;

const LAYOUT: Layout =
    Layout { blocks: 1 << 20, zones: 244, zone_units: 4, active_zones_max: 3, journal_records: 64 };
const UUID: [u8; 16] = *b"0123456789abcdef";
/// Offset of the checksum of pages and records, and of their drive's identity.
const CRC_AT: usize = 4;
const UUID_AT: usize = 8;

fn seeds() {
    let mut table = Table::new(UUID, &LAYOUT);
    table.set(ZoneIndex(30), Entry { birth: 7, full: Some(9) });
    let mut page = block(&[]);
    table.encode(0, 5, 77, &mut page);
    let mut blocks = vec![Label { uuid: UUID, layout: LAYOUT }.encode(), page];
    let phases = [record::Phase::Opening, record::Phase::Settling, record::Phase::Open];
    for (phase, sequence) in phases.into_iter().zip(9..) {
        let record =
            Record { sequence, tail: 4, durable: 8, stamp: 12, opening: 3, phase, entries: Vec::new() };
        let mut encoded = block(&[]);
        record.encode(UUID, &mut encoded);
        blocks.push(encoded);
    }
    seed("conventional_zone_table", &blocks.iter().map(|block| trimmed(block)).collect::<Vec<_>>());
}

fn label(block: &Block) {
    let Ok(found) = Label::decode(block) else { return };
    let anew = found.encode();
    assert_eq!(Label::decode(&anew), Ok(found));
    assert_same_fields(label::FIELDS, &anew, block, &["RESERVED", "CRC"]);
    assert!(found.layout.blocks_needed() <= found.layout.blocks, "a layout that does not fit");
}

fn page(block: &Block, uuid: [u8; 16]) {
    let mut table = Table::new(uuid, &LAYOUT);
    if !table.take_page(0, [Some(block), None], &LAYOUT) {
        return;
    }
    let mut anew = fuzz::block(&[]);
    table.encode(0, 1, 2, &mut anew);
    let mut again = Table::new(uuid, &LAYOUT);
    assert!(again.take_page(0, [None, Some(&anew)], &LAYOUT), "a page that was written is whole");
    for zone in (0..LAYOUT.zones).map(ZoneIndex) {
        let entry = table.entry(zone);
        assert_eq!(again.entry(zone), entry);
        assert!(entry.full.is_none_or(|end| end <= LAYOUT.capacity()), "a zone ends beyond its end");
    }
}

fn record(block: &Block, uuid: [u8; 16]) {
    let Some(found) = Record::decode(uuid, block) else { return };
    let mut anew = fuzz::block(&[]);
    found.encode(uuid, &mut anew);
    assert_eq!(Record::decode(uuid, &anew), Some(found));
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let raw = block(data);
    // Whose drive it is does not matter here.
    let uuid = raw[UUID_AT..UUID_AT + 16].try_into().expect("16 bytes");
    label(&raw);
    label(&resealed(raw, offset_of(label::FIELDS, "CRC"), b""));
    for block in [raw, resealed(raw, CRC_AT, b"")] {
        page(&block, uuid);
        record(&block, uuid);
    }
});
