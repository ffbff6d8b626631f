//! Ordinary block devices in RAID: drives, partitions and files that are written in place.
//!
//! [`device`] is what can be asked of one, [`condition`] what its host knows of it, [`devices`] are those of an array, and [`md`] is
//! the on-media format of Linux md, by which an array of the kernel can be read here and one of ours there.
//!
//! No clock, thread, file, socket or lock: whoever has the members hands over what lies on them.

pub mod condition;
pub mod device;
pub mod devices;
pub mod md;
