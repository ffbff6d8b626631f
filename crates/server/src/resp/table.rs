//! All commands: names, counts of arguments, flags, where their keys are, and what runs them.
//!
//! Arity, flags, categories and tips are those that Redis 7.0 tells by COMMAND INFO.

use super::call::{Call, Step};
use super::commands::{
    client, config, connection, expiry, introspection, keys, kill, scan, server, strings, transaction,
};
use super::parser::Arguments;
use std::borrow::Cow;
use std::fmt;

/// Where the keys of a command are: first and last argument, and the step between them. A negative last counts
/// from the end; all zero without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// First argument that is a key.
    pub first: usize,
    /// Last of them.
    pub last: i64,
    /// Step from one to the next.
    pub step: usize,
}

/// A command.
pub struct Command {
    /// Name in small letters.
    pub name: &'static str,
    /// The name, after that of the command it belongs to: `client|list`.
    pub full_name: &'static str,
    /// Count of arguments, the name among them; at least as many when negative.
    pub arity: i64,
    /// Flags, with spaces between.
    pub flags: &'static str,
    /// Keys.
    pub keys: Keys,
    /// Categories of access control.
    pub categories: &'static str,
    /// Tips for clients.
    pub tips: &'static str,
    /// Group, and version of Redis that had it first.
    pub docs: (&'static str, &'static str, &'static str),
    /// All before it are answered first, and nothing begins before it is.
    pub is_fence: bool,
    /// It runs within MULTI too, where others are queued.
    pub is_at_once: bool,
    /// Commands that this one contains.
    pub subcommands: &'static [Command],
    pub(super) run: fn(&mut Call<'_>) -> Step,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.full_name)
    }
}

impl Command {
    /// True when the command has this flag.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|name| name == flag)
    }

    fn fits(&self, count: usize) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }

    const fn fence(mut self) -> Command {
        assert!(!self.is_at_once, "a command that runs within MULTI waits for nobody");
        self.is_fence = true;
        self
    }

    const fn at_once(mut self) -> Command {
        assert!(!self.is_fence, "a fence within MULTI would wait for its own transaction");
        self.is_at_once = true;
        self
    }

    const fn with(mut self, subcommands: &'static [Command]) -> Command {
        assert!(!subcommands.is_empty() && self.arity < 0, "parts are told apart by a second argument");
        self.subcommands = subcommands;
        self
    }

    /// A part whose second argument is a key.
    const fn of_key(mut self, categories: &'static str) -> Command {
        assert!(self.arity.unsigned_abs() > 2, "the second argument is there");
        self.keys = Keys { first: 2, last: 2, step: 1 };
        self.belonging_to("readonly", categories)
    }

    /// Flags and categories of a part.
    const fn belonging_to(mut self, flags: &'static str, categories: &'static str) -> Command {
        (self.flags, self.categories) = (flags, categories);
        self
    }

    const fn tips(mut self, tips: &'static str) -> Command {
        assert!(self.tips.is_empty() && !tips.is_empty(), "tips are given once");
        self.tips = tips;
        self
    }

    const fn docs(mut self, group: &'static str, since: &'static str, summary: &'static str) -> Command {
        assert!(!group.is_empty(), "a command belongs to a group");
        self.docs = (group, since, summary);
        self
    }
}

const NO_KEYS: Keys = Keys { first: 0, last: 0, step: 0 };
const ONE_KEY: Keys = Keys { first: 1, last: 1, step: 1 };
const ALL_KEYS: Keys = Keys { first: 1, last: -1, step: 1 };
const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };

const fn command(
    name: &'static str,
    arity: i64,
    flags: &'static str,
    keys: Keys,
    categories: &'static str,
    run: fn(&mut Call<'_>) -> Step,
) -> Command {
    assert!(!name.is_empty() && arity != 0, "the name is among the arguments");
    assert!(arity.unsigned_abs() > keys.first as u64, "the first key is among those that must be there");
    assert!((keys.first == 0) == (keys.step == 0), "keys have a step, and nothing else has");
    Command {
        name,
        full_name: name,
        arity,
        flags,
        keys,
        categories,
        tips: "",
        docs: ("generic", "1.0.0", ""),
        is_fence: false,
        is_at_once: false,
        subcommands: &[],
        run,
    }
}

const fn part(
    full_name: &'static str,
    name: &'static str,
    arity: i64,
    run: fn(&mut Call<'_>) -> Step,
) -> Command {
    assert!(full_name.len() > name.len() + 1, "a part has its command before its name");
    let mut part = command(name, arity, "noscript loading stale", NO_KEYS, "@slow @connection", run)
        .docs("server", "", "");
    part.full_name = full_name;
    part
}

const fn read(name: &'static str, arity: i64, keys: Keys, run: fn(&mut Call<'_>) -> Step) -> Command {
    command(name, arity, "readonly fast", keys, "@read @string @fast", run)
}

const fn write(name: &'static str, arity: i64, keys: Keys, run: fn(&mut Call<'_>) -> Step) -> Command {
    command(name, arity, "write denyoom", keys, "@write @string @slow", run)
}

const fn write_fast(name: &'static str, arity: i64, run: fn(&mut Call<'_>) -> Step) -> Command {
    command(name, arity, "write denyoom fast", ONE_KEY, "@write @string @fast", run)
}

const fn about_keys(
    name: &'static str,
    arity: i64,
    flags: &'static str,
    keys: Keys,
    run: fn(&mut Call<'_>) -> Step,
) -> Command {
    command(name, arity, flags, keys, "@keyspace @write @fast", run)
}

const fn asks_keys(name: &'static str, arity: i64, keys: Keys, run: fn(&mut Call<'_>) -> Step) -> Command {
    command(name, arity, "readonly fast", keys, "@keyspace @read @fast", run)
}

const fn talk(
    name: &'static str,
    arity: i64,
    flags: &'static str,
    run: fn(&mut Call<'_>) -> Step,
) -> Command {
    command(name, arity, flags, NO_KEYS, "@fast @connection", run)
}

const FOR_ALL: &str = "noscript loading stale fast no_auth allow_busy";
const MANY_KEYS: &str = "request_policy:multi_shard";
const SUM_OF_KEYS: &str = "request_policy:multi_shard response_policy:agg_sum";
const ALL_SHARDS: &str = "request_policy:all_shards response_policy:all_succeeded";

/// All commands, by name.
pub static COMMANDS: &[Command] = &[
    write_fast("append", 3, strings::append).docs("string", "2.0.0", "Appends to a value, or sets it"),
    talk("auth", -2, FOR_ALL, connection::auth).docs("connection", "1.0.0", "Says the password"),
    command("client", -2, "", NO_KEYS, "@slow", introspection::container).with(CLIENT).docs(
        "connection",
        "2.4.0",
        "Commands about connections",
    ),
    command("command", -1, "loading stale", NO_KEYS, "@slow @connection", introspection::command)
        .with(COMMAND)
        .tips("nondeterministic_output_order")
        .docs("server", "2.8.13", "Tells what commands there are"),
    command("config", -2, "", NO_KEYS, "@slow", introspection::container).with(CONFIG).docs(
        "server",
        "2.0.0",
        "Commands about settings",
    ),
    asks_keys("dbsize", 1, NO_KEYS, keys::dbsize)
        .fence()
        .tips("request_policy:all_shards response_policy:agg_sum")
        .docs("server", "1.0.0", "Counts the keys of the database"),
    command("debug", -2, "admin noscript loading stale", NO_KEYS, "@admin @slow @dangerous", server::debug)
        .docs("server", "1.0.0", "Makes the server sleep, where it allows that"),
    write_fast("decr", 2, strings::decr).docs("string", "1.0.0", "Takes one from a number"),
    write_fast("decrby", 3, strings::decrby).docs("string", "1.0.0", "Takes from a number"),
    command("del", -2, "write", ALL_KEYS, "@keyspace @write @slow", keys::del).tips(SUM_OF_KEYS).docs(
        "generic",
        "1.0.0",
        "Deletes keys",
    ),
    command("discard", 1, FOR_TRANSACTIONS, NO_KEYS, "@fast @transaction", transaction::discard)
        .at_once()
        .docs("transactions", "2.0.0", "Gives up a transaction"),
    talk("echo", 2, "loading stale fast", connection::echo).docs(
        "connection",
        "1.0.0",
        "Says what it is told",
    ),
    command(
        "exec",
        1,
        "noscript loading stale skip_slowlog",
        NO_KEYS,
        "@slow @transaction",
        transaction::exec,
    )
    .at_once()
    .docs("transactions", "1.2.0", "Runs a transaction"),
    asks_keys("exists", -2, ALL_KEYS, keys::exists).tips(SUM_OF_KEYS).docs(
        "generic",
        "1.0.0",
        "Counts those keys that exist",
    ),
    about_keys("expire", -3, "write fast", ONE_KEY, expiry::expire).docs(
        "generic",
        "1.0.0",
        "Sets the time left of a key in seconds",
    ),
    about_keys("expireat", -3, "write fast", ONE_KEY, expiry::expireat).docs(
        "generic",
        "1.2.0",
        "Sets the end of a key as Unix time in seconds",
    ),
    asks_keys("expiretime", 2, ONE_KEY, expiry::expiretime).docs(
        "generic",
        "7.0.0",
        "Tells the end of a key as Unix time in seconds",
    ),
    command("flushall", -1, "write", NO_KEYS, "@keyspace @write @slow @dangerous", keys::flushall)
        .fence()
        .tips(ALL_SHARDS)
        .docs("server", "1.0.0", "Deletes all keys"),
    command("flushdb", -1, "write", NO_KEYS, "@keyspace @write @slow @dangerous", keys::flushdb)
        .fence()
        .tips(ALL_SHARDS)
        .docs("server", "1.0.0", "Deletes all keys of the database"),
    command("function", -2, "", NO_KEYS, "@slow", introspection::container).with(FUNCTION).docs(
        "scripting",
        "7.0.0",
        "Commands about functions, of which there are none",
    ),
    read("get", 2, ONE_KEY, strings::get).docs("string", "1.0.0", "Tells a value"),
    command("getdel", 2, "write fast", ONE_KEY, "@write @string @fast", strings::getdel).docs(
        "string",
        "6.2.0",
        "Tells a value and deletes the key",
    ),
    command("getex", -2, "write fast", ONE_KEY, "@write @string @fast", strings::getex).docs(
        "string",
        "6.2.0",
        "Tells a value and sets its end",
    ),
    command("getrange", 4, "readonly", ONE_KEY, "@read @string @slow", strings::getrange).docs(
        "string",
        "2.4.0",
        "Tells a part of a value",
    ),
    write_fast("getset", 3, strings::getset).docs("string", "1.0.0", "Sets a value and tells the one before"),
    talk("hello", -1, FOR_ALL, connection::hello).docs("connection", "6.0.0", "Agrees on a protocol"),
    write_fast("incr", 2, strings::incr).docs("string", "1.0.0", "Adds one to a number"),
    write_fast("incrby", 3, strings::incrby).docs("string", "1.0.0", "Adds to a number"),
    write_fast("incrbyfloat", 3, strings::incrbyfloat).docs(
        "string",
        "2.6.0",
        "Adds to a number with a point",
    ),
    command("info", -1, "loading stale", NO_KEYS, "@slow @dangerous", introspection::info)
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("server", "1.0.0", "Tells about the server"),
    command("keys", 2, "readonly", NO_KEYS, "@keyspace @read @slow @dangerous", scan::keys)
        .fence()
        .tips("request_policy:all_shards nondeterministic_output_order")
        .docs("generic", "1.0.0", "Lists keys that match a pattern"),
    command("latency", -2, "", NO_KEYS, "@slow", introspection::container).with(LATENCY).docs(
        "server",
        "2.8.13",
        "Commands about latencies, which are not recorded",
    ),
    command("memory", -2, "", NO_KEYS, "@slow", introspection::container).with(MEMORY).docs(
        "server",
        "4.0.0",
        "Commands about memory",
    ),
    read("mget", -2, ALL_KEYS, strings::mget).tips(MANY_KEYS).docs("string", "1.0.0", "Tells many values"),
    write("mset", -3, PAIRS, strings::mset)
        .tips("request_policy:multi_shard response_policy:all_succeeded")
        .docs("string", "1.0.1", "Sets many values"),
    write("msetnx", -3, PAIRS, strings::msetnx)
        .fence()
        .tips("request_policy:multi_shard response_policy:agg_min")
        .docs("string", "1.0.1", "Sets many values if none of the keys exists"),
    command("multi", 1, FOR_TRANSACTIONS, NO_KEYS, "@fast @transaction", transaction::multi).at_once().docs(
        "transactions",
        "1.2.0",
        "Begins a transaction",
    ),
    command("object", -2, "", NO_KEYS, "@slow", introspection::container).with(OBJECT).docs(
        "generic",
        "2.2.3",
        "Commands about what is stored",
    ),
    about_keys("persist", 2, "write fast", ONE_KEY, expiry::persist).docs(
        "generic",
        "2.2.0",
        "Makes a key stay",
    ),
    about_keys("pexpire", -3, "write fast", ONE_KEY, expiry::pexpire).docs(
        "generic",
        "2.6.0",
        "Sets the time left of a key in milliseconds",
    ),
    about_keys("pexpireat", -3, "write fast", ONE_KEY, expiry::pexpireat).docs(
        "generic",
        "2.6.0",
        "Sets the end of a key as Unix time in milliseconds",
    ),
    asks_keys("pexpiretime", 2, ONE_KEY, expiry::pexpiretime).docs(
        "generic",
        "7.0.0",
        "Tells the end of a key as Unix time in milliseconds",
    ),
    talk("ping", -1, "fast", connection::ping).tips(ALL_SHARDS).docs("connection", "1.0.0", "Answers"),
    write("psetex", 4, ONE_KEY, strings::psetex).docs(
        "string",
        "2.6.0",
        "Sets a value with its time in milliseconds",
    ),
    asks_keys("pttl", 2, ONE_KEY, expiry::pttl).tips("nondeterministic_output").docs(
        "generic",
        "2.6.0",
        "Tells the time left of a key in milliseconds",
    ),
    talk("quit", -1, FOR_ALL, connection::quit).at_once().docs(
        "connection",
        "1.0.0",
        "Closes the connection",
    ),
    command("randomkey", 1, "readonly", NO_KEYS, "@keyspace @read @slow", scan::randomkey)
        .fence()
        .tips("request_policy:all_shards nondeterministic_output")
        .docs("generic", "1.0.0", "Tells any key"),
    talk("reset", 1, FOR_ALL, connection::reset).at_once().docs(
        "connection",
        "6.2.0",
        "Makes the connection as new",
    ),
    command("role", 1, "noscript loading stale fast", NO_KEYS, "@admin @fast @dangerous", server::role).docs(
        "server",
        "2.8.12",
        "Tells the role in replication",
    ),
    command("scan", -2, "readonly", NO_KEYS, "@keyspace @read @slow", scan::scan)
        .fence()
        .tips("nondeterministic_output request_policy:special")
        .docs("generic", "2.8.0", "Lists keys, part by part"),
    talk("select", 2, "loading stale fast", connection::select).docs(
        "connection",
        "1.0.0",
        "Chooses a database",
    ),
    write("set", -3, ONE_KEY, strings::set).docs("string", "1.0.0", "Sets a value"),
    write("setex", 4, ONE_KEY, strings::setex).docs(
        "string",
        "2.0.0",
        "Sets a value with its time in seconds",
    ),
    write_fast("setnx", 3, strings::setnx).docs("string", "1.0.0", "Sets a value if the key does not exist"),
    write("setrange", 4, ONE_KEY, strings::setrange).docs("string", "2.2.0", "Overwrites a part of a value"),
    command("slowlog", -2, "", NO_KEYS, "@slow", introspection::container).with(SLOWLOG).docs(
        "server",
        "2.2.12",
        "Commands about slow commands, which are not recorded",
    ),
    read("strlen", 2, ONE_KEY, strings::strlen).docs("string", "2.2.0", "Tells the length of a value"),
    command("substr", 4, "readonly", ONE_KEY, "@read @string @slow", strings::getrange).docs(
        "string",
        "1.0.0",
        "Tells a part of a value",
    ),
    command("time", 1, "loading stale fast", NO_KEYS, "@fast", connection::time)
        .tips("nondeterministic_output")
        .docs("server", "2.6.0", "Tells the time"),
    asks_keys("touch", -2, ALL_KEYS, keys::touch).tips(SUM_OF_KEYS).docs(
        "generic",
        "3.2.1",
        "Counts those keys that exist, and notes their use",
    ),
    asks_keys("ttl", 2, ONE_KEY, expiry::ttl).tips("nondeterministic_output").docs(
        "generic",
        "1.0.0",
        "Tells the time left of a key in seconds",
    ),
    asks_keys("type", 2, ONE_KEY, keys::type_of).docs("generic", "1.0.0", "Tells the type of a value"),
    about_keys("unlink", -2, "write fast", ALL_KEYS, keys::del).tips(SUM_OF_KEYS).docs(
        "generic",
        "4.0.0",
        "Deletes keys",
    ),
    command("unwatch", 1, FOR_TRANSACTIONS, NO_KEYS, "@fast @transaction", transaction::unwatch).docs(
        "transactions",
        "2.2.0",
        "Forgets watched keys, of which there are none",
    ),
    command("wait", 3, "noscript", NO_KEYS, "@slow @connection", server::wait)
        .tips("request_policy:all_shards response_policy:agg_min")
        .docs("generic", "3.0.0", "Counts replicas, of which there are none"),
    command("watch", -2, FOR_TRANSACTIONS, ALL_KEYS, "@fast @transaction", transaction::watch)
        .at_once()
        .docs("transactions", "2.2.0", "Is refused"),
];

const FOR_TRANSACTIONS: &str = "noscript loading stale fast allow_busy";

const ADMIN: &str = "admin noscript loading stale";
const ADMINS: &str = "@admin @slow @dangerous";
const ADMINS_OF_CLIENTS: &str = "@admin @slow @dangerous @connection";
const LOADING: &str = "loading stale";
const OF_SERVER: &str = "@slow";

const CLIENT: &[Command] = &[
    part("client|getname", "getname", 2, client::getname),
    part("client|help", "help", 2, introspection::help),
    part("client|id", "id", 2, client::id),
    part("client|info", "info", 2, client::info).tips("nondeterministic_output"),
    part("client|kill", "kill", -3, kill::kill).belonging_to(ADMIN, ADMINS_OF_CLIENTS),
    part("client|list", "list", -2, client::list)
        .belonging_to(ADMIN, ADMINS_OF_CLIENTS)
        .tips("nondeterministic_output"),
    part("client|no-evict", "no-evict", 3, client::no_evict).belonging_to(ADMIN, ADMINS_OF_CLIENTS),
    part("client|no-touch", "no-touch", 3, client::no_evict),
    part("client|reply", "reply", 3, client::reply),
    part("client|setinfo", "setinfo", 4, client::setinfo),
    part("client|setname", "setname", 3, client::setname),
];

const FUNCTION: &[Command] = &[
    part("function|flush", "flush", -2, server::function_flush)
        .belonging_to("write noscript", "@write @slow @scripting")
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    part("function|help", "help", 2, introspection::help).belonging_to(LOADING, "@slow @scripting"),
];

const LATENCY: &[Command] = &[
    part("latency|doctor", "doctor", 2, server::latency_doctor)
        .belonging_to(ADMIN, ADMINS)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    part("latency|graph", "graph", 3, server::latency_graph)
        .belonging_to(ADMIN, ADMINS)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    part("latency|help", "help", 2, introspection::help).belonging_to(LOADING, OF_SERVER),
    part("latency|histogram", "histogram", -2, server::latency_histogram)
        .belonging_to(ADMIN, ADMINS)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    part("latency|history", "history", 3, server::nothing)
        .belonging_to(ADMIN, ADMINS)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    part("latency|latest", "latest", 2, server::nothing)
        .belonging_to(ADMIN, ADMINS)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    part("latency|reset", "reset", -2, server::none)
        .belonging_to(ADMIN, ADMINS)
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

const MEMORY: &[Command] = &[
    part("memory|help", "help", 2, introspection::help).belonging_to(LOADING, OF_SERVER),
    part("memory|usage", "usage", -3, server::memory_usage).of_key("@read @slow"),
];

const OBJECT: &[Command] = &[
    part("object|encoding", "encoding", 3, server::object_encoding)
        .of_key("@keyspace @read @slow")
        .tips("nondeterministic_output"),
    part("object|freq", "freq", 3, server::object_freq)
        .of_key("@keyspace @read @slow")
        .tips("nondeterministic_output"),
    part("object|help", "help", 2, introspection::help).belonging_to(LOADING, "@keyspace @slow"),
    part("object|idletime", "idletime", 3, server::object_idletime)
        .of_key("@keyspace @read @slow")
        .tips("nondeterministic_output"),
    part("object|refcount", "refcount", 3, server::object_refcount)
        .of_key("@keyspace @read @slow")
        .tips("nondeterministic_output"),
];

const SLOWLOG: &[Command] = &[
    part("slowlog|get", "get", -2, server::slowlog_get)
        .belonging_to("admin loading stale", ADMINS)
        .tips("request_policy:all_nodes nondeterministic_output"),
    part("slowlog|help", "help", 2, introspection::help).belonging_to(LOADING, OF_SERVER),
    part("slowlog|len", "len", 2, server::none)
        .belonging_to("admin loading stale", ADMINS)
        .tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output"),
    part("slowlog|reset", "reset", 2, server::done)
        .belonging_to("admin loading stale", ADMINS)
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

const COMMAND: &[Command] = &[
    part("command|count", "count", 2, introspection::command_count)
        .belonging_to(LOADING, "@slow @connection"),
    part("command|docs", "docs", -2, introspection::command_docs)
        .belonging_to(LOADING, "@slow @connection")
        .tips("nondeterministic_output_order"),
    part("command|getkeys", "getkeys", -4, introspection::command_getkeys)
        .belonging_to(LOADING, "@slow @connection"),
    part("command|help", "help", 2, introspection::help).belonging_to(LOADING, "@slow @connection"),
    part("command|info", "info", -2, introspection::command_info)
        .belonging_to(LOADING, "@slow @connection")
        .tips("nondeterministic_output_order"),
    part("command|list", "list", -2, introspection::command_list)
        .belonging_to(LOADING, "@slow @connection")
        .tips("nondeterministic_output_order"),
];

const CONFIG: &[Command] = &[
    part("config|get", "get", -3, config::get).belonging_to(ADMIN, ADMINS),
    part("config|help", "help", 2, introspection::help).belonging_to(LOADING, OF_SERVER),
    part("config|resetstat", "resetstat", 2, config::resetstat).belonging_to(ADMIN, ADMINS),
    part("config|set", "set", -4, config::set)
        .belonging_to(ADMIN, ADMINS)
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nobody knows it: its name and the beginning of its arguments.
    Unknown(String, String),
    /// Its container does not know it: its name, and the container's.
    UnknownPart(String, &'static str),
    /// It has too few arguments, or too many.
    Arity(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown(name, arguments) => {
                write!(f, "unknown command '{name}', with args beginning with: {arguments}")
            }
            Refused::UnknownPart(name, container) => {
                let container = container.to_uppercase();
                write!(f, "unknown subcommand '{name}'. Try {container} HELP.")
            }
            Refused::Arity(name) => write!(f, "wrong number of arguments for '{name}' command"),
        }
    }
}

/// Most bytes of a client's words in an error.
const QUOTED_BYTES_MAX: usize = 128;

/// Finds the command that the arguments name, and counts them.
///
/// # Errors
/// In the words of Redis.
pub fn find(arguments: Arguments<'_>) -> Result<&'static Command, Refused> {
    let Some(command) = by_name(COMMANDS, arguments.at(0)) else {
        return Err(Refused::Unknown(
            quoted(arguments.at(0), QUOTED_BYTES_MAX).into_owned(),
            beginning(arguments),
        ));
    };
    if command.subcommands.is_empty() || arguments.len() == 1 {
        return if command.fits(arguments.len()) {
            Ok(command)
        } else {
            Err(Refused::Arity(command.full_name))
        };
    }
    match by_name(command.subcommands, arguments.at(1)) {
        None => {
            Err(Refused::UnknownPart(quoted(arguments.at(1), QUOTED_BYTES_MAX).into_owned(), command.name))
        }
        Some(part) if part.fits(arguments.len()) => Ok(part),
        Some(part) => Err(Refused::Arity(part.full_name)),
    }
}

/// Finds a command by its name, in letters of any case.
#[must_use]
pub fn by_name(commands: &'static [Command], name: &[u8]) -> Option<&'static Command> {
    let lower = |byte: &u8| byte.to_ascii_lowercase();
    let found = commands.binary_search_by(|command| command.name.bytes().cmp(name.iter().map(lower)));
    found.ok().map(|index| &commands[index])
}

/// True for words with which requests of HTTP begin lines, and no command of Redis does: a browser was
/// made to send a form here.
#[must_use]
pub fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The text before its first zero, cut.
fn quoted(text: &[u8], bytes_max: usize) -> Cow<'_, str> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end.min(bytes_max)])
}

fn beginning(arguments: Arguments<'_>) -> String {
    let mut text = String::new();
    for argument in arguments.from(1) {
        if text.len() >= QUOTED_BYTES_MAX {
            break;
        }
        text += &format!("'{}' ", quoted(argument, QUOTED_BYTES_MAX - text.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order_and_named_once() {
        for commands in [COMMANDS, CLIENT, COMMAND, CONFIG, FUNCTION, LATENCY, MEMORY, OBJECT, SLOWLOG] {
            assert!(commands.is_sorted_by(|a, b| a.name < b.name));
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(by_name(COMMANDS, b"GeT").map(|command| command.name), Some("get"));
        assert!(by_name(COMMANDS, b"get\0").is_none());
        assert!(by_name(COMMANDS, b"").is_none());
        assert!(by_name(COMMANDS, &[255; 4096]).is_none());
    }
}
