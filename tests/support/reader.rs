//! Clients that read beside writers: every answer has to come, and every block has to be wholly one write.

use super::nbd::{Client, Failure};
use super::server::{Server, let_run};
use super::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64, stamp_of};
use super::writer::{Oracle, Writers};
use base::random::Random;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const BLOCKS_OF_REQUEST_MAX: u64 = 16;

/// Counts of a reader's requests.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub requests: u64,
    /// Longest time of an answer.
    pub longest: Duration,
}

/// Readers on their way.
pub struct Readers(JoinHandle<Read>);

impl Readers {
    /// Begins to read what the writers of an oracle write, until the server ends.
    pub fn begin(server: &Server, oracle: &Oracle, random: &mut Random) -> Readers {
        let (client, random, blocks) = (server.client(), Random::from_seed(random.bits()), oracle.blocks());
        Readers(std::thread::spawn(move || read(client, random, blocks)))
    }

    /// Result of the readers, once the server has ended.
    pub fn join(self) -> Read {
        self.0.join().unwrap()
    }
}

/// Clients of a server that read and write until it is killed.
pub struct Load {
    writers: Writers,
    readers: Readers,
    began: Instant,
}

impl Load {
    /// Begins, and lets them work for a moment.
    pub fn begin(server: &Server, oracle: &mut Oracle, random: &mut Random) -> Load {
        let (writers, readers) = (oracle.write(server, random), Readers::begin(server, oracle, random));
        let_run(Duration::from_millis(500));
        Load { writers, readers, began: Instant::now() }
    }

    /// Kills the server, and says how clients fared.
    pub fn kill(self, server: Server, oracle: &mut Oracle, what: &str) {
        server.kill_9();
        let acknowledged = oracle.join(self.writers);
        let read = self.readers.join();
        println!(
            "- {what}: {acknowledged} requests acknowledged, {} read, the longest in {} ms, no error, {:.1} s",
            read.requests,
            read.longest.as_millis(),
            self.began.elapsed().as_secs_f64()
        );
    }
}

fn read(mut client: Client, mut random: Random, volume_blocks: u64) -> Read {
    let mut done = Read { requests: 0, longest: Duration::ZERO };
    loop {
        let blocks = 1 + random.below(BLOCKS_OF_REQUEST_MAX);
        let first = random.below(volume_blocks - blocks + 1);
        let began = Instant::now();
        let length = u32::try_from(blocks * BLOCK_BYTES_U64).unwrap();
        match client.read(first * BLOCK_BYTES_U64, length) {
            Ok(data) => {
                for (lba, block) in (first..).zip(data.chunks(BLOCK_BYTES)) {
                    assert!(stamp_of(lba, block).is_some(), "block {lba} is not wholly one write");
                }
            }
            Err(Failure::Answered(error)) => {
                panic!("a read failed while the server was alive: error {error}")
            }
            Err(Failure::Broken(_)) => return done,
        }
        done.requests += 1;
        done.longest = done.longest.max(began.elapsed());
    }
}
