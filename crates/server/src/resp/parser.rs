//! Requests of RESP: arrays of bulk strings, and inline commands.
//!
//! The parser looks at bytes that somebody else keeps: those from the beginning of the command on.
//! It remembers how far it came, so that a command of 16 MiB that comes a byte at a time is looked
//! at once. An argument is a span of those bytes; nothing is copied. Only inline arguments, which
//! may be quoted, are unquoted into a buffer of the parser.
//!
//! What is allocated follows from what has arrived: a span (8 bytes) for an argument that is there
//! (6 bytes at least), and never from a length that a client only announces.
//!
//! Errors are Redis 7.0's, in its words. They depend on the bytes alone, not on how they arrived.

use super::numbers::integer;
use std::fmt;

mod inline;

/// Longest line: an inline command, or a length (PROTO_INLINE_MAX_SIZE).
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Most arguments of a command.
pub const ARGUMENTS_MAX: i64 = 1 << 20;
/// Limits for those who have not said the password.
const STRANGER_ARGUMENTS_MAX: i64 = 10;
const STRANGER_BULK_BYTES_MAX: i64 = 16 << 10;
const _: () = assert!(STRANGER_ARGUMENTS_MAX <= ARGUMENTS_MAX);

/// Limits of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest argument in bytes.
    pub bulk_bytes_max: u32,
    /// Longest command in bytes, lengths and all.
    pub command_bytes_max: u32,
}

/// What is wrong with what a client sends. The connection is closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A line without its end.
    LongInline,
    /// Quotes in an inline command that do not match.
    UnbalancedQuotes,
    /// A count of arguments without its end.
    LongCount,
    /// A count of arguments that is no number, or too large.
    BadCount,
    /// A count of arguments too large for those who have not said the password.
    StrangersCount,
    /// Something else where an argument begins.
    NoBulk(u8),
    /// A length of an argument without its end.
    LongLength,
    /// A length of an argument that is no number, negative or too large.
    BadLength,
    /// A length of an argument too large for those who have not said the password.
    StrangersLength,
    /// A command longer than the limit.
    LongCommand,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            ProtocolError::LongInline => f.write_str("too big inline request"),
            ProtocolError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            ProtocolError::LongCount => f.write_str("too big mbulk count string"),
            ProtocolError::BadCount => f.write_str("invalid multibulk length"),
            ProtocolError::StrangersCount => f.write_str("unauthenticated multibulk length"),
            ProtocolError::NoBulk(byte) => write!(f, "expected '$', got '{}'", char::from(*byte)),
            ProtocolError::LongLength => f.write_str("too big bulk count string"),
            ProtocolError::BadLength => f.write_str("invalid bulk length"),
            ProtocolError::StrangersLength => f.write_str("unauthenticated bulk length"),
            ProtocolError::LongCommand => f.write_str("too big request"),
        }
    }
}

/// Outcome of a look at the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// A command of this many bytes, without arguments when it says nothing; see [`Parser::arguments`].
    Command(usize),
    /// Nothing that follows can be understood.
    Failed(ProtocolError),
}

/// Bytes of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    from: u32,
    bytes: u32,
}

impl Span {
    fn new(from: usize, bytes: usize) -> Span {
        let narrow = |value: usize| u32::try_from(value).expect("commands are shorter than 4 GiB");
        Span { from: narrow(from), bytes: narrow(bytes) }
    }

    fn of(self, bytes: &[u8]) -> &[u8] {
        let wide = |value: u32| usize::try_from(value).expect("usize has at least 32 bits");
        &bytes[wide(self.from)..][..wide(self.bytes)]
    }
}

/// Arguments of a command, the first of them its name.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// Count of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True for a command that says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument `index`.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.spans[index].of(self.bytes)
    }

    /// Argument `index`, if there is one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes))
    }

    /// All arguments from `index` on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, spans) = (self.bytes, self.spans.get(index..).unwrap_or_default());
        spans.iter().map(move |span| span.of(bytes))
    }

    /// The arguments from `index` on, as a command of their own.
    #[must_use]
    pub fn behind(&self, index: usize) -> Arguments<'a> {
        Arguments { bytes: self.bytes, spans: self.spans.get(index..).unwrap_or_default() }
    }

    /// A copy that lives on its own.
    #[must_use]
    pub fn to_owned(&self) -> OwnedArguments {
        let total: usize = self.from(0).map(<[u8]>::len).sum();
        let mut owned =
            OwnedArguments { bytes: Vec::with_capacity(total), spans: Vec::with_capacity(self.len()) };
        for argument in self.from(0) {
            owned.spans.push(Span::new(owned.bytes.len(), argument.len()));
            owned.bytes.extend_from_slice(argument);
        }
        owned
    }
}

/// Arguments with their bytes.
#[derive(Clone, Debug, Default)]
pub struct OwnedArguments {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArguments {
    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> Arguments<'_> {
        Arguments { bytes: &self.bytes, spans: &self.spans }
    }

    /// Memory that they take, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

/// What is known of the command that is being parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing.
    Start,
    /// This many arguments are still to come; the next has its length to tell.
    Length { missing: u32 },
    /// This many arguments are still to come; the next has this many bytes.
    Bulk { missing: u32, bytes: usize },
    /// The command is whole; the next look is at another one.
    Whole,
}

/// See the module.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    stage: Stage,
    /// Bytes of the command that are understood.
    at: usize,
    /// Bytes of the command in which the end of the current line is not.
    searched: usize,
    spans: Vec<Span>,
    /// Arguments of an inline command, unquoted.
    inline: Vec<u8>,
    is_inline: bool,
}

/// Arguments for which a parser keeps its memory.
const SPANS_KEPT_MAX: usize = 1024;

impl Parser {
    /// A parser that has seen nothing.
    ///
    /// # Panics
    /// When a command cannot hold the longest argument.
    #[must_use]
    pub fn new(limits: Limits) -> Parser {
        assert!(limits.bulk_bytes_max < limits.command_bytes_max);
        let (spans, inline) = (Vec::new(), Vec::new());
        Parser { limits, stage: Stage::Start, at: 0, searched: 0, spans, inline, is_inline: false }
    }

    /// Looks at `bytes`, all there are from the beginning of the command on. `is_stranger` is a client that
    /// has not said the password.
    ///
    /// # Panics
    /// When there are fewer bytes than before.
    pub fn parse(&mut self, bytes: &[u8], is_stranger: bool) -> Parsed {
        if self.stage == Stage::Whole {
            self.begin();
        }
        assert!(bytes.len() >= self.at);
        loop {
            let step = match self.stage {
                Stage::Start if bytes.is_empty() => return Parsed::Incomplete,
                Stage::Start if bytes[0] == b'*' => self.take_count(bytes, is_stranger),
                Stage::Start => return self.take_inline(bytes),
                Stage::Length { missing } => self.take_length(bytes, missing, is_stranger),
                Stage::Bulk { missing, bytes: count } => self.take_bulk(bytes, missing, count),
                Stage::Whole => return Parsed::Command(self.at),
            };
            match step {
                Ok(true) => {}
                Ok(false) => return Parsed::Incomplete,
                Err(error) => return Parsed::Failed(error),
            }
        }
    }

    /// Arguments of the command that [`Parser::parse`] has found in `bytes`.
    #[must_use]
    pub fn arguments<'a>(&'a self, bytes: &'a [u8]) -> Arguments<'a> {
        assert!(self.stage == Stage::Whole);
        Arguments { bytes: if self.is_inline { &self.inline } else { bytes }, spans: &self.spans }
    }

    /// True between commands.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        matches!(self.stage, Stage::Start | Stage::Whole)
    }

    /// Bytes after which a command that is incomplete is complete, goes on, or is wrong: more than it was seen to have.
    #[must_use]
    pub fn bytes_needed(&self) -> usize {
        match self.stage {
            Stage::Bulk { bytes, .. } => self.at + bytes + 2,
            Stage::Start | Stage::Length { .. } | Stage::Whole => self.at + LINE_BYTES_MAX + 1,
        }
    }

    /// Memory that the parser takes, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.inline.capacity()
    }

    fn begin(&mut self) {
        (self.stage, self.at, self.searched, self.is_inline) = (Stage::Start, 0, 0, false);
        self.spans.clear();
        if self.spans.capacity() > SPANS_KEPT_MAX {
            self.spans = Vec::new();
        }
        self.inline = Vec::new();
    }

    /// `*COUNT\r\n`.
    fn take_count(&mut self, bytes: &[u8], is_stranger: bool) -> Result<bool, ProtocolError> {
        let Some(line) = self.line(bytes, ProtocolError::LongCount)? else { return Ok(false) };
        let count = integer(&line[1..]).filter(|count| *count <= ARGUMENTS_MAX);
        let count = count.ok_or(ProtocolError::BadCount)?;
        if is_stranger && count > STRANGER_ARGUMENTS_MAX {
            return Err(ProtocolError::StrangersCount);
        }
        // An array of none, or of less, says nothing.
        let missing = u32::try_from(count).unwrap_or(0);
        self.pass_line(line.len());
        self.stage = if missing == 0 { Stage::Whole } else { Stage::Length { missing } };
        Ok(true)
    }

    /// `$BYTES\r\n`.
    fn take_length(&mut self, bytes: &[u8], missing: u32, is_stranger: bool) -> Result<bool, ProtocolError> {
        let Some(line) = self.line(bytes, ProtocolError::LongLength)? else { return Ok(false) };
        match line.first() {
            Some(b'$') => {}
            other => return Err(ProtocolError::NoBulk(other.copied().unwrap_or(b'\r'))),
        }
        let limit = i64::from(self.limits.bulk_bytes_max);
        let count = integer(&line[1..]).filter(|count| (0..=limit).contains(count));
        let count = count.ok_or(ProtocolError::BadLength)?;
        if is_stranger && count > STRANGER_BULK_BYTES_MAX {
            return Err(ProtocolError::StrangersLength);
        }
        self.pass_line(line.len());
        let count = usize::try_from(count).expect("between 0 and a limit of 32 bits");
        let command_bytes_max = usize::try_from(self.limits.command_bytes_max).unwrap_or(usize::MAX);
        if self.at + count + 2 > command_bytes_max {
            return Err(ProtocolError::LongCommand);
        }
        self.stage = Stage::Bulk { missing, bytes: count };
        Ok(true)
    }

    /// The bytes of an argument. What stands in the place of the CRLF behind them is skipped, as Redis does.
    fn take_bulk(&mut self, bytes: &[u8], missing: u32, count: usize) -> Result<bool, ProtocolError> {
        assert!(missing > 0, "an argument of a command that is whole");
        let end = self.at + count;
        if bytes.len() < end + 2 {
            return Ok(false);
        }
        self.spans.push(Span::new(self.at, count));
        let count = i64::try_from(self.spans.len()).expect("memory has less than 2^63 bytes");
        assert!(count <= ARGUMENTS_MAX, "{count} arguments of {ARGUMENTS_MAX}");
        self.at = end + 2;
        self.searched = self.at;
        self.stage = if missing == 1 { Stage::Whole } else { Stage::Length { missing: missing - 1 } };
        Ok(true)
    }

    fn take_inline(&mut self, bytes: &[u8]) -> Parsed {
        let line = match self.find(bytes, b'\n', ProtocolError::LongInline) {
            Ok(Some(end)) => &bytes[..end],
            Ok(None) => return Parsed::Incomplete,
            Err(error) => return Parsed::Failed(error),
        };
        let line_bytes = line.len() + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.is_inline = true;
        let (inline, spans) = (&mut self.inline, &mut self.spans);
        let is_balanced = inline::split(line, inline, |from, bytes| spans.push(Span::new(from, bytes)));
        if !is_balanced {
            return Parsed::Failed(ProtocolError::UnbalancedQuotes);
        }
        self.at = line_bytes;
        self.stage = Stage::Whole;
        Parsed::Command(self.at)
    }

    /// The line that begins at `at`, once both bytes of its end are there.
    fn line<'a>(&mut self, bytes: &'a [u8], long: ProtocolError) -> Result<Option<&'a [u8]>, ProtocolError> {
        let end = self.find(bytes, b'\r', long)?;
        Ok(end.filter(|end| bytes.len() >= end + 2).map(|end| &bytes[self.at..end]))
    }

    fn pass_line(&mut self, line_bytes: usize) {
        self.at += line_bytes + 2;
        self.searched = self.at;
    }

    /// The first `end` from `at` on.
    fn find(&mut self, bytes: &[u8], end: u8, long: ProtocolError) -> Result<Option<usize>, ProtocolError> {
        self.searched = self.searched.max(self.at);
        let search_end = bytes.len().min(self.at + LINE_BYTES_MAX + 1);
        if let Some(offset) = bytes[self.searched..search_end].iter().position(|byte| *byte == end) {
            self.searched += offset;
            return Ok(Some(self.searched));
        }
        self.searched = search_end;
        if bytes.len() - self.at > LINE_BYTES_MAX { Err(long) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests;
