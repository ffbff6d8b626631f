//! A fuse: after so many commands to all drives together, the power is gone.

use super::device::Device;
use base::time::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zone::device::{Command, Completion, Geometry, Op, Status, ZonedDevice};

/// Commands that are left.
#[derive(Clone)]
pub struct Fuse(Arc<AtomicU64>);

/// A drive behind a fuse. What it was given when that blows is in flight for ever.
pub struct Fused {
    fuse: Fuse,
    device: Device,
    refused: Vec<Completion>,
}

impl Fuse {
    pub fn new(commands: u64) -> Fuse {
        Fuse(Arc::new(AtomicU64::new(commands)))
    }

    pub fn over(&self, device: Device) -> Fused {
        Fused { fuse: self.clone(), device, refused: Vec::new() }
    }

    /// Reads and reports cost nothing: they change nothing.
    fn burn(&self, op: &Op) -> bool {
        if matches!(op, Op::Read { .. } | Op::Report { .. }) {
            return self.0.load(Ordering::Relaxed) > 0;
        }
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

impl ZonedDevice for Fused {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        if self.fuse.burn(&command.op) {
            self.device.submit(now, command);
            return;
        }
        let Command { token, zone, op } = command;
        let frames = match op {
            Op::Read { frames, .. } | Op::Write { frames, .. } | Op::Append { frames } => frames,
            _ => Vec::new(),
        };
        let status = Status::DeviceGone;
        self.refused.push(Completion { token, status, zone, offset: 0, frames, report: Vec::new() });
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        completions.append(&mut self.refused);
        self.device.poll(now, completions);
    }
}
