//! A control connection: one line, one answer.

use crate::control::{LINE_BYTES_MAX, Line, first_line};
use crate::transfer::{Piece, Transfer};
use base::time::{Instant, Nanos};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Time for a question and the reading of its answer.
const QUESTION_LIMIT: Nanos = Nanos(10_000_000_000);

/// Next step with a control connection.
#[derive(Debug)]
pub(crate) enum Next {
    /// Receive into this.
    Receive(Box<Transfer>),
    /// Send this.
    Send(Box<Transfer>),
    /// Close.
    Close,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) socket: Rc<OwnedFd>,
    pub(crate) due: Instant,
    line_bytes: usize,
}

impl Question {
    /// A connection, and its first receive.
    pub(crate) fn new(socket: OwnedFd, now: Instant) -> (Question, Box<Transfer>) {
        let question = Question { socket: Rc::new(socket), due: now + QUESTION_LIMIT, line_bytes: 0 };
        let mut transfer = Box::<Transfer>::default();
        transfer.bytes.resize(LINE_BYTES_MAX, 0);
        transfer.push_room(Piece::Bytes { from: 0, to: LINE_BYTES_MAX });
        (question, transfer)
    }

    /// `count` more bytes of the line have come; none is the end of the stream.
    pub(crate) fn on_received(
        &mut self,
        mut transfer: Box<Transfer>,
        count: usize,
        answer: impl FnOnce(&str) -> String,
    ) -> Next {
        self.line_bytes += count;
        transfer.clear_pieces();
        let answer = match first_line(&transfer.bytes[..self.line_bytes], count == 0) {
            Line::Incomplete => {
                transfer.push_room(Piece::Bytes { from: self.line_bytes, to: LINE_BYTES_MAX });
                return Next::Receive(transfer);
            }
            Line::Complete("") => return Next::Close,
            Line::Complete(line) => answer(line),
            Line::Wrong => format!("error: a line is UTF-8 and shorter than {LINE_BYTES_MAX} bytes\n"),
        };
        if answer.is_empty() {
            return Next::Close;
        }
        transfer.bytes.clear();
        transfer.push_bytes(|out| out.extend(answer.as_bytes()));
        Next::Send(transfer)
    }

    /// `count` bytes of the answer are sent.
    pub(crate) fn on_sent(&self, mut transfer: Box<Transfer>, count: usize) -> Next {
        transfer.advance(count);
        if transfer.is_done() { Next::Close } else { Next::Send(transfer) }
    }
}
