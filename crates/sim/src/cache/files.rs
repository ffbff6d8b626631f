//! Files of conventional drives: the product's layer cuts them into zones, and the power fails at any of its calls.
//!
//! ```text
//!   cache ──> ConventionalDrive ──> Door: fuses, log of calls ──> disk: cache, calls in flight, sectors that tear
//!                                     `── kind of a call: by what lies in its place
//! ```
//! A place of the rack has a file; the drive in the rack is its bay, which tells whether it is dead, and holds nothing.

use super::plan::Plan;
use super::stage::CacheStage;
use crate::inplace::disk::{DiskHandle, wait_for_answer};
use crate::power::Blow;
use crate::rack::{Rack, SharedRack};
use crate::step::Kind;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, ZoneIndex};
use block::device::{BlockDevice, Command, Completion, FRAME_SECTORS, Geometry, Op, Status, Token};
use block::md::Media;
use drive::conventional::label::Label;
use drive::conventional::layout::{Layout, sector_of};
use drive::conventional::{OpenError, Options, Source, format, look, open};
use drive::units::Trouble;
use std::collections::BTreeMap;
use std::fmt;
use zone::device::ZonedDevice;
use zone::format::SUPERBLOCK_ZONES;
use zone::rules::Zone;

/// What a file holds before it is formatted.
const BEFORE: u8 = 0xa5;

/// Polls of a file without a call or an answer after which a mount is stuck.
const POLLS_MAX: u32 = 1_000_000;

/// See the module.
pub(super) struct Files {
    rack: SharedRack,
    layout: Layout,
    /// Zones of a shard.
    slice_zones: u32,
    options: Options,
    is_volatile: bool,
    latency: u64,
    seed: u64,
    disks: Vec<DiskHandle>,
    /// Drives that were made.
    made: u64,
    /// Drives that could not be opened since this was asked last.
    refused: BTreeMap<usize, OpenError>,
}

/// A file as its drive has it.
struct Door {
    disk: DiskHandle,
    rack: SharedRack,
    place: usize,
    layout: Layout,
    slice_zones: u32,
    /// Polls by a mount since the last call or answer.
    polls: u32,
}

/// A call or its answer, for the log.
#[derive(Hash)]
struct Event {
    place: usize,
    kind: Kind,
    sector: u64,
    sectors: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { place, kind, sector, sectors } = self;
        write!(f, "file {place} is asked for {kind:?} at {sector}, {sectors} sectors")
    }
}

/// An answer, for the log.
#[derive(Hash)]
struct Answer {
    place: usize,
    token: u64,
    has_succeeded: bool,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer { place, token, has_succeeded } = self;
        write!(f, "file {place} answers {token}: {has_succeeded}")
    }
}

impl Door {
    /// What a call is for.
    fn kind_of(&self, op: &Op) -> Kind {
        let Some((sector, _)) = op.range() else { return Kind::Flush };
        let (place, first) = (sector / FRAME_SECTORS, self.layout.zone_place(ZoneIndex(0)));
        match op {
            Op::Read { .. } => return Kind::Read,
            Op::Discard { .. } => return Kind::Reset,
            Op::Write { .. } | Op::WriteZeroes { .. } | Op::Flush => {}
        }
        if self.layout.labels().contains(&place) {
            Kind::Superblock
        } else if place < first {
            let is_of_table = place <= 2 * u64::from(self.layout.pages());
            if is_of_table { Kind::Reset } else { Kind::Log }
        } else {
            let zone = (sector - sector_of(first)) / self.layout.zone_sectors();
            let is_of_superblocks = zone % u64::from(self.slice_zones) < u64::from(SUPERBLOCK_ZONES);
            if is_of_superblocks { Kind::Superblock } else { Kind::Chunk }
        }
    }

    /// There is no power: what is in flight arrives in part, and the drive is told that its file is gone.
    fn lose_power(&self) {
        if !self.disk.is_dead() {
            self.disk.die();
        }
    }

    /// Nobody answers, for the world stands still.
    fn is_silent(&self) -> bool {
        let power = &self.rack.lock().power;
        power.is_off() && !power.recovering
    }
}

impl BlockDevice for Door {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.polls = 0;
        let Rack { drives, power, trace, .. } = &mut *self.rack.lock();
        let (kind, place) = (self.kind_of(&command.op), self.place);
        let (sector, sectors) = command.op.range().unwrap_or_default();
        trace.note(now, &Event { place, kind, sector, sectors });
        if power.is_off() {
            // What comes after the power has failed has no effect.
            if power.recovering {
                self.lose_power();
                self.disk.submit(now, command);
            }
            return;
        }
        let blow = if self.disk.is_dead() { None } else { power.burn(place, kind) };
        if blow == Some(Blow::WriteFault) {
            trace.remark(|| format!("file {place} fails a write"));
            self.disk.fail_next_write();
        }
        self.disk.submit(now, command);
        match blow {
            Some(Blow::PowerOff) => {
                trace.remark(|| format!("the power fails at a {kind:?} of file {place}"));
                if power.recovering {
                    self.lose_power();
                }
            }
            Some(Blow::Die) => {
                trace.remark(|| format!("file {place} dies at a {kind:?}"));
                drives[place].die();
                self.disk.die();
            }
            Some(Blow::WriteFault | Blow::Miswrite | Blow::Misread) | None => {}
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let Rack { power, trace, .. } = &mut *self.rack.lock();
        if power.is_off() {
            if !power.recovering {
                return;
            }
            self.lose_power();
        }
        let delivered = completions.len();
        self.disk.poll(now, completions);
        let is_idle = power.recovering && completions.len() == delivered;
        self.polls = if is_idle { self.polls + 1 } else { 0 };
        assert!(self.polls < POLLS_MAX, "a mount waits, and file {} has nothing to answer", self.place);
        for Completion { token, status, .. } in &completions[delivered..] {
            let has_succeeded = *status == Status::Success;
            trace.note(now, &Answer { place: self.place, token: token.0, has_succeeded });
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }
}

/// Carries out one call while nobody else has the file; `None` when nobody answers.
fn carry_out<D: BlockDevice>(
    device: &mut D,
    op: Op,
    now: &mut Instant,
    is_silent: impl Fn(&D) -> bool,
) -> Option<Completion> {
    device.submit(*now, Command { token: Token(0), op });
    wait_for_answer(device, now, is_silent)
}

/// A file that is looked at, whoever has it open.
struct Looked<'a>(&'a DiskHandle);

impl Source for Looked<'_> {
    fn blocks(&self) -> u64 {
        self.0.sectors() / FRAME_SECTORS
    }

    fn read(&mut self, place: u64, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        for (place, frame) in (place..).zip(frames) {
            self.0.read(sector_of(place), &mut frame.data).map_err(|_| Trouble::Unreadable)?;
        }
        Ok(())
    }
}

impl Files {
    /// Those of a plan that has them.
    pub fn of(plan: &Plan, rack: &SharedRack) -> Option<Files> {
        let conventional = plan.conventional?;
        Some(Files {
            rack: rack.clone(),
            layout: plan.layout(&conventional),
            slice_zones: plan.zones,
            options: conventional.options(),
            is_volatile: plan.is_volatile,
            latency: plan.latency_ns,
            seed: plan.seed ^ 0x0cac_4ec0 ^ 1 << 40,
            disks: Vec::new(),
            made: 0,
            refused: BTreeMap::new(),
        })
    }

    /// A place has a new drive.
    pub fn make(&mut self, place: usize, uuid: [u8; 16]) {
        self.made += 1;
        let seed = self.seed ^ self.made << 48;
        let mut disk =
            DiskHandle::full_of(BEFORE, self.layout.blocks, self.is_volatile, (self.latency, seed));
        let (label, mut now) = (Label { uuid, layout: self.layout }, Instant(0));
        let made = format(&mut disk, &label, &mut |disk, op| carry_out(disk, op, &mut now, |_| false));
        made.expect("a file that is large enough, and works");
        assert!(place <= self.disks.len(), "place {place} behind {} places", self.disks.len());
        assert!(label.layout.blocks >= label.layout.blocks_needed(), "a file that is too small");
        if place == self.disks.len() {
            self.disks.push(disk);
        } else {
            // Who has the old one open is told.
            std::mem::replace(&mut self.disks[place], disk).die();
        }
    }

    /// Opens a drive, at whose calls the power may fail; `None` when it cannot be.
    fn open(&mut self, place: usize, mut now: Instant) -> Option<Box<dyn ZonedDevice>> {
        let (disk, rack) = (self.disks[place].clone(), self.rack.clone());
        // Whoever had it open before is gone.
        disk.let_go();
        let door = Door { disk, rack, place, layout: self.layout, slice_zones: self.slice_zones, polls: 0 };
        let opened = open(door, self.options, &mut |door, op| carry_out(door, op, &mut now, Door::is_silent));
        match opened {
            Ok(drive) => Some(Box::new(drive)),
            Err(error) => {
                self.refused.insert(place, error);
                None
            }
        }
    }

    /// A drive that holds the same, and breaks no further.
    fn copy(&self, place: usize) -> Option<Box<dyn ZonedDevice>> {
        let mut now = Instant(0);
        let copy = self.disks[place].copy();
        let opened = open(copy, self.options, &mut |disk, op| carry_out(disk, op, &mut now, |_| false));
        opened.ok().map(|drive| Box::new(drive) as Box<dyn ZonedDevice>)
    }

    /// Zones as an opening would find them; none when it would be refused.
    fn zones(&self, place: usize) -> Vec<Zone> {
        let Ok(found) = look(&mut Looked(&self.disks[place])) else { return Vec::new() };
        found.zones.iter().map(|zone| zone.opened(self.layout.capacity())).collect()
    }

    /// Any block of a file, of what its drive keeps beside the zones, too.
    pub fn block(&self, place: usize, number: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        match self.disks[place].read(sector_of(number % self.layout.blocks), &mut block) {
            Ok(()) => block,
            Err(_) => Vec::new(),
        }
    }

    /// Drives that could not be opened since this was asked last.
    pub fn take_refused(&mut self) -> BTreeMap<usize, OpenError> {
        std::mem::take(&mut self.refused)
    }

    /// A drive answers nothing any more.
    pub fn die(&self, place: usize) {
        self.disks[place].die();
    }

    /// It answers again.
    pub fn revive(&self, place: usize) {
        self.disks[place].revive();
    }

    /// The process ends, or the power fails: what is in flight arrives whole, in part or not at all.
    pub fn go_dark(&self, power: bool) {
        for (place, disk) in self.disks.iter().enumerate() {
            if power {
                disk.crash();
            } else {
                disk.let_go();
            }
            if !self.rack.lock().drives[place].is_dead() {
                disk.revive();
            }
        }
    }
}

impl CacheStage {
    /// The drive in a place, as the cache has it; `None` when it cannot be opened.
    pub(super) fn device(&mut self, place: usize) -> Option<Box<dyn ZonedDevice>> {
        match &mut self.files {
            Some(files) => files.open(place, self.clock.now),
            None => Some(self.rack.device(place)),
        }
    }

    /// Zones of the drive in a place, as they are on the media; none, when they cannot be told.
    pub(super) fn zones_of(&self, place: usize) -> Vec<Zone> {
        if let Some(files) = &self.files {
            return files.zones(place);
        }
        let rack = self.rack.lock();
        let media = rack.drives[place].media();
        (0..media.geometry().zones).map(|zone| media.zone(ZoneIndex(zone))).collect()
    }

    /// A copy of the drive in a place.
    pub(super) fn copy_of(&self, place: usize) -> Option<Box<dyn ZonedDevice>> {
        if let Some(files) = &self.files {
            return files.copy(place);
        }
        let rack = self.rack.lock();
        let media = rack.drives[place].media().heap_snapshot().expect("media in memory");
        Some(Box::new(drive::emulated::EmulatedDrive::from_heap(media).expect("media of a drive")))
    }
}
