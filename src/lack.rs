//! Errors of a host that lacks memory, threads or open files. Such an error says nothing about a drive, so a command that meets one ends:
//! a drive that could not be opened for want of them is neither missing nor failed.

use crate::exit::Exit;
use rustix::io::Errno;
use std::error::Error;
use std::fmt;
use std::io;

const REMEDY: &str = "this host lacks memory, threads or open files, which says nothing of the drive: nothing was recorded; \
                      raise the limit (`ulimit -n`, `-v`, `-u`; LimitNOFILE= of a service) or free memory, and try again";

/// True of an error that comes of what this host lacks, whichever error names it as its cause.
pub fn is_of_host(error: &(dyn Error + 'static)) -> bool {
    anyhow::Chain::new(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>().and_then(Errno::from_io_error))
        .any(|errno| matches!(errno, Errno::NOMEM | Errno::AGAIN | Errno::MFILE | Errno::NFILE))
}

/// The error that ends a command, with the remedy.
pub fn error(of: impl fmt::Display) -> anyhow::Error {
    Exit::Failed.error(format!("{of}: {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use drive::emulated::DriveProblem;

    #[test]
    fn what_a_host_lacks_is_told_from_what_a_drive_is() {
        let of = |errno: Errno| DriveProblem::Io { doing: "open the file", source: errno.into() };
        for lack in [Errno::NOMEM, Errno::AGAIN, Errno::MFILE, Errno::NFILE] {
            assert!(is_of_host(&of(lack)), "{lack}");
            let coded = Err::<(), _>(Exit::Failed.because(of(lack))).context("drive 3").unwrap_err();
            assert!(is_of_host(coded.as_ref()), "{coded:#}");
        }
        for fault in [Errno::IO, Errno::ACCESS, Errno::NOENT, Errno::BUSY] {
            assert!(!is_of_host(&of(fault)), "{fault}");
        }
        assert!(!is_of_host(&DriveProblem::NotFound));
    }
}
