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

/// The devices of an array by role, and behind them those that replace some ([`Role::replacement`]). A missing member answers every command with [`Status::DeviceGone`].
pub struct DeviceSet {
    devices: Vec<Option<Box<dyn BlockDevice>>>,
    /// Commands each member was given and has not answered.
    in_flight: Vec<u32>,
    /// Answers in the stead of missing members.
    refused: Vec<(Role, Completion)>,
    scratch: Vec<Completion>,
}

impl DeviceSet {
    /// A set of devices; `None` where a member is missing.
    #[must_use]
    pub fn new(devices: Vec<Option<Box<dyn BlockDevice>>>) -> DeviceSet {
        let in_flight = vec![0; devices.len()];
        DeviceSet { devices, in_flight, refused: Vec::new(), scratch: Vec::new() }
    }

    /// Geometry of a member; `None` when it is missing.
    #[must_use]
    pub fn geometry(&self, member: Role) -> Option<&Geometry> {
        self.devices.get(member.index())?.as_ref().map(|device| device.geometry())
    }

    /// True when no member has anything to answer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.iter().all(|count| *count == 0)
    }

    /// Hands a command to its member.
    pub fn submit(&mut self, now: Instant, MemberCommand { member, command }: MemberCommand) {
        self.in_flight[member.index()] += 1;
        match &mut self.devices[member.index()] {
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
        self.in_flight.get(member.index()).is_none_or(|count| *count == 0)
    }

    /// Takes a device out; its member is missing from now on.
    ///
    /// # Panics
    /// When it has commands to answer.
    pub fn take(&mut self, member: Role) -> Option<Box<dyn BlockDevice>> {
        assert!(self.is_answered(member), "member {member} has commands in flight");
        self.devices.get_mut(member.index())?.take()
    }

    /// Puts a device where a member is missing.
    ///
    /// # Panics
    /// When the member has a device, or refusals are not yet told.
    pub fn put(&mut self, member: Role, device: Box<dyn BlockDevice>) {
        assert!(self.is_answered(member), "member {member} has commands in flight");
        let count = self.devices.len().max(member.index() + 1);
        self.devices.resize_with(count, || None);
        self.in_flight.resize(count, 0);
        let before = self.devices[member.index()].replace(device);
        assert!(before.is_none(), "member {member} has a device");
    }

    /// Moves due completions of all members into `completions`.
    ///
    /// # Panics
    /// When a device answers more than it was asked.
    pub fn poll(&mut self, now: Instant, completions: &mut Vec<(Role, Completion)>) {
        let begin = completions.len();
        completions.append(&mut self.refused);
        for (index, device) in self.devices.iter_mut().enumerate() {
            let Some(device) = device else { continue };
            device.poll(now, &mut self.scratch);
            let member = Role(u16::try_from(index).expect("an array has at most 64 devices"));
            completions.extend(self.scratch.drain(..).map(|completion| (member, completion)));
        }
        for (member, _) in &completions[begin..] {
            let count = &mut self.in_flight[member.index()];
            assert!(*count > 0, "member {member} answers what it was not asked");
            *count -= 1;
        }
    }

    /// The earliest event of devices in virtual time.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.devices.iter().flatten().filter_map(|device| device.next_event()).min()
    }

    /// Condition of a member; `None` when it is missing.
    pub fn condition(&mut self, now: Instant, member: Role) -> Option<Condition> {
        self.devices.get_mut(member.index())?.as_mut().map(|device| device.condition(now))
    }

    /// Gives a member up: all of its commands are answered with [`Status::DeviceGone`].
    pub fn abandon(&mut self, member: Role) {
        if let Some(Some(device)) = self.devices.get_mut(member.index()) {
            device.abandon();
        }
    }

    /// The devices, by role.
    #[must_use]
    pub fn into_inner(self) -> Vec<Option<Box<dyn BlockDevice>>> {
        self.devices
    }
}
