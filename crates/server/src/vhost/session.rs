//! What a front end has said so far, and what follows from it.
//!
//! ```text
//! features -> memory -> per queue: size, addresses, base, call -> kick, which starts it -> enable -> ... -> get base, which stops it
//! ```
//!
//! A queue that is stopped is answered for only when nothing of it is in flight any more: the answer says that nobody
//! touches its memory from then on. Until the loop says so with [`Session::stopped`], nothing more is read.

use super::QUEUES_MAX;
use super::block::{Disk, feature};
use super::inflight::{self, Inflight, InflightError};
use super::memory::{GuestMemory, MemoryError};
use super::message::{ConfigRange, Request, VringDescriptor, VringState};
use super::ring_pair::{QueueFault, RingPair};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use thiserror::Error;

/// Bits of features of the protocol.
pub mod protocol_feature {
    /// Several queues.
    pub const MQ: u64 = 1;
    /// Every request may ask whether it worked.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// The configuration is read through the protocol.
    pub const CONFIG: u64 = 1 << 9;
    /// Regions of requests in flight.
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    /// All of the above.
    pub const ALL: u64 = MQ | REPLY_ACK | CONFIG | INFLIGHT_SHMFD;
}

/// Fault of a front end; its connection ends.
#[derive(Debug, Error)]
pub enum SessionFault {
    /// Features that were not offered.
    #[error("it wants features {0:#x}, which were not offered")]
    Features(u64),
    /// A queue that there is not.
    #[error("it speaks of queue {0}; there are {QUEUES_MAX}")]
    Queue(u32),
    /// More or fewer descriptors than belong to a message.
    #[error("a message came with {there} descriptors, where {expected} belong to it")]
    Descriptors {
        /// Count that came.
        there: usize,
        /// Count that belongs to it.
        expected: usize,
    },
    /// A kick or call that is something else.
    #[error("the kick or call of a queue is {0}, and no eventfd")]
    NoEventfd(String),
    /// A queue without kicks.
    #[error("queue {0} has no eventfd for kicks: polling is not offered")]
    NoKick(u32),
    /// A queue is started, and there is no memory.
    #[error("a queue is started before the memory is known")]
    NoMemory,
    /// An index of more than 16 bits.
    #[error("a queue shall begin at {0}, which is no index of a ring")]
    Base(u32),
    /// The configuration shall change.
    #[error("it wants to change the disk's configuration, which is not offered")]
    ReadOnlyConfig,
    /// Faulty memory table.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Faulty queue.
    #[error(transparent)]
    Ring(#[from] QueueFault),
    /// Faulty inflight region.
    #[error(transparent)]
    Inflight(#[from] InflightError),
}

/// What follows from a request.
#[derive(Debug)]
pub enum Reaction {
    /// Nothing for the loop to do.
    Nothing,
    /// An answer, perhaps with a descriptor.
    Answer(Vec<u8>, Option<OwnedFd>),
    /// The kick of this queue is another one.
    Kick(usize),
    /// This queue may have requests.
    Look(usize),
    /// The guest is to be called: whoever served before may have died before it did so.
    Call(usize),
    /// Requests of this queue shall end, and then the answer is this index.
    Stopping(usize, u16),
}

/// A queue and its eventfds.
#[derive(Debug)]
pub struct Vring {
    /// The rings.
    pub rings: RingPair,
    /// Eventfd by which the guest tells us.
    pub kick: Option<Rc<OwnedFd>>,
    /// Eventfd by which the guest is told.
    pub call: Option<Rc<OwnedFd>>,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    disk: Disk,
    features: u64,
    /// The guest's memory, once it is known.
    pub memory: Option<GuestMemory>,
    /// Marks of what is in flight, if the front end keeps them.
    pub inflight: Option<Inflight>,
    /// The queues.
    pub vrings: Vec<Vring>,
}

impl Session {
    /// A front end that has said nothing yet.
    #[must_use]
    pub fn new(disk: Disk) -> Session {
        let vring = |index| Vring { rings: RingPair::new(index), kick: None, call: None };
        let vrings = (0..QUEUES_MAX).map(vring).collect();
        Session { disk, features: 0, memory: None, inflight: None, vrings }
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// True when the guest flushes; for one that does not, every write is durable when it is answered.
    #[must_use]
    pub fn flushes(&self) -> bool {
        self.features & feature::FLUSH != 0
    }

    /// Takes a request with its descriptors.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn on_request(
        &mut self,
        request: Request,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Reaction, SessionFault> {
        if descriptors.len() != request.descriptors() {
            let (there, expected) = (descriptors.len(), request.descriptors());
            return Err(SessionFault::Descriptors { there, expected });
        }
        match request {
            Request::GetFeatures => Ok(number(self.disk.features())),
            Request::GetProtocolFeatures => Ok(number(protocol_feature::ALL)),
            Request::GetQueueCount => Ok(number(u64::try_from(QUEUES_MAX).expect("few"))),
            Request::SetFeatures(features) => {
                self.features = offered(features, self.disk.features())?;
                Ok(Reaction::Nothing)
            }
            Request::SetProtocolFeatures(features) => {
                offered(features, protocol_feature::ALL).map(|_| Reaction::Nothing)
            }
            Request::SetOwner | Request::ResetOwner | Request::SetVringError(_) => Ok(Reaction::Nothing),
            Request::SetMemoryTable(regions) => self.set_memory(GuestMemory::map(regions, descriptors)?),
            Request::GetConfig(range) => Ok(self.config(range)),
            Request::SetConfig(_) => Err(SessionFault::ReadOnlyConfig),
            Request::GetInflight(place) => {
                let (place, descriptor) = inflight::make_region(place)?;
                Ok(Reaction::Answer(place.to_bytes(), Some(descriptor)))
            }
            Request::SetInflight(place) => {
                assert!(descriptors.len() == 1, "a region came with {} descriptors", descriptors.len());
                let descriptor = descriptors.pop().expect("its count is right");
                self.inflight = Some(Inflight::adopt(place, descriptor)?);
                Ok(Reaction::Nothing)
            }
            Request::SetVringKick(vring) => self.set_kick(vring, descriptors.pop()),
            Request::SetVringCall(vring) => self.set_call(vring, descriptors.pop()),
            of_queue => self.on_queue_request(&of_queue),
        }
    }

    fn on_queue_request(&mut self, request: &Request) -> Result<Reaction, SessionFault> {
        match *request {
            Request::SetVringSize(VringState { index, number }) => {
                self.vring(index)?.1.rings.set_size(number)?;
                Ok(Reaction::Nothing)
            }
            Request::SetVringAddress(address) => {
                self.vring(address.index)?.1.rings.set_address(address);
                Ok(Reaction::Nothing)
            }
            Request::SetVringBase(VringState { index, number }) => {
                let base = u16::try_from(number).map_err(|_| SessionFault::Base(number))?;
                self.vring(index)?.1.rings.set_base(base);
                Ok(Reaction::Nothing)
            }
            Request::SetVringEnable(VringState { index, number }) => {
                let (index, vring) = self.vring(index)?;
                vring.rings.enable(number != 0);
                Ok(Reaction::Look(index))
            }
            Request::GetVringBase(index) => {
                let (index, vring) = self.vring(index)?;
                vring.kick = None;
                let base = vring.rings.stop();
                assert!(!vring.rings.is_running(), "queue {index} was stopped");
                Ok(Reaction::Stopping(index, base))
            }
            ref other => unreachable!("{other:?} is of no queue"),
        }
    }

    fn vring(&mut self, number: u32) -> Result<(usize, &mut Vring), SessionFault> {
        let index = usize::try_from(number).map_err(|_| SessionFault::Queue(number))?;
        let vring = self.vrings.get_mut(index).ok_or(SessionFault::Queue(number))?;
        Ok((index, vring))
    }

    fn set_memory(&mut self, memory: GuestMemory) -> Result<Reaction, SessionFault> {
        for vring in self.vrings.iter_mut().filter(|vring| vring.rings.is_running()) {
            vring.rings.place(&memory)?;
        }
        self.memory = Some(memory);
        Ok(Reaction::Nothing)
    }

    fn set_kick(
        &mut self,
        VringDescriptor { index, .. }: VringDescriptor,
        descriptor: Option<OwnedFd>,
    ) -> Result<Reaction, SessionFault> {
        let kick = expect_eventfd(descriptor.ok_or(SessionFault::NoKick(index))?)?;
        let has_event_idx = self.features & feature::EVENT_IDX != 0;
        let is_enabled_by_start = self.features & feature::PROTOCOL_FEATURES == 0;
        let Session { memory, inflight, vrings, .. } = self;
        let place = usize::try_from(index).ok().filter(|place| *place < vrings.len());
        let place = place.ok_or(SessionFault::Queue(index))?;
        let vring = &mut vrings[place];
        vring.kick = Some(Rc::new(kick));
        if !vring.rings.is_running() {
            let memory = memory.as_ref().ok_or(SessionFault::NoMemory)?;
            vring.rings.start(memory, inflight.as_ref(), has_event_idx)?;
            if is_enabled_by_start {
                vring.rings.enable(true);
            }
        }
        assert!(vring.rings.is_running(), "queue {place} was started, or ran");
        Ok(Reaction::Kick(place))
    }

    fn set_call(
        &mut self,
        VringDescriptor { index, .. }: VringDescriptor,
        descriptor: Option<OwnedFd>,
    ) -> Result<Reaction, SessionFault> {
        let call = descriptor.map(expect_eventfd).transpose()?;
        let (index, vring) = self.vring(index)?;
        vring.call = call.map(Rc::new);
        Ok(Reaction::Call(index))
    }

    fn config(&self, ConfigRange { offset, bytes, flags }: ConfigRange) -> Reaction {
        let config = self.disk.config(u16::try_from(QUEUES_MAX).expect("few"));
        let range = offset..offset + bytes;
        let at = |at: u32| usize::try_from(at).ok().and_then(|at| config.get(at)).copied().unwrap_or(0);
        let head = [offset, bytes, flags].map(u32::to_ne_bytes);
        Reaction::Answer(head.as_flattened().iter().copied().chain(range.map(at)).collect(), None)
    }

    /// The answer for a queue whose last request has ended.
    #[must_use]
    pub fn stopped(index: usize, base: u16) -> Vec<u8> {
        assert!(index < QUEUES_MAX, "queue {index} of {QUEUES_MAX} was stopped");
        let index = u32::try_from(index).expect("few queues");
        [index, base.into()].map(u32::to_ne_bytes).as_flattened().to_vec()
    }
}

fn number(number: u64) -> Reaction {
    Reaction::Answer(number.to_ne_bytes().to_vec(), None)
}

fn offered(features: u64, all: u64) -> Result<u64, SessionFault> {
    match features & !all {
        0 => Ok(features),
        unknown => Err(SessionFault::Features(unknown)),
    }
}

/// Anything else could be polled or written with effects of its own. Where the system does not say what it is, it is
/// believed.
fn expect_eventfd(descriptor: OwnedFd) -> Result<OwnedFd, SessionFault> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    match std::fs::read_link(path) {
        Ok(target) if target.as_os_str() != "anon_inode:[eventfd]" => {
            Err(SessionFault::NoEventfd(target.display().to_string()))
        }
        Ok(_) | Err(_) => Ok(descriptor),
    }
}
