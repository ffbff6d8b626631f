//! The way back to an NVMe drive whose device is gone: another node has the same drive when it is there again (ADR 72).

use crate::array_file::DriveTable;
use crate::candidates;
use drive::any::AnyDrive;
use drive::patient::WayBack;
use rustix::fd::OwnedFd;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use zone::device::ZonedDevice;

type Found = Option<Box<dyn ZonedDevice>>;

/// Where drives are that came back, by their identities.
pub type Moved = Arc<Mutex<Vec<(uuid::Uuid, PathBuf)>>>;

/// Looks for a drive by its identity on all devices of this machine. Each look is a thread of its own, for it may take as long as
/// the drives like.
pub struct DeviceWay {
    table: DriveTable,
    /// Rings when the drive has answers.
    bell: OwnedFd,
    /// Where it is told that the drive is elsewhere.
    moved: Moved,
    look: Option<Receiver<Found>>,
}

impl DeviceWay {
    /// The way back to the drive of an identity.
    pub fn new(uuid: [u8; 16], bell: OwnedFd, moved: Moved) -> DeviceWay {
        let uuid = uuid::Uuid::from_bytes(uuid);
        let table = DriveTable { kind: None, path: PathBuf::new(), id: None, uuid };
        DeviceWay { table, bell, moved, look: None }
    }

    fn begin(&self) -> io::Result<Receiver<Found>> {
        let (tell, told) = channel();
        let (table, bell, moved) = (self.table.clone(), self.bell.try_clone()?, Arc::clone(&self.moved));
        let look = move || {
            // A drive that nobody waits for any more is let go.
            let _ = tell.send(find(&table, &bell, &moved));
        };
        std::thread::Builder::new().name("way back".to_owned()).spawn(look)?;
        Ok(told)
    }
}

impl WayBack for DeviceWay {
    fn look(&mut self) -> Found {
        match self.look.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return None,
            Some(Ok(Some(device))) => {
                self.look = None;
                return Some(device);
            }
            Some(Ok(None) | Err(TryRecvError::Disconnected)) | None => {}
        }
        self.look =
            self.begin().inspect_err(|error| log::debug!("no thread to look for a drive: {error}")).ok();
        None
    }
}

/// Finds the drive and opens it.
fn find(table: &DriveTable, bell: &OwnedFd, moved: &Moved) -> Found {
    let mut seen = Vec::new();
    candidates::find(&[table], &mut seen);
    let sighting = seen.into_iter().find(|sighting| sighting.uuid == table.uuid)?;
    match AnyDrive::open_as(&sighting.path, *table.uuid.as_bytes()) {
        Ok(AnyDrive::Nvme(mut drive)) => {
            drive
                .drive
                .set_bell(bell)
                .inspect_err(|error| log::error!("the bell of a drive: {error}"))
                .ok()?;
            log::info!("a drive that was away is {} now", sighting.path.display());
            moved.lock().unwrap_or_else(PoisonError::into_inner).push((table.uuid, sighting.path));
            Some(Box::new(drive.drive))
        }
        Ok(AnyDrive::Emulated(_) | AnyDrive::Conventional(_) | AnyDrive::Zoned(_)) => None,
        Err(error) => {
            log::debug!("a drive that is back cannot be opened yet: {error}");
            None
        }
    }
}
