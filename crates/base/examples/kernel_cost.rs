//! What the kernels cost per 4-KiB block with data in the cache: `cargo run --release -p
//! zoneweave-base --example kernel_cost`.

use base::checksum::crc32c;
use base::random::Random;
use base::xor::{Block, xor_blocks, xor_blocks_scalar};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 2_000_000;

fn main() {
    let mut random = Random::from_seed(1);
    let blocks: Vec<Block> = (0..16)
        .map(|_| {
            let mut block = [0; 4096];
            random.fill(&mut block);
            block
        })
        .collect();
    let mut into = [0; 4096];
    time("CRC32C of 4 KiB", |i| {
        black_box(crc32c(black_box(&blocks[i % 16])));
    });
    time("CRC32C of 64 B", |i| {
        black_box(crc32c(black_box(&blocks[i % 16][..64])));
    });
    time("XOR of 3 blocks, chosen kernel", |i| {
        xor_blocks(&mut into, &[&blocks[i % 16], &blocks[(i + 1) % 16], &blocks[(i + 2) % 16]]);
        black_box(&mut into);
    });
    time("XOR of 3 blocks, scalar twin", |i| {
        xor_blocks_scalar(&mut into, &[&blocks[i % 16], &blocks[(i + 1) % 16], &blocks[(i + 2) % 16]]);
        black_box(&mut into);
    });
    time("copy of 4 KiB", |i| {
        into.copy_from_slice(&blocks[i % 16]);
        black_box(&mut into);
    });
}

fn time(name: &str, mut work: impl FnMut(usize)) {
    for i in 0..ROUNDS / 10 {
        work(i as usize);
    }
    let began = Instant::now();
    for i in 0..ROUNDS {
        work(i as usize);
    }
    println!("{name:<32} {:>6.1} ns", began.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
}
