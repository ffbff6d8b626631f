//! A mailbox: letters from any thread to one, and a bell for when that one sleeps.
//!
//! The reader looks into the tray every turn anyway, so the bell, an eventfd in its ring, is rung
//! only after it has announced its sleep. Both happen under the lock of the tray, so no letter is
//! left in front of a sleeper.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// See the module.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    tray: Mutex<Tray<T>>,
    bell: OwnedFd,
    /// No letter comes any more. The reader asks every turn, and takes no lock for that.
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct Tray<T> {
    letters: Vec<T>,
    reader_sleeps: bool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> io::Result<Mailbox<T>> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let tray = Mutex::new(Tray { letters: Vec::new(), reader_sleeps: false });
        Ok(Mailbox { tray, is_closed: AtomicBool::new(false), bell })
    }

    /// Puts all of `letters` behind those that are there.
    pub(crate) fn post(&self, letters: &mut Vec<T>) {
        let mut tray = self.tray();
        if tray.letters.is_empty() {
            std::mem::swap(&mut tray.letters, letters);
        } else {
            tray.letters.append(letters);
        }
        debug_assert!(letters.is_empty(), "{} letters were left behind", letters.len());
        let must_ring = std::mem::take(&mut tray.reader_sleeps);
        drop(tray);
        if must_ring {
            self.ring();
        }
    }

    /// Wakes the reader, if it sleeps: something beside letters has changed.
    pub(crate) fn nudge(&self) {
        if std::mem::take(&mut self.tray().reader_sleeps) {
            self.ring();
        }
    }

    /// Takes all letters there are into `into`, which is empty.
    pub(crate) fn collect(&self, into: &mut Vec<T>) {
        assert!(into.is_empty());
        let mut tray = self.tray();
        tray.reader_sleeps = false;
        std::mem::swap(&mut tray.letters, into);
        debug_assert!(tray.letters.is_empty(), "{} letters would be read twice", tray.letters.len());
    }

    /// The reader wants to sleep: true when it may, and the bell will wake it.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut tray = self.tray();
        tray.reader_sleeps = tray.letters.is_empty();
        tray.reader_sleeps
    }

    /// No letter comes any more: the reader is woken to see that.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.ring();
    }

    /// True when no letter comes any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Wakes the reader.
    pub(crate) fn ring(&self) {
        if let Err(error) = rustix::io::write(&self.bell, &1_u64.to_ne_bytes()) {
            // Only a counter that is full refuses, and it is readable.
            log::warn!("cannot wake another thread: {error}");
        }
    }

    /// Becomes readable when the bell rings.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        self.bell.try_clone()
    }

    fn tray(&self) -> MutexGuard<'_, Tray<T>> {
        self.tray.lock().expect("nothing panics while it holds the tray")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(mailbox: &Mailbox<u32>) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(&mailbox.bell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn letters_keep_their_order_and_only_a_sleeper_is_rung_for() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.post(&mut vec![1, 2]);
        mailbox.post(&mut vec![3]);
        assert!(!mailbox.may_sleep());
        let mut read = Vec::new();
        mailbox.collect(&mut read);
        assert_eq!(read, [1, 2, 3]);
        assert_eq!(rings(&mailbox), 0);
        assert!(mailbox.may_sleep());
        mailbox.post(&mut vec![4]);
        mailbox.post(&mut vec![5]);
        assert_eq!(rings(&mailbox), 1);
    }

    #[test]
    fn a_reader_that_woke_by_itself_is_not_rung_for() {
        let mailbox = Mailbox::new().unwrap();
        assert!(mailbox.may_sleep());
        mailbox.collect(&mut Vec::new());
        mailbox.post(&mut vec![1]);
        assert_eq!(rings(&mailbox), 0);
    }
}
