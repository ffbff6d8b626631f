//! Settings of the protocol.

use std::path::PathBuf;

/// Version of Redis whose answers these are.
pub const REDIS_VERSION: &str = "7.0.15";
/// Databases that SELECT knows: namespaces 0 to 15.
pub const DATABASES: u8 = 16;

/// See the module.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Largest value in bytes.
    pub object_bytes_max: u32,
    /// Memory of all clients together: what they sent, what is under way, what they have not read.
    pub client_memory_bytes: usize,
    /// Most clients at a time.
    pub clients_max: usize,
    /// Threads that serve.
    pub cores: usize,
    /// Memory of the cache, as `--memory` says.
    pub memory_bytes: u64,
    /// Password that clients have to say.
    pub password: Option<Vec<u8>>,
    /// DEBUG is allowed.
    pub debug_commands: bool,
    /// Seconds that a connection may rest; 0 is for ever.
    pub timeout_seconds: u64,
    /// Identity of this run, 40 hexadecimal digits.
    pub run_id: String,
    /// TCP port, 0 without.
    pub port: u16,
    /// Address of it, empty without.
    pub bind: String,
    /// The program.
    pub executable: PathBuf,
}

impl Settings {
    /// Longest command in bytes: one value of the largest size, and a MiB for all the rest of it.
    #[must_use]
    pub fn command_bytes_max(&self) -> u32 {
        self.object_bytes_max.saturating_mul(2).saturating_add(1 << 20)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            object_bytes_max: 16 << 20,
            client_memory_bytes: 256 << 20,
            clients_max: 10_000,
            cores: 1,
            memory_bytes: 256 << 20,
            password: None,
            debug_commands: false,
            timeout_seconds: 0,
            run_id: "0".repeat(40),
            port: 0,
            bind: String::new(),
            executable: PathBuf::new(),
        }
    }
}
