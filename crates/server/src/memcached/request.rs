//! Requests: what a command line asks for.

use super::base64::decode;
use super::keys::Keys;
use super::numbers::{signed, unsigned};
use crate::resp::usage::Use;

/// Longest key.
pub const KEY_BYTES_MAX: usize = 250;
const _: () = assert!(KEY_BYTES_MAX <= cache::format::record::KEY_BYTES_MAX);
/// Longest block that a line may announce.
const BLOCK_BYTES_MAX: i32 = i32::MAX - 2;
/// Longest opaque token, with its letter.
const OPAQUE_BYTES_MAX: usize = 32;

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_TIME: &str = "CLIENT_ERROR invalid exptime argument";

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Always.
    Set,
    /// When there is none.
    Add,
    /// When there is one.
    Replace,
    /// Behind the one that is there.
    Append,
    /// Before it.
    Prepend,
}

/// Flags of a meta command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// What is to be told, in order: letters, with what follows them; those that the command knows.
    pub tells: Vec<Vec<u8>>,
    /// The key as it was said, and whether that was base64.
    pub key: Vec<u8>,
    /// True for keys in base64.
    pub is_binary: bool,
    /// No word when all is as expected.
    pub is_quiet: bool,
    /// The value is told.
    pub tells_value: bool,
    /// T: seconds.
    pub expiry: Option<i32>,
    /// Seconds of an object that is made: N, or a T behind it.
    pub makes: Option<i32>,
    /// R: seconds below which it is to be made anew.
    pub recache: Option<i32>,
    /// I.
    pub invalidates: bool,
    /// Its time left is asked for before it gets another.
    pub tells_old_end: bool,
    /// u: this is no use of it.
    pub is_no_use: bool,
    /// Use of the key before.
    pub used: Use,
    /// J: first value of it.
    pub initial: u64,
    /// D.
    pub delta: Option<u64>,
    /// C.
    pub cas: Option<u64>,
    /// F.
    pub flags: u32,
    /// M.
    pub mode: Option<u8>,
}

/// A value to be stored, which follows its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// How.
    pub mode: Mode,
    /// The key.
    pub key: Vec<u8>,
    /// Flags of the client.
    pub flags: u32,
    /// Seconds.
    pub expiry: i32,
    /// Bytes of the value, without the end of line behind it.
    pub bytes: usize,
    /// Token that the object has to have.
    pub cas: Option<u64>,
    /// No word.
    pub is_quiet: bool,
    /// Of `ms`.
    pub meta: Option<Box<Meta>>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// get, gets, gat, gats.
    Get {
        /// The keys.
        keys: Keys,
        /// Tokens are told.
        tells_cas: bool,
        /// Seconds that objects have from now on.
        expiry: Option<i32>,
    },
    /// set and its like.
    Store(Store),
    /// incr, decr.
    Add {
        /// The key.
        key: Vec<u8>,
        /// How much.
        delta: u64,
        /// Less instead of more.
        is_less: bool,
        /// No word.
        is_quiet: bool,
    },
    /// delete.
    Delete {
        /// The key.
        key: Vec<u8>,
        /// No word.
        is_quiet: bool,
    },
    /// touch.
    Touch {
        /// The key.
        key: Vec<u8>,
        /// Seconds.
        expiry: i32,
        /// No word.
        is_quiet: bool,
    },
    /// flush_all.
    Flush {
        /// Seconds from now, or a Unix time; now, when it is not positive.
        delay: i32,
        /// No word.
        is_quiet: bool,
    },
    /// mg, with the key.
    MetaGet(Vec<u8>, Box<Meta>),
    /// md.
    MetaDelete(Vec<u8>, Box<Meta>),
    /// ma.
    MetaAdd(Vec<u8>, Box<Meta>),
    /// me.
    MetaDebug(Vec<u8>, Box<Meta>),
    /// stats.
    Statistics(Vec<u8>),
    /// Something that is answered with a line at once; nothing when it is empty.
    Say(&'static str),
    /// The same, and so many bytes that follow are no commands.
    Swallow(&'static str, usize),
    /// The connection ends.
    Quit,
}

/// Words of a line; the rest of it is not looked at before it is asked for.
struct Line<'a> {
    words: Vec<&'a [u8]>,
}

impl Line<'_> {
    fn at(&self, index: usize) -> &[u8] {
        self.words[index]
    }

    fn len(&self) -> usize {
        self.words.len()
    }

    fn is_quiet(&self) -> bool {
        self.words.last() == Some(&&b"noreply"[..])
    }

    /// Errors of a line that ends in `noreply` are not told.
    fn fail(&self, text: &'static str) -> Request {
        Request::Say(if self.is_quiet() { "" } else { text })
    }
}

/// Reads a command line, without its end.
#[must_use]
pub fn read(line: &[u8]) -> Request {
    let line = &line[line.iter().position(|byte| *byte != b' ').unwrap_or(line.len())..];
    // These may name any number of keys, for which nothing is allocated.
    if [&b"get "[..], b"gets ", b"gat ", b"gats ", b"bget "].iter().any(|name| line.starts_with(name)) {
        return get(line);
    }
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let line = Line { words };
    if line.words.first().is_none_or(|word| word.len() < 2) {
        return Request::Say("ERROR");
    }
    let has = |least: usize, most: usize| (least..=most).contains(&line.len());
    match line.at(0) {
        b"set" if has(5, 6) => store(&line, Mode::Set),
        b"add" if has(5, 6) => store(&line, Mode::Add),
        b"replace" if has(5, 6) => store(&line, Mode::Replace),
        b"append" if has(5, 6) => store(&line, Mode::Append),
        b"prepend" if has(5, 6) => store(&line, Mode::Prepend),
        b"cas" if has(6, 7) => store(&line, Mode::Set),
        b"incr" | b"decr" if has(3, 4) => add(&line),
        b"delete" if has(2, 4) => delete(&line),
        b"touch" if has(3, 4) => touch(&line),
        b"flush_all" if has(1, 3) => flush(&line),
        b"verbosity" if has(2, 3) => match unsigned(line.at(1)).and_then(|level| u32::try_from(level).ok()) {
            // The log of this server is set at its start.
            Some(_) => line.fail("OK"),
            None => line.fail(BAD_FORMAT),
        },
        b"version" => Request::Say("VERSION 1.6.18"),
        b"stats" => Request::Statistics(line.words.get(1).map(|word| word.to_vec()).unwrap_or_default()),
        b"quit" => Request::Quit,
        b"mn" => Request::Say("MN"),
        b"mg" | b"md" | b"ma" | b"me" | b"ms" if has(2, usize::MAX) => meta(&line),
        b"me" => Request::Say(BAD_FORMAT),
        _ if line.words.last().is_some_and(|word| word.starts_with(b"HTTP/")) => Request::Quit,
        _ => Request::Say("ERROR"),
    }
}

fn get(line: &[u8]) -> Request {
    let mut rest = Keys::of(line);
    let name = rest.next().unwrap_or_default();
    let (tells_cas, touches) = (name.ends_with(b"s"), name.starts_with(b"gat"));
    let expiry = if touches { rest.next() } else { None };
    if rest.is_empty() && expiry.is_none() {
        return Request::Say("ERROR");
    }
    let expiry = match expiry.map(|text| signed(&text)) {
        Some(None) => return Request::Say(BAD_TIME),
        expiry => expiry.flatten(),
    };
    if rest.longest() > KEY_BYTES_MAX {
        return Request::Say(BAD_FORMAT);
    }
    Request::Get { keys: rest, tells_cas, expiry }
}

/// Bytes of a block, as a line announces them.
fn block_bytes(text: &[u8]) -> Option<usize> {
    let bytes = signed(text).filter(|bytes| (0..=BLOCK_BYTES_MAX).contains(bytes))?;
    usize::try_from(bytes).ok()
}

fn store(line: &Line<'_>, mode: Mode) -> Request {
    let is_cas = line.at(0) == b"cas";
    let flags = unsigned(line.at(2)).and_then(|flags| u32::try_from(flags).ok());
    let cas = if is_cas { unsigned(line.at(5)) } else { Some(0) };
    let key = line.at(1);
    match (flags, signed(line.at(3)), block_bytes(line.at(4)), cas) {
        (Some(flags), Some(expiry), Some(bytes), Some(cas)) if key.len() <= KEY_BYTES_MAX => {
            let (key, cas, is_quiet) = (key.to_vec(), is_cas.then_some(cas), line.is_quiet());
            Request::Store(Store { mode, key, flags, expiry, bytes, cas, is_quiet, meta: None })
        }
        _ => line.fail(BAD_FORMAT),
    }
}

fn add(line: &Line<'_>) -> Request {
    if line.at(1).len() > KEY_BYTES_MAX {
        return line.fail(BAD_FORMAT);
    }
    match unsigned(line.at(2)) {
        Some(delta) => Request::Add {
            key: line.at(1).to_vec(),
            delta,
            is_less: line.at(0) == b"decr",
            is_quiet: line.is_quiet(),
        },
        None => line.fail("CLIENT_ERROR invalid numeric delta argument"),
    }
}

fn delete(line: &Line<'_>) -> Request {
    let is_zero = line.len() > 2 && line.at(2) == b"0";
    let is_valid = match line.len() {
        2 => true,
        3 => is_zero || line.is_quiet(),
        _ => is_zero && line.is_quiet(),
    };
    if !is_valid {
        return line.fail("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
    }
    if line.at(1).len() > KEY_BYTES_MAX {
        return line.fail(BAD_FORMAT);
    }
    Request::Delete { key: line.at(1).to_vec(), is_quiet: line.len() > 2 && line.is_quiet() }
}

fn touch(line: &Line<'_>) -> Request {
    if line.at(1).len() > KEY_BYTES_MAX {
        return line.fail(BAD_FORMAT);
    }
    match signed(line.at(2)) {
        Some(expiry) => Request::Touch { key: line.at(1).to_vec(), expiry, is_quiet: line.is_quiet() },
        None => line.fail(BAD_TIME),
    }
}

fn flush(line: &Line<'_>) -> Request {
    let is_quiet = line.is_quiet();
    let count = line.len() - usize::from(is_quiet);
    match (count, signed(line.words.get(1).copied().unwrap_or_default())) {
        (1, _) => Request::Flush { delay: 0, is_quiet },
        (2, Some(delay)) => Request::Flush { delay, is_quiet },
        _ => line.fail(BAD_TIME),
    }
}

fn meta(line: &Line<'_>) -> Request {
    let is_store = line.at(0) == b"ms";
    let said = line.at(1);
    if said.len() > KEY_BYTES_MAX || (is_store && line.len() < 3) {
        return Request::Say(BAD_FORMAT);
    }
    let bytes = if is_store { block_bytes(line.at(2)) } else { Some(0) };
    let Some(bytes) = bytes else { return Request::Say(BAD_FORMAT) };
    let flags = &line.words[if is_store { 3 } else { 2 }..];
    let fail =
        |text: &'static str| if is_store { Request::Swallow(text, bytes + 2) } else { Request::Say(text) };
    let tellable: &[u8] = match line.at(0) {
        b"mg" => b"stcfkOhl",
        b"ma" => b"tckO",
        b"ms" => b"ckO",
        _ => b"kO",
    };
    let meta = match Meta::read(said, flags, tellable) {
        Ok(meta) => Box::new(meta),
        // Of these two commands, memcached does not say what was wrong.
        Err(_) if matches!(line.at(0), b"md" | b"ma") => {
            return fail("CLIENT_ERROR invalid or duplicate flag");
        }
        Err(text) => return fail(text),
    };
    let Some(key) = meta.plain_key().filter(|key| !key.is_empty()) else {
        return fail("CLIENT_ERROR error decoding key");
    };
    match line.at(0) {
        b"mg" => Request::MetaGet(key, meta),
        b"md" => Request::MetaDelete(key, meta),
        b"ma" if !matches!(meta.mode, None | Some(b'I' | b'+' | b'D' | b'-')) => {
            fail("CLIENT_ERROR invalid mode for ma M token")
        }
        b"ma" => Request::MetaAdd(key, meta),
        b"me" => Request::MetaDebug(key, meta),
        _ => {
            let mode = match meta.mode {
                None | Some(b'S') => Mode::Set,
                Some(b'E') => Mode::Add,
                Some(b'A') => Mode::Append,
                Some(b'P') => Mode::Prepend,
                Some(b'R') => Mode::Replace,
                Some(_) => return fail("CLIENT_ERROR invalid mode for ms M token"),
            };
            let (flags, expiry, cas) = (meta.flags, meta.expiry.unwrap_or(0), meta.cas);
            let is_quiet = meta.is_quiet;
            Request::Store(Store { mode, key, flags, expiry, bytes, cas, is_quiet, meta: Some(meta) })
        }
    }
}

impl Meta {
    /// The key itself; `None` when it is no base64.
    pub fn plain_key(&self) -> Option<Vec<u8>> {
        if self.is_binary { decode(&self.key) } else { Some(self.key.clone()) }
    }

    /// Reads flags; told are those of `tellable`.
    fn read(key: &[u8], words: &[&[u8]], tellable: &[u8]) -> Result<Meta, &'static str> {
        let mut meta = Meta { key: key.to_vec(), ..Meta::default() };
        let mut seen = [false; 128];
        for word in words {
            let (&letter, token) = word.split_first().expect("words are not empty");
            match seen.get_mut(usize::from(letter)) {
                None => return Err("CLIENT_ERROR invalid flag"),
                Some(true) => return Err("CLIENT_ERROR duplicate flag"),
                Some(seen) => *seen = true,
            }
            meta.take(letter, token)?;
            if tellable.contains(&letter) {
                meta.tells.push(word.to_vec());
            }
        }
        Ok(meta)
    }

    fn take(&mut self, letter: u8, token: &[u8]) -> Result<(), &'static str> {
        let seconds = || signed(token).ok_or(BAD_TOKEN);
        match letter {
            b'b' => self.is_binary = true,
            b'q' => self.is_quiet = true,
            b'v' => self.tells_value = true,
            b'T' => {
                self.expiry = Some(seconds()?);
                self.makes = self.makes.and(self.expiry);
            }
            b'N' => self.makes = Some(seconds()?),
            b'R' => self.recache = Some(seconds()?),
            b'I' => self.invalidates = true,
            b'u' => self.is_no_use = true,
            b't' => self.tells_old_end = self.expiry.is_none(),
            b'J' => self.initial = unsigned(token).ok_or("CLIENT_ERROR invalid numeric initial value")?,
            b'D' => self.delta = Some(unsigned(token).ok_or("CLIENT_ERROR invalid numeric delta value")?),
            b'C' => self.cas = Some(unsigned(token).ok_or(BAD_TOKEN)?),
            b'F' => {
                let flags = unsigned(token).and_then(|flags| u32::try_from(flags).ok());
                self.flags = flags.ok_or(BAD_FORMAT)?;
            }
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => return Err("CLIENT_ERROR incorrect length for M token"),
            },
            b'O' if token.len() >= OPAQUE_BYTES_MAX => return Err("CLIENT_ERROR opaque token too long"),
            b'O' | b'P' | b'L' | b'k' | b's' | b'c' | b'f' | b'h' | b'l' => {}
            _ => return Err("CLIENT_ERROR invalid flag"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_wrong_are_told_in_the_words_of_memcached() {
        let too_long = [b"get ".to_vec(), vec![b'k'; 251]].concat();
        let wrong: [(&[u8], &str); 16] = [
            (b"", "ERROR"),
            (b" ", "ERROR"),
            (b"g", "ERROR"),
            (b"get", "ERROR"),
            (b"set a 0 0", "ERROR"),
            (b"set a 0 0 -1", BAD_FORMAT),
            (b"set a 0 0 4294967295", BAD_FORMAT),
            (b"set a 0 0 2147483647", BAD_FORMAT),
            (b"set a x 0 1", BAD_FORMAT),
            (b"set a x 0 1 noreply", ""),
            (b"gat x a", BAD_TIME),
            (b"incr a x", "CLIENT_ERROR invalid numeric delta argument"),
            (b"delete a 1", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"),
            (b"mg a v v", "CLIENT_ERROR duplicate flag"),
            (b"mg a !", "CLIENT_ERROR invalid flag"),
            (&too_long, BAD_FORMAT),
        ];
        for (line, text) in wrong {
            assert_eq!(read(line), Request::Say(text), "{}", String::from_utf8_lossy(line));
        }
        assert_eq!(read(b"ms a 2 MZ"), Request::Swallow("CLIENT_ERROR invalid mode for ms M token", 4));
        assert_eq!(read(b"GET / HTTP/1.0"), Request::Quit);
        assert_eq!(read(b"delete noreply"), Request::Delete { key: b"noreply".to_vec(), is_quiet: false });
    }
}
