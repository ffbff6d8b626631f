//! What an answer of the kernel means: an error number below zero, zero, or an NVMe status above.

use zone::device::Status;

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The command was carried out, or refused, with this status.
    Answered(Status),
    /// The command was not begun; the drive or the kernel may take it a little later.
    NotNow,
    /// Nobody knows whether it was carried out.
    Unknown,
    /// The drive is not there any more.
    Gone,
    /// An answer that nothing is known of, or that says that we made a mistake.
    Unexpected,
}

/// Status codes are the lower eleven bits of a status; the others say whether it is worth asking again.
const CODE: i32 = 0x7ff;
const DO_NOT_RETRY: i32 = 0x4000;

/// Interprets an answer.
pub(super) fn outcome_of(result: i32) -> Outcome {
    if result < 0 {
        return match -result {
            // Linux 6.1 says EFAULT of commands that come while their controller is reset, before it hands them over.
            libc::EAGAIN | libc::ENOMEM | libc::EBUSY | libc::EFAULT => Outcome::NotNow,
            libc::EINTR | libc::ETIMEDOUT | libc::ECANCELED => Outcome::Unknown,
            libc::ENODEV | libc::ENXIO => Outcome::Gone,
            // The kernel refuses what the drive would: our mistake, or zones that are not as we know them.
            libc::EINVAL => Outcome::Answered(Status::InvalidField),
            _ => Outcome::Unexpected,
        };
    }
    // Namespace or command sequence not ready; format in progress is no state of a drive in use.
    let is_not_now = matches!(result & CODE, 0x021 | 0x022 | 0x082) && result & DO_NOT_RETRY == 0;
    let code = u16::try_from(result & CODE).expect("eleven bits");
    match code {
        _ if is_not_now => Outcome::NotNow,
        // Aborted, and errors of the path to the drive.
        0x007 | 0x008 | 0x300..=0x303 | 0x360 | 0x370 | 0x371 => Outcome::Unknown,
        // Unrecovered read, and checks of the media that failed.
        0x281..=0x284 | 0x287 => Outcome::Answered(Status::UnrecoveredReadError),
        _ => KNOWN
            .iter()
            .find(|status| status.nvme_code() == code)
            .map_or(Outcome::Unexpected, |status| Outcome::Answered(*status)),
    }
}

/// Statuses that mean what their code says.
const KNOWN: [Status; 15] = [
    Status::Success,
    Status::InvalidField,
    Status::InternalError,
    Status::LbaOutOfRange,
    Status::InvalidZoneOperation,
    Status::NoAreaLeft,
    Status::ZoneBoundaryError,
    Status::ZoneIsFull,
    Status::ZoneIsReadOnly,
    Status::ZoneIsOffline,
    Status::ZoneInvalidWrite,
    Status::TooManyActiveZones,
    Status::TooManyOpenZones,
    Status::InvalidZoneStateTransition,
    Status::WriteFault,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_the_specification_says() {
        assert_eq!(outcome_of(0), Outcome::Answered(Status::Success));
        assert_eq!(outcome_of(0x41b9), Outcome::Answered(Status::ZoneIsFull), "with the bit not to retry");
        assert_eq!(outcome_of(0x61bc), Outcome::Answered(Status::ZoneInvalidWrite), "with more to be read");
        assert_eq!(outcome_of(0x4080), Outcome::Answered(Status::LbaOutOfRange));
        assert_eq!(outcome_of(0x0281), Outcome::Answered(Status::UnrecoveredReadError));
        assert_eq!(outcome_of(0x0284), Outcome::Answered(Status::UnrecoveredReadError));
        assert_eq!(outcome_of(-libc::EINTR), Outcome::Unknown);
        assert_eq!(outcome_of(0x0371), Outcome::Unknown);
        assert_eq!(outcome_of(-libc::ENODEV), Outcome::Gone);
        assert_eq!((outcome_of(-libc::EAGAIN), outcome_of(0x0022)), (Outcome::NotNow, Outcome::NotNow));
        assert_eq!(outcome_of(0x4022), Outcome::Unexpected, "not to be asked again");
        assert_eq!(outcome_of(-libc::EINVAL), Outcome::Answered(Status::InvalidField));
        assert_eq!((outcome_of(-libc::EPERM), outcome_of(0x01)), (Outcome::Unexpected, Outcome::Unexpected));
    }
}
