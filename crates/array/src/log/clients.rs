//! Requests of clients, from their arrival to their answer.

use crate::log::in_flight::InFlight;
use crate::log::policy::adaptive::Demand;
use crate::log::read::ReadRequest;
use crate::log::requests::{ClientRequest, RequestSlot};
use crate::log::trim::RegionLocks;
use base::slab::Slab;
use std::collections::VecDeque;

/// Requests that are not answered, and the order among them.
pub struct Clients {
    /// Writes, trims and flushes.
    pub requests: Slab<ClientRequest, RequestSlot>,
    /// Writes, trims and flushes in order of arrival that are not wholly under way.
    pub pending: VecDeque<RequestSlot>,
    /// Flushes that wait for writes before them.
    pub flushes_waiting: Vec<RequestSlot>,
    /// Reads.
    pub reads: Slab<ReadRequest>,
    /// Regions that trims hold.
    pub regions: RegionLocks,
    /// Blocks with writes in flight.
    pub in_flight: InFlight,
    /// Demand of clients, as far as it is known.
    pub demand: Demand,
    /// Writes and trims under way.
    pub writes_outstanding: u32,
    /// Set once a write or trim has failed since the mount.
    pub writes_failed: bool,
    /// Set when a stripe could be written nowhere, until requests that waited for it are retried.
    pub stripe_failed: bool,
    /// Number of the next write in order of arrival.
    pub next_arrival: u64,
}
