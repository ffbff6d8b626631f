//! Blocks that a check has read ahead: it asks for one after the other, and a drive is asked for many at once.

use crate::log::Location;
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use std::collections::BTreeMap;
use zone::device::{Command, Op, Status, Token};
use zone::drives::{DriveCommand, DriveSet};

/// Blocks that are read at once of each member, a MiB, in commands of up to 128 KiB. They begin at multiples of that.
const AHEAD_BLOCKS: u32 = 256;
const COMMAND_BLOCKS_MAX: u32 = 32;

/// Blocks of a member's zone.
#[derive(Debug)]
struct Run {
    zone: ZoneIndex,
    first: u32,
    frames: Vec<Option<Frame>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// By member.
    runs: BTreeMap<DriveIndex, Run>,
}

impl Ahead {
    /// Takes a block of a zone that is written up to `end`, when commands that read it and its neighbours could be carried out. Who
    /// asks once more has it read anew.
    pub(super) fn take(
        &mut self,
        drives: &mut DriveSet,
        now: Instant,
        Location { drive, zone, offset }: Location,
        end: u32,
    ) -> Option<Frame> {
        let first = offset - offset % AHEAD_BLOCKS;
        if self.runs.get(&drive).is_none_or(|run| (run.zone, run.first) != (zone, first)) {
            let most = drives.geometry(drive)?.transfer_blocks_max.clamp(1, COMMAND_BLOCKS_MAX);
            let end = end.min(first + AHEAD_BLOCKS);
            let counts: Vec<u32> =
                (first..end).step_by(most as usize).map(|offset| most.min(end - offset)).collect();
            let read = |(index, count): (u32, &u32)| {
                let frames = (0..*count).map(|_| Frame::zeroed()).collect();
                let op = Op::Read { offset: first + index * most, frames };
                DriveCommand { drive, command: Command { token: Token(0), zone, op } }
            };
            let answers = drives.execute_all(now, (0..).zip(&counts).map(read).collect());
            let mut frames = Vec::new();
            for (count, answer) in counts.iter().zip(answers) {
                let end = frames.len() + *count as usize;
                if answer.status == Status::Success {
                    frames.extend(answer.frames.into_iter().map(Some));
                }
                frames.resize_with(end, || None);
            }
            self.runs.insert(drive, Run { zone, first, frames });
        }
        self.runs.get_mut(&drive)?.frames.get_mut((offset - first) as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drive::emulated::EmulatedDrive;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use zone::device::{Completion, Geometry, ZonedDevice};

    const ZONE: ZoneIndex = ZoneIndex(2);
    const WRITTEN: u32 = 300;
    const UNREADABLE: u32 = 70;

    const GEOMETRY: Geometry = Geometry {
        zones: 4,
        zone_size_blocks: 512,
        zone_capacity_blocks: 400,
        open_zones_max: 2,
        active_zones_max: 2,
        append_blocks_max: 16,
        transfer_blocks_max: 16,
        volatile_cache: false,
        areas: None,
    };

    /// A drive with a block that cannot be read, which counts reads.
    struct Media {
        drive: EmulatedDrive,
        reads: Arc<AtomicU32>,
    }

    impl ZonedDevice for Media {
        fn geometry(&self) -> &Geometry {
            self.drive.geometry()
        }

        fn submit(&mut self, now: Instant, command: Command) {
            self.reads.fetch_add(u32::from(matches!(command.op, Op::Read { .. })), Ordering::Relaxed);
            self.drive.submit(now, command);
        }

        fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
            let before = completions.len();
            self.drive.poll(now, completions);
            for answer in &mut completions[before..] {
                let end = answer.offset + u32::try_from(answer.frames.len()).unwrap();
                if answer.offset <= UNREADABLE && UNREADABLE < end && !answer.frames[0].is_blank() {
                    answer.status = Status::UnrecoveredReadError;
                    // A drive may return fewer frames than it was given, too.
                    answer.frames.truncate(1);
                }
            }
        }
    }

    fn drives(reads: &Arc<AtomicU32>) -> DriveSet {
        let mut drive = EmulatedDrive::on_heap(GEOMETRY, [7; 16]).unwrap();
        for offset in 0..WRITTEN {
            let mut frame = Frame::zeroed();
            frame.data[..4].copy_from_slice(&(offset + 1).to_le_bytes());
            let op = Op::Write { offset, frames: vec![frame] };
            drive.submit(Instant(0), Command { token: Token(0), zone: ZONE, op });
            let mut answers = Vec::new();
            drive.poll(Instant(0), &mut answers);
            assert_eq!(answers[0].status, Status::Success);
        }
        DriveSet::new(vec![Some(Box::new(Media { drive, reads: Arc::clone(reads) }))])
    }

    #[test]
    fn blocks_come_in_any_order_and_those_beside_a_bad_one_are_left_to_who_asks() {
        let reads = Arc::new(AtomicU32::new(0));
        let (mut drives, mut ahead) = (drives(&reads), Ahead::default());
        let mut number = |offset| {
            let location = Location { drive: DriveIndex(0), zone: ZONE, offset };
            let frame = ahead.take(&mut drives, Instant(0), location, WRITTEN)?;
            Some(u32::from_le_bytes(*frame.data.first_chunk().unwrap()))
        };
        let missed: Vec<u32> = (0..256).rev().filter(|offset| number(*offset) != Some(offset + 1)).collect();
        assert_eq!(missed, (64..80).rev().collect::<Vec<_>>(), "a command of sixteen blocks");
        assert_eq!(reads.load(Ordering::Relaxed), 16);
        assert_eq!(number(5), None, "each is taken once");
        assert!((256..WRITTEN).all(|offset| number(offset) == Some(offset + 1)));
        assert_eq!((number(WRITTEN), number(399)), (None, None), "nothing is read that was not written");
        assert_eq!(reads.load(Ordering::Relaxed), 16 + 3);
    }
}
