//! A cache with more cores than one: clients on all of them see one cache, and are seen as one crowd.

use crate::support::cache::{CacheServer, assert_clean, talk};
use crate::support::cache_shadow::{Client, Shadow};
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{have, text};
use std::path::Path;

const CLIENTS: usize = 6;
/// All that cores and shards can be to one another: cores, and what is said of shards.
const KINDS: [(&str, &[&str]); 4] =
    [("3", &["--shards", "1"]), ("3", &[]), ("2", &[]), ("1", &["--shards", "2"])];

fn up(dir: &Path, cores: &str, more: &[&str]) -> CacheServer {
    let options = ["up", "--dir", text(dir), "--size", "256MiB", "--cores", cores];
    CacheServer::start(dir, &[&options[..], more].concat())
}

fn said(client: &mut Client, words: &[&[u8]]) -> String {
    let answer = client.call(words).unwrap().unwrap_or_default();
    String::from_utf8(answer).unwrap()
}

/// Value of a line of INFO.
fn figure(client: &mut Client, name: &str) -> u64 {
    let text = said(client, &[b"info"]);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
}

#[test]
fn clients_of_all_cores_see_one_cache() {
    for (number, (cores, shards)) in KINDS.iter().enumerate() {
        let scratch = Scratch::new(&format!("cache-cores-{number}"));
        assert_one_cache(&scratch.join("cache"), cores, shards);
    }
}

#[track_caller]
fn assert_one_cache(dir: &Path, cores: &str, shards: &[&str]) {
    let server = up(dir, cores, shards);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(said(client, &[b"set", format!("k{index}").as_bytes(), b"v"]), "+OK");
    }
    for client in &mut clients {
        for index in 0..CLIENTS {
            assert_eq!(said(client, &[b"get", format!("k{index}").as_bytes()]), "v");
        }
        assert_eq!(said(client, &[b"dbsize"]), format!(":{CLIENTS}"));
    }
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| (0..500).for_each(|_| drop(client.call(&[b"incr", b"counter"]).unwrap())));
        }
    });
    assert_eq!(said(&mut clients[0], &[b"get", b"counter"]), (500 * CLIENTS).to_string());
    assert_eq!(said(&mut clients[1], &[b"flushall"]), "+OK");
    for client in &mut clients {
        assert_eq!((said(client, &[b"dbsize"]), client.call(&[b"get", b"k0"]).unwrap()), (":0".into(), None));
    }
    server.stop();
    assert_clean(dir);
}

#[test]
fn clients_of_all_cores_are_told_of_and_ended_from_each() {
    let scratch = Scratch::new("cache-cores-crowd");
    let dir = scratch.join("cache");
    let door = dir.with_extension("memcached");
    let server = up(&dir, "3", &["--memcached", &format!("unix:{}", text(&door))]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let ids: Vec<String> = clients.iter_mut().map(|client| said(client, &[b"client", b"id"])).collect();
    for client in &mut clients {
        let list = said(client, &[b"client", b"list"]);
        for id in &ids {
            let id = format!("id={} ", id.trim_start_matches(':'));
            assert!(list.lines().any(|line| line.starts_with(&id)), "{id}: {list}");
        }
        assert_eq!(figure(client, "connected_clients"), CLIENTS as u64);
        assert!(figure(client, "total_commands_processed") >= CLIENTS as u64);
        drop(client.call(&[b"get", b"nothing"]).unwrap());
    }
    assert_eq!(figure(&mut clients[0], "keyspace_misses"), CLIENTS as u64);
    let stats = talk(&door, "stats\r\nquit\r\n");
    assert!(stats.contains(&format!("STAT get_misses {CLIENTS}\r\n")), "{stats}");
    assert!(stats.contains("STAT threads 3\r\n"), "{stats}");
    assert_eq!(said(&mut clients[1], &[b"config", b"resetstat"]), "+OK");
    for client in &mut clients {
        assert_eq!(figure(client, "keyspace_misses"), 0);
    }
    // The last one ends all others, wherever they are, and they are gone for it at once.
    let mut last = clients.pop().unwrap();
    assert_eq!(said(&mut last, &[b"client", b"kill", b"type", b"normal"]), format!(":{}", CLIENTS - 1));
    assert_eq!(figure(&mut last, "connected_clients"), 1);
    for mut client in clients {
        assert!(client.call(&[b"ping"]).is_err(), "it was told to end");
    }
    let status = ask(&["cache", "status", text(&dir), "--json"]).stdout;
    assert!(status.contains("\"cores\":3"), "{status}");
    server.stop();
}

#[test]
fn a_timeout_holds_on_all_cores() {
    assert_ended_after_timeout("3");
}

#[test]
fn a_timeout_holds_where_nothing_else_happens() {
    assert_ended_after_timeout("1");
}

#[track_caller]
fn assert_ended_after_timeout(cores: &str) {
    let scratch = Scratch::new(&format!("cache-timeout-{cores}"));
    let server = up(&scratch.join("cache"), cores, &[]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    assert_eq!(said(&mut clients[0], &[b"config", b"set", b"timeout", b"1"]), "+OK");
    for mut client in clients {
        // The end of the connection comes by itself.
        assert!(client.is_ended(), "it rested for longer than its timeout");
    }
    server.stop();
}

/// Without exclusion over cores both would find no key, and both would store.
#[test]
fn one_of_two_that_store_only_new_keys_wins() {
    let scratch = Scratch::new("cache-cores-msetnx");
    let server = up(&scratch.join("cache"), "3", &[]);
    let (mut first, mut second) = (server.client(), server.client());
    for round in 0..300 {
        // The tag keeps them in one shard.
        let (a, b) = (format!("{{{round}}}a"), format!("{{{round}}}b"));
        let store = |client: &mut Client, who: &[u8]| {
            said(client, &[b"msetnx", a.as_bytes(), who, b.as_bytes(), who]) == ":1"
        };
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(|| store(&mut first, b"first"));
            let other = store(&mut second, b"second");
            (one.join().unwrap(), other)
        });
        assert!(one != other, "round {round}: both {one}");
        let winner = if one { "first" } else { "second" };
        assert_eq!(said(&mut first, &[b"get", a.as_bytes()]), winner);
        assert_eq!(said(&mut second, &[b"get", b.as_bytes()]), winner);
    }
    server.stop();
}

#[test]
fn what_was_stored_over_many_cores_is_there_after_kill_9_and_after_a_stop_under_load() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-cores-kill9");
    let dir = scratch.join("cache");
    let mut server = up(&dir, "3", &[]);
    let mut shadow = Shadow::new();
    for round in 0..4 {
        shadow.change(&server, 400);
        if round % 2 == 0 {
            server.kill_9();
        } else {
            let writers: Vec<_> = (0..3).map(|_| server.client()).collect();
            let writers = writers.into_iter().map(|mut client| {
                std::thread::spawn(move || while client.call(&[b"set", b"load", &[b'x'; 5000]]).is_ok() {})
            });
            let writers: Vec<_> = writers.collect();
            server.stop();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert_clean(&dir);
        }
        let cores = ["2", "1", "4", "3"][round];
        server = CacheServer::start(&dir, &["serve", text(&dir), "--cores", cores]);
        shadow.verify(&server);
    }
    server.stop();
}
