//! World of a run: a device, the drive over it, its host, and what is checked after each power failure.

use super::act::Act;
use super::device::DeviceHandle;
use super::model::{Before, Change, FoundBlocks, TORN, ZoneModel, is_number, is_torn};
use super::plan::{Apart, Plan};
use crate::conventional::Tally;
use crate::conventional::model::fill;
use crate::inplace::disk::{DiskHandle, wait_for_answer};
use crate::tally::Failure;
use base::frame::Frame;
use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
use block::device::BlockDevice;
use drive::inband::header::Label;
use drive::inband::layout::{JOURNAL_ZONES, Layout};
use drive::inband::pair;
use drive::inband::{Elsewhere, InbandDrive, Joined, OpenError, format, format_elsewhere, open};
use std::collections::BTreeMap;
use zone::device::{Command, Completion, Op, Status, Token, ZoneState, ZonedDevice};

/// Events after which a run is stuck.
const EVENTS_MAX: u32 = 100_000;
/// Most openings that are to bring a journal near the end of a zone: each takes a record at least.
const OPENINGS_MAX: u32 = 1_000;
/// Most blocks of a command.
const TRANSFER_MAX: u32 = 64;

/// Command of the host that is not answered.
#[derive(Debug)]
enum Asked {
    Write { zone: usize, life: u64, end: usize },
    Read { zone: usize, life: u64, offset: u32, blocks: u32, known: usize, end: u32, judged: Judged },
    Reset { zone: usize },
    Finish { zone: usize },
    Flush(Vec<(u64, usize)>),
    Other,
}

/// How a read is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// Not at all: nobody knows which life this is.
    No,
    /// By what is known of the zone.
    Known,
    /// The zone is offline: what it had is an error.
    Offline,
}

/// Journal as the drive had it when the power failed.
#[derive(Clone, Copy, Debug)]
struct JournalBefore {
    /// Zone that was written.
    zone: u32,
    /// It was being moved.
    is_moving: bool,
    /// The zone that it moves to had what was needed, or may have had.
    is_at_risk: bool,
    /// Zones that had died.
    is_dead: [bool; 2],
}

/// Openings of a drive, of which the last one is through.
#[derive(Clone, Copy, Debug)]
struct Openings<'a> {
    /// Commands after which the power fails.
    cuts: &'a [u64],
    /// The power fails behind the others, too, until the journal's zone has room for no more records than these.
    left: u64,
}

impl Openings<'_> {
    fn cut(cuts: &[u64]) -> Openings<'_> {
        Openings { cuts, left: u64::MAX }
    }
}

/// The device, with the disk of its journal if that lies apart.
type Joint = Joined<DeviceHandle, DiskHandle>;

/// What a restart does to the device, and to the disk of a journal.
type Stop = (fn(&DeviceHandle), fn(&DiskHandle));

/// Journal that lies on a disk of its own.
struct JournalApart {
    disk: DiskHandle,
    /// Label of the drive that needs it.
    label: Label,
    /// A write of the disk was to fail since the last power failure.
    has_faults: bool,
}

/// See the module.
pub struct InbandWorld {
    plan: Plan,
    layout: Layout,
    device: DeviceHandle,
    journal: Option<JournalApart>,
    drive: Option<InbandDrive<Joint>>,
    zones: Vec<ZoneModel>,
    asked: BTreeMap<u64, Asked>,
    next_token: u64,
    next_block: u64,
    now: Instant,
    /// The device is gone until the next power failure: all commands may fail.
    is_gone: bool,
    /// A write was to fail since then.
    has_write_faults: bool,
    last: Option<Completion>,
    /// The drive was refused, as it may be: nothing follows.
    is_over: bool,
    hash: u64,
    tally: Tally,
}

fn index(zone: u32) -> usize {
    usize::try_from(zone).expect("few zones")
}

/// Carries out one command of a device that nobody else uses; none once `left` are through: the power fails.
fn carry_out(
    device: &mut Joint,
    command: Command,
    now: &mut Instant,
    left: &mut Option<u64>,
) -> Option<Completion> {
    device.submit(*now, command);
    if let Some(left) = left {
        if *left == 0 {
            device.device().crash();
            if let Some(pair) = device.pair() {
                pair.disk().crash();
            }
            return None;
        }
        *left -= 1;
    }
    let mut completions = Vec::new();
    while completions.is_empty() {
        *now = device.next_event()?.max(*now);
        device.poll(*now, &mut completions);
    }
    completions.pop()
}

impl InbandWorld {
    /// Formats a drive and opens it.
    pub fn new(plan: &Plan) -> Result<InbandWorld, Failure> {
        plan.check();
        let device = DeviceHandle::new(plan.geometry(), plan.latency, plan.leaves_stale, plan.seed);
        let mut world = InbandWorld {
            plan: plan.clone(),
            layout: plan.layout(),
            device,
            journal: None,
            drive: None,
            zones: vec![ZoneModel::default(); index(plan.zones)],
            asked: BTreeMap::new(),
            next_token: 0,
            next_block: 1,
            now: Instant(1),
            is_gone: false,
            has_write_faults: false,
            last: None,
            is_over: false,
            hash: 0xcbf2_9ce4_8422_2325,
            tally: Tally::default(),
        };
        world.format().map_err(|error| Failure::new(format!("the device is not formatted: {error}")))?;
        let before = JournalBefore { zone: 0, is_moving: false, is_at_risk: false, is_dead: [false; 2] };
        world.open(Openings::cut(&[]), before)?;
        Ok(world)
    }

    /// Makes the drive of the device, and of a disk for its journal if that is to lie apart.
    fn format(&mut self) -> Result<(), OpenError> {
        let (device, mut now) = (self.device.clone(), self.now);
        let mut run = |device: &mut Joint, command| carry_out(device, command, &mut now, &mut None);
        match (self.plan.apart, self.plan.journal_blocks()) {
            (Some(Apart { is_volatile, loses_blocks, .. }), Some(blocks)) => {
                let seed = self.plan.seed ^ 0xd15c;
                // What was there before is anything but zeros.
                let disk = DiskHandle::full_of(0xa5, blocks, is_volatile, (self.plan.latency, seed));
                let disk = disk.losing_blocks(loses_blocks, seed);
                let who = Elsewhere { drive: [7; 16], journal: [9; 16], path: String::new() };
                let label = format_elsewhere(device, disk.clone(), &who, &mut run)?;
                self.journal = Some(JournalApart { disk, label, has_faults: false });
            }
            _ => _ = format(&mut Joined::alone(device), [7; 16], &mut run)?,
        }
        self.now = now;
        Ok(())
    }

    /// The device as it is opened.
    fn joint(&self, now: &mut Instant) -> Result<Joint, OpenError> {
        let device = self.device.clone();
        let Some(JournalApart { disk, label, .. }) = &self.journal else { return Ok(Joined::alone(device)) };
        let pair = pair::open(disk.clone(), label, &mut |disk, op| {
            disk.submit(*now, block::device::Command { token: block::device::Token(0), op });
            wait_for_answer(disk, now, |_| false)
        });
        Ok(Joined::with(device, pair?))
    }

    /// Counts of what was done.
    pub fn tally(&self) -> Tally {
        Tally { disk_commands: self.commands(), ..self.tally }
    }

    fn commands(&self) -> u64 {
        self.device.commands() + self.journal.as_ref().map_or(0, |journal| journal.disk.commands())
    }

    /// Power fails.
    fn crash_all(&self) {
        self.device.crash();
        if let Some(journal) = &self.journal {
            journal.disk.crash();
        }
    }

    /// Hash of all answers.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Opens the drive; before, openings are cut by power failures after so many commands.
    fn open(&mut self, openings: Openings<'_>, mut before: JournalBefore) -> Result<(), Failure> {
        let units = self.plan.cached_units;
        let (mut cuts, mut more) = (openings.cuts.iter().copied(), OPENINGS_MAX);
        loop {
            let cut = cuts.next();
            let (mut now, mut left) = (self.now, cut);
            let opened = self.joint(&mut now).and_then(|joint| {
                open(joint, units, &mut |device, command| carry_out(device, command, &mut now, &mut left))
            });
            self.now = now;
            match opened {
                Ok(drive) if cut.is_none() && (more == 0 || drive.journal_left() <= openings.left) => {
                    self.drive = Some(drive);
                    return self.expect_no_misuse();
                }
                // It was through before the power failed; then it fails now.
                Ok(_) => {
                    more -= u32::from(cut.is_none());
                    self.crash_all();
                }
                Err(OpenError::Gone) if cut.is_some() => {
                    self.tally.openings_cut += 1;
                    before.is_at_risk |= self.dead_journals() > 0;
                }
                Err(_) if self.may_be_refused(before) => {
                    self.is_over = true;
                    return Ok(());
                }
                Err(error) => return Err(Failure::new(format!("the drive is not opened: {error}"))),
            }
            self.expect_no_misuse()?;
        }
    }

    /// True when the drive was refused, as it may be.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn has_died(&self, zone: u32) -> bool {
        matches!(self.device.state(ZoneIndex(zone)), ZoneState::ReadOnly | ZoneState::Offline)
    }

    fn dead_journals(&self) -> usize {
        (0..JOURNAL_ZONES).filter(|zone| self.has_died(*zone)).count()
    }

    /// True when no record may be written any more: both journal zones are dead, or one is and the other was half full, or had a write
    /// that failed.
    fn is_journal_over(&self) -> bool {
        if let Some(journal) = &self.journal {
            return journal.has_faults;
        }
        let is_worn = |zone: u32| {
            let zone = ZoneIndex(zone);
            self.device.pointer(zone) >= self.layout.zone_places / 2 || self.device.is_hit(zone)
        };
        (0..JOURNAL_ZONES).any(|zone| self.has_died(zone) && (self.has_died(1 - zone) || is_worn(1 - zone)))
    }

    /// What excuses that a drive is not opened: its journal is over, was being moved to a zone that had what was needed when the power failed
    /// (in service, or in an opening beside a zone that had died), or the records were in a zone that is offline, which nobody had noticed,
    /// or that it was being moved from. That the other zone is full is as much as an opening can know of that.
    fn may_be_refused(&self, before: JournalBefore) -> bool {
        if self.journal.is_some() {
            return before.is_at_risk;
        }
        let is_lost = |zone: u32| {
            let is_offline = self.device.state(ZoneIndex(zone)) == ZoneState::Offline;
            let is_full = self.device.pointer(ZoneIndex(1 - zone)) == self.layout.zone_places;
            is_offline && (before.zone == zone || before.is_moving || !before.is_dead[index(zone)] || is_full)
        };
        self.is_journal_over() || before.is_at_risk || (0..JOURNAL_ZONES).any(is_lost)
    }

    fn expect_no_misuse(&self) -> Result<(), Failure> {
        match self.device.misuse() {
            Some(misuse) => Err(Failure::new(format!("the device refuses what it is asked: {misuse}"))),
            None => Ok(()),
        }
    }

    fn drive(&mut self) -> &mut InbandDrive<Joint> {
        self.drive.as_mut().expect("the drive is open between acts")
    }

    fn submit(&mut self, zone: u32, op: Op, asked: Asked) {
        self.next_token += 1;
        let token = self.next_token;
        assert!(index(zone) < self.zones.len(), "zone {zone} of {} is asked for", self.zones.len());
        let before = self.asked.insert(token, asked);
        assert!(before.is_none(), "two commands have the token {token}");
        let now = self.now;
        self.drive().submit(now, Command { token: Token(token), zone: ZoneIndex(zone), op });
    }

    /// Finds out which zones have died.
    fn look_for_deaths(&mut self) {
        for (zone, model) in (0..).map(ZoneIndex).zip(&mut self.zones) {
            let state = self.device.state(self.layout.device_zone(zone));
            model.has_degraded = matches!(state, ZoneState::ReadOnly | ZoneState::Offline);
            model.is_offline = state == ZoneState::Offline;
        }
    }

    fn poll(&mut self) -> Result<(), Failure> {
        let mut completions = Vec::new();
        let now = self.now;
        self.drive().poll(now, &mut completions);
        self.look_for_deaths();
        for completion in completions {
            self.take(completion)?;
        }
        Ok(())
    }

    /// Time passes up to an instant.
    fn wait_until(&mut self, until: Instant) -> Result<(), Failure> {
        while let Some(next) = self.drive().next_event().filter(|next| *next <= until) {
            self.now = next.max(self.now);
            self.poll()?;
        }
        self.now = until.max(self.now);
        self.poll()
    }

    /// All commands are answered.
    fn settle(&mut self) -> Result<(), Failure> {
        for _ in 0..EVENTS_MAX {
            self.poll()?;
            if self.asked.is_empty() {
                return Ok(());
            }
            let Some(next) = self.drive().next_event() else {
                return Err(Failure::new(format!("nothing is due, and these wait: {:?}", self.asked)));
            };
            self.now = next.max(self.now);
        }
        Err(Failure::new(format!("stuck with {:?}", self.asked)))
    }

    fn take(&mut self, completion: Completion) -> Result<(), Failure> {
        let Some(asked) = self.asked.remove(&completion.token.0) else {
            return Err(Failure::new(format!("an answer that nobody waits for: {completion:?}")));
        };
        self.tally.commands += 1;
        for part in [self.now.0, completion.token.0, u64::from(completion.status.nvme_code())] {
            self.hash = (self.hash ^ part).wrapping_mul(0x0100_0000_01b3);
        }
        let has_succeeded = completion.status == Status::Success;
        self.tally.failed += u64::from(!has_succeeded);
        let may_fail = matches!(asked, Asked::Read { .. }) || self.may_fail(&asked, completion.zone);
        if !has_succeeded && !may_fail {
            return Err(Failure::new(format!("{asked:?} failed with {:?}", completion.status)));
        }
        let model = &mut self.zones[completion.zone.index()];
        let tells = match asked {
            Asked::Read { .. } => completion.status == Status::ZoneIsOffline,
            _ => !has_succeeded,
        };
        model.is_told |= model.has_degraded && tells;
        match asked {
            Asked::Write { zone, life, end } => self.take_write(zone, life, end, has_succeeded)?,
            Asked::Read { zone, life, offset, blocks, known, end, judged } => {
                if completion.frames.len() != index(blocks) {
                    return Err(Failure::new("a read comes home with other frames"));
                }
                let is_judged = judged != Judged::No && self.zones[zone].life == life;
                if has_succeeded && is_judged {
                    if judged == Judged::Offline && index(offset) < known {
                        return Err(Failure::new(format!(
                            "zone {zone} is offline, and block {offset} is read"
                        )));
                    }
                    self.judge(zone, offset, &completion.frames, known, end)?;
                } else if !has_succeeded && is_judged && !self.is_gone {
                    self.excuse(zone, (offset, blocks), known, completion.status)?;
                }
            }
            Asked::Reset { zone } if has_succeeded => {
                let model = &mut self.zones[zone];
                assert_eq!(model.change, Some(Change::Reset), "zone {zone}: a reset ends that did not begin");
                (model.change, model.before) = (None, None);
            }
            Asked::Finish { zone } if has_succeeded => {
                let model = &mut self.zones[zone];
                assert_eq!(
                    model.change,
                    Some(Change::Finish),
                    "zone {zone}: a finish ends that did not begin"
                );
                (model.change, model.is_finished) = (None, true);
                if model.has_failed {
                    model.blocks.truncate(model.answered);
                }
                model.durable = model.blocks.len();
            }
            Asked::Flush(answered) if has_succeeded => {
                for (model, (life, answered)) in self.zones.iter_mut().zip(answered) {
                    if model.life == life {
                        assert!(answered <= model.answered, "a flush covers {answered} blocks that were not");
                        model.durable = model.durable.max(answered);
                    }
                }
            }
            Asked::Reset { .. } | Asked::Finish { .. } | Asked::Flush(_) | Asked::Other => {}
        }
        self.last = Some(completion);
        Ok(())
    }

    /// A write is answered.
    fn take_write(&mut self, zone: usize, life: u64, end: usize, has_succeeded: bool) -> Result<(), Failure> {
        let is_volatile = self.plan.is_volatile || self.plan.apart.is_some_and(|apart| apart.is_volatile);
        let model = &mut self.zones[zone];
        if model.life == life {
            if has_succeeded && model.failed_end.is_some_and(|failed| end > failed) {
                return Err(Failure::new(format!("zone {zone}: a write succeeds after one that failed")));
            }
            if !has_succeeded {
                model.has_failed = true;
                model.failed_end = Some(model.failed_end.map_or(end, |failed| failed.min(end)));
            }
            if has_succeeded {
                if model.answered >= end {
                    return Err(Failure::new(format!("zone {zone}: writes are answered out of order")));
                }
                model.answered = end;
                model.durable = if is_volatile { model.durable } else { end };
            }
        }
        Ok(())
    }

    /// What excuses a command that is no read: the device is gone; its zone has died, or a write failed there; it is a write or a reset, and
    /// the journal is over.
    fn may_fail(&self, asked: &Asked, zone: ZoneIndex) -> bool {
        let own = self.layout.device_zone(zone);
        let is_of_zone = !matches!(asked, Asked::Flush(_));
        let model = &self.zones[zone.index()];
        let is_of_journal = matches!(asked, Asked::Write { .. } | Asked::Reset { .. });
        self.is_gone
            || (is_of_zone && (self.device.is_hit(own) || model.has_degraded || model.has_failed))
            || (is_of_journal && self.is_journal_over())
    }

    /// Holds what was read against what was written.
    fn judge(
        &mut self,
        zone: usize,
        offset: u32,
        frames: &[Frame],
        known: usize,
        end: u32,
    ) -> Result<(), Failure> {
        let model = &self.zones[zone];
        for (at, frame) in (offset..).zip(frames) {
            assert!(known <= model.blocks.len(), "zone {zone}: {known} blocks are known of {}", model.end());
            let is_right = match model.blocks.get(index(at)) {
                Some(number) if index(at) < known => is_number(*number, frame),
                // Behind the end of a zone that is full there may be blocks that were torn.
                _ => {
                    at < end || frame.is_blank() || ((model.is_full || model.has_degraded) && is_torn(frame))
                }
            };
            self.tally.blocks_verified += 1;
            if !is_right {
                let what = format!("zone {zone}, block {at} of {end}: other data or metadata, {frame:?}");
                return Err(Failure::new(what));
            }
        }
        Ok(())
    }

    /// Only blocks that the device cannot return excuse a read.
    fn excuse(
        &self,
        zone: usize,
        (offset, blocks): (u32, u32),
        known: usize,
        status: Status,
    ) -> Result<(), Failure> {
        let model = &self.zones[zone];
        let range = offset..offset + blocks;
        let is_spoiled = model.spoiled.iter().any(|at| range.contains(at));
        let is_beyond = (model.has_degraded || model.has_failed) && index(range.end) > known;
        if (status == Status::UnrecoveredReadError && (is_spoiled || is_beyond)) || model.is_offline {
            return Ok(());
        }
        Err(Failure::new(format!("zone {zone}: blocks {range:?} are not read: {status:?}")))
    }

    /// Carries out an act.
    pub fn act(&mut self, act: &Act) -> Result<(), Failure> {
        act.check(self.plan.zones, self.layout.capacity());
        match act {
            Act::Write { zone, blocks, is_append } => self.write(*zone, *blocks, *is_append),
            Act::Fill { zone, left } => self.fill_up(*zone, *left)?,
            Act::Churn { zone, blocks } => self.churn(*zone, *blocks)?,
            Act::Read { zone, offset, blocks } => self.read(*zone, *offset, *blocks),
            Act::Reset(zone) => self.reset(*zone),
            Act::Finish(zone) => self.finish(*zone),
            Act::Close(zone) => {
                let model = &self.zones[index(*zone)];
                let is_over = model.is_finished || model.is_full || (model.has_degraded && model.is_told);
                let is_active = model.answered > 0 && model.end() < self.layout.capacity() && !is_over;
                if is_active
                    && model.change.is_none()
                    && !model.has_failed
                    && model.answered == model.blocks.len()
                {
                    self.submit(*zone, Op::Close, Asked::Other);
                }
            }
            Act::Flush => {
                let answered = self.zones.iter().map(|model| (model.life, model.answered)).collect();
                self.submit(0, Op::Flush, Asked::Flush(answered));
            }
            Act::Wait(nanos) => self.wait_until(self.now + Nanos(*nanos))?,
            Act::Settle => self.settle()?,
            Act::ReadAll => self.read_all()?,
            Act::Crash(cuts) => self.crash(cuts)?,
            Act::CrashNearTurn(left) => self.crash_near_turn(*left)?,
            Act::Kill(cuts) => self.kill(cuts)?,
            Act::Reopen => {
                self.settle()?;
                self.crash(&[])?;
            }
            Act::WriteFault => {
                self.device.fail_next_write();
                self.has_write_faults = true;
            }
            Act::Spoil { zone, offset } => {
                let model = &mut self.zones[index(*zone)];
                if index(*offset) < model.answered && model.change.is_none() {
                    model.spoiled.push(*offset);
                    let own = self.layout.device_zone(ZoneIndex(*zone));
                    self.device.spoil(own, self.layout.place(*offset));
                }
            }
            Act::Degrade { zone, is_offline } => {
                self.degrade(self.layout.device_zone(ZoneIndex(*zone)), 0, *is_offline);
            }
            Act::Doom { zone, after, is_offline } => self.degrade(ZoneIndex(*zone), *after, *is_offline),
            Act::Die => {
                self.device.die();
                self.is_gone = true;
            }
            Act::JournalFault => self.fail_journal_write(),
            Act::JournalDie => self.lose_journal(),
        }
        if self.is_over {
            return Ok(());
        }
        self.poll()?;
        self.expect_no_misuse()
    }

    /// The next write to the disk of the journal fails, if there is one.
    fn fail_journal_write(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.disk.fail_next_write();
            (self.has_write_faults, journal.has_faults) = (true, true);
        }
    }

    /// The disk of the journal is gone, if there is one.
    fn lose_journal(&mut self) {
        if let Some(journal) = &self.journal {
            journal.disk.die();
            self.is_gone = true;
        }
    }

    /// A zone is written up to so many blocks before its end.
    fn fill_up(&mut self, zone: u32, left: u32) -> Result<(), Failure> {
        let wanted = self.layout.capacity() - left;
        loop {
            let end = self.zones[index(zone)].end();
            if end >= wanted {
                return Ok(());
            }
            self.write(zone, (wanted - end).min(TRANSFER_MAX - 3), false);
            if self.zones[index(zone)].end() == end {
                return Ok(());
            }
            self.settle()?;
        }
    }

    /// Blocks are written one after the other, and the zone reset when it is full.
    fn churn(&mut self, zone: u32, blocks: u32) -> Result<(), Failure> {
        for _ in 0..blocks {
            if self.zones[index(zone)].end() == self.layout.capacity() {
                self.reset(zone);
            } else {
                self.write(zone, 1, false);
            }
            self.settle()?;
        }
        Ok(())
    }

    /// A zone of the device turns read-only, or offline.
    fn degrade(&mut self, zone: ZoneIndex, after: u64, is_offline: bool) {
        let state = if is_offline { ZoneState::Offline } else { ZoneState::ReadOnly };
        self.device.degrade(zone, state, after);
        self.look_for_deaths();
    }

    /// Zones that are active, or may still be.
    fn active(&self) -> usize {
        let capacity = index(self.layout.capacity());
        let is_active = |(zone, model): &(ZoneIndex, &ZoneModel)| {
            let is_used =
                model.end() > 0 && model.answered < capacity && !model.is_finished && !model.is_full;
            // One that died is not, once the host was told; but nobody looks again at one of which a write failed before.
            let is_dead =
                model.has_degraded && model.is_told && !self.device.is_hit(self.layout.device_zone(*zone));
            !is_dead && (model.change.is_some() || is_used)
        };
        (0..).map(ZoneIndex).zip(&self.zones).filter(is_active).count()
    }

    fn write(&mut self, zone: u32, blocks: u32, is_append: bool) {
        let model = &self.zones[index(zone)];
        let end = model.end();
        let blocks = blocks.min(self.layout.capacity().saturating_sub(end)).min(if is_append {
            32
        } else {
            TRANSFER_MAX
        });
        let is_over = model.is_finished || model.is_full || model.change == Some(Change::Finish);
        let is_over = is_over || model.has_failed || (model.has_degraded && model.is_told);
        let has_place = end > 0 || self.active() < index(self.plan.active_zones_max);
        if blocks == 0 || is_over || !has_place {
            return;
        }
        let numbers: Vec<u64> = (self.next_block..).take(index(blocks)).collect();
        self.next_block += u64::from(blocks);
        let frames = numbers
            .iter()
            .map(|number| {
                let mut frame = Frame::zeroed();
                fill(*number, &mut frame);
                frame
            })
            .collect();
        let model = &mut self.zones[index(zone)];
        assert!(model.answered <= index(end), "zone {zone}: more is answered than written, {end} blocks");
        assert!(model.change != Some(Change::Finish), "zone {zone} is written while it is made full");
        model.blocks.extend(numbers);
        let asked = Asked::Write { zone: index(zone), life: model.life, end: model.blocks.len() };
        let op = if is_append { Op::Append { frames } } else { Op::Write { offset: end, frames } };
        self.submit(zone, op, asked);
    }

    fn read(&mut self, zone: u32, offset: u32, blocks: u32) {
        let capacity = self.layout.capacity();
        assert!(offset < capacity, "zone {zone}: block {offset} of {capacity} is read");
        let blocks = blocks.min(capacity - offset);
        let model = &self.zones[index(zone)];
        let asked = Asked::Read {
            zone: index(zone),
            life: model.life,
            offset,
            blocks,
            known: model.answered,
            end: model.end(),
            judged: match model.change {
                Some(Change::Reset) => Judged::No,
                _ if model.is_offline => Judged::Offline,
                _ => Judged::Known,
            },
        };
        let frames = (0..blocks).map(|_| Frame::zeroed()).collect();
        self.submit(zone, Op::Read { offset, frames }, asked);
    }

    fn reset(&mut self, zone: u32) {
        let model = &mut self.zones[index(zone)];
        if model.change.is_some() || model.has_failed || (model.has_degraded && model.is_told) {
            return;
        }
        assert!(model.before.is_none(), "zone {zone}: a reset begins, and one is not answered");
        model.before = Some(Before {
            blocks: std::mem::take(&mut model.blocks),
            durable: model.durable,
            is_finished: model.is_finished || model.is_full,
            spoiled: std::mem::take(&mut model.spoiled),
        });
        (model.answered, model.durable, model.is_finished, model.is_full) = (0, 0, false, false);
        (model.change, model.life) = (Some(Change::Reset), model.life + 1);
        self.submit(zone, Op::Reset, Asked::Reset { zone: index(zone) });
    }

    fn finish(&mut self, zone: u32) {
        let capacity = self.layout.capacity();
        let model = &mut self.zones[index(zone)];
        // An empty zone that is finished shows what the device has left there.
        let shows_stale = self.plan.leaves_stale && model.end() == 0;
        let is_over = model.is_finished || model.is_full || model.end() == capacity || shows_stale;
        if model.change.is_some() || model.has_failed || (model.has_degraded && model.is_told) || is_over {
            return;
        }
        model.change = Some(Change::Finish);
        self.submit(zone, Op::Finish, Asked::Finish { zone: index(zone) });
    }

    fn read_all(&mut self) -> Result<(), Failure> {
        self.settle()?;
        for zone in 0..self.plan.zones {
            for offset in (0..self.layout.capacity()).step_by(40) {
                self.read(zone, offset, 40);
            }
        }
        self.settle()
    }

    /// Answer to the only command that waits.
    fn answer(&mut self) -> Result<Completion, Failure> {
        self.settle()?;
        assert!(self.asked.is_empty(), "others are under way: {:?}", self.asked);
        self.last.take().ok_or_else(|| Failure::new("nothing was answered"))
    }

    /// The power fails; then every zone is looked at.
    fn crash(&mut self, cuts: &[u64]) -> Result<(), Failure> {
        self.tally.crashes += 1;
        self.restart((DeviceHandle::crash, DiskHandle::crash), Openings::cut(cuts))
    }

    /// The power fails, and again right behind each opening, until the journal's zone has room for so many records.
    fn crash_near_turn(&mut self, left: u64) -> Result<(), Failure> {
        self.tally.crashes += 1;
        self.restart((DeviceHandle::crash, DiskHandle::crash), Openings { cuts: &[], left })
    }

    /// The server is killed. What was answered is there, and durable once the drive is open again.
    fn kill(&mut self, cuts: &[u64]) -> Result<(), Failure> {
        self.tally.kills += 1;
        if cuts.is_empty() {
            self.zones.iter_mut().for_each(|model| model.durable = model.answered);
        }
        self.restart((DeviceHandle::let_go, DiskHandle::let_go), Openings::cut(cuts))
    }

    /// The drive is gone, and this happens to its device; then it is opened, and every zone is looked at.
    fn restart(&mut self, (how, of_journal): Stop, openings: Openings<'_>) -> Result<(), Failure> {
        self.check();
        let before = self.drive.take().map(|drive| JournalBefore {
            zone: drive.journal_zone(),
            is_moving: drive.is_moving_journal(),
            is_at_risk: drive.is_journal_at_risk(),
            is_dead: [self.has_died(0), self.has_died(1)],
        });
        let before = before.ok_or_else(|| Failure::new("a drive that is not open"))?;
        self.asked.clear();
        self.device.revive();
        how(&self.device);
        if let Some(journal) = &mut self.journal {
            journal.disk.revive();
            of_journal(&journal.disk);
            journal.has_faults = false;
        }
        (self.is_gone, self.has_write_faults) = (false, false);
        self.look_for_deaths();
        // Others may die while the drive is opened.
        for model in &mut self.zones {
            model.is_told = model.has_degraded;
        }
        assert!(self.drive.is_none(), "a drive is opened beside another");
        self.open(openings, before)?;
        if self.is_over {
            return Ok(());
        }
        self.look_for_deaths();
        for zone in 0..self.plan.zones {
            self.look_at(zone)?;
        }
        Ok(())
    }

    /// Finds out how a zone came through a power failure, and whether it may be so.
    fn look_at(&mut self, zone: u32) -> Result<(), Failure> {
        self.submit(zone, Op::Report { count: 1 }, Asked::Other);
        let report = self.answer()?.report;
        let descriptor = *report.first().ok_or_else(|| Failure::new("an empty report"))?;
        let capacity = self.layout.capacity();
        let is_full = descriptor.state == ZoneState::Full;
        let is_read_only = descriptor.state == ZoneState::ReadOnly;
        let model = &mut self.zones[index(zone)];
        let is_dead = is_read_only || descriptor.state == ZoneState::Offline;
        // One that died while the drive was opened may be known, or not.
        if (model.is_told && !is_dead) || (!model.has_degraded && is_dead) {
            return Err(Failure::new(format!("zone {zone} is {:?}", descriptor.state)));
        }
        model.is_told = is_dead;
        if model.is_offline {
            return Ok(());
        }
        let pointer = if is_full || is_read_only { capacity } else { descriptor.write_pointer };
        // Beyond what the model says nothing is judged before it is known which life this is.
        (model.has_failed, model.failed_end) = (false, None);
        let mut found = Vec::new();
        for offset in 0..pointer.saturating_add(1).min(capacity) {
            let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
            let (zone, life) = (index(zone), u64::MAX);
            let asked = Asked::Read { zone, life, offset, blocks: 1, known: 0, end: 0, judged: Judged::No };
            self.submit(u32::try_from(zone).expect("small"), op, asked);
            let answer = self.answer()?;
            found.push((answer.status, answer.frames));
        }
        self.look_for_deaths();
        if self.zones[index(zone)].is_offline {
            return Ok(());
        }
        let has_metadata =
            |(status, frames): &(Status, Vec<Frame>)| *status != Status::Success || !is_torn(&frames[0]);
        let end = match is_full || is_read_only {
            true => found.iter().rposition(has_metadata).map_or(0, |at| at + 1),
            false => index(pointer),
        };
        let is_blank =
            |(status, frames): &(Status, Vec<Frame>)| *status == Status::Success && frames[0].is_blank();
        if !is_full && !is_read_only && !found[end..].iter().all(is_blank) {
            return Err(Failure::new(format!("zone {zone}: something lies behind its end, block {end}")));
        }
        found.truncate(end);
        self.adopt(index(zone), FoundBlocks { blocks: found, is_full, is_read_only })
    }

    /// The model goes on from what was found, if that may be.
    fn adopt(&mut self, zone: usize, found: FoundBlocks) -> Result<(), Failure> {
        let capacity = index(self.layout.capacity());
        let model = &mut self.zones[zone];
        let before = model.before.take();
        let change = model.change.take();
        let present = Before {
            blocks: std::mem::take(&mut model.blocks),
            durable: model.durable,
            is_finished: model.is_finished || model.is_full,
            spoiled: std::mem::take(&mut model.spoiled),
        };
        let (chosen, fit) = match found.fits(&present, change == Some(Change::Finish), capacity) {
            Ok(fit) => (present, fit),
            Err(wrong) => match before {
                Some(before) => {
                    let fit = found.fits(&before, false, capacity).map_err(|old| {
                        Failure::new(format!("zone {zone}: neither reset ({wrong}) nor as before ({old})"))
                    })?;
                    (before, fit)
                }
                None => return Err(Failure::new(format!("zone {zone}: {wrong}"))),
            },
        };
        let end = found.blocks.len();
        self.tally.blocks_lost += u64::try_from(chosen.blocks.len() - fit).expect("small");
        self.tally.blocks_found += u64::try_from(fit.saturating_sub(chosen.durable)).expect("small");
        self.tally.blocks_verified += u64::try_from(end).expect("small");
        model.blocks = chosen.blocks;
        assert!(fit <= end && fit <= model.blocks.len(), "zone {zone}: {fit} blocks fit, of {end}");
        model.blocks.truncate(fit);
        model.blocks.resize(end, TORN);
        model.spoiled = chosen.spoiled;
        model.spoiled.retain(|at| index(*at) < end);
        (model.answered, model.durable) = (end, end);
        model.is_full = found.is_full;
        model.is_finished = false;
        model.life += 1;
        model.check(zone, self.layout.capacity());
        Ok(())
    }

    /// What is known of zones and of commands under way is of one piece.
    fn check(&self) {
        assert_eq!(self.zones.len(), index(self.plan.zones), "a model for each zone");
        let newest = self.asked.keys().next_back().copied().unwrap_or(0);
        assert!(newest <= self.next_token, "command {newest} is under way, {} is the last", self.next_token);
        for (zone, model) in self.zones.iter().enumerate() {
            model.check(zone, self.layout.capacity());
            assert!(
                model.blocks.iter().all(|number| *number < self.next_block),
                "zone {zone} has blocks that were not written: {} comes next",
                self.next_block
            );
        }
        let Tally { commands, failed, .. } = self.tally;
        assert!(failed <= commands, "{failed} commands of {commands} failed");
    }

    /// The end of a run: everything is answered, read, and there after another power failure.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.settle()?;
        if !self.is_gone && !self.has_write_faults {
            self.act(&Act::Flush)?;
            self.read_all()?;
        }
        self.crash(&[])?;
        if self.is_over {
            return Ok(());
        }
        self.read_all()?;
        let commands = self.commands();
        self.crash(&[])?;
        match self.commands() > commands {
            true => Ok(()),
            false => Err(Failure::new("a drive is opened without a look at the device")),
        }
    }
}
