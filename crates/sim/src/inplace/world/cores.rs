//! Engine of a run, alone or with shards beside it: all in one thread, where the random source decides who turns next and how late each
//! message comes.

use crate::inplace::disk::DiskHandle;
use crate::line::Line;
use array::inplace::shards::messages::{ToControl, ToShard};
use array::inplace::shards::router::{Router, To};
use array::inplace::start::Tuning;
use array::inplace::volume::{InPlaceVolume, Ways};
use array::request::{Outcome, Reply, Request, RequestOp, Volume};
use base::random::Random;
use base::time::{Instant, Nanos};
use block::device::BlockDevice;
use block::md::Role;
use std::ops::{Deref, DerefMut};

/// Shard with its lines.
struct Shard {
    volume: InPlaceVolume,
    asked: Line<Request>,
    to_shard: Line<ToShard>,
    to_control: Line<ToControl>,
}

/// See the module.
pub(super) struct Cores {
    control: InPlaceVolume,
    shards: Vec<Shard>,
    router: Option<Router>,
    random: Random,
    latency: u64,
    /// Empty, with capacity.
    routed: Vec<(To, Request)>,
}

/// Ways to a disk for the engine and so many shards.
pub(super) fn ways(disk: &DiskHandle, shards: usize) -> Ways {
    let way = |port| Box::new(disk.at_port(port)) as Box<dyn BlockDevice>;
    Ways { own: way(0), others: (1..=shards).map(way).collect() }
}

impl Cores {
    /// An engine alone.
    pub(super) fn alone(control: InPlaceVolume, random: Random, latency: u64) -> Cores {
        Cores { control, shards: Vec::new(), router: None, random, latency, routed: Vec::new() }
    }

    /// The same with shards, that have ways to these disks by seat.
    pub(super) fn divide(
        &mut self,
        disks: &[(Role, DiskHandle)],
        count: usize,
        tuning: &Tuning,
        unit_stripes: u64,
    ) {
        let way = |(seat, disk): &(Role, DiskHandle), port| {
            (*seat, Box::new(disk.at_port(port)) as Box<dyn BlockDevice>)
        };
        let ways = (1..=count).map(|port| disks.iter().map(|disk| way(disk, port)).collect()).collect();
        let volumes = self.control.divide(ways, tuning);
        let shard = |volume| Shard {
            volume,
            asked: Line::default(),
            to_shard: Line::default(),
            to_control: Line::default(),
        };
        assert!(self.shards.is_empty() && self.router.is_none(), "an engine is divided twice");
        assert!(count > 0 && unit_stripes > 0, "{count} shards with units of {unit_stripes} stripes");
        self.shards = volumes.into_iter().map(shard).collect();
        assert_eq!(self.shards.len(), count, "a volume for each shard");
        let engine = &self.control.engine;
        self.router = Some(Router::new(
            engine.core().spread(count).in_units_of(engine.core().stripe_blocks(), unit_stripes),
        ));
    }

    /// Time of an arrival: mostly soon, sometimes late.
    fn arrival(&mut self, now: Instant) -> Instant {
        assert!(!self.shards.is_empty(), "a message between shards, where there are none");
        let most = if self.random.chance(1, 8) { 4 * self.latency } else { self.latency / 16 };
        now + Nanos(self.random.below(1 + most))
    }

    /// Accepts a request.
    pub(super) fn submit(&mut self, now: Instant, request: Request) {
        let Some(router) = &mut self.router else { return self.control.submit(now, request) };
        let mut routed = std::mem::take(&mut self.routed);
        router.route(request, &mut routed);
        self.send(now, &mut routed);
        self.routed = routed;
    }

    fn send(&mut self, now: Instant, routed: &mut Vec<(To, Request)>) {
        for (to, request) in routed.drain(..) {
            match to {
                To::Control => self.control.submit(now, request),
                To::Shard(shard) => {
                    let at = self.arrival(now);
                    self.shards[shard].asked.send(at, request);
                }
            }
        }
    }

    /// Frames that clients may take now.
    pub(super) fn client_frames_available(&self) -> usize {
        let all = self.shards.iter().map(|shard| &shard.volume).chain([&self.control]);
        let on_their_way: usize = self
            .shards
            .iter()
            .flat_map(|shard| shard.asked.messages())
            .map(|request| match &request.op {
                RequestOp::Write { frames, .. } => frames.len(),
                RequestOp::Read { blocks, .. } => usize::try_from(*blocks).expect("small"),
                RequestOp::Trim { .. } | RequestOp::Flush => 0,
            })
            .sum();
        assert!(!self.shards.is_empty() || on_their_way == 0, "frames are on their way to no shard");
        let least = all.map(Volume::client_frames_available).min().expect("there is one");
        least.saturating_sub(on_their_way)
    }

    /// Makes progress; true when there may be more at this moment.
    pub(super) fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        if self.shards.is_empty() {
            return self.control.turn(now, replies);
        }
        let mut moved = self.deliver(now);
        let first = self.random.index(self.shards.len() + 1);
        for turn in 0..=self.shards.len() {
            let who = (first + turn) % (self.shards.len() + 1);
            let mut own = Vec::new();
            match who.checked_sub(1) {
                None => moved |= self.control.turn(now, &mut own),
                Some(shard) => {
                    moved |= self.shards[shard].volume.turn(now, &mut own);
                    let frames = own.iter().map(|reply| reply.frames.len()).sum();
                    self.shards[shard].volume.frames().disown(frames);
                    self.control.frames().adopt(frames);
                }
            }
            moved |= self.collect(now, who);
            own.into_iter().for_each(|reply| self.reply(now, reply, replies));
        }
        moved
    }

    /// A request, or a part of one, is answered.
    fn reply(&mut self, now: Instant, reply: Reply, replies: &mut Vec<Reply>) {
        let router = self.router.as_mut().expect("shards have one");
        let mut routed = std::mem::take(&mut self.routed);
        if let Some(mut whole) = router.join(reply, &mut routed) {
            if whole.outcome != Outcome::Done {
                self.control.frames().give_many(&mut whole.frames);
            }
            replies.push(whole);
        }
        self.send(now, &mut routed);
        self.routed = routed;
    }

    /// Messages that are due arrive.
    fn deliver(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for (number, shard) in self.shards.iter_mut().enumerate() {
            while let Some(message) = shard.to_shard.take(now) {
                shard.volume.hear_control(message);
                moved = true;
            }
            while let Some(message) = shard.to_control.take(now) {
                self.control.hear_shard(now, number, message);
                moved = true;
            }
            while let Some(request) = shard.asked.take(now) {
                if let RequestOp::Write { frames, .. } = &request.op {
                    self.control.frames().disown(frames.len());
                    shard.volume.frames().adopt(frames.len());
                }
                shard.volume.submit(now, request);
                moved = true;
            }
        }
        moved
    }

    /// Messages of whoever had a turn leave; true when some arrive at this moment.
    fn collect(&mut self, now: Instant, who: usize) -> bool {
        let mut is_soon = false;
        match who.checked_sub(1) {
            None => {
                let mut messages = Vec::new();
                self.control.engine.core_mut().take_messages_to_shards(&mut messages);
                for (shard, message) in messages {
                    let at = self.arrival(now);
                    is_soon |= at <= now;
                    self.shards[shard].to_shard.send(at, message);
                }
            }
            Some(shard) => {
                let mut messages = Vec::new();
                self.shards[shard].volume.engine.core_mut().take_messages_to_control(&mut messages);
                for message in messages {
                    let at = self.arrival(now);
                    is_soon |= at <= now;
                    self.shards[shard].to_control.send(at, message);
                }
            }
        }
        is_soon
    }

    /// Time at which something is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let of_shard = |shard: &Shard| {
            let Shard { volume, asked, to_shard, to_control } = shard;
            [volume.next_deadline(), asked.next(), to_shard.next(), to_control.next()]
                .into_iter()
                .flatten()
                .min()
        };
        self.shards.iter().filter_map(of_shard).chain(self.control.next_deadline()).min()
    }

    /// Asserts what must hold between events.
    pub(super) fn check_invariants(&self) {
        self.control.engine.check_invariants();
        self.shards.iter().for_each(|shard| shard.volume.engine.check_invariants());
    }

    /// Describes what is under way, in one line.
    pub(super) fn describe(&self) -> String {
        let shards = self.shards.iter().map(|shard| shard.volume.engine.core().describe());
        [self.control.engine.core().describe()].into_iter().chain(shards).collect::<Vec<_>>().join(" || ")
    }
}

impl Deref for Cores {
    type Target = InPlaceVolume;

    fn deref(&self) -> &InPlaceVolume {
        &self.control
    }
}

impl DerefMut for Cores {
    fn deref_mut(&mut self) -> &mut InPlaceVolume {
        &mut self.control
    }
}
