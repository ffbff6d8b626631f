//! Exit codes: one table for all commands, and the errors that carry them.
//!
//! An error without a code of its own is [`Exit::Failed`]. Causes that an error's text repeats are printed once.

use drive::emulated::DriveProblem;
use drive::nvme::open::NvmeProblem;
use drive::timing::ProfileError;
use server::listen::BindError;
use std::fmt;
use std::process::ExitCode;

/// Exit code of a command, for scripts. The numbers are a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done, and nothing is wrong.
    Well = 0,
    /// Something is damaged, or drives do not agree.
    Damage = 1,
    /// The command line asks for something that cannot be.
    Usage = 2,
    /// The array lacks a drive, or one that is not yet rebuilt.
    Degraded = 3,
    /// The command failed, the array cannot be started, or another host has the drives of one that is served.
    Failed = 4,
    /// Somebody else uses the array or the drive.
    Busy = 5,
    /// No such array, drive or server.
    Absent = 6,
}

/// The table for `--help`; README has the same.
pub const TABLE: &str = "Exit codes:
  0  well
  1  damage was found
  2  usage: the command line asks for something that cannot be
  3  degraded: the array lacks a drive, or one that is not yet rebuilt
  4  failed, or the array cannot be started; of a server: another host has its drives
  5  busy: the array is being served, or a drive is in use
  6  not there: no such array, drive or server";

impl Exit {
    /// The code as a number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Exit::Well => 0,
            Exit::Damage => 1,
            Exit::Usage => 2,
            Exit::Degraded => 3,
            Exit::Failed => 4,
            Exit::Busy => 5,
            Exit::Absent => 6,
        }
    }

    /// The code of a number that a server sent.
    pub fn from_number(number: u64) -> Exit {
        let all =
            [Exit::Well, Exit::Damage, Exit::Usage, Exit::Degraded, Exit::Failed, Exit::Busy, Exit::Absent];
        all.into_iter().find(|exit| u64::from(exit.number()) == number).unwrap_or(Exit::Failed)
    }

    /// An error that ends the command with this code.
    pub fn error(self, message: impl fmt::Display) -> anyhow::Error {
        self.because(anyhow::anyhow!("{message}"))
    }

    /// The same error, ending the command with this code.
    pub fn because(self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        Coded { exit: self, error: error.into() }.into()
    }

    /// The code that an error ends the command with.
    #[must_use]
    pub fn of(error: &anyhow::Error) -> Exit {
        error.chain().find_map(Exit::of_cause).unwrap_or(Exit::Failed)
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
        if let Some(coded) = cause.downcast_ref::<Coded>() {
            return Some(coded.exit);
        }
        if let Some(
            DriveProblem::JournalMissing { .. }
            | DriveProblem::JournalTwice { .. }
            | DriveProblem::NotPermitted(_)
            | DriveProblem::NoDriveOnDevice
            | DriveProblem::Geometry(_)
            | DriveProblem::Nvme(
                NvmeProblem::Format { .. } | NvmeProblem::NoZones(_) | NvmeProblem::NotPermitted { .. },
            ),
        ) = cause.downcast_ref::<DriveProblem>()
        {
            return Some(Exit::Usage);
        }
        if cause.is::<ProfileError>() {
            return Some(Exit::Usage);
        }
        let in_use =
            matches!(cause.downcast_ref::<DriveProblem>(), Some(DriveProblem::InUse | DriveProblem::Held(_)))
                || matches!(cause.downcast_ref::<BindError>(), Some(BindError::InUse(_)));
        in_use.then_some(Exit::Busy)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

/// An error with an exit code.
#[derive(Debug)]
struct Coded {
    exit: Exit,
    error: anyhow::Error,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", in_words(&self.error))
    }
}

impl std::error::Error for Coded {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.error.as_ref())
    }
}

/// An error with its causes, each said once: many errors name their cause themselves.
pub fn in_words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use drive::emulated::Peek;
    use std::path::Path;

    #[test]
    fn causes_are_said_once() {
        let missing = Peek::open(Path::new("/nowhere/at/all")).unwrap_err();
        let said = in_words(&anyhow::Error::from(missing).context("opening"));
        assert_eq!(said.matches("no such file").count(), 1, "{said}");
        assert!(said.starts_with("opening: drive /nowhere/at/all: there is no such file"), "{said}");
    }

    #[test]
    fn an_error_keeps_its_code_under_what_is_said_of_it() {
        let error: anyhow::Result<()> = Err(Exit::Busy.error("no")).context("drive 1");
        let error = error.unwrap_err();
        assert_eq!((Exit::of(&error), in_words(&error).as_str()), (Exit::Busy, "drive 1: no"));
        assert_eq!(Exit::of(&anyhow::anyhow!("what")), Exit::Failed);
        assert_eq!(Exit::of(&BindError::InUse("/s".into()).into()), Exit::Busy);
    }

    #[test]
    fn the_table_names_every_code() {
        let all =
            [Exit::Well, Exit::Damage, Exit::Usage, Exit::Degraded, Exit::Failed, Exit::Busy, Exit::Absent];
        let readme = include_str!("../README.md");
        for exit in all {
            assert!(TABLE.contains(&format!("\n  {}  ", exit.number())), "{exit:?} in --help");
            assert!(readme.contains(&format!("\n| {} | ", exit.number())), "{exit:?} in the README");
        }
    }
}
