//! A front end of vhost-user-blk: what QEMU does for a guest, and the guest's driver, as far as tests and measurements
//! need them. It does as it is told, also what no front end should.
//!
//! ```text
//! memory  | queue 0: descriptors, available, used | ... | slots: header, status, data |        one memfd
//! slot s  of a queue has the descriptors 3s, 3s+1, 3s+2: header, data, status
//! ```

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

pub const EVENT_IDX: u64 = 1 << 29;
pub const PROTOCOL_FEATURES: u64 = 1 << 30;
/// VERSION_1, INDIRECT_DESC, EVENT_IDX, FLUSH, MQ, DISCARD, WRITE_ZEROES, BLK_SIZE, TOPOLOGY, SEG_MAX, protocol.
pub const FEATURES: u64 = 1 << 32
    | 1 << 28
    | EVENT_IDX
    | PROTOCOL_FEATURES
    | 1 << 14
    | 1 << 13
    | 1 << 12
    | 1 << 10
    | 1 << 9
    | 1 << 6
    | 1 << 2;
pub const PROTOCOL: u64 = 1 << 12 | 1 << 9 | 1 << 3 | 1;

pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

pub const NEXT: u16 = 1;
pub const WRITABLE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// The guest's memory begins here, and the front end has it elsewhere: nobody mixes the two up unnoticed.
pub const GUEST_BASE: u64 = 0x4000_0000;
pub const USER_BASE: u64 = 0x7f00_0000_0000;
pub const MEMORY_BYTES: u64 = 96 << 20;
pub const QUEUE_BYTES: u64 = 0x1_0000;
pub const QUEUE_SIZE: u16 = 256;
const AVAILABLE_AT: u64 = 0x4000;
const USED_AT: u64 = 0x8000;
/// Slots begin behind the queues.
const SLOTS_AT: u64 = 16 * QUEUE_BYTES;
/// Header and status lie in front of the data.
pub const SLOT_BYTES: u64 = 4096 + (64 << 10);
const DATA_AT: u64 = 4096;
pub const SLOTS: u16 = 64;

/// Memory of a guest, which outlives connections.
pub struct GuestRam {
    pub file: File,
    pub mapped: GuestMemoryMmap<()>,
}

impl GuestRam {
    pub fn new() -> GuestRam {
        let file = File::from(rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(MEMORY_BYTES).unwrap();
        let length = usize::try_from(MEMORY_BYTES).unwrap();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let range = (GuestAddress(GUEST_BASE), length, Some(offset));
        GuestRam { mapped: GuestMemoryMmap::from_ranges_with_files([range]).unwrap(), file }
    }

    pub fn put<T: vm_memory::ByteValued>(&self, at: u64, value: T) {
        self.mapped.write_obj(value, GuestAddress(at)).unwrap();
    }

    pub fn put_bytes(&self, at: u64, bytes: &[u8]) {
        self.mapped.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub fn bytes(&self, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.mapped.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }
}

/// The driver's side of a queue; it outlives connections like the memory.
pub struct Driver {
    pub index: u64,
    next_available: u16,
    next_used: u16,
    last_kicked: u16,
    pub kick: OwnedFd,
    pub call: OwnedFd,
}

/// Header, data and status of a slot.
pub fn slot_at(queue: u64, slot: u16) -> u64 {
    GUEST_BASE + SLOTS_AT + (queue * u64::from(SLOTS) + u64::from(slot)) * SLOT_BYTES
}

pub fn data_at(queue: u64, slot: u16) -> u64 {
    slot_at(queue, slot) + DATA_AT
}

pub fn status_at(queue: u64, slot: u16) -> u64 {
    slot_at(queue, slot) + 16
}

impl Driver {
    pub fn new(ram: &GuestRam, index: u64) -> Driver {
        let base = GUEST_BASE + index * QUEUE_BYTES;
        ram.put_bytes(base, &vec![0; usize::try_from(QUEUE_BYTES).unwrap()]);
        let event = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        Driver { index, next_available: 0, next_used: 0, last_kicked: 0, kick: event(), call: event() }
    }

    fn base(&self) -> u64 {
        GUEST_BASE + self.index * QUEUE_BYTES
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a descriptor")]
    pub fn descriptor(&self, ram: &GuestRam, at: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let place = self.base() + u64::from(at) * 16;
        ram.put(place, address);
        ram.put(place + 8, bytes);
        ram.put(place + 12, flags);
        ram.put(place + 14, next);
    }

    /// Offers the chain that begins with `head`, and does not kick.
    pub fn offer(&mut self, ram: &GuestRam, head: u16) {
        let place = self.base() + AVAILABLE_AT + 4 + u64::from(self.next_available % QUEUE_SIZE) * 2;
        ram.put(place, head);
        self.next_available = self.next_available.wrapping_add(1);
        self.publish(ram, self.next_available);
    }

    /// Says that requests up to this index are offered.
    pub fn publish(&self, ram: &GuestRam, index: u16) {
        ram.mapped.store(index, GuestAddress(self.base() + AVAILABLE_AT + 2), Ordering::Release).unwrap();
    }

    /// Offers a request in a slot; `bytes` of data lie there, or shall.
    pub fn submit(&mut self, ram: &GuestRam, slot: u16, kind: u32, sector: u64, bytes: u32) {
        let (queue, first) = (self.index, slot * 3);
        let header = slot_at(queue, slot);
        ram.put(header, kind);
        ram.put(header + 4, 0_u32);
        ram.put(header + 8, sector);
        ram.put(status_at(queue, slot), 0xff_u8);
        let is_filled = kind == IN || kind == GET_ID;
        let data_flags = NEXT | if is_filled { WRITABLE } else { 0 };
        let after = if bytes == 0 { first + 2 } else { first + 1 };
        self.descriptor(ram, first, header, 16, NEXT, after);
        self.descriptor(ram, first + 1, data_at(queue, slot), bytes, data_flags, first + 2);
        self.descriptor(ram, first + 2, status_at(queue, slot), 1, WRITABLE, 0);
        self.offer(ram, first);
    }

    /// Kicks if the other side wants that. True when it did.
    pub fn kick(&mut self, ram: &GuestRam, has_event_idx: bool) -> bool {
        fence(Ordering::SeqCst);
        let (new, old) = (self.next_available, self.last_kicked);
        self.last_kicked = new;
        let wanted = if has_event_idx {
            let event_at = self.base() + USED_AT + 4 + 8 * u64::from(QUEUE_SIZE);
            let event: u16 = ram.mapped.load(GuestAddress(event_at), Ordering::Relaxed).unwrap();
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            ram.mapped.load::<u16>(GuestAddress(self.base() + USED_AT), Ordering::Relaxed).unwrap() & 1 == 0
        };
        if wanted {
            self.force_kick();
        }
        wanted
    }

    pub fn force_kick(&self) {
        rustix::io::write(&self.kick, &1_u64.to_ne_bytes()).unwrap();
    }

    /// Takes what is done: head and count of bytes written.
    pub fn take_used(&mut self, ram: &GuestRam) -> Option<(u16, u32)> {
        let used = self.base() + USED_AT;
        let index: u16 = ram.mapped.load(GuestAddress(used + 2), Ordering::Acquire).unwrap();
        if index == self.next_used {
            return None;
        }
        let entry = used + 4 + u64::from(self.next_used % QUEUE_SIZE) * 8;
        self.next_used = self.next_used.wrapping_add(1);
        let head: u32 = ram.mapped.read_obj(GuestAddress(entry)).unwrap();
        let bytes: u32 = ram.mapped.read_obj(GuestAddress(entry + 4)).unwrap();
        Some((u16::try_from(head).unwrap(), bytes))
    }

    /// Asks to be called for the next answer. True when there is one already.
    pub fn ask_for_call(&self, ram: &GuestRam) -> bool {
        let event_at = self.base() + AVAILABLE_AT + 4 + 2 * u64::from(QUEUE_SIZE);
        ram.mapped.store(self.next_used, GuestAddress(event_at), Ordering::Relaxed).unwrap();
        fence(Ordering::SeqCst);
        let used = GuestAddress(self.base() + USED_AT + 2);
        ram.mapped.load::<u16>(used, Ordering::Acquire).unwrap() != self.next_used
    }

    /// Sleeps until the next call, at most for `limit`.
    pub fn sleep(&self, limit: Duration) {
        let limit = Timespec::try_from(limit).unwrap();
        let mut fds = [PollFd::new(&self.call, PollFlags::IN)];
        poll(&mut fds, Some(&limit)).unwrap();
        let _may_be_empty = rustix::io::read(&self.call, &mut [0; 8]);
    }

    /// Waits for the next answer; none when it takes longer than `limit`.
    pub fn wait(&mut self, ram: &GuestRam, limit: Duration) -> Option<(u16, u32)> {
        let begin = std::time::Instant::now();
        loop {
            if let Some(done) = self.take_used(ram) {
                return Some(done);
            }
            if begin.elapsed() > limit {
                return None;
            }
            if !self.ask_for_call(ram) {
                self.sleep(limit.min(Duration::from_secs(1)));
            }
        }
    }
}

/// A connection.
pub struct FrontEnd {
    pub socket: UnixStream,
    pub features: u64,
}

impl FrontEnd {
    pub fn connect(path: &Path) -> std::io::Result<FrontEnd> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(FrontEnd { socket, features: FEATURES })
    }

    /// Sends a request, and waits for nothing.
    pub fn say(&self, request: u32, flags: u32, payload: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let bytes = u32::try_from(payload.len()).unwrap();
        let message = [[request, flags | 1, bytes].map(u32::to_ne_bytes).as_flattened(), payload].concat();
        self.say_bytes(&message, descriptors)
    }

    /// Sends any bytes. False when the other side has hung up.
    pub fn say_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let sent =
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
        sent == Ok(bytes.len())
    }

    /// Sends a request and waits for its acknowledgement: zero is good; none when the other side hung up.
    pub fn tell(&self, request: u32, payload: &[u8], descriptors: &[BorrowedFd<'_>]) -> Option<u64> {
        if !self.say(request, 8, payload, descriptors) {
            return None;
        }
        let (answer, _) = self.answer()?;
        Some(u64::from_ne_bytes(answer.try_into().unwrap()))
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&self, request: u32, payload: &[u8]) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        if !self.say(request, 0, payload, &[]) {
            return None;
        }
        self.answer()
    }

    /// The next answer, however many pieces it comes in; none when the other side hung up or says nothing.
    pub fn answer(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let (head, mut descriptor) = self.receive(12)?;
        let bytes = usize::try_from(u32::from_ne_bytes(head[8..12].try_into().unwrap())).unwrap();
        let (payload, late) = self.receive(bytes)?;
        descriptor = descriptor.or(late);
        Some((payload, descriptor))
    }

    fn receive(&self, count: usize) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let (mut bytes, mut have, mut descriptor) = (vec![0; count], 0, None);
        while have < count {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut buffers = [IoSliceMut::new(&mut bytes[have..])];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(&self.socket, &mut buffers, &mut control, flags).ok()?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                    descriptor = descriptors.next();
                }
            }
            if received.bytes == 0 {
                return None;
            }
            have += received.bytes;
        }
        Some((bytes, descriptor))
    }

    /// Agrees on features, of those that it wants and that are offered, and shares the memory.
    pub fn begin(&mut self, ram: &GuestRam) {
        self.features &= self.number(1);
        assert!(self.features & PROTOCOL_FEATURES != 0);
        let protocol = self.number(15) & PROTOCOL;
        assert!(self.say(16, 0, &protocol.to_ne_bytes(), &[]));
        assert_eq!(self.tell(3, &[], &[]), Some(0));
        assert_eq!(self.tell(2, &self.features.to_ne_bytes(), &[]), Some(0));
        let table = memory_table(&[(GUEST_BASE, MEMORY_BYTES, USER_BASE, 0)]);
        assert_eq!(self.tell(5, &table, &[ram.file.as_fd()]), Some(0));
    }

    pub fn number(&self, request: u32) -> u64 {
        let (answer, _) = self.ask(request, &[]).expect("an answer");
        u64::from_ne_bytes(answer.try_into().unwrap())
    }

    /// Hands a queue over. The server goes on where the queue is, or where the inflight region says.
    pub fn start(&self, driver: &Driver) {
        assert_eq!(self.try_start(driver), Some(0));
    }

    pub fn try_start(&self, driver: &Driver) -> Option<u64> {
        let index = u32::try_from(driver.index).unwrap();
        let state = |number: u32| [index, number].map(u32::to_ne_bytes).as_flattened().to_vec();
        self.tell(8, &state(QUEUE_SIZE.into()), &[])?;
        self.tell(10, &state(driver.next_used.into()), &[])?;
        let user = USER_BASE + driver.index * QUEUE_BYTES;
        let mut address = [index, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
        for part in [user, user + USED_AT, user + AVAILABLE_AT, 0] {
            address.extend(part.to_ne_bytes());
        }
        self.tell(9, &address, &[])?;
        let number = driver.index.to_ne_bytes();
        self.tell(13, &number, &[driver.call.as_fd()])?;
        self.tell(12, &number, &[driver.kick.as_fd()])?;
        self.tell(18, &state(1), &[])
    }

    /// Asks for an inflight region: its place as a payload, and its memory.
    pub fn get_inflight(&self, queues: u16) -> (Vec<u8>, OwnedFd) {
        let mut place = vec![0; 16];
        place.extend(queues.to_ne_bytes());
        place.extend(QUEUE_SIZE.to_ne_bytes());
        let (place, descriptor) = self.ask(31, &place).expect("an inflight region");
        (place, descriptor.expect("its memory"))
    }

    pub fn set_inflight(&self, (place, descriptor): &(Vec<u8>, OwnedFd)) {
        assert_eq!(self.tell(32, place, &[descriptor.as_fd()]), Some(0));
    }

    /// Stops a queue; returns the index of what would be next.
    pub fn stop(&self, queue: u32) -> Option<u32> {
        let (answer, _) = self.ask(11, [queue, 0].map(u32::to_ne_bytes).as_flattened())?;
        Some(u32::from_ne_bytes(answer[4..8].try_into().unwrap()))
    }

    pub fn config(&self) -> Vec<u8> {
        let head = [0_u32, 60, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
        let (answer, _) = self.ask(24, &[head, vec![0; 60]].concat()).expect("the configuration");
        answer[12..].to_vec()
    }
}

/// A table of regions: guest's address, length, front end's address, place in the file.
pub fn memory_table(regions: &[(u64, u64, u64, u64)]) -> Vec<u8> {
    let count = u32::try_from(regions.len()).unwrap();
    let mut table = [count, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
    for (guest, bytes, user, offset) in regions {
        for number in [guest, bytes, user, offset] {
            table.extend(number.to_ne_bytes());
        }
    }
    table
}
