//! A drive made up of queues that stand still now and then, whose groups the map must find whatever they are.

use super::*;
use base::random::Random;
use proptest::prelude::*;

const SERVICE_NS: u64 = 10_000;
const STANDSTILL_NS: u64 = 900_000;

/// Zones that write one block after the other; groups stand still in turn at random times.
struct Drive {
    random: Random,
    /// Group of each zone, and the time at which its next write is sent.
    zones: Vec<(usize, u64)>,
    /// Last standstill of each group.
    still: Vec<(u64, u64)>,
    /// Writes of a million that take twenty times as long for no reason, and standstills of a hundred that take all groups along.
    caprice: u64,
    common_percent: u64,
}

impl Drive {
    fn new(seed: u64, groups: Vec<usize>) -> Drive {
        let count = groups.iter().max().unwrap() + 1;
        Drive {
            random: Random::from_seed(seed),
            zones: groups.into_iter().map(|group| (group, 0)).collect(),
            still: vec![(0, 0); count],
            caprice: 0,
            common_percent: 0,
        }
    }

    /// The next standstill of every group begins when the last is over, in a while.
    fn advance_standstills(&mut self, now: u64) {
        for group in 0..self.still.len() {
            if self.still[group].1 < now {
                let from = now + self.random.below(6 * STANDSTILL_NS);
                let still = (from, from + STANDSTILL_NS / 2 + self.random.below(STANDSTILL_NS));
                if self.random.chance(self.common_percent, 100) {
                    self.still.fill(still);
                    return;
                }
                self.still[group] = still;
            }
        }
    }

    fn writes(&mut self, count: u64, quiet: bool, map: &mut ChannelMap) {
        let numbers: Vec<u32> = (0..64).collect();
        self.writes_of(&numbers, count, quiet, map);
    }

    /// Writes of zones with these numbers, each when the zone has been idle for a while; told in the order in which they end.
    fn writes_of(&mut self, numbers: &[u32], count: u64, quiet: bool, map: &mut ChannelMap) {
        let mut in_flight: Vec<ZoneWrite> = Vec::new();
        for _ in 0..count {
            let (zone, &(group, from)) =
                self.zones.iter().enumerate().min_by_key(|(_, (_, at))| *at).unwrap();
            if !quiet {
                self.advance_standstills(from);
            }
            let usual = SERVICE_NS + self.random.below(SERVICE_NS / 2);
            let factor = if self.random.chance(self.caprice, 1_000_000) { 20 } else { 1 };
            let still = self.still[group];
            let waits = if (still.0..still.1).contains(&(from + usual)) { still.1 - from } else { 0 };
            let to = from + usual * factor + waits;
            self.zones[zone].1 = to + self.random.below(3 * SERVICE_NS);
            let zone = ZoneIndex(numbers[zone]);
            let write = ZoneWrite { zone, blocks: 1, depth: 1, from: Instant(from), to: Instant(to) };
            in_flight.push(write);
            in_flight.sort_by_key(|write| write.to);
            // What ends before the next write is sent is told now.
            let next = self.zones.iter().map(|(_, at)| *at).min().unwrap();
            let ended = in_flight.partition_point(|write| write.to.0 <= next);
            in_flight.drain(..ended).for_each(|write| map.note(&write));
        }
    }
}

fn opened(zones: usize) -> ChannelMap {
    let mut map = ChannelMap::new(64);
    (0..zones).for_each(|zone| map.open(ZoneIndex(u32::try_from(zone).unwrap())));
    map
}

/// Pairs of zones that the map joins or parts wrongly.
fn wrong(map: &ChannelMap, groups: &[usize]) -> usize {
    let group = |zone: usize| map.group_of(ZoneIndex(u32::try_from(zone).unwrap())).unwrap();
    let pairs = (0..groups.len()).flat_map(|first| (0..first).map(move |second| (first, second)));
    pairs.filter(|(a, b)| (group(*a) == group(*b)) != (groups[*a] == groups[*b])).count()
}

#[test]
fn the_first_guess_is_by_order_and_sure_of_nothing() {
    let map = opened(5);
    assert_eq!(map.zones().map(|(_, group)| group).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    assert_eq!((map.confidence_per_mille(), map.rule(), map.groups()), (0, None, 2));
    assert_eq!(map.group_of(ZoneIndex(5)), None, "it is not open");
}

#[test]
fn a_drive_of_one_group_is_told() {
    let groups = vec![0; 8];
    let (mut map, mut drive) = (opened(8), Drive::new(1, groups.clone()));
    drive.writes(400_000, false, &mut map);
    assert_eq!((wrong(&map, &groups), map.groups()), (0, 1));
    assert_eq!(map.rule(), Some(Rule { kind: RuleKind::Number, groups: 1 }));
    assert!(map.confidence_per_mille() > 900, "{}", map.confidence_per_mille());
}

#[test]
fn caprices_of_single_writes_say_nothing() {
    let (mut map, mut drive) = (opened(8), Drive::new(2, vec![0, 1, 0, 1, 0, 1, 0, 1]));
    drive.caprice = 1000;
    drive.writes(1_000_000, true, &mut map);
    assert_eq!((map.flips(), map.rule()), (0, None));
    assert!(map.confidence_per_mille() < 50, "{}", map.confidence_per_mille());
    drive.writes(100_000, false, &mut map);
    assert!(map.confidence_per_mille() > 900, "{}", map.confidence_per_mille());
    assert_eq!(map.flips(), 0, "the guess was right");
}

#[test]
fn the_rule_of_a_drive_is_learnt_and_foretells() {
    let mut map = ChannelMap::new(64);
    let numbers: Vec<u32> = vec![9, 3, 4, 12, 13, 5, 7, 0];
    numbers.iter().for_each(|zone| map.open(ZoneIndex(*zone)));
    let groups = numbers.iter().map(|zone| *zone as usize % 3).collect();
    let mut drive = Drive::new(3, groups);
    drive.writes_of(&numbers, 200_000, false, &mut map);
    assert_eq!(map.rule(), Some(Rule { kind: RuleKind::Number, groups: 3 }));
    map.close(ZoneIndex(3));
    map.open(ZoneIndex(21));
    assert_eq!(map.group_of(ZoneIndex(21)), map.group_of(ZoneIndex(9)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the groups, with caprices and standstills of the whole drive, all pairs are right in the end and stay so.
    #[test]
    fn any_groups_are_found_and_kept(
        seed in any::<u64>(),
        groups in proptest::collection::vec(0..4_usize, 6..14),
        caprice in 0..400_u64,
        common_percent in 0..20_u64,
    ) {
        // A group of its own tells nothing of itself.
        let twice: Vec<usize> = groups.iter().copied().chain(groups.iter().copied()).collect();
        let mut map = opened(twice.len());
        let mut drive = Drive::new(seed, twice.clone());
        (drive.caprice, drive.common_percent) = (caprice, common_percent);
        drive.writes(600_000, false, &mut map);
        prop_assert_eq!(wrong(&map, &twice), 0);
        let flips = map.flips();
        drive.writes(400_000, false, &mut map);
        prop_assert_eq!((wrong(&map, &twice), map.flips()), (0, flips));
    }

    /// No order of openings, closings and writes breaks it, and a closed zone has no group.
    #[test]
    fn any_order_of_events_is_taken(steps in proptest::collection::vec((0..40_u32, 0..3_u8, 0..2_000_u64), 0..400)) {
        let mut map = ChannelMap::new(40);
        let mut now = 0;
        for (zone, what, micros) in steps {
            now += micros * 500;
            match what {
                0 => map.open(ZoneIndex(zone)),
                1 => map.close(ZoneIndex(zone)),
                _ => map.note(&ZoneWrite {
                    zone: ZoneIndex(zone),
                    blocks: zone,
                    depth: zone,
                    from: Instant(now),
                    to: Instant(now + micros * 1000),
                }),
            }
            prop_assert!(what != 1 || map.group_of(ZoneIndex(zone)).is_none());
            prop_assert!(map.zones().count() <= ZONES_MAX && map.confidence_per_mille() <= 1000);
        }
    }
}
