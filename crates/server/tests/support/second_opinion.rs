//! What `redis-protocol` reads of the same bytes: a parser of RESP that others wrote, beside ours.
//!
//! Both agree where bytes are as the protocol wants them. They differ in what is listed here, and nowhere else:
//!
//! - *inline commands*: `redis-protocol` has none;
//! - *arrays of less than none* say nothing, as with Redis; there they are a null (-1) or an error;
//! - *what stands in the place of a line's LF, or of the CRLF behind an argument* is skipped, as Redis does; there a line ends with both bytes;
//! - *numbers* are canonical here, as with Redis; there `+3` and `003` are numbers;
//! - *elements that are no bulk strings* are an error here as soon as they begin; there they are values, of which more bytes may be needed;
//! - *limits and errors*: lines, counts and lengths have limits here, and errors are Redis' words.

use redis_protocol::resp2::{decode::decode, types::OwnedFrame as Two};
use redis_protocol::resp3::{decode::complete, types::OwnedFrame as Three};
use server::resp::answer::{Answer, Output, Protocol};
use server::resp::parser::{Limits, Parsed, Parser, ProtocolError};

/// Arguments of a command.
pub type Words = Vec<Vec<u8>>;

/// What a parser finds at the beginning of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A command of this many bytes.
    Command(Words, usize),
    /// The beginning of one.
    Incomplete,
    /// Something else.
    Other,
}

/// A command as the protocol wants it written.
pub fn written(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// What `redis-protocol` reads.
pub fn theirs(bytes: &[u8]) -> Found {
    let is_no_bulk = |frame: &Two| !matches!(frame, Two::BulkString(_));
    match decode(bytes) {
        Ok(None) => Found::Incomplete,
        Ok(Some((Two::Array(frames), count))) if !frames.iter().any(is_no_bulk) => {
            let word = |frame| match frame {
                Two::BulkString(word) => word,
                _ => unreachable!("all are bulk strings"),
            };
            Found::Command(frames.into_iter().map(word).collect(), count)
        }
        Ok(Some(_)) | Err(_) => Found::Other,
    }
}

/// What our parser reads, and why it reads no further.
pub fn ours(bytes: &[u8], limits: Limits) -> (Found, Option<ProtocolError>) {
    let mut parser = Parser::new(limits);
    match parser.parse(bytes, false) {
        Parsed::Incomplete => (Found::Incomplete, None),
        Parsed::Failed(error) => (Found::Other, Some(error)),
        Parsed::Command(count) => {
            let words = parser.arguments(bytes).from(0).map(<[u8]>::to_vec).collect();
            (Found::Command(words, count), None)
        }
    }
}

/// Fails when the parsers differ about what `bytes` begin with in a way that the module does not list.
///
/// # Panics
/// When they do.
pub fn assert_agreed(bytes: &[u8], limits: Limits) {
    if bytes.first() != Some(&b'*') {
        return;
    }
    let ((our, error), their) = (ours(bytes, limits), theirs(bytes));
    match (&our, &their) {
        (Found::Command(words, count), Found::Command(their_words, their_count)) => {
            assert_eq!((words, count), (their_words, their_count));
        }
        (Found::Incomplete, Found::Incomplete) => {}
        // Whatever stands in the place of a CRLF: the same command in good form is the same command to both.
        (Found::Command(words, count), _) if !bytes.starts_with(b"*-") => {
            let good = written(words);
            assert_eq!(good.len(), *count, "numbers are canonical: {bytes:?}");
            assert_ne!(good, bytes[..*count], "a command in good form is read by one alone");
            assert_eq!(theirs(&good), Found::Command(words.clone(), *count));
        }
        // Less than none, which says nothing.
        (Found::Command(words, _), _) => assert!(words.is_empty(), "{bytes:?}"),
        (Found::Other, Found::Command(words, count)) => {
            assert_ne!(written(words), bytes[..*count], "a command in good form is refused: {error:?}");
            let is_number = matches!(error, Some(ProtocolError::BadCount | ProtocolError::BadLength));
            assert!(is_number, "{error:?}");
        }
        (Found::Incomplete, Found::Command(..)) => panic!("we wait for more than there is: {bytes:?}"),
        // A line of theirs ends later or never, an element is no string, or limits are reached.
        (Found::Incomplete, Found::Other) | (Found::Other, Found::Incomplete | Found::Other) => {}
    }
}

/// Fails when a command in good form is not one to both of them, or a beginning of it is more than that.
///
/// # Panics
/// When it is so.
pub fn assert_command(words: &[Vec<u8>], cut: usize, limits: Limits) {
    let bytes = written(words);
    let command = Found::Command(words.to_vec(), bytes.len());
    assert_eq!(theirs(&bytes), command);
    assert_eq!(ours(&bytes, limits), (command, None));
    let beginning = &bytes[..cut % bytes.len()];
    assert_eq!(theirs(beginning), Found::Incomplete);
    assert_eq!(ours(beginning, limits), (Found::Incomplete, None));
}

/// Fails when an answer that is written is not read as what it says.
///
/// # Panics
/// When it is not.
pub fn assert_read(answer: &Answer) {
    let bytes = |protocol| {
        let mut out = Output::default();
        answer.clone().write(protocol, &mut out);
        out.take_flat()
    };
    let two = bytes(Protocol::Two);
    let read = decode(&two).unwrap_or_else(|error| panic!("{error}: {two:?}"));
    assert_eq!(read, Some((meant_by_two(answer), two.len())));
    let three = bytes(Protocol::Three);
    let read = complete::decode(&three).unwrap_or_else(|error| panic!("{error}: {three:?}"));
    assert_eq!(read, Some((meant_by_three(answer), three.len())));
}

/// An error is one line.
fn line(text: &str) -> String {
    text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ")
}

fn meant_by_two(answer: &Answer) -> Two {
    let all = |answers: &[Answer]| Two::Array(answers.iter().map(meant_by_two).collect());
    match answer {
        Answer::Simple(text) => Two::SimpleString(text.as_bytes().to_vec()),
        Answer::Line(text) => Two::SimpleString(text.clone().into_bytes()),
        Answer::Error(text) => Two::Error(line(text)),
        Answer::Integer(value) => Two::Integer(*value),
        Answer::Bulk(value) => Two::BulkString(value.to_vec()),
        Answer::Text(text) => Two::BulkString(text.clone().into_bytes()),
        Answer::Null | Answer::NullArray => Two::Null,
        Answer::ArrayHead(count) => {
            assert_eq!(*count, 0, "what follows is no part of it");
            Two::Array(Vec::new())
        }
        Answer::Array(answers) | Answer::Set(answers) => all(answers),
        Answer::Map(pairs) => {
            Two::Array(pairs.iter().flat_map(|(key, value)| [key, value]).map(meant_by_two).collect())
        }
    }
}

fn meant_by_three(answer: &Answer) -> Three {
    use redis_protocol::resp3::types::VerbatimStringFormat;
    let attributes = None;
    let simple = |text: &str| Three::SimpleString { data: text.as_bytes().to_vec(), attributes: None };
    match answer {
        Answer::Simple(text) => simple(text),
        Answer::Line(text) => simple(text),
        Answer::Error(text) => Three::SimpleError { data: line(text), attributes },
        Answer::Integer(value) => Three::Number { data: *value, attributes },
        Answer::Bulk(value) => Three::BlobString { data: value.to_vec(), attributes },
        Answer::Text(text) => Three::VerbatimString {
            data: text.clone().into_bytes(),
            format: VerbatimStringFormat::Text,
            attributes,
        },
        Answer::Null | Answer::NullArray => Three::Null,
        Answer::ArrayHead(count) => {
            assert_eq!(*count, 0, "what follows is no part of it");
            Three::Array { data: Vec::new(), attributes }
        }
        Answer::Array(answers) => {
            Three::Array { data: answers.iter().map(meant_by_three).collect(), attributes }
        }
        Answer::Set(answers) => Three::Set { data: answers.iter().map(meant_by_three).collect(), attributes },
        Answer::Map(pairs) => {
            let pair = |(key, value): &(Answer, Answer)| (meant_by_three(key), meant_by_three(value));
            Three::Map { data: pairs.iter().map(pair).collect(), attributes }
        }
    }
}
