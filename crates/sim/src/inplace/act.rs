//! Acts of a run: what clients ask, and what goes wrong.

use super::plan::{Plan, Policy};
use base::random::Random;
use block::md::policy::Wish;

/// An act. Members are roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A client writes.
    Write {
        /// First block.
        lba: u64,
        /// Blocks.
        blocks: u64,
        /// Survives a power failure once it is answered.
        durable: bool,
    },
    /// A client reads.
    Read {
        /// First block.
        lba: u64,
        /// Blocks.
        blocks: u64,
    },
    /// A client trims.
    Trim {
        /// First block.
        lba: u64,
        /// Blocks.
        blocks: u64,
        /// Survives a power failure once it is answered.
        durable: bool,
    },
    /// A client flushes.
    Flush,
    /// Time passes, in nanoseconds, or until so many events have happened.
    Wait {
        /// Nanoseconds.
        nanos: u64,
        /// Events.
        events: u64,
    },
    /// All requests are answered.
    Drain,
    /// A resync comes to its end.
    Resync,
    /// Every block is read.
    ReadAll,
    /// The power fails, and the array is started anew.
    Crash,
    /// The server is killed, and begins anew: caches of disks stay.
    Kill,
    /// The power fails, Linux md takes the array over and writes, the power fails again, and the array is started anew.
    TakeOver,
    /// The array is stopped, looked at, and started anew.
    Stop,
    /// A member dies.
    Die(usize),
    /// The journal is lost: it dies, or its next write fails, or an operator takes it out.
    LoseJournal(Loss),
    /// The server stops, and an operator adds another journal: the power fails after so many superblocks, then it is typed again.
    AddJournal(usize),
    /// An operator takes a member out.
    Fail(usize),
    /// The next write of a member fails.
    WriteFault(usize),
    /// The next flush of a member fails, and what it was to make durable is not.
    FlushFault(usize),
    /// A row of a member cannot be read.
    Spoil {
        /// Member.
        member: usize,
        /// Row.
        row: u64,
    },
    /// A row of a member can neither be read nor written from now on.
    Scar {
        /// Member.
        member: usize,
        /// Row.
        row: u64,
    },
    /// A row of a member keeps what it holds: writes of it fail from now on, and reads return what was there.
    Stick {
        /// Member.
        member: usize,
        /// Row.
        row: u64,
    },
    /// A scrub begins, unless it must not.
    Scrub {
        /// Parities that are wrong are written anew.
        repairs: bool,
    },
    /// A scrub is stopped.
    StopScrub,
    /// When nothing is broken: bits flip in a parity of so many rows, and scrubs check, repair and check again.
    Rot {
        /// Rows.
        rows: u64,
    },
    /// An empty device, or a spare, is to replace a member that works.
    Replace {
        /// Member.
        member: usize,
        /// A spare does.
        by_spare: bool,
    },
    /// The device that is to replace a member is lost, if there is one.
    LoseReplacement {
        /// Member.
        member: usize,
        /// Manner.
        how: Loss,
    },
    /// An empty device comes in the place of a member that failed.
    Add(usize),
    /// A spare comes.
    Spare,
    /// A device that was a member and went is taken back in its role, unless that must not be.
    Return(usize),
    /// The consistency policy is changed, unless that must not be.
    Grow(Wish),
    /// Members that are new come to be whole, as far as that can be.
    Rebuild,
    /// Members that died are there again at the next start, with what they had.
    Revive,
    /// The next write of data to a member is answered as done, and lands so many rows farther on, or nowhere.
    Lie {
        /// Member.
        member: usize,
        /// Rows.
        astray: Option<i64>,
    },
    /// When nothing else is broken: scrubs count what writes left that were not done where they were to be, repair, and check again.
    Expose,
    /// A member answers nothing for a while.
    Hang {
        /// Member.
        member: usize,
        /// Nanoseconds.
        nanos: u64,
    },
    /// A member ends in the middle of its data from now on.
    Cut(usize),
    /// Two members have each other's places at the next start.
    Exchange(usize, usize),
    /// From now on an operator takes parities for right, where starts are refused for what is in doubt.
    Force,
}

impl Act {
    /// An act is about members, rows and blocks that are there: others would be judged by nothing.
    pub(super) fn check(&self, plan: &Plan) {
        let (blocks_of_volume, rows) = (plan.blocks(), plan.stripes * u64::from(plan.chunk) / 8);
        let members = usize::try_from(plan.members).expect("few");
        match *self {
            Act::Write { lba, blocks, .. } | Act::Trim { lba, blocks, .. } | Act::Read { lba, blocks } => {
                assert!(blocks > 0, "a request of no blocks at {lba}");
                assert!(
                    lba + blocks <= blocks_of_volume,
                    "{blocks} blocks at {lba} of a volume of {blocks_of_volume}"
                );
            }
            Act::Die(member)
            | Act::Fail(member)
            | Act::WriteFault(member)
            | Act::FlushFault(member)
            | Act::Add(member)
            | Act::Return(member)
            | Act::Cut(member)
            | Act::Replace { member, .. }
            | Act::LoseReplacement { member, .. }
            | Act::Lie { member, .. } => assert!(member < members, "member {member} of {members}"),
            Act::Spoil { member, row } | Act::Scar { member, row } | Act::Stick { member, row } => {
                assert!(member < members, "member {member} of {members}");
                assert!(row < rows, "row {row} of {rows}");
            }
            Act::Exchange(one, other) => {
                assert!(one < members && other < members, "members {one} and {other} of {members}");
            }
            Act::Hang { member, nanos } => {
                assert!(member < members, "member {member} of {members}");
                assert!(nanos > 0, "member {member} hangs for no time");
            }
            Act::Rot { rows } => assert!(rows > 0, "no row rots"),
            Act::Wait { .. }
            | Act::LoseJournal(_)
            | Act::AddJournal(_)
            | Act::Flush
            | Act::Drain
            | Act::Resync
            | Act::ReadAll
            | Act::Crash
            | Act::Kill
            | Act::TakeOver
            | Act::Stop
            | Act::Scrub { .. }
            | Act::StopScrub
            | Act::Expose
            | Act::Spare
            | Act::Grow(_)
            | Act::Rebuild
            | Act::Revive
            | Act::Force => {}
        }
    }
}

/// Manner in which a device is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It dies.
    Dies,
    /// Its next write fails.
    Fails,
    /// It is taken out.
    TakenOut,
}

fn range(random: &mut Random, blocks: u64) -> (u64, u64) {
    let lba = random.below(blocks);
    let most = (blocks - lba).min(1 << random.below(7));
    (lba, 1 + random.below(most))
}

/// A command of a member that fails: a write, or a flush where there is something to flush.
fn fault(random: &mut Random, plan: &Plan, member: usize) -> Act {
    if plan.is_volatile && random.chance(1, 3) { Act::FlushFault(member) } else { Act::WriteFault(member) }
}

/// A row of a member that cannot be read, or written either.
fn blemish(random: &mut Random, members: usize, rows: u64) -> Act {
    let fails_writes = random.chance(1, 3);
    let (member, row) = (random.index(members), random.below(rows));
    match (fails_writes, row % 2) {
        (true, 0) => Act::Scar { member, row },
        (true, _) => Act::Stick { member, row },
        (false, _) => Act::Spoil { member, row },
    }
}

/// Members go and come, the same ones again and again.
fn of_members(random: &mut Random, plan: &Plan, victims: [usize; 2]) -> Act {
    match random.below(8) {
        0 => Act::Rebuild,
        1 => Act::Die(victims[random.index(2)]),
        2 => {
            let member = victims[random.index(2)];
            fault(random, plan, member)
        }
        3 => Act::Fail(victims[random.index(2)]),
        4 if random.chance(1, 3) => Act::Revive,
        4 => Act::Fail(victims[random.index(2)]),
        5 if random.chance(1, 3) => Act::Spare,
        5 => Act::Return(victims[random.index(2)]),
        _ => Act::Add(victims[random.index(2)]),
    }
}

/// Acts of a plan.
pub(super) fn draw(plan: &Plan) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0xac75);
    let mut acts = Vec::new();
    let blocks = plan.blocks();
    let rows = plan.stripes * u64::from(plan.chunk) / 8;
    let members = usize::try_from(plan.members).expect("few");
    for _ in 0..1 + random.below(4) {
        let faults = random.below(4);
        // In some runs members are taken out and replaced, the same ones again and again.
        let replaces = random.chance(1, 2);
        let victims = [random.index(members), random.index(members)];
        // Some runs keep to a few places, so that writes meet.
        let hot = if random.chance(1, 2) { blocks } else { (1 + random.below(40)).min(blocks) };
        if random.chance(1, 4) {
            acts.push(Act::Resync);
        }
        for _ in 0..10 + random.below(110) {
            let (lba, count) = range(&mut random, hot);
            acts.push(match random.below(100) {
                0..45 => Act::Write { lba, blocks: count, durable: random.chance(1, 6) },
                45..65 => Act::Read { lba, blocks: count },
                65..71 => {
                    let (lba, _) = range(&mut random, blocks);
                    Act::Trim { lba, blocks: 1 + random.below(blocks - lba), durable: random.chance(1, 4) }
                }
                71..76 => Act::Flush,
                76..79 if replaces => of_members(&mut random, plan, victims),
                76..94 => Act::Wait { nanos: 1 << random.below(30), events: 1 + random.below(60) },
                94 => Act::Drain,
                95 => match random.below(6) {
                    0 => Act::StopScrub,
                    1 => Act::Rot { rows: 1 + random.below(5) },
                    _ => Act::Scrub { repairs: random.chance(1, 2) },
                },
                96 => Act::Wait { nanos: 30_000_000_000, events: 2000 },
                97 if faults == 1 => Act::Die(random.index(members)),
                98 if faults == 2 => {
                    let member = random.index(members);
                    fault(&mut random, plan, member)
                }
                97..100 if faults == 3 => blemish(&mut random, members, rows),
                _ => Act::Wait { nanos: 100_000, events: 3 },
            });
        }
        if random.chance(1, 8) {
            acts.push(Act::Revive);
        }
        if replaces && random.chance(2, 3) {
            // Otherwise most of them crash while they are dirty and degraded, and are refused.
            acts.push(if random.chance(1, 3) { Act::Return(victims[0]) } else { Act::Add(victims[0]) });
            acts.push(Act::Drain);
            acts.push(Act::Wait { nanos: 210_000_000 << random.below(9), events: 1 << random.below(12) });
        }
        acts.push(if random.chance(3, 5) { Act::Crash } else { Act::Stop });
        if random.chance(1, 2) {
            acts.push(Act::ReadAll);
        }
    }
    let acts = with_losses(plan, with_growth(plan, with_md(plan, with_streams(plan, acts))));
    with_force(plan, with_lies(plan, with_hangs(plan, with_kills(plan, with_replacements(plan, acts)))))
}

/// In some runs writes are not done where they were to be. Drawn from a source of its own.
fn with_lies(plan: &Plan, acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x11e_0d15);
    if !random.chance(1, 10) {
        return acts;
    }
    let members = usize::try_from(plan.members).expect("few");
    let rows = i64::try_from(plan.stripes * u64::from(plan.chunk) / 8).expect("few");
    let mut all = Vec::new();
    for act in acts {
        all.push(act);
        if random.chance(1, 30) {
            let by = i64::try_from(random.below(64)).expect("less than 64") - 32;
            let astray = random.chance(1, 2).then_some(by.clamp(-rows, rows));
            all.push(Act::Lie { member: random.index(members), astray });
        }
        if random.chance(1, 30) {
            all.push(Act::Expose);
        }
    }
    all.push(Act::Expose);
    all
}

/// In some runs members hang, end too early, or have each other's places. Drawn from a source of its own.
fn with_hangs(plan: &Plan, acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x4a96_0000);
    if !random.chance(1, 8) {
        return acts;
    }
    let members = usize::try_from(plan.members).expect("few");
    let mut all = Vec::new();
    for act in acts {
        all.push(act);
        if random.chance(1, 20) {
            let nanos = (1 + random.below(8)) << (20 + random.below(14));
            all.push(Act::Hang { member: random.index(members), nanos });
        }
        if random.chance(1, 40) {
            all.push(Act::Exchange(random.index(members), random.index(members)));
        }
        if random.chance(1, 120) {
            all.push(Act::Cut(random.index(members)));
        }
    }
    all
}

/// In some runs what is in doubt is forced, and all is read again at the end. Drawn from a source of its own.
fn with_force(plan: &Plan, mut acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0xf0_4ced);
    if random.chance(1, 3) {
        acts.insert(random.index(acts.len()), Act::Force);
        acts.push(Act::ReadAll);
    }
    acts
}

/// In some runs the server is killed where the power would have failed, or shortly before. Drawn from a source of its own.
fn with_kills(plan: &Plan, acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x6b11_ed00);
    if random.chance(2, 3) {
        return acts;
    }
    let mut all = Vec::new();
    for act in acts {
        if act == Act::Crash && random.chance(2, 3) {
            all.push(Act::Kill);
            if random.chance(1, 3) {
                continue;
            }
            all.push(Act::Wait { nanos: 1 << random.below(30), events: 1 + random.below(80) });
        }
        all.push(act);
    }
    all
}

/// In some runs members are replaced while they work. Drawn from a source of its own.
fn with_replacements(plan: &Plan, acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x4e91_ace0);
    let has_logs = matches!(plan.policy, Policy::Ppl(_) | Policy::Journal(_));
    if random.chance(2, 3) || (has_logs && random.chance(9, 10)) {
        return acts;
    }
    let members = usize::try_from(plan.members).expect("few");
    let victims = [random.index(members), random.index(members)];
    let mut all = Vec::new();
    for act in acts {
        all.push(act);
        let member = victims[random.index(2)];
        if random.chance(1, 16) {
            all.push(Act::Replace { member, by_spare: random.chance(1, 5) });
            all.push(Act::Wait { nanos: 1 << random.below(31), events: 1 + random.below(300) });
        }
        if !random.chance(1, 24) {
            continue;
        }
        let how = [Loss::Dies, Loss::Fails, Loss::TakenOut][random.index(3)];
        all.push(match random.below(8) {
            0 | 1 => Act::LoseReplacement { member, how },
            2 => Act::Fail(member),
            3 => fault(&mut random, plan, member),
            4 => Act::Die(member),
            5 => Act::Rebuild,
            6 => Act::Spare,
            _ => Act::Crash,
        });
    }
    all
}

/// In some runs with a journal that is lost. Drawn from a source of its own.
fn with_losses(plan: &Plan, mut acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x105e_0109);
    if matches!(plan.policy, Policy::Journal(_)) && random.chance(1, 5) {
        let loss = [Loss::Dies, Loss::Fails, Loss::TakenOut][random.index(3)];
        acts.insert(random.index(acts.len()), Act::LoseJournal(loss));
    }
    acts
}

/// In some runs the consistency policy is changed. Drawn from a source of its own.
fn with_growth(plan: &Plan, acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x600_dbed);
    if random.chance(2, 3) {
        return acts;
    }
    let mut all = Vec::new();
    for act in acts {
        all.push(act);
        if random.chance(1, 16) {
            let wish = [Wish::Resync, Wish::Resync, Wish::Bitmap(Some(4096)), Wish::Bitmap(None), Wish::Ppl];
            all.push(Act::Grow(wish[random.index(5)]));
            if random.chance(1, 4) {
                all.push(Act::Wait { nanos: 1 << random.below(30), events: 1 + random.below(80) });
                all.push(Act::Crash);
            }
        }
    }
    all
}

/// In some runs with logs md writes between two starts. Drawn from a source of its own.
fn with_md(plan: &Plan, mut acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x3d_0f11);
    if matches!(plan.policy, Policy::Ppl(_)) && random.chance(1, 3) {
        let crashes = acts.iter_mut().filter(|act| **act == Act::Crash);
        crashes.filter(|_| random.chance(1, 2)).for_each(|act| *act = Act::TakeOver);
    }
    acts
}

/// In some runs writes go on where they ended, as streams do. Drawn from a source of its own.
fn with_streams(plan: &Plan, acts: Vec<Act>) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x57ea_a111);
    if random.chance(1, 2) {
        return acts;
    }
    let mut all = Vec::new();
    for act in acts {
        let is_begin = matches!(act, Act::Write { .. }) && random.chance(1, 3);
        let count = if is_begin { 2 + random.below(24) } else { 1 };
        match act {
            Act::Write { lba, blocks, durable } => all.extend(
                (0..count)
                    .map(|step| lba + step * blocks)
                    .take_while(|lba| lba + blocks <= plan.blocks())
                    .map(|lba| Act::Write { lba, blocks, durable }),
            ),
            other => all.push(other),
        }
    }
    all
}
