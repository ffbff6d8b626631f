//! Reader: cuts the bytes of a client into command lines and the blocks behind them.
//!
//! Nothing is allocated for what was only announced. Where a line ends, and what becomes of it, depends on the bytes and not on
//! how they arrive.

use super::request::{Request, Store, read};

/// Longest line; retrievals, which name many keys, may be as long as [`RETRIEVAL_BYTES_MAX`].
pub const LINE_BYTES_MAX: usize = 2048;
/// Longest line of a retrieval.
pub const RETRIEVAL_BYTES_MAX: usize = (1 << 20) - 1;
const _: () = assert!(LINE_BYTES_MAX <= RETRIEVAL_BYTES_MAX);

/// How requests of the binary protocol begin, which no line does. It has no ends of lines, so its clients would wait for ever.
const BINARY_MAGIC: u8 = 0x80;

/// What the bytes at the front are.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// The begin of something.
    Incomplete,
    /// So many bytes that say nothing.
    Nothing(usize),
    /// A request in so many bytes.
    Request(usize, Request),
    /// A request in so many bytes, with its value; `None` when that does not end where it should.
    Block(usize, Store, Option<&'a [u8]>),
    /// A line that is too long, or a request of the binary protocol: the connection ends.
    Endless,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Reader {
    /// A line whose block is missing.
    store: Option<Store>,
    /// Bytes that are no commands.
    swallow: usize,
    /// Bytes of the line in which no end was found.
    looked: usize,
    block_bytes_max: usize,
}

impl Reader {
    /// A reader for blocks of at most so many bytes.
    #[must_use]
    pub fn new(block_bytes_max: usize) -> Reader {
        Reader { block_bytes_max, ..Reader::default() }
    }

    /// Reads the front of the bytes that were not consumed. The next call gets what is behind what it says.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Read<'a> {
        if self.swallow > 0 {
            let count = self.swallow.min(input.len());
            self.swallow -= count;
            return if count == 0 { Read::Incomplete } else { Read::Nothing(count) };
        }
        if let Some(store) = &self.store {
            let bytes = store.bytes;
            if input.len() < bytes + 2 {
                return Read::Incomplete;
            }
            let store = self.store.take().expect("seen above");
            let value = input[bytes..].starts_with(b"\r\n").then(|| &input[..bytes]);
            return Read::Block(bytes + 2, store, value);
        }
        self.line(input)
    }

    fn line<'a>(&mut self, input: &'a [u8]) -> Read<'a> {
        if input.first() == Some(&BINARY_MAGIC) {
            return Read::Endless;
        }
        let is_retrieval =
            [&b"get "[..], b"gets ", b"gat ", b"gats "].iter().any(|name| input.starts_with(name));
        // What was looked at is still there: a caller gives what was not consumed again.
        assert!(self.looked <= input.len(), "{} bytes were looked at, of {}", self.looked, input.len());
        let bytes_max = if is_retrieval { RETRIEVAL_BYTES_MAX } else { LINE_BYTES_MAX };
        let found = input[self.looked..].iter().position(|byte| *byte == b'\n').map(|at| at + self.looked);
        let Some(end) = found.filter(|end| *end <= bytes_max) else {
            self.looked = input.len();
            return if found.is_some() || input.len() > bytes_max { Read::Endless } else { Read::Incomplete };
        };
        self.looked = 0;
        let line = &input[..end];
        match read(line.strip_suffix(b"\r").unwrap_or(line)) {
            Request::Store(store) if store.bytes > self.block_bytes_max => {
                self.swallow = store.bytes + 2;
                Read::Block(end + 1, store, None)
            }
            Request::Store(store) => {
                self.store = Some(store);
                Read::Nothing(end + 1)
            }
            Request::Swallow(text, bytes) => {
                self.swallow = bytes;
                Read::Request(end + 1, Request::Say(text))
            }
            request => Read::Request(end + 1, request),
        }
    }

    /// True between requests.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.store.is_none() && self.looked == 0
    }

    /// True when a block is too large to be stored.
    #[must_use]
    pub fn is_too_large(&self, store: &Store) -> bool {
        store.bytes > self.block_bytes_max
    }

    /// Bytes of what is arriving, as far as is known.
    #[must_use]
    pub fn bytes_needed(&self) -> usize {
        self.store.as_ref().map_or(RETRIEVAL_BYTES_MAX + 1, |store| store.bytes + 2)
    }

    /// Memory that it holds, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.store.as_ref().map_or(0, |store| size_of::<Store>() + store.key.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    const STREAM: &[u8] =
        b"set a 0 0 5\r\nhello\r\nget a b\r\nset c 0 0 2\r\nxyz\r\n\r\nms k 2 MZ\r\nab\r\nmn\r\n\
        set big 0 0 3000\r\nmg a v\nincr a 1 noreply\r\nquit\r\n";

    /// What is read when the bytes arrive in pieces.
    fn cut(stream: &[u8], mut piece: impl FnMut() -> usize) -> String {
        let mut reader = Reader::new(2000);
        let (mut told, mut from, mut to) = (String::new(), 0, 0);
        while from < stream.len() {
            match reader.next(&stream[from..to]) {
                Read::Incomplete if to == stream.len() => break,
                Read::Incomplete => to = (to + piece()).min(stream.len()),
                Read::Nothing(count) => from += count,
                Read::Request(count, request) => {
                    from += count;
                    told += &format!("{request:?}\n");
                }
                Read::Block(count, store, value) => {
                    from += count;
                    told += &format!("{store:?} {value:?}\n");
                }
                Read::Endless => return told + "endless",
            }
        }
        told
    }

    #[test]
    fn cuts_change_nothing() {
        let whole = cut(STREAM, || STREAM.len());
        assert!(whole.contains("invalid mode") && whole.contains("Say(\"MN\")"), "{whole}");
        let mut random = Random::from_seed(1);
        for _ in 0..200 {
            assert_eq!(cut(STREAM, || 1 + random.index(7)), whole);
        }
        let long = [b"set ".to_vec(), vec![b'a'; 3000], b" 0 0 1\r\n".to_vec()].concat();
        assert_eq!(cut(&long, || long.len()), "endless");
        assert_eq!(cut(&long, || 100), "endless");
        let many = [b"get ".to_vec(), b"key ".repeat(1000), b"\r\n".to_vec()].concat();
        assert!(cut(&many, || 100).starts_with("Get"));
    }
}
