//! The `zoneweave` command.
//!
//! `cli` is what can be typed, one module per command does it, `directory` is an array's directory
//! on disk: `array.toml`, its drives, its sockets.

mod characterise;
mod check;
mod cli;
mod create;
mod directory;
mod experiment;
mod fail;
mod lab_commands;
mod probe;
mod progress;
mod rebuild;
mod replace;
mod scrub;
mod serve;
mod sim;
mod spare;
mod status;
mod steps;

use clap::Parser;
use cli::{Cli, Command, DriveCommand};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Counts allocations for `lab null-write`; costs one thread-local increment per allocation.
#[global_allocator]
static ALLOCATOR: lab::allocations::Counting = lab::allocations::Counting;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    abort_on_panic();
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Up(_) | Command::Serve(_)) {
        end_when_nobody_reads();
    }
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("zoneweave: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A broken invariant stops the process, whichever thread it is met in (docs/adr/0001). The simulator alone
/// lives on, to report it.
fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        say(info);
        std::process::abort();
    }));
}

/// SIGPIPE ends the process, as that of other tools: `zoneweave status | head -1` is no broken invariant. A server goes on
/// without its readers.
fn end_when_nobody_reads() {
    let always = Arc::new(AtomicBool::new(true));
    if let Err(error) = signal_hook::flag::register_conditional_default(signal_hook::consts::SIGPIPE, always)
    {
        log::warn!("SIGPIPE is not handled: {error}");
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
        Command::Drive { command: DriveCommand::Replace(options) } => replace::run(&options)?,
        Command::Scrub(options) => return scrub::run(&options),
        Command::Rebuild(options) => rebuild::run(&options)?,
        Command::Drive { command: DriveCommand::AddSpare(options) } => spare::run(&options)?,
        Command::Drive { command: DriveCommand::Probe(options) } => probe::run(&options)?,
        Command::Lab { command } => return lab_commands::run(&command),
        Command::Sim(options) => return sim::run(&options),
    }
    Ok(ExitCode::SUCCESS)
}
