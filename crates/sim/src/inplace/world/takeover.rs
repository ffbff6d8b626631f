//! Linux md takes the array over after a power failure, and the power fails again: a model of what it leaves.
//!
//! It makes all parities right, erases the logs, counts generations from zero, and is cut off with data written whose parities are not.
//! What it knows nothing of, the last place of a log, is as it was: zeros were in a cache there.

use super::InPlaceWorld;
use super::clients::Open;
use super::contents::shape_of;
use super::judge::Judge;
use super::life::Life;
use super::stage::Stage;
use crate::inplace::disk::DiskHandle;
use crate::inplace::oracle::fill;
use crate::world::Failure;
use base::checksum::crc32c;
use base::units::BLOCK_BYTES;
use base::xor::{Block, xor_blocks};
use block::md::Media;
use block::md::assembly::judge;
use block::md::geometry::{Chunk, Geometry, Stripe};
use block::md::member::Member;
use block::md::ppl::{self, Entry, HEADER_BYTES, Header, Origin};
use block::md::superblock::{SUPERBLOCK_BYTES, Superblock};

/// Time of an update as md writes it.
const UPDATED: u64 = 1_700_000_000;

impl Stage {
    fn stripes_with_parity_on(&self, role: usize) -> Vec<u64> {
        let geometry = Geometry::of(&shape_of(&self.plan)).expect("a plan of an array");
        let has_parity = |stripe: &u64| geometry.parity(Stripe(*stripe)).0.index() == role;
        (0..self.plan.stripes).filter(has_parity).collect()
    }

    fn piece(&self, member: usize, row: u64) -> Result<Block, Failure> {
        let mut block = [0; BLOCK_BYTES];
        let read = Media::read(&self.disks[member], self.data_offset + row * 8, &mut block);
        read.map_err(|error| Failure::new(error.to_string()))?;
        Ok(block)
    }

    /// Sum of a row's pieces but for some.
    fn sum_without(&self, row: u64, without: &[usize]) -> Result<Block, Failure> {
        let mut sum = [0; BLOCK_BYTES];
        for member in (0..self.disks.len()).filter(|member| !without.contains(member)) {
            let before = sum;
            xor_blocks(&mut sum, &[&before, &self.piece(member, row)?]);
        }
        Ok(sum)
    }

    /// A replay, or a resync.
    fn settle_parities(&mut self) -> Result<(), Failure> {
        let geometry = Geometry::of(&shape_of(&self.plan)).expect("a plan of an array");
        let chunk_rows = u64::from(self.plan.chunk) / 8;
        for row in 0..self.plan.stripes * chunk_rows {
            let parity = geometry.parity(Stripe(row / chunk_rows)).0.index();
            let sum = self.sum_without(row, &[parity])?;
            self.disks[parity].overwrite(self.data_offset + row * 8, &sum);
        }
        Ok(())
    }

    fn write_superblock(&self, role: usize, superblock: &Superblock) {
        let mut record = [0; SUPERBLOCK_BYTES];
        superblock.encode(&mut record);
        self.disks[role].overwrite(superblock.device.super_offset, &record);
    }
}

impl Judge {
    /// Superblocks of md's next record, by role; `None` where members are missing, or sectors cannot be read.
    fn superblocks_of_md(&self) -> Result<Option<Vec<Superblock>>, Failure> {
        let (members, _) = self.stage.members_there()?;
        let arrays = judge(&members);
        let is_sound = |disk: &DiskHandle| !disk.is_lost() && !disk.is_blemished(0..Media::sectors(disk));
        let Some(assembly) = arrays.first().filter(|assembly| {
            assembly.can_be_served()
                && !assembly.is_degraded()
                && self.gone.is_empty()
                && self.stage.has_partial_parity()
        }) else {
            return Ok(None);
        };
        // Of a dirty array whose logs have no entry, which may be all that is left without some members, nobody knows whether it was ever
        // in sync.
        let says_something = |role: usize| !self.stage.stripes_with_parity_on(role).is_empty();
        if !self.stage.disks.iter().all(is_sound) || !(0..self.stage.disks.len()).all(says_something) {
            return Ok(None);
        }
        let mut newest = assembly.superblock().clone();
        newest.state.events += 1;
        newest.state.updated = UPDATED;
        newest.state.resync_offset = 0;
        let of = |disk: &DiskHandle| -> Result<Superblock, Failure> {
            let own = Member::read("disk", disk).map_err(|error| Failure::new(error.to_string()))?;
            let own = own.superblock().clone();
            Ok(Superblock { device: own.device, features: own.features, log: own.log, ..newest.clone() })
        };
        let superblocks: Vec<Superblock> = self.stage.disks.iter().map(of).collect::<Result<_, _>>()?;
        // The power may have failed as the policy was being changed.
        let have_logs = superblocks.iter().all(|superblock| superblock.ppl_place().is_some());
        Ok(have_logs.then_some(superblocks))
    }
}

impl Life {
    /// A batch of a member with one block: data are written, their parity is not.
    fn write_as_md(&mut self, role: usize, superblock: &Superblock) -> Result<(), Failure> {
        let (start, sectors) = superblock.ppl_place().expect("an array with logs");
        let zeros = vec![0; usize::try_from(sectors - ppl::HEADER_SECTORS).expect("small") * 512];
        self.judge.stage.disks[role].overwrite(start, &zeros[..zeros.len() / HEADER_BYTES * HEADER_BYTES]);
        let signature = ppl::signature(superblock.array.uuid);
        let geometry = Geometry::of(&shape_of(&self.judge.stage.plan)).expect("a plan of an array");
        let chunk_rows = u64::from(self.judge.stage.plan.chunk) / 8;
        let own = self.judge.stage.stripes_with_parity_on(role);
        let mut header = Header { signature, generation: 0, entries: Vec::new(), origin: Origin::default() };
        if !own.is_empty() {
            let data = u64::from(geometry.data_chunks());
            let chunk =
                own[self.judge.stage.random.index(own.len())] * data + self.judge.stage.random.below(data);
            let lba = chunk * chunk_rows + self.judge.stage.random.below(chunk_rows);
            let row = self.judge.stage.row_of(lba);
            let member = geometry.locate(Chunk(chunk)).member.index();
            let partial = self.judge.stage.sum_without(row, &[role, member])?;
            let block = u32::try_from(BLOCK_BYTES).expect("4096");
            header.generation = 1;
            header.entries.push(Entry {
                data_sector: lba * 8,
                pp_bytes: block,
                data_bytes: block,
                parity_member: u32::try_from(role).expect("few"),
                checksum: crc32c(&partial),
            });
            self.judge.stage.disks[role].overwrite(start + ppl::HEADER_SECTORS, &partial);
            let stamp = self.next_id;
            self.begin_write(lba, 1, stamp);
            self.open(Open::Write { lba, blocks: 1, durable: false });
            let mut content = [0; BLOCK_BYTES];
            fill(&mut content, lba, stamp);
            self.judge.stage.disks[member].overwrite(self.judge.stage.data_offset + row * 8, &content);
        }
        let mut block = [0; HEADER_BYTES];
        header.encode(&mut block);
        self.judge.stage.disks[role].overwrite(start, &block);
        Ok(())
    }
}

impl InPlaceWorld {
    /// The power fails, md writes, the power fails again.
    pub(super) fn take_over(&mut self) -> Result<bool, Failure> {
        self.life.cut();
        if let Some(superblocks) = self.life.judge.superblocks_of_md()? {
            self.life.judge.tally.taken_over += 1;
            self.life.judge.stage.settle_parities()?;
            let members = self.life.judge.stage.disks.len();
            assert_eq!(superblocks.len(), members, "a superblock for each member");
            for (role, superblock) in superblocks.iter().enumerate() {
                self.life.judge.stage.write_superblock(role, superblock);
                self.life.write_as_md(role, superblock)?;
            }
            self.life.judge.forget_in_flight();
            self.life.judge.is_new = false;
            self.life.judge.oracle.crash();
            self.life.open.clear();
        }
        self.life.start_anew()
    }
}
