//! `zoneweave lab ...`: runs experiments and prints them.

use crate::cli::{LabCommand, NullWrite};
use anyhow::{Result, bail};
use lab::null_write;

/// Runs an experiment.
pub fn run(command: &LabCommand) -> Result<()> {
    match command {
        LabCommand::NullWrite(options) => null_write(options),
        LabCommand::NbdCompare(_) => bail!("not yet"),
    }
}

fn null_write(options: &NullWrite) -> Result<()> {
    let report = null_write::run(&null_write::NullWrite {
        block_bytes: options.block,
        chunk_bytes: options.chunk,
        level: options.level,
        drives: options.drives,
        group_stripes: options.group,
        seconds: options.seconds,
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!("{:.0} ns per 4-KiB write", report.ns_per_write);
    println!("{:.0} writes/s on one core", report.writes_per_second);
    println!("{:.6} allocations per write", report.allocations_per_write);
    println!("{:.3} write amplification", report.write_amplification);
    Ok(())
}
