//! `zoneweave export`: lists the exports of an array, adds one, or removes one; `array.toml` keeps them for the next server.
//!
//! NBD and the sockets of virtual machines are the server's. Disks of this host (ublk) and volumes on the network (NVMe/TCP) are the
//! kernel's, and outlive it.

use crate::cli::{BlockSizeChoice, Export};
use crate::directory::Directory;
use crate::exit::{Exit, in_words as in_words_of};
use crate::exports::host_disk::mark;
use crate::exports::node_names;
use crate::exports::nvme_tcp::{self, Found, carry_out, find, name_of, standard, steps_of_removal};
use crate::exports::served::ServedExport;
use crate::exports::table::{ExportList, ExportTable};
use crate::exports::wanted::{NO_DISK, NetworkExport, block_size_of, hosts_of};
use crate::md::description::{self, Description};
use crate::replace::ask_at_until_done;
use crate::status;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};
use server::Listen;
use server::ublk::{Control, ControlError, NVMET, State, Summary, node, stop_unless_used};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Lists exports, or changes one.
pub fn run(options: &Export) -> Result<Exit> {
    let array = ExportedArray::open(&options.dir)?;
    let before = Exports::of(&array)?;
    let Some(table) = table_of(options)? else {
        if options.remove {
            let said =
                "--remove wants what to remove: --nbd ADDRESS, --vhost-user PATH, --ublk or --nvme-tcp";
            return Err(Exit::Usage.error(said));
        }
        return print(before.all(), "exports", options.json);
    };
    let is_its = |export: &Value| is_of(export, &table, &options.dir);
    if options.remove {
        remove(&array, &before, &table, options)?;
        let gone = before.all().into_iter().filter(is_its).collect();
        return if options.dry_run { Ok(Exit::Well) } else { print(gone, "removed", options.json) };
    }
    make(&array, &before, &table, options)?;
    if options.dry_run {
        return Ok(Exit::Well);
    }
    let made = Exports::of(&ExportedArray::open(&options.dir)?)?.all();
    if let (ExportTable::NvmeTcp { address, .. }, false) = (&table, options.json) {
        println!("{}", connect_line(&before.uuid, *address));
    }
    print(made.into_iter().filter(is_its).collect(), "exports", options.json)
}

/// The export that the options name.
fn table_of(options: &Export) -> Result<Option<ExportTable>> {
    let block_size = block_size_of(options.block_size.unwrap_or(BlockSizeChoice::Whole));
    if let Some(path) = &options.vhost_user {
        let path = std::path::absolute(path).context("--vhost-user")?;
        return Ok(Some(ExportTable::VhostUser { path, block_size }));
    }
    if options.ublk {
        return Ok(Some(ExportTable::Ublk { block_size }));
    }
    if let Some(listen) = &options.nbd {
        if let Listen::Tcp(address) = listen
            && address.port() == 0
        {
            return Err(
                Exit::Usage.error(format!("--nbd {listen}: port 0 is another one each time; name one"))
            );
        }
        let listen = match listen {
            Listen::Unix(path) => Listen::Unix(std::path::absolute(path).context("--nbd")?),
            place @ Listen::Tcp(_) => place.clone(),
        };
        return Ok(Some(ExportTable::Nbd { name: None, listen: Some(listen.to_string()) }));
    }
    let Some(address) = options.nvme_tcp else { return Ok(None) };
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
    let Some(address) = address.or(options.remove.then_some(unspecified)) else {
        return Err(Exit::Usage.error("--nvme-tcp wants an address to listen on, such as 192.0.2.5:4420"));
    };
    if !options.remove {
        hosts_of(&options.allow_host, options.allow_any_host)?;
    }
    Ok(Some(ExportTable::NvmeTcp {
        address,
        hosts: options.allow_host.clone(),
        any_host: options.allow_any_host,
    }))
}

/// Makes an export, now if the array is served, and writes it down.
fn make(array: &ExportedArray, before: &Exports, table: &ExportTable, options: &Export) -> Result<()> {
    if let ExportTable::NvmeTcp { address, hosts, any_host } = table {
        let is_kept = array.list.0.iter().any(|own| matches!(own, ExportTable::Ublk { .. }));
        let network = NetworkExport { address: *address, hosts: hosts_of(hosts, *any_host)? };
        match before.disks.first() {
            Some(disk) => nvme_tcp::make(&before.uuid, &node(disk.number), &network, options.dry_run)?,
            None if !is_kept || options.dry_run || before.served.is_some() => {
                return Err(Exit::Absent.error(NO_DISK));
            }
            None => {}
        }
    }
    if options.dry_run { Ok(()) } else { array.change("export", table) }
}

/// Removes an export, now if the array is served, and from what is written down.
fn remove(array: &ExportedArray, before: &Exports, table: &ExportTable, options: &Export) -> Result<()> {
    if let ExportTable::NvmeTcp { .. } = table {
        carry_out(&steps_of_removal(Path::new(NVMET), &before.uuid), options.dry_run)?;
    }
    let ExportTable::Ublk { .. } = table else {
        return if options.dry_run { Ok(()) } else { array.change("unexport", table) };
    };
    let Some(mut control) = open_control()? else { return array.change("unexport", table) };
    for disk in before.disks.iter().filter(|disk| disk.state != State::Live) {
        remove_orphan(&mut control, disk, options.force)?;
    }
    array.change("unexport", table)?;
    for disk in control.marked(mark(&array.uuid))? {
        remove_orphan(&mut control, &disk, options.force)?;
    }
    Ok(())
}

/// Removes a disk whose server is gone, or has let go of it.
fn remove_orphan(control: &mut Control, disk: &Summary, forced: bool) -> Result<()> {
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
    control.remove(disk.number)?;
    node_names::forget(disk.number);
    Ok(())
}

/// The interface of disks of this host; without the driver there is none.
fn open_control() -> Result<Option<Control>> {
    match Control::open() {
        Err(ControlError::NoDriver) => Ok(None),
        control => control.map(Some).map_err(|error| Exit::Failed.because(error)),
    }
}

fn connect_line(uuid: &str, address: SocketAddr) -> String {
    format!("nvme connect -t tcp -a {} -s {} -n {}", address.ip(), address.port(), name_of(uuid))
}

/// An array of either engine, as far as exports go.
struct ExportedArray {
    dir: PathBuf,
    uuid: String,
    list: ExportList,
}

impl ExportedArray {
    fn open(dir: &Path) -> Result<ExportedArray> {
        let (uuid, list) = if description::is_in(dir) {
            let Description { uuid, export, .. } = Description::open(dir)?;
            (uuid, export)
        } else {
            let file = Directory::open(dir)?.file;
            (file.uuid.to_string(), file.export)
        };
        Ok(ExportedArray { dir: dir.to_owned(), uuid, list })
    }

    fn control_path(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    /// Has the server make a change and write it down; without one it is written down here.
    fn change(&self, verb: &str, table: &ExportTable) -> Result<()> {
        let line = format!("{verb} {}", serde_json::to_string(table)?);
        if ask_at_until_done::<()>(&self.control_path(), "array", &line)?.is_some() {
            return Ok(());
        }
        let mut list = self.list.clone();
        match verb {
            "export" => list.put(&self.dir, table.clone()),
            _ => list.take_away(&self.dir, table),
        }
        if list == self.list {
            return Ok(());
        }
        if description::is_in(&self.dir) {
            return Description::record_exports(&self.dir, &list);
        }
        let mut directory = Directory::open(&self.dir)?;
        directory.file.export = list;
        directory.save()
    }
}

/// Exports of an array: those that are there, and those that come with its server.
struct Exports {
    uuid: String,
    disks: Vec<Summary>,
    network: Option<Found>,
    /// Exports that the server reports, if there is one.
    served: Option<Vec<ServedExport>>,
    dir: PathBuf,
    list: ExportList,
}

impl Exports {
    fn of(array: &ExportedArray) -> Result<Exports> {
        let mut control = open_control()?;
        let disks = control.as_mut().map(|control| control.marked(mark(&array.uuid))).transpose()?;
        Exports::with(array, disks.unwrap_or_default())
    }

    /// Exports without what only the kernel says of disks, where it does not answer this user.
    fn as_far_as_seen(array: &ExportedArray) -> Result<Exports> {
        Exports::of(array).or_else(|_| Exports::with(array, Vec::new()))
    }

    /// Exports with the disks that the kernel has.
    fn with(array: &ExportedArray, disks: Vec<Summary>) -> Result<Exports> {
        let served = status::ask_at(&array.control_path(), "exports")?;
        let served = served.map(|served| serde_json::from_str(&served)).transpose();
        let uuid = standard(&array.uuid);
        Ok(Exports {
            disks,
            network: find(Path::new(NVMET), &uuid),
            served: served.context("the server's answer")?,
            uuid,
            dir: array.dir.clone(),
            list: array.list.clone(),
        })
    }

    /// All of them, as JSON tells of them.
    fn all(&self) -> Vec<Value> {
        let has_kernels = !self.disks.is_empty();
        let is_told_twice =
            |export: &&ServedExport| has_kernels && matches!(export, ServedExport::Ublk { .. });
        let served = self.served.iter().flatten().filter(|export| !is_told_twice(export)).map(json_of_served);
        let disks = self.disks.iter().map(|disk| self.json_of_disk(disk));
        let network = self.network.iter().map(|found| self.json_of_network(found));
        let mut all: Vec<Value> = served.chain(disks).chain(network).collect();
        for table in &self.list.0 {
            if !all.iter().any(|export| is_of(export, table, &self.dir)) {
                all.extend(json_of_absent(table, &self.dir));
            }
        }
        all
    }

    /// A disk as the kernel has it, with what its server knows besides.
    fn json_of_disk(&self, disk: &Summary) -> Value {
        let state = match disk.state {
            State::Dead => "stopped",
            State::Live => "served",
            State::Quiesced => "waiting",
            State::Other(_) => "unknown",
        };
        let own = node(disk.number);
        let mut told = json!({ "kind": "ublk", "path": own, "state": state, "process": disk.process });
        for export in self.served.iter().flatten() {
            if let ServedExport::Ublk { path, block_size, .. } = export
                && *path == own
            {
                told["block_size"] = json!(block_size);
            }
        }
        told
    }

    fn json_of_network(&self, found: &Found) -> Value {
        json!({
            "kind": "nvme-tcp",
            "path": found.device,
            "nqn": name_of(&self.uuid),
            "addresses": found.addresses,
            "any_host": found.hosts.is_none(),
            "hosts": found.hosts.as_deref().unwrap_or_default(),
            "state": "served",
        })
    }
}

fn json_of_served(export: &ServedExport) -> Value {
    match export {
        ServedExport::Nbd { listen, uri, connections } => json!({
            "kind": "nbd",
            "path": listen,
            "uri": uri,
            "connections": connections,
            "state": "served",
        }),
        ServedExport::VhostUser { path, block_size, connected } => json!({
            "kind": "vhost-user",
            "path": path,
            "block_size": block_size,
            "connections": usize::from(*connected),
            "state": if *connected { "connected" } else { "served" },
        }),
        ServedExport::Ublk { path, block_size, state } => {
            json!({ "kind": "ublk", "path": path, "block_size": block_size, "state": state })
        }
    }
}

/// An export that comes with the next server.
fn json_of_absent(table: &ExportTable, dir: &Path) -> Option<Value> {
    let state = "not served";
    Some(match table {
        ExportTable::Nbd { listen, .. } => {
            json!({ "kind": "nbd", "path": listen.as_ref()?, "state": state })
        }
        ExportTable::VhostUser { path, block_size } => json!({
            "kind": "vhost-user",
            "path": dir.join(path),
            "block_size": block_size.bytes(),
            "state": state,
        }),
        ExportTable::Ublk { .. } => json!({ "kind": "ublk", "state": state }),
        ExportTable::NvmeTcp { address, hosts, any_host } => json!({
            "kind": "nvme-tcp",
            "addresses": [address.to_string()],
            "any_host": any_host,
            "hosts": hosts,
            "state": state,
        }),
    })
}

/// True of an export in the place of a table.
fn is_of(export: &Value, table: &ExportTable, dir: &Path) -> bool {
    let is_at = |path: &str| export["path"] == path;
    match (export["kind"].as_str(), table) {
        (Some("nbd"), ExportTable::Nbd { listen: Some(listen), .. }) => is_at(listen),
        (Some("vhost-user"), ExportTable::VhostUser { path, .. }) => {
            std::path::absolute(dir.join(path)).is_ok_and(|path| path.to_str().is_some_and(is_at))
        }
        (Some("ublk"), ExportTable::Ublk { .. }) | (Some("nvme-tcp"), ExportTable::NvmeTcp { .. }) => true,
        _ => false,
    }
}

/// State of an array with its exports.
#[derive(Serialize)]
pub struct WithExports<T> {
    #[serde(flatten)]
    state: T,
    /// As `zoneweave export --json` has them, each with its size.
    exports: Vec<Value>,
}

impl<T> WithExports<T> {
    /// Exports of the array in a directory, as far as this user may see them, beside its state.
    pub fn of(dir: &Path, size_bytes: u64, state: T) -> WithExports<T> {
        let seen = ExportedArray::open(dir).and_then(|array| Exports::as_far_as_seen(&array));
        let mut exports = match seen {
            Ok(exports) => exports.all(),
            Err(error) => {
                log::warn!("its exports cannot be told: {}", in_words_of(&error));
                Vec::new()
            }
        };
        exports.iter_mut().for_each(|export| export["size_bytes"] = json!(size_bytes));
        WithExports { state, exports }
    }

    /// A line for each export.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.exports.iter().map(in_words)
    }
}

fn print(exports: Vec<Value>, name: &str, is_json: bool) -> Result<Exit> {
    if is_json {
        println!("{}", json!({ name: exports }));
        return Ok(Exit::Well);
    }
    for export in &exports {
        match name {
            "removed" => println!("removed {}", words_of(export)),
            _ => println!("{}", in_words(export)),
        }
    }
    if exports.is_empty() {
        println!("{}", if name == "removed" { "there was none" } else { "no exports" });
    }
    Ok(Exit::Well)
}

fn in_words(export: &Value) -> String {
    let state = export["state"].as_str().unwrap_or_default();
    let process = export["process"].as_i64().map_or(String::new(), |process| format!(" (process {process})"));
    let connections = match export["connections"].as_u64() {
        None => String::new(),
        Some(1) => ", 1 connection".to_owned(),
        Some(count) => format!(", {count} connections"),
    };
    format!("{}: {state}{process}{connections}", words_of(export))
}

fn words_of(export: &Value) -> String {
    let text = |key: &str| export[key].as_str().unwrap_or_default().to_owned();
    let list = |key: &str| {
        let words = export[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(", ")
    };
    if text("kind") != "nvme-tcp" {
        return format!("{} {}", text("kind"), text("path")).trim_end().to_owned();
    }
    let hosts = if export["any_host"] == true { "any host".to_owned() } else { list("hosts") };
    let of =
        if export["nqn"].is_null() { String::new() } else { format!("{} of {} ", text("nqn"), text("path")) };
    format!("nvme-tcp {} {of}for {hosts}", list("addresses"))
}
