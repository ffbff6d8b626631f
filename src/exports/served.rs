//! Exports of an array that is served: opened at the start, and changed when somebody asks (`export`).

use super::host_disk;
use super::nvme_tcp;
use super::table::{ExportList, ExportTable};
use super::wanted::{NO_DISK, Wanted, hosts_of, place_at, socket_at};
use crate::exit::Exit;
use crate::replace::Attempt;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use server::listen::BindError;
use server::ports::DiskState;
use server::ublk::{self, Attached};
use server::vhost::block::{BlockSize, SERIAL_BYTES};
use server::{GuestPort, Listen, Listener, Ports};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Sockets of a server that is about to begin.
pub struct Sockets {
    /// For NBD clients; the first one is announced.
    pub nbd: Vec<Listener>,
    /// For front ends of virtual machines.
    pub guests: Vec<GuestPort>,
}

/// Listens on every socket that is wanted, and looks whether there can be a disk of this host.
pub fn listen(wanted: &Wanted) -> Result<Sockets> {
    if wanted.disk.is_some() {
        host_disk::open_control()?;
    }
    let nbd = wanted.nbd.iter().map(bind).collect::<Result<_>>()?;
    let guest = |(path, block_size): &(PathBuf, BlockSize)| {
        Ok(GuestPort { listener: bind(&Listen::Unix(path.clone()))?, block_size: *block_size })
    };
    Ok(Sockets { nbd, guests: wanted.guests.iter().map(guest).collect::<Result<_>>()? })
}

/// A place that is wrong or taken is so the next time, too; an address may come with its network.
fn bind(place: &Listen) -> Result<Listener> {
    place.bind().map_err(|error| match &error {
        BindError::Io { source, .. } if source.kind() == ErrorKind::AddrNotAvailable => {
            Exit::Failed.because(error)
        }
        BindError::InUse(_) | BindError::NotASocket(_) | BindError::Io { .. } => Exit::Usage.because(error),
    })
}

/// Serial number of the disk that virtual machines see, the beginning of the array's UUID: a guest finds it by that.
pub fn serial_of(array: &str) -> [u8; SERIAL_BYTES] {
    let mut serial = [0; SERIAL_BYTES];
    let digits = array.bytes().filter(u8::is_ascii_alphanumeric);
    serial.iter_mut().zip(digits).for_each(|(place, digit)| *place = digit);
    serial
}

/// The array as its exports show it.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Directory of the array.
    pub dir: PathBuf,
    /// UUID of the array.
    pub array: String,
    /// Size of the volume.
    pub size_bytes: u64,
    /// All drives are devices.
    pub on_devices: bool,
    /// Nobody may change it.
    pub is_read_only: bool,
}

/// An export as a server tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ServedExport {
    /// NBD.
    Nbd {
        /// Address.
        listen: String,
        /// URI at which clients find the volume.
        #[serde(default)]
        uri: String,
        /// Clients that are connected.
        #[serde(default)]
        connections: usize,
    },
    /// Disk of virtual machines.
    VhostUser {
        /// Path of the socket.
        path: PathBuf,
        /// Block size that machines see.
        block_size: u32,
        /// A front end is there.
        connected: bool,
    },
    /// Disk of this host.
    Ublk {
        /// Node of the disk.
        path: String,
        /// Block size that this host sees.
        block_size: u32,
        /// starting, served, stopping or failed.
        state: String,
    },
}

/// See the module.
pub struct ServedExports {
    array: Exported,
    ports: Ports,
    /// As `array.toml` has them.
    list: ExportList,
    nbd: Vec<Listen>,
    guests: Vec<(PathBuf, BlockSize)>,
    disk: Option<BlockSize>,
    /// Node of that disk.
    node: String,
    /// Somebody waits for what becomes of a disk.
    awaits_disk: bool,
}

impl ServedExports {
    /// Exports of a server, whose sockets are open. Makes the disk of this host, if it is wanted, and returns it; the volume on the
    /// network follows when the disk is there.
    pub fn begin(
        array: Exported,
        list: ExportList,
        wanted: &Wanted,
        sockets: &Sockets,
    ) -> Result<(ServedExports, Option<Attached>)> {
        let attach = |size| host_disk::attach(&array, size);
        let disk = wanted.disk.map(attach).transpose()?;
        if let Some(network) = wanted.network.clone() {
            nvme_tcp::make_when_disk_is_there(array.array.clone(), network)?;
        }
        let exports = ServedExports {
            array,
            ports: Ports::default(),
            list,
            nbd: sockets.nbd.iter().map(|listener| listener.place().clone()).collect(),
            guests: wanted.guests.clone(),
            disk: wanted.disk,
            node: disk.as_ref().map(node_of).unwrap_or_default(),
            awaits_disk: false,
        };
        Ok((exports, disk))
    }

    /// Directory of the array.
    pub fn dir(&self) -> &Path {
        &self.array.dir
    }

    /// Ports of the service.
    pub fn ports(&self) -> Ports {
        self.ports.clone()
    }

    /// The service is over: a disk that it has stopped is removed.
    pub fn end(&self) {
        if self.disk.is_some() {
            host_disk::remove_stopped(&self.array.array);
        }
    }

    /// Answers a question about exports; another one is none of ours. `record` writes the tables down.
    pub fn answer(
        &mut self,
        question: &str,
        rest: &str,
        record: impl FnOnce(&ExportList) -> Result<()>,
    ) -> Option<Result<String>> {
        let answered = match question {
            "exports" => serde_json::to_string(&self.served()).context("exports"),
            "export" => self.change(rest, record, ServedExports::open),
            "unexport" => self.change(rest, record, ServedExports::close),
            _ => return None,
        };
        Some(answered)
    }

    /// Exports that are open.
    fn served(&self) -> Vec<ServedExport> {
        let nbd = self.nbd.iter().map(|place| ServedExport::Nbd {
            listen: place.to_string(),
            uri: place.uri(self.list.name()),
            connections: self.ports.clients_at(place),
        });
        let guests = self.guests.iter().map(|(path, size)| ServedExport::VhostUser {
            path: path.clone(),
            block_size: size.bytes(),
            connected: self.ports.is_occupied(&Listen::Unix(path.clone())),
        });
        let state = match self.ports.disk() {
            DiskState::Absent | DiskState::Starting => "starting",
            DiskState::Open | DiskState::Kept(_) => "served",
            DiskState::Stopping => "stopping",
            DiskState::Failed(_) => "failed",
        };
        let disk = self.disk.map(|size| ServedExport::Ublk {
            path: self.node.clone(),
            block_size: size.bytes(),
            state: state.to_owned(),
        });
        nbd.chain(guests).chain(disk).collect()
    }

    /// Makes a change, and records it when it is made.
    fn change(
        &mut self,
        table: &str,
        record: impl FnOnce(&ExportList) -> Result<()>,
        make: impl FnOnce(&mut ServedExports, &ExportTable) -> Result<Attempt<ExportList>>,
    ) -> Result<String> {
        let table: ExportTable = serde_json::from_str(table).context("an export, as JSON")?;
        let attempt = match make(self, &table)? {
            Attempt::Busy => Attempt::Busy,
            Attempt::Done(list) => {
                if list != self.list {
                    record(&list)?;
                    self.list = list;
                }
                Attempt::Done(())
            }
        };
        Ok(serde_json::to_string(&attempt)?)
    }

    /// Opens an export. It is no error that it is open.
    fn open(&mut self, table: &ExportTable) -> Result<Attempt<ExportList>> {
        match table {
            ExportTable::Nbd { listen: None, .. } => {}
            ExportTable::Nbd { listen: Some(listen), .. } => {
                let place = place_at(&self.array.dir, listen)?;
                if !self.nbd.contains(&place) {
                    self.ports.open_clients(bind(&place)?);
                    self.nbd.push(place);
                }
            }
            ExportTable::VhostUser { path, block_size } => self.open_guests(path, *block_size)?,
            ExportTable::Ublk { block_size } => {
                if !self.open_disk(*block_size)? {
                    return Ok(Attempt::Busy);
                }
            }
            ExportTable::NvmeTcp { hosts, any_host, .. } => {
                hosts_of(hosts, *any_host)?;
                if self.disk.is_none() {
                    return Err(Exit::Absent.error(NO_DISK));
                }
            }
        }
        let mut list = self.list.clone();
        list.put(&self.array.dir, table.clone());
        Ok(Attempt::Done(list))
    }

    fn open_guests(&mut self, path: &Path, block_size: BlockSize) -> Result<()> {
        let path = socket_at(&self.array.dir, path)?;
        if let Some((_, size)) = self.guests.iter().find(|(own, _)| *own == path) {
            return expect_same(*size, block_size, &format!("--vhost-user {}", path.display()));
        }
        let listener = bind(&Listen::Unix(path.clone()))?;
        self.ports.open_guests(GuestPort { listener, block_size });
        self.guests.push((path, block_size));
        Ok(())
    }

    /// True when the disk is there; until then somebody has to ask again.
    fn open_disk(&mut self, block_size: BlockSize) -> Result<bool> {
        if let Some(size) = self.disk {
            expect_same(size, block_size, "--ublk")?;
        }
        match self.ports.disk() {
            DiskState::Starting | DiskState::Stopping => Ok(false),
            DiskState::Open | DiskState::Kept(_) => {
                self.awaits_disk = false;
                Ok(true)
            }
            DiskState::Failed(why) if std::mem::take(&mut self.awaits_disk) => {
                self.disk = None;
                Err(Exit::Failed
                    .error(format!("the kernel does not make the disk: {why}; it may say more (dmesg)")))
            }
            DiskState::Absent | DiskState::Failed(_) => {
                let attached = host_disk::attach(&self.array, block_size)?;
                self.node = node_of(&attached);
                self.ports.open_disk(attached);
                (self.disk, self.awaits_disk) = (Some(block_size), true);
                Ok(false)
            }
        }
    }

    /// Closes an export. It is no error that there is none.
    fn close(&mut self, table: &ExportTable) -> Result<Attempt<ExportList>> {
        match table {
            ExportTable::Nbd { listen: None, .. } | ExportTable::NvmeTcp { .. } => {}
            ExportTable::Nbd { listen: Some(listen), .. } => {
                let place = place_at(&self.array.dir, listen)?;
                if self.nbd.contains(&place) {
                    self.ports.close(&place);
                    self.nbd.retain(|own| *own != place);
                }
            }
            ExportTable::VhostUser { path, .. } => self.close_guests(path)?,
            ExportTable::Ublk { .. } => {
                if !self.close_disk()? {
                    return Ok(Attempt::Busy);
                }
            }
        }
        let mut list = self.list.clone();
        list.take_away(&self.array.dir, table);
        Ok(Attempt::Done(list))
    }

    fn close_guests(&mut self, path: &Path) -> Result<()> {
        let path = socket_at(&self.array.dir, path)?;
        let place = Listen::Unix(path.clone());
        if self.ports.is_occupied(&place) {
            let said = format!(
                "{}: a virtual machine is connected; shut it down, or unplug the disk there, first",
                path.display()
            );
            return Err(Exit::Busy.error(said));
        }
        if self.guests.iter().any(|(own, _)| *own == path) {
            self.ports.close(&place);
            self.guests.retain(|(own, _)| *own != path);
        }
        Ok(())
    }

    /// True when the service has let go of the disk; until then somebody has to ask again.
    fn close_disk(&mut self) -> Result<bool> {
        if self.list.0.iter().any(|own| matches!(own, ExportTable::NvmeTcp { .. })) {
            let said =
                "the volume is on the network by its disk: `zoneweave export DIR --nvme-tcp --remove` first";
            return Err(Exit::Busy.error(said));
        }
        match self.ports.disk() {
            DiskState::Starting | DiskState::Stopping => Ok(false),
            DiskState::Kept(why) if std::mem::take(&mut self.awaits_disk) => {
                Err(Exit::Busy.error(format!("the disk of this host stays: {why}")))
            }
            DiskState::Open | DiskState::Kept(_) => {
                self.awaits_disk = true;
                self.ports.close_disk();
                Ok(false)
            }
            DiskState::Absent | DiskState::Failed(_) => {
                (self.disk, self.awaits_disk) = (None, false);
                Ok(true)
            }
        }
    }
}

fn node_of(disk: &Attached) -> String {
    ublk::node(disk.device.number)
}

fn expect_same(there: BlockSize, asked: BlockSize, what: &str) -> Result<()> {
    if there == asked {
        return Ok(());
    }
    Err(Exit::Busy.error(format!(
        "{what}: is there with blocks of {} bytes; remove it first to have it with {}",
        there.bytes(),
        asked.bytes()
    )))
}
