//! Answers, and how RESP2 and RESP3 write them.
//!
//! Types that RESP2 does not have are written as their relatives there: a map as an array of keys and values,
//! a set as an array, text as a bulk string.

use super::numbers::push_integer;
use cache::value::Value;
use std::borrow::Cow;

/// Values from this size on are sent from where they are, not copied.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// Version of the protocol, which a client chooses by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2.
    #[default]
    Two,
    /// RESP3.
    Three,
}

/// Answer to a command, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A simple string.
    Simple(&'static str),
    /// A simple string that is made.
    Line(String),
    /// An error: its code and what it says.
    Error(Cow<'static, str>),
    /// An integer.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Value),
    /// Text for people.
    Text(String),
    /// No string.
    Null,
    /// No array.
    NullArray,
    /// This many answers follow as an array.
    ArrayHead(usize),
    /// An array.
    Array(Vec<Answer>),
    /// A set.
    Set(Vec<Answer>),
    /// A map.
    Map(Vec<(Answer, Answer)>),
}

impl Answer {
    /// `+OK`.
    pub const OK: Answer = Answer::Simple("OK");

    /// An error with the code ERR.
    #[must_use]
    pub fn error(text: impl std::fmt::Display) -> Answer {
        Answer::Error(Cow::Owned(format!("ERR {text}")))
    }

    /// A string.
    #[must_use]
    pub fn bulk(text: impl AsRef<[u8]>) -> Answer {
        Answer::Bulk(text.as_ref().into())
    }

    /// Memory that the answer takes beside itself, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        match self {
            Answer::Bulk(value) => value.heap_bytes(),
            Answer::Text(text) | Answer::Line(text) => text.capacity(),
            Answer::Error(Cow::Owned(text)) => text.capacity(),
            Answer::Array(answers) | Answer::Set(answers) => {
                answers.iter().map(|answer| size_of::<Answer>() + answer.bytes_held()).sum()
            }
            Answer::Map(pairs) => pairs
                .iter()
                .map(|(key, value)| 2 * size_of::<Answer>() + key.bytes_held() + value.bytes_held())
                .sum(),
            _ => 0,
        }
    }

    /// Writes the answer.
    pub fn write(self, protocol: Protocol, out: &mut Output) {
        let is_three = protocol == Protocol::Three;
        match self {
            Answer::Simple(text) => out.line(b'+', text.as_bytes()),
            Answer::Line(text) => out.line(b'+', text.as_bytes()),
            Answer::Error(text) => out.error(&text),
            Answer::Integer(value) => out.number(b':', value),
            Answer::Bulk(value) => out.bulk(value),
            Answer::Text(text) if is_three => out.verbatim(&text),
            Answer::Text(text) => out.bulk(text.into_bytes().into()),
            Answer::Null | Answer::NullArray if is_three => out.line(b'_', b""),
            Answer::Null => out.line(b'$', b"-1"),
            Answer::NullArray => out.line(b'*', b"-1"),
            Answer::ArrayHead(count) => out.count(b'*', count),
            Answer::Array(answers) => out.all(b'*', answers, protocol),
            Answer::Set(answers) => out.all(if is_three { b'~' } else { b'*' }, answers, protocol),
            Answer::Map(pairs) => {
                if is_three {
                    out.count(b'%', pairs.len());
                } else {
                    out.count(b'*', pairs.len() * 2);
                }
                for (key, value) in pairs {
                    key.write(protocol, out);
                    value.write(protocol, out);
                }
            }
        }
    }
}

/// Written answers: bytes, and large values with their places among them.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Values, and how many of `bytes` come before each.
    values: Vec<(usize, Value)>,
    values_bytes: usize,
}

impl Output {
    /// True when there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.values.is_empty()
    }

    /// Bytes to send.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.values_bytes
    }

    /// Memory that it takes, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.bytes.capacity() + self.values_bytes
    }

    /// Takes everything: bytes, and values with the count of bytes that come before each.
    #[must_use]
    pub fn take(&mut self, empty: Vec<u8>) -> (Vec<u8>, Vec<(usize, Value)>) {
        assert!(empty.is_empty(), "{} bytes would come before the next answers", empty.len());
        let bytes: usize = self.values.iter().map(|(_, value)| value.len()).sum();
        assert!(bytes == self.values_bytes, "values have {bytes} bytes, not {}", self.values_bytes);
        self.values_bytes = 0;
        (std::mem::replace(&mut self.bytes, empty), std::mem::take(&mut self.values))
    }

    /// Takes everything, as the client will see it.
    #[must_use]
    pub fn take_flat(&mut self) -> Vec<u8> {
        let (bytes, values) = self.take(Vec::new());
        let (mut flat, mut at) = (Vec::new(), 0);
        for (place, value) in values {
            flat.extend_from_slice(&bytes[at..place]);
            flat.extend_from_slice(&value);
            at = place;
        }
        flat.extend_from_slice(&bytes[at..]);
        flat
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Output::default();
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A value: a large one is not copied.
    pub fn value(&mut self, value: Value) {
        if value.len() < COPIED_BYTES_MAX {
            self.bytes.extend_from_slice(&value);
        } else {
            self.values_bytes += value.len();
            let before = self.values.last().map_or(0, |(place, _)| *place);
            assert!(before <= self.bytes.len(), "a value lies behind byte {before} of {}", self.bytes.len());
            self.values.push((self.bytes.len(), value));
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An error is one line, whatever a client has made of it.
    fn error(&mut self, text: &str) {
        let plain = |byte: u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        self.bytes.push(b'-');
        self.bytes.extend(text.trim_end_matches(['\r', '\n']).bytes().map(plain));
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, value: i64) {
        self.bytes.push(kind);
        push_integer(&mut self.bytes, value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, kind: u8, count: usize) {
        self.number(kind, i64::try_from(count).expect("memory has less than 2^63 bytes"));
    }

    fn bulk(&mut self, value: Value) {
        self.count(b'$', value.len());
        self.value(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn verbatim(&mut self, text: &str) {
        self.count(b'=', text.len() + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn all(&mut self, kind: u8, answers: Vec<Answer>, protocol: Protocol) {
        self.count(kind, answers.len());
        for answer in answers {
            answer.write(protocol, self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(answer: Answer, protocol: Protocol) -> String {
        let mut out = Output::default();
        answer.write(protocol, &mut out);
        String::from_utf8(out.take_flat()).unwrap()
    }

    #[test]
    fn each_protocol_has_its_types() {
        let map =
            Answer::Map(vec![(Answer::bulk("a"), Answer::Integer(-1)), (Answer::Null, Answer::NullArray)]);
        assert_eq!(written(map.clone(), Protocol::Two), "*4\r\n$1\r\na\r\n:-1\r\n$-1\r\n*-1\r\n");
        assert_eq!(written(map, Protocol::Three), "%2\r\n$1\r\na\r\n:-1\r\n_\r\n_\r\n");
        let text = Answer::Text("x\n".to_owned());
        assert_eq!(written(text.clone(), Protocol::Two), "$2\r\nx\n\r\n");
        assert_eq!(written(text, Protocol::Three), "=6\r\ntxt:x\n\r\n");
        let set = Answer::Set(vec![Answer::OK]);
        assert_eq!(written(set.clone(), Protocol::Two), "*1\r\n+OK\r\n");
        assert_eq!(written(set, Protocol::Three), "~1\r\n+OK\r\n");
        assert_eq!(written(Answer::error("a\r\nb\r\n"), Protocol::Two), "-ERR a  b\r\n");
    }

    #[test]
    fn large_values_keep_their_places() {
        let large = Value::from(vec![b'v'; COPIED_BYTES_MAX]);
        let mut out = Output::default();
        let answers = [Answer::Bulk(large.clone()), Answer::OK, Answer::Bulk(large.clone())];
        Answer::Array(answers.to_vec()).write(Protocol::Two, &mut out);
        let head = format!("${COPIED_BYTES_MAX}\r\n").into_bytes();
        let value = [&head[..], &large, b"\r\n"].concat();
        let expected = [b"*3\r\n", &value[..], b"+OK\r\n", &value].concat();
        assert_eq!(out.len(), expected.len());
        assert_eq!(out.take_flat(), expected);
        assert!(out.is_empty());
    }
}
