//! What a cache keeps on the media, byte by byte (docs/FORMAT.md, "Caches").
//!
//! ```text
//! zone 0, 1     | superblock | superblock | ...              records in turn, newest generation counts
//! data zone     | header | page ... | directory | page ... | directory |
//! journal zone  | header | journal block | journal block ...
//! ```
//! Every block carries a stamp in its out-of-band bytes: which cache, zone, life of the zone and place it was written
//! for, with checksums of data and stamp. A block without the stamp that its place asks for does not exist. Nothing is
//! found by looking for a pattern: offsets of records stand at the end of their page.

pub mod directory;
pub mod header;
pub mod journal;
pub mod page;
pub mod record;
pub mod stamp;
pub mod superblock;

/// Zones at the start of every drive that hold the superblock log.
pub const SUPERBLOCK_ZONES: u32 = 2;
/// Most members of a cache; sizes the member tables of the superblock.
pub const MEMBERS_MAX: usize = 32;
/// The format this program reads and writes.
pub const FORMAT_VERSION: u32 = 1;
/// Count of namespaces.
pub const NAMESPACES: usize = 16;

#[cfg(test)]
mod tests;
