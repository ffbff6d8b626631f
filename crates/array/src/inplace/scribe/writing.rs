//! What the scribe asks of members: blocks beside the data, and flushes, all of which its step under way waits for.

use super::super::pages::PAGE_BYTES;
use crate::inplace::core::Core;
use crate::inplace::places::Places;
use crate::inplace::{Effects, kind, members};
use base::bytes::put;
use base::frame::Frame;
use block::device::Op;
use block::md::superblock::Superblock;

impl Core {
    /// Writes a block to members, durable.
    pub(in crate::inplace) fn broadcast(
        &mut self,
        roles: Places,
        sector: impl Fn(&Superblock) -> Option<u64>,
        content: impl Fn(&Superblock) -> [u8; PAGE_BYTES],
        fx: &mut Effects,
    ) {
        for role in roles.iter() {
            let superblock =
                self.scribe.roster.superblocks[role].as_ref().expect("a member that is there has one");
            let sector = sector(superblock).expect("an array whose areas were judged");
            let mut frame = Frame::zeroed();
            put(&mut frame.data, 0, &content(superblock));
            self.scribe.pending += 1;
            let op = Op::Write { sector, frames: vec![frame], durable: true };
            fx.command(self.members.seat(members::role(role)), kind::SCRIBE, 0, op);
        }
    }

    pub(in crate::inplace) fn flush_members(&mut self, fx: &mut Effects) {
        self.members.newcomers_mut().for_each(|(_, newcomer)| newcomer.begin_flush());
        for role in self.members.volatile().iter() {
            self.scribe.pending += 1;
            fx.command(self.members.seat(members::role(role)), kind::SCRIBE, 0, Op::Flush);
        }
    }
}
