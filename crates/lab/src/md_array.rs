//! A new array in md's format, and the engine that opens it, for members that keep nothing.

use anyhow::{Context, Result, anyhow, ensure};
use array::inplace::InPlace;
use array::inplace::journal::sectors_min;
use array::inplace::start::{Tuning, start_recovered};
use block::md::assembly::judge;
use block::md::create::{BitmapWish, Blank, MemberPlan, Wish, plan, plan_journal};
use block::md::geometry::Geometry;
use block::md::join::join;
use block::md::member::Member;
use block::md::recovered::recover;
use block::md::superblock::{Identity, Shape, Superblock, Version};
use block::md::{Media, ReadFailed, SECTOR_BYTES, Uuid};
use serde::Deserialize;

/// First sector of the data: superblock, bitmap and lists have a MiB.
pub const DATA_OFFSET: u64 = 2048;

/// Array that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct NewArray {
    /// RAID level.
    pub level: i32,
    /// Members.
    pub members: u32,
    /// Sectors of a chunk.
    pub chunk_sectors: u32,
    /// Sectors of a member.
    pub sectors: u64,
    /// A bitmap, and the bytes of its regions where they are given.
    pub bitmap: Option<Option<u32>>,
    /// Parities count as right; else a resync begins.
    pub is_clean: bool,
    /// Written before the members are.
    pub ahead: Ahead,
}

/// Log that is written before the members of an array are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ahead {
    /// Nothing, or bits of a bitmap.
    #[default]
    Nothing,
    /// Partial parities, in logs as large as there is room before the data.
    Ppl,
    /// Everything, to a journal on a device behind the members, as large as they are.
    Journal,
}

/// Sectors of a partial parity log: what the superblock leaves of the first MiB.
const LOG_SECTORS: u16 = 1920;

/// A member's first sectors; zeros behind them.
struct Beginning {
    bytes: Vec<u8>,
    sectors: u64,
}

impl Media for Beginning {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read(&self, sector: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        let start = usize::try_from(sector).unwrap_or(usize::MAX).saturating_mul(SECTOR_BYTES);
        let bytes = self.bytes.get(start..).unwrap_or(&[]);
        into.fill(0);
        into.iter_mut().zip(bytes).for_each(|(into, byte)| *into = *byte);
        Ok(())
    }
}

impl NewArray {
    /// The engine that serves the array once its members have been made.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn engine(&self, tuning: Tuning) -> Result<InPlace> {
        let mut plans = self.plans()?;
        let mut media: Vec<Beginning> =
            plans.iter().map(|plan| self.beginning(plan)).collect::<Result<_>>()?;
        if self.ahead == Ahead::Journal {
            let member = &plans.first().context("a member")?.superblock;
            let blank = Blank { sectors: self.sectors, uuid: Uuid([0xaa; 16]) };
            let journal = plan_journal(Version::V1_2, member, &blank, sectors_min(u64::from(self.members)))?;
            media.push(self.beginning(&journal)?);
            plans.push(journal);
        }
        let read = |media| Member::read("member", media).map_err(|error| anyhow!("{error}"));
        let members: Vec<Member> = media.iter().map(read).collect::<Result<_>>()?;
        let arrays = judge(&members);
        let assembly = arrays.first().context("members of one array")?;
        let place = |member: &Member| members.iter().position(|other| std::ptr::eq(other, member));
        let of_devices = assembly.devices.iter().filter_map(|(member, _)| media.get(place(member)?));
        let recovered =
            recover(assembly, &of_devices.collect::<Vec<_>>()).map_err(|error| anyhow!("{error}"))?;
        Ok(start_recovered(assembly, recovered, |_| false, tuning)?)
    }

    /// Geometry of the array.
    ///
    /// # Panics
    /// When there can be no such array.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let size =
            (self.sectors - DATA_OFFSET) / u64::from(self.chunk_sectors) * u64::from(self.chunk_sectors);
        Geometry::of(&self.shape(size)).expect("an array that can be made")
    }

    fn shape(&self, size: u64) -> Shape {
        let &NewArray { level, members, chunk_sectors: chunk, .. } = self;
        Shape { level, layout: if level == 4 { 0 } else { 2 }, size, chunk, members }
    }

    /// Superblock of an empty device that joins the array; it has no bitmap.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn newcomer(&self) -> Result<Superblock> {
        ensure!(self.bitmap.is_none(), "newcomers of arrays with a bitmap get its pages too");
        let plans = self.plans()?;
        let other = &plans.first().context("a member")?.superblock;
        Ok(join(other, Blank { sectors: self.sectors, uuid: Uuid([0xee; 16]) }, 0)?)
    }

    fn plans(&self) -> Result<Vec<MemberPlan>> {
        let &NewArray { members, sectors, bitmap, is_clean, .. } = self;
        let wish = Wish {
            version: Version::V1_2,
            array: Identity { uuid: Uuid([7; 16]), name: [0; 32], created: 1_700_000_000 },
            shape: self.shape(0),
            data_offset: Some(DATA_OFFSET),
            bitmap: bitmap.map_or(BitmapWish::None, BitmapWish::Internal),
            ppl: (self.ahead == Ahead::Ppl).then_some(LOG_SECTORS),
            journal: self.ahead == Ahead::Journal,
            clean: is_clean,
        };
        let blank = |role: u32| {
            let uuid = Uuid([u8::try_from(role + 1).unwrap_or(0); 16]);
            Some(Blank { sectors, uuid })
        };
        let blanks: Vec<Option<Blank>> = (0..members).map(blank).collect();
        Ok(plan(&wish, &blanks)?.into_iter().flatten().collect())
    }

    fn beginning(&self, member: &MemberPlan) -> Result<Beginning> {
        // The first block of a journal is where its data begin.
        let mut bytes = vec![0; (usize::try_from(DATA_OFFSET)? + 8) * SECTOR_BYTES];
        let mut put = |sector: u64, content: &[u8]| -> Result<()> {
            let start = usize::try_from(sector)? * SECTOR_BYTES;
            let into = bytes.get_mut(start..start + content.len());
            into.context("superblock, bitmap and lists lie before the data")?.copy_from_slice(content);
            Ok(())
        };
        for (sector, content) in &member.before {
            put(*sector, content)?;
        }
        put(member.superblock.device.super_offset, &member.record())?;
        Ok(Beginning { bytes, sectors: self.sectors })
    }
}
