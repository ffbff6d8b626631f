//! Commands that look at all keys: KEYS, SCAN, RANDOMKEY.
//!
//! They are walks of the cache ([`cache::request::Walk`]): a cursor is the place that the last one told, and the server keeps
//! nothing for it. They are fences, so that a client sees what it stored before.

use super::config::matches;
use super::expiry::no_integer;
use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::numbers::integer;
use crate::resp::pending::Form;
use cache::request::{Chosen, Op, Walk};

/// Most keys that KEYS answers with.
pub(in crate::resp) const KEYS_MAX: usize = 100_000;
/// COUNT of SCAN unless a client says it.
const COUNT: u64 = 10;
/// Most idents that one SCAN looks at, whatever COUNT says.
const COUNT_MAX: u64 = 4096;
/// Fewest idents that one SCAN looks at before it answers with less than COUNT: some are of other databases, or of objects that are gone.
const LOOKS_MIN: u64 = 256;
/// Idents that are looked at together.
const STRIDE: usize = 256;
/// The same of RANDOMKEY, which takes one of the keys.
const STRIDE_RANDOM: usize = 8;
const _: () = assert!(COUNT <= COUNT_MAX && STRIDE_RANDOM <= STRIDE);

fn chosen(pattern: Option<&[u8]>) -> Chosen {
    match pattern {
        None | Some(b"*") => Chosen::all(),
        Some(pattern) => Chosen::matching(matches, pattern),
    }
}

/// Memory that the keys of an answer may take: a quarter of what all clients have.
fn bytes_max(call: &Call<'_>) -> usize {
    call.front.settings.client_memory_bytes / 4
}

/// KEYS PATTERN.
pub(in crate::resp) fn keys(call: &mut Call<'_>) -> Step {
    let walk = Walk {
        from: 0,
        everywhere: false,
        begins: true,
        wraps: false,
        idents_max: u64::MAX,
        stride: STRIDE,
        keys_max: KEYS_MAX + 1,
        bytes_max: bytes_max(call),
        chosen: chosen(Some(call.at(1))),
    };
    let bytes = call.at(1).len();
    call.ask(Op::Walk(walk), bytes, Form::Keys)
}

/// Options of SCAN.
struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: u64,
    has_type: bool,
}

fn options<'a>(call: &Call<'a>) -> Result<Options<'a>, Answer> {
    let syntax_error = || Answer::error("syntax error");
    let mut options = Options { pattern: None, count: COUNT, has_type: true };
    let mut rest = call.arguments.from(2);
    while let Some(word) = rest.next() {
        let value = rest.next().ok_or_else(syntax_error)?;
        match word.to_ascii_lowercase().as_slice() {
            b"match" => options.pattern = Some(value),
            b"count" => {
                let count = integer(value).ok_or_else(no_integer)?;
                options.count =
                    u64::try_from(count).ok().filter(|count| *count > 0).ok_or_else(syntax_error)?;
            }
            // All that is stored is a string.
            b"type" => options.has_type = value.eq_ignore_ascii_case(b"string"),
            _ => return Err(syntax_error()),
        }
    }
    Ok(options)
}

/// A cursor: an unsigned number of 64 bits, as `strtoul` reads it.
fn cursor(text: &[u8]) -> Option<u64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number: u64 = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// SCAN CURSOR [MATCH PATTERN] [COUNT N] [TYPE T].
pub(in crate::resp) fn scan(call: &mut Call<'_>) -> Step {
    let Some(from) = cursor(call.at(1)) else { return Step::Answer(Answer::error("invalid cursor")) };
    let options = match options(call) {
        Ok(options) => options,
        Err(answer) => return Step::Answer(answer),
    };
    let walk = Walk {
        from,
        everywhere: false,
        begins: from == 0,
        wraps: false,
        idents_max: options.count.clamp(LOOKS_MIN, COUNT_MAX),
        stride: usize::try_from(options.count).unwrap_or(STRIDE).min(STRIDE),
        keys_max: usize::try_from(options.count).unwrap_or(usize::MAX),
        bytes_max: bytes_max(call),
        chosen: if options.has_type { chosen(options.pattern) } else { Chosen::none() },
    };
    let bytes = options.pattern.map_or(0, <[u8]>::len);
    call.ask(Op::Walk(walk), bytes, Form::Scan)
}

/// RANDOMKEY: one of the first keys behind a place that is drawn.
pub(in crate::resp) fn randomkey(call: &mut Call<'_>) -> Step {
    let (place, which) = (call.front.random.bits(), call.front.random.bits());
    let walk = Walk {
        from: place,
        everywhere: false,
        begins: true,
        wraps: true,
        idents_max: u64::MAX,
        stride: STRIDE_RANDOM,
        keys_max: 1,
        bytes_max: usize::MAX,
        chosen: Chosen::all(),
    };
    call.ask(Op::Walk(walk), 0, Form::AnyKey(which))
}

/// Answer of KEYS.
pub(in crate::resp) fn all(keys: Vec<Vec<u8>>, is_whole: bool) -> Answer {
    if keys.len() > KEYS_MAX || !is_whole {
        return Answer::error(format_args!(
            "more than {KEYS_MAX} keys, or more than memory has room for: use SCAN"
        ));
    }
    bulks(keys)
}

fn bulks(keys: Vec<Vec<u8>>) -> Answer {
    Answer::Array(keys.into_iter().map(|key| Answer::Bulk(key.into())).collect())
}

/// Answer of SCAN.
pub(in crate::resp) fn part(keys: Vec<Vec<u8>>, next: Option<u64>) -> Answer {
    let cursor = Answer::bulk(next.unwrap_or(0).to_string());
    Answer::Array(vec![cursor, bulks(keys)])
}

/// Answer of RANDOMKEY.
pub(in crate::resp) fn any(mut keys: Vec<Vec<u8>>, which: u64) -> Answer {
    let count = keys.len() as u64;
    match count {
        0 => Answer::Null,
        _ => {
            let which = usize::try_from(which % count).expect("an index of a vector");
            Answer::Bulk(keys.swap_remove(which).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_digits() {
        assert_eq!(cursor(b"0"), Some(0));
        assert_eq!(cursor(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!((cursor(b"-1"), cursor(b"+7")), (Some(u64::MAX), Some(7)));
        for wrong in [&b""[..], b"-", b"+-1", b" 1", b"1 ", b"18446744073709551616", b"\xff"] {
            assert_eq!(cursor(wrong), None);
        }
    }

    #[test]
    fn a_cut_list_of_keys_is_no_answer() {
        let keys = vec![b"a".to_vec()];
        assert_eq!(all(keys.clone(), true), Answer::Array(vec![Answer::bulk("a")]));
        assert!(matches!(all(keys, false), Answer::Error(_)));
        assert!(matches!(all(vec![Vec::new(); KEYS_MAX + 1], true), Answer::Error(_)));
        assert_eq!(any(Vec::new(), 7), Answer::Null);
    }
}
