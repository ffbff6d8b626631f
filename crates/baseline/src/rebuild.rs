//! Rebuilding a member onto an empty drive, while clients wait: from the static mapping, and only what was written.
//!
//! 1. Zone by zone, what the member would hold: stripes that are complete are decoded from the other drives, of those
//!    that are open all data is in memory.
//! 2. Its log: a superblock without a sequence, which makes nobody a member, and the partial parity that lies there.
//! 3. A superblock on every drive says that nobody has failed. With the first of them the member counts.
//!
//! A crash before that leaves the member failed: its drive is to be emptied and given again. Each superblock says since
//! when each drive is a member, so that the one that was replaced is not believed when it returns.

use crate::config::count;
use crate::mount::{MountError, come_to_rest, execute};
use crate::parity_log::{ParityLog, Purpose};
use crate::volume::RaiznVolume;
use crate::write::seal_block;
use array::log::ReplaceError;
use array::log::expect_blank;
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use std::fmt;
use zone::device::{Op, Status, ZonedDevice};
use zone::format::oob::block_is_whole;

/// Why a member was not rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildError {
    /// The drive cannot take its place: nothing has changed.
    Refused(ReplaceError),
    /// Something failed on the way: the member is as failed as before.
    Stopped(MountError),
}

impl fmt::Display for RebuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebuildError::Refused(error) => error.fmt(f),
            RebuildError::Stopped(error) => write!(f, "the member was not rebuilt: {error}"),
        }
    }
}

impl std::error::Error for RebuildError {}

impl From<ReplaceError> for RebuildError {
    fn from(error: ReplaceError) -> RebuildError {
        RebuildError::Refused(error)
    }
}

impl From<MountError> for RebuildError {
    fn from(error: MountError) -> RebuildError {
        RebuildError::Stopped(error)
    }
}

/// Gives an empty drive the place of the member that failed, with all that it should hold. The volume must be at
/// rest; it is again when the others know, a few turns later.
///
/// # Errors
/// Why that cannot be. The drive is let go.
pub fn replace_member(
    volume: &mut RaiznVolume,
    now: Instant,
    member: DriveIndex,
    device: Box<dyn ZonedDevice>,
) -> Result<(), RebuildError> {
    Rebuild { volume }.run(now, member, device)
}

/// A rebuild in work.
struct Rebuild<'v> {
    volume: &'v mut RaiznVolume,
}

impl Rebuild<'_> {
    fn run(
        &mut self,
        now: Instant,
        member: DriveIndex,
        device: Box<dyn ZonedDevice>,
    ) -> Result<(), RebuildError> {
        self.can_replace(member.index())?;
        let device = expect_blank(device, &self.volume.engine.config.geometry, now)?;
        self.volume.drives.replace(member, device);
        let rebuilt = self.copy_zones(member.index(), now).and_then(|()| self.begin_log(member.index(), now));
        if let Err(error) = rebuilt {
            self.volume.drives.remove(member);
            if let MountError::Drive { member: other, status: Status::DeviceGone } = error
                && other != member.index()
            {
                self.volume.engine.lose_member(other, &mut self.volume.effects);
            }
            return Err(error.into());
        }
        self.volume.engine.record_members(&mut self.volume.effects);
        Ok(())
    }

    fn can_replace(&mut self, member: usize) -> Result<(), ReplaceError> {
        let members = self.volume.engine.config.members;
        self.volume.engine.members.can_replace(member, members)?;
        // What is recorded of members goes beyond what logs otherwise keep free: that room must not run out.
        for other in (0..members).filter(|other| *other != member) {
            self.volume.engine.log_has_room(other, &mut self.volume.effects);
        }
        if self.volume.is_at_rest() { Ok(()) } else { Err(ReplaceError::Busy) }
    }

    fn copy_zones(&mut self, member: usize, now: Instant) -> Result<(), MountError> {
        let map = self.volume.engine.map;
        for zone in 0..self.volume.engine.config.logical_zones() {
            for stripe in 0..self.volume.engine.zones[zone as usize].closed_stripes(&map) {
                let frames = self.decode_piece(member, (zone, stripe), now)?;
                self.write_rebuilt(member, (zone, stripe), frames, now)?;
            }
            for index in 0..self.volume.engine.zones[zone as usize].stripes.len() {
                let (number, frames) = self.open_piece(member, zone, index);
                self.write_rebuilt(member, (zone, number), frames, now)?;
            }
        }
        Ok(())
    }

    /// A member's piece of a stripe that is complete, decoded from the others.
    fn decode_piece(
        &mut self,
        member: usize,
        (zone, stripe): (u32, u32),
        now: Instant,
    ) -> Result<Vec<Frame>, MountError> {
        let map = self.volume.engine.map;
        let piece = map.piece_of(zone, stripe, member);
        let rows = map.chunk_blocks();
        let mut others: Vec<(usize, Vec<Frame>)> = Vec::new();
        for other in (0..map.layout.members()).filter(|other| *other != piece) {
            others.push((other, self.read_piece((zone, stripe), other, now)?));
        }
        let mut rebuilt = Vec::new();
        for row in 0..rows {
            let known: Vec<_> =
                others.iter().map(|(other, frames)| (*other, &frames[row as usize].data)).collect();
            let mut frame = Frame::zeroed();
            map.layout.code.decode(piece, &known, &mut frame.data);
            seal_block(&mut frame, &self.volume.engine.place_at(zone, stripe, piece, row));
            rebuilt.push(frame);
            // The right parity has a place again.
            if piece == map.data_count()
                && let Some(moved) = self.volume.engine.logs.relocated.remove(&(zone, stripe, row))
            {
                self.volume.engine.frames.give(moved);
            }
        }
        Ok(rebuilt)
    }

    /// A piece of a complete stripe as it should be: parity that was relocated stands for what is in its place.
    fn read_piece(
        &mut self,
        (zone, stripe): (u32, u32),
        piece: usize,
        now: Instant,
    ) -> Result<Vec<Frame>, MountError> {
        let map = self.volume.engine.map;
        let member = map.drive_of(zone, stripe, piece);
        let frames = (0..map.chunk_blocks()).map(|_| Frame::zeroed()).collect();
        let first = map.offset(stripe, 0);
        let op = Op::Read { offset: first, frames };
        let mut frames = execute(&mut self.volume.drives, member, ZoneIndex(zone), op, now)?.frames;
        for (row, frame) in (0..).zip(&mut frames) {
            let relocated = self.volume.engine.logs.relocated.get(&(zone, stripe, row));
            if let Some(right) = relocated.filter(|_| piece == map.data_count()) {
                frame.set_data(&right.data);
            } else if !block_is_whole(frame, &self.volume.engine.place_at(zone, stripe, piece, row)) {
                return Err(MountError::Damaged { member, zone, offset: first + row });
            }
        }
        Ok(frames)
    }

    /// A member's piece of a stripe that is open, as far as it is written.
    fn open_piece(&self, member: usize, zone: u32, index: usize) -> (u32, Vec<Frame>) {
        let map = self.volume.engine.map;
        let stripe = &self.volume.engine.zones[zone as usize].stripes[index];
        let piece = map.piece_of(zone, stripe.number, member);
        assert!(!stripe.sealed, "at rest, a stripe that is full is complete");
        let frame_of = |row: u32| {
            let mut frame = Frame::zeroed();
            frame.set_data(&stripe.data[map.within(piece, row) as usize].data);
            seal_block(&mut frame, &self.volume.engine.place_at(zone, stripe.number, piece, row));
            frame
        };
        (stripe.number, (0..map.rows_below(piece, stripe.issued)).map(frame_of).collect())
    }

    fn write_rebuilt(
        &mut self,
        member: usize,
        (zone, stripe): (u32, u32),
        frames: Vec<Frame>,
        now: Instant,
    ) -> Result<(), MountError> {
        if frames.is_empty() {
            return Ok(());
        }
        self.volume.engine.counters.blocks_rebuilt += u64::from(count(frames.len()));
        let op = Op::Write { offset: self.volume.engine.map.offset(stripe, 0), frames };
        execute(&mut self.volume.drives, member, ZoneIndex(zone), op, now).map(|_| ())
    }

    /// The member's log says what it must before the others may be lost.
    fn begin_log(&mut self, member: usize, mut now: Instant) -> Result<(), MountError> {
        let map = self.volume.engine.map;
        let engine = &mut self.volume.engine;
        engine.logs.drives[member] = ParityLog::default();
        engine.members.failed = None;
        // One for each attempt: a drive that was given up half way must not be taken for its successor.
        let sequence = engine.members.superblock_sequence + 1;
        engine.members.since[member] = u64::from(engine.members.epoch) << 32 | u64::from(sequence);
        engine.members.superblock_sequence = 0;
        engine.append_superblock(member, Purpose::Moved, &mut self.volume.effects);
        for zone in 0..engine.config.logical_zones() {
            for index in 0..engine.zones[zone as usize].stripes.len() {
                let stripe = &mut engine.zones[zone as usize].stripes[index];
                let (number, rows) = (stripe.number, 0..stripe.issued.min(map.chunk_blocks()));
                let is_here = map.parity_drive(zone, number) == member;
                if is_here && !rows.is_empty() {
                    stripe.is_logged = true;
                    engine.append_parity(zone, number, rows, Purpose::Moved, &mut self.volume.effects);
                }
            }
        }
        come_to_rest(self.volume, &mut now);
        let engine = &mut self.volume.engine;
        engine.members.superblock_sequence = sequence;
        match engine.members.failed {
            None => Ok(()),
            Some(lost) => {
                engine.members.failed = Some(member);
                Err(MountError::Drive { member: lost, status: Status::DeviceGone })
            }
        }
    }
}
