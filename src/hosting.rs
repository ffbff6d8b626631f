//! How the drives of a served array work: in a thread of their own where they lie on a disk, in the time of a profile
//! where one is given.

use crate::exit::Exit;
use crate::way_back::{DeviceWay, Moved, Reach};
use anyhow::{Context, Result};
use base::time::Nanos;
use drive::any::AnyDrive;
use drive::conventional::ConventionalDrive;
use drive::conventional::device::Known;
use drive::conventional::patient::PatientDisk;
use drive::emulated::{EmulatedDrive, Pace, TimedDrive};
use drive::ordinary::OrdinaryDrive;
use drive::patient::Patient;
use drive::timing::{ModelOptions, Profile};
use drive::{Bell, HostedDrive};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use zone::device::ZonedDevice;

/// Linux on which polling was tried. In 6.1 the end of a ring looks at requests that are gone.
const POLLING_SINCE: (u32, u32) = (6, 12);

type ZonesWay = DeviceWay<Box<dyn ZonedDevice>>;

/// See the module.
pub struct Hosting {
    /// Profile whose timing drives take, if any. Such drives are not hosted: their time is that of the loop.
    profile: Option<Profile>,
    /// Time for which a device that is away is waited for; zero is none.
    patience: Nanos,
    /// Time after which a device that does not answer is as good as away.
    limit: Nanos,
    /// Paths of drives that came back elsewhere.
    moved: Moved,
    /// Devices that are cut into zones discard a zone that was reset.
    discards: bool,
    /// Drives are asked for their answers until they come.
    polls: bool,
    /// Bell that rings when a hosted drive has answers.
    bell: Bell,
}

/// A drive as it goes into an array.
pub struct Hosted {
    /// The drive.
    pub device: Box<dyn ZonedDevice>,
    /// Clock of the drive, with a profile.
    pub pace: Option<Pace>,
    /// Readable when it has something to say, where that is not the bell.
    pub wake_fd: Option<OwnedFd>,
}

impl Hosting {
    /// Drives as they are, or as a profile has them. None is waited for that is away.
    pub fn new(profile: Option<Profile>) -> Result<Hosting> {
        let (patience, limit, moved) = (Nanos(0), Nanos(0), Moved::default());
        Ok(Hosting {
            profile,
            patience,
            limit,
            moved,
            discards: true,
            polls: false,
            bell: Bell::new().context("event descriptor of the drives")?,
        })
    }

    /// The same, where devices are waited for that are away, or do not answer within a limit.
    pub fn with_patience(self, patience: Nanos, limit: Nanos) -> Hosting {
        Hosting { patience, limit, ..self }
    }

    /// The same, where zones of devices that are cut into zones are discarded when they were reset, or are not.
    pub fn with_discards(self, discards: bool) -> Hosting {
        Hosting { discards, ..self }
    }

    /// The same, where drives are polled for their answers, or are not.
    pub fn with_polling(self, polls: bool) -> Hosting {
        Hosting { polls, ..self }
    }

    /// Refuses kernels that do not survive the end of a server whose drives are polled.
    pub fn expect_kernel(polls: bool) -> Result<()> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if !polls || version_of(&release).is_none_or(|version| version >= POLLING_SINCE) {
            return Ok(());
        }
        Err(Exit::Usage.error(format!(
            "--poll wants Linux 6.12 or later, and this is {}: 6.1 crashes when a server ends while drives work for it (seen); leave --poll \
             out, or start a newer kernel",
            release.trim()
        )))
    }

    /// Refuses a drive that cannot be polled, if that is asked for.
    fn expect_polled(&self, is_polled: bool) -> Result<()> {
        if is_polled || !self.polls { Ok(()) } else { Err(cannot_be_polled()) }
    }

    /// Returns the profile whose timing drives take, if any.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// The bell of all drives, for the loop.
    pub fn bell_descriptor(&self) -> Result<OwnedFd> {
        self.bell.descriptor().context("event descriptor of the drives")
    }

    /// Drives that came back since this was asked last, and where they are now.
    pub fn take_moved(&self) -> Vec<(uuid::Uuid, PathBuf)> {
        std::mem::take(&mut *self.moved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on somebody sleeps until drives have something to say.
    pub fn listen(&self) {
        self.bell.listen();
    }

    /// Prepares a drive; the seed is for its profile.
    pub fn host(&self, mut drive: AnyDrive, seed: u64) -> Result<Hosted> {
        drive.wait_until(self.bell.heard());
        self.expect_polled(matches!(drive, AnyDrive::Nvme(_)))?;
        match drive {
            AnyDrive::Emulated(drive) => self.host_emulated(*drive, seed),
            AnyDrive::Conventional(_) | AnyDrive::Nvme(_) | AnyDrive::Zoned(_) if self.profile.is_some() => Err(Exit::Usage.error(
                "--profile gives emulated drives the timing of a real one; this is a device, which has its own",
            )),
            // Its commands are on the kernel's side of a ring: nothing waits.
            AnyDrive::Conventional(drive) => {
                let mut device = drive.drive;
                device.set_discards(self.discards);
                device.device_mut().set_patience(self.patience);
                device.device_mut().set_bell(&self.bell_descriptor()?).context("the bell of a drive")?;
                Ok(Hosted { device: self.host_conventional(device)?, pace: None, wake_fd: None })
            }
            AnyDrive::Zoned(mut drive) => {
                drive.set_patience(self.patience);
                drive.set_bell(&self.bell_descriptor()?).context("the bell of a drive")?;
                let device = drive.drive;
                let device: Box<dyn ZonedDevice> = match self.way_to(device.uuid())? {
                    None => Box::new(device),
                    // A journal elsewhere is not waited for: without it the drive is gone.
                    Some(way) => Box::new(device.lay_on(|joined| {
                        joined.lay_on(|disk| self.patient(disk, way).without_metadata())
                    })),
                };
                Ok(Hosted { device, pace: None, wake_fd: None })
            }
            AnyDrive::Nvme(drive) => {
                let mut device = drive.drive;
                device.set_bell(&self.bell_descriptor()?).context("the bell of a drive")?;
                let is_polled = self.polls && device.poll_answers().context("a ring that is polled")?;
                self.expect_polled(is_polled)?;
                let device: Box<dyn ZonedDevice> = match self.way_to(drive.found.uuid())? {
                    None => Box::new(device),
                    Some(way) => Box::new(self.patient(device, way)),
                };
                Ok(Hosted { device, pace: None, wake_fd: None })
            }
        }
    }

    /// A conventional drive. Its disk is waited for when it is one: a file is never away.
    fn host_conventional(&self, drive: ConventionalDrive<OrdinaryDrive>) -> Result<Box<dyn ZonedDevice>> {
        if self.patience == Nanos(0) || !drive.device().is_disk() {
            return Ok(Box::new(drive));
        }
        let known = Known { uuid: drive.uuid(), opening: drive.opening() };
        let way = DeviceWay::to_disk(known, self.patience, self.bell_descriptor()?, Arc::clone(&self.moved));
        Ok(Box::new(drive.lay_on(|mut disk| {
            disk.try_flushes_again();
            PatientDisk::new(Box::new(disk), Box::new(way), self.patience, Some(self.limit))
        })))
    }

    /// The way back to a drive, if it is waited for.
    fn way_to(&self, uuid: [u8; 16]) -> Result<Option<ZonesWay>> {
        if self.patience == Nanos(0) {
            return Ok(None);
        }
        let reach = Reach { bell: self.bell_descriptor()?, polls: self.polls };
        Ok(Some(DeviceWay::to_zones(uuid, reach, Arc::clone(&self.moved))))
    }

    /// A device that is waited for when it is away.
    fn patient(&self, device: impl ZonedDevice + 'static, way: ZonesWay) -> Patient {
        Patient::new(Box::new(device), Some(Box::new(way)), self.patience).with_limit(self.limit)
    }

    fn host_emulated(&self, drive: EmulatedDrive, seed: u64) -> Result<Hosted> {
        let wake_fd = drive.wake_fd().map(|fd| fd.try_clone_to_owned()).transpose();
        let wake_fd = wake_fd.context("event descriptor of a drive")?;
        if let Some(profile) = &self.profile {
            let options = ModelOptions { seed, ..ModelOptions::default() };
            let (device, pace) = TimedDrive::paced(drive, profile, options);
            return Ok(Hosted { device: Box::new(device), pace: Some(pace), wake_fd });
        }
        // A drive in memory never waits, so it needs no thread and no bell.
        let device: Box<dyn ZonedDevice> = match wake_fd {
            Some(_) => Box::new(HostedDrive::start(drive, &self.bell).context("the thread of a drive")?),
            None => Box::new(drive),
        };
        Ok(Hosted { device, pace: None, wake_fd: None })
    }
}

/// Why a drive cannot be polled, and what helps.
pub fn cannot_be_polled() -> anyhow::Error {
    Exit::Usage.error(
        "--poll: this drive cannot be polled; NVMe drives with zones and metadata (/dev/ngXnY) can, where their driver has queues for \
         that (/sys/block/nvmeXnY/queue/io_poll is 1): `nvme.poll_queues=2` on the kernel's command line, or `modprobe nvme \
         poll_queues=2`, makes some; or leave --poll out",
    )
}

/// Major and minor number of a release of Linux.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version_of("6.1.0-57-amd64\n"), Some((6, 1)));
        assert!(version_of("6.12.117+deb12-amd64").unwrap() >= POLLING_SINCE);
        assert!(version_of("6.9.0").unwrap() < POLLING_SINCE);
        assert!(version_of("10.0-rc1").unwrap() >= POLLING_SINCE);
        assert_eq!(version_of("unknown"), None);
    }
}
