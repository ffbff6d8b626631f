//! A drive on the bench: commands with a time limit, and what blocks should hold.

use super::pattern::{fill, is_of};
use super::{Difference, Options};
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use std::time::{Duration, Instant as Clock};
use zone::device::{
    Command, Completion, Geometry, Op, Status, Token, ZoneDescriptor, ZoneState, ZonedDevice,
};

/// Time after which a command is not answered any more.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Time between two looks for answers, after a while of looking all the time.
const LOOK_EVERY: Duration = Duration::from_micros(50);
const LOOKS_AT_ONCE: u32 = 1000;

/// See the module.
pub struct Bench<'a> {
    device: &'a mut dyn ZonedDevice,
    /// Zones and limits of the drive.
    pub geometry: Geometry,
    /// Options of the qualification.
    pub options: Options,
    began: Clock,
    /// Time of drives in virtual time, which is ahead of the clock.
    ahead: Instant,
    /// Number of the next contents, never used twice.
    stamp: u64,
    /// Zones that may not be empty.
    used: std::collections::BTreeSet<u32>,
    /// Steps that are told.
    pub trace: Vec<String>,
}

/// An operation in words.
pub fn words(op: &Op) -> String {
    match op {
        Op::Read { offset, frames } => format!("a read of {} blocks at {offset}", frames.len()),
        Op::Write { offset, frames } => format!("a write of {} blocks at {offset}", frames.len()),
        Op::Append { frames } => format!("an append of {} blocks", frames.len()),
        Op::Reset => "a reset".to_owned(),
        Op::Finish => "a finish".to_owned(),
        Op::Open => "an open".to_owned(),
        Op::Close => "a close".to_owned(),
        Op::Report { count } => format!("a report on {count} zones"),
        Op::FindTurned { count } => format!("a search for zones that turned, among {count}"),
        Op::Flush => "a flush".to_owned(),
        Op::OpenWithArea | Op::Commit { .. } | Op::SelfTest { .. } => format!("{op:?}"),
    }
}

impl<'a> Bench<'a> {
    /// A drive of which nothing is known.
    pub fn new(device: &'a mut dyn ZonedDevice, options: Options) -> Bench<'a> {
        let geometry = *device.geometry();
        let used = (0..geometry.zones).collect();
        let began = Clock::now();
        let (ahead, stamp, trace) = (Instant(0), options.seed << 32, Vec::new());
        Bench { device, geometry, options, began, ahead, stamp, used, trace }
    }

    /// Contents that were never used before, by their stamp.
    pub fn fresh(&mut self, count: u32) -> (u64, Vec<Frame>) {
        let first = self.stamp;
        self.stamp += u64::from(count);
        let frames = (first..self.stamp)
            .map(|stamp| {
                let mut frame = Frame::zeroed();
                fill(&mut frame, stamp);
                frame
            })
            .collect();
        (first, frames)
    }

    /// Frames whose contents have to be replaced.
    pub fn dirty(count: u32) -> Vec<Frame> {
        let dirty = || {
            let mut frame = Frame::zeroed();
            fill(&mut frame, u64::MAX);
            frame
        };
        (0..count).map(|_| dirty()).collect()
    }

    /// Time for a drive: that of the clock, or later where it lives in a time of its own.
    fn now(&mut self) -> Instant {
        let clock = Instant(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.ahead = self.ahead.max(clock);
        self.ahead
    }

    /// Hands over all commands at once and waits for their answers, which are in the order of the commands.
    pub fn run_all(&mut self, commands: Vec<(u32, Op)>) -> Result<Vec<Completion>, Difference> {
        let count = commands.len();
        let begun = Clock::now();
        for ((zone, op), number) in commands.into_iter().zip(0..) {
            if zone < self.geometry.zones
                && !matches!(op, Op::Read { .. } | Op::Report { .. } | Op::FindTurned { .. } | Op::Flush)
            {
                self.used.insert(zone);
            }
            let now = self.now();
            self.device.submit(now, Command { token: Token(number), zone: ZoneIndex(zone), op });
        }
        let (mut answers, mut completions) = (Vec::new(), Vec::new());
        answers.resize_with(count, || None);
        let (mut left, mut looks) = (count, 0);
        while left > 0 {
            let now = self.now();
            self.device.poll(now, &mut completions);
            for completion in completions.drain(..) {
                let token = completion.token;
                let place = usize::try_from(token.0).ok().and_then(|number| answers.get_mut(number));
                let place = place.filter(|place| place.is_none());
                *place.ok_or_else(|| format!("{token:?} was answered and not asked, or twice"))? =
                    Some(completion);
                (left, looks) = (left - 1, 0);
            }
            looks += 1;
            if left > 0 && looks > LOOKS_AT_ONCE {
                self.wait(begun)?;
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn wait(&mut self, begun: Clock) -> Result<(), Difference> {
        if begun.elapsed() > ANSWER_MAX {
            return Err(format!("a command was not answered for {} s", ANSWER_MAX.as_secs()));
        }
        match self.device.next_event() {
            Some(next) => self.ahead = self.ahead.max(next),
            None => std::thread::sleep(LOOK_EVERY),
        }
        Ok(())
    }

    /// Hands over a command and waits for its answer.
    pub fn run(&mut self, zone: u32, op: Op) -> Result<Completion, Difference> {
        Ok(self.run_all(vec![(zone, op)])?.remove(0))
    }

    /// The same of one that has to have a status.
    pub fn expect(&mut self, zone: u32, op: Op, status: Status) -> Result<Completion, Difference> {
        let what = words(&op);
        let completion = self.run(zone, op)?;
        if completion.status != status {
            return Err(format!(
                "zone {zone}: {what} was answered with {:?}, not {status:?}",
                completion.status
            ));
        }
        Ok(completion)
    }

    /// The same of one that has to succeed.
    pub fn succeed(&mut self, zone: u32, op: Op) -> Result<Completion, Difference> {
        self.expect(zone, op, Status::Success)
    }

    /// Reads blocks, which have to hold the contents of stamps from this one on.
    pub fn compare(
        &mut self,
        zone: u32,
        offset: u32,
        count: u32,
        first_stamp: u64,
    ) -> Result<(), Difference> {
        let read = self.succeed(zone, Op::Read { offset, frames: Bench::dirty(count) })?;
        expect_stamps(zone, offset, &read.frames, first_stamp)
            .map_err(|what| format!("{what}, in a read of {count} blocks at {offset}"))
    }

    /// Descriptors of the first zones.
    pub fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneDescriptor>, Difference> {
        let found = self.succeed(first, Op::Report { count })?.report;
        if found.len() != count.min(self.geometry.zones - first) as usize {
            return Err(format!("a report on {count} zones from {first} on has {}", found.len()));
        }
        Ok(found)
    }

    /// Resets all zones that were used.
    pub fn empty_all(&mut self) -> Result<(), Difference> {
        let zones = std::mem::take(&mut self.used);
        for zone in &zones {
            self.succeed(*zone, Op::Reset)?;
        }
        self.used.clear();
        let report = self.report(0, self.geometry.zones)?;
        match report.iter().position(|zone| zone.state != ZoneState::Empty || zone.write_pointer != 0) {
            Some(zone) => Err(format!("zone {zone} is {:?} after a reset of all zones", report[zone])),
            None => Ok(()),
        }
    }
}

/// Compares blocks with contents of stamps from this one on.
pub fn expect_stamps(zone: u32, offset: u32, frames: &[Frame], first: u64) -> Result<(), Difference> {
    let wrong = (0..)
        .zip(frames)
        .find_map(|(index, frame)| Some((index, is_of(frame, first + u64::from(index)).err()?)));
    match wrong {
        Some((index, what)) => Err(format!("zone {zone}, block {}: {what}", offset + index)),
        None => Ok(()),
    }
}
