//! Guards of mappings that are shared with files of others.
//!
//! A file that someone cuts short while it is mapped, or whose device is gone, is a SIGBUS at the next access. A handler
//! puts memory in place of the whole mapping, in which nothing is kept, and marks it as torn: the access goes on, and the
//! owner, who asks [`Guard::is_torn`] before it believes what it read or answers for what it wrote, gives the mapping up.
//!
//! ```text
//!   access to a page that is gone -> SIGBUS -> handler: whose mapping? -> anonymous memory, torn -> the access again
//!                                                  `-- nobody's: the process ends, as without a handler
//! ```
//! Its users are drives whose files are mapped, and the memory of virtual machines. The list of mappings is the only
//! state of this process that a signal handler can look into, which is why it is static, and why this is a crate.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings that can be guarded at a time: more drives, and regions of machines, than a server has. More than that are mapped
/// all the same, and a file of theirs that is cut short ends the process.
const GUARDED_MAX: usize = 256;

/// A mapping that the handler knows. `start` is 0 where there is none, and [`CLAIMED`] while it is being entered.
#[derive(Debug)]
struct Guarded {
    start: AtomicUsize,
    length: AtomicUsize,
    is_torn: AtomicBool,
}

const CLAIMED: usize = 1;

static GUARDED: [Guarded; GUARDED_MAX] = [const {
    Guarded { start: AtomicUsize::new(0), length: AtomicUsize::new(0), is_torn: AtomicBool::new(false) }
}; GUARDED_MAX];

/// A place among those that are guarded, for the life of a mapping. It is given up before the mapping is.
#[derive(Debug)]
pub struct Guard(&'static Guarded);

impl Guard {
    /// Guards a mapping, from its address and of its length; `None` when too many are guarded, or the system refuses the handler.
    #[must_use]
    pub fn of(start: usize, length: usize) -> Option<Guard> {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(handle_faults);
        let is_claimed = |guarded: &&Guarded| {
            guarded.start.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let guarded = GUARDED.iter().find(is_claimed)?;
        guarded.length.store(length, Ordering::Relaxed);
        guarded.is_torn.store(false, Ordering::Relaxed);
        guarded.start.store(start, Ordering::Release);
        Some(Guard(guarded))
    }

    /// True when a page was gone when it was accessed: what was read since may be anything, and what was written is lost.
    #[inline]
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.0.is_torn.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

// SAFETY: the handler is a function of the signature that SA_SIGINFO asks for, and does nothing that a signal handler
// may not do. All-zero bytes are a valid `sigaction`.
// WHY: without it a truncated file ends the server, and looking at the file before each access is a system call for
// each, and too late for what is cut off in between.
#[allow(unsafe_code)]
fn handle_faults() {
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
    };
    if outcome != 0 {
        log::warn!("a mapped file that is cut short will end this process: the system refuses a handler");
    }
}

/// Puts memory in place of the mapping that the fault is in. Only atomics and system calls: it may interrupt anything.
// SAFETY: the kernel hands over a valid `siginfo_t`, which has an address for SIGBUS. The mapping that is replaced is
// one of ours, whole, and stays mapped at the same place with the same length, so every pointer into it stays good; its
// owner unmaps it after its guard is gone. `errno` belongs to this thread.
// WHY: see `handle_faults`.
#[allow(unsafe_code)]
extern "C" fn on_fault(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    unsafe {
        let errno = *libc::__errno_location();
        let at = (*info).si_addr().addr();
        let found = GUARDED.iter().find_map(|guarded| {
            let start = guarded.start.load(Ordering::Acquire);
            let length = guarded.length.load(Ordering::Relaxed);
            (start > CLAIMED && at >= start && at - start < length).then_some((guarded, start, length))
        });
        let is_replaced = found.is_some_and(|(guarded, start, length)| {
            guarded.is_torn.store(true, Ordering::Relaxed);
            let place = std::ptr::with_exposed_provenance_mut::<libc::c_void>(start);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            libc::mmap(place, length, access, flags, -1, 0) == place
        });
        if !is_replaced {
            // The access is made again, and ends the process as it would have without us.
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        }
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap2::MmapOptions;

    #[test]
    fn a_file_that_is_cut_short_tears_its_own_mapping_only() {
        let [short, whole] = [1, 2].map(|content| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(8192).unwrap();
            let map = MmapOptions::new().map_raw(&file).unwrap();
            // SAFETY: the mapping is as long, and nobody else has it.
            // WHY: a mapping that is shared is written through a pointer.
            #[allow(unsafe_code)]
            unsafe {
                map.as_mut_ptr().write_bytes(content, 8192);
            }
            let guard = Guard::of(map.as_ptr().addr(), map.len()).unwrap();
            (file, map, guard)
        });
        short.0.set_len(100).unwrap();
        // SAFETY: both addresses are mapped; the second page of the first has no file behind it, which is what is tested.
        // WHY: as above.
        #[allow(unsafe_code)]
        let read = unsafe {
            [short.1.as_ptr().add(5000).read_volatile(), whole.1.as_ptr().add(5000).read_volatile()]
        };
        assert_eq!(read, [0, 2]);
        assert!(short.2.is_torn() && !whole.2.is_torn());
    }

    #[test]
    fn places_are_given_back() {
        for _ in 0..3 * GUARDED_MAX {
            assert!(Guard::of(1 << 40, 4096).is_some());
        }
    }
}
