//! Counts allocations, for the claim that the write path makes none, and the bytes that are allocated, for what a mount
//! takes at most.
//!
//! The binary installs [`Counting`] as its allocator; the counts are per thread, so that what other
//! threads do does not disturb them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated and not freed; below zero where others' are freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static BYTES_MAX: Cell<i64> = const { Cell::new(0) };
}

/// The system allocator with a counter.
pub struct Counting;

/// Allocations this thread has made so far. Zero for ever when the binary does not use [`Counting`].
#[must_use]
pub fn count() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Runs a task and tells how many bytes more than before were allocated: at most, and in the end. Zero for ever when
/// the binary does not use [`Counting`].
pub fn bytes_during<T>(task: impl FnOnce() -> T) -> (T, Bytes) {
    let before = BYTES.get();
    BYTES_MAX.set(before);
    let result = task();
    let since = |bytes: i64| u64::try_from(bytes - before).unwrap_or(0);
    (result, Bytes { peak: since(BYTES_MAX.get()), end: since(BYTES.get()) })
}

/// Bytes that a task allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// At most at a time.
    pub peak: u64,
    /// And kept.
    pub end: u64,
}

fn counted(bytes: usize, bytes_before: usize) {
    // A thread that is being torn down has no counter any more, and nobody asks.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    changed(bytes, bytes_before);
}

fn changed(more: usize, less: usize) {
    let signed = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let bytes = BYTES.try_with(|bytes| {
        bytes.set(bytes.get() + signed(more) - signed(less));
        bytes.get()
    });
    if let Ok(bytes) = bytes {
        let _ = BYTES_MAX.try_with(|max| max.set(max.get().max(bytes)));
    }
}

// SAFETY: every call is passed to the system allocator unchanged; counting touches only a
// const-initialised thread-local cell, which does not allocate.
// WHY: a claim of zero allocations per write has to be measured where they are made.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted(layout.size(), 0);
        // SAFETY: the caller's promises are those of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        changed(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counted(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        counted(new_size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
