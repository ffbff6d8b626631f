//! Requests of a guest, from the head of a chain to its place on the used ring.

use super::super::client::Pause;
use super::super::desk::{Answer, Desk, OperationKind, Party};
use super::super::held::{Held, Progress};
use super::{Guest, GuestFault, REQUESTS_MAX, REQUESTS_PER_TURN_MAX};
use crate::nbd::transmission::{ByteRange, Cut};
use crate::slab::Key;
use crate::vhost::block::{self, Command, Order, Status};
use crate::vhost::chain::{ChainFault, Segments};
use crate::vhost::memory::Mapped;
use base::frame::Frame;
use base::units::BLOCK_BYTES_U64;
use vm_memory::{Bytes, GuestAddress};

/// Faults of requests that are named in the log, per front end.
const FAULTS_NAMED_MAX: u32 = 10;

/// Runs kept for the data of other requests.
const SPARE_MAX: usize = 256;

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Pending {
    queue: usize,
    head: u16,
    status: GuestAddress,
    data: Segments,
    is_read: bool,
    has_failed: bool,
}

impl Guest {
    /// Takes what the queues have, as far as frames go. With `is_stopping` only what is held goes on.
    pub(in crate::core_loop) fn serve(
        &mut self,
        key: Key,
        desk: &mut Desk<'_>,
        is_stopping: bool,
    ) -> Result<(), GuestFault> {
        self.pause = None;
        self.go_on(key, desk)?;
        for queue in 0..self.lines.len() {
            if self.pause.is_some() || is_stopping || self.is_leaving {
                return Ok(());
            }
            if self.lines[queue].is_hot {
                self.serve_queue(key, desk, queue)?;
            }
        }
        Ok(())
    }

    fn serve_queue(&mut self, key: Key, desk: &mut Desk<'_>, queue: usize) -> Result<(), GuestFault> {
        if !self.session.vrings[queue].rings.is_served() {
            self.lines[queue].is_hot = false;
            return Ok(());
        }
        for taken in 0..REQUESTS_PER_TURN_MAX {
            if self.requests.len() >= REQUESTS_MAX {
                self.pause = Some(Pause::Answers);
                return Ok(());
            }
            let Some(head) = self.take(queue)? else { return self.settle(queue, taken > 0) };
            self.begin(key, desk, queue, head)?;
            if self.pause.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, queue: usize) -> Result<Option<u16>, GuestFault> {
        assert!(self.held.is_none(), "queue {queue} gives a request while {:?} is held", self.held);
        let session = &mut self.session;
        let Some(memory) = &session.memory else { return Ok(None) };
        let head = session.vrings[queue].rings.take(memory, session.inflight.as_ref())?;
        self.lines[queue].in_flight += usize::from(head.is_some());
        Ok(head)
    }

    /// The queue is empty: it is looked at once more without a kick if it was not before.
    fn settle(&mut self, queue: usize, has_given: bool) -> Result<(), GuestFault> {
        let session = &mut self.session;
        let Some(memory) = &session.memory else { return Ok(()) };
        let rings = &mut session.vrings[queue].rings;
        self.lines[queue].is_hot = if has_given {
            rings.ask_for_silence(memory)?;
            true
        } else {
            rings.ask_for_kick(memory)?
        };
        Ok(())
    }

    fn begin(&mut self, key: Key, desk: &mut Desk<'_>, queue: usize, head: u16) -> Result<(), GuestFault> {
        let Some(memory) = &self.session.memory else { return Ok(()) };
        let table = self.session.vrings[queue].rings.table();
        let order = match self.chain.read(&memory.mapped, table, head) {
            Ok(()) => {
                let spare = self.spare.pop().unwrap_or_default();
                block::parse(&mut self.chain, &memory.mapped, self.session.disk(), spare)
            }
            Err(fault) => {
                let status = self.chain.status_of_fault().ok_or(GuestFault::Chain { queue, fault })?;
                self.name_fault(queue, fault);
                Some(Order { status, data: Segments::default(), command: Err(Status::IoError) })
            }
        };
        let Order { status, data, command } = order.ok_or(GuestFault::NoStatus(queue))?;
        let is_read = matches!(command, Ok(Command::Read(_) | Command::Identify));
        let pending = Pending { queue, head, status, data, is_read, has_failed: false };
        let request = self.requests.insert(pending);
        self.carry_out(key, desk, request, command)
    }

    fn carry_out(
        &mut self,
        key: Key,
        desk: &mut Desk<'_>,
        request: Key,
        command: Result<Command, Status>,
    ) -> Result<(), GuestFault> {
        let party = Party::Guest(key);
        let cookie = u64::from(request.index());
        let forced = !self.session.flushes();
        match command {
            Err(status) => self.finish(request, status),
            Ok(Command::Read(range) | Command::Write(range)) if range.from == range.to => {
                self.finish(request, Status::Ok)
            }
            Ok(Command::Read(range)) => {
                let operation = desk.open(party, cookie, OperationKind::Read, range);
                self.held = Some(Held::read(request, operation, range));
                self.go_on(key, desk)
            }
            Ok(Command::Write(range)) => {
                let operation = desk.open_write(party, cookie, range, forced);
                self.held = Some(Held::write(request, operation, range));
                self.go_on(key, desk)
            }
            Ok(Command::Zero(ranges)) => {
                let Some((last, others)) = ranges.split_last() else {
                    return self.finish(request, Status::Ok);
                };
                let operation = desk.open(party, cookie, OperationKind::Change, *last);
                others.iter().for_each(|range| desk.zero(operation, *range, forced, false));
                desk.zero(operation, *last, forced, true);
                Ok(())
            }
            Ok(Command::Flush) => {
                let nothing = ByteRange { from: 0, to: 0 };
                let operation = desk.open(party, cookie, OperationKind::Flush, nothing);
                desk.flush(operation);
                Ok(())
            }
            Ok(Command::Identify) => self.identify(request),
        }
    }

    fn identify(&mut self, request: Key) -> Result<(), GuestFault> {
        let serial = self.session.disk().serial;
        let pending = self.requests.at(request).expect("it was just begun");
        let room = usize::try_from(pending.data.bytes()).unwrap_or(usize::MAX).min(serial.len());
        let memory = self.session.memory.as_ref();
        let is_written = memory.is_some_and(|memory| pending.data.write(&memory.mapped, 0, &serial[..room]));
        self.finish(request, if is_written { Status::Ok } else { Status::IoError })
    }

    /// Gives the volume what is held, part by part.
    fn go_on(&mut self, key: Key, desk: &mut Desk<'_>) -> Result<(), GuestFault> {
        let forced = !self.session.flushes();
        while let Some(held) = self.held {
            let blocks = held.blocks(desk);
            if !desk.may_take(Party::Guest(key), blocks) {
                self.pause = Some(Pause::Frames(blocks));
                return Ok(());
            }
            let data = &self.requests.at(held.request).expect("held requests are pending").data;
            let memory = self.session.memory.as_ref();
            let progress = held.go_on(desk, forced, |frames, cut, offset| {
                memory.is_some_and(|memory| {
                    fill(frames, cut, data, &memory.mapped, offset) && !memory.is_torn()
                })
            });
            self.held = None;
            match progress {
                Progress::More(held) => self.held = Some(held),
                Progress::NoData { has_ended: true } => self.finish(held.request, Status::IoError)?,
                Progress::Whole | Progress::NoData { has_ended: false } => {}
            }
        }
        Ok(())
    }

    /// What is held will not go on.
    pub(super) fn abandon_held(&mut self, desk: &mut Desk<'_>) {
        if let Some(held) = self.held.take()
            && desk.abandon(held.operation)
        {
            self.requests.remove(held.request);
        }
    }

    /// An answer of the volume.
    pub(in crate::core_loop) fn on_answer(
        &mut self,
        mut answer: Answer,
        desk: &mut Desk<'_>,
    ) -> Result<(), GuestFault> {
        let index = u32::try_from(answer.cookie).expect("an index we chose");
        let key = self.requests.key_at(index).expect("requests outlive their operations");
        let pending = self.requests.at(key).expect("the key is fresh");
        pending.has_failed |= answer.has_failed;
        if answer.kind == OperationKind::Read {
            if !self.is_leaving {
                let memory = self.session.memory.as_ref();
                pending.has_failed |=
                    !memory.is_some_and(|memory| pour(&answer, &pending.data, &memory.mapped));
            }
            desk.volume.frames().give_many(&mut answer.frames);
            desk.keep_vector(std::mem::take(&mut answer.frames));
        }
        if !answer.is_last {
            return Ok(());
        }
        let status = if pending.has_failed { Status::IoError } else { Status::Ok };
        if self.is_leaving {
            self.requests.remove(key);
            return Ok(());
        }
        self.finish(key, status)
    }

    /// Tells the guest how it went.
    fn finish(&mut self, request: Key, status: Status) -> Result<(), GuestFault> {
        let mut pending = self.requests.remove(request).expect("requests end once");
        let Pending { queue, head, .. } = pending;
        let session = &mut self.session;
        if let Some(memory) = &session.memory {
            // A guest that has taken the memory away will not look for the status either.
            let _is_there = memory.mapped.write_obj(status.number(), pending.status);
            let is_filled = pending.is_read && status == Status::Ok;
            let bytes =
                if is_filled { u32::try_from(pending.data.bytes()).unwrap_or(u32::MAX - 1) } else { 0 };
            session.vrings[queue].rings.put(memory, session.inflight.as_ref(), head, bytes + 1)?;
        }
        pending.data.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(pending.data);
        }
        let line = &mut self.lines[queue];
        assert!(line.in_flight > 0, "a request is answered once");
        line.in_flight -= 1;
        line.has_news = true;
        if self.pause == Some(Pause::Answers) {
            self.pause = None;
        }
        Ok(())
    }

    fn name_fault(&mut self, queue: usize, fault: ChainFault) {
        self.faults_named += 1;
        if self.faults_named <= FAULTS_NAMED_MAX {
            log::warn!("front end {}: a request of queue {queue} fails, for it has {fault}", self.number);
        }
    }
}

/// Copies a part of a write into its frames.
fn fill(frames: &mut [Frame], cut: Cut, data: &Segments, memory: &Mapped, mut offset: u64) -> bool {
    assert!(frames.len() as u64 == cut.blocks(), "{} frames for {cut:?}", frames.len());
    if let Cut::Merge { from, to, .. } = cut {
        return data.read(memory, offset, &mut frames[0].data[from..to]);
    }
    frames.iter_mut().all(|frame| {
        let is_there = data.read(memory, offset, &mut frame.data);
        offset += BLOCK_BYTES_U64;
        is_there
    })
}

/// Copies a part of a read out of its frames.
fn pour(answer: &Answer, data: &Segments, memory: &Mapped) -> bool {
    (answer.first_block..).zip(&answer.frames).all(|(index, frame)| {
        let (from, to) = answer.range.within_block(index);
        data.write(memory, answer.range.bytes_before(index), &frame.data[from..to])
    })
}
