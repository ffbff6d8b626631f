//! A drive on the wall clock: what it takes is what it takes.

use crate::workload::Target;
use anyhow::{Result, bail, ensure};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use drive::timing::{Access, Done, StackCosts, ZoneCondition};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};

/// Costs of a host that are measured with the drive: nothing is added.
pub const NO_COSTS: StackCosts = StackCosts {
    submit_us: 0.0,
    segments_us: 0.0,
    segment_bytes: u64::MAX,
    merge_us: 0.0,
    complete_us: 0.0,
    request_us: 0.0,
    think_us: 0.0,
    merges: false,
};

/// Token of commands outside the measurement.
const ASIDE: Token = Token(u64::MAX);

/// A drive that is measured in real time.
pub struct WallTarget {
    device: Box<dyn ZonedDevice>,
    started: std::time::Instant,
    in_flight: usize,
    completions: Vec<Completion>,
    done: Vec<Done>,
    frames: Vec<Frame>,
    /// The first command that failed.
    failure: Option<(Status, ZoneIndex)>,
}

impl WallTarget {
    /// Measures this drive.
    #[must_use]
    pub fn new(device: Box<dyn ZonedDevice>) -> WallTarget {
        WallTarget {
            device,
            started: std::time::Instant::now(),
            in_flight: 0,
            completions: Vec::new(),
            done: Vec::new(),
            frames: Vec::new(),
            failure: None,
        }
    }

    /// Fails when a command did, and forgets it: what was measured is worth nothing then.
    ///
    /// # Errors
    /// The first failure.
    pub fn take_failure(&mut self) -> Result<()> {
        match self.failure.take() {
            None => Ok(()),
            Some((status, zone)) => bail!("the drive answered {status:?} to a command on zone {zone}"),
        }
    }

    /// Zones and limits.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        *self.device.geometry()
    }

    /// Fails when one of these zones holds data.
    ///
    /// # Errors
    /// Names the zone.
    pub fn expect_empty(&mut self, zones: impl IntoIterator<Item = u32>) -> Result<()> {
        let count = self.device.geometry().zones;
        let report = self.aside(0, Op::Report { count }).report;
        for zone in zones {
            let state = report.get(zone as usize).map(|descriptor| descriptor.state);
            ensure!(
                state == Some(ZoneState::Empty),
                "zone {zone} of the drive is not empty: measuring would destroy what it holds; name an empty \
                 drive, or pass --overwrite"
            );
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        let elapsed = self.started.elapsed().as_nanos();
        Instant(u64::try_from(elapsed).expect("less than 584 years"))
    }

    fn blocks(bytes: u64) -> usize {
        usize::try_from(bytes / BLOCK_BYTES_U64).expect("checked by the caller")
    }

    fn take(&mut self, bytes: u64) -> Vec<Frame> {
        (0..WallTarget::blocks(bytes)).map(|_| self.frames.pop().unwrap_or_else(Frame::zeroed)).collect()
    }

    /// Waits until nothing is in flight, and forgets it.
    pub fn settle(&mut self) {
        while self.in_flight > 0 {
            self.poll();
        }
        let now = self.now();
        self.collect(now);
        self.done.clear();
    }

    /// Runs one command to its end.
    fn aside(&mut self, zone: u32, op: Op) -> Completion {
        let command = Command { token: ASIDE, zone: ZoneIndex(zone), op };
        self.device.submit(self.now(), command);
        self.in_flight += 1;
        loop {
            self.poll();
            let place = self.completions.iter().position(|completion| completion.token == ASIDE);
            if let Some(place) = place {
                return self.completions.swap_remove(place);
            }
        }
    }

    fn poll(&mut self) {
        let before = self.completions.len();
        self.device.poll(self.now(), &mut self.completions);
        self.in_flight -= self.completions.len() - before;
        for completion in &self.completions[before..] {
            if completion.status != Status::Success {
                self.failure.get_or_insert((completion.status, completion.zone));
            }
        }
    }

    /// Turns what completed into what the loop wants to know.
    fn collect(&mut self, now: Instant) {
        for completion in self.completions.drain(..) {
            self.frames.extend(completion.frames);
            self.done.push(Done { tag: completion.token.0, at: now });
        }
    }
}

/// An access as a command to a drive, with frames for its bytes.
pub fn op_of(access: Access, mut take: impl FnMut(u64) -> Vec<Frame>) -> (u32, Op) {
    let block = |bytes: u64| u32::try_from(bytes / BLOCK_BYTES_U64).expect("within a zone");
    match access {
        Access::Read { zone, offset_bytes, bytes } => {
            (zone, Op::Read { offset: block(offset_bytes), frames: take(bytes) })
        }
        Access::Write { zone, offset_bytes, bytes } => {
            (zone, Op::Write { offset: block(offset_bytes), frames: take(bytes) })
        }
        Access::Append { zone, bytes } => (zone, Op::Append { frames: take(bytes) }),
        Access::ZrwaOpen { zone } => (zone, Op::OpenWithArea),
        Access::ZrwaCommit { zone, end_bytes } => (zone, Op::Commit { end: block(end_bytes) }),
        Access::Reset { zone } => (zone, Op::Reset),
        Access::Finish { zone } => (zone, Op::Finish),
        Access::Open { zone } => (zone, Op::Open),
        Access::Close { zone } => (zone, Op::Close),
        Access::Flush => (0, Op::Flush),
        Access::Report | Access::Refused => (0, Op::Report { count: 1 }),
    }
}

impl Target for WallTarget {
    fn zone_capacity_bytes(&self) -> u64 {
        u64::from(self.device.geometry().zone_capacity_blocks) * BLOCK_BYTES_U64
    }

    fn submit(&mut self, _now: Instant, tag: u64, access: Access) {
        let (zone, op) = op_of(access, |bytes| self.take(bytes));
        self.in_flight += 1;
        self.device.submit(self.now(), Command { token: Token(tag), zone: ZoneIndex(zone), op });
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<Instant> {
        loop {
            self.poll();
            let now = self.now();
            self.collect(now);
            if !self.done.is_empty() || until.is_some_and(|until| until <= now) {
                return Some(now);
            }
            if until.is_none() && self.in_flight == 0 {
                return None;
            }
            std::hint::spin_loop();
        }
    }

    fn advance(&mut self, _now: Instant, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    /// Empties the zone and writes it anew, as the state asks.
    fn preset_zone(&mut self, zone: u32, written_bytes: u64, condition: ZoneCondition) {
        let limit = u64::from(self.device.geometry().transfer_blocks_max) * BLOCK_BYTES_U64;
        self.aside(zone, Op::Reset);
        let mut at = 0;
        while at < written_bytes {
            let bytes = limit.min(written_bytes - at);
            let frames = self.take(bytes);
            let offset = u32::try_from(at / BLOCK_BYTES_U64).expect("within a zone");
            let completion = self.aside(zone, Op::Write { offset, frames });
            self.frames.extend(completion.frames);
            at += bytes;
        }
        match condition {
            ZoneCondition::Empty | ZoneCondition::Written => {}
            ZoneCondition::Open if written_bytes > 0 => {}
            ZoneCondition::Open => {
                self.aside(zone, Op::Open);
            }
            ZoneCondition::Closed => {
                self.aside(zone, Op::Close);
            }
            ZoneCondition::Finished => {
                self.aside(zone, Op::Finish);
            }
        }
    }

    fn preset_area(&mut self, zone: u32, held_bytes: u64) {
        self.aside(zone, Op::Reset);
        self.aside(zone, Op::OpenWithArea);
        if held_bytes > 0 {
            let frames = self.take(held_bytes);
            let completion = self.aside(zone, Op::Write { offset: 0, frames });
            self.frames.extend(completion.frames);
        }
    }
}
