//! The loop that serves a cache: one thread, one ring, shards of the cache, many clients that speak RESP or memcached's protocol.
//!
//! A turn is, as that of `core_loop`: what the kernel has completed -> commands begun -> the cache's turn ->
//! answers queued -> operations submitted. Between turns the thread sleeps in the kernel.
//!
//! ```text
//! ring --completions--> connections --input--> sessions --requests--> cache
//!   ^--receive, send--- connections <-answers- sessions <--replies---
//! ```
//!
//! Nobody makes the loop wait: a session that cannot go on is left alone until that changes. Those for which
//! memory is short stand in one queue, first come, first served. Its first has the *right of way*: it may take what the command
//! needs that it is sending, so that clients with halves of commands cannot lock each other out. While the queue stands,
//! who holds memory and does not move is cut off.

mod clients;
mod common;
mod company;
mod connection;
mod conversation;
mod cores;
mod entrance;
mod node;
mod peers;
mod shortage;
mod stopping;

use crate::colleagues::Role;
use crate::config::WallClock;
use crate::core_loop::questions::Questions;
use crate::core_loop::{RunError, Service};
use crate::doors::{Doors, Token};
use crate::resp::front::Front;
use crate::resp::settings::Settings;
use crate::ring::{Completion, Event, Ring};
use base::time::Nanos;
use cache::request::{Cache, Namespace, Reply, WallMillis};
use cache::spread::Spread;
use clients::Clients;
use common::Common;
use cores::Newcomer;
use entrance::{Entrance, take_arrivals};
use node::Node;
use peers::Peers;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use stopping::Phase;

pub use node::{Operator, Shard};

/// Turns of the cache within one turn of the loop.
const CACHE_TURNS_MAX: u32 = 64;
/// Time between two looks at clients that wait, or rest.
const SWEEP_EVERY: Nanos = Nanos(250_000_000);

/// Time for the kernel to give back the buffers of closed connections.
const HOMECOMING_ROUNDS_MAX: u32 = 40;
const HOMECOMING_ROUND: Nanos = Nanos(25_000_000);

/// A cache as it is served.
pub struct ServedCache<'c> {
    /// What looks after all of it.
    pub operator: &'c mut dyn Operator,
    /// Its shards. They go to the loops that [`owner_of`] says.
    pub shards: Vec<Box<dyn Shard>>,
    /// Which of them has a key.
    pub spread: Spread,
    /// Descriptors that wake the owners of shards.
    pub wake_fds: Vec<Vec<OwnedFd>>,
}

/// Loops that have shards, of a cache with so many that is served by so many loops.
#[must_use]
pub fn owners(shards: usize, cores: usize) -> usize {
    shards.min(cores)
}

/// The loop that has a shard, of so many that have shards.
#[must_use]
pub fn owner_of(shard: usize, owners: usize) -> usize {
    shard % owners
}

/// Loops that have clients: all when each has shards; else the others, for an owner with an equal share of the clients, too, would be the
/// bound.
#[must_use]
pub fn fronts(shards: usize, cores: usize) -> usize {
    match owners(shards, cores) {
        owners if owners < cores => cores - owners,
        _ => cores,
    }
}

/// Limits of the server.
#[derive(Clone, Debug)]
pub struct CacheServerConfig {
    /// Settings of the protocol.
    pub settings: Settings,
    /// Listeners of the service, the last ones, whose clients speak memcached's protocol: the namespace of each.
    pub memcached_doors: Vec<Namespace>,
    /// Waits shorter than this are spent awake.
    pub spin: Nanos,
    /// Time for which a client that holds memory may rest while others wait for it.
    pub shortage_limit: Nanos,
    /// Time for what is under way when stopping, and again for the cache to write.
    pub stop_limit: Nanos,
}

impl Default for CacheServerConfig {
    fn default() -> CacheServerConfig {
        CacheServerConfig {
            settings: Settings::default(),
            memcached_doors: Vec::new(),
            spin: Nanos(0),
            shortage_limit: Nanos(1_000_000_000),
            stop_limit: Nanos(10_000_000_000),
        }
    }
}

/// Serves `cache` until asked to stop.
///
/// # Errors
/// When the kernel refuses to work for us, or the cache does not write in time what it has in memory.
pub fn run<'c>(
    config: &'c CacheServerConfig,
    service: Service,
    cache: ServedCache<'c>,
) -> Result<(), RunError> {
    cores::run(config, service, cache)
}

/// Place of a loop among those that serve the cache.
#[derive(Debug)]
struct Seat {
    role: Role<Newcomer>,
    peers: Peers,
    /// Loops, the first ones, that have shards and no clients.
    without_clients: usize,
}

/// The loop: clients that are served, and what they share.
struct CacheServer<'a> {
    common: Common<'a>,
    clients: Clients,
    entrance: Entrance,
    questions: Questions,
    clock: WallClock,
    is_stop_asked: bool,
    completions: Vec<Completion<Token>>,
    replies: Vec<Reply>,
}

/// Wall time, by which objects expire.
fn wall() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl<'a> CacheServer<'a> {
    fn new(
        config: &'a CacheServerConfig,
        service: Service,
        cache: Node<'a>,
        (front, seat): (Front, Seat),
    ) -> Result<CacheServer<'a>, RunError> {
        let clock = service.clock;
        let common = Common {
            config,
            ring: Ring::new()?,
            cache,
            front,
            doors: Doors::of(service),
            seat,
            phase: Phase::Serving,
            cache_is_busy: false,
            next_sweep: None,
        };
        Ok(CacheServer {
            common,
            clients: Clients::new(),
            entrance: Entrance::default(),
            questions: Questions::new(),
            clock,
            is_stop_asked: false,
            completions: Vec::new(),
            replies: Vec::new(),
        })
    }

    fn run(mut self) -> Result<(), RunError> {
        assert!(self.common.phase == Phase::Serving, "a loop begins with its service");
        self.common.doors.open(&mut self.common.ring)?;
        while self.common.phase != Phase::Done {
            self.turn()?;
            let timeout = self.time_to_wait();
            self.common.ring.wait(timeout)?;
        }
        self.wait_for_buffers()?;
        self.outcome()
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = self.clock.now_after(self.common.front.now);
        self.common.front.now = now;
        self.common.cache.tend(now);
        // Time does not go back.
        self.common.front.wall = self.common.front.wall.max(wall());
        self.take_completions()?;
        take_arrivals(&mut self.common, &mut self.clients)?;
        self.clients.take_letters(&mut self.common)?;
        self.advance_phase()?;
        self.clients.serve_ready(&mut self.common)?;
        self.turn_cache();
        self.clients.serve_ready(&mut self.common)?;
        self.clients.serve_waiting(&mut self.common)?;
        self.clients.send_answers(&mut self.common)?;
        self.sweep()
    }

    /// Time for which the thread may sleep; zero when there is work.
    fn time_to_wait(&mut self) -> Option<Nanos> {
        let has_work = self.common.cache_is_busy || self.clients.are_busy() || self.phase_is_over();
        let common = &mut self.common;
        if has_work || !common.cache.may_sleep() || !common.seat.peers.may_sleep() {
            return Some(Nanos(0));
        }
        let dues = [common.cache.next_deadline(), common.next_sweep, common.phase.due()];
        let wait = dues.into_iter().flatten().min().map(|due| due.since(common.front.now));
        // The kernel's timers are coarse: what is due soon is waited for awake, where that is asked for.
        wait.map(|wait| if wait < common.config.spin { Nanos(0) } else { wait })
    }

    fn take_completions(&mut self) -> io::Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        assert!(completions.is_empty(), "{} completions were not heeded", completions.len());
        self.common.ring.completions(&mut completions);
        for completion in completions.drain(..) {
            self.on_completion(completion)?;
        }
        self.completions = completions;
        Ok(())
    }

    fn on_completion(&mut self, completion: Completion<Token>) -> io::Result<()> {
        let Completion { token, event, more } = completion;
        let common = &mut self.common;
        match (token, event) {
            (Token::Door(_) | Token::ControlDoor, Event::Accepted(result)) => {
                self.on_accepted(token, result, more)
            }
            (Token::Wake(index), Event::Readable(result)) => {
                let more = more || common.phase == Phase::Done;
                common.doors.on_wake(&mut common.ring, index, result, more)
            }
            (Token::Stop, Event::Readable(_)) => {
                self.is_stop_asked = true;
                Ok(())
            }
            (Token::Client(key), Event::Received(result, transfer)) => {
                self.clients.on_received(common, key, result, transfer);
                Ok(())
            }
            (Token::Client(key), Event::Sent(result, transfer)) => {
                self.clients.on_sent(common, key, result, transfer)
            }
            (Token::Question(key), event) => {
                let (now, cache) = (common.front.now, &mut common.cache);
                match self.questions.on_event(key, event, |line| cache.control(now, line)) {
                    Some(next) => self.questions.act(&mut common.ring, key, next),
                    None => Ok(()),
                }
            }
            (token, event) => unreachable!("{token:?} never starts what ends in {event:?}"),
        }
    }

    /// Somebody has come in by a door, or the door has failed.
    fn on_accepted(&mut self, token: Token, result: io::Result<OwnedFd>, more: bool) -> io::Result<()> {
        let common = &mut self.common;
        let is_serving = common.is_serving();
        let has_failed = result.is_err();
        match (result, token) {
            // The socket closes again as it is dropped.
            (Ok(socket), _) if !is_serving => drop(socket),
            (Ok(socket), Token::Door(index)) => {
                self.entrance.welcome((common, &mut self.clients), index, socket)?;
            }
            (Ok(socket), _) => {
                if let Some(due) = self.questions.welcome(&mut common.ring, common.front.now, socket)? {
                    common.look_again(due);
                }
            }
            (Err(error), _) if is_serving => log::warn!("cannot accept a connection: {error}"),
            (Err(_), _) => {}
        }
        let common = &mut self.common;
        if more || !is_serving {
            return Ok(());
        }
        if !has_failed {
            return common.doors.accept_at(&mut common.ring, token);
        }
        let due = common.doors.pause_at(token, common.front.now);
        common.look_again(due);
        Ok(())
    }

    /// Gives the cache its turns and its replies to the sessions.
    fn turn_cache(&mut self) {
        let common = &mut self.common;
        assert!(self.replies.is_empty(), "replies of the turn before were given");
        common.cache_is_busy = true;
        common.front.say_exclusive(&mut common.cache);
        let mut turns_left = CACHE_TURNS_MAX;
        while common.cache_is_busy && turns_left > 0 {
            turns_left -= 1;
            common.cache_is_busy = common.cache.turn(common.front.now, common.front.wall, &mut self.replies);
            for reply in self.replies.drain(..) {
                let delivery = common.front.on_reply(reply);
                self.clients.on_outcome(common, delivery);
            }
        }
    }

    /// Looks at what time alone changes, when it is time to, and sees to it that there is a next time while there is something to see.
    fn sweep(&mut self) -> io::Result<()> {
        let now = self.common.front.now;
        if self.common.takes_sweep() {
            if let Some(due) = self.common.doors.reopen(&mut self.common.ring, now)? {
                self.common.look_again(due);
            }
            self.questions.sweep(now);
            if self.has_timeout() {
                self.clients.end_resting(&mut self.common, now);
            }
        }
        if self.clients.lack_memory() || !self.questions.is_empty() || self.has_timeout() {
            self.common.look_again(now + SWEEP_EVERY);
        }
        Ok(())
    }

    /// True when connections may not rest for ever.
    fn has_timeout(&self) -> bool {
        self.common.front.settings.timeout_seconds > 0 && self.clients.len() > 0
    }

    /// Waits for the kernel to be done with our buffers, while that takes no longer than it should.
    fn wait_for_buffers(&mut self) -> io::Result<()> {
        for _ in 0..HOMECOMING_ROUNDS_MAX {
            if self.common.ring.transfers_in_flight() == 0 {
                break;
            }
            self.common.ring.wait(Some(HOMECOMING_ROUND))?;
            self.take_completions()?;
        }
        Ok(())
    }
}
