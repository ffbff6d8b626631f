//! Rebuilding a member onto an empty drive, while clients wait: from the static mapping, and only what was written.
//!
//! 1. Zone by zone, what the member would hold: stripes that are committed are decoded from the other drives and committed again; of
//!    the one that is open all data is in memory, and what is due of it goes to the window, partial parity too.
//! 2. Its log: a superblock without a sequence, which makes nobody a member, and how far zones are written.
//! 3. A superblock on every drive says that nobody has failed. With the first of them the member counts.
//!
//! A crash before that leaves the member failed: its drive is to be emptied and given again.

use super::config::logical_zones;
use super::log::{Log, Purpose};
use super::logical_zone::{Kind, Part, Partial, State};
use super::{Zraid, ZraidVolume};
use crate::config::{Spot, count};
use crate::mount::{MountError, come_to_rest, execute};
use crate::rebuild::RebuildError;
use array::engine::Effects;
use array::log::{ReplaceError, expect_blank};
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Op, Status, ZonedDevice};

/// Gives an empty drive the place of the member that failed, with all that it should hold. The volume must be at
/// rest; it is again when the others know, a few turns later.
///
/// # Errors
/// Why that cannot be. The drive is let go.
pub fn replace_member(
    volume: &mut ZraidVolume,
    now: Instant,
    member: DriveIndex,
    device: Box<dyn ZonedDevice>,
) -> Result<(), RebuildError> {
    let mut rebuild = Rebuild { volume, member: member.index(), now };
    rebuild.can_replace()?;
    let device = expect_blank(device, &rebuild.volume.engine.config.geometry, now)?;
    rebuild.volume.drives.replace(member, device);
    if let Err(error) = rebuild.copy_zones().and_then(|()| rebuild.begin_log()) {
        rebuild.volume.drives.remove(member);
        if let MountError::Drive { member: other, status: Status::DeviceGone } = error
            && other != member.index()
        {
            rebuild.volume.engine.lose_member(other, &mut rebuild.volume.effects);
        }
        return Err(error.into());
    }
    let (engine, fx) = (&mut volume.engine, &mut volume.effects);
    engine.record_members(fx);
    engine.settle_all(fx);
    Ok(())
}

/// A rebuild in work.
struct Rebuild<'v> {
    volume: &'v mut ZraidVolume,
    member: usize,
    now: Instant,
}

impl Rebuild<'_> {
    fn can_replace(&self) -> Result<(), ReplaceError> {
        let engine = &self.volume.engine;
        engine.members.can_replace(self.member, engine.config.members)?;
        if self.volume.is_at_rest() { Ok(()) } else { Err(ReplaceError::Busy) }
    }

    fn copy_zones(&mut self) -> Result<(), MountError> {
        for zone in 0..logical_zones(&self.volume.engine.config) {
            if self.volume.engine.zones[zone as usize].state == State::Empty {
                continue;
            }
            self.execute(self.member, zone, Op::OpenWithArea)?;
            let first = self.volume.engine.zones[zone as usize].stripes.front().map(|stripe| stripe.number);
            let whole =
                self.volume.engine.zones[zone as usize].placed / self.volume.engine.map.stripe_blocks();
            for stripe in 0..first.unwrap_or(whole) {
                let frames = self.decode_piece(zone, stripe)?;
                let offset = self.volume.engine.map.offset(stripe, 0);
                let end = offset + count(frames.len());
                self.execute(self.member, zone, Op::Write { offset, frames })?;
                self.execute(self.member, zone, Op::Commit { end })?;
            }
            for part in first.map(|stripe| self.open_parts(zone, stripe)).unwrap_or_default() {
                self.write_part(zone, part)?;
            }
            let end = self.volume.engine.zones[zone as usize].writers[self.member].committed;
            if end > self.volume.engine.map.offset(first.unwrap_or(whole), 0) {
                self.execute(self.member, zone, Op::Commit { end })?;
            }
        }
        Ok(())
    }

    fn execute(&mut self, member: usize, zone: u32, op: Op) -> Result<Vec<Frame>, MountError> {
        execute(&mut self.volume.drives, member, ZoneIndex(zone), op, self.now).map(|done| done.frames)
    }

    /// The member's piece of a stripe that is committed, decoded from the others.
    fn decode_piece(&mut self, zone: u32, stripe: u32) -> Result<Vec<Frame>, MountError> {
        let map = self.volume.engine.map;
        let lost = map.piece_of(zone, stripe, self.member);
        let offset = map.offset(stripe, 0);
        let mut others: Vec<(usize, Vec<Frame>)> = Vec::new();
        for piece in (0..map.layout.members()).filter(|piece| *piece != lost) {
            let member = map.drive_of(zone, stripe, piece);
            let frames = (0..map.chunk_blocks()).map(|_| Frame::zeroed()).collect();
            let frames = self.execute(member, zone, Op::Read { offset, frames })?;
            for (row, frame) in (0..).zip(&frames) {
                if !self.volume.engine.is_piece(frame, zone, Spot { stripe, piece, row }) {
                    return Err(MountError::Damaged { member, zone, offset: offset + row });
                }
            }
            others.push((piece, frames));
        }
        let mut rebuilt = Vec::new();
        for row in 0..map.chunk_blocks() {
            let known: Vec<_> =
                others.iter().map(|(piece, frames)| (*piece, &frames[row as usize].data)).collect();
            let mut frame = Frame::zeroed();
            map.layout.code.decode(lost, &known, &mut frame.data);
            let part = Part { stripe, kind: Kind::Piece(lost), row, rows: 1 };
            self.volume.engine.seal(zone, part, row, &mut frame);
            rebuilt.push(frame);
        }
        Ok(rebuilt)
    }

    /// Parts that are due on the member's drive of the stripe that is open: data, and partial parity.
    fn open_parts(&self, zone: u32, stripe: u32) -> Vec<Part> {
        let engine = &self.volume.engine;
        let map = &engine.map;
        let open = engine.zones[zone as usize].stripe(stripe).expect("it is the first one");
        let piece = map.piece_of(zone, stripe, self.member);
        assert!(!open.is_full(map), "at rest, a stripe that is full is committed");
        let data = map.rows_below(piece, count(open.data.len()));
        let mut parts = vec![Part { stripe, kind: Kind::Piece(piece), row: 0, rows: data }];
        if let Some(before) = piece.checked_sub(1) {
            let is_done = |row: &u32| open.partial[map.within(before, *row) as usize] == Partial::Done;
            let rows = (0..map.chunk_blocks()).filter(is_done);
            parts.extend(rows.map(|row| Part { stripe, kind: Kind::Partial(before), row, rows: 1 }));
        }
        parts.retain(|part| part.rows > 0);
        parts
    }

    fn write_part(&mut self, zone: u32, part: Part) -> Result<(), MountError> {
        let engine = &mut self.volume.engine;
        let mut offset = engine.map.offset(part.stripe, part.row);
        if let Kind::Partial(_) = part.kind {
            offset += engine.limits.half;
            if offset >= engine.limits.capacity {
                // It goes to the log.
                return Ok(());
            }
        }
        let mut frames: Vec<Frame> = (0..part.rows).map(|_| Frame::zeroed()).collect();
        for (frame, row) in frames.iter_mut().zip(part.row..) {
            engine.fill(zone, part, row, frame);
        }
        self.execute(self.member, zone, Op::Write { offset, frames }).map(|_| ())
    }

    /// The member's log says what it must before the others may be lost.
    fn begin_log(&mut self) -> Result<(), MountError> {
        let (engine, fx) = (&mut self.volume.engine, &mut self.volume.effects);
        let member = self.member;
        engine.logs[member] = Log::default();
        engine.members.failed = None;
        // One for each attempt: a drive that was given up half way must not be taken for its successor.
        let sequence = engine.members.superblock_sequence + 1;
        engine.members.since[member] = u64::from(engine.members.epoch) << 32 | u64::from(sequence);
        engine.members.superblock_sequence = 0;
        let superblock = engine.superblock(member);
        engine.members.superblock_sequence = sequence;
        engine.append(member, Purpose::Mounted, vec![superblock], fx);
        for block in engine.positions() {
            engine.append(member, Purpose::Mounted, vec![block], fx);
        }
        for zone in 0..logical_zones(&engine.config) {
            engine.log_partials_again(member, zone, fx);
        }
        come_to_rest(self.volume, &mut self.now);
        let engine = &mut self.volume.engine;
        match engine.members.failed {
            None => Ok(()),
            Some(lost) => {
                engine.members.failed = Some(member);
                Err(MountError::Drive { member: lost, status: Status::DeviceGone })
            }
        }
    }
}

impl Zraid {
    /// The partial parity of a logical zone's open stripes that a member's log is to hold.
    fn log_partials_again(&mut self, member: usize, zone: u32, fx: &mut Effects) {
        let ends = |stripe: &u32| self.map.offset(*stripe, 0) + self.limits.half >= self.limits.capacity;
        let open = self.zones[zone as usize].stripes.iter().map(|stripe| stripe.number);
        let stripes: Vec<u32> = open.filter(ends).collect();
        for stripe in stripes {
            for part in self.logged_parts(member, zone, stripe) {
                let mut frame = self.frames.take();
                self.fill(zone, part, part.row, &mut frame);
                self.append(member, Purpose::PartialAgain(zone, stripe), vec![frame], fx);
            }
        }
    }
}
