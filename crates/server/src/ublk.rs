//! Disks of this host (ublk): the kernel hands us the requests of a block device, `/dev/ublkbN`.
//!
//! ```text
//! abi       numbers and layouts of the kernel's interface (include/uapi/linux/ublk_cmd.h, Documentation/block/ublk.rst)
//! control   adds, starts, stops, recovers and removes devices; a command may take long, and the loop asks none
//! device    the queue of a device: its requests, their data, and commands that fetch and commit
//!
//!   add ──> dead ──fetch all, start──> live ──server dies──> quiesced ──recover, fetch all, go on──> live
//!            ^                          │                       │
//!            └──────────stop────────────┴───────────────────────┘          remove: of dead ones
//! ```
//!
//! A device outlives its server: while it is quiesced its requests wait, and those that a server had taken and not committed are
//! given to the next one (`UBLK_F_USER_RECOVERY_REISSUE`), as those of virtual machines are. The device of an array is known by a
//! mark that the kernel keeps with it.

mod abi;
mod control;
mod device;

pub(crate) use abi::{Request, RequestKind};
pub use control::{Attached, Control, ControlError, NVMET, Spec, State, Summary, node, stop_unless_used};
pub use device::Device;
pub(crate) use device::{ABORTED, Command, Queue};
