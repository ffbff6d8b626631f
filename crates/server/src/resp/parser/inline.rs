//! Arguments of an inline command: words, some of them quoted, as `sdssplitargs` of Redis has them.
//!
//! ```text
//! set name "a b\n\x00"    escapes \n \r \t \b \a \xHH, and \c for any other c
//! set name 'it\'s'        one escape: \'
//! ```
//!
//! After a quote that closes, a space or the end of the line must follow.

/// Splits a line: the unquoted bytes of each argument are appended to `out`, and `note` gets where they
/// begin and how many they are. False when quotes do not match.
pub(super) fn split(line: &[u8], out: &mut Vec<u8>, mut note: impl FnMut(usize, usize)) -> bool {
    // A zero ends the line, as the string it is for Redis.
    let line = line.iter().position(|byte| *byte == 0).map_or(line, |end| &line[..end]);
    let mut rest = line;
    loop {
        rest = trim_start(rest);
        if rest.is_empty() {
            return true;
        }
        let from = out.len();
        match take_word(rest, out) {
            Some(behind) => rest = behind,
            None => return false,
        }
        note(from, out.len() - from);
    }
}

fn trim_start(text: &[u8]) -> &[u8] {
    let blank = text.iter().take_while(|byte| is_space(**byte)).count();
    &text[blank..]
}

/// As `isspace` of C has it.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Appends a word and returns what follows it; nothing when its quotes do not match.
fn take_word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'"' => return take_quoted(behind, out, b'"'),
            b'\'' => return take_quoted(behind, out, b'\''),
            byte if is_space(byte) => return Some(rest),
            byte => out.push(byte),
        }
        rest = behind;
    }
    Some(rest)
}

fn take_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>, quote: u8) -> Option<&'a [u8]> {
    loop {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        if byte == quote {
            let ends = rest.first().is_none_or(|byte| is_space(*byte));
            return ends.then_some(rest);
        }
        if byte != b'\\' {
            out.push(byte);
        } else if quote == b'"' {
            rest = take_escape(rest, out)?;
        } else if rest.first() == Some(&b'\'') {
            out.push(b'\'');
            rest = &rest[1..];
        } else {
            out.push(byte);
        }
    }
}

/// What follows a backslash within double quotes.
fn take_escape<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    if let [b'x', high, low, behind @ ..] = rest
        && let (Some(high), Some(low)) = (hex(*high), hex(*low))
    {
        out.push(high << 4 | low);
        return Some(behind);
    }
    let (&byte, behind) = rest.split_first()?;
    out.push(match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    });
    Some(behind)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
