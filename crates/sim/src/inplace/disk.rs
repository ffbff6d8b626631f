//! Disk of a simulated member: a volatile cache, commands that take time and have no order, sectors that tear and go bad.

use base::frame::Frame;
use base::random::Random;
use base::time::{Instant, Nanos};
use base::units::BLOCK_BYTES;
use block::condition::{Condition, Loss};
use block::device::{BlockDevice, Command, Completion, FRAME_SECTORS, Geometry, Op, Status};
use block::md::{Media, ReadFailed, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Least time of a command, in nanoseconds.
const LEAST: u64 = 1_000;
/// Some commands take so many times longer.
const SLOWER: u64 = 20;

/// Content of a sector.
type Sector = [u8; SECTOR_BYTES];

/// Bytes that disks share until one of them writes there.
type Piece = [u8; BLOCK_BYTES];

/// What a disk does with a write that it answers as done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lie {
    /// Writes that it is done to lie within these sectors.
    pub within: Range<u64>,
    /// Sectors by which it lands elsewhere; `None` when it lands nowhere.
    pub astray: Option<i64>,
}

/// Command in flight.
struct Flight {
    due: Instant,
    /// Handle that gave it, and is answered.
    port: usize,
    command: Command,
    /// Of a flush: writes completed before it was submitted.
    covers: u64,
    /// The disk went away with it, or was away: it is told that the disk is gone, whatever was done.
    is_cut: bool,
}

/// State of a disk.
pub struct Disk {
    geometry: Geometry,
    /// Content that survives a power failure.
    stable: Vec<Arc<Piece>>,
    /// Writes since, by sector, oldest first, each with its number.
    cached: BTreeMap<u64, VecDeque<(u64, Sector)>>,
    writes: u64,
    /// Writes up to this one are durable never more, if they were not when a flush failed.
    lost_up_to: u64,
    bad: BTreeSet<u64>,
    /// Sectors that fail every write.
    scars: BTreeSet<u64>,
    /// Sectors of writes that failed since they were asked for last.
    failed: BTreeSet<u64>,
    /// Of these, those that were not written since.
    unsure: BTreeSet<u64>,
    in_flight: Vec<Flight>,
    /// Answers that wait for their handle to look, by port.
    answers: BTreeMap<usize, Vec<Completion>>,
    random: Random,
    latency: u64,
    is_dead: bool,
    faults: Faults,
    lies: Lies,
    /// Commands that were carried out.
    pub commands: u64,
}

/// What is about to go wrong.
#[derive(Default)]
struct Faults {
    fails_next_write: bool,
    fails_next_flush: bool,
    lie: Option<Lie>,
    hang: Hang,
    outage: Outage,
    /// What a power failure leaves of blocks; without it each sector is lost by itself.
    by_block: Option<LostBlocks>,
}

/// A cache that a power failure leaves most blocks of 4 KiB of whole, or takes whole: sectors that are lost one by one leave hardly any block
/// as it was written, and so hardly ever what a later write needs an earlier one for.
struct LostBlocks {
    random: Random,
    /// Blocks that stay as they are, and those that are lost, of eight.
    shares: (u64, u64),
    /// Block that was asked for last, and whether it stays or is lost as a whole.
    block: Option<(u64, Option<bool>)>,
}

impl LostBlocks {
    /// The power fails: how much is lost differs from time to time.
    fn begin(&mut self) {
        self.shares = [(1, 6), (4, 3), (6, 1)][self.random.index(3)];
        self.block = None;
    }

    /// How many of the versions of a sector arrive.
    fn kept(&mut self, sector: u64, versions: usize) -> usize {
        let block = sector / FRAME_SECTORS;
        let fate = match self.block {
            Some((last, fate)) if last == block => fate,
            _ => {
                let (stay, lost) = self.shares;
                let drawn = self.random.below(8);
                (drawn < stay + lost).then_some(drawn < stay)
            }
        };
        self.block = Some((block, fate));
        match fate {
            Some(stays) => {
                if stays {
                    versions
                } else {
                    0
                }
            }
            None => self.random.index(versions + 1),
        }
    }
}

/// Time in which a disk is away.
#[derive(Clone, Copy, Default)]
struct Outage {
    now: Instant,
    until: Instant,
    /// Times that it was taken out: handles from before that are dead for ever.
    removals: u32,
}

/// How a disk goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// Time until it is back.
    pub nanos: u64,
    /// It has no power meanwhile: its cache loses any versions of what is not flushed.
    pub loses_power: bool,
    /// It is another device when it is back.
    pub is_removed: bool,
}

/// Writes that were answered as done, and not done where they were to be.
#[derive(Default)]
struct Lies {
    /// What sectors were to hold that hold something else.
    told: BTreeMap<u64, Sector>,
    /// Sectors that a lie was about, since they were asked for last.
    about: BTreeSet<u64>,
}

/// Time in which a disk answers nothing.
#[derive(Clone, Copy, Default)]
struct Hang {
    until: Instant,
    longest: u64,
}

/// The answer to the one call that is under way; `None` when there will be none, or while nobody answers.
pub fn wait_for_answer<D: BlockDevice>(
    device: &mut D,
    now: &mut Instant,
    is_silent: impl Fn(&D) -> bool,
) -> Option<Completion> {
    let mut completions = Vec::new();
    while completions.is_empty() {
        if is_silent(device) {
            return None;
        }
        *now = device.next_event()?.max(*now);
        device.poll(*now, &mut completions);
    }
    completions.pop()
}

/// Piece of a sector, and where it begins there.
fn place_of(sector: u64) -> (usize, usize) {
    let byte = usize::try_from(sector).expect("simulated disks are small") * SECTOR_BYTES;
    (byte / BLOCK_BYTES, byte % BLOCK_BYTES)
}

fn sector_of(frames: &[Frame], index: usize) -> Sector {
    let per_frame = usize::try_from(FRAME_SECTORS).expect("8");
    let start = index % per_frame * SECTOR_BYTES;
    *frames[index / per_frame].data[start..].first_chunk().expect("a frame has 8 sectors")
}

impl Disk {
    fn visible(&self, sector: u64) -> Sector {
        match self.cached.get(&sector).and_then(VecDeque::back) {
            Some((_, newest)) => *newest,
            None => {
                let (piece, at) = place_of(sector);
                *self.stable[piece][at..].first_chunk().expect("a sector of the disk")
            }
        }
    }

    fn settle(&mut self, sector: u64, content: &Sector) {
        let (piece, at) = place_of(sector);
        Arc::make_mut(&mut self.stable[piece])[at..at + SECTOR_BYTES].copy_from_slice(content);
    }

    fn put(&mut self, sector: u64, content: Sector, is_durable: bool) {
        let end = (self.stable.len() as u64) * FRAME_SECTORS;
        assert!(sector < end, "sector {sector} of a disk of {end}");
        if self.scars.contains(&sector) {
            return;
        }
        self.bad.remove(&sector);
        self.unsure.remove(&sector);
        self.lies.told.remove(&sector);
        if is_durable || !self.geometry.volatile_cache {
            self.cached.remove(&sector);
            self.settle(sector, &content);
        } else {
            let number = self.writes;
            let newest = self.cached.get(&sector).and_then(|versions| versions.back());
            assert!(
                newest.is_none_or(|(before, _)| *before <= number),
                "sector {sector}: writes out of order"
            );
            self.cached.entry(sector).or_default().push_back((number, content));
        }
    }

    /// Content that a command writes, by sector.
    fn contents(op: &Op) -> Vec<(u64, Sector)> {
        let Some((first, count)) = op.range() else { return Vec::new() };
        let count = usize::try_from(count).expect("simulated disks are small");
        match op {
            Op::Write { frames, .. } => {
                (first..).zip((0..count).map(|index| sector_of(frames, index))).collect()
            }
            Op::WriteZeroes { .. } => (first..).zip(std::iter::repeat_n([0; SECTOR_BYTES], count)).collect(),
            // What a discard leaves is nobody's business: it may well be nonsense.
            Op::Discard { .. } => (first..).zip(std::iter::repeat_n([0xdb; SECTOR_BYTES], count)).collect(),
            Op::Read { .. } | Op::Flush => Vec::new(),
        }
    }

    /// Some of the sectors of a command arrive, in part as they were before.
    fn tear(&mut self, op: &Op) {
        let mode = self.random.below(3);
        for (sector, content) in Disk::contents(op) {
            if mode == 0 || (mode == 1 && self.random.chance(1, 2)) {
                self.put(sector, content, false);
            }
        }
    }

    /// A write is done elsewhere, or not at all.
    fn lie(&mut self, Lie { within, astray }: Lie, op: &Op) {
        let contents = Disk::contents(op);
        for (sector, content) in &contents {
            self.lies.told.insert(*sector, *content);
            self.lies.about.insert(*sector);
        }
        for (sector, content) in contents {
            let place = astray.and_then(|by| sector.checked_add_signed(by));
            let Some(place) = place.filter(|place| within.contains(place)) else { continue };
            let before = self.lies.told.get(&place).copied().unwrap_or_else(|| self.visible(place));
            self.put(place, content, false);
            self.lies.told.insert(place, before);
            self.lies.about.insert(place);
        }
    }

    /// The lie that is about to be told, where this is a write that it is about.
    fn lie_about(&mut self, op: &Op) -> Option<Lie> {
        let (first, count) = op.range()?;
        let is_about = |lie: &mut Lie| {
            matches!(op, Op::Write { .. } | Op::WriteZeroes { .. })
                && lie.within.contains(&first)
                && lie.within.contains(&(first + count - 1))
        };
        self.faults.lie.take_if(is_about)
    }

    /// What is about to go wrong does not.
    fn forget_faults(&mut self) {
        self.faults.fails_next_write = false;
        self.faults.fails_next_flush = false;
        self.faults.lie = None;
    }

    /// Of a flush that failed nobody knows any more, for it was not recorded: the next one covers that, too.
    fn forget_flush(&mut self) {
        self.lost_up_to = 0;
    }

    fn is_scarred(&self, op: &Op) -> bool {
        op.range().is_some_and(|(first, count)| self.scars.range(first..first + count).next().is_some())
    }

    fn carry_out(&mut self, Flight { command, covers, is_cut, .. }: Flight) -> Completion {
        let Command { token, mut op } = command;
        self.commands += 1;
        let mut status =
            if op.is_within(self.geometry.sectors) { Status::Success } else { Status::OutOfRange };
        if self.is_dead || is_cut {
            status = Status::DeviceGone;
        }
        if status == Status::Success {
            self.writes += 1;
            let is_write = matches!(op, Op::Write { .. } | Op::WriteZeroes { .. });
            if is_write && (self.is_scarred(&op) || std::mem::take(&mut self.faults.fails_next_write)) {
                self.tear(&op);
                let sectors = || op.range().into_iter().flat_map(|(first, count)| first..first + count);
                self.failed.extend(sectors());
                self.unsure.extend(sectors());
                status = Status::WriteError;
            } else if let Op::Read { sector, frames } = &mut op {
                status = self.fill(*sector, frames);
            } else if matches!(op, Op::Flush) && std::mem::take(&mut self.faults.fails_next_flush) {
                self.lost_up_to = covers;
                status = Status::WriteError;
            } else if matches!(op, Op::Flush) {
                self.commit(covers);
            } else if let Some(lie) = self.lie_about(&op) {
                self.lie(lie, &op);
            } else {
                let is_durable = matches!(op, Op::Write { durable: true, .. });
                Disk::contents(&op)
                    .into_iter()
                    .for_each(|(sector, content)| self.put(sector, content, is_durable));
            }
        }
        Completion { token, status, frames: op.into_frames() }
    }

    fn fill(&mut self, sector: u64, frames: &mut [Frame]) -> Status {
        let mut at = sector;
        for frame in frames {
            for bytes in frame.data.chunks_exact_mut(SECTOR_BYTES) {
                if self.bad.contains(&at) {
                    bytes.fill(0xbd);
                } else {
                    bytes.copy_from_slice(&self.visible(at));
                }
                at += 1;
            }
        }
        if self.bad.range(sector..at).next().is_some() { Status::ReadError } else { Status::Success }
    }

    /// Writes up to a number become durable, but for those of a flush that failed.
    fn commit(&mut self, covers: u64) {
        assert!(covers <= self.writes, "a flush covers {covers} writes of {}", self.writes);
        let lost_up_to = self.lost_up_to;
        let is_covered = |(number, _): &(u64, Sector)| (lost_up_to + 1..=covers).contains(number);
        let sectors: Vec<u64> = self.cached.keys().copied().collect();
        for sector in sectors {
            let versions = self.cached.get_mut(&sector).expect("a cached sector");
            let newest =
                versions.iter().rposition(is_covered).and_then(|at| versions.drain(..=at).next_back());
            let is_old = |(number, _): &(u64, Sector)| (lost_up_to + 1..=covers).contains(number);
            assert!(!versions.iter().any(is_old), "sector {sector} keeps what a flush has covered");
            if versions.is_empty() {
                self.cached.remove(&sector);
            }
            if let Some((_, content)) = newest {
                self.settle(sector, &content);
            }
        }
    }

    /// Who uses the disk dies: what was in flight is carried out, or was not begun. The cache stays.
    fn let_go(&mut self) {
        self.forget_flush();
        self.answers.clear();
        self.forget_faults();
        self.faults.hang.until = Instant(0);
        while let Some(flight) = self.in_flight.pop() {
            if self.random.chance(3, 4) {
                self.carry_out(flight);
            }
        }
    }

    /// The power fails: of what was in flight any sectors arrive, of what was cached any state that was there.
    fn crash(&mut self) {
        self.answers.clear();
        self.forget_faults();
        self.faults.hang.until = Instant(0);
        // What sectors were to hold then, nobody knows.
        self.lies.told.clear();
        for flight in std::mem::take(&mut self.in_flight) {
            if !self.is_dead && !flight.is_cut {
                self.writes += 1;
                self.tear(&flight.command.op);
            }
        }
        self.lose_cache();
    }

    /// Of what was cached any state arrives that was there.
    fn lose_cache(&mut self) {
        self.faults.by_block.iter_mut().for_each(LostBlocks::begin);
        for (sector, versions) in std::mem::take(&mut self.cached) {
            let kept = match &mut self.faults.by_block {
                Some(blocks) => blocks.kept(sector, versions.len()),
                None => self.random.index(versions.len() + 1),
            };
            assert!(kept <= versions.len(), "sector {sector}: {kept} versions of {}", versions.len());
            if let Some((_, content)) = kept.checked_sub(1).map(|index| versions[index]) {
                self.settle(sector, &content);
            }
        }
    }

    /// Of commands in flight any sectors arrive, and they are cut off.
    fn cut_off(&mut self) {
        let mut flights = std::mem::take(&mut self.in_flight);
        for flight in flights.iter_mut().filter(|flight| !flight.is_cut) {
            flight.is_cut = true;
            self.writes += 1;
            self.tear(&flight.command.op);
        }
        self.in_flight.append(&mut flights);
        assert!(
            self.in_flight.iter().all(|flight| flight.is_cut),
            "a command outlives that its disk goes away"
        );
    }
}

/// Handle of a disk: the engine has one, the world another.
#[derive(Clone)]
pub struct DiskHandle {
    geometry: Geometry,
    disk: Arc<Mutex<Disk>>,
    /// Handles of engines beside the first have numbers of their own: each gets its own answers.
    port: usize,
    /// Times that the disk had been taken out when this was made.
    removals: u32,
}

impl DiskHandle {
    /// A disk with this content.
    pub fn new(content: Vec<u8>, is_volatile: bool, latency: u64, seed: u64) -> DiskHandle {
        let sectors = u64::try_from(content.len() / SECTOR_BYTES).expect("small");
        assert!(content.len().is_multiple_of(SECTOR_BYTES), "a disk of {} bytes", content.len());
        let piece = |bytes: &[u8]| {
            let mut piece = [0; BLOCK_BYTES];
            piece[..bytes.len()].copy_from_slice(bytes);
            Arc::new(piece)
        };
        let stable = content.chunks(BLOCK_BYTES).map(piece).collect();
        DiskHandle::of(stable, sectors, is_volatile, (latency, seed))
    }

    /// A disk of so many blocks that are all full of the same byte.
    pub fn full_of(byte: u8, blocks: u64, is_volatile: bool, (latency, seed): (u64, u64)) -> DiskHandle {
        let count = usize::try_from(blocks).expect("simulated disks are small");
        let shared = Arc::new([byte; BLOCK_BYTES]);
        DiskHandle::of(vec![shared; count], blocks * FRAME_SECTORS, is_volatile, (latency, seed))
    }

    /// The same disk; its cache may be one that loses most blocks of 4 KiB whole, drawn from a source of its own.
    #[must_use]
    pub fn losing_blocks(self, by_block: bool, seed: u64) -> DiskHandle {
        let lost =
            || LostBlocks { random: Random::from_seed(seed ^ 0x10b1_0c5e), shares: (4, 3), block: None };
        self.lock().faults.by_block = by_block.then(lost);
        self
    }

    /// A disk that holds what this one returns now, keeps what it is given, and answers at once. What cannot be read here, cannot there.
    pub fn copy(&self) -> DiskHandle {
        let disk = self.lock();
        let copy = DiskHandle::of(disk.stable.clone(), disk.geometry.sectors, false, (0, 0));
        {
            let mut copied = copy.lock();
            for (sector, versions) in &disk.cached {
                versions.back().into_iter().for_each(|(_, newest)| copied.settle(*sector, newest));
            }
            copied.bad.clone_from(&disk.bad);
        }
        copy
    }

    fn of(
        stable: Vec<Arc<Piece>>,
        sectors: u64,
        is_volatile: bool,
        (latency, seed): (u64, u64),
    ) -> DiskHandle {
        let places = stable.len() as u64 * FRAME_SECTORS;
        assert!(sectors > 0 && sectors <= places, "{sectors} sectors in {places} places");
        let geometry = Geometry { sectors, atomic_sectors: 1, volatile_cache: is_volatile };
        let disk = Disk {
            geometry,
            stable,
            cached: BTreeMap::new(),
            writes: 0,
            bad: BTreeSet::new(),
            lost_up_to: 0,
            scars: BTreeSet::new(),
            failed: BTreeSet::new(),
            unsure: BTreeSet::new(),
            in_flight: Vec::new(),
            answers: BTreeMap::new(),
            random: Random::from_seed(seed),
            latency,
            is_dead: false,
            faults: Faults::default(),
            lies: Lies::default(),
            commands: 0,
        };
        DiskHandle { geometry, disk: Arc::new(Mutex::new(disk)), port: 0, removals: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Handle of another engine.
    pub fn at_port(&self, port: usize) -> DiskHandle {
        DiskHandle { port, ..self.clone() }
    }

    /// The power fails.
    pub fn crash(&self) {
        self.lock().crash();
    }

    /// Who uses it dies.
    pub fn let_go(&self) {
        self.lock().let_go();
    }

    /// The disk answers nothing any more but that it is gone.
    pub fn die(&self) {
        let mut disk = self.lock();
        let mut flights = std::mem::take(&mut disk.in_flight);
        flights.iter().for_each(|flight| disk.tear(&flight.command.op));
        disk.in_flight.append(&mut flights);
        disk.is_dead = true;
    }

    /// The disk works again, with what it had.
    pub fn revive(&self) {
        self.lock().is_dead = false;
    }

    /// The disk goes away for a while.
    pub fn go_away(&self, now: Instant, away: Away) {
        assert!(away.nanos > 0, "a disk is away for no time");
        let mut disk = self.lock();
        disk.cut_off();
        if away.loses_power {
            disk.lose_cache();
        }
        let Outage { until, removals, .. } = disk.faults.outage;
        let until = until.max(now + Nanos(away.nanos));
        assert!(disk.in_flight.iter().all(|flight| flight.is_cut), "what it had is cut off");
        disk.faults.outage = Outage { now, until, removals: removals + u32::from(away.is_removed) };
    }

    /// Commands that it has not answered.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight.len()
    }

    /// A handle of the disk as it is back; none while it is away.
    pub fn returned(&self) -> Option<DiskHandle> {
        let disk = self.lock();
        let Outage { now, until, removals } = disk.faults.outage;
        assert!(self.removals <= removals, "a disk is looked for by a handle of later");
        (now >= until && !disk.is_dead).then(|| DiskHandle { removals, ..self.clone() })
    }

    /// The disk is where it was, whatever happened to it: a handle of it.
    pub fn anew(&self) -> DiskHandle {
        let mut disk = self.lock();
        disk.faults.outage.until = Instant(0);
        DiskHandle { removals: disk.faults.outage.removals, ..self.clone() }
    }

    /// True when the disk is gone.
    pub fn is_dead(&self) -> bool {
        self.lock().is_dead
    }

    /// The next write fails, and leaves some of its sectors.
    pub fn fail_next_write(&self) {
        self.lock().faults.fails_next_write = true;
    }

    /// The next flush fails, and what it was to cover does not survive a power failure.
    pub fn fail_next_flush(&self) {
        self.lock().faults.fails_next_flush = true;
    }

    /// True when the next write or flush fails.
    pub fn has_fault(&self) -> bool {
        let disk = self.lock();
        disk.faults.fails_next_write || disk.faults.fails_next_flush
    }

    /// True for the same disk.
    pub fn is(&self, other: &DiskHandle) -> bool {
        Arc::ptr_eq(&self.disk, &other.disk)
    }

    /// No write or flush fails any more, or is done elsewhere, but for what else happens.
    pub fn forget_fault(&self) {
        self.lock().forget_faults();
    }

    /// A flush that failed was not recorded, and will not be.
    pub fn forget_flush(&self) {
        self.lock().forget_flush();
    }

    /// A write that is answered as done will not be done where it is to be.
    pub fn lie(&self, lie: Lie) {
        assert!(!lie.within.is_empty(), "a lie about no sectors: {lie:?}");
        self.lock().faults.lie = Some(lie);
    }

    /// All writes are done where they are to be, from now on.
    pub fn forget_lie(&self) {
        self.lock().faults.lie = None;
    }

    /// Sectors that a lie was about since this was asked last.
    pub fn take_lies(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.lock().lies.about)
    }

    /// What sectors hold, or ought to.
    pub fn content(&self, sector: u64, is_as_told: bool, into: &mut [u8]) {
        let disk = self.lock();
        for (sector, bytes) in (sector..).zip(into.chunks_exact_mut(SECTOR_BYTES)) {
            let told = disk.lies.told.get(&sector).filter(|_| is_as_told);
            bytes.copy_from_slice(&told.copied().unwrap_or_else(|| disk.visible(sector)));
        }
    }

    /// Nothing is answered until then.
    pub fn hang(&self, now: Instant, nanos: u64) {
        assert!(nanos > 0, "a disk hangs for no time");
        let mut disk = self.lock();
        let until = disk.faults.hang.until.max(now + Nanos(nanos));
        disk.faults.hang = Hang { until, longest: disk.faults.hang.longest.max(nanos) };
        disk.in_flight.iter_mut().for_each(|flight| flight.due = flight.due.max(until));
    }

    /// The disk ends here from now on.
    pub fn cut(&self, sectors: u64) {
        let mut disk = self.lock();
        assert!(sectors > 0, "a disk without sectors is none");
        disk.geometry.sectors = disk.geometry.sectors.min(sectors);
    }

    /// True when the disk is gone, or smaller than it was.
    pub fn is_lost(&self) -> bool {
        self.is_dead() || self.is_cut()
    }

    /// True when the disk is smaller than it was.
    pub fn is_cut(&self) -> bool {
        self.lock().geometry.sectors < self.geometry.sectors
    }

    /// Somebody else writes, durably.
    pub fn overwrite(&self, sector: u64, bytes: &[u8]) {
        assert!(bytes.len().is_multiple_of(SECTOR_BYTES), "{} bytes at sector {sector}", bytes.len());
        let mut disk = self.lock();
        for (sector, content) in (sector..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            disk.put(sector, *content.first_chunk().expect("a sector"), true);
        }
    }

    /// A sector cannot be read until it is written.
    pub fn spoil(&self, sector: u64) {
        assert!(sector < self.geometry.sectors, "sector {sector} of {}", self.geometry.sectors);
        self.lock().bad.insert(sector);
    }

    /// A sector can neither be read nor written.
    pub fn scar(&self, sector: u64) {
        assert!(sector < self.geometry.sectors, "sector {sector} of {}", self.geometry.sectors);
        let mut disk = self.lock();
        disk.bad.insert(sector);
        disk.scars.insert(sector);
    }

    /// A sector cannot be written, and is read as it is.
    pub fn stick(&self, sector: u64) {
        assert!(sector < self.geometry.sectors, "sector {sector} of {}", self.geometry.sectors);
        self.lock().scars.insert(sector);
    }

    /// True when some sector can never be written.
    pub fn has_scars(&self) -> bool {
        !self.lock().scars.is_empty()
    }

    /// Sectors of writes that failed since this was asked last.
    pub fn take_failed(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.lock().failed)
    }

    /// A bit of a sector flips, as it is and as it may be after a power failure.
    pub fn rot(&self, sector: u64) {
        let mut disk = self.lock();
        assert!(sector < self.geometry.sectors, "sector {sector} of {} rots", self.geometry.sectors);
        let (piece, at) = place_of(sector);
        Arc::make_mut(&mut disk.stable[piece])[at] ^= 4;
        let cached = disk.cached.get_mut(&sector).into_iter().flatten();
        cached.for_each(|(_, content)| content[0] ^= 4);
    }

    /// True when a sector of the range cannot be read, or was not written when it was to be.
    pub fn is_blemished(&self, sectors: std::ops::Range<u64>) -> bool {
        let is_unsure = self.lock().unsure.range(sectors.clone()).next().is_some();
        is_unsure || self.is_bad(sectors)
    }

    /// True when a sector of the range cannot be read.
    pub fn is_bad(&self, sectors: std::ops::Range<u64>) -> bool {
        self.lock().bad.range(sectors).next().is_some()
    }

    /// Longest time that a command takes.
    pub fn slowest(&self) -> Nanos {
        let disk = self.lock();
        Nanos((LEAST + disk.latency) * SLOWER + disk.faults.hang.longest)
    }

    /// Commands that were carried out.
    pub fn commands(&self) -> u64 {
        self.lock().commands
    }
}

impl BlockDevice for DiskHandle {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let mut disk = self.lock();
        let latency = disk.latency;
        let mut took = 0;
        if latency > 0 {
            took = LEAST + disk.random.below(latency);
            took *= if disk.random.chance(1, 20) { SLOWER } else { 1 };
        }
        let covers = disk.writes;
        let due = disk.faults.hang.until.max(now + Nanos(took));
        assert!(due >= now, "a command that is given at {now:?} was due {due:?}");
        disk.faults.outage.now = now;
        let outage = disk.faults.outage;
        assert!(self.removals <= outage.removals, "a handle is of a time that was");
        let is_cut = now < outage.until || self.removals < outage.removals;
        disk.in_flight.push(Flight { due, port: self.port, command, covers, is_cut });
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let mut disk = self.lock();
        disk.faults.outage.now = now;
        while let Some(next) = (0..disk.in_flight.len()).min_by_key(|index| disk.in_flight[*index].due) {
            if disk.in_flight[next].due > now {
                break;
            }
            let flight = disk.in_flight.swap_remove(next);
            let port = flight.port;
            let completion = disk.carry_out(flight);
            disk.answers.entry(port).or_default().push(completion);
        }
        if let Some(answers) = disk.answers.get_mut(&self.port) {
            completions.append(answers);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let disk = self.lock();
        let has_answers = disk.answers.get(&self.port).is_some_and(|answers| !answers.is_empty());
        let own = disk.in_flight.iter().filter(|flight| flight.port == self.port);
        let due = own.map(|flight| flight.due).min();
        if has_answers { Some(Instant(0)) } else { due }
    }

    fn condition(&mut self, _: Instant) -> Condition {
        let is_removed = self.removals < self.lock().faults.outage.removals;
        Condition { loss: is_removed.then_some(Loss::Removed), ..Condition::default() }
    }
}

impl Media for DiskHandle {
    fn sectors(&self) -> u64 {
        self.lock().geometry.sectors
    }

    fn read(&self, sector: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        let disk = self.lock();
        let count = u64::try_from(into.len() / SECTOR_BYTES).expect("small");
        let failed = |reason: &str| ReadFailed { sector, reason: reason.to_owned() };
        if sector.checked_add(count).is_none_or(|end| end > disk.geometry.sectors) {
            return Err(failed("beyond the end"));
        }
        if disk.bad.range(sector..sector + count).next().is_some() {
            return Err(failed("bad sector"));
        }
        for (sector, bytes) in (sector..).zip(into.chunks_exact_mut(SECTOR_BYTES)) {
            bytes.copy_from_slice(&disk.visible(sector));
        }
        Ok(())
    }
}
