//! Exports of an array as `array.toml` has them: `export = "NAME"` where there is NBD at its usual place only, else `[[export]]`.
//!
//! ```toml
//! [[export]]
//! kind = "nbd"                            # name, listen: both may be left out
//! name = "zoneweave"
//! listen = "tcp:127.0.0.1:10809"          # beside unix:DIR/nbd.sock, which is always there
//! [[export]]
//! kind = "vhost-user"
//! path = "/run/zoneweave/vm.sock"
//! [[export]]
//! kind = "ublk"
//! block_size = 512                        # 4096 where nothing is said
//! [[export]]
//! kind = "nvme-tcp"
//! address = "192.0.2.5:4420"
//! hosts = ["nqn.2014-08.org.nvmexpress:uuid:..."]      # or any_host = true
//! ```

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use server::vhost::block::BlockSize;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Name of a volume that was given none.
pub const STANDARD_NAME: &str = "zoneweave";

/// Export.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ExportTable {
    /// NBD, at one more address or under one more name.
    Nbd {
        /// Name that clients may ask for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Address, as `--listen` takes it; relative paths start at the array's directory. It is looked up when it is used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        listen: Option<String>,
    },
    /// Disk of virtual machines.
    VhostUser {
        /// Path of the socket; relative paths start at the array's directory.
        path: PathBuf,
        /// Block size that the machine sees.
        #[serde(default, skip_serializing_if = "is_standard", with = "block_size_in_bytes")]
        block_size: BlockSize,
    },
    /// Disk of this host.
    Ublk {
        /// Block size that this host sees.
        #[serde(default, skip_serializing_if = "is_standard", with = "block_size_in_bytes")]
        block_size: BlockSize,
    },
    /// Volume on the network by the kernel's target, on top of the disk of this host.
    NvmeTcp {
        /// Address to listen on.
        address: SocketAddr,
        /// Qualified names of hosts that may connect.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<String>,
        /// Any host may.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        any_host: bool,
    },
}

impl ExportTable {
    /// True of two tables of an array in a directory for the same place.
    fn is_at_the_place_of(&self, dir: &Path, other: &ExportTable) -> bool {
        match (self, other) {
            (ExportTable::Nbd { listen: own, .. }, ExportTable::Nbd { listen: other, .. }) => own == other,
            (ExportTable::VhostUser { path: own, .. }, ExportTable::VhostUser { path: other, .. }) => {
                dir.join(own) == dir.join(other)
            }
            (ExportTable::Ublk { .. }, ExportTable::Ublk { .. })
            | (ExportTable::NvmeTcp { .. }, ExportTable::NvmeTcp { .. }) => true,
            _ => false,
        }
    }
}

/// Exports of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportList(pub Vec<ExportTable>);

impl ExportList {
    /// NBD at its usual place, under a name.
    pub fn named(name: &str) -> ExportList {
        ExportList(vec![ExportTable::Nbd { name: Some(name.to_owned()), listen: None }])
    }

    /// Names that NBD clients may ask for: at least one.
    pub fn names(&self) -> Vec<&str> {
        fn name(table: &ExportTable) -> Option<&str> {
            match table {
                ExportTable::Nbd { name, .. } => name.as_deref(),
                _ => None,
            }
        }
        let names: Vec<&str> = self.0.iter().filter_map(name).collect();
        if names.is_empty() { vec![STANDARD_NAME] } else { names }
    }

    /// Name that the volume goes by.
    pub fn name(&self) -> &str {
        self.names()[0]
    }

    /// Puts an export into its place, or behind all others.
    pub fn put(&mut self, dir: &Path, table: ExportTable) {
        match self.0.iter_mut().find(|own| own.is_at_the_place_of(dir, &table)) {
            Some(ExportTable::Nbd { .. }) => {}
            Some(own) => *own = table,
            None => self.0.push(table),
        }
    }

    /// Takes away whatever is in the place of an export.
    pub fn take_away(&mut self, dir: &Path, table: &ExportTable) {
        self.0.retain(|own| !own.is_at_the_place_of(dir, table));
    }

    /// The name, if that is all there is.
    fn name_alone(&self) -> Option<&str> {
        match &self.0[..] {
            [ExportTable::Nbd { name: Some(name), listen: None }] => Some(name),
            _ => None,
        }
    }
}

impl Default for ExportList {
    fn default() -> ExportList {
        ExportList::named(STANDARD_NAME)
    }
}

impl Serialize for ExportList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name_alone() {
            Some(name) => serializer.serialize_str(name),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ExportList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExportList, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ExportList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or tables `[[export]]`")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ExportList, E> {
                Ok(ExportList::named(name))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, tables: A) -> Result<ExportList, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(tables)).map(ExportList)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

fn is_standard(block_size: &BlockSize) -> bool {
    *block_size == BlockSize::default()
}

mod block_size_in_bytes {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use server::vhost::block::BlockSize;

    pub(super) fn serialize<S: Serializer>(size: &BlockSize, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(size.bytes())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BlockSize, D::Error> {
        let bytes = u32::deserialize(deserializer)?;
        let size = [BlockSize::Small, BlockSize::Whole].into_iter().find(|size| size.bytes() == bytes);
        size.ok_or_else(|| D::Error::custom(format!("block_size = {bytes}: use 512 or 4096")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct File {
        export: ExportList,
    }

    fn read(text: &str) -> Result<ExportList, String> {
        toml::from_str::<File>(text).map(|file| file.export).map_err(|error| error.to_string())
    }

    const ALL: &str = "[[export]]
kind = \"nbd\"
name = \"data\"
listen = \"tcp:127.0.0.1:10809\"

[[export]]
kind = \"vhost-user\"
path = \"/run/zoneweave/vm.sock\"

[[export]]
kind = \"ublk\"
block_size = 512

[[export]]
kind = \"nvme-tcp\"
address = \"192.0.2.5:4420\"
any_host = true
";

    #[test]
    fn exports_are_read_and_written_as_they_are() {
        for text in ["export = \"data\"\n", ALL] {
            let export = read(text).unwrap();
            assert_eq!(export.names(), ["data"]);
            assert_eq!(toml::to_string(&File { export }).unwrap(), text);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |from: &str, to: &str| read(&ALL.replace(from, to)).unwrap_err();
        assert!(wrong("block_size = 512", "block_size = 1024").contains("use 512 or 4096"));
        assert!(wrong("\"ublk\"", "\"iscsi\"").contains("expected one of `nbd`, `vhost-user`, `ublk`"));
        assert!(wrong("path =", "socket =").contains("unknown field `socket`"));
        assert!(read("export = 7").unwrap_err().contains("a name, or tables `[[export]]`"));
    }

    #[test]
    fn an_export_takes_the_place_of_one_at_its_place() {
        let mut list = read(ALL).unwrap();
        let dir = Path::new("/run/zoneweave");
        list.put(dir, ExportTable::Ublk { block_size: BlockSize::Whole });
        list.put(dir, ExportTable::VhostUser { path: "vm.sock".into(), block_size: BlockSize::Small });
        assert_eq!(list.0.len(), 4);
        list.put(dir, ExportTable::VhostUser { path: "other.sock".into(), block_size: BlockSize::Small });
        assert_eq!(list.0.len(), 5);
        list.take_away(dir, &ExportTable::Ublk { block_size: BlockSize::Small });
        assert_eq!(list.0.len(), 4);
        let mut plain = ExportList::default();
        let listen = Some("tcp:127.0.0.1:1".to_owned());
        let more = ExportTable::Nbd { name: None, listen };
        plain.put(dir, more.clone());
        assert_eq!((plain.0.len(), plain.name()), (2, STANDARD_NAME));
        plain.take_away(dir, &more);
        assert_eq!(plain, ExportList::default());
    }
}
