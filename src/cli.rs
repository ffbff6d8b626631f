//! What can be typed. Names are a contract: scripts rely on them.

use crate::cache::options::CacheCommand;
use crate::characterise::Characterise;
use crate::contest::Contest;
use crate::create::SPARE_PERCENT;
use crate::drive_list::DriveList;
use crate::exit::{self, Exit};
use crate::experiment::ExperimentRun;
use crate::explain::Explain;
use crate::exports::node_names::UdevName;
use crate::force::{self, Forced};
use crate::lab_cache::LabCache;
use crate::manual::{Completions, Man};
use crate::md::MdCommand;
use crate::md::service::MdService;
use crate::md_cost::MdCost;
use crate::md_speed::MdSpeed;
use crate::probe::Probe;
use crate::qualify::Qualify;
use crate::raw;
use crate::sim::Sim;
use crate::wipe::Wipe;
use anyhow::{Result, bail};
use base::erasure::{PARITIES_MAX, PIECES_MAX};
use base::time::Nanos;
use base::units::{BLOCK_BYTES_U64, parse_bytes};
use clap::{Args, Parser, Subcommand, ValueEnum};
use lab::array_run::Pattern;
use lab::experiment::scheme;
use server::{CORES_MAX, Listen};
use std::net::SocketAddr;
use std::path::PathBuf;
use zone::stripe::Level;
use zone::stripe::table::Packing;

/// Fault-tolerant block storage over zoned flash drives, in user space.
#[derive(Debug, Parser)]
#[command(name = "zoneweave", version, about, after_help = exit::TABLE)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create an array on files if there is none, and serve it
    Up(Up),
    /// Create an array
    Create(Create),
    /// Serve an array in the foreground
    Serve(Serve),
    /// Ask the server of an array or a cache to stop, and wait until it has
    Stop(StopServer),
    /// Show the state of an array, served or not (exit 3 if degraded, 4 if it cannot be mounted)
    Status(Query),
    /// Verify an array that is not served: every checksum, parity, the index (exit 1 if inconsistent)
    Check(Query),
    /// Print what drives say of themselves and their array, in use or not, and whether they agree
    Examine(Examine),
    /// List the arrays whose drives lie in directories
    Scan(Scan),
    /// Write an array's array.toml anew from what its drives say, wherever they are
    Assemble(Assemble),
    /// Remove an array that is not served, with all its data; asks first on a terminal
    Destroy(Destroy),
    /// List the exports of an array, add one or take one away: NBD, virtual machines, this host (ublk), NVMe/TCP; array.toml keeps them
    Export(Export),
    /// Act on a drive of an array
    Drive {
        #[command(subcommand)]
        command: DriveCommand,
    },
    /// Key-value caches for clients of Redis
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Arrays of Linux md, on ordinary drives, partitions and files
    Md {
        #[command(subcommand)]
        command: MdCommand,
    },
    /// Read and verify everything while clients go on (exit 1 if damage is left or a drive was lost)
    ///
    /// Joins the scrub that is running, if one is; without --rate, one is not limited.
    Scrub(Scrub),
    /// Show how far the rebuild of a drive is, wait for its end, or change its speed
    Rebuild(Rebuild),
    /// Measure
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Run the engine on drives that break, in virtual time, and hold every answer against what it may be
    ///
    /// A seed draws an array, its drives and everything that happens; a seed and a commit repeat a run to
    /// the bit. Exit code 1 when a run failed.
    Sim(Sim),
    /// Print the script that completes commands and options in a shell
    Completions(Completions),
    /// Write the manual's pages into a directory, one for each command
    Man(Man),
    /// Print the names of a disk of this host, for udev
    #[command(hide = true)]
    UdevName(UdevName),
}

#[derive(Debug, Args)]
pub struct Up {
    /// Directory of the array
    #[arg(long, default_value = "./zoneweave-data")]
    pub dir: PathBuf,
    /// Engine of a new array
    #[arg(long, value_enum, default_value = "log", value_name = "ENGINE")]
    pub engine: EngineChoice,
    #[command(flatten)]
    pub scheme: Scheme,
    #[command(flatten)]
    pub areas: AreaOptions,
    #[command(flatten)]
    pub service: ServiceOptions,
}

impl Up {
    /// True when a new array is to be of the in-place engine.
    pub fn is_in_place(&self) -> bool {
        self.engine == EngineChoice::Inplace
    }
}

/// Block size of a virtual machine's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BlockSizeChoice {
    /// For guests that boot from nothing else
    #[value(name = "512")]
    Small,
    /// The volume's own
    #[value(name = "4096")]
    Whole,
}

/// Engine of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Log-structured, on emulated zoned drives
    Log,
    /// Parities updated in place, in the format of Linux md, on sparse files
    Inplace,
}

/// Random write areas (ZRWA) of emulated drives.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct AreaOptions {
    /// Window of a zone's random write area (ZRWA) [default: drives without areas]
    #[arg(long, value_parser = parse_blocks, value_name = "BYTES")]
    pub zrwa_window: Option<u32>,
    /// Unit in which a window moves on [default: a quarter of the window]
    #[arg(long, value_parser = parse_blocks, value_name = "BYTES", requires = "zrwa_window")]
    pub zrwa_granule: Option<u32>,
    /// Most zones that have a window at a time [default: as many as may be open]
    #[arg(long, value_name = "N", requires = "zrwa_window", value_parser = clap::value_parser!(u32).range(1..))]
    pub zrwa_zones: Option<u32>,
}

#[derive(Clone, Debug, Args)]
pub struct Create {
    /// Directory of the array
    pub dir: PathBuf,
    #[command(flatten)]
    pub scheme: Scheme,
    #[command(flatten)]
    pub areas: AreaOptions,
    /// Zones of each drive [default: as many as --size needs]
    #[arg(long)]
    pub zones: Option<u32>,
    /// Zone size [default: the zone capacity, rounded up to a power of two]
    #[arg(long, value_parser = parse_blocks, value_name = "BYTES")]
    pub zone_size: Option<u32>,
    /// Zone capacity [default: such that the volume takes about 48 segments]
    #[arg(long, value_parser = parse_blocks, value_name = "BYTES")]
    pub zone_capacity: Option<u32>,
    /// Open and active zones of each drive
    #[arg(long, default_value_t = 14)]
    pub max_open: u32,
    /// Drives, comma-separated: files of emulated drives, block devices, or raw:FILE to use a file as a device
    /// [default: DIR/drive-N.zns]
    #[arg(long, value_delimiter = ',', value_name = "P1,P2,...")]
    pub drives_path: Vec<PathBuf>,
    /// Devices for the journals of the drives' identities, one for each drive and in their order: partitions, disks or files on
    /// something fast. For zoned block devices without metadata; each is as needed as its drive from then on [default: two zones of
    /// the drive]
    #[arg(long, value_delimiter = ',', value_name = "P1,P2,...", requires = "drives_path")]
    pub identity_journal: Vec<PathBuf>,
    /// Replace what an interrupted `create` left, give up what devices hold, and make an array that this host cannot hold when it is
    /// full; a drive of another array wants its name, --force=UUID, which may be given several times
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = force::ALONE, value_parser = Forced::parse,
          value_name = "UUID")]
    pub force: Vec<Forced>,
}

/// Scheme of an array.
#[derive(Clone, Debug, Args)]
pub struct Scheme {
    /// Drives of the array [default: 4]
    #[arg(long)]
    pub drives: Option<usize>,
    /// RAID level: raid0, raid01, raid4, raid5, raid6, or K+M for M up to 3 rotating parities [default: raid5]
    #[arg(long, value_parser = parse_level)]
    pub level: Option<LevelChoice>,
    /// Size of the volume [default: 4GiB, or what --zones allow]
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub size: Option<u64>,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Directory of the array
    pub dir: PathBuf,
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Options of windows of random write areas.
#[derive(Debug, Args)]
pub struct WindowOptions {
    /// Zones of each drive for the write area, where small writes wait and are overwritten without wear: `off`, a number, for which
    /// drives need random write areas, or `auto`: one for ten segments to spare, at most 8, used while that costs clients no time
    /// [default: auto where drives have random write areas; off with the policy `fixed`]
    #[arg(long, value_parser = parse_write_area, value_name = "ZONES")]
    pub write_area: Option<WriteAreaChoice>,
    /// Start though more drives lost what their random write areas held than the array can lose: blocks that were written last
    /// may then be older than what was acknowledged
    #[arg(long)]
    pub accept_lost_writes: bool,
}

/// Options by which an array is served.
#[derive(Debug, Args)]
pub struct ServiceOptions {
    /// Address at which NBD clients connect: unix:PATH or tcp:HOST:PORT [default: unix:DIR/nbd.sock]
    #[arg(long)]
    pub listen: Option<Listen>,
    /// Socket on which a virtual machine's front end finds the volume as its disk (vhost-user-blk), see docs/exports.md; may
    /// be given several times
    #[arg(long, value_name = "PATH")]
    pub vhost_user: Vec<PathBuf>,
    /// Make the volume a disk of this host, /dev/ublkbN, see docs/exports.md; wants root and Linux 6.5
    #[arg(long)]
    pub ublk: bool,
    /// Block size that virtual machines and this host see; with 512, writes of less than 4 KiB are slow
    #[arg(long, value_enum, default_value = "4096", value_name = "BYTES")]
    pub block_size: BlockSizeChoice,
    /// Threads that serve clients, 1 to 64: connections are spread over all. One of them has the engine; of an array of Linux md
    /// each has a shard of it
    #[arg(long, default_value_t = 1, value_parser = parse_cores)]
    pub cores: usize,
    /// Most MiB per second that a rebuild may write to its drive whatever clients do, 0 for no limit [default: what clients
    /// leave, at least 10]
    #[arg(long, value_parser = parse_rate, value_name = "MIB/S")]
    pub rebuild_rate: Option<Rate>,
    /// Seconds after which a command that a drive has not answered is reported; after twice that the drive is failed, one
    /// that is no file after `--drive-patience` more
    #[arg(long, default_value = "30", value_parser = parse_drive_timeout, value_name = "SECONDS")]
    pub drive_timeout: Nanos,
    /// Seconds for which a drive that is no file is waited for when it is reset or away: its writes wait, reads are decoded from other drives;
    /// after that it is failed; 0 fails it at once
    #[arg(long, default_value = "60", value_parser = parse_drive_patience, value_name = "SECONDS")]
    pub drive_patience: Nanos,
    /// Ask NVMe drives with zones for their answers until they come, instead of waiting for interrupts: a processor does not sleep while
    /// requests are under way. Their driver needs queues for that (`nvme.poll_queues=2`), and Linux 6.12
    #[arg(long)]
    pub poll: bool,
    /// Most of the index that is kept in memory; the rest lies on the drives [default: all]
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub index_memory: Option<u64>,
    /// Most memory for stripe tables of sealed segments: others are dropped, and read from footers when they are needed
    /// [default: all stay]
    #[arg(long, value_parser = parse_size, value_name = "BYTES", conflicts_with = "index_memory")]
    pub stripe_tables_memory: Option<u64>,
    /// Start without drives that cannot be had: they are recorded as failed, and not believed again
    #[arg(long)]
    pub degraded: bool,
    #[command(flatten)]
    pub windows: WindowOptions,
    /// Note the reads, writes and flushes of clients in a new file, as `lab run --trace FILE --trace-format alibaba` replays them; clients never
    /// wait for it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    #[command(flatten)]
    pub md: MdService,
    /// Let the emulated drives take the time of this profile, by name or as a TOML file (see `drive probe`)
    #[arg(long)]
    pub profile: Option<String>,
}

#[derive(Debug, Args)]
pub struct Export {
    /// Directory of the array
    pub dir: PathBuf,
    /// Address for more NBD clients, as `serve --listen` takes it
    #[arg(long, value_name = "ADDRESS", group = "kind")]
    pub nbd: Option<Listen>,
    /// Socket for one more virtual machine (vhost-user-blk)
    #[arg(long, value_name = "PATH", group = "kind")]
    pub vhost_user: Option<PathBuf>,
    /// The disk of this host, /dev/ublkbN; wants root and Linux 6.5
    #[arg(long, group = "kind")]
    pub ublk: bool,
    /// The volume on the network by the kernel's NVMe target, on top of the disk of this host
    #[arg(long, num_args = 0..=1, value_name = "IP:PORT", group = "kind")]
    pub nvme_tcp: Option<Option<SocketAddr>>,
    /// Block size that the virtual machine or this host sees; with 512, writes of less than 4 KiB are slow [default: 4096]
    #[arg(long, value_enum, value_name = "BYTES", conflicts_with_all = ["remove", "nbd", "nvme_tcp"])]
    pub block_size: Option<BlockSizeChoice>,
    /// Qualified name of a host that may connect; may be given several times
    #[arg(long, value_name = "NQN", requires = "nvme_tcp")]
    pub allow_host: Vec<String>,
    /// Let any host connect
    #[arg(long, requires = "nvme_tcp", conflicts_with = "allow_host")]
    pub allow_any_host: bool,
    /// Print what would be done to the kernel's configuration, for a shell
    #[arg(long, requires = "nvme_tcp")]
    pub dry_run: bool,
    /// Take that export away; refused while a disk is in use, or a machine connected
    #[arg(long)]
    pub remove: bool,
    /// Take away a disk in use, too: what was written and not synced is lost
    #[arg(long, requires_all = ["remove", "ublk"])]
    pub force: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Query {
    /// Directory of the array
    pub dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StopServer {
    /// Directory of the array, or of the cache
    pub dir: PathBuf,
    /// Seconds to wait for its end
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub timeout: u64,
}

#[derive(Debug, Args)]
pub struct Examine {
    /// Drives, or directories of drives
    #[arg(required = true, value_name = "PATH", value_parser = raw::path_parser())]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Scan {
    /// Look at these drives only, and in these directories and directly below [default: the devices of this machine, and .]
    #[arg(value_name = "PATH", conflicts_with = "dir", value_parser = raw::path_parser())]
    pub paths: Vec<PathBuf>,
    /// Directory to look in, and directly below, beside the devices of this machine; may be repeated
    #[arg(long)]
    pub dir: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Assemble {
    /// Directory of the array
    pub dir: PathBuf,
    /// The array, where drives of several are found; without paths, it is looked for on all devices of this machine
    #[arg(long, value_name = "UUID")]
    pub array: Option<uuid::Uuid>,
    /// Drives, or directories of drives, to be looked at besides the array's directory
    #[arg(value_name = "PATH", value_parser = raw::path_parser())]
    pub paths: Vec<PathBuf>,
    /// The same, comma-separated
    #[arg(long, value_delimiter = ',', value_name = "P1,P2,...", value_parser = raw::path_parser())]
    pub drives_path: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Destroy {
    /// Directory of the array
    pub dir: PathBuf,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Subcommand)]
pub enum DriveCommand {
    /// List the block devices of this host: what they are, what they hold, and what to do with them
    List(DriveList),
    /// Mark a drive as failed: the array goes on without it and never believes it again
    Fail(Fail),
    /// Give an array an empty drive for one that failed, and rebuild it while clients go on
    ///
    /// Served or not: without a server the rebuild begins with the next `serve` or `up`. It goes on where it
    /// was after a restart.
    Replace(Replace),
    /// Take in again a drive that was away or was marked failed: what it lacks is rebuilt, no more
    ///
    /// Served or not. Clients of a server wait while the array is mounted with it.
    #[command(name = "re-add")]
    ReAdd(ReAdd),
    /// Add a blank drive that takes the place of the next that fails, served or not
    AddSpare(AddSpare),
    /// Take a spare away, served or not; its file stays
    RemoveSpare(RemoveSpare),
    /// Make drives empty again that were an array's, or that hold what nobody misses
    ///
    /// Refuses what is mounted, swap, held or opened by somebody, whatever is said; and without --force what holds a file system,
    /// another format, data in its first or last MiB, or zones that are not empty. All drives are looked at before the first is written to.
    Wipe(Wipe),
    /// Measure one operation on a modelled drive in virtual time, or on a real one
    Probe(Probe),
    /// Check whether a drive does what the engine relies on; all that it holds is lost (exit 1 if it differs)
    ///
    /// The same checks for NVMe drives with zones, devices that are cut into zones, and emulated drives: transfers of all sizes read
    /// back block by block, every rule of zones broken on its own, limits reached, and commands drawn by a seed held against the
    /// rules. The drive has to be blank, and is left so.
    Qualify(Qualify),
    /// Create the file of an emulated drive that is in no array, for measuring
    Create(CreateDrive),
}

#[derive(Debug, Args)]
pub struct CreateDrive {
    /// The file; it must not exist
    pub path: PathBuf,
    /// Zones
    #[arg(long, default_value_t = 64)]
    pub zones: u32,
    /// Zone size [default: the zone capacity, rounded up to a power of two]
    #[arg(long, value_parser = parse_blocks, value_name = "BYTES")]
    pub zone_size: Option<u32>,
    /// Zone capacity
    #[arg(long, default_value = "16MiB", value_parser = parse_blocks, value_name = "BYTES")]
    pub zone_capacity: u32,
    /// Open and active zones
    #[arg(long, default_value_t = 14)]
    pub max_open: u32,
    #[command(flatten)]
    pub areas: AreaOptions,
}

#[derive(Debug, Args)]
pub struct Fail {
    /// Directory of the array
    pub dir: PathBuf,
    /// The drive, as `zoneweave status` numbers it
    pub drive: u8,
}

#[derive(Debug, Args)]
pub struct Replace {
    /// Directory of the array
    pub dir: PathBuf,
    /// The drive that failed, as `zoneweave status` numbers it
    pub drive: u8,
    /// The new drive: a file that does not exist, a blank drive made like the others, a block device, or raw:FILE
    /// [default: DIR/drive-N-K.zns]
    #[arg(long, value_name = "PATH")]
    pub with: Option<PathBuf>,
    /// Device for the journal of the new drive's identities: a partition, a disk or a file on something fast. For zoned block devices
    /// without metadata; it is as needed as the drive from then on [default: two zones of the drive]
    #[arg(long, value_name = "PATH", requires = "with")]
    pub identity_journal: Option<PathBuf>,
    /// Give up what the new drive and its journal's device hold; those of another array want its name, --force=UUID
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = force::ALONE, value_parser = Forced::parse,
          value_name = "UUID")]
    pub force: Vec<Forced>,
    /// Wait until the drive is rebuilt
    #[arg(long)]
    pub wait: bool,
    /// Most MiB per second that rebuilds may write from now on, 0 for no limit [default: as before]
    #[arg(long, value_parser = parse_rate, value_name = "MIB/S")]
    pub rebuild_rate: Option<Rate>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReAdd {
    /// Directory of the array
    pub dir: PathBuf,
    /// The drive, as `zoneweave status` numbers it, or its file where that is [default: the only one that failed and is there]
    #[arg(value_name = "DRIVE|PATH")]
    pub drive: Option<String>,
    /// Wait until what it lacks is rebuilt
    #[arg(long)]
    pub wait: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AddSpare {
    /// Directory of the array
    pub dir: PathBuf,
    /// A file that does not exist, a blank drive made like the others, a block device, or raw:FILE [default: DIR/spare-K.zns]
    pub path: Option<PathBuf>,
    /// Device for the journal of the spare's identities: a partition, a disk or a file on something fast. For zoned block devices
    /// without metadata; the spare brings it along when it takes a place [default: two zones of the drive]
    #[arg(long, value_name = "PATH", requires = "path")]
    pub identity_journal: Option<PathBuf>,
    /// Give up what it and its journal's device hold; those of another array want its name, --force=UUID
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = force::ALONE, value_parser = Forced::parse,
          value_name = "UUID")]
    pub force: Vec<Forced>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RemoveSpare {
    /// Directory of the array
    pub dir: PathBuf,
    /// File of the spare, as `zoneweave status` names it
    pub path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Scrub {
    /// Directory of the array
    pub dir: PathBuf,
    /// Most MiB per second that are read, of all drives together, 0 for no limit
    #[arg(long, value_parser = parse_rate, value_name = "MIB/S")]
    pub rate: Option<Rate>,
    /// Write elsewhere what is damaged
    #[arg(long)]
    pub repair: bool,
    /// Name the members that are wrong where parities do not fit: RAID-6 of Linux md can tell when it is one in a row
    #[arg(long)]
    pub locate: bool,
    /// Do not wait for its end
    #[arg(long)]
    pub background: bool,
    /// Stop the scrub that is running
    #[arg(long, conflicts_with_all = ["rate", "repair", "background", "locate"])]
    pub stop: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Rebuild {
    /// Directory of the array
    pub dir: PathBuf,
    /// Wait until it is over
    #[arg(long)]
    pub wait: bool,
    /// Most MiB per second that rebuilds may write from now on, 0 for no limit
    #[arg(long, value_parser = parse_rate, value_name = "MIB/S")]
    pub rate: Option<Rate>,
    /// MiB per second that rebuilds keep while clients are at work, and the resync of an array of Linux md, as md's sync_speed_min
    #[arg(long, value_parser = parse_rate, value_name = "MIB/S")]
    pub rate_min: Option<Rate>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Cost of the engine alone: real engine, null drives, one core, closed loop
    NullWrite(NullWrite),
    /// Cost of the in-place engine beside Linux md: blocks of members, instructions and allocations per request
    ///
    /// Members do nothing, on one core, in a closed loop. Exit code 1 when a bar is missed: blocks of members at most md's,
    /// instructions as the issue asks where it does, no allocations.
    MdCost(MdCost),
    /// Speed of the in-place engine on modelled drives, in virtual time, beside what the drives leave possible
    ///
    /// Exit code 1 when a bar is missed.
    MdSpeed(MdSpeed),
    /// Memory that the engine's structures take per TiB, beside the formulas of the ZapRAID paper
    Memory(MemoryRun),
    /// Virtual time and memory that a mount takes after a crash, with a checkpoint and without
    Mount(MountRun),
    /// Our server and `nbdkit memory` under the same fio jobs, in turn
    NbdCompare(NbdCompare),
    /// Cost of a request over vhost-user and over NBD, and with qemu-storage-daemon, in turn
    ///
    /// Exit code 1 when a row is above its bar.
    ExportCompare(ExportCompare),
    /// Experiments with the cache
    #[command(subcommand)]
    Cache(LabCache),
    /// An array on modelled drives in virtual time
    Array(ArrayRun),
    /// Experiments of the ZapRAID and StRAID papers on modelled drives in virtual time, beside its figures
    Run(ExperimentRun),
    /// The adaptive policy against every fixed configuration, in settings that a seed draws
    ///
    /// The expert of a setting is the fixed configuration with the highest throughput there. Exit code 1 when
    /// the bar is missed: in 95 % of settings at least 0.97 of the expert's throughput and at most 1.1 times
    /// its p99 and p99.9, in none below 0.85 or above 2, in none any configuration better in all three.
    Contest(Contest),
    /// Decisions of the adaptive policy in a setting of the contest, and what it saw
    ///
    /// Settings are those of `lab contest --first N --cells 1`.
    Explain(Explain),
    /// Speed of the rebuild of a lost drive in virtual time, and what the new drive alone could take
    Rebuild(RebuildRun),
    /// Every observation of the published characterisation of zoned drives, on a modelled drive
    Characterise(Characterise),
}

#[derive(Debug, Args)]
pub struct NullWrite {
    /// Size of each write
    #[arg(long, default_value = "4k", value_parser = parse_size, value_name = "BYTES")]
    pub block: u64,
    /// Chunk size
    #[arg(long, default_value = "4k", value_parser = parse_size, value_name = "BYTES")]
    pub chunk: u64,
    /// RAID level
    #[arg(long, default_value = "raid5", value_parser = parse_level)]
    pub level: LevelChoice,
    /// Drives [default: 4, or those of K+M]
    #[arg(long)]
    pub drives: Option<usize>,
    /// Stripes of a group
    #[arg(long, default_value_t = 256)]
    pub group: u32,
    /// Seconds to measure for
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Measure so many turns of the engine from a fresh array on, without a warm-up: for a program that counts
    /// instructions from outside (cargo xtask same)
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub turns: Option<u64>,
    /// Way of writes: log (full stripes), padded (one at a time, flushed), slots (the same with a write area), absorbed (over blocks in
    /// slots of it)
    #[arg(long, default_value = "log", value_name = "PATH")]
    pub path: lab::null_write::Path,
    /// Instructions, bytes copied and allocations of a 4-KiB write by each path, counted by valgrind
    ///
    /// Exit code 1 when an absorbed write takes more than 1.3 times the instructions of one in a full stripe, or one allocates.
    #[arg(long, conflicts_with_all = ["path", "seconds", "turns", "block", "chunk", "level", "drives", "group"])]
    pub by_path: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct MemoryRun {
    /// Chunk size
    #[arg(long, default_value = "4k", value_parser = parse_size, value_name = "BYTES")]
    pub chunk: u64,
    /// RAID level
    #[arg(long, default_value = "raid5", value_parser = parse_level)]
    pub level: LevelChoice,
    /// Drives [default: 4, or those of K+M]
    #[arg(long)]
    pub drives: Option<usize>,
    /// Stripes of a group
    #[arg(long, default_value_t = 256)]
    pub group: u32,
    /// Packing of stripe tables: bits or bytes
    #[arg(long, default_value = "bits", value_parser = parse_packing)]
    pub stripe_table: Packing,
    /// Most memory for stripe tables of sealed segments [default: all stay]
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub stripe_tables_memory: Option<u64>,
    /// Volume to write and measure; results are per TiB
    #[arg(long, default_value = "16GiB", value_parser = parse_size, value_name = "BYTES")]
    pub size: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct MountRun {
    /// Profile of the drives, by name or as a TOML file
    #[arg(long, default_value = "zn540-4tb")]
    pub profile: String,
    /// Placement of stripes: adaptive, zapraid or zone-write-only
    #[arg(long, default_value = "adaptive", value_parser = parse_scheme)]
    pub scheme: scheme::Scheme,
    /// Size of the volume, all of it written; its drives are computed and take little memory
    #[arg(long, default_value = "1TiB", value_parser = parse_size, value_name = "BYTES")]
    pub size: u64,
    /// Bytes that clients write before each crash
    #[arg(long, default_value = "2GiB", value_parser = parse_size, value_name = "BYTES")]
    pub since: u64,
    /// Zones of each drive for the write area, whose slots are full when the power goes; 0 is none
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub write_area: u32,
    /// Seed of the drives and of what clients write
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ArrayRun {
    /// Profile of the drives, by name or as a TOML file
    #[arg(long, default_value = "zn540-4tb")]
    pub profile: String,
    /// Place of the metadata of blocks: metadata, in-band (as for drives that keep none)
    #[arg(long, default_value = "metadata", value_parser = ["metadata", "in-band"])]
    pub identity: String,
    /// Memory for identities in-band of each drive [default: 64MiB]; 4KiB shows reads from a cold cache
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub identity_cache: Option<u64>,
    /// RAID level
    #[arg(long, default_value = "raid5", value_parser = parse_level)]
    pub level: LevelChoice,
    /// Drives [default: 4, or those of K+M]
    #[arg(long)]
    pub drives: Option<usize>,
    /// Placement of stripes: adaptive, as in arrays that are made; zapraid or zone-write-only
    #[arg(long, default_value = "adaptive", value_parser = parse_scheme)]
    pub scheme: scheme::Scheme,
    /// Chunk size of the other schemes [default: 4k]
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub chunk: Option<u64>,
    /// Space beyond what the volume needs, in percent of it
    #[arg(long, default_value_t = SPARE_PERCENT, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=1000))]
    pub spare: u64,
    /// Size of the volume
    #[arg(long, default_value = "256MiB", value_parser = parse_size, value_name = "BYTES")]
    pub size: u64,
    /// fio's rw: randwrite, randread, write, read
    #[arg(long, default_value = "randwrite", value_parser = parse_pattern)]
    pub rw: Pattern,
    /// fio's bs
    #[arg(long, default_value = "4k", value_parser = parse_size, value_name = "BYTES")]
    pub bs: u64,
    /// fio's iodepth
    #[arg(long, default_value_t = 64)]
    pub iodepth: u32,
    /// Virtual time to measure
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Seed of drives and clients; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RebuildRun {
    /// Profile of the drives, by name or as a TOML file
    #[arg(long, default_value = "zn540-4tb")]
    pub profile: String,
    /// RAID level
    #[arg(long, default_value = "raid5", value_parser = parse_level)]
    pub level: LevelChoice,
    /// Drives [default: 4, or those of K+M]
    #[arg(long)]
    pub drives: Option<usize>,
    /// Chunk size
    #[arg(long, default_value = "4k", value_parser = parse_size, value_name = "BYTES")]
    pub chunk: u64,
    /// Stripes of a group under Zone Append; 1 uses Zone Write
    #[arg(long, default_value_t = 256)]
    pub group: u32,
    /// Size of the volume, all of it written
    #[arg(long, default_value = "3GiB", value_parser = parse_size, value_name = "BYTES")]
    pub size: u64,
    /// Most MiB per second that the rebuild may write [default: no limit]
    #[arg(long, value_parser = parse_rate, value_name = "MIB/S")]
    pub rate: Option<Rate>,
    /// The rebuild takes what the client leaves
    #[arg(long, conflicts_with = "rate")]
    pub by_load: bool,
    /// A client writes 4 KiB and flushes in turn, to drives with volatile caches
    #[arg(long)]
    pub client: bool,
    /// Seed of the drives; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A limit in MiB per second; zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// As it was given.
    pub mib_per_second: u64,
}

impl Rate {
    /// In bytes; `None` without limit.
    pub fn bytes_per_second(self) -> Option<u64> {
        (self.mib_per_second > 0).then_some(self.mib_per_second << 20)
    }

    /// In bytes, zero included.
    pub fn bytes_asked_for(self) -> u64 {
        self.mib_per_second << 20
    }
}

/// More than a day: whoever wants that wants no limit.
const DRIVE_TIMEOUT_MAX: u64 = 100_000;

fn parse_drive_timeout(text: &str) -> Result<Nanos, String> {
    let seconds = text.parse().ok().filter(|seconds| (1..=DRIVE_TIMEOUT_MAX).contains(seconds));
    let seconds: u64 =
        seconds.ok_or_else(|| format!("`{text}`: use whole seconds from 1 to {DRIVE_TIMEOUT_MAX}"))?;
    Ok(Nanos(seconds * 1_000_000_000))
}

fn parse_drive_patience(text: &str) -> Result<Nanos, String> {
    if text == "0" {
        return Ok(Nanos(0));
    }
    parse_drive_timeout(text)
        .map_err(|_| format!("`{text}`: use whole seconds from 0 to {DRIVE_TIMEOUT_MAX}"))
}

/// A rate as it is typed.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse().ok().filter(|rate| *rate <= RATE_MIB_MAX);
    let rate = rate.ok_or_else(|| {
        format!("`{text}` is not a rate: use whole MiB per second up to {RATE_MIB_MAX}, 0 for no limit")
    })?;
    Ok(Rate { mib_per_second: rate })
}

/// More than any drive takes.
pub const RATE_MIB_MAX: u64 = 1 << 20;

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    match text {
        "randwrite" => Ok(Pattern::RandWrite),
        "randread" => Ok(Pattern::RandRead),
        "write" => Ok(Pattern::Write),
        "read" => Ok(Pattern::Read),
        _ => Err(format!("`{text}`: use randwrite, randread, write or read")),
    }
}

#[derive(Debug, Args)]
pub struct ExportCompare {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3)]
    pub seconds: u32,
    /// Measurements of each side of a row
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Size of the volumes
    #[arg(long, default_value = "256MiB", value_parser = parse_size, value_name = "BYTES")]
    pub size: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct NbdCompare {
    /// Seconds of each run
    #[arg(long, default_value_t = 5)]
    pub seconds: u32,
    /// Runs of each server
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// fio's rw: randwrite, randread, write, read
    #[arg(long, default_value = "randwrite")]
    pub rw: String,
    /// fio's bs
    #[arg(long, default_value = "4k")]
    pub bs: String,
    /// fio's iodepth
    #[arg(long, default_value_t = 64)]
    pub iodepth: u32,
    /// Size of the volume
    #[arg(long, default_value = "1GiB", value_parser = parse_size, value_name = "BYTES")]
    pub size: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Zones of each drive for the write area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAreaChoice {
    Off,
    /// As many as cost clients no space.
    Auto,
    /// So many, or the array is not served.
    Zones(u32),
}

fn parse_write_area(text: &str) -> Result<WriteAreaChoice, String> {
    match text {
        "off" => Ok(WriteAreaChoice::Off),
        "auto" => Ok(WriteAreaChoice::Auto),
        number => number
            .parse()
            .ok()
            .filter(|zones| *zones > 0)
            .map(WriteAreaChoice::Zones)
            .ok_or_else(|| format!("`{text}` zones for the write area: use `off`, `auto` or a number")),
    }
}

/// Bytes of a limit, zero among them.
pub fn parse_limit(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

pub fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    if bytes == 0 || bytes % BLOCK_BYTES_U64 != 0 {
        return Err(format!("{bytes} bytes: must be a multiple of 4096 and not zero"));
    }
    Ok(bytes)
}

pub fn parse_blocks(text: &str) -> Result<u32, String> {
    let blocks = parse_size(text)? / BLOCK_BYTES_U64;
    u32::try_from(blocks).map_err(|_| format!("{text}: at most 16 TiB"))
}

/// A RAID level, and the number of drives where its name says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelChoice {
    /// The level.
    pub level: Level,
    drives: Option<usize>,
}

impl LevelChoice {
    /// Level and drives, of which `drives` were asked for besides.
    ///
    /// # Errors
    /// When the level's name says another number.
    pub fn over(self, drives: Option<usize>, default: usize) -> Result<(Level, usize)> {
        match (self.drives, drives) {
            (Some(wanted), Some(drives)) if wanted != drives => {
                let level = self.level.name(wanted);
                Err(Exit::Usage
                    .error(format!("--level {level} is {wanted} drives, not {drives}: leave one out")))
            }
            (wanted, drives) => Ok((self.level, wanted.or(drives).unwrap_or(default))),
        }
    }
}

const LEVELS: &str =
    "raid0, raid01, raid4, raid5, raid6, or K+M for K drives of data and M up to 3 of parity";

fn parse_level(text: &str) -> Result<LevelChoice, String> {
    if let Some((data, parity)) = text.split_once('+') {
        return parse_general(text, data, parity);
    }
    let level = match text.to_ascii_lowercase().trim_start_matches("raid").trim_start_matches('-') {
        "0" => Level::Raid0,
        "01" => Level::Raid01,
        "4" => Level::Raid4,
        "5" => Level::Raid5,
        "6" => Level::Raid6,
        "1" => return Err(format!("{text} is raid01 over two drives: use raid01 with --drives 2")),
        "10" => {
            return Err(format!(
                "{text} stripes over mirrors, zoneweave mirrors stripes: as many drives may fail; use raid01"
            ));
        }
        _ => return Err(format!("`{text}` is not a RAID level: use {LEVELS}")),
    };
    Ok(LevelChoice { level, drives: None })
}

fn parse_general(text: &str, data: &str, parity: &str) -> Result<LevelChoice, String> {
    let (Ok(data), Ok(parity)) = (data.parse::<usize>(), parity.parse::<usize>()) else {
        return Err(format!("`{text}` is not a RAID level: use {LEVELS}"));
    };
    let level = Level::rotating(parity)
        .ok_or_else(|| format!("`{text}`: at most {PARITIES_MAX} drives of parity are possible"))?;
    let drives = data.saturating_add(parity);
    if drives > PIECES_MAX || level.erasure_code(drives).is_none() {
        return Err(format!("`{text}`: takes 1 or more drives of data and up to {PIECES_MAX} in all"));
    }
    Ok(LevelChoice { level, drives: Some(drives) })
}

fn parse_scheme(text: &str) -> Result<scheme::Scheme, String> {
    use scheme::Scheme;
    let schemes = [Scheme::Adaptive, Scheme::ZapRaid, Scheme::ZoneWriteOnly, Scheme::BizaPolicy];
    let scheme = schemes.into_iter().find(|scheme| scheme.name() == text);
    scheme.ok_or_else(|| format!("`{text}`: use adaptive, zapraid, zone-write-only or biza"))
}

fn parse_packing(text: &str) -> Result<Packing> {
    match text {
        "bits" => Ok(Packing::Bits),
        "bytes" => Ok(Packing::Bytes),
        _ => bail!("`{text}`: use bits or bytes"),
    }
}

/// A number of threads.
///
/// # Errors
/// When there cannot be so many.
pub fn parse_cores(text: &str) -> Result<usize, String> {
    let cores = text.parse().ok().filter(|cores| (1..=CORES_MAX).contains(cores));
    cores.ok_or_else(|| format!("`{text}` is not a number of cores: use 1 to {CORES_MAX}"))
}
