//! Holding: what is not admitted to flash stays in memory alone, until it is hit or others want its room.
//!
//! To a write of its key it is a version like one that waits for its page: older versions were hidden on flash before its
//! answer, and it is dropped when a later one comes. It has nothing on flash that could come back, so it may be forgotten
//! at any time; the end of the process forgets all of it.

use super::Shard;
use super::buffer::Record;
use super::operation::{Operation, Task};
use crate::admission::Visit;
use crate::hash::FullKey;
use crate::status::AdmissionStatus;
use base::time::Instant;

/// An object is held when it takes no more than this part of what may be held.
const LARGEST_SHARE: u64 = 8;

impl Shard {
    /// The gate learns what was written until now.
    pub(super) fn note_budget(&mut self) {
        self.gate.note(self.clocks.now, self.counters.bytes_written());
    }

    /// Takes a new version of a key: for flash, or to hold it. True when it goes to flash.
    pub(super) fn admit(&mut self, now: Instant, record: Record) -> bool {
        let bytes = (record.key.plain().len() + record.object.value.len()) as u64;
        let visit = self.gate.visit(record.hash);
        let is_admitted = self.gate.admits(visit);
        if is_admitted {
            self.counters.bytes_admitted += bytes;
            self.buffer.put(now, record);
        } else if record.weight() <= self.held_limit() / LARGEST_SHARE {
            self.buffer.hold(record);
        } else {
            self.note_forgotten(&record);
        }
        while self.buffer.held_bytes() > self.held_limit() {
            let Some(oldest) = self.buffer.forget_oldest() else { break };
            self.note_forgotten(&oldest);
        }
        let limit = self.memory_limit();
        self.memory.shrink(limit);
        is_admitted
    }

    fn note_forgotten(&mut self, record: &Record) {
        self.gate.forgets(record.hash);
        self.counters.forgotten += 1;
        self.counters.bytes_forgotten += (record.key.plain().len() + record.object.value.len()) as u64;
    }

    /// An object was found in buffers. One that is held is worth flash when a client reads it, if there is room on the way.
    pub(super) fn note_buffer_hit(&mut self, number: u32) {
        let Operation { key, ident, task, .. } = self.desk.operations.get(number);
        self.counters.of_mut(key.namespace()).hits += 1;
        if !self.buffer.is_held(*ident, key) {
            self.counters.hits_buffer += 1;
            return;
        }
        self.counters.hits_memory += 1;
        let object = self.buffer.get(*ident, key).expect("it is held");
        let is_over = object.expires.is_some_and(|at| at <= self.clocks.wall);
        let has_room = self.buffer.stored_bytes() < self.options.stored_bytes_full();
        let is_worth_it =
            matches!(task, Task::Get(_)) && !is_over && has_room && !self.membership.is_frozen();
        if is_worth_it && self.gate.admits(Visit::Again) {
            self.counters.bytes_admitted += (key.plain().len() + object.value.len()) as u64;
            self.buffer.release(self.clocks.now, *ident, key);
        }
    }

    /// Most bytes that may be held: half of what index, ghosts and full buffers leave of the memory.
    #[must_use]
    pub fn held_limit(&self) -> u64 {
        let others = self.index.bytes() + self.ghost_bytes() + self.options.buffer_bytes();
        self.options.memory_bytes.saturating_sub(others) / 2
    }

    /// True of a key whose newest version is in memory alone: for checks.
    #[must_use]
    pub fn is_held(&self, key: &FullKey) -> bool {
        let (_, ident) = self.hash_of(key);
        self.buffer.is_held(ident, key)
    }

    /// What goes to flash, and what does not.
    #[must_use]
    pub fn admission(&self) -> AdmissionStatus {
        AdmissionStatus {
            policy: self.options.admission,
            bytes_per_day: self.options.endurance,
            level: self.gate.level(),
            held: self.buffer.held() as u64,
            held_bytes: self.buffer.held_bytes(),
        }
    }
}
