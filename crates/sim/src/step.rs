//! The steps of a run, and how they are written: one line each, in scenarios, traces and reports.
//!
//! ```text
//!   write 12+4 [fua]   read 0+8   trim 5+100 [fua]   flush      requests of clients: block + blocks
//!   run 20             stall 5000us                             20 events go by; time goes by unseen
//!   idle               verify                                   all comes to rest and is checked; all is read
//!   crash [at reset+2]                                          the power fails, now or at the third reset
//!   mount [cut header+0]                                        it comes back, and fails again in recovery
//!   lose 1   away 1   back 1   blank 1   foreign 1   exchange 0 2         while the power is off
//!   rollback 1 40                        a drive is as it was 40 steps ago, power off
//!   apart 1 40                           a drive is as if all had been copied 40 steps ago, and the copies used since
//!   readd 1 [cut chunk+3]                a drive that was away is taken in again, in service or not
//!   rival 30 77                          another server mounts the array, and writes 30 blocks drawn by 77; this one goes on
//!   hiccup 1 300ms plain                 a drive is away and comes back: plain, torn (what was in flight), pulled, power (its own)
//!   die 1 [at footer+0]   hang 1 30000ms   fail 1   replace 1             while it is on
//!   scrub [repair]   scrub-stop          an operator has everything read, or no more
//!   restart   rates 300KiB               the server stops in order and starts again; rebuilds and scrubs are limited
//!   rot 1 40 any open 77                 bits flip in 40 of 1000 blocks of open zones, drawn by 77
//!   unreadable 1 40 all 77               blocks can no longer be read
//!   misread 1 3   stale 1 3              the next reads return another block; what was there before a reset
//!   misread 1 at read+7                  a later one returns another block
//!   miswrite 1 [at chunk+4]              a write lands in another place
//!   write-fault 1 [at chunk+4]           a write is refused
//!   area take 1 77   area drop 1         a drive finishes a zone by itself; its windows are gone after the power failed
//!   area refuse 1 3                      a drive has no random write area left when it is asked for the next three
//!   zone 1 read-only 77   zone 1 offline 77   shrink 1 4        a zone fails; loses 4 blocks when reset
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Purpose of a command, as far as the drive can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Any command that changes the media.
    Any,
    /// A read.
    Read,
    /// A chunk of a stripe or filler.
    Chunk,
    /// The same in a segment of the collector.
    Move,
    /// A segment's header.
    Header,
    /// Part of a segment's footer.
    Footer,
    /// A superblock record.
    Superblock,
    /// A zone is finished.
    Finish,
    /// A zone is reset.
    Reset,
    /// The cache is flushed.
    Flush,
    /// Parity, or another record but a superblock, is appended to a log of the baseline; entries go to a journal of a cache.
    Log,
    /// A zone is opened with a random write area.
    Area,
    /// A window is committed.
    Commit,
    /// The marker of a window is written.
    Marker,
}

/// All kinds, with their names.
pub const KINDS: [(Kind, &str); 14] = [
    (Kind::Any, "any"),
    (Kind::Read, "read"),
    (Kind::Chunk, "chunk"),
    (Kind::Move, "move"),
    (Kind::Header, "header"),
    (Kind::Footer, "footer"),
    (Kind::Superblock, "superblock"),
    (Kind::Finish, "finish"),
    (Kind::Reset, "reset"),
    (Kind::Flush, "flush"),
    (Kind::Log, "log"),
    (Kind::Area, "area"),
    (Kind::Commit, "commit"),
    (Kind::Marker, "marker"),
];

/// The moment just before a command takes effect: `skip` others of its kind go before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// Kind of commands that count.
    pub kind: Kind,
    /// Count of such commands that take effect first.
    pub skip: u32,
}

/// Parts of blocks that rot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Data.
    Data,
    /// Out-of-band metadata.
    Oob,
    /// Either.
    Any,
}

/// Zones that are hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Zones of segments.
    All,
    /// Zones of segments that are not full.
    Open,
    /// Headers only.
    Headers,
    /// Footers only.
    Footers,
    /// Superblocks only.
    Superblocks,
}

/// Damage to many blocks of a member, drawn from a seed of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Damage {
    /// The member.
    pub member: usize,
    /// Blocks that are hit, of a thousand.
    pub per_mille: u64,
    /// Part of the blocks that rots.
    pub part: Part,
    /// Zones that are hit.
    pub scope: Scope,
    /// Seed by which the blocks are drawn.
    pub seed: u64,
}

/// How a drive is away for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manner {
    /// Commands in flight are carried out or not.
    Plain,
    /// Or in part.
    Torn,
    /// Its device goes, and another one comes.
    Pulled,
    /// It has no power, and loses its cache.
    Power,
}

/// A step of a run. The fields are as the lines above write them.
#[allow(missing_docs, reason = "every field is in the table of lines above")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Step {
    /// A client writes.
    Write { lba: u64, blocks: u64, fua: bool },
    /// A client reads.
    Read { lba: u64, blocks: u64 },
    /// A client trims or writes zeroes.
    Trim { lba: u64, blocks: u64, fua: bool },
    /// A client flushes.
    Flush,
    /// Events go by.
    Run { events: u64 },
    /// Time goes by, and nobody looks.
    Stall { us: u64 },
    /// Everything comes to rest and is checked.
    Idle,
    /// Everything is read.
    Verify,
    /// The power fails.
    Crash { at: Option<At> },
    /// The power comes back; it may fail again during recovery.
    Mount { cut: Option<At> },
    /// A drive is gone for good.
    Lose { member: usize },
    /// A drive is not there at the next mount.
    Away { member: usize },
    /// A drive that was away is there again, as it was.
    Back { member: usize },
    /// An empty drive is in its place.
    Blank { member: usize },
    /// A drive of another array is in its place.
    Foreign { member: usize },
    /// Two drives are in each other's place. Drawn apart, they may be one: all stay where they are then.
    Exchange { a: usize, b: usize },
    /// The media of a drive are as they were before the step so many steps ago.
    Rollback { member: usize, steps: usize },
    /// The drive of a member that failed is as in a copy of the array, of the moment before the step so many steps ago, that
    /// was used apart since.
    Apart { member: usize, steps: usize },
    /// An operator takes a drive in again that was away or had failed; the power may fail meanwhile.
    ReAdd { member: usize, cut: Option<At> },
    /// A drive stops answering for good.
    Die { member: usize, at: Option<At> },
    /// A drive answers nothing for a while.
    Hang { member: usize, ms: u64 },
    /// A drive is away for a while; nobody knows what became of its commands.
    Hiccup { member: usize, ms: u64, manner: Manner },
    /// An operator marks a drive as failed.
    Fail { member: usize },
    /// An operator gives an empty drive for one that failed: the member is rebuilt.
    Replace { member: usize },
    /// An operator has everything read, and what is damaged written elsewhere.
    Scrub { repair: bool },
    /// An operator stops the scrub.
    ScrubStop,
    /// The server is stopped in order and started again.
    Restart,
    /// The server is killed: what is in flight takes effect or not, and drives keep what is in their caches.
    Kill,
    /// Rebuilds and scrubs may move so much a second; nothing is no limit.
    Rates { kib: u64 },
    /// Bits flip.
    Rot(Damage),
    /// Blocks cannot be read any more.
    Unreadable(Damage),
    /// The next reads return the data of another place.
    Misread { member: usize, count: u32 },
    /// The next reads return what was there before the zone was reset.
    Stale { member: usize, count: u32 },
    /// A write lands in another place.
    Miswrite { member: usize, at: At },
    /// A write is refused.
    WriteFault { member: usize, at: At },
    /// A zone takes no more writes, or nothing at all.
    Zone { member: usize, offline: bool, seed: u64 },
    /// The next zone that is reset holds fewer blocks than before.
    Shrink { member: usize, blocks: u32 },
    /// A drive finishes a zone with a random write area by itself.
    AreaTake { member: usize, seed: u64 },
    /// What a drive held in windows is gone, power off.
    AreaDrop { member: usize },
    /// Another server mounts the array on the same drives and writes, while this one has it.
    Rival { blocks: u64, seed: u64 },
    /// A drive refuses the next openings of zones with random write areas.
    AreaRefuse { member: usize, count: u32 },
    /// A later read returns the data of another place. The last one: where a step stands is in the hashes of event logs.
    MisreadAt { member: usize, at: At },
}

impl Step {
    /// True for what damages the media of a drive for good, so that it does not hold what it should.
    pub(crate) fn spoils_media(&self) -> bool {
        matches!(
            self,
            Step::Rot(_)
                | Step::Unreadable(_)
                | Step::Misread { .. }
                | Step::MisreadAt { .. }
                | Step::Stale { .. }
                | Step::Miswrite { .. }
                | Step::Zone { .. }
                | Step::Shrink { .. }
                | Step::AreaTake { .. }
                | Step::AreaDrop { .. }
        )
    }

    /// A step that was drawn does something: one that cannot proves nothing.
    ///
    /// # Panics
    /// When it does not.
    pub fn check(&self) {
        match *self {
            Step::Write { blocks, .. } | Step::Read { blocks, .. } | Step::Trim { blocks, .. } => {
                assert!(blocks > 0, "a request of no blocks: {self}");
            }
            Step::Rollback { steps, .. } | Step::Apart { steps, .. } => {
                assert!(steps > 0, "a drive is as it is: {self}");
            }
            // A drive that is back at once has lost what was under way all the same: only hangs have a length.
            Step::Hang { ms, .. } => assert!(ms > 0, "for no time: {self}"),
            Step::Rot(Damage { per_mille, .. }) | Step::Unreadable(Damage { per_mille, .. }) => {
                assert!((1..=1_000).contains(&per_mille), "of a thousand: {self}");
            }
            Step::Misread { count, .. } | Step::Stale { count, .. } | Step::AreaRefuse { count, .. } => {
                assert!(count > 0, "no command is wrong: {self}");
            }
            Step::Shrink { blocks, .. } => assert!(blocks > 0, "a zone loses nothing: {self}"),
            _ => {}
        }
    }

    /// The member that breaks, if this is a fault.
    #[must_use]
    pub fn member(&self) -> Option<usize> {
        match *self {
            Step::Rot(Damage { member, .. }) | Step::Unreadable(Damage { member, .. }) => Some(member),
            Step::Die { member, .. }
            | Step::Rollback { member, .. }
            | Step::Hang { member, .. }
            | Step::Hiccup { member, .. }
            | Step::Fail { member }
            | Step::Misread { member, .. }
            | Step::MisreadAt { member, .. }
            | Step::Stale { member, .. }
            | Step::Miswrite { member, .. }
            | Step::WriteFault { member, .. }
            | Step::Zone { member, .. }
            | Step::AreaTake { member, .. }
            | Step::AreaDrop { member }
            | Step::Shrink { member, .. } => Some(member),
            _ => None,
        }
    }
}

fn word<T: Copy + PartialEq>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(known, _)| *known == value).map_or("?", |(_, name)| name)
}

const MANNERS: [(Manner, &str); 4] =
    [(Manner::Plain, "plain"), (Manner::Torn, "torn"), (Manner::Pulled, "pulled"), (Manner::Power, "power")];
const PARTS: [(Part, &str); 3] = [(Part::Data, "data"), (Part::Oob, "oob"), (Part::Any, "any")];
const SCOPES: [(Scope, &str); 5] = [
    (Scope::All, "all"),
    (Scope::Open, "open"),
    (Scope::Headers, "headers"),
    (Scope::Footers, "footers"),
    (Scope::Superblocks, "superblocks"),
];

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", word(&KINDS, self.kind), self.skip)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { member, per_mille, part, scope, seed } = *self;
        write!(f, "{member} {per_mille} {} {} {seed}", word(&PARTS, part), word(&SCOPES, scope))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forced = |fua: bool| if fua { " fua" } else { "" };
        let when = |word: &str, at: &Option<At>| at.map(|at| format!(" {word} {at}")).unwrap_or_default();
        match self {
            Step::Write { lba, blocks, fua } => write!(f, "write {lba}+{blocks}{}", forced(*fua)),
            Step::Read { lba, blocks } => write!(f, "read {lba}+{blocks}"),
            Step::Trim { lba, blocks, fua } => write!(f, "trim {lba}+{blocks}{}", forced(*fua)),
            Step::Flush => write!(f, "flush"),
            Step::Run { events } => write!(f, "run {events}"),
            Step::Stall { us } => write!(f, "stall {us}us"),
            Step::Idle => write!(f, "idle"),
            Step::Verify => write!(f, "verify"),
            Step::Crash { at } => write!(f, "crash{}", when("at", at)),
            Step::Mount { cut } => write!(f, "mount{}", when("cut", cut)),
            Step::Lose { member } => write!(f, "lose {member}"),
            Step::Away { member } => write!(f, "away {member}"),
            Step::Back { member } => write!(f, "back {member}"),
            Step::Blank { member } => write!(f, "blank {member}"),
            Step::Foreign { member } => write!(f, "foreign {member}"),
            Step::Exchange { a, b } => write!(f, "exchange {a} {b}"),
            Step::Rollback { member, steps } => write!(f, "rollback {member} {steps}"),
            Step::Apart { member, steps } => write!(f, "apart {member} {steps}"),
            Step::ReAdd { member, cut } => write!(f, "readd {member}{}", when("cut", cut)),
            Step::Die { member, at } => write!(f, "die {member}{}", when("at", at)),
            Step::Hiccup { member, ms, manner } => {
                write!(f, "hiccup {member} {ms}ms {}", word(&MANNERS, *manner))
            }
            Step::Hang { member, ms } => write!(f, "hang {member} {ms}ms"),
            Step::Fail { member } => write!(f, "fail {member}"),
            Step::Replace { member } => write!(f, "replace {member}"),
            Step::Scrub { repair } => write!(f, "scrub{}", if *repair { " repair" } else { "" }),
            Step::ScrubStop => write!(f, "scrub-stop"),
            Step::Rival { blocks, seed } => write!(f, "rival {blocks} {seed}"),
            Step::Restart => write!(f, "restart"),
            Step::Kill => write!(f, "kill"),
            Step::Rates { kib } => write!(f, "rates {kib}KiB"),
            Step::Rot(damage) => write!(f, "rot {damage}"),
            Step::Unreadable(damage) => write!(f, "unreadable {damage}"),
            Step::Misread { member, count } => write!(f, "misread {member} {count}"),
            Step::MisreadAt { member, at } => write!(f, "misread {member} at {at}"),
            Step::Stale { member, count } => write!(f, "stale {member} {count}"),
            Step::Miswrite { member, at } => write!(f, "miswrite {member} at {at}"),
            Step::WriteFault { member, at } => write!(f, "write-fault {member} at {at}"),
            Step::Zone { member, offline, seed } => {
                write!(f, "zone {member} {} {seed}", if *offline { "offline" } else { "read-only" })
            }
            Step::AreaTake { member, seed } => write!(f, "area take {member} {seed}"),
            Step::AreaDrop { member } => write!(f, "area drop {member}"),
            Step::AreaRefuse { member, count } => write!(f, "area refuse {member} {count}"),
            Step::Shrink { member, blocks } => write!(f, "shrink {member} {blocks}"),
        }
    }
}

impl From<Step> for String {
    fn from(step: Step) -> String {
        step.to_string()
    }
}

impl TryFrom<String> for Step {
    type Error = StepError;

    fn try_from(text: String) -> Result<Step, StepError> {
        text.parse()
    }
}

/// A line that is no step.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a step; crates/sim/src/step.rs shows them all")]
pub struct StepError(String);

/// The words of a line, taken one by one.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl Words<'_> {
    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn with_unit(&mut self, unit: &str) -> Option<u64> {
        self.0.next()?.strip_suffix(unit)?.parse().ok()
    }

    fn name<T: Copy>(&mut self, names: &[(T, &'static str)]) -> Option<T> {
        let name = self.0.next()?;
        names.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
    }

    fn range(&mut self) -> Option<(u64, u64)> {
        let (lba, blocks) = self.0.next()?.split_once('+')?;
        Some((lba.parse().ok()?, blocks.parse().ok()?))
    }

    /// True when the next word is this one, false when there is none.
    fn flag(&mut self, word: &str) -> Option<bool> {
        self.0.next().map_or(Some(false), |next| (next == word).then_some(true))
    }

    fn at(&mut self) -> Option<At> {
        let (kind, skip) = self.0.next()?.split_once('+')?;
        let kind = KINDS.iter().find(|(_, known)| *known == kind)?.0;
        Some(At { kind, skip: skip.parse().ok()? })
    }

    /// `word kind+skip`, or nothing.
    fn when(&mut self, word: &str) -> Option<Option<At>> {
        if self.flag(word)? { Some(Some(self.at()?)) } else { Some(None) }
    }

    fn must_when(&mut self, word: &str) -> Option<At> {
        self.when(word)?
    }

    fn damage(&mut self) -> Option<Damage> {
        Some(Damage {
            member: self.number()?,
            per_mille: self.number()?,
            part: self.name(&PARTS)?,
            scope: self.name(&SCOPES)?,
            seed: self.number()?,
        })
    }

    fn step(&mut self) -> Option<Step> {
        Some(match self.0.next()? {
            "write" => {
                let (lba, blocks) = self.range()?;
                Step::Write { lba, blocks, fua: self.flag("fua")? }
            }
            "read" => {
                let (lba, blocks) = self.range()?;
                Step::Read { lba, blocks }
            }
            "trim" => {
                let (lba, blocks) = self.range()?;
                Step::Trim { lba, blocks, fua: self.flag("fua")? }
            }
            "flush" => Step::Flush,
            "run" => Step::Run { events: self.number()? },
            "stall" => Step::Stall { us: self.with_unit("us")? },
            "idle" => Step::Idle,
            "verify" => Step::Verify,
            "crash" => Step::Crash { at: self.when("at")? },
            "mount" => Step::Mount { cut: self.when("cut")? },
            "lose" => Step::Lose { member: self.number()? },
            "away" => Step::Away { member: self.number()? },
            "back" => Step::Back { member: self.number()? },
            "blank" => Step::Blank { member: self.number()? },
            "foreign" => Step::Foreign { member: self.number()? },
            "rollback" => Step::Rollback { member: self.number()?, steps: self.number()? },
            "apart" => Step::Apart { member: self.number()?, steps: self.number()? },
            "readd" => Step::ReAdd { member: self.number()?, cut: self.when("cut")? },
            "exchange" => Step::Exchange { a: self.number()?, b: self.number()? },
            other => return self.fault(other),
        })
    }

    fn fault(&mut self, first: &str) -> Option<Step> {
        Some(match first {
            "die" => Step::Die { member: self.number()?, at: self.when("at")? },
            "hiccup" => {
                let (member, ms) = (self.number()?, self.with_unit("ms")?);
                Step::Hiccup { member, ms, manner: self.name(&MANNERS)? }
            }
            "hang" => Step::Hang { member: self.number()?, ms: self.with_unit("ms")? },
            "fail" => Step::Fail { member: self.number()? },
            "replace" => Step::Replace { member: self.number()? },
            "scrub-stop" => Step::ScrubStop,
            "restart" => Step::Restart,
            "rival" => Step::Rival { blocks: self.number()?, seed: self.number()? },
            "kill" => Step::Kill,
            "rates" => Step::Rates { kib: self.with_unit("KiB")? },
            "scrub" => Step::Scrub { repair: self.flag("repair")? },
            "rot" => Step::Rot(self.damage()?),
            "unreadable" => Step::Unreadable(self.damage()?),
            "misread" => {
                let member = self.number()?;
                match self.0.next()? {
                    "at" => Step::MisreadAt { member, at: self.at()? },
                    count => Step::Misread { member, count: count.parse().ok()? },
                }
            }
            "stale" => Step::Stale { member: self.number()?, count: self.number()? },
            "miswrite" => Step::Miswrite { member: self.number()?, at: self.must_when("at")? },
            "write-fault" => Step::WriteFault { member: self.number()?, at: self.must_when("at")? },
            "zone" => {
                let member = self.number()?;
                let offline = self.name(&[(true, "offline"), (false, "read-only")])?;
                Step::Zone { member, offline, seed: self.number()? }
            }
            "area" => match self.0.next()? {
                "take" => Step::AreaTake { member: self.number()?, seed: self.number()? },
                "drop" => Step::AreaDrop { member: self.number()? },
                "refuse" => Step::AreaRefuse { member: self.number()?, count: self.number()? },
                _ => return None,
            },
            "shrink" => Step::Shrink { member: self.number()?, blocks: self.number()? },
            _ => return None,
        })
    }
}

impl FromStr for Step {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Step, StepError> {
        let mut words = Words(text.split_whitespace());
        let step = words.step().filter(|_| words.0.next().is_none());
        step.ok_or_else(|| StepError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_read_as_it_is_written() {
        let lines = [
            "write 12+4",
            "write 12+4 fua",
            "read 0+8",
            "trim 5+100 fua",
            "flush",
            "run 20",
            "stall 5000us",
            "idle",
            "verify",
            "crash",
            "crash at reset+2",
            "mount",
            "mount cut header+0",
            "lose 1",
            "away 1",
            "back 1",
            "area take 1 77",
            "area drop 1",
            "area refuse 1 3",
            "crash at commit+2",
            "blank 1",
            "foreign 1",
            "exchange 0 2",
            "rollback 1 40",
            "apart 1 12",
            "readd 1",
            "readd 1 cut superblock+2",
            "die 1",
            "die 1 at footer+0",
            "hang 1 30000ms",
            "hiccup 1 300ms plain",
            "hiccup 0 20ms pulled",
            "rival 30 77",
            "fail 1",
            "replace 1",
            "scrub",
            "scrub repair",
            "scrub-stop",
            "restart",
            "rates 300KiB",
            "rot 1 40 any open 77",
            "unreadable 1 40 data all 77",
            "misread 1 3",
            "misread 1 at read+7",
            "stale 1 3",
            "miswrite 1 at chunk+4",
            "write-fault 1 at move+4",
            "zone 1 read-only 77",
            "zone 1 offline 77",
            "shrink 1 4",
        ];
        for line in lines {
            assert_eq!(line.parse::<Step>().unwrap().to_string(), line);
        }
        for line in ["", "write", "write 1", "write 1+2 now", "flush flush", "crash at", "die", "run x"] {
            assert!(line.parse::<Step>().is_err(), "{line}");
        }
    }
}
