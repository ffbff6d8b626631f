//! The bytes of NBD: constants, requests in, replies out.
//!
//! Everything is big-endian. Parsing takes any bytes and answers with a value or a typed error;
//! it never panics and never reads past what it was given. Encoding appends to a vector that the
//! caller reuses.
//!
//! ```text
//! request           magic:u32 flags:u16 command:u16 cookie:u64 offset:u64 length:u32   = 28 bytes
//! simple reply      magic:u32 error:u32 cookie:u64 [data]                              = 16 bytes
//! structured chunk  magic:u32 flags:u16 kind:u16 cookie:u64 length:u32 [payload]       = 20 bytes
//! option            magic:u64 option:u32 length:u32 [data]                             = 16 bytes
//! option reply      magic:u64 option:u32 kind:u32 length:u32 [data]                    = 20 bytes
//! ```

use super::transmission::PAYLOAD_BYTES_MAX;
use thiserror::Error;

/// First eight bytes a server sends.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Announces newstyle negotiation, and begins every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply without its data.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a structured chunk without its payload.
pub const CHUNK_BYTES: usize = 20;
/// Bytes of an option without its data.
pub const OPTION_BYTES: usize = 16;

const _: () = assert!(REQUEST_BYTES == 4 + 2 + 2 + 8 + 8 + 4);
const _: () = assert!(SIMPLE_REPLY_BYTES == 4 + 4 + 8);
const _: () = assert!(CHUNK_BYTES == 4 + 2 + 2 + 8 + 4);
const _: () = assert!(OPTION_BYTES == 8 + 4 + 4);

/// Handshake flags, the same bits from the server and from the client.
pub mod handshake_flags {
    /// Both speak the fixed newstyle protocol.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeros after `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// Transmission flags: what the export can do.
pub mod transmission_flags {
    /// The other flags are meaningful.
    pub const HAS_FLAGS: u16 = 1;
    /// Nobody may change the export.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is supported.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is supported.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is supported.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is supported.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// DF is supported; only with structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers what completed on all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is supported.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// FAST_ZERO is supported.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Flags of one request.
pub mod command_flags {
    /// Answer only when durable.
    pub const FUA: u16 = 1;
    /// Do not make a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The data of a read in one chunk.
    pub const DF: u16 = 1 << 2;
    /// Fail rather than write zeros slowly.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of replies to an option.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export of a list.
    pub const SERVER: u32 = 2;
    /// A piece of information about an export.
    pub const INFO: u32 = 3;
    /// Option unknown.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Option malformed.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// Option too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Canonical name.
    pub const NAME: u16 = 1;
    /// Description.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum, preferred and maximum size of a request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// Set on the last chunk.
    pub const FLAG_DONE: u16 = 1;
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// An error.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// An option as the client asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Pick an export and begin; cannot be refused but by hanging up.
    ExportName,
    /// Hang up.
    Abort,
    /// List the exports.
    List,
    /// Describe an export.
    Info,
    /// Describe an export and begin.
    Go,
    /// Use structured replies.
    StructuredReply,
    /// Anything else.
    Other(u32),
}

impl OptionKind {
    /// The option with this number.
    #[must_use]
    pub fn from_number(number: u32) -> OptionKind {
        match number {
            1 => OptionKind::ExportName,
            2 => OptionKind::Abort,
            3 => OptionKind::List,
            6 => OptionKind::Info,
            7 => OptionKind::Go,
            8 => OptionKind::StructuredReply,
            other => OptionKind::Other(other),
        }
    }

    /// The number of this option.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            OptionKind::ExportName => 1,
            OptionKind::Abort => 2,
            OptionKind::List => 3,
            OptionKind::Info => 6,
            OptionKind::Go => 7,
            OptionKind::StructuredReply => 8,
            OptionKind::Other(other) => other,
        }
    }
}

/// A command as the client sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Read.
    Read,
    /// Write; the payload follows the request.
    Write,
    /// Disconnect; has no reply.
    Disconnect,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Read ahead.
    Cache,
    /// Write zeros.
    WriteZeroes,
    /// Anything else.
    Other(u16),
}

impl CommandKind {
    /// The command with this number.
    #[must_use]
    pub fn from_number(number: u16) -> CommandKind {
        match number {
            0 => CommandKind::Read,
            1 => CommandKind::Write,
            2 => CommandKind::Disconnect,
            3 => CommandKind::Flush,
            4 => CommandKind::Trim,
            5 => CommandKind::Cache,
            6 => CommandKind::WriteZeroes,
            other => CommandKind::Other(other),
        }
    }
}

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Command of the request.
    pub command: CommandKind,
    /// Flags of the command, see [`command_flags`].
    pub flags: u16,
    /// The client's name for the request; comes back with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Count of bytes.
    pub length: u32,
}

/// An option without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Kind of the option.
    pub kind: OptionKind,
    /// Bytes of data that follow.
    pub length: u32,
}

/// The data of INFO or GO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest {
    /// The export; empty for the default.
    pub name: String,
    /// Kinds of information asked for.
    pub kinds: Vec<u16>,
}

/// An error as a reply carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// EPERM.
    NotPermitted,
    /// EIO.
    Io,
    /// EINVAL.
    Invalid,
    /// ENOSPC.
    NoSpace,
    /// EOVERFLOW.
    Overflow,
    /// ESHUTDOWN.
    Shutdown,
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            ErrorCode::NotPermitted => 1,
            ErrorCode::Io => 5,
            ErrorCode::Invalid => 22,
            ErrorCode::NoSpace => 28,
            ErrorCode::Overflow => 75,
            ErrorCode::Shutdown => 108,
        }
    }
}

/// Why bytes could not be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    /// More bytes are needed; not an error while they may still arrive.
    #[error("the message is not complete yet")]
    Incomplete,
    /// The stream is out of step or the peer speaks another protocol.
    #[error(
        "expected the magic number {expected:#x}, got {found:#x}: not an NBD client, or a stream out of step"
    )]
    Magic {
        /// Magic number of the protocol.
        expected: u64,
        /// Magic number received.
        found: u64,
    },
    /// The data of an option contradicts itself.
    #[error("the data of the option does not have the form that the protocol prescribes")]
    Malformed,
}

/// A cursor over bytes that may be too few.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(CodecError::Incomplete)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(CodecError::Incomplete)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, CodecError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_be_bytes)
    }
}

/// Parses a request; the payload of a write follows it.
///
/// # Errors
/// `Incomplete` for fewer than [`REQUEST_BYTES`], `Magic` when the stream is out of step.
pub fn parse_request(bytes: &[u8]) -> Result<RequestHeader, CodecError> {
    let mut reader = Reader(bytes);
    let magic = reader.u32()?;
    if magic != REQUEST_MAGIC {
        return Err(CodecError::Magic { expected: REQUEST_MAGIC.into(), found: magic.into() });
    }
    let flags = reader.u16()?;
    let command = CommandKind::from_number(reader.u16()?);
    Ok(RequestHeader { command, flags, cookie: reader.u64()?, offset: reader.u64()?, length: reader.u32()? })
}

/// Parses an option's header; its data follows it.
///
/// # Errors
/// `Incomplete` for fewer than [`OPTION_BYTES`], `Magic` for anything but an option.
pub fn parse_option(bytes: &[u8]) -> Result<OptionHeader, CodecError> {
    let mut reader = Reader(bytes);
    let magic = reader.u64()?;
    if magic != OPTION_MAGIC {
        return Err(CodecError::Magic { expected: OPTION_MAGIC, found: magic });
    }
    Ok(OptionHeader { kind: OptionKind::from_number(reader.u32()?), length: reader.u32()? })
}

/// Parses the client's flags, the first thing it sends.
///
/// # Errors
/// `Incomplete` for fewer than four bytes.
pub fn parse_client_flags(bytes: &[u8]) -> Result<u32, CodecError> {
    Reader(bytes).u32()
}

/// Parses the data of INFO or GO.
///
/// # Errors
/// `Malformed` when lengths disagree or the name is not UTF-8.
pub fn parse_info_request(data: &[u8]) -> Result<InfoRequest, CodecError> {
    info_request(data).map_err(|_| CodecError::Malformed)
}

fn info_request(data: &[u8]) -> Result<InfoRequest, CodecError> {
    let mut reader = Reader(data);
    let name_bytes = usize::try_from(reader.u32()?).map_err(|_| CodecError::Malformed)?;
    let name = parse_name(reader.take(name_bytes)?)?;
    let kinds_count = reader.u16()?;
    if reader.0.len() != usize::from(kinds_count) * 2 {
        return Err(CodecError::Malformed);
    }
    let kinds = reader.0.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    Ok(InfoRequest { name, kinds })
}

/// Parses the name of an export.
///
/// # Errors
/// `Malformed` when it is not UTF-8.
pub fn parse_name(bytes: &[u8]) -> Result<String, CodecError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| CodecError::Malformed)
}

/// Appends the server's greeting.
pub fn push_greeting(out: &mut Vec<u8>) {
    assert!(out.is_empty(), "{} bytes would come before the greeting", out.len());
    out.extend(GREETING_MAGIC.to_be_bytes());
    out.extend(OPTION_MAGIC.to_be_bytes());
    out.extend((handshake_flags::FIXED_NEWSTYLE | handshake_flags::NO_ZEROES).to_be_bytes());
}

/// Appends a reply to an option.
///
/// # Panics
/// When `data` exceeds 4 GiB; the server's own texts do not.
pub fn push_option_reply(out: &mut Vec<u8>, option: OptionKind, kind: u32, data: &[u8]) {
    assert!(kind != option_reply::ACK || data.is_empty(), "an acknowledgement carries nothing");
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.number().to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(length_field(data.len()).to_be_bytes());
    out.extend(data);
}

/// Appends the answer to `EXPORT_NAME`, the only one without a header.
pub fn push_export(out: &mut Vec<u8>, size_bytes: u64, flags: u16, zeroes: bool) {
    out.extend(size_bytes.to_be_bytes());
    out.extend(flags.to_be_bytes());
    if zeroes {
        out.extend([0; 124]);
    }
}

/// Appends a simple reply; the data of a successful read follows it.
pub fn push_simple_reply(out: &mut Vec<u8>, cookie: u64, error: Option<ErrorCode>) {
    let mut reply = [0; SIMPLE_REPLY_BYTES];
    reply[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    reply[4..8].copy_from_slice(&error.map_or(0, ErrorCode::number).to_be_bytes());
    reply[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&reply);
}

/// The fixed part of a structured chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// True for the last chunk of its reply.
    pub done: bool,
    /// See [`chunk`].
    pub kind: u16,
    /// The client's name for the request.
    pub cookie: u64,
    /// Bytes that follow.
    pub length: u32,
}

/// Appends a structured chunk's header; `length` bytes follow it.
pub fn push_chunk(out: &mut Vec<u8>, header: ChunkHeader) {
    let is_empty = header.kind != chunk::NONE || (header.done && header.length == 0);
    assert!(is_empty, "a chunk of nothing ends its reply: {header:?}");
    let flags = if header.done { chunk::FLAG_DONE } else { 0 };
    out.extend(STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend(header.kind.to_be_bytes());
    out.extend(header.cookie.to_be_bytes());
    out.extend(header.length.to_be_bytes());
}

/// Appends the header of a data chunk; `data_bytes` of data follow it.
pub fn push_data_chunk(out: &mut Vec<u8>, cookie: u64, done: bool, offset: u64, data_bytes: u32) {
    assert!((1..=PAYLOAD_BYTES_MAX).contains(&data_bytes), "{data_bytes} bytes of data in a chunk");
    push_chunk(out, ChunkHeader { done, kind: chunk::OFFSET_DATA, cookie, length: data_bytes + 8 });
    out.extend(offset.to_be_bytes());
}

/// Appends an error chunk with a text for humans.
///
/// # Panics
/// When `text` exceeds 64 KiB; the server's own texts do not.
pub fn push_error_chunk(out: &mut Vec<u8>, cookie: u64, done: bool, error: ErrorCode, text: &str) {
    let text_bytes = u16::try_from(text.len()).expect("error texts are sentences");
    push_chunk(out, ChunkHeader { done, kind: chunk::ERROR, cookie, length: u32::from(text_bytes) + 6 });
    out.extend(error.number().to_be_bytes());
    out.extend(text_bytes.to_be_bytes());
    out.extend(text.as_bytes());
}

/// A length as the wire carries it.
fn length_field(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("the server's own messages are short")
}

#[cfg(test)]
mod tests;
