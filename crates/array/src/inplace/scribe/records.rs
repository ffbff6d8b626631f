//! Records: what superblocks say of members, and the order in which those of newcomers come.

use super::{Mark, Record, Step};
use crate::inplace::core::Core;
use crate::inplace::journal::Journal;
use crate::inplace::newcomer::{Newcomer, Stage};
use crate::inplace::pages::{PAGE_BYTES, Pages, sectors_before};
use crate::inplace::places::Places;
use crate::inplace::{Effects, kind, members};
use base::frame::Frame;
use base::pieces::PieceSet;
use base::time::Instant;
use block::device::Op;
use block::md::assembly::REPLACEMENT_BEHIND;
use block::md::ppl::RING_SECTORS_MIN;
use block::md::reader::ROW_SECTORS;
use block::md::superblock::{CLEAN, ROLES_MAX, ROLES_OF_A_SECTOR, RoleEntry, Superblock, feature, time};
use block::md::{DeviceNumber, Role};
use std::collections::BTreeSet;

const SECOND: u64 = 1_000_000_000;
/// Role of a device that failed.
const FAULTY: u16 = 0xfffe;
/// Microseconds of updates that are written here beside a journal, where the kernel leaves zero.
const MARK: u32 = 1;
/// Role of a device number that nobody has.
const NOBODY: u16 = 0xffff;

/// Superblocks of the members, and the numbers of devices.
#[derive(Debug)]
pub struct Roster {
    /// Superblock of each member that is there, or was since the start, and those of replacements, by place.
    pub(super) superblocks: Vec<Option<Superblock>>,
    members: usize,
    /// Members whose superblocks are one update behind.
    pub(super) lagging: PieceSet,
    /// Devices whose superblocks are further behind, on purpose: replacements, and those that took the role of their member since.
    pub(super) behind: Places,
    /// Superblock of the journal; `None` without one.
    pub(in crate::inplace) journal: Option<Superblock>,
    /// It is one update behind.
    pub(super) has_lagging_journal: bool,
    /// Device numbers that others have, or had: a newcomer gets none of them.
    taken: BTreeSet<u32>,
}

impl Roster {
    /// Superblocks as the members have them.
    #[must_use]
    pub fn new(superblocks: Vec<Option<Superblock>>) -> Roster {
        Roster {
            members: superblocks.len(),
            superblocks,
            lagging: PieceSet::EMPTY,
            behind: Places::EMPTY,
            journal: None,
            has_lagging_journal: false,
            taken: BTreeSet::new(),
        }
    }

    /// A device at a place has this superblock.
    pub fn put(&mut self, place: usize, superblock: Superblock) {
        let count = self.superblocks.len().max(place + 1);
        self.superblocks.resize(count, None);
        self.superblocks[place] = Some(superblock);
    }

    /// The device at a place is nobody any more.
    pub(in crate::inplace) fn forget(&mut self, place: usize) {
        self.superblocks.get_mut(place).into_iter().for_each(|superblock| *superblock = None);
        self.behind = self.behind.without(Places::one(place));
    }

    /// The device at a place has the role of a member from now on, which goes.
    pub(in crate::inplace) fn take_role(&mut self, place: usize, role: usize) {
        assert!(
            role < self.members && place >= self.members,
            "the device at place {place} takes role {role} of {}",
            self.members
        );
        self.superblocks[role] = self.superblocks.get_mut(place).and_then(Option::take);
        self.lagging = self.lagging.without(PieceSet::one(role));
        let is_behind = self.behind.contains(place);
        self.behind = self.behind.without(Places::one(place));
        if is_behind {
            self.behind.insert(role);
        }
    }

    /// The array has a journal, whose superblock may have missed the last update.
    pub fn set_journal(&mut self, superblock: Superblock, is_lagging: bool) {
        self.journal = Some(superblock);
        self.has_lagging_journal = is_lagging;
    }

    /// The superblock of the journal says that it begins here from now on.
    pub(super) fn set_tail(&mut self, tail: u64) {
        let superblock = self.journal.as_mut().expect("an array with a journal");
        superblock.device.recovery_offset = tail;
    }

    /// Superblock of a member.
    #[must_use]
    pub fn superblock(&self, role: usize) -> Option<&Superblock> {
        self.superblocks[role].as_ref()
    }

    /// The same, to change it.
    pub(in crate::inplace) fn superblock_mut(&mut self, role: usize) -> Option<&mut Superblock> {
        self.superblocks[role].as_mut()
    }

    /// True when superblocks say, as they were written last, that nothing is to be resynced.
    pub(in crate::inplace) fn says_clean(&self) -> bool {
        self.superblocks.iter().flatten().all(Superblock::is_clean)
    }

    /// A member missed the last update, for it was cut off.
    pub fn note_lagging(&mut self, role: usize) {
        self.lagging.insert(role);
    }

    /// Devices whose numbers nobody else may get.
    pub fn take_numbers(&mut self, numbers: impl Iterator<Item = u32>) {
        self.taken.extend(numbers);
    }

    /// Entry of a device number, as all superblocks have it.
    fn entry(&self, number: u32) -> RoleEntry {
        let roles = self.superblocks.iter().flatten().next().map(|superblock| superblock.roles.as_slice());
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        roles.and_then(|roles| roles.get(index)).map_or(RoleEntry::Spare, |entry| RoleEntry::of(*entry))
    }

    /// True when a member that is there has this number.
    fn is_used(&self, number: DeviceNumber) -> bool {
        matches!(self.entry(number.0), RoleEntry::Member(_) | RoleEntry::Journal)
            && self.superblocks.iter().flatten().any(|superblock| superblock.device.number == number)
    }

    /// Number for a device that is new: one behind those of members by role, that no device has or had. When all were used once of
    /// which a superblock of one sector can tell, that of a device which failed is given anew: a power failure tears larger ones.
    pub(in crate::inplace) fn number(&mut self) -> DeviceNumber {
        let first = u32::try_from(self.members).expect("at most 32");
        let most = u32::try_from(ROLES_MAX).expect("1920");
        let is_free = |number: &u32| self.entry(*number) == RoleEntry::Spare && !self.taken.contains(number);
        let is_faulty = |number: &u32| self.entry(*number) == RoleEntry::Faulty;
        let found = [first..ROLES_OF_A_SECTOR, ROLES_OF_A_SECTOR..most]
            .into_iter()
            .find_map(|numbers| numbers.clone().find(is_free).or_else(|| numbers.clone().find(is_faulty)));
        let number = found.expect("at most 32 devices are members");
        assert!(!self.is_used(DeviceNumber(number)), "a newcomer gets number {number}, which a member has");
        self.taken.insert(number);
        DeviceNumber(number)
    }
}

impl Core {
    /// Newcomers get what lies on members beside superblocks and data, before any superblock names them.
    pub(super) fn admit_newcomers(&mut self, fx: &mut Effects) {
        let waiting = self.members.waiting();
        for (role, newcomer) in self.members.newcomers_mut().filter(|(role, _)| waiting.contains(*role)) {
            newcomer.advance(Stage::Joining);
            let mut superblock = newcomer.take_superblock().expect("a newcomer that waits has one");
            // A number is new, so that what an older device says of it is not believed; spares, and whoever comes back, keep theirs.
            let has_none = superblock.device.number == DeviceNumber(u32::MAX);
            if has_none || self.scribe.roster.is_used(superblock.device.number) {
                superblock.device.number = self.scribe.roster.number();
            }
            self.scribe.roster.put(role, superblock);
        }
        let bad_blocks = |superblock: &Superblock| superblock.bad_block_place().map(|(sector, _)| sector);
        let has_log =
            |role: &usize| self.scribe.roster.superblocks[*role].as_ref().and_then(bad_blocks).is_some();
        // Whoever comes back has a log of its own.
        let is_empty = |role: &usize| {
            self.members.newcomers().any(|(other, newcomer)| other == *role && newcomer.missed().is_none())
        };
        let with_log = waiting.iter().filter(is_empty).filter(has_log).collect();
        self.broadcast(with_log, bad_blocks, |_| [0; PAGE_BYTES], fx);
        self.admit_logs(waiting, fx);
        let pages = self.pages.as_ref().map_or(0, Pages::count);
        for page in 0..pages {
            let content = *self.pages.as_ref().expect("a page of a bitmap").wanted(page);
            let distance = sectors_before(page);
            let sector = |superblock: &Superblock| superblock.bitmap_sector().map(|start| start + distance);
            self.broadcast(waiting, sector, |_| content, fx);
        }
    }

    /// Newcomers get logs that say nothing of any row.
    fn admit_logs(&mut self, waiting: Places, fx: &mut Effects) {
        if self.ahead.logs.is_none() {
            return;
        }
        for role in waiting.iter() {
            let place = self.scribe.roster.superblock(role).and_then(Superblock::ppl_place);
            let place = place.expect("a member that joins has a log where others have one");
            self.begin_log(role, place, fx);
        }
    }

    /// A member gets the first header of its log.
    pub(in crate::inplace) fn begin_log(&mut self, role: usize, place: (u64, u64), fx: &mut Effects) {
        let says_doubt = self.sync.log_says_doubt();
        let header = self.first_header(role);
        self.ahead.logs.as_mut().expect("an array with logs").join(role, place, says_doubt);
        self.broadcast(Places::one(role), |_| Some(place.0), |_| header, fx);
    }

    /// First sector that a crash leaves to resync, as superblocks say it.
    fn resync_offset(&self, is_dirty: bool) -> u64 {
        match (is_dirty, self.sync.first()) {
            // A journal keeps parities right: there is nothing to resync after a crash.
            (true, None) if self.ahead.journal.is_some() => CLEAN,
            (true, _) => 0,
            (false, None) => CLEAN,
            // With a bitmap its bits say what is left.
            (false, Some(_)) if self.pages.is_some() => 0,
            // The same goes for rows that a log names.
            (false, Some(_)) if self.ahead.logs.is_some() => {
                self.sync.next(0).map_or(0, |row| row * ROW_SECTORS)
            }
            (false, Some(row)) => row * ROW_SECTORS,
        }
    }

    /// Superblocks of newcomers say how far they are.
    fn update_newcomers(&mut self) {
        let whole = self.scribe.record.whole;
        for (role, newcomer) in
            self.members.newcomers().filter(|(_, newcomer)| newcomer.stage() != Stage::Waiting)
        {
            let superblock =
                self.scribe.roster.superblocks[role].as_mut().expect("a newcomer that joins has one");
            superblock.features &= !feature::RECOVERY_BITMAP;
            if whole.contains(role) {
                superblock.features &= !feature::RECOVERY_OFFSET;
                superblock.device.recovery_offset = 0;
            } else {
                superblock.features |= feature::RECOVERY_OFFSET;
                if newcomer.missed().is_some() {
                    superblock.features |= feature::RECOVERY_BITMAP;
                }
                superblock.device.recovery_offset = newcomer.flushed() * ROW_SECTORS;
            }
        }
    }

    /// Superblocks become those of the record that is under way.
    pub(super) fn update_superblocks(&mut self, now: Instant) {
        let Record { is_dirty, whole, .. } = self.scribe.record;
        let replaced = self.scribe.record.replaced();
        self.scribe.events += 1;
        self.scribe.record.is_owed = self.scribe.owed > 0;
        let resync_offset = self.resync_offset(is_dirty);
        let number =
            |place: usize| Some((place, self.scribe.roster.superblocks[place].as_ref()?.device.number.0));
        let numbers: Vec<(usize, u32)> =
            self.members.recorded().without(replaced.into()).iter().filter_map(number).collect();
        self.update_newcomers();
        let mark = self.ahead.logs.as_ref().map(|logs| logs.origin.mark);
        let mark = mark.or(self.ahead.journal.as_ref().map(|_| MARK)).unwrap_or(0);
        let updated = time(self.scribe.began + now.0 / SECOND, mark);
        let events = self.scribe.events;
        let has_journal = self.ahead.journal.as_ref().is_some_and(|journal| !journal.is_told());
        if let (Some(journal), Some(superblock)) = (&mut self.ahead.journal, &mut self.scribe.roster.journal)
        {
            superblock.device.recovery_offset = journal.begin_record();
        }
        let Roster { superblocks, journal, behind, .. } = &mut self.scribe.roster;
        *behind = Places::EMPTY;
        let of_members =
            superblocks.iter_mut().enumerate().map(|(role, superblock)| (Some(role), superblock));
        for (role, superblock) in of_members.chain([(None, journal)]) {
            let Some(superblock) = superblock else { continue };
            superblock.state.events = events;
            if let Some(place) = role {
                self.bad_blocks.mark(place, superblock);
                superblock.features &= !feature::REPLACEMENT;
                if members::role(place).is_replacement() && !whole.contains(place) {
                    superblock.features |= feature::REPLACEMENT;
                    if resync_offset != CLEAN {
                        superblock.state.events = events.saturating_sub(REPLACEMENT_BEHIND);
                        behind.insert(place);
                    }
                }
            }
            superblock.state.updated = updated;
            superblock.state.resync_offset = resync_offset;
            if superblock.ppl_place().is_some_and(|(_, sectors)| sectors >= RING_SECTORS_MIN) {
                superblock.features = superblock.features & !feature::PPL | feature::PPL_RING;
            }
            for (number, entry) in (0_u32..).zip(&mut superblock.roles) {
                let is_there = numbers.iter().any(|(_, other)| *other == number);
                let is_faulty = match RoleEntry::of(*entry) {
                    RoleEntry::Member(_) => !is_there,
                    RoleEntry::Journal => !has_journal,
                    RoleEntry::Spare | RoleEntry::Faulty => false,
                };
                if is_faulty {
                    *entry = FAULTY;
                }
            }
            for (role, number) in &numbers {
                let number = usize::try_from(*number).expect("at most 1920 devices");
                let count = superblock.roles.len().max(number + 1);
                superblock.roles.resize(count, NOBODY);
                superblock.roles[number] = members::role(*role).of_member().0;
            }
        }
    }

    /// Writes the superblocks of some members.
    pub(in crate::inplace) fn write_superblocks(&mut self, roles: Places, fx: &mut Effects) {
        let record = |superblock: &Superblock| {
            let mut block = [0; PAGE_BYTES];
            superblock.encode(&mut block);
            block
        };
        let roles = roles.and(self.members.recorded());
        self.broadcast(roles, |superblock| Some(superblock.device.super_offset), record, fx);
        self.counters.superblocks += u64::try_from(roles.count()).expect("at most 32");
    }

    /// Writes the superblock of the journal, if there is one that works.
    pub(super) fn write_superblock_of_journal(&mut self, fx: &mut Effects) {
        let Some(journal) = self.ahead.journal.as_ref().filter(|journal| !journal.has_failed()) else {
            return;
        };
        let superblock = self.scribe.roster.journal.as_ref().expect("a journal has a superblock");
        let mut frame = Frame::zeroed();
        let mut block = [0; PAGE_BYTES];
        superblock.encode(&mut block);
        frame.data = block;
        let sector = superblock.device.super_offset;
        self.scribe.await_answer();
        let op = Op::Write { sector, frames: vec![frame], durable: true };
        fx.command(journal.role(), kind::SCRIBE, 0, op);
        self.counters.superblocks += 1;
    }

    pub(super) fn end_record(&mut self, now: Instant) {
        self.ahead.journal.iter_mut().for_each(Journal::end_record);
        let Record { is_dirty, absent, joining, whole, named, is_owed, .. } = self.scribe.record;
        self.scribe.mark = if is_dirty { Mark::Dirty } else { Mark::Clean };
        self.scribe.is_owner = true;
        self.scribe.recorded = absent;
        self.scribe.named = named;
        assert!(!is_owed || self.scribe.owed > 0, "an update that nobody asked for was owed");
        self.scribe.owed -= u8::from(is_owed);
        self.end_record_of_newcomers(now, joining, whole);
        self.table.wake_rounds();
        self.scribe.has_told |= !self.has_unrecorded_failure();
    }

    /// Newcomers that were named are active, those that were recorded as whole are in sync.
    fn end_record_of_newcomers(&mut self, now: Instant, joining: Places, whole: Places) {
        let still_there = self.members.newcomers_from(Stage::Joining);
        // Who comes back lacks what was written without it until now, rounds under way included.
        let returning =
            |(role, newcomer): (usize, &Newcomer)| joining.contains(role) && newcomer.missed().is_some();
        let missed = self.members.newcomers().any(returning).then(|| self.missed());
        for (role, newcomer) in self.members.newcomers_mut().filter(|(role, _)| still_there.contains(*role)) {
            newcomer.note_recorded();
            if joining.contains(role) {
                if let Some(missed) = missed.as_ref().filter(|_| newcomer.missed().is_some()) {
                    newcomer.set_missed(missed.clone());
                }
                newcomer.advance(Stage::Active);
            }
        }
        let is_member = |role: &Role| !role.is_replacement();
        for role in whole.and(still_there).iter().map(members::role).filter(is_member) {
            self.members.promote(role, self.map.rows());
        }
        self.complete_replacements(whole, still_there);
        if !whole.is_empty() {
            self.background.sweeps.resync_anew();
        }
        self.background.recovery.note_record(now);
        if !joining.is_empty() {
            self.background.recovery.restart(now);
        }
    }

    /// Writes the superblocks of all members, which say clean.
    pub(in crate::inplace) fn record_clean(&mut self, fx: &mut Effects) {
        self.begin_record(false, fx);
    }

    pub(in crate::inplace) fn begin_record(&mut self, is_dirty: bool, fx: &mut Effects) {
        assert!(self.scribe.pending == 0 && self.scribe.step == Step::Rest);
        let joining =
            self.members.newcomers_from(Stage::Joining).without(self.members.newcomers_from(Stage::Active));
        let absent = self.members.absent();
        let named = self.members.replacements();
        let first = joining.or(Places::of_replacements(named)).or(self.scribe.roster.behind);
        self.scribe.record =
            Record { is_dirty, absent, joining, whole: Places::EMPTY, named, first, is_owed: false };
        if !self.scribe.roster.lagging.is_empty() || self.scribe.roster.has_lagging_journal {
            self.scribe.step.go(Step::Level);
            if self.scribe.roster.has_lagging_journal {
                self.write_superblock_of_journal(fx);
            }
            return self.write_superblocks(self.scribe.roster.lagging.into(), fx);
        }
        if self.pages.as_ref().is_some_and(|pages| pages.is_void()) {
            self.scribe.step.go(Step::VoidPages);
            return self.write_pages(true, fx);
        }
        self.write_head(fx);
    }

    /// Writes the head of the bitmap with the next events.
    pub(in crate::inplace) fn write_head(&mut self, fx: &mut Effects) {
        self.scribe.step.go(Step::Head);
        if let Some(pages) = &mut self.pages {
            pages.set_events(self.scribe.events + 1, pages.events_cleared());
            self.write_page(0, fx);
        }
    }

    /// Writes all pages that the members have otherwise, or all but the first.
    pub(in crate::inplace) fn write_pages(&mut self, is_void: bool, fx: &mut Effects) {
        let dirty = self.pages.as_ref().map_or(Vec::new(), |pages| pages.dirty());
        for page in dirty.into_iter().filter(|page| !is_void || *page > 0) {
            self.write_page(page, fx);
        }
    }

    pub(in crate::inplace) fn write_page(&mut self, page: usize, fx: &mut Effects) {
        let pages = self.pages.as_mut().expect("a page of a bitmap");
        let content = *pages.begin(page);
        let distance = sectors_before(page);
        let sector = |superblock: &Superblock| superblock.bitmap_sector().map(|start| start + distance);
        self.broadcast(self.members.recorded(), sector, |_| content, fx);
        self.counters.bitmap_pages += u64::try_from(self.members.recorded().count()).expect("at most 32");
    }

    pub(in crate::inplace) fn end_pages(&mut self) {
        if let Some(pages) = &mut self.pages {
            pages.end();
        }
    }
}
