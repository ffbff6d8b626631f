//! Arrays of Linux md: `zoneweave md`, and what the commands for all arrays do with them. Of the commands, `create`,
//! `zero-superblock`, `add`, `add-journal` and `replace` alone write to a member; a server does (`serve`).

mod add;
mod add_journal;
mod array;
mod assemble;
pub mod check;
mod create;
pub mod description;
pub mod destroy;
mod detail;
pub mod device;
mod doubt;
mod examine;
mod fail;
mod grow;
mod member_io;
mod membership;
mod re_add;
mod read;
pub mod rebuild;
mod replace;
mod replacing;
mod report;
pub mod scrub;
pub mod serve;
mod served;
pub mod service;
mod shards;
mod spare;
pub mod status;
pub mod target;
pub mod up;
mod upkeep;
mod watch;
mod words;
mod zero;

use crate::exit::Exit;
use anyhow::Result;
use block::md::Uuid;
use block::md::superblock::Version;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum MdCommand {
    /// Print what is on members of md arrays, in mdadm's words, and whether the array can be served
    ///
    /// Members given together are judged as one array; devices are only read. Exit code 3 when it is degraded, 4 when it
    /// cannot be served, 6 when a device holds no superblock of md.
    Examine(Examine),
    /// Print an array, served or not, in mdadm's words
    ///
    /// `zoneweave status` says more, and has JSON. Exit code 3 when the array is degraded, 4 when it cannot be served.
    Detail(Detail),
    /// Make an array that Linux md assembles, on files or block devices that are there
    ///
    /// Words, units and defaults are those of `mdadm --create`, but for two: the policy is `bitmap` unless told otherwise, and
    /// RAID-5 begins with a resync, as after `mdadm --create --force`. Serve the array with `zoneweave serve`, or assemble it with mdadm.
    Create(Create),
    /// Describe an array that lies on members, so that it can be served; nothing is written to them
    ///
    /// Members come in any order; with `--uuid`, `--name` or `--scan` those of other arrays are left out. Exit code 3 when some are missing,
    /// 4 when the array cannot be served, 5 when somebody uses a member.
    Assemble(Assemble),
    /// Take a member out of an array that is served, as if it had failed
    Fail(Fail),
    /// Give an array that is served an empty member for one that failed, and rebuild it beside clients
    ///
    /// When no member is missing it becomes a spare.
    ///
    /// A device that is too small, in use, or holds something is refused; `--force` gives up what it holds. The rebuild goes on
    /// where it was after a restart, by Linux md too.
    Add(Add),
    /// Keep an empty device as a spare of an array that is served: it takes the role of a member that fails, by itself
    AddSpare(AddSpare),
    /// Give an array that lost its journal another one, while nobody serves it
    ///
    /// All members have to be there: their parities are made right by a resync, for nobody knows what the journal before had. The device is
    /// empty; `--force` gives up what it holds.
    AddJournal(AddJournal),
    /// Replace a member that still works, while the array is served: a spare or another empty device gets its content, then its role
    ///
    /// Redundancy is never less meanwhile: all writes go to both. When the new device has everything, the one before is no member any
    /// more. A member that fails before is rebuilt there from where the copy was. Goes on after a restart, by Linux md too.
    Replace(Replace),
    /// Take a member that failed, or missed a start, back into an array that is served
    ///
    /// What was written without it is written to it by the bitmap, the rest of it left as it is. A member that may lack more than
    /// the bits say is refused: `md add` rebuilds all of it.
    ReAdd(ReAdd),
    /// Give an array that is served another consistency policy: a bitmap, a partial parity log, or neither
    ///
    /// Clients wait for a moment. All members have to be whole, and parities right. Members, chunk, level, layout and size are not
    /// changed here.
    Grow(Grow),
    /// Forget a member that has failed: its device is closed, and what lies on it left alone
    Remove(Remove),
    /// Take the superblocks of md from devices, so that they are members no more
    ZeroSuperblock(Zero),
    /// Compare the parities of an array that is not in use with its data; nothing is written
    ///
    /// Counts mismatches in sectors, as md's mismatch_cnt does. Exit code 1 when there are some, 3 when members are missing.
    Check(Check),
    /// Copy the volume of an array that is not in use to a new file, with members missing too
    ///
    /// What a partial parity log or a journal says after a crash is applied in memory. A block that cannot be read, or may be
    /// wrong, ends the copy with exit code 1.
    Read(Read),
}

#[derive(Debug, Args)]
pub struct Create {
    /// Directory for the description of the array (array.toml)
    pub dir: PathBuf,
    /// Files or block devices in the order of their roles; the word `missing` leaves a role empty
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// RAID level: 4, 5 or 6
    #[arg(long, short, value_parser = words::level)]
    pub level: i32,
    /// Members of the array, `missing` ones too
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub raid_devices: u32,
    /// Spares, which come behind the members
    #[arg(long, short = 'x', default_value_t = 0, value_name = "COUNT")]
    pub spare_devices: u32,
    /// Chunk size in KiB, or with K, M or G behind
    #[arg(long, short, default_value = "512", value_parser = words::sectors, value_name = "KIB")]
    pub chunk: u64,
    /// Layout of RAID-5 and 6, by md's name [default: left-symmetric]
    #[arg(long, short = 'p', value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// Space used of each member in KiB, or with K, M, G or T behind, or `max`
    #[arg(long, short = 'z', default_value = "max", value_parser = words::size, value_name = "KIB")]
    pub size: u64,
    /// Start of the data on each member in KiB, or with K, M, G or T behind [default: as mdadm chooses]
    #[arg(long, value_parser = words::sectors, value_name = "KIB")]
    pub data_offset: Option<u64>,
    /// Version of the superblocks: 1.0, 1.1 or 1.2
    #[arg(long, short = 'e', default_value = "1.2", value_parser = words::version, value_name = "VERSION")]
    pub metadata: Version,
    /// Write-intent bitmap [default: internal]
    #[arg(long, short, value_enum)]
    pub bitmap: Option<BitmapWord>,
    /// Region of the bitmap in KiB, or with K, M or G behind [default: 64M, or more where bits are scarce]
    #[arg(long, value_parser = words::kibibytes, value_name = "KIB")]
    pub bitmap_chunk: Option<u64>,
    /// Consistency policy: how parities are made right after a crash [default: bitmap]
    #[arg(long, short = 'k', value_enum, value_name = "POLICY")]
    pub consistency_policy: Option<PolicyWord>,
    /// Device, partition or file of a journal: no write hole, no resync after a crash, and every block is written twice
    #[arg(long, value_name = "DEVICE")]
    pub write_journal: Option<PathBuf>,
    /// Take the parities for right as they are: what is not written later has no redundancy unless they are
    #[arg(long)]
    pub assume_clean: bool,
    /// Name of the array [default: that of DIR]
    #[arg(long, short = 'N')]
    pub name: Option<String>,
    /// Host that the name is of; an empty one leaves it out [default: this host]
    #[arg(long, value_name = "HOST")]
    pub homehost: Option<String>,
    /// Identity of the array [default: a random one]
    #[arg(long, short, value_parser = words::uuid)]
    pub uuid: Option<Uuid>,
    /// Use members although they hold something
    #[arg(long, short)]
    pub force: bool,
}

/// Bitmap by mdadm's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BitmapWord {
    Internal,
    None,
}

/// Consistency policy by mdadm's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyWord {
    Resync,
    Bitmap,
    /// Partial parity log: RAID-5 without a write hole and without a resync
    Ppl,
}

#[derive(Debug, Args)]
pub struct Assemble {
    /// Directory for the description of the array (array.toml)
    pub dir: PathBuf,
    /// Devices, partitions or files
    #[arg(required_unless_present = "scan", value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// Look at the block devices of this machine for members too
    #[arg(long, short)]
    pub scan: bool,
    /// Take the array although members are missing
    #[arg(long, short = 'R')]
    pub run: bool,
    /// Take the array although it is dirty and lacks members; the blocks that may be wrong are named, here and by `zoneweave serve
    /// --degraded --force`
    #[arg(long, short)]
    pub force: bool,
    /// Open members for reading alone, such as devices that cannot be written, and serve them with `zoneweave serve --readonly`
    #[arg(long, short = 'o')]
    pub readonly: bool,
    /// Identity that the array has to have
    #[arg(long, short, value_parser = words::uuid)]
    pub uuid: Option<Uuid>,
    /// Name that the array has to have, with the host that it is of or without
    #[arg(long, short = 'N')]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct Fail {
    /// Directory of the array
    pub dir: PathBuf,
    /// Path of the member, or its role
    pub member: PathBuf,
}

#[derive(Debug, Args)]
pub struct Add {
    /// Directory of the array
    pub dir: PathBuf,
    /// Device, partition or file
    pub member: PathBuf,
    /// Role that it gets [default: the first that lacks a member]
    #[arg(long)]
    pub role: Option<u16>,
    /// Use the device although it holds something
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct AddSpare {
    /// Directory of the array
    pub dir: PathBuf,
    /// Device, partition or file
    pub member: PathBuf,
    /// Use the device although it holds something
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct AddJournal {
    /// Directory of the array
    pub dir: PathBuf,
    /// Device, partition or file
    pub device: PathBuf,
    /// Use the device although it holds something
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Replace {
    /// Directory of the array
    pub dir: PathBuf,
    /// Path of the member, or its role
    pub member: PathBuf,
    /// Device, partition or file that takes its place [default: a spare]
    #[arg(long, value_name = "NEW")]
    pub with: Option<PathBuf>,
    /// Use NEW although it holds something
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct ReAdd {
    /// Directory of the array
    pub dir: PathBuf,
    /// Path of the member
    pub member: PathBuf,
}

#[derive(Debug, Args)]
pub struct Grow {
    /// Directory of the array
    pub dir: PathBuf,
    /// Write-intent bitmap
    #[arg(long, short, value_enum)]
    pub bitmap: Option<BitmapWord>,
    /// Region of the bitmap in KiB, or with K, M or G behind [default: 64M, or more where bits are scarce]
    #[arg(long, value_parser = words::kibibytes, value_name = "KIB")]
    pub bitmap_chunk: Option<u64>,
    /// Consistency policy: how parities are made right after a crash
    #[arg(long, short = 'k', value_enum, value_name = "POLICY")]
    pub consistency_policy: Option<PolicyWord>,
    #[arg(long, short = 'n', hide = true)]
    pub raid_devices: Option<String>,
    #[arg(long, short, hide = true)]
    pub chunk: Option<String>,
    #[arg(long, short, hide = true)]
    pub level: Option<String>,
    #[arg(long, short = 'p', hide = true)]
    pub layout: Option<String>,
    #[arg(long, short = 'z', hide = true)]
    pub size: Option<String>,
}

#[derive(Debug, Args)]
pub struct Remove {
    /// Directory of the array
    pub dir: PathBuf,
    /// Path of the member
    pub member: PathBuf,
}

#[derive(Debug, Args)]
pub struct Zero {
    /// Devices, partitions or files
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// Take away superblocks that make no sense too
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Check {
    /// Devices, partitions or files, or the directory of an array
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Look at an array that is dirty and lacks members, and name the blocks that may be wrong
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Read {
    /// Devices, partitions or files, or the directory of an array
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// New file, or - for standard output
    #[arg(long, short = 'o', default_value = "-", value_name = "FILE")]
    pub output: PathBuf,
    /// Copy blocks that a crash left in doubt as md returns them, and name them
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Detail {
    /// Directory of the array
    pub dir: PathBuf,
    /// Names and values, as scripts read them
    #[arg(long, short = 'Y')]
    pub export: bool,
}

#[derive(Debug, Args)]
pub struct Examine {
    /// Devices, partitions or files, or the directory of an array
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// Print one line for each array, as mdadm.conf has it
    #[arg(long, short = 'b', conflicts_with_all = ["json", "export"])]
    pub brief: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "export")]
    pub json: bool,
    /// Names and values, as scripts read them
    #[arg(long, short = 'Y')]
    pub export: bool,
    /// Print the bitmap of each member, as `mdadm --examine-bitmap` does
    #[arg(long, short = 'X', conflicts_with_all = ["brief", "json", "export", "badblocks"])]
    pub bitmap: bool,
    /// Print the bad blocks that each member lists, as `mdadm --examine-badblocks` does
    #[arg(long, conflicts_with_all = ["brief", "json", "export"])]
    pub badblocks: bool,
}

/// Does what was typed.
pub fn run(command: &MdCommand) -> Result<Exit> {
    match command {
        MdCommand::Examine(options) => examine::run(options),
        MdCommand::Detail(options) => detail::run(options),
        MdCommand::Create(options) => create::run(options),
        MdCommand::Assemble(options) => assemble::run(options),
        MdCommand::Fail(options) => fail::run(options),
        MdCommand::Add(options) => add::run(options),
        MdCommand::AddSpare(options) => spare::run(options),
        MdCommand::AddJournal(options) => add_journal::run(options),
        MdCommand::Replace(options) => replace::run(options),
        MdCommand::ReAdd(options) => re_add::run(options),
        MdCommand::Grow(options) => grow::run(options),
        MdCommand::Remove(options) => add::remove(options),
        MdCommand::ZeroSuperblock(options) => zero::run(options),
        MdCommand::Check(options) => check::run(options),
        MdCommand::Read(options) => read::run(options),
    }
}
