//! Exports that come and go while a server is under way.

// Helpers may fail like the tests they help.
#![allow(clippy::unwrap_used)]

mod support;

use server::vhost::block::BlockSize;
use server::{GuestPort, Listen, ServerConfig, control};
use support::front_end::{FEATURES, FrontEnd, GuestRam};
use support::raw_client::RawClient;
use support::{TestServer, config, options, pattern, wait_until};

/// Has the loop look at its ports, as it does when it is asked something.
fn wake(server: &TestServer) {
    control::ask(&server.control_path(), "look").unwrap();
}

fn place(server: &TestServer, name: &str) -> Listen {
    Listen::Unix(server.path().with_file_name(name))
}

fn front_end(place: &Listen, ram: &GuestRam) -> FrontEnd {
    let Listen::Unix(path) = place else { unreachable!("it is a path") };
    let mut front = FrontEnd::connect(path).unwrap();
    front.features = FEATURES;
    front.begin(ram);
    front
}

#[test]
fn machines_come_in_by_a_door_that_was_opened_late() {
    for cores in [1, 2] {
        let server = TestServer::start(ServerConfig { cores, ..config() }, options());
        let ram = GuestRam::new();
        let at_first = front_end(&Listen::Unix(server.guest_path()), &ram);
        let late = place(&server, "late");
        let listener = late.bind().unwrap();
        server.ports.open_guests(GuestPort { listener, block_size: BlockSize::Small });
        wake(&server);
        let front = front_end(&late, &ram);
        assert_eq!(front.config()[20..24], 512_u32.to_le_bytes());
        assert!(server.ports.is_occupied(&late));
        drop(front);
        wait_until(|| !server.ports.is_occupied(&late));
        let again = front_end(&late, &ram);
        drop(again);
        wait_until(|| !server.ports.is_occupied(&late));
        server.ports.close(&late);
        wake(&server);
        wait_until(|| !server.path().with_file_name("late").exists());
        assert_eq!(at_first.config()[20..24], 4096_u32.to_le_bytes());
        drop(at_first);
        server.finish();
    }
}

#[test]
fn clients_of_a_door_that_closes_stay() {
    let server = TestServer::start(config(), options());
    let late = place(&server, "late");
    server.ports.open_clients(late.bind().unwrap());
    wake(&server);
    let path = server.path().with_file_name("late");
    let mut client = RawClient::open(&path, false);
    server.ports.close(&late);
    wake(&server);
    wait_until(|| !path.exists());
    assert!(std::os::unix::net::UnixStream::connect(&path).is_err());
    let data = pattern(1, 4096);
    assert_eq!(client.write(0, &data, 0), 0);
    let mut other = RawClient::open(&server.path(), false);
    assert_eq!(other.read(0, 4096), data);
    // The same place may be opened again, and is another door then.
    server.ports.open_clients(late.bind().unwrap());
    wake(&server);
    assert_eq!(RawClient::open(&path, false).read(0, 4096), data);
    drop((client, other));
    server.finish();
}

#[test]
fn a_server_that_ends_opens_nothing() {
    let mut server = TestServer::start(config(), options());
    let late = place(&server, "late");
    server.stop.request();
    server.ports.open_clients(late.bind().unwrap());
    server.join();
    // Whatever the server did not come to is let go of with the ports.
    drop(std::mem::take(&mut server.ports));
    assert!(std::os::unix::net::UnixStream::connect(server.path().with_file_name("late")).is_err());
}
