//! `zoneweave lab ...`: runs experiments and prints them.

use crate::characterise;
use crate::cli::{ArrayRun, LabCommand, MemoryRun, MountRun, NbdCompare, NullWrite, Rate, RebuildRun};
use crate::exit::Exit;
use crate::experiment;
use crate::{contest, explain, export_compare, lab_cache, md_cost, md_speed};
use anyhow::{Context, Result};
use base::units::{BLOCK_BYTES_U64, human_bytes};
use drive::timing::Profile;
use lab::experiment::scheme::Scheme;
use lab::{array_run, memory_run, mount_run, nbd_compare, null_write, rebuild_run};
use std::process::ExitCode;

/// Drives of an array unless told otherwise.
const DRIVES: usize = 4;

/// Runs an experiment.
pub fn run(command: &LabCommand) -> Result<ExitCode> {
    match command {
        LabCommand::NullWrite(options) if options.by_path => return null_writes_by_path(options.json),
        LabCommand::NullWrite(options) => null_write(options)?,
        LabCommand::MdCost(options) => return md_cost::run(options),
        LabCommand::MdSpeed(options) => return md_speed::run(options),
        LabCommand::Memory(options) => memory_run(options)?,
        LabCommand::Mount(options) => mount_run(options)?,
        LabCommand::NbdCompare(options) => nbd_compare(options)?,
        LabCommand::ExportCompare(options) => return export_compare::run(options),
        LabCommand::Array(options) => array_run(options)?,
        LabCommand::Cache(options) => return lab_cache::run(options),
        LabCommand::Run(options) => experiment::run(options)?,
        LabCommand::Contest(options) => return contest::run(options),
        LabCommand::Explain(options) => explain::run(options)?,
        LabCommand::Rebuild(options) => rebuild_run(options)?,
        LabCommand::Characterise(options) => return characterise::run(options),
    }
    Ok(ExitCode::SUCCESS)
}

fn null_writes_by_path(json: bool) -> Result<ExitCode> {
    let costs = null_write::by_path::costs()?;
    let missed = null_write::by_path::missed(&costs);
    if json {
        println!("{}", serde_json::to_string(&costs)?);
    } else {
        println!(
            "{:10} {:>12} {:>13} {:>12} {:>8}",
            "path", "instructions", "bytes copied", "allocations", "writes"
        );
        for cost in &costs {
            let (name, instructions, copied) = (cost.path.name(), cost.instructions, cost.bytes_copied);
            let (allocations, writes) = (cost.allocations, cost.writes);
            println!("{name:10} {instructions:>12.0} {copied:>13.0} {allocations:>12.4} {writes:>8}");
        }
    }
    missed.iter().for_each(|rule| eprintln!("missed: {rule}"));
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn null_write(options: &NullWrite) -> Result<()> {
    let (level, drives) = options.level.over(options.drives, DRIVES)?;
    let report = null_write::run(&null_write::NullWrite {
        block_bytes: options.block,
        chunk_bytes: options.chunk,
        level,
        drives,
        group_stripes: options.group,
        path: options.path,
        span: options.turns.map_or(null_write::Span::Seconds(options.seconds), null_write::Span::Turns),
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!("{:.0} ns per 4-KiB write", report.ns_per_write);
    println!("{:.0} writes/s on one core", report.writes_per_second);
    match report.instructions_per_write {
        Some(count) => println!("{count:.0} instructions per write"),
        None => println!("instructions are not counted on this machine"),
    }
    println!("{:.6} allocations per write", report.allocations_per_write);
    println!("{:.3} write amplification", report.write_amplification);
    Ok(())
}

fn memory_run(options: &MemoryRun) -> Result<()> {
    let (level, drives) = options.level.over(options.drives, DRIVES)?;
    let report = memory_run::run(&memory_run::MemoryRun {
        level,
        drives,
        chunk_bytes: options.chunk,
        group_stripes: options.group,
        stripe_table: options.stripe_table,
        stripe_tables_bytes_max: options.stripe_tables_memory,
        size_bytes: options.size,
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    let mib =
        |bytes: Option<f64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.2}", bytes / 1_048_576.0));
    println!("{:14} {:>12} {:>12} {:>12}", "MiB", "live", "per TiB", "paper");
    for row in &report.structures {
        let live = human_bytes(row.bytes);
        let (ours, paper) = (mib(row.bytes_per_tib), mib(row.paper_bytes_per_tib));
        println!("{:14} {live:>12} {ours:>12} {paper:>12}", row.structure);
    }
    let (ours, paper) = (mib(Some(report.bytes_per_tib)), mib(Some(report.paper_bytes_per_tib)));
    println!("{:14} {:>12} {ours:>12} {paper:>12}", "together", "");
    Ok(())
}

fn mount_run(options: &MountRun) -> Result<()> {
    let report = mount_run::run(&mount_run::MountRun {
        profile: Profile::load(&options.profile)?,
        scheme: options.scheme,
        size_bytes: options.size,
        since_bytes: options.since,
        write_area_zones: options.write_area,
        seed: options.seed,
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!(
        "volume of {}, {} written before each crash",
        human_bytes(report.volume_bytes),
        human_bytes(report.since_bytes)
    );
    if report.slots > 0 {
        println!("{} slots of the write area", report.slots);
    }
    println!(
        "{:36} {:>9} {:>8} {:>12} {:>12} {:>14}",
        "mount after", "s", "in slots", "peak", "kept", "peak per TiB"
    );
    for mount in &report.mounts {
        let (peak, kept) = (human_bytes(mount.peak_bytes), human_bytes(mount.kept_bytes));
        let per_tib = format!("{:.0} MiB", mount.peak_bytes_per_tib / 1_048_576.0);
        println!(
            "{:36} {:>9.4} {:>8} {peak:>12} {kept:>12} {per_tib:>14}",
            mount.after, mount.seconds, mount.in_slots
        );
    }
    println!("the checkpoint took {:.3} s", report.checkpoint_seconds);
    Ok(())
}

fn array_run(options: &ArrayRun) -> Result<()> {
    let (level, drives) = options.level.over(options.drives, DRIVES)?;
    let cache_bytes = options.identity_cache.unwrap_or(array_run::IDENTITY_CACHE_BYTES);
    let identity = match options.identity.as_str() {
        "in-band" => array_run::Identity::InBand { cache_bytes },
        _ if options.identity_cache.is_some() => {
            return Err(Exit::Usage.error("--identity-cache is for --identity in-band"));
        }
        _ => array_run::Identity::Metadata,
    };
    if options.scheme == Scheme::Adaptive && options.chunk.is_some() {
        return Err(Exit::Usage.error("--chunk is for --scheme zapraid or zone-write-only: adaptive chooses"));
    }
    let report = array_run::run(&array_run::ArrayRun {
        profile: Profile::load(&options.profile)?,
        level,
        drives,
        scheme: options.scheme,
        chunk_bytes: options.chunk.unwrap_or(BLOCK_BYTES_U64),
        size_bytes: options.size,
        spare_percent: options.spare,
        pattern: options.rw,
        block_bytes: options.bs,
        queue_depth: options.iodepth,
        seconds: options.seconds,
        seed: options.seed,
        identity,
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!("{}", report.figures);
    match report.write_amplification {
        Some(amplification) => println!("write amplification {amplification:.2}"),
        None => println!("nothing written"),
    }
    if let Some(bytes) = report.drive_bytes_per_user_byte {
        println!("{bytes:.3} bytes written to drives for each byte of clients, parity included");
    }
    Ok(())
}

fn rebuild_run(options: &RebuildRun) -> Result<()> {
    let (level, drives) = options.level.over(options.drives, DRIVES)?;
    let report = rebuild_run::run(&rebuild_run::RebuildRun {
        profile: Profile::load(&options.profile)?,
        level,
        drives,
        chunk_bytes: options.chunk,
        group_stripes: options.group,
        size_bytes: options.size,
        rate: Some(options.rate.map_or(0, Rate::bytes_asked_for)).filter(|_| !options.by_load),
        client: options.client,
        seed: options.seed,
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!("{} in {:.3} s of virtual time", human_bytes(report.bytes), report.seconds);
    println!("{:.0} MiB/s onto the new drive", report.mib_per_second);
    println!("{:.0} MiB/s is what such a drive takes", report.limit_mib_per_second);
    println!("{:.1} % of it", 100.0 * report.share);
    if let Some(client) = &report.client {
        println!(
            "flushes of a client: {:.0} us at most without it ({} of them), {:.0} us beside it ({})",
            client.flush_us_max_alone,
            client.flushes_alone,
            client.flush_us_max_beside,
            client.flushes_beside
        );
    }
    Ok(())
}

fn nbd_compare(options: &NbdCompare) -> Result<()> {
    let compare = nbd_compare::NbdCompare {
        binary: std::env::current_exe().context("this program's path")?,
        seconds: options.seconds,
        rounds: options.rounds,
        rw: options.rw.clone(),
        bs: options.bs.clone(),
        iodepth: options.iodepth,
        size_bytes: options.size,
    };
    let report = nbd_compare::run(&compare, |server, run| {
        eprintln!("{server:<10} {:>8.0} IOPS  {:>6.2} us of server CPU per I/O", run.iops, run.cpu_us_per_io);
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!(
        "fio nbd {} bs={} iodepth={}, medians of {}:",
        report.rw, report.bs, report.iodepth, options.rounds
    );
    println!("zoneweave  {:>8.0} IOPS  {:>6.2} us of server CPU per I/O", report.iops, report.cpu_us_per_io);
    println!(
        "nbdkit     {:>8.0} IOPS  {:>6.2} us of server CPU per I/O",
        report.peer_iops, report.peer_cpu_us_per_io
    );
    println!("ratio      {:>8.2}", report.iops_ratio);
    Ok(())
}
