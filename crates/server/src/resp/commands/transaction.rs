//! MULTI, EXEC, DISCARD: commands are queued and run in order, but not apart from those of others.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::session::Transaction;

/// MULTI.
pub(in crate::resp) fn multi(call: &mut Call<'_>) -> Step {
    if call.state.transaction.is_some() {
        return Step::Answer(Answer::error("MULTI calls can not be nested"));
    }
    call.state.transaction = Some(Transaction::default());
    Step::Answer(Answer::OK)
}

/// EXEC.
pub(in crate::resp) fn exec(call: &mut Call<'_>) -> Step {
    let Some(transaction) = call.state.transaction.take() else {
        return Step::Answer(Answer::error("EXEC without MULTI"));
    };
    if transaction.is_broken {
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Step::Answer(Answer::Error(text.into()));
    }
    assert!(call.state.queue.is_empty(), "EXEC itself is not queued");
    let count = transaction.queue.len();
    call.state.queue = transaction.queue;
    Step::Answer(Answer::ArrayHead(count))
}

/// DISCARD.
pub(in crate::resp) fn discard(call: &mut Call<'_>) -> Step {
    if call.state.transaction.take().is_none() {
        return Step::Answer(Answer::error("DISCARD without MULTI"));
    }
    Step::Answer(Answer::OK)
}

/// UNWATCH: nothing is watched.
pub(in crate::resp) fn unwatch(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::OK)
}

/// WATCH, which would need to know of changes by others.
pub(in crate::resp) fn watch(call: &mut Call<'_>) -> Step {
    Step::Answer(Answer::error(if call.state.transaction.is_some() {
        "WATCH inside MULTI is not allowed"
    } else {
        "WATCH is not supported: transactions are not isolated here; use SET with NX, or INCR"
    }))
}
