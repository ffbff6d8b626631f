//! Arithmetic in GF(2^8), the field of the parities beyond the first: bytes are polynomials over GF(2)
//! modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), as in Linux md and ISA-L. Addition is XOR; the powers of 2
//! are all elements but zero.
//!
//! The tables are made by the compiler: a product of two bytes by logarithms, and for each factor its
//! products with the sixteen low and the sixteen high nibbles, which is what byte shuffles look up.

/// The polynomial without its highest term.
const POLYNOMIAL: u8 = 0x1d;

/// Elements but zero, which is also after how many doublings 1 comes back.
const ORDER: usize = 255;

/// `EXP[n]` is 2^n; twice as long as needed, so that a sum of two logarithms is an index.
const EXP: [u8; 2 * ORDER] = exponents();

/// `LOG[2^n]` is n; of zero there is none.
const LOG: [usize; 256] = logarithms();

/// Products of a factor with every nibble: `[low, high]`, so that `a * b` is
/// `low[b & 15] ^ high[b >> 4]`.
pub type NibbleProducts = [[u8; 16]; 2];

/// The nibble products of every factor, 8 KiB.
pub static NIBBLE_PRODUCTS: [NibbleProducts; 256] = nibble_products();

/// Every factor as a matrix over GF(2), for the affine instruction of GFNI: byte 7 - i of a matrix says
/// which bits of the other factor make bit i of the product (Intel SDM, GF2P8AFFINEQB).
pub static BIT_MATRICES: [u64; 256] = bit_matrices();

/// Twice an element.
#[must_use]
pub const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL } else { 0 }
}

/// The product of two elements.
#[must_use]
pub const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { EXP[LOG[a as usize] + LOG[b as usize]] }
}

/// 2 to the power of `n`.
#[must_use]
pub const fn power_of_two(n: usize) -> u8 {
    EXP[n % ORDER]
}

/// The element whose product with `a` is 1.
///
/// # Panics
/// When `a` is zero, which has none.
#[must_use]
pub const fn inverse(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    EXP[ORDER - LOG[a as usize]]
}

/// The product of two elements by table, for those who multiply many by the same factor.
#[must_use]
pub fn multiply_by(products: &NibbleProducts, b: u8) -> u8 {
    products[0][usize::from(b & 15)] ^ products[1][usize::from(b >> 4)]
}

const fn exponents() -> [u8; 2 * ORDER] {
    let mut exponents = [0; 2 * ORDER];
    let mut element = 1;
    let mut n = 0;
    while n < 2 * ORDER {
        exponents[n] = element;
        element = double(element);
        n += 1;
    }
    exponents
}

const fn logarithms() -> [usize; 256] {
    let mut logarithms = [0; 256];
    let mut n = 0;
    while n < ORDER {
        logarithms[EXP[n] as usize] = n;
        n += 1;
    }
    logarithms
}

const fn nibble_products() -> [NibbleProducts; 256] {
    let mut all = [[[0; 16]; 2]; 256];
    let mut factor: u8 = 0;
    loop {
        let mut nibble: u8 = 0;
        while nibble < 16 {
            all[factor as usize][0][nibble as usize] = multiply(factor, nibble);
            all[factor as usize][1][nibble as usize] = multiply(factor, nibble << 4);
            nibble += 1;
        }
        if factor == u8::MAX {
            return all;
        }
        factor += 1;
    }
}

const fn bit_matrices() -> [u64; 256] {
    let mut all = [0; 256];
    let mut factor: u8 = 0;
    loop {
        let mut column = 0;
        while column < 8 {
            let product = multiply(factor, 1 << column);
            let mut bit = 0;
            while bit < 8 {
                if product >> bit & 1 == 1 {
                    all[factor as usize] |= 1 << (8 * (7 - bit) + column);
                }
                bit += 1;
            }
            column += 1;
        }
        if factor == u8::MAX {
            return all;
        }
        factor += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by definition: a sum of doublings.
    fn multiply_by_definition(a: u8, b: u8) -> u8 {
        let mut doubled = a;
        let mut sum = 0;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                sum ^= doubled;
            }
            doubled = double(doubled);
        }
        sum
    }

    /// The affine instruction by definition: parity of the matrix row and the byte, for each bit.
    fn affine_by_definition(matrix: u64, b: u8) -> u8 {
        let rows = matrix.to_be_bytes();
        (0..8).fold(0, |product, bit| product | u8::from((rows[bit] & b).count_ones() % 2 == 1) << bit)
    }

    #[test]
    fn all_tables_say_the_same_product() {
        for a in 0..=u8::MAX {
            for b in 0..=u8::MAX {
                let product = multiply_by_definition(a, b);
                assert_eq!(multiply(a, b), product, "{a} * {b}");
                assert_eq!(multiply_by(&NIBBLE_PRODUCTS[usize::from(a)], b), product, "{a} * {b}");
                assert_eq!(affine_by_definition(BIT_MATRICES[usize::from(a)], b), product, "{a} * {b}");
            }
        }
    }

    #[test]
    fn it_is_a_field_and_two_makes_all_of_it() {
        let mut seen = [false; 256];
        for n in 0..ORDER {
            let element = power_of_two(n);
            assert!(!std::mem::replace(&mut seen[usize::from(element)], true), "2^{n}");
            assert_eq!(multiply(element, inverse(element)), 1);
        }
        assert!(!seen[0]);
        assert_eq!(power_of_two(ORDER), 1);
    }
}
