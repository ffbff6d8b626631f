//! `zoneweave md`: members of Linux md, read where they lie. Nothing is ever written to one.

mod device;
mod examine;

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
}

#[derive(Debug, Args)]
pub struct Examine {
    /// Devices, partitions or files
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// One line for each array, as mdadm.conf has it
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
    }
}
