//! The `zoneweave` command.
//!
//! `cli` is what can be typed, one module per command does it, `directory` is an array's directory
//! on disk: `array.toml`, its drives, its sockets.

mod characterise;
mod check;
mod cli;
mod create;
mod directory;
mod fail;
mod lab_commands;
mod probe;
mod serve;
mod status;

use clap::Parser;
use cli::{Cli, Command, DriveCommand};
use std::process::ExitCode;

/// Counts allocations for `lab null-write`; costs one thread-local increment per allocation.
#[global_allocator]
static ALLOCATOR: lab::allocations::Counting = lab::allocations::Counting;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("zoneweave: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Up(options) => serve::up(&options)?,
        Command::Create(options) => create::run(&options)?,
        Command::Serve(options) => serve::run(&options)?,
        Command::Status(options) => status::run(&options)?,
        Command::Check(options) => return check::run(&options),
        Command::Drive { command: DriveCommand::Fail(options) } => fail::run(&options)?,
        Command::Drive { command: DriveCommand::Create(options) } => create::drive(&options)?,
        Command::Drive { command: DriveCommand::Probe(options) } => probe::run(&options)?,
        Command::Lab { command } => return lab_commands::run(&command),
    }
    Ok(ExitCode::SUCCESS)
}
