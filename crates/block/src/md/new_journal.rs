//! Journal that takes the place of one that failed or is missing: what it gets, and what members get before and after.
//!
//! ```text
//!   members: no journal, all of it is to be resynced ─> journal: it is the journal ─> members: it is the journal
//!   events          e + 1                                     e + 2                          e + 2
//! ```
//! Superblocks one event apart count as the same, so an array that is cut off between any two of these writes lacks its journal, and gets
//! another, or has the new one. The journal before is two events behind at the end: it is stale wherever it comes back.
//!
//! Of what the journal before had nothing is known. All parities are computed anew, which takes all members: what one of them lacks
//! would be decoded from parities that a crash may have left wrong.

use super::assembly::{Assembly, Part, Policy};
use super::create::{Blank, Impossible, JOURNAL, MARK, MemberPlan, NOBODY, plan_journal};
use super::policy::word;
use super::refusal::{self, Refusal};
use super::superblock::{ROLES_MAX, RoleEntry, State, Superblock, feature, time};
use super::{DeviceNumber, Role};
use std::fmt;

/// Role of a device that failed.
const FAULTY: u16 = 0xfffe;

/// Writes that make a journal, in this order; each part is durable before the next.
#[derive(Clone, Debug)]
pub struct NewJournal {
    /// Superblocks of members that say that there is no journal, by the index of the device.
    pub first: Vec<(usize, MemberPlan)>,
    /// Plan of the journal device.
    pub journal: MemberPlan,
    /// Superblocks of members that name it.
    pub last: Vec<(usize, MemberPlan)>,
}

/// Reason why an array gets no new journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoNewJournal {
    /// Arrays of another policy have none.
    Policy(Policy),
    /// Device that is its journal.
    Present(String),
    /// Something else speaks against serving it, in words.
    Refused(String),
    /// Members that are not whole.
    Missing(Vec<Role>),
    /// Device that cannot be the journal.
    Impossible(Impossible),
    /// All device numbers are taken.
    Full,
}

impl fmt::Display for NoNewJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoNewJournal::Policy(policy) => write!(
                f,
                "the policy of the array is {}, and only an array that was made with a journal gets another one: \
                 `zoneweave md create --write-journal` makes one",
                word(*policy)
            ),
            NoNewJournal::Present(name) => write!(f, "{name} is the journal of the array, and is there"),
            NoNewJournal::Refused(words) => write!(f, "the array {words}"),
            NoNewJournal::Missing(roles) => write!(
                f,
                "the array lacks {}: without the journal before parities may be wrong, and all members are needed to make them right: \
                 bring all members back first",
                refusal::members(roles)
            ),
            NoNewJournal::Impossible(why) => write!(f, "{why}"),
            NoNewJournal::Full => f.write_str("all device numbers of the array are taken"),
        }
    }
}

impl std::error::Error for NoNewJournal {}

/// Plans of a device and the members that make it the journal of an array that lacks its own. It has `least` sectors for data at
/// least, and `seconds` is the time since 1970.
///
/// # Errors
/// When the array has a journal or none by its policy, or cannot be served with one.
pub fn plan(
    assembly: &Assembly<'_>,
    device: &Blank,
    least: u64,
    seconds: u64,
) -> Result<NewJournal, NoNewJournal> {
    expect_none(assembly)?;
    let newest = assembly.superblock();
    let members: Vec<(usize, &Superblock)> = assembly
        .devices
        .iter()
        .enumerate()
        .filter(|(_, (_, part))| matches!(part, Part::Active(_)))
        .map(|(index, (member, _))| (index, member.superblock()))
        .collect();
    let (first, version) = (members[0].1, assembly.devices[members[0].0].0.version);
    let number = free_number(assembly).ok_or(NoNewJournal::Full)?;
    let place = usize::try_from(number.0).unwrap_or(usize::MAX);
    let without: Vec<u16> =
        newest.roles.iter().map(|role| if *role == JOURNAL { FAULTY } else { *role }).collect();
    let mut with = without.clone();
    with.resize(with.len().max(place + 1), NOBODY);
    with[place] = JOURNAL;
    let updated = |own: &Superblock, roles: &[u16], updates: u64| Superblock {
        state: State {
            updated: time(seconds, MARK),
            events: newest.state.events.saturating_add(updates),
            resync_offset: 0,
        },
        roles: roles.to_vec(),
        ..own.clone()
    };
    let of_members = |roles: &[u16], updates: u64| -> Vec<(usize, MemberPlan)> {
        let plan = |(index, own): &(usize, &Superblock)| {
            (*index, MemberPlan { superblock: updated(own, roles, updates), before: Vec::new() })
        };
        members.iter().map(plan).collect()
    };
    let member = Superblock { features: first.features & !feature::BAD_BLOCKS, ..updated(first, &with, 2) };
    let mut journal = plan_journal(version, &member, device, least).map_err(NoNewJournal::Impossible)?;
    journal.superblock.device.number = number;
    Ok(NewJournal { first: of_members(&without, 1), journal, last: of_members(&with, 2) })
}

/// Refuses an array that has its journal, has none by its policy, or lacks more than that.
fn expect_none(assembly: &Assembly<'_>) -> Result<(), NoNewJournal> {
    if assembly.policy() != Policy::Journal {
        return Err(NoNewJournal::Policy(assembly.policy()));
    }
    if let Some((journal, _)) = assembly.devices.iter().find(|(_, part)| *part == Part::Journal) {
        return Err(NoNewJournal::Present(journal.name.clone()));
    }
    if !assembly.missing.is_empty() {
        return Err(NoNewJournal::Missing(assembly.missing.clone()));
    }
    match assembly.refusals.iter().all(|refusal| matches!(refusal, Refusal::NoJournal)) {
        true => Ok(()),
        false => Err(NoNewJournal::Refused(assembly.in_words())),
    }
}

/// First device number that no member and no spare has, and that was not that of the journal before.
fn free_number(assembly: &Assembly<'_>) -> Option<DeviceNumber> {
    let roles = &assembly.superblock().roles;
    let is_free =
        |number: &usize| roles.get(*number).is_none_or(|role| RoleEntry::of(*role) == RoleEntry::Spare);
    let is_used = |number: DeviceNumber| {
        assembly.devices.iter().any(|(device, _)| device.superblock().device.number == number)
    };
    let numbers = (0..ROLES_MAX).filter(is_free).filter_map(|number| u32::try_from(number).ok());
    numbers.map(DeviceNumber).find(|number| !is_used(*number))
}
