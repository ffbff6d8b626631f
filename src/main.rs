//! The `zoneweave` command.
//!
//! `cli` is what can be typed, one module per command does it, `directory` is an array's directory
//! on disk: `array.toml`, its drives, its sockets.

mod array_file;
mod assemble;
mod cache;
mod candidates;
mod characterise;
mod check;
mod cli;
mod contest;
mod create;
mod destroy;
mod directory;
mod drive_clocks;
mod drive_health;
mod drive_list;
mod drive_watch;
mod examine;
mod exit;
mod experiment;
mod explain;
mod export;
mod export_compare;
mod exports;
mod fail;
mod fence_note;
mod force;
mod host;
mod hosting;
mod kernel_calls;
mod lab_cache;
mod lab_commands;
mod lack;
mod leftover;
mod lent;
mod lines;
mod manual;
mod md;
mod md_cost;
mod md_speed;
mod patience;
mod probe;
mod progress;
mod qualify;
mod rates;
mod raw;
mod re_add;
mod rebuild;
mod replace;
mod room;
mod roster;
mod scan;
mod scrub;
mod seek;
mod serve;
mod shared_hardware;
mod sighting;
mod signals;
mod sim;
mod spare;
mod status;
mod steps;
mod stop;
mod supervisor;
mod way_back;
mod wipe;

use clap::Parser;
use cli::{Cli, Command, DriveCommand};
use exit::Exit;
use lines::Lines;
use md::description::is_in as is_md;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Counts allocations for `lab null-write`, and ends the process with an error message when there is no memory; costs one
/// thread-local increment per allocation.
#[global_allocator]
static ALLOCATOR: lab::allocations::Counting = lab::allocations::Counting;

fn main() -> ExitCode {
    abort_on_panic();
    lab::allocations::end_when_out_of_memory(Exit::Failed.number());
    let cli = Cli::parse();
    let serves = match &cli.command {
        Command::Cache { command } => command.serves(),
        command => matches!(command, Command::Up(_) | Command::Serve(_)),
    };
    let log = log_to_stderr(serves);
    if !serves {
        end_when_nobody_reads();
    }
    let code = match run(cli) {
        Ok(code) => code,
        Err(error) => {
            let text = format!("zoneweave: {}\n", exit::in_words(&error)).into_bytes();
            match &log {
                Some(log) => log.say(text),
                None => drop(std::io::stderr().write_all(&text)),
            }
            Exit::of(&error).into()
        }
    };
    log.iter().for_each(Lines::finish);
    code
}

/// Starts the log on standard error. A server hands it to a thread: no reader, slow or absent, may hold up the service.
fn log_to_stderr(serves: bool) -> Option<Lines> {
    let mut logger = env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info"));
    let lines = if serves { Lines::start(std::io::stderr()).ok() } else { None };
    if let Some(lines) = &lines {
        logger.target(env_logger::Target::Pipe(Box::new(lines.clone())));
    }
    logger.init();
    lines
}

/// Longest time that a process with a broken invariant may take to report it.
const LAST_WORDS_MAX: std::time::Duration = std::time::Duration::from_secs(2);

/// A broken invariant stops the process, whichever thread it is met in (docs/adr/0001). The simulator alone
/// lives on, to report it.
fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Nobody may read what is said.
        let _watchdog = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(LAST_WORDS_MAX);
            std::process::abort();
        });
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
    let exit = match cli.command {
        Command::Lab { command } => return lab_commands::run(&command),
        Command::Sim(options) => return sim::run(&options),
        Command::Completions(options) => manual::print_completions(&options)?,
        Command::Man(options) => manual::write_pages(&options)?,
        Command::UdevName(options) => exports::node_names::run(&options)?,
        Command::Drive { command } => drive_command(command)?,
        Command::Md { command } => md::run(&command)?,
        Command::Cache { command } => cache::run(&command)?,
        Command::Up(options) if is_md(&options.dir) || options.is_in_place() => md::up::run(&options)?,
        Command::Up(options) => serve::up(&options)?,
        Command::Create(options) => create::run(&options)?,
        Command::Serve(options) if is_md(&options.dir) => md::serve::run(&options.dir, &options.service)?,
        Command::Serve(options) => serve::run(&options)?,
        Command::Stop(options) => stop::run(&options)?,
        Command::Status(options) if is_md(&options.dir) => md::status::run(&options)?,
        Command::Status(options) => status::run(&options)?,
        Command::Check(options) if is_md(&options.dir) => md::check::of_directory(&options)?,
        Command::Check(options) => check::run(&options)?,
        Command::Examine(options) => examine::run(&options)?,
        Command::Export(options) => export::run(&options)?,
        Command::Scan(options) => scan::run(&options)?,
        Command::Assemble(options) => assemble::run(&options)?,
        Command::Destroy(options) if is_md(&options.dir) => md::destroy::run(&options)?,
        Command::Destroy(options) => destroy::run(&options)?,
        Command::Scrub(options) if is_md(&options.dir) => md::scrub::run(&options)?,
        Command::Scrub(options) => scrub::run(&options)?,
        Command::Rebuild(options) if is_md(&options.dir) => md::rebuild::run(&options)?,
        Command::Rebuild(options) => rebuild::run(&options)?,
    };
    Ok(exit.into())
}

fn drive_command(command: DriveCommand) -> anyhow::Result<Exit> {
    match command {
        DriveCommand::List(options) => drive_list::run(&options),
        DriveCommand::Fail(options) => fail::run(&options),
        DriveCommand::Create(options) => create::drive(&options),
        DriveCommand::ReAdd(options) => re_add::run(&options),
        DriveCommand::Replace(options) => replace::run(&options),
        DriveCommand::AddSpare(options) => spare::run(&options),
        DriveCommand::RemoveSpare(options) => spare::remove(&options),
        DriveCommand::Wipe(options) => wipe::run(&options),
        DriveCommand::Qualify(options) => qualify::run(&options),
        DriveCommand::Probe(options) => probe::run(&options).map(|()| Exit::Well),
    }
}
