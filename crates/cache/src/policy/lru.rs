//! The zone goes that was hit longest ago, as Navy does with regions. One hot object keeps all of its zone.

use super::{Candidate, Choice};

pub fn choose(zones: &[Candidate]) -> Option<Choice> {
    // A zone that was never hit was of use when it was born.
    zones.iter().min_by_key(|zone| zone.last_hit.max(zone.birth)).map(Choice::of)
}
