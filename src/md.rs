//! `zoneweave md`: members of Linux md, read where they lie. Nothing is ever written to one.

mod array;
mod check;
mod device;
mod examine;
mod read;

use crate::exit::Exit;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum MdCommand {
    /// Print what is on members of md arrays, in mdadm's words, and whether the array can be served
    ///
    /// Members given together are judged as one array; devices are only read. Exit code 3 when it is degraded, 4 when it
    /// cannot be served, 6 when a device holds no superblock of md.
    Examine(Examine),
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
pub struct Check {
    /// Devices, partitions or files
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Read {
    /// Devices, partitions or files
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
pub struct Examine {
    /// Devices, partitions or files
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
}

/// Does what was typed.
pub fn run(command: &MdCommand) -> Result<Exit> {
    match command {
        MdCommand::Examine(options) => examine::run(options),
        MdCommand::Check(options) => check::run(options),
        MdCommand::Read(options) => read::run(options),
    }
}
