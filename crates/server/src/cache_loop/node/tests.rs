//! Tests of nodes without threads: all loops in one hand.

use super::*;
use cache::request::{Chosen, Object, Op, Outcome, RequestId, Walk};
use memory_cache::MemoryCache;
use std::collections::BTreeSet;

#[path = "../../../tests/support/memory_cache.rs"]
#[allow(clippy::duplicate_mod, reason = "a cache of each side has facts of its own")]
#[allow(dead_code, missing_docs)]
mod memory_cache;

const NOW: Instant = Instant(0);
const WALL: WallMillis = WallMillis(1_700_000_000_000);

/// Nobody, who sees no shards.
struct Nobody;

impl Operator for Nobody {
    fn control(&mut self, _: Instant, line: &str) -> String {
        line.to_owned()
    }

    fn facts(&self) -> CacheFacts {
        CacheFacts { objects_expired: 7, ..CacheFacts::default() }
    }

    fn objects(&self, _: Namespace) -> u64 {
        9
    }

    fn tend(&mut self, _: Instant) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Shard for MemoryCache {
    fn begin_stop(&mut self, _: Instant) {}

    fn has_stopped(&self) -> bool {
        true
    }
}

fn nodes(operator: &mut Nobody, shards: usize, loops: usize) -> Vec<Node<'_>> {
    let mut owned: Vec<Vec<Box<dyn Shard>>> = (0..shards.min(loops)).map(|_| Vec::new()).collect();
    let owners = owned.len();
    for shard in 0..shards {
        owned[shard % owners].push(Box::new(MemoryCache::new(shard as u64)));
    }
    build(operator, Spread::new(shards, [5; 16]), owned, loops).unwrap()
}

fn ask(node: &mut Node<'_>, id: u64, op: Op) {
    node.submit(NOW, WALL, Request { id: RequestId(id), namespace: Namespace(0), op });
}

fn store(node: &mut Node<'_>, id: u64, key: &[u8], value: &[u8]) {
    let object = Object { value: value.into(), flags: 0, marks: Default::default(), expires: None };
    ask(node, id, Op::Set { key: key.to_vec(), object });
}

fn read(node: &mut Node<'_>, id: u64, key: &[u8]) {
    ask(node, id, Op::Get { key: key.to_vec() });
}

/// Turns of all until nothing moves; the replies of each loop.
fn run(nodes: &mut [Node<'_>]) -> Vec<Vec<Reply>> {
    let mut all: Vec<Vec<Reply>> = nodes.iter().map(|_| Vec::new()).collect();
    for _ in 0..200 {
        for (node, all) in nodes.iter_mut().zip(&mut all) {
            let mut replies = Vec::new();
            node.turn(NOW, WALL, &mut replies);
            all.append(&mut replies);
        }
    }
    all
}

fn outcome(replies: &[Reply], id: u64) -> Outcome {
    let mut found = replies.iter().filter(|reply| reply.id == RequestId(id));
    let outcome = found.next().expect("it is answered").outcome.clone();
    assert!(found.next().is_none(), "it is answered once");
    outcome
}

fn value(replies: &[Reply], id: u64) -> Option<Vec<u8>> {
    let Outcome::Found(found) = outcome(replies, id) else { panic!("{replies:?}") };
    found.map(|object| object.value.to_vec())
}

/// Caches of all kinds: shards and loops.
const KINDS: [(usize, usize); 6] = [(1, 1), (1, 3), (2, 2), (3, 2), (2, 4), (5, 3)];

#[test]
fn replies_go_to_the_loop_that_asked_under_its_own_name() {
    for (shards, loops) in KINDS {
        let mut operator = Nobody;
        let mut nodes = nodes(&mut operator, shards, loops);
        for (number, node) in nodes.iter_mut().enumerate() {
            (0..20).for_each(|key| store(node, key, format!("{number}:{key}").as_bytes(), &[1]));
        }
        let stored = run(&mut nodes);
        assert!(stored.iter().all(|replies| replies.len() == 20), "{shards} shards, {loops} loops");
        for (number, node) in nodes.iter_mut().enumerate() {
            let of_other = (number + 1) % loops;
            (0..20).for_each(|key| read(node, key, format!("{of_other}:{key}").as_bytes()));
            read(node, 20, b"nothing");
        }
        for replies in run(&mut nodes) {
            (0..20).for_each(|key| assert_eq!(value(&replies, key), Some(vec![1])));
            assert_eq!(value(&replies, 20), None);
        }
        // The whole cache is told of in the first loop, and nowhere else.
        let told: Vec<u64> = nodes.iter().map(|node| node.objects(Namespace(0))).collect();
        assert_eq!((told[0], told.iter().sum::<u64>(), nodes[0].facts().objects_expired), (9, 9, 7));
    }
}

fn walk(from: u64, idents_max: u64, wraps: bool) -> Op {
    let keys_max = if wraps { 1 } else { usize::MAX };
    Op::Walk(Walk {
        from,
        everywhere: false,
        begins: from == 0,
        wraps,
        idents_max,
        stride: 4,
        keys_max,
        bytes_max: usize::MAX,
        chosen: Chosen::matching(|pattern, key| key.starts_with(pattern), b"k"),
    })
}

fn walked(nodes: &mut [Node<'_>], by: usize, op: Op) -> (Vec<Vec<u8>>, Option<u64>) {
    ask(&mut nodes[by], 77, op);
    let Outcome::Walked { keys, next } = outcome(&run(nodes)[by], 77) else { panic!("it was a walk") };
    (keys.into_iter().map(|told| told.key).collect(), next)
}

#[test]
fn walks_tell_the_keys_of_all_shards() {
    for (shards, loops) in KINDS {
        let mut operator = Nobody;
        let mut nodes = nodes(&mut operator, shards, loops);
        let by = loops - 1;
        let all: BTreeSet<Vec<u8>> = (0..60).map(|key| format!("k{key}").into_bytes()).collect();
        for (id, key) in (0..).zip(&all) {
            store(&mut nodes[by], id, key, b"v");
        }
        store(&mut nodes[by], 99, b"other", b"v");
        run(&mut nodes);
        let (keys, next) = walked(&mut nodes, by, walk(0, u64::MAX, false));
        assert_eq!((keys.len(), next), (60, None), "{shards} shards, {loops} loops");
        assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), all);
        let (mut told, mut from) = (BTreeSet::new(), Some(0));
        while let Some(at) = from {
            let (keys, next) = walked(&mut nodes, by, walk(at, 7, false));
            told.extend(keys);
            assert!(next.is_none_or(|next| next > at), "a walk comes on");
            from = next;
        }
        assert_eq!(told, all);
        let (keys, next) = walked(&mut nodes, by, walk(u64::MAX, 7, false));
        assert_eq!((keys.len(), next), (0, None), "behind all keys");
        // Wherever it begins, it finds the only key.
        ask(&mut nodes[by], 0, Op::Clear { namespace: None });
        assert_eq!(outcome(&run(&mut nodes)[by], 0), Outcome::Cleared);
        store(&mut nodes[by], 1, b"k", b"v");
        run(&mut nodes);
        for place in [0, 1, 2, 3, 4, u64::MAX / 2, u64::MAX] {
            assert_eq!(walked(&mut nodes, by, walk(place, u64::MAX, true)).0, [b"k"], "{shards}, {place}");
        }
        store(&mut nodes[by], 1, b"", b"not chosen");
        ask(&mut nodes[by], 2, Op::Remove { key: b"k".to_vec() });
        run(&mut nodes);
        assert!(walked(&mut nodes, by, walk(3, u64::MAX, true)).0.is_empty());
    }
}

#[test]
fn what_others_ask_waits_while_one_excludes_them() {
    for first in 0..3 {
        let (second, third) = ((first + 1) % 3, (first + 2) % 3);
        let mut operator = Nobody;
        let mut nodes = nodes(&mut operator, 1, 3);
        nodes[first].exclude_others(0, true);
        read(&mut nodes[first], 1, b"k");
        let replies = run(&mut nodes);
        assert_eq!(value(&replies[first], 1), None);
        // The second one excludes others as well, so the third waits for both.
        nodes[second].exclude_others(0, true);
        read(&mut nodes[second], 2, b"k");
        let replies = run(&mut nodes);
        store(&mut nodes[third], 3, b"k", b"third");
        let more = run(&mut nodes);
        assert!(replies.iter().chain(&more).all(Vec::is_empty), "{replies:?} {more:?}");
        store(&mut nodes[first], 4, b"k", b"first");
        nodes[first].exclude_others(0, false);
        let replies = run(&mut nodes);
        let seen = value(&replies[second], 2);
        assert_eq!(seen.as_deref(), Some(&b"first"[..]), "after the store of who excluded it");
        assert!(replies[third].is_empty(), "{replies:?}");
        nodes[second].exclude_others(0, false);
        assert_eq!(run(&mut nodes)[third].len(), 1);
    }
}

#[test]
fn exclusion_from_one_shard_leaves_another_ones_loop_alone() {
    let mut operator = Nobody;
    let mut nodes = nodes(&mut operator, 2, 2);
    let key_of = |shard| {
        let mut keys = (0..).map(|number: u32| format!("key{number}").into_bytes());
        keys.find(|key| nodes[0].shard_of(Namespace(0), key) == shard).unwrap()
    };
    let (excluded, free) = (key_of(0), key_of(1));
    nodes[0].exclude_others(0, true);
    // Both exclude others, each from a shard of its own: neither waits for the other.
    nodes[1].exclude_others(1, true);
    read(&mut nodes[0], 1, &excluded);
    read(&mut nodes[1], 2, &free);
    let replies = run(&mut nodes);
    assert_eq!((value(&replies[0], 1), value(&replies[1], 2)), (None, None));
    nodes[0].exclude_others(0, false);
    nodes[1].exclude_others(1, false);
}

#[test]
fn a_thread_may_sleep_only_with_nothing_to_take_and_nothing_to_send() {
    let mut operator = Nobody;
    let mut nodes = nodes(&mut operator, 1, 2);
    let [owner, other] = &mut nodes[..] else { panic!("two were asked for") };
    assert!(owner.may_sleep() && other.may_sleep());
    read(other, 0, b"k");
    assert!(!other.may_sleep());
    other.turn(NOW, WALL, &mut Vec::new());
    assert!(other.may_sleep() && !owner.may_sleep());
    owner.turn(NOW, WALL, &mut Vec::new());
    assert!(owner.may_sleep() && !other.may_sleep());
}

#[test]
fn shards_stop_when_nobody_asks_any_more() {
    let mut operator = Nobody;
    let mut nodes = nodes(&mut operator, 2, 3);
    read(&mut nodes[2], 0, b"k");
    nodes[0].begin_stop();
    nodes[1].begin_stop();
    let replies = run(&mut nodes);
    assert_eq!(value(&replies[2], 0), None);
    assert!(nodes.iter().all(|node| !node.has_stopped()), "the third may ask for more");
    nodes[2].begin_stop();
    // It leaves when it was answered.
    read(&mut nodes[2], 1, b"k");
    assert!(!nodes[2].has_stopped());
    let replies = run(&mut nodes);
    assert_eq!(value(&replies[2], 1), None);
    assert!(nodes.iter().all(Node::has_stopped));
}

#[test]
fn a_loop_knows_what_others_have_seen_whether_they_answered_or_not() {
    let mut operator = Nobody;
    let mut nodes = nodes(&mut operator, 1, 2);
    let [owner, other] = &mut nodes[..] else { panic!("two were asked for") };
    let turn = other.turns();
    assert!(other.is_seen(turn), "nothing was asked");
    read(other, 0, b"k");
    other.turn(NOW, WALL, &mut Vec::new());
    assert!(!other.is_seen(turn));
    read(other, 1, b"k");
    let next = other.turns();
    owner.turn(NOW, WALL, &mut Vec::new());
    other.turn(NOW, WALL, &mut Vec::new());
    assert!(other.is_seen(turn) && !other.is_seen(next), "{turn} {next}");
    owner.turn(NOW, WALL, &mut Vec::new());
    other.turn(NOW, WALL, &mut Vec::new());
    assert!(other.is_seen(next));
}
