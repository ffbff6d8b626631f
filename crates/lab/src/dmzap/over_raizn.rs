//! The layer over the logical zones of the baseline after RAIZN: a volume that may be written anywhere.

use super::{Answer, Command, DmZap, Effects, Op};
use array::driven::Driven;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::{Frame, FramePool};
use base::time::Instant;
use base::units::Lba;
use baseline::Raizn;
use baseline::volume::RaiznVolume;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Frames that clients and the layer may have out.
const FRAMES_MAX: usize = 1 << 20;

/// The volume.
pub struct ZapOverRaizn {
    /// The layer.
    pub zap: DmZap,
    below: RaiznVolume,
    frames: FramePool,
    effects: Effects,
    /// Frames of commands, which stay here: the baseline has its own.
    under_way: BTreeMap<u64, Vec<Frame>>,
    replies: Vec<Reply>,
    /// Reads, whose frames go to clients.
    reads: BTreeSet<u64>,
    /// Writes that are not answered.
    writes: BTreeSet<u64>,
    /// Flushes, and the last request before each.
    flushes: VecDeque<(u64, RequestId)>,
    ready: Vec<Reply>,
}

impl ZapOverRaizn {
    /// The layer over a baseline that is mounted.
    #[must_use]
    pub fn new(zap: DmZap, below: Driven<Raizn>) -> ZapOverRaizn {
        ZapOverRaizn {
            zap,
            below,
            frames: FramePool::new(FRAMES_MAX),
            effects: Effects::default(),
            under_way: BTreeMap::new(),
            replies: Vec::new(),
            reads: BTreeSet::new(),
            writes: BTreeSet::new(),
            flushes: VecDeque::new(),
            ready: Vec::new(),
        }
    }

    /// The baseline.
    #[must_use]
    pub fn raizn(&self) -> &Raizn {
        &self.below.engine
    }

    /// Lets virtual time pass, as [`Driven::pass_time`].
    pub fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        self.below.pass_time(now, until)
    }

    /// Hands on what the layer wishes for.
    fn carry_out(&mut self, now: Instant) {
        for Command { token, zone, offset, op } in std::mem::take(&mut self.effects.commands) {
            let start = self.below.engine.zone_start(zone);
            let lba = Lba(start.0 + u64::from(offset));
            let (op, frames) = match op {
                Op::Read(frames) => {
                    let blocks = u32::try_from(frames.len()).expect("a command");
                    (RequestOp::Read { lba, blocks }, frames)
                }
                Op::Write(frames) => {
                    let mut own = self.below.frames().take_vec(frames.len());
                    own.iter_mut().zip(&frames).for_each(|(own, frame)| own.data = frame.data);
                    (RequestOp::Write { lba, frames: own, force_unit_access: false }, frames)
                }
                Op::Reset => {
                    let blocks = u64::from(self.below.engine.zone_blocks());
                    (RequestOp::Trim { lba, blocks, force_unit_access: false }, Vec::new())
                }
            };
            self.under_way.insert(u64::from(token), frames);
            self.below.submit(now, Request { id: RequestId(u64::from(token)), op });
        }
        for Answer { tag, frames } in std::mem::take(&mut self.effects.answers) {
            let mut reply = Reply { id: RequestId(tag), outcome: Outcome::Done, frames };
            if !self.reads.remove(&tag) {
                assert!(self.writes.remove(&tag), "answered once");
                self.frames.give_many(&mut reply.frames);
            }
            self.ready.push(reply);
        }
        while let Some((last, id)) = self.flushes.front().copied()
            && self.writes.first().is_none_or(|first| *first > last)
        {
            self.flushes.pop_front();
            self.ready.push(Reply { id, outcome: Outcome::Done, frames: Vec::new() });
        }
    }

    /// Answers of the baseline.
    fn take_replies(&mut self) {
        for mut reply in std::mem::take(&mut self.replies) {
            assert!(reply.outcome == Outcome::Done, "the baseline failed a request");
            let mut frames = self.under_way.remove(&reply.id.0).expect("answered once");
            frames.iter_mut().zip(&reply.frames).for_each(|(frame, own)| frame.data = own.data);
            self.below.frames().give_many(&mut reply.frames);
            let token = u32::try_from(reply.id.0).expect("a slot of commands");
            self.zap.done(token, frames, &mut self.effects);
        }
    }
}

impl Volume for ZapOverRaizn {
    fn blocks(&self) -> u64 {
        self.zap.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.frames
    }

    fn client_frames_available(&self) -> usize {
        self.frames.available()
    }

    fn submit(&mut self, now: Instant, Request { id, op }: Request) {
        match op {
            RequestOp::Read { lba, blocks } => {
                let frames = self.frames.take_vec(blocks as usize);
                self.reads.insert(id.0);
                self.zap.read(id.0, lba.0, frames, &mut self.effects);
            }
            RequestOp::Write { lba, frames, .. } => {
                self.writes.insert(id.0);
                self.zap.write(id.0, lba.0, frames, &mut self.effects);
            }
            RequestOp::Trim { lba, blocks, .. } => {
                self.zap.trim(lba.0, blocks);
                self.ready.push(Reply { id, outcome: Outcome::Done, frames: Vec::new() });
            }
            RequestOp::Flush => {
                let last = self.writes.last().copied().unwrap_or(0);
                self.flushes.push_back((last, id));
            }
        }
        self.carry_out(now);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        let moves = self.below.turn(now, &mut self.replies);
        let is_answered = !self.replies.is_empty();
        self.take_replies();
        self.carry_out(now);
        replies.append(&mut self.ready);
        moves || is_answered
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.below.next_deadline()
    }
}
