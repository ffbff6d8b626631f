//! The end of a scrub: what describes the drives, beside what they hold.
//!
//! ```text
//!   drive 0: self-test [repair] ──> newest superblock record [again] ──> drive 1: ... ──> all drives
//!                                                                                          │ a record is damaged
//!            a new generation of the record, on every drive ────────────────────────────<──┘
//!            drive 0: flush ──> newest superblock record [again] ──> ...        those that were damaged, once more
//! ```
//! A drive that cannot be opened again, or speaks with an older record, would be left out at the next mount. The engine
//! knows what both should be. Superblock records before the newest are history.

use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::rot::DamageKind;
use crate::log::scrub::Scrub;
use crate::log::scrub::Stage;
use crate::log::{Effects, Location, Waiter};
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Completion, Op, Status};
use zone::format::superblock::{Superblock, Version};

/// Progress of the last stage of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    drive: usize,
    step: Step,
    /// Damaged records were written anew: are they whole now?
    is_second: bool,
    /// Version of the record being read.
    expected: Version,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    SelfTest,
    /// Again, with repair.
    Repair,
    Flush,
    Record,
    /// Read a second time.
    RecordAgain,
}

impl Scrub {
    /// A drive has answered.
    pub(in crate::log) fn on_look(
        &mut self,
        core: &mut Core,
        drive: usize,
        mut completion: Completion,
        fx: &mut Effects,
    ) {
        assert!(self.reads > 0, "a drive answers once");
        self.reads -= 1;
        if completion.status == Status::DeviceGone {
            let blame = Blame::answer(completion.token, completion.status);
            core.fail_member(drive, blame, fx);
        }
        let block = completion.frames.first().filter(|_| completion.status == Status::Success);
        let record = block.and_then(|frame| Superblock::decode(&frame.data));
        core.frames.give_many(&mut completion.frames);
        let Stage::Drives(look) = self.stage else { return };
        if completion.status == Status::DeviceGone {
            return self.look_at_next(look);
        }
        let is_well = completion.status == Status::Success;
        let step = match look.step {
            Step::SelfTest if is_well => Step::Record,
            Step::SelfTest => {
                self.findings.headers_damaged += 1;
                let location = Location { drive: DriveIndex::at(drive), zone: ZoneIndex(0), offset: 0 };
                core.note_damaged_description(location, DamageKind::Header);
                if self.options.repair { Step::Repair } else { self.leave_description(Step::Record) }
            }
            Step::Repair if is_well => Step::Record,
            Step::Repair => self.leave_description(Step::Record),
            // What a drive cannot flush its next flush reports, to whom it matters.
            Step::Flush => Step::Record,
            Step::Record | Step::RecordAgain => {
                let is_whole = record.is_some_and(|record| {
                    let is_own = usize::from(record.member) == drive && record.array == core.config.array;
                    is_own && record.version() == look.expected
                });
                if is_whole {
                    return self.look_at_next(look);
                }
                if look.step == Step::RecordAgain {
                    self.note_spoiled_record(core, look, completion.zone, completion.offset);
                    return self.look_at_next(look);
                }
                Step::RecordAgain
            }
        };
        self.stage.go(Stage::Drives(Look { step, ..look }));
    }

    /// Goes on with the last stage; false when something else must happen first.
    pub(super) fn advance_look(&mut self, core: &mut Core, look: Look, fx: &mut Effects) -> bool {
        if look.drive == core.config.members {
            return self.end_look(core, look, fx);
        }
        let is_wanted = !look.is_second || self.spoiled.contains(look.drive);
        if !core.membership.is_present(look.drive) || !is_wanted {
            self.look_at_next(look);
            return true;
        }
        // A new record is on its way: when it is there, it is the newest, and can be flushed.
        let is_about_record = !matches!(look.step, Step::SelfTest | Step::Repair);
        if is_about_record && core.membership.is_changing() {
            return false;
        }
        let (zone, op) = match look.step {
            Step::SelfTest => (ZoneIndex(0), Op::SelfTest { repair: false }),
            Step::Repair => (ZoneIndex(0), Op::SelfTest { repair: true }),
            Step::Flush => (ZoneIndex(0), Op::Flush),
            Step::Record | Step::RecordAgain => {
                let Some((zone, offset)) = core.membership.newest_record_at(look.drive) else {
                    self.look_at_next(look);
                    return true;
                };
                (zone, Op::Read { offset, frames: core.frames.take_vec(1) })
            }
        };
        self.reads += 1;
        self.stage.go(Stage::Drives(Look { expected: core.membership.record().version(), ..look }));
        let part = u32::try_from(look.drive).expect("at most 32 members");
        fx.command(look.drive, zone, Waiter::Look { slot: 0, part }, op);
        true
    }

    fn look_at_next(&mut self, look: Look) {
        let step = if look.is_second { Step::Flush } else { Step::SelfTest };
        self.stage.go(Stage::Drives(Look { drive: look.drive + 1, step, ..look }));
    }

    /// All drives were looked at. Writes damaged records anew, if that was asked for.
    fn end_look(&mut self, core: &mut Core, look: Look, fx: &mut Effects) -> bool {
        let spoiled = self.spoiled;
        let is_over = look.is_second || spoiled.is_empty();
        // Where there is no room left, the next mount makes some, and writes a record of its own.
        let has_room = core.membership.has_room_for_checkpoint(core.config.geometry.zone_capacity_blocks);
        if !is_over && self.options.repair && has_room {
            let next = Look { drive: 0, step: Step::Flush, is_second: true, ..look };
            self.stage.go(Stage::Drives(next));
            core.record_change(fx);
            return true;
        }
        if !is_over {
            self.findings.descriptions_left += spoiled.count() as u64;
        }
        let lost = self.present.iter().filter(|drive| !core.membership.is_present(*drive)).count();
        self.findings.drives_lost = lost as u64;
        self.stage.go(Stage::Repairing);
        true
    }

    fn leave_description(&mut self, next: Step) -> Step {
        self.findings.descriptions_left += 1;
        next
    }

    fn note_spoiled_record(&mut self, core: &mut Core, look: Look, zone: ZoneIndex, offset: u32) {
        if look.is_second {
            self.findings.descriptions_left += 1;
            return;
        }
        self.findings.superblocks_damaged += 1;
        self.spoiled.insert(look.drive);
        let location = Location { drive: DriveIndex::at(look.drive), zone, offset };
        core.note_damaged_description(location, DamageKind::Superblock);
    }
}
