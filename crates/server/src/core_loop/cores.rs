//! More than one core: the loop, once per thread (see `colleagues`), and a bridge to the volume between them.
//!
//! Connections go to whoever has the fewest clients, the first loop among them.
//!
//! Stopping: the first loop tells all fronts; each finishes with its clients and ends; when all
//! have ended, the first flushes the volume and leaves.

#[cfg(test)]
mod tests;

use super::backend::Backend;
use super::bridge::{self, Remote};
use super::{RunError, Server, Service};
use crate::colleagues::{Arrivals, Colleague, Role, hire, join};
use crate::config::ServerConfig;
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

/// Work of a front, with what it is told and whom it is handed.
type Body<'s> = Box<dyn FnOnce(Service, Arrivals<Newcomer>) -> Result<(), RunError> + Send + 's>;

/// All that a front takes along into its thread.
pub(super) struct Plan<'s> {
    /// Rung when a client is handed over.
    pub(super) bell: OwnedFd,
    /// Descriptors that wake the front.
    pub(super) wake_fds: Vec<OwnedFd>,
    /// Wakes the first loop.
    pub(super) waker: Box<dyn Fn() + Send + 's>,
    pub(super) body: Body<'s>,
}

/// Plan of a front that reaches the volume over a bridge.
fn plan_of(remote: Remote, config: &ServerConfig) -> io::Result<Plan<'_>> {
    let (bell, wake_fds, waker) = (remote.bell()?, vec![remote.bell()?], Box::new(remote.waker()));
    let mut remote = remote;
    let body =
        move |service, arrivals| Server::new(config, service, &mut remote, Role::Front(arrivals))?.run();
    Ok(Plan { bell, wake_fds, waker, body: Box::new(body) })
}

/// Serves `volume` with `config.cores` threads, of which this is one.
pub(super) fn run(
    config: &ServerConfig,
    service: Service,
    volume: &mut dyn Controlled,
) -> Result<(), RunError> {
    let bridge = bridge::build(volume, config.cores - 1).map_err(RunError::Cores)?;
    let (mut hub, remotes) = bridge.ok_or(RunError::NoFrames)?;
    let plans = remotes.into_iter().map(|remote| plan_of(remote, config)).collect::<io::Result<Vec<_>>>();
    let mut service = service;
    service.wake_fds.push(hub.bell().map_err(RunError::Cores)?);
    serve_all(config, service, &mut hub, plans.map_err(RunError::Cores)?)
}

/// Serves with a thread for each plan, and this one for the first loop.
pub(super) fn serve_all(
    config: &ServerConfig,
    service: Service,
    first: &mut dyn Backend,
    plans: Vec<Plan<'_>>,
) -> Result<(), RunError> {
    std::thread::scope(|scope| {
        let mut colleagues: Vec<Colleague<Newcomer>> = Vec::new();
        let mut threads = Vec::new();
        // Fronts that have started are stopped by the loss of their colleague, should one fail to.
        for (Plan { bell, wake_fds, waker, body }, core) in plans.into_iter().zip(2_u32..) {
            let (colleague, arrivals, stop) = hire(bell).map_err(RunError::Cores)?;
            colleagues.push(colleague);
            let front = Service { wake_fds, ..Service::new(stop, service.clock) };
            let serve = move || {
                let _last_word = arrivals.last_word(waker);
                body(front, arrivals)
            };
            let thread = Builder::new().name(format!("core-{core}"));
            threads.push(thread.spawn_scoped(scope, serve).map_err(RunError::Cores)?);
        }
        let server = Server::new(config, service, first, Role::First(colleagues));
        join(threads, server.and_then(Server::run))
    })
}
