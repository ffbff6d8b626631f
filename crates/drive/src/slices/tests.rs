//! Slices of one drive against drives of their own.

use super::*;
use crate::emulated::EmulatedDrive;
use base::frame::Frame;
use base::random::Random;

const WHOLE: Geometry = Geometry {
    zones: 9,
    zone_size_blocks: 16,
    zone_capacity_blocks: 12,
    // An owner keeps its share: here no zone is one too many.
    open_zones_max: 18,
    active_zones_max: 19,
    append_blocks_max: 4,
    transfer_blocks_max: 8,
    volatile_cache: true,
    areas: None,
};

fn bells(count: usize) -> Vec<Bell> {
    (0..count).map(|_| Bell::new().unwrap()).collect()
}

fn frames(random: &mut Random) -> Vec<Frame> {
    let count = random.index(5) + 1;
    let fill = u8::try_from(random.index(256)).unwrap();
    let frame = |_| {
        let mut frame = Frame::zeroed();
        frame.data.fill(fill);
        frame
    };
    (0..count).map(frame).collect()
}

/// Any command, also for zones that are not there.
fn command(random: &mut Random, token: u64) -> Command {
    let zone = ZoneIndex(u32::try_from(random.index(6)).unwrap());
    let offset = u32::try_from(random.index(12)).unwrap();
    let op = match random.index(9) {
        0 => Op::Read { offset, frames: frames(random) },
        1 => Op::Write { offset, frames: frames(random) },
        2 | 3 => Op::Append { frames: frames(random) },
        4 => Op::Reset,
        5 => Op::Finish,
        6 => Op::Open,
        7 => Op::Report { count: 9 },
        _ => Op::Close,
    };
    Command { token: Token(token), zone, op }
}

/// All that an owner sees of an answer.
fn seen(answers: Vec<Completion>) -> Vec<String> {
    let one = |answer: Completion| {
        let data: Vec<u8> = answer.frames.iter().map(|frame| frame.data[0]).collect();
        let Completion { token, status, zone, offset, report, .. } = answer;
        format!("{token:?} {status:?} {zone:?} {offset} {data:?} {report:?}")
    };
    answers.into_iter().map(one).collect()
}

#[test]
fn a_slice_is_like_a_drive_of_its_own_whatever_others_do() {
    let own = WHOLE.slice(2);
    assert_eq!((own.zones, own.open_zones_max, own.active_zones_max), (4, 9, 9));
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let whole = EmulatedDrive::on_heap(WHOLE, [1; 16]).unwrap();
        let mut slices = cut(Box::new(whole), &bells(2));
        let mut twins: Vec<EmulatedDrive> =
            (0..2).map(|_| EmulatedDrive::on_heap(own, [2; 16]).unwrap()).collect();
        for token in 0..600 {
            let slice = random.index(2);
            let same = || command(&mut Random::from_seed(seed << 32 | token), token);
            let now = Instant(token);
            twins[slice].submit(now, same());
            slices[slice].submit(now, same());
            // Another owner takes the answers first.
            slices[1 - slice].poll(now, &mut Vec::new());
            let (mut answers, mut expected) = (Vec::new(), Vec::new());
            slices[slice].poll(now, &mut answers);
            twins[slice].poll(now, &mut expected);
            assert_eq!(seen(answers), seen(expected), "seed {seed}, command {token}");
        }
    }
}

#[test]
fn whoever_sleeps_is_woken_once_for_answers_that_another_one_took() {
    let bells = bells(2);
    let rings = || {
        let mut count = [0; 8];
        let descriptor = bells[1].descriptor().unwrap();
        rustix::io::read(&descriptor, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    };
    let whole = EmulatedDrive::on_heap(WHOLE, [1; 16]).unwrap();
    let mut slices = cut(Box::new(whole), &bells);
    let report = || Command { token: Token(7), zone: ZoneIndex(3), op: Op::Report { count: 9 } };
    slices[1].submit(Instant(5), report());
    slices[1].submit(Instant(4), report());
    for _ in 0..3 {
        slices[0].poll(Instant(3), &mut Vec::new());
    }
    assert_eq!(rings(), 1);
    let mut answers = Vec::new();
    slices[1].poll(Instant(3), &mut answers);
    assert_eq!(answers.len(), 2);
    assert_eq!((answers[0].token, answers[0].zone, answers[0].report.len()), (Token(7), ZoneIndex(3), 1));
    slices[0].poll(Instant(6), &mut Vec::new());
    assert_eq!(rings(), 0);
}

/// A drive that tidies up for a while after each command.
struct Tidy {
    inner: EmulatedDrive,
    until: Option<Instant>,
}

impl ZonedDevice for Tidy {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.until = Some(Instant(now.0 + 10));
        self.inner.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.until = self.until.filter(|until| *until > now);
        self.inner.poll(now, completions);
    }

    fn next_event(&self) -> Option<Instant> {
        self.until
    }
}

#[test]
fn a_drive_is_polled_for_work_of_its_own_when_no_command_is_under_way() {
    let inner = EmulatedDrive::on_heap(WHOLE, [1; 16]).unwrap();
    let mut slices = cut(Box::new(Tidy { inner, until: None }), &bells(2));
    let report = Command { token: Token(7), zone: ZoneIndex(3), op: Op::Report { count: 9 } };
    slices[0].submit(Instant(5), report);
    let mut answers = Vec::new();
    slices[0].poll(Instant(5), &mut answers);
    assert_eq!(answers.len(), 1);
    // Both owners are told, and the one that wakes first does it for both.
    for slice in &slices {
        assert_eq!(slice.next_event(), Some(Instant(15)));
    }
    slices[1].poll(Instant(14), &mut answers);
    assert_eq!(slices[1].next_event(), Some(Instant(15)));
    slices[1].poll(Instant(15), &mut answers);
    assert_eq!((slices[0].next_event(), slices[1].next_event(), answers.len()), (None, None, 1));
}
