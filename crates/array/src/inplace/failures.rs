//! Failures: a member, a replacement or the journal has failed, or does not take some rows.
//!
//! What follows at once is here; superblocks say it with their next record, and nothing is answered before that it has no part in.

use super::core::Core;
use super::members::Failed;
use super::table::Logged;
use block::md::Role;
use block::md::reader::ROW_SECTORS;
use std::ops::Range;

impl Core {
    /// Takes a member, or the journal, for failed. It is recorded on the others before anything is answered that it has no part
    /// in.
    pub fn fail_member(&mut self, member: Role) {
        if self.ahead.journal.as_ref().is_some_and(|journal| journal.role() == member) {
            return self.fail_journal();
        }
        match self.members.fail(member) {
            Failed::Nobody => return,
            Failed::Replacement => self.forget_replacement(member),
            Failed::Member => {
                self.counters.failures += 1;
                self.bad_blocks.forget(member.index());
            }
            Failed::Replaced => {
                self.counters.failures += 1;
                self.follow_replacement(member);
                self.scribe.note_replaced();
            }
        }
        self.scribe.note_failure();
    }

    /// Takes the journal for failed: rounds that wait for it are let go, and write nothing.
    pub(in crate::inplace) fn fail_journal(&mut self) {
        let journal = self.ahead.journal.as_mut().expect("an array with a journal");
        if journal.has_failed() {
            return;
        }
        journal.fail();
        self.counters.failures += 1;
        self.let_waiting_go();
    }

    /// Rounds that wait are let go, for nothing is written any more; true when there were some.
    pub(in crate::inplace) fn let_waiting_go(&mut self) -> bool {
        let Some(journal) = &mut self.ahead.journal else { return false };
        let slots = journal.take_waiting();
        for slot in &slots {
            self.table.slot_mut(*slot).round_mut().logged = Logged::Refused;
            self.table.run(*slot);
        }
        !slots.is_empty()
    }

    /// A replacement failed: nothing is known of it any more.
    pub(in crate::inplace) fn forget_replacement(&mut self, place: Role) {
        self.bad_blocks.forget(place.index());
        self.scribe.roster.forget(place.index());
    }

    /// A replacement has the role of its member: what lies on it is what lies on the member.
    pub(in crate::inplace) fn follow_replacement(&mut self, member: Role) {
        let place = member.replacement().index();
        self.bad_blocks.take_role(place, member.index());
        self.scribe.roster.take_role(place, member.index());
    }

    /// A write of rows of a member failed: they are listed, or else the member has failed.
    pub(in crate::inplace) fn on_unwritable(&mut self, member: Role, rows: Range<u64>) {
        let sectors = self.members.sectors(member, rows);
        if !self.members.is_live(member) || !self.bad_blocks.add(member, &sectors) {
            self.fail_member(member);
            return;
        }
        self.counters.listed += (sectors.end - sectors.start) / ROW_SECTORS;
    }
}
