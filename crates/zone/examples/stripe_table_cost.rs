//! What a search of the stripe table costs, in nanoseconds: the median over stripes whose chunk landed anywhere in its
//! group.
//!
//! `cargo run --release -p zoneweave-zone --example stripe_table_cost`

use base::erasure::ErasureCode;
use base::random::Random;
use std::hint::black_box;
use std::time::Instant;
use zone::stripe::table::{Packing, StripeTable};
use zone::stripe::{Layout, LayoutSizes, Level};

/// Blocks of a ZN540 zone.
const CAPACITY_BLOCKS: u32 = 275_712;
const SEARCHES: usize = 2000;

fn main() {
    println!("{:>8} {:>8} {:>14} {:>14}", "group", "packing", "ns per search", "for 3 drives");
    for group_stripes in [4, 16, 64, 256, 1024, 4096, CAPACITY_BLOCKS] {
        let code = ErasureCode::new(3, 1).expect("a code");
        let sizes = LayoutSizes { chunk_blocks: 1, group_stripes, capacity_blocks: CAPACITY_BLOCKS };
        let layout = Layout::fit(code, Level::Raid5, &sizes).expect("a stripe fits");
        for (name, packing) in [("bits", Packing::Bits), ("bytes", Packing::Bytes)] {
            let nanos = search_ns(&layout, packing);
            println!("{:>8} {name:>8} {nanos:>14} {:>14}", group_stripes.min(layout.stripes), 3 * nanos);
        }
    }
}

/// Fills the first group of one zone in random order and searches it.
fn search_ns(layout: &Layout, packing: Packing) -> u128 {
    let mut random = Random::from_seed(1);
    let slots = 0..layout.group_len(0);
    let mut order: Vec<u32> = slots.clone().collect();
    for place in (1..order.len()).rev() {
        order.swap(place, random.index(place + 1));
    }
    let mut table = StripeTable::new(layout, packing);
    for (slot, stripe) in slots.clone().zip(&order) {
        table.set(0, slot, *stripe);
    }
    let mut nanos: Vec<u128> = (0..SEARCHES)
        .map(|_| {
            let stripe = order[random.index(order.len())];
            let begin = Instant::now();
            black_box(table.find(0, slots.clone(), stripe, stripe));
            begin.elapsed().as_nanos()
        })
        .collect();
    nanos.sort_unstable();
    nanos[SEARCHES / 2]
}
