//! Fencing: an engine whose drives another host has taken stops, at once and for good (ADR 73).
//!
//! ```text
//!   commands ────> pass ─────────────────────────> drives        a reset or a superblock record is held for a look
//!   engine <────── take <───────────────────────── drives        a refusal that another writer explains: all is held
//!                    │
//!   Watching ── a look is wanted ──> Looking: zone report, last blocks of the superblock zones, of each drive concerned
//!      ^                                │
//!      └──── the newest record is ours ─┴─ it is of a mount that is not ours ──> Fenced
//! ```
//! Zones cannot be overwritten: what destroys is a reset, and what misleads the next mount is a superblock record. Everything else that
//! meets another writer is refused by the drive, or lands where it should not. While a look is on because of that, the engine
//! hears what drives answer, and nothing that it wishes for is carried out: no command, no reply.
//!
//! Between look and reset another host may come: only reservations would exclude that.

use base::erasure::PieceSet;
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use std::fmt;
use zone::device::{Command, Completion, Op, Status, Token};
use zone::drives::{DriveCommand, DriveSet};
use zone::format::SUPERBLOCK_ZONES;
use zone::format::superblock::{Superblock, Uuid, Version};

/// Kind of the tokens of looks: no waiter of an engine has it.
const LOOK_KIND: u8 = 0xf3;
/// Part of a token that says that it is the report; others are reads.
const REPORT: u32 = 0xff_ffff;
/// Blocks that are read from the end of a superblock zone: the last may be torn.
const BLOCKS_READ: u32 = 4;
/// Times that each is read: a drive may have returned another block, once.
const READS: u32 = 2;

/// What an engine knows of its own superblock records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRecord {
    /// The array.
    pub array: Uuid,
    /// The newest record that it wrote, or is about to write.
    pub version: Version,
    /// Tag of its mount.
    pub mount_tag: u64,
}

impl OwnRecord {
    /// True for a record of the same array that was written since, and not by this engine.
    #[must_use]
    pub fn is_foreign(&self, found: &Superblock) -> bool {
        let is_later = found.epoch > self.version.epoch;
        let is_beside = found.epoch == self.version.epoch
            && (found.mount_tag != self.mount_tag || found.generation > self.version.generation);
        found.array == self.array && (is_later || is_beside)
    }
}

/// Another host has taken a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The drive on which that was found.
    pub drive: DriveIndex,
    /// The newest record that this engine wrote.
    pub ours: Version,
    /// The newest record of the drive.
    pub theirs: Version,
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fenced { drive, ours, theirs } = self;
        write!(
            f,
            "drive {drive} was taken by another server: its newest superblock has generation {} of mount {}, this server wrote \
             generation {} of mount {}; this server stops and writes nothing more: let one host have the drives, and start \
             the array there",
            theirs.generation, theirs.epoch, ours.generation, ours.epoch
        )
    }
}

impl std::error::Error for Fenced {}

/// A command that a drive refused though it follows the rules, as far as the engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The drive.
    pub drive: DriveIndex,
    /// The command.
    pub command: &'static str,
    /// Its zone.
    pub zone: ZoneIndex,
    /// Its first block; zero for an append.
    pub offset: u32,
    /// Its blocks.
    pub blocks: usize,
    /// The answer.
    pub status: Status,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { drive, command, zone, offset, blocks, status } = self;
        write!(
            f,
            "drive {drive} answered {status:?} ({:#05x}) to {command}, zone {zone}, block {offset}, {blocks} blocks",
            status.nvme_code()
        )
    }
}

/// What is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing; `is_on` says whether anything ever is.
    #[default]
    Watching,
    /// Drives are looked at.
    Looking,
    /// Over.
    Fenced(Fenced),
}

/// Drives to be looked at, and what waits for that.
#[derive(Debug, Default)]
struct Look {
    drives: PieceSet,
    held: Vec<DriveCommand>,
    /// Everything else waits, too.
    is_suspicious: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Fence {
    is_on: bool,
    state: State,
    /// The look that is on.
    now: Look,
    /// The one after it.
    next: Look,
    /// Commands of the look that are not answered.
    pending: u32,
    /// Drives that refused what only another writer explains.
    refusing: PieceSet,
    /// What the look found that is not ours.
    found: Option<Fenced>,
    refusals: Vec<Refusal>,
}

impl Fence {
    /// From now on.
    pub fn watch(&mut self) {
        self.is_on = true;
    }

    /// True when it watches.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Another host that has taken a drive.
    #[must_use]
    pub fn fenced(&self) -> Option<Fenced> {
        match self.state {
            State::Fenced(fenced) => Some(fenced),
            State::Watching | State::Looking => None,
        }
    }

    /// True while nothing may be carried out: a drive refused what only another writer explains, or the end has come.
    #[must_use]
    pub fn holds_all(&self) -> bool {
        self.fenced().is_some() || self.now.is_suspicious || self.next.is_suspicious
    }

    /// True when no drive is looked at, and nothing waits for that.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state != State::Looking && self.next.drives.is_empty()
    }

    /// What drives refused, since this was asked last.
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Holds a command that cannot be undone until its drive was looked at; returns any other.
    #[inline]
    pub fn pass(&mut self, command: DriveCommand) -> Option<DriveCommand> {
        if !self.is_on || !is_irrevocable(&command.command) {
            return Some(command);
        }
        self.next.drives.insert(command.drive.index());
        self.next.held.push(command);
        None
    }

    /// Drives that refused what only another writer explains, since this was asked last.
    pub fn take_refusing(&mut self) -> PieceSet {
        std::mem::take(&mut self.refusing)
    }

    /// Another writer may have been at drives. Others are looked at, too: those may be lost, and tell nothing.
    pub fn suspect(&mut self, members: PieceSet) {
        if self.is_on && self.fenced().is_none() {
            self.next.drives = self.next.drives.or(members);
            self.next.is_suspicious = true;
        }
    }

    /// Begins the next look, if one is wanted and none is on.
    pub fn begin(&mut self, now: Instant, drives: &mut DriveSet) {
        if self.state != State::Watching || self.next.drives.is_empty() {
            return;
        }
        self.enter(State::Looking);
        self.now = std::mem::take(&mut self.next);
        for drive in self.now.drives.iter() {
            let op = Op::Report { count: SUPERBLOCK_ZONES };
            self.ask(now, drives, (DriveIndex::at(drive), ZoneIndex(0)), REPORT, op);
        }
    }

    /// Hears an answer; returns it unless it is one to a look. `name` says what a command is.
    #[inline]
    pub fn take(
        &mut self,
        now: Instant,
        drives: &mut DriveSet,
        (drive, completion): (DriveIndex, Completion),
        own: impl FnOnce() -> Option<OwnRecord>,
        name: impl FnOnce(Token) -> &'static str,
    ) -> Option<Completion> {
        if !self.is_on {
            return Some(completion);
        }
        if completion.token.unpack().0 == LOOK_KIND {
            self.hear(now, drives, drive, completion, own());
            return None;
        }
        if completion.status.contradicts_zone() && self.fenced().is_none() {
            let Completion { token, status, zone, offset, ref frames, .. } = completion;
            let blocks = frames.len();
            self.refusals.push(Refusal { drive, command: name(token), zone, offset, blocks, status });
            self.refusing.insert(drive.index());
        }
        Some(completion)
    }

    /// Ends a look whose answers have all come: lets go what was held, or nothing ever again.
    pub fn end(&mut self, now: Instant, drives: &mut DriveSet) {
        if self.state != State::Looking || self.pending > 0 {
            return;
        }
        let look = std::mem::take(&mut self.now);
        match self.found.take() {
            Some(fenced) => self.end_for_good(fenced),
            None => {
                self.enter(State::Watching);
                look.held.into_iter().for_each(|command| drives.submit(now, command));
            }
        }
    }

    /// Another host has taken a drive: nothing is carried out any more.
    pub fn end_for_good(&mut self, fenced: Fenced) {
        assert!(self.is_on, "who does not watch is not fenced");
        self.enter(State::Fenced(fenced));
        (self.now, self.next) = (Look::default(), Look::default());
    }

    fn enter(&mut self, next: State) {
        let may_follow = match (self.state, next) {
            (State::Watching, State::Looking | State::Fenced(_)) => true,
            (State::Looking, State::Watching | State::Fenced(_)) => self.pending == 0,
            _ => false,
        };
        assert!(may_follow, "{next:?} after {:?}", self.state);
        self.state = next;
    }

    fn ask(
        &mut self,
        now: Instant,
        drives: &mut DriveSet,
        (drive, zone): (DriveIndex, ZoneIndex),
        part: u32,
        op: Op,
    ) {
        self.pending += 1;
        let token = Token::pack(LOOK_KIND, u32::from(drive.0), part);
        drives.submit(now, DriveCommand { drive, command: Command { token, zone, op } });
    }

    fn hear(
        &mut self,
        now: Instant,
        drives: &mut DriveSet,
        drive: DriveIndex,
        completion: Completion,
        own: Option<OwnRecord>,
    ) {
        assert!(self.pending > 0, "looks are answered once");
        self.pending -= 1;
        let Completion { token, status, zone, offset, frames, report } = completion;
        let (_, _, part) = token.unpack();
        if part == REPORT {
            let Some(geometry) = drives.geometry(drive).copied() else { return };
            let blocks_max = BLOCKS_READ.min(geometry.transfer_blocks_max);
            for (zone, descriptor) in (0..).map(ZoneIndex).zip(report) {
                let end = descriptor.written_blocks(geometry.zone_capacity_blocks);
                let blocks = end.min(blocks_max);
                for part in 0..if blocks > 0 { READS } else { 0 } {
                    let frames = (0..blocks).map(|_| Frame::zeroed()).collect();
                    let op = Op::Read { offset: end - blocks, frames };
                    self.ask(now, drives, (drive, zone), part, op);
                }
            }
            return;
        }
        match status {
            // It is away and may come back: whoever has it then.
            Status::Stalled => self.ask(now, drives, (drive, zone), part, Op::Read { offset, frames }),
            Status::Success => {
                let newest = frames.iter().rev().find_map(|frame| Superblock::decode(&frame.data));
                let own = own.expect("who watches has records");
                if let Some(found) = newest.filter(|found| own.is_foreign(found)) {
                    self.found = Some(Fenced { drive, ours: own.version, theirs: found.version() });
                }
            }
            // A drive that does not tell fails as it would have.
            _ => {}
        }
    }
}

/// True for a command that destroys what another host may have written, or says to the next mount what would mislead it.
fn is_irrevocable(command: &Command) -> bool {
    match command.op {
        Op::Reset => true,
        Op::Write { .. } => command.zone.0 < SUPERBLOCK_ZONES,
        _ => false,
    }
}
