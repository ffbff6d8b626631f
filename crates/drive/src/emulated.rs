//! An emulated zoned drive: the rules of [`zone::rules`] over the heap or a sparse file.
//!
//! # In a file
//! ```text
//!   | header | zone table | zone 0: block, block, ... | zone 1: ...      capacity, not size
//!     page     8 B / zone             | 4096 data | 64 OOB |              4160-byte stride
//! ```
//! Zones with a random write area keep what is not committed in windows (`windows.rs`).
//! A write first brings data and metadata into the file, then moves the write pointer with one
//! 8-byte store, then completes. A process killed at any instant therefore leaves every completed
//! command in effect, and of an incomplete one either all or nothing: what lies at or beyond the
//! write pointer reads as zeros, whatever the file holds there. A reset moves the write pointer. On
//! a disk it is answered when that is on the disk and the zone's space was given back to the file
//! system: so no table ever points to a hole, and the next write of a page need not read the old one
//! (`helper.rs`). What changes the zone meanwhile waits (`held.rs`).
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
//! unless [`AppendOrder`] says otherwise; transfers that continue each other on the media are moved
//! together (`run.rs`). The file of a disk is read and written by system calls, which block the
//! caller for as long as the page cache takes; flushing it takes longer and happens on a thread of
//! its own. A file in memory is mapped, with all of its space taken in advance, and a block is one
//! copy.
//!
//! ```text
//!   ns per one-block append     alone   in runs of 8     by pwritev, one by one
//!   tmpfs                         280            200                       2630
//!   ext4                         1360            780                       3720
//! ```
//! `cargo run --release -p zoneweave-drive --example drive_cost /dev/shm /tmp`, 2-CPU virtual
//! machine, Linux 6.18, best of 5 (worst: 15 % more). The last column is commit c4ce928, which also
//! gave space back on every reset and had to take it again.
//!
//! Nothing is allocated per command once the vectors have grown to the owner's queue depth, but for
//! reports.
//!
//! Bad at: timing. It is as fast as it can be, not as fast as a drive; [`TimedDrive`] is.

mod entry;
mod error;
mod faults;
mod file;
mod file_setup;
#[cfg(fuzzing)]
pub mod fuzzing;
mod header;
mod heap;
mod held;
mod helper;
mod map;
mod mapped;
mod media;
mod order;
mod peek;
mod queue;
mod run;
mod self_test;
mod sparse;
mod surgery;
mod timed;
pub mod timing;
mod watch;
mod windows;
mod zone_state;

pub use entry::EntryError;
pub use error::{DriveError, DriveProblem, GeometryError, ZONES_MIN, check_geometry};
pub use file_setup::{CreateOptions, Description, HostRoom, ZoneCounts, create, describe, host_room};
pub use heap::HeapMedia;
pub use order::AppendOrder;
pub use peek::{Peek, file_bytes};
pub use sparse::FullZones;
pub use timed::{Pace, TimedDrive};
pub use windows::AreaFate;

use crate::answer::{Asked, frames_of};
use base::time::Instant;
use base::units::ZoneIndex;
use faults::Faults;
use file_setup::{OpenedFile, unpack_zones};
use header::Header;
use held::Held;
use helper::{Answer, Helper, Task};
use media::Media;
use order::Order;
use queue::{Followers, Queue};
use run::Run;
use rustix::fd::BorrowedFd;
use sparse::SparseMedia;
use std::path::Path;
use watch::Watch;
use windows::Windows;
use zone::condition::{Condition, Loss};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};
use zone::rules::{Zone, ZoneTable};

/// A zoned drive made of memory or of a file.
#[derive(Debug)]
pub struct EmulatedDrive {
    geometry: Geometry,
    uuid: [u8; 16],
    table: ZoneTable,
    media: Media,
    /// Present when zones can have random write areas.
    windows: Option<Windows>,
    /// Submitted and not executed.
    queue: Queue,
    /// Empty, and kept for its memory, but while transfers are executed.
    run: Run,
    order: Order,
    /// Present when there is a disk to wait for.
    helper: Option<Helper>,
    held: Held,
    /// Present when there is a file.
    watch: Option<Box<Watch>>,
    loss: Option<Loss>,
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

    /// A drive in this process's memory that keeps as little as it can, with some zones full from the start: for arrays
    /// larger than memory.
    ///
    /// # Errors
    /// When the geometry is impossible.
    pub fn sparse(
        geometry: Geometry,
        uuid: [u8; 16],
        full: Box<dyn FullZones>,
    ) -> Result<EmulatedDrive, DriveError> {
        check_geometry(&geometry).map_err(|error| DriveError::new(heap_path(), error.into()))?;
        let media = SparseMedia::new(geometry.zones, full);
        let zones = (0..geometry.zones).map(|zone| match media.is_computed(ZoneIndex(zone)) {
            true => Zone::new(ZoneState::Full, geometry.zone_capacity_blocks),
            false => Zone::new(ZoneState::Empty, 0),
        });
        EmulatedDrive::new(Header { geometry, uuid }, zones.collect(), Media::Sparse(media))
            .map_err(|problem| DriveError::new(heap_path(), problem))
    }

    /// The drive of media taken by [`EmulatedDrive::heap_snapshot`]. Open zones are closed, as
    /// after any reset of a drive.
    ///
    /// # Errors
    /// None that a snapshot can cause.
    pub fn from_heap(heap: HeapMedia) -> Result<EmulatedDrive, DriveError> {
        let in_memory = |problem| DriveError::new(heap_path(), problem);
        let header = heap.header;
        let zones = unpack_zones(&header.geometry, heap.table.iter().copied()).map_err(in_memory)?;
        EmulatedDrive::new(header, zones, Media::Heap(heap)).map_err(in_memory)
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
        EmulatedDrive::open_if(path, None)
    }

    /// The same, if it is the drive of this identity. Another one is not written to.
    ///
    /// # Errors
    /// As [`EmulatedDrive::open`], and when it is another drive.
    pub fn open_if(path: &Path, wanted: Option<[u8; 16]>) -> Result<EmulatedDrive, DriveError> {
        let in_file = |problem| DriveError::new(path, problem);
        let OpenedFile { media, header, zones, watch } = file_setup::open(path, wanted).map_err(in_file)?;
        let helper = match &media {
            Media::Heap(_) | Media::Sparse(_) | Media::Mapped(_) => Ok(None),
            Media::File(file) => Helper::start(file).map(Some),
        };
        let helper = helper.map_err(DriveProblem::io("start the helper thread")).map_err(in_file)?;
        let drive = EmulatedDrive::new(header, zones, media).map_err(in_file)?;
        Ok(EmulatedDrive { helper, watch: Some(Box::new(watch)), ..drive })
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
            Media::Sparse(_) | Media::Mapped(_) | Media::File(_) => None,
        }
    }

    /// An eventfd that is readable while the completion of a flush or reset waits to be polled; `None` for
    /// drives in memory, which have nothing to wait for. All other commands complete in the poll after
    /// their submission, so an owner polls before it sleeps on this.
    #[must_use]
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.helper.as_ref().map(Helper::wake_fd)
    }

    /// From now on a write that finds its file system full is held until there is room, and so is what follows it in
    /// its zone. Somebody calls [`EmulatedDrive::try_again`] now and then.
    pub fn wait_for_room(&mut self) {
        self.held.waits_for_room = true;
    }

    /// The next poll tries again what was held for lack of room.
    pub fn try_again(&mut self) {
        self.held.try_again();
    }

    /// Commands that are held for lack of room.
    pub fn waiting_for_room(&self) -> impl Iterator<Item = Token> {
        self.held.waiting_for_room()
    }

    fn new(header: Header, mut zones: Vec<Zone>, mut media: Media) -> Result<EmulatedDrive, DriveProblem> {
        let Header { geometry, uuid } = header;
        let windows = match &geometry.areas {
            Some(areas) => Some(Windows::load(areas, &mut zones, &mut media)?),
            None => None,
        };
        Ok(EmulatedDrive {
            geometry,
            uuid,
            table: ZoneTable::from_zones(geometry, zones),
            media,
            windows,
            queue: Queue::new(geometry.zones),
            run: Run::default(),
            order: Order::Submission,
            helper: None,
            held: Held::default(),
            watch: None,
            loss: None,
            faults: None,
        })
    }

    /// Executes a command; a transfer takes those of its `followers` along that continue it.
    fn execute(&mut self, command: Command, followers: Followers, completions: &mut Vec<Completion>) {
        if self.held.stops(&command) {
            return self.held.push(command);
        }
        let Command { token, zone, op } = command;
        let asked = Asked::of(token, zone, &op);
        completions.push(match op {
            Op::Reset => match self.reset(asked) {
                Some(outcome) => asked.plain(outcome),
                None => return,
            },
            Op::Finish | Op::Commit { .. } => {
                let outcome =
                    if let Op::Commit { end } = op { self.commit(zone, end) } else { self.finish(zone) };
                if outcome.is_err() && self.held.waits_for_room && self.media.lacks_room() {
                    return self.held.push_for_room(Command { token, zone, op });
                }
                asked.plain(outcome)
            }
            Op::Open => asked.plain(self.transition(zone, ZoneTable::open)),
            Op::OpenWithArea => asked.plain(self.open_with_area(zone)),
            Op::Close => asked.plain(self.transition(zone, ZoneTable::close)),
            Op::Report { count } => asked.report(self.table.report(zone, count)),
            Op::FindTurned { count } => asked.found(self.table.find_turned(zone, count)),
            Op::Flush => match &mut self.helper {
                Some(helper) => return helper.ask(asked, Task::Flush),
                None => asked.plain(Ok(())),
            },
            Op::SelfTest { repair } => asked.plain(self.self_test(repair)),
            op @ (Op::Read { .. } | Op::Write { .. } | Op::Append { .. }) => {
                return self.transfer(Command { token, zone, op }, Some(followers), completions);
            }
        });
    }

    /// Empties a zone; `None` when the answer comes later, with the zone's space given back.
    fn reset(&mut self, asked: Asked) -> Option<Result<(), Status>> {
        let zone = asked.zone;
        let had_blocks = self.zone_before(zone).is_ok_and(|zone| zone.area.unwrap_or(zone.write_pointer) > 0);
        if let Err(status) = self.transition(zone, ZoneTable::reset) {
            return Some(Err(status));
        }
        if let Some(faults) = &mut self.faults {
            faults.zone_was_reset(zone);
        }
        let bytes = self.media.bytes_to_give_back(zone).filter(|_| had_blocks);
        let (Some(helper), Some(bytes)) = (&mut self.helper, bytes) else { return Some(Ok(())) };
        helper.ask(asked, Task::GiveBack(bytes));
        self.held.begin(zone);
        None
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

    fn collect_answers(&mut self, completions: &mut Vec<Completion>) {
        let dead = self.is_dead();
        let Some(helper) = &mut self.helper else { return };
        helper.collect(|Answer { asked, status, gave_back }| {
            if gave_back {
                self.held.end(asked.zone);
            }
            let outcome = match status {
                _ if dead => Err(Status::DeviceGone),
                Status::Success => Ok(()),
                fault => Err(fault),
            };
            completions.push(asked.plain(outcome));
        });
    }

    /// The file was cut short or its device failed under what is mapped of it: nothing of this poll counts.
    #[cold]
    fn on_torn(&mut self, completions: &mut [Completion]) {
        self.loss = self.look().or(Some(Loss::Unreadable));
        completions.iter_mut().for_each(|completion| completion.status = Status::DeviceGone);
    }

    fn is_dead(&self) -> bool {
        self.loss.is_some() || self.faults.as_ref().is_some_and(|faults| faults.is_dead())
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
        self.order.arrange(self.queue.commands_mut());
        let mut queue = std::mem::take(&mut self.queue);
        if let Some(due) = self.held.take_due() {
            queue.put_first(due);
        }
        if self.is_dead() {
            completions.extend(self.held.take_all().into_iter().map(gone));
            completions.extend(queue.commands_mut().iter_mut().filter_map(Option::take).map(gone));
        } else {
            queue.link();
            for place in 0..queue.len() {
                if let Some(command) = queue.take(place) {
                    self.execute(command, queue.followers(place), completions);
                }
            }
        }
        queue.clear();
        self.queue = queue;
        if self.media.is_torn() && self.loss.is_none() {
            self.on_torn(&mut completions[delivered..]);
        }
        self.order.deliver(&mut completions[delivered..]);
    }

    /// Asks for the file of a drive in memory; of one on a disk that could wait, so whoever may wait for it looks.
    fn condition(&mut self, _now: Instant) -> Condition {
        let loss = if self.helper.is_some() { self.loss } else { self.look() };
        Condition { loss, header_damaged: self.header_is_damaged(), ..Condition::default() }
    }
}

fn gone(Command { token, zone, op }: Command) -> Completion {
    Asked::of(token, zone, &op).done(Err(Status::DeviceGone), frames_of(op))
}

/// Stands for the file in the errors of drives that have none.
fn heap_path() -> &'static Path {
    Path::new("(memory)")
}

#[cfg(test)]
mod tests;
