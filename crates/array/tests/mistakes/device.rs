//! A drive whose commands take effect in any order.

use base::random::Random;
use base::time::Instant;
use drive::emulated::{EmulatedDrive, HeapMedia};
use std::sync::{Arc, Mutex};
use zone::device::{Command, Completion, Geometry, Op, ZonedDevice};

/// The drive proper; the test keeps a handle to it while the engine owns the device.
pub struct Inner {
    drive: EmulatedDrive,
    waiting: Vec<Command>,
    random: Random,
    /// Completions are delivered as soon as they are there.
    eager: bool,
    /// Blocks of each Zone Write, in order.
    writes: Vec<usize>,
}

/// A handle to a drive.
#[derive(Clone)]
pub struct Device {
    geometry: Geometry,
    inner: Arc<Mutex<Inner>>,
}

impl Device {
    pub fn new(geometry: Geometry, uuid: [u8; 16], seed: u64) -> Device {
        let drive = EmulatedDrive::on_heap(geometry, uuid).unwrap();
        Device::over(drive, seed)
    }

    pub fn from_media(media: HeapMedia, seed: u64) -> Device {
        Device::over(EmulatedDrive::from_heap(media).unwrap(), seed)
    }

    fn over(drive: EmulatedDrive, seed: u64) -> Device {
        let geometry = *drive.geometry();
        let inner = Inner {
            drive,
            waiting: Vec::new(),
            random: Random::from_seed(seed),
            eager: true,
            writes: Vec::new(),
        };
        Device { geometry, inner: Arc::new(Mutex::new(inner)) }
    }

    /// From now on commands take effect late and out of order.
    pub fn set_lazy(&self) {
        self.inner.lock().unwrap().eager = false;
    }

    /// Blocks of each Zone Write since this was asked last.
    pub fn take_writes(&self) -> Vec<usize> {
        std::mem::take(&mut self.inner.lock().unwrap().writes)
    }

    pub fn with<R>(&self, act: impl FnOnce(&mut EmulatedDrive) -> R) -> R {
        act(&mut self.inner.lock().unwrap().drive)
    }
}

/// Any waiting command may go next, but writes of one zone stay in order.
fn pick(waiting: &[Command], random: &mut Random) -> usize {
    let index = random.index(waiting.len());
    let zone = waiting[index].zone;
    if matches!(waiting[index].op, Op::Append { .. } | Op::Read { .. }) {
        return index;
    }
    waiting.iter().position(|command| command.zone == zone).unwrap()
}

impl ZonedDevice for Device {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, _now: Instant, command: Command) {
        let mut inner = self.inner.lock().unwrap();
        if let Op::Write { frames, .. } = &command.op {
            inner.writes.push(frames.len());
        }
        inner.waiting.push(command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let mut inner = self.inner.lock().unwrap();
        let inner = &mut *inner;
        while !inner.waiting.is_empty() && (inner.eager || inner.random.chance(2, 3)) {
            let index = pick(&inner.waiting, &mut inner.random);
            let command = inner.waiting.remove(index);
            inner.drive.submit(now, command);
            inner.drive.poll(now, completions);
        }
    }

    /// Time passes while commands wait.
    fn next_event(&self) -> Option<Instant> {
        None
    }
}
