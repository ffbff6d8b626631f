//! XOR of 4-KiB blocks, the kernel of single parity, and sums by powers of two.
//!
//! One pass over all sources, so that each cache line of the destination is written once. The
//! widths are chosen at run time; the scalar twin is the specification and the fallback.

use crate::units::BLOCK_BYTES;

/// What 2^8 is in the field: x^8 = x^4 + x^3 + x^2 + 1 (polynomial 0x11d).
const REDUCTION: u8 = 0x1d;

/// A block of data.
pub type Block = [u8; BLOCK_BYTES];

/// Sets `into` to the XOR of all `sources`; zero when there are none.
pub fn xor_blocks(into: &mut Block, sources: &[&Block]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature the function needs was detected on this machine.
            // WHY: 3 sources take 38 ns per block instead of 99 ns (docs/adr/0004).
            #[allow(unsafe_code)]
            return unsafe { xor_blocks_avx512(into, sources) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the feature the function needs was detected on this machine.
            // WHY: as above; 256-bit lanes where 512 are not there.
            #[allow(unsafe_code)]
            return unsafe { xor_blocks_avx2(into, sources) };
        }
    }
    xor_blocks_scalar(into, sources);
}

/// Adds `source` to `into`, which becomes the XOR of both.
pub fn xor_into(into: &mut Block, source: &Block) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature the function needs was detected on this machine.
        // WHY: as above; a block that changes in place has one source.
        #[allow(unsafe_code)]
        return unsafe { xor_into_avx2(into, source) };
    }
    accumulate::<16>(into, source);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn xor_into_avx2(into: &mut Block, source: &Block) {
    accumulate::<64>(into, source);
}

/// Sets `into` to the sum of all `sources`, the i-th times 2^i in GF(2^8), by Horner's rule: ((c * 2 + b) * 2) + a. Doubling takes
/// four instructions, where a product by tables takes ten.
pub fn sum_by_powers(into: &mut Block, sources: &[&Block]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature the function needs was detected on this machine.
        // WHY: Q of 4+2 takes half the instructions of the kernel with tables.
        #[allow(unsafe_code)]
        return unsafe { sum_by_powers_avx2(into, sources) };
    }
    powers_lanes::<16>(into, sources);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_by_powers_avx2(into: &mut Block, sources: &[&Block]) {
    powers_lanes::<128>(into, sources);
}

/// Sets `sum` to the XOR of all `sources`, and `powers` to what [`sum_by_powers`] does, in one pass over them.
pub fn sums_plain_and_by_powers(sum: &mut Block, powers: &mut Block, sources: &[&Block]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature the function needs was detected on this machine.
        // WHY: P and Q of 4+2 take a tenth less instructions than by two passes, and half the loads.
        #[allow(unsafe_code)]
        return unsafe { both_sums_avx2(sum, powers, sources) };
    }
    both_lanes::<16>(sum, powers, sources);
}

/// Counts of sources that are common are known to the compiler, which keeps their addresses in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn both_sums_avx2(sum: &mut Block, powers: &mut Block, sources: &[&Block]) {
    match sources {
        [a, b] => both_lanes::<128>(sum, powers, &[a, b]),
        [a, b, c] => both_lanes::<128>(sum, powers, &[a, b, c]),
        [a, b, c, d] => both_lanes::<128>(sum, powers, &[a, b, c, d]),
        [a, b, c, d, e] => both_lanes::<128>(sum, powers, &[a, b, c, d, e]),
        [a, b, c, d, e, f] => both_lanes::<128>(sum, powers, &[a, b, c, d, e, f]),
        _ => both_lanes::<128>(sum, powers, sources),
    }
}

#[inline(always)]
fn both_lanes<const N: usize>(sum: &mut Block, powers: &mut Block, sources: &[&Block]) {
    let Some((last, others)) = sources.split_last() else {
        sum.fill(0);
        return powers.fill(0);
    };
    for at in (0..BLOCK_BYTES).step_by(N) {
        let mut plain = [0_u8; N];
        plain.copy_from_slice(&last[at..at + N]);
        let mut by_powers = plain;
        for source in others.iter().rev() {
            for ((plain, power), s) in plain.iter_mut().zip(&mut by_powers).zip(&source[at..at + N]) {
                *plain ^= s;
                *power = doubled(*power) ^ s;
            }
        }
        sum[at..at + N].copy_from_slice(&plain);
        powers[at..at + N].copy_from_slice(&by_powers);
    }
}

#[inline(always)]
fn doubled(byte: u8) -> u8 {
    let carry = if byte >= 0x80 { REDUCTION } else { 0 };
    (byte << 1) ^ carry
}

#[inline(always)]
fn powers_lanes<const N: usize>(into: &mut Block, sources: &[&Block]) {
    let Some((last, others)) = sources.split_last() else { return into.fill(0) };
    for at in (0..BLOCK_BYTES).step_by(N) {
        let mut lane = [0_u8; N];
        lane.copy_from_slice(&last[at..at + N]);
        for source in others.iter().rev() {
            for (l, s) in lane.iter_mut().zip(&source[at..at + N]) {
                *l = doubled(*l) ^ s;
            }
        }
        into[at..at + N].copy_from_slice(&lane);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn xor_blocks_avx512(into: &mut Block, sources: &[&Block]) {
    xor_lanes::<64>(into, sources);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn xor_blocks_avx2(into: &mut Block, sources: &[&Block]) {
    // Eight registers side by side, of which a pass is half as long as one by one.
    xor_lanes::<256>(into, sources);
}

/// The twin the vector kernels are tested against.
pub fn xor_blocks_scalar(into: &mut Block, sources: &[&Block]) {
    xor_lanes::<16>(into, sources);
}

/// Plain code over lanes of `N` bytes; the compiler turns a lane into one vector register when the
/// calling function enables that width. Up to five sources, the common array widths, are one pass.
#[inline(always)]
fn xor_lanes<const N: usize>(into: &mut Block, sources: &[&Block]) {
    match sources {
        [] => into.fill(0),
        [a] => into.copy_from_slice(*a),
        [a, b] => pass::<N, 2>(into, [a, b]),
        [a, b, c] => pass::<N, 3>(into, [a, b, c]),
        [a, b, c, d] => pass::<N, 4>(into, [a, b, c, d]),
        [a, b, c, d, rest @ ..] => {
            pass::<N, 4>(into, [a, b, c, d]);
            for source in rest {
                accumulate::<N>(into, source);
            }
        }
    }
}

#[inline(always)]
fn pass<const N: usize, const SOURCES: usize>(into: &mut Block, sources: [&Block; SOURCES]) {
    for at in (0..BLOCK_BYTES).step_by(N) {
        let mut lane = [0_u8; N];
        for source in sources {
            for (l, s) in lane.iter_mut().zip(&source[at..at + N]) {
                *l ^= s;
            }
        }
        into[at..at + N].copy_from_slice(&lane);
    }
}

#[inline(always)]
fn accumulate<const N: usize>(into: &mut Block, source: &Block) {
    for (into, source) in into.chunks_exact_mut(N).zip(source.chunks_exact(N)) {
        for (i, s) in into.iter_mut().zip(source) {
            *i ^= s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::galois::{multiply, power_of_two};
    use crate::random::Random;

    #[test]
    fn every_width_agrees_with_bytewise_xor() {
        let mut random = Random::from_seed(11);
        for count in 0..9 {
            let sources: Vec<Block> = (0..count)
                .map(|_| {
                    let mut block = [0; BLOCK_BYTES];
                    random.fill(&mut block);
                    block
                })
                .collect();
            let mut expected = [0; BLOCK_BYTES];
            for source in &sources {
                expected.iter_mut().zip(source).for_each(|(e, s)| *e ^= s);
            }
            let sources: Vec<&Block> = sources.iter().collect();
            let mut chosen = [0xaa; BLOCK_BYTES];
            xor_blocks(&mut chosen, &sources);
            assert!(chosen == expected, "chosen kernel, {count} sources");
            let mut scalar = [0xaa; BLOCK_BYTES];
            xor_blocks_scalar(&mut scalar, &sources);
            assert!(scalar == expected, "scalar twin, {count} sources");
            let mut summed = [0; BLOCK_BYTES];
            sources.iter().for_each(|source| xor_into(&mut summed, source));
            assert!(summed == expected, "one by one, {count} sources");
            let terms = || sources.iter().enumerate().map(|(power, source)| (power_of_two(power), source));
            let of_byte =
                |at: usize| terms().fold(0, |sum, (factor, source)| sum ^ multiply(source[at], factor));
            let expected: Vec<u8> = (0..BLOCK_BYTES).map(of_byte).collect();
            let mut by_powers = [0xaa; BLOCK_BYTES];
            sum_by_powers(&mut by_powers, &sources);
            assert!(by_powers[..] == expected, "by powers, {count} sources");
            powers_lanes::<16>(&mut by_powers, &sources);
            assert!(by_powers[..] == expected, "scalar twin by powers, {count} sources");
            for both in [sums_plain_and_by_powers, both_lanes::<16>] {
                let (mut plain, mut by_powers) = ([0xaa; BLOCK_BYTES], [0xaa; BLOCK_BYTES]);
                both(&mut plain, &mut by_powers, &sources);
                assert!(plain == summed && by_powers[..] == expected, "both sums, {count} sources");
            }
        }
    }
}
