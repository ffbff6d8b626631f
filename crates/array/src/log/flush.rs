//! Flush and FUA: what clients were told is written also survives a power failure.
//!
//! A flush first waits until every write and trim that arrived before it is durable on the drives,
//! then empties the drives' volatile caches. Device flushes are shared: requests that arrive while
//! one is under way wait together for the next.
//!
//! ```text
//!  clients   ──flush──┐──flush──┐                 a round of theirs never waits for one of the engine's
//!  engine    ─────────flush of all───────┐        seals, collection, checkpoints, rebuilds
//! ```
//! A drive that is being rebuilt is full of what the rebuild wrote, and counts as lost until all of it is there. What
//! clients were told is safe without it, so their rounds leave it out; the flush that comes before it counts covers what
//! they left behind.

use crate::log::core::Core;
use crate::log::requests::RequestSlot;
use crate::log::segment::SegmentSlot;
use crate::log::summary::SummaryDue;
use crate::log::{Effects, Waiter};
use base::units::ZoneIndex;
use zone::device::Op;

/// Blocks of fillers for each drive that may be written from one flush to the next: a quarter of a MiB is a millisecond of a
/// disk, no more than the flush takes anyway.
const FILLERS_UNFLUSHED_MAX: usize = 64;

/// Waiter of a device flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushWaiter {
    /// A request of a client, to be answered.
    Request(RequestSlot),
    /// The collector: the blocks that it moved are durable, and their victim can be erased.
    Gc,
    /// A segment that is sealed: what a full zone holds is durable, whatever becomes of caches.
    Seal(SegmentSlot),
    /// The fillers of a zone that is closed early.
    Fillers {
        /// Segment of the zone.
        segment: SegmentSlot,
        /// Drive of the zone.
        drive: usize,
    },
    /// Everything that recovery wrote.
    Recovery,
    /// A lane of the rebuild: what a rebuilt zone holds and whatever its table takes for durable, or the record that a
    /// member is whole again.
    Rebuild(usize),
    /// A checkpoint, by its number: what it says and what it says it of. A volatile cache may lose the newer copy of a
    /// block that the image names, and then nobody knows of the one before.
    Checkpoint(u32),
    /// A summary: what it is about to say. A volatile cache may lose a chunk and keep the summary.
    Summary(SummaryDue),
}

/// Answer to whoever needs the drives' caches empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flushed {
    /// Nothing is in a volatile cache.
    Now,
    /// The waiter is told later.
    Later,
}

/// State of the flush after a recovery: what clients are shown must survive the next power failure too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryFlush {
    /// Waits until everything is where it belongs.
    Due,
    /// Under way.
    Flushing,
    /// They are durable, and the superblocks are being told that no member lacks anything any more for want of its windows.
    Recording,
    /// The blocks that recovery wrote and moved are durable.
    Done,
}

/// For whom drives are flushed: each party has one round under way at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Flushes and FUA of clients.
    Clients,
    /// Whatever the engine needs durable before it goes on.
    Engine,
}

impl Party {
    /// Both parties.
    pub const ALL: [Party; 2] = [Party::Clients, Party::Engine];

    fn index(self) -> usize {
        usize::from(self == Party::Engine)
    }

    fn of(waiter: FlushWaiter) -> Party {
        if matches!(waiter, FlushWaiter::Request(_)) { Party::Clients } else { Party::Engine }
    }
}

/// A flush of the drives for one party, and those who wait for its next.
#[derive(Debug, Default)]
struct Round {
    drives_pending: u32,
    /// Generation of the newest record of members that was durable on the drives when it began; zero when one
    /// was being written.
    covers: u64,
    /// A member was left out.
    is_partial: bool,
    /// Set when the round is over but for a record that tells of a member's failure.
    awaits_record: bool,
    current: Vec<FlushWaiter>,
    next: Vec<FlushWaiter>,
}

/// The device flushes under way.
#[derive(Debug, Default)]
pub struct DeviceFlush {
    rounds: [Round; 2],
    /// Generation of the newest record of members that has left the cache of every drive.
    generation_durable: u64,
    /// Blocks of fillers written since the engine's last round began.
    fillers_unflushed: usize,
    /// The member that is being rebuilt, while not all of it is there, and the generation of the record that says so.
    rebuilding: Option<(usize, u64)>,
}

impl DeviceFlush {
    fn round(&mut self, party: Party) -> &mut Round {
        &mut self.rounds[party.index()]
    }

    /// Asks for a flush of the drives. Those that wait together share one.
    pub fn ask(&mut self, core: &mut Core, waiter: FlushWaiter, fx: &mut Effects) -> Flushed {
        let party = Party::of(waiter);
        self.round(party).next.push(waiter);
        if !self.start(core, party, fx) {
            return Flushed::Later;
        }
        let round = self.round(party);
        assert!(round.current == [waiter], "nobody waits for what is never busy");
        round.current.clear();
        Flushed::Now
    }

    /// Fillers were written to a zone that is closed early: the next are at once, unless too many are in volatile caches,
    /// where flushes of clients would wait for them. A replacement closes all segments that are open, whole zones of each
    /// drive.
    pub fn ask_for_fillers(
        &mut self,
        core: &mut Core,
        (segment, drive): (SegmentSlot, usize),
        blocks: usize,
        fx: &mut Effects,
    ) -> Flushed {
        self.fillers_unflushed += blocks;
        let most = FILLERS_UNFLUSHED_MAX * core.config.members;
        if !core.config.geometry.volatile_cache || self.fillers_unflushed < most {
            return Flushed::Now;
        }
        self.ask(core, FlushWaiter::Fillers { segment, drive }, fx)
    }

    /// A member is being rebuilt, and does without flushes of clients once its drives know of it; `None` when all of it is
    /// there.
    pub fn note_rebuild(&mut self, member: Option<(usize, u64)>) {
        self.rebuilding = member;
    }

    /// Starts the next round of a party, unless one is under way or nobody waits. True when it is over at once.
    pub fn start(&mut self, core: &mut Core, party: Party, fx: &mut Effects) -> bool {
        let round = self.round(party);
        let busy = round.drives_pending > 0 || !round.current.is_empty();
        if busy || round.next.is_empty() {
            return false;
        }
        std::mem::swap(&mut round.current, &mut round.next);
        self.flush_drives(core, party, fx)
    }

    /// The member that a round does without.
    fn left_out(&self, core: &Core, party: Party) -> Option<usize> {
        let (member, generation) = self.rebuilding?;
        let is_member =
            self.generation_is_durable(generation) && core.membership.rebuilding() == Some(member);
        (is_member && party == Party::Clients).then_some(member)
    }

    /// Flushes every drive for a round. True when the round is over at once.
    fn flush_drives(&mut self, core: &mut Core, party: Party, fx: &mut Effects) -> bool {
        let settled = u64::from(!core.membership.is_changing());
        let covers = core.membership.record().generation * settled;
        let left_out = self.left_out(core, party);
        if party == Party::Engine {
            self.fillers_unflushed = 0;
        }
        assert!(left_out.is_none_or(|member| member < core.config.members), "a member is left out");
        let round = self.round(party);
        assert!(round.drives_pending == 0);
        round.covers = covers;
        round.is_partial = left_out.is_some();
        if core.config.geometry.volatile_cache {
            let slot = u32::try_from(party.index()).expect("two parties");
            for drive in (0..core.config.members).filter(|drive| left_out != Some(*drive)) {
                if core.membership.is_present(drive) {
                    let part = u32::try_from(drive).expect("at most 32 members");
                    fx.command(drive, ZoneIndex(0), Waiter::Flush { slot, part }, Op::Flush);
                    round.drives_pending += 1;
                }
            }
        }
        round.drives_pending == 0 && self.round_is_over(core, party, fx)
    }

    /// A drive has emptied its cache, or failed to. Returns the party whose round is over with that.
    pub fn drive_flushed(&mut self, core: &mut Core, slot: u32, fx: &mut Effects) -> Option<Party> {
        let party = Party::ALL[slot as usize];
        assert!(party.index() == slot as usize, "parties are numbered");
        let round = self.round(party);
        assert!(round.drives_pending > 0);
        round.drives_pending -= 1;
        (round.drives_pending == 0 && self.round_is_over(core, party, fx)).then_some(party)
    }

    /// A flush that lost a drive is repeated on the others once their superblocks say so: those must be durable too. True
    /// when the round is over at once.
    pub fn repeat(&mut self, core: &mut Core, party: Party, fx: &mut Effects) -> bool {
        std::mem::take(&mut self.round(party).awaits_record) && self.flush_drives(core, party, fx)
    }

    /// All drives have answered: true unless a member failed meanwhile, which must be recorded first.
    fn round_is_over(&mut self, core: &mut Core, party: Party, fx: &mut Effects) -> bool {
        if core.membership.is_changing() {
            self.round(party).awaits_record = true;
            core.membership.flush_waiting = true;
            return false;
        }
        assert!(self.round(party).drives_pending == 0, "all drives have answered");
        let round = self.round(party);
        let (covers, is_partial) = (round.covers, round.is_partial);
        // The record of a drive that was lost meanwhile may have come to the others after they were flushed.
        if core.config.geometry.volatile_cache && covers != core.membership.record().generation {
            return self.flush_drives(core, party, fx);
        }
        if !is_partial {
            self.generation_durable = covers;
            core.membership.settle(covers);
        }
        true
    }

    /// Takes those who waited for a round that is over, to be told; the list comes back empty by [`DeviceFlush::told`].
    pub fn take_waiters(&mut self, party: Party) -> Vec<FlushWaiter> {
        std::mem::take(&mut self.round(party).current)
    }

    /// All who waited for a round were told.
    pub fn told(&mut self, party: Party, list: Vec<FlushWaiter>) {
        assert!(list.is_empty());
        self.round(party).current = list;
    }

    /// True when the record of members of a generation, or a newer one, has left the cache of every drive.
    pub fn generation_is_durable(&self, generation: u64) -> bool {
        self.generation_durable >= generation
    }
}
