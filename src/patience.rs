//! Patience with what is in use: the kernel closes the files of a server that was killed a little later.

use std::time::{Duration, Instant};

/// Longest wait for all drives of an array together.
const LIMIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    ends: Instant,
}

impl Patience {
    /// Patience that begins now.
    pub fn begin() -> Patience {
        Patience::lasting(LIMIT)
    }

    /// The same, for so long.
    pub fn lasting(limit: Duration) -> Patience {
        Patience { ends: Instant::now() + limit }
    }

    /// Tries again while something is in use, until the patience is over.
    pub fn open<T, E>(self, open: impl Fn() -> Result<T, E>, is_in_use: impl Fn(&E) -> bool) -> Result<T, E> {
        loop {
            match open() {
                Err(error) if is_in_use(&error) && Instant::now() < self.ends => {
                    std::thread::sleep(LOOK_EVERY)
                }
                opened => return opened,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_in_use_is_tried_again_until_the_patience_is_over() {
        let tries = Cell::new(0);
        let open = |good: u32| {
            tries.set(tries.get() + 1);
            if tries.get() < good { Err("in use") } else { Ok(tries.get()) }
        };
        let lasting = Patience::lasting(Duration::from_secs(60));
        assert_eq!(lasting.open(|| open(3), |_| true), Ok(3));
        tries.set(0);
        assert_eq!(lasting.open(|| open(3), |_| false), Err("in use"), "another error is told at once");
        let over = Patience::lasting(Duration::ZERO);
        assert_eq!((over.open(|| open(9), |_| true), tries.get()), (Err("in use"), 2));
    }
}
