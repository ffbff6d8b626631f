//! The oldest zone goes. Nothing is read or written for it, and nothing is known of what was asked for.

use super::{Candidate, Choice};

pub fn choose(zones: &[Candidate]) -> Option<Choice> {
    zones.first().map(Choice::of)
}
