//! Drives.
