//! Clients that people use: nbdinfo, nbdcopy, qemu and Python's libnbd.

// Helpers may fail like the tests they help.
use crate::support::run::{SOON, command, run, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean};
use crate::support::{have, random, random_bytes, text};
use serde_json::Value;

const SIZE_BYTES: u64 = 256 << 20;
const MIB: usize = 1 << 20;

fn start(scratch: &Scratch) -> Server {
    Server::up(&scratch.join("array"), &["--size", "256MiB"])
}

#[test]
fn nbdinfo_sees_size_and_abilities() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let scratch = Scratch::new("info");
    let server = start(&scratch);
    let output = run("nbdinfo", &["--json", &server.uri()]).expect("nbdinfo");
    let info: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["structured"], true);
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], SIZE_BYTES);
    assert_eq!(export["is_read_only"], false);
    for ability in ["can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn"] {
        assert_eq!(export[ability], true, "{ability}: {output}");
    }
    assert_eq!(export["block_size_preferred"], 4096);
    let listed = run("nbdinfo", &["--list", "--json", &server.uri()]).expect("nbdinfo --list");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["exports"][0]["export-name"], "zoneweave");
    server.stop();
}

#[test]
fn exports_are_found_by_name_and_others_refused() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let scratch = Scratch::new("name");
    let server = start(&scratch);
    let named = |name: &str| format!("nbd+unix:///{name}?socket={}", text(&server.socket()));
    for name in ["", "zoneweave"] {
        let size = run("nbdinfo", &["--size", &named(name)]).expect("nbdinfo --size");
        assert_eq!(size.trim(), SIZE_BYTES.to_string());
    }
    let refused = run("nbdinfo", &["--size", &named("something-else")]);
    assert!(!refused.succeeded(), "{refused}");
    server.stop();
}

#[test]
fn nbdcopy_brings_files_in_and_out() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let scratch = Scratch::new("copy");
    let server = start(&scratch);
    let (original, copy) = (scratch.join("original"), scratch.join("copy"));
    let mut data = random_bytes(&mut random(1), 48 * MIB);
    // Holes are copied as zeros or not at all, and read as zeros either way.
    data[8 * MIB..16 * MIB].fill(0);
    std::fs::write(&original, &data).unwrap();
    for _ in 0..2 {
        run("nbdcopy", &["--flush", text(&original), &server.uri()]).expect("nbdcopy in");
        run("nbdcopy", &[&server.uri(), text(&copy)]).expect("nbdcopy out");
        let copied = std::fs::read(&copy).unwrap();
        assert_eq!(copied.len() as u64, SIZE_BYTES);
        assert!(copied[..data.len()] == data[..], "what was copied in differs");
        assert!(copied[data.len()..].iter().all(|&byte| byte == 0), "what was never written is not zero");
    }
    server.stop();
    assert_clean(&scratch.join("array"));
}

#[test]
fn qemu_converts_images_and_reads_patterns() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let scratch = Scratch::new("qemu");
    let server = start(&scratch);
    let (raw, image) = (scratch.join("raw"), scratch.join("image.qcow2"));
    std::fs::write(&raw, random_bytes(&mut random(2), 32 * MIB)).unwrap();
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", text(&raw), &server.uri()]).expect("in");
    let back = ["convert", "-f", "raw", "-O", "qcow2", &server.uri(), text(&image)];
    run("qemu-img", &back).expect("out");
    run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &server.uri(), text(&image)]).expect("compare");
    let commands = [
        "write -P 0xa5 64M 1M",
        "write -P 0x5a 67108000 5000",
        "write -f -P 0x11 70M 4k",
        "read -P 0x5a 67108000 5000",
        "read -P 0xa5 67113000 1000000",
        "discard 65M 64k",
        "write -z 70M 4k",
        "flush",
        "read -P 0 70M 4k",
    ];
    let mut qemu_io = command("qemu-io");
    qemu_io.args(["-f", "raw"]);
    for line in commands {
        qemu_io.args(["-c", line]);
    }
    let output = run_for(SOON, qemu_io.arg(server.uri())).expect("qemu-io");
    assert!(!output.contains("failed"), "{output}");
    server.stop();
    assert_clean(&scratch.join("array"));
}

/// Trims, zeroes, flushes and FUA with structured replies and without.
const PYTHON: &str = r#"
import nbd, sys
for structured in (True, False):
    h = nbd.NBD()
    h.set_request_structured_replies(structured)
    h.connect_uri(sys.argv[1])
    assert h.get_structured_replies_negotiated() == structured
    assert h.get_size() == 256 << 20
    data = bytes(range(256)) * 1024
    h.pwrite(data, 4096)
    h.flush()
    assert h.pread(len(data), 4096) == data
    h.pwrite(b"x" * 512, 8192 + 100, nbd.CMD_FLAG_FUA)
    expected = bytearray(data)
    expected[4196:4708] = b"x" * 512
    assert h.pread(len(data), 4096) == bytes(expected)
    h.trim(65536, 16384, nbd.CMD_FLAG_FUA)
    expected[12288:12288 + 65536] = bytes(65536)
    assert h.pread(len(data), 4096) == bytes(expected), "trimmed blocks read zero"
    h.zero(100000, 100001)
    expected[100001 - 4096:200001 - 4096] = bytes(100000)
    assert h.pread(len(data), 4096) == bytes(expected), "zeroing by the byte"
    h.zero(4096, 4096, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
    expected[0:4096] = bytes(4096)
    assert h.pread(len(data), 4096) == bytes(expected)
    # Never written: zero. Far from anything written: also zero.
    assert h.pread(1 << 20, 200 << 20) == bytes(1 << 20)
    if structured:
        chunks = []
        buffer = h.pread_structured(len(data), 4096, lambda b, o, s, e: chunks.append((o, len(b))))
        assert buffer == bytes(expected)
        assert chunks and min(offset for offset, _ in chunks) >= 4096
    for offset, length in (((256 << 20) - 512, 1024), (256 << 20, 1)):
        h.set_strict_mode(0)
        for action in (lambda: h.pwrite(bytes(length), offset), lambda: h.pread(length, offset)):
            try:
                action()
            except nbd.Error:
                pass
            else:
                raise AssertionError("beyond the end")
    assert h.pread(len(data), 4096) == bytes(expected), "errors leave the connection usable"
    h.trim(1 << 20, 0)
    h.flush()
    h.shutdown()
print("done")
"#;

#[test]
fn libnbd_trims_zeroes_and_forces() {
    // Debian's libnbd is there for Debian's Python.
    let python = "/usr/bin/python3";
    if !run(python, &["-c", "import nbd"]).succeeded() {
        crate::support::skip("python3-libnbd is not installed");
        return;
    }
    let scratch = Scratch::new("libnbd");
    let server = start(&scratch);
    let output = run(python, &["-c", PYTHON, &server.uri()]).expect("libnbd");
    assert_eq!(output.trim(), "done");
    server.stop();
    assert_clean(&scratch.join("array"));
}

#[test]
fn tcp_serves_the_same_and_up_tells_how() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let scratch = Scratch::new("tcp");
    let dir = scratch.join("array");
    // The helper listens on a socket; the second server, on TCP, is started by hand.
    start(&scratch).stop();
    let mut server = crate::support::server::zoneweave();
    let log = scratch.join("out");
    let port = free_port();
    server.args(["up", "--dir", text(&dir), "--listen", &format!("tcp:127.0.0.1:{port}")]);
    let mut child = server.stdout(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let uri = format!("nbd://127.0.0.1:{port}");
    let answered = crate::support::run::until(SOON, || run("nbdinfo", &["--size", &uri]).succeeded());
    // The server listens before it prints how to reach it, so a client can be faster than the lines.
    let read_log = || std::fs::read_to_string(&log).unwrap();
    crate::support::run::until(SOON, || read_log().contains("fio "));
    let said = read_log();
    crate::support::run::kill(&mut child);
    assert!(answered, "{said}");
    assert!(said.contains(&uri), "the URI is printed: {said}");
    assert!(said.contains("nbdinfo ") && said.contains("fio "), "two example commands: {said}");
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
