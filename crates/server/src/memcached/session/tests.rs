//! Conversations with a cache on the heap: answers of memcached, in order, however bytes arrive and outcomes come.

use super::*;
use crate::resp::front::CacheFacts;
use crate::slab::Slab;
use base::random::Random;
use base::time::Instant;
use cache::request::{Cache, WallMillis};
use memory_cache::MemoryCache;

#[path = "../../../tests/support/memory_cache.rs"]
#[allow(clippy::duplicate_mod, reason = "a cache of each protocol has facts of its own")]
#[allow(dead_code, missing_docs)]
mod memory_cache;

impl Backend for MemoryCache {
    fn facts(&self) -> CacheFacts {
        CacheFacts::default()
    }
}

const WALL: WallMillis = WallMillis(1_700_000_000_000);

/// A client and a cache.
struct Talk {
    key: Key,
    session: Session,
    front: Front,
    cache: MemoryCache,
}

impl Talk {
    fn new(seed: u64) -> Talk {
        let settings = Settings { object_bytes_max: 1000, ..Settings::default() };
        let key = Slab::new().insert(());
        let session = Session::new(1, &settings);
        Talk { key, session, front: Front::new(settings, Instant(0), WALL), cache: MemoryCache::new(seed) }
    }

    /// All answers to a stream that arrives in pieces.
    fn say(&mut self, stream: &[u8], mut piece: impl FnMut() -> usize) -> String {
        let (mut from, mut to, mut said) = (0, 0, Vec::new());
        loop {
            let input = &stream[from..to];
            let (count, pause) = self.session.advance(self.key, input, &mut self.front, &mut self.cache);
            from += count;
            let mut replies = Vec::new();
            self.cache.turn(Instant(0), self.front.wall, &mut replies);
            let is_idle = replies.is_empty();
            for reply in replies {
                let delivery = self.front.on_reply(reply);
                self.session.on_outcome(delivery, &self.front);
            }
            said.extend(self.session.output().take_flat());
            let is_over = matches!(pause, Pause::Bytes | Pause::Leaving) && self.session.is_at_rest();
            if is_over && is_idle && (to == stream.len() || pause == Pause::Leaving) {
                return String::from_utf8(said).unwrap();
            }
            to = (to + piece()).min(stream.len());
        }
    }

    fn ask(&mut self, stream: &str) -> String {
        self.say(stream.as_bytes(), || stream.len())
    }
}

#[test]
fn answers_are_those_of_memcached() {
    let mut talk = Talk::new(1);
    let dialogue = [
        ("get a\r\n", "END\r\n"),
        ("set a 7 0 2\r\nhi\r\nget a b a\r\n", "STORED\r\nVALUE a 7 2\r\nhi\r\nVALUE a 7 2\r\nhi\r\nEND\r\n"),
        (
            "add a 0 0 1\r\nx\r\nreplace b 0 0 1\r\nx\r\nappend b 0 0 1\r\nx\r\n",
            "NOT_STORED\r\nNOT_STORED\r\nNOT_STORED\r\n",
        ),
        (
            "append a 0 0 1\r\n!\r\nprepend a 0 0 1\r\n:\r\nget a\r\n",
            "STORED\r\nSTORED\r\nVALUE a 7 4\r\n:hi!\r\nEND\r\n",
        ),
        (
            "set n 0 0 1\r\n5\r\nincr n 7\r\ndecr n 20\r\nincr a 1\r\nincr no 1\r\n",
            "STORED\r\n12\r\n0\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\nNOT_FOUND\r\n",
        ),
        ("cas no 0 0 1 1\r\nx\r\ncas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\nEXISTS\r\n"),
        (
            "touch a 100\r\ntouch no 1\r\nmg a t f s v\r\n",
            "TOUCHED\r\nNOT_FOUND\r\nVA 4 t100 f7 s4\r\n:hi!\r\n",
        ),
        ("set a 0 -1 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n"),
        ("set a 0 0 2\r\nabc\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"),
        ("mn\r\nmg no v\r\nmg no v q\r\nmg no Oxyz k\r\nmn\r\n", "MN\r\nEN\r\nEN Oxyz kno\r\nMN\r\n"),
        (
            "ms Zm9v 2 b T0 Oq k\r\nok\r\nget foo\r\nmg Zm9v b k v\r\n",
            "HD Oq kZm9v b\r\nVALUE foo 0 2\r\nok\r\nEND\r\nVA 2 kZm9v b\r\nok\r\n",
        ),
        ("ms m 1 ME q\r\nx\r\nms m 1 ME q\r\nx\r\nmd m q\r\nmd m q\r\nmd m\r\n", "NS\r\nNF\r\n"),
        (
            "ma c\r\nma c N0 J13 v\r\nma c v t D30\r\nma c MD D9000 v\r\nma c M!\r\n",
            "NF\r\nVA 2\r\n13\r\nVA 2 t-1\r\n43\r\nVA 1\r\n0\r\nCLIENT_ERROR invalid mode for ma M token\r\n",
        ),
        (
            "set n 0 0 1 noreply\r\n1\r\nincr n 1 noreply\r\nset x y z 1 noreply\r\ndelete n noreply\r\ndelete n\r\n",
            "NOT_FOUND\r\n",
        ),
        ("set f 0 0 1\r\nx\r\nflush_all\r\nget f\r\n", "STORED\r\nOK\r\nEND\r\n"),
    ];
    for (asked, said) in dialogue {
        assert_eq!(talk.ask(asked), said, "{asked}");
    }
}

#[test]
fn a_token_does_not_survive_a_write() {
    let mut talk = Talk::new(1);
    talk.ask("set a 0 0 1\r\n1\r\n");
    let token = |talk: &mut Talk| talk.ask("mg a c\r\n").trim().trim_start_matches("HD c").to_owned();
    let first = token(&mut talk);
    assert_eq!(talk.ask("touch a 50\r\n"), "TOUCHED\r\n");
    assert_eq!(token(&mut talk), first);
    talk.ask("incr a 1\r\n");
    assert_eq!(talk.ask(&format!("cas a 0 0 1 {first}\r\nx\r\nmd a C{first}\r\n")), "EXISTS\r\nEX\r\n");
    let second = token(&mut talk);
    assert_eq!(talk.ask(&format!("cas a 3 0 1 {second}\r\nx\r\n")), "STORED\r\n");
    assert_eq!(
        talk.ask(&format!("cas a 3 0 1 {second}\r\ny\r\nget a\r\n")),
        "EXISTS\r\nVALUE a 3 1\r\nx\r\nEND\r\n"
    );
}

#[test]
fn a_value_too_large_is_passed_over_and_not_taken_for_the_old_one() {
    let mut talk = Talk::new(1);
    let stream = format!(
        "set a 0 0 1\r\nx\r\nset a 0 0 1001\r\n{}\r\nget a\r\n",
        "get b ".repeat(167).split_at(1001).0
    );
    assert_eq!(talk.ask(&stream), "STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n");
}

#[test]
fn answers_do_not_depend_on_pieces_or_on_the_order_of_outcomes() {
    let mut stream = String::new();
    let mut random = Random::from_seed(9);
    for round in 0..300 {
        let key = random.below(4);
        stream += &match random.below(8) {
            0 => format!("set k{key} {round} 0 3\r\n{round:03}\r\n"),
            1 => format!("incr k{key} {round}\r\n"),
            2 => format!("get k0 k1 k{key}\r\n"),
            3 => format!("mg k{key} v s O{round}\r\n"),
            4 => format!("append k{key} 0 0 1 noreply\r\n0\r\n"),
            5 => format!("ms k{key} 2 ME\r\n{:02}\r\n", round % 100),
            6 if random.chance(1, 6) => "flush_all\r\n".to_owned(),
            _ => format!("delete k{key}\r\n"),
        };
    }
    let whole = Talk::new(1).ask(&stream);
    assert!(whole.len() > 1000);
    for seed in 2..12 {
        let mut random = Random::from_seed(seed);
        assert_eq!(Talk::new(seed).say(stream.as_bytes(), || random.index(40)), whole);
    }
}

#[test]
fn what_is_no_command_ends_or_is_an_error() {
    for stream in ["GET / HTTP/1.0\r\nmn\r\n", "quit\r\nmn\r\n", "\u{1}\0\0\0"] {
        assert_eq!(Talk::new(1).ask(stream), "", "{stream}");
    }
    let long = "x".repeat(3000);
    assert_eq!(Talk::new(1).ask(&long), "");
    let many = format!("get {}\r\n", "key ".repeat(5000));
    assert_eq!(Talk::new(1).ask(&many), "END\r\n");
}
