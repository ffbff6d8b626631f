//! Acknowledgement by the media: a store is answered when its page is there, and flushed where the drive's cache is volatile.
//!
//! ```text
//!   page written ──> unflushed ──> one flush of the drive at a time ──> answers
//!         \\──────── no volatile cache ─────────────────────────────────^
//! ```
//! Pages that somebody waits for leave when a drive is idle, full or not; what comes while a batch is in flight shares the next.

use super::core::Core;
use super::desk::Desk;
use super::{Effects, Purpose, command};
use crate::config::Acknowledge;
use crate::hash::{FullKey, KeyHash};
use base::units::ZoneIndex;
use zone::device::Op as DeviceOp;

/// Operations that wait for a flush of a drive.
#[derive(Debug, Default)]
pub struct Unflushed {
    /// For the next one.
    waiting: Vec<u32>,
    /// For the one that is under way.
    under_way: Vec<u32>,
}

impl Desk {
    /// An operation waits for the page of what it has stored.
    pub(super) fn await_page(&mut self, number: u32) {
        let operation = self.operations.get_mut(number);
        assert!(!operation.awaits_page, "an operation stores once");
        operation.awaits_page = true;
        operation.pending += 1;
    }

    /// The operation that waits for the page of the newest version of a key, which is there, or is lost: it is the one that stored it.
    pub(super) fn waiter_of(&mut self, core: &Core, hash: KeyHash, key: &FullKey) -> Option<u32> {
        if core.options.acknowledge == Acknowledge::Memory {
            return None;
        }
        let first = self.first_of(hash, key)?;
        let operation = self.operations.get_mut(first);
        std::mem::take(&mut operation.awaits_page).then_some(first)
    }

    /// The page is written that an operation waits for.
    pub(super) fn on_landed(&mut self, core: &Core, drive: usize, waiter: u32, effects: &mut Effects) {
        if core.drives[drive].volatile {
            self.unflushed.entry(drive).or_default().waiting.push(waiter);
        } else {
            self.advance(core, waiter, effects);
        }
    }

    /// Flushes a drive for those who wait, unless a flush for others is under way.
    pub(super) fn flush_pages(&mut self, drive: usize, effects: &mut Effects) {
        let Some(own) = self.unflushed.get_mut(&drive) else { return };
        if own.waiting.is_empty() || !own.under_way.is_empty() {
            return;
        }
        own.under_way = std::mem::take(&mut own.waiting);
        let token = Purpose::PageFlush.token(0);
        effects.commands.push(command(drive, ZoneIndex(0), token, DeviceOp::Flush));
    }

    /// A flush has ended.
    pub(super) fn on_flushed(&mut self, core: &Core, drive: usize, effects: &mut Effects) {
        let own = self.unflushed.get_mut(&drive);
        let waiters = own.map(|own| std::mem::take(&mut own.under_way)).unwrap_or_default();
        waiters.into_iter().for_each(|waiter| self.advance(core, waiter, effects));
    }

    /// A drive has failed: returns those who waited for a flush of it.
    pub(super) fn give_up_unflushed(&mut self, drive: usize) -> Vec<u32> {
        let Unflushed { waiting, under_way } = self.unflushed.remove(&drive).unwrap_or_default();
        under_way.into_iter().chain(waiting).collect()
    }
}
