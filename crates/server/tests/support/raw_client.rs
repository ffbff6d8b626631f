//! An NBD client of nothing but a socket, so that it can also misbehave.

use super::GENEROUS;
use server::nbd::codec;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;
pub const FUA: u16 = 1;
pub const DF: u16 = 4;

pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const EOVERFLOW: u32 = 75;

pub struct RawClient {
    pub stream: UnixStream,
    pub structured: bool,
}

/// A finished reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RawReply {
    pub cookie: u64,
    pub error: u32,
    /// Chunks of data by offset; one at 0 for simple replies.
    pub data: Vec<(u64, Vec<u8>)>,
}

/// A reply to an option.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionReply {
    pub option: u32,
    pub kind: u32,
    pub data: Vec<u8>,
}

impl RawClient {
    /// Connected; the greeting is read, nothing sent.
    pub fn connect(path: &Path) -> RawClient {
        let mut client = RawClient::connect_silently(path);
        let greeting = client.take(18);
        assert_eq!(greeting[..16], *b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3]);
        client
    }

    pub fn connect_silently(path: &Path) -> RawClient {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(GENEROUS)).unwrap();
        stream.set_write_timeout(Some(GENEROUS)).unwrap();
        RawClient { stream, structured: false }
    }

    /// Negotiated with GO.
    pub fn open(path: &Path, structured: bool) -> RawClient {
        let mut client = RawClient::connect(path);
        client.send(&3_u32.to_be_bytes());
        if structured {
            client.send_option(8, &[]);
            assert_eq!(client.option_reply().kind, codec::option_reply::ACK);
            client.structured = true;
        }
        client.send_option(7, &[0; 6]);
        while client.option_reply().kind != codec::option_reply::ACK {}
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let mut bytes = codec::OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(data);
        self.send(&bytes);
    }

    pub fn option_reply(&mut self) -> OptionReply {
        let head = self.take(20);
        assert_eq!(head[..8], codec::OPTION_REPLY_MAGIC.to_be_bytes());
        let length = number32(&head[16..]);
        let data = self.take(length as usize);
        OptionReply { option: number32(&head[8..]), kind: number32(&head[12..]), data }
    }

    /// Asserts that the server has hung up and sent nothing more.
    pub fn assert_hung_up(&mut self) {
        let mut rest = [0; 1];
        match self.stream.read(&mut rest) {
            Ok(0) => {}
            Ok(_) => panic!("the server sent {rest:?} instead of hanging up"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }

    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, length: u32) {
        self.send(&request(command, flags, cookie, offset, length));
    }

    /// The next finished reply; `data_bytes` is what a simple read would bring.
    pub fn reply(&mut self, data_bytes: usize) -> RawReply {
        let mut reply = RawReply::default();
        loop {
            let magic = number32(&self.take(4));
            if magic == codec::SIMPLE_REPLY_MAGIC {
                reply.error = number32(&self.take(4));
                reply.cookie = number64(&self.take(8));
                if reply.error == 0 && data_bytes > 0 {
                    assert!(!self.structured, "reads are answered in chunks once that is agreed");
                    reply.data.push((0, self.take(data_bytes)));
                }
                return reply;
            }
            assert_eq!(magic, codec::STRUCTURED_REPLY_MAGIC);
            assert!(self.structured);
            if self.chunk(&mut reply) {
                return reply;
            }
        }
    }

    fn chunk(&mut self, reply: &mut RawReply) -> bool {
        let head = self.take(16);
        let kind = u16::from_be_bytes([head[2], head[3]]);
        reply.cookie = number64(&head[4..]);
        let payload = self.take(number32(&head[12..]) as usize);
        match kind {
            codec::chunk::OFFSET_DATA => reply.data.push((number64(&payload), payload[8..].to_vec())),
            codec::chunk::ERROR => reply.error = number32(&payload),
            codec::chunk::NONE => assert!(payload.is_empty()),
            other => panic!("chunk of kind {other}"),
        }
        head[1] & 1 == 1
    }

    pub fn write(&mut self, offset: u64, data: &[u8], flags: u16) -> u32 {
        self.request(WRITE, flags, 1, offset, u32::try_from(data.len()).unwrap());
        self.send(data);
        self.reply(0).error
    }

    /// A read that must succeed, put together.
    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.request(READ, 0, 2, offset, length);
        let mut reply = self.reply(length as usize);
        assert_eq!(reply.error, 0);
        reply.data.sort();
        if self.structured {
            let mut at = offset;
            for (chunk_offset, data) in &reply.data {
                assert_eq!(*chunk_offset, at);
                at += data.len() as u64;
            }
        }
        reply.data.into_iter().flat_map(|(_, data)| data).collect()
    }

    /// A command without data; returns its error.
    pub fn plain(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> u32 {
        self.request(command, flags, 3, offset, length);
        let reply = self.reply(0);
        assert_eq!(reply.cookie, 3);
        reply.error
    }
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = codec::REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn number32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

fn number64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}
