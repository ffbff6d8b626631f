//! Memory of an object: what is resident of a server before its objects are stored, and after.
//!
//! Files that a server has mapped are left out, as our emulated drives are, which lie in memory here.

use super::load::{self, Keys, Load, Way};
use super::protocol::Protocol;
use super::servers::{self, Drives, Own, Peer, Served};
use super::{Bench, CONNECTIONS};
use crate::precise::precise_u64;
use anyhow::{Context, Result, ensure};
use serde::Serialize;

/// Bytes of a value, objects, and memory of our server and of extstore.
struct Plan {
    value_bytes: usize,
    objects: u64,
    own: Own<'static>,
    extstore_mib: u32,
}

const PLANS: [Plan; 2] = [
    Plan {
        value_bytes: 100,
        objects: 1_000_000,
        own: Own { drives: Drives::Emulated, flash: "1GiB", memory: "96MiB", object_mean: "132" },
        extstore_mib: 512,
    },
    Plan {
        value_bytes: 1024,
        objects: 400_000,
        own: Own { drives: Drives::Emulated, flash: "2GiB", memory: "64MiB", object_mean: "1056" },
        extstore_mib: 160,
    },
];

const SERVERS: [&str; 3] = ["zoneweave", "extstore", "redis"];

/// Memory that objects take in a server.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Name of the server.
    pub server: &'static str,
    /// Bytes of a value; keys have 32.
    pub value_bytes: usize,
    /// Objects that were found after the load.
    pub objects: u64,
    /// Resident bytes before the load.
    pub before_bytes: u64,
    /// Resident bytes after it.
    pub after_bytes: u64,
    /// Resident bytes that the load added, for each object.
    pub added_an_object: f64,
    /// All that is resident, for an object.
    pub resident_an_object: f64,
    /// The index, for an object, as our server says it.
    pub index_an_object: Option<f64>,
}

/// Loads each server by itself.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Memory>> {
    let mut all = Vec::new();
    for plan in &PLANS {
        for server in SERVERS {
            let memory = plan.measure(bench, server)?;
            bench.step("memory of an object");
            all.push(memory);
        }
    }
    Ok(all)
}

impl Plan {
    fn measure(&self, bench: &Bench<'_>, server: &'static str) -> Result<Memory> {
        let (_directory, own_dir, peer_dir) = servers::directories()?;
        let peer = if server == "redis" { Peer::Redis } else { Peer::Extstore(self.extstore_mib) };
        let (served, protocol) = match server {
            "zoneweave" => (self.own.start(&bench.options.binary, &own_dir, Protocol::Resp)?, Protocol::Resp),
            _ => (peer.start(&peer_dir)?, peer.protocol()),
        };
        let before_bytes = resident_bytes(&served)?;
        let ask = |way| {
            let (keys, value_bytes) = (Keys::Each(0, self.objects), self.value_bytes);
            // One after the other: extstore drops what comes faster than it writes.
            let connections = if way == Way::Set { 1 } else { CONNECTIONS };
            load::apply(
                served.port,
                &Load { protocol, way, keys, value_bytes, version: 0, connections, depth: 16 },
                0,
            )
        };
        ask(Way::Set)?;
        let after_bytes = resident_bytes(&served)?;
        let found = ask(Way::Get)?;
        ensure!(found.wrong == 0 && found.hits > 0, "{} values are wrong", found.wrong);
        let index_an_object = match server {
            "zoneweave" => servers::status(&own_dir)?["memory"]["slot"].as_f64(),
            _ => None,
        };
        let an_object = |bytes: u64| precise_u64(bytes) / precise_u64(found.hits);
        Ok(Memory {
            server,
            value_bytes: self.value_bytes,
            objects: found.hits,
            before_bytes,
            after_bytes,
            added_an_object: an_object(after_bytes.saturating_sub(before_bytes)),
            resident_an_object: an_object(after_bytes),
            index_an_object,
        })
    }
}

/// Memory of a process that is no file.
fn resident_bytes(served: &Served) -> Result<u64> {
    let path = format!("/proc/{}/status", served.process.id());
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    parse(&text).with_context(|| format!("no RssAnon in {path}"))
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Measurements that are made.
pub(super) const STEPS: usize = PLANS.len() * SERVERS.len();

#[cfg(test)]
mod tests {
    #[test]
    fn resident_memory_is_read() {
        let status = "VmRSS:\t 1236084 kB\nRssAnon:\t   59872 kB\nRssShmem:\t 1164832 kB\n";
        assert_eq!(super::parse(status), Some(59_872 << 10));
        assert_eq!(super::parse("VmRSS:\t 1 kB\n"), None);
    }
}
