//! What requests ask of the cache, and what is said of the outcomes.

use super::numbers::{end, unsigned};
use super::request::{Meta, Mode, Store};
use super::said::{Said, found};
use cache::request::{Change, Decide, Marks, Object, Op, Outcome, WallMillis};
use cache::value::Value;
use std::sync::{Arc, OnceLock};

/// What an outcome comes to.
pub(super) enum Next {
    /// An answer.
    Say(Said),
    /// Something else has to be asked first.
    Ask(Asked),
}

/// Says what an outcome comes to.
pub(super) type Form = Box<dyn FnOnce(Outcome, WallMillis) -> Next>;
/// An operation with its form, and the bytes it takes along.
pub(super) type Asked = (Op, Form, usize);

/// A form that always says something.
fn saying(say: impl FnOnce(Outcome, WallMillis) -> Said + 'static) -> Form {
    Box::new(move |outcome, wall| Next::Say(say(outcome, wall)))
}

const NON_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// An update whose decision says the answer.
fn update(
    key: Vec<u8>,
    bytes: usize,
    decide: impl FnOnce(Option<&Object>, WallMillis) -> (Change, Said) + Send + 'static,
) -> Asked {
    let told = Arc::new(OnceLock::new());
    let tell = Arc::clone(&told);
    let decide: Decide = Box::new(move |object, wall| {
        let (change, said) = decide(object, wall);
        assert!(tell.set(said).is_ok(), "an update decides once");
        stored_unless_over(change, object.is_some(), wall)
    });
    let form = saying(move |outcome, _| match outcome {
        Outcome::Refused(refusal) => Said::refused(refusal),
        _ => Arc::into_inner(told).and_then(OnceLock::into_inner).expect("a cache decides before it answers"),
    });
    let bytes = bytes + key.len();
    (Op::Update { key, decide }, form, bytes)
}

/// What has expired is not stored.
fn stored_unless_over(change: Change, was_there: bool, wall: WallMillis) -> Change {
    match change {
        Change::Store(object) if object.expires.is_some_and(|at| at <= wall) => {
            if was_there {
                Change::Remove
            } else {
                Change::Keep
            }
        }
        change => change,
    }
}

/// A retrieval of one key.
pub(super) fn get(key: Vec<u8>, tells_cas: bool, expiry: Option<i32>) -> Asked {
    let bytes = key.len();
    let said = key.clone();
    let form = saying(move |outcome, _| match found(outcome) {
        Ok(Some(object)) => Said::value(&said, object, tells_cas),
        Ok(None) => Said::nothing(),
        Err(said) => said,
    });
    match expiry {
        None => (Op::Get { key }, form, bytes),
        Some(expiry) => (Op::Update { key, decide: touching(expiry) }, form, bytes),
    }
}

/// Gives an object another end.
fn touching(expiry: i32) -> Decide {
    Box::new(move |object, wall| match object {
        None => Change::Keep,
        Some(object) => {
            let change = Change::Store(Object { expires: end(expiry, wall), ..object.clone() });
            stored_unless_over(change, true, wall)
        }
    })
}

/// The words for what came of a store.
struct Words {
    meta: Option<Box<Meta>>,
    is_quiet: bool,
}

impl Words {
    fn say(&self, text: &'static str, object: Option<(&Object, WallMillis)>) -> Said {
        match &self.meta {
            None => Said::unless(self.is_quiet, text),
            Some(meta) => {
                let code = match text {
                    "STORED" if self.is_quiet => return Said::nothing(),
                    "STORED" => "HD",
                    "EXISTS" => "EX",
                    "NOT_FOUND" => "NF",
                    _ => "NS",
                };
                Said::of_store(meta, code, object)
            }
        }
    }
}

/// A store. `number` is that of the marking, if it comes to one.
pub(super) fn store(store: Store, value: &[u8], number: u32, now: WallMillis) -> Asked {
    let Store { mode, key, flags, expiry, cas, is_quiet, meta, .. } = store;
    let words = Words { meta, is_quiet };
    let value = value.to_vec();
    let bytes = value.len();
    let is_stale_welcome = words.meta.as_ref().is_some_and(|meta| meta.invalidates);
    let tells_cas = words.meta.as_ref().is_some_and(|meta| meta.tells.iter().any(|word| word == b"c"));
    let expires = end(expiry, now);
    let is_live = expires.is_none_or(|at| at > now);
    if mode == Mode::Set && cas.is_none() && is_live && !tells_cas {
        let form = saying(move |outcome, _| match outcome {
            Outcome::Refused(refusal) => Said::refused(refusal),
            _ => words.say("STORED", None),
        });
        let bytes = bytes + key.len();
        return (
            Op::Set { key, object: Object { value: value.into(), flags, marks: Marks::default(), expires } },
            form,
            bytes,
        );
    }
    update(key, bytes, move |before, wall| {
        let keep = |text| (Change::Keep, words.say(text, None));
        let object = match (mode, before) {
            (Mode::Add, Some(_)) => return keep("NOT_STORED"),
            (Mode::Replace | Mode::Set, None) if cas.is_some() => return keep("NOT_FOUND"),
            (Mode::Replace | Mode::Append | Mode::Prepend, None) => return keep("NOT_STORED"),
            // What was made from an older version is stored as stale, and ends when that which is there would.
            (Mode::Set, Some(before)) if is_stale_welcome && cas.is_some_and(|cas| cas != before.token()) => {
                let marks = Marks::stale(number, before.marks.is_won());
                Object { value: value.into(), flags, marks, expires: before.expires }
            }
            (_, Some(before)) if cas.is_some_and(|cas| cas != before.token()) => return keep("EXISTS"),
            (Mode::Append, Some(before)) => {
                let value = [&before.value[..], &value].concat().into();
                Object { value, flags: before.flags, marks: Marks::default(), expires: before.expires }
            }
            (Mode::Prepend, Some(before)) => {
                let value = [&value[..], &before.value].concat().into();
                Object { value, flags: before.flags, marks: Marks::default(), expires: before.expires }
            }
            _ => Object { value: value.into(), flags, marks: Marks::default(), expires },
        };
        let said = words.say("STORED", Some((&object, wall)));
        (Change::Store(object), said)
    })
}

/// The value is too large: what was there is not to be taken for it.
pub(super) fn too_large(store: Store) -> Asked {
    let bytes = store.key.len();
    let is_quiet = store.is_quiet && store.meta.is_none();
    let form = saying(move |_, _| Said::unless(is_quiet, "SERVER_ERROR object too large for cache"));
    match store.mode {
        Mode::Set => (Op::Remove { key: store.key }, form, bytes),
        _ => (Op::Get { key: store.key }, form, bytes),
    }
}

/// The object with another number; its end and flags stay.
fn sum(object: &Object, delta: u64, is_less: bool) -> Option<(u64, Object)> {
    let value = unsigned(&object.value).filter(|_| object.value.len() <= 20)?;
    let sum = if is_less { value.saturating_sub(delta) } else { value.wrapping_add(delta) };
    Some((sum, Object { value: sum.to_string().into_bytes().into(), ..object.clone() }))
}

/// incr and decr.
pub(super) fn add(key: Vec<u8>, delta: u64, is_less: bool, is_quiet: bool) -> Asked {
    update(key, 0, move |before, _| {
        let Some(before) = before else { return (Change::Keep, Said::unless(is_quiet, "NOT_FOUND")) };
        match sum(before, delta, is_less) {
            None => (Change::Keep, Said::unless(is_quiet, NON_NUMERIC)),
            Some((sum, object)) => (Change::Store(object), Said::unless(is_quiet, &sum.to_string())),
        }
    })
}

/// delete.
pub(super) fn delete(key: Vec<u8>, is_quiet: bool) -> Asked {
    let bytes = key.len();
    let form = saying(move |outcome, _| match outcome {
        Outcome::Refused(refusal) => Said::refused(refusal),
        Outcome::Removed(true) => Said::unless(is_quiet, "DELETED"),
        _ => Said::unless(is_quiet, "NOT_FOUND"),
    });
    (Op::Remove { key }, form, bytes)
}

/// touch.
pub(super) fn touch(key: Vec<u8>, expiry: i32, is_quiet: bool) -> Asked {
    let bytes = key.len();
    let form = saying(move |outcome, _| match found(outcome) {
        Ok(Some(_)) => Said::unless(is_quiet, "TOUCHED"),
        Ok(None) => Said::unless(is_quiet, "NOT_FOUND"),
        Err(said) => said,
    });
    (Op::Update { key, decide: touching(expiry) }, form, bytes)
}

/// mg. `number` is that of the marking, if it comes to one.
pub(super) fn meta_get(key: Vec<u8>, meta: Box<Meta>, number: u32) -> Asked {
    if meta.expiry.is_some() || meta.makes.is_some() || meta.recache.is_some() {
        return meta_get_changing(key, meta, number);
    }
    let bytes = key.len();
    let form: Form = Box::new(move |outcome, wall| match found(outcome) {
        Ok(Some(object)) if object.marks.is_stale() && !object.marks.is_won() => {
            let again = meta.plain_key().expect("a key that was decoded before");
            Next::Ask(meta_get_changing(again, meta, number))
        }
        Ok(Some(object)) => {
            let marks = object.marks;
            Next::Say(Said::meta(&meta, object, wall).with_marks(marks, false))
        }
        Ok(None) if meta.is_quiet => Next::Say(Said::nothing()),
        Ok(None) => Next::Say(Said::code(&meta, "EN")),
        Err(said) => Next::Say(said),
    });
    (Op::Get { key }, form, bytes)
}

/// mg that may make an object, give it another end, or tell its client to make it anew.
fn meta_get_changing(key: Vec<u8>, meta: Box<Meta>, number: u32) -> Asked {
    update(key, 0, move |before, wall| {
        let before = match (before, meta.makes) {
            (Some(before), _) => before,
            (None, Some(expiry)) => {
                let marks = Marks::placeholder(number);
                let object = Object { value: Value::default(), flags: 0, marks, expires: end(expiry, wall) };
                let said = Said::meta(&meta, object.clone(), wall).with_marks(marks, true);
                return (Change::Store(Object { marks: marks.won(), ..object }), said);
            }
            (None, None) if meta.is_quiet => return (Change::Keep, Said::nothing()),
            (None, None) => return (Change::Keep, Said::code(&meta, "EN")),
        };
        let expires = meta.expiry.map_or(before.expires, |expiry| end(expiry, wall));
        let due = meta.recache.and_then(|seconds| end(seconds, wall));
        let is_due = due.is_some_and(|due| before.expires.is_some_and(|at| at < due));
        let wins = !before.marks.is_won() && (is_due || before.marks.is_stale());
        let told =
            Object { expires: if meta.tells_old_end { before.expires } else { expires }, ..before.clone() };
        let said = Said::meta(&meta, told, wall).with_marks(before.marks, wins);
        if !wins && meta.expiry.is_none() {
            return (Change::Keep, said);
        }
        let marks = if wins { before.marks.won() } else { before.marks };
        (Change::Store(Object { expires, marks, ..before.clone() }), said)
    })
}

/// md. `number` is that of the marking, if it comes to one.
pub(super) fn meta_delete(key: Vec<u8>, meta: Box<Meta>, number: u32) -> Asked {
    update(key, 0, move |before, wall| {
        let Some(before) = before else { return (Change::Keep, Said::code(&meta, "NF")) };
        if meta.cas.is_some_and(|cas| cas != before.token()) {
            return (Change::Keep, Said::code(&meta, "EX"));
        }
        let said = if meta.is_quiet { Said::nothing() } else { Said::code(&meta, "HD") };
        if !meta.invalidates {
            return (Change::Remove, said);
        }
        let expires = meta.expiry.map_or(before.expires, |expiry| end(expiry, wall));
        (Change::Store(Object { expires, marks: Marks::stale(number, false), ..before.clone() }), said)
    })
}

/// ma.
pub(super) fn meta_add(key: Vec<u8>, meta: Box<Meta>) -> Asked {
    update(key, 0, move |before, wall| {
        let object = match (before, meta.makes) {
            (None, None) => return (Change::Keep, Said::code(&meta, "NF")),
            (None, Some(expiry)) => {
                let value = meta.initial.to_string().into_bytes().into();
                Object { value, flags: 0, marks: Marks::default(), expires: end(expiry, wall) }
            }
            (Some(before), _) if meta.cas.is_some_and(|cas| cas != before.token()) => {
                return (Change::Keep, Said::code(&meta, "EX"));
            }
            (Some(before), _) => {
                let is_less = matches!(meta.mode, Some(b'D' | b'-'));
                let Some((_, object)) = sum(before, meta.delta.unwrap_or(1), is_less) else {
                    return (Change::Keep, Said::line(NON_NUMERIC));
                };
                let expires = meta.expiry.map_or(object.expires, |expiry| end(expiry, wall));
                Object { expires, ..object }
            }
        };
        let said = match before {
            Some(_) if meta.is_quiet => Said::nothing(),
            Some(before) if meta.tells_old_end => {
                Said::meta(&meta, Object { expires: before.expires, ..object.clone() }, wall)
            }
            _ => Said::meta(&meta, object.clone(), wall),
        };
        (Change::Store(object), said)
    })
}

/// me.
pub(super) fn meta_debug(key: Vec<u8>, meta: Box<Meta>) -> Asked {
    let bytes = key.len();
    let form = saying(move |outcome, wall| match found(outcome) {
        Ok(Some(object)) => {
            let left = super::numbers::left(object.expires, wall);
            let size = object.value.len() + bytes;
            let (idle, fetched) = (meta.used.idle_seconds, if meta.used.was_read { "yes" } else { "no" });
            let token = object.token();
            let text = format!(" exp={left} la={idle} cas={token} fetch={fetched} cls=1 size={size}");
            let binary: &[u8] = if meta.is_binary { b" b" } else { b"" };
            Said::line([b"ME ", &meta.key[..], text.as_bytes(), binary].concat())
        }
        Ok(None) => Said::line("EN"),
        Err(said) => said,
    });
    (Op::Get { key }, form, bytes)
}

/// flush_all: of the namespace, now or later, in place of one that was to come.
pub(super) fn flush(delay: i32, is_quiet: bool, now: WallMillis) -> Asked {
    let form = saying(move |outcome, _| match outcome {
        Outcome::Refused(refusal) => Said::refused(refusal),
        _ => Said::unless(is_quiet, "OK"),
    });
    (Op::ClearAt { at: end(delay, now).unwrap_or(now) }, form, 0)
}
