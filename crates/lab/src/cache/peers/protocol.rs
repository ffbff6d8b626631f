//! What a client says and hears, by RESP and by memcached's text protocol.

use anyhow::{Context, Result, bail, ensure};
use std::io::Write;

/// Protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Resp,
    Memcached,
}

/// Reply of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// A key was set, or removed.
    Done,
    Miss,
    Value(&'a [u8]),
    /// Not ready: the server has not read its contents yet.
    Loading,
    /// Refused: a value of that size is never stored, or there is no memory for it now. What was under the key is gone.
    Refused,
}

impl Protocol {
    pub(super) fn put_get(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Protocol::Resp => command(out, &[b"GET", key]),
            Protocol::Memcached => line(out, &[b"get ", key, b"\r\n"]),
        }
    }

    pub(super) fn put_set(self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        match self {
            Protocol::Resp => command(out, &[b"SET", key, value]),
            Protocol::Memcached => {
                let bytes = value.len().to_string();
                line(out, &[b"set ", key, b" 0 0 ", bytes.as_bytes(), b"\r\n", value, b"\r\n"]);
            }
        }
    }

    pub(super) fn put_delete(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Protocol::Resp => command(out, &[b"DEL", key]),
            Protocol::Memcached => line(out, &[b"delete ", key, b"\r\n"]),
        }
    }

    /// The first reply in `input` and its length; `None` when not all of it is there.
    ///
    /// # Errors
    /// When it is an error, or none of what clients of this load wait for.
    pub(super) fn reply(self, input: &[u8]) -> Result<Option<(Reply<'_>, usize)>> {
        let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        let (head, body) = (&input[..end], end + 2);
        match self {
            Protocol::Resp => resp(head, input, body),
            Protocol::Memcached => memcached(head, input, body),
        }
    }
}

fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing to memory does not fail.
    let _written = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _written = write!(out, "${}\r\n", word.len());
        line(out, &[word, b"\r\n"]);
    }
}

fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn resp<'a>(head: &[u8], input: &'a [u8], body: usize) -> Result<Option<(Reply<'a>, usize)>> {
    match head.first() {
        Some(b'+' | b':') => Ok(Some((Reply::Done, body))),
        Some(b'$') if head == b"$-1" => Ok(Some((Reply::Miss, body))),
        Some(b'$') => {
            let bytes = number(&head[1..])?;
            Ok(value(input, body, bytes, b"\r\n"))
        }
        Some(b'-') if head.starts_with(b"-LOADING") => Ok(Some((Reply::Loading, body))),
        _ => bail!("the server answers {:?}", String::from_utf8_lossy(head)),
    }
}

fn memcached<'a>(head: &[u8], input: &'a [u8], body: usize) -> Result<Option<(Reply<'a>, usize)>> {
    match head {
        b"STORED" | b"DELETED" | b"NOT_FOUND" => Ok(Some((Reply::Done, body))),
        b"END" => Ok(Some((Reply::Miss, body))),
        b"SERVER_ERROR object too large for cache" | b"SERVER_ERROR out of memory storing object" => {
            Ok(Some((Reply::Refused, body)))
        }
        _ if head.starts_with(b"VALUE ") => {
            let bytes = head.rsplit(|byte| *byte == b' ').next().context("a length")?;
            Ok(value(input, body, number(bytes)?, b"\r\nEND\r\n"))
        }
        _ => bail!("the server answers {:?}", String::from_utf8_lossy(head)),
    }
}

fn value<'a>(input: &'a [u8], at: usize, bytes: usize, behind: &[u8]) -> Option<(Reply<'a>, usize)> {
    let end = at.checked_add(bytes)?.checked_add(behind.len())?;
    let whole = input.get(at..end)?;
    Some((Reply::Value(&whole[..bytes]), end))
}

fn number(digits: &[u8]) -> Result<usize> {
    let number = std::str::from_utf8(digits)?.parse()?;
    ensure!(number <= 1 << 30, "a value of {number} bytes");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart_and_wait_for_their_ends() {
        let whole = |protocol: Protocol, text: &'static [u8], reply: Reply<'static>| {
            assert_eq!(protocol.reply(text).unwrap(), Some((reply, text.len())));
            for end in 0..text.len() {
                assert_eq!(protocol.reply(&text[..end]).unwrap(), None, "{end}");
            }
        };
        whole(Protocol::Resp, b"+OK\r\n", Reply::Done);
        whole(Protocol::Resp, b"$-1\r\n", Reply::Miss);
        whole(Protocol::Resp, b"$3\r\n\r\nx\r\n", Reply::Value(b"\r\nx"));
        whole(Protocol::Memcached, b"STORED\r\n", Reply::Done);
        whole(Protocol::Memcached, b"END\r\n", Reply::Miss);
        whole(Protocol::Memcached, b"VALUE k 0 4\r\n\r\nab\r\nEND\r\n", Reply::Value(b"\r\nab"));
    }

    #[test]
    fn errors_are_told() {
        assert!(Protocol::Resp.reply(b"-ERR no\r\n").unwrap_err().to_string().contains("ERR no"));
        assert!(Protocol::Memcached.reply(b"SERVER_ERROR out of memory\r\n").is_err());
        let large = &b"SERVER_ERROR object too large for cache\r\n"[..];
        for refused in [large, b"SERVER_ERROR out of memory storing object\r\n"] {
            assert_eq!(Protocol::Memcached.reply(refused).unwrap(), Some((Reply::Refused, refused.len())));
        }
        assert_eq!(Protocol::Resp.reply(b"-LOADING x\r\n").unwrap(), Some((Reply::Loading, 12)));
    }
}
