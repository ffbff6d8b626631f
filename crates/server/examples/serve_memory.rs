//! Serves a volume in memory: the server's ceiling, to be compared with `nbdkit memory`.
//!
//! ```sh
//! cargo run --release -p zoneweave-server --example serve_memory -- unix:/tmp/x.sock 1GiB
//! fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/x.sock' --rw=randwrite --bs=4k \
//!     --iodepth=64 --time_based --runtime=5 --size=1G
//! ```

#[path = "../tests/support/memory_volume.rs"]
#[allow(dead_code, missing_docs)]
mod memory_volume;

use base::time::Nanos;
use base::units::{BLOCK_BYTES_U64, parse_bytes};
use memory_volume::{MemoryVolume, Options};
use server::{Listen, ServerConfig, Service, Stop, WallClock};
use std::error::Error;

/// 256 MiB of frames.
const FRAMES_MAX: usize = 65_536;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let place: Listen = arguments.next().unwrap_or_else(|| "tcp::10809".to_owned()).parse()?;
    let size_bytes = parse_bytes(&arguments.next().unwrap_or_else(|| "1GiB".to_owned()))?;
    let spin_us = arguments.next().map_or(Ok(0), |text| text.parse::<u64>())?;
    let options =
        Options { blocks: size_bytes / BLOCK_BYTES_U64, frames_max: FRAMES_MAX, delay_max: Nanos(0) };
    let (mut volume, _shared) = MemoryVolume::new(options);
    let (stop, handle) = Stop::new()?;
    handle.on_signals()?;
    let listener = place.bind()?;
    println!("{}", listener.place().uri(""));
    let service = Service { listeners: vec![listener], ..Service::new(stop, WallClock::start()) };
    let config = ServerConfig { spin: Nanos::from_micros(spin_us), ..ServerConfig::default() };
    server::run(&config, service, &mut volume)?;
    Ok(())
}
