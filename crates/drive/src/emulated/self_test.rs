//! The self-test of a drive in a file: header and zone table are compared with what the drive knows, and written anew from
//! that. Its blocks have checksums of their own; whoever owns them verifies those.

use super::EmulatedDrive;
use base::units::ZoneIndex;
use zone::device::Status;

impl EmulatedDrive {
    /// Executes [`zone::device::Op::SelfTest`]. May wait for the disk.
    pub(super) fn self_test(&mut self, repair: bool) -> Result<(), Status> {
        if self.look().is_some() {
            return Err(Status::DeviceGone);
        }
        if !self.header_is_damaged() && !self.table_is_damaged() {
            return Ok(());
        }
        if !repair {
            return Err(Status::InternalError);
        }
        let Some(watch) = &self.watch else { return Ok(()) };
        watch.write_header().map_err(|error| write_failed("header", &error))?;
        (0..self.geometry.zones).for_each(|zone| self.store(ZoneIndex(zone)));
        let damaged: Vec<_> = self.windows.iter().flat_map(|windows| windows.damaged(&self.media)).collect();
        damaged.into_iter().for_each(|(word, value)| self.media.store_window_word(word, value));
        let Some(watch) = &self.watch else { return Ok(()) };
        watch.sync().map_err(|error| write_failed("zone table", &error))?;
        match self.look() {
            Some(_) => Err(Status::DeviceGone),
            None if self.header_is_damaged() || self.table_is_damaged() => Err(Status::WriteFault),
            None => Ok(()),
        }
    }

    fn table_is_damaged(&self) -> bool {
        let is_kept = |zone: u32| self.media.keeps(ZoneIndex(zone), self.table.zone(ZoneIndex(zone)));
        let damaged_window = self.windows.iter().any(|windows| windows.damaged(&self.media).next().is_some());
        damaged_window || !(0..self.geometry.zones).all(is_kept)
    }
}

fn write_failed(what: &str, error: &std::io::Error) -> Status {
    log::error!("the {what} of a drive cannot be written anew: {error}");
    Status::WriteFault
}
