//! Fixed newstyle negotiation: bytes in, bytes out, and at the end an agreement.
//!
//! ```text
//! server greeting -> client flags -> { option -> reply }* -> Agreed | HungUp
//! ```
//!
//! The machine takes whole messages: fed with less, it consumes nothing and waits. Options that
//! are too long to keep are skipped as their bytes arrive, so a client cannot make the server
//! hold more than [`OPTION_DATA_BYTES_MAX`] for it.

use super::codec::{self, CodecError, OptionHeader, OptionKind, handshake_flags, info, option_reply};
use super::transmission::{PAYLOAD_BYTES_MAX, transmission_flags};
use base::units::BLOCK_BYTES_U64;
use thiserror::Error;

/// Longest data of an option that is looked at. The longest sensible one is INFO with a name of
/// 4,096 bytes, the limit of the protocol for strings, and a few kinds of information.
pub const OPTION_DATA_BYTES_MAX: u32 = 4096 + 256;

/// Longest data of an option that is skipped with an answer; a client that announces more is not
/// negotiating.
pub const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;
const _: () = assert!(OPTION_DATA_BYTES_MAX < OPTION_SKIP_BYTES_MAX);

/// An export: a name under which clients find the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// Name that the client asks for. The first export also answers to the empty name.
    pub name: String,
    /// A sentence for `nbdinfo --list`.
    pub description: String,
}

/// Result of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Index of the export.
    pub export_index: usize,
    /// Reads are answered in structured chunks.
    pub structured: bool,
}

/// State of the negotiation after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The next message is not complete.
    NeedMore,
    /// Requests follow.
    Agreed(Agreement),
    /// The client said good-bye; send what is queued and close.
    HungUp,
}

/// Why a negotiation ends without an agreement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// Not NBD, or out of step.
    #[error("{0}")]
    Codec(#[from] CodecError),
    /// The protocol forbids to go on.
    #[error("the client set unknown handshake flags {0:#x}")]
    ClientFlags(u32),
    /// Too long even to skip.
    #[error("the client announced an option of {0} bytes; the limit is {OPTION_SKIP_BYTES_MAX}")]
    OptionLength(u32),
    /// `EXPORT_NAME` has no way to say no but hanging up.
    #[error("the client asked for the export {}, which does not exist (EXPORT_NAME can only hang up)", quoted(.0))]
    NoSuchExport(String),
}

/// Exports and size that the client is negotiating about.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The names; the first is the default.
    pub exports: &'a [ExportConfig],
    /// Size of the volume.
    pub size_bytes: u64,
    /// Nobody may change the volume.
    pub is_read_only: bool,
}

/// Negotiation of one client.
#[derive(Clone, Debug)]
pub struct Handshake {
    stage: Stage,
    zeroes: bool,
    structured: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    ClientFlags,
    Option,
    /// Data of a refused option still arrives; its answer is out already.
    Skip {
        bytes_left: usize,
    },
}

impl Handshake {
    /// Begins: the greeting goes to `out`.
    #[must_use]
    pub fn new(out: &mut Vec<u8>) -> Handshake {
        codec::push_greeting(out);
        Handshake { stage: Stage::ClientFlags, zeroes: true, structured: false }
    }

    /// Takes at most one message from the front of `bytes`; returns how many bytes it took and
    /// where the negotiation stands. `NeedMore` with bytes taken means: call again.
    ///
    /// # Errors
    /// When the connection must be closed without further answer.
    pub fn step(
        &mut self,
        bytes: &[u8],
        offer: Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        let result = match self.stage {
            Stage::ClientFlags => self.take_client_flags(bytes),
            Stage::Option => self.take_option(bytes, offer, out),
            Stage::Skip { bytes_left } => {
                let taken = bytes_left.min(bytes.len());
                let left = bytes_left - taken;
                assert!(left < bytes_left || bytes.is_empty(), "{left} bytes are left of {bytes_left}");
                self.stage = if left == 0 { Stage::Option } else { Stage::Skip { bytes_left: left } };
                Ok((taken, Progress::NeedMore))
            }
        };
        match result {
            Err(HandshakeError::Codec(CodecError::Incomplete)) => Ok((0, Progress::NeedMore)),
            other => {
                let taken = other.as_ref().map_or(0, |(taken, _)| *taken);
                assert!(taken <= bytes.len(), "{taken} bytes are taken of {}", bytes.len());
                other
            }
        }
    }

    fn take_client_flags(&mut self, bytes: &[u8]) -> Result<(usize, Progress), HandshakeError> {
        let flags = codec::parse_client_flags(bytes)?;
        let fixed = u32::from(handshake_flags::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake_flags::NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return Err(HandshakeError::ClientFlags(flags));
        }
        assert!(matches!(self.stage, Stage::ClientFlags), "flags are taken once: {:?}", self.stage);
        self.zeroes = flags & no_zeroes == 0;
        self.stage = Stage::Option;
        Ok((4, Progress::NeedMore))
    }

    fn take_option(
        &mut self,
        bytes: &[u8],
        offer: Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        let header = codec::parse_option(bytes)?;
        if header.length > OPTION_DATA_BYTES_MAX {
            return self.refuse_long(header, out);
        }
        let data_bytes = usize::try_from(header.length).map_err(|_| CodecError::Malformed)?;
        let rest = &bytes[codec::OPTION_BYTES..];
        let data = rest.get(..data_bytes).ok_or(CodecError::Incomplete)?;
        let progress = self.answer(header.kind, data, offer, out)?;
        assert!(matches!(self.stage, Stage::Option), "an option that was kept is skipped: {:?}", self.stage);
        Ok((codec::OPTION_BYTES + data_bytes, progress))
    }

    /// Says no to an option that is too long to be kept and skips its data.
    fn refuse_long(
        &mut self,
        header: OptionHeader,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        if header.length > OPTION_SKIP_BYTES_MAX || header.kind == OptionKind::ExportName {
            return Err(HandshakeError::OptionLength(header.length));
        }
        codec::push_option_reply(out, header.kind, option_reply::ERR_TOO_BIG, b"the option is too long");
        let bytes_left = usize::try_from(header.length).map_err(|_| CodecError::Malformed)?;
        assert!(bytes_left > 0, "what is too long to be kept has bytes");
        self.stage = Stage::Skip { bytes_left };
        Ok((codec::OPTION_BYTES, Progress::NeedMore))
    }

    fn answer(
        &mut self,
        kind: OptionKind,
        data: &[u8],
        offer: Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        match kind {
            OptionKind::ExportName => self.export_name(data, offer, out),
            OptionKind::Abort => {
                codec::push_option_reply(out, kind, option_reply::ACK, &[]);
                Ok(Progress::HungUp)
            }
            OptionKind::Info | OptionKind::Go => Ok(self.describe(kind, data, offer, out)),
            OptionKind::List => Ok(list(data, offer, out)),
            OptionKind::StructuredReply => Ok(self.use_structured(data, out)),
            OptionKind::Other(_) => {
                codec::push_option_reply(out, kind, option_reply::ERR_UNSUP, b"the option is not supported");
                Ok(Progress::NeedMore)
            }
        }
    }

    fn export_name(
        &self,
        data: &[u8],
        offer: Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        let name = codec::parse_name(data)?;
        let Some(export_index) = find(offer, &name) else {
            return Err(HandshakeError::NoSuchExport(name));
        };
        codec::push_export(out, offer.size_bytes, self.flags(offer), self.zeroes);
        Ok(Progress::Agreed(self.agreement(export_index)))
    }

    fn flags(&self, offer: Offer<'_>) -> u16 {
        transmission_flags(self.structured, offer.is_read_only)
    }

    fn use_structured(&mut self, data: &[u8], out: &mut Vec<u8>) -> Progress {
        if data.is_empty() {
            self.structured = true;
            codec::push_option_reply(out, OptionKind::StructuredReply, option_reply::ACK, &[]);
        } else {
            push_invalid(out, OptionKind::StructuredReply);
        }
        Progress::NeedMore
    }

    /// INFO and GO: what the client asked to know, then ACK.
    fn describe(&self, kind: OptionKind, data: &[u8], offer: Offer<'_>, out: &mut Vec<u8>) -> Progress {
        let Ok(request) = codec::parse_info_request(data) else {
            push_invalid(out, kind);
            return Progress::NeedMore;
        };
        let Some(export_index) = find(offer, &request.name) else {
            let text = format!("there is no export named {}", quoted(&request.name));
            codec::push_option_reply(out, kind, option_reply::ERR_UNKNOWN, text.as_bytes());
            return Progress::NeedMore;
        };
        let mut export = info::EXPORT.to_be_bytes().to_vec();
        codec::push_export(&mut export, offer.size_bytes, self.flags(offer), false);
        codec::push_option_reply(out, kind, option_reply::INFO, &export);
        // Once each: an option of 4 KiB can ask 2,000 times for a description as long.
        for wanted in INFORMATION.into_iter().filter(|wanted| request.kinds.contains(wanted)) {
            let data = information(wanted, &offer.exports[export_index]);
            codec::push_option_reply(out, kind, option_reply::INFO, &data);
        }
        codec::push_option_reply(out, kind, option_reply::ACK, &[]);
        match kind {
            OptionKind::Go => Progress::Agreed(self.agreement(export_index)),
            _ => Progress::NeedMore,
        }
    }

    fn agreement(&self, export_index: usize) -> Agreement {
        Agreement { export_index, structured: self.structured }
    }
}

fn find(offer: Offer<'_>, name: &str) -> Option<usize> {
    if name.is_empty() && !offer.exports.is_empty() {
        return Some(0);
    }
    offer.exports.iter().position(|export| export.name == name)
}

/// Bytes of a name that are repeated to whoever gave it: a string of NBD has at most 4,096 in all.
const NAME_BYTES_SHOWN: usize = 256;

/// A name in quotes, cut short where it is long.
fn quoted(name: &str) -> String {
    let mut end = name.len().min(NAME_BYTES_SHOWN);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let more = if end < name.len() { "..." } else { "" };
    format!("`{}{more}`", &name[..end])
}

fn push_invalid(out: &mut Vec<u8>, kind: OptionKind) {
    codec::push_option_reply(out, kind, option_reply::ERR_INVALID, b"the option's data is malformed");
}

fn list(data: &[u8], offer: Offer<'_>, out: &mut Vec<u8>) -> Progress {
    if !data.is_empty() {
        push_invalid(out, OptionKind::List);
        return Progress::NeedMore;
    }
    for export in offer.exports {
        let name_bytes = u32::try_from(export.name.len()).expect("config limits names to 4,096 bytes");
        let mut entry = name_bytes.to_be_bytes().to_vec();
        entry.extend(export.name.as_bytes());
        entry.extend(export.description.as_bytes());
        codec::push_option_reply(out, OptionKind::List, option_reply::SERVER, &entry);
    }
    codec::push_option_reply(out, OptionKind::List, option_reply::ACK, &[]);
    Progress::NeedMore
}

/// Information that is sent when it is asked for; `EXPORT` always is, and other kinds we do not have.
const INFORMATION: [u16; 3] = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE];

/// Encodes a piece of [`INFORMATION`].
fn information(kind: u16, export: &ExportConfig) -> Vec<u8> {
    assert!(INFORMATION.contains(&kind), "information {kind} is not ours to give");
    let mut data = kind.to_be_bytes().to_vec();
    match kind {
        info::NAME => data.extend(export.name.as_bytes()),
        info::DESCRIPTION => data.extend(export.description.as_bytes()),
        _ => {
            // Any byte range is served, whole blocks without reading first.
            data.extend(1_u32.to_be_bytes());
            data.extend(u32::try_from(BLOCK_BYTES_U64).expect("a block is 4 KiB").to_be_bytes());
            data.extend(PAYLOAD_BYTES_MAX.to_be_bytes());
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exports() -> Vec<ExportConfig> {
        let named = |name: &str| ExportConfig { name: name.to_owned(), description: "a volume".to_owned() };
        vec![named("one"), named("two")]
    }

    fn option(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = codec::OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(data);
        bytes
    }

    /// Feeds pieces until the negotiation ends; returns how it stands and the output. A message that is not
    /// complete is short, and so is the answer to one message.
    fn feed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Result<Progress, HandshakeError>, Vec<u8>) {
        let exports = exports();
        let offer = Offer { exports: &exports, size_bytes: 1 << 20, is_read_only: false };
        let mut out = Vec::new();
        let mut machine = Handshake::new(&mut out);
        let mut held = Vec::new();
        for piece in pieces {
            held.extend(piece);
            loop {
                let before = out.len();
                match machine.step(&held, offer, &mut out) {
                    Ok((taken, Progress::NeedMore)) => {
                        held.drain(..taken);
                        assert!(out.len() - before < 1024, "{} bytes of answer", out.len() - before);
                        if taken == 0 {
                            assert!(held.len() < codec::OPTION_BYTES + OPTION_DATA_BYTES_MAX as usize);
                            break;
                        }
                    }
                    Ok((_, end)) => return (Ok(end), out),
                    Err(error) => return (Err(error), out),
                }
            }
        }
        (Ok(Progress::NeedMore), out)
    }

    #[test]
    fn go_agrees_however_the_bytes_arrive() {
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option(99, b"junk"));
        bytes.extend(option(8, &[]));
        bytes.extend(option(7, &[0, 0, 0, 3, b't', b'w', b'o', 0, 1, 0, 3]));
        let whole = feed(std::iter::once(&bytes[..]));
        assert_eq!(whole.0, Ok(Progress::Agreed(Agreement { export_index: 1, structured: true })));
        for step in [1, 3, 17] {
            assert_eq!(feed(bytes.chunks(step)), whole);
        }
    }

    #[test]
    fn an_unknown_export_is_named() {
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option(7, &[0, 0, 0, 1, b'x', 0, 0]));
        let (progress, out) = feed(bytes.chunks(64));
        assert_eq!(progress, Ok(Progress::NeedMore));
        assert!(String::from_utf8_lossy(&out).contains("no export named `x`"));
        let mut old = 3_u32.to_be_bytes().to_vec();
        old.extend(option(1, b"x"));
        assert_eq!(feed(old.chunks(64)).0, Err(HandshakeError::NoSuchExport("x".to_owned())));
    }

    /// `feed` allows no answer of 1,024 bytes, where strings of the protocol may have 4,096.
    #[test]
    fn a_refusal_repeats_no_more_of_a_name_than_fits() {
        let name = "\u{e9}".repeat(2048);
        let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
        data.extend(name.as_bytes());
        data.extend([0, 0]);
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option(7, &data));
        let (progress, out) = feed(std::iter::once(&bytes[..]));
        assert_eq!(progress, Ok(Progress::NeedMore));
        assert!(String::from_utf8_lossy(&out).contains("\u{e9}...`"));
        assert!(HandshakeError::NoSuchExport(name).to_string().len() < 400);
    }

    #[test]
    fn long_options_are_skipped_and_absurd_ones_end_it() {
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option(6, &[0; 100_000]));
        bytes.extend(option(2, &[]));
        assert_eq!(feed(bytes.chunks(4096)).0, Ok(Progress::HungUp));
        let mut absurd = 3_u32.to_be_bytes().to_vec();
        absurd.extend(codec::OPTION_MAGIC.to_be_bytes());
        absurd.extend([0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(feed(absurd.chunks(64)).0, Err(HandshakeError::OptionLength(u32::MAX)));
    }

    /// INFO and GO about exports that are there and one that is not; other options; and some too long.
    fn any_option() -> impl Strategy<Value = Vec<u8>> {
        let kinds =
            prop_oneof![proptest::collection::vec(0..5_u16, 0..5), Just(vec![info::DESCRIPTION; 2000])];
        let info = (6..8_u32, prop_oneof!["", "one", "two", "x"], kinds).prop_map(|(number, name, kinds)| {
            let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
            data.extend(name.as_bytes());
            data.extend(u16::try_from(kinds.len()).unwrap().to_be_bytes());
            data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
            option(number, &data)
        });
        let empty = prop_oneof![Just(3_u32), Just(8)].prop_map(|number| option(number, &[]));
        let any = (0..12_u32, proptest::collection::vec(any::<u8>(), 0..40));
        let any = any.prop_map(|(number, data)| option(number, &data));
        let long = (2..12_u32, 4000..6000_usize).prop_map(|(number, bytes)| option(number, &vec![0; bytes]));
        prop_oneof![4 => info, 2 => empty, 2 => any, 1 => long]
    }

    proptest! {
        /// Nor panic, nor hold or send more than a message deserves: see `feed`.
        #[test]
        fn splits_change_nothing(
            options in proptest::collection::vec(any_option(), 0..6),
            tail in proptest::collection::vec(any::<u8>(), 0..64),
            pieces in proptest::collection::vec(prop_oneof![1..40_usize, 1..3000_usize], 1..20),
        ) {
            let mut bytes = 3_u32.to_be_bytes().to_vec();
            bytes.extend(options.concat());
            bytes.extend(tail);
            let (mut rest, mut cut) = (&bytes[..], Vec::new());
            for piece in pieces.iter().cycle() {
                let (head, after) = rest.split_at((*piece).min(rest.len()));
                cut.push(head);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(feed(cut.into_iter()), feed(std::iter::once(&bytes[..])));
        }
    }
}
