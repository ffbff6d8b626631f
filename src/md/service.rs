//! Options of `zoneweave serve` that are for arrays of md.

use crate::cli::parse_limit;
use crate::exit::Exit;
use anyhow::Result;
use array::inplace::window::Manner;
use clap::Args;

/// Service options of an array of Linux md.
#[derive(Clone, Debug, Default, Args)]
pub struct MdService {
    /// Window in which writes of a part of a stripe wait for the rest, of an array of Linux md: adaptive (where a stream comes), paper (not
    /// at all) or md (while another stripe reads)
    #[arg(long, value_parser = parse_window, value_name = "MANNER")]
    pub window: Option<Manner>,
    /// Most memory for parities and rows that were just written, of an array of Linux md; 0 keeps none [default: 64MiB]
    #[arg(long, value_parser = parse_limit, value_name = "BYTES")]
    pub cache: Option<u64>,
    /// Write nothing to the members of an array of Linux md: clients read, writes are refused, and nothing is resynced or rebuilt. Not for
    /// an array whose log or journal has to be applied
    #[arg(long)]
    pub readonly: bool,
    /// Serve an array of Linux md that is dirty and lacks members: its log is applied, then its parities are taken for right, and the
    /// blocks that may be wrong are named
    #[arg(long)]
    pub force: bool,
}

impl MdService {
    /// Refuses what means nothing to an array of zoned drives.
    pub fn expect_none(&self) -> Result<()> {
        let given = [
            ("--cache", self.cache.is_some()),
            ("--window", self.window.is_some()),
            ("--force", self.force),
            ("--readonly", self.readonly),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                Err(Exit::Usage
                    .error(format!("{option} is for arrays of Linux md; this one is of zoned drives")))
            }
        }
    }
}

fn parse_window(text: &str) -> Result<Manner, String> {
    match text {
        "adaptive" => Ok(Manner::Adaptive),
        "paper" => Ok(Manner::Paper),
        "md" => Ok(Manner::Md),
        other => Err(format!("`{other}` is no manner of waiting: there are adaptive, paper and md")),
    }
}
