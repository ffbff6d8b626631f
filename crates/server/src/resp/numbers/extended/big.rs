//! Natural numbers of any size: as much of their arithmetic as reading and writing of decimals needs.

use std::cmp::Ordering;

const LIMB_BITS: u32 = 64;
/// Largest power of ten in a limb, and its digits.
const POWER: u64 = 10_000_000_000_000_000_000;
const POWER_DIGITS: usize = 19;
const _: () = assert!(POWER.ilog10() as usize == POWER_DIGITS && POWER.is_multiple_of(10));

/// Limbs of 64 bits, the lowest first, none of them zero at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Big(Vec<u64>);

impl From<u64> for Big {
    fn from(value: u64) -> Big {
        let mut big = Big(vec![value]);
        big.trim();
        big
    }
}

impl Big {
    /// The number of decimal digits.
    pub(super) fn from_digits(digits: &[u8]) -> Big {
        let mut big = Big(Vec::new());
        for chunk in digits.chunks(18) {
            let value = chunk.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
            let power = 10_u64.pow(u32::try_from(chunk.len()).expect("at most 18"));
            big.multiply_add(power, value);
        }
        big
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Bits without leading zeros.
    pub(super) fn bits(&self) -> i32 {
        let limbs = u32::try_from(self.0.len()).expect("numbers of some thousand digits");
        let leading = self.0.last().map_or(0, |limb| limb.leading_zeros());
        i32::try_from(limbs * LIMB_BITS - leading).expect("numbers of some thousand digits")
    }

    pub(super) fn multiply_add(&mut self, factor: u64, summand: u64) {
        let mut carry = u128::from(summand);
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = low(product);
            carry = product >> LIMB_BITS;
        }
        if carry > 0 {
            self.0.push(low(carry));
        }
        self.trim();
    }

    pub(super) fn shift_left(&mut self, bits: u32) {
        let (limbs, bits) = (bits / LIMB_BITS, bits % LIMB_BITS);
        if bits > 0 {
            self.multiply_add(1 << bits, 0);
        }
        if !self.is_zero() {
            let zeros = usize::try_from(limbs).expect("usize has at least 32 bits");
            self.0.splice(0..0, std::iter::repeat_n(0, zeros));
        }
    }

    pub(super) fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.0.iter_mut().rev() {
            let next = *limb << 63;
            *limb = *limb >> 1 | carry;
            carry = next;
        }
        self.trim();
    }

    /// Takes away `other`, which is not larger.
    pub(super) fn subtract(&mut self, other: &Big) {
        assert!(*self >= *other);
        let mut borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let (less, first) = limb.overflowing_sub(other.0.get(index).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u64::from(borrow));
            *limb = less;
            borrow = first || second;
        }
        assert!(!borrow);
        self.trim();
    }

    /// Decimal digits.
    pub(super) fn digits(mut self) -> String {
        let mut chunks = Vec::new();
        while !self.is_zero() {
            let mut rest = 0_u128;
            for limb in self.0.iter_mut().rev() {
                let value = rest << LIMB_BITS | u128::from(*limb);
                *limb = low(value / u128::from(POWER));
                rest = value % u128::from(POWER);
            }
            self.trim();
            chunks.push(low(rest));
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text += &format!("{chunk:0POWER_DIGITS$}");
        }
        text
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

fn low(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).expect("masked to 64 bits")
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Big) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Big) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}
