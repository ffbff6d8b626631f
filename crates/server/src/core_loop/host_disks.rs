//! The disk of this host in the loop: opened with the doors, closed when the service drains.

use super::client::Pause;
use super::common::Common;
use super::desk::{Answer, Party};
use super::host_disk::HostDisk;
use crate::ports::DiskState;
use crate::ublk::Attached;
use std::io;

/// The place for the one disk that there may be.
#[derive(Default)]
pub(super) struct HostDisks {
    disk: Option<HostDisk>,
}

impl HostDisks {
    /// With a disk that is asked for from the start, or without one.
    pub(super) fn of(disk: Option<HostDisk>) -> HostDisks {
        HostDisks { disk }
    }

    /// What the disk waits for, if it is there and does.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.disk.as_ref().and_then(|disk| disk.pause)
    }

    /// What went wrong with the disk.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.disk.as_mut().and_then(|disk| disk.failure.take())
    }

    /// True when the kernel keeps the disk for the next server.
    pub(super) fn is_left_behind(&self) -> bool {
        self.disk.as_ref().is_some_and(HostDisk::is_left_behind)
    }

    /// The disk is left as it is.
    pub(super) fn leave(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.leave();
        }
    }

    /// Lets the kernel show the disk, if there is one.
    pub(super) fn open(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        match &mut self.disk {
            Some(disk) => disk.open(&mut common.ring),
            None => Ok(()),
        }
    }

    /// Hears how the start and the stop of the disk went. True when that ends the service: a disk that was asked for from the start is not
    /// there.
    pub(super) fn hear(&mut self, common: &mut Common<'_>) -> io::Result<bool> {
        let Some(disk) = &mut self.disk else { return Ok(false) };
        let was_starting = disk.is_starting();
        disk.hear(common.is_serving());
        let ends_service = disk.failure.is_some() && !disk.is_late;
        if was_starting && !disk.is_starting() && !common.is_serving() {
            disk.begin_stop()?;
        }
        self.show(common);
        Ok(ends_service)
    }

    /// Opens a disk that was asked for while the service is under way.
    pub(super) fn open_late(&mut self, common: &mut Common<'_>, attached: Attached) -> io::Result<()> {
        assert!(self.disk.is_none(), "one disk at a time");
        let (disk, bell) = HostDisk::new(attached)?;
        common.doors.add_wake(&mut common.ring, bell)?;
        self.disk.insert(disk.late()).open(&mut common.ring)
    }

    /// Shows what became of the disk, and lets go of one that the kernel has taken back.
    fn show(&mut self, common: &mut Common<'_>) {
        let Some(disk) = &mut self.disk else { return };
        if let Some(state) = disk.take_shown() {
            common.doors.ports.show_disk(state);
        }
        if common.is_serving() && disk.has_ended() {
            let failure = disk.failure.take();
            self.disk = None;
            let state = failure.map_or(DiskState::Absent, |error| DiskState::Failed(error.to_string()));
            common.doors.ports.show_disk(state);
        }
    }

    /// The service drains: the disk is taken away, unless somebody uses it.
    pub(super) fn begin_stop(&mut self) -> io::Result<()> {
        match &mut self.disk {
            Some(disk) => disk.begin_stop(),
            None => Ok(()),
        }
    }

    /// True when there is no disk, or nothing more to do for it.
    pub(super) fn is_gone(&self) -> bool {
        self.disk.as_ref().is_none_or(HostDisk::is_gone)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.disk.as_ref().is_some_and(HostDisk::is_busy)
    }

    pub(super) fn on_fetched(&mut self, common: &Common<'_>, tag: u16, result: i32) {
        let disk = self.disk.as_mut().expect("fetches are those of the disk");
        disk.on_fetched(tag, result, common.desk.size_bytes);
    }

    /// Begins what has come.
    pub(super) fn serve(&mut self, common: &mut Common<'_>) {
        let Some(disk) = &mut self.disk else { return };
        if disk.pause.is_some() && common.desk.granted != Some(Party::HostDisk) {
            return;
        }
        disk.serve(&mut common.desk);
        if matches!(disk.pause, Some(Pause::Frames(_))) {
            common.desk.waiting.push_back(Party::HostDisk);
        }
    }

    pub(super) fn on_answer(&mut self, common: &mut Common<'_>, answer: Answer) {
        let disk = self.disk.as_mut().expect("answers come for the disk that asked");
        disk.on_answer(answer, &mut common.desk);
    }

    pub(super) fn commit(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        match &mut self.disk {
            Some(disk) => disk.commit(&mut common.ring),
            None => Ok(()),
        }
    }
}
