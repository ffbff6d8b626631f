//! `serve --record FILE`: what clients asked for, as a trace that the lab replays.

use crate::support::run::{SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, zoneweave};
use crate::support::text;

#[test]
fn a_record_has_what_clients_asked_for_and_the_lab_replays_it() {
    let scratch = Scratch::new("record");
    let (dir, file) = (scratch.join("a"), scratch.join("trace.csv"));
    let server = Server::up(&dir, &["--size", "64MiB", "--record", text(&file)]);
    let mut client = server.client();
    for number in 0..64_u64 {
        client.write(number * 12_288, &[7; 8_192]).unwrap();
    }
    client.flush().unwrap();
    client.read(4_096, 12_288).unwrap();
    // What is no whole block is noted as it was asked for.
    client.write(512, &[7; 1_024]).unwrap();
    client.write_forced(8_192, &[7; 4_096]).unwrap();
    drop(client);
    server.stop();
    assert_clean(&dir);
    let record = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<(&str, u64)> = record
        .lines()
        .map(|line| line.rsplit_once(',').map(|(what, at)| (what, at.parse().unwrap())).unwrap())
        .collect();
    assert_eq!(lines.len(), 68, "{record}");
    assert_eq!((lines[0].0, lines[63].0), ("0,W,0,8192", "0,W,774144,8192"));
    let others = ["0,F,0,0", "0,R,4096,12288", "0,W,512,1024", "0,U,8192,4096"];
    assert_eq!([64, 65, 66, 67].map(|at| lines[at].0), others);
    assert!(lines.is_sorted_by_key(|(_, at)| *at), "{record}");
    let again = run_for(SOON, zoneweave().args(["serve", text(&dir), "--record", text(&file)]));
    assert_eq!(again.code(), Some(2), "{again}");
    assert!(again.stderr.contains("it exists already: name a file that does not"), "{again}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), record);
    let replay = ["lab", "run", "exp10", "--seeds", "1", "--scale", "0.01", "--trace-format", "alibaba"];
    let ran = run_for(SOON, zoneweave().args(replay).args(["--trace", text(&file)]));
    assert!(ran.stdout.contains("throughput_mib_s"), "{ran}");
}
