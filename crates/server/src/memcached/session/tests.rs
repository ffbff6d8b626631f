//! Conversations with a cache on the heap: answers of memcached, in order, however bytes arrive and outcomes come.

use super::*;
use crate::resp::front::CacheFacts;
use crate::resp::survey::Survey;
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
        let session = Session::new((1, Namespace(0)), &settings);
        Talk { key, session, front: Front::new(settings, Instant(0), WALL), cache: MemoryCache::new(seed) }
    }

    /// All answers to a stream that arrives in pieces.
    fn say(&mut self, stream: &[u8], mut piece: impl FnMut() -> usize) -> String {
        let (mut from, mut to, mut said) = (0, 0, Vec::new());
        loop {
            let input = &stream[from..to];
            let (count, pause) = self.session.advance(self.key, input, &mut self.front, &mut self.cache);
            from += count;
            if let Pause::Survey(wanted) = pause {
                self.front.survey = Some(Survey::of(wanted, &self.front, &self.cache));
                continue;
            }
            let mut replies = Vec::new();
            self.cache.turn(Instant(0), self.front.wall, &mut replies);
            let is_idle = replies.is_empty();
            for reply in replies {
                let delivery = self.front.on_reply(reply);
                self.session.on_outcome(delivery, &mut self.front, &mut self.cache);
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
        ("ms m 1 ME q\r\nx\r\nms m 1 ME q\r\nx\r\nmd m q\r\nmd m q\r\nmd m\r\n", "NS\r\nNF\r\nNF\r\n"),
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
fn a_flush_comes_at_its_time_and_the_last_one_counts() {
    let mut talk = Talk::new(1);
    let later = |talk: &mut Talk, seconds: u64| talk.front.wall = WallMillis(WALL.0 + seconds * 1000);
    assert_eq!(
        talk.ask("set a 0 0 1\r\nx\r\nflush_all 10\r\nget a\r\n"),
        "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
    later(&mut talk, 9);
    assert_eq!(talk.ask("set b 0 0 1\r\ny\r\nget a\r\n"), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    later(&mut talk, 10);
    assert_eq!(
        talk.ask("get a b\r\nset b 0 0 1\r\nz\r\nget b\r\n"),
        "END\r\nSTORED\r\nVALUE b 0 1\r\nz\r\nEND\r\n"
    );
    // By Unix time, in place of the one before; and none is left when all is flushed at once.
    let at = WALL.0 / 1000 + 30;
    assert_eq!(talk.ask(&format!("flush_all 15 noreply\r\nflush_all {at}\r\n")), "OK\r\n");
    later(&mut talk, 26);
    assert_eq!(
        talk.ask("get b\r\nflush_all\r\nset c 0 0 1\r\nz\r\n"),
        "VALUE b 0 1\r\nz\r\nEND\r\nOK\r\nSTORED\r\n"
    );
    later(&mut talk, 31);
    assert_eq!(
        talk.ask("get b c\r\nflush_all x\r\n"),
        "VALUE c 0 1\r\nz\r\nEND\r\nCLIENT_ERROR invalid exptime argument\r\n"
    );
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

/// Clients of other languages read them into numbers with a sign: spymemcached ended its connection over half of them.
#[test]
fn tokens_are_no_negative_numbers_to_anybody() {
    let mut talk = Talk::new(1);
    for value in 100..164 {
        let said = talk.ask(&format!("set a 0 0 3\r\n{value}\r\ngets a\r\n"));
        let token = said.lines().nth(1).and_then(|line| line.strip_prefix("VALUE a 0 3 ")).unwrap();
        assert!(token.parse::<i64>().is_ok_and(|token| token > 0), "{token}");
    }
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
        stream += &match random.below(12) {
            0 => format!("set k{key} {round} 0 3\r\n{round:03}\r\n"),
            1 => format!("incr k{key} {round}\r\n"),
            2 => format!("get k0 k1 k{key}\r\n"),
            3 => format!("mg k{key} v s O{round}\r\n"),
            4 => format!("append k{key} 0 0 1 noreply\r\n0\r\n"),
            5 => format!("ms k{key} 2 ME\r\n{:02}\r\n", round % 100),
            6 if random.chance(1, 6) => "flush_all\r\n".to_owned(),
            8 => format!("md k{key} I\r\n"),
            9 => format!("mg k{key} v t\r\nms k{key} 2 MA\r\n{:02}\r\n", round % 100),
            10 => format!("mg k{key} v\r\ngat 100 k{key}\r\nmg k{key} v\r\nma k{key} v\r\n"),
            11 => format!("mg k{key} v N30\r\nset k{key} 1 0 1\r\n1\r\n"),
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
    // A client of the binary protocol waits for no end of a line.
    assert_eq!(Talk::new(1).say(b"mn\r\n\x80\x0b\0\0", || 1), "MN\r\n");
    let long = "x".repeat(3000);
    assert_eq!(Talk::new(1).ask(&long), "");
    let many = format!("get {}\r\n", "key ".repeat(5000));
    assert_eq!(Talk::new(1).ask(&many), "END\r\n");
}

/// The number behind a letter in the first line of an answer.
fn flag(said: &str, letter: char) -> u64 {
    let line = said.lines().next().unwrap();
    let word =
        line.split(' ').find(|word| word.starts_with(letter)).unwrap_or_else(|| panic!("{letter} in {line}"));
    word[1..].parse().unwrap()
}

#[test]
fn one_client_is_told_to_make_what_is_not_there() {
    let mut talk = Talk::new(3);
    let won = talk.ask("mg k v c t N30\r\n");
    assert!(won.starts_with("VA 0 c") && won.contains(" t30 W\r\n"), "{won}");
    let lost = talk.ask("mg k v c t N30\r\n");
    assert!(lost.contains(" t30 Z\r\n") && flag(&won, 'c') == flag(&lost, 'c'), "{lost}");
    let token = flag(&won, 'c');
    // Who was told is too late when the place was given up, and another one was told since.
    assert_eq!(talk.ask("md k\r\n"), "HD\r\n");
    let other = flag(&talk.ask("mg k c N30\r\n"), 'c');
    assert_ne!(token, other);
    assert_eq!(talk.ask(&format!("ms k 3 C{token}\r\nold\r\n")), "EX\r\n");
    assert_eq!(talk.ask(&format!("ms k 3 C{other} T100\r\nnew\r\n")), "HD\r\n");
    assert_eq!(talk.ask("mg k v t N30\r\n"), "VA 3 t100\r\nnew\r\n");
    // One is told to make it anew when less than this is left of it, and no other.
    assert_eq!(
        talk.ask("mg k v R30\r\nmg k v R130\r\nmg k v R130\r\nget k\r\n"),
        "VA 3\r\nnew\r\nVA 3 W\r\nnew\r\nVA 3 Z\r\nnew\r\nVALUE k 0 3\r\nnew\r\nEND\r\n"
    );
    assert_eq!(
        talk.ask("mg none R30\r\nmg none N x\r\nmg none Nx\r\n"),
        "EN\r\nCLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR bad token in command line format\r\n"
    );
}

#[test]
fn what_is_stale_is_told_until_somebody_makes_it_anew() {
    let mut talk = Talk::new(4);
    assert_eq!(talk.ask("set k 5 0 3\r\nmoo\r\nmd k I T30\r\n"), "STORED\r\nHD\r\n");
    let won = talk.ask("mg k v f t c\r\n");
    assert!(won.starts_with("VA 3 f5 t30 c") && won.contains(" X W\r\nmoo"), "{won}");
    assert!(talk.ask("mg k v\r\n") == "VA 3 Z X\r\nmoo\r\n");
    // Marked once more, by which its token is another: what is made from the version before is stale, too.
    assert_eq!(talk.ask("md k I\r\n"), "HD\r\n");
    assert!(talk.ask("mg k\r\n").ends_with(" X W\r\n"));
    let token = flag(&won, 'c');
    assert_eq!(talk.ask(&format!("ms k 1 C{token} T90\r\na\r\n")), "EX\r\n");
    assert_eq!(talk.ask(&format!("ms k 1 I C{token} T90\r\nb\r\n")), "HD\r\n");
    let still = talk.ask("mg k v t c\r\n");
    assert!(still.contains(" Z X\r\nb") && flag(&still, 't') == 30, "{still}");
    assert_eq!(talk.ask(&format!("ms k 1 C{} T90\r\nc\r\n", flag(&still, 'c'))), "HD\r\n");
    assert_eq!(talk.ask("mg k v t\r\n"), "VA 1 t90\r\nc\r\n");
    assert_eq!(talk.ask("md k I\r\nappend k 0 0 1\r\nd\r\nmg k v\r\n"), "HD\r\nSTORED\r\nVA 2\r\ncd\r\n");
}

/// A look that finds something stale asks again, to tell one client of it: what the client says next may not come between.
#[test]
fn what_comes_behind_a_look_is_done_behind_it() {
    for behind in
        ["md k", "ms k 1\r\nz", "gat -1 k", "touch k -1", "set k 0 0 1\r\nz", "incr k 1", "ma k v", "md k I"]
    {
        for seed in 0..8 {
            let mut talk = Talk::new(seed);
            assert_eq!(talk.ask("set k 0 0 1\r\n7\r\nmd k I\r\n"), "STORED\r\nHD\r\n");
            let said = talk.ask(&format!("mg k v\r\nmg other\r\nmg k v\r\n{behind}\r\nmn\r\n"));
            assert!(said.starts_with("VA 1 X W\r\n7\r\nEN\r\nVA 1 Z X\r\n7\r\n"), "{behind}: {said}");
            assert!(said.ends_with("MN\r\n"), "{behind}: {said}");
        }
    }
    // The connection ends when all of it was said.
    let mut talk = Talk::new(1);
    talk.ask("set k 0 0 1\r\n7\r\nmd k I\r\n");
    assert_eq!(talk.ask("mg k v\r\nmd k\r\nquit\r\n"), "VA 1 X W\r\n7\r\nHD\r\n");
}

/// As memcached 1.6.18 answers.
#[test]
fn each_meta_command_tells_what_it_knows() {
    let mut talk = Talk::new(8);
    let dialogue = [
        ("mg k t s f c k O5 v\r\n", "EN kk O5\r\n"),
        ("md k c t k O5\r\n", "NF kk O5\r\n"),
        ("ma k c t k O5\r\n", "NF kk O5\r\n"),
        ("ms k 1 MR c t f s k O5\r\n5\r\n", "NS c0 kk O5\r\n"),
        ("ms k 1 t f s k T40 F3\r\n5\r\n", "HD kk\r\n"),
        ("ms k 1 c k C9\r\n5\r\n", "EX c0 kk\r\n"),
        ("ma k C9 c k\r\n", "EX kk\r\n"),
        ("ma k s f t k v\r\n", "VA 1 t40 kk\r\n6\r\n"),
        ("ma k t T50\r\nma k T60 t\r\n", "HD t40\r\nHD t60\r\n"),
        ("md k s t f c k\r\n", "HD kk\r\n"),
        // Of two times that a new object is given the last one counts.
        ("mg k T5 N30 t\r\nmd k\r\nmg k N30 T5 t\r\nmd k\r\n", "HD t30 W\r\nHD\r\nHD t5 W\r\nHD\r\n"),
        ("ma k N30 T5 t\r\nmd k\r\nma k T5 N30 t\r\nma k T5 N30 t\r\n", "HD t5\r\nHD\r\nHD t30\r\nHD t5\r\n"),
        ("ms k 1 Me\r\n5\r\nmn\r\n", "CLIENT_ERROR invalid mode for ms M token\r\nMN\r\n"),
        ("ma k Md\r\n", "CLIENT_ERROR invalid mode for ma M token\r\n"),
    ];
    for (asked, said) in dialogue {
        assert_eq!(talk.ask(asked), said, "{asked}");
    }
}

/// As memcached 1.6.18 answers, whatever its documents say.
#[test]
fn quiet_commands_tell_what_is_not_there() {
    let mut talk = Talk::new(7);
    assert_eq!(
        talk.ask("md k q\r\nma k q\r\nma k N0 q\r\nma k q\r\nmg k v\r\n"),
        "NF\r\nNF\r\nHD\r\nVA 1\r\n1\r\n"
    );
    let vague = "CLIENT_ERROR invalid or duplicate flag\r\n";
    assert_eq!(
        talk.ask("md k Cx\r\nma k Dx\r\nma k q q\r\nme\r\n"),
        format!("{}CLIENT_ERROR bad command line format\r\n", vague.repeat(3))
    );
}

#[test]
fn use_of_a_key_is_told() {
    let mut talk = Talk::new(5);
    assert_eq!(
        talk.ask("ms k 1\r\na\r\nmg k h l u\r\nmg k h\r\nmg k h\r\n"),
        "HD\r\nHD h0 l0\r\nHD h0\r\nHD h1\r\n"
    );
    talk.front.wall = WallMillis(WALL.0 + 7_000);
    assert_eq!(
        talk.ask("mg k l h u\r\nget k\r\nmg k l h\r\n"),
        "HD l7 h1\r\nVALUE k 0 1\r\na\r\nEND\r\nHD l0 h1\r\n"
    );
    assert!(talk.ask("me k\r\n").contains(" la=0 cas="));
    assert_eq!(talk.ask("set k 0 0 1\r\nb\r\nmg k h\r\n"), "STORED\r\nHD h0\r\n");
    // Whatever is asked first is told first.
    assert_eq!(talk.ask("mg k T50\r\nmg k t T100\r\nmg k T100 t\r\n"), "HD\r\nHD t50\r\nHD t100\r\n");
}

#[test]
fn a_retrieval_names_any_number_of_keys() {
    let mut talk = Talk::new(6);
    assert_eq!(talk.ask("set key 0 0 2\r\nhi\r\n"), "STORED\r\n");
    let asked = format!("get{}\r\n", " key".repeat(60_000));
    let mut pieces = 0;
    let said = talk.say(asked.as_bytes(), || {
        pieces += 1;
        16 << 10
    });
    assert!(pieces > 10 && said == format!("{}END\r\n", "VALUE key 0 2\r\nhi\r\n".repeat(60_000)));
    assert_eq!(
        talk.ask(&format!("get a {}\r\n", "k".repeat(251))),
        "CLIENT_ERROR bad command line format\r\n"
    );
    assert_eq!(
        talk.ask(" get  key \r\nget \r\ngat\r\ngat 0\r\ngat 0 key\r\n"),
        "VALUE key 0 2\r\nhi\r\nEND\r\nERROR\r\nERROR\r\nEND\r\nVALUE key 0 2\r\nhi\r\nEND\r\n"
    );
}
