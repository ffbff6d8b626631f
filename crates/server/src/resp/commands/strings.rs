//! Commands about values.

use super::expiry::{self, TimeUnit, expiry_to_set, no_integer};
use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::numbers::extended::{Extended, Read};
use crate::resp::numbers::{integer, push_integer};
use crate::resp::pending::{Form, Tally, length, plain};
use cache::request::{Change, Object, Op, Part, WallMillis};

/// The error for values that would be too large.
pub(in crate::resp) fn too_large() -> Answer {
    Answer::error("string exceeds maximum allowed size (proto-max-bulk-len)")
}

fn syntax_error() -> Answer {
    Answer::error("syntax error")
}

/// GET.
pub(in crate::resp) fn get(call: &mut Call<'_>) -> Step {
    call.get(Form::Bulk)
}

/// STRLEN.
pub(in crate::resp) fn strlen(call: &mut Call<'_>) -> Step {
    call.get(Form::Length)
}

/// GETRANGE and SUBSTR.
pub(in crate::resp) fn getrange(call: &mut Call<'_>) -> Step {
    match (integer(call.at(2)), integer(call.at(3))) {
        (Some(first), Some(last)) => call.get_part(Part { first, last }),
        _ => Step::Answer(no_integer()),
    }
}

/// Options of SET and GETEX.
#[derive(Debug, Default)]
struct Options<'a> {
    if_new: bool,
    if_there: bool,
    tells_before: bool,
    keeps_end: bool,
    persists: bool,
    end: Option<(&'a [u8], TimeUnit)>,
}

impl<'a> Options<'a> {
    /// The options from `index` on; `None` when they make no sense together.
    fn parse(call: &Call<'a>, index: usize, is_set: bool) -> Option<Options<'a>> {
        let mut options = Options::default();
        let mut rest = call.arguments.from(index);
        while let Some(word) = rest.next() {
            let unit = match word.to_ascii_lowercase().as_slice() {
                b"nx" if is_set && !options.if_there => {
                    options.if_new = true;
                    continue;
                }
                b"xx" if is_set && !options.if_new => {
                    options.if_there = true;
                    continue;
                }
                b"get" if is_set => {
                    options.tells_before = true;
                    continue;
                }
                b"keepttl" if is_set && options.end.is_none() => {
                    options.keeps_end = true;
                    continue;
                }
                b"persist" if !is_set && options.end.is_none() => {
                    options.persists = true;
                    continue;
                }
                b"ex" => expiry::SECONDS,
                b"px" => expiry::MILLIS,
                b"exat" => expiry::UNIX_SECONDS,
                b"pxat" => expiry::UNIX_MILLIS,
                _ => return None,
            };
            let is_other = options.end.is_some_and(|(_, before)| before != unit);
            if options.keeps_end || options.persists || is_other {
                return None;
            }
            options.end = Some((rest.next()?, unit));
        }
        Some(options)
    }
}

/// SET.
pub(in crate::resp) fn set(call: &mut Call<'_>) -> Step {
    let Some(options) = Options::parse(call, 3, true) else { return Step::Answer(syntax_error()) };
    let expires = match options.end.map(|(text, unit)| expiry_to_set(text, unit, call.front.wall, "set")) {
        None => None,
        Some(Ok(expires)) => Some(expires),
        Some(Err(answer)) => return Step::Answer(answer),
    };
    let object = Object { expires, ..plain(call.at(2).to_vec()) };
    let is_plain = !(options.if_new || options.if_there || options.tells_before || options.keeps_end);
    if is_plain {
        return store(call, object);
    }
    let bytes = object.value.len();
    let Options { if_new, if_there, tells_before, keeps_end, .. } = options;
    let decide = move |before: Option<&Object>, now: WallMillis| {
        if (if_new && before.is_some()) || (if_there && before.is_none()) {
            return Change::Keep;
        }
        let kept = before.filter(|_| keeps_end).and_then(|before| before.expires);
        stored_unless_over(Object { expires: object.expires.or(kept), ..object }, now)
    };
    if tells_before {
        return call.replace(bytes, decide);
    }
    call.update(bytes, move |before, now| {
        let is_refused = (if_new && before.is_some()) || (if_there && before.is_none());
        (decide(before, now), if is_refused { Answer::Null } else { Answer::OK })
    })
}

/// An object whose end has passed is not stored.
fn stored_unless_over(object: Object, now: WallMillis) -> Change {
    if object.expires.is_some_and(|end| end <= now) { Change::Remove } else { Change::Store(object) }
}

/// Stores an object whatever was there.
fn store(call: &mut Call<'_>, object: Object) -> Step {
    let key = call.at(1).to_vec();
    call.note_stored(&key);
    let bytes = key.len() + object.value.len();
    let is_over = object.expires.is_some_and(|end| end <= call.front.wall);
    let op = if is_over { Op::Remove { key } } else { Op::Set { key, object } };
    call.ask(op, bytes, Form::Ok)
}

fn store_for(call: &mut Call<'_>, unit: TimeUnit, name: &str) -> Step {
    match expiry_to_set(call.at(2), unit, call.front.wall, name) {
        Ok(expires) => {
            let object = Object { expires: Some(expires), ..plain(call.at(3).to_vec()) };
            store(call, object)
        }
        Err(answer) => Step::Answer(answer),
    }
}

/// SETEX.
pub(in crate::resp) fn setex(call: &mut Call<'_>) -> Step {
    store_for(call, expiry::SECONDS, "setex")
}

/// PSETEX.
pub(in crate::resp) fn psetex(call: &mut Call<'_>) -> Step {
    store_for(call, expiry::MILLIS, "psetex")
}

/// SETNX.
pub(in crate::resp) fn setnx(call: &mut Call<'_>) -> Step {
    let object = plain(call.at(2).to_vec());
    call.update(object.value.len(), move |before, _| match before {
        Some(_) => (Change::Keep, Answer::Integer(0)),
        None => (Change::Store(object), Answer::Integer(1)),
    })
}

/// GETSET.
pub(in crate::resp) fn getset(call: &mut Call<'_>) -> Step {
    let object = plain(call.at(2).to_vec());
    call.replace(object.value.len(), move |_, _| Change::Store(object))
}

/// GETDEL.
pub(in crate::resp) fn getdel(call: &mut Call<'_>) -> Step {
    call.replace(0, |before, _| if before.is_some() { Change::Remove } else { Change::Keep })
}

/// GETEX.
pub(in crate::resp) fn getex(call: &mut Call<'_>) -> Step {
    let Some(options) = Options::parse(call, 2, false) else { return Step::Answer(syntax_error()) };
    let wall = call.front.wall;
    let expires = match options.end.map(|(text, unit)| expiry_to_set(text, unit, wall, "getex")) {
        None if !options.persists => return get(call),
        None => None,
        Some(Ok(expires)) => Some(expires),
        // Whoever asks for nothing is told so first.
        Some(Err(answer)) => {
            return call
                .update(0, |before, _| (Change::Keep, if before.is_some() { answer } else { Answer::Null }));
        }
    };
    call.replace(0, move |before, now| match before {
        Some(before) if before.expires != expires => {
            stored_unless_over(Object { expires, ..before.clone() }, now)
        }
        _ => Change::Keep,
    })
}

/// MGET.
pub(in crate::resp) fn mget(call: &mut Call<'_>) -> Step {
    if call.cursor == 0 {
        call.state.answer(Answer::ArrayHead(call.arguments.len() - 1));
        call.cursor = 1;
    }
    while call.cursor < call.arguments.len() {
        if !call.may_go_on() {
            return Step::More(call.cursor);
        }
        let key = call.at(call.cursor).to_vec();
        let bytes = key.len();
        call.note_read(&key);
        call.ask(Op::Get { key }, bytes, Form::Bulk);
        call.cursor += 1;
    }
    Step::Started
}

fn wrong_pairs(call: &Call<'_>, name: &str) -> Option<Step> {
    let is_wrong = call.arguments.len().is_multiple_of(2);
    let answer = || Answer::error(format_args!("wrong number of arguments for '{name}' command"));
    is_wrong.then(|| Step::Answer(answer()))
}

fn set_pair(arguments: &crate::resp::parser::Arguments<'_>, index: usize) -> (Op, usize) {
    let (key, value) = (arguments.at(index).to_vec(), arguments.at(index + 1).to_vec());
    let bytes = key.len() + value.len();
    (Op::Set { key, object: plain(value) }, bytes)
}

/// MSET.
pub(in crate::resp) fn mset(call: &mut Call<'_>) -> Step {
    match wrong_pairs(call, "mset") {
        Some(step) => step,
        None => call.each(2, Tally::Ok, set_pair),
    }
}

/// The shard that has all keys of a list of pairs.
fn shard_of_all(call: &Call<'_>) -> Option<usize> {
    let namespace = call.state.facts.namespace;
    let mut shards =
        (1..call.arguments.len()).step_by(2).map(|index| call.cache.shard_of(namespace, call.at(index)));
    let first = shards.next()?;
    shards.all(|shard| shard == first).then_some(first)
}

/// MSETNX: looks at all keys, and stores all when there is none. Commands of others wait meanwhile, so that no
/// key comes between.
pub(in crate::resp) fn msetnx(call: &mut Call<'_>) -> Step {
    if let Some(step) = wrong_pairs(call, "msetnx") {
        return step;
    }
    let count = call.arguments.len();
    if call.cursor == 0 {
        let Some(shard) = shard_of_all(call) else {
            return Step::Answer(Answer::error(
                "MSETNX: these keys are in several shards of the cache, which do nothing as one; give them one hash tag, like {user}:a \
                 and {user}:b",
            ));
        };
        call.front.exclude_others(call.client, shard);
        call.state.expect_many(Tally::AllNew);
        call.cursor = 1;
    }
    let sequence = call.state.last_sequence();
    while call.cursor < count {
        if !call.may_go_on() {
            return Step::More(call.cursor);
        }
        let key = call.at(call.cursor).to_vec();
        let bytes = key.len();
        call.state.expect_more(sequence);
        call.send(sequence, Op::Get { key }, bytes);
        call.cursor += 2;
    }
    let (missing, found) = call.state.standing(sequence);
    if missing > 0 {
        return Step::Wait(call.cursor);
    }
    if found == 0 {
        for index in (1..count).step_by(2) {
            let (op, bytes) = set_pair(&call.arguments, index);
            call.state.expect_more(sequence);
            call.send(sequence, op, bytes);
        }
    }
    call.state.expect_no_more(sequence);
    call.front.admit_others(call.client);
    Step::Started
}

/// APPEND.
pub(in crate::resp) fn append(call: &mut Call<'_>) -> Step {
    let tail = call.at(2).to_vec();
    let bytes_max = call.front.settings.object_bytes_max;
    call.update(tail.len(), move |before, _| {
        let value = [before.map_or(&[][..], |object| &object.value), &tail].concat();
        stored_if_fits(with_value(before, value), bytes_max)
    })
}

/// The object is stored and its length told, unless it is too large.
fn stored_if_fits(object: Object, bytes_max: u32) -> (Change, Answer) {
    let count = length(&object.value);
    if count > i64::from(bytes_max) {
        return (Change::Keep, too_large());
    }
    (Change::Store(object), Answer::Integer(count))
}

/// SETRANGE.
pub(in crate::resp) fn setrange(call: &mut Call<'_>) -> Step {
    let Some(offset) = integer(call.at(2)) else { return Step::Answer(no_integer()) };
    let Ok(offset) = usize::try_from(offset) else {
        return Step::Answer(Answer::error("offset is out of range"));
    };
    let part = call.at(3).to_vec();
    if part.is_empty() {
        return call.get(Form::Length);
    }
    let bytes_max = call.front.settings.object_bytes_max;
    let end = offset.saturating_add(part.len());
    if u32::try_from(end).is_ok_and(|end| end <= bytes_max) {
        return call.update(end, move |before, _| {
            let mut value = before.map_or(Vec::new(), |object| object.value.to_vec());
            if value.len() < end {
                value.resize(end, 0);
            }
            value[offset..end].copy_from_slice(&part);
            let count = length(&value);
            (Change::Store(with_value(before, value)), Answer::Integer(count))
        });
    }
    Step::Answer(too_large())
}

/// Adds to a number; a key that does not exist is zero.
fn add(call: &mut Call<'_>, summand: i64) -> Step {
    call.update(0, move |before, _| {
        let Some(value) = before.map_or(Some(0), |object| integer(&object.value)) else {
            return (Change::Keep, no_integer());
        };
        let Some(sum) = value.checked_add(summand) else {
            return (Change::Keep, Answer::error("increment or decrement would overflow"));
        };
        let mut text = Vec::new();
        push_integer(&mut text, sum);
        (Change::Store(with_value(before, text)), Answer::Integer(sum))
    })
}

/// The object with another value; its end and flags stay.
fn with_value(before: Option<&Object>, value: Vec<u8>) -> Object {
    let (flags, expires) = before.map_or((0, None), |object| (object.flags, object.expires));
    Object { flags, expires, ..plain(value) }
}

/// INCR.
pub(in crate::resp) fn incr(call: &mut Call<'_>) -> Step {
    add(call, 1)
}

/// DECR.
pub(in crate::resp) fn decr(call: &mut Call<'_>) -> Step {
    add(call, -1)
}

/// INCRBY.
pub(in crate::resp) fn incrby(call: &mut Call<'_>) -> Step {
    match integer(call.at(2)) {
        Some(summand) => add(call, summand),
        None => Step::Answer(no_integer()),
    }
}

/// DECRBY.
pub(in crate::resp) fn decrby(call: &mut Call<'_>) -> Step {
    match integer(call.at(2)) {
        Some(i64::MIN) => Step::Answer(Answer::error("decrement would overflow")),
        Some(count) => add(call, -count),
        None => Step::Answer(no_integer()),
    }
}

/// INCRBYFLOAT.
pub(in crate::resp) fn incrbyfloat(call: &mut Call<'_>) -> Step {
    let no_number = || Answer::error("value is not a valid float");
    let infinite = || Answer::error("increment would produce NaN or Infinity");
    let summand = Extended::read(call.at(2));
    call.update(0, move |before, _| {
        let value = before.map_or_else(|| Extended::read(b"0"), |object| Extended::read(&object.value));
        let sum = match (value, summand) {
            (None, _) | (_, None) => return (Change::Keep, no_number()),
            (Some(Read::Finite(value)), Some(Read::Finite(summand))) => value.plus(summand),
            _ => None,
        };
        let Some(sum) = sum else { return (Change::Keep, infinite()) };
        let text = sum.write().into_bytes();
        (Change::Store(with_value(before, text.clone())), Answer::Bulk(text.into()))
    })
}
