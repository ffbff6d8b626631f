//! Serving a volume: NBD clients in front, an engine behind, a thread or more between them.
//!
//! ```text
//! listen, stop, control   where connections and questions come in
//! nbd                     the protocol, without I/O
//! vhost                   disks of virtual machines (vhost-user-blk), without I/O
//! ublk                    disks of this host: the kernel's interface
//! core_loop               a thread: ring, clients, volume or the way to it
//! ports                   exports that come and go while it runs
//! recorder                a trace of what clients ask for
//! resp                    the protocol of Redis, without I/O
//! cache_loop              a thread: ring, clients of a cache, the cache
//! ring, transfer          io_uring, and the buffers it owns while it works on them
//! ```
//!
//! The engine is any `array::request::Volume`. See `examples/serve_memory.rs` for all it takes.

pub mod cache_loop;
mod colleagues;
pub mod config;
pub mod control;
pub mod core_loop;
mod doors;
pub mod exchange;
pub mod listen;
mod mailbox;
pub mod memcached;
pub mod nbd;
pub mod ports;
pub mod recorder;
pub mod resp;
mod ring;
pub mod slab;
pub mod stop;
mod transfer;
pub mod ublk;
pub mod vhost;

pub use config::{CORES_MAX, ServerConfig, WallClock};
pub use core_loop::{RunError, ServedShard, Service, run, run_shards};
pub use listen::{Listen, Listener};
pub use nbd::handshake::ExportConfig;
pub use ports::{GuestPort, Ports};
pub use stop::{Stop, StopHandle};
