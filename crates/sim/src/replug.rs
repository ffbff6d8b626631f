//! Drives are unplugged, exchanged and replaced, while the power is off; new ones come into the rack.

use crate::bays::{Bays, uuid};
use crate::drive::Drive;
use crate::rollback::Taken;
use crate::service::Service;
use crate::step::Step;
use zone::device::Geometry;
use zone::drives::DriveSet;

/// Drives of another array are numbered from here.
const FOREIGN: usize = 100;

/// Zones of a larger drive beyond those that the array uses.
const ZONES_UNUSED: u32 = 3;

impl Bays {
    /// Drives are unplugged, exchanged and replaced.
    pub(crate) fn replug(&mut self, step: &Step, service: &mut Service) {
        assert!(service.is_dark(), "drives are plugged while the power is off");
        let members = service.plan.members;
        match *step {
            Step::Lose { member } if self.unplug(member) => {
                self.away.remove(&member);
                service.ledger.blame(member, "drive lost");
            }
            Step::Away { member } if self.unplug(member) => {
                self.away.insert(member);
            }
            Step::Back { member } if member < members => {
                self.bring_back_replaced(member, &mut service.ledger);
                self.away.remove(&member);
                self.plug_in(member);
                service.ledger.count("drive comes back", 1);
            }
            Step::Blank { member } if member < members && self.unplug(member) => {
                let blank = self.empty_drive(member, service);
                assert!(!self.places.contains(&Some(blank)), "a new drive is in no place yet");
                self.drive_of[member] = blank;
                self.plug_in(member);
                self.blank.insert(blank);
                self.spoilt.remove(&member);
                service.ledger.blame(member, "drive comes back empty");
            }
            Step::AreaDrop { member } if member < members => {
                service.ledger.blame_windows(member, "windows gone");
                self.spoilt.insert(member);
                service.rack.lock().drives[self.drive_of[member]].drop_windows();
            }
            Step::Rollback { member, .. } if member < members => self.go_back(member, service),
            Step::Apart { member, .. } if member < members => self.use_apart(member, service),
            Step::Foreign { member } if member < members && self.foreign.is_empty() => {
                self.foreign_at(member, service)
            }
            Step::Exchange { a, b } if a < members && b < members => {
                self.places.swap(a, b);
                service.ledger.count("drives exchanged", 1);
            }
            _ => {}
        }
    }

    /// A drive is as it was at an earlier moment, unless the member has another one since.
    fn go_back(&mut self, member: usize, service: &mut Service) {
        let Some(Taken { drive, snapshot, mounts }) = self.rollbacks.due(&self.drive_of) else { return };
        assert!(service.is_dark(), "media go back while the power is off");
        assert!(mounts <= service.tally.mounts, "a moment that was");
        // With too few others that know better, nobody can tell (TESTING.md).
        let others_gone = self.away.iter().copied();
        if !service.ledger.is_tolerable_without(&others_gone.chain([member]).collect()) {
            return;
        }
        self.replaced.remove(&member);
        service.ledger.end_scrub();
        let drives = &mut service.rack.lock().drives;
        drives[drive].go_back(snapshot);
        // Once a drive went back behind a mount that had been cut, the next mount has the epoch of that one. A drive that goes
        // to the end of the first holds what it had in the second: it went back within one service, by all that is known.
        let epoch = drives[drive].newest_epoch();
        let others = self.drive_of.iter().filter(|other| **other != drive);
        let newest = others.filter_map(|other| drives[*other].newest_epoch()).max();
        if mounts < service.tally.mounts && newest.is_none_or(|newest| Some(newest) > epoch) {
            self.outdated.insert(member);
        } else {
            self.outdated.remove(&member);
        }
        service.ledger.blame(member, "drive goes back");
    }

    /// Puts a drive of another array into a place.
    fn foreign_at(&mut self, place: usize, service: &mut Service) {
        let array = service.array.with_identity(*b"another array...");
        let first = service.rack.lock().drives.len();
        let ids: Vec<[u8; 16]> =
            (0..service.plan.members).map(|member| [0xf0 ^ uuid(member)[0]; 16]).collect();
        for (member, id) in ids.iter().enumerate() {
            let drive = Drive::new(&service.plan, array.geometry(), *id, FOREIGN + member);
            service.rack.lock().drives.push(drive);
        }
        let mut rack = service.rack.lock();
        rack.power.restore();
        rack.power.recovering = true;
        drop(rack);
        let devices = (0..ids.len()).map(|member| Some(service.rack.device(first + member))).collect();
        let made = array.format(&mut DriveSet::new(devices), &ids);
        assert!(
            service.rack.lock().drives.len() == first + ids.len(),
            "the other array has drives of its own"
        );
        service.rack.lock().power.fail();
        if made.is_ok() && self.places.iter().flatten().count() > 1 {
            self.foreign.insert(place, self.places[place]);
            self.places[place] = Some(first);
            service.ledger.count("drive of another array", 1);
        }
    }

    /// A new drive in the rack.
    pub(crate) fn empty_drive(&self, member: usize, service: &Service) -> usize {
        let mut id = uuid(member);
        id[8..].copy_from_slice(&(service.rack.lock().drives.len() as u64).to_le_bytes());
        add_drive(member, id, service.array.geometry(), service)
    }

    /// An empty drive for one that failed. Every other one is the old drive, emptied, which keeps its identity; every third
    /// one has more zones than the array uses.
    pub(crate) fn replacement(&self, member: usize, service: &Service) -> usize {
        let count = service.rack.lock().drives.len();
        let mut geometry = service.array.geometry();
        geometry.zones += if count.is_multiple_of(3) { ZONES_UNUSED } else { 0 };
        let mut id = uuid(member);
        id[8..].copy_from_slice(&(count as u64).to_le_bytes());
        if count.is_multiple_of(2) {
            id = service.rack.lock().drives[self.drive_of[member]].media().uuid();
        }
        add_drive(member, id, geometry, service)
    }
}

/// Puts a blank drive into the rack.
fn add_drive(member: usize, id: [u8; 16], geometry: Geometry, service: &Service) -> usize {
    assert!(member < service.plan.members, "member {member} of {}", service.plan.members);
    let drives = &mut service.rack.lock().drives;
    drives.push(Drive::new(&service.plan, geometry, id, member));
    assert!(drives.len() > service.plan.members, "a new drive beside the first ones");
    drives.len() - 1
}
