//! Exports that come and go while the service is under way: what was asked for at the ports is carried out here.

use super::common::Common;
use super::host_disks::HostDisks;
use crate::ports::Change;
use std::io;

/// Carries out what was asked for. A service that ends opens nothing any more.
pub(super) fn make(common: &mut Common<'_>, disk: &mut HostDisks) -> io::Result<()> {
    while let Some(change) = common.doors.ports.next_change() {
        if !common.is_serving() {
            continue;
        }
        match change {
            Change::OpenClients(listener) => common.doors.add_clients(&mut common.ring, listener)?,
            Change::OpenGuests(port) => common.doors.add_guests(&mut common.ring, port)?,
            Change::Close(place) => common.doors.close_at(&mut common.ring, &place)?,
            Change::OpenDisk(attached) => disk.open_late(common, attached)?,
            Change::CloseDisk => disk.begin_stop()?,
        }
    }
    Ok(())
}
