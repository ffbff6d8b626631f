//! Members that come back: what they missed is what the bitmap says, and that alone is written anew.
//!
//! ```text
//!   Waiting ──> Joining ───────────────> Active ──────────────────> in sync
//!               all pages, its record:   rows of clear bits count   as any newcomer
//!               features 2 and 128,      at once, the others are
//!               offset 0                 rebuilt
//! ```
//! A bit says what a member missed when it was set before data were written that the member has no part in, and was not cleared
//! since: bits stay while the array is degraded. Bits may have been cleared while it was there after its own record was written, but
//! not after events that it does not know: `events_cleared` of the bitmap moves with all members there only, so a member whose
//! events are older may lack more than the bits say.
//!
//! *Superblocks* say "recovery offset" and "recovery by bitmap" (features 2 and 128): md goes on by the bits as well.

use super::core::Core;
use super::missed::Missed;
use super::newcomer::Newcomer;
use super::pages::Pages;
use super::recovery::AddRefused;
use block::md::Role;
use block::md::bad_blocks::BadBlocks;
use block::md::superblock::Superblock;
use std::fmt;

/// Member that comes back.
#[derive(Clone, Debug)]
pub struct Returning {
    /// Its superblock from now on: where things lie on it.
    pub superblock: Superblock,
    /// Events of the superblock that it had.
    pub events: u64,
    /// Entries of its bad-block log.
    pub bad_blocks: Vec<BadBlocks>,
}

/// Reason why a member that comes back is not brought up to date by the bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnRefused {
    /// Nobody could take its role.
    Role(AddRefused),
    /// The array has no bitmap.
    NoBitmap,
    /// It went before bits were cleared: its events, and those of the bitmap.
    TooOld(u64, u64),
    /// It has events that the array does not: its own, and the array's.
    TooNew(u64, u64),
}

impl fmt::Display for ReturnRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReturnRefused::Role(refused) => write!(f, "{refused}"),
            ReturnRefused::NoBitmap => {
                f.write_str("the array has no bitmap that says what the member missed")
            }
            ReturnRefused::TooOld(events, cleared) => write!(
                f,
                "the member has events {events}, and the bitmap says what was missed since events {cleared} only"
            ),
            ReturnRefused::TooNew(events, newest) => write!(
                f,
                "the member has events {events}, the array {newest}: it was used without the others, and differs in unknown places"
            ),
        }
    }
}

impl std::error::Error for ReturnRefused {}

impl Core {
    /// Whether a member with this role and these events can come back.
    ///
    /// # Errors
    /// When it cannot.
    pub fn can_return(&self, role: Role, events: u64) -> Result<(), ReturnRefused> {
        self.role_for(Some(role)).map_err(ReturnRefused::Role)?;
        let cleared = self.pages.as_ref().map(Pages::events_cleared).ok_or(ReturnRefused::NoBitmap)?;
        let newest = self.scribe.events();
        if events < cleared {
            return Err(ReturnRefused::TooOld(events, cleared));
        }
        if events > newest {
            return Err(ReturnRefused::TooNew(events, newest));
        }
        Ok(())
    }

    /// Takes a member back.
    ///
    /// # Errors
    /// When it cannot come back.
    pub fn return_member(
        &mut self,
        role: Role,
        back: Returning,
        is_volatile: bool,
    ) -> Result<(), ReturnRefused> {
        let Returning { superblock, events, bad_blocks } = back;
        self.can_return(role, events)?;
        self.bad_blocks.set_member(role.index(), bad_blocks, &superblock);
        self.members.add(role, Newcomer::returning(superblock), is_volatile);
        self.counters.returns += 1;
        Ok(())
    }

    /// Rows that members which come back lack, as of now.
    pub(super) fn missed(&self) -> Missed {
        let pages = self.pages.as_ref().expect("members come back to an array with a bitmap");
        Missed::of(pages, self.map.rows())
    }

    /// Asserts that the bits say what members that came back lack, should they go once more.
    pub(super) fn check_returning(&self) {
        for (role, newcomer) in self.members.newcomers() {
            let (Some(missed), Some(pages)) = (newcomer.missed(), &self.pages) else { continue };
            let set = Missed::of(pages, self.map.rows());
            for row in missed.ranges().flatten().filter(|row| !newcomer.counts(*row)) {
                assert!(set.contains(row), "row {row} of member {role} is lacking, and no bit says so");
            }
        }
    }
}
