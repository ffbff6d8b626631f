//! More than one core: the loop, once per thread (see `colleagues`), and a bridge to the volume between them.
//!
//! Connections go to whoever has the fewest clients, the first loop among them.
//!
//! Stopping: the first loop tells all fronts; each finishes with its clients and ends; when all
//! have ended, the first flushes the volume and leaves.

#[cfg(test)]
mod tests;

use super::bridge::{self, Hub, Remote};
use super::{RunError, Server, Service};
use crate::colleagues::{Arrivals, Colleague, Role, hire, join};
use crate::config::{ServerConfig, WallClock};
use crate::ports::Presence;
use array::request::Controlled;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::Builder;

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) socket: OwnedFd,
    pub(super) presence: Presence,
}

/// All that a front takes along into its thread.
struct Front {
    remote: Remote,
    service: Service,
    arrivals: Arrivals<Newcomer>,
}

impl Front {
    fn new(remote: Remote, clock: WallClock) -> io::Result<(Front, Colleague<Newcomer>)> {
        let (colleague, arrivals, stop) = hire(remote.bell()?)?;
        let wake_fds = vec![remote.bell()?];
        let service = Service { wake_fds, ..Service::new(stop, clock) };
        Ok((Front { remote, service, arrivals }, colleague))
    }

    /// The thread of a front.
    fn serve(mut self, config: &ServerConfig) -> Result<(), RunError> {
        Server::new(config, self.service, &mut self.remote, Role::Front(self.arrivals))?.run()
    }
}

/// Serves `volume` with `config.cores` threads, of which this is one.
pub(super) fn run(
    config: &ServerConfig,
    service: Service,
    volume: &mut dyn Controlled,
) -> Result<(), RunError> {
    run_with(config, service, volume, Front::serve)
}

fn run_with(
    config: &ServerConfig,
    mut service: Service,
    volume: &mut dyn Controlled,
    body: fn(Front, &ServerConfig) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let bridge = bridge::build(volume, config.cores - 1).map_err(RunError::Cores)?;
    let (mut hub, remotes) = bridge.ok_or(RunError::NoFrames)?;
    service.wake_fds.push(hub.bell().map_err(RunError::Cores)?);
    std::thread::scope(|scope| {
        let mut colleagues = Vec::new();
        let mut threads = Vec::new();
        // Fronts that have started are stopped by the loss of their colleague, should one fail to.
        for (remote, core) in remotes.into_iter().zip(2_u32..) {
            let (front, colleague) = Front::new(remote, service.clock).map_err(RunError::Cores)?;
            colleagues.push(colleague);
            let thread = Builder::new().name(format!("core-{core}"));
            let serve = move || {
                let _last_word = front.arrivals.last_word(front.remote.waker());
                body(front, config)
            };
            threads.push(thread.spawn_scoped(scope, serve).map_err(RunError::Cores)?);
        }
        let result = serve_first(config, service, &mut hub, colleagues);
        join(threads, result)
    })
}

fn serve_first(
    config: &ServerConfig,
    service: Service,
    hub: &mut Hub<'_>,
    colleagues: Vec<Colleague<Newcomer>>,
) -> Result<(), RunError> {
    Server::new(config, service, hub, Role::First(colleagues))?.run()
}
