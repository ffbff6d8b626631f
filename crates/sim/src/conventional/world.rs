//! World of a run: a disk, the drive over it, its host, and what is checked after each power failure.

use super::act::Act;
use super::below::{Below, PATIENCE};
use super::model::{Before, Change, ZoneModel, fill, is_block};
use super::plan::Plan;
use super::tally::Tally;
use crate::inplace::disk::{Away, DiskHandle, wait_for_answer};
use crate::tally::Failure;
use base::frame::Frame;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, ZoneIndex};
use block::device::{self as block_device, BlockDevice};
use drive::conventional::label::Label;
use drive::conventional::layout::{Layout, sector_of};
use drive::conventional::{ConventionalDrive, OpenError, Options, format, open};
use std::collections::BTreeMap;
use zone::device::{Command, Completion, Op, Status, Token, ZoneState, ZonedDevice};

/// Events after which a run is stuck.
const EVENTS_MAX: u32 = 100_000;
/// Most blocks of a command.
const TRANSFER_MAX: u32 = 64;

/// Command of the host that is not answered.
#[derive(Debug)]
enum Asked {
    Write { zone: usize, life: u64, end: usize },
    Read { zone: usize, life: u64, offset: u32, blocks: u32, known: usize, end: u32, is_judged: bool },
    Reset { zone: usize },
    Finish { zone: usize },
    Flush(Vec<(u64, usize)>),
    SelfTest,
    Other,
}

/// What happened to a disk that is waited for, since the drive was opened.
#[derive(Debug, Default)]
struct Outages {
    /// It lost power.
    has_lost_power: bool,
    /// Time for which it has been away, within one hiccup.
    away: u64,
    /// A write failed, and is given again.
    has_failed: bool,
}

/// See the module.
pub struct ConventionalWorld {
    plan: Plan,
    layout: Layout,
    disk: DiskHandle,
    drive: Option<ConventionalDrive<Below>>,
    zones: Vec<ZoneModel>,
    asked: BTreeMap<u64, Asked>,
    next_token: u64,
    next_block: u64,
    now: Instant,
    /// Commands may fail until the next power failure.
    is_faulty: bool,
    outages: Outages,
    rotten_label: bool,
    last: Option<Completion>,
    hash: u64,
    tally: Tally,
}

fn index(zone: u32) -> usize {
    usize::try_from(zone).expect("few zones")
}

/// Carries out one command of a disk that nobody else uses; none once `left` are through: the power fails.
fn carry_out(
    disk: &mut DiskHandle,
    op: block_device::Op,
    now: &mut Instant,
    left: &mut Option<u64>,
) -> Option<block_device::Completion> {
    disk.submit(*now, block_device::Command { token: block_device::Token(0), op });
    if let Some(left) = left {
        if *left == 0 {
            disk.crash();
            return None;
        }
        *left -= 1;
    }
    wait_for_answer(disk, now, |_| false)
}

impl ConventionalWorld {
    /// Formats a drive and opens it.
    pub fn new(plan: &Plan) -> Result<ConventionalWorld, Failure> {
        plan.check();
        let layout = plan.layout();
        let bytes = usize::try_from(layout.blocks).expect("small") * BLOCK_BYTES;
        // What was there before is anything but zeros.
        let content = vec![0xa5; bytes];
        let disk = DiskHandle::new(content, plan.is_volatile, plan.latency, plan.seed);
        let disk = disk.losing_blocks(plan.loses_blocks, plan.seed);
        let mut world = ConventionalWorld {
            plan: plan.clone(),
            layout,
            disk,
            drive: None,
            zones: vec![ZoneModel::default(); index(plan.zones)],
            asked: BTreeMap::new(),
            next_token: 0,
            next_block: 1,
            now: Instant(1),
            is_faulty: false,
            outages: Outages::default(),
            rotten_label: false,
            last: None,
            hash: 0xcbf2_9ce4_8422_2325,
            tally: Tally::default(),
        };
        let label = Label { uuid: [7; 16], layout };
        let mut handle = world.disk.clone();
        let mut now = world.now;
        let made = format(&mut handle, &label, &mut |disk, op| carry_out(disk, op, &mut now, &mut None));
        made.map_err(|error| Failure::new(format!("the disk is not formatted: {error}")))?;
        world.now = now;
        world.open(&[])?;
        Ok(world)
    }

    /// Counts of what was done.
    pub fn tally(&self) -> Tally {
        Tally { disk_commands: self.disk.commands(), ..self.tally }
    }

    /// Hash of all answers.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Opens the drive; before, openings are cut by power failures after so many commands.
    fn open(&mut self, cuts: &[u64]) -> Result<(), Failure> {
        let options = Options { cached_units: self.plan.cached_units, discards: self.plan.discards };
        for cut in cuts.iter().copied().map(Some).chain([None]) {
            let (mut now, mut left) = (self.now, cut);
            let opened =
                open(self.disk.clone(), options, &mut |disk, op| carry_out(disk, op, &mut now, &mut left));
            self.now = now;
            match opened {
                Ok(drive) if cut.is_none() => {
                    let is_patient = self.plan.is_patient;
                    self.drive = Some(drive.lay_on(|disk| Below::new(disk, is_patient)));
                }
                // It was through before the power failed; then it fails now.
                Ok(_) => self.disk.crash(),
                Err(OpenError::Gone) if cut.is_some() => self.tally.openings_cut += 1,
                Err(error) => return Err(Failure::new(format!("the drive is not opened: {error}"))),
            }
        }
        Ok(())
    }

    fn drive(&mut self) -> &mut ConventionalDrive<Below> {
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

    fn poll(&mut self) -> Result<(), Failure> {
        let mut completions = Vec::new();
        let now = self.now;
        self.drive().poll(now, &mut completions);
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
        if let Asked::Read { zone, life, offset, blocks, .. } = asked
            && completion.status == Status::Stalled
        {
            self.tally.stalled += 1;
            // It is asked again, as it may be by now.
            if self.plan.is_patient && self.zones[zone].life == life {
                self.read(u32::try_from(zone).expect("few zones"), offset, blocks);
            }
            return Ok(());
        }
        let has_succeeded = completion.status == Status::Success;
        self.tally.failed += u64::from(!has_succeeded);
        let may_fail = self.is_faulty || matches!(asked, Asked::Read { .. } | Asked::SelfTest);
        if !has_succeeded && !may_fail {
            return Err(Failure::new(format!("{asked:?} failed with {:?}", completion.status)));
        }
        match asked {
            Asked::Write { zone, life, end } => self.take_write(zone, life, end, has_succeeded)?,
            Asked::Read { zone, life, offset, blocks, known, end, is_judged } => {
                if completion.frames.len() != index(blocks) {
                    return Err(Failure::new("a read comes home with other frames"));
                }
                let is_judged = is_judged && self.zones[zone].life == life;
                if has_succeeded && is_judged {
                    self.judge(zone, offset, &completion.frames, known, end)?;
                } else if !has_succeeded && is_judged && !self.is_faulty {
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
            Asked::Reset { .. } | Asked::Finish { .. } | Asked::Flush(_) | Asked::SelfTest | Asked::Other => {
            }
        }
        self.last = Some(completion);
        Ok(())
    }

    /// A write is answered.
    fn take_write(&mut self, zone: usize, life: u64, end: usize, has_succeeded: bool) -> Result<(), Failure> {
        let is_volatile = self.plan.is_volatile;
        let model = &mut self.zones[zone];
        if model.life != life {
            return Ok(());
        }
        if has_succeeded && model.has_failed {
            return Err(Failure::new(format!("zone {zone}: a write succeeds after one that failed")));
        }
        model.has_failed |= !has_succeeded;
        if has_succeeded {
            if model.answered >= end {
                return Err(Failure::new(format!("zone {zone}: writes are answered out of order")));
            }
            model.answered = end;
            model.durable = if is_volatile { model.durable } else { end };
        }
        Ok(())
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
            let is_right = if index(at) < known {
                is_block(model.blocks[index(at)], frame)
            } else {
                at < end || frame.is_blank()
            };
            self.tally.blocks_verified += 1;
            if !is_right {
                let what = format!("zone {zone}, block {at} of {end}: other data or metadata, {frame:?}");
                return Err(Failure::new(what));
            }
        }
        Ok(())
    }

    /// Only blocks that the disk cannot return excuse a read.
    fn excuse(
        &self,
        zone: usize,
        (offset, blocks): (u32, u32),
        known: usize,
        status: Status,
    ) -> Result<(), Failure> {
        let range = offset..offset + blocks;
        let model = &self.zones[zone];
        // What is not answered may not have been written over what was bad before.
        let unanswered = model.spoiled_before.iter().filter(|at| index(**at) >= known);
        if status == Status::UnrecoveredReadError
            && model.spoiled.iter().chain(unanswered).any(|at| range.contains(at))
        {
            return Ok(());
        }
        Err(Failure::new(format!("zone {zone}: blocks {range:?} are not read: {status:?}")))
    }

    /// Carries out an act.
    pub fn act(&mut self, act: &Act) -> Result<(), Failure> {
        act.check(self.plan.zones, self.layout.capacity());
        match act {
            Act::Write { zone, blocks, is_append } => self.write(*zone, *blocks, *is_append),
            Act::Read { zone, offset, blocks } => self.read(*zone, *offset, *blocks),
            Act::Reset(zone) => self.reset(*zone),
            Act::Finish(zone) => self.finish(*zone),
            Act::Close(zone) => {
                let model = &self.zones[index(*zone)];
                let is_active =
                    model.answered > 0 && model.end() < self.layout.capacity() && !model.is_finished;
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
            Act::Kill(cuts) => self.kill(cuts)?,
            Act::Reopen => {
                self.settle()?;
                self.crash(&[])?;
            }
            Act::WriteFault => {
                self.disk.fail_next_write();
                // One that fails is given again, and need not fail.
                self.is_faulty |= !self.plan.is_patient || self.outages.has_failed;
                self.outages.has_failed = true;
            }
            Act::Away(away) => self.go_away(*away),
            Act::Spoil { zone, offset } => {
                let model = &mut self.zones[index(*zone)];
                if index(*offset) < model.answered && model.change.is_none() {
                    model.spoiled.push(*offset);
                    model.spoiled_before.push(*offset);
                    self.disk.spoil(sector_of(self.layout.block_place(ZoneIndex(*zone), *offset)));
                }
            }
            Act::Label(copy) => self.label(*copy)?,
            Act::Die => {
                self.disk.die();
                self.is_faulty = true;
            }
        }
        self.poll()
    }

    /// The disk is away, and back in time or too late.
    fn go_away(&mut self, away: Away) {
        assert!(self.plan.is_patient, "nobody waits for a disk that is away");
        self.tally.outages += 1;
        let before = if self.drive().is_stalled() { self.outages.away } else { 0 };
        assert!(away.nanos > 0, "a disk is away for some time");
        self.outages.away = before + away.nanos + 1_000_000_000;
        self.is_faulty |= self.outages.away >= PATIENCE.0 - 5_000_000_000;
        // One that has nothing to do, and is the same device all the time, loses its power without anybody's knowledge.
        let is_removed = away.is_removed || self.disk.in_flight() == 0;
        self.outages.has_lost_power |= away.loses_power;
        self.disk.go_away(self.now, Away { is_removed, ..away });
    }

    /// Zones that are active, or may still be.
    fn active(&self) -> usize {
        let capacity = index(self.layout.capacity());
        let is_active = |model: &&ZoneModel| {
            model.change.is_some() || (model.end() > 0 && model.answered < capacity && !model.is_finished)
        };
        self.zones.iter().filter(is_active).count()
    }

    fn write(&mut self, zone: u32, blocks: u32, is_append: bool) {
        let model = &self.zones[index(zone)];
        let end = model.end();
        let blocks = blocks.min(self.layout.capacity() - end).min(if is_append { 32 } else { TRANSFER_MAX });
        let is_over = model.is_finished || model.change == Some(Change::Finish) || model.has_failed;
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
            is_judged: model.change.is_none() && !model.has_failed,
        };
        let frames = (0..blocks).map(|_| Frame::zeroed()).collect();
        self.submit(zone, Op::Read { offset, frames }, asked);
    }

    fn reset(&mut self, zone: u32) {
        let model = &mut self.zones[index(zone)];
        if model.change.is_some() || model.has_failed {
            return;
        }
        assert!(model.before.is_none(), "zone {zone}: a reset begins, and one is not answered");
        model.before = Some(Before {
            blocks: std::mem::take(&mut model.blocks),
            durable: model.durable,
            is_finished: model.is_finished,
            spoiled: std::mem::take(&mut model.spoiled),
        });
        (model.answered, model.durable, model.is_finished) = (0, 0, false);
        (model.change, model.life) = (Some(Change::Reset), model.life + 1);
        self.submit(zone, Op::Reset, Asked::Reset { zone: index(zone) });
    }

    fn finish(&mut self, zone: u32) {
        let capacity = self.layout.capacity();
        let model = &mut self.zones[index(zone)];
        if model.change.is_some() || model.has_failed || model.is_finished || model.end() == capacity {
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

    /// A copy of the label rots, or is repaired when one is rotten.
    fn label(&mut self, copy: usize) -> Result<(), Failure> {
        self.settle()?;
        if self.is_faulty {
            return Ok(());
        }
        if !self.rotten_label {
            self.disk.rot(sector_of(self.layout.labels()[copy]));
            self.rotten_label = true;
            return self.self_test(false, Status::InternalError);
        }
        self.self_test(true, Status::Success)?;
        self.rotten_label = false;
        self.self_test(false, Status::Success)
    }

    fn self_test(&mut self, repair: bool, expected: Status) -> Result<(), Failure> {
        self.submit(0, Op::SelfTest { repair }, Asked::SelfTest);
        let status = self.answer()?.status;
        match status == expected {
            true => Ok(()),
            false => Err(Failure::new(format!("a self-test says {status:?}, not {expected:?}"))),
        }
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
        self.restart(DiskHandle::crash, cuts)
    }

    /// The server is killed. What was answered is there, and durable once the drive is open again.
    fn kill(&mut self, cuts: &[u64]) -> Result<(), Failure> {
        self.tally.kills += 1;
        // What a disk without power lost was to be written again.
        if cuts.is_empty() && !self.outages.has_lost_power {
            self.zones.iter_mut().for_each(|model| model.durable = model.answered);
        }
        self.restart(DiskHandle::let_go, cuts)
    }

    /// The drive is gone, and this happens to its disk; then it is opened, and every zone is looked at.
    fn restart(&mut self, how: impl Fn(&DiskHandle), cuts: &[u64]) -> Result<(), Failure> {
        self.check();
        assert!(self.drive.is_some(), "a drive is gone that was not open");
        self.drive = None;
        self.asked.clear();
        self.disk.revive();
        how(&self.disk);
        self.disk = self.disk.anew();
        self.outages = Outages::default();
        self.disk.forget_fault();
        self.is_faulty = false;
        self.open(cuts)?;
        assert!(self.drive.is_some(), "all openings are through, and none was whole");
        for zone in 0..self.plan.zones {
            self.look_at(zone)?;
        }
        Ok(())
    }

    /// Finds out how a zone came through a power failure, and whether it may be so.
    fn look_at(&mut self, zone: u32) -> Result<(), Failure> {
        self.submit(zone, Op::Report { count: 1 }, Asked::Other);
        let report = self.answer()?.report;
        let descriptor = report.first().ok_or_else(|| Failure::new("an empty report"))?;
        let is_full = descriptor.state == ZoneState::Full;
        let pointer = if is_full { self.layout.capacity() } else { descriptor.write_pointer };
        // Beyond what the model says nothing is judged before it is known which life this is.
        self.zones[index(zone)].has_failed = false;
        let mut found = Vec::new();
        for offset in 0..pointer.saturating_add(1).min(self.layout.capacity()) {
            let frames = vec![Frame::zeroed()];
            self.submit(
                zone,
                Op::Read { offset, frames },
                Asked::Read {
                    zone: index(zone),
                    life: u64::MAX,
                    offset,
                    blocks: 1,
                    known: 0,
                    end: 0,
                    is_judged: false,
                },
            );
            let answer = self.answer()?;
            found.push((answer.status, answer.frames));
        }
        let is_blank =
            |(status, frames): &(Status, Vec<Frame>)| *status == Status::Success && frames[0].is_blank();
        let end =
            if is_full { found.iter().position(is_blank).unwrap_or(found.len()) } else { index(pointer) };
        if !found[end..].iter().all(is_blank) {
            return Err(Failure::new(format!("zone {zone}: something lies behind its end, block {end}")));
        }
        found.truncate(end);
        self.adopt(index(zone), &found, is_full)
    }

    /// The model goes on from what was found, if that may be.
    fn adopt(&mut self, zone: usize, found: &[(Status, Vec<Frame>)], is_full: bool) -> Result<(), Failure> {
        let capacity = index(self.layout.capacity());
        let model = &mut self.zones[zone];
        let matches = |blocks: &[u64], spoiled: &[u32]| {
            blocks.len() >= found.len()
                && blocks.iter().zip(found).enumerate().all(|(at, (number, (status, frames)))| match status {
                    Status::Success => is_block(*number, &frames[0]),
                    _ => spoiled.iter().any(|bad| index(*bad) == at),
                })
        };
        let end = found.len();
        let before = model.before.take();
        let change = model.change.take();
        if let Some(before) = &before
            && end > 0
            && !matches(&model.blocks, &model.spoiled)
        {
            let Before { blocks, durable, is_finished, spoiled } = before;
            if !matches(blocks, spoiled) || end < *durable || (*is_finished && !is_full) {
                return Err(Failure::new(format!(
                    "zone {zone}: neither empty nor as it was before the reset: {end} blocks, {durable} durable"
                )));
            }
            model.blocks.clone_from(blocks);
            model.spoiled.clone_from(spoiled);
            (model.is_finished, model.durable) = (*is_finished, *durable);
        } else if before.as_ref().is_some_and(|before| before.is_finished) && end == 0 && is_full {
            model.is_finished = true;
            model.blocks.clear();
        } else if !matches(&model.blocks, &model.spoiled) {
            return Err(Failure::new(format!("zone {zone}: {end} blocks, not those that were written")));
        }
        if end < model.durable {
            return Err(Failure::new(format!("zone {zone}: {end} blocks, {} were durable", model.durable)));
        }
        let may_be_finished = model.is_finished || change == Some(Change::Finish);
        if is_full && end < capacity && !may_be_finished {
            return Err(Failure::new(format!("zone {zone}: full with {end} blocks")));
        }
        if model.is_finished && (!is_full || end != model.blocks.len()) {
            return Err(Failure::new(format!("zone {zone}: finished, but not as it was: {end} blocks")));
        }
        if is_full && end < model.blocks.len() && end < capacity {
            return Err(Failure::new(format!("zone {zone}: finished before {end} blocks were all")));
        }
        if end == capacity && !is_full {
            return Err(Failure::new(format!("zone {zone}: all blocks are there, and it is not full")));
        }
        self.tally.blocks_lost += u64::try_from(model.blocks.len() - end).expect("small");
        self.tally.blocks_found += u64::try_from(end - model.durable).expect("small");
        self.tally.blocks_verified += u64::try_from(end).expect("small");
        assert!(end <= model.blocks.len(), "zone {zone}: {end} blocks are found of {}", model.end());
        model.blocks.truncate(end);
        model.spoiled.retain(|at| index(*at) < end);
        (model.answered, model.durable) = (end, end);
        model.is_finished = is_full && end < capacity;
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
        if !self.is_faulty {
            self.act(&Act::Flush)?;
            self.read_all()?;
        }
        self.crash(&[])?;
        self.read_all()?;
        let commands = self.disk.commands();
        self.crash(&[])?;
        match self.disk.commands() > commands {
            true => Ok(()),
            false => Err(Failure::new("a drive is opened without a look at the disk")),
        }
    }
}
