//! A cache in the hands of Redis' own clients: what they store is there after kill -9, and what they delete is not.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::run::{SOON, command, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{have, text};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

#[test]
fn what_is_deleted_stays_deleted_over_kill_9() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-kill9");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    for index in 0..200 {
        let (key, value) = (format!("k{index}"), format!("first-{index}"));
        assert_eq!(server.say(&["set", &key, &value]), "OK\n");
    }
    // A page leaves some milliseconds after its first record; what is deleted now is on the drives.
    assert!(until(SOON, || server.say(&["info", "zoneweave"]).contains("buffer_bytes:0\r\n")));
    for index in 0..200 {
        let key = format!("k{index}");
        match index % 4 {
            0 => assert_eq!(server.say(&["del", &key]), "1\n"),
            1 => assert_eq!(server.say(&["set", &key, "second"]), "OK\n"),
            2 => assert_eq!(server.say(&["pexpire", &key, "1"]), "1\n"),
            _ => {}
        }
    }
    server.kill_9();
    let server = CacheServer::serve(&dir);
    let mut kept = 0;
    for index in 0..200 {
        let found = server.say(&["get", &format!("k{index}")]);
        match index % 4 {
            0 | 2 => assert_eq!(found, "\n", "k{index} came back"),
            1 => assert!(found == "second\n" || found == "\n", "k{index} is {found}"),
            _ => {
                assert!(found == format!("first-{index}\n") || found == "\n", "k{index} is {found}");
                kept += u32::from(found != "\n");
            }
        }
    }
    assert!(kept >= 45, "{kept} of 50 that nobody touched are there");
    assert_eq!(server.say(&["flushall"]), "OK\n");
    server.kill_9();
    let server = CacheServer::serve(&dir);
    assert_eq!(server.say(&["dbsize"]), "0\n");
    assert_eq!(server.say(&["get", "k3"]), "\n");
    server.stop();
    assert_clean(&dir);
}

/// Stores that the media answer are there after kill -9 at once, and what the media cannot answer is refused at the start.
#[test]
fn what_the_media_have_answered_is_there_after_kill_9() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-media");
    let dir = scratch.join("cache");
    let mut server =
        CacheServer::start(&dir, &["up", "--dir", text(&dir), "--size", "256MiB", "--acknowledge", "media"]);
    let status = ask(&["cache", "status", text(&dir), "--json"]).stdout;
    assert!(status.contains("\"acknowledge\":\"media\""), "{status}");
    for round in 0..5 {
        for index in 0..20 {
            let (key, value) = (format!("k{round}-{index}"), format!("v{index}"));
            assert_eq!(server.say(&["set", &key, &value]), "OK\n");
            assert_eq!(server.say(&["set", "same", &key]), "OK\n");
        }
        server.kill_9();
        server = CacheServer::start(&dir, &["serve", text(&dir), "--acknowledge", "media"]);
        assert_eq!(server.say(&["get", "same"]), format!("k{round}-19\n"));
        for index in 0..20 {
            assert_eq!(server.say(&["get", &format!("k{round}-{index}")]), format!("v{index}\n"));
        }
    }
    server.stop();
    assert_clean(&dir);
    let refused = ask(&["cache", "serve", text(&dir), "--acknowledge", "media", "--admission", "second"]);
    assert_eq!(refused.code(), Some(2), "{refused}");
    assert!(refused.stderr.contains("--admission all"), "{refused}");
}

#[test]
fn what_nobody_reads_is_not_written() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-admission");
    let dir = scratch.join("cache");
    let server =
        CacheServer::start(&dir, &["up", "--dir", text(&dir), "--size", "256MiB", "--admission", "second"]);
    let found = |server: &CacheServer, index: u32| server.say(&["get", &format!("k{index}")]);
    for index in 0..40 {
        assert_eq!(server.say(&["set", &format!("k{index}"), "value"]), "OK\n");
    }
    let status = || ask(&["cache", "status", text(&dir)]).stdout;
    assert!(status().contains("admission second, 40 objects in memory alone"), "{}", status());
    (0..10).for_each(|index| assert_eq!(found(&server, index), "value\n"));
    assert!(status().contains("admission second, 30 objects in memory alone"), "{}", status());
    assert_eq!(server.say(&["dbsize"]), "40\n");
    assert!(until(SOON, || server.say(&["info", "zoneweave"]).contains("buffer_bytes:0\r\n")));
    server.kill_9();
    let server = CacheServer::serve(&dir);
    (0..10).for_each(|index| assert_eq!(found(&server, index), "value\n", "k{index} was read"));
    (10..40).for_each(|index| assert_eq!(found(&server, index), "\n", "k{index} was on no drive"));
    server.stop();
    assert_clean(&dir);
}

#[test]
fn the_benchmark_of_redis_runs() {
    if !have(&["redis-cli", "redis-benchmark"]) {
        return;
    }
    let scratch = Scratch::new("cache-benchmark");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    for options in [["-P", "16", "-d", "100"], ["-P", "1", "-d", "10000"]] {
        let mut benchmark = command("redis-benchmark");
        benchmark.args([
            "-s",
            text(&server.socket),
            "-t",
            "set,get,incr",
            "-n",
            "5000",
            "-r",
            "1000",
            "--csv",
        ]);
        let said = run_for(SOON, benchmark.args(options)).expect("redis-benchmark");
        for test in ["SET", "GET", "INCR"] {
            assert!(said.contains(&format!("\"{test}\"")), "{said}");
        }
    }
    let status = ask(&["cache", "status", text(&dir), "--json"]).expect("status");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["served"], true);
    assert!(status["stores"].as_u64().unwrap() >= 15_000, "{status:#}");
    assert_eq!(status["damaged"], 0);
    assert!(status["batch_bytes"].as_u64().unwrap() >= 4096, "{status:#}");
    assert!(status.pointer("/zones/streams/young/oldest_seconds").unwrap().is_u64(), "{status:#}");
    assert!(status.pointer("/recovery/seconds").unwrap().as_f64().unwrap() > 0.0, "{status:#}");
    let words = ask(&["cache", "status", text(&dir)]).expect("status");
    assert!(words.contains(" young, the oldest of ") && words.contains(" on the mean"), "{words}");
    server.stop();
    let status = ask(&["cache", "status", text(&dir), "--json"]).expect("status");
    assert!(status.contains("\"served\":false"), "{status}");
    assert_clean(&dir);
}

/// Clients that send halves of commands, or do not read, hold a bounded memory, and others are answered meanwhile.
#[test]
fn clients_that_misbehave_hold_up_nobody() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-hostile");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    let connect = || UnixStream::connect(&server.socket).unwrap();
    // Nobody reads the answers to these.
    let mut deaf = connect();
    deaf.set_nonblocking(true).unwrap();
    let pings = b"ping\r\n".repeat(10_000);
    let taken = (0..1000).take_while(|_| deaf.write(&pings).is_ok()).count();
    assert!(taken < 1000, "a server that takes 60 MB of commands and is not read from holds their answers");
    // Together these would hold 60 MB, where clients have 16 MiB.
    let half = [&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$400000\r\n"[..], &[b'x'; 200_000]].concat();
    let halves: Vec<UnixStream> = (0..300)
        .map(|_| {
            let mut client = connect();
            client.set_nonblocking(true).unwrap();
            let _as_much_as_it_takes = client.write(&half);
            client
        })
        .collect();
    assert_eq!(server.say(&["set", "b", "1"]), "OK\n");
    let info = server.say(&["info", "clients"]);
    let held = info.lines().find_map(|line| line.strip_prefix("client_memory_bytes:")).unwrap();
    assert!(held.parse::<u64>().unwrap() < 20 << 20, "{info}");
    drop(halves);
    assert!(until(SOON, || server.say(&["info", "clients"]).contains("connected_clients:2\r\n")));
    assert_eq!(server.say(&["get", "b"]), "1\n");
    assert_eq!(server.say(&["get", "a"]), "\n");
    let mut whole = connect();
    whole.write_all(b"*1\r\n$-5\r\nget b\r\n").unwrap();
    let mut said = String::new();
    whole.read_to_string(&mut said).unwrap();
    assert_eq!(said, "-ERR Protocol error: invalid bulk length\r\n");
    drop(deaf);
    server.stop();
}

#[test]
fn mistakes_are_named() {
    let scratch = Scratch::new("cache-mistakes");
    let dir = scratch.join("cache");
    assert_eq!(ask(&["cache", "serve", text(&dir)]).code(), Some(6));
    assert_eq!(ask(&["cache", "create", text(&dir), "--drives", "0"]).code(), Some(2));
    ask(&["cache", "create", text(&dir), "--drives", "2", "--size", "64MiB"]).expect("create");
    assert_eq!(ask(&["cache", "create", text(&dir)]).code(), Some(4));
    assert_clean(&dir);
    let door = format!("unix:{}", text(&scratch.join("door")));
    let wrong: [&[&str]; 5] = [
        &["--admission", "auto"],
        &["--admission", "second", "--endurance", "1TB/day"],
        &["--endurance", "1TB"],
        &["--object-max", "1GiB"],
        &["--object-max", "64MiB", "--listen", &door],
    ];
    for options in wrong {
        let refused = ask(&[&["cache", "serve", text(&dir)], options].concat());
        assert!(refused.code() == Some(2) && refused.stderr.contains(options[0]), "{options:?}: {refused}");
    }
    let array = scratch.join("array");
    std::fs::create_dir(&array).unwrap();
    std::fs::write(array.join("array.toml"), "").unwrap();
    let refused = ask(&["cache", "create", text(&array)]);
    assert!(refused.code() == Some(4) && refused.stderr.contains("holds an array"), "{refused}");
    // What could not be served is not made.
    let unmade = scratch.join("unmade");
    let unservable: [&[&str]; 4] = [
        &["--object-max", "64MiB"],
        &["--profile", "nosuch"],
        &["--profile", "conventional-nvme"],
        &["--namespace", "1:share=1%"],
    ];
    for options in unservable {
        let up = ["cache", "up", "--dir", text(&unmade), "--size", "64MiB", "--listen", &door];
        let refused = ask(&[&up, options].concat());
        assert!(!refused.succeeded() && !unmade.exists(), "{options:?}: {refused}");
    }
    // Nor is a cache taken for a place for an array, not even by force.
    let dir = text(&dir);
    let of_arrays: [&[&str]; 6] = [
        &["create", dir, "--force"],
        &["up", "--dir", dir],
        &["serve", dir],
        &["status", dir],
        &["assemble", dir],
        &["md", "assemble", dir, "/dev/null"],
    ];
    for command in of_arrays {
        let refused = ask(command);
        assert!(
            refused.code() == Some(4) && refused.stderr.contains("holds a cache"),
            "{command:?}: {refused}"
        );
    }
    ask(&["cache", "check", dir]).expect("check");
    assert_eq!(ask(&["stop", dir]).code(), Some(6));
    let said = ask(&["cache", "status", dir]);
    assert!(
        said.succeeded()
            && said.stdout.contains("served    no")
            && said.stdout.matches(" there\n").count() == 2,
        "{said}"
    );
    let server = CacheServer::serve(Path::new(dir));
    let said = ask(&["cache", "status", dir]);
    // Clients have the rest of 64 MiB.
    assert!(said.succeeded() && said.stdout.contains(" of 48 MiB: "), "{said}");
    ask(&["stop", dir]).expect("stop");
    server.assert_says("stopped; what goes to flash is on the drives");
}

/// Values of the length that is announced as the longest are stored, and found again.
#[test]
fn the_longest_value_is_stored() {
    let shapes: [(&[&str], &[&str]); 4] = [
        (&["--size", "64MiB"], &[]),
        (&["--size", "256MiB", "--zone-size", "10MiB", "--drives", "2"], &["--memory", "40MiB"]),
        (
            &["--size", "1GiB", "--zone-size", "33MiB", "--drives", "2"],
            &["--object-max", "16MiB", "--memory", "256MiB"],
        ),
        (
            &["--size", "256MiB", "--zone-size", "16MiB", "--drives", "1", "--shards", "2"],
            &["--memory", "96MiB"],
        ),
    ];
    for (number, (shape, options)) in shapes.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("cache-longest-{number}"));
        let dir = scratch.join("cache");
        let server = CacheServer::start(&dir, &[&["up", "--dir", text(&dir)], shape, options].concat());
        let mut client = server.client();
        let said = server.say(&["config", "get", "proto-max-bulk-len"]);
        let longest: usize =
            said.lines().last().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{said}"));
        assert!(longest > 100_000, "{longest}");
        for key in [vec![b'k'; 2048], b"k".to_vec()] {
            let value = vec![b'v'; longest];
            assert_eq!(
                client.call(&[b"SET", &key, &value]).unwrap().as_deref(),
                Some(&b"+OK"[..]),
                "{longest}"
            );
            assert!(client.call(&[b"GET", &key]).unwrap().is_some_and(|found| found == value), "{longest}");
        }
        let said = client.call(&[b"SET", &[b'k'; 2049], b"v"]).unwrap().unwrap_or_default();
        assert!(
            said.starts_with(b"-ERR the key is longer than 2048 bytes"),
            "{}",
            String::from_utf8_lossy(&said)
        );
        server.stop();
        // What is enough already is not asked for.
        let asked = ["cache", "serve", text(&dir), "--object-max", "256MiB", "--memory", "16GiB"];
        let refused = ask(&asked);
        assert!(refused.stderr.contains("ones need drives that were made with --zone-size"), "{refused}");
        // With more of it the cache is not served, and the words say what would do.
        let refused = ask(&["cache", "serve", text(&dir), "--object-max", "512MiB"]);
        assert!(refused.code() == Some(2) && refused.stderr.contains("--zone-size"), "{refused}");
    }
}
