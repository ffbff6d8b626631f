//! A volume of several shards: the loop, once per shard and thread (see `colleagues`), with a node in each.
//!
//! Stopping: the first loop tells all others; each finishes with its clients and says to all that it asks nothing more; those that heard that
//! of all others end, then the first flushes the volume.

use super::bridge::{Hub, shares};
use super::cores::{Plan, serve_all};
use super::node::Node;
use super::{RunError, Server, Service};
use crate::colleagues::Role;
use crate::config::ServerConfig;
use crate::exchange::mesh;
use array::inplace::shards::spread::Spread;
use array::request::Controlled;
use std::os::fd::OwnedFd;

/// Shard of a volume, with the descriptors that become readable when it has something to do.
pub struct ServedShard<'v> {
    /// The shard: whatever is asked of it lies in its units.
    pub volume: &'v mut (dyn Controlled + Send),
    /// See [`Service::wake_fds`].
    pub wake_fds: Vec<OwnedFd>,
}

/// Serves a volume whose shards are `first`, which also takes flushes and questions, and `others`, each with a thread of its own.
///
/// # Errors
/// As [`super::run`].
///
/// # Panics
/// When there are other shards than the configuration has cores, or than the volume is spread over.
pub fn run_shards<'v>(
    config: &ServerConfig,
    service: Service,
    first: &'v mut dyn Controlled,
    others: Vec<ServedShard<'v>>,
    spread: Spread,
) -> Result<(), RunError> {
    config.validate()?;
    let loops = 1 + others.len();
    assert!(loops == config.cores && loops == spread.shards(), "{loops} shards of {}", spread.shards());
    let (merges_max, share) = shares(first.client_frames_available(), loops).ok_or(RunError::NoFrames)?;
    let (exchanges, ways) = mesh(loops, loops).map_err(RunError::Cores)?;
    let mut lines = exchanges.into_iter().zip(ways);
    let mut plans = Vec::new();
    let (exchange, ways) = lines.next().expect("there is a first loop");
    for (ServedShard { volume, mut wake_fds }, (exchange, others)) in others.into_iter().zip(lines) {
        let to_first = others[0].as_ref().expect("the first loop is another");
        let (bell, waker) = (to_first.bell().map_err(RunError::Cores)?, to_first.waker());
        wake_fds.push(exchange.bell().map_err(RunError::Cores)?);
        for way in others.iter().flatten() {
            wake_fds.push(way.bell().map_err(RunError::Cores)?);
        }
        let body = move |service, arrivals| {
            let mut node = Node::new(Hub::new(volume, merges_max, share, exchange), others, spread);
            Server::new(config, service, &mut node, Role::Front(arrivals))?.run()
        };
        plans.push(Plan { bell, wake_fds, waker: Box::new(waker), body: Box::new(body) });
    }
    let mut node = Node::new(Hub::new(first, merges_max, share, exchange), ways, spread);
    let mut service = service;
    service.wake_fds.extend(node.bells().map_err(RunError::Cores)?);
    serve_all(config, service, &mut node, plans)
}
