//! Commands about the server that clients of Redis send as a matter of course, where little is to be told here: no
//! replicas, no functions, no log of slow commands.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::numbers::integer;
use crate::resp::pending::Form;

fn is_integer(call: &Call<'_>, index: usize) -> bool {
    call.arguments.get(index).is_none_or(|text| integer(text).is_some())
}

fn no_integer() -> Step {
    Step::Answer(super::expiry::no_integer())
}

/// ROLE: a master without replicas.
pub(in crate::resp) fn role(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Array(vec![Answer::bulk("master"), Answer::Integer(0), Answer::Array(Vec::new())]))
}

/// WAIT: no replica has anything.
pub(in crate::resp) fn wait(call: &mut Call<'_>) -> Step {
    match (integer(call.at(1)), integer(call.at(2))) {
        (Some(_), Some(timeout)) if timeout < 0 => Step::Answer(Answer::error("timeout is negative")),
        (Some(_), Some(_)) => Step::Answer(Answer::Integer(0)),
        _ => no_integer(),
    }
}

/// FUNCTION FLUSH: there are none.
pub(in crate::resp) fn function_flush(call: &mut Call<'_>) -> Step {
    let is_known = call
        .arguments
        .get(2)
        .is_none_or(|mode| mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async"));
    Step::Answer(if is_known && call.arguments.len() <= 3 {
        Answer::OK
    } else {
        Answer::error("FUNCTION FLUSH only supports SYNC|ASYNC option")
    })
}

/// SLOWLOG GET, LATENCY LATEST and LATENCY HISTORY: nothing is recorded.
pub(in crate::resp) fn nothing(call: &mut Call<'_>) -> Step {
    let is_slowlog = call.at(0).eq_ignore_ascii_case(b"slowlog");
    if is_slowlog && !is_integer(call, 2) {
        return no_integer();
    }
    Step::Answer(Answer::Array(Vec::new()))
}

/// SLOWLOG LEN and LATENCY RESET.
pub(in crate::resp) fn none(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Integer(0))
}

/// SLOWLOG RESET.
pub(in crate::resp) fn done(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::OK)
}

/// MEMORY USAGE: bytes of key and value; those on flash count, too.
pub(in crate::resp) fn memory_usage(call: &mut Call<'_>) -> Step {
    match call.arguments.len() {
        3 => {}
        5 if call.at(3).eq_ignore_ascii_case(b"samples") => {
            if integer(call.at(4)).is_none_or(|samples| samples < 0) {
                return no_integer();
            }
        }
        _ => return Step::Answer(Answer::error("syntax error")),
    }
    let key_bytes = call.at(2).len();
    call.get_at(2, Form::Usage(key_bytes))
}

/// OBJECT ENCODING: what Redis would say of such a value.
pub(in crate::resp) fn object_encoding(call: &mut Call<'_>) -> Step {
    call.get_at(2, Form::Encoding)
}

/// OBJECT REFCOUNT.
pub(in crate::resp) fn object_refcount(call: &mut Call<'_>) -> Step {
    call.get_at(2, Form::Single)
}

/// OBJECT FREQ and OBJECT IDLETIME, of keys that exist.
pub(in crate::resp) fn object_untracked(call: &mut Call<'_>) -> Step {
    call.get_at(2, Form::Untracked)
}

/// Encoding that Redis gives a string.
#[must_use]
pub fn encoding(value: &[u8]) -> &'static str {
    match integer(value) {
        Some(_) if value.len() <= 20 => "int",
        _ if value.len() <= 44 => "embstr",
        _ => "raw",
    }
}
