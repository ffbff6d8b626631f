//! Fill: whether stripes of large chunks are full when they are closed, for only then are they worth their size.
//!
//! What is under way at once says how large a stripe may become, and not how large it becomes: clients that also read send writes one by
//! one, and a stripe is closed when the drives have nothing else to do. Padding costs space that has to be collected. So where space is
//! short and most of what stripes of large chunks held of late was padding, writes go to small chunks for a while.

/// A stripe counts for so much of the share.
const PART_OF_SHARE: u32 = 8;
/// A full stripe.
const FULL: u32 = 1 << 10;
/// Stripes of small chunks after which large ones are tried again.
const PAUSE: u32 = 128;

/// Fill of the last stripes of large chunks.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    share: u32,
    /// Stripes of small chunks until large ones are tried again.
    pause: u32,
}

impl Default for Fill {
    fn default() -> Fill {
        Fill { share: FULL, pause: 0 }
    }
}

impl Fill {
    /// A stripe of large chunks is closed with so many blocks of so many.
    pub fn note_large(&mut self, blocks: usize, of: usize) {
        assert!(blocks <= of && of > 0, "{blocks} blocks of a stripe of {of}");
        let own = u32::try_from(blocks * FULL as usize / of).expect("a share");
        self.share = self.share - self.share / PART_OF_SHARE + own / PART_OF_SHARE;
        if self.share < FULL / 2 {
            (self.share, self.pause) = (FULL, PAUSE);
        }
    }

    /// A stripe of small chunks is closed.
    pub fn note_small(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// True while large chunks would mostly hold padding.
    #[must_use]
    pub fn is_poor(&self) -> bool {
        self.pause > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_chunks_rest_when_most_of_them_was_padding() {
        let mut fill = Fill::default();
        fill.note_large(1, 36);
        (0..100).for_each(|_| fill.note_large(30, 36));
        assert!(!fill.is_poor(), "one that was nearly empty");
        (0..PART_OF_SHARE).for_each(|_| fill.note_large(5, 36));
        assert!(fill.is_poor());
        (1..PAUSE).for_each(|_| fill.note_small());
        assert!(fill.is_poor());
        fill.note_small();
        fill.note_large(36, 36);
        assert!(!fill.is_poor(), "they are tried again");
    }
}
