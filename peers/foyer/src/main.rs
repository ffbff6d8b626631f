//! What foyer finds after a kill: `zoneweave lab cache peers --foyer PATH` runs it.
//!
//! ```text
//! zoneweave-peer-foyer write DIR OBJECTS CHANGED TOMBSTONES WAIT   stores, overwrites, removes, says `ready`, and waits to be killed
//! zoneweave-peer-foyer read  DIR OBJECTS CHANGED TOMBSTONES WAIT   opens what is there and says what it finds, as JSON
//! ```
//! OBJECTS have values of 100 bytes under keys of 32. All are on flash when the first CHANGED of them are overwritten and the next CHANGED
//! removed. TOMBSTONES is `log` for foyer's tombstone log, else `none`; WAIT is `wait` to wait for foyer's writes after the changes, else `now`.

use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy,
};
use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

type Cache = HybridCache<String, Vec<u8>>;
type Failure = Box<dyn Error>;

const FLASH_BYTES: usize = 1 << 30;
const MEMORY_BYTES: usize = 32 << 20;
const VALUE_BYTES: usize = 100;
/// Objects after which foyer's writes are waited for: it drops what its queue has no room for.
const BATCH: u64 = 1_000;

struct Plan {
    objects: u64,
    changed: u64,
    has_tombstones: bool,
    waits: bool,
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, dir, objects, changed, tombstones, wait] = &words[..] else {
        return Err("usage: zoneweave-peer-foyer write|read DIR OBJECTS CHANGED log|none wait|now".into());
    };
    let plan = Plan {
        objects: objects.parse()?,
        changed: changed.parse()?,
        has_tombstones: tombstones == "log",
        waits: wait == "wait",
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match what.as_str() {
        "write" => runtime.block_on(write(Path::new(dir), &plan)),
        "read" => runtime.block_on(read(Path::new(dir), &plan)),
        other => Err(format!("there is no `{other}`").into()),
    }
}

/// Opens what is there, or makes it. What is stored goes to flash at once, as far as foyer lets one ask for that.
async fn open(dir: &Path, plan: &Plan) -> Result<Cache, Failure> {
    let device = FsDeviceBuilder::new(dir).with_capacity(FLASH_BYTES).build()?;
    let engine = BlockEngineConfig::new(device).with_tombstone_log(plan.has_tombstones);
    let cache =
        HybridCacheBuilder::new().with_policy(HybridCachePolicy::WriteOnInsertion).memory(MEMORY_BYTES);
    let cache = cache.with_weighter(|key: &String, value: &Vec<u8>| key.len() + value.len());
    Ok(cache.storage().with_engine_config(engine).build().await?)
}

fn key(number: u64) -> String {
    format!("{number:032}")
}

fn value(number: u64, version: u32) -> Vec<u8> {
    let mut value = format!("{number} {version} ").into_bytes();
    value.resize(VALUE_BYTES, b'v');
    value
}

async fn store(cache: &Cache, numbers: Range<u64>, version: u32) {
    for number in numbers {
        cache.insert(key(number), value(number, version));
        if number % BATCH == BATCH - 1 {
            cache.storage().wait().await;
        }
    }
}

async fn write(dir: &Path, plan: &Plan) -> Result<(), Failure> {
    let cache = open(dir, plan).await?;
    store(&cache, 0..plan.objects, 0).await;
    cache.storage().wait().await;
    // Nothing of it is left to chance.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for number in 0..plan.changed {
        cache.insert(key(number), value(number, 1));
    }
    for number in plan.changed..2 * plan.changed {
        cache.remove(&key(number));
    }
    if plan.waits {
        cache.storage().wait().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    println!("ready");
    loop {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
}

/// Of a range of objects: those that have the value of a version, that have the one before, and that have another.
#[derive(Default)]
struct Found {
    right: u64,
    older: u64,
    wrong: u64,
}

async fn look(cache: &Cache, numbers: Range<u64>, version: u32) -> Result<Found, Failure> {
    let mut found = Found::default();
    for number in numbers {
        let Some(entry) = cache.get(&key(number)).await? else { continue };
        if *entry.value() == value(number, version) {
            found.right += 1;
        } else if version > 0 && *entry.value() == value(number, version - 1) {
            found.older += 1;
        } else {
            found.wrong += 1;
        }
    }
    Ok(found)
}

async fn read(dir: &Path, plan: &Plan) -> Result<(), Failure> {
    let began = Instant::now();
    let cache = open(dir, plan).await?;
    cache.get(&key(plan.objects - 1)).await?;
    let seconds = began.elapsed().as_secs_f64();
    let over = look(&cache, 0..plan.changed, 1).await?;
    let removed = look(&cache, plan.changed..2 * plan.changed, 0).await?;
    let kept = look(&cache, 2 * plan.changed..plan.objects, 0).await?;
    println!(
        "{{\"seconds\": {seconds}, \"kept\": {}, \"newer\": {}, \"older\": {}, \"removed\": {}, \"wrong\": {}}}",
        kept.right,
        over.right,
        over.older,
        removed.right,
        kept.wrong + over.wrong + removed.wrong
    );
    // Nothing is written on the way out.
    std::process::exit(0);
}
