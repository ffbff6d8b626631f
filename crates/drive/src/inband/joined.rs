//! A device with zones whose first two, those of the journal, may lie elsewhere: on a device of their own.
//!
//! ```text
//!   zones 0 and 1 ──> pair: the journal's device        flush ──> both, answered when both have
//!   other zones ────> device with zones                 report ─> device, with what the pair says of 0 and 1
//! ```
//! The two zones of the device that the journal leaves hold labels: who the drive is, and which journal it needs.

use super::layout::JOURNAL_ZONES;
use super::pair::Pair;
use ::block::device::BlockDevice;
use base::time::Instant;
use std::collections::BTreeMap;
use zone::condition::Condition;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};

/// Flush of both devices.
#[derive(Clone, Copy, Debug)]
struct Flush {
    /// The devices have not both answered.
    is_half: bool,
    status: Status,
}

/// See the module.
#[derive(Debug)]
pub struct Joined<D, B> {
    device: D,
    pair: Option<Pair<B>>,
    geometry: Geometry,
    flushes: BTreeMap<u64, Flush>,
    answers: Vec<Completion>,
}

impl<D: ZonedDevice, B: BlockDevice> Joined<D, B> {
    /// A device that has its journal itself.
    pub fn alone(device: D) -> Joined<D, B> {
        let geometry = *device.geometry();
        Joined { device, pair: None, geometry, flushes: BTreeMap::new(), answers: Vec::new() }
    }

    /// The device with a journal elsewhere.
    pub fn with(device: D, pair: Pair<B>) -> Joined<D, B> {
        let geometry = *device.geometry();
        let volatile_cache = geometry.volatile_cache || pair.disk().geometry().volatile_cache;
        let geometry = Geometry { volatile_cache, ..geometry };
        Joined { geometry, pair: Some(pair), ..Joined::alone(device) }
    }

    /// The device with zones, and that of its journal.
    pub fn into_parts(self) -> (D, Option<B>) {
        (self.device, self.pair.map(Pair::into_disk))
    }

    /// The device with zones.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device with zones, for what is asked of it beside commands.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The journal, when it lies elsewhere.
    pub fn pair(&self) -> Option<&Pair<B>> {
        self.pair.as_ref()
    }

    /// The same, for what is asked of its device beside commands.
    pub fn pair_mut(&mut self) -> Option<&mut Pair<B>> {
        self.pair.as_mut()
    }

    /// An answer of either device; none of a flush that the other has not answered.
    fn take(&mut self, mut answer: Completion) -> Option<Completion> {
        if let Some(flush) = self.flushes.get_mut(&answer.token.0) {
            if answer.status != Status::Success && flush.status != Status::DeviceGone {
                flush.status = answer.status;
            }
            if !std::mem::replace(&mut flush.is_half, true) {
                return None;
            }
            answer.status = self.flushes.remove(&answer.token.0).map_or(answer.status, |flush| flush.status);
            return Some(answer);
        }
        if let Some(pair) = &self.pair {
            let lines = (answer.zone.0..JOURNAL_ZONES).zip(&mut answer.report);
            lines.for_each(|(zone, line)| *line = pair.descriptor(base::units::ZoneIndex(zone)));
        }
        Some(answer)
    }
}

impl<D: ZonedDevice, B: BlockDevice> Joined<D, B> {
    /// The same devices, of which the one with zones is below another one from now on. Nothing is under way.
    #[must_use]
    pub fn lay_on<E: ZonedDevice>(self, lay: impl FnOnce(D) -> E) -> Joined<E, B> {
        assert!(
            self.flushes.is_empty(),
            "a device changes while {} flushes are under way",
            self.flushes.len()
        );
        let Joined { device, pair, geometry, flushes, answers } = self;
        Joined { device: lay(device), pair, geometry, flushes, answers }
    }
}

impl<D: ZonedDevice, B: BlockDevice> ZonedDevice for Joined<D, B> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Some(pair) = &mut self.pair else { return self.device.submit(now, command) };
        let Token(token) = command.token;
        match command.op {
            Op::Flush => {
                self.flushes.insert(token, Flush { is_half: false, status: Status::Success });
                pair.submit(now, Command { op: Op::Flush, ..command });
                self.device.submit(now, command);
            }
            Op::Report { .. } | Op::FindTurned { .. } => self.device.submit(now, command),
            _ if command.zone.0 < JOURNAL_ZONES => pair.submit(now, command),
            _ => self.device.submit(now, command),
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let Some(pair) = &mut self.pair else { return self.device.poll(now, completions) };
        let mut answers = std::mem::take(&mut self.answers);
        pair.poll(now);
        answers.append(&mut pair.done);
        self.device.poll(now, &mut answers);
        completions.extend(answers.drain(..).filter_map(|answer| self.take(answer)));
        self.answers = answers;
    }

    fn next_event(&self) -> Option<Instant> {
        let of_pair = self.pair.as_ref().and_then(Pair::next_event);
        self.device.next_event().into_iter().chain(of_pair).min()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let condition = self.device.condition(now);
        let Some(pair) = &mut self.pair else { return condition };
        // Without its journal the drive is lost, too.
        let journal = pair.disk_mut().condition(now);
        Condition {
            loss: condition.loss.or(journal.loss),
            left_behind: condition.left_behind + journal.left_behind,
            waits_for_room_since: condition.waits_for_room_since.or(journal.waits_for_room_since),
            ..condition
        }
    }

    fn abandon(&mut self) {
        self.device.abandon();
        if let Some(pair) = &mut self.pair {
            pair.disk_mut().abandon();
        }
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.device.outlive_hiccups(outlives);
    }

    fn is_stalled(&self) -> bool {
        self.device.is_stalled()
    }
}
