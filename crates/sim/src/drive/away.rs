//! A drive that is away for a while: what was in flight comes back with its frames, and nobody knows what became of it.

use super::{Drive, InFlight, end_of, refused, stub};
use crate::power::Power;
use crate::step::{Kind, Manner};
use crate::trace::Trace;
use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
use std::collections::BTreeMap;
use zone::device::{Command, Completion, Status, ZoneState};

/// Time after the end of an absence in which its owner may still find out.
const FINDING_OUT: Nanos = Nanos(1_000_000_000);

/// Absences of a drive.
#[derive(Debug, Default)]
pub(super) struct Absence {
    /// Time at which the present one, or the last, began, those counted that it followed at once.
    began: Instant,
    /// The drive is away until then.
    until: Instant,
    /// Commands that are cut off may take effect in part.
    tears: bool,
    /// Number of the device: handles of earlier ones are dead for ever.
    device: u32,
    /// Time at which it was asked last.
    asked_at: Instant,
    /// Ends of what was answered, by zone.
    answered: BTreeMap<ZoneIndex, u32>,
    /// Something of that is lost, and commands were cut off as it was: whoever looks can tell.
    has_lost: bool,
}

impl Drive {
    /// True while the drive is away.
    pub(super) fn is_away(&self, now: Instant) -> bool {
        now < self.absence.until
    }

    /// Number of the drive's device.
    #[must_use]
    pub fn device_number(&self) -> u32 {
        self.absence.device
    }

    /// The owner of a dead handle looks for the drive.
    pub fn note_look(&mut self, now: Instant) {
        self.absence.asked_at = now;
    }

    /// True when whoever looked last can find the drive.
    #[must_use]
    pub fn can_be_found(&self) -> bool {
        !self.dead && !self.is_away(self.absence.asked_at)
    }

    /// True while the owner of the drive may still wait for it.
    #[must_use]
    pub fn is_missed(&self, now: Instant) -> bool {
        self.absence.until > Instant(0) && now < self.absence.until + FINDING_OUT
    }

    /// Time for which the owner would have to wait, should the drive be away for this long from now on.
    #[must_use]
    pub fn would_be_missed_for(&self, now: Instant, span: Nanos) -> Nanos {
        let began = if self.is_missed(now) { self.absence.began } else { now };
        // What was in flight comes back a little later.
        let end = self.absence.until.max(now + Nanos(span.0 + span.0 / 4)).max(self.faults.hangs_until);
        (end + FINDING_OUT).since(began)
    }

    /// The drive goes away. What it has in flight takes effect, or not, and comes back by the time that the drive is there again, or
    /// a little later.
    pub fn go_away(&mut self, now: Instant, span: Nanos, manner: Manner, trace: &mut Trace) {
        assert!(!self.dead, "a drive that is dead is not away");
        if !self.is_missed(now) {
            self.absence.began = now;
        }
        self.absence.until = self.absence.until.max(now + span);
        self.absence.tears = manner == Manner::Torn;
        self.absence.device += u32::from(manner == Manner::Pulled);
        let count = self.flight.len();
        trace.remark(|| format!("drive {} is away with {count} commands in flight", self.member));
        if manner == Manner::Power {
            let is_cut = self.flight.iter().any(|flight| flight.command.is_some());
            self.lose_power();
            // The pointer of a zone that is full, read-only or offline tells nothing: checksums find what it lost.
            let is_lost = |(zone, end): (&ZoneIndex, &u32)| {
                let found = self.media.zone(*zone);
                let has_pointer =
                    !matches!(found.state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline);
                has_pointer && end_of(found) < *end
            };
            self.absence.has_lost |= is_cut && self.absence.answered.iter().any(is_lost);
            return;
        }
        let most = span.0 + span.0 / 4;
        for flight in &mut self.flight {
            let back = now + Nanos(self.random.below(most + 1));
            flight.effect_at = now + Nanos(self.random.below(back.since(now).0 + 1));
            flight.due = back;
            flight.is_cut = true;
            if let Some(completion) = &mut flight.completion {
                completion.status = Status::DeviceGone;
                completion.report.clear();
            }
        }
    }

    /// A command is answered.
    pub(super) fn note_answer(&mut self, kind: Kind, completion: &Completion) {
        let Completion { status: Status::Success, zone, offset, frames, .. } = completion else { return };
        let end = offset + u32::try_from(frames.len()).expect("a transfer");
        match kind {
            Kind::Read | Kind::Reset | Kind::Flush | Kind::Finish | Kind::Area | Kind::Commit => {}
            _ => {
                let answered = self.absence.answered.entry(*zone).or_default();
                *answered = end.max(*answered);
            }
        }
    }

    /// A zone is reset, answered or not: what was answered for it before is no loss.
    pub(super) fn note_reset(&mut self, zone: ZoneIndex) {
        self.absence.answered.remove(&zone);
    }

    /// True when the drive has lost what it had acknowledged, and its owner could see that.
    #[must_use]
    pub fn has_lost_acknowledged(&self) -> bool {
        self.absence.has_lost
    }

    /// The drive stays away no longer: its owner is gone.
    pub(super) fn end_absence(&mut self) {
        self.absence.answered.clear();
        self.absence.has_lost = false;
        (self.absence.until, self.absence.began) = (Instant(0), Instant(0));
    }

    /// A command that was cut off takes effect, or not, or in part.
    pub(super) fn execute_cut(&mut self, index: usize, power: &Power) {
        assert!(!power.is_off(), "the power is on while a drive is away");
        let mut command = self.flight[index].command.take().expect("it has not taken effect");
        let fate = match self.random.below(4) {
            0 | 1 => 2,
            2 => 0,
            _ if self.absence.tears => 1,
            _ => 0,
        };
        let stub = Command { token: command.token, zone: command.zone, op: stub(&mut command.op, fate) };
        self.flight[index].completion = Some(refused(command, Status::DeviceGone));
        if fate > 0 {
            self.apply_stranded(stub, fate == 1);
        }
    }

    /// A command comes while the drive is away.
    pub(super) fn turn_away(&mut self, now: Instant, command: Command, number: u64) {
        self.flight.push(InFlight {
            number,
            zone: command.zone,
            since: now,
            kind: Kind::Any,
            command: None,
            completion: Some(refused(command, Status::DeviceGone)),
            effect_at: now,
            due: now,
            covers: Vec::new(),
            covers_windows: None,
            is_cut: true,
        });
    }
}
