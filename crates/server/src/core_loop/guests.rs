//! Guests in the loop: front ends that come and go, kicks, calls.

use super::desk::Answer;
use super::guest::{Guest, GuestFault, Progress};
use super::stopping::Phase;
use super::{Party, Pause, Server, Token};
use crate::slab::Key;
use crate::vhost::block::Disk;
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;

impl Server<'_> {
    /// A front end has come. Nobody else comes in by this door until it has left.
    pub(super) fn welcome_guest(&mut self, door: usize, socket: OwnedFd) -> io::Result<()> {
        // The socket of a door that was closed meanwhile closes, too.
        let Some((place, block_size)) = self.doors.guest_door(door) else { return Ok(()) };
        self.clients_seen += 1;
        let disk = Disk {
            size_bytes: self.desk.size_bytes,
            block_size,
            serial: self.config.disk.serial,
            is_read_only: self.desk.is_read_only,
        };
        let guest = Guest::new(socket, self.clients_seen, door, disk);
        log::info!("front end {}: connected on {place}", guest.number);
        self.doors.ports.show_guest(place, true);
        let key = self.guests.insert(guest);
        self.poll_socket(key)
    }

    fn poll_socket(&mut self, key: Key) -> io::Result<()> {
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        guest.polling = Some(self.ring.poll(&guest.socket, Token::Guest(key))?);
        Ok(())
    }

    /// The front end has said something, or hung up.
    pub(super) fn on_guest_socket(&mut self, key: Key, result: io::Result<()>, more: bool) -> io::Result<()> {
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        if !more {
            guest.polling = None;
        }
        if guest.is_leaving() {
            return Ok(());
        }
        if let Err(error) = result {
            self.drop_guest(key, &GuestFault::Io(error));
            return Ok(());
        }
        if !more {
            self.poll_socket(key)?;
        }
        self.read_mail(key)
    }

    fn read_mail(&mut self, key: Key) -> io::Result<()> {
        loop {
            let Some(guest) = self.guests.at(key) else { return Ok(()) };
            let progress = guest.take_mail();
            self.poll_kicks(key)?;
            match progress {
                Ok(Progress::More) => {}
                Ok(Progress::Waiting) => {
                    self.guests_are_busy = true;
                    return Ok(());
                }
                Ok(Progress::Ended) => {
                    log::info!("front end {}: gone", self.guests.at(key).map_or(0, |guest| guest.number));
                    self.end_guest(key);
                    return Ok(());
                }
                Err(fault) => {
                    self.drop_guest(key, &fault);
                    return Ok(());
                }
            }
        }
    }

    /// Polls kicks that are new, and lets go of those that were replaced.
    fn poll_kicks(&mut self, key: Key) -> io::Result<()> {
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        for (queue, (line, vring)) in guest.lines.iter_mut().zip(&guest.session.vrings).enumerate() {
            if !std::mem::take(&mut line.wants_poll) {
                continue;
            }
            if let Some(id) = line.polling.take() {
                self.ring.cancel(id)?;
            }
            line.kick_number = line.kick_number.wrapping_add(1);
            if let Some(kick) = &vring.kick {
                line.polling = Some(self.ring.poll(kick, Token::Kick(key, queue, line.kick_number))?);
            }
        }
        Ok(())
    }

    /// A guest has kicked a queue.
    pub(super) fn on_kick(
        &mut self,
        (key, queue, number): (Key, usize, u32),
        result: io::Result<()>,
        more: bool,
    ) -> io::Result<()> {
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        let line = &mut guest.lines[queue];
        if line.kick_number != number {
            return Ok(());
        }
        if let Err(error) = result {
            line.polling = None;
            log::warn!("front end {}: the kick of queue {queue} cannot be polled: {error}", guest.number);
            return Ok(());
        }
        if !more {
            line.polling = None;
            line.wants_poll = true;
        }
        guest.on_kick(queue);
        self.guests_are_busy = true;
        if more { Ok(()) } else { self.poll_kicks(key) }
    }

    /// Takes requests off all queues that may have some.
    pub(super) fn serve_guests(&mut self) -> io::Result<()> {
        if self.guests.len() == 0 {
            self.guests_are_busy = false;
            return Ok(());
        }
        let mut keys = std::mem::take(&mut self.keys);
        self.guests.keys(&mut keys);
        for key in keys.drain(..) {
            if self.guests.at(key).is_some_and(|guest| guest.is_busy()) {
                self.serve_guest(key)?;
            }
        }
        self.keys = keys;
        Ok(())
    }

    /// Takes requests off the queues of one guest.
    pub(super) fn serve_guest(&mut self, key: Key) -> io::Result<()> {
        let is_stopping = self.phase != Phase::Serving;
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        if let Err(fault) = guest.serve(key, &mut self.desk, is_stopping) {
            self.drop_guest(key, &fault);
            return Ok(());
        }
        if matches!(guest.pause, Some(Pause::Frames(_))) {
            self.desk.waiting.push_back(Party::Guest(key));
        }
        Ok(())
    }

    /// An answer of the volume finds its guest, if it is still there.
    pub(super) fn on_guest_answer(&mut self, key: Key, mut answer: Answer) {
        let Some(guest) = self.guests.at(key) else {
            self.desk.volume.frames().give_many(&mut answer.frames);
            return;
        };
        if let Err(fault) = guest.on_answer(answer, &mut self.desk) {
            self.drop_guest(key, &fault);
        }
    }

    /// Tells guests what is done, and lets go of those that have left.
    pub(super) fn call_guests(&mut self) -> io::Result<()> {
        self.guests_are_busy = false;
        if self.guests.len() == 0 {
            return Ok(());
        }
        let mut keys = std::mem::take(&mut self.keys);
        self.guests.keys(&mut keys);
        for key in keys.drain(..) {
            self.call_guest(key)?;
        }
        self.keys = keys;
        Ok(())
    }

    fn call_guest(&mut self, key: Key) -> io::Result<()> {
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        if guest.is_leaving() {
            if guest.is_gone() {
                self.forget_guest(key);
            }
            return Ok(());
        }
        let mut calls = std::mem::take(&mut self.calls);
        let outcome = guest.take_calls(&mut calls).and_then(|()| guest.end_stopping());
        self.guests_are_busy |= guest.is_busy();
        for queue in calls.drain(..) {
            self.call(key, queue)?;
        }
        self.calls = calls;
        match outcome {
            Ok(true) => self.read_mail(key),
            Ok(false) => Ok(()),
            Err(fault) => {
                self.drop_guest(key, &fault);
                Ok(())
            }
        }
    }

    /// One call of a queue is under way at most: who does not read its eventfd gathers nothing here.
    fn call(&mut self, key: Key, queue: usize) -> io::Result<()> {
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        let line = &mut guest.lines[queue];
        let Some(call) = &guest.session.vrings[queue].call else { return Ok(()) };
        if line.is_calling {
            line.call_again = true;
            return Ok(());
        }
        line.is_calling = true;
        self.ring.signal(call, Token::Call(key, queue))?;
        Ok(())
    }

    pub(super) fn on_called(&mut self, key: Key, queue: usize, result: &io::Result<()>) -> io::Result<()> {
        let Some(guest) = self.guests.at(key) else { return Ok(()) };
        if let Err(error) = result {
            log::warn!("front end {}: queue {queue} cannot be called: {error}", guest.number);
        }
        let line = &mut guest.lines[queue];
        line.is_calling = false;
        if std::mem::take(&mut line.call_again) { self.call(key, queue) } else { Ok(()) }
    }

    /// A front end is cut off.
    fn drop_guest(&mut self, key: Key, fault: &GuestFault) {
        if let Some(guest) = self.guests.at(key) {
            log::warn!("front end {}: closed, because {fault}", guest.number);
            self.end_guest(key);
        }
    }

    /// A front end leaves. Its door opens again when nothing of it is in the volume any more: a request that is asked
    /// again must not meet itself.
    pub(super) fn end_guest(&mut self, key: Key) {
        let Some(guest) = self.guests.at(key) else { return };
        if guest.is_leaving() {
            return;
        }
        guest.leave(&mut self.desk);
        // It fails when the peer has gone already, which is as good.
        let _gone = rustix::net::shutdown(&guest.socket, Shutdown::Both);
        self.guests_are_busy = true;
    }

    /// A guest that has left, or whose time is over.
    pub(super) fn forget_guest(&mut self, key: Key) {
        let Some(guest) = self.guests.remove(key) else { return };
        for id in guest.lines.iter().map(|line| line.polling).chain([guest.polling]).flatten() {
            if let Err(error) = self.ring.cancel(id) {
                log::warn!("front end {}: {error}", guest.number);
            }
        }
        if let Some((place, _)) = self.doors.guest_door(guest.door) {
            self.doors.ports.show_guest(place, false);
        }
        if self.phase == Phase::Serving
            && let Err(error) = self.doors.accept_at(&mut self.ring, Token::GuestDoor(guest.door))
        {
            log::error!("front ends cannot be accepted any more: {error}");
        }
    }
}
