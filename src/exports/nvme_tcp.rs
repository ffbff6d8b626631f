//! Volumes on the network by the kernel's own NVMe target (nvmet): its configuration on top of a disk of this host.
//!
//! ```text
//! nvmet/subsystems/NQN            attr_allow_any_host, attr_serial, attr_model
//!       subsystems/NQN/namespaces/1   device_path = /dev/ublkbN, device_uuid, enable
//!       subsystems/NQN/allowed_hosts/HOST -> hosts/HOST
//!       ports/P                   addr_trtype = tcp, addr_adrfam, addr_traddr, addr_trsvcid
//!       ports/P/subsystems/NQN -> subsystems/NQN
//! ```
//!
//! All of it is the kernel's and outlives us: what is there is looked at anew each time, and repeating a command changes nothing.

use super::host_disk::{mark, open_control};
use super::wanted::NetworkExport;
use crate::exit::{Exit, in_words};
use anyhow::{Context, Result};
use server::ublk::{NVMET, State, node};
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Qualified name of an array: that of its UUID (NVMe base specification 2.0, section 4.5).
pub fn name_of(uuid: &str) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}")
}

/// Longest time for which a disk is waited for.
const DISK_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// As others write UUIDs: that of an array of md has colons.
pub fn standard(uuid: &str) -> String {
    let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    Uuid::try_parse(&digits).map_or_else(|_| uuid.to_owned(), |uuid| uuid.to_string())
}

/// An export to be made.
#[derive(Clone, Debug)]
struct Wanted<'a> {
    uuid: &'a str,
    /// Block device.
    device: &'a str,
    address: SocketAddr,
    /// Qualified names of hosts that may connect; `None` is any.
    hosts: Option<&'a [String]>,
}

/// An export that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub device: String,
    pub addresses: Vec<String>,
    /// Hosts that may connect; `None` is any.
    pub hosts: Option<Vec<String>>,
}

/// A change of the configuration. One that was made before changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Make(PathBuf),
    Set(PathBuf, String),
    Link {
        to: PathBuf,
        at: PathBuf,
    },
    Unlink(PathBuf),
    Remove(PathBuf),
    /// Removed unless somebody else refers to it.
    RemoveUnused(PathBuf),
}

/// As a shell would do it.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Make(path) => write!(f, "mkdir -p {}", path.display()),
            Step::Set(path, value) => write!(f, "echo {value} > {}", path.display()),
            Step::Link { to, at } => write!(f, "ln -s {} {}", to.display(), at.display()),
            Step::Unlink(path) => write!(f, "rm {}", path.display()),
            Step::Remove(path) => write!(f, "rmdir {}", path.display()),
            Step::RemoveUnused(path) => write!(f, "rmdir {} || true", path.display()),
        }
    }
}

impl Step {
    fn carry_out(&self) -> Result<()> {
        let done = match self {
            Step::Make(path) => std::fs::create_dir(path),
            // What is in use refuses even the value that it has.
            Step::Set(path, value) if value_of(path).as_ref() == Some(value) => Ok(()),
            Step::Set(path, value) => std::fs::write(path, value),
            Step::Link { to, at } => symlink(to, at),
            Step::Unlink(path) => std::fs::remove_file(path),
            Step::Remove(path) => std::fs::remove_dir(path),
            Step::RemoveUnused(path) => {
                let _used = std::fs::remove_dir(path);
                Ok(())
            }
        };
        match done {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                Err(Exit::Busy.error(format!("`{self}`: somebody else listens on that address")))
            }
            done => done.with_context(|| format!("`{self}`; the kernel may say more (dmesg)")),
        }
    }
}

/// Makes the changes, or prints them.
pub fn carry_out(steps: &[Step], is_dry_run: bool) -> Result<()> {
    for step in steps {
        if is_dry_run {
            println!("{step}");
        } else {
            step.carry_out()?;
        }
    }
    Ok(())
}

/// Puts the volume on the network as soon as this process serves its disk, in a thread of its own. The server goes on when that fails.
pub fn make_when_disk_is_there(array: String, network: NetworkExport) -> Result<()> {
    expect_target(Path::new(NVMET))?;
    let make = move || {
        let made = await_disk(&array).and_then(|device| make(&standard(&array), &device, &network, false));
        match made {
            Ok(()) => log::info!("nvme-tcp: the volume is on the network at {}", network.address),
            Err(error) => log::error!("nvme-tcp: the volume is not on the network: {}", in_words(&error)),
        }
    };
    std::thread::Builder::new().name("nvme-tcp".to_owned()).spawn(make).context("a thread for nvme-tcp")?;
    Ok(())
}

fn await_disk(array: &str) -> Result<String> {
    let began = Instant::now();
    let mut control = open_control()?;
    loop {
        let disks = control.marked(mark(array))?;
        let is_own = |process: i32| u32::try_from(process).is_ok_and(|process| process == std::process::id());
        if let Some(disk) = disks.iter().find(|disk| disk.state == State::Live && is_own(disk.process)) {
            return Ok(node(disk.number));
        }
        if began.elapsed() >= DISK_MAX {
            return Err(Exit::Failed.error("the disk of this host did not come"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Puts a device on the network, or prints what that takes.
pub fn make(uuid: &str, device: &str, network: &NetworkExport, is_dry_run: bool) -> Result<()> {
    let root = Path::new(NVMET);
    if !is_dry_run {
        expect_target(root)?;
    }
    let wanted = Wanted { uuid, device, address: network.address, hosts: network.hosts.as_deref() };
    carry_out(&steps(root, &wanted), is_dry_run)
}

/// Refuses to go on where there is no target.
fn expect_target(root: &Path) -> Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    Err(Exit::Usage.error(format!(
        "{} is not there: `modprobe nvmet-tcp`, and `mount -t configfs none /sys/kernel/config` where nothing is mounted there",
        root.display()
    )))
}

/// Steps to an export.
fn steps(root: &Path, wanted: &Wanted<'_>) -> Vec<Step> {
    let name = name_of(wanted.uuid);
    let subsystem = root.join("subsystems").join(&name);
    let namespace = subsystem.join("namespaces/1");
    let set = |folder: &Path, name: &str, value: &str| Step::Set(folder.join(name), value.to_owned());
    let mut steps = vec![Step::Make(subsystem.clone())];
    let allowed = names_in(&subsystem.join("allowed_hosts"));
    let is_welcome = |host: &String| wanted.hosts.is_some_and(|hosts| hosts.contains(host));
    let leaving = allowed.iter().filter(|host| !is_welcome(host));
    steps.extend(leaving.map(|host| Step::Unlink(subsystem.join("allowed_hosts").join(host))));
    steps.push(set(&subsystem, "attr_allow_any_host", if wanted.hosts.is_none() { "1" } else { "0" }));
    let serial: String = wanted.uuid.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    steps.push(set(&subsystem, "attr_serial", &serial));
    steps.push(Step::Make(namespace.clone()));
    let has_moved = value_of(&namespace.join("device_path")).is_some_and(|path| path != wanted.device);
    if has_moved && value_of(&namespace.join("enable")).as_deref() == Some("1") {
        steps.push(set(&namespace, "enable", "0"));
    }
    steps.push(set(&namespace, "device_path", wanted.device));
    steps.push(set(&namespace, "device_uuid", wanted.uuid));
    steps.push(set(&namespace, "enable", "1"));
    for host in wanted.hosts.unwrap_or_default() {
        let entry = root.join("hosts").join(host);
        steps.push(Step::Make(entry.clone()));
        steps.push(Step::Link { to: entry, at: subsystem.join("allowed_hosts").join(host) });
    }
    let port = port_for(root, wanted.address);
    steps.push(Step::Make(port.clone()));
    let family = if wanted.address.is_ipv4() { "ipv4" } else { "ipv6" };
    let address = wanted.address.ip().to_string();
    for (attribute, value) in [
        ("addr_trtype", "tcp"),
        ("addr_adrfam", family),
        ("addr_traddr", &address),
        ("addr_trsvcid", &wanted.address.port().to_string()),
    ] {
        steps.push(set(&port, attribute, value));
    }
    steps.push(Step::Link { to: subsystem, at: port.join("subsystems").join(name) });
    steps
}

/// Steps to an end of the export of an array; empty when there is none.
pub fn steps_of_removal(root: &Path, uuid: &str) -> Vec<Step> {
    let name = name_of(uuid);
    let subsystem = root.join("subsystems").join(&name);
    if !subsystem.is_dir() {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for port in names_in(&root.join("ports")) {
        let port = root.join("ports").join(port);
        let exported = names_in(&port.join("subsystems"));
        if exported.contains(&name) {
            steps.push(Step::Unlink(port.join("subsystems").join(&name)));
            if exported.len() == 1 {
                steps.push(Step::Remove(port));
            }
        }
    }
    for namespace in names_in(&subsystem.join("namespaces")) {
        let namespace = subsystem.join("namespaces").join(namespace);
        steps.push(Step::Set(namespace.join("enable"), "0".to_owned()));
        steps.push(Step::Remove(namespace));
    }
    for host in names_in(&subsystem.join("allowed_hosts")) {
        steps.push(Step::Unlink(subsystem.join("allowed_hosts").join(&host)));
        steps.push(Step::RemoveUnused(root.join("hosts").join(host)));
    }
    steps.push(Step::Remove(subsystem));
    steps
}

/// The export of an array, if there is one.
pub fn find(root: &Path, uuid: &str) -> Option<Found> {
    let name = name_of(uuid);
    let subsystem = root.join("subsystems").join(&name);
    let device = value_of(&subsystem.join("namespaces/1/device_path"))?;
    let ports = names_in(&root.join("ports")).into_iter().map(|port| root.join("ports").join(port));
    let addresses = ports
        .filter(|port| names_in(&port.join("subsystems")).contains(&name))
        .map(|port| format!("{}:{}", attribute(&port, "addr_traddr"), attribute(&port, "addr_trsvcid")))
        .collect();
    let any = attribute(&subsystem, "attr_allow_any_host") == "1";
    let hosts = (!any).then(|| names_in(&subsystem.join("allowed_hosts")));
    Some(Found { device, addresses, hosts })
}

/// The port with an address, or the first number that none has.
fn port_for(root: &Path, address: SocketAddr) -> PathBuf {
    let ports = root.join("ports");
    let taken = names_in(&ports);
    let is_same = |port: &&String| {
        let port = ports.join(port);
        attribute(&port, "addr_trtype") == "tcp"
            && attribute(&port, "addr_traddr") == address.ip().to_string()
            && attribute(&port, "addr_trsvcid") == address.port().to_string()
    };
    let number = taken.iter().find(is_same).cloned();
    let free = || (1..).map(|number: u32| number.to_string()).find(|number| !taken.contains(number));
    ports.join(number.or_else(free).expect("numbers do not end"))
}

fn attribute(folder: &Path, name: &str) -> String {
    value_of(&folder.join(name)).unwrap_or_default()
}

fn value_of(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|value| value.trim().to_owned())
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";

    /// A folder that is like the target's: entries have the folders that the kernel makes in them.
    fn target(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("zw-nvmet-{name}-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&root);
        for folder in ["subsystems", "hosts", "ports"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let subsystem = root.join("subsystems").join(name_of(UUID));
        for folder in ["allowed_hosts", "namespaces"] {
            std::fs::create_dir_all(subsystem.join(folder)).unwrap();
        }
        let port = root.join("ports/1");
        std::fs::create_dir_all(port.join("subsystems")).unwrap();
        for (attribute, value) in
            [("addr_trtype", "tcp\n"), ("addr_traddr", "127.0.0.1\n"), ("addr_trsvcid", "4420\n")]
        {
            std::fs::write(port.join(attribute), value).unwrap();
        }
        root
    }

    fn wanted(hosts: Option<&[String]>) -> Wanted<'_> {
        Wanted { uuid: UUID, device: "/dev/ublkb3", address: ([127, 0, 0, 1], 4420).into(), hosts }
    }

    #[test]
    fn another_address_is_another_port() {
        let root = target("ports");
        assert_eq!(port_for(&root, ([127, 0, 0, 1], 4420).into()), root.join("ports/1"));
        assert_eq!(port_for(&root, ([127, 0, 0, 1], 4421).into()), root.join("ports/2"));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn an_export_is_found_as_it_was_made_and_made_again_without_a_change() {
        let root = target("made");
        let hosts = [HOST.to_owned()];
        for _ in 0..2 {
            carry_out(&steps(&root, &wanted(Some(&hosts))), false).unwrap();
            let found = find(&root, UUID).unwrap();
            assert_eq!(found.device, "/dev/ublkb3");
            assert_eq!(found.addresses, ["127.0.0.1:4420"], "one port, however often it is asked for");
            assert_eq!(found.hosts.as_deref(), Some(&hosts[..]));
        }
        carry_out(&steps(&root, &wanted(None)), false).unwrap();
        assert_eq!(find(&root, UUID).unwrap().hosts, None, "and nobody is named any more");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_port_that_others_use_stays() {
        let root = target("shared");
        let hosts = [HOST.to_owned()];
        carry_out(&steps(&root, &wanted(Some(&hosts))), false).unwrap();
        let used = root.join("ports/1");
        std::fs::write(used.join("subsystems/other"), "").unwrap();
        let steps = steps_of_removal(&root, UUID);
        assert!(!steps.contains(&Step::Remove(used.clone())), "{steps:?}");
        std::fs::remove_file(used.join("subsystems/other")).unwrap();
        let steps = steps_of_removal(&root, UUID);
        assert!(steps.contains(&Step::Remove(used)), "{steps:?}");
        assert_eq!(steps.last(), Some(&Step::Remove(root.join("subsystems").join(name_of(UUID)))));
        assert!(steps_of_removal(&root, "another").is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }
}
