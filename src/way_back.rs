//! The way back to a drive whose device is gone: another node has the same drive when it is there again (ADR 72).

use crate::array_file::DriveTable;
use crate::candidates;
use base::loss::Loss;
use base::time::Nanos;
use block::device::BlockDevice;
use drive::any::{AnyDrive, Kind};
use drive::conventional::device::{Known, reopen};
use drive::conventional::patient::DiskWay;
use drive::emulated::DriveError;
use drive::patient::WayBack;
use drive::zoned;
use rustix::fd::OwnedFd;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use zone::device::ZonedDevice;

/// Paths of drives that came back elsewhere, by their identities.
pub type Moved = Arc<Mutex<Vec<(uuid::Uuid, PathBuf)>>>;

/// How answers of a drive come to the loop.
pub struct Reach {
    /// Rings when the drive has answers.
    pub bell: OwnedFd,
    /// They are asked for until they come, where the drive's driver has queues for that.
    pub polls: bool,
}

/// Opens a drive at a path, where it was found; none when it is of a kind that is not waited for.
type Open<T> = Arc<dyn Fn(&Path) -> Result<Option<T>, DriveError> + Send + Sync>;

/// A disk that came back, or why it is not to be used.
type Disk = Result<Box<dyn BlockDevice>, Loss>;

/// Looks for a drive by its identity on all devices of this machine. Each look is a thread of its own, for it may take as long as
/// the drives like.
pub struct DeviceWay<T> {
    table: DriveTable,
    open: Open<T>,
    /// List in which a path found elsewhere is noted.
    moved: Moved,
    look: Option<Receiver<Option<T>>>,
}

impl DeviceWay<Box<dyn ZonedDevice>> {
    /// The way back to the drive with zones of an identity.
    pub fn to_zones(uuid: [u8; 16], reach: Reach, moved: Moved) -> Self {
        DeviceWay::new(uuid, Arc::new(move |path| open(path, uuid, &reach)), moved)
    }
}

impl DeviceWay<Disk> {
    /// The way back to the disk of a conventional drive, which tries again for so long what the kernel refuses for now.
    pub fn to_disk(known: Known, patience: Nanos, bell: OwnedFd, moved: Moved) -> Self {
        let open = move |path: &Path| {
            if Kind::of(path) != Kind::Conventional {
                return Ok(None);
            }
            let disk = reopen(path, known)?.map(|mut disk| {
                disk.set_patience(patience);
                disk.try_flushes_again();
                disk.set_bell(&bell)
                    .inspect_err(no_bell)
                    .ok()
                    .map(|()| Box::new(disk) as Box<dyn BlockDevice>)
            });
            Ok(disk.transpose())
        };
        DeviceWay::new(known.uuid, Arc::new(open), moved)
    }
}

impl<T: Send + 'static> DeviceWay<T> {
    fn new(uuid: [u8; 16], open: Open<T>, moved: Moved) -> DeviceWay<T> {
        let uuid = uuid::Uuid::from_bytes(uuid);
        let table = DriveTable { kind: None, path: PathBuf::new(), id: None, journal: None, uuid };
        DeviceWay { table, open, moved, look: None }
    }

    fn begin(&self) -> io::Result<Receiver<Option<T>>> {
        let (tell, told) = channel();
        let (table, open, moved) = (self.table.clone(), Arc::clone(&self.open), Arc::clone(&self.moved));
        let look = move || {
            // A drive that nobody waits for any more is let go.
            let _ = tell.send(find(&table, &open, &moved));
        };
        std::thread::Builder::new().name("way back".to_owned()).spawn(look)?;
        Ok(told)
    }

    fn look(&mut self) -> Option<T> {
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

impl WayBack for DeviceWay<Box<dyn ZonedDevice>> {
    fn look(&mut self) -> Option<Box<dyn ZonedDevice>> {
        self.look()
    }
}

impl DiskWay for DeviceWay<Disk> {
    fn look(&mut self) -> Result<Option<Box<dyn BlockDevice>>, Loss> {
        self.look().transpose()
    }
}

fn no_bell(error: &io::Error) {
    log::error!("the bell of a drive: {error}");
}

/// Finds the drive and opens it.
fn find<T>(table: &DriveTable, open: &Open<T>, moved: &Moved) -> Option<T> {
    let mut seen = Vec::new();
    candidates::find(&[table], &mut seen);
    let sighting = seen.into_iter().find(|sighting| sighting.uuid == table.uuid)?;
    let not_yet = |error: &DriveError| log::debug!("a drive that is back cannot be opened yet: {error}");
    let device = open(&sighting.path).inspect_err(not_yet).ok()??;
    log::info!("a drive that was away is {} now", sighting.path.display());
    moved.lock().unwrap_or_else(PoisonError::into_inner).push((table.uuid, sighting.path));
    Some(device)
}

/// Opens the device of a drive with zones. One that cannot be polled any more announces its answers.
fn open(
    path: &Path,
    uuid: [u8; 16],
    Reach { bell, polls }: &Reach,
) -> Result<Option<Box<dyn ZonedDevice>>, DriveError> {
    let heard = |reached: io::Result<()>| reached.inspect_err(no_bell).is_ok();
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
