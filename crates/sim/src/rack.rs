//! The rack: all drives, the power they hang on and the log of what happens, shared by the world and
//! the engine's handles.

use crate::drive::{Drive, refused};
use crate::power::Power;
use crate::trace::Trace;
use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
use drive::patient::{Patient, WayBack};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zone::condition::{Condition, Loss};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};
use zone::format::SUPERBLOCK_ZONES;

/// Everything the engine cannot see.
pub struct Rack {
    /// The drives.
    pub drives: Vec<Drive>,
    /// The power.
    pub power: Power,
    /// Log of what happened.
    pub trace: Trace,
    /// Another server has taken the drives.
    pub rival: Option<Meeting>,
}

/// What the first server heard of the other one.
#[derive(Clone, Debug, Default)]
pub struct Meeting {
    /// Answer from which on it could have noticed.
    pub refused: Option<String>,
    /// What it did to a drive after that.
    pub written_after: Option<String>,
    /// Ends that zones would have if it alone had written there, by drive. None of zones that it resets.
    ends: BTreeMap<(usize, ZoneIndex), u32>,
    /// Its appends in flight, by drive.
    appends: Vec<(usize, Token)>,
}

impl Meeting {
    /// The other server is about to mount.
    #[must_use]
    pub fn of(drives: &[Drive]) -> Meeting {
        let mut meeting = Meeting::default();
        for (number, drive) in drives.iter().enumerate() {
            for zone in (SUPERBLOCK_ZONES..drive.media().geometry().zones).map(ZoneIndex) {
                meeting.ends.insert((number, zone), drive.media().zone(zone).write_pointer);
            }
            drive.commands_in_flight().for_each(|command| meeting.count(number, command));
        }
        meeting
    }

    /// The first server is told something.
    fn hear(&mut self, drive: usize, completion: &Completion) {
        let Completion { token, zone, status, offset, frames, .. } = completion;
        let append = self.appends.iter().position(|append| *append == (drive, *token));
        let is_append = append.map(|append| self.appends.swap_remove(append)).is_some();
        let end = self.ends.get(&(drive, *zone)).copied().filter(|_| is_append && *status == Status::Success);
        let is_behind_others =
            end.is_some_and(|end| offset + u32::try_from(frames.len()).expect("a transfer") > end);
        if self.refused.is_none() && status.contradicts_zone() {
            self.refused = Some(format!("drive {drive} answered {status:?} for zone {zone}"));
        } else if self.refused.is_none() && is_behind_others {
            self.refused = Some(format!("drive {drive} appended at offset {offset} of zone {zone}"));
        }
    }

    /// What the first server writes, zones may hold.
    fn count(&mut self, drive: usize, command: &Command) {
        let Command { token, zone, op } = command;
        match op {
            Op::Write { frames, .. } | Op::Append { frames } => {
                if let Some(end) = self.ends.get_mut(&(drive, *zone)) {
                    *end += u32::try_from(frames.len()).expect("a transfer");
                }
            }
            Op::Reset => _ = self.ends.remove(&(drive, *zone)),
            _ => {}
        }
        if let Op::Append { .. } = op {
            self.appends.push((drive, *token));
        }
    }

    /// The first server asks for something.
    fn note(&mut self, drive: usize, command: &Command) {
        self.count(drive, command);
        let changes = !matches!(
            command.op,
            Op::Read { .. } | Op::Report { .. } | Op::FindTurned { .. } | Op::SelfTest { .. }
        );
        if self.refused.is_some() && self.written_after.is_none() && changes {
            let what = match command.op {
                Op::Write { .. } | Op::Append { .. } => "a write",
                Op::Reset => "a reset",
                Op::Flush => "a flush",
                _ => "a change of a zone",
            };
            self.written_after = Some(format!("drive {drive} is given {what} (zone {})", command.zone));
        }
    }
}

/// A rack that can be looked at from outside while the engine works.
#[derive(Clone)]
pub struct SharedRack {
    rack: Arc<Mutex<Rack>>,
    /// Time for which engines wait for a drive that is away, if they do.
    patience: Option<Nanos>,
    /// Time after which a drive that does not answer counts as away, if it does.
    limit: Option<Nanos>,
}

impl SharedRack {
    /// Shares a rack.
    #[must_use]
    pub fn new(rack: Rack) -> SharedRack {
        SharedRack { rack: Arc::new(Mutex::new(rack)), patience: None, limit: None }
    }

    /// The same, where engines wait for drives that are away, or do not answer within a limit; zero is none.
    #[must_use]
    pub fn with_patience(self, patience: Nanos, limit: Nanos) -> SharedRack {
        let given = |time: Nanos| (time.0 > 0).then_some(time);
        SharedRack { patience: given(patience), limit: given(limit), ..self }
    }

    /// The rack. After a panic it is only read, for what it recorded.
    pub fn lock(&self) -> MutexGuard<'_, Rack> {
        self.rack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a drive as the engine sees it.
    #[must_use]
    pub fn device(&self, drive: usize) -> Box<dyn ZonedDevice> {
        let geometry = *self.lock().drives[drive].media().geometry();
        assert!(geometry.zones > 0, "a drive has zones");
        let handle = Box::new(self.handle(drive, geometry));
        match self.patience {
            None => handle,
            Some(patience) => {
                let back = Back { rack: self.clone(), drive, geometry };
                let patient = Patient::new(handle, Some(Box::new(back)), patience);
                let patient = match self.limit {
                    None => patient,
                    Some(limit) => patient.with_limit(limit),
                };
                Box::new(Told { rack: self.clone(), drive, patient })
            }
        }
    }

    fn handle(&self, drive: usize, geometry: Geometry) -> Handle {
        let places = self.lock().drives.len();
        assert!(drive < places, "drive {drive} of {places} is opened");
        let number = self.lock().drives[drive].device_number();
        let tells = self.patience.is_none();
        Handle { rack: self.clone(), drive, geometry, number, refused: Vec::new(), tells }
    }
}

/// Way back to a drive that was pulled.
struct Back {
    rack: SharedRack,
    drive: usize,
    geometry: Geometry,
}

impl WayBack for Back {
    fn look(&mut self) -> Option<Box<dyn ZonedDevice>> {
        let can_be_found = self.rack.lock().drives[self.drive].can_be_found();
        can_be_found.then(|| Box::new(self.rack.handle(self.drive, self.geometry)) as Box<dyn ZonedDevice>)
    }
}

/// A drive as the engine sees it.
struct Handle {
    rack: SharedRack,
    drive: usize,
    geometry: Geometry,
    /// Number of the device that it is a handle of.
    number: u32,
    /// Answers of a device that is not there any more.
    refused: Vec<Completion>,
    /// What it answers, the engine is told.
    tells: bool,
}

/// A drive that is waited for: the engine is told of some answers later, or in another way, or never.
struct Told {
    rack: SharedRack,
    drive: usize,
    patient: Patient,
}

impl Handle {
    fn is_dead(&self) -> bool {
        self.rack.lock().drives[self.drive].device_number() != self.number
    }
}

impl ZonedDevice for Handle {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        if self.is_dead() {
            return self.refused.push(refused(command, Status::DeviceGone));
        }
        let Rack { drives, power, trace, rival } = &mut *self.rack.lock();
        if let Some(meeting) = rival {
            meeting.note(self.drive, &command);
        }
        drives[self.drive].submit(now, command, power, trace);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        completions.append(&mut self.refused);
        let Rack { drives, power, trace, rival } = &mut *self.rack.lock();
        let delivered = completions.len();
        drives[self.drive].poll(now, power, trace, completions);
        if let Some(meeting) = rival.as_mut().filter(|_| self.tells) {
            completions[delivered..].iter().for_each(|completion| meeting.hear(self.drive, completion));
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.rack.lock().drives[self.drive].next_event()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let oldest = {
            let drive = &mut self.rack.lock().drives[self.drive];
            drive.note_look(now);
            drive.oldest()
        };
        Condition { loss: self.is_dead().then_some(Loss::Removed), oldest, ..Condition::default() }
    }
}

impl ZonedDevice for Told {
    fn geometry(&self) -> &Geometry {
        self.patient.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.patient.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let delivered = completions.len();
        self.patient.poll(now, completions);
        if let Some(meeting) = &mut self.rack.lock().rival {
            completions[delivered..].iter().for_each(|completion| meeting.hear(self.drive, completion));
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.patient.next_event()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        self.patient.condition(now)
    }

    fn abandon(&mut self) {
        self.patient.abandon();
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.patient.outlive_hiccups(outlives);
    }

    fn is_stalled(&self) -> bool {
        self.patient.is_stalled()
    }
}
