//! The array in service: the engine while the power is on, the drives under it, the clients above it, and time.
//!
//! ```text
//!   requests ──> ask ──> engine ──> rack        advance: to the next event
//!   clients <── turn <──   │    <──             turn: all that happens at one instant
//! ```
//! Whoever waits for something advances until it has come, and fails the run when nothing is due any more.

use crate::clients::{Answered, Clients, What};
use crate::engine::{Array, Volume};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::rack::SharedRack;
use crate::slots::SlotJudge;
use crate::tally::{Failure, Tally};
use array::engine::Engine;
use array::log::area::AreaState;
use array::request::{Reply, Request, RequestId, RequestOp};
use base::time::{Instant, Nanos};
use base::units::{DriveIndex, Lba, index_of};

/// Turns at one instant before it counts as a live-lock.
const TURNS_AT_ONCE_MAX: u32 = 10_000;
/// Events in a row while clients wait and none is answered, before they count as one.
const UNANSWERED_EVENTS_MAX: u32 = 1_000_000;
/// Virtual time a request may take, beyond what drives hang.
pub(crate) const PATIENCE_NS: u64 = 120_000_000_000;

/// Time between two looks at drives that hang.
const LOOK_EVERY: Nanos = Nanos(100_000_000);

/// The array in service.
pub(crate) struct Service {
    pub(crate) plan: Plan,
    pub(crate) array: Array,
    pub(crate) rack: SharedRack,
    /// The engine, while the power is on.
    pub(crate) volume: Option<Volume>,
    pub(crate) clients: Clients,
    pub(crate) ledger: Ledger,
    pub(crate) now: Instant,
    /// Another server has taken the drives: what this one answers means nothing any more.
    pub(crate) is_taken: bool,
    /// Drives hang at most until then.
    pub(crate) hangs_until: Instant,
    /// Events since a client was answered.
    unanswered_events: u32,
    /// Judge of slots, where there is something to judge.
    slots: Option<SlotJudge>,
    pub(crate) tally: Tally,
}

impl Service {
    /// Returns a new array whose power is off.
    pub(crate) fn new(plan: &Plan, array: Array, rack: SharedRack) -> Service {
        let blocks = usize::try_from(array.volume_blocks()).expect("a small volume");
        assert!(blocks > 0, "a volume has blocks");
        Service {
            slots: SlotJudge::of(plan, &array),
            clients: Clients::new(blocks, plan.is_write_through(), rack.clone()),
            ledger: Ledger::new(array.code()),
            plan: plan.clone(),
            array,
            rack,
            volume: None,
            now: Instant(0),
            is_taken: false,
            hangs_until: Instant(0),
            unanswered_events: 0,
            tally: Tally::default(),
        }
    }

    /// The power is off, or about to be noticed to be; or the server has ended, for another one has its drives.
    pub(crate) fn is_dark(&self) -> bool {
        self.volume.as_ref().is_none_or(Volume::has_ended) || self.rack.lock().power.is_off()
    }

    /// A member has lost its volatile cache. Beside others that are lost, what no flush has covered may be gone, as when the power of all
    /// fails.
    pub(crate) fn member_lost_cache(&mut self) {
        if self.plan.volatile_cache && !self.ledger.is_tolerable() {
            self.clients.oracle.power_failed();
        }
    }

    /// Recovery proper is over: true when the power failed in it.
    pub(crate) fn has_lost_power_in_recovery(&self) -> bool {
        let power = &mut self.rack.lock().power;
        power.recovering = false;
        assert!(self.volume.is_none(), "recovery proper is over before the engine serves");
        power.is_off()
    }

    /// The engine; only asked for while the power is on.
    pub(crate) fn volume(&mut self) -> &mut Volume {
        self.volume.as_mut().expect("the power is on")
    }

    /// The engine of the volume; only asked for while the power is on.
    pub(crate) fn engine(&mut self) -> &dyn Engine {
        self.volume().engine()
    }

    /// Nothing moves though it should.
    pub(crate) fn stuck(&self, what: &str) -> Failure {
        let state = self.volume.as_ref().map(|volume| volume.engine().describe()).unwrap_or_default();
        Failure::new(format!("{what}; {state}"))
    }

    /// True when something takes longer than it may, beyond the time that drives hang.
    pub(crate) fn is_over(&self, since: Instant) -> bool {
        assert!(since <= self.now, "nothing begins in the future");
        self.now.since(since.max(self.hangs_until)).0 > PATIENCE_NS
    }

    /// Goes to the next event. False when there is none, or the power has failed.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        if self.is_dark() {
            return Ok(false);
        }
        let Some(mut next) = self.volume().clients_view().next_deadline() else { return Ok(false) };
        if self.plan.limit_ms > 0 && self.now < self.hangs_until {
            next = next.min(self.now + LOOK_EVERY);
        }
        self.now = self.now.max(next);
        self.watch();
        self.turn()?;
        Ok(true)
    }

    /// Looks at the drives, as a server does: one that does not answer counts as away.
    fn watch(&mut self) {
        if self.plan.limit_ms == 0 {
            return;
        }
        let (now, members) = (self.now, self.plan.members);
        if let Some(volume) = self.volume().log() {
            for member in 0..members {
                volume.condition(now, DriveIndex::at(member));
            }
        }
    }

    pub(crate) fn run_events(&mut self, events: u64) -> Result<(), Failure> {
        for _ in 0..events {
            if !self.advance()? {
                break;
            }
        }
        Ok(())
    }

    /// Everything that happens at this instant.
    pub(crate) fn turn(&mut self) -> Result<(), Failure> {
        let now = self.now;
        for _ in 0..TURNS_AT_ONCE_MAX {
            assert!(self.now == now, "time stands still within a turn");
            let mut replies = Vec::new();
            let more = self.volume().clients_view().turn(now, &mut replies);
            if let (Some(judge), Some(volume)) = (&mut self.slots, &mut self.volume) {
                judge.look(volume)?;
            }
            for reply in replies {
                self.on_reply(reply)?;
            }
            if self.is_taken {
                self.expect_fencing()?;
            }
            if self.is_dark() {
                return Ok(());
            }
            if !more {
                let overdue = self.engine().overdue(now);
                return overdue.map_or(Ok(()), |what| Err(Failure::new(what)));
            }
        }
        Err(Failure::new("live-lock: the engine is busy for ever at one instant"))
    }

    fn on_reply(&mut self, mut reply: Reply) -> Result<(), Failure> {
        self.unanswered_events = 0;
        if self.is_taken {
            return self.on_void_reply(reply);
        }
        match self.clients.on_reply(self.now, &reply, &self.ledger, &mut self.tally)? {
            Answered::Done => self.volume().clients_view().frames().give_many(&mut reply.frames),
            Answered::Failed => {}
            Answered::OutOfSpace => return self.expect_no_write_area(reply.id.0),
            // One bad block fails them all: ask for each alone.
            Answered::AskAlone(mut blocks) => return blocks.try_for_each(|lba| self.observe(lba, 1)),
        }
        Ok(())
    }

    /// Zones of the write area are space that clients have before a write fails.
    fn expect_no_write_area(&mut self, id: u64) -> Result<(), Failure> {
        let area = self.volume().log().map(|volume| volume.engine.slot_demand().area);
        if matches!(area, None | Some(AreaState::Closed { .. })) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "request {id}, a write, fails for want of space, and the write area has zones"
        )))
    }

    /// Asks for the first read of blocks after a crash: what is read then is what there is.
    pub(crate) fn observe(&mut self, lba: u64, blocks: u64) -> Result<(), Failure> {
        if !self.make_room(blocks)? {
            return Ok(());
        }
        self.ask_read(lba, blocks, What::Observe { lba, blocks })
    }

    pub(crate) fn ask_read(&mut self, lba: u64, blocks: u64, what: What) -> Result<(), Failure> {
        assert!(blocks > 0, "a read is about blocks");
        assert!(lba + blocks <= self.clients.oracle.blocks(), "block {lba}+{blocks} of the volume");
        let count = u32::try_from(blocks).expect("bounded by the frames of clients");
        self.ask(RequestOp::Read { lba: Lba(lba), blocks: count }, what)
    }

    pub(crate) fn ask(&mut self, op: RequestOp, what: What) -> Result<(), Failure> {
        let now = self.now;
        let id = self.clients.begin(now, what);
        self.volume().clients_view().submit(now, Request { id: RequestId(id), op });
        self.turn()
    }

    /// Waits until another request may be in flight and its payload in memory; false when the power failed.
    pub(crate) fn make_room(&mut self, frames: u64) -> Result<bool, Failure> {
        let frames = index_of(frames);
        assert!(frames <= self.plan.client_frames, "a payload fits the frames of clients");
        while !self.is_dark() {
            let crowded = self.clients.waiting() >= self.plan.depth;
            if !crowded && self.engine().client_frames_available() >= frames {
                return Ok(true);
            }
            self.expect_progress()?;
        }
        Ok(false)
    }

    /// Goes to the next event; there must be one, and nobody may have waited for too long.
    pub(crate) fn expect_progress(&mut self) -> Result<(), Failure> {
        let advanced = self.advance()?;
        if !advanced && !self.is_dark() {
            let waiting = self.clients.waiting_ids();
            return Err(self.stuck(&format!("nothing is due, and requests {waiting:?} wait for ever")));
        }
        self.unanswered_events += 1;
        if self.unanswered_events > UNANSWERED_EVENTS_MAX {
            return Err(self.stuck("live-lock: much happens, and nobody is answered"));
        }
        if let Some((id, since)) = self.clients.oldest()
            && self.is_over(since)
        {
            let since = since.max(self.hangs_until);
            return Err(self.stuck(&format!("request {id} waits since {} ms", since.0 / 1_000_000)));
        }
        Ok(())
    }

    /// Waits until every request is answered.
    pub(crate) fn drain(&mut self) -> Result<(), Failure> {
        while self.clients.waiting() > 0 && !self.is_dark() {
            self.expect_progress()?;
        }
        Ok(())
    }

    /// Every request is answered, and the engine has nothing left to do.
    pub(crate) fn come_to_rest(&mut self) -> Result<(), Failure> {
        self.drain()?;
        assert!(self.is_dark() || self.clients.waiting() == 0, "every request is answered");
        let since = self.now;
        while !self.is_dark() && !self.engine().is_quiet() {
            if !self.advance()? && !self.is_dark() {
                return Err(self.stuck("the engine never comes to rest: nothing is due"));
            }
            if self.is_over(since) {
                return Err(self.stuck("the engine never comes to rest"));
            }
        }
        Ok(())
    }

    /// Waits until engine and drives may part; says what cannot be done when that never comes.
    pub(crate) fn come_apart(&mut self, what: &str) -> Result<(), Failure> {
        let since = self.now;
        while !self.is_dark() && !self.volume().is_at_rest() {
            if !self.advance()? && !self.is_dark() || self.is_over(since) {
                return Err(self.stuck(&format!("{what}: the engine never comes to rest")));
            }
        }
        Ok(())
    }
}
