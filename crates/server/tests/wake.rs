//! A volume whose drives complete behind the server's back, and TCP.

// Helpers may fail like the tests they help.
#![allow(clippy::unwrap_used)]

mod support;

use array::request::{Controlled, Reply, Request, Volume};
use base::frame::FramePool;
use base::time::Instant;
use rustix::event::{EventfdFlags, eventfd};
use server::{Listen, Service, Stop, WallClock};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use support::memory_volume::{MemoryVolume, Shared};
use support::raw_client::*;
use support::{GENEROUS, config, options};

/// Has no deadline: only its wake descriptor tells that there is something to do.
struct Sleeper(MemoryVolume);

impl Volume for Sleeper {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.0.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.0.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.0.submit(now, request);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        self.0.turn(now, replies)
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Controlled for Sleeper {
    fn control(&mut self, now: Instant, line: &str) -> String {
        self.0.control(now, line)
    }
}

fn wait_for_submitted(shared: &Arc<Shared>, count: u64) {
    support::wait_until(|| shared.submitted.load(Relaxed) >= count);
}

#[test]
fn a_wake_descriptor_wakes_each_time_without_being_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let (memory, shared) = MemoryVolume::new(options());
    let (stop, handle) = Stop::new().unwrap();
    let listener = Listen::Unix(path.clone()).bind().unwrap();
    let wake = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let wake_fds = vec![wake.try_clone().unwrap()];
    let thread = std::thread::spawn(move || {
        let clock = WallClock::start();
        let service = Service { listeners: vec![listener], wake_fds, ..Service::new(stop, clock) };
        server::run(&config(), service, &mut Sleeper(memory))
    });
    let mut client = RawClient::open(&path, true);
    for round in 1..=5 {
        shared.is_held.store(true, Relaxed);
        client.request(FLUSH, 0, round, 0, 0);
        wait_for_submitted(&shared, round);
        // Long enough for the server to fall asleep; were it not asleep, the test would prove less.
        std::thread::sleep(std::time::Duration::from_millis(20));
        shared.is_held.store(false, Relaxed);
        rustix::io::write(&wake, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(client.reply(0).cookie, round);
    }
    handle.request();
    thread.join().unwrap().unwrap();
}

#[test]
fn tcp_serves_on_the_port_it_was_given() {
    let (mut memory, _shared) = MemoryVolume::new(options());
    let (stop, handle) = Stop::new().unwrap();
    let listener = "tcp:127.0.0.1:0".parse::<Listen>().unwrap().bind().unwrap();
    let Listen::Tcp(address) = *listener.place() else { panic!("a TCP listener is one") };
    assert_ne!(address.port(), 0);
    let thread = std::thread::spawn(move || {
        let clock = WallClock::start();
        let service = Service { listeners: vec![listener], ..Service::new(stop, clock) };
        server::run(&config(), service, &mut memory)
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GENEROUS)).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    // Old negotiation, then a write of one block and a simple reply.
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    let mut export = [0; 10];
    stream.read_exact(&mut export).unwrap();
    stream.write_all(&request(WRITE, 0, 7, 0, 4096)).unwrap();
    stream.write_all(&[1; 4096]).unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x07");
    handle.request();
    thread.join().unwrap().unwrap();
}
