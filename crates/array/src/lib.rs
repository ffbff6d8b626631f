//! Volumes over zoned drives.
//!
//! [`request`] is what a client may ask of a volume.

pub mod request;
