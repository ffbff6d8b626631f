//! What the targets share: seeds, and records whose checksums are made right.
//!
//! A mutated record nearly always fails its checksum. Targets therefore look at every record twice: as it
//! came, and with the checksum put right, which is what tests everything behind it.

pub mod md_array;

use base::bytes::put;
use base::checksum::crc32c;
use base::fields::Field;
use base::units::BLOCK_BYTES;
use base::xor::Block;
use std::path::Path;

/// Puts inputs made by our own encoders into the corpus of a target, before the fuzzer reads it.
///
/// # Panics
/// When they cannot be written.
pub fn seed(target: &str, inputs: &[Vec<u8>]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&corpus).expect("fuzz/corpus is writable");
    for (index, input) in inputs.iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{index}")), input).expect("fuzz/corpus is writable");
    }
}

/// A block that begins with `data`; the rest is zeros.
#[must_use]
pub fn block(data: &[u8]) -> Block {
    let mut block = [0; BLOCK_BYTES];
    let bytes = data.len().min(BLOCK_BYTES);
    block[..bytes].copy_from_slice(&data[..bytes]);
    block
}

/// The same without the zeros at its end: a short seed has more chance to be changed where it matters.
#[must_use]
pub fn trimmed(block: &[u8]) -> Vec<u8> {
    let end = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    block[..end].to_vec()
}

/// A record with its checksum, which ends with `suffix`, put right.
#[must_use]
pub fn resealed<const N: usize>(mut record: [u8; N], crc_at: usize, suffix: &[u8]) -> [u8; N] {
    put(&mut record, crc_at, &[0; 4]);
    let crc = crc32c(&[&record[..], suffix].concat());
    put(&mut record, crc_at, &crc.to_le_bytes());
    record
}

/// Offset of a field.
///
/// # Panics
/// When there is no such field.
#[must_use]
pub fn offset_of(fields: &[Field], name: &str) -> usize {
    fields.iter().find(|field| field.name == name).expect("a field of the record").at
}

/// Fails when the records differ in a field, but for those whose names begin with one of `but`.
///
/// # Panics
/// That is what it is for.
pub fn assert_same_fields(fields: &[Field], a: &[u8], b: &[u8], but: &[&str]) {
    for field in fields.iter().filter(|field| !but.iter().any(|name| field.name.starts_with(name))) {
        let range = field.at..field.at + field.bytes;
        assert!(a[range.clone()] == b[range], "{} is not encoded as it was decoded", field.name);
    }
}
