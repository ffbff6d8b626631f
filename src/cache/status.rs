//! `zoneweave cache status`: what a cache says of itself while it is served, and what is known of it else.

mod watch;

use super::directory::{CacheDirectory, CacheDrive};
use super::options::CacheStatus;
use crate::exit::Exit;
use anyhow::{Context, Result};
use base::time::Nanos;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use cache::Status;
use cache::admission::{Admission, WHOLE};
use cache::policy::Stream;
use cache::request::Namespace;
use cache::status::{DriveStatus, NamespaceStatus, Recovery, StreamZones, ZoneCounts};
use drive::any::Peek;
use drive::emulated::DriveProblem;
use indicatif::HumanDuration;
use serde_json::{Value, json};
use server::control::{self, AskError};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

/// Names of the streams, in their order; those of shares have one together.
const STREAMS: [&str; Stream::COMMON.len() + 1] = ["young", "main", "minutes", "hours", "days", "shares"];

/// Shows the status of a cache, once or again and again.
pub fn run(options: &CacheStatus) -> Result<Exit> {
    let directory = CacheDirectory::open(&options.dir)?;
    if let Some(every) = options.watch {
        return watch::run(&directory, every, options.json);
    }
    let (report, is_degraded) = look(&directory)?;
    if options.json {
        println!("{report}");
    } else {
        print!("{}", in_words(&report, &options.dir.display().to_string()));
    }
    Ok(if is_degraded { Exit::Degraded } else { Exit::Well })
}

/// Status of a cache, and whether a drive is missing.
pub fn look(directory: &CacheDirectory) -> Result<(Value, bool)> {
    let mut report = match control::ask(&directory.control_path(), "status") {
        Ok(answer) => serde_json::from_str(&answer).context("the server's answer")?,
        Err(AskError::NoServer { source, .. })
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            not_served(directory)
        }
        Err(error) => return Err(Exit::Busy.because(error)),
    };
    report["size"] = json!(directory.file.size);
    let members = directory.file.drives();
    report["members"] = json!(members);
    let is_degraded = report["drives"].as_u64().is_some_and(|up| up < members as u64);
    Ok((report, is_degraded))
}

/// A cache that is served, as its status is made of.
pub struct Seen<'a> {
    /// The cache.
    pub status: Status,
    /// Drives by their places.
    pub drives: Vec<DriveStatus>,
    /// Directory of the cache, which names its drives.
    pub directory: &'a CacheDirectory,
    /// Names of its namespaces.
    pub names: &'a BTreeMap<Namespace, String>,
    /// Time that it took to find what was there.
    pub recovered_in: Nanos,
}

/// Drives as JSON.
fn drives(seen: &Seen<'_>) -> Vec<Value> {
    let states = &seen.drives;
    let one = |(place, entry): (usize, &CacheDrive)| {
        let drive = states.get(place).copied().unwrap_or_default();
        let state = match (entry.is_free(), drive.up) {
            (true, _) => "removed",
            (false, true) => "active",
            (false, false) => "failed",
        };
        let path = (!entry.is_free()).then(|| seen.directory.drive_path(entry));
        json!({
            "drive": place,
            "state": state,
            "path": path,
            "uuid": path.as_ref().map(|_| entry.uuid),
            "bytes": drive.bytes,
            "bytes_used": drive.bytes_used,
            "zones": zones(&drive.zones),
            "journal_zones_max": drive.journal_zones_max,
            "in_flight": drive.in_flight,
        })
    };
    seen.directory.file.drive.iter().enumerate().map(one).collect()
}

fn zones(zones: &ZoneCounts) -> Value {
    let mut counts = json!({
        "free": zones.free, "open": zones.open, "full": zones.full, "journal": zones.journal, "leaving": zones.leaving,
    });
    for place in Stream::Main.place()..Stream::COMMON.len() {
        counts[STREAMS[place]] = json!(zones.streams[place].zones);
    }
    counts
}

/// Zones by stream and age.
fn streams(zones: &ZoneCounts) -> Value {
    let one = |(name, own): (&str, &StreamZones)| {
        let seconds = (own.zones > 0).then_some(own.oldest_ms / 1000);
        ((*name).to_owned(), json!({ "zones": own.zones, "oldest_seconds": seconds }))
    };
    Value::Object(STREAMS.into_iter().zip(&zones.streams).map(one).collect())
}

fn streams_in_words(report: &Value) -> String {
    let one = |name: &&str| {
        let own = report.pointer(&format!("/zones/streams/{name}"))?;
        let seconds = own["oldest_seconds"].as_u64()?;
        let age = HumanDuration(Duration::from_secs(seconds));
        Some(format!("{} {name}, the oldest of {age:#}", own["zones"].as_u64()?))
    };
    let told: Vec<String> = STREAMS.iter().filter_map(one).collect();
    if told.is_empty() { String::new() } else { format!("streams   {}\n", told.join("; ")) }
}

fn recovered(recovery: &Recovery, time: Nanos) -> Value {
    #[allow(clippy::cast_precision_loss, reason = "seconds for people")]
    let seconds = time.0 as f64 / 1e9;
    json!({
        "seconds": seconds,
        "records_found": recovery.records_found,
        "records_hidden": recovery.records_hidden,
        "records_older": recovery.records_older,
        "records_without_slot": recovery.records_without_slot,
        "records_shared": recovery.records_shared,
        "zones_dropped": recovery.zones_dropped,
        "drives_emptied": recovery.drives_emptied,
        "emptied": recovery.is_emptied,
    })
}

/// Status of a cache that is not served: which of its drives are where they were. Nothing is opened for it; what is on them, `cache check`
/// tells.
fn not_served(directory: &CacheDirectory) -> Value {
    let one = |(place, entry): (usize, &CacheDrive)| {
        let path = directory.drive_path(entry);
        let state = match Peek::open(&path) {
            _ if entry.is_free() => "removed".to_owned(),
            Ok(peek) if peek.uuid() == *entry.uuid.as_bytes() => "there".to_owned(),
            Ok(_) => "not there, another drive is".to_owned(),
            Err(error) => match error.problem {
                DriveProblem::NotFound => "not there".to_owned(),
                problem => problem.to_string(),
            },
        };
        let path = (!entry.is_free()).then_some(path);
        json!({ "drive": place, "state": state, "path": path, "uuid": path.as_ref().map(|_| entry.uuid) })
    };
    let drives: Vec<Value> = directory.file.drive.iter().enumerate().map(one).collect();
    json!({ "uuid": directory.file.uuid, "served": false, "drive_states": drives })
}

/// The same for people.
fn not_served_in_words(report: &Value, dir: &str) -> String {
    let said =
        format!("served    no: `zoneweave cache serve {dir}` serves it, `cache check` reads all of it\n");
    said + &drives_in_words(report)
}

/// Status of a served cache as JSON.
pub fn json(seen: &Seen<'_>) -> Value {
    let (status, names) = (&seen.status, seen.names);
    let counters = status.counters;
    let mut zones = zones(&status.zones);
    zones["evicted"] = json!(counters.zones_evicted);
    zones["expired"] = json!(counters.zones_expired);
    zones["spared"] = json!(counters.zones_spared);
    zones["streams"] = streams(&status.zones);
    let admission = status.admission;
    let mut report = json!({
        "uuid": seen.directory.file.uuid,
        "served": true,
        "drives": status.drives,
        "takes_writes": !status.frozen,
        "objects": status.objects,
        "hits": { "buffers": counters.hits_buffer, "memory": counters.hits_memory, "flash": counters.hits_flash },
        "misses": counters.misses,
        "expired": counters.expired,
        "expired_share": status.expired_share(),
        "stores": counters.stores,
        "removes": counters.removes,
        "pages_read": counters.pages_read,
        "bytes_stored": counters.bytes_stored,
        "blocks_written": {
            "data": counters.blocks_data,
            "directory": counters.blocks_directory,
            "journal": counters.blocks_journal,
            "superblock": counters.blocks_superblock,
        },
        "admission": {
            "policy": admission.policy.to_string(),
            "bytes_admitted": counters.bytes_admitted,
            "held": { "objects": admission.held, "bytes": admission.held_bytes },
            "forgotten": { "objects": counters.forgotten, "bytes": counters.bytes_forgotten },
            "bytes_per_day": admission.bytes_per_day,
            "budget_left": admission.bytes_per_day.map(|_| f64::from(admission.level) / f64::from(WHOLE)),
        },
        "acknowledge": status.acknowledge.to_string(),
        "bytes_written": counters.bytes_written(),
        "eviction": status.eviction.to_string(),
        "reinserted": { "objects": counters.reinserted, "bytes": counters.bytes_reinserted },
        "recalled": counters.recalled,
        "bytes_written": counters.bytes_written(),
        "write_amplification": status.write_amplification(),
        "bytes_around": counters.bytes_around(),
        "batches": counters.batches,
        "batch_bytes": status.batch_bytes(),
        "invalidations": counters.entries,
        "invalidations_carried": counters.entries_carried,
        "zones": zones,
        "memory": {
            "index": status.index_bytes, "buffers": status.buffer_bytes, "copies": status.copies_bytes,
            "held": admission.held_bytes, "ghost": status.ghost_bytes, "listings": status.listing_bytes, "all": status.memory_bytes(),
            "slot": status.memory_of_slot(),
        },
        "namespaces": namespaces(status, names),
        "copies": status.copies,
        "index_slots": status.index_slots,
        "index_slots_max": status.index_slots_max,
        "index_full": counters.index_full,
        "damaged": counters.damaged,
        "absences": counters.absences,
    });
    // More than one expansion of the macro takes.
    report["drive_states"] = drives(seen).into();
    report["invalidate"] = json!(status.invalidate.to_string());
    report["recovery"] = recovered(&status.recovery, seen.recovered_in);
    report
}

/// Namespaces that have a share, or are used.
fn namespaces(status: &Status, names: &BTreeMap<Namespace, String>) -> Vec<Value> {
    let all = (0..).map(Namespace).zip(&status.namespaces);
    let used = all.filter(|(_, own)| own.share.is_some() || own.objects > 0 || own.counters.stores > 0);
    let one = |(namespace, own): (Namespace, &NamespaceStatus)| {
        let (counters, share) = (own.counters, own.share);
        json!({
            "namespace": namespace.0,
            "name": names.get(&namespace),
            "objects": own.objects,
            "hits": counters.hits,
            "misses": counters.misses,
            "stores": counters.stores,
            "share_percent": share.map(|share| share.flash_percent).filter(|percent| *percent > 0),
            "zones": own.zones,
            "zones_max": own.zones_max,
            "zones_evicted": counters.zones_evicted,
            "eviction": share.filter(|share| share.flash_percent > 0).map(|share| share.eviction.to_string()),
            "memory_percent": share.map(|share| share.memory_percent).filter(|percent| *percent > 0),
            "copies_bytes": own.copies_bytes,
            "ttl_max_ms": share.and_then(|share| share.ttl_max),
        })
    };
    used.map(one).collect()
}

fn namespaces_in_words(report: &Value) -> String {
    let line = |own: &Value| {
        let number = |name: &str| own[name].as_u64().unwrap_or(0);
        let name = own["name"].as_str().map_or_else(String::new, |name| format!(" ({name})"));
        let reads = (number("hits") + number("misses")).max(1);
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let hit = number("hits") as f64 / reads as f64;
        let mut text = format!(
            "namespace {}{name}: {} objects, {} stores, {:.1} % of reads hit",
            number("namespace"),
            number("objects"),
            number("stores"),
            hit * 100.0
        );
        if !own["share_percent"].is_null() {
            let (zones, most) = (number("zones"), number("zones_max"));
            text += &format!(
                "; {zones} of {most} zones of its own, {}, {} evicted",
                text_of(own, "eviction"),
                number("zones_evicted")
            );
        }
        if !own["memory_percent"].is_null() {
            text += &format!(
                "; {} of copies in its {} %",
                human_bytes(number("copies_bytes")),
                number("memory_percent")
            );
        }
        text + "\n"
    };
    let all = report["namespaces"].as_array().into_iter().flatten();
    // Where nobody has a share and database 0 is the only one, all else says it.
    let is_told = |own: &&Value| {
        own["namespace"] != 0 || !own["share_percent"].is_null() || !own["memory_percent"].is_null()
    };
    all.filter(is_told).map(line).collect()
}

fn in_words(report: &Value, dir: &str) -> String {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let mut text =
        format!("cache     {dir}, {} of flash, {}\n", text_of(report, "size"), text_of(report, "uuid"));
    if report["served"] == false {
        return text + &not_served_in_words(report, dir);
    }
    text += &format!("served    yes, {} of {} drives", number("/drives"), number("/members"));
    text += if report["takes_writes"] == true { "\n" } else { "; no drive takes writes\n" };
    let (memory, buffers) = (number("/hits/memory"), number("/hits/buffers"));
    let (flash, misses) = (number("/hits/flash"), number("/misses"));
    text += &format!("objects   {}\n", number("/objects"));
    text += &format!(
        "reads     {memory} hits in memory, {buffers} in buffers, {flash} in flash, {misses} misses\n"
    );
    text += &writes_in_words(report);
    text += &amplified_in_words(report);
    text += &format!(
        "zones     {} free, {} open, {} full, {} journal, {} leaving; {} of them main; {} evicted, {} spared\n",
        number("/zones/free"),
        number("/zones/open"),
        number("/zones/full"),
        number("/zones/journal"),
        number("/zones/leaving"),
        number("/zones/main"),
        number("/zones/evicted"),
        number("/zones/spared")
    );
    text += &streams_in_words(report);
    text += &format!(
        "expiring  {} zones of what lives for minutes, {} for hours, {} for days; {} went when all had expired",
        number("/zones/minutes"),
        number("/zones/hours"),
        number("/zones/days"),
        number("/zones/expired")
    );
    let share = report["expired_share"].as_f64().unwrap_or(0.0);
    text += &format!("; what has expired takes {:.1} % of the flash in use\n", share * 100.0);
    text += &admission_in_words(report);
    text += &namespaces_in_words(report);
    let (again, bytes) = (number("/reinserted/objects"), human_bytes(number("/reinserted/bytes")));
    text += &format!("eviction  {}, {again} objects of {bytes} written anew, ", text_of(report, "eviction"));
    text += &format!("{} stored again soon\n", number("/recalled"));
    text += &memory_in_words(report);
    let share = percent(number("/index_slots"), number("/index_slots_max"));
    let slot = report.pointer("/memory/slot").and_then(Value::as_f64).unwrap_or(0.0);
    text += &format!(
        "index     {share:.1} % of its slots are in use; {slot:.1} bytes of memory for each, used or not\n"
    );
    text += &format!(
        "journal   {} invalidations, {} of them written again as their zone had to go\n",
        number("/invalidations"),
        number("/invalidations_carried")
    );
    text += &drives_in_words(report);
    text += &recovery_in_words(report);
    if report.pointer("/recovery/emptied") == Some(&Value::Bool(true)) {
        text += "forgotten everything that was stored before: memory with invalidations is gone (--invalidate process)\n";
    }
    if let Some(absence) = report.pointer("/forget/absence").and_then(Value::as_str) {
        text += &format!("forgotten everything that was stored before: {absence}\n");
    }
    text
}

fn writes_in_words(report: &Value) -> String {
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    let text = format!("writes    {} stores, {} removes", number("stores"), number("removes"));
    match report["batch_bytes"].as_u64() {
        Some(bytes) => {
            format!("{text}; {} batches of {} on the mean\n", number("batches"), human_bytes(bytes))
        }
        None => text + "\n",
    }
}

fn recovery_in_words(report: &Value) -> String {
    let recovery = &report["recovery"];
    let number = |name: &str| recovery[name].as_u64().unwrap_or(0);
    format!(
        "recovery  {} records found, {} hidden, {} zones dropped, in {:.3} s\n",
        number("records_found"),
        number("records_hidden"),
        number("zones_dropped"),
        recovery["seconds"].as_f64().unwrap_or(0.0)
    )
}

#[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Bytes written for each byte that is admitted, by cause. Before a zone is full that is the first page and the record of the start,
/// over next to nothing: both numbers then, and no ratio.
fn amplified_in_words(report: &Value) -> String {
    let Some(ratio) = report["write_amplification"].as_f64() else { return String::new() };
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let admitted = number("/admission/bytes_admitted");
    if number("/zones/full") + number("/zones/evicted") == 0 {
        return format!(
            "written   {} for {} of keys and values, superblocks included; no zone is full yet\n",
            human_bytes(number("/bytes_written")),
            human_bytes(admitted)
        );
    }
    let of_blocks = |name: &str| number(&format!("/blocks_written/{name}")) * BLOCK_BYTES_U64;
    let causes = [
        ("headers and padding", number("/bytes_around")),
        ("written anew", number("/reinserted/bytes")),
        ("directories", of_blocks("directory")),
        ("journal", of_blocks("journal")),
        ("superblocks", of_blocks("superblock")),
    ];
    let causes: Vec<String> =
        causes.iter().map(|(name, bytes)| format!("{:.1} % {name}", percent(*bytes, admitted))).collect();
    format!(
        "amplified {ratio:.3} bytes written for each byte of keys and values: {} beside them\n",
        causes.join(", ")
    )
}

fn drives_in_words(report: &Value) -> String {
    let line = |drive: &Value| {
        let number = |pointer: &str| drive.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let name = format!("drive {:<3} {} ", number("/drive"), text_of(drive, "path"));
        match text_of(drive, "state") {
            "active" => format!(
                "{name}active, {} of {} used; {} zones free, {} open, {} full, {} leaving, {} of at most {} journal\n",
                human_bytes(number("/bytes_used")),
                human_bytes(number("/bytes")),
                number("/zones/free"),
                number("/zones/open"),
                number("/zones/full"),
                number("/zones/leaving"),
                number("/zones/journal"),
                number("/journal_zones_max")
            ),
            other => format!("{name}{other}\n"),
        }
    };
    report["drive_states"].as_array().into_iter().flatten().map(line).collect()
}

fn admission_in_words(report: &Value) -> String {
    let admission = &report["admission"];
    let number = |pointer: &str| admission.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (held, kept) = (number("/held/objects"), human_bytes(number("/held/bytes")));
    let (forgotten, saved) = (number("/forgotten/objects"), human_bytes(number("/forgotten/bytes")));
    let acknowledge = text_of(report, "acknowledge");
    let invalidate = if text_of(report, "invalidate") == "process" { ", invalidated in memory" } else { "" };
    let mut text =
        format!("stores answered by {acknowledge}{invalidate}, admission {}", text_of(admission, "policy"));
    if text_of(admission, "policy") != Admission::All.to_string() {
        text += &format!(
            ", {held} objects in memory alone ({kept}); {forgotten} of {saved} would have been written"
        );
    }
    if let (Some(budget), Some(left)) =
        (admission["bytes_per_day"].as_u64(), admission["budget_left"].as_f64())
    {
        text += &format!("; of {} a day, {:.0} % of an hour's are left", human_bytes(budget), left * 100.0);
    }
    text + "\n"
}

/// Uses of memory and their sum, beside the limit: clients have the rest of `--memory`.
fn memory_in_words(report: &Value) -> String {
    let bytes = |name: &str| report["memory"][name].as_u64().unwrap_or(0);
    let part = |name: &str| human_bytes(bytes(name));
    let mut text = format!("memory    {} of {}: {} for the index, ", part("all"), part("max"), part("index"));
    if bytes("ghost") > 0 {
        text += &format!("{} to remember what went, ", part("ghost"));
    }
    text += &format!("{} for the next directories, {} in buffers, ", part("listings"), part("buffers"));
    if bytes("held") > 0 {
        text += &format!("{} in objects that are not on flash, ", part("held"));
    }
    let copies = report["copies"].as_u64().unwrap_or(0);
    text + &format!("{} in {copies} copies of objects\n", part("copies"))
}

fn text_of<'a>(report: &'a Value, name: &str) -> &'a str {
    report[name].as_str().unwrap_or_default()
}
