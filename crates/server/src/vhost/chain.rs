//! A chain of descriptors, read once and taken apart (VIRTIO 1.2, section 2.7.5).
//!
//! ```text
//! head --> | readable | readable | ... | writable | writable |      readable ones come first (2.7.4.2)
//!      \-> | table of descriptors |                                  or the whole chain in a table of its own (2.7.5.3)
//! ```
//!
//! The guest may change descriptors while we look: nothing is looked at twice. Whoever loops runs into
//! [`DESCRIPTORS_MAX`].

use super::memory::Mapped;
use thiserror::Error;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemory as _, Permissions};

/// Segments of data in a request, as offered to guests (SEG_MAX).
pub const SEGMENTS_MAX: u32 = 126;

/// Longest chain: data, header and status.
pub const DESCRIPTORS_MAX: usize = 128;

const DESCRIPTOR_BYTES: u64 = 16;

const _: () = assert!(SEGMENTS_MAX as usize + 2 == DESCRIPTORS_MAX);
const _: () = assert!(size_of::<Descriptor>() as u64 == DESCRIPTOR_BYTES);

/// Fault of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChainFault {
    /// Descriptor outside of its table, or table outside of memory.
    #[error("a descriptor that is not there")]
    Descriptor,
    /// Loop, or too many.
    #[error("more than {DESCRIPTORS_MAX} descriptors")]
    Long,
    /// Table within a table, or of an odd length.
    #[error("a table of descriptors that is none")]
    Table,
    /// Readable behind writable.
    #[error("readable memory behind writable memory")]
    Order,
    /// Data outside of memory.
    #[error("memory that the guest does not have")]
    Outside,
}

/// Runs of the guest's memory, in order, as one string of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    runs: Vec<(GuestAddress, u32)>,
    bytes: u64,
}

impl Segments {
    /// Count of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Forgets all runs and keeps the room for others.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }

    fn push(&mut self, address: GuestAddress, bytes: u32) {
        assert!(bytes > 0, "a run has bytes");
        self.runs.push((address, bytes));
        self.bytes += u64::from(bytes);
    }

    /// Reads the first bytes and takes them off; false when there are fewer, or they cannot be read.
    pub fn take_front(&mut self, memory: &Mapped, into: &mut [u8]) -> bool {
        if !self.read(memory, 0, into) {
            return false;
        }
        let mut left = u32::try_from(into.len()).expect("a header is short");
        assert!(self.bytes >= u64::from(left), "{left} bytes were read of {}", self.bytes);
        self.bytes -= u64::from(left);
        while left > 0 {
            let (address, bytes) = &mut self.runs[0];
            let taken = left.min(*bytes);
            *address = GuestAddress(address.0 + u64::from(taken));
            *bytes -= taken;
            left -= taken;
            if *bytes == 0 {
                self.runs.remove(0);
            }
        }
        true
    }

    /// Address of the last byte, which is taken off.
    pub fn take_last(&mut self) -> Option<GuestAddress> {
        let (address, bytes) = self.runs.last_mut()?;
        assert!(*bytes > 0 && self.bytes >= u64::from(*bytes), "a run that is empty is taken off");
        *bytes -= 1;
        self.bytes -= 1;
        let last = GuestAddress(address.0 + u64::from(*bytes));
        if *bytes == 0 {
            self.runs.pop();
        }
        Some(last)
    }

    /// Reads the bytes from `offset` on. False when there are fewer, or they cannot be read.
    #[must_use]
    pub fn read(&self, memory: &Mapped, offset: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        let is_there = self.visit(offset, into.len(), |address, bytes| {
            let part = &mut into[done..done + bytes];
            done += bytes;
            memory.read_slice(part, address).is_ok()
        });
        is_there && done == into.len()
    }

    /// Writes the bytes from `offset` on. False when there are fewer, or they cannot be written.
    #[must_use]
    pub fn write(&self, memory: &Mapped, offset: u64, from: &[u8]) -> bool {
        let mut done = 0;
        let is_there = self.visit(offset, from.len(), |address, bytes| {
            let part = &from[done..done + bytes];
            done += bytes;
            memory.write_slice(part, address).is_ok()
        });
        is_there && done == from.len()
    }

    /// Calls `with` for each run of `count` bytes from `offset` on, until it says no.
    fn visit(
        &self,
        mut offset: u64,
        mut count: usize,
        mut with: impl FnMut(GuestAddress, usize) -> bool,
    ) -> bool {
        for &(address, bytes) in &self.runs {
            let bytes = u64::from(bytes);
            if offset >= bytes {
                offset -= bytes;
                continue;
            }
            let here = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(count);
            if here > 0 && !with(GuestAddress(address.0 + offset), here) {
                return false;
            }
            count -= here;
            offset = 0;
            if count == 0 {
                return true;
            }
        }
        count == 0
    }
}

/// A chain, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Memory that the guest gives.
    pub readable: Segments,
    /// Memory that the guest wants filled.
    pub writable: Segments,
    /// Set when the last descriptor is writable, as the one with the status is.
    ends_writable: bool,
}

/// A table of descriptors.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// First descriptor.
    pub address: GuestAddress,
    /// Count of descriptors.
    pub size: u32,
}

impl Chain {
    /// Reads the chain that begins with the descriptor `head`.
    ///
    /// # Errors
    /// When it is none. With a fault of what a descriptor names, the chain is read to its end all the same, so that the
    /// guest can be told, see [`Chain::status_of_fault`].
    pub fn read(&mut self, memory: &Mapped, mut table: Table, head: u16) -> Result<(), ChainFault> {
        self.readable.clear();
        self.writable.clear();
        self.ends_writable = false;
        let mut outcome = Ok(());
        let mut next = u32::from(head);
        let mut is_indirect = false;
        for _ in 0..DESCRIPTORS_MAX {
            let descriptor = table.descriptor(memory, next)?;
            if descriptor.refers_to_indirect_table() {
                if is_indirect || descriptor.has_next() {
                    return Err(ChainFault::Table);
                }
                is_indirect = true;
                table = Table::of(&descriptor)?;
                next = 0;
                continue;
            }
            let added = self.add(memory, &descriptor);
            outcome = outcome.and(added);
            if !descriptor.has_next() {
                self.ends_writable = added.is_ok() && descriptor.is_write_only() && descriptor.len() > 0;
                return outcome;
            }
            next = u32::from(descriptor.next());
        }
        Err(ChainFault::Long)
    }

    /// Place of the status of a request whose chain is faulty, if it is known.
    pub fn status_of_fault(&mut self) -> Option<GuestAddress> {
        if self.ends_writable { self.writable.take_last() } else { None }
    }

    fn add(&mut self, memory: &Mapped, descriptor: &Descriptor) -> Result<(), ChainFault> {
        if descriptor.len() == 0 {
            return Ok(());
        }
        let bytes = usize::try_from(descriptor.len()).map_err(|_| ChainFault::Outside)?;
        if !memory.check_range(descriptor.addr(), bytes, Permissions::ReadWrite) {
            return Err(ChainFault::Outside);
        }
        if descriptor.is_write_only() {
            self.writable.push(descriptor.addr(), descriptor.len());
        } else if self.writable.bytes() > 0 {
            return Err(ChainFault::Order);
        } else {
            self.readable.push(descriptor.addr(), descriptor.len());
        }
        Ok(())
    }
}

impl Table {
    /// The table that a descriptor refers to.
    fn of(descriptor: &Descriptor) -> Result<Table, ChainFault> {
        let bytes = u64::from(descriptor.len());
        if bytes == 0 || bytes % DESCRIPTOR_BYTES != 0 {
            return Err(ChainFault::Table);
        }
        let size = u32::try_from(bytes / DESCRIPTOR_BYTES).expect("less than the length");
        assert!(size > 0, "a table of {bytes} bytes has descriptors");
        Ok(Table { address: descriptor.addr(), size })
    }

    fn descriptor(self, memory: &Mapped, index: u32) -> Result<Descriptor, ChainFault> {
        if index >= self.size {
            return Err(ChainFault::Descriptor);
        }
        let address = self.address.0.checked_add(u64::from(index) * DESCRIPTOR_BYTES);
        let address = address.ok_or(ChainFault::Descriptor)?;
        memory.read_obj(GuestAddress(address)).map_err(|_| ChainFault::Descriptor)
    }
}
