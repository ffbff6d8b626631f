//! State of a served array, for operators.

use super::InPlace;
use super::core::Core;
use super::counters::Counters;
use super::members::role;
use super::recovery::Rebuilding;
use super::replacing::Replacing;
use super::scribe::Mark;
use super::scrub::ScrubStatus;
use super::shards::Place;
use super::shards::messages::{ToControl, ToShard};
use crate::pacer::Rates;
use base::units::BLOCK_BYTES_U64;
use block::md::Role;
use block::md::assembly::Policy;
use block::md::bad_blocks::BadBlocks;
use block::md::reader::ROW_SECTORS;

/// Bytes of so many blocks.
fn cached(frames: usize) -> u64 {
    u64::try_from(frames).expect("memory has fewer bytes than 2^64") * BLOCK_BYTES_U64
}

/// State of an array.
#[derive(Clone, Debug)]
pub struct Status {
    /// Roles without a member, those that failed since the start included.
    pub missing: Vec<Role>,
    /// Members that are being rebuilt.
    pub rebuilding: Vec<Rebuilding>,
    /// Members that are being replaced.
    pub replacing: Vec<Replacing>,
    /// Entries of the bad-block log of each member that has some.
    pub bad_blocks: Vec<(Role, Vec<BadBlocks>)>,
    /// A rebuild goes on: not when all that is left are rows that cannot be rebuilt.
    pub is_rebuilding: bool,
    /// More members are missing than there are parities: nothing can be written.
    pub is_broken: bool,
    /// Nothing may be written.
    pub is_read_only: bool,
    /// Dirty mark.
    pub mark: Mark,
    /// Events of the superblocks.
    pub events: u64,
    /// A resync goes on.
    pub is_resyncing: bool,
    /// Sectors of each member that are left to resync.
    pub resync_left: u64,
    /// Sectors of each member that were to be resynced at the start.
    pub resync_total: u64,
    /// Rows that a resync could not make right.
    pub rows_in_doubt: usize,
    /// Last scrub since the start; `None` without one.
    pub scrub: Option<ScrubStatus>,
    /// Rates of resync and scrub.
    pub rates: Rates,
    /// Regions whose bits are set, and all regions; `None` without a bitmap.
    pub regions: Option<(usize, u64)>,
    /// Journal; `None` without one.
    pub journal: Option<JournalStatus>,
    /// Bytes of blocks that the cache holds, and at most.
    pub cache: (u64, u64),
    /// Strips in work.
    pub strips: usize,
    /// Counters.
    pub counters: Counters,
}

/// State of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalStatus {
    /// Sectors in use.
    pub sectors_used: u64,
    /// Sectors of its ring.
    pub sectors: u64,
    /// It failed: the array is read-only.
    pub has_failed: bool,
}

impl Core {
    /// Seat of a device, by which commands go to it and answers come.
    #[must_use]
    pub fn seat(&self, place: Role) -> Role {
        self.members.seat(place)
    }

    /// True when nobody has a role.
    #[must_use]
    pub fn is_vacant(&self, role: Role) -> bool {
        self.members.is_vacant(role)
    }

    /// Consistency policy of the array.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy.policy()
    }

    /// True while the policy is being changed.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.policy.is_changing()
    }

    /// True while a log from before the start is being applied: strips have to wait.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.ahead.is_replaying()
    }

    /// Moves messages to other shards out.
    pub fn take_messages_to_shards(&mut self, into: &mut Vec<(usize, ToShard)>) {
        self.place.take_messages_to_shards(into);
    }

    /// Moves messages to the control shard out.
    pub fn take_messages_to_control(&mut self, into: &mut Vec<ToControl>) {
        self.place.take_messages_to_control(into);
    }

    /// True when the array goes on without so many more members.
    #[must_use]
    pub fn can_lose(&self, members: usize) -> bool {
        self.members.lacking().count() + members <= self.members.parities()
    }

    /// True when a member is whole.
    #[must_use]
    pub fn is_whole(&self, member: Role) -> bool {
        self.members.is_live(member)
    }

    /// Describes what is under way and what waits, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let rounds = self.table.iter().map(|slot| {
            let round = slot.round.as_ref();
            let state = round.map(|round| (round.kind, round.phase(), round.pending, round.regions.len()));
            format!("{:?} {state:?} +{}", slot.strip, slot.waiting.len())
        });
        let place = match &self.place {
            Place::Alone => String::new(),
            Place::Control(control) => format!("; control: {}", control.describe()),
            Place::Shard(shard) => format!("; shard: {}", shard.describe()),
        };
        format!(
            "strips [{}], backlog {}, starved {}, scribe {:?} with {} writers{place}",
            rounds.collect::<Vec<_>>().join("; "),
            self.table.backlog.len(),
            self.table.starved.len(),
            self.scribe.mark(),
            self.scribe.writers()
        )
    }

    /// True when the parities of a block's row are known to be right.
    #[must_use]
    pub fn is_in_sync(&self, lba: base::units::Lba) -> bool {
        self.sync.is_right(self.map.locate(lba).1)
    }
}

impl InPlace {
    /// State of the array.
    #[must_use]
    pub fn status(&self) -> Status {
        let report = self.clients.strips.report();
        Status {
            missing: self.clients.strips.core.members.vacant().iter().map(role).collect(),
            rebuilding: self.clients.strips.core.rebuilding(),
            replacing: self.clients.strips.core.replacing(),
            bad_blocks: self.clients.strips.core.bad_blocks(),
            is_rebuilding: self.clients.strips.core.is_rebuilding(),
            is_broken: self.clients.strips.core.members.lack_too_many(),
            is_read_only: self.clients.strips.core.members.are_read_only(),
            mark: self.clients.strips.core.scribe.mark(),
            events: self.clients.strips.core.scribe.events(),
            is_resyncing: self.clients.strips.core.is_resyncing(),
            resync_left: self.clients.strips.core.sync.rows_left() * ROW_SECTORS,
            resync_total: self.clients.strips.core.sync.rows_total() * ROW_SECTORS,
            rows_in_doubt: self.clients.strips.core.sync.rows_stuck(),
            scrub: self.clients.strips.core.scrub_status(),
            rates: self.clients.strips.core.rates(),
            regions: self
                .clients
                .strips
                .core
                .pages
                .as_ref()
                .map(|pages| (pages.set_count(), pages.regions_count())),
            journal: self.clients.strips.core.ahead.journal.as_ref().map(|journal| {
                let (sectors_used, sectors) = journal.used();
                JournalStatus { sectors_used, sectors, has_failed: journal.has_failed() }
            }),
            cache: (cached(report.cache_frames.0), cached(report.cache_frames.1)),
            strips: report.strips,
            counters: report.counters,
        }
    }
}
