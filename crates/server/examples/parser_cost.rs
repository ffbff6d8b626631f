//! What a command costs our parser, and `redis-protocol` (ADR 42):
//! `cargo run --release -p zoneweave-server --example parser_cost`.

#[path = "../tests/support/second_opinion.rs"]
#[allow(dead_code, missing_docs)]
mod second_opinion;

use redis_protocol::resp2::decode::{decode, decode_range};
use server::resp::parser::{Limits, Parsed, Parser};
use std::hint::black_box;
use std::time::Instant;

const LIMITS: Limits = Limits { bulk_bytes_max: 1 << 20, command_bytes_max: 3 << 20 };
const ROUNDS: u32 = 200_000;
/// The fastest of so many: others share the machine.
const REPEATS: u32 = 7;

fn main() {
    println!("{:<22} {:>9} {:>9} {:>9}", "ns a command", "ours", "spans", "owned");
    row("GET, 32-B key", &["GET", &"k".repeat(32)]);
    row("SET, 32-B key, 100 B", &["SET", &"k".repeat(32), &"v".repeat(100)]);
    row("SET, 32-B key, 16 KiB", &["SET", &"k".repeat(32), &"v".repeat(16 << 10)]);
    let keys = vec!["k".repeat(32); 100];
    let mget: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    row("MGET, 100 32-B keys", &mget);
}

/// Our parser, theirs that gives spans (it still makes a vector), and theirs that gives arguments.
fn row(name: &str, words: &[&str]) {
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let bytes = second_opinion::written(&words);
    let mut parser = Parser::new(LIMITS);
    let ours = time(|| {
        let parsed = parser.parse(black_box(&bytes), false);
        assert_eq!(parsed, Parsed::Command(bytes.len()));
        black_box(parser.arguments(&bytes).at(0));
    });
    let spans = time(|| drop(black_box(decode_range(black_box(&bytes)))));
    let owned = time(|| drop(black_box(decode(black_box(&bytes)))));
    println!("{name:<22} {ours:>9.0} {spans:>9.0} {owned:>9.0}");
}

/// Nanoseconds that a call takes.
fn time(mut call: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..REPEATS {
        let started = Instant::now();
        (0..ROUNDS).for_each(|_| call());
        best = best.min(started.elapsed().as_secs_f64());
    }
    best * 1e9 / f64::from(ROUNDS)
}
