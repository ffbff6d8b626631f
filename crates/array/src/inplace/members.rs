//! Members of a served array: in sync, being recovered, or absent.

use super::newcomer::{Newcomer, Stage};
use base::pieces::PieceSet;
use block::md::Role;
use std::collections::BTreeMap;
use std::ops::Range;

/// Members by role.
#[derive(Clone, Debug)]
pub struct Members {
    all: PieceSet,
    live: PieceSet,
    /// Members that are being recovered.
    newcomers: BTreeMap<usize, Newcomer>,
    /// First sector of the data, by role.
    data_offsets: Vec<u64>,
    /// Members whose writes are durable only with a flush.
    volatile: PieceSet,
    parities: usize,
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
            volatile: which(&|(_, is_volatile)| *is_volatile),
            parities,
        }
    }

    /// Roles.
    #[must_use]
    pub fn count(&self) -> usize {
        self.data_offsets.len()
    }

    /// Members that the array can do without.
    #[must_use]
    pub fn parities(&self) -> usize {
        self.parities
    }

    /// Roles whose member is in sync.
    #[must_use]
    pub fn live(&self) -> PieceSet {
        self.live
    }

    /// Roles whose member is not in sync: it is missing, or being recovered.
    #[must_use]
    pub fn lacking(&self) -> PieceSet {
        self.all.without(self.live)
    }

    /// Roles without a member that superblocks name or are about to.
    #[must_use]
    pub fn absent(&self) -> PieceSet {
        let lacking = self.lacking();
        if lacking.is_empty() { lacking } else { lacking.without(self.newcomers_from(Stage::Joining)) }
    }

    /// Roles whose newcomer is at this stage, or a later one.
    #[must_use]
    pub fn newcomers_from(&self, stage: Stage) -> PieceSet {
        let is_from = |newcomer: &Newcomer| match stage {
            Stage::Waiting => true,
            Stage::Joining => newcomer.stage() != Stage::Waiting,
            Stage::Active => newcomer.stage() == Stage::Active,
        };
        self.newcomers.iter().filter(|(_, newcomer)| is_from(newcomer)).map(|(role, _)| *role).collect()
    }

    /// Roles whose newcomer is on no superblock yet.
    #[must_use]
    pub fn waiting(&self) -> PieceSet {
        self.newcomers_from(Stage::Waiting).without(self.newcomers_from(Stage::Joining))
    }

    /// Members that are being recovered, by role.
    pub fn newcomers(&self) -> impl Iterator<Item = (usize, &Newcomer)> {
        self.newcomers.iter().map(|(role, newcomer)| (*role, newcomer))
    }

    /// The same, to change them.
    pub fn newcomers_mut(&mut self) -> impl Iterator<Item = (usize, &mut Newcomer)> {
        self.newcomers.iter_mut().map(|(role, newcomer)| (*role, newcomer))
    }

    /// Members that superblocks and bitmap pages are written to, and that are flushed.
    #[must_use]
    pub fn recorded(&self) -> PieceSet {
        self.live.or(self.newcomers_from(Stage::Joining))
    }

    /// Members that data are written to.
    #[must_use]
    pub fn writable(&self) -> PieceSet {
        if self.newcomers.is_empty() {
            return self.live;
        }
        self.live.or(self.newcomers_from(Stage::Active))
    }

    /// Members whose content of a row is that of the array.
    #[must_use]
    pub fn counting(&self, row: u64) -> PieceSet {
        if self.newcomers.is_empty() {
            return self.live;
        }
        let counting = self.newcomers.iter().filter(|(_, newcomer)| newcomer.counts(row));
        self.live.iter().chain(counting.map(|(role, _)| *role)).collect()
    }

    /// Members whose content of a row is being recovered.
    #[must_use]
    pub fn rebuilt_in(&self, row: u64) -> PieceSet {
        self.newcomers_from(Stage::Active).without(self.counting(row))
    }

    /// True when a member can be read in all of these rows.
    #[must_use]
    pub fn is_readable(&self, role: Role, rows: Range<u64>) -> bool {
        let counts = |newcomer: &Newcomer| newcomer.counts_all(rows.clone());
        self.is_live(role) || self.newcomers.get(&role.index()).is_some_and(counts)
    }

    /// True when a member is in sync.
    #[must_use]
    pub fn is_live(&self, role: Role) -> bool {
        self.live.contains(role.index())
    }

    /// True when members are not in sync.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.lacking().is_empty()
    }

    /// True when more members are not in sync than there are parities.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        let lacking = self.lacking();
        !lacking.is_empty() && lacking.count() > self.parities
    }

    /// Members with a volatile cache that are flushed.
    #[must_use]
    pub fn volatile(&self) -> PieceSet {
        self.volatile.and(self.recorded())
    }

    /// First sector of a member's data.
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
        let index = role.index();
        assert!(!self.is_live(role) && !self.newcomers.contains_key(&index), "role {role} has a member");
        self.data_offsets[index] = newcomer.superblock().expect("it waits").device.data_offset;
        self.volatile = self.volatile.without([index].into_iter().collect());
        if is_volatile {
            self.volatile.insert(index);
        }
        self.newcomers.insert(index, newcomer);
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

    /// A member is no longer believed; true when it was until now.
    ///
    /// # Panics
    /// When there is no such role.
    pub fn fail(&mut self, role: Role) -> bool {
        assert!(role.index() < self.count(), "role {role} of {}", self.count());
        let was_live = self.is_live(role);
        self.live = self.live.without([role.index()].into_iter().collect());
        self.newcomers.remove(&role.index()).is_some() || was_live
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
        assert!(members.fail(Role(0)) && !members.fail(Role(0)) && !members.is_broken());
        assert_eq!(members.volatile().iter().collect::<Vec<_>>(), [3]);
        assert!(members.fail(Role(3)) && members.is_broken());
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
        assert!(members.fail(Role(0)) && members.absent().contains(0));
    }
}
