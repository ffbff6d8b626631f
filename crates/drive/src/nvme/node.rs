//! Device nodes of NVMe namespaces: the character node that takes commands, and the block node of the same namespace.
//!
//! ```text
//!   /dev/ng0n1 ── /sys/dev/char/MAJOR:MINOR ──> .../nvme0/ng0n1, subsystem nvme-generic
//!                                               .../nvme0/nvme1n1 ──> /dev/nvme1n1, its block node
//! ```

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const CLASS: &str = "nvme-generic";

/// Name of the character node of a namespace, as the kernel has it; `None` when the path is none. The node is not opened.
#[must_use]
pub fn kernel_name(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.file_type().is_char_device() {
        return None;
    }
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let device = std::fs::canonicalize(format!("/sys/dev/char/{major}:{minor}")).ok()?;
    let class = std::fs::canonicalize(device.join("subsystem")).ok()?;
    let name = device.file_name()?.to_str()?.to_owned();
    (class.file_name()?.to_str()? == CLASS).then_some(name)
}

/// True of the character node of an NVMe namespace. The node is not opened.
#[must_use]
pub fn is_nvme(path: &Path) -> bool {
    kernel_name(path).is_some()
}

/// Character nodes of all namespaces of this host, by name.
#[must_use]
pub fn all() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/sys/class/{CLASS}")).into_iter().flatten().flatten();
    let mut nodes: Vec<PathBuf> = entries.map(|entry| Path::new("/dev").join(entry.file_name())).collect();
    nodes.sort();
    nodes
}

/// Block node of the namespace whose character node has this name.
///
/// Names do not tell: the number of a character node is its controller's, that of a block node its subsystem's, and they differ after a
/// drive was away, or where controllers were found in another order. Both lie in one folder of sysfs.
#[must_use]
pub fn block_node(kernel_name: &str) -> Option<PathBuf> {
    let device = std::fs::canonicalize(format!("/sys/class/{CLASS}/{kernel_name}")).ok()?;
    let name = sibling(device.parent()?, kernel_name, "nvme")?;
    Some(Path::new("/dev").join(name))
}

/// Character node of the namespace whose block node is this.
#[must_use]
pub fn of_block_node(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let device = std::fs::canonicalize(format!("/sys/class/block/{name}")).ok()?;
    let node = Path::new("/dev").join(sibling(device.parent()?, name, "ng")?);
    is_nvme(&node).then_some(node)
}

/// Name of another node of a namespace in the folder of both: they end with the same number. With several paths to a namespace those of its
/// paths lie there, too (`nvme0c1n1`).
fn sibling(folder: &Path, name: &str, prefix: &str) -> Option<String> {
    let numbers = |name: &str, prefix: &str| -> Option<(u32, u32)> {
        let (device, namespace) = name.strip_prefix(prefix)?.split_once('n')?;
        Some((device.parse().ok()?, namespace.parse().ok()?))
    };
    let (_, namespace) = numbers(name, "ng").or_else(|| numbers(name, "nvme"))?;
    let names =
        std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.into_iter().find(|name| numbers(name, prefix).is_some_and(|(_, other)| other == namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_names_of_each_other() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["ng4n2", "ng4n12", "nvme1n12", "nvme1n2", "nvme1c4n2", "nvme4", "hwmon1", "ng_n2"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(sibling(folder.path(), "ng4n2", "nvme").as_deref(), Some("nvme1n2"));
        assert_eq!(sibling(folder.path(), "nvme1n12", "ng").as_deref(), Some("ng4n12"));
        assert_eq!(sibling(folder.path(), "ng4n3", "nvme"), None);
        assert_eq!(block_node("ng10n2"), None, "there is no such drive");
        assert_eq!(block_node("tty1"), None);
        assert!(!is_nvme(Path::new("/dev/null")));
        assert!(!is_nvme(Path::new("/dev/no-such-node")));
        assert!(of_block_node(Path::new("/dev/sda")).is_none());
    }
}
