//! Times: when keys end, and how long they have left.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::numbers::integer;
use crate::resp::pending::Form;
use cache::request::{Change, Object, WallMillis};

/// A time as a client says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeUnit {
    /// Milliseconds of one.
    pub millis: i64,
    /// Since 1970, and not from now on.
    pub is_absolute: bool,
}

/// Units of EX, PX, EXAT and PXAT.
pub const SECONDS: TimeUnit = TimeUnit { millis: 1000, is_absolute: false };
/// Milliseconds from now on.
pub const MILLIS: TimeUnit = TimeUnit { millis: 1, is_absolute: false };
/// Unix time in seconds.
pub const UNIX_SECONDS: TimeUnit = TimeUnit { millis: 1000, is_absolute: true };
/// Unix time in milliseconds.
pub const UNIX_MILLIS: TimeUnit = TimeUnit { millis: 1, is_absolute: true };

impl TimeUnit {
    /// The wall time that `count` of this unit stand for, where it may lie in the past; `None` when it
    /// cannot be said in 64 bits.
    fn wall(self, count: i64, now: WallMillis) -> Option<i64> {
        let millis = count.checked_mul(self.millis)?;
        let base = if self.is_absolute { 0 } else { i64::try_from(now.0).ok()? };
        millis.checked_add(base)
    }
}

/// The error for times that cannot be.
fn invalid(command: &str) -> Answer {
    Answer::error(format_args!("invalid expire time in '{command}' command"))
}

/// The error for what is no integer.
pub(in crate::resp) fn no_integer() -> Answer {
    Answer::error("value is not an integer or out of range")
}

/// Time of expiry as SET and its relatives take it: greater than zero.
pub(in crate::resp) fn expiry_to_set(
    text: &[u8],
    unit: TimeUnit,
    now: WallMillis,
    command: &str,
) -> Result<WallMillis, Answer> {
    let count = integer(text).ok_or_else(no_integer)?;
    if count <= 0 {
        return Err(invalid(command));
    }
    let wall = unit.wall(count, now).and_then(|wall| u64::try_from(wall).ok());
    wall.map(WallMillis).ok_or_else(|| invalid(command))
}

/// Conditions of EXPIRE.
#[derive(Clone, Copy, Debug, Default)]
struct When {
    has_none: bool,
    has_one: bool,
    later: bool,
    sooner: bool,
}

impl When {
    fn parse<'a>(options: impl Iterator<Item = &'a [u8]>) -> Result<When, Answer> {
        let mut when = When::default();
        for option in options {
            match option.to_ascii_lowercase().as_slice() {
                b"nx" => when.has_none = true,
                b"xx" => when.has_one = true,
                b"gt" => when.later = true,
                b"lt" => when.sooner = true,
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(Answer::error(format_args!("Unsupported option {option}")));
                }
            }
        }
        if when.has_none && (when.has_one || when.later || when.sooner) {
            return Err(Answer::error("NX and XX, GT or LT options at the same time are not compatible"));
        }
        if when.later && when.sooner {
            return Err(Answer::error("GT and LT options at the same time are not compatible"));
        }
        Ok(when)
    }

    /// A key without an end ends later than any other.
    fn holds(self, before: Option<WallMillis>, wall: i64) -> bool {
        let before = before.map(|end| i64::try_from(end.0).unwrap_or(i64::MAX));
        let is_refused = (self.has_none && before.is_some())
            || (self.has_one && before.is_none())
            || (self.later && before.is_none_or(|before| wall <= before))
            || (self.sooner && before.is_some_and(|before| wall >= before));
        !is_refused
    }
}

fn set_expiry(call: &mut Call<'_>, unit: TimeUnit, name: &'static str) -> Step {
    let when = match When::parse(call.arguments.from(3)) {
        Ok(when) => when,
        Err(answer) => return Step::Answer(answer),
    };
    let Some(count) = integer(call.at(2)) else { return Step::Answer(no_integer()) };
    let Some(wall) = unit.wall(count, call.front.wall) else { return Step::Answer(invalid(name)) };
    call.update(0, move |object, now| {
        let Some(object) = object.filter(|object| when.holds(object.expires, wall)) else {
            return (Change::Keep, Answer::Integer(0));
        };
        let expires = u64::try_from(wall).ok().map(WallMillis).filter(|wall| *wall > now);
        match expires {
            None => (Change::Remove, Answer::Integer(1)),
            expires => (Change::Store(Object { expires, ..object.clone() }), Answer::Integer(1)),
        }
    })
}

/// EXPIRE.
pub(in crate::resp) fn expire(call: &mut Call<'_>) -> Step {
    set_expiry(call, SECONDS, "expire")
}

/// PEXPIRE.
pub(in crate::resp) fn pexpire(call: &mut Call<'_>) -> Step {
    set_expiry(call, MILLIS, "pexpire")
}

/// EXPIREAT.
pub(in crate::resp) fn expireat(call: &mut Call<'_>) -> Step {
    set_expiry(call, UNIX_SECONDS, "expireat")
}

/// PEXPIREAT.
pub(in crate::resp) fn pexpireat(call: &mut Call<'_>) -> Step {
    set_expiry(call, UNIX_MILLIS, "pexpireat")
}

/// PERSIST.
pub(in crate::resp) fn persist(call: &mut Call<'_>) -> Step {
    call.update(0, |object, _| match object.filter(|object| object.expires.is_some()) {
        None => (Change::Keep, Answer::Integer(0)),
        Some(object) => (Change::Store(Object { expires: None, ..object.clone() }), Answer::Integer(1)),
    })
}

/// What is asked about the end of a key, and in which unit.
#[derive(Clone, Copy, Debug)]
pub struct Left(TimeUnit);

impl Left {
    /// The answer: -2 without a key, -1 without an end. Seconds are rounded.
    #[must_use]
    pub fn of(self, object: Option<&Object>, now: WallMillis) -> i64 {
        let Some(object) = object else { return -2 };
        let Some(expires) = object.expires else { return -1 };
        let base = if self.0.is_absolute { 0 } else { now.0 };
        let millis = i64::try_from(expires.0.saturating_sub(base)).unwrap_or(i64::MAX);
        if self.0.millis == 1 { millis } else { millis.saturating_add(500) / self.0.millis }
    }
}

/// TTL.
pub(in crate::resp) fn ttl(call: &mut Call<'_>) -> Step {
    call.get(Form::Left(Left(SECONDS)))
}

/// PTTL.
pub(in crate::resp) fn pttl(call: &mut Call<'_>) -> Step {
    call.get(Form::Left(Left(MILLIS)))
}

/// EXPIRETIME.
pub(in crate::resp) fn expiretime(call: &mut Call<'_>) -> Step {
    call.get(Form::Left(Left(UNIX_SECONDS)))
}

/// PEXPIRETIME.
pub(in crate::resp) fn pexpiretime(call: &mut Call<'_>) -> Step {
    call.get(Form::Left(Left(UNIX_MILLIS)))
}
