//! The zone table of a file, mapped into memory.
//!
//! An entry is stored after each write, so its cost is part of every write's: under 1 ns through the
//! mapping, 480 ns through `pwrite` (`examples/drive_cost.rs` measures both). What the mapping
//! cannot do is report errors: running out of space would be a SIGBUS, so the pages are allocated
//! before they are mapped and again when a drive is opened, in case a copy left holes.
//!
//! Bad at: copy-on-write file systems, where an allocated page may still need space to be
//! rewritten, and files that someone truncates while they are in use. Both end the process.

use super::header::FileLayout;
use base::units::ZoneIndex;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mapped zone table of one drive.
#[derive(Debug)]
pub(super) struct TableMap {
    map: MmapRaw,
    zones: u32,
}

impl TableMap {
    /// Maps the table of a file whose table pages are allocated.
    pub(super) fn new(file: &File, layout: &FileLayout) -> std::io::Result<TableMap> {
        let bytes = usize::try_from(layout.table_bytes()).expect("8 bytes for each of at most 2^32 zones");
        let map = MmapOptions::new().offset(FileLayout::TABLE_AT).len(bytes).map_raw(file)?;
        assert!(map.len() == bytes);
        assert!(map.as_ptr().addr().is_multiple_of(align_of::<AtomicU64>()));
        Ok(TableMap { map, zones: layout.zones() })
    }

    /// The word of a zone.
    pub(super) fn load(&self, zone: ZoneIndex) -> u64 {
        u64::from_le(self.entry(zone).load(Ordering::Acquire))
    }

    /// Replaces the word of a zone. Everything written to the file before stays before.
    #[inline]
    pub(super) fn store(&self, zone: ZoneIndex, word: u64) {
        self.entry(zone).store(word.to_le(), Ordering::Release);
    }

    // SAFETY: the mapping is live as long as `self`, page-aligned, and has 8 bytes for each of
    // `zones` entries (FileLayout::table_bytes rounds up); `zone` is checked. All access goes
    // through atomics, so other mappings of the file cannot make it a data race.
    // WHY: a pwrite per write costs 480 ns where this store costs under 1 ns (see above).
    #[allow(unsafe_code)]
    #[inline]
    fn entry(&self, zone: ZoneIndex) -> &AtomicU64 {
        assert!(zone.0 < self.zones);
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(zone.index())) }
    }
}
