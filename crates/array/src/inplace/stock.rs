//! Frames of the engine: those that clients have, those of strips in work, and those that the cache keeps.
//!
//! One pool, three limits; the cache keeps to its own. A round reserves what it may need at most before it begins, so that no round waits for frames which
//! another one holds that waits as well.

use base::frame::{Frame, FramePool};

/// Frames by owner.
#[derive(Debug)]
pub struct Stock {
    pool: FramePool,
    clients_max: usize,
    own_max: usize,
    own_out: usize,
    reserved: usize,
    /// Frames that the cache keeps.
    kept: usize,
}

impl Stock {
    /// A stock with a limit for clients, and one for strips in work.
    #[must_use]
    pub fn new(clients_max: usize, own_max: usize) -> Stock {
        let pool = FramePool::new(clients_max + own_max);
        Stock { pool, clients_max, own_max, own_out: 0, reserved: 0, kept: 0 }
    }

    /// The same with room for so many frames of the cache.
    #[must_use]
    pub fn with_kept(self, kept_max: usize) -> Stock {
        assert!(self.pool.frames_made() == 0, "a stock that nobody has used");
        Stock { pool: FramePool::new(self.clients_max + self.own_max + kept_max), ..self }
    }

    /// Has room for the frames of clients of other engines, too.
    pub fn admit_others(&mut self, frames: usize) {
        self.clients_max += frames;
        self.pool.widen(frames);
    }

    /// Pool of all frames.
    pub fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// Frames that clients may take now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.clients_max.saturating_sub(self.pool.frames_out() - self.own_out - self.kept)
    }

    /// Reserves frames for a round; false when there are not as many left.
    ///
    /// # Panics
    /// When there never are.
    pub fn reserve(&mut self, count: usize) -> bool {
        assert!(count <= self.own_max, "{count} frames of {}", self.own_max);
        let fits = self.reserved + count <= self.own_max;
        if fits {
            self.reserved += count;
        }
        fits
    }

    /// A round is over.
    ///
    /// # Panics
    /// When more is given back than was reserved, or frames are still out.
    pub fn unreserve(&mut self, count: usize) {
        assert!(count <= self.reserved);
        self.reserved -= count;
        assert!(self.own_out <= self.reserved, "{} frames out, {} reserved", self.own_out, self.reserved);
    }

    /// A client's frame becomes one of a round.
    #[inline]
    pub fn adopt(&mut self) {
        self.own_out += 1;
        assert!(self.own_out <= self.reserved, "more frames than were reserved");
    }

    /// Frames of a round are the cache's.
    pub fn keep(&mut self, count: usize) {
        assert!(self.own_out >= count);
        self.own_out -= count;
        self.kept += count;
    }

    /// Frames of the cache are a round's.
    pub fn take_kept(&mut self, count: usize) {
        assert!(self.kept >= count);
        self.kept -= count;
        self.own_out += count;
        assert!(self.own_out <= self.reserved, "more frames than were reserved");
    }

    /// So many frames of the cache come home.
    #[inline]
    pub fn give_kept(&mut self, count: usize, frames: impl Iterator<Item = Frame>) {
        assert!(self.kept >= count);
        self.kept -= count;
        self.pool.give_all(count, frames);
    }

    /// A frame for a round, with unspecified contents.
    #[must_use]
    pub fn take(&mut self) -> Frame {
        self.adopt();
        self.pool.take()
    }

    /// A frame for a round, full of zeros.
    #[must_use]
    pub fn take_zeros(&mut self) -> Frame {
        let mut frame = self.take();
        frame.data.fill(0);
        frame
    }

    /// A frame of a round comes home.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        assert!(self.own_out > 0);
        self.own_out -= 1;
        self.pool.give(frame);
    }

    /// Frames for a round, with unspecified contents.
    #[must_use]
    pub fn take_vec(&mut self, count: usize) -> Vec<Frame> {
        self.own_out += count;
        assert!(self.own_out <= self.reserved, "more frames than were reserved");
        self.pool.take_vec(count)
    }

    /// An empty vector for frames.
    #[inline]
    #[must_use]
    pub fn empty_vec(&mut self) -> Vec<Frame> {
        self.pool.take_empty()
    }

    /// Frames of a round come home.
    #[inline]
    pub fn give_vec(&mut self, frames: Vec<Frame>) {
        assert!(self.own_out >= frames.len());
        self.own_out -= frames.len();
        self.pool.give_vec(frames);
    }

    /// Frames of a round are with another engine, as frames of clients are: out until as many come back.
    ///
    /// # Panics
    /// When fewer are out.
    pub fn part_with(&mut self, count: usize) {
        assert!(self.own_out >= count);
        self.own_out -= count;
    }

    /// Frames of strips in work.
    #[must_use]
    pub fn own_out(&self) -> usize {
        self.own_out
    }
}
