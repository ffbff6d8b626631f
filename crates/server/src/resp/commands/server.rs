//! Commands about the server that clients of Redis send as a matter of course, where little is to be told here: no
//! replicas, no functions, no log of slow commands.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::numbers::integer;
use crate::resp::pending::Form;
use std::time::Duration;

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
        (Some(_), None) => Step::Answer(Answer::error("timeout is not an integer or out of range")),
        (None, _) => no_integer(),
    }
}

/// FUNCTION FLUSH: there are none.
pub(in crate::resp) fn function_flush(call: &mut Call<'_>) -> Step {
    let is_known = call
        .arguments
        .get(2)
        .is_none_or(|mode| mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async"));
    Step::Answer(match (call.arguments.len(), is_known) {
        (..=3, true) => Answer::OK,
        (..=3, false) => Answer::error("FUNCTION FLUSH only supports SYNC|ASYNC option"),
        _ => wrong_part(call),
    })
}

/// The error for a part with too many arguments that its arity lets pass.
fn wrong_part(call: &Call<'_>) -> Answer {
    let part = String::from_utf8_lossy(call.at(1));
    let container = String::from_utf8_lossy(call.at(0)).to_uppercase();
    Answer::error(format_args!(
        "unknown subcommand or wrong number of arguments for '{part}'. Try {container} HELP."
    ))
}

/// LATENCY LATEST and LATENCY HISTORY: nothing is recorded.
pub(in crate::resp) fn nothing(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Array(Vec::new()))
}

/// LATENCY DOCTOR.
pub(in crate::resp) fn latency_doctor(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Text("Latency is not monitored by this server.\n".to_owned()))
}

/// LATENCY GRAPH: there is nothing to draw.
pub(in crate::resp) fn latency_graph(call: &mut Call<'_>) -> Step {
    let event = String::from_utf8_lossy(call.at(2));
    Step::Answer(Answer::error(format_args!("No samples available for event '{event}'")))
}

/// LATENCY HISTOGRAM.
pub(in crate::resp) fn latency_histogram(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Map(Vec::new()))
}

/// SLOWLOG GET: nothing is recorded.
pub(in crate::resp) fn slowlog_get(call: &mut Call<'_>) -> Step {
    let is_count = call.arguments.get(2).is_none_or(|text| integer(text).is_some_and(|count| count >= -1));
    Step::Answer(match (call.arguments.len(), is_count) {
        (..=3, true) => Answer::Array(Vec::new()),
        (..=3, false) => Answer::error("count should be greater than or equal to -1"),
        _ => wrong_part(call),
    })
}

/// SLOWLOG LEN and LATENCY RESET.
pub(in crate::resp) fn none(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Integer(0))
}

/// SLOWLOG RESET.
pub(in crate::resp) fn done(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::OK)
}

/// DEBUG SLEEP: as in Redis, nobody whom this thread serves is answered for so many seconds. Other parts are not there.
pub(in crate::resp) fn debug(call: &mut Call<'_>) -> Step {
    if !call.front.settings.debug_commands {
        return Step::Answer(Answer::error(
            "DEBUG command not allowed. Start the server with --debug-commands to allow it.",
        ));
    }
    if call.arguments.len() != 3 || !call.at(1).eq_ignore_ascii_case(b"sleep") {
        return Step::Answer(wrong_part(call));
    }
    let seconds = str::from_utf8(call.at(2)).ok().and_then(|text| text.parse().ok());
    Step::Answer(match seconds.map(Duration::try_from_secs_f64) {
        Some(Ok(time)) => {
            std::thread::sleep(time);
            Answer::OK
        }
        _ => Answer::error("value is not a valid float"),
    })
}

/// MEMORY USAGE: bytes of key and value; those on flash count, too.
pub(in crate::resp) fn memory_usage(call: &mut Call<'_>) -> Step {
    match call.arguments.len() {
        3 => {}
        5 if call.at(3).eq_ignore_ascii_case(b"samples") => match integer(call.at(4)) {
            None => return no_integer(),
            Some(..0) => return Step::Answer(Answer::error("syntax error")),
            Some(_) => {}
        },
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

/// OBJECT FREQ, of keys that exist.
pub(in crate::resp) fn object_freq(call: &mut Call<'_>) -> Step {
    call.get_at(2, Form::Untracked)
}

/// OBJECT IDLETIME, as far as is remembered.
pub(in crate::resp) fn object_idletime(call: &mut Call<'_>) -> Step {
    let used = call.front.usage.of(call.state.facts.namespace, call.at(2), call.front.wall);
    call.get_at(2, Form::Idle(used.idle_seconds))
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
