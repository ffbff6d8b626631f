//! Two queues of zones. What clients store goes to young zones, which are a tenth; what was hit of a young victim goes on to a
//! main zone. Of a main victim, what was hit stays for another round, less hot than it was. So what is asked for once takes room
//! for a tenth of the time that others have.

use super::{Candidate, Choice, Stream};

/// Young zones are one of so many.
const YOUNG_SHARE: usize = 10;

pub fn choose(zones: &[Candidate]) -> Option<Choice> {
    let of = |stream| zones.iter().filter(move |zone| zone.stream == stream);
    let is_long = of(Stream::Young).count() * YOUNG_SHARE > zones.len();
    let (first, second) = match is_long {
        true => (Stream::Young, Stream::Main),
        false => (Stream::Main, Stream::Young),
    };
    of(first).next().or_else(|| of(second).next()).map(Choice::of)
}
