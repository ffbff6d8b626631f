//! Drives that are slow, reorder, lose power at any command and die, for the cache's tests.

use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::EmulatedDrive;
use std::sync::{Arc, Mutex};
use zone::device::{Command, Completion, Geometry, Op, Status, ZonedDevice};

/// What the media of a drive and the power are.
pub struct Bay {
    pub media: EmulatedDrive,
    flight: Vec<Command>,
    flushed: Vec<u32>,
    pub dead: bool,
    /// Commands until the drive dies.
    dies_after: Option<u64>,
    random: Random,
}

/// The power of all drives, with a fuse that blows at a command.
#[derive(Default)]
pub struct Power {
    pub off: bool,
    pub fuse: Option<u64>,
}

/// A drive as the cache sees it.
pub struct Handle {
    pub bay: Arc<Mutex<Bay>>,
    pub power: Arc<Mutex<Power>>,
    geometry: Geometry,
}

impl Handle {
    pub fn new(bay: &Arc<Mutex<Bay>>, power: &Arc<Mutex<Power>>) -> Handle {
        let geometry = *bay.lock().unwrap().media.geometry();
        Handle { bay: bay.clone(), power: power.clone(), geometry }
    }
}

fn gone(command: Command) -> Completion {
    let frames = match command.op {
        Op::Read { frames, .. } | Op::Write { frames, .. } | Op::Append { frames } => frames,
        _ => Vec::new(),
    };
    let (token, zone) = (command.token, command.zone);
    Completion { token, status: Status::DeviceGone, zone, offset: 0, frames, report: Vec::new() }
}

impl Bay {
    pub fn new(media: EmulatedDrive, seed: u64) -> Bay {
        let zones = media.geometry().zones as usize;
        Bay {
            media,
            flight: Vec::new(),
            flushed: vec![0; zones],
            dead: false,
            dies_after: None,
            random: Random::from_seed(seed),
        }
    }

    /// The drive answers nothing any more after some commands.
    pub fn die_after(&mut self, commands: u64) {
        self.dies_after = Some(commands);
    }

    fn execute(&mut self, command: Command, completions: &mut Vec<Completion>) {
        let zone = command.zone;
        let is_flush = matches!(command.op, Op::Flush);
        if matches!(command.op, Op::Reset) {
            self.flushed[zone.index()] = 0;
        }
        self.media.submit(Instant(0), command);
        self.media.poll(Instant(0), completions);
        if is_flush {
            for zone in 0..self.flushed.len() {
                let index = ZoneIndex(u32::try_from(zone).unwrap());
                self.flushed[zone] = self.media.zone(index).write_pointer;
            }
        }
    }

    /// The power is gone: what was in flight took effect, wholly or in part, or did not.
    pub fn crash(&mut self, loses_cache: bool) {
        let mut flight = std::mem::take(&mut self.flight);
        while !flight.is_empty() {
            let index = self.random.index(flight.len());
            let mut command = flight.swap_remove(index);
            if self.dead || self.random.chance(1, 2) {
                continue;
            }
            if let Op::Write { frames, .. } = &mut command.op {
                let keep = self.random.index(frames.len() + 1);
                frames.truncate(keep);
                if keep == 0 {
                    continue;
                }
            }
            self.execute(command, &mut Vec::new());
        }
        self.dies_after = None;
        if loses_cache && self.media.geometry().volatile_cache {
            for zone in 0..self.flushed.len() {
                let index = ZoneIndex(u32::try_from(zone).unwrap());
                let written = self.media.zone(index).write_pointer;
                let spread = u64::from(written - self.flushed[zone]) + 1;
                let keep = self.flushed[zone] + u32::try_from(self.random.below(spread)).unwrap();
                self.media.lose_tail(index, keep);
            }
        }
        let heap = self.media.heap_snapshot().unwrap();
        self.media = EmulatedDrive::from_heap(heap).unwrap();
        for zone in 0..self.flushed.len() {
            let index = ZoneIndex(u32::try_from(zone).unwrap());
            self.flushed[zone] = self.media.zone(index).write_pointer;
        }
    }
}

impl ZonedDevice for Handle {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, _now: Instant, command: Command) {
        self.bay.lock().unwrap().flight.push(command);
    }

    fn poll(&mut self, _now: Instant, completions: &mut Vec<Completion>) {
        let bay = &mut *self.bay.lock().unwrap();
        let power = &mut *self.power.lock().unwrap();
        let mut later = Vec::new();
        let mut flight = std::mem::take(&mut bay.flight);
        while !flight.is_empty() {
            let index = bay.random.index(flight.len());
            let command = flight.swap_remove(index);
            if power.fuse == Some(0) {
                power.off = true;
            }
            if bay.dies_after == Some(0) {
                bay.dead = true;
            }
            if bay.dead {
                completions.push(gone(command));
            } else if power.off || bay.random.chance(1, 3) {
                later.push(command);
            } else {
                bay.dies_after = bay.dies_after.map(|left| left - 1);
                power.fuse = power.fuse.map(|left| left - 1);
                bay.execute(command, completions);
            }
        }
        bay.flight = later;
    }
}
