//! What the erasure codes cost with data in the cache: `cargo run --release -p zoneweave-base --example
//! code_cost`. Bytes are counted as ISA-L's own measurements do: data and parity, or what is read and what
//! is decoded.

use base::combine::{Kernel, Term, kernels};
use base::erasure::{ErasureCode, PieceSet};
use base::random::Random;
use base::xor::Block;
use std::hint::black_box;
use std::time::Instant;

const BLOCKS: f64 = 4096.0;
const ROUNDS: u32 = 400_000;
/// The fastest of so many: others share the machine.
const REPEATS: u32 = 7;

fn main() {
    println!("{:<34} {:>9} {:>9}", "", "4 KiB", "16 KiB");
    encode("XOR 3+1", 3, 1);
    encode("P+Q 4+2", 4, 2);
    encode("P+Q+R 5+3", 5, 3);
    decode("4+2, 1 data piece lost", 4, 2, &[1]);
    decode("4+2, 2 data pieces lost", 4, 2, &[1, 2]);
    decode("4+2, 1 data piece and P lost", 4, 2, &[1, 4]);
    decode("5+3, 3 data pieces lost", 5, 3, &[0, 1, 2]);
    for (name, kernel) in kernels() {
        by_kernel(name, kernel);
    }
}

/// Chunks of one and of four blocks.
fn encode(name: &str, data_count: usize, parity_count: usize) {
    let code = ErasureCode::new(data_count, parity_count).expect("a code");
    let bytes = [1, 4].map(|rows| {
        let chunks = blocks(rows * data_count);
        let mut parity = blocks(rows * parity_count);
        let seconds = time(|| {
            for (row, into) in parity.chunks_exact_mut(parity_count).enumerate() {
                let data: [&Block; 8] =
                    std::array::from_fn(|piece| &chunks[row * data_count + piece % data_count]);
                for (parity, into) in into.iter_mut().enumerate() {
                    code.encode(parity, black_box(&data[..data_count]), into);
                }
            }
            black_box(&mut parity);
        });
        rows as f64 * BLOCKS * (data_count + parity_count) as f64 / seconds
    });
    print(name, bytes);
}

fn decode(name: &str, data_count: usize, parity_count: usize, lost: &[usize]) {
    let code = ErasureCode::new(data_count, parity_count).expect("a code");
    let lost: PieceSet = lost.iter().copied().collect();
    let left: Vec<usize> = code.pieces().without(lost).iter().collect();
    let bytes = [1, 4].map(|rows| {
        let chunks = blocks(rows * code.piece_count());
        let mut into = blocks(rows * lost.count());
        let seconds = time(|| {
            for (row, into) in into.chunks_exact_mut(lost.count()).enumerate() {
                let row = &chunks[row * code.piece_count()..];
                let present: Vec<(usize, &Block)> = left.iter().map(|piece| (*piece, &row[*piece])).collect();
                for (piece, into) in lost.iter().zip(into) {
                    code.decode(piece, black_box(&present), into);
                }
            }
            black_box(&mut into);
        });
        rows as f64 * BLOCKS * (data_count + lost.count()) as f64 / seconds
    });
    print(name, bytes);
}

/// Q of four blocks.
fn by_kernel(name: &str, kernel: Kernel) {
    let chunks = blocks(4);
    let mut into = blocks(1);
    let terms: Vec<Term> = chunks.iter().zip([1, 2, 4, 8]).collect();
    let seconds = time(|| {
        kernel(&mut into[0], black_box(&terms));
        black_box(&mut into);
    });
    println!("{:<34} {:>4.1} GB/s", format!("Q of 4 blocks, {name}"), 5.0 * BLOCKS / seconds / 1e9);
}

fn print(name: &str, [small, large]: [f64; 2]) {
    println!("{name:<34} {:>4.1} GB/s {:>4.1} GB/s", small / 1e9, large / 1e9);
}

fn blocks(count: usize) -> Vec<Block> {
    let mut random = Random::from_seed(1);
    let mut blocks = vec![[0; 4096]; count];
    blocks.iter_mut().for_each(|block| random.fill(block));
    blocks
}

/// Seconds of one round.
fn time(mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..REPEATS {
        let began = Instant::now();
        for _ in 0..ROUNDS / 10 {
            work();
        }
        best = best.min(began.elapsed().as_secs_f64() / f64::from(ROUNDS / 10));
    }
    best
}
