//! Refusal by the system to let this user have a file or a device: who may have it, and what to do.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const READ_AND_WRITE_OF_GROUP: u32 = 0o060;

/// Error of the system, with the owner of what was refused.
#[derive(Debug)]
pub struct NotPermitted {
    owner: Option<Owner>,
    source: io::Error,
}

#[derive(Debug)]
struct Owner {
    user: String,
    group: String,
    mode: u32,
}

impl NotPermitted {
    pub(crate) fn new(path: &Path, source: io::Error) -> NotPermitted {
        let owner = std::fs::metadata(path).ok().map(|metadata| Owner {
            user: name_in("/etc/passwd", metadata.uid()),
            group: name_in("/etc/group", metadata.gid()),
            mode: metadata.mode() & 0o777,
        });
        NotPermitted { owner, source }
    }
}

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotPermitted { owner, source } = self;
        let Some(Owner { user, group, mode }) = owner else { return write!(f, "{source}: run this as root") };
        write!(
            f,
            "{source}: it belongs to user {user} and group {group}, with mode {mode:04o}: run this as {user}"
        )?;
        match mode & READ_AND_WRITE_OF_GROUP == READ_AND_WRITE_OF_GROUP {
            true => write!(f, ", or as a member of group {group}"),
            false => Ok(()),
        }
    }
}

impl std::error::Error for NotPermitted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Name of a number in a table of users or groups; the number where it has none.
fn name_in(table: &str, number: u32) -> String {
    let number = number.to_string();
    let table = std::fs::read_to_string(table).unwrap_or_default();
    let name = table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    name.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn who_may_have_a_file_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = |mode| {
            std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
            NotPermitted::new(file.path(), io::ErrorKind::PermissionDenied.into()).to_string()
        };
        let (alone, group) = (said(0o600), said(0o660));
        assert!(alone.contains("mode 0600") && !alone.contains("member of"), "{alone}");
        assert!(group.contains("mode 0660") && group.contains("or as a member of group"), "{group}");
        assert_eq!((name_in("/etc/passwd", 0), name_in("/etc/group", 0)), ("root".into(), "root".into()));
        assert_eq!(name_in("/etc/group", 4_000_000_000), "4000000000");
    }
}
