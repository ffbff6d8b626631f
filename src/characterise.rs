//! `zoneweave lab characterise`: the published characterisation of zoned drives, run again.

use crate::probe;
use crate::steps::Steps;
use anyhow::{Context, Result, ensure};
use clap::Args;
use drive::timing::{Profile, ZoneMap};
use lab::characterise;
use lab::compare::{Comparison, compare};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Markers before and after the generated table of docs/drive-model.md.
const TABLE_BEGIN: &str = "<!-- error-table: begin (generated) -->";
const TABLE_END: &str = "<!-- error-table: end -->";

#[derive(Debug, Args)]
pub struct Characterise {
    /// Profile of the drive, by name or as a TOML file
    #[arg(long, default_value = "zn540-1tb")]
    pub profile: String,
    /// A drive to characterise on the wall clock instead: the file of an emulated drive in no array. What it
    /// holds is lost
    #[arg(long, value_name = "PATH", conflicts_with_all = ["profile", "compare"])]
    pub device: Option<PathBuf>,
    /// Profile of the conventional drive that observation 11 compares it with
    #[arg(long, default_value = "conventional-nvme")]
    pub conventional: String,
    /// Seed of all variation; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Map of the zones of the profile's drive to channel groups: number, opening, random, mostly or mostly:EXCEPTIONS of
    /// 1000 [default: as the profile says]
    #[arg(long, conflicts_with_all = ["device", "compare"])]
    pub zone_map: Option<ZoneMap>,
    /// Shorter runs, to see that everything works; figures are then rough
    #[arg(long)]
    pub quick: bool,
    /// Write the report as one self-contained page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Hold the model against a table of measurements instead, point by point
    #[arg(long, value_name = "FILE.csv")]
    pub compare: Option<PathBuf>,
    /// Write the errors of the comparison into the marked place of a Markdown file
    #[arg(long, value_name = "FILE.md", requires = "compare")]
    pub error_table: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Characterises, or compares; fails when something that must hold does not.
pub fn run(options: &Characterise) -> Result<ExitCode> {
    let profile = Profile::load(&options.profile)?;
    let conventional = Profile::load(&options.conventional)?;
    if let Some(table) = &options.compare {
        return compare_with(table, &profile, &conventional, options);
    }
    let steps = Steps::new("experiments");
    let progress = |done: usize, total: usize, name: &str| steps.show(done, total, name);
    let settings =
        characterise::Options { seed: options.seed, quick: options.quick, zone_map: options.zone_map };
    let report = match &options.device {
        None => characterise::run(&profile, Some(&conventional), settings, &progress),
        Some(path) => {
            let (device, _lent) = probe::open(path, true)?;
            characterise::run_on_device(device, &path.display().to_string(), settings, &progress)
        }
    };
    steps.end();
    if let Some(path) = &options.html {
        write(path, &report.to_html())?;
    }
    if let Some(path) = &options.out {
        write(path, &report.to_json())?;
    }
    if options.json {
        println!("{}", report.to_json());
    } else {
        print!("{}", report.to_text());
    }
    Ok(if report.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compare_with(
    table: &Path,
    profile: &Profile,
    conventional: &Profile,
    options: &Characterise,
) -> Result<ExitCode> {
    let text = std::fs::read_to_string(table).with_context(|| format!("{}", table.display()))?;
    let steps = Steps::new("settings");
    let progress = |done, total| steps.show(done, total, "");
    let comparison = compare(&text, profile, Some(conventional), options.seed, &progress)
        .with_context(|| format!("{}", table.display()))?;
    steps.end();
    let json = serde_json::to_string_pretty(&comparison)?;
    if let Some(path) = &options.out {
        write(path, &json)?;
    }
    if let Some(path) = &options.error_table {
        write_table(path, &comparison)?;
    }
    if options.json {
        println!("{json}");
    } else {
        print(&comparison);
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces what is between the marks.
fn write_table(path: &Path, comparison: &Comparison) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let begin = text.find(TABLE_BEGIN).map(|at| at + TABLE_BEGIN.len());
    let (Some(begin), Some(end)) = (begin, text.find(TABLE_END)) else {
        anyhow::bail!("{}: has no `{TABLE_BEGIN}` and `{TABLE_END}`", path.display());
    };
    ensure!(begin <= end, "{}: the end mark stands before the begin mark", path.display());
    write(path, &format!("{}\n\n{}\n{}", &text[..begin], comparison.markdown(), &text[end..]))
}

fn print(comparison: &Comparison) {
    for point in &comparison.points {
        println!(
            "{:90} {:12} measured {:>12.4} model {:>12.4} {:>+8.1} %",
            point.setting, point.metric, point.measured, point.model, point.error_percent
        );
    }
    println!();
    println!("{:32} {:>5} {:>9} {:>9} {:>9} {:>9}", "error", "n", "median", "p90", "largest", "bias");
    for errors in &comparison.errors {
        println!(
            "{:32} {:>5} {:>7.1} % {:>7.1} % {:>7.1} % {:>+7.1} %",
            errors.rows,
            errors.count,
            errors.median_percent,
            errors.p90_percent,
            errors.max_percent,
            errors.bias_percent
        );
    }
    println!(
        "{} rows, {} left out as artefacts of the host, {} without a model",
        comparison.rows, comparison.rows_flagged, comparison.rows_without_model
    );
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("{}", path.display()))
}
