//! Requests of clients: writes, trims, reads and flushes, and reading everything.
//!
//! The volume of the baseline has zones: a client of it writes where a zone goes on, and resets one that is full.

use crate::clients::What;
use crate::oracle::fill;
use crate::service::Service;
use crate::tally::Failure;
use array::request::RequestOp;
use base::units::{Lba, index_of};

impl Service {
    pub(crate) fn write(&mut self, lba: u64, blocks: u64, fua: bool) -> Result<(), Failure> {
        let (lba, blocks) = self.clamp_payload(lba, blocks);
        if !self.make_room(blocks)? {
            return Ok(());
        }
        let Some((lba, blocks)) = self.place_to_write(lba, blocks)? else { return Ok(()) };
        let arrival = self.clients.oracle.arrive();
        let mut frames = Vec::new();
        self.volume().clients_view().frames().take_many(index_of(blocks), &mut frames);
        assert!(frames.len() as u64 == blocks, "a frame for each block");
        for (lba, frame) in (lba..).zip(&mut frames) {
            fill(&mut frame.data, lba, arrival);
            self.clients.oracle.begin(lba, arrival, arrival);
        }
        self.clients.remark(lba, blocks, || format!("write {lba}+{blocks} of version {arrival} begins"));
        let op = RequestOp::Write { lba: Lba(lba), frames, force_unit_access: fua };
        self.ask(op, What::Write { lba, blocks, arrival, fua })
    }

    pub(crate) fn trim(&mut self, lba: u64, blocks: u64, fua: bool) -> Result<(), Failure> {
        let (lba, blocks) = self.clients.clamp(lba, blocks);
        let (lba, blocks) = self.range_to_trim(lba, blocks);
        if !self.make_room(0)? {
            return Ok(());
        }
        let arrival = self.clients.oracle.arrive();
        for lba in lba..lba + blocks {
            self.clients.oracle.begin(lba, arrival, 0);
        }
        self.clients.remark(lba, blocks, || format!("trim {lba}+{blocks}, version {arrival}, begins"));
        let op = RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: fua };
        self.ask(op, What::Write { lba, blocks, arrival, fua })
    }

    pub(crate) fn read(&mut self, lba: u64, blocks: u64) -> Result<(), Failure> {
        let (lba, blocks) = self.clamp_payload(lba, blocks);
        if !self.make_room(blocks)? {
            return Ok(());
        }
        let floors = (lba..lba + blocks).map(|lba| self.clients.oracle.floor(lba)).collect();
        self.ask_read(lba, blocks, What::Read { lba, floors })
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if !self.make_room(0)? {
            return Ok(());
        }
        let before = self.clients.oracle.next_arrival();
        self.ask(RequestOp::Flush, What::Flush { before })
    }

    /// Reads everything.
    pub(crate) fn verify(&mut self) -> Result<(), Failure> {
        let (blocks, at_once) = (self.clients.oracle.blocks(), self.blocks_at_once());
        let mut lba = 0;
        while lba < blocks && !self.is_dark() {
            self.read(lba, at_once.min(blocks - lba))?;
            lba += at_once;
        }
        self.drain()
    }

    /// Reads everything for the first time after a crash: what is read now is what there is.
    pub(crate) fn observe_all(&mut self) -> Result<(), Failure> {
        let (blocks, at_once) = (self.clients.oracle.blocks(), self.blocks_at_once());
        let mut lba = 0;
        while lba < blocks && !self.is_dark() {
            self.observe(lba, at_once.min(blocks - lba))?;
            lba += at_once;
        }
        self.drain()
    }

    /// Returns the place for a write that was meant for some block, and its length; none when the power failed, or when
    /// a volume is full whose resets fail. A client of zones writes where its zone goes on, resets a zone that is full,
    /// and goes to another one while too many are open.
    pub(crate) fn place_to_write(&mut self, lba: u64, blocks: u64) -> Result<Option<(u64, u64)>, Failure> {
        let Some(zone_blocks) = self.array.logical_zone_blocks() else { return Ok(Some((lba, blocks))) };
        let wanted = u32::try_from(lba / zone_blocks).expect("a small volume");
        if !self.is_dark() && u64::from(self.zone_pointer(wanted)) == zone_blocks {
            self.trim(lba, 1, false)?;
        }
        while !self.is_dark() {
            let Some(engine) = self.volume().zoned() else { return Ok(Some((lba, blocks))) };
            let zones = engine.logical_zones();
            assert!(wanted < zones, "logical zone {wanted} of {zones}");
            let mut possible = (0..zones).map(|more| (wanted + more) % zones);
            if let Some(zone) = possible.find(|zone| engine.accepts_writes(*zone)) {
                let pointer = u64::from(engine.write_pointer(zone));
                assert!(pointer < zone_blocks, "a zone that takes writes has room");
                let first = u64::from(zone) * zone_blocks + pointer;
                return Ok(Some((first, blocks.min(zone_blocks - pointer))));
            }
            // It refuses every reset from now on: when all is answered, no zone will have room.
            if engine.is_broken() && self.clients.waiting() == 0 {
                return Ok(None);
            }
            self.expect_progress()?;
        }
        Ok(None)
    }

    /// Returns the range that is trimmed when some blocks are to be: the baseline knows whole zones only.
    pub(crate) fn range_to_trim(&self, lba: u64, blocks: u64) -> (u64, u64) {
        match self.array.logical_zone_blocks() {
            None => (lba, blocks),
            Some(zone_blocks) => (lba / zone_blocks * zone_blocks, zone_blocks),
        }
    }

    /// The part of it whose payload clients may have in memory.
    fn clamp_payload(&self, lba: u64, blocks: u64) -> (u64, u64) {
        let (lba, blocks) = self.clients.clamp(lba, blocks);
        (lba, blocks.min(self.plan.client_frames as u64))
    }

    fn blocks_at_once(&self) -> u64 {
        61.min(self.plan.client_frames as u64 / 2)
    }

    fn zone_pointer(&mut self, zone: u32) -> u32 {
        self.volume().zoned().map_or(0, |engine| engine.write_pointer(zone))
    }
}
