//! Experiments with the key-value cache: `zoneweave lab cache CELL`.
//!
//! ```text
//!   load: requests, drawn or from a trace ──┬──> replay: the engine over an emulated drive, in virtual time
//!                                           └──> models: object and region caches without any cost
//! ```
//! A cell sets both beside each other for many loads and sizes. A miss is filled (look-aside), an object of another size than before is
//! another version of it.

pub mod drawn;
pub mod load;
pub mod locked;
pub mod models;
pub mod peers;
pub mod policies;
pub mod replay;
pub mod rig;
pub mod score;
pub mod tenants;
pub mod timed;
pub mod trace;
pub mod ttl;
