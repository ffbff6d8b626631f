//! CONFIG: the settings of Redis that mean something here. Of all others there is nothing to tell.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::front::{Front, Notice, Statistics};
use crate::resp::numbers::integer;
use crate::resp::settings::DATABASES;

/// Settings that Redis does not change while it runs, whether they mean something here or not.
const IMMUTABLE: &[&str] = &[
    "aclfile",
    "always-show-logo",
    "appenddirname",
    "appendfilename",
    "cluster-config-file",
    "cluster-enabled",
    "daemonize",
    "databases",
    "disable-thp",
    "io-threads",
    "logfile",
    "pidfile",
    "rdbchecksum",
    "set-proc-title",
    "socket-mark-id",
    "supervised",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tcp-backlog",
    "unixsocket",
    "unixsocketperm",
];

fn settings(front: &Front) -> Vec<(&'static str, String)> {
    let settings = &front.settings;
    vec![
        ("appendonly", "no".to_owned()),
        ("bind", settings.bind.clone()),
        ("databases", DATABASES.to_string()),
        ("maxmemory", settings.memory_bytes.to_string()),
        ("maxmemory-policy", "allkeys-lru".to_owned()),
        ("port", settings.port.to_string()),
        ("proto-max-bulk-len", settings.object_bytes_max.to_string()),
        ("replicaof", String::new()),
        ("save", String::new()),
        ("slaveof", String::new()),
        ("timeout", settings.timeout_seconds.to_string()),
    ]
}

/// CONFIG GET: each setting once; one that is asked for by its whole name is told under it as the client writes it.
pub(in crate::resp) fn get(call: &mut Call<'_>) -> Step {
    let told = settings(call.front).into_iter().filter_map(|(name, value)| {
        let is_asked = |asked: &&[u8]| matches(&asked.to_ascii_lowercase(), name.as_bytes());
        let asked = call.arguments.from(2).find(is_asked)?;
        let is_pattern = asked.iter().any(|byte| b"*?[\\".contains(byte));
        let name = if is_pattern { Answer::bulk(name) } else { Answer::bulk(asked) };
        Some((name, Answer::bulk(value)))
    });
    Step::Answer(Answer::Map(told.collect()))
}

/// The error for a setting that cannot be set so.
fn failed(name: &str, why: &str) -> Answer {
    Answer::error(format_args!("CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// What is wrong with the names of settings, before any is looked at: the first that Redis does not know, else the first that does
/// not change, or stands there twice.
fn wrong_names(names: &[String], known: &[(&'static str, String)]) -> Option<Answer> {
    let is_known = |name: &str| known.iter().any(|(other, _)| *other == name) || IMMUTABLE.contains(&name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Some(Answer::error(format_args!(
            "Unknown option or number of arguments for CONFIG SET - '{name}'"
        )));
    }
    let mut before = Vec::new();
    for name in names {
        if IMMUTABLE.contains(&name.as_str()) {
            return Some(failed(name, "can't set immutable config"));
        }
        if before.contains(&name) {
            return Some(failed(name, "duplicate parameter"));
        }
        before.push(name);
    }
    None
}

/// CONFIG SET: all of them or none.
pub(in crate::resp) fn set(call: &mut Call<'_>) -> Step {
    if !call.arguments.len().is_multiple_of(2) {
        return Step::Answer(Answer::error("syntax error"));
    }
    let present = settings(call.front);
    let names: Vec<String> = call
        .arguments
        .from(2)
        .step_by(2)
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect();
    if let Some(answer) = wrong_names(&names, &present) {
        return Step::Answer(answer);
    }
    let mut timeout = None;
    for (name, text) in names.iter().zip(call.arguments.from(3).step_by(2)) {
        let is_so = present.iter().any(|(other, value)| other == name && value.as_bytes() == text);
        let why = match (name.as_str(), integer(text)) {
            ("timeout", Some(seconds)) if (0..=i64::from(i32::MAX)).contains(&seconds) => {
                timeout = u64::try_from(seconds).ok();
                continue;
            }
            ("timeout", None) => "argument couldn't be parsed into an integer",
            ("timeout", _) => "argument must be between 0 and 2147483647 inclusive",
            // What is so already may be asked for.
            _ if is_so => continue,
            _ => "it is fixed while the cache is served",
        };
        return Step::Answer(failed(name, why));
    }
    if let Some(seconds) = timeout {
        call.front.settings.timeout_seconds = seconds;
        call.front.notices.push(Notice::Timeout(seconds));
    }
    Step::Answer(Answer::OK)
}

/// CONFIG RESETSTAT.
pub(in crate::resp) fn resetstat(call: &mut Call<'_>) -> Step {
    call.front.statistics = Statistics::default();
    call.front.notices.push(Notice::ResetStatistics);
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
