//! A shard: the one owner of index, buffers, zones and journals. It is told the time and what drives answered, and says
//! what drives are to do; nothing here performs I/O.
//!
//! ```text
//!   request -> queue of its key -> lookup (buffers, index, pages) -> decision -> entries -> answer
//!                                                                        \-> filling -> in flight -> index
//! ```
//! Invariants (ADR 40): nothing leaves the index or the buffers while bytes of it can be read after a crash, unless an
//! entry that hides it is on its way to the journal of its drive; a write waits for all entries that match its key.

mod acknowledging;
mod buffer;
mod carrying;
mod clear;
mod core;
mod desk;
mod drive;
mod eviction;
mod expiries;
mod holding;
mod joining;
mod journal;
mod landing;
mod lookup;
mod membership;
mod memory;
mod needed;
mod objects;
mod open;
mod operation;
mod packing;
mod reinsertion;
mod sharing;
mod view;
mod walk;
mod writing;
mod zones;

use crate::config::Options;
use crate::format::journal::Entry;
use crate::format::superblock::Clears;
use crate::index::{Index, PageNumber};
use crate::request::{Reply, Request, WallMillis};
use crate::shared::SharedLog;
use crate::status::Counters;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use buffer::Buffer;
use core::Core;
use desk::Desk;
pub(crate) use drive::journal_zones;
pub use drive::{Drive, Journal, JournalEntries, JournalZone, LogPlace};
use eviction::Sweep;
pub use expiries::Expiries;
pub use joining::BayRefusal;
use journal::Entries;
pub use membership::{Membership, stamp_superblock};
pub use memory::Copies;
pub use needed::Needed;
use objects::Objects;
pub use open::{OpenZone, OpenZones};
pub use sharing::Sharing;
use std::collections::BTreeMap;
use walk::Walks;
use zone::device::{Command, Completion, Op as DeviceOp, Status, Token};
use zone::drives::DriveCommand;
pub use zones::{Zone, ZoneUse, Zones};

/// Effects of a turn of the shard: commands for drives, and replies.
#[derive(Debug, Default)]
pub struct Effects {
    /// Commands for drives.
    pub commands: Vec<DriveCommand>,
    /// Answers to requests.
    pub replies: Vec<Reply>,
}

/// Purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Lookup,
    Walk,
    Collect,
    Batch,
    JournalHeader,
    Journal,
    JournalFlush,
    Carry,
    Reset,
    ResetFlush,
    Finish,
    Superblock,
    SuperblockFlush,
    SuperblockReset,
    PageFlush,
}

const PURPOSES: [Purpose; 15] = [
    Purpose::Lookup,
    Purpose::Walk,
    Purpose::Collect,
    Purpose::Batch,
    Purpose::JournalHeader,
    Purpose::Journal,
    Purpose::JournalFlush,
    Purpose::Carry,
    Purpose::Reset,
    Purpose::ResetFlush,
    Purpose::Finish,
    Purpose::Superblock,
    Purpose::SuperblockFlush,
    Purpose::SuperblockReset,
    Purpose::PageFlush,
];

impl Purpose {
    fn token(self, slot: u32) -> Token {
        let kind = PURPOSES.iter().position(|purpose| *purpose == self).expect("all purposes are listed");
        Token::pack(u8::try_from(kind).expect("few purposes"), slot, 0)
    }

    fn of(token: Token) -> (Purpose, u32) {
        let (kind, slot, _) = token.unpack();
        (PURPOSES[usize::from(kind)], slot)
    }
}

/// Identity of the cache, its drives and its mount.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Identity of the cache.
    pub cache: [u8; 16],
    /// Secret of its hashes.
    pub secret: [u8; 16],
    /// Identities of its drives.
    pub drives: Vec<[u8; 16]>,
    /// Count of mounts.
    pub epoch: u32,
}

/// Numbers that only grow.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    /// Sequence that was given last.
    sequence: u64,
    /// Latest wall time seen.
    wall: WallMillis,
    /// Number of the last journal entry.
    entry: u64,
    /// Time of the last turn.
    now: Instant,
}

/// See the module.
///
/// ```text
///   shard -> operations, clears, lookups, landing -> desk, walks -> entries, objects, sweep -> core
/// ```
pub struct Shard {
    core: Core,
    /// Entries on their way to journals.
    entries: Entries,
    objects: Objects,
    sweep: Sweep,
    desk: Desk,
    walks: Walks,
}

/// Result of a recovery, of which the shard is made.
pub struct Recovered {
    /// Identity of the cache.
    pub identity: Identity,
    /// Options.
    pub options: Options,
    /// The index.
    pub index: Index,
    /// The drives.
    pub drives: Vec<Drive>,
    /// Latest wall time seen.
    pub wall: WallMillis,
    /// Clears that were done, and those that are planned.
    pub clears: Clears,
    /// Members.
    pub membership: Membership,
    /// Entries in memory that outlives the process.
    pub sharing: Sharing,
    /// Entries that must be on the media before clients come.
    pub entries: Vec<(usize, Entry)>,
}

impl Shard {
    /// The shard of a recovery. It serves once [`Shard::is_ready`].
    #[must_use]
    pub fn new(recovered: Recovered) -> Shard {
        let Recovered { identity, options, index, drives, wall, clears, membership, sharing, entries } =
            recovered;
        assert!(identity.epoch < 1 << 24, "epochs are 24 bits");
        let clocks = Clocks { sequence: u64::from(identity.epoch) << 40, wall, entry: 0, now: Instant(0) };
        let (gate, evicted) = (options.gate(index.bytes()), options.evicted(index.bytes()));
        let core = Core {
            identity,
            options,
            index,
            drives,
            clocks,
            clears,
            membership,
            frames: Vec::new(),
            counters: Counters::default(),
        };
        let objects =
            Objects { buffer: Buffer::default(), memory: Copies::new(&options.shares), gate, evicted };
        let mut shard = Shard {
            core,
            entries: Entries { on_their_way: BTreeMap::new(), sharing },
            objects,
            sweep: Sweep::default(),
            desk: Desk::default(),
            walks: Walks::default(),
        };
        let share = shard.core.listing_share();
        for drive in 0..shard.core.drives.len() {
            shard.core.drives[drive].open.drop_listings_over(share);
            if shard.core.drives[drive].is_worn_out() {
                shard.fail_drive(drive);
            }
        }
        for (drive, entry) in entries {
            if shard.core.drives[drive].up {
                shard.entries.issue(&mut shard.core, drive, entry.hash, entry.sequence, None);
            }
        }
        shard
    }

    /// True when what recovery has to write and reset is on the media.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let has_recovered = self.entries.sharing.log.as_ref().is_none_or(SharedLog::has_recovered);
        let is_done = self.core.membership.is_settled()
            && self.entries.on_their_way.is_empty()
            && !self.core.waits_for_resets();
        is_done && has_recovered || self.core.membership.is_frozen()
    }

    /// Accepts a request.
    pub fn submit(&mut self, wall: WallMillis, request: Request) {
        self.core.clocks.wall = self.core.clocks.wall.max(wall);
        self.desk.begin_clear_due(&mut self.core);
        if self.desk.clear.is_some() {
            self.desk.behind.push_back(request);
        } else {
            self.accept(request);
        }
    }

    /// Takes the answer to a command.
    pub fn complete(&mut self, drive: DriveIndex, completion: Completion, effects: &mut Effects) {
        let drive = drive.index();
        let (purpose, slot) = Purpose::of(completion.token);
        let reads = [Purpose::Lookup, Purpose::Walk, Purpose::Collect, Purpose::Carry];
        if completion.status != Status::Success
            && !(reads.contains(&purpose) && completion.status == Status::UnrecoveredReadError)
        {
            self.fail_drive(drive);
        }
        match purpose {
            Purpose::Lookup => return self.on_page(slot, drive, completion, effects),
            Purpose::Walk => return self.walks.on_page(&mut self.core, PageNumber(slot), completion),
            Purpose::Collect => return self.core.on_collected(drive, completion),
            Purpose::Carry => return self.core.on_journal_read(drive, completion),
            _ => {}
        }
        self.core.frames.extend(completion.frames);
        if purpose == Purpose::Finish {
            // Also of a drive that has failed: another one takes its place when nothing of it is under way.
            self.core.end_read(drive, completion.zone);
        }
        if !self.core.drives[drive].up {
            return;
        }
        match purpose {
            Purpose::Lookup | Purpose::Walk | Purpose::Collect | Purpose::Carry => {
                unreachable!("handled above")
            }
            Purpose::Batch => self.on_written((drive, completion.zone), effects),
            Purpose::PageFlush => self.desk.on_flushed(&self.core, drive, effects),
            Purpose::JournalHeader => self.core.on_journal_header(drive),
            Purpose::Journal => {
                let waiting = self.entries.on_journal(&mut self.core, drive, effects);
                self.advance(waiting, effects);
            }
            Purpose::JournalFlush => {
                let waiting = self.entries.on_journal_durable(&mut self.core, drive);
                self.advance(waiting, effects);
            }
            Purpose::Reset => self.core.on_reset(drive, completion.zone, effects),
            Purpose::ResetFlush => self.core.on_reset_durable(drive, ZoneIndex(slot)),
            Purpose::Finish => {
                assert!(self.core.drives[drive].finishing > 0, "a zone ends that was being finished");
                self.core.drives[drive].finishing -= 1;
            }
            Purpose::SuperblockReset => self.core.write_superblock(drive, effects),
            Purpose::Superblock => self.core.on_superblock(drive, effects),
            Purpose::SuperblockFlush => self.core.membership.recorded_by(drive),
        }
    }

    /// Makes what progress is possible.
    pub fn turn(&mut self, now: Instant, wall: WallMillis, effects: &mut Effects) {
        self.core.clocks.now = now;
        self.objects.note_budget(&self.core);
        self.core.clocks.wall = self.core.clocks.wall.max(wall);
        self.settle(effects);
        self.entries.go_on_sharing(&mut self.core);
        self.go_on_clearing(effects);
        // A clear that has just begun, or a log that is needed no more, has superblocks to write, and nothing else would wake anybody for them.
        self.settle(effects);
        self.run_ready(now, effects);
        for drive in 0..self.core.drives.len() {
            self.objects.collect(&mut self.core, drive, now, effects);
            self.core.carry(drive, effects);
            self.objects.evict(&mut self.core, drive, effects);
            self.entries.write_journal(&mut self.core, drive, effects);
            self.desk.flush_pages(drive, effects);
        }
        self.sweep.go_on(&mut self.core, &mut self.objects.evicted);
        self.objects.write_data(&mut self.core, now, effects);
        self.run_ready(now, effects);
        self.walks.run(&mut self.core, &self.objects, effects);
    }

    /// Time at which a page leaves that is not full.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        // What is left in buffers goes nowhere without drives; what was due in the last turn waits for one, and no longer for time.
        self.objects
            .buffer
            .deadlines()
            .filter(|due| *due > self.core.clocks.now && !self.core.membership.is_frozen())
            .min()
    }

    /// True when the next turn has work that waits for nobody.
    #[must_use]
    pub fn is_eager(&self) -> bool {
        let evicts = (0..self.core.drives.len()).any(|drive| {
            self.objects.may_collect(&self.core, drive) || self.objects.may_reset(&self.core, drive)
        });
        !self.desk.ready.is_empty() || self.sweep.is_under_way() || self.walks.is_eager() || evicts
    }

    /// Advances operations for which something they waited for has come.
    fn advance(&mut self, waiting: Vec<u32>, effects: &mut Effects) {
        waiting.into_iter().for_each(|waiter| self.desk.advance(&self.core, waiter, effects));
    }
}

/// Place of a page: drive, zone and block.
#[must_use]
pub fn locate(drives: &[Drive], page: PageNumber) -> (usize, ZoneIndex, u32) {
    let drive = drives.iter().rposition(|drive| drive.base <= page.0).expect("the first begins at zero");
    let rest = page.0 - drives[drive].base;
    debug_assert!(rest < drives[drive].span, "{page:?} is a page of drive {drive}");
    let capacity = drives[drive].capacity;
    (drive, ZoneIndex(rest / capacity), rest % capacity)
}

fn command(drive: usize, zone: ZoneIndex, token: Token, op: DeviceOp) -> DriveCommand {
    DriveCommand { drive: DriveIndex::at(drive), command: Command { token, zone, op } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::tests::geometry;
    use zone::device::Op;

    /// A shard of three empty drives, whose record is not made yet.
    fn shard() -> Shard {
        let (geometry, options) = (geometry(40, 14), Options::default());
        let span = u32::try_from(geometry.capacity_blocks()).unwrap();
        let drives = (0..3).map(|drive| Drive::empty(drive * span, span, &geometry, &options)).collect();
        let identity = Identity {
            cache: [1; 16],
            secret: [2; 16],
            drives: (0..3).map(|drive| [drive; 16]).collect(),
            epoch: 1,
        };
        Shard::new(Recovered {
            identity,
            options,
            index: Index::new(crate::hash::Shape::new(64, 12).unwrap()),
            drives,
            wall: WallMillis(0),
            clears: Clears::default(),
            membership: Membership::new(1, vec![true; 3], 2),
            sharing: Sharing::default(),
            entries: Vec::new(),
        })
    }

    #[test]
    fn a_drive_that_fails_as_a_zone_is_finished_can_be_replaced() {
        let (mut shard, mut effects) = (shard(), Effects::default());
        let (zone, open) = shard.core.begin_zone(0, crate::policy::Stream::Young).unwrap();
        shard.core.drives[0].open.open(crate::policy::Stream::Young, open);
        shard.core.drives[0].zones[zone.index()].end = 1;
        shard.core.close_zone(0, zone, &mut effects);
        let DriveCommand { drive, command } = effects.commands.pop().unwrap();
        assert!(matches!(command.op, Op::Finish));
        assert_eq!(shard.core.drives[0].zones[zone.index()].readers, 1);
        let (token, status) = (command.token, Status::DeviceGone);
        let completion =
            Completion { token, status, zone, offset: 0, frames: Vec::new(), report: Vec::new() };
        shard.complete(drive, completion, &mut effects);
        assert!(!shard.core.drives[0].up);
        assert_eq!(shard.core.drives[0].zones[zone.index()].readers, 0, "nothing of it is under way");
    }
}
