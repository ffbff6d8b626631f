//! The drives of one array: where commands go by member, and a way to run commands to their end
//! for the parts that are straight-line code (format, mount, check).

use crate::condition::Condition;
use crate::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};
use base::erasure::PieceSet;
use base::time::Instant;
use base::units::DriveIndex;

/// A command for one member.
#[derive(Debug)]
pub struct DriveCommand {
    /// Member that carries the command out.
    pub drive: DriveIndex,
    /// Command for the member.
    pub command: Command,
}

/// The drives of an array by member. A missing member answers every command with
/// [`Status::DeviceGone`].
pub struct DriveSet {
    drives: Vec<Option<Box<dyn ZonedDevice>>>,
    /// Commands each member was given and has not answered.
    in_flight: Vec<u32>,
    /// Completions that wait to be polled: of missing members, and of those that time has passed for.
    ready: Vec<(DriveIndex, Completion)>,
    scratch: Vec<Completion>,
    /// Hiccups of members are waited for.
    outlives: bool,
}

impl DriveSet {
    /// A set of drives; `None` where a member is missing.
    #[must_use]
    pub fn new(drives: Vec<Option<Box<dyn ZonedDevice>>>) -> DriveSet {
        let in_flight = vec![0; drives.len()];
        DriveSet { drives, in_flight, ready: Vec::new(), scratch: Vec::new(), outlives: false }
    }

    /// Members, present or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.drives.len()
    }

    /// True when the set has no members at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.drives.is_empty()
    }

    /// Geometry of a member; `None` when it is missing.
    #[must_use]
    pub fn geometry(&self, drive: DriveIndex) -> Option<&Geometry> {
        self.drives[drive.index()].as_ref().map(|device| device.geometry())
    }

    /// The member itself.
    pub fn device_mut(&mut self, drive: DriveIndex) -> Option<&mut (dyn ZonedDevice + 'static)> {
        self.drives[drive.index()].as_deref_mut()
    }

    /// Takes a member out: from now on it is missing.
    pub fn remove(&mut self, drive: DriveIndex) -> Option<Box<dyn ZonedDevice>> {
        self.drives[drive.index()].take()
    }

    /// Commands a member was given and has not answered.
    #[must_use]
    pub fn in_flight(&self, drive: DriveIndex) -> u32 {
        self.in_flight[drive.index()]
    }

    /// Condition of a member; `None` when it is missing.
    pub fn condition(&mut self, now: Instant, drive: DriveIndex) -> Option<Condition> {
        self.drives[drive.index()].as_mut().map(|device| device.condition(now))
    }

    /// Gives a member up: whatever it was asked and will be asked is answered with [`Status::DeviceGone`].
    pub fn abandon(&mut self, drive: DriveIndex) {
        if let Some(device) = &mut self.drives[drive.index()] {
            device.abandon();
        }
    }

    /// From now on, or not any more, members that are away for a while are waited for: those that come later, too.
    pub fn outlive_hiccups(&mut self, outlives: bool) {
        self.outlives = outlives;
        self.drives.iter_mut().flatten().for_each(|device| device.outlive_hiccups(outlives));
    }

    /// Members that are away and waited for.
    #[must_use]
    pub fn stalled(&self) -> PieceSet {
        let is_stalled =
            |device: &Option<Box<dyn ZonedDevice>>| device.as_ref().is_some_and(|it| it.is_stalled());
        (0..).zip(&self.drives).filter(|(_, device)| is_stalled(device)).map(|(member, _)| member).collect()
    }

    /// Puts another drive in the place of a member.
    ///
    /// # Panics
    /// When the old one still has commands to answer: those who wait for them would wait for ever.
    pub fn replace(&mut self, drive: DriveIndex, device: Box<dyn ZonedDevice>) {
        assert!(self.in_flight(drive) == 0, "drive {drive} still has commands in flight");
        let device = self.drives[drive.index()].insert(device);
        device.outlive_hiccups(self.outlives);
    }

    /// Makes a place for one member more, who is missing.
    pub fn grow(&mut self) {
        self.drives.push(None);
        self.in_flight.push(0);
    }

    /// The drives, in order.
    #[must_use]
    pub fn into_inner(self) -> Vec<Option<Box<dyn ZonedDevice>>> {
        self.drives
    }

    /// Hands a command to its member.
    pub fn submit(&mut self, now: Instant, command: DriveCommand) {
        let DriveCommand { drive, command } = command;
        self.in_flight[drive.index()] += 1;
        match &mut self.drives[drive.index()] {
            Some(device) => device.submit(now, command),
            None => self.ready.push((drive, refuse(command))),
        }
    }

    /// Moves due completions of all members into `completions`.
    pub fn poll(&mut self, now: Instant, completions: &mut Vec<(DriveIndex, Completion)>) {
        let delivered = completions.len();
        completions.append(&mut self.ready);
        for index in 0..self.drives.len() {
            self.poll_one(index, now, completions);
        }
        for (drive, _) in &completions[delivered..] {
            self.in_flight[drive.index()] -= 1;
        }
    }

    /// Moves due completions of one member.
    fn poll_one(&mut self, index: usize, now: Instant, completions: &mut Vec<(DriveIndex, Completion)>) {
        let Some(device) = &mut self.drives[index] else { return };
        device.poll(now, &mut self.scratch);
        completions.extend(self.scratch.drain(..).map(|completion| (DriveIndex::at(index), completion)));
    }

    /// Lets virtual time pass, from `now` on, until a drive answers, but not beyond `until`, and returns when that is:
    /// only the drives that something happens in are asked. What was answered comes with the next poll. `None` where
    /// nothing is under way and there is no end.
    pub fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        let mut at = now;
        while self.ready.is_empty() {
            let next = self.next_drive().filter(|(next, _)| until.is_none_or(|until| *next <= until));
            let Some((next, index)) = next else { return until.map(|until| until.max(now)) };
            at = next.max(now);
            let mut ready = std::mem::take(&mut self.ready);
            self.poll_one(index, at, &mut ready);
            self.ready = ready;
        }
        Some(at)
    }

    /// The earliest event of drives in virtual time.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.next_drive().map(|(at, _)| at)
    }

    /// The drive that something happens in next, and when.
    fn next_drive(&self) -> Option<(Instant, usize)> {
        let event_of = |(index, device): (usize, &Option<Box<dyn ZonedDevice>>)| {
            device.as_ref()?.next_event().map(|at| (at, index))
        };
        self.drives.iter().enumerate().filter_map(event_of).min()
    }

    /// Waits by polling until a command is answered, and returns when that is: for code that runs before service.
    ///
    /// # Panics
    /// When nothing is under way.
    pub fn await_answers(
        &mut self,
        mut now: Instant,
        completions: &mut Vec<(DriveIndex, Completion)>,
    ) -> Instant {
        assert!(completions.is_empty(), "there are answers already");
        assert!(self.in_flight.iter().any(|count| *count > 0), "no answer will ever come");
        loop {
            self.poll(now, completions);
            if !completions.is_empty() {
                return now;
            }
            match self.next_event() {
                Some(next) => now = now.max(next),
                None => std::hint::spin_loop(),
            }
        }
    }

    /// Runs commands to completion, all at once; the answers are in the order of the commands.
    /// Tokens are assigned here. Waits by polling, so it is for code that runs before service.
    ///
    /// # Panics
    /// When a drive answers with a token it was not given.
    pub fn execute_all(&mut self, now: Instant, commands: Vec<DriveCommand>) -> Vec<Completion> {
        let mut answers: Vec<Option<Completion>> = commands.iter().map(|_| None).collect();
        let all = commands.len().max(1);
        self.execute_stream(now, commands, all, |index, completion| {
            assert!(answers[index].is_none(), "a drive completed one command twice");
            answers[index] = Some(completion);
        });
        answers.into_iter().map(|answer| answer.expect("none is pending")).collect()
    }

    /// Runs commands to completion, at most `in_flight_max` of them at a time, and hands over each answer as it comes,
    /// with the number of its command: what waits for an answer takes no more memory than that many commands.
    /// Tokens are assigned here. Waits by polling, as [`DriveSet::execute_all`].
    ///
    /// # Panics
    /// When none may be in flight.
    pub fn execute_stream(
        &mut self,
        mut now: Instant,
        commands: impl IntoIterator<Item = DriveCommand>,
        in_flight_max: usize,
        mut take: impl FnMut(usize, Completion),
    ) {
        assert!(in_flight_max > 0);
        let mut commands = commands.into_iter().enumerate().fuse();
        let (mut pending, mut completions) = (0, Vec::new());
        loop {
            for (index, mut command) in commands.by_ref().take(in_flight_max - pending) {
                command.command.token = Token(index as u64);
                self.submit(now, command);
                pending += 1;
            }
            if pending == 0 {
                return;
            }
            now = self.await_answers(now, &mut completions);
            for (_, completion) in completions.drain(..) {
                pending -= 1;
                take(usize::try_from(completion.token.0).expect("a token given above"), completion);
            }
        }
    }

    /// [`DriveSet::execute_all`] for one command.
    ///
    /// # Panics
    /// As [`DriveSet::execute_all`].
    pub fn execute(&mut self, now: Instant, command: DriveCommand) -> Completion {
        self.execute_all(now, vec![command]).pop().expect("one answer for one command")
    }
}

fn refuse(command: Command) -> Completion {
    let (offset, frames) = match command.op {
        Op::Read { offset, frames } | Op::Write { offset, frames } => (offset, frames),
        Op::Append { frames } => (0, frames),
        Op::Reset
        | Op::Finish
        | Op::Open
        | Op::OpenWithArea
        | Op::Commit { .. }
        | Op::Close
        | Op::Report { .. }
        | Op::FindTurned { .. }
        | Op::Flush
        | Op::SelfTest { .. } => (0, Vec::new()),
    };
    Completion {
        token: command.token,
        status: Status::DeviceGone,
        zone: command.zone,
        offset,
        frames,
        report: Vec::new(),
    }
}
