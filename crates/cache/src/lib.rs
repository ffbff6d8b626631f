//! Key-value caches over zoned drives: the engine, without I/O.
//!
//! A cache forgets but never lies: a read answers with the newest value of its key that was acknowledged, with a
//! newer one, or with nothing, whatever the drives and the power do (docs/adr/0040-cache-invalidations.md).

pub mod admission;
pub mod attendance;
pub mod config;
pub mod format;
pub mod ghost;
pub mod hash;
pub mod index;
pub mod mount;
mod names;
pub mod parts;
pub mod policy;
pub mod request;
pub mod shard;
pub mod share;
pub mod shared;
pub mod spread;
pub mod status;
pub mod value;
pub mod volume;
pub mod volumes;

pub use config::{CacheConfig, MemoryShort, Options};
pub use mount::{MountError, Seen, check, flash_of, format, list, mount, mount_on, see_shards};
pub use status::Status;
pub use volume::CacheVolume;
