//! vhost-user-blk without I/O: a disk of a virtual machine, served from the machine's own memory.
//!
//! A *front end* (QEMU, cloud-hypervisor, libblkio) connects to a Unix socket, says where the guest's memory is and where
//! in it the queues are, and stays out of the way: requests and answers pass through the memory, two eventfds per queue
//! say that there is something to see (*kick*, from the guest; *call*, to it).
//!
//! ```text
//! message     what a front end says on the socket, and what it is told
//! session     what it has said so far: features, memory, queues
//! memory      the guest's memory, by its own addresses
//! ring_pair   a queue: who is next, who is done
//! chain       a chain of descriptors, read once, taken apart
//! block       a request of virtio-blk, and the disk's configuration
//! inflight    what a server that dies leaves to the next one
//! ```
//!
//! Everything that comes from a guest or a front end is hostile. Each descriptor is read once and what was read is
//! judged; data is copied once, into or out of frames. What is wrong ends the request, or where there is no request the
//! connection.
//!
//! Sources: "Vhost-user Protocol" of QEMU's documentation; "Virtual I/O Device (VIRTIO) Version 1.2", sections 2.7 (split
//! virtqueues) and 5.2 (block device).

pub mod block;
pub mod chain;
pub mod inflight;
pub mod memory;
pub mod message;
pub mod ring_pair;
pub mod session;

/// Queues that a front end may use.
pub const QUEUES_MAX: usize = 16;

/// Longest queue.
pub const QUEUE_SIZE_MAX: u16 = 1024;
const _: () = assert!(QUEUE_SIZE_MAX.is_power_of_two());
// A message that comes with a descriptor names its queue by 8 bits.
const _: () = assert!(QUEUES_MAX <= 256);
