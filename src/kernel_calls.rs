//! What drives cost in calls of the kernel, as `status` has it.

use base::kernel_calls::KernelCalls;
use serde::{Deserialize, Serialize};

/// Operations of a drive and the calls of `io_uring_enter` that they took, since its server opened it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct KernelCallsReport {
    /// Operations that the kernel was given.
    pub operations: u64,
    /// Calls, those that only asked for answers included.
    pub calls: u64,
    /// Operations for each call; null before the first one.
    pub operations_per_call: Option<f64>,
    /// The drive is asked for its answers until they come (`--poll`).
    pub polled: bool,
}

impl KernelCallsReport {
    /// Report on a drive; none of one that has no ring, or was asked nothing.
    pub fn of(calls: KernelCalls) -> Option<KernelCallsReport> {
        let KernelCalls { operations, calls: count, is_polled } = calls;
        let operations_per_call = calls.operations_per_call();
        let report = KernelCallsReport { operations, calls: count, operations_per_call, polled: is_polled };
        (operations > 0).then_some(report)
    }

    /// The same in words.
    pub fn in_words(self) -> String {
        let KernelCallsReport { operations, calls, polled, .. } = self;
        KernelCalls { operations, calls, is_polled: polled }.to_string()
    }
}
