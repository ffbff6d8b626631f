//! What a server that dies leaves to the next one: requests that were taken and not answered ("Vhost-user Protocol",
//! section Inflight I/O Tracking, split virtqueues).
//!
//! ```text
//! region   queue 0 | queue 1 | ...                              each a multiple of 64 bytes
//! queue    | features: u64 | version: u16 | entries: u16 | last head: u16 | used index: u16 | entry 0 | entry 1 | ...
//! entry    | in flight: u8 | 5 bytes | next: u16 | counter: u64 |       one for each descriptor that can be a head
//! ```
//!
//! A request is marked before it is begun. When it is done its head is noted (last head), the used ring tells the guest,
//! and then the mark goes. Who finds the used ring further than `used index` knows that the death came in between, and
//! takes the mark of the last head away. All other marks are requests to do again, in the order of their counters.
//!
//! The memory is shared with the front end and as hostile as a guest's: [`Inflight::adopt`] takes only what cannot be cut
//! short, and all that is read is checked.

use super::memory::{MemoryError, map_file};
use super::message::InflightPlace;
use super::{QUEUE_SIZE_MAX, QUEUES_MAX};
use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use thiserror::Error;
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

const HEAD_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 16;
const ALIGNMENT: u64 = 64;
const VERSION: u16 = 1;

const AT_VERSION: u64 = 8;
const AT_ENTRIES: u64 = 10;
const AT_LAST_HEAD: u64 = 12;
const AT_USED_INDEX: u64 = 14;
const AT_NEXT: u64 = 6;
const AT_COUNTER: u64 = 8;

const _: () = assert!(AT_USED_INDEX + size_of::<u16>() as u64 == HEAD_BYTES);
const _: () = assert!(AT_NEXT + size_of::<u16>() as u64 == AT_COUNTER);
const _: () = assert!(AT_COUNTER + size_of::<u64>() as u64 == ENTRY_BYTES);

/// Fault of an inflight region.
#[derive(Debug, Error)]
pub enum InflightError {
    /// More queues, or longer ones, than there can be.
    #[error(
        "an inflight region for {queues} queues of {size}: 1 to {QUEUES_MAX} of 1 to {QUEUE_SIZE_MAX} are possible"
    )]
    Shape {
        /// Queues.
        queues: u16,
        /// Size of each.
        size: u16,
    },
    /// Shorter than its queues.
    #[error("an inflight region of {bytes} bytes, where {needed} are needed")]
    Short {
        /// Length that is said, or that the file has.
        bytes: u64,
        /// Length that the queues need.
        needed: u64,
    },
    /// Memory that may go away while it is used.
    #[error(
        "an inflight region that is not sealed against being cut short: hand back the one that was asked for"
    )]
    NotSealed,
    /// Contents that no server leaves.
    #[error("the inflight region contradicts queue {0}")]
    Contents(usize),
    /// The region of other queues.
    #[error("queue {0} is not in the inflight region")]
    Queue(usize),
    /// The system refuses.
    #[error("the inflight region: {0}")]
    Io(#[from] rustix::io::Errno),
    /// It cannot be mapped.
    #[error(transparent)]
    Mapping(#[from] MemoryError),
    /// It cannot be read or written.
    #[error("the inflight region: {0}")]
    Memory(#[from] GuestMemoryError),
}

/// See the module.
#[derive(Debug)]
pub struct Inflight {
    memory: GuestMemoryMmap<()>,
    queue_size: u16,
    queues_count: u16,
    queue_bytes: u64,
}

fn bytes_of_queue(queue_size: u16) -> u64 {
    (HEAD_BYTES + u64::from(queue_size) * ENTRY_BYTES).next_multiple_of(ALIGNMENT)
}

fn bytes_needed(place: InflightPlace) -> Result<u64, InflightError> {
    let is_possible = (1..=QUEUES_MAX).contains(&usize::from(place.queues_count))
        && (1..=QUEUE_SIZE_MAX).contains(&place.queue_size);
    if !is_possible {
        return Err(InflightError::Shape { queues: place.queues_count, size: place.queue_size });
    }
    Ok(u64::from(place.queues_count) * bytes_of_queue(place.queue_size))
}

/// Makes the memory of a new region; the front end keeps it, and gives it back to whoever serves.
///
/// # Errors
/// When its shape is impossible, or there is no memory.
pub fn make_region(place: InflightPlace) -> Result<(InflightPlace, OwnedFd), InflightError> {
    let bytes = bytes_needed(place)?;
    assert!(bytes > 0 && bytes.is_multiple_of(ALIGNMENT), "a region of {bytes} bytes");
    let descriptor =
        rustix::fs::memfd_create("zoneweave-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&descriptor, bytes)?;
    rustix::fs::fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok((InflightPlace { bytes, file_offset: 0, ..place }, descriptor))
}

impl Inflight {
    /// Takes a region that [`make_region`] made, here or in a server before.
    ///
    /// # Errors
    /// When it is too short for its queues, may become so, or cannot be mapped.
    pub fn adopt(place: InflightPlace, descriptor: OwnedFd) -> Result<Inflight, InflightError> {
        let needed = bytes_needed(place)?;
        let seals = rustix::fs::fcntl_get_seals(&descriptor).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(InflightError::NotSealed);
        }
        let file_bytes = u64::try_from(rustix::fs::fstat(&descriptor)?.st_size).unwrap_or(0);
        let there = file_bytes.saturating_sub(place.file_offset).min(place.bytes);
        if there < needed {
            return Err(InflightError::Short { bytes: there, needed });
        }
        let region = map_file(File::from(descriptor), place.file_offset, needed, 0);
        let region = region.ok_or(InflightError::Short { bytes: there, needed })??;
        let memory = GuestMemoryMmap::from_regions(vec![region])
            .map_err(|error| MemoryError::Mapping(error.to_string()))?;
        Ok(Inflight {
            memory,
            queue_size: place.queue_size,
            queues_count: place.queues_count,
            queue_bytes: bytes_of_queue(place.queue_size),
        })
    }

    /// The part of a queue.
    ///
    /// # Errors
    /// When the region is too small for it.
    pub fn queue(&self, index: usize, size: u16) -> Result<QueuePart<'_>, InflightError> {
        if index >= usize::from(self.queues_count) || size > self.queue_size {
            return Err(InflightError::Queue(index));
        }
        let number = u64::try_from(index).expect("few queues");
        let end = HEAD_BYTES + u64::from(size) * ENTRY_BYTES;
        assert!(end <= self.queue_bytes, "queue {index} of {size} takes {end} bytes of {}", self.queue_bytes);
        Ok(QueuePart { inflight: self, index, start: number * self.queue_bytes, size })
    }
}

/// The part of a region that belongs to one queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuePart<'a> {
    inflight: &'a Inflight,
    index: usize,
    start: u64,
    size: u16,
}

impl QueuePart<'_> {
    /// What was left in flight: heads in the order in which they were taken, and the next counter. `used_index` is that of
    /// the queue's used ring. A fresh region is made ready.
    ///
    /// # Errors
    /// When no server can have left what is there.
    pub fn recover(self, used_index: u16) -> Result<(Vec<u16>, u64), InflightError> {
        let wrong = InflightError::Contents(self.index);
        if self.u16_at(AT_VERSION)? == 0 || self.is_of_another_size()? {
            self.put_u16(AT_ENTRIES, self.size)?;
            self.put_u16(AT_USED_INDEX, used_index)?;
            self.put_u16(AT_VERSION, VERSION)?;
        }
        if self.u16_at(AT_VERSION)? != VERSION || self.u16_at(AT_ENTRIES)? != self.size {
            return Err(wrong);
        }
        let answered = used_index.wrapping_sub(self.u16_at(AT_USED_INDEX)?);
        if answered > self.size {
            return Err(wrong);
        }
        let mut head = self.u16_at(AT_LAST_HEAD)?;
        for _ in 0..answered {
            if head >= self.size {
                return Err(wrong);
            }
            self.put_mark(head, 0)?;
            head = self.inflight.memory.load(self.entry(head, AT_NEXT), Ordering::Relaxed)?;
        }
        self.put_u16(AT_USED_INDEX, used_index)?;
        let mut marked = Vec::new();
        for head in 0..self.size {
            if self.inflight.memory.load::<u8>(self.entry(head, 0), Ordering::Relaxed)? == 1 {
                let counter: u64 =
                    self.inflight.memory.load(self.entry(head, AT_COUNTER), Ordering::Relaxed)?;
                marked.push((counter, head));
            }
        }
        assert!(marked.len() <= usize::from(self.size), "{} heads of {} are marked", marked.len(), self.size);
        marked.sort_unstable();
        let next = marked.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok((marked.into_iter().map(|(_, head)| head).collect(), next))
    }

    /// True when the queue had another size the last time, and nothing was left: another driver begins, such as that of a
    /// guest's kernel after its firmware's.
    fn is_of_another_size(self) -> Result<bool, InflightError> {
        let entries = self.u16_at(AT_ENTRIES)?;
        if entries == self.size || entries > self.inflight.queue_size {
            return Ok(false);
        }
        let before = QueuePart { size: entries.max(self.size), ..self };
        let most = self.inflight.queue_size;
        assert!(before.size <= most, "queue {} had {} entries of {most}", self.index, before.size);
        for head in 0..before.size {
            if self.inflight.memory.load::<u8>(before.entry(head, 0), Ordering::Relaxed)? != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A request is about to begin.
    ///
    /// # Errors
    /// When the region cannot be written.
    pub fn begin(self, head: u16, counter: u64) -> Result<(), InflightError> {
        self.inflight.memory.store(counter, self.entry(head, AT_COUNTER), Ordering::Release)?;
        self.put_mark(head, 1)
    }

    /// A request is done, and the guest is about to be told.
    ///
    /// # Errors
    /// When the region cannot be written.
    pub fn before_used(self, head: u16) -> Result<(), InflightError> {
        let last = self.u16_at(AT_LAST_HEAD)?;
        self.inflight.memory.store(last, self.entry(head, AT_NEXT), Ordering::Release)?;
        self.put_u16(AT_LAST_HEAD, head)
    }

    /// The guest was told; `used_index` is that of the queue's used ring now.
    ///
    /// # Errors
    /// When the region cannot be written.
    pub fn after_used(self, head: u16, used_index: u16) -> Result<(), InflightError> {
        self.put_mark(head, 0)?;
        self.put_u16(AT_USED_INDEX, used_index)
    }

    fn entry(self, head: u16, at: u64) -> GuestAddress {
        assert!(head < self.size, "head {head} of queue {} of {}", self.index, self.size);
        GuestAddress(self.start + HEAD_BYTES + u64::from(head) * ENTRY_BYTES + at)
    }

    fn put_mark(self, head: u16, mark: u8) -> Result<(), InflightError> {
        Ok(self.inflight.memory.store(mark, self.entry(head, 0), Ordering::Release)?)
    }

    fn u16_at(self, at: u64) -> Result<u16, InflightError> {
        Ok(self.inflight.memory.load(GuestAddress(self.start + at), Ordering::Acquire)?)
    }

    fn put_u16(self, at: u64, number: u16) -> Result<(), InflightError> {
        Ok(self.inflight.memory.store(number, GuestAddress(self.start + at), Ordering::Release)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u16 = 8;

    fn region() -> Inflight {
        let asked = InflightPlace { bytes: 0, file_offset: 0, queues_count: 2, queue_size: SIZE };
        let (place, descriptor) = make_region(asked).unwrap();
        assert_eq!(place.bytes, 2 * 192);
        Inflight::adopt(place, descriptor).unwrap()
    }

    #[test]
    fn what_was_not_answered_is_done_again_in_its_order() {
        let region = region();
        let part = region.queue(1, SIZE).unwrap();
        assert_eq!(part.recover(100).unwrap(), (vec![], 0));
        for (counter, head) in [(0, 5), (1, 2), (2, 7)] {
            part.begin(head, counter).unwrap();
        }
        part.before_used(2).unwrap();
        part.after_used(2, 101).unwrap();
        assert_eq!(part.recover(101).unwrap(), (vec![5, 7], 3));
        assert_eq!(region.queue(0, SIZE).unwrap().recover(0).unwrap(), (vec![], 0), "queues are apart");
    }

    #[test]
    fn death_between_answer_and_mark_repeats_nothing() {
        let region = region();
        let part = region.queue(0, SIZE).unwrap();
        part.recover(u16::MAX).unwrap();
        part.begin(3, 0).unwrap();
        part.begin(4, 1).unwrap();
        // Noted, and the guest has not seen it: it is done again.
        part.before_used(3).unwrap();
        assert_eq!(part.recover(u16::MAX).unwrap(), (vec![3, 4], 2));
        // The guest has seen it: the used ring has gone on, over the end of its numbers.
        part.before_used(3).unwrap();
        assert_eq!(part.recover(0).unwrap(), (vec![4], 2));
        assert_eq!(part.recover(0).unwrap(), (vec![4], 2), "and again");
    }

    #[test]
    fn contents_that_nobody_leaves_are_refused() {
        let region = region();
        let part = region.queue(0, SIZE).unwrap();
        part.recover(0).unwrap();
        assert!(matches!(part.recover(SIZE + 1), Err(InflightError::Contents(0))));
        part.put_u16(AT_LAST_HEAD, SIZE).unwrap();
        assert!(matches!(part.recover(1), Err(InflightError::Contents(0))));
        part.put_mark(6, 1).unwrap();
        let smaller = region.queue(0, 4).unwrap();
        assert!(matches!(smaller.recover(0), Err(InflightError::Contents(0))), "requests of a larger queue");
        part.put_mark(6, 0).unwrap();
        assert_eq!(smaller.recover(9).unwrap(), (vec![], 0), "nothing is left of it");
        assert!(matches!(region.queue(2, SIZE), Err(InflightError::Queue(2))));
        assert!(matches!(region.queue(0, SIZE * 2), Err(InflightError::Queue(0))));
    }
}
