//! `zoneweave cache flush`: all objects are gone, at once and for good, whether somebody serves the cache or not.

use super::directory::CacheDirectory;
use super::errands::{Wish, named, own_word, word_of};
use super::offline::Offline;
use super::options::CacheFlush;
use crate::exit::Exit;
use crate::replace::ask_at_until_done;
use anyhow::Result;
use cache::request::{Namespace, Op, Outcome};
use serde_json::{Value, json};

/// Flushes a cache.
pub fn run(options: &CacheFlush) -> Result<Exit> {
    let directory = CacheDirectory::open(&options.dir)?;
    let line = format!("flush {} {}", word_of(options.namespace), own_word());
    let served: Option<Value> = ask_at_until_done(&directory.control_path(), "cache", &line)?;
    let is_served = served.is_some();
    let said = match served {
        Some(said) => said,
        None => {
            sum(Offline::mount(&directory)?.ask(&|| op(options.namespace)).into_iter().map(say).collect(), 0)
        }
    };
    let dir = options.dir.display();
    if let Some(refused) = said["refused"].as_str() {
        return Err(Exit::Failed.error(format!("{dir}: {refused}")));
    }
    if options.json {
        println!("{}", json!({ "flushed": true, "namespace": options.namespace, "served": is_served }));
    } else {
        match options.namespace {
            Some(namespace) => println!("{dir}: database {namespace} is empty"),
            None => println!("{dir}: all databases are empty"),
        }
    }
    Ok(Exit::Well)
}

fn op(namespace: Option<u8>) -> Op {
    Op::Clear { namespace: namespace.map(Namespace) }
}

/// Wish by the rest of a line `flush all WORD`, or of a number.
pub fn wish(words: &str) -> Option<Wish> {
    let (what, _) = words.split_once(' ')?;
    let what = named(what)?;
    Some(Wish { shard: None, namespace: 0, op: Box::new(move || op(what)), say, sum })
}

/// Refusal of the first shard that refuses, or an empty answer.
fn sum(said: Vec<Value>, _: usize) -> Value {
    said.into_iter().find(|said| said.get("refused").is_some()).unwrap_or_else(|| json!({}))
}

fn say(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Refused(_) => {
            json!({ "refused": "no drive of the cache takes writes: replace those that failed" })
        }
        _ => json!({}),
    }
}
