//! What lies below the drive: the disk as it is, or one that is waited for.

use crate::inplace::disk::DiskHandle;
use base::time::{Instant, Nanos};
use block::condition::{Condition, Loss};
use block::device::{BlockDevice, Command, Completion, Geometry};
use drive::conventional::patient::{DiskWay, PatientDisk};

/// Time for which a disk is waited for.
pub const PATIENCE: Nanos = Nanos(60_000_000_000);

/// See the module.
pub enum Below {
    /// The disk.
    Plain(DiskHandle),
    /// The disk, waited for.
    Patient(Box<PatientDisk>),
}

struct Way(DiskHandle);

impl DiskWay for Way {
    fn look(&mut self) -> Result<Option<Box<dyn BlockDevice>>, Loss> {
        Ok(self.0.returned().map(|disk| Box::new(disk) as Box<dyn BlockDevice>))
    }
}

impl Below {
    /// A disk that is waited for, or is not.
    pub fn new(disk: DiskHandle, is_patient: bool) -> Below {
        if !is_patient {
            return Below::Plain(disk);
        }
        let way = Box::new(Way(disk.clone()));
        let mut patient = PatientDisk::new(Box::new(disk), way, PATIENCE, None);
        patient.outlive_hiccups(true);
        Below::Patient(Box::new(patient))
    }

    fn device(&mut self) -> &mut dyn BlockDevice {
        match self {
            Below::Plain(disk) => disk,
            Below::Patient(disk) => &mut **disk,
        }
    }

    fn as_device(&self) -> &dyn BlockDevice {
        match self {
            Below::Plain(disk) => disk,
            Below::Patient(disk) => &**disk,
        }
    }
}

impl BlockDevice for Below {
    fn geometry(&self) -> &Geometry {
        self.as_device().geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.device().submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.device().poll(now, completions);
    }

    fn next_event(&self) -> Option<Instant> {
        self.as_device().next_event()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        self.device().condition(now)
    }

    fn is_stalled(&self) -> bool {
        self.as_device().is_stalled()
    }
}
