//! Timing changes when a command is done and nothing else: random commands give the same statuses,
//! places, contents and zone states on a drive without timing, on one with timing in virtual time,
//! and on one with timing on the wall clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
use drive::TimedDrive;
use drive::emulated::{CreateOptions, EmulatedDrive};
use drive::timing::{ModelOptions, Profile};
use proptest::prelude::*;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneDescriptor, ZonedDevice};

const GEOMETRY: Geometry = Geometry {
    zones: 5,
    zone_size_blocks: 96,
    zone_capacity_blocks: 70,
    open_zones_max: 2,
    active_zones_max: 3,
    append_blocks_max: 16,
    transfer_blocks_max: 40,
    volatile_cache: false,
    areas: None,
};

/// A command, before it is known where the write pointer will be. Zones and block counts reach
/// beyond what is allowed.
#[derive(Clone, Debug)]
enum Wish {
    Append {
        zone: u32,
        blocks: u32,
    },
    /// Writes at the write pointer as it will be, moved by `skew`.
    Write {
        zone: u32,
        skew: i32,
        blocks: u32,
    },
    Read {
        zone: u32,
        offset: u32,
        blocks: u32,
    },
    Reset(u32),
    Finish(u32),
    Open(u32),
    Close(u32),
    Flush,
}

fn wish() -> impl Strategy<Value = Wish> {
    let zone = || 0..GEOMETRY.zones + 1;
    let blocks = || prop_oneof![4 => 1..6_u32, 1 => 0..42_u32];
    prop_oneof![
        8 => (zone(), blocks()).prop_map(|(zone, blocks)| Wish::Append { zone, blocks }),
        8 => (zone(), prop_oneof![8 => Just(0), 1 => -1..2], blocks())
            .prop_map(|(zone, skew, blocks)| Wish::Write { zone, skew, blocks }),
        8 => (zone(), 0..96_u32, blocks())
            .prop_map(|(zone, offset, blocks)| Wish::Read { zone, offset, blocks }),
        2 => zone().prop_map(Wish::Reset),
        1 => zone().prop_map(Wish::Finish),
        1 => zone().prop_map(Wish::Open),
        1 => zone().prop_map(Wish::Close),
        1 => Just(Wish::Flush),
    ]
}

/// Visible part of a completion, by token.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    token: u64,
    status: Status,
    offset: u32,
    contents: Vec<u8>,
    report: Vec<ZoneDescriptor>,
}

impl From<Completion> for Seen {
    fn from(completion: Completion) -> Seen {
        let contents = completion.frames.iter().map(|frame| frame.data[17] ^ frame.oob[3]).collect();
        let Completion { token, status, offset, report, .. } = completion;
        Seen { token: token.0, status, offset, contents, report }
    }
}

fn frames(fill: u64, blocks: u32) -> Vec<Frame> {
    let byte = |block: u32| u8::try_from((fill * 31 + u64::from(block) * 7) % 251).unwrap();
    (0..blocks)
        .map(|block| {
            let mut frame = Frame::zeroed();
            frame.data.fill(byte(block));
            frame
        })
        .collect()
}

/// Commands of the wishes; every batch ends with a report of all zones.
fn commands(batch: &[Wish], pointers: &[ZoneDescriptor], first: u64) -> Vec<Command> {
    let mut planned: Vec<u32> = pointers.iter().map(|zone| zone.write_pointer.min(70)).collect();
    planned.push(0);
    let mut commands = Vec::new();
    for (token, wish) in (first..).zip(batch) {
        let (zone, op) = match *wish {
            Wish::Append { zone, blocks } => {
                planned[zone as usize] += blocks;
                (zone, Op::Append { frames: frames(token, blocks) })
            }
            Wish::Write { zone, skew, blocks } => {
                let offset = planned[zone as usize].saturating_add_signed(skew);
                planned[zone as usize] += blocks;
                (zone, Op::Write { offset, frames: frames(token, blocks) })
            }
            Wish::Read { zone, offset, blocks } => (zone, Op::Read { offset, frames: frames(0, blocks) }),
            Wish::Reset(zone) => {
                planned[zone as usize] = 0;
                (zone, Op::Reset)
            }
            Wish::Finish(zone) => (zone, Op::Finish),
            Wish::Open(zone) => (zone, Op::Open),
            Wish::Close(zone) => (zone, Op::Close),
            Wish::Flush => (0, Op::Flush),
        };
        commands.push(Command { token: Token(token), zone: ZoneIndex(zone), op });
    }
    let token = Token(first + batch.len() as u64);
    commands.push(Command { token, zone: ZoneIndex(0), op: Op::Report { count: u32::MAX } });
    commands
}

/// Clock of a drive: how time passes for it.
enum Clock {
    /// Everything is done at once.
    None,
    /// From event to event.
    Virtual {
        now: Instant,
        apart: Nanos,
    },
    Wall {
        start: std::time::Instant,
    },
}

impl Clock {
    fn now(&self) -> Instant {
        match self {
            Clock::None => Instant(0),
            Clock::Virtual { now, .. } => *now,
            Clock::Wall { start } => Instant(u64::try_from(start.elapsed().as_nanos()).unwrap()),
        }
    }

    fn run(&mut self, drive: &mut dyn ZonedDevice, commands: Vec<Command>) -> Vec<Seen> {
        let count = commands.len();
        let mut completions = Vec::new();
        for command in commands {
            drive.submit(self.now(), command);
            match self {
                // One at a time: within a poll, a drive may bring commands forward past those of
                // other zones, and limits may hit others.
                Clock::None => drive.poll(Instant(0), &mut completions),
                Clock::Virtual { now, apart } => {
                    *now = *now + *apart;
                    drive.poll(*now, &mut completions);
                }
                Clock::Wall { .. } => {}
            }
        }
        while completions.len() < count {
            let before = completions.len();
            let due = drive.next_event();
            if let (Clock::Virtual { now, .. }, Some(due)) = (&mut *self, due) {
                *now = (*now).max(due);
            }
            let now = self.now();
            drive.poll(now, &mut completions);
            assert!(completions.len() == before || due.is_none_or(|due| due <= now), "nothing comes early");
        }
        let mut seen: Vec<Seen> = completions.into_iter().map(Seen::from).collect();
        seen.sort_by_key(|seen| seen.token);
        seen
    }
}

/// A drive whose resets and programs do not keep a test waiting.
fn fast_profile() -> Profile {
    let text = include_str!("../profiles/zn540-1tb.toml")
        .replace("program_us = 2494.0 ", "program_us = 24.0 ")
        .replace("reset_us = 1603.0 ", "reset_us = 16.0 ")
        .replace("reset_occupancy_us = 13690.0 ", "reset_occupancy_us = 136.0 ")
        .replace("reset_partial_us = 2820.0 ", "reset_partial_us = 28.0 ")
        .replace("reset_tail_us = 1300.0 ", "reset_tail_us = 13.0 ")
        .replace("finish_us = 7700.0 ", "finish_us = 77.0 ")
        .replace("finish_last_us = 2560.0 ", "finish_last_us = 25.0 ");
    Profile::from_toml(&text).unwrap()
}

fn timed(profile: &Profile, seed: u64) -> TimedDrive {
    let drive = EmulatedDrive::on_heap(GEOMETRY, [9; 16]).unwrap();
    TimedDrive::new(drive, profile, ModelOptions { seed, ..ModelOptions::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn timing_changes_nothing_but_time(
        batches in proptest::collection::vec(proptest::collection::vec(wish(), 1..12), 1..12),
        apart in 0..20_000_u64,
    ) {
        let fast = fast_profile();
        let mut plain = EmulatedDrive::on_heap(GEOMETRY, [9; 16]).unwrap();
        let mut slow = timed(&Profile::named("zn540-1tb").unwrap(), 1);
        let mut virtual_drive = timed(&fast, 2);
        let mut wall = timed(&fast, 3);
        let mut clocks = [
            Clock::None,
            Clock::Virtual { now: Instant(0), apart: Nanos(apart) },
            Clock::Virtual { now: Instant(0), apart: Nanos(0) },
            Clock::Wall { start: std::time::Instant::now() },
        ];
        let mut drives: [&mut dyn ZonedDevice; 4] = [&mut plain, &mut slow, &mut virtual_drive, &mut wall];
        let mut pointers = vec![
            ZoneDescriptor { state: zone::device::ZoneState::Empty, write_pointer: 0, capacity: 70, has_area: false };
            GEOMETRY.zones as usize
        ];
        let mut token = 0;
        for batch in &batches {
            let mut seen = drives.iter_mut().zip(&mut clocks)
                .map(|(drive, clock)| clock.run(&mut **drive, commands(batch, &pointers, token)))
                .collect::<Vec<_>>();
            for other in &seen[1..] {
                prop_assert_eq!(other, &seen[0]);
            }
            pointers = seen.swap_remove(0).pop().unwrap().report;
            token += batch.len() as u64 + 1;
        }
    }
}

/// A timed drive has no thread of its own that would look.
#[test]
fn a_timed_drive_on_a_disk_notices_that_its_file_is_gone() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let path = place.path().join("drive");
    let drive = EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
    let mut drive = TimedDrive::new(
        drive,
        &Profile::named("zn540-1tb").expect("a built-in profile"),
        ModelOptions::default(),
    );
    assert_eq!(drive.condition(Instant(0)).loss, None);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(drive.condition(Instant(1)).loss, Some(zone::condition::Loss::Unlinked));
}
