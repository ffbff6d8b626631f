//! Exports that are kept in `array.toml`, and that come and go while an array is served.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use support::nbd::Client;
use support::run::{SOON, until};
use support::scratch::Scratch;
use support::server::{self, Server, ask};
use support::{md, text};

#[track_caller]
fn export(dir: &Path, options: &[&str]) -> Vec<Value> {
    let ran = ask(&[&["export", text(dir), "--json"], options].concat());
    assert_eq!(ran.code(), Some(0), "{ran}");
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let name = if options.contains(&"--remove") { "removed" } else { "exports" };
    answer[name].as_array().unwrap_or_else(|| panic!("no {name}: {answer}")).clone()
}

#[track_caller]
fn refused(dir: &Path, options: &[&str], code: i32, why: &str) {
    server::refused(&[&["export", text(dir)], options].concat(), code, why);
}

/// Kind, place and state of each.
fn in_short(exports: &[Value]) -> Vec<String> {
    let word = |export: &Value, key: &str| export[key].as_str().unwrap_or("-").to_owned();
    let short = |export| ["kind", "path", "state"].map(|key| word(export, key)).join(" ");
    exports.iter().map(short).collect()
}

fn file_of(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("array.toml")).unwrap()
}

fn log_array(scratch: &Scratch) -> PathBuf {
    let dir = scratch.join("a");
    ask(&["create", text(&dir), "--size", "256MiB"]).expect("create");
    dir
}

fn md_array(scratch: &Scratch) -> PathBuf {
    md::create(scratch, "5", &md::blanks(scratch, 3), &[])
}

#[test]
fn exports_come_and_go() {
    come_and_go(log_array);
}

#[test]
fn exports_of_an_md_array_come_and_go() {
    come_and_go(md_array);
}

fn come_and_go(create: impl FnOnce(&Scratch) -> PathBuf) {
    let scratch = Scratch::new("exports");
    let dir = create(&scratch);
    let as_created = file_of(&dir);
    assert!(export(&dir, &[]).is_empty());
    // Before there is a server it is written down.
    let early = scratch.join("early.sock");
    let options = ["--vhost-user", text(&early), "--block-size", "512"];
    for _ in 0..2 {
        let made = export(&dir, &options);
        assert_eq!(in_short(&made), [format!("vhost-user {} not served", early.display())]);
        assert_eq!(made[0]["block_size"], 512);
    }
    assert_eq!(file_of(&dir).matches("vhost-user").count(), 1, "{}", file_of(&dir));
    let server = Server::serve(&dir);
    let usual = format!("nbd unix:{} served", server.socket().display());
    assert_eq!(in_short(&export(&dir, &[])), [usual, format!("vhost-user {} served", early.display())]);

    // In service it is there at once, and again when the server was killed.
    let (late, more) = (scratch.join("late.sock"), scratch.join("more.sock"));
    let place = format!("unix:{}", more.display());
    let mut client = server.client();
    for _ in 0..2 {
        assert_eq!(in_short(&export(&dir, &["--nbd", &place])), [format!("nbd {place} served")]);
        let made = export(&dir, &["--vhost-user", text(&late)]);
        assert_eq!(in_short(&made), [format!("vhost-user {} served", late.display())]);
    }
    let data = vec![7; 1 << 20];
    Client::open(&more).unwrap().write(0, &data).unwrap();
    assert!(client.read(0, 1 << 20).unwrap() == data);
    server.kill_9();
    let server = Server::serve(&dir);
    assert_eq!(export(&dir, &[]).len(), 4);
    server.assert_holds(&data);
    assert!(Client::open(&more).unwrap().read(0, 1 << 20).unwrap() == data);

    // A machine that is connected keeps its disk.
    let machine = UnixStream::connect(&late).unwrap();
    let state = || export(&dir, &["--vhost-user", text(&late)])[0]["state"].clone();
    assert!(until(SOON, || state() == "connected"), "{}", server.log());
    refused(&dir, &["--vhost-user", text(&late), "--remove"], 5, "a virtual machine is connected");
    drop(machine);
    assert!(until(SOON, || state() == "served"), "{}", server.log());
    for count in [1, 0] {
        assert_eq!(export(&dir, &["--vhost-user", text(&late), "--remove"]).len(), count);
        assert_eq!(export(&dir, &["--nbd", &place, "--remove"]).len(), count);
    }
    assert!(until(SOON, || !late.exists() && !more.exists()), "{}", server.log());
    server.stop();
    export(&dir, &["--vhost-user", text(&early), "--remove"]);
    assert_eq!(file_of(&dir), as_created);
}

#[test]
fn status_tells_of_exports() {
    for (create, label) in
        [(log_array as fn(&Scratch) -> PathBuf, "export           "), (md_array, "export    ")]
    {
        let scratch = Scratch::new("status-exports");
        let dir = create(&scratch);
        let told = || -> Value {
            let ran = ask(&["status", text(&dir), "--json"]);
            assert_eq!(ran.code(), Some(0), "{ran}");
            serde_json::from_str(&ran.stdout).unwrap()
        };
        let exports = || told()["exports"].as_array().unwrap().clone();
        let machines = scratch.join("vm.sock");
        export(&dir, &["--vhost-user", text(&machines), "--block-size", "512"]);
        assert_eq!(in_short(&exports()), [format!("vhost-user {} not served", machines.display())]);

        let server = Server::serve_with(&dir, &["--cores", "2"]);
        let usual = format!("unix:{}", server.socket().display());
        let connections = || exports().iter().map(|own| own["connections"].as_u64()).collect::<Vec<_>>();
        assert_eq!(
            in_short(&exports()),
            [format!("nbd {usual} served"), format!("vhost-user {} served", machines.display())]
        );
        assert_eq!(connections(), [Some(0), Some(0)]);
        let all = told();
        for own in exports() {
            assert_eq!(own["size_bytes"], all["capacity_bytes"], "{own}");
        }
        assert!(exports()[0]["uri"].as_str().unwrap().starts_with("nbd+unix:///"), "{all}");
        assert_eq!(exports()[1]["block_size"], 512);

        let clients = [server.client(), server.client(), server.client()];
        let machine = UnixStream::connect(&machines).unwrap();
        assert!(until(SOON, || connections() == [Some(3), Some(1)]), "{}", told());
        let words = ask(&["status", text(&dir)]).stdout;
        let line = format!("\n{label}nbd {usual}: served, 3 connections\n");
        assert!(words.contains(&line), "{words}");
        let line = format!("\n{label}vhost-user {}: connected, 1 connection\n", machines.display());
        assert!(words.contains(&line), "{words}");
        drop(clients);
        drop(machine);
        assert!(until(SOON, || connections() == [Some(0), Some(0)]), "{}", told());
        server.stop();
    }
}

#[test]
fn exports_that_cannot_be_are_refused() {
    let scratch = Scratch::new("refused-exports");
    let dir = log_array(&scratch);
    let as_created = file_of(&dir);
    refused(&dir, &["--remove"], 2, "--remove wants what to remove");
    refused(&dir, &["--nvme-tcp", "127.0.0.1:4420", "--allow-any-host"], 6, "--ublk` first");
    refused(&dir, &["--nvme-tcp", "127.0.0.1:4420"], 2, "--allow-host NQN");
    refused(&dir, &["--nbd", "tcp:127.0.0.1:0"], 2, "port 0");
    refused(&dir, &["--nbd", "10809"], 2, "unix:PATH or tcp:HOST:PORT");
    refused(&dir, &["--ublk", "--vhost-user", "a"], 2, "cannot be used with");
    let server = Server::serve(&dir);
    let own = format!("unix:{}", server.socket().display());
    assert_eq!(export(&dir, &["--nbd", &own]).len(), 1, "it is there");
    let taken = scratch.join("file");
    std::fs::write(&taken, "mine").unwrap();
    refused(&dir, &["--vhost-user", text(&taken)], 2, "is not a socket");
    refused(&dir, &["--nvme-tcp", "127.0.0.1:4420", "--allow-any-host"], 6, "--ublk` first");
    let socket = scratch.join("vm.sock");
    export(&dir, &["--vhost-user", text(&socket)]);
    refused(&dir, &["--vhost-user", text(&socket), "--block-size", "512"], 5, "blocks of 4096 bytes");
    export(&dir, &["--vhost-user", text(&socket), "--remove"]);
    server.stop();
    std::fs::write(dir.join("array.toml"), as_created.replace("\"zoneweave\"", "[{ kind = \"iscsi\" }]"))
        .unwrap();
    let ran = ask(&["serve", text(&dir)]);
    assert!(ran.code() != Some(0) && ran.to_string().contains("expected one of `nbd`"), "{ran}");
}
