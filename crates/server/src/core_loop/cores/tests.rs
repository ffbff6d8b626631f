//! A front that ends before its time.

use super::super::memory_volume::{MemoryVolume, Options};
use super::*;
use crate::stop::Stop;
use base::time::Nanos;
use std::io;
use std::sync::atomic::Ordering;

fn run_with_body(body: fn(Front, &ServerConfig) -> Result<(), RunError>) -> Result<(), RunError> {
    let options = Options { blocks: 64, frames_max: 64, delay_max: Nanos(0) };
    let (mut volume, shared) = MemoryVolume::new(options);
    // Nobody asks for a stop; the other end must stay for that.
    let (stop, _stop_handle) = Stop::new().unwrap();
    let clock = WallClock::start();
    let service = Service::new(stop, clock);
    let config = ServerConfig { cores: 3, ..ServerConfig::default() };
    let result = run_with(&config, service, &mut volume, body);
    assert_eq!(shared.flushes.load(Ordering::Relaxed), 1, "the volume is flushed whatever happened");
    result
}

#[test]
fn the_error_of_a_front_ends_the_service() {
    // One of the two does as it should.
    let result = run_with_body(|front, config| {
        if std::thread::current().name() == Some("core-2") {
            front.serve(config)
        } else {
            fail_after_a_while()
        }
    });
    assert!(matches!(result, Err(RunError::Cores(_))), "{result:?}");
}

fn fail_after_a_while() -> Result<(), RunError> {
    std::thread::sleep(std::time::Duration::from_millis(20));
    Err(RunError::Cores(io::Error::other("lost")))
}

#[test]
fn a_front_that_leaves_unasked_ends_the_service_too() {
    assert!(run_with_body(|_, _| Ok(())).is_ok());
}
