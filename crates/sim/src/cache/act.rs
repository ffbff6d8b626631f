//! Acts of a run: what clients ask, and what goes wrong.

use super::plan::{Plan, draw_object_mean};
use super::several;
use super::shards::SHARDS_MAX;
use crate::step::{At, Kind};
use ::cache::config::Invalidate;
use ::cache::request::Part;
use base::random::Random;

/// Places that are made for drives at most, behind those of the plan.
pub(super) const ADDED_MAX: usize = 3;

/// Keys of clients.
pub(super) const KEYS: usize = 24;

/// When a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// So many milliseconds from now.
    After(u64),
}

/// What a value is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// Dots.
    Dots,
    /// A block of a drive, as it is on the media: a page, a journal block, a header or a superblock.
    Block,
    /// A record of an earlier version of the key.
    Record,
}

/// What an operation that reads and decides makes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Keep,
    /// It is removed.
    Remove,
    /// Another value, if there is an object (or there is none).
    StoreIf {
        /// There must be one.
        exists: bool,
    },
    /// One more than the count that is there; one, when there is none.
    Count,
    /// The same value with another expiry.
    Expire(Expiry),
}

/// When the power fails, or the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Kind of commands that count.
    pub kind: Kind,
    /// Commands of this kind that take effect before.
    pub skip: u32,
}

impl Moment {
    pub(super) fn at(self) -> At {
        At { kind: self.kind, skip: self.skip }
    }
}

/// An act. Keys and drives are numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A client reads a key.
    Get(usize),
    /// A client stores a value.
    Set {
        /// The key.
        key: usize,
        /// Bytes of the value, at least.
        bytes: usize,
        /// What it is filled with.
        filler: Filler,
        /// When it expires.
        expiry: Expiry,
    },
    /// A client removes a key.
    Remove(usize),
    /// A client reads, decides and writes.
    Update {
        /// The key.
        key: usize,
        /// The decision.
        change: Change,
        /// Bytes of the value, at least.
        bytes: usize,
    },
    /// A client reads several keys with one command.
    GetSeveral {
        /// The first key; the others follow it in its namespace.
        first: usize,
        /// How many.
        count: usize,
    },
    /// A client stores under several keys with one command.
    SetSeveral {
        /// The first key; the others follow it in its namespace.
        first: usize,
        /// How many.
        count: usize,
        /// Bytes of each value, at least.
        bytes: usize,
        /// Of those of one shard alone, and if none of them is there.
        only_new: bool,
    },
    /// A client reads a part of a value.
    GetPart {
        /// The key.
        key: usize,
        /// The part.
        part: Part,
    },
    /// A client replaces what was seen last of a key, if that is what is there.
    Exchange {
        /// The key.
        key: usize,
        /// Bytes of the value, at least.
        bytes: usize,
    },
    /// A client clears the namespace of a key, or all of them.
    Clear {
        /// The key; `None` is all namespaces.
        key: Option<usize>,
    },
    /// A client plans a clear of the namespace of a key.
    ClearAt {
        /// The key.
        key: usize,
        /// Milliseconds from now; at once, when there are none.
        after: u64,
    },
    /// Time passes, in nanoseconds, or until so many events have happened.
    Wait {
        /// Nanoseconds.
        nanos: u64,
        /// Events.
        events: u64,
    },
    /// The wall clock is set, by milliseconds.
    SetClock(i64),
    /// A client goes on with its scan of the namespace of a key, or begins one.
    Scan {
        /// The key.
        key: usize,
        /// About how many keys it asks for.
        count: u64,
    },
    /// All requests are answered.
    Drain,
    /// Everything comes to rest and is checked.
    Rest,
    /// Every key is read.
    ReadAll,
    /// The power fails now (or only the process ends), and the cache is mounted anew.
    Stop {
        /// The power fails, too.
        power: bool,
        /// The power fails in the mount.
        cut: Option<Moment>,
    },
    /// The power will fail at a command (or only the process ends), and the cache is mounted anew.
    StopAt {
        /// The power fails, too.
        power: bool,
        /// The command.
        at: Moment,
    },
    /// Before the next mount, one without this drive alone is tried, in which the power fails.
    Try {
        /// The drive.
        without: usize,
        /// When the power fails.
        cut: Moment,
    },
    /// Before the next mount, somebody takes the drives for those of a cache of so many shards.
    Recut(usize),
    /// A drive is missing from the next mount on.
    Away(usize),
    /// All drives are there from the next mount on, those that died, too.
    Back,
    /// A drive is exchanged for an empty one at the next mount.
    Blank(usize),
    /// A drive dies, now or at a command.
    Die {
        /// The drive.
        drive: usize,
        /// The command.
        at: Option<Moment>,
    },
    /// A drive refuses a write.
    WriteFault {
        /// The drive.
        drive: usize,
        /// The write.
        at: Moment,
    },
    /// Bits flip in blocks of a drive.
    Rot {
        /// The drive.
        drive: usize,
        /// Blocks.
        blocks: usize,
    },
    /// Blocks of a drive cannot be read any more.
    Spoil {
        /// The drive.
        drive: usize,
        /// Blocks.
        blocks: usize,
    },
    /// Reads of a drive return another block.
    Misread {
        /// The drive.
        drive: usize,
        /// Reads.
        count: u32,
    },
    /// Reads of a drive return what was there before the zone was reset.
    Stale {
        /// The drive.
        drive: usize,
        /// Reads.
        count: u32,
    },
    /// A write of a drive lands in another place.
    Miswrite {
        /// The drive.
        drive: usize,
        /// The write.
        at: Moment,
    },
    /// A zone of a drive is not there any more.
    LoseZone {
        /// The drive.
        drive: usize,
        /// The zone, counted behind the superblock log, over and over.
        zone: u32,
    },
    /// An operator takes a drive out of service, if he may.
    TakeOut(usize),
    /// An operator puts an empty drive in the place of one that is out of service, if he may.
    Join(usize),
    /// An operator removes a drive for good, if he may.
    GiveUp(usize),
    /// An operator adds a drive, in the place of one that was removed or behind the others, if he may.
    AddDrive {
        /// It joins; else the process ends when the drive has been named, and before any superblock knows of it.
        joins: bool,
    },
    /// Drives that were removed are there again at the next mount, with what they hold.
    PlugIn,
    /// The next mount has an index for objects of this many bytes.
    Resize(u64),
    /// Nobody serves the cache for so many nanoseconds before the next mount.
    Absent(u64),
    /// The process ends at a store to memory that outlives it.
    CutMemory {
        /// Stores before.
        skip: u32,
        /// Bytes of that store that arrive.
        arrive: usize,
    },
    /// So many reads of the last blocks of zones will return what was there before their reset.
    Relapse {
        /// The drive.
        drive: usize,
        /// Reads of each.
        reads: u32,
    },
    /// The last block of a journal zone cannot be read.
    SpoilJournal {
        /// The drive.
        drive: usize,
    },
    /// The process ends in good order, and the cache is mounted anew.
    EndWell {
        /// The power fails then.
        power: bool,
    },
    /// The process does not run for so many nanoseconds, and then it does again.
    Freeze(u64),
}

impl Act {
    /// An act is about keys and drives that there may be: others would be judged by nothing.
    pub(super) fn check(&self, drives: usize) {
        let most = drives + ADDED_MAX;
        match *self {
            Act::Get(key)
            | Act::Set { key, .. }
            | Act::Remove(key)
            | Act::Update { key, .. }
            | Act::GetPart { key, .. }
            | Act::Exchange { key, .. }
            | Act::ClearAt { key, .. }
            | Act::Clear { key: Some(key) } => assert!(key < KEYS, "key {key} of {KEYS}"),
            Act::Scan { key, count } => {
                assert!(key < KEYS, "key {key} of {KEYS}");
                assert!(count > 0, "a scan asks for no keys");
            }
            Act::GetSeveral { first, count } | Act::SetSeveral { first, count, .. } => {
                assert!(first < KEYS, "key {first} of {KEYS}");
                assert!(count > 0, "a command of no keys");
            }
            Act::Away(drive)
            | Act::Blank(drive)
            | Act::Die { drive, .. }
            | Act::WriteFault { drive, .. }
            | Act::Miswrite { drive, .. }
            | Act::LoseZone { drive, .. }
            | Act::SpoilJournal { drive }
            | Act::TakeOut(drive)
            | Act::Join(drive)
            | Act::GiveUp(drive) => assert!(drive < most, "drive {drive} of {most} at most"),
            Act::Rot { drive, blocks } | Act::Spoil { drive, blocks } => {
                assert!(drive < most, "drive {drive} of {most} at most");
                assert!(blocks > 0, "no block of drive {drive} is damaged");
            }
            Act::Misread { drive, count } | Act::Stale { drive, count } => {
                assert!(drive < most, "drive {drive} of {most} at most");
                assert!(count > 0, "no read of drive {drive} is wrong");
            }
            Act::Relapse { drive, reads } => {
                assert!(drive < most, "drive {drive} of {most} at most");
                assert!(reads > 0, "no read of drive {drive} is wrong");
            }
            Act::Recut(shards) => assert!(shards > 0, "drives are cut for no shards"),
            Act::Resize(bytes) => assert!(bytes > 0, "objects of no bytes"),
            Act::Clear { key: None }
            | Act::Wait { .. }
            | Act::SetClock(_)
            | Act::Drain
            | Act::Rest
            | Act::ReadAll
            | Act::Stop { .. }
            | Act::StopAt { .. }
            | Act::Try { .. }
            | Act::Back
            | Act::AddDrive { .. }
            | Act::PlugIn
            | Act::Absent(_)
            | Act::CutMemory { .. }
            | Act::EndWell { .. }
            | Act::Freeze(_) => {}
        }
    }

    /// True of what clients ask for.
    pub(super) fn is_of_client(&self) -> bool {
        matches!(
            self,
            Act::Get(_)
                | Act::Set { .. }
                | Act::Remove(_)
                | Act::Update { .. }
                | Act::GetSeveral { .. }
                | Act::SetSeveral { .. }
                | Act::GetPart { .. }
                | Act::Exchange { .. }
                | Act::Clear { .. }
                | Act::ClearAt { .. }
        )
    }
}

/// Faults that a run may have: most runs have few of them, so that those that are on meet often.
struct Weather {
    expiry: bool,
    clocks: bool,
    clears: bool,
    updates: bool,
    large: bool,
    media: u64,
    drives: bool,
    resize: bool,
    power: u64,
    keys: usize,
}

impl Weather {
    fn draw(random: &mut Random) -> Weather {
        Weather {
            expiry: random.chance(1, 2),
            clocks: random.chance(1, 4),
            clears: random.chance(1, 3),
            updates: random.chance(1, 2),
            large: random.chance(1, 2),
            media: if random.chance(1, 3) { 1 + random.below(6) } else { 0 },
            drives: random.chance(1, 3),
            resize: random.chance(1, 3),
            power: random.below(4),
            keys: [2, 4, 8, 16, KEYS][random.index(5)],
        }
    }
}

fn moment(random: &mut Random, kinds: &[Kind]) -> Moment {
    let kind = kinds[random.index(kinds.len())];
    let few = if kind == Kind::Any { 60 } else { 8 };
    Moment { kind, skip: u32::try_from(random.below(few)).expect("few") }
}

const KINDS: [Kind; 8] =
    [Kind::Any, Kind::Any, Kind::Chunk, Kind::Log, Kind::Header, Kind::Superblock, Kind::Reset, Kind::Flush];

/// Acts of a plan.
pub(super) fn draw(plan: &Plan) -> Vec<Act> {
    let mut acts = draw_first(plan);
    add_ends_of_zones(plan, &mut acts);
    add_narrow_lives(plan, &mut acts);
    several::add(plan, &mut acts);
    acts
}

/// Acts of a plan, as they were before others were drawn among them: scenarios are made of some.
pub(super) fn draw_first(plan: &Plan) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4eac);
    let mut acts = Vec::new();
    let weather = Weather::draw(&mut random);
    for _ in 0..1 + random.below(6) {
        if weather.power > 1 && random.chance(1, 3) {
            let power = weather.power == 2 || random.chance(1, 2);
            acts.push(Act::StopAt { power, at: moment(&mut random, &KINDS) });
        }
        for _ in 0..10 + random.below(140) {
            acts.push(draw_one(plan, &weather, &mut random));
        }
        if random.chance(1, 2) {
            acts.push(Act::Rest);
        }
        draw_stop(plan, &weather, &mut random, &mut acts);
        if random.chance(1, 2) {
            acts.push(Act::ReadAll);
        }
    }
    add_scans(plan, &mut acts);
    add_pressure(plan, &mut acts);
    add_operator(plan, &mut acts);
    add_planned(plan, &mut acts);
    add_growth(plan, &mut acts);
    add_expiring(plan, &mut acts);
    spare_some(plan, &mut acts);
    add_absences(plan, &mut acts);
    add_ends(plan, &mut acts);
    add_recuts(plan, &mut acts);
    acts
}

/// An operator who takes drives out of service and puts others in, among the acts of one run in six, drawn from a stream of
/// his own: what the others are for wants all drives.
fn add_operator(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e0d);
    if plan.drives == 1 || !random.chance(1, 6) {
        return;
    }
    let others = std::mem::take(acts);
    let every = 3 + random.below(40);
    for act in others {
        acts.push(act);
        if random.chance(1, every) {
            let drive = random.index(plan.drives);
            acts.push(if random.chance(1, 3) { Act::TakeOut(drive) } else { Act::Join(drive) });
        }
    }
}

/// Clears that are planned for a time, among the acts of one run in four, drawn from a stream of their own.
fn add_planned(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4ea7);
    if !random.chance(1, 4) {
        return;
    }
    let others = std::mem::take(acts);
    let (every, latest) = (2 + random.below(40), 1 + random.below(80));
    for act in others {
        acts.push(act);
        if random.chance(1, every) {
            acts.push(Act::ClearAt { key: random.index(2), after: random.below(latest) });
        }
    }
}

/// An operator who adds and removes drives, among the acts of one run in six, drawn from a stream of his own; what he does may be cut
/// short at any command.
fn add_growth(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e1d);
    if !random.chance(1, 6) {
        return;
    }
    let others = std::mem::take(acts);
    let every = 3 + random.below(40);
    let (cuts, plugs) = (random.chance(1, 2), random.chance(1, 3));
    for act in others {
        acts.push(act);
        if !random.chance(1, every) {
            continue;
        }
        if cuts && random.chance(1, 3) {
            let kinds = [Kind::Superblock, Kind::Superblock, Kind::Any, Kind::Reset, Kind::Flush];
            acts.push(Act::StopAt { power: random.chance(1, 2), at: moment(&mut random, &kinds) });
        }
        acts.push(match random.below(8) {
            0..3 => Act::GiveUp(random.index(plan.drives + ADDED_MAX)),
            3 if plugs => Act::PlugIn,
            4 => Act::AddDrive { joins: false },
            _ => Act::AddDrive { joins: true },
        });
    }
}

/// Stores of large values among the acts of one run in three, and reads of few keys: zones are evicted all the time, and what
/// is hot of them may be written anew. Drawn from a stream of their own.
fn add_pressure(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e9e);
    if !random.chance(1, 3) {
        return;
    }
    let others = std::mem::take(acts);
    let (every, hot) = (1 + random.below(4), 1 + random.index(6));
    let bytes = [700, 3_000, 9_000][random.index(3)];
    for act in others {
        acts.push(act);
        if !random.chance(1, every) {
            continue;
        }
        for _ in 0..1 + random.below(3) {
            let key = KEYS - 1 - random.index(12);
            acts.push(Act::Set { key, bytes, filler: Filler::Dots, expiry: Expiry::Never });
        }
        acts.push(Act::Get(random.index(hot)));
    }
}

/// Stores of values that expire soon, where there are groups for them, among the acts of one run in three: zones fill in which
/// nothing is alive after some milliseconds, but for a few values that live longer. Drawn from a stream of their own.
fn add_expiring(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e7f);
    if plan.ttl_groups == [0; 3] || random.chance(2, 3) {
        return;
    }
    let others = std::mem::take(acts);
    let (every, longest) = (1 + random.below(5), 2 + random.below(45));
    let bytes = [300, 3_000, 9_000][random.index(3)];
    for act in others {
        acts.push(act);
        if !random.chance(1, every) {
            continue;
        }
        for _ in 0..1 + random.below(4) {
            let (key, after) = (random.index(KEYS), 1 + random.below(longest));
            let expiry = if random.chance(1, 40) { Expiry::Never } else { Expiry::After(after) };
            acts.push(Act::Set { key, bytes, filler: Filler::Dots, expiry });
        }
        if random.chance(1, 3) {
            acts.push(Act::Wait { nanos: 1 << random.below(25), events: 1 + random.below(40) });
        }
    }
}

/// Some keys are asked for all the time and hardly ever stored anew, among large values that fill the flash several times over, in one
/// run of six: their objects are alive when zones go, and are written anew. Drawn from a stream of their own.
fn spare_some(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e5a);
    if !random.chance(1, 6) {
        return;
    }
    let others = std::mem::take(acts);
    let spared = 1 + random.index(8);
    for mut act in others {
        if let Act::Set { key, .. } = &mut act
            && *key < spared
            && !random.chance(1, 10)
        {
            *key = spared + random.index(KEYS - spared);
        }
        acts.push(act);
        for _ in 0..1 + random.below(4) {
            let key = spared + random.index(KEYS - spared);
            acts.push(Act::Set { key, bytes: 9_000, filler: Filler::Dots, expiry: Expiry::Never });
        }
        acts.push(Act::Get(random.index(spared)));
    }
}

/// Times in which nobody serves the cache, where that makes it forget, before it begins again and while a process stands still, among the acts.
/// Drawn from a stream of their own.
fn add_absences(plan: &Plan, acts: &mut Vec<Act>) {
    let Some(limit) = plan.forget_after else { return };
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4eab ^ 1 << 40);
    let others = std::mem::take(acts);
    let every = 5 + random.below(100);
    for act in others {
        let ends = matches!(act, Act::Stop { .. } | Act::StopAt { .. } | Act::AddDrive { joins: false });
        if ends && random.chance(1, 2) {
            acts.push(Act::Absent(random.below(limit * 2)));
        }
        acts.push(act);
        if random.chance(1, every) {
            acts.push(Act::Freeze(random.below(limit * 2)));
        }
    }
}

/// Ends of processes that have entries in memory, in good order and at stores to it, among the acts. Drawn from a stream of their own.
fn add_ends(plan: &Plan, acts: &mut Vec<Act>) {
    if plan.invalidate == Invalidate::Media {
        return;
    }
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e5d ^ 1 << 40);
    let others = std::mem::take(acts);
    let every = 10 + random.below(100);
    for act in others {
        if random.chance(1, every) {
            let skip = u32::try_from(random.below(12)).expect("few");
            acts.push(match random.below(4) {
                0 => Act::EndWell { power: random.chance(1, 2) },
                1 => Act::Stop { power: false, cut: None },
                _ => Act::CutMemory { skip, arrive: random.index(64) },
            });
        }
        acts.push(act);
    }
}

/// Starts with another number of shards, before some mounts of a cache that has several. Drawn from a stream of their own.
fn add_recuts(plan: &Plan, acts: &mut Vec<Act>) {
    if plan.shards == 1 {
        return;
    }
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e54 ^ 1 << 40);
    let others = std::mem::take(acts);
    for act in others {
        if matches!(act, Act::Stop { .. }) && random.chance(1, 4) {
            acts.push(Act::Recut(1 + random.index(SHARDS_MAX + 1)));
        }
        acts.push(act);
    }
}

/// Faults of the last blocks of zones, before some ends of lives in one run of six: a directory that closes a zone is read as that of an earlier
/// life, and the end of a journal is lost. Drawn from a stream of their own.
fn add_ends_of_zones(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e3d ^ 1 << 40);
    if !random.chance(1, 6) {
        return;
    }
    let others = std::mem::take(acts);
    let spoils = random.chance(1, 2);
    for act in others {
        if matches!(act, Act::Stop { .. }) && random.chance(1, 2) {
            let (drive, reads) = (random.index(plan.drives), 1 + random.below(5));
            let reads = u32::try_from(reads).expect("few");
            acts.push(if spoils { Act::SpoilJournal { drive } } else { Act::Relapse { drive, reads } });
        }
        acts.push(act);
    }
}

/// Lives with an index that has a bucket or few, between lives with a larger one, in one run of eight: much of what is found there finds no slot.
/// Drawn from a stream of their own.
fn add_narrow_lives(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e4a ^ 1 << 40);
    if !random.chance(1, 8) {
        return;
    }
    let others = std::mem::take(acts);
    for act in others {
        if matches!(act, Act::Stop { .. }) && random.chance(2, 3) {
            acts.push(Act::Resize(if random.chance(1, 2) { 1 << 20 } else { plan.object_mean }));
        }
        acts.push(act);
    }
}

/// Steps of scans among the acts of one run in three, drawn from a stream of their own.
fn add_scans(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e5c);
    if !random.chance(1, 3) {
        return;
    }
    let others = std::mem::take(acts);
    let (every, count) = (1 + random.below(8), 1 + random.below(6));
    for act in others {
        acts.push(act);
        if random.chance(1, every) {
            acts.push(Act::Scan { key: random.index(2), count });
        }
    }
}

/// An end of a life of the cache, with what changes before the next one.
fn draw_stop(plan: &Plan, weather: &Weather, random: &mut Random, acts: &mut Vec<Act>) {
    if weather.drives && plan.drives > 1 {
        acts.push(Act::Back);
        let drive = random.index(plan.drives);
        match random.below(6) {
            0 | 1 => acts.push(Act::Away(drive)),
            2 => acts.push(Act::Blank(drive)),
            3 => acts.push(Act::Die { drive, at: Some(moment(random, &KINDS)) }),
            _ => {}
        }
        while random.chance(1, 3) {
            let cut = moment(random, &[Kind::Superblock, Kind::Superblock, Kind::Any, Kind::Reset]);
            acts.push(Act::Try { without: random.index(plan.drives), cut });
        }
    }
    if weather.resize && random.chance(1, 2) {
        acts.push(Act::Resize(draw_object_mean(random)));
    }
    if weather.clocks && random.chance(1, 2) {
        acts.push(Act::SetClock(-i64::try_from(random.below(60)).expect("small")));
    }
    let power = weather.power > 0 && random.chance(2, 3);
    let cut = random.chance(1, 3).then(|| moment(random, &KINDS));
    acts.push(Act::Stop { power, cut });
}

fn draw_one(plan: &Plan, weather: &Weather, random: &mut Random) -> Act {
    let key = random.index(weather.keys);
    let sizes: &[usize] = if weather.large { &[20, 100, 700, 3000, 9000] } else { &[10, 40, 200] };
    let bytes = sizes[random.index(sizes.len())];
    let expiry = match weather.expiry && random.chance(1, 3) {
        true => Expiry::After(random.below(40)),
        false => Expiry::Never,
    };
    match random.below(100) {
        0..30 => {
            let filler = [Filler::Dots, Filler::Dots, Filler::Block, Filler::Record][random.index(4)];
            Act::Set { key, bytes, filler, expiry }
        }
        30..38 => Act::Remove(key),
        38..46 if weather.updates => {
            let changes = [
                Change::Keep,
                Change::Remove,
                Change::StoreIf { exists: random.chance(1, 2) },
                Change::Count,
                Change::Count,
                Change::Expire(expiry),
            ];
            Act::Update { key, change: changes[random.index(6)], bytes }
        }
        46 if weather.clears => Act::Clear { key: random.chance(2, 3).then_some(key) },
        47 if weather.clocks => {
            let by = i64::try_from(random.below(80)).expect("small");
            Act::SetClock(if random.chance(1, 2) { -by } else { by })
        }
        48 if weather.media > 0 => draw_fault(plan, weather, random),
        49 if weather.drives && random.chance(1, 8) => draw_loss(plan, random),
        50 if random.chance(1, 4) => Act::Drain,
        51 if random.chance(1, 8) => Act::Rest,
        52..70 => Act::Wait { nanos: 1 << random.below(27), events: 1 + random.below(40) },
        _ => Act::Get(key),
    }
}

fn draw_fault(plan: &Plan, weather: &Weather, random: &mut Random) -> Act {
    let drive = random.index(plan.drives);
    let blocks = 1 + random.index(6);
    let count = 1 + u32::try_from(random.below(6)).expect("few");
    match weather.media {
        1 => Act::Rot { drive, blocks },
        2 => Act::Spoil { drive, blocks },
        3 => Act::Misread { drive, count },
        4 => Act::Stale { drive, count },
        5 => Act::Miswrite { drive, at: moment(random, &[Kind::Chunk, Kind::Log, Kind::Log]) },
        _ => Act::LoseZone { drive, zone: count },
    }
}

fn draw_loss(plan: &Plan, random: &mut Random) -> Act {
    let drive = random.index(plan.drives);
    match random.below(3) {
        0 => Act::Die { drive, at: None },
        1 => Act::Die { drive, at: Some(moment(random, &KINDS)) },
        _ => Act::WriteFault { drive, at: moment(random, &[Kind::Any, Kind::Chunk, Kind::Log]) },
    }
}
