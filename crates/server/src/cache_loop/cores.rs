//! More than one core: the loop, once per thread (see `colleagues`), and a bridge to the cache between them.
//!
//! The first loop has the cache, which is work enough: all connections go to the fronts, each to whoever has the fewest clients. Memory of
//! clients is shared out to fronts evenly.
//!
//! Stopping: the first loop tells all fronts; each finishes with its clients and ends; when all have ended, the cache writes what is only in
//! memory.

use super::bridge::{self, Hub, Remote};
use super::peers::Peers;
use super::{CacheServerConfig, Seat, ServedCache, Server, wall};
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

/// All that a front takes along into its thread.
struct Kit {
    remote: Remote,
    service: Service,
    front: Front,
    peers: Peers,
    arrivals: Arrivals<Newcomer>,
}

impl Kit {
    fn serve(mut self, config: &CacheServerConfig) -> Result<(), RunError> {
        let seat = Seat { role: Role::Front(self.arrivals), peers: self.peers };
        Server::new(config, self.service, &mut self.remote, (self.front, seat))?.run()
    }
}

/// Serves `cache` with `config.settings.cores` threads, of which this is one.
pub(super) fn run(
    config: &CacheServerConfig,
    mut service: Service,
    cache: &mut dyn ServedCache,
) -> Result<(), RunError> {
    let count = config.settings.cores - 1;
    let (mut hub, remotes) = bridge::build(cache, count).map_err(RunError::Cores)?;
    let mut peers = Peers::of(count + 1).map_err(RunError::Cores)?.into_iter();
    let own_peers = peers.next().expect("one more than there are fronts");
    let fronts = Front::beside_others(config.settings.clone(), service.clock.now(), wall(), count);
    service.wake_fds.push(hub.bell().map_err(RunError::Cores)?);
    service.wake_fds.push(own_peers.bell().map_err(RunError::Cores)?);
    let clock = service.clock;
    let mut colleagues = Vec::new();
    let mut kits = Vec::new();
    for ((remote, front), peers) in remotes.into_iter().zip(fronts).zip(peers) {
        let kit = || -> io::Result<(Colleague<Newcomer>, Kit)> {
            let (colleague, arrivals, stop) = hire(remote.bell()?)?;
            let wake_fds = vec![remote.bell()?, peers.bell()?];
            let service = Service { wake_fds, ..Service::new(stop, clock) };
            Ok((colleague, Kit { remote, service, front, peers, arrivals }))
        };
        let (colleague, kit) = kit().map_err(RunError::Cores)?;
        colleagues.push(colleague);
        kits.push(kit);
    }
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (kit, core) in kits.into_iter().zip(2_u32..) {
            let serve = move || {
                let _last_word = kit.arrivals.last_word(kit.remote.waker());
                kit.serve(config)
            };
            let thread = Builder::new().name(format!("core-{core}"));
            // Those that have started are stopped by the loss of their colleague, should one fail to.
            threads.push(thread.spawn_scoped(scope, serve).map_err(RunError::Cores)?);
        }
        join(threads, serve_first(config, service, &mut hub, (colleagues, own_peers)))
    })
}

/// Returns, also with an error, without its colleagues, who stop then.
fn serve_first(
    config: &CacheServerConfig,
    service: Service,
    hub: &mut Hub<'_>,
    (colleagues, peers): (Vec<Colleague<Newcomer>>, Peers),
) -> Result<(), RunError> {
    let front = Front::new(config.settings.clone(), service.clock.now(), wall());
    let seat = Seat { role: Role::First(colleagues), peers };
    Server::new(config, service, hub, (front, seat))?.run()
}
