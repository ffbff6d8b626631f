//! The event log of a run: a hash of everything that happened, and on request every event in words.
//!
//! The hash is what tells that two runs were the same: it covers every step, request, command,
//! completion and reply with its time. It does not depend on the compiler's options.

use base::time::Instant;
use std::fmt::Display;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Most lines that are kept in words.
const LINES_MAX: usize = 2_000_000;

/// A hasher whose result depends on nothing but what it is given (FNV-1a over 64-bit words).
#[derive(Clone, Debug)]
struct Words(u64);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word.unsigned_abs() as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Events that are kept in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// Events of one block.
    Block(u64),
    /// Everything.
    All,
}

/// The event log.
#[derive(Debug)]
pub struct Trace {
    hash: Words,
    keep: Keep,
    lines: Vec<String>,
    now: Instant,
    events: u64,
}

impl Trace {
    /// A log that keeps some events in words.
    #[must_use]
    pub fn new(keep: Keep) -> Trace {
        Trace { hash: Words(0xcbf2_9ce4_8422_2325), keep, lines: Vec::new(), now: Instant(0), events: 0 }
    }

    /// Something happened.
    pub fn note(&mut self, now: Instant, event: &(impl Hash + Display)) {
        now.hash(&mut self.hash);
        event.hash(&mut self.hash);
        self.events += 1;
        self.now = now;
        if self.keep == Keep::All {
            self.say(event.to_string());
        }
    }

    /// Adds a remark that is only for reading.
    pub fn remark(&mut self, remark: impl FnOnce() -> String) {
        if self.keep == Keep::All {
            self.say(remark());
        }
    }

    /// Adds a remark about some blocks.
    pub fn about(&mut self, blocks: Range<u64>, remark: impl FnOnce() -> String) {
        let wanted = match self.keep {
            Keep::Nothing => false,
            Keep::Block(lba) => blocks.contains(&lba),
            Keep::All => true,
        };
        if wanted {
            self.say(remark());
        }
    }

    /// The block whose history is kept, if any: what is dear to find out is found out only then.
    #[must_use]
    pub fn keeps_blocks(&self) -> bool {
        self.keep != Keep::Nothing
    }

    fn say(&mut self, text: String) {
        if self.lines.len() < LINES_MAX {
            let (ms, ns) = (self.now.0 / 1_000_000, self.now.0 % 1_000_000);
            self.lines.push(format!("{ms:>6}.{ns:06} ms  {text}"));
        }
    }

    /// Hash of everything that happened.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// Returns the count of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Takes the lines that were kept.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}
