//! Contents of blocks: each has a stamp, from which all of its data and metadata follow.

use base::frame::Frame;
use base::random::mix;

/// Fills data and metadata.
pub fn fill(frame: &mut Frame, stamp: u64) {
    let mut state = stamp;
    for word in frame.data.chunks_exact_mut(8) {
        word.copy_from_slice(&next(&mut state).to_le_bytes());
    }
    for word in frame.oob.chunks_exact_mut(8) {
        word.copy_from_slice(&next(&mut state).to_le_bytes());
    }
}

/// Checks that a frame holds the contents of a stamp.
///
/// # Errors
/// With the part that holds something else.
pub fn is_of(frame: &Frame, stamp: u64) -> Result<(), &'static str> {
    let mut wanted = Frame::zeroed();
    fill(&mut wanted, stamp);
    match (frame.data == wanted.data, frame.oob == wanted.oob) {
        (true, true) => Ok(()),
        (true, false) => Err("its metadata are not those that were written"),
        (false, true) => Err("its data are not those that were written"),
        (false, false) => Err("data and metadata are not those that were written"),
    }
}

/// The generator `SplitMix64`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}
