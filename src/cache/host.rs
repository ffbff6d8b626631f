//! The machine that a cache is served on: since when it runs, and the file whose pages are memory that outlives the process.
//!
//! Entries are stored by writes into the page cache, and never flushed: what was written is there for whoever reads the file until the
//! machine ends, whatever becomes of the process. A mapping would do the same, and end the process where the file cannot grow or was cut
//! short (ADR 57).

use super::directory::CacheDirectory;
use anyhow::{Context, Result};
use cache::config::Invalidate;
use cache::shared::{Host, SharedMemory, bytes_for};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Entries that a file has room for.
const ENTRIES: usize = 4096;

/// Identity of this start of the machine.
///
/// # Errors
/// When the machine does not tell.
pub fn boot() -> Result<[u8; 16]> {
    let text = std::fs::read_to_string(BOOT_ID).context(BOOT_ID)?;
    Ok(*uuid::Uuid::parse_str(text.trim()).context(BOOT_ID)?.as_bytes())
}

/// The machine, with the file of a shard where one is wanted, or was.
///
/// # Errors
/// When the file cannot be made or read.
pub fn host(directory: &CacheDirectory, shard: usize, invalidate: Invalidate) -> Result<Host> {
    let name = if shard == 0 { "invalidations".to_owned() } else { format!("invalidations-{shard}") };
    let path = directory.path.join(name);
    let named = || format!("{}", path.display());
    let wants = invalidate == Invalidate::Process;
    let file = match File::options().read(true).write(true).create(wants).truncate(false).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Host { boot: boot()?, memory: None }),
        file => file.with_context(named)?,
    };
    let length = usize::try_from(file.metadata().with_context(named)?.len()).with_context(named)?;
    if length == 0 {
        // It has its blocks before anything depends on them.
        file.write_all_at(&vec![0; bytes_for(ENTRIES)], 0).with_context(named)?;
    }
    let length = if length == 0 { bytes_for(ENTRIES) } else { length };
    Ok(Host { boot: boot()?, memory: Some(Box::new(Pages { file, length })) })
}

struct Pages {
    file: File,
    length: usize,
}

impl SharedMemory for Pages {
    fn bytes(&self) -> usize {
        self.length
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        if let Err(error) = self.file.read_exact_at(bytes, at as u64) {
            log::warn!("the file `invalidations` cannot be read, so what it holds is lost: {error}");
            bytes.fill(0);
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if let Err(error) = self.file.write_all_at(bytes, at as u64) {
            // Nobody may be told that it is there. The next life finds all that was stored before.
            log::error!("the file `invalidations` cannot be written: {error}");
            std::process::abort();
        }
    }
}
