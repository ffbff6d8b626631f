//! Checkpoints: the index and the stripe tables of sealed segments are written to stripes now and then, so that a
//! mount reads only what was written since (ADR 14).
//!
//! ```text
//!  Idle ──> Draining ──────────> Writing ──────────> Flushing ──────> Recording ──> Idle
//!           nothing is placed,   blocks of the       devices, so      superblocks,
//!           until no stripe is   image, beside what  that all of it   then the one
//!           in flight: it begins clients do          is durable       before is dropped
//! ```
//! It begins at a moment when no stripe is in flight. Three things follow from that, and a mount relies on them:
//! - whatever a stripe holds that was given out later, a moved block too, is as new as what the image says, or newer;
//! - what a client writes later has a higher sequence than anything before;
//! - every block that the image names is where it says, unless a later stripe holds that name.
//!
//! The image's blocks are named and moved like others, and are the first to go when space gets short: a mount that
//! misses one of them reads all segments. No checkpoint is ever needed.

pub(in crate::log) mod compare;
pub mod image;

use crate::log::config::{ArrayConfig, CheckpointEvery};
use crate::log::core::Core;
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::log::flush::RecoveryFlush;
use crate::log::index::Name;
use crate::log::index::groups::Groups;
use crate::log::segment::SegmentState;
use crate::log::stripe::Origin;
use crate::log::stripe::Stripes;
use crate::log::{Effects, Pba, Shard};
use base::time::Instant;
use image::Image;
use zone::format::checkpoint::{Checkpoint, UNSEALED_MAX, Unsealed};
use zone::format::header::Stream;
use zone::format::superblock::Superblock;

/// Blocks of an image that are in stripes at once: enough to keep drives busy, few beside those of clients.
pub const CHECKPOINT_BLOCKS_IN_FLIGHT: u32 = 64;
/// With `CheckpointEvery::Auto`, an image is written once this many times its size was: 3 % more writes.
const AUTO_PARTS: u64 = 32;
/// And not before so many blocks were written, 256 MiB: less than that is read in no time.
const AUTO_BLOCKS_MIN: u64 = 1 << 16;

/// Checkpoints of a volume.
pub struct Checkpoints {
    every: CheckpointEvery,
    stage: Stage,
    /// Number of the newest checkpoint that was begun or is known of.
    number: u32,
    /// Number of the checkpoint that counts, if any.
    counting: Option<u32>,
    /// Blocks in stripes that are not durable.
    blocks_pending: u32,
    /// Blocks that were written when the newest began.
    blocks_written: u64,
    /// Set when a checkpoint is to be written as soon as possible.
    asked: bool,
    /// Blocks that may be live with room to collect garbage.
    live_blocks_max: u64,
}

/// Stage of the checkpoint in progress.
enum Stage {
    Idle,
    /// Nothing is placed until no stripe is in flight.
    Draining,
    /// Blocks of the image from `next` on are to be written.
    Writing {
        begun: Box<(Checkpoint, Image)>,
        next: u32,
    },
    /// Everything it says is becoming durable.
    Flushing {
        checkpoint: Checkpoint,
        flushed: bool,
    },
    /// The superblocks are told.
    Recording {
        number: u32,
    },
}

impl Stage {
    /// Another stage follows, of the same checkpoint; it may be given up in each.
    fn go(&mut self, next: Stage) {
        let may_follow = match (&*self, &next) {
            (_, Stage::Idle) | (Stage::Idle, Stage::Draining) | (Stage::Draining, Stage::Writing { .. }) => {
                true
            }
            (Stage::Writing { begun, .. }, Stage::Flushing { checkpoint, flushed: false }) => {
                begun.0.number == checkpoint.number
            }
            (Stage::Flushing { checkpoint, flushed: true }, Stage::Recording { number }) => {
                checkpoint.number == *number
            }
            _ => false,
        };
        assert!(may_follow, "a checkpoint goes from {} to {}", self.name(), next.name());
        *self = next;
    }

    fn name(&self) -> &'static str {
        match self {
            Stage::Idle => "idle",
            Stage::Draining => "draining",
            Stage::Writing { .. } => "writing",
            Stage::Flushing { .. } => "flushing",
            Stage::Recording { .. } => "recording",
        }
    }
}

impl Checkpoints {
    /// Returns the checkpoints of a volume that was mounted with the help of `used`, or without.
    #[must_use]
    pub fn new(
        every: CheckpointEvery,
        record: &Superblock,
        used: Option<&Checkpoint>,
        config: &ArrayConfig,
    ) -> Checkpoints {
        Checkpoints {
            every,
            stage: Stage::Idle,
            number: record.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.number),
            counting: used.map(|checkpoint| checkpoint.number),
            blocks_pending: 0,
            blocks_written: 0,
            // The first mount of an array finds nothing to write down.
            asked: used.is_none() && every != CheckpointEvery::Never && record.epoch > 1,
            live_blocks_max: config.volume_blocks_max(),
        }
    }

    /// True while nothing may be placed.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.stage, Stage::Draining)
    }

    /// True when none is being written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// True when the next mount can do with what was written since the newest.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        self.counting.is_some()
    }

    /// The drives' caches are empty, as the checkpoint of this number wished.
    pub fn flushed(&mut self, number: u32) {
        if let Stage::Flushing { checkpoint, flushed } = &mut self.stage
            && checkpoint.number == number
        {
            *flushed = true;
        }
    }
}

impl Shard {
    /// A checkpoint is to be written as soon as possible, unless nothing was written since the last.
    pub fn ask_for_checkpoint(&mut self) {
        let is_new =
            !self.checkpoints.is_counting() || self.checkpoints.blocks_written != blocks_written(&self.core);
        self.checkpoints.asked |= is_new && self.checkpoints.every != CheckpointEvery::Never;
    }

    /// True when a checkpoint is being written, or could be begun and is due.
    #[must_use]
    pub fn is_writing_checkpoint(&self) -> bool {
        !self.checkpoints.is_over()
            || self.checkpoints.is_checkpoint_due(&self.core) && self.can_begin_checkpoint()
    }

    /// True when the next mount can do with what was written since the newest checkpoint.
    #[must_use]
    pub fn has_checkpoint(&self) -> bool {
        self.checkpoints.is_counting()
    }

    /// Closes all stripes for a checkpoint, if one is due and can begin; true when it has done so.
    fn begin_draining(&mut self, now: Instant, fx: &mut Effects) -> bool {
        if !self.checkpoints.is_checkpoint_due(&self.core) || !self.can_begin_checkpoint() {
            self.area.drain(false);
            return false;
        }
        // What slots hold is in no image, so they are empty when it begins.
        if !self.area.is_drained() {
            self.area.drain(true);
            self.move_slots(now, fx);
            return false;
        }
        let blocks = Image::blocks_now(&self.core.index, &self.core.segments);
        if !self.checkpoints.has_room_for_checkpoints(&self.core, blocks) {
            self.checkpoints.postpone_checkpoint(&mut self.core);
            return false;
        }
        // Nor are they filled with what is sealed now.
        self.area.drain(true);
        self.checkpoints.stage.go(Stage::Draining);
        Stream::ALL.into_iter().for_each(|stream| self.appender().seal_filling(stream, fx));
        true
    }

    /// Goes on as far as possible.
    pub(super) fn advance_checkpoint(&mut self, now: Instant, fx: &mut Effects) {
        if self.core.index.checkpoint_blocks() > 0
            && !self.checkpoints.has_room_for_checkpoints(&self.core, 0)
        {
            self.checkpoints.drop_checkpoints(&mut self.core);
        }
        if !self.checkpoints.is_over() && (self.core.membership.is_broken() || self.clients.writes_failed) {
            self.checkpoints.abandon_checkpoint(&mut self.core);
        }
        loop {
            match &self.checkpoints.stage {
                Stage::Idle => {
                    if !self.begin_draining(now, fx) {
                        return;
                    }
                }
                Stage::Draining if self.stripes.has_stripes_in_use() => {
                    // A segment was closed meanwhile: what waits for room may need what the collector frees.
                    if !self.stripes.has_room_to_drain(&self.core) {
                        self.checkpoints.stage.go(Stage::Idle);
                    }
                    return;
                }
                Stage::Draining => {
                    let has_begun = self.checkpoints.begin_checkpoint(&mut self.core);
                    self.area.drain(false);
                    if !has_begun {
                        return self.checkpoints.postpone_checkpoint(&mut self.core);
                    }
                }
                Stage::Writing { begun, next } if *next < begun.1.blocks() => {
                    let stream = self.core.config.stream_for(1);
                    if self.checkpoints.blocks_pending >= CHECKPOINT_BLOCKS_IN_FLIGHT
                        || !self.may_place(stream)
                    {
                        return;
                    }
                    self.place_checkpoint_block(stream, now, fx);
                }
                Stage::Writing { .. } if self.checkpoints.blocks_pending > 0 => return,
                Stage::Writing { begun, .. } => {
                    let checkpoint = begun.0.clone();
                    let number = checkpoint.number;
                    self.checkpoints.stage.go(Stage::Flushing { checkpoint, flushed: false });
                    let waiter = FlushWaiter::Checkpoint(number);
                    if self.device_flush.ask(&mut self.core, waiter, fx) == Flushed::Now {
                        self.checkpoints.flushed(number);
                    }
                }
                Stage::Flushing { flushed: false, .. } => return,
                // The records of members come first: whoever is out must not keep the newest one.
                Stage::Flushing { .. } if self.core.membership.is_changing() => return,
                Stage::Flushing { checkpoint, .. } => {
                    let checkpoint = checkpoint.clone();
                    self.checkpoints.stage.go(Stage::Recording { number: checkpoint.number });
                    self.core.membership.set_checkpoint(checkpoint);
                    self.core.record_change(fx);
                }
                Stage::Recording { .. } if self.core.membership.is_changing() => return,
                Stage::Recording { number } => {
                    let number = *number;
                    self.checkpoints.checkpoint_recorded(&mut self.core, number);
                }
            }
        }
    }

    /// True when all is well enough: what recovery left is done, no write has failed (what it left on the media may
    /// count at a later mount), superblocks have room, and so do the stripes that are not given out.
    fn can_begin_checkpoint(&self) -> bool {
        let capacity = self.core.config.geometry.zone_capacity_blocks;
        self.rescue.flush == RecoveryFlush::Done
            && !self.clients.writes_failed
            && !self.rescue.is_void
            && !self.core.membership.is_broken()
            && !self.core.membership.is_changing()
            && self.core.membership.has_room_for_checkpoint(capacity)
            && self.checkpoints.blocks_pending == 0
            && self.stripes.has_room_to_drain(&self.core)
    }

    /// Makes the next block of the image and puts it into a stripe.
    fn place_checkpoint_block(&mut self, stream: Stream, now: Instant, fx: &mut Effects) {
        let Stage::Writing { begun, next } = &mut self.checkpoints.stage else {
            unreachable!("a checkpoint is being written")
        };
        assert!(*next < begun.1.blocks(), "an image has no block {next}");
        let (checkpoint, image) = &**begun;
        let mut frame = self.core.frames.take();
        image.write_block(*next, &self.core.index, &self.core.segments, &mut frame.data);
        let lba = checkpoint.name(*next);
        *next += 1;
        self.checkpoints.blocks_pending += 1;
        self.core.counters.checkpoint_blocks_written += 1;
        self.appender().place_mapping_block(stream, now, (frame, Name::Mapping(lba), Origin::Checkpoint), fx);
    }
}

impl Checkpoints {
    fn is_checkpoint_due(&self, core: &Core) -> bool {
        let since = blocks_written(core) - self.blocks_written;
        let is_due = match self.every {
            CheckpointEvery::Never => return false,
            CheckpointEvery::Blocks(blocks) => since >= blocks,
            CheckpointEvery::Auto => {
                // Four bytes of a thousand, and some for tables.
                since >= AUTO_BLOCKS_MIN && since >= AUTO_PARTS * core.config.volume_blocks / 512
            }
        };
        is_due || self.asked
    }

    /// Postpones a checkpoint for which there is no room now, until as much was written as from one to the next.
    fn postpone_checkpoint(&mut self, core: &mut Core) {
        self.stage.go(Stage::Idle);
        self.asked = false;
        self.blocks_written = blocks_written(core);
    }

    /// True when so many blocks fit beside what is live without a bite from the collector's proof of room.
    fn has_room_for_checkpoints(&self, core: &Core, more: u64) -> bool {
        let groups = core.index.groups().map_or(0, Groups::placed);
        let live = core.index.mapped_blocks() + core.index.checkpoint_blocks() + groups;
        live + more <= self.live_blocks_max
    }

    /// No stripe is in flight: what is in the index now is what the checkpoint is of. False when that does not work out.
    fn begin_checkpoint(&mut self, core: &mut Core) -> bool {
        let number = self.number + 1;
        let image = Image::new(number, core.next_sequence, &core.index, &core.segments);
        let unsealed: Vec<Unsealed> = (core.segments.iter())
            .filter_map(|(_, segment)| {
                let stripes = match (segment.state, &segment.writer) {
                    _ if segment.is_write_area => return None,
                    (SegmentState::Sealed | SegmentState::Resetting { .. }, _) => return None,
                    // Not the next one: a segment that was closed early gives out none, but would after a crash.
                    (_, Some(writer)) => writer.stripes_landed(),
                    (_, None) => segment.layout.stripes,
                };
                Some(Unsealed { segment: segment.id, stripes })
            })
            .collect();
        if unsealed.len() > UNSEALED_MAX || !self.has_room_for_checkpoints(core, image.blocks().into()) {
            return false;
        }
        let checkpoint = Checkpoint {
            number,
            blocks: image.blocks(),
            sequence: core.next_sequence,
            segment: core.next_segment_id,
            unsealed,
        };
        assert!(self.counting != Some(number), "checkpoint {number} counts already");
        self.number = number;
        self.asked = false;
        self.blocks_written = blocks_written(core);
        core.index.begin_checkpoint(number, checkpoint.blocks);
        self.stage.go(Stage::Writing { begun: Box::new((checkpoint, image)), next: 0 });
        true
    }

    /// A block of an image is durable, or lost.
    pub(super) fn checkpoint_block_done(&mut self, core: &mut Core, name: Name, pba: Pba, lost: bool) {
        assert!(self.blocks_pending > 0, "a block of a checkpoint is durable once");
        self.blocks_pending -= 1;
        if lost {
            self.abandon_checkpoint(core);
        } else if core.index.knows(name) {
            core.map(name, pba);
        }
    }

    /// Every superblock names it: the one before is worth nothing any more.
    fn checkpoint_recorded(&mut self, core: &mut Core, number: u32) {
        assert!(number == self.number, "the newest checkpoint is recorded");
        if let Some(before) = self.counting.replace(number) {
            end_checkpoint(core, before);
        }
        self.stage.go(Stage::Idle);
        core.counters.checkpoints_written += 1;
    }

    /// The one that is being written will not be.
    fn abandon_checkpoint(&mut self, core: &mut Core) {
        if self.counting != Some(self.number) {
            end_checkpoint(core, self.number);
        }
        self.stage.go(Stage::Idle);
    }

    /// Space is short, or a block is lost: there are no checkpoints until the next one.
    pub(super) fn drop_checkpoints(&mut self, core: &mut Core) {
        self.abandon_checkpoint(core);
        if let Some(number) = self.counting.take() {
            end_checkpoint(core, number);
        }
    }
}

impl Stripes {
    /// Stripes that gather or wait fit the segments that are open, so that they need nothing but time.
    fn has_room_to_drain(&self, core: &Core) -> bool {
        Stream::ALL.into_iter().all(|stream| {
            let writer = &self.streams[stream.index()];
            let waiting = writer.sealed.len() as u64 + u64::from(writer.filling.is_some());
            waiting <= self.stripes_with_room(core, stream)
        })
    }

    fn has_stripes_in_use(&self) -> bool {
        Stream::ALL.into_iter().any(|stream| self.slots.in_use(stream) > 0)
    }
}

/// Blocks that clients wrote since the mount. What the collector moves does not count: a checkpoint makes work for
/// it, and one would follow the other for ever.
fn blocks_written(core: &Core) -> u64 {
    core.counters.user_blocks_written + core.counters.tombstone_blocks_written
}

fn end_checkpoint(core: &mut Core, number: u32) {
    for pba in core.index.end_checkpoint(number) {
        core.forget(pba);
    }
}
