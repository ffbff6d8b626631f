//! Metrics over HTTP, as Prometheus reads them.

use crate::support::cache::CacheServer;
use crate::support::run::{SOON, command, wait_for};
use crate::support::scratch::Scratch;
use crate::support::server::{ask, refused};
use crate::support::{have, text};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Instant;

/// All that is said to `words`, behind which the client says nothing more.
fn talk(address: SocketAddr, words: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(words).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).unwrap();
    said
}

fn metrics(address: SocketAddr) -> String {
    let said = talk(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{said}");
    body.to_owned()
}

/// Address of the metrics, as the server says it.
fn address(server: &CacheServer) -> SocketAddr {
    server.assert_says("/metrics\n");
    let log = server.log();
    let line = log.lines().rev().find_map(|line| line.trim().strip_prefix("metrics   http://"));
    line.and_then(|rest| rest.strip_suffix("/metrics")).unwrap().parse().unwrap()
}

#[test]
fn prometheus_reads_what_the_server_says_of_itself() {
    if !have(&["redis-cli", "promtool"]) {
        return;
    }
    let scratch = Scratch::new("cache-metrics");
    let dir = scratch.join("cache");
    let served = ["up", "--dir", text(&dir), "--size", "256MiB", "--http", "tcp:127.0.0.1:0"];
    let server = CacheServer::start(&dir, &[&served[..], &["--namespace", "1:name=web,share=20%"]].concat());
    let address = address(&server);
    for index in 0..10 {
        assert_eq!(server.say(&["set", &format!("k{index}"), "v"]), "OK\n");
    }
    assert_eq!(server.say(&["-n", "1", "set", "k", "v"]), "OK\n");
    assert_eq!(server.say(&["mget", "k0", "k1", "nokey"]), "v\nv\n\n");
    // What a drive holds goes with it, and which objects that are depends on when batches are written.
    let said = metrics(address);
    assert!(said.contains("zoneweave_cache_namespace_objects{namespace=\"1\",name=\"web\"} 1\n"), "{said}");
    assert_eq!(ask(&["cache", "drive", "fail", text(&dir), "3"]).code(), Some(0));

    let said = metrics(address);
    let value = |name: &str| -> f64 {
        let lines = said.lines().filter_map(|line| line.strip_prefix("zoneweave_cache_")?.strip_prefix(name));
        let values = lines.filter(|rest| rest.starts_with([' ', '{']));
        values.map(|rest| rest.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    assert_eq!(
        (value("stores_total"), value("hits_total"), value("misses_total")),
        (11.0, 2.0, 1.0),
        "{said}"
    );
    assert_eq!((value("drives"), value("drive_up"), value("takes_writes")), (3.0, 3.0, 1.0), "{said}");
    assert!(value("memory_bytes") > 0.0 && value("memory_bytes") <= value("memory_max_bytes"), "{said}");

    let mut tool = command("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    tool.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    let ended = wait_for(SOON, &mut tool);
    let mut words = String::new();
    tool.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert!(ended.is_some_and(|status| status.success()) && words.is_empty(), "{words}\n{said}");
    server.stop();
}

#[test]
fn whoever_comes_to_the_metrics_is_answered_and_keeps_nobody_for_long() {
    let scratch = Scratch::new("cache-metrics-hostile");
    let dir = scratch.join("cache");
    let server = CacheServer::start(
        &dir,
        &["up", "--dir", text(&dir), "--size", "256MiB", "--http", "tcp:127.0.0.1:0"],
    );
    let address = address(&server);
    let line = |words: &[u8]| talk(address, words).lines().next().map(str::to_owned);
    assert_eq!(line(b"GET / HTTP/1.1\r\n\r\n").as_deref(), Some("HTTP/1.1 404 Not Found"));
    assert_eq!(line(b"*1\r\n$4\r\nPING\r\n\r\n").as_deref(), Some("HTTP/1.1 400 Bad Request"));
    assert_eq!(line(b"GET /metrics HTTP/1.1\r\n").as_deref(), Some("HTTP/1.1 400 Bad Request"));
    assert_eq!(line(&[0x16, 3, 1, 0xff, b'\n', b'\n']).as_deref(), Some("HTTP/1.1 400 Bad Request"));
    let begun = Instant::now();
    let silent = TcpStream::connect(address).unwrap();
    assert!(metrics(address).contains("zoneweave_cache_objects 0\n"));
    assert!(begun.elapsed() < SOON, "one that says nothing is given up");
    drop(silent);
    let dir = scratch.join("other");
    let taken = format!("tcp:{address}");
    refused(&["cache", "up", "--dir", text(&dir), "--size", "256MiB", "--http", &taken], 4, "--http");
    refused(&["cache", "up", "--dir", text(&dir), "--http", "unix:/tmp/x"], 2, "tcp:127.0.0.1:9121");
    server.stop();
}
