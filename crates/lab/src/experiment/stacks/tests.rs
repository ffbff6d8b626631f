//! Stacks program what their layers must, and a buffer answers what it holds.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::super::clients::{self, Load, Places, Sizes};
use super::super::rig::{Array, Ask, Plan, Space};
use super::super::setting::Setting;
use super::buffered::BLOCKS_MAX;
use super::*;
use crate::precise::precise_u64;

const STACKS: [Stack; 6] = [
    Stack::MdDmZap,
    Stack::MdDmZapMerged,
    Stack::MdDmZapVolatile,
    Stack::MdConventional,
    Stack::DmZapRaizn,
    Stack::DmZapRaiznMerged,
];

/// 192 MiB: several times the volatile buffer.
const VOLUME_BLOCKS: u64 = 48 << 10;

fn rig(stack: Stack) -> StackRig {
    let mut plan = Plan::new(Scheme::Stack(stack), &Setting::paper(4, 4), 1).unwrap();
    plan.volume_blocks = VOLUME_BLOCKS;
    plan.space = Space::Stripes(4 * VOLUME_BLOCKS);
    StackRig::new(&plan, VictimPolicy::Greedy).unwrap()
}

/// Blocks programmed for each block of a load.
fn flash(rig: &mut StackRig, places: Places, blocks: u32, requests: u64) -> f64 {
    let load = Load {
        writes: true,
        places,
        sizes: Sizes::Equal(blocks),
        queue_depth: 8,
        warm_up: 0,
        requests,
        only_degraded: false,
    };
    let before = rig.counts();
    clients::run(rig, &load, 1).unwrap();
    let after = rig.counts();
    precise_u64(after.1 - before.1) / precise_u64(after.0 - before.0)
}

/// Whole stripes in order cost a parity block for three; lone blocks at random, old or partial parities. Drives count nothing twice.
#[test]
fn stacks_program_data_and_parities() {
    for stack in STACKS {
        let mut rig = rig(stack);
        rig.write_volume().unwrap();
        let whole = flash(&mut rig, Places::Sequential, 48, 600);
        // A buffer may hold more in the end than before.
        let least = if stack == Stack::MdDmZapVolatile { 1.1 } else { 1.33 };
        assert!((least..1.36).contains(&whole), "{}: {whole}", Scheme::Stack(stack).name());
        let lone = flash(&mut rig, Places::Uniform, 1, 2_000);
        let most = match stack {
            // Of 56 MiB of 192, three in ten writes are absorbed.
            Stack::MdDmZapVolatile => 0.9..1.7,
            Stack::DmZapRaiznMerged => 1.33..1.8,
            _ => 1.9..2.1,
        };
        assert!(most.contains(&lone), "{}: {lone}", Scheme::Stack(stack).name());
    }
}

/// Absorbed writes take no time and program nothing; once it is full, others take what the array takes.
#[test]
fn a_volatile_buffer_holds_56_mib() {
    let mut rig = rig(Stack::MdDmZapVolatile);
    let begin = rig.now();
    let hold = |rig: &mut StackRig, first: u64, count: u64| {
        let mut answers = Vec::new();
        for lba in first..first + count {
            rig.submit(Ask { writes: true, lba, blocks: 1 });
            rig.wait(None, &mut answers).unwrap();
        }
        assert_eq!(answers.len() as u64, count, "each is answered once");
    };
    let held = BLOCKS_MAX as u64 / 8 * 7;
    hold(&mut rig, 0, held);
    hold(&mut rig, 0, held);
    assert_eq!((rig.now(), rig.counts()), (begin, (2 * held, 0)));
    hold(&mut rig, held, 4 * held / 3);
    assert!(rig.now() > begin);
    let (user, flash) = rig.counts();
    assert!(user == 2 * held + 4 * held / 3 && flash > held, "{user} and {flash}");
}

/// Two runs are the same to the bit.
#[test]
fn runs_repeat() {
    for stack in STACKS {
        let [first, second] = [(), ()].map(|()| {
            let mut rig = rig(stack);
            let flash = flash(&mut rig, Places::Uniform, 4, 500);
            (flash.to_bits(), rig.now(), rig.counts())
        });
        assert_eq!(first, second, "{}", Scheme::Stack(stack).name());
    }
}
