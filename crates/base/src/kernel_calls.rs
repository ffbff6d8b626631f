//! What a drive costs in calls of the kernel: one call may carry many operations, or none.

use std::fmt;

/// Operations of a drive since it was opened, and the calls of `io_uring_enter` that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCalls {
    /// Operations that the kernel was given.
    pub operations: u64,
    /// Calls, those that only asked for answers included.
    pub calls: u64,
    /// The drive is asked for its answers until they come, instead of announcing them by an interrupt.
    pub is_polled: bool,
}

impl KernelCalls {
    /// Sum of both: one drive may have several rings.
    #[must_use]
    pub fn and(self, other: KernelCalls) -> KernelCalls {
        KernelCalls {
            operations: self.operations + other.operations,
            calls: self.calls + other.calls,
            is_polled: self.is_polled || other.is_polled,
        }
    }

    /// Operations for each call; none before the first one.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn operations_per_call(self) -> Option<f64> {
        (self.calls > 0).then(|| self.operations as f64 / self.calls as f64)
    }
}

impl fmt::Display for KernelCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let polled = if self.is_polled { "polled: " } else { "" };
        let KernelCalls { operations, calls, .. } = self;
        write!(f, "{polled}{operations} operations in {calls} calls of io_uring_enter")?;
        self.operations_per_call().map_or(Ok(()), |ratio| write!(f, " ({ratio:.2} each)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_with_their_ratio() {
        let interrupts = KernelCalls { operations: 10, calls: 4, is_polled: false };
        let polled = KernelCalls { operations: 2, calls: 8, is_polled: true };
        assert_eq!(interrupts.to_string(), "10 operations in 4 calls of io_uring_enter (2.50 each)");
        assert_eq!(
            interrupts.and(polled).to_string(),
            "polled: 12 operations in 12 calls of io_uring_enter (1.00 each)"
        );
        assert_eq!(KernelCalls::default().to_string(), "0 operations in 0 calls of io_uring_enter");
    }
}
