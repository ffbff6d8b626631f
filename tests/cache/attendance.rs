//! Caches that were without a server: alone, and behind a proxy that ejects them.

use crate::support::cache::CacheServer;
use crate::support::run::{SOON, command, kill, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{have, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn status(dir: &Path) -> Value {
    serde_json::from_str(&ask(&["cache", "status", text(dir), "--json"]).stdout).unwrap()
}

fn serve(dir: &Path, limit: &str) -> CacheServer {
    CacheServer::start(dir, &["up", "--dir", text(dir), "--size", "256MiB", "--forget-after", limit])
}

fn signal(server: &CacheServer, name: &str) {
    let process = server.child.id().to_string();
    assert!(run_for(SOON, command("kill").args([name, &process])).succeeded());
}

#[test]
fn a_cache_that_was_without_a_server_for_too_long_begins_empty() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-forgets");
    let dir = scratch.join("cache");
    let server = serve(&dir, "1h");
    assert_eq!(server.say(&["set", "a", "1"]), "OK\n");
    assert!(server.is_flushed());
    assert_eq!(status(&dir)["forget"]["absence"], Value::Null, "a new cache has nothing to forget");
    server.kill_9();
    let server = serve(&dir, "1h");
    assert_eq!(server.say(&["get", "a"]), "1\n", "nobody was away for an hour\n{}", server.log());
    server.kill_9();
    // What it holds may have been alone for longer than this server would have let it.
    let server = serve(&dir, "30m");
    assert_eq!(server.say(&["get", "a"]), "\n");
    assert_eq!(status(&dir)["absences"], 1);
    server.assert_says("forgotten (--forget-after");
    let words = ask(&["cache", "status", text(&dir)]).stdout;
    assert!(words.contains("forgotten everything that was stored before"), "{words}");
    assert_eq!(server.say(&["set", "b", "2"]), "OK\n");
    assert!(server.is_flushed());
    server.stop();
    std::fs::remove_file(dir.join("attendance")).unwrap();
    let server = serve(&dir, "30m");
    assert_eq!(server.say(&["mget", "a", "b"]), "\n\n", "nothing tells when it was served");
    assert_eq!(server.say(&["set", "c", "3"]), "OK\n");
    assert!(server.is_flushed());
    server.kill_9();
    let server = serve(&dir, "30m");
    assert_eq!(server.say(&["mget", "a", "b", "c"]), "\n\n3\n");
    server.stop();
}

#[test]
fn a_process_that_stood_still_for_too_long_forgets() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-stands-still");
    let dir = scratch.join("cache");
    let server = serve(&dir, "1s");
    assert_eq!(server.say(&["set", "a", "1"]), "OK\n");
    signal(&server, "-STOP");
    sleep(Duration::from_millis(1_200));
    signal(&server, "-CONT");
    assert_eq!(server.say(&["get", "a"]), "\n", "{}", server.log());
    server.assert_says("it was without a server for ");
    assert_eq!(server.say(&["set", "a", "2"]), "OK\n");
    assert!(server.is_flushed());
    server.kill_9();
    sleep(Duration::from_millis(1_200));
    let server = serve(&dir, "1s");
    assert_eq!(server.say(&["get", "a"]), "\n");
    server.stop();
}

/// A proxy before caches, which ejects one that refuses a connection, and asks it again after a while.
struct Proxy {
    child: Child,
    door: u16,
    is_redis: bool,
}

const KEYS: usize = 300;

impl Proxy {
    fn start(folder: &Path, places: &[String], is_redis: bool) -> Proxy {
        let door = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let servers: String = places.iter().map(|place| format!("    - {place}:1\n")).collect();
        let configuration = format!(
            "pool:\n  listen: 127.0.0.1:{door}\n  hash: murmur\n  distribution: ketama\n  redis: {is_redis}\n  \
             auto_eject_hosts: true\n  timeout: 2000\n  server_retry_timeout: 1000\n  server_failure_limit: 1\n  servers:\n{servers}"
        );
        let (file, log) = (folder.join("nutcracker.yml"), folder.join("nutcracker.log"));
        std::fs::write(&file, configuration).unwrap();
        let statistics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut proxy = command("nutcracker");
        proxy.args(["-c", text(&file), "-o", text(&log), "-s", &statistics, "-a", "127.0.0.1"]);
        proxy.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let proxy = Proxy { child: proxy.spawn().unwrap(), door, is_redis };
        assert!(
            until(SOON, || proxy.try_get("none").is_some()),
            "{}",
            std::fs::read_to_string(&log).unwrap()
        );
        proxy
    }

    /// Answer, once it is whole, which its last bytes tell; `None` for an error.
    fn say(&self, words: &str, is_whole: impl Fn(&str) -> bool) -> Option<String> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.door)).ok()?;
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket.write_all(words.as_bytes()).ok()?;
        let (mut said, mut bytes) = (String::new(), [0; 1024]);
        loop {
            let count = socket.read(&mut bytes).ok().filter(|count| *count > 0)?;
            said.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            if said.starts_with('-') || said.contains("ERROR") {
                return None;
            }
            if is_whole(&said) {
                return Some(said);
            }
        }
    }

    fn try_get(&self, key: &str) -> Option<Option<String>> {
        if self.is_redis {
            let line = |text: &str| text == "$-1\r\n" || text.matches("\r\n").count() == 2;
            let said = self.say(&format!("GET {key}\r\n").as_str().to_resp(), line)?;
            return Some(said.split("\r\n").nth(1).filter(|value| !value.is_empty()).map(str::to_owned));
        }
        let said = self.say(&format!("get {key}\r\n"), |text| text.ends_with("END\r\n"))?;
        Some(said.starts_with("VALUE").then(|| said.split("\r\n").nth(1).unwrap().to_owned()))
    }

    fn try_set(&self, key: &str, value: &str) -> Option<String> {
        let words = match self.is_redis {
            true => format!("SET {key} {value}\r\n").as_str().to_resp(),
            false => format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()),
        };
        self.say(&words, |text| text.ends_with("\r\n"))
    }

    fn try_delete(&self, key: &str) -> Option<String> {
        let words = match self.is_redis {
            true => format!("DEL {key}\r\n").as_str().to_resp(),
            false => format!("delete {key}\r\n"),
        };
        self.say(&words, |text| text.ends_with("\r\n"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// A line of words as clients of Redis send it; proxies know no other.
trait AsResp {
    fn to_resp(&self) -> String;
}

impl AsResp for str {
    fn to_resp(&self) -> String {
        let words: Vec<&str> = self.split_whitespace().collect();
        let all: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{all}", words.len())
    }
}

/// Does something again until it is done: a proxy answers with an error when it finds that a cache is gone.
fn surely<T>(what: impl Fn() -> Option<T>) -> T {
    let mut done = None;
    assert!(until(SOON, || {
        done = what();
        done.is_some()
    }));
    done.unwrap()
}

fn one_is_ejected_and_comes_back(name: &str, is_redis: bool) {
    if !have(&["redis-cli", "nutcracker"]) {
        return;
    }
    let scratch = Scratch::new(name);
    let folder = scratch.join("proxy");
    std::fs::create_dir(&folder).unwrap();
    let place =
        |number: usize| TcpListener::bind("127.0.0.1:0").map(|door| (number, door.local_addr().unwrap()));
    let places: Vec<(PathBuf, String)> = (0..3)
        .map(|number| place(number).unwrap())
        .map(|(number, door)| (folder.join(format!("cache{number}")), door.to_string()))
        .collect();
    let serve = |(dir, place): &(PathBuf, String)| {
        let (up, door) = (["up", "--dir", text(dir), "--size", "64MiB"], format!("tcp:{place}"));
        let listen = if is_redis { "--listen" } else { "--memcached" };
        CacheServer::start(dir, &[&up[..], &["--forget-after", "1s", listen, &door]].concat())
    };
    let mut servers: Vec<Option<CacheServer>> = places.iter().map(|place| Some(serve(place))).collect();
    let doors: Vec<String> = places.iter().map(|(_, place)| place.clone()).collect();
    let proxy = Proxy::start(&folder, &doors, is_redis);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
    keys.iter().for_each(|key| _ = surely(|| proxy.try_set(key, "old")));
    let held = |server: &CacheServer| server.say(&["dbsize"]).trim().parse::<usize>().unwrap();
    let share = held(servers[1].as_ref().unwrap());
    assert!((KEYS / 10..KEYS / 2).contains(&share), "{share} of {KEYS} keys are on one of three");
    let own = keys.iter().filter(|key| servers[1].as_ref().unwrap().say(&["exists", key]) == "1\n");
    let own: Vec<&String> = own.collect();
    assert!(servers[1].as_ref().unwrap().is_flushed());
    servers[1].take().unwrap().kill_9();
    // Half of the keys are deleted and half of them stored anew, those of the one that is gone elsewhere.
    let mut now = BTreeMap::new();
    for (number, key) in keys.iter().enumerate() {
        if number % 2 == 0 {
            surely(|| proxy.try_delete(key));
            now.insert(key, None);
        } else {
            surely(|| proxy.try_set(key, "new"));
            now.insert(key, Some("new".to_owned()));
        }
    }
    sleep(Duration::from_millis(1_200));
    servers[1] = Some(serve(&places[1]));
    let back = servers[1].as_ref().unwrap();
    back.assert_says("forgotten (--forget-after");
    // The proxy asks it again: then it is the one that answers for its keys, and it has none of them.
    assert!(until(SOON, || {
        surely(|| proxy.try_set(own[0], "new"));
        back.say(&["exists", own[0]]) == "1\n"
    }));
    now.insert(own[0], Some("new".to_owned()));
    let mut missed = 0;
    for (key, value) in &now {
        let found = surely(|| proxy.try_get(key));
        assert!(found.is_none() || found == *value, "{key}: {found:?} is stale, it is {value:?}");
        missed += usize::from(found.is_none() && value.is_some());
    }
    assert!(missed <= share, "{missed} keys are missed, and {share} were lost");
    servers.into_iter().flatten().for_each(CacheServer::stop);
}

#[test]
fn a_cache_behind_a_proxy_comes_back_without_what_it_missed() {
    one_is_ejected_and_comes_back("cache-proxy-resp", true);
}

#[test]
fn a_cache_behind_a_proxy_of_memcached_comes_back_without_what_it_missed() {
    one_is_ejected_and_comes_back("cache-proxy-memcached", false);
}
