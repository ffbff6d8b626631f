//! Killed and started anew: how long until contents are served, and what is found of them.

use super::Bench;
use super::load::{Keys, Load, Way, apply};
use super::protocol::Protocol;
use super::servers::{Drives, Own, Peer, Served, directories};
use crate::paired::Paired;
use anyhow::{Result, ensure};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

const OWN: Own<'static> =
    Own { drives: Drives::Emulated, flash: "1GiB", memory: "128MiB", object_mean: "132" };
const VALUE_BYTES: usize = 100;

/// Objects, of which the first are overwritten and the next removed just before the kill.
const OBJECTS: u64 = 1_000_000;
const OVERWRITTEN: u64 = 1_000;
const REMOVED: u64 = 1_000;

/// Highest ratio of our time to that of Redis with its log.
const RATIO_MAX: f64 = 1.0 / 3.0;

/// Objects found after the restarts of one side.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Found {
    /// Least share found of the objects that were neither overwritten nor removed.
    pub share: f64,
    /// Overwritten objects that were found with their older value, over all rounds.
    pub older: u64,
    /// Removed objects that were found, over all rounds.
    pub removed: u64,
    /// Values of another object, over all rounds.
    pub wrong: u64,
}

/// See the module.
#[derive(Clone, Debug, Serialize)]
pub struct Restarts {
    /// Objects of 100 bytes with keys of 32.
    pub objects: u64,
    /// Seconds from the start to the first answer.
    pub seconds: f64,
    /// Seconds of Redis with its log, likewise.
    pub peer_seconds: f64,
    /// Ours over the other side's.
    pub ratio: f64,
    /// Highest ratio that is good.
    pub ratio_max: f64,
    /// Objects that our server found.
    pub found: Found,
    /// Objects that Redis found.
    pub peer_found: Found,
    /// Every time.
    #[serde(flatten)]
    pub times: Paired,
}

impl Restarts {
    /// True when the bar is met, and nothing was found that must not be.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.ratio <= self.ratio_max && self.found.older + self.found.removed + self.found.wrong == 0
    }
}

/// Kills and restarts both in turn.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Restarts> {
    let options = bench.options;
    let mut found = [Found { share: 1.0, ..Found::default() }; 2];
    let times = Paired::measure(options.rounds, |is_peer| {
        let (_directory, own, peer) = directories()?;
        let start = |dir: &Path| match is_peer {
            false => OWN.start(&options.binary, dir, Protocol::Resp),
            true => Peer::RedisLog.start(dir),
        };
        let dir = if is_peer { &peer } else { &own };
        let seconds = one(|| start(dir), &mut found[usize::from(is_peer)])?;
        bench.step("restart after a kill");
        Ok(seconds)
    })?;
    let [found, peer_found] = found;
    Ok(Restarts {
        objects: OBJECTS,
        seconds: times.ours(),
        peer_seconds: times.peer(),
        ratio: times.ratio(),
        ratio_max: RATIO_MAX,
        found,
        peer_found,
        times,
    })
}

/// Fills a server, kills and starts it. Returns the seconds of the start.
fn one(start: impl Fn() -> Result<Served>, found: &mut Found) -> Result<f64> {
    let served = start()?;
    let load = |way: Way, (from, to): (u64, u64), version: u32| Load {
        protocol: Protocol::Resp,
        way,
        keys: Keys::Each(from, to),
        value_bytes: VALUE_BYTES,
        version,
        connections: 16,
        depth: 16,
    };
    let removed_end = OVERWRITTEN + REMOVED;
    let ask = |port: u16, load: Load| apply(port, &load, 0);
    ask(served.port, load(Way::Set, (0, OBJECTS), 0))?;
    // Buffers are written, and logs synchronised.
    std::thread::sleep(std::time::Duration::from_secs(2));
    ask(served.port, load(Way::Set, (0, OVERWRITTEN), 1))?;
    ask(served.port, load(Way::Delete, (OVERWRITTEN, removed_end), 0))?;
    served.process.kill_9()?;

    let began = Instant::now();
    let served = start()?;
    let seconds = began.elapsed().as_secs_f64();
    let kept = ask(served.port, load(Way::Get, (removed_end, OBJECTS), 0))?;
    let older = ask(served.port, load(Way::Get, (0, OVERWRITTEN), 1))?;
    let removed = ask(served.port, load(Way::Get, (OVERWRITTEN, removed_end), 0))?;
    ensure!(kept.hits > 0, "nothing was found");
    found.share = found.share.min(kept.hit_ratio());
    found.wrong += kept.wrong;
    found.older += older.wrong;
    found.removed += removed.hits;
    Ok(seconds)
}
