//! Exports of an array, beside NBD at its usual place: sockets of NBD and of virtual machines (vhost-user), the disk of this host (ublk),
//! and the volume on the network on top of that (NVMe/TCP).
//!
//! ```text
//! options of serve ─┐
//!                   ├─> wanted ──> served ──> ports of the server; host_disk, nvme_tcp: the kernel's
//! table ────────────┘               ^
//!   ^ array.toml      export ───────┘
//! ```

pub mod host_disk;
pub mod node_names;
pub mod nvme_tcp;
pub mod served;
pub mod table;
pub mod wanted;
