//! Which records count: those that a quorum of the members they name holds.
//!
//! A record is made by a mount, or in service, upon the one before, and replaces it once it is held by at least half of the
//! members of that one. A mount needs more than half of them, so that it meets a drive that holds what has replaced it;
//! the highest generation alone proves nothing, for a record that was cut short stays on the drives it had reached.
//! ADR 40 has the argument.

use super::MountError;
use super::log::Log;
use crate::format::superblock::{Standing, Superblock};

/// Superblock logs of the drives that are there.
pub struct Known<'a> {
    /// Their logs, by place.
    pub logs: &'a [Option<Log>],
}

/// The records that matter.
pub struct Rank<'a> {
    /// The newest of those that are known to count.
    pub newest: &'a Superblock,
    /// Newer ones that count if drives that are missing hold them.
    pub perhaps: Vec<&'a Superblock>,
}

/// Count of voting members that hold a record: surely, and perhaps.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    surely: usize,
    perhaps: usize,
}

impl<'a> Known<'a> {
    /// All records.
    pub fn records(&self) -> impl Iterator<Item = &'a Superblock> + use<'a> {
        self.logs.iter().flatten().flat_map(|log| &log.records)
    }

    /// Finds the newest record that counts, and those that may have replaced it.
    pub fn rank(&self) -> Result<Rank<'a>, MountError> {
        let counts = |record: &&Superblock| self.held(record).surely >= usize::from(record.quorum);
        let may_count = |record: &Superblock| {
            let Held { surely, perhaps } = self.held(record);
            surely + perhaps >= usize::from(record.quorum)
        };
        let Some(newest) = self.records().filter(counts).max_by_key(|record| record.generation) else {
            let most = self.records().max_by_key(|record| record.generation).ok_or(MountError::NoCache)?;
            return Err(MountError::NoMajority { present: self.present(most), members: most.in_use() });
        };
        let mut perhaps: Vec<&Superblock> = Vec::new();
        for record in self.records().filter(|record| record.generation >= newest.generation) {
            if record != newest && may_count(record) && !perhaps.contains(&record) {
                perhaps.push(record);
            }
        }
        Ok(Rank { newest, perhaps })
    }

    /// Count of members that hold a record. A drive that never held it never will: whoever made the record is gone.
    fn held(&self, record: &Superblock) -> Held {
        let mut held = Held::default();
        for (place, log) in self.logs.iter().enumerate() {
            if record.members[place].standing != Standing::Member {
                continue;
            }
            let Some(log) = log.as_ref().filter(|_| self.is_drive(place, record)) else {
                held.perhaps += 1;
                continue;
            };
            let is_before = log.records.first().is_none_or(|first| record.generation < first.generation);
            if log.records.contains(record) {
                held.surely += 1;
            } else if log.has_gaps || is_before {
                held.perhaps += 1;
            }
        }
        held
    }

    /// True when the drive in a place is, or once was, the one that a record names.
    fn is_drive(&self, place: usize, record: &Superblock) -> bool {
        let uuid = record.members[place].uuid;
        let log = self.logs[place].as_ref();
        log.is_some_and(|log| log.records.iter().any(|own| own.members[place].uuid == uuid))
    }

    /// True when the drive in a place is a member of a record.
    pub fn is_member(&self, place: usize, record: &Superblock) -> bool {
        record.members[place].is_in_use() && self.is_drive(place, record)
    }

    /// True when the drive is as the record takes it for: it knows no newer identity of its own, with which it began
    /// empty, and nothing of its log is lost.
    pub fn is_as_recorded(&self, place: usize, record: &Superblock) -> bool {
        let log = self.logs[place].as_ref().filter(|log| !log.is_doubtful);
        let newest = log.and_then(Log::newest);
        newest.is_some_and(|own| own.members[place].uuid == record.members[place].uuid)
    }

    /// Members of a record that are there. While one is missing, those whose log is in doubt are not counted: they may
    /// have known that it went on without them.
    pub fn present(&self, record: &Superblock) -> usize {
        let there: Vec<usize> = (0..self.logs.len()).filter(|place| self.is_member(*place, record)).collect();
        let is_sure = |place: &&usize| self.logs[**place].as_ref().is_some_and(|log| !log.is_doubtful);
        match there.len() == record.in_use() {
            true => there.len(),
            false => there.iter().filter(is_sure).count(),
        }
    }
}
