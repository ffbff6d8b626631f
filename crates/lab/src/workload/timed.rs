//! An emulated drive in the time of a model, in virtual time: the rules of zones hold for what is measured.

use crate::workload::Target;
use crate::workload::wall::op_of;
use anyhow::{Result, bail};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use drive::TimedDrive;
use drive::emulated::EmulatedDrive;
use drive::timing::{Access, Done, ModelOptions, Profile, Wear, ZoneCondition};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneDescriptor, ZonedDevice};

/// A drive in memory with the timing of a profile.
pub struct TimedTarget {
    drive: TimedDrive,
    completions: Vec<Completion>,
    frames: Vec<Frame>,
    /// The first command that failed.
    failure: Option<(Status, ZoneIndex)>,
}

impl TimedTarget {
    /// A drive of these zones, all empty.
    ///
    /// # Errors
    /// When no drive has such zones.
    pub fn new(profile: &Profile, geometry: Geometry, options: ModelOptions) -> Result<TimedTarget> {
        let drive = EmulatedDrive::on_heap(geometry, [0x2a; 16])?;
        let drive = TimedDrive::new(drive, profile, options);
        Ok(TimedTarget { drive, completions: Vec::new(), frames: Vec::new(), failure: None })
    }

    /// Wear of the drive's flash so far.
    #[must_use]
    pub fn wear(&self) -> Wear {
        self.drive.wear()
    }

    /// The timing of the drive, to be put into a certain state.
    pub fn drive_mut(&mut self) -> &mut TimedDrive {
        &mut self.drive
    }

    /// Descriptor of a zone, as the drive reports it.
    ///
    /// # Errors
    /// When there is no such zone.
    pub fn describe(&mut self, zone: u32) -> Result<ZoneDescriptor> {
        match self.aside(zone, Op::Report { count: 1 }).report.pop() {
            Some(descriptor) => Ok(descriptor),
            None => bail!("the drive has no zone {zone}"),
        }
    }

    /// Fails when a command did: what was measured is worth nothing then.
    ///
    /// # Errors
    /// The first failure.
    pub fn check(&self) -> Result<()> {
        match self.failure {
            None => Ok(()),
            Some((status, zone)) => bail!("the drive answered {status:?} to a command on zone {zone}"),
        }
    }

    /// Lets the drive do all that it has to do; returns the time at which it has.
    pub fn settle(&mut self, from: Instant) -> Instant {
        let mut now = from;
        while let Some(next) = self.drive.next_event() {
            now = now.max(next);
            self.advance(now, &mut Vec::new());
        }
        now
    }

    fn take(&mut self, bytes: u64) -> Vec<Frame> {
        let blocks = usize::try_from(bytes / BLOCK_BYTES_U64).expect("a transfer fits into memory");
        (0..blocks).map(|_| self.frames.pop().unwrap_or_else(Frame::zeroed)).collect()
    }

    fn note(&mut self, completion: &Completion) {
        if completion.status != Status::Success {
            self.failure.get_or_insert((completion.status, completion.zone));
        }
    }

    /// Executes one command without passing time. The model does not hear of it.
    fn aside(&mut self, zone: u32, op: Op) -> Completion {
        let mut completions = Vec::new();
        let drive = self.drive.drive_mut();
        drive.submit(Instant(0), Command { token: Token(0), zone: ZoneIndex(zone), op });
        drive.poll(Instant(0), &mut completions);
        let mut completion = completions.pop().expect("a drive in memory answers at once");
        self.note(&completion);
        self.frames.append(&mut completion.frames);
        completion
    }
}

impl Target for TimedTarget {
    fn zone_capacity_bytes(&self) -> u64 {
        u64::from(self.drive.geometry().zone_capacity_blocks) * BLOCK_BYTES_U64
    }

    fn submit(&mut self, now: Instant, tag: u64, access: Access) {
        let (zone, op) = op_of(access, |bytes| self.take(bytes));
        self.drive.submit(now, Command { token: Token(tag), zone: ZoneIndex(zone), op });
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<Instant> {
        [until, self.drive.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.drive.poll(now, &mut completions);
        for mut completion in completions.drain(..) {
            self.note(&completion);
            self.frames.append(&mut completion.frames);
            done.push(Done { tag: completion.token.0, at: now });
        }
        self.completions = completions;
    }

    /// Empties the zone and writes it anew, as the state asks.
    fn preset_zone(&mut self, zone: u32, written_bytes: u64, condition: ZoneCondition) {
        let most = u64::from(self.drive.geometry().transfer_blocks_max) * BLOCK_BYTES_U64;
        self.aside(zone, Op::Reset);
        let mut at = 0;
        while at < written_bytes {
            let bytes = most.min(written_bytes - at);
            let (_, op) = op_of(Access::Write { zone, offset_bytes: at, bytes }, |bytes| self.take(bytes));
            self.aside(zone, op);
            at += bytes;
        }
        let op = match condition {
            ZoneCondition::Empty | ZoneCondition::Written => None,
            ZoneCondition::Open => Some(Op::Open),
            ZoneCondition::Closed => Some(Op::Close),
            ZoneCondition::Finished => Some(Op::Finish),
        };
        if let Some(op) = op {
            self.aside(zone, op);
        }
        self.drive.model_mut().preset_zone(zone, written_bytes, condition);
    }

    fn preset_area(&mut self, zone: u32, held_bytes: u64) {
        let held = held_bytes / BLOCK_BYTES_U64;
        self.aside(zone, Op::Reset);
        self.aside(zone, Op::OpenWithArea);
        for offset in 0..u32::try_from(held).expect("within a zone") {
            self.aside(zone, Op::Write { offset, frames: vec![Frame::zeroed()] });
        }
        let model = self.drive.model_mut();
        model.preset_zone(zone, 0, ZoneCondition::Open);
        model.preset_area(zone, (0..held).map(|block| block * BLOCK_BYTES_U64));
    }
}
