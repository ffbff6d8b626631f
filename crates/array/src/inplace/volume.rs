//! Engine with its devices, driven by whoever owns the thread.

use super::members::role;
use super::places::Places;
use super::policy::ChangeRefused;
use super::recovery::AddRefused;
use super::replacing::ReplaceRefused;
use super::returning::{ReturnRefused, Returning};
use super::shards::messages::{ToControl, ToShard};
use super::spares::{Spare, Spares};
use super::start::Tuning;
use super::{Effects, InPlace};
use crate::request::{Reply, Request, Volume};
use base::frame::FramePool;
use base::time::{Instant, Nanos};
use block::condition::Condition;
use block::device::BlockDevice;
use block::devices::DeviceSet;
use block::md::Role;
use block::md::policy::Wish;
use block::md::returning::is_apart;
use block::md::superblock::Superblock;

/// Rounds of one turn: so many that a request usually finishes within its turn, so few that the front end is asked again soon.
const ROUNDS_PER_TURN: u32 = 16;

/// Time between two looks of a shard at its devices.
const LOOK_EVERY: Nanos = Nanos::from_micros(1_000_000);

/// A device, with a way of their own to it for shards beside the control shard: without, they do not work on an array that has it.
pub struct Ways {
    /// The way of whoever has the array.
    pub own: Box<dyn BlockDevice>,
    /// One for each other shard, or none.
    pub others: Vec<Box<dyn BlockDevice>>,
}

/// Ways of a shard to devices, by their seats.
pub type OwnWays = Vec<(Role, Box<dyn BlockDevice>)>;

impl From<Box<dyn BlockDevice>> for Ways {
    fn from(own: Box<dyn BlockDevice>) -> Ways {
        Ways { own, others: Vec::new() }
    }
}

/// Volume: an engine and its devices.
pub struct InPlaceVolume {
    /// Engine.
    pub engine: InPlace,
    /// Its devices.
    pub devices: DeviceSet,
    /// Devices that take the role of a member which fails.
    pub spares: Spares,
    effects: Effects,
    /// Time of the next look at devices, of a shard.
    look_at: Instant,
}

impl InPlaceVolume {
    /// Couples an engine with its devices.
    #[must_use]
    pub fn new(engine: InPlace, devices: DeviceSet) -> InPlaceVolume {
        InPlaceVolume {
            engine,
            devices,
            spares: Spares::default(),
            effects: Effects::default(),
            look_at: Instant(0),
        }
    }

    /// True when nothing is under way, with the engine or a device.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.engine.is_quiet() && self.effects.commands.is_empty() && self.devices.is_idle()
    }

    /// Makes this volume the control shard of others with these devices: each shard has its own way to every seat that is taken.
    ///
    /// # Panics
    /// When a shard lacks a way.
    pub fn divide(&mut self, ways: Vec<OwnWays>, tuning: &Tuning) -> Vec<InPlaceVolume> {
        let seats = |own: &OwnWays| own.iter().map(|(seat, _)| seat.index()).collect();
        let seated: Places = ways.first().map(seats).expect("there are others");
        let engines = self.engine.divide(ways.len(), seated, tuning);
        let volume = |(engine, own): (InPlace, OwnWays)| {
            assert!(seats(&own) == seated, "each shard has the same seats");
            let mut devices = DeviceSet::new(Vec::new());
            own.into_iter().for_each(|(seat, device)| devices.put(seat, device));
            InPlaceVolume::new(engine, devices)
        };
        engines.into_iter().zip(ways).map(volume).collect()
    }

    /// Takes a message of another shard.
    pub fn hear_shard(&mut self, now: Instant, shard: usize, message: ToControl) {
        self.engine.hear_shard(now, shard, message, &mut self.effects);
    }

    /// Takes a message of the control shard.
    pub fn hear_control(&mut self, message: ToShard) {
        match message {
            ToShard::Abandon(seat) => self.devices.abandon(seat),
            ToShard::Seat(seat, device) => {
                drop(self.devices.take(seat));
                device.into_iter().for_each(|device| self.devices.put(seat, device));
            }
            message => self.engine.hear_control(message, &mut self.effects),
        }
    }

    /// Condition of a device as all shards see it.
    pub fn condition(&mut self, now: Instant, seat: Role) -> Option<Condition> {
        let own = self.devices.condition(now, seat)?;
        Some(own.with(self.engine.core().place.condition_elsewhere(seat)))
    }

    /// A shard looks whether its devices answer: the control shard may not ask them anything.
    fn look_at_devices(&mut self, now: Instant) {
        if !self.engine.core().place.is_shard() || now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let InPlaceVolume { engine, devices, .. } = self;
        let seats = (0..devices.count()).map(role);
        engine
            .core_mut()
            .place
            .tell_conditions(now, seats.filter_map(|seat| Some((seat, devices.condition(now, seat)?))));
    }

    /// Gives a member up: it counts as failed, and whatever it was asked is answered in its stead.
    pub fn give_up_member(&mut self, member: Role) {
        let seat = self.engine.core().members.seat(member);
        self.engine.core_mut().fail_member(member);
        self.devices.abandon(seat);
        self.engine.core_mut().place.abandon_elsewhere(seat);
    }

    /// Adds an empty device as a member: see [`InPlace::add_member`]. The device of the member before is closed.
    ///
    /// # Errors
    /// When the role lacks no member, or the member before has not answered yet.
    pub fn add_member(
        &mut self,
        role: Role,
        superblock: Superblock,
        device: impl Into<Ways>,
    ) -> Result<(), AddRefused> {
        let device = device.into();
        self.engine.core().role_for(Some(role))?;
        if !self.is_answered(role) {
            return Err(AddRefused::Busy(role));
        }
        self.engine.core_mut().add_member(role, superblock, device.own.geometry().volatile_cache)?;
        self.seat(role, device);
        Ok(())
    }

    /// A device is at a place from now on; the one before is closed.
    fn seat(&mut self, place: Role, Ways { own, others }: Ways) {
        assert!(self.is_answered(place), "the device of place {place} has commands under way");
        let seat = self.engine.core().members.seat(place);
        drop(self.devices.take(seat));
        self.devices.put(seat, own);
        self.engine.core_mut().place.seat_elsewhere(seat, others);
    }

    /// Closes the device of a place.
    fn close(&mut self, place: Role) {
        assert!(self.is_answered(place), "the device of place {place} is closed with commands under way");
        let seat = self.engine.core().members.seat(place);
        drop(self.devices.take(seat));
        self.engine.core_mut().place.seat_elsewhere(seat, Vec::new());
    }

    /// Replaces a member by an empty device: see [`InPlace::replace_member`].
    ///
    /// # Errors
    /// When it cannot be replaced.
    pub fn replace_member(
        &mut self,
        member: Role,
        superblock: Superblock,
        device: impl Into<Ways>,
    ) -> Result<(), ReplaceRefused> {
        let device = device.into();
        self.engine.core().can_replace(member)?;
        if !self.is_answered(member.replacement()) {
            return Err(ReplaceRefused::Busy(member));
        }
        self.engine.core_mut().replace_member(member, superblock, device.own.geometry().volatile_cache)?;
        self.seat(member.replacement(), device);
        Ok(())
    }

    /// Replaces a member by a spare, the first unless it is named; its name, or `None` when there is none that fits. A spare that
    /// does not is given up.
    ///
    /// # Errors
    /// When it cannot be replaced.
    pub fn replace_by_spare(
        &mut self,
        member: Role,
        named: Option<&str>,
    ) -> Result<Option<String>, ReplaceRefused> {
        self.engine.core().can_replace(member)?;
        let next = |spares: &mut Spares| match named {
            Some(name) => spares.take_named(name),
            None => spares.take(),
        };
        while let Some(Spare { name, superblock, device }) = next(&mut self.spares) {
            let superblock = self.engine.core().superblock_of_spare(superblock);
            if is_apart(&superblock, self.engine.core().bitmap_bytes(), device.own.geometry().sectors) {
                self.replace_member(member, superblock, device)?;
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Devices that are nobody any more are closed, once they have answered.
    fn close_vacated(&mut self) {
        for place in self.engine.core().vacated().iter().map(role) {
            if self.is_answered(place) {
                self.close(place);
                self.engine.core_mut().note_closed(place);
            }
        }
    }

    /// Takes a member back: see [`InPlace::return_member`]. The device of the member before is closed.
    ///
    /// # Errors
    /// When it cannot come back, or the member before has not answered yet.
    pub fn return_member(
        &mut self,
        role: Role,
        back: Returning,
        device: impl Into<Ways>,
    ) -> Result<(), ReturnRefused> {
        let device = device.into();
        self.engine.core().can_return(role, back.events)?;
        if !self.is_answered(role) {
            return Err(ReturnRefused::Role(AddRefused::Busy(role)));
        }
        self.engine.core_mut().return_member(role, back, device.own.geometry().volatile_cache)?;
        self.seat(role, device);
        Ok(())
    }

    /// A spare takes the role of a member that is missing, once that has answered what it was asked. A spare that is refused is
    /// given up. True when there was one.
    fn step_in(&mut self) -> bool {
        if self.spares.is_empty() {
            return false;
        }
        let role = self.engine.core().role_for_spare().filter(|role| self.is_answered(*role));
        let Some(role) = role else { return false };
        let Some(Spare { name, superblock, device }) = self.spares.take() else { return false };
        let superblock = self.engine.core().superblock_of_spare(superblock);
        // Its log of bad blocks may lie where members got a bitmap meanwhile.
        let is_fit = is_apart(&superblock, self.engine.core().bitmap_bytes(), device.own.geometry().sectors);
        if is_fit && self.add_member(role, superblock, device).is_ok() {
            self.spares.note_stepped_in(role, name);
        }
        true
    }

    /// Begins to change the consistency policy: see [`InPlace::begin_change`].
    ///
    /// # Errors
    /// When it cannot be changed now, or not to this one.
    pub fn begin_change(&mut self, wish: Wish) -> Result<(), ChangeRefused> {
        let has_blocks = |role: &Role| {
            self.devices
                .geometry(self.engine.core().members.seat(*role))
                .is_some_and(|geometry| geometry.atomic_sectors > 1)
        };
        let roles = (0..self.engine.core().members.count()).map(role);
        match roles.into_iter().find(has_blocks).filter(|_| wish == Wish::Ppl) {
            Some(member) => Err(ChangeRefused::Sectors(member)),
            None => self.engine.core_mut().begin_change(wish),
        }
    }

    /// Closes the device of a member that has failed; false while it has commands to answer.
    pub fn close_failed(&mut self, role: Role) -> bool {
        assert!(self.engine.core().members.is_vacant(role), "member {role} has not failed");
        let may_close = self.is_answered(role);
        if may_close {
            self.close(role);
        }
        may_close
    }

    /// True when a member has answered all that it was asked, and is about to be asked nothing.
    fn is_answered(&self, role: Role) -> bool {
        let seat = self.engine.core().members.seat(role);
        !self.engine.core().place.is_used_elsewhere(seat)
            && self.devices.is_answered(seat)
            && self.effects.commands.iter().all(|command| command.member != seat)
    }

    fn round(&mut self, now: Instant) -> bool {
        self.engine.settle(now, &mut self.effects);
        let mut moved = !self.effects.commands.is_empty();
        for command in self.effects.commands.drain(..) {
            self.devices.submit(now, command);
        }
        let InPlaceVolume { engine, devices, effects, .. } = self;
        devices.poll(now, |member, completion| {
            moved = true;
            engine.on_completion(member, completion, effects);
        });
        moved
    }
}

impl Volume for InPlaceVolume {
    fn blocks(&self) -> u64 {
        self.engine.core().blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.engine.core_mut().frames()
    }

    fn client_frames_available(&self) -> usize {
        self.engine.core().client_frames_available()
    }

    fn submit(&mut self, _now: Instant, request: Request) {
        self.engine.submit(request, &mut self.effects);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        self.close_vacated();
        self.look_at_devices(now);
        let mut moved = true;
        for _ in 0..ROUNDS_PER_TURN {
            moved = self.round(now) | self.step_in();
            if !moved {
                break;
            }
        }
        replies.append(&mut self.effects.replies);
        moved
    }

    fn next_deadline(&self) -> Option<Instant> {
        let look = (self.engine.core().place.is_shard() && !self.devices.is_idle()).then_some(self.look_at);
        [self.engine.next_deadline(), self.devices.next_event(), look].into_iter().flatten().min()
    }
}
