//! Who belongs to the array: failing a member, and telling the superblocks of the others before
//! anything is acknowledged without it.

use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::core::Event;
use crate::log::segment::Segment;
use crate::log::stripe::StripeSlot;
use crate::log::{Effects, Waiter};
use base::erasure::{ErasureCode, PieceSet};
use base::units::ZoneIndex;
use zone::device::{Completion, Op, Status};
use zone::format::checkpoint::Checkpoint;
use zone::format::superblock::{MemberState, Superblock, Uuid, Version};

/// Position of the next superblock record of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Zone 0 or 1.
    pub zone: ZoneIndex,
    /// Next block of it.
    pub next: u32,
}

/// Records every drive must have room for when it is mounted: more than members can fail until the
/// next mount makes room again.
pub const RECORDS_PER_MOUNT: u32 = 64;

/// Records from one replacement to the next, at most: rebuilding, active or failed, and one to spare.
const RECORDS_PER_REPLACEMENT: u32 = 8;

/// The members and the superblock log.
#[derive(Debug)]
pub struct Membership {
    record: Superblock,
    code: ErasureCode,
    /// Generation that all members that are there hold durably.
    settled: Version,
    positions: Vec<LogPosition>,
    /// A member has failed since the array was mounted: one that was being rebuilt counts too, for it held stripes.
    has_lost_since_mount: bool,
    /// Members that are not active.
    lost_count: usize,
    records_pending: u32,
    changed_again: bool,
    /// Stripes that are complete but for a member whose failure is not recorded yet.
    pub stripes_waiting: Vec<StripeSlot>,
    /// Zones of each member that were given up since the mount.
    zones_retired: Vec<u32>,
    /// What members are blamed for that failed since the mount.
    blames: Vec<Option<Blame>>,
    /// Members whose drives are away for a while. They are members as ever, and what they are asked waits.
    stalled: PieceSet,
    /// Slots of the write area are written but for the same.
    pub slots_waiting: bool,
    /// A device flush is complete but for the same.
    pub flush_waiting: bool,
}

impl Membership {
    /// The members of an array of a code, as the newest superblock has them.
    #[must_use]
    pub fn new(record: Superblock, code: ErasureCode, positions: Vec<LogPosition>) -> Membership {
        Membership {
            has_lost_since_mount: false,
            lost_count: lost_count(&record),
            settled: record.settled,
            record,
            code,
            positions,
            records_pending: 0,
            changed_again: false,
            zones_retired: vec![0; code.piece_count()],
            blames: vec![None; code.piece_count()],
            stalled: PieceSet::default(),
            stripes_waiting: Vec::new(),
            slots_waiting: false,
            flush_waiting: false,
        }
    }

    /// The newest record.
    #[must_use]
    pub fn record(&self) -> &Superblock {
        &self.record
    }

    /// True when the member is there: it is written to, and read where it holds what is wanted.
    #[must_use]
    pub fn is_present(&self, drive: usize) -> bool {
        self.record.members[drive].state != MemberState::Failed
    }

    /// True when the member holds all it should, but for zones that a drive lacks which went back.
    #[must_use]
    pub fn is_active(&self, drive: usize) -> bool {
        self.record.members[drive].state == MemberState::Active
    }

    /// True when a segment's zone on a drive can be read and written.
    #[must_use]
    pub fn has_zone(&self, segment: &Segment, drive: usize) -> bool {
        self.is_present(drive) && !segment.lacks_zone(drive)
    }

    /// The member that is being rebuilt.
    #[must_use]
    pub fn rebuilding(&self) -> Option<usize> {
        self.record.members.iter().position(|member| member.state == MemberState::Rebuilding)
    }

    /// Members that do not hold all they should.
    #[must_use]
    pub fn lost_count(&self) -> usize {
        self.lost_count
    }

    fn set_state(&mut self, drive: usize, state: MemberState) {
        assert!(drive < self.record.members.len(), "member {drive} of {}", self.record.members.len());
        self.record.members[drive].state = state;
        self.lost_count = lost_count(&self.record);
    }

    /// True when a member failed since the mount.
    #[must_use]
    pub fn has_lost_since_mount(&self) -> bool {
        self.has_lost_since_mount
    }

    /// True when more members are lost than the array can lose. Where pieces do not rotate, as those of mirrors,
    /// members are lost like pieces: which ones they are decides. Of any other code they need only be counted.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.lost_count > self.code.tolerance() && !self.code.can_decode(active_members(&self.record))
    }

    /// Members whose drives are away for a while. Returns those that are back.
    pub fn note_stalled(&mut self, stalled: PieceSet) -> PieceSet {
        std::mem::replace(&mut self.stalled, stalled).without(stalled)
    }

    /// True of a member whose drive is away for a while.
    #[must_use]
    pub fn is_stalled(&self, drive: usize) -> bool {
        self.stalled.contains(drive)
    }

    /// What a member is blamed for that failed since the mount.
    #[must_use]
    pub fn blamed_for(&self, drive: usize) -> Option<Blame> {
        self.blames[drive]
    }

    fn blame(&mut self, drive: usize, blame: Blame) {
        assert!(self.is_present(drive) && self.blames[drive].is_none(), "a member fails once");
        self.blames[drive] = Some(blame);
        self.set_state(drive, MemberState::Failed);
    }

    /// Zones of a member's drive that were given up since the mount, or since the drive came.
    #[must_use]
    pub fn zones_retired(&self, drive: usize) -> u32 {
        self.zones_retired[drive]
    }

    /// A zone of a member's drive is given up.
    pub fn note_retired_zone(&mut self, drive: usize) {
        assert!(self.is_present(drive), "a zone of a drive that is there");
        self.zones_retired[drive] += 1;
    }

    /// True when every member's log has room for the records of another replacement.
    #[must_use]
    pub fn has_room(&self, capacity: u32) -> bool {
        self.positions.iter().all(|position| position.next + RECORDS_PER_REPLACEMENT <= capacity)
    }

    /// True when the record of a checkpoint leaves every log the room it had at the mount.
    #[must_use]
    pub fn has_room_for_checkpoint(&self, capacity: u32) -> bool {
        self.positions.iter().all(|position| position.next + RECORDS_PER_MOUNT.min(capacity / 2) < capacity)
    }

    /// Returns the place of a member's newest record.
    #[must_use]
    pub fn newest_record_at(&self, drive: usize) -> Option<(ZoneIndex, u32)> {
        let position = self.positions.get(drive)?;
        Some((position.zone, position.next.checked_sub(1)?))
    }

    /// From the next record on, this checkpoint counts.
    pub fn set_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.record.checkpoint = Some(checkpoint);
    }

    /// A new drive takes the place of a failed one. Segments from `rebuild_from` on will be written with it.
    pub fn replace(&mut self, drive: usize, uuid: Uuid, rebuild_from: u64) {
        assert!(!self.is_present(drive), "member {drive} has not failed");
        assert!(self.rebuilding().is_none(), "one member is rebuilt at a time");
        self.record.members[drive].uuid = uuid;
        self.zones_retired[drive] = 0;
        self.blames[drive] = None;
        self.set_state(drive, MemberState::Rebuilding);
        self.record.rebuild_from = rebuild_from;
        self.positions[drive] = LogPosition { zone: ZoneIndex(0), next: 0 };
    }

    /// The member that was being rebuilt holds all it should.
    pub fn activate(&mut self, drive: usize) {
        assert!(self.rebuilding() == Some(drive), "member {drive} is not being rebuilt");
        self.set_state(drive, MemberState::Active);
        self.record.rebuild_from = 0;
    }

    /// From the next record on, no member lacks what its windows held. False when none did.
    pub fn forget_windows_gone(&mut self) -> bool {
        !std::mem::take(&mut self.record.windows_gone).is_empty()
    }

    /// All members that are there hold the record of a generation durably: the next record says so.
    pub fn settle(&mut self, generation: u64) {
        assert!(generation <= self.record.generation);
        self.settled = self.settled.max(Version { epoch: self.record.epoch, generation });
    }

    /// A new generation of the record.
    fn advance(&mut self) {
        self.record.generation += 1;
        self.record.settled = self.settled;
    }

    /// True while a failure is not yet recorded on every other member.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.records_pending > 0
    }
}

fn lost_count(record: &Superblock) -> usize {
    record.members.iter().filter(|member| member.state != MemberState::Active).count()
}

/// Members that hold all they should.
#[must_use]
pub fn active_members(record: &Superblock) -> PieceSet {
    let members = record.members.iter().enumerate();
    members.filter(|(_, member)| member.state == MemberState::Active).map(|(index, _)| index).collect()
}

impl Core {
    /// A member is no longer believed. What waits for it goes on without it; what completes without
    /// it waits until the superblocks of the others say so.
    ///
    /// When more members fail than the array can lose, nothing is recorded: the drives may come
    /// back, and what they hold is still the newest there is.
    pub(super) fn fail_member(&mut self, drive: usize, blame: Blame, fx: &mut Effects) {
        if !self.membership.is_present(drive) {
            return;
        }
        let was_rebuilding = self.membership.rebuilding() == Some(drive);
        if was_rebuilding {
            self.membership.record.rebuild_from = 0;
        }
        self.membership.has_lost_since_mount = true;
        self.membership.blame(drive, blame);
        assert!(self.membership.rebuilding() != Some(drive), "a member that failed is not being rebuilt");
        if !self.membership.is_broken() {
            self.record_change(fx);
        }
        self.events.push_back(Event::MemberFailed { drive, was_rebuilding });
    }

    /// A member holds the newest record, or failed in its turn.
    pub(super) fn on_superblock(&mut self, drive: usize, mut completion: Completion, fx: &mut Effects) {
        self.frames.give_many(&mut completion.frames);
        if completion.status != Status::Success {
            let blame = Blame::answer(completion.token, completion.status);
            self.fail_member(drive, blame, fx);
        }
        assert!(self.membership.records_pending > 0, "a record is written once");
        self.membership.records_pending -= 1;
        if self.membership.records_pending > 0 {
            return;
        }
        let changed_again = std::mem::take(&mut self.membership.changed_again);
        if changed_again && !self.membership.is_broken() {
            write_superblocks(self, fx);
            return;
        }
        if !changed_again && !self.config.geometry.volatile_cache {
            let generation = self.membership.record.generation;
            self.membership.settle(generation);
        }
        for slot in std::mem::take(&mut self.membership.stripes_waiting) {
            self.events.push_back(Event::StripeDurable(slot));
        }
        if std::mem::take(&mut self.membership.slots_waiting) {
            self.events.push_back(Event::SlotsRecorded);
        }
        if std::mem::take(&mut self.membership.flush_waiting) {
            self.events.push_back(Event::MembersRecorded);
        }
    }

    /// Tells the superblocks of all members that are there, in a new generation.
    pub(super) fn record_change(&mut self, fx: &mut Effects) {
        self.membership.advance();
        if self.membership.is_changing() {
            self.membership.changed_again = true;
        } else {
            write_superblocks(self, fx);
        }
    }
}

fn write_superblocks(core: &mut Core, fx: &mut Effects) {
    assert!(core.membership.record.settled < core.membership.record.version());
    assert!(core.membership.records_pending == 0, "one generation is written at a time");
    assert!(!core.membership.is_broken(), "nothing is recorded when too many members failed");
    for drive in 0..core.config.members {
        if !core.membership.is_present(drive) {
            continue;
        }
        let part = u32::try_from(drive).expect("at most 32 members");
        let member = u8::try_from(drive).expect("at most 32 members");
        let mut frame = core.frames.take();
        frame.oob.fill(0);
        core.membership.record.for_member(member).encode(&mut frame.data);
        let position = &mut core.membership.positions[drive];
        let (zone, offset) = (position.zone, position.next);
        assert!(offset < core.config.geometry.zone_capacity_blocks, "mount leaves room for records");
        position.next += 1;
        core.membership.records_pending += 1;
        fx.command(
            drive,
            zone,
            Waiter::Superblock { slot: 0, part },
            Op::Write { offset, frames: vec![frame] },
        );
    }
}
