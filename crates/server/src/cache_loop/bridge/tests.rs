//! Tests of the bridge without threads: both sides in one hand.

use super::*;
use cache::request::{Object, Op, Outcome};
use memory_cache::MemoryCache;

#[path = "../../../tests/support/memory_cache.rs"]
#[allow(clippy::duplicate_mod, reason = "a cache of each side has facts of its own")]
#[allow(dead_code, missing_docs)]
mod memory_cache;

const NOW: Instant = Instant(0);
const WALL: WallMillis = WallMillis(1_700_000_000_000);

impl Backend for MemoryCache {
    fn facts(&self) -> CacheFacts {
        CacheFacts { objects_expired: 7, ..CacheFacts::default() }
    }
}

impl ServedCache for MemoryCache {
    fn control(&mut self, _: Instant, line: &str) -> String {
        line.to_owned()
    }

    fn begin_stop(&mut self, _: Instant) {}

    fn has_stopped(&self) -> bool {
        true
    }
}

fn store(remote: &mut Remote, id: u64, key: &[u8], value: &[u8]) {
    let object = Object { value: value.into(), flags: 0, marks: Default::default(), expires: None };
    let op = Op::Set { key: key.to_vec(), object };
    remote.submit(NOW, WALL, Request { id: RequestId(id), namespace: Namespace(0), op });
}

fn read(remote: &mut Remote, id: u64, key: &[u8]) {
    let op = Op::Get { key: key.to_vec() };
    remote.submit(NOW, WALL, Request { id: RequestId(id), namespace: Namespace(0), op });
}

/// Turns of all until nothing moves; the replies of each front.
fn run(hub: &mut Hub<'_>, remotes: &mut [Remote]) -> Vec<Vec<Reply>> {
    let mut all: Vec<Vec<Reply>> = remotes.iter().map(|_| Vec::new()).collect();
    for _ in 0..20 {
        for (remote, all) in remotes.iter_mut().zip(&mut all) {
            let mut replies = Vec::new();
            remote.turn(NOW, WALL, &mut replies);
            all.append(&mut replies);
        }
        hub.turn(NOW, WALL, &mut Vec::new());
    }
    all
}

fn value(replies: &[Reply], id: u64) -> Option<Vec<u8>> {
    let reply = replies.iter().find(|reply| reply.id == RequestId(id)).expect("it is answered");
    let Outcome::Found(found) = &reply.outcome else { panic!("{reply:?}") };
    found.as_ref().map(|object| object.value.to_vec())
}

#[test]
fn replies_go_to_the_front_that_asked_under_its_own_name() {
    let mut cache = MemoryCache::new(1);
    let (mut hub, mut remotes) = build(&mut cache, 2).unwrap();
    store(&mut remotes[0], 5, b"a", b"of the first");
    store(&mut remotes[1], 5, b"b", b"of the second");
    let stored = run(&mut hub, &mut remotes);
    assert!(stored.iter().all(|replies| replies.len() == 1 && replies[0].id == RequestId(5)));
    read(&mut remotes[0], 5, b"b");
    read(&mut remotes[1], 5, b"a");
    let replies = run(&mut hub, &mut remotes);
    assert_eq!(value(&replies[0], 5).as_deref(), Some(&b"of the second"[..]));
    assert_eq!(value(&replies[1], 5).as_deref(), Some(&b"of the first"[..]));
    // The cache is told of by the side that has it, and by nobody else.
    assert_eq!((hub.facts().objects_expired, remotes[0].facts().objects_expired), (7, 0));
    assert_eq!((hub.objects(Namespace(0)), remotes[0].objects(Namespace(0))), (2, 0));
}

#[test]
fn what_others_ask_waits_while_one_excludes_them() {
    let mut cache = MemoryCache::new(1);
    let (mut hub, mut remotes) = build(&mut cache, 3).unwrap();
    remotes[0].exclude_others(true);
    read(&mut remotes[0], 1, b"k");
    let replies = run(&mut hub, &mut remotes);
    let (first, others) = replies.split_first().unwrap();
    assert_eq!(value(first, 1), None);
    assert!(others.iter().all(Vec::is_empty));
    // The second one excludes others as well, so the third waits for both.
    remotes[1].exclude_others(true);
    read(&mut remotes[1], 2, b"k");
    let replies = run(&mut hub, &mut remotes);
    store(&mut remotes[2], 3, b"k", b"third");
    let more = run(&mut hub, &mut remotes);
    assert!(replies.iter().chain(&more).all(Vec::is_empty), "{replies:?} {more:?}");
    store(&mut remotes[0], 4, b"k", b"first");
    remotes[0].exclude_others(false);
    let replies = run(&mut hub, &mut remotes);
    assert_eq!(value(&replies[1], 2).as_deref(), Some(&b"first"[..]), "after the store of who excluded it");
    assert!(replies[2].is_empty(), "{replies:?}");
    remotes[1].exclude_others(false);
    let replies = run(&mut hub, &mut remotes);
    assert_eq!(replies[2].len(), 1);
    assert!(hub.has_stopped() && hub.held.is_empty());
}

#[test]
fn a_thread_may_sleep_only_with_nothing_to_take_and_nothing_to_send() {
    let mut cache = MemoryCache::new(1);
    let (mut hub, mut remotes) = build(&mut cache, 1).unwrap();
    let remote = &mut remotes[0];
    assert!(hub.may_sleep() && remote.may_sleep());
    read(remote, 0, b"k");
    assert!(!remote.may_sleep());
    remote.turn(NOW, WALL, &mut Vec::new());
    assert!(remote.may_sleep() && !hub.may_sleep());
    assert!(hub.has_stopped(), "nothing of it is known here yet");
    hub.turn(NOW, WALL, &mut Vec::new());
    assert!(hub.may_sleep() && !remote.may_sleep());
}
