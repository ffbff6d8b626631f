//! Journals of identities that lie on a device of their own: tables and seals, and what is found on a device that holds anything. What is read
//! is written as it was, and a block counts only when its seal is of the life that the table says.
#![no_main]

use base::frame::Frame;
use base::units::BLOCK_BYTES;
use base::xor::Block;
use drive::conventional::Source;
use drive::inband::pair::find_table;
use drive::inband::seal::{self, SEAL_BYTES};
use drive::inband::table::{self, Table};
use drive::units::Trouble;
use fuzz::{assert_same_fields, block, offset_of, resealed, seed, trimmed};
use libfuzzer_sys::fuzz_target;

const TABLE: Table = Table { uuid: [7; 16], drive: [9; 16], places: 100, sequence: 5, generations: [3, 4] };

/// A device whose first blocks are copies of the table.
struct Device([Block; 2]);

impl Source for Device {
    fn blocks(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, place: u64, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        assert!(place + frames.len() as u64 <= self.blocks(), "a read beyond the end");
        for (frame, block) in frames.iter_mut().zip(&self.0[usize::try_from(place).expect("two")..]) {
            frame.data = *block;
        }
        Ok(())
    }
}

/// A block with room for a seal.
fn unsealed(block: &Block) -> Block {
    let mut block = *block;
    block[BLOCK_BYTES - SEAL_BYTES..].fill(0);
    block
}

fn seeds() {
    let mut sealed = unsealed(&[5; BLOCK_BYTES]);
    TABLE.seal(1, 30, &mut sealed);
    let older = Table { sequence: 4, generations: [3, 3], ..TABLE };
    let blocks = [TABLE.encode(), older.encode(), sealed];
    seed("identity_journal", &blocks.iter().map(|block| trimmed(block)).collect::<Vec<_>>());
}

fn table(block: &Block) -> Option<Table> {
    let found = Table::decode(block)?;
    let anew = found.encode();
    assert_eq!(Table::decode(&anew), Some(found));
    assert_same_fields(table::FIELDS, &anew, block, &["RESERVED", "ZEROS", "CRC"]);
    assert!(found.block_of(1, found.places - 1) < found.blocks(), "a zone ends beyond the journal");
    Some(found)
}

/// A sealed block is read as it was, but where its seal is; others are zeros.
fn seals(of: &Table, block: &Block) {
    for (zone, offset) in [(0, 0), (1, of.places - 1)] {
        let mut read = *block;
        let counts = of.unseal(zone, offset, &mut read);
        assert!(counts || read.iter().all(|byte| *byte == 0), "a block that does not count is seen");
        let mut written = unsealed(block);
        of.seal(zone, offset, &mut written);
        let mut again = written;
        assert!(of.unseal(zone, offset, &mut again), "a block that was sealed counts");
        assert_eq!(again, unsealed(block));
        let turned = Table { generations: of.generations.map(|generation| generation ^ 1), ..*of };
        assert!(!turned.unseal(zone, offset, &mut written), "a block of another turn counts");
    }
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let raw = block(data);
    let whole = resealed(raw, offset_of(table::FIELDS, "CRC"), b"");
    let sealed = resealed(raw, offset_of(seal::FIELDS, "CRC"), b"");
    for block in [&raw, &whole, &sealed] {
        let found = table(block);
        seals(&found.unwrap_or(TABLE), block);
        let newest = find_table(&mut Device([TABLE.encode(), *block]), None).expect("one is there");
        let is_newer = |found: Table| found.sequence >= TABLE.sequence;
        assert_eq!(newest, found.filter(|found| is_newer(*found)).unwrap_or(TABLE));
        let wanted = find_table(&mut Device([*block, *block]), Some(TABLE.uuid)).ok();
        assert_eq!(wanted, found.filter(|found| found.uuid == TABLE.uuid));
    }
});
