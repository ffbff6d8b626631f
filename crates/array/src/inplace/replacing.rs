//! Hot replacement: a device is built up beside a member that works, and takes its place when it is whole. Redundancy is never less
//! meanwhile.
//!
//! ```text
//!   Waiting ──> Joining ─────────> Active ───────────────────────> the member
//!               bitmap, its        every write goes to both,       its superblock first, then those of
//!               record: features   the recovery copies row by      all others, which say that the
//!               16 and 2, offset 0 row from its member             member before is faulty
//! ```
//! A replacement is a newcomer ([`super::newcomer`]) at a place behind those of all members ([`super::members`]): it joins, and is
//! recorded and flushed, as one. Nothing is read from it.
//!
//! *Rows* are copied by rounds of the recovery. What the member cannot return is decoded, and written to both; what cannot be decoded
//! either is listed as bad on the replacement alone. A round writes to the replacement whatever it writes to the member, if it was
//! Active as the round began: rounds of one strip follow one another, so whoever writes later than a copy writes to both. Both writes
//! are under way at once, each with frames of its own: what one of them comes to does not change the other.
//!
//! *A replacement that fails* a write is dropped, and that is recorded before the write is answered: a start would believe what it
//! said of itself. *A member that fails* leaves its role to the replacement, which is rebuilt from where it was.
//!
//! *After a crash* a row that was being written may lie otherwise on the member than on the replacement. Rows that are resynced are
//! copied anew: the replacement counts below the first of them alone. md would read the replacement instead, and is kept from that
//! ([`block::md::assembly`]). Partial parity logs and journals say less of rows than that takes, and arrays with these are refused here.
//!
//! *Records* are written to replacements first. Where the one that completes a replacement fails on it, others do not know of it yet; so
//! they are told of the failure by two updates: one as new as what may lie on the replacement, and one that is newer.

use super::completions::PieceCommand;
use super::core::Core;
use super::members::{self, Outcome};
use super::newcomer::{Newcomer, Stage};
use super::places::Places;
use super::runs::{Run, for_each_run};
use super::strips::Strips;
use super::table::{Kind, Slot};
use super::{Effects, kind};
use base::pieces::PieceSet;
use block::device::Op;
use block::md::Role;
use block::md::assembly::Policy;
use block::md::reader::ROW_SECTORS;
use block::md::superblock::Superblock;
use std::fmt;

/// Reason why a member is not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceRefused {
    /// There is no such role, of so many.
    NoRole(Role, usize),
    /// The role has no member, or one that is not whole.
    NotWhole(Role),
    /// Its replacement goes on.
    Replaced(Role),
    /// The device that it replaced has commands under way.
    Busy(Role),
    /// More members are missing than there are parities.
    Broken,
    /// Arrays of this policy have none.
    Policy(Policy),
    /// The consistency policy is being changed.
    Changing,
    /// The array is being stopped.
    Stopping,
}

impl fmt::Display for ReplaceRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplaceRefused::NoRole(role, count) => {
                write!(f, "there is no role {role}: the array has {count}")
            }
            ReplaceRefused::NotWhole(role) => write!(
                f,
                "member {role} is missing or not yet rebuilt: there is nothing to copy. `zoneweave md add` gives the array a member for one \
                 that is missing"
            ),
            ReplaceRefused::Replaced(role) => {
                write!(f, "member {role} is being replaced already: `zoneweave rebuild --wait` waits for that")
            }
            ReplaceRefused::Busy(role) => write!(
                f,
                "the device that member {role} replaced has commands under way: try again in a moment"
            ),
            ReplaceRefused::Broken => {
                f.write_str("more members are missing than the array has parities: nothing can be written")
            }
            ReplaceRefused::Policy(Policy::Journal) => f.write_str(
                "members of arrays with a journal are not replaced here: stop the array, and use `mdadm --replace`",
            ),
            ReplaceRefused::Policy(_) => f.write_str(
                "members of arrays with a partial parity log are not replaced here: `zoneweave md grow -k bitmap` takes the log away, and \
                 `zoneweave md grow -k ppl` brings it back afterwards",
            ),
            ReplaceRefused::Changing => {
                f.write_str("the consistency policy is being changed: try again in a moment")
            }
            ReplaceRefused::Stopping => f.write_str("the array is being stopped"),
        }
    }
}

impl std::error::Error for ReplaceRefused {}

/// Replacement of a member, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacing {
    /// Role of the member.
    pub role: Role,
    /// Sectors that were copied.
    pub sectors_done: u64,
    /// Sectors of a member.
    pub sectors_total: u64,
    /// Rows that cannot be copied as long as nobody writes them.
    pub rows_stuck: usize,
}

impl Core {
    /// Whether a member can be replaced.
    ///
    /// # Errors
    /// When it cannot.
    pub fn can_replace(&self, member: Role) -> Result<(), ReplaceRefused> {
        if self.is_stopping {
            return Err(ReplaceRefused::Stopping);
        }
        if self.policy.is_changing() {
            return Err(ReplaceRefused::Changing);
        }
        if matches!(self.policy.policy(), Policy::Ppl | Policy::Journal) {
            return Err(ReplaceRefused::Policy(self.policy.policy()));
        }
        if member.index() >= self.members.count() {
            return Err(ReplaceRefused::NoRole(member, self.members.count()));
        }
        if self.members.is_broken() {
            return Err(ReplaceRefused::Broken);
        }
        if !self.members.is_live(member) {
            return Err(ReplaceRefused::NotWhole(member));
        }
        if self.members.has_replacement(member) {
            return Err(ReplaceRefused::Replaced(member));
        }
        if self.members.vacated().contains(member.replacement().index()) {
            return Err(ReplaceRefused::Busy(member));
        }
        Ok(())
    }

    /// Replaces a member by a device, which gets its content first. `superblock` says where things lie on the device.
    ///
    /// # Errors
    /// When it cannot be replaced.
    pub fn replace_member(
        &mut self,
        member: Role,
        superblock: Superblock,
        is_volatile: bool,
    ) -> Result<(), ReplaceRefused> {
        self.can_replace(member)?;
        self.bad_blocks.set_member(member.replacement().index(), Vec::new(), &superblock);
        let data_offset = superblock.device.data_offset;
        self.members.add_replacement(member, Newcomer::waiting(superblock), (data_offset, is_volatile));
        Ok(())
    }

    /// Members that are being replaced.
    #[must_use]
    pub fn replacing(&self) -> Vec<Replacing> {
        let of = |(place, newcomer): (usize, &Newcomer)| Replacing {
            role: members::role(place).of_member(),
            sectors_done: newcomer.done() * ROW_SECTORS,
            sectors_total: self.map.rows() * ROW_SECTORS,
            rows_stuck: newcomer.stuck().len(),
        };
        let is_replacement = |(place, _): &(usize, &Newcomer)| members::role(*place).is_replacement();
        self.members.newcomers().filter(is_replacement).map(of).collect()
    }

    /// What became of replacements since this was asked last.
    pub fn take_outcomes(&mut self) -> Vec<(Role, Outcome)> {
        self.members.take_news()
    }

    /// Places whose device is nobody any more: they are to be closed.
    #[must_use]
    pub fn vacated(&self) -> Places {
        self.members.vacated()
    }

    /// Such a device was closed.
    pub fn note_closed(&mut self, place: Role) {
        self.members.note_closed(place);
    }

    /// Newcomers that a record says are whole: of replacements one, which is the first to be told. Whoever else was told at once could be
    /// the only one after a crash, and would say of a replacement that it is the member before that says so itself.
    pub(super) fn completed(&self) -> Places {
        let has_others = !self
            .members
            .newcomers_from(Stage::Joining)
            .without(self.members.newcomers_from(Stage::Active))
            .is_empty();
        let whole = self.recovered();
        let first = whole.replacements.iter().next().filter(|_| !has_others);
        assert!(
            first.is_none_or(|member| self.members.replaced().contains(member)),
            "member {first:?} is replaced by nobody"
        );
        Places { replacements: first.into_iter().collect(), ..whole }
    }

    /// Replacements that were recorded as whole are the members.
    pub(super) fn complete_replacements(&mut self, whole: Places, still_there: Places) {
        for member in whole.replacements.iter().map(members::role) {
            if still_there.replacements.contains(member.index()) {
                self.members.complete_replacement(member, self.map.rows());
                self.follow_replacement(member);
                self.scribe.note_completed(member);
            } else if self.members.is_live(member) {
                // It failed in the end, and its member, which the others gave up by this record, has missed that.
                self.scribe.roster.note_lagging(member.index());
            }
        }
    }

    /// Pieces of the rows of a round that replacements get, row by row.
    fn copies(&self, number: u32) -> Vec<(u16, PieceSet)> {
        let Slot { strip, round, .. } = self.table.slot(number);
        let round = round.as_ref().expect("a round writes");
        let roles = self.members.replaced().and(round.copied);
        if roles.is_empty() {
            return Vec::new();
        }
        let order = self.map.order(*strip);
        let pieces = order.pieces_of(roles);
        let of = |(place, row): (u16, &super::row::Row)| {
            let written = if row.is_lost { PieceSet::EMPTY } else { row.new.pieces().and(pieces) };
            if round.kind != Kind::Rebuild {
                return (place, written);
            }
            let lacking = self.members.copied_in(self.map.row_of(*strip, place)).and(roles);
            let found = order.pieces_of(lacking).and(row.new.pieces().or(row.old.pieces()));
            (place, written.or(found))
        };
        round.rows.iter().map(of).filter(|(_, pieces)| !pieces.is_empty()).collect()
    }
}

impl Strips {
    /// Writes to replacements what their members get too, and what a recovery copies; false when there is nothing.
    #[inline]
    pub(super) fn issue_copies(&mut self, number: u32, durable: bool, fx: &mut Effects) -> bool {
        let has_copies = !self.core.members.replaced().is_empty();
        has_copies && self.write_copies(number, durable, fx)
    }

    fn write_copies(&mut self, number: u32, durable: bool, fx: &mut Effects) -> bool {
        let places = self.core.copies(number);
        for_each_run(&places, |run| self.write_copy(number, run, durable, fx));
        !places.is_empty()
    }

    fn write_copy(&mut self, number: u32, run: Run, durable: bool, fx: &mut Effects) {
        let mut frames = self.core.stock.take_vec(run.count.into());
        let slot = self.core.table.slot_mut(number);
        let strip = slot.strip;
        let place = self.core.map.order(strip).members[run.piece].replacement();
        assert!(
            self.core.members.replaced().contains(place.of_member().index()),
            "piece {} of strip {strip:?} is copied for a member that nobody replaces",
            run.piece
        );
        let round = slot.round_mut();
        round.pending += 1;
        for (row, frame) in (run.first..).zip(&mut frames) {
            let row = round.rows.get_mut(row).expect("a row that is written");
            row.sent.insert(run.piece);
            frame.set_data(row.content(run.piece).expect("content to copy"));
        }
        self.core.counters.copied += u64::from(run.count);
        let sector = self.core.members.sector(place, self.core.map.row_of(strip, run.first));
        let waiter =
            self.commands.insert(PieceCommand { is_copy: true, ..PieceCommand::of(number, run, true) });
        fx.command(self.core.members.seat(place), kind::PIECE, waiter, Op::Write { sector, frames, durable });
    }
}
