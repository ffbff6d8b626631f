//! What a front end says on its socket, and what it is told ("Vhost-user Protocol", section Message Specification).
//!
//! ```text
//! message | request: u32 | flags: u32 | bytes of payload: u32 | payload |     all in the machine's byte order
//! flags   | version: 2 bits, always 1 | is a reply | wants a reply |
//! ```
//!
//! Descriptors come beside the bytes; [`Request::descriptors`] says how many a message brings.

use thiserror::Error;

/// Length of the header of a message.
pub const HEADER_BYTES: usize = 12;

/// Longest payload that is taken: a memory table of [`REGIONS_MAX`] regions is the longest there is.
pub const PAYLOAD_BYTES_MAX: usize = 1032;

/// Regions of a guest's memory; also the most descriptors that come with a message.
pub const REGIONS_MAX: usize = 32;

/// Bytes of the disk's configuration that can be asked for.
pub const CONFIG_BYTES_MAX: u32 = 256;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const FLAG_REPLY: u32 = 1 << 2;
const FLAG_NEED_REPLY: u32 = 1 << 3;

/// A vring index with this bit set comes without a descriptor.
const NO_DESCRIPTOR: u64 = 1 << 8;
const VRING_INDEX_MASK: u64 = 0xff;

/// Bytes of a region in a memory table.
const REGION_BYTES: usize = 32;

const _: () = assert!(8 + REGIONS_MAX * REGION_BYTES == PAYLOAD_BYTES_MAX);
const _: () = assert!(12 + CONFIG_BYTES_MAX as usize <= PAYLOAD_BYTES_MAX);
const _: () = assert!(VERSION_MASK & (FLAG_REPLY | FLAG_NEED_REPLY) == 0);

/// A region of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, by the guest's addresses.
    pub guest_address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// First byte, by the front end's own addresses.
    pub user_address: u64,
    /// Place of the first byte in the descriptor's file.
    pub file_offset: u64,
}

/// Addresses of a queue's three parts, by the front end's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringAddress {
    /// Queue.
    pub index: u32,
    /// Table of descriptors.
    pub descriptors: u64,
    /// Ring of what is done.
    pub used: u64,
    /// Ring of what is to do.
    pub available: u64,
}

/// A queue and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringState {
    /// Queue.
    pub index: u32,
    /// Size, index or switch of the queue, by the message.
    pub number: u32,
}

/// Place of an inflight region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflightPlace {
    /// Length in bytes.
    pub bytes: u64,
    /// Place in the descriptor's file.
    pub file_offset: u64,
    /// Queues.
    pub queues_count: u16,
    /// Size of each queue.
    pub queue_size: u16,
}

/// A part of the disk's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigRange {
    /// First byte.
    pub offset: u32,
    /// Count of bytes.
    pub bytes: u32,
    /// Flags, which are given back.
    pub flags: u32,
}

/// A request of a front end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Features that the device has?
    GetFeatures,
    /// Features that are used.
    SetFeatures(u64),
    /// Begins.
    SetOwner,
    /// Ends; deprecated, and means nothing.
    ResetOwner,
    /// Memory of the guest, one descriptor per region.
    SetMemoryTable(Vec<Region>),
    /// Size of a queue.
    SetVringSize(VringState),
    /// Addresses of a queue.
    SetVringAddress(VringAddress),
    /// Index of the next request of a queue.
    SetVringBase(VringState),
    /// Stops a queue; what would be its next request?
    GetVringBase(u32),
    /// Eventfd by which the guest tells us; starts the queue.
    SetVringKick(VringDescriptor),
    /// Eventfd by which the guest is told.
    SetVringCall(VringDescriptor),
    /// Eventfd for errors, which is taken and not used.
    SetVringError(VringDescriptor),
    /// Features of the protocol?
    GetProtocolFeatures,
    /// Features of the protocol that are used.
    SetProtocolFeatures(u64),
    /// Count of queues?
    GetQueueCount,
    /// Switches a queue on or off.
    SetVringEnable(VringState),
    /// Configuration of the disk?
    GetConfig(ConfigRange),
    /// Changes the configuration of the disk.
    SetConfig(ConfigRange),
    /// A new inflight region, please.
    GetInflight(InflightPlace),
    /// The inflight region of whoever served before.
    SetInflight(InflightPlace),
}

/// The queue that an eventfd is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringDescriptor {
    /// Queue.
    pub index: u32,
    /// False when the queue shall do without.
    pub has_descriptor: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Request of the front end.
    pub request: Request,
    /// The front end waits for a word whether it worked (REPLY_ACK).
    pub wants_ack: bool,
}

/// Fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Wrong version, or a reply where nothing was asked.
    #[error("its message has flags {0:#x}, which no request of version 1 has")]
    Flags(u32),
    /// Unknown request.
    #[error("it asks for request {0}, which is not offered")]
    Unknown(u32),
    /// Payload longer than any.
    #[error("request {request} comes with {bytes} bytes; {PAYLOAD_BYTES_MAX} are the most")]
    Long {
        /// Number of the request.
        request: u32,
        /// Length of its payload.
        bytes: u32,
    },
    /// Payload that does not fit the request.
    #[error("request {request} comes with {bytes} bytes, which is not its length")]
    Length {
        /// Number of the request.
        request: u32,
        /// Length of its payload.
        bytes: usize,
    },
    /// Table without regions, or with too many.
    #[error("its memory has {0} regions; 1 to {REGIONS_MAX} are possible")]
    Regions(u32),
}

/// Number of the request that stops a queue; its answer comes when nothing of the queue is in flight any more.
pub const GET_VRING_BASE: u32 = number::GET_VRING_BASE;

/// Numbers of requests.
mod number {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_FEATURES: u32 = 2;
    pub(super) const SET_OWNER: u32 = 3;
    pub(super) const RESET_OWNER: u32 = 4;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const GET_VRING_BASE: u32 = 11;
    pub(super) const SET_VRING_KICK: u32 = 12;
    pub(super) const SET_VRING_CALL: u32 = 13;
    pub(super) const SET_VRING_ERR: u32 = 14;
    pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(super) const GET_QUEUE_NUM: u32 = 17;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const GET_CONFIG: u32 = 24;
    pub(super) const SET_CONFIG: u32 = 25;
    pub(super) const GET_INFLIGHT_FD: u32 = 31;
    pub(super) const SET_INFLIGHT_FD: u32 = 32;
}

/// Bytes of the message that `bytes` begin with: of its header until that is there, then of all of it.
///
/// # Errors
/// When no message begins like this.
pub fn bytes_wanted(bytes: &[u8]) -> Result<usize, MessageError> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(HEADER_BYTES) };
    let (request, flags, payload_bytes) = (u32_at(header, 0), u32_at(header, 4), u32_at(header, 8));
    if flags & VERSION_MASK != VERSION || flags & FLAG_REPLY != 0 {
        return Err(MessageError::Flags(flags));
    }
    match usize::try_from(payload_bytes) {
        Ok(count) if count <= PAYLOAD_BYTES_MAX => Ok(HEADER_BYTES + count),
        _ => Err(MessageError::Long { request, bytes: payload_bytes }),
    }
}

/// Takes a whole message apart.
///
/// # Errors
/// When it is none that a front end may send.
///
/// # Panics
/// When it is not whole; see [`bytes_wanted`].
pub fn parse(bytes: &[u8]) -> Result<Message, MessageError> {
    assert_eq!(bytes_wanted(bytes)?, bytes.len());
    let number = u32_at(bytes, 0);
    let payload = &bytes[HEADER_BYTES..];
    let request = parse_request(number, payload)?;
    Ok(Message { request, wants_ack: u32_at(bytes, 4) & FLAG_NEED_REPLY != 0 })
}

fn parse_request(request: u32, payload: &[u8]) -> Result<Request, MessageError> {
    let wrong_length = MessageError::Length { request, bytes: payload.len() };
    let expect = |bytes: usize| if payload.len() == bytes { Ok(()) } else { Err(wrong_length) };
    let state = || expect(8).map(|()| VringState { index: u32_at(payload, 0), number: u32_at(payload, 4) });
    let number = || expect(8).map(|()| u64_at(payload, 0));
    let descriptor = || number().map(VringDescriptor::of);
    Ok(match request {
        number::GET_FEATURES => Request::GetFeatures,
        number::SET_FEATURES => Request::SetFeatures(number()?),
        number::SET_OWNER => Request::SetOwner,
        number::RESET_OWNER => Request::ResetOwner,
        number::SET_MEM_TABLE => Request::SetMemoryTable(parse_regions(payload, wrong_length)?),
        number::SET_VRING_NUM => Request::SetVringSize(state()?),
        number::SET_VRING_ADDR => expect(40).map(|()| Request::SetVringAddress(VringAddress::of(payload)))?,
        number::SET_VRING_BASE => Request::SetVringBase(state()?),
        number::GET_VRING_BASE => Request::GetVringBase(state()?.index),
        number::SET_VRING_KICK => Request::SetVringKick(descriptor()?),
        number::SET_VRING_CALL => Request::SetVringCall(descriptor()?),
        number::SET_VRING_ERR => Request::SetVringError(descriptor()?),
        number::GET_PROTOCOL_FEATURES => Request::GetProtocolFeatures,
        number::SET_PROTOCOL_FEATURES => Request::SetProtocolFeatures(number()?),
        number::GET_QUEUE_NUM => Request::GetQueueCount,
        number::SET_VRING_ENABLE => Request::SetVringEnable(state()?),
        number::GET_CONFIG => Request::GetConfig(parse_config(payload, wrong_length)?),
        number::SET_CONFIG => Request::SetConfig(parse_config(payload, wrong_length)?),
        number::GET_INFLIGHT_FD => Request::GetInflight(parse_inflight(payload, wrong_length)?),
        number::SET_INFLIGHT_FD => Request::SetInflight(parse_inflight(payload, wrong_length)?),
        other => return Err(MessageError::Unknown(other)),
    })
}

fn parse_regions(payload: &[u8], wrong_length: MessageError) -> Result<Vec<Region>, MessageError> {
    if payload.len() < 8 {
        return Err(wrong_length);
    }
    let count = u32_at(payload, 0);
    let regions = usize::try_from(count).ok().filter(|count| (1..=REGIONS_MAX).contains(count));
    let regions = regions.ok_or(MessageError::Regions(count))?;
    // Some front ends send the table in its longest form.
    let table = payload[8..].get(..regions * REGION_BYTES).ok_or(wrong_length)?;
    let table: Vec<Region> = table.chunks_exact(REGION_BYTES).map(Region::of).collect();
    assert!(table.len() == regions, "{} regions of {regions}", table.len());
    Ok(table)
}

fn parse_config(payload: &[u8], wrong_length: MessageError) -> Result<ConfigRange, MessageError> {
    if payload.len() < 12 {
        return Err(wrong_length);
    }
    let range =
        ConfigRange { offset: u32_at(payload, 0), bytes: u32_at(payload, 4), flags: u32_at(payload, 8) };
    let is_whole = u64::try_from(payload.len()).is_ok_and(|bytes| bytes == 12 + u64::from(range.bytes));
    let ends_within = range.offset.checked_add(range.bytes).is_some_and(|end| end <= CONFIG_BYTES_MAX);
    if is_whole && ends_within { Ok(range) } else { Err(wrong_length) }
}

fn parse_inflight(payload: &[u8], wrong_length: MessageError) -> Result<InflightPlace, MessageError> {
    // 20 bytes, and 24 from those who send the structure with its padding.
    if !matches!(payload.len(), 20 | 24) {
        return Err(wrong_length);
    }
    Ok(InflightPlace {
        bytes: u64_at(payload, 0),
        file_offset: u64_at(payload, 8),
        queues_count: u16_at(payload, 16),
        queue_size: u16_at(payload, 18),
    })
}

impl Region {
    fn of(bytes: &[u8]) -> Region {
        Region {
            guest_address: u64_at(bytes, 0),
            bytes: u64_at(bytes, 8),
            user_address: u64_at(bytes, 16),
            file_offset: u64_at(bytes, 24),
        }
    }
}

impl VringAddress {
    fn of(bytes: &[u8]) -> VringAddress {
        VringAddress {
            index: u32_at(bytes, 0),
            descriptors: u64_at(bytes, 8),
            used: u64_at(bytes, 16),
            available: u64_at(bytes, 24),
        }
    }
}

impl VringDescriptor {
    fn of(number: u64) -> VringDescriptor {
        let index = u32::try_from(number & VRING_INDEX_MASK).expect("masked to 8 bits");
        VringDescriptor { index, has_descriptor: number & NO_DESCRIPTOR == 0 }
    }
}

impl Request {
    /// Descriptors that come with it.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        match self {
            Request::SetMemoryTable(regions) => regions.len(),
            Request::SetVringKick(vring) | Request::SetVringCall(vring) | Request::SetVringError(vring) => {
                usize::from(vring.has_descriptor)
            }
            Request::SetInflight(_) => 1,
            _ => 0,
        }
    }

    /// True for those that have an answer of their own, and get no other.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        matches!(
            self,
            Request::GetFeatures
                | Request::GetVringBase(_)
                | Request::GetProtocolFeatures
                | Request::GetQueueCount
                | Request::GetConfig(_)
                | Request::GetInflight(_)
        )
    }
}

/// Reply to a request of this number.
///
/// # Panics
/// When the payload is longer than [`PAYLOAD_BYTES_MAX`].
#[must_use]
pub fn reply(request_number: u32, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= PAYLOAD_BYTES_MAX);
    let bytes = u32::try_from(payload.len()).expect("asserted above");
    let header = [request_number, VERSION | FLAG_REPLY, bytes].map(u32::to_ne_bytes);
    [header.as_flattened(), payload].concat()
}

/// Number of the request that a message begins with.
///
/// # Panics
/// When the header is not there.
#[must_use]
pub fn request_number(bytes: &[u8]) -> u32 {
    u32_at(bytes, 0)
}

impl InflightPlace {
    /// As a payload, with the padding that a structure of C has: QEMU takes no other length.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend(self.bytes.to_ne_bytes());
        bytes.extend(self.file_offset.to_ne_bytes());
        bytes.extend(self.queues_count.to_ne_bytes());
        bytes.extend(self.queue_size.to_ne_bytes());
        bytes.extend([0; 4]);
        assert!(bytes.len() == 24, "the structure has {} bytes", bytes.len());
        bytes
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(base::bytes::array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(base::bytes::array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(base::bytes::array_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
        let bytes = u32::try_from(payload.len()).unwrap();
        [[request, flags, bytes].map(u32::to_ne_bytes).as_flattened(), payload].concat()
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(bytes_wanted(&[1, 0, 0]), Ok(HEADER_BYTES));
        assert_eq!(bytes_wanted(&message(1, 5, &[])), Err(MessageError::Flags(5)));
        assert_eq!(bytes_wanted(&message(1, 2, &[])), Err(MessageError::Flags(2)));
        assert_eq!(parse(&message(99, 1, &[])), Err(MessageError::Unknown(99)));
        assert_eq!(parse(&message(2, 1, &[0; 7])), Err(MessageError::Length { request: 2, bytes: 7 }));
        assert_eq!(parse(&message(5, 1, &[0; 8])), Err(MessageError::Regions(0)));
        assert_eq!(parse(&message(5, 1, &[33, 0, 0, 0, 0, 0, 0, 0])), Err(MessageError::Regions(33)));
        let long = [[1_u32, 1, 1 << 20].map(u32::to_ne_bytes).as_flattened(), &[]].concat();
        assert_eq!(bytes_wanted(&long), Err(MessageError::Long { request: 1, bytes: 1 << 20 }));
    }

    #[test]
    fn a_queue_may_do_without_a_descriptor() {
        let parsed = parse(&message(12, 9, &0x103_u64.to_ne_bytes())).unwrap();
        let without = VringDescriptor { index: 3, has_descriptor: false };
        assert_eq!(parsed, Message { request: Request::SetVringKick(without), wants_ack: true });
        assert_eq!(parsed.request.descriptors(), 0);
    }

    proptest! {
        #[test]
        fn parsing_takes_anything(request in 0_u32..40, flags in any::<u32>(), payload in proptest::collection::vec(any::<u8>(), 0..1100)) {
            let bytes = message(request, flags, &payload);
            if let (Ok(_), Ok(parsed)) = (bytes_wanted(&bytes), parse(&bytes)) {
                prop_assert!(parsed.request.descriptors() <= REGIONS_MAX);
            }
        }
    }
}
