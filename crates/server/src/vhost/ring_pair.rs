//! A queue: the ring of what is to do and the ring of what is done (VIRTIO 1.2, section 2.7).
//!
//! ```text
//! Idle --size, addresses, base, kick--> Running --GetVringBase--> Idle
//! ```
//!
//! `virtio-queue` keeps the indices, reads and writes the rings and says when to notify. Requests that a dead server had
//! taken come first (`inflight`).

use super::QUEUE_SIZE_MAX;
use super::chain::Table;
use super::inflight::{Inflight, InflightError};
use super::memory::GuestMemory;
use super::message::VringAddress;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use thiserror::Error;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

/// Fault of a queue, which cannot be served any more.
#[derive(Debug, Error)]
pub enum QueueFault {
    /// A size that is no power of two, or too long.
    #[error("a queue of {0} descriptors: a power of two up to {QUEUE_SIZE_MAX} is possible")]
    Size(u32),
    /// Started without what it needs.
    #[error("queue {0} was started without addresses in the guest's memory")]
    Addresses(usize),
    /// An index that runs ahead, a head that is not there, memory that is gone.
    #[error("queue {index}: {fault}")]
    Rings {
        /// Queue.
        index: usize,
        /// Fault that `virtio-queue` found.
        fault: virtio_queue::Error,
    },
    /// A head beyond the table.
    #[error("queue {index}: descriptor {head} is not in its table")]
    Head {
        /// Queue.
        index: usize,
        /// The descriptor.
        head: u16,
    },
    /// The inflight region is not this queue's.
    #[error(transparent)]
    Inflight(#[from] InflightError),
}

/// See the module.
#[derive(Debug)]
pub struct RingPair {
    index: usize,
    queue: Queue,
    address: Option<VringAddress>,
    base: u16,
    counter: u64,
    /// Heads that a server before has taken and not answered.
    again: VecDeque<u16>,
    is_running: bool,
    is_enabled: bool,
}

impl RingPair {
    /// A queue that is not running.
    #[must_use]
    pub fn new(index: usize) -> RingPair {
        RingPair {
            index,
            queue: Queue::new(QUEUE_SIZE_MAX).expect("a power of two"),
            address: None,
            base: 0,
            counter: 0,
            again: VecDeque::new(),
            is_running: false,
            is_enabled: false,
        }
    }

    /// True when requests may be taken.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.is_running && self.is_enabled
    }

    /// True between its start and its stop.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Sets the size.
    ///
    /// # Errors
    /// When it is impossible.
    pub fn set_size(&mut self, size: u32) -> Result<(), QueueFault> {
        let fits = u16::try_from(size).ok().filter(|size| *size <= QUEUE_SIZE_MAX);
        let size_set = fits.map(|size| self.queue.try_set_size(size));
        if self.is_running || !matches!(size_set, Some(Ok(()))) {
            return Err(QueueFault::Size(size));
        }
        assert!(self.queue.size().is_power_of_two(), "queue {} has {size} descriptors", self.index);
        Ok(())
    }

    /// Sets the addresses, which mean something when the queue starts.
    pub fn set_address(&mut self, address: VringAddress) {
        self.address = Some(address);
    }

    /// Sets the index of the next request.
    pub fn set_base(&mut self, base: u16) {
        self.base = base;
    }

    /// Switches it on or off.
    pub fn enable(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    /// Starts. With an inflight region, what was left there comes first.
    ///
    /// # Errors
    /// When its parts are not in memory, or the region is not its own.
    pub fn start(
        &mut self,
        memory: &GuestMemory,
        inflight: Option<&Inflight>,
        has_event_idx: bool,
    ) -> Result<(), QueueFault> {
        assert!(!self.is_running, "queue {} is started twice", self.index);
        self.place(memory)?;
        self.queue.set_event_idx(has_event_idx);
        let used =
            self.queue.used_idx(&memory.mapped, Ordering::Acquire).map_err(|fault| self.fault(fault))?.0;
        self.queue.set_next_used(used);
        self.queue.set_next_avail(self.base);
        self.again.clear();
        if let Some(inflight) = inflight {
            let (heads, counter) = inflight.queue(self.index, self.queue.size())?.recover(used)?;
            if !heads.is_empty() {
                // What the guest has offered and was not taken follows what was taken, done or not.
                let taken = u16::try_from(heads.len()).expect("at most the queue's size");
                self.queue.set_next_avail(used.wrapping_add(taken));
            }
            let most = usize::from(self.queue.size());
            assert!(heads.len() <= most, "{} heads of {most} were in flight", heads.len());
            (self.again, self.counter) = (heads.into(), counter);
        }
        self.is_running = true;
        Ok(())
    }

    /// Finds the queue's parts in memory; also when the memory of a running queue has changed.
    ///
    /// # Errors
    /// When they are not there.
    pub fn place(&mut self, memory: &GuestMemory) -> Result<(), QueueFault> {
        let wrong = || QueueFault::Addresses(self.index);
        let address = self.address.ok_or_else(wrong)?;
        let at = |user: u64| memory.guest_address_of(user).ok_or_else(wrong);
        let (descriptors, available, used) =
            (at(address.descriptors)?, at(address.available)?, at(address.used)?);
        let placed = self
            .queue
            .try_set_desc_table_address(descriptors)
            .and_then(|()| self.queue.try_set_avail_ring_address(available))
            .and_then(|()| self.queue.try_set_used_ring_address(used));
        placed.map_err(|fault| self.fault(fault))?;
        self.queue.set_ready(true);
        if self.queue.is_valid(&memory.mapped) { Ok(()) } else { Err(QueueFault::Addresses(self.index)) }
    }

    /// Stops. Returns what would be the next request's index.
    pub fn stop(&mut self) -> u16 {
        if std::mem::take(&mut self.is_running) {
            self.queue.set_ready(false);
            self.base = self.queue.next_avail();
        }
        self.base
    }

    /// Takes the next request off the queue: its head. It is marked in flight.
    ///
    /// # Errors
    /// When the rings contradict themselves.
    pub fn take(
        &mut self,
        memory: &GuestMemory,
        inflight: Option<&Inflight>,
    ) -> Result<Option<u16>, QueueFault> {
        assert!(self.is_running, "queue {} does not run, and gives requests", self.index);
        if let Some(head) = self.again.pop_front() {
            assert!(
                head < self.queue.size(),
                "head {head} was recovered of a queue of {}",
                self.queue.size()
            );
            return Ok(Some(head));
        }
        let index = self.index;
        let available = self.queue.iter(&memory.mapped);
        let mut available = available.map_err(|fault| QueueFault::Rings { index, fault })?;
        let Some(chain) = available.next() else { return Ok(None) };
        let head = chain.head_index();
        if head >= self.queue.size() {
            return Err(QueueFault::Head { index, head });
        }
        if let Some(inflight) = inflight {
            inflight.queue(index, self.queue.size())?.begin(head, self.counter)?;
            self.counter = self.counter.wrapping_add(1);
        }
        Ok(Some(head))
    }

    /// The table of descriptors.
    #[must_use]
    pub fn table(&self) -> Table {
        Table { address: GuestAddress(self.queue.desc_table()), size: self.queue.size().into() }
    }

    /// A request is done; `bytes` of the guest's memory were written.
    ///
    /// # Errors
    /// When the rings are gone.
    pub fn put(
        &mut self,
        memory: &GuestMemory,
        inflight: Option<&Inflight>,
        head: u16,
        bytes: u32,
    ) -> Result<(), QueueFault> {
        let size = self.queue.size();
        assert!(head < size, "head {head} was taken of queue {} of {size}", self.index);
        let part = inflight.map(|inflight| inflight.queue(self.index, self.queue.size())).transpose()?;
        if let Some(part) = part {
            part.before_used(head)?;
        }
        self.queue.add_used(&memory.mapped, head, bytes).map_err(|fault| self.fault(fault))?;
        if let Some(part) = part {
            part.after_used(head, self.queue.next_used())?;
        }
        Ok(())
    }

    /// True when the guest wants to be told of what was put since the last time.
    ///
    /// # Errors
    /// When the rings are gone.
    pub fn wants_call(&mut self, memory: &GuestMemory) -> Result<bool, QueueFault> {
        self.queue.needs_notification(&memory.mapped).map_err(|fault| self.fault(fault))
    }

    /// Asks the guest for a kick with its next request. True when there is one already.
    ///
    /// # Errors
    /// When the rings are gone.
    pub fn ask_for_kick(&mut self, memory: &GuestMemory) -> Result<bool, QueueFault> {
        self.queue.enable_notification(&memory.mapped).map_err(|fault| self.fault(fault))
    }

    /// Asks the guest for no kicks.
    ///
    /// # Errors
    /// When the rings are gone.
    pub fn ask_for_silence(&mut self, memory: &GuestMemory) -> Result<(), QueueFault> {
        self.queue.disable_notification(&memory.mapped).map_err(|fault| self.fault(fault))
    }

    fn fault(&self, fault: virtio_queue::Error) -> QueueFault {
        QueueFault::Rings { index: self.index, fault }
    }
}
