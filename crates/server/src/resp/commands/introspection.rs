//! COMMAND and INFO: what the server says of itself.

use crate::resp::answer::Answer;
use crate::resp::call::{Call, Step};
use crate::resp::front::Front;
use crate::resp::parser::Arguments;
use crate::resp::settings::REDIS_VERSION;
use crate::resp::survey::{Survey, Wanted};
use crate::resp::table::{self, COMMANDS, Command, Refused};
use std::fmt::Write;

/// Sections of INFO, in order.
const SECTIONS: &[&str] =
    &["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "keyspace", "zoneweave"];

/// A command that has parts, without one.
pub(in crate::resp) fn container(call: &mut Call<'_>) -> Step {
    // The arity of containers lets nobody come here; the answer is that of a wrong one.
    let name = String::from_utf8_lossy(call.at(0)).to_ascii_lowercase();
    Step::Answer(Answer::error(format_args!("wrong number of arguments for '{name}' command")))
}

/// COMMAND.
pub(in crate::resp) fn command(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Array(COMMANDS.iter().map(described).collect()))
}

/// COMMAND COUNT.
pub(in crate::resp) fn command_count(_: &mut Call<'_>) -> Step {
    Step::Answer(Answer::Integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX)))
}

/// COMMAND LIST [FILTERBY MODULE|ACLCAT|PATTERN WORD].
pub(in crate::resp) fn command_list(call: &mut Call<'_>) -> Step {
    let is_filter = call.arguments.get(2).is_none_or(|word| word.eq_ignore_ascii_case(b"filterby"));
    let all = || COMMANDS.iter();
    let named = |found: Vec<&Command>| {
        Step::Answer(Answer::Array(found.into_iter().map(|command| Answer::bulk(command.name)).collect()))
    };
    match (call.arguments.len(), is_filter) {
        (2, _) => return named(all().collect()),
        (5, true) => {}
        _ => return Step::Answer(Answer::error("syntax error")),
    }
    let wanted = call.at(4).to_ascii_lowercase();
    match call.at(3).to_ascii_lowercase().as_slice() {
        b"module" => named(Vec::new()),
        b"aclcat" => {
            let is_of = |command: &&Command| {
                command.categories.split(' ').any(|category| category.as_bytes()[1..] == wanted)
            };
            named(all().filter(is_of).collect())
        }
        b"pattern" => {
            named(all().filter(|command| super::config::matches(&wanted, command.name.as_bytes())).collect())
        }
        _ => Step::Answer(Answer::error("syntax error")),
    }
}

/// HELP of a container: its parts.
pub(in crate::resp) fn help(call: &mut Call<'_>) -> Step {
    let container = table::by_name(COMMANDS, call.at(0)).expect("a container of the table");
    let name = container.name.to_uppercase();
    let title = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let parts = container.subcommands.iter().map(|part| part.name.to_uppercase());
    let lines = std::iter::once(title).chain(parts);
    Step::Answer(Answer::Array(lines.map(Answer::Line).collect()))
}

/// A command by its name, or a part of one as `client|list`.
fn named(name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let command = table::by_name(COMMANDS, parts.next()?)?;
    match parts.next() {
        None => Some(command),
        Some(part) => table::by_name(command.subcommands, part),
    }
}

/// COMMAND INFO.
pub(in crate::resp) fn command_info(call: &mut Call<'_>) -> Step {
    if call.arguments.len() == 2 {
        return command(call);
    }
    let told = call.arguments.from(2).map(|name| named(name).map_or(Answer::Null, described));
    Step::Answer(Answer::Array(told.collect()))
}

fn words(text: &'static str) -> Vec<Answer> {
    text.split(' ').filter(|word| !word.is_empty()).map(Answer::Simple).collect()
}

/// A command as COMMAND INFO has it.
fn described(command: &'static Command) -> Answer {
    let narrow = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let keys = command.keys;
    Answer::Array(vec![
        Answer::bulk(command.full_name),
        Answer::Integer(command.arity),
        Answer::Set(words(command.flags)),
        Answer::Integer(narrow(keys.first)),
        Answer::Integer(keys.last),
        Answer::Integer(narrow(keys.step)),
        Answer::Set(words(command.categories)),
        Answer::Set(command.tips.split(' ').filter(|tip| !tip.is_empty()).map(Answer::bulk).collect()),
        Answer::Set(key_specifications(command)),
        match command.subcommands {
            [] => Answer::Set(Vec::new()),
            parts => Answer::Array(parts.iter().map(described).collect()),
        },
    ])
}

/// Where keys begin and how they follow, as clients of clusters want it.
fn key_specifications(command: &Command) -> Vec<Answer> {
    let keys = command.keys;
    if keys.first == 0 {
        return Vec::new();
    }
    let narrow = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let map = |pairs: Vec<(&str, Answer)>| {
        Answer::Map(pairs.into_iter().map(|(name, value)| (Answer::bulk(name), value)).collect())
    };
    // The last key counts from the first.
    let last = if keys.last < 0 { keys.last } else { keys.last - narrow(keys.first) };
    let begin = vec![
        ("type", Answer::bulk("index")),
        ("spec", map(vec![("index", Answer::Integer(narrow(keys.first)))])),
    ];
    let range = vec![
        ("lastkey", Answer::Integer(last)),
        ("keystep", Answer::Integer(narrow(keys.step))),
        ("limit", Answer::Integer(0)),
    ];
    let find = vec![("type", Answer::bulk("range")), ("spec", map(range))];
    let (flags, notes) = access_of(command);
    let mut specification = vec![("flags", Answer::Set(words(flags)))];
    if !notes.is_empty() {
        specification.insert(0, ("notes", Answer::bulk(notes)));
    }
    specification.extend([("begin_search", map(begin)), ("find_keys", map(find))]);
    vec![map(specification)]
}

/// What a command does to its keys, and a remark, as Redis has them.
fn access_of(command: &Command) -> (&'static str, &'static str) {
    match command.name {
        "append" => ("RW insert", ""),
        "del" | "unlink" => ("RM delete", ""),
        "getdel" => ("RW access delete", ""),
        "getex" => ("RW access update", "RW and UPDATE because it changes the TTL"),
        "mset" | "psetex" | "setex" => ("OW update", ""),
        "msetnx" | "setnx" => ("OW insert", ""),
        "set" => ("RW access update variable_flags", "RW and ACCESS due to the optional `GET` argument"),
        "decr" | "decrby" | "getset" | "incr" | "incrby" | "incrbyfloat" => ("RW access update", ""),
        "expiretime" | "get" | "getrange" | "mget" | "pexpiretime" | "pttl" | "substr" | "ttl" => {
            ("RO access", "")
        }
        _ if command.has_flag("write") => ("RW update", ""),
        _ => ("RO", ""),
    }
}

/// COMMAND DOCS.
pub(in crate::resp) fn command_docs(call: &mut Call<'_>) -> Step {
    let told: Vec<&'static Command> = if call.arguments.len() == 2 {
        COMMANDS.iter().collect()
    } else {
        call.arguments.from(2).filter_map(named).collect()
    };
    let documented = |command: &&'static Command| (Answer::bulk(command.full_name), documents(command));
    Step::Answer(Answer::Map(told.iter().map(documented).collect()))
}

fn documents(command: &'static Command) -> Answer {
    let (group, since, summary) = command.docs;
    let mut pairs = vec![("summary", summary), ("since", since), ("group", group)];
    pairs.retain(|(_, text)| !text.is_empty());
    let mut pairs: Vec<_> =
        pairs.into_iter().map(|(name, text)| (Answer::bulk(name), Answer::bulk(text))).collect();
    if !command.subcommands.is_empty() {
        let parts = command.subcommands.iter().map(|part| (Answer::bulk(part.full_name), documents(part)));
        pairs.push((Answer::bulk("subcommands"), Answer::Map(parts.collect())));
    }
    Answer::Map(pairs)
}

/// COMMAND GETKEYS.
pub(in crate::resp) fn command_getkeys(call: &mut Call<'_>) -> Step {
    let inner = call.arguments.behind(2);
    let command = match table::find(inner) {
        Ok(command) => command,
        Err(Refused::Arity(_)) => {
            return Step::Answer(Answer::error("Invalid number of arguments specified for command"));
        }
        Err(_) => return Step::Answer(Answer::error("Invalid command specified")),
    };
    let keys = keys_of(command, inner);
    Step::Answer(if keys.is_empty() {
        Answer::error("The command has no key arguments")
    } else {
        Answer::Array(keys.into_iter().map(Answer::bulk).collect())
    })
}

fn keys_of<'a>(command: &Command, arguments: Arguments<'a>) -> Vec<&'a [u8]> {
    let keys = command.keys;
    if keys.first == 0 {
        return Vec::new();
    }
    let count = if keys.last < 0 { usize::MAX } else { 1 };
    arguments.from(keys.first).step_by(keys.step).take(count).collect()
}

/// INFO [SECTION...].
pub(in crate::resp) fn info(call: &mut Call<'_>) -> Step {
    let asked: Vec<Vec<u8>> = call.arguments.from(1).map(<[u8]>::to_ascii_lowercase).collect();
    let is_all = asked.is_empty()
        || asked.iter().any(|name| [&b"all"[..], b"default", b"everything"].contains(&name.as_slice()));
    let survey = match call.survey(Wanted::Figures) {
        Ok(survey) => survey,
        Err(step) => return step,
    };
    let mut text = String::new();
    for section in SECTIONS {
        if !is_all && !asked.iter().any(|name| name == section.as_bytes()) {
            continue;
        }
        if !text.is_empty() {
            text += "\r\n";
        }
        let title = format!("{}{}", section[..1].to_ascii_uppercase(), &section[1..]);
        text += &format!("# {}\r\n", if *section == "cpu" { "CPU" } else { &title });
        for (name, value) in lines_of(section, call.front, &survey) {
            // Writing to a string does not fail.
            let _written = write!(text, "{name}:{value}\r\n");
        }
    }
    Step::Answer(Answer::Text(text))
}

type Lines = Vec<(String, String)>;

fn lines_of(section: &str, front: &Front, survey: &Survey) -> Lines {
    match section {
        "server" => server_lines(front),
        "clients" => owned(&[
            ("connected_clients", survey.clients.to_string()),
            ("maxclients", front.settings.clients_max.to_string()),
            ("client_memory_bytes", survey.client_memory_bytes.to_string()),
            ("blocked_clients", "0".to_owned()),
        ]),
        "memory" => owned(&[
            ("used_memory", survey.facts.memory_bytes.to_string()),
            ("maxmemory", survey.facts.memory_bytes_max.to_string()),
            ("maxmemory_policy", "allkeys-lru".to_owned()),
        ]),
        "persistence" => owned(&[
            ("loading", "0".to_owned()),
            ("async_loading", "0".to_owned()),
            ("rdb_bgsave_in_progress", "0".to_owned()),
            ("aof_enabled", "0".to_owned()),
            ("aof_rewrite_in_progress", "0".to_owned()),
        ]),
        "stats" => statistics_lines(survey),
        "replication" => owned(&[("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        "cpu" => cpu_lines(),
        "keyspace" => keyspace_lines(survey),
        _ => survey.facts.lines.clone(),
    }
}

fn owned(lines: &[(&str, String)]) -> Lines {
    lines.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn server_lines(front: &Front) -> Lines {
    let settings = &front.settings;
    owned(&[
        ("redis_version", REDIS_VERSION.to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("server_name", "zoneweave".to_owned()),
        ("zoneweave_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("os", std::env::consts::OS.to_owned()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("run_id", settings.run_id.clone()),
        ("tcp_port", settings.port.to_string()),
        ("uptime_in_seconds", front.uptime_seconds().to_string()),
        ("uptime_in_days", (front.uptime_seconds() / 86_400).to_string()),
        ("executable", settings.executable.display().to_string()),
    ])
}

fn statistics_lines(survey: &Survey) -> Lines {
    let Survey { statistics, facts, .. } = survey;
    owned(&[
        ("total_connections_received", statistics.connections.to_string()),
        ("total_commands_processed", statistics.commands.to_string()),
        ("total_net_input_bytes", statistics.bytes_in.to_string()),
        ("total_net_output_bytes", statistics.bytes_out.to_string()),
        ("rejected_connections", statistics.connections_refused.to_string()),
        ("expired_keys", facts.objects_expired.to_string()),
        ("evicted_keys", facts.objects_evicted.to_string()),
        ("keyspace_hits", statistics.hits.to_string()),
        ("keyspace_misses", statistics.misses.to_string()),
        ("total_error_replies", statistics.errors.to_string()),
    ])
}

fn cpu_lines() -> Lines {
    let usage = rustix::param::clock_ticks_per_second();
    let times = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may have spaces; user and system time are the 12th and 13th behind it.
    let fields: Vec<u64> = times
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split(' ').map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    let seconds = |index: usize| {
        let ticks = fields.get(index).copied().unwrap_or(0);
        format!("{}.{:06}", ticks / usage, ticks % usage * 1_000_000 / usage)
    };
    owned(&[("used_cpu_sys", seconds(12)), ("used_cpu_user", seconds(11))])
}

fn keyspace_lines(survey: &Survey) -> Lines {
    let filled = survey.objects.iter().enumerate().filter(|(_, objects)| **objects > 0);
    filled
        .map(|(index, objects)| (format!("db{index}"), format!("keys={objects},expires=0,avg_ttl=0")))
        .collect()
}
