//! Steps of the scribe, and which of them follow which.

/// Step under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is being written.
    Rest,
    /// Superblocks of members whose last record was cut off.
    Level,
    /// Pages of a bitmap that is void.
    VoidPages,
    /// Head of the bitmap, with the events of the record.
    Head,
    /// Superblocks of whole replacements.
    Replacing,
    /// Superblocks of other newcomers.
    Newcomers,
    /// Superblocks of all others.
    Superblocks,
    /// Pages with new bits.
    Pages,
    /// Flush of what bits stand for that are given up.
    FlushToClear,
    /// Head with the events that they are given up at.
    ClearHead,
    /// Pages without them.
    ClearPages,
    /// Flush before the clean mark.
    FlushToClean,
    /// What lies on newcomers beside superblocks and data.
    Admit,
    /// Flush before it is recorded how far newcomers are.
    FlushToRecover,
    /// Flush before the journal begins further on.
    FlushToTail,
    /// Superblock of the journal.
    Tail,
    /// Flush before it is recorded that the journal failed.
    FlushToTell,
    /// Flush before it is recorded that a resync is through beside a journal.
    FlushToSync,
    /// Flush before bad blocks are listed.
    FlushToList,
    /// Bad-block logs that say something.
    BadBlockLogs,
    /// Bad-block logs that say nothing any more.
    ZeroLogs,
    /// Change of the consistency policy.
    Change,
}

impl Step {
    /// True when this step may be followed by another. Each may be given up, too, when too many members are missing.
    fn leads_to(self, next: Step) -> bool {
        match self {
            Step::Rest => {
                let is_within = matches!(
                    next,
                    Step::Rest
                        | Step::Replacing
                        | Step::Newcomers
                        | Step::Superblocks
                        | Step::ClearHead
                        | Step::ClearPages
                        | Step::Tail
                        | Step::BadBlockLogs
                        | Step::ZeroLogs
                );
                !is_within
            }
            Step::VoidPages => next == Step::Head,
            Step::Head => next == Step::Replacing,
            Step::Replacing => matches!(next, Step::Newcomers | Step::Rest),
            Step::Newcomers => matches!(next, Step::Superblocks | Step::Rest),
            Step::Superblocks => matches!(next, Step::Rest | Step::ZeroLogs),
            Step::FlushToClear => matches!(next, Step::ClearHead | Step::ClearPages | Step::Rest),
            Step::ClearHead => matches!(next, Step::ClearPages | Step::Rest),
            Step::FlushToTail => matches!(next, Step::Tail | Step::Rest),
            Step::FlushToList => next == Step::BadBlockLogs,
            Step::Level
            | Step::Pages
            | Step::ClearPages
            | Step::FlushToClean
            | Step::Admit
            | Step::FlushToRecover
            | Step::Tail
            | Step::FlushToTell
            | Step::FlushToSync
            | Step::BadBlockLogs
            | Step::ZeroLogs
            | Step::Change => next == Step::Rest,
        }
    }

    /// Another step follows.
    ///
    /// # Panics
    /// When it may not.
    pub(super) fn go(&mut self, next: Step) {
        assert!(self.leads_to(next), "the scribe goes from {self:?} to {next:?}");
        *self = next;
    }
}
