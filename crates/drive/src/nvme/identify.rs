//! Identify data: what a namespace and its controller say of themselves, and the geometry that follows. Pure.
//!
//! ```text
//!   controller      4 serial   24 model   64 firmware   77 MDTS   525 volatile cache
//!   namespace       0 blocks   25 formats   26 format in use   29 protection   33 DLFEAT   104 NGUID   120 EUI64   128 formats
//!   zoned           2 OZCS   4 MAR   8 MOR   44 NUMZRWA   48 ZRWAFG   50 ZRWASZ   52 ZRWACAP   2816 zone sizes, one for each format        zoned controller   0 ZASL
//! ```

use super::quirk::Quirks;
use base::bytes::{array_at, u16_at, u32_at, u64_at};
use std::fmt;
use zone::device::{Areas, Geometry};

/// Bytes of identify data.
pub type Page = [u8; super::wire::IDENTIFY_BYTES];

/// Most blocks of a transfer. The kernel takes a command apart into pages of 4 KiB, and up to 6.1 refuses more than 127.
const SEGMENTS_MAX: u32 = 127;
/// Of OZCS: zones may have random write areas.
const HAS_AREAS: u8 = 1 << 1;
/// Limit of open or active zones that means there is none.
const NO_LIMIT: u32 = u32::MAX;

/// Controller of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Serial number.
    pub serial: String,
    /// Model.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// Most blocks of a transfer (MDTS); `None` for any number.
    pub transfer_blocks_max: Option<u32>,
    /// Completed writes may be lost on power failure until a flush.
    pub volatile_cache: bool,
}

/// LBA format of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbaFormat {
    /// Data bytes of a block.
    pub block_bytes: u64,
    /// Metadata bytes of a block.
    pub metadata_bytes: u16,
}

impl LbaFormat {
    /// The format that the engine wants.
    pub const WANTED: LbaFormat = LbaFormat { block_bytes: 4096, metadata_bytes: 64 };
}

/// Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Blocks.
    pub blocks: u64,
    /// Formats that the namespace may have.
    pub formats: Vec<LbaFormat>,
    /// Number of the one that it has.
    pub format: usize,
    /// Metadata follow the data of each block (extended LBAs) instead of lying apart.
    pub is_extended: bool,
    /// Kind of protection information, 0 for none.
    pub protection: u8,
    /// What was never written reads as zeros, metadata too (DLFEAT).
    pub reads_zeros: bool,
    /// Globally unique identifier, zeros when there is none.
    pub nguid: [u8; 16],
    /// IEEE identifier, zeros when there is none.
    pub eui64: [u8; 8],
}

/// What is zoned of a namespace in the format that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zoned {
    /// Distance between zones in blocks.
    pub zone_size_blocks: u64,
    /// Most active zones (MAR + 1); `None` for any number.
    pub active_zones_max: Option<u32>,
    /// Most open zones (MOR + 1); `None` for any number.
    pub open_zones_max: Option<u32>,
    /// Random write areas (OZCS).
    pub areas: Option<Areas>,
}

/// All that identify data say of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Controller.
    pub controller: Controller,
    /// Namespace identifier (NSID).
    pub number: u32,
    /// Namespace.
    pub namespace: Namespace,
    /// Zones.
    pub zoned: Zoned,
    /// Most blocks of a Zone Append (ZASL); `None` for as many as of any transfer.
    pub append_blocks_max: Option<u32>,
}

/// Reason why a namespace cannot be a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatProblem {
    /// Blocks of another format; number of the format that is wanted, where there is one.
    Blocks {
        /// Format in use.
        format: LbaFormat,
        /// Metadata lie behind the data of each block.
        is_extended: bool,
        /// Number of the format that is wanted.
        wanted: Option<usize>,
    },
    /// Metadata behind the data of each block of a namespace without zones, for which Linux has no block device then.
    Extended {
        /// Format in use.
        format: LbaFormat,
        /// Number of a format without metadata.
        wanted: Option<usize>,
    },
    /// Metadata are protection information, of which the drive uses a part.
    Protection {
        /// Its type.
        kind: u8,
        /// Number of the format in use.
        format: usize,
    },
    /// Zones of no possible size.
    ZoneSize(u64),
    /// More zones than can be counted.
    ZoneCount(u64),
}

impl fmt::Display for FormatProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatProblem::Blocks {
                format: LbaFormat { block_bytes, metadata_bytes }, is_extended, ..
            } => {
                let how = if *is_extended { ", behind the data of each" } else { "" };
                write!(
                    f,
                    "its blocks have {block_bytes} bytes and {metadata_bytes} bytes of metadata{how}; 4096 and 64, apart, are needed"
                )
            }
            FormatProblem::Extended { format: LbaFormat { block_bytes, metadata_bytes }, .. } => write!(
                f,
                "its blocks have {block_bytes} bytes and {metadata_bytes} bytes of metadata, behind the data of each, and Linux makes \
                 no block device of such: none or apart are needed"
            ),
            FormatProblem::Protection { kind, .. } => {
                write!(f, "its metadata are protection information of type {kind}, and none may be")
            }
            FormatProblem::ZoneSize(blocks) => write!(f, "it says that a zone has {blocks} blocks"),
            FormatProblem::ZoneCount(zones) => write!(f, "it has {zones} zones, more than can be served"),
        }
    }
}

impl FormatProblem {
    /// Command that gives the namespace of a node a format that can be used, where it may have one.
    #[must_use]
    pub fn command(&self, node: &str) -> Option<String> {
        let format = match self {
            FormatProblem::Blocks { wanted, .. } | FormatProblem::Extended { wanted, .. } => *wanted,
            FormatProblem::Protection { format, .. } => Some(*format),
            FormatProblem::ZoneSize(_) | FormatProblem::ZoneCount(_) => None,
        };
        format.map(|number| format!("nvme format {node} --lbaf={number} --ms=0 --pi=0"))
    }

    /// What to do with the namespace of a node.
    #[must_use]
    pub fn remedy(&self, node: &str) -> String {
        match self.command(node) {
            Some(command) => format!("`{command}` formats it so, and all that it holds is lost"),
            None => "it cannot be formatted so: use another drive".to_owned(),
        }
    }

    /// True of blocks with metadata, which cannot be used without them: the kernel's block layer writes there what it likes.
    #[must_use]
    pub fn has_metadata(&self) -> bool {
        match self {
            FormatProblem::Blocks { format, .. } => format.metadata_bytes > 0,
            FormatProblem::Extended { .. } | FormatProblem::Protection { .. } => true,
            FormatProblem::ZoneSize(_) | FormatProblem::ZoneCount(_) => false,
        }
    }
}

impl Controller {
    /// Of identify data (CNS 1).
    #[must_use]
    pub fn parse(page: &Page) -> Controller {
        Controller {
            serial: text(&page[4..24]),
            model: text(&page[24..64]),
            firmware: text(&page[64..72]),
            transfer_blocks_max: power_of_two(page[77]),
            volatile_cache: page[525] & 1 == 1,
        }
    }
}

impl Namespace {
    /// Of identify data (CNS 0).
    #[must_use]
    pub fn parse(page: &Page) -> Namespace {
        let in_use = page[26];
        let format_of = |index: usize| {
            let at = 128 + 4 * index;
            let exponent = u32::from(page[at + 2]);
            LbaFormat {
                block_bytes: 1_u64.checked_shl(exponent).unwrap_or(0),
                metadata_bytes: u16_at(page, at),
            }
        };
        Namespace {
            blocks: u64_at(page, 0),
            // The number of formats, less one; there is room for 64.
            formats: (0..=usize::from(page[25]).min(63)).map(format_of).collect(),
            format: usize::from(in_use & 0xf | (in_use >> 1 & 0x30)),
            is_extended: in_use & 0x10 != 0,
            protection: page[29] & 7,
            reads_zeros: page[33] & 7 == 1,
            nguid: array_at(page, 104),
            eui64: array_at(page, 120),
        }
    }

    /// Format that it has.
    #[must_use]
    pub fn format_in_use(&self) -> LbaFormat {
        self.formats.get(self.format).copied().unwrap_or(LbaFormat { block_bytes: 0, metadata_bytes: 0 })
    }

    /// What is wrong with the format of a namespace without zones.
    #[must_use]
    pub fn problem_without_zones(&self) -> Option<FormatProblem> {
        let is_plain = |format: &LbaFormat| *format == LbaFormat { block_bytes: 4096, metadata_bytes: 0 };
        let wanted = self.formats.iter().position(is_plain);
        self.is_extended.then(|| FormatProblem::Extended { format: self.format_in_use(), wanted })
    }
}

impl Zoned {
    /// Of identify data (CNS 5, zoned command set) of a namespace in its format of this number.
    #[must_use]
    pub fn parse(page: &Page, format: usize) -> Zoned {
        let limit = |at| Some(u32_at(page, at)).filter(|limit| *limit != NO_LIMIT).map(|limit| limit + 1);
        Zoned {
            zone_size_blocks: u64_at(page, 2816 + 16 * format.min(63)),
            active_zones_max: limit(4),
            open_zones_max: limit(8),
            areas: (page[2] & HAS_AREAS != 0).then(|| Areas {
                zones_max: u32_at(page, 44).saturating_add(1),
                granule_blocks: u16_at(page, 48).into(),
                window_blocks: u16_at(page, 50).into(),
                explicit_commit: page[52] & 1 == 1,
            }),
        }
    }

    /// Areas that can be used: of windows that are whole granules and leave as much of a zone to be committed by writes.
    fn usable_areas(&self, zone_capacity_blocks: u32, zones: u32, quirks: Quirks) -> Option<Areas> {
        let areas = self.areas?;
        let Areas { window_blocks: window, granule_blocks: granule, .. } = areas;
        let is_whole = |blocks: u32| granule > 0 && blocks.is_multiple_of(granule);
        let fits = is_whole(window) && is_whole(zone_capacity_blocks) && window <= zone_capacity_blocks / 2;
        let zones_max = (areas.zones_max - u32::from(quirks.areas_from_one)).min(zones);
        (window > 0 && fits && zones_max > 0).then_some(Areas { zones_max, ..areas })
    }
}

/// Most blocks of a Zone Append, of identify data of a controller (CNS 6, zoned command set).
#[must_use]
pub fn append_blocks_max(page: &Page) -> Option<u32> {
    power_of_two(page[0])
}

impl Identity {
    /// Zones and limits, with the capacity of its zones, which only a report tells.
    ///
    /// # Errors
    /// When blocks or zones are not such that the engine can use them.
    pub fn geometry(&self, zone_capacity_blocks: u32, quirks: Quirks) -> Result<Geometry, FormatProblem> {
        let Namespace { blocks, is_extended, protection, .. } = self.namespace;
        let format = self.namespace.format_in_use();
        if format != LbaFormat::WANTED || is_extended {
            let wanted = self.namespace.formats.iter().position(|format| *format == LbaFormat::WANTED);
            return Err(FormatProblem::Blocks { format, is_extended, wanted });
        }
        if protection != 0 {
            return Err(FormatProblem::Protection { kind: protection, format: self.namespace.format });
        }
        let zone_size = self.zoned.zone_size_blocks;
        let zone_size_blocks = u32::try_from(zone_size).map_err(|_| FormatProblem::ZoneSize(zone_size))?;
        let count = blocks.checked_div(zone_size).ok_or(FormatProblem::ZoneSize(zone_size))?;
        let zones = u32::try_from(count).map_err(|_| FormatProblem::ZoneCount(count))?;
        let most = self.controller.transfer_blocks_max.unwrap_or(SEGMENTS_MAX).min(SEGMENTS_MAX);
        let append_most = self.append_blocks_max.unwrap_or(most).min(most);
        let active_zones_max = self.zoned.active_zones_max.unwrap_or(zones).min(zones);
        Ok(Geometry {
            zones,
            zone_size_blocks,
            zone_capacity_blocks,
            // What is open is active.
            open_zones_max: self.zoned.open_zones_max.unwrap_or(zones).min(active_zones_max),
            active_zones_max,
            // An append in parts would leave them apart.
            append_blocks_max: quirks.whole_transfer(append_most),
            transfer_blocks_max: most,
            volatile_cache: self.controller.volatile_cache,
            // Only the drive knows which blocks of a window were written.
            areas: self
                .zoned
                .usable_areas(zone_capacity_blocks, zones, quirks)
                .filter(|_| self.namespace.reads_zeros),
        })
    }

    /// Name of the namespace that no other one has and that stays.
    #[must_use]
    pub fn name(&self, quirks: Quirks) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let Namespace { nguid, eui64, .. } = &self.namespace;
        if !quirks.identifiers_repeat {
            if *nguid != [0; 16] {
                return format!("nguid.{}", hex(nguid));
            }
            if *eui64 != [0; 8] {
                return format!("eui.{}", hex(eui64));
            }
        }
        let Controller { model, serial, .. } = &self.controller;
        format!("nvme.{model}-{serial}-{:08x}", self.number)
    }

    /// Identity as a drive, which follows from its name: there is no place for another one.
    #[must_use]
    pub fn uuid(&self, quirks: Quirks) -> [u8; 16] {
        let name = format!("zoneweave:{}", self.name(quirks));
        *uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, name.as_bytes()).as_bytes()
    }
}

/// A field of text, filled up with spaces. What cannot be printed is left out.
fn text(field: &[u8]) -> String {
    let is_shown = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    let text: String = field.iter().filter(is_shown).map(|byte| char::from(*byte)).collect();
    text.trim().to_owned()
}

/// A limit in pages of 4 KiB as an exponent, 0 for none. Beyond a GiB nobody asks.
fn power_of_two(exponent: u8) -> Option<u32> {
    (exponent != 0).then(|| 1 << exponent.min(18))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::bytes::put;

    /// Identify data as QEMU 7.2 has them for a drive with ZASL 5 and MDTS 7, 14 open and active zones of 64 MiB.
    pub(crate) fn pages() -> [Page; 4] {
        let mut controller = [0; 4096];
        put(&mut controller, 4, b"zns0                ");
        put(&mut controller, 24, b"QEMU NVMe Ctrl                          ");
        put(&mut controller, 64, b"7.2.22  ");
        controller[77] = 7;
        controller[525] = 7;
        let mut namespace = [0; 4096];
        put(&mut namespace, 0, &262_144_u64.to_le_bytes());
        namespace[25] = 7;
        namespace[26] = 7;
        put(&mut namespace, 128 + 28, &[64, 0, 12, 0]);
        let mut zoned = [0; 4096];
        put(&mut zoned, 4, &13_u32.to_le_bytes());
        put(&mut zoned, 8, &13_u32.to_le_bytes());
        put(&mut zoned, 2816 + 16 * 7, &16_384_u64.to_le_bytes());
        let mut zoned_controller = [0; 4096];
        zoned_controller[0] = 5;
        [controller, namespace, zoned, zoned_controller]
    }

    fn identity([controller, namespace, zoned, zoned_controller]: &[Page; 4]) -> Identity {
        let namespace = Namespace::parse(namespace);
        Identity {
            controller: Controller::parse(controller),
            number: 1,
            zoned: Zoned::parse(zoned, namespace.format),
            namespace,
            append_blocks_max: append_blocks_max(zoned_controller),
        }
    }

    #[test]
    fn a_drive_of_qemu_is_understood() {
        let found = identity(&pages());
        assert_eq!((&*found.controller.model, &*found.controller.serial), ("QEMU NVMe Ctrl", "zns0"));
        let quirks = Quirks::of(&found.controller);
        assert!(quirks.identifiers_repeat && quirks.metadata_lost);
        let geometry = found.geometry(12_288, quirks).unwrap();
        assert_eq!((geometry.zones, geometry.zone_size_blocks), (16, 16_384));
        assert_eq!((geometry.open_zones_max, geometry.active_zones_max), (14, 14));
        assert_eq!((geometry.append_blocks_max, geometry.transfer_blocks_max), (8, 127));
        assert!(geometry.volatile_cache);
        assert_eq!(found.geometry(12_288, Quirks::default()).unwrap().append_blocks_max, 32);
        assert_eq!(found.name(quirks), "nvme.QEMU NVMe Ctrl-zns0-00000001");
    }

    #[test]
    fn limits_that_are_none_are_the_number_of_zones() {
        let mut pages = pages();
        put(&mut pages[2], 4, &[0xff; 8]);
        pages[0][77] = 0;
        pages[3][0] = 0;
        let geometry = identity(&pages).geometry(12_288, Quirks::default()).unwrap();
        assert_eq!((geometry.open_zones_max, geometry.active_zones_max), (16, 16));
        assert_eq!((geometry.append_blocks_max, geometry.transfer_blocks_max), (127, 127));
    }

    #[test]
    fn areas_are_those_that_can_be_used() {
        let mut pages = pages();
        let areas = |pages: &[Page; 4]| identity(pages).geometry(12_288, Quirks::default()).unwrap().areas;
        put(&mut pages[2], 44, &[3, 0, 0, 0, 4, 0, 16, 0, 1]);
        pages[1][33] = 0x09;
        assert_eq!(areas(&pages), None, "OZCS says that there are none");
        pages[2][2] = 3;
        let found = Areas { zones_max: 4, window_blocks: 16, granule_blocks: 4, explicit_commit: true };
        assert_eq!(areas(&pages), Some(found));
        pages[2][52] = 0;
        assert_eq!(areas(&pages), Some(Areas { explicit_commit: false, ..found }));
        put(&mut pages[2], 44, &[0xff; 4]);
        assert_eq!(areas(&pages).unwrap().zones_max, 16, "as many as there are zones");
        let quirks = Quirks { areas_from_one: true, ..Quirks::default() };
        for (says, zones_max) in [(3, Some(3)), (0, None)] {
            put(&mut pages[2], 44, &[says, 0, 0, 0]);
            let found = identity(&pages).geometry(12_288, quirks).unwrap().areas;
            assert_eq!(found.map(|areas| areas.zones_max), zones_max);
        }
        assert_eq!(identity(&pages).geometry(1, Quirks::default()).unwrap().areas, None, "no room");
        for (granule, window) in [(0, 16), (4, 0), (4, 18), (5, 15), (4, 12_288)] {
            let [granule, window] = [granule, window].map(u16::to_le_bytes);
            put(&mut pages[2], 48, &[granule, window].concat());
            assert_eq!(areas(&pages), None, "{granule:?} {window:?}");
        }
        put(&mut pages[2], 48, &[4, 0, 16, 0]);
        pages[1][33] = 2;
        assert_eq!(areas(&pages), None, "what was never written reads as ones");
    }

    #[test]
    fn other_formats_are_refused_with_the_remedy() {
        let mut pages = pages();
        pages[1][26] = 0;
        put(&mut pages[1], 128, &[0, 0, 9, 0]);
        let problem = |pages: &[Page; 4]| identity(pages).geometry(1, Quirks::default()).unwrap_err();
        let line = "nvme format /dev/nvme0n1 --lbaf=7 --ms=0 --pi=0";
        let found = problem(&pages);
        assert!(found.to_string().contains("512 bytes and 0") && !found.has_metadata(), "{found}");
        assert_eq!(found.command("/dev/nvme0n1").as_deref(), Some(line));
        pages[1][26] = 0x17;
        let found = problem(&pages);
        assert!(found.to_string().contains("behind the data of each") && found.has_metadata(), "{found}");
        assert!(found.remedy("/dev/nvme0n1").contains(line));
        // The same without zones.
        put(&mut pages[1], 128 + 16, &[0, 0, 12, 0]);
        let found = Namespace::parse(&pages[1]).problem_without_zones().unwrap();
        assert!(found.has_metadata() && found.command("/dev/nvme0n1").unwrap().contains("--lbaf=4"));
        pages[1][26] = 7;
        pages[1][29] = 1;
        assert_eq!(problem(&pages), FormatProblem::Protection { kind: 1, format: 7 });
        assert_eq!(problem(&pages).command("/dev/nvme0n1").as_deref(), Some(line));
        pages[1][29] = 0;
        put(&mut pages[2], 2816 + 16 * 7, &0_u64.to_le_bytes());
        assert_eq!(problem(&pages), FormatProblem::ZoneSize(0));
        assert!(problem(&pages).remedy("/dev/nvme0n1").contains("use another drive"));
    }

    #[test]
    fn identifiers_name_a_drive_where_they_are_unique() {
        let mut pages = pages();
        pages[1][120] = 0xab;
        let quirks = Quirks::default();
        assert_eq!(identity(&pages).name(quirks), "eui.ab00000000000000");
        pages[1][119] = 1;
        let found = identity(&pages);
        assert_eq!(found.name(quirks), "nguid.00000000000000000000000000000001");
        assert_eq!(found.uuid(quirks), found.uuid(quirks));
        pages[1][119] = 2;
        assert_ne!(found.uuid(quirks), identity(&pages).uuid(quirks));
    }
}
