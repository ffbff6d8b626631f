//! A writer whose every block says which write it comes from, and the ledger of what each block may hold.
//!
//! Each connection keeps requests in flight, each request has blocks of its own. When the server dies, a block is what was
//! acknowledged last or what was on its way: nothing older, nothing mixed.

use super::nbd::{Client, FUA, Request, TRIM, WRITE};
use super::run::until;
use super::server::{Server, let_run};
use super::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64, push_block, stamp_of};
use base::random::Random;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub const BLOCKS: u64 = 64 * 256;
/// The same of a machine without KVM: what is written there in a second or two covers them, and each comparison reads all.
pub const BLOCKS_OF_MACHINE: u64 = 16 * 256;
const CONNECTIONS: u64 = 4;
/// Requests in flight on each connection.
const DEPTH: u64 = 16;
const BLOCKS_OF_REQUEST_MAX: u64 = 24;
/// Requests that are acknowledged before a server ends, at least: one that ends sooner proves nothing.
const ACKNOWLEDGED_LEAST: u64 = 48;
/// Longest time until they are; a machine without KVM is slow.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(120);
/// Blocks that are read at once, a MiB.
const BLOCKS_AT_ONCE: u64 = 256;

/// Stamps that a block may hold.
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

/// A connection that writes until the server dies.
struct Writer {
    client: Client,
    random: Random,
    /// Index of the connection.
    index: u64,
    stamp_next: u64,
    /// Blocks that belong to one place in the queue of one connection.
    blocks_each: u64,
    sent: BTreeMap<u64, Sent>,
    ledger: Ledger,
    /// Requests of all connections that were acknowledged.
    acknowledged_count: Arc<AtomicU64>,
    /// Nothing more is to be sent.
    is_enough: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self) -> Ledger {
        for slot in 0..DEPTH {
            if self.send(slot).is_err() {
                return self.ledger;
            }
        }
        // Ends when the server does.
        while let Ok(head) = self.client.reply() {
            assert_eq!(head.error, 0, "a write failed while the server was alive");
            self.acknowledge(head.cookie);
            let is_enough = self.is_enough.load(Ordering::Relaxed);
            if is_enough && self.sent.is_empty() || !is_enough && self.send(head.cookie).is_err() {
                break;
            }
        }
        self.ledger
    }

    fn send(&mut self, slot: u64) -> std::io::Result<()> {
        let blocks = 1 + self.random.below(BLOCKS_OF_REQUEST_MAX);
        let first_of_slot = (self.index * DEPTH + slot) * self.blocks_each;
        let first = first_of_slot + self.random.below(self.blocks_each - blocks + 1);
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
        self.acknowledged_count.fetch_add(1, Ordering::Relaxed);
        for lba in sent.first..sent.first + sent.blocks {
            let expected = self.ledger.get_mut(&lba).unwrap();
            expected.acknowledged = expected.in_flight.take().expect("it was in flight");
        }
    }
}

/// Oracle of what all blocks of a volume may hold.
#[derive(Default)]
pub struct Oracle {
    /// Blocks that are written, from the first one.
    blocks: u64,
    ledger: Ledger,
    stamp_next: u64,
    /// First stamp of the writers that were joined last.
    acknowledged_from: u64,
}

/// Writers on their way.
pub struct Writers {
    threads: Vec<std::thread::JoinHandle<Ledger>>,
    acknowledged_count: Arc<AtomicU64>,
    is_enough: Arc<AtomicBool>,
}

impl Writers {
    /// Requests that were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged_count.load(Ordering::Relaxed)
    }

    /// Waits until something was acknowledged that can be lost; fails with what the server said when that takes too long.
    #[track_caller]
    pub fn wait_until_acknowledged(&self, said: impl FnOnce() -> String) {
        let are_enough = until(ACKNOWLEDGED_WITHIN, || self.acknowledged() >= ACKNOWLEDGED_LEAST);
        assert!(are_enough, "only {} requests are acknowledged:\n{}", self.acknowledged(), said());
    }
}

impl Oracle {
    /// Makes the oracle of a volume of zeros.
    pub fn new() -> Oracle {
        Oracle::of(if super::machine::is_inside() { BLOCKS_OF_MACHINE } else { BLOCKS })
    }

    /// The same of so many blocks.
    pub fn of(blocks: u64) -> Oracle {
        Oracle { blocks, stamp_next: 1, ..Oracle::default() }
    }

    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Begins to write, until the server ends.
    pub fn write(&mut self, server: &Server, random: &mut Random) -> Writers {
        self.write_with(random, &mut || server.client())
    }

    /// Begins to write over connections that are opened this way.
    pub fn write_with(&mut self, random: &mut Random, open: &mut dyn FnMut() -> Client) -> Writers {
        let (acknowledged_count, is_enough) = <(Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let writer = |index| Writer {
            acknowledged_count: acknowledged_count.clone(),
            is_enough: is_enough.clone(),
            ..self.writer(open(), index, random)
        };
        let writers: Vec<Writer> = (0..CONNECTIONS).map(writer).collect();
        let threads = writers.into_iter().map(|writer| std::thread::spawn(|| writer.run())).collect();
        Writers { threads, acknowledged_count, is_enough }
    }

    /// Lets writers end, each with an answer to all that it sent; returns requests that were acknowledged.
    pub fn end(&mut self, writers: Writers) -> u64 {
        writers.is_enough.store(true, Ordering::Relaxed);
        self.join(writers)
    }

    /// Takes what writers know, once the server has ended; returns requests that were acknowledged.
    pub fn join(&mut self, writers: Writers) -> u64 {
        for thread in writers.threads {
            self.ledger.extend(thread.join().unwrap());
        }
        self.acknowledged_from = self.stamp_next;
        self.stamp_next += 1 << 32;
        writers.acknowledged_count.load(Ordering::Relaxed)
    }

    /// Blocks whose last acknowledged write is one of the writers that were joined last: each has to hold that, or what was on its way.
    pub fn blocks_acknowledged_last(&self) -> usize {
        self.ledger.values().filter(|expected| expected.acknowledged >= self.acknowledged_from).count()
    }

    /// Writes for up to a second more than it takes until something is acknowledged, and kills the server meanwhile.
    #[track_caller]
    pub fn write_and_kill(&mut self, server: Server, random: &mut Random) {
        let writers = self.write(&server, random);
        writers.wait_until_acknowledged(|| server.log());
        let_run(Duration::from_millis(random.below(1000)));
        server.kill_9();
        println!("- killed after {} acknowledged requests", self.join(writers));
    }

    fn writer(&self, client: Client, index: u64, random: &mut Random) -> Writer {
        let blocks_each = self.blocks / (CONNECTIONS * DEPTH);
        let own = index * DEPTH * blocks_each..(index + 1) * DEPTH * blocks_each;
        Writer {
            client,
            random: Random::from_seed(random.bits()),
            index,
            stamp_next: self.stamp_next,
            blocks_each,
            sent: BTreeMap::new(),
            ledger: self.ledger.range(own).map(|(&lba, &expected)| (lba, expected)).collect(),
            acknowledged_count: Arc::default(),
            is_enough: Arc::default(),
        }
    }

    /// A write of somebody else to blocks in a row begins; returns its stamp.
    pub fn begin(&mut self, blocks: Range<u64>) -> u64 {
        let stamp = self.stamp_next;
        self.stamp_next += 1;
        for lba in blocks {
            self.ledger.entry(lba).or_default().in_flight = Some(stamp);
        }
        stamp
    }

    /// The same write was acknowledged.
    pub fn acknowledge(&mut self, blocks: Range<u64>) {
        for lba in blocks {
            let expected = self.ledger.get_mut(&lba).expect("a write that was begun");
            expected.acknowledged = expected.in_flight.take().expect("it was in flight");
        }
    }

    /// The same as [`Oracle::verify`], where blocks that were on their way may be lost: they are errors, until they are written. Returns how many
    /// were.
    #[track_caller]
    pub fn verify_and_heal(&mut self, server: &Server) -> u64 {
        let mut client = server.client();
        let mut lost = 0;
        for first in (0..self.blocks).step_by(usize::try_from(BLOCKS_AT_ONCE).unwrap()) {
            let bytes = u32::try_from(BLOCKS_AT_ONCE * BLOCK_BYTES_U64).unwrap();
            let read = client.read(first * BLOCK_BYTES_U64, bytes);
            let pieces: Vec<(u64, Option<Vec<u8>>)> = match read {
                Ok(data) => vec![(first, Some(data))],
                Err(_) => (first..first + BLOCKS_AT_ONCE)
                    .map(|lba| (lba, client.read(lba * BLOCK_BYTES_U64, 4096).ok()))
                    .collect(),
            };
            for (lba, data) in pieces {
                let wrong = match data {
                    Some(data) => self.compare(lba, &data),
                    None if self.ledger.get(&lba).is_some_and(|expected| expected.in_flight.is_some()) => {
                        lost += 1;
                        self.write_one(&mut client, lba)
                    }
                    None => Err(format!("block {lba} cannot be read, and was not on its way")),
                };
                wrong.unwrap_or_else(|wrong| panic!("{wrong}\n{}", server.log()));
            }
        }
        lost
    }

    fn write_one(&mut self, client: &mut Client, lba: u64) -> Result<(), String> {
        let stamp = self.begin(lba..lba + 1);
        let mut data = Vec::new();
        push_block(&mut data, lba, stamp);
        client.write(lba * BLOCK_BYTES_U64, &data).map_err(|error| format!("block {lba}: {error:?}"))?;
        self.acknowledge(lba..lba + 1);
        Ok(())
    }

    /// Compares all blocks with what they may hold, which is what they do hold from now on.
    #[track_caller]
    pub fn verify(&mut self, server: &Server) {
        if let Err(wrong) = self.verify_with(&mut server.client()) {
            panic!("{wrong}\n{}", server.log());
        }
    }

    /// The same over a connection.
    ///
    /// # Errors
    /// With the block that holds something else.
    pub fn verify_with(&mut self, client: &mut Client) -> Result<(), String> {
        assert!(client.size_bytes >= self.blocks * BLOCK_BYTES_U64, "{} bytes", client.size_bytes);
        let mut lba = 0;
        while lba < self.blocks {
            let bytes = u32::try_from(BLOCKS_AT_ONCE * BLOCK_BYTES_U64).unwrap();
            let data = client.read(lba * BLOCK_BYTES_U64, bytes).unwrap();
            self.compare(lba, &data)?;
            lba += BLOCKS_AT_ONCE;
        }
        Ok(())
    }

    /// The same of some blocks in a row.
    ///
    /// # Errors
    /// With the block that holds something else.
    pub fn compare(&mut self, first: u64, data: &[u8]) -> Result<(), String> {
        for (lba, block) in (first..).zip(data.chunks(BLOCK_BYTES)) {
            let expected = self.ledger.entry(lba).or_default();
            match stamp_of(lba, block) {
                Some(found) if found == expected.acknowledged || Some(found) == expected.in_flight => {
                    *expected = Expected { acknowledged: found, in_flight: None };
                }
                Some(found) => {
                    return Err(format!("block {lba} has stamp {found:#x}, expected {expected:x?}"));
                }
                None => return Err(format!("block {lba} is not wholly one write; expected {expected:x?}")),
            }
        }
        Ok(())
    }
}
