//! Power cuts of disks that are cut into zones: their writes and flushes are recorded, and arrays have to come up from whatever of them a
//! cut may leave. What was flushed is there.

use crate::support::nbd::{Client, FLUSH, FUA, Request, WRITE};
use crate::support::recorded_disks::{Kept, RecordedDisks, TOOLS};
use crate::support::run::{SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, assert_clean, let_run};
use crate::support::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64, push_block, stamp_of};
use crate::support::{have, is_root, number_from, random, text};
use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use block::device::{BlockDevice, Command, Op, Status, Token};
use drive::ordinary::open::Opened;
use drive::ordinary::{OrdinaryDrive, bell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DISKS: usize = 3;
const DISK_BYTES: u64 = 256 << 20;
/// Blocks that are written, and requests in flight, each with blocks of its own.
const BLOCKS: u64 = 2048;
const DEPTH: u64 = 16;
const BLOCKS_EACH: u64 = BLOCKS / DEPTH;
const BLOCKS_OF_REQUEST_MAX: u64 = 12;
/// Writes between two flushes.
const WRITES_OF_FLUSH: u64 = 64;
/// Cookie of flushes.
const FLUSH_COOKIE: u64 = DEPTH;
/// Cuts; the array is without a disk from the second on.
const CUTS: u64 = 3;
const WHOLE_CUTS: u64 = 1;

/// Stamps that a block may hold: what was written last before the last flush, and all that was written since.
#[derive(Clone, Debug, Default)]
struct Versions {
    stamps: Vec<u64>,
    /// So many were acknowledged.
    acknowledged: usize,
    /// So many had been when the flush was sent that is under way.
    before_flush: usize,
}

impl Versions {
    fn become_durable(&mut self, count: usize) {
        let gone = count.saturating_sub(1);
        self.stamps.drain(..gone);
        self.acknowledged -= gone;
        self.before_flush = self.before_flush.saturating_sub(gone);
    }
}

/// A client with writes in flight and a flush beside them, until the server is gone.
struct Writer {
    client: Client,
    random: Random,
    ledger: Ledger,
    sent: BTreeMap<u64, (u64, u64, bool)>,
    acknowledged: u64,
    flushes: Arc<AtomicU64>,
    is_flushing: bool,
}

#[derive(Clone, Debug)]
struct Ledger {
    blocks: Vec<Versions>,
    stamp_next: u64,
}

impl Ledger {
    fn new() -> Ledger {
        let zeros = Versions { stamps: vec![0], acknowledged: 1, before_flush: 0 };
        Ledger { blocks: vec![zeros; usize::try_from(BLOCKS).unwrap()], stamp_next: 1 }
    }

    fn of(&mut self, first: u64, count: u64) -> &mut [Versions] {
        &mut self.blocks[usize::try_from(first).unwrap()..][..usize::try_from(count).unwrap()]
    }

    /// Compares all blocks with what they may hold, which is what they do hold from now on.
    fn verify(&mut self, server: &Server) {
        let all = server.client().read(0, u32::try_from(BLOCKS * BLOCK_BYTES_U64).unwrap());
        let all = all.unwrap_or_else(|error| panic!("{error:?}\n{}", server.log()));
        for ((lba, data), versions) in (0..).zip(all.chunks(BLOCK_BYTES)).zip(&mut self.blocks) {
            let found = stamp_of(lba, data).unwrap_or_else(|| panic!("block {lba} is not wholly one write"));
            assert!(
                versions.stamps.contains(&found),
                "block {lba} has stamp {found}, expected one of {:?}\n{}",
                versions.stamps,
                server.log()
            );
            *versions = Versions { stamps: vec![found], acknowledged: 1, before_flush: 0 };
        }
    }
}

impl Writer {
    fn run(mut self) -> Writer {
        for slot in 0..DEPTH {
            self.send(slot).unwrap();
        }
        while let Ok(head) = self.client.reply() {
            assert_eq!(head.error, 0, "a request failed while the server was alive");
            if head.cookie == FLUSH_COOKIE {
                self.flushes.fetch_add(1, Ordering::Relaxed);
                self.is_flushing = false;
                for versions in &mut self.ledger.blocks {
                    versions.become_durable(versions.before_flush);
                }
                continue;
            }
            self.acknowledge(head.cookie);
            let flush =
                Request { command: FLUSH, flags: 0, cookie: FLUSH_COOKIE, offset: 0, length: 0 }.to_bytes();
            if self.acknowledged.is_multiple_of(WRITES_OF_FLUSH) && !self.is_flushing {
                self.is_flushing = true;
                for versions in &mut self.ledger.blocks {
                    versions.before_flush = versions.acknowledged;
                }
                if self.client.send(&flush).is_err() {
                    break;
                }
            }
            if self.send(head.cookie).is_err() {
                break;
            }
        }
        self
    }

    fn send(&mut self, slot: u64) -> std::io::Result<()> {
        let count = 1 + self.random.below(BLOCKS_OF_REQUEST_MAX);
        let first = slot * BLOCKS_EACH + self.random.below(BLOCKS_EACH - count + 1);
        let stamp = self.ledger.stamp_next;
        self.ledger.stamp_next += 1;
        let is_durable = self.random.chance(1, 64);
        self.ledger.of(first, count).iter_mut().for_each(|versions| versions.stamps.push(stamp));
        self.sent.insert(slot, (first, count, is_durable));
        let mut bytes = Request {
            command: WRITE,
            flags: if is_durable { FUA } else { 0 },
            cookie: slot,
            offset: first * BLOCK_BYTES_U64,
            length: u32::try_from(count * BLOCK_BYTES_U64).unwrap(),
        }
        .to_bytes();
        (first..first + count).for_each(|lba| push_block(&mut bytes, lba, stamp));
        self.client.send(&bytes)
    }

    fn acknowledge(&mut self, slot: u64) {
        let (first, count, is_durable) = self.sent.remove(&slot).expect("a reply to a request");
        self.acknowledged += 1;
        for versions in self.ledger.of(first, count) {
            versions.acknowledged = versions.stamps.len();
            if is_durable {
                versions.become_durable(versions.acknowledged);
            }
        }
    }
}

/// The kernel forgets that a write is to be durable, where it goes to a file of FUSE past the page cache by io_uring.
#[test]
fn durable_writes_to_files_of_fuse_are_flushed() {
    if !have(TOOLS) || !is_root() {
        return;
    }
    let scratch = Scratch::new("durable");
    let disks = RecordedDisks::new(scratch.path(), 1, 1 << 20);
    for durable in [false, true] {
        let recordings = disks.record(|| {
            let mut opened = Opened::to_write(&disks.path(0)).expect("a file");
            opened.make_direct().unwrap();
            assert!(opened.is_direct() && opened.forgets_durable());
            let bell = bell::new().unwrap();
            let mut drive = OrdinaryDrive::new(opened, &bell).unwrap();
            let op = Op::Write { sector: 16, frames: vec![Frame::zeroed(), Frame::zeroed()], durable };
            drive.submit(Instant(0), Command { token: Token(1), op });
            let mut completions = Vec::new();
            let completion = bell::wait_for(&bell, |now| {
                drive.poll(now, &mut completions);
                completions.pop()
            });
            assert_eq!(completion.status, Status::Success);
        });
        assert_eq!(recordings[0].unflushed(), usize::from(!durable));
        disks.cut(&recordings, Kept::All, &mut random(1));
    }
}

#[test]
fn what_was_flushed_outlives_cuts_of_disks() {
    if !have(TOOLS) || !is_root() {
        return;
    }
    let scratch = Scratch::new("recorded");
    let dir = scratch.join("array");
    let mut random = random(27);
    let disks = RecordedDisks::new(scratch.path(), DISKS, DISK_BYTES);
    let paths: Vec<String> = (0..DISKS).map(|disk| format!("raw:{}", text(&disks.path(disk)))).collect();
    ask(&["create", text(&dir), "--drives-path", &paths.join(","), "--zone-size", "4MiB"]).expect("create");
    let mut ledger = Ledger::new();
    let tries = number_from("ZONEWEAVE_TRIES", 2);
    for cut in 0..CUTS {
        let (mut written, flushes) = (None, Arc::new(AtomicU64::new(0)));
        let recordings = disks.record(|| {
            let server = Server::serve(&dir);
            if cut == WHOLE_CUTS {
                ask(&["drive", "fail", text(&dir), "1"]).expect("fail");
            }
            let writer = Writer {
                client: server.client(),
                random: Random::from_seed(random.bits()),
                ledger: ledger.clone(),
                sent: BTreeMap::new(),
                acknowledged: 0,
                flushes: flushes.clone(),
                is_flushing: false,
            };
            let writer = std::thread::spawn(|| writer.run());
            let enough = 2 + random.below(4);
            assert!(until(SOON, || flushes.load(Ordering::Relaxed) >= enough), "flushes are not answered");
            let_run(Duration::from_millis(random.below(100)));
            server.kill_9();
            written = Some(writer.join().unwrap());
        });
        let written = written.expect("the writer has ended");
        let unflushed: usize = recordings.iter().map(|recording| recording.unflushed()).sum();
        println!(
            "- cut {cut}: {} writes and {} flushes acknowledged, {unflushed} writes of disks not flushed",
            written.acknowledged,
            flushes.load(Ordering::Relaxed)
        );
        let several = std::iter::repeat_n([Kept::Prefix, Kept::Some], usize::try_from(tries).unwrap());
        for kept in [Kept::Nothing, Kept::All].into_iter().chain(several.flatten()) {
            let lost = disks.cut(&recordings, kept, &mut random);
            println!("- {kept:?}: without {lost} of them");
            let server = Server::serve(&dir);
            // What the last one leaves is what the next cut begins with.
            ledger = written.ledger.clone();
            ledger.verify(&server);
            server.kill_9();
        }
        if cut < WHOLE_CUTS {
            assert_clean(&dir);
        }
    }
}
