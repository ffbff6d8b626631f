//! Spares: devices of an array that have no role, and take one by themselves when a member fails.
//!
//! Nothing of the array lies on a spare but its own superblock, with a number that no other device has and no role. It joins as any
//! new member does ([`super::recovery`]), but keeps its number. On the superblocks of others a spare is what nobody is.

use super::core::Core;
use super::recovery::AddRefused;
use super::volume::Ways;
use block::md::policy::levelled;
use block::md::superblock::Superblock;
use block::md::{DeviceNumber, Role};

/// Spare with its device.
pub struct Spare {
    /// Name of the device, for messages.
    pub name: String,
    /// Its superblock when it becomes a member.
    pub superblock: Superblock,
    /// The device.
    pub device: Ways,
}

/// Spares of an array, and who stepped in.
#[derive(Default)]
pub struct Spares {
    waiting: Vec<Spare>,
    stepped_in: Vec<(Role, String)>,
}

impl Spares {
    /// One more.
    pub fn push(&mut self, spare: Spare) {
        self.waiting.push(spare);
    }

    /// Takes one out by its name; false when there is none.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|spare| spare.name != name);
        self.waiting.len() < before
    }

    /// Names of those that wait.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.waiting.iter().map(|spare| spare.name.as_str())
    }

    /// True when nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first that waits, to step in.
    pub(super) fn take(&mut self) -> Option<Spare> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }

    /// Takes one out by its name, to replace a member.
    pub(super) fn take_named(&mut self, name: &str) -> Option<Spare> {
        let place = self.waiting.iter().position(|spare| spare.name == name);
        place.map(|place| self.waiting.remove(place))
    }

    /// A spare has a role now.
    pub(super) fn note_stepped_in(&mut self, role: Role, name: String) {
        self.stepped_in.push((role, name));
    }

    /// Roles that spares took since this was asked last, with their names.
    pub fn take_stepped_in(&mut self) -> Vec<(Role, String)> {
        std::mem::take(&mut self.stepped_in)
    }
}

impl Core {
    /// Role that a spare is to take; `None` when nothing is missing, or nothing can be rebuilt.
    pub(super) fn role_for_spare(&self) -> Option<Role> {
        let is_bare = self.members.vacant().is_empty() || self.template().is_none();
        (!is_bare).then(|| self.role_for(None).ok()).flatten()
    }

    /// Whether an empty device is a spare when it is added: no member is missing.
    #[must_use]
    pub fn keeps_spare(&self, wanted: Option<Role>) -> bool {
        wanted.is_none() && self.role_for(None) == Err(AddRefused::NoneMissing)
    }

    /// Number for a device that becomes a spare.
    pub fn number_for_spare(&mut self) -> DeviceNumber {
        self.scribe.roster.number()
    }

    /// A spare's superblock as the array is now.
    pub(super) fn superblock_of_spare(&self, spare: Superblock) -> Superblock {
        match self.template() {
            Some(member) => {
                // What has no bitmap or log yet gets one as it joins.
                let (features, log) = levelled(&spare, member);
                Superblock { features, log, device: spare.device, ..member.clone() }
            }
            None => spare,
        }
    }
}
