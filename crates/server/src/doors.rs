//! Doors of a loop: where clients and questions come in, and the descriptors that wake it.
//!
//! Each door has one accept operation in the ring. After a failure, usually for lack of descriptors, it pauses.

use crate::core_loop::Service;
use crate::listen::{Listen, Listener};
use crate::ports::{GuestPort, Ports};
use crate::ring::{OperationId, Ring};
use crate::slab::Key;
use crate::vhost::block::BlockSize;
use base::time::{Instant, Nanos};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Pause after a failed accept.
const ACCEPT_RETRY: Nanos = Nanos(100_000_000);

/// Waiter of an operation of the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    Door(usize),
    GuestDoor(usize),
    ControlDoor,
    Wake(usize),
    Stop,
    Client(Key),
    Question(Key),
    /// Socket of a guest's front end.
    Guest(Key),
    /// Kick of a guest's queue; the number tells the eventfds that follow one another apart.
    Kick(Key, usize, u32),
    /// Call of a guest's queue.
    Call(Key, usize),
    /// Request of a disk of this host, by its tag.
    HostDisk(u16),
}

/// A listener and its accept operation.
#[derive(Debug)]
struct Door {
    listener: Listener,
    fd: Rc<OwnedFd>,
    accepting: Option<OperationId>,
    retry_due: Option<Instant>,
}

impl Door {
    fn new(mut listener: Listener) -> Door {
        let fd = Rc::new(listener.take_fd());
        Door { listener, fd, accepting: None, retry_due: None }
    }
}

/// A door for front ends of virtual machines.
#[derive(Debug)]
struct GuestDoor {
    door: Door,
    block_size: BlockSize,
}

impl GuestDoor {
    fn new(port: GuestPort) -> GuestDoor {
        GuestDoor { door: Door::new(port.listener), block_size: port.block_size }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Doors {
    /// Doors that were closed leave their places empty.
    clients: Vec<Option<Door>>,
    /// One front end at a time comes in here; others wait outside until it has left.
    guests: Vec<Option<GuestDoor>>,
    control: Option<Door>,
    wake_fds: Vec<Rc<OwnedFd>>,
    stop: Rc<OwnedFd>,
    /// Changes that are asked for, and what is shown of them.
    pub(crate) ports: Ports,
}

impl Doors {
    /// Takes the sockets and descriptors of a service. Nothing is accepted yet.
    pub(crate) fn of(service: Service) -> Doors {
        Doors {
            clients: service.listeners.into_iter().map(Door::new).map(Some).collect(),
            guests: service.guests.into_iter().map(GuestDoor::new).map(Some).collect(),
            control: service.control.map(Door::new),
            wake_fds: service.wake_fds.into_iter().map(Rc::new).collect(),
            stop: Rc::new(service.stop.into_fd()),
            ports: service.ports,
        }
    }

    /// Begins to accept, and to wait for what wakes the loop.
    pub(crate) fn open(&mut self, ring: &mut Ring<Token>) -> io::Result<()> {
        let all = self.clients.iter().flatten().chain(self.guests.iter().flatten().map(|own| &own.door));
        assert!(all.chain(&self.control).all(|door| door.accepting.is_none()), "doors are opened once");
        for index in 0..self.clients.len() {
            self.open_at(ring, Token::Door(index))?;
        }
        for index in 0..self.guests.len() {
            self.open_at(ring, Token::GuestDoor(index))?;
        }
        self.accept_at(ring, Token::ControlDoor)?;
        for (index, fd) in self.wake_fds.iter().enumerate() {
            ring.poll(fd, Token::Wake(index))?;
        }
        ring.poll(&self.stop, Token::Stop)?;
        Ok(())
    }

    fn open_at(&mut self, ring: &mut Ring<Token>, token: Token) -> io::Result<()> {
        if let Some(door) = self.at(token) {
            let whom = if matches!(token, Token::GuestDoor(_)) { "virtual machines " } else { "" };
            log::info!("serving {whom}on {}", door.listener.place());
        }
        self.accept_at(ring, token)
    }

    /// Opens one more door for clients.
    pub(crate) fn add_clients(&mut self, ring: &mut Ring<Token>, listener: Listener) -> io::Result<()> {
        self.clients.push(Some(Door::new(listener)));
        self.open_at(ring, Token::Door(self.clients.len() - 1))
    }

    /// Opens one more door for front ends.
    pub(crate) fn add_guests(&mut self, ring: &mut Ring<Token>, port: GuestPort) -> io::Result<()> {
        self.guests.push(Some(GuestDoor::new(port)));
        self.open_at(ring, Token::GuestDoor(self.guests.len() - 1))
    }

    /// Closes the door at a place, if there is one.
    pub(crate) fn close_at(&mut self, ring: &mut Ring<Token>, place: &Listen) -> io::Result<()> {
        let is_there = |door: &Door| door.listener.place() == place;
        let clients = self.clients.iter_mut().filter_map(|own| own.take_if(|door| is_there(door)));
        let guests = self.guests.iter_mut().filter_map(|own| own.take_if(|own| is_there(&own.door)));
        for door in clients.chain(guests.map(|own| own.door)) {
            log::info!("not serving on {place} any more");
            door.accepting.map_or(Ok(()), |id| ring.cancel(id))?;
        }
        Ok(())
    }

    /// Watches one more descriptor that wakes the loop.
    pub(crate) fn add_wake(&mut self, ring: &mut Ring<Token>, fd: OwnedFd) -> io::Result<()> {
        let fd = Rc::new(fd);
        ring.poll(&fd, Token::Wake(self.wake_fds.len()))?;
        self.wake_fds.push(fd);
        Ok(())
    }

    /// Stops to accept.
    pub(crate) fn close(&mut self, ring: &mut Ring<Token>) -> io::Result<()> {
        let guests = self.guests.drain(..).flatten().map(|own| own.door);
        for door in self.clients.drain(..).flatten().chain(guests).chain(self.control.take()) {
            door.accepting.map_or(Ok(()), |id| ring.cancel(id))?;
        }
        Ok(())
    }

    /// Doors for clients.
    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Listener of a door for clients, unless it was closed.
    pub(crate) fn listener(&self, index: usize) -> Option<&Listener> {
        self.clients.get(index)?.as_ref().map(|door| &door.listener)
    }

    /// Place of a door for front ends, and the block size that they see there, unless it was closed.
    pub(crate) fn guest_door(&self, index: usize) -> Option<(&Listen, BlockSize)> {
        self.guests.get(index)?.as_ref().map(|own| (own.door.listener.place(), own.block_size))
    }

    fn at(&mut self, token: Token) -> Option<&mut Door> {
        match token {
            Token::Door(index) => self.clients.get_mut(index)?.as_mut(),
            Token::GuestDoor(index) => self.guests.get_mut(index)?.as_mut().map(|own| &mut own.door),
            _ => self.control.as_mut(),
        }
    }

    /// True of a door that was closed.
    pub(crate) fn is_closed(&mut self, token: Token) -> bool {
        self.at(token).is_none()
    }

    /// Begins to accept at a door, if it is there.
    pub(crate) fn accept_at(&mut self, ring: &mut Ring<Token>, token: Token) -> io::Result<()> {
        if let Some(door) = self.at(token) {
            let pauses = door.accepting.is_none() || door.retry_due.is_none();
            assert!(pauses, "{token:?} accepts, and pauses");
            door.retry_due = None;
            door.accepting = Some(match token {
                Token::GuestDoor(_) => ring.accept_one(&door.fd, token)?,
                _ => ring.accept(&door.fd, token)?,
            });
        }
        Ok(())
    }

    /// A door has failed to accept. Returns when it does so again.
    pub(crate) fn pause_at(&mut self, token: Token, now: Instant) -> Instant {
        let due = now + ACCEPT_RETRY;
        if let Some(door) = self.at(token) {
            (door.accepting, door.retry_due) = (None, Some(due));
        }
        due
    }

    /// Accepts again where it failed a while ago. Returns when the next door is due.
    pub(crate) fn reopen(&mut self, ring: &mut Ring<Token>, now: Instant) -> io::Result<Option<Instant>> {
        let mut next = None;
        let guests = (0..self.guests.len()).map(Token::GuestDoor);
        for token in (0..self.clients.len()).map(Token::Door).chain(guests).chain([Token::ControlDoor]) {
            let Some(due) = self.at(token).and_then(|door| door.retry_due) else { continue };
            if due <= now {
                self.accept_at(ring, token)?;
            } else {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        Ok(next)
    }

    /// A wake descriptor was readable; the kernel goes on to watch it if there is `more`.
    pub(crate) fn on_wake(
        &self,
        ring: &mut Ring<Token>,
        index: usize,
        result: io::Result<()>,
        more: bool,
    ) -> io::Result<()> {
        let all = self.wake_fds.len();
        assert!(index < all, "wake descriptor {index} of {all} is readable");
        if let Err(error) = result {
            log::error!("wake descriptor {index} cannot be polled: {error}");
        } else if !more {
            ring.poll(&self.wake_fds[index], Token::Wake(index))?;
        }
        Ok(())
    }
}
