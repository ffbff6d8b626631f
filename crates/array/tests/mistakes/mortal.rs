//! A drive that dies, alone or with all others, at a chosen command: a power cut is all of them at
//! once. The command at which it happens may have taken effect wholly, in part or not at all.

use super::device::Device;
use base::time::Instant;
use std::sync::{Arc, Mutex};
use zone::device::{Command, Completion, Geometry, Op, Status, ZonedDevice};

/// Fate of the last command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCommand {
    /// The command never happened.
    Lost,
    /// Only the first block of a write reached the media.
    Torn,
    /// The command took effect, but nobody was told.
    Done,
}

/// Moment at which the drives that share the fuse die.
#[derive(Debug)]
pub struct Fuse {
    pub commands: u64,
    pub dies_at: u64,
    pub last: LastCommand,
    /// Only commands of this kind are counted.
    pub counts: fn(&Op) -> bool,
    /// The power is gone for the engine, too: dead drives say nothing.
    pub silent: bool,
}

pub type SharedFuse = Arc<Mutex<Fuse>>;

/// A fuse that burns down at command `dies_at`, counted over all drives that share it.
pub fn fuse(dies_at: u64, last: LastCommand) -> SharedFuse {
    Arc::new(Mutex::new(Fuse { commands: 0, dies_at, last, counts: |_| true, silent: false }))
}

/// A fuse that burns down at the first command of a kind.
pub fn fuse_on(counts: fn(&Op) -> bool, last: LastCommand) -> SharedFuse {
    Arc::new(Mutex::new(Fuse { commands: 0, dies_at: 0, last, counts, silent: false }))
}

/// True when the drives of a fuse are dead.
pub fn is_burnt(fuse: &SharedFuse) -> bool {
    let fuse = fuse.lock().unwrap();
    fuse.commands > fuse.dies_at
}

/// Drives that share a fuse.
pub fn mortals(devices: &[Option<Device>], fuse: &SharedFuse) -> Vec<Option<Box<dyn ZonedDevice>>> {
    let mortal =
        |device: &Device| Box::new(Mortal::new(device.clone(), fuse.clone())) as Box<dyn ZonedDevice>;
    devices.iter().map(|device| device.as_ref().map(mortal)).collect()
}

pub struct Mortal {
    pub device: Device,
    pub fuse: SharedFuse,
    answers: Vec<Completion>,
}

impl Mortal {
    pub fn new(device: Device, fuse: SharedFuse) -> Mortal {
        Mortal { device, fuse, answers: Vec::new() }
    }

    fn refuse(&mut self, command: Command) {
        let (offset, frames) = match command.op {
            Op::Read { offset, frames } | Op::Write { offset, frames } => (offset, frames),
            Op::Append { frames } => (0, frames),
            _ => (0, Vec::new()),
        };
        let Command { token, zone, .. } = command;
        let status = Status::DeviceGone;
        self.answers.push(Completion { token, status, zone, offset, frames, report: Vec::new() });
    }

    /// Executes a command of which nobody hears that it was done.
    fn execute_unheard(&mut self, now: Instant, command: Command) {
        let token = command.token;
        self.device.submit(now, command);
        loop {
            self.device.poll(now, &mut self.answers);
            if let Some(answer) = self.answers.iter_mut().find(|answer| answer.token == token) {
                answer.status = Status::DeviceGone;
                return;
            }
        }
    }
}

impl ZonedDevice for Mortal {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Instant, mut command: Command) {
        let (dead, last) = {
            let mut fuse = self.fuse.lock().unwrap();
            let dead = fuse.commands > fuse.dies_at;
            let mut last = None;
            if !dead && (fuse.counts)(&command.op) {
                fuse.commands += 1;
                last = (fuse.commands > fuse.dies_at).then_some(fuse.last);
            }
            (dead, last)
        };
        match last {
            None if !dead => self.device.submit(now, command),
            None | Some(LastCommand::Lost) => self.refuse(command),
            Some(last) => {
                if let (LastCommand::Torn, Op::Write { frames, .. } | Op::Append { frames }) =
                    (last, &mut command.op)
                {
                    frames.truncate(1);
                }
                self.execute_unheard(now, command);
            }
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.device.poll(now, completions);
        let fuse = self.fuse.lock().unwrap();
        if fuse.silent && fuse.commands > fuse.dies_at {
            self.answers.clear();
        }
        completions.append(&mut self.answers);
    }
}
