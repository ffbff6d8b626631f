//! Commands as the kernel's NVMe driver takes them, and the buffers that go with them.
//!
//! ```text
//!   Action + Payload ──encode──> 72 bytes: opcode, namespace, pointers, lengths, six command words
//! ```
//! The kernel does not check lengths against the number of blocks: it overruns a short buffer, and calls a missing metadata pointer
//! a success. So [`encode`] computes the number of blocks, both lengths and all pointers from one number of frames, and nothing
//! else makes a length or a pointer.

use base::bytes::put;
use base::frame::Frame;
use base::units::{BLOCK_BYTES, OOB_BYTES};

/// Bytes of a command in a submission of io_uring; the driver uses the first 72.
pub(super) const COMMAND_BYTES: usize = 80;
/// Bytes of identify data.
pub(super) const IDENTIFY_BYTES: usize = 4096;

/// What is done to the zones of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Not open any more.
    Close = 1,
    /// Full.
    Finish = 2,
    /// Explicitly open.
    Open = 3,
    /// Empty.
    Reset = 4,
    /// Explicitly open, with a random write area: bit 9 of the word.
    OpenWithArea = 0x203,
}

/// State that a zone turns to by itself, as reports are filtered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Read-only.
    ReadOnly = 6,
    /// Offline.
    Offline = 7,
}

/// A kind of identify data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The namespace, of the command set that all namespaces have.
    Namespace,
    /// The controller.
    Controller,
    /// The namespace, of the zoned command set.
    ZonedNamespace,
    /// The controller, of the zoned command set.
    ZonedController,
}

/// Operation of a command. Blocks are counted from the start of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "first block, start of a zone, what becomes of it: fields say what they are")]
pub enum Action {
    /// Reads blocks.
    Read { block: u64 },
    /// Writes blocks at the write pointer.
    Write { block: u64 },
    /// Writes blocks wherever the write pointer is.
    Append { zone_start: u64 },
    /// Makes durable what was written.
    Flush,
    /// Changes the state of a zone.
    Manage { zone_start: u64, transition: Transition },
    /// The same for all zones that can make the transition.
    ManageAll { transition: Transition },
    /// Commits the random write area of a zone up to a block, and that one.
    Commit { last_block: u64 },
    /// Asks for the states of zones.
    Report { zone_start: u64 },
    /// Asks for zones that are in a state.
    ReportTurned { zone_start: u64, turn: Turn },
    /// Asks for the SMART log.
    Health,
    /// Asks who the drive is.
    Identify { subject: Subject },
}

impl Action {
    /// True of commands whose frames are filled by the drive.
    pub(super) fn reads(self) -> bool {
        matches!(self, Action::Read { .. })
    }
}

/// A part of memory, as the kernel takes it. Integers, for a pointer could not change threads.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Vector {
    address: u64,
    bytes: u64,
}

const _: () = assert!(size_of::<Vector>() == size_of::<libc::iovec>());

/// Buffers of a command.
#[derive(Debug, Default)]
pub struct Payload {
    /// Blocks that are moved.
    pub(super) frames: Vec<Frame>,
    /// Metadata of the frames, in one buffer.
    metadata: Vec<[u8; OOB_BYTES]>,
    /// Data of the frames, where they are.
    vectors: Vec<Vector>,
    /// Answer to a report or an identify.
    pub(super) bytes: Vec<u8>,
}

impl Payload {
    /// Blocks.
    pub(super) fn of_frames(frames: Vec<Frame>) -> Payload {
        Payload { frames, ..Payload::default() }
    }

    /// Room for an answer of so many bytes.
    pub(super) fn of_bytes(count: usize) -> Payload {
        Payload { bytes: vec![0; count], ..Payload::default() }
    }

    /// Gives the frames the metadata that were read.
    pub(super) fn scatter(&mut self) {
        assert!(self.metadata.len() == self.frames.len(), "metadata of other frames");
        for (frame, metadata) in self.frames.iter_mut().zip(&self.metadata) {
            frame.oob = *metadata;
        }
    }

    /// Plays the part of a drive, in tests: moves the block of a frame from or to the buffers that a drive sees.
    #[cfg(test)]
    pub(super) fn metadata_mut(&mut self, index: usize) -> &mut [u8; OOB_BYTES] {
        &mut self.metadata[index]
    }

    fn fill_metadata(&mut self, reads: bool) {
        self.metadata.clear();
        match reads {
            true => self.metadata.resize(self.frames.len(), [0; OOB_BYTES]),
            false => self.metadata.extend(self.frames.iter().map(|frame| frame.oob)),
        }
    }

    fn fill_vectors(&mut self) {
        self.vectors.clear();
        self.vectors.extend(
            self.frames.iter_mut().map(|frame| Vector {
                address: address_of(frame.data.as_mut_ptr()),
                bytes: BLOCK_BYTES as u64,
            }),
        );
    }
}

/// A command ready for the kernel.
#[derive(Debug)]
pub(super) struct Encoded {
    /// Command; its pointers lead into the payload that it was made of.
    pub(super) bytes: [u8; COMMAND_BYTES],
    /// The data pointer leads to vectors.
    pub(super) is_vectored: bool,
}

/// Encodes a command and points it at its payload, which has to stay where it is until the command is answered.
///
/// # Panics
/// When the payload does not suit the action, or is larger than a command can say.
pub(super) fn encode(action: Action, namespace: u32, payload: &mut Payload) -> Encoded {
    let mut command = Words::new(namespace);
    let is_transfer = matches!(action, Action::Read { .. } | Action::Write { .. } | Action::Append { .. });
    assert!(is_transfer != payload.frames.is_empty(), "{action:?} with {} frames", payload.frames.len());
    if is_transfer {
        payload.fill_metadata(action.reads());
        payload.fill_vectors();
        let count = payload.frames.len();
        command.blocks_less_one = u32::from(u16::try_from(count - 1).expect("at most 65,536 blocks"));
        command.metadata = (address_of(payload.metadata.as_mut_ptr()), length(count * OOB_BYTES));
        // Of vectors the kernel wants the number; each has one block.
        command.data = (address_of(payload.vectors.as_mut_ptr()), length(count));
    } else if !payload.bytes.is_empty() {
        command.data = (address_of(payload.bytes.as_mut_ptr()), length(payload.bytes.len()));
    }
    Encoded { bytes: command.of(action, payload.bytes.len()), is_vectored: is_transfer }
}

fn address_of<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}

fn length(count: usize) -> u32 {
    u32::try_from(count).expect("a transfer is less than 4 GiB")
}

/// Fields of a command that its action does not say.
struct Words {
    namespace: u32,
    blocks_less_one: u32,
    /// Address and length.
    metadata: (u64, u32),
    data: (u64, u32),
}

impl Words {
    fn new(namespace: u32) -> Words {
        Words { namespace, blocks_less_one: 0, metadata: (0, 0), data: (0, 0) }
    }

    /// Identify of a controller names no namespace, and its log is of all of them.
    fn namespace_of(&self, action: Action) -> u32 {
        match action {
            Action::Identify { subject: Subject::Controller | Subject::ZonedController } => 0,
            Action::Health => u32::MAX,
            _ => self.namespace,
        }
    }

    fn of(&self, action: Action, bytes: usize) -> [u8; COMMAND_BYTES] {
        let blocks = self.blocks_less_one;
        let (opcode, block, word12, word13, word14) = match action {
            Action::Flush => (0x00, 0, 0, 0, 0),
            Action::Write { block } => (0x01, block, blocks, 0, 0),
            Action::Read { block } => (0x02, block, blocks, 0, 0),
            Action::Append { zone_start } => (0x7d, zone_start, blocks, 0, 0),
            Action::Manage { zone_start, transition } => (0x79, zone_start, 0, transition as u32, 0),
            Action::ManageAll { transition } => (0x79, 0, 0, transition as u32 | SELECT_ALL, 0),
            Action::Commit { last_block } => (0x79, last_block, 0, FLUSH_AREA, 0),
            Action::Report { zone_start } => (0x7a, zone_start, length(bytes / 4 - 1), PARTIAL_REPORT, 0),
            Action::ReportTurned { zone_start, turn } => {
                (0x7a, zone_start, length(bytes / 4 - 1), PARTIAL_REPORT | (turn as u32) << 8, 0)
            }
            Action::Health => {
                let words = length(bytes / 4 - 1);
                assert!(words < 1 << 16, "a log that one word has the length of");
                (0x02, u64::from(words << 16 | SMART_LOG), 0, 0, 0)
            }
            Action::Identify { subject } => {
                assert!(bytes == IDENTIFY_BYTES, "identify data have {IDENTIFY_BYTES} bytes");
                let (structure, command_set) = match subject {
                    Subject::Namespace => (0, 0),
                    Subject::Controller => (1, 0),
                    Subject::ZonedNamespace => (5, ZONED_COMMANDS),
                    Subject::ZonedController => (6, ZONED_COMMANDS),
                };
                let word11 = u64::from(command_set) << 24;
                (0x06, word11 << 32 | structure, 0, 0, 0)
            }
        };
        let mut command = [0; COMMAND_BYTES];
        put(&mut command, 0, &[opcode]);
        put(&mut command, 4, &self.namespace_of(action).to_le_bytes());
        put(&mut command, 16, &self.metadata.0.to_le_bytes());
        put(&mut command, 24, &self.data.0.to_le_bytes());
        put(&mut command, 32, &self.metadata.1.to_le_bytes());
        put(&mut command, 36, &self.data.1.to_le_bytes());
        put(&mut command, 40, &block.to_le_bytes());
        for (word, at) in [(word12, 48), (word13, 52), (word14, 56)] {
            put(&mut command, at, &word.to_le_bytes());
        }
        command
    }
}

/// Command set identifier of zoned namespaces.
const ZONED_COMMANDS: u8 = 2;
/// Identifier of the SMART log.
const SMART_LOG: u32 = 2;
/// Of zone management: all zones.
const SELECT_ALL: u32 = 1 << 8;
/// Of zone management: flush of a random write area.
const FLUSH_AREA: u32 = 0x11;
/// Of reports: no more descriptors than fit.
const PARTIAL_REPORT: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use base::bytes::{u32_at, u64_at};

    fn encoded(action: Action, payload: &mut Payload) -> [u8; COMMAND_BYTES] {
        encode(action, 9, payload).bytes
    }

    #[test]
    fn lengths_follow_from_the_number_of_frames() {
        for count in [1, 2, 9, 127] {
            let frames = (0..count)
                .map(|index| {
                    let mut frame = Frame::zeroed();
                    frame.oob = [index; OOB_BYTES];
                    frame
                })
                .collect();
            let mut payload = Payload::of_frames(frames);
            let command = encoded(Action::Write { block: 0x1_2345_6789 }, &mut payload);
            assert_eq!((command[0], u32_at(&command, 4)), (1, 9));
            assert_eq!(u64_at(&command, 40), 0x1_2345_6789);
            assert_eq!(u32_at(&command, 48), u32::from(count) - 1, "blocks, less one");
            assert_eq!(u32_at(&command, 32), u32::from(count) * 64, "bytes of metadata");
            assert_eq!(u32_at(&command, 36), u32::from(count), "vectors");
            assert_eq!(payload.metadata.len(), usize::from(count));
            assert!(payload.metadata.iter().zip(0..).all(|(metadata, index)| metadata[63] == index));
            assert_eq!(u64_at(&command, 16), address_of(payload.metadata.as_mut_ptr()));
            for (vector, frame) in payload.vectors.iter().zip(&mut payload.frames) {
                assert_eq!((vector.address, vector.bytes), (address_of(frame.data.as_mut_ptr()), 4096));
            }
        }
    }

    #[test]
    fn actions_have_their_opcodes_and_words() {
        let manage = Action::Manage { zone_start: 0x4000, transition: Transition::Finish };
        let command = encoded(manage, &mut Payload::default());
        assert_eq!((command[0], u64_at(&command, 40), u32_at(&command, 52)), (0x79, 0x4000, 2));
        assert_eq!((u32_at(&command, 32), u32_at(&command, 36)), (0, 0));
        let command = encoded(Action::ManageAll { transition: Transition::Close }, &mut Payload::default());
        assert_eq!((command[0], u32_at(&command, 52)), (0x79, 0x101));
        let open = Action::Manage { zone_start: 0x4000, transition: Transition::OpenWithArea };
        let command = encoded(open, &mut Payload::default());
        assert_eq!((command[0], u64_at(&command, 40), u32_at(&command, 52)), (0x79, 0x4000, 0x203));
        let command = encoded(Action::Commit { last_block: 0x1_0000_400f }, &mut Payload::default());
        assert_eq!((command[0], u64_at(&command, 40), u32_at(&command, 52)), (0x79, 0x1_0000_400f, 0x11));
        assert_eq!((u32_at(&command, 32), u32_at(&command, 36), u32_at(&command, 48)), (0, 0, 0));
        let command = encoded(Action::Report { zone_start: 0x8000 }, &mut Payload::of_bytes(65_536));
        assert_eq!((command[0], u64_at(&command, 40)), (0x7a, 0x8000));
        assert_eq!(
            (u32_at(&command, 48), u32_at(&command, 52), u32_at(&command, 36)),
            (16_383, 0x1_0000, 65_536)
        );
        for (turn, filter) in [(Turn::ReadOnly, 0x1_0600), (Turn::Offline, 0x1_0700)] {
            let search = Action::ReportTurned { zone_start: 0x8000, turn };
            let command = encoded(search, &mut Payload::of_bytes(128));
            assert_eq!((command[0], u64_at(&command, 40)), (0x7a, 0x8000));
            assert_eq!((u32_at(&command, 48), u32_at(&command, 52)), (31, filter));
        }
        let command = encoded(Action::Health, &mut Payload::of_bytes(512));
        assert_eq!((command[0], u32_at(&command, 4), u32_at(&command, 36)), (2, u32::MAX, 512));
        assert_eq!((u32_at(&command, 40), u32_at(&command, 44)), (0x007f_0002, 0));
        let identify = Action::Identify { subject: Subject::ZonedController };
        let command = encoded(identify, &mut Payload::of_bytes(IDENTIFY_BYTES));
        assert_eq!((command[0], u32_at(&command, 40), u32_at(&command, 44)), (6, 6, 0x0200_0000));
        assert_eq!(u32_at(&command, 4), 0);
        let append = Action::Append { zone_start: 0xc000 };
        let command = encoded(append, &mut Payload::of_frames(vec![Frame::zeroed()]));
        assert_eq!((command[0], u64_at(&command, 40), u32_at(&command, 48)), (0x7d, 0xc000, 0));
    }

    #[test]
    #[should_panic(expected = "with 0 frames")]
    fn a_transfer_of_nothing_is_refused() {
        encoded(Action::Read { block: 0 }, &mut Payload::default());
    }
}
