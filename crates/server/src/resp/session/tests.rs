//! Conversations with a cache on the heap: answers of Redis, in order, however bytes arrive and outcomes come.

use super::*;
use crate::resp::front::CacheFacts;
use crate::resp::survey::Survey;
use crate::slab::Slab;
use base::time::Instant;
use cache::request::Cache;
use memory_cache::MemoryCache;
use proptest::prelude::*;

#[path = "../../../tests/support/memory_cache.rs"]
#[allow(clippy::duplicate_mod, reason = "a cache of each protocol has facts of its own")]
#[allow(dead_code, missing_docs)]
mod memory_cache;

impl Backend for MemoryCache {
    fn facts(&self) -> CacheFacts {
        CacheFacts { lines: vec![("cache".to_owned(), "heap".to_owned())], ..CacheFacts::default() }
    }
}

const WALL: WallMillis = WallMillis(1_700_000_000_000);

/// Clients and what they share.
struct Talk {
    sessions: Slab<Session>,
    front: Front,
    cache: MemoryCache,
}

struct Client {
    key: Key,
    input: Vec<u8>,
    said: Vec<u8>,
}

fn facts(id: u64) -> Facts {
    Facts {
        id,
        addresses: ("127.0.0.1:1".to_owned(), "127.0.0.1:6379".to_owned()),
        descriptor: 8,
        name: Vec::new(),
        library: (Vec::new(), Vec::new()),
        namespace: Namespace(0),
        since: WALL,
        active: WALL,
        last: "",
        query_bytes: 0,
    }
}

impl Talk {
    fn with(settings: Settings, seed: u64) -> Talk {
        let front = Front::new(settings, Instant(0), WALL);
        Talk { sessions: Slab::new(), front, cache: MemoryCache::new(seed) }
    }

    fn new() -> Talk {
        Talk::with(Settings::default(), 1)
    }

    fn client(&mut self) -> Client {
        let id = u64::try_from(self.sessions.len()).unwrap() + 1;
        let key = self.sessions.insert(Session::new(facts(id), &self.front.settings));
        Client { key, input: Vec::new(), said: Vec::new() }
    }

    /// Lets the session go on until it waits for something; reads no answers.
    fn step(&mut self, client: &mut Client) -> Pause {
        loop {
            let session = self.sessions.at(client.key).unwrap();
            let (consumed, pause) =
                session.advance(client.key, &client.input, &mut self.front, &mut self.cache);
            client.input.drain(..consumed);
            let Pause::Survey(wanted) = pause else { return pause };
            let survey = Survey::of(wanted, &self.front, &self.cache);
            let mut keys = Vec::new();
            self.sessions.keys(&mut keys);
            let lines = keys.iter().map(|key| self.sessions.at(*key).unwrap().line(&self.front));
            self.front.survey = Some(Survey { roster: lines.collect(), ..survey });
        }
    }

    fn turn(&mut self) {
        let mut replies = Vec::new();
        self.cache.turn(Instant(0), self.front.wall, &mut replies);
        for reply in replies {
            let delivery = self.front.on_reply(reply);
            let session = self.sessions.at(delivery.client).expect("nobody leaves in these tests");
            session.on_outcome(delivery, &mut self.front);
        }
    }

    /// Sends bytes and reads all answers.
    fn say(&mut self, client: &mut Client, bytes: &[u8]) -> Vec<u8> {
        client.input.extend(bytes);
        loop {
            let pause = self.step(client);
            self.turn();
            let session = self.sessions.at(client.key).unwrap();
            let said = session.output().take_flat();
            let is_quiet = said.is_empty() && matches!(pause, Pause::Bytes | Pause::Leaving);
            client.said.extend(said);
            if is_quiet && session.is_at_rest() {
                return std::mem::take(&mut client.said);
            }
        }
    }

    fn ask(&mut self, client: &mut Client, line: &str) -> String {
        let said = self.say(client, format!("{line}\r\n").as_bytes());
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// What Redis 7.0.15 answered to each line, recorded by `record.py` beside the file.
const GOLDEN: &str = include_str!("../../../tests/golden/redis-7.0.15.txt");

#[test]
fn answers_are_those_of_redis() {
    let mut talk = Talk::new();
    let mut client = talk.client();
    let mut lines = GOLDEN.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (mut count, mut wrong) = (0, String::new());
    while let Some(asked) = lines.next() {
        let asked = asked.strip_prefix("> ").expect("a question");
        let expected = lines.next().and_then(|line| line.strip_prefix("< ")).expect("an answer");
        let answer = talk.ask(&mut client, asked);
        let answer = answer.escape_default().to_string();
        if answer != expected {
            wrong += &format!("> {asked}\n< {answer}\n  {expected}\n");
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "answers, and below them those of Redis:\n{wrong}");
    assert!(count > 200, "{count}");
}

#[test]
fn debug_sleeps_where_the_server_was_told_to_allow_it() {
    let mut talk = Talk::new();
    let mut client = talk.client();
    let refused = talk.ask(&mut client, "debug sleep 0");
    assert!(
        refused.starts_with("-ERR DEBUG command not allowed.") && refused.contains("--debug-commands"),
        "{refused}"
    );
    let mut talk = Talk::with(Settings { debug_commands: true, ..Settings::default() }, 1);
    let mut client = talk.client();
    assert_eq!(talk.ask(&mut client, "debug sleep 0.001"), "+OK\r\n");
    assert_eq!(talk.ask(&mut client, "multi\r\nDEBUG SLEEP 0\r\nexec"), "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
    for nonsense in ["x", "-1", "inf", "nan", "1e300"] {
        let answer = talk.ask(&mut client, &format!("debug sleep {nonsense}"));
        assert_eq!(answer, "-ERR value is not a valid float\r\n");
    }
    for other in ["debug object a", "debug sleep", "debug sleep 1 2"] {
        let answer = talk.ask(&mut client, other);
        assert!(
            answer.starts_with("-ERR unknown subcommand or wrong number of arguments for '"),
            "{other}: {answer}"
        );
    }
}

#[test]
fn answers_come_in_the_order_of_commands() {
    let mut talk = Talk::with(Settings::default(), 7);
    let mut client = talk.client();
    let mut asked = String::new();
    let mut expected = String::new();
    for index in 0..3000 {
        asked += &format!("set k{index} {index}\r\nget k{index}\r\nping\r\n");
        let text = index.to_string();
        expected += &format!("+OK\r\n${}\r\n{text}\r\n+PONG\r\n", text.len());
    }
    let said = talk.say(&mut client, asked.as_bytes());
    assert_eq!(String::from_utf8(said).unwrap(), expected);
}

#[test]
fn who_does_not_read_is_not_served_further() {
    let mut talk = Talk::new();
    let mut client = talk.client();
    client.input = b"ping\r\n".repeat(1_000_000);
    assert_eq!(talk.step(&mut client), Pause::Output);
    assert!(talk.sessions.at(client.key).unwrap().bytes_held() < 3 << 20);
    talk.say(&mut client, b"set a b\r\n");
    client.input = b"get a\r\n".repeat(1_000_000);
    for _ in 0..1_000_000 {
        if talk.step(&mut client) == Pause::Output {
            break;
        }
        talk.turn();
        assert!(talk.sessions.at(client.key).unwrap().bytes_held() < 4 << 20);
    }
    assert_eq!(talk.step(&mut client), Pause::Output);
    assert!(client.input.len() > 100_000);
}

#[test]
fn a_fence_comes_after_all_and_before_all() {
    let mut talk = Talk::with(Settings::default(), 3);
    let mut client = talk.client();
    let asked = b"mset a 1 b 2 c 3\r\ndbsize\r\nflushall\r\nset d 4\r\ndbsize\r\nmsetnx d 1 e 2\r\nmsetnx e 2 f 3\r\ndbsize\r\n";
    let said = talk.say(&mut client, asked);
    assert_eq!(String::from_utf8(said).unwrap(), "+OK\r\n:3\r\n+OK\r\n+OK\r\n:1\r\n:0\r\n:1\r\n:3\r\n");
}

#[test]
fn nobody_comes_between_the_keys_of_msetnx() {
    let mut talk = Talk::new();
    let (mut first, mut second) = (talk.client(), talk.client());
    first.input = b"msetnx a 1 b 1\r\n".to_vec();
    assert_eq!(talk.step(&mut first), Pause::Outcomes);
    second.input = b"set b 2\r\n".to_vec();
    assert_eq!(talk.step(&mut second), Pause::Turn);
    assert_eq!(talk.say(&mut first, b""), b":1\r\n");
    assert_eq!(talk.say(&mut second, b"get b\r\n"), b"+OK\r\n$1\r\n2\r\n");
    // Who leaves in the middle keeps nobody out.
    first.input = b"msetnx x 1 y 1\r\n".to_vec();
    assert_eq!(talk.step(&mut first), Pause::Outcomes);
    talk.sessions.at(first.key).unwrap().close(&mut talk.front);
    assert_eq!(talk.say(&mut second, b"exists x y\r\n"), b":0\r\n");
}

#[test]
fn what_comes_after_quit_or_an_error_is_not_looked_at() {
    for (bytes, expected) in [
        (&b"quit\r\nset a b\r\n"[..], "+OK\r\n"),
        (b"*1\r\n:3\r\nset a b\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"POST / HTTP/1.1\r\nset a b\r\n", ""),
        (b"GET / HTTP/1.1\r\nHost: a\r\nset a b\r\n", "-ERR wrong number of arguments for 'get' command\r\n"),
    ] {
        let mut talk = Talk::new();
        let mut client = talk.client();
        let said = talk.say(&mut client, bytes);
        assert_eq!(String::from_utf8(said).unwrap(), expected);
        assert!(talk.sessions.at(client.key).unwrap().is_finished());
        let mut other = talk.client();
        assert_eq!(talk.ask(&mut other, "exists a"), ":0\r\n");
    }
}

#[test]
fn strangers_say_the_password_first() {
    let settings = Settings { password: Some(b"secret".to_vec()), ..Settings::default() };
    let mut talk = Talk::with(settings, 1);
    let mut client = talk.client();
    assert_eq!(talk.ask(&mut client, "get a"), "-NOAUTH Authentication required.\r\n");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(talk.ask(&mut client, "auth secreT"), wrong);
    assert_eq!(talk.ask(&mut client, "auth other secret"), wrong);
    assert_eq!(
        talk.ask(&mut client, "hello 3"),
        "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to \
         authenticate the client and select the RESP protocol version at the same time\r\n"
    );
    assert!(talk.ask(&mut client, "hello 3 auth default secret").starts_with("%7\r\n"));
    assert_eq!(talk.ask(&mut client, "get a"), "_\r\n");
    assert_eq!(talk.ask(&mut client, "reset"), "+RESET\r\n");
    assert_eq!(talk.ask(&mut client, "get a"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(talk.ask(&mut client, "auth secret"), "+OK\r\n");
}

#[test]
fn times_end_keys() {
    let mut talk = Talk::new();
    let mut client = talk.client();
    assert_eq!(talk.ask(&mut client, "set a 1 px 1500"), "+OK\r\n");
    assert_eq!(talk.ask(&mut client, "pttl a"), ":1500\r\n");
    assert_eq!(talk.ask(&mut client, "ttl a"), ":2\r\n");
    assert_eq!(talk.ask(&mut client, "pexpiretime a"), format!(":{}\r\n", WALL.0 + 1500));
    assert_eq!(talk.ask(&mut client, "expire a 10 gt"), ":1\r\n");
    assert_eq!(talk.ask(&mut client, "incr a"), ":2\r\n");
    assert_eq!(talk.ask(&mut client, "pttl a"), ":10000\r\n");
    talk.front.wall = WallMillis(WALL.0 + 10_000);
    assert_eq!(talk.ask(&mut client, "get a"), "$-1\r\n");
    assert_eq!(talk.ask(&mut client, "set a 1 keepttl"), "+OK\r\n");
    assert_eq!(talk.ask(&mut client, "ttl a"), ":-1\r\n");
    assert_eq!(talk.ask(&mut client, "expireat a 1"), ":1\r\n");
    assert_eq!(talk.ask(&mut client, "exists a"), ":0\r\n");
    assert_eq!(talk.ask(&mut client, "set a 1 exat 1"), "+OK\r\n");
    assert_eq!(talk.ask(&mut client, "exists a"), ":0\r\n");
}

#[test]
fn a_cache_without_drives_reads_and_refuses_writes() {
    let mut talk = Talk::new();
    talk.cache.is_read_only = true;
    let mut client = talk.client();
    let refused = "-ERR no drive of the cache takes writes\r\n";
    for line in ["set a 1", "del a b", "mset a 1 b 2", "incr a", "flushall", "getset a 1"] {
        assert_eq!(talk.ask(&mut client, line), refused, "{line}");
    }
    assert_eq!(talk.ask(&mut client, "mget a b"), "*2\r\n$-1\r\n$-1\r\n");
}

#[test]
fn what_clients_are_is_listed() {
    let mut talk = Talk::new();
    let (mut first, mut second) = (talk.client(), talk.client());
    assert_eq!(talk.ask(&mut first, "client setname one"), "+OK\r\n");
    assert_eq!(talk.ask(&mut second, "select 5"), "+OK\r\n");
    let list = talk.ask(&mut second, "client list");
    assert!(list.contains("id=1 ") && list.contains("name=one "), "{list}");
    assert!(list.contains("id=2 ") && list.contains("db=5 ") && list.contains("cmd=client|list "), "{list}");
    assert!(!talk.ask(&mut second, "client list id 1").contains("id=2 "));
    let info = talk.ask(&mut second, "info");
    for words in
        ["redis_version:7.0.15\r\n", "loading:0\r\n", "role:master\r\n", "# Zoneweave\r\ncache:heap\r\n"]
    {
        assert!(info.contains(words), "{info}");
    }
}

/// Lines of the golden conversation, and some that end it.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<Vec<u8>> = GOLDEN
        .lines()
        .filter_map(|line| line.strip_prefix("> "))
        .map(|line| format!("{line}\r\n").into_bytes())
        .chain([b"*1\r\n:1\r\n".to_vec(), b"quit\r\n".to_vec(), b"*2\r\n$3\r\nget\r\n$1\r\na\r\n".to_vec()])
        .collect();
    proptest::sample::select(lines)
}

proptest! {
    /// However bytes are cut, in whatever order outcomes come, and however few requests fit memory: the answers are the same.
    #[test]
    fn cuts_and_order_change_nothing(
        lines in proptest::collection::vec(line(), 0..60),
        mut cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..10),
        seeds: (u64, u64),
        per_turn in 1_usize..5,
        memory in prop_oneof![Just(0), Just(4096), Just(256 << 20)],
    ) {
        let bytes = lines.concat();
        let mut talk = Talk::with(Settings::default(), seeds.0);
        let mut client = talk.client();
        let whole = talk.say(&mut client, &bytes);
        let mut talk = Talk::with(Settings { client_memory_bytes: memory, ..Settings::default() }, seeds.1);
        talk.cache.answers_per_turn = per_turn;
        let mut client = talk.client();
        let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut from, mut said) = (0, Vec::new());
        for to in cuts.into_iter().chain([bytes.len()]) {
            said.extend(talk.say(&mut client, &bytes[from..to]));
            from = to;
        }
        prop_assert_eq!(String::from_utf8_lossy(&whole), String::from_utf8_lossy(&said));
        prop_assert!(talk.front.is_idle());
        prop_assert_eq!(talk.front.memory.used(), talk.front.memory.held);
    }

    /// Whatever bytes come, nothing breaks.
    #[test]
    fn any_bytes_are_answered_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut talk = Talk::new();
        let mut client = talk.client();
        talk.say(&mut client, &bytes);
        prop_assert!(talk.front.is_idle());
    }
}
