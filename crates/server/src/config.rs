//! Configuration of the server and its clock.

use crate::nbd::handshake::ExportConfig;
use crate::recorder::Recorder;
use crate::vhost::block::SERIAL_BYTES;
use base::time::{Instant, Nanos};
use thiserror::Error;

const SECOND: Nanos = Nanos(1_000_000_000);

/// Longest string the NBD protocol allows.
const NAME_BYTES_MAX: usize = 4096;

/// Most threads that can serve one volume.
pub const CORES_MAX: usize = 64;

/// Limits and names. [`ServerConfig::default`] is right for most.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Names of the volume; the first also answers to the empty name.
    pub exports: Vec<ExportConfig>,
    /// The disk as virtual machines see it.
    pub disk: DiskConfig,
    /// Threads that serve clients, from 1 to [`CORES_MAX`]; the first of them has the volume.
    pub cores: usize,
    /// Clients at a time; more are accepted and closed.
    pub connections_max: usize,
    /// Time for negotiation.
    pub handshake_limit: Nanos,
    /// A client that owes us the rest of a message, or does not take its replies, must make some
    /// progress within this time.
    pub stall_limit: Nanos,
    /// The same while other clients wait for the memory it holds.
    pub shortage_limit: Nanos,
    /// Time an established connection may rest; zero is for ever.
    pub idle_limit: Nanos,
    /// Rest after which a client's big receive buffer (256 KiB) is given up for a small one.
    pub staging_rest: Nanos,
    /// Time for requests in flight when stopping, and again for the final flush.
    pub stop_limit: Nanos,
    /// Time to look for work before sleeping; costs processor time, saves wake-ups.
    pub spin: Nanos,
    /// Nobody may change the volume.
    pub is_read_only: bool,
    /// Whoever notes what clients ask for, where that is recorded.
    pub recorder: Option<Recorder>,
}

/// The disk as virtual machines see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskConfig {
    /// Serial number, padded with zeros.
    pub serial: [u8; SERIAL_BYTES],
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            exports: vec![ExportConfig { name: "zoneweave".to_owned(), description: String::new() }],
            disk: DiskConfig::default(),
            cores: 1,
            connections_max: 4096,
            handshake_limit: Nanos(10 * SECOND.0),
            stall_limit: Nanos(30 * SECOND.0),
            shortage_limit: Nanos(SECOND.0),
            idle_limit: Nanos(0),
            staging_rest: Nanos(5 * SECOND.0),
            stop_limit: Nanos(10 * SECOND.0),
            spin: Nanos(0),
            is_read_only: false,
            recorder: None,
        }
    }
}

/// Fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Nothing to serve.
    #[error("no export is configured: give the volume at least one name")]
    NoExports,
    /// Too long for the protocol.
    #[error("the name or description of an export exceeds {NAME_BYTES_MAX} bytes, the limit of NBD")]
    LongName,
    /// Two exports of one name.
    #[error("the export name `{0}` is configured twice")]
    DuplicateName(String),
    /// Too few or too many threads.
    #[error("{0} cores are not possible: use 1 to {CORES_MAX}")]
    Cores(usize),
    /// A limit of zero admits nobody.
    #[error(
        "connections_max, handshake_limit, stall_limit, shortage_limit and stop_limit must be greater than zero"
    )]
    ZeroLimit,
}

impl ServerConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// With the first thing that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.exports.is_empty() {
            return Err(ConfigError::NoExports);
        }
        for (index, export) in self.exports.iter().enumerate() {
            if export.name.len() > NAME_BYTES_MAX || export.description.len() > NAME_BYTES_MAX {
                return Err(ConfigError::LongName);
            }
            if self.exports[..index].iter().any(|other| other.name == export.name) {
                return Err(ConfigError::DuplicateName(export.name.clone()));
            }
        }
        if !(1..=CORES_MAX).contains(&self.cores) {
            return Err(ConfigError::Cores(self.cores));
        }
        let limits = [self.handshake_limit, self.stall_limit, self.shortage_limit, self.stop_limit];
        if self.connections_max == 0 || limits.contains(&Nanos(0)) {
            return Err(ConfigError::ZeroLimit);
        }
        Ok(())
    }
}

/// The wall clock as the engine is told it: nanoseconds since the clock was made. Copies agree,
/// so drives and server can share one.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    origin: std::time::Instant,
}

impl WallClock {
    /// A clock that begins at zero.
    #[must_use]
    pub fn start() -> WallClock {
        WallClock { origin: std::time::Instant::now() }
    }

    /// The time.
    ///
    /// # Panics
    /// After 584 years.
    #[must_use]
    pub fn now(self) -> Instant {
        Instant(
            u64::try_from(self.origin.elapsed().as_nanos()).expect("the server is younger than 584 years"),
        )
    }

    /// The time, which does not go back: a host's may, as that of a virtual machine does whose ticks come seconds late.
    #[must_use]
    pub(crate) fn now_after(self, before: Instant) -> Instant {
        self.now().max(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_mistakes_are_named() {
        let good = ServerConfig::default();
        assert_eq!(good.validate(), Ok(()));
        let none = ServerConfig { exports: Vec::new(), ..good.clone() };
        assert_eq!(none.validate(), Err(ConfigError::NoExports));
        for cores in [0, CORES_MAX + 1] {
            let wrong = ServerConfig { cores, ..good.clone() };
            assert_eq!(wrong.validate(), Err(ConfigError::Cores(cores)));
        }
        let twice = ServerConfig { exports: [good.exports.clone(), good.exports.clone()].concat(), ..good };
        assert_eq!(twice.validate(), Err(ConfigError::DuplicateName("zoneweave".to_owned())));
    }
}
