//! An emulated zoned drive: the rules of [`zone::rules`] over the heap or a sparse file.
//!
//! # In a file
//! ```text
//!   | header | zone table | zone 0: block, block, ... | zone 1: ...      capacity, not size
//!     page     8 B / zone             | 4096 data | 64 OOB |              4160-byte stride
//! ```
//! A write first brings data and metadata into the file, then moves the write pointer with one
//! 8-byte store, then completes. A process killed at any instant therefore leaves every completed
//! command in effect, and of an incomplete one either all or nothing: what lies at or beyond the
//! write pointer reads as zeros, whatever the file holds there. A reset moves the write pointer
//! first and gives the space back second.
//!
//! Killing the process and losing power are different things. On a disk the file is a drive with a
//! volatile cache: what a flush has covered survives a power failure, and of the rest the kernel
//! may have kept a write pointer without its blocks, which then read as zeros or as stale data.
//! The owner's checksums must notice, as for any block. On a tmpfs such as /dev/shm the same file
//! is a drive in memory that outlives its server: a power failure takes all of it, so a flush has
//! nothing to do and the cache is not called volatile. Which of the two it is, the file system
//! says when the drive is opened.
//!
//! # In time
//! Commands are queued by `submit` and executed by the next `poll`, in the order of submission
//! unless [`AppendOrder`] says otherwise. Input and output block the caller for as long as the page
//! cache takes. What takes longer, flushing to a disk and giving back the space of a reset zone,
//! happens on a thread of its own; commands for a zone that is being reset wait for it.
//!
//! Bad at: timing. It is as fast as it can be, not as fast as a drive.

mod entry;
mod error;
mod faults;
mod file;
mod file_setup;
mod header;
mod heap;
mod helper;
mod media;
mod order;
mod table_map;

pub use entry::EntryError;
pub use error::{DriveError, DriveProblem, GeometryError, ZONES_MIN, check_geometry};
pub use file_setup::{CreateOptions, Description, ZoneCounts, create, describe};
pub use heap::HeapMedia;
pub use order::AppendOrder;

use crate::answer::{Asked, block_count, frames_of};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use faults::Faults;
use file_setup::{OpenedFile, unpack_zones};
use helper::{Helper, Job, JobKind};
use media::Media;
use order::Order;
use rustix::fd::BorrowedFd;
use std::path::Path;
use zone::device::{Command, Completion, Geometry, Op, Status, ZoneState, ZonedDevice};
use zone::rules::{Zone, ZoneTable};

/// Most blocks whose space is given back within `poll`: 20 us. Larger zones go to the helper.
const DISCARD_BLOCKS_MAX: u32 = 32;

/// A zoned drive made of memory or of a file.
#[derive(Debug)]
pub struct EmulatedDrive {
    geometry: Geometry,
    uuid: [u8; 16],
    table: ZoneTable,
    media: Media,
    /// Submitted and not executed. The caller bounds its queue depth.
    queue: Vec<Command>,
    order: Order,
    /// Present when there is a file to wait for.
    helper: Option<Helper>,
    /// Zones whose reset is with the helper.
    discarding: Vec<ZoneIndex>,
    /// Commands for those zones, in their order.
    held: Vec<Command>,
    faults: Option<Box<Faults>>,
}

impl EmulatedDrive {
    /// A new drive in this process's memory.
    ///
    /// # Errors
    /// When the geometry is impossible.
    pub fn on_heap(geometry: Geometry, uuid: [u8; 16]) -> Result<EmulatedDrive, DriveError> {
        check_geometry(&geometry).map_err(|error| DriveError::new(heap_path(), error.into()))?;
        EmulatedDrive::from_heap(HeapMedia::new(geometry, uuid))
    }

    /// The drive of media taken by [`EmulatedDrive::heap_snapshot`]. Open zones are closed, as
    /// after any reset of a drive.
    ///
    /// # Errors
    /// None that a snapshot can cause.
    pub fn from_heap(heap: HeapMedia) -> Result<EmulatedDrive, DriveError> {
        let zones = unpack_zones(&heap.header.geometry, heap.table.iter().copied())
            .map_err(|problem| DriveError::new(heap_path(), problem))?;
        let header::Header { geometry, uuid } = heap.header;
        Ok(EmulatedDrive::new(geometry, uuid, zones, Media::Heap(heap)))
    }

    /// Creates the file of a drive and opens it. It refuses to overwrite a file.
    ///
    /// # Errors
    /// What is wrong with the options or what the system refused.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<EmulatedDrive, DriveError> {
        create(path, options)?;
        EmulatedDrive::open(path)
    }

    /// Opens the file of a drive for this process alone, as its last owner left it: even a killed
    /// one. Open zones are closed, as after any reset of a drive.
    ///
    /// # Errors
    /// What is wrong with the file and what to do about it.
    pub fn open(path: &Path) -> Result<EmulatedDrive, DriveError> {
        let in_file = |problem| DriveError::new(path, problem);
        let OpenedFile { media, header, zones } = file_setup::open(path).map_err(in_file)?;
        // A process killed between a reset and its hole left the space taken.
        let empty = (0..).zip(&zones).filter(|(_, zone)| zone.state == ZoneState::Empty);
        empty.for_each(|(zone, _)| media.discard(ZoneIndex(zone)));
        let helper = Helper::start(&media).map_err(DriveProblem::io("start the helper thread"));
        let helper = Some(helper.map_err(in_file)?);
        let drive = EmulatedDrive::new(header.geometry, header.uuid, zones, Media::File(media));
        Ok(EmulatedDrive { helper, ..drive })
    }

    /// Changes the order in which appends in flight are executed, from the next poll on.
    pub fn set_append_order(&mut self, order: AppendOrder) {
        self.order = Order::new(order);
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The media as it is now, which is what a crash at this instant would leave; `None` for a
    /// drive in a file.
    #[must_use]
    pub fn heap_snapshot(&self) -> Option<HeapMedia> {
        match &self.media {
            Media::Heap(heap) => Some(heap.clone()),
            Media::File(_) => None,
        }
    }

    /// An eventfd that is readable while the completion of a flush or a reset waits to be polled;
    /// `None` for drives on the heap. All other commands complete in the poll after their
    /// submission, so an owner polls before it sleeps on this.
    #[must_use]
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.helper.as_ref().map(Helper::wake_fd)
    }

    fn new(geometry: Geometry, uuid: [u8; 16], zones: Vec<Zone>, media: Media) -> EmulatedDrive {
        EmulatedDrive {
            geometry,
            uuid,
            table: ZoneTable::from_zones(geometry, zones),
            media,
            queue: Vec::new(),
            order: Order::Submission,
            helper: None,
            discarding: Vec::new(),
            held: Vec::new(),
            faults: None,
        }
    }

    fn execute(&mut self, command: Command, completions: &mut Vec<Completion>) {
        let Command { token, zone, op } = command;
        let asked = Asked::of(token, zone, &op);
        if self.is_dead() {
            completions.push(asked.done(Err(Status::DeviceGone), frames_of(op)));
            return;
        }
        completions.push(match op {
            Op::Append { frames } => asked.appended(self.append(zone, &frames), frames),
            Op::Write { offset, frames } => asked.done(self.write(zone, offset, &frames), frames),
            Op::Read { offset, mut frames } => asked.done(self.read(zone, offset, &mut frames), frames),
            Op::Reset => return self.reset(asked, completions),
            Op::Finish => asked.plain(self.transition(zone, ZoneTable::finish)),
            Op::Open => asked.plain(self.transition(zone, ZoneTable::open)),
            Op::Close => asked.plain(self.transition(zone, ZoneTable::close)),
            Op::Report { count } => asked.report(self.table.report(zone, count)),
            Op::Flush => return self.flush(asked, completions),
        });
    }

    fn append(&mut self, zone: ZoneIndex, frames: &[Frame]) -> Result<u32, Status> {
        let before = self.zone_before(zone)?;
        let offset = self.table.append(zone, block_count(frames))?;
        self.commit(zone, before, frames)?;
        Ok(offset)
    }

    fn write(&mut self, zone: ZoneIndex, offset: u32, frames: &[Frame]) -> Result<(), Status> {
        let before = self.zone_before(zone)?;
        self.table.write(zone, offset, block_count(frames))?;
        self.commit(zone, before, frames)
    }

    fn zone_before(&self, zone: ZoneIndex) -> Result<Zone, Status> {
        if zone.0 < self.geometry.zones { Ok(self.table.zone(zone)) } else { Err(Status::LbaOutOfRange) }
    }

    /// Brings the blocks of a write that the rules allow to the media, and after them the write
    /// pointer, which the rules have moved already.
    fn commit(&mut self, zone: ZoneIndex, before: Zone, frames: &[Frame]) -> Result<(), Status> {
        let injected = self.faults.as_mut().map_or(Ok(()), |faults| faults.take_write(zone));
        let written = injected.and_then(|()| self.media.write(zone, before.write_pointer, frames));
        match written {
            Ok(()) => self.store(zone),
            Err(_) => self.undo(zone, before),
        }
        written
    }

    /// Puts a zone back to where it was before a write that failed. Another zone that was closed in
    /// its favour stays closed, which a drive may do at any time.
    #[cold]
    fn undo(&mut self, zone: ZoneIndex, before: Zone) {
        let mut zones: Vec<Zone> =
            (0..self.geometry.zones).map(|index| self.table.zone(ZoneIndex(index))).collect();
        zones[zone.index()] = before;
        self.table = ZoneTable::from_zones(self.geometry, zones);
    }

    fn read(&mut self, zone: ZoneIndex, offset: u32, frames: &mut [Frame]) -> Result<(), Status> {
        let blocks = block_count(frames);
        self.table.read(zone, offset, blocks)?;
        if let Some(faults) = &self.faults {
            faults.check_read(zone, offset, blocks)?;
        }
        let written = self.table.zone(zone).write_pointer.saturating_sub(offset).min(blocks);
        let (below, beyond) = frames.split_at_mut(written as usize);
        for frame in beyond {
            frame.data = [0; BLOCK_BYTES];
            frame.oob = [0; OOB_BYTES];
        }
        if below.is_empty() { Ok(()) } else { self.media.read(zone, offset, below) }
    }

    /// The state goes first: blocks without a write pointer are out of sight, a write pointer
    /// without blocks would be a lie.
    fn reset(&mut self, asked: Asked, completions: &mut Vec<Completion>) {
        let zone = asked.zone;
        let before = self.zone_before(zone);
        let outcome = self.transition(zone, ZoneTable::reset);
        if let (Ok(before), Ok(())) = (before, outcome) {
            if let Some(faults) = &mut self.faults {
                faults.zone_was_reset(zone);
            }
            if let (Some(helper), true) = (&mut self.helper, before.write_pointer > DISCARD_BLOCKS_MAX) {
                self.discarding.push(zone);
                return helper.ask(Job { asked, kind: JobKind::Discard });
            }
            self.media.discard(zone);
        }
        completions.push(asked.plain(outcome));
    }

    fn transition(
        &mut self,
        zone: ZoneIndex,
        rule: fn(&mut ZoneTable, ZoneIndex) -> Result<(), Status>,
    ) -> Result<(), Status> {
        rule(&mut self.table, zone)?;
        self.store(zone);
        Ok(())
    }

    fn flush(&mut self, asked: Asked, completions: &mut Vec<Completion>) {
        match &mut self.helper {
            Some(helper) if self.geometry.volatile_cache => helper.ask(Job { asked, kind: JobKind::Flush }),
            _ => completions.push(asked.plain(Ok(()))),
        }
    }

    fn collect_answers(&mut self, completions: &mut Vec<Completion>) {
        let dead = self.is_dead();
        let Some(helper) = &mut self.helper else { return };
        helper.collect(|job, status| {
            match job.kind {
                JobKind::Flush => {}
                JobKind::Discard => self.discarding.retain(|zone| *zone != job.asked.zone),
            }
            let status = if dead { Status::DeviceGone } else { status };
            completions.push(Completion { status, ..job.asked.plain(Ok(())) });
        });
    }

    /// A hole punched under a write would take the write with it.
    fn must_wait(&self, command: &Command) -> bool {
        !self.discarding.is_empty()
            && self.discarding.contains(&command.zone)
            && !matches!(command.op, Op::Flush | Op::Report { .. })
            && !self.is_dead()
    }

    fn store(&mut self, zone: ZoneIndex) {
        self.media.store(zone, self.table.zone(zone));
    }

    fn is_dead(&self) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.is_dead())
    }
}

impl ZonedDevice for EmulatedDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, _now: Instant, command: Command) {
        self.queue.push(command);
    }

    fn poll(&mut self, _now: Instant, completions: &mut Vec<Completion>) {
        let delivered = completions.len();
        self.collect_answers(completions);
        self.order.arrange(&mut self.queue);
        if !self.held.is_empty() {
            self.held.append(&mut self.queue);
            std::mem::swap(&mut self.held, &mut self.queue);
        }
        let mut queue = std::mem::take(&mut self.queue);
        for command in queue.drain(..) {
            if self.must_wait(&command) {
                self.held.push(command);
            } else {
                self.execute(command, completions);
            }
        }
        self.queue = queue;
        self.order.deliver(&mut completions[delivered..]);
    }
}

/// Stands for the file in the errors of drives that have none.
fn heap_path() -> &'static Path {
    Path::new("(memory)")
}

#[cfg(test)]
mod tests;
