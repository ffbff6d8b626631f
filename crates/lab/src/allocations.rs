//! Counts allocations, for the claim that the write path makes none, and the bytes that are allocated, for what a mount
//! takes at most. And says so when there is no memory, where the standard library would only abort.
//!
//! The binary installs [`Counting`] as its allocator. It stands before mimalloc, which costs the same with any C library (ADR 2).
//! The counts are per thread, so that what other threads do does not disturb them.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::io::Write;
use std::sync::atomic::{AtomicI32, Ordering};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated and not freed; below zero where others' are freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static BYTES_MAX: Cell<i64> = const { Cell::new(0) };
    /// Set while the thread makes an allocation that it can do without.
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
    /// Value with a destructor: the first one of a thread is registered with the C library, which aborts without memory.
    static FIRST_DESTRUCTOR: String = const { String::new() };
}

/// Exit code of the process when there is no memory; zero leaves the end to the standard library, which aborts.
static EXIT_CODE: AtomicI32 = AtomicI32::new(0);

/// From now on the process ends with this code and an error message when there is no memory.
pub fn end_when_out_of_memory(code: u8) {
    EXIT_CODE.store(code.into(), Ordering::Relaxed);
    FIRST_DESTRUCTOR.with(|value| assert!(value.is_empty()));
}

/// Returns true when so many bytes can be had. They are given back untouched.
#[must_use]
pub fn can_allocate(bytes: usize) -> bool {
    let before = MAY_FAIL.replace(true);
    let is_there = Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    MAY_FAIL.set(before);
    is_there
}

/// Says that there is no memory, without asking for any, and ends the process.
#[cold]
fn out_of_memory(bytes: usize) {
    let code = EXIT_CODE.load(Ordering::Relaxed);
    if code == 0 || MAY_FAIL.try_with(Cell::get).unwrap_or(true) {
        return;
    }
    let mut text = [0; 256];
    let mut rest = &mut text[..];
    let said = writeln!(
        rest,
        "zoneweave: out of memory: {bytes} bytes cannot be had (limits may apply: `ulimit -v`): make room, or use a host with \
         more memory; what was acknowledged is on the drives"
    );
    let left = rest.len();
    if said.is_ok() && has_reader() {
        // There is nobody else to tell.
        let _written = rustix::io::write(std::io::stderr(), &text[..text.len() - left]);
    }
    // Nothing that runs at an end may wait for a lock of another thread, which lacks memory, too, and stands where it held it.
    signal_hook::low_level::exit(code);
}

/// Nobody may empty the pipe that errors go to.
fn has_reader() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stderr = std::io::stderr();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0)
}

fn checked(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() {
        out_of_memory(bytes);
    }
    pointer
}

/// The allocator with a counter.
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

// SAFETY: every call is passed to the allocator unchanged; counting touches only a
// const-initialised thread-local cell, which does not allocate, and neither does ending the process. What ends the process does not either.
// WHY: a claim of zero allocations per write has to be measured where they are made.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted(layout.size(), 0);
        // SAFETY: the caller's promises are those of the allocator.
        checked(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        changed(0, layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counted(layout.size(), 0);
        // SAFETY: as above.
        checked(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        counted(new_size, layout.size());
        // SAFETY: as above.
        checked(unsafe { MiMalloc.realloc(pointer, layout, new_size) }, new_size)
    }
}
