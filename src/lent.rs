//! Device that is a drive for the length of a command, and empty before and afterwards.

use crate::exit::Exit;
use crate::force::Force;
use crate::raw;
use anyhow::Result;
use drive::any::wipe;
use drive::conventional::device::{format_device, layout_for, size_of};
use drive::conventional::label::Label;
use drive::zoned;
use std::path::{Path, PathBuf};

/// Device that was empty, with a drive on it until this is dropped.
#[derive(Debug)]
pub struct Lent(PathBuf);

impl Lent {
    /// Makes a drive of a device: its zones are used as they are, or it is cut into zones.
    ///
    /// # Errors
    /// When somebody uses it, it holds something, or no drive can be made of it.
    pub fn of(path: &Path) -> Result<Lent> {
        raw::expect_free(path, &Force::default(), None)?;
        let uuid = *uuid::Uuid::new_v4().as_bytes();
        let lent = Lent(path.to_owned());
        if zoned::is_zoned(path) {
            zoned::format_device(path, uuid, None)?;
            return Ok(lent);
        }
        let label = Label { uuid, layout: layout_for(size_of(path)?, None) };
        label.layout.validate().map_err(|error| {
            Exit::Usage.error(format!("{}: cannot be cut into zones: {error}", path.display()))
        })?;
        format_device(path, &label)?;
        Ok(lent)
    }
}

/// Whoever had it open has closed it.
impl Drop for Lent {
    fn drop(&mut self) {
        if let Err(error) = wipe(&self.0, &mut |_, _| {}) {
            log::error!("{error}: `zoneweave drive wipe {} --force` empties it", self.0.display());
        }
    }
}
