//! The control socket: one line in, one answer out, connection closed.
//!
//! The server hands the line to `Volume::control` between two turns, so an answer is a consistent
//! view of the engine. [`ask`] is the client's side, for the command line.

use crate::listen::{BindError, Listen, Listener, ShortPath};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Longest line, including its end.
pub const LINE_BYTES_MAX: usize = 4096;

/// Control connections at a time; they live for one question.
pub const CONTROL_CONNECTIONS_MAX: usize = 64;

/// Time that [`ask`] waits for the server.
const ASK_LIMIT: Duration = Duration::from_secs(60);

/// Why a question got no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no server answers on {path}: is it running, and is this its control socket? ({source})")]
    NoServer {
        /// The control socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The line would not fit.
    #[error("the line must be a single one of less than {LINE_BYTES_MAX} bytes")]
    BadLine,
    /// The conversation broke off.
    #[error("the server did not finish its answer: {0}")]
    Io(#[from] io::Error),
}

/// Begins to listen for control connections.
///
/// # Errors
/// As [`Listen::bind`].
pub fn bind(path: &Path) -> Result<Listener, BindError> {
    Listen::Unix(path.to_owned()).bind()
}

/// Asks the server at `path` and returns its answer. Blocks for at most a minute.
///
/// # Errors
/// When nobody listens, or the conversation breaks off.
pub fn ask(path: &Path, line: &str) -> Result<String, AskError> {
    if line.len() >= LINE_BYTES_MAX || line.contains('\n') {
        return Err(AskError::BadLine);
    }
    let connected = ShortPath::of(path).and_then(|short| UnixStream::connect(short.path()));
    let mut stream = connected.map_err(|source| AskError::NoServer { path: path.to_owned(), source })?;
    stream.set_read_timeout(Some(ASK_LIMIT))?;
    stream.set_write_timeout(Some(ASK_LIMIT))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Line that a control connection has sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// The line goes on.
    Incomplete,
    /// A question.
    Complete(&'a str),
    /// Too long, or not text.
    Wrong,
}

/// The first line of `bytes`; at the end of the stream the line may lack its end.
pub(crate) fn first_line(bytes: &[u8], ended: bool) -> Line<'_> {
    let line = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => &bytes[..end],
        None if ended => bytes,
        None if bytes.len() >= LINE_BYTES_MAX => return Line::Wrong,
        None => return Line::Incomplete,
    };
    std::str::from_utf8(line).map_or(Line::Wrong, |text| Line::Complete(text.trim_end_matches('\r')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_a_newline_or_with_the_stream() {
        assert_eq!(first_line(b"status", false), Line::Incomplete);
        assert_eq!(first_line(b"status", true), Line::Complete("status"));
        assert_eq!(first_line(b"status\r\nmore", false), Line::Complete("status"));
        assert_eq!(first_line(&[b'x'; LINE_BYTES_MAX], false), Line::Wrong);
        assert_eq!(first_line(b"\xff\n", false), Line::Wrong);
    }
}
