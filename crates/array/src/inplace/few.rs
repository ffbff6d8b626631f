//! A few values without memory of their own: one for each piece of a stripe, at most.

use base::pieces::PIECES_MAX;
use std::fmt;
use std::ops::Deref;

/// One to [`PIECES_MAX`] values. Bad at large ones: it is as large as if it were full.
#[derive(Clone, Copy)]
pub struct Few<T> {
    values: [T; PIECES_MAX],
    count: usize,
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[..self.count]
    }
}

impl<T: Copy> FromIterator<T> for Few<T> {
    /// # Panics
    /// When there are none, or more.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Few<T> {
        let mut values = values.into_iter();
        let first = values.next().expect("one value at least");
        let mut few = Few { values: [first; PIECES_MAX], count: 1 };
        for value in values {
            assert!(few.count < PIECES_MAX, "more than {PIECES_MAX} values");
            few.values[few.count] = value;
            few.count += 1;
        }
        few
    }
}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
