//! The load: a guest's driver that keeps so many requests of 4 KiB under way.

use super::front_end::{Driver, FrontEnd, GuestRam, IN, OUT, SLOTS, data_at, status_at};
use anyhow::{Result, ensure};
use base::random::Random;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

const SECTORS_PER_REQUEST: u64 = 8;
const REQUEST_BYTES: u32 = 4096;

/// Direction of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

/// Requests at random places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) way: Way,
    /// Requests under way.
    pub(super) depth: u16,
}

/// Applies the load to a vhost-user socket. Returns how many requests were answered.
pub(super) fn apply(path: &Path, load: Load, time: Duration, size_bytes: u64) -> Result<u64> {
    assert!((1..=SLOTS).contains(&load.depth));
    let ram = GuestRam::new();
    let mut front = FrontEnd::connect(path)?;
    front.begin(&ram);
    let mut driver = Driver::new(&ram, 0);
    front.start(&driver);
    let mut random = Random::from_seed(7);
    for slot in 0..load.depth {
        let data: Vec<u8> = (0..512).flat_map(|_| random.bits().to_le_bytes()).collect();
        ram.put_bytes(data_at(0, slot), &data);
    }
    let blocks = size_bytes / u64::from(REQUEST_BYTES);
    let kind = if load.way == Way::Write { OUT } else { IN };
    let mut free: Vec<u16> = (0..load.depth).collect();
    let (began, mut answered) = (Instant::now(), 0);
    while began.elapsed() < time || free.len() < usize::from(load.depth) {
        if began.elapsed() < time {
            for slot in free.drain(..) {
                driver.submit(&ram, slot, kind, random.below(blocks) * SECTORS_PER_REQUEST, REQUEST_BYTES);
            }
            driver.kick(&ram, true);
        }
        let first = driver.wait(&ram, ANSWER_MAX);
        ensure!(first.is_some(), "{} does not answer", path.display());
        let mut next = first;
        while let Some((head, _)) = next {
            let slot = head / 3;
            ensure!(ram.bytes(status_at(0, slot), 1) == [0], "a request fails");
            free.push(slot);
            answered += 1;
            next = driver.take_used(&ram);
        }
    }
    front.stop(0);
    Ok(answered)
}
