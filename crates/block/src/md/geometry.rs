//! Geometry: which member holds which chunk, by level and layout. One pure function in each direction.
//!
//! A *row* below is a stripe: one chunk of each member, all at the same place. With n members, row s and i-th data chunk:
//! ```text
//! layout                  P of row s         data i          Q
//! left-asymmetric         n-1 - s mod n      in order        behind P; RAID-6: at 0 when P is last
//! right-asymmetric        s mod n            in order        the same
//! left-, right-symmetric  as above           behind P (Q)    behind P, around the end
//! parity-first, -last     0; n-1, or n-2     in order        1; n-1
//! ddf-zero-restart        s mod n            in order        behind P, around the end
//! ddf-N-restart           n-1 - (s+1) mod n  in order        the same
//! ddf-N-continue          n-1 - s mod n      behind P        before P, around the end
//! *-6                     RAID-5's of n-1    as there        n-1
//! ```
//! Q is the sum of data chunks times powers of two. The exponents count members from the one behind Q, around the end, without P
//! and Q; in the three DDF layouts they are the members' own numbers, and those of P and Q are used up.

use super::names;
use super::superblock::Shape;
use super::{MEMBERS_MAX, Role};

/// Row of chunks at one place of all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stripe(pub u64);

/// Chunk of the array by its place in the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk(pub u64);

/// Arrangement of P and data among the members of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rotation {
    Left,
    Right,
    First,
    Last,
}

/// Order of data and Q among the members of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// In order, P and Q left out.
    Plain,
    /// From the member behind the parities, around the end.
    Behind,
    /// DDF: in order, exponents by member.
    DdfPlain,
    /// DDF: from the member behind P, Q before P, exponents by member.
    DdfBehind,
}

/// Kind of a member in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Data chunk.
    Data(Chunk),
    /// Sum of the data chunks.
    P,
    /// Sum of the data chunks times powers of two.
    Q,
}

/// Chunk's place on the members, with the parities of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// Row.
    pub stripe: Stripe,
    /// Member that holds it.
    pub member: Role,
    /// Member that holds P.
    pub p: Role,
    /// Member that holds Q; `None` but for RAID-6.
    pub q: Option<Role>,
    /// Exponent of two by which Q has the chunk.
    pub exponent: u8,
}

/// Geometry of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    members: u16,
    has_q: bool,
    rotation: Rotation,
    order: Order,
    /// Q on the last member, the others as RAID-5.
    q_apart: bool,
    chunk_sectors: u32,
    stripes: u64,
}

impl Geometry {
    /// Geometry of a shape; `None` of one that is not served (see [`super::assembly`]).
    #[must_use]
    pub fn of(shape: &Shape) -> Option<Geometry> {
        let has_q = shape.level == 6;
        let least = if has_q { 4 } else { 2 };
        let known = match shape.level {
            4 => true,
            5 | 6 => names::layout(shape.level, shape.layout).is_some(),
            _ => false,
        };
        let counts = (least..=MEMBERS_MAX).contains(&shape.members) && shape.chunk > 0;
        if !known || !counts {
            return None;
        }
        let layout = if shape.level == 4 { 5 } else { shape.layout };
        let (rotation, order) = match layout {
            0 | 16 => (Rotation::Left, Order::Plain),
            1 | 17 => (Rotation::Right, Order::Plain),
            2 | 18 => (Rotation::Left, Order::Behind),
            3 | 19 => (Rotation::Right, Order::Behind),
            4 | 20 => (Rotation::First, Order::Plain),
            8 => (Rotation::Right, Order::DdfPlain),
            9 => (Rotation::Left, Order::DdfPlain),
            10 => (Rotation::Left, Order::DdfBehind),
            _ => (Rotation::Last, Order::Plain),
        };
        Some(Geometry {
            members: u16::try_from(shape.members).ok()?,
            has_q,
            rotation,
            order,
            q_apart: layout >= 16,
            chunk_sectors: shape.chunk,
            stripes: shape.size / u64::from(shape.chunk),
        })
    }

    /// Members.
    #[must_use]
    pub fn members(&self) -> u16 {
        self.members
    }

    /// Parities: 1, or 2 of RAID-6.
    #[must_use]
    pub fn parities(&self) -> u16 {
        1 + u16::from(self.has_q)
    }

    /// Data chunks of a row.
    #[must_use]
    pub fn data_chunks(&self) -> u16 {
        self.members - self.parities()
    }

    /// Sectors of a chunk.
    #[must_use]
    pub fn chunk_sectors(&self) -> u64 {
        u64::from(self.chunk_sectors)
    }

    /// Rows.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Sectors of the volume; `None` beyond 2^64.
    #[must_use]
    pub fn sectors(&self) -> Option<u64> {
        self.stripes.checked_mul(self.chunk_sectors())?.checked_mul(u64::from(self.data_chunks()))
    }

    /// Rows after which all places repeat.
    #[must_use]
    pub fn period(&self) -> u16 {
        self.members - u16::from(self.q_apart)
    }

    /// Members that hold P and Q in a row.
    #[must_use]
    pub fn parity(&self, stripe: Stripe) -> (Role, Option<Role>) {
        let (p, q) = self.parity_places(stripe);
        (Role(p), q.map(Role))
    }

    fn parity_places(&self, stripe: Stripe) -> (u16, Option<u16>) {
        // What rotates: without Q where that has a member of its own.
        let count = self.members - u16::from(self.q_apart);
        let rows = match (self.rotation, self.order) {
            (Rotation::Left, Order::DdfPlain) => stripe.0.wrapping_add(1),
            _ => stripe.0,
        };
        // A remainder by a 16-bit number is one; 2^64 rows are not a multiple of a count, but no member has so many.
        let turn = u16::try_from(rows % u64::from(count)).expect("less than the members");
        let p = match self.rotation {
            Rotation::Left => count - 1 - turn,
            Rotation::Right => turn,
            Rotation::First => 0,
            Rotation::Last if self.has_q => count - 2,
            Rotation::Last => count - 1,
        };
        if !self.has_q {
            return (p, None);
        }
        let q = match (self.q_apart, self.order) {
            (true, _) => count,
            (false, Order::DdfBehind) => (p + count - 1) % count,
            (false, _) => (p + 1) % count,
        };
        (p, Some(q))
    }

    /// Place of a chunk.
    ///
    /// # Panics
    /// When the volume has no such chunk.
    #[must_use]
    pub fn locate(&self, chunk: Chunk) -> Located {
        let per_row = u64::from(self.data_chunks());
        let (stripe, index) = (Stripe(chunk.0 / per_row), chunk.0 % per_row);
        assert!(stripe.0 < self.stripes, "chunk {} of {} rows", chunk.0, self.stripes);
        let (p, q) = self.parity(stripe);
        let index = u16::try_from(index).expect("less than the members");
        let member = self.data_member(stripe, index);
        Located { stripe, member, p, q, exponent: self.exponent(stripe, member) }
    }

    /// Member that holds a row's data chunk of this index.
    ///
    /// # Panics
    /// When a row has no such chunk.
    #[must_use]
    pub fn data_member(&self, stripe: Stripe, index: u16) -> Role {
        assert!(index < self.data_chunks(), "data chunk {index} of {}", self.data_chunks());
        let (p, q) = self.parity_places(stripe);
        let count = self.members - u16::from(self.q_apart);
        let start = match (self.order, q) {
            (Order::Plain | Order::DdfPlain, _) => 0,
            (Order::Behind, Some(q)) if !self.q_apart => q + 1,
            (Order::Behind | Order::DdfBehind, _) => p + 1,
        };
        let is_data = |member: &u16| *member != p && Some(*member) != q;
        let around = (0..count).map(|step| (start + step) % count).filter(is_data);
        Role(around.clone().nth(usize::from(index)).expect("a row has that many data chunks"))
    }

    /// Kind of a member in a row.
    ///
    /// # Panics
    /// When there is no such member.
    #[must_use]
    pub fn place(&self, stripe: Stripe, member: Role) -> Place {
        assert!(member.0 < self.members, "member {member} of {}", self.members);
        let (p, q) = self.parity(stripe);
        if member == p {
            return Place::P;
        }
        if Some(member) == q {
            return Place::Q;
        }
        let index = (0..self.data_chunks()).find(|index| self.data_member(stripe, *index) == member);
        let index = u64::from(index.expect("a member that is no parity holds data"));
        Place::Data(Chunk(stripe.0 * u64::from(self.data_chunks()) + index))
    }

    /// Exponent of two by which Q of a row has a data member's chunk; zero where there is no Q.
    ///
    /// # Panics
    /// When the member holds a parity of this row.
    #[must_use]
    pub fn exponent(&self, stripe: Stripe, member: Role) -> u8 {
        let (p, q) = self.parity_places(stripe);
        assert!(
            member.0 < self.members && member.0 != p && Some(member.0) != q,
            "member {member} is a parity"
        );
        let Some(q) = q else { return 0 };
        let exponent = match self.order {
            Order::DdfPlain | Order::DdfBehind => member.0,
            Order::Plain | Order::Behind => {
                let behind = |member: u16| (member + self.members - q - 1) % self.members;
                behind(member.0) - u16::from(behind(p) < behind(member.0))
            }
        };
        u8::try_from(exponent).expect("less than 32 members")
    }
}

#[cfg(test)]
mod tests;
