//! Drives that were used apart: all are copied, and the copies served elsewhere, as those of a virtual machine that was cloned.
//! Then a drive of the clone comes back in place of one that has failed meanwhile.
//!
//! `apart 1 40` does that to drive 1, as of the step 40 steps ago, with the power off. The copies are drives where nothing breaks;
//! what is written to them is no client's, so that any block of it that is read is one too many.

use crate::bays::Bays;
use crate::drive::{Drive, Snapshot};
use crate::engine::Array;
use crate::service::Service;
use crate::step::Step;
use array::log::config::Tuning;
use array::log::volume::LogVolume;
use array::log::{identify, mount, spokesman};
use array::request::{Request, RequestId, RequestOp, Volume};
use base::time::Instant;
use base::units::Lba;
use drive::emulated::EmulatedDrive;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use zone::device::{Command, Completion, Geometry, ZonedDevice};
use zone::format::superblock::MemberState;

/// Blocks of the volume that are written apart.
const BLOCKS_WRITTEN_MAX: u64 = 256;
/// No mount of the array itself draws it: time does not go that far.
const MOUNT_TAG: u64 = u64::MAX;
/// Turns after which the copies are not served.
const TURNS_MAX: u64 = 100_000;
/// Contents of what is written.
const BYTE: u8 = 0xa9;

/// Copies to be used apart, or that were.
struct Apart {
    /// The step before which the drives are copied.
    from: usize,
    /// The step at which one of them comes back.
    to: usize,
    copies: Vec<Snapshot>,
}

/// All copies of a run.
#[derive(Default)]
pub struct Aparts {
    all: Vec<Apart>,
    /// Members whose drive is one of a clone.
    members: BTreeSet<usize>,
    /// The step that is being taken.
    now: usize,
}

impl Aparts {
    /// Returns the copies that these steps will need.
    #[must_use]
    pub fn of(steps: &[Step]) -> Aparts {
        let apart = |(to, step): (usize, &Step)| match *step {
            Step::Apart { steps, .. } => {
                Some(Apart { from: to.saturating_sub(steps), to, copies: Vec::new() })
            }
            _ => None,
        };
        Aparts { all: steps.iter().enumerate().filter_map(apart).collect(), ..Aparts::default() }
    }

    /// A step is about to be taken: copies the drives of all members, if that is the moment.
    pub fn take(&mut self, drive_of: &[usize], drives: &[Drive]) {
        let now = self.now;
        for apart in self.all.iter_mut().filter(|apart| apart.from == now) {
            apart.copies = drive_of.iter().map(|drive| drives[*drive].snapshot()).collect();
        }
        self.now += 1;
    }

    /// The copies that the step being taken brings one of.
    fn due(&mut self) -> Option<Vec<Snapshot>> {
        let now = self.now.checked_sub(1)?;
        let due = self.all.iter_mut().find(|apart| apart.to == now)?;
        assert!(due.from <= now, "a moment that was");
        Some(std::mem::take(&mut due.copies))
    }
}

impl Bays {
    /// The drive of a member that failed is that of the clone.
    pub(crate) fn use_apart(&mut self, member: usize, service: &mut Service) {
        assert!(service.is_dark(), "drives are exchanged while the power is off");
        let Some(copies) = self.aparts.due() else { return };
        // A copy of a drive that the others count on passes for it.
        if !self.has_failed(member, service) {
            return;
        }
        let Some(snapshot) = served_apart(copies, member, service) else { return };
        service.rack.lock().drives[self.drive_of[member]].go_back(snapshot);
        service.ledger.blame(member, "drive used apart");
        self.aparts.members.insert(member);
        self.take_out_stranger(member);
    }

    /// Nobody plugs in a drive of a clone, but for an operator who takes it for what was away; and who is told better takes it
    /// out again.
    pub(crate) fn take_out_stranger(&mut self, member: usize) {
        if self.aparts.members.contains(&member) {
            self.unplug(member);
            self.away.remove(&member);
        }
    }

    /// True when the others that are plugged in know that a member failed.
    fn has_failed(&self, member: usize, service: &Service) -> bool {
        let copies = self.copies(&service.rack.lock());
        let records: Vec<_> =
            copies.into_iter().flatten().filter_map(|drive| identify(drive, Instant(0)).1).collect();
        let others: Vec<_> = records.iter().filter(|record| usize::from(record.member) != member).collect();
        let said = spokesman(&others).and_then(|record| record.members.get(member).copied());
        said.is_some_and(|said| said.state == MemberState::Failed)
    }
}

/// Serves copies for a while, and once more, and returns that of a member.
fn served_apart(copies: Vec<Snapshot>, member: usize, service: &Service) -> Option<Snapshot> {
    let Array::Log(_) = &service.array else { return None };
    let drives: Vec<Shared> = copies.into_iter().map(Shared::new).collect();
    for blocks in [BLOCKS_WRITTEN_MAX, 0] {
        let devices = drives.iter().map(|drive| Some(Box::new(drive.clone()) as Box<dyn ZonedDevice>));
        let tuning = Tuning { mount_tag: MOUNT_TAG, ..service.plan.tuning() };
        let (shard, set, _) = mount(devices.collect(), tuning, Instant(0)).ok()?;
        serve(&mut LogVolume::new(shard, set), blocks)?;
    }
    let drive = &drives[member];
    let media = drive.lock().heap_snapshot()?;
    Some(Snapshot::of_media(media, drive.geometry.zones as usize))
}

/// Writes so many of the first blocks, one after the other; nothing when that takes too long.
fn serve(volume: &mut LogVolume, blocks_max: u64) -> Option<()> {
    let blocks = volume.blocks().min(blocks_max);
    let (mut asked, mut replies) = (0, Vec::new());
    for turn in 0..TURNS_MAX {
        let now = Instant(turn * 100_000);
        volume.turn(now, &mut replies);
        let answered = replies.len() as u64;
        if answered == blocks && volume.is_at_rest() {
            return Some(());
        }
        if asked == answered && asked < blocks && volume.client_frames_available() > 0 {
            let mut frames = vec![volume.frames().take()];
            frames.iter_mut().for_each(|frame| frame.data.fill(BYTE));
            let op = RequestOp::Write { lba: Lba(asked), frames, force_unit_access: true };
            volume.submit(now, Request { id: RequestId(asked), op });
            asked += 1;
        }
    }
    None
}

/// A drive that can be copied while it is served.
#[derive(Clone)]
struct Shared {
    drive: Arc<Mutex<EmulatedDrive>>,
    geometry: Geometry,
}

impl Shared {
    fn new(snapshot: Snapshot) -> Shared {
        let drive = snapshot.into_drive();
        let geometry = *drive.geometry();
        Shared { drive: Arc::new(Mutex::new(drive)), geometry }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, EmulatedDrive> {
        self.drive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ZonedDevice for Shared {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.lock().submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.lock().poll(now, completions);
    }

    fn next_event(&self) -> Option<Instant> {
        self.lock().next_event()
    }
}
