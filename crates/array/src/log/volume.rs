//! The log-structured engine with its drives, and what an operator may ask of it while it serves.

use crate::driven::Driven;
use crate::engine::Engine;
use crate::fence::Fenced;
use crate::log::mount::newest_record;
use crate::log::replace::expect_blank;
use crate::log::scrub::{ScrubError, ScrubOptions};
use crate::log::{ReplaceError, Shard};
use crate::pacer::Rates;
use crate::request::Volume;
use base::time::Instant;
use base::units::DriveIndex;
use zone::device::ZonedDevice;
use zone::format::superblock::Uuid;

/// A volume of the log-structured engine.
pub type LogVolume = Driven<Shard>;

impl LogVolume {
    /// An empty drive takes the place of a failed member, and the member is rebuilt onto it while clients
    /// go on. The drive must be blank and made like the others, its UUID that of no member.
    ///
    /// # Errors
    /// Why the drive cannot take its place. Nothing was changed then, and the drive is let go.
    pub fn replace_member(
        &mut self,
        now: Instant,
        member: DriveIndex,
        device: Box<dyn ZonedDevice>,
        uuid: Uuid,
    ) -> Result<(), ReplaceError> {
        if self.is_looking() {
            return Err(ReplaceError::Busy);
        }
        let Driven { engine, drives, effects, .. } = self;
        engine.can_replace(member.index(), uuid)?;
        let has_commands = effects.commands.iter().any(|command| command.drive == member);
        if has_commands || drives.in_flight(member) > 0 {
            return Err(ReplaceError::Busy);
        }
        let device = expect_blank(device, engine.geometry(), now)?;
        let geometry = *device.geometry();
        drives.replace(member, device);
        engine.replace_member(member.index(), uuid, &geometry, effects);
        Ok(())
    }

    /// Looks at once whether another host has taken a drive, before the array is mounted again.
    pub fn look_for_others(&mut self, now: Instant) {
        let own = self.engine.own_record().expect("this engine has records");
        for member in self.members_present().iter() {
            let drive = DriveIndex::at(member);
            let newest = newest_record(&mut self.drives, member, now).map(|(record, _)| record);
            if let Some(found) = newest.filter(|found| own.is_foreign(found) && !self.has_ended()) {
                self.end_for_good(Fenced { drive, ours: own.version, theirs: found.version() });
            }
        }
    }

    /// Rates at which a rebuild writes to its drive from now on.
    pub fn set_rebuild_rates(&mut self, rates: Rates) {
        self.engine.set_rebuild_rates(rates);
    }

    /// Begins a scrub: everything is read beside what clients do, and repaired if that is asked for.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub fn start_scrub(&mut self, options: ScrubOptions) -> Result<(), ScrubError> {
        self.engine.start_scrub(options)
    }

    /// Ends the scrub, if one is running.
    pub fn stop_scrub(&mut self) {
        self.engine.stop_scrub();
    }

    /// From now on a scrub reads at most so many bytes a second; `None` and zero are no limit.
    pub fn set_scrub_rate(&mut self, bytes_per_second: Option<u64>) {
        self.engine.set_scrub_rate(bytes_per_second);
    }

    /// A checkpoint is to be written as soon as possible, unless nothing was written since the last.
    pub fn ask_for_checkpoint(&mut self) {
        self.engine.ask_for_checkpoint();
    }
}
