//! What a server exports: by its options, and by the tables of `array.toml`. Options come first; both may name the same place.

use super::table::{ExportList, ExportTable};
use crate::cli::{BlockSizeChoice, ServiceOptions};
use crate::exit::Exit;
use anyhow::{Context, Result};
use server::Listen;
use server::listen::ListenParseError;
use server::vhost::block::BlockSize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Exports of one server. NBD is always among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Addresses for NBD clients; the first one is announced.
    pub nbd: Vec<Listen>,
    /// Sockets for virtual machines.
    pub guests: Vec<(PathBuf, BlockSize)>,
    /// The disk of this host.
    pub disk: Option<BlockSize>,
    /// The volume on the network.
    pub network: Option<NetworkExport>,
}

/// Volume on the network, on top of the disk of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkExport {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Qualified names of hosts that may connect; `None` is any.
    pub hosts: Option<Vec<String>>,
}

/// Block size that was chosen.
pub fn block_size_of(choice: BlockSizeChoice) -> BlockSize {
    match choice {
        BlockSizeChoice::Small => BlockSize::Small,
        BlockSizeChoice::Whole => BlockSize::Whole,
    }
}

impl Wanted {
    /// Exports of an array in a directory.
    ///
    /// # Errors
    /// When tables or options do not fit together.
    pub fn of(dir: &Path, options: &ServiceOptions, list: &ExportList) -> Result<Wanted> {
        let block_size = block_size_of(options.block_size);
        let usual = || std::path::absolute(dir.join("nbd.sock")).map(Listen::Unix);
        let first = options.listen.clone().map_or_else(usual, Ok).context("the array's directory")?;
        let mut wanted = Wanted {
            nbd: vec![first],
            guests: Vec::new(),
            disk: options.ublk.then_some(block_size),
            network: None,
        };
        for path in &options.vhost_user {
            let path = std::path::absolute(path).context("the socket of a virtual machine")?;
            if wanted.guests.iter().any(|(own, _)| *own == path) {
                return Err(Exit::Usage.error(format!("--vhost-user {}: is given twice", path.display())));
            }
            wanted.guests.push((path, block_size));
        }
        list.0.iter().try_for_each(|table| wanted.add(dir, table))?;
        if wanted.network.is_some() && wanted.disk.is_none() {
            return Err(Exit::Usage.error(NO_DISK));
        }
        Ok(wanted)
    }

    fn add(&mut self, dir: &Path, table: &ExportTable) -> Result<()> {
        match table {
            ExportTable::Nbd { listen, .. } => {
                let Some(listen) = listen else { return Ok(()) };
                let place = place_at(dir, listen)?;
                if !self.nbd.contains(&place) {
                    self.nbd.push(place);
                }
            }
            ExportTable::VhostUser { path, block_size } => {
                let path = socket_at(dir, path)?;
                if self.guests.iter().all(|(own, _)| *own != path) {
                    self.guests.push((path, *block_size));
                }
            }
            ExportTable::Ublk { block_size } => {
                self.disk.get_or_insert(*block_size);
            }
            ExportTable::NvmeTcp { address, hosts, any_host } => {
                let hosts = hosts_of(hosts, *any_host)?;
                self.network = Some(NetworkExport { address: *address, hosts });
            }
        }
        Ok(())
    }
}

/// Why there is no volume on the network.
pub const NO_DISK: &str = "nvme-tcp: the kernel's target stands on a disk of this host, and the array is none: \
                           `zoneweave export DIR --ublk` first, or kind = \"ublk\" in array.toml";

/// Address of a table.
pub fn place_at(dir: &Path, listen: &str) -> Result<Listen> {
    Ok(match listen.parse().map_err(|error: ListenParseError| Exit::Usage.because(error))? {
        Listen::Unix(path) => Listen::Unix(socket_at(dir, &path)?),
        place @ Listen::Tcp(_) => place,
    })
}

/// Path of the socket of a table.
pub fn socket_at(dir: &Path, path: &Path) -> Result<PathBuf> {
    let path = dir.join(path);
    std::path::absolute(&path).with_context(|| path.display().to_string())
}

/// Hosts that may connect; `None` is any. Nobody may who is not named, unless that is said.
pub fn hosts_of(hosts: &[String], any_host: bool) -> Result<Option<Vec<String>>> {
    match (hosts, any_host) {
        ([], true) => return Ok(None),
        ([], false) => {
            return Err(Exit::Usage.error(
                "nvme-tcp: name the hosts that may connect, with --allow-host NQN (a host's is in /etc/nvme/hostnqn), or \
                 --allow-any-host; in array.toml with hosts, or any_host = true",
            ));
        }
        (_, true) => {
            return Err(Exit::Usage.error("nvme-tcp: hosts are named, and any_host is true: leave one away"));
        }
        (_, false) => {}
    }
    match hosts.iter().find(|host| !host.starts_with("nqn.") || host.contains('/')) {
        Some(host) => Err(Exit::Usage.error(format!(
            "nvme-tcp: {host} is no NVMe qualified name, such as nqn.2014-08.org.nvmexpress:uuid:..."
        ))),
        None => Ok(Some(hosts.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: ServiceOptions,
    }

    fn wanted(options: &[&str], tables: Vec<ExportTable>) -> Result<Wanted> {
        let line = Line::try_parse_from([&["serve"], options].concat()).unwrap();
        Wanted::of(Path::new("/srv/a"), &line.options, &ExportList(tables))
    }

    fn machine(path: &str) -> ExportTable {
        ExportTable::VhostUser { path: path.into(), block_size: BlockSize::Small }
    }

    const UBLK: ExportTable = ExportTable::Ublk { block_size: BlockSize::Small };

    #[test]
    fn options_come_before_tables() {
        let nbd = ExportTable::Nbd { name: None, listen: Some("tcp:127.0.0.1:1".to_owned()) };
        let tables = vec![nbd, machine("vm.sock"), machine("/run/other.sock"), UBLK];
        let found = wanted(&["--vhost-user", "/srv/a/vm.sock", "--ublk"], tables.clone()).unwrap();
        let place = |text: &str| text.parse::<Listen>().unwrap();
        assert_eq!(found.nbd, [place("unix:/srv/a/nbd.sock"), place("tcp:127.0.0.1:1")]);
        let guests = [("/srv/a/vm.sock", BlockSize::Whole), ("/run/other.sock", BlockSize::Small)];
        assert_eq!(found.guests, guests.map(|(path, size)| (PathBuf::from(path), size)));
        assert_eq!(found.disk, Some(BlockSize::Whole));
        let plain = wanted(&["--listen", "tcp:127.0.0.1:1"], tables).unwrap();
        assert_eq!(plain.nbd, [place("tcp:127.0.0.1:1")]);
        assert_eq!(plain.disk, Some(BlockSize::Small));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let network = |hosts: &[&str], any_host| ExportTable::NvmeTcp {
            address: "192.0.2.5:4420".parse().unwrap(),
            hosts: hosts.iter().copied().map(str::to_owned).collect(),
            any_host,
        };
        let refused = |tables| wanted(&[], tables).unwrap_err().to_string();
        assert!(refused(vec![network(&[], true)]).contains("--ublk` first"));
        assert!(refused(vec![UBLK, network(&[], false)]).contains("any_host = true"));
        assert!(refused(vec![UBLK, network(&["nqn.a"], true)]).contains("leave one away"));
        assert!(refused(vec![UBLK, network(&["me"], false)]).contains("no NVMe qualified name"));
        let nowhere = ExportTable::Nbd { name: None, listen: Some("127.0.0.1".to_owned()) };
        assert!(refused(vec![nowhere]).contains("is not a place to listen"));
        let twice = wanted(&["--vhost-user", "a", "--vhost-user", "./a"], vec![]);
        assert!(twice.unwrap_err().to_string().contains("given twice"));
        let open = wanted(&[], vec![UBLK, network(&[], true)]).unwrap();
        assert_eq!(open.network.unwrap().hosts, None);
    }
}
