//! dm-zap, a peer in experiments and nothing else: a block layer over zones that keeps its map in memory and persists nothing.
//!
//! ```text
//!   write ─> queue ─> zone 1 | zone 2         two zones open for clients, one write in flight in each
//!   read  ─> map of blocks of 4 KiB to places in zones
//!   few free zones ─> victim (greedy, or by cost and benefit) ─> its live blocks to a third zone ─> reset
//! ```
//! It runs over the zones of a drive (`dmzap/device.rs`: an ordinary block device, for an array above) and over the logical zones of the
//! baseline after RAIZN (`dmzap/over_raizn.rs`: a volume). It performs no I/O: [`DmZap::write`] and the like add [`Effects`].
//!
//! **In what respect it is better than what it stands for.** Map, lock and policies cost no time. A write that finds both zones busy waits for
//! the first that is free, not for one of them. Collection reads and writes many blocks at a time, beside clients, and takes whichever
//! victim policy was asked for; the published layer copies block by block. With `merges`, writes that wait leave together, in commands of
//! up to [`MERGED_BLOCKS_MAX`] blocks. Reads of what was never written are answered from the map. Flushes cost nothing.
//!
//! **What it is bad at.** After a crash nothing is known. Drives that fail are not for it.

pub mod device;
pub mod over_raizn;
mod reclaim;
#[cfg(test)]
mod tests;
mod zones;

use anyhow::{Result, ensure};
use base::frame::Frame;
use base::slab::Slab;
use base::units::BLOCK_BYTES;
use reclaim::{Moved, Reclaim};
use std::collections::VecDeque;
use zones::{Place, Zones};

/// Zones that clients write.
const WRITERS: usize = 2;
/// Zones that hold no data at the least: those that are open, one that is being reset, one to go on with.
const ZONES_BEYOND: u64 = 5;
/// Most blocks of one write where those that wait are merged: 256 KiB, beyond which a zone gains nothing.
pub const MERGED_BLOCKS_MAX: u32 = 64;

/// Victim policy: chooses the zone that is collected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimPolicy {
    /// The one with the fewest live blocks.
    Greedy,
    /// The one where freed space, times the age of what lives there, is most for what moving costs.
    CostBenefit,
}

/// Zones and manner of work.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Blocks that clients see.
    pub blocks: u64,
    /// Zones below.
    pub zones: u32,
    /// Blocks of each.
    pub zone_blocks: u32,
    /// Most blocks of a command.
    pub command_blocks_max: u32,
    /// Writes that wait leave together.
    pub merges: bool,
    /// Choice of victims.
    pub policy: VictimPolicy,
}

/// Operation in a zone.
#[derive(Debug)]
pub enum Op {
    /// Reads blocks.
    Read(Vec<Frame>),
    /// Writes blocks at the write pointer.
    Write(Vec<Frame>),
    /// Empties the zone.
    Reset,
}

/// A command for the zones below.
#[derive(Debug)]
pub struct Command {
    /// Comes back with [`DmZap::done`].
    pub token: u32,
    /// Zone.
    pub zone: u32,
    /// First block within the zone.
    pub offset: u32,
    /// Operation on the zone.
    pub op: Op,
}

/// A request is done.
#[derive(Debug)]
pub struct Answer {
    /// The request's.
    pub tag: u64,
    /// Frames of the request, in order.
    pub frames: Vec<Frame>,
}

/// Effects of a turn: commands and answers.
#[derive(Debug, Default)]
pub struct Effects {
    /// Commands, those of a zone in order.
    pub commands: Vec<Command>,
    /// Answers to clients.
    pub answers: Vec<Answer>,
}

/// Counts, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Written by clients.
    pub user: u64,
    /// Moved by collection.
    pub moved: u64,
    /// Zones that were reset.
    pub resets: u64,
}

/// A request under way.
#[derive(Debug)]
struct Asked {
    tag: u64,
    frames: Vec<Option<Frame>>,
    left: usize,
}

/// Blocks of a request that leave in one command.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: u32,
    /// First frame of the request.
    first: usize,
    lba: u64,
    /// Order of the write.
    sequence: u64,
    blocks: u32,
}

/// A command under way.
#[derive(Debug)]
enum Sent {
    Write { writer: usize, zone: u32, offset: u32, pieces: Vec<Piece> },
    Read { zone: u32, piece: Piece },
    Gather { blocks: Vec<(u64, Place)> },
    Move { zone: u32, offset: u32, blocks: Vec<(u64, Place)> },
    Reset { zone: u32 },
}

/// A zone that clients write, and whether a write is in flight there.
#[derive(Clone, Copy, Debug, Default)]
struct Writer {
    zone: Option<u32>,
    is_busy: bool,
}

/// The layer: all state.
pub struct DmZap {
    config: Config,
    zones: Zones,
    writers: [Writer; WRITERS],
    queue: VecDeque<Piece>,
    requests: Slab<Asked>,
    sent: Slab<Sent>,
    sequence: u64,
    reclaim: Reclaim,
    counters: Counters,
}

impl DmZap {
    /// A layer over empty zones.
    ///
    /// # Errors
    /// When the zones have no room for the blocks and for collection.
    pub fn new(config: Config) -> Result<DmZap> {
        let room = (u64::from(config.zones)).saturating_sub(ZONES_BEYOND) * u64::from(config.zone_blocks);
        ensure!(
            config.blocks <= room,
            "{} zones of {} blocks have no room for {} blocks and for collection",
            config.zones,
            config.zone_blocks,
            config.blocks
        );
        ensure!(config.command_blocks_max > 0, "commands of no blocks");
        Ok(DmZap {
            zones: Zones::new(config.zones, config.zone_blocks, config.blocks)?,
            config,
            writers: [Writer::default(); WRITERS],
            queue: VecDeque::new(),
            requests: Slab::default(),
            sent: Slab::default(),
            sequence: 0,
            reclaim: Reclaim::default(),
            counters: Counters::default(),
        })
    }

    /// Blocks that clients see.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.config.blocks
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A client writes. Of two writes of a block, the one that came later counts.
    pub fn write(&mut self, tag: u64, lba: u64, frames: Vec<Frame>, fx: &mut Effects) {
        assert!(lba + frames.len() as u64 <= self.config.blocks && !frames.is_empty());
        self.sequence += 1;
        self.counters.user += frames.len() as u64;
        let (sequence, left) = (self.sequence, frames.len());
        let frames = frames.into_iter().map(Some).collect();
        let request = self.requests.insert(Asked { tag, frames, left });
        let most = self.config.command_blocks_max as usize;
        for first in (0..left).step_by(most) {
            let blocks = u32::try_from(most.min(left - first)).expect("at most a command");
            self.queue.push_back(Piece { request, first, lba: lba + first as u64, sequence, blocks });
        }
        self.advance(fx);
    }

    /// A client reads into frames.
    pub fn read(&mut self, tag: u64, lba: u64, frames: Vec<Frame>, fx: &mut Effects) {
        assert!(lba + frames.len() as u64 <= self.config.blocks && !frames.is_empty());
        let count = frames.len();
        let frames = frames.into_iter().map(Some).collect();
        let request = self.requests.insert(Asked { tag, frames, left: count });
        let most = self.config.command_blocks_max;
        let mut first = 0;
        while first < count {
            let at = lba + first as u64;
            let most = most.min(u32::try_from(count - first).unwrap_or(u32::MAX));
            let (place, blocks) = self.zones.run_of(at, most);
            let piece = Piece { request, first, lba: at, sequence: 0, blocks };
            first += blocks as usize;
            let mut frames = self.take_frames(&piece);
            match place {
                Some(place) => {
                    self.zones.begin_read(place.zone);
                    let token = self.sent.insert(Sent::Read { zone: place.zone, piece });
                    let (zone, offset) = (place.zone, place.offset);
                    fx.commands.push(Command { token, zone, offset, op: Op::Read(frames) });
                }
                None => {
                    frames.iter_mut().for_each(|frame| frame.data = [0; BLOCK_BYTES]);
                    self.finish_piece(&piece, frames, fx);
                }
            }
        }
    }

    /// Blocks are not needed any more, and read as zeros.
    pub fn trim(&mut self, lba: u64, blocks: u64) {
        self.sequence += 1;
        for block in lba..lba + blocks {
            self.zones.forget(block, self.sequence);
        }
    }

    /// A command is done; its frames come home.
    pub fn done(&mut self, token: u32, frames: Vec<Frame>, fx: &mut Effects) {
        match self.sent.remove(token) {
            Sent::Write { writer, zone, offset, pieces } => {
                self.on_written(writer, (zone, offset), &pieces, frames, fx);
            }
            Sent::Read { zone, piece } => {
                self.zones.end_read(zone);
                self.finish_piece(&piece, frames, fx);
            }
            Sent::Gather { blocks } => {
                let moved = blocks.into_iter().zip(frames);
                self.reclaim.gathered(moved.map(|((lba, from), frame)| Moved { lba, from, frame }));
            }
            Sent::Move { zone, offset, blocks } => self.on_moved((zone, offset), &blocks, frames),
            Sent::Reset { zone } => self.on_reset(zone),
        }
        self.advance(fx);
    }

    /// Sums are right.
    #[cfg(test)]
    fn check(&self) {
        self.zones.check();
    }

    fn advance(&mut self, fx: &mut Effects) {
        self.collect(fx);
        for writer in 0..WRITERS {
            self.send_writes(writer, fx);
        }
    }

    /// Sends queued writes to a zone, of which one is in flight at a time.
    fn send_writes(&mut self, writer: usize, fx: &mut Effects) {
        if self.writers[writer].is_busy || self.queue.is_empty() {
            return;
        }
        // The last free zone is the collector's.
        let free_left = |zones: &mut Zones| if zones.free_count() > 1 { zones.take_free() } else { None };
        let Some(zone) = self.writers[writer].zone.or_else(|| free_left(&mut self.zones)) else { return };
        let room = self.zones.room(zone);
        let merged_max = if self.config.merges { room.min(MERGED_BLOCKS_MAX) } else { 0 };
        let (mut pieces, mut frames, mut blocks) = (Vec::new(), Vec::new(), 0);
        let mut next = self.first_piece(room);
        while let Some(piece) = next {
            blocks += piece.blocks;
            frames.extend(self.take_frames(&piece));
            pieces.push(piece);
            // Others join whole, or wait.
            let fits = self.queue.front().is_some_and(|piece| blocks + piece.blocks <= merged_max);
            next = if fits { self.queue.pop_front() } else { None };
        }
        let lbas = pieces.iter().flat_map(|piece| piece.lba..piece.lba + u64::from(piece.blocks));
        let offset = self.zones.place_at_end(zone, lbas);
        self.writers[writer] = Writer { zone: Some(zone), is_busy: true };
        let token = self.sent.insert(Sent::Write { writer, zone, offset, pieces });
        fx.commands.push(Command { token, zone, offset, op: Op::Write(frames) });
    }

    /// Takes the first piece of the queue, or as much of it as the zone has room for.
    fn first_piece(&mut self, room: u32) -> Option<Piece> {
        let piece = self.queue.pop_front()?;
        if piece.blocks <= room {
            return Some(piece);
        }
        self.queue.push_front(Piece {
            first: piece.first + room as usize,
            lba: piece.lba + u64::from(room),
            blocks: piece.blocks - room,
            ..piece
        });
        Some(Piece { blocks: room, ..piece })
    }

    fn on_written(
        &mut self,
        writer: usize,
        (zone, offset): (u32, u32),
        pieces: &[Piece],
        frames: Vec<Frame>,
        fx: &mut Effects,
    ) {
        let (mut offset, mut frames) = (offset, frames.into_iter());
        for piece in pieces {
            for lba in piece.lba..piece.lba + u64::from(piece.blocks) {
                self.zones.map(lba, Place { zone, offset }, piece.sequence);
                offset += 1;
            }
            let own = frames.by_ref().take(piece.blocks as usize).collect();
            self.finish_piece(piece, own, fx);
        }
        let is_full = self.zones.room(zone) == 0;
        if is_full {
            self.zones.seal(zone, self.sequence);
        }
        self.writers[writer] = Writer { zone: (!is_full).then_some(zone), is_busy: false };
    }

    fn take_frames(&mut self, piece: &Piece) -> Vec<Frame> {
        let frames = &mut self.requests.get_mut(piece.request).frames[piece.first..];
        let own = frames.iter_mut().take(piece.blocks as usize);
        own.map(|frame| frame.take().expect("a frame leaves once")).collect()
    }

    /// The frames of a piece are home; the last of a request answers it.
    fn finish_piece(&mut self, piece: &Piece, frames: Vec<Frame>, fx: &mut Effects) {
        assert!(frames.len() == piece.blocks as usize, "all frames come home");
        let request = self.requests.get_mut(piece.request);
        for (at, frame) in (piece.first..).zip(frames) {
            assert!(request.frames[at].is_none());
            request.frames[at] = Some(frame);
            request.left -= 1;
        }
        if request.left == 0 {
            let Asked { tag, frames, .. } = self.requests.remove(piece.request);
            fx.answers.push(Answer { tag, frames: frames.into_iter().flatten().collect() });
        }
    }
}
