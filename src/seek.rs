//! The empty drive that `drive replace` and `drive add-spare` are about: where it is, and what may be given up on it.
//!
//! Where the array is served, the server makes the drive, and is told of it behind the command's own words:
//! `[--force[=UUID] ...] [--identity-journal "PATH"] [PATH]`. The journal's path is a JSON string, for either path may have spaces in it.

use crate::exit::Exit;
use crate::force::{Force, Forced};
use crate::raw;
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// Option of both commands.
const JOURNAL: &str = "--identity-journal ";

/// See the module.
#[derive(Debug, Default)]
pub struct Seek {
    /// Path at which it is, or is to be made.
    pub with: Option<PathBuf>,
    /// Device for its identity journal, where that is to lie apart.
    pub journal: Option<PathBuf>,
    /// Losses that are allowed on it.
    pub force: Force,
}

impl Seek {
    /// The drive at this path.
    pub fn at(path: &Path) -> Seek {
        Seek { with: Some(path.to_owned()), ..Seek::default() }
    }

    /// As the options of a command say. The paths mean the same to a server that was started elsewhere.
    pub fn of(with: Option<&Path>, journal: Option<&Path>, force: &[Forced]) -> Result<Seek> {
        let absolute = |path: &Path| raw::absolute(path).with_context(|| format!("{}", path.display()));
        Ok(Seek {
            with: with.map(absolute).transpose()?,
            journal: journal.map(absolute).transpose()?,
            force: Force::of(force),
        })
    }

    /// As the end of a question to a server says.
    pub fn parse(question: &str) -> Result<Seek> {
        let (force, rest) = Force::take(question)?;
        let (journal, path) = match rest.strip_prefix(JOURNAL) {
            None => (None, rest),
            Some(rest) => {
                let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<PathBuf>();
                let journal = strings.next().and_then(Result::ok);
                let journal = journal
                    .ok_or_else(|| Exit::Usage.error(format!("{JOURNAL}{rest}: no path in quotes")))?;
                (Some(journal), rest.get(strings.byte_offset()..).unwrap_or_default().trim_start())
            }
        };
        Ok(Seek { with: Some(path).filter(|path| !path.is_empty()).map(PathBuf::from), journal, force })
    }
}

/// As the end of a question to a server.
impl fmt::Display for Seek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.force.fmt(f)?;
        if let Some(journal) = &self.journal {
            write!(f, "{JOURNAL}{} ", serde_json::Value::from(journal.to_string_lossy()))?;
        }
        self.with.as_ref().map_or(Ok(()), |path| path.display().fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_understood(seek: &Seek, question: &str) {
        assert_eq!(seek.to_string(), question);
        let parsed = Seek::parse(question).expect("a question");
        assert_eq!(
            (&parsed.with, &parsed.journal, &parsed.force),
            (&seek.with, &seek.journal, &seek.force),
            "{question}"
        );
    }

    #[test]
    fn what_is_said_is_understood_by_a_server() {
        assert_understood(&Seek::default(), "");
        assert_understood(&Seek::at(Path::new("/srv/a drive")), "/srv/a drive");
        let force = Force::of(&[Forced::Data]);
        let (with, journal) = (Some("/dev/a".into()), Some("/srv/a \"b\" c".into()));
        let seek = Seek { with, journal, force };
        assert_understood(&seek, r#"--force --identity-journal "/srv/a \"b\" c" /dev/a"#);
        for wrong in ["--identity-journal /dev/b /dev/a", "--identity-journal ", "--identity-journal \"/dev"]
        {
            assert!(Seek::parse(wrong).is_err(), "{wrong}");
        }
    }
}
