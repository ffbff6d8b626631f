//! Which requests are admitted, and how their byte ranges fall apart into blocks.
//!
//! A client may ask for any byte range; the volume knows whole blocks. [`Cut`] takes a range
//! apart: a partial block at either end is *merged* (read, patched, written), whole blocks in
//! between go as they are.
//!
//! ```text
//! blocks   |-------|-------|-------|-------|
//! bytes         [=======================]
//!           merge  |   whole, whole |  merge
//! ```

use super::codec::{CommandKind, ErrorCode, RequestHeader, command_flags, transmission_flags as flag};
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, Lba};

/// Longest read or write: what the protocol recommends servers to accept.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
const _: () = assert!((PAYLOAD_BYTES_MAX as usize).is_multiple_of(BLOCK_BYTES));

/// Flags that say what the export can do. DF means something only with structured replies.
#[must_use]
pub fn transmission_flags(structured: bool, is_read_only: bool) -> u16 {
    let always = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::CAN_MULTI_CONN | flag::SEND_CACHE;
    let changes = match is_read_only {
        true => flag::READ_ONLY,
        false => flag::SEND_FUA | flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO,
    };
    always | changes | if structured { flag::SEND_DF } else { 0 }
}

/// A request that may be carried out. Ranges lie within the volume and are not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read {
        /// All of it in one chunk.
        one_chunk: bool,
    },
    /// Write; the payload follows.
    Write {
        /// Answer only when durable.
        force_unit_access: bool,
    },
    /// Trim, or write zeros: both read as zeros afterwards.
    Zero {
        /// Answer only when durable.
        force_unit_access: bool,
    },
    /// Flush.
    Flush,
    /// Nothing to do but to say so: an empty range, or CACHE.
    Nothing,
    /// Good-bye.
    Disconnect,
}

impl Command {
    /// The same, unless it would change a volume that is read-only.
    ///
    /// # Errors
    /// With EPERM.
    pub fn unless_read_only(self, header: &RequestHeader, is_read_only: bool) -> Result<Command, Refusal> {
        let payload_bytes = match self {
            Command::Write { .. } => header.length,
            Command::Zero { .. } => 0,
            Command::Read { .. } | Command::Flush | Command::Nothing | Command::Disconnect => {
                return Ok(self);
            }
        };
        let text = "the volume is served read-only";
        let refusal = Refusal::Reply { error: ErrorCode::NotPermitted, text, payload_bytes };
        if is_read_only { Err(refusal) } else { Ok(self) }
    }
}

/// A request that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Answer with this error and text; `payload_bytes` of a write are skipped first.
    Reply {
        /// The error.
        error: ErrorCode,
        /// Why, for humans.
        text: &'static str,
        /// Bytes that follow the request and mean nothing now.
        payload_bytes: u32,
    },
    /// A payload too long to skip: hang up.
    HangUp,
}

/// Decides whether a request is carried out on a volume of `size_bytes`.
///
/// # Errors
/// With the refusal the protocol asks for.
pub fn admit(header: &RequestHeader, size_bytes: u64, structured: bool) -> Result<Command, Refusal> {
    let writes = header.command == CommandKind::Write;
    if writes && header.length > PAYLOAD_BYTES_MAX {
        return Err(Refusal::HangUp);
    }
    let payload_bytes = if writes { header.length } else { 0 };
    let refuse = |error, text| Err(Refusal::Reply { error, text, payload_bytes });
    if header.flags & !allowed_flags(header.command, structured) != 0 {
        return refuse(ErrorCode::Invalid, "a flag of the request is unknown or does not fit its command");
    }
    let command = match command_of(header) {
        Some(command) => command,
        None => return refuse(ErrorCode::Invalid, "the command is unknown"),
    };
    if matches!(command, Command::Flush | Command::Disconnect) {
        return Ok(command);
    }
    if header.command == CommandKind::Read && header.length > PAYLOAD_BYTES_MAX {
        return refuse(ErrorCode::Invalid, "a read may ask for 32 MiB at most");
    }
    let within = header.offset.checked_add(header.length.into()).is_some_and(|end| end <= size_bytes);
    if !within {
        let error = match header.command {
            CommandKind::Write | CommandKind::WriteZeroes => ErrorCode::NoSpace,
            _ => ErrorCode::Invalid,
        };
        return refuse(error, "the range ends beyond the end of the volume");
    }
    Ok(if header.length == 0 { Command::Nothing } else { command })
}

fn command_of(header: &RequestHeader) -> Option<Command> {
    let force_unit_access = header.flags & command_flags::FUA != 0;
    match header.command {
        CommandKind::Read => Some(Command::Read { one_chunk: header.flags & command_flags::DF != 0 }),
        CommandKind::Write => Some(Command::Write { force_unit_access }),
        CommandKind::Trim | CommandKind::WriteZeroes => Some(Command::Zero { force_unit_access }),
        CommandKind::Flush => Some(Command::Flush),
        CommandKind::Cache => Some(Command::Nothing),
        CommandKind::Disconnect => Some(Command::Disconnect),
        CommandKind::Other(_) => None,
    }
}

/// Flags a command may carry. FUA is legal, if pointless, everywhere; NO_HOLE and FAST_ZERO ask
/// for what a log-structured volume does anyway.
fn allowed_flags(command: CommandKind, structured: bool) -> u16 {
    match command {
        CommandKind::Read if structured => command_flags::FUA | command_flags::DF,
        CommandKind::WriteZeroes => command_flags::FUA | command_flags::NO_HOLE | command_flags::FAST_ZERO,
        CommandKind::Disconnect | CommandKind::Other(_) => u16::MAX,
        _ => command_flags::FUA,
    }
}

/// A byte range that is not empty and ends before 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub from: u64,
    /// End of the range: one past its last byte.
    pub to: u64,
}

impl ByteRange {
    /// The range of a request that [`admit`] let through. That of a flush means nothing and may be
    /// any.
    #[must_use]
    pub fn of(header: &RequestHeader) -> ByteRange {
        ByteRange { from: header.offset, to: header.offset.saturating_add(header.length.into()) }
    }

    /// First block touched.
    #[must_use]
    pub fn first_block(self) -> Lba {
        Lba(self.from / BLOCK_BYTES_U64)
    }

    /// Blocks touched, wholly or in part.
    #[must_use]
    pub fn blocks(self) -> u64 {
        self.to.div_ceil(BLOCK_BYTES_U64) - self.from / BLOCK_BYTES_U64
    }

    /// Offset in its first block at which the range begins.
    #[must_use]
    pub fn first_byte_in_block(self) -> usize {
        usize::try_from(self.from % BLOCK_BYTES_U64).expect("a remainder of 4,096")
    }

    /// Bytes of the range before the block `index` places after its first one.
    #[must_use]
    pub fn bytes_before(self, index: u64) -> u64 {
        (index * BLOCK_BYTES_U64).saturating_sub(self.from % BLOCK_BYTES_U64)
    }

    /// The part of the range that lies in the block `index` places after its first one, as
    /// offsets within that block.
    #[must_use]
    pub fn within_block(self, index: u64) -> (usize, usize) {
        let block_from = (self.first_block().0 + index) * BLOCK_BYTES_U64;
        let clip = |at: u64| usize::try_from(at.saturating_sub(block_from).min(BLOCK_BYTES_U64));
        (clip(self.from).expect("at most 4,096"), clip(self.to).expect("at most 4,096"))
    }
}

/// A piece of a write or trim that the volume can be asked for in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Whole blocks.
    Whole {
        /// First block.
        lba: Lba,
        /// Count of blocks.
        blocks: u64,
    },
    /// Bytes `from..to` of one block; the others must stay as they are.
    Merge {
        /// The block.
        lba: Lba,
        /// First byte within it.
        from: usize,
        /// End within the block: one past the last byte.
        to: usize,
    },
}

impl Cut {
    /// The first piece of `range`, at most `blocks_max` blocks long.
    #[must_use]
    pub fn first(range: ByteRange, blocks_max: u64) -> Cut {
        assert!(range.from < range.to);
        assert!(blocks_max > 0);
        let lba = range.first_block();
        let (from, to) = range.within_block(0);
        if to - from < BLOCK_BYTES {
            return Cut::Merge { lba, from, to };
        }
        Cut::Whole { lba, blocks: ((range.to - range.from) / BLOCK_BYTES_U64).min(blocks_max) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Cut::Whole { blocks, .. } => blocks * BLOCK_BYTES_U64,
            Cut::Merge { from, to, .. } => u64::try_from(to - from).expect("at most 4,096"),
        }
    }

    /// Offset in its first block at which the piece begins.
    #[must_use]
    pub fn first_byte_in_block(self) -> usize {
        match self {
            Cut::Whole { .. } => 0,
            Cut::Merge { from, .. } => from,
        }
    }

    /// Blocks touched.
    #[must_use]
    pub fn blocks(self) -> u64 {
        match self {
            Cut::Whole { blocks, .. } => blocks,
            Cut::Merge { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(command: CommandKind, offset: u64, length: u32) -> RequestHeader {
        RequestHeader { command, flags: 0, cookie: 1, offset, length }
    }

    fn error_of(result: Result<Command, Refusal>) -> Option<ErrorCode> {
        match result {
            Err(Refusal::Reply { error, .. }) => Some(error),
            Ok(_) | Err(Refusal::HangUp) => None,
        }
    }

    #[test]
    fn ranges_beyond_the_end_get_the_error_of_the_protocol() {
        let size = 1 << 20;
        let beyond = |command| error_of(admit(&request(command, size - 1, 2), size, true));
        assert_eq!(beyond(CommandKind::Read), Some(ErrorCode::Invalid));
        assert_eq!(beyond(CommandKind::Trim), Some(ErrorCode::Invalid));
        assert_eq!(beyond(CommandKind::Write), Some(ErrorCode::NoSpace));
        assert_eq!(beyond(CommandKind::WriteZeroes), Some(ErrorCode::NoSpace));
        let wraps = request(CommandKind::Read, u64::MAX, 2);
        assert_eq!(error_of(admit(&wraps, u64::MAX, true)), Some(ErrorCode::Invalid));
    }

    #[test]
    fn long_and_odd_requests_are_refused() {
        let size = 1 << 40;
        let long = PAYLOAD_BYTES_MAX + 1;
        assert_eq!(
            error_of(admit(&request(CommandKind::Read, 0, long), size, true)),
            Some(ErrorCode::Invalid)
        );
        assert_eq!(admit(&request(CommandKind::Write, 0, long), size, true), Err(Refusal::HangUp));
        assert_eq!(
            error_of(admit(&request(CommandKind::Other(7), 0, 1), size, true)),
            Some(ErrorCode::Invalid)
        );
        let with_df = RequestHeader { flags: command_flags::DF, ..request(CommandKind::Read, 0, 1) };
        assert_eq!(admit(&with_df, size, true), Ok(Command::Read { one_chunk: true }));
        assert_eq!(error_of(admit(&with_df, size, false)), Some(ErrorCode::Invalid));
        assert_eq!(admit(&request(CommandKind::Write, 0, 0), size, true), Ok(Command::Nothing));
        for (kind, payload_bytes) in
            [(CommandKind::Write, 512), (CommandKind::Trim, 0), (CommandKind::WriteZeroes, 0)]
        {
            let (header, text) = (request(kind, 0, 512), "the volume is served read-only");
            let command = admit(&header, size, true).unwrap();
            let refusal = Refusal::Reply { error: ErrorCode::NotPermitted, text, payload_bytes };
            assert_eq!(command.unless_read_only(&header, true), Err(refusal));
            assert_eq!(command.unless_read_only(&header, false), Ok(command));
        }
        let (read, one_chunk) = (request(CommandKind::Read, 0, 512), false);
        assert_eq!(
            Command::Read { one_chunk }.unless_read_only(&read, true),
            Ok(Command::Read { one_chunk })
        );
        assert_eq!(Command::Flush.unless_read_only(&read, true), Ok(Command::Flush));
        assert_eq!(
            admit(&request(CommandKind::Trim, 0, u32::MAX), size, true),
            Ok(Command::Zero { force_unit_access: false })
        );
    }

    proptest! {
        #[test]
        fn admission_takes_anything(
            command in any::<u16>(), flags in any::<u16>(), offset in any::<u64>(), length in any::<u32>(),
            size in any::<u64>(), structured in any::<bool>(),
        ) {
            let header = RequestHeader {
                command: CommandKind::from_number(command), flags, cookie: 0, offset, length,
            };
            if let Ok(Command::Read { .. } | Command::Write { .. } | Command::Zero { .. }) =
                admit(&header, size, structured)
            {
                let range = ByteRange::of(&header);
                prop_assert!(range.from < range.to);
                prop_assert!(range.to <= size);
            }
        }

        #[test]
        fn cuts_tile_the_range(from in 0_u64..20_000, bytes in 1_u64..60_000, blocks_max in 1_u64..5) {
            let mut rest = ByteRange { from, to: from + bytes };
            while rest.from < rest.to {
                let cut = Cut::first(rest, blocks_max);
                let (lba, blocks) = match cut {
                    Cut::Whole { lba, blocks } => (lba, blocks),
                    Cut::Merge { lba, .. } => (lba, 1),
                };
                prop_assert_eq!(lba, rest.first_block());
                prop_assert!(blocks <= blocks_max);
                prop_assert!(cut.bytes() > 0);
                if let Cut::Merge { from, to, .. } = cut {
                    prop_assert!(to - from < BLOCK_BYTES);
                    prop_assert!(to <= BLOCK_BYTES);
                }
                rest.from += cut.bytes();
            }
            prop_assert_eq!(rest.from, rest.to);
        }

        #[test]
        fn the_blocks_of_a_range_hold_its_bytes(from in 0_u64..20_000, bytes in 1_u64..60_000) {
            let range = ByteRange { from, to: from + bytes };
            let total: usize = (0..range.blocks()).map(|index| {
                let (from, to) = range.within_block(index);
                to - from
            }).sum();
            prop_assert_eq!(u64::try_from(total).unwrap(), bytes);
        }
    }
}
