//! Device nodes of NVMe namespaces: the character node that takes commands, and the block node of the same namespace.
//!
//! ```text
//!   /dev/ng0n1 ── /sys/dev/char/MAJOR:MINOR ──> .../ng0n1, subsystem nvme-generic        /dev/nvme0n1: its block node
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
#[must_use]
pub fn block_node(kernel_name: &str) -> Option<PathBuf> {
    kernel_name.strip_prefix("ng").map(|rest| PathBuf::from(format!("/dev/nvme{rest}")))
}

/// Character node of the namespace whose block node is this.
#[must_use]
pub fn of_block_node(path: &Path) -> Option<PathBuf> {
    let rest = path.file_name()?.to_str()?.strip_prefix("nvme")?;
    let node = PathBuf::from(format!("/dev/ng{rest}"));
    is_nvme(&node).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_names_of_each_other() {
        assert_eq!(block_node("ng10n2"), Some(PathBuf::from("/dev/nvme10n2")));
        assert_eq!(block_node("tty1"), None);
        assert!(!is_nvme(Path::new("/dev/null")));
        assert!(!is_nvme(Path::new("/dev/no-such-node")));
        assert!(of_block_node(Path::new("/dev/sda")).is_none());
    }
}
