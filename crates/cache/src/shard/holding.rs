//! Holding: what is not admitted to flash stays in memory alone, until it is hit or others want its room.
//!
//! To a write of its key it is a version like one that waits for its page: older versions were hidden on flash before its
//! answer, and it is dropped when a later one comes. It has nothing on flash that could come back, so it may be forgotten
//! at any time; the end of the process forgets all of it.

use super::buffer::Record;
use super::core::Core;
use super::objects::Objects;
use crate::admission::Visit;
use crate::hash::{FullKey, Ident};
use crate::status::AdmissionStatus;
use base::time::Instant;

/// An object is held when it takes no more than this part of what may be held.
const LARGEST_SHARE: u64 = 8;

impl Objects {
    /// The gate learns what was written until now.
    pub(super) fn note_budget(&mut self, core: &Core) {
        self.gate.note(core.clocks.now, core.counters.bytes_written());
    }

    /// Takes a new version of a key: for flash, or to hold it. True when it goes to flash.
    pub(super) fn admit(&mut self, core: &mut Core, now: Instant, record: Record) -> bool {
        assert!(record.again.is_none(), "what is written anew was admitted before");
        let bytes = (record.key.plain().len() + record.object.value.len()) as u64;
        let visit = self.gate.visit(record.hash);
        let is_admitted = self.gate.admits(visit);
        if is_admitted {
            core.counters.bytes_admitted += bytes;
            self.buffer.put(now, record);
        } else if record.weight() <= self.held_limit(core) / LARGEST_SHARE {
            self.buffer.hold(record);
        } else {
            self.note_forgotten(core, &record);
        }
        while self.buffer.held_bytes() > self.held_limit(core) {
            let Some(oldest) = self.buffer.forget_oldest() else { break };
            self.note_forgotten(core, &oldest);
        }
        let limit = self.memory_limit(core);
        self.memory.shrink(limit);
        is_admitted
    }

    fn note_forgotten(&mut self, core: &mut Core, record: &Record) {
        self.gate.forgets(record.hash);
        core.counters.forgotten += 1;
        core.counters.bytes_forgotten += (record.key.plain().len() + record.object.value.len()) as u64;
    }

    /// An object was found in buffers. One that is held is worth flash when a client reads it, if there is room on the way.
    pub(super) fn note_buffer_hit(
        &mut self,
        core: &mut Core,
        (ident, key): (Ident, &FullKey),
        is_read: bool,
    ) {
        core.counters.of_mut(key.namespace()).hits += 1;
        if !self.buffer.is_held(ident, key) {
            core.counters.hits_buffer += 1;
            return;
        }
        core.counters.hits_memory += 1;
        let object = self.buffer.get(ident, key).expect("it is held");
        let is_over = object.expires.is_some_and(|at| at <= core.clocks.wall);
        let has_room = self.buffer.stored_bytes() < core.options.stored_bytes_full();
        let is_worth_it = is_read && !is_over && has_room && !core.membership.is_frozen();
        if is_worth_it && self.gate.admits(Visit::Again) {
            core.counters.bytes_admitted += (key.plain().len() + object.value.len()) as u64;
            self.buffer.release(core.clocks.now, ident, key);
        }
    }

    /// Most bytes that may be held: half of what index, ghosts and full buffers leave of the memory.
    pub(super) fn held_limit(&self, core: &Core) -> u64 {
        let others = core.index.bytes() + self.ghost_bytes() + core.options.buffer_bytes();
        core.options.memory_bytes.saturating_sub(others) / 2
    }

    /// True of a key whose newest version is in memory alone: for checks.
    pub(super) fn is_held(&self, core: &Core, key: &FullKey) -> bool {
        let (_, ident) = core.hash_of(key);
        self.buffer.is_held(ident, key)
    }

    /// Admission to flash, for the status.
    pub(super) fn admission(&self, core: &Core) -> AdmissionStatus {
        AdmissionStatus {
            policy: core.options.admission,
            bytes_per_day: core.options.endurance,
            level: self.gate.level(),
            held: self.buffer.held() as u64,
            held_bytes: self.buffer.held_bytes(),
        }
    }
}
