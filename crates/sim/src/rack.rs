//! The rack: all drives, the power they hang on and the log of what happens, shared by the world and
//! the engine's handles.

use crate::drive::Drive;
use crate::power::Power;
use crate::trace::Trace;
use base::time::Instant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zone::device::{Command, Completion, Geometry, ZonedDevice};

/// Everything the engine cannot see.
pub struct Rack {
    /// The drives.
    pub drives: Vec<Drive>,
    /// The power.
    pub power: Power,
    /// Log of what happened.
    pub trace: Trace,
}

/// A rack that can be looked at from outside while the engine works.
#[derive(Clone)]
pub struct SharedRack(Arc<Mutex<Rack>>);

impl SharedRack {
    /// Shares a rack.
    #[must_use]
    pub fn new(rack: Rack) -> SharedRack {
        SharedRack(Arc::new(Mutex::new(rack)))
    }

    /// The rack. After a panic it is only read, for what it recorded.
    pub fn lock(&self) -> MutexGuard<'_, Rack> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a drive as the engine sees it.
    #[must_use]
    pub fn device(&self, drive: usize) -> Box<dyn ZonedDevice> {
        let geometry = *self.lock().drives[drive].media().geometry();
        assert!(geometry.zones > 0, "a drive has zones");
        Box::new(Handle { rack: self.clone(), drive, geometry })
    }
}

/// A drive as the engine sees it.
struct Handle {
    rack: SharedRack,
    drive: usize,
    geometry: Geometry,
}

impl ZonedDevice for Handle {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Rack { drives, power, trace } = &mut *self.rack.lock();
        drives[self.drive].submit(now, command, power, trace);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let Rack { drives, power, trace } = &mut *self.rack.lock();
        drives[self.drive].poll(now, power, trace, completions);
    }

    fn next_event(&self) -> Option<Instant> {
        self.rack.lock().drives[self.drive].next_event()
    }
}
