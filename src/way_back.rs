//! The way back to a drive whose device is gone: another node has the same drive when it is there again (ADR 72).

use crate::array_file::DriveTable;
use crate::candidates;
use drive::any::{AnyDrive, Kind};
use drive::emulated::DriveError;
use drive::patient::WayBack;
use drive::zoned;
use rustix::fd::OwnedFd;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use zone::device::ZonedDevice;

type Found = Option<Box<dyn ZonedDevice>>;

/// Paths of drives that came back elsewhere, by their identities.
pub type Moved = Arc<Mutex<Vec<(uuid::Uuid, PathBuf)>>>;

/// How answers of a drive come to the loop.
pub struct Reach {
    /// Rings when the drive has answers.
    pub bell: OwnedFd,
    /// They are asked for until they come, where the drive's driver has queues for that.
    pub polls: bool,
}

impl Reach {
    fn try_clone(&self) -> io::Result<Reach> {
        Ok(Reach { bell: self.bell.try_clone()?, polls: self.polls })
    }
}

/// Looks for a drive by its identity on all devices of this machine. Each look is a thread of its own, for it may take as long as
/// the drives like.
pub struct DeviceWay {
    table: DriveTable,
    reach: Reach,
    /// List in which a path found elsewhere is noted.
    moved: Moved,
    look: Option<Receiver<Found>>,
}

impl DeviceWay {
    /// The way back to the drive of an identity.
    pub fn new(uuid: [u8; 16], reach: Reach, moved: Moved) -> DeviceWay {
        let uuid = uuid::Uuid::from_bytes(uuid);
        let table = DriveTable { kind: None, path: PathBuf::new(), id: None, journal: None, uuid };
        DeviceWay { table, reach, moved, look: None }
    }

    fn begin(&self) -> io::Result<Receiver<Found>> {
        let (tell, told) = channel();
        let (table, reach, moved) = (self.table.clone(), self.reach.try_clone()?, Arc::clone(&self.moved));
        let look = move || {
            // A drive that nobody waits for any more is let go.
            let _ = tell.send(find(&table, &reach, &moved));
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
fn find(table: &DriveTable, reach: &Reach, moved: &Moved) -> Found {
    let mut seen = Vec::new();
    candidates::find(&[table], &mut seen);
    let sighting = seen.into_iter().find(|sighting| sighting.uuid == table.uuid)?;
    let not_yet = |error: &DriveError| log::debug!("a drive that is back cannot be opened yet: {error}");
    let device = open(&sighting.path, *table.uuid.as_bytes(), reach).inspect_err(not_yet).ok()??;
    log::info!("a drive that was away is {} now", sighting.path.display());
    moved.lock().unwrap_or_else(PoisonError::into_inner).push((table.uuid, sighting.path));
    Some(device)
}

/// Opens the device of a drive, of a kind that is waited for. One that cannot be polled any more announces its answers.
fn open(path: &Path, uuid: [u8; 16], Reach { bell, polls }: &Reach) -> Result<Found, DriveError> {
    let heard = |is_heard: io::Result<()>| {
        is_heard.inspect_err(|error| log::error!("the answers of a drive that is back: {error}")).is_ok()
    };
    Ok(match Kind::of(path) {
        Kind::Nvme => {
            let AnyDrive::Nvme(mut drive) = AnyDrive::open_as(path, uuid)? else { return Ok(None) };
            let device = &mut drive.drive;
            let reached = device.set_bell(bell).and_then(|()| match polls {
                true => device.poll_answers().map(|_| ()),
                false => Ok(()),
            });
            heard(reached).then(|| Box::new(drive.drive) as Box<dyn ZonedDevice>)
        }
        Kind::Zoned => {
            let mut device = zoned::reopen(path, uuid)?;
            heard(device.set_bell(bell)).then(|| Box::new(device) as Box<dyn ZonedDevice>)
        }
        Kind::Emulated | Kind::Conventional => None,
    })
}
