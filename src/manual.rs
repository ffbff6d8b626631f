//! Pages of the manual and completions of shells, made from what `cli` says can be typed.

use crate::cli::Cli;
use crate::exit::Exit;
use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell that reads the script
    #[arg(value_enum)]
    shell: Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Directory of the pages; it is created
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the script of a shell.
pub fn print_completions(options: &Completions) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "zoneweave", &mut script);
    std::io::stdout().write_all(&script).context("stdout")?;
    Ok(Exit::Well)
}

/// Writes `zoneweave.1`, and a page for each command below it.
pub fn write_pages(options: &Man) -> Result<Exit> {
    let dir = &options.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir).with_context(|| format!("{}", dir.display()))?;
    Ok(Exit::Well)
}
