//! Cores: the loop, once per thread (see `colleagues`), and a node of the cache in each.
//!
//! The first loops have the shards. Clients are spread over all loops where each has shards, and else over those that have none.
//! Memory of clients is shared out evenly to the loops that have some.
//!
//! Stopping: the first loop tells all others; each finishes with its clients, then those with shards write what is only in memory.

use super::node::{self, Node};
use super::peers::Peers;
use super::{CacheServer, CacheServerConfig, Seat, ServedCache, fronts, owner_of, owners, wall};
use crate::colleagues::{Arrivals, Colleague, Role, hire, join};
use crate::core_loop::{RunError, Service};
use crate::resp::front::Front;
use crate::resp::session::Facts;
use cache::request::Namespace;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::Builder;

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) socket: OwnedFd,
    pub(super) facts: Facts,
    /// The namespace of a client that speaks memcached's protocol.
    pub(super) of_memcached: Option<Namespace>,
}

/// What a loop has: its part of the cache, of the memory of clients, and of what loops tell one another.
struct Equipment<'c> {
    node: Node<'c>,
    front: Front,
    peers: Peers,
    wake_fds: Vec<OwnedFd>,
}

/// All that a loop takes along into its thread.
struct Kit<'c> {
    equipment: Equipment<'c>,
    service: Service,
    arrivals: Arrivals<Newcomer>,
    without_clients: usize,
}

impl<'c> Kit<'c> {
    fn serve(mut self, config: &'c CacheServerConfig) -> Result<(), RunError> {
        let Equipment { node, front, peers, wake_fds } = self.equipment;
        self.service.wake_fds = wake_fds;
        let seat = Seat { role: Role::Front(self.arrivals), peers, without_clients: self.without_clients };
        CacheServer::new(config, self.service, node, (front, seat))?.run()
    }
}

/// Fronts of all loops: those without clients have no part of their memory.
fn fronts_of(config: &CacheServerConfig, service: &Service, without_clients: usize) -> Vec<Front> {
    let (settings, now) = (&config.settings, service.clock.now());
    let without = (0..without_clients).map(|_| Front::new(settings.clone(), now, wall()));
    let with = Front::beside_others(settings.clone(), now, wall(), settings.cores - without_clients);
    without.chain(with).collect()
}

/// Equipment of all loops, of which the first one has the operator.
fn equip<'c>(
    config: &CacheServerConfig,
    service: &Service,
    cache: ServedCache<'c>,
    without_clients: usize,
) -> io::Result<Vec<Equipment<'c>>> {
    let loops = config.settings.cores;
    let ServedCache { operator, shards, spread, wake_fds } = cache;
    assert!(shards.len() == spread.shards(), "{} shards of {}", shards.len(), spread.shards());
    let mut owned: Vec<Vec<_>> = (0..owners(shards.len(), loops)).map(|_| Vec::new()).collect();
    let owners = owned.len();
    for (number, shard) in shards.into_iter().enumerate() {
        owned[owner_of(number, owners)].push(shard);
    }
    let nodes = node::build(operator, spread, owned, loops)?;
    let fronts = fronts_of(config, service, without_clients);
    assert!(fronts.len() == loops, "{} fronts of {loops} loops", fronts.len());
    let mut own_fds = wake_fds.into_iter();
    let all = nodes.into_iter().zip(fronts).zip(Peers::of(loops)?);
    let equipment = all.map(|((node, front), peers)| {
        let mut wake_fds = own_fds.next().unwrap_or_default();
        wake_fds.extend(node.bells()?);
        wake_fds.push(peers.bell()?);
        Ok(Equipment { node, front, peers, wake_fds })
    });
    equipment.collect()
}

/// Serves `cache` with `config.settings.cores` threads, of which this is one.
pub(super) fn run<'c>(
    config: &'c CacheServerConfig,
    mut service: Service,
    cache: ServedCache<'c>,
) -> Result<(), RunError> {
    let loops = config.settings.cores;
    let without_clients = loops - fronts(cache.shards.len(), loops);
    let equipment = equip(config, &service, cache, without_clients).map_err(RunError::Cores)?;
    let mut equipment = equipment.into_iter();
    let Equipment { node, front, peers, wake_fds } = equipment.next().expect("there is a first loop");
    service.wake_fds.extend(wake_fds);
    let clock = service.clock;
    std::thread::scope(|scope| {
        let mut colleagues = Vec::new();
        let mut threads = Vec::new();
        // Those that have started are stopped by the loss of their colleague, should one fail to.
        for (equipment, core) in equipment.zip(2_u32..) {
            let hired = equipment.peers.bell().and_then(hire);
            let (colleague, arrivals, stop): (Colleague<Newcomer>, _, _) = hired.map_err(RunError::Cores)?;
            colleagues.push(colleague);
            let kit = Kit { equipment, service: Service::new(stop, clock), arrivals, without_clients };
            let serve = move || {
                let _last_word = kit.arrivals.last_word(kit.equipment.node.waker());
                kit.serve(config)
            };
            let thread = Builder::new().name(format!("core-{core}"));
            threads.push(thread.spawn_scoped(scope, serve).map_err(RunError::Cores)?);
        }
        let seat = Seat { role: Role::First(colleagues), peers, without_clients };
        let first = CacheServer::new(config, service, node, (front, seat));
        join(threads, first.and_then(CacheServer::run))
    })
}
