//! An NBD client of nothing but a socket: fixed newstyle, simple replies, many requests in flight.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;

/// Force unit access.
pub const FUA: u16 = 1;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;

/// Flag of an export that nobody may change.
pub const READ_ONLY: u16 = 1 << 1;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_MAGIC: &[u8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;

/// An answer takes longer only when something is broken.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// The connection broke.
    Broken(io::Error),
    /// The server answered with this error.
    Answered(u32),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Broken(error)
    }
}

/// A request.
#[derive(Clone, Copy)]
pub struct Request {
    pub command: u16,
    pub flags: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl Request {
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes
    }
}

/// The start of a reply.
pub struct ReplyHead {
    pub cookie: u64,
    pub error: u32,
}

/// Returns the bytes that a client sends to be let in to the default export.
pub fn handshake() -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(OPTION_MAGIC);
    bytes.extend(OPTION_GO.to_be_bytes());
    // Four bytes of name length, two of the number of information requests.
    bytes.extend(6_u32.to_be_bytes());
    bytes.extend([0; 6]);
    bytes
}

/// Connected to the server, nothing said.
pub fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    Ok(stream)
}

/// Bytes to and from a server.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection in transmission.
pub struct Client {
    stream: Box<dyn Stream>,
    pub size_bytes: u64,
    /// Transmission flags of the export.
    pub flags: u16,
}

impl Client {
    /// Connects and negotiates.
    pub fn open(socket: &Path) -> io::Result<Client> {
        Client::over(connect(socket)?)
    }

    /// The same over the network, beside a handle that cuts the connection.
    pub fn open_tcp(address: (&str, u16)) -> io::Result<(Client, TcpStream)> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        let handle = stream.try_clone()?;
        Ok((Client::over(stream)?, handle))
    }

    fn over(stream: impl Stream + 'static) -> io::Result<Client> {
        let mut client = Client { stream: Box::new(stream), size_bytes: 0, flags: 0 };
        let greeting: [u8; 18] = client.take()?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        client.send(&handshake())?;
        loop {
            let magic = u64::from_be_bytes(client.take()?);
            assert_eq!(magic, OPTION_REPLY_MAGIC);
            let _option: [u8; 4] = client.take()?;
            let kind = u32::from_be_bytes(client.take()?);
            let length = u32::from_be_bytes(client.take()?);
            let data = client.take_vec(length as usize)?;
            match kind {
                REPLY_ACK => return Ok(client),
                REPLY_INFO if data[..2] == INFO_EXPORT.to_be_bytes() => {
                    client.size_bytes = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    client.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                REPLY_INFO => {}
                other => panic!("GO was answered with {other:#x}"),
            }
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next reply, without the data that a read brings.
    pub fn reply(&mut self) -> io::Result<ReplyHead> {
        let magic = u32::from_be_bytes(self.take()?);
        assert_eq!(magic, REPLY_MAGIC, "a simple reply");
        let error = u32::from_be_bytes(self.take()?);
        Ok(ReplyHead { error, cookie: u64::from_be_bytes(self.take()?) })
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn take_vec(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends a request, alone on the connection, and waits for its answer.
    pub fn request(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> Result<(), Failure> {
        self.send(&Request { command, flags, cookie: offset, offset, length }.to_bytes())?;
        self.answer(offset)
    }

    fn answer(&mut self, cookie: u64) -> Result<(), Failure> {
        let head = self.reply()?;
        assert_eq!(head.cookie, cookie);
        if head.error == 0 { Ok(()) } else { Err(Failure::Answered(head.error)) }
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, Failure> {
        self.request(READ, 0, offset, length)?;
        Ok(self.take_vec(length as usize)?)
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.write_with(0, offset, data)
    }

    /// Writes what is durable when it is answered.
    pub fn write_forced(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.write_with(FUA, offset, data)
    }

    fn write_with(&mut self, flags: u16, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let length = u32::try_from(data.len()).unwrap();
        self.send(&Request { command: WRITE, flags, cookie: offset, offset, length }.to_bytes())?;
        self.send(data)?;
        self.answer(offset)
    }

    pub fn flush(&mut self) -> Result<(), Failure> {
        self.request(FLUSH, 0, 0, 0)
    }
}
