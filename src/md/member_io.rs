//! Reads and writes of the members of a served array of md, by cause: blocks of 4 KiB, but for superblocks and bitmap pages, which are writes.

use array::inplace::Counters;
use serde::{Deserialize, Serialize};

/// See the module; all since the server started.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct MemberIoReport {
    /// Reads.
    pub read: ReadReport,
    /// Writes.
    pub written: WrittenReport,
    /// Blocks that a member could not return, and that were decoded and written to it anew.
    pub corrected: u64,
}

/// Blocks read from members.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct ReadReport {
    /// Data for clients, from the member that has them.
    pub data: u64,
    /// Old data that writes went over, where parities changed by differences.
    pub old_data: u64,
    /// Old parities of the same.
    pub old_parity: u64,
    /// Pieces of rows whose parities were computed anew.
    pub reconstruct: u64,
    /// Pieces that missing or unreadable blocks were decoded from, for clients.
    pub decode: u64,
    /// Pieces that resync, rebuild and scrub looked at.
    pub sweep: u64,
}

/// Blocks written to members.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct WrittenReport {
    /// Data of clients.
    pub data: u64,
    /// Their parities.
    pub parity: u64,
    /// Blocks of partial parity logs.
    pub ppl: u64,
    /// Blocks of the journal.
    pub journal: u64,
    /// Blocks that resync, rebuild and scrub wrote.
    pub sweep: u64,
    /// Blocks for devices that are to replace a member.
    pub replacement: u64,
    /// Writes of bitmap pages.
    pub bitmap_writes: u64,
    /// Writes of superblocks.
    pub superblock_writes: u64,
}

impl MemberIoReport {
    /// By the counters of an engine.
    pub fn of(counters: &Counters) -> MemberIoReport {
        // A round whose members changed meanwhile may plan its reads twice.
        let for_writes = counters.old_data + counters.old_parity + counters.others;
        let of_clients = counters.parity_written + counters.sweep_written;
        MemberIoReport {
            read: ReadReport {
                data: counters.read_direct,
                old_data: counters.old_data,
                old_parity: counters.old_parity,
                reconstruct: counters.others,
                decode: counters.read_for_writes.saturating_sub(for_writes),
                sweep: counters.swept,
            },
            written: WrittenReport {
                data: counters.member_written.saturating_sub(of_clients),
                parity: counters.parity_written,
                ppl: counters.logged,
                journal: counters.journaled,
                sweep: counters.sweep_written,
                replacement: counters.copied,
                bitmap_writes: counters.bitmap_pages,
                superblock_writes: counters.superblocks,
            },
            corrected: counters.corrected,
        }
    }
}
