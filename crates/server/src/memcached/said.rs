//! Answers: what is said of an outcome.

use super::numbers::left;
use super::request::Meta;
use crate::resp::answer::Output;
use cache::request::{Marks, Object, Outcome, Refusal, WallMillis};
use cache::value::Value;

/// An answer: a head, and perhaps a value with the end of its line.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub head: Vec<u8>,
    pub value: Option<Value>,
}

impl Said {
    /// Nothing.
    pub fn nothing() -> Said {
        Said::default()
    }

    /// A line.
    pub fn line(text: impl AsRef<[u8]>) -> Said {
        let text = text.as_ref();
        let head = if text.is_empty() { Vec::new() } else { [text, b"\r\n"].concat() };
        Said { head, value: None }
    }

    /// A line, or nothing.
    pub fn unless(is_quiet: bool, text: &str) -> Said {
        Said::line(if is_quiet { "" } else { text })
    }

    /// What retrievals say of an object.
    pub fn value(key: &[u8], object: Object, tells_cas: bool) -> Said {
        let mut head = [b"VALUE ", key].concat();
        head.extend_from_slice(format!(" {} {}", object.flags, object.value.len()).as_bytes());
        if tells_cas {
            head.extend_from_slice(format!(" {}", object.token()).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        Said { head, value: Some(object.value) }
    }

    /// What a meta command says of an object, with its value if it was asked for.
    pub fn meta(meta: &Meta, object: Object, wall: WallMillis) -> Said {
        let mut head = match meta.tells_value {
            true => format!("VA {}", object.value.len()).into_bytes(),
            false => b"HD".to_vec(),
        };
        meta.tell(&mut head, Some((&object, wall)), None);
        head.extend_from_slice(b"\r\n");
        Said { head, value: meta.tells_value.then_some(object.value) }
    }

    /// The same, with what marks say: somebody was told to make the object anew (Z), it is stale (X), this client is told (W).
    pub fn with_marks(mut self, marks: Marks, wins: bool) -> Said {
        let line = self.head.len() - 2;
        self.head.truncate(line);
        for (letter, is_told) in [(b" Z", marks.is_won()), (b" X", marks.is_stale()), (b" W", wins)] {
            self.head.extend_from_slice(if is_told { letter } else { b"" });
        }
        self.head.extend_from_slice(b"\r\n");
        self
    }

    /// A code of a meta command, with what it was told to say back.
    pub fn code(meta: &Meta, code: &str) -> Said {
        let mut head = code.as_bytes().to_vec();
        meta.tell(&mut head, None, None);
        Said::line(head)
    }

    /// The same of a store: the token of an object that was not stored is none.
    pub fn of_store(meta: &Meta, code: &str, object: Option<(&Object, WallMillis)>) -> Said {
        let mut head = code.as_bytes().to_vec();
        meta.tell(&mut head, object, Some(0));
        Said::line(head)
    }

    /// What is said when the cache does not serve a request.
    pub fn refused(refusal: Refusal) -> Said {
        Said::line(match refusal {
            Refusal::KeyTooLong => "CLIENT_ERROR bad command line format",
            Refusal::ObjectTooLarge => "SERVER_ERROR object too large for cache",
            Refusal::NoDrive => "SERVER_ERROR no drive of the cache takes writes",
        })
    }

    /// Memory that it takes beside itself, in bytes.
    pub fn bytes_held(&self) -> usize {
        self.head.capacity() + self.value.as_ref().map_or(0, Value::heap_bytes)
    }

    pub fn write(self, out: &mut Output) {
        out.raw(&self.head);
        if let Some(value) = self.value {
            out.value(value);
            out.raw(b"\r\n");
        }
    }
}

impl Meta {
    /// Writes what was asked for, in order; `token` where there is no object.
    fn tell(&self, head: &mut Vec<u8>, object: Option<(&Object, WallMillis)>, token: Option<u64>) {
        let token = object.map(|(object, _)| object.token()).or(token);
        for word in &self.tells {
            let text = match (word[0], object) {
                (b'c', _) => match token {
                    Some(token) => format!("c{token}").into_bytes(),
                    None => continue,
                },
                (b'O', _) => word.clone(),
                (b'k', _) => {
                    let binary: &[u8] = if self.is_binary { b" b" } else { b"" };
                    [b"k", &self.key[..], binary].concat()
                }
                (b's', Some((object, _))) => format!("s{}", object.value.len()).into_bytes(),
                (b't', Some((object, wall))) => format!("t{}", left(object.expires, wall)).into_bytes(),
                (b'h', Some(_)) => format!("h{}", u8::from(self.used.was_read)).into_bytes(),
                (b'l', Some(_)) => format!("l{}", self.used.idle_seconds).into_bytes(),
                (b'f', Some((object, _))) => format!("f{}", object.flags).into_bytes(),
                _ => continue,
            };
            head.push(b' ');
            head.extend_from_slice(&text);
        }
    }
}

/// The object that an outcome found, or what is said of a refusal.
pub(super) fn found(outcome: Outcome) -> Result<Option<Object>, Said> {
    match outcome {
        Outcome::Found(found) | Outcome::Updated { before: found, .. } => Ok(found),
        Outcome::Refused(refusal) => Err(Said::refused(refusal)),
        Outcome::Stored | Outcome::Removed(_) | Outcome::Cleared | Outcome::Walked { .. } => Ok(None),
    }
}
