//! Members of a served array: which are there, and what failed since the start.

use base::pieces::PieceSet;
use block::md::Role;

/// Members by role.
#[derive(Clone, Debug)]
pub struct Members {
    live: PieceSet,
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
            live: which(&|_| true),
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

    /// Roles whose member is there.
    #[must_use]
    pub fn live(&self) -> PieceSet {
        self.live
    }

    /// Roles whose member is not there.
    #[must_use]
    pub fn dead(&self) -> PieceSet {
        PieceSet::first(self.count()).without(self.live)
    }

    /// True when a member is there.
    #[must_use]
    pub fn is_live(&self, role: Role) -> bool {
        self.live.contains(role.index())
    }

    /// True when members are missing.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.dead().is_empty()
    }

    /// True when more members are missing than there are parities.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.dead().count() > self.parities
    }

    /// Live members with a volatile cache.
    #[must_use]
    pub fn volatile(&self) -> PieceSet {
        self.volatile.and(self.live)
    }

    /// First sector of a member's data.
    #[must_use]
    pub fn data_offset(&self, role: Role) -> u64 {
        self.data_offsets[role.index()]
    }

    /// A member is no longer believed; true when it was until now.
    ///
    /// # Panics
    /// When there is no such role.
    pub fn fail(&mut self, role: Role) -> bool {
        assert!(role.index() < self.count(), "role {role} of {}", self.count());
        let was_live = self.is_live(role);
        self.live = self.live.without([role.index()].into_iter().collect());
        was_live
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
}
