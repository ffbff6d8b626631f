//! Exports that come and go while the service is under way: what was asked for at the ports is carried out here.

use super::Server;
use super::host_disk::HostDisk;
use super::stopping::Phase;
use crate::ports::{Change, DiskState};
use crate::ublk::Attached;
use std::io;

impl Server<'_> {
    /// Carries out what was asked for. A service that ends opens nothing any more.
    pub(super) fn make_changes(&mut self) -> io::Result<()> {
        while let Some(change) = self.doors.ports.next_change() {
            if self.phase != Phase::Serving {
                continue;
            }
            match change {
                Change::OpenClients(listener) => self.doors.add_clients(&mut self.ring, listener)?,
                Change::OpenGuests(port) => self.doors.add_guests(&mut self.ring, port)?,
                Change::Close(place) => self.doors.close_at(&mut self.ring, &place)?,
                Change::OpenDisk(attached) => self.open_late_disk(attached)?,
                Change::CloseDisk => self.begin_disk_stop()?,
            }
        }
        Ok(())
    }

    fn open_late_disk(&mut self, attached: Attached) -> io::Result<()> {
        assert!(self.host_disk.is_none(), "one disk at a time");
        let (disk, bell) = HostDisk::new(attached)?;
        self.doors.add_wake(&mut self.ring, bell)?;
        self.host_disk.insert(disk.late()).open(&mut self.ring)
    }

    /// Shows what became of the disk, and lets go of one that the kernel has taken back.
    pub(super) fn show_disk(&mut self) {
        let Some(disk) = &mut self.host_disk else { return };
        if let Some(state) = disk.take_shown() {
            self.doors.ports.show_disk(state);
        }
        if self.phase == Phase::Serving && disk.has_ended() {
            let failure = disk.failure.take();
            self.host_disk = None;
            let state = failure.map_or(DiskState::Absent, |error| DiskState::Failed(error.to_string()));
            self.doors.ports.show_disk(state);
        }
    }
}
