//! Lies of disks: writes that were answered as done and done elsewhere or nowhere, disks that end too early, disks in each other's places.
//!
//! Linux md has no checksums, and neither have its arrays here: what is read from a row with such a write may be anything, and that is
//! all that may be wrong. A scrub has to count each of these rows whose parities are not those of its data, by the media, and no other.
//! On RAID-6 it has to name the member that is wrong alone.

use super::InPlaceWorld;
use super::contents::shape_of;
use super::judge::Judge;
use super::stage::Stage;
use crate::inplace::disk::{DiskHandle, Lie};
use crate::inplace::plan::Plan;
use crate::world::Failure;
use array::inplace::scrub::ScrubState;
use base::erasure::ErasureCode;
use base::units::BLOCK_BYTES;
use base::xor::Block;
use block::md::Role;
use block::md::assembly::{Part, judge};
use block::md::geometry::{Geometry, Stripe};
use block::md::member::Member;
use block::md::reader::ROW_SECTORS;
use std::collections::BTreeSet;

/// See the module.
pub(super) struct Lies {
    geometry: Geometry,
    chunk_rows: u64,
    /// Rows with a write that was not done where it was to be.
    rows: BTreeSet<u64>,
    /// Roles in the order in which their disks are found.
    places: Vec<usize>,
}

impl Lies {
    pub(super) fn new(plan: &Plan) -> Lies {
        Lies {
            geometry: Geometry::of(&shape_of(plan)).expect("a plan of an array"),
            chunk_rows: u64::from(plan.chunk) / ROW_SECTORS,
            rows: BTreeSet::new(),
            places: (0..usize::try_from(plan.members).expect("few")).collect(),
        }
    }

    pub(super) fn are_there(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Sectors that may not match, at most.
    pub(super) fn sectors_max(&self) -> u64 {
        u64::try_from(self.rows.len()).expect("few") * ROW_SECTORS
    }

    pub(super) fn are_in(&self, row: u64) -> bool {
        self.rows.contains(&row)
    }

    pub(super) fn are_in_stripe(&self, Stripe(stripe): Stripe) -> bool {
        let start = stripe * self.chunk_rows;
        self.rows.range(start..start + self.chunk_rows).next().is_some()
    }

    /// True when a block may hold anything.
    pub(super) fn may_be_wrong(&self, lba: u64) -> bool {
        let stripe = lba / self.chunk_rows / u64::from(self.geometry.data_chunks());
        self.are_there() && self.are_in(stripe * self.chunk_rows + lba % self.chunk_rows)
    }

    /// Two members have each other's places at the next start.
    pub(super) fn exchange(&mut self, one: usize, other: usize) {
        self.places.swap(one, other);
        let all: BTreeSet<usize> = self.places.iter().copied().collect();
        assert_eq!(all.len(), self.places.len(), "a role has two places: {:?}", self.places);
    }

    /// Disks in the order in which they are found.
    pub(super) fn in_places<'a>(&'a self, disks: &'a [DiskHandle]) -> impl Iterator<Item = &'a DiskHandle> {
        self.places.iter().map(|role| &disks[*role])
    }
}

impl Stage {
    /// The next write of data to a member will not be done where it is to be.
    pub(super) fn lie(&mut self, member: usize, rows: Option<i64>) {
        let rows_there = self.plan.stripes * self.lies.chunk_rows;
        let within = self.data_offset..self.data_offset + rows_there * ROW_SECTORS;
        let astray = rows.map(|rows| rows * ROW_SECTORS.cast_signed());
        self.disks[member].lie(Lie { within, astray });
    }

    /// Content of a member's piece of a row: as it is, or as it ought to be.
    fn content_of(&self, row: u64, member: Role, is_as_told: bool) -> Block {
        let mut block = [0; BLOCK_BYTES];
        let sector = self.data_offset + row * ROW_SECTORS;
        self.disks[member.index()].content(sector, is_as_told, &mut block);
        block
    }

    /// Whether the parities of a row are those of its data, as the media are or ought to be.
    fn has_right_parities(&self, row: u64, is_as_told: bool) -> bool {
        let geometry = &self.lies.geometry;
        let stripe = Stripe(row / self.lies.chunk_rows);
        let (p, q) = geometry.parity(stripe);
        let mut data: Vec<Role> =
            (0..geometry.data_chunks()).map(|index| geometry.data_member(stripe, index)).collect();
        data.sort_by_key(|member| geometry.exponent(stripe, *member));
        let exponents = data.iter().map(|member| usize::from(geometry.exponent(stripe, *member))).collect();
        let code = match q {
            Some(_) => ErasureCode::with_exponents(exponents, 2),
            None => ErasureCode::new(data.len(), 1),
        };
        let code = code.expect("a plan of an array");
        let pieces: Vec<Block> =
            data.iter().map(|member| self.content_of(row, *member, is_as_told)).collect();
        let pieces: Vec<&Block> = pieces.iter().collect();
        let mut parities = std::iter::once(p).chain(q).enumerate();
        parities.all(|(parity, member)| {
            let mut computed = [0; BLOCK_BYTES];
            code.encode(parity, &pieces, &mut computed);
            computed == self.content_of(row, member, is_as_told)
        })
    }

    /// The member whose piece of a row alone is not what it ought to be, where nothing came since that was computed from it.
    fn wrong_alone(&self, row: u64) -> Option<usize> {
        let differs = |member: &usize| {
            let role = array::inplace::members::role(*member);
            self.content_of(row, role, false) != self.content_of(row, role, true)
        };
        let mut wrong = (0..self.disks.len()).filter(differs);
        let first = wrong.next().filter(|_| self.plan.level == 6 && wrong.next().is_none());
        first.filter(|_| self.has_right_parities(row, true))
    }

    /// A device that ends before its data is no member of what can be served.
    pub(super) fn look_at_cut(&self) -> Result<(), Failure> {
        let (mut members, _) = self.members_there()?;
        let there = members.len();
        let is_cut = |disk: &&DiskHandle| disk.is_cut() && !disk.is_dead();
        let cut = self.disks.iter().chain(&self.retired).filter(is_cut);
        members.extend(cut.filter_map(|disk| Member::read("a device that was larger", disk).ok()));
        for assembly in judge(&members).iter().filter(|assembly| assembly.can_be_served()) {
            let is_served = |(member, part): &(&Member, Part)| {
                matches!(part, Part::Active(_))
                    && members[there..].iter().any(|cut| std::ptr::eq(cut, *member))
            };
            if assembly.devices.iter().any(is_served) {
                return Err(Failure::new("a device that ends before its data is a member"));
            }
        }
        Ok(())
    }
}

impl Judge {
    /// Notes what disks have lied about.
    pub(super) fn look_at_lies(&mut self) {
        let spares = self.stage.spares.iter().map(|(_, disk)| disk);
        let others = self.stage.retired.iter().chain(self.stage.replacements.disks()).chain(spares);
        for disk in self.stage.disks.iter().chain(others) {
            for sector in disk.take_lies() {
                let is_new = self.stage.lies.rows.insert((sector - self.stage.data_offset) / ROW_SECTORS);
                self.tally.lied += u64::from(is_new);
            }
        }
    }

    /// A member ends in the middle of its data from now on, unless the array would lose something by that.
    pub(super) fn cut_short(&mut self, member: usize) {
        if self.gone.contains(&member) || !self.may_lose() {
            return;
        }
        let rows = self.stage.plan.stripes * self.stage.lies.chunk_rows;
        let end = self.stage.data_offset + self.stage.random.below(rows * ROW_SECTORS);
        self.stage.disks[member].cut(end);
        self.lose(member);
    }
}

impl InPlaceWorld {
    /// Where nothing else is broken: a scrub counts what does not match by the media, and a repair makes all of it match.
    pub(super) fn expose(&mut self) -> Result<(), Failure> {
        if !self.come_to_rest()? || self.life.judge.blemishes.listed().next().is_some() {
            return Ok(());
        }
        self.life.judge.stage.disks.iter().for_each(DiskHandle::forget_lie);
        let rows = 0..self.life.judge.stage.plan.stripes * self.life.judge.stage.lies.chunk_rows;
        let wrong: Vec<u64> =
            rows.filter(|row| !self.life.judge.stage.has_right_parities(*row, false)).collect();
        if let Some(row) = wrong.iter().find(|row| !self.life.judge.stage.lies.are_in(**row)) {
            return Err(Failure::new(format!("row {row} does not match, and every write of it was done")));
        }
        let mut named = [0; 32];
        wrong
            .iter()
            .filter_map(|row| self.life.judge.stage.wrong_alone(*row))
            .for_each(|member| named[member] += ROW_SECTORS);
        let said = self.scrub_and_repair(u64::try_from(wrong.len()).expect("few") * ROW_SECTORS)?;
        if said.state != ScrubState::Done {
            return Ok(());
        }
        self.life.judge.tally.exposed += u64::try_from(wrong.len()).expect("few");
        if said.located.iter().zip(&named).any(|(said, named)| said < named) {
            let said = said.located;
            return Err(Failure::new(format!(
                "members are wrong alone in {named:?}, and the scrub says {said:?}"
            )));
        }
        Ok(())
    }
}
