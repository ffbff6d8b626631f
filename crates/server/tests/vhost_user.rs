//! A virtual machine's disk: what it answers, and what a hostile machine or front end cannot do.

// Helpers may fail like the tests they help.
#![allow(clippy::unwrap_used)]

mod support;

use base::time::Nanos;
use server::vhost::block::BlockSize;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use support::front_end::*;
use support::memory_volume::Options;
use support::raw_client::RawClient;
use support::{BLOCKS, GENEROUS, TestServer, config, options, pattern};

/// A guest with one queue.
struct Machine {
    ram: GuestRam,
    front: FrontEnd,
    driver: Driver,
}

impl Machine {
    fn start(server: &TestServer) -> Machine {
        Machine::start_with(server, FEATURES)
    }

    fn start_with(server: &TestServer, features: u64) -> Machine {
        let ram = GuestRam::new();
        let mut front = FrontEnd::connect(&server.guest_path()).unwrap();
        front.features = features;
        front.begin(&ram);
        let driver = Driver::new(&ram, 0);
        front.start(&driver);
        Machine { ram, front, driver }
    }

    /// Does one request and returns its status.
    fn status_of(&mut self, kind: u32, sector: u64, bytes: u32) -> u8 {
        self.driver.submit(&self.ram, 0, kind, sector, bytes);
        self.driver.kick(&self.ram, self.front.features & EVENT_IDX != 0);
        let (head, written) = self.driver.wait(&self.ram, GENEROUS).expect("an answer");
        assert_eq!(head, 0);
        let status = self.ram.bytes(status_at(0, 0), 1)[0];
        let is_filled = (kind == IN || kind == GET_ID) && status == 0;
        assert_eq!(written, 1 + if is_filled { bytes } else { 0 });
        status
    }

    fn write(&mut self, sector: u64, data: &[u8]) -> u8 {
        self.ram.put_bytes(data_at(0, 0), data);
        self.status_of(OUT, sector, u32::try_from(data.len()).unwrap())
    }

    fn read(&mut self, sector: u64, bytes: usize) -> Vec<u8> {
        self.ram.put_bytes(data_at(0, 0), &vec![0xaa; bytes]);
        assert_eq!(self.status_of(IN, sector, u32::try_from(bytes).unwrap()), 0);
        self.ram.bytes(data_at(0, 0), bytes)
    }

    fn zero(&mut self, kind: u32, ranges: &[(u64, u32, u32)]) -> u8 {
        let mut table = Vec::new();
        for (sector, sectors, flags) in ranges {
            table.extend(sector.to_le_bytes());
            table.extend(sectors.to_le_bytes());
            table.extend(flags.to_le_bytes());
        }
        self.ram.put_bytes(data_at(0, 0), &table);
        self.status_of(kind, 0, u32::try_from(table.len()).unwrap())
    }
}

#[test]
fn a_disk_reads_what_was_written() {
    let server = TestServer::start(config(), options());
    for features in [FEATURES, FEATURES & !EVENT_IDX] {
        let mut machine = Machine::start_with(&server, features);
        let data = pattern(features, 60 << 10);
        assert_eq!(machine.write(8, &data), 0);
        assert!(machine.read(8, data.len()) == data);
        // A sector keeps its neighbours, and NBD sees the same volume.
        let sector = pattern(7, 512);
        assert_eq!(machine.write(19, &sector), 0);
        let expected = [&data[..11 * 512], &sector, &data[12 * 512..]].concat();
        assert!(machine.read(8, data.len()) == expected);
        let mut client = RawClient::open(&server.path(), true);
        assert!(client.read(4096, 60 << 10) == expected);
        // Zeros by both requests, in several ranges, of which one is part of a block.
        assert_eq!(machine.zero(WRITE_ZEROES, &[(8, 8, 1), (17, 2, 0)]), 0);
        assert_eq!(machine.zero(DISCARD, &[(32, 16, 0)]), 0);
        let mut expected = expected;
        for range in [0..8, 9..11, 24..40] {
            expected[range.start * 512..range.end * 512].fill(0);
        }
        assert!(machine.read(8, data.len()) == expected);
        assert_eq!(machine.status_of(FLUSH, 0, 0), 0);
        assert_eq!(machine.status_of(GET_ID, 0, 20), 0);
        assert_eq!(machine.ram.bytes(data_at(0, 0), 20), b"serial-of-the-volume");
    }
    assert_eq!(server.shared.flushes.load(Relaxed), 2);
    assert_eq!(server.shared.forced.load(Relaxed), 0);
    server.finish();
}

#[test]
fn a_guest_that_does_not_flush_loses_nothing() {
    let server = TestServer::start(config(), options());
    let mut machine = Machine::start_with(&server, FEATURES & !(1 << 9));
    assert_eq!(machine.write(0, &pattern(1, 4096)), 0);
    assert_eq!(machine.zero(DISCARD, &[(8, 8, 0)]), 0);
    assert_eq!(server.shared.forced.load(Relaxed), 2);
    server.finish();
}

#[test]
fn the_configuration_is_that_of_the_disk() {
    for (block_size, bytes, exponent) in [(BlockSize::Whole, 4096_u32, 0), (BlockSize::Small, 512, 3)] {
        let server = TestServer::start_with(config(), options(), block_size);
        let machine = Machine::start(&server);
        let config = machine.front.config();
        assert_eq!(config[..8], (BLOCKS * 8).to_le_bytes());
        assert_eq!(config[12..16], 126_u32.to_le_bytes());
        assert_eq!(config[20..24], bytes.to_le_bytes());
        assert_eq!(config[24], exponent);
        assert_eq!(config[34..36], 16_u16.to_le_bytes());
        assert_eq!(machine.front.number(17), 16);
        assert_eq!(machine.front.number(1), FEATURES);
        assert_eq!(machine.front.number(15), PROTOCOL);
        server.finish();
    }
}

#[test]
fn queues_are_served_side_by_side_with_few_frames() {
    let few = Options { frames_max: 64, delay_max: Nanos(200_000), ..options() };
    let server = TestServer::start(config(), few);
    let Machine { ram, front, driver } = Machine::start(&server);
    let mut drivers = vec![driver];
    for index in 1..4 {
        drivers.push(Driver::new(&ram, index));
        front.start(&drivers[drivers.len() - 1]);
    }
    // Every request is as long as all frames of a part, and there are 64 of them at once.
    for driver in &mut drivers {
        for slot in 0..16_u16 {
            let sector = (driver.index * 16 + u64::from(slot)) * 128;
            ram.put_bytes(data_at(driver.index, slot), &pattern(sector + 1, 64 << 10));
            driver.submit(&ram, slot, OUT, sector, 64 << 10);
        }
        driver.kick(&ram, true);
    }
    for driver in &mut drivers {
        for _ in 0..16 {
            driver.wait(&ram, GENEROUS).expect("an answer");
        }
        for slot in 0..16 {
            ram.put_bytes(data_at(driver.index, slot), &vec![0; 64 << 10]);
            driver.submit(&ram, slot, IN, (driver.index * 16 + u64::from(slot)) * 128, 64 << 10);
        }
        driver.kick(&ram, true);
    }
    for driver in &mut drivers {
        for _ in 0..16 {
            let (head, _) = driver.wait(&ram, GENEROUS).expect("an answer");
            let slot = head / 3;
            let sector = (driver.index * 16 + u64::from(slot)) * 128;
            assert!(ram.bytes(data_at(driver.index, slot), 64 << 10) == pattern(sector + 1, 64 << 10));
        }
    }
    server.finish();
}

#[test]
fn a_chain_may_lie_in_a_table_of_its_own() {
    let server = TestServer::start(config(), options());
    let mut machine = Machine::start(&server);
    let data = pattern(3, 8192);
    assert_eq!(machine.write(0, &data), 0);
    // Header in two pieces, data in 64 of 128 bytes, status.
    let (ram, table) = (&machine.ram, slot_at(0, 9));
    ram.put(slot_at(0, 1), IN);
    ram.put(slot_at(0, 1) + 4, 0_u32);
    ram.put(slot_at(0, 1) + 8, 0_u64);
    let mut entries = vec![(slot_at(0, 1), 7_u32, 0), (slot_at(0, 1) + 7, 9, 0)];
    entries.extend((0..64).map(|piece| (data_at(0, 1) + piece * 128, 128, WRITABLE)));
    entries.push((status_at(0, 1), 1, WRITABLE));
    for (index, (address, bytes, flags)) in (0_u16..).zip(&entries) {
        let place = table + u64::from(index) * 16;
        let is_last = usize::from(index) + 1 == entries.len();
        ram.put(place, *address);
        ram.put(place + 8, *bytes);
        ram.put(place + 12, flags | if is_last { 0 } else { NEXT });
        ram.put(place + 14, index + 1);
    }
    let bytes = u32::try_from(entries.len() * 16).unwrap();
    machine.driver.descriptor(ram, 3, table, bytes, INDIRECT, 0);
    machine.driver.offer(ram, 3);
    machine.driver.kick(ram, true);
    assert_eq!(machine.driver.wait(ram, GENEROUS), Some((3, 8193)));
    assert!(ram.bytes(data_at(0, 1), 8192) == data);
    server.finish();
}

#[test]
fn wrong_requests_fail_and_the_next_ones_do_not() {
    let server = TestServer::start(config(), options());
    let mut machine = Machine::start(&server);
    let end = BLOCKS * 8;
    assert_eq!(machine.status_of(IN, end, 512), 1, "beyond the end");
    assert_eq!(machine.status_of(OUT, u64::MAX, 512), 1, "beyond everything");
    assert_eq!(machine.status_of(OUT, 0, 100), 1, "part of a sector");
    assert_eq!(machine.status_of(99, 0, 0), 2, "an unknown kind");
    assert_eq!(machine.zero(DISCARD, &[(0, 8, 1)]), 2, "an unknown flag");
    assert_eq!(machine.zero(WRITE_ZEROES, &[(end - 1, 2, 0)]), 1, "zeros beyond the end");
    assert_eq!(machine.status_of(DISCARD, 0, 17), 1, "part of a range");
    server.shared.bad_block.store(5, Relaxed);
    assert_eq!(machine.status_of(IN, 32, 16 << 10), 1, "a bad block");
    server.shared.bad_block.store(u64::MAX, Relaxed);
    // Data outside of memory: the status is told all the same.
    machine.driver.submit(&machine.ram, 1, OUT, 0, 4096);
    machine.driver.descriptor(&machine.ram, 4, GUEST_BASE - 100, 4096, NEXT, 5);
    machine.driver.kick(&machine.ram, true);
    assert_eq!(machine.driver.wait(&machine.ram, GENEROUS), Some((3, 1)));
    assert_eq!(machine.ram.bytes(status_at(0, 1), 1), [1]);
    assert_eq!(machine.write(0, &pattern(1, 4096)), 0);
    server.finish();
}

/// Each way in which a guest may break its queue, on a connection of its own.
#[test]
fn a_broken_queue_ends_its_connection_alone() {
    let server = TestServer::start(config(), options());
    let mut witness = RawClient::open(&server.path(), true);
    let breaks: [fn(&mut Machine); 7] = [
        // A loop, and one of length one.
        |machine| machine.driver.descriptor(&machine.ram, 2, data_at(0, 0), 1, WRITABLE | NEXT, 1),
        |machine| machine.driver.descriptor(&machine.ram, 0, data_at(0, 0), 1, NEXT, 0),
        // A descriptor beyond the table.
        |machine| machine.driver.descriptor(&machine.ram, 0, data_at(0, 0), 1, NEXT, QUEUE_SIZE),
        // Tables: of an odd length, outside of memory, within themselves.
        |machine| machine.driver.descriptor(&machine.ram, 0, data_at(0, 0), 17, INDIRECT, 0),
        |machine| machine.driver.descriptor(&machine.ram, 0, u64::MAX - 7, 16, INDIRECT, 0),
        |machine| {
            let table = data_at(0, 0);
            machine.ram.put(table, table);
            machine.ram.put(table + 8, 16_u32);
            machine.ram.put(table + 12, INDIRECT);
            machine.driver.descriptor(&machine.ram, 0, table, 16, INDIRECT, 0);
        },
        // No room for a status.
        |machine| machine.driver.descriptor(&machine.ram, 2, status_at(0, 0), 1, 0, 0),
    ];
    for (number, break_it) in breaks.iter().enumerate() {
        let mut machine = Machine::start(&server);
        assert_eq!(machine.write(0, &pattern(1, 4096)), 0);
        machine.driver.submit(&machine.ram, 0, OUT, 0, 4096);
        // Before the offer is seen: nobody has kicked, and the queue has gone cold.
        break_it(&mut machine);
        machine.driver.force_kick();
        assert!(machine.front.answer().is_none(), "break {number} ends the connection");
        assert!(witness.read(0, 4096) == pattern(1, 4096));
    }
    // A head beyond the table, and an index that runs away.
    for (head, index) in [(QUEUE_SIZE, 1), (0, QUEUE_SIZE + 1)] {
        let mut machine = Machine::start(&server);
        machine.driver.offer(&machine.ram, head);
        machine.driver.publish(&machine.ram, index);
        machine.driver.force_kick();
        assert!(machine.front.answer().is_none());
    }
    server.finish();
}

/// The file is cut in front of the data, and in front of everything: what was read of a write is not written.
#[test]
fn memory_that_is_cut_short_ends_its_connection_alone() {
    let server = TestServer::start(config(), options());
    let mut witness = RawClient::open(&server.path(), true);
    for cut in [data_at(0, 0) - GUEST_BASE, 0] {
        let mut machine = Machine::start(&server);
        assert_eq!(machine.write(0, &pattern(1, 8192)), 0);
        machine.driver.submit(&machine.ram, 0, OUT, 0, 8192);
        // Nobody touches the front end's own mapping behind the cut.
        machine.ram.file.set_len(cut).unwrap();
        machine.driver.force_kick();
        assert!(machine.front.answer().is_none(), "cut at byte {cut}");
        assert!(witness.read(0, 8192) == pattern(1, 8192));
    }
    let mut machine = Machine::start(&server);
    assert_eq!(machine.write(0, &pattern(2, 4096)), 0);
    server.finish();
}

#[test]
fn a_hostile_front_end_ends_its_connection_alone() {
    let server = TestServer::start(config(), options());
    let ram = GuestRam::new();
    let open = || FrontEnd::connect(&server.guest_path()).unwrap();
    // Descriptors that do not belong to the message, or are none of those.
    assert_eq!(open().tell(3, &[], &[ram.file.as_fd()]), Some(1));
    assert_eq!(open().tell(12, &0_u64.to_ne_bytes(), &[ram.file.as_fd()]), Some(1));
    assert_eq!(open().tell(13, &0_u64.to_ne_bytes(), &[]), Some(1));
    // Memory: beyond its file, empty, at the end of all addresses, twice at one place.
    let tables = [
        vec![(0, MEMORY_BYTES + 4096, 0, 0)],
        vec![(0, 0, 0, 0)],
        vec![(u64::MAX - 4095, 8192, 0, 0)],
        vec![(0, 8192, 0, 0), (4096, 8192, 1 << 40, 0)],
        vec![(0, 4096, 0, u64::MAX - 100)],
    ];
    for table in tables {
        let descriptors = vec![ram.file.as_fd(); table.len()];
        assert_eq!(open().tell(5, &memory_table(&table), &descriptors), Some(1), "{table:?}");
    }
    // Queues that there are not, that are too long, that lie nowhere.
    let state = |index: u32, number: u32| [index, number].map(u32::to_ne_bytes).as_flattened().to_vec();
    assert_eq!(open().tell(8, &state(16, 8), &[]), Some(1));
    assert_eq!(open().tell(8, &state(0, 2048), &[]), Some(1));
    assert_eq!(open().tell(8, &state(0, 100), &[]), Some(1));
    assert_eq!(open().tell(10, &state(0, 1 << 16), &[]), Some(1));
    let mut front = open();
    front.begin(&ram);
    assert_eq!(front.tell(8, &state(0, 8), &[]), Some(0));
    assert_eq!(front.tell(12, &0_u64.to_ne_bytes(), &[Driver::new(&ram, 0).kick.as_fd()]), Some(1));
    drop(front);
    // Inflight regions: for too many queues, one that can be cut short.
    assert!(open().ask(31, &[&[0; 16][..], &17_u16.to_ne_bytes(), &8_u16.to_ne_bytes()].concat()).is_none());
    let place =
        [&MEMORY_BYTES.to_ne_bytes()[..], &[0; 8], &1_u16.to_ne_bytes(), &8_u16.to_ne_bytes()].concat();
    assert_eq!(open().tell(32, &place, &[ram.file.as_fd()]), Some(1));
    // Garbage of all kinds, and descriptors with it.
    for seed in 0..64 {
        let front = open();
        let mut bytes = pattern(seed, 64);
        if seed % 2 == 0 {
            bytes[..12]
                .copy_from_slice([u32::try_from(seed).unwrap(), 9, 52].map(u32::to_ne_bytes).as_flattened());
        }
        front.say_bytes(&bytes, &vec![ram.file.as_fd(); usize::try_from(seed % 40).unwrap()]);
    }
    let mut machine = Machine::start(&server);
    assert_eq!(machine.write(0, &pattern(1, 4096)), 0);
    server.finish();
}

#[test]
fn half_a_message_stops_nobody() {
    let server = TestServer::start(config(), options());
    let mut machine = Machine::start(&server);
    assert!(machine.front.say_bytes(&17_u32.to_ne_bytes(), &[]));
    let mut client = RawClient::open(&server.path(), true);
    assert_eq!(client.write(4096, &pattern(2, 4096), 0), 0);
    assert_eq!(machine.write(0, &pattern(1, 4096)), 0);
    // The other half.
    assert!(machine.front.say_bytes([1_u32, 0].map(u32::to_ne_bytes).as_flattened(), &[]));
    assert_eq!(machine.front.answer().unwrap().0, 16_u64.to_ne_bytes());
    server.finish();
}

#[test]
fn a_queue_is_stopped_when_its_requests_have_ended() {
    let server = TestServer::start(config(), options());
    let Machine { ram, front, mut driver } = Machine::start(&server);
    server.shared.is_held.store(true, Relaxed);
    driver.submit(&ram, 0, OUT, 0, 4096);
    driver.kick(&ram, true);
    server.wait_for_submitted(1);
    let stop = [0_u32, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
    assert!(front.say(11, 0, &stop, &[]));
    front.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(front.answer().is_none(), "the request is not answered");
    front.socket.set_read_timeout(Some(GENEROUS)).unwrap();
    server.shared.is_held.store(false, Relaxed);
    let (answer, _) = front.answer().unwrap();
    assert_eq!(answer, [0_u32, 1].map(u32::to_ne_bytes).as_flattened());
    assert_eq!(driver.take_used(&ram), Some((0, 1)));
    // It begins again where it was.
    front.start(&driver);
    driver.submit(&ram, 1, IN, 0, 4096);
    driver.kick(&ram, true);
    assert_eq!(driver.wait(&ram, GENEROUS), Some((3, 4097)));
    server.finish();
}

#[test]
fn who_leaves_in_the_middle_is_done_with_before_the_next_one_comes() {
    let server = TestServer::start(config(), options());
    let Machine { ram, front, mut driver } = Machine::start(&server);
    let inflight = front.get_inflight(1);
    drop(front);
    let mut front = FrontEnd::connect(&server.guest_path()).unwrap();
    front.begin(&ram);
    front.set_inflight(&inflight);
    front.start(&driver);
    server.shared.is_held.store(true, Relaxed);
    for slot in 0..8 {
        ram.put_bytes(data_at(0, slot), &pattern(slot.into(), 4096));
        driver.submit(&ram, slot, OUT, u64::from(slot) * 8, 4096);
    }
    driver.kick(&ram, true);
    server.wait_for_submitted(8);
    drop(front);
    let mut next = FrontEnd::connect(&server.guest_path()).unwrap();
    next.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(next.ask(1, &[]).is_none(), "nobody answers while the old requests are in the volume");
    next.socket.set_read_timeout(Some(GENEROUS)).unwrap();
    server.shared.is_held.store(false, Relaxed);
    next.answer().expect("an answer to the question above");
    next.begin(&ram);
    next.set_inflight(&inflight);
    next.start(&driver);
    // All of them again, each once.
    let mut heads: Vec<u16> = (0..8).map(|_| driver.wait(&ram, GENEROUS).expect("an answer").0).collect();
    heads.sort_unstable();
    assert_eq!(heads, (0..8).map(|slot| slot * 3).collect::<Vec<u16>>());
    assert_eq!(server.shared.submitted.load(Relaxed), 16);
    assert_eq!(next.stop(0), Some(8));
    server.finish();
}
