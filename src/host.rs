//! What the kernel says of block devices: sysfs, mounts and swap.
//!
//! ```text
//!   /sys/class/block/NAME ─┬─ size, ro, partition, holders, slaves, uevent (PARTUUID), dm/uuid
//!                          ├─ device/model, serial, wwid
//!                          └─ queue/logical_block_size, rotational, zoned, nr_zones, ... (of a partition: its disk's)
//!   /proc/self/mountinfo, /proc/swaps ──> who uses it
//! ```

use serde::Serialize;
use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of the sectors that sysfs counts in, whatever the device's blocks are.
const SECTOR_BYTES: u64 = 512;
/// Sectors of a block of 4 KiB.
const BLOCK_SECTORS: u64 = 8;

/// Kind of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A whole device.
    Disk,
    /// Part of one.
    Partition,
    /// A file as a device.
    Loop,
    /// A volume of device mapper: LVM, LUKS, multipath.
    Mapped,
    /// An array of Linux md.
    Md,
}

impl Kind {
    /// The kind in a word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Disk => "disk",
            Kind::Partition => "partition",
            Kind::Loop => "loop",
            Kind::Mapped => "mapped",
            Kind::Md => "md",
        }
    }
}

/// Zones of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Zones {
    /// `host-managed` or `host-aware`.
    pub model: String,
    /// Zones of the device.
    pub count: u64,
    /// Bytes of each.
    pub zone_bytes: u64,
    /// Most that may be open; 0 for any number.
    pub open_max: u64,
    /// Most that may be active; 0 for any number.
    pub active_max: u64,
}

/// A block device.
#[derive(Clone, Debug, Serialize)]
pub struct BlockNode {
    /// Device node.
    pub path: PathBuf,
    /// Kind of the device.
    pub kind: Kind,
    /// Maker and model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Identity that stays when the node gets another name.
    pub id: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Sector of its disk at which it begins, in units of 512 bytes.
    pub first_sector: u64,
    /// Smallest transfer.
    pub logical_block_bytes: u64,
    /// A disk that turns.
    pub rotating: bool,
    /// True for a device that cannot be written.
    pub read_only: bool,
    /// Zones, where it has them.
    pub zones: Option<Zones>,
    /// Mount points, devices and arrays that use it or a part of it.
    pub users: Vec<String>,
}

impl BlockNode {
    /// Why blocks of 4 KiB would lie across those of the disk, where they do.
    pub fn misalignment(&self) -> Option<String> {
        let first = self.first_sector;
        (!first.is_multiple_of(BLOCK_SECTORS)).then(|| {
            format!(
                "it begins at sector {first}, in the middle of a block of 4 KiB: make the partition anew, at a multiple of {BLOCK_SECTORS} sectors"
            )
        })
    }
}

/// Hardware under a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Disks and controllers of which the drive is all or a part.
    pub whole: BTreeSet<String>,
    /// Disks and controllers under the drive's file, where it is a file, or a loop device over one.
    pub of_files: BTreeSet<String>,
}

impl Hardware {
    /// All of it.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.whole.union(&self.of_files).map(String::as_str)
    }
}

/// Roots of the kernel's file systems, other ones in tests.
pub struct Host {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Host {
    /// The host that this process runs on.
    pub fn here() -> Host {
        Host { sys: PathBuf::from("/sys"), proc: PathBuf::from("/proc") }
    }

    /// Block devices that have a size, by name.
    ///
    /// # Errors
    /// When sysfs cannot be read.
    pub fn block_nodes(&self) -> std::io::Result<Vec<BlockNode>> {
        Ok(self.names()?.iter().filter_map(|name| self.block_node(name)).collect())
    }

    /// Names of block devices: nvme2n1 before nvme10n1.
    fn names(&self) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.class())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_by(|one, other| numbers_by_value(one).cmp(&numbers_by_value(other)));
        Ok(names)
    }

    /// Block devices of NVMe namespaces that Linux gives no size, for their blocks are none that it can use.
    ///
    /// # Errors
    /// When sysfs cannot be read.
    pub fn unusable_namespaces(&self) -> std::io::Result<Vec<BlockNode>> {
        let mut found = Vec::new();
        for name in self.names()? {
            let dir = std::fs::canonicalize(self.class().join(&name)).ok();
            let is_unusable = dir.as_ref().is_some_and(|dir| {
                name.starts_with("nvme")
                    && number(&dir.join("size")) == Some(0)
                    && number(&dir.join("hidden")) != Some(1)
            });
            found.extend(dir.filter(|_| is_unusable).and_then(|dir| self.block_node_of(&name, &dir, 0)));
        }
        Ok(found)
    }

    /// The block device of a node, whatever its name in `/dev` is.
    pub fn node_at(&self, path: &Path) -> Option<BlockNode> {
        let metadata = std::fs::metadata(path).ok().filter(|found| found.file_type().is_block_device())?;
        let device = self.device_of_number(metadata.rdev())?;
        self.block_node(device.file_name()?.to_str()?)
    }

    /// Directory of the block device of this number.
    fn device_of_number(&self, number: u64) -> Option<PathBuf> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        std::fs::canonicalize(self.sys.join(format!("dev/block/{major}:{minor}"))).ok()
    }

    /// The hardware that a drive lies on: disks, and controllers of NVMe namespaces.
    pub fn hardware_under(&self, path: &Path) -> Hardware {
        let mut found = Hardware::default();
        let Ok(metadata) = std::fs::metadata(path) else { return found };
        let kind = metadata.file_type();
        if kind.is_block_device() {
            if let Some(device) = self.device_of_number(metadata.rdev()) {
                self.add_hardware(&device, &mut found);
            }
        } else if kind.is_char_device() {
            let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
            let device = std::fs::canonicalize(self.sys.join(format!("dev/char/{major}:{minor}")));
            found.whole.extend(device.ok().and_then(|device| controller_of(&device)));
        } else if let Some(device) = self.device_of_number(metadata.dev()) {
            let mut below = Hardware::default();
            self.add_hardware(&device, &mut below);
            found.of_files = below.all().map(str::to_owned).collect();
        } else {
            // A file system without one block device.
            let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
            found.of_files.insert(format!("file system {major}:{minor}"));
        }
        found
    }

    fn add_hardware(&self, device: &Path, found: &mut Hardware) {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let whole = match device.join("partition").exists() {
            true => device.parent().unwrap_or(device),
            false => device,
        };
        let slaves = children(&whole.join("slaves"));
        for slave in &slaves {
            if let Ok(below) = std::fs::canonicalize(self.class().join(slave)) {
                self.add_hardware(&below, found);
            }
        }
        if slaves.is_empty() {
            found.whole.extend(controller_of(whole).or_else(|| name(whole)));
        }
        if let Some(file) = text(&whole.join("loop/backing_file")) {
            found.of_files.extend(self.hardware_under(Path::new(&file)).of_files);
        }
    }

    fn class(&self) -> PathBuf {
        self.sys.join("class/block")
    }

    fn block_node(&self, name: &str) -> Option<BlockNode> {
        let dir = std::fs::canonicalize(self.class().join(name)).ok()?;
        let size_bytes = number(&dir.join("size"))? * SECTOR_BYTES;
        // Memory is no drive, and a path of multipath is served by its head.
        let is_memory = ["ram", "zram"].iter().any(|kind| name.starts_with(kind));
        if size_bytes == 0 || is_memory || number(&dir.join("hidden")) == Some(1) {
            return None;
        }
        self.block_node_of(name, &dir, size_bytes)
    }

    fn block_node_of(&self, name: &str, dir: &Path, size_bytes: u64) -> Option<BlockNode> {
        let is_partition = dir.join("partition").exists();
        let whole = if is_partition { dir.parent()? } else { dir };
        let queue = whole.join("queue");
        let path = PathBuf::from("/dev").join(name.replace('!', "/"));
        Some(BlockNode {
            kind: match name {
                _ if is_partition => Kind::Partition,
                _ if name.starts_with("loop") => Kind::Loop,
                _ if name.starts_with("dm-") => Kind::Mapped,
                _ if name.starts_with("md") => Kind::Md,
                _ => Kind::Disk,
            },
            model: model_of(whole),
            serial: serial_of(whole),
            id: id_of(dir, whole),
            size_bytes,
            first_sector: number(&dir.join("start")).unwrap_or(0),
            logical_block_bytes: number(&queue.join("logical_block_size")).unwrap_or(SECTOR_BYTES),
            rotating: number(&queue.join("rotational")) == Some(1),
            read_only: number(&dir.join("ro")) == Some(1),
            zones: zones_of(&queue),
            users: self.users_of(dir, &path),
            path,
        })
    }

    /// Users of a device or its partitions.
    fn users_of(&self, dir: &Path, path: &Path) -> Vec<String> {
        let mut users: Vec<String> = children(&dir.join("holders"))
            .into_iter()
            .map(|holder| format!("member of /dev/{holder}"))
            .collect();
        let device = text(&dir.join("dev")).unwrap_or_default();
        let mounts = std::fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        for line in mounts.lines() {
            let (before, behind) = line.split_once(" - ").unwrap_or((line, ""));
            let before: Vec<&str> = before.split(' ').collect();
            let source = behind.split(' ').nth(1).unwrap_or_default();
            let is_ours = before.get(2) == Some(&device.as_str()) || Path::new(source) == path;
            if let Some(point) = before.get(4).filter(|_| is_ours) {
                users.push(format!("mounted on {}", unescaped(point)));
            }
        }
        let swaps = std::fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        if swaps.lines().any(|line| line.split_whitespace().next().map(Path::new) == Some(path)) {
            users.push("swap space".to_owned());
        }
        for part in children(dir).iter().filter(|name| dir.join(name).join("partition").exists()) {
            let used = self.users_of(&dir.join(part), &PathBuf::from("/dev").join(part));
            users.extend(used.iter().map(|user| format!("{part} {user}")));
        }
        users.sort();
        users.dedup();
        users
    }
}

/// Controller of an NVMe namespace, or the subsystem that it has several of.
fn controller_of(namespace: &Path) -> Option<String> {
    let name = namespace.parent()?.file_name()?.to_str()?;
    let is_nvme = |name: &str| name.starts_with("nvme") && name != "nvme";
    let own = namespace.file_name()?.to_str()?;
    let is_namespace = own.starts_with("nvme") || own.starts_with("ng");
    (is_namespace && is_nvme(name)).then(|| name.to_owned())
}

/// A name cut into text and the numbers behind it, for an order in which 2 comes before 10.
fn numbers_by_value(name: &str) -> Vec<(&str, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|at: char| at.is_ascii_digit()).unwrap_or(rest.len());
        let behind = rest[digits..].find(|at: char| !at.is_ascii_digit());
        let end = behind.map_or(rest.len(), |length| digits + length);
        parts.push((&rest[..digits], rest[digits..end].parse().unwrap_or(0)));
        rest = &rest[end..];
    }
    parts
}

/// Names in a directory, in order.
fn children(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Spaces are octal in mountinfo.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// Contents of a file, unless it is empty or not there.
fn text(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

fn first(paths: &[PathBuf]) -> Option<String> {
    paths.iter().find_map(|path| text(path))
}

fn model_of(whole: &Path) -> Option<String> {
    let model = text(&whole.join("device/model"))?;
    // What ATA disks have as vendor says nothing.
    let vendor =
        text(&whole.join("device/vendor")).filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"));
    Some(vendor.map_or(model.clone(), |vendor| format!("{vendor} {model}")))
}

/// Name of a device wherever it is attached: of a partition its PARTUUID, of a disk its world wide name, else model and
/// serial number; of a volume of device mapper its UUID.
fn id_of(dir: &Path, whole: &Path) -> Option<String> {
    if let Some(number) = text(&dir.join("partition")) {
        let uevent = text(&dir.join("uevent")).unwrap_or_default();
        let uuid = uevent.lines().find_map(|line| line.strip_prefix("PARTUUID="));
        return match uuid {
            Some(uuid) => Some(format!("partuuid.{uuid}")),
            None => Some(format!("{}-part{number}", id_of(whole, whole)?)),
        };
    }
    if let Some(wwid) = first(&[whole.join("wwid"), whole.join("device/wwid")]) {
        return Some(wwid.strip_prefix("naa.").map_or(wwid.clone(), |name| format!("wwn.0x{name}")));
    }
    if let Some(uuid) = text(&whole.join("dm/uuid")) {
        return Some(format!("dm.{uuid}"));
    }
    let serial = serial_of(whole)?;
    let model = model_of(whole).map(|model| format!("{model}-")).unwrap_or_default();
    Some(format!("disk.{model}{serial}"))
}

fn serial_of(whole: &Path) -> Option<String> {
    first(&[whole.join("device/serial"), whole.join("serial")])
}

fn zones_of(queue: &Path) -> Option<Zones> {
    let model = text(&queue.join("zoned")).filter(|model| model != "none")?;
    let limit = |name: &str| number(&queue.join(name)).unwrap_or(0);
    Some(Zones {
        model,
        count: limit("nr_zones"),
        zone_bytes: limit("chunk_sectors") * SECTOR_BYTES,
        open_max: limit("max_open_zones"),
        active_max: limit("max_active_zones"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::os::unix::fs::symlink;

    /// A made-up host in a directory of its own, which goes with it.
    struct MadeUp(PathBuf);

    impl MadeUp {
        fn new(name: &str) -> MadeUp {
            let root = std::env::temp_dir().join(format!("zw-drive-list-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&root);
            std::fs::create_dir_all(root.join("sys/class/block")).unwrap();
            std::fs::create_dir_all(root.join("proc/self")).unwrap();
            MadeUp(root)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// A device below its disk, or a disk; with a size in sectors.
        fn device(&self, place: &str, sectors: u64, files: &[(&str, &str)]) {
            let name = place.rsplit('/').next().unwrap();
            self.write(&format!("sys/devices/{place}/size"), &format!("{sectors}\n"));
            files.iter().for_each(|(file, text)| self.write(&format!("sys/devices/{place}/{file}"), text));
            let link = self.0.join("sys/class/block").join(name);
            symlink(self.0.join("sys/devices").join(place), link).unwrap();
        }

        fn nodes(&self) -> Vec<BlockNode> {
            Host { sys: self.0.join("sys"), proc: self.0.join("proc") }.block_nodes().unwrap()
        }
    }

    impl Drop for MadeUp {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn disks_and_partitions_are_told_with_who_uses_them() {
        let host = MadeUp::new("disks");
        host.device(
            "sda",
            1 << 21,
            &[
                ("dev", "8:0"),
                ("device/vendor", "ATA     "),
                ("device/model", "CT500MX500SSD1\n"),
                ("device/wwid", "naa.5"),
                ("queue/rotational", "0"),
            ],
        );
        host.device(
            "sda/sda1",
            1 << 20,
            &[("dev", "8:1"), ("partition", "1"), ("start", "63"), ("uevent", "MAJOR=8\nPARTUUID=0a-1\n")],
        );
        host.device("sda/sda2", 1 << 20, &[("dev", "8:2"), ("partition", "2"), ("start", "1048640")]);
        host.device("nvme10n1", 8, &[("dev", "259:9"), ("serial", "S1"), ("ro", "1")]);
        host.device("nvme2n1", 8, &[("dev", "259:1"), ("holders/md7/x", "")]);
        host.device("loop0", 0, &[]);
        host.device("nvme3n1", 0, &[("dev", "259:2"), ("serial", "S3")]);
        host.device("nvme0c0n1", 0, &[("hidden", "1")]);
        host.device("zram0", 4096, &[]);
        host.write(
            "proc/self/mountinfo",
            "22 1 8:2 / /srv/a\\040b rw - ext4 /dev/sda2 rw\n30 1 0:5 / /dev rw - devtmpfs udev rw\n",
        );
        host.write("proc/swaps", "Filename Type Size\n/dev/sda1 partition 1 0 -2\n");
        let nodes = host.nodes();
        let names: Vec<&str> = nodes.iter().map(|node| node.path.to_str().unwrap()).collect();
        assert_eq!(names, ["/dev/nvme2n1", "/dev/nvme10n1", "/dev/sda", "/dev/sda1", "/dev/sda2"]);
        let of = Host { sys: host.0.join("sys"), proc: host.0.join("proc") };
        let unusable = of.unusable_namespaces().unwrap();
        assert_eq!(unusable.iter().map(|node| &node.path).collect::<Vec<_>>(), [Path::new("/dev/nvme3n1")]);
        let [second, tenth, disk, first, other] = &nodes[..] else { panic!("five devices") };
        assert_eq!(second.users, ["member of /dev/md7"]);
        assert!(tenth.read_only && tenth.serial.as_deref() == Some("S1") && tenth.users.is_empty());
        assert_eq!(
            (disk.kind, disk.model.as_deref(), disk.size_bytes),
            (Kind::Disk, Some("CT500MX500SSD1"), 1 << 30)
        );
        assert_eq!(disk.id.as_deref(), Some("wwn.0x5"));
        assert_eq!(disk.users, ["sda1 swap space", "sda2 mounted on /srv/a b"]);
        assert_eq!((first.kind, first.id.as_deref()), (Kind::Partition, Some("partuuid.0a-1")));
        assert!(first.misalignment().is_some_and(|why| why.starts_with("it begins at sector 63")));
        assert!(disk.misalignment().is_none() && other.misalignment().is_none());
        assert_eq!((other.id.as_deref(), tenth.id.as_deref()), (Some("wwn.0x5-part2"), Some("disk.S1")));
        assert_eq!(
            (&first.users[..], &other.users[..]),
            (&["swap space".to_owned()][..], &["mounted on /srv/a b".to_owned()][..])
        );
    }

    /// Partitions, volumes and namespaces come down to disks and controllers.
    #[test]
    fn hardware_is_what_a_device_is_a_part_of() {
        let host = MadeUp::new("hardware");
        host.device("pci0/host0/sda", 8, &[]);
        host.device("pci0/host0/sda/sda1", 8, &[("partition", "1")]);
        host.device("pci0/nvme/nvme3/nvme3n2", 8, &[]);
        host.device("virtual/block/dm-0", 8, &[("slaves/sda1/x", ""), ("slaves/nvme3n2/x", "")]);
        host.device("virtual/block/loop7", 8, &[("loop/backing_file", "/no/such/file\n")]);
        let under = |place: &str| {
            let mut found = Hardware::default();
            let of = Host { sys: host.0.join("sys"), proc: host.0.join("proc") };
            of.add_hardware(&host.0.join("sys/devices").join(place), &mut found);
            assert!(found.of_files.is_empty());
            found.whole.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(under("pci0/host0/sda/sda1"), ["sda"]);
        assert_eq!(under("pci0/nvme/nvme3/nvme3n2"), ["nvme3"]);
        assert_eq!(under("virtual/block/dm-0"), ["nvme3", "sda"]);
        assert_eq!(under("virtual/block/loop7"), ["loop7"]);
        assert_eq!(controller_of(Path::new("/sys/devices/pci0/nvme/nvme3/ng3n2")).as_deref(), Some("nvme3"));
        assert_eq!(
            controller_of(Path::new("/sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1")).as_deref(),
            Some("nvme-subsys1")
        );
    }

    #[test]
    fn zones_are_those_of_the_queue() {
        let host = MadeUp::new("zones");
        let zoned = [
            ("queue/zoned", "host-managed\n"),
            ("queue/nr_zones", "904"),
            ("queue/chunk_sectors", "4194304"),
            ("queue/max_open_zones", "14"),
            ("queue/max_active_zones", "14"),
            ("queue/logical_block_size", "4096"),
        ];
        host.device("nvme0n2", 904 << 22, &zoned);
        host.device("sdb", 8, &[("queue/zoned", "none")]);
        let nodes = host.nodes();
        let zones = Zones {
            model: "host-managed".into(),
            count: 904,
            zone_bytes: 2 << 30,
            open_max: 14,
            active_max: 14,
        };
        assert_eq!((nodes[0].zones.as_ref(), nodes[0].logical_block_bytes), (Some(&zones), 4096));
        assert_eq!(nodes[1].zones, None);
    }
}
