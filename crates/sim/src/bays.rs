//! Bays: which drive is where, and what becomes of members and their drives.
//!
//! A member has a drive of its own; a place of the list that is mounted has any drive, or none. An operator unplugs and
//! exchanges drives, and what the array knows of it afterwards follows from the mounts in between.

use crate::apart::Aparts;
use crate::drive::Drive;
use crate::ledger::Ledger;
use crate::rack::Rack;
use crate::rollback::Rollbacks;
use crate::service::Service;
use crate::tally::Failure;
use array::log::ReAdded;
use base::units::ZoneIndex;
use drive::emulated::EmulatedDrive;
use std::collections::{BTreeMap, BTreeSet};
use zone::device::ZonedDevice;
use zone::format::superblock::MemberState;

/// Outcome of a mount.
pub(crate) enum Mounted {
    /// The volume is there.
    Done,
    /// The mount was refused, and something was done about that.
    Again,
    /// The power failed meanwhile.
    Dark,
    /// The mount was refused with good reason.
    Refused,
}

/// Returns the identity of a member's first drive.
pub(crate) fn uuid(member: usize) -> [u8; 16] {
    [u8::try_from(member + 1).expect("at most 32 members"); 16]
}

/// The places of drives, and the drives of members.
pub(crate) struct Bays {
    /// Every member has its place in the list: the baseline wants its drives in their order.
    keeps_order: bool,
    /// Drive in each place of the list that is mounted; `None` where none is plugged in.
    pub(crate) places: Vec<Option<usize>>,
    /// The drive of each member.
    pub(crate) drive_of: Vec<usize>,
    /// Members whose drive is new and not known to hold everything.
    pub(crate) replaced: BTreeSet<usize>,
    /// Members that are not plugged in and may come back.
    pub(crate) away: BTreeSet<usize>,
    /// Members whose drive was replaced by an empty one.
    pub(crate) blank: BTreeSet<usize>,
    /// Drive that each member of the baseline had before it was replaced.
    pub(crate) shelf: BTreeMap<usize, usize>,
    /// Drives that go back to earlier moments.
    pub(crate) rollbacks: Rollbacks,
    /// Copies of the drives that will be used apart.
    pub(crate) aparts: Aparts,
    /// Members whose drive is as it was before the last mount: older copies of themselves.
    pub(crate) outdated: BTreeSet<usize>,
    /// Members whose media were damaged since their drive was new.
    pub(crate) spoilt: BTreeSet<usize>,
    /// Places with a drive of another array.
    pub(crate) foreign: BTreeMap<usize, Option<usize>>,
}

impl Bays {
    /// Returns the bays of a new array: every drive in its place.
    pub(crate) fn new(members: usize, keeps_order: bool) -> Bays {
        assert!(members > 0, "an array has members");
        Bays {
            keeps_order,
            places: (0..members).map(Some).collect(),
            drive_of: (0..members).collect(),
            replaced: BTreeSet::new(),
            away: BTreeSet::new(),
            blank: BTreeSet::new(),
            shelf: BTreeMap::new(),
            rollbacks: Rollbacks::default(),
            aparts: Aparts::default(),
            outdated: BTreeSet::new(),
            spoilt: BTreeSet::new(),
            foreign: BTreeMap::new(),
        }
    }

    pub(crate) fn plug_in(&mut self, member: usize) {
        let drive = self.drive_of[member];
        // The baseline wants its drives in their order.
        if self.keeps_order && self.places[member].is_none() {
            self.places[member] = Some(drive);
        } else if !self.places.contains(&Some(drive))
            && let Some(place) = self.places.iter_mut().find(|place| place.is_none())
        {
            *place = Some(drive);
        }
    }

    pub(crate) fn unplug(&mut self, member: usize) -> bool {
        let drive = self.drive_of.get(member).copied();
        let place = self.places.iter_mut().find(|place| place.is_some() && **place == drive);
        place.map(|place| *place = None).is_some()
    }

    /// Drives of another array are taken out. Those that were in their places are put back, but for one that is in another
    /// place by now.
    pub(crate) fn unplug_foreign(&mut self) {
        for (place, drive) in std::mem::take(&mut self.foreign) {
            assert!(place < self.places.len(), "place {place} of {}", self.places.len());
            self.places[place] = drive.filter(|drive| !self.places.contains(&Some(*drive)));
        }
        assert!(self.has_each_once(), "no drive is in two places");
    }

    fn has_each_once(&self) -> bool {
        let mut seen = BTreeSet::new();
        self.places.iter().flatten().all(|drive| seen.insert(drive))
    }

    /// An operator leaves out the drive in a place, if it is one that is to blame. Drives may have been exchanged.
    pub(crate) fn leave_out(&mut self, place: usize, ledger: &Ledger) -> bool {
        let drive = self.places[place];
        let member = self.drive_of.iter().position(|own| Some(*own) == drive);
        member.is_some_and(|member| ledger.is_blamed(member) && self.unplug(member))
    }

    /// An operator puts every drive where it belongs; false when they all were.
    pub(crate) fn put_in_order(&mut self) -> bool {
        let before = self.places.clone();
        self.unplug_foreign();
        let plugged: Vec<usize> = self.places.iter().flatten().copied().collect();
        for (member, place) in self.places.iter_mut().enumerate() {
            *place = Some(self.drive_of[member]).filter(|drive| plugged.contains(drive));
        }
        assert!(self.places.iter().flatten().count() <= plugged.len(), "no drive appears");
        self.places != before
    }

    /// The drive that a member had before it was replaced is plugged in instead of the new one.
    pub(crate) fn bring_back_replaced(&mut self, member: usize, ledger: &mut Ledger) {
        let Some(old) = self.shelf.get(&member).copied() else { return };
        assert!(old != self.drive_of[member], "another drive is on the shelf");
        if self.unplug(member) {
            self.shelf.insert(member, self.drive_of[member]);
            self.drive_of[member] = old;
            self.plug_in(member);
            ledger.blame(member, "drive that was replaced comes back");
        }
    }

    /// Drives of ours that are plugged in, answer, and were not replaced by empty ones.
    pub(crate) fn own_drives(&self, rack: &Rack) -> usize {
        let own = |drive: &usize| {
            self.drive_of.contains(drive) && !self.blank.contains(drive) && !rack.drives[*drive].is_dead()
        };
        self.places.iter().flatten().filter(|drive| own(drive)).count()
    }

    /// Members that are not there when the others go on are not believed any more.
    pub(crate) fn blame_the_absent(&mut self, ledger: &mut Ledger) {
        for member in std::mem::take(&mut self.away) {
            ledger.blame(member, "drive misses a mount");
        }
    }

    /// Judges whether an array may refuse a mount, and plugs in drives that were away, if any, for another attempt.
    pub(crate) fn may_try_again(
        &mut self,
        error: &str,
        has_told: bool,
        ledger: &mut Ledger,
    ) -> Result<Mounted, Failure> {
        // A mount that is refused changes nothing: those who were away are as good as before. One that fails on
        // the way has told the others.
        if has_told {
            self.blame_the_absent(ledger);
        }
        let away = std::mem::take(&mut self.away);
        assert!(away.iter().all(|member| *member < self.drive_of.len()), "members of the array");
        if ledger.is_tolerable_without(&away) {
            return Err(Failure::new(format!("the array does not mount: {error}")));
        }
        for member in &away {
            self.plug_in(*member);
        }
        if !away.is_empty() {
            ledger.count("too many drives away", 1);
        }
        Ok(if away.is_empty() { Mounted::Refused } else { Mounted::Again })
    }

    /// The drive was taken in.
    pub(crate) fn on_re_added(&mut self, re_added: &ReAdded, ledger: &mut Ledger) {
        let ReAdded { member, segments_whole, segments_to_rebuild, .. } = *re_added;
        assert!(member < self.drive_of.len(), "member {member} of {}", self.drive_of.len());
        self.outdated.remove(&member);
        ledger.end_scrub();
        ledger.blame(member, "drive re-added");
        ledger.count("segments whole on drives re-added", segments_whole);
        ledger.count("segments to rebuild on drives re-added", segments_to_rebuild);
        if !self.spoilt.contains(&member) {
            self.replaced.insert(member);
        }
    }

    /// Nobody believes an older copy of a drive, and all say so for ever: as long as there are enough others that know.
    pub(crate) fn check_outdated(&mut self, service: &mut Service) -> Result<(), Failure> {
        if !service.ledger.is_tolerable() {
            return Ok(());
        }
        for member in std::mem::take(&mut self.outdated) {
            if service.engine().members()[member] != MemberState::Failed {
                return Err(Failure::new(format!("an older copy of drive {member} is believed")));
            }
            service.ledger.count("older copies left out", 1);
        }
        Ok(())
    }

    /// Copies of the drives that are plugged in.
    pub(crate) fn copies(&self, rack: &Rack) -> Vec<Option<Box<dyn ZonedDevice>>> {
        self.places.iter().map(|place| place.and_then(|drive| copy_of(&rack.drives[drive]))).collect()
    }
}

/// A drive that holds the same and breaks no further: what cannot be read there cannot be read here.
fn copy_of(drive: &Drive) -> Option<Box<dyn ZonedDevice>> {
    let media = drive.media().heap_snapshot().filter(|_| !drive.is_dead())?;
    let mut copy = EmulatedDrive::from_heap(media).expect("media of a drive");
    for (zone, offset) in &drive.faults.unreadable {
        copy.fail_reads(ZoneIndex(*zone), *offset);
    }
    Some(Box::new(copy))
}
