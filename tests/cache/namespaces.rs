//! Namespaces with shares, from the command line to what clients see.

use crate::support::cache::{CacheServer, assert_clean, talk};
use crate::support::run::{SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::{ask, refused};
use crate::support::{have, text};
use serde_json::Value;
use std::path::Path;

fn status(dir: &Path) -> Value {
    let finished = ask(&["cache", "status", text(dir), "--json"]);
    assert_eq!(finished.code(), Some(0), "{finished}");
    serde_json::from_str(&finished.stdout).unwrap()
}

#[test]
fn a_namespace_has_a_share_an_end_and_a_door_of_its_own() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-namespaces");
    let (dir, door) = (scratch.join("cache"), scratch.join("web.sock"));
    let own =
        format!("3:name=web,share=30%,memory=20%,eviction=fifo,ttl-max=1h,memcached=unix:{}", text(&door));
    let options = ["--namespace", &own, "--namespace", "5:ttl-max=2d"];
    let server =
        CacheServer::start(&dir, &[&["up", "--dir", text(&dir), "--size", "1GiB"], &options[..]].concat());
    assert_eq!(server.say(&["-n", "3", "set", "a", "web"]), "OK\n");
    assert_eq!(server.say(&["-n", "5", "set", "a", "five", "ex", "60"]), "OK\n");
    assert_eq!(server.say(&["set", "a", "zero"]), "OK\n");
    let ends = |database: &str| -> i64 { server.say(&["-n", database, "ttl", "a"]).trim().parse().unwrap() };
    assert!((3590..=3600).contains(&ends("3")) && (50..=60).contains(&ends("5")) && ends("0") == -1);
    assert_eq!(server.say(&["-n", "3", "persist", "a"]), "1\n");
    assert!((3590..=3600).contains(&ends("3")), "no object of it lives longer");

    let said = talk(&door, "get a\r\nset b 0 0 3\r\nmem\r\nquit\r\n");
    assert_eq!(said, "VALUE a 0 3\r\nweb\r\nEND\r\nSTORED\r\n");
    assert_eq!(server.say(&["-n", "3", "get", "b"]), "mem\n");
    assert_eq!(server.say(&["-n", "3", "get", "c"]), "\n");

    assert!(until(SOON, || status(&dir)["namespaces"][1]["zones"].as_u64() >= Some(1)), "{}", status(&dir));
    let all = status(&dir)["namespaces"].clone();
    let web = &all[1];
    assert_eq!(
        (&web["namespace"], &web["name"], &web["eviction"]),
        (&3.into(), &"web".into(), &"fifo".into())
    );
    assert_eq!((&web["share_percent"], &web["memory_percent"]), (&30.into(), &20.into()));
    assert_eq!((&web["objects"], &web["stores"], &web["misses"]), (&2.into(), &3.into(), &1.into()));
    assert_eq!(web["ttl_max_ms"], 3_600_000);
    assert!(web["zones_max"].as_u64().unwrap() >= 8, "{web}");
    assert!(server.say(&["info", "zoneweave"]).contains("namespace_3:name=web,hits="));
    let words = ask(&["cache", "status", text(&dir)]);
    assert!(words.stdout.contains("namespace 3 (web): 2 objects, 3 stores"), "{words}");
    assert!(server.is_flushed());
    server.kill_9();
    // Another server without shares has all of it.
    let server = CacheServer::serve(&dir);
    assert_eq!(server.say(&["-n", "3", "mget", "a", "b"]), "web\nmem\n");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn namespaces_that_cannot_be_are_refused() {
    let scratch = Scratch::new("cache-no-namespaces");
    let dir = scratch.join("cache");
    let made = ask(&["cache", "create", text(&dir), "--size", "256MiB"]);
    assert_eq!(made.code(), Some(0), "{made}");
    let refused = |options: &[&str], why: &str| {
        refused(&[&["cache", "serve", text(&dir)], options].concat(), 2, why);
    };
    refused(&["--namespace", "16:share=10%"], "namespaces are 0 to 15");
    refused(&["--namespace", "1:share=50%", "--namespace", "1:share=10%"], "namespace 1 is given twice");
    refused(&["--namespace", "1:share=50%", "--namespace", "2:share=50%"], "add up to 100 %");
    refused(&["--namespace", "1:share=1%"], "use share=");
    let many: Vec<String> = (0..16).map(|number| format!("{number}:ttl-max=1h")).collect();
    let many: Vec<&str> = many.iter().flat_map(|option| ["--namespace", option]).collect();
    refused(&many, "16 namespaces have shares; 8 may");
}
