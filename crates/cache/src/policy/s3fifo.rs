//! Two queues of zones. What clients store goes to young zones, which are a tenth; what was hit of a young victim goes on to a
//! main zone. Of a main victim, what was hit stays for another round, less hot than it was. So what is asked for once takes room
//! for a tenth of the time that others have.

use super::{Candidate, Choice, Stream};

/// Young zones are one of so many.
const YOUNG_SHARE: usize = 10;

pub fn choose(zones: &[Candidate]) -> Option<Choice> {
    let of = |is_main| zones.iter().filter(move |zone| (zone.stream == Stream::Main) == is_main);
    let is_long = of(false).count() * YOUNG_SHARE > zones.len();
    of(!is_long).next().or_else(|| of(is_long).next()).map(Choice::of)
}
