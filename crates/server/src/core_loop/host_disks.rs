//! The disk of this host in the loop: opened with the doors, closed when the service drains.

use super::client::Pause;
use super::desk::Answer;
use super::host_disk::HostDisk;
use super::stopping::Phase;
use super::{Party, Server};
use std::io;

impl Server<'_> {
    /// Lets the kernel show the disk, if there is one.
    pub(super) fn open_disk(&mut self) -> io::Result<()> {
        match &mut self.host_disk {
            Some(disk) => disk.open(&mut self.ring),
            None => Ok(()),
        }
    }

    /// Hears how the start and the stop of the disk went. A disk that was asked for from the start and is not there ends the service.
    pub(super) fn hear_of_disk(&mut self) -> io::Result<()> {
        let Some(disk) = &mut self.host_disk else { return Ok(()) };
        let was_starting = disk.is_starting();
        disk.hear(self.phase == Phase::Serving);
        self.is_stop_asked |= disk.failure.is_some() && !disk.is_late;
        if was_starting && !disk.is_starting() && self.phase != Phase::Serving {
            disk.begin_stop()?;
        }
        self.show_disk();
        Ok(())
    }

    /// The service drains: the disk is taken away, unless somebody uses it.
    pub(super) fn begin_disk_stop(&mut self) -> io::Result<()> {
        match &mut self.host_disk {
            Some(disk) => disk.begin_stop(),
            None => Ok(()),
        }
    }

    /// True when there is no disk, or nothing more to do for it.
    pub(super) fn disk_is_gone(&self) -> bool {
        self.host_disk.as_ref().is_none_or(HostDisk::is_gone)
    }

    pub(super) fn disk_is_busy(&self) -> bool {
        self.host_disk.as_ref().is_some_and(HostDisk::is_busy)
    }

    pub(super) fn on_fetched(&mut self, tag: u16, result: i32) {
        let disk = self.host_disk.as_mut().expect("fetches are those of the disk");
        disk.on_fetched(tag, result, self.desk.size_bytes);
    }

    /// Begins what has come.
    pub(super) fn serve_disk(&mut self) {
        let Some(disk) = &mut self.host_disk else { return };
        if disk.pause.is_some() && self.desk.granted != Some(Party::HostDisk) {
            return;
        }
        disk.serve(&mut self.desk);
        if matches!(disk.pause, Some(Pause::Frames(_))) {
            self.desk.waiting.push_back(Party::HostDisk);
        }
    }

    pub(super) fn on_disk_answer(&mut self, answer: Answer) {
        let disk = self.host_disk.as_mut().expect("answers come for the disk that asked");
        disk.on_answer(answer, &mut self.desk);
    }

    pub(super) fn commit_to_disk(&mut self) -> io::Result<()> {
        match &mut self.host_disk {
            Some(disk) => disk.commit(&mut self.ring),
            None => Ok(()),
        }
    }
}
