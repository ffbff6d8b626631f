//! What wakes the owner of drives that work in threads of their own: one eventfd for all of them.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module. Copies are the same bell.
#[derive(Clone, Debug)]
pub struct Bell(Arc<State>);

#[derive(Debug)]
struct State {
    descriptor: OwnedFd,
    is_heard: AtomicBool,
}

impl Bell {
    /// A bell that nobody listens to yet.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new() -> std::io::Result<Bell> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell(Arc::new(State { descriptor, is_heard: AtomicBool::new(false) })))
    }

    /// A descriptor that becomes readable, edge by edge, whenever a drive has answers.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.0.descriptor.try_clone()
    }

    /// From now on somebody sleeps until the bell rings. Before that, a drive that is polled waits a moment for its
    /// answers, because its owner would only ask again.
    pub fn listen(&self) {
        self.0.is_heard.store(true, Ordering::Release);
    }

    pub(super) fn is_heard(&self) -> bool {
        self.0.is_heard.load(Ordering::Acquire)
    }

    /// Rings once.
    pub fn ring(&self) {
        ring(&self.0.descriptor);
    }
}

/// Makes an eventfd readable, once more.
pub(super) fn ring(descriptor: &OwnedFd) {
    let counted = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
    // It counts to 2^64 and nobody reads it: the count itself is all the news.
    debug_assert!(counted == Ok(8));
}
