//! Contents of the disks of a new array.

use crate::inplace::oracle::fill;
use crate::inplace::plan::{Plan, Policy};
use crate::world::Failure;
use array::inplace::journal::sectors_min;
use base::random::Random;
use base::units::BLOCK_BYTES;
use block::md::create::{BitmapWish, Blank, MemberPlan, Wish, plan as plan_members, plan_journal};
use block::md::geometry::{Chunk, Geometry};
use block::md::superblock::{BadBlockPlace, Identity, Shape, Superblock, Version, feature};
use block::md::{Role, Uuid};

/// Sectors of a disk: superblocks of any version are looked for outside of the data.
pub(super) fn sectors_of(plan: &Plan) -> u64 {
    plan.data_offset + plan.stripes * u64::from(plan.chunk) + 64
}

/// Shape of the array of a plan.
pub(super) fn shape_of(plan: &Plan) -> Shape {
    Shape {
        level: plan.level,
        layout: plan.layout,
        size: plan.stripes * u64::from(plan.chunk),
        chunk: plan.chunk,
        members: plan.members,
    }
}

/// Contents of a new array.
pub(super) struct Contents {
    /// Members by role.
    pub(super) members: Vec<Vec<u8>>,
    /// Journal.
    pub(super) journal: Option<Vec<u8>>,
    /// Writes that the blocks of the volume come from.
    pub(super) stamps: Vec<u64>,
}

/// Contents of new members.
pub(super) fn contents(plan: &Plan, random: &mut Random) -> Result<Contents, Failure> {
    let sectors = sectors_of(plan);
    let wish = Wish {
        version: plan.version,
        array: Identity { uuid: Uuid([7; 16]), name: [0; 32], created: 1_700_000_000 },
        shape: shape_of(plan),
        data_offset: (plan.data_offset > 0).then_some(plan.data_offset),
        bitmap: match plan.policy {
            Policy::Resync | Policy::Ppl(_) | Policy::Journal(_) => BitmapWish::None,
            Policy::Bitmap(region) => BitmapWish::Internal(Some(region)),
        },
        ppl: match plan.policy {
            Policy::Ppl(sectors) => Some(sectors),
            Policy::Resync | Policy::Bitmap(_) | Policy::Journal(_) => None,
        },
        journal: matches!(plan.policy, Policy::Journal(_)),
        clean: plan.is_clean,
    };
    let blank = |role: u32| Some(Blank { sectors, uuid: Uuid([u8::try_from(role + 1).expect("few"); 16]) });
    let blanks: Vec<Option<Blank>> = (0..plan.members).map(blank).collect();
    let mut plans = plan_members(&wish, &blanks).map_err(|error| Failure::new(error.to_string()))?;
    if !plan.has_lists {
        let without =
            |member: &mut MemberPlan| member.superblock.device.bad_blocks = BadBlockPlace::default();
        plans.iter_mut().flatten().for_each(without);
    }
    let first = plans.iter().flatten().next().map(|member| member.superblock.clone());
    let journal = first.map(|first| journal(plan, &first, random)).transpose()?.flatten();
    let bytes = usize::try_from(sectors).expect("small") * 512;
    let mut contents = vec![vec![0; bytes]; blanks.len()];
    for (content, mut member) in contents.iter_mut().zip(plans.into_iter().flatten()) {
        if matches!(plan.policy, Policy::Ppl(_)) && !plan.is_clean {
            resync_at_first(&mut member);
        }
        lay_down(&member, content);
    }
    let mut stamps = vec![0; usize::try_from(plan.blocks()).expect("small")];
    if !plan.is_clean {
        dirty(plan, random, &mut contents, &mut stamps);
    }
    assert!(contents.iter().all(|content| content.len() == bytes), "members are alike at first");
    Ok(Contents { members: contents, journal, stamps })
}

/// Puts what a device gets where it belongs.
fn lay_down(member: &MemberPlan, content: &mut [u8]) {
    for (sector, bytes) in &member.before {
        base::bytes::put(content, usize::try_from(sector * 512).expect("small"), bytes);
    }
    let start = usize::try_from(member.superblock.device.super_offset * 512).expect("small");
    base::bytes::put(content, start, &member.record());
}

/// Content of the journal, beside members like this one: nonsense but for what it gets.
fn journal(plan: &Plan, member: &Superblock, random: &mut Random) -> Result<Option<Vec<u8>>, Failure> {
    let Policy::Journal(ring) = plan.policy else { return Ok(None) };
    let sectors = plan.data_offset + ring + if plan.version == Version::V1_0 { 32 } else { 0 };
    let device = Blank { sectors, uuid: Uuid([0xee; 16]) };
    let planned = plan_journal(plan.version, member, &device, sectors_min(plan.members.into()));
    let planned = planned.map_err(|error| Failure::new(error.to_string()))?;
    let mut content = vec![0; usize::try_from(sectors).expect("small") * 512];
    random.fill(&mut content);
    lay_down(&planned, &mut content);
    Ok(Some(content))
}

/// A new member with a log is resynced, not rebuilt, and its log says nothing: as of an array that md was forced to make.
fn resync_at_first(member: &mut MemberPlan) {
    member.superblock.features &= !feature::RECOVERY_OFFSET;
    member.superblock.state.resync_offset = 0;
    let log = member.superblock.ppl_place().map(|(sector, _)| sector);
    member.before.retain(|(sector, _)| Some(*sector) != log);
}

/// Data with parities that are nonsense, as what lay on drives before.
fn dirty(plan: &Plan, random: &mut Random, contents: &mut [Vec<u8>], stamps: &mut [u64]) {
    let start = usize::try_from(plan.data_offset * 512).expect("small");
    let size = usize::try_from(plan.stripes * u64::from(plan.chunk) * 512).expect("small");
    contents.iter_mut().for_each(|content| random.fill(&mut content[start..start + size]));
    let geometry = Geometry::of(&shape_of(plan)).expect("a plan of an array");
    let rows = u64::from(plan.chunk) / 8;
    for (lba, stamp) in (0_u64..).zip(stamps.iter_mut()) {
        let located = geometry.locate(Chunk(lba / rows));
        let row = located.stripe.0 * rows + lba % rows;
        let Role(member) = located.member;
        let at = start + usize::try_from(row).expect("small") * BLOCK_BYTES;
        *stamp = 1 << 60;
        fill(&mut contents[usize::from(member)][at..at + BLOCK_BYTES], lba, *stamp);
    }
}
