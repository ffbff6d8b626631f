//! The file of a drive, or the front of it, mapped into memory and shared with the page cache.
//!
//! An entry of the zone table is stored after each write, so its cost is part of every write's:
//! under 1 ns through a mapping, 480 ns through `pwrite` (`examples/drive_cost.rs` measures both).
//! What a mapping cannot do is report errors: running out of space would be a SIGBUS, so whatever
//! is mapped is allocated before, and again when a drive is opened, in case a copy left holes.
//!
//! A process that is killed leaves its stores in the page cache in the order of the program, and an
//! entry is a release store: what was copied in before it stays before it.
//!
//! A file that someone cuts short while it is in use, or whose device is gone, is a SIGBUS at the next
//! access. The mapping is guarded ([`mapping`]): the access goes on in memory that nobody keeps, and the drive, which
//! looks at the guard before it answers, is lost.
//! Bad at: copy-on-write file systems, where an allocated page may still need space to be rewritten.

use super::header::{FileLayout, STRIDE};
use base::frame::FrameBody;
use base::units::ZoneIndex;
use mapping::Guard;
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

/// A block in the file is a frame in memory: one copy moves both data and metadata.
const _: () = assert!(size_of::<FrameBody>() == STRIDE);
/// A file that fits into memory fits into the address space.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// The first bytes of a drive's file: at least its zone table.
#[derive(Debug)]
pub(super) struct SharedMap {
    /// Given up before the mapping is.
    guard: Option<Guard>,
    map: MmapRaw,
    layout: FileLayout,
}

impl SharedMap {
    /// Maps the zone table of a file whose table is allocated.
    pub(super) fn of_table(file: &File, layout: FileLayout) -> std::io::Result<SharedMap> {
        SharedMap::new(file, layout, layout.blocks_at())
    }

    /// Maps all of a file that is allocated. It enters the pages into the page table at once, at
    /// 0.25 s/GiB (0.001 s where the tmpfs was mounted with `huge=always`); left to the first block
    /// that touches them it costs each of those 1.2 us. A kernel before 5.14 leaves it to them.
    pub(super) fn of_file(file: &File, layout: FileLayout) -> std::io::Result<SharedMap> {
        let map = SharedMap::new(file, layout, layout.file_bytes())?;
        if let Err(error) = map.map.advise(Advice::PopulateWrite) {
            log::debug!("a drive in memory is slow until each page was used once: {error}");
        }
        Ok(map)
    }

    fn new(file: &File, layout: FileLayout, bytes: u64) -> std::io::Result<SharedMap> {
        let length = usize::try_from(bytes).expect("64 bits each");
        let map = MmapOptions::new().len(length).map_raw(file)?;
        assert!(map.len() == length);
        assert!(map.as_ptr().addr().is_multiple_of(align_of::<AtomicU64>()));
        let guard = Guard::of(map.as_ptr().addr(), length);
        Ok(SharedMap { guard, map, layout })
    }

    /// True when the file was gone, in part or as a whole, when it was accessed.
    #[inline]
    pub(super) fn is_torn(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_torn)
    }

    /// A word of the table of windows.
    pub(super) fn load_window_word(&self, word: usize) -> u64 {
        u64::from_le(self.word(self.layout.window_word_at(word)).load(Ordering::Acquire))
    }

    /// Replaces a word of the table of windows. Everything written to the file before stays before.
    pub(super) fn store_window_word(&mut self, word: usize, value: u64) {
        self.word(self.layout.window_word_at(word)).store(value.to_le(), Ordering::Release);
    }

    /// The word of a zone.
    pub(super) fn load(&self, zone: ZoneIndex) -> u64 {
        u64::from_le(self.word(self.layout.entry_at(zone)).load(Ordering::Acquire))
    }

    /// Replaces the word of a zone. Everything written to the file before stays before.
    #[inline]
    pub(super) fn store(&mut self, zone: ZoneIndex, word: u64) {
        self.word(self.layout.entry_at(zone)).store(word.to_le(), Ordering::Release);
    }

    /// Copies a frame to a block.
    // SAFETY: `place` has checked that the whole block is mapped, and a frame is as many bytes
    // without padding (asserted above). The two cannot overlap: nobody has a reference into the
    // mapping but the atomics of `word`, and those live in the tables, not among the blocks. `self`
    // is borrowed exclusively and the file is locked against other drives.
    // WHY: 0.2 us per block, where pwritev takes 2.3 to 3.5 us; see the prologue of `emulated`.
    #[allow(unsafe_code)]
    #[inline]
    pub(super) fn copy_in(&mut self, at: u64, frame: &FrameBody) {
        let place = self.place(at);
        let from = std::ptr::from_ref(frame).cast::<u8>();
        unsafe { std::ptr::copy_nonoverlapping(from, self.map.as_mut_ptr().add(place), STRIDE) }
    }

    /// Copies a block to a frame.
    // SAFETY: as for `copy_in`; any bytes make a frame.
    // WHY: 0.2 us per block, where preadv takes 1.2 us.
    #[allow(unsafe_code)]
    #[inline]
    pub(super) fn copy_out(&self, at: u64, frame: &mut FrameBody) {
        let place = self.place(at);
        let to = std::ptr::from_mut(frame).cast::<u8>();
        unsafe { std::ptr::copy_nonoverlapping(self.map.as_ptr().add(place), to, STRIDE) }
    }

    /// Where the blocks are.
    pub(super) fn layout(&self) -> &FileLayout {
        &self.layout
    }

    /// Offset of a block in the mapping, of which it must be part.
    #[inline]
    fn place(&self, at: u64) -> usize {
        let place = usize::try_from(at).expect("64 bits each");
        assert!(place <= self.map.len());
        assert!(self.map.len() - place >= STRIDE);
        place
    }

    // SAFETY: the mapping is live as long as `self`, page-aligned, and has 8 bytes for each zone
    // and for each word of windows (FileLayout::entry_at and window_word_at are multiples of 8 and check
    // their argument); every mapping has both tables. All access to the table goes through atomics, so other mappings of the file cannot
    // make it a data race.
    // WHY: a pwrite per write costs 480 ns where this store costs under 1 ns (see above).
    #[allow(unsafe_code)]
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        let place = usize::try_from(at).expect("64 bits each");
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(place).cast::<u64>()) }
    }
}
