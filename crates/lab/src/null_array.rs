//! A null array: the real engine over drives that do nothing.

use anyhow::Result;
use array::log::config::{ArrayConfig, Tuning};
use array::log::volume::LogVolume;
use array::log::{format, mount};
use base::time::Instant;
use base::units::BLOCK_BYTES;
use drive::null::NullDrive;
use zone::device::{Command, Completion, Geometry, Op, ZonedDevice};
use zone::drives::DriveSet;

/// A null drive that remembers its superblock, which mounting has to find.
struct NullMember {
    null: NullDrive,
    superblock: Option<Box<[u8; BLOCK_BYTES]>>,
}

impl ZonedDevice for NullMember {
    fn geometry(&self) -> &Geometry {
        self.null.geometry()
    }

    fn submit(&mut self, now: Instant, mut command: Command) {
        if command.zone.0 == 0 {
            match &mut command.op {
                Op::Write { frames, .. } => self.superblock = Some(Box::new(frames[0].data)),
                Op::Read { frames, .. } => {
                    if let Some(superblock) = &self.superblock {
                        frames[0].data = **superblock;
                    }
                }
                _ => {}
            }
        }
        self.null.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.null.poll(now, completions);
    }
}

/// Makes the array and mounts it.
///
/// # Errors
/// When there can be no such array.
pub fn mounted(config: &ArrayConfig, tuning: Tuning) -> Result<LogVolume> {
    let members: Vec<[u8; 16]> =
        (1..=config.members).map(|member| [u8::try_from(member).unwrap_or(0); 16]).collect();
    let drive = || Box::new(NullMember { null: NullDrive::new(config.geometry), superblock: None });
    let drives = members.iter().map(|_| Some(drive() as Box<dyn ZonedDevice>));
    let mut drives = DriveSet::new(drives.collect());
    format(&mut drives, config, &members)?;
    let (shard, drives, _) = mount(drives.into_inner(), tuning, Instant(0))?;
    let mut volume = LogVolume::new(shard, drives);
    // As a server does.
    volume.watch_for_others();
    Ok(volume)
}
