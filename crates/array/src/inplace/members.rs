//! Members of a served array: in sync, being recovered, or absent; and the devices that are to replace some of them.
//!
//! ```text
//!   place   0 .. 31   members by role                     in sync, newcomer, absent
//!           32 .. 63  replacements, by role behind 32     newcomers beside a member that is in sync
//!
//!   whole, and all superblocks say so   the replacement is the member, and what was the member is nobody
//!   the member fails                    the replacement is the newcomer of its role, and counts where it did
//! ```
//! *Seats.* Commands and answers go by the seat of a device, of which each role has two. A device keeps its seat when its place
//! becomes another: answers that are under way then are those of whoever was asked.

use super::newcomer::{Newcomer, Stage};
use super::places::Places;
use base::pieces::PieceSet;
use block::md::Role;
use block::md::reader::ROW_SECTORS;
use std::collections::BTreeMap;
use std::ops::Range;

/// Members by role.
#[derive(Clone, Debug)]
pub struct Members {
    all: PieceSet,
    live: PieceSet,
    /// Members that are being recovered.
    newcomers: BTreeMap<usize, Newcomer>,
    /// First sector of the data, by place.
    data_offsets: Vec<u64>,
    /// Devices whose writes are durable only with a flush.
    volatile: Places,
    /// Roles whose member has the second seat, and whose replacement has the first.
    swapped: PieceSet,
    /// Places of replacements whose device is to be closed: it is nobody any more.
    vacated: Places,
    /// What became of replacements since this was asked last.
    news: Vec<(Role, Outcome)>,
    parities: usize,
    /// Nothing may be written to any of them.
    is_read_only: bool,
}

/// What became of the replacement of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was whole, and is the member; what was the member is nobody.
    Completed,
    /// The member failed, and it is rebuilt in its role.
    SteppedIn,
    /// It failed, and the member goes on.
    Failed,
}

/// Who it was that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It was nobody, or failed before.
    Nobody,
    /// A member, or a newcomer.
    Member,
    /// A replacement, whose member goes on.
    Replacement,
    /// A member whose replacement is the newcomer of its role from now on.
    Replaced,
}

impl Members {
    /// Members with their data offsets, and whether they have a volatile cache; `None` where one is missing.
    #[must_use]
    pub fn new(members: &[Option<(u64, bool)>], parities: usize) -> Members {
        let which = |is: &dyn Fn(&(u64, bool)) -> bool| {
            let of = |(role, member): (usize, &Option<(u64, bool)>)| {
                member.as_ref().filter(|own| is(own)).map(|_| role)
            };
            members.iter().enumerate().filter_map(of).collect()
        };
        Members {
            all: PieceSet::first(members.len()),
            live: which(&|_| true),
            newcomers: BTreeMap::new(),
            data_offsets: members.iter().map(|member| member.map_or(0, |(offset, _)| offset)).collect(),
            volatile: which(&|(_, is_volatile)| *is_volatile).into(),
            swapped: PieceSet::EMPTY,
            vacated: Places::EMPTY,
            news: Vec::new(),
            parities,
            is_read_only: false,
        }
    }

    /// From now on nothing is written to any of them.
    pub fn forbid_writes(&mut self) {
        self.is_read_only = true;
    }

    /// True when nothing may be written to any of them.
    #[must_use]
    pub fn are_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Roles.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.count()
    }

    /// Members that the array can do without.
    #[must_use]
    pub fn parities(&self) -> usize {
        self.parities
    }

    /// Roles whose member is in sync.
    #[inline]
    #[must_use]
    pub fn live(&self) -> PieceSet {
        self.live
    }

    /// The same, when nobody is being recovered: then it holds for all rows.
    #[inline]
    #[must_use]
    pub fn if_settled(&self) -> Option<PieceSet> {
        self.newcomers.is_empty().then_some(self.live)
    }

    /// Roles whose member is not in sync: it is missing, or being recovered.
    #[inline]
    #[must_use]
    pub fn lacking(&self) -> PieceSet {
        self.all.without(self.live)
    }

    /// Roles without a member that superblocks name or are about to.
    #[inline]
    #[must_use]
    pub fn absent(&self) -> PieceSet {
        let lacking = self.lacking();
        if lacking.is_empty() {
            lacking
        } else {
            lacking.without(self.newcomers_from(Stage::Joining).members)
        }
    }

    /// Places whose newcomer is at this stage, or a later one; those of replacements too.
    #[inline]
    #[must_use]
    pub fn newcomers_from(&self, stage: Stage) -> Places {
        if self.newcomers.is_empty() { Places::EMPTY } else { self.among_newcomers_from(stage) }
    }

    fn among_newcomers_from(&self, stage: Stage) -> Places {
        let is_from = |newcomer: &Newcomer| match stage {
            Stage::Waiting => true,
            Stage::Joining => newcomer.stage() != Stage::Waiting,
            Stage::Active => newcomer.stage() == Stage::Active,
        };
        self.newcomers.iter().filter(|(_, newcomer)| is_from(newcomer)).map(|(role, _)| *role).collect()
    }

    /// Places whose newcomer is on no superblock yet.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> Places {
        self.newcomers_from(Stage::Waiting).without(self.newcomers_from(Stage::Joining))
    }

    /// Devices that are being recovered, by place.
    pub fn newcomers(&self) -> impl Iterator<Item = (usize, &Newcomer)> {
        self.newcomers.iter().map(|(role, newcomer)| (*role, newcomer))
    }

    /// The same, to change them.
    pub fn newcomers_mut(&mut self) -> impl Iterator<Item = (usize, &mut Newcomer)> {
        self.newcomers.iter_mut().map(|(role, newcomer)| (*role, newcomer))
    }

    /// Members that superblocks and bitmap pages are written to, and that are flushed.
    #[must_use]
    pub fn recorded(&self) -> Places {
        Places::from(self.live).or(self.newcomers_from(Stage::Joining))
    }

    /// Members that data are written to.
    #[inline]
    #[must_use]
    pub fn writable(&self) -> PieceSet {
        self.live.or(self.newcomers_from(Stage::Active).members)
    }

    /// Roles whose data are written to a replacement as well.
    #[inline]
    #[must_use]
    pub fn replaced(&self) -> PieceSet {
        self.newcomers_from(Stage::Active).replacements
    }

    /// Roles with a replacement that superblocks name or are about to.
    #[inline]
    #[must_use]
    pub fn replacements(&self) -> PieceSet {
        self.newcomers_from(Stage::Joining).replacements
    }

    /// True when somebody is there to replace a member.
    #[must_use]
    pub fn has_replacement(&self, role: Role) -> bool {
        self.newcomers.contains_key(&role.replacement().index())
    }

    /// Roles whose replacement lacks a row.
    #[must_use]
    pub fn copied_in(&self, row: u64) -> PieceSet {
        if self.newcomers.is_empty() {
            return PieceSet::EMPTY;
        }
        let lacks =
            |(_, newcomer): &(&usize, &Newcomer)| newcomer.stage() == Stage::Active && !newcomer.counts(row);
        let places = self.newcomers.iter().filter(lacks).map(|(place, _)| role(*place));
        places.filter(|place| place.is_replacement()).map(|place| place.of_member().index()).collect()
    }

    /// Members whose content of a row is that of the array.
    #[inline]
    #[must_use]
    pub fn counting(&self, row: u64) -> PieceSet {
        if self.newcomers.is_empty() { self.live } else { self.counting_beside_newcomers(row) }
    }

    fn counting_beside_newcomers(&self, row: u64) -> PieceSet {
        let counting = self.newcomers.iter().filter(|(_, newcomer)| newcomer.counts(row));
        let counting: Places = counting.map(|(place, _)| *place).collect();
        self.live.or(counting.members)
    }

    /// Members whose content of a row is being recovered.
    #[must_use]
    pub fn rebuilt_in(&self, row: u64) -> PieceSet {
        self.newcomers_from(Stage::Active).members.without(self.counting(row))
    }

    /// True when a recovery has something to do in a row.
    #[must_use]
    pub fn is_lacked(&self, row: u64) -> bool {
        let lacks = |newcomer: &Newcomer| newcomer.stage() == Stage::Active && !newcomer.counts(row);
        self.newcomers.values().any(lacks)
    }

    /// True when a member can be read in all of these rows.
    #[must_use]
    pub fn is_readable(&self, role: Role, rows: Range<u64>) -> bool {
        let counts = |newcomer: &Newcomer| newcomer.counts_all(rows.clone());
        self.is_live(role) || self.newcomers.get(&role.index()).is_some_and(counts)
    }

    /// True when a member is in sync.
    #[inline]
    #[must_use]
    pub fn is_live(&self, role: Role) -> bool {
        self.live.contains(role.index())
    }

    /// True when members are not in sync.
    #[inline]
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.lacking().is_empty()
    }

    /// True when nothing is written any more: too many are missing, or writes are forbidden.
    #[inline]
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_read_only || self.lack_too_many()
    }

    /// True when more members are not in sync than there are parities.
    #[inline]
    #[must_use]
    pub fn lack_too_many(&self) -> bool {
        let lacking = self.lacking();
        !lacking.is_empty() && lacking.count() > self.parities
    }

    /// Members with a volatile cache that are flushed.
    #[must_use]
    pub fn volatile(&self) -> Places {
        if self.is_read_only { Places::EMPTY } else { self.volatile.and(self.recorded()) }
    }

    /// First sector of a member's data.
    #[inline]
    #[must_use]
    pub fn data_offset(&self, role: Role) -> u64 {
        self.data_offsets[role.index()]
    }

    /// A member is none that is in sync.
    ///
    /// # Panics
    /// When it is missing.
    pub fn demote(&mut self, role: Role, newcomer: Newcomer) {
        assert!(self.is_live(role), "role {role} has no member");
        self.live = self.live.without([role.index()].into_iter().collect());
        self.newcomers.insert(role.index(), newcomer);
    }

    /// A member comes.
    ///
    /// # Panics
    /// When its role has one.
    pub fn add(&mut self, role: Role, newcomer: Newcomer, is_volatile: bool) {
        assert!(!self.is_live(role) && !role.is_replacement(), "role {role} has a member");
        let data_offset = newcomer.superblock().expect("it waits").device.data_offset;
        self.place(role.index(), newcomer, (data_offset, is_volatile));
    }

    /// A device comes beside a member that is in sync.
    ///
    /// # Panics
    /// When there is no such member, or one has come before.
    pub fn add_replacement(
        &mut self,
        role: Role,
        newcomer: Newcomer,
        (data_offset, is_volatile): (u64, bool),
    ) {
        assert!(self.is_live(role), "role {role} has no member to replace");
        let place = role.replacement().index();
        assert!(!self.vacated.contains(place), "the device that was replaced is not closed");
        self.data_offsets.resize(self.data_offsets.len().max(place + 1), 0);
        self.place(place, newcomer, (data_offset, is_volatile));
    }

    fn place(&mut self, place: usize, newcomer: Newcomer, (data_offset, is_volatile): (u64, bool)) {
        self.data_offsets[place] = data_offset;
        self.volatile = self.volatile.without(Places::one(place));
        if is_volatile {
            self.volatile.insert(place);
        }
        let before = self.newcomers.insert(place, newcomer);
        assert!(before.is_none(), "place {place} has a device");
    }

    /// The replacement of a member takes its role: its seat is the member's from now on.
    fn take_role(&mut self, member: Role) {
        let (role, place) = (member.index(), member.replacement().index());
        self.data_offsets.swap(role, place);
        let volatile = self.volatile;
        for (from, to) in [(place, role), (role, place)] {
            self.volatile = self.volatile.without(Places::one(to));
            if volatile.contains(from) {
                self.volatile.insert(to);
            }
        }
        self.swapped = match self.swapped.contains(role) {
            true => self.swapped.without(PieceSet::one(role)),
            false => self.swapped.or(PieceSet::one(role)),
        };
        self.vacated.insert(place);
    }

    /// A replacement is whole, and the superblocks say that it is the member.
    ///
    /// # Panics
    /// When there is none, or rows are not durable.
    pub fn complete_replacement(&mut self, member: Role, rows: u64) {
        let newcomer = self.newcomers.remove(&member.replacement().index()).expect("a replacement");
        assert!(newcomer.flushed() == rows && newcomer.stuck().is_empty(), "{newcomer:?} of {rows} rows");
        assert!(self.is_live(member), "a replacement is beside a member that is in sync");
        self.take_role(member);
        self.news.push((member, Outcome::Completed));
    }

    /// Seat of the device at a place, and place of the device with a seat.
    #[inline]
    #[must_use]
    pub fn seat(&self, place: Role) -> Role {
        if self.swapped.is_empty() || !self.swapped.contains(place.of_member().index()) {
            return place;
        }
        if place.is_replacement() { place.of_member() } else { place.replacement() }
    }

    /// Places whose device is nobody any more, and is to be closed.
    #[must_use]
    pub fn vacated(&self) -> Places {
        self.vacated
    }

    /// What became of replacements since this was asked last.
    pub fn take_news(&mut self) -> Vec<(Role, Outcome)> {
        std::mem::take(&mut self.news)
    }

    /// Such a device was closed.
    pub fn note_closed(&mut self, place: Role) {
        self.vacated = self.vacated.without(Places::one(place.index()));
    }

    /// A member is recovered, and the superblocks say so.
    ///
    /// # Panics
    /// When it is no newcomer, or rows are not durable.
    pub fn promote(&mut self, role: Role, rows: u64) {
        let newcomer = self.newcomers.remove(&role.index()).expect("a newcomer");
        assert!(newcomer.flushed() == rows && newcomer.stuck().is_empty(), "{newcomer:?} of {rows} rows");
        self.live.insert(role.index());
    }

    /// A device is no longer believed.
    ///
    /// # Panics
    /// When there is no such role.
    pub fn fail(&mut self, place: Role) -> Failed {
        let member = place.of_member();
        assert!(member.index() < self.count(), "role {member} of {}", self.count());
        if place.is_replacement() {
            if self.newcomers.remove(&place.index()).is_none() {
                return Failed::Nobody;
            }
            self.vacated.insert(place.index());
            self.news.push((member, Outcome::Failed));
            return Failed::Replacement;
        }
        let was_live = self.is_live(member);
        self.live = self.live.without(PieceSet::one(member.index()));
        if let Some(newcomer) = self.newcomers.remove(&member.replacement().index()) {
            assert!(was_live, "a replacement is beside a member that is in sync");
            self.take_role(member);
            self.newcomers.insert(member.index(), newcomer);
            self.news.push((member, Outcome::SteppedIn));
            return Failed::Replaced;
        }
        let was_there = self.newcomers.remove(&member.index()).is_some() || was_live;
        if was_there { Failed::Member } else { Failed::Nobody }
    }

    /// True when one of these replacements, which a record names, has failed, and its member has not.
    pub(super) fn has_lost_replacement(&self, named: PieceSet) -> bool {
        let mut lost = named.iter().map(role);
        lost.any(|member| !self.has_replacement(member) && self.is_live(member))
    }

    /// A flush of all members is through; one that failed it is no member any more.
    pub(super) fn end_flush(&mut self) {
        self.newcomers_mut().for_each(|(_, newcomer)| newcomer.end_flush());
    }

    /// First sector of a row on a member.
    pub(super) fn sector(&self, member: Role, row: u64) -> u64 {
        self.data_offset(member) + row * ROW_SECTORS
    }

    /// Sectors of rows on a member.
    pub(super) fn sectors(&self, member: Role, rows: Range<u64>) -> Range<u64> {
        self.sector(member, rows.start)
            ..self.sector(member, rows.start) + (rows.end - rows.start) * ROW_SECTORS
    }

    /// Roles that nobody has.
    pub(super) fn vacant(&self) -> PieceSet {
        self.lacking().without(self.newcomers_from(Stage::Waiting).members)
    }

    /// True when nobody has a role.
    #[must_use]
    pub(super) fn is_vacant(&self, role: Role) -> bool {
        self.vacant().contains(role.index())
    }

    /// Newcomers that are being rebuilt.
    pub(super) fn active(&self) -> impl Iterator<Item = &Newcomer> {
        let newcomers = self.newcomers().map(|(_, newcomer)| newcomer);
        newcomers.filter(|newcomer| newcomer.stage() == Stage::Active)
    }
}

/// Role at an index.
///
/// # Panics
/// When it is none of an array.
#[must_use]
pub fn role(index: usize) -> Role {
    Role(u16::try_from(index).expect("an array has at most 32 members"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_broken_when_more_failed_than_it_has_parities() {
        let mut members = Members::new(&[Some((8, true)), None, Some((9, false)), Some((8, true))], 2);
        assert!(members.is_degraded() && !members.is_broken() && members.data_offset(Role(2)) == 9);
        assert_eq!(members.volatile().iter().collect::<Vec<_>>(), [0, 3]);
        assert!(members.fail(Role(0)) == Failed::Member && members.fail(Role(0)) == Failed::Nobody);
        assert!(!members.is_broken());
        assert_eq!(members.volatile().iter().collect::<Vec<_>>(), [3]);
        assert!(members.fail(Role(3)) == Failed::Member && members.is_broken());
    }

    #[test]
    fn a_member_that_is_recovered_counts_row_by_row() {
        let mut members = Members::new(&[Some((8, true)), Some((8, false)), Some((8, true))], 1);
        members.demote(Role(0), Newcomer::recorded_at(5));
        assert!(members.is_degraded() && !members.is_broken() && members.absent().is_empty());
        assert!(members.counting(4).contains(0) && !members.counting(5).contains(0));
        assert!(members.is_readable(Role(0), 0..5) && !members.is_readable(Role(0), 4..6));
        assert!(members.writable().contains(0) && members.volatile().contains(0));
        members.newcomers_mut().for_each(|(_, newcomer)| {
            newcomer.note_done(9);
            newcomer.begin_flush();
            newcomer.end_flush();
        });
        members.promote(Role(0), 9);
        assert!(!members.is_degraded() && members.is_readable(Role(0), 4..900));
        assert!(members.fail(Role(0)) == Failed::Member && members.absent().contains(0));
    }

    #[test]
    fn a_replacement_takes_the_role_when_it_is_whole_and_when_the_member_fails() {
        let new = || Members::new(&[Some((8, true)), Some((8, false)), Some((8, true))], 1);
        let mut members = new();
        members.add_replacement(Role(1), Newcomer::recorded_at(5), (16, true));
        assert!(!members.is_degraded() && members.counting(9) == PieceSet::first(3));
        assert!(members.writable() == PieceSet::first(3) && members.replaced() == PieceSet::one(1));
        assert!(members.copied_in(5) == PieceSet::one(1) && members.copied_in(4).is_empty());
        assert!(members.rebuilt_in(9).is_empty() && members.volatile().contains(33));
        assert_eq!((members.seat(Role(1)), members.seat(Role(33))), (Role(1), Role(33)));
        assert_eq!(members.fail(Role(1)), Failed::Replaced);
        assert!(members.counting(4).contains(1) && !members.counting(5).contains(1));
        assert_eq!(
            (members.data_offset(Role(1)), members.seat(Role(1)), members.seat(Role(33))),
            (16, Role(33), Role(1))
        );
        assert!(members.absent().is_empty() && members.vacated() == Places::one(33));
        assert_eq!((members.fail(Role(33)), members.fail(Role(1))), (Failed::Nobody, Failed::Member));

        let mut members = new();
        members.add_replacement(Role(0), Newcomer::recorded_at(9), (16, false));
        members.complete_replacement(Role(0), 9);
        assert!(
            !members.is_degraded() && members.replaced().is_empty() && members.data_offset(Role(0)) == 16
        );
        assert!(!members.volatile().contains(0) && members.seat(Role(0)) == Role(32));
        members.note_closed(Role(32));
        members.add_replacement(Role(0), Newcomer::recorded_at(0), (24, true));
        assert_eq!((members.fail(Role(32)), members.seat(Role(32))), (Failed::Replacement, Role(0)));
        assert!(!members.is_degraded());
    }
}
