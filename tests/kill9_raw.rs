//! kill -9 with many writes in flight, without a file system and without root.
//!
//! Each connection keeps requests in flight, each request has blocks of its own, and every block
//! says which write it comes from. After a crash a block is what was acknowledged last or what was
//! on its way: nothing older, nothing mixed.

#![allow(clippy::unwrap_used)]

mod support;

use base::random::Random;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::nbd::{Client, FUA, Request, TRIM, WRITE};
use support::scratch::Scratch;
use support::server::{Server, let_run};
use support::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64, push_block, stamp_of};
use support::{number_from, random};

const BLOCKS: u64 = 64 * 256;
const CONNECTIONS: u64 = 4;
/// Requests in flight on each connection.
const DEPTH: u64 = 16;
/// Blocks that belong to one place in the queue of one connection.
const BLOCKS_EACH: u64 = BLOCKS / (CONNECTIONS * DEPTH);
const BLOCKS_OF_REQUEST_MAX: u64 = 24;

/// What a block may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expected {
    acknowledged: u64,
    in_flight: Option<u64>,
}

type Ledger = BTreeMap<u64, Expected>;

/// A request on its way.
struct Sent {
    first: u64,
    blocks: u64,
}

/// One connection that writes until the server dies.
struct Writer {
    client: Client,
    random: Random,
    /// Which of the connections.
    index: u64,
    stamp_next: u64,
    sent: BTreeMap<u64, Sent>,
    ledger: Ledger,
    acknowledged_count: u64,
}

impl Writer {
    fn run(mut self) -> (Ledger, u64) {
        for slot in 0..DEPTH {
            if self.send(slot).is_err() {
                return (self.ledger, self.acknowledged_count);
            }
        }
        // Ends when the server does.
        while let Ok(head) = self.client.reply() {
            assert_eq!(head.error, 0, "a write failed while the server was alive");
            self.acknowledge(head.cookie);
            if self.send(head.cookie).is_err() {
                break;
            }
        }
        (self.ledger, self.acknowledged_count)
    }

    fn send(&mut self, slot: u64) -> std::io::Result<()> {
        let blocks = 1 + self.random.below(BLOCKS_OF_REQUEST_MAX);
        let first_of_slot = (self.index * DEPTH + slot) * BLOCKS_EACH;
        let first = first_of_slot + self.random.below(BLOCKS_EACH - blocks + 1);
        let is_trim = self.random.chance(1, 8);
        let stamp = if is_trim { 0 } else { self.stamp_next };
        self.stamp_next += 1;
        for lba in first..first + blocks {
            self.ledger.entry(lba).or_default().in_flight = Some(stamp);
        }
        self.sent.insert(slot, Sent { first, blocks });
        let request = Request {
            command: if is_trim { TRIM } else { WRITE },
            flags: if self.random.chance(1, 16) { FUA } else { 0 },
            cookie: slot,
            offset: first * BLOCK_BYTES_U64,
            length: u32::try_from(blocks * BLOCK_BYTES_U64).unwrap(),
        };
        let mut bytes = request.to_bytes();
        if !is_trim {
            (first..first + blocks).for_each(|lba| push_block(&mut bytes, lba, stamp));
        }
        self.client.send(&bytes)
    }

    fn acknowledge(&mut self, slot: u64) {
        let sent = self.sent.remove(&slot).expect("a reply to a request");
        self.acknowledged_count += 1;
        for lba in sent.first..sent.first + sent.blocks {
            let expected = self.ledger.get_mut(&lba).unwrap();
            expected.acknowledged = expected.in_flight.take().expect("it was in flight");
        }
    }
}

/// An array, what it should hold, and a source of chance.
struct Crash {
    scratch: Scratch,
    random: Random,
    ledger: Ledger,
    stamp_next: u64,
    arrays: u32,
}

impl Crash {
    fn dir(&self) -> PathBuf {
        self.scratch.join(&format!("a{}", self.arrays))
    }

    /// A new array in place of the old one.
    fn renew(&mut self) {
        let _none_the_first_time = std::fs::remove_dir_all(self.dir());
        self.arrays += 1;
        self.ledger.clear();
        Server::up(&self.dir(), &["--size", "64MiB"]).stop();
    }

    /// Serves, writes, and kills the server at some moment.
    fn write_and_kill(&mut self) {
        let server = Server::serve(&self.dir());
        let writers: Vec<_> = (0..CONNECTIONS).map(|index| self.writer(&server, index)).collect();
        let threads: Vec<_> = writers.into_iter().map(|writer| std::thread::spawn(|| writer.run())).collect();
        let_run(Duration::from_millis(30 + self.random.below(700)));
        server.kill_9();
        let mut count = 0;
        for thread in threads {
            let (ledger, acknowledged_count) = thread.join().unwrap();
            self.ledger.extend(ledger);
            count += acknowledged_count;
        }
        self.stamp_next += 1 << 32;
        println!("killed after {count} acknowledged requests");
    }

    fn writer(&mut self, server: &Server, index: u64) -> Writer {
        let own = index * DEPTH * BLOCKS_EACH..(index + 1) * DEPTH * BLOCKS_EACH;
        Writer {
            client: server.client(),
            random: Random::from_seed(self.random.bits()),
            index,
            stamp_next: self.stamp_next,
            sent: BTreeMap::new(),
            ledger: self.ledger.range(own).map(|(&lba, &expected)| (lba, expected)).collect(),
            acknowledged_count: 0,
        }
    }

    /// Serves and compares all blocks with what they may hold, which is what they do hold from now
    /// on.
    fn verify(&mut self) {
        let server = Server::serve(&self.dir());
        let mut client = server.client();
        assert_eq!(client.size_bytes, BLOCKS * BLOCK_BYTES_U64);
        let mut lba = 0;
        while lba < BLOCKS {
            let data = client.read(lba * BLOCK_BYTES_U64, 1 << 20).unwrap();
            for block in data.chunks(BLOCK_BYTES) {
                let expected = self.ledger.entry(lba).or_default();
                let Some(found) = stamp_of(lba, block) else {
                    panic!("block {lba} is not wholly one write; expected {expected:x?}\n{}", server.log())
                };
                assert!(
                    found == expected.acknowledged || Some(found) == expected.in_flight,
                    "block {lba} has stamp {found:#x}, expected {expected:x?}\n{}",
                    server.log()
                );
                *expected = Expected { acknowledged: found, in_flight: None };
                lba += 1;
            }
        }
        // Whatever was found stays: this service is killed too.
        server.kill_9();
    }

    fn delete_a_drive(&mut self) {
        let drive = self.random.below(4);
        println!("drive {drive} is deleted");
        delete(&self.dir(), drive);
    }
}

fn delete(dir: &Path, drive: u64) {
    std::fs::remove_file(dir.join(format!("drive-{drive}.zns"))).unwrap();
}

#[test]
fn acknowledged_writes_survive() {
    let rounds = number_from("ZONEWEAVE_CRASH_ROUNDS", 10);
    let scratch = Scratch::new("kill9");
    let mut crash = Crash { scratch, random: random(9), ledger: Ledger::new(), stamp_next: 1, arrays: 0 };
    crash.renew();
    for round in 0..rounds {
        println!("round {round}");
        crash.write_and_kill();
        if round % 2 == 0 {
            crash.verify();
            continue;
        }
        crash.delete_a_drive();
        crash.verify();
        // Degraded, and killed once more.
        crash.write_and_kill();
        crash.verify();
        crash.renew();
    }
}
