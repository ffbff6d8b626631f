//! A scripted disk below a patient one: it answers what it is told to, when it is told to.

#![allow(clippy::unwrap_used)]

use super::*;
use std::sync::{Arc, Mutex};

const PATIENCE: Nanos = Nanos(60_000_000_000);
const LIMIT: Nanos = Nanos(30_000_000_000);
const MS: u64 = 1_000_000;
const SECTORS: u64 = 800;

/// The disk, shared by its handles and the test.
struct Core {
    /// First bytes of blocks, as they are read.
    blocks: BTreeMap<u64, u8>,
    /// Of these, those that are durable.
    durable: BTreeMap<u64, u8>,
    /// Commands that were given and not answered.
    held: Vec<Command>,
    answers: Vec<Completion>,
    /// What was begun, in its order.
    log: Vec<String>,
    /// Commands are held until the test lets them go.
    holds: bool,
    /// Every command ends so.
    fails: Option<Status>,
    /// Handles with a lower number are dead.
    device: u32,
    volatile_cache: bool,
    oldest: Option<Instant>,
    /// Why a disk that came back is not to be used.
    refusal: Option<Loss>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Core>>);

struct Handle(Shared, u32, Geometry);

impl Shared {
    fn new(volatile_cache: bool) -> Shared {
        Shared(Arc::new(Mutex::new(Core {
            blocks: BTreeMap::new(),
            durable: BTreeMap::new(),
            held: Vec::new(),
            answers: Vec::new(),
            log: Vec::new(),
            holds: false,
            fails: None,
            device: 0,
            volatile_cache,
            oldest: None,
            refusal: None,
        })))
    }

    fn core(&self) -> std::sync::MutexGuard<'_, Core> {
        self.0.lock().unwrap()
    }

    fn handle(&self) -> Handle {
        let Core { device, volatile_cache, .. } = *self.core();
        Handle(self.clone(), device, Geometry { sectors: SECTORS, atomic_sectors: 1, volatile_cache })
    }

    fn disk(&self) -> PatientDisk {
        let way = Box::new(self.clone());
        let mut disk = PatientDisk::new(Box::new(self.handle()), way, PATIENCE, Some(LIMIT));
        disk.outlive_hiccups(true);
        disk
    }

    /// Power is lost, and with it what the cache holds.
    fn lose_cache(&self) {
        let mut core = self.core();
        core.blocks = core.durable.clone();
    }

    /// Commands that are held are cut off, not done.
    fn cut_off(&self) {
        let mut core = self.core();
        core.holds = false;
        for Command { token, op } in std::mem::take(&mut core.held) {
            core.answers.push(Completion { token, status: Status::DeviceGone, frames: op.into_frames() });
        }
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.core().log)
    }
}

impl DiskWay for Shared {
    fn look(&mut self) -> Result<Option<Box<dyn BlockDevice>>, Loss> {
        let Core { refusal, fails, .. } = *self.core();
        if let Some(loss) = refusal {
            return Err(loss);
        }
        if fails.is_some() {
            return Ok(None);
        }
        Ok(Some(Box::new(self.handle())))
    }
}

impl Core {
    fn carry_out(&mut self, Command { token, mut op }: Command) {
        let status = self.fails.unwrap_or(Status::Success);
        if status == Status::Success {
            match &mut op {
                Op::Read { sector, frames } => {
                    for (place, frame) in (*sector / FRAME_SECTORS..).zip(frames) {
                        frame.data.fill(self.blocks.get(&place).copied().unwrap_or(0));
                    }
                }
                Op::Write { sector, frames, durable } => {
                    for (place, frame) in (*sector / FRAME_SECTORS..).zip(frames) {
                        self.blocks.insert(place, frame.data[0]);
                        if *durable {
                            self.durable.insert(place, frame.data[0]);
                        }
                    }
                }
                Op::Flush => self.durable = self.blocks.clone(),
                Op::WriteZeroes { .. } | Op::Discard { .. } => {}
            }
        }
        self.answers.push(Completion { token, status, frames: op.into_frames() });
    }
}

impl BlockDevice for Handle {
    fn geometry(&self) -> &Geometry {
        &self.2
    }

    fn submit(&mut self, _: Instant, command: Command) {
        let mut core = self.0.core();
        let text = match &command.op {
            Op::Read { sector, .. } => format!("read {}", sector / FRAME_SECTORS),
            Op::Write { sector, frames, durable } => {
                let bytes: Vec<u8> = frames.iter().map(|frame| frame.data[0]).collect();
                format!(
                    "write {} {bytes:?}{}",
                    sector / FRAME_SECTORS,
                    if *durable { " durable" } else { "" }
                )
            }
            Op::Flush => "flush".to_owned(),
            Op::WriteZeroes { .. } | Op::Discard { .. } => "discard".to_owned(),
        };
        core.log.push(text);
        if core.device != self.1 {
            let Command { token, op } = command;
            return core.answers.push(Completion {
                token,
                status: Status::DeviceGone,
                frames: op.into_frames(),
            });
        }
        match core.holds {
            true => core.held.push(command),
            false => core.carry_out(command),
        }
    }

    fn poll(&mut self, _: Instant, completions: &mut Vec<Completion>) {
        completions.append(&mut self.0.core().answers);
    }

    fn condition(&mut self, _: Instant) -> Condition {
        let core = self.0.core();
        let loss = (core.device != self.1).then_some(Loss::Removed);
        Condition { loss, oldest: core.oldest, ..Condition::default() }
    }
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let frame = |byte: &u8| {
        let mut frame = Frame::zeroed();
        frame.data.fill(*byte);
        frame
    };
    bytes.iter().map(frame).collect()
}

fn write(place: u64, bytes: &[u8]) -> Op {
    Op::Write { sector: place * FRAME_SECTORS, frames: frames(bytes), durable: false }
}

fn durable(place: u64, bytes: &[u8]) -> Op {
    Op::Write { sector: place * FRAME_SECTORS, frames: frames(bytes), durable: true }
}

fn read(place: u64) -> Op {
    Op::Read { sector: place * FRAME_SECTORS, frames: frames(&[0]) }
}

fn submit(disk: &mut PatientDisk, ms: u64, token: u64, op: Op) {
    disk.submit(Instant(ms * MS), Command { token: Token(token), op });
}

/// Tokens and statuses of what is answered at a time.
fn poll(disk: &mut PatientDisk, ms: u64) -> Vec<(u64, Status)> {
    let mut completions = Vec::new();
    for _ in 0..8 {
        disk.poll(Instant(ms * MS), &mut completions);
    }
    completions.iter().map(|completion| (completion.token.0, completion.status)).collect()
}

/// Carries a command out that succeeds.
fn run(disk: &mut PatientDisk, ms: u64, op: Op) {
    submit(disk, ms, 99, op);
    assert_eq!(poll(disk, ms), [(99, Status::Success)]);
}

#[test]
fn what_was_not_flushed_is_written_again_before_what_was_cut_off() {
    let shared = Shared::new(true);
    let mut disk = shared.disk();
    run(&mut disk, 0, write(5, &[1, 2]));
    run(&mut disk, 0, Op::Flush);
    run(&mut disk, 0, write(9, &[3, 4]));
    run(&mut disk, 0, write(10, &[5]));
    run(&mut disk, 0, write(20, &[6]));
    run(&mut disk, 0, durable(20, &[7]));
    shared.core().holds = true;
    submit(&mut disk, 1, 1, write(9, &[8]));
    submit(&mut disk, 1, 2, read(5));
    shared.core().device = 1;
    shared.lose_cache();
    shared.cut_off();
    shared.log();
    assert_eq!(poll(&mut disk, 2), [(2, Status::Stalled), (1, Status::Success)]);
    assert_eq!(shared.log(), ["read 0", "write 9 [3, 5]", "write 9 [8]"], "block 20 is durable");
    assert_eq!(shared.core().blocks, BTreeMap::from([(5, 1), (6, 2), (9, 8), (10, 5), (20, 7)]));
    let hiccups = disk.condition(Instant(3 * MS)).hiccups;
    assert_eq!((hiccups.count, hiccups.stalled_since, hiccups.last.unwrap().repeated), (1, None, 1));
    // It may lose that again.
    shared.lose_cache();
    shared.core().device = 2;
    submit(&mut disk, 4, 3, Op::Flush);
    assert_eq!(poll(&mut disk, 4), [(3, Status::Success)]);
    assert_eq!(shared.core().durable, BTreeMap::from([(5, 1), (6, 2), (9, 8), (10, 5), (20, 7)]));
}

#[test]
fn a_flush_waits_for_what_was_given_before_it() {
    let shared = Shared::new(true);
    let mut disk = shared.disk();
    run(&mut disk, 0, write(5, &[1]));
    shared.core().holds = true;
    submit(&mut disk, 1, 1, write(6, &[2]));
    // Power is lost and back, and nobody knows.
    shared.lose_cache();
    shared.core().holds = false;
    submit(&mut disk, 1, 2, Op::Flush);
    assert_eq!(poll(&mut disk, 2), [], "it was carried out, and proves nothing");
    shared.cut_off();
    assert_eq!(poll(&mut disk, 3), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(shared.core().durable, BTreeMap::from([(5, 1), (6, 2)]));
}

#[test]
fn a_disk_without_a_volatile_cache_has_nothing_to_restore() {
    let shared = Shared::new(false);
    let mut disk = shared.disk();
    run(&mut disk, 0, write(5, &[1]));
    shared.core().device = 1;
    submit(&mut disk, 1, 1, write(6, &[2]));
    shared.log();
    assert_eq!(poll(&mut disk, 2), [(1, Status::Success)]);
    assert_eq!(shared.log(), ["read 0", "write 6 [2]"]);
}

#[test]
fn a_disk_that_stays_away_is_lost_when_patience_is_over() {
    let shared = Shared::new(true);
    let mut disk = shared.disk();
    run(&mut disk, 0, write(5, &[1]));
    shared.core().fails = Some(Status::WriteError);
    submit(&mut disk, 1, 1, write(6, &[2]));
    for second in 0..60 {
        assert_eq!(poll(&mut disk, 1 + 1000 * second), []);
        assert!(disk.is_stalled());
        assert_eq!(disk.condition(Instant(0)).loss, None);
    }
    submit(&mut disk, 60_000, 2, read(5));
    let answers = poll(&mut disk, 60_001);
    assert_eq!(answers, [(1, Status::DeviceGone), (2, Status::DeviceGone)]);
    assert_eq!(disk.condition(Instant(0)).loss, Some(Loss::Interrupted));
    submit(&mut disk, 60_002, 3, Op::Flush);
    assert_eq!(poll(&mut disk, 60_002), [(3, Status::DeviceGone)]);
}

#[test]
fn a_write_that_fails_twice_is_an_error_and_a_read_that_fails_is_one() {
    let shared = Shared::new(true);
    let mut disk = shared.disk();
    run(&mut disk, 0, write(5, &[1]));
    shared.core().fails = Some(Status::WriteError);
    submit(&mut disk, 1, 1, write(6, &[2]));
    shared.core().fails = None;
    assert_eq!(poll(&mut disk, 1), [(1, Status::Success)], "it was given again");
    shared.core().fails = Some(Status::WriteError);
    submit(&mut disk, 2, 2, write(7, &[3]));
    shared.core().fails = None;
    shared.core().holds = true;
    assert_eq!(poll(&mut disk, 2), []);
    // The disk returns a block, takes what is restored, and fails the write once more.
    for _ in 0..2 {
        let mut core = shared.core();
        for command in std::mem::take(&mut core.held) {
            core.carry_out(command);
        }
        drop(core);
        assert_eq!(poll(&mut disk, 2), []);
    }
    shared.core().holds = false;
    let again = shared.core().held.pop().unwrap();
    assert!(matches!(again.op, Op::Write { sector: 56, .. }), "{again:?}");
    let (token, frames) = (again.token, again.op.into_frames());
    shared.core().answers.push(Completion { token, status: Status::WriteError, frames });
    assert_eq!(poll(&mut disk, 3), [(2, Status::WriteError)]);
    assert!(!disk.is_stalled());
    // A block that cannot be read, of a disk that is there.
    let count = disk.condition(Instant(0)).hiccups.count;
    shared.core().fails = Some(Status::ReadError);
    submit(&mut disk, 4, 3, read(5));
    shared.core().fails = None;
    assert_eq!(poll(&mut disk, 4), [(3, Status::ReadError)]);
    assert_eq!(disk.condition(Instant(0)).hiccups.count, count);
    // And of one that is not.
    shared.core().fails = Some(Status::ReadError);
    submit(&mut disk, 5, 4, read(5));
    assert_eq!(poll(&mut disk, 5), [(4, Status::Stalled)]);
}

#[test]
fn what_another_wrote_meanwhile_is_not_written_over() {
    let shared = Shared::new(true);
    let mut disk = shared.disk();
    run(&mut disk, 0, write(5, &[1]));
    shared.core().device = 1;
    shared.core().refusal = Some(Loss::Changed);
    submit(&mut disk, 1, 1, write(6, &[2]));
    shared.log();
    assert_eq!(poll(&mut disk, 1), [(1, Status::DeviceGone)]);
    assert_eq!((shared.log(), disk.condition(Instant(0)).loss), (vec![], Some(Loss::Changed)));
}

#[test]
fn a_command_that_hangs_stalls_the_disk_and_patience_does_not_run() {
    let shared = Shared::new(true);
    let mut disk = shared.disk();
    shared.core().holds = true;
    submit(&mut disk, 0, 1, write(5, &[1]));
    submit(&mut disk, 0, 2, read(7));
    shared.core().oldest = Some(Instant(0));
    for second in 1..30 {
        assert_eq!((poll(&mut disk, 1000 * second), disk.is_stalled()), (vec![], false));
        disk.condition(Instant(1000 * second * MS));
    }
    disk.condition(Instant(30_000 * MS));
    assert_eq!(poll(&mut disk, 30_000), [(2, Status::Stalled)]);
    for second in 31..200 {
        assert_eq!((poll(&mut disk, 1000 * second), disk.is_stalled()), (vec![], true));
    }
    shared.core().holds = false;
    let held = std::mem::take(&mut shared.core().held);
    held.into_iter().for_each(|command| shared.core().carry_out(command));
    assert_eq!(poll(&mut disk, 200_000), [(1, Status::Success)]);
    assert!(!disk.is_stalled());
}

#[test]
fn a_ledger_that_is_full_lets_writes_wait_for_a_flush() {
    let shared = Shared::new(true);
    let mut disk = shared.disk();
    shared.core().holds = true;
    disk.ledger.note(0, &frames(&[2; 8192]));
    assert_eq!(poll(&mut disk, 1), []);
    assert_eq!(shared.log(), ["flush"], "one, of its own");
    disk.ledger.note(10_000, &frames(&[2; 8192]));
    submit(&mut disk, 2, 1, write(50, &[3]));
    submit(&mut disk, 2, 2, durable(1, &[4]));
    assert_eq!(shared.log(), ["write 1 [4] durable"], "others do not wait");
    shared.core().holds = false;
    let held = std::mem::take(&mut shared.core().held);
    held.into_iter().for_each(|command| shared.core().carry_out(command));
    let mut answers = poll(&mut disk, 3);
    answers.sort_unstable_by_key(|(token, _)| *token);
    assert_eq!(answers, [(1, Status::Success), (2, Status::Success)]);
}
