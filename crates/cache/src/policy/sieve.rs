//! A hand passes over zones, from old to new and then from the oldest again. It spares those that were hit half as often as
//! they have objects, and takes the first that was not. What is not asked for goes soon; nothing is copied.

use super::{Candidate, Choice};

pub fn choose(zones: &[Candidate], hand: u64) -> Option<Choice> {
    let start = zones.partition_point(|zone| zone.birth <= hand);
    let mut spared = Vec::new();
    for zone in zones[start..].iter().chain(&zones[..start]) {
        if zone.hits * 2 < zone.objects {
            return Some(Choice { spared, ..Choice::of(zone) });
        }
        spared.push(zone.zone);
    }
    // All were hit: the hand has passed over each once, and takes the one that it stands at.
    let first = zones.get(start).or(zones.first())?;
    spared.retain(|zone| *zone != first.zone);
    Some(Choice { spared, ..Choice::of(first) })
}
