//! Frames: the buffers that data travels in.
//!
//! A frame holds one 4-KiB block and its 64 bytes of out-of-band metadata. Frames are owned
//! handles: they leave with a command and come home with its completion, so nobody can touch data
//! that a drive is reading, and a frame that is not in the pool is somewhere we can name.
//!
//! ```text
//! client -> frame -> stripe slot -> command -> drive -> completion -> stripe slot -> pool
//! ```

use crate::units::{BLOCK_BYTES, OOB_BYTES};
use std::fmt;

/// The contents of a frame.
#[repr(C, align(64))]
pub struct FrameBody {
    /// The block's data.
    pub data: [u8; BLOCK_BYTES],
    /// The block's out-of-band metadata.
    pub oob: [u8; OOB_BYTES],
}

impl FrameBody {
    /// Copies the data of another block, once: `data = other.data` may copy it to the stack before.
    #[inline]
    pub fn set_data(&mut self, data: &[u8; BLOCK_BYTES]) {
        self.data.copy_from_slice(data);
    }
}

/// An owned buffer for one block and its out-of-band metadata.
pub struct Frame(Box<FrameBody>);

impl Frame {
    /// A frame of zeros, freshly allocated. Hot paths take frames from a [`FramePool`] instead.
    #[must_use]
    pub fn zeroed() -> Frame {
        Frame(Box::new(FrameBody { data: [0; BLOCK_BYTES], oob: [0; OOB_BYTES] }))
    }

    /// True for zeros, metadata included: nothing was ever written here.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.oob == [0; OOB_BYTES] && self.data == [0; BLOCK_BYTES]
    }
}

impl std::ops::Deref for Frame {
    type Target = FrameBody;

    fn deref(&self) -> &FrameBody {
        &self.0
    }
}

impl std::ops::DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut FrameBody {
        &mut self.0
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({:02x?}..)", &self.0.data[..4])
    }
}

/// A stock of frames with a limit.
///
/// Frames come back dirty: whoever takes one writes all of it. The pool allocates on demand up to
/// its limit and never gives memory back; a full pool makes the caller wait, which is how memory
/// pressure becomes back-pressure.
#[derive(Debug)]
pub struct FramePool {
    free: Vec<Frame>,
    /// Empty vectors that keep their capacity, so that a command's frames need no allocation.
    empty: Vec<Vec<Frame>>,
    frames_out: usize,
    frames_max: usize,
}

impl FramePool {
    /// A pool that hands out at most `frames_max` frames at a time.
    #[must_use]
    pub fn new(frames_max: usize) -> FramePool {
        FramePool { free: Vec::new(), empty: Vec::new(), frames_out: 0, frames_max }
    }

    /// Lets so many frames more be out at a time.
    pub fn widen(&mut self, frames: usize) {
        self.frames_max += frames;
    }

    /// Frames that can be taken now.
    #[inline]
    #[must_use]
    pub fn available(&self) -> usize {
        self.frames_max - self.frames_out
    }

    /// Frames that are out.
    #[must_use]
    pub fn frames_out(&self) -> usize {
        self.frames_out
    }

    /// Frames in the pool and out of it.
    #[must_use]
    pub fn frames_made(&self) -> usize {
        self.free.len() + self.frames_out
    }

    /// Takes a frame with unspecified contents.
    ///
    /// # Panics
    /// When the limit is reached: callers ask [`FramePool::available`] first.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> Frame {
        assert!(self.frames_out < self.frames_max, "frame pool exhausted: {} frames out", self.frames_out);
        self.frames_out += 1;
        self.free.pop().unwrap_or_else(Frame::zeroed)
    }

    /// Takes `count` frames into `into`.
    #[inline]
    pub fn take_many(&mut self, count: usize, into: &mut Vec<Frame>) {
        self.adopt(count);
        for _ in 0..count {
            into.push(self.free.pop().unwrap_or_else(Frame::zeroed));
        }
    }

    /// A vector without frames.
    #[inline]
    #[must_use]
    pub fn take_empty(&mut self) -> Vec<Frame> {
        self.empty.pop().unwrap_or_default()
    }

    /// A vector of `count` frames.
    #[inline]
    #[must_use]
    pub fn take_vec(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = self.take_empty();
        self.take_many(count, &mut frames);
        frames
    }

    /// A vector of frames comes home.
    #[inline]
    pub fn give_vec(&mut self, mut frames: Vec<Frame>) {
        self.give_many(&mut frames);
        self.empty.push(frames);
    }

    /// An empty vector comes home.
    ///
    /// # Panics
    /// When frames are in it.
    #[inline]
    pub fn give_empty(&mut self, frames: Vec<Frame>) {
        assert!(frames.is_empty(), "{} frames that nobody counts", frames.len());
        self.empty.push(frames);
    }

    /// A frame comes home.
    ///
    /// # Panics
    /// When more frames come home than left.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        assert!(self.frames_out > 0, "a frame came home that never left");
        self.frames_out -= 1;
        self.free.push(frame);
    }

    /// `count` frames of another pool are out of this one from now on.
    ///
    /// # Panics
    /// When the limit does not allow it.
    #[inline]
    pub fn adopt(&mut self, count: usize) {
        assert!(count <= self.available(), "{count} frames adopted, {} allowed", self.available());
        self.frames_out += count;
    }

    /// `count` frames that are out of this pool are out of another from now on.
    ///
    /// # Panics
    /// When fewer are out.
    #[inline]
    pub fn disown(&mut self, count: usize) {
        assert!(count <= self.frames_out, "{count} frames disowned, {} are out", self.frames_out);
        self.frames_out -= count;
    }

    /// So many frames come home.
    ///
    /// # Panics
    /// When more frames come home than left, or others than so many.
    #[inline]
    pub fn give_all(&mut self, count: usize, frames: impl Iterator<Item = Frame>) {
        self.disown(count);
        let before = self.free.len();
        self.free.extend(frames);
        assert!(self.free.len() - before == count, "{count} frames came home, others were given");
    }

    /// All frames of `frames` come home; the vector keeps its capacity.
    ///
    /// # Panics
    /// When more frames come home than left.
    #[inline]
    pub fn give_many(&mut self, frames: &mut Vec<Frame>) {
        if frames.is_empty() {
            return;
        }
        self.disown(frames.len());
        self.free.append(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_counts_what_is_out() {
        let mut pool = FramePool::new(2);
        let a = pool.take();
        let mut more = Vec::new();
        pool.take_many(1, &mut more);
        assert_eq!(pool.available(), 0);
        pool.give(a);
        pool.give_many(&mut more);
        assert_eq!(pool.available(), 2);
        assert!(more.is_empty());
    }

    #[test]
    fn frames_change_pools() {
        let (mut here, mut there) = (FramePool::new(1), FramePool::new(1));
        let frame = here.take();
        there.adopt(1);
        here.disown(1);
        there.give(frame);
        assert_eq!((here.available(), there.available()), (1, 1));
    }

    #[test]
    #[should_panic(expected = "frame pool exhausted")]
    fn the_limit_is_a_limit() {
        let mut pool = FramePool::new(1);
        let _first = pool.take();
        let _second = pool.take();
    }
}
