//! Parts of values: what is answered is that part, and of a large object no more is read than the pages that hold it.

mod support;

use base::random::Random;
use base::time::{Instant, Nanos};
use cache::CacheVolume;
use cache::format::page::ROOM_BYTES;
use cache::request::{Cache, Namespace, Object, Op, Outcome, Part, Request, RequestId, WallMillis};
use support::{new_cache, object, roomy};

const WALL: WallMillis = WallMillis(1);

struct Client {
    volume: CacheVolume,
    now: Instant,
    asked: u64,
}

impl Client {
    fn ask(&mut self, op: Op) -> Outcome {
        self.asked += 1;
        let request = Request { id: RequestId(self.asked), namespace: Namespace(0), op };
        self.volume.submit(self.now, WALL, request);
        loop {
            if let Some(outcome) = self.turn() {
                return outcome;
            }
        }
    }

    fn turn(&mut self) -> Option<Outcome> {
        self.now = self.now + Nanos::from_micros(500);
        let mut replies = Vec::new();
        self.volume.turn(self.now, WALL, &mut replies);
        replies.pop().map(|reply| reply.outcome)
    }

    /// Stores a value under its length, and lets it leave for flash.
    fn store(&mut self, value: &[u8]) {
        let object = Object { value: value.into(), flags: 7, ..object() };
        assert_eq!(self.ask(Op::Set { key: key_of(value), object }), Outcome::Stored);
        (0..100).for_each(|_| assert!(self.turn().is_none()));
    }

    /// A part of a value, and the pages that were read for it.
    fn part(&mut self, value: &[u8], part: Part) -> (Vec<u8>, u64) {
        let before = self.volume.shard().counters().pages_read;
        let Outcome::Found(Some(found)) = self.ask(Op::GetPart { key: key_of(value), part }) else {
            panic!("{part:?} of {} bytes is not there", value.len())
        };
        assert_eq!((found.flags, found.expires), (7, None));
        (found.value.to_vec(), self.volume.shard().counters().pages_read - before)
    }
}

fn key_of(value: &[u8]) -> Vec<u8> {
    value.len().to_string().into_bytes()
}

/// What Redis answers, said byte by byte.
fn expected(value: &[u8], Part { first, last }: Part) -> Vec<u8> {
    let count = i64::try_from(value.len()).expect("small");
    if first < 0 && last < 0 && first > last {
        return Vec::new();
    }
    let place = |index: i64| if index < 0 { (index + count).max(0) } else { index };
    let is_within =
        |index: &usize| (place(first)..=place(last)).contains(&i64::try_from(*index).expect("small"));
    (0..value.len()).filter(is_within).map(|index| value[index]).collect()
}

#[test]
fn a_part_is_answered_and_no_more_pages_are_read_than_hold_it() {
    let mut client = Client { volume: new_cache(24, WALL, roomy()), now: Instant(0), asked: 0 };
    let mut random = Random::from_seed(1);
    let values = [1, 100, 600, 4_000, 4_092, 9_000, 50_000].map(|bytes| {
        let mut value = vec![0; bytes];
        random.fill(&mut value);
        value
    });
    values.iter().for_each(|value| client.store(value));
    for value in &values {
        let count = i64::try_from(value.len()).expect("small");
        let mut draw =
            || i64::try_from(random.index(value.len() * 5 / 2 + 4)).expect("small") - count * 5 / 4 - 2;
        let edges =
            [(0, -1), (0, 0), (-1, -1), (count, count), (-1, 0), (0, i64::MAX), (i64::MIN, -1), (5, 4)];
        let parts: Vec<(i64, i64)> = edges.into_iter().chain((0..200).map(|_| (draw(), draw()))).collect();
        for (first, last) in parts {
            let part = Part { first, last };
            let wanted = expected(value, part);
            let (found, pages) = client.part(value, part);
            assert!(found == wanted, "{part:?} of {count} bytes");
            // The page with the head, and those that the part can touch at most.
            let most = 1 + if wanted.is_empty() { 0 } else { 1 + wanted.len().div_ceil(ROOM_BYTES) };
            assert!(
                usize::try_from(pages).expect("few") <= most,
                "{part:?} of {count} bytes: {pages} pages for {}",
                wanted.len()
            );
        }
    }
}
