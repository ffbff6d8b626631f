//! Counts allocations, for the claim that the write path makes none.
//!
//! The binary installs [`Counting`] as its allocator; the count is per thread, so that what other
//! threads do does not disturb it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system allocator with a counter.
pub struct Counting;

/// Allocations this thread has made so far. Zero for ever when the binary does not use [`Counting`].
#[must_use]
pub fn count() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn counted() {
    // A thread that is being torn down has no counter any more, and nobody asks.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed to the system allocator unchanged; counting touches only a
// const-initialised thread-local cell, which does not allocate.
// WHY: a claim of zero allocations per write has to be measured where they are made.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted();
        // SAFETY: the caller's promises are those of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counted();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        counted();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
