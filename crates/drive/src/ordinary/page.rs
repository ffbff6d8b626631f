//! Buffers that a device may read and write directly: whole pages at multiples of their size.
//!
//! A frame begins at a multiple of 64 bytes, and most devices want 512 or 4,096. So what goes past the page cache is copied once,
//! which the page cache would do as well.

use base::frame::Frame;
use base::units::BLOCK_BYTES;
use std::ops::Range;

/// A page.
#[derive(Clone)]
#[repr(C, align(4096))]
pub(super) struct Page(pub(super) [u8; BLOCK_BYTES]);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page({:02x?}..)", &self.0[..4])
    }
}

/// Fills pages with the contents of frames.
pub(super) fn of_frames(frames: &[Frame], pages: &mut Vec<Page>) {
    pages.resize(frames.len(), Page([0; BLOCK_BYTES]));
    for (page, frame) in pages.iter_mut().zip(frames) {
        page.0 = frame.data;
    }
}

/// Copies a range of bytes of the pages to the same place in frames.
///
/// # Panics
/// When the frames are fewer.
pub(super) fn copy_out(pages: &[Page], bytes: Range<usize>, frames: &mut [Frame]) {
    assert!(bytes.end <= frames.len() * BLOCK_BYTES, "{} bytes for {} frames", bytes.end, frames.len());
    let mut at = bytes.start;
    while at < bytes.end {
        let (index, from) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
        let to = BLOCK_BYTES.min(from + bytes.end - at);
        frames[index].data[from..to].copy_from_slice(&pages[index].0[from..to]);
        at += to - from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_bytes_goes_to_its_frames() {
        let pages = vec![Page([1; BLOCK_BYTES]), Page([2; BLOCK_BYTES])];
        let mut frames = vec![Frame::zeroed(), Frame::zeroed()];
        copy_out(&pages, 4000..5000, &mut frames);
        assert_eq!((frames[0].data[3999], frames[0].data[4000], frames[0].data[4095]), (0, 1, 1));
        assert_eq!((frames[1].data[0], frames[1].data[903], frames[1].data[904]), (2, 2, 0));
        copy_out(&pages, 0..0, &mut frames);
        assert_eq!(frames[0].data[0], 0);
    }
}
