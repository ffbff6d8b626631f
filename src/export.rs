//! `zoneweave export`: exports of an array that are the kernel's and outlive its server: disks of this host (ublk), and volumes on the
//! network on top of them (NVMe/TCP).

mod nvme_tcp;

use crate::cli::Export;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::exports::mark;
use crate::md;
use anyhow::Result;
use nvme_tcp::{Found, Wanted, carry_out, expect_target, find, name_of, steps, steps_of_removal};
use serde_json::{Value, json};
use server::ublk::{Control, ControlError, NVMET, State, Summary, node, stop_unless_used};
use std::net::SocketAddr;
use std::path::Path;
use uuid::Uuid;

/// Exports of an array that are there.
struct Exports {
    uuid: String,
    disks: Vec<Summary>,
    network: Option<Found>,
}

/// Lists the exports of an array, makes one, or removes those of a kind.
pub fn run(options: &Export) -> Result<Exit> {
    let uuid = uuid_of(&options.dir)?;
    let mut control = match Control::open() {
        // Without the driver there are no disks.
        Err(ControlError::NoDriver) => None,
        control => Some(control.map_err(|error| Exit::Failed.because(error))?),
    };
    let disks = control.as_mut().map(|control| control.marked(mark(&uuid))).transpose()?;
    let uuid = standard(&uuid);
    let network = find(Path::new(NVMET), &uuid);
    let exports = Exports { uuid, disks: disks.unwrap_or_default(), network };
    let is_network = options.nvme_tcp.is_some();
    if options.remove && !options.ublk && !is_network {
        return Err(Exit::Usage.error("--remove wants the kind of exports to remove: --ublk or --nvme-tcp"));
    }
    if is_network {
        return network_of(exports, options);
    }
    if options.remove
        && let Some(control) = &mut control
    {
        for disk in &exports.disks {
            remove(control, disk, options.force)?;
        }
    }
    exports.print(options)
}

fn uuid_of(dir: &Path) -> Result<String> {
    if md::description::is_in(dir) {
        return Ok(md::description::Description::open(dir)?.uuid);
    }
    Ok(Directory::open(dir)?.file.uuid.to_string())
}

/// As others write UUIDs: that of an array of md has colons.
fn standard(uuid: &str) -> String {
    let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    Uuid::try_parse(&digits).map_or_else(|_| uuid.to_owned(), |uuid| uuid.to_string())
}

/// Makes the export on the network, or removes it.
fn network_of(exports: Exports, options: &Export) -> Result<Exit> {
    let root = Path::new(NVMET);
    let uuid = &exports.uuid;
    if options.remove {
        carry_out(&steps_of_removal(root, uuid), options.dry_run)?;
        return if options.dry_run { Ok(Exit::Well) } else { exports.print(options) };
    }
    let Some(Some(address)) = options.nvme_tcp else {
        return Err(Exit::Usage.error("--nvme-tcp wants an address to listen on, such as 192.0.2.5:4420"));
    };
    let hosts = hosts_of(options)?;
    let Some(disk) = exports.disks.first() else {
        return Err(Exit::Absent.error(
            "the array is no disk of this host, on which the kernel's target stands: serve it with --ublk first",
        ));
    };
    if !options.dry_run {
        expect_target(root)?;
    }
    let device = node(disk.number);
    carry_out(&steps(root, &Wanted { uuid, device: &device, address, hosts }), options.dry_run)?;
    if options.dry_run {
        return Ok(Exit::Well);
    }
    let network = find(root, uuid);
    if !options.json {
        println!("{}", connect_line(uuid, address));
    }
    Exports { network, ..exports }.print(options)
}

fn connect_line(uuid: &str, address: SocketAddr) -> String {
    format!("nvme connect -t tcp -a {} -s {} -n {}", address.ip(), address.port(), name_of(uuid))
}

/// Hosts that may connect. Nobody may who is not named, unless that is said.
fn hosts_of(options: &Export) -> Result<Option<&[String]>> {
    if options.allow_any_host {
        return Ok(None);
    }
    if options.allow_host.is_empty() {
        return Err(Exit::Usage.error(
            "name the hosts that may connect, with --allow-host NQN (a host's is in /etc/nvme/hostnqn), or --allow-any-host",
        ));
    }
    match options.allow_host.iter().find(|host| !host.starts_with("nqn.") || host.contains('/')) {
        Some(host) => Err(Exit::Usage.error(format!(
            "--allow-host {host}: that is no NVMe qualified name, such as nqn.2014-08.org.nvmexpress:uuid:..."
        ))),
        None => Ok(Some(&options.allow_host)),
    }
}

fn remove(control: &mut Control, disk: &Summary, forced: bool) -> Result<()> {
    let path = node(disk.number);
    if disk.state == State::Live {
        return Err(Exit::Busy.error(format!(
            "{path} is served by process {}: `zoneweave stop` its array first",
            disk.process
        )));
    }
    let stopped = if forced {
        control.stop(disk.number).map(|()| true)
    } else {
        stop_unless_used(control, disk.number)
    };
    let is_stopped =
        stopped.map_err(|error| Exit::Failed.error(format!("{path} cannot be stopped: {error}")))?;
    if !is_stopped {
        return Err(Exit::Busy.error(format!(
            "{path} is in use: serve the array with --ublk and end that, or give the disk up with --force: what was written to it and \
             not synced is lost then"
        )));
    }
    Ok(control.remove(disk.number)?)
}

impl Exports {
    /// Those that the options name; all, if they name none.
    fn print(&self, options: &Export) -> Result<Exit> {
        let has_disks = options.ublk || options.nvme_tcp.is_none();
        let has_network = options.nvme_tcp.is_some() || !options.ublk;
        let disks = self.disks.iter().filter(|_| has_disks);
        let network = self.network.iter().filter(|_| has_network);
        if options.json {
            let listed: Vec<Value> =
                disks.map(json_of_disk).chain(network.map(|found| self.json_of_network(found))).collect();
            let name = if options.remove { "removed" } else { "exports" };
            println!("{}", json!({ name: listed }));
            return Ok(Exit::Well);
        }
        let disks = disks
            .map(|disk| format!("ublk {} {} (process {})", node(disk.number), state_of(disk), disk.process));
        let network = network.map(|found| {
            let hosts = found.hosts.as_ref().map_or("any host".to_owned(), |hosts| hosts.join(", "));
            format!(
                "nvme-tcp {} {} of {} for {hosts}",
                found.addresses.join(", "),
                name_of(&self.uuid),
                found.device
            )
        });
        let lines: Vec<String> = disks.chain(network).collect();
        for line in &lines {
            println!("{}{line}", if options.remove { "removed " } else { "" });
        }
        if lines.is_empty() {
            println!("no export that the kernel has");
        }
        Ok(Exit::Well)
    }

    fn json_of_network(&self, found: &Found) -> Value {
        json!({
            "kind": "nvme-tcp",
            "path": found.device,
            "nqn": name_of(&self.uuid),
            "addresses": found.addresses,
            "any_host": found.hosts.is_none(),
            "hosts": found.hosts.as_deref().unwrap_or_default(),
        })
    }
}

fn json_of_disk(disk: &Summary) -> Value {
    json!({ "kind": "ublk", "path": node(disk.number), "state": state_of(disk), "process": disk.process })
}

fn state_of(disk: &Summary) -> &'static str {
    match disk.state {
        State::Dead => "stopped",
        State::Live => "served",
        State::Quiesced => "waiting",
        State::Other(_) => "unknown",
    }
}
