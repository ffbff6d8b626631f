//! Guests in the loop: front ends that come and go, kicks, calls.

use super::client::Pause;
use super::common::Common;
use super::desk::{Answer, Party};
use super::guest::{Guest, GuestFault, Progress};
use crate::doors::Token;
use crate::slab::{Key, Slab};
use crate::vhost::block::Disk;
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;

/// See the module.
pub(super) struct Guests {
    connected: Slab<Guest>,
    /// Some guest has, or may have, requests that are not taken yet.
    are_busy: bool,
    /// Memory of a list of all, and of one of queues to be called.
    keys: Vec<Key>,
    calls: Vec<usize>,
}

impl Guests {
    pub(super) fn new() -> Guests {
        Guests { connected: Slab::new(), are_busy: false, keys: Vec::new(), calls: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.connected.len()
    }

    /// True when some guest has, or may have, requests that are not taken yet.
    pub(super) fn are_busy(&self) -> bool {
        self.are_busy
    }

    /// What a guest waits for, if it is there and does.
    pub(super) fn pause_of(&mut self, key: Key) -> Option<Pause> {
        self.connected.at(key).and_then(|guest| guest.pause)
    }

    /// A front end has come. Nobody else comes in by this door until it has left.
    pub(super) fn welcome(
        &mut self,
        common: &mut Common<'_>,
        door: usize,
        socket: OwnedFd,
    ) -> io::Result<()> {
        // The socket of a door that was closed meanwhile closes, too.
        let Some((place, block_size)) = common.doors.guest_door(door) else { return Ok(()) };
        common.parties_seen += 1;
        let disk = Disk {
            size_bytes: common.desk.size_bytes,
            block_size,
            serial: common.config.disk.serial,
            is_read_only: common.desk.is_read_only,
        };
        let guest = Guest::new(socket, common.parties_seen, door, disk);
        log::info!("front end {}: connected on {place}", guest.number);
        common.doors.ports.show_guest(place, true);
        let key = self.connected.insert(guest);
        self.poll_socket(common, key)
    }

    fn poll_socket(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
        assert!(guest.polling.is_none(), "front end {}: its socket is polled twice", guest.number);
        guest.polling = Some(common.ring.poll(&guest.socket, Token::Guest(key))?);
        Ok(())
    }

    /// The front end has said something, or hung up.
    pub(super) fn on_socket(
        &mut self,
        common: &mut Common<'_>,
        key: Key,
        result: io::Result<()>,
        more: bool,
    ) -> io::Result<()> {
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
        if !more {
            guest.polling = None;
        }
        if guest.is_leaving() {
            return Ok(());
        }
        if let Err(error) = result {
            self.drop_guest(common, key, &GuestFault::Io(error));
            return Ok(());
        }
        if !more {
            self.poll_socket(common, key)?;
        }
        self.read_mail(common, key)
    }

    fn read_mail(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        loop {
            let Some(guest) = self.connected.at(key) else { return Ok(()) };
            let progress = guest.take_mail();
            self.poll_kicks(common, key)?;
            match progress {
                Ok(Progress::More) => {}
                Ok(Progress::Waiting) => {
                    self.are_busy = true;
                    return Ok(());
                }
                Ok(Progress::Ended) => {
                    log::info!("front end {}: gone", self.connected.at(key).map_or(0, |guest| guest.number));
                    self.end_guest(common, key);
                    return Ok(());
                }
                Err(fault) => {
                    self.drop_guest(common, key, &fault);
                    return Ok(());
                }
            }
        }
    }

    /// Polls kicks that are new, and lets go of those that were replaced.
    fn poll_kicks(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
        for (queue, (line, vring)) in guest.lines.iter_mut().zip(&guest.session.vrings).enumerate() {
            if !std::mem::take(&mut line.wants_poll) {
                continue;
            }
            if let Some(id) = line.polling.take() {
                common.ring.cancel(id)?;
            }
            line.kick_number = line.kick_number.wrapping_add(1);
            assert!(line.polling.is_none(), "two kicks of queue {queue} are polled");
            if let Some(kick) = &vring.kick {
                line.polling = Some(common.ring.poll(kick, Token::Kick(key, queue, line.kick_number))?);
            }
        }
        Ok(())
    }

    /// A guest has kicked a queue.
    pub(super) fn on_kick(
        &mut self,
        common: &mut Common<'_>,
        (key, queue, number): (Key, usize, u32),
        result: io::Result<()>,
        more: bool,
    ) -> io::Result<()> {
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
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
        self.are_busy = true;
        if more { Ok(()) } else { self.poll_kicks(common, key) }
    }

    /// Takes requests off all queues that may have some.
    pub(super) fn serve_all(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        if self.connected.len() == 0 {
            self.are_busy = false;
            return Ok(());
        }
        let mut keys = std::mem::take(&mut self.keys);
        self.connected.keys(&mut keys);
        for key in keys.drain(..) {
            if self.connected.at(key).is_some_and(|guest| guest.is_busy()) {
                self.serve(common, key)?;
            }
        }
        self.keys = keys;
        Ok(())
    }

    /// Takes requests off the queues of one guest.
    pub(super) fn serve(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        let is_stopping = !common.is_serving();
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
        if let Err(fault) = guest.serve(key, &mut common.desk, is_stopping) {
            self.drop_guest(common, key, &fault);
            return Ok(());
        }
        if matches!(guest.pause, Some(Pause::Frames(_))) {
            common.desk.waiting.push_back(Party::Guest(key));
        }
        Ok(())
    }

    /// An answer of the volume finds its guest, if it is still there.
    pub(super) fn on_answer(&mut self, common: &mut Common<'_>, key: Key, mut answer: Answer) {
        let Some(guest) = self.connected.at(key) else {
            common.desk.volume.frames().give_many(&mut answer.frames);
            return;
        };
        if let Err(fault) = guest.on_answer(answer, &mut common.desk) {
            self.drop_guest(common, key, &fault);
        }
    }

    /// Tells guests what is done, and lets go of those that have left.
    pub(super) fn call_all(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        self.are_busy = false;
        if self.connected.len() == 0 {
            return Ok(());
        }
        let mut keys = std::mem::take(&mut self.keys);
        self.connected.keys(&mut keys);
        for key in keys.drain(..) {
            self.call_guest(common, key)?;
        }
        self.keys = keys;
        Ok(())
    }

    fn call_guest(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
        if guest.is_leaving() {
            if guest.is_gone() {
                self.forget_guest(common, key);
            }
            return Ok(());
        }
        let mut calls = std::mem::take(&mut self.calls);
        let outcome = guest.take_calls(&mut calls).and_then(|()| guest.end_stopping());
        self.are_busy |= guest.is_busy();
        for queue in calls.drain(..) {
            self.call(common, key, queue)?;
        }
        self.calls = calls;
        match outcome {
            Ok(true) => self.read_mail(common, key),
            Ok(false) => Ok(()),
            Err(fault) => {
                self.drop_guest(common, key, &fault);
                Ok(())
            }
        }
    }

    /// One call of a queue is under way at most: who does not read its eventfd gathers nothing here.
    fn call(&mut self, common: &mut Common<'_>, key: Key, queue: usize) -> io::Result<()> {
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
        let line = &mut guest.lines[queue];
        let Some(call) = &guest.session.vrings[queue].call else { return Ok(()) };
        if line.is_calling {
            line.call_again = true;
            return Ok(());
        }
        assert!(!line.call_again, "queue {queue} is to be called again, and no call is under way");
        line.is_calling = true;
        common.ring.signal(call, Token::Call(key, queue))?;
        Ok(())
    }

    pub(super) fn on_called(
        &mut self,
        common: &mut Common<'_>,
        key: Key,
        queue: usize,
        result: &io::Result<()>,
    ) -> io::Result<()> {
        let Some(guest) = self.connected.at(key) else { return Ok(()) };
        if let Err(error) = result {
            log::warn!("front end {}: queue {queue} cannot be called: {error}", guest.number);
        }
        let line = &mut guest.lines[queue];
        assert!(line.is_calling, "a call of queue {queue} ends that was not begun");
        line.is_calling = false;
        if std::mem::take(&mut line.call_again) { self.call(common, key, queue) } else { Ok(()) }
    }

    /// Tells all front ends to leave.
    pub(super) fn drain(&mut self, common: &mut Common<'_>) {
        let mut keys = std::mem::take(&mut self.keys);
        self.connected.keys(&mut keys);
        for key in keys.drain(..) {
            self.end_guest(common, key);
        }
        self.keys = keys;
    }

    /// Lets go of all, whatever of them is in the volume.
    pub(super) fn forget_all(&mut self, common: &mut Common<'_>) {
        let mut keys = std::mem::take(&mut self.keys);
        self.connected.keys(&mut keys);
        for key in keys.drain(..) {
            self.forget_guest(common, key);
        }
        assert!(self.len() == 0, "all are gone");
        self.keys = keys;
    }

    /// A front end is cut off.
    fn drop_guest(&mut self, common: &mut Common<'_>, key: Key, fault: &GuestFault) {
        if let Some(guest) = self.connected.at(key) {
            log::warn!("front end {}: closed, because {fault}", guest.number);
            self.end_guest(common, key);
        }
    }

    /// A front end leaves. Its door opens again when nothing of it is in the volume any more: a request that is asked
    /// again must not meet itself.
    fn end_guest(&mut self, common: &mut Common<'_>, key: Key) {
        let Some(guest) = self.connected.at(key) else { return };
        if guest.is_leaving() {
            return;
        }
        guest.leave(&mut common.desk);
        // It fails when the peer has gone already, which is as good.
        let _gone = rustix::net::shutdown(&guest.socket, Shutdown::Both);
        self.are_busy = true;
    }

    /// A guest that has left, or whose time is over.
    fn forget_guest(&mut self, common: &mut Common<'_>, key: Key) {
        let Some(guest) = self.connected.remove(key) else { return };
        for id in guest.lines.iter().map(|line| line.polling).chain([guest.polling]).flatten() {
            if let Err(error) = common.ring.cancel(id) {
                log::warn!("front end {}: {error}", guest.number);
            }
        }
        if let Some((place, _)) = common.doors.guest_door(guest.door) {
            common.doors.ports.show_guest(place, false);
        }
        if common.is_serving()
            && let Err(error) = common.doors.accept_at(&mut common.ring, Token::GuestDoor(guest.door))
        {
            log::error!("front ends cannot be accepted any more: {error}");
        }
    }
}
