//! Commands about keys, whatever their values.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::pending::{Form, Tally};
use crate::resp::survey::Wanted;
use cache::request::{Namespace, Op};

/// DEL and UNLINK.
pub(in crate::resp) fn del(call: &mut Call<'_>) -> Step {
    call.each(1, Tally::Count, |arguments, index| {
        let key = arguments.at(index).to_vec();
        let bytes = key.len();
        (Op::Remove { key }, bytes)
    })
}

/// EXISTS.
pub(in crate::resp) fn exists(call: &mut Call<'_>) -> Step {
    look_at_all(call, Tally::Count)
}

/// TOUCH.
pub(in crate::resp) fn touch(call: &mut Call<'_>) -> Step {
    look_at_all(call, Tally::Touched)
}

fn look_at_all(call: &mut Call<'_>, tally: Tally) -> Step {
    call.each(1, tally, |arguments, index| {
        let key = arguments.at(index).to_vec();
        let bytes = key.len();
        (Op::Get { key }, bytes)
    })
}

/// TYPE.
pub(in crate::resp) fn type_of(call: &mut Call<'_>) -> Step {
    call.get(Form::Type)
}

/// DBSIZE.
pub(in crate::resp) fn dbsize(call: &mut Call<'_>) -> Step {
    let count = match call.survey(Wanted::Objects) {
        Ok(survey) => survey.objects_in(call.state.facts.namespace),
        Err(step) => return step,
    };
    Step::Answer(Answer::Integer(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// FLUSHALL.
pub(in crate::resp) fn flushall(call: &mut Call<'_>) -> Step {
    flush(call, None)
}

/// FLUSHDB.
pub(in crate::resp) fn flushdb(call: &mut Call<'_>) -> Step {
    let namespace = call.state.facts.namespace;
    flush(call, Some(namespace))
}

fn flush(call: &mut Call<'_>, namespace: Option<Namespace>) -> Step {
    let is_known = match call.arguments.get(1) {
        None => true,
        Some(mode) => mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async"),
    };
    if !is_known || call.arguments.len() > 2 {
        return Step::Answer(Answer::error("syntax error"));
    }
    call.ask(Op::Clear { namespace }, 0, Form::Ok)
}
