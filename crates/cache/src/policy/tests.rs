//! Each policy by itself: who goes, and who is spared.

use super::*;

fn zone(number: u32, stream: Stream, hits: u64) -> Candidate {
    let birth = u64::from(number) * 10;
    Candidate { zone: ZoneIndex(number), birth, stream, objects: 100, hits, last_hit: 0 }
}

fn young(numbers: std::ops::Range<u32>) -> Vec<Candidate> {
    numbers.map(|number| zone(number, Stream::Young, 0)).collect()
}

fn chosen(policy: Eviction, zones: &[Candidate], hand: u64) -> Option<u32> {
    policy.choose(zones, hand).map(|choice| choice.victim.0)
}

#[test]
fn no_zone_is_chosen_of_none() {
    for (_, policy) in NAMES {
        assert_eq!(policy.choose(&[], 7), None);
    }
}

#[test]
fn fifo_takes_the_oldest() {
    assert_eq!(chosen(Eviction::Fifo, &young(1..5), 0), Some(1));
}

#[test]
fn lru_takes_what_was_hit_longest_ago() {
    let mut zones = young(1..5);
    zones[0].last_hit = 100;
    zones[1].last_hit = 90;
    assert_eq!(chosen(Eviction::Lru, &zones, 0), Some(3), "a birth is worth a hit");
    zones[2].last_hit = 95;
    zones[3].last_hit = 99;
    assert_eq!(chosen(Eviction::Lru, &zones, 0), Some(2));
}

#[test]
fn sieve_spares_what_was_hit_and_goes_on_where_it_was() {
    let mut zones = young(1..5);
    zones[1].hits = 50;
    let choice = Eviction::Sieve.choose(&zones, 10).expect("there are zones");
    assert_eq!(choice, Choice { victim: ZoneIndex(3), spared: vec![ZoneIndex(2)] });
    assert_eq!(chosen(Eviction::Sieve, &zones, 30), Some(4));
    assert_eq!(chosen(Eviction::Sieve, &zones, 40), Some(1), "behind the newest comes the oldest");
    zones.iter_mut().for_each(|zone| zone.hits = 50);
    let choice = Eviction::Sieve.choose(&zones, 10).expect("there are zones");
    assert_eq!(choice.victim, ZoneIndex(2), "when all were hit, the next");
    assert_eq!(choice.spared, [3, 4, 1].map(ZoneIndex));
}

#[test]
fn s3fifo_keeps_young_zones_to_a_tenth() {
    let mut zones: Vec<Candidate> = (1..19).map(|number| zone(number, Stream::Main, 0)).collect();
    zones.push(zone(20, Stream::Young, 0));
    assert_eq!(chosen(Eviction::S3Fifo, &zones, 0), Some(1), "one of nineteen");
    zones.push(zone(21, Stream::Young, 0));
    assert_eq!(chosen(Eviction::S3Fifo, &zones, 0), Some(1), "two of twenty");
    zones.push(zone(22, Stream::Young, 0));
    assert_eq!(chosen(Eviction::S3Fifo, &zones, 0), Some(20));
    assert_eq!(chosen(Eviction::S3Fifo, &young(3..5), 0), Some(3), "there is no main zone yet");
}

#[test]
fn names_are_read_as_they_are_told() {
    for (name, policy) in NAMES {
        assert_eq!((policy.to_string().as_str(), name.parse()), (name, Ok(policy)));
    }
    assert!("LRU".parse::<Eviction>().is_err());
}

#[test]
fn streams_keep_their_numbers_on_the_media() {
    let numbers =
        Stream::COMMON.map(|stream| (stream.code(), Stream::from_code(stream.code()), stream.place()));
    let [young, main, minutes, hours, days] = Stream::COMMON.map(Some);
    assert_eq!(numbers, [(1, young, 0), (2, main, 1), (3, minutes, 2), (4, hours, 3), (5, days, 4)]);
    let share = |number| Some(Stream::Share(Namespace(number)));
    assert_eq!([16, 31].map(Stream::from_code), [share(0), share(15)]);
    assert_eq!([0, 6, 15, 32].map(Stream::from_code), [None; 4]);
    assert_eq!([0, 15].map(|number| Stream::Share(Namespace(number)).place()), [5, Stream::PLACES - 1]);
}

#[test]
fn what_has_no_group_goes_with_what_lives_longer() {
    let options = crate::Options::default();
    let (minute, hour, day) = (60_000, 3_600_000, 86_400_000);
    let streams = |groups| {
        [0, minute, 5 * minute, 5 * minute + 1, 2 * hour, 2 * hour + 1, 2 * day, 2 * day + 1]
            .map(|lives| options.stream_of(lives, groups))
    };
    use Stream::{Days, Hours, Minutes, Young};
    assert_eq!(streams(3), [Minutes, Minutes, Minutes, Hours, Hours, Days, Days, Young]);
    assert_eq!(streams(2), [Minutes, Minutes, Minutes, Hours, Hours, Young, Young, Young]);
    assert_eq!(streams(1), [Hours, Hours, Hours, Hours, Hours, Young, Young, Young]);
    assert_eq!(streams(0), [Young; 8]);
    let none = crate::Options { ttl_groups: [0; 3], ..options };
    assert_eq!([0, minute].map(|lives| none.stream_of(lives, 3)), [Young; 2]);
    let mut stream = Minutes;
    while let Some(longer) = stream.next_longer() {
        assert!(Stream::from_code(longer.code()) == Some(longer) && longer != stream);
        stream = longer;
    }
    assert_eq!(stream, Young, "all come to it in the end");
}

#[test]
fn to_s3fifo_groups_are_young() {
    let mut zones: Vec<Candidate> = (1..19).map(|number| zone(number, Stream::Main, 0)).collect();
    zones.extend([zone(20, Stream::Minutes, 0), zone(21, Stream::Days, 0)]);
    assert_eq!(chosen(Eviction::S3Fifo, &zones, 0), Some(1), "two of twenty");
    zones.push(zone(22, Stream::Young, 0));
    assert_eq!(chosen(Eviction::S3Fifo, &zones, 0), Some(20));
    assert_eq!(chosen(Eviction::S3Fifo, &[zone(3, Stream::Hours, 0)], 0), Some(3));
}
