//! Sums of blocks, each times a byte of GF(2^8): what every parity and every decoded piece is.
//!
//! ```text
//!   into[n] = c0 * source0[n] + c1 * source1[n] + ...        for every byte n, in GF(2^8)
//! ```
//! One pass over the sources per sum, four registers at a time, so that the sources' loads overlap and
//! each cache line of the destination is written once. Multiplying a register by a constant is one
//! instruction where there is GFNI (an 8x8 matrix over GF(2) for each byte), else two shuffles that look
//! up the products of low and high nibbles. The width is chosen at run time; the scalar twin is the
//! specification and the fallback. docs/adr/0012 has the numbers.
//!
//! All `unsafe` of the codes but that of plain XOR is here: loads and stores of registers, and calls of
//! functions for features that were just detected. Everything between is safe code.

use crate::galois::{NIBBLE_PRODUCTS, multiply_by};
use crate::xor::Block;

/// A block and what it is multiplied by.
pub type Term<'a> = (&'a Block, u8);

/// Sets `into` to the sum of all `terms`; zero when there are none.
pub fn combine_blocks(into: &mut Block, terms: &[Term]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = x86::kernel() {
        return kernel(into, terms);
    }
    combine_blocks_scalar(into, terms);
}

/// True where a product takes one instruction: there is nothing faster for any factors.
#[must_use]
pub fn has_products() -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::has_products();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The twin the vector kernels are tested against.
pub fn combine_blocks_scalar(into: &mut Block, terms: &[Term]) {
    into.fill(0);
    for (source, factor) in terms {
        let products = &NIBBLE_PRODUCTS[usize::from(*factor)];
        for (i, s) in into.iter_mut().zip(source.iter()) {
            *i ^= multiply_by(products, *s);
        }
    }
}

/// The kernels this machine can run, by name; for tests and for measuring.
#[must_use]
pub fn kernels() -> Vec<(&'static str, Kernel)> {
    let mut all: Vec<(&'static str, Kernel)> = vec![("scalar", combine_blocks_scalar)];
    #[cfg(target_arch = "x86_64")]
    all.extend(x86::kernels());
    all
}

/// A way to compute [`combine_blocks`].
pub type Kernel = fn(&mut Block, &[Term]);

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The kernels for x86-64.

    use super::{Kernel, Term};
    use crate::galois::{BIT_MATRICES, NIBBLE_PRODUCTS};
    use crate::units::BLOCK_BYTES;
    use crate::xor::Block;
    use std::arch::x86_64::*;

    /// Registers summed up side by side.
    const REGISTERS: usize = 4;

    /// The fastest kernel this machine has.
    pub fn kernel() -> Option<Kernel> {
        // Detection is cached by the standard library: a load and a test each.
        if has_gfni_avx512() {
            Some(gfni_avx512)
        } else if has_gfni_avx2() {
            Some(gfni_avx2)
        } else if is_x86_feature_detected!("avx2") {
            Some(shuffle_avx2)
        } else if is_x86_feature_detected!("ssse3") {
            Some(shuffle_ssse3)
        } else {
            None
        }
    }

    /// All kernels this machine has.
    pub fn kernels() -> Vec<(&'static str, Kernel)> {
        let all: [(bool, &'static str, Kernel); 4] = [
            (is_x86_feature_detected!("ssse3"), "ssse3", shuffle_ssse3),
            (is_x86_feature_detected!("avx2"), "avx2", shuffle_avx2),
            (has_gfni_avx2(), "gfni avx2", gfni_avx2),
            (has_gfni_avx512(), "gfni avx512", gfni_avx512),
        ];
        all.into_iter().filter(|(there, ..)| *there).map(|(_, name, kernel)| (name, kernel)).collect()
    }

    /// True with GFNI.
    pub fn has_products() -> bool {
        has_gfni_avx512() || has_gfni_avx2()
    }

    fn has_gfni_avx2() -> bool {
        is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx2")
    }

    fn has_gfni_avx512() -> bool {
        is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx512f")
    }

    /// Makes a kernel of a width: `$multiply` says how a register is multiplied by `$constants`, which
    /// `$prepare` makes of a factor.
    macro_rules! kernel {
        (
            $name:ident, $inner:ident, $features:literal, $has:expr, $register:ty,
            $load:ident, $store:ident, $zero:ident, $xor:ident, $prepare:ident, $multiply:ident
        ) => {
            fn $name(into: &mut Block, terms: &[Term]) {
                assert!($has);
                // SAFETY: the features that the function needs were detected on this machine, just above.
                // WHY: 4+2 encodes 3 to 40 times faster than with the scalar twin (docs/adr/0012).
                #[allow(unsafe_code)]
                unsafe {
                    $inner(into, terms);
                }
            }

            #[target_feature(enable = $features)]
            fn $inner(into: &mut Block, terms: &[Term]) {
                const BYTES: usize = size_of::<$register>();
                for at in (0..BLOCK_BYTES).step_by(REGISTERS * BYTES) {
                    let mut sums = [$zero(); REGISTERS];
                    for (source, factor) in terms {
                        let constants = $prepare(*factor);
                        let bytes = &source[at..at + REGISTERS * BYTES];
                        for (sum, bytes) in sums.iter_mut().zip(bytes.chunks_exact(BYTES)) {
                            // SAFETY: the pointer is that of a slice of as many bytes as a register has, and
                            // the instruction takes any alignment.
                            // WHY: as above; safe code would copy through the stack.
                            #[allow(unsafe_code)]
                            let register = unsafe { $load(bytes.as_ptr().cast()) };
                            *sum = $xor(*sum, $multiply(register, constants));
                        }
                    }
                    let bytes = &mut into[at..at + REGISTERS * BYTES];
                    for (sum, bytes) in sums.iter().zip(bytes.chunks_exact_mut(BYTES)) {
                        // SAFETY: as for the load; the slice is ours alone.
                        // WHY: as above.
                        #[allow(unsafe_code)]
                        unsafe {
                            $store(bytes.as_mut_ptr().cast(), *sum);
                        }
                    }
                }
            }
        };
    }

    kernel!(
        gfni_avx512,
        gfni_avx512_inner,
        "gfni,avx512f",
        has_gfni_avx512(),
        __m512i,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_setzero_si512,
        _mm512_xor_si512,
        matrix_512,
        affine_512
    );
    kernel!(
        gfni_avx2,
        gfni_avx2_inner,
        "gfni,avx2",
        has_gfni_avx2(),
        __m256i,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_setzero_si256,
        _mm256_xor_si256,
        matrix_256,
        affine_256
    );
    kernel!(
        shuffle_avx2,
        shuffle_avx2_inner,
        "avx2",
        is_x86_feature_detected!("avx2"),
        __m256i,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_setzero_si256,
        _mm256_xor_si256,
        nibbles_256,
        shuffle_256
    );
    kernel!(
        shuffle_ssse3,
        shuffle_ssse3_inner,
        "ssse3",
        is_x86_feature_detected!("ssse3"),
        __m128i,
        _mm_loadu_si128,
        _mm_storeu_si128,
        _mm_setzero_si128,
        _mm_xor_si128,
        nibbles_128,
        shuffle_128
    );

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn matrix_512(factor: u8) -> __m512i {
        _mm512_set1_epi64(BIT_MATRICES[usize::from(factor)].cast_signed())
    }

    #[inline]
    #[target_feature(enable = "gfni,avx512f")]
    fn affine_512(bytes: __m512i, matrix: __m512i) -> __m512i {
        _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn matrix_256(factor: u8) -> __m256i {
        _mm256_set1_epi64x(BIT_MATRICES[usize::from(factor)].cast_signed())
    }

    #[inline]
    #[target_feature(enable = "gfni,avx2")]
    fn affine_256(bytes: __m256i, matrix: __m256i) -> __m256i {
        _mm256_gf2p8affine_epi64_epi8::<0>(bytes, matrix)
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn nibbles_128(factor: u8) -> [__m128i; 2] {
        // SAFETY: each table has the sixteen bytes of a register, and any alignment will do.
        // WHY: as for the other loads.
        #[allow(unsafe_code)]
        NIBBLE_PRODUCTS[usize::from(factor)]
            .each_ref()
            .map(|table| unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn shuffle_128(bytes: __m128i, [low, high]: [__m128i; 2]) -> __m128i {
        let nibble = _mm_set1_epi8(15);
        let low = _mm_shuffle_epi8(low, _mm_and_si128(bytes, nibble));
        let high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi64::<4>(bytes), nibble));
        _mm_xor_si128(low, high)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn nibbles_256(factor: u8) -> [__m256i; 2] {
        nibbles_128(factor).map(|table| _mm256_broadcastsi128_si256(table))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn shuffle_256(bytes: __m256i, [low, high]: [__m256i; 2]) -> __m256i {
        let nibble = _mm256_set1_epi8(15);
        let low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, nibble));
        let high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), nibble));
        _mm256_xor_si256(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::galois::multiply;
    use crate::random::Random;
    use crate::units::BLOCK_BYTES;

    #[test]
    fn every_kernel_agrees_with_the_field() {
        let mut random = Random::from_seed(12);
        let mut factor = 0_u8;
        for count in 0..9 {
            // All factors come up, zero and one among them.
            for _ in 0..32 {
                let terms: Vec<(Block, u8)> = (0..count)
                    .map(|_| {
                        let mut block = [0; BLOCK_BYTES];
                        random.fill(&mut block);
                        factor = factor.wrapping_add(1);
                        (block, factor)
                    })
                    .collect();
                let expected: Vec<u8> = (0..BLOCK_BYTES)
                    .map(|n| terms.iter().fold(0, |sum, (block, factor)| sum ^ multiply(block[n], *factor)))
                    .collect();
                let terms: Vec<Term> = terms.iter().map(|(block, factor)| (block, *factor)).collect();
                for (name, kernel) in kernels().into_iter().chain([("chosen", combine_blocks as Kernel)]) {
                    let mut into = [0xaa; BLOCK_BYTES];
                    kernel(&mut into, &terms);
                    assert!(into[..] == expected, "{name}, {count} terms");
                }
            }
        }
    }
}
