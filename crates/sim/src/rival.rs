//! Another server mounts the array on the same drives and writes, while the first one has it: as when a machine that was thought
//! dead was only paused.
//!
//! ```text
//!   first    requests ── ... commands in flight ...................... refused ──> Fenced: no reply, no command, ever
//!   second               mount, writes, flush; all of them at once        what it acknowledged must be there at the end
//! ```
//! What the first server answers from then on promises nothing, and is not held against the oracle. But from the moment on at which it is
//! told of something that only another writer explains, it may answer nothing and write nothing.
//!
//! The second server's commands take effect at once; it comes to rest and is killed, or is killed before that. Resets that the first one has
//! given are waited for, and looks that it has begun: nothing but reservations of drives would stop those. Appends are not, and find room
//! wherever they are late.

use crate::drive::Drive;
use crate::oracle::fill;
use crate::plan::Latency;
use crate::rack::{Meeting, Rack, SharedRack};
use crate::service::Service;
use crate::step::Step;
use crate::tally::Failure;
use crate::world::World;
use array::log::config::Tuning;
use array::log::mount;
use array::log::volume::LogVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::random::Random;
use base::time::Instant;
use base::units::Lba;
use zone::device::{Command, Completion, Geometry, ZonedDevice};

/// Name in the ledger of a drive that two servers wrote to.
pub(crate) const TWO_SERVERS: &str = "drive with two servers";
/// Turns after which the second server has not come to rest.
const TURNS_MAX: u32 = 100_000;
/// Events for which its mount waits for resets and looks of the first one.
const EVENTS_MAX: u32 = 10_000;
/// Set in the tags of its mounts: time, which is in the others, does not go that far.
const TAG: u64 = 1 << 63;
/// Time that passes for it from turn to turn.
const TURN_NS: u64 = 100_000;
/// Salt of the seed that says whether it comes to rest before it is killed.
const REST: u64 = 0x7265_7374;

/// True for what a world does whose drives another server has taken: clients ask, and time goes by; or the first server ends.
pub(crate) fn goes_on_beside_another(step: &Step) -> bool {
    matches!(
        step,
        Step::Write { .. }
            | Step::Read { .. }
            | Step::Trim { .. }
            | Step::Flush
            | Step::Run { .. }
            | Step::Stall { .. }
            | Step::Idle
            | Step::Verify
            | Step::Crash { .. }
            | Step::Kill
            | Step::Mount { .. }
    )
}

impl World {
    /// Another server takes the drives, mounts and writes so many blocks, which it acknowledges.
    pub(crate) fn rival(&mut self, blocks: u64, seed: u64) -> Result<(), Failure> {
        if !self.may_meet() || !self.wait_for_the_irrevocable()? || !self.may_meet() {
            return Ok(());
        }
        let service = &mut self.service;
        let meeting = Meeting::of(&service.rack.lock().drives);
        let drives = self.bays.places.iter().map(|place| {
            let drive = Own::new(service.rack.clone(), (*place)?);
            Some(Box::new(drive) as Box<dyn ZonedDevice>)
        });
        let tuning = Tuning { mount_tag: TAG | service.now.0, ..service.plan.tuning() };
        let (shard, set, _) = mount(drives.collect(), tuning, service.now)
            .map_err(|error| Failure::new(format!("another server cannot mount the array: {error}")))?;
        let mut second = Second { volume: LogVolume::new(shard, set), now: service.now };
        second.run_until("recovers", |volume| !array::engine::Engine::has_recovery_debt(&volume.engine))?;
        second.write(service, blocks, seed)?;
        if Random::from_seed(seed ^ REST).chance(1, 2) {
            second.run_until("comes to rest", LogVolume::is_at_rest)?;
        }
        service.ledger.count("drives taken by another server", 1);
        // An append of the first server always finds room, in a zone without a header as well: it belongs to nobody then.
        (0..service.plan.members).for_each(|member| service.ledger.cost_zone_to_rival(member, TWO_SERVERS));
        service.is_taken = true;
        service.rack.lock().rival = Some(meeting);
        Ok(())
    }

    /// True where a second server means nothing but itself: all drives are there and well, though others may have had them before.
    fn may_meet(&self) -> bool {
        let Service { plan, ledger, now, hangs_until, is_taken, .. } = &self.service;
        let is_possible =
            plan.fences && plan.areas.is_none() && matches!(plan.latency, Latency::Random { .. });
        let is_well = ledger.is_unblemished() && *hangs_until <= *now;
        let rack = self.service.rack.lock();
        let all_there = self.bays.places.iter().all(|place| {
            place.is_some_and(|drive| !rack.drives[drive].is_dead() && !rack.drives[drive].is_missed(*now))
        });
        drop(rack);
        is_possible && is_well && all_there && !is_taken && !self.service.is_dark()
    }

    /// Waits until no reset is in flight, and no drive is looked at; false when that does not come.
    fn wait_for_the_irrevocable(&mut self) -> Result<bool, Failure> {
        for _ in 0..EVENTS_MAX {
            if self.service.is_dark() {
                return Ok(false);
            }
            let in_flight = self.service.rack.lock().drives.iter().any(Drive::has_reset_in_flight);
            let looks = self.service.volume().log().is_some_and(|volume| volume.is_looking());
            if !in_flight && !looks {
                return Ok(true);
            }
            if !self.service.advance()? {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

impl Service {
    /// An answer of the first server, which means nothing. It may give none when it could have noticed.
    pub(crate) fn on_void_reply(&mut self, mut reply: Reply) -> Result<(), Failure> {
        let promises = self.clients.dismiss(self.now, &reply);
        self.volume().clients_view().frames().give_many(&mut reply.frames);
        let refused = self.rack.lock().rival.as_ref().and_then(|meeting| meeting.refused.clone());
        let id = reply.id.0;
        // Drives that came back as another server left them are lost (ADR 72), and tell nothing: the array fails for that, and what is
        // not on drives can be read.
        if self.plan.patience_ms > 0 && !promises {
            return Ok(());
        }
        refused.map_or(Ok(()), |refused| {
            Err(Failure::new(format!(
                "request {id} is answered though another server has the drives: {refused}"
            )))
        })
    }

    /// The first server does nothing to drives when it could have noticed. Commands that wait for a drive that is away are its
    /// driver's by then.
    pub(crate) fn expect_fencing(&mut self) -> Result<(), Failure> {
        if self.volume.as_ref().is_some_and(|volume| volume.has_ended()) {
            self.ledger.count("servers fenced", 1);
            self.clients.forget();
        }
        let rack = self.rack.lock();
        let Some(Meeting { refused: Some(refused), written_after: Some(written), .. }) = &rack.rival else {
            return Ok(());
        };
        if self.plan.patience_ms > 0 {
            return Ok(());
        }
        Err(Failure::new(format!("{written} though another server has the drives: {refused}")))
    }
}

/// The second server.
struct Second {
    volume: LogVolume,
    now: Instant,
}

impl Second {
    fn turn(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        self.volume.turn(self.now, &mut replies);
        self.now = Instant(self.now.0 + TURN_NS);
        replies
    }

    fn run_until(&mut self, what: &str, is_done: impl Fn(&LogVolume) -> bool) -> Result<(), Failure> {
        for _ in 0..TURNS_MAX {
            if is_done(&self.volume) {
                return Ok(());
            }
            self.turn();
        }
        Err(Failure::new(format!("another server never {what}")))
    }

    /// Writes blocks one after the other, which are acknowledged and stay.
    fn write(&mut self, service: &mut Service, blocks: u64, seed: u64) -> Result<(), Failure> {
        let random = &mut Random::from_seed(seed);
        for _ in 0..blocks {
            let lba = random.below(service.clients.oracle.blocks());
            self.run_until("has frames for a client", |volume| volume.client_frames_available() > 0)?;
            let arrival = service.clients.oracle.arrive();
            let mut frames = vec![self.volume.frames().take()];
            frames.iter_mut().for_each(|frame| fill(&mut frame.data, lba, arrival));
            service.clients.oracle.begin(lba, arrival, arrival);
            service.clients.remark(lba, 1, || format!("another server writes version {arrival} of {lba}"));
            let op = RequestOp::Write { lba: Lba(lba), frames, force_unit_access: true };
            self.volume.submit(self.now, Request { id: RequestId(arrival), op });
            let mut replies = Vec::new();
            for _ in 0..TURNS_MAX {
                replies = self.turn();
                if !replies.is_empty() {
                    break;
                }
            }
            match replies.as_slice() {
                [Reply { outcome: Outcome::Done, id, .. }] => {
                    assert_eq!(id.0, arrival, "the answer is to the write that was asked for");
                    service.clients.oracle.acknowledge(lba, arrival, true)
                }
                _ => return Err(Failure::at(lba, format!("another server cannot write block {lba}"))),
            }
        }
        Ok(())
    }
}

/// A drive as the second server has it: commands take effect at once, and nothing breaks.
struct Own {
    rack: SharedRack,
    drive: usize,
    geometry: Geometry,
    done: Vec<Completion>,
}

impl Own {
    fn new(rack: SharedRack, drive: usize) -> Own {
        let places = rack.lock().drives.len();
        assert!(drive < places, "drive {drive} of {places} is taken");
        let geometry = *rack.lock().drives[drive].media().geometry();
        Own { rack, drive, geometry, done: Vec::new() }
    }
}

impl ZonedDevice for Own {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Rack { drives, trace, .. } = &mut *self.rack.lock();
        self.done.push(drives[self.drive].execute_at_once(now, command, trace));
    }

    fn poll(&mut self, _now: Instant, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }
}
