//! Watching over the members of a served array: what failed, what is lost, what is not answered, what waits for room.
//!
//! A member whose oldest command is older than the limit is named; after twice the limit it is given up, unless the array cannot
//! do without it: then what it lies on is in trouble, and its commands wait until that is over.

use array::inplace::volume::InPlaceVolume;
use base::kernel_calls::KernelCalls;
use base::time::{Instant, Nanos};
use block::condition::Condition;
use block::md::Role;
use std::collections::BTreeMap;

/// Time between two looks.
const LOOK_EVERY: Nanos = Nanos(1_000_000_000);

/// See the module.
pub struct Watch {
    limit: Nanos,
    looked_at: Instant,
    members: Vec<Seen>,
    /// Devices that are to replace members, by their places.
    replacements: BTreeMap<Role, Seen>,
    /// Journal, which the array cannot do without; behind all members.
    journal: Option<Role>,
}

/// Condition of a member, as it was seen last.
#[derive(Clone, Default)]
struct Seen {
    is_missing: bool,
    condition: Condition,
    is_overdue: bool,
    lacks_room: bool,
}

impl Watch {
    /// A watch that reports what is not answered within `limit`; zero is for ever. `missing` members are known to be.
    pub fn new(limit: Nanos, roles: usize, missing: &[Role], now: Instant) -> Watch {
        let mut members = vec![Seen::default(); roles];
        missing.iter().for_each(|role| members[role.index()].is_missing = true);
        Watch { limit, looked_at: now, members, replacements: BTreeMap::new(), journal: None }
    }

    /// The same, and over the journal, whose commands go to the role behind those of all members.
    pub fn with_journal(mut self) -> Watch {
        self.journal = u16::try_from(self.members.len()).ok().map(Role);
        self.members.push(Seen::default());
        self
    }

    /// Time of the next look.
    pub fn next_look(&self) -> Instant {
        self.looked_at + LOOK_EVERY
    }

    /// A member came where one was missing.
    pub fn note_added(&mut self, role: Role) {
        match self.members.get_mut(role.index()).filter(|_| !role.is_replacement()) {
            Some(seen) => *seen = Seen::default(),
            None => drop(self.replacements.insert(role, Seen::default())),
        }
    }

    /// A device that was to replace a member is nobody any more, or the member.
    pub fn note_gone(&mut self, place: Role) {
        self.replacements.remove(&place);
    }

    /// Looks, if it is time to, and says what has changed.
    pub fn look(&mut self, now: Instant, volume: &mut InPlaceVolume, name: impl Fn(Role) -> String) {
        if now < self.next_look() {
            return;
        }
        self.looked_at = now;
        let mut lost: Vec<Role> = Vec::new();
        let mut overdue: Vec<Role> = Vec::new();
        let of_members = (0_u16..).map(Role).zip(&mut self.members);
        let of_replacements = self.replacements.iter_mut().map(|(place, seen)| (*place, seen));
        for (role, seen) in of_members.chain(of_replacements) {
            if seen.is_missing {
                continue;
            }
            let seat = volume.engine.core().seat(role);
            seen.condition = volume.condition(now, seat).unwrap_or_default();
            note_room(seen, &name(role));
            if let Some(loss) = seen.condition.loss {
                log::error!("{}: {loss}; it is handled as a failed member", name(role));
                lost.push(role);
            } else if note_overdue(seen, now, self.limit, &name(role)) && self.journal != Some(role) {
                overdue.push(role);
            }
        }
        lost.iter().for_each(|role| volume.give_up_member(*role));
        // Nothing is lost with a member that is not rebuilt.
        let counted = overdue.iter().filter(|role| volume.engine.core().is_whole(**role)).count();
        if counted == 0 || volume.engine.core().can_lose(counted) {
            for role in overdue {
                log::error!("{}: does not answer, is given up and handled as a failed member", name(role));
                volume.give_up_member(role);
            }
        }
        self.note_failures(volume, name);
    }

    fn note_failures(&mut self, volume: &InPlaceVolume, name: impl Fn(Role) -> String) {
        let status = volume.engine.status();
        if let Some(role) = self.journal.filter(|_| status.journal.is_some_and(|journal| journal.has_failed))
            && !std::mem::replace(&mut self.members[role.index()].is_missing, true)
        {
            log::error!("{} has failed: the array is read-only, and nothing of it is lost", name(role));
        }
        for role in &status.missing {
            if !std::mem::replace(&mut self.members[role.index()].is_missing, true) {
                let state = if status.is_broken {
                    "nothing can be written any more"
                } else {
                    "the array is degraded"
                };
                log::error!("{} has failed: {state}", name(*role));
            }
        }
    }

    fn seen(&self, role: Role) -> Option<&Seen> {
        let of_member = self.members.get(role.index()).filter(|_| !role.is_replacement());
        of_member.or_else(|| self.replacements.get(&role))
    }

    /// Operations of a member at the last look, and the calls of the kernel that they took.
    pub fn calls(&self, role: Role) -> KernelCalls {
        self.seen(role).map_or_else(KernelCalls::default, |seen| seen.condition.calls)
    }

    /// Present trouble of a member, in words.
    pub fn trouble(&self, now: Instant, role: Role) -> Option<String> {
        let Seen { condition, is_overdue, .. } = self.seen(role)?;
        let seconds = |since: Instant| now.since(since).0 / 1_000_000_000;
        if let Some(loss) = condition.loss {
            return Some(loss.to_string());
        }
        if let Some(since) = condition.waits_for_room_since {
            return Some(format!("its file system is full; writes have waited for {} s", seconds(since)));
        }
        let oldest = condition.oldest.filter(|_| *is_overdue)?;
        Some(format!("a command has not been answered for {} s", seconds(oldest)))
    }
}

fn note_room(seen: &mut Seen, name: &str) {
    let lacks_room = seen.condition.waits_for_room_since.is_some();
    match (std::mem::replace(&mut seen.lacks_room, lacks_room), lacks_room) {
        (false, true) => {
            log::error!(
                "{name}: its file system is full; writes wait, and go on by themselves when there is room"
            );
        }
        (true, false) => log::warn!("{name}: there is room again, writes go on"),
        (true, true) | (false, false) => {}
    }
}

/// True when the member's time is over.
fn note_overdue(seen: &mut Seen, now: Instant, limit: Nanos, name: &str) -> bool {
    let age = seen.condition.oldest.map_or(Nanos(0), |oldest| now.since(oldest));
    let is_overdue = limit > Nanos(0) && age >= limit;
    match (std::mem::replace(&mut seen.is_overdue, is_overdue), is_overdue) {
        (false, true) => {
            log::error!("{name}: a command has not been answered for {} s", age.0 / 1_000_000_000)
        }
        (true, false) => log::warn!("{name}: answers again"),
        (true, true) | (false, false) => {}
    }
    is_overdue && age.0 >= 2 * limit.0
}
