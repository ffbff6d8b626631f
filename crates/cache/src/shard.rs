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
mod drive;
mod eviction;
mod expiries;
mod holding;
mod joining;
mod journal;
mod lookup;
mod membership;
mod memory;
mod needed;
mod open;
mod operation;
mod packing;
mod reinsertion;
mod sharing;
mod walk;
mod writing;
mod zones;

use crate::admission::Gate;
use crate::config::Options;
use crate::format::NAMESPACES;
use crate::format::journal::Entry;
use crate::format::stamp::Life;
use crate::format::superblock::Clears;
use crate::hash::{FullKey, Ident, KeyHash};
use crate::index::{Index, PageNumber};
use crate::request::{Namespace, Reply, Request, WallMillis};
use crate::shared::SharedLog;
use crate::status::Counters;
use acknowledging::Unflushed;
use base::chains::Chains;
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use buffer::Buffer;
use clear::Clear;
pub(crate) use drive::journal_zones;
pub use drive::{Drive, Journal, JournalEntries, JournalZone, LogPlace};
use eviction::Sweep;
pub use expiries::Expiries;
pub use joining::BayRefusal;
pub use membership::{Membership, stamp_superblock};
pub use memory::Copies;
pub use needed::Needed;
pub use open::{OpenZone, OpenZones};
use operation::Operation;
pub use sharing::Sharing;
use std::collections::{BTreeMap, VecDeque};
use walk::Walks;
use zone::device::{Command, Completion, Op as DeviceOp, Status, Token};
use zone::drives::DriveCommand;
pub use zones::{Zone, ZoneUse, Zones};

/// What a shard asks for.
#[derive(Debug, Default)]
pub struct Effects {
    /// Commands for drives.
    pub commands: Vec<DriveCommand>,
    /// Answers to requests.
    pub replies: Vec<Reply>,
}

/// What a command was for.
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

/// Who the cache is.
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

/// Requests on their way.
#[derive(Default)]
struct Desk {
    operations: Slab<Operation>,
    /// The first operation of each key, by the hash of the key: it is under way.
    firsts: Chains,
    /// Operations that can go on.
    ready: VecDeque<u32>,
    /// Stores that wait for room in the buffers.
    stalled: VecDeque<u32>,
    /// Stores that wait for a flush of the drive on which their pages are.
    unflushed: BTreeMap<usize, Unflushed>,
    /// A clear that waits for what came before it, or is under way.
    clear: Option<Clear>,
    /// Everything is to be forgotten, as soon as no other clear is under way.
    forgets: bool,
    /// Requests that came after the clear.
    behind: VecDeque<Request>,
}

/// See the module.
pub struct Shard {
    identity: Identity,
    options: Options,
    index: Index,
    drives: Vec<Drive>,
    clocks: Clocks,
    clears: Clears,
    buffer: Buffer,
    memory: Copies,
    gate: Gate,
    desk: Desk,
    walks: Walks,
    /// Entries on their way: by ident and number, who waits for each.
    entries: BTreeMap<(Ident, u64), Vec<u32>>,
    membership: Membership,
    sharing: Sharing,
    sweep: Sweep,
    frames: Vec<Frame>,
    counters: Counters,
}

/// What a recovery hands to the shard it makes.
pub struct Recovered {
    /// Who the cache is.
    pub identity: Identity,
    /// How it behaves.
    pub options: Options,
    /// The index.
    pub index: Index,
    /// The drives.
    pub drives: Vec<Drive>,
    /// Latest wall time seen.
    pub wall: WallMillis,
    /// What was cleared, and will be.
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
        let mut shard = Shard {
            identity,
            options,
            index,
            drives,
            clocks,
            clears,
            buffer: Buffer::default(),
            memory: Copies::new(&options.shares),
            gate,
            desk: Desk::default(),
            walks: Walks::default(),
            entries: BTreeMap::new(),
            membership,
            sharing,
            sweep: Sweep::new(evicted),
            frames: Vec::new(),
            counters: Counters::default(),
        };
        let share = shard.listing_share();
        for drive in 0..shard.drives.len() {
            shard.drives[drive].open.drop_listings_over(share);
            if shard.drives[drive].is_worn_out() {
                shard.fail_drive(drive);
            }
        }
        for (drive, entry) in entries {
            if shard.drives[drive].up {
                shard.issue_entry(drive, entry.hash, entry.sequence, None);
            }
        }
        shard
    }

    /// True when what recovery has to write and reset is on the media.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let has_recovered = self.sharing.log.as_ref().is_none_or(SharedLog::has_recovered);
        let is_done = self.membership.is_settled() && self.entries.is_empty() && !self.waits_for_resets();
        is_done && has_recovered || self.membership.is_frozen()
    }

    /// True while zones wait to be reset.
    fn waits_for_resets(&self) -> bool {
        let waits = |zones: &Zones| zones.count(ZoneUse::Draining) + zones.count(ZoneUse::Resetting) > 0;
        self.drives.iter().any(|drive| drive.up && waits(&drive.zones))
    }

    /// Accepts a request.
    pub fn submit(&mut self, wall: WallMillis, request: Request) {
        self.clocks.wall = self.clocks.wall.max(wall);
        self.begin_clear_due();
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
            Purpose::Walk => return self.on_walk_page(PageNumber(slot), completion),
            Purpose::Collect => return self.on_collected(drive, completion),
            Purpose::Carry => return self.on_journal_read(drive, completion),
            _ => {}
        }
        self.frames.extend(completion.frames);
        if !self.drives[drive].up {
            return;
        }
        match purpose {
            Purpose::Lookup | Purpose::Walk | Purpose::Collect | Purpose::Carry => {
                unreachable!("handled above")
            }
            Purpose::Batch => self.on_written((drive, completion.zone), effects),
            Purpose::PageFlush => self.on_flushed(drive, effects),
            Purpose::JournalHeader => self.on_journal_header(drive),
            Purpose::Journal => self.on_journal(drive, effects),
            Purpose::JournalFlush => self.on_journal_durable(drive, effects),
            Purpose::Reset => self.on_reset(drive, completion.zone, effects),
            Purpose::ResetFlush => self.on_reset_durable(drive, ZoneIndex(slot)),
            Purpose::Finish => {
                self.drives[drive].zones[completion.zone.index()].readers -= 1;
                self.drives[drive].finishing -= 1;
            }
            Purpose::SuperblockReset => self.write_superblock(drive, effects),
            Purpose::Superblock => self.on_superblock(drive, effects),
            Purpose::SuperblockFlush => self.membership.recorded_by(drive),
        }
    }

    /// Makes what progress is possible.
    pub fn turn(&mut self, now: Instant, wall: WallMillis, effects: &mut Effects) {
        self.clocks.now = now;
        self.note_budget();
        self.clocks.wall = self.clocks.wall.max(wall);
        self.settle(effects);
        self.go_on_sharing();
        self.go_on_clearing(effects);
        // A clear that has just begun, or a log that is needed no more, has superblocks to write, and nothing else would wake anybody for them.
        self.settle(effects);
        self.run_ready(now, effects);
        for drive in 0..self.drives.len() {
            self.collect(drive, now, effects);
            self.carry(drive, effects);
            self.evict(drive, effects);
            self.write_journal(drive, effects);
            self.flush_pages(drive, effects);
        }
        self.sweep();
        self.write_data(now, effects);
        self.run_ready(now, effects);
        self.run_walks(effects);
    }

    /// Time at which a page leaves that is not full.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        // What is left in buffers goes nowhere without drives; what was due in the last turn waits for one, and no longer for time.
        self.buffer.deadlines().filter(|due| *due > self.clocks.now && !self.membership.is_frozen()).min()
    }

    /// True when the next turn has work that waits for nobody.
    #[must_use]
    pub fn is_eager(&self) -> bool {
        let evicts = (0..self.drives.len()).any(|drive| self.may_collect(drive) || self.may_reset(drive));
        !self.desk.ready.is_empty() || self.sweep.is_under_way() || self.walks.is_eager() || evicts
    }

    /// Latest wall time seen.
    #[must_use]
    pub fn wall(&self) -> WallMillis {
        self.clocks.wall
    }

    /// Live objects of a namespace, as far as known.
    #[must_use]
    pub fn objects(&self, namespace: Namespace) -> u64 {
        let place = usize::from(namespace.0) % NAMESPACES;
        let zones = self.drives.iter().filter(|drive| drive.up).flat_map(|drive| drive.zones.iter());
        let flash: u64 = zones.map(|zone| u64::from(zone.live[place])).sum();
        flash + self.buffer.objects(namespace)
    }

    /// Counters and sizes.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The drives.
    #[must_use]
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// The members.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Bytes in buffers, without what is held in memory alone.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.buffer.bytes() - self.buffer.held_bytes()
    }

    /// Bytes of what the next directories list.
    #[must_use]
    pub fn listing_bytes(&self) -> u64 {
        self.drives.iter().map(|drive| drive.open.listing_bytes()).sum()
    }

    /// Bytes of what remembers objects that are gone.
    #[must_use]
    pub fn ghost_bytes(&self) -> u64 {
        self.gate.bytes() + self.sweep.ghost_bytes()
    }

    /// How it behaves.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The memory cache.
    #[must_use]
    pub fn memory(&self) -> &Copies {
        &self.memory
    }

    fn next_sequence(&mut self) -> u64 {
        self.clocks.sequence += 1;
        assert!(self.clocks.sequence >> 40 == u64::from(self.identity.epoch), "a mount has 2^40 sequences");
        self.clocks.sequence
    }

    fn hash_of(&self, key: &FullKey) -> (KeyHash, Ident) {
        let hash = KeyHash::of(&self.identity.secret, key);
        (hash, self.index.shape().ident(hash))
    }

    /// Place of a page: drive, zone and block.
    fn locate(&self, page: PageNumber) -> (usize, ZoneIndex, u32) {
        locate(&self.drives, page)
    }

    fn life(&self, drive: usize, zone: ZoneIndex) -> Life {
        let own = &self.drives[drive].zones[zone.index()];
        let member = u8::try_from(drive).expect("at most 32 members");
        Life { cache: self.identity.cache, member, zone, birth: own.birth, stream: own.stream }
    }

    /// An object of a page was hit.
    fn note_hit(&mut self, page: PageNumber) {
        let (drive, zone, _) = self.locate(page);
        let found = &mut self.drives[drive].zones[zone.index()];
        (found.hits, found.last_hit) = (found.hits + 1, self.clocks.sequence);
    }

    fn take_frame(&mut self) -> Frame {
        self.frames.pop().unwrap_or_else(Frame::zeroed)
    }
}

/// Place of a page: drive, zone and block.
#[must_use]
pub fn locate(drives: &[Drive], page: PageNumber) -> (usize, ZoneIndex, u32) {
    let drive = drives.iter().rposition(|drive| drive.base <= page.0).expect("the first begins at zero");
    let rest = page.0 - drives[drive].base;
    let capacity = drives[drive].capacity;
    (drive, ZoneIndex(rest / capacity), rest % capacity)
}

fn command(drive: usize, zone: ZoneIndex, token: Token, op: DeviceOp) -> DriveCommand {
    DriveCommand { drive: DriveIndex::at(drive), command: Command { token, zone, op } }
}
