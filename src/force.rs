//! `--force` and `--force=UUID`: what a command may give up that drives hold.
//!
//! Whoever says `--force` means data that nobody misses. A drive of another array is most often one that was named by mistake, so
//! giving that up takes the array's UUID, which nobody types by mistake: it is in the refusal, and a script that has it looked before.

use crate::exit::Exit;
use crate::sighting::Sighting;
use anyhow::Result;
use cache::format::superblock::Superblock as CacheSuperblock;
use drive::any::Peek;
use drive::emulated::DriveProblem;
use std::fmt;
use std::path::Path;
use uuid::Uuid;
use zone::format::SUPERBLOCK_ZONES;

/// Word for which `--force` alone stands.
pub const ALONE: &str = "data";

/// Loss that one `--force` allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Data of nobody's array.
    Data,
    /// A drive of this array as well.
    Array(Uuid),
}

impl Forced {
    /// As it is typed behind `--force=`.
    pub fn parse(text: &str) -> Result<Forced, String> {
        match text {
            ALONE => Ok(Forced::Data),
            text => Uuid::try_parse(text).map(Forced::Array).map_err(|_| {
                format!(
                    "`{text}`: use --force alone, or --force=UUID with the UUID of an array that may be lost"
                )
            }),
        }
    }
}

/// Losses that an operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Force(Vec<Forced>);

impl Force {
    /// As the options say.
    pub fn of(said: &[Forced]) -> Force {
        Force(said.to_vec())
    }

    /// True when data of nobody's array may be given up.
    pub fn is_said(&self) -> bool {
        !self.0.is_empty()
    }

    fn names(&self, array: Uuid) -> bool {
        self.0.contains(&Forced::Array(array))
    }

    /// Takes the options off the beginning of a question to a server.
    pub fn take(question: &str) -> Result<(Force, &str)> {
        let (mut said, mut rest) = (Vec::new(), question);
        while let Some(option) = rest.strip_prefix("--force") {
            let (value, behind) = option.split_once(' ').unwrap_or((option, ""));
            let value = if value.is_empty() { ALONE } else { value.strip_prefix('=').unwrap_or(value) };
            said.push(Forced::parse(value).map_err(|error| Exit::Usage.error(error))?);
            rest = behind;
        }
        Ok((Force(said), rest))
    }
}

/// As options before a path.
impl fmt::Display for Force {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|said| match said {
            Forced::Data => f.write_str("--force "),
            Forced::Array(array) => write!(f, "--force={array} "),
        })
    }
}

/// Whose drive it is, by its superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An array.
    Array(Uuid),
    /// A cache.
    Cache(Uuid),
    /// Somebody: the drive of this identity is without its identity journal, and holds what only that makes readable.
    Untold(Uuid),
    /// Somebody whose format, of this version, this program cannot read.
    Unknown(u32),
}

impl Owner {
    /// Owner of the drive at a path; none of what is no drive, or of nobody.
    pub fn of(path: &Path) -> Option<Owner> {
        let sighting = match Sighting::of(path).map_err(|error| error.problem) {
            Ok(sighting) => sighting,
            Err(DriveProblem::JournalMissing { drive, .. } | DriveProblem::JournalTwice { drive, .. }) => {
                return Some(Owner::Untold(Uuid::from_bytes(drive)));
            }
            Err(_) => return None,
        };
        if let Some(array) = sighting.array() {
            return Some(Owner::Array(array));
        }
        let unknown = sighting.other_version.map(Owner::Unknown);
        unknown.or_else(|| cache_of(path).map(Owner::Cache))
    }

    /// UUID of the array or cache, if it is known.
    pub fn uuid(self) -> Option<Uuid> {
        match self {
            Owner::Array(uuid) | Owner::Cache(uuid) => Some(uuid),
            Owner::Untold(_) | Owner::Unknown(_) => None,
        }
    }

    /// Name by which `--force` gives all of it up.
    pub fn name(self) -> Option<Uuid> {
        match self {
            Owner::Untold(drive) => Some(drive),
            owner => owner.uuid(),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Array(uuid) => write!(f, "array {uuid}"),
            Owner::Cache(uuid) => write!(f, "cache {uuid}"),
            Owner::Untold(drive) => {
                write!(
                    f,
                    "an array or a cache that cannot be told without its identity journal (drive {drive})"
                )
            }
            Owner::Unknown(version) => {
                write!(f, "an array of format version {version}, which this program cannot read")
            }
        }
    }
}

/// The cache that a drive is of.
fn cache_of(path: &Path) -> Option<Uuid> {
    let peek = Peek::open(path).ok()?;
    let newest_of = |zone| {
        let blocks = (0..peek.written_blocks(zone).ok()?).rev();
        let mut records =
            blocks.filter_map(|offset| CacheSuperblock::decode(&*peek.block(zone, offset).ok()?));
        records.next()
    };
    let (record, _) = (0..SUPERBLOCK_ZONES).find_map(newest_of)?;
    Some(Uuid::from_bytes(record.cache))
}

/// Refuses a drive of another array than `own`, unless that array is named. Returns whose it is.
pub fn expect_given_up(path: &Path, force: &Force, own: Option<Uuid>) -> Result<Option<Owner>> {
    let Some(owner) = Owner::of(path) else { return Ok(None) };
    let shown = path.display();
    let Some(uuid) = owner.name() else {
        return Err(Exit::Failed.error(format!(
            "{shown}: is a drive of Zoneweave, of {owner}; nothing was written. Wipe it by the version that made it, or discard the whole drive by \
             other means"
        )));
    };
    if own == Some(uuid) {
        return Ok(Some(owner));
    }
    if !force.names(uuid) {
        return Err(Exit::Failed.error(format!(
            "{shown}: is a drive of Zoneweave, of {owner}; nothing was written. If all of that may be lost, say its name: --force={uuid}"
        )));
    }
    log::warn!("{shown}: is a drive of Zoneweave, of {owner}: given up");
    Ok(Some(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: &str = "00000000-0000-0000-0000-000000000007";

    #[test]
    fn what_is_said_is_understood_by_a_server() {
        let array = Forced::parse(ARRAY).expect("a UUID");
        let force = Force::of(&[Forced::Data, array]);
        let question = format!("{force}/srv/a --force b");
        let (taken, path) = Force::take(&question).expect("options and a path");
        assert_eq!((&taken, path), (&force, "/srv/a --force b"));
        assert!(taken.is_said() && taken.names(Uuid::from_u128(7)) && !taken.names(Uuid::from_u128(8)));
        assert_eq!(Force::take("/srv/a").expect("a path"), (Force::default(), "/srv/a"));
        assert_eq!(Force::take("--force").expect("no path"), (Force::of(&[Forced::Data]), ""));
        assert!(Force::take("--forces /srv/a").is_err() && Force::take("--force=7 /srv/a").is_err());
        assert!(Forced::parse("").is_err() && Forced::parse("all").is_err());
    }
}
