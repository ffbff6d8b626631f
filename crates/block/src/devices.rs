//! The devices of one array: where commands go by member.

use crate::condition::Condition;
use crate::device::{BlockDevice, Command, Completion, Geometry, Status};
use crate::md::Role;
use base::time::Instant;

/// A command for one member.
#[derive(Debug)]
pub struct MemberCommand {
    /// Member that carries the command out.
    pub member: Role,
    /// Command for the member.
    pub command: Command,
}

/// Seat of a device.
#[derive(Default)]
struct Seat {
    /// The device; none where a member is missing.
    device: Option<Box<dyn BlockDevice>>,
    /// Commands it was given and has not answered.
    in_flight: u32,
}

/// The devices of an array by role, and behind them those that replace some ([`Role::replacement`]). A missing member answers every command with [`Status::DeviceGone`].
pub struct DeviceSet {
    seats: Vec<Seat>,
    /// Answers in the stead of missing members.
    refused: Vec<(Role, Completion)>,
    scratch: Vec<Completion>,
}

impl DeviceSet {
    /// A set of devices; `None` where a member is missing.
    #[must_use]
    pub fn new(devices: Vec<Option<Box<dyn BlockDevice>>>) -> DeviceSet {
        let seats = devices.into_iter().map(|device| Seat { device, in_flight: 0 }).collect();
        DeviceSet { seats, refused: Vec::new(), scratch: Vec::new() }
    }

    /// Geometry of a member; `None` when it is missing.
    #[must_use]
    pub fn geometry(&self, member: Role) -> Option<&Geometry> {
        self.seats.get(member.index())?.device.as_ref().map(|device| device.geometry())
    }

    /// Seats that there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.seats.len()
    }

    /// True when no member has anything to answer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.seats.iter().all(|seat| seat.in_flight == 0)
    }

    /// Hands a command to its member.
    pub fn submit(&mut self, now: Instant, MemberCommand { member, command }: MemberCommand) {
        let seat = &mut self.seats[member.index()];
        seat.in_flight += 1;
        match &mut seat.device {
            Some(device) => device.submit(now, command),
            None => {
                let Command { token, op } = command;
                let completion = Completion { token, status: Status::DeviceGone, frames: op.into_frames() };
                self.refused.push((member, completion));
            }
        }
    }

    /// True when a member has answered all that it was asked.
    #[must_use]
    pub fn is_answered(&self, member: Role) -> bool {
        self.seats.get(member.index()).is_none_or(|seat| seat.in_flight == 0)
    }

    /// Takes a device out; its member is missing from now on.
    ///
    /// # Panics
    /// When it has commands to answer.
    pub fn take(&mut self, member: Role) -> Option<Box<dyn BlockDevice>> {
        assert!(self.is_answered(member), "member {member} has commands in flight");
        self.seats.get_mut(member.index())?.device.take()
    }

    /// Puts a device where a member is missing.
    ///
    /// # Panics
    /// When the member has a device, or refusals are not yet told.
    pub fn put(&mut self, member: Role, device: Box<dyn BlockDevice>) {
        assert!(self.is_answered(member), "member {member} has commands in flight");
        let count = self.seats.len().max(member.index() + 1);
        self.seats.resize_with(count, Seat::default);
        let before = self.seats[member.index()].device.replace(device);
        assert!(before.is_none(), "member {member} has a device");
    }

    /// Tells the due completions of all members.
    ///
    /// # Panics
    /// When a device answers more than it was asked.
    pub fn poll(&mut self, now: Instant, mut tell: impl FnMut(Role, Completion)) {
        for (member, completion) in self.refused.drain(..) {
            self.seats[member.index()].in_flight -= 1;
            tell(member, completion);
        }
        for (index, seat) in self.seats.iter_mut().enumerate() {
            let Some(device) = &mut seat.device else { continue };
            device.poll(now, &mut self.scratch);
            let member = Role(u16::try_from(index).expect("an array has at most 64 devices"));
            let left = seat.in_flight.checked_sub(u32::try_from(self.scratch.len()).unwrap_or(u32::MAX));
            seat.in_flight = left.unwrap_or_else(|| panic!("member {member} answers what it was not asked"));
            self.scratch.drain(..).for_each(|completion| tell(member, completion));
        }
    }

    /// The earliest event of devices in virtual time.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.seats.iter().filter_map(|seat| seat.device.as_ref()?.next_event()).min()
    }

    /// Condition of a member; `None` when it is missing.
    pub fn condition(&mut self, now: Instant, member: Role) -> Option<Condition> {
        self.seats.get_mut(member.index())?.device.as_mut().map(|device| device.condition(now))
    }

    /// Gives a member up: all of its commands are answered with [`Status::DeviceGone`].
    pub fn abandon(&mut self, member: Role) {
        let device = self.seats.get_mut(member.index()).and_then(|seat| seat.device.as_mut());
        device.into_iter().for_each(|device| device.abandon());
    }

    /// The devices, by role.
    #[must_use]
    pub fn into_inner(self) -> Vec<Option<Box<dyn BlockDevice>>> {
        self.seats.into_iter().map(|seat| seat.device).collect()
    }
}
