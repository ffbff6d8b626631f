//! A segment: the zones of one number on all drives, written stripe by stripe, and the window that slides over them.
//!
//! ```text
//!             gone          base       window        base + W
//!   drive 0  |-------------|D D D D D D D D . . . . .|
//!   drive 1  |-------------|D D D D D D D D . . . . .|      the parity moves on by a drive every 16 stripes
//!   drive 2  |-------------|P P P P P P P . . . . . .|      next: the stripe that is begun next
//! ```
//! What is in the window is in memory, too: data and parity are updated there, noted as dirty, and sent. A block leaves the window when all
//! that was written to it is on its drive.

use base::frame::Frame;
use base::units::ZoneIndex;

/// Stripes after which the parity moves on to the next drive, and clients to the next zone of their group: commands of so many blocks.
pub const RUN: u32 = 16;
/// Owner of a block that holds nothing of a client.
pub const NOBODY: u32 = u32::MAX;

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Empty zones.
    Free,
    /// Zones being opened, by so many drives yet.
    Opening(u32),
    /// Stripes are written.
    Open,
    /// All stripes were begun; its windows are used until so many stripes of its group have been begun.
    Ended(u64),
    /// Windows being committed, by so many drives yet.
    Committing(u32),
    /// Nothing can be written to it.
    Full,
    /// Victim: its blocks are being moved.
    Victim,
    /// Zones being emptied, by so many drives yet.
    Resetting(u32),
}

/// A block of the window, as it should be on its drive.
#[derive(Debug)]
pub struct Slot {
    /// Contents.
    pub frame: Frame,
    /// Versions that were made; that is in `frame`.
    pub wanted: u32,
    /// The version that is on its way to the drive, or 0.
    pub sent: u32,
    /// The version that is there, or 0.
    pub done: u32,
    /// Writes that wait for a version.
    pub waiters: Vec<(u32, u32)>,
}

impl Slot {
    fn new() -> Slot {
        Slot { frame: Frame::zeroed(), wanted: 0, sent: 0, done: 0, waiters: Vec::new() }
    }

    /// True when it is on its drive as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.wanted == self.done
    }
}

/// The zones of one number.
#[derive(Debug)]
pub struct Segment {
    /// State.
    pub state: State,
    /// Group that writes to it.
    pub group: usize,
    /// Stripe that is begun next.
    pub next: u32,
    /// First stripe of the window.
    pub base: u32,
    /// Write pointer of each drive's zone after what it was given.
    pub write_pointers: Vec<u32>,
    /// Block of the volume in each place, stripe by stripe, or [`NOBODY`].
    pub owners: Vec<u32>,
    /// Blocks of the volume in it.
    pub live: u64,
    /// Reads of it under way.
    pub readers: u32,
    /// The window, stripe by stripe modulo its size; empty where there is none.
    slots: Vec<Slot>,
    members: usize,
    window_blocks: u32,
}

impl Segment {
    /// A segment over so many drives with windows of so many blocks.
    #[must_use]
    pub fn new(members: usize, window_blocks: u32) -> Segment {
        Segment {
            state: State::Free,
            group: 0,
            next: 0,
            base: 0,
            write_pointers: vec![0; members],
            owners: Vec::new(),
            live: 0,
            readers: 0,
            slots: Vec::new(),
            members,
            window_blocks,
        }
    }

    /// Begins anew, with a window of `old`, which gives its memory.
    pub fn open(&mut self, group: usize, old: Option<Vec<Slot>>) {
        assert!(self.state == State::Free);
        let count = self.members * self.window_blocks as usize;
        self.slots = old.unwrap_or_else(|| (0..count).map(|_| Slot::new()).collect());
        (self.group, self.next, self.base, self.live) = (group, 0, 0, 0);
        self.write_pointers.fill(0);
        self.owners.clear();
        self.state = State::Opening(0);
    }

    /// The window goes; its memory is used again.
    ///
    /// # Panics
    /// When something of it is not on its drive.
    pub fn take_window(&mut self) -> Vec<Slot> {
        assert!(self.slots.iter().all(Slot::is_clean), "what leaves the window is on its drive");
        std::mem::take(&mut self.slots)
    }

    /// True when a stripe is in the window.
    #[must_use]
    pub fn is_in_window(&self, stripe: u32) -> bool {
        !self.slots.is_empty() && stripe >= self.base
    }

    /// A block of the window.
    pub fn slot(&mut self, drive: usize, stripe: u32) -> &mut Slot {
        let place = self.place_in_window(drive, stripe);
        &mut self.slots[place]
    }

    /// A block of the window, to be looked at.
    #[must_use]
    pub fn look(&self, drive: usize, stripe: u32) -> &Slot {
        &self.slots[self.place_in_window(drive, stripe)]
    }

    fn place_in_window(&self, drive: usize, stripe: u32) -> usize {
        assert!(stripe >= self.base && stripe < self.next, "stripe {stripe} is not in the window");
        (stripe % self.window_blocks) as usize * self.members + drive
    }

    /// True when all blocks of stripes are on their drives.
    #[must_use]
    pub fn are_clean(&self, stripes: std::ops::Range<u32>) -> bool {
        stripes.into_iter().all(|stripe| (0..self.members).all(|drive| self.look(drive, stripe).is_clean()))
    }

    /// Begins a stripe, whose blocks hold nothing yet. The window begins at `base` from now on.
    pub fn begin_stripe(&mut self, base: u32) -> u32 {
        assert!(self.state == State::Open && base >= self.base);
        assert!(self.next < base + self.window_blocks);
        self.base = base;
        let stripe = self.next;
        self.next += 1;
        for drive in 0..self.members {
            let slot = self.slot(drive, stripe);
            assert!(slot.is_clean() && slot.waiters.is_empty());
            slot.frame.data.fill(0);
            (slot.wanted, slot.sent, slot.done) = (0, 0, 0);
            self.owners.push(NOBODY);
        }
        stripe
    }

    /// Owner of a block.
    pub fn owner(&mut self, drive: usize, stripe: u32) -> &mut u32 {
        &mut self.owners[stripe as usize * self.members + drive]
    }

    /// Drive of a stripe's parity.
    #[must_use]
    pub fn parity_drive(&self, stripe: u32) -> usize {
        (stripe / RUN) as usize % self.members
    }

    /// Drive of a stripe's data: the first, second and so on.
    #[must_use]
    pub fn data_drive(&self, stripe: u32, data: usize) -> usize {
        (self.parity_drive(stripe) + 1 + data) % self.members
    }

    /// The zones' number, by that of the segment.
    #[must_use]
    pub fn zone(segment: usize) -> ZoneIndex {
        ZoneIndex(u32::try_from(segment).expect("a u32 of zones"))
    }
}
