//! CONFIG: the settings of Redis that mean something here. Of all others there is nothing to tell.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::front::{Front, Statistics};
use crate::resp::numbers::integer;
use crate::resp::settings::DATABASES;

/// Settings that cannot be changed while the cache is served.
const FIXED: &[&str] =
    &["appendonly", "databases", "maxmemory", "maxmemory-policy", "proto-max-bulk-len", "save"];

fn settings(front: &Front) -> Vec<(&'static str, String)> {
    let settings = &front.settings;
    vec![
        ("appendonly", "no".to_owned()),
        ("databases", DATABASES.to_string()),
        ("maxmemory", settings.memory_bytes.to_string()),
        ("maxmemory-policy", "allkeys-lru".to_owned()),
        ("proto-max-bulk-len", settings.object_bytes_max.to_string()),
        ("save", String::new()),
        ("timeout", settings.timeout_seconds.to_string()),
    ]
}

/// CONFIG GET.
pub(in crate::resp) fn get(call: &mut Call<'_>) -> Step {
    let patterns: Vec<Vec<u8>> = call.arguments.from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let is_asked = |name: &str| patterns.iter().any(|pattern| matches(pattern, name.as_bytes()));
    let asked = settings(call.front).into_iter().filter(|(name, _)| is_asked(name));
    Step::Answer(Answer::Map(asked.map(|(name, value)| (Answer::bulk(name), Answer::bulk(value))).collect()))
}

/// CONFIG SET: all of them or none.
pub(in crate::resp) fn set(call: &mut Call<'_>) -> Step {
    if !call.arguments.len().is_multiple_of(2) {
        return Step::Answer(Answer::error("syntax error"));
    }
    let mut timeout = None;
    for index in (2..call.arguments.len()).step_by(2) {
        let name = String::from_utf8_lossy(call.at(index)).to_ascii_lowercase();
        let failed = |why: &str| {
            Step::Answer(Answer::error(format_args!(
                "CONFIG SET failed (possibly related to argument '{name}') - {why}"
            )))
        };
        let is_told_twice =
            (2..index).step_by(2).any(|other| call.at(other).eq_ignore_ascii_case(call.at(index)));
        if is_told_twice {
            return failed("duplicate parameter");
        }
        let present = settings(call.front).into_iter().find(|(known, _)| *known == name);
        match (name.as_str(), integer(call.at(index + 1))) {
            ("timeout", Some(seconds)) if (0..=i64::from(i32::MAX)).contains(&seconds) => {
                timeout = u64::try_from(seconds).ok();
            }
            ("timeout", None) => return failed("argument couldn't be parsed into an integer"),
            ("timeout", _) => return failed("argument must be between 0 and 2147483647 inclusive"),
            // What is so already may be asked for.
            _ if present.is_some_and(|(_, value)| value.as_bytes() == call.at(index + 1)) => {}
            _ if FIXED.contains(&name.as_str()) => return failed("can't set immutable config"),
            _ => {
                return Step::Answer(Answer::error(format_args!(
                    "Unknown option or number of arguments for CONFIG SET - '{name}'"
                )));
            }
        }
    }
    call.front.settings.timeout_seconds = timeout.unwrap_or(call.front.settings.timeout_seconds);
    Step::Answer(Answer::OK)
}

/// CONFIG RESETSTAT.
pub(in crate::resp) fn resetstat(call: &mut Call<'_>) -> Step {
    call.front.statistics = Statistics::default();
    Step::Answer(Answer::OK)
}

/// True when `text` is as `pattern` says: `*`, `?`, `[a-c^d]` and `\`, as Redis has them.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where to go on when what follows the last star does not fit.
    let mut retry: Option<(&[u8], &[u8])> = None;
    let (mut pattern, mut text) = (pattern, text);
    loop {
        if let Some(rest) = pattern.strip_prefix(b"*") {
            (pattern, retry) = (rest, Some((rest, text)));
            continue;
        }
        let step = match text.first() {
            None if pattern.is_empty() => return true,
            None => None,
            Some(byte) => one(pattern, *byte),
        };
        match (step, &mut retry) {
            (Some(rest), _) => (pattern, text) = (rest, &text[1..]),
            (None, Some((after_star, from))) if !from.is_empty() => {
                *from = &from[1..];
                (pattern, text) = (after_star, from);
            }
            (None, _) => return false,
        }
    }
}

/// What is left of the pattern when its first element fits `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => set_of(rest, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [first, rest @ ..] => (*first == byte).then_some(rest),
        [] => None,
    }
}

fn set_of(set: &[u8], byte: u8) -> Option<&[u8]> {
    let (is_negated, mut rest) = match set {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut is_member = false;
    loop {
        rest = match rest {
            [b']', behind @ ..] => return (is_member != is_negated).then_some(behind),
            [b'\\', escaped, behind @ ..] => {
                is_member |= *escaped == byte;
                behind
            }
            [from, b'-', to, behind @ ..] => {
                is_member |= (*from.min(to)..=*from.max(to)).contains(&byte);
                behind
            }
            [one, behind @ ..] => {
                is_member |= *one == byte;
                behind
            }
            [] => return (is_member != is_negated).then_some(rest),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_redis() {
        let fits = [
            ("*", ""),
            ("a*c", "abbc"),
            ("h?llo", "hello"),
            ("h[a-c]t", "hbt"),
            ("h[^e]t", "hat"),
            ("\\*", "*"),
        ];
        for (pattern, text) in fits {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in
            [("a", ""), ("", "a"), ("a*c", "abcd"), ("h[^e]t", "het"), ("?", ""), ("[a", "b")]
        {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        // Many stars take no longer than one.
        assert!(!matches(&b"a*".repeat(100), &[b'a'; 10_000].map(|byte| byte).repeat(2)[..99]));
    }
}
