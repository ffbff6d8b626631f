//! What the integration tests share: a server in a thread and a client made of raw sockets.
// Each test file uses its share of this, and a helper may fail like the test it helps.
#![allow(dead_code, clippy::unwrap_used)]

pub mod front_end;
pub mod memory_volume;
pub mod raw_client;

use base::time::Nanos;
use memory_volume::{MemoryVolume, Options, Shared};
use server::config::DiskConfig;
use server::vhost::block::BlockSize;
use server::{
    ExportConfig, GuestPort, Listen, Ports, RunError, ServerConfig, Service, Stop, StopHandle, WallClock,
    control,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far beyond what anything takes; reaching it means that the server hangs.
pub const GENEROUS: Duration = Duration::from_secs(60);

/// Size of the volume under test: 64 MiB.
pub const BLOCKS: u64 = 16_384;

/// A server that runs in a thread until it is dropped or stopped.
pub struct TestServer {
    pub shared: Arc<Shared>,
    pub ports: Ports,
    pub stop: StopHandle,
    folder: TempDir,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

pub fn options() -> Options {
    Options { blocks: BLOCKS, frames_max: 32_768, delay_max: Nanos(0) }
}

pub fn config() -> ServerConfig {
    let export = |name: &str| ExportConfig { name: name.to_owned(), description: format!("volume {name}") };
    let disk = DiskConfig { serial: *b"serial-of-the-volume" };
    ServerConfig { exports: vec![export("main"), export("other")], disk, ..ServerConfig::default() }
}

impl TestServer {
    pub fn start(config: ServerConfig, options: Options) -> TestServer {
        TestServer::start_with(config, options, BlockSize::default())
    }

    /// The same, whose front ends see a block size.
    pub fn start_with(config: ServerConfig, options: Options, block_size: BlockSize) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let (mut volume, shared) = MemoryVolume::new(options);
        let (stop, handle) = Stop::new().unwrap();
        let listener = Listen::Unix(folder.path().join("nbd")).bind().unwrap();
        let guest = Listen::Unix(folder.path().join("guest")).bind().unwrap();
        let guests = vec![GuestPort { listener: guest, block_size }];
        let control = Some(control::bind(&folder.path().join("control")).unwrap());
        let ports = Ports::default();
        let ports_there = ports.clone();
        let thread = std::thread::spawn(move || {
            let clock = WallClock::start();
            let (listeners, ports) = (vec![listener], ports_there);
            let service = Service { listeners, guests, control, ports, ..Service::new(stop, clock) };
            server::run(&config, service, &mut volume)
        });
        TestServer { shared, ports, stop: handle, folder, thread: Some(thread) }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("nbd")
    }

    /// Socket for front ends of virtual machines.
    pub fn guest_path(&self) -> PathBuf {
        self.folder.path().join("guest")
    }

    pub fn control_path(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// Waits until the volume has accepted `count` requests.
    pub fn wait_for_submitted(&self, count: u64) {
        wait_until(|| self.shared.submitted.load(Ordering::Relaxed) >= count);
    }

    /// Waits until nothing has been asked of the volume for a while and all is answered: after
    /// clients have left in the middle, nobody else waits for what they asked.
    pub fn wait_for_quiet(&self) {
        let counts =
            || (self.shared.submitted.load(Ordering::Relaxed), self.shared.answered.load(Ordering::Relaxed));
        wait_until(|| {
            let before = counts();
            std::thread::sleep(Duration::from_millis(50));
            before.0 == before.1 && counts() == before
        });
    }

    /// Waits until the server ends by itself, and returns how it ended.
    pub fn ended(mut self) -> Result<(), RunError> {
        let thread = self.thread.take().expect("it was not waited for");
        wait_until(|| thread.is_finished());
        thread.join().expect("the server must not panic")
    }

    /// Stops the server and checks that every frame came home.
    pub fn finish(mut self) {
        self.stop.request();
        self.join();
    }

    /// As [`TestServer::finish`], for a server that was asked to stop already.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server must not panic").expect("it must end well");
            assert_eq!(self.shared.frames_out_at_end.load(Ordering::Relaxed), 0);
            assert!(!self.path().exists());
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.request();
        if !std::thread::panicking() {
            self.join();
        }
    }
}

pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < GENEROUS, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that differ from place to place and seed to seed.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend(state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}
