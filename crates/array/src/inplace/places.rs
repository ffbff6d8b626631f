//! Sets of devices of an array by their places: members by role, and those that are to replace one.

use super::members::role;
use base::pieces::PieceSet;

/// Set of places. Sets of pieces are half as wide, for rows have several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Roles whose member is among them.
    pub members: PieceSet,
    /// Roles whose replacement is.
    pub replacements: PieceSet,
}

impl Places {
    /// The set without places.
    pub const EMPTY: Places = Places { members: PieceSet::EMPTY, replacements: PieceSet::EMPTY };

    /// Places of the replacements of these roles.
    #[must_use]
    pub fn of_replacements(roles: PieceSet) -> Places {
        Places { members: PieceSet::EMPTY, replacements: roles }
    }

    /// Set of one place.
    #[must_use]
    pub fn one(place: usize) -> Places {
        let mut set = Places::EMPTY;
        set.insert(place);
        set
    }

    /// Adds a place.
    pub fn insert(&mut self, place: usize) {
        let place = role(place);
        let half = if place.is_replacement() { &mut self.replacements } else { &mut self.members };
        half.insert(place.of_member().index());
    }

    /// True when a place is among them.
    #[must_use]
    pub fn contains(self, place: usize) -> bool {
        let place = role(place);
        let half = if place.is_replacement() { self.replacements } else { self.members };
        half.contains(place.of_member().index())
    }

    /// Places that are in either.
    #[inline]
    #[must_use]
    pub fn or(self, other: Places) -> Places {
        Places {
            members: self.members.or(other.members),
            replacements: self.replacements.or(other.replacements),
        }
    }

    /// Places that are also in `other`.
    #[inline]
    #[must_use]
    pub fn and(self, other: Places) -> Places {
        Places {
            members: self.members.and(other.members),
            replacements: self.replacements.and(other.replacements),
        }
    }

    /// Places that are not in `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: Places) -> Places {
        Places {
            members: self.members.without(other.members),
            replacements: self.replacements.without(other.replacements),
        }
    }

    /// Places in the set.
    #[must_use]
    pub fn count(self) -> usize {
        self.members.count() + self.replacements.count()
    }

    /// True for a set of none.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.members.is_empty() && self.replacements.is_empty()
    }

    /// The places in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        self.members.iter().chain(self.replacements.iter().map(|member| role(member).replacement().index()))
    }
}

impl From<PieceSet> for Places {
    #[inline]
    fn from(members: PieceSet) -> Places {
        Places { members, replacements: PieceSet::EMPTY }
    }
}

impl FromIterator<usize> for Places {
    fn from_iter<T: IntoIterator<Item = usize>>(places: T) -> Places {
        let mut set = Places::EMPTY;
        places.into_iter().for_each(|place| set.insert(place));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_members_and_replacements_are_told_apart() {
        let some: Places = [33, 0, 2, 31].into_iter().collect();
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 2, 31, 33]);
        assert!(some.count() == 4 && some.contains(33) && !some.contains(1) && !some.contains(32));
        let members = Places::from(some.members);
        assert_eq!((some.without(members), some.and(members)), (Places::one(33), members));
        assert_eq!(members.or(Places::of_replacements(PieceSet::one(1))), some);
        assert!(members.without(some).is_empty());
    }
}
