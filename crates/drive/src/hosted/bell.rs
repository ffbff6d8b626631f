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
    heard: Heard,
}

/// Whether somebody sleeps until drives have something to say. Until then a drive that is polled waits a moment for its answers, because
/// its owner would only ask again. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<AtomicBool>);

impl Heard {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Bell {
    /// A bell that nobody listens to yet.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new() -> std::io::Result<Bell> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell(Arc::new(State { descriptor, heard: Heard::default() })))
    }

    /// A descriptor that becomes readable, edge by edge, whenever a drive has answers.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.0.descriptor.try_clone()
    }

    /// From now on somebody sleeps until the bell rings.
    pub fn listen(&self) {
        self.0.heard.0.store(true, Ordering::Release);
    }

    /// Whether somebody does.
    #[must_use]
    pub fn heard(&self) -> Heard {
        self.0.heard.clone()
    }

    pub(super) fn is_heard(&self) -> bool {
        self.0.heard.is_set()
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
