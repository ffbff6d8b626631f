//! A front that ends before its time.

use super::super::memory_volume::{MemoryVolume, Options};
use super::*;
use crate::WallClock;
use crate::stop::Stop;
use base::time::Nanos;
use std::io;
use std::sync::atomic::Ordering;

/// What a front does in the place of serving.
type Deed = fn(Remote, Service, Arrivals<Newcomer>) -> Result<(), RunError>;

fn run_with_bodies(bodies: [Deed; 2]) -> Result<(), RunError> {
    let options = Options { blocks: 64, frames_max: 64, delay_max: Nanos(0) };
    let (mut volume, shared) = MemoryVolume::new(options);
    // Nobody asks for a stop; the other end must stay for that.
    let (stop, _stop_handle) = Stop::new().unwrap();
    let mut service = Service::new(stop, WallClock::start());
    let (mut hub, remotes) = bridge::build(&mut volume, 2).unwrap().unwrap();
    service.wake_fds.push(hub.bell().unwrap());
    let plan = |(remote, body): (Remote, Deed)| {
        let (bell, wake_fds) = (remote.bell().unwrap(), vec![remote.bell().unwrap()]);
        let waker = Box::new(remote.waker());
        Plan {
            bell,
            wake_fds,
            waker,
            body: Box::new(move |service, arrivals| body(remote, service, arrivals)),
        }
    };
    let plans = remotes.into_iter().zip(bodies).map(plan).collect();
    let result = serve_all(&config(), service, &mut hub, plans);
    assert_eq!(shared.flushes.load(Ordering::Relaxed), 1, "the volume is flushed whatever happened");
    result
}

fn config() -> ServerConfig {
    ServerConfig { cores: 3, ..ServerConfig::default() }
}

fn serve_well(mut remote: Remote, service: Service, arrivals: Arrivals<Newcomer>) -> Result<(), RunError> {
    Server::new(&config(), service, &mut remote, Role::Front(arrivals))?.run()
}

#[test]
fn the_error_of_a_front_ends_the_service() {
    let result = run_with_bodies([serve_well, |_, _, _| fail_after_a_while()]);
    assert!(matches!(result, Err(RunError::Cores(_))), "{result:?}");
}

fn fail_after_a_while() -> Result<(), RunError> {
    std::thread::sleep(std::time::Duration::from_millis(20));
    Err(RunError::Cores(io::Error::other("lost")))
}

#[test]
fn a_front_that_leaves_unasked_ends_the_service_too() {
    assert!(run_with_bodies([|_, _, _| Ok(()); 2]).is_ok());
}
