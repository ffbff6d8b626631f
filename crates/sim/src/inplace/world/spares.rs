//! Spares of the world.

use super::judge::Judge;
use super::stage::Stage;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::inplace::spares::Spare;
use array::inplace::start::spares_of;
use base::bytes::put;
use block::md::assembly::{Assembly, Part, judge};
use block::md::create::Blank;
use block::md::member::Member;
use block::md::spare::plan_spare;
use block::md::superblock::{SUPERBLOCK_BYTES, feature};
use block::md::{Media, Uuid};

/// Most spares: more are like the first.
const SPARES_MAX: usize = 2;

impl Stage {
    /// A device is made a spare, as the command does it: its superblock is on it before the engine hears of it.
    pub(super) fn add_spare(&mut self) -> Result<(), Failure> {
        if self.spares.len() == SPARES_MAX {
            return Ok(());
        }
        // As it lies on a member: a spare that knows of an update before members do would be the newest of all.
        let (members, _) = self.members_there()?;
        let arrays = judge(&members);
        let is_whole = |(_, part): &&(&Member, Part)| matches!(part, Part::Active(_));
        let member = arrays.first().and_then(|assembly| assembly.devices.iter().find(is_whole));
        let Some(template) = member.map(|(member, _)| member.superblock().clone()) else { return Ok(()) };
        let engine = &mut self.volume().engine;
        if engine.core().template().is_none() {
            return Ok(());
        }
        let (bitmap_bytes, number) = (engine.core().bitmap_bytes(), engine.core_mut().number_for_spare());
        let blank = self.blank();
        let mut uuid = [0; 16];
        self.random.fill(&mut uuid);
        let device = Blank { sectors: Media::sectors(&blank), uuid: Uuid(uuid) };
        let planned = plan_spare(&template, number, device, bitmap_bytes);
        let mut superblock = planned.map_err(|error| Failure::new(error.to_string()))?.superblock;
        // md says of its spares that they have a bitmap, and writes none.
        if self.spares.is_empty() {
            superblock.features |= template.features & feature::BITMAP;
        }
        let mut record = [0; SUPERBLOCK_BYTES];
        superblock.encode(&mut record);
        let mut content = vec![0; usize::try_from(device.sectors).expect("small") * 512];
        let (at, record_sectors) = (superblock.device.super_offset, SUPERBLOCK_BYTES as u64 / 512);
        assert!(at + record_sectors <= device.sectors, "a superblock at {at} of {} sectors", device.sectors);
        put(&mut content, usize::try_from(superblock.device.super_offset).expect("small") * 512, &record);
        let disk = DiskHandle::new(content, self.plan.is_volatile, self.plan.latency, self.random.bits());
        let name = self.unused_name(format!("spare {number:?}"));
        self.spares.push((name.clone(), disk.clone()));
        let device = self.ways(&disk);
        self.volume().spares.push(Spare { name, superblock, device });
        Ok(())
    }

    /// Spares that are found at a start.
    pub(super) fn spares_there(
        &mut self,
        assembly: &Assembly<'_>,
        members: &[Member],
        alive: &[DiskHandle],
    ) -> Vec<Spare> {
        let of = |(member, superblock): (&Member, _)| {
            let index = members.iter().position(|other| std::ptr::eq(other, member)).expect("one of them");
            let disk = alive[index].clone();
            (index, superblock, disk)
        };
        let found: Vec<_> = spares_of(assembly).into_iter().map(of).collect();
        let mut spares = Vec::new();
        for (index, superblock, disk) in found {
            self.retired.retain(|other| !other.is(&disk));
            let known = self.spares.iter().find(|(_, other)| other.is(&disk)).map(|(name, _)| name.clone());
            let name = known.unwrap_or_else(|| {
                let name = self.unused_name(format!("found {index}"));
                self.spares.push((name.clone(), disk.clone()));
                name
            });
            spares.push(Spare { name, superblock, device: self.ways(&disk) });
        }
        spares
    }

    /// A name that no spare has: the engine tells by it which one steps in.
    fn unused_name(&self, name: String) -> String {
        let is_free = |name: &String| self.spares.iter().all(|(other, _)| other != name);
        let others = (2..).map(|count| format!("{name}, {count}"));
        let mut names = std::iter::once(name.clone()).chain(others);
        names.find(is_free).expect("there are more names than spares")
    }
}

impl Judge {
    /// Spares that took a role are members.
    pub(super) fn look_at_spares(&mut self) {
        let stepped_in = self.stage.volume().spares.take_stepped_in();
        for (role, name) in stepped_in {
            let Some(place) = self.stage.spares.iter().position(|(other, _)| *other == name) else {
                continue;
            };
            let (_, disk) = self.stage.spares.remove(place);
            let members = self.stage.disks.len();
            assert!(role.index() < members, "a spare steps in as member {role:?} of {members}");
            self.tally.stepped_in += 1;
            self.replace(role.index(), disk);
        }
    }
}
