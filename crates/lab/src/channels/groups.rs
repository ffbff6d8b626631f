//! Groups of zones from what pairs of them say: those are joined that share most, until none do.

use super::Pair;
use crate::precise::precise;

/// Groups of the zones `0..zones`, each in order, in order of their first zones.
///
/// The two groups whose pairs have the lowest mean share are joined, as long as it is below the border. Means over all
/// pairs between two groups forgive a pair that was measured wrong, which chains of single pairs would not.
pub(super) fn join(zones: u32, pairs: &[Pair], border: f64) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = (0..zones).map(|zone| vec![zone]).collect();
    loop {
        let candidates = (0..groups.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
        let closest = candidates
            .map(|(first, second)| (mean_between(&groups[first], &groups[second], pairs), first, second))
            .min_by(|left, right| left.0.total_cmp(&right.0));
        let Some((_, first, second)) = closest.filter(|(mean, ..)| *mean < border) else { break };
        let joined = groups.remove(second);
        groups[first].extend(joined);
    }
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.sort_unstable();
    groups
}

fn mean_between(first: &[u32], second: &[u32], pairs: &[Pair]) -> f64 {
    let is_between = |[left, right]: [u32; 2]| {
        (first.contains(&left) && second.contains(&right))
            || (first.contains(&right) && second.contains(&left))
    };
    let shares: Vec<f64> =
        pairs.iter().filter(|pair| is_between(pair.zones)).map(|pair| pair.share).collect();
    assert!(!shares.is_empty(), "all pairs were measured");
    shares.iter().sum::<f64>() / precise(shares.len())
}

/// True when both zones are in one group.
pub(super) fn are_together(groups: &[Vec<u32>], zones: [u32; 2]) -> bool {
    groups.iter().any(|group| zones.iter().all(|zone| group.contains(zone)))
}

/// Margin of a pair on the side of the border that the map wants, of the way to a half or a whole; negative on the
/// other side, and at most 1.
pub(super) fn margin(groups: &[Vec<u32>], pair: &Pair, border: f64) -> f64 {
    let distance = (pair.share - border) / (1.0 - border);
    let wanted = if are_together(groups, pair.zones) { -distance } else { distance };
    wanted.min(1.0)
}

/// Mean margin of the pairs of the zone where it is least, and not below 0.
pub(super) fn confidence(groups: &[Vec<u32>], pairs: &[Pair], border: f64) -> f64 {
    let zones = groups.iter().flatten();
    let of_zone = |zone: u32| {
        let own = pairs.iter().filter(|pair| pair.zones.contains(&zone));
        let margins: Vec<f64> = own.map(|pair| margin(groups, pair, border)).collect();
        margins.iter().sum::<f64>() / precise(margins.len())
    };
    zones.map(|zone| of_zone(*zone)).min_by(f64::total_cmp).unwrap_or(0.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(share: impl Fn(u32, u32) -> f64) -> Vec<Pair> {
        let zones = (0..6).flat_map(|second| (0..second).map(move |first| [first, second]));
        zones.map(|zones| Pair { zones, share: share(zones[0], zones[1]) }).collect()
    }

    /// Map of six zones on two groups with one pair measured wrong: it is right, and less sure.
    #[test]
    fn a_wrong_pair_is_outvoted() {
        let by_parity = |first: u32, second: u32| if first % 2 == second % 2 { 0.5 } else { 1.0 };
        let right = pairs(by_parity);
        let groups = join(6, &right, 0.75);
        assert_eq!(groups, [[0, 2, 4], [1, 3, 5]]);
        assert!((confidence(&groups, &right, 0.75) - 1.0).abs() < 1e-9);
        let wrong =
            pairs(|first, second| if (first, second) == (2, 3) { 0.5 } else { by_parity(first, second) });
        assert_eq!(join(6, &wrong, 0.75), groups);
        assert!((confidence(&groups, &wrong, 0.75) - 0.6).abs() < 1e-9);
        assert_eq!(wrong.iter().filter(|pair| margin(&groups, pair, 0.75) > 0.0).count(), 14);
    }

    #[test]
    fn zones_that_share_nothing_stay_alone() {
        assert_eq!(join(6, &pairs(|_, _| 0.98), 0.75).len(), 6);
        assert_eq!(join(6, &pairs(|_, _| 0.52), 0.75).len(), 1);
    }
}
