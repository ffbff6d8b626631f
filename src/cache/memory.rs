//! `--memory`: how it is shared out, and whether the rest holds the index. Drives that the index would not name are a cache that
//! forgets what is new while what is old stays, so nothing is served, added or made on these terms.

use crate::exit::Exit;
use anyhow::Result;
use base::units::{human_bytes, parse_bytes};
use cache::{MemoryShort, Options};

const MIB: u64 = 1 << 20;
/// Part of the memory that is the clients'.
const CLIENTS_SHARE: u64 = 4;
/// `--memory` where it is not said.
pub const DEFAULT: &str = "256MiB";

/// Bytes for connections, of all memory.
pub fn of_clients(memory: u64) -> u64 {
    memory / CLIENTS_SHARE
}

/// Bytes for index, buffers and copies, of all memory.
pub fn of_engine(memory: u64) -> u64 {
    memory - of_clients(memory)
}

/// The `--memory` of which the engine has so much, in whole MiB.
pub fn for_engine(bytes: u64) -> String {
    let mib = bytes.div_ceil((CLIENTS_SHARE - 1) * MIB).saturating_mul(CLIENTS_SHARE);
    format!("{mib}MiB")
}

/// Judges whether the memory of a cache holds the indexes of its shards, each for so many bytes of flash.
///
/// # Errors
/// When it does not: with the memory that would do, and the mean size of objects that would.
pub fn check(options: &Options, flash_of_one: u64, shards: usize) -> Result<()> {
    judge(options, flash_of_one, shards).map_err(|short| Exit::Usage.error(in_words(&short)))
}

/// Shortage of memory of all shards together.
fn judge(options: &Options, flash_of_one: u64, shards: usize) -> Result<(), MemoryShort> {
    options.part_of(shards).check_memory(flash_of_one).map_err(|short| short.of_all(shards))
}

fn in_words(short: &MemoryShort) -> String {
    let MemoryShort { needed, given, flash_bytes, object_mean, enough } = *short;
    let (given, needed, flash) = (for_engine(given), for_engine(needed), human_bytes(flash_bytes));
    format!(
        "--memory {given} does not hold the index of {flash} of flash for objects of {object_mean} bytes on the mean: say --memory \
         {needed}, or --object-mean {enough} if objects are that large"
    )
}

/// The `--memory` that the next start needs for drives of this size; none where the default does, for objects of the default mean.
pub fn beyond_default(flash_bytes: u64, shards: usize) -> Option<String> {
    let memory = parse_bytes(DEFAULT).expect("a size");
    let options = Options { memory_bytes: of_engine(memory), ..Options::default() };
    let judged = judge(&options, flash_bytes / shards as u64, shards);
    judged.err().map(|short| for_engine(short.needed))
}
