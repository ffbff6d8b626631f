//! Shards of an array of md that is served with several cores: each has ways of its own to the members, and a line to the control shard.
//!
//! ```text
//!   core 1   FirstSeat   control shard (ServedMd) <──> shard 0
//!                            ^  exchange
//!   core 2   OtherSeat       └──> shard 1, and so on
//! ```

use super::served::ServedMd;
use anyhow::{Context, Result};
use array::inplace::shards::messages::{ToControl, ToShard};
use array::inplace::volume::{InPlaceVolume, Ways};
use array::request::{Controlled, Reply, Request, RequestOp, Volume};
use base::frame::FramePool;
use base::time::Instant;
use block::device::BlockDevice;
use drive::Bell;
use drive::ordinary::OrdinaryDrive;
use server::ServedShard;
use server::exchange::{Caller, Exchange, exchange};
use std::io;
use std::os::fd::OwnedFd;

/// Bells that members ring which have answers: of the control shard, and of each other one.
#[derive(Clone, Debug)]
pub struct Bells {
    own: Bell,
    others: Vec<Bell>,
}

impl Bells {
    /// Bells of an array with so many shards beside the control shard.
    pub fn new(shards: usize) -> Result<Bells> {
        let bell = || Bell::new().context("event descriptor of the members");
        Ok(Bells { own: bell()?, others: (0..shards).map(|_| bell()).collect::<Result<_>>()? })
    }

    /// Shards beside the control shard.
    pub fn shards(&self) -> usize {
        self.others.len()
    }

    /// Descriptor that members make readable which answer the control shard.
    pub fn descriptor(&self) -> Result<OwnedFd> {
        self.own.descriptor().context("event descriptor of the members")
    }

    /// Descriptor that members make readable which answer a shard.
    fn descriptor_of(&self, shard: usize) -> Result<OwnedFd> {
        self.others[shard].descriptor().context("event descriptor of the members")
    }

    /// From now on somebody sleeps until they ring.
    pub fn listen(&self) {
        self.own.listen();
        self.others.iter().for_each(Bell::listen);
    }

    /// Ways of other shards to a drive.
    pub fn other_ways(&self, drive: &OrdinaryDrive) -> Result<Vec<Box<dyn BlockDevice>>> {
        let way = |shard| -> Result<Box<dyn BlockDevice>> {
            let way = drive.sibling(&self.descriptor_of(shard)?);
            Ok(Box::new(way.context("another ring for a member")?))
        };
        (0..self.shards()).map(way).collect()
    }

    /// A drive with the ways of all shards to it.
    pub fn ways(&self, drive: OrdinaryDrive) -> Result<Ways> {
        let others = self.other_ways(&drive)?;
        Ok(Ways { own: Box::new(drive), others })
    }
}

/// The control shard, and the shard of the first core.
pub struct FirstSeat {
    /// The array, with its operator.
    pub served: ServedMd,
    shard: InPlaceVolume,
    exchange: Exchange<ToControl, ToShard>,
    heard: Vec<(usize, ToControl)>,
    to_shards: Vec<(usize, ToShard)>,
    to_control: Vec<ToControl>,
}

/// The shard of another core.
pub struct OtherSeat {
    shard: InPlaceVolume,
    line: Caller<ToControl, ToShard>,
    bell: OwnedFd,
    heard: Vec<ToShard>,
    said: Vec<ToControl>,
}

/// Seats of all cores.
pub struct Seats {
    /// Seat of the first core.
    pub first: FirstSeat,
    others: Vec<OtherSeat>,
}

impl Seats {
    /// Seats of an array and its shards, at least one.
    pub fn new(served: ServedMd, shards: Vec<InPlaceVolume>) -> Result<Seats> {
        let (exchange, lines) = exchange(shards.len() - 1).context("descriptors of the cores")?;
        let bells = served.bells.clone();
        let mut shards = shards.into_iter();
        let shard = shards.next().context("a shard of the first core")?;
        let seat = |((shard, line), number)| -> Result<OtherSeat> {
            let bell = bells.descriptor_of(number)?;
            Ok(OtherSeat { shard, line, bell, heard: Vec::new(), said: Vec::new() })
        };
        let others = shards.zip(lines).zip(1..).map(seat).collect::<Result<_>>()?;
        let first = FirstSeat {
            served,
            shard,
            exchange,
            heard: Vec::new(),
            to_shards: Vec::new(),
            to_control: Vec::new(),
        };
        Ok(Seats { first, others })
    }

    /// Descriptors that wake the first core, beside that of the members.
    pub fn wake_fds(&self) -> Result<Vec<OwnedFd>> {
        let bell = self.first.exchange.bell().context("descriptors of the cores")?;
        Ok(vec![self.first.served.bells.descriptor_of(0)?, bell])
    }

    /// The seats, to be served by a thread each.
    pub fn split(&mut self) -> io::Result<(&mut FirstSeat, Vec<ServedShard<'_>>)> {
        let serve =
            |seat: &mut OtherSeat| -> io::Result<_> { Ok(vec![seat.bell.try_clone()?, seat.line.bell()?]) };
        let mut others = Vec::new();
        for seat in &mut self.others {
            let wake_fds = serve(seat)?;
            others.push(ServedShard { volume: seat, wake_fds });
        }
        Ok((&mut self.first, others))
    }

    /// Turns all seats, in one thread.
    pub fn turn(&mut self, now: Instant) -> bool {
        let mut replies = Vec::new();
        let moved = self.first.turn(now, &mut replies);
        self.others.iter_mut().fold(moved, |moved, seat| seat.turn(now, &mut replies) | moved)
    }
}

impl FirstSeat {
    /// Carries messages between the control shard and all others; true when somebody has to look at one.
    fn carry(&mut self, now: Instant) -> bool {
        self.served.volume.engine.core_mut().take_messages_to_shards(&mut self.to_shards);
        self.shard.engine.core_mut().take_messages_to_control(&mut self.to_control);
        let has_news = !self.to_control.is_empty() || self.to_shards.iter().any(|(shard, _)| *shard == 0);
        for message in self.to_control.drain(..) {
            self.served.volume.hear_shard(now, 0, message);
        }
        for (shard, message) in self.to_shards.drain(..) {
            match shard.checked_sub(1) {
                None => self.shard.hear_control(message),
                Some(line) => self.exchange.reply(line, message),
            }
        }
        self.exchange.send();
        has_news
    }
}

impl Volume for FirstSeat {
    fn blocks(&self) -> u64 {
        self.served.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.shard.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.shard.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        match request.op {
            RequestOp::Flush => self.served.submit(now, request),
            RequestOp::Read { .. } | RequestOp::Write { .. } | RequestOp::Trim { .. } => {
                self.shard.submit(now, request);
            }
        }
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        self.exchange.collect(&mut self.heard);
        for (line, message) in self.heard.drain(..) {
            self.served.volume.hear_shard(now, line + 1, message);
        }
        let moved = self.served.turn(now, replies) | self.shard.turn(now, replies);
        moved | self.carry(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.served.next_deadline(), self.shard.next_deadline()].into_iter().flatten().min()
    }

    fn may_sleep(&mut self) -> bool {
        self.exchange.may_sleep()
    }
}

impl Controlled for FirstSeat {
    fn control(&mut self, now: Instant, line: &str) -> String {
        self.served.control(now, line)
    }
}

impl Volume for OtherSeat {
    fn blocks(&self) -> u64 {
        self.shard.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.shard.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.shard.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.shard.submit(now, request);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        self.heard.drain(..).for_each(|message| self.shard.hear_control(message));
        let moved = self.shard.turn(now, replies);
        self.shard.engine.core_mut().take_messages_to_control(&mut self.said);
        self.said.drain(..).for_each(|message| self.line.ask(message));
        self.line.turn(&mut self.heard);
        moved | !self.heard.is_empty()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.shard.next_deadline()
    }

    fn may_sleep(&mut self) -> bool {
        self.heard.is_empty() && self.line.may_sleep()
    }
}

impl Controlled for OtherSeat {
    fn control(&mut self, _: Instant, line: &str) -> String {
        unreachable!("`{line}` was asked where there is no control socket")
    }
}
