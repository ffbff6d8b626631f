//! The null drive: it obeys every rule of a zoned drive and keeps no data.
//!
//! A benchmark against it measures what the engine itself costs. A command is executed when it is
//! submitted, against a [`ZoneTable`], and completes at the next poll. Nothing is allocated once
//! the list of completions has grown to the caller's queue depth; reports are the exception.
//!
//! `cargo run --release -p zoneweave-drive --example drive_cost` prints the cost of a command.

use crate::answer::{Asked, block_count};
use base::time::Instant;
use zone::device::{Command, Completion, Geometry, Op, ZonedDevice};
use zone::rules::ZoneTable;

/// A drive that forgets data but never a write pointer.
///
/// Bad at: reads. Frames come back as they went, whatever was written.
#[derive(Debug)]
pub struct NullDrive {
    geometry: Geometry,
    table: ZoneTable,
    ready: Vec<Completion>,
}

impl NullDrive {
    /// A drive with every zone empty.
    #[must_use]
    pub fn new(geometry: Geometry) -> NullDrive {
        NullDrive { geometry, table: ZoneTable::new(geometry), ready: Vec::new() }
    }
}

impl ZonedDevice for NullDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn submit(&mut self, _now: Instant, command: Command) {
        let Command { token, zone, op } = command;
        let asked = Asked::of(token, zone, &op);
        let table = &mut self.table;
        let completion = match op {
            Op::Append { frames } => asked.appended(table.append(zone, block_count(&frames)), frames),
            Op::Write { offset, frames } => {
                asked.done(table.write(zone, offset, block_count(&frames)), frames)
            }
            Op::Read { offset, frames } => asked.done(table.read(zone, offset, block_count(&frames)), frames),
            Op::Reset => asked.plain(table.reset(zone)),
            Op::Finish => asked.plain(table.finish(zone)),
            Op::Open => asked.plain(table.open(zone)),
            Op::OpenWithArea => asked.plain(table.open_with_area(zone)),
            Op::Commit { end } => asked.plain(table.commit(zone, end)),
            Op::Close => asked.plain(table.close(zone)),
            Op::Report { count } => asked.report(table.report(zone, count)),
            Op::FindTurned { count } => asked.found(table.find_turned(zone, count)),
            Op::Flush | Op::SelfTest { .. } => asked.plain(Ok(())),
        };
        self.ready.push(completion);
    }

    #[inline]
    fn poll(&mut self, _now: Instant, completions: &mut Vec<Completion>) {
        if completions.is_empty() {
            std::mem::swap(completions, &mut self.ready);
        } else {
            completions.append(&mut self.ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::frame::Frame;
    use base::units::ZoneIndex;
    use zone::device::{Status, Token, ZoneState};

    fn drive() -> NullDrive {
        NullDrive::new(Geometry {
            zones: 4,
            zone_size_blocks: 8,
            zone_capacity_blocks: 6,
            open_zones_max: 2,
            active_zones_max: 3,
            append_blocks_max: 4,
            transfer_blocks_max: 4,
            volatile_cache: false,
            areas: None,
        })
    }

    fn run(drive: &mut NullDrive, zone: u32, op: Op) -> Completion {
        let mut completions = Vec::new();
        drive.submit(Instant(0), Command { token: Token(7), zone: ZoneIndex(zone), op });
        drive.poll(Instant(0), &mut completions);
        assert_eq!(completions.len(), 1);
        let completion = completions.pop().unwrap();
        assert_eq!(completion.token, Token(7));
        completion
    }

    fn frames(count: usize) -> Vec<Frame> {
        (0..count).map(|_| Frame::zeroed()).collect()
    }

    #[test]
    fn appends_tell_where_they_went_and_frames_come_home() {
        let mut drive = drive();
        let first = run(&mut drive, 1, Op::Append { frames: frames(4) });
        assert_eq!((first.status, first.offset, first.frames.len()), (Status::Success, 0, 4));
        let second = run(&mut drive, 1, Op::Append { frames: frames(2) });
        assert_eq!((second.status, second.offset), (Status::Success, 4));
        let third = run(&mut drive, 1, Op::Append { frames: frames(1) });
        assert_eq!((third.status, third.frames.len()), (Status::ZoneIsFull, 1));
    }

    #[test]
    fn the_rules_hold_for_every_operation() {
        let mut drive = drive();
        assert_eq!(
            run(&mut drive, 0, Op::Write { offset: 1, frames: frames(1) }).status,
            Status::ZoneInvalidWrite
        );
        assert_eq!(run(&mut drive, 0, Op::Write { offset: 0, frames: frames(1) }).status, Status::Success);
        assert_eq!(
            run(&mut drive, 0, Op::Read { offset: 6, frames: frames(3) }).status,
            Status::ZoneBoundaryError
        );
        assert_eq!(run(&mut drive, 1, Op::Close).status, Status::InvalidZoneStateTransition);
        assert_eq!(run(&mut drive, 1, Op::Open).status, Status::Success);
        assert_eq!(run(&mut drive, 0, Op::Finish).status, Status::Success);
        assert_eq!(run(&mut drive, 0, Op::Flush).status, Status::Success);
        let report = run(&mut drive, 0, Op::Report { count: 2 }).report;
        assert_eq!(
            report.iter().map(|zone| zone.state).collect::<Vec<_>>(),
            [ZoneState::Full, ZoneState::ExplicitOpen]
        );
        assert_eq!(run(&mut drive, 0, Op::Reset).status, Status::Success);
        assert_eq!(run(&mut drive, 9, Op::Reset).status, Status::LbaOutOfRange);
    }
}
