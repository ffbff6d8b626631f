//! The trace that an experiment replays.

use crate::exit::Exit;
use anyhow::{Context, Result};
use clap::Args;
use lab::cache::load::Load;
use lab::cache::trace::{self, Format};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct Traced {
    /// Trace to replay; - is the standard input
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Format of the trace: adaptsize, twitter, meta, oraclegeneral, u32 or u64be
    #[arg(long, value_name = "FORMAT")]
    pub trace_format: Format,
    /// Multiply sizes of its objects
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub size_factor: u32,
}

impl Traced {
    /// Requests of the trace.
    pub fn load(&self) -> Result<Load> {
        load(&self.trace, self.trace_format, self.size_factor)
    }
}

/// Requests of a trace, whose objects are so many times as large.
pub fn load(path: &Path, format: Format, size_factor: u32) -> Result<Load> {
    let name = path.display().to_string();
    let bytes = read(path).with_context(|| format!("the trace {name}"))?;
    let mut asks =
        trace::parse(&bytes, format).map_err(|error| Exit::Usage.error(format!("{name}:{error}")))?;
    for ask in &mut asks {
        ask.bytes = ask.bytes.saturating_mul(size_factor);
    }
    Ok(Load { name, asks })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
