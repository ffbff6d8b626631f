//! Faults on demand, for tests: what a drive's owner has to live with.
//!
//! A drive without faults pays one test of a null pointer per command for them.

use super::EmulatedDrive;
use super::header::STRIDE;
use base::frame::Frame;
use base::units::{BLOCK_BYTES, ZoneIndex};
use zone::device::{Status, ZoneState};
use zone::rules::Zone;

/// Faults that wait for their command.
#[derive(Debug, Default)]
pub(super) struct Faults {
    dead: bool,
    /// Writes yet to fail, by zone.
    writes: Vec<(ZoneIndex, u32)>,
    /// Blocks of which one write is yet to fail.
    unwritable: Vec<(ZoneIndex, u32)>,
    /// Blocks that cannot be read.
    unreadable: Vec<(ZoneIndex, u32)>,
}

impl Faults {
    pub(super) fn is_dead(&self) -> bool {
        self.dead
    }

    /// Returns the fault of this write, if it fails; counts it.
    pub(super) fn take_write(&mut self, zone: ZoneIndex, offset: u32, blocks: u32) -> Result<(), Status> {
        if let Some((_, count)) = self.writes.iter_mut().find(|(at, count)| *at == zone && *count > 0) {
            *count -= 1;
            return Err(Status::WriteFault);
        }
        let hit = self.unwritable.iter().position(|at| touches(at, zone, offset, blocks));
        match hit {
            Some(index) => {
                self.unwritable.remove(index);
                Err(Status::WriteFault)
            }
            None => Ok(()),
        }
    }

    /// Returns the fault of a write to these blocks, if any fails; counts nothing.
    pub(super) fn check_writes(&self, zone: ZoneIndex, offset: u32, blocks: u32) -> Result<(), Status> {
        let counted = self.writes.iter().any(|(at, count)| *at == zone && *count > 0);
        let hit = self.unwritable.iter().any(|at| touches(at, zone, offset, blocks));
        if counted || hit { Err(Status::WriteFault) } else { Ok(()) }
    }

    pub(super) fn check_read(&self, zone: ZoneIndex, offset: u32, blocks: u32) -> Result<(), Status> {
        let hit = self.unreadable.iter().any(|at| touches(at, zone, offset, blocks));
        if hit { Err(Status::UnrecoveredReadError) } else { Ok(()) }
    }

    pub(super) fn zone_was_reset(&mut self, zone: ZoneIndex) {
        self.unreadable.retain(|(at, _)| *at != zone);
    }
}

fn touches(&(at, block): &(ZoneIndex, u32), zone: ZoneIndex, offset: u32, blocks: u32) -> bool {
    at == zone && block >= offset && block - offset < blocks
}

impl EmulatedDrive {
    /// The media of a zone fails: the zone becomes read-only or offline, for good. What was written in its window can
    /// be read like the rest.
    ///
    /// # Panics
    /// When there is no such zone or `state` is another state.
    pub fn fail_zone(&mut self, zone: ZoneIndex, state: ZoneState) {
        let before = self.table.zone(zone);
        self.table.degrade(zone, state);
        if self.settle_or_undo(zone, before).is_err() {
            // Nor can the media keep the window.
            self.become_zone(zone, Zone::new(state, before.write_pointer));
        }
    }

    /// The next `count` writes and appends to `zone` that are otherwise valid end in
    /// [`Status::WriteFault`]; the write pointer stays.
    pub fn fail_writes(&mut self, zone: ZoneIndex, count: u32) {
        self.faults_mut().writes.push((zone, count));
    }

    /// The next otherwise valid write or append that reaches the block ends in
    /// [`Status::WriteFault`]; the write pointer stays.
    pub fn fail_write_at(&mut self, zone: ZoneIndex, offset: u32) {
        self.faults_mut().unwritable.push((zone, offset));
    }

    /// Reads that touch the block end in [`Status::UnrecoveredReadError`] until its zone is reset.
    pub fn fail_reads(&mut self, zone: ZoneIndex, offset: u32) {
        self.faults_mut().unreadable.push((zone, offset));
    }

    /// Flips the bits of `mask` in one stored byte of a block: bytes `0..4096` are its data,
    /// `4096..4160` its metadata. The drive does not notice; the owner's checksums should.
    ///
    /// # Panics
    /// When the block was not written, or there is no such byte.
    pub fn corrupt(&mut self, zone: ZoneIndex, offset: u32, byte: usize, mask: u8) {
        let found = self.table.zone(zone);
        assert!(byte < STRIDE);
        if found.area.is_some() && offset >= found.write_pointer {
            let mut frame = Frame::zeroed();
            let is_read = self.read_window(zone, offset, &mut frame).is_ok();
            match byte.checked_sub(BLOCK_BYTES) {
                None => frame.data[byte] ^= mask,
                Some(byte) => frame.oob[byte] ^= mask,
            }
            assert!(
                is_read && self.replace_in_window(zone, offset, &frame),
                "only written blocks can be corrupted"
            );
            return;
        }
        assert!(offset < found.write_pointer, "only written blocks can be corrupted");
        self.media.flip(zone, offset, byte, mask);
    }

    /// The drive vanishes: every command, those in flight included, ends in
    /// [`Status::DeviceGone`]. The media is as it was; open it again to bring the drive back.
    pub fn die(&mut self) {
        self.faults_mut().dead = true;
    }

    fn faults_mut(&mut self) -> &mut Faults {
        self.faults.get_or_insert_default()
    }
}
